/* SPDX-License-Identifier: MIT */
/*
 * Goal: the places of processes among the cleanups of their task: none piles up, none is taken that
 * others rely on.
 * Method: white box: the table of cleanups is looked at while processes come and go, between other
 * cleanups, marks and nurseries.
 */
#include "api/in_runtime.h"

#include <kin/process.h>

#include "plat/plat.h"
#include "sched/extra.h"
#include "sched/worker.h"
#include "scope/scope.h"

#include <sys/wait.h>
#include <unistd.h>

static const char *const yes[] = {"/bin/true", NULL};

static uint32_t places(void)
{
    return kin__extra_cleanups(kin__task_self());
}

static struct kin_process *start(void)
{
    struct kin_process *process = NULL;
    EXPECT_EQ(kin_process_start(yes, NULL, &process), 0);
    return process;
}

static void expect_no_child(void)
{
    int wstatus;
    EXPECT_EQ(waitpid(-1, &wstatus, WNOHANG), -1);
    EXPECT_EQ(kin_errno(), ECHILD);
}

static int one_after_the_other(void *arg)
{
    const char *const missing[] = {"/nowhere", NULL};
    struct kin_process *process;
    (void)arg;
    for (int i = 0; i < 10; i++) {
        process = start();
        EXPECT_EQ(places(), 1);
        kin_process_destroy(process);
        EXPECT_EQ(places(), 0);
        EXPECT_EQ(kin_process_start(missing, NULL, &process), -ENOENT);
        EXPECT_EQ(places(), 0);
    }
    return 0;
}

KIN_TEST(places_do_not_pile_up, "NCG-3")
{
    EXPECT_EQ(run_reporting(1, one_after_the_other, NULL, NULL), 0);
    expect_no_child();
}

static _Atomic int cleaned;

static void clean(void *arg)
{
    (void)arg;
    atomic_fetch_add(&cleaned, 1);
}

static int among_others(void *arg)
{
    (void)arg;
    struct kin_process *first = start();
    EXPECT_EQ(kin_defer(clean, NULL), 0);
    struct kin_process *second = start(), *third = start();
    EXPECT_EQ(places(), 4);
    kin_process_destroy(second);
    EXPECT_EQ(places(), 4); /* third is above it */
    kin_process_destroy(third);
    EXPECT_EQ(places(), 2); /* both are free now, down to what is still to be done */
    kin_process_destroy(first);
    EXPECT_EQ(places(), 2);
    EXPECT_EQ(atomic_load(&cleaned), 0);
    return 0;
}

KIN_TEST(other_cleanups_stay, "NCG-3")
{
    EXPECT_EQ(run_reporting(1, among_others, NULL, NULL), 0);
    EXPECT_EQ(atomic_load(&cleaned), 1);
    expect_no_child();
}

/* A nursery tells its age by the number of cleanups: places below it are not given back. */
static int below_a_nursery(void *arg)
{
    (void)arg;
    struct kin_process *process = start();
    EXPECT_EQ(places(), 1);
    KIN_NURSERY(n);
    kin_process_destroy(process);
    EXPECT_EQ(places(), 1);
    void *mark = kin_scope_mark();
    process = start();
    EXPECT_EQ(places(), 2);
    kin_scope_release(mark); /* which would abort if the nursery were younger than the mark */
    EXPECT_EQ(places(), 1);
    process = start();
    kin_process_destroy(process);
    EXPECT_EQ(places(), 1);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(places_below_a_nursery_stay, "NCG-3")
{
    EXPECT_EQ(run_reporting(1, below_a_nursery, NULL, NULL), 0);
    expect_no_child();
}

/* A cleanup may start, and end what the body started. */
static void start_in_a_cleanup(void *arg)
{
    struct kin_process *process = start();
    EXPECT_EQ(kin_process_wait(process, NULL, KIN_NEVER), 0);
    kin_process_destroy(arg);
    process = start();
    kin_process_destroy(process);
    (void)start(); /* ends right behind this cleanup */
    atomic_fetch_add(&cleaned, 1);
}

static int end_in_a_cleanup(void *arg)
{
    (void)arg;
    struct kin_process *process = start();
    return kin_defer(start_in_a_cleanup, process);
}

KIN_TEST(cleanups_may_start_and_end_processes, "NCG-3")
{
    EXPECT_EQ(run_reporting(1, end_in_a_cleanup, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, end_in_a_cleanup, NULL, NULL), 0);
    EXPECT_EQ(atomic_load(&cleaned), 2);
    expect_no_child();
}

static int lack_memory(void *arg)
{
    int failed = 0;
    (void)arg;
    for (uint64_t n = 1; n <= 20; n++) {
        struct kin_process *process = NULL;
        kin__plat_fail_after(n, false);
        int rc = kin_process_start(yes, NULL, &process);
        kin__plat_fail_after(0, false);
        EXPECT_EQ(rc < 0, process == NULL);
        failed += rc < 0;
        kin_process_destroy(process);
        EXPECT_EQ(places(), 0);
    }
    EXPECT_GT(failed, 3);
    return 0;
}

KIN_TEST(a_start_that_fails_leaves_no_place, "NCG-3")
{
    EXPECT_EQ(run_reporting(1, lack_memory, NULL, NULL), 0);
    expect_no_child();
}

/* At every depth of the stack the start succeeds, or the task overflows at the door. */
#if !SANITIZED
static __attribute__((noinline)) int deeper(const char *low)
{
    volatile char room[512];
    room[0] = 0;
    if ((const char *)__builtin_frame_address(0) - low > 6000)
        return deeper(low) + room[0];
    (void)start();
    return 0;
}

static int start_without_room(void *arg)
{
    (void)arg;
    return deeper(kin__task_self()->low);
}

static int start_at_the_end_of_the_stack(void *arg)
{
    struct kin_outcome how;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, start_without_room, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), KIN_OVERFLOW);
    EXPECT_EQ(how.severity, KIN_SEV_PANIC);
    return 0;
}

KIN_TEST(a_start_without_room_overflows_at_the_door, "")
{
    EXPECT_EQ(run_reporting(1, start_at_the_end_of_the_stack, NULL, NULL), 0);
    expect_no_child();
}
#endif
