/* SPDX-License-Identifier: MIT */
/*
 * How many CPUs a process may use, told from trees of files built for the purpose; last words,
 * environment, randomness.
 */
#define _GNU_SOURCE 1
#include "kin_test.h"
#include "plat/plat.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a tree of files ---- */

static char root[64];

static void make_root(void)
{
    (void)snprintf(root, sizeof root, "/tmp/kin-topology-XXXXXX");
    EXPECT(kin_test_mkdtemp(root) != NULL);
}

static void drop_root(void)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    EXPECT_EQ(system(command), 0);
}

/* Writes text to the file at path below the root, making the directories on the way. */
static void put(const char *path, const char *text)
{
    char full[512];

    (void)snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        EXPECT(mkdir(full, 0755) == 0 || errno == EEXIST);
        *p = '/';
    }
    FILE *file = fopen(full, "w");
    EXPECT(file != NULL);
    EXPECT(fputs(text, file) >= 0);
    EXPECT_EQ(fclose(file), 0);
}

/* ---- quotas ---- */

KIN_TEST(without_control_groups_there_is_no_quota, "")
{
    make_root();
    EXPECT_EQ(kin__cpu_quota(root), 0);
    put("/proc/self/cgroup", "0::/\n");
    EXPECT_EQ(kin__cpu_quota(root), 0);
    EXPECT_EQ(kin__cpu_quota("/nowhere/at/all"), 0);
    drop_root();
}

KIN_TEST(version_2_quota_is_rounded_up, "")
{
    static const struct {
        const char *text;
        unsigned cpus;
    } cases[] = {
        {"max 100000\n", 0},    {"100000 100000\n", 1}, {"150000 100000\n", 2},
        {"200000 100000\n", 2}, {"10000 100000\n", 1},  {"6400000 100000\n", 64},
        {"250000 50000", 5},
    };

    make_root();
    put("/proc/self/cgroup", "0::/app\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put("/sys/fs/cgroup/app/cpu.max", cases[i].text);
        EXPECT_EQ(kin__cpu_quota(root), cases[i].cpus);
    }
    drop_root();
}

KIN_TEST(the_tightest_group_above_counts, "")
{
    make_root();
    put("/proc/self/cgroup", "0::/slice/unit/leaf\n");
    put("/sys/fs/cgroup/slice/unit/leaf/cpu.max", "800000 100000\n");
    EXPECT_EQ(kin__cpu_quota(root), 8);
    put("/sys/fs/cgroup/slice/cpu.max", "300000 100000\n");
    EXPECT_EQ(kin__cpu_quota(root), 3);
    put("/sys/fs/cgroup/slice/unit/cpu.max", "max 100000\n");
    EXPECT_EQ(kin__cpu_quota(root), 3);
    drop_root();
}

KIN_TEST(a_container_finds_its_group_at_the_root, "")
{
    make_root();
    put("/proc/self/cgroup", "0::/docker/0123456789abcdef\n");
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    EXPECT_EQ(kin__cpu_quota(root), 2);
    put("/proc/self/cgroup", "0::/../../elsewhere\n");
    EXPECT_EQ(kin__cpu_quota(root), 2);
    drop_root();
}

KIN_TEST(version_1_quota_is_two_files, "")
{
    make_root();
    put("/proc/self/cgroup", "12:memory:/a\n4:cpu,cpuacct:/a/b\n3:cpuset:/a\n1:name=systemd:/a\n");
    put("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(kin__cpu_quota(root), 0);
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "350000\n");
    EXPECT_EQ(kin__cpu_quota(root), 0); /* no period, no limit */
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(kin__cpu_quota(root), 4);
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(kin__cpu_quota(root), 1);
    drop_root();
}

KIN_TEST(other_controllers_are_not_cpu, "")
{
    make_root();
    put("/proc/self/cgroup", "4:cpuacct:/a\n3:cpuset,xcpu:/a\n");
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(kin__cpu_quota(root), 0);
    drop_root();
}

KIN_TEST(nonsense_is_no_limit, "")
{
    static const char *const texts[] = {
        "",           "\n",          "0 100000\n",
        "100000 0\n", "-5 100000\n", "abc def\n",
        "100000\n",   "max\n",       "99999999999999999999999999 1\n",
        "7\t",        "100000 -1\n",
    };
    static const char *const groups[] = {"", "\n\n", "0", "0:", "0::", ":::::", "x\n0::/app\n"};
    char *large = malloc(100001);

    make_root();
    put("/proc/self/cgroup", "0::/app\n");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put("/sys/fs/cgroup/app/cpu.max", texts[i]);
        EXPECT_EQ(kin__cpu_quota(root), 0);
    }
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        put("/proc/self/cgroup", groups[i]);
        EXPECT_EQ(kin__cpu_quota(root), 0);
    }
    /* A file larger than every buffer, and a path longer than any. */
    EXPECT(large != NULL);
    memset(large, 'a', 100000);
    large[100000] = 0;
    memcpy(large, "0::/", 4);
    put("/proc/self/cgroup", large);
    EXPECT_EQ(kin__cpu_quota(root), 0);
    memset(large + 4, '/', 99996);
    put("/proc/self/cgroup", large);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    EXPECT_EQ(kin__cpu_quota(root), 1); /* cut, but the root is above all */
    free(large);
    drop_root();
}

/* ---- affinity ---- */

KIN_TEST(the_count_respects_the_affinity, "")
{
    cpu_set_t before, one;

    EXPECT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    unsigned all = kin__cpu_count();
    EXPECT_GE(all, 1);
    EXPECT_LE(all, CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
            break;
        }
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(kin__cpu_count(), 1);
}

/* ---- last words, environment, randomness ---- */

KIN_TEST(a_text_is_written_whole, "")
{
    char text[3000], back[4000];
    int ends[2];

    memset(text, 'x', sizeof text);
    EXPECT_EQ(pipe(ends), 0);
    errno = 77;
    kin__plat_write(ends[1], text, sizeof text);
    EXPECT_EQ(errno, 77);
    EXPECT_EQ(read(ends[0], back, sizeof back), sizeof text);
    EXPECT_EQ(memcmp(text, back, sizeof text), 0);
    EXPECT_EQ(kin__plat_write(-1, text, sizeof text), -EBADF); /* nobody is there: no harm */
    EXPECT_EQ(errno, 77);
}

static int drain_end;
static size_t drained;

static void drain(void *arg)
{
    char buffer[5000];
    ssize_t n;

    (void)arg;
    while ((n = read(drain_end, buffer, sizeof buffer)) > 0)
        drained += (size_t)n;
}

KIN_TEST(a_full_pipe_is_waited_for, "")
{
    static char text[1000000];
    struct kin__thread thread;
    int ends[2];

    EXPECT_EQ(pipe2(ends, 0), 0);
    EXPECT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    drain_end = ends[0];
    EXPECT_EQ(kin__thread_start(&thread, drain, NULL, 65536, "drain"), 0);
    kin__plat_write(ends[1], text, sizeof text);
    (void)close(ends[1]);
    kin__thread_join(&thread);
    EXPECT_EQ(drained, sizeof text);
}

KIN_TEST(abort_ends_by_its_signal, "")
{
    EXPECT_ABORT ("last words") {
        kin__plat_write(2, "last words\n", 11);
        kin__plat_abort();
    }
}

KIN_TEST(the_environment_can_be_read, "")
{
    EXPECT_EQ(setenv("KIN_TOPOLOGY_TEST", "value", 1), 0);
    EXPECT_STR(kin__plat_env("KIN_TOPOLOGY_TEST"), "value");
    EXPECT_EQ(unsetenv("KIN_TOPOLOGY_TEST"), 0);
    EXPECT_PTR(kin__plat_env("KIN_TOPOLOGY_TEST"), NULL);
}

KIN_TEST(entropy_does_not_repeat, "")
{
    uint64_t seen[64];

    for (int i = 0; i < 64; i++) {
        seen[i] = kin__plat_entropy();
        for (int j = 0; j < i; j++)
            EXPECT_NE(seen[i], seen[j]);
    }
}
