/* SPDX-License-Identifier: MIT */
/*
 * The echo server of the benchmarks, written by hand around epoll: bench echo WORKERS N ROUNDS.
 *
 * One thread, level-triggered: wait, receive, send. What cannot be sent at once is an error here:
 * the load never sends before the last message is back.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH 256

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void watch(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll_ctl");
}

static int listen_anywhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, SOMAXCONN) < 0)
        die("listen");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    getsockname(fd, (struct sockaddr *)&at, &size);
    printf("port %d\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

static void accept_all(int set, int listener)
{
    for (;;) { /* ends: nobody else waits */
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd < 0)
            die("accept");
        watch(set, fd);
    }
}

static void echo(int fd)
{
    char buf[1024];
    ssize_t got = recv(fd, buf, sizeof buf, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        close(fd);
    else if (send(fd, buf, (size_t)got, MSG_NOSIGNAL) != got)
        die("send");
}

int main(void)
{
    struct epoll_event events[BATCH];
    int set = epoll_create1(0), listener = listen_anywhere();
    watch(set, listener);
    for (;;) { /* ends: the load kills it */
        int ready = epoll_wait(set, events, BATCH, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == listener)
                accept_all(set, listener);
            else
                echo(events[i].data.fd);
        }
    }
}
