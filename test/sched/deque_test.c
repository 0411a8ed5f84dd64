/* SPDX-License-Identifier: MIT */
/*
 * Goal: every entry of the deque is handed out exactly once, in the order its header promises.
 * Method: each operation alone, random operations against an array, then one owner and three
 * thieves on real threads with every entry marked when it comes out.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "sched/deque.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Entries are never looked into by the deque, so a number will do. */
static struct kin__task *entry(uintptr_t number)
{
    return (struct kin__task *)(number * 64); // NOLINT: a name, not an address
}

static uintptr_t number_of(const struct kin__task *task)
{
    return (uintptr_t)task / 64;
}

static void push_some(struct kin__deque *deque, uintptr_t from, uintptr_t to)
{
    for (uintptr_t i = from; i <= to; i++)
        EXPECT(kin__deque_push(deque, entry(i)));
}

static const uint32_t starts[] = {0, 1, UINT32_MAX - 3, UINT32_MAX - KIN__DEQUE_SIZE, UINT32_MAX};
enum { STARTS = sizeof starts / sizeof starts[0] };

KIN_TEST(the_owner_gets_its_newest_entry_first, "SCHED:7.1.1 C9")
{
    for (int s = 0; s < STARTS; s++) {
        struct kin__deque deque;
        kin__deque_init(&deque, starts[s]);
        EXPECT_PTR(kin__deque_pop(&deque), NULL);
        EXPECT_PTR(kin__deque_peek(&deque), NULL);
        push_some(&deque, 1, 10);
        EXPECT_EQ(kin__deque_len(&deque), 10);
        EXPECT_EQ(kin__deque_public(&deque), 0);
        for (uintptr_t i = 10; i >= 1; i--) {
            EXPECT_PTR(kin__deque_peek(&deque), entry(i));
            EXPECT_PTR(kin__deque_pop(&deque), entry(i));
        }
        EXPECT_PTR(kin__deque_pop(&deque), NULL);
        EXPECT_EQ(kin__deque_len(&deque), 0);
    }
}

KIN_TEST(what_is_private_cannot_be_stolen, "SCHED:7.1.1")
{
    struct kin__deque deque;
    struct kin__task *out[KIN__STEAL_MAX];
    bool contended = true;
    kin__deque_init(&deque, 0);
    push_some(&deque, 1, 5);
    EXPECT_EQ(kin__deque_steal(&deque, out, KIN__STEAL_MAX, &contended), 0);
    EXPECT(!contended);
    EXPECT_EQ(kin__deque_len(&deque), 5);
}

KIN_TEST(a_thief_gets_the_oldest_half_of_what_is_public, "SCHED:7.1.1 SCHED:7.2.1 G072")
{
    for (int s = 0; s < STARTS; s++) {
        struct kin__deque deque;
        struct kin__task *out[KIN__DEQUE_SIZE];
        bool contended;
        uint32_t published = 0;
        kin__deque_init(&deque, starts[s]);
        push_some(&deque, 1, 11);
        EXPECT_EQ(kin__deque_publish(&deque), 6); /* the older half, rounded up */
        EXPECT_EQ(kin__deque_public(&deque), 6);
        EXPECT_EQ(kin__deque_steal(&deque, out, KIN__DEQUE_SIZE, &contended), 3);
        for (uintptr_t i = 0; i < 3; i++)
            EXPECT_PTR(out[i], entry(i + 1));
        EXPECT_EQ(kin__deque_steal(&deque, out, 1, &contended), 1); /* no more than asked for */
        EXPECT_PTR(out[0], entry(4));
        EXPECT_EQ(kin__deque_steal(&deque, out, KIN__DEQUE_SIZE, &contended), 1);
        EXPECT_EQ(kin__deque_steal(&deque, out, KIN__DEQUE_SIZE, &contended), 1);
        EXPECT_PTR(out[0], entry(6));
        EXPECT_EQ(kin__deque_steal(&deque, out, KIN__DEQUE_SIZE, &contended), 0);
        EXPECT_EQ(kin__deque_len(&deque), 5);
        EXPECT_PTR(kin__deque_pop(&deque), entry(11));
        for (uint32_t n; (n = kin__deque_publish(&deque)) != 0; published += n)
            continue;
        EXPECT_EQ(published, 4); /* all of it, by halves */
        EXPECT_PTR(kin__deque_pop(&deque), NULL);
        EXPECT_EQ(kin__deque_publish(&deque), 0);
    }
}

KIN_TEST(the_owner_gets_published_entries_back, "SCHED:7.1.1")
{
    for (int s = 0; s < STARTS; s++) {
        struct kin__deque deque;
        kin__deque_init(&deque, starts[s]);
        EXPECT_EQ(kin__deque_reclaim(&deque), 0);
        push_some(&deque, 1, KIN__DEQUE_SIZE); /* reclaiming works in a full ring, too */
        while (kin__deque_publish(&deque)) /* ends: halves what is private */
            continue;
        EXPECT_EQ(kin__deque_public(&deque), KIN__DEQUE_SIZE);
        EXPECT_EQ(kin__deque_reclaim(&deque), KIN__RECLAIM_MAX);
        EXPECT_EQ(kin__deque_len(&deque), KIN__DEQUE_SIZE);
        for (uintptr_t i = KIN__RECLAIM_MAX; i >= 1; i--)
            EXPECT_PTR(kin__deque_pop(&deque), entry(i));
        EXPECT_PTR(kin__deque_pop(&deque), NULL);
        EXPECT_EQ(kin__deque_public(&deque), KIN__DEQUE_SIZE - KIN__RECLAIM_MAX);
    }
}

KIN_TEST(a_full_ring_refuses_and_loses_nothing, "SCHED:7.1.1 C9")
{
    for (int s = 0; s < STARTS; s++) {
        struct kin__deque deque;
        struct kin__task *out[KIN__DEQUE_SIZE];
        bool contended;
        kin__deque_init(&deque, starts[s]);
        push_some(&deque, 1, KIN__DEQUE_SIZE);
        EXPECT(!kin__deque_push(&deque, entry(999)));
        EXPECT_EQ(kin__deque_len(&deque), KIN__DEQUE_SIZE);
        EXPECT_EQ(kin__deque_take_oldest(&deque, out, 2), 2);
        EXPECT_PTR(out[0], entry(1));
        EXPECT_PTR(out[1], entry(2));
        EXPECT(kin__deque_push(&deque, entry(KIN__DEQUE_SIZE + 1)));
        EXPECT(kin__deque_push(&deque, entry(KIN__DEQUE_SIZE + 2)));
        EXPECT(!kin__deque_push(&deque, entry(999)));
        EXPECT_EQ(kin__deque_publish(&deque), KIN__DEQUE_SIZE / 2);
        EXPECT(!kin__deque_push(&deque, entry(999))); /* publishing makes no room */
        EXPECT_EQ(kin__deque_steal(&deque, out, 1, &contended), 1);
        EXPECT_PTR(out[0], entry(3));
        EXPECT(kin__deque_push(&deque, entry(KIN__DEQUE_SIZE + 3))); /* a steal does */
        for (uintptr_t i = 4; i <= KIN__DEQUE_SIZE + 3; i++) {
            EXPECT_EQ(kin__deque_take_oldest(&deque, out, 1), 1);
            EXPECT_PTR(out[0], entry(i));
        }
        EXPECT_EQ(kin__deque_take_oldest(&deque, out, 1), 0);
    }
}

KIN_TEST(the_oldest_are_taken_across_the_split, "SCHED:7.1.1")
{
    for (uint32_t take = 1; take <= 12; take++) {
        struct kin__deque deque;
        struct kin__task *out[16];
        kin__deque_init(&deque, UINT32_MAX - 4);
        push_some(&deque, 1, 10);
        EXPECT_EQ(kin__deque_publish(&deque), 5);
        uint32_t taken = take < 10 ? take : 10;
        EXPECT_EQ(kin__deque_take_oldest(&deque, out, take), taken);
        for (uintptr_t i = 0; i < taken; i++)
            EXPECT_PTR(out[i], entry(i + 1));
        EXPECT_EQ(kin__deque_len(&deque), 10 - taken);
        EXPECT_EQ(kin__deque_public(&deque), taken < 5 ? 5 - taken : 0);
        for (uintptr_t i = 10; i > (taken > 5 ? taken : 5); i--)
            EXPECT_PTR(kin__deque_pop(&deque), entry(i));
        EXPECT_PTR(kin__deque_pop(&deque), NULL);
    }
}

/* ---- random operations against an array ---- */

struct model {
    uintptr_t all[KIN__DEQUE_SIZE]; /* oldest first */
    uint32_t count, hidden;         /* the newest hidden of them are private */
};

static void model_drop_front(struct model *model, uint32_t count)
{
    memmove(model->all, model->all + count, (model->count - count) * sizeof model->all[0]);
    model->count -= count;
    if (model->hidden > model->count)
        model->hidden = model->count;
}

static void expect_front(const struct model *model, struct kin__task *const *out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        EXPECT_EQ(number_of(out[i]), model->all[i]);
}

static void step_owner(struct kin__deque *deque, struct model *model, uintptr_t *next,
                       struct kin__rng *rng)
{
    struct kin__task *out[KIN__DEQUE_SIZE];
    uint32_t count;
    switch (kin__rng_below(rng, 8)) {
    default:
        EXPECT_EQ(kin__deque_push(deque, entry(*next)), model->count < KIN__DEQUE_SIZE);
        if (model->count < KIN__DEQUE_SIZE) {
            model->all[model->count++] = (*next)++;
            model->hidden++;
        }
        break;
    case 0:
    case 1: {
        struct kin__task *seen = kin__deque_peek(deque);
        struct kin__task *task = kin__deque_pop(deque);
        EXPECT_PTR(task, seen);
        EXPECT_EQ(number_of(task), model->hidden ? model->all[model->count - 1] : 0);
        if (model->hidden) {
            model->hidden--;
            model->count--;
        }
        break;
    }
    case 2:
        count = (model->hidden + 1) / 2;
        EXPECT_EQ(kin__deque_publish(deque), count);
        model->hidden -= count;
        break;
    case 3:
        count = (uint32_t)kin__rng_below(rng, KIN__DEQUE_SIZE / 4);
        count = kin__deque_take_oldest(deque, out, count);
        EXPECT_LE(count, model->count);
        expect_front(model, out, count);
        model_drop_front(model, count);
        break;
    case 4: {
        uintptr_t back[KIN__RECLAIM_MAX];
        if (model->hidden)
            break;
        count = model->count < KIN__RECLAIM_MAX ? model->count : KIN__RECLAIM_MAX;
        memcpy(back, model->all, count * sizeof back[0]);
        EXPECT_EQ(kin__deque_reclaim(deque), count);
        model_drop_front(model, count);
        memcpy(model->all + model->count, back, count * sizeof back[0]);
        model->count += count;
        model->hidden = count;
    }
    }
}

static void step_thief(struct kin__deque *deque, struct model *model, struct kin__rng *rng)
{
    struct kin__task *out[KIN__STEAL_MAX];
    bool contended = true;
    uint32_t max = 1 + (uint32_t)kin__rng_below(rng, KIN__STEAL_MAX);
    uint32_t half = (model->count - model->hidden + 1) / 2;
    uint32_t count = kin__deque_steal(deque, out, max, &contended);
    EXPECT_EQ(count, half < max ? half : max); /* a public entry is never overlooked */
    EXPECT(!contended);
    expect_front(model, out, count);
    model_drop_front(model, count);
}

KIN_TEST(random_operations_agree_with_an_array, "SCHED:7.1.1 G072 G074")
{
    const unsigned steps = 400000 / kin_test_scale();
    struct kin__deque deque;
    struct model model = {{0}, 0, 0};
    struct kin__rng rng;
    uintptr_t next = 1;
    kin__rng_init(&rng, kin_test_seed(), 0);
    kin__deque_init(&deque, UINT32_MAX - (uint32_t)kin__rng_below(&rng, steps / 4));
    for (unsigned i = 0; i < steps; i++) {
        if (kin__rng_below(&rng, 8) == 0)
            step_thief(&deque, &model, &rng);
        else
            step_owner(&deque, &model, &next, &rng);
        EXPECT_EQ(kin__deque_len(&deque), model.count);
        EXPECT_EQ(kin__deque_public(&deque), model.count - model.hidden);
    }
}

/* ---- real threads ---- */

enum { ITEMS = 2000000, THIEVES = 3 };

struct item {
    uint32_t payload; /* plain: written before the push, read after it came out */
    kin__a32 seen;
};

static struct {
    struct kin__deque deque;
    struct item *items;
    kin__a32 count;  /* by the owner, who may find that so many take too long */
    kin__a32 out;    /* how many came out */
    kin__a32 hungry; /* somebody found nothing public */
    kin__a32 stolen; /* how many of them thieves got */
} race;

static void consume(struct kin__task *task)
{
    struct item *item = (struct item *)(void *)task;
    EXPECT_EQ(item->payload, (uint32_t)(item - race.items) * 2654435761u);
    EXPECT_EQ(kin__add_relaxed(&item->seen, 1u), 0); /* alone: exactly once */
    (void)kin__add_relaxed(&race.out, 1u);           /* alone: a counter */
}

static void *thief(void *arg)
{
    struct kin__task *out[KIN__STEAL_MAX];
    (void)arg;
    /* relaxed: counters */
    while (kin__load_relaxed(&race.out) < kin__load_relaxed(&race.count)) {
        bool contended;
        uint32_t count = kin__deque_steal(&race.deque, out, KIN__STEAL_MAX, &contended);
        for (uint32_t i = 0; i < count; i++)
            consume(out[i]);
        (void)kin__add_relaxed(&race.stolen, count); /* alone: a counter */
        if (count == 0 && !contended) {
            kin__store_relaxed(&race.hungry, 1u); /* relaxed: a hint */
            sched_yield();
        }
    }
    return NULL;
}

/* The owner takes one, whichever way is left. */
static struct kin__task *take_one(struct kin__rng *rng)
{
    struct kin__task *task = NULL;
    if (kin__rng_below(rng, 16) == 0 && kin__deque_take_oldest(&race.deque, &task, 1))
        return task;
    task = kin__deque_pop(&race.deque);
    if (!task && kin__deque_reclaim(&race.deque))
        task = kin__deque_pop(&race.deque);
    return task;
}

static void own(struct kin__rng *rng)
{
    uint32_t next = 0, count = kin__load_relaxed(&race.count); /* alone: its own */
    /* ends: each round pushes or takes at least one of finitely many, or there is none left */
    while (kin__load_relaxed(&race.out) < count) { /* relaxed: a counter */
        if (next < count && !kin_test_goes_on(next, count)) {
            count = next;
            kin__store_relaxed(&race.count, count); /* relaxed: as above */
        }
        uint64_t burst = kin__rng_below(rng, 64);
        for (uint64_t i = 0; i < burst && next < count; i++) {
            race.items[next].payload = next * 2654435761u;
            if (!kin__deque_push(&race.deque, (struct kin__task *)(void *)&race.items[next]))
                break;
            next++;
        }
        if (kin__load_relaxed(&race.hungry) || kin__rng_below(rng, 4) == 0) { /* relaxed: a hint */
            kin__store_relaxed(&race.hungry, 0u);                             /* relaxed: a hint */
            (void)kin__deque_publish(&race.deque);
        }
        if (kin__load_relaxed(&race.stolen) < next / 8) { /* relaxed: a hint */
            (void)kin__deque_publish(&race.deque); /* the thieves fell behind: leave it to them */
            sched_yield();
            continue;
        }
        burst = kin__rng_below(rng, 64);
        struct kin__task *task;
        for (uint64_t i = 0; i < burst && (task = take_one(rng)); i++)
            consume(task);
        if (next == count && kin__deque_len(&race.deque) == 0)
            sched_yield();
    }
}

KIN_TEST(each_entry_comes_out_once_with_three_thieves, "SCHED:7.1.1 SCHED:7.1.2 G073 D-9")
{
    pthread_t threads[THIEVES];
    struct kin__rng rng;
    uint32_t count = ITEMS / kin_test_scale();
    kin__store_relaxed(&race.count, count); /* alone: nobody runs yet */
    race.items = calloc(count, sizeof race.items[0]);
    EXPECT(race.items != NULL);
    kin__rng_init(&rng, kin_test_seed(), 0);
    kin__deque_init(&race.deque, UINT32_MAX - count / 2);
    for (int i = 0; i < THIEVES; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, thief, NULL), 0);
    own(&rng);
    for (int i = 0; i < THIEVES; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    count = kin__load_relaxed(&race.count); /* alone: joined */
    EXPECT_EQ(kin__load_relaxed(&race.out), count); /* alone: joined */
    EXPECT_EQ(kin__deque_len(&race.deque), 0);
    for (uint32_t i = 0; i < count; i++)
        EXPECT_EQ(kin__load_relaxed(&race.items[i].seen), 1); /* alone: joined */
    printf("%u stolen\n", kin__load_relaxed(&race.stolen)); /* alone: joined */
    EXPECT_GE(kin__load_relaxed(&race.stolen), count / 16); /* alone: joined */
    free(race.items);
}
