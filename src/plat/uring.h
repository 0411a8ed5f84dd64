/* SPDX-License-Identifier: MIT */
/*
 * A ring of the kernel's io_uring: calls go in at one end, their results come out at the other.
 *
 * The layouts and numbers below are the kernel's, as far as kin needs them; the names are kin's.
 * Each call goes to the kernel at once, or not at all. The ring's descriptor is readable while
 * there are results, so a poller waits for them.
 */
#ifndef KIN_PLAT_URING_H
#define KIN_PLAT_URING_H

#include "base/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a call does: the kernel's numbers. */
enum kin__uring_verb {
    KIN__URING_NOP = 0,
    KIN__URING_FSYNC = 3,
    KIN__URING_CANCEL = 14,
    KIN__URING_OPEN = 18,
    KIN__URING_STAT = 21,
    KIN__URING_READ = 22,
    KIN__URING_WRITE = 23,
    KIN__URING_RENAME = 35,
    KIN__URING_UNLINK = 36,
    KIN__URING_MKDIR = 37,
    KIN__URING_TRUNCATE = 55
};
#define KIN__URING_VERBS 64u /* more than there are here */

#define KIN__URING_ASYNC 16u /* how: by a thread of the kernel, without a try on this one */

#define KIN__URING_DATA_ONLY 1u   /* flags of FSYNC */
#define KIN__URING_DIRECTORY 512u /* flags of UNLINK */
#define KIN__URING_BY_FD 4096u    /* flags of STAT: path is "" */
#define KIN__URING_BASIC 2047u    /* size of STAT: what stat(2) tells */
#define KIN__URING_HERE (-100)    /* fd: paths begin at the working directory */
#define KIN__URING_SIZE_MAX ((size_t)1 << 30) /* of one read or write */

/* One call, 64 bytes of the kernel's. What is not named is zero. */
struct kin__uring_call {
    uint8_t verb;
    uint8_t how; /* KIN__URING_ASYNC */
    uint16_t priority;
    int32_t fd;
    union {
        uint64_t offset;
        uint64_t second; /* RENAME: the new name; STAT: where it goes */
    };
    uint64_t address; /* memory, a path, or the name of another call */
    uint32_t size;    /* bytes; a mode; STAT: what to tell; RENAME: where the new name begins */
    uint32_t flags;   /* of the verb */
    uint64_t name;    /* comes back with the result */
    uint64_t rest[3];
};

struct kin__uring_result {
    uint64_t name;
    int32_t value; /* as of the system call, or -errno */
    uint32_t flags;
};

/* What STAT writes. */
struct kin__uring_stat {
    _Alignas(8) unsigned char bytes[256];
};
struct stat;

struct kin__uring {
    /* constant after create */
    int fd;
    uint32_t mask, result_mask; /* places - 1 */
    uint64_t verbs;             /* a bit for each that the kernel has */
    struct kin__uring_call *calls;
    const struct kin__uring_result *results;
    /* words that are shared with the kernel; who writes them */
    kin__a32 *head, *tail;               /* of calls: the kernel; who has the lock */
    kin__a32 *result_head, *result_tail; /* of results: who takes them; the kernel */
    void *memory, *calls_memory;
    size_t memory_bytes, calls_bytes;

    struct kin__lock lock; /* rank LEAF; calls, tail */
};

/* Makes a ring with room for so many calls and results, at least; powers of two. 0; -ENOSYS,
 * -EPERM, -EOPNOTSUPP when the system, or an old kernel, refuses; -ENOMEM, -EMFILE, -ENFILE. */
int kin__uring_create(struct kin__uring *ring, uint32_t calls, uint32_t results);
/* Calls that are under way are given up by the kernel, in its own time. */
void kin__uring_destroy(struct kin__uring *ring);

static inline bool kin__uring_has(const struct kin__uring *ring, enum kin__uring_verb verb)
{
    return ring->verbs >> verb & 1;
}

/* Begins a call. 0: there will be a result, maybe there is one already. -errno: nothing has begun,
 * -EAGAIN and -EBUSY when the kernel is short of memory. */
int kin__uring_call(struct kin__uring *ring, const struct kin__uring_call *call);

/* Whether there are results; about, for who does not take them. */
static inline bool kin__uring_has_results(const struct kin__uring *ring)
{
    /* relaxed: a hint; who takes them looks again */
    return kin__load_relaxed(ring->result_head) != kin__load_relaxed(ring->result_tail);
}
/* Takes results that are there: how many. One thread at a time. */
uint32_t kin__uring_take(struct kin__uring *ring, struct kin__uring_result *out, uint32_t max);

/* What STAT wrote, as stat(2) says it. */
void kin__uring_stat_of(const struct kin__uring_stat *from, struct stat *out);
/* Before a call: whether memory that it names is the program's, as far as a sanitizer knows; after
 * it: what the kernel has done to it. Sanitizers see nothing of either. */
bool kin__uring_may_touch(const void *memory, size_t size);
void kin__uring_touched(const void *memory, size_t size, bool is_written);

/* For tests: what goes wrong from here on. All zero: nothing. */
struct kin__uring_faults {
    int setup;         /* what making a ring answers */
    int enter;         /* what the kernel answers to the next few enters, and does nothing */
    uint32_t enters;   /* how many */
    uint64_t verbs;    /* what it does not have */
    uint32_t features; /* likewise, as bits of the kernel */
};
void kin__uring_break(const struct kin__uring_faults *faults);

#endif
