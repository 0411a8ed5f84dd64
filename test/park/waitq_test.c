/* SPDX-License-Identifier: MIT */
/*
 * Goal: a queue of waiters gives them up in order of arrival, passes over those that somebody else
 *       has claimed, and delivers to each once.
 * Method: white box, with frames that stand for tasks and never run: their words say what happened.
 */
#include "kin_test.h"

#include "park/waitq.h"

#include <string.h>

enum { DOLLS = 8 };

/* A task that has begun to park. */
struct doll {
    struct kin__task task;
    struct kin__waiter waiter;
    int slot; /* what io points at */
};

static struct doll dolls[DOLLS];

static void park(struct doll *doll, uint32_t case_)
{
    uint64_t ticket;
    memset(doll, 0, sizeof *doll);
    /* alone: one thread */
    kin__store_relaxed(&doll->task.ctl, 5 * KIN__TICKET_ONE | KIN__CLAIMED | KIN__READY);
    kin__store_relaxed(&doll->task.shadow, KIN__RUNNING); /* alone: one thread */
    EXPECT_EQ(kin__word_begin(&doll->task, 0, KIN__REQUESTS, &ticket), KIN__BEGUN_OPEN);
    doll->waiter = (struct kin__waiter){
        .task = &doll->task, .ticket = ticket, .case_ = case_, .io = &doll->slot};
}

static uint64_t word_of(const struct doll *doll)
{
    return kin__load_relaxed(&doll->task.ctl); /* alone: one thread */
}

KIN_TEST(all_zero_is_an_empty_queue, "A8")
{
    struct kin__waitq queue;
    struct kin__claimed claimed;
    memset(&queue, 0, sizeof queue);
    EXPECT(kin__waitq_is_empty(&queue));
    EXPECT_PTR(kin__waitq_first(&queue), NULL);
    EXPECT(!kin__waitq_claim(&queue, &claimed));
    park(&dolls[0], 0);
    kin__waitq_push(&queue, &dolls[0].waiter);
    EXPECT(!kin__waitq_is_empty(&queue));
    EXPECT_PTR(kin__waitq_first(&queue), &dolls[0].waiter);
    kin__waitq_remove(&dolls[0].waiter);
    EXPECT(kin__waitq_is_empty(&queue)); /* as good as new */
    EXPECT_PTR(kin__waitq_first(&queue), NULL);
    kin__waitq_remove(&dolls[0].waiter); /* twice does no harm */
    kin__waitq_push(&queue, &dolls[0].waiter);
    EXPECT(kin__waitq_claim(&queue, &claimed));
}

KIN_TEST(waiters_are_claimed_in_order_of_arrival, "A8 F3")
{
    struct kin__waitq queue = {0};
    struct kin__claimed claimed;
    for (uint32_t i = 0; i < DOLLS; i++) {
        park(&dolls[i], 100 + i);
        kin__waitq_push(&queue, &dolls[i].waiter);
    }
    kin__waitq_remove(&dolls[3].waiter); /* leaves early */
    for (uint32_t i = 0; i < DOLLS; i++) {
        if (i == 3)
            continue;
        EXPECT(kin__waitq_claim(&queue, &claimed));
        EXPECT_PTR(claimed.task, &dolls[i].task);
        EXPECT_PTR(claimed.io, &dolls[i].slot);
        EXPECT_EQ(claimed.case_, 100 + i);
        EXPECT_EQ(claimed.claim, KIN__WON_PARKING); /* it has not left its stack */
        EXPECT(word_of(&dolls[i]) & KIN__CLAIMED);
        EXPECT(!(word_of(&dolls[i]) & KIN__READY)); /* nor is it told anything yet */
    }
    EXPECT(!kin__waitq_claim(&queue, &claimed));
    EXPECT(!(word_of(&dolls[3]) & KIN__CLAIMED));
}

KIN_TEST(those_that_somebody_else_claimed_drop_out, "A8 F4")
{
    struct kin__waitq queue = {0};
    struct kin__claimed claimed;
    for (uint32_t i = 0; i < 4; i++) {
        park(&dolls[i], i);
        kin__waitq_push(&queue, &dolls[i].waiter);
    }
    EXPECT_EQ(kin__word_claim(&dolls[0].task, dolls[0].waiter.ticket), KIN__WON_PARKING);
    dolls[1].waiter.ticket--; /* a park of long ago */
    EXPECT(kin__waitq_claim(&queue, &claimed));
    EXPECT_PTR(claimed.task, &dolls[2].task);
    EXPECT_PTR(kin__waitq_first(&queue), &dolls[3].waiter);
    EXPECT(!kin__list_is_linked(&dolls[0].waiter.link)); /* their unpublish finds them out */
    EXPECT(!kin__list_is_linked(&dolls[1].waiter.link));
    EXPECT_EQ(kin__word_claim(&dolls[3].task, dolls[3].waiter.ticket), KIN__WON_PARKING);
    EXPECT(!kin__waitq_claim(&queue, &claimed)); /* nobody is left */
    EXPECT(kin__waitq_is_empty(&queue));
}

KIN_TEST(one_waiter_is_claimed_out_of_turn, "A8 A10")
{
    struct kin__waitq queue = {0};
    struct kin__claimed claimed;
    for (uint32_t i = 0; i < 3; i++) {
        park(&dolls[i], i);
        kin__waitq_push(&queue, &dolls[i].waiter);
    }
    EXPECT(kin__waitq_claim_one(&dolls[1].waiter, &claimed));
    EXPECT_PTR(claimed.task, &dolls[1].task);
    EXPECT(!kin__waitq_claim_one(&dolls[1].waiter, &claimed)); /* once */
    EXPECT_PTR(kin__waitq_first(&queue), &dolls[0].waiter);
}

KIN_TEST(a_batch_delivers_each_result_once_and_is_empty_then, "F4 W:4.3")
{
    struct kin__waitq queue = {0};
    struct kin__wakes wakes = {0};
    struct kin__claimed claimed;
    for (uint32_t i = 0; i < 5; i++) {
        park(&dolls[i], 10 + i);
        kin__waitq_push(&queue, &dolls[i].waiter);
    }
    for (int i = 0; i < 5; i++) {
        EXPECT(kin__waitq_claim(&queue, &claimed));
        kin__wakes_add(&wakes, &claimed, -i);
    }
    EXPECT_EQ(wakes.count, 5);
    EXPECT_PTR(wakes.first, &dolls[0].task);
    EXPECT_PTR(wakes.last, &dolls[4].task);
    for (int i = 0; i < 5; i++)
        EXPECT(!(word_of(&dolls[i]) & KIN__READY)); /* nobody before the lock is given */
    kin__wakes_run(&wakes); /* they are on their stacks: each is told, none is queued */
    for (int i = 0; i < 5; i++) {
        EXPECT(word_of(&dolls[i]) & KIN__READY);
        EXPECT_EQ(dolls[i].task.wait_status, -i);
        EXPECT_EQ(dolls[i].task.wait_case, 10 + i);
        EXPECT(kin__word_is_ready(&dolls[i].task));
    }
    EXPECT_EQ(wakes.count, 0);
    EXPECT_PTR(wakes.first, NULL);
    kin__wakes_run(&wakes); /* nothing is left to do */
}
