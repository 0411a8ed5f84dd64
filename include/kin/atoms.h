/* SPDX-License-Identifier: MIT */
/*
 * Atom mode of the lab: every interleaving of the atomic accesses of unmodified C code.
 *
 * The code under test is compiled with -fsanitize=thread and linked with libkin-atoms instead of
 * the sanitizer, so that every atomic access, by C11 or by the compiler's builtins, becomes a point
 * at which another thread may go on. Threads are flows of one thread; which of them goes on is
 * decided by a strategy, and by DPOR in such a way that the verdict covers every execution. Plain
 * accesses are compared with each other: two of them that nothing orders, of which one writes, are
 * a data race, whether or not they come close to each other.
 *
 *     #include <kin/atoms.h>
 *     #include <stdatomic.h>
 *     #include <stdio.h>
 *
 *     static atomic_int ready;
 *     static int value;
 *     static bool is_ready(void *arg)
 *     {
 *         (void)arg;
 *         return atomic_load_explicit(&ready, memory_order_acquire);
 *     }
 *     static void writer(void *arg)
 *     {
 *         (void)arg;
 *         value = 42;
 *         atomic_store_explicit(&ready, 1, memory_order_release);
 *     }
 *     static void reader(void *arg)
 *     {
 *         kin_atoms_await(is_ready, arg);
 *         kin_atoms_assert(value == 42, "what was published is seen");
 *     }
 *     static void begin(void *arg)
 *     {
 *         ready = value = 0;
 *         kin_atoms_spawn("writer", writer, arg);
 *         kin_atoms_spawn("reader", reader, arg);
 *     }
 *     int main(void)
 *     {
 *         struct kin_atoms_report report;
 *         int rc = kin_atoms_run(NULL, begin, NULL, NULL, &report);
 *         printf("%llu executions\n%s", (unsigned long long)report.executions, report.text);
 *         return rc != 0;
 *     }
 *
 *     cc -fsanitize=thread -g -c test.c $(pkg-config --cflags kin-atoms)
 *     cc test.o $(pkg-config --libs kin-atoms)
 *
 * What a run may do: it is begun anew some hundred thousand times a second, so everything that it
 * changes is set again by begin; threads wait by kin_atoms_await, never by a loop that only looks
 * (or say kin_atoms_spin in its body); nothing in it depends on time, chance or addresses. Memory
 * comes from kin_atoms_alloc and is gone with the run. Accesses to one atomic are of one size.
 *
 * Memory, by config.memory:
 *   SC   one access after the other. The orders that the code asks for still count for races, so
 *        most orders that are too weak are found here, by the plain data that they fail to protect.
 *   TSO  what x86-64 does: stores wait in a buffer of their thread, in order, and come to memory at
 *        any later moment; read-modify-writes and full fences wait until it is empty.
 *   C11  what the language allows, as C++20 puts it, but for loads that see stores of the future:
 *        every load may see any store that is neither overwritten in the thread's past nor older
 *        than one that it saw before, and a store may slip behind others in the order of
 *        modification. The one order of sequentially consistent accesses and fences is that in
 *        which they are run. This is nearly all that any machine does, and many more executions.
 */
#ifndef KIN_ATOMS_H
#define KIN_ATOMS_H

#include <kin/base.h>
#include <kin/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The symbol is part of libkin-atoms; libkin has none of these. */
#define KIN_ATOMS_API __attribute__((visibility("default")))

KIN_BEGIN_DECLS

/* How executions are chosen. */
enum kin_atoms_strategy {
    KIN_ATOMS_DPOR = 0,    /* one of each class that differs by more than independent steps: all */
    KIN_ATOMS_DFS,         /* every interleaving; to check the former */
    KIN_ATOMS_RANDOM,      /* anybody, by dice */
    KIN_ATOMS_PCT,         /* by priorities that change depth - 1 times */
    KIN_ATOMS_WALK,        /* uniformly over interleavings */
    KIN_ATOMS_ROUND_ROBIN, /* each thread in turn: one execution */
    KIN_ATOMS_REPLAY       /* as replay_file says */
};

enum kin_atoms_memory { KIN_ATOMS_SC = 0, KIN_ATOMS_TSO, KIN_ATOMS_C11 };

/* What kin_atoms_run is told. 0 is the default of each. */
struct kin_atoms_config {
    size_t size;
    const char *name; /* of the test, for reports and files */
    enum kin_atoms_strategy strategy;
    enum kin_atoms_memory memory;
    uint64_t seed;
    uint64_t executions_max; /* 0: no limit for DPOR and DFS, ten thousand for the others */
    uint64_t steps_max;      /* of one execution: more is a livelock; 0: a hundred thousand */
    int64_t wall_max;        /* nanoseconds of real time; 0: no limit */
    unsigned preemptions;    /* DPOR runs only executions with so many at most; 0: no limit */
    unsigned depth;          /* of PCT; 0: 3 */
    unsigned stale_max;      /* C11: how many stores back a load may reach; 0: no limit */
    bool ignores_races;      /* plain accesses are not compared */
    bool plain_points;       /* plain accesses are points too: for code with races on purpose */
    bool keeps_going;        /* goes on after a failure and counts; default: shrinks it and stops */
    const char *replay_file; /* for REPLAY */
    const char *save_file;   /* where the schedule of a failure goes; NULL: nowhere */
};
#define KIN_ATOMS_CONFIG_INIT                                                                      \
    { sizeof(struct kin_atoms_config), NULL, KIN_ATOMS_DPOR, KIN_ATOMS_SC, 0, 0, 0, 0, 0, 0, 0,    \
      false, false, false, NULL, NULL }
#ifndef __cplusplus
#define KIN_ATOMS_CONFIG(...) KIN_OPTIONS_(kin_atoms_config, __VA_ARGS__)
#endif

/* What came out. Strings stay until the next run. */
struct kin_atoms_report {
    uint64_t executions;    /* different ones, as far as the strategy knows */
    uint64_t redundant;     /* begun and given up: they would have been equal to others */
    uint64_t steps;         /* in all executions */
    uint64_t failures;      /* more than 1 with keeps_going only */
    uint64_t schedule_hash; /* of the failing execution */
    uint64_t failing_seed;  /* makes the first execution fail; 0: none, or it was not by seed */
    int status;             /* 0, or what kin_atoms_run answers */
    bool exhausted;         /* every execution was covered, of those within the bounds */
    const char *oracle;     /* "assert", "data-race", "deadlock", "use-after-free", "double-free",
                               "wild-free", "out-of-bounds", "crash", "livelock"; NULL: none */
    const char *text;       /* the failure in words and step by step; "" when there is none */
};

/**
 * kin_atoms_run - explore the executions of a few threads.
 * @config: borrowed; NULL for all defaults.
 * @begin:  prepares one execution and starts its threads with kin_atoms_spawn.
 * @end:    looks at what an execution has left, when all of its threads are over; NULL for nothing.
 * @arg:    what begin and end get.
 * @report: receives what came out; NULL if the status is enough.
 *
 * begin, the threads and end are run again for each execution. An execution fails by
 * kin_atoms_assert, by a data race, by a wrong use of memory of kin_atoms_alloc (after its end,
 * beyond its end, freed twice), by a crash, or when no thread can go on. A crash is a null or wild
 * access, a division by zero, a stack that is used up, abort(): the process goes on, with the next
 * execution. The first failure is shrunk and reported, unless config says to go on.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     int explore(void (*begin)(void *))
 *     {
 *         struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
 *         struct kin_atoms_report report;
 *         config.memory = KIN_ATOMS_TSO;
 *         int rc = kin_atoms_run(&config, begin, NULL, NULL, &report);
 *         if (rc < 0)
 *             fputs(report.text, stderr);
 *         return rc;
 *     }
 *
 * From:    thread; one run at a time in a process
 * Returns: 0 when no execution failed; KIN_PANICKED for an assertion, a race or a wrong access,
 *          KIN_DEADLOCK, KIN_STUCK for a livelock; -EINVAL, -ENOMEM, -errno of replay_file
 */
KIN_ATOMS_API KIN_MUST_USE int kin_atoms_run(const struct kin_atoms_config *config,
                                             void (*begin)(void *arg), void (*end)(void *arg),
                                             void *arg, struct kin_atoms_report *report);

/**
 * kin_atoms_spawn - start a thread of the execution.
 * @name: kept until the execution is over; different for each thread.
 * @fn:   what it does.
 * @arg:  what fn gets.
 *
 * Seven threads fit into one execution. Who spawns comes before the thread in memory.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static int hits;
 *     static void visit(void *arg)
 *     {
 *         __atomic_fetch_add((int *)arg, 1, __ATOMIC_RELAXED);
 *     }
 *     static void begin(void *arg)
 *     {
 *         hits = 0;
 *         kin_atoms_spawn("one", visit, arg);
 *         kin_atoms_spawn("two", visit, arg);
 *     }
 *     static void end(void *arg)
 *     {
 *         kin_atoms_assert(*(int *)arg == 2, "every visit is a hit");
 *     }
 *     int main(void)
 *     {
 *         return kin_atoms_run(NULL, begin, end, &hits, NULL) == 0 ? 0 : 1;
 *     }
 *
 * From:    begin, or a thread of the execution
 * Returns: its number, for kin_atoms_join
 */
KIN_ATOMS_API unsigned kin_atoms_spawn(const char *name, void (*fn)(void *arg), void *arg);

/**
 * kin_atoms_join - wait for the end of a thread.
 * @thread: what kin_atoms_spawn returned.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static int result;
 *     static void compute(void *arg)
 *     {
 *         (void)arg;
 *         result = 42;
 *     }
 *     static void ask(void *arg)
 *     {
 *         kin_atoms_join(kin_atoms_spawn("compute", compute, arg));
 *         kin_atoms_assert(result == 42, "what it wrote is seen"); // by a plain access
 *     }
 *     static void begin(void *arg)
 *     {
 *         result = 0;
 *         kin_atoms_spawn("ask", ask, arg);
 *     }
 *     int main(void)
 *     {
 *         return kin_atoms_run(NULL, begin, NULL, NULL, NULL) == 0 ? 0 : 1;
 *     }
 *
 * From:    a thread of the execution
 * Returns: nothing; what that thread did comes before what the caller does next
 */
KIN_ATOMS_API void kin_atoms_join(unsigned thread);

/**
 * kin_atoms_await - wait until something holds.
 * @is_true: looks at shared memory, and changes nothing.
 * @arg:     what it gets.
 *
 * The way to write a loop that waits: it costs one step when the condition holds, and none while it
 * does not. Its loads order what they say, and see the newest values.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static bool is_zero(void *arg)
 *     {
 *         return __atomic_load_n((int *)arg, __ATOMIC_ACQUIRE) == 0;
 *     }
 *     void lock(int *word)
 *     {
 *         while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE) != 0)
 *             kin_atoms_await(is_zero, word);
 *     }
 *
 * From:    a thread of the execution
 * Returns: nothing
 */
KIN_ATOMS_API void kin_atoms_await(bool (*is_true)(void *arg), void *arg);

/**
 * kin_atoms_spin - one more turn of a loop that waits.
 *
 * For loops that cannot be written with kin_atoms_await. The thread goes on when something that it
 * loaded atomically since its last turn has another value.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static int turn;
 *     static void second(void *arg)
 *     {
 *         (void)arg;
 *         while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != 1)
 *             kin_atoms_spin(); // without it: a livelock, the loop that never ends
 *     }
 *     static void first(void *arg)
 *     {
 *         (void)arg;
 *         __atomic_store_n(&turn, 1, __ATOMIC_RELEASE);
 *     }
 *     static void begin(void *arg)
 *     {
 *         turn = 0;
 *         kin_atoms_spawn("second", second, arg);
 *         kin_atoms_spawn("first", first, arg);
 *     }
 *     int main(void)
 *     {
 *         return kin_atoms_run(NULL, begin, NULL, NULL, NULL) == 0 ? 0 : 1;
 *     }
 *
 * From:    a thread of the execution
 * Returns: nothing
 */
KIN_ATOMS_API void kin_atoms_spin(void);

/**
 * kin_atoms_assert - the execution has failed unless this holds.
 * @ok:   what must hold.
 * @what: a constant text that says it in words; equal failures have equal texts.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static int hits;
 *     static void visit(void *arg)
 *     {
 *         (void)arg;
 *         int seen = __atomic_load_n(&hits, __ATOMIC_RELAXED);
 *         __atomic_store_n(&hits, seen + 1, __ATOMIC_RELAXED); // what came in between is lost
 *     }
 *     static void begin(void *arg)
 *     {
 *         hits = 0;
 *         kin_atoms_spawn("one", visit, arg);
 *         kin_atoms_spawn("two", visit, arg);
 *     }
 *     static void end(void *arg)
 *     {
 *         (void)arg;
 *         kin_atoms_assert(hits == 2, "every visit is a hit");
 *     }
 *     int main(void)
 *     {
 *         return kin_atoms_run(NULL, begin, end, NULL, NULL) == KIN_PANICKED ? 0 : 1; // found
 *     }
 *
 * From:    begin, a thread of the execution, end
 * Returns: only if it holds
 */
KIN_ATOMS_API void kin_atoms_assert(bool ok, const char *what);

/**
 * kin_atoms_assume - an execution goes on only if this holds.
 * @ok: what is of interest.
 *
 * Where it does not hold the thread stops for good. The others go on without it and may fail; but
 * that nobody can go on is no failure any more, and end is not called. So a loop that may have any
 * number of turns, in which threads get in each other's way, is explored completely up to so many.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static int flags[2];
 *     static void enter(void *arg)
 *     {
 *         int me = arg != NULL;
 *         for (int turns = 0;; turns++) {
 *             kin_atoms_assume(turns < 3); // both may step back for each other for ever
 *             __atomic_store_n(&flags[me], 1, __ATOMIC_SEQ_CST);
 *             if (!__atomic_load_n(&flags[1 - me], __ATOMIC_SEQ_CST))
 *                 break;
 *             __atomic_store_n(&flags[me], 0, __ATOMIC_SEQ_CST);
 *         }
 *         __atomic_store_n(&flags[me], 0, __ATOMIC_SEQ_CST);
 *     }
 *     static void begin(void *arg)
 *     {
 *         (void)arg;
 *         flags[0] = flags[1] = 0;
 *         kin_atoms_spawn("one", enter, NULL);
 *         kin_atoms_spawn("two", enter, flags);
 *     }
 *     int main(void)
 *     {
 *         struct kin_atoms_report report;
 *         int rc = kin_atoms_run(NULL, begin, NULL, NULL, &report);
 *         return rc == 0 && report.exhausted ? 0 : 1; // without it there would always be more
 *     }
 *
 * From:    a thread of the execution
 * Returns: only if it holds
 */
KIN_ATOMS_API void kin_atoms_assume(bool ok);

/**
 * kin_atoms_choose - one of several things happens.
 * @n:     how many there are.
 * @label: a constant text, for the report.
 *
 * DPOR and DFS try all of them.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static void halve(void *arg)
 *     {
 *         (void)arg;
 *         unsigned size = kin_atoms_choose(8, "size"); // each of 0 to 7 is tried
 *         kin_atoms_assert(size / 2 + (size + 1) / 2 == size, "nothing is left out");
 *     }
 *     static void begin(void *arg)
 *     {
 *         kin_atoms_spawn("halve", halve, arg);
 *     }
 *     int main(void)
 *     {
 *         return kin_atoms_run(NULL, begin, NULL, NULL, NULL) == 0 ? 0 : 1;
 *     }
 *
 * From:    a thread of the execution
 * Returns: a number below n
 */
KIN_ATOMS_API unsigned kin_atoms_choose(unsigned n, const char *label);

/**
 * kin_atoms_alloc - memory of this execution.
 * @size: how many bytes.
 *
 * It is zeroed, aligned to 64 bytes, at the same address whenever the same was done before, and
 * gone with the execution. Zeroing comes before everything: it races with nothing.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     struct counter {
 *         int hits;
 *     };
 *     static void visit(void *counter)
 *     {
 *         __atomic_fetch_add(&((struct counter *)counter)->hits, 1, __ATOMIC_RELAXED);
 *     }
 *     static void begin(void *arg)
 *     {
 *         struct counter *counter = kin_atoms_alloc(sizeof(*counter)); // zero in each execution
 *         (void)arg;
 *         kin_atoms_spawn("one", visit, counter);
 *         kin_atoms_spawn("two", visit, counter);
 *     }
 *     int main(void)
 *     {
 *         return kin_atoms_run(NULL, begin, NULL, NULL, NULL) == 0 ? 0 : 1;
 *     }
 *
 * From:    begin, a thread of the execution
 * Returns: the memory; never NULL
 */
KIN_ATOMS_API void *kin_atoms_alloc(size_t size);

/**
 * kin_atoms_free - end the life of memory.
 * @memory: of kin_atoms_alloc; NULL is fine.
 *
 * Every access that is not ordered before it is a race, every one after it a use after free.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static void let_go(void *refs)
 *     {
 *         if (__atomic_sub_fetch((int *)refs, 1, __ATOMIC_ACQ_REL) == 0)
 *             kin_atoms_free(refs); // the last one; with __ATOMIC_RELAXED it is a race
 *     }
 *     static void begin(void *arg)
 *     {
 *         int *refs = kin_atoms_alloc(sizeof(int));
 *         (void)arg;
 *         *refs = 2;
 *         kin_atoms_spawn("one", let_go, refs);
 *         kin_atoms_spawn("two", let_go, refs);
 *     }
 *     int main(void)
 *     {
 *         return kin_atoms_run(NULL, begin, NULL, NULL, NULL) == 0 ? 0 : 1;
 *     }
 *
 * From:    begin, a thread of the execution
 * Returns: nothing
 */
KIN_ATOMS_API void kin_atoms_free(void *memory);

/**
 * kin_atoms_fence_all - make every thread of the execution pass a full fence.
 *
 * What membarrier(2) does for those that run.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static int flags[2], seen[2];
 *     static void fast(void *arg)
 *     {
 *         (void)arg;
 *         __atomic_store_n(&flags[0], 1, __ATOMIC_RELAXED);
 *         __atomic_signal_fence(__ATOMIC_SEQ_CST); // keeps the compiler in order, and no more
 *         seen[0] = __atomic_load_n(&flags[1], __ATOMIC_RELAXED);
 *     }
 *     static void slow(void *arg)
 *     {
 *         (void)arg;
 *         __atomic_store_n(&flags[1], 1, __ATOMIC_RELAXED);
 *         kin_atoms_fence_all(); // instead of membarrier(): the other one needs no fence
 *         seen[1] = __atomic_load_n(&flags[0], __ATOMIC_RELAXED);
 *     }
 *     static void begin(void *arg)
 *     {
 *         flags[0] = flags[1] = 0;
 *         kin_atoms_spawn("fast", fast, arg);
 *         kin_atoms_spawn("slow", slow, arg);
 *     }
 *     static void end(void *arg)
 *     {
 *         (void)arg;
 *         kin_atoms_assert(seen[0] || seen[1], "one of them sees the other");
 *     }
 *     int main(void)
 *     {
 *         struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
 *         config.memory = KIN_ATOMS_TSO;
 *         return kin_atoms_run(&config, begin, end, NULL, NULL) == 0 ? 0 : 1;
 *     }
 *
 * From:    a thread of the execution
 * Returns: nothing
 */
KIN_ATOMS_API void kin_atoms_fence_all(void);

/**
 * kin_atoms_local - give every thread a value of its own in one variable.
 * @cell: kept; its content is saved and restored whenever another thread goes on. NULL: no longer.
 *
 * Stands in for a thread-local variable, of which flows on one thread have one in common.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static void *self; // in the program: static _Thread_local
 *     static int door;
 *     static void enter(void *name)
 *     {
 *         self = name;
 *         __atomic_exchange_n(&door, 1, __ATOMIC_ACQ_REL); // others go on here, and set theirs
 *         kin_atoms_assert(self == name, "it is still mine");
 *     }
 *     static void begin(void *arg)
 *     {
 *         (void)arg;
 *         self = NULL;
 *         door = 0;
 *         kin_atoms_local(&self);
 *         kin_atoms_spawn("one", enter, "one");
 *         kin_atoms_spawn("two", enter, "two");
 *     }
 *     int main(void)
 *     {
 *         return kin_atoms_run(NULL, begin, NULL, NULL, NULL) == 0 ? 0 : 1;
 *     }
 *
 * From:    begin
 * Returns: nothing
 */
KIN_ATOMS_API void kin_atoms_local(void **cell);

/**
 * kin_atoms_self - the number of the running thread.
 *
 * Example:
 *     #include <kin/atoms.h>
 *     static unsigned owner;
 *     static void take(void *arg)
 *     {
 *         unsigned nobody = 0;
 *         (void)arg;
 *         unsigned self = kin_atoms_self();
 *         if (__atomic_compare_exchange_n(&owner, &nobody, self, false, __ATOMIC_ACQUIRE,
 *                                         __ATOMIC_RELAXED))
 *             kin_atoms_assert(__atomic_load_n(&owner, __ATOMIC_RELAXED) == self, "it is mine");
 *     }
 *     static void begin(void *arg)
 *     {
 *         owner = 0;
 *         kin_atoms_spawn("one", take, arg);
 *         kin_atoms_spawn("two", take, arg);
 *     }
 *     int main(void)
 *     {
 *         return kin_atoms_run(NULL, begin, NULL, NULL, NULL) == 0 ? 0 : 1;
 *     }
 *
 * From:    anywhere
 * Returns: 0 outside of the threads of an execution
 */
KIN_ATOMS_API unsigned kin_atoms_self(void);

KIN_END_DECLS

#endif
