/* SPDX-License-Identifier: MIT */
/*
 * A TCP echo server with limits.
 *
 *     echo ADDRESS...          serves, such as echo 127.0.0.1:7777 unix:/tmp/echo
 *     echo                     serves the clients of this program, which try the limits, and ends
 *
 * Every connection is a task that reads like a blocking program. The server says what it takes: so
 * many connections at once, lines of such a length, so many bytes for each client, so long without
 * a line. A client that keeps to it is served; one that does not is told why and let go, and
 * nobody else notices. To stop, the server closes its listener: the accept answers KIN_CLOSED, and
 * the join waits for the connections that are left.
 */
#include <kin/kin.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { CLIENTS = 40, CONNECTIONS = 8, LINE_MAX = 64, BYTES_MAX = 4096, LINES = 10 };

#define PATIENT KIN_SEC(30)
#define IMPATIENT KIN_MS(50)

/* ---- the server ---- */

struct server {
    int listener;
    kin_time idle;               /* how long a client may say nothing */
    _Atomic int served, refused; /* connections, which end on any worker */
};

struct conn {
    struct server *server;
    int fd;
};

/* What a client hears that broke a rule. */
static const char *rule_of(int rc)
{
    switch (rc) {
    case -EMSGSIZE:
        return "lines are at most 64 bytes";
    case -EFBIG:
        return "that was enough";
    case KIN_TIMEOUT:
        return "nobody there?";
    default:
        return NULL;
    }
}

/* A connection is its task's to close, even of one that is cancelled before it begins. */
static void hang_up(void *arg)
{
    kin_close(((struct conn *)arg)->fd);
}

static int echo(void *arg)
{
    struct conn *conn = arg;
    kin_time idle = conn->server->idle;
    char in_buf[256], out_buf[256], *line;
    size_t size;
    struct kin_reader in;
    struct kin_writer out;
    int rc;
    kin_reader_init(&in, conn->fd, in_buf, sizeof(in_buf));
    kin_reader_limit(&in, LINE_MAX, BYTES_MAX);
    kin_writer_init(&out, conn->fd, out_buf, sizeof(out_buf));
    while ((rc = kin_reader_line(&in, &line, &size, kin_after(idle))) > 0) { /* ends: the client */
        rc = kin_writer_put(&out, line, size, NULL, kin_after(idle)); /* whatever bytes they are */
        if (rc == 0)
            rc = kin_writer_put(&out, "\n", 1, NULL, kin_after(idle));
        if (rc == 0 && kin_reader_buffered(&in) == 0) /* it waits for us now */
            rc = kin_writer_flush(&out, kin_after(idle));
        if (rc < 0)
            break;
    }
    if (rule_of(rc)) {
        kin_ignore(kin_writer_print(&out, kin_after(idle), "! %s\n", rule_of(rc)));
        conn->server->refused++;
    } else {
        conn->server->served++;
    }
    kin_ignore(kin_writer_flush(&out, kin_after(idle)));
    kin_ignore(kin_shutdown(conn->fd, SHUT_RDWR));
    return 0; /* a client that misbehaves is no failure of the server */
}

static int serve(void *arg)
{
    struct server *server = arg;
    struct kin_spawn_options when_there_is_room = KIN_SPAWN_OPTIONS_INIT;
    int conn, rc;
    when_there_is_room.slot_deadline = KIN_NEVER;
    when_there_is_room.cleanup = hang_up;
    KIN_NURSERY(n, .name = "connections", .tasks_max = CONNECTIONS);
    while ((rc = kin_accept(server->listener, &conn, KIN_NEVER)) == 0) { /* ends: when closed */
        struct conn one = {server, conn};
        rc = kin_spawn_with(&n, &when_there_is_room, echo, &one, sizeof(one), NULL);
        if (rc < 0) {
            hang_up(&one); /* it is still ours */
            break;
        }
    }
    return kin_nursery_end(&n, rc == KIN_CLOSED ? 0 : rc);
}

/* Listens, and says where. */
static int listen_at(const char *at, int *listener, char *addr)
{
    int rc = strncmp(at, "unix:", 5) == 0 ? kin_unix_listen(at, NULL, listener)
                                          : kin_tcp_listen(at, NULL, listener);
    return rc < 0 ? rc : kin_local_addr(*listener, addr, KIN_ADDR_MAX);
}

/* ---- the clients ---- */

struct client {
    const char *patient, *impatient; /* addresses */
    int number;
};

/* Sends a line and expects an answer. */
static int ask(struct kin_reader *in, struct kin_writer *out, const char *text, const char *answer)
{
    char *line;
    size_t size;
    kin_time deadline = kin_after(KIN_SEC(30));
    int rc = kin_writer_print(out, deadline, "%s\n", text);
    if (rc == 0)
        rc = kin_writer_flush(out, deadline);
    if (rc == 0)
        rc = kin_reader_line(in, &line, &size, deadline);
    if (rc < 0)
        return rc;
    return rc > 0 && strcmp(line, answer) == 0 ? 0 : -EPROTO;
}

/* Keeps the rules, and every fourth client then breaks one. */
static int talk(struct client *client, struct kin_reader *in, struct kin_writer *out)
{
    char text[LINE_MAX], too_long[LINE_MAX + 2];
    int rc = 0;
    for (int i = 0; i < LINES && rc == 0; i++) {
        snprintf(text, sizeof(text), "line %d of client %d", i, client->number);
        rc = ask(in, out, text, text);
    }
    if (rc < 0 || client->number % 4 != 0)
        return rc;
    memset(too_long, 'x', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    return ask(in, out, too_long, "! lines are at most 64 bytes");
}

/* Says nothing. */
static int be_silent(struct kin_reader *in)
{
    char *line;
    size_t size;
    int rc = kin_reader_line(in, &line, &size, kin_after(KIN_SEC(30)));
    return rc > 0 && strcmp(line, "! nobody there?") == 0 ? 0 : -EPROTO;
}

static int be_client(void *arg)
{
    struct client *client = arg;
    char in_buf[128], out_buf[128];
    struct kin_reader in;
    struct kin_writer out;
    bool is_silent = client->number % 8 == 7;
    int fd, rc = kin_tcp_connect(is_silent ? client->impatient : client->patient, &fd,
                                 kin_after(KIN_SEC(30)));
    if (rc < 0)
        return rc;
    kin_reader_init(&in, fd, in_buf, sizeof(in_buf));
    kin_writer_init(&out, fd, out_buf, sizeof(out_buf));
    rc = is_silent ? be_silent(&in) : talk(client, &in, &out);
    kin_close(fd);
    return rc;
}

/* ---- the whole ---- */

static int show(void *arg)
{
    struct server patient = {-1, PATIENT, 0, 0}, impatient = {-1, IMPATIENT, 0, 0};
    char addr[KIN_ADDR_MAX], other[KIN_ADDR_MAX];
    (void)arg;
    int rc = listen_at("127.0.0.1:0", &patient.listener, addr);
    if (rc == 0)
        rc = listen_at("127.0.0.1:0", &impatient.listener, other);
    if (rc < 0)
        return rc;
    KIN_NURSERY(servers);
    KIN_NURSERY(clients);
    rc = kin_spawn(&servers, serve, &patient);
    if (rc == 0)
        rc = kin_spawn(&servers, serve, &impatient);
    for (int i = 0; i < CLIENTS && rc == 0; i++)
        rc = kin_spawn_copy(&clients, be_client, KIN_ARGS(struct client, addr, other, i));
    rc = kin_nursery_end(&clients, rc);
    kin_close(patient.listener); /* they take nobody any more, and end with the last */
    kin_close(impatient.listener);
    rc = kin_nursery_end(&servers, rc);
    printf("%d clients at %s and %s, %d at a time: %d served, %d refused, %d were silent\n",
           CLIENTS, addr, other, CONNECTIONS, patient.served, patient.refused, impatient.refused);
    if (rc < 0)
        printf("failed: %s\n", kin_status_name(rc));
    return rc == 0 && patient.refused == CLIENTS / 4 && impatient.refused == CLIENTS / 8 ? 0 : 1;
}

/* Serves at all addresses until somebody ends the program. */
static int serve_all(void *arg)
{
    int rc = 0;
    KIN_NURSERY(n);
    for (char **at = (char **)arg + 1; *at && rc == 0; at++) {
        struct server server = {-1, PATIENT, 0, 0};
        char addr[KIN_ADDR_MAX];
        rc = listen_at(*at, &server.listener, addr);
        if (rc == 0)
            rc = kin_spawn_copy(&n, serve, &server, sizeof(server));
        if (rc < 0)
            fprintf(stderr, "%s: %s\n", *at, kin_status_text(rc));
        else
            printf("listening at %s\n", addr);
    }
    fflush(stdout);
    return kin_nursery_end(&n, rc);
}

int main(int argc, char **argv)
{
    return kin_run(NULL, argc > 1 ? serve_all : show, argv) == 0 ? 0 : 1;
}
