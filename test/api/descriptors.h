/* SPDX-License-Identifier: MIT */
/*
 * How many descriptors the process has open, but for those below /proc: the monitor opens one there
 * now and then, for a moment, to see whether a worker sleeps in the kernel.
 */
#ifndef KIN_TEST_DESCRIPTORS_H
#define KIN_TEST_DESCRIPTORS_H

#include "kin_test.h"

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
        count += length > 0 && strncmp(target, "/proc/", 6) != 0; /* dots are no links */
    }
    closedir(dir);
    return count;
}

#endif
