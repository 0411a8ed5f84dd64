/* SPDX-License-Identifier: MIT */
/*
 * Two small things to wait for, built on park as any primitive is, so that park and wake can be
 * measured: a baton that one task hands to another, and a gate that lets everybody go at once.
 *
 * Both are correct with any number of workers: state and waiters change under a lock, and a waiter
 * is read under it and woken after it.
 */
#ifndef KIN_BENCH_GATE_H
#define KIN_BENCH_GATE_H

#include "base/list.h"
#include "base/lock.h"
#include "park/park.h"

struct bench_baton {
    struct kin__lock lock;
    kin__a32 is_here;           /* written under the lock, looked at without */
    struct kin__waiter *waiter; /* at most one task waits for it */
};

struct bench_gate {
    struct kin__lock lock;
    kin__a32 is_open;         /* written under the lock, looked at without */
    struct kin__list waiters; /* oldest first */
};

/* Waits until the baton is here and takes it. */
int bench_baton_take(struct bench_baton *baton);
void bench_baton_give(struct bench_baton *baton);

void bench_gate_init(struct bench_gate *gate);
int bench_gate_pass(struct bench_gate *gate);
/* Wakes everybody who waits; whoever comes later passes at once. */
void bench_gate_open(struct bench_gate *gate);

#endif
