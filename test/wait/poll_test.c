/* SPDX-License-Identifier: MIT */
/*
 * Goal: the table of descriptors: generations, bits that stay for whoever comes next, limits.
 * Method: white box: operations begun by hand on pipes inside a task.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include "wait/poll.h"

#include <kin/io.h>
#include <kin/net.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static int keep_bits(void *arg)
{
    int fds[2];
    struct kin__fd fd, again;
    (void)arg;
    EXPECT_EQ(pipe2(fds, O_NONBLOCK), 0);
    fds[0] = renumber(fds[0], NUMBER_OF_OURS);
    EXPECT_EQ(kin__fd_begin(fds[0], &fd), 0);
    EXPECT_EQ(kin__fd_prepare(&fd), 0);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    struct kin__fd_case one = {fd, KIN__READY_READ};
    int status = 0;
    for (int i = 0; i < 1000 && !kin__fd_waitable.try_complete(&one, NULL, &status); i++)
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0); /* somebody polls meanwhile */
    EXPECT_EQ(status, KIN__READY_READ); /* nobody waited: it was kept */
    EXPECT(!kin__fd_waitable.try_complete(&one, NULL, &status)); /* and taken */
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, kin_after(KIN_MS(1))), KIN__READY_READ);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT(kin__fd_waitable.try_complete(&one, NULL, &status));
    EXPECT_EQ(status, KIN_CLOSED);
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, KIN_NEVER), KIN_CLOSED);
    int reused = renumber(dup(fds[1]), NUMBER_OF_OURS); /* the same number, another descriptor */
    EXPECT_EQ(kin__fd_begin(reused, &again), 0);
    EXPECT_NE(again.generation, fd.generation);
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, KIN_NEVER), KIN_CLOSED);
    EXPECT_EQ(kin_close(reused), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(an_event_that_nobody_waited_for_is_kept, "A9")
{
    EXPECT_EQ(run_reporting(1, keep_bits, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, keep_bits, NULL, NULL), 0);
}

static int reach_limits(void *arg)
{
    struct kin__fd fd;
    (void)arg;
    EXPECT_EQ(kin__fd_begin(-1, &fd), -EBADF);
    EXPECT_EQ(kin__fd_begin(1 << 22, &fd), -EBADF);
    EXPECT_EQ(kin__fd_begin((1 << 22) - 1, &fd), -EBADF);
    FILE *file = tmpfile();
    EXPECT(file != NULL);
    EXPECT_EQ(kin__fd_begin(fileno(file), &fd), 0);
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, KIN_NEVER), -EPERM); /* a file is always ready */
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, 0), KIN_TIMEOUT);
    fclose(file);
    return 0;
}

KIN_TEST(numbers_beyond_the_table_and_files_are_refused, "")
{
    EXPECT_EQ(run_reporting(1, reach_limits, NULL, NULL), 0);
}

static int fail_to_start(void *arg)
{
    int fds[2];
    struct kin__fd fd;
    (void)arg;
    EXPECT_EQ(pipe2(fds, O_NONBLOCK), 0);
    EXPECT_EQ(kin__fd_begin(fds[0], &fd), 0);
    int rc = -ENOMEM;
    uint64_t n = 0;
    while (rc == -ENOMEM) { /* ends: when all that it asks for is granted */
        kin__plat_fail_after(++n, false);
        rc = kin__fd_wait(&fd, KIN__READY_READ, kin_after(1));
    }
    kin__plat_fail_after(0, false);
    EXPECT_EQ(rc, KIN_TIMEOUT);
    EXPECT_GT(n, 3);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(no_memory_for_the_poller_is_told_and_leaves_nothing, "")
{
    EXPECT_EQ(run_reporting(1, fail_to_start, NULL, NULL), 0);
}

/* Lets somebody poll until an event of the descriptor was counted. */
static void await_event(const struct kin__fd *fd)
{
    /* relaxed: a count that grows */
    while (kin__load_relaxed(&fd->entry->events[0]) == fd->seen[0]) /* ends: it was written to */
        EXPECT_EQ(kin_sleep(kin_after(100000)), 0);
}

/* Two operations that both failed before the event: each tries again, not only the first. */
static int share_an_event(void *arg)
{
    int fds[2], status = 0;
    struct kin__fd_case first = {.bit = KIN__READY_READ}, second = first, late = first;
    (void)arg;
    EXPECT_EQ(pipe2(fds, O_NONBLOCK), 0);
    EXPECT_EQ(kin__fd_begin_try(fds[0], &first.fd), 0);
    EXPECT_EQ(kin__fd_begin_try(fds[0], &second.fd), 0);
    EXPECT_EQ(kin__fd_prepare(&first.fd), 0);
    EXPECT_EQ(write(fds[1], "xy", 2), 2);
    await_event(&first.fd);
    EXPECT_EQ(kin__fd_begin(fds[0], &late.fd), 0); /* one that may have tried before it began */
    EXPECT(kin__fd_waitable.try_complete(&first, NULL, &status));
    EXPECT_EQ(status, KIN__READY_READ);
    EXPECT(kin__fd_waitable.try_complete(&second, NULL, &status));
    EXPECT_EQ(status, KIN__READY_READ);
    EXPECT(kin__fd_waitable.try_complete(&late, NULL, &status));
    EXPECT(!kin__fd_waitable.try_complete(&first, NULL, &status));
    EXPECT(!kin__fd_waitable.try_complete(&late, NULL, &status));
    EXPECT_EQ(kin__fd_begin(fds[0], &late.fd), 0);
    EXPECT(!kin__fd_waitable.try_complete(&late, NULL, &status)); /* it was tried since */
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(everybody_who_failed_before_an_event_tries_again, "A9")
{
    EXPECT_EQ(run_reporting(1, share_an_event, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, share_an_event, NULL, NULL), 0);
}

/* ---- several who wait for one descriptor ---- */

#define LINE_BYTES 4

struct line {
    int fd;
    struct kin__fd_entry *entry;
    _Atomic uint64_t first; /* who came first, by id */
    _Atomic int got, stopped;
};

/* How many wait for reading. */
static int line_length(struct line *line)
{
    const struct kin__list *readers = &line->entry->readers.list;
    int length = 0;
    kin__lock_take(&line->entry->lock, KIN__RANK_WAIT);
    length += kin__load_relaxed(&line->entry->reader) != NULL; /* relaxed: under the lock */
    for (struct kin__list *link = readers->next; link && link != readers; link = link->next)
        length++; /* ends: at the head */
    kin__lock_give(&line->entry->lock, KIN__RANK_WAIT);
    return length;
}

static void await_line(struct line *line, int length)
{
    while (line_length(line) != length) /* ends: by the alarm */
        EXPECT_EQ(kin_sleep(kin_after(100000)), 0);
}

static void count_read(struct line *line, ssize_t got)
{
    if (got == KIN_CANCELLED)
        line->stopped++;
    else
        EXPECT_EQ(got, 1);
    line->got += got == 1;
}

static int read_one(void *arg)
{
    struct line *line = arg;
    uint64_t nobody = 0;
    char byte;
    atomic_compare_exchange_strong(&line->first, &nobody, kin_self().id);
    count_read(line, kin_read(line->fd, &byte, 1, KIN_NEVER));
    return 0;
}

/* Waits for something else first, so that the descriptor is not its first case. */
static int choose_one(void *arg)
{
    struct line *line = arg;
    char byte;
    struct kin_case cases[] = {KIN_CASE_AFTER(KIN_SEC(1000)), KIN_CASE_READ(line->fd)};
    int rc;
    do { /* ends: there is a byte for everybody */
        rc = kin_select(cases, 2, KIN_NEVER);
        rc = rc == 1 ? (int)kin_read(line->fd, &byte, 1, 0) : rc;
    } while (rc == KIN_TIMEOUT);
    count_read(line, rc);
    return 0;
}

/* The first one is told to stop and leaves its place; one who comes after has it, and all who are
 * left get a byte each. */
static int leave_the_line(void *arg)
{
    struct line line = {0};
    struct kin__fd fd;
    int fds[2];
    (void)arg;
    EXPECT_EQ(pipe2(fds, O_NONBLOCK), 0);
    line.fd = fds[0];
    EXPECT_EQ(kin__fd_begin_try(fds[0], &fd), 0);
    line.entry = fd.entry;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, read_one, &line), 0);
    await_line(&line, 1);
    EXPECT_EQ(kin_spawn(&n, read_one, &line), 0);
    EXPECT_EQ(kin_spawn(&n, choose_one, &line), 0);
    await_line(&line, 3);
    EXPECT_EQ(kin_task_cancel((struct kin_task_ref){line.first}), 0);
    while (line.stopped != 1) /* ends: by the alarm */
        EXPECT_EQ(kin_sleep(kin_after(100000)), 0);
    EXPECT_EQ(line_length(&line), 2);
    EXPECT_EQ(kin_spawn(&n, choose_one, &line), 0);
    EXPECT_EQ(kin_spawn(&n, read_one, &line), 0);
    await_line(&line, LINE_BYTES);
    EXPECT_EQ(write(fds[1], "abcd", LINE_BYTES), LINE_BYTES);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(line.got, LINE_BYTES);
    EXPECT_EQ(line_length(&line), 0);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(whoever_leaves_the_line_keeps_nobody_from_being_woken, "A9")
{
    EXPECT_EQ(run_reporting(1, leave_the_line, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, leave_the_line, NULL, NULL), 0);
}

/* All of a line hear of a close. */
static int close_the_line(void *arg)
{
    struct line *line = arg;
    char byte;
    EXPECT_EQ(kin_read(line->fd, &byte, 1, KIN_NEVER), KIN_CLOSED);
    line->stopped++;
    return 0;
}

static int close_under_a_line(void *arg)
{
    struct line line = {0};
    struct kin__fd fd;
    int fds[2];
    (void)arg;
    EXPECT_EQ(pipe2(fds, O_NONBLOCK), 0);
    line.fd = fds[0];
    EXPECT_EQ(kin__fd_begin_try(fds[0], &fd), 0);
    line.entry = fd.entry;
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_spawn(&n, close_the_line, &line), 0);
    await_line(&line, 3);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(line.stopped, 3);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(all_of_a_line_hear_of_a_close, "")
{
    EXPECT_EQ(run_reporting(1, close_under_a_line, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, close_under_a_line, NULL, NULL), 0);
}

/* A number is not free while a call on it is under way. */
static int close_under_a_call(void *arg)
{
    int fds[2];
    struct kin__fd fd, other;
    (void)arg;
    EXPECT_EQ(pipe2(fds, O_NONBLOCK), 0);
    fds[0] = renumber(fds[0], NUMBER_OF_OURS);
    EXPECT_EQ(kin__fd_begin_try(fds[0], &fd), 0);
    EXPECT(kin__fd_enter(&fd));
    EXPECT(kin__fd_enter(&fd)); /* two of them */
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(fcntl(fds[0], F_GETFD), 0); /* still open */
    EXPECT_EQ(kin_close(fds[0]), -EBADF); /* and closed all the same */
    EXPECT_EQ(kin__fd_begin_try(fds[0], &other), -EBADF);
    EXPECT(!kin__fd_enter(&fd));
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, KIN_NEVER), KIN_CLOSED);
    kin__fd_leave(&fd);
    EXPECT_EQ(fcntl(fds[0], F_GETFD), 0);
    kin__fd_leave(&fd);
    EXPECT_EQ(fcntl(fds[0], F_GETFD), -1);
    EXPECT(!kin__fd_enter(&fd));
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(whoever_leaves_last_closes, "")
{
    EXPECT_EQ(run_reporting(1, close_under_a_call, NULL, NULL), 0);
}

static void connect_both(int *client, int *server)
{
    int listener;
    char addr[KIN_ADDR_MAX];
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
    EXPECT_EQ(kin_tcp_connect(addr, client, KIN_NEVER), 0);
    EXPECT_EQ(kin_accept(listener, server, KIN_NEVER), 0);
    EXPECT_EQ(kin_close(listener), 0);
}

static int pass_a_byte(void *arg)
{
    char byte = 0;
    int *fds = arg;
    if (fds[0] < 0)
        connect_both(&fds[0], &fds[1]);
    EXPECT_EQ(kin_read(fds[1], &byte, 1, kin_after(KIN_MS(1))), KIN_TIMEOUT); /* it is watched */
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_write(fds[0], "z", 1, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_fd_wait(fds[1], 1 /* POLLIN */, KIN_NEVER), 1);
        EXPECT_EQ(kin_read(fds[1], &byte, 1, KIN_NEVER), 1);
    }
    EXPECT_EQ(kin_read(fds[1], &byte, 1, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    return kin_nursery_join(&n, NULL);
}

static int read_in_vain(void *arg)
{
    char byte;
    return (int)kin_read(((int *)arg)[1], &byte, 1, KIN_NEVER);
}

static int wake_a_reader(void *arg)
{
    int *fds = arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, read_in_vain, fds), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0); /* it is parked by now, or finds the byte */
    EXPECT_EQ(kin_write(fds[0], "z", 1, NULL, KIN_NEVER), 0);
    return kin_nursery_join(&n, NULL);
}

/* A descriptor outlives the runtime that watched it; the next one may have the same number. */
KIN_TEST(a_descriptor_is_watched_by_the_runtime_that_uses_it, "")
{
    int fds[2] = {-1, -1};
    EXPECT_EQ(run_reporting(1, pass_a_byte, fds, NULL), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(run_reporting(1, wake_a_reader, fds, NULL), 0);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
}

/* ---- short reads ---- */

/* Reads until there are count bytes, with a buffer that is never filled. */
static void read_count(int fd, size_t count, const char *expected)
{
    char buf[64];
    size_t have = 0;
    while (have < count) { /* ends: the peer has sent as many */
        ssize_t got = kin_read(fd, buf + have, sizeof(buf) - have, KIN_NEVER);
        EXPECT_GT(got, 0);
        have += (size_t)got;
    }
    EXPECT_EQ(have, count);
    EXPECT_EQ(memcmp(buf, expected, count), 0);
}

/* After a short read the next one does not try before an event: whatever comes together with the
 * data, or right behind it, must still be found. */
static int read_short(void *arg)
{
    int client, server;
    char buf[64];
    (void)arg;
    for (int i = 0; i < 50; i++) {
        connect_both(&client, &server);
        for (int j = 0; j < 3; j++) {
            EXPECT_EQ(kin_write(client, "abc", 3, NULL, KIN_NEVER), 0);
            read_count(server, 3, "abc");
        }
        EXPECT_EQ(kin_write(client, "abc", 3, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_read(server, buf, sizeof(buf), 0), 3); /* without waiting it does try */
        EXPECT_EQ(kin_read(server, buf, 0, KIN_NEVER), 0);
        EXPECT_EQ(kin_write(client, "abc", 3, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_read(server, buf, sizeof(buf), 1), 3); /* nor past a deadline: it is there */
        if (i % 3 == 0) { /* urgent data ends a read early, and more follows */
            EXPECT_EQ(send(client, "12", 2, 0), 2);
            EXPECT_EQ(send(client, "!", 1, MSG_OOB), 1);
            EXPECT_EQ(send(client, "34", 2, 0), 2);
            read_count(server, 4, "1234");
        }
        if (i % 2)
            EXPECT_EQ(kin_write(client, "end", 3, NULL, KIN_NEVER), 0);
        EXPECT_EQ(i % 5 ? kin_shutdown(client, SHUT_WR) : kin_close(client), 0);
        if (i % 2)
            read_count(server, 3, "end");
        EXPECT_EQ(kin_read(server, buf, sizeof(buf), KIN_NEVER), 0);
        EXPECT_EQ(kin_read(server, buf, sizeof(buf), KIN_NEVER), 0);
        EXPECT_EQ(kin_close(server), 0);
        if (i % 5)
            EXPECT_EQ(kin_close(client), 0);
    }
    return 0;
}

KIN_TEST(a_short_read_hides_nothing_that_follows, "")
{
    EXPECT_EQ(run_reporting(1, read_short, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, read_short, NULL, NULL), 0);
}

/* Several tasks accept from one listener: none sleeps while a connection waits. */
#define ACCEPTORS 4
#define CONNECTIONS 400

struct crowd {
    int listener;
    _Atomic int accepted;
};

static int accept_some(void *arg)
{
    struct crowd *crowd = arg;
    int conn;
    while (atomic_load(&crowd->accepted) < CONNECTIONS) { /* ends: as many come */
        int rc = kin_accept(crowd->listener, &conn, KIN_NEVER);
        if (rc == KIN_CLOSED || rc == -EBADF)
            return 0;
        EXPECT_EQ(rc, 0);
        EXPECT_EQ(kin_close(conn), 0);
        if (atomic_fetch_add(&crowd->accepted, 1) + 1 == CONNECTIONS)
            return kin_close(crowd->listener);
        /* one that takes its time: the others must take over */
        EXPECT_EQ(kin_sleep(kin_after(20000)), 0);
    }
    return 0;
}

static int accept_in_a_crowd(void *arg)
{
    struct crowd crowd = {0};
    char addr[KIN_ADDR_MAX];
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &crowd.listener), 0);
    EXPECT_EQ(kin_local_addr(crowd.listener, addr, sizeof(addr)), 0);
    KIN_NURSERY(n);
    for (int i = 0; i < ACCEPTORS; i++)
        EXPECT_EQ(kin_spawn(&n, accept_some, &crowd), 0);
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd;
        EXPECT_EQ(kin_tcp_connect(addr, &fd, KIN_NEVER), 0);
        EXPECT_EQ(kin_close(fd), 0);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_crowd_of_acceptors_misses_nobody, "")
{
    EXPECT_EQ(run_reporting(1, accept_in_a_crowd, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, accept_in_a_crowd, NULL, NULL), 0);
}
