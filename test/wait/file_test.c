/* SPDX-License-Identifier: MIT */
/*
 * Goal: a request that waits in line does not reach into whatever has its number by then; ring and
 * threads do the same; what the ring cannot do, threads do.
 * Method: white box: the only thread for files is kept busy while a descriptor is closed and its
 * number is used again; rings that lack something or fail.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "plat/uring.h"
#include "wait/offload.h"

#include <kin/file.h>

#include <unistd.h>

struct gate {
    _Atomic int started, may_go;
};

static void wait_at(void *arg)
{
    struct gate *gate = arg;
    atomic_store(&gate->started, 1);
    while (!atomic_load(&gate->may_go))
        usleep(100);
}

static int hold_thread(void *arg)
{
    return kin__offload(KIN__OFFLOAD_FILE, wait_at, arg, KIN_NEVER);
}

struct call {
    int fd;
    int status;
};

static int sync_it(void *arg)
{
    struct call *call = arg;
    call->status = kin_fsync(call->fd);
    return 0;
}

static int close_under_it(void *arg)
{
    struct gate gate = {0};
    struct call call = {.status = -1};
    char path[] = "/tmp/kin-wait-file-XXXXXX";
    (void)arg;
    int made = kin_test_mkstemp(path);
    EXPECT_GE(made, 0);
    call.fd = dup2(made, NUMBER_OF_OURS);
    EXPECT_EQ(call.fd, NUMBER_OF_OURS);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, hold_thread, &gate), 0);
    await(&gate.started, 1);
    EXPECT_EQ(kin_spawn(&n, sync_it, &call), 0);
    await_parked(2, "file"); /* the one that holds the thread, and the one that waits for it */
    EXPECT_EQ(kin_close(call.fd), 0);
    int again = dup2(made, NUMBER_OF_OURS);
    EXPECT_EQ(again, NUMBER_OF_OURS);
    atomic_store(&gate.may_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(call.status, KIN_CLOSED);
    EXPECT_EQ(kin_fsync(again), 0);
    EXPECT_EQ(kin_close(again), 0);
    EXPECT_EQ(close(made), 0);
    EXPECT_EQ(unlink(path), 0);
    return 0;
}

KIN_TEST(a_number_that_is_used_again_is_not_confused_with_its_predecessor, "")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.poller = KIN_POLLER_EPOLL; /* there the thread does it */
    kin__offload_limit(1, KIN_SEC(10));
    for (config.workers = 1; config.workers <= 2; config.workers++)
        EXPECT_EQ(kin_run(&config, close_under_it, NULL), 0);
}

static int lack_memory(void *arg)
{
    struct kin_dir *dir = NULL;
    struct stat is;
    (void)arg;
    kin__plat_fail_after(1, true);
    EXPECT_EQ(kin_stat("/", &is), -EAGAIN);
    EXPECT_EQ(kin_opendir("/", &dir), -ENOMEM);
    kin__plat_fail_after(0, false);
    EXPECT_PTR(dir, NULL);
    EXPECT_EQ(kin_stat("/", &is), 0);
    return 0;
}

KIN_TEST(without_memory_or_threads_calls_say_so, "")
{
    EXPECT_EQ(run_reporting(1, lack_memory, NULL, NULL), 0);
}

/* ---- ring and threads ---- */

static void break_it(struct kin__uring_faults faults)
{
    kin__uring_break(&faults);
}

/* Every kind of call once. */
static int use_all(void *arg)
{
    char dir[] = "/tmp/kin-wait-file-XXXXXX", one[64], two[64], buf[8] = "";
    struct stat is, was;
    int fd;
    (void)arg;
    EXPECT(kin_test_mkdtemp(dir) != NULL);
    snprintf(one, sizeof one, "%s/one", dir);
    snprintf(two, sizeof two, "%s/two", dir);
    EXPECT_EQ(kin_open(one, O_RDONLY, 0, &fd), -ENOENT);
    EXPECT_EQ(kin_open(one, O_RDWR | O_CREAT, 0600, &fd), 0);
    EXPECT_EQ(kin_pwrite(fd, "abc", 3, 0), 3);
    EXPECT_EQ(kin_pread(fd, buf, sizeof buf, 1), 2);
    EXPECT_STR(buf, "bc");
    EXPECT_EQ(kin_fsync(fd), 0);
    EXPECT_EQ(kin_fdatasync(fd), 0);
    EXPECT_EQ(kin_ftruncate(fd, 2), 0);
    EXPECT_EQ(kin_ftruncate(fd, -2), -EINVAL);
    EXPECT_EQ(kin_fstat(fd, &is), 0);
    EXPECT_EQ(fstat(fd, &was), 0);
    EXPECT_EQ(is.st_size, 2);
    EXPECT(memcmp(&is.st_mtim, &was.st_mtim, sizeof is.st_mtim) == 0);
    EXPECT_EQ(is.st_dev, was.st_dev);
    EXPECT_EQ(is.st_ino, was.st_ino);
    EXPECT_EQ(kin_rename(one, two), 0);
    EXPECT_EQ(kin_stat(one, &is), -ENOENT);
    EXPECT_EQ(kin_stat(two, &is), 0);
    EXPECT_EQ(is.st_ino, was.st_ino);
    EXPECT_EQ(kin_mkdir(one, 0700), 0);
    EXPECT_EQ(kin_remove(one), -EISDIR);
    EXPECT_EQ(kin_rmdir(one), 0);
    EXPECT_EQ(kin_rmdir(two), -ENOTDIR);
    EXPECT_EQ(kin_remove(two), 0);
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_rmdir(dir), 0);
    return 0;
}

static int use_all_by(void *arg)
{
    struct kin_stats stats;
    int rc = use_all(NULL);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_STR(stats.files, arg);
    return rc;
}

static int run_with(enum kin_poller poller, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.poller = poller;
    config.workers = 1;
    return kin_run(&config, fn, arg);
}

/* Whether this system has rings at all. */
static bool has_rings(void)
{
    struct kin__uring ring;
    int rc = kin__uring_create(&ring, 4, 8);
    if (rc == 0)
        kin__uring_destroy(&ring);
    return rc == 0;
}

KIN_TEST(ring_and_threads_do_the_same, "")
{
    char threads[] = "threads", ring[] = "io_uring";
    EXPECT_EQ(run_with(KIN_POLLER_EPOLL, use_all_by, threads), 0);
    if (has_rings())
        EXPECT_EQ(run_with(KIN_POLLER_URING, use_all_by, ring), 0);
}

KIN_TEST(a_ring_that_is_refused_or_lacks_memory_is_replaced_by_threads, "")
{
    static const int errors[] = {-EPERM, -ENOSYS, -EINVAL, -ENOMEM, -EMFILE};
    char threads[] = "threads";
    unsetenv("KIN_POLLER");
    for (unsigned i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        break_it((struct kin__uring_faults){.setup = errors[i]});
        EXPECT_EQ(run_with(KIN_POLLER_AUTO, use_all_by, threads), 0);
    }
}

KIN_TEST(what_an_old_ring_lacks_threads_do, "")
{
    char ring[] = "io_uring";
    if (!has_rings())
        KIN_SKIP("io_uring is refused here");
    unsetenv("KIN_POLLER");
    for (unsigned verb = 0; verb < KIN__URING_VERBS; verb++) {
        break_it((struct kin__uring_faults){.verbs = UINT64_C(1) << verb});
        EXPECT_EQ(run_with(KIN_POLLER_AUTO, use_all_by, ring), 0);
    }
    break_it((struct kin__uring_faults){.verbs = UINT64_MAX});
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, use_all_by, ring), 0);
}

static int use_all_breaking(void *arg)
{
    struct kin__uring_faults *faults = arg;
    int rc = use_all(NULL); /* the ring is there */
    kin__uring_break(faults);
    return rc == 0 ? use_all(NULL) : rc;
}

KIN_TEST(a_kernel_that_takes_nothing_for_a_while_costs_time_only, "")
{
    static const int errors[] = {-EAGAIN, -EBUSY, -EINTR, -ENOMEM};
    unsetenv("KIN_POLLER");
    for (unsigned i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct kin__uring_faults faults = {.enter = errors[i], .enters = 7};
        EXPECT_EQ(run_with(KIN_POLLER_AUTO, use_all_breaking, &faults), 0);
    }
}

/* What the ring would take for something else must not reach it. */
static int ask_oddly(void *arg)
{
    char buf[4];
    int fds[2], fd;
    (void)arg;
    EXPECT_EQ(use_all(NULL), 0);
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    EXPECT_EQ(kin_pread(fds[0], buf, 1, 0), -ESPIPE); /* a ring would read it */
    EXPECT_EQ(kin_pwrite(fds[1], buf, 1, 0), -ESPIPE);
    EXPECT_EQ(kin_open("/", O_RDONLY, 0, &fd), 0);
    EXPECT_EQ(kin_pread(fd, buf, 1, -1), -EINVAL); /* a ring would take that for: where it is */
    EXPECT_EQ(kin_pread(fd, buf, 1, 0), -EISDIR);
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_open("/proc/self/stat", O_RDONLY, 0, &fd), 0);
    EXPECT_EQ(kin_pread(fd, buf, 4, 0), 4);
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(odd_questions_get_the_answers_of_the_system, "")
{
    EXPECT_EQ(run_with(KIN_POLLER_AUTO, ask_oddly, NULL), 0);
    EXPECT_EQ(run_with(KIN_POLLER_EPOLL, ask_oddly, NULL), 0);
}
