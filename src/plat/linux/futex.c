/* SPDX-License-Identifier: MIT */
/*
 * Sleeping and waking a thread, the process-wide fence, and the slow half of base/lock.h.
 *
 * A lock's waiter goes through three rooms: it spins with growing pauses, which is right when the
 * holder runs on another CPU; it offers its CPU, which is right when the holder waits for one; it
 * sleeps for growing moments, which is right when the system is overloaded. It never sleeps on the
 * lock's own word, so that unlocking is a plain store.
 */
#define _GNU_SOURCE 1
#include "base/assert.h"
#include "base/lock.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOCK_SPIN_ROUNDS 7u     /* pauses 1, 2, 4 ... 64 between looks: about 4 us */
#define LOCK_YIELDS 16u         /* offers of the CPU before the first sleep */
#define SLICE_NS 10000000       /* of a sleep under the thread sanitizer */
#define LOCK_SLEEP_MIN_NS 20000 /* first sleep; each one is half as long again */
#define LOCK_SLEEP_MAX_NS 1000000

/* The kernel reads a timespec of two 64-bit words for the calls below. */
_Static_assert(sizeof(struct timespec) == 16 && sizeof(void *) == 8, "64-bit machines only");

/* 0, -ETIMEDOUT or -EINTR. */
static int sleep_on(kin__a32 *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec timeout, *limit = NULL;

    if (timeout_ns >= 0) {
        timeout.tv_sec = timeout_ns / 1000000000;
        timeout.tv_nsec = timeout_ns % 1000000000;
        limit = &timeout;
    }
    if (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, limit, NULL, 0) == 0)
        return 0;
    int error = errno;
    if (error == EAGAIN)
        return 0;
    KIN__CHECK(error == ETIMEDOUT || error == EINTR, "house: a good word, a good timeout");
    return -error;
}

#if KIN__TSAN
/* The sanitizer keeps a signal back until its thread calls a function that it knows, which system
 * calls are not: a long sleep is one of many short ones. */
int kin__futex_wait(kin__a32 *word, uint32_t expected, int64_t timeout_ns)
{
    for (int64_t left = timeout_ns;;) { /* ends: as the sleep that was asked for */
        int64_t slice = left < 0 || left > SLICE_NS ? SLICE_NS : left;
        int rc = sleep_on(word, expected, slice);
        (void)usleep(0);
        if (rc != -ETIMEDOUT || slice == left)
            return rc;
        left -= left < 0 ? 0 : slice;
    }
}
#else
int kin__futex_wait(kin__a32 *word, uint32_t expected, int64_t timeout_ns)
{
    return sleep_on(word, expected, timeout_ns);
}
#endif

void kin__futex_wake(kin__a32 *word, int count)
{
    /* Fails only for a word that is no longer mapped, and then nobody sleeps on it. */
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

bool kin__membarrier_init(void)
{
    long can = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

    if (can < 0 || !(can & MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        return false;
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void kin__membarrier(void)
{
    long rc = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);

    KIN__CHECK(rc == 0, "house: kin__membarrier_init said yes");
}

/* One look: takes the lock if it seems free. */
static bool take_if_free(kin__a32 *word)
{
    /* relaxed: a hint, so that waiters share the line until it is worth fighting for */
    if (kin__load_relaxed(word) & 1u)
        return false;
    /* pairs with the release in kin__lock_give; bits above bit 0 are somebody else's and stay */
    return !(kin__or_acquire(word, 1u) & 1u);
}

void kin__lock_slow(kin__a32 *word)
{
    for (unsigned round = 0; round < LOCK_SPIN_ROUNDS; round++) {
        if (take_if_free(word))
            return;
        for (unsigned i = 0; i < 1u << round; i++)
            kin__cpu_relax();
    }
    for (unsigned i = 0; i < LOCK_YIELDS; i++) {
        if (take_if_free(word))
            return;
        kin__thread_yield();
    }
    /* Ends when the holder gives the lock: holders run a bounded number of instructions. */
    struct timespec nap = {0, LOCK_SLEEP_MIN_NS};
    while (!take_if_free(word)) {
        (void)nanosleep(&nap, NULL);
        nap.tv_nsec += nap.tv_nsec / 2;
        if (nap.tv_nsec > LOCK_SLEEP_MAX_NS)
            nap.tv_nsec = LOCK_SLEEP_MAX_NS;
    }
}
