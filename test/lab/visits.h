/* SPDX-License-Identifier: MIT */
/*
 * A small program with a lost update: visitors read a count, let others in, and write an old number
 * back. It runs in production (recorded.c) and as a test of the lab (post_mortem_test.c).
 */
#ifndef KIN_TEST_LAB_VISITS_H
#define KIN_TEST_LAB_VISITS_H

#include <kin/kin.h>
#include <kin/lab.h>

#include <stdatomic.h>

#define VISITORS 3

struct hall {
    _Atomic int visits; /* in production visitors are on several workers */
    struct kin_chan *doors;
};

static int visit(void *arg)
{
    struct hall *hall = arg;
    int door, seen, rc = kin_chan_recv(hall->doors, &door, KIN_NEVER);
    if (rc < 0)
        return rc;
    seen = atomic_load_explicit(&KIN_SHARED(hall->visits), memory_order_relaxed);
    rc = kin_yield();
    atomic_store_explicit(&KIN_SHARED(hall->visits), seen + 1, memory_order_relaxed);
    return rc;
}

/* How many visits were counted, or why it could not be told. */
static int open_hall(void)
{
    struct hall hall = {0};
    int rc = kin_chan_create(&hall.doors, sizeof(int), 0);
    if (rc < 0)
        return rc;
    KIN_NURSERY(n);
    for (int i = 0; i < VISITORS && rc == 0; i++)
        rc = kin_spawn(&n, visit, &hall);
    for (int i = 0; i < VISITORS && rc == 0; i++)
        rc = kin_chan_send(hall.doors, &i, KIN_NEVER);
    int joined = kin_nursery_join(&n, NULL);
    kin_chan_unref(hall.doors);
    rc = rc < 0 ? rc : joined;
    return rc < 0 ? rc : atomic_load(&hall.visits);
}

#endif
