/* SPDX-License-Identifier: MIT */
/*
 * Goal: locks and friends keep their promises when everything happens at once: exclusion, no lost
 * wake-up, no permit lost or made, no round of a barrier torn.
 * Method: tasks that use one object in a loop, each wait with a random deadline or none, while a
 * task cancels others at random and new ones take their place; a balance at the end of each
 * program. One and several workers; the seed is printed and KIN_SEED repeats the choices, though
 * not the order in which several workers make them.
 */
#include "api/in_runtime.h"

#include <kin/sync.h>

enum { TASKS = 24, ROUNDS = 2500 };

/* A stream of random numbers of its own for each user. */
static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* A deadline: mostly none, sometimes soon, sometimes none at all. */
static kin_time some_deadline(uint64_t *state)
{
    uint32_t choice = draw(state) % 8;
    if (choice < 4)
        return KIN_NEVER;
    return choice == 4 ? 0 : kin_after((int64_t)(draw(state) % 20000));
}

static void some_yields(uint64_t *state)
{
    for (uint32_t i = draw(state) % 4; i > 1; i--)
        kin_ignore(kin_yield());
}

static bool is_an_end(int rc)
{
    return rc == KIN_TIMEOUT || rc == KIN_CANCELLED;
}

/* ---- what all programs share ---- */

struct program {
    const char *name;
    void (*round)(struct program *program, uint64_t *state);
    struct kin_mutex mutex;
    struct kin_rwlock rwlock;
    struct kin_cond cond;
    struct kin_sem sem;
    struct kin_barrier barrier;
    long plain;           /* kept right by the lock only */
    long items;           /* under the mutex */
    _Atomic long counted; /* what plain must come to */
    _Atomic long inside;
    _Atomic long ends;    /* waits that were cancelled or came too late */
    _Atomic long made, used;
    _Atomic int rounds_left;
    _Atomic int is_over;
    struct kin_task_ref refs[TASKS];
    struct kin_mutex refs_mutex;
    struct kin_nursery *nursery;
};

/* A wait that did not get what it wanted. */
static void count_end(struct program *program, int rc)
{
    EXPECT(is_an_end(rc));
    program->ends++;
}

struct player {
    struct program *program;
    int place;
    uint64_t state;
};

static int play(void *arg)
{
    struct player *player = arg;
    while (player->program->rounds_left-- > 0 && !kin_cancelled())
        player->program->round(player->program, &player->state);
    return 0;
}

static int start_player(struct program *program, int place, uint64_t seed)
{
    struct player player = {program, place, seed};
    struct kin_task_ref ref;
    int rc = kin_spawn_with(program->nursery, NULL, play, &player, sizeof player, &ref);
    if (rc == 0) {
        EXPECT_EQ(kin_mutex_lock(&program->refs_mutex, KIN_NEVER), 0);
        program->refs[place] = ref;
        kin_mutex_unlock(&program->refs_mutex);
    }
    return rc;
}

/* Cancels somebody now and then, and sends somebody else in its place. */
static int cancel_at_random(void *arg)
{
    struct program *program = arg;
    uint64_t state = kin_test_seed();
    while (!program->is_over && program->rounds_left > 0) {
        int place = (int)(draw(&state) % TASKS);
        EXPECT_EQ(kin_mutex_lock(&program->refs_mutex, KIN_NEVER), 0);
        struct kin_task_ref ref = program->refs[place];
        kin_mutex_unlock(&program->refs_mutex);
        kin_ignore(kin_task_cancel(ref));
        EXPECT_EQ(start_player(program, place, draw(&state)), 0);
        kin_ignore(kin_sleep(kin_after((int64_t)(draw(&state) % 20000))));
    }
    return 0;
}

static int run_program(void *arg)
{
    struct program *program = arg;
    KIN_NURSERY(n);
    program->nursery = &n;
    program->rounds_left = TASKS * ROUNDS / (int)kin_test_scale();
    for (int i = 0; i < TASKS; i++)
        EXPECT_EQ(start_player(program, i, kin_test_seed() + (uint64_t)i), 0);
    EXPECT_EQ(kin_spawn(&n, cancel_at_random, program), 0);
    int rc = kin_nursery_join(&n, NULL);
    program->nursery = NULL;
    return rc;
}

static void stress(struct program *program, unsigned workers)
{
    printf("%s on %u workers, KIN_SEED=0x%llx\n", program->name, workers,
           (unsigned long long)kin_test_seed());
    EXPECT_EQ(run_reporting(workers, run_program, program, NULL), 0);
    printf("%ld waits ended early\n", (long)program->ends);
}

/* ---- mutual exclusion ---- */

static void lock_round(struct program *program, uint64_t *state)
{
    int rc = kin_mutex_lock(&program->mutex, some_deadline(state));
    if (rc < 0) {
        count_end(program, rc);
        return;
    }
    EXPECT_EQ(program->inside++, 0);
    program->plain++;
    some_yields(state);
    EXPECT_EQ(--program->inside, 0);
    kin_mutex_unlock(&program->mutex);
    program->counted++;
}

static int check_mutex(void *arg)
{
    struct program *program = arg;
    EXPECT_EQ(kin_mutex_lock(&program->mutex, 0), 0); /* nobody is left holding it */
    EXPECT_EQ(program->plain, program->counted);
    kin_mutex_unlock(&program->mutex);
    return 0;
}

KIN_TEST(a_mutex_excludes_under_cancels_and_deadlines, "T082 T061 F4")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        static struct program program;
        program = (struct program){.name = "mutex", .round = lock_round};
        stress(&program, workers);
        EXPECT_EQ(run_reporting(1, check_mutex, &program, NULL), 0);
    }
}

/* ---- readers and writers ---- */

enum { WRITER = 100000 };

static void rwlock_round(struct program *program, uint64_t *state)
{
    bool writes = draw(state) % 4 == 0;
    kin_time deadline = some_deadline(state);
    int rc = writes ? kin_rwlock_write_lock(&program->rwlock, deadline)
                    : kin_rwlock_read_lock(&program->rwlock, deadline);
    if (rc < 0) {
        count_end(program, rc);
        return;
    }
    long before = atomic_fetch_add(&program->inside, writes ? WRITER : 1);
    EXPECT(writes ? before == 0 : before < WRITER);
    if (writes)
        program->plain++;
    some_yields(state);
    program->inside -= writes ? WRITER : 1;
    if (writes)
        kin_rwlock_write_unlock(&program->rwlock);
    else
        kin_rwlock_read_unlock(&program->rwlock);
    program->counted += writes;
}

static int check_rwlock(void *arg)
{
    struct program *program = arg;
    EXPECT_EQ(kin_rwlock_write_lock(&program->rwlock, 0), 0);
    EXPECT_EQ(program->plain, program->counted);
    kin_rwlock_write_unlock(&program->rwlock);
    return 0;
}

KIN_TEST(a_rwlock_excludes_under_cancels_and_deadlines, "G090 T061 F4")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        static struct program program;
        program = (struct program){.name = "rwlock", .round = rwlock_round};
        stress(&program, workers);
        EXPECT_EQ(run_reporting(1, check_rwlock, &program, NULL), 0);
    }
}

/* ---- conditions: a queue of items, one signal for each ---- */

static void make_item(struct program *program)
{
    if (kin_mutex_lock(&program->mutex, KIN_NEVER) < 0)
        return;
    program->items++;
    program->made++;
    kin_cond_signal(&program->cond);
    kin_mutex_unlock(&program->mutex);
}

/* A signal is meant for whoever returns 0: it must not be lost on one that returns otherwise. Who
 * was woken and finds nothing was overtaken, which an item that is there all the same makes up. */
static void take_item(struct program *program, uint64_t *state)
{
    kin_time deadline = some_deadline(state);
    int rc = kin_mutex_lock(&program->mutex, KIN_NEVER);
    if (rc < 0)
        return;
    while (program->items == 0 && rc == 0)
        rc = kin_cond_wait(&program->cond, &program->mutex, deadline);
    EXPECT(rc == 0 || is_an_end(rc));
    EXPECT_EQ(program->inside++, 0); /* the mutex is held */
    if (program->items > 0) {
        program->items--;
        program->used++;
    }
    program->inside--;
    kin_mutex_unlock(&program->mutex);
}

/* Nobody may sleep while there are items: each item came with a signal. */
static void cond_round(struct program *program, uint64_t *state)
{
    if (draw(state) % 2) {
        make_item(program);
        some_yields(state);
    } else {
        take_item(program, state);
    }
}

/* Those who still wait for an item when the others are through get one each. */
static int feed(void *arg)
{
    struct program *program = arg;
    while (!program->is_over) {
        make_item(program);
        kin_ignore(kin_sleep(kin_after(KIN_US(200))));
    }
    return 0;
}

static int run_and_feed(void *arg)
{
    struct program *program = arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, feed, program), 0);
    EXPECT_EQ(run_program(program), 0);
    program->is_over = 1;
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(no_signal_is_lost_under_cancels_and_deadlines, "T081 T061 G082")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        static struct program program;
        program = (struct program){.name = "condition", .round = cond_round};
        printf("condition on %u workers, KIN_SEED=0x%llx\n", workers,
               (unsigned long long)kin_test_seed());
        EXPECT_EQ(run_reporting(workers, run_and_feed, &program, NULL), 0);
        EXPECT_EQ(program.made, program.used + program.items);
    }
}

/* ---- each signal reaches somebody who stays ---- */

enum { STAND = 30, LEAVE = 10 };

struct queue {
    struct kin_mutex mutex;
    struct kin_cond cond;
    int items; /* under the mutex */
    _Atomic int waiting, served, left;
};

static int stand(void *arg)
{
    struct queue *queue = arg;
    int rc = kin_mutex_lock(&queue->mutex, KIN_NEVER);
    EXPECT_EQ(rc, 0);
    queue->waiting++;
    while (queue->items == 0 && rc == 0)
        rc = kin_cond_wait(&queue->cond, &queue->mutex, KIN_NEVER);
    if (rc == 0)
        queue->items--;
    kin_mutex_unlock(&queue->mutex);
    EXPECT(rc == 0 || rc == KIN_CANCELLED);
    atomic_fetch_add(rc == 0 ? &queue->served : &queue->left, 1);
    return 0;
}

static void put_item(struct queue *queue)
{
    EXPECT_EQ(kin_mutex_lock(&queue->mutex, KIN_NEVER), 0);
    queue->items++;
    kin_cond_signal(&queue->cond);
    kin_mutex_unlock(&queue->mutex);
}

static int cancel_it(void *arg)
{
    struct kin_task_ref *ref = arg;
    kin_ignore(kin_task_cancel(*ref));
    return 0;
}

/* A signal that is lost on a leaver leaves an item behind and somebody asleep. */
static int signal_among_leavers(void *arg)
{
    uint64_t state = kin_test_seed();
    const int rounds = 150 / (int)kin_test_scale() + 1;
    (void)arg;
    for (int round = 0; round < rounds; round++) {
        struct queue queue;
        struct kin_task_ref refs[STAND];
        KIN_NURSERY(n);
        memset(&queue, 0, sizeof queue);
        for (int i = 0; i < STAND; i++)
            EXPECT_EQ(kin_spawn_with(&n, NULL, stand, &queue, 0, &refs[i]), 0);
        while (queue.waiting < STAND)
            kin_ignore(kin_yield());
        for (int i = 0; i < LEAVE; i++)
            EXPECT_EQ(kin_spawn(&n, cancel_it, &refs[draw(&state) % STAND]), 0);
        for (int i = 0; i < STAND - LEAVE; i++)
            put_item(&queue);
        while (queue.served < STAND - LEAVE) /* ends: every item is taken by somebody */
            kin_ignore(kin_yield());
        for (int i = 0; i < STAND && queue.served + queue.left < STAND; i++)
            put_item(&queue);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(queue.served + queue.left, STAND);
    }
    return 0;
}

KIN_TEST(each_signal_reaches_somebody_who_stays, "T081 T061")
{
    printf("KIN_SEED=0x%llx\n", (unsigned long long)kin_test_seed());
    run_on_few(signal_among_leavers, NULL);
}

/* The hard case for lost wake-ups: one item, two tasks that hand it to and fro, no timeouts. */
struct ball {
    struct kin_mutex mutex;
    struct kin_cond cond[2];
    int side; /* where the ball is */
    int hits;
};

struct side {
    struct ball *ball;
    int number;
};

static int hit(void *arg)
{
    struct side *side = arg;
    struct ball *ball = side->ball;
    const int hits = 15000 / (int)kin_test_scale();
    for (int i = 0; i < hits; i++) {
        EXPECT_EQ(kin_mutex_lock(&ball->mutex, KIN_NEVER), 0);
        while (ball->side != side->number)
            EXPECT_EQ(kin_cond_wait(&ball->cond[side->number], &ball->mutex, KIN_NEVER), 0);
        ball->side = !side->number;
        ball->hits++;
        if (i % 2)
            kin_cond_signal(&ball->cond[!side->number]);
        kin_mutex_unlock(&ball->mutex);
        if (i % 2 == 0)
            kin_cond_signal(&ball->cond[!side->number]); /* without the mutex */
    }
    return 0;
}

static int play_ball(void *arg)
{
    struct ball ball;
    struct side sides[2] = {{&ball, 0}, {&ball, 1}};
    KIN_NURSERY(n);
    (void)arg;
    memset(&ball, 0, sizeof ball);
    EXPECT_EQ(kin_spawn(&n, hit, &sides[0]), 0);
    EXPECT_EQ(kin_spawn(&n, hit, &sides[1]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* ends: no hit is missed */
    EXPECT_EQ(ball.hits, 2 * (15000 / (int)kin_test_scale()));
    return 0;
}

KIN_TEST(two_tasks_that_signal_each_other_never_miss, "G082")
{
    run_on_few(play_ball, NULL);
}

/* ---- semaphores: permits are conserved ---- */

enum { PERMITS = 7 };

static void sem_round(struct program *program, uint64_t *state)
{
    size_t n = draw(state) % PERMITS + 1;
    int rc = kin_sem_acquire(&program->sem, n, some_deadline(state));
    if (rc < 0) {
        count_end(program, rc);
        return;
    }
    EXPECT_LE(atomic_fetch_add(&program->inside, (long)n) + (long)n, PERMITS);
    some_yields(state);
    program->inside -= (long)n;
    kin_sem_release(&program->sem, n);
}

static int check_sem(void *arg)
{
    struct program *program = arg;
    EXPECT_EQ(kin_sem_acquire(&program->sem, PERMITS + 1, 0), KIN_TIMEOUT); /* none was made */
    EXPECT_EQ(kin_sem_acquire(&program->sem, PERMITS, 0), 0);               /* none was lost */
    return 0;
}

KIN_TEST(permits_are_conserved_under_cancels_and_deadlines, "T079 T061 F4")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        static struct program program;
        program = (struct program){.name = "semaphore", .round = sem_round};
        EXPECT_EQ(kin_sem_init(&program.sem, PERMITS), 0);
        stress(&program, workers);
        EXPECT_EQ(run_reporting(1, check_sem, &program, NULL), 0);
    }
}

/* ---- barriers: whoever passes, passes with all others ---- */

enum { PARTIES = 3 };

static void barrier_round(struct program *program, uint64_t *state)
{
    /* none without end: who is left over at the end of the program would wait for ever */
    int rc = kin_barrier_wait(&program->barrier, kin_after((int64_t)(draw(state) % 8000)));
    if (rc == 0)
        program->counted++;
    else
        count_end(program, rc);
    some_yields(state);
}

KIN_TEST(rounds_of_a_barrier_are_whole_under_cancels_and_deadlines, "T061 F4")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        static struct program program;
        program = (struct program){.name = "barrier", .round = barrier_round};
        EXPECT_EQ(kin_barrier_init(&program.barrier, PARTIES), 0);
        stress(&program, workers);
        EXPECT_EQ(program.counted % PARTIES, 0);
        EXPECT_GT(program.counted, 0);
    }
}
