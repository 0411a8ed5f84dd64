/* SPDX-License-Identifier: MIT */
/*
 * A bench: one of everything that a public call can be made on, for calls_test.c.
 */
#ifndef KIN_TEST_BENCH_H
#define KIN_TEST_BENCH_H

#include "api/budgets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

enum { FILE_SIZE = 4096, FEW = 3, TRIES = 64, ALL_TRIES = 4 * TRIES };

static const struct kin_budget no_budget;
struct keep;
static const char lines[] = "1234567\n1234567\n";

struct bench {
    struct kin_nursery nursery; /* of the first task */
    struct kin_nursery *own;    /* of the task that makes the call, if it may have one */
    struct kin_task_ref sleeper, child; /* in the one and the other */
    struct kin_chan *chan;
    struct kin_spsc *spsc;
    struct kin_mpsc *mpsc;
    struct kin_broadcast *broadcast;
    struct kin_subscriber *subscriber;
    struct kin_watch *watch;
    struct kin_mutex mutex;
    bool is_locked;
    struct kin_rwlock rwlock;
    struct kin_cond cond;
    struct kin_sem sem;
    struct kin_event event;
    struct kin_group group;
    struct kin_once once;
    struct kin_barrier barrier;
    struct kin_local_key keys[ALL_TRIES];
    int used_keys;
    struct kin_branch branches[2];
    struct kin_case cases[2];
    struct kin_addr server, supervisor, addr;
    struct kin_monitor_ref monitor;
    struct kin_link_ref link;
    struct kin_info info;
    struct kin_child_counts counts;
    struct kin_process *process;
    struct kin_dir *dir;
    struct kin_dirent dirent;
    struct kin_reader reader;
    struct kin_writer writer;
    struct stat stat;
    int file, other_file, ends[2], udp, listener, fd;
    char read_room[16], write_room[8], bytes[16], address[1][KIN_ADDR_MAX];
    char *text;
    size_t size;
    uint64_t version;
    long item;
    struct kin_addr deaf;  /* a server that never gets to its second letter */
    struct keep *kept;     /* what the task has made and keeps */
    int names;
    char name[32];
};

static void do_nothing(void *arg)
{
    (void)arg;
}

static int answer(struct kin_server *s, void *state, const void *req, size_t size,
                  struct kin_reply *reply)
{
    (void)s, (void)state, (void)req, (void)size;
    return kin_reply_send(reply, NULL, 0);
}

static int take_cast(struct kin_server *s, void *state, const void *msg, size_t size)
{
    (void)s, (void)state, (void)msg, (void)size;
    return 0;
}

static const struct kin_server_ops idle_ops = {.on_call = answer, .on_cast = take_cast};

static int never_done(struct kin_server *s, void *state, const void *msg, size_t size)
{
    (void)s, (void)state, (void)msg, (void)size;
    return kin_sleep(KIN_NEVER);
}

static const struct kin_server_ops deaf_ops = {.on_cast = never_done};

static int start_idle(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)arg;
    return kin_server_start(n, &idle_ops, NULL, NULL, out);
}

static const struct kin_child_spec idle_child = {.name = "idle", .start = start_idle};

static int make_file(void)
{
    int fd = memfd_create("bench", MFD_CLOEXEC);
    EXPECT_GE(fd, 0);
    for (int at = 0; at < FILE_SIZE; at += 16)
        EXPECT_EQ(pwrite(fd, lines, 16, at), 16);
    return fd;
}

static void make_streams(struct bench *b)
{
    EXPECT_EQ(kin_chan_create(&b->chan, sizeof b->item, ALL_TRIES), 0);
    EXPECT_EQ(kin_spsc_create(&b->spsc, sizeof b->item, ALL_TRIES), 0);
    EXPECT_EQ(kin_mpsc_create(&b->mpsc, sizeof b->item, ALL_TRIES), 0);
    EXPECT_EQ(kin_broadcast_create(&b->broadcast, sizeof b->item, 4, KIN_BROADCAST_LAG), 0);
    EXPECT_EQ(kin_broadcast_subscribe(b->broadcast, &b->subscriber), 0);
    EXPECT_EQ(kin_watch_create(&b->watch, sizeof b->item, &b->item), 0);
}

static void make_descriptors(struct bench *b)
{
    b->file = make_file();
    b->other_file = make_file();
    kin_reader_init(&b->reader, b->other_file, b->read_room, sizeof b->read_room);
    kin_writer_init(&b->writer, b->file, b->write_room, sizeof b->write_room);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b->ends), 0);
    EXPECT_EQ(kin_udp_open("127.0.0.1:0", &b->udp), 0);
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &b->listener), 0);
    EXPECT_EQ(kin_opendir("/", &b->dir), 0);
}

static bool is_about(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* A fresh one for the call of this name: a call may close or end what it is made on. By the first
 * task. */
static void make_bench(struct bench *b, const char *name)
{
    static const char *const argv[] = {"true", NULL};
    memset(b, 0, sizeof *b);
    EXPECT_EQ(kin_nursery_open(&b->nursery, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&b->nursery, NULL, sleep_for_ever, NULL, 0, &b->sleeper), 0);
    b->own = &b->nursery;
    b->child = b->sleeper;
    make_streams(b);
    make_descriptors(b);
    EXPECT_EQ(kin_sem_init(&b->sem, ALL_TRIES), 0);
    EXPECT_EQ(kin_barrier_init(&b->barrier, 2), 0);
    if (is_about(name, "kin_group_done"))
        kin_group_add(&b->group, ALL_TRIES);
    b->branches[0].fn = b->branches[1].fn = nothing_to_do;
    EXPECT_EQ(kin_server_start(&b->nursery, &idle_ops, NULL, NULL, &b->server), 0);
    if (is_about(name, "kin_cast"))
        EXPECT_EQ(kin_server_start(&b->nursery, &deaf_ops, NULL, NULL, &b->deaf), 0);
    if (is_about(name, "kin_supervisor"))
        EXPECT_EQ(kin_supervisor_start(&b->nursery, NULL, NULL, 0, &b->supervisor), 0);
    if (is_about(name, "kin_process"))
        EXPECT_EQ(kin_process_start(argv, NULL, &b->process), 0);
}

static void clear_bench(struct bench *b)
{
    if (b->process)
        kin_process_destroy(b->process);
    kin_nursery_cancel(&b->nursery, KIN_CANCELLED);
    kin_ignore(kin_nursery_join(&b->nursery, NULL));
    kin_closedir(b->dir);
    int all[] = {b->file, b->other_file, b->ends[0], b->ends[1], b->udp, b->listener};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        EXPECT_EQ(kin_close(all[i]), 0);
    kin_watch_unref(b->watch);
    kin_subscriber_unref(b->subscriber);
    kin_broadcast_unref(b->broadcast);
    kin_mpsc_unref(b->mpsc);
    kin_spsc_unref(b->spsc);
    kin_chan_unref(b->chan);
}

#endif
