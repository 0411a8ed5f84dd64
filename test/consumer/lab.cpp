/* SPDX-License-Identifier: MIT */
/*
 * A test of a user in C++17, with a test framework of its own: it calls the lab as it is installed.
 * The count is not locked, which the lab must find.
 */
#include <kin/kin.h>
#include <kin/lab.h>

#include <cstdio>
#include <cstring>

static int count_one(void *arg)
{
    int *count = static_cast<int *>(arg);
    int before = KIN_SHARED(*count);
    KIN_SHARED(*count) = before + 1;
    return 0;
}

static int count_two(void *)
{
    int count = 0;
    struct kin_nursery n;
    int rc = kin_nursery_open(&n, nullptr);
    if (rc == 0)
        rc = kin_spawn(&n, count_one, &count);
    if (rc == 0)
        rc = kin_spawn(&n, count_one, &count);
    int joined = kin_nursery_join(&n, nullptr);
    kin_lab_assert(rc < 0 || joined < 0 || count == 2, "two are two");
    return rc < 0 ? rc : joined;
}

int main()
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    struct kin_lab_report report;
    config.strategy = KIN_LAB_DPOR;
    int rc = kin_lab_run(&config, count_two, nullptr, &report);
    std::fputs(report.text, stdout);
    return rc == KIN_PANICKED && std::strcmp(report.oracle, "assert") == 0 ? 0 : 1;
}
