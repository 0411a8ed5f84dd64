/* SPDX-License-Identifier: MIT */
/*
 * Goal: a descriptor that the program opened keeps its flags, which it shares with others, and a
 *       call on it still parks the task and not the thread.
 * Method: black box: one worker that is never replaced, so that a thread that waits hangs the test;
 *         pipes, sockets, terminals and counters that block. The C library's calls stand in for a
 *         kernel that knows no RWF_NOWAIT, and for a system without /proc.
 */
#define _GNU_SOURCE 1
#include "api/in_runtime.h"

#include <kin/file.h>
#include <kin/net.h>
#include <kin/reader.h>

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <termios.h>

enum { AS_IT_IS, NO_NOWAIT, NO_PROC, MODES };
static int mode;

/* ---- in place of the C library's ---- */

ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    if (mode == AS_IT_IS)
        return syscall(SYS_preadv2, fd, parts, (long)count, (long)at, 0L, flags);
    errno = EOPNOTSUPP;
    return -1;
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    if (mode == AS_IT_IS)
        return syscall(SYS_pwritev2, fd, parts, (long)count, (long)at, 0L, flags);
    errno = EOPNOTSUPP;
    return -1;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    int permissions = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
    va_end(more);
    if (mode == NO_PROC && strncmp(path, "/proc/self/fd/", 14) == 0) {
        errno = ENOENT;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, permissions);
}

/* ---- pairs of descriptors that block ---- */

static void make_pipe(int fds[2])
{
    EXPECT_EQ(pipe(fds), 0);
}

static void make_sockets(int fds[2])
{
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
}

static void make_terminal(int fds[2])
{
    struct termios raw;
    fds[0] = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_GE(fds[0], 0);
    EXPECT_EQ(grantpt(fds[0]), 0);
    EXPECT_EQ(unlockpt(fds[0]), 0);
    fds[1] = open(ptsname(fds[0]), O_RDWR | O_NOCTTY);
    EXPECT_GE(fds[1], 0);
    EXPECT_EQ(tcgetattr(fds[1], &raw), 0);
    cfmakeraw(&raw);
    EXPECT_EQ(tcsetattr(fds[1], TCSANOW, &raw), 0);
}

static const struct {
    const char *name;
    void (*make)(int fds[2]);
    bool is_swapped; /* what is written to the first is read from the second */
} kinds[] = {{"pipe", make_pipe, false}, {"socket", make_sockets, false},
             {"socket", make_sockets, true}, {"terminal", make_terminal, false},
             {"terminal", make_terminal, true}};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

struct pair {
    int from, to; /* what is written to the one is read from the other */
    int flags[2];
    _Atomic int begun, written;
};

static void open_pair(int kind, struct pair *pair)
{
    int fds[2];
    kinds[kind].make(fds);
    *pair = (struct pair){.from = fds[kinds[kind].is_swapped], .to = fds[!kinds[kind].is_swapped]};
    pair->flags[0] = fcntl(pair->from, F_GETFL);
    pair->flags[1] = fcntl(pair->to, F_GETFL);
    EXPECT_EQ(pair->flags[0] & O_NONBLOCK, 0);
}

static void expect_flags(const struct pair *pair)
{
    EXPECT_EQ(fcntl(pair->from, F_GETFL), pair->flags[0]);
    EXPECT_EQ(fcntl(pair->to, F_GETFL), pair->flags[1]);
}

static void close_pair(struct pair *pair)
{
    expect_flags(pair);
    EXPECT_EQ(kin_close(pair->from), 0);
    EXPECT_EQ(kin_close(pair->to), 0);
}

/* Runs fn on the one worker, in every mode. */
static void run_modes(kin_task_fn *fn, void *arg)
{
    for (mode = AS_IT_IS; mode < MODES; mode++) {
        struct kin_config config = KIN_CONFIG_INIT;
        config.workers = 1;
        config.workers_max = 1;
        EXPECT_EQ(kin_run(&config, fn, arg), 0);
    }
    mode = AS_IT_IS;
}

/* ---- reading ---- */

static int read_letter(void *arg)
{
    struct pair *pair = arg;
    char letter = '-';
    atomic_store(&pair->begun, 1);
    EXPECT_EQ(kin_read(pair->from, &letter, 1, KIN_NEVER), 1);
    EXPECT_EQ(letter, 'k');
    return 0;
}

static int read_each(void *arg)
{
    (void)arg;
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair pair;
        char letter;
        open_pair(kind, &pair);
        EXPECT_EQ(kin_read(pair.from, &letter, 0, KIN_NEVER), 0);
        EXPECT_EQ(kin_read(pair.from, &letter, 1, 0), KIN_TIMEOUT);
        EXPECT_EQ(kin_read(pair.from, &letter, 1, kin_after(KIN_MS(1))), KIN_TIMEOUT);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, read_letter, &pair), 0);
        await(&pair.begun, 1);
        EXPECT_EQ(kin_yield(), 0);
        expect_flags(&pair); /* while somebody waits */
        EXPECT_EQ(write(pair.to, "k", 1), 1);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        kin_nursery_cancel(&n, 0);
        close_pair(&pair);
    }
    return 0;
}

KIN_TEST(a_reader_parks_and_the_flags_stay, "")
{
    run_modes(read_each, NULL);
}

/* ---- writing ---- */

enum { MUCH = 1 << 20 };

static char sent[MUCH], got_back[MUCH];

static void fill_in(void)
{
    for (int i = 0; i < MUCH; i++)
        sent[i] = (char)(i * 7 + i / 251);
}

static int write_much(void *arg)
{
    struct pair *pair = arg;
    size_t done = 0;
    atomic_store(&pair->begun, 1);
    EXPECT_EQ(kin_write(pair->to, sent, MUCH, &done, KIN_NEVER), 0);
    EXPECT_EQ(done, MUCH);
    atomic_store(&pair->written, 1);
    return 0;
}

static int write_parts(void *arg)
{
    struct pair *pair = arg;
    size_t done = 0;
    struct iovec parts[] = {{sent, 0}, {sent, 1000}, {sent + 1000, 0}, {sent + 1000, MUCH - 1000}};
    atomic_store(&pair->begun, 1);
    EXPECT_EQ(kin_writev(pair->to, parts, 4, &done, KIN_NEVER), 0);
    EXPECT_EQ(done, MUCH);
    atomic_store(&pair->written, 1);
    return 0;
}

static int send_much(void *arg)
{
    struct pair *pair = arg;
    int64_t offset = 0;
    size_t done = 0;
    int file = memfd_create("sent", MFD_CLOEXEC);
    EXPECT_EQ(write(file, sent, MUCH), MUCH);
    atomic_store(&pair->begun, 1);
    EXPECT_EQ(kin_sendfile(pair->to, file, &offset, MUCH / 2, &done, KIN_NEVER), 0);
    EXPECT_EQ(done, MUCH / 2);
    EXPECT_EQ(offset, MUCH / 2);
    EXPECT_EQ(lseek(file, MUCH / 2, SEEK_SET), MUCH / 2);
    EXPECT_EQ(kin_sendfile(pair->to, file, NULL, MUCH, &done, KIN_NEVER), 0); /* to its end */
    EXPECT_EQ(done, MUCH / 2);
    EXPECT_EQ(lseek(file, 0, SEEK_CUR), MUCH);
    EXPECT_EQ(close(file), 0);
    atomic_store(&pair->written, 1);
    return 0;
}

static int copy_much(void *arg)
{
    struct pair *pair = arg;
    struct kin_copied done;
    int file = memfd_create("sent", MFD_CLOEXEC);
    EXPECT_EQ(write(file, sent, MUCH), MUCH);
    EXPECT_EQ(lseek(file, 0, SEEK_SET), 0);
    atomic_store(&pair->begun, 1);
    EXPECT_EQ(kin_copy(pair->to, file, UINT64_MAX, &done, KIN_NEVER), 0);
    EXPECT_EQ(done.given, MUCH);
    EXPECT_EQ(close(file), 0);
    atomic_store(&pair->written, 1);
    return 0;
}

/* Everything arrives at a reader that begins when the writer is full, on the same worker. */
static int write_each(void *arg)
{
    kin_task_fn *const ways[] = {write_much, write_parts, send_much, copy_much};
    (void)arg;
    fill_in();
    for (int i = 0; i < KINDS * 4; i++) {
        struct pair pair;
        size_t done;
        open_pair(i / 4, &pair);
        memset(got_back, 0, MUCH);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, ways[i % 4], &pair), 0);
        await(&pair.begun, 1);
        EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(atomic_load(&pair.written), 0);
        expect_flags(&pair);
        if (i % 2) {
            EXPECT_EQ(kin_read_full(pair.from, got_back, MUCH, &done, KIN_NEVER), 0);
        } else { /* the same by a copy into a file */
            struct kin_copied copied;
            int file = memfd_create("got", MFD_CLOEXEC);
            EXPECT_EQ(kin_copy(file, pair.from, MUCH, &copied, KIN_NEVER), 0);
            done = (size_t)copied.given;
            EXPECT_EQ(pread(file, got_back, MUCH, 0), MUCH);
            EXPECT_EQ(close(file), 0);
        }
        EXPECT_EQ(done, MUCH);
        EXPECT_EQ(memcmp(sent, got_back, MUCH), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        close_pair(&pair);
    }
    return 0;
}

KIN_TEST(a_writer_parks_and_the_flags_stay, "")
{
    run_modes(write_each, NULL);
}

/* What is not taken is told, and nothing is written twice. */
static int write_until(void *arg)
{
    (void)arg;
    fill_in();
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair pair;
        size_t done = MUCH, back = 0;
        if (kind == KINDS - 1 || (kind == KINDS - 2 && mode == NO_PROC))
            continue; /* a thread writes, and is waited for: doc/io.md says so */
        open_pair(kind, &pair);
        EXPECT_EQ(kin_write(pair.to, sent, MUCH, &done, kin_after(KIN_MS(1))), KIN_TIMEOUT);
        EXPECT_GT(done, 0);
        EXPECT_LT(done, MUCH);
        EXPECT_EQ(kin_read_full(pair.from, got_back, done, &back, KIN_NEVER), 0);
        EXPECT_EQ(memcmp(sent, got_back, done), 0);
        EXPECT_EQ(kin_read(pair.from, got_back, 1, 0), KIN_TIMEOUT);
        close_pair(&pair);
    }
    return 0;
}

KIN_TEST(a_writer_whose_time_is_over_tells_how_far_it_came, "")
{
    run_modes(write_until, NULL);
}

static int write_to_nobody(void *arg)
{
    (void)arg;
    for (int kind = 0; kind < 2; kind++) {
        struct pair pair;
        open_pair(kind, &pair);
        EXPECT_EQ(close(pair.from), 0);
        EXPECT_EQ(kin_write(pair.to, "k", 1, NULL, KIN_NEVER), -EPIPE);
        EXPECT_EQ(kin_close(pair.to), 0);
    }
    return 0;
}

KIN_TEST(a_pipe_that_nobody_reads_raises_no_signal_either, "")
{
    run_modes(write_to_nobody, NULL);
}

/* ---- others ---- */

static int count_down(void *arg)
{
    struct pair *pair = arg;
    uint64_t count = 0;
    atomic_store(&pair->begun, 1);
    EXPECT_EQ(kin_read(pair->from, &count, sizeof(count), KIN_NEVER), sizeof(count));
    EXPECT_EQ(count, 5);
    return 0;
}

static int use_counter(void *arg)
{
    uint64_t five = 5;
    struct pair pair = {.from = eventfd(0, 0)};
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, count_down, &pair), 0);
    await(&pair.begun, 1);
    EXPECT_EQ(kin_write(pair.from, &five, sizeof(five), NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(fcntl(pair.from, F_GETFL) & O_NONBLOCK, 0);
    return kin_close(pair.from);
}

KIN_TEST(a_counter_is_waited_for, "")
{
    run_modes(use_counter, NULL);
}

static int accept_one(void *arg)
{
    struct pair *pair = arg;
    int conn = -1;
    atomic_store(&pair->begun, 1);
    EXPECT_EQ(kin_accept(pair->from, &conn, KIN_NEVER), 0);
    return kin_close(conn);
}

/* A listener that was inherited, as from systemd, and a socket for datagrams. */
static int use_inherited(void *arg)
{
    struct pair pair = {.from = socket(AF_INET, SOCK_STREAM, 0)};
    char where[KIN_ADDR_MAX], from[KIN_ADDR_MAX], text[8];
    int conn = -1, datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr any = {.sa_family = AF_INET};
    (void)arg;
    EXPECT_EQ(bind(pair.from, &any, sizeof(any)), 0);
    EXPECT_EQ(listen(pair.from, 8), 0);
    EXPECT_EQ(kin_local_addr(pair.from, where, sizeof where), 0);
    EXPECT_EQ(kin_accept(pair.from, &conn, 0), KIN_TIMEOUT);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, accept_one, &pair), 0);
    await(&pair.begun, 1);
    EXPECT_EQ(kin_tcp_connect(where, &conn, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(fcntl(pair.from, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_EQ(bind(datagrams, &any, sizeof(any)), 0);
    EXPECT_EQ(kin_udp_recv(datagrams, text, sizeof text, from, sizeof from, 0), KIN_TIMEOUT);
    EXPECT_EQ(fcntl(datagrams, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_EQ(kin_close(conn), 0);
    EXPECT_EQ(kin_close(pair.from), 0);
    return kin_close(datagrams);
}

KIN_TEST(a_listener_that_was_inherited_is_waited_for, "")
{
    run_modes(use_inherited, NULL);
}
