/* SPDX-License-Identifier: MIT */
/*
 * Goal: nurseries under stress and chaos: very many spawns at once, very deep nesting, rapid spawns
 *       and cancels, random failures and cancellations, no memory during a spawn, deadlines and
 *       graces that end in the middle of a cleanup.
 * Method: rounds with a printed seed; every task that was accepted counts once, every resource that
 *         was opened is closed once, every join returns. Bounded by rounds.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#if SANITIZED
enum { MANY = 20000, LEVELS = 1000, CYCLES = 500, ROUNDS = 40 };
#else
enum { MANY = 100000, LEVELS = 1000, CYCLES = 3000, ROUNDS = 120 };
#endif

static uint64_t step(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* ---- very many ---- */

struct storm {
    struct kin_nursery *n;
    _Atomic int accepted, ran;
    int each;
};

static int run_once(void *arg)
{
    atomic_fetch_add(&((struct storm *)arg)->ran, 1);
    return 0;
}

static int spawn_each(void *arg)
{
    struct storm *storm = arg;
    for (int i = 0; i < storm->each; i++) {
        EXPECT_EQ(kin_spawn(storm->n, run_once, storm), 0);
        atomic_fetch_add(&storm->accepted, 1);
    }
    return 0;
}

static void *spawn_each_outside(void *arg)
{
    EXPECT_EQ(spawn_each(arg), 0);
    return NULL;
}

static int spawn_very_many(void *arg)
{
    enum { SPAWNERS = 8 };
    struct storm storm = {.each = MANY / (SPAWNERS + 2)};
    struct kin_nursery n, spawners;
    pthread_t threads[2];
    (void)arg;
    storm.n = &n;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&spawners, NULL), 0);
    for (int i = 0; i < SPAWNERS; i++)
        EXPECT_EQ(kin_spawn(&spawners, spawn_each, &storm), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, spawn_each_outside, &storm), 0);
    EXPECT_EQ(kin_nursery_join(&spawners, NULL), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&storm.ran), atomic_load(&storm.accepted));
    EXPECT_EQ(atomic_load(&storm.ran), storm.each * (SPAWNERS + 2));
    return 0;
}

KIN_TEST_LIMIT(a_hundred_thousand_spawns_at_once_all_run, "NCG-1 NSM-1 NSM-2", 120)
{
    run_on_few(spawn_very_many, NULL);
}

/* ---- very deep ---- */

struct level {
    int left;      /* levels below */
    int fails_at;  /* the level that fails; -1: none */
    int mask_at;   /* levels whose nursery is opened under a mask; 0: none */
    _Atomic int *bottom;
};

static int descend(void *arg)
{
    struct level *me = arg;
    struct level below = {me->left - 1, me->fails_at, me->mask_at, me->bottom};
    struct kin_nursery n;
    if (me->left == me->fails_at)
        return -EIO;
    if (me->left == 0) {
        atomic_store(me->bottom, 1);
        return kin_sleep(KIN_NEVER);
    }
    bool is_masked = me->mask_at && me->left % me->mask_at == 0;
    if (is_masked)
        kin_mask();
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    int rc = kin_spawn(&n, descend, &below);
    EXPECT(rc == 0 || rc == KIN_NOSCOPE);
    if (is_masked)
        kin_unmask();
    return kin_nursery_join(&n, NULL); /* the failure, or the reason */
}

static int go_deep(void *arg)
{
    const int depths[] = {10, LEVELS};
    (void)arg;
    for (int way = 0; way < 6; way++) {
        _Atomic int bottom = 0;
        const int depth = depths[way % 2];
        struct level first = {depth, way / 2 == 0 ? 0 : -1, way / 2 == 2 ? 7 : 0, &bottom};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, descend, &first), 0);
        if (way / 2 != 0) {
            while (atomic_load(&bottom) == 0)
                kin_ignore(kin_yield());
            kin_nursery_cancel(&n, KIN_CANCELLED);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), way / 2 == 0 ? -EIO : KIN_CANCELLED);
    }
    return 0;
}

KIN_TEST_LIMIT(nurseries_ten_and_a_thousand_deep_fail_and_are_cancelled, "NSM-3 NSM-4 NSM:6.3", 120)
{
    run_on_few(go_deep, NULL);
}

/* The grace ends at the top of a thousand levels: it reaches the bottom. */
static int hold_the_bottom(void *arg)
{
    struct level *me = arg;
    struct level below = {me->left - 1, -1, 0, me->bottom};
    KIN_NURSERY(n, .cancel_grace = KIN_NEVER);
    if (me->left == 0) {
        kin_mask();
        atomic_store(me->bottom, 1);
        EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
        EXPECT_EQ(kin_cancel_reason(), KIN_STUCK);
        kin_unmask();
        return KIN_CANCELLED;
    }
    EXPECT_EQ(kin_spawn(&n, hold_the_bottom, &below), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int outstay_at_the_bottom(void *arg)
{
    _Atomic int bottom = 0;
    struct level first = {*(int *)arg, -1, 0, &bottom};
    KIN_NURSERY(n, .cancel_grace = KIN_MS(5));
    EXPECT_EQ(kin_spawn(&n, hold_the_bottom, &first), 0);
    while (atomic_load(&bottom) == 0)
        kin_ignore(kin_yield());
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST_LIMIT(the_end_of_a_grace_reaches_the_bottom, "B7 N2002 NSM-3", 120)
{
    int depths[] = {10, 300};
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        for (int i = 0; i < 2; i++) {
            struct reports reports = {0};
            EXPECT_EQ(run_reporting(workers, outstay_at_the_bottom, &depths[i], &reports), 0);
            EXPECT_EQ(atomic_load(&reports.count), 1);
        }
    }
}

/* ---- rapid cycles ---- */

static int be_short(void *arg)
{
    return kin_sleep(arg ? kin_after(KIN_US(5)) : KIN_NEVER);
}

static int cycle(void *arg)
{
    uint64_t random = kin_test_seed() + (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < CYCLES; i++) {
        struct kin_task_ref refs[4];
        struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
        struct kin_nursery n;
        uint64_t shape = step(&random);
        if (shape % 3 == 0)
            options.deadline = kin_after((int64_t)(shape % 40) * 1000);
        EXPECT_EQ(kin_nursery_open(&n, &options), 0);
        for (int k = 0; k < 4; k++) {
            void *flag = shape & (1u << (8 + k)) ? &random : NULL;
            int rc = kin_spawn_with(&n, NULL, be_short, flag, 0, &refs[k]);
            EXPECT(rc == 0 || rc == KIN_NOSCOPE);
            if (rc == 0 && shape & (1u << (12 + k)))
                EXPECT_EQ(kin_task_cancel(refs[k]), 0);
            if (shape & (1u << (16 + k)))
                kin_ignore(kin_yield());
        }
        kin_nursery_cancel(&n, -EPIPE);
        int rc = kin_nursery_join(&n, NULL);
        EXPECT(rc == -EPIPE || (rc == KIN_TIMEOUT && options.deadline));
        EXPECT(!kin_cancelled());
    }
    return 0;
}

static int cycle_side_by_side(void *arg)
{
    KIN_NURSERY(n);
    (void)arg;
    for (uintptr_t i = 0; i < 4; i++)
        EXPECT_EQ(kin_spawn(&n, cycle, (void *)i), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST_LIMIT(rapid_spawns_and_cancels_leave_nothing_behind, "NSM:4.2 ABA:8.3 N2001", 120)
{
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    run_on_few(cycle_side_by_side, NULL);
}

/* ---- random failures and cancellations ---- */

/* A hall of tasks that hand things to each other until chaos ends them. */
struct hall {
    struct kin_nursery *n;
    struct kin_chan *chan;
    _Atomic int open, closed; /* resources */
    _Atomic int begun, accepted;
    _Atomic int quiet; /* no more spawns */
    uint64_t seed;
};

struct guest {
    struct hall *hall;
    uint64_t random;
};

static void close_one(void *arg)
{
    atomic_fetch_add(&((struct hall *)arg)->closed, 1);
}

static int be_guest(void *arg);

static void invite(struct hall *hall, uint64_t random)
{
    struct guest guest = {hall, random};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    if (random % 2)
        options.slot_deadline = kin_after((int64_t)(random % 50) * 1000);
    int rc = kin_spawn_with(hall->n, &options, be_guest, &guest, sizeof guest, NULL);
    EXPECT(rc == 0 || rc == KIN_NOSCOPE || rc == KIN_FULL || rc == KIN_TIMEOUT);
    atomic_fetch_add(&hall->accepted, rc == 0);
}

static int be_guest(void *arg)
{
    struct guest me = *(struct guest *)arg;
    struct hall *hall = me.hall;
    int item = 0;
    atomic_fetch_add(&hall->begun, 1);
    EXPECT_EQ(kin_defer(close_one, hall), 0);
    atomic_fetch_add(&hall->open, 1);
    for (uint64_t i = step(&me.random) % 12; i > 0; i--) {
        kin_time deadline = kin_after((int64_t)(step(&me.random) % 100) * 1000);
        switch (step(&me.random) % 9) {
        case 0:
            kin_ignore(kin_chan_send(hall->chan, &item, deadline));
            break;
        case 1:
            kin_ignore(kin_chan_recv(hall->chan, &item, deadline));
            break;
        case 2:
            kin_mask();
            kin_ignore(kin_chan_recv(hall->chan, &item, deadline));
            kin_unmask();
            break;
        case 3:
            if (!atomic_load(&hall->quiet))
                invite(hall, step(&me.random));
            break;
        case 4: {
            KIN_NURSERY(inner, .deadline = deadline, .on_error = KIN_COLLECT);
            kin_ignore(kin_spawn(&inner, be_short, NULL));
            break; /* the net */
        }
        case 5:
            kin_ignore(kin_yield());
            break;
        case 6: {
            KIN_WITHIN(KIN_US(30));
            kin_ignore(kin_sleep(KIN_NEVER));
            break;
        }
        default:
            kin_ignore(kin_checkpoint());
        }
    }
    switch (step(&me.random) % 40) {
    case 0:
        kin_fail(-EIO, "chaos");
    case 1:
        kin_panic("chaos");
    case 2:
        return -EIO;
    default:
        return 0;
    }
}

static void *be_troublemaker(void *arg)
{
    struct hall *hall = arg;
    uint64_t random = hall->seed;
    for (uint64_t i = step(&random) % 30; i > 0; i--)
        invite(hall, step(&random));
    if (step(&random) % 2)
        kin_nursery_cancel(hall->n, -EPIPE);
    return NULL;
}

static int have_guests(void *arg)
{
    uint64_t random = kin_test_seed();
    const int rounds = ROUNDS / (int)kin_test_scale() + 1;
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        struct hall hall = {.seed = step(&random)};
        struct kin_nursery n;
        struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
        pthread_t thread;
        options.on_error = step(&random) % 2 ? KIN_COLLECT : KIN_FAIL_FAST;
        options.tasks_max = step(&random) % 3 ? 0 : 5;
        options.cancel_grace = step(&random) % 3 ? 0 : KIN_US(200);
        options.deadline = step(&random) % 3 ? 0 : kin_after(KIN_MS(2));
        hall.n = &n;
        EXPECT_EQ(kin_chan_create(&hall.chan, sizeof(int), step(&random) % 3), 0);
        EXPECT_EQ(kin_nursery_open(&n, &options), 0);
        EXPECT_EQ(pthread_create(&thread, NULL, be_troublemaker, &hall), 0);
        for (int k = 0; k < 12; k++)
            invite(&hall, step(&random));
        atomic_store(&hall.quiet, step(&random) % 2);
        int rc = kin_nursery_join(&n, NULL);
        EXPECT(rc == 0 || rc == -EIO || rc == KIN_PANICKED || rc == -EPIPE || rc == KIN_TIMEOUT);
        EXPECT_EQ(pthread_join(thread, NULL), 0); /* its calls on n may come after the join */
        EXPECT_LE(atomic_load(&hall.begun), atomic_load(&hall.accepted));
        EXPECT_EQ(atomic_load(&hall.open), atomic_load(&hall.begun));
        EXPECT_EQ(atomic_load(&hall.closed), atomic_load(&hall.open));
        EXPECT(!kin_cancelled());
        kin_chan_unref(hall.chan);
    }
    return 0;
}

KIN_TEST_LIMIT(random_failures_and_cancellations_lose_nobody_and_nothing,
               "NCG-1 NCG-3 NSM-2 NSM-3 B1 B7", 120)
{
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    run_on_few(have_guests, NULL);
}

/* ---- no memory during a spawn ---- */

struct tally {
    _Atomic int ran;
    int accepted, refused;
};

static void do_nothing(void *arg)
{
    (void)arg;
}

static int run_and_defer(void *arg)
{
    struct tally *tally = *(struct tally **)arg;
    int rc = kin_defer(do_nothing, NULL); /* may be refused, too */
    EXPECT(rc == 0 || rc == -ENOMEM);
    kin_mask();
    kin_ignore(kin_sleep(kin_after(KIN_US(20))));
    kin_unmask();
    atomic_fetch_add(&tally->ran, 1);
    return 0;
}

static int spawn_short_of_memory(void *arg)
{
    struct tally *tally = arg;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    options.on_error = KIN_COLLECT;
    options.tasks_max = 8;
    options.errors_max = 100;
    options.cancel_grace = KIN_MS(1);
    options.deadline = kin_after(KIN_SEC(30));
    int rc = kin_nursery_open(&n, &options);
    if (rc < 0)
        return rc;
    for (int i = 0; i < 60; i++) {
        struct kin_spawn_options with = KIN_SPAWN_OPTIONS_INIT;
        struct kin_task_ref ref;
        with.slot_deadline = KIN_NEVER;
        with.stack_max_bytes = i % 2 ? (size_t)1 << 20 : 0;
        rc = kin_spawn_with(&n, &with, run_and_defer, &tally, sizeof tally, i % 3 ? &ref : NULL);
        EXPECT(rc == 0 || rc == -ENOMEM);
        tally->accepted += rc == 0;
        tally->refused += rc != 0;
        if (rc == 0 && i % 3)
            EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    }
    if (tally->refused)
        kin_nursery_cancel(&n, -EPIPE);
    rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || rc == -ENOMEM || (rc == -EPIPE && tally->refused));
    EXPECT_LE(atomic_load(&tally->ran), tally->accepted);
    if (rc == 0)
        EXPECT_EQ(atomic_load(&tally->ran), tally->accepted);
    return rc == -EPIPE ? 0 : rc;
}

static int run_short(uint64_t nth, bool forever, struct tally *tally)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 2;
    *tally = (struct tally){0};
    kin__plat_fail_after(nth, forever);
    int rc = kin_run(&config, spawn_short_of_memory, tally);
    kin__plat_fail_after(0, false);
    return rc;
}

KIN_TEST_LIMIT(no_memory_during_a_spawn_is_an_answer_and_nothing_else, "NSM:3.1 NCG-1", 120)
{
    struct tally tally;
    /* each in a process of its own, in which nothing is cached */
    for (uint64_t n = 1; n <= 40; n++) {
        const pid_t process = fork();
        EXPECT_GE(process, 0);
        if (process == 0) {
            alarm(KIN_TEST_S / 2 * kin_test_scale());
            int rc = run_short(n / 2 + 1, n % 2, &tally);
            EXPECT(rc == 0 || rc == -ENOMEM || rc == -EAGAIN);
            EXPECT_EQ(run_short(0, false, &tally), 0); /* all is well again */
            EXPECT_EQ(tally.accepted, 60);
            EXPECT_EQ(atomic_load(&tally.ran), 60);
            exit(0);
        }
        int status = 0;
        EXPECT_EQ(waitpid(process, &status, 0), process);
        if (status != 0)
            printf("with request %llu failing\n", (unsigned long long)n / 2 + 1);
        EXPECT_EQ(status, 0);
    }
}

/* ---- deadlines and graces in the middle of a cleanup ---- */

struct slow {
    _Atomic int begun, done, cut;
};

/* Takes its time; is cut short when the grace is over. */
static void clean_slowly(void *arg)
{
    struct slow *slow = arg;
    atomic_fetch_add(&slow->begun, 1);
    kin_mask();
    int rc = kin_sleep(kin_after(KIN_MS(4)));
    kin_unmask();
    EXPECT(rc == 0 || rc == KIN_CANCELLED);
    atomic_fetch_add(rc == 0 ? &slow->done : &slow->cut, 1);
}

static int hold_slow_things(void *arg)
{
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_defer(clean_slowly, arg), 0);
    int rc = kin_sleep(KIN_NEVER);
    EXPECT_EQ(rc, KIN_CANCELLED);
    return rc;
}

static int time_out_in_cleanups(void *arg)
{
    const int64_t graces[] = {KIN_MS(1), KIN_MS(6), KIN_SEC(5)};
    (void)arg;
    for (int i = 0; i < 3; i++) {
        struct slow slow = {0};
        KIN_NURSERY(n, .deadline = kin_after(KIN_MS(2)), .cancel_grace = graces[i]);
        for (int k = 0; k < 5; k++)
            kin_ignore(kin_spawn(&n, hold_slow_things, &slow)); /* or the deadline was faster */
        int rc = kin_nursery_join(&n, NULL);
        EXPECT_EQ(rc, KIN_TIMEOUT);
        /* those that began ran every cleanup, cut short or not */
        EXPECT_EQ(atomic_load(&slow.begun) % 3, 0);
        EXPECT_EQ(atomic_load(&slow.begun), atomic_load(&slow.done) + atomic_load(&slow.cut));
        if (i == 2)
            EXPECT_EQ(atomic_load(&slow.cut), 0);
    }
    return 0;
}

KIN_TEST_LIMIT(deadlines_and_graces_end_in_the_middle_of_cleanups, "NCG-3 N2001 N2002 B7", 120)
{
    run_on_few(time_out_in_cleanups, NULL);
}
