/* SPDX-License-Identifier: MIT */
/*
 * Sockets: listen, connect, accept, datagrams.
 *
 * Addresses are text: "host:port", "[v6]:port", "unix:/path"; "unix:@name" is an abstract one, in
 * which \xHH is the byte HH: zeros and other control characters, and the backslash, are written so.
 * Two peers with different names have different texts. An empty host or "*" is any address of both
 * kinds for a listener and this machine for a connection. Port 0 lets the system choose;
 * kin_local_addr tells which. Of a name with several addresses a listener takes the first that this
 * machine has, and a datagram goes to the first there is a way to. An IPv4 peer is "1.2.3.4:5",
 * whatever listener it came to.
 *
 *     void hang_up(void *conn)
 *     {
 *         kin_close(*(int *)conn);
 *     }
 *
 *     int serve(int listener)
 *     {
 *         struct kin_spawn_options owning = KIN_SPAWN_OPTIONS_INIT;
 *         int conn, rc;
 *         owning.cleanup = hang_up; // whatever becomes of the child
 *         KIN_NURSERY(n, .on_error = KIN_COLLECT);
 *         while ((rc = kin_accept(listener, &conn, KIN_NEVER)) == 0) {
 *             rc = kin_spawn_with(&n, &owning, handle, &conn, sizeof conn, NULL);
 *             if (rc < 0) {
 *                 hang_up(&conn);
 *                 break;
 *             }
 *         }
 *         return kin_nursery_end(&n, rc);
 *     }
 */
#ifndef KIN_NET_H
#define KIN_NET_H

#include <kin/base.h>
#include <kin/io.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

KIN_BEGIN_DECLS

/* Enough for any address but an abstract Unix name of which dozens of bytes are escaped. */
#define KIN_ADDR_MAX 160u

struct kin_listen_options {
    size_t size;
    int backlog;      /* connections that wait to be accepted; 0: as many as the system allows */
    bool shares_port; /* several listeners may have the address; each gets a part of the callers */
    bool only_v6;     /* a listener of "[::]" does not take IPv4 as well */
};
#define KIN_LISTEN_OPTIONS_INIT { sizeof(struct kin_listen_options), 0, false, false }
#ifndef __cplusplus
#define KIN_LISTEN_OPTIONS(...) KIN_OPTIONS_(kin_listen_options, __VA_ARGS__)
#endif

/**
 * kin_tcp_listen - listen for TCP connections.
 * @addr:    borrowed; "host:port".
 * @options: borrowed; NULL for all defaults.
 * @fd:      receives the listener, to be closed with kin_close.
 *
 * Example:
 *     int open_door(int *listener)
 *     {
 *         struct kin_listen_options options = KIN_LISTEN_OPTIONS_INIT;
 *         options.backlog = 128;
 *         return kin_tcp_listen("127.0.0.1:8080", &options, listener);
 *     }
 *
 * From:    task
 * Parks:   only to look up a host name
 * Needs:   KIN_CAP_NET
 * Budget:  1 op, 1 syscall
 * Returns: 0, -EINVAL for an address that cannot be read, -EADDRINUSE, KIN_NOCAP, KIN_NOPROC for a
 *          name that does not exist, -errno
 */
KIN_API KIN_MUST_USE int kin_tcp_listen(const char *addr, const struct kin_listen_options *options,
                                        int *fd);

/**
 * kin_unix_listen - listen on a Unix socket.
 * @path:    borrowed; "unix:/path" or a path. It must not exist.
 * @options: borrowed; NULL for all defaults.
 * @fd:      receives the listener.
 *
 * Example:
 *     int open_local_door(int *listener)
 *     {
 *         return kin_unix_listen("/run/daemon.sock", NULL, listener);
 *     }
 *
 * From:    task
 * Parks:   no
 * Needs:   KIN_CAP_NET
 * Budget:  1 op, 1 syscall
 * Returns: 0, -EINVAL, -ENAMETOOLONG, -EADDRINUSE, KIN_NOCAP, -errno
 */
KIN_API KIN_MUST_USE int kin_unix_listen(const char *path, const struct kin_listen_options *options,
                                         int *fd);

/**
 * kin_accept - the next connection of a listener of any kind.
 * @fd:       a listener.
 * @conn:     receives the connection, to be closed with kin_close.
 * @deadline: KIN_NEVER to wait without end, 0 to not wait at all.
 *
 * A peer that gave up before it was accepted is passed over. When the process or the system has no
 * descriptor left, the call waits for growing moments and tries again: a server that is out of them
 * answers late instead of ending.
 *
 * Example:
 *     int serve(void *conn);
 *     void hang_up(void *conn);
 *
 *     int serve_all(int listener)
 *     {
 *         struct kin_spawn_options owning = KIN_SPAWN_OPTIONS_INIT;
 *         int conn, rc;
 *         owning.cleanup = hang_up;
 *         KIN_NURSERY(n, .on_error = KIN_COLLECT);
 *         while ((rc = kin_accept(listener, &conn, KIN_NEVER)) == 0) {
 *             rc = kin_spawn_with(&n, &owning, serve, &conn, sizeof conn, NULL);
 *             if (rc < 0) {
 *                 hang_up(&conn); // still ours
 *                 break;
 *             }
 *         }
 *         return kin_nursery_end(&n, rc);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it
 * Needs:   KIN_CAP_NET
 * Budget:  1 op, 1 syscall
 * Returns: 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_CLOSED when the listener is closed, KIN_NOCAP, -errno
 */
KIN_API KIN_MUST_USE int kin_accept(int fd, int *conn, kin_time deadline);

/**
 * kin_tcp_connect - connect to a host.
 * @addr:     borrowed; "host:port".
 * @fd:       receives the connection, to be closed with kin_close.
 * @deadline: KIN_NEVER to wait as long as the system does.
 *
 * A name with several addresses is tried in parallel: a new attempt begins every 250 ms, or as soon
 * as one has failed, and the first that succeeds wins.
 *
 * Example:
 *     int knock(const char *addr)
 *     {
 *         int fd, rc = kin_tcp_connect(addr, &fd, kin_after(KIN_SEC(3)));
 *         return rc < 0 ? rc : kin_close(fd);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it, nothing stays open
 * Needs:   KIN_CAP_NET
 * Budget:  1 op, 1 syscall
 * Returns: 0, -ECONNREFUSED and its like from the last address that there was a way to, else
 *          -ENETUNREACH and its like; KIN_TIMEOUT, KIN_CANCELLED,
 *          KIN_NOPROC for a name that does not exist, KIN_NOCAP, -EINVAL
 */
KIN_API KIN_MUST_USE int kin_tcp_connect(const char *addr, int *fd, kin_time deadline);

/**
 * kin_unix_connect - connect to a Unix socket.
 * @path:     borrowed; "unix:/path" or a path.
 * @fd:       receives the connection.
 * @deadline: KIN_NEVER to wait without end.
 *
 * Example:
 *     int ask_daemon(const char *question, size_t size)
 *     {
 *         int fd;
 *         int rc = kin_unix_connect("/run/daemon.sock", &fd, kin_after(KIN_SEC(1)));
 *         if (rc < 0)
 *             return rc;
 *         rc = kin_write(fd, question, size, NULL, kin_after(KIN_SEC(1)));
 *         kin_ignore(kin_close(fd));
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   yes, while the listener's backlog is full
 * Needs:   KIN_CAP_NET
 * Budget:  1 op, 1 syscall
 * Returns: 0, -ENOENT, -ECONNREFUSED, KIN_TIMEOUT, KIN_CANCELLED, KIN_NOCAP, -errno
 */
KIN_API KIN_MUST_USE int kin_unix_connect(const char *path, int *fd, kin_time deadline);

/**
 * kin_udp_open - a socket for datagrams.
 * @addr: borrowed; "host:port" to receive at.
 * @fd:   receives the socket, to be closed with kin_close.
 *
 * Example:
 *     int say_where(void)
 *     {
 *         char addr[KIN_ADDR_MAX];
 *         int fd;
 *         int rc = kin_udp_open("127.0.0.1:0", &fd);
 *         if (rc == 0 && kin_local_addr(fd, addr, sizeof addr) == 0)
 *             printf("at %s\n", addr);
 *         return rc < 0 ? rc : fd;
 *     }
 *
 * From:    task
 * Parks:   only to look up a host name
 * Needs:   KIN_CAP_NET
 * Budget:  1 op, 1 syscall
 * Returns: as kin_tcp_listen
 */
KIN_API KIN_MUST_USE int kin_udp_open(const char *addr, int *fd);

/**
 * kin_udp_send - send one datagram.
 * @fd:       a socket of kin_udp_open.
 * @buf:      borrowed.
 * @size:     how many bytes.
 * @addr:     borrowed; where to.
 * @deadline: KIN_NEVER to wait without end.
 *
 * Example:
 *     ssize_t ping(int fd, const char *addr)
 *     {
 *         return kin_udp_send(fd, "ping", 4, addr, kin_after(KIN_MS(100)));
 *     }
 *
 * From:    task
 * Parks:   yes
 * Needs:   KIN_CAP_NET
 * Budget:  1 op, 1 syscall
 * Returns: size, -EMSGSIZE when it is too large, else as kin_write
 */
KIN_API KIN_MUST_USE ssize_t kin_udp_send(int fd, const void *buf, size_t size, const char *addr,
                                          kin_time deadline);

/**
 * kin_udp_recv - receive one datagram.
 * @fd:       a socket of kin_udp_open.
 * @buf:      receives it; what does not fit is lost.
 * @size:     its length.
 * @from:     receives the sender's address; may be NULL.
 * @from_cap: its length, as a rule KIN_ADDR_MAX.
 * @deadline: KIN_NEVER to wait without end, 0 to not wait at all.
 *
 * Example:
 *     int answer_for_ever(void *arg)
 *     {
 *         char text[1500], from[KIN_ADDR_MAX];
 *         int fd = *(int *)arg;
 *         for (;;) {
 *             ssize_t got = kin_udp_recv(fd, text, sizeof text, from, sizeof from, KIN_NEVER);
 *             if (got >= 0)
 *                 got = kin_udp_send(fd, text, (size_t)got, from, KIN_NEVER);
 *             if (got < 0)
 *                 return (int)got;
 *         }
 *     }
 *
 * From:    task
 * Parks:   yes
 * Needs:   KIN_CAP_NET
 * Budget:  1 op, 1 syscall
 * Returns: how many bytes, 0 for an empty datagram; -ENOSPC when from is too short and the datagram
 *          is gone; else as kin_read
 */
KIN_API KIN_MUST_USE ssize_t kin_udp_recv(int fd, void *buf, size_t size, char *from,
                                          size_t from_cap, kin_time deadline);

/**
 * kin_local_addr - the address of this end of a socket.
 * @fd:  a socket.
 * @buf: receives it, as text.
 * @cap: its length, as a rule KIN_ADDR_MAX.
 *
 * Example:
 *     void say_where(int listener)
 *     {
 *         char addr[KIN_ADDR_MAX];
 *         if (kin_local_addr(listener, addr, sizeof addr) == 0)
 *             printf("listening at %s\n", addr);
 *     }
 *
 * From:    anywhere
 * Returns: 0, -ENOSPC, -ENOTSOCK, -EBADF
 */
KIN_API KIN_MUST_USE int kin_local_addr(int fd, char *buf, size_t cap);

/**
 * kin_peer_addr - the address of the other end of a socket.
 * @fd:  a socket.
 * @buf: receives it, as text.
 * @cap: its length, as a rule KIN_ADDR_MAX.
 *
 * Example:
 *     void log_peer(int fd)
 *     {
 *         char addr[KIN_ADDR_MAX];
 *         if (kin_peer_addr(fd, addr, sizeof addr) == 0)
 *             printf("connection from %s\n", addr);
 *     }
 *
 * From:    anywhere
 * Returns: 0, -ENOSPC, -ENOTCONN, -ENOTSOCK, -EBADF
 */
KIN_API KIN_MUST_USE int kin_peer_addr(int fd, char *buf, size_t cap);

KIN_END_DECLS

#endif
