/* SPDX-License-Identifier: MIT */
/*
 * Nurseries: scopes that own tasks, and from which no task escapes.
 *
 * Data first, nursery next, join last. Everything a child points at is declared before the nursery,
 * comes from kin_nursery_alloc, or was copied by kin_spawn_copy.
 *
 *     int both(void)
 *     {
 *         struct work left = {0}, right = {0};
 *         KIN_NURSERY(n);
 *         int rc = kin_spawn(&n, half, &left);
 *         if (rc == 0)
 *             rc = kin_spawn(&n, half, &right);
 *         if (rc < 0)
 *             return rc;
 *         return kin_nursery_join(&n, NULL);
 *     }
 *
 *     close ends admission, cancel asks the children to stop, join waits for the last of them.
 *
 *          open ----close, join----> CLOSING ----last child over----> CLOSED
 *            |                          |
 *            +---------cancel-----------+----> CANCELLING --last child over--> CANCELLED
 */
#ifndef KIN_NURSERY_H
#define KIN_NURSERY_H

#include <kin/base.h>
#include <kin/run.h>
#include <kin/status.h>
#include <kin/task.h>
#include <kin/time.h>

#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

enum kin_nursery_state {
    KIN_NURSERY_OPEN = 0,
    KIN_NURSERY_CLOSING = 1,
    KIN_NURSERY_CANCELLING = 2,
    KIN_NURSERY_CLOSED = 3,
    KIN_NURSERY_CANCELLED = 4
};

/* What the first failing child does to its siblings. */
enum kin_on_error {
    KIN_FAIL_FAST = 0, /* they are cancelled */
    KIN_COLLECT        /* they go on */
};

/* Storage for a nursery; what is inside is the runtime's. */
struct kin_nursery {
#ifdef __cplusplus
    alignas(16) unsigned char opaque_[336];
#else
    _Alignas(16) unsigned char opaque_[336];
#endif
};

struct kin_nursery_options {
    size_t size;
    const char *name;           /* kept until the join; for dumps and reports */
    enum kin_on_error on_error; /* 0: KIN_FAIL_FAST */
    unsigned tasks_max;         /* most children alive at once; 0: no limit */
    unsigned errors_max;        /* failures kept; 0: 16 */
};
#define KIN_NURSERY_OPTIONS_INIT { sizeof(struct kin_nursery_options), 0, KIN_FAIL_FAST, 0, 0 }

struct kin_spawn_options {
    size_t size;
    const char *name;       /* kept until the task is over */
    size_t stack_max_bytes; /* 0: the runtime's */
};
#define KIN_SPAWN_OPTIONS_INIT { sizeof(struct kin_spawn_options), 0, 0 }

/**
 * kin_nursery_open - open a nursery in the running task.
 * @n:       storage, kept until the join.
 * @options: borrowed; NULL for all defaults.
 *
 * The task becomes its owner. A task must not return with a nursery open; KIN_NURSERY sees to that.
 *
 * From:    task
 * Returns: 0, KIN_NOTASK, -EINVAL for a wrong size or NULL
 * Spec:    [SCHED:8.1.1] [NSM:2.2]
 */
KIN_API KIN_MUST_USE int kin_nursery_open(struct kin_nursery *n,
                                          const struct kin_nursery_options *options);

/**
 * kin_spawn - start fn(arg) as a child of a nursery.
 * @n:   an open nursery; while it is joined its live children may still spawn into it.
 * @fn:  what the child runs.
 * @arg: handed to fn; must live until the join.
 *
 * A refused spawn leaves nothing behind.
 *
 * From:    anywhere
 * Parks:   no
 * Returns: 0, KIN_NOSCOPE when the nursery admits nobody, KIN_FULL under tasks_max, -ENOMEM,
 *          -EINVAL
 * Spec:    [NSM:3.1] [SCHED:8.1.2] [N1001]
 */
KIN_API KIN_MUST_USE int kin_spawn(struct kin_nursery *n, kin_task_fn *fn, void *arg);

/**
 * kin_spawn_copy - start a child with a copy of its argument.
 * @n:        an open nursery.
 * @fn:       what the child runs.
 * @arg:      borrowed; arg_size bytes are copied into the nursery's arena.
 * @arg_size: how many.
 *
 * KIN_ARGS writes the last two: kin_spawn_copy(&n, fetch, KIN_ARGS(struct fetch, .url = url)).
 *
 * From:    anywhere
 * Parks:   no
 * Returns: as kin_spawn
 */
KIN_API KIN_MUST_USE int kin_spawn_copy(struct kin_nursery *n, kin_task_fn *fn, const void *arg,
                                        size_t arg_size);

/**
 * kin_spawn_with - start a child with a name, a stack of its own size, and a handle to it.
 * @n:        an open nursery.
 * @options:  borrowed; NULL for all defaults.
 * @fn:       what the child runs.
 * @arg:      as kin_spawn when arg_size is 0, else as kin_spawn_copy.
 * @arg_size: bytes to copy, or 0.
 * @out:      receives the child's name; may be NULL.
 *
 * From:    anywhere
 * Parks:   no
 * Returns: as kin_spawn
 */
KIN_API KIN_MUST_USE int kin_spawn_with(struct kin_nursery *n,
                                        const struct kin_spawn_options *options, kin_task_fn *fn,
                                        const void *arg, size_t arg_size, struct kin_task_ref *out);

/**
 * kin_nursery_close - end admission.
 * @n: a nursery; NULL or a terminal one is left alone.
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 * Spec:    [NSM:2.3]
 */
KIN_API void kin_nursery_close(struct kin_nursery *n);

/**
 * kin_nursery_cancel - ask every child, and every child of theirs, to stop.
 * @n:      a nursery; NULL or a terminal one is left alone.
 * @reason: what kin_cancel_reason tells them; 0: KIN_CANCELLED.
 *
 * Asks, never waits. Parked children wake. The first reason stays. The owner's own waits report
 * the cancellation too, until it has joined.
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 * Spec:    [NSM:4.2] [NSM-3] [SCHED:8.3.1]
 */
KIN_API void kin_nursery_cancel(struct kin_nursery *n, int reason);

/**
 * kin_nursery_join - wait until every child is over, and release the nursery.
 * @n:   a nursery that the running task opened.
 * @out: receives how it went; may be NULL.
 *
 * Children that were started and not yet run may run right here. A panic is reported before an
 * error, an error before a cancellation, whichever came first.
 *
 * From:    task, the owner
 * Parks:   yes
 * Cancel:  does not end the wait: no child outlives its nursery
 * Returns: 0, the first child's failure, the reason it was cancelled with, KIN_STALE a second time,
 *          KIN_NOTASK
 * Spec:    [NSM-2] [NSM:5.1] [NSM:4.4] [SCHED:8.1.3]
 */
KIN_API KIN_MUST_USE int kin_nursery_join(struct kin_nursery *n, struct kin_outcome *out);

/**
 * kin_nursery_poll - how it went, if it is over.
 * @n:   a nursery.
 * @out: receives how it went; may be NULL.
 *
 * From:    task, the owner
 * Parks:   no
 * Returns: KIN_EMPTY while a child lives or may come, else as kin_nursery_join would
 * Spec:    [NSM:5.2]
 */
KIN_API int kin_nursery_poll(struct kin_nursery *n, struct kin_outcome *out);

/**
 * kin_nursery_state - which of the five states it is in.
 * @n: a nursery.
 *
 * From:    anywhere
 * Returns: the state; another thread may have changed it by the time it is read
 * Spec:    [NSM:2.2]
 */
KIN_API enum kin_nursery_state kin_nursery_state(const struct kin_nursery *n);

/**
 * kin_nursery_errors - the failures that were kept, in order of time.
 * @n:   a joined nursery.
 * @buf: receives at most cap of them; may be NULL when cap is 0.
 * @cap: its length.
 *
 * From:    task, the owner
 * Returns: how many are kept; valid until n is opened again
 * Spec:    [NSM-5]
 */
KIN_API size_t kin_nursery_errors(struct kin_nursery *n, struct kin_outcome *buf, size_t cap);

/**
 * kin_nursery_errors_dropped - failures beyond errors_max.
 * @n: a joined nursery.
 *
 * From:    task, the owner
 * Returns: how many were counted and not kept
 */
KIN_API size_t kin_nursery_errors_dropped(const struct kin_nursery *n);

/**
 * kin_nursery_alloc - memory that lives until the join.
 * @n:    a nursery that is not terminal.
 * @size: bytes.
 *
 * From:    anywhere
 * Parks:   no
 * Returns: zeroed memory, aligned to 16; NULL when there is none or n is terminal
 */
KIN_API void *kin_nursery_alloc(struct kin_nursery *n, size_t size);

/* The net under KIN_NURSERY: cancels and joins a nursery that was not joined. */
KIN_API void kin_nursery_leave_(struct kin_nursery *n);

/* KIN_NURSERY(n); or KIN_NURSERY(n, .name = "fetchers"); declares a nursery and opens it. Leaving
 * the C scope before the join cancels and joins. If the open failed, spawn answers KIN_NOSCOPE and
 * join the reason. */
#ifndef __cplusplus
#define KIN_NURSERY(...) KIN_NURSERY_(__VA_ARGS__, )
#define KIN_NURSERY_(name_, ...)                                                                   \
    KIN_CLEANUP(kin_nursery_leave_) struct kin_nursery name_;                                      \
    kin_ignore(kin_nursery_open(&name_, &(const struct kin_nursery_options){                       \
                                            .size = sizeof(struct kin_nursery_options),            \
                                            __VA_ARGS__ }))
#define KIN_ARGS(T, ...) (&(T){ __VA_ARGS__ }), sizeof(T)
#else
#define KIN_NURSERY(name_)                                                                         \
    KIN_CLEANUP(kin_nursery_leave_) struct kin_nursery name_;                                      \
    kin_ignore(kin_nursery_open(&name_, 0))
#endif

KIN_END_DECLS

#endif
