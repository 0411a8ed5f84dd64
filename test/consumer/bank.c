/* SPDX-License-Identifier: MIT */
/*
 * A test of a user: two moves of money, in every order, with every cancellation and every lack of
 * memory. Compiled as C11 against the lab as it is installed. With PATIENCE=KIN_NEVER whoever
 * counts waits for ever when a move was cancelled, which the lab must find.
 */
#include <kin/kin.h>
#include <kin/lab.h>

#ifndef PATIENCE
#define PATIENCE kin_after(KIN_SEC(1))
#endif

struct bank {
    struct kin_chan *moves;
    int balance;
};

static int deposit(void *arg)
{
    return kin_chan_send(((struct bank *)arg)->moves, &(int){+10}, KIN_NEVER);
}

static int withdraw(void *arg)
{
    return kin_chan_send(((struct bank *)arg)->moves, &(int){-10}, KIN_NEVER);
}

KIN_LAB(bank_balances, .workers = 2, .strategy = KIN_LAB_AUTO,
        .faults = KIN_FAULT_CANCEL | KIN_FAULT_OOM)
{
    struct bank b = {0};
    KIN_LAB_OK(kin_chan_create(&b.moves, sizeof(int), 1));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, deposit, &b));
    KIN_LAB_OK(kin_spawn(&n, withdraw, &b));
    int moves = 0, v;
    for (; moves < 2 && kin_chan_recv(b.moves, &v, PATIENCE) == 0; moves++)
        b.balance += v;
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(moves < 2 || b.balance == 0, "money is neither made nor lost");
    return 0;
}

KIN_LAB_MAIN()
