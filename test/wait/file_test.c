/* SPDX-License-Identifier: MIT */
/*
 * Goal: a request that waits in line does not reach into whatever has its number by then.
 * Method: white box: the only thread for files is kept busy while a descriptor is closed and its
 * number is used again.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "wait/offload.h"

#include <kin/file.h>

#include <unistd.h>

#define NUMBER 200 /* nobody else gets it: the system gives the lowest that are free */

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
    _Atomic int begun;
    int status;
};

static int sync_it(void *arg)
{
    struct call *call = arg;
    atomic_store(&call->begun, 1);
    call->status = kin_fsync(call->fd);
    return 0;
}

static int close_under_it(void *arg)
{
    struct gate gate = {0};
    struct call call = {.status = -1};
    char path[] = "/tmp/kin-wait-file-XXXXXX";
    (void)arg;
    int made = mkstemp(path);
    EXPECT_GE(made, 0);
    call.fd = dup2(made, NUMBER);
    EXPECT_EQ(call.fd, NUMBER);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, hold_thread, &gate), 0);
    await(&gate.started, 1);
    EXPECT_EQ(kin_spawn(&n, sync_it, &call), 0);
    await(&call.begun, 1);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0);
    EXPECT_EQ(kin_close(call.fd), 0);
    int again = dup2(made, NUMBER);
    EXPECT_EQ(again, NUMBER);
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
    kin__offload_limit(1, KIN_SEC(10));
    EXPECT_EQ(run_reporting(1, close_under_it, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, close_under_it, NULL, NULL), 0);
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
