/* SPDX-License-Identifier: MIT */
/*
 * Runs the tests of another file in the lab: each of its bodies, which call kin_run themselves,
 * under round-robin, random schedules, PCT and, bounded, DPOR.
 *
 *     #include "lab/conform.h"
 *     #include "api/chan_test.c"
 *
 * Included before that file, it takes the place of KIN_TEST. A test that is about threads, about
 * what is outside of the process or about chance is left out by name: define CONFORM_SKIP before,
 * as a list of strings. CONFORM_ONLY_TURNS lists tests that hold by turns only, because they count
 * on the order in which one worker runs its tasks.
 *
 * KIN_LAB_RUNS in the environment says how many schedules of each kind a test gets.
 */
#ifndef KIN_TEST_CONFORM_H
#define KIN_TEST_CONFORM_H

#include "kin_test.h"

#include <kin/lab.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_DEFAULT 30u

static void conform(const char *name, void (*body)(void));

#undef KIN_TEST_LIMIT
#define KIN_TEST_LIMIT(test_name, test_tags, seconds)                                              \
    static void conform_body_##test_name(void);                                                    \
    static void test_name(void)                                                                    \
    {                                                                                              \
        conform(#test_name, conform_body_##test_name);                                             \
    }                                                                                              \
    static struct kin_test kin_test_of_##test_name = {                                             \
        #test_name, "" test_tags, __FILE__, __LINE__, (seconds), test_name, NULL};                 \
    __attribute__((constructor)) static void kin_test_add_##test_name(void)                        \
    {                                                                                              \
        kin_test_add(&kin_test_of_##test_name);                                                    \
    }                                                                                              \
    static void conform_body_##test_name(void)

static int conform_run(void *body)
{
    void (*fn)(void);
    memcpy(&fn, body, sizeof(fn));
    fn();
    return 0;
}

static bool conform_lists(const char *const *list, const char *name)
{
    for (; *list; list++) {
        if (strcmp(*list, name) == 0)
            return true;
    }
    return false;
}

static void conform(const char *name, void (*body)(void))
{
    static const char *const skip[] = {CONFORM_SKIP NULL};
    static const char *const turns[] = {CONFORM_ONLY_TURNS NULL};
    static const enum kin_lab_strategy strategies[] = {KIN_LAB_ROUND_ROBIN, KIN_LAB_RANDOM,
                                                       KIN_LAB_PCT, KIN_LAB_DPOR};
    const char *wanted = getenv("KIN_LAB_RUNS");
    uint64_t runs = wanted ? strtoull(wanted, NULL, 0) : RUNS_DEFAULT / kin_test_scale() + 1;
    if (conform_lists(skip, name))
        return; /* its own stage runs it on real workers */
    unsigned count = conform_lists(turns, name) ? 1 : 4;
    for (unsigned i = 0; i < count; i++) {
        struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
        struct kin_lab_report report;
        config.strategy = strategies[i];
        config.executions_max = strategies[i] == KIN_LAB_ROUND_ROBIN ? 1 : runs;
        config.seed = kin_test_seed();
        config.oracles = ~(KIN_ORACLE_RESULT | KIN_ORACLE_OBLIGATION); /* tests leak on purpose */
        int rc = kin_lab_run_host(&config, conform_run, &body, &report);
        if (rc == -E2BIG && config.strategy == KIN_LAB_DPOR)
            continue; /* more tasks than it can search */
        if (rc < 0)
            printf("strategy %u\n%s\n", i, report.text);
        EXPECT_EQ(rc, 0);
    }
}

#endif
