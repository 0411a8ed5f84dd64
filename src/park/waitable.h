/* SPDX-License-Identifier: MIT */
/*
 * The table that every thing to wait for fills in [002:3] [002:1.3].
 *
 *     try        completes at once, without parking
 *     publish    links the waiter unless the thing is complete: one step, under the thing's lock.
 *                From then on a wake finds it, until somebody won its ticket or it was unpublished
 *     unpublish  takes the waiter out if it is still linked; harmless if it is not
 */
#ifndef KIN_PARK_WAITABLE_H
#define KIN_PARK_WAITABLE_H

#include "base/list.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

struct kin__text;

/* One task waiting for one thing. Lives on the sleeper's stack; linked under the thing's lock. */
struct kin__waiter {
    struct kin__list link;
    struct kin__task *task; /* whom to wake ... */
    uint64_t ticket;        /* ... and for which of its parks */
    uint32_t case_;         /* which of the things it waits for this is */
    void *io;               /* what the operation reads or writes; the winner's until the wake */
};

struct kin__waitable {
    const char *what; /* for dumps: "sleep", "nursery", ... */
    /* True: complete, *status says how. */
    bool (*try_complete)(void *object, void *io, int *status);
    /* True: linked. False: it is complete now, the waiter is not linked and nothing was taken: the
     * task claims itself and tries again, because another case of the same wait may have won. */
    bool (*publish)(void *object, struct kin__waiter *waiter, int *status);
    void (*unpublish)(void *object, struct kin__waiter *waiter);
};

/*
 * Why a task that is parked in such a thing could go on, in words; NULL: it could not. The lab asks
 * whenever nobody runs: an answer then is a wake that was lost.
 *
 *     KIN__WAITABLE_READY(event_waitable)
 *     {
 *         const struct event *event = object;
 *         return event->is_set ? "it is set" : NULL;
 *     }
 *
 * No lock is taken, because nobody runs. In production nothing is left of it.
 */
#ifdef KIN__LAB
struct kin__readiness {
    const struct kin__waitable *ops;
    const char *(*why)(const void *object, const struct kin__waiter *waiter);
    struct kin__readiness *next;
    bool is_fair; /* whoever waits longest is let go first */
};
void kin__readiness_add(struct kin__readiness *ready); /* lab/oracle.c */

#define KIN__WAITABLE_READY(table)                                                                 \
    static const char *why_##table(const void *object, const struct kin__waiter *waiter);          \
    static struct kin__readiness ready_##table = {&table, why_##table, NULL, false};               \
    __attribute__((constructor)) static void add_##table(void)                                     \
    {                                                                                              \
        kin__readiness_add(&ready_##table);                                                        \
    }                                                                                              \
    static const char *why_##table(__attribute__((unused)) const void *object,                     \
                                   __attribute__((unused)) const struct kin__waiter *waiter)
#else
#define KIN__WAITABLE_READY(table)                                                                 \
    __attribute__((unused)) static inline const char *why_##table(                                 \
        __attribute__((unused)) const void *object,                                                \
        __attribute__((unused)) const struct kin__waiter *waiter)
#endif

#endif
