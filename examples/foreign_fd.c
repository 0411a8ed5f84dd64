/* SPDX-License-Identifier: MIT */
/*
 * A library that knows nothing of kin, used by tasks: kin_fd_wait.
 *
 * Most clients of databases and protocols have a non-blocking mode that looks like the one of this
 * program's "library": begin a request, ask for the descriptor, wait until it is ready for what the
 * library wants, let it go on, ask again. The wait is the only thing that blocks, and it is where a
 * task parks. Requests of many tasks run side by side, and each can be cancelled or time out.
 */
#include <kin/kin.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the library: plain C and sockets; a service that answers a number with its square ---- */

struct square {
    int fd;
    int want; /* what it waits for: POLLIN or POLLOUT; 0: it is done */
    size_t done;
    uint64_t number;
};

static int square_connect(struct square *square, int fd)
{
    square->fd = fd;
    return fcntl(fd, F_SETFL, O_NONBLOCK);
}

static void square_begin(struct square *square, uint64_t number)
{
    square->number = number;
    square->want = POLLOUT;
    square->done = 0;
}

/* Goes on as far as it can without blocking. 0, or -1 when the connection is broken. */
static int square_poll(struct square *square)
{
    char *bytes = (char *)&square->number;
    while (square->want) { /* ends: a number is eight bytes */
        size_t left = sizeof(square->number) - square->done;
        ssize_t got = square->want == POLLOUT ? write(square->fd, bytes + square->done, left)
                                              : read(square->fd, bytes + square->done, left);
        int why = got < 0 ? kin_errno() : 0; /* a library in files of its own reads errno itself */
        if (why == EAGAIN || why == EINTR)
            return 0;
        if (got <= 0)
            return -1;
        square->done += (size_t)got;
        if (square->done == sizeof(square->number)) {
            square->want = square->want == POLLOUT ? POLLIN : 0;
            square->done = 0;
        }
    }
    return 0;
}

/* ---- a task that uses it ---- */

/* A request as a call that returns its result: all there is to write for such a library. */
static int square_of(struct square *square, uint64_t *number, kin_time deadline)
{
    square_begin(square, *number);
    while (square_poll(square) == 0) { /* ends: with the answer, or an error */
        if (square->want == 0) {
            *number = square->number;
            return 0;
        }
        int rc = kin_fd_wait(square->fd, (short)square->want, deadline);
        if (rc < 0)
            return rc; /* KIN_TIMEOUT, KIN_CANCELLED: the library is left in the middle */
    }
    return -ECONNRESET;
}

/* ---- the service, which is slow now and then ---- */

static int serve(void *arg)
{
    int fd = *(int *)arg;
    uint64_t number;
    size_t done;
    int rc;
    while ((rc = kin_read_full(fd, &number, sizeof(number), &done, KIN_NEVER)) == 0 && done > 0) {
        /* ends: with the client */
        if (number == 13)
            return kin_sleep(KIN_NEVER); /* it never answers that one */
        kin_ignore(kin_sleep(kin_after(KIN_MS(1))));
        number *= number;
        rc = kin_write(fd, &number, 4, NULL, KIN_NEVER); /* in two parts: the library must wait */
        if (rc == 0)
            rc = kin_write(fd, (char *)&number + 4, 4, NULL, KIN_NEVER);
        if (rc < 0)
            break;
    }
    return rc;
}

enum { CLIENTS = 50, REQUESTS = 20 };

static int be_client(void *arg)
{
    struct square square;
    int fds[2];
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return -kin_errno();
    KIN_NURSERY(n);
    int rc = kin_spawn(&n, serve, &fds[1]);
    if (rc == 0 && square_connect(&square, fds[0]) < 0)
        rc = -EBADF;
    for (uint64_t i = 0; i < REQUESTS && rc == 0; i++) {
        uint64_t number = i;
        bool is_slow = i == 13;
        rc = square_of(&square, &number, is_slow ? kin_after(KIN_MS(20)) : KIN_NEVER);
        if (is_slow && rc == KIN_TIMEOUT) { /* as it should be; its connection is of no use now */
            kin_nursery_cancel(&n, 0);
            kin_ignore(kin_nursery_join(&n, NULL));
            rc = 0;
            break;
        }
        if (rc == 0 && number != i * i)
            rc = -EPROTO;
    }
    kin_close(fds[0]); /* the library gave it to us; kin_close or close, both are right */
    kin_close(fds[1]);
    return rc;
}

static int run(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    int rc = 0;
    for (int i = 0; i < CLIENTS && rc == 0; i++)
        rc = kin_spawn(&n, be_client, NULL);
    rc = kin_nursery_end(&n, rc);
    printf("%d tasks used a library that waits for descriptors: %s\n", CLIENTS,
           rc == 0 ? "every answer was right, and the one that never comes timed out"
                   : kin_status_name(rc));
    return rc;
}

int main(void)
{
    return kin_run(NULL, run, NULL) == 0 ? 0 : 1;
}
