/* SPDX-License-Identifier: MIT */
/*
 * PostgreSQL's libpq, used by tasks: its non-blocking calls, and kin_fd_wait between them.
 *
 *     libpq CONNINFO QUERY     asks a real server, such as libpq "host=/tmp dbname=test" "select 1"
 *     libpq                    asks a server of this program, which knows one answer
 *
 * Connections of many tasks run side by side on as many threads as there are CPUs, and each wait
 * can be cancelled or time out.
 */
#include <kin/kin.h>

#include <arpa/inet.h>
#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { CLIENTS = 20, QUERIES = 10 };

/* ---- what there is to write for libpq ---- */

/* Connects. 0, -ECONNREFUSED with the reason in the connection, or why the wait ended. */
static int pg_connect(const char *conninfo, PGconn **out, kin_time deadline)
{
    PGconn *pg = *out = PQconnectStart(conninfo);
    if (!pg)
        return -ENOMEM;
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    while (state != PGRES_POLLING_OK) { /* ends: libpq decides, or the deadline */
        if (state == PGRES_POLLING_FAILED || PQstatus(pg) == CONNECTION_BAD)
            return -ECONNREFUSED;
        int rc = kin_fd_wait(PQsocket(pg), state == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                             deadline); /* the descriptor may be another one each time */
        if (rc < 0)
            return rc;
        state = PQconnectPoll(pg);
    }
    return PQsetnonblocking(pg, 1) == 0 ? 0 : -EIO;
}

/* Runs a query: its first result, to be cleared by the caller, or why there is none. -EBADMSG: the
 * server refuses the query; the connection has the reason. */
static int pg_query(PGconn *pg, const char *query, PGresult **out, kin_time deadline)
{
    PGresult *result, *first = NULL;
    int rc = 0, left;
    if (!PQsendQuery(pg, query))
        return -EIO;
    while ((left = PQflush(pg)) > 0) { /* ends: all of it was sent */
        rc = kin_fd_wait(PQsocket(pg), POLLIN | POLLOUT, deadline);
        if (rc < 0 || ((rc & POLLIN) && !PQconsumeInput(pg)))
            return rc < 0 ? rc : -EIO;
    }
    for (;;) { /* ends: with the last result */
        while (PQisBusy(pg)) { /* ends: with a result */
            rc = kin_fd_wait(PQsocket(pg), POLLIN, deadline);
            if (rc < 0 || !PQconsumeInput(pg)) {
                PQclear(first);
                return rc < 0 ? rc : -EIO;
            }
        }
        if (!(result = PQgetResult(pg)))
            break;
        if (first)
            PQclear(result);
        else
            first = result;
    }
    *out = first;
    if (left < 0 || !first)
        return -EIO;
    return PQresultStatus(first) == PGRES_FATAL_ERROR ? -EBADMSG : 0;
}

/* ---- a server that knows one answer, with its protocol's few words ---- */

static int say(struct kin_writer *out, char type, const void *body, uint32_t size)
{
    uint32_t length = htonl(size + 4);
    int rc = kin_writer_put(out, &type, 1, NULL, KIN_NEVER);
    if (rc == 0)
        rc = kin_writer_put(out, &length, sizeof(length), NULL, KIN_NEVER);
    return rc < 0 ? rc : kin_writer_put(out, body, size, NULL, KIN_NEVER);
}

static int hear(struct kin_reader *in, char *type)
{
    char *bytes;
    size_t size;
    uint32_t length;
    int rc = 1;
    if (type) {
        rc = kin_reader_exactly(in, 1, &bytes, &size, KIN_NEVER);
        *type = rc > 0 ? *bytes : 0;
    }
    if (rc > 0)
        rc = kin_reader_exactly(in, sizeof(length), &bytes, &size, KIN_NEVER);
    if (rc <= 0)
        return rc;
    memcpy(&length, bytes, sizeof(length));
    if (ntohl(length) < 4)
        return -EPROTO;
    return kin_reader_exactly(in, ntohl(length) - 4, &bytes, &size, KIN_NEVER);
}

static int greet(struct kin_writer *out)
{
    int rc = say(out, 'R', "\0\0\0\0", 4);
    if (rc == 0)
        rc = say(out, 'S', "client_encoding\0UTF8", 21);
    return rc < 0 ? rc : say(out, 'Z', "I", 1);
}

static int answer(struct kin_writer *out)
{
    /* one column, "answer", of type text; one row, "42" */
    int rc = say(out, 'T', "\0\1answer\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0", 27);
    if (rc == 0)
        rc = say(out, 'D', "\0\1\0\0\0\2" "42", 8);
    if (rc == 0)
        rc = say(out, 'C', "SELECT 1", 9);
    return rc < 0 ? rc : say(out, 'Z', "I", 1);
}

/* A connection is its child's to close, even of one that never began. */
static void hang_up(void *conn)
{
    kin_close(*(int *)conn);
}

static int serve_one(void *arg)
{
    int fd = *(int *)arg;
    char in_buf[1024], out_buf[1024], type;
    struct kin_reader in;
    struct kin_writer out;
    kin_reader_init(&in, fd, in_buf, sizeof(in_buf));
    kin_writer_init(&out, fd, out_buf, sizeof(out_buf));
    int rc = hear(&in, NULL); /* who it is */
    rc = rc <= 0 ? rc : greet(&out);
    if (rc == 0)
        rc = kin_writer_flush(&out, KIN_NEVER);
    while (rc == 0 && (rc = hear(&in, &type)) > 0 && type == 'Q') { /* ends: 'X', or the end */
        rc = kin_sleep(kin_after(KIN_MS(1)));
        if (rc == 0)
            rc = answer(&out);
        if (rc == 0)
            rc = kin_writer_flush(&out, KIN_NEVER);
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

static int be_client(void *arg)
{
    PGconn *pg = NULL;
    PGresult *result = NULL;
    int rc = pg_connect(arg, &pg, kin_after(KIN_SEC(10)));
    for (int i = 0; i < QUERIES && rc == 0; i++) {
        rc = pg_query(pg, "select answer", &result, kin_after(KIN_SEC(10)));
        if (rc == 0 && (PQntuples(result) != 1 || strcmp(PQgetvalue(result, 0, 0), "42") != 0))
            rc = -EPROTO;
        PQclear(result);
        result = NULL;
    }
    if (rc < 0 && pg)
        fprintf(stderr, "%s", PQerrorMessage(pg));
    PQfinish(pg); /* closes its descriptor, behind kin's back, which is all right */
    return rc;
}

static int show(void *arg)
{
    char addr[KIN_ADDR_MAX], conninfo[KIN_ADDR_MAX + 200];
    int listener, rc = kin_tcp_listen("127.0.0.1:0", NULL, &listener);
    (void)arg;
    if (rc == 0)
        rc = kin_local_addr(listener, addr, sizeof(addr));
    if (rc < 0)
        return rc;
    snprintf(conninfo, sizeof(conninfo),
             "hostaddr=127.0.0.1 port=%s user=kin dbname=kin sslmode=disable gssencmode=disable",
             strrchr(addr, ':') + 1);
    KIN_NURSERY(n);
    rc = kin_spawn(&n, serve, &listener);
    for (int i = 0; i < CLIENTS && rc == 0; i++)
        rc = kin_spawn(&n, be_client, conninfo);
    rc = kin_nursery_end(&n, rc);
    kin_close(listener);
    printf("%d tasks asked %d times each with libpq %d: %s\n", CLIENTS, QUERIES, PQlibVersion(),
           rc == 0 ? "all answers were right" : kin_status_name(rc));
    return rc;
}

static int ask_a_real_one(void *arg)
{
    char **argv = arg;
    PGconn *pg = NULL;
    PGresult *result = NULL;
    int rc = pg_connect(argv[1], &pg, kin_after(KIN_SEC(10)));
    if (rc == 0)
        rc = pg_query(pg, argv[2], &result, kin_after(KIN_SEC(60)));
    for (int i = 0; rc == 0 && i < PQntuples(result); i++) {
        for (int j = 0; j < PQnfields(result); j++)
            printf("%s%s", j ? "\t" : "", PQgetvalue(result, i, j));
        printf("\n");
    }
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", kin_status_name(rc), pg ? PQerrorMessage(pg) : "no memory");
    PQclear(result);
    PQfinish(pg);
    return rc;
}

int main(int argc, char **argv)
{
    return kin_run(NULL, argc == 3 ? ask_a_real_one : show, argv) == 0 ? 0 : 1;
}
