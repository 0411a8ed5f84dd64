/* SPDX-License-Identifier: MIT */
/*
 * Lost wake: the reader looks into the box, finds it empty, and waits for the signal. It looks and
 * waits in two steps. A letter that comes in between rings a bell that nobody hears yet, and the
 * reader waits for a second letter that nobody writes.
 *
 * The remedy is as old as condition variables: look and wait under one lock, in a loop.
 */
#include <kin/kin.h>
#include <kin/lab.h>

struct box {
    struct kin_mutex lock;
    struct kin_cond filled;
    int letters; /* under lock */
};

static int post(void *arg)
{
    struct box *box = arg;
    int rc = kin_mutex_lock(&box->lock, KIN_NEVER);
    if (rc < 0)
        return rc;
    box->letters++;
    kin_cond_signal(&box->filled);
    kin_mutex_unlock(&box->lock);
    return 0;
}

static int wait_bug(struct box *box)
{
    int rc = kin_mutex_lock(&box->lock, KIN_NEVER);
    if (rc < 0)
        return rc;
    bool is_empty = box->letters == 0;
    kin_mutex_unlock(&box->lock);
    rc = kin_mutex_lock(&box->lock, KIN_NEVER); /* by now is_empty may be wrong */
    if (rc == 0 && is_empty)
        rc = kin_cond_wait(&box->filled, &box->lock, KIN_NEVER);
    kin_mutex_unlock(&box->lock);
    return rc;
}

static int wait_fixed(struct box *box)
{
    int rc = kin_mutex_lock(&box->lock, KIN_NEVER);
    if (rc < 0)
        return rc;
    while (rc == 0 && box->letters == 0)
        rc = kin_cond_wait(&box->filled, &box->lock, KIN_NEVER);
    kin_mutex_unlock(&box->lock);
    return rc;
}

static int mail(int (*wait)(struct box *box))
{
    struct box box = {0};
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, post, &box));
    KIN_LAB_OK(wait(&box));
    return kin_nursery_join(&n, NULL);
}

KIN_LAB(lost_wake_bug)
{
    return mail(wait_bug);
}

KIN_LAB(lost_wake_fixed)
{
    return mail(wait_fixed);
}

KIN_LAB_MAIN()
