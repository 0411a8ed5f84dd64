/* SPDX-License-Identifier: MIT */
/*
 * hiredis, used by tasks: its non-blocking context, and kin_fd_wait between the calls.
 *
 *     hiredis ADDRESS PORT     asks a real server, such as hiredis 127.0.0.1 6379
 *     hiredis PATH             the same at a Unix socket
 *     hiredis                  asks a server of this program, which knows SET and GET
 */
#include <kin/kin.h>

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 20, ROUNDS = 10 };

#define IDLE KIN_SEC(30) /* how long a client of the server may say nothing */

/* ---- what there is to write for hiredis ---- */

/* Connects; port 0: the address is a path. The address is numeric: hiredis would block to look up a
 * name. */
static int redis_connect(const char *addr, int port, redisContext **out, kin_time deadline)
{
    redisContext *redis = *out = port ? redisConnectNonBlock(addr, port)
                                      : redisConnectUnixNonBlock(addr);
    if (!redis)
        return -ENOMEM;
    if (redis->err)
        return -ECONNREFUSED;
    int rc = kin_fd_wait(redis->fd, POLLOUT, deadline);
    return rc < 0 ? rc : 0;
}

/* Runs one command: its reply, to be freed by the caller. */
static int redis_command(redisContext *redis, redisReply **out, kin_time deadline,
                         const char *format, const char *first, const char *second)
{
    int done = 0, rc = 0;
    void *reply = NULL;
    if (redisAppendCommand(redis, format, first, second) != REDIS_OK)
        return -ENOMEM;
    while (!done) { /* ends: all of it was sent */
        if (redisBufferWrite(redis, &done) != REDIS_OK)
            return -EIO;
        if (!done && (rc = kin_fd_wait(redis->fd, POLLOUT, deadline)) < 0)
            return rc;
    }
    for (;;) { /* ends: with the reply */
        if (redisReaderGetReply(redis->reader, &reply) != REDIS_OK)
            return -EPROTO;
        if (reply)
            break;
        if ((rc = kin_fd_wait(redis->fd, POLLIN, deadline)) < 0)
            return rc;
        if (redisBufferRead(redis) != REDIS_OK)
            return -EIO;
    }
    *out = reply;
    return 0;
}

/* ---- a server that knows SET and GET of one key ---- */

/* One argument of a command: "$3", then three bytes and an end of line. */
static int hear_word(struct kin_reader *in, char *word, size_t cap)
{
    char *line;
    size_t size, said = 0;
    int rc = kin_reader_line(in, &line, &size, kin_after(IDLE));
    if (rc > 0 && (line[0] != '$' || (said = strtoul(line + 1, NULL, 10)) >= cap))
        return -EPROTO;
    if (rc > 0)
        rc = kin_reader_line(in, &line, &size, kin_after(IDLE));
    if (rc > 0 && (size != said || strlen(line) != size))
        return -EPROTO; /* a word that would be cut is refused, not answered */
    if (rc > 0)
        memcpy(word, line, size + 1);
    return rc;
}

/* A connection is its child's to close, even of one that never began. */
static void hang_up(void *conn)
{
    kin_close(*(int *)conn);
}

static int serve_one(void *arg)
{
    int fd = *(int *)arg;
    char in_buf[512], out_buf[512], value[64] = "", words[3][64], *line;
    size_t size;
    struct kin_reader in;
    struct kin_writer out;
    int rc;
    kin_reader_init(&in, fd, in_buf, sizeof(in_buf));
    kin_writer_init(&out, fd, out_buf, sizeof(out_buf));
    while ((rc = kin_reader_line(&in, &line, &size, kin_after(IDLE))) > 0) { /* ends: the client */
        int count = line[0] == '*' ? atoi(line + 1) : 0;
        if (count < 2 || count > 3)
            break;
        for (int i = 0; i < count && rc > 0; i++)
            rc = hear_word(&in, words[i], sizeof(words[i]));
        if (rc <= 0)
            break;
        if (count == 3) {
            snprintf(value, sizeof(value), "%s", words[2]);
            rc = kin_writer_print(&out, kin_after(IDLE), "+OK\r\n");
        } else {
            rc = kin_writer_print(&out, kin_after(IDLE), "$%zu\r\n%s\r\n", strlen(value), value);
        }
        if (rc == 0)
            rc = kin_writer_flush(&out, kin_after(IDLE));
        if (rc < 0)
            break;
    }
    return rc < 0 ? rc : 0;
}

static int serve(void *arg)
{
    struct kin_spawn_options owning = KIN_SPAWN_OPTIONS_INIT;
    int conn, rc = 0;
    owning.cleanup = hang_up;
    KIN_NURSERY(n);
    for (int i = 0; i < CLIENTS && rc == 0; i++) {
        rc = kin_accept(*(int *)arg, &conn, KIN_NEVER);
        if (rc < 0)
            break;
        rc = kin_spawn_with(&n, &owning, serve_one, &conn, sizeof(conn), NULL);
        if (rc < 0)
            hang_up(&conn);
    }
    return kin_nursery_end(&n, rc);
}

/* ---- the clients ---- */

struct client {
    const char *addr;
    int port, number;
};

static int set_and_get(redisContext *redis, struct client *client, int round)
{
    char key[32], text[32];
    redisReply *reply = NULL;
    snprintf(key, sizeof(key), "kin:%d", client->number);
    snprintf(text, sizeof(text), "%d of %d", round, client->number);
    int rc = redis_command(redis, &reply, kin_after(KIN_SEC(10)), "SET %s %s", key, text);
    if (rc < 0)
        return rc;
    freeReplyObject(reply);
    rc = redis_command(redis, &reply, kin_after(KIN_SEC(10)), "GET %s", key, NULL);
    if (rc < 0)
        return rc;
    if (!reply->str || strcmp(reply->str, text) != 0)
        rc = -EPROTO;
    freeReplyObject(reply);
    return rc;
}

static int be_client(void *arg)
{
    struct client *client = arg;
    redisContext *redis = NULL;
    int rc = redis_connect(client->addr, client->port, &redis, kin_after(KIN_SEC(10)));
    for (int i = 0; i < ROUNDS && rc == 0; i++)
        rc = set_and_get(redis, client, i);
    if (redis)
        redisFree(redis);
    return rc;
}

static int run(void *arg)
{
    char **argv = arg, addr[KIN_ADDR_MAX];
    struct client client = {"127.0.0.1", 0, 0};
    int listener = -1, rc = 0;
    if (argv[1]) {
        client.addr = argv[1];
        client.port = argv[2] ? atoi(argv[2]) : 0;
    } else {
        rc = kin_tcp_listen("127.0.0.1:0", NULL, &listener);
        if (rc == 0)
            rc = kin_local_addr(listener, addr, sizeof(addr));
        if (rc < 0)
            return rc;
        client.port = atoi(strrchr(addr, ':') + 1);
    }
    KIN_NURSERY(n);
    if (!argv[1])
        rc = kin_spawn(&n, serve, &listener);
    for (client.number = 0; client.number < CLIENTS && rc == 0; client.number++)
        rc = kin_spawn_copy(&n, be_client, &client, sizeof(client));
    rc = kin_nursery_end(&n, rc);
    if (listener >= 0)
        kin_close(listener);
    printf("%d tasks set and got %d times each with hiredis %d.%d: %s\n", CLIENTS, ROUNDS,
           HIREDIS_MAJOR, HIREDIS_MINOR, rc == 0 ? "all replies were right" : kin_status_name(rc));
    return rc;
}

int main(int argc, char **argv)
{
    if (argc > 3) {
        fprintf(stderr, "usage: hiredis [ADDRESS PORT | PATH]\n");
        return 2;
    }
    return kin_run(NULL, run, argv) == 0 ? 0 : 1;
}
