/* SPDX-License-Identifier: MIT */
/*
 * Goal: a runtime whose workers are all blocked in foreign calls while tasks wait says so, once.
 * Method: tasks block until the report has come, so that a report that does not come is a test that
 * does not end.
 */
#include "kin_test.h"

#include <kin/kin.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OTHERS = 50 };

struct standstill {
    int standing; /* tasks that block: one more than there are workers */
    atomic_uint ran, blocked, reports;
    atomic_bool is_over;
    char text[8192];
};

static int run_meanwhile(void *arg)
{
    struct standstill *still = arg;
    still->ran++;
    return 0;
}

static void keep_report(const struct kin_report *report, void *arg)
{
    struct standstill *still = arg;
    if (report->status == KIN_STUCK && atomic_fetch_add(&still->reports, 1) == 0) {
        (void)snprintf(still->text, sizeof still->text, "%s", report->text);
        still->is_over = true;
    }
}

/* A call that kin does not know, and a name that is found again in the report. */
static __attribute__((noinline)) void sleep_in_foreign_code(struct standstill *still)
{
    while (!still->is_over) /* ends: with the report */
        usleep(200000);
}

static int block_until_told(void *arg)
{
    struct standstill *still = arg;
    still->blocked++;
    sleep_in_foreign_code(still);
    return 0;
}

static int stand_still(void *arg)
{
    struct standstill *still = arg;
    KIN_NURSERY(n);
    for (int i = 0; i < OTHERS; i++)
        EXPECT_EQ(kin_spawn(&n, run_meanwhile, still), 0);
    for (int i = 0; i < still->standing; i++)
        EXPECT_EQ(kin_spawn(&n, block_until_told, still), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_standstill_in_foreign_calls_is_told_once_with_names_and_places, "C7 N2002 EP:7.3")
{
    struct kin_config config = KIN_CONFIG_INIT;
    static struct standstill still = {.standing = 2};
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    config.workers = config.workers_max = 1;
    config.on_report = keep_report;
    config.report_arg = &still;
    EXPECT_EQ(kin_run(&config, stand_still, &still), 0);
    printf("%s\n", still.text);
    EXPECT_EQ(still.reports, 1);
    EXPECT_EQ(still.ran, OTHERS);
    EXPECT(strstr(still.text, "all 1 workers are blocked") != NULL);
    EXPECT(strstr(still.text, "worker 0, for ") != NULL);
    EXPECT(strstr(still.text, "entry block_until_told") != NULL ||
           strstr(still.text, "entry 0x") != NULL);
    EXPECT(strstr(still.text, "\n    ") != NULL); /* a line of the backtrace, at least */
}

KIN_TEST(a_standstill_of_many_workers_names_eight_and_counts_the_others, "C7 N2002 EP:7.3")
{
    struct kin_config config = KIN_CONFIG_INIT;
    static struct standstill still = {.standing = 12};
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    config.workers = config.workers_max = 11;
    config.on_report = keep_report;
    config.report_arg = &still;
    EXPECT_EQ(kin_run(&config, stand_still, &still), 0);
    printf("%s\n", still.text);
    EXPECT(strstr(still.text, "all 11 workers are blocked") != NULL);
    EXPECT(strstr(still.text, "worker 7, for ") != NULL);
    EXPECT(strstr(still.text, "worker 8, for ") == NULL);
    EXPECT(strstr(still.text, "and 3 others") != NULL);
}
