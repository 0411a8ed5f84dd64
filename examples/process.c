/* SPDX-License-Identifier: MIT */
/*
 * Processes in a small program: sort numbers by somebody else's program, and end one that hangs.
 *
 *     feed ---pipe---> sort -n ---pipe---> read
 *
 * A process belongs to the task that started it. One that takes too long is not looked after by
 * anybody: its task runs into its deadline and returns, and the process is gone with it.
 */
#include <kin/io.h>
#include <kin/kin.h>
#include <kin/process.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { NUMBERS = 1000, LINE = 16 };

static int feed(void *arg)
{
    struct kin_process *process = arg;
    unsigned number = 12345;
    int rc = 0;
    for (int i = 0; i < NUMBERS && rc == 0; i++) {
        char line[LINE];
        number = number * 1103515245u + 12345u;
        int size = snprintf(line, sizeof line, "%u\n", number >> 16);
        rc = kin_write(kin_process_pipe(process, 0), line, (size_t)size, NULL, KIN_NEVER);
    }
    kin_process_close(process, 0); /* the end of its input */
    return rc;
}

/* How many numbers come out in order; -errno. */
static int check(int fd)
{
    static char text[NUMBERS * LINE];
    size_t size;
    int rc = kin_read_full(fd, text, sizeof text - 1, &size, KIN_NEVER);
    if (rc < 0)
        return rc;
    int count = 0;
    unsigned long last = 0;
    for (char *at = text, *next; at < text + size; at = next + 1) {
        unsigned long number = strtoul(at, &next, 10);
        if (next == at || number < last)
            return -EPROTO;
        last = number;
        count++;
    }
    return count;
}

static int sort_numbers(void *arg)
{
    const char *argv[] = {"sort", "-n", NULL};
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    struct kin_process *process;
    int wstatus;
    (void)arg;

    options.in.kind = options.out.kind = KIN_STDIO_PIPE;
    int rc = kin_process_start(argv, &options, &process);
    if (rc < 0)
        return rc;
    KIN_NURSERY(n);
    rc = kin_spawn(&n, feed, process);
    int count = rc < 0 ? rc : check(kin_process_pipe(process, 1));
    rc = kin_nursery_end(&n, count);
    if (rc == 0)
        rc = kin_process_wait(process, &wstatus, KIN_NEVER);
    if (rc == 0)
        printf("sort put %d numbers in order and ended with %d\n", count, WEXITSTATUS(wstatus));
    return rc < 0 ? rc : count == NUMBERS && wstatus == 0 ? 0 : -EPROTO;
}

static pid_t pid_of_sleeper;

static int run_too_long(void *arg)
{
    const char *argv[] = {"sleep", "1000", NULL};
    struct kin_process *process;
    (void)arg;
    int rc = kin_process_start(argv, NULL, &process);
    if (rc < 0)
        return rc;
    pid_of_sleeper = kin_process_pid(process);
    return kin_process_wait(process, NULL, kin_after(KIN_MS(50)));
}

static int run_all(void *arg)
{
    int rc = sort_numbers(arg);
    if (rc < 0)
        return rc;
    KIN_NURSERY(n);
    rc = kin_spawn(&n, run_too_long, NULL);
    rc = kin_nursery_end(&n, rc);
    if (rc != KIN_TIMEOUT)
        return rc < 0 ? rc : -EPROTO;
    bool is_gone = kill(pid_of_sleeper, 0) != 0 && kin_errno() == ESRCH;
    printf("sleep took too long and is %s\n", is_gone ? "gone" : "still there");
    return is_gone ? 0 : -EPROTO;
}

int main(void)
{
    int rc = kin_run(NULL, run_all, NULL);
    printf("%s\n", kin_status_name(rc));
    return rc == 0 ? 0 : 1;
}
