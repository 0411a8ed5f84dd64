/* SPDX-License-Identifier: MIT */
/*
 * The world of atom mode: threads as flows of one thread, memory with its orders, races.
 *
 *     instrumented code --> hooks.c --> order.c    what an atomic access reads, writes and orders
 *                              |           |
 *                              |           v
 *                              |       threads.c   who goes on: a point before each access
 *                              v
 *                           races.c                are two plain accesses ordered by anything?
 *
 * One run is explored at a time, in one process-wide world: the hooks are functions without an
 * argument for it. Number 0 among the threads is the flow that sets a run up and looks at what is
 * left of it; what it does comes before and after everything else and is not explored.
 *
 * A step is one atomic access and the plain code behind it up to the next one. The thread stops in
 * front of the access (kin__atoms_point), the engine says who goes on, and whoever does so makes
 * its access and says what it touches.
 */
#ifndef KIN_LAB_ATOMS_ATOMS_H
#define KIN_LAB_ATOMS_ATOMS_H

#include "base/assert.h"
#include "lab/engine.h"
#include "plat/context.h"

#include <kin/atoms.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIN__ATOMS_THREADS 8u   /* of a run, number 0 among them */
#define KIN__ATOMS_LOADS 64u    /* looks that a spinning thread is woken by */
#define KIN__ATOMS_BUFFER 32u   /* stores on their way to memory, of one thread */
#define KIN__ATOMS_TEXT 16384u  /* of a report */
#define KIN__ATOMS_STACK ((size_t)256 * 1024)

/* Times: how many accesses each thread had made. A moment of thread t at time n is in the past of
 * whoever has n or more at t. */
struct kin__clock {
    uint32_t at[KIN__ATOMS_THREADS];
};

/* What a thread knows, or what a store hands on to whoever acquires it. */
struct kin__known {
    struct kin__clock before; /* happens before: what plain accesses are compared with */
    struct kin__clock seen;   /* the same and what fences have shown: nothing older is read */
};

static inline void kin__clock_join(struct kin__clock *to, const struct kin__clock *from)
{
    for (unsigned i = 0; i < KIN__ATOMS_THREADS; i++)
        to->at[i] = from->at[i] > to->at[i] ? from->at[i] : to->at[i];
}

static inline void kin__known_join(struct kin__known *to, const struct kin__known *from)
{
    kin__clock_join(&to->before, &from->before);
    kin__clock_join(&to->seen, &from->seen);
}

/* A store that is not in memory yet. */
struct kin__buffered {
    uintptr_t address;
    uint64_t value;
    uint64_t number; /* among the stores of the run; names the dependence of a flush on its store */
    uint32_t size;
    bool hands_on;
    struct kin__known known; /* what it hands on, if it does */
};

enum kin__flow_state {
    KIN__FLOW_READY,  /* stands in front of an access, or has not begun */
    KIN__FLOW_AWAITS, /* waits until a predicate holds */
    KIN__FLOW_SPINS,  /* waits until something that it looked at is different */
    KIN__FLOW_JOINS,  /* waits for the end of another one */
    KIN__FLOW_STOPS,  /* is of no interest any more: kin_atoms_assume */
    KIN__FLOW_OVER
};

/* A word as somebody saw it. */
struct kin__look {
    uintptr_t address;
    uint64_t value;
    uint32_t size;
};

struct kin__flow {
    struct kin__context context;
    enum kin__flow_state state;
    unsigned number;         /* its place in clocks */
    unsigned actor, flusher; /* the engine's names for it and for its store buffer */
    const char *name;
    void (*fn)(void *arg);
    void *arg;
    bool (*is_true)(void *arg); /* AWAITS */
    void *is_true_of;
    unsigned joined;            /* JOINS: whose end */
    void *local;                /* what the cell of kin_atoms_local holds while it runs */
    char *stack;                /* low end; stays from run to run */
    uintptr_t pc;               /* of its atomic access that is under way */

    struct kin__known known;
    struct kin__known released;   /* as of its last release fence */
    struct kin__known acquirable; /* what relaxed loads have left for an acquire fence */
    bool has_released, has_acquirable;

    struct kin__look looks[KIN__ATOMS_LOADS]; /* since it last spun */
    unsigned looks_count;
    struct kin__buffered buffer[KIN__ATOMS_BUFFER]; /* a ring, from head to tail */
    unsigned head, tail;
};

/* How the hooks behave. */
enum kin__atoms_phase {
    KIN__ATOMS_IDLE,  /* no run, or its beginning or end: memory is memory */
    KIN__ATOMS_FIRST, /* a thread runs up to its first access */
    KIN__ATOMS_RUNS
};

struct kin__atoms {
    enum kin__atoms_phase phase;
    bool is_folded;  /* inside of an await: accesses are made, but are no points */
    bool is_peeking; /* somebody asks on behalf of a thread that waits: nothing is noted */
    bool is_inside;  /* in the world itself: what it copies is not watched */
    bool is_traced;  /* this run is the one that is reported */
    bool has_failed; /* this run */
    bool has_stopped; /* somebody in this run, by kin_atoms_assume */
    struct kin_atoms_config config;
    struct kin__engine *engine;
    struct kin__flow *current;
    unsigned count; /* of flows; the first is the one that begins runs */
    struct kin__flow flows[KIN__ATOMS_THREADS];
    struct kin__flow *by_actor[2 * KIN__ATOMS_THREADS];
    uint64_t stores; /* of this run */
    uintptr_t region; /* where the blocks of a run are; 0: there are none yet */
    void *outside;   /* begin or end is being called: the way out of it; else NULL */
    const char *outside_name;
    struct kin__clock fenced; /* what the fences of the total order have shown each other */
    void **local; /* the cell of kin_atoms_local */
};
extern struct kin__atoms kin__atoms;

/* ---- wild.c ---- */

/* From here until the end a fault of a run is a failure of the run. */
void kin__wild_begin(void);
void kin__wild_end(void);

/* What must hold so that a run can be made at all: else the process ends, as for KIN__CHECK. */
_Noreturn void kin__atoms_house(const char *condition, const char *rule, const char *function);
#define KIN__HOUSE(condition, rule)                                                                \
    (KIN__LIKELY(condition) ? (void)0 : kin__atoms_house(#condition, "house: " rule, __func__))

/* ---- threads.c ---- */

/* Prepares the flows for a run, and makes the stacks the first time. 0 or -ENOMEM. */
int kin__flows_begin(void);
/* Lets every thread run to its first access, then everybody as the engine says. Returns when all
 * are over, or nobody can go on, or the run has failed or was abandoned. */
void kin__flows_run(void);
/* A new thread; its number. */
unsigned kin__flow_start(const char *name, void (*fn)(void *arg), void *arg);
/* The running thread stands in front of an access: others may go first. */
void kin__atoms_point(void);
/* The run is over before its end: back to the one who began it. */
_Noreturn void kin__flows_leave(void);

/* ---- order.c: accesses of the running thread ---- */

enum kin__update {
    KIN__UPDATE_SET,
    KIN__UPDATE_ADD,
    KIN__UPDATE_SUB,
    KIN__UPDATE_AND,
    KIN__UPDATE_OR,
    KIN__UPDATE_XOR,
    KIN__UPDATE_NAND
};

#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 kin__wide;
#else
typedef uint64_t kin__wide;
#endif

/* What an update makes of an old value; bits above those of the atomic mean nothing. */
static inline kin__wide kin__updated(enum kin__update kind, kin__wide old, kin__wide value)
{
    switch (kind) {
    case KIN__UPDATE_SET:
        return value;
    case KIN__UPDATE_ADD:
        return old + value;
    case KIN__UPDATE_SUB:
        return old - value;
    case KIN__UPDATE_AND:
        return old & value;
    case KIN__UPDATE_OR:
        return old | value;
    case KIN__UPDATE_XOR:
        return old ^ value;
    case KIN__UPDATE_NAND:
        return ~(old & value);
    }
    return old;
}

/* Orders are the compilers' numbers. */
enum kin__order {
    KIN__ORDER_RELAXED,
    KIN__ORDER_CONSUME,
    KIN__ORDER_ACQUIRE,
    KIN__ORDER_RELEASE,
    KIN__ORDER_ACQ_REL,
    KIN__ORDER_SEQ
};

void kin__order_begin(void);
uint64_t kin__atoms_load(uintptr_t address, uint32_t size, int order, uintptr_t pc);
void kin__atoms_store(uintptr_t address, uint32_t size, uint64_t value, int order, uintptr_t pc);
uint64_t kin__atoms_update(uintptr_t address, uint32_t size, enum kin__update kind, uint64_t value,
                           int order, uintptr_t pc);
/* What was there; it was exchanged if that is what was expected. */
uint64_t kin__atoms_cas(uintptr_t address, uint32_t size, uint64_t expected, uint64_t desired,
                        int order, int order_failed, uintptr_t pc);
void kin__atoms_fence(int order, uintptr_t pc);
/* A fence in every thread. */
void kin__atoms_fence_all(uintptr_t pc);
/* What it looked at in its last turn the thread sees as it is now: no loop looks back for ever. */
void kin__order_refresh(struct kin__flow *flow);
/* One step of the buffer of a flow. */
void kin__order_flush(struct kin__flow *flow);
/* What a thread has stored to these bytes is in memory before it goes on, and so is what it stored
 * before that. */
void kin__order_drain(struct kin__flow *flow, uintptr_t address, size_t size);
/* An access of 16 bytes, made to memory between the two: it sees the newest value. */
void kin__atoms_wide_begin(void);
void kin__atoms_wide_end(uintptr_t address, bool reads, bool writes, int order, uintptr_t pc);
/* Memory is written by other than atomic accesses. */
void kin__order_forget(uintptr_t address, size_t size);
/* The newest value, as this flow would see it, without any effect. */
uint64_t kin__order_peek(const struct kin__flow *flow, uintptr_t address, uint32_t size);

/* ---- races.c ---- */

#define KIN__ACCESS_WRITE 1u
#define KIN__ACCESS_ATOMIC 2u
#define KIN__ACCESS_FREE 4u /* the memory is nobody's from here on */

/* Forgets what the last run did. */
int kin__races_begin(void);
/* Compares an access of the running thread with those that others have made to the same bytes. */
void kin__races_access(uintptr_t address, size_t size, unsigned kind, uintptr_t pc);
/* The memory begins a new life. */
void kin__races_forget(uintptr_t address, size_t size);

/* ---- trail.c: what happened in the run that is reported ---- */

void kin__trail_begin(void);
void kin__trail_note(const char *what, uintptr_t address, uint32_t size, uint64_t value, int order,
                     uintptr_t pc);
void kin__trail_text(const char *text);
/* Writes the trail of the last run that was traced. */
struct kin__text;
void kin__trail_write(struct kin__text *out);
/* Names a code address, or a byte of memory, as far as it has a name. */
void kin__trail_code(struct kin__text *out, uintptr_t pc);
void kin__trail_memory(struct kin__text *out, uintptr_t address);

/* ---- atoms.c ---- */

/* The run has failed. */
_Noreturn void kin__atoms_fail(const char *oracle, int status, const char *where, const char *text);

/* ---- blocks.c: the memory of a run ---- */

#define KIN__ATOMS_REGION ((size_t)16 << 20)

void kin__blocks_begin(void);
/* Which block of the run an address is in, and where in it; false: in none. */
bool kin__block_find(uintptr_t address, unsigned *block, size_t *offset);
/* An access to the region fails the run unless it is to one block; and to one that lives, where
 * races are not looked for. */
void kin__block_access(uintptr_t address, size_t size, uintptr_t pc);

static inline void kin__block_look(uintptr_t address, size_t size, uintptr_t pc)
{
    if (KIN__UNLIKELY(address - kin__atoms.region < KIN__ATOMS_REGION))
        kin__block_access(address, size, pc);
}

#endif
