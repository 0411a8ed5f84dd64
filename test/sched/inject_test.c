/* SPDX-License-Identifier: MIT */
/*
 * Goal: the global queue is a FIFO of chains that loses and repeats nothing.
 * Method: chains in and out on one thread against what went in; then several threads on both ends,
 * every task marked when it comes out and the order of each producer kept.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "sched/inject.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { TASKS = 64, PRODUCERS = 2, CONSUMERS = 2, EACH = 100000 };

static struct kin__task tasks[TASKS];

static void push_chain(struct kin__inject *queue, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        tasks[i].next = &tasks[i + 1];
    kin__inject_push(queue, &tasks[from], &tasks[to], to - from + 1);
}

KIN_TEST(an_empty_queue_gives_nothing, "SCHED:7.1.1")
{
    struct kin__inject queue = {0};
    EXPECT_EQ(kin__inject_len(&queue), 0);
    EXPECT_PTR(kin__inject_take(&queue, 5), NULL);
}

/* Takes a batch and checks that it is tasks from on, at most max and no further than end. */
static unsigned take_from(struct kin__inject *queue, uint32_t max, unsigned from)
{
    struct kin__task *first = kin__inject_take(queue, max);
    EXPECT_PTR(first, &tasks[from]);
    uint32_t count = first->batch_count;
    EXPECT_GE(count, 1);
    EXPECT_LE(count, max);
    EXPECT_PTR(first->batch_last, &tasks[from + count - 1]);
    for (struct kin__task *task = first; task; task = task->next)
        EXPECT_PTR(task, &tasks[from++]);
    EXPECT_PTR(&tasks[from - 1], first->batch_last);
    return count;
}

KIN_TEST(chains_come_out_in_the_order_they_went_in, "SCHED:7.1.1 G072")
{
    for (uint32_t max = 1; max < 20; max++) {
        struct kin__inject queue = {0};
        unsigned next = 0;
        tasks[4].next = &tasks[63]; /* the last one's link is the queue's to end */
        push_chain(&queue, 0, 4);
        push_chain(&queue, 5, 5);
        push_chain(&queue, 6, 20);
        EXPECT_EQ(kin__inject_len(&queue), 21);
        while (next < 21) { /* ends: at least one each time */
            next += take_from(&queue, max, next);
            EXPECT_EQ(kin__inject_len(&queue), 21 - next);
        }
        EXPECT_PTR(kin__inject_take(&queue, max), NULL);
        push_chain(&queue, 30, 31); /* and it works again after it was empty */
        push_chain(&queue, 32, 32);
        EXPECT_EQ(take_from(&queue, 1, 30), 1);
        EXPECT_EQ(take_from(&queue, 9, 31), 1);
        push_chain(&queue, 33, 34); /* and while a part of it is out */
        EXPECT_EQ(take_from(&queue, 9, 32), 1);
        EXPECT_EQ(take_from(&queue, 9, 33), 2);
        EXPECT_PTR(kin__inject_take(&queue, 9), NULL);
        push_chain(&queue, 40, 42); /* and behind what is left of the only chain */
        EXPECT_EQ(take_from(&queue, 1, 40), 1);
        push_chain(&queue, 43, 44);
        EXPECT_EQ(take_from(&queue, 9, 41), 2);
        EXPECT_EQ(take_from(&queue, 9, 43), 2);
        EXPECT_PTR(kin__inject_take(&queue, 9), NULL);
        EXPECT_EQ(kin__inject_len(&queue), 0);
    }
}

/* ---- real threads ---- */

static struct {
    struct kin__inject queue;
    struct kin__task *tasks; /* PRODUCERS * each; wait_case is the number, plain */
    kin__a32 *seen;
    uint32_t each;
    kin__a32 out;
} race;

static void *producer(void *arg)
{
    uint32_t base = (uint32_t)(uintptr_t)arg * race.each;
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), base);
    for (uint32_t i = 0; i < race.each;) {
        uint32_t count = 1 + (uint32_t)kin__rng_below(&rng, 8);
        if (count > race.each - i)
            count = race.each - i;
        struct kin__task *chain = &race.tasks[base + i];
        for (uint32_t k = 0; k < count; k++) {
            chain[k].wait_case = base + i + k;
            chain[k].next = k + 1 < count ? &chain[k + 1] : &chain[0]; /* the queue ends it */
        }
        kin__inject_push(&race.queue, chain, &chain[count - 1], count);
        i += count;
    }
    return NULL;
}

static void *consumer(void *arg)
{
    uint32_t last[PRODUCERS] = {0};
    bool has_last[PRODUCERS] = {false};
    (void)arg;
    while (kin__load_relaxed(&race.out) < PRODUCERS * race.each) { /* relaxed: a counter */
        struct kin__task *task = kin__inject_take(&race.queue, 5);
        uint32_t count = task ? task->batch_count : 0;
        for (uint32_t i = 0; i < count; i++, task = task->next) {
            uint32_t number = task->wait_case;
            uint32_t who = number / race.each;
            EXPECT(!has_last[who] || number > last[who]); /* each producer's order is kept */
            has_last[who] = true;
            last[who] = number;
            EXPECT_EQ(kin__add_relaxed(&race.seen[number], 1u), 0); /* alone: exactly once */
        }
        EXPECT_PTR(task, NULL);
        (void)kin__add_relaxed(&race.out, count); /* alone: a counter */
        if (!count)
            sched_yield();
    }
    return NULL;
}

KIN_TEST(producers_and_consumers_lose_nothing, "SCHED:7.1.1 F4 G073")
{
    pthread_t threads[PRODUCERS + CONSUMERS];
    race.each = EACH / kin_test_scale();
    race.tasks = calloc(PRODUCERS * race.each, sizeof race.tasks[0]);
    race.seen = calloc(PRODUCERS * race.each, sizeof race.seen[0]);
    EXPECT(race.tasks && race.seen);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, producer, (void *)i), 0);
    for (int i = PRODUCERS; i < PRODUCERS + CONSUMERS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, consumer, NULL), 0);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    for (uint32_t i = 0; i < PRODUCERS * race.each; i++)
        EXPECT_EQ(kin__load_relaxed(&race.seen[i]), 1); /* alone: joined */
    EXPECT_EQ(kin__inject_len(&race.queue), 0);
    free(race.tasks);
    free(race.seen);
}
