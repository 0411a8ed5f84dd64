/* SPDX-License-Identifier: MIT */
/*
 * Goal: an owner that is over is known as such, everybody who waits for one of its locks is told,
 * nobody else is disturbed for good, and the count of held locks neither wraps nor lies.
 * Method: tasks that end with locks held; the end is announced by hand where the order matters.
 */
#include "wait/in_line.h"

#include "base/text.h"
#include "wait/mutex.h"
#include "wait/owner.h"

#include <kin/sync.h>

static struct kin__crowd *crowd_of(struct kin_mutex *mutex)
{
    return &((struct kin__mutex *)(void *)mutex)->crowd;
}

static unsigned held(void)
{
    return (kin__task_self()->flags & KIN__TASK_LOCKS) / KIN__TASK_LOCK;
}

/* ---- the count ---- */

static int hold_many(void *arg)
{
    struct kin_mutex mutexes[20] = {{{0}}};
    struct kin_rwlock rwlock = {{0}};
    (void)arg;
    EXPECT_EQ(held(), 0);
    for (unsigned i = 0; i < 5; i++) {
        EXPECT_EQ(kin_mutex_lock(&mutexes[i], KIN_NEVER), 0);
        EXPECT_EQ(held(), i + 1);
    }
    EXPECT_EQ(kin_mutex_lock(&mutexes[0], KIN_NEVER), -EDEADLK);
    EXPECT_EQ(held(), 5);
    EXPECT_EQ(kin_rwlock_read_lock(&rwlock, KIN_NEVER), 0);
    EXPECT_EQ(held(), 6);
    EXPECT_EQ(kin_rwlock_write_lock(&rwlock, 0), KIN_TIMEOUT);
    kin_rwlock_read_unlock(&rwlock);
    EXPECT_EQ(kin_rwlock_write_lock(&rwlock, KIN_NEVER), 0);
    EXPECT_EQ(held(), 6);
    kin_rwlock_write_unlock(&rwlock);
    for (int i = 0; i < 5; i++)
        kin_mutex_unlock(&mutexes[i]);
    EXPECT_EQ(held(), 0);
    return 0;
}

static int hold_too_many(void *arg)
{
    struct kin_mutex mutexes[20] = {{{0}}};
    unsigned flags = kin__task_self()->flags;
    (void)arg;
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_mutex_lock(&mutexes[i], KIN_NEVER), 0);
    for (int i = 0; i < 20; i++)
        kin_mutex_unlock(&mutexes[i]);
    EXPECT_EQ(held(), 7); /* stays there: it is no longer known */
    EXPECT_EQ(kin__task_self()->flags & ~KIN__TASK_LOCKS, flags); /* and no other flag suffers */
    return 0;
}

KIN_TEST(a_task_counts_the_locks_it_holds, "")
{
    struct reports reports = {0};
    EXPECT_EQ(run_reporting(1, hold_many, NULL, &reports), 0);
    EXPECT_EQ(run_reporting(1, hold_too_many, NULL, &reports), 0);
    EXPECT_EQ(reports.count, 0);
}

/* ---- who is over ---- */

static int give_id(void *arg)
{
    uint64_t *id = arg;
    *id = kin__owner_of(kin__task_self());
    EXPECT(!kin__owner_is_over(*id));
    return 0;
}

static int ask_for_the_dead(void *arg)
{
    uint64_t id = 0;
    struct kin_nursery n;
    (void)arg;
    EXPECT(!kin__owner_is_over(kin__owner_of(kin__task_self())));
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, give_id, &id), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT(kin__owner_is_over(id));
    return 0;
}

KIN_TEST(a_task_that_is_over_is_known_to_be, "ABA:8.3")
{
    run_on_few(ask_for_the_dead, NULL);
}

/* ---- the end of an owner with others in line ---- */

static int lock_it(void *arg)
{
    struct in_line *me = arg;
    me->rc = kin_mutex_lock(me->object, me->deadline);
    if (me->rc == 0)
        kin_mutex_unlock(me->object);
    return 0;
}

struct keeper {
    struct kin_mutex *mutex;
    struct kin_event *end;
    _Atomic int holds;
    struct kin_event *gone; /* what its end waits for; NULL: nothing */
};

static int keep_until_the_end(void *arg)
{
    struct keeper *keeper = arg;
    EXPECT_EQ(kin_mutex_lock(keeper->mutex, KIN_NEVER), 0);
    keeper->holds = 1;
    EXPECT_EQ(kin_event_wait(keeper->end, KIN_NEVER), 0);
    kin__owner_abandon(kin__task_self()); /* what its end does */
    kin__owner_lose(kin__task_self());
    if (keeper->gone) /* as a frame that is kept with its name */
        EXPECT_EQ(kin_event_wait(keeper->gone, KIN_NEVER), 0);
    return 0;
}

static int abandon(void *arg)
{
    enum { WAITERS = 70 };
    struct kin_mutex lost = {{0}}, fine = {{0}};
    struct kin_event end = {{0}}, gone = {{0}};
    struct keeper keeper = {&lost, &end, 0, &gone};
    static struct line losers, others;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_mutex_lock(&fine, KIN_NEVER), 0);
    EXPECT_EQ(kin_spawn(&n, keep_until_the_end, &keeper), 0);
    await(&keeper.holds, 1);
    line_open(&losers, crowd_of(&lost), lock_it, &lost);
    for (int i = 0; i < WAITERS; i++)
        line_add(&losers, i % 2 ? KIN_NEVER : kin_after(KIN_SEC(1000)));
    line_open(&others, crowd_of(&fine), lock_it, &fine);
    for (int i = 0; i < 5; i++)
        line_add(&others, KIN_NEVER);
    kin_event_set(&end);
    await_in_line(crowd_of(&lost), 0);
    await_in_line(crowd_of(&fine), 5); /* they looked, and got in line again */
    kin_mutex_unlock(&fine);
    line_join(&others);
    line_join(&losers);
    for (int i = 0; i < WAITERS; i++)
        EXPECT_EQ(losers.waiters[i].rc, -EOWNERDEAD);
    EXPECT_EQ(kin_mutex_lock(&lost, 0), -EOWNERDEAD);
    kin_event_set(&gone);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(others.waiters[i].rc, 0);
    EXPECT_EQ(kin_mutex_lock(&lost, 0), -EOWNERDEAD);
    return 0;
}

KIN_TEST(everybody_in_line_is_told_when_the_owner_ends, "T064 T085")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, abandon, NULL, &reports), 0);
        EXPECT_EQ(reports.count, 2); /* the end, and the lock that was found */
        EXPECT_EQ(reports.status[0], -EOWNERDEAD);
        EXPECT(strstr(reports.text[0], "has ended and still holds 1 lock"));
        EXPECT_EQ(reports.status[1], -EOWNERDEAD);
        EXPECT(strstr(reports.text[1], "is broken: its owner, task "));
    }
}

/* Those who come while the owner ends either see it or are seen. */
static int come_late(void *arg)
{
    struct in_line *me = arg;
    me->rc = kin_mutex_lock(me->object, KIN_NEVER);
    return 0;
}

static int race_with_the_end(void *arg)
{
    const int rounds = 200 / (int)kin_test_scale() + 1;
    (void)arg;
    for (int round = 0; round < rounds; round++) {
        struct kin_mutex lost = {{0}};
        struct kin_event end = {{0}};
        struct keeper keeper = {&lost, &end, 0, NULL};
        struct in_line late[4];
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, keep_until_the_end, &keeper), 0);
        await(&keeper.holds, 1);
        for (int i = 0; i < 4; i++) {
            late[i] = (struct in_line){&lost, i, KIN_NEVER, 1};
            EXPECT_EQ(kin_spawn(&n, come_late, &late[i]), 0);
            if (i == round % 4)
                kin_event_set(&end);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* ends: nobody is forgotten */
        for (int i = 0; i < 4; i++)
            EXPECT_EQ(late[i].rc, -EOWNERDEAD);
    }
    return 0;
}

KIN_TEST(whoever_comes_while_the_owner_ends_is_told, "T085")
{
    run_on_few(race_with_the_end, NULL);
}

/* ---- misuse ---- */

static int misuse(void *arg)
{
    (void)arg;
    kin__owner_misuse("kin_x", "this is how it goes", &arg, kin__owner_of(kin__task_self()));
}

static int note_owner(void *arg)
{
    *(uint64_t *)arg = kin__owner_of(kin__task_self());
    return 0;
}

KIN_TEST(misuse_names_call_rule_caller_and_owner, "")
{
    char name[64], pattern[128];
    struct kin__text text;
    uint64_t owner = 0;
    EXPECT_ABORT("kin: kin_x: this is how it goes; called by task ")
    {
        kin_ignore(run_reporting(1, misuse, NULL, NULL));
    }
    EXPECT_EQ(run_reporting(1, note_owner, &owner, NULL), 0);
    kin__text_init(&text, name, sizeof name);
    kin__task_say_id(&text, owner);
    snprintf(pattern, sizeof pattern, "held by %s, which is over", name);
    EXPECT_ABORT(pattern)
    {
        kin__owner_misuse("kin_x", "this is how it goes", NULL, owner);
    }
}
