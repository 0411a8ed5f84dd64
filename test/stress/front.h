/* SPDX-License-Identifier: MIT */
/*
 * A front of the C library: one kind of request fails, once or from some request on.
 *
 * Whoever includes this defines the calls that kin makes of the C library to get something: the
 * linker takes these in place of the library's. What a call is refused with is what the system
 * says in such a case. Nothing is refused or counted unless the front is armed.
 */
#ifndef KIN_TEST_FRONT_H
#define KIN_TEST_FRONT_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum front_kind {
    FRONT_MMAP, FRONT_MUNMAP, FRONT_MPROTECT, FRONT_MADVISE, FRONT_MALLOC, FRONT_THREAD,
    FRONT_SOCKET, FRONT_ACCEPT, FRONT_EPOLL, FRONT_EPOLL_CTL, FRONT_EVENTFD, FRONT_PIPE, FRONT_OPEN,
    FRONT_RING, FRONT_RING_ENTER, FRONT_PIDFD, FRONT_KINDS
};
static const char *const front_names[FRONT_KINDS] = {
    "mmap", "munmap", "mprotect", "madvise", "malloc", "pthread_create", "socket", "accept4",
    "epoll_create1", "epoll_ctl", "eventfd", "pipe2", "open", "io_uring_setup", "io_uring_enter",
    "pidfd_open"};

static struct {
    _Atomic bool is_armed;
    int kind;       /* what is refused, */
    unsigned first; /* from which request on, 1 is the first; 0: none */
    bool for_ever;  /* not only that one */
    _Atomic unsigned counts[FRONT_KINDS];
} front;

static bool front_refuses(enum front_kind kind)
{
    if (!atomic_load_explicit(&front.is_armed, memory_order_relaxed))
        return false;
    unsigned number = atomic_fetch_add(&front.counts[kind], 1) + 1;
    return (int)kind == front.kind && front.first &&
           (front.for_ever ? number >= front.first : number == front.first);
}

/* The library's own. */
#define FRONT_REAL(type, name, ...)                                                                \
    static type (*real)(__VA_ARGS__);                                                              \
    if (!real)                                                                                     \
        *(void **)&real = dlsym(RTLD_NEXT, name)

#define FRONT_REFUSE(kind, error, result)                                                          \
    do {                                                                                           \
        if (front_refuses(kind)) {                                                                 \
            errno = (error);                                                                       \
            return result;                                                                         \
        }                                                                                          \
    } while (0)

void *mmap(void *at, size_t size, int access, int flags, int fd, off_t offset)
{
    FRONT_REAL(void *, "mmap", void *, size_t, int, int, int, off_t);
    FRONT_REFUSE(FRONT_MMAP, ENOMEM, MAP_FAILED);
    return real(at, size, access, flags, fd, offset);
}

int munmap(void *at, size_t size)
{
    FRONT_REAL(int, "munmap", void *, size_t);
    FRONT_REFUSE(FRONT_MUNMAP, ENOMEM, -1);
    return real(at, size);
}

int mprotect(void *at, size_t size, int access)
{
    FRONT_REAL(int, "mprotect", void *, size_t, int);
    FRONT_REFUSE(FRONT_MPROTECT, ENOMEM, -1);
    return real(at, size, access);
}

int madvise(void *at, size_t size, int advice)
{
    FRONT_REAL(int, "madvise", void *, size_t, int);
    FRONT_REFUSE(FRONT_MADVISE, ENOMEM, -1);
    return real(at, size, advice);
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    FRONT_REFUSE(FRONT_MALLOC, ENOMEM, NULL);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    FRONT_REFUSE(FRONT_MALLOC, ENOMEM, NULL);
    return __libc_calloc(count, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    FRONT_REFUSE(FRONT_MALLOC, ENOMEM, NULL);
    return __libc_memalign(alignment, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    FRONT_REAL(int, "pthread_create", pthread_t *, const pthread_attr_t *, void *(*)(void *),
               void *);
    return front_refuses(FRONT_THREAD) ? EAGAIN : real(thread, attr, fn, arg);
}

int socket(int family, int type, int protocol)
{
    FRONT_REAL(int, "socket", int, int, int);
    FRONT_REFUSE(FRONT_SOCKET, EMFILE, -1);
    return real(family, type, protocol);
}

int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict size, int flags)
{
    FRONT_REAL(int, "accept4", int, __SOCKADDR_ARG, socklen_t *restrict, int);
    FRONT_REFUSE(FRONT_ACCEPT, EMFILE, -1);
    return real(fd, address, size, flags);
}

int epoll_create1(int flags)
{
    FRONT_REAL(int, "epoll_create1", int);
    FRONT_REFUSE(FRONT_EPOLL, EMFILE, -1);
    return real(flags);
}

int epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
    FRONT_REAL(int, "epoll_ctl", int, int, int, struct epoll_event *);
    if (operation != EPOLL_CTL_DEL)
        FRONT_REFUSE(FRONT_EPOLL_CTL, ENOSPC, -1);
    return real(set, operation, fd, event);
}

int eventfd(unsigned first, int flags)
{
    FRONT_REAL(int, "eventfd", unsigned, int);
    FRONT_REFUSE(FRONT_EVENTFD, EMFILE, -1);
    return real(first, flags);
}

int pipe2(int fds[2], int flags)
{
    FRONT_REAL(int, "pipe2", int *, int);
    FRONT_REFUSE(FRONT_PIPE, EMFILE, -1);
    return real(fds, flags);
}

int open(const char *path, int flags, ...)
{
    FRONT_REAL(int, "open", const char *, int, ...);
    va_list more;
    va_start(more, flags);
    int permissions = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
    va_end(more);
    FRONT_REFUSE(FRONT_OPEN, EMFILE, -1);
    return real(path, flags, permissions);
}

long syscall(long number, ...)
{
    FRONT_REAL(long, "syscall", long, ...);
    long args[6];
    va_list more;
    va_start(more, number);
    for (int i = 0; i < 6; i++)
        args[i] = va_arg(more, long);
    va_end(more);
    if (number == 425)
        FRONT_REFUSE(FRONT_RING, ENOMEM, -1);
    if (number == 426)
        FRONT_REFUSE(FRONT_RING_ENTER, EAGAIN, -1);
    if (number == 434)
        FRONT_REFUSE(FRONT_PIDFD, EMFILE, -1);
    if (number == 440)
        FRONT_REFUSE(FRONT_MADVISE, ENOMEM, -1);
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

#endif
