/* SPDX-License-Identifier: MIT */
/*
 * Lock order: a transfer locks the account that gives and then the one that gets. Two transfers in
 * opposite directions lock in opposite orders; each may hold what the other wants.
 *
 * The remedy is an order that everybody keeps; here the one of the account's numbers.
 */
#include <kin/kin.h>
#include <kin/lab.h>

struct account {
    int number;
    struct kin_mutex lock;
    int balance; /* under lock */
};

struct transfer {
    struct account *from, *to;
    bool is_ordered; /* the remedy */
};

static int move(void *arg)
{
    struct transfer *t = arg;
    struct account *first = t->from, *second = t->to;
    if (t->is_ordered && first->number > second->number) {
        first = t->to;
        second = t->from;
    }
    int rc = kin_mutex_lock(&first->lock, KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = kin_mutex_lock(&second->lock, KIN_NEVER);
    if (rc == 0) {
        t->from->balance -= 10;
        t->to->balance += 10;
        kin_mutex_unlock(&second->lock);
    }
    kin_mutex_unlock(&first->lock);
    return rc;
}

static int bank(bool is_ordered)
{
    struct account ann = {.number = 1, .balance = 100}, bob = {.number = 2, .balance = 100};
    struct transfer there = {&ann, &bob, is_ordered}, back = {&bob, &ann, is_ordered};
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, move, &there));
    KIN_LAB_OK(kin_spawn(&n, move, &back));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(ann.balance == 100 && bob.balance == 100, "money is neither made nor lost");
    return 0;
}

KIN_LAB(lock_order_bug)
{
    return bank(false);
}

KIN_LAB(lock_order_fixed)
{
    return bank(true);
}

KIN_LAB_MAIN()
