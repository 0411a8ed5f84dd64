/* SPDX-License-Identifier: MIT */
/*
 * Goal: the memory of a nursery may be freed as soon as its join has returned, although the call of
 *       another thread, or another task, that brought the join about has not returned yet.
 * Method: nurseries on the heap, each freed right after its join, whose last child is let go by a
 *         call on the nursery from elsewhere: a cancel, a spawn, a close. The address sanitizer
 *         sees a late touch, and a runtime that goes on with a block of another life fails.
 */
#include "kin_test.h"

#include <kin/kin.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum how { CANCEL, SPAWN, SPAWN_WITH, CLOSE, WAYS };

struct scene {
    struct kin_chan *nurseries; /* struct job: what to do next, from the owner to the others */
    _Atomic int done;
};

struct job {
    struct kin_nursery *n;
    struct kin_event *event;
    enum how how;
};

static int set_event(void *arg)
{
    kin_event_set(arg);
    return 0;
}

static void do_job(const struct job *job)
{
    struct kin_task_ref ref;
    int rc = 0;
    switch (job->how) {
    case CANCEL:
        kin_nursery_cancel(job->n, -EPIPE);
        break;
    case SPAWN:
        rc = kin_spawn(job->n, set_event, job->event);
        break;
    case SPAWN_WITH:
        rc = kin_spawn_with(job->n, NULL, set_event, job->event, 0, &ref);
        break;
    default:
        kin_nursery_close(job->n); /* which makes an empty one terminal */
        break;
    }
    EXPECT_EQ(rc, 0);
}

static void *work_as_thread(void *arg)
{
    struct scene *scene = arg;
    struct job job;
    while (kin_chan_recv(scene->nurseries, &job, KIN_NEVER) == 0) {
        do_job(&job);
        atomic_fetch_add(&scene->done, 1);
    }
    return NULL;
}

static int work_as_task(void *arg)
{
    (void)work_as_thread(arg);
    return 0;
}

static int wait_for_event(void *arg)
{
    return kin_event_wait(arg, KIN_NEVER);
}

/* One nursery: opened, ended from elsewhere, joined and freed. */
static void one_life(struct scene *scene, enum how how)
{
    struct kin_nursery *n = malloc(sizeof *n);
    struct kin_event *event = calloc(1, sizeof *event);
    EXPECT(n && event);
    EXPECT_EQ(kin_nursery_open(n, NULL), 0);
    if (how != CLOSE)
        EXPECT_EQ(kin_spawn(n, wait_for_event, event), 0);
    struct job job = {n, event, how};
    EXPECT_EQ(kin_chan_send(scene->nurseries, &job, KIN_NEVER), 0);
    if (how == CLOSE) {
        while (kin_nursery_poll(n, NULL) == KIN_EMPTY)
            kin_ignore(kin_yield());
    } else if (how != CANCEL) { /* the child that comes from elsewhere ends the other one */
        EXPECT_EQ(kin_event_wait(event, KIN_NEVER), 0);
    }
    int rc = kin_nursery_join(n, NULL);
    EXPECT_EQ(rc, how == CANCEL ? -EPIPE : 0);
    free(n); /* whoever ended it may still be on its way out of the call */
    free(event);
}

static int many_lives(void *arg)
{
    struct scene *scene = arg;
    int rounds = 4000 / (int)kin_test_scale() + WAYS;
    for (int i = 0; i < rounds; i++)
        one_life(scene, (enum how)(i % WAYS));
    return 0;
}

static int many_lives_beside_tasks(void *arg)
{
    struct scene *scene = arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_spawn(&n, work_as_task, scene), 0);
    EXPECT_EQ(many_lives(scene), 0);
    kin_chan_close(scene->nurseries);
    return kin_nursery_join(&n, NULL);
}

static int run_on(unsigned workers, kin_task_fn *fn, struct scene *scene)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    config.seed = kin_test_seed();
    return kin_run(&config, fn, scene);
}

KIN_TEST_LIMIT(a_nursery_is_freed_while_a_thread_that_ended_it_leaves_its_call, "NSM-2", 120)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct scene scene = {0};
        pthread_t threads[2];
        EXPECT_EQ(kin_chan_create(&scene.nurseries, sizeof(struct job), 0), 0);
        for (int i = 0; i < 2; i++)
            EXPECT_EQ(pthread_create(&threads[i], NULL, work_as_thread, &scene), 0);
        EXPECT_EQ(run_on(workers, many_lives, &scene), 0);
        kin_chan_close(scene.nurseries);
        for (int i = 0; i < 2; i++)
            EXPECT_EQ(pthread_join(threads[i], NULL), 0);
        kin_chan_unref(scene.nurseries);
    }
}

KIN_TEST_LIMIT(a_nursery_is_freed_while_a_task_that_ended_it_leaves_its_call, "NSM-2", 120)
{
    for (unsigned workers = 2; workers <= 4; workers += 2) {
        struct scene scene = {0};
        EXPECT_EQ(kin_chan_create(&scene.nurseries, sizeof(struct job), 0), 0);
        EXPECT_EQ(run_on(workers, many_lives_beside_tasks, &scene), 0);
        kin_chan_unref(scene.nurseries);
    }
}
