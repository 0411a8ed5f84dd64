/* SPDX-License-Identifier: MIT */
/*
 * What the tests of locks and friends share: who is in line, and a nursery of waiters that get in
 * line one after the other, whatever the number of workers.
 */
#ifndef KIN_TEST_IN_LINE_H
#define KIN_TEST_IN_LINE_H

#include "api/in_runtime.h"

#include "wait/crowd.h"

/* How many are in line. */
__attribute__((unused)) static unsigned in_line(struct kin__crowd *crowd)
{
    unsigned count = 0;
    kin__crowd_take(crowd);
    if (!kin__waitq_is_empty(&crowd->queue)) {
        KIN__LIST_EACH(link, &crowd->queue.list)
            count++;
    }
    kin__crowd_give(crowd);
    return count;
}

/* Lets others run until so many are in line. */
__attribute__((unused)) static void await_in_line(struct kin__crowd *crowd, unsigned count)
{
    while (in_line(crowd) != count) /* ends: by the alarm of the test at the latest */
        kin_ignore(kin_yield());
}

/* Nobody is in line, no waker is between two batches, the lock is free. */
__attribute__((unused)) static void expect_quiet(struct kin__crowd *crowd)
{
    EXPECT_EQ(in_line(crowd), 0);
    kin__crowd_take(crowd);
    EXPECT_EQ(crowd->sweeps, 0);
    kin__crowd_give(crowd);
    EXPECT(kin__crowd_is_quiet(crowd));
}

enum { IN_LINE_MAX = 512 };

/* A task that waits at an object; what it does there is the test's. */
struct in_line {
    void *object;
    int number;
    kin_time deadline;
    int rc;
};

/* Tasks that wait at one object, in the order of their numbers. */
struct line {
    struct kin_nursery nursery;
    struct kin__crowd *crowd;
    kin_task_fn *fn;
    void *object;
    int count;
    struct in_line waiters[IN_LINE_MAX];
    struct kin_task_ref refs[IN_LINE_MAX];
};

__attribute__((unused)) static void line_open(struct line *line, struct kin__crowd *crowd,
                                              kin_task_fn *fn, void *object)
{
    line->crowd = crowd;
    line->fn = fn;
    line->object = object;
    line->count = 0;
    EXPECT_EQ(kin_nursery_open(&line->nursery, NULL), 0);
}

/* One more, which is in line at some time. */
__attribute__((unused)) static void line_spawn(struct line *line, kin_time deadline)
{
    int i = line->count++;
    line->waiters[i] = (struct in_line){line->object, i, deadline, 1};
    EXPECT_EQ(kin_spawn_with(&line->nursery, NULL, line->fn, &line->waiters[i], 0, &line->refs[i]),
              0);
}

/* One more; returns when it is in line. */
__attribute__((unused)) static void line_add(struct line *line, kin_time deadline)
{
    unsigned before = in_line(line->crowd);
    line_spawn(line, deadline);
    await_in_line(line->crowd, before + 1);
}

/* Cancels one of them and waits until it has left the line. */
__attribute__((unused)) static void line_cancel(struct line *line, int i)
{
    unsigned before = in_line(line->crowd);
    EXPECT_EQ(kin_task_cancel(line->refs[i]), 0);
    await_in_line(line->crowd, before - 1);
}

__attribute__((unused)) static void line_join(struct line *line)
{
    EXPECT_EQ(kin_nursery_join(&line->nursery, NULL), 0);
    expect_quiet(line->crowd);
}

#endif
