/* SPDX-License-Identifier: MIT */
/*
 * Goal: the table of descriptors: generations, bits that stay for whoever comes next, limits.
 * Method: white box: operations begun by hand on pipes inside a task.
 */
#include "api/in_runtime.h"

#include "wait/poll.h"

#include <kin/io.h>

#include <fcntl.h>
#include <unistd.h>

static int keep_bits(void *arg)
{
    int fds[2];
    struct kin__fd fd, again;
    (void)arg;
    EXPECT_EQ(pipe2(fds, O_NONBLOCK), 0);
    EXPECT_EQ(kin__fd_begin(fds[0], &fd), 0);
    EXPECT_EQ(kin__fd_prepare(&fd), 0);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    struct kin__fd_case one = {fd, KIN__READY_READ};
    int status = 0;
    for (int i = 0; i < 1000 && !kin__fd_waitable.try_complete(&one, NULL, &status); i++)
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0); /* somebody polls meanwhile */
    EXPECT_EQ(status, KIN__READY_READ); /* nobody waited: it was kept */
    EXPECT(!kin__fd_waitable.try_complete(&one, NULL, &status)); /* and taken */
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, kin_after(KIN_MS(1))), KIN__READY_READ);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT(kin__fd_waitable.try_complete(&one, NULL, &status));
    EXPECT_EQ(status, KIN_CLOSED);
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, KIN_NEVER), KIN_CLOSED);
    int reused = dup(fds[1]); /* the same number, another descriptor */
    EXPECT_EQ(reused, fds[0]);
    EXPECT_EQ(kin__fd_begin(reused, &again), 0);
    EXPECT_NE(again.generation, fd.generation);
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, KIN_NEVER), KIN_CLOSED);
    EXPECT_EQ(kin_close(reused), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(an_event_that_nobody_waited_for_is_kept, "A9")
{
    EXPECT_EQ(run_reporting(1, keep_bits, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, keep_bits, NULL, NULL), 0);
}

static int reach_limits(void *arg)
{
    struct kin__fd fd;
    (void)arg;
    EXPECT_EQ(kin__fd_begin(-1, &fd), -EBADF);
    EXPECT_EQ(kin__fd_begin(1 << 22, &fd), -EMFILE);
    EXPECT_EQ(kin__fd_begin((1 << 22) - 1, &fd), -EBADF);
    FILE *file = tmpfile();
    EXPECT(file != NULL);
    EXPECT_EQ(kin__fd_begin(fileno(file), &fd), 0);
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, KIN_NEVER), -EPERM); /* a file is always ready */
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, 0), KIN_TIMEOUT);
    fclose(file);
    return 0;
}

KIN_TEST(numbers_beyond_the_table_and_files_are_refused, "")
{
    EXPECT_EQ(run_reporting(1, reach_limits, NULL, NULL), 0);
}

static int fail_to_start(void *arg)
{
    int fds[2];
    struct kin__fd fd;
    (void)arg;
    EXPECT_EQ(pipe2(fds, O_NONBLOCK), 0);
    EXPECT_EQ(kin__fd_begin(fds[0], &fd), 0);
    for (uint64_t n = 1; n <= 3; n++) {
        kin__plat_fail_after(n, false);
        EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, kin_after(1)), -ENOMEM);
    }
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin__fd_wait(&fd, KIN__READY_READ, kin_after(1)), KIN_TIMEOUT);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_close(fds[1]), 0);
    return 0;
}

KIN_TEST(no_memory_for_the_poller_is_told_and_leaves_nothing, "")
{
    EXPECT_EQ(run_reporting(1, fail_to_start, NULL, NULL), 0);
}
