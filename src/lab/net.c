/* SPDX-License-Identifier: MIT */
/*
 * Sockets of the simulated network: listening, connecting, accepting, datagrams.
 *
 * The lab's library has these in place of plat/linux/socket.c.
 *
 *     connect:  FRESH -- at once, or when the link has taken its time --> is there a listener?
 *                 |                                  no: refused    room: JOINED    full: WAITING
 *                 +-- the link is cut --> LOST: until it is whole, or GIVE_UP_NS have passed
 *
 * Datagrams are lost where nobody receives, where a link is cut, and beyond INBOX_MAX.
 *
 * Faults: a connection is refused, gets no answer, or takes a while; accept finds no descriptor; a
 * datagram is lost, comes twice, takes a while, or overtakes those that wait to be received.
 *
 * Footprints: what is bound to a port (or path) is one thing for each of PLACES ports, a queue of
 * connections, an inbox and the state of an attempt are one thing each.
 */
#include "lab/net.h"

#include "base/text.h"
#include "lab/disk.h"
#include "lab/hosts.h"
#include "lab/stream.h"
#include "lab/world.h"
#include "wait/address.h"

#include <kin/net.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SOCKETS_MAX 65536u /* in one execution */
#define PLACES 64u
#define PORT_FIRST 32768u  /* of those that the lab chooses, */
#define PORTS 32768u       /* and how many they are */
#define INBOX_MAX 256u     /* datagrams */
#define DATAGRAM_MAX 65535u /* with the header of UDP, and of IPv4 */
#define GIVE_UP_NS (INT64_C(127) * 1000000000) /* without an answer: as Linux does */

enum state { FRESH, BOUND, LISTENS, FLIES, LOST, WAITING, JOINED };

struct datagram {
    struct datagram *next;
    struct kin__sockaddr from, to;
    uint16_t host; /* that it is for */
    struct kin__timer timer;
    uint32_t size;
    char bytes[];
};

struct socket {
    int fd;
    int error;          /* of an attempt to connect, until it is asked for */
    enum state state;
    bool is_stream, is_v6_only, is_shared;
    bool is_bound;      /* it is in the list */
    bool is_shut;       /* a listener takes nobody any more */
    uint16_t host;
    uint64_t name;      /* of a Unix socket with a path: that of the file; 0: none */
    struct kin__sockaddr local, peer;
    struct socket *next_bound;
    struct kin__end *end; /* once it is joined */
    /* a listener, and those who wait for it */
    struct socket *queue, *waiting; /* to be accepted; to get into the queue: the oldest first */
    struct socket *next, *listener;
    uint32_t queued, backlog;
    struct kin__timer timer;
    struct datagram *inbox; /* the oldest first */
    uint32_t inbox_count;
};

static struct socket *sockets; /* reserved once */
static uint32_t sockets_count;
static struct socket *bound;
static struct datagram *flying;
static uint32_t ports; /* that were chosen so far */
static char places[PLACES];

static const struct kin__sim_ops tcp_ops, unix_ops, udp_ops;

/* ---- lists ---- */

static void push(struct socket **list, struct socket *socket)
{
    while (*list) /* ends: at the last */
        list = &(*list)->next;
    *list = socket;
    socket->next = NULL;
}

static struct socket *pop(struct socket **list)
{
    struct socket *first = *list;
    if (first)
        *list = first->next;
    return first;
}

static void take_out(struct socket **list, const struct socket *socket)
{
    while (*list && *list != socket) /* ends: as above */
        list = &(*list)->next;
    if (*list)
        *list = socket->next;
}

/* ---- sockets ---- */

static const struct kin__sim_ops *ops_of(int family, bool is_stream)
{
    return !is_stream ? &udp_ops : family == AF_UNIX ? &unix_ops : &tcp_ops;
}

/* A socket without a number; NULL: there were too many. */
static struct socket *make(int family, bool is_stream, uint16_t host)
{
    if (!sockets && !(sockets = kin__vm_reserve(SOCKETS_MAX * sizeof(*sockets))))
        return NULL;
    if (sockets_count == SOCKETS_MAX)
        return NULL;
    struct socket *socket = &sockets[sockets_count++];
    memset(socket, 0, sizeof(*socket));
    socket->fd = -1;
    socket->is_stream = is_stream;
    socket->host = host;
    socket->local.family = (uint16_t)family;
    return socket;
}

int kin__socket_open(int family, bool is_stream)
{
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
        return -EAFNOSUPPORT;
    struct socket *socket = make(family, is_stream, kin__host_here());
    return socket ? socket->fd = kin__sim_open(ops_of(family, is_stream), socket) : -EMFILE;
}

/* NULL, and *rc says why: it is not open, or no socket. */
static struct socket *get(int fd, int *rc)
{
    struct socket *socket = kin__sim_get(fd, &tcp_ops);
    if (!socket)
        socket = kin__sim_get(fd, &unix_ops);
    if (!socket)
        socket = kin__sim_get(fd, &udp_ops);
    if (!socket)
        *rc = kin__sim_get(fd, NULL) ? -ENOTSOCK
              : fd >= 0 && !kin__sim_is(fd) ? KIN_UNSUPPORTED : -EBADF;
    else
        kin__lab_touch(&socket->state, KIN__LAB_READ);
    return socket;
}

static void set_state(struct socket *socket, enum state state)
{
    kin__lab_touch(&socket->state, KIN__LAB_WRITE);
    socket->state = state;
}

/* ---- who is where ---- */

static const char *path_of(const struct kin__sockaddr *address)
{
    return ((const struct sockaddr_un *)(const void *)address->bytes)->sun_path;
}

/* What is touched by whoever binds, or looks for, this address. */
static const char *place_of(const struct kin__sockaddr *address)
{
    uint32_t hash = kin__address_port(address);
    if (address->family == AF_UNIX) {
        size_t size = address->size - offsetof(struct sockaddr_un, sun_path);
        for (size_t i = 0; i < size; i++)
            hash = hash * 31 + (unsigned char)path_of(address)[i];
    }
    return &places[hash % PLACES];
}

static bool is_same(const struct kin__sockaddr *a, const struct kin__sockaddr *b)
{
    struct kin__sockaddr x = *a, y = *b;
    kin__address_set_port(&x, 0);
    kin__address_set_port(&y, 0);
    return x.size == y.size && memcmp(x.bytes, y.bytes, x.size) == 0;
}

/* Whether what is sent to an address reaches the socket. */
static bool is_reached(const struct socket *socket, const struct kin__sockaddr *to)
{
    const struct kin__sockaddr *local = &socket->local;
    if (kin__address_port(local) != kin__address_port(to))
        return false;
    if (socket->name)
        return false; /* the file knows it */
    if (!kin__address_is_any(local))
        return is_same(local, to);
    return local->family == to->family || (local->family == AF_INET6 && !socket->is_v6_only);
}

/* Whoever is bound to an address; one of them, if several are. */
static struct socket *find(uint16_t host, const struct kin__sockaddr *to, bool is_stream)
{
    struct socket *found[16];
    uint32_t count = 0;
    kin__lab_touch(place_of(to), KIN__LAB_READ);
    for (struct socket *one = bound; one && count < 16; one = one->next_bound) {
        bool can = one->is_stream ? one->state == LISTENS : true;
        if (can && one->host == host && one->is_stream == is_stream && is_reached(one, to))
            found[count++] = one;
    }
    if (count > 1)
        return found[kin__lab_choose(KIN__CHOICE_NET, count, "which of those that share a port")];
    return count ? found[0] : NULL;
}

/* Whether both cannot have their addresses. */
static bool collide(const struct socket *a, const struct socket *b)
{
    return a->host == b->host && a->is_stream == b->is_stream && !(a->is_shared && b->is_shared) &&
           (is_reached(a, &b->local) || is_reached(b, &a->local));
}

/* Whether somebody has an address that the socket cannot have then. */
static bool is_taken(const struct socket *socket)
{
    kin__lab_touch(place_of(&socket->local), KIN__LAB_WRITE);
    for (const struct socket *one = bound; one; one = one->next_bound) {
        if (collide(socket, one))
            return true;
    }
    return false;
}

static uint16_t next_port(void)
{
    return (uint16_t)(PORT_FIRST + ports++ % PORTS);
}

/* A port for a socket that does not care which, or a path, or what the caller says. */
static int find_place(struct socket *socket)
{
    struct kin__sockaddr *local = &socket->local;
    if (local->family == AF_UNIX && path_of(local)[0])
        return kin__lab_name_socket(path_of(local), true, &socket->name);
    if (local->family == AF_UNIX || kin__address_port(local))
        return is_taken(socket) ? -EADDRINUSE : 0;
    for (uint32_t i = 0; i < PORTS; i++) {
        kin__address_set_port(local, next_port());
        if (!is_taken(socket))
            return 0;
    }
    return -EADDRINUSE;
}

static int bind_to(struct socket *socket, const struct kin__sockaddr *address)
{
    if (socket->state != FRESH)
        return -EINVAL;
    if (kin__host_at(socket->host, address) != socket->host)
        return -EADDRNOTAVAIL;
    socket->local = *address;
    int rc = find_place(socket);
    if (rc < 0)
        return rc;
    socket->next_bound = bound;
    bound = socket;
    socket->is_bound = true;
    set_state(socket, BOUND);
    return 0;
}

int kin__socket_bind(int fd, const struct kin__sockaddr *address)
{
    int rc = 0;
    struct socket *socket = get(fd, &rc);
    return socket ? bind_to(socket, address) : rc;
}

int kin__socket_listen(int fd, const struct kin__sockaddr *address,
                       const struct kin__socket_options *options)
{
    int rc = 0;
    struct socket *socket = get(fd, &rc);
    if (!socket)
        return rc;
    if (!socket->is_stream)
        return -EOPNOTSUPP;
    socket->is_shared = options->shares_port;
    socket->is_v6_only = options->only_v6;
    socket->backlog = (uint32_t)options->backlog;
    rc = bind_to(socket, address);
    if (rc == 0)
        set_state(socket, LISTENS);
    return rc;
}

static void unbind(struct socket *socket)
{
    struct socket **at = &bound;
    socket->is_bound = false;
    kin__lab_touch(place_of(&socket->local), KIN__LAB_WRITE);
    while (*at != socket) /* ends: it is in the list */
        at = &(*at)->next_bound;
    *at = socket->next_bound;
}

/* ---- connecting ---- */

static enum kin__end_kind kind_of(const struct socket *socket)
{
    return socket->local.family == AF_UNIX ? KIN__END_UNIX : KIN__END_TCP;
}

static void join(struct socket *socket, struct kin__end *end, struct kin__end *other)
{
    end->fd = socket->fd;
    socket->end = end;
    if (!end->peer)
        kin__end_join(end, other);
    kin__timer_disarm(&socket->timer);
    set_state(socket, JOINED);
}

/* A socket and a listener that has room for it: 0 or -errno. */
static int establish(struct socket *socket, struct socket *listener)
{
    struct socket *served = make(socket->local.family, true, listener->host);
    struct kin__end *near = kin__end_make(kind_of(socket), socket->host);
    struct kin__end *far = kin__end_make(kind_of(socket), listener->host);
    if (!served || !near || !far)
        return -ENOBUFS;
    served->fd = kin__sim_make(ops_of(socket->local.family, true), served);
    if (served->fd < 0)
        return served->fd;
    served->local = socket->peer;
    served->peer = socket->local;
    kin__address_map(&served->local, listener->local.family);
    kin__address_map(&served->peer, listener->local.family);
    join(socket, near, far);
    join(served, far, near);
    kin__lab_touch(&listener->queue, KIN__LAB_WRITE);
    push(&listener->queue, served);
    listener->queued++;
    kin__sim_tell(listener->fd, KIN__READY_READ);
    return 0;
}

static void fail(struct socket *socket, int error)
{
    set_state(socket, FRESH);
    socket->error = error;
    kin__sim_tell(socket->fd, KIN__READY_READ | KIN__READY_WRITE | KIN__READY_MORE);
}

static void fire_give_up(void *object, uint64_t name)
{
    struct socket *socket = object;
    (void)name;
    if (socket->state == WAITING) {
        kin__lab_touch(&socket->listener->queue, KIN__LAB_WRITE);
        take_out(&socket->listener->waiting, socket);
    }
    fail(socket, -ETIMEDOUT);
    kin__sims_flush();
}

/* Nobody answers. */
static int lose(struct socket *socket, enum state state)
{
    set_state(socket, state);
    kin__timer_disarm(&socket->timer);
    kin__sim_arm(&socket->timer, fire_give_up, socket, GIVE_UP_NS);
    return -EINPROGRESS;
}

/* The question has arrived at a listener. 0: connected. */
static int knock(struct socket *socket, struct socket *listener)
{
    kin__lab_touch(&listener->queue, KIN__LAB_WRITE);
    if (listener->queued <= listener->backlog)
        return establish(socket, listener);
    if (kind_of(socket) == KIN__END_UNIX)
        return -EAGAIN;
    socket->listener = listener;
    push(&listener->waiting, socket);
    return lose(socket, WAITING);
}

/* The same, wherever it is. */
static int attempt(struct socket *socket)
{
    uint16_t host = kin__host_at(socket->host, &socket->peer);
    if (kin__link_is_cut(socket->host, host))
        return lose(socket, LOST);
    struct socket *listener = find(host, &socket->peer, true);
    return listener ? knock(socket, listener) : -ECONNREFUSED;
}

/* An attempt of which somebody waits to hear goes on. */
static void attempt_late(struct socket *socket)
{
    int rc = attempt(socket);
    if (rc == 0)
        kin__sim_tell(socket->fd, KIN__READY_WRITE);
    else if (rc != -EINPROGRESS)
        fail(socket, rc);
}

static void fire_attempt(void *object, uint64_t name)
{
    (void)name;
    attempt_late(object);
    kin__sims_flush();
}

static bool fails(const char *how)
{
    return kin__lab_fault_happens(KIN_FAULT_NET, how);
}

static int connect_ip(struct socket *socket, uint16_t host)
{
    kin__host_source(socket->host, &socket->peer, &socket->local);
    kin__address_set_port(&socket->local, next_port());
    if (fails("refused"))
        return -ECONNREFUSED;
    kin__link_hinder(socket->host, host);
    if (fails("no answer"))
        return lose(socket, FLIES); /* which nothing ends but the timer */
    int64_t ns = 2 * kin__link_latency(socket->host, host);
    if (fails("late"))
        ns += kin__sim_delay();
    if (ns == 0)
        return attempt(socket);
    set_state(socket, FLIES);
    kin__sim_arm(&socket->timer, fire_attempt, socket, ns);
    return -EINPROGRESS;
}

/* Who listens at a path, or an abstract name. */
static int find_unix(const struct socket *socket, struct socket **out)
{
    uint64_t name;
    if (!path_of(&socket->peer)[0]) {
        *out = find(socket->host, &socket->peer, true);
        return *out ? 0 : -ECONNREFUSED;
    }
    int rc = kin__lab_name_socket(path_of(&socket->peer), false, &name);
    if (rc < 0)
        return rc;
    kin__lab_touch(place_of(&socket->peer), KIN__LAB_READ);
    for (*out = bound; *out; *out = (*out)->next_bound) {
        if ((*out)->name == name && (*out)->host == socket->host && (*out)->state == LISTENS)
            return 0;
    }
    return -ECONNREFUSED;
}

static int connect_unix(struct socket *socket)
{
    struct socket *listener = NULL;
    int rc = find_unix(socket, &listener);
    if (rc < 0)
        return rc;
    return fails("refused") || listener->is_shut ? -ECONNREFUSED : knock(socket, listener);
}

static int connect_to(struct socket *socket, const struct kin__sockaddr *address)
{
    uint16_t host = kin__host_at(socket->host, address);
    if (host == KIN__NO_HOST)
        return -ENETUNREACH;
    if (socket->state == JOINED)
        return -EISCONN;
    if (socket->state >= LISTENS)
        return socket->state == LISTENS ? -EINVAL : -EALREADY;
    socket->peer = *address;
    kin__address_settle(&socket->peer);
    if (!socket->is_stream)
        return 0;
    return address->family == AF_UNIX ? connect_unix(socket) : connect_ip(socket, host);
}

int kin__socket_connect(int fd, const struct kin__sockaddr *address)
{
    int rc = 0;
    struct socket *socket = get(fd, &rc);
    if (socket)
        rc = connect_to(socket, address);
    kin__sims_flush();
    return rc;
}

int kin__socket_error(int fd)
{
    int rc = 0;
    struct socket *socket = get(fd, &rc);
    if (!socket)
        return rc;
    if (socket->end)
        return kin__end_error(socket->end);
    kin__lab_touch(&socket->state, KIN__LAB_WRITE);
    rc = socket->error;
    socket->error = 0;
    return rc;
}

/* ---- accepting ---- */

static int accept_next(struct socket *listener)
{
    kin__lab_touch(&listener->queue, KIN__LAB_READ);
    if (listener->state != LISTENS)
        return listener->is_stream ? -EINVAL : -EOPNOTSUPP;
    if (!listener->queue)
        return -EAGAIN;
    if (fails("no descriptor"))
        return -EMFILE;
    kin__lab_touch(&listener->queue, KIN__LAB_WRITE);
    struct socket *served = pop(&listener->queue);
    listener->queued--;
    kin__sim_take(served->fd);
    struct socket *next = pop(&listener->waiting);
    if (next)
        attempt_late(next);
    return served->fd;
}

bool kin__socket_listens(int fd)
{
    int rc = 0;
    const struct socket *socket = get(fd, &rc);
    return socket && socket->state == LISTENS;
}

int kin__socket_accept(int fd)
{
    int rc = 0;
    struct socket *listener = get(fd, &rc);
    if (listener)
        rc = accept_next(listener);
    kin__sims_flush();
    return rc;
}

/* ---- datagrams ---- */

static void put_datagram(struct socket *to, struct datagram *datagram, bool is_first)
{
    struct datagram **at = &to->inbox;
    while (*at && !is_first) /* ends: at the last */
        at = &(*at)->next;
    datagram->next = *at;
    *at = datagram;
    to->inbox_count++;
    kin__sim_tell(to->fd, KIN__READY_READ);
}

/* It has arrived, where somebody may receive it or not. */
static void arrive(struct datagram *datagram)
{
    struct socket *to = find(datagram->host, &datagram->to, false);
    if (to)
        kin__lab_touch(&to->inbox, KIN__LAB_WRITE);
    if (!to || to->inbox_count == INBOX_MAX)
        kin__host_free(datagram);
    else
        put_datagram(to, datagram, to->inbox && fails("datagram overtakes"));
}

static void fire_arrive(void *object, uint64_t name)
{
    struct datagram *datagram = object, **at = &flying;
    (void)name;
    while (*at != datagram) /* ends: it is in the list */
        at = &(*at)->next;
    *at = datagram->next;
    arrive(datagram);
    kin__sims_flush();
}

/* Sends a copy. */
static int send_one(const struct datagram *like, const void *buf, int64_t ns)
{
    struct datagram *datagram = kin__host_alloc(sizeof(*datagram) + like->size);
    if (!datagram)
        return -ENOBUFS;
    *datagram = *like;
    memcpy(datagram->bytes, buf, like->size);
    if (ns == 0) {
        arrive(datagram);
        return 0;
    }
    datagram->next = flying;
    flying = datagram;
    kin__sim_arm(&datagram->timer, fire_arrive, datagram, ns);
    return 0;
}

static int64_t send_to(struct socket *socket, const void *buf, size_t size,
                       const struct kin__sockaddr *to)
{
    uint16_t host = kin__host_at(socket->host, to);
    bool is_any = kin__address_is_any(&socket->local);
    if (socket->local.family == AF_INET && to->family != AF_INET)
        return -EAFNOSUPPORT;
    if (host == KIN__NO_HOST || (to->family != socket->local.family && !is_any))
        return -ENETUNREACH;
    if (size > DATAGRAM_MAX - (to->family == AF_INET ? 28 : 8))
        return -EMSGSIZE;
    struct datagram like = {.from = socket->local, .to = *to, .host = host, .size = (uint32_t)size};
    kin__address_settle(&like.to);
    if (is_any) {
        kin__host_source(socket->host, &like.to, &like.from);
        kin__address_set_port(&like.from, kin__address_port(&socket->local));
    }
    kin__link_hinder(socket->host, host);
    if (kin__link_is_cut(socket->host, host) || fails("datagram lost"))
        return (int64_t)size;
    int64_t ns = kin__link_latency(socket->host, host);
    if (fails("datagram late"))
        ns += kin__sim_delay();
    int rc = send_one(&like, buf, ns);
    if (rc == 0 && fails("datagram twice"))
        rc = send_one(&like, buf, ns);
    return rc < 0 ? rc : (int64_t)size;
}

int64_t kin__socket_send_to(int fd, const void *buf, size_t size, const struct kin__sockaddr *to)
{
    int rc = 0;
    int64_t put = 0;
    struct socket *socket = get(fd, &rc);
    if (socket)
        put = socket->is_stream ? -EOPNOTSUPP : send_to(socket, buf, size, to);
    kin__sims_flush();
    return socket ? put : rc;
}

static int64_t receive(struct socket *socket, void *buf, size_t size, struct kin__sockaddr *from)
{
    kin__lab_touch(&socket->inbox, KIN__LAB_READ);
    struct datagram *datagram = socket->inbox;
    if (!datagram)
        return -EAGAIN;
    kin__lab_touch(&socket->inbox, KIN__LAB_WRITE);
    socket->inbox = datagram->next;
    socket->inbox_count--;
    size_t part = size < datagram->size ? size : datagram->size;
    if (part)
        memcpy(buf, datagram->bytes, part);
    *from = datagram->from;
    kin__address_map(from, socket->local.family);
    kin__host_free(datagram);
    return (int64_t)part;
}

int64_t kin__socket_receive_from(int fd, void *buf, size_t size, struct kin__sockaddr *from)
{
    int rc = 0;
    struct socket *socket = get(fd, &rc);
    if (!socket)
        return rc;
    return socket->is_stream ? -EOPNOTSUPP : receive(socket, buf, size, from);
}

/* ---- names ---- */

/* Whether there was a connection. A Unix socket keeps the name of the one that it was with. */
static bool has_lost(const struct socket *socket)
{
    return socket->local.family != AF_UNIX && socket->end && kin__end_is_over(socket->end);
}

int kin__socket_name(int fd, bool is_peer, struct kin__sockaddr *out)
{
    int rc = 0;
    const struct socket *socket = get(fd, &rc);
    if (!socket)
        return rc;
    if (is_peer && (socket->state != JOINED || has_lost(socket)))
        return -ENOTCONN;
    *out = is_peer ? socket->peer : socket->local;
    return 0;
}

void kin__socket_no_delay(int fd)
{
    (void)fd; /* nothing is ever delayed for company */
}

/* ---- what the table of descriptors calls ---- */

/* What a socket without a connection says to a read. */
static int unconnected(const struct socket *socket)
{
    return socket->local.family == AF_UNIX ? -EINVAL : -ENOTCONN;
}

static int64_t read_socket(void *object, void *buf, size_t size)
{
    struct socket *socket = object;
    struct kin__sockaddr from;
    if (size == 0)
        return 0;
    if (!socket->is_stream)
        return receive(socket, buf, size, &from);
    return socket->end ? kin__end_read(socket->end, buf, size) : unconnected(socket);
}

static int64_t peek_socket(void *object, void *buf, size_t size, int64_t offset)
{
    struct socket *socket = object;
    (void)offset;
    if (!socket->is_stream)
        return -EINVAL;
    return socket->end ? kin__end_peek(socket->end, buf, size) : unconnected(socket);
}

static int64_t skip_socket(void *object, int64_t bytes)
{
    struct socket *socket = object;
    if (bytes)
        kin__end_skip(socket->end, bytes);
    return 0;
}

static int64_t write_socket(void *object, const void *buf, size_t size)
{
    struct socket *socket = object;
    if (!socket->is_stream)
        return socket->peer.size ? send_to(socket, buf, size, &socket->peer) : -EDESTADDRREQ;
    if (socket->end)
        return kin__end_write(socket->end, buf, size);
    return socket->local.family == AF_UNIX ? -ENOTCONN : -EPIPE;
}

static unsigned look_at_socket(void *object, unsigned bits)
{
    struct socket *socket = object;
    if (socket->end)
        return kin__end_look(socket->end, bits);
    kin__lab_touch(&socket->state, KIN__LAB_READ);
    kin__lab_touch(&socket->queue, KIN__LAB_READ);
    kin__lab_touch(&socket->inbox, KIN__LAB_READ);
    if (!socket->is_stream)
        return bits & (KIN__READY_WRITE | (socket->inbox ? KIN__READY_READ : 0));
    if (socket->state == LISTENS)
        return bits & (socket->queue ? KIN__READY_READ : 0);
    return socket->state >= FLIES ? 0 : bits; /* under way; or a call says what is wrong */
}

static void close_listener(struct socket *listener);

/* One of TCP listens no more when it is not to be read any more; a Unix one takes nobody new. */
static int shutdown_listener(struct socket *listener, int how)
{
    if (how == SHUT_WR)
        return 0;
    kin__lab_touch(&listener->queue, KIN__LAB_WRITE);
    listener->is_shut = true;
    if (listener->local.family != AF_UNIX) {
        close_listener(listener);
        unbind(listener);
        set_state(listener, BOUND);
    }
    kin__sim_tell(listener->fd, KIN__READY_READ | KIN__READY_WRITE | KIN__READY_MORE);
    return 0;
}

static int shutdown_socket(void *object, int how)
{
    struct socket *socket = object;
    kin__lab_touch(&socket->state, KIN__LAB_READ);
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
        return -EINVAL;
    if (socket->state == LISTENS)
        return shutdown_listener(socket, how);
    return socket->end ? kin__end_shutdown(socket->end, how) : -ENOTCONN;
}

static void free_all(struct datagram **list)
{
    while (*list) { /* ends: one fewer each time */
        struct datagram *datagram = *list;
        *list = datagram->next;
        kin__host_free(datagram);
    }
}

static void close_listener(struct socket *listener)
{
    struct socket *one;
    kin__lab_touch(&listener->queue, KIN__LAB_WRITE);
    while ((one = pop(&listener->queue))) { /* ends: one fewer each time */
        one->end->is_closed = true;
        kin__end_reset(one->end);
    }
    while ((one = pop(&listener->waiting))) { /* ends: as above */
        kin__timer_disarm(&one->timer);
        fail(one, -ECONNREFUSED);
    }
}

static void close_socket(void *object)
{
    struct socket *socket = object;
    kin__timer_disarm(&socket->timer);
    if (socket->is_bound)
        unbind(socket);
    if (socket->state == LISTENS)
        close_listener(socket);
    if (socket->state == WAITING) {
        kin__lab_touch(&socket->listener->queue, KIN__LAB_WRITE);
        take_out(&socket->listener->waiting, socket);
    }
    free_all(&socket->inbox);
    if (socket->end)
        kin__end_close(socket->end);
    set_state(socket, FRESH);
}

/* " 10.0.0.1:7000", or " 10.0.0.1:32768 to 10.0.0.2:7000". */
static void describe(const void *object, struct kin__text *text)
{
    const struct socket *socket = object;
    char address[KIN_ADDR_MAX];
    if (socket->local.size && kin__address_text(&socket->local, address, sizeof(address)) == 0)
        kin__text_printf(text, " %s", address);
    if (socket->state == JOINED &&
        kin__address_text(&socket->peer, address, sizeof(address)) == 0)
        kin__text_printf(text, " to %s", address);
}

#define SOCKET_OPS(name)                                                                           \
    {.what = name, .kind = KIN__FD_KIND_SOCKET, .read = read_socket, .write = write_socket,        \
     .look = look_at_socket, .shutdown = shutdown_socket, .close = close_socket,                   \
     .describe = describe, .read_at = peek_socket, .skip = skip_socket}
static const struct kin__sim_ops tcp_ops = SOCKET_OPS("tcp");
static const struct kin__sim_ops unix_ops = SOCKET_OPS("unix");
static const struct kin__sim_ops udp_ops = SOCKET_OPS("udp");

/* ---- pairs ---- */

int kin__sim_pair(int fds[2])
{
    uint16_t host = kin__host_here();
    struct kin__end *ends[2] = {kin__end_make(KIN__END_UNIX, host),
                                kin__end_make(KIN__END_UNIX, host)};
    if (!ends[0] || !ends[1])
        return -EMFILE;
    for (unsigned i = 0; i < 2; i++) {
        int rc = 0, fd = kin__socket_open(AF_UNIX, true);
        struct socket *socket = fd < 0 ? NULL : get(fd, &rc);
        if (!socket)
            return fd;
        socket->peer.family = AF_UNIX;
        join(socket, ends[i], ends[!i]);
        fds[i] = fd;
    }
    return 0;
}

/* ---- executions ---- */

void kin__net_healed(void)
{
    for (uint32_t i = 0; i < sockets_count; i++) {
        if (sockets[i].state == LOST)
            attempt_late(&sockets[i]);
    }
    kin__ends_release();
    kin__sims_flush();
}

void kin__net_over(void)
{
    kin__hosts_over();
    kin__ends_over();
    for (uint32_t i = 0; i < sockets_count; i++)
        kin__timer_disarm(&sockets[i].timer);
    for (struct datagram *one = flying; one; one = one->next)
        kin__timer_disarm(&one->timer);
    free_all(&flying);
}

void kin__net_end(void)
{
    for (uint32_t i = 0; i < sockets_count; i++)
        free_all(&sockets[i].inbox);
    free_all(&flying);
    sockets_count = ports = 0;
    bound = NULL;
    kin__ends_end();
    kin__hosts_end();
}
