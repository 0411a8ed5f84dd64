/* SPDX-License-Identifier: MIT */
/*
 * Frames: the memory of control blocks. Recycled, never unmapped, checked by generation.
 *
 * One pool for the whole process, because a handle to a task may outlive the runtime that ran it
 * and must still be answered with "over" instead of a crash [002:1.1]. A frame's name is
 * generation << 26 | index; the generation goes up when the frame is freed, so an old name never
 * matches again (38 bits: a frame reused every 20 ns needs 90 minutes to wrap, and a clash needs
 * the very same number then). Index 0 is never used: name 0 is nobody.
 *
 * A name gives power over whoever has it, so those of tasks cannot be guessed [SCHED:15.1.2]: the
 * first generation of each frame is a keyed hash of its index, and the next one is not the next
 * number but a step of a generator whose constants are secret (once for a process, before its first
 * runtime; the lab and tests without a runtime count). A step that is a multiplication and an
 * addition of full period uses every generation once before one comes again. kin__frame_life says
 * the number of a life for people.
 */
#ifndef KIN_MEM_FRAME_H
#define KIN_MEM_FRAME_H

#include "base/atomic.h"
#include "plat/context.h"

#include <stddef.h>
#include <stdint.h>

/* Size of a task's frame; a multiple of a cache line, each begins one. The context of a task has
 * more fields when a sanitizer watches the switches. */
#if KIN__ASAN || KIN__TSAN
#define KIN__FRAME_BYTES 256u
#else
#define KIN__FRAME_BYTES 192u
#endif
#define KIN__SCOPE_BYTES 512u      /* of a nursery */
#if defined(KIN_DEBUG) || defined(KIN__LAB)
#define KIN__EXTRA_BYTES 704u      /* of what only some tasks have; with what checks note there */
#else
#define KIN__EXTRA_BYTES 640u
#endif
#define KIN__OBLIGATION_BYTES 128u
#define KIN__WATCH_BYTES 192u      /* of one end of a monitor or link */
#define KIN__REPLY_BYTES 128u      /* of the right to answer a call */
#define KIN__LETTER_BYTES 128u     /* of a small message in a mailbox */
#define KIN__LEASE_BYTES 256u      /* of a name that somebody holds */
#define KIN__SMALL_BYTES 64u       /* of a small copy of a child's argument */
#define KIN__LARGE_BYTES 256u      /* of a larger one */
#define KIN__FRAME_INDEX_BITS 26u
#define KIN__FRAME_BATCH 64u /* frames moved between a cache and the pool at a time */

/* What a block is, for good: late readers rely on it. */
enum kin__frame_kind {
    KIN__FRAME_TASK = 0,
    KIN__FRAME_SCOPE,
    KIN__FRAME_EXTRA,
    KIN__FRAME_OBLIGATION,
    KIN__FRAME_WATCH,
    KIN__FRAME_REPLY,
    KIN__FRAME_LETTER,
    KIN__FRAME_LEASE,
    KIN__FRAME_SMALL,
    KIN__FRAME_LARGE,
    KIN__FRAME_KINDS
};

/* The head of every frame; the rest is the task's. Survives recycling. */
struct kin__frame {
    kin__a64 name;                /* who it is; written by its owner, read by anyone */
    struct kin__frame *free_next; /* owner of the free list it is in */
};

/* Per worker (or, under a lock, for foreign threads); owner only. All zero is empty, for tasks. */
struct kin__frame_cache {
    struct kin__frame *free;
    uint32_t count;
    uint32_t kind; /* enum kin__frame_kind; constant */
};

/* How the name of one life of a task's frame follows from the one before: name * mul + add, which
 * leaves the index alone. Written once, before the first runtime: a thread that waits without one
 * may read either. Relaxed, all of it: any odd mixture of the two is a step, too. Frames of other
 * kinds count their lives. */
struct kin__frame_step {
    kin__a64 mul, add;
};
extern struct kin__frame_step kin__frame_step;
#define KIN__FRAME_NEXT (UINT64_C(1) << KIN__FRAME_INDEX_BITS)

/* From now on names of tasks cannot be guessed. Before the first runtime; later it does nothing. */
void kin__frame_scramble(void);
/* Which life of its frame a task's name is of, from 1 on. */
uint64_t kin__frame_life(uint64_t name);

/* Slow halves: fetch or return a batch. */
struct kin__frame *kin__frame_alloc_slow(struct kin__frame_cache *cache);
void kin__frame_free_slow(struct kin__frame_cache *cache);

#ifdef KIN__LAB
/* Defined in lab/frame.c: the same frames in every run, and each alloc may fail. */
struct kin__frame *kin__frame_alloc(struct kin__frame_cache *cache);
void kin__frame_free(struct kin__frame_cache *cache, struct kin__frame *frame);
static inline void kin__frame_free_as(struct kin__frame_cache *cache, struct kin__frame *frame,
                                      enum kin__frame_kind kind)
{
    (void)kind;
    kin__frame_free(cache, frame);
}
#else
/* A frame with a name of its own, or NULL when memory is used up. A first-time frame is all zero
 * behind its head; a recycled one is as it was freed. */
static inline struct kin__frame *kin__frame_alloc(struct kin__frame_cache *cache)
{
    struct kin__frame *frame = cache->free;
    if (__builtin_expect(!frame, 0))
        return kin__frame_alloc_slow(cache);
    cache->free = frame->free_next;
    cache->count--;
    return frame;
}

/* Ends the frame's name and keeps it for the next alloc; kind is the cache's. */
static inline void kin__frame_free_as(struct kin__frame_cache *cache, struct kin__frame *frame,
                                      enum kin__frame_kind kind)
{
    /* relaxed: whoever looks a name up checks again after it acted [ABA:8.3] */
    uint64_t name = kin__load_relaxed(&frame->name);
    if (kind == KIN__FRAME_TASK) {
        name *= kin__load_relaxed(&kin__frame_step.mul); /* relaxed: constants, as a rule */
        name += kin__load_relaxed(&kin__frame_step.add); /* relaxed: as above */
    } else {
        name += KIN__FRAME_NEXT;
    }
    /* pairs with the acquires of those who see by it that it is over: they see what was done */
    kin__store_release(&frame->name, name);
    frame->free_next = cache->free;
    cache->free = frame;
    if (__builtin_expect(++cache->count > 2 * KIN__FRAME_BATCH, 0))
        kin__frame_free_slow(cache);
}

static inline void kin__frame_free(struct kin__frame_cache *cache, struct kin__frame *frame)
{
    kin__frame_free_as(cache, frame, (enum kin__frame_kind)cache->kind);
}
#endif

/* Everything the cache holds goes to the pool. */
void kin__frame_flush(struct kin__frame_cache *cache);
/* The frame that has or had this name; NULL when no frame ever had its index. The caller compares
 * the name. */
struct kin__frame *kin__frame_at(enum kin__frame_kind kind, uint64_t name);
/* Calls visit for every frame of a task ever cut, used or free, without a lock; for dumps. */
void kin__frame_each(void (*visit)(struct kin__frame *frame, void *arg), void *arg);
/* Bytes of address space that hold frames of tasks. */
size_t kin__frame_bytes(void);

#endif
