/* SPDX-License-Identifier: MIT */
/*
 * The control block of a task: who it is, where it stands, what it waits for, how it ends.
 *
 * One frame of 192 bytes in three lines. A task that is spawned, runs and ends without parking
 * touches the first two only. Each field says who may touch it:
 *
 *   spawner   until the task is in a run queue
 *   task      the flow that runs as this task, or the worker that runs it
 *   winner    whoever claimed its park (word.h), until the task is in a run queue again
 *   scope     under the lock of the nursery that owns it
 */
#ifndef KIN_TASK_TASK_H
#define KIN_TASK_TASK_H

#include "base/atomic.h"
#include "base/list.h"
#include "mem/frame.h"
#include "mem/stack.h"
#include "plat/context.h"

#include <kin/run.h>
#include <kin/task.h>

#include <stddef.h>
#include <stdint.h>

struct kin__sched;
struct kin__scope;

/* The states of [002:2.1], as debug builds shadow them and dumps show them. */
enum kin__state {
    KIN__INIT,
    KIN__RUNNABLE,
    KIN__RUNNING,
    KIN__PARKING,
    KIN__PARKED,
    KIN__WAKING,
    KIN__DONE,
    KIN__CANCELLED
};

/* Who makes a transition, as in the matrix of 002 section 9. */
enum kin__actor { KIN__BY_TASK, KIN__BY_WORKER, KIN__BY_WAKER, KIN__BY_SPAWNER };

#define KIN__TASK_NAMED 1u    /* has a name */
#define KIN__TASK_FAILED 2u   /* ended by kin_fail, a panic or for want of a stack: status is set */
#define KIN__TASK_PANICKED 4u
#define KIN__TASK_BORROWS 8u  /* runs on the stack of the task that joins it */
#define KIN__TASK_SPARE 16u   /* has a spare stack */

struct kin__task {
    struct kin__frame frame; /* the pool's; its name is the task's id */
    kin__a64 ctl;            /* the word: word.h */
    struct kin__task *next;  /* run-queue link; owner of the queue it is in */
    struct kin__context ctx; /* where it goes on; task, then whoever continues it */
    struct kin__stack *stack; /* the stack it runs on, its own or borrowed; NULL: has not begun */
    kin_task_fn *fn;          /* spawner */
    union {
        void *arg;       /* until it runs; spawner */
        const char *low; /* while it runs: lowest byte of the stack it is on; task */
    };

    _Atomic(struct kin__scope *) scope; /* the nursery that owns it; spawner, then constant */
    struct kin__list sibling;           /* link among its children; scope */
    struct kin__sched *sched;           /* the runtime; spawner, then constant */
    void *escape;                       /* how to end the body from any depth; task */
    const void *site;                   /* code address that spawned it; spawner */
    /* innermost nursery it has open; task writes, cancel reads */
    _Atomic(struct kin__scope *) inner;
    int32_t status;                     /* what it ends with; task */
    uint16_t ops;                       /* checkpoints since it had its share; task */
    uint8_t stack_class;                /* what stack to take; spawner */
    uint8_t flags;                      /* KIN__TASK_ bits; spawner, then task */

    _Atomic(const char *) waiting;   /* what it is parked on, a constant text; task; dumps peek */
    int32_t wait_status;             /* winner, then task */
    uint32_t wait_case;              /* winner, then task */
    const char *name;                /* if KIN__TASK_NAMED; spawner */
    struct kin__stack *spare;        /* if KIN__TASK_SPARE: where an overflow is cleaned up; task */
    /* as the first of a batch in the global queue: the next one, */
    struct kin__task *batch_next;
    struct kin__task *batch_last;    /* the last task of this one, */
    uint32_t batch_count;            /* and how many they are; owner of the queue */
    kin__ai32 shadow;                /* debug: the state of 002 */
    unsigned char rest[192 - 128 - 56];
#if KIN__ASAN || KIN__TSAN
    unsigned char sanitizer_rest[KIN__FRAME_BYTES - 192 - (sizeof(struct kin__context) - 8)];
#endif
};

_Static_assert(sizeof(struct kin__task) == KIN__FRAME_BYTES, "a frame is three lines");
_Static_assert(KIN__ASAN || KIN__TSAN || offsetof(struct kin__task, scope) == 64, "line 1");
_Static_assert(KIN__ASAN || KIN__TSAN || offsetof(struct kin__task, waiting) == 128, "line 2");

static inline struct kin__task *kin__task_of_frame(struct kin__frame *frame)
{
    return KIN__CONTAINER_OF(frame, struct kin__task, frame);
}

static inline uint64_t kin__task_id(const struct kin__task *task)
{
    return kin__load_relaxed(&task->frame.name); /* relaxed: constant while the task lives */
}

/* For reports: never NULL. */
static inline const char *kin__task_name(const struct kin__task *task)
{
    return task->flags & KIN__TASK_NAMED ? task->name : "no name";
}

/* The task that has this name now; NULL when it is over or never was. Only a hint unless the caller
 * knows that it cannot end: see kin__word_cancel_named for acting on it. */
struct kin__task *kin__task_find(uint64_t id);

/* What happens above when a task ends. Declared here, filled in by scope. */
struct kin__owner_ops {
    /* The task is over with task->status; its frame goes back after this. Runs on a worker. */
    void (*child_done)(struct kin__task *task);
    /* Ends every nursery the task has open, cancelled and joined; before its stack is given up. */
    void (*unwind)(struct kin__task *task);
};

#endif
