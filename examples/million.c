/* SPDX-License-Identifier: MIT */
/*
 * Many parked tasks: 20,000 of them, or as many as the argument says, wait until they are
 * cancelled.
 *
 *     million 1000000
 *
 * A parked task is its frame of 192 bytes and the pages of its stack that it has touched, one as a
 * rule. Each of these sleeps without end, which makes it a timer as well; one cancel of their
 * nursery wakes them all.
 */
#include <kin/kin.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct many {
    unsigned long count;
    atomic_ulong cancelled;
};

static int wait_for_ever(void *arg)
{
    struct many *many = arg;
    int rc = kin_sleep(kin_after(KIN_SEC(86400))); /* a time, so that stats count it */

    if (rc == KIN_CANCELLED)
        atomic_fetch_add_explicit(&many->cancelled, 1, memory_order_relaxed);
    return rc;
}

/* Milliseconds since start. */
static long long ms_since(kin_time start)
{
    return (long long)(kin_now() - start) / 1000000;
}

static int run_many(void *arg)
{
    struct many *many = arg;
    struct kin_stats stats = {0};
    kin_time start = kin_now();
    KIN_NURSERY(n, .name = "many");
    int rc = 0;

    for (unsigned long i = 0; i < many->count && rc == 0; i++)
        rc = kin_spawn(&n, wait_for_ever, many);
    while (rc == 0 && stats.timers < many->count) { /* until the last of them sleeps */
        rc = kin_sleep(kin_after(KIN_MS(1)));
        if (rc == 0)
            rc = kin_stats_get(&stats);
    }
    if (rc < 0)
        return kin_nursery_end(&n, rc); /* which knows the cause, if a child has failed */
    printf("%llu tasks are parked on %llu stacks after %lld ms\n", (unsigned long long)stats.timers,
           (unsigned long long)stats.stacks, ms_since(start));

    start = kin_now();
    kin_nursery_cancel(&n, 0);
    rc = kin_nursery_join(&n, NULL);
    printf("they are over %lld ms after the cancel, which the join reports as %s\n",
           ms_since(start), kin_status_name(rc));
    return rc == KIN_CANCELLED ? 0 : rc;
}

int main(int argc, char **argv)
{
    struct many many = {.count = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000};
    int rc = kin_run(NULL, run_many, &many);

    if (rc < 0)
        printf("it failed: %s (%s)\n", kin_status_text(rc), kin_status_name(rc));
    return rc == 0 && atomic_load(&many.cancelled) == many.count ? 0 : 1;
}
