/* SPDX-License-Identifier: MIT */
/*
 * Goal: admission counts right: promises of room are kept, passed on or taken back, and the
 *       runtime's own tasks are nobody's result.
 * Method: white box: the counters of the scope between the steps of spawners that wait.
 *
 * And a task has what a task is to have.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "scope/scope.h"

static struct kin__scope *scope_of(struct kin_nursery *n)
{
    return kin__load_relaxed(&kin__handle_of(n)->scope); /* relaxed: the owner's own */
}

/* Under the lock of the scope: how many wait for room, and how many have it promised. */
static void count(struct kin__scope *scope, unsigned *waiting, uint64_t *promised)
{
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    *waiting = 0;
    *promised = 0;
    if (scope->has & KIN__SCOPE_SLOTS) {
        *promised = scope->promised;
        for (const struct kin__list *link = scope->slots.list.next;
             link && link != &scope->slots.list; link = link->next)
            ++*waiting;
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
}

static void await_waiting(struct kin__scope *scope, unsigned wanted)
{
    unsigned waiting;
    uint64_t promised;
    do {
        kin_ignore(kin_yield());
        count(scope, &waiting, &promised);
    } while (waiting != wanted);
}

struct waiter {
    struct kin_nursery *n;
    _Atomic int *let_go;
    kin_time deadline;
    size_t arg_size;
    _Atomic int rc; /* 1: got in */
};

static int wait_to_go(void *arg)
{
    _Atomic int *let_go = *(_Atomic int **)arg;
    int rc = 0;
    while (rc == 0 && atomic_load(let_go) == 0)
        rc = kin_yield();
    return rc;
}

static int want_in(void *arg)
{
    struct waiter *waiter = arg;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.slot_deadline = waiter->deadline;
    int rc = kin_spawn_with(waiter->n, &options, wait_to_go, &waiter->let_go, waiter->arg_size,
                            NULL);
    atomic_store(&waiter->rc, rc == 0 ? 1 : rc);
    return 0;
}

/* One worker: nobody runs but when the test lets it. */
static int keep_promises(void *arg)
{
    _Atomic int first_goes = 0, rest_goes = 0, *first = &first_goes;
    struct waiter waiters[2];
    struct kin_nursery n, line;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    unsigned waiting;
    uint64_t promised;
    (void)arg;
    memset(waiters, 0, sizeof waiters);
    options.tasks_max = 1;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_nursery_open(&line, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, wait_to_go, &first), 0);
    struct kin__scope *scope = scope_of(&n);
    for (int i = 0; i < 2; i++) {
        waiters[i].n = &n;
        waiters[i].let_go = &rest_goes;
        waiters[i].deadline = KIN_NEVER;
        waiters[i].arg_size = sizeof waiters[i].let_go;
        EXPECT_EQ(kin_spawn(&line, want_in, &waiters[i]), 0);
        await_waiting(scope, (unsigned)i + 1);
    }
    count(scope, &waiting, &promised);
    EXPECT_EQ(promised, 0);
    atomic_store(&first_goes, 1);
    do { /* until the child is over, and its room is promised and not taken yet */
        kin_ignore(kin_yield());
        count(scope, &waiting, &promised);
    } while (waiting == 2);
    EXPECT_EQ(waiting, 1);
    if (promised) /* else the waiter was faster than this look */
        EXPECT_EQ(kin_spawn(&n, wait_to_go, &first), KIN_FULL); /* it is not for others */
    while (atomic_load(&waiters[0].rc) == 0)
        kin_ignore(kin_yield());
    EXPECT_EQ(atomic_load(&waiters[0].rc), 1);
    count(scope, &waiting, &promised);
    EXPECT_EQ(promised, 0);
    EXPECT_EQ(waiting, 1);
    atomic_store(&rest_goes, 1);
    EXPECT_EQ(kin_nursery_join(&line, NULL), 0);
    EXPECT_EQ(atomic_load(&waiters[1].rc), 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(room_is_promised_to_the_first_who_waits_and_to_nobody_else, "B7")
{
    for (int i = 0; i < 20; i++)
        run_on_few(keep_promises, NULL);
}

/* A promise that cannot be used: there is no memory for the argument. The next one gets it. */
static int pass_a_promise_on(void *arg)
{
    _Atomic int first_goes = 0, rest_goes = 1, *first = &first_goes;
    struct waiter waiters[2];
    struct kin_nursery n, line;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;
    memset(waiters, 0, sizeof waiters);
    options.tasks_max = 1;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_nursery_open(&line, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, wait_to_go, &first), 0);
    for (int i = 0; i < 2; i++) {
        waiters[i].n = &n;
        waiters[i].let_go = &rest_goes;
        waiters[i].deadline = KIN_NEVER;
        /* the first one asks for more than there is */
        waiters[i].arg_size = i == 0 ? SIZE_MAX / 4 : sizeof waiters[i].let_go;
        EXPECT_EQ(kin_spawn(&line, want_in, &waiters[i]), 0);
        await_waiting(scope_of(&n), (unsigned)i + 1);
    }
    atomic_store(&first_goes, 1);
    EXPECT_EQ(kin_nursery_join(&line, NULL), 0);
    EXPECT_EQ(atomic_load(&waiters[0].rc), -ENOMEM);
    EXPECT_EQ(atomic_load(&waiters[1].rc), 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_promise_that_is_not_used_goes_on_to_the_next, "B7")
{
    for (int i = 0; i < 20; i++)
        run_on_few(pass_a_promise_on, NULL);
}

/* ---- the runtime's own tasks ---- */

static _Atomic int internal_ran;

static int fail_inside(void *arg)
{
    atomic_fetch_add(&internal_ran, 1);
    if (arg)
        kin_panic("inside");
    return -EIO;
}

static int start_two(void *arg)
{
    (void)arg;
    struct kin__sched *sched = kin__worker_self()->sched;
    EXPECT_EQ(kin__task_start_internal(sched, fail_inside, NULL, "first"), 0);
    EXPECT_EQ(kin__task_start_internal(sched, fail_inside, &internal_ran, "second"), 0);
    return 7;
}

KIN_TEST(how_the_runtime_s_own_tasks_end_is_nobody_s_result, "SCHED:6.2.3")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        atomic_store(&internal_ran, 0);
        EXPECT_EQ(run_reporting(workers, start_two, NULL, NULL), 7);
        EXPECT_EQ(atomic_load(&internal_ran), 2); /* the runtime waits for them, too */
    }
}

/* ---- what a refusal leaves ---- */

static int refuse_in_every_way(void *arg)
{
    int one = 1;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_task_ref ref = {77};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(NULL, return_it, &one), KIN_NOSCOPE);
    EXPECT_EQ(kin_spawn(&n, NULL, &one), -EINVAL);
    EXPECT_EQ(kin_spawn_copy(&n, return_it, NULL, 4), -EINVAL);
    EXPECT_EQ(kin_spawn_copy(NULL, return_it, &one, sizeof one), KIN_NOSCOPE);
    EXPECT_EQ(kin_spawn_with(NULL, NULL, return_it, &one, 0, &ref), KIN_NOSCOPE);
    options.size = 1;
    EXPECT_EQ(kin_spawn_with(&n, &options, return_it, &one, 0, &ref), -EINVAL);
    options = (struct kin_spawn_options)KIN_SPAWN_OPTIONS_INIT;
    options.priority = (enum kin_priority)9;
    EXPECT_EQ(kin_spawn_with(&n, &options, return_it, &one, 0, &ref), -EINVAL);
    options = (struct kin_spawn_options)KIN_SPAWN_OPTIONS_INIT;
    options.stack_max_bytes = SIZE_MAX;
    EXPECT_EQ(kin_spawn_with(&n, &options, return_it, &one, 0, &ref), -EINVAL);
    EXPECT_EQ(kin_spawn_copy(&n, return_it, &one, SIZE_MAX / 2), -ENOMEM);
    EXPECT_EQ(ref.id, 77); /* untouched */
    kin_nursery_close(&n);
    EXPECT_EQ(kin_spawn(&n, return_it, &one), KIN_NOSCOPE);
    EXPECT_EQ(kin__scope_live(kin__load_relaxed(&scope_of(&n)->word)), 0); /* relaxed: own */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(what_is_refused_leaves_nothing_behind, "NSM:3.1 NCG-4 N1001")
{
    run_on_few(refuse_in_every_way, NULL);
}

/* ---- what a task has ---- */

struct parts {
    struct kin_nursery *n;
    uint64_t id;
};

/* Every part of a task, as the task itself has it. */
static int look_at_oneself(void *arg)
{
    struct parts *parts = arg;
    struct kin__task *self = kin__task_self();
    struct kin_budget left = kin_budget_left();
    EXPECT_NE(kin__task_id(self), 0); /* its id, */
    EXPECT_EQ(kin_self().id, kin__task_id(self));
    EXPECT_PTR(kin__load_relaxed(&self->scope), scope_of(parts->n)); /* relaxed: its nursery, */
    EXPECT_EQ(kin_caps(), KIN_CAP_TIME | KIN_CAP_SPAWN);             /* its capabilities, */
    EXPECT_EQ(self->caps & KIN_CAP_ALL, KIN_CAP_TIME | KIN_CAP_SPAWN);
    EXPECT(self->flags & KIN__TASK_LOW); /* its priority, */
    EXPECT_GT(left.ops, 0);              /* its budget, */
    EXPECT_LE(left.ops, 5000);
    EXPECT_LE(left.memory, 1 << 16);
    EXPECT_EQ(left.spawns, 3);
    char here; /* and a place to go on at, on its own stack */
    EXPECT(self->stack != NULL);
    EXPECT(&here > self->low);
    parts->id = kin__task_id(self);
    return 42;
}

static int in_a_task_has_its_parts(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_outcome how = {0};
    struct kin_task_ref first, second;
    KIN_NURSERY(n);
    struct parts parts[2] = {{.n = &n}, {.n = &n}};
    (void)arg;
    options.name = "parts";
    options.caps = KIN_CAP_TIME | KIN_CAP_SPAWN;
    options.priority = KIN_PRIORITY_LOW;
    options.budget = (struct kin_budget){.ops = 5000, .memory = 1 << 16, .spawns = 3,
                                         .channel_ops = 7, .syscalls = 8};
    EXPECT_EQ(kin_spawn_with(&n, &options, look_at_oneself, &parts[0], 0, &first), 0);
    EXPECT_EQ(kin_spawn_with(&n, &options, look_at_oneself, &parts[1], 0, &second), 0);
    EXPECT_EQ(kin_task_join(&n, first, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.value, 42); /* what it ended with, */
    EXPECT_EQ(how.task, first.id);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(parts[0].id, first.id); /* and nobody else is called like it */
    EXPECT_EQ(parts[1].id, second.id);
    EXPECT_NE(first.id, second.id);
    return 0;
}

KIN_TEST(a_task_has_every_part_that_it_is_to_have, "SCHED:5.1.1")
{
    EXPECT_EQ(run_reporting(2, in_a_task_has_its_parts, NULL, NULL), 0);
}
