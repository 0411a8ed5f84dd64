/* SPDX-License-Identifier: MIT */
/*
 * The two system calls that a server makes for each message, in place of a call of a function.
 *
 * The kernel's own calls have replaced what the CPU remembers of the program's by the time a system
 * call is through, so that every return behind it is predicted wrongly; and a function more is a
 * line more of code that the kernel has driven out of the cache. Not under a sanitizer, which must
 * see what is written, and not in the lab, which has descriptors of its own.
 */
#ifndef KIN_PLAT_DIRECT_H
#define KIN_PLAT_DIRECT_H

#include "base/assert.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if KIN__ASAN || KIN__TSAN || defined(KIN__LAB) || !defined(__LP64__)
#define KIN__DIRECT 0
#elif defined(__x86_64__) || defined(__aarch64__)
#define KIN__DIRECT 1
#else
#define KIN__DIRECT 0
#endif

#if KIN__DIRECT
/* A system call of six arguments, the last two of them 0: what it returns, or -errno. */
static inline __attribute__((always_inline)) int64_t
kin__direct_call(long number, int fd, const void *buf, size_t size, int flags)
{
#if defined(__x86_64__)
    register long fourth __asm__("r10") = flags;
    register long fifth __asm__("r8") = 0;
    register long sixth __asm__("r9") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"((long)fd), "S"(buf), "d"(size), "r"(fourth), "r"(fifth),
                       "r"(sixth)
                     : "rcx", "r11", "memory", "cc");
    return result;
#else
    register long which __asm__("x8") = number;
    register long result __asm__("x0") = fd;
    register const void *second __asm__("x1") = buf;
    register size_t third __asm__("x2") = size;
    register long fourth __asm__("x3") = flags;
    register long fifth __asm__("x4") = 0;
    register long sixth __asm__("x5") = 0;
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory", "cc");
    return result;
#endif
}
#endif

/* As kin__fd_receive. */
static inline __attribute__((always_inline)) int64_t kin__direct_receive(int fd, void *buf,
                                                                         size_t size)
{
#if KIN__DIRECT
    int64_t got = kin__direct_call(SYS_recvfrom, fd, buf, size, 0);
    if (KIN__LIKELY(got != -EINTR))
        return got;
#endif
    return kin__fd_receive(fd, buf, size);
}

/* As kin__fd_write. */
static inline __attribute__((always_inline)) int64_t kin__direct_write(int fd, const void *buf,
                                                                       size_t size)
{
#if KIN__DIRECT
    int64_t put = kin__direct_call(SYS_sendto, fd, buf, size, MSG_NOSIGNAL);
    if (KIN__LIKELY(put != -EINTR && put != -ENOTSOCK))
        return put;
#endif
    return kin__fd_write(fd, buf, size);
}

#endif
