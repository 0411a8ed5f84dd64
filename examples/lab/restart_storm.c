/* SPDX-License-Identifier: MIT */
/*
 * Restart storm: a guardian starts its worker again whenever it fails. The worker fails as long as
 * the store has not been opened, and the store's opener is a task like any other: as long as the
 * guardian and the worker keep each other busy it may wait its turn. The guardian uses up its
 * restarts within no time at all, over something that would have been right a moment later.
 *
 * The remedy is to let time pass before each restart, a little more each time.
 */
#include <kin/kin.h>
#include <kin/lab.h>

enum { RESTARTS_MAX = 2 };

struct shop {
    bool is_open;
    bool is_patient; /* the remedy */
    int restarts;
};

static int open_store(void *arg)
{
    KIN_SHARED(((struct shop *)arg)->is_open) = true;
    return 0;
}

static int sell(void *arg)
{
    return KIN_SHARED(((struct shop *)arg)->is_open) ? 0 : KIN_NOPROC;
}

static int guard(void *arg)
{
    struct shop *shop = arg;
    for (int64_t pause = KIN_MS(1); shop->restarts <= RESTARTS_MAX; pause *= 2) {
        KIN_NURSERY(n);
        kin_ignore(kin_spawn(&n, sell, shop));
        if (kin_nursery_join(&n, NULL) == 0)
            return 0;
        shop->restarts++;
        if (shop->is_patient)
            kin_ignore(kin_sleep(kin_after(pause)));
    }
    return KIN_EXHAUSTED;
}

static int street(bool is_patient)
{
    struct shop shop = {.is_patient = is_patient};
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, open_store, &shop));
    KIN_LAB_OK(kin_spawn(&n, guard, &shop));
    return kin_nursery_join(&n, NULL);
}

KIN_LAB(restart_storm_bug)
{
    return street(false);
}

KIN_LAB(restart_storm_fixed)
{
    return street(true);
}

KIN_LAB_MAIN()
