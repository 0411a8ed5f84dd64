/* SPDX-License-Identifier: MIT */
/*
 * Goal: a worker that is blocked holds nobody up, one that computes is left alone, and every scale
 * decision keeps its reason. Method: a task blocks in a system call until other tasks of its worker
 * have run, so a monitor that does not help is a test that does not end; the log is read through
 * kin_dump.
 */
#include "kin_test.h"

#include "plat/plat.h"
#include "sched/sched.h"

#include <kin/kin.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
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
    struct kin__sched *sched;
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
    while (scene->ran < scene->wanted) /* ends: the other worker takes them from this one */
        continue;
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers_replaced, 0);
    EXPECT_EQ(stats.workers, 2);
    return 0;
}

KIN_TEST(the_queue_of_a_worker_that_computes_is_open_to_thieves, "E4 E5 WK:6.2")
{
    for (int i = 0; i < ROUNDS; i++) {
        struct scene scene;
        scene_init(&scene);
        EXPECT_EQ(run_scene(2, 4, be_busy, &scene), 0);
        scene_fini(&scene);
    }
}

/* The monitor's looks are made by the task itself, at times that it makes up: however long it has
 * not moved, its thread is on a CPU and not asleep. */
static int be_looked_at(void *arg)
{
    struct scene *scene = arg;
    struct kin__sched *sched = kin__worker_self()->sched;
    struct kin_stats stats;
    KIN_NURSERY(n);
    spawn_others(&n, scene);
    sched->config.stall_threshold = KIN_SEC(1000);
    for (int64_t i = 0; i < 1000; i++)
        (void)kin__monitor_look(sched, kin_now() + i * KIN_SEC(5));
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers_replaced, 0);
    EXPECT_EQ(stats.workers, 1);
    EXPECT_EQ(scene->ran, 0); /* and its queue has no thief */
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_worker_that_computes_is_never_taken_for_blocked, "E4 WK:6.2 C12")
{
    struct kin_config config = KIN_CONFIG_INIT;
    struct scene scene;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    scene_init(&scene);
    config.workers = 1;
    config.workers_max = 2;
    config.stall_threshold = KIN_NEVER; /* no monitor that looks, too */
    EXPECT_EQ(kin_run(&config, be_looked_at, &scene), 0);
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

/* In a join, too: nothing runs on the thread any more but the task that it had. */
struct drained {
    struct scene scene;
    pid_t thread;
    atomic_uint here, elsewhere;
};

static int note_thread(void *arg)
{
    struct drained *drained = arg;
    atomic_fetch_add(gettid() == drained->thread ? &drained->here : &drained->elsewhere, 1);
    return 0;
}

static int join_while_draining(void *arg)
{
    struct drained *drained = arg;
    KIN_NURSERY(waiting);
    drained->thread = gettid();
    spawn_others(&waiting, &drained->scene);
    block_until_they_ran(&drained->scene);
    block_until_dumped("replace worker 0, ");
    for (int i = 0; i < ROUNDS; i++) {
        KIN_NURSERY(n);
        for (int k = 0; k < 500; k++)
            EXPECT_EQ(kin_spawn(&n, note_thread, drained), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        drained->thread = gettid() == drained->thread ? drained->thread : 0; /* it has retired */
    }
    EXPECT_EQ(drained->here, 0);
    EXPECT_EQ(drained->elsewhere, 500 * ROUNDS);
    return kin_nursery_join(&waiting, NULL);
}

KIN_TEST(a_draining_worker_takes_no_work_up_in_a_join_either, "A12 WK:6.2")
{
    struct drained drained;
    memset(&drained, 0, sizeof drained);
    scene_init(&drained.scene);
    EXPECT_EQ(run_scene(1, 2, join_while_draining, (struct scene *)&drained), 0);
    scene_fini(&drained.scene);
}

/* ---- nobody waits ---- */

static void count_report(const struct kin_report *report, void *arg)
{
    (void)report;
    ((struct scene *)arg)->ran++;
}

/* Looks at the only worker, which sleeps in a call of the system, for a long time that is made up;
 * there is no monitor. Then lets it go on. */
static void *look_at_a_sleeper(void *arg)
{
    struct scene *scene = arg;
    struct kin__sched *sched = scene->sched;
    while (!kin__thread_is_asleep(&sched->workers[0].thread)) /* ends: it is about to read */
        sched_yield();
    for (int64_t i = 0; i < 10; i++)
        (void)kin__monitor_look(sched, kin_now() + i * KIN_SEC(1000));
    EXPECT_EQ(write(scene->pipe[1], "", 1), 1);
    return NULL;
}

static int block_alone(void *arg)
{
    struct scene *scene = arg;
    struct kin_stats stats;
    pthread_t looker;
    char byte;
    scene->sched = kin__worker_self()->sched;
    scene->sched->config.stall_threshold = KIN_SEC(1);
    EXPECT_EQ(pthread_create(&looker, NULL, look_at_a_sleeper, scene), 0);
    EXPECT_EQ(read(scene->pipe[0], &byte, 1), 1);
    EXPECT_EQ(pthread_join(looker, NULL), 0);
    EXPECT_EQ(scene->sched->workers[0].conduct, 2); /* IS_BLOCKED, as seen by the last look, */
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers_replaced, 0); /* and that is nobody's loss */
    return 0;
}

KIN_TEST(a_worker_that_blocks_while_nobody_waits_is_left_alone, "C7 WK:6.2 EP:7.3")
{
    struct kin_config config = KIN_CONFIG_INIT;
    struct scene scene;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    scene_init(&scene);
    config.workers = 1;
    config.workers_max = 2;
    config.stall_threshold = KIN_NEVER; /* no monitor */
    config.on_report = count_report;
    config.report_arg = &scene;
    EXPECT_EQ(kin_run(&config, block_alone, &scene), 0);
    EXPECT_EQ(scene.ran, 0); /* reports */
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

/* Neither the slot nor the count of workers says that a second one runs. It may be tried again and
 * again by the monitor, each time under the lock. */
static void expect_none_but_the_caller(void)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    uint32_t alive = kin__load_relaxed(&sched->alive);            /* relaxed: under the lock */
    uint32_t state = kin__load_relaxed(&sched->workers[1].state); /* relaxed: under the lock */
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(state, KIN__WORKER_DEAD);
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
    expect_none_but_the_caller();
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

/* ---- what came of each look ---- */

/* A worker that stands while a thread looks at it, and there is no monitor. */
struct stand {
    struct scene scene;
    enum kin__gate gate; /* what must come of it */
    size_t counter;      /* where that is in struct kin_scaling */
    unsigned workers, workers_max, wanted;
    struct kin__worker *worker; /* that stands */
    void (*before)(struct kin__worker *);
    void (*after)(struct kin__worker *);
};

static uint64_t gate_count(struct kin__sched *sched, enum kin__gate gate)
{
    return kin__load_relaxed(&sched->scaling.gate[gate]); /* relaxed: a counter */
}

/* Whether a look has led to something: the worker was seen blocked, and had not moved after all.
 * Where there is another worker, which may be up for a moment, only what is waited for will do. */
static bool is_decided(const struct stand *stand)
{
    if (stand->workers > 1)
        return gate_count(stand->scene.sched, stand->gate) != 0;
    return stand->worker->conduct == 2 && stand->worker->seen_progress != UINT64_MAX;
}

/* Looks at times that it makes up until that has led to something. */
static void *look_until_counted(void *arg)
{
    struct stand *stand = arg;
    struct kin__sched *sched = stand->scene.sched;
    if (stand->before)
        stand->before(stand->worker);
    for (int64_t i = 0; !is_decided(stand); i++) {
        /* ends: the worker is in a read that only this thread ends, or on its way there */
        while (!kin__thread_is_asleep(&stand->worker->thread))
            sched_yield();
        (void)kin__monitor_look(sched, kin_now() + i * KIN_SEC(1000));
    }
    if (stand->after)
        stand->after(stand->worker);
    EXPECT_EQ(write(stand->scene.pipe[1], "", 1), 1);
    return NULL;
}

/* The counter that must have moved has, no other one has, and the dump says the same. */
static void expect_counted(const struct stand *stand)
{
    struct kin_stats stats;
    uint64_t decided = 0, counter;
    char line[100];
    EXPECT_EQ(kin_stats_get(&stats), 0);
    const struct kin_scaling *scaling = &stats.scaling;
    memcpy(&counter, (const char *)scaling + stand->counter, sizeof counter);
    EXPECT_EQ(counter, 1);
    EXPECT_EQ(scaling->passes, scaling->promoted + scaling->at_limit + scaling->no_thread);
    decided = scaling->passes + scaling->no_work + scaling->nonpositive + scaling->idle_capacity;
    if (stand->workers == 1) /* another one may be up for a moment, and is not idle then */
        EXPECT_EQ(decided, 1);
    EXPECT_GE(scaling->not_stuck, 1); /* the first look */
    (void)snprintf(line, sizeof line, "passed (%llu promoted, %llu at limit, %llu no thread)",
                   (unsigned long long)scaling->promoted, (unsigned long long)scaling->at_limit,
                   (unsigned long long)scaling->no_thread);
    expect_dumped(line);
    (void)snprintf(line, sizeof line, "%llu no work, %llu idle capacity, %llu nonpositive",
                   (unsigned long long)scaling->no_work,
                   (unsigned long long)scaling->idle_capacity,
                   (unsigned long long)scaling->nonpositive);
    expect_dumped(line);
}

static int stand_and_be_counted(void *arg)
{
    struct stand *stand = arg;
    pthread_t looker;
    char byte;
    KIN_NURSERY(n);
    stand->worker = kin__worker_self();
    stand->scene.sched = stand->worker->sched;
    stand->scene.sched->config.stall_threshold = KIN_SEC(1);
    stand->scene.wanted = stand->wanted;
    for (unsigned i = 0; i < stand->wanted; i++)
        EXPECT_EQ(kin_spawn(&n, yield_then_count, &stand->scene), 0);
    EXPECT_EQ(pthread_create(&looker, NULL, look_until_counted, stand), 0);
    EXPECT_EQ(read(stand->scene.pipe[0], &byte, 1), 1);
    EXPECT_EQ(pthread_join(looker, NULL), 0);
    expect_counted(stand);
    return kin_nursery_join(&n, NULL);
}

static void run_stand(struct stand *stand)
{
    struct kin_config config = KIN_CONFIG_INIT;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    scene_init(&stand->scene);
    config.workers = stand->workers;
    config.workers_max = stand->workers_max;
    config.stall_threshold = KIN_NEVER; /* no monitor */
    EXPECT_EQ(kin_run(&config, stand_and_be_counted, stand), 0);
    scene_fini(&stand->scene);
}

#define STAND(kind, field) .gate = KIN__GATE_##kind, .counter = offsetof(struct kin_scaling, field)

KIN_TEST(a_replacement_is_counted_as_promoted, "EP:7.3")
{
    struct stand stand = {STAND(PROMOTED, promoted), .workers = 1, .workers_max = 2, .wanted = 3};
    run_stand(&stand);
}

KIN_TEST(a_refusal_at_the_limit_is_counted_as_such, "EP:7.3")
{
    struct stand stand = {STAND(AT_LIMIT, at_limit), .workers = 1, .workers_max = 1, .wanted = 3};
    run_stand(&stand);
}

static void refuse(struct kin__worker *worker)
{
    (void)worker;
    kin__plat_fail_after(1, true);
}

static void refuse_no_more(struct kin__worker *worker)
{
    (void)worker;
    kin__plat_fail_after(0, false);
}

KIN_TEST(a_thread_that_cannot_be_started_is_counted_as_such, "EP:7.3")
{
    struct stand stand = {STAND(NO_THREAD, no_thread), .workers = 1, .workers_max = 2, .wanted = 3,
                          .before = refuse, .after = refuse_no_more};
    run_stand(&stand);
}

KIN_TEST(a_block_that_nobody_minds_is_counted_as_no_work, "EP:7.3")
{
    struct stand stand = {STAND(NO_WORK, no_work), .workers = 1, .workers_max = 2, .wanted = 0};
    run_stand(&stand);
}

/* As if the others had picked what the worker had. */
static void seem_picked(struct kin__worker *worker)
{
    KIN__CHANGE(worker->backlog, -3);
}

static void seem_queued(struct kin__worker *worker)
{
    KIN__CHANGE(worker->backlog, 3);
}

KIN_TEST(a_pressure_that_is_not_positive_starts_nobody_and_is_counted, "EP:7.1 EP:7.3")
{
    struct stand stand = {STAND(NONPOSITIVE, nonpositive), .workers = 1, .workers_max = 2,
                          .wanted = 3, .before = seem_picked, .after = seem_queued};
    run_stand(&stand);
}

/* The worker seems to have a timer, so that somebody waits for it; the other worker sleeps. */
static void seem_waited_for(struct kin__worker *worker)
{
    kin__store_relaxed(&worker->next_deadline, KIN_NEVER - 1); /* alone: the worker is in a read */
}

static void wait_for_no_one(struct kin__worker *worker)
{
    kin__store_relaxed(&worker->next_deadline, KIN_NEVER); /* alone: as above */
}

KIN_TEST(a_worker_that_can_be_woken_is_counted_as_idle_capacity, "EP:7.3")
{
    struct stand stand = {STAND(IDLE_CAPACITY, idle_capacity), .workers = 2, .workers_max = 2,
                          .before = seem_waited_for, .after = wait_for_no_one};
    run_stand(&stand);
}

/* Looks at itself: first it has moved, then it has stood for long, but its thread is not asleep. */
static int count_own_looks(void *arg)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    struct kin_stats stats;
    (void)arg;
    sched->config.stall_threshold = KIN_SEC(1);
    for (int64_t i = 0; i < 10; i++) {
        (void)kin__monitor_look(sched, kin_now() + i * KIN_SEC(1000));
        EXPECT_EQ(kin_stats_get(&stats), 0);
        EXPECT_EQ(stats.scaling.not_stuck, 1);
        EXPECT_EQ(stats.scaling.computes, i);
    }
    EXPECT_EQ(stats.scaling.passes, 0);
    expect_dumped("gate: 0 passed (0 promoted, 0 at limit, 0 no thread), blocked by 1 not stuck, "
                  "9 computes, 0 no work, 0 idle capacity, 0 nonpositive");
    return 0;
}

/* Runs a task on one worker that no monitor looks at. */
static void run_unwatched(kin_task_fn *fn)
{
    struct kin_config config = KIN_CONFIG_INIT;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    config.workers = 1;
    config.stall_threshold = KIN_NEVER;
    EXPECT_EQ(kin_run(&config, fn, NULL), 0);
}

KIN_TEST(a_look_at_one_that_moves_or_computes_is_counted_as_such, "EP:7.3 E4")
{
    run_unwatched(count_own_looks);
}

/* Looks n times at a pressure that is wrong by so much, and lets the worker move or not between. */
static void look_at_pressure(int64_t wrong_by, int n, bool moves)
{
    struct kin__worker *worker = kin__worker_self();
    KIN__CHANGE(worker->backlog, wrong_by);
    for (int i = 0; i < n; i++) {
        (void)kin__monitor_look(worker->sched, kin_now());
        if (moves)
            EXPECT_EQ(kin_yield(), 0);
    }
    KIN__CHANGE(worker->backlog, -wrong_by);
}

static int count_pressures(void *arg)
{
    struct kin_stats stats;
    (void)arg;
    look_at_pressure(0, 10, false);
    look_at_pressure(7, 3, false);
    look_at_pressure(-1, 100, true); /* as it may be for a moment, again and again */
    look_at_pressure(1, 2, false);
    look_at_pressure(-5, 50, true);
    look_at_pressure(0, 1, false);
    look_at_pressure(-5, 60, true);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.scaling.positive_samples, 5);
    EXPECT_EQ(stats.scaling.negative_samples, 210);
    EXPECT_EQ(stats.scaling.neg_streak_max, 100);
    expect_dumped("pressure 0: 5 looks positive, 210 negative, at most 100 of these in a row");
    return 0;
}

KIN_TEST(looks_at_the_pressure_are_counted_by_its_sign, "EP:7.1 EP:7.3")
{
    run_unwatched(count_pressures);
}

#ifdef KIN_DEBUG
static int lose_a_push(void *arg)
{
    (void)arg;
    look_at_pressure(-1, 100, false);
    return 0;
}

KIN_TEST(a_pressure_that_stays_negative_while_nobody_moves_stops_a_debug_build, "EP:7.1")
{
    EXPECT_ABORT("EP:7.1: more was picked than pushed")
    {
        run_unwatched(lose_a_push);
    }
}

static int end_with_a_push_too_many(void *arg)
{
    (void)arg;
    KIN__CHANGE(kin__worker_self()->backlog, 1);
    return 0;
}

KIN_TEST(a_runtime_that_ends_with_something_pushed_stops_a_debug_build, "EP:7.1")
{
    EXPECT_ABORT("EP:7.1: all that was pushed was picked")
    {
        run_unwatched(end_with_a_push_too_many);
    }
}
#endif

/* A pick and the tasks that the picked one spawns are progress, however many these are. */
KIN_TEST(no_number_of_pushes_makes_up_for_a_pick, "C7")
{
    static struct kin__worker worker;
    kin__store_relaxed(&worker.countdown, 50u); /* alone: nobody else has it */
    uint64_t before = kin__worker_progress(&worker);
    kin__store_relaxed(&worker.countdown, 49u); /* alone: as above */
    for (int pushes = -100; pushes < 100000; pushes++) {
        kin__store_relaxed(&worker.backlog, pushes); /* alone: as above */
        EXPECT_NE(kin__worker_progress(&worker), before);
    }
}
