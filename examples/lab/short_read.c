/* SPDX-License-Identifier: MIT */
/*
 * Short read: a server reads a message that begins with its length in two bytes. On the machine of
 * whoever wrote it the two always came together. A network may bring the first one now and the
 * second one later: then half a length is taken for the whole, and everything behind it for
 * something else.
 *
 * The remedy: kin_read_full, which goes on until all of it is there.
 */
#include <kin/kin.h>
#include <kin/lab.h>

#include <errno.h>
#include <string.h>

static const char wire[] = "\0\5hello";

static int get_length_bug(int conn, unsigned char length[2])
{
    return (int)kin_read(conn, length, 2, KIN_NEVER);
}

static int get_length_fixed(int conn, unsigned char length[2])
{
    size_t done = 0;
    int rc = kin_read_full(conn, length, 2, &done, KIN_NEVER);
    return rc < 0 ? rc : (int)done;
}

struct server {
    int listener;
    int (*get_length)(int conn, unsigned char length[2]);
};

/* Whether the message is right is not said: the client may have broken off. But it is not wrong. */
static int serve(void *arg)
{
    struct server *server = arg;
    unsigned char length[2] = {0, 0};
    char text[16];
    size_t done = 0;
    int conn;
    int rc = kin_accept(server->listener, &conn, KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = server->get_length(conn, length);
    size_t size = (size_t)length[0] << 8 | length[1];
    if (rc > 0 && size > sizeof(text))
        rc = -EMSGSIZE;
    if (rc > 0)
        rc = kin_read_full(conn, text, size, &done, KIN_NEVER);
    kin_close(conn);
    if (rc == 0)
        kin_lab_assert(done == 5 && memcmp(text, "hello", 5) == 0, "what comes is what was sent");
    return rc;
}

static int send_hello(void *arg)
{
    int conn;
    (void)arg;
    int rc = kin_tcp_connect("localhost:7000", &conn, KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = kin_write(conn, wire, sizeof(wire) - 1, NULL, KIN_NEVER);
    kin_close(conn);
    return rc;
}

static int talk(int (*get_length)(int conn, unsigned char length[2]))
{
    struct server server = {0, get_length};
    KIN_LAB_OK(kin_tcp_listen("localhost:7000", NULL, &server.listener));
    KIN_NURSERY(n);
    int rc = kin_spawn(&n, serve, &server);
    if (rc == 0)
        rc = kin_spawn(&n, send_hello, NULL);
    rc = kin_nursery_end(&n, rc);
    kin_close(server.listener);
    return rc;
}

KIN_LAB(short_read_bug, .faults = KIN_FAULT_NET)
{
    return talk(get_length_bug);
}

KIN_LAB(short_read_fixed, .faults = KIN_FAULT_NET)
{
    return talk(get_length_fixed);
}

KIN_LAB_MAIN()
