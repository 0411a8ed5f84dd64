/* SPDX-License-Identifier: MIT */
/*
 * Goal: the owner of a nursery waits for one child and gets its outcome, as often as it likes,
 *       until the nursery is released; nobody else does.
 * Method: black box: children that end in every way, before, during and after the wait; names that
 *         are foreign, over or nobody's.
 */
#include "api/in_runtime.h"

#include <unistd.h>

/* ---- outcomes ---- */

static int end_in_some_way(void *arg)
{
    switch (*(int *)arg) {
    case 0:
        return 0;
    case 1:
        return 42;
    case 2:
        return -EIO;
    case 3:
        kin_fail(-EPIPE, "on purpose");
    case 4:
        kin_panic("on purpose");
    case 5:
        return KIN_CANCELLED; /* nobody asked: an error */
    default:
        return kin_sleep(kin_after(KIN_MS(1))) == 0 ? 7 : -EPROTO;
    }
}

static const struct kin_outcome expected[] = {
    {KIN_SEV_OK, 0, 0, 0, ""},
    {KIN_SEV_OK, 0, 42, 0, ""},
    {KIN_SEV_ERROR, -EIO, 0, 0, ""},
    {KIN_SEV_ERROR, -EPIPE, 0, 0, ""},
    {KIN_SEV_PANIC, KIN_PANICKED, 0, 0, ""},
    {KIN_SEV_ERROR, KIN_CANCELLED, 0, 0, ""},
    {KIN_SEV_OK, 0, 7, 0, ""},
};
enum { WAYS = sizeof expected / sizeof expected[0] };

static void expect_way(int way, const struct kin_outcome *how, struct kin_task_ref ref)
{
    EXPECT_EQ(how->severity, expected[way].severity);
    EXPECT_EQ(how->status, expected[way].status);
    EXPECT_EQ(how->value, expected[way].value);
    EXPECT_EQ(how->task, kin_task_id(ref));
}

static int join_each(void *arg)
{
    int ways[WAYS];
    struct kin_task_ref refs[WAYS];
    (void)arg;
    for (int order = 0; order < 2; order++) {
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        for (int i = 0; i < WAYS; i++) {
            ways[i] = i;
            EXPECT_EQ(kin_spawn_with(&n, NULL, end_in_some_way, &ways[i], 0, &refs[i]), 0);
        }
        for (int round = 0; round < 3; round++) { /* as often as one likes */
            for (int k = 0; k < WAYS; k++) {
                int i = order ? WAYS - 1 - k : k;
                struct kin_outcome how;
                EXPECT_EQ(kin_task_join(&n, refs[i], &how, KIN_NEVER), 0);
                expect_way(i, &how, refs[i]);
                EXPECT_EQ(kin_task_join(&n, refs[i], NULL, 0), 0); /* over: whatever the deadline */
                EXPECT_EQ(kin_task_cancel(refs[i]), 0); /* which changes nothing any more */
            }
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED); /* it is joined all the same */
        struct kin_outcome how = {KIN_SEV_OK, 1, 2, 3, ""};
        for (int i = 0; i < WAYS; i++) {
            EXPECT_EQ(kin_task_join(&n, refs[i], &how, KIN_NEVER), KIN_STALE);
            EXPECT_EQ(kin_task_cancel(refs[i]), KIN_STALE);
        }
        EXPECT_EQ(how.status, 1); /* untouched */
    }
    return 0;
}

KIN_TEST(a_single_child_is_joined_with_its_outcome_until_the_release, "SCHED:15.2.2 B5")
{
    for (int i = 0; i < 10; i++)
        run_on_few(join_each, NULL);
}

static int cancelled_ones(void *arg)
{
    _Atomic int started = 0;
    struct kin_task_ref before, parked;
    struct kin_outcome how;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_for_ever, &started, 0, &parked), 0);
    await(&started, 1);
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_for_ever, &started, 0, &before), 0);
    EXPECT_EQ(kin_task_cancel(before), 0);
    EXPECT_EQ(kin_task_cancel(parked), 0);
    EXPECT_EQ(kin_task_join(&n, before, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(how.status, KIN_CANCELLED);
    EXPECT_EQ(kin_task_join(&n, parked, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN); /* no failure of the nursery */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(children_that_were_cancelled_alone_are_joined_as_such, "B4 B6 SCHED:15.2.2")
{
    run_on_few(cancelled_ones, NULL);
}

/* ---- deadlines and cancellation of the wait ---- */

static int give_up(void *arg)
{
    _Atomic int started = 0;
    struct kin_task_ref ref;
    struct kin_outcome how = {KIN_SEV_OK, 1, 2, 3, ""};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_for_ever, &started, 0, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_task_join(&n, ref, &how, 1), KIN_TIMEOUT);
    EXPECT_EQ(kin_task_join(&n, ref, &how, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    {
        KIN_WITHIN(KIN_MS(1));
        EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), KIN_TIMEOUT);
    }
    EXPECT_EQ(how.status, 1); /* untouched */
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_wait_for_a_child_may_time_out_and_be_made_again, "SCHED:15.2.2 N2001")
{
    run_on_few(give_up, NULL);
}

static int fail_at_once(void *arg)
{
    (void)arg;
    return -EIO;
}

/* While it waits for one child another one fails. */
static int hear_of_the_other(void *arg)
{
    _Atomic int started = 0;
    struct kin_task_ref ref;
    struct kin_outcome how;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_for_ever, &started, 0, &ref), 0);
    EXPECT_EQ(kin_spawn(&n, fail_at_once, NULL), 0);
    int rc = kin_task_join(&n, ref, &how, KIN_NEVER);
    EXPECT(rc == KIN_CANCELLED || rc == 0); /* 0: it was over when it came */
    kin_mask();
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    kin_unmask();
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(a_wait_for_a_child_ends_when_the_nursery_is_cancelled, "B12 NCG-2")
{
    for (int i = 0; i < 20; i++)
        run_on_few(hear_of_the_other, NULL);
}

/* ---- whose names ---- */

struct stranger {
    struct kin_nursery *n;
    struct kin_task_ref ref;
    _Atomic int started;
};

static int join_what_is_not_mine(void *arg)
{
    struct stranger *stranger = arg;
    EXPECT_EQ(kin_task_join(stranger->n, stranger->ref, NULL, KIN_NEVER), -EPERM);
    EXPECT_EQ(kin_task_join(stranger->n, kin_self(), NULL, 0), -EPERM);
    return 0;
}

static int tell_ones_name(void *arg)
{
    struct stranger *stranger = arg;
    stranger->ref = kin_self();
    atomic_store(&stranger->started, 1);
    await_parked(1, "task"); /* who is over has no name any more */
    return 5;
}

static int foreign_names(void *arg)
{
    _Atomic int started = 0;
    int one = 1;
    struct stranger stranger = {0};
    struct kin_task_ref ref, inner_ref;
    struct kin_outcome how;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_for_ever, &started, 0, &ref), 0);
    stranger.n = &n;
    stranger.ref = ref;
    EXPECT_EQ(kin_spawn(&n, join_what_is_not_mine, &stranger), 0);
    {
        KIN_NURSERY(inner);
        EXPECT_EQ(kin_spawn_with(&inner, NULL, return_it, &one, 0, &inner_ref), 0);
        EXPECT_EQ(kin_task_join(&n, inner_ref, NULL, KIN_NEVER), -EINVAL); /* not a child of n */
        EXPECT_EQ(kin_task_join(&inner, ref, NULL, KIN_NEVER), -EINVAL);
        EXPECT_EQ(kin_task_join(&inner, kin_self(), NULL, KIN_NEVER), -EINVAL);
        EXPECT_EQ(kin_task_join(&inner, inner_ref, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_task_join(NULL, inner_ref, NULL, KIN_NEVER), -EINVAL);
        EXPECT_EQ(kin_task_join(&inner, (struct kin_task_ref){0}, NULL, KIN_NEVER), -EINVAL);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    }
    /* a child that told its name itself can be waited for */
    struct stranger child = {0};
    EXPECT_EQ(kin_spawn(&n, tell_ones_name, &child), 0);
    await(&child.started, 1);
    EXPECT_EQ(kin_task_join(&n, child.ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.value, 5);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(only_the_owner_joins_and_only_children_of_that_nursery, "SCHED:15.2.2")
{
    for (int i = 0; i < 20; i++)
        run_on_few(foreign_names, NULL);
    EXPECT_EQ(kin_task_join(&(struct kin_nursery){0}, (struct kin_task_ref){1}, NULL, 0),
              KIN_NOTASK);
}

/* ---- many, and what others see ---- */

enum { MANY = 500 };

static int return_index(void *arg)
{
    int index = *(int *)arg;
    for (int i = index % 4; i > 0; i--)
        kin_ignore(kin_yield());
    return index;
}

static int join_many(void *arg)
{
    static struct kin_task_ref refs[MANY];
    struct kin_stats stats;
    KIN_NURSERY(n);
    (void)arg;
    for (int i = 0; i < MANY; i++)
        EXPECT_EQ(kin_spawn_with(&n, NULL, return_index, &i, sizeof i, &refs[i]), 0);
    for (int i = 0; i < MANY; i++) {
        struct kin_outcome how;
        int at = i * 7 % MANY;
        EXPECT_EQ(kin_task_join(&n, refs[at], &how, KIN_NEVER), 0);
        EXPECT_EQ(how.value, at);
    }
    do { /* ends: who is over does not count, kept or not, as soon as its worker says so */
        kin_ignore(kin_yield());
        EXPECT_EQ(kin_stats_get(&stats), 0);
    } while (stats.tasks_live > 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(many_children_are_joined_one_by_one, "SCHED:15.2.2")
{
    for (int i = 0; i < 5; i++)
        run_on_few(join_many, NULL);
}

static int dump_after_the_end(void *arg)
{
    struct kin_task_ref ref;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    int one = 1, ends[2];
    static char text[65536];
    KIN_NURSERY(n);
    (void)arg;
    options.name = "the departed";
    EXPECT_EQ(kin_spawn_with(&n, &options, return_it, &one, 0, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(kin_dump(ends[1]), 0);
    close(ends[1]);
    ssize_t size = 0, got;
    while ((got = read(ends[0], text + size, sizeof text - 1 - (size_t)size)) > 0)
        size += got;
    close(ends[0]);
    text[size] = 0;
    EXPECT(strstr(text, "(main)"));
    EXPECT(!strstr(text, "the departed"));
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_dump_does_not_show_tasks_that_are_over, "")
{
    run_on_few(dump_after_the_end, NULL);
}
