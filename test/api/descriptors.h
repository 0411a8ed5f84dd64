/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of the process for tests that count them or use a number again. Other threads open
 * some for a moment: the monitor a file below /proc, to see whether a worker sleeps in the kernel;
 * the C library one below /sys when a thread allocates for the first time. So files of the kernel
 * do not count, and nothing may be expected of the numbers that the system gives.
 */
#ifndef KIN_TEST_DESCRIPTORS_H
#define KIN_TEST_DESCRIPTORS_H

#include "kin_test.h"

#include <kin/run.h>

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

__attribute__((unused)) static int count_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    EXPECT(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));) { /* ends: at the last */
        char target[8] = "";
        ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        bool is_of_kernel = strncmp(target, "/proc/", 6) == 0 || strncmp(target, "/sys/", 5) == 0;
        count += length > 0 && !is_of_kernel; /* dots are no links */
    }
    closedir(dir);
    return count;
}

#define NUMBER_OF_OURS 200 /* nobody else gets it: the system gives the lowest that are free */

/* Gives a descriptor a number that only the test uses, in place of the one it has. In the lab there
 * are no other threads, and its descriptors keep their numbers. */
__attribute__((unused)) static int renumber(int fd, int number)
{
    if (kin_in_lab())
        return fd;
    EXPECT_EQ(dup2(fd, number), number);
    EXPECT_EQ(close(fd), 0);
    return number;
}

#endif
