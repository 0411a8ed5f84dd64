/* SPDX-License-Identifier: MIT */
/*
 * Goal: a worker that is blocked or busy holds nobody up, and every scale decision keeps its
 * reason. Method: a task blocks in a system call, or spins, until other tasks of its worker have
 * run, so a monitor that does not help is a test that does not end; the log is read through
 * kin_dump.
 */
#include "kin_test.h"

#include "plat/plat.h"
#include "sched/sched.h"

#include <kin/kin.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OTHERS = 50, ROUNDS = 4 };

struct scene {
    int pipe[2];
    atomic_uint ran;
    atomic_uint arrived;
    unsigned wanted;
};

static void scene_init(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    EXPECT_EQ(pipe(scene->pipe), 0);
    scene->wanted = OTHERS;
}

static void scene_fini(struct scene *scene)
{
    close(scene->pipe[0]);
    close(scene->pipe[1]);
}

static int run_scene(unsigned workers, unsigned workers_max, kin_task_fn *fn, struct scene *scene)
{
    struct kin_config config = KIN_CONFIG_INIT;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    config.workers = workers;
    config.workers_max = workers_max;
    return kin_run(&config, fn, scene);
}

/* What kin_dump says now; the caller frees it. */
static char *dump(void)
{
    int fd = memfd_create("dump", 0);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(kin_dump(fd), 0);
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    EXPECT(text != NULL);
    EXPECT_EQ(pread(fd, text, (size_t)size, 0), size);
    close(fd);
    return text;
}

static bool is_dumped(const char *what)
{
    char *text = dump();
    bool is_there = strstr(text, what) != NULL;
    free(text);
    return is_there;
}

static void expect_dumped(const char *what)
{
    char *text = dump();
    if (!strstr(text, what))
        printf("no \"%s\" in\n%s", what, text);
    EXPECT(strstr(text, what) != NULL);
    free(text);
}

/* Blocks its worker, and nothing else, until the monitor has told what; it may be late itself. */
static void block_until_dumped(const char *what)
{
    do
        usleep(50000);
    while (!is_dumped(what)); /* ends: by the alarm of the test at the latest */
}

static int run_meanwhile(void *arg)
{
    struct scene *scene = arg;
    if (atomic_fetch_add(&scene->ran, 1) + 1 == scene->wanted)
        EXPECT_EQ(write(scene->pipe[1], "x", 1), 1);
    return 0;
}

static void spawn_others(struct kin_nursery *n, struct scene *scene)
{
    scene->ran = 0;
    for (unsigned i = 0; i < scene->wanted; i++)
        EXPECT_EQ(kin_spawn(n, run_meanwhile, scene), 0);
}

static void block_until_they_ran(struct scene *scene)
{
    char byte;
    EXPECT_EQ(read(scene->pipe[0], &byte, 1), 1);
    EXPECT_EQ(scene->ran, scene->wanted);
}

/* Until the worker that was replaced has come back and retired. */
static void wait_for_retirement(void)
{
    struct kin_stats stats;
    do {
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
        EXPECT_EQ(kin_stats_get(&stats), 0);
        /* ends: its slice is over, so it drains and retires; its last task is counted before */
    } while (stats.workers > 1 || stats.tasks_live > 1);
}

/* ---- blocked and busy ---- */

static int block(void *arg)
{
    struct scene *scene = arg;
    struct kin_stats stats;
    KIN_NURSERY(n);
    spawn_others(&n, scene);
    block_until_they_ran(scene);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_GE(stats.workers_replaced, 1);
    expect_dumped("replace worker 0, blocked for");
    expect_dumped("replaced by worker 1");
    wait_for_retirement();
    expect_dumped("retire worker 0");
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.tasks_live, 1);
    EXPECT_EQ(stats.pressure, 0); /* nothing was lost or counted twice on the way */
    return 0;
}

KIN_TEST(tasks_run_while_their_only_worker_is_blocked, "C7 WK:6.1 WK:6.2 EP:7.3")
{
    struct scene scene;
    scene_init(&scene);
    EXPECT_EQ(run_scene(1, 2, block, &scene), 0);
    scene_fini(&scene);
}

static int be_busy(void *arg)
{
    struct scene *scene = arg;
    struct kin_stats stats;
    KIN_NURSERY(n);
    spawn_others(&n, scene);
    while (scene->ran < scene->wanted) /* ends: when a replacement runs them */
        continue;
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_GE(stats.workers_replaced, 1);
    expect_dumped("replace worker 0, busy for");
    wait_for_retirement();
    return 0;
}

KIN_TEST(tasks_run_while_their_only_worker_is_busy, "C7 WK:6.2 EP:7.3")
{
    struct scene scene;
    scene_init(&scene);
    EXPECT_EQ(run_scene(1, 2, be_busy, &scene), 0);
    scene_fini(&scene);
}

static int block_beside_a_sleeper(void *arg)
{
    struct scene *scene = arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0); /* the other worker goes to sleep */
    spawn_others(&n, scene);
    block_until_they_ran(scene);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_sleeping_worker_takes_over_from_a_blocked_one, "C7 EP:7.3")
{
    for (int i = 0; i < ROUNDS; i++) {
        struct scene scene;
        scene_init(&scene);
        EXPECT_EQ(run_scene(2, 2, block_beside_a_sleeper, &scene), 0);
        scene_fini(&scene);
    }
}

/* Every task that yielded or was woken before the block is taken along, too. */
static int yield_then_count(void *arg)
{
    struct scene *scene = arg;
    atomic_fetch_add(&scene->arrived, 1);
    EXPECT_EQ(kin_yield(), 0);
    return run_meanwhile(arg);
}

static int sleep_then_count(void *arg)
{
    struct scene *scene = arg;
    atomic_fetch_add(&scene->arrived, 1);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    return run_meanwhile(arg);
}

static int block_with_begun_tasks(void *arg)
{
    struct scene *scene = arg;
    KIN_NURSERY(n);
    for (unsigned i = 0; i < scene->wanted; i++)
        EXPECT_EQ(kin_spawn(&n, i % 2 ? yield_then_count : sleep_then_count, scene), 0);
    while (scene->arrived < scene->wanted / 2) /* ends: they run when this one yields */
        EXPECT_EQ(kin_yield(), 0);
    block_until_they_ran(scene);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(tasks_in_the_middle_of_something_are_handed_over_too, "C7 F5 WK:6.2")
{
    struct scene scene;
    scene_init(&scene);
    EXPECT_EQ(run_scene(1, 2, block_with_begun_tasks, &scene), 0);
    scene_fini(&scene);
}

/* ---- again and again ---- */

static int block_often(void *arg)
{
    struct scene *scene = arg;
    for (int i = 0; i < ROUNDS; i++) {
        KIN_NURSERY(n);
        spawn_others(&n, scene);
        block_until_they_ran(scene);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        wait_for_retirement(); /* one worker again, and it can be replaced again */
    }
    return 0;
}

KIN_TEST(a_worker_is_replaced_as_often_as_it_blocks, "C7 WK:6.2")
{
    struct scene scene;
    scene_init(&scene);
    EXPECT_EQ(run_scene(1, 2, block_often, &scene), 0);
    scene_fini(&scene);
}

/* What a task spawns when its worker has been replaced goes to the others at once, or nobody would
 * run it while the task blocks again. */
static int spawn_while_draining(void *arg)
{
    struct scene *scene = arg;
    KIN_NURSERY(n);
    for (int i = 0; i < ROUNDS; i++) {
        spawn_others(&n, scene);
        block_until_they_ran(scene);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(what_a_draining_worker_spawns_runs_elsewhere, "A12 WK:6.2")
{
    struct scene scene;
    scene_init(&scene);
    EXPECT_EQ(run_scene(1, 2, spawn_while_draining, &scene), 0);
    scene_fini(&scene);
}

/* ---- limits ---- */

static int block_at_the_limit(void *arg)
{
    struct scene *scene = arg;
    struct kin_stats stats;
    KIN_NURSERY(n);
    spawn_others(&n, scene);
    block_until_dumped("at limit worker 0, ");
    EXPECT_EQ(scene->ran, 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers_replaced, 0);
    EXPECT_EQ(stats.workers, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(scene->ran, scene->wanted);
    return 0;
}

KIN_TEST(at_the_limit_nobody_is_replaced_and_the_log_says_why, "EP:7.3 C12")
{
    struct scene scene;
    scene_init(&scene);
    EXPECT_EQ(run_scene(1, 1, block_at_the_limit, &scene), 0);
    scene_fini(&scene);
}

static int block_without_threads(void *arg)
{
    struct scene *scene = arg;
    struct kin_stats stats;
    KIN_NURSERY(n);
    spawn_others(&n, scene);
    kin__plat_fail_after(1, true);
    block_until_dumped("no thread worker 0, ");
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers_replaced, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(scene->ran, scene->wanted);
    return 0;
}

KIN_TEST(a_thread_that_cannot_be_started_is_noted_and_nothing_is_lost, "EP:7.3 C7")
{
    struct scene scene;
    scene_init(&scene);
    EXPECT_EQ(run_scene(1, 2, block_without_threads, &scene), 0);
    scene_fini(&scene);
}

static int block_unwatched(void *arg)
{
    struct scene *scene = arg;
    struct kin_stats stats;
    KIN_NURSERY(n);
    spawn_others(&n, scene);
    usleep(30000);
    EXPECT_EQ(scene->ran, 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers_replaced, 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(without_a_threshold_nobody_is_replaced, "C7")
{
    struct kin_config config = KIN_CONFIG_INIT;
    struct scene scene;
    scene_init(&scene);
    (void)unsetenv("KIN_HARD");
    config.workers = 1;
    config.stall_threshold = KIN_NEVER;
    EXPECT_EQ(kin_run(&config, block_unwatched, &scene), 0);
    EXPECT_EQ(scene.ran, scene.wanted);
    scene_fini(&scene);
}

/* A worker that merely waits for tasks is not stuck, however long. */
static int sleep_for_long(void *arg)
{
    struct kin_stats stats;
    (void)arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(60))), 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers_replaced, 0);
    EXPECT_EQ(stats.workers_started, 2);
    return 0;
}

KIN_TEST(an_idle_worker_is_not_taken_for_a_stuck_one, "C7 WK:6.1")
{
    struct scene scene;
    scene_init(&scene);
    EXPECT_EQ(run_scene(2, 4, sleep_for_long, &scene), 0);
    scene_fini(&scene);
}

/* ---- the monitor sleeps, too ---- */

/* Two sleepers wake after so long a pause that the monitor has gone to sleep; the first to run
 * blocks until the second has run. */
static int meet_after_a_pause(void *arg)
{
    struct scene *scene = arg;
    char byte;
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(400))), 0);
    if (atomic_fetch_add(&scene->arrived, 1) == 0)
        EXPECT_EQ(read(scene->pipe[0], &byte, 1), 1);
    else
        EXPECT_EQ(write(scene->pipe[1], "x", 1), 1);
    return 0;
}

static int two_meet_after_a_pause(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, meet_after_a_pause, arg), 0);
    EXPECT_EQ(kin_spawn(&n, meet_after_a_pause, arg), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_worker_that_blocks_right_after_a_long_pause_is_noticed, "C7")
{
    struct scene scene;
    scene_init(&scene);
    EXPECT_EQ(run_scene(1, 2, two_meet_after_a_pause, &scene), 0);
    scene_fini(&scene);
}

/* ---- the decision alone ---- */

static int look_often(void *arg)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    struct kin_stats stats;
    (void)arg;
    sched->config.stall_threshold = KIN_MS(10); /* no monitor reads it: it was started without */
    for (int i = 0; i < 1000; i++) {
        kin__monitor_look(sched, kin_now());
        EXPECT_EQ(kin_yield(), 0);
    }
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers_replaced, 0);
    return 0;
}

static int keep_yielding(void *arg)
{
    atomic_bool *is_over = arg;
    while (!*is_over)
        EXPECT_EQ(kin_yield(), 0);
    return 0;
}

static int look_while_others_yield(void *arg)
{
    atomic_bool is_over = false;
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_spawn(&n, keep_yielding, &is_over), 0);
    EXPECT_EQ(look_often(arg), 0);
    is_over = true;
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_worker_that_makes_progress_is_left_alone, "C7 WK:6.2")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 2;
    config.stall_threshold = KIN_NEVER; /* no thread of the monitor: this test is it */
    EXPECT_EQ(kin_run(&config, look_while_others_yield, NULL), 0);
}
