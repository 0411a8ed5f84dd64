/* SPDX-License-Identifier: MIT */
/*
 * Goal: clocks and dice of the C library repeat themselves in a run, and are the system's outside.
 * Method: each function inside, compared from run to run, and outside.
 */
#include "lab/in_lab.h"

#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct readings {
    struct timespec monotonic, real;
    struct timeval day;
    time_t seconds;
    uint64_t random, entropy;
    long cpus;
    char host[64];
};

static struct readings first;
static unsigned runs;

static void read_all(struct readings *out)
{
    memset(out, 0, sizeof(*out));
    kin_lab_assert(clock_gettime(CLOCK_MONOTONIC, &out->monotonic) == 0, "clock_gettime");
    kin_lab_assert(clock_gettime(CLOCK_REALTIME, &out->real) == 0, "clock_gettime");
    kin_lab_assert(gettimeofday(&out->day, NULL) == 0, "gettimeofday");
    out->seconds = time(NULL);
    kin_lab_assert(getrandom(&out->random, 8, 0) == 8, "getrandom");
    kin_lab_assert(getentropy(&out->entropy, 8) == 0, "getentropy");
    out->cpus = sysconf(_SC_NPROCESSORS_ONLN);
    kin_lab_assert(gethostname(out->host, sizeof(out->host)) == 0, "gethostname");
}

static int compare(void *arg)
{
    struct readings now;
    (void)arg;
    read_all(&now);
    if (runs++ == 0)
        first = now;
    now.random = first.random; /* each run has dice of its own */
    now.entropy = first.entropy;
    kin_lab_assert(memcmp(&now, &first, sizeof(now)) == 0, "every run reads the same");
    KIN_LAB_OK(kin_sleep(kin_after(KIN_SEC(100))));
    read_all(&now);
    kin_lab_assert(now.seconds == first.seconds + 100, "the calendar is virtual");
    kin_lab_assert(now.real.tv_sec == now.seconds && now.day.tv_sec == now.seconds, "one clock");
    kin_lab_assert(now.monotonic.tv_sec == first.monotonic.tv_sec + 100, "so is this one");
    return 0;
}

KIN_TEST(the_library_s_clocks_are_virtual_in_a_run, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 10, compare, NULL), 0);
    EXPECT_GE(runs, 10);
    EXPECT_EQ(first.cpus, 2);
    EXPECT_STR(first.host, "lab");
    EXPECT_NE(first.random, first.entropy);
}

KIN_TEST(outside_they_are_the_system_s, "")
{
    struct readings now, later;
    memset(&now, 0, sizeof(now));
    EXPECT_EQ(clock_gettime(CLOCK_REALTIME, &now.real), 0);
    EXPECT_GT(now.real.tv_sec, 1700000000);
    EXPECT_EQ(gettimeofday(&now.day, NULL), 0);
    EXPECT_LE(now.day.tv_sec - now.real.tv_sec, 5);
    EXPECT_LE(time(NULL) - now.real.tv_sec, 5);
    EXPECT_EQ(clock_gettime(CLOCK_MONOTONIC, &now.monotonic), 0);
    do
        EXPECT_EQ(clock_gettime(CLOCK_MONOTONIC, &later.monotonic), 0);
    while (later.monotonic.tv_nsec == now.monotonic.tv_nsec);
    EXPECT_EQ(getrandom(&now.random, 8, 0), 8);
    EXPECT_EQ(getentropy(&later.random, 8), 0);
    EXPECT_NE(now.random, later.random);
    EXPECT_GE(sysconf(_SC_NPROCESSORS_ONLN), 1);
    EXPECT_GE(sysconf(_SC_PAGESIZE), 4096);
    EXPECT_EQ(gethostname(now.host, sizeof(now.host)), 0);
    EXPECT_NE(now.host[0], 0);
    EXPECT_EQ(gethostname(now.host, 1), -1);
    EXPECT_EQ(kin_errno(), ENAMETOOLONG);
    static char large[300];
    EXPECT_EQ(getentropy(large, 257), -1);
}
