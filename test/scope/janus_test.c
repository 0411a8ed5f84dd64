/* SPDX-License-Identifier: MIT */
/*
 * Goal: schedulers of the exports leave nothing behind, whatever fails, and what stands for a
 * nursery is never followed.
 * Method: white box: the blocks that nurseries keep, names of scopes, numbers of threads; resources
 * that run out at each request in turn.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "scope/scope.h"
#include "task/extra.h"

#include <kin/janus.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void *as_pointer(kin_task_fn *fn)
{
    void *pointer;

    memcpy(&pointer, &fn, sizeof pointer);
    return pointer;
}

/* ---- storage ---- */

static size_t blocks_kept(void)
{
    const struct kin__task *task = kin__task_self();
    size_t count = 0;

    if (task->flags & KIN__TASK_EXTRA) {
        for (struct kin__more *more = task->extra->kept; more; more = more->next)
            count++;
    }
    return count;
}

static int begin_and_fail(void *arg)
{
    (void)arg;
    EXPECT(janus_nursery_begin() != NULL);
    EXPECT(janus_nursery_begin() != NULL);
    EXPECT_EQ(blocks_kept(), 2);
    kin_fail(-EPIPE, "with storage that nobody has a pointer to any more");
}

static int begin_and_end(void *arg)
{
    (void)arg;
    void *outer = janus_nursery_begin();
    const struct kin__scope *scope = kin__load_relaxed(&kin__task_self()->inner); /* its own */
    EXPECT_EQ((uintptr_t)outer, kin__load_relaxed(&scope->frame.name)); /* relaxed: constant */
    void *inner = janus_nursery_begin();
    EXPECT_EQ(blocks_kept(), 2);
    EXPECT_EQ(janus_nursery_end(inner), 0);
    EXPECT_EQ(blocks_kept(), 1);
    EXPECT_EQ(janus_nursery_end(outer), 0);
    EXPECT_EQ(blocks_kept(), 0);
    return 0;
}

static int keep_storage(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, begin_and_end, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        KIN_NURSERY(m);
        EXPECT_EQ(kin_spawn(&m, begin_and_fail, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&m, NULL), -EPIPE); /* with it goes the storage */
        EXPECT_EQ(blocks_kept(), 1); /* what the child said is m's for as long as m is there */
    }
    return 0;
}

KIN_TEST(the_storage_of_a_nursery_is_kept_by_its_owner, "")
{
    run_on_few(keep_storage, NULL);
}

/* Guesses at the names of nurseries that are not of the exports. */
static int end_what_is_not_ours(void *arg)
{
    struct kin_nursery n;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    struct kin__scope *scope = kin__load_relaxed(&kin__handle_of(&n)->scope); /* relaxed: its own */
    void *name = (void *)(uintptr_t)kin__load_relaxed(&scope->frame.name); /* relaxed: constant */
    EXPECT_EQ(janus_nursery_end(name), KIN_STALE);
    EXPECT_EQ(janus_nursery_end(&n), KIN_STALE);
    EXPECT_EQ(janus_nursery_end(scope), KIN_STALE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_nursery_of_kin_is_not_ended_by_the_exports, "")
{
    run_on_few(end_what_is_not_ours, NULL);
}

/* ---- threads ---- */

static void *note_number(void *arg)
{
    uint64_t number = kin__thread_number();

    EXPECT_EQ(kin__thread_number(), number);
    *(uint64_t *)arg = number;
    return NULL;
}

KIN_TEST(no_two_threads_ever_have_one_number, "")
{
    enum { THREADS = 20 };
    uint64_t numbers[THREADS + 1] = {0};
    pthread_t thread;

    for (int i = 0; i < THREADS; i++) { /* one after the other: the system reuses what it can */
        EXPECT_EQ(pthread_create(&thread, NULL, note_number, &numbers[i]), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
    }
    note_number(&numbers[THREADS]);
    for (int i = 0; i <= THREADS; i++) {
        EXPECT_NE(numbers[i], 0);
        for (int j = 0; j < i; j++)
            EXPECT_NE(numbers[i], numbers[j]);
    }
}

static int be_in_core(void *arg)
{
    SchedulerConfig config = {1, 0, {0, 0, 0, 0, 0}};

    (void)arg;
    EXPECT_PTR(janus_scheduler_create(config), NULL);
    EXPECT_PTR(janus_nursery_begin(), NULL);
    EXPECT_EQ(janus_scheduler_spawn(as_pointer(be_in_core), NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(janus_nursery_end(&config), KIN_UNSUPPORTED);
    EXPECT_EQ(janus_budget_recharge(config.default_budget), KIN_UNSUPPORTED);
    EXPECT_EQ(janus_rt_task_join(1), KIN_UNSUPPORTED);
    return 5;
}

KIN_TEST(in_the_core_profile_there_is_no_scheduler, "SCHED:10.2.1")
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.profile = KIN_CORE;
    EXPECT_EQ(kin_run(&config, be_in_core, NULL), 5);
}

/* ---- resources that run out ---- */

static bool is_shortage(int64_t rc)
{
    return rc == -ENOMEM || rc == -EAGAIN;
}

static int work(void *arg)
{
    void *nursery = janus_nursery_begin();
    int spawned = nursery ? janus_scheduler_spawn(as_pointer(count_it), arg) : -ENOMEM;
    int ended = nursery ? janus_nursery_end(nursery) : 0;

    EXPECT(spawned == 0 || is_shortage(spawned) || spawned == KIN_NOSCOPE);
    EXPECT(ended == 0 || is_shortage(ended) || ended == JANUS_CANCELLED);
    return spawned < 0 ? spawned : ended == JANUS_CANCELLED ? KIN_CANCELLED : ended;
}

/* A program of the exports; whether all of it could be done. */
static bool run_program(void)
{
    SchedulerConfig config = {2, 0, {100000, 100000, 1000, 10, 10}};
    const Budget some = {100, 100, 10, 1, 1};
    _Atomic int ran = 0;
    bool is_whole = true;
    void *scheduler = janus_scheduler_create(config);

    if (!scheduler)
        return false;
    for (int i = 0; i < 3; i++) {
        void *nursery = janus_nursery_begin();
        is_whole = is_whole && nursery;
        if (!nursery)
            continue;
        for (int j = 0; j < 20; j++) {
            int rc = janus_scheduler_spawn(as_pointer(work), (void *)&ran);
            EXPECT(rc == 0 || is_shortage(rc) || rc == KIN_NOSCOPE);
            is_whole = is_whole && rc == 0;
        }
        uint64_t task = janus_rt_task_create(as_pointer(work), (void *)&ran, some);
        int64_t joined = task ? janus_rt_task_join(task) : -ENOMEM;
        EXPECT_LE(joined, 0); /* done, or an error: its own, or that of the nursery it was in */
        int rc = janus_nursery_end(nursery);
        EXPECT(rc == 0 || is_shortage(rc));
        is_whole = is_whole && joined == 0 && rc == 0;
    }
    janus_scheduler_shutdown(scheduler);
    if (is_whole)
        EXPECT_EQ(atomic_load(&ran), 63);
    return is_whole;
}

/* In a process of its own: with the n-th request failing, then without. How many were made. */
static uint64_t run_short_of(uint64_t n, bool forever)
{
    int ends[2], status = -1;
    uint64_t requests = 0;

    EXPECT_EQ(pipe(ends), 0);
    pid_t process = fork();
    EXPECT_GE(process, 0);
    if (process == 0) {
        alarm(KIN_TEST_S / 2 * kin_test_scale());
        kin__plat_fail_after(n, forever);
        bool is_whole = run_program();
        requests = kin__plat_requests();
        kin__plat_fail_after(0, false);
        EXPECT(is_whole || n != 0);
        EXPECT(run_program());
        EXPECT_EQ(write(ends[1], &requests, sizeof requests), (ssize_t)sizeof requests);
        exit(0);
    }
    close(ends[1]);
    EXPECT_EQ(read(ends[0], &requests, sizeof requests), (ssize_t)sizeof requests);
    close(ends[0]);
    EXPECT_EQ(waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
    return requests;
}

KIN_TEST_LIMIT(a_failing_request_costs_an_error_and_nothing_else, "", 120)
{
    uint64_t requests = run_short_of(0, false);

    EXPECT_GT(requests, 10);
    for (uint64_t n = 1; n <= requests; n++) {
        printf("request %llu of %llu\n", (unsigned long long)n, (unsigned long long)requests);
        fflush(stdout);
        (void)run_short_of(n, false);
        (void)run_short_of(n, true);
    }
}
