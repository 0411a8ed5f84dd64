/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a supervisor decides is what its clauses say: orders, verdicts, plans, intensity,
 * delays.
 * Method: each function against a naive one that follows the text of the clause, on random cases
 * whose seed is printed; the whole table of verdicts; the edges by hand; memory that runs out.
 */
#include "kin_test.h"

#include "otp/plan.h"
#include "plat/plat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 12, NAME_BYTES = 24 };

static const struct kin__hash_key key = {1, 2};

static int never(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)n, (void)arg, (void)out;
    return KIN_IGNORE;
}

/* ---- the order ---- */

struct family {
    size_t count;
    char names[MOST][NAME_BYTES];
    const char *on[MOST][MOST + 1];
    struct kin_child_spec specs[MOST];
};

static void name_them(struct family *family, size_t count)
{
    memset(family, 0, sizeof(*family));
    family->count = count;
    for (size_t i = 0; i < count; i++) {
        snprintf(family->names[i], NAME_BYTES, "c%zu", i);
        family->specs[i].name = family->names[i];
        family->specs[i].start = never;
        family->specs[i].depends_on = family->on[i];
    }
}

static void depend(struct family *family, size_t who, size_t on)
{
    size_t at = 0;
    while (family->on[who][at])
        at++;
    family->on[who][at] = family->names[on];
}

static bool needs(const struct family *family, size_t who, size_t on)
{
    for (size_t i = 0; family->on[who][i]; i++)
        if (strcmp(family->on[who][i], family->names[on]) == 0)
            return true;
    return false;
}

/* Again and again the first child in the array that is not placed and lacks nobody. */
static bool naive_order(const struct family *family, uint32_t *order)
{
    bool placed[MOST] = {false};
    for (size_t done = 0; done < family->count; done++) {
        size_t found = MOST;
        for (size_t i = 0; i < family->count && found == MOST; i++) {
            bool is_free = !placed[i];
            for (size_t k = 0; k < family->count; k++)
                is_free = is_free && (placed[k] || !needs(family, i, k));
            if (is_free)
                found = i;
        }
        if (found == MOST)
            return false;
        placed[found] = true;
        order[done] = (uint32_t)found;
    }
    return true;
}

KIN_TEST(starts_are_in_the_order_of_dependencies_and_then_of_the_array, "SUP-PLAN-RESTART")
{
    struct kin__rng rng;
    int circles = 0, orders = 0;

    kin__rng_init(&rng, kin_test_seed(), 1);
    for (int round = 0; round < 3000; round++) {
        struct family family;
        uint32_t expected[MOST], order[MOST];
        name_them(&family, kin__rng_below(&rng, MOST + 1));
        size_t edges = family.count ? kin__rng_below(&rng, 2 * family.count) : 0;
        for (size_t e = 0; e < edges; e++) {
            size_t who = kin__rng_below(&rng, family.count);
            size_t on = kin__rng_below(&rng, family.count);
            if (kin__rng_chance(&rng, 3, 4) && who <= on)
                continue; /* mostly without circles */
            if (!needs(&family, who, on))
                depend(&family, who, on);
        }
        bool has_order = naive_order(&family, expected);
        EXPECT_EQ(kin__plan_order(family.specs, family.count, key, order),
                  has_order ? 0 : -EINVAL);
        circles += !has_order;
        orders += has_order;
        for (size_t i = 0; has_order && i < family.count; i++)
            EXPECT_EQ(order[i], expected[i]);
    }
    EXPECT_GT(circles, 10);
    EXPECT_GT(orders, 10);
}

KIN_TEST(a_dependency_named_twice_counts_as_one_that_is_awaited_twice, "")
{
    struct family family;
    uint32_t order[MOST];

    name_them(&family, 3);
    family.on[0][0] = family.on[0][1] = "c2";
    EXPECT_EQ(kin__plan_order(family.specs, 3, key, order), 0);
    EXPECT_EQ(order[0], 1);
    EXPECT_EQ(order[1], 2);
    EXPECT_EQ(order[2], 0);
}

KIN_TEST(names_that_are_missing_empty_double_or_unknown_are_refused, "")
{
    struct family family;
    uint32_t order[MOST];

    name_them(&family, 3);
    EXPECT_EQ(kin__plan_order(family.specs, 3, key, order), 0);
    family.specs[1].name = NULL;
    EXPECT_EQ(kin__plan_order(family.specs, 3, key, order), -EINVAL);
    family.specs[1].name = "";
    EXPECT_EQ(kin__plan_order(family.specs, 3, key, order), -EINVAL);
    family.specs[1].name = "c2";
    EXPECT_EQ(kin__plan_order(family.specs, 3, key, order), -EINVAL);
    name_them(&family, 3);
    family.on[2][0] = "nobody";
    EXPECT_EQ(kin__plan_order(family.specs, 3, key, order), -EINVAL);
    family.on[2][0] = "c2"; /* itself */
    EXPECT_EQ(kin__plan_order(family.specs, 3, key, order), -EINVAL);
}

KIN_TEST(an_order_without_memory_is_enomem_and_leaves_nothing, "")
{
    struct family family;
    uint32_t order[MOST];

    name_them(&family, 5);
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin__plan_order(family.specs, 5, key, order), -ENOMEM);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin__plan_order(family.specs, 5, key, order), 0);
}

/* ---- the verdict ---- */

/* The table of [SUP-CHILD-FAILED] with the four kinds of [D7], as words. */
static enum kin__verdict naive_verdict(enum kin_restart restart, enum kin_severity severity,
                                       bool is_quiet, enum kin_child_stopped on_stopped)
{
    bool is_lost = severity == KIN_SEV_CANCELLED || severity == KIN_SEV_PANIC;
    if (restart == KIN_TEMPORARY)
        return KIN__VERDICT_FORGET;
    if (restart == KIN_ESCALATE)
        return severity == KIN_SEV_OK ? KIN__VERDICT_KEEP : KIN__VERDICT_ESCALATE;
    if (restart == KIN_TRANSIENT)
        return severity == KIN_SEV_ERROR && !is_quiet ? KIN__VERDICT_RESTART : KIN__VERDICT_KEEP;
    if (!is_lost)
        return KIN__VERDICT_RESTART;
    if (on_stopped == KIN_STOPPED_STOP_SUPERVISOR)
        return KIN__VERDICT_STOP;
    return on_stopped == KIN_STOPPED_ESCALATE ? KIN__VERDICT_ESCALATE : KIN__VERDICT_KEEP;
}

KIN_TEST(the_whole_table_of_verdicts_and_nobody_lost_is_restarted, "SUP-CHILD-FAILED SINV-2")
{
    for (int all = 0; all < 4 * 4 * 2 * 3; all++) {
        enum kin_restart restart = (enum kin_restart)(all % 4);
        enum kin_severity severity = (enum kin_severity)(all / 4 % 4);
        bool is_quiet = all / 16 % 2;
        enum kin_child_stopped on_stopped = (enum kin_child_stopped)(all / 32);
        enum kin__verdict verdict = kin__plan_verdict(restart, severity, is_quiet, on_stopped);
        EXPECT_EQ(verdict, naive_verdict(restart, severity, is_quiet, on_stopped));
        if (severity == KIN_SEV_CANCELLED || severity == KIN_SEV_PANIC)
            EXPECT_NE(verdict, KIN__VERDICT_RESTART);
    }
}

/* ---- the plan ---- */

/* The text of [SUP-PLAN-RESTART]: fills in the cancel order; the restart order is its reverse. */
static size_t naive_plan(enum kin_strategy strategy, size_t count, size_t failed, uint64_t *cancel)
{
    size_t made = 0;
    size_t from = strategy == KIN_ONE_FOR_ALL ? 1 : failed;
    size_t to = strategy == KIN_ONE_FOR_ONE || strategy == KIN_TEMPLATE ? failed : count;
    for (size_t rank = to; rank >= from; rank--)
        cancel[made++] = rank;
    return made;
}

KIN_TEST(plans_are_those_of_the_three_policies, "SUP-PLAN-RESTART")
{
    for (int strategy = KIN_ONE_FOR_ONE; strategy <= KIN_TEMPLATE; strategy++) {
        for (size_t count = 1; count <= 6; count++) {
            for (size_t failed = 1; failed <= count; failed++) {
                uint64_t expected[8];
                size_t many = naive_plan((enum kin_strategy)strategy, count, failed, expected);
                struct kin__plan plan = kin__plan_of((enum kin_strategy)strategy, failed);
                size_t at = 0;
                for (size_t rank = count; rank >= 1; rank--) {
                    if (kin__plan_has(plan, rank))
                        EXPECT_EQ(rank, expected[at++]);
                }
                EXPECT_EQ(at, many);
            }
        }
    }
}

/* ---- the history ---- */

enum { ADDS = 400 };

KIN_TEST(no_window_ever_holds_more_restarts_than_allowed, "SUP-BUDGET-EXCEEDED")
{
    struct kin__rng rng;

    kin__rng_init(&rng, kin_test_seed(), 2);
    for (int round = 0; round < 200; round++) {
        struct kin__history history;
        unsigned max = (unsigned)kin__rng_below(&rng, 40);
        int64_t window = 1 + (int64_t)kin__rng_below(&rng, 50), now = 0;
        int64_t noted[ADDS];
        size_t count = 0;
        EXPECT(kin__history_init(&history, max ? max : KIN_NO_RESTARTS, window));
        for (int i = 0; i < ADDS; i++) {
            size_t recent = 0;
            now += (int64_t)kin__rng_below(&rng, 4);
            for (size_t k = 0; k < count; k++)
                recent += noted[k] > now - window; /* the text of the clause */
            bool may = recent < max;
            EXPECT_EQ(kin__history_add(&history, now), may);
            if (may)
                noted[count++] = now;
            if (kin__rng_chance(&rng, 1, 100)) {
                kin__history_clear(&history);
                count = 0;
            }
        }
        kin__history_fini(&history);
    }
}

/* K139: a restart exactly a window old is not counted. */
KIN_TEST(a_restart_that_is_a_window_old_does_not_count, "SUP-BUDGET-EXCEEDED")
{
    struct kin__history history;

    EXPECT(kin__history_init(&history, 1, 100));
    EXPECT(kin__history_add(&history, 1000));
    EXPECT(!kin__history_add(&history, 1099));
    EXPECT(kin__history_add(&history, 1100));
    EXPECT(!kin__history_add(&history, 1199));
    kin__history_fini(&history);
}

KIN_TEST(defaults_are_three_restarts_in_five_seconds_and_none_is_none, "")
{
    struct kin__history history;

    EXPECT(kin__history_init(&history, 0, 0));
    for (int i = 0; i < 3; i++)
        EXPECT(kin__history_add(&history, KIN_SEC(1) + i));
    EXPECT(!kin__history_add(&history, KIN_SEC(6) - 1));
    EXPECT(kin__history_add(&history, KIN_SEC(6)));
    kin__history_fini(&history);
    EXPECT(kin__history_init(&history, KIN_NO_RESTARTS, 0));
    EXPECT(!kin__history_add(&history, 5));
    kin__history_fini(&history);
}

KIN_TEST(a_history_that_cannot_grow_allows_no_more, "")
{
    struct kin__history history;
    unsigned added = 0;

    kin__plat_fail_after(1, false);
    EXPECT(!kin__history_init(&history, 100, 1000));
    kin__plat_fail_after(0, false);
    EXPECT(kin__history_init(&history, 100, 1000));
    kin__plat_fail_after(1, true);
    while (kin__history_add(&history, 5))
        added++;
    kin__plat_fail_after(0, false);
    EXPECT_LT(added, 100);
    EXPECT_GT(added, 0);
    while (kin__history_add(&history, 5))
        added++;
    EXPECT_EQ(added, 100);
    kin__history_fini(&history);
}

/* ---- the pace ---- */

KIN_TEST(delays_grow_by_the_factor_up_to_the_maximum, "")
{
    struct kin_backoff backoff = {100, 1000, 0, 0};
    struct kin__rng rng;
    int64_t delay = 0;

    kin__rng_init(&rng, 1, 1);
    EXPECT_EQ(kin__backoff_next(&backoff, &delay, &rng), 100);
    EXPECT_EQ(kin__backoff_next(&backoff, &delay, &rng), 200);
    EXPECT_EQ(kin__backoff_next(&backoff, &delay, &rng), 400);
    EXPECT_EQ(kin__backoff_next(&backoff, &delay, &rng), 800);
    EXPECT_EQ(kin__backoff_next(&backoff, &delay, &rng), 1000);
    EXPECT_EQ(kin__backoff_next(&backoff, &delay, &rng), 1000);
    backoff = (struct kin_backoff){INT64_MAX / 2, INT64_MAX, UINT32_MAX, 100};
    delay = 0;
    for (int i = 0; i < 10; i++)
        EXPECT_GE(kin__backoff_next(&backoff, &delay, &rng), 0); /* nothing wraps */
    backoff = (struct kin_backoff){KIN_SEC(50), 0, 150, 0};
    delay = 0;
    EXPECT_EQ(kin__backoff_next(&backoff, &delay, &rng), KIN_SEC(50));
    EXPECT_EQ(kin__backoff_next(&backoff, &delay, &rng), KIN_SEC(60)); /* the usual maximum */
    backoff = (struct kin_backoff){0, 0, 0, 0};
    delay = 0;
    EXPECT_EQ(kin__backoff_next(&backoff, &delay, &rng), 0);
}

KIN_TEST(jitter_stays_within_its_share_and_repeats_with_its_seed, "")
{
    struct kin_backoff backoff = {1000, 8000, 200, 25};
    uint64_t seed = kin_test_seed();
    bool is_below = false, is_above = false;

    for (int round = 0; round < 200; round++) {
        struct kin__rng one, two;
        int64_t plain = 1000, delay = 0, again = 0;
        kin__rng_init(&one, seed, (uint64_t)round);
        two = one;
        for (int i = 0; i < 5; i++) {
            int64_t wait = kin__backoff_next(&backoff, &delay, &one);
            EXPECT_EQ(wait, kin__backoff_next(&backoff, &again, &two));
            EXPECT_EQ(delay, plain);
            EXPECT_GE(wait, plain - plain / 4);
            EXPECT_LE(wait, plain + plain / 4);
            EXPECT_LE(wait, 8000);
            is_below |= wait < plain;
            is_above |= wait > plain;
            plain = plain * 2 < 8000 ? plain * 2 : 8000;
        }
    }
    EXPECT(is_below && is_above);
}

KIN_TEST(a_backoff_that_makes_no_sense_is_known, "")
{
    EXPECT(kin__backoff_is_valid(&(struct kin_backoff){0, 0, 0, 0}));
    EXPECT(kin__backoff_is_valid(&(struct kin_backoff){5, 5, 50, 100}));
    EXPECT(!kin__backoff_is_valid(&(struct kin_backoff){-1, 0, 0, 0}));
    EXPECT(!kin__backoff_is_valid(&(struct kin_backoff){0, -1, 0, 0}));
    EXPECT(!kin__backoff_is_valid(&(struct kin_backoff){5, 4, 0, 0}));
    EXPECT(!kin__backoff_is_valid(&(struct kin_backoff){5, 0, 0, 101}));
}
