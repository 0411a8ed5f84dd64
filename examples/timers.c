/* SPDX-License-Identifier: MIT */
/*
 * Time: tasks that tick, and a limit on how long something may take.
 *
 * Deadlines are points in time. A task that ticks adds its period to the last deadline, not to
 * now, so its ticks do not drift however late it woke. A limit is a sibling that sleeps and then
 * cancels the nursery with KIN_TIMEOUT as the reason, which the join reports.
 */
#include <kin/kin.h>

#include <stdio.h>

enum { CLOCKS = 4, TICKS = 10 };

struct clock {
    int64_t period;
    int ticks;
    int early;     /* ticks that came before their time; must stay 0 */
    int64_t worst; /* ns that the latest tick was late */
};

static int tick(void *arg)
{
    struct clock *clock = arg;
    kin_time next = kin_now();

    for (int i = 0; i < TICKS; i++) {
        next += clock->period;
        int rc = kin_sleep(next);
        if (rc < 0)
            return rc;
        int64_t late = kin_now() - next;
        clock->ticks++;
        clock->early += late < 0;
        clock->worst = late > clock->worst ? late : clock->worst;
    }
    return 0;
}

static int run_clocks(void *arg)
{
    struct clock *clocks = arg;
    KIN_NURSERY(n, .name = "clocks");

    int rc = 0;
    for (int i = 0; i < CLOCKS && rc == 0; i++) {
        clocks[i] = (struct clock){.period = KIN_MS(1) << i};
        rc = kin_spawn(&n, tick, &clocks[i]);
    }
    return kin_nursery_end(&n, rc);
}

struct limit {
    struct kin_nursery *nursery;
    kin_time deadline;
};

/* The sibling that ends the others when the time is up. */
static int watch(void *arg)
{
    const struct limit *limit = arg;
    int rc = kin_sleep(limit->deadline);

    if (rc == 0)
        kin_nursery_cancel(limit->nursery, KIN_TIMEOUT);
    return rc;
}

static int work_too_long(void *arg)
{
    (void)arg;
    return kin_sleep(KIN_NEVER);
}

static int run_limited(void *arg)
{
    struct limit limit;
    KIN_NURSERY(n);

    (void)arg;
    limit = (struct limit){&n, kin_after(KIN_MS(20))};
    int rc = kin_spawn(&n, work_too_long, NULL);
    if (rc == 0)
        rc = kin_spawn(&n, watch, &limit);
    return kin_nursery_end(&n, rc);
}

int main(void)
{
    struct clock clocks[CLOCKS];
    bool is_right = kin_run(NULL, run_clocks, clocks) == 0;

    for (int i = 0; is_right && i < CLOCKS; i++) {
        printf("every %lld ms: %d ticks, the latest %lld us late\n",
               (long long)clocks[i].period / 1000000, clocks[i].ticks,
               (long long)clocks[i].worst / 1000);
        is_right = clocks[i].ticks == TICKS && clocks[i].early == 0;
    }
    int rc = kin_run(NULL, run_limited, NULL);
    printf("work with a limit of 20 ms: %s (%s)\n", kin_status_name(rc), kin_status_text(rc));
    return is_right && rc == KIN_TIMEOUT ? 0 : 1;
}
