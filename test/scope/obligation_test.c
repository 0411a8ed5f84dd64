/* SPDX-License-Identifier: MIT */
/*
 * Goal: an obligation that is adopted is owed by the new owner alone, whoever races for it.
 * Method: white box: kin__obligation_adopt among tasks that come and go, beside commits; the lists
 * of the owners are looked at.
 */
#include "api/in_runtime.h"

#include <kin/obligation.h>

#include "sched/extra.h"
#include "sched/worker.h"
#include "scope/belongings.h"

static size_t owed(void)
{
    struct kin__task *task = kin__task_self();
    size_t count = 0;

    if (!(task->flags & KIN__TASK_EXTRA))
        return 0;
    KIN__LIST_EACH(link, &task->extra->obligations)
        count++;
    return count;
}

static int adopt_and_commit(void *arg)
{
    struct kin_obligation *o = arg;

    EXPECT_EQ(owed(), 0);
    EXPECT_EQ(kin__obligation_adopt(o, kin__task_self()), 0);
    EXPECT_EQ(owed(), 1);
    EXPECT_EQ(kin__obligation_adopt(o, kin__task_self()), 0); /* from itself to itself */
    EXPECT_EQ(owed(), 1);
    EXPECT_EQ(kin_obligation_commit(o), 0);
    EXPECT_EQ(owed(), 0);
    EXPECT_EQ(kin__obligation_adopt(o, kin__task_self()), KIN_STALE);
    return 0;
}

static int adopt_and_leak(void *arg)
{
    EXPECT_EQ(kin__obligation_adopt(arg, kin__task_self()), 0);
    return 0;
}

static int give_away(void *arg)
{
    struct kin_obligation *o = NULL;
    (void)arg;
    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_ACK, &o), 0);
    EXPECT_EQ(owed(), 1);
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, adopt_and_commit, o), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    EXPECT_EQ(owed(), 0);
    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_ACK, &o), 0);
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, adopt_and_leak, o), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_LEAKED);
    }
    EXPECT_EQ(owed(), 0);
    EXPECT_EQ(kin_leaks(), 1);
    kin__leaks_add(kin__task_sched(kin__task_self()), 2); /* as a dropped reply does */
    EXPECT_EQ(kin_leaks(), 3);
    return 0;
}

KIN_TEST(an_adopted_obligation_is_owed_by_the_new_owner, "D1")
{
    run_on_few(give_away, NULL);
}

/* ---- many who adopt and one who commits ---- */

struct scramble {
    struct kin_obligation *o;
    _Atomic int adopted, committed, stale;
};

static int scramble_for_it(void *arg)
{
    struct scramble *scramble = arg;

    for (int i = 0; i < 20; i++) {
        int rc = kin__obligation_adopt(scramble->o, kin__task_self());
        EXPECT(rc == 0 || rc == KIN_STALE);
        atomic_fetch_add(rc == 0 ? &scramble->adopted : &scramble->stale, 1);
        if (i % 4 == 0)
            kin_ignore(kin_yield());
    }
    return 0;
}

static int commit_in_between(void *arg)
{
    struct scramble *scramble = arg;

    kin_ignore(kin_yield());
    int rc = kin_obligation_commit(scramble->o);
    EXPECT(rc == 0 || rc == KIN_STALE);
    atomic_fetch_add(&scramble->committed, rc == 0);
    return 0;
}

static int scrambles(void *arg)
{
    size_t leaks = 0;
    (void)arg;
    for (int i = 0; i < 200; i++) {
        struct scramble scramble = {NULL, 0, 0, 0};
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_USER, &scramble.o), 0);
        for (int k = 0; k < 3; k++)
            EXPECT_EQ(kin_spawn(&n, scramble_for_it, &scramble), 0);
        EXPECT_EQ(kin_spawn(&n, commit_in_between, &scramble), 0);
        int rc = kin_nursery_join(&n, NULL);
        /* It was committed once, or the last of those who adopted it leaked it; or nobody did
         * either, and it is still this task's. */
        if (kin_obligation_commit(scramble.o) == 0)
            atomic_fetch_add(&scramble.committed, 1);
        EXPECT_EQ(atomic_load(&scramble.committed) + (rc == KIN_LEAKED), 1);
        leaks += rc == KIN_LEAKED;
        EXPECT_EQ(kin_leaks(), leaks);
        EXPECT_EQ(owed(), 0);
    }
    return 0;
}

KIN_TEST(however_many_adopt_it_an_obligation_ends_once, "D1")
{
    run_on_few(scrambles, NULL);
}
