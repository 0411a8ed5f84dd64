/* SPDX-License-Identifier: MIT */
/*
 * Goal: the steps of a process one by one: what options make no sense, want of resources, the end
 * that several find at once, systems without descriptors of processes.
 * Method: white box: processes made and run by hand, without a cleanup; requests that fail on
 * purpose; features of the system taken away.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "wait/poll.h"
#include "wait/process.h"

#include <kin/process.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const sleeper[] = {"/bin/sleep", "1000", NULL};
static const char *const yes[] = {"/bin/true", NULL};

KIN_TEST(options_that_make_no_sense_are_refused, "")
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    const char *const none[] = {NULL};
    EXPECT_EQ(kin__process_check(yes, NULL), 0);
    EXPECT_EQ(kin__process_check(yes, &options), 0);
    EXPECT_EQ(kin__process_check(none, NULL), -EINVAL);
    EXPECT_EQ(kin__process_check(NULL, NULL), -EINVAL);
    options.stop_signal = 65;
    EXPECT_EQ(kin__process_check(yes, &options), -EINVAL);
    options.stop_signal = 0;
    options.group = (enum kin_process_group)3;
    EXPECT_EQ(kin__process_check(yes, &options), -EINVAL);
    options.group = KIN_PROCESS_SHARED;
    options.in.kind = KIN_STDIO_OUT;
    EXPECT_EQ(kin__process_check(yes, &options), -EINVAL);
    options.in.kind = KIN_STDIO_INHERIT;
    options.err.kind = KIN_STDIO_OUT;
    EXPECT_EQ(kin__process_check(yes, &options), 0);
}

/* A process that never ran is over, and has nothing to close. */
static int make_only(void *arg)
{
    (void)arg;
    struct kin_process *process = kin__process_make(NULL, 0);
    EXPECT(process != NULL);
    EXPECT_EQ(process->stop_signal, SIGTERM);
    EXPECT_EQ(kin_process_kill(process, SIGTERM), -ESRCH);
    kin__process_end(process);
    kin__process_free(process);
    return 0;
}

KIN_TEST(one_that_never_ran_is_over, "")
{
    EXPECT_EQ(run_reporting(1, make_only, NULL, NULL), 0);
}

static int lack_everything(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    int failed = 0;
    (void)arg;
    options.in.kind = KIN_STDIO_NULL;
    options.out.kind = options.err.kind = KIN_STDIO_PIPE;
    for (uint64_t n = 1; n <= 30; n++) {
        struct kin_process *process = kin__process_make(&options, 0);
        EXPECT(process != NULL);
        kin__plat_fail_after(n, false);
        int rc = kin__process_run(process, yes, &options);
        kin__plat_fail_after(0, false);
        if (rc == 0)
            EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), 0);
        else
            EXPECT(rc == -ENOMEM || rc == -EAGAIN || rc == -EMFILE);
        failed += rc < 0;
        kin__process_end(process);
        kin__process_free(process);
    }
    EXPECT_GT(failed, 5);
    return 0;
}

KIN_TEST(want_of_anything_is_told_and_leaves_nothing, "")
{
    int before = dup(0), wstatus;
    EXPECT_EQ(close(before), 0);
    EXPECT_EQ(run_reporting(1, lack_everything, NULL, NULL), 0);
    EXPECT_EQ(waitpid(-1, &wstatus, WNOHANG), -1);
    int after = dup(0);
    EXPECT_EQ(after, before);
}

/* ---- the end that several find ---- */

static struct kin_process *run(const char *const *argv, const struct kin_process_options *options)
{
    struct kin_process *process = kin__process_make(options, 0);
    EXPECT(process != NULL);
    EXPECT_EQ(kin__process_run(process, argv, options), 0);
    return process;
}

static int wait_for_it(void *arg)
{
    int wstatus = 0, rc = kin_process_wait(arg, &wstatus, KIN_NEVER);
    return rc < 0 ? rc : WTERMSIG(wstatus) == SIGKILL ? 0 : -EPROTO;
}

static int find_it_together(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        struct kin_process *process = run(sleeper, NULL);
        KIN_NURSERY(n);
        for (int i = 0; i < 4; i++)
            EXPECT_EQ(kin_spawn(&n, wait_for_it, process), 0);
        EXPECT_EQ(kill(kin_process_pid(process), SIGKILL), 0);
        for (int i = 0; i < 4; i++) /* while it ends */
            EXPECT_EQ(kin_spawn(&n, wait_for_it, process), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT(process->is_over && process->is_reaped);
        EXPECT_EQ(process->child.fd, -1);
        EXPECT_EQ(kin_process_wait(process, NULL, 0), 0);
        kin__process_end(process);
        kin__process_free(process);
    }
    return 0;
}

KIN_TEST(everybody_learns_of_the_end, "")
{
    run_on_few(find_it_together, NULL);
}

/* A leader stays unreaped until its group is gone. */
static int keep_the_leader(void *arg)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    (void)arg;
    options.group = KIN_PROCESS_GROUP;
    struct kin_process *process = run(yes, &options);
    EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), 0);
    EXPECT(process->is_over && !process->is_reaped);
    EXPECT_EQ(kill(kin_process_pid(process), 0), 0);
    kin__process_end(process);
    EXPECT(process->is_reaped);
    EXPECT_EQ(kill(kin_process_pid(process), 0), -1);
    kin__process_free(process);
    return 0;
}

KIN_TEST(a_leader_is_reaped_last, "")
{
    EXPECT_EQ(run_reporting(2, keep_the_leader, NULL, NULL), 0);
}

/* ---- without descriptors of processes ---- */

static int look_now_and_then(void *arg)
{
    (void)arg;
    struct kin_process *process = run(sleeper, NULL);
    EXPECT_EQ(process->child.fd, -1);
    EXPECT_PTR(process->watched.entry, NULL);
    EXPECT_EQ(kin_process_wait(process, NULL, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_process_wait(process, NULL, kin_after(KIN_MS(20))), KIN_TIMEOUT);
    EXPECT_EQ(kin_process_kill(process, SIGTERM), 0);
    EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_process_kill(process, SIGTERM), -ESRCH);
    kin__process_end(process);
    kin__process_free(process);
    process = run(sleeper, NULL);
    kin__process_end(process); /* kills it */
    EXPECT(process->is_reaped);
    kin__process_free(process);
    return 0;
}

KIN_TEST(where_there_are_no_such_descriptors_it_is_looked_at, "")
{
    kin__program_force((struct kin__program_lacks){.pidfd = true});
    EXPECT_EQ(run_reporting(1, look_now_and_then, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(1, find_it_together, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, find_it_together, NULL, NULL), 0);
}

/* ---- the end, whatever the task is asked to do ---- */

static int end_under_a_deadline(void *arg)
{
    (void)arg;
    struct kin_process *process = run(sleeper, NULL);
    kin_time previous = kin_deadline_push(kin_now()); /* over already */
    kin__process_end(process);
    EXPECT(process->is_reaped);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_TIMEOUT); /* still in force */
    kin_deadline_pop(previous);
    kin__process_free(process);
    return 0;
}

KIN_TEST(a_deadline_of_the_body_does_not_end_the_end, "")
{
    EXPECT_EQ(run_reporting(1, end_under_a_deadline, NULL, NULL), 0);
}

static int end_when_cancelled(void *arg)
{
    struct kin_process *process = run(sleeper, NULL);
    atomic_store((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    kin__process_end(process);
    EXPECT(process->is_reaped);
    kin__process_free(process);
    return 0;
}

static int cancel_it(void *arg)
{
    _Atomic int running = 0;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, end_when_cancelled, &running), 0);
    await(&running, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(nor_does_a_cancel, "")
{
    run_on_few(cancel_it, NULL);
}

/* ---- from a thread that runs no task ---- */

static void *kill_it(void *arg)
{
    EXPECT_EQ(kin_process_wait(arg, NULL, 0), KIN_NOTASK);
    EXPECT_EQ(kin_process_kill(arg, SIGKILL), 0);
    return NULL;
}

static int let_a_thread_kill(void *arg)
{
    pthread_t thread;
    (void)arg;
    struct kin_process *process = run(sleeper, NULL);
    EXPECT_EQ(pthread_create(&thread, NULL, kill_it, process), 0);
    EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    kin__process_end(process);
    kin__process_free(process);
    return 0;
}

KIN_TEST(any_thread_may_kill, "")
{
    EXPECT_EQ(run_reporting(1, let_a_thread_kill, NULL, NULL), 0);
}

/* Both pipes are the runtime's own: it knows how they answer, and closes them by its own call. */
static int look_at_pipes(void *arg)
{
    const char *cat[] = {"cat", NULL};
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    struct kin_process *process;
    int wstatus;
    (void)arg;
    options.in.kind = options.out.kind = KIN_STDIO_PIPE;
    EXPECT_EQ(kin_process_start(cat, &options, &process), 0);
    for (int which = 0; which < 2; which++) {
        const struct kin__fd_entry *entry = kin__fd_find(kin_process_pipe(process, which));
        EXPECT(entry != NULL);
        EXPECT(kin__load_relaxed(&entry->state) & KIN__FD_OURS); /* relaxed: constant so far */
    }
    EXPECT_EQ(kin_process_close(process, 0), 0);
    EXPECT_EQ(kin_process_wait(process, &wstatus, KIN_NEVER), 0);
    EXPECT_EQ(wstatus, 0);
    return 0;
}

KIN_TEST(pipes_to_a_process_are_the_runtimes_own, "")
{
    EXPECT_EQ(kin_run(NULL, look_at_pipes, NULL), 0);
}
