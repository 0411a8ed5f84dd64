/* SPDX-License-Identifier: MIT */
/*
 * The station about the outside: programs that tasks start, and a signal that ends everything.
 */
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAMS = 40 };

struct company {
    unsigned programs;
    atomic_uint answered; /* tasks whose program has said something */
    atomic_uint reaped;   /* programs that were over before their task was */
    int64_t started_ns;   /* until the last program had answered */
    int64_t stopped_ns;   /* from the signal to the end of the last task */
};

/* Runs after the program was ended, because it was put down before. */
static void count_reaped(void *arg)
{
    struct company *company = arg;

    atomic_fetch_add(&company->reaped, 1);
}

/* Starts cat, tells it something, hears it back, and then waits for ever. */
static int employ(void *arg)
{
    static const char *const argv[] = {"cat", NULL};
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    struct company *company = arg;
    struct kin_process *process;
    char text[6] = "";
    size_t size = 0;
    int rc = kin_defer(count_reaped, company);

    options.in.kind = options.out.kind = KIN_STDIO_PIPE;
    if (rc == 0)
        rc = kin_process_start(argv, &options, &process);
    if (rc == 0)
        rc = kin_write(kin_process_pipe(process, 0), "hello", 5, NULL, KIN_NEVER);
    if (rc == 0)
        rc = kin_read_full(kin_process_pipe(process, 1), text, 5, &size, KIN_NEVER);
    if (rc < 0)
        return rc;
    if (strcmp(text, "hello") != 0)
        return -EPROTO;
    atomic_fetch_add(&company->answered, 1);
    return kin_process_wait(process, NULL, KIN_NEVER);
}

static int run_company(void *arg)
{
    struct company *company = arg;
    kin_time start = kin_now();
    KIN_NURSERY(n, .name = "company");
    int rc = kin_shutdown_on_signals(&n);

    for (unsigned i = 0; i < company->programs && rc == 0; i++)
        rc = kin_spawn(&n, employ, company);
    while (rc == 0 && atomic_load(&company->answered) < company->programs)
        rc = kin_sleep(kin_after(KIN_US(200))); /* ends: if one fails the sleep does, too */
    if (rc < 0)
        return kin_nursery_end(&n, rc);
    company->started_ns = kin_now() - start;
    start = kin_now();
    if (kill(getpid(), SIGTERM) != 0) /* as a service manager would */
        return kin_nursery_end(&n, -kin_errno());
    rc = kin_nursery_join(&n, NULL);
    company->stopped_ns = kin_now() - start;
    return rc == KIN_CANCELLED ? 0 : rc < 0 ? rc : KIN_ORPHAN;
}

int demo_processes(const struct tour *tour)
{
    struct company company = {.programs = tour->is_quick ? PROGRAMS / 4 : PROGRAMS};

    print_text("%u tasks start a program each, cat, send it a line through one pipe and read it "
               "back from another; no thread waits for any of them. Then this process gets a "
               "SIGTERM. One call, kin_shutdown_on_signals, has made that a cancellation of the "
               "nursery: every task ends, and takes its program along.",
               company.programs);
    int rc = demo_run(0, run_company, &company);
    if (rc < 0)
        return rc;
    if (atomic_load(&company.reaped) != company.programs)
        return demo_wrong("not every task came to its end", KIN_ORPHAN);
    if (waitpid(-1, NULL, WNOHANG) != -1 || kin_errno() != ECHILD)
        return demo_wrong("a process was left behind", KIN_ORPHAN);
    print_figure("programs at the same time", "%u, all had answered after %s", company.programs,
                 text_ns((double)company.started_ns));
    print_figure("from the signal to the end", "%s, and no process is left",
                 text_ns((double)company.stopped_ns));
    return 0;
}
