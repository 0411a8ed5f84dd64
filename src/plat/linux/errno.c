/* SPDX-License-Identifier: MIT */
/*
 * The running thread's errno, for a task that makes system calls of its own.
 *
 * A compiler takes the address of errno for a constant of the function. A task that waits in
 * between may go on on another thread, where the address is wrong. So a function of its own looks
 * the address up. It never waits, and no optimisation of a whole program opens it.
 */
#include <kin/status.h>

#include <errno.h>

#if defined(__clang__)
#define OPAQUE __attribute__((noinline, optnone))
#else
#define OPAQUE __attribute__((noipa))
#endif

OPAQUE int kin_errno(void)
{
    return errno;
}
