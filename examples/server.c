/* SPDX-License-Identifier: MIT */
/*
 * A whole server in small: it keeps lines. A client sends one; the answer, its number, says that it
 * is on the disk.
 *
 *     server ADDRESS FILE     until Ctrl-C or SIGTERM; the file must be there, empty at first
 *
 * So many clients at a time, so long for a line, so long for an answer. A line with a zero byte is
 * refused, because a record ends with zeros. Told to stop, it takes no more clients, lets go of
 * those that say nothing, and ends when whatever it has begun to keep is answered. doc/server.md
 * goes through it step by step, examples/lab/cut_off.c tests it.
 */
#include <kin/kin.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { CLIENTS_MAX = 100, RECORD = 64 };

#define IDLE KIN_SEC(30)  /* how long a client may take for a line */
#define ANSWER KIN_SEC(2) /* how long it may take to accept the answer */
#define DRAIN KIN_SEC(5)  /* how long answers may go on when the server is told to stop */

struct server {
    int listener, file;
    _Atomic unsigned kept;
    int (*keep)(struct server *server, int fd, const char *line);
};

/* ---- one line ---- */

/* The disk is at fault: whoever looks after the server has to know. */
static int lose(unsigned number, int rc)
{
    if (rc != KIN_CANCELLED)
        fprintf(stderr, "server: line %u is not kept: %s\n", number, kin_status_text(rc));
    return rc;
}

static int keep_and_tell(struct server *server, int fd, const char *line)
{
    char record[RECORD] = {0}, answer[16];
    unsigned number = server->kept++;
    memcpy(record, line, strlen(line)); /* it fits: the reader's buffer is as long */
    ssize_t put = kin_pwrite(server->file, record, RECORD, (int64_t)number * RECORD);
    if (put < RECORD)
        return lose(number, put < 0 ? (int)put : -ENOSPC);
    int rc = kin_fdatasync(server->file);
    if (rc < 0)
        return lose(number, rc);
    int size = snprintf(answer, sizeof(answer), "%u\n", number);
    return kin_write(fd, answer, (size_t)size, NULL, kin_after(ANSWER));
}

/* What has begun is finished: whoever stops the server waits for it. */
static int keep(struct server *server, int fd, const char *line)
{
    kin_mask();
    int rc = keep_and_tell(server, fd, line);
    kin_unmask();
    return rc;
}

/* ---- one client ---- */

struct client {
    struct server *server;
    int fd;
};

static int serve_client(void *arg)
{
    struct client *client = arg;
    char buf[RECORD], *line;
    size_t size;
    struct kin_reader in;
    int rc;
    kin_reader_init(&in, client->fd, buf, sizeof(buf));
    while ((rc = kin_reader_line(&in, &line, &size, kin_after(IDLE))) > 0) { /* ends: the client */
        if (strlen(line) < size)
            break; /* there is a zero in it */
        rc = client->server->keep(client->server, client->fd, line);
        if (rc < 0)
            break;
    }
    return rc == KIN_CANCELLED ? rc : 0; /* a client that breaks off is no failure of the server */
}

/* However the task of a client ends, and even if it never begins. */
static void hang_up(void *arg)
{
    struct client *client = arg;
    kin_close(client->fd);
}

/* ---- all clients ---- */

static int serve(void *arg)
{
    struct client client = {arg, -1};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.cleanup = hang_up;
    options.slot_deadline = KIN_NEVER; /* when there are too many: wait until one has left */
    KIN_NURSERY(n, .name = "clients", .tasks_max = CLIENTS_MAX, .cancel_grace = DRAIN);
    int rc = kin_shutdown_on_signals(&n);
    while (rc == 0) { /* ends: by a signal */
        rc = kin_accept(client.server->listener, &client.fd, KIN_NEVER);
        if (rc < 0)
            break;
        rc = kin_spawn_with(&n, &options, serve_client, &client, sizeof(client), NULL);
        if (rc < 0)
            hang_up(&client); /* nobody else would */
    }
    kin_close(client.server->listener);
    rc = kin_nursery_end(&n, rc); /* waits for the clients, and knows why it all ended */
    return rc == KIN_CANCELLED ? 0 : rc; /* a signal is how it is meant to end */
}

#ifndef KIN_LAB_H /* the test has a main of its own */

static int run(void *arg)
{
    char **argv = arg, addr[KIN_ADDR_MAX];
    struct server server = {.keep = keep};
    struct stat is;
    int rc = kin_open(argv[2], O_RDWR, 0, &server.file);
    if (rc == 0)
        rc = kin_fstat(server.file, &is);
    if (rc == 0)
        rc = kin_tcp_listen(argv[1], NULL, &server.listener);
    if (rc == 0)
        rc = kin_local_addr(server.listener, addr, sizeof(addr));
    if (rc < 0)
        return rc;
    server.kept = (unsigned)(is.st_size / RECORD); /* it goes on where it left off */
    printf("listening at %s\n", addr);
    fflush(stdout);
    rc = serve(&server);
    printf("%u lines are kept\n", server.kept);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: server ADDRESS FILE\n");
        return 2;
    }
    int rc = kin_run(NULL, run, argv);
    if (rc < 0)
        fprintf(stderr, "server: %s\n", kin_status_text(rc));
    return rc < 0 ? 1 : 0;
}

#endif
