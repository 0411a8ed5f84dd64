/* SPDX-License-Identifier: MIT */
/*
 * Goal: which failure a task ends with, for everything that a body can come to and everything that
 *       the task may remember of its nurseries.
 * Method: white box, a table; the task is a frame of this test's own.
 */
#include "kin_test.h"

#include "task/cause.h"
#include "task/word.h"

#include <errno.h>
#include <string.h>

enum { LEFT = -ENOENT, JOINED = -EPIPE, OWN = -EIO };

static void make_running(struct kin__task *task)
{
    memset(task, 0, sizeof *task);
    kin__word_init(task);
}

/* What a task ends with that has left or joined nurseries with these failures (0: none). */
static int end_with(int left, int joined, bool is_asked, int rc)
{
    struct kin__task task;
    make_running(&task);
    if (joined)
        kin__cause_joined(&task, joined);
    if (left)
        kin__cause_left(&task, left);
    return kin__cause_of(&task, rc, is_asked);
}

KIN_TEST(a_task_ends_with_the_cause_and_not_with_an_echo_of_it, "NSM:8.1 B5")
{
    static const struct {
        int left, joined;
        bool is_asked;
        int rc, end;
    } rows[] = {
        {0, 0, false, 7, 7},
        {0, 0, false, OWN, OWN},
        {0, 0, false, KIN_CANCELLED, KIN_CANCELLED},
        {LEFT, 0, false, 7, LEFT}, /* nobody was told */
        {LEFT, 0, false, OWN, OWN},
        {LEFT, 0, false, KIN_CANCELLED, LEFT},
        {LEFT, 0, true, KIN_CANCELLED, LEFT}, /* an error wins over a cancellation */
        {LEFT, 0, false, KIN_NOSCOPE, LEFT},
        {LEFT, 0, false, KIN_CLOSED, LEFT},
        {LEFT, 0, false, KIN_TIMEOUT, KIN_TIMEOUT},
        {0, JOINED, false, 7, 7}, /* the body was told */
        {0, JOINED, false, OWN, OWN},
        {0, JOINED, false, KIN_CLOSED, KIN_CLOSED},
        {0, JOINED, false, KIN_CANCELLED, JOINED},
        {0, JOINED, true, KIN_CANCELLED, KIN_CANCELLED}, /* by whoever asked */
        {0, JOINED, false, KIN_NOSCOPE, JOINED},
        {LEFT, JOINED, false, 7, LEFT},
        {LEFT, JOINED, false, KIN_NOSCOPE, LEFT},
        {0, INT32_MIN, false, KIN_NOSCOPE, -INT32_MAX}, /* nothing overflows */
        {INT32_MIN, 0, false, 7, INT32_MIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        EXPECT_EQ(end_with(rows[i].left, rows[i].joined, rows[i].is_asked, rows[i].rc),
                  rows[i].end);
}

KIN_TEST(the_first_nursery_that_is_left_counts_and_the_last_that_is_joined, "NSM:8.1")
{
    struct kin__task task;
    make_running(&task);
    kin__cause_joined(&task, OWN);
    kin__cause_joined(&task, JOINED);
    EXPECT_EQ(kin__cause_of(&task, KIN_NOSCOPE, false), JOINED);
    kin__cause_joined(&task, 0); /* what comes next is from elsewhere */
    EXPECT_EQ(kin__cause_of(&task, KIN_NOSCOPE, false), KIN_NOSCOPE);
    kin__cause_left(&task, LEFT);
    kin__cause_left(&task, OWN);
    kin__cause_joined(&task, JOINED);
    kin__cause_joined(&task, 0);
    EXPECT_EQ(kin__cause_of(&task, 0, false), LEFT);
}

KIN_TEST(a_task_that_unwinds_keeps_its_status_unless_that_is_an_echo, "NSM:8.1")
{
    static const struct {
        unsigned flags;
        int status, end;
    } rows[] = {
        {KIN__TASK_FAILED, OWN, OWN},
        {KIN__TASK_FAILED, KIN_CANCELLED, LEFT},
        {KIN__TASK_FAILED | KIN__TASK_PANICKED, KIN_PANICKED, KIN_PANICKED},
        {KIN__TASK_FAILED | KIN__TASK_PANICKED, KIN_CLOSED, KIN_CLOSED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kin__task task;
        make_running(&task);
        task.flags = (uint16_t)rows[i].flags;
        task.status = rows[i].status;
        kin__cause_joined(&task, JOINED);
        EXPECT_EQ(task.status, rows[i].status);
        kin__cause_left(&task, LEFT);
        EXPECT_EQ(task.status, rows[i].end);
    }
}
