/* SPDX-License-Identifier: MIT */
/*
 * Goal: calls that come too late hit nobody: no other nursery in the block, no runtime's end.
 * Method: threads call on handles that are joined at the same moment, each handle in one life only;
 *         runtimes end while threads still spawn into and cancel what was in them.
 */
#include "api/in_runtime.h"

#include <pthread.h>
#include <sched.h>

enum { LIVES = 4000, THREADS = 2 };

/* Handles of even lives are troubled by threads, those of odd ones by nobody. */
struct lives {
    struct kin_nursery n[LIVES];
    _Atomic int at;
    _Atomic int foreign; /* children that threads spawned and that ran */
    _Atomic int accepted;
    int count;
};

static void *call_on_even_lives(void *arg)
{
    struct lives *lives = arg;
    uint64_t random = kin_test_seed() ^ (uint64_t)(uintptr_t)&random;
    int last = 0;

    for (;;) {
        int at = atomic_load(&lives->at);
        if (at >= lives->count)
            return NULL;
        at &= ~1;
        if (at == last)
            continue;
        last = at;
        random = random * 6364136223846793005u + 1442695040888963407u;
        switch ((random >> 33) % 5) {
        case 0:
            kin_nursery_cancel(&lives->n[at], -EIO);
            break;
        case 1:
            kin_nursery_close(&lives->n[at]);
            break;
        case 2:
            (void)kin_nursery_alloc(&lives->n[at], 64);
            break;
        case 3:
            (void)kin_nursery_state(&lives->n[at]);
            break;
        default:
            if (kin_spawn(&lives->n[at], count_it, &lives->foreign) == 0)
                atomic_fetch_add(&lives->accepted, 1);
        }
    }
}

static int live_on(void *arg)
{
    struct lives *lives = arg;
    _Atomic int own = 0;

    for (int i = 0; i < lives->count; i++) {
        struct kin_nursery *n = &lives->n[i];
        int before = atomic_load(&own);
        EXPECT_EQ(kin_nursery_open(n, NULL), 0);
        atomic_store(&lives->at, i);
        if (i % 2 == 0) {
            int rc = kin_spawn(n, count_it, &own);
            EXPECT(rc == 0 || rc == KIN_NOSCOPE);
            rc = kin_nursery_join(n, NULL);
            EXPECT(rc == 0 || rc == -EIO);
            continue;
        }
        EXPECT_EQ(kin_spawn(n, count_it, &own), 0);
        EXPECT(!kin_cancelled());
        EXPECT_EQ(kin_nursery_state(n), KIN_NURSERY_OPEN);
        EXPECT_EQ(kin_nursery_join(n, NULL), 0);
        EXPECT_EQ(kin_nursery_state(n), KIN_NURSERY_CLOSED);
        EXPECT_EQ(atomic_load(&own), before + 1);
    }
    atomic_store(&lives->at, lives->count);
    return 0;
}

KIN_TEST_LIMIT(late_calls_never_hit_the_next_nursery_of_a_block, "NSM:2.4 ABA:8.3", 120)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        static struct lives lives;
        pthread_t threads[THREADS];
        memset(&lives, 0, sizeof lives);
        lives.count = LIVES / (int)kin_test_scale();
        for (int i = 0; i < THREADS; i++)
            EXPECT_EQ(pthread_create(&threads[i], NULL, call_on_even_lives, &lives), 0);
        EXPECT_EQ(run_reporting(workers, live_on, &lives, NULL), 0);
        for (int i = 0; i < THREADS; i++)
            EXPECT_EQ(pthread_join(threads[i], NULL), 0);
        EXPECT_LE(atomic_load(&lives.foreign), atomic_load(&lives.accepted));
    }
}

/* A runtime that ends with the very child that a thread spawned, woke or cancelled. */
struct brief {
    struct kin_nursery n;
    _Atomic int open, done;
    struct kin_task_ref sleeper;
    int way;
};

static void *end_it_from_outside(void *arg)
{
    struct brief *brief = arg;
    int zero = 0;

    while (!atomic_load(&brief->open))
        sched_yield();
    switch (brief->way) {
    case 0: /* the last child is this thread's */
        kin_ignore(kin_spawn(&brief->n, return_it, &zero));
        kin_ignore(kin_task_cancel(brief->sleeper));
        break;
    case 1: /* the cancel lets everything end */
        kin_nursery_cancel(&brief->n, 0);
        break;
    default: /* the one task that was waited for */
        kin_ignore(kin_task_cancel(brief->sleeper));
    }
    atomic_store(&brief->done, 1);
    return NULL;
}

static int be_brief(void *arg)
{
    struct brief *brief = arg;

    EXPECT_EQ(kin_nursery_open(&brief->n, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&brief->n, NULL, sleep_for_ever, NULL, 0, &brief->sleeper), 0);
    atomic_store(&brief->open, 1);
    int rc = kin_nursery_join(&brief->n, NULL);
    EXPECT(rc == 0 || rc == KIN_CANCELLED);
    return 0;
}

KIN_TEST_LIMIT(a_runtime_ends_while_a_thread_that_ended_it_is_still_in_its_call, "NSM-2", 120)
{
    const int rounds = 300 / (int)kin_test_scale();

    for (int i = 0; i < rounds; i++) {
        static struct brief brief;
        pthread_t thread;
        memset(&brief, 0, sizeof brief);
        brief.way = i % 3;
        EXPECT_EQ(pthread_create(&thread, NULL, end_it_from_outside, &brief), 0);
        EXPECT_EQ(run_reporting(1 + (unsigned)i % 2, be_brief, &brief, NULL), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
    }
}
