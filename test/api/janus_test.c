/* SPDX-License-Identifier: MIT */
/*
 * Goal: the exports of SPEC-021 do what their page says, from the thread that created a scheduler,
 * from tasks, and from whoever has no business there.
 * Method: every function from every side with every kind of argument; schedulers of 1, 2 and 4
 * workers; kin's own functions only to bring about what the exports cannot.
 */
#include "api/in_runtime.h"

#include <kin/janus.h>

#include <pthread.h>

/* A function as the exports want it. */
static void *as_pointer(kin_task_fn *fn)
{
    void *pointer;

    memcpy(&pointer, &fn, sizeof pointer);
    return pointer;
}

static void *create(uint32_t workers)
{
    SchedulerConfig config = {workers, kin_test_seed(), {0, 0, 0, 0, 0}};
    void *scheduler = janus_scheduler_create(config);

    EXPECT(scheduler != NULL);
    return scheduler;
}

/* Runs a body with a scheduler of 1, 2 and 4 workers, and of as many as there are CPUs. */
static void with_scheduler(void (*body)(void))
{
    static const uint32_t workers[] = {1, 2, 4, 0};

    for (int i = 0; i < 4; i++) {
        void *scheduler = create(workers[i]);
        body();
        janus_scheduler_shutdown(scheduler);
    }
}

/* Runs fn(arg) as the only task of a nursery of the calling thread; its end. */
static int run_one(kin_task_fn *fn, void *arg)
{
    void *nursery = janus_nursery_begin();

    EXPECT(nursery != NULL);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(fn), arg), 0);
    return janus_nursery_end(nursery);
}

/* ---- schedulers ---- */

static void nothing(void)
{
}

KIN_TEST(schedulers_come_and_go, "SCHED:12.1.1")
{
    for (int i = 0; i < 5; i++)
        with_scheduler(nothing);
}

KIN_TEST(nonsense_creates_no_scheduler, "SCHED:12.1.1")
{
    SchedulerConfig config = {KIN_WORKERS_MAX + 1, 0, {0, 0, 0, 0, 0}};

    EXPECT_PTR(janus_scheduler_create(config), NULL);
    EXPECT_PTR(janus_nursery_begin(), NULL);
}

static int create_inside(void *arg)
{
    SchedulerConfig config = {1, 0, {0, 0, 0, 0, 0}};

    (void)arg;
    EXPECT_PTR(janus_scheduler_create(config), NULL);
    return 0;
}

KIN_TEST(a_task_creates_no_scheduler, "SCHED:12.1.1")
{
    run_on_few(create_inside, NULL);
}

KIN_TEST(what_is_shut_down_is_left_alone, "SCHED:12.1.1")
{
    void *scheduler = create(1);

    janus_scheduler_shutdown(NULL);
    janus_scheduler_shutdown(&scheduler); /* nobody's */
    janus_scheduler_shutdown(scheduler);
    janus_scheduler_shutdown(scheduler);
}

static int shut_down_inside(void *arg)
{
    janus_scheduler_shutdown(arg);
    return 0;
}

KIN_TEST(a_shutdown_inside_a_task_aborts, "SCHED:12.1.1")
{
    EXPECT_ABORT("janus_scheduler_shutdown")
    {
        void *scheduler = create(1);
        (void)run_one(shut_down_inside, scheduler);
    }
}

static void expect_nothing_here(void)
{
    const Budget budget = janus_budget_get_current();
    int unused = 0;

    EXPECT_EQ(janus_scheduler_spawn(as_pointer(count_it), &unused), KIN_NOSCOPE);
    EXPECT_EQ(janus_scheduler_spawn(NULL, &unused), -EINVAL);
    EXPECT_PTR(janus_nursery_begin(), NULL);
    EXPECT_EQ(janus_nursery_end(&unused), KIN_NOTASK);
    EXPECT_EQ(janus_nursery_end(NULL), -EINVAL);
    EXPECT_EQ(janus_scheduler_yield(), KIN_NOTASK);
    EXPECT_EQ(janus_budget_recharge((Budget){1, 1, 1, 1, 1}), KIN_NOTASK);
    EXPECT_EQ(budget.ops, 0);
    EXPECT_EQ(budget.memory, 0);
    EXPECT_EQ(budget.spawn_count + budget.channel_ops + budget.syscalls, 0);
    EXPECT_EQ(janus_rt_task_create(as_pointer(count_it), &unused, budget), 0);
    EXPECT_EQ(janus_rt_task_join(1), KIN_NOTASK);
    EXPECT_EQ(janus_rt_task_join(0), -EINVAL);
    janus_rt_budget_check();
    janus_rt_budget_decrement(1000);
    janus_rt_yield();
}

static void *be_a_stranger(void *arg)
{
    (void)arg;
    expect_nothing_here();
    return NULL;
}

KIN_TEST(to_other_threads_there_is_no_scheduler, "N1001 N1002")
{
    pthread_t thread;

    expect_nothing_here();
    void *scheduler = create(2);
    void *nursery = janus_nursery_begin();
    EXPECT_EQ(pthread_create(&thread, NULL, be_a_stranger, NULL), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(janus_nursery_end(nursery), 0);
    janus_scheduler_shutdown(scheduler);
    expect_nothing_here();
}

KIN_TEST(a_thread_uses_the_scheduler_it_created_last, "SCHED:12.1.1")
{
    void *schedulers[4];

    for (uint32_t i = 1; i < 4; i++) { /* told from each other by their budgets */
        SchedulerConfig config = {i, 0, {i, 0, 0, 0, 0}};
        schedulers[i] = janus_scheduler_create(config);
        EXPECT_EQ(janus_budget_get_current().ops, i);
    }
    janus_scheduler_shutdown(schedulers[2]);
    EXPECT_EQ(janus_budget_get_current().ops, 3);
    janus_scheduler_shutdown(schedulers[3]);
    EXPECT_EQ(janus_budget_get_current().ops, 1);
    janus_scheduler_shutdown(schedulers[1]);
    EXPECT_PTR(janus_nursery_begin(), NULL);
}

/* ---- nurseries of the thread ---- */

static void spawn_many(void)
{
    _Atomic int ran = 0;
    void *nursery = janus_nursery_begin();

    EXPECT(nursery != NULL);
    for (int i = 0; i < 500; i++)
        EXPECT_EQ(janus_scheduler_spawn(as_pointer(count_it), (void *)&ran), 0);
    EXPECT_EQ(janus_nursery_end(nursery), 0);
    EXPECT_EQ(atomic_load(&ran), 500);
}

KIN_TEST(a_thread_spawns_and_waits, "SCHED:8.1.1 SCHED:8.1.2 SCHED:8.1.3")
{
    with_scheduler(spawn_many);
}

static void nest_in_the_thread(void)
{
    _Atomic int outer_ran = 0, inner_ran = 0;
    void *outer = janus_nursery_begin(), *inner = janus_nursery_begin();

    EXPECT(outer && inner && outer != inner);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(count_it), (void *)&inner_ran), 0);
    EXPECT_EQ(janus_nursery_end(outer), -EBUSY); /* inner before outer */
    EXPECT_EQ(janus_nursery_end(inner), 0);
    EXPECT_EQ(atomic_load(&inner_ran), 1);
    EXPECT_EQ(janus_nursery_end(inner), KIN_STALE); /* once */
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(count_it), (void *)&outer_ran), 0);
    EXPECT_EQ(janus_nursery_end(outer), 0);
    EXPECT_EQ(atomic_load(&outer_ran), 1);
    EXPECT_EQ(janus_nursery_end(outer), KIN_STALE);
    EXPECT_EQ(janus_nursery_end(&outer), KIN_STALE); /* nobody's */
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(count_it), (void *)&outer_ran), KIN_NOSCOPE);
    EXPECT_EQ(janus_scheduler_yield(), KIN_NOTASK);
}

KIN_TEST(nurseries_of_a_thread_nest, "NSM-4 N1001")
{
    with_scheduler(nest_in_the_thread);
}

static void begin_often(void)
{
    void *before = NULL;

    for (int i = 0; i < 200; i++) {
        void *nursery = janus_nursery_begin();
        EXPECT(nursery && nursery != before); /* an old one is never taken for a new one */
        EXPECT_EQ(janus_nursery_end(before ? before : &before), KIN_STALE);
        EXPECT_EQ(janus_nursery_end(nursery), 0);
        before = nursery;
    }
}

KIN_TEST(no_nursery_is_taken_for_another, "")
{
    with_scheduler(begin_often);
}

/* ---- how a nursery ended ---- */

static int panic_now(void *arg)
{
    (void)arg;
    kin_panic("as the test says");
}

static void end_in_every_way(void)
{
    static const int pairs[][2] = {
        {0, 0}, {7, 0}, {-1, -EIO}, {-2, -EIO}, {-3, -EIO}, {-4, -4}, {-EPIPE, -EPIPE},
        {KIN_BUDGET, JANUS_BUDGET}, {KIN_CANCELLED, JANUS_CANCELLED}, {KIN_CLOSED, KIN_CLOSED},
        {KIN_TIMEOUT, KIN_TIMEOUT}, {INT32_MIN, INT32_MIN},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        EXPECT_EQ(run_one(return_it, (void *)(uintptr_t)&pairs[i][0]), pairs[i][1]);
    EXPECT_EQ(run_one(panic_now, NULL), JANUS_PANICKED);
}

KIN_TEST(each_end_has_its_code, "NSM:4.4")
{
    with_scheduler(end_in_every_way);
}

static int fail_when_told(void *arg)
{
    await(arg, 2);
    return -EPIPE;
}

static int check_for_ever(void *arg)
{
    int rc = count_it(arg);

    while (rc == 0)
        janus_rt_budget_check();
    return rc;
}

static int yield_without_end(void *arg)
{
    int rc = count_it(arg);

    while (rc == 0)
        janus_rt_yield();
    return rc;
}

static void fail_fast(void)
{
    _Atomic int begun = 0;
    void *nursery = janus_nursery_begin();

    EXPECT_EQ(janus_scheduler_spawn(as_pointer(check_for_ever), (void *)&begun), 0);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(yield_without_end), (void *)&begun), 0);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(fail_when_told), (void *)&begun), 0);
    EXPECT_EQ(janus_nursery_end(nursery), -EPIPE);
}

KIN_TEST(a_cancelled_task_ends_at_its_next_check, "SCHED:8.3.1 SCHED:11.1.1")
{
    with_scheduler(fail_fast);
}

struct cancelled {
    _Atomic int begun;
    int code, yielded;
};

static int end_a_cancelled_one(void *arg)
{
    struct cancelled *cancelled = arg;
    void *nursery = janus_nursery_begin();

    EXPECT_EQ(janus_scheduler_spawn(as_pointer(yield_without_end), (void *)&cancelled->begun), 0);
    cancelled->code = janus_nursery_end(nursery);
    cancelled->yielded = janus_scheduler_yield();
    return KIN_CANCELLED;
}

static int cancel_one(void *arg)
{
    struct cancelled cancelled = {0, 1, 1};
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, end_a_cancelled_one, &cancelled), 0);
    await(&cancelled.begun, 1);
    kin_nursery_cancel(&n, -EPIPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    EXPECT_EQ(cancelled.code, JANUS_CANCELLED); /* whatever the reason was */
    EXPECT_EQ(cancelled.yielded, KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_cancelled_nursery_says_so, "NSM-3")
{
    run_on_few(cancel_one, NULL);
}

/* ---- nurseries of tasks ---- */

static int fail_at_once(void *arg)
{
    (void)arg;
    return -EPIPE;
}

/* A failing child does not end its parent at a check: the parent hears of it at the end. */
static int outlive_a_child(void *arg)
{
    void *nursery = janus_nursery_begin();

    (void)arg;
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(fail_at_once), NULL), 0);
    while (janus_scheduler_yield() == 0) {
    }
    for (int i = 0; i < 3000; i++)
        janus_rt_budget_check();
    janus_rt_yield();
    EXPECT_EQ(janus_nursery_end(nursery), -EPIPE);
    EXPECT_EQ(janus_scheduler_yield(), 0);
    janus_rt_budget_check();
    return 0;
}

struct fibonacci {
    int n, result;
};

static int fibonacci(void *arg)
{
    struct fibonacci *f = arg, left = {f->n - 1, 0}, right = {f->n - 2, 0};

    if (f->n < 2) {
        f->result = f->n;
        return 0;
    }
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(fibonacci), &left), KIN_NOSCOPE); /* its own: none */
    void *nursery = janus_nursery_begin();
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(fibonacci), &left), 0);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(fibonacci), &right), 0);
    EXPECT_EQ(janus_nursery_end(nursery), 0);
    EXPECT_EQ(janus_nursery_end(nursery), KIN_STALE);
    f->result = left.result + right.result;
    return 0;
}

static int end_of_another(void *arg)
{
    EXPECT_EQ(janus_nursery_end(*(void **)arg), KIN_STALE); /* it lives, but is not ours */
    return 0;
}

static void use_in_tasks(void)
{
    struct fibonacci f = {10, 0};
    void *nursery = janus_nursery_begin();

    EXPECT_EQ(janus_scheduler_spawn(as_pointer(end_of_another), &nursery), 0);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(outlive_a_child), NULL), 0);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(fibonacci), &f), 0);
    EXPECT_EQ(janus_nursery_end(nursery), 0);
    EXPECT_EQ(f.result, 55);
}

KIN_TEST(tasks_have_nurseries_of_their_own, "NSM-1 NSM-4 N1001")
{
    with_scheduler(use_in_tasks);
}

static int fail_with_nurseries_open(void *arg)
{
    EXPECT(janus_nursery_begin() != NULL);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(yield_without_end), arg), 0);
    EXPECT(janus_nursery_begin() != NULL);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(check_for_ever), arg), 0);
    await(arg, 4); /* two here, two below the sibling */
    kin_fail(-EPIPE, "with two nurseries open");
}

static int check_with_nurseries_open(void *arg)
{
    EXPECT(janus_nursery_begin() != NULL);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(yield_without_end), arg), 0);
    return check_for_ever(arg);
}

static void leave_nurseries_open(void)
{
    _Atomic int begun = 0;
    void *nursery = janus_nursery_begin();

    EXPECT_EQ(janus_scheduler_spawn(as_pointer(check_with_nurseries_open), (void *)&begun), 0);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(fail_with_nurseries_open), (void *)&begun), 0);
    EXPECT_EQ(janus_nursery_end(nursery), -EPIPE);
}

KIN_TEST(a_task_that_fails_leaves_none_of_its_nurseries, "NSM-4 NSM:6.3")
{
    with_scheduler(leave_nurseries_open); /* the leak sanitizer sees what stays */
}

static int mix(void *arg)
{
    _Atomic int ran = 0;
    struct kin_nursery n;

    (void)arg;
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(count_it), (void *)&ran), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(count_it), (void *)&ran), 0); /* the innermost */
    void *inner = janus_nursery_begin();
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(count_it), (void *)&ran), 0);
    EXPECT_EQ(kin_spawn(&n, count_it, (void *)&ran), 0);
    EXPECT_EQ(janus_nursery_end(inner), 0);
    EXPECT_GE(atomic_load(&ran), 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&ran), 3);
    return 0;
}

KIN_TEST(the_exports_go_with_nurseries_of_kin, "")
{
    run_on_few(mix, NULL);
}

/* ---- shutting down ---- */

static int count_after_a_nap(void *arg)
{
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0); /* nobody cancels it */
    return count_it(arg);
}

KIN_TEST(a_shutdown_waits_for_everything, "NSM-2")
{
    for (uint32_t workers = 1; workers <= 4; workers *= 2) {
        _Atomic int ran = 0;
        void *scheduler = create(workers);
        for (int i = 0; i < 3; i++) {
            EXPECT(janus_nursery_begin() != NULL);
            EXPECT_EQ(janus_scheduler_spawn(as_pointer(count_after_a_nap), (void *)&ran), 0);
        }
        janus_scheduler_shutdown(scheduler); /* with three nurseries open */
        EXPECT_EQ(atomic_load(&ran), 3);
    }
}

struct guest {
    void *scheduler;
    _Atomic int is_inside, ran;
};

static int begin_and_nap(void *arg)
{
    struct guest *guest = arg;

    atomic_store(&guest->is_inside, 1);
    return count_after_a_nap((void *)&guest->ran);
}

static void *create_and_wait(void *arg)
{
    struct guest *guest = arg;

    guest->scheduler = create(2);
    int end = run_one(begin_and_nap, guest);
    EXPECT(end == 0 || end == KIN_NOTASK); /* the shutdown was faster than this thread */
    void *nursery;
    while ((nursery = janus_nursery_begin())) { /* not shut down yet */
        int rc = janus_nursery_end(nursery);
        EXPECT(rc == 0 || rc == KIN_NOTASK); /* the shutdown came in between */
    }
    return NULL;
}

KIN_TEST(another_thread_may_shut_a_scheduler_down, "NSM-2")
{
    struct guest guest = {NULL, 0, 0};
    pthread_t thread;

    EXPECT_EQ(pthread_create(&thread, NULL, create_and_wait, &guest), 0);
    while (!atomic_load(&guest.is_inside)) {
    }
    janus_scheduler_shutdown(guest.scheduler); /* while its creator waits in a nursery */
    EXPECT_EQ(atomic_load(&guest.ran), 1);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
}

static void *create_and_go(void *arg)
{
    *(void **)arg = create(2);
    EXPECT(janus_nursery_begin() != NULL);
    return NULL;
}

KIN_TEST(a_scheduler_outlives_its_creator, "")
{
    pthread_t thread;
    void *scheduler = NULL;

    EXPECT_EQ(pthread_create(&thread, NULL, create_and_go, &scheduler), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, be_a_stranger, NULL), 0); /* also if it is the next */
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    janus_scheduler_shutdown(scheduler);
}

static void *work_alone(void *arg)
{
    for (int i = 0; i < 5; i++) {
        void *scheduler = create(1 + (uint32_t)(uintptr_t)arg % 2);
        spawn_many();
        nest_in_the_thread();
        use_in_tasks();
        janus_scheduler_shutdown(scheduler);
    }
    return NULL;
}

KIN_TEST(threads_with_schedulers_do_not_meet, "")
{
    pthread_t threads[4];

    for (uintptr_t i = 0; i < 4; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, work_alone, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
}

/* ---- budgets ---- */

static void expect_budget(Budget actual, Budget expected)
{
    EXPECT_EQ(actual.ops, expected.ops);
    EXPECT_EQ(actual.memory, expected.memory);
    EXPECT_EQ(actual.spawn_count, expected.spawn_count);
    EXPECT_EQ(actual.channel_ops, expected.channel_ops);
    EXPECT_EQ(actual.syscalls, expected.syscalls);
}

static const Budget unlimited = {UINT32_MAX, SIZE_MAX, UINT16_MAX, UINT16_MAX, UINT16_MAX};

static int expect_unlimited(void *arg)
{
    (void)arg;
    expect_budget(janus_budget_get_current(), unlimited);
    janus_rt_budget_decrement(UINT32_MAX);
    janus_rt_budget_check();
    expect_budget(janus_budget_get_current(), unlimited);
    EXPECT_EQ(janus_budget_recharge((Budget){1, 1, 1, 1, 1}), 0); /* nothing to do */
    return 0;
}

static void have_no_limit(void)
{
    expect_budget(janus_budget_get_current(), unlimited);
    EXPECT_EQ(run_one(expect_unlimited, NULL), 0);
    EXPECT_EQ(janus_budget_recharge((Budget){1, 1, 1, 1, 1}), 0);
    expect_budget(janus_budget_get_current(), unlimited);
}

KIN_TEST(without_a_budget_there_is_no_limit, "C1")
{
    with_scheduler(have_no_limit);
}

static void *create_with(Budget budget)
{
    SchedulerConfig config = {1, 0, budget};
    void *scheduler = janus_scheduler_create(config);

    EXPECT(scheduler != NULL);
    return scheduler;
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

KIN_TEST(a_budget_is_for_all_tasks_together, "SCHED:3.1.1 SCHED:8.1.2 C1")
{
    Budget budget = {1000, 4096, 3, 20, 30};
    void *scheduler = create_with(budget);

    expect_budget(janus_budget_get_current(), budget);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(run_one(do_nothing, NULL), 0);
    void *nursery = janus_nursery_begin();
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(do_nothing), NULL), KIN_BUDGET);
    budget.spawn_count = 0;
    expect_budget(janus_budget_get_current(), budget);
    EXPECT_EQ(janus_budget_recharge((Budget){5, 6, 1, 7, 8}), 0); /* of the nursery's pool */
    expect_budget(janus_budget_get_current(), (Budget){1005, 4102, 1, 27, 38});
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(do_nothing), NULL), 0);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(do_nothing), NULL), KIN_BUDGET);
    EXPECT_EQ(janus_nursery_end(nursery), 0);
    EXPECT_EQ(janus_budget_recharge((Budget){0, 0, UINT16_MAX, 0, 0}), 0); /* the scheduler's */
    expect_budget(janus_budget_get_current(), (Budget){1005, 4102, UINT16_MAX, 27, 38});
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(run_one(do_nothing, NULL), 0);
    janus_scheduler_shutdown(scheduler);
}

KIN_TEST(large_amounts_saturate, "C1")
{
    void *scheduler = create_with((Budget){UINT32_MAX - 1, 7, UINT16_MAX - 1, 2, UINT16_MAX});

    expect_budget(janus_budget_get_current(),
                  (Budget){UINT32_MAX - 1, 7, UINT16_MAX - 1, 2, UINT16_MAX});
    EXPECT_EQ(janus_budget_recharge((Budget){2, 0, 2, UINT16_MAX - 1, 0}), 0);
    /* limited still, but more than the fields can say */
    expect_budget(janus_budget_get_current(),
                  (Budget){UINT32_MAX, 7, UINT16_MAX, UINT16_MAX, UINT16_MAX});
    janus_scheduler_shutdown(scheduler);
}

static int spend(void *arg)
{
    uint32_t before = janus_budget_get_current().ops;

    (void)arg;
    janus_rt_budget_decrement(100);
    EXPECT_EQ(janus_budget_get_current().ops, before - 100);
    janus_rt_budget_check();
    EXPECT_EQ(janus_budget_get_current().ops, before - 101);
    janus_rt_yield(); /* costs nothing */
    EXPECT_EQ(janus_scheduler_yield(), 0);
    EXPECT_EQ(janus_budget_get_current().ops, before - 101);
    EXPECT_EQ(janus_budget_recharge((Budget){1, 0, 0, 0, 0}), 0);
    EXPECT_EQ(janus_budget_recharge((Budget){1000, 0, 0, 0, 0}), KIN_BUDGET); /* in all 1000 */
    janus_rt_budget_decrement(before);
    EXPECT_EQ(janus_budget_get_current().ops, 0);
    janus_rt_budget_decrement(1);
    janus_rt_budget_check(); /* ends the task */
    EXPECT_STR("went on", "ended");
    return 0;
}

KIN_TEST(a_task_without_budget_ends, "SCHED:3.2.1 SCHED:11.1.1 SCHED:4.1.2")
{
    void *scheduler = create_with((Budget){1000, 0, UINT16_MAX, 0, 0});

    EXPECT_EQ(run_one(spend, NULL), JANUS_BUDGET);
    EXPECT_EQ(janus_budget_get_current().ops, 0);
    EXPECT_EQ(janus_budget_recharge((Budget){1000, 0, 0, 0, 0}), 0);
    EXPECT_EQ(run_one(spend, NULL), JANUS_BUDGET);
    janus_scheduler_shutdown(scheduler);
}

/* ---- a check without budget waits ---- */

static int check_often(void *arg)
{
    for (int i = 0; i < 300; i++) {
        janus_rt_budget_check();
        count_it(arg);
    }
    return 0;
}

static int recharge_oneself(void *arg)
{
    *(int *)arg = janus_budget_recharge((Budget){100, 0, 0, 0, 0});
    return 0;
}

KIN_TEST(a_check_without_budget_waits_for_the_creator_to_recharge, "SCHED:3.2.2 SCHED:4.1.2")
{
    void *scheduler = create_with((Budget){200, 0, UINT16_MAX, 0, 0});
    _Atomic int checks = 0;
    int rc = 1;
    void *nursery = janus_nursery_begin();

    EXPECT_EQ(janus_scheduler_spawn(as_pointer(check_often), (void *)&checks), 0);
    while (atomic_load(&checks) < 200) /* ends: so many it can pay for */
        usleep(1000);
    EXPECT_EQ(janus_budget_recharge((Budget){1000, 0, 0, 0, 0}), 0);
    EXPECT_EQ(janus_nursery_end(nursery), 0);
    EXPECT_EQ(atomic_load(&checks), 300);
    EXPECT_EQ(run_one(recharge_oneself, &rc), 0);
    EXPECT_EQ(rc, 0);
    janus_scheduler_shutdown(scheduler);
}

static int loop_to_the_end(void *arg)
{
    while (count_it(arg) == 0)
        janus_rt_budget_check();
    return 0;
}

KIN_TEST(every_check_is_paid_for, "SCHED:3.3.1")
{
    _Atomic int rounds = 0;
    void *scheduler = create_with((Budget){5000, 0, UINT16_MAX, 0, 0});

    EXPECT_EQ(run_one(loop_to_the_end, (void *)&rounds), JANUS_BUDGET);
    EXPECT_EQ(atomic_load(&rounds), 5001);
    janus_scheduler_shutdown(scheduler);
}

/* ---- opcodes: tasks ---- */

static int say_budget(void *arg)
{
    *(Budget *)arg = janus_budget_get_current();
    return 42;
}

static int join_foreign(void *arg)
{
    uint64_t id = *(uint64_t *)arg;
    void *nursery = janus_nursery_begin();

    EXPECT_EQ(janus_rt_task_join(id), -EPERM);
    EXPECT_EQ(janus_nursery_end(nursery), 0);
    return 0;
}

/* The same from a thread and from a task. */
static int create_and_join(void *arg)
{
    static const int error = -EPIPE, big = INT32_MAX;
    const Budget small = {300, 4000, 2, 3, 4}, zero = {0, 0, 0, 0, 0};
    Budget seen = zero;
    _Atomic int begun = 0;

    (void)arg;
    EXPECT_EQ(janus_rt_task_create(as_pointer(do_nothing), NULL, zero), 0); /* no nursery */
    void *outer = janus_nursery_begin(), *nursery = janus_nursery_begin();
    EXPECT_EQ(janus_rt_task_create(NULL, NULL, zero), 0);
    uint64_t task = janus_rt_task_create(as_pointer(say_budget), &seen, small);
    EXPECT_NE(task, 0);
    EXPECT_EQ(janus_rt_task_join(task), 42);
    expect_budget(seen, small);
    EXPECT_EQ(janus_rt_task_join(task), 42); /* again */
    uint64_t other = janus_rt_task_create(as_pointer(say_budget), &seen, zero);
    EXPECT(other != 0 && other != task);
    EXPECT_EQ(janus_rt_task_join(other), 42);
    expect_budget(seen, unlimited);
    uint64_t large = janus_rt_task_create(as_pointer(return_it), (void *)(uintptr_t)&big, zero);
    EXPECT_EQ(janus_rt_task_join(large), INT32_MAX);
    uint64_t child = janus_rt_task_create(as_pointer(join_foreign), &task, zero);
    EXPECT_EQ(janus_rt_task_join(child), 0);
    uint64_t loop = janus_rt_task_create(as_pointer(yield_without_end), (void *)&begun, small);
    uint64_t bad = janus_rt_task_create(as_pointer(return_it), (void *)(uintptr_t)&error, zero);
    EXPECT_EQ(janus_rt_task_join(bad), -EPIPE);
    EXPECT_EQ(janus_rt_task_join(loop), KIN_CANCELLED); /* by the failure of the other */
    EXPECT_EQ(janus_rt_task_create(as_pointer(do_nothing), NULL, zero), 0); /* Cancelling */
    EXPECT_EQ(janus_nursery_end(nursery), -EPIPE);
    EXPECT_EQ(janus_rt_task_join(task), KIN_STALE);
    EXPECT_EQ(janus_rt_task_join(UINT64_MAX), KIN_STALE);
    EXPECT_EQ(janus_rt_task_join(0), -EINVAL);
    task = janus_rt_task_create(as_pointer(panic_now), NULL, zero);
    EXPECT_EQ(janus_rt_task_join(task), KIN_PANICKED);
    EXPECT_EQ(janus_nursery_end(outer), JANUS_PANICKED);
    return 0;
}

static void create_and_join_twice(void)
{
    EXPECT_EQ(create_and_join(NULL), 0);
    EXPECT_EQ(run_one(create_and_join, NULL), 0);
}

KIN_TEST(tasks_are_created_with_a_budget_and_joined, "SCHED:11.1.1 SCHED:8.2.1 SCHED:15.2.2 C13")
{
    with_scheduler(create_and_join_twice);
}

/* A task in an outer nursery can be joined while an inner one is open. */
static void join_across(void)
{
    Budget zero = {0, 0, 0, 0, 0};
    void *outer = janus_nursery_begin();
    uint64_t task = janus_rt_task_create(as_pointer(do_nothing), NULL, zero);
    void *inner = janus_nursery_begin();

    EXPECT_EQ(janus_rt_task_join(task), 0);
    EXPECT_EQ(janus_nursery_end(inner), 0);
    EXPECT_EQ(janus_nursery_end(outer), 0);
}

KIN_TEST(a_task_of_an_outer_nursery_can_be_joined, "SCHED:15.2.2")
{
    with_scheduler(join_across);
}

KIN_TEST(a_budget_beyond_the_pool_creates_nothing, "SCHED:8.2.1")
{
    void *scheduler = create_with((Budget){1000, 1000, 10, 10, 10});
    void *nursery = janus_nursery_begin();
    _Atomic int rounds = 0;

    EXPECT_EQ(janus_rt_task_create(as_pointer(do_nothing), NULL, (Budget){1001, 0, 0, 0, 0}), 0);
    expect_budget(janus_budget_get_current(), (Budget){1000, 1000, 10, 10, 10});
    uint64_t task = janus_rt_task_create(as_pointer(loop_to_the_end), (void *)&rounds,
                                         (Budget){400, 0, 0, 0, 0});
    EXPECT_EQ(janus_rt_task_join(task), KIN_BUDGET);
    EXPECT_EQ(atomic_load(&rounds), 1001); /* the pool recharged it as long as it could */
    EXPECT_EQ(janus_nursery_end(nursery), JANUS_BUDGET);
    janus_scheduler_shutdown(scheduler);
}
