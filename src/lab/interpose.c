/* SPDX-License-Identifier: MIT */
/*
 * Clocks, dice and pipes of the C library, as code of the program calls them: in a run of the lab
 * they are virtual too, so that it repeats itself.
 *
 * A program that links kin-lab gets these functions in place of the library's. Outside of a run
 * they are the system's, as ever.
 *
 * A function has other names: with -D_FORTIFY_SOURCE the compiler calls __NAME_chk where it knows
 * the size of the buffer but not how much is asked for. Each function here has all names that the C
 * library has for it. The other checked functions of the library (of strings, formats, files) know
 * nothing of clocks, dice and simulated descriptors.
 */
#define _GNU_SOURCE 1
#undef _FORTIFY_SOURCE /* here the functions are defined that it makes others of */
#include "lab/world.h"

#include "lab/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Ways to what the library has: the loader knows, where there is one; the second name of a function
 * is its own. */
extern void *dlsym(void *handle, const char *name) __attribute__((weak));
extern long __sysconf(int name) __attribute__((weak));
#define NEXT ((void *)-1l)

typedef int clock_fn(clockid_t clock, struct timespec *out);

static int real_clock(clockid_t clock, struct timespec *out)
{
    static clock_fn *real;
    if (!real && dlsym) {
        void *found = dlsym(NEXT, "clock_gettime");
        memcpy(&real, &found, sizeof(real));
    }
    return real ? real(clock, out) : (int)syscall(SYS_clock_gettime, clock, out);
}

/* Whether a task of a run is asking. */
static bool is_inside(void)
{
    return kin__world.is_running && kin__task_self() != NULL;
}

static int64_t calendar(void)
{
    return KIN__WORLD_EPOCH + kin__clock_now();
}

static struct timespec spec_of(int64_t ns)
{
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!is_inside())
        return real_clock(clock, out);
    bool is_calendar = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    *out = spec_of(is_calendar ? calendar() : kin__clock_now());
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (is_inside())
        now = spec_of(calendar());
    else
        (void)real_clock(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

int timespec_get(struct timespec *out, int base)
{
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, out) == 0 ? base : 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    if (is_inside())
        now = spec_of(calendar());
    else
        (void)real_clock(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

ssize_t getrandom(void *buf, size_t size, unsigned flags)
{
    if (!is_inside())
        return syscall(SYS_getrandom, buf, size, flags);
    kin__lab_draws("getrandom");
    for (size_t at = 0; at < size;) {
        uint64_t random = kin_lab_random();
        size_t part = size - at < sizeof(random) ? size - at : sizeof(random);
        memcpy((char *)buf + at, &random, part);
        at += part;
    }
    return (ssize_t)size;
}

int getentropy(void *buf, size_t size)
{
    if (size > 256) {
        errno = EIO;
        return -1;
    }
    return getrandom(buf, size, 0) == (ssize_t)size ? 0 : -1;
}

/* Newer libraries have these. They are weak: a program may have its own. */
__attribute__((weak)) void arc4random_buf(void *buf, size_t size);
__attribute__((weak)) uint32_t arc4random(void);
__attribute__((weak)) uint32_t arc4random_uniform(uint32_t limit);

void arc4random_buf(void *buf, size_t size)
{
    for (size_t at = 0; at < size;) { /* ends: each turn has some bytes, or was interrupted */
        ssize_t got = getrandom((char *)buf + at, size - at, 0);
        KIN__CHECK(got > 0 || errno == EINTR, "house: the system has random numbers");
        at += got > 0 ? (size_t)got : 0;
    }
}

uint32_t arc4random(void)
{
    uint32_t random;
    arc4random_buf(&random, sizeof(random));
    return random;
}

uint32_t arc4random_uniform(uint32_t limit)
{
    uint32_t random, uneven = limit ? -limit % limit : 0; /* the first ones would be more likely */
    do /* ends: more than half of the numbers are good */
        random = arc4random();
    while (random < uneven);
    return limit ? random % limit : 0;
}

long sysconf(int name)
{
    if (is_inside() && (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF))
        return (long)kin__world.workers;
    if (__sysconf)
        return __sysconf(name);
    if (name == _SC_PAGESIZE)
        return (long)getauxval(AT_PAGESZ);
    errno = EINVAL;
    return -1;
}

int gethostname(char *name, size_t size)
{
    if (is_inside()) {
        static const char host[] = "lab";
        if (size < sizeof(host)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, host, sizeof(host));
        return 0;
    }
    char all[6 * 65]; /* struct utsname */
    if (syscall(SYS_uname, all) != 0)
        return -1;
    const char *host = all + 65;
    if (strlen(host) >= size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name, host, strlen(host) + 1);
    return 0;
}

/* ---- the checked names ---- */

void __chk_fail(void) __attribute__((weak));
int __gethostname_chk(char *name, size_t size, size_t room);
ssize_t __read_chk(int fd, void *buf, size_t size, size_t room);

/* Whoever asks for more than there is room for is told as by the library, and ends. */
static void check_room(size_t size, size_t room)
{
    if (size > room && __chk_fail)
        __chk_fail();
    KIN__CHECK(size <= room, "house: a buffer is as large as what is asked for");
}

int __gethostname_chk(char *name, size_t size, size_t room)
{
    check_room(size, room);
    return gethostname(name, size);
}

ssize_t __read_chk(int fd, void *buf, size_t size, size_t room)
{
    check_room(size, room);
    return read(fd, buf, size);
}

/* ---- pipes ---- */

/* Pairs that are made in a run are simulated. The calls that know them never wait; there is nobody
 * who could wait with the thread. */

/* As the C library answers. */
static ssize_t answer(int64_t rc)
{
    if (rc < 0)
        errno = (int)-rc;
    return rc < 0 ? -1 : (ssize_t)rc;
}

int pipe2(int fds[2], int flags)
{
    return is_inside() ? (int)answer(kin__fd_pipe(fds)) : (int)syscall(SYS_pipe2, fds, flags);
}

int pipe(int fds[2])
{
    return pipe2(fds, 0);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
    if (!is_inside())
        return (int)syscall(SYS_socketpair, domain, type, protocol, fds);
    bool is_stream = (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM;
    return (int)answer(domain == AF_UNIX && is_stream ? kin__sim_pair(fds) : -EOPNOTSUPP);
}

ssize_t read(int fd, void *buf, size_t size)
{
    return kin__sim_is(fd) ? answer(kin__fd_read(fd, buf, size)) : syscall(SYS_read, fd, buf, size);
}

ssize_t write(int fd, const void *buf, size_t size)
{
    return kin__sim_is(fd) ? answer(kin__fd_write(fd, buf, size))
                           : syscall(SYS_write, fd, buf, size);
}

int shutdown(int fd, int how)
{
    return kin__sim_is(fd) ? (int)answer(kin__fd_shutdown(fd, how))
                           : (int)syscall(SYS_shutdown, fd, how);
}

int close(int fd)
{
    if (!kin__sim_is(fd))
        return (int)syscall(SYS_close, fd);
    int rc = kin__fd_close(fd);
    kin__sims_flush();
    return (int)answer(rc);
}

int kin__host_close(int fd)
{
    return syscall(SYS_close, fd) < 0 && errno != EINTR ? -errno : 0;
}
