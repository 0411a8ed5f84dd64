/* SPDX-License-Identifier: MIT */
/*
 * Goal: a call on a file or a device, which never says that it would wait, hears its deadline and a
 *       cancellation, and lets others run; a call on a file is over where no thread can be had.
 * Method: black box: transfers that are far too long to be over before they are stopped, on one
 *         worker that is never replaced.
 */
#define _GNU_SOURCE 1
#include "api/in_runtime.h"

#include <kin/file.h>
#include <kin/reader.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { MUCH = 256 << 20 };
#define ENDLESS ((size_t)1 << 60)

static int zero, null, file; /* file: of MUCH bytes, none of which takes room */
static char *memory;         /* likewise */

struct moved {
    size_t done;
    kin_time deadline;
    int rc;
};

static int copy_it(struct moved *moved)
{
    struct kin_copied done;
    int rc = kin_copy(null, zero, ENDLESS, &done, moved->deadline);
    moved->done = (size_t)done.given;
    return rc;
}

static int send_it(struct moved *moved)
{
    return kin_sendfile(null, zero, NULL, ENDLESS, &moved->done, moved->deadline);
}

static int send_from(struct moved *moved)
{
    int64_t offset = 0;
    int rc = kin_sendfile(file, zero, &offset, MUCH, &moved->done, moved->deadline);
    return rc;
}

static int read_it(struct moved *moved)
{
    return kin_read_full(zero, memory, MUCH, &moved->done, moved->deadline);
}

static int write_it(struct moved *moved)
{
    return kin_write(file, memory, MUCH, &moved->done, moved->deadline);
}

static int write_parts(struct moved *moved)
{
    struct iovec parts[] = {{memory, 0}, {memory, 3}, {memory, 0}, {memory, MUCH}, {memory, 5}};
    return kin_writev(file, parts, 5, &moved->done, moved->deadline);
}

typedef int move_fn(struct moved *moved);
static move_fn *const ways[] = {copy_it, send_it, send_from, read_it, write_it, write_parts};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static void open_all(void)
{
    zero = open("/dev/zero", O_RDONLY);
    null = open("/dev/null", O_WRONLY);
    file = memfd_create("file", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(file, MUCH), 0);
    memory = mmap(NULL, MUCH, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(zero >= 0 && null >= 0 && file >= 0 && memory != MAP_FAILED);
}

static void close_all(void)
{
    EXPECT_EQ(munmap(memory, MUCH), 0);
    EXPECT(close(zero) == 0 && close(null) == 0 && close(file) == 0);
}

static void run_on_one(kin_task_fn *fn)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    config.workers_max = 1;
    open_all();
    EXPECT_EQ(kin_run(&config, fn, NULL), 0);
    close_all();
}

/* A deadline that is over soon: between two pieces it is looked at. */
static int be_late(void *arg)
{
    (void)arg;
    for (int i = 0; i < WAYS; i++) {
        struct moved moved = {.deadline = kin_now() + 1};
        EXPECT_EQ(ways[i](&moved), KIN_TIMEOUT);
        EXPECT_GT(moved.done, 0);
        EXPECT_LT(moved.done, MUCH);
        moved.deadline = KIN_NEVER;
        kin_time before = kin_deadline_push(kin_after(KIN_US(1)));
        EXPECT_EQ(ways[i](&moved), KIN_TIMEOUT);
        kin_deadline_pop(before);
        EXPECT_LT(moved.done, MUCH);
    }
    return 0;
}

KIN_TEST(calls_on_files_hear_their_deadline, "")
{
    run_on_one(be_late);
}

static int way; /* of the task that moves */
static _Atomic int begun;

static int move(void *arg)
{
    struct moved *moved = arg;
    atomic_store(&begun, 1);
    return moved->rc = ways[way](moved);
}

static int stop(void *arg)
{
    await(&begun, 1);
    kin_nursery_cancel(arg, 0);
    return 0;
}

/* The task that cancels runs only if the one that moves gives it a turn. */
static int be_cancelled(void *arg)
{
    (void)arg;
    for (way = 0; way < WAYS; way++) {
        struct moved moved = {.deadline = KIN_NEVER};
        atomic_store(&begun, 0);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, move, &moved), 0);
        EXPECT_EQ(kin_spawn(&n, stop, &n), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
        EXPECT_EQ(moved.rc, KIN_CANCELLED);
        EXPECT_LT(moved.done, MUCH);
    }
    return 0;
}

KIN_TEST(calls_on_files_hear_a_cancellation_and_let_others_run, "")
{
    run_on_one(be_cancelled);
}

/* ---- calls without a deadline ---- */

static ssize_t moved_at;

static int read_at(void *arg)
{
    (void)arg;
    atomic_store(&begun, 1);
    moved_at = kin_pread(file, memory, MUCH, 0);
    return 0;
}

static int write_at(void *arg)
{
    (void)arg;
    atomic_store(&begun, 1);
    moved_at = kin_pwrite(file, memory, MUCH, 0);
    return 0;
}

static int cut_short(void *arg)
{
    kin_task_fn *const fns[] = {read_at, write_at};
    (void)arg;
    for (int i = 0; i < 2; i++) {
        moved_at = 0;
        atomic_store(&begun, 0);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, fns[i], NULL), 0);
        EXPECT_EQ(kin_spawn(&n, stop, &n), 0);
        kin_ignore(kin_nursery_join(&n, NULL));
        EXPECT(moved_at > 0 || moved_at == KIN_CANCELLED);
        EXPECT_LT(moved_at, MUCH);
    }
    return 0;
}

KIN_TEST(a_cancelled_read_or_write_of_a_file_ends_with_what_was_moved, "")
{
    run_on_one(cut_short);
}

/* One call moves no more than a piece, whatever the parts are. */
static int read_pieces(void *arg)
{
    struct iovec parts[] = {{memory, 0}, {memory, MUCH}, {memory, 10}};
    (void)arg;
    ssize_t one = kin_read(zero, memory, MUCH, KIN_NEVER);
    EXPECT(one > 0 && one < MUCH);
    ssize_t many = kin_readv(zero, parts, 3, KIN_NEVER);
    EXPECT(many > 0 && many < MUCH);
    parts[1].iov_len = 20;
    EXPECT_EQ(kin_readv(zero, parts, 3, KIN_NEVER), 30);
    EXPECT_EQ(kin_readv(zero, parts, 1, KIN_NEVER), 0);
    return 0;
}

KIN_TEST(one_read_of_a_device_holds_the_worker_for_a_piece_only, "")
{
    run_on_one(read_pieces);
}

/* ---- no threads ---- */

static int answer;

static int use_file(void *arg)
{
    int fd = -1;
    (void)arg;
    answer = kin_open("/tmp", O_RDWR | O_TMPFILE, 0600, &fd);
    if (fd >= 0) {
        int rc = kin_fsync(fd);
        EXPECT(rc == 0 || rc == -EAGAIN || rc == -ENOMEM);
        kin_close(fd);
    }
    return 0;
}

/* In a process that may have so many threads: 0 when the call was over with an answer. */
static int use_with(rlim_t limit, enum kin_poller poller)
{
    struct kin_config config = KIN_CONFIG_INIT;
    struct rlimit most = {limit, limit};
    config.workers = 2;
    config.poller = poller;
    setrlimit(RLIMIT_NPROC, &most);
    if (getuid() == 0 && (setgid(65534) || setuid(65534)))
        return 0; /* root has no such limit */
    if (kin_run(&config, use_file, NULL) < 0)
        return 0; /* not even workers */
    return answer == 0 || answer == -EAGAIN || answer == -ENOMEM || answer == -EACCES ? 0 : 1;
}

KIN_TEST(where_no_thread_can_be_had_a_call_on_a_file_is_over_all_the_same, "")
{
    const enum kin_poller pollers[] = {KIN_POLLER_AUTO, KIN_POLLER_URING, KIN_POLLER_EPOLL};
    for (int i = 0; i < 12; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(use_with((rlim_t)(3 + i / 3), pollers[i % 3]));
        EXPECT_EQ(waitpid(child, &status, 0), child); /* ends, or the alarm comes */
        EXPECT_EQ(status, 0);
    }
}
