/* SPDX-License-Identifier: MIT */
/*
 * Goal: lines, records and counts come out of a stream whole, whatever the peer does, within the
 * limits; nothing is lost when a call ends early; what a writer was given arrives in order.
 * Method: socket pairs and TCP within one process. A peer sends byte by byte, stops in the middle,
 * half-closes, resets or never reads, and the calls are ended by deadlines and cancels.
 */
#include "api/in_runtime.h"

#include <kin/io.h>
#include <kin/net.h>
#include <kin/reader.h>

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void both(kin_task_fn *fn)
{
    EXPECT_EQ(run_reporting(1, fn, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, fn, NULL, NULL), 0);
}

static void close_pair(const int *fds)
{
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
}

/* Sends a text whole from the other end, which cannot block: it is short. */
static void say(int fd, const char *text)
{
    EXPECT_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* One end of a pair with a reader and a writer, and the other end. */
struct pair {
    int fds[2]; /* -1: the test has closed it */
    struct kin_reader in;
    struct kin_writer out;
};

static size_t cap; /* of both buffers */
static void (*body)(struct pair *pair);

static int in_pair(void *arg)
{
    struct pair pair;
    char *in_buf = malloc(cap), *out_buf = malloc(cap); /* no more: sanitizers see every byte */
    (void)arg;
    EXPECT(in_buf && out_buf);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.fds), 0);
    kin_reader_init(&pair.in, pair.fds[0], in_buf, cap);
    kin_writer_init(&pair.out, pair.fds[0], out_buf, cap);
    body(&pair);
    EXPECT_EQ(kin_close(pair.fds[0]), 0);
    EXPECT_EQ(pair.fds[1] < 0 ? 0 : kin_close(pair.fds[1]), 0);
    free(in_buf);
    free(out_buf);
    return 0;
}

static void with_pair(size_t size, void (*fn)(struct pair *pair))
{
    cap = size;
    body = fn;
    both(in_pair);
}

static void expect_line(struct kin_reader *in, const char *text)
{
    char *line = NULL;
    size_t size = 0;
    EXPECT_EQ(kin_reader_line(in, &line, &size, KIN_NEVER), 1);
    EXPECT_EQ(size, strlen(text));
    EXPECT_STR(line, text);
}

static void expect_end(struct kin_reader *in, const char *rest)
{
    char *line = NULL;
    size_t size = 77;
    EXPECT_EQ(kin_reader_line(in, &line, &size, KIN_NEVER), 0);
    EXPECT_EQ(size, strlen(rest));
    EXPECT_STR(line, rest);
}

/* ---- lines ---- */

static void read_lines(struct pair *pair)
{
    struct kin_reader *in = &pair->in;
    int *fds = pair->fds;
    say(fds[1], "one\ntwo\r\n\n\r\nfi");
    expect_line(in, "one");
    expect_line(in, "two");
    expect_line(in, "");
    expect_line(in, "");
    EXPECT_EQ(kin_reader_buffered(in), 2);
    say(fds[1], "ve\n\rsix\r\rse\n");
    expect_line(in, "five");
    expect_line(in, "\rsix\r\rse"); /* only one before the line feed is part of the end */
    say(fds[1], "rest");
    EXPECT_EQ(shutdown(fds[1], SHUT_WR), 0);
    expect_end(in, "rest");
    expect_end(in, ""); /* once */
    say(fds[0], "and the other direction still works");
}

KIN_TEST(lines_end_with_or_without_a_carriage_return, "")
{
    with_pair(32, read_lines);
}

static int send_bytes(void *arg)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n\0\0\0\5abcdelast";
    int fd = *(int *)arg;
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        EXPECT_EQ(kin_write(fd, &text[i], 1, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_yield(), 0);
    }
    return kin_shutdown(fd, SHUT_WR);
}

/* A peer that sends byte by byte; records of every kind, from a buffer that they just fit. */
static void read_from_a_slow_peer(struct pair *pair)
{
    char part[5], *bytes;
    size_t size;
    struct kin_reader *in = &pair->in;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, send_bytes, &pair->fds[1]), 0);
    expect_line(in, "GET / HTTP/1.1");
    EXPECT_EQ(kin_reader_until(in, "\r\n\r\n", 4, &bytes, &size, KIN_NEVER), 1);
    EXPECT_EQ(size, 7);
    EXPECT_EQ(memcmp(bytes, "Host: a", 7), 0);
    EXPECT_EQ(kin_reader_exactly(in, 4, &bytes, &size, KIN_NEVER), 1);
    EXPECT_EQ(size, 4);
    EXPECT_EQ(bytes[3], 5);
    EXPECT_EQ(kin_reader_read(in, part, sizeof(part), &size, KIN_NEVER), 0);
    EXPECT_EQ(size, 5);
    EXPECT_EQ(memcmp(part, "abcde", 5), 0);
    EXPECT_EQ(kin_reader_exactly(in, 9, &bytes, &size, KIN_NEVER), 0); /* the end comes first */
    EXPECT_EQ(size, 4);
    EXPECT_EQ(memcmp(bytes, "last", 4), 0);
    EXPECT_EQ(kin_reader_exactly(in, 1, &bytes, &size, KIN_NEVER), 0);
    EXPECT_EQ(size, 0);
    EXPECT_EQ(kin_reader_some(in, 1, &bytes, &size, KIN_NEVER), 0);
    EXPECT_EQ(kin_reader_read(in, part, 5, &size, KIN_NEVER), 0);
    EXPECT_EQ(size, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
}

KIN_TEST(a_slow_peer_is_heard_out, "")
{
    with_pair(18, read_from_a_slow_peer);
}

/* ---- limits ---- */

static void exceed_limits(struct pair *pair)
{
    char *bytes;
    size_t size = 77;
    struct kin_reader *in = &pair->in;
    int *fds = pair->fds;
    say(fds[1], "0123456789abcde\nxy\n"); /* 15 bytes and the end do not fit into 15 */
    EXPECT_EQ(kin_reader_line(in, &bytes, &size, KIN_NEVER), -EMSGSIZE);
    EXPECT_EQ(kin_reader_line(in, &bytes, &size, 0), -EMSGSIZE); /* and stays so */
    EXPECT_EQ(size, 77);
    EXPECT_EQ(kin_reader_some(in, 1, &bytes, &size, KIN_NEVER), 1); /* the caller's way out */
    EXPECT_EQ(bytes[0], '0');
    expect_line(in, "123456789abcde");
    expect_line(in, "xy");

    kin_reader_limit(in, 4, 0);
    say(fds[1], "1234\r\n12345\n");
    expect_line(in, "1234"); /* its end does not count */
    EXPECT_EQ(kin_reader_line(in, &bytes, &size, KIN_NEVER), -EMSGSIZE);
    EXPECT_EQ(kin_reader_exactly(in, 5, &bytes, &size, KIN_NEVER), -EMSGSIZE);
    EXPECT_EQ(kin_reader_until(in, "45", 2, &bytes, &size, KIN_NEVER), 1);
    EXPECT_EQ(size, 3);
    expect_line(in, "");
    say(fds[1], "12345"); /* too long, and no end in sight: told without waiting for it */
    EXPECT_EQ(kin_reader_until(in, "!", 1, &bytes, &size, KIN_NEVER), -EMSGSIZE);
    EXPECT_EQ(kin_reader_line(in, &bytes, &size, 0), KIN_TIMEOUT); /* "\r" may be next */
    say(fds[1], "6");
    EXPECT_EQ(kin_reader_line(in, &bytes, &size, KIN_NEVER), -EMSGSIZE);
    kin_reader_limit(in, 0, 0);
    EXPECT_EQ(kin_reader_exactly(in, 6, &bytes, &size, 0), 1);
    EXPECT_EQ(kin_reader_exactly(in, 16, &bytes, &size, 0), -EMSGSIZE);
}

KIN_TEST(records_beyond_the_limit_are_refused_and_kept, "")
{
    with_pair(16, exceed_limits);
}

/* A last line that has no end needs no room for one. */
static void fill_the_buffer(struct pair *pair)
{
    say(pair->fds[1], "ab\n0123456789abcde");
    expect_line(&pair->in, "ab");
    EXPECT_EQ(shutdown(pair->fds[1], SHUT_WR), 0);
    expect_end(&pair->in, "0123456789abcde");
    expect_end(&pair->in, "");
}

/* The 0 behind a line has its place, whatever has happened to the buffer before. */
static void read_past_the_buffer(struct pair *pair)
{
    char to[32], *bytes;
    size_t size;
    say(pair->fds[1], "0123456789abcdef");
    EXPECT_EQ(kin_reader_some(&pair->in, 99, &bytes, &size, KIN_NEVER), 1);
    EXPECT_EQ(shutdown(pair->fds[1], SHUT_WR), 0);
    EXPECT_EQ(kin_reader_read(&pair->in, to, sizeof(to), &size, KIN_NEVER), 0);
    expect_end(&pair->in, "");
}

KIN_TEST(a_last_line_may_fill_the_buffer, "")
{
    with_pair(16, fill_the_buffer);
    with_pair(16, read_past_the_buffer);
}

static void exceed_the_total(struct pair *pair)
{
    char to[8], *bytes;
    size_t size;
    struct kin_reader *in = &pair->in;
    int *fds = pair->fds;
    kin_reader_limit(in, 0, 10);
    say(fds[1], "1234\n67890\n");
    expect_line(in, "1234");
    EXPECT_EQ(kin_reader_line(in, &bytes, &size, KIN_NEVER), -EFBIG); /* 5 are left, it has 6 */
    EXPECT_EQ(kin_reader_exactly(in, 6, &bytes, &size, KIN_NEVER), -EFBIG);
    EXPECT_EQ(kin_reader_some(in, 100, &bytes, &size, KIN_NEVER), 1);
    EXPECT_EQ(size, 5);
    EXPECT_EQ(kin_reader_some(in, 100, &bytes, &size, KIN_NEVER), -EFBIG);
    EXPECT_EQ(kin_reader_read(in, to, 1, &size, KIN_NEVER), -EFBIG);
    EXPECT_EQ(size, 0);
    kin_reader_limit(in, 0, 4);
    say(fds[1], "xyz");
    /* the end may be behind the last byte that is allowed: it waits to see */
    EXPECT_EQ(kin_reader_read(in, to, sizeof(to), &size, kin_after(KIN_MS(2))), KIN_TIMEOUT);
    EXPECT_EQ(size, 4);
    EXPECT_EQ(memcmp(to, "\nxyz", 4), 0);
    say(fds[1], "!");
    EXPECT_EQ(kin_reader_read(in, to, sizeof(to), &size, KIN_NEVER), -EFBIG);
    EXPECT_EQ(size, 0);
    kin_reader_limit(in, 0, 0);
    EXPECT_EQ(kin_reader_read(in, to, 1, &size, KIN_NEVER), 0);
    EXPECT_EQ(to[0], '!');
}

/* What is exactly as long as the limit and then ends is no breach. */
static void reach_the_total(struct pair *pair)
{
    char to[8], *bytes;
    size_t size;
    struct kin_reader *in = &pair->in;
    int *fds = pair->fds;
    kin_reader_limit(in, 0, 4);
    say(fds[1], "wxyz");
    EXPECT_EQ(shutdown(fds[1], SHUT_WR), 0);
    EXPECT_EQ(kin_reader_read(in, to, sizeof(to), &size, KIN_NEVER), 0);
    EXPECT_EQ(size, 4);
    EXPECT_EQ(kin_reader_some(in, 1, &bytes, &size, KIN_NEVER), 0);
}

KIN_TEST(more_than_the_limit_in_all_is_refused, "")
{
    with_pair(64, exceed_the_total);
    with_pair(64, reach_the_total);
}

static int misuse(void *arg)
{
    char buf[4], *bytes;
    size_t size;
    struct kin_reader in;
    struct kin_writer out;
    (void)arg;
    kin_reader_init(NULL, 0, buf, 4);
    kin_reader_limit(NULL, 1, 1);
    EXPECT_EQ(kin_reader_buffered(NULL), 0);
    EXPECT_EQ(kin_reader_line(NULL, &bytes, &size, 0), -EINVAL);
    kin_reader_init(&in, 0, buf, 1);
    EXPECT_EQ(kin_reader_line(&in, &bytes, &size, 0), -EINVAL);
    EXPECT_EQ(kin_reader_read(&in, buf, 1, &size, 0), -EINVAL);
    kin_reader_init(&in, 0, NULL, 4);
    EXPECT_EQ(kin_reader_some(&in, 1, &bytes, &size, 0), -EINVAL);
    EXPECT_EQ(kin_reader_line(&in, &bytes, &size, 0), -EINVAL);
    kin_reader_init(&in, -1, buf, 4);
    EXPECT_EQ(kin_reader_line(&in, NULL, &size, 0), -EINVAL);
    EXPECT_EQ(kin_reader_line(&in, &bytes, NULL, 0), -EINVAL);
    EXPECT_EQ(kin_reader_some(&in, 0, &bytes, &size, 0), -EINVAL);
    EXPECT_EQ(kin_reader_until(&in, "", 0, &bytes, &size, 0), -EINVAL);
    EXPECT_EQ(kin_reader_until(&in, "1234", 4, &bytes, &size, 0), -EINVAL);
    EXPECT_EQ(kin_reader_line(&in, &bytes, &size, 0), -EBADF);
    kin_writer_init(NULL, 0, buf, 4);
    kin_writer_limit(NULL, 1);
    EXPECT_EQ(kin_writer_buffered(NULL), 0);
    struct kin_writer never_made = {{0}};
    EXPECT_EQ(kin_writer_put(&never_made, "x", 1, &size, 0), -EINVAL);
    EXPECT_EQ(kin_writer_print(&never_made, 0, "x"), -EINVAL);
    EXPECT_EQ(kin_writer_flush(&never_made, 0), -EINVAL);
    EXPECT_EQ(kin_writer_put(NULL, "x", 1, &size, 0), -EINVAL);
    EXPECT_EQ(kin_writer_print(NULL, 0, "x"), -EINVAL);
    EXPECT_EQ(kin_writer_flush(NULL, 0), -EINVAL);
    kin_writer_init(&out, 1, buf, 0);
    EXPECT_EQ(kin_writer_put(&out, "x", 1, &size, 0), -EINVAL);
    EXPECT_EQ(size, 0);
    kin_writer_init(&out, -1, buf, 4);
    EXPECT_EQ(kin_writer_put(&out, NULL, 1, &size, 0), -EINVAL);
    EXPECT_EQ(kin_writer_put(&out, "x", 1, &size, 0), 0);
    EXPECT_EQ(kin_writer_flush(&out, 0), -EBADF);
    EXPECT_EQ(kin_writer_flush(&out, 0), -EBADF);
    EXPECT_EQ(kin_copy(-1, 0, 1, NULL, 0), -EBADF);
    return 0;
}

KIN_TEST(misuse_is_told, "")
{
    both(misuse);
}

KIN_TEST(outside_a_task_nothing_is_read_or_written, "N1002")
{
    char buf[8], *bytes;
    size_t size;
    struct kin_reader in;
    struct kin_writer out;
    struct kin_copied done = {7, 7};
    kin_reader_init(&in, 0, buf, sizeof(buf));
    EXPECT_EQ(kin_reader_line(&in, &bytes, &size, 0), KIN_NOTASK);
    kin_writer_init(&out, 1, buf, sizeof(buf));
    EXPECT_EQ(kin_writer_put(&out, "x", 1, &size, 0), KIN_NOTASK);
    EXPECT_EQ(kin_writer_print(&out, 0, "x"), KIN_NOTASK);
    EXPECT_EQ(kin_writer_flush(&out, 0), KIN_NOTASK);
    EXPECT_EQ(kin_copy(1, 0, 1, &done, 0), KIN_NOTASK);
    EXPECT_EQ(done.taken + done.given, 0);
}

/* ---- ends ---- */

/* A deadline and a cancel in the middle of a record: the next call goes on from there. */
static void come_back_later(struct pair *pair)
{
    char *bytes;
    size_t size = 77;
    struct kin_reader *in = &pair->in;
    int *fds = pair->fds;
    say(fds[1], "begun, ");
    EXPECT_EQ(kin_reader_line(in, &bytes, &size, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_reader_line(in, &bytes, &size, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(kin_reader_exactly(in, 8, &bytes, &size, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(kin_reader_until(in, "!", 1, &bytes, &size, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(size, 77);
    EXPECT_EQ(kin_reader_buffered(in), 7);
    say(fds[1], "ended\n");
    expect_line(in, "begun, ended");
}

static int read_a_line(void *in)
{
    char *line;
    size_t size;
    EXPECT_EQ(kin_reader_line(in, &line, &size, KIN_NEVER), KIN_CANCELLED);
    return 0;
}

static void cancel_a_line(struct pair *pair)
{
    say(pair->fds[1], "half ");
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, read_a_line, &pair->in), 0);
    while (kin_reader_buffered(&pair->in) < 5) /* ends: it reads what is there */
        EXPECT_EQ(kin_sleep(kin_after(1000)), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    say(pair->fds[1], "and half\n");
    expect_line(&pair->in, "half and half");
}

KIN_TEST(an_early_return_loses_nothing, "")
{
    with_pair(64, come_back_later);
    body = cancel_a_line;
    EXPECT_EQ(run_reporting(1, in_pair, NULL, NULL), 0);
}

static void listen_and_connect(int *client, int *server)
{
    int listener;
    char addr[KIN_ADDR_MAX];
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
    EXPECT_EQ(kin_tcp_connect(addr, client, KIN_NEVER), 0);
    EXPECT_EQ(kin_accept(listener, server, KIN_NEVER), 0);
    EXPECT_EQ(kin_close(listener), 0);
}

/* The end of a connection comes together with data, after it, or as a reset. */
static int end_in_every_way(void *arg)
{
    int client, server;
    char buf[64], *bytes;
    size_t size;
    struct kin_reader in;
    (void)arg;
    for (int i = 0; i < 20; i++) {
        listen_and_connect(&client, &server);
        kin_reader_init(&in, server, buf, sizeof(buf));
        say(client, "a\nb\nc");
        if (i % 2)
            EXPECT_EQ(kin_sleep(kin_after(1000)), 0);
        EXPECT_EQ(kin_shutdown(client, SHUT_WR), 0);
        expect_line(&in, "a");
        expect_line(&in, "b");
        expect_end(&in, "c");
        expect_end(&in, "");
        close_pair((int[2]){client, server});
    }
    listen_and_connect(&client, &server);
    kin_reader_init(&in, server, buf, sizeof(buf));
    say(client, "kept");
    EXPECT_EQ(kin_reader_line(&in, &bytes, &size, kin_after(KIN_MS(5))), KIN_TIMEOUT);
    struct linger at_once = {1, 0};
    EXPECT_EQ(setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    EXPECT_EQ(kin_close(client), 0);
    EXPECT_EQ(kin_reader_line(&in, &bytes, &size, KIN_NEVER), -ECONNRESET);
    /* the system tells it once and an orderly end after that */
    EXPECT_EQ(kin_reader_line(&in, &bytes, &size, KIN_NEVER), -ECONNRESET);
    EXPECT_EQ(kin_reader_some(&in, 9, &bytes, &size, KIN_NEVER), 1); /* not lost either */
    EXPECT_EQ(size, 4);
    EXPECT_EQ(kin_reader_some(&in, 9, &bytes, &size, KIN_NEVER), -ECONNRESET);
    EXPECT_EQ(kin_close(server), 0);
    return 0;
}

KIN_TEST(an_end_and_a_reset_are_told_apart_and_stay, "")
{
    both(end_in_every_way);
}

/* ---- writing ---- */

static void write_pieces(struct pair *pair)
{
    char back[64];
    size_t done;
    struct kin_writer *out = &pair->out;
    int *fds = pair->fds;
    EXPECT_EQ(kin_writer_put(out, "0123456789", 10, &done, 0), 0);
    EXPECT_EQ(done, 10);
    EXPECT_EQ(kin_writer_put(out, "abcdef", 6, NULL, 0), 0);
    EXPECT_EQ(kin_writer_buffered(out), 16);
    EXPECT_EQ(kin_fd_wait(fds[1], 1 /* POLLIN */, 0), KIN_TIMEOUT); /* nothing written yet */
    EXPECT_EQ(kin_writer_put(out, "g", 1, &done, 0), 0); /* full: what was there goes first */
    EXPECT_EQ(kin_writer_buffered(out), 1);
    EXPECT_EQ(kin_writer_print(out, 0, "%d-%s", 42, "hi"), 0);
    EXPECT_EQ(kin_writer_print(out, 0, "%s", "0123456789abcdef"), -EMSGSIZE);
    EXPECT_EQ(kin_writer_buffered(out), 6);
    EXPECT_EQ(kin_writer_print(out, 0, "%s", "0123456789abcde"), 0); /* after the six */
    EXPECT_EQ(kin_writer_buffered(out), 15);
    EXPECT_EQ(kin_writer_put(out, "01234567890123456789", 20, &done, 0), 0); /* and at once */
    EXPECT_EQ(done, 20);
    EXPECT_EQ(kin_writer_buffered(out), 0);
    EXPECT_EQ(kin_writer_flush(out, 0), 0);
    EXPECT_EQ(kin_writer_put(out, NULL, 0, &done, 0), 0);
    EXPECT_EQ(kin_read(fds[1], back, sizeof(back), 0), 57);
    EXPECT_EQ(memcmp(back, "0123456789abcdefg42-hi0123456789abcde01234567890123456789", 57), 0);
    kin_writer_limit(out, 3);
    EXPECT_EQ(kin_writer_put(out, "abcd", 4, &done, 0), -EFBIG);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(kin_writer_print(out, 0, "%04d", 1), -EFBIG);
    EXPECT_EQ(kin_writer_put(out, "ab", 2, &done, 0), 0);
    EXPECT_EQ(kin_writer_print(out, 0, "%d", 1), 0);
    EXPECT_EQ(kin_writer_put(out, "c", 1, &done, 0), -EFBIG);
    EXPECT_EQ(kin_writer_flush(out, 0), 0);
}

KIN_TEST(small_pieces_are_gathered_and_large_ones_pass, "")
{
    with_pair(16, write_pieces);
}

/* A peer that does not read: what was taken stays, and arrives once it does. */
static void write_to_a_slow_peer(struct pair *pair)
{
    static char big[100000], back[sizeof(big) + 64];
    size_t done, got, taken = 0;
    struct kin_writer *out = &pair->out;
    int *fds = pair->fds, small = 4096;
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 13);
    EXPECT_EQ(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    EXPECT_EQ(kin_writer_put(out, big, 20, &taken, 0), 0);
    EXPECT_EQ(kin_writer_put(out, big + 20, sizeof(big) - 20, &done, kin_after(KIN_MS(2))),
              KIN_TIMEOUT);
    EXPECT_GT(done, 0);
    EXPECT_LT(done, sizeof(big) - 20);
    taken += done;
    EXPECT_EQ(kin_writer_buffered(out), 0); /* it went before the large part */
    EXPECT_EQ(kin_writer_put(out, big + taken, 60, &done, 0), 0);
    taken += 60;
    EXPECT_EQ(kin_writer_put(out, big + taken, 10, &done, 0), KIN_TIMEOUT); /* all or nothing */
    EXPECT_EQ(done, 0);
    EXPECT_EQ(kin_writer_flush(out, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    got = 0;
    while (kin_writer_buffered(out) > 0) { /* ends: the peer makes room */
        ssize_t some = kin_read(fds[1], back + got, 500, 0);
        EXPECT_GT(some, 0);
        got += (size_t)some;
        int rc = kin_writer_flush(out, 0);
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
    }
    EXPECT_EQ(kin_shutdown(fds[0], SHUT_WR), 0);
    EXPECT_EQ(kin_read_full(fds[1], back + got, sizeof(back) - got, &done, KIN_NEVER), 0);
    EXPECT_EQ(got + done, taken);
    EXPECT_EQ(memcmp(back, big, taken), 0);
}

KIN_TEST(a_peer_that_does_not_read_loses_nothing, "")
{
    with_pair(64, write_to_a_slow_peer);
}

static void write_to_nobody(struct pair *pair)
{
    size_t done;
    struct kin_writer *out = &pair->out;
    EXPECT_EQ(kin_writer_put(out, "lost", 4, &done, 0), 0);
    EXPECT_EQ(kin_close(pair->fds[1]), 0);
    pair->fds[1] = -1;
    EXPECT_EQ(kin_writer_flush(out, KIN_NEVER), -EPIPE);
    EXPECT_EQ(kin_writer_buffered(out), 4);
    EXPECT_EQ(kin_writer_put(out, "x", 1, &done, 0), -EPIPE); /* and stays so */
    EXPECT_EQ(done, 0);
    EXPECT_EQ(kin_writer_print(out, 0, "x"), -EPIPE);
}

KIN_TEST(writing_to_nobody_is_told_and_raises_no_signal, "")
{
    with_pair(16, write_to_nobody);
}

/* ---- copying ---- */

struct copying {
    int to, from, rc;
    struct kin_copied done;
};

static int copy_all(void *arg)
{
    struct copying *copying = arg;
    copying->rc = kin_copy(copying->to, copying->from, UINT64_MAX, &copying->done, KIN_NEVER);
    kin_ignore(kin_shutdown(copying->to, SHUT_WR));
    return copying->rc;
}

/* client -> server -> copy -> relay -> sink: half-close travels along. */
static int copy_a_connection(void *arg)
{
    int a[2], b[2];
    char back[16];
    size_t done;
    struct copying copying;
    (void)arg;
    listen_and_connect(&a[0], &a[1]);
    listen_and_connect(&b[0], &b[1]);
    copying = (struct copying){.to = b[0], .from = a[1]};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, copy_all, &copying), 0);
    EXPECT_EQ(kin_write(a[0], "over there", 10, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_read_full(b[1], back, 10, &done, KIN_NEVER), 0);
    EXPECT_EQ(memcmp(back, "over there", 10), 0);
    EXPECT_EQ(kin_shutdown(a[0], SHUT_WR), 0);
    EXPECT_EQ(kin_read(b[1], back, 1, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(copying.done.taken, 10);
    EXPECT_EQ(copying.done.given, 10);
    close_pair(a);
    close_pair(b);
    return 0;
}

KIN_TEST(a_copy_ends_with_its_source, "")
{
    both(copy_a_connection);
}
