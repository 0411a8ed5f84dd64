/* SPDX-License-Identifier: MIT */
/*
 * Goal: every call on a socket, a name or a file costs one operation and one system call, and is
 * refused to a task that lacks the capability for it, or has no system call left.
 * Method: one table of calls; each is made with everything, without each capability, and with a
 * budget that just suffices.
 */
#include "api/in_runtime.h"

#include <kin/budget.h>
#include <kin/file.h>
#include <kin/io.h>
#include <kin/net.h>
#include <kin/reader.h>
#include <kin/resolve.h>

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* What the calls are made on: prepared anew for each. */
struct things {
    int pair[2], pipe[2], file, listener, caller, datagrams;
    char addr[KIN_ADDR_MAX], udp[KIN_ADDR_MAX], path[64];
};

static char buf[64];
static size_t done;

static int keep(int rc, const int *fd)
{
    if (rc == 0)
        EXPECT_EQ(kin_close(*fd), 0);
    return rc;
}

static int try_listen(struct things *t)
{
    int fd = -1;
    (void)t;
    return keep(kin_tcp_listen("127.0.0.1:0", NULL, &fd), &fd);
}

static int try_unix_listen(struct things *t)
{
    char path[64];
    int fd = -1;
    (void)t;
    snprintf(path, sizeof path, "unix:@kin-cost-%d", (int)getpid());
    return keep(kin_unix_listen(path, NULL, &fd), &fd);
}

static int try_accept(struct things *t)
{
    int fd = -1;
    return keep(kin_accept(t->listener, &fd, KIN_NEVER), &fd);
}

static int try_connect(struct things *t)
{
    int fd = -1;
    return keep(kin_tcp_connect(t->addr, &fd, KIN_NEVER), &fd);
}

static int try_unix_connect(struct things *t)
{
    int fd = -1;
    (void)t;
    int rc = keep(kin_unix_connect("unix:@kin-cost-nobody", &fd, KIN_NEVER), &fd);
    return rc == -ECONNREFUSED ? 0 : rc;
}

static int try_udp_open(struct things *t)
{
    int fd = -1;
    (void)t;
    return keep(kin_udp_open("127.0.0.1:0", &fd), &fd);
}

static int try_udp_send(struct things *t)
{
    return (int)kin_udp_send(t->datagrams, "x", 1, t->udp, KIN_NEVER);
}

static int try_udp_recv(struct things *t)
{
    return (int)kin_udp_recv(t->datagrams, buf, 1, NULL, 0, KIN_NEVER);
}

static int try_resolve(struct things *t)
{
    char out[2][KIN_ADDR_MAX];
    (void)t;
    return kin_resolve("localhost", out, 2, KIN_NEVER);
}

static int try_read(struct things *t)
{
    return (int)kin_read(t->pair[0], buf, 1, KIN_NEVER);
}

static int try_readv(struct things *t)
{
    struct iovec part = {buf, 1};
    return (int)kin_readv(t->pair[0], &part, 1, KIN_NEVER);
}

static int try_read_full(struct things *t)
{
    return kin_read_full(t->pair[0], buf, 1, &done, KIN_NEVER);
}

static int try_write(struct things *t)
{
    return kin_write(t->pair[0], buf, 1, &done, KIN_NEVER);
}

static int try_writev(struct things *t)
{
    struct iovec part = {buf, 1};
    return kin_writev(t->pair[0], &part, 1, &done, KIN_NEVER);
}

static int try_fd_wait(struct things *t)
{
    return kin_fd_wait(t->pair[0], POLLOUT, KIN_NEVER);
}

static int try_sendfile(struct things *t)
{
    int64_t offset = 0;
    return kin_sendfile(t->pair[0], t->file, &offset, 1, &done, KIN_NEVER);
}

static int try_copy_in(struct things *t)
{
    return kin_copy(t->pipe[1], t->pair[0], 1, NULL, KIN_NEVER);
}

static int try_copy_out(struct things *t)
{
    return kin_copy(t->pair[0], t->pipe[0], 1, NULL, KIN_NEVER);
}

static int try_copy_file(struct things *t)
{
    return kin_copy(t->pipe[1], t->file, 1, NULL, KIN_NEVER);
}

static int try_line(struct things *t)
{
    struct kin_reader in;
    char *line;
    size_t size;
    kin_reader_init(&in, t->pair[0], buf, sizeof buf);
    return kin_reader_line(&in, &line, &size, KIN_NEVER);
}

static int try_flush(struct things *t)
{
    struct kin_writer out;
    kin_writer_init(&out, t->pair[0], buf, sizeof buf);
    int rc = kin_writer_put(&out, "x", 1, NULL, KIN_NEVER);
    return rc < 0 ? rc : kin_writer_flush(&out, KIN_NEVER);
}

static int try_pipe(struct things *t)
{
    return (int)kin_read(t->pipe[0], buf, 1, KIN_NEVER);
}

static int try_open(struct things *t)
{
    int fd = -1;
    return keep(kin_open(t->path, O_RDONLY | O_CLOEXEC, 0, &fd), &fd);
}

static int try_pread(struct things *t)
{
    return (int)kin_pread(t->file, buf, 1, 0);
}

static int try_pwrite(struct things *t)
{
    return (int)kin_pwrite(t->file, buf, 1, 0);
}

static int try_fsync(struct things *t)
{
    return kin_fsync(t->file);
}

static int try_stat(struct things *t)
{
    struct stat is;
    return kin_stat(t->path, &is);
}

static int try_rename(struct things *t)
{
    return kin_rename(t->path, t->path);
}

#define NET KIN_CAP_NET
#define DISK KIN_CAP_FILE

static const struct call {
    const char *name;
    int (*make)(struct things *t);
    uint32_t needs;
} calls[] = {
    {"kin_tcp_listen", try_listen, NET},       {"kin_unix_listen", try_unix_listen, NET},
    {"kin_accept", try_accept, NET},           {"kin_tcp_connect", try_connect, NET},
    {"kin_unix_connect", try_unix_connect, NET}, {"kin_udp_open", try_udp_open, NET},
    {"kin_udp_send", try_udp_send, NET},       {"kin_udp_recv", try_udp_recv, NET},
    {"kin_resolve", try_resolve, NET},         {"kin_read", try_read, NET},
    {"kin_readv", try_readv, NET},             {"kin_read_full", try_read_full, NET},
    {"kin_write", try_write, NET},             {"kin_writev", try_writev, NET},
    {"kin_fd_wait", try_fd_wait, NET},         {"kin_sendfile", try_sendfile, NET | DISK},
    {"kin_copy from a socket", try_copy_in, NET}, {"kin_copy to a socket", try_copy_out, NET},
    {"kin_copy from a file", try_copy_file, DISK}, {"kin_reader_line", try_line, NET},
    {"kin_writer_flush", try_flush, NET},      {"kin_read of a pipe", try_pipe, 0},
    {"kin_open", try_open, DISK},              {"kin_pread", try_pread, DISK},
    {"kin_pwrite", try_pwrite, DISK},          {"kin_fsync", try_fsync, DISK},
    {"kin_stat", try_stat, DISK},              {"kin_rename", try_rename, DISK},
};

/* Everything is ready for any one of the calls. */
static void prepare(struct things *t)
{
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, t->pair), 0);
    EXPECT_EQ(pipe(t->pipe), 0);
    EXPECT_EQ(write(t->pair[1], "x\n", 2), 2);
    EXPECT_EQ(write(t->pipe[1], "x", 1), 1);
    snprintf(t->path, sizeof t->path, "/tmp/kin-cost-XXXXXX");
    t->file = kin_test_mkstemp(t->path);
    EXPECT_GE(t->file, 0);
    EXPECT_EQ(write(t->file, "x", 1), 1);
    EXPECT_EQ(lseek(t->file, 0, SEEK_SET), 0);
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &t->listener), 0);
    EXPECT_EQ(kin_local_addr(t->listener, t->addr, sizeof t->addr), 0);
    EXPECT_EQ(kin_tcp_connect(t->addr, &t->caller, KIN_NEVER), 0);
    EXPECT_EQ(kin_udp_open("127.0.0.1:0", &t->datagrams), 0);
    EXPECT_EQ(kin_local_addr(t->datagrams, t->udp, sizeof t->udp), 0);
    EXPECT_EQ(kin_udp_send(t->datagrams, "x", 1, t->udp, KIN_NEVER), 1);
}

static void clear(struct things *t)
{
    int fds[] = {t->pair[0], t->pair[1], t->pipe[0], t->pipe[1], t->file, t->listener, t->caller,
                 t->datagrams};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        EXPECT_EQ(kin_close(fds[i]), 0);
    EXPECT_EQ(unlink(t->path), 0);
}

struct trial {
    const struct call *call;
    struct things *things;
    int rc;
    uint64_t ops, syscalls; /* that it has cost */
};

static int make_call(void *arg)
{
    struct trial *trial = arg;
    struct kin_budget before = kin_budget_left();
    trial->rc = trial->call->make(trial->things);
    struct kin_budget after = kin_budget_left();
    trial->ops = before.ops - after.ops;
    trial->syscalls = before.syscalls - after.syscalls;
    return 0;
}

static struct trial try_with(const struct call *call, uint32_t caps, uint32_t syscalls)
{
    struct things things;
    struct trial trial = {.call = call, .things = &things};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    prepare(&things);
    options.caps = caps;
    options.budget = KIN_UNLIMITED_BUDGET;
    options.budget.ops = 1000;
    options.budget.syscalls = syscalls;
    {
        KIN_NURSERY(n, .on_exhausted = KIN_EXHAUSTED_FAIL, .recharge = KIN_RECHARGE_MANUAL);
        EXPECT_EQ(kin_spawn_with(&n, &options, make_call, &trial, 0, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    clear(&things);
    return trial;
}

static int try_all(void *arg)
{
    static const uint32_t caps[] = {KIN_CAP_NET, KIN_CAP_FILE};
    (void)arg;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const struct call *call = &calls[i];
        printf("%s\n", call->name);
        struct trial all = try_with(call, KIN_CAP_ALL, 100);
        EXPECT_GE(all.rc, 0);
        EXPECT_EQ(all.syscalls, 1);
        EXPECT_GE(all.ops, 1);
        EXPECT_LE(all.ops, 2); /* two calls of kin's own that gather and flush */
        for (size_t j = 0; j < sizeof caps / sizeof caps[0]; j++) {
            struct trial less = try_with(call, KIN_CAP_ALL & ~caps[j], 100);
            if (call->needs & caps[j])
                EXPECT_EQ(less.rc, KIN_NOCAP);
            else
                EXPECT_GE(less.rc, 0);
        }
        EXPECT_GE(try_with(call, KIN_CAP_ALL, 1).rc, 0); /* it suffices */
    }
    return 0;
}

KIN_TEST(every_call_has_its_price_and_needs_its_capability, "SCHED:3.3.1 SCHED:10.2.4")
{
    EXPECT_EQ(run_reporting(1, try_all, NULL, NULL), 0);
}

/* A budget of two calls is over with the third. */
static int use_up(void *arg)
{
    struct things *t = arg;
    EXPECT_EQ(kin_read(t->pair[0], buf, 1, KIN_NEVER), 1);
    EXPECT_EQ(kin_write(t->pair[0], buf, 1, &done, KIN_NEVER), 0);
    EXPECT_EQ(kin_read(t->pair[0], buf, 1, KIN_NEVER), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SYSCALLS);
    return 0;
}

static int give_two(void *arg)
{
    struct things things;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    prepare(&things);
    options.budget = KIN_UNLIMITED_BUDGET;
    options.budget.syscalls = 2;
    {
        KIN_NURSERY(n, .on_exhausted = KIN_EXHAUSTED_FAIL, .recharge = KIN_RECHARGE_MANUAL);
        EXPECT_EQ(kin_spawn_with(&n, &options, use_up, &things, 0, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    clear(&things);
    return 0;
}

KIN_TEST(who_has_no_system_call_left_reads_nothing, "SCHED:3.3.1")
{
    EXPECT_EQ(run_reporting(1, give_two, NULL, NULL), 0);
}
