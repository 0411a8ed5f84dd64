/* SPDX-License-Identifier: MIT */
/*
 * Time: the monotonic clock, which runs on through clock changes and stands still in suspend.
 */
#define _GNU_SOURCE 1
#include "plat/plat.h"

#include <time.h>

#ifdef KIN__LAB /* the lab has a clock in front of this one: lab/clock.c */
#define kin__clock_now kin__host_now
#endif

int64_t kin__clock_now(void)
{
    struct timespec now;

    /* Cannot fail: the clock exists on every Linux and the pointer is good. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
