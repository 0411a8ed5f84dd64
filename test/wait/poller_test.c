/* SPDX-License-Identifier: MIT */
/*
 * Goal: the poller of a runtime: which it is, what happens when it is refused, and that watches
 * that tell once are neither lost nor kept.
 * Method: runtimes with each poller, faults, small rings, descriptors closed behind kin's back.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "plat/uring.h"
#include "wait/poller.h"

#include <stdlib.h>
#include <kin/io.h>
#include <kin/net.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static void break_it(struct kin__uring_faults faults)
{
    kin__uring_break(&faults);
}

static int run_with(enum kin_poller poller, unsigned workers, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.poller = poller;
    config.workers = workers;
    return kin_run(&config, fn, arg);
}

/* Runs fn on one worker and on two. */
static void run_with_few(kin_task_fn *fn)
{
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 1, fn, NULL), 0);
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 2, fn, NULL), 0);
}

/* ---- which ---- */

static int name_it(void *arg)
{
    struct kin_stats stats;
    const char **name = arg;
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(kin_fd_wait(fds[0], POLLIN, kin_after(1)), KIN_TIMEOUT);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    *name = stats.poller;
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(the_poller_that_runs_is_told, "")
{
    const char *name = NULL;
    unsetenv("KIN_POLLER");
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 1, name_it, (void *)&name), 0);
    EXPECT_STR(name, "epoll");
    EXPECT_EQ(run_with(KIN_POLLER_EPOLL, 1, name_it, (void *)&name), 0);
    EXPECT_STR(name, "epoll");
    int rc = run_with(KIN_POLLER_URING, 1, name_it, (void *)&name);
    if (rc == KIN_UNSUPPORTED)
        return;
    EXPECT_EQ(rc, 0);
    EXPECT_STR(name, "epoll"); /* it is for files */
}

KIN_TEST(a_poller_that_is_refused_is_refused_by_name_only, "")
{
    static const int refusals[] = {-EPERM, -ENOSYS, -EINVAL, -EOPNOTSUPP};
    const char *name = NULL;
    for (unsigned i = 0; i < 4; i++) {
        break_it((struct kin__uring_faults){.setup = refusals[i]});
        EXPECT_EQ(run_with(KIN_POLLER_URING, 1, name_it, (void *)&name), KIN_UNSUPPORTED);
        EXPECT_EQ(setenv("KIN_POLLER", "uring", 1), 0); /* whoever does not insist gets the other */
        EXPECT_EQ(run_with(KIN_POLLER_AUTO, 1, name_it, (void *)&name), 0);
        EXPECT_STR(name, "epoll");
    }
    break_it((struct kin__uring_faults){.setup = -ENOMEM}); /* not for ever */
    EXPECT_EQ(run_with(KIN_POLLER_URING, 1, name_it, (void *)&name), -ENOMEM);
}

/* ---- descriptors that are closed behind our back ---- */

static int close_behind(void *arg)
{
    int fds[2], others[2];
    char byte = 0;
    (void)arg;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    fds[0] = renumber(fds[0], NUMBER_OF_OURS);
    EXPECT_EQ(kin_fd_wait(fds[0], POLLIN, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(close(fds[0]), 0); /* it is closed, and not kept */
    EXPECT_EQ(kin_read(fds[1], &byte, 1, KIN_NEVER), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    for (int i = 0; i < 20; i++) { /* the same number, another descriptor */
        EXPECT_EQ(pipe(others), 0);
        others[0] = renumber(others[0], NUMBER_OF_OURS);
        EXPECT_EQ(kin_fd_wait(others[0], POLLIN, kin_after(1000)), KIN_TIMEOUT);
        EXPECT_EQ(write(others[1], "x", 1), 1);
        EXPECT_EQ(kin_fd_wait(others[0], POLLIN, KIN_NEVER), POLLIN);
        EXPECT_EQ(close(others[0]), 0);
        EXPECT_EQ(close(others[1]), 0);
    }
    return 0;
}

KIN_TEST(what_the_program_closes_is_closed, "")
{
    unsetenv("KIN_POLLER");
    struct kin_config config = KIN_CONFIG_INIT;
    config.poller = KIN_POLLER_EPOLL;
    config.workers = 1;
    EXPECT_EQ(kin_run(&config, close_behind, NULL), 0);
    config.poller = KIN_POLLER_URING;
    for (config.workers = 1; config.workers <= 2; config.workers++) {
        int rc = kin_run(&config, close_behind, NULL);
        EXPECT(rc == 0 || rc == KIN_UNSUPPORTED);
    }
}

static int select_behind(void *arg)
{
    int fds[2];
    char byte = 0;
    (void)arg;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct kin_case cases[] = {kin_case_read(fds[0]), kin_case_after(KIN_MS(1))};
    EXPECT_EQ(kin_select(cases, 2, KIN_NEVER), 1);
    struct kin_case both[] = {kin_case_read(fds[0]), kin_case_write(fds[0])};
    EXPECT_EQ(kin_select(both, 2, KIN_NEVER), 1);
    EXPECT_EQ(kin_select(cases, 1, 0), KIN_TIMEOUT);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(kin_read(fds[1], &byte, 1, KIN_NEVER), 0); /* ends, or the alarm comes */
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(a_select_keeps_nothing_open, "")
{
    run_with_few(select_behind);
}

/* ---- closing ---- */

static int read_until_closed(void *arg)
{
    char byte;
    ssize_t rc = kin_read(*(int *)arg, &byte, 1, KIN_NEVER);
    EXPECT(rc == KIN_CLOSED || rc == -EBADF); /* the latter if it comes too late to wait */
    return 0;
}

/* The listener's address is free soon after it is closed, whoever watched it. */
static int listen_again(void *arg)
{
    int listener, conn, fds[2];
    char addr[KIN_ADDR_MAX], byte;
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.5:0", NULL, &listener), 0); /* where others take no port */
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof addr), 0);
    for (int i = 0; i < 20; i++) {
        int rc;
        EXPECT_EQ(kin_accept(listener, &conn, kin_after(100000)), KIN_TIMEOUT);
        EXPECT_EQ(kin_close(listener), 0);
        while ((rc = kin_tcp_listen(addr, NULL, &listener)) == -EADDRINUSE) /* ends: it is free */
            EXPECT_EQ(kin_sleep(kin_after(10000)), 0);
        EXPECT_EQ(rc, 0);
    }
    EXPECT_EQ(kin_close(listener), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_spawn(&n, read_until_closed, &fds[0]), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_read(fds[1], &byte, 1, KIN_NEVER), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(what_is_closed_while_it_is_watched_is_let_go, "")
{
    run_with_few(listen_again);
}

/* A worker watches, and then runs one task without entering the kernel; the other one closes. */
struct closing {
    int conn, peer;
    int at_once; /* how often the peer was told by the time that the close returned */
    _Atomic int is_ready, is_watched, is_over;
};

static int close_and_look(void *arg)
{
    struct closing *it = arg;
    char byte;
    atomic_store(&it->is_ready, 1);
    while (!atomic_load(&it->is_watched)) /* ends: the other sets it, or the alarm comes */
        continue;
    EXPECT_EQ(kin_close(it->conn), 0);
    it->at_once += recv(it->peer, &byte, 1, MSG_DONTWAIT) == 0;
    atomic_store(&it->is_over, 1);
    return 0;
}

static int watch_and_compute(void *arg)
{
    struct closing *it = arg;
    char byte;
    EXPECT_EQ(kin_read(it->conn, &byte, 1, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    atomic_store(&it->is_watched, 1);
    while (!atomic_load(&it->is_over)) /* ends: as above */
        continue;
    EXPECT_EQ(kin_read(it->peer, &byte, 1, KIN_NEVER), 0); /* in any case the peer is told */
    EXPECT_EQ(kin_close(it->peer), 0);
    return 0;
}

#define CLOSES 20

static int close_beside(void *arg)
{
    struct closing it = {.at_once = 0};
    int listener;
    char addr[KIN_ADDR_MAX];
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof addr), 0);
    for (int i = 0; i < CLOSES; i++) {
        EXPECT_EQ(kin_tcp_connect(addr, &it.peer, KIN_NEVER), 0);
        EXPECT_EQ(kin_accept(listener, &it.conn, KIN_NEVER), 0);
        it.is_ready = it.is_watched = it.is_over = 0;
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, close_and_look, &it), 0);
        while (!atomic_load(&it.is_ready)) /* ends: the other worker takes it */
            EXPECT_EQ(kin_sleep(kin_after(10000)), 0);
        EXPECT_EQ(watch_and_compute(&it), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    EXPECT_EQ(kin_close(listener), 0);
    EXPECT_GT(it.at_once, 0); /* not all: a thread may lose its CPU at any time */
    return 0;
}

KIN_TEST(a_peer_hears_of_the_end_when_the_close_returns, "")
{
    (void)unsetenv("KIN_HARD"); /* one worker computes, and is not replaced */
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 2, close_beside, NULL), 0);
}

/* ---- nothing is lost ---- */

static int read_byte(void *arg)
{
    char byte = 0;
    EXPECT_EQ(kin_read(*(int *)arg, &byte, 1, KIN_NEVER), 1);
    EXPECT_EQ(byte, 'k');
    return 0;
}

#define PAIRS 60

/* Many wait, all become ready at once. */
static int wake_many(void *arg)
{
    static int fds[PAIRS][2];
    (void)arg;
    for (int i = 0; i < PAIRS; i++)
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds[i]), 0);
    for (int round = 0; round < 3; round++) {
        KIN_NURSERY(n);
        for (int i = 0; i < PAIRS; i++)
            EXPECT_EQ(kin_spawn(&n, read_byte, &fds[i][0]), 0);
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0);
        for (int i = 0; i < PAIRS; i++)
            EXPECT_EQ(write(fds[i][1], "k", 1), 1);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    for (int i = 0; i < PAIRS; i++) {
        EXPECT_EQ(kin_close(fds[i][0]), 0);
        EXPECT_EQ(kin_close(fds[i][1]), 0);
    }
    return 0;
}

KIN_TEST(many_that_are_ready_at_once_are_all_woken, "")
{
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 1, wake_many, NULL), 0);
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 2, wake_many, NULL), 0);
}

/* ---- several runtimes ---- */

struct shared {
    int fds[2];
    enum kin_poller pollers[2];
    _Atomic int waiting, ended;
};

static int wait_shortly(void *arg)
{
    struct shared *shared = arg;
    EXPECT_EQ(kin_fd_wait(shared->fds[0], POLLIN, kin_after(KIN_MS(20))), KIN_TIMEOUT);
    return 0;
}

static int wait_long(void *arg)
{
    struct shared *shared = arg;
    EXPECT_EQ(kin_fd_wait(shared->fds[0], POLLIN, KIN_NEVER), POLLIN);
    return 0;
}

static void *run_short(void *arg)
{
    struct shared *shared = arg;
    EXPECT_EQ(run_with(shared->pollers[0], 1, wait_shortly, shared), 0);
    EXPECT_EQ(write(shared->fds[1], "x", 1), 1);
    return NULL;
}

/* Two runtimes wait for one descriptor; the one that watches it may be the first to end. */
KIN_TEST(a_watch_that_ends_with_its_runtime_is_not_missed_by_another, "")
{
    static const enum kin_poller pollers[][2] = {
        {KIN_POLLER_AUTO, KIN_POLLER_AUTO},
        {KIN_POLLER_AUTO, KIN_POLLER_EPOLL},
        {KIN_POLLER_EPOLL, KIN_POLLER_AUTO}};
    for (unsigned i = 0; i < 6; i++) {
        struct shared shared = {.pollers = {pollers[i % 3][0], pollers[i % 3][1]}};
        pthread_t thread;
        EXPECT_EQ(pipe2(shared.fds, O_NONBLOCK), 0);
        EXPECT_EQ(pthread_create(&thread, NULL, run_short, &shared), 0);
        usleep(i < 3 ? 5000 : 0);
        EXPECT_EQ(run_with(shared.pollers[1], 1, wait_long, &shared), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        EXPECT_EQ(close(shared.fds[0]), 0);
        EXPECT_EQ(close(shared.fds[1]), 0);
    }
}

/* What a runtime has opened and left open is not watched for ever. */
static int leave_open(void *arg)
{
    int *fds = arg;
    char addr[KIN_ADDR_MAX], byte;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &fds[2]), 0);
    EXPECT_EQ(kin_local_addr(fds[2], addr, sizeof addr), 0);
    EXPECT_EQ(kin_tcp_connect(addr, &fds[0], KIN_NEVER), 0);
    EXPECT_EQ(kin_accept(fds[2], &fds[1], KIN_NEVER), 0);
    EXPECT_EQ(kin_read(fds[0], &byte, 1, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    return 0;
}

static int use_after(void *arg)
{
    int *fds = arg;
    char byte = 0;
    EXPECT_EQ(kin_read(fds[0], &byte, 1, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(kin_write(fds[1], "k", 1, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_read(fds[0], &byte, 1, KIN_NEVER), 1);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_close(fds[i]), 0);
    return 0;
}

KIN_TEST(a_descriptor_goes_from_one_runtime_to_the_next, "")
{
    int fds[3] = {-1, -1, -1};
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 1, leave_open, fds), 0);
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 2, use_after, fds), 0);
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 1, leave_open, fds), 0);
    EXPECT_EQ(run_with(KIN_POLLER_EPOLL, 1, use_after, fds), 0);
}

/* ---- who polls while it rains ---- */

static int spin_until(void *arg)
{
    while (atomic_load((_Atomic int *)arg) == 0) /* ends: the other sets it, or the alarm comes */
        continue;
    return 0;
}

static int read_and_tell(void *arg)
{
    struct {
        int fd;
        _Atomic int done;
    } *it = arg;
    char byte;
    EXPECT_EQ(kin_read(it->fd, &byte, 1, KIN_NEVER), 1);
    atomic_store(&it->done, 1);
    return 0;
}

/* A worker that watched a descriptor runs one task without end: the other one sees the event. */
static int watch_and_spin(void *arg)
{
    int fds[2];
    struct {
        int fd;
        _Atomic int done;
    } it = {.done = 0};
    (void)arg;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    it.fd = fds[0];
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, read_and_tell, &it), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    EXPECT_EQ(kin_spawn(&n, spin_until, (void *)&it.done), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    EXPECT_EQ(write(fds[1], "k", 1), 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(a_busy_worker_keeps_no_event_back, "")
{
    (void)unsetenv("KIN_HARD"); /* one worker computes, and is not replaced */
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 2, watch_and_spin, NULL), 0);
}

static int ask_for_files(void *arg)
{
    *(bool *)arg = kin__poll_files() != NULL;
    return 0;
}

static int ask_for_files_later(void *arg)
{
    EXPECT_EQ(kin__watcher_start(kin__worker_self()->sched), 0);
    return ask_for_files(arg);
}

KIN_TEST(the_first_call_on_a_file_goes_the_way_of_all_others, "")
{
    bool has_ring = false, has_ring_at_once = false;
    unsetenv("KIN_POLLER");
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 1, ask_for_files_later, &has_ring), 0);
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, 1, ask_for_files, &has_ring_at_once), 0);
    EXPECT_EQ(has_ring_at_once, has_ring);
    if (!has_ring)
        KIN_SKIP("io_uring is refused here");
}
