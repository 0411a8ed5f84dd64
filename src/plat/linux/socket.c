/* SPDX-License-Identifier: MIT */
/*
 * System calls on sockets: they never block, never raise a signal and return -errno.
 */
#define _GNU_SOURCE 1
#include "plat/plat.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(sizeof(struct sockaddr_storage) <= sizeof(((struct kin__sockaddr *)0)->bytes),
               "every address fits");

static const struct sockaddr *given(const struct kin__sockaddr *address)
{
    return (const struct sockaddr *)(const void *)address->bytes;
}

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

int kin__socket_open(int family, bool is_stream)
{
    int type = (is_stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC;
    if (!kin__plat_request())
        return -ENOMEM;
    int fd = socket(family, type, 0);
    return fd < 0 ? -errno : fd;
}

int kin__socket_bind(int fd, const struct kin__sockaddr *address)
{
    return bind(fd, given(address), (socklen_t)address->size) < 0 ? -errno : 0;
}

int kin__socket_listen(int fd, const struct kin__sockaddr *address,
                       const struct kin__socket_options *options)
{
    int rc = 0;
    if (address->family != AF_UNIX)
        rc = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (rc == 0 && options->shares_port)
        rc = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (rc == 0 && address->family == AF_INET6)
        rc = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, options->only_v6);
    if (rc == 0)
        rc = kin__socket_bind(fd, address);
    if (rc == 0 && listen(fd, options->backlog) < 0)
        rc = -errno;
    return rc;
}

int kin__socket_connect(int fd, const struct kin__sockaddr *address)
{
    if (connect(fd, given(address), (socklen_t)address->size) == 0)
        return 0;
    /* interrupted, it goes on by itself, as one that is under way */
    return errno == EINTR ? -EINPROGRESS : -errno;
}

int kin__socket_error(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return -errno;
    return -error;
}

bool kin__socket_listens(int fd)
{
    int listens = 0;
    socklen_t size = sizeof(listens);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens;
}

int kin__socket_accept(int fd)
{
    int conn;
    do { /* ends: nobody interrupts for ever */
        conn = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (conn < 0 && errno == EINTR);
    return conn < 0 ? -errno : conn;
}

int64_t kin__socket_send_to(int fd, const void *buf, size_t size, const struct kin__sockaddr *to)
{
    ssize_t put;
    do { /* ends: as above */
        put = sendto(fd, buf, size, MSG_NOSIGNAL | MSG_DONTWAIT, to ? given(to) : NULL,
                     to ? (socklen_t)to->size : 0);
    } while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : put;
}

int64_t kin__socket_receive_from(int fd, void *buf, size_t size, struct kin__sockaddr *from)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof(address);
    ssize_t got;
    do { /* ends: as above */
        got = recvfrom(fd, buf, size, MSG_DONTWAIT, (struct sockaddr *)&address, &length);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    from->size = (uint32_t)length;
    memcpy(from->bytes, &address, sizeof(address));
    return got;
}

int kin__socket_name(int fd, bool is_peer, struct kin__sockaddr *out)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof(address);
    int rc = is_peer ? getpeername(fd, (struct sockaddr *)&address, &length)
                     : getsockname(fd, (struct sockaddr *)&address, &length);
    if (rc < 0)
        return -errno;
    out->size = (uint32_t)length;
    memcpy(out->bytes, &address, sizeof(address));
    return 0;
}

void kin__socket_no_delay(int fd)
{
    (void)set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}
