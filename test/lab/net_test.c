/* SPDX-License-Identifier: MIT */
/*
 * Goal: programs with sockets run in the lab on a network that repeats itself, goes wrong where it
 * is told to, and is explored to the end where a test is small.
 * Method: small servers and clients, under every strategy, with and without faults; bugs that only
 * the network shows, and their remedies.
 */
#include "lab/in_lab.h"

#include "lab/report.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

static void expect_well(int rc)
{
    if (rc < 0)
        printf("%s\n", report.text);
    EXPECT_EQ(rc, 0);
}

/* ---- an echo server with two clients ---- */

/* Everything that comes goes back, until the other end is closed. */
static int echo(int conn)
{
    char buf[16];
    ssize_t got;
    int rc = 0;
    while (rc == 0 && (got = kin_read(conn, buf, sizeof(buf), KIN_NEVER)) != 0)
        rc = got < 0 ? (int)got : kin_write(conn, buf, (size_t)got, NULL, KIN_NEVER);
    kin_close(conn);
    return rc;
}

static int serve_two(void *arg)
{
    int listener = *(int *)arg, conn, rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = kin_accept(listener, &conn, KIN_NEVER);
        if (rc == 0)
            rc = echo(conn);
    }
    return rc;
}

static int ask(void *arg)
{
    int conn;
    char word = *(char *)arg, answer = 0;
    int rc = kin_tcp_connect("127.0.0.1:7000", &conn, KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = kin_write(conn, &word, 1, NULL, KIN_NEVER);
    ssize_t got = rc < 0 ? rc : kin_read(conn, &answer, 1, KIN_NEVER);
    kin_close(conn);
    if (got >= 0)
        kin_lab_assert(got == 1 && answer == word, "the answer is the question");
    return got < 0 ? (int)got : 0;
}

static int echo_two(void *arg)
{
    int listener;
    static char words[2] = {'a', 'b'};
    (void)arg;
    int rc = kin_tcp_listen("127.0.0.1:7000", NULL, &listener);
    if (rc < 0)
        return rc;
    KIN_NURSERY(n);
    rc = kin_spawn(&n, serve_two, &listener);
    for (int i = 0; i < 2 && rc >= 0; i++)
        rc = kin_spawn(&n, ask, &words[i]);
    int joined = kin_nursery_join(&n, NULL);
    kin_close(listener);
    return rc < 0 ? rc : joined;
}

KIN_TEST(an_echo_server_works_under_every_strategy, "")
{
    expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, echo_two, NULL));
    expect_well(lab(KIN_LAB_RANDOM, 300, echo_two, NULL));
    expect_well(lab(KIN_LAB_PCT, 300, echo_two, NULL));
}

KIN_TEST(an_echo_server_is_explored_completely, "")
{
    bool is_slow = kin_test_scale() > 1;
    expect_well(lab(KIN_LAB_DPOR, is_slow ? 500 : 0, echo_two, NULL));
    EXPECT(report.exhausted || is_slow);
    EXPECT_GE(report.executions, is_slow ? 100 : 500); /* known ones are broken off */
}

/* ---- a protocol with lengths ---- */

/* How a reader takes a header of two bytes: as if it were always there in one piece, or not. */
static bool reads_in_full;

static int read_message(int conn, char *buf, size_t cap)
{
    unsigned char header[2] = {0, 0};
    size_t done = 0;
    ssize_t got = reads_in_full ? kin_read_full(conn, header, 2, &done, KIN_NEVER)
                                : kin_read(conn, header, 2, KIN_NEVER);
    if (got < 0)
        return (int)got;
    size_t size = (size_t)header[0] << 8 | header[1];
    if (size > cap)
        return -EMSGSIZE;
    int rc = kin_read_full(conn, buf, size, &done, KIN_NEVER);
    return rc < 0 ? rc : (int)done;
}

static int send_message(void *arg)
{
    static const char message[] = "\0\5hello";
    int conn;
    (void)arg;
    int rc = kin_tcp_connect("127.0.0.1:7000", &conn, KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = kin_write(conn, message, sizeof(message) - 1, NULL, KIN_NEVER);
    kin_close(conn);
    return rc;
}

static int take_message(void *arg)
{
    int listener = *(int *)arg, conn;
    char buf[16] = "";
    int rc = kin_accept(listener, &conn, KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = read_message(conn, buf, sizeof(buf));
    kin_close(conn);
    if (rc >= 0)
        kin_lab_assert(rc == 5 && memcmp(buf, "hello", 5) == 0, "the message is what was sent");
    return rc;
}

/* Children may fail: a fault was planned. What they got must be right. */
static int with_listener(kin_task_fn *server, kin_task_fn *client)
{
    int listener;
    int rc = kin_tcp_listen("127.0.0.1:7000", NULL, &listener);
    if (rc < 0)
        return rc;
    KIN_NURSERY(n);
    rc = kin_spawn(&n, server, &listener);
    if (rc >= 0)
        rc = kin_spawn(&n, client, NULL);
    int joined = kin_nursery_join(&n, NULL);
    kin_close(listener);
    return rc < 0 ? rc : joined;
}

static int protocol(void *arg)
{
    (void)arg;
    return with_listener(take_message, send_message);
}

KIN_TEST(a_short_read_finds_who_counts_on_long_ones, "")
{
    reads_in_full = false;
    expect_well(lab(KIN_LAB_DPOR, 0, protocol, NULL)); /* nothing shows without faults */
    EXPECT(report.exhausted);
    EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_NET, protocol, NULL), KIN_PANICKED);
    EXPECT_STR(report.oracle, "assert");
    EXPECT(strstr(report.text, "short read") != NULL);
    EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 5000, KIN_FAULT_NET, protocol, NULL), KIN_PANICKED);
}

KIN_TEST(the_remedy_bears_all_faults, "")
{
    reads_in_full = true;
    expect_well(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_NET, protocol, NULL));
    EXPECT(report.exhausted);
    EXPECT_GT(report.executions, 100);
    expect_well(lab_with(KIN_LAB_RANDOM, 500, KIN_FAULT_NET | KIN_FAULT_CHAOS, protocol, NULL));
}

/* ---- the same again ---- */

KIN_TEST(a_failure_repeats_itself_a_thousand_times, "")
{
    char directory[] = "/tmp/kin-net-XXXXXX";
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    reads_in_full = false;
    config.strategy = KIN_LAB_RANDOM;
    config.executions_max = 5000;
    config.faults = KIN_FAULT_NET;
    config.report_dir = directory;
    EXPECT_EQ(kin_lab_run(&config, protocol, NULL, &report), KIN_PANICKED);
    EXPECT(report.replay_file != NULL);
    char file[256];
    snprintf(file, sizeof(file), "%s", report.replay_file);
    config.strategy = KIN_LAB_REPLAY;
    config.executions_max = 1000;
    config.replay_file = file;
    config.report_dir = NULL;
    kin__lab_wish.keeps_going = true; /* counts, and tells of the first */
    EXPECT_EQ(kin_lab_run(&config, protocol, NULL, &report), KIN_PANICKED);
    EXPECT_STR(report.oracle, "assert");
    EXPECT_EQ(kin__lab_wish.result.failures, 1000);
    kin__lab_wish.keeps_going = false;
    char command[300];
    snprintf(command, sizeof(command), "rm -r %s", directory);
    EXPECT_EQ(system(command), 0);
}

KIN_TEST(a_seed_is_a_run, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    reads_in_full = true;
    config.strategy = KIN_LAB_RANDOM;
    config.executions_max = 20;
    config.seed = kin_test_seed();
    config.faults = KIN_FAULT_NET | KIN_FAULT_CHAOS;
    expect_well(kin_lab_run(&config, protocol, NULL, &report));
    uint64_t hash = report.schedule_hash, steps = report.steps;
    expect_well(kin_lab_run(&config, protocol, NULL, &report));
    EXPECT_EQ(report.schedule_hash, hash);
    EXPECT_EQ(report.steps, steps);
}

/* ---- what goes wrong ---- */

static unsigned refused, unanswered, reset, well, slow;

static int talk(void *arg)
{
    int conn = -1;
    char byte = 0;
    (void)arg;
    kin_time began = kin_now();
    ssize_t got = kin_tcp_connect("127.0.0.1:7000", &conn, KIN_NEVER);
    if (got == 0) {
        got = kin_write(conn, "x", 1, NULL, KIN_NEVER);
        if (got == 0)
            got = kin_read(conn, &byte, 1, KIN_NEVER);
        kin_close(conn);
    }
    refused += got == -ECONNREFUSED;
    unanswered += got == -ETIMEDOUT;
    reset += got == -ECONNRESET;
    well += got == 1 && byte == 'x';
    slow += got == 1 && kin_now() > began;
    return 0;
}

static int echo_once(void *arg)
{
    int conn;
    int rc = kin_accept(*(int *)arg, &conn, kin_after(KIN_SEC(600)));
    if (rc == 0)
        rc = echo(conn);
    return rc == KIN_TIMEOUT || rc == -ECONNRESET ? 0 : rc; /* nobody came; or broke it off */
}

static int talk_once(void *arg)
{
    (void)arg;
    return with_listener(echo_once, talk);
}

KIN_TEST(connections_are_refused_unanswered_late_and_reset, "")
{
    expect_well(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_NET, talk_once, NULL));
    EXPECT(report.exhausted);
    EXPECT_GT(refused, 0);
    EXPECT_GT(unanswered, 0);
    EXPECT_GT(reset, 0);
    EXPECT_GT(well, 0);
    EXPECT_GT(slow, 0); /* late, or accept had no descriptor for a moment */
}

/* A client that loses an answer when the connection breaks before it: both ends must say so. */
static int read_rest(void *arg)
{
    int conn = *(int *)arg;
    char buf[64];
    ssize_t got, sum = 0;
    while ((got = kin_read(conn, buf, sizeof(buf), KIN_NEVER)) > 0)
        sum += got;
    kin_close(conn);
    kin_lab_assert(got == -ECONNRESET || sum == 8, "all of it, or an error");
    return 0;
}

static int break_in_the_middle(void *arg)
{
    int fds[2];
    (void)arg;
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "a pair");
    KIN_NURSERY(n);
    int rc = kin_spawn(&n, read_rest, &fds[1]);
    if (rc >= 0)
        rc = kin_write(fds[0], "1234", 4, NULL, KIN_NEVER);
    if (rc >= 0)
        rc = kin_write(fds[0], "5678", 4, NULL, KIN_NEVER);
    kin_close(fds[0]);
    int joined = kin_nursery_join(&n, NULL);
    return rc == -ECONNRESET ? joined : rc < 0 ? rc : joined;
}

KIN_TEST(a_reset_in_the_middle_is_told_to_both, "")
{
    expect_well(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_NET, break_in_the_middle, NULL));
    EXPECT(report.exhausted);
}

/* ---- datagrams ---- */

#define MINUTE KIN_SEC(60)

static bool asks_again;
static unsigned twice;

static int answer_all(void *arg)
{
    int fd = *(int *)arg;
    char buf[8], from[KIN_ADDR_MAX];
    ssize_t got;
    unsigned count = 0;
    while ((got = kin_udp_recv(fd, buf, sizeof(buf), from, sizeof(from), kin_after(MINUTE))) > 0) {
        count++;
        ssize_t put = kin_udp_send(fd, "pong", 4, from, KIN_NEVER);
        if (put < 0)
            return (int)put;
    }
    twice += count > 1;
    return 0;
}

static int ask_by_datagram(void *arg)
{
    int fd;
    char buf[8];
    (void)arg;
    int rc = kin_udp_open("127.0.0.1:0", &fd);
    ssize_t got = rc;
    for (int i = 0; rc == 0 && i < 5; i++) {
        got = kin_udp_send(fd, "ping", 4, "127.0.0.1:7000", KIN_NEVER);
        if (got == 4)
            got = kin_udp_recv(fd, buf, sizeof(buf), NULL, 0,
                               asks_again ? kin_after(KIN_SEC(1)) : KIN_NEVER);
        if (got != KIN_TIMEOUT)
            break;
    }
    kin_close(fd);
    return got < 0 ? (int)got : 0;
}

static int by_datagram(void *arg)
{
    int fd;
    (void)arg;
    int rc = kin_udp_open("127.0.0.1:7000", &fd);
    if (rc < 0)
        return rc;
    KIN_NURSERY(n);
    rc = kin_spawn(&n, answer_all, &fd);
    if (rc >= 0)
        rc = ask_by_datagram(NULL);
    kin_lab_assert(rc == 0, "there is an answer");
    int joined = kin_nursery_join(&n, NULL);
    kin_close(fd);
    return rc < 0 ? rc : joined;
}

KIN_TEST(a_lost_datagram_finds_who_asks_but_once, "")
{
    asks_again = false;
    expect_well(lab(KIN_LAB_RANDOM, 50, by_datagram, NULL));
    EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_NET, by_datagram, NULL), KIN_DEADLOCK);
    EXPECT(strstr(report.text, "datagram") != NULL);
    EXPECT(strstr(report.text, "recv udp root#fd1") != NULL);
}

KIN_TEST(who_asks_again_gets_an_answer, "")
{
    asks_again = true;
    expect_well(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_NET, by_datagram, NULL));
    EXPECT(report.exhausted);
    EXPECT_GT(twice, 0); /* a datagram came twice, or a late one besides its repetition */
}

static unsigned orders[2];

static int two_datagrams(void *arg)
{
    int to, from;
    char a, b;
    (void)arg;
    KIN_LAB_OK(kin_udp_open("127.0.0.1:7000", &to));
    KIN_LAB_OK(kin_udp_open("127.0.0.1:0", &from));
    kin_ignore((int)kin_udp_send(from, "a", 1, "127.0.0.1:7000", KIN_NEVER));
    kin_ignore((int)kin_udp_send(from, "b", 1, "127.0.0.1:7000", KIN_NEVER));
    if (kin_udp_recv(to, &a, 1, NULL, 0, kin_after(KIN_SEC(20))) == 1 &&
        kin_udp_recv(to, &b, 1, NULL, 0, kin_after(KIN_SEC(20))) == 1 && a != b)
        orders[a == 'b']++;
    kin_lab_assert(kin_udp_send(from, "a", 65508, "127.0.0.1:7000", 0) == -EMSGSIZE, "too long");
    kin_close(to);
    kin_close(from);
    return 0;
}

KIN_TEST(datagrams_overtake_each_other, "")
{
    expect_well(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_NET, two_datagrams, NULL));
    EXPECT_GT(orders[0], 0);
    EXPECT_GE(orders[1], 2); /* one came late, or one overtook */
}

/* ---- waiting ---- */

static unsigned ready[2];

static int feed(void *arg)
{
    return kin_write(*(int *)arg, "x", 1, NULL, KIN_NEVER);
}

static int choose(void *arg)
{
    int a[2], b[2];
    (void)arg;
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, a) == 0, "a pair");
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, b) == 0, "another");
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, feed, &a[0]));
    KIN_LAB_OK(kin_spawn(&n, feed, &b[0]));
    for (int i = 0; i < 2; i++) {
        char byte;
        struct kin_case cases[] = {kin_case_read(a[1]), kin_case_read(b[1])};
        int which = kin_select(cases, 2, KIN_NEVER);
        kin_lab_assert(which >= 0, "one of them");
        kin_lab_assert(kin_read(which ? b[1] : a[1], &byte, 1, 0) == 1, "which is ready");
        ready[which] += i == 0;
    }
    int rc = kin_nursery_join(&n, NULL);
    for (int i = 0; i < 2; i++) {
        kin_close(a[i]);
        kin_close(b[i]);
    }
    return rc;
}

KIN_TEST(a_select_takes_either_descriptor_that_is_ready, "")
{
    expect_well(lab(KIN_LAB_DPOR, 0, choose, NULL));
    EXPECT(report.exhausted);
    EXPECT_GT(ready[0], 0);
    EXPECT_GT(ready[1], 0);
}

static unsigned cancelled, closed;

static int read_one(void *arg)
{
    char byte;
    ssize_t got = kin_read(*(int *)arg, &byte, 1, KIN_NEVER);
    cancelled += got == KIN_CANCELLED;
    closed += got == KIN_CLOSED;
    kin_lab_assert(got == KIN_CANCELLED || got == KIN_CLOSED || got == -EBADF, "it is told why");
    return got == KIN_CANCELLED ? KIN_CANCELLED : 0;
}

static int cancel_reader(void *arg)
{
    int fds[2];
    (void)arg;
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "a pair");
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, read_one, &fds[0]));
    kin_nursery_cancel(&n, KIN_CANCELLED);
    kin_ignore(kin_nursery_join(&n, NULL));
    kin_close(fds[0]);
    kin_close(fds[1]);
    return 0;
}

static int close_reader(void *arg)
{
    int fds[2];
    (void)arg;
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "a pair");
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, read_one, &fds[0]));
    kin_close(fds[0]);
    int rc = kin_nursery_join(&n, NULL);
    kin_close(fds[1]);
    return rc;
}

KIN_TEST(a_read_is_cancelled_and_a_close_wakes_who_waits, "")
{
    expect_well(lab(KIN_LAB_DPOR, 0, cancel_reader, NULL));
    EXPECT(report.exhausted);
    EXPECT_GT(cancelled, 0);
    expect_well(lab(KIN_LAB_DPOR, 0, close_reader, NULL));
    EXPECT(report.exhausted);
    EXPECT_GT(closed, 0);
}

/* ---- listeners ---- */

static int come_and_go(void *arg)
{
    int conn;
    (void)arg;
    int rc = kin_tcp_connect("127.0.0.1:7000", &conn, KIN_NEVER);
    if (rc == 0)
        kin_close(conn);
    return rc;
}

static int small_backlog(void *arg)
{
    struct kin_listen_options options = KIN_LISTEN_OPTIONS_INIT;
    int listener, conn;
    options.backlog = 1;
    KIN_LAB_OK(kin_tcp_listen("127.0.0.1:7000", &options, &listener));
    KIN_NURSERY(n);
    for (int i = 0; i < 4; i++)
        KIN_LAB_OK(kin_spawn(&n, come_and_go, arg));
    KIN_LAB_OK(kin_lab_wait_all_blocked()); /* two are in, two wait */
    for (int i = 0; i < 4; i++) {
        KIN_LAB_OK(kin_accept(listener, &conn, KIN_NEVER));
        kin_close(conn);
    }
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_close(listener);
    return 0;
}

KIN_TEST(who_finds_no_room_in_the_backlog_waits, "")
{
    expect_well(lab(KIN_LAB_RANDOM, 100, small_backlog, NULL));
}

static int close_under_callers(void *arg)
{
    struct kin_listen_options options = KIN_LISTEN_OPTIONS_INIT;
    int listener;
    options.backlog = 1;
    KIN_LAB_OK(kin_tcp_listen("127.0.0.1:7000", &options, &listener));
    struct kin_outcome how;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    for (int i = 0; i < 3; i++)
        KIN_LAB_OK(kin_spawn(&n, come_and_go, arg));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    kin_close(listener);
    kin_ignore(kin_nursery_join(&n, &how));
    kin_lab_assert(how.status == -ECONNREFUSED, "whoever still waited is refused");
    return 0;
}

KIN_TEST(a_listener_that_is_closed_refuses_who_waits, "")
{
    expect_well(lab(KIN_LAB_RANDOM, 50, close_under_callers, NULL));
}

static unsigned shares[2];

static int share_a_port(void *arg)
{
    struct kin_listen_options options = KIN_LISTEN_OPTIONS_INIT;
    int one, two, conn, other;
    (void)arg;
    KIN_LAB_OK(kin_tcp_listen("127.0.0.1:7000", NULL, &one));
    kin_lab_assert(kin_tcp_listen("*:7000", NULL, &two) == -EADDRINUSE, "taken");
    kin_close(one);
    options.shares_port = true;
    KIN_LAB_OK(kin_tcp_listen("127.0.0.1:7000", &options, &one));
    KIN_LAB_OK(kin_tcp_listen("127.0.0.1:7000", &options, &two));
    KIN_LAB_OK(kin_tcp_connect("127.0.0.1:7000", &conn, KIN_NEVER));
    int rc = kin_accept(one, &other, 0);
    shares[rc == 0]++;
    if (rc < 0)
        KIN_LAB_OK(kin_accept(two, &other, 0));
    kin_close(one);
    kin_close(two);
    kin_close(conn);
    kin_close(other);
    return 0;
}

KIN_TEST(listeners_that_share_a_port_get_a_part_each, "")
{
    expect_well(lab(KIN_LAB_DPOR, 0, share_a_port, NULL));
    EXPECT_GT(shares[0], 0);
    EXPECT_GT(shares[1], 0);
}

/* ---- chaos, then quiet ---- */

static int insist(void *arg)
{
    int conn;
    char byte = 0;
    (void)arg;
    for (int i = 0; i < 200; i++) { /* as a client does that must get an answer */
        int rc = kin_tcp_connect("127.0.0.1:7000", &conn, kin_after(KIN_SEC(1)));
        ssize_t got = rc;
        if (rc == 0) {
            got = kin_write(conn, "x", 1, NULL, kin_after(KIN_SEC(1)));
            if (got == 0)
                got = kin_read(conn, &byte, 1, kin_after(KIN_SEC(1)));
            kin_close(conn);
        }
        if (got == 1)
            return 0;
        kin_ignore(kin_sleep(kin_after(KIN_MS(100))));
    }
    return -EIO;
}

static int echo_on(void *arg)
{
    int conn, rc;
    while ((rc = kin_accept(*(int *)arg, &conn, KIN_NEVER)) == 0)
        kin_ignore(echo(conn));
    return rc;
}

static int come_to_rest(void *arg)
{
    int listener;
    KIN_LAB_OK(kin_tcp_listen("127.0.0.1:7000", NULL, &listener));
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    KIN_LAB_OK(kin_spawn(&n, echo_on, &listener));
    int rc = insist(arg);
    kin_lab_assert(rc == 0, "in the end there is an answer");
    kin_nursery_cancel(&n, KIN_CANCELLED);
    kin_ignore(kin_nursery_join(&n, NULL));
    kin_close(listener);
    return 0;
}

KIN_TEST(after_chaos_a_client_that_insists_is_answered, "")
{
    expect_well(lab_with(KIN_LAB_RANDOM, 200, KIN_FAULT_NET | KIN_FAULT_CHAOS, come_to_rest, NULL));
}

/* ---- random small programs: no outcome is missed ---- */

#define ACTORS 3u
#define OPS 3u
#define OUTCOMES 4096u

static struct {
    uint8_t ops[ACTORS][OPS], on[ACTORS][OPS];
    int32_t results[ACTORS][OPS];
    int fds[6]; /* two pairs, a listener, a socket for datagrams */
} random_program;

static uint64_t outcomes[OUTCOMES];
static size_t outcomes_count;
static bool is_collecting;
static unsigned missed;

/* What one operation comes back with, which may wait for a moment. */
static int do_one(unsigned op, unsigned on)
{
    static char much[40000]; /* two of them do not fit */
    int fd = random_program.fds[on % 4], conn;
    kin_time deadline = on & 16 ? kin_after(KIN_SEC(1)) : 0;
    char buf[8];
    switch (op) {
    case 0:
        return kin_write(fd, much, on & 32 ? sizeof(much) : 2, NULL, deadline);
    case 1:
        return (int)kin_read(fd, on & 32 ? much : buf, on & 32 ? sizeof(much) : 1 + on % 3,
                             deadline);
    case 2:
        return kin_shutdown(fd, on % 3 == 0 ? SHUT_RDWR : on % 3 == 1 ? SHUT_WR : SHUT_RD);
    case 3:
        return kin_fd_wait(fd, 1 | 4, 0); /* POLLIN, POLLOUT */
    case 4:
        return kin_close(fd);
    case 5: {
        int rc = kin_tcp_connect("127.0.0.1:7000", &conn, kin_after(KIN_SEC(1)));
        if (rc == 0)
            rc = kin_write(conn, "c", 1, NULL, 0);
        return rc; /* it stays open */
    }
    case 6: {
        int rc = kin_accept(random_program.fds[4], &conn, deadline);
        return rc < 0 ? rc : (int)kin_read(conn, buf, 8, deadline);
    }
    case 7:
        return (int)kin_udp_send(random_program.fds[5], "d", on % 3, "127.0.0.1:7000", 0);
    case 8:
        return (int)kin_udp_recv(random_program.fds[5], buf, 8, NULL, 0, deadline);
    default: {
        struct kin_case cases[2] = {kin_case_read(fd), kin_case_after(KIN_SEC(1))};
        return kin_select(cases, 2, KIN_NEVER);
    }
    }
}

static int act(void *arg)
{
    unsigned me = *(unsigned *)arg;
    for (unsigned i = 0; i < OPS; i++)
        random_program.results[me][i] =
            do_one(random_program.ops[me][i], random_program.on[me][i]);
    return 0;
}

static void note_outcome(void)
{
    uint64_t hash = 14695981039346656037u;
    for (unsigned i = 0; i < ACTORS * OPS; i++)
        hash = (hash ^ (uint32_t)random_program.results[i / OPS][i % OPS]) * 1099511628211u;
    for (size_t i = 0; i < outcomes_count; i++) {
        if (outcomes[i] == hash)
            return;
    }
    missed += !is_collecting;
    if (is_collecting && outcomes_count < OUTCOMES)
        outcomes[outcomes_count++] = hash;
}

static int random_run(void *arg)
{
    static unsigned numbers[ACTORS] = {0, 1, 2};
    int *fds = random_program.fds;
    (void)arg;
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "a pair");
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds + 2) == 0, "another");
    KIN_LAB_OK(kin_tcp_listen("127.0.0.1:7000", NULL, &fds[4]));
    KIN_LAB_OK(kin_udp_open("127.0.0.1:7000", &fds[5]));
    KIN_NURSERY(n);
    for (unsigned i = 0; i < ACTORS; i++)
        KIN_LAB_OK(kin_spawn(&n, act, &numbers[i]));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    note_outcome();
    return 0;
}

/* The next number of a seed. */
static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

KIN_TEST(no_outcome_of_a_random_program_is_missed, "")
{
    uint64_t state = kin_test_seed();
    size_t most = 0;
    for (unsigned i = 0; i < 30 / kin_test_scale(); i++) {
        struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
        for (unsigned k = 0; k < ACTORS * OPS; k++) {
            random_program.ops[k / OPS][k % OPS] = (uint8_t)(draw(&state) % 10);
            random_program.on[k / OPS][k % OPS] = (uint8_t)draw(&state);
        }
        config.strategy = KIN_LAB_DPOR;
        config.faults = i % 3 == 0 ? KIN_FAULT_NET : 0;
        config.oracles = ~KIN_ORACLE_LEAK;
        config.executions_max = 3000;
        outcomes_count = missed = 0;
        is_collecting = true;
        expect_well(kin_lab_run(&config, random_run, NULL, &report));
        if (!report.exhausted)
            continue;
        is_collecting = false;
        config.strategy = KIN_LAB_RANDOM;
        config.executions_max = 300;
        config.seed = state;
        expect_well(kin_lab_run(&config, random_run, NULL, &report));
        EXPECT_EQ(missed, 0);
        most = outcomes_count > most ? outcomes_count : most;
    }
    EXPECT(most > 1 || kin_test_scale() > 1);
}

/* ---- as the system does ---- */

/* A path is a name on the disk, which outlives the listener. */
static int bind_path(void *arg)
{
    static const char path[] = "/tmp/door";
    struct stat about;
    int listener, conn, file;
    (void)arg;
    KIN_LAB_OK(kin_unix_listen(path, NULL, &listener));
    KIN_LAB_OK(kin_stat(path, &about));
    kin_lab_assert(S_ISSOCK(about.st_mode), "it is one of a socket");
    kin_lab_assert(kin_open(path, O_RDWR, 0, &file) == -ENXIO, "and no file");
    KIN_LAB_OK(kin_rename(path, "/tmp/other"));
    KIN_LAB_OK(kin_unix_connect("/tmp/other", &conn, KIN_NEVER));
    kin_close(conn);
    kin_close(listener);
    kin_lab_assert(kin_unix_connect("/tmp/other", &conn, KIN_NEVER) == -ECONNREFUSED, "nobody");
    kin_lab_assert(kin_unix_connect(path, &conn, KIN_NEVER) == -ENOENT, "no name");
    kin_lab_assert(kin_unix_listen("/tmp/other", NULL, &listener) == -EADDRINUSE, "left behind");
    KIN_LAB_OK(kin_remove("/tmp/other"));
    KIN_LAB_OK(kin_unix_listen("/tmp/other", NULL, &listener));
    kin_close(listener);
    return 0;
}

KIN_TEST(a_unix_socket_has_a_name_on_the_disk, "")
{
    expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, bind_path, NULL));
}

/* Ports that were asked for are not chosen; a listener can be shut. */
static int name_ports(void *arg)
{
    char at[KIN_ADDR_MAX], port[KIN_ADDR_MAX + 16];
    int fds[4], conn, served;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        snprintf(port, sizeof port, "127.0.0.1:%d", 32768 + i);
        KIN_LAB_OK(kin_tcp_listen(port, NULL, &fds[i]));
    }
    KIN_LAB_OK(kin_tcp_listen("[::]:0", NULL, &fds[3]));
    KIN_LAB_OK(kin_local_addr(fds[3], at, sizeof at));
    snprintf(port, sizeof port, "127.0.0.1%s", strrchr(at, ':'));
    KIN_LAB_OK(kin_tcp_connect(port, &conn, KIN_NEVER));
    KIN_LAB_OK(kin_accept(fds[3], &served, KIN_NEVER));
    KIN_LAB_OK(kin_peer_addr(served, at, sizeof at));
    kin_lab_assert(strstr(at, "127.0.0.1") != NULL, "it is known who came");
    kin_close(conn);
    kin_close(served);
    KIN_LAB_OK(kin_shutdown(fds[3], SHUT_RD));
    kin_lab_assert(kin_accept(fds[3], &served, KIN_NEVER) == -EINVAL, "it listens no more");
    kin_lab_assert(kin_tcp_connect(port, &conn, KIN_NEVER) == -ECONNREFUSED, "at its port");
    for (int i = 0; i < 4; i++)
        kin_close(fds[i]);
    return 0;
}

KIN_TEST(ports_and_addresses_are_as_of_the_system, "")
{
    expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, name_ports, NULL));
}
