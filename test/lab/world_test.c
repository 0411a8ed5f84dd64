/* SPDX-License-Identifier: MIT */
/*
 * Goal: the set of those who can go on is what the runtime says, yields let the others go first, an
 * execution whose outcome stands comes to an end whatever its tasks do, and exploration goes
 * through every schedule that differs.
 * Method: programs whose schedules can be counted; programs that do not want to end.
 */
#include "lab/in_lab.h"

#include "lab/report.h"
#include "lab/world.h"

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* ---- counting schedules ---- */

static int spawn_some(void *count)
{
    KIN_NURSERY(n);
    for (int i = 0; i < *(int *)count; i++)
        KIN_LAB_OK(kin_spawn(&n, do_nothing, NULL));
    return kin_nursery_join(&n, NULL);
}

/* The ends of children commute with each other and with spawns; each comes before the join or after
 * it. */
KIN_TEST(children_that_do_nothing_differ_by_the_join_alone, "")
{
    for (int count = 1; count <= 5; count++) {
        EXPECT_EQ(lab(KIN_LAB_DPOR, 0, spawn_some, &count), 0);
        EXPECT(report.exhausted);
        EXPECT_EQ(report.executions, 1u << count);
    }
}

static int word;

static int read_and_write(void *arg)
{
    (void)arg;
    int seen = KIN_SHARED(word);
    KIN_SHARED(word) = seen + 1;
    return 0;
}

static unsigned lost, kept;

static int race(void *arg)
{
    (void)arg;
    word = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, read_and_write, NULL));
    KIN_LAB_OK(kin_spawn(&n, read_and_write, NULL));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    *(word == 2 ? &kept : &lost) += 1;
    return 0;
}

/* Two accesses each, in 6 orders, and 4 places of the join: before both ends, which have no order
 * of their own, after either one, after both. The limit counts
 * abandoned runs too: it leaves room for none, and the search ends below it. */
KIN_TEST(every_order_of_four_accesses_is_gone_through, "")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 25, race, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(report.executions, 24);
    EXPECT_GT(lost, kept); /* 4 of 6 lose an update */
}

static int send_one(void *chan)
{
    int value = 1;
    return kin_chan_send(chan, &value, KIN_NEVER);
}

struct exchange {
    int senders;
    size_t capacity;
};

static int exchange(void *arg)
{
    const struct exchange *how = arg;
    struct kin_chan *chan;
    int sum = 0, value;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), how->capacity));
    {
        KIN_NURSERY(n);
        for (int i = 0; i < how->senders; i++)
            KIN_LAB_OK(kin_spawn(&n, send_one, chan));
        for (int i = 0; i < how->senders; i++) {
            KIN_LAB_OK(kin_chan_recv(chan, &value, KIN_NEVER));
            sum += value;
        }
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    kin_chan_unref(chan);
    kin_lab_assert(sum == how->senders, "everything arrives");
    return 0;
}

KIN_TEST(channels_are_explored_completely, "")
{
    static const struct exchange all[] = {{1, 0}, {2, 0}, {2, 1}, {3, 0}, {3, 1}, {3, 3}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        EXPECT_EQ(lab(KIN_LAB_DPOR, 0, exchange, (void *)(uintptr_t)&all[i]), 0);
        EXPECT(report.exhausted);
        EXPECT_GE(report.executions, 3);
    }
}

static int add_locked(void *mutex)
{
    KIN_LAB_OK(kin_mutex_lock(mutex, KIN_NEVER));
    int seen = KIN_SHARED(word);
    KIN_SHARED(word) = seen + 1;
    kin_mutex_unlock(mutex);
    return 0;
}

static int lock_it(void *count)
{
    struct kin_mutex mutex = {0};
    word = 0;
    {
        KIN_NURSERY(n);
        for (int i = 0; i < *(int *)count; i++)
            KIN_LAB_OK(kin_spawn(&n, add_locked, &mutex));
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    kin_lab_assert(word == *(int *)count, "no update is lost under a lock");
    return 0;
}

KIN_TEST(a_mutex_protects_in_every_schedule, "")
{
    for (int count = 2; count <= 3; count++) {
        EXPECT_EQ(lab(KIN_LAB_DPOR, 0, lock_it, &count), 0);
        EXPECT(report.exhausted);
    }
}

static int sleep_a_while(void *arg)
{
    return kin_sleep(kin_after(*(int64_t *)arg));
}

static int sleep_and_cancel(void *arg)
{
    int64_t ms[] = {KIN_MS(1), KIN_MS(1), KIN_MS(2)};
    (void)arg;
    KIN_NURSERY(n, .deadline = kin_after(KIN_MS(2)));
    for (int i = 0; i < 3; i++)
        KIN_LAB_OK(kin_spawn(&n, sleep_a_while, &ms[i]));
    int rc = kin_nursery_join(&n, NULL);
    kin_lab_assert(rc == 0 || rc == KIN_TIMEOUT, "it ends well or by its deadline");
    *(rc == 0 ? &kept : &lost) += 1;
    return 0;
}

/* Deadlines of one moment come in any order: the nursery's may come before the sleeper's. */
KIN_TEST(ties_of_deadlines_are_gone_through, "")
{
    lost = kept = 0;
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, sleep_and_cancel, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT_GT(lost, 0);
    EXPECT_GT(kept, 0);
}

static int choose_among_ready(void *arg)
{
    struct kin_chan *chans[2];
    int value = 1;
    (void)arg;
    for (int i = 0; i < 2; i++) {
        KIN_LAB_OK(kin_chan_create(&chans[i], sizeof(int), 1));
        KIN_LAB_OK(kin_chan_send(chans[i], &value, KIN_NEVER));
    }
    struct kin_case cases[] = {KIN_CASE_RECV(chans[0], &value), KIN_CASE_RECV(chans[1], &value)};
    int which = kin_select(cases, 2, KIN_NEVER);
    *(which == 0 ? &kept : &lost) += 1;
    for (int i = 0; i < 2; i++)
        kin_chan_unref(chans[i]);
    return 0;
}

KIN_TEST(every_ready_case_of_a_select_is_gone_through, "")
{
    lost = kept = 0;
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, choose_among_ready, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT_GT(lost, 0);
    EXPECT_GT(kept, 0);
}

/* ---- yields ---- */

static int flag;

static int wait_by_yields(void *arg)
{
    (void)arg;
    while (!KIN_SHARED(flag))
        kin_ignore(kin_yield());
    return 0;
}

static int set_flag(void *arg)
{
    (void)arg;
    KIN_SHARED(flag) = 1;
    return 0;
}

static int yield_for_a_flag(void *arg)
{
    flag = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, wait_by_yields, arg));
    KIN_LAB_OK(kin_spawn(&n, wait_by_yields, arg));
    KIN_LAB_OK(kin_spawn(&n, set_flag, arg));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_loop_that_ends_under_every_fair_schedule_is_no_failure, "")
{
    EXPECT_EQ(lab(KIN_LAB_PCT, 300, yield_for_a_flag, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 300, yield_for_a_flag, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_AUTO, 300, yield_for_a_flag, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_DPOR, 300, yield_for_a_flag, NULL), 0);
    EXPECT(!report.exhausted);
}

static int yield_for_one_flag(void *arg)
{
    flag = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, wait_by_yields, arg));
    KIN_LAB_OK(kin_spawn(&n, set_flag, arg));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_search_that_left_endless_schedules_out_ends_and_is_not_complete, "")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, yield_for_one_flag, NULL), 0);
    EXPECT(!report.exhausted);
    EXPECT_GT(report.executions, 64);
}

/* ---- ends ---- */

static int never_ends(void *arg)
{
    struct kin_chan *chan = arg;
    for (;;) {
        kin_ignore(kin_chan_recv(chan, NULL, 0));
        kin_ignore(kin_yield());
    }
    return 0;
}

static int masked(void *arg)
{
    (void)arg;
    kin_mask();
    kin_ignore(kin_sleep(KIN_NEVER));
    kin_unmask();
    return 0;
}

static int fail_among_stubborn_ones(void *arg)
{
    struct kin_chan *chan;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, never_ends, chan));
    KIN_LAB_OK(kin_spawn(&n, masked, NULL));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    return 0;
}

static int assert_among_stubborn_ones(void *arg)
{
    struct kin_chan *chan;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, never_ends, chan));
    KIN_LAB_OK(kin_spawn(&n, masked, NULL));
    for (int i = 0; i < 20; i++)
        KIN_LAB_OK(kin_yield());
    kin_lab_assert(false, "now");
    return 0;
}

KIN_TEST(tasks_that_do_not_end_are_left_behind, "")
{
    expect_oracle(assert_among_stubborn_ones, NULL, "assert", KIN_PANICKED);
    expect_oracle(fail_among_stubborn_ones, NULL, "livelock", KIN_STUCK);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 10, race, NULL), 0); /* and the lab goes on */
}

/* ---- names ---- */

static int name_me(void *arg)
{
    (void)arg;
    kin_lab_assert(false, "here");
    return 0;
}

static int spawn_deep(void *arg)
{
    int *left = arg;
    if (--*left == 0)
        return name_me(arg);
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, do_nothing, NULL));
    KIN_LAB_OK(kin_spawn(&n, spawn_deep, arg));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

static int depth;

static int spawn_chain(void *arg)
{
    int left = depth;
    (void)arg;
    return spawn_deep(&left);
}

KIN_TEST(tasks_are_named_by_who_spawned_them, "")
{
    depth = 4;
    expect_oracle(spawn_chain, NULL, "assert", KIN_PANICKED);
    EXPECT(strstr(report.text, "root/1/1/1") != NULL);
    depth = 100; /* longer than a name that is kept */
    expect_oracle(spawn_chain, NULL, "assert", KIN_PANICKED);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 10, race, NULL), 0);
}

/* Beside a chain of long names there are short ones, which come later or earlier. */
static int spawn_deep_and_wide(void *arg)
{
    int *left = arg;
    if (--*left == 0)
        return 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, spawn_deep_and_wide, left));
    KIN_LAB_OK(kin_spawn(&n, do_nothing, NULL));
    return kin_nursery_join(&n, NULL);
}

static int spawn_two_chains(void *arg)
{
    int left[2] = {30, 30};
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, spawn_deep_and_wide, &left[0]));
    KIN_LAB_OK(kin_spawn(&n, spawn_deep_and_wide, &left[1]));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(long_names_are_those_of_their_own_run, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 1000, spawn_two_chains, NULL), 0);
}

static int spawn_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 700; i++) {
        KIN_NURSERY(n);
        for (int k = 0; k < 100; k++)
            KIN_LAB_OK(kin_spawn(&n, do_nothing, NULL));
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    return 0;
}

KIN_TEST(more_tasks_than_there_are_names_are_told, "")
{
    kin__lab_wish.is_unshrunk = true;
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, spawn_many, NULL), -E2BIG);
    EXPECT_EQ(kin_run(NULL, spawn_many, NULL), 0); /* without an engine names do not count */
}
