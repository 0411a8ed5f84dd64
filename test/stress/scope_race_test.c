/* SPDX-License-Identifier: MIT */
/*
 * Goal: cancels that race with spawns, opens, joins and ends lose no task and run none twice.
 * Method: rounds of one nursery with nested ones, troubled by two threads and by its own tasks at
 *         random; every accepted spawn has a slot of its own. The seed is printed.
 */
#include "api/in_runtime.h"

#include <pthread.h>
#include <sched.h>

enum { SLOTS = 400, THREADS = 2 };

/* One spawn: begun at most once, over before its nursery's join returned. */
struct slot {
    _Atomic int begun, over;
};

struct round {
    struct kin_nursery *n;
    struct kin_task_ref refs[SLOTS];
    struct slot slots[SLOTS];
    _Atomic int next;     /* slots handed out */
    _Atomic int accepted; /* spawns that answered 0 */
    _Atomic int joined;
    _Atomic int phase;    /* 1: go; 2: stop */
    uint64_t seed;
};

struct work {
    struct round *round;
    int slot;
    unsigned depth;
    uint64_t random;
};

static uint64_t step(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

static int be_task(void *arg);

static void spawn_one(struct round *round, struct kin_nursery *n, unsigned depth, uint64_t random)
{
    int slot = atomic_fetch_add(&round->next, 1);
    struct kin_task_ref ref;

    if (slot >= SLOTS)
        return;
    struct work work = {round, slot, depth, random};
    int rc = kin_spawn_with(n, NULL, be_task, &work, sizeof work, &ref);
    EXPECT(rc == 0 || rc == KIN_NOSCOPE);
    if (rc == 0)
        atomic_fetch_add(&round->accepted, 1);
}

/* Opens a nursery below, spawns, perhaps leaves without a join. */
static int nest(struct work *work)
{
    struct round *round = work->round;
    KIN_NURSERY(inner, .on_error = step(&work->random) % 2 ? KIN_COLLECT : KIN_FAIL_FAST);

    for (uint64_t i = step(&work->random) % 4; i > 0; i--) {
        spawn_one(round, &inner, work->depth + 1, step(&work->random));
        if (step(&work->random) % 4 == 0)
            kin_ignore(kin_yield());
    }
    switch (step(&work->random) % 5) {
    case 0:
        return 0; /* the net joins */
    case 1:
        kin_nursery_cancel(&inner, -EPIPE);
        break;
    case 2:
        kin_nursery_close(&inner);
        break;
    default:
        break;
    }
    int rc = kin_nursery_join(&inner, NULL);
    EXPECT(rc == 0 || rc == -EIO || rc == -EPIPE || rc == KIN_CANCELLED || rc == KIN_PANICKED);
    return 0;
}

static int be_task(void *arg)
{
    struct work work = *(struct work *)arg;
    struct round *round = work.round;
    struct slot *slot = &round->slots[work.slot];
    int rc = 0;

    EXPECT_EQ(atomic_fetch_add(&slot->begun, 1), 0);
    EXPECT_EQ(atomic_load(&round->joined), 0);
    switch (step(&work.random) % 8) {
    case 0:
        kin_ignore(kin_sleep(kin_after((int64_t)(step(&work.random) % 50) * 1000)));
        break;
    case 1:
        rc = kin_sleep(kin_after(KIN_MS(1)));
        break;
    case 2:
        rc = kin_yield();
        break;
    case 3:
        if (work.depth == 0)
            spawn_one(round, round->n, 0, step(&work.random)); /* a member, joined or not */
        break;
    default:
        if (work.depth < 3)
            rc = nest(&work);
    }
    EXPECT_EQ(atomic_load(&round->joined), 0);
    EXPECT_EQ(atomic_fetch_add(&slot->over, 1), 0);
    if (step(&work.random) % 64 == 0)
        return -EIO;
    if (step(&work.random) % 64 == 0)
        kin_fail(-EIO, "at random");
    return rc;
}

/* Troubles whatever round goes on, until told to stop. */
static void *be_troublemaker(void *arg)
{
    struct round *round = arg;
    uint64_t random = round->seed ^ (uint64_t)(uintptr_t)&random;

    while (atomic_load(&round->phase) == 0)
        sched_yield();
    for (uint64_t i = step(&random) % 20; i > 0; i--) {
        switch (step(&random) % 8) {
        case 0:
            kin_nursery_cancel(round->n, -EPIPE);
            break;
        case 1:
            kin_nursery_close(round->n);
            break;
        case 2:
        case 3:
            sched_yield();
            break;
        default:
            spawn_one(round, round->n, 0, step(&random));
        }
    }
    return NULL;
}

static int be_round(void *arg)
{
    struct round *round = arg;
    struct kin_nursery n;
    uint64_t random = round->seed;
    pthread_t threads[THREADS];

    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    round->n = &n;
    for (int i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, be_troublemaker, round), 0);
    atomic_store(&round->phase, 1);
    for (uint64_t i = step(&random) % 30; i > 0; i--)
        spawn_one(round, &n, 0, step(&random));
    int rc = kin_nursery_join(&n, NULL);
    atomic_store(&round->joined, 1);
    EXPECT(rc == 0 || rc == -EIO || rc == -EPIPE || rc == KIN_CANCELLED);
    EXPECT(!kin_cancelled());
    const enum kin_nursery_state state = kin_nursery_state(&n);
    EXPECT(state == KIN_NURSERY_CLOSED || state == KIN_NURSERY_CANCELLED);
    for (int i = 0; i < THREADS; i++) /* they may still call on the joined nursery */
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    EXPECT_EQ(kin_nursery_state(&n), state);
    int begun = 0;
    for (int i = 0; i < SLOTS; i++) {
        EXPECT_LE(atomic_load(&round->slots[i].begun), 1);
        EXPECT_EQ(atomic_load(&round->slots[i].over), atomic_load(&round->slots[i].begun));
        begun += atomic_load(&round->slots[i].begun);
    }
    EXPECT_LE(begun, atomic_load(&round->accepted));
    if (state == KIN_NURSERY_CLOSED && rc == 0)
        EXPECT_GE(begun, 0);
    return 0;
}

static int be_all_rounds(void *arg)
{
    static struct round round;
    uint64_t random = kin_test_seed();

    (void)arg;
    for (uint64_t i = 0; kin_test_goes_on(i, 300 / kin_test_scale()); i++) {
        memset(&round, 0, sizeof round);
        round.seed = step(&random);
        EXPECT_EQ(be_round(&round), 0);
    }
    return 0;
}

KIN_TEST_LIMIT(cancels_race_with_everything_and_every_task_counts_once,
               "NSM-1 NSM-2 NSM-3 NCG-1 N3001 B1", 120)
{
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    run_on_few(be_all_rounds, NULL);
}
