/* SPDX-License-Identifier: MIT */
/*
 * The stations about nurseries: fan-out and join, the first error, a stack overflow.
 */
#include "tool.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- fan-out and join ---- */

enum { SLICES = 64 };

struct slice {
    unsigned from, to, primes;
};

struct census {
    unsigned below;
    unsigned primes;
    struct kin_stats stats;
};

static int count_primes(void *arg)
{
    struct slice *slice = arg;

    for (unsigned n = slice->from; n < slice->to; n++) {
        int rc = kin_checkpoint();
        if (rc < 0)
            return rc;
        unsigned d = 2;
        while (d * d <= n && n % d != 0)
            d++;
        slice->primes += n > 1 && d * d > n;
    }
    return 0;
}

static int take_census(void *arg)
{
    struct census *census = arg;
    struct slice slices[SLICES];
    KIN_NURSERY(n, .name = "census");

    int rc = 0;
    for (unsigned i = 0; i < SLICES && rc == 0; i++) {
        unsigned width = census->below / SLICES;
        slices[i] = (struct slice){i * width, (i + 1) * width, 0};
        rc = kin_spawn(&n, count_primes, &slices[i]);
    }
    rc = kin_nursery_end(&n, rc);
    for (unsigned i = 0; i < SLICES; i++)
        census->primes += slices[i].primes;
    kin_ignore(kin_stats_get(&census->stats));
    return rc;
}

static int timed_census(struct census *census, unsigned workers, int64_t *ns)
{
    kin_time start = kin_now();
    int rc = demo_run(workers, take_census, census);

    *ns = kin_now() - start;
    return rc;
}

int demo_fanout(const struct tour *tour)
{
    unsigned below = tour->is_quick ? 64 * 3125 : 64 * 15625;
    unsigned expected = tour->is_quick ? 17984 : 78498;
    struct census one = {.below = below}, all = {.below = below};
    int64_t one_ns = 0, all_ns = 0;

    print_text(
        "A nursery starts 64 tasks that count the primes below %s; the join waits for the "
        "last of them. First on one worker, then on all %u: an idle worker steals tasks from a "
        "busy one.",
        text_count(below), tour->workers);
    int rc = timed_census(&one, 1, &one_ns);
    if (rc == 0)
        rc = timed_census(&all, 0, &all_ns);
    if (rc < 0)
        return rc;
    if (one.primes != expected || all.primes != expected)
        return demo_wrong("the number of primes is not right", KIN_PANICKED);
    print_figure("primes found", "%s, which is right", text_count(all.primes));
    print_figure("1 worker", "%s", text_ns((double)one_ns));
    print_figure("all workers", "%s, %.2f times as fast", text_ns((double)all_ns),
                 (double)one_ns / (double)all_ns);
    print_figure("steals", "%s, %s tasks changed worker", text_count(all.stats.steals),
                 text_count(all.stats.tasks_stolen));
    return 0;
}

/* ---- the first error ---- */

struct party {
    unsigned guests;
    atomic_uint cancelled; /* guests whose wait ended with KIN_CANCELLED and the right reason */
    kin_time failed_at, joined_at;
};

static int wait_for_ever(void *arg)
{
    struct party *party = arg;
    int rc = kin_sleep(kin_after(KIN_SEC(86400))); /* a time, so that stats count it */

    if (rc == KIN_CANCELLED && kin_cancel_reason() == -ECONNREFUSED)
        atomic_fetch_add(&party->cancelled, 1);
    return rc;
}

/* Waits until every guest sleeps, then fails. */
static int fail_when_all_sleep(void *arg)
{
    struct party *party = arg;
    struct kin_stats stats = {0};

    while (stats.timers < party->guests) {
        int rc = kin_sleep(kin_after(KIN_MS(1)));
        if (rc == 0)
            rc = kin_stats_get(&stats);
        if (rc < 0)
            return rc;
    }
    party->failed_at = kin_now();
    return -ECONNREFUSED;
}

static int give_party(void *arg)
{
    struct party *party = arg;
    KIN_NURSERY(n, .name = "party");

    int rc = kin_spawn(&n, fail_when_all_sleep, party);
    for (unsigned i = 0; rc == 0 && i < party->guests; i++)
        rc = kin_spawn(&n, wait_for_ever, party);
    rc = kin_nursery_end(&n, rc);
    party->joined_at = kin_now();
    return rc;
}

int demo_first_error(const struct tour *tour)
{
    struct party party = {.guests = tour->is_quick ? 1000 : 10000};

    print_text("%s tasks sleep without a deadline. One more fails with ECONNREFUSED once they all "
               "sleep. The nursery cancels the others: each wakes with KIN_CANCELLED, may ask why, "
               "and returns. The join reports the error, not the cancellations.",
               text_count(party.guests));
    int rc = demo_run(0, give_party, &party);
    if (rc != -ECONNREFUSED)
        return demo_wrong("the join should return ECONNREFUSED", rc);
    unsigned cancelled = atomic_load(&party.cancelled);
    if (cancelled != party.guests)
        return demo_wrong("not every sibling was cancelled with the reason", KIN_ORPHAN);
    print_figure("the join returned", "%s", kin_status_name(rc));
    print_figure("siblings cancelled", "%s of %s", text_count(cancelled), text_count(party.guests));
    print_figure("from failure to end of join", "%s",
                 text_ns((double)(party.joined_at - party.failed_at)));
    return 0;
}

/* ---- a stack overflow ---- */

enum { OTHERS = 100 };

struct accident {
    atomic_uint others_done;
    atomic_uint reports;
    char text[400];
    struct kin_outcome how;
};

static void keep_report(const struct kin_report *report, void *arg)
{
    struct accident *accident = arg;

    if (report->status != KIN_OVERFLOW)
        return;
    if (atomic_fetch_add(&accident->reports, 1) == 0)
        snprintf(accident->text, sizeof(accident->text), "%s", report->text);
}

/* Calls itself far deeper than any stack; every frame is touched. */
static __attribute__((noinline)) int dive(volatile int depth)
{
    volatile char frame[512];

    frame[0] = (char)depth;
    if (depth == 0)
        return 0;
    return dive(depth - 1) + frame[0];
}

static int dive_too_deep(void *arg)
{
    (void)arg;
    return dive(1 << 30);
}

static int go_on(void *arg)
{
    struct accident *accident = arg;
    int rc = kin_sleep(kin_after(KIN_MS(10)));

    if (rc == 0)
        atomic_fetch_add(&accident->others_done, 1);
    return rc;
}

static int have_accident(void *arg)
{
    struct accident *accident = arg;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);

    options.name = "diver";
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < OTHERS; i++)
        rc = kin_spawn(&n, go_on, accident);
    if (rc == 0)
        rc = kin_spawn_with(&n, &options, dive_too_deep, NULL, 0, NULL);
    if (rc < 0)
        return kin_nursery_end(&n, rc);
    rc = kin_nursery_join(&n, &accident->how);
    return rc == KIN_OVERFLOW ? 0 : rc < 0 ? rc : KIN_PANICKED;
}

int demo_overflow(const struct tour *tour)
{
    struct accident accident = {.text = ""};
    struct kin_config config = KIN_CONFIG_INIT;

    (void)tour;
    print_text(
        "A task calls itself without end. Its stack ends in a guard that no access survives: "
        "the task panics with KIN_OVERFLOW, the report names it, and %u others, in a nursery "
        "that collects errors instead of failing fast, go on.",
        (unsigned)OTHERS);
    config.on_report = keep_report;
    config.report_arg = &accident;
    int rc = kin_run(&config, have_accident, &accident);
    if (rc < 0)
        return rc;
    if (atomic_load(&accident.reports) != 1 || accident.how.severity != KIN_SEV_PANIC)
        return demo_wrong("the overflow should be reported once, as a panic", accident.how.status);
    if (atomic_load(&accident.others_done) != OTHERS)
        return demo_wrong("the other tasks should have gone on", KIN_PANICKED);
    print_text("report: %s", accident.text);
    print_figure("the join returned", "%s, a panic", kin_status_name(accident.how.status));
    print_figure("others that went on", "%u of %u", atomic_load(&accident.others_done),
                 (unsigned)OTHERS);
    return 0;
}
