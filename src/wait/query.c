/* SPDX-License-Identifier: MIT */
/*
 * Asking name servers: both kinds of addresses side by side, each with its own server, socket and
 * patience.
 *
 *     start: next server, fresh socket, fresh id --> DATAGRAM --- answer ---> OVER
 *       ^                                               |  cut
 *       |                                               v
 *       +---- silence, refusal, nonsense ---- CONNECT -> SEND -> RECEIVE ---> OVER
 *
 * With use-vc a try begins with the stream. A server that is puzzled by an extended question is
 * asked the plain one.
 *
 * Nobody who does not see the question can answer it, but by luck: the id is unpredictable, so is
 * the port of a socket that has just been made, and the socket is connected, so that the system
 * drops what comes from elsewhere. Messages that do not repeat id and question are ignored; after
 * a number of them somebody is guessing, and the question is asked anew with another id and port.
 *
 * One task does all of this, with one wait for both sockets; tasks of their own belong to a floor
 * above.
 */
#include "wait/query.h"

#include "plat/plat.h"
#include "sched/sched.h"
#include "wait/poll.h"
#include "wait/timer.h"

#include <kin/io.h>

#include <errno.h>
#include <string.h>

#define SECOND_NS INT64_C(1000000000)
#define OTHER_KIND_NS SECOND_NS /* how long one kind waits for the other when it has addresses */
#define STRAYS_MAX 64u          /* ignored in one try */
#define DATAGRAM_BYTES 4096u
#define LENGTH_BYTES 2u         /* in front of a message in a stream */

enum phase { START, DATAGRAM, CONNECT, SEND, RECEIVE, OVER };

/* One kind of addresses. */
struct ask {
    struct kin__dns_question question;
    enum phase phase;
    unsigned tries;     /* that have begun */
    unsigned server;    /* of this try */
    unsigned strays;
    int fd;             /* -1: none */
    kin_time until;     /* of this phase */
    int error;          /* of the last try */
    enum kin__dns_verdict verdict;
    struct kin__dns_answer *answer;
    size_t size, moved; /* of bytes: all, and sent or received */
    uint8_t bytes[LENGTH_BYTES + KIN__DNS_QUERY_MAX];
    uint8_t *reply;     /* from a stream, with its length; owned */
};

struct asking {
    const struct kin__names *names;
    unsigned first; /* server */
    struct ask asks[KIN__QUERY_KINDS];
    uint8_t datagram[DATAGRAM_BYTES];
};

static void close_socket(struct ask *ask)
{
    if (ask->fd >= 0)
        (void)kin_close(ask->fd);
    ask->fd = -1;
    kin__heap_free(ask->reply);
    ask->reply = NULL;
}

/* This try has come to nothing: the next one is due. */
static void give_up_try(struct ask *ask, int error)
{
    close_socket(ask);
    ask->error = error;
    ask->phase = START;
}

static void end(struct ask *ask, enum kin__dns_verdict verdict)
{
    close_socket(ask);
    ask->verdict = verdict;
    ask->phase = OVER;
}

/* A socket that is connected, or about to be, to the server of this try. 0 or -errno. */
static int open_socket(struct asking *asking, struct ask *ask, bool is_stream)
{
    const struct kin__sockaddr *server = &asking->names->servers[ask->server];
    int fd = kin__socket_open(server->family, is_stream);
    if (fd < 0)
        return fd;
    int rc = kin__fd_opened(fd);
    if (rc < 0)
        return rc;
    ask->fd = fd;
    ask->until = kin__clock_after((int64_t)asking->names->timeout_s * SECOND_NS);
    rc = kin__socket_connect(fd, server);
    return rc == -EINPROGRESS ? 0 : rc;
}

/* Writes the question with an id of its own: behind room for its length. */
static bool write_question(struct ask *ask)
{
    ask->question.id = (uint16_t)kin__plat_entropy();
    ask->size = LENGTH_BYTES + kin__dns_build(&ask->question, ask->bytes + LENGTH_BYTES);
    ask->bytes[0] = (uint8_t)((ask->size - LENGTH_BYTES) >> 8);
    ask->bytes[1] = (uint8_t)(ask->size - LENGTH_BYTES);
    ask->moved = 0;
    return ask->size > LENGTH_BYTES;
}

/* Puts the question to the server of this try, or puts it again. */
static void start_question(struct asking *asking, struct ask *ask, bool is_stream)
{
    close_socket(ask);
    if (!write_question(ask)) {
        end(ask, KIN__DNS_STRAY);
        return;
    }
    int64_t rc = open_socket(asking, ask, is_stream);
    if (rc == 0 && !is_stream)
        rc = kin__fd_write(ask->fd, ask->bytes + LENGTH_BYTES, ask->size - LENGTH_BYTES);
    if (rc < 0)
        give_up_try(ask, (int)rc);
    else
        ask->phase = is_stream ? CONNECT : DATAGRAM;
}

/* Begins the next try; without one left it is over. */
static void start_try(struct asking *asking, struct ask *ask)
{
    const struct kin__names *names = asking->names;
    if (ask->tries == names->attempts * names->server_count) {
        end(ask, KIN__DNS_STRAY);
        return;
    }
    ask->server = (asking->first + ask->tries++) % names->server_count;
    ask->strays = 0;
    start_question(asking, ask, names->by_stream);
}

/* A message came. */
static void on_message(struct asking *asking, struct ask *ask, const uint8_t *bytes, size_t size)
{
    enum kin__dns_verdict verdict = kin__dns_parse(&ask->question, bytes, size, ask->answer);
    bool is_stream = ask->phase == RECEIVE;
    if (verdict >= KIN__DNS_FOUND) {
        end(ask, verdict);
    } else if (verdict == KIN__DNS_CUT && !is_stream) {
        start_question(asking, ask, true);
    } else if (verdict == KIN__DNS_PUZZLED) {
        ask->question.has_edns = false;
        start_question(asking, ask, is_stream);
    } else if (verdict != KIN__DNS_STRAY || is_stream || ++ask->strays == STRAYS_MAX) {
        give_up_try(ask, -EPROTO);
    }
}

/* True: more may be there already. False: it has to wait. */
static bool on_datagram(struct asking *asking, struct ask *ask)
{
    int64_t got = kin__fd_read(ask->fd, asking->datagram, sizeof(asking->datagram));
    if (got == -EAGAIN)
        return false;
    if (got < 0)
        give_up_try(ask, (int)got);
    else
        on_message(asking, ask, asking->datagram, (size_t)got);
    return true;
}

static void on_connect(struct ask *ask)
{
    int rc = kin__socket_error(ask->fd);
    if (rc < 0)
        give_up_try(ask, rc);
    else
        ask->phase = SEND;
}

static bool on_send(struct ask *ask)
{
    int64_t put = kin__fd_write(ask->fd, ask->bytes + ask->moved, ask->size - ask->moved);
    if (put == -EAGAIN)
        return false;
    if (put < 0) {
        give_up_try(ask, (int)put);
        return true;
    }
    ask->moved += (size_t)put;
    if (ask->moved == ask->size) {
        ask->phase = RECEIVE;
        ask->moved = 0;
        ask->size = LENGTH_BYTES;
    }
    return true;
}

/* The length is there: makes room for the rest. */
static void on_length(struct ask *ask)
{
    ask->size = LENGTH_BYTES + ((size_t)ask->bytes[0] << 8 | ask->bytes[1]);
    ask->reply = kin__heap_alloc(ask->size);
    if (!ask->reply)
        give_up_try(ask, -ENOMEM);
}

static bool on_receive(struct asking *asking, struct ask *ask)
{
    uint8_t *into = ask->reply ? ask->reply : ask->bytes;
    int64_t got = kin__fd_read(ask->fd, into + ask->moved, ask->size - ask->moved);
    if (got == -EAGAIN)
        return false;
    if (got <= 0) {
        give_up_try(ask, got < 0 ? (int)got : -EPROTO); /* it hung up in the middle */
        return true;
    }
    ask->moved += (size_t)got;
    if (ask->moved < ask->size)
        return true;
    if (!ask->reply)
        on_length(ask);
    else
        on_message(asking, ask, ask->reply + LENGTH_BYTES, ask->size - LENGTH_BYTES);
    return true;
}

/* Goes on as far as it can without waiting. */
static void advance(struct asking *asking, struct ask *ask)
{
    bool goes_on = true;
    while (goes_on) { /* ends: tries, strays and the bytes of a message are limited */
        switch (ask->phase) {
        case START:
            start_try(asking, ask);
            break;
        case DATAGRAM:
            goes_on = on_datagram(asking, ask);
            break;
        case CONNECT:
            return; /* until it is woken */
        case SEND:
            goes_on = on_send(ask);
            break;
        case RECEIVE:
            goes_on = on_receive(asking, ask);
            break;
        case OVER:
            return;
        }
    }
}

/* ---- both at once ---- */

static bool has_addresses(const struct ask *ask)
{
    return ask->phase == OVER && ask->verdict == KIN__DNS_FOUND;
}

/* What one kind has learnt is news for the other. */
static void tell_other(const struct ask *ask, struct ask *other, kin_time *patience)
{
    if (other->phase == OVER)
        return;
    if (ask->phase == OVER && ask->verdict == KIN__DNS_NOBODY) {
        *other->answer = *ask->answer;
        end(other, KIN__DNS_NOBODY);
    } else if (has_addresses(ask) && *patience == KIN_NEVER) {
        *patience = kin__clock_after(OTHER_KIND_NS);
    }
}

/* Waits for either socket until something is due: its index, or why not. */
static int wait_any(struct asking *asking, kin_time until)
{
    struct kin__case cases[KIN__QUERY_KINDS + 1];
    struct kin__fd_case ones[KIN__QUERY_KINDS];
    unsigned kinds[KIN__QUERY_KINDS], count = 0;
    int status = 0;
    for (unsigned i = 0; i < KIN__QUERY_KINDS; i++) {
        struct ask *ask = &asking->asks[i];
        if (ask->fd < 0) /* over, or not its turn yet */
            continue;
        ones[count].bit = ask->phase == CONNECT || ask->phase == SEND ? KIN__READY_WRITE
                                                                      : KIN__READY_READ;
        int rc = kin__fd_begin(ask->fd, &ones[count].fd);
        if (rc == 0)
            rc = kin__fd_prepare(&ones[count].fd);
        if (rc < 0)
            return rc;
        cases[count] = (struct kin__case){.ops = &kin__fd_waitable, .object = &ones[count]};
        kinds[count++] = i;
    }
    kin__worker_outside(1);
    int rc = kin__wait_any_until(cases, count, until, 0, &status);
    kin__worker_outside(-1);
    return rc < 0 ? rc : (int)kinds[rc];
}

/* Some moment came: gives up what is due. False: it was the caller's. */
static bool on_time(struct asking *asking, kin_time deadline, kin_time patience)
{
    kin_time now = kin__clock_now();
    for (unsigned i = 0; i < KIN__QUERY_KINDS; i++) {
        struct ask *ask = &asking->asks[i];
        if (ask->fd < 0)
            continue;
        if (patience <= now) {
            ask->error = -ETIMEDOUT;
            end(ask, KIN__DNS_STRAY);
        } else if (ask->until <= now) {
            give_up_try(ask, -ETIMEDOUT);
        }
    }
    return kin__deadline_of(kin__task_self(), deadline) > now;
}

static int ask_all(struct asking *asking, kin_time deadline)
{
    struct ask *asks = asking->asks;
    kin_time patience = KIN_NEVER;
    for (;;) { /* ends: every try does, and there are only so many */
        kin_time until = deadline;
        for (unsigned i = 0; i < KIN__QUERY_KINDS; i++) {
            if (i == 0 || asks[0].phase == OVER || !asking->names->in_turn)
                advance(asking, &asks[i]);
            tell_other(&asks[i], &asks[!i], &patience);
        }
        if (asks[0].phase == OVER && asks[1].phase == OVER)
            return 0;
        for (unsigned i = 0; i < KIN__QUERY_KINDS; i++) {
            if (asks[i].fd >= 0 && asks[i].until < until)
                until = asks[i].until;
        }
        int rc = wait_any(asking, patience < until ? patience : until);
        if (rc >= 0 && asks[rc].phase == CONNECT)
            on_connect(&asks[rc]);
        if (rc < 0 && !(rc == KIN_TIMEOUT && on_time(asking, deadline, patience)))
            return rc;
    }
}

int kin__query_ask(struct kin__query *query, const struct kin__names *names, kin_time deadline)
{
    struct asking *asking = kin__heap_alloc(sizeof(*asking));
    if (!asking)
        return -ENOMEM;
    asking->names = names;
    asking->first = names->rotates ? (unsigned)(kin__plat_entropy() % names->server_count) : 0;
    for (unsigned i = 0; i < KIN__QUERY_KINDS; i++) {
        struct ask *ask = &asking->asks[i];
        ask->fd = -1;
        ask->answer = &query->kinds[i].answer;
        ask->verdict = query->kinds[i].verdict;
        ask->phase = ask->verdict == KIN__DNS_STRAY ? START : OVER;
        ask->question.type = kin__query_type(i);
        ask->question.has_edns = names->has_edns;
        memcpy(ask->question.name, query->name, sizeof(query->name));
    }
    int rc = deadline <= 0 ? KIN_TIMEOUT : ask_all(asking, deadline);
    for (unsigned i = 0; i < KIN__QUERY_KINDS; i++) {
        struct ask *ask = &asking->asks[i];
        close_socket(ask);
        query->kinds[i].verdict = ask->verdict;
        query->kinds[i].error = ask->error;
    }
    kin__heap_free(asking);
    return rc;
}
