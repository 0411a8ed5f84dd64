/* SPDX-License-Identifier: MIT */
/*
 * Goal: a ring is what the kernel means by it, takes calls whole or not at all, loses no result.
 * Method: the kernel's own header where it is there; calls made directly, faults made on purpose.
 */
#include "kin_test.h"

#include "plat/plat.h"
#include "plat/uring.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#define HAS_HEADER 1
#else
#define HAS_HEADER 0
#endif

/* A ring, or a skipped test where the system has none. */
static void make(struct kin__uring *ring, uint32_t calls, uint32_t results)
{
    int rc = kin__uring_create(ring, calls, results);
    if (rc == -ENOSYS || rc == -EPERM || rc == -EOPNOTSUPP)
        KIN_SKIP("io_uring is refused here");
    EXPECT_EQ(rc, 0);
}

static void break_it(struct kin__uring_faults faults)
{
    kin__uring_break(&faults);
}

/* Takes the next result, which comes. */
static struct kin__uring_result await_one(struct kin__uring *ring)
{
    struct kin__uring_result result;
    while (kin__uring_take(ring, &result, 1) == 0) { /* ends: it comes, or the alarm does */
        struct pollfd wait = {.fd = ring->fd, .events = POLLIN};
        EXPECT_GE(poll(&wait, 1, -1), 0);
    }
    return result;
}

#if HAS_HEADER
#define SAME(ours, theirs)                                                                         \
    do {                                                                                           \
        EXPECT_EQ(offsetof(struct kin__uring_call, ours), offsetof(struct io_uring_sqe, theirs));  \
        EXPECT_EQ(sizeof(((struct kin__uring_call *)0)->ours),                                     \
                  sizeof(((struct io_uring_sqe *)0)->theirs));                                     \
    } while (0)

KIN_TEST(layouts_and_numbers_are_the_kernels, "")
{
    EXPECT_EQ(sizeof(struct kin__uring_call), sizeof(struct io_uring_sqe));
    SAME(verb, opcode);
    SAME(how, flags);
    SAME(priority, ioprio);
    SAME(fd, fd);
    SAME(offset, off);
    SAME(second, addr2);
    SAME(address, addr);
    SAME(size, len);
    SAME(flags, rw_flags);
    SAME(flags, poll32_events);
    SAME(name, user_data);
    EXPECT_EQ(sizeof(struct kin__uring_result), sizeof(struct io_uring_cqe));
    EXPECT_EQ(offsetof(struct kin__uring_result, value), offsetof(struct io_uring_cqe, res));
    EXPECT_EQ(KIN__URING_FSYNC, IORING_OP_FSYNC);
    EXPECT_EQ(KIN__URING_CANCEL, IORING_OP_ASYNC_CANCEL);
    EXPECT_EQ(KIN__URING_OPEN, IORING_OP_OPENAT);
    EXPECT_EQ(KIN__URING_STAT, IORING_OP_STATX);
    EXPECT_EQ(KIN__URING_READ, IORING_OP_READ);
    EXPECT_EQ(KIN__URING_WRITE, IORING_OP_WRITE);
    EXPECT_EQ(KIN__URING_RENAME, IORING_OP_RENAMEAT);
    EXPECT_EQ(KIN__URING_UNLINK, IORING_OP_UNLINKAT);
    EXPECT_EQ(KIN__URING_MKDIR, IORING_OP_MKDIRAT);
    EXPECT_EQ(KIN__URING_ASYNC, IOSQE_ASYNC);
    EXPECT_EQ(KIN__URING_DATA_ONLY, IORING_FSYNC_DATASYNC);
    EXPECT_EQ(KIN__URING_HERE, AT_FDCWD);
    EXPECT_EQ(KIN__URING_DIRECTORY, AT_REMOVEDIR);
    EXPECT_EQ(KIN__URING_BY_FD, AT_EMPTY_PATH);
    EXPECT_EQ(KIN__URING_BASIC, STATX_BASIC_STATS);
}
#endif

KIN_TEST(every_call_has_one_result, "")
{
    struct kin__uring ring;
    make(&ring, 8, 64);
    EXPECT(kin__uring_has(&ring, KIN__URING_READ));
    EXPECT(!kin__uring_has_results(&ring));
    for (uint64_t i = 1; i <= 60; i++) {
        struct kin__uring_call call = {.verb = KIN__URING_NOP, .fd = -1, .name = i};
        EXPECT_EQ(kin__uring_call(&ring, &call), 0);
    }
    for (uint64_t i = 1; i <= 60; i++) {
        struct kin__uring_result result = await_one(&ring);
        EXPECT_EQ(result.name, i);
        EXPECT_EQ(result.value, 0);
    }
    EXPECT(!kin__uring_has_results(&ring));
    kin__uring_destroy(&ring);
}

KIN_TEST(a_call_begins_or_has_never_been, "")
{
    static const int errors[] = {-EAGAIN, -EBUSY, -ENOMEM};
    struct kin__uring ring;
    struct kin__uring_result result;
    struct kin__uring_call call = {.verb = KIN__URING_NOP, .fd = -1, .name = 5};
    make(&ring, 4, 8);
    for (unsigned i = 0; i < 3; i++) {
        break_it((struct kin__uring_faults){.enter = errors[i], .enters = 1});
        EXPECT_EQ(kin__uring_call(&ring, &call), errors[i]);
        EXPECT_EQ(kin__uring_take(&ring, &result, 1), 0);
    }
    break_it((struct kin__uring_faults){.enter = -EINTR, .enters = 3});
    EXPECT_EQ(kin__uring_call(&ring, &call), 0); /* an interruption is none */
    EXPECT_EQ(await_one(&ring).name, 5);
    EXPECT_EQ(kin__uring_take(&ring, &result, 1), 0);
    kin__uring_destroy(&ring);
}

KIN_TEST(who_refuses_is_told_from_who_lacks, "")
{
    struct kin__uring ring;
    make(&ring, 4, 8);
    kin__uring_destroy(&ring);
    break_it((struct kin__uring_faults){.setup = -EPERM});
    EXPECT_EQ(kin__uring_create(&ring, 4, 8), -EPERM);
    EXPECT_EQ(ring.fd, -1);
    break_it((struct kin__uring_faults){.setup = -EINVAL}); /* of every set of flags */
    EXPECT_EQ(kin__uring_create(&ring, 4, 8), -EOPNOTSUPP);
    for (uint32_t i = 0; i < 10; i++) { /* a kernel without one of the features */
        static const bool needed[] = {true, true, true, false, false, false, false, false,
                                      false, true};
        break_it((struct kin__uring_faults){.features = 1u << i});
        int rc = kin__uring_create(&ring, 4, 8);
        EXPECT_EQ(rc, needed[i] ? -EOPNOTSUPP : 0);
        if (rc == 0)
            kin__uring_destroy(&ring);
    }
    break_it((struct kin__uring_faults){.verbs = UINT64_C(1) << KIN__URING_RENAME});
    EXPECT_EQ(kin__uring_create(&ring, 4, 8), 0);
    EXPECT(!kin__uring_has(&ring, KIN__URING_RENAME));
    EXPECT(kin__uring_has(&ring, KIN__URING_UNLINK));
    kin__uring_destroy(&ring);
}

KIN_TEST(want_of_memory_is_told_and_leaves_nothing, "")
{
    struct kin__uring ring;
    make(&ring, 4, 8);
    int first = ring.fd;
    kin__uring_destroy(&ring);
    for (uint64_t n = 1; n <= 3; n++) {
        kin__plat_fail_after(n, false);
        EXPECT_EQ(kin__uring_create(&ring, 4, 8), -ENOMEM);
    }
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin__uring_create(&ring, 4, 8), 0);
    EXPECT_EQ(ring.fd, first); /* no number was lost */
    kin__uring_destroy(&ring);
}

KIN_TEST(a_call_is_cancelled_by_its_name, "")
{
    struct kin__uring ring;
    int fds[2];
    char byte = 'a';
    make(&ring, 4, 8);
    EXPECT_EQ(pipe(fds), 0); /* a read waits there */
    struct kin__uring_call call = {.verb = KIN__URING_READ, .fd = fds[0], .size = 1, .name = 1,
                                   .address = (uintptr_t)&byte};
    EXPECT_EQ(kin__uring_call(&ring, &call), 0);
    struct kin__uring_call cancel = {.verb = KIN__URING_CANCEL, .fd = -1, .address = 1, .name = 2};
    EXPECT_EQ(kin__uring_call(&ring, &cancel), 0);
    int32_t values[3] = {1, 1, 1};
    for (int i = 0; i < 2; i++) {
        struct kin__uring_result result = await_one(&ring);
        EXPECT(result.name == 1 || result.name == 2);
        values[result.name] = result.value;
    }
    EXPECT(values[1] == -ECANCELED || values[1] == -EINTR);
    EXPECT_EQ(values[2], 0);
    EXPECT_EQ(write(fds[1], "b", 1), 1);
    EXPECT_EQ(byte, 'a'); /* nobody writes there any more */
    EXPECT_EQ(read(fds[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'b');
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    kin__uring_destroy(&ring);
}

static void expect_same(const struct stat *is, const struct stat *was)
{
    EXPECT_EQ(is->st_dev, was->st_dev);
    EXPECT_EQ(is->st_ino, was->st_ino);
    EXPECT_EQ(is->st_mode, was->st_mode);
    EXPECT_EQ(is->st_nlink, was->st_nlink);
    EXPECT_EQ(is->st_uid, was->st_uid);
    EXPECT_EQ(is->st_gid, was->st_gid);
    EXPECT_EQ(is->st_rdev, was->st_rdev);
    EXPECT_EQ(is->st_size, was->st_size);
    EXPECT_EQ(is->st_blksize, was->st_blksize);
    EXPECT_EQ(is->st_blocks, was->st_blocks);
    EXPECT_EQ(is->st_mtim.tv_sec, was->st_mtim.tv_sec);
    EXPECT_EQ(is->st_mtim.tv_nsec, was->st_mtim.tv_nsec);
    EXPECT_EQ(is->st_ctim.tv_nsec, was->st_ctim.tv_nsec);
}

KIN_TEST(what_the_ring_tells_of_a_file_is_what_stat_tells, "")
{
    static const char *const paths[] = {"/", "/dev/null", "/proc/self/exe"};
    struct kin__uring ring;
    make(&ring, 4, 8);
    for (unsigned i = 0; i < 3; i++) {
        struct kin__uring_stat from;
        struct stat is, was;
        struct kin__uring_call call = {
            .verb = KIN__URING_STAT, .fd = KIN__URING_HERE, .address = (uintptr_t)paths[i],
            .size = KIN__URING_BASIC, .second = (uintptr_t)&from};
        EXPECT_EQ(stat(paths[i], &was), 0);
        EXPECT_EQ(kin__uring_call(&ring, &call), 0);
        EXPECT_EQ(await_one(&ring).value, 0);
        kin__uring_stat_of(&from, &is);
        expect_same(&is, &was);
    }
    kin__uring_destroy(&ring);
}

KIN_TEST(bytes_and_names_go_through, "")
{
    struct kin__uring ring;
    char path[] = "/tmp/kin-uring-XXXXXX", buf[8] = "";
    make(&ring, 4, 8);
    int fd = kin_test_mkstemp(path);
    EXPECT_GE(fd, 0);
    struct kin__uring_call calls[] = {
        {.verb = KIN__URING_WRITE, .fd = fd, .address = (uintptr_t) "kin", .size = 3, .offset = 2},
        {.verb = KIN__URING_READ, .fd = fd, .address = (uintptr_t)buf, .size = 8, .offset = 3},
        {.verb = KIN__URING_FSYNC, .fd = fd, .flags = KIN__URING_DATA_ONLY},
        {.verb = KIN__URING_UNLINK, .fd = KIN__URING_HERE, .address = (uintptr_t)path},
        {.verb = KIN__URING_UNLINK, .fd = KIN__URING_HERE, .address = (uintptr_t)path},
    };
    static const int values[] = {3, 2, 0, 0, -ENOENT};
    for (unsigned i = 0; i < 5; i++) {
        EXPECT_EQ(kin__uring_call(&ring, &calls[i]), 0);
        EXPECT_EQ(await_one(&ring).value, values[i]);
    }
    EXPECT_STR(buf, "in");
    EXPECT_EQ(close(fd), 0);
    kin__uring_destroy(&ring);
}

KIN_TEST(sanitizers_are_told, "")
{
    char memory[16] = "";
    EXPECT(kin__uring_may_touch(memory, sizeof memory));
    kin__uring_touched(memory, sizeof memory, true);
    kin__uring_touched(memory, sizeof memory, false);
}
