/* SPDX-License-Identifier: MIT */
/*
 * The station with a million parked tasks.
 *
 * The tasks sleep without a deadline, which is the cheapest wait there is to be had through the
 * public interface; ending them is one cancel of their nursery. Memory is what the kernel counts
 * for the process: resident pages and the page tables behind them, less what was there before.
 */
#include "tool.h"

#include <stdatomic.h>
#include <stdio.h>

#define MILLION UINT64_C(1000000)
#define STEPS 10u                        /* words of progress */
#define ENOUGH_BYTES (UINT64_C(8) << 30) /* a million is safe with that much */
#define TASK_BYTES UINT64_C(8192)        /* what a task costs at most, generously */
#define TRIAL UINT64_C(10000)            /* tasks that tell how long the others will take */
#define PATIENCE_NS INT64_C(20000000000) /* a tour lasts a minute at most */

struct many {
    uint64_t count;
    bool is_trial; /* shows nothing */
    atomic_ullong woken;
    uint64_t before_bytes, parked_bytes;
    uint64_t stacks;
    int64_t spawned_ns, parked_ns, cancelled_ns, over_ns;
};

static int wait_for_ever(void *arg)
{
    struct many *many = arg;
    int rc = kin_sleep(kin_after(KIN_SEC(86400))); /* a time, so that stats count it */

    atomic_fetch_add_explicit(&many->woken, 1, memory_order_relaxed);
    return rc;
}

static const char *text_percent(uint64_t part, uint64_t whole)
{
    static char text[8];

    snprintf(text, sizeof(text), "%u%%", (unsigned)(part * 100 / whole) % 1000u);
    return text;
}

static void show(const struct many *many, const char *word)
{
    if (!many->is_trial)
        print_progress(word);
}

/* Starts them all, with a word of progress for each tenth. */
static int spawn_all(struct many *many, struct kin_nursery *n)
{
    uint64_t step = many->count / STEPS;

    show(many, "started:");
    for (uint64_t i = 1; i <= many->count; i++) {
        int rc = kin_spawn(n, wait_for_ever, many);
        if (rc < 0)
            return rc;
        if (i % step == 0)
            show(many, text_percent(i, many->count));
    }
    show(many, NULL);
    return 0;
}

/* Lets them run until the last one sleeps, with a word of progress now and then. */
static int wait_until_parked(struct many *many)
{
    struct kin_stats stats = {0};
    uint64_t step = many->count / STEPS, shown = 0;

    show(many, "parked: ");
    while (stats.timers < many->count) { /* ends: every one of them comes to its sleep */
        int rc = kin_sleep(kin_after(KIN_MS(5)));
        if (rc == 0)
            rc = kin_stats_get(&stats);
        if (rc < 0)
            return rc;
        if (stats.timers >= shown + step) {
            shown = stats.timers / step * step;
            show(many, text_percent(shown, many->count));
        }
    }
    show(many, NULL);
    many->stacks = stats.stacks;
    return 0;
}

static int park_many(void *arg)
{
    struct many *many = arg;
    KIN_NURSERY(n, .name = "many");

    many->before_bytes = machine_used_bytes();
    kin_time start = kin_now();
    int rc = spawn_all(many, &n);
    if (rc < 0)
        return kin_nursery_end(&n, rc);
    many->spawned_ns = kin_now() - start;
    rc = wait_until_parked(many);
    if (rc < 0)
        return kin_nursery_end(&n, rc);
    many->parked_ns = kin_now() - start;
    many->parked_bytes = machine_used_bytes();

    start = kin_now();
    kin_nursery_cancel(&n, 0);
    many->cancelled_ns = kin_now() - start;
    rc = kin_nursery_join(&n, NULL);
    many->over_ns = kin_now() - start;
    return rc == KIN_CANCELLED ? 0 : rc < 0 ? rc : KIN_ORPHAN;
}

/* Fewer tasks when memory is scarce, or when a trial says that all of them would take too long.
 * Says so when it is fewer than wanted. */
static int choose_count(const struct tour *tour, uint64_t *count)
{
    struct many trial = {.count = TRIAL, .is_trial = true};

    if (tour->available_bytes && tour->available_bytes < ENOUGH_BYTES) {
        uint64_t most = tour->available_bytes / 2 / TASK_BYTES;
        if (most < *count) {
            *count = most > TRIAL ? most : TRIAL;
            print_text("Less than %s of memory is available, so there are only %s tasks.",
                       text_bytes(ENOUGH_BYTES), text_count(*count));
        }
    }
    int rc = demo_run(0, park_many, &trial);
    if (rc < 0)
        return rc;
    int64_t each = (trial.parked_ns + trial.over_ns) / (int64_t)TRIAL + 1;
    if (each > PATIENCE_NS / (int64_t)*count) {
        uint64_t most = (uint64_t)(PATIENCE_NS / each);
        *count = most > TRIAL ? most / TRIAL * TRIAL : TRIAL;
        print_text(
            "A trial took %s per task, as on a busy or slow machine, so there are only %s tasks.",
            text_ns((double)each), text_count(*count));
    }
    return 0;
}

int demo_million(const struct tour *tour)
{
    struct many many = {.count = tour->is_quick ? MILLION / 10 : MILLION};

    if (!tour->has_million) {
        print_text("Left out, as --no-million asks.");
        return 0;
    }
    int rc = choose_count(tour, &many.count);
    if (rc < 0)
        return rc;
    print_text(
        "%s tasks are started in one nursery; each runs until it sleeps without a deadline, on "
        "a stack of its own. All of them are parked at once. Then the nursery is cancelled: "
        "every task wakes, returns, and the join comes back when the last one is over.",
        text_count(many.count));
    rc = demo_run(0, park_many, &many);
    print_progress(NULL);
    if (rc < 0)
        return rc;
    if (atomic_load(&many.woken) != many.count)
        return demo_wrong("not every task was woken", KIN_ORPHAN);
    uint64_t used =
        many.parked_bytes > many.before_bytes ? many.parked_bytes - many.before_bytes : 0;
    double count = (double)many.count;
    print_figure("memory per parked task", "%s (resident memory and page tables)",
                 text_bytes(used / many.count));
    print_figure("memory in all", "%s, for %s stacks", text_bytes(used), text_count(many.stacks));
    print_figure("started", "after %s", text_ns((double)many.spawned_ns));
    print_figure("created: run and parked", "after %s, %s each", text_ns((double)many.parked_ns),
                 text_ns((double)many.parked_ns / count));
    print_figure("asked to stop", "within %s of the cancel", text_ns((double)many.cancelled_ns));
    print_figure("woken and finished", "within %s of the cancel, %s each",
                 text_ns((double)many.over_ns), text_ns((double)many.over_ns / count));
    return 0;
}
