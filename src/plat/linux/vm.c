/* SPDX-License-Identifier: MIT */
/*
 * Memory of the operating system: reserve, guard, discard, release.
 *
 * Guards are made in the best of these ways that the machine has:
 *
 *   batch     one process_madvise(MADV_GUARD_INSTALL) on ourselves for many guards
 *   madvise   one madvise(MADV_GUARD_INSTALL) each
 *   mprotect  one mprotect(PROT_NONE) each; splits the mapping, so their number is capped
 *   none      no guard; the caller keeps a canary
 *
 * Guard regions (Linux 6.13) live in the page tables and split nothing: a million stacks are a few
 * dozen lines of /proc/self/maps. A locked mapping (mlockall) refuses them with EINVAL, so a call
 * that fails in one way goes on in the next, whatever the probe said.
 *
 * A release may be refused: the kernel merges neighbours into one mapping, and a process that has
 * as many mappings as it may (vm.max_map_count) cannot have one split. What could not be given back
 * is kept: its pages go, its address stays, and it is the next that somebody reserves in that size,
 * or goes when a release of its neighbour leaves it at an edge.
 *
 * The descriptor for process_madvise is the kernel's constant for "myself" or, before Linux 6.14,
 * one opened for each call: one that is kept open would name the parent after a fork.
 */
#define _GNU_SOURCE 1
#include "base/assert.h"
#include "base/lock.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define GUARD_INSTALL 102      /* MADV_GUARD_INSTALL, younger than most headers */
#define GUARD_REMOVE 103       /* MADV_GUARD_REMOVE */
#define DONTNEED_LOCKED 24     /* MADV_DONTNEED_LOCKED */
#define SELF_DESCRIPTOR -10001 /* PIDFD_SELF_THREAD_GROUP */
#define BATCH 64u              /* 1 KiB of the caller's stack; more gains nothing measurable */
#define BATCH_MIN 4u           /* below this, opening a descriptor costs more than it saves */
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Guards made by mprotect in one call, so that a release gives them back. */
struct stretch {
    struct stretch *next;
    uintptr_t low, high;
    size_t count;
};

/* Memory that the system did not take back; lies at its beginning. */
struct kept {
    struct kept *next;
    size_t bytes;
    bool is_clean; /* but for this, it is as if it had just been reserved */
};

static kin__a32 page_bytes;   /* 0: not asked for yet */
static kin__a32 way_known;    /* enum kin__vm_way; KIN__VM_PROBE: not known yet */
static struct kin__lock lock; /* rank LEAF; the three below */
static struct kept *kept;
static kin__a32 kept_count; /* how many; read without the lock, as a hint */
static struct stretch *stretches;
static size_t mprotect_guards; /* never above KIN__VM_MPROTECT_MAX */

size_t kin__vm_page(void)
{
    uint32_t bytes = kin__load_relaxed(&page_bytes); /* relaxed: every thread finds the same */

    if (KIN__UNLIKELY(!bytes)) {
        bytes = (uint32_t)sysconf(_SC_PAGESIZE);
        kin__store_relaxed(&page_bytes, bytes); /* relaxed: as above */
    }
    return bytes;
}

static void *map(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return base == MAP_FAILED ? NULL : base;
}

/* ---- what could not be given back ---- */

/* Takes the guards off and the pages out, none of which splits a mapping, and remembers it. */
static void keep(void *base, size_t bytes)
{
    (void)mprotect(base, bytes, PROT_READ | PROT_WRITE);
    (void)madvise(base, bytes, GUARD_REMOVE);
    bool is_clean = madvise(base, bytes, MADV_DONTNEED) == 0 ||
                    madvise(base, bytes, DONTNEED_LOCKED) == 0;
    struct kept *one = base;
    kin__lock_take(&lock, KIN__RANK_LEAF);
    *one = (struct kept){kept, bytes, is_clean};
    kept = one;
    (void)kin__add_relaxed(&kept_count, 1u); /* relaxed: a hint */
    kin__lock_give(&lock, KIN__RANK_LEAF);
}

/* Clean memory of that size; NULL: none is kept. */
static void *take_kept(size_t bytes)
{
    void *found = NULL;
    kin__lock_take(&lock, KIN__RANK_LEAF);
    for (struct kept **link = &kept; *link && !found; link = &(*link)->next) {
        struct kept *one = *link;
        if (one->bytes != bytes || !one->is_clean)
            continue;
        found = one;
        *link = one->next;
        *one = (struct kept){0};
        (void)kin__sub_relaxed(&kept_count, 1u); /* relaxed: a hint */
        break;
    }
    kin__lock_give(&lock, KIN__RANK_LEAF);
    return found;
}

/* A mapping has become smaller: what is kept of it may be at an edge now, then its neighbour. */
static void release_kept(void)
{
    bool has_progress = true;
    kin__lock_take(&lock, KIN__RANK_LEAF);
    while (has_progress) { /* ends: one fewer is kept each time */
        has_progress = false;
        for (struct kept **link = &kept; *link;) {
            struct kept one = **link;
            if (munmap(*link, one.bytes) == 0) {
                *link = one.next;
                (void)kin__sub_relaxed(&kept_count, 1u); /* relaxed: a hint */
                has_progress = true;
            } else {
                link = &(*link)->next;
            }
        }
    }
    kin__lock_give(&lock, KIN__RANK_LEAF);
}

void *kin__vm_reserve(size_t bytes)
{
    void *base;

    if (!kin__plat_request())
        return NULL;
    /* relaxed: a hint */
    base = KIN__UNLIKELY(kin__load_relaxed(&kept_count)) ? take_kept(bytes) : NULL;
    if (KIN__LIKELY(!base))
        base = map(bytes);
    /* Fails only where the kernel has no huge pages, which is as good. */
    if (base)
        (void)madvise(base, bytes, MADV_NOHUGEPAGE);
    return base;
}

/* Forgets the guards that mprotect has made there. */
static void forget_guards(uintptr_t low, size_t bytes)
{
    struct stretch *gone = NULL;

    kin__lock_take(&lock, KIN__RANK_LEAF);
    for (struct stretch **link = &stretches; *link;) {
        struct stretch *stretch = *link;
        if (stretch->low < low || stretch->high > low + bytes) {
            link = &stretch->next;
            continue;
        }
        mprotect_guards -= stretch->count;
        *link = stretch->next;
        stretch->next = gone;
        gone = stretch;
    }
    kin__lock_give(&lock, KIN__RANK_LEAF);
    while (gone) {
        struct stretch *next = gone->next;
        free(gone);
        gone = next;
    }
}

void kin__vm_release(void *base, size_t bytes)
{
    forget_guards((uintptr_t)base, bytes);
    if (KIN__LIKELY(munmap(base, bytes) == 0)) {
        if (KIN__UNLIKELY(kin__load_relaxed(&kept_count))) /* relaxed: a hint */
            release_kept();
        return;
    }
    KIN__CHECK(errno == ENOMEM, "house: release what was reserved");
    keep(base, bytes);
}

size_t kin__vm_kept(void)
{
    return kin__load_relaxed(&kept_count); /* relaxed: for tests */
}

void kin__vm_prefer_huge(void *base, size_t bytes)
{
    (void)madvise(base, bytes, MADV_HUGEPAGE);
}

void kin__vm_discard(void *base, size_t bytes)
{
    if (madvise(base, bytes, MADV_DONTNEED) != 0)
        (void)madvise(base, bytes, DONTNEED_LOCKED);
}

/* ---- the ways; each returns how many guards it made, from 0 on ---- */

static size_t guard_batch(char *base, size_t stride, size_t guard_bytes, size_t count)
{
    struct iovec places[BATCH];
    int self = SELF_DESCRIPTOR;
    size_t done = 0;

    while (done < count) {
        size_t n = count - done < BATCH ? count - done : BATCH;
        for (size_t i = 0; i < n; i++) {
            places[i].iov_base = base + (done + i) * stride;
            places[i].iov_len = guard_bytes;
        }
        long bytes = syscall(SYS_process_madvise, self, places, n, GUARD_INSTALL, 0);
        if (bytes < 0 && errno == EBADF && self == SELF_DESCRIPTOR) {
            self = (int)syscall(SYS_pidfd_open, getpid(), 0);
            if (self >= 0)
                continue;
        }
        size_t made = bytes > 0 ? (size_t)bytes / guard_bytes : 0;
        done += made;
        if (made < n)
            break;
    }
    if (self >= 0)
        (void)close(self);
    return done;
}

static size_t guard_madvise(char *base, size_t stride, size_t guard_bytes, size_t count)
{
    size_t done = 0;

    while (done < count && madvise(base + done * stride, guard_bytes, GUARD_INSTALL) == 0)
        done++;
    return done;
}

/* How many of want guards the cap still allows; they count as made from here on. */
static size_t admit_guards(size_t want)
{
    /* Valgrind ends the process at 30,000 mappings. */
    const size_t most = kin__is_under_valgrind() ? KIN__VM_MPROTECT_MAX / 4 : KIN__VM_MPROTECT_MAX;

    kin__lock_take(&lock, KIN__RANK_LEAF);
    size_t left = most - mprotect_guards;
    size_t admitted = want < left ? want : left;
    mprotect_guards += admitted;
    kin__lock_give(&lock, KIN__RANK_LEAF);
    return admitted;
}

/* Remembers made of the admitted guards and gives the others up. Without a record the guards stay
 * counted for ever, which errs on the safe side. */
static void record_guards(uintptr_t low, uintptr_t high, size_t made, size_t admitted)
{
    struct stretch *stretch = made ? malloc(sizeof *stretch) : NULL;

    kin__lock_take(&lock, KIN__RANK_LEAF);
    mprotect_guards -= admitted - made;
    if (stretch) {
        *stretch = (struct stretch){stretches, low, high, made};
        stretches = stretch;
    }
    kin__lock_give(&lock, KIN__RANK_LEAF);
}

static size_t guard_mprotect(char *base, size_t stride, size_t guard_bytes, size_t count)
{
    size_t admitted = admit_guards(count);
    size_t made = 0;

    while (made < admitted && mprotect(base + made * stride, guard_bytes, PROT_NONE) == 0)
        made++;
    record_guards((uintptr_t)base, (uintptr_t)base + made * stride, made, admitted);
    return made;
}

/* Whether the kernel cannot read p either: emulators say yes to every advice and do nothing. The
 * call sleeps for what it reads there, no time at all in memory not touched before. */
static bool faults(const char *p)
{
    return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, p, NULL) != 0 && errno == EFAULT;
}

/* Finds out once what the kernel can do, on two pages of its own. */
static enum kin__vm_way probe(void)
{
    const size_t page = kin__vm_page();
    enum kin__vm_way way = KIN__VM_MPROTECT;
    char *base;

    /* Valgrind does not know guard regions, but it does know what mprotect does. */
    if (kin__is_under_valgrind() || !(base = map(2 * page)))
        return way;
    if (guard_batch(base, page, page, 1) == 1 && faults(base))
        way = KIN__VM_BATCH;
    else if (guard_madvise(base + page, page, page, 1) == 1 && faults(base + page))
        way = KIN__VM_MADVISE;
    (void)munmap(base, 2 * page);
    return way;
}

static enum kin__vm_way way_get(void)
{
    uint32_t way = kin__load_relaxed(&way_known); /* relaxed: every thread finds the same */

    if (KIN__UNLIKELY(way == KIN__VM_PROBE)) {
        way = probe();
        kin__store_relaxed(&way_known, way); /* relaxed: as above */
    }
    return (enum kin__vm_way)way;
}

size_t kin__vm_guard(void *base, size_t stride, size_t guard_bytes, size_t count)
{
    const enum kin__vm_way way = way_get();
    char *from = base;
    size_t done = 0;

    KIN__ASSERT((((uintptr_t)base | stride | guard_bytes) & (kin__vm_page() - 1)) == 0, "house");
    if (way == KIN__VM_BATCH && count >= BATCH_MIN)
        done += guard_batch(from, stride, guard_bytes, count);
    if (way <= KIN__VM_MADVISE)
        done += guard_madvise(from + done * stride, stride, guard_bytes, count - done);
    if (way <= KIN__VM_MPROTECT && done < count)
        done += guard_mprotect(from + done * stride, stride, guard_bytes, count - done);
    return done;
}

bool kin__vm_close(void *base, size_t bytes)
{
    return mprotect(base, bytes, PROT_NONE) == 0;
}

void kin__vm_open(void *base, size_t bytes)
{
    int rc = mprotect(base, bytes, PROT_READ | PROT_WRITE);
    KIN__CHECK(rc == 0, "house: it joins its neighbours, and needs no mapping");
}

const char *kin__vm_guard_kind(void)
{
    switch (way_get()) {
    case KIN__VM_BATCH:
    case KIN__VM_MADVISE:
        return "madvise";
    case KIN__VM_MPROTECT:
        return "mprotect";
    default:
        return "none";
    }
}

void kin__vm_force(enum kin__vm_way way)
{
    kin__store_relaxed(&way_known, way); /* relaxed: set while nothing else runs */
}
