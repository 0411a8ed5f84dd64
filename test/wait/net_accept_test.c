/* SPDX-License-Identifier: MIT */
/*
 * Goal: a server survives what accept(2) can say: peers that gave up, a process or a system without
 * descriptors, interruptions; and what ends the wait for better times ends it.
 * Method: accept4 of this program answers with errors of a list before it asks the system.
 */
#include "api/in_runtime.h"

#include <kin/net.h>

#include <sys/syscall.h>
#include <unistd.h>

static int errors[16];          /* to be answered first, up to a 0 */
static _Atomic unsigned asked;  /* how often */
static bool is_without_end;     /* the first error again and again */

/* Takes the place of the C library's, whose header has types of its own for it. */
int accept4(int fd, void *addr, void *size, int flags);

int accept4(int fd, void *addr, void *size, int flags)
{
    unsigned number = atomic_fetch_add(&asked, 1);
    int error = is_without_end ? errors[0] : number < 16 ? errors[number] : 0;
    if (error) {
        errno = error;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, addr, size, flags);
}

static void answer_with(const int *list, size_t count, bool again_and_again)
{
    memset(errors, 0, sizeof errors);
    memcpy(errors, list, count * sizeof *list);
    is_without_end = again_and_again;
    atomic_store(&asked, 0);
}

/* A listener with somebody in its line. */
static void listen_and_call(int *listener, int *caller)
{
    char addr[KIN_ADDR_MAX];
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, listener), 0);
    EXPECT_EQ(kin_local_addr(*listener, addr, sizeof addr), 0);
    EXPECT_EQ(kin_tcp_connect(addr, caller, KIN_NEVER), 0);
}

static void hang_up(int listener, int caller)
{
    EXPECT_EQ(kin_close(listener), 0);
    EXPECT_EQ(kin_close(caller), 0);
}

static int survive(void *arg)
{
    static const int bad[] = {ECONNABORTED, EINTR, EMFILE, EPROTO, ENFILE, EPERM, ENOBUFS,
                              ENETDOWN, ENOMEM, EHOSTUNREACH, ECONNABORTED};
    int listener, caller, conn = -1;
    (void)arg;
    listen_and_call(&listener, &caller);
    answer_with(bad, sizeof bad / sizeof bad[0], false);
    EXPECT_EQ(kin_accept(listener, &conn, KIN_NEVER), 0);
    EXPECT_EQ(asked, sizeof bad / sizeof bad[0] + 1);
    EXPECT_EQ(kin_close(conn), 0);
    hang_up(listener, caller);
    return 0;
}

KIN_TEST(peers_that_gave_up_and_want_of_descriptors_are_survived, "")
{
    EXPECT_EQ(run_reporting(1, survive, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, survive, NULL, NULL), 0);
}

static int give_up(void *arg)
{
    static const int hopeless[] = {EOPNOTSUPP, EINVAL, EFAULT};
    int listener, caller, conn = 77;
    (void)arg;
    listen_and_call(&listener, &caller);
    for (size_t i = 0; i < sizeof hopeless / sizeof hopeless[0]; i++) {
        answer_with(&hopeless[i], 1, false);
        EXPECT_EQ(kin_accept(listener, &conn, KIN_NEVER), -hopeless[i]);
        EXPECT_EQ(asked, 1);
    }
    EXPECT_EQ(conn, 77);
    hang_up(listener, caller);
    return 0;
}

KIN_TEST(what_does_not_pass_is_told, "")
{
    EXPECT_EQ(run_reporting(1, give_up, NULL, NULL), 0);
}

static int accept_for_ever(void *arg)
{
    int conn;
    return kin_accept(*(int *)arg, &conn, KIN_NEVER);
}

/* There is never a descriptor: tries become rare, and a deadline, a cancel or a close end them. */
static int wait_for_better_times(void *arg)
{
    static const int scarce[] = {ENFILE};
    int listener, caller, conn;
    (void)arg;
    listen_and_call(&listener, &caller);
    answer_with(scarce, 1, true);
    EXPECT_EQ(kin_accept(listener, &conn, 0), KIN_TIMEOUT);
    kin_time until = kin_after(KIN_MS(40));
    EXPECT_EQ(kin_accept(listener, &conn, until), KIN_TIMEOUT);
    EXPECT_GE(kin_now(), until); /* not a moment before: one may be closed in the last one */
    EXPECT_LE(asked, 8); /* after 1, 2, 4, 8 ... ms */
    {
        KIN_NURSERY(n);
        unsigned before = asked;
        EXPECT_EQ(kin_spawn(&n, accept_for_ever, &listener), 0);
        while (asked < before + 2) /* ends: it tries again and again */
            EXPECT_EQ(kin_sleep(kin_after(KIN_US(100))), 0);
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    }
    KIN_NURSERY(n);
    unsigned before = asked;
    EXPECT_EQ(kin_spawn(&n, accept_for_ever, &listener), 0);
    while (asked < before + 2)
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(100))), 0);
    hang_up(listener, caller);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CLOSED);
    return 0;
}

KIN_TEST(the_wait_for_a_descriptor_can_be_ended, "")
{
    EXPECT_EQ(run_reporting(1, wait_for_better_times, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, wait_for_better_times, NULL, NULL), 0);
}

/* Nobody stays on the line, ever: others run meanwhile, and a cancel ends it. */
static int be_called_in_vain(void *arg)
{
    static const int gone[] = {ECONNABORTED};
    int listener, caller;
    (void)arg;
    listen_and_call(&listener, &caller);
    answer_with(gone, 1, true);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, accept_for_ever, &listener), 0);
    while (asked < 10) /* ends: it tries again and again */
        EXPECT_EQ(kin_yield(), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    hang_up(listener, caller);
    return 0;
}

KIN_TEST(peers_that_give_up_for_ever_keep_nobody_from_running, "")
{
    EXPECT_EQ(run_reporting(1, be_called_in_vain, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, be_called_in_vain, NULL, NULL), 0);
}
