/* SPDX-License-Identifier: MIT */
/*
 * Goal: frames of children that somebody can name stay with the nursery, all others go at once; an
 *       outcome is fixed when the child ends; who waits for an end waits until all others are told.
 * Method: white box: lists of the scope, names of frames, requests that come after the end.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "scope/scope.h"
#include "task/word.h"

static struct kin__scope *scope_of(struct kin_nursery *n)
{
    return kin__load_relaxed(&kin__handle_of(n)->scope); /* relaxed: the owner's own */
}

static unsigned count_ended(struct kin__scope *scope)
{
    unsigned count = 0;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    if (scope->has & KIN__SCOPE_KEEPS) {
        for (const struct kin__list *link = scope->ended.next; link != &scope->ended;
             link = link->next)
            count++;
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return count;
}

static int keep_some(void *arg)
{
    int one = 1;
    struct kin_task_ref refs[5];
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(kin_spawn(&n, return_it, &one), 0);
        EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &one, 0, &refs[i]), 0);
        EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &one, 0, NULL), 0); /* nobody asked */
    }
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_task_join(&n, refs[i], NULL, KIN_NEVER), 0);
    kin__nursery_wait(&n);
    EXPECT_EQ(count_ended(scope_of(&n)), 5);
    for (int i = 0; i < 5; i++) {
        struct kin__task *task = kin__task_find(refs[i].id);
        EXPECT(task);
        EXPECT_EQ(task->over, 1 + KIN_SEV_OK);
        EXPECT_PTR(kin__load_relaxed(&task->scope), scope_of(&n)); /* relaxed: over */
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 5; i++)
        EXPECT_PTR(kin__task_find(refs[i].id), NULL); /* the names are over */
    return 0;
}

static int remember_few(void *arg)
{
    struct kin_task_ref refs[6];
    int values[6] = {0, 1, 2, 3, 4, 5};
    struct kin_outcome how;
    KIN_NURSERY(n, .ends_max = 4);
    (void)arg;
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &values[i], 0, &refs[i]), 0);
        EXPECT_EQ(kin_task_join(&n, refs[i], &how, KIN_NEVER), 0);
        EXPECT_EQ(how.value, i);
    }
    EXPECT_EQ(count_ended(scope_of(&n)), 4);
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(kin_task_join(&n, refs[i], &how, 0), i < 2 ? KIN_STALE : 0);
        if (i >= 2)
            EXPECT_EQ(how.value, i);
        EXPECT_EQ(kin_task_cancel(refs[i]), i < 2 ? KIN_STALE : 0);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(of_many_children_with_names_the_last_ones_to_end_are_remembered, "002:1.1")
{
    EXPECT_EQ(run_reporting(2, remember_few, NULL, NULL), 0);
}

KIN_TEST(frames_that_somebody_can_name_stay_until_the_release, "002:1.1 SCHED:15.2.2")
{
    for (int i = 0; i < 20; i++)
        run_on_few(keep_some, NULL);
}

static int be_cancelled_unasked(void *arg)
{
    (void)arg;
    return KIN_CANCELLED;
}

static int ask_too_late(void *arg)
{
    struct kin_task_ref ref;
    struct kin_outcome how;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, be_cancelled_unasked, NULL, 0, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    uint64_t before = kin__word_requests(kin__task_find(ref.id));
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin__word_requests(kin__task_find(ref.id)), before); /* nothing is asked of it */
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR); /* as it ended */
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_request_that_comes_after_the_end_does_not_change_the_outcome, "B5")
{
    run_on_few(ask_too_late, NULL);
}

/* The owner waits for one child while others come and go. */
static int come_and_go(void *arg)
{
    kin_ignore(kin_yield());
    return (int)(intptr_t)arg;
}

static int sleep_a_little(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(300))), 0);
    return 9;
}

static int wait_among_others(void *arg)
{
    struct kin_task_ref ref;
    struct kin_outcome how;
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_a_little, NULL, 0, &ref), 0);
    for (intptr_t i = 0; i < 50; i++)
        EXPECT_EQ(kin_spawn(&n, come_and_go, (void *)i), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.value, 9);
    struct kin__scope *scope = scope_of(&n);
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    EXPECT(!(scope->has & KIN__SCOPE_ENDERS) || kin__waitq_is_empty(&scope->enders));
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(the_end_of_one_child_wakes_whoever_waits_for_that_one, "A10 NSM:3.2")
{
    for (int i = 0; i < 10; i++)
        run_on_few(wait_among_others, NULL);
}

/* A deadline and the end come at the same moment: one of the two is told, and nothing is left. */
static int race_the_deadline(void *arg)
{
    const int rounds = 300 / (int)kin_test_scale();
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        struct kin_task_ref ref;
        struct kin_outcome how = {.value = -1};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_a_little, NULL, 0, &ref), 0);
        int rc = kin_task_join(&n, ref, &how, kin_after(KIN_US(300)));
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
        EXPECT_EQ(how.value, rc == 0 ? 9 : -1);
        EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
        EXPECT_EQ(how.value, 9);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(an_end_and_a_deadline_at_the_same_moment_are_one_answer, "A7 A10")
{
    run_on_few(race_the_deadline, NULL);
}

/* ---- others are told first ---- */

static _Atomic int tells, has_told;
static struct kin_outcome told;

/* Stands in for otp: takes its time. */
static void tell_slowly(uint64_t task, const struct kin_outcome *how)
{
    EXPECT_EQ(how->task, task);
    if (how->severity != KIN_SEV_ERROR)
        return;
    told = *how;
    atomic_store(&tells, 1);
    while (atomic_load(&has_told) == 0) /* ends: the one who joins lets it */
        kin__thread_yield();
}

static int no_exit_status(uint64_t task)
{
    (void)task;
    return 0;
}

static void close_nothing(struct kin__sched *sched)
{
    (void)sched;
}

static uint64_t holds_nobody(const struct kin__task *waiter, const struct kin__waits *waits)
{
    (void)waiter, (void)waits;
    return 0;
}

static int join_while_others_are_told(void *arg)
{
    static const struct kin__party_ops slow = {tell_slowly, no_exit_status, close_nothing,
                                               holds_nobody};
    int status = -EIO;
    struct kin_outcome how = {0};
    struct kin_task_ref ref;
    struct kin__task *task;
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;
    options.on_error = KIN_COLLECT;
    kin__store_release(&kin__party_ops, &slow); /* pairs with the acquire in ended.c */
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    struct kin__scope *scope = scope_of(&n);
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    scope->has |= KIN__SCOPE_PARTIES;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &status, 0, &ref), 0);
    await(&tells, 1);
    EXPECT_EQ(kin_task_join(&n, ref, &how, 0), KIN_TIMEOUT); /* not yet */
    EXPECT_EQ(kin_task_cancel(ref), 0);                      /* and too late */
    EXPECT_PTR(kin__scope_lock_of(ref.id, &task), scope);    /* who looks for it finds it over */
    EXPECT(task->over != 0);
    EXPECT_EQ(kin__task_outcome(task).status, -EIO);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    atomic_store(&has_told, 1);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    EXPECT_EQ(how.status, -EIO);
    EXPECT_EQ(told.status, -EIO);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(who_waits_for_an_end_comes_after_everybody_who_is_told, "SCHED:15.2.2")
{
    (void)unsetenv("KIN_HARD"); /* it takes two workers: one that computes is not replaced */
    EXPECT_EQ(run_reporting(2, join_while_others_are_told, NULL, NULL), 0);
}
