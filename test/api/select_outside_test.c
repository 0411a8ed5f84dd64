/* SPDX-License-Identifier: MIT */
/*
 * Goal: a select waits for the ends of tasks and for descriptors beside channels and times.
 * Method: each kind alone and among others, ready at once and later, on one worker and on two.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include <kin/chan.h>
#include <kin/io.h>
#include <kin/select.h>

#include <sys/socket.h>
#include <unistd.h>

static void both(kin_task_fn *fn)
{
    EXPECT_EQ(run_reporting(1, fn, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, fn, NULL, NULL), 0);
}

static int sleep_a_moment(void *arg)
{
    EXPECT_EQ(kin_event_wait(arg, KIN_NEVER), 0);
    return kin_sleep(kin_after(KIN_MS(3)));
}

static int select_an_end(void *arg)
{
    struct kin_task_ref ref;
    struct kin_chan *chan;
    struct kin_event may_go = {{0}};
    int item = 0;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&chan, sizeof(int), 0), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_a_moment, &may_go, 0, &ref), 0);
    struct kin_case cases[] = {kin_case_recv(chan, &item), kin_case_task(ref),
                               kin_case_after(KIN_SEC(1000))};
    cases[1].status = 77;
    EXPECT_EQ(kin_select(cases, 3, 0), KIN_TIMEOUT);
    kin_event_set(&may_go);
    EXPECT_EQ(kin_select(cases, 3, KIN_NEVER), 1);
    EXPECT_EQ(cases[1].status, 0);
    EXPECT_EQ(kin_select(cases, 3, 0), 1); /* it stays over */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_select(cases, 3, 0), 1); /* for ever */
    cases[1] = kin_case_task((struct kin_task_ref){0});
    EXPECT_EQ(kin_select(cases, 3, 0), KIN_TIMEOUT);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(the_end_of_a_task_is_a_case, "A10")
{
    both(select_an_end);
}

static int write_later(void *arg)
{
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(3))), 0);
    return kin_write(*(int *)arg, "x", 1, NULL, KIN_NEVER);
}

static int select_descriptors(void *arg)
{
    int fds[2];
    char byte;
    struct kin_chan *chan;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&chan, 0, 1), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    fds[0] = renumber(fds[0], NUMBER_OF_OURS);
    for (int i = 0; i < 5; i++) {
        KIN_NURSERY(n);
        struct kin_case cases[] = {kin_case_recv(chan, NULL), kin_case_read(fds[0]),
                                   kin_case_read(-1)};
        EXPECT_EQ(kin_select(cases, 3, 0), KIN_TIMEOUT);
        EXPECT_EQ(kin_select(cases, 3, kin_after(KIN_MS(1))), KIN_TIMEOUT);
        EXPECT_EQ(kin_spawn(&n, write_later, &fds[1]), 0);
        EXPECT_EQ(kin_select(cases, 3, KIN_NEVER), 1);
        EXPECT_EQ(cases[1].status, 0);
        EXPECT_EQ(kin_select(cases, 3, 0), 1); /* nobody has read it */
        EXPECT_EQ(kin_read(fds[0], &byte, 1, 0), 1);
        EXPECT_EQ(kin_chan_send(chan, NULL, 0), 0);
        EXPECT_EQ(kin_select(cases, 3, KIN_NEVER), 0); /* and what came before is no news */
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    struct kin_case one[] = {kin_case_write(fds[0]), kin_case_after(KIN_SEC(1000))};
    EXPECT_EQ(kin_select(one, 2, KIN_NEVER), 0);
    EXPECT_EQ(one[0].status, 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    one[0] = kin_case_read(fds[0]);
    EXPECT_EQ(kin_select(one, 2, KIN_NEVER), 0); /* the end can be read */
    EXPECT_EQ(one[0].status, 0);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_select(one, 2, KIN_NEVER), 0);
    EXPECT_EQ(one[0].status, -EBADF);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_descriptor_is_a_case, "A10")
{
    both(select_descriptors);
}

static int close_later(void *arg)
{
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(3))), 0);
    return kin_close(*(int *)arg);
}

static int close_under_a_select(void *arg)
{
    int fds[2];
    (void)arg;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, close_later, &fds[0]), 0);
    struct kin_case cases[] = {kin_case_read(fds[0]), kin_case_after(KIN_SEC(1000))};
    EXPECT_EQ(kin_select(cases, 2, KIN_NEVER), 0);
    EXPECT(cases[0].status == KIN_CLOSED || cases[0].status == -EBADF);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(closing_a_descriptor_ends_a_select_on_it, "")
{
    both(close_under_a_select);
}

static int time_goes_on(void *arg)
{
    int fds[2];
    (void)arg;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct kin_case cases[] = {kin_case_read(fds[0]), kin_case_after(KIN_MS(5))};
    kin_time before = kin_now();
    EXPECT_EQ(kin_select(cases, 2, KIN_NEVER), 1);
    EXPECT_GE(kin_now() - before, KIN_MS(5));
    EXPECT_EQ(kin_select_ordered(cases, 2, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(a_time_beside_a_descriptor_comes, "")
{
    both(time_goes_on);
}
