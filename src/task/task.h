/* SPDX-License-Identifier: MIT */
/*
 * The control block of a task: who it is, where it stands, what it waits for, how it ends
 * [SCHED:5.1.1].
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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kin__extra;
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
#define KIN__TASK_EXTRA 32u   /* has belongings: extra.h */
#define KIN__TASK_METERED 64u /* has a limited budget or lacks a capability: budget.h */
#define KIN__TASK_DEADLINE 128u /* has a pushed deadline */
#define KIN__TASK_KEPT 256u   /* somebody has its name: the frame stays until the nursery is over */
#define KIN__TASK_THREAD 512u /* no task at all: a plain thread that waits; see park/thread.c */
#define KIN__TASK_HIGH 1024u  /* goes before others when it is woken */
#define KIN__TASK_LOW 2048u   /* goes behind others when it is woken */
#define KIN__TASK_INTERNAL 4096u /* the runtime's own: how it ends is nobody's result */

/* In caps, beside capabilities (KIN_CAP_ALL) and KIN__CAPS_ACCOUNT: the task's argument is a copy
 * that goes with the task, and what the copy lies in. */
#define KIN__CAPS_SMALL 0x2000u  /* a frame of kind SMALL, */
#define KIN__CAPS_LARGE 0x4000u  /* one of kind LARGE, */
#define KIN__CAPS_COPY 0x6000u   /* both bits: a block as kin_alloc gives it */

#define KIN__OVER_TELLS 128u /* in over: those who know the task are being told, without the lock */

/* The fields from status to wake_ready, which are set by one move when a task is made. */
struct kin__birth {
    int32_t status;
    uint16_t slice, runtime, flags, caps;
    uint8_t stack_class, masks, over, wake_ready;
};

struct kin__task {
    struct kin__frame frame; /* the pool's; its name is the task's id */
    kin__a64 ctl;            /* the word: word.h */
    struct kin__task *next;  /* run-queue link; owner of the queue it is in */
    struct kin__context ctx; /* where it goes on; task, then whoever continues it */
    /* the stack it runs on, its own or borrowed; NULL: it has not begun, or rests */
    struct kin__stack *stack;
    union {
        kin_task_fn *fn;          /* spawner */
        struct kin__stack *spare; /* if KIN__TASK_SPARE: where an overflow is cleaned up; task */
    };
    union {
        void *arg;       /* until it runs, and while it rests; spawner, then worker */
        const char *low; /* while it runs: lowest byte of the stack it is on; task */
    };

    _Atomic(struct kin__scope *) scope; /* the nursery that owns it; spawner, then constant */
    struct kin__list sibling;           /* link among its children; scope */
    void *escape;                       /* how to end the body from any depth; task */
    const void *site;                   /* code address that spawned it; spawner */
    /* innermost nursery it has open; task writes, cancel reads */
    _Atomic(struct kin__scope *) inner;
    int32_t status;                     /* what it ends with; until then see cause.h; task */
    uint16_t slice;                     /* operations until the others get a turn; task */
    uint16_t runtime;                   /* number of its runtime; spawner, then constant */
    union {
        struct {
            uint16_t flags; /* KIN__TASK_ bits; spawner, then task */
            uint16_t caps;  /* capabilities it holds, KIN__CAPS_ bits; spawner, then constant */
        };
        uint32_t marks; /* both, for one test of bits of either */
    };
    uint8_t stack_class;                /* what stack to take; spawner */
    uint8_t masks;                      /* how deep cancellation is held back; task */
    uint8_t over;                       /* once it is: 1 + how bad its end was, and TELLS; scope */
    uint8_t wake_ready;                 /* claimed while it was still parking; winner */
    /* (from status to here: struct kin__birth) */

    _Atomic(const char *) waiting;   /* what it is parked on, a constant text; task; dumps peek */
    union {
        struct {
            int32_t wait_status; /* winner, then task */
            uint32_t wait_case;  /* winner, then task */
        };
        uintptr_t wait_cases; /* while it is parked and nobody has claimed it: park/peek.c; task */
    };
    const char *name;                /* if KIN__TASK_NAMED; spawner */
    kin_time deadline;               /* if KIN__TASK_DEADLINE: the tightest pushed one; task */
    struct kin__extra *extra;        /* if KIN__TASK_EXTRA; spawner, then task */
    /* as the first of a batch in the global queue: the next one, */
    struct kin__task *batch_next;
    struct kin__task *batch_last;    /* the last task of this one, */
    union {
        uint32_t batch_count; /* and how many they are; owner of the queue */
        kin__a32 woken;       /* if KIN__TASK_THREAD: futex; set by whoever wakes it */
    };
    kin__ai32 shadow;                /* debug: the state of 002 */
#if KIN__ASAN || KIN__TSAN
    unsigned char sanitizer_rest[KIN__FRAME_BYTES - 192 - (sizeof(struct kin__context) - 8)];
#endif
};

_Static_assert(sizeof(struct kin__task) == KIN__FRAME_BYTES, "a frame is three lines");
_Static_assert(offsetof(struct kin__task, wake_ready) - offsetof(struct kin__task, status) ==
                       offsetof(struct kin__birth, wake_ready) &&
                   sizeof(struct kin__birth) == 16,
               "one move");
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

/* Whether something goes when the task is over: belongings, a copy of its argument, or what more of
 * its flags say. One test. */
static inline bool kin__task_owns(const struct kin__task *task, uint16_t more)
{
    const union {
        struct {
            uint16_t flags, caps;
        };
        uint32_t marks;
    } either = {{(uint16_t)(KIN__TASK_EXTRA | more), KIN__CAPS_COPY}};
    return task->marks & either.marks;
}

/* What the body of a task that is to rest returns, right after kin__rest_begin (park/rest.h). */
#define KIN__RESTING INT32_MIN

/* Whether a task that has no stack has begun: it has given the stack back, and waits. The worker's
 * that runs it, or the winner's. */
static inline bool kin__task_rests(const struct kin__task *task)
{
    /* alone: the caller's own; whoever comes next has it from the queue */
    return !task->stack && kin__load_quiet(&task->waiting);
}

/* For reports: never NULL. Others may ask while the task goes on, which changes other flags. */
__attribute__((no_sanitize("thread"))) static inline const char *
kin__task_name(const struct kin__task *task)
{
    return *(const volatile uint16_t *)&task->flags & KIN__TASK_NAMED ? task->name : "no name";
}

/* Who it is, for reports: its number, name, place of its spawn, function. Every report names tasks
 * by these two and in no other way, so that one task is called the same in all of them:
 *
 *     task 17.2 (fetch), spawned at crawl (spider.c:88), entry read_page (page.c:12)
 *     task 17.2                                                      one that may be over by now
 *
 * The number is short: that of the frame, and behind the dot how often the frame has been used. May
 * run in a signal handler. */
struct kin__text;
void kin__task_say(struct kin__text *text, const struct kin__task *task);
void kin__task_say_id(struct kin__text *text, uint64_t id);
/* Where a task comes from: who has it locked reads it, and says it when the lock is given, because
 * for names the line tables of the program are read. */
struct kin__task_code {
    uintptr_t site, entry; /* entry 0: its place has gone to the spare stack */
};
struct kin__task_code kin__task_code(const struct kin__task *task);
/* "spawned at ..., entry ..." alone. */
void kin__task_say_code(struct kin__text *text, struct kin__task_code code);

/* The task that has this name now; NULL when it is over or never was. Only a hint unless the caller
 * knows that it cannot end: who acts on it checks the name again under the nursery's lock. */
struct kin__task *kin__task_find(uint64_t id);

struct kin__bill; /* bill.h */

/* What happens above. Declared here, filled in by scope. */
struct kin__owner_ops {
    /* The task is over with task->status, and task->arg is its argument again; its frame goes back
     * after this unless it answers false: then the nursery keeps it. Runs on a worker. */
    bool (*child_done)(struct kin__task *task);
    /* Runs the cleanups of the task and ends every nursery it has open, the newest first; before
     * its stack is given up. */
    void (*unwind)(struct kin__task *task);
    /* The body has returned rc, or KIN_CANCELLED before it began, and the task has belongings:
     * sees to them. What it ends with. */
    int (*conclude)(struct kin__task *task, int rc);
    /* What the task ends with when its body comes to rc and it remembers a cause: cause.h. */
    int (*cause)(struct kin__task *task, int rc);
    /* The body has returned and a nursery that it opened is still open: aborts. */
    void (*forgot)(struct kin__task *task);
    /* The slow half of kin__op in budget.h. */
    int (*op)(struct kin__task *task, unsigned what, kin_time deadline);
    /* The rare half of kin__bill_take in bill.h. */
    int (*bill)(struct kin__bill *bill, struct kin__task *task);
    /* Nothing is runnable, nothing is due, and no thread is left that could change that. Runs on
     * the monitor's thread. */
    void (*dead)(struct kin__sched *sched);
};

#endif
