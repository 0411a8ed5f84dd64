/* SPDX-License-Identifier: MIT */
/*
 * Goal: a nursery with a limit of tasks: who waits for room gets it in order of arrival, or hears
 *       why not; none is lost, and no more run than may.
 * Method: black box: spawners that wait are tasks, members and threads; children end, fail, are
 *         cancelled, or the nursery closes under them.
 */
#include "api/in_runtime.h"

#include <pthread.h>

/* A child that stays until it is let go. */
struct gate {
    _Atomic int inside;
    _Atomic int most; /* at once */
    _Atomic int let_go;
    _Atomic int gone;
};

static void count_most(struct gate *gate)
{
    int inside = atomic_fetch_add(&gate->inside, 1) + 1;
    int most = atomic_load(&gate->most);
    while (inside > most && !atomic_compare_exchange_weak(&gate->most, &most, inside)) {
    }
}

/* Each of those who are let go is one. */
static bool may_go(struct gate *gate)
{
    int gone = atomic_load(&gate->gone);
    return gone < atomic_load(&gate->let_go) &&
           atomic_compare_exchange_strong(&gate->gone, &gone, gone + 1);
}

static int stay(void *arg)
{
    struct gate *gate = arg;
    int rc = 0;
    count_most(gate);
    while (rc == 0 && !may_go(gate))
        rc = kin_yield();
    atomic_fetch_sub(&gate->inside, 1);
    return rc;
}

/* Somebody who waits for room. */
struct spawner {
    struct kin_nursery *n;
    struct gate *gate;
    kin_time deadline;
    _Atomic int begun;
    _Atomic int rc;
    _Atomic int *order; /* counts those who got in */
    _Atomic int place;  /* as which this one did */
};

static int spawn_it(struct spawner *spawner)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.slot_deadline = spawner->deadline;
    atomic_store(&spawner->begun, 1);
    int rc = kin_spawn_with(spawner->n, &options, stay, spawner->gate, 0, NULL);
    if (rc == 0 && spawner->order)
        atomic_store(&spawner->place, atomic_fetch_add(spawner->order, 1) + 1);
    atomic_store(&spawner->rc, rc == 0 ? 1 : rc);
    return 0;
}

static int be_spawner(void *arg)
{
    return spawn_it(arg);
}

/* ---- what is answered ---- */

static int answer_at_once(void *arg)
{
    struct gate gate = {0};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .tasks_max = 2);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, stay, &gate), 0);
    EXPECT_EQ(kin_spawn(&n, stay, &gate), 0);
    EXPECT_EQ(kin_spawn(&n, stay, &gate), KIN_FULL);
    EXPECT_EQ(kin_spawn_with(&n, NULL, stay, &gate, 0, NULL), KIN_FULL);
    EXPECT_EQ(kin_spawn_with(&n, &options, stay, &gate, 0, NULL), KIN_FULL);
    options.slot_deadline = 1; /* long past */
    EXPECT_EQ(kin_spawn_with(&n, &options, stay, &gate, 0, NULL), KIN_TIMEOUT);
    options.slot_deadline = -1;
    EXPECT_EQ(kin_spawn_with(&n, &options, stay, &gate, 0, NULL), KIN_TIMEOUT);
    options.slot_deadline = kin_after(KIN_MS(2));
    EXPECT_EQ(kin_spawn_with(&n, &options, stay, &gate, 0, NULL), KIN_TIMEOUT);
    options.slot_deadline = KIN_NEVER;
    {
        KIN_WITHIN(KIN_MS(2)); /* the surrounding deadline counts, too */
        EXPECT_EQ(kin_spawn_with(&n, &options, stay, &gate, 0, NULL), KIN_TIMEOUT);
    }
    atomic_store(&gate.let_go, 1000);
    EXPECT_EQ(kin_spawn_with(&n, &options, stay, &gate, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&gate.gone), 3);
    EXPECT_LE(atomic_load(&gate.most), 2);
    return 0;
}

KIN_TEST(a_wait_for_room_ends_with_room_or_its_deadline, "B7")
{
    run_on_few(answer_at_once, NULL);
}

/* Somebody waits; then something happens to the nursery. */
enum event { CANCEL, CLOSE, JOIN, LEAVE, FAIL };

static int fail_when_let_go(void *arg)
{
    int rc = stay(arg);
    return rc < 0 ? rc : -EIO;
}

/* The only child leaves when all were refused: before, it would make room for one of them. */
static int let_go_when_refused(void *arg)
{
    struct spawner *spawners = arg;
    for (int i = 0; i < 3; i++)
        while (atomic_load(&spawners[i].rc) == 0)
            kin_ignore(kin_yield());
    atomic_store(&spawners[0].gate->let_go, 1);
    return 0;
}

static int refuse_those_who_wait(enum event event)
{
    struct gate gate = {0};
    struct spawner spawners[3];
    struct kin_nursery outsiders;
    memset(spawners, 0, sizeof spawners);
    EXPECT_EQ(kin_nursery_open(&outsiders, NULL), 0);
    {
        KIN_NURSERY(n, .tasks_max = 1);
        EXPECT_EQ(kin_spawn(&n, event == FAIL ? fail_when_let_go : stay, &gate), 0);
        for (int i = 0; i < 3; i++) {
            spawners[i].n = &n;
            spawners[i].gate = &gate;
            spawners[i].deadline = KIN_NEVER;
            EXPECT_EQ(kin_spawn(&outsiders, be_spawner, &spawners[i]), 0);
        }
        await_parked(3, "slot");
        if (event == CANCEL)
            kin_nursery_cancel(&n, 0);
        if (event == CLOSE)
            kin_nursery_close(&n);
        if (event == FAIL)
            atomic_store(&gate.let_go, 1);
        if (event == JOIN || event == LEAVE)
            EXPECT_EQ(kin_spawn(&outsiders, let_go_when_refused, spawners), 0);
        else
            let_go_when_refused(spawners); /* while the nursery is there */
        if (event == JOIN) /* whoever is not in by now is an outsider */
            EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        if (event == FAIL)
            EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    }
    EXPECT_EQ(kin_nursery_join(&outsiders, NULL), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(atomic_load(&spawners[i].rc), KIN_NOSCOPE);
    EXPECT(!kin_cancelled());
    return 0;
}

static int refuse_in_every_way(void *arg)
{
    (void)arg;
    for (int event = CANCEL; event <= FAIL; event++)
        EXPECT_EQ(refuse_those_who_wait((enum event)event), 0);
    return 0;
}

KIN_TEST(whoever_waits_for_room_is_refused_when_the_nursery_admits_nobody, "B7 B9 NSM:3.1")
{
    for (int i = 0; i < 5; i++)
        run_on_few(refuse_in_every_way, NULL);
}

/* The join comes between the look of an outsider and its wait; the only child leaves when the
 * outsider was refused, so whoever waits for room then waits for ever. */
static int stay_until_refused(void *arg)
{
    struct spawner *spawner = arg;
    while (atomic_load(&spawner->rc) == 0)
        kin_ignore(kin_yield());
    return 0;
}

static void *be_thread(void *arg);

static int join_while_an_outsider_comes(void *arg)
{
    const int rounds = 300 / (int)kin_test_scale();
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        struct gate gate = {.let_go = 1000};
        struct spawner spawner = {.gate = &gate, .deadline = KIN_NEVER};
        pthread_t thread;
        KIN_NURSERY(n, .tasks_max = 1);
        spawner.n = &n;
        EXPECT_EQ(kin_spawn(&n, stay_until_refused, &spawner), 0);
        EXPECT_EQ(pthread_create(&thread, NULL, be_thread, &spawner), 0);
        while (atomic_load(&spawner.begun) == 0)
            kin_ignore(kin_yield());
        for (volatile int k = i % 100 * 8; k > 0; k--) {
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        EXPECT_EQ(atomic_load(&spawner.rc), KIN_NOSCOPE);
    }
    return 0;
}

KIN_TEST(an_outsider_that_comes_with_the_join_is_refused_and_does_not_wait, "B7 B9")
{
    run_on_few(join_while_an_outsider_comes, NULL);
}

/* The waiting spawner itself is cancelled. */
static int cancel_the_spawner(void *arg)
{
    struct gate gate = {0};
    struct spawner spawner = {.gate = &gate, .deadline = KIN_NEVER};
    KIN_NURSERY(n, .tasks_max = 1);
    (void)arg;
    spawner.n = &n;
    EXPECT_EQ(kin_spawn(&n, stay, &gate), 0);
    {
        KIN_NURSERY(others);
        EXPECT_EQ(kin_spawn(&others, be_spawner, &spawner), 0);
        await_parked(1, "slot");
        kin_nursery_cancel(&others, 0);
        EXPECT_EQ(kin_nursery_join(&others, NULL), KIN_CANCELLED);
    }
    EXPECT_EQ(atomic_load(&spawner.rc), KIN_NOSCOPE);
    atomic_store(&gate.let_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&gate.gone), 1);
    return 0;
}

KIN_TEST(a_spawner_that_is_cancelled_while_it_waits_is_refused, "B7")
{
    run_on_few(cancel_the_spawner, NULL);
}

/* ---- order ---- */

enum { WAITING = 6 };

/* Whether all of the first few are in line that have not given up. */
static bool are_in_line(struct spawner *spawners, int count)
{
    int waiting = 0;
    for (int i = 0; i < count; i++)
        waiting += atomic_load(&spawners[i].rc) == 0;
    return count_parked("slot") == waiting;
}

static int stand_in_line(void *arg)
{
    struct gate gate = {0};
    struct spawner spawners[WAITING];
    _Atomic int order = 0;
    KIN_NURSERY(n, .tasks_max = 2);
    KIN_NURSERY(line);
    (void)arg;
    memset(spawners, 0, sizeof spawners);
    EXPECT_EQ(kin_spawn(&n, stay, &gate), 0);
    EXPECT_EQ(kin_spawn(&n, stay, &gate), 0);
    for (int i = 0; i < WAITING; i++) {
        spawners[i].n = &n;
        spawners[i].gate = &gate;
        spawners[i].order = &order;
        /* every third one gives up: those behind move on */
        spawners[i].deadline = i % 3 == 1 ? kin_after(KIN_MS(5)) : KIN_NEVER;
        EXPECT_EQ(kin_spawn(&line, be_spawner, &spawners[i]), 0);
        await(&spawners[i].begun, 1);
        if (kin_in_lab())
            EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
        while (!kin_in_lab() && !are_in_line(spawners, i + 1)) /* ends: nobody lets any in */
            kin_ignore(kin_yield());
    }
    for (int i = 0; i < WAITING; i++) {
        while (i % 3 == 1 && atomic_load(&spawners[i].rc) == 0)
            EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    }
    for (int i = 0, place = 1; i < WAITING; i++) {
        if (i % 3 == 1) {
            EXPECT_EQ(atomic_load(&spawners[i].rc), KIN_TIMEOUT);
            continue;
        }
        EXPECT_EQ(atomic_load(&spawners[i].rc), 0);
        atomic_fetch_add(&gate.let_go, 1); /* one leaves, one gets in */
        while (atomic_load(&gate.gone) < place)
            kin_ignore(kin_yield());
        EXPECT_EQ(kin_spawn(&n, stay, &gate), KIN_FULL); /* nobody overtakes */
        while (atomic_load(&spawners[i].rc) == 0)
            kin_ignore(kin_yield());
        EXPECT_EQ(atomic_load(&spawners[i].rc), 1);
        EXPECT_EQ(atomic_load(&spawners[i].place), place);
        place++;
    }
    EXPECT_EQ(kin_nursery_join(&line, NULL), 0);
    atomic_store(&gate.let_go, 1000);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_LE(atomic_load(&gate.most), 2);
    return 0;
}

KIN_TEST(those_who_wait_for_room_get_it_in_order_and_nobody_overtakes, "B7")
{
    run_on_few(stand_in_line, NULL);
}

/* ---- members, threads ---- */

/* Children that spawn beside themselves while the nursery is joined. */
struct family {
    struct kin_nursery *n;
    _Atomic int left;
    _Atomic int ran;
};

static int have_a_sibling(void *arg)
{
    struct family *family = arg;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.slot_deadline = KIN_NEVER;
    atomic_fetch_add(&family->ran, 1);
    if (atomic_fetch_sub(&family->left, 1) > 0)
        EXPECT_EQ(kin_spawn_with(family->n, &options, have_a_sibling, family, 0, NULL), 0);
    return 0;
}

static int join_a_family(void *arg)
{
    struct family family = {.left = 200};
    KIN_NURSERY(n, .tasks_max = 4); /* two that wait for the other two's room */
    (void)arg;
    family.n = &n;
    EXPECT_EQ(kin_spawn(&n, have_a_sibling, &family), 0);
    EXPECT_EQ(kin_spawn(&n, have_a_sibling, &family), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&family.ran), 202);
    return 0;
}

KIN_TEST(members_wait_for_room_while_the_nursery_is_joined, "B7 B9")
{
    run_on_few(join_a_family, NULL);
}

static int close_from_inside(void *arg)
{
    struct spawner *spawner = arg;
    await_parked(1, "slot");
    kin_nursery_close(spawner->n);
    while (atomic_load(&spawner->rc) == 0) /* it is refused at once, not when a child leaves */
        kin_ignore(kin_yield());
    return 0;
}

static int seal_while_a_member_waits(void *arg)
{
    struct gate gate = {0};
    struct spawner spawner = {.gate = &gate, .deadline = KIN_NEVER};
    KIN_NURSERY(n, .tasks_max = 2);
    (void)arg;
    spawner.n = &n;
    EXPECT_EQ(kin_spawn(&n, close_from_inside, &spawner), 0);
    EXPECT_EQ(kin_spawn(&n, be_spawner, &spawner), 0); /* last: it would take any room there is */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&spawner.rc), KIN_NOSCOPE);
    return 0;
}

KIN_TEST(a_close_refuses_members_that_wait_for_room, "B7 B9 NSM:2.3")
{
    run_on_few(seal_while_a_member_waits, NULL);
}

/* A spawner that is a plain thread. */
static void *be_thread(void *arg)
{
    kin_ignore(spawn_it(arg));
    return NULL;
}

static int let_threads_wait(void *arg)
{
    struct gate gate = {0};
    struct spawner spawners[3];
    pthread_t threads[3];
    KIN_NURSERY(n, .tasks_max = 1);
    (void)arg;
    memset(spawners, 0, sizeof spawners);
    EXPECT_EQ(kin_spawn(&n, stay, &gate), 0);
    for (int i = 0; i < 3; i++) {
        spawners[i].n = &n;
        spawners[i].gate = &gate;
        spawners[i].deadline = i == 0 ? kin_after(KIN_MS(2)) : KIN_NEVER;
        EXPECT_EQ(pthread_create(&threads[i], NULL, be_thread, &spawners[i]), 0);
    }
    while (atomic_load(&spawners[0].rc) == 0)
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    EXPECT_EQ(atomic_load(&spawners[0].rc), KIN_TIMEOUT);
    atomic_fetch_add(&gate.let_go, 1);
    while (atomic_load(&spawners[1].rc) == 0 && atomic_load(&spawners[2].rc) == 0)
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    int admitted = 0;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
        EXPECT_NE(atomic_load(&spawners[i].rc), 0);
        admitted += atomic_load(&spawners[i].rc) == 1;
    }
    EXPECT_EQ(admitted, 1);
    return 0;
}

KIN_TEST(a_thread_blocks_while_it_waits_for_room, "B7 NSM:3.1")
{
    run_on_few(let_threads_wait, NULL);
}

/* ---- stress ---- */

enum { SPAWNERS = 16, EACH = 60, ROOM = 3 };

struct crowd {
    struct kin_nursery *n;
    _Atomic int inside, most, ran, accepted, refused;
    uint64_t seed;
};

static int pass_through(void *arg)
{
    struct crowd *crowd = arg;
    int inside = atomic_fetch_add(&crowd->inside, 1) + 1;
    EXPECT_LE(inside, ROOM);
    kin_ignore(kin_yield());
    atomic_fetch_add(&crowd->ran, 1);
    atomic_fetch_sub(&crowd->inside, 1);
    return 0;
}

static int press_in(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t random = (uint64_t)atomic_fetch_add(&crowd->most, 1) + crowd->seed;
    for (int i = 0; i < EACH; i++) {
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        random = random * 6364136223846793005u + 1442695040888963407u;
        options.slot_deadline =
            random >> 62 ? KIN_NEVER : kin_after((int64_t)(random >> 33) % 100000);
        int rc = kin_spawn_with(crowd->n, &options, pass_through, crowd, 0, NULL);
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
        atomic_fetch_add(rc == 0 ? &crowd->accepted : &crowd->refused, 1);
    }
    return 0;
}

static int be_crowded(void *arg)
{
    struct crowd crowd = {.seed = kin_test_seed()};
    struct kin_nursery spawners;
    KIN_NURSERY(n, .tasks_max = ROOM);
    (void)arg;
    crowd.n = &n;
    EXPECT_EQ(kin_nursery_open(&spawners, NULL), 0);
    for (int i = 0; i < SPAWNERS; i++)
        EXPECT_EQ(kin_spawn(&spawners, press_in, &crowd), 0);
    EXPECT_EQ(kin_nursery_join(&spawners, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&crowd.ran), atomic_load(&crowd.accepted));
    EXPECT_EQ(atomic_load(&crowd.accepted) + atomic_load(&crowd.refused), SPAWNERS * EACH);
    return 0;
}

KIN_TEST(a_crowd_passes_through_a_narrow_nursery, "B7 NSM-1")
{
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    for (int i = 0; i < 5; i++)
        run_on_few(be_crowded, NULL);
}
