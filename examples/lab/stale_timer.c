/* SPDX-License-Identifier: MIT */
/*
 * Stale timer: a desk serves one request after the other, each with a watchdog that marks it as
 * late. When a request is done its watchdog is cancelled. But a watchdog that has slept its time
 * and only waits for its turn is past cancelling: it runs when the desk already serves the next
 * request, and marks that one.
 *
 * The remedy is a number for each request: a watchdog that finds another number is stale.
 */
#include <kin/kin.h>
#include <kin/lab.h>

struct desk {
    int serving; /* number of the request */
    int late;    /* number of the request that was marked; 0: none */
    bool is_numbered; /* the remedy */
};

struct watch {
    struct desk *desk;
    int number;
};

static int bark(void *arg)
{
    struct watch *watch = arg;
    int rc = kin_sleep(kin_after(KIN_MS(10)));
    if (rc < 0)
        return rc;
    int serving = KIN_SHARED(watch->desk->serving);
    if (!watch->desk->is_numbered || serving == watch->number)
        watch->desk->late = serving;
    return 0;
}

static int day(bool is_numbered)
{
    static const int64_t work[] = {KIN_MS(10), KIN_MS(1)};
    struct desk desk = {.is_numbered = is_numbered};
    KIN_NURSERY(n);
    for (int i = 1; i <= 2; i++) {
        struct kin_task_ref dog;
        KIN_SHARED(desk.serving) = i;
        KIN_LAB_OK(kin_spawn_with(&n, NULL, bark, KIN_ARGS(struct watch, &desk, i), &dog));
        KIN_LAB_OK(kin_sleep(kin_after(work[i - 1])));
        kin_ignore(kin_task_cancel(dog));
    }
    kin_ignore(kin_nursery_join(&n, NULL));
    kin_lab_assert(desk.late != 2, "a request that took 1 of its 10 ms is not late");
    return 0;
}

KIN_LAB(stale_timer_bug)
{
    return day(false);
}

KIN_LAB(stale_timer_fixed)
{
    return day(true);
}

KIN_LAB_MAIN()
