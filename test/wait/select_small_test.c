/* SPDX-License-Identifier: MIT */
/*
 * Goal: a select of few cases, of whatever kind, asks for no memory; and one that is refused, or
 *       finds some of its cases wrong, has left nothing behind.
 * Method: every request for memory fails while selects of tasks, descriptors, channels, events and
 *         times are made, ready and waiting, up to eight at a time.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"

#include <kin/io.h>

#include <fcntl.h>
#include <unistd.h>

static struct kin_chan *chan;
static struct kin_event event;
static int ends[2];
static struct kin_task_ref sleeper;

/* One case of each kind, none of which is ready. */
static void fill(struct kin_case *cases)
{
    cases[0] = kin_case_task(sleeper);
    cases[1] = kin_case_read(ends[0]);
    cases[2] = kin_case_recv(chan, NULL);
    cases[3] = kin_case_event(&event);
    cases[4] = kin_case_after(KIN_SEC(1000));
    cases[5] = kin_case_task((struct kin_task_ref){0});
    cases[6] = kin_case_read(-1);
    cases[7] = kin_case_recv(NULL, NULL);
}

static int wake_select(void *arg)
{
    struct kin_case cases[8];
    fill(cases);
    *(int *)arg = kin_select(cases, 8, KIN_NEVER);
    return 0;
}

static int select_without_memory(void *arg)
{
    struct kin_case cases[9];
    char byte = 1;
    int index = -1;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&chan, 0, 1), 0);
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_for_ever, NULL, 0, &sleeper), 0);
    fill(cases);
    cases[8] = kin_case_after(0);
    /* from here on the descriptor is known */
    EXPECT_EQ(kin_select(cases, 8, kin_after(KIN_US(100))), KIN_TIMEOUT);
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_spawn(&inner, wake_select, &index), 0);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_yield(), 0); /* it waits, and has a stack */
    kin__plat_fail_after(1, true);
    EXPECT_EQ(kin_select(cases, 8, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_select(cases, 8, kin_after(KIN_US(100))), KIN_TIMEOUT);
    EXPECT_EQ(kin_select_ordered(cases, 8, 1), KIN_TIMEOUT);
    for (size_t first = 0; first < 8; first++)
        EXPECT_EQ(kin_select(cases + first, 8 - first, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_select(cases, 9, 0), -ENOMEM); /* one more needs some */
    EXPECT_EQ(write(ends[1], &byte, 1), 1);
    EXPECT_EQ(kin_select(cases, 2, KIN_NEVER), 1);
    EXPECT_EQ(cases[1].status, 0);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0); /* woken without memory, too */
    EXPECT_EQ(index, 1);
    EXPECT_EQ(kin_read(ends[0], &byte, 1, 0), 1);
    EXPECT_EQ(kin_task_cancel(sleeper), 0);
    EXPECT_EQ(kin_select(cases, 8, KIN_NEVER), 0);
    EXPECT_EQ(cases[0].status, 0);
    cases[7].kind = (enum kin_case_kind)99; /* found behind cases that have begun */
    EXPECT_EQ(kin_select(cases, 8, KIN_NEVER), -EINVAL);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(ends[0]), 0);
    EXPECT_EQ(kin_close(ends[1]), 0);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(selects_of_few_cases_of_every_kind_need_no_memory, "A10 N009")
{
    EXPECT_EQ(run_reporting(1, select_without_memory, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, select_without_memory, NULL, NULL), 0);
}
