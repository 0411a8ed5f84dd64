/* SPDX-License-Identifier: MIT */
/*
 * A ring of io_uring: made, filled, emptied, by system calls and shared words of our own.
 *
 *     calls     [ ][c][c][ ]   tail: ours, under the lock    head: the kernel's, what it has taken
 *     results   [r][r][ ][ ]   tail: the kernel's            head: whoever takes them
 *
 * A ring is used by all threads of a runtime, so it is made without SINGLE_ISSUER, and without
 * DEFER_TASKRUN, which needs it: a result would then appear only when that one thread enters the
 * kernel, and a worker that is stuck in foreign code would keep the results of all. What a call
 * still has to do when its device is ready is done by the thread that began it. For few calls that
 * last long, files, the kernel interrupts that thread for a moment, wherever it is. For many short
 * ones, sockets, that would cost half as much again as the rest, and the ring is patient
 * (COOP_TASKRUN): the thread does it when it enters the kernel next, which busy servers do all the
 * time; one that only computes, at the next tick of the clock.
 *
 * Threads enter the kernel at once: the kernel takes calls in order, each once. A wait must not
 * sleep while something is in line that nobody submits: whoever waits says so under the lock, with
 * the line as it is then, and whoever queues after that submits by itself (test/model/uring.pml).
 */
#define _GNU_SOURCE 1
#include "plat/uring.h"

#include "plat/context.h"
#include "plat/plat.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The same numbers on every machine. */
#define CALL_SETUP 425
#define CALL_ENTER 426
#define CALL_REGISTER 427

/* flags of setup */
#define SETUP_RESULTS 8u      /* the number of results is given */
#define SETUP_CLAMP 16u       /* too many means as many as there may be */
#define SETUP_SUBMIT_ALL 128u /* go on behind a call that is wrong */
#define SETUP_PATIENT 768u    /* interrupt nobody; say that there is something to do */
/* what the kernel says it can */
#define CAN_ONE_MAP 1u      /* both rings in one mapping */
#define CAN_KEEP 2u         /* results that do not fit are kept */
#define CAN_STABLE 4u       /* a call may change once it was taken */
#define CAN_WAIT_SHORT 256u /* a wait has a time */
#define CAN_NATIVE 512u     /* its threads are the process's own */
#define NEEDED (CAN_ONE_MAP | CAN_KEEP | CAN_STABLE | CAN_WAIT_SHORT | CAN_NATIVE)
/* flags of enter, and bits that ask for it */
#define ENTER_RESULTS 1u
#define ENTER_TIME 8u
#define WANTS_ENTER 6u /* results are kept; something is to be done on the way */

#define REGISTER_PROBE 8
#define PROBE_HAS 1u
#define MAP_CALLS 0x10000000

/* ---- layouts of the kernel ---- */

struct call_offsets {
    uint32_t head, tail, mask, entries, flags, dropped, array, rest;
    uint64_t address;
};

struct result_offsets {
    uint32_t head, tail, mask, entries, overflow, results, flags, rest;
    uint64_t address;
};

struct setup {
    uint32_t calls, results, flags, thread_cpu, thread_idle, features, workers_of, rest[3];
    struct call_offsets call;
    struct result_offsets result;
};

struct probe {
    uint8_t last, count;
    uint16_t rest;
    uint32_t rest2[3];
    struct {
        uint8_t verb, rest;
        uint16_t flags;
        uint32_t rest2;
    } verbs[KIN__URING_VERBS];
};

struct wait_time {
    int64_t seconds, ns;
};

struct wait_argument {
    uint64_t signals;
    uint32_t signals_bytes, rest;
    uint64_t time;
};

_Static_assert(sizeof(struct kin__uring_call) == 64, "as the kernel has it");
_Static_assert(sizeof(struct kin__uring_result) == 16, "as the kernel has it");
_Static_assert(sizeof(struct setup) == 120, "as the kernel has it");
_Static_assert(sizeof(struct probe) == 16 + 8 * KIN__URING_VERBS, "as the kernel has it");
_Static_assert(sizeof(struct kin__uring_stat) >= sizeof(struct statx), "room for it");

/* ---- faults ---- */

static struct kin__uring_faults faults; /* of creation; set while nobody makes a ring */
static kin__a32 faulty_enters;          /* how many are left */
static kin__ai32 faulty_answer;         /* what they get */
static kin__a32 faulty_lost;            /* results that are said to be lost */

void kin__uring_break(const struct kin__uring_faults *wanted)
{
    faults = *wanted;
    kin__store_relaxed(&faulty_answer, wanted->enter);  /* relaxed: as below */
    kin__store_relaxed(&faulty_enters, wanted->enters); /* relaxed: looked at each by itself */
    kin__store_relaxed(&faulty_lost, wanted->lost);     /* relaxed: as above */
}

/* Whether the next enter fails on purpose. */
static bool is_faulty(void)
{
    uint32_t left = kin__load_relaxed(&faulty_enters); /* relaxed: the exchange decides */
    while (KIN__UNLIKELY(left != 0)) { /* ends: one fewer each time */
        if (kin__cas_relaxed(&faulty_enters, &left, left - 1)) /* alone: a counter */
            return true;
    }
    return false;
}

/* ---- life ---- */

static int set_up(uint32_t calls, uint32_t flags, struct setup *setup)
{
    if (faults.setup)
        return faults.setup;
    if (!kin__plat_request())
        return -ENOMEM;
    setup->flags = flags;
    int64_t fd = syscall(CALL_SETUP, calls, setup);
    return fd < 0 ? -errno : (int)fd;
}

/* With the best flags that the kernel knows. */
static int open_ring(uint32_t calls, uint32_t results, bool is_patient, struct setup *setup)
{
    static const uint32_t tries[] = {
        SETUP_RESULTS | SETUP_CLAMP | SETUP_SUBMIT_ALL | SETUP_PATIENT,
        SETUP_RESULTS | SETUP_CLAMP | SETUP_SUBMIT_ALL,
        SETUP_RESULTS | SETUP_CLAMP};
    int fd = -EINVAL;
    if (faults.places) {
        calls = faults.places;
        results = 2 * faults.places;
    }
    for (unsigned i = !is_patient; fd == -EINVAL && i < sizeof tries / sizeof tries[0]; i++) {
        *setup = (struct setup){.results = results};
        fd = set_up(calls, tries[i], setup);
    }
    if (fd >= 0 && (setup->features & ~faults.features & NEEDED) != NEEDED) {
        (void)close(fd);
        fd = -EOPNOTSUPP;
    }
    return fd == -EINVAL ? -EOPNOTSUPP : fd;
}

static void *map(int fd, size_t bytes, int64_t offset)
{
    if (!kin__plat_request())
        return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                        (off_t)offset);
    if (memory == MAP_FAILED)
        return NULL;
    (void)madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

static kin__a32 *word_at(void *memory, uint32_t offset)
{
    return (kin__a32 *)(void *)((char *)memory + offset);
}

static int map_ring(struct kin__uring *ring, const struct setup *setup)
{
    size_t calls_end = setup->call.array + setup->calls * sizeof(uint32_t);
    size_t results_end = setup->result.results + setup->results * sizeof(struct kin__uring_result);
    ring->memory_bytes = calls_end > results_end ? calls_end : results_end;
    ring->calls_bytes = setup->calls * sizeof(struct kin__uring_call);
    ring->memory = map(ring->fd, ring->memory_bytes, 0);
    ring->calls_memory = ring->memory ? map(ring->fd, ring->calls_bytes, MAP_CALLS) : NULL;
    if (!ring->calls_memory)
        return -ENOMEM;
    void *at = ring->memory;
    ring->mask = setup->calls - 1;
    ring->result_mask = setup->results - 1;
    ring->calls = ring->calls_memory;
    ring->results = (void *)((char *)at + setup->result.results);
    ring->head = word_at(at, setup->call.head);
    ring->tail = word_at(at, setup->call.tail);
    ring->flags = word_at(at, setup->call.flags);
    ring->result_head = word_at(at, setup->result.head);
    ring->result_tail = word_at(at, setup->result.tail);
    ring->lost = word_at(at, setup->result.overflow);
    uint32_t *array = (void *)((char *)at + setup->call.array);
    for (uint32_t i = 0; i < setup->calls; i++)
        array[i] = i; /* the kernel could take calls in another order; here it does not */
    return 0;
}

/* Asks which verbs the kernel has. */
static void look_at_verbs(struct kin__uring *ring)
{
    struct probe probe = {0};
    if (syscall(CALL_REGISTER, ring->fd, REGISTER_PROBE, &probe, KIN__URING_VERBS) < 0)
        return;
    for (unsigned i = 0; i < probe.count && i < KIN__URING_VERBS; i++) {
        if (probe.verbs[i].flags & PROBE_HAS)
            ring->verbs |= UINT64_C(1) << i;
    }
    ring->verbs &= ~faults.verbs;
}

int kin__uring_create(struct kin__uring *ring, uint32_t calls, uint32_t results, bool is_patient)
{
    struct setup setup;
    *ring = (struct kin__uring){.fd = -1};
    int rc = open_ring(calls, results, is_patient, &setup);
    if (rc < 0)
        return rc;
    ring->fd = rc;
    rc = map_ring(ring, &setup);
    if (rc < 0)
        kin__uring_destroy(ring);
    else
        look_at_verbs(ring);
    return rc;
}

void kin__uring_destroy(struct kin__uring *ring)
{
    if (ring->calls_memory)
        (void)munmap(ring->calls_memory, ring->calls_bytes);
    if (ring->memory)
        (void)munmap(ring->memory, ring->memory_bytes);
    if (ring->fd >= 0)
        (void)close(ring->fd);
    *ring = (struct kin__uring){.fd = -1};
}

/* ---- calls ---- */

/* Enters the kernel: how many calls it took, or -errno. */
static int enter(const struct kin__uring *ring, uint32_t calls, uint32_t results, uint32_t flags,
                 const struct wait_argument *argument)
{
    if (KIN__UNLIKELY(is_faulty()))
        return kin__load_relaxed(&faulty_answer); /* relaxed: a number for tests */
    int64_t taken = syscall(CALL_ENTER, ring->fd, calls, results, flags, argument,
                            argument ? sizeof(*argument) : 0);
    return taken < 0 ? -errno : (int)taken;
}

/* How many calls are in line. */
static uint32_t in_line(const struct kin__uring *ring)
{
    /* relaxed: whoever asks has the lock, or put the call that matters there itself; acquire: pairs
     * with the kernel's release when it has taken a call */
    return kin__load_relaxed(ring->tail) - kin__load_acquire(ring->head);
}

/* Puts a call at the end of the line, which has room. */
static void put_locked(struct kin__uring *ring, const struct kin__uring_call *call)
{
    uint32_t tail = kin__load_relaxed(ring->tail); /* relaxed: written under the lock */
    ring->calls[tail & ring->mask] = *call;
    kin__store_release(ring->tail, tail + 1); /* pairs with the kernel's acquire */
}

int kin__uring_call(struct kin__uring *ring, const struct kin__uring_call *call)
{
    int rc;
    kin__lock_take(&ring->lock, KIN__RANK_LEAF);
    uint32_t tail = kin__load_relaxed(ring->tail); /* relaxed: written under the lock */
    put_locked(ring, call);
    do { /* ends: nobody interrupts for ever */
        rc = enter(ring, 1, 0, 0, NULL);
    } while (rc == -EINTR);
    bool is_taken = in_line(ring) == 0;
    if (!is_taken) /* nobody else enters: it was not looked at. alone: as above */
        kin__store_relaxed(ring->tail, tail);
    kin__lock_give(&ring->lock, KIN__RANK_LEAF);
    return is_taken ? 0 : rc < 0 ? rc : -EAGAIN;
}

int kin__uring_submit(struct kin__uring *ring)
{
    uint32_t end = kin__load_relaxed(ring->tail); /* relaxed: as in in_line */
    for (;;) { /* ends: the kernel takes some each time, or says why not */
        uint32_t left = end - kin__load_acquire(ring->head); /* pairs with the kernel's release */
        if (left == 0 || left > ring->mask + 1) /* others have submitted, and more */
            return 0;
        int rc = enter(ring, left, 0, 0, NULL);
        if (rc < 0 && rc != -EINTR)
            return rc;
    }
}

void kin__uring_submit_surely(struct kin__uring *ring)
{
    /* ends: memory comes back. The kernel refuses calls while results are in its way: these are
     * looked for, because whoever slept without any relied on the call. */
    while (kin__uring_submit(ring) < 0 && !kin__uring_has_results(ring))
        kin__thread_yield();
}

int kin__uring_queue(struct kin__uring *ring, const struct kin__uring_call *call)
{
    for (;;) { /* ends: there is room, or none is made */
        kin__lock_take(&ring->lock, KIN__RANK_LEAF);
        bool has_room = in_line(ring) <= ring->mask;
        if (has_room)
            put_locked(ring, call);
        bool is_waited = ring->is_waited;
        kin__lock_give(&ring->lock, KIN__RANK_LEAF);
        if (has_room && is_waited)
            kin__uring_submit_surely(ring);
        if (has_room)
            return 0;
        int rc = kin__uring_submit(ring);
        if (rc < 0)
            return rc;
    }
}

/* ---- results ---- */

/* The thread sanitizer keeps a signal back until its thread calls a function that it knows: the
 * system calls here are none. */
#if KIN__TSAN
#define SLEEP_MAX_NS 10000000
#define LET_SIGNALS_IN() ((void)usleep(0))
#else
#define SLEEP_MAX_NS INT64_MAX
#define LET_SIGNALS_IN() ((void)0)
#endif

/* Sleeps in the kernel until there is a result, or for a while. */
static void sleep_for(struct kin__uring *ring, uint32_t calls, int64_t ns)
{
    if (SLEEP_MAX_NS < INT64_MAX && (ns < 0 || ns > SLEEP_MAX_NS))
        ns = SLEEP_MAX_NS;
    struct wait_time time = {ns / 1000000000, ns % 1000000000};
    struct wait_argument argument = {.time = ns < 0 ? 0 : (uint64_t)(uintptr_t)&time};
    (void)enter(ring, calls, 1, ENTER_RESULTS | ENTER_TIME, &argument);
    LET_SIGNALS_IN();
    kin__lock_take(&ring->lock, KIN__RANK_LEAF);
    ring->is_waited = false;
    kin__lock_give(&ring->lock, KIN__RANK_LEAF);
}

void kin__uring_wait(struct kin__uring *ring, int64_t ns)
{
    kin__lock_take(&ring->lock, KIN__RANK_LEAF);
    uint32_t calls = in_line(ring);
    ring->is_waited = ns != 0;
    kin__lock_give(&ring->lock, KIN__RANK_LEAF);
    if (ns != 0)
        sleep_for(ring, calls, ns);
    else if (calls || (kin__load_relaxed(ring->flags) & WANTS_ENTER)) /* relaxed: it stays set */
        (void)enter(ring, calls, 0, ENTER_RESULTS, NULL);
}

uint32_t kin__uring_take(struct kin__uring *ring, struct kin__uring_result *out, uint32_t max)
{
    uint32_t head = kin__load_relaxed(ring->result_head); /* relaxed: the taker's own */
    uint32_t tail = kin__load_acquire(ring->result_tail); /* pairs with the kernel's release */
    uint32_t count = tail - head < max ? tail - head : max;
    for (uint32_t i = 0; i < count; i++)
        out[i] = ring->results[(head + i) & ring->result_mask];
    kin__store_release(ring->result_head, head + count); /* pairs with the kernel's acquire */
    return count;
}

uint32_t kin__uring_lost(const struct kin__uring *ring)
{
    /* relaxed: counters that grow */
    return kin__load_relaxed(ring->lost) + kin__load_relaxed(&faulty_lost);
}

/* ---- memory ---- */

void kin__uring_stat_of(const struct kin__uring_stat *from, struct stat *out)
{
    struct statx is;
    memcpy(&is, from->bytes, sizeof(is));
    memset(out, 0, sizeof(*out));
    out->st_dev = makedev(is.stx_dev_major, is.stx_dev_minor);
    out->st_rdev = makedev(is.stx_rdev_major, is.stx_rdev_minor);
    out->st_ino = is.stx_ino;
    out->st_mode = is.stx_mode;
    out->st_nlink = (nlink_t)is.stx_nlink;
    out->st_uid = is.stx_uid;
    out->st_gid = is.stx_gid;
    out->st_size = (off_t)is.stx_size;
    out->st_blksize = (blksize_t)is.stx_blksize;
    out->st_blocks = (blkcnt_t)is.stx_blocks;
    out->st_atim = (struct timespec){is.stx_atime.tv_sec, (long)is.stx_atime.tv_nsec};
    out->st_mtim = (struct timespec){is.stx_mtime.tv_sec, (long)is.stx_mtime.tv_nsec};
    out->st_ctim = (struct timespec){is.stx_ctime.tv_sec, (long)is.stx_ctime.tv_nsec};
}

#if KIN__ASAN
void *__asan_region_is_poisoned(void *begin, size_t size);
#endif
#if KIN__TSAN
void __tsan_read_range(void *begin, unsigned long size);
void __tsan_write_range(void *begin, unsigned long size);
#endif

bool kin__uring_may_touch(const void *memory, size_t size)
{
#if KIN__ASAN
    return !__asan_region_is_poisoned((void *)(uintptr_t)memory, size);
#else
    (void)memory;
    (void)size;
    return true;
#endif
}

void kin__uring_touched(const void *memory, size_t size, bool is_written)
{
#if KIN__TSAN
    if (is_written)
        __tsan_write_range((void *)(uintptr_t)memory, size);
    else
        __tsan_read_range((void *)(uintptr_t)memory, size);
#else
    (void)memory;
    (void)size;
    (void)is_written;
#endif
}
