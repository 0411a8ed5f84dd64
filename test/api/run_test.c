/* SPDX-License-Identifier: MIT */
/*
 * Goal: kin_run starts a runtime, runs the first task, and returns what it returned, nothing else.
 * Method: every result, every wrong config, runtimes in a row and at once, calls from no task.
 */
#include "api/in_runtime.h"

#include <limits.h>
#include <pthread.h>

KIN_TEST(run_returns_what_the_first_task_returned, "SCHED:6.2.3")
{
    int results[] = {0, 5, 0, INT_MAX, 0, -EIO, 0, KIN_TIMEOUT, 7, KIN_CANCELLED, 0, INT_MIN, 0};

    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        EXPECT_EQ(kin_run(NULL, return_it, &results[i]), results[i]);
}

KIN_TEST(a_result_of_0_is_not_mixed_up_with_that_of_an_earlier_nursery, "SCHED:6.2.3")
{
    int five = 5, zero = 0;

    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(run_reporting(2, return_it, &five, NULL), 5);
        EXPECT_EQ(run_reporting(2, return_it, &zero, NULL), 0);
    }
}

KIN_TEST(a_config_that_makes_no_sense_is_einval, "")
{
    int zero = 0;
    struct kin_config config = KIN_CONFIG_INIT;

    EXPECT_EQ(kin_run(NULL, NULL, NULL), -EINVAL);
    config.size = 0;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config.size = sizeof config + 8;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.workers = KIN_WORKERS_MAX + 1;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.victim = (enum kin_victim)99;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.on_overflow = (enum kin_on_overflow)99;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.stack_max_bytes = (size_t)129 << 20;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.stall_threshold = -1;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.profile = (enum kin_profile)99;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.poller = (enum kin_poller)99;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.yield_interval = 65536;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config.profile = KIN_CORE; /* is checked there, too */
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    EXPECT_EQ(kin_run(&config, return_it, &zero), 0);
}

KIN_TEST(the_most_workers_may_not_be_fewer_than_the_workers, "")
{
    int zero = 0;
    struct kin_config config = KIN_CONFIG_INIT;

    if (getenv("KIN_HARD") && strstr(getenv("KIN_HARD"), "one"))
        return; /* the mode sets the number of workers */
    config.workers = 4;
    config.workers_max = 3;
    EXPECT_EQ(kin_run(&config, return_it, &zero), -EINVAL);
    config.workers_max = 4;
    EXPECT_EQ(kin_run(&config, return_it, &zero), 0);
}

static int run_again(void *arg)
{
    int zero = 0;

    (void)arg;
    EXPECT_EQ(kin_run(NULL, return_it, &zero), -EBUSY);
    return 3;
}

KIN_TEST(run_inside_a_task_is_ebusy, "")
{
    EXPECT_EQ(kin_run(NULL, run_again, NULL), 3);
    EXPECT_EQ(kin_run(NULL, run_again, NULL), 3);
}

static int spawn_few(void *arg)
{
    _Atomic int ran = 0;
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_spawn(&n, count_it, &ran), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&ran), 10);
    return 0;
}

static void *run_twenty(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(run_reporting(2, spawn_few, NULL, NULL), 0);
    return NULL;
}

KIN_TEST(runtimes_exist_one_after_the_other, "SCHED:6.2.1")
{
    run_twenty(NULL);
}

KIN_TEST(runtimes_exist_at_once_on_different_threads, "SCHED:6.2.1")
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_twenty, NULL), 0);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
}

KIN_TEST(any_number_of_workers_runs_the_same_program, "SCHED:6.2.2")
{
    static const unsigned counts[] = {0, 1, 2, 3, 17, 256};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        EXPECT_EQ(run_reporting(counts[i], spawn_few, NULL, NULL), 0);
}

static int fail_with(void *arg)
{
    kin_fail(*(int *)arg, "on purpose");
}

static int panic_now(void *arg)
{
    kin_panic("the answer is %d", *(int *)arg);
}

KIN_TEST(a_first_task_that_fails_gives_its_status_and_a_panic_is_reported, "")
{
    struct reports reports = {0};
    int status = -EPIPE, answer = 42, nonsense = 3;

    EXPECT_EQ(run_reporting(1, fail_with, &status, &reports), -EPIPE);
    EXPECT_EQ(run_reporting(1, fail_with, &nonsense, &reports), -EINVAL);
    EXPECT_EQ(atomic_load(&reports.count), 2); /* nobody else could tell what it said */
    EXPECT_EQ(reports.status[0], -EPIPE);
    EXPECT_STR(reports.text[0], "on purpose");
    EXPECT_EQ(reports.status[1], -EINVAL);
    EXPECT_EQ(run_reporting(1, panic_now, &answer, &reports), KIN_PANICKED);
    EXPECT_EQ(atomic_load(&reports.count), 3);
    EXPECT_EQ(reports.status[2], KIN_PANICKED);
    EXPECT_NE(reports.task[2], 0);
    EXPECT(strstr(reports.text[2], "the answer is 42"));
    EXPECT(strstr(reports.text[2], "main"));
}

KIN_TEST(calls_that_need_a_task_say_so_outside_of_one, "N1002 NCG-5")
{
    struct kin_nursery n;
    struct kin_stats stats;
    int zero = 0;

    EXPECT_EQ(kin_self().id, 0);
    EXPECT_EQ(kin_task_id(kin_self()), 0);
    EXPECT_EQ(kin_yield(), KIN_NOTASK);
    EXPECT_EQ(kin_checkpoint(), KIN_NOTASK);
    EXPECT_EQ(kin_sleep(0), KIN_NOTASK);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), KIN_NOTASK);
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_cancel_reason(), 0);
    EXPECT_EQ(kin_nursery_open(&n, NULL), KIN_NOTASK);
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_NOTASK);
    EXPECT_EQ(kin_stats_get(&stats), KIN_NOTASK);
    EXPECT_EQ(kin_dump(2), KIN_NOTASK);
    EXPECT_EQ(kin_run(NULL, return_it, &zero), 0);
    EXPECT_EQ(kin_yield(), KIN_NOTASK);
}

KIN_TEST(a_panic_or_failure_outside_a_task_aborts, "")
{
    EXPECT_ABORT("too bad: 7")
    {
        kin_panic("too bad: %d", 7);
    }
    EXPECT_ABORT("kin_fail outside a task")
    {
        kin_fail(-EIO, "nobody hears");
    }
}

static int note_thread(void *arg)
{
    *(pthread_t *)arg = pthread_self();
    return 0;
}

KIN_TEST(with_one_worker_the_caller_is_the_worker, "")
{
    pthread_t ran_on;

    EXPECT_EQ(run_reporting(1, note_thread, &ran_on, NULL), 0);
    EXPECT(pthread_equal(ran_on, pthread_self()));
}

/* ---- profiles ---- */

struct turns {
    _Atomic int is_over;
    _Atomic unsigned count; /* turns that the other task had */
};

static int take_turns(void *arg)
{
    struct turns *turns = arg;

    while (!atomic_load(&turns->is_over)) {
        atomic_fetch_add(&turns->count, 1);
        EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

/* Checkpoints from one turn of the other to the next. */
static int count_checkpoints(void *arg)
{
    unsigned interval = *(unsigned *)arg;
    struct turns turns = {0};
    KIN_NURSERY(n);

    EXPECT_EQ(kin_spawn(&n, take_turns, &turns), 0);
    unsigned before = atomic_load(&turns.count);
    while (atomic_load(&turns.count) == before)
        EXPECT_EQ(kin_checkpoint(), 0);
    for (int round = 0; round < 5; round++) {
        unsigned ops = 0;
        before = atomic_load(&turns.count);
        for (; atomic_load(&turns.count) == before; ops++)
            EXPECT_EQ(kin_checkpoint(), 0);
        EXPECT_EQ(ops, interval);
        EXPECT_EQ(atomic_load(&turns.count), before + 1);
    }
    atomic_store(&turns.is_over, 1);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_turn_has_as_many_operations_as_the_profile_or_the_config_says, "SCHED:4.3.1")
{
    static const struct {
        enum kin_profile profile;
        unsigned given, expected;
    } cases[] = {{KIN_SERVICE, 0, 1024},  {KIN_CLUSTER, 0, 512},         {KIN_SOVEREIGN, 0, 1024},
                 {KIN_SOVEREIGN, 77, 77}, {KIN_SERVICE, 65535, 65535}, {KIN_SERVICE, 1, 1}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kin_config config = KIN_CONFIG_INIT;
        unsigned interval = cases[i].expected;
        config.workers = 1;
        config.stall_threshold = KIN_NEVER; /* a replacement would be a second worker */
        config.profile = cases[i].profile;
        config.yield_interval = cases[i].given;
        EXPECT_EQ(kin_run(&config, count_checkpoints, &interval), 0);
    }
}

static int be_without_tasks(void *arg)
{
    struct kin_nursery n;
    int zero = 0;

    EXPECT(pthread_equal(*(pthread_t *)arg, pthread_self()));
    EXPECT_EQ(kin_nursery_open(&n, NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_run(NULL, return_it, &zero), -EBUSY);
    EXPECT_EQ(kin_self().id, 0);
    EXPECT_EQ(kin_sleep(0), KIN_NOTASK);
    return -EPIPE;
}

KIN_TEST(in_core_the_function_is_called_right_here_and_nothing_can_be_spawned, "SCHED:10.2.1")
{
    struct kin_config config = KIN_CONFIG_INIT;
    pthread_t self = pthread_self();
    int seven = 7;

    config.profile = KIN_CORE;
    EXPECT_EQ(kin_run(&config, be_without_tasks, &self), -EPIPE);
    EXPECT_EQ(kin_run(&config, return_it, &seven), 7);
    EXPECT_EQ(kin_run(NULL, return_it, &seven), 7); /* and afterwards as ever */
}

static int hold_everything(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_caps(), KIN_CAP_ALL);
    EXPECT_EQ(kin_budget_left().ops, UINT64_MAX);
    return 0;
}

KIN_TEST(the_first_task_holds_every_capability_in_every_profile, "SCHED:10.2.4")
{
    for (int profile = KIN_SERVICE; profile < KIN_CORE; profile++) {
        struct kin_config config = KIN_CONFIG_INIT;
        config.profile = (enum kin_profile)profile;
        EXPECT_EQ(kin_run(&config, hold_everything, NULL), 0);
    }
}

static int tell_files(void *arg)
{
    struct kin_stats stats;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_STR(stats.poller, "epoll");
    EXPECT_STR(stats.files ? stats.files : "none", arg);
    return 7;
}

KIN_TEST(a_poller_that_is_asked_for_by_name_is_there_or_refused, "")
{
    struct kin_config config = KIN_CONFIG_INIT;
    char ring[] = "io_uring";
    config.poller = KIN_POLLER_URING;
    int rc = kin_run(&config, tell_files, ring);
    EXPECT(rc == 7 || rc == KIN_UNSUPPORTED);
    config.poller = (enum kin_poller)(KIN_POLLER_EPOLL + 1);
    EXPECT_EQ(kin_run(&config, tell_files, ring), -EINVAL);
}

KIN_TEST(a_program_that_links_kin_is_not_in_the_lab, "")
{
    EXPECT(!kin_in_lab());
}
