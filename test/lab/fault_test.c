/* SPDX-License-Identifier: MIT */
/*
 * Goal: each kind of fault happens, at every place where it can, at most one in an execution, and
 * programs that are right bear all of them.
 * Method: one program that uses memory, tasks, waits, deadlines and budgets is explored with each
 * kind; what happened to it is counted, and the oracles look for what a fault may have left behind.
 */
#include "lab/in_lab.h"

#include "lab/report.h"

#include <stdbool.h>

static struct {
    unsigned oom, cancelled, failed, panicked, timeout, budget, well;
} seen;

static void note(int rc)
{
    seen.oom += rc == -ENOMEM;
    seen.cancelled += rc == KIN_CANCELLED;
    seen.failed += rc == -EIO;
    seen.panicked += rc == KIN_PANICKED;
    seen.timeout += rc == KIN_TIMEOUT;
    seen.budget += rc == KIN_BUDGET;
    seen.well += rc >= 0;
}

static void unref(void *chan)
{
    kin_chan_unref(chan);
}

static int send_two(void *chan)
{
    for (int i = 0; i < 2; i++) {
        int rc = kin_chan_send(chan, &i, KIN_NEVER);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Everything that this makes is given back on every way out. */
static int work(void *arg)
{
    struct kin_chan *chan;
    int value;
    (void)arg;
    int rc = kin_chan_create(&chan, sizeof(int), 1);
    if (rc < 0)
        return rc;
    rc = kin_defer(unref, chan);
    if (rc < 0) {
        kin_chan_unref(chan);
        return rc;
    }
    KIN_NURSERY(n);
    rc = kin_spawn(&n, send_two, chan);
    for (int i = 0; i < 2 && rc >= 0; i++)
        rc = kin_chan_recv(chan, &value, kin_after(KIN_SEC(1)));
    if (rc < 0)
        kin_nursery_cancel(&n, rc);
    int joined = kin_nursery_join(&n, NULL);
    return joined < 0 ? joined : rc;
}

static int program(void *arg)
{
    struct kin_outcome how = {KIN_SEV_OK, 0, 0, 0, ""};
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    int rc = kin_spawn(&n, work, arg);
    int joined = kin_nursery_join(&n, &how);
    note(rc < 0 ? rc : joined);
    return 0;
}

static void explore(uint32_t faults)
{
    memset(&seen, 0, sizeof seen);
    int rc = lab_with(KIN_LAB_RANDOM, 3000, faults, program, NULL);
    if (rc < 0)
        printf("%s\n", report.text);
    EXPECT_EQ(rc, 0);
    EXPECT_GT(seen.well, 100); /* some runs have none */
}

KIN_TEST(memory_fails_and_nothing_is_lost, "")
{
    explore(KIN_FAULT_OOM);
    EXPECT_GT(seen.oom, 100);
}

KIN_TEST(tasks_are_cancelled_wherever_they_are, "")
{
    explore(KIN_FAULT_CANCEL);
    EXPECT_GT(seen.cancelled, 100);
}

KIN_TEST(tasks_fail_where_they_call, "")
{
    explore(KIN_FAULT_FAIL);
    EXPECT_GT(seen.failed, 100);
}

KIN_TEST(tasks_panic_where_they_call, "")
{
    explore(KIN_FAULT_PANIC);
    EXPECT_GT(seen.panicked, 100);
}

KIN_TEST(deadlines_come_early, "")
{
    explore(KIN_FAULT_DEADLINE);
    EXPECT_GT(seen.timeout, 10);
}

KIN_TEST(time_passes_though_somebody_could_run, "")
{
    explore(KIN_FAULT_DELAY);
    EXPECT_GT(seen.timeout, 10);
}

KIN_TEST(without_faults_there_are_none, "")
{
    memset(&seen, 0, sizeof seen);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 500, program, NULL), 0);
    EXPECT_GE(seen.well, 500);
    EXPECT_EQ(seen.oom + seen.cancelled + seen.failed + seen.panicked + seen.timeout, 0);
}

static int spend(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        int rc = kin_checkpoint();
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int metered(void *arg)
{
    KIN_NURSERY(n, .budget = {1000, 1000, 10, 1000, 1000});
    int rc = kin_spawn(&n, spend, arg);
    int joined = kin_nursery_join(&n, NULL);
    note(rc < 0 ? rc : joined);
    return 0;
}

KIN_TEST(budgets_are_used_up_early, "")
{
    EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 500, KIN_FAULT_BUDGET, metered, NULL), 0);
    EXPECT_GT(seen.budget, 10);
    EXPECT_GT(seen.well, 10);
}

/* ---- every place ---- */

static unsigned at[3]; /* how often the first, the second, the third request failed */

static int three_requests(void *arg)
{
    struct kin_chan *chans[3] = {NULL, NULL, NULL};
    (void)arg;
    for (int i = 0; i < 3; i++) {
        if (kin_chan_create(&chans[i], 0, 0) < 0)
            at[i]++;
    }
    for (int i = 0; i < 3; i++)
        kin_chan_unref(chans[i]);
    return 0;
}

KIN_TEST(an_exhaustive_run_goes_through_every_fault, "")
{
    EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_OOM, three_requests, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT_GE(report.executions, 4); /* none, and each of them alone; a stack may fail as well */
    for (int i = 0; i < 3; i++)
        EXPECT_GE(at[i], 1);
}

/* ---- one run for each place ---- */

static const enum kin_lab_strategy strategies[] = {
    KIN_LAB_ROUND_ROBIN, KIN_LAB_RANDOM, KIN_LAB_PCT, KIN_LAB_AUTO, KIN_LAB_DPOR};
#define STRATEGIES (sizeof strategies / sizeof strategies[0])

/* Sweeps a program under each strategy: all that can go wrong does; by turns that may be nothing.
 */
static void sweep(uint32_t faults, kin_task_fn *test)
{
    memset(&seen, 0, sizeof seen);
    for (size_t i = 0; i < STRATEGIES; i++) {
        const struct kin__engine_result *result = &kin__lab_wish.result;
        bool is_by_turns = strategies[i] == KIN_LAB_ROUND_ROBIN;
        bool is_drawn = strategies[i] == KIN_LAB_RANDOM || strategies[i] == KIN_LAB_PCT;
        uint64_t executions = is_by_turns ? 0 : 300;
        int rc = lab_with(strategies[i], executions, faults | KIN_FAULT_EACH, test, NULL);
        if (rc < 0)
            printf("%s\n", report.text);
        EXPECT_EQ(rc, 0);
        EXPECT_LE(result->fired, result->sites);
        if (is_by_turns)
            EXPECT_EQ(result->fired, result->sites);
        if (is_by_turns)
            EXPECT_EQ(report.executions, 1 + result->sites);
        if (is_drawn)
            EXPECT_GT(result->fired, 0);
    }
}

KIN_TEST(every_place_is_swept_under_every_strategy, "")
{
    sweep(KIN_FAULT_OOM, program);
    EXPECT_GT(seen.oom, 0);
    sweep(KIN_FAULT_CANCEL, program);
    EXPECT_GT(seen.cancelled, 0);
    sweep(KIN_FAULT_FAIL, program);
    EXPECT_GT(seen.failed, 0);
    sweep(KIN_FAULT_PANIC, program);
    EXPECT_GT(seen.panicked, 0);
    sweep(KIN_FAULT_DEADLINE, program);
    EXPECT_GT(seen.timeout, 0);
    sweep(KIN_FAULT_DELAY, program);
    EXPECT_GT(seen.timeout, 0);
    sweep(KIN_FAULT_BUDGET, metered);
    EXPECT_GT(seen.budget, 0);
}

KIN_TEST(a_sweep_by_turns_fails_each_request_once, "")
{
    memset(at, 0, sizeof at);
    uint32_t faults = KIN_FAULT_OOM | KIN_FAULT_EACH;
    EXPECT_EQ(lab_with(KIN_LAB_ROUND_ROBIN, 0, faults, three_requests, NULL), 0);
    EXPECT_EQ(at[0], 2); /* alone, and with all that follow */
    EXPECT_EQ(at[1], 3); /* and when it follows */
    EXPECT_EQ(at[2], 4);
}

/* Bears that one request fails, but not that there is no memory any more. */
static int retry(void *arg)
{
    struct kin_chan *chan;
    (void)arg;
    int rc = kin_chan_create(&chan, 0, 0);
    if (rc < 0)
        rc = kin_chan_create(&chan, 0, 0);
    kin_lab_assert(rc == 0, "the second time it is there");
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(memory_may_fail_from_one_place_on, "")
{
    for (size_t i = 0; i < STRATEGIES; i++) {
        uint32_t faults = KIN_FAULT_OOM | KIN_FAULT_EACH;
        EXPECT_EQ(lab_with(strategies[i], 0, faults, retry, NULL), KIN_PANICKED);
        EXPECT_STR(report.oracle, "assert");
    }
    EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_OOM, retry, NULL), KIN_PANICKED);
}

static int leaky(void *arg)
{
    struct kin_chan *first, *second;
    (void)arg;
    if (kin_chan_create(&first, 0, 0) < 0)
        return 0;
    if (kin_chan_create(&second, 0, 0) < 0)
        return 0; /* the first is nobody's */
    kin_chan_unref(first);
    kin_chan_unref(second);
    return 0;
}

static int sit_idle(void *arg)
{
    (void)arg;
    return kin_sleep(KIN_NEVER);
}

KIN_TEST(a_leak_behind_a_fault_is_found, "")
{
    EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_OOM, leaky, NULL), KIN_LEAKED);
    EXPECT_STR(report.oracle, "leak");
    EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 1000, KIN_FAULT_OOM, leaky, NULL), KIN_LEAKED);
    EXPECT(strstr(report.text, "fault:    memory, in step ") != NULL);
    EXPECT(strstr(report.text, ", by root\n") != NULL);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 10, sit_idle, NULL), KIN_DEADLOCK);
    EXPECT(strstr(report.text, "fault:") == NULL); /* that of the last one is over */
}

/* ---- the program's own ---- */

static unsigned bugs, most;

static int buggy(void *arg)
{
    unsigned here = 0;
    (void)arg;
    for (int i = 0; i < 10; i++)
        here += KIN_BUGGIFY("a rare case");
    bugs += here > 0;
    most = here > most ? here : most;
    return 0;
}

KIN_TEST(a_program_has_faults_of_its_own, "")
{
    EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 500, KIN_FAULT_FAIL, buggy, NULL), 0);
    EXPECT_GT(bugs, 5);
    EXPECT_EQ(most, 1);
    EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 500, KIN_FAULT_FAIL | KIN_FAULT_CHAOS, buggy, NULL), 0);
    EXPECT_GT(most, 1); /* chaos has no such limit */
}

/* ---- chaos, then quiet ---- */

static int endure(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        kin_ignore(kin_spawn(&n, work, NULL));
        kin_ignore(kin_nursery_join(&n, NULL));
    }
    kin_ignore(kin_sleep(kin_after(KIN_SEC(20)))); /* the first task may have been cancelled */
    return 0;
}

KIN_TEST(after_chaos_there_is_quiet, "")
{
    EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 20,
                       KIN_FAULT_OOM | KIN_FAULT_CANCEL | KIN_FAULT_FAIL | KIN_FAULT_DEADLINE |
                           KIN_FAULT_CHAOS,
                       endure, NULL),
              0);
}

/* A fault makes it give up for good, and look for ever whether somebody else does better. */
static int never_recover(void *arg)
{
    struct kin_event event = {0};
    (void)arg;
    for (int i = 0; i < 20 && !KIN_BUGGIFY("gives up"); i++)
        kin_ignore(kin_yield());
    while (kin_lab_fault("nothing") || kin_event_wait(&event, kin_after(KIN_SEC(1))) < 0)
        kin_ignore(kin_yield());
    return 0;
}

KIN_TEST(who_does_not_come_to_rest_after_chaos_is_seen, "")
{
    EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 5, KIN_FAULT_FAIL | KIN_FAULT_CHAOS, never_recover, NULL),
              KIN_STUCK);
    EXPECT_STR(report.oracle, "quiescence");
    EXPECT(strstr(report.text, "does not come to rest") != NULL);
}
