/* SPDX-License-Identifier: MIT */
/*
 * Torn read of two counters: a meter counts what went in and what came out, and a dashboard shows
 * the difference. It reads one counter, then the other. If something goes in and out in between,
 * the dashboard shows less than nothing in the tank.
 *
 * The remedy: the two are one thing, and one lock guards both.
 */
#include <kin/kin.h>
#include <kin/lab.h>

struct meter {
    struct kin_mutex lock;
    bool is_locked; /* the remedy */
    int in, out;
};

static void hold(struct meter *m)
{
    if (m->is_locked)
        kin_ignore(kin_mutex_lock(&m->lock, KIN_NEVER));
}

static void let_go(struct meter *m)
{
    if (m->is_locked)
        kin_mutex_unlock(&m->lock);
}

static int flow(void *arg)
{
    struct meter *m = arg;
    hold(m);
    KIN_SHARED(m->in) += 5;
    KIN_SHARED(m->out) += 5;
    let_go(m);
    return 0;
}

static int show(void *arg)
{
    struct meter *m = arg;
    hold(m);
    int in = KIN_SHARED(m->in);
    int out = KIN_SHARED(m->out);
    let_go(m);
    kin_lab_assert(in >= out, "no more comes out than went in");
    return 0;
}

static int plant(bool is_locked)
{
    struct meter m = {.is_locked = is_locked};
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, flow, &m));
    KIN_LAB_OK(kin_spawn(&n, show, &m));
    return kin_nursery_join(&n, NULL);
}

KIN_LAB(torn_read_bug)
{
    return plant(false);
}

KIN_LAB(torn_read_fixed)
{
    return plant(true);
}

KIN_LAB_MAIN()
