/* SPDX-License-Identifier: MIT */
/*
 * Threads of the operating system: start, name, join, CPU time; one pointer and, in debug builds,
 * the set of lock ranks per thread.
 *
 * A thread of ours leaves signals to the program's own threads: it blocks all but those that its
 * own instructions cause (a fault must reach the handler at once) and SIGPROF (a profiler wants to
 * see it). The mask is set before the thread exists, so there is no moment in which it has another
 * one.
 *
 * Everything per thread uses the initial-exec model, a fixed offset from the thread pointer. The
 * general model calls a function whose result compilers remember across a switch, and after a
 * switch the task may be on another thread.
 */
#define _GNU_SOURCE 1
#include "plat/plat.h"

#include "base/assert.h"
#include "base/lockrank.h"
#include "plat/context.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAME_BYTES 16u            /* the kernel's limit, with the terminating zero */
#define THREAD_RECORD_BYTES 8192u /* the C library's own part, with its spare TLS */

#define PER_THREAD _Thread_local __attribute__((tls_model("initial-exec")))

struct start {
    struct kin__thread *thread;
    void (*fn)(void *);
    void *arg;
    char name[NAME_BYTES];
};

static void *run_thread(void *start_)
{
    struct start *start = start_;
    struct kin__thread *thread = start->thread;
    void (*fn)(void *) = start->fn;
    void *arg = start->arg;

    (void)pthread_setname_np(pthread_self(), start->name);
    free(start);
    /* relaxed: a number for reports; no other memory is published by it */
    kin__store_relaxed(&thread->tid, (int32_t)syscall(SYS_gettid));
    fn(arg);
    /* Taken back: the kernel may reuse it soon. Pairs with the acquire in kin__thread_is_gone */
    kin__store_release(&thread->tid, 0);
    return NULL;
}

/* The signals that a thread of ours does not take. */
static void set_of_blocked(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};

    (void)sigfillset(set);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        (void)sigdelset(set, own[i]);
}

static int add_tls(struct dl_phdr_info *object, size_t size, void *sum)
{
    (void)size;
    for (size_t i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)sum += object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
    return 0;
}

/* What must be asked for so that stack_bytes are left: the C library puts the thread's TLS, its own
 * record and the guard into the same piece of memory. Some programs have large TLS. */
static size_t with_overhead(size_t stack_bytes)
{
    const size_t page = kin__vm_page();
    size_t bytes = stack_bytes;
    size_t tls = 0;

    (void)dl_iterate_phdr(add_tls, &tls);
    if (bytes < (size_t)PTHREAD_STACK_MIN)
        bytes = (size_t)PTHREAD_STACK_MIN;
    bytes += tls + THREAD_RECORD_BYTES + page;
    return bytes < stack_bytes ? stack_bytes : (bytes + page - 1) & ~(page - 1);
}

static int create_thread(struct kin__thread *thread, struct start *start, size_t stack_bytes)
{
    pthread_attr_t attr;
    pthread_t handle;
    sigset_t blocked, before;

    int rc = pthread_attr_init(&attr);
    if (rc)
        return -rc;
    rc = pthread_attr_setstacksize(&attr, with_overhead(stack_bytes));
    if (!rc) {
        set_of_blocked(&blocked);
        (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);
        rc = pthread_create(&handle, &attr, run_thread, start);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    (void)pthread_attr_destroy(&attr);
    if (rc)
        return -rc;
    thread->handle = (uint64_t)handle;
    return 0;
}

int kin__thread_start(struct kin__thread *thread, void (*fn)(void *), void *arg, size_t stack_bytes,
                      const char *name)
{
    struct start *start;

    thread->handle = 0;
    kin__store_relaxed(&thread->tid, 0); /* relaxed: the thread does not exist yet */
    if (!kin__plat_request())
        return -EAGAIN;
    start = malloc(sizeof *start);
    if (!start)
        return -ENOMEM;
    start->thread = thread;
    start->fn = fn;
    start->arg = arg;
    memset(start->name, 0, sizeof start->name);
    for (size_t i = 0; name && name[i] && i < NAME_BYTES - 1; i++)
        start->name[i] = name[i];

    int rc = create_thread(thread, start, stack_bytes);
    if (rc)
        free(start);
    return rc;
}

void kin__thread_call(void (*fn)(void *), void (*gone)(void *), void *arg)
{
    pthread_cleanup_push(gone, arg);
    fn(arg);
    pthread_cleanup_pop(0);
}

void kin__thread_join(struct kin__thread *thread)
{
    if (!thread->handle)
        return;
    int rc = pthread_join((pthread_t)thread->handle, NULL);
    KIN__CHECK(rc == 0, "house: join once, from another thread");
    thread->handle = 0;
}

void kin__thread_leave(struct kin__thread *thread)
{
    if (thread->handle)
        (void)pthread_detach((pthread_t)thread->handle);
    thread->handle = 0;
    kin__store_release(&thread->tid, 0); /* pairs with the acquire in kin__thread_is_gone */
}

int64_t kin__thread_cpu_ns(const struct kin__thread *thread)
{
    int32_t tid = kin__load_relaxed(&thread->tid); /* relaxed: a number for reports */
    struct timespec used;

    if (tid <= 0)
        return -ESRCH;
    /* The kernel's own encoding of "CPU time of this thread"; pthread_getcpuclockid would need a
     * thread that has surely not ended. */
    clockid_t clock = (clockid_t)(~(uint32_t)tid << 3 | 6u);
    if (clock_gettime(clock, &used) != 0)
        return -ESRCH;
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

void kin__thread_yield(void)
{
    (void)sched_yield();
}

/* ---- one pointer per thread ---- */

/* Named by the assembly in plat.h; hidden, so that its offset is the same object's everywhere. */
extern PER_THREAD void *kin__self;
KIN__FROM_ASM PER_THREAD void *kin__self;

#ifndef KIN__SELF_INLINE
__attribute__((noinline)) void *kin__self_get(void)
{
    void *self = kin__self;

    __asm__ volatile("" : "+r"(self)); /* no caller may fold two calls into one */
    return self;
}
#endif

__attribute__((noinline)) void kin__self_set(void *self)
{
    kin__self = self;
    __asm__ volatile("" ::: "memory");
}

static kin__a64 numbers_given;
static PER_THREAD uint64_t number;

__attribute__((noinline)) uint64_t kin__thread_number(void)
{
    if (!number)
        number = kin__add_relaxed(&numbers_given, 1u) + 1; /* relaxed: each is given once */
    return number;
}

static PER_THREAD bool is_in_core;

__attribute__((noinline)) bool kin__thread_is_core(void)
{
    return is_in_core;
}

__attribute__((noinline)) void kin__thread_set_core(bool is_core)
{
    is_in_core = is_core;
}

static PER_THREAD uint32_t lacks;

__attribute__((noinline)) uint32_t kin__thread_lacks(void)
{
    return lacks;
}

__attribute__((noinline)) void kin__thread_set_lacks(uint32_t caps)
{
    lacks = caps;
}

static PER_THREAD void *client;

__attribute__((noinline)) void *kin__thread_client(void)
{
    return client;
}

__attribute__((noinline)) void kin__thread_set_client(void *task)
{
    client = task;
}

/* ---- lock ranks ---- */

#ifdef KIN_DEBUG

static PER_THREAD uint32_t ranks_held;    /* bit r: a lock of rank r is held */
static PER_THREAD uint32_t nursery_depth; /* how many of rank NURSERY, which may nest */

__attribute__((noinline)) void kin__rank_take(enum kin__lock_rank rank)
{
    const uint32_t bit = (uint32_t)1 << rank;

    if (rank == KIN__RANK_NURSERY) {
        /* Nothing but other nurseries may be held: ranks fall otherwise. */
        KIN__CHECK((ranks_held & ~bit) == 0, "house: lock ranks rise");
        nursery_depth++;
    } else {
        KIN__CHECK(ranks_held < bit, "house: lock ranks rise");
    }
    ranks_held |= bit;
}

__attribute__((noinline)) void kin__rank_give(enum kin__lock_rank rank)
{
    const uint32_t bit = (uint32_t)1 << rank;

    KIN__CHECK((ranks_held & bit) != 0, "house: a lock is given by the thread that took it");
    if (rank == KIN__RANK_NURSERY && --nursery_depth > 0)
        return;
    ranks_held &= ~bit;
}

__attribute__((noinline)) bool kin__rank_holds_none(void)
{
    return ranks_held == 0;
}

#ifdef KIN__LAB
void kin__rank_forget(void)
{
    ranks_held = nursery_depth = 0;
}
#endif

#endif
