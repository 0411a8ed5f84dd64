/* SPDX-License-Identifier: MIT */
/*
 * Goal: a duration where a deadline belongs is reported once for each place, with the call and the
 *       way to it; deadlines of every other kind are not.
 * Method: black box, with durations and with deadlines that passed; nothing is measured. A system
 *         that was started a minute ago cannot tell the two apart yet, and then nothing is tested.
 */
#include "api/in_runtime.h"

static bool can_tell(void)
{
    return kin_in_lab() || kin_now() > KIN_SEC(120);
}

static int mistake_all(void *arg)
{
    struct kin_chan *chan = arg;
    int item;
    EXPECT_EQ(kin_sleep(KIN_MS(1)), 0);
    EXPECT_EQ(kin_chan_recv(chan, &item, KIN_SEC(2)), KIN_TIMEOUT);
    kin_time before = kin_deadline_push(KIN_MS(50));
    kin_deadline_pop(before);
    KIN_NURSERY(n, .deadline = KIN_SEC(5));
    return kin_nursery_end(&n, 0);
}

/* One place, also for a compiler that unrolls the loop around it. */
static __attribute__((noinline)) int run_mistakes(struct kin_chan *chan, struct reports *reports)
{
    return run_reporting(1, mistake_all, chan, reports);
}

KIN_TEST(a_duration_where_a_deadline_belongs_is_reported_once_for_each_place, "")
{
    static const char *const calls[] = {"kin_sleep the deadline 1.00 ms", "the deadline 2.00 s",
                                        "kin_deadline_push the deadline 50.0 ms",
                                        "a nursery the deadline 5.00 s"};
    static struct reports reports;
    struct kin_chan *chan;
    if (!can_tell())
        return;
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(kin_chan_create(&chan, sizeof(int), 1), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(run_mistakes(chan, &reports), KIN_TIMEOUT);
    kin_chan_unref(chan);
    EXPECT_EQ(atomic_load(&reports.count), 4);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(reports.status[i], -EINVAL);
        EXPECT(strstr(reports.text[i], calls[i]) != NULL);
        EXPECT(strstr(reports.text[i], "kin_after(duration)") != NULL);
        EXPECT(strstr(reports.text[i], "\n  ") != NULL); /* the calls that led there */
    }
}

static int be_late(void *arg)
{
    struct kin_chan *chan = arg;
    int item;
    EXPECT_EQ(kin_sleep(0), 0);
    EXPECT_EQ(kin_sleep(-5), 0);
    EXPECT_EQ(kin_sleep(1), 0); /* what people write for "passed" */
    EXPECT_EQ(kin_sleep(kin_now() - KIN_MS(100)), 0);
    EXPECT_EQ(kin_chan_recv(chan, &item, kin_now() - KIN_SEC(10)), KIN_TIMEOUT);
    EXPECT_EQ(kin_chan_recv(chan, &item, kin_after(KIN_US(10))), KIN_TIMEOUT);
    kin_deadline_pop(kin_deadline_push(kin_after(KIN_MS(50))));
    KIN_WITHIN(KIN_MS(50));
    KIN_NURSERY(n, .deadline = kin_now() - KIN_SEC(1));
    return kin_nursery_end(&n, 0);
}

KIN_TEST(a_deadline_that_has_passed_is_no_duration, "")
{
    static struct reports reports;
    struct kin_chan *chan;
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(kin_chan_create(&chan, sizeof(int), 1), 0);
    EXPECT_EQ(run_reporting(1, be_late, chan, &reports), KIN_TIMEOUT);
    EXPECT_EQ(atomic_load(&reports.count), 0);
    kin_chan_unref(chan);
}
