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
 * still has to do when its device is ready is done by the thread that began it: the kernel
 * interrupts that thread for a moment, wherever it is. Files have few calls that last long, so this
 * is rare.
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
/* what the kernel says it can */
#define CAN_ONE_MAP 1u  /* both rings in one mapping */
#define CAN_KEEP 2u     /* results that do not fit are kept */
#define CAN_STABLE 4u   /* a call may change once it was taken */
#define CAN_NATIVE 512u /* its threads are the process's own */
#define NEEDED (CAN_ONE_MAP | CAN_KEEP | CAN_STABLE | CAN_NATIVE)

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

_Static_assert(sizeof(struct kin__uring_call) == 64, "as the kernel has it");
_Static_assert(sizeof(struct kin__uring_result) == 16, "as the kernel has it");
_Static_assert(sizeof(struct setup) == 120, "as the kernel has it");
_Static_assert(sizeof(struct probe) == 16 + 8 * KIN__URING_VERBS, "as the kernel has it");
_Static_assert(sizeof(struct kin__uring_stat) >= sizeof(struct statx), "room for it");

/* ---- faults ---- */

static struct kin__uring_faults faults; /* of creation; set while nobody makes a ring */
static kin__a32 faulty_enters;          /* how many are left */
static kin__ai32 faulty_answer;         /* what they get */

void kin__uring_break(const struct kin__uring_faults *wanted)
{
    faults = *wanted;
    kin__store_relaxed(&faulty_answer, wanted->enter);  /* relaxed: as below */
    kin__store_relaxed(&faulty_enters, wanted->enters); /* relaxed: looked at each by itself */
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
static int open_ring(uint32_t calls, uint32_t results, struct setup *setup)
{
    static const uint32_t tries[] = {SETUP_RESULTS | SETUP_CLAMP | SETUP_SUBMIT_ALL,
                                     SETUP_RESULTS | SETUP_CLAMP};
    int fd = -EINVAL;
    for (unsigned i = 0; fd == -EINVAL && i < sizeof tries / sizeof tries[0]; i++) {
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
    ring->result_head = word_at(at, setup->result.head);
    ring->result_tail = word_at(at, setup->result.tail);
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

int kin__uring_create(struct kin__uring *ring, uint32_t calls, uint32_t results)
{
    struct setup setup;
    *ring = (struct kin__uring){.fd = -1};
    int rc = open_ring(calls, results, &setup);
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

/* Has the kernel begin the call in line: how many it took, or -errno. */
static int enter(const struct kin__uring *ring)
{
    if (KIN__UNLIKELY(is_faulty()))
        return kin__load_relaxed(&faulty_answer); /* relaxed: a number for tests */
    int64_t taken = syscall(CALL_ENTER, ring->fd, 1, 0, 0, NULL, 0);
    return taken < 0 ? -errno : (int)taken;
}

int kin__uring_call(struct kin__uring *ring, const struct kin__uring_call *call)
{
    int rc;
    kin__lock_take(&ring->lock, KIN__RANK_LEAF);
    uint32_t tail = kin__load_relaxed(ring->tail); /* relaxed: written under the lock */
    ring->calls[tail & ring->mask] = *call;
    kin__store_release(ring->tail, tail + 1); /* pairs with the kernel's acquire */
    do { /* ends: nobody interrupts for ever */
        rc = enter(ring);
    } while (rc == -EINTR);
    bool is_taken = kin__load_acquire(ring->head) != tail; /* pairs with the kernel's release */
    if (!is_taken) /* nobody else enters: the kernel has not looked at it. alone: as above */
        kin__store_relaxed(ring->tail, tail);
    kin__lock_give(&ring->lock, KIN__RANK_LEAF);
    return is_taken ? 0 : rc < 0 ? rc : -EAGAIN;
}

/* ---- results ---- */

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
