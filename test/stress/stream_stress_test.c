/* SPDX-License-Identifier: MIT */
/*
 * Goal: streams and queues lose nothing, double nothing and keep their order, whoever is cancelled,
 *       late or closed out meanwhile.
 * Method: actors send and receive numbered items with random deadlines. Each actor lives many
 *         times: a keeper starts it, cancels it at a random moment and starts it again, where it
 *         goes on. A call that did not succeed is made again with the same item, so each sender's
 *         items must arrive as 0, 1, 2, ... . Rounds are bounded; the seed is printed.
 */
#include "wait/queue_calls.h"

#include "base/rng.h"

#include <kin/stream.h>

enum { SENDERS = 4, READERS = 4, EACH = 3000 };

struct letter {
    uint32_t sender, number;
};

/* One end of something, in one life after the other. */
struct actor {
    struct trial *trial;
    uint32_t index;
    uint32_t next[SENDERS]; /* of each sender: the number that must come; of itself as a sender */
    uint64_t version, lost;
    struct kin_subscriber *s;
    struct kin__rng rng;
    kin_task_fn *life;
    bool is_over;
    unsigned lives;
};

struct trial {
    const struct kind *kind; /* of the queue, if it is one */
    void *q;
    struct kin_broadcast *b;
    struct kin_watch *watch;
    uint32_t senders, readers;
    bool closes_early;
    _Atomic uint32_t sending; /* senders that are not over */
    struct actor send[SENDERS], read[READERS];
};

/* None, soon, never. */
static kin_time random_deadline(struct actor *actor)
{
    switch (kin__rng_below(&actor->rng, 4)) {
    case 0:
        return 0;
    case 1:
        return kin_after((int64_t)kin__rng_below(&actor->rng, 20000));
    default:
        return KIN_NEVER;
    }
}

static bool is_retry(int rc)
{
    return rc == KIN_TIMEOUT || rc == KIN_FULL || rc == KIN_EMPTY;
}

static void relax(struct actor *actor)
{
    if (kin__rng_chance(&actor->rng, 1, 8))
        kin_ignore(kin_yield());
}

/* ---- lives ---- */

static void end_sender(struct actor *actor)
{
    struct trial *trial = actor->trial;
    actor->is_over = true;
    if (atomic_fetch_sub(&trial->sending, 1) != 1)
        return;
    if (trial->q)
        trial->kind->close(trial->q);
    kin_broadcast_close(trial->b);
    kin_watch_close(trial->watch);
}

static int send_letter(struct actor *actor)
{
    struct trial *trial = actor->trial;
    struct letter letter = {actor->index, actor->next[actor->index]};
    if (trial->watch)
        return kin_watch_set(trial->watch, &letter);
    return trial->q ? trial->kind->send(trial->q, &letter, random_deadline(actor))
                    : kin_broadcast_send(trial->b, &letter, random_deadline(actor));
}

static int live_as_sender(void *arg)
{
    struct actor *actor = arg;
    while (!actor->is_over) {
        int rc = send_letter(actor);
        if (rc == KIN_CANCELLED)
            return rc;
        EXPECT(rc == 0 || is_retry(rc) || (rc == KIN_CLOSED && actor->trial->closes_early));
        actor->next[actor->index] += rc == 0;
        if (rc == KIN_CLOSED || actor->next[actor->index] == EACH)
            end_sender(actor);
        relax(actor);
    }
    return 0;
}

static void take_letter(struct actor *actor, struct letter letter)
{
    EXPECT_LT(letter.sender, actor->trial->senders);
    EXPECT_EQ(letter.number, actor->next[letter.sender]);
    actor->next[letter.sender]++;
}

static int live_as_reader(void *arg)
{
    struct actor *actor = arg;
    struct trial *trial = actor->trial;
    while (!actor->is_over) {
        struct letter letter = {99, 99};
        uint64_t lost = 0;
        int rc = trial->q ? trial->kind->recv(trial->q, &letter, random_deadline(actor))
                          : kin_broadcast_recv(actor->s, &letter, &lost, random_deadline(actor));
        if (rc == KIN_CANCELLED)
            return rc;
        EXPECT(rc == 0 || is_retry(rc) || rc == KIN_CLOSED);
        if (rc == 0 && trial->senders == 1)
            actor->next[0] += (uint32_t)lost; /* mode LAG: one sender, whose items are counted */
        actor->lost += lost;
        if (rc == 0)
            take_letter(actor, letter);
        actor->is_over = rc == KIN_CLOSED;
        relax(actor);
    }
    return 0;
}

static int live_as_watcher(void *arg)
{
    struct actor *actor = arg;
    while (!actor->is_over) {
        struct letter letter = {99, 99};
        uint64_t before = actor->version;
        int rc = kin_watch_wait(actor->trial->watch, &letter, &actor->version,
                                random_deadline(actor));
        if (rc == KIN_CANCELLED)
            return rc;
        if (rc == 0) { /* one sender: version 1 is the first value, 2 its number 0 */
            EXPECT_GT(actor->version, before);
            EXPECT_EQ(letter.number, (uint32_t)(actor->version - 2));
            actor->next[0] = letter.number + 1;
        } else {
            EXPECT_EQ(actor->version, before);
        }
        EXPECT(rc == 0 || is_retry(rc) || rc == KIN_CLOSED);
        actor->is_over = rc == KIN_CLOSED;
        relax(actor);
    }
    return 0;
}

/* ---- trials ---- */

static int keep(void *arg)
{
    struct actor *actor = arg;
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), actor->index + 100);
    while (!actor->is_over) { /* ends: the last life is not cut short */
        struct kin_task_ref ref;
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn_with(&n, NULL, actor->life, actor, 0, &ref), 0);
        if (++actor->lives < 500) {
            for (uint64_t i = kin__rng_below(&rng, 30); i > 0; i--)
                EXPECT_EQ(kin_yield(), 0);
            kin_ignore(kin_task_cancel(ref));
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

static void start(struct kin_nursery *n, struct trial *trial, struct actor *actor, uint32_t index,
                  kin_task_fn *life)
{
    actor->trial = trial;
    actor->index = index;
    actor->life = life;
    kin__rng_init(&actor->rng, kin_test_seed(), index + (life == live_as_sender ? 10 : 20));
    if (trial->b && life == live_as_reader)
        EXPECT_EQ(kin_broadcast_subscribe(trial->b, &actor->s), 0);
    EXPECT_EQ(kin_spawn(n, keep, actor), 0);
}

/* Runs a trial whose things are made; every reader must have got what was accepted. */
static void run_trial(struct trial *trial)
{
    struct kin__rng rng;
    KIN_NURSERY(n);
    kin__rng_init(&rng, kin_test_seed(), 1);
    atomic_store(&trial->sending, trial->senders);
    for (uint32_t i = 0; i < trial->readers; i++)
        start(&n, trial, &trial->read[i], i, trial->watch ? live_as_watcher : live_as_reader);
    for (uint32_t i = 0; i < trial->senders; i++)
        start(&n, trial, &trial->send[i], i, live_as_sender);
    if (trial->closes_early) {
        for (uint64_t i = kin__rng_below(&rng, 2000); i > 0; i--)
            EXPECT_EQ(kin_yield(), 0);
        if (trial->q)
            trial->kind->close(trial->q);
        kin_broadcast_close(trial->b);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (uint32_t i = 0; i < trial->readers; i++) {
        for (uint32_t j = 0; j < trial->senders; j++)
            EXPECT_EQ(trial->read[i].next[j], trial->send[j].next[j]);
        kin_subscriber_unref(trial->read[i].s);
    }
}

static int try_queue(void *arg)
{
    const struct kind *kind = arg;
    static const size_t capacities[] = {1, 2, 7, 64};
    for (int round = 0; round < 8; round++) {
        static struct trial trial;
        memset(&trial, 0, sizeof trial);
        trial.kind = kind;
        trial.senders = kind == &spsc_kind ? 1 : SENDERS;
        trial.readers = 1;
        trial.closes_early = round >= 4;
        EXPECT_EQ(kind->create(&trial.q, sizeof(struct letter), capacities[round % 4]), 0);
        run_trial(&trial);
        kind->unref(trial.q);
    }
    return 0;
}

static int try_broadcast(void *arg)
{
    enum kin_broadcast_mode mode = *(enum kin_broadcast_mode *)arg;
    static const size_t capacities[] = {1, 2, 7, 64};
    for (int round = 0; round < 8; round++) {
        static struct trial trial;
        memset(&trial, 0, sizeof trial);
        trial.senders = mode == KIN_BROADCAST_LAG ? 1 : SENDERS;
        trial.readers = READERS;
        trial.closes_early = round >= 4;
        EXPECT_EQ(kin_broadcast_create(&trial.b, sizeof(struct letter), capacities[round % 4],
                                       mode),
                  0);
        run_trial(&trial);
        for (uint32_t i = 0; i < READERS && mode == KIN_BROADCAST_WAIT; i++)
            EXPECT_EQ(trial.read[i].lost, 0);
        kin_broadcast_unref(trial.b);
    }
    return 0;
}

static int try_watch(void *arg)
{
    struct letter first = {0, UINT32_MAX};
    (void)arg;
    for (int round = 0; round < 4; round++) {
        static struct trial trial;
        memset(&trial, 0, sizeof trial);
        trial.senders = 1;
        trial.readers = READERS;
        EXPECT_EQ(kin_watch_create(&trial.watch, sizeof first, &first), 0);
        run_trial(&trial);
        kin_watch_unref(trial.watch);
    }
    return 0;
}

static void run_it(kin_task_fn *fn, const void *arg)
{
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    run_on_few(fn, (void *)(uintptr_t)arg);
}

KIN_TEST_LIMIT(spsc_queues_lose_and_double_nothing, "", 120)
{
    run_it(try_queue, &spsc_kind);
}

KIN_TEST_LIMIT(mpsc_queues_lose_and_double_nothing, "", 120)
{
    run_it(try_queue, &mpsc_kind);
}

KIN_TEST_LIMIT(broadcasts_that_wait_lose_and_double_nothing, "", 120)
{
    enum kin_broadcast_mode mode = KIN_BROADCAST_WAIT;
    run_it(try_broadcast, &mode);
}

KIN_TEST_LIMIT(broadcasts_that_lag_count_what_they_lose, "", 120)
{
    enum kin_broadcast_mode mode = KIN_BROADCAST_LAG;
    run_it(try_broadcast, &mode);
}

KIN_TEST_LIMIT(watches_show_versions_in_order_and_the_last_value, "", 120)
{
    run_it(try_watch, NULL);
}
