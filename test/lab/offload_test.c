/* SPDX-License-Identifier: MIT */
/*
 * Goal: blocking calls work in the lab, as steps of their own, and what is outside of the process
 * answers that it is not there.
 * Method: calls that note what they see; descriptors, files and programs that are there elsewhere.
 */
#include "lab/in_lab.h"

#include <kin/blocking.h>
#include <kin/file.h>
#include <kin/io.h>
#include <kin/process.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

static int work(void *arg)
{
    kin_lab_assert(kin_yield() == KIN_NOTASK, "it is no task");
    return ++*(int *)arg;
}

static int call(void *arg)
{
    int result = 0;
    KIN_LAB_OK(kin_blocking(work, arg, &result, KIN_NEVER));
    kin_lab_assert(result > 0, "its result is given back");
    return 0;
}

static int call_twice(void *arg)
{
    int count = 0;
    (void)arg;
    {
        KIN_NURSERY(n);
        KIN_LAB_OK(kin_spawn(&n, call, &count));
        KIN_LAB_OK(kin_spawn(&n, call, &count));
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    kin_lab_assert(count == 2, "each runs once");
    return 0;
}

KIN_TEST(blocking_calls_are_steps, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 100, call_twice, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, call_twice, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT_GT(report.executions, 1);
}

static int call_cancelled(void *arg)
{
    int result;
    while (!kin_cancelled())
        kin_ignore(kin_yield());
    kin_lab_assert(kin_blocking(work, arg, &result, KIN_NEVER) == KIN_CANCELLED, "not begun");
    return KIN_CANCELLED;
}

static int cancel_a_caller(void *arg)
{
    int count = 0;
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, call_cancelled, &count));
    kin_nursery_cancel(&n, 0);
    kin_ignore(kin_nursery_join(&n, NULL));
    kin_lab_assert(count == 0, "nothing was called");
    return 0;
}

KIN_TEST(a_cancelled_caller_does_not_begin, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 50, cancel_a_caller, NULL), 0);
    EXPECT_EQ(kin_blocking(work, NULL, NULL, KIN_NEVER), KIN_NOTASK);
}

static int send_one(void *arg)
{
    return kin_chan_send(arg, &(int){1}, KIN_NEVER);
}

static int send_from_outside(void *arg)
{
    struct kin_chan *chan;
    int value, sends = *(int *)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    for (int i = 0; i < sends; i++)
        KIN_LAB_OK(kin_blocking(send_one, chan, NULL, KIN_NEVER));
    KIN_LAB_OK(kin_chan_recv(chan, &value, KIN_NEVER));
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_blocking_call_that_would_wait_for_a_task_is_told_about, "")
{
    int sends = 1;
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 5, send_from_outside, &sends), 0);
    sends = 2; /* the channel is full */
    expect_oracle(send_from_outside, &sends, "check", KIN_PANICKED);
    EXPECT(strstr(report.text, "waits for a task") != NULL);
    sends = 1; /* and the next run is as good as any */
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 5, send_from_outside, &sends), 0);
}

static int reach_out(void *arg)
{
    int fd = -1;
    char byte;
    const char *const argv[] = {"true", NULL};
    struct kin_process *process;
    kin_lab_assert(kin_open("/dev/null", O_RDONLY, 0, &fd) == -ENOENT, "other files");
    kin_lab_assert(kin_process_start(argv, NULL, &process) == KIN_UNSUPPORTED, "no processes");
    kin_lab_assert(kin_read(*(int *)arg, &byte, 1, KIN_NEVER) == KIN_UNSUPPORTED, "no reads");
    kin_lab_assert(kin_fd_wait(*(int *)arg, POLLIN, 0) == KIN_UNSUPPORTED, "no waits");
    return 0;
}

KIN_TEST(what_is_outside_is_not_there, "")
{
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 10, reach_out, &fds[0]), 0);
}
