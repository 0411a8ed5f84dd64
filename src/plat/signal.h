/* SPDX-License-Identifier: MIT */
/*
 * Signals of the operating system: held, noted when they arrive, and listened for by one thread.
 *
 * Sets of signals are 64 bits, the lowest for signal 1. Whoever holds and lets go does so under a
 * lock of its own.
 */
#ifndef KIN_PLAT_SIGNAL_H
#define KIN_PLAT_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#define KIN__SIGNALS 64

static inline uint64_t kin__signal_bit(int signo)
{
    return UINT64_C(1) << (signo - 1);
}

/* Whether it can be held: neither one that nobody can catch, nor one that instructions cause. */
bool kin__signal_is_fit(int signo);
/* From here on its arrival is noted and does nothing else. 0 or -errno. Not held already. */
int kin__signal_hold(int signo);
/* It does again what it did before; unless somebody else has taken it since, who keeps it. */
void kin__signal_let_go(int signo);
/* What arrived since the last call. */
uint64_t kin__signal_take(void);
/* Whether it is ignored, or was before it was held. From anywhere. */
bool kin__signal_is_ignored(int signo);
/* Does what it would do without kin; returns if that does not end the process. By the listener,
 * with the signal held. */
void kin__signal_pass(int signo);

/* One thread, the listener, sleeps here until something arrives or somebody calls. It takes those
 * of held that every other thread has blocked. May return early. */
void kin__signal_listen(uint64_t held);
void kin__signal_call(void);

#endif
