/* SPDX-License-Identifier: MIT */
/*
 * Memory of the system: reserved, touched, discarded, guarded in every way there is.
 *
 * Whether a page faults is asked of the kernel: a write from it to a pipe fails with EFAULT. No
 * signal is involved, so the tests work under every sanitizer.
 */
#define _GNU_SOURCE 1
#include "kin_test.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_readable(const void *p)
{
    int ends[2];

    EXPECT_EQ(pipe(ends), 0);
    ssize_t n = write(ends[1], p, 1);
    EXPECT(n == 1 || errno == EFAULT);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return n == 1;
}

static size_t count_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    size_t lines = 0;

    EXPECT(file != NULL);
    for (int c = fgetc(file); c != EOF; c = fgetc(file))
        lines += c == '\n';
    (void)fclose(file);
    return lines;
}

KIN_TEST(the_page_is_a_power_of_two, "")
{
    size_t page = kin__vm_page();

    EXPECT_GE(page, KIN__PAGE);
    EXPECT_EQ(page & (page - 1), 0);
    EXPECT_EQ(page, (size_t)sysconf(_SC_PAGESIZE));
}

KIN_TEST(reserved_memory_is_zero_and_can_be_written, "")
{
    const size_t page = kin__vm_page(), bytes = 64 * page;
    unsigned char *base = kin__vm_reserve(bytes);

    EXPECT(base != NULL);
    EXPECT_EQ((uintptr_t)base % page, 0);
    for (size_t i = 0; i < bytes; i += page) {
        EXPECT_EQ(base[i], 0);
        base[i] = 1;
    }
    kin__vm_discard(base + page, page * 10);
    for (size_t i = 0; i < bytes; i += page)
        EXPECT_EQ(base[i], i >= page && i < 11 * page ? 0 : 1);
    kin__vm_release(base, bytes);
}

#if !KIN__ASAN && !KIN__TSAN
KIN_TEST(reserving_does_not_commit, "")
{
    const size_t bytes = (size_t)64 << 30;
    char *base = kin__vm_reserve(bytes);

    if (!base)
        KIN_SKIP("64 GiB of address space are not to be had");
    base[0] = 1;
    base[bytes - 1] = 1;
    kin__vm_release(base, bytes);
}
#endif

KIN_TEST(more_than_there_is_cannot_be_reserved, "")
{
    EXPECT_PTR(kin__vm_reserve((size_t)1 << 62), NULL);
}

/* ---- guards ---- */

#define SLOTS 300 /* several batches and a part of one */

static void check_guards(enum kin__vm_way way)
{
    const size_t page = kin__vm_page(), stride = 5 * page, guard = 2 * page;

    kin__vm_force(way);
    char *base = kin__vm_reserve(SLOTS * stride);
    EXPECT(base != NULL);
    base[2 * page] = 7;
    EXPECT_EQ(kin__vm_guard(base, stride, guard, SLOTS), SLOTS);
    for (size_t i = 0; i < SLOTS; i++) {
        char *slot = base + i * stride;
        EXPECT(!is_readable(slot));
        EXPECT(!is_readable(slot + guard - 1));
        EXPECT(is_readable(slot + guard));
        EXPECT(is_readable(slot + stride - 1));
        slot[guard] = 1;
    }
    kin__vm_discard(base, SLOTS * stride); /* guards survive that */
    EXPECT(!is_readable(base));
    EXPECT(!is_readable(base + (SLOTS - 1) * stride));
    EXPECT_EQ(base[2 * page], 0);
    kin__vm_release(base, SLOTS * stride);
}

KIN_TEST(guards_fault_in_the_way_found_here, "")
{
    check_guards(KIN__VM_PROBE);
    EXPECT(strcmp(kin__vm_guard_kind(), "none") != 0);
}

KIN_TEST(guards_fault_whichever_way_they_are_made, "")
{
    if (strcmp(kin__vm_guard_kind(), "madvise") == 0) {
        check_guards(KIN__VM_BATCH);
        check_guards(KIN__VM_MADVISE);
    }
    check_guards(KIN__VM_MPROTECT);
}

KIN_TEST(the_kind_of_guard_has_a_name, "")
{
    kin__vm_force(KIN__VM_BATCH);
    EXPECT_STR(kin__vm_guard_kind(), "madvise");
    kin__vm_force(KIN__VM_MADVISE);
    EXPECT_STR(kin__vm_guard_kind(), "madvise");
    kin__vm_force(KIN__VM_MPROTECT);
    EXPECT_STR(kin__vm_guard_kind(), "mprotect");
    kin__vm_force(KIN__VM_NONE);
    EXPECT_STR(kin__vm_guard_kind(), "none");
}

KIN_TEST(without_guards_none_is_made, "")
{
    const size_t page = kin__vm_page();

    kin__vm_force(KIN__VM_NONE);
    char *base = kin__vm_reserve(8 * page);
    EXPECT_EQ(kin__vm_guard(base, 2 * page, page, 4), 0);
    EXPECT(is_readable(base));
    kin__vm_release(base, 8 * page);
}

KIN_TEST(guard_regions_split_no_mapping, "")
{
    const size_t page = kin__vm_page(), stride = 4 * page;

    if (strcmp(kin__vm_guard_kind(), "madvise") != 0)
        return; /* there are none in this kernel, which is not required */
    char *base = kin__vm_reserve(5000 * stride);
    size_t before = count_maps();
    EXPECT_EQ(kin__vm_guard(base, stride, page, 5000), 5000);
    EXPECT_LE(count_maps(), before + 2);
    kin__vm_release(base, 5000 * stride);
}

KIN_TEST(guards_by_mprotect_end_at_the_cap_and_come_back, "")
{
    const size_t page = kin__vm_page(), stride = 2 * page;
    const size_t most = KIN__VM_MPROTECT_MAX / (kin__is_under_valgrind() ? 4 : 1);
    const size_t part = 100, rest = most + 1000 - part;

    kin__vm_force(KIN__VM_MPROTECT);
    /* Two neighbours, as the kernel often gives them: a release of one leaves the other's. */
    char *second = kin__vm_reserve(rest * stride);
    char *first = kin__vm_reserve(part * stride);
    EXPECT_EQ(kin__vm_guard(first, stride, page, part), part);
    /* In pieces, as the pool of stacks does it; the last ones are refused. */
    size_t done = 0;
    for (size_t at = 0; at < rest; at += 1000) {
        size_t n = rest - at < 1000 ? rest - at : 1000;
        done += kin__vm_guard(second + at * stride, stride, page, n);
    }
    EXPECT_EQ(done, most - part);
    EXPECT(!is_readable(second + (done - 1) * stride));
    EXPECT(is_readable(second + done * stride));
    kin__vm_release(first, part * stride);

    /* As many as were released, and no more. */
    EXPECT_EQ(kin__vm_guard(second + done * stride, stride, page, part + 5), part);
    kin__vm_release(second, rest * stride);
    char *third = kin__vm_reserve(SLOTS * stride);
    EXPECT_EQ(kin__vm_guard(third, stride, page, SLOTS), SLOTS);
    kin__vm_release(third, SLOTS * stride);
}

KIN_TEST(locked_memory_is_guarded_too, "")
{
    const size_t page = kin__vm_page(), stride = 3 * page;

    EXPECT(kin__vm_guard_kind() != NULL); /* probed before anything is locked */
    char *base = kin__vm_reserve(64 * stride);
    if (mlock(base, 64 * stride) != 0) {
        kin__vm_release(base, 64 * stride);
        KIN_SKIP("memory may not be locked here");
    }
    EXPECT_EQ(kin__vm_guard(base, stride, page, 64), 64);
    for (size_t i = 0; i < 64; i++) {
        EXPECT(!is_readable(base + i * stride));
        EXPECT(is_readable(base + i * stride + page));
    }
    kin__vm_release(base, 64 * stride);
}

/* The child makes guards in its own copy; the parent's memory stays as it is. */
KIN_TEST(guards_of_a_child_process_are_its_own, "")
{
    const size_t page = kin__vm_page(), stride = 2 * page;
    char *base = kin__vm_reserve(SLOTS * stride);
    int status = 0;

    EXPECT_EQ(kin__vm_guard(base, stride, page, 10), 10);
    pid_t child = fork();
    if (child == 0) {
        bool good = !is_readable(base) && is_readable(base + 20 * stride);
        good = good && kin__vm_guard(base + 10 * stride, stride, page, 100) == 100;
        good = good && !is_readable(base + 20 * stride);
        _exit(good ? 0 : 1);
    }
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT(is_readable(base + 20 * stride));
    kin__vm_release(base, SLOTS * stride);
}

/* Makes mappings until there may be no more. False: that is farther than anybody goes. */
static bool use_up_maps(void)
{
    const size_t page = kin__vm_page();
    for (int i = 0; i < 1 << 20; i++) { /* neighbours differ, so that none is merged */
        int access = i & 1 ? PROT_READ : PROT_READ | PROT_WRITE;
        if (mmap(NULL, page, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            return true;
    }
    return false;
}

/* In a process of its own: 0 when all is as it should be, 77 when the limit was not reached, else
 * the step that was not. */
static int release_at_the_limit(void)
{
    const size_t part = 16 * kin__vm_page();
    char *base = kin__vm_reserve(5 * part);
    memset(base, 1, 5 * part);
    if (!base || kin__vm_guard(base + 2 * part, kin__vm_page(), kin__vm_page(), 2) != 2)
        return 1;
    if (!use_up_maps())
        return 77;
    kin__vm_release(base + 2 * part, part); /* in the middle: the mapping cannot be split */
    if (kin__vm_kept() != 1)
        return 2;
    if (kin__vm_reserve(part) != base + 2 * part || kin__vm_kept() != 0)
        return 3;
    for (size_t i = 0; i < part; i++) {
        if (base[2 * part + i] != 0) /* and no guard is left */
            return 4;
    }
    kin__vm_release(base + 2 * part, part);
    kin__vm_release(base + part, part);
    if (kin__vm_kept() != 2)
        return 5;
    kin__vm_release(base, part); /* at the edge: and so are the others, one after the other */
    return kin__vm_kept() == 0 && !is_readable(base + 2 * part) ? 0 : 6;
}

KIN_TEST(what_the_system_does_not_take_back_is_used_again, "")
{
    int status = 0;
#if KIN__TSAN || KIN__ASAN
    KIN_SKIP("a sanitizer ends a process that has no more mappings");
#endif
    if (kin__is_under_valgrind())
        KIN_SKIP("valgrind has a limit of its own");
    if (getenv("KIN_EMULATED"))
        KIN_SKIP("an emulator gives memory back without taking a mapping apart");
    pid_t child = fork();
    if (child == 0)
        _exit(release_at_the_limit());
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        KIN_SKIP("there is no limit to the number of mappings here");
    EXPECT_EQ(WEXITSTATUS(status), 0);
}
