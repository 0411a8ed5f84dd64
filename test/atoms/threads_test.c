/* SPDX-License-Identifier: MIT */
/*
 * Threads of atom mode: every order of steps, waiting in each way, and what happens when nobody can
 * go on.
 */
#include "kin_test.h"

#include "words.h"

#include <string.h>

static uint32_t x, y;
static int plain, sum;
static struct kin_atoms_report report;

static void two_stores(void *arg)
{
    store(arg, 1, RELAXED);
    store(arg, 2, RELAXED);
}

static void begin_same(void *arg)
{
    (void)arg;
    x = 0;
    kin_atoms_spawn("first", two_stores, &x);
    kin_atoms_spawn("second", two_stores, &x);
}

static void begin_different(void *arg)
{
    (void)arg;
    x = y = 0;
    kin_atoms_spawn("first", two_stores, &x);
    kin_atoms_spawn("second", two_stores, &y);
}

KIN_TEST(every_order_of_steps_is_run_once, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DFS, KIN_ATOMS_SC, begin_same, NULL, &report), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(report.executions, 6); /* four steps, two of each */
    EXPECT_EQ(explore(KIN_ATOMS_DFS, KIN_ATOMS_SC, begin_different, NULL, &report), 0);
    EXPECT_EQ(report.executions, 6);
}

KIN_TEST(dpor_runs_one_order_of_independent_steps, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_same, NULL, &report), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(report.executions, 6);
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_different, NULL, &report), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(report.executions, 1);
}

/* ---- waiting ---- */

static bool is_set(void *word)
{
    return load(word, ACQUIRE) != 0;
}

static void setter(void *arg)
{
    (void)arg;
    put(&plain, 7);
    store(&x, 1, RELEASE);
}

static void waiter(void *arg)
{
    kin_atoms_await(is_set, arg);
    kin_atoms_assert(get(&plain) == 7, "what came before is seen");
}

static void begin_await(void *arg)
{
    x = 0;
    plain = 0;
    kin_atoms_spawn("waiter", waiter, &x);
    if (arg)
        kin_atoms_spawn("setter", setter, NULL);
}

KIN_TEST(an_await_ends_when_its_condition_holds_and_orders_memory, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_await, &x, &report), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_TSO, begin_await, &x, &report), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_C11, begin_await, &x, &report), 0);
    EXPECT(report.exhausted);
}

KIN_TEST(an_await_of_what_never_holds_is_a_deadlock, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_await, NULL, &report), KIN_DEADLOCK);
    EXPECT_STR(report.oracle, "deadlock");
    EXPECT(strstr(report.text, "waiter") != NULL);
}

/* A condition that held and holds no more is seen in one execution and missed in another. */
static void blinker(void *arg)
{
    (void)arg;
    store(&x, 1, RELAXED);
    store(&x, 0, RELAXED);
}

static void begin_blink(void *arg)
{
    (void)arg;
    x = 0;
    plain = 7;
    kin_atoms_spawn("blinker", blinker, NULL);
    kin_atoms_spawn("waiter", waiter, &x);
}

KIN_TEST(a_condition_that_holds_for_a_moment_is_met_and_missed, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.keeps_going = true;
    EXPECT_EQ(kin_atoms_run(&config, begin_blink, NULL, NULL, &report), KIN_DEADLOCK);
    EXPECT(report.exhausted);
    EXPECT_GT(report.failures, 0);
    EXPECT_LT(report.failures, report.executions);
}

static void spinner(void *arg)
{
    (void)arg;
    while (!load(&x, ACQUIRE)) {
        store(&y, 1, RELAXED); /* something of its own in each turn */
        store(&y, 0, RELAXED);
        kin_atoms_spin();
    }
    kin_atoms_assert(get(&plain) == 7, "what came before is seen");
}

static void begin_spin(void *arg)
{
    (void)arg;
    x = y = 0;
    plain = 0;
    kin_atoms_spawn("spinner", spinner, NULL);
    kin_atoms_spawn("setter", setter, NULL);
}

KIN_TEST(a_loop_that_spins_has_finitely_many_executions, "")
{
    for (int memory = KIN_ATOMS_SC; memory <= KIN_ATOMS_C11; memory++) {
        EXPECT_EQ(explore(KIN_ATOMS_DPOR, (enum kin_atoms_memory)memory, begin_spin, NULL, &report),
                  0);
        EXPECT(report.exhausted);
        EXPECT_LT(report.executions, 1000);
    }
}

/* ---- starting and joining ---- */

static void grandchild(void *arg)
{
    (void)arg;
    put(&plain, get(&plain) + 1);
}

static void child(void *arg)
{
    (void)arg;
    put(&plain, 1);
    unsigned number = kin_atoms_spawn("grandchild", grandchild, NULL);
    kin_atoms_join(number);
    kin_atoms_assert(get(&plain) == 2, "a thread that was joined has done its part");
}

static void begin_family(void *arg)
{
    (void)arg;
    plain = 0;
    kin_atoms_spawn("child", child, NULL);
}

KIN_TEST(a_thread_starts_another_and_joins_it, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_family, NULL, &report), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(report.executions, 1);
}

static void look(void *arg)
{
    (void)arg;
    kin_atoms_assert(load(&x, RELAXED) == 1, "a thread sees what was stored before its start");
}

static void start_after_a_store(void *arg)
{
    (void)arg;
    store(&x, 1, RELAXED);
    kin_atoms_spawn("looks", look, NULL);
}

static void begin_starting(void *arg)
{
    (void)arg;
    x = 0;
    kin_atoms_spawn("starts", start_after_a_store, NULL);
}

KIN_TEST(a_thread_sees_what_was_stored_before_its_start, "")
{
    for (int memory = KIN_ATOMS_SC; memory <= KIN_ATOMS_C11; memory++)
        EXPECT_EQ(explore(KIN_ATOMS_DPOR, (enum kin_atoms_memory)memory, begin_starting, NULL,
                          &report), 0);
}

static void *own;

static void keeper(void *arg)
{
    __tsan_write8(&own); /* nobody else's: no race */
    own = arg;
    (void)add(&x, 1, RELAXED);
    (void)add(&x, 1, RELAXED);
    kin_atoms_assert(own == arg, "the cell is this thread's");
}

static void begin_local(void *arg)
{
    (void)arg;
    x = 0;
    own = NULL;
    kin_atoms_local(&own);
    kin_atoms_spawn("first", keeper, &x);
    kin_atoms_spawn("second", keeper, &y);
}

KIN_TEST(a_local_cell_has_a_value_for_each_thread, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DFS, KIN_ATOMS_SC, begin_local, NULL, &report), 0);
    EXPECT_EQ(report.executions, 6);
}

static void begin_numbers(void *arg)
{
    (void)arg;
    sum = 0;
    kin_atoms_assert(kin_atoms_self() == 0, "outside of the threads it is 0");
    kin_atoms_spawn("first", two_stores, &x);
    kin_atoms_assert(kin_atoms_spawn("second", two_stores, &y) == 2, "numbers count from 1");
}

KIN_TEST(threads_are_numbered_in_the_order_of_their_start, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_ROUND_ROBIN, KIN_ATOMS_SC, begin_numbers, NULL, &report), 0);
    EXPECT_EQ(report.executions, 1);
}

static void begin_crowd(void *arg)
{
    (void)arg;
    for (int i = 0; i < 8; i++)
        kin_atoms_spawn("one of many", two_stores, &x);
}

KIN_TEST(an_eighth_thread_is_refused, "")
{
    EXPECT_ABORT("seven threads")
    {
        kin_ignore(explore(KIN_ATOMS_RANDOM, KIN_ATOMS_SC, begin_crowd, NULL, &report));
    }
}

/* ---- stopping ---- */

static unsigned ends;

static void stop_at_two(void *arg)
{
    uint32_t seen = load(&x, RELAXED);
    (void)arg;
    kin_atoms_assume(seen != 2);
    store(&y, 1, RELAXED);
}

static bool is_y_set(void *arg)
{
    (void)arg;
    return load(&y, RELAXED) == 1;
}

static void wait_for_y(void *arg)
{
    kin_atoms_await(is_y_set, arg);
}

static void begin_stop(void *arg)
{
    x = y = 0;
    kin_atoms_spawn("first", two_stores, &x);
    kin_atoms_spawn("second", stop_at_two, NULL);
    if (arg)
        kin_atoms_spawn("third", wait_for_y, NULL);
}

static void end_stop(void *arg)
{
    (void)arg;
    ends++;
    kin_atoms_assert(y == 1, "whoever was not stopped has gone on");
}

static int explore_stops(enum kin_atoms_strategy strategy, void (*begin)(void *arg))
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.strategy = strategy;
    ends = 0;
    return kin_atoms_run(&config, begin, end_stop, NULL, &report);
}

KIN_TEST(what_is_assumed_away_is_neither_looked_at_nor_missed, "")
{
    static const enum kin_atoms_strategy strategies[] = {KIN_ATOMS_DFS, KIN_ATOMS_DPOR};
    for (unsigned i = 0; i < 2; i++) {
        EXPECT_EQ(explore_stops(strategies[i], begin_stop), 0);
        EXPECT(report.exhausted);
        EXPECT_GT(ends, 0);
        EXPECT_LT(ends, report.executions);
    }
    EXPECT_EQ(report.executions, 3); /* DPOR: it reads 0, 1 or 2 */
    EXPECT_EQ(ends, 2);
}

static void begin_stop_and_wait(void *arg)
{
    (void)arg;
    begin_stop(&x);
}

KIN_TEST(who_waits_for_one_that_was_stopped_is_in_no_deadlock, "")
{
    EXPECT_EQ(explore_stops(KIN_ATOMS_DPOR, begin_stop_and_wait), 0);
    EXPECT(report.exhausted);
    EXPECT_GT(report.executions, 3);
    EXPECT_GT(ends, 0);
}

static void fail_when_two(void *arg)
{
    (void)arg;
    kin_atoms_assert(load(&x, RELAXED) != 2, "it is not two");
}

static void begin_stop_and_fail(void *arg)
{
    begin_stop(NULL);
    kin_atoms_spawn("third", fail_when_two, arg);
}

KIN_TEST(others_may_fail_beside_one_that_was_stopped, "")
{
    EXPECT_LT(explore_stops(KIN_ATOMS_DPOR, begin_stop_and_fail), 0);
    EXPECT(strstr(report.text, "it is not two") != NULL);
}

static void stop_at_once(void *arg)
{
    (void)arg;
    kin_atoms_assume(false);
}

static void begin_stopped(void *arg)
{
    kin_atoms_spawn("first", stop_at_once, arg);
    kin_atoms_spawn("second", stop_at_once, arg);
}

KIN_TEST(everybody_may_stop_at_once, "")
{
    EXPECT_EQ(explore_stops(KIN_ATOMS_DPOR, begin_stopped), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(ends, 0);
}
