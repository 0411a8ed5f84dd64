/* SPDX-License-Identifier: MIT */
/*
 * Goal: descriptors can be read and written by tasks that park instead of blocking a thread.
 * Method: pipes and socket pairs within one process, on one worker and on several; every way a wait
 * can end: data, the peer's end, a deadline, a cancel, kin_close, a number used again.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include <kin/io.h>
#include <kin/net.h>
#include <kin/select.h>

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static void both(kin_task_fn *fn)
{
    EXPECT_EQ(run_reporting(1, fn, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, fn, NULL, NULL), 0);
}

static void make_pair(int *fds)
{
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
}

#define ROUNDS 200

static int echo(void *arg)
{
    int fd = *(int *)arg;
    char buf[64];
    for (;;) { /* ends: with the peer */
        ssize_t got = kin_read(fd, buf, sizeof(buf), KIN_NEVER);
        if (got <= 0)
            return (int)got;
        EXPECT_EQ(kin_write(fd, buf, (size_t)got, NULL, KIN_NEVER), 0);
    }
}

static int talk_to_an_echo(void *arg)
{
    int fds[2];
    (void)arg;
    make_pair(fds);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, echo, &fds[1]), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int back = -1;
        size_t done = 77;
        EXPECT_EQ(kin_write(fds[0], &i, sizeof(i), &done, KIN_NEVER), 0);
        EXPECT_EQ(done, sizeof(i));
        EXPECT_EQ(kin_read_full(fds[0], &back, sizeof(back), &done, KIN_NEVER), 0);
        EXPECT_EQ(done, sizeof(back));
        EXPECT_EQ(back, i);
    }
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(an_echo_answers, "")
{
    both(talk_to_an_echo);
}

struct flood {
    int fd;
    size_t size;
};

static int drain(void *arg)
{
    struct flood *flood = arg;
    char *buf = malloc(flood->size);
    size_t done;
    EXPECT(buf != NULL);
    EXPECT_EQ(kin_read_full(flood->fd, buf, flood->size, &done, KIN_NEVER), 0);
    EXPECT_EQ(done, flood->size);
    for (size_t i = 0; i < done; i++)
        EXPECT_EQ((unsigned char)buf[i], (unsigned char)(i * 7));
    free(buf);
    return 0;
}

/* More than the kernel buffers, so that both sides park many times. */
static int send_more_than_fits(void *arg)
{
    int fds[2];
    size_t done;
    (void)arg;
    struct flood flood = {0, (size_t)1 << 20};
    char *buf = malloc(flood.size);
    EXPECT(buf != NULL);
    for (size_t i = 0; i < flood.size; i++)
        buf[i] = (char)(i * 7);
    make_pair(fds);
    flood.fd = fds[1];
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, drain, &flood), 0);
    EXPECT_EQ(kin_write(fds[0], buf, flood.size / 2, &done, KIN_NEVER), 0);
    EXPECT_EQ(done, flood.size / 2);
    struct iovec parts[3] = {{buf + flood.size / 2, 10},
                             {buf + flood.size / 2 + 10, 0},
                             {buf + flood.size / 2 + 10, flood.size / 2 - 10}};
    EXPECT_EQ(kin_writev(fds[0], parts, 3, &done, KIN_NEVER), 0);
    EXPECT_EQ(done, flood.size / 2);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    free(buf);
    return 0;
}

KIN_TEST(a_partial_write_goes_on, "")
{
    both(send_more_than_fits);
}

static int wait_in_vain(void *arg)
{
    int fds[2];
    char buf[8];
    size_t done = 77;
    (void)arg;
    make_pair(fds);
    fds[0] = renumber(fds[0], NUMBER_OF_OURS);
    EXPECT_EQ(kin_read(fds[0], buf, sizeof(buf), 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_read(fds[0], buf, sizeof(buf), kin_after(KIN_MS(5))), KIN_TIMEOUT);
    EXPECT_EQ(kin_write(fds[1], "abc", 3, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_read_full(fds[0], buf, 8, &done, kin_after(KIN_MS(5))), KIN_TIMEOUT);
    EXPECT_EQ(done, 3); /* what was read is not lost */
    EXPECT_EQ(kin_fd_wait(fds[0], POLLIN, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_fd_wait(fds[0], POLLIN | POLLOUT, KIN_NEVER), POLLOUT);
    EXPECT_EQ(kin_close(fds[1]), 0);
    EXPECT_EQ(kin_fd_wait(fds[0], POLLIN, KIN_NEVER), POLLIN);
    EXPECT_EQ(kin_read(fds[0], buf, sizeof(buf), KIN_NEVER), 0);
    EXPECT_EQ(kin_write(fds[0], "x", 1, &done, KIN_NEVER), -EPIPE);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_read(fds[0], buf, 1, KIN_NEVER), -EBADF);
    EXPECT_EQ(kin_close(fds[0]), -EBADF);
    EXPECT_EQ(kin_read(-1, buf, 1, KIN_NEVER), -EBADF);
    EXPECT_EQ(kin_read(INT32_MAX, buf, 1, KIN_NEVER), -EBADF); /* beyond what the table holds */
    return 0;
}

KIN_TEST(deadlines_and_ends_are_told, "")
{
    both(wait_in_vain);
}

static int break_a_pipe(void *arg)
{
    int fds[2];
    (void)arg;
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(kin_write(fds[1], "x", 1, NULL, KIN_NEVER), -EPIPE); /* and no signal */
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(a_broken_pipe_raises_no_signal, "")
{
    both(break_a_pipe);
}

static int read_one(void *arg)
{
    char byte;
    return (int)kin_read(*(int *)arg, &byte, 1, KIN_NEVER);
}

static int close_under_a_reader(void *arg)
{
    int fds[2];
    struct kin_outcome how;
    struct kin_task_ref reader;
    (void)arg;
    make_pair(fds);
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    EXPECT_EQ(kin_spawn_with(&n, NULL, read_one, &fds[0], 0, &reader), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0); /* it is parked by now, or finds -EBADF */
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_task_join(&n, reader, &how, KIN_NEVER), 0);
    EXPECT(how.status == KIN_CLOSED || how.status == -EBADF);
    EXPECT_EQ(kin_spawn_with(&n, NULL, read_one, &fds[1], 0, &reader), 0);
    EXPECT_EQ(kin_task_join(&n, reader, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.value, 0);
    kin_ignore(kin_nursery_join(&n, NULL));
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(closing_a_descriptor_wakes_who_waits_for_it, "")
{
    both(close_under_a_reader);
}

static int cancel_a_reader(void *arg)
{
    int fds[2];
    (void)arg;
    make_pair(fds);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, read_one, &fds[0]), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(a_reader_can_be_cancelled, "")
{
    both(cancel_a_reader);
}

/* The program closes behind kin's back and gets the same number again. */
static int use_a_number_again(void *arg)
{
    int first[2], second[2];
    (void)arg;
    for (int i = 0; i < 50; i++) {
        make_pair(first);
        first[0] = renumber(first[0], NUMBER_OF_OURS);
        EXPECT_EQ(kin_read(first[0], &(char){0}, 1, kin_after(1000)), KIN_TIMEOUT);
        EXPECT_EQ(close(first[0]), 0);
        EXPECT_EQ(close(first[1]), 0);
        make_pair(second);
        second[0] = renumber(second[0], NUMBER_OF_OURS);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, read_one, &second[0]), 0);
        EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(kin_write(second[1], "y", 1, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(close(second[0]), 0);
        EXPECT_EQ(close(second[1]), 0);
    }
    return 0;
}

KIN_TEST(a_number_that_is_used_again_is_another_descriptor, "")
{
    EXPECT_EQ(run_reporting(1, use_a_number_again, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, use_a_number_again, NULL, NULL), 0);
}

static void *write_from_a_thread(void *arg)
{
    struct timespec moment = {0, 20000000};
    nanosleep(&moment, NULL);
    EXPECT_EQ(write(*(int *)arg, "z", 1), 1);
    return NULL;
}

/* Every worker is asleep, one of them in the poller. */
static int be_woken_by_the_world(void *arg)
{
    int fds[2];
    pthread_t thread;
    (void)arg;
    make_pair(fds);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(pthread_create(&thread, NULL, write_from_a_thread, &fds[1]), 0);
        EXPECT_EQ(read_one(&fds[0]), 1);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
    }
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(a_sleeping_runtime_hears_the_world, "")
{
    both(be_woken_by_the_world);
}

/* ---- half of a connection ---- */

enum { MUCH = 16 << 20 };

struct half {
    int listener, here, there;
    size_t written;
};

static int write_much(void *arg)
{
    struct half *half = arg;
    char *much = calloc(1, MUCH);
    EXPECT(much != NULL);
    int rc = kin_accept(half->listener, &half->there, KIN_NEVER);
    if (rc == 0)
        rc = kin_write(half->there, much, MUCH, &half->written, KIN_NEVER);
    free(much);
    kin_close(half->there);
    return rc;
}

/* The peer has said all while the writer waits for room: it may still be written to. */
static int half_close(void *arg)
{
    struct half half = {0};
    char addr[KIN_ADDR_MAX], buf[65536];
    int queued = 0, before = -1;
    size_t got = 0;
    ssize_t one;
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &half.listener), 0);
    EXPECT_EQ(kin_local_addr(half.listener, addr, sizeof addr), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, write_much, &half), 0);
    EXPECT_EQ(kin_tcp_connect(addr, &half.here, KIN_NEVER), 0);
    while (queued == 0 || queued != before) { /* ends: no more fits */
        before = queued;
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(5))), 0);
        EXPECT_EQ(ioctl(half.here, FIONREAD, &queued), 0);
    }
    EXPECT_EQ(kin_shutdown(half.here, SHUT_WR), 0);
    while ((one = kin_read(half.here, buf, sizeof buf, KIN_NEVER)) > 0) /* or the alarm comes */
        got += (size_t)one;
    EXPECT_EQ(one, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(half.written, MUCH);
    EXPECT_EQ(got, MUCH);
    kin_close(half.here);
    return kin_close(half.listener);
}

KIN_TEST(a_writer_goes_on_when_its_peer_has_said_all, "")
{
    for (int poller = KIN_POLLER_AUTO; poller <= KIN_POLLER_EPOLL; poller++) {
        struct kin_config config = KIN_CONFIG_INIT;
        config.workers = 1;
        config.poller = (enum kin_poller)poller;
        int rc = kin_run(&config, half_close, NULL);
        EXPECT(rc == 0 || (rc == KIN_UNSUPPORTED && poller == KIN_POLLER_URING));
    }
}

KIN_TEST(outside_a_task_nothing_is_read, "N1002")
{
    char byte;
    EXPECT_EQ(kin_read(0, &byte, 1, 0), KIN_NOTASK);
    EXPECT_EQ(kin_write(0, &byte, 1, NULL, 0), KIN_NOTASK);
    EXPECT_EQ(kin_fd_wait(0, POLLIN, 0), KIN_NOTASK);
}

/* ---- capabilities ---- */

struct things {
    int socket[2], pipe[2], file;
};

/* A task that has KIN_CAP_NET or KIN_CAP_FILE or neither. */
static int use_things(void *arg)
{
    struct things *things = arg;
    char byte = 'x';
    int net = kin_caps() & KIN_CAP_NET ? 0 : KIN_NOCAP;
    int file = kin_caps() & KIN_CAP_FILE ? 0 : KIN_NOCAP;
    size_t done = 7;

    EXPECT_EQ(kin_write(things->socket[0], &byte, 1, &done, KIN_NEVER), net);
    EXPECT_EQ(done, net == 0);
    EXPECT_EQ(kin_read(things->socket[1], &byte, 1, KIN_NEVER), net ? net : 1);
    EXPECT_EQ(kin_fd_wait(things->socket[0], POLLOUT, KIN_NEVER), net ? net : POLLOUT);
    struct kin_case cases[] = {kin_case_write(things->socket[0])};
    EXPECT_EQ(kin_select(cases, 1, KIN_NEVER), net);
    EXPECT_EQ(kin_write(things->file, &byte, 1, NULL, KIN_NEVER), file);
    EXPECT_EQ(kin_write(things->pipe[1], &byte, 1, NULL, KIN_NEVER), 0); /* needs nothing */
    EXPECT_EQ(kin_read(things->pipe[0], &byte, 1, KIN_NEVER), 1);
    return 0;
}

static int hand_out(void *arg)
{
    static const uint32_t caps[] = {KIN_CAP_NONE, KIN_CAP_NET, KIN_CAP_FILE, KIN_CAP_ALL};
    char path[] = "/tmp/kin-io-XXXXXX";
    struct things things;
    (void)arg;
    make_pair(things.socket);
    EXPECT_EQ(pipe(things.pipe), 0);
    things.file = kin_test_mkstemp(path);
    EXPECT_GE(things.file, 0);
    EXPECT_EQ(unlink(path), 0);
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        KIN_NURSERY(n);
        options.caps = caps[i];
        EXPECT_EQ(kin_spawn_with(&n, &options, use_things, &things, 0, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(close(things.socket[i]), 0);
        EXPECT_EQ(close(things.pipe[i]), 0);
    }
    EXPECT_EQ(close(things.file), 0);
    return 0;
}

KIN_TEST(sockets_and_files_need_their_capability_whoever_opened_them, "SCHED:10.2.4")
{
    both(hand_out);
}

/* Memory that is not there is bad input, also before anything arrives that would go to it. */
static int name_no_memory(void *arg)
{
    int fds[2];
    size_t done = 99;
    (void)arg;
    make_pair(fds);
    EXPECT_EQ(kin_read(fds[0], NULL, 8, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_read_full(fds[0], NULL, 8, &done, KIN_NEVER), -EINVAL);
    EXPECT_EQ(done, 0);
    done = 99;
    EXPECT_EQ(kin_write(fds[0], NULL, 8, &done, KIN_NEVER), -EINVAL);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(kin_read(fds[0], NULL, 0, KIN_NEVER), 0); /* nothing needs no memory */
    EXPECT_EQ(kin_read_full(fds[0], NULL, 0, &done, KIN_NEVER), 0);
    EXPECT_EQ(kin_write(fds[0], NULL, 0, &done, KIN_NEVER), 0);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(no_memory_is_bad_input, "")
{
    both(name_no_memory);
}
