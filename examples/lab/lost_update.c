/* SPDX-License-Identifier: MIT */
/*
 * Lost update: two visitors read the counter, greet somebody, and write back what they read plus
 * one. If both greet at the same time one visit is forgotten. In a program of tasks on one thread
 * this needs no second processor: every call that may wait lets the others in.
 *
 * KIN_SHARED tells the lab that a word of plain memory is shared, so that it tries the orders in
 * which it can be read and written. The remedy is to read and write without a wait in between.
 */
#include <kin/kin.h>
#include <kin/lab.h>

struct hall {
    struct kin_chan *greetings;
    int visits;
};

static int visit_bug(void *arg)
{
    struct hall *hall = arg;
    int seen = KIN_SHARED(hall->visits);
    int rc = kin_chan_send(hall->greetings, &seen, KIN_NEVER);
    KIN_SHARED(hall->visits) = seen + 1; /* of a number that may be old */
    return rc;
}

static int visit_fixed(void *arg)
{
    struct hall *hall = arg;
    int seen = KIN_SHARED(hall->visits)++;
    return kin_chan_send(hall->greetings, &seen, KIN_NEVER);
}

static int evening(kin_task_fn *visit)
{
    struct hall hall = {0};
    KIN_LAB_OK(kin_chan_create(&hall.greetings, sizeof(int), 2));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, visit, &hall));
    KIN_LAB_OK(kin_spawn(&n, visit, &hall));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_chan_unref(hall.greetings);
    kin_lab_assert(hall.visits == 2, "every visit is counted");
    return 0;
}

KIN_LAB(lost_update_bug)
{
    return evening(visit_bug);
}

KIN_LAB(lost_update_fixed)
{
    return evening(visit_fixed);
}

KIN_LAB_MAIN()
