/* SPDX-License-Identifier: MIT */
/*
 * Goal: programs are started, talked to, waited for and killed; none outlives its scope, and none
 * is left as a zombie.
 * Method: the shell, cat and sleep, with pipes; every way a wait can end and a task can end; after
 * each runtime this process has no child.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include <kin/io.h>
#include <kin/process.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const sleeper[] = {"/bin/sleep", "1000", NULL};

static void expect_no_child(void)
{
    int wstatus;
    EXPECT_EQ(waitpid(-1, &wstatus, WNOHANG), -1);
    EXPECT_EQ(kin_errno(), ECHILD);
}

/* On one worker and on two; no process is left, and no descriptor. */
static void both(kin_task_fn *fn)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        int before = dup(0);
        EXPECT_EQ(close(before), 0);
        EXPECT_EQ(run_reporting(workers, fn, NULL, NULL), 0);
        expect_no_child();
        int after = dup(0);
        EXPECT_EQ(close(after), 0);
        EXPECT_EQ(after, before);
    }
}

static struct kin_process *start_sleeper(void)
{
    struct kin_process *process = NULL;
    EXPECT_EQ(kin_process_start(sleeper, NULL, &process), 0);
    EXPECT_EQ(kill(kin_process_pid(process), 0), 0);
    return process;
}

static struct kin_process *start_shell(const char *command, const struct kin_process_options *how)
{
    const char *argv[] = {"/bin/sh", "-c", command, NULL};
    struct kin_process *process = NULL;
    EXPECT_EQ(kin_process_start(argv, how, &process), 0);
    return process;
}

/* Reads until the end; how many bytes. */
static size_t read_all(int fd, char *text, size_t size)
{
    size_t have;
    EXPECT_EQ(kin_read_full(fd, text, size - 1, &have, KIN_NEVER), 0);
    text[have] = '\0';
    return have;
}

/* ---- starting and waiting ---- */

static int wait_for_ends(void *arg)
{
    int wstatus = -1;
    (void)arg;
    struct kin_process *process = start_shell("exit 3", NULL);
    EXPECT_GT(kin_process_pid(process), 0);
    EXPECT_EQ(kin_process_wait(process, &wstatus, KIN_NEVER), 0);
    EXPECT(WIFEXITED(wstatus));
    EXPECT_EQ(WEXITSTATUS(wstatus), 3);
    wstatus = -1;
    EXPECT_EQ(kin_process_wait(process, &wstatus, 0), 0); /* the answer stays */
    EXPECT_EQ(WEXITSTATUS(wstatus), 3);
    EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_process_kill(process, SIGTERM), -ESRCH);
    process = start_shell("kill -TERM $$", NULL);
    EXPECT_EQ(kin_process_wait(process, &wstatus, KIN_NEVER), 0);
    EXPECT(WIFSIGNALED(wstatus));
    EXPECT_EQ(WTERMSIG(wstatus), SIGTERM);
    return 0;
}

KIN_TEST(the_end_of_a_process_is_told, "")
{
    both(wait_for_ends);
}

static int wait_in_vain(void *arg)
{
    int wstatus = 77;
    (void)arg;
    struct kin_process *process = start_sleeper();
    EXPECT_EQ(kin_process_wait(process, &wstatus, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_process_wait(process, &wstatus, kin_after(KIN_MS(5))), KIN_TIMEOUT);
    EXPECT_EQ(wstatus, 77);
    EXPECT_EQ(kin_process_kill(process, 0), 0); /* it is there */
    EXPECT_EQ(kin_process_kill(process, 12345), -EINVAL);
    EXPECT_EQ(kin_process_kill(process, -1), -EINVAL);
    EXPECT_EQ(kin_process_kill(process, SIGTERM), 0);
    EXPECT_EQ(kin_process_wait(process, &wstatus, KIN_NEVER), 0);
    EXPECT_EQ(WTERMSIG(wstatus), SIGTERM);
    return 0;
}

KIN_TEST(deadlines_do_nothing_to_the_process, "")
{
    both(wait_in_vain);
}

static int wait_for_it(void *arg)
{
    int wstatus = -1;
    int rc = kin_process_wait(arg, &wstatus, KIN_NEVER);
    return rc < 0 ? rc : WTERMSIG(wstatus);
}

static int wait_together(void *arg)
{
    struct kin_task_ref refs[8];
    struct kin_outcome how;
    (void)arg;
    for (int round = 0; round < 10; round++) {
        struct kin_process *process = start_sleeper();
        KIN_NURSERY(n);
        for (int i = 0; i < 8; i++)
            EXPECT_EQ(kin_spawn_with(&n, NULL, wait_for_it, process, 0, &refs[i]), 0);
        if (round % 2)
            EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
        EXPECT_EQ(kin_process_kill(process, SIGKILL), 0);
        for (int i = 0; i < 8; i++) {
            EXPECT_EQ(kin_task_join(&n, refs[i], &how, KIN_NEVER), 0);
            EXPECT_EQ(how.value, SIGKILL);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        kin_process_destroy(process);
    }
    return 0;
}

KIN_TEST(any_number_of_tasks_may_wait, "")
{
    both(wait_together);
}

static int cancel_a_wait(void *arg)
{
    (void)arg;
    struct kin_process *process = start_sleeper();
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, wait_for_it, process), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_process_kill(process, 0), 0); /* it is not the waiter's */
    return 0;
}

KIN_TEST(a_cancelled_wait_does_nothing_to_the_process, "")
{
    both(cancel_a_wait);
}

static int fail_to_start(void *arg)
{
    const char *missing[] = {"/nowhere/at-all", NULL}, *unknown[] = {"kin-no-such-program", NULL};
    const char *denied[] = {"/", NULL}, *none[] = {NULL};
    struct kin_process *process = (void *)77;
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    (void)arg;
    EXPECT_EQ(kin_process_start(missing, NULL, &process), -ENOENT);
    EXPECT_EQ(kin_process_start(unknown, NULL, &process), -ENOENT);
    EXPECT_EQ(kin_process_start(denied, NULL, &process), -EACCES);
    EXPECT_EQ(kin_process_start(none, NULL, &process), -EINVAL);
    EXPECT_EQ(kin_process_start(NULL, NULL, &process), -EINVAL);
    EXPECT_EQ(kin_process_start(sleeper, NULL, NULL), -EINVAL);
    options.cwd = "/nowhere";
    options.in.kind = options.out.kind = options.err.kind = KIN_STDIO_PIPE;
    EXPECT_EQ(kin_process_start(sleeper, &options, &process), -ENOENT); /* pipes are closed */
    options.cwd = NULL;
    options.err = (struct kin_stdio){KIN_STDIO_FD, -1};
    EXPECT_EQ(kin_process_start(sleeper, &options, &process), -EBADF);
    options.err.fd = 999;
    EXPECT_EQ(kin_process_start(sleeper, &options, &process), -EBADF);
    options.err.kind = (enum kin_stdio_kind)17;
    EXPECT_EQ(kin_process_start(sleeper, &options, &process), -EINVAL);
    options.err.kind = KIN_STDIO_INHERIT;
    options.out.kind = KIN_STDIO_OUT; /* of itself */
    EXPECT_EQ(kin_process_start(sleeper, &options, &process), -EINVAL);
    options.out.kind = KIN_STDIO_INHERIT;
    options.grace = -2;
    EXPECT_EQ(kin_process_start(sleeper, &options, &process), -EINVAL);
    options.grace = 0;
    options.size--;
    EXPECT_EQ(kin_process_start(sleeper, &options, &process), -EINVAL);
    EXPECT_PTR(process, (void *)77);
    EXPECT_EQ(kin_process_wait(NULL, NULL, 0), -EINVAL);
    EXPECT_EQ(kin_process_kill(NULL, 0), -EINVAL);
    EXPECT_EQ(kin_process_pid(NULL), 0);
    EXPECT_EQ(kin_process_pipe(NULL, 0), -EBADF);
    EXPECT_EQ(kin_process_close(NULL, 0), -EBADF);
    kin_process_destroy(NULL);
    return 0;
}

KIN_TEST(what_cannot_start_is_told_and_leaves_nothing, "")
{
    struct kin_process *process;
    EXPECT_EQ(kin_process_start(sleeper, NULL, &process), KIN_NOTASK);
    both(fail_to_start);
}

static int lack_the_capability(void *arg)
{
    struct kin_process *process;
    EXPECT_EQ(kin_process_start(sleeper, NULL, &process), KIN_NOCAP);
    EXPECT_EQ(kin_process_wait(arg, NULL, 0), KIN_NOCAP);
    EXPECT_EQ(kin_process_kill(arg, SIGKILL), KIN_NOCAP);
    return 0;
}

static int without_the_capability(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    options.caps = KIN_CAP_ALL & ~KIN_CAP_PROCESS;
    struct kin_process *process = start_sleeper();
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, &options, lack_the_capability, process, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_process_kill(process, 0), 0);
    return 0;
}

KIN_TEST(processes_need_a_capability, "")
{
    both(without_the_capability);
}

/* ---- talking ---- */

static int talk_to_cat(void *arg)
{
    const char *cat[] = {"cat", NULL};
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    struct kin_process *process;
    char text[64];
    int wstatus;
    (void)arg;
    options.in.kind = options.out.kind = KIN_STDIO_PIPE;
    EXPECT_EQ(kin_process_start(cat, &options, &process), 0);
    int in = kin_process_pipe(process, 0), out = kin_process_pipe(process, 1);
    EXPECT_EQ(kin_process_pipe(process, 2), -EBADF);
    EXPECT_EQ(kin_process_pipe(process, 3), -EBADF);
    EXPECT_EQ(kin_process_pipe(process, -1), -EBADF);
    for (int i = 0; i < 50; i++) {
        size_t done;
        EXPECT_EQ(kin_write(in, "line\n", 5, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_read_full(out, text, 5, &done, KIN_NEVER), 0);
        EXPECT_EQ(done, 5);
        EXPECT_EQ(memcmp(text, "line\n", 5), 0);
    }
    EXPECT_EQ(kin_read(out, text, 1, kin_after(KIN_MS(5))), KIN_TIMEOUT);
    EXPECT_EQ(kin_process_close(process, 0), 0);
    EXPECT_EQ(kin_process_close(process, 0), -EBADF);
    EXPECT_EQ(kin_process_pipe(process, 0), -EBADF);
    EXPECT_EQ(kin_read(out, text, sizeof text, KIN_NEVER), 0); /* it has seen the end, and ended */
    EXPECT_EQ(kin_process_wait(process, &wstatus, KIN_NEVER), 0);
    EXPECT_EQ(wstatus, 0);
    return 0;
}

KIN_TEST(a_process_can_be_talked_to, "")
{
    both(talk_to_cat);
}

static int read_both(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    const char *env[] = {"WORD=blue", NULL};
    char text[128];
    (void)arg;
    options.env = env;
    options.cwd = "/";
    options.in.kind = KIN_STDIO_NULL;
    options.out.kind = options.err.kind = KIN_STDIO_PIPE;
    struct kin_process *process = start_shell("read x; echo $WORD; pwd; echo bad >&2", &options);
    EXPECT_EQ(read_all(kin_process_pipe(process, 1), text, sizeof text), 7);
    EXPECT_STR(text, "blue\n/\n");
    EXPECT_EQ(read_all(kin_process_pipe(process, 2), text, sizeof text), 4);
    EXPECT_STR(text, "bad\n");
    options.err.kind = KIN_STDIO_OUT;
    process = start_shell("echo one; echo two >&2", &options);
    EXPECT_EQ(kin_process_pipe(process, 2), -EBADF);
    EXPECT_EQ(read_all(kin_process_pipe(process, 1), text, sizeof text), 8);
    EXPECT_STR(text, "one\ntwo\n");
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    options.out = (struct kin_stdio){KIN_STDIO_FD, ends[1]};
    process = start_shell("echo three; echo four >&2", &options);
    EXPECT_EQ(kin_process_pipe(process, 1), -EBADF);
    EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_close(ends[1]), 0);
    EXPECT_EQ(read_all(ends[0], text, sizeof text), 11);
    EXPECT_STR(text, "three\nfour\n");
    EXPECT_EQ(kin_close(ends[0]), 0);
    options.out.kind = options.err.kind = KIN_STDIO_NULL;
    process = start_shell("echo five; echo six >&2", &options);
    EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), 0);
    return 0;
}

KIN_TEST(its_descriptors_are_what_was_asked_for, "")
{
    both(read_both);
}

static int see_descriptors(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    char text[128];
    int leak = open("/dev/null", O_RDONLY); /* not close-on-exec */
    (void)arg;
    EXPECT_GE(leak, 3);
    options.in.kind = KIN_STDIO_NULL;
    options.out.kind = KIN_STDIO_PIPE;
    struct kin_process *other = start_shell("cat", &options);
    struct kin_process *process =
        start_shell("ls /proc/self/fd | sort -n | tr '\\n' ' '", &options);
    (void)read_all(kin_process_pipe(process, 1), text, sizeof text);
    EXPECT_STR(text, "0 1 2 3 "); /* 3 is the directory itself */
    kin_process_destroy(process);
    kin_process_destroy(other);
    EXPECT_EQ(close(leak), 0);
    return 0;
}

KIN_TEST(no_descriptor_leaks_in, "")
{
    both(see_descriptors);
}

/* More than the pipes hold, in both directions at once. */
enum { FLOOD = 300000 };

static int feed(void *arg)
{
    static char bytes[FLOOD];
    struct kin_process *process = arg;
    memset(bytes, 'x', sizeof bytes);
    int rc = kin_write(kin_process_pipe(process, 0), bytes, sizeof bytes, NULL, KIN_NEVER);
    EXPECT_EQ(kin_process_close(process, 0), 0);
    return rc;
}

static int flood(void *arg)
{
    const char *cat[] = {"/bin/cat", NULL};
    static char bytes[FLOOD + 2];
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    struct kin_process *process;
    (void)arg;
    options.in.kind = options.out.kind = KIN_STDIO_PIPE;
    EXPECT_EQ(kin_process_start(cat, &options, &process), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, feed, process), 0);
    EXPECT_EQ(read_all(kin_process_pipe(process, 1), bytes, sizeof bytes), FLOOD);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_process_destroy(process);
    return 0;
}

KIN_TEST(much_goes_through, "")
{
    both(flood);
}

static int write_to_the_dead(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    (void)arg;
    options.in.kind = KIN_STDIO_PIPE;
    struct kin_process *process = start_shell("exit 0", &options);
    EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_write(kin_process_pipe(process, 0), "x", 1, NULL, KIN_NEVER), -EPIPE);
    return 0;
}

KIN_TEST(writing_to_one_that_is_over_raises_no_signal, "")
{
    both(write_to_the_dead);
}

/* ---- the end of the scope ---- */

/* Whether there is no such process any more. */
static bool is_gone(pid_t pid)
{
    return kill(pid, 0) != 0 && kin_errno() == ESRCH;
}

struct stubborn {
    int64_t grace;
    _Atomic pid_t *pid;
};

static int leave_one(void *arg)
{
    struct kin_process *process = start_sleeper();
    atomic_store((_Atomic pid_t *)arg, kin_process_pid(process));
    return 0;
}

static int leave_one_by_failing(void *arg)
{
    (void)leave_one(arg);
    kin_fail(-EIO, "on purpose");
}

static int leave_one_by_panicking(void *arg)
{
    (void)leave_one(arg);
    kin_panic("on purpose");
}

static int leave_one_when_cancelled(void *arg)
{
    (void)leave_one(arg);
    return kin_sleep(KIN_NEVER);
}

static int end_in_every_way(void *arg)
{
    kin_task_fn *const ways[] = {leave_one, leave_one_by_failing, leave_one_by_panicking,
                                 leave_one_when_cancelled};
    (void)arg;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        _Atomic pid_t pid = 0;
        struct kin_outcome how;
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, ways[i], &pid), 0);
        while (!atomic_load(&pid)) /* ends: by the alarm of the test at the latest */
            kin_ignore(kin_sleep(kin_after(KIN_MS(1))));
        if (i == 3)
            kin_nursery_cancel(&n, 0);
        kin_ignore(kin_nursery_join(&n, &how));
        EXPECT(is_gone(pid)); /* not even a zombie */
    }
    return 0;
}

KIN_TEST(no_process_outlives_its_task, "NCG-3")
{
    both(end_in_every_way);
}

static int release_a_scope(void *arg)
{
    (void)arg;
    struct kin_process *first = start_sleeper();
    void *mark = kin_scope_mark();
    pid_t pid = kin_process_pid(start_sleeper());
    kin_scope_release(mark);
    EXPECT(is_gone(pid));
    EXPECT_EQ(kin_process_kill(first, 0), 0);
    return 0;
}

KIN_TEST(a_process_ends_with_the_scope_it_was_started_in, "NCG-3")
{
    both(release_a_scope);
}

static int destroy_some(void *arg)
{
    (void)arg;
    struct kin_process *all[5];
    for (int i = 0; i < 5; i++)
        all[i] = start_sleeper();
    static const int order[] = {2, 4, 0}; /* the others are left to the end */
    for (int i = 0; i < 3; i++) {
        pid_t pid = kin_process_pid(all[order[i]]);
        kin_process_destroy(all[order[i]]);
        EXPECT(is_gone(pid));
    }
    EXPECT_EQ(kin_process_kill(all[1], 0), 0);
    EXPECT_EQ(kin_process_kill(all[3], 0), 0);
    return 0;
}

KIN_TEST(a_process_can_be_ended_by_hand, "")
{
    both(destroy_some);
}

/* Waits for the first line of a process: it heeds signals as it means to. */
static void await_ready(int fd)
{
    char text[8];
    size_t done;
    EXPECT_EQ(kin_read_full(fd, text, 6, &done, KIN_NEVER), 0);
}

/* Destroys a process that says goodbye when it is asked as the options say, and has the time. */
static void ask(struct kin_process_options options, const char *command)
{
    char text[64];
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    options.out = (struct kin_stdio){KIN_STDIO_FD, ends[1]};
    struct kin_process *process = start_shell(command, &options);
    await_ready(ends[0]);
    kin_process_destroy(process);
    EXPECT_EQ(kin_close(ends[1]), 0);
    EXPECT_EQ(read_all(ends[0], text, sizeof text), 4);
    EXPECT_STR(text, "bye\n");
    EXPECT_EQ(kin_close(ends[0]), 0);
}

/* Without a word about it: asked by SIGTERM. */
static int ask_by_default(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    (void)arg;
    ask(options, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    return 0;
}

KIN_TEST(by_default_it_is_asked_first, "")
{
    both(ask_by_default);
}

/* Has a process that does not heed SIGTERM. */
static int be_stubborn(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    const struct stubborn *how = arg;
    options.grace = how->grace;
    options.out.kind = KIN_STDIO_PIPE;
    struct kin_process *process =
        start_shell("trap '' TERM; echo ready; exec sleep 1000", &options);
    await_ready(kin_process_pipe(process, 1));
    *how->pid = kin_process_pid(process);
    return kin_process_wait(process, NULL, KIN_NEVER);
}

static int end_the_stubborn(void *arg)
{
    static const struct {
        int64_t nursery, process;
    } graces[] = {{KIN_MS(40), 0},           /* half of the nursery's */
                  {KIN_SEC(1000), KIN_MS(5)}, /* its own */
                  {KIN_SEC(1000), KIN_BRUTAL},
                  {KIN_MS(40), KIN_SEC(1000)}}; /* the nursery's is over first */
    (void)arg;
    for (size_t i = 0; i < sizeof graces / sizeof graces[0]; i++) {
        _Atomic pid_t pid = 0;
        KIN_NURSERY(n, .cancel_grace = graces[i].nursery);
        EXPECT_EQ(kin_spawn_copy(&n, be_stubborn,
                                 KIN_ARGS(struct stubborn, graces[i].process, &pid)), 0);
        while (!atomic_load(&pid)) /* ends: by the alarm of the test at the latest */
            kin_ignore(kin_sleep(kin_after(KIN_MS(1))));
        kin_nursery_cancel(&n, 0);
        int rc = kin_nursery_join(&n, NULL);
        EXPECT(rc == KIN_CANCELLED || rc == KIN_STUCK); /* the last one outstays the grace */
        EXPECT(is_gone(pid));
    }
    return 0;
}

KIN_TEST(the_stubborn_are_killed_when_their_grace_or_the_nursery_s_is_over, "B7")
{
    both(end_the_stubborn);
}

static int ask_politely(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    (void)arg;
    options.grace = KIN_SEC(30);
    options.stop_signal = SIGUSR1;
    ask(options, "trap 'echo bye; exit 0' USR1; echo ready; while :; do sleep 0.01; done");
    return 0;
}

KIN_TEST(with_a_grace_it_is_asked_first, "")
{
    both(ask_politely);
}

static int ask_in_vain(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    (void)arg;
    options.grace = KIN_MS(20);
    options.out.kind = KIN_STDIO_PIPE;
    struct kin_process *process =
        start_shell("trap '' TERM; echo ready; while :; do sleep 0.01; done", &options);
    await_ready(kin_process_pipe(process, 1));
    pid_t pid = kin_process_pid(process);
    kin_process_destroy(process);
    EXPECT(is_gone(pid));
    return 0;
}

KIN_TEST(one_that_does_not_heed_is_killed, "")
{
    both(ask_in_vain);
}

/* A child of the child holds the pipe: it is at its end only when that one is gone, too. */
static int end_a_group(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    char text[64];
    (void)arg;
    for (int group = KIN_PROCESS_GROUP; group <= KIN_PROCESS_SESSION; group++) {
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        options.group = (enum kin_process_group)group;
        options.out = (struct kin_stdio){KIN_STDIO_FD, ends[1]};
        struct kin_process *running = start_shell("sleep 1000 & wait", &options);
        struct kin_process *over = start_shell("sleep 1000 & exit 5", &options);
        int wstatus;
        EXPECT_EQ(kin_process_wait(over, &wstatus, KIN_NEVER), 0);
        EXPECT_EQ(WEXITSTATUS(wstatus), 5);
        EXPECT_EQ(kin_process_kill(over, 0), 0); /* the group is still there */
        EXPECT_EQ(kin_close(ends[1]), 0);
        kin_process_destroy(running);
        EXPECT_EQ(kin_read(ends[0], text, 1, kin_after(KIN_MS(5))), KIN_TIMEOUT);
        kin_process_destroy(over);
        EXPECT_EQ(read_all(ends[0], text, sizeof text), 0);
        EXPECT_EQ(kin_close(ends[0]), 0);
    }
    return 0;
}

KIN_TEST(a_group_goes_as_a_whole, "")
{
    both(end_a_group);
}

static int destroy_for_another(void *arg)
{
    kin_process_destroy(arg);
    return 0;
}

static int let_another_destroy(void *arg)
{
    (void)arg;
    struct kin_process *process = start_sleeper();
    EXPECT_EQ(kin_process_kill(process, SIGKILL), 0); /* so that none is left by the abort */
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, destroy_for_another, process), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(only_its_task_destroys_it, "NCG-3")
{
    EXPECT_ABORT("kin_process_destroy")
    {
        kin_ignore(run_reporting(1, let_another_destroy, NULL, NULL));
    }
}

/* ---- others who reap ---- */

static int lose_the_status(void *arg)
{
    int wstatus;
    (void)arg;
    struct kin_process *process = start_sleeper();
    EXPECT_EQ(kin_process_kill(process, SIGKILL), 0);
    EXPECT_EQ(waitpid(kin_process_pid(process), &wstatus, 0), kin_process_pid(process));
    EXPECT_EQ(kin_process_wait(process, &wstatus, KIN_NEVER), -ECHILD);
    EXPECT_EQ(kin_process_wait(process, &wstatus, 0), -ECHILD);
    EXPECT_EQ(kin_process_kill(process, SIGTERM), -ESRCH); /* whoever has that number now */
    return 0;
}

static int ignore_children(void *arg)
{
    (void)arg;
    struct kin_process *process = start_shell("exit 3", NULL);
    EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), -ECHILD);
    process = start_sleeper();
    EXPECT_EQ(kin_process_wait(process, NULL, kin_after(KIN_MS(5))), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(a_status_that_somebody_else_took_is_told, "")
{
    both(lose_the_status);
    EXPECT(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    both(ignore_children);
}

/* ---- many ---- */

static int start_and_wait(void *arg)
{
    const char *argv[] = {"/bin/sh", "-c", "exit 9", NULL};
    (void)arg;
    for (int i = 0; i < 5; i++) {
        struct kin_process *process;
        int wstatus, rc = kin_process_start(argv, NULL, &process);
        if (rc < 0)
            return rc;
        rc = kin_process_wait(process, &wstatus, KIN_NEVER);
        if (rc < 0)
            return rc;
        EXPECT_EQ(WEXITSTATUS(wstatus), 9);
        if (i % 2)
            kin_process_destroy(process);
    }
    return 0;
}

static int start_many(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 12; i++)
        EXPECT_EQ(kin_spawn(&n, start_and_wait, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(many_tasks_start_processes, "")
{
    both(start_many);
}

/* A hundred that run at the same time, each with pipes of its own. */
enum { HUNDRED = 100 };

static int start_a_hundred(void *arg)
{
    const char *cat[] = {"/bin/cat", NULL};
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    struct kin_process *all[HUNDRED];
    char text[16];
    (void)arg;
    options.in.kind = options.out.kind = KIN_STDIO_PIPE;
    for (int i = 0; i < HUNDRED; i++)
        EXPECT_EQ(kin_process_start(cat, &options, &all[i]), 0);
    for (int i = 0; i < HUNDRED; i++)
        EXPECT_EQ(kin_process_wait(all[i], NULL, 0), KIN_TIMEOUT);
    for (int i = 0; i < HUNDRED; i++) {
        int size = snprintf(text, sizeof text, "%d", i);
        EXPECT_EQ(kin_write(kin_process_pipe(all[i], 0), text, (size_t)size, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_process_close(all[i], 0), 0);
    }
    for (int i = HUNDRED - 1; i >= 0; i--) {
        int wstatus;
        (void)read_all(kin_process_pipe(all[i], 1), text, sizeof text);
        EXPECT_EQ(atoi(text), i);
        EXPECT_EQ(kin_process_wait(all[i], &wstatus, KIN_NEVER), 0);
        EXPECT_EQ(wstatus, 0);
    }
    for (int i = 0; i < HUNDRED / 2; i++) /* the rest is left to the end of the task */
        kin_process_destroy(all[2 * i]);
    return 0;
}

KIN_TEST(a_hundred_run_at_the_same_time, "")
{
    both(start_a_hundred);
}

/* With few descriptors left: each start works, or says so and leaves nothing. */
static int lack_descriptors(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    struct rlimit before, few;
    struct kin_process *process = start_sleeper();
    int failed = 0, worked = 0;
    (void)arg;
    /* so that what is made for the first wait is there */
    EXPECT_EQ(kin_process_wait(process, NULL, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    kin_process_destroy(process);
    options.in.kind = options.out.kind = options.err.kind = KIN_STDIO_PIPE;
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    int first = dup(0); /* or one less: another thread may have the lowest for a moment */
    EXPECT_EQ(close(first), 0);
    int held = count_descriptors();
    for (int more = 0; more <= 12; more++) {
        few = before;
        few.rlim_cur = (rlim_t)(first + more);
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        int rc = kin_process_start(sleeper, &options, &process);
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
        EXPECT(rc == 0 || rc == -EMFILE);
        failed += rc < 0;
        worked += rc == 0;
        if (rc == 0)
            kin_process_destroy(process);
        expect_no_child();
        EXPECT_EQ(count_descriptors(), held);
    }
    EXPECT_GT(failed, 6);
    EXPECT_GT(worked, 0);
    return 0;
}

KIN_TEST(want_of_descriptors_is_told_and_leaves_nothing, "")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.stall_threshold = KIN_NEVER; /* without the monitor, which opens one now and then */
    for (config.workers = 1; config.workers <= 2; config.workers++)
        EXPECT_EQ(kin_run(&config, lack_descriptors, NULL), 0);
}

/* Refused by the budget: nothing has begun. */
static int start_without_budget(void *arg)
{
    struct kin_process *process = (void *)77;
    (void)arg;
    int rc = kin_process_start(sleeper, NULL, &process);
    EXPECT_EQ(rc, 0);
    rc = kin_process_kill(process, SIGKILL); /* the second and last system call */
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), KIN_BUDGET);
    struct kin_process *other = (void *)77;
    EXPECT_EQ(kin_process_start(sleeper, NULL, &other), KIN_BUDGET);
    EXPECT_PTR(other, (void *)77);
    return 0;
}

static int charge_processes(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    options.budget = KIN_UNLIMITED_BUDGET;
    options.budget.syscalls = 2;
    KIN_NURSERY(n, .on_exhausted = KIN_EXHAUSTED_FAIL, .recharge = KIN_RECHARGE_MANUAL);
    EXPECT_EQ(kin_spawn_with(&n, &options, start_without_budget, NULL, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    expect_no_child();
    return 0;
}

KIN_TEST(each_call_costs_a_system_call, "")
{
    both(charge_processes);
}

/* Cancelled at any moment: before the start, in it, in the wait. */
static int cancel_at_random(void *arg)
{
    (void)arg;
    for (int i = 0; i < 12; i++) {
        KIN_NURSERY(n);
        for (int j = 0; j < 3; j++)
            EXPECT_EQ(kin_spawn(&n, start_and_wait, NULL), 0);
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(300) * i)), 0);
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
        expect_no_child();
    }
    return 0;
}

KIN_TEST(a_cancel_at_any_moment_leaves_no_process, "")
{
    both(cancel_at_random);
}
