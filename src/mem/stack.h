/* SPDX-License-Identifier: MIT */
/*
 * Stacks: address space reserved in segments, committed by touching, recycled hot, trimmed idle
 * [SCHED:5.3.2]. A guard below each keeps it from its neighbour [SCHED:15.2.1]; past a cap, where
 * the kernel has no guard regions, only while somebody runs on it, which is when it can overflow.
 *
 * One slot of a segment, low addresses left:
 *
 *     | guard | usable: the promised maximum + 1/16 for borrowed runs   | descriptor | colour |
 *             ^ low                                                base ^               slot end ^
 *
 * The descriptor sits in the page that every run touches anyway, so a parked task costs one page,
 * its share of the page tables and nothing else. It can be rebuilt from (segment, index) at any
 * time, which is what lets a trimmed stack lose that page too. The colour, a multiple of 128 bytes
 * chosen by the index, keeps the hot ends of many stacks from sharing a few cache sets.
 *
 * A task that joins its own children may run them on its own stack while it has used less than the
 * extra sixteenth, so that a borrowed run still has the whole promised maximum below it.
 *
 * Three places hold free stacks: the worker's cache (hot, no lock), the pool (lock), the trimmed
 * ones (index lists in the segments; no memory behind them). The pool holds its stacks in batches
 * as the caches spilled them: one pointer moves a batch, the newest is handed out, the oldest is
 * trimmed. It holds any number of them and never trims by itself, because that costs more than all
 * the rest of a task's end; whoever has time calls kin__stack_trim.
 */
#ifndef KIN_MEM_STACK_H
#define KIN_MEM_STACK_H

#include "base/atomic.h"
#include "base/lock.h"
#include "plat/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIN__STACK_CLASSES 14u               /* 16 KiB << class: up to 128 MiB */
#define KIN__STACK_MIN ((size_t)16 * 1024)
#define KIN__STACK_HOT 64u                   /* free stacks of one class a worker keeps at most */

struct kin__stack_segment;

struct kin__stack {
    char *low;                          /* lowest usable byte; the guard is right below */
    char *base;                         /* where the first frame goes: coloured, 64-aligned */
    struct kin__stack *next;            /* link of the free list or batch it is in */
    struct kin__stack_segment *segment; /* where it was cut from */
    struct kin__stack *newer, *older;   /* first of a batch in the pool: its neighbours there */
    uint32_t index;                     /* its slot in the segment */
    uint16_t class_;                    /* which maximum it promises */
    uint8_t batch;                      /* first of a batch: how many stacks it is */
    bool is_guarded : 1;                /* false: past the cap on guards; low holds a canary */
    bool is_armed : 1;                  /* has a guard for now; whoever runs on it */
    struct kin__context runner;         /* the flow that calls tasks on this stack */
};

/* Per worker, owner only. All zero is empty. */
struct kin__stack_cache {
    struct kin__stack *free[KIN__STACK_CLASSES];
    uint32_t count[KIN__STACK_CLASSES];
};

/* Per runtime. */
struct kin__stack_pool {
    struct kin__lock lock;                         /* rank STACK; all below */
    struct kin__stack *newest[KIN__STACK_CLASSES]; /* warm: batches with memory behind them */
    struct kin__stack *oldest[KIN__STACK_CLASSES]; /* NULL when newest is */
    size_t warm[KIN__STACK_CLASSES];               /* how many stacks those are */
    struct kin__stack_segment *segments[KIN__STACK_CLASSES];   /* newest first */
    struct kin__stack_segment *trimmed_in[KIN__STACK_CLASSES]; /* those with trimmed stacks */
    size_t total;                                  /* stacks ever cut */
    size_t trimmed;                                /* of them without memory now */
    size_t unguarded;                              /* of them past the guard cap */
};

/* The class whose maximum is at least max_bytes; KIN__STACK_CLASSES when none is. */
unsigned kin__stack_class(size_t max_bytes);
/* The maximum a class promises. */
size_t kin__stack_class_bytes(unsigned class_);

void kin__stack_pool_init(struct kin__stack_pool *pool);
/* Unmaps everything; no stack may be in use. */
void kin__stack_pool_fini(struct kin__stack_pool *pool);

/* Slow halves: refill with a batch of the pool or one cold stack, spill half of a full cache. */
struct kin__stack *kin__stack_take_slow(struct kin__stack_cache *cache,
                                        struct kin__stack_pool *pool, unsigned class_);
void kin__stack_give_slow(struct kin__stack_cache *cache, struct kin__stack_pool *pool,
                          struct kin__stack *stack);

/* Under ASan: forgets what frames that were left without returning have poisoned. */
void kin__stack_unpoison(const struct kin__stack *stack);

/* A stack ready for kin__context_make, or NULL when address space or memory is used up. */
static inline struct kin__stack *kin__stack_take(struct kin__stack_cache *cache,
                                                 struct kin__stack_pool *pool, unsigned class_)
{
    struct kin__stack *stack = cache->free[class_];
    if (__builtin_expect(!stack, 0))
        return kin__stack_take_slow(cache, pool, class_);
    cache->free[class_] = stack->next;
    cache->count[class_]--;
#if KIN__ASAN
    kin__stack_unpoison(stack);
#endif
    return stack;
}

/* Gives it back. The caller may still be running on it, until its next switch: it stays in this
 * cache until then, whatever is spilled. */
static inline void kin__stack_give(struct kin__stack_cache *cache, struct kin__stack_pool *pool,
                                   struct kin__stack *stack)
{
    unsigned class_ = stack->class_;
    if (__builtin_expect(cache->count[class_] >= KIN__STACK_HOT, 0)) {
        kin__stack_give_slow(cache, pool, stack);
        return;
    }
    stack->next = cache->free[class_];
    cache->free[class_] = stack;
    cache->count[class_]++;
}

/* Everything a worker holds goes to the pool; none of it may still be run on. */
void kin__stack_flush(struct kin__stack_cache *cache, struct kin__stack_pool *pool);
/* Takes the memory of up to max warm stacks of the pool away, the longest unused of the largest
 * class first; how many it did. Any thread, in parallel with everything but fini. */
size_t kin__stack_trim(struct kin__stack_pool *pool, size_t max);

/* Whether address lies in the guard right below stack. */
bool kin__stack_in_guard(const struct kin__stack *stack, uintptr_t address);
/* Whether there is a guard below it now. */
static inline bool kin__stack_has_guard(const struct kin__stack *stack)
{
    return stack->is_guarded || stack->is_armed;
}
/* Gives a stack that is past the cap a guard for as long as somebody runs on it, and takes it away
 * again. Where the process has no mappings left the stack stays without. */
void kin__stack_arm(struct kin__stack *stack);
void kin__stack_disarm(struct kin__stack *stack);
/* Bytes of the guard, or of the place for one. */
size_t kin__stack_guard_bytes(const struct kin__stack *stack);
/* False when the canary of an unguarded stack was overwritten. True for guarded ones. */
bool kin__stack_is_sound(const struct kin__stack *stack);
/* Writes it anew. */
void kin__stack_mend(struct kin__stack *stack);
/* Whether a run that borrows the stack at sp still has the whole promised maximum below it. */
static inline bool kin__stack_can_lend(const struct kin__stack *stack, const void *sp)
{
    size_t left = (size_t)((const char *)sp - stack->low);
    return left >= (KIN__STACK_MIN << stack->class_);
}

#endif
