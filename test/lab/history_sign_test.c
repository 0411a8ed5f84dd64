/* SPDX-License-Identifier: MIT */
/*
 * Goal: a sign of a fault is seen where no order of the calls can help, and nowhere else.
 * Method: for each sign a history that has it, and the same where a call begins earlier or returns
 * later, so that an order explains it. history_test.c compares with a search through all orders.
 */
#include "kin_test.h"

#include "lab/history.h"

static struct kin__happening calls[16];
static size_t count;

static void begin(uint64_t capacity)
{
    calls[0] = (struct kin__happening){.value = capacity, .call = KIN__CALL_MADE};
    count = 1;
}

static void add(unsigned call, unsigned came, uint64_t value, uint64_t since, uint64_t until)
{
    calls[count++] = (struct kin__happening){.since = since,
                                             .until = until,
                                             .value = value,
                                             .call = (uint8_t)call,
                                             .came = (uint8_t)came};
}

#define SEND(value, since, until) add(KIN__CALL_SEND, KIN__CAME_WELL, value, since, until)
#define RECV(value, since, until) add(KIN__CALL_RECV, KIN__CAME_WELL, value, since, until)

static const struct kin__happening *sign(void)
{
    return kin__history_sign(calls, count);
}

KIN_TEST(what_nobody_sent_so_often_is_a_sign, "")
{
    begin(4);
    SEND(1, 1, 2), RECV(1, 3, 4), RECV(1, 5, 6);
    EXPECT_PTR(sign(), &calls[3]);
    SEND(1, 5, 7); /* that had begun */
    EXPECT_PTR(sign(), NULL);
    begin(4);
    RECV(9, 1, 2);
    EXPECT_PTR(sign(), &calls[1]);
}

KIN_TEST(an_item_that_is_overtaken_is_a_sign, "")
{
    begin(4);
    SEND(1, 1, 2), SEND(2, 3, 4), RECV(2, 5, 6), RECV(1, 7, 8);
    EXPECT_PTR(sign(), &calls[3]);
    calls[4].since = 5; /* whoever takes the first may have been first */
    EXPECT_PTR(sign(), NULL);
    calls[4].since = 7;
    calls[2].since = 1; /* the second may have come first */
    EXPECT_PTR(sign(), NULL);
}

KIN_TEST(an_item_that_nobody_takes_is_a_sign_when_a_later_one_leaves, "")
{
    begin(4);
    SEND(1, 1, 2), SEND(2, 3, 4), RECV(2, 5, 6);
    EXPECT_PTR(sign(), &calls[3]);
    RECV(0, 5, 7);
    calls[4].is_blind = true; /* nobody looked at what that one got */
    EXPECT_PTR(sign(), NULL);
}

KIN_TEST(nothing_and_no_room_are_signs_when_it_is_not_so, "")
{
    begin(2);
    SEND(1, 1, 2), add(KIN__CALL_RECV, KIN__CAME_EMPTY, 0, 3, 4);
    EXPECT_PTR(sign(), &calls[2]);
    calls[1].until = 5;
    EXPECT_PTR(sign(), NULL);
    begin(2);
    SEND(1, 1, 2), add(KIN__CALL_SEND, KIN__CAME_FULL, 0, 3, 4);
    EXPECT_PTR(sign(), &calls[2]);
    SEND(2, 3, 5);
    EXPECT_PTR(sign(), NULL);
    begin(1);
    SEND(1, 1, 2), SEND(2, 3, 4);
    EXPECT_PTR(sign(), &calls[2]);
    RECV(1, 3, 5);
    EXPECT_PTR(sign(), NULL);
}
