/* SPDX-License-Identifier: MIT */
/*
 * The whole contract with the outside: threads, clocks, memory of the operating system, CPU state.
 *
 * Nothing above this floor calls the operating system or libc for any of these; the lab implements
 * the same header on one thread and virtual time. No function here reads or sets errno as part of
 * its contract: failures are returned as -errno. Functions that may fail for want of a resource can
 * be told to fail on purpose (kin__plat_fail_after), which is how exhausted memory is tested.
 */
#ifndef KIN_PLAT_PLAT_H
#define KIN_PLAT_PLAT_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIN__PAGE 4096u /* smallest page of every supported machine; the real one is asked for */
#define KIN__LINE 64u   /* cache line that shared fields are kept apart by */

/* ---- threads (linux/thread.c) ---- */

struct kin__thread {
    uint64_t handle; /* the system's name for it; 0: none */
    kin__ai32 tid;   /* kernel id, 0 until it runs */
};

/* Starts a thread that runs fn(arg) with a stack of stack_bytes and every signal blocked but the
 * synchronous ones; name is cut to 15 bytes. 0 or -errno. */
int kin__thread_start(struct kin__thread *thread, void (*fn)(void *), void *arg, size_t stack_bytes,
                      const char *name);
void kin__thread_join(struct kin__thread *thread);
/* CPU time the thread has used so far in ns; -errno when it cannot be told. */
int64_t kin__thread_cpu_ns(const struct kin__thread *thread);
/* Whether the thread sleeps in the kernel right now, as against running or waiting for a CPU. */
bool kin__thread_is_asleep(const struct kin__thread *thread);
/* Describes the calling thread, for the two functions above; never joined. */
void kin__thread_adopt(struct kin__thread *thread);
/* Offers the CPU to another thread of the system. */
void kin__thread_yield(void);

/* One pointer per thread. Never remembered by the compiler: after a switch a task may be on another
 * thread, and a cached TLS address would be the old thread's. On x86-64 two volatile instructions,
 * which read the thread register anew each time and cost a third of a call; a call elsewhere. */
#if defined(__x86_64__) && defined(__LP64__) && !defined(KIN_LAB)
#define KIN__SELF_INLINE 1
static inline void *kin__self_get(void)
{
    void *self;

    __asm__ volatile("movq kin__self@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(self));
    return self;
}
#else
void *kin__self_get(void);
#endif
void kin__self_set(void *self);

/* ---- sleeping and waking a thread (linux/futex.c) ---- */

/* Sleeps while *word == expected, at most timeout_ns (negative: without end). 0 when woken or the
 * word differed, -ETIMEDOUT, -EINTR. May return early: the caller looks again. */
int kin__futex_wait(kin__a32 *word, uint32_t expected, int64_t timeout_ns);
void kin__futex_wake(kin__a32 *word, int count);

/* Makes every other running thread of the process pass a full fence. True when the kernel has it;
 * kin__membarrier may be called only then. */
bool kin__membarrier_init(void);
void kin__membarrier(void);

/* ---- time (linux/clock.c) ---- */

int64_t kin__clock_now(void); /* CLOCK_MONOTONIC in ns */

/* ---- memory (linux/vm.c) ---- */

size_t kin__vm_page(void);
/* Reserves address space that becomes memory when touched, never by huge pages. NULL: none left. */
void *kin__vm_reserve(size_t bytes);
void kin__vm_release(void *base, size_t bytes);
/* Asks for huge pages after all: for large arrays that are used densely. A hint. */
void kin__vm_prefer_huge(void *base, size_t bytes);
/* Gives the pages back; they read as zero when touched again. Where memory is locked (mlockall) and
 * the kernel cannot discard locked pages, it does nothing. */
void kin__vm_discard(void *base, size_t bytes);
/* Makes [base + i*stride, base + i*stride + guard_bytes), i < count, fault on any access, in as few
 * system calls as possible. Returns how many of the count are guarded (from 0 on): less than count
 * when the kernel has no guard regions and the cap on mprotect guards is reached. */
size_t kin__vm_guard(void *base, size_t stride, size_t guard_bytes, size_t count);
/* How guards are made on this machine: "madvise", "mprotect" or "none"; for reports. */
const char *kin__vm_guard_kind(void);
/* For tests: guards are made this way from here on; each way still falls back to the next one. */
enum kin__vm_way { KIN__VM_PROBE, KIN__VM_BATCH, KIN__VM_MADVISE, KIN__VM_MPROTECT, KIN__VM_NONE };
void kin__vm_force(enum kin__vm_way way);
/* Guards that mprotect may make in one process: each costs up to two of the mappings that
 * vm.max_map_count (65,530 as a rule) allows, and others need some too. */
#define KIN__VM_MPROTECT_MAX 16000u

/* ---- heap (linux/heap.c) ---- */

void *kin__heap_alloc(size_t bytes);       /* zeroed, 16-aligned; NULL when there is none */
void kin__heap_free(void *p);              /* NULL is fine */
void *kin__heap_alloc_lines(size_t bytes); /* the same, aligned to a cache line */
void kin__heap_free_lines(void *p);

/* ---- failing on purpose (linux/heap.c) ---- */

/* The n-th resource request from now on fails once (n >= 1), or every one from the n-th on when
 * forever; 0 turns it off. Requests: heap_alloc, vm_reserve, thread_start. */
void kin__plat_fail_after(uint64_t n, bool forever);
/* Requests so far since the last kin__plat_fail_after. */
uint64_t kin__plat_requests(void);
/* Counts one request; false when it must fail. Called by the functions of this floor. */
bool kin__plat_request(void);

/* ---- machine (linux/topology.c) ---- */

/* CPUs this process may use: affinity and cgroup v1/v2 quota respected, at least 1. */
unsigned kin__cpu_count(void);
/* The quota alone, read below root ("" for the real one), in CPUs rounded up; 0: no limit. */
unsigned kin__cpu_quota(const char *root);

/* Writes text to a descriptor, whole, retrying; usable in a signal handler. */
void kin__plat_write(int fd, const char *text, size_t size);
_Noreturn void kin__plat_abort(void);
/* Environment variable or NULL; always NULL in a program with raised privileges. */
const char *kin__plat_env(const char *name);
/* Unpredictable seed. */
uint64_t kin__plat_entropy(void);

/* ---- faults (linux/fault.c) ---- */

struct kin__fault {
    uintptr_t address; /* what was touched */
    uintptr_t pc, sp;  /* where the code was */
    bool in_libc;      /* pc lies in libc or the dynamic loader: their locks may be held */
    /* filled in by the resolver for KIN__FAULT_JUMP: call target(argument) on stack */
    uintptr_t stack;
    void (*target)(void *);
    void *argument;
};
enum kin__fault_action { KIN__FAULT_PASS, KIN__FAULT_JUMP, KIN__FAULT_ABORT };

/* Installs the SIGSEGV/SIGBUS handler once per process, keeping what was there for PASS. The
 * resolver runs on the alternate stack of the faulting thread. Counted: fini restores when the
 * last user has gone. */
int kin__fault_init(enum kin__fault_action (*resolve)(struct kin__fault *fault));
void kin__fault_fini(void);
/* Gives the calling thread its alternate stack, takes it away again. 0 or -errno. */
int kin__fault_thread_init(void);
void kin__fault_thread_fini(void);

#endif
