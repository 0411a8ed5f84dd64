/* SPDX-License-Identifier: MIT */
/*
 * Sockets: listening, connecting, accepting, datagrams.
 *
 * Connecting to a name with several addresses runs attempts side by side, each a socket of its own;
 * one wait is for all of them and for the moment at which the next begins. Whatever has not won is
 * closed before the call returns.
 */
#include <kin/net.h>

#include "plat/plat.h"
#include "sched/entry.h"
#include "sched/report.h"
#include "sched/sched.h"
#include "task/budget.h"
#include "wait/address.h"
#include "wait/poll.h"
#include "wait/resolve.h"
#include "wait/timer.h"

#include <errno.h>
#include <sys/socket.h>

#define STAGGER_NS INT64_C(250000000)    /* between two attempts to connect */
#define BACKOFF_FIRST_NS INT64_C(1000000) /* without a descriptor for a connection */
#define BACKOFF_LAST_NS INT64_C(100000000)

/* What every operation begins with. */
static int begin(kin_time deadline)
{
    return kin__entry_begin(kin__task_self(), KIN_CAP_NET | KIN__COST_SYSCALL, deadline);
}

/* The addresses that a text names; how many, or why none. */
static int look_up(const char *text, bool is_passive, struct kin__sockaddr *out, unsigned cap,
                   kin_time deadline)
{
    struct kin__hostport from;
    int rc = kin__address_split(text, &from);
    return rc < 0 ? rc : kin__resolve(&from, is_passive, out, cap, deadline);
}

/* Opens a socket that kin knows of. */
static int open_socket(int family, bool is_stream)
{
    int fd = kin__socket_open(family, is_stream);
    unsigned kind = is_stream && family != AF_UNIX ? KIN__FD_TCP : 0;
    int rc = fd < 0 ? fd : kin__fd_opened_as(fd, kind);
    return rc < 0 ? rc : fd;
}

/* Whether the machine, or the socket, has no way there: another address may do. */
static bool is_no_way(int64_t rc)
{
    return rc == -EAFNOSUPPORT || rc == -EADDRNOTAVAIL || rc == -ENETUNREACH ||
           rc == -EHOSTUNREACH;
}

/* Opens a socket at an address. */
typedef int open_fn(const struct kin__sockaddr *address, const struct kin_listen_options *given,
                    int *out);

/* The same at the first address of a text that can be had. */
static int open_at_first(open_fn *open_at, const char *text, const struct kin_listen_options *given,
                         int *out)
{
    struct kin__sockaddr addresses[KIN__ADDRESSES_MAX];
    int count = begin(KIN_NEVER);
    if (count == 0)
        count = look_up(text, true, addresses, KIN__ADDRESSES_MAX, KIN_NEVER);
    int rc = count < 0 ? count : -EADDRNOTAVAIL;
    for (int i = 0; i < count && is_no_way(rc); i++)
        rc = open_at(&addresses[i], given, out);
    return rc;
}

/* ---- listening ---- */

static int listen_at(const struct kin__sockaddr *address, const struct kin_listen_options *given,
                     int *out)
{
    struct kin__socket_options options = {.backlog = SOMAXCONN};
    if (given) {
        options.backlog = given->backlog ? given->backlog : SOMAXCONN;
        options.shares_port = given->shares_port;
        options.only_v6 = given->only_v6;
    }
    int fd = open_socket(address->family, true);
    if (fd < 0)
        return fd;
    if (address->family != AF_UNIX)
        kin__socket_no_delay(fd); /* connections inherit it */
    int rc = kin__socket_listen(fd, address, &options);
    if (rc < 0)
        (void)kin_close(fd);
    else
        *out = fd;
    return rc;
}

static bool are_sound(const struct kin_listen_options *options, const char *call)
{
    return !options || (KIN__SIZED(options, call, "LISTEN_OPTIONS") && options->backlog >= 0);
}

int kin_tcp_listen(const char *addr, const struct kin_listen_options *options, int *fd)
{
    if (!addr || !fd || !are_sound(options, "kin_tcp_listen"))
        return -EINVAL;
    return open_at_first(listen_at, addr, options, fd);
}

int kin_unix_listen(const char *path, const struct kin_listen_options *options, int *fd)
{
    struct kin__sockaddr address;
    if (!path || !fd || !are_sound(options, "kin_unix_listen"))
        return -EINVAL;
    int rc = begin(KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = kin__address_unix(path, &address);
    return rc < 0 ? rc : listen_at(&address, options, fd);
}

/* Whether accept may be tried again at once: the peer is gone, or its network is. */
static bool is_passing(int rc)
{
    return rc == -ECONNABORTED || rc == -EPROTO || rc == -ENETDOWN || rc == -ENETUNREACH ||
           rc == -EHOSTDOWN || rc == -EHOSTUNREACH || rc == -ENONET;
}

/* Whether it may be tried again in a while: nothing is left for it, or a firewall is against it. */
static bool is_scarce(int rc)
{
    return rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS || rc == -ENOMEM || rc == -EPERM;
}

/* Waits a moment, and the last one up to the deadline. 0, or why it may not wait. */
static int wait_moment(int64_t *moment, kin_time deadline)
{
    kin_time now = kin__worker_self()->now = kin__clock_now();
    kin_time until = now + *moment;
    *moment = *moment * 2 < BACKOFF_LAST_NS ? *moment * 2 : BACKOFF_LAST_NS;
    deadline = kin__deadline_of(kin__task_self(), deadline);
    if (deadline <= now)
        return KIN_TIMEOUT;
    struct kin__timer timer;
    kin__timer_init(&timer, until < deadline ? until : deadline);
    return kin__wait(&kin__timer_waitable, &timer, NULL, KIN__WAIT_TRIED);
}

/* Accepts a connection on what the number meant at the beginning. */
static int accept_one(const struct kin__fd *fd)
{
    if (!kin__fd_enter(fd))
        return KIN_CLOSED;
    int conn = -EAGAIN; /* one that blocks is looked at: accept(2) cannot be told not to wait */
    if (fd->manner == KIN__FD_FREE || !kin__socket_listens(fd->fd) ||
        kin__fd_look(fd->fd, KIN__READY_READ) != 0)
        conn = kin__socket_accept(fd->fd);
    unsigned kind = kin__fd_is(fd, KIN__FD_TCP) ? KIN__FD_TCP : 0;
    kin__fd_leave(fd);
    int rc = conn < 0 ? conn : kin__fd_opened_as(conn, kind);
    return rc < 0 ? rc : conn;
}

int kin_accept(int number, int *out, kin_time deadline)
{
    struct kin__fd fd;
    int64_t moment = BACKOFF_FIRST_NS;
    if (!out)
        return -EINVAL;
    int rc = begin(deadline);
    if (rc == 0)
        rc = kin__fd_begin_try(number, &fd);
    while (rc >= 0) { /* ends: as waits do */
        int conn = accept_one(&fd);
        if (conn >= 0) {
            *out = conn;
            return 0;
        }
        rc = conn == -EAGAIN ? kin__fd_wait(&fd, KIN__READY_READ, deadline) : conn;
        if (is_scarce(rc)) /* a wait needs a descriptor, too, if it is the first one */
            rc = wait_moment(&moment, deadline);
        else if (is_passing(rc))
            rc = begin(deadline);
    }
    return rc;
}

/* ---- connecting ---- */

/* Attempts that are under way. */
struct race {
    const struct kin__sockaddr *addresses;
    unsigned count, next;               /* addresses, and the first that was not tried */
    unsigned running;
    int fds[KIN__ADDRESSES_MAX];        /* of those that run */
    int error;                          /* of the last that failed, where there was a way */
};

/* An attempt has failed. Always false. */
static bool note_error(struct race *race, int rc)
{
    if (race->error == 0 || !is_no_way(rc))
        race->error = rc;
    return false;
}

/* The attempt at index i may be decided. True: it is connected, and the first in the list. */
static bool settle(struct race *race, unsigned i)
{
    int fd = race->fds[i];
    if (kin__fd_look(fd, KIN__READY_WRITE) == 0)
        return false;
    int rc = kin__socket_error(fd);
    if (rc < 0) {
        (void)kin_close(fd);
        race->fds[i] = race->fds[--race->running];
        return note_error(race, rc);
    }
    race->fds[i] = race->fds[0];
    race->fds[0] = fd;
    return true;
}

/* Begins the next attempt. True: it is connected already, as one to this machine is as a rule, and
 * the first in the list. */
static bool start_next(struct race *race)
{
    const struct kin__sockaddr *address = &race->addresses[race->next++];
    int fd = open_socket(address->family, true);
    if (fd < 0)
        return note_error(race, fd);
    int rc = kin__socket_connect(fd, address);
    if (rc < 0 && rc != -EINPROGRESS) {
        (void)kin_close(fd);
        return note_error(race, rc);
    }
    race->fds[race->running++] = fd;
    return settle(race, race->running - 1);
}

/* Waits for any attempt to be decided: its index; KIN_TIMEOUT, KIN_CANCELLED, -errno. */
static int wait_any(struct race *race, kin_time deadline)
{
    struct kin__case cases[KIN__ADDRESSES_MAX + 1];
    struct kin__fd_case ones[KIN__ADDRESSES_MAX];
    int status = 0;
    for (unsigned i = 0; i < race->running; i++) {
        ones[i].bit = KIN__READY_WRITE;
        int rc = kin__fd_begin(race->fds[i], &ones[i].fd);
        if (rc == 0)
            rc = kin__fd_prepare(&ones[i].fd);
        if (rc < 0)
            return rc;
        cases[i].ops = &kin__fd_waitable;
        cases[i].object = &ones[i];
        cases[i].io = NULL;
    }
    kin__worker_outside(1);
    int rc = kin__wait_any_until(cases, race->running, deadline, 0, &status);
    kin__worker_outside(-1);
    return rc;
}

/* Runs the race to its end. 0: the first in the list is connected. */
static int run_race(struct race *race, kin_time deadline)
{
    if (race->count == 0)
        return KIN_NOPROC;
    while (race->running || race->next < race->count) { /* ends: each address is tried once */
        bool has_more = race->next < race->count;
        if (has_more && start_next(race))
            return 0;
        if (!race->running)
            continue;
        has_more = race->next < race->count;
        kin_time until = has_more ? kin__clock_after(STAGGER_NS) : KIN_NEVER;
        int rc = wait_any(race, until < deadline ? until : deadline);
        if (rc >= 0 && settle(race, (unsigned)rc))
            return 0;
        if (rc < 0 && !(rc == KIN_TIMEOUT && has_more && until < deadline))
            return rc;
    }
    return race->error;
}

int kin_tcp_connect(const char *addr, int *fd, kin_time deadline)
{
    struct kin__sockaddr addresses[KIN__ADDRESSES_MAX];
    if (!addr || !fd)
        return -EINVAL;
    int rc = begin(deadline);
    if (rc < 0)
        return rc;
    rc = look_up(addr, false, addresses, KIN__ADDRESSES_MAX, deadline);
    if (rc < 0)
        return rc;
    struct race race = {.addresses = addresses, .count = (unsigned)rc};
    rc = run_race(&race, deadline);
    for (unsigned i = rc == 0 ? 1 : 0; i < race.running; i++)
        (void)kin_close(race.fds[i]);
    if (rc == 0) {
        kin__socket_no_delay(race.fds[0]);
        *fd = race.fds[0];
    }
    return rc;
}

int kin_unix_connect(const char *path, int *out, kin_time deadline)
{
    struct kin__sockaddr address;
    int64_t moment = BACKOFF_FIRST_NS;
    if (!path || !out)
        return -EINVAL;
    int rc = begin(deadline);
    if (rc == 0)
        rc = kin__address_unix(path, &address);
    if (rc < 0)
        return rc;
    int fd = open_socket(address.family, true);
    if (fd < 0)
        return fd;
    /* A full backlog cannot be waited for: the system says EAGAIN and never tells when it ends. */
    while ((rc = kin__socket_connect(fd, &address)) == -EAGAIN) { /* ends: as waits do */
        rc = wait_moment(&moment, deadline);
        if (rc < 0)
            break;
    }
    if (rc < 0)
        (void)kin_close(fd);
    else
        *out = fd;
    return rc;
}

/* ---- datagrams ---- */

static int bind_at(const struct kin__sockaddr *address, const struct kin_listen_options *given,
                   int *out)
{
    (void)given;
    int fd = open_socket(address->family, false);
    if (fd < 0)
        return fd;
    int rc = kin__socket_bind(fd, address);
    if (rc < 0)
        (void)kin_close(fd);
    else
        *out = fd;
    return rc;
}

int kin_udp_open(const char *addr, int *out)
{
    if (!addr || !out)
        return -EINVAL;
    return open_at_first(bind_at, addr, NULL, out);
}

ssize_t kin_udp_send(int number, const void *buf, size_t size, const char *addr, kin_time deadline)
{
    struct kin__sockaddr to[KIN__ADDRESSES_MAX];
    struct kin__fd fd;
    if (!addr || (size && !buf))
        return -EINVAL;
    int rc = begin(deadline);
    if (rc == 0)
        rc = kin__fd_begin_try(number, &fd);
    if (rc == 0)
        rc = look_up(addr, false, to, KIN__ADDRESSES_MAX, deadline);
    int count = rc, at = 0;
    while (rc >= 0) { /* ends: as waits do; each address is passed over once */
        if (!kin__fd_enter(&fd))
            return KIN_CLOSED;
        int64_t put = kin__socket_send_to(number, buf, size, &to[at]);
        kin__fd_leave(&fd);
        if (is_no_way(put) && ++at < count)
            continue;
        if (put != -EAGAIN)
            return (ssize_t)put;
        rc = kin__fd_wait(&fd, KIN__READY_WRITE, deadline);
    }
    return rc;
}

ssize_t kin_udp_recv(int number, void *buf, size_t size, char *from, size_t from_cap,
                     kin_time deadline)
{
    struct kin__sockaddr sender;
    struct kin__fd fd;
    if (size && !buf)
        return -EINVAL;
    int rc = begin(deadline);
    if (rc == 0)
        rc = kin__fd_begin_try(number, &fd);
    while (rc >= 0) { /* ends: as waits do */
        if (!kin__fd_enter(&fd))
            return KIN_CLOSED;
        int64_t got = kin__socket_receive_from(number, buf, size, &sender);
        kin__fd_leave(&fd);
        if (got != -EAGAIN) {
            rc = got >= 0 && from ? kin__address_text(&sender, from, from_cap) : 0;
            return rc < 0 ? rc : (ssize_t)got;
        }
        rc = kin__fd_wait(&fd, KIN__READY_READ, deadline);
    }
    return rc;
}

/* ---- names of sockets ---- */

static int name_of(int fd, bool is_peer, char *buf, size_t cap)
{
    struct kin__sockaddr address;
    int rc = kin__socket_name(fd, is_peer, &address);
    return rc < 0 ? rc : kin__address_text(&address, buf, cap);
}

int kin_local_addr(int fd, char *buf, size_t cap)
{
    return name_of(fd, false, buf, cap);
}

int kin_peer_addr(int fd, char *buf, size_t cap)
{
    return name_of(fd, true, buf, cap);
}
