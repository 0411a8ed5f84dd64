/* SPDX-License-Identifier: MIT */
/*
 * Cut off: a server is told to stop while it keeps what a client has sent. It is kept, and the
 * client is never told. To see it, the signal must come within the moment of a write to the disk.
 *
 * The remedy: kin_mask, from where the work begins to where the client is told. The server is that
 * of examples/server.c, as it is; a field of it says which of the two it does.
 */
#include <kin/lab.h>

#include "../server.c"

typedef int keep_fn(struct server *server, int fd, const char *line);

/* A server that waits for clients, and a connection to it. */
static int begin(struct kin_nursery *n, struct server *server, keep_fn *keep_line, int *fd)
{
    server->keep = keep_line;
    KIN_LAB_OK(kin_open("lines", O_RDWR | O_CREAT, 0600, &server->file));
    KIN_LAB_OK(kin_tcp_listen("localhost:7000", NULL, &server->listener));
    KIN_LAB_OK(kin_spawn(n, serve, server));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    return kin_tcp_connect("localhost:7000", fd, KIN_NEVER);
}

/* Whether a line is answered. */
static bool is_answered(int fd)
{
    char answer[2];
    size_t done = 0;
    int rc = kin_write(fd, "a\n", 2, NULL, KIN_NEVER);
    if (rc == 0)
        rc = kin_read_full(fd, answer, sizeof(answer), &done, KIN_NEVER);
    kin_close(fd);
    return rc == 0 && done == sizeof(answer);
}

static int stop(void *arg)
{
    (void)arg;
    return kin_lab_raise(SIGTERM);
}

static int stop_meanwhile(keep_fn *keep_line)
{
    struct server server = {0};
    int fd;
    KIN_NURSERY(n);
    KIN_LAB_OK(begin(&n, &server, keep_line, &fd));
    KIN_LAB_OK(kin_spawn(&n, stop, NULL));
    bool was_answered = is_answered(fd);
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(was_answered == (server.kept == 1), "a line that is kept is answered");
    return kin_close(server.file);
}

KIN_LAB(cut_off_bug)
{
    return stop_meanwhile(keep_and_tell);
}

KIN_LAB(cut_off_fixed)
{
    return stop_meanwhile(keep);
}

/* Whatever the network does, the server comes to its end and leaves nothing behind. */
KIN_LAB(bad_network_fixed, .faults = KIN_FAULT_NET)
{
    struct server server = {0};
    int fd;
    KIN_NURSERY(n);
    KIN_LAB_OK(begin(&n, &server, keep, &fd));
    bool was_answered = is_answered(fd);
    KIN_LAB_OK(kin_lab_raise(SIGTERM));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(!was_answered || server.kept == 1, "a line that is answered is kept");
    return kin_close(server.file);
}

/* What cannot be kept as it came is not answered. */
KIN_LAB(zero_byte_fixed)
{
    struct server server = {0};
    char answer[2];
    size_t done = 0;
    int fd;
    KIN_NURSERY(n);
    KIN_LAB_OK(begin(&n, &server, keep, &fd));
    KIN_LAB_OK(kin_write(fd, "a\0b\n", 4, NULL, KIN_NEVER));
    kin_ignore(kin_read_full(fd, answer, sizeof(answer), &done, KIN_NEVER));
    kin_close(fd);
    kin_lab_assert(done == 0, "a line that would be cut is refused, not answered");
    KIN_LAB_OK(kin_lab_raise(SIGTERM));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(server.kept == 0, "nor is a part of it kept");
    return kin_close(server.file);
}

KIN_LAB_MAIN()
