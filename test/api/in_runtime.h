/* SPDX-License-Identifier: MIT */
/*
 * What the black-box tests share: running a body as the first task, waits by yields, reports.
 *
 * Public headers only. Waits are bounded by the alarm of the test, never by a clock.
 */
#ifndef KIN_TEST_IN_RUNTIME_H
#define KIN_TEST_IN_RUNTIME_H

#include "kin_test.h"

#include <kin/kin.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Sanitizers do not know stacks that are left by a fault. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Everything that on_report was told, in order; more than fit are counted only. */
struct reports {
    _Atomic int count;
    int status[8];
    uint64_t task[8];
    char text[8][512];
};

__attribute__((unused)) static void keep_report(const struct kin_report *report, void *arg)
{
    struct reports *reports = arg;
    int i = atomic_fetch_add(&reports->count, 1);

    if (i >= 8)
        return;
    reports->status[i] = report->status;
    reports->task[i] = report->task;
    snprintf(reports->text[i], sizeof reports->text[i], "%s", report->text);
}

uint64_t kin__frame_life(uint64_t name); /* mem/frame.h: which life of its frame */

/* How reports and dumps call the task with this id, as <kin/run.h> says: "task 17.2". */
__attribute__((unused)) static const char *said(uint64_t id, char *words, size_t size)
{
    unsigned index = (unsigned)(id & ((1u << 26) - 1));
    unsigned long long uses = kin__frame_life(id);

    snprintf(words, size, uses > 1 ? "task %u.%llu" : "task %u", index, uses);
    return words;
}

/* Runs fn(arg) as the first task; 0 workers: as many as there are CPUs. A lone worker stays alone:
 * whoever runs there goes on until it parks, also if something blocks. Reports go to reports, or
 * nowhere. */
__attribute__((unused)) static int run_reporting(unsigned workers, kin_task_fn *fn, void *arg,
                                                 struct reports *reports)
{
    static struct reports nowhere;
    struct kin_config config = KIN_CONFIG_INIT;

    config.workers = workers;
    config.workers_max = workers == 1;
    if (workers == 1)
        config.stall_threshold = KIN_NEVER; /* a slow machine must not change the order */
    config.seed = kin_test_seed();
    config.on_report = keep_report;
    config.report_arg = reports ? reports : &nowhere;
    return kin_run(&config, fn, arg);
}

/* The same on 1, 2 and 4 workers one after the other; the body must return 0 each time. In the lab,
 * which has every order of steps anyway, once. */
__attribute__((unused)) static void run_on_few(kin_task_fn *fn, void *arg)
{
    for (unsigned workers = kin_in_lab() ? 4 : 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_reporting(workers, fn, arg, NULL), 0);
}

/* How many are wanted: few in the lab, which goes through many orders of them. */
__attribute__((unused)) static int enough(int wanted, int in_lab)
{
    return kin_in_lab() ? in_lab : wanted;
}

/* Lets others run until *flag is at least value. */
__attribute__((unused)) static void await(_Atomic int *flag, int value)
{
    while (atomic_load(flag) < value)
        kin_ignore(kin_yield());
}

/* How many tasks of the runtime are parked on what, as a dump says. */
__attribute__((unused)) static int count_parked(const char *what)
{
    int fd = memfd_create("dump", MFD_CLOEXEC), count = 0;
    char words[64];
    EXPECT_GE(fd, 0);
    EXPECT_EQ(kin_dump(fd), 0);
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    EXPECT(text != NULL);
    EXPECT_EQ(pread(fd, text, (size_t)size, 0), size);
    snprintf(words, sizeof words, ": parked on %s", what); /* ": ": in the line about a task */
    for (const char *at = text; (at = strstr(at, words)); at++) /* ends: with the text */
        count++;
    free(text);
    close(fd);
    return count;
}

/* Lets others run until so many tasks are parked on what. The lab, where time passes only when
 * nobody can do anything, is asked for a moment instead. */
__attribute__((unused)) static void await_parked(int count, const char *what)
{
    if (kin_in_lab())
        kin_ignore(kin_sleep(kin_after(KIN_MS(1))));
    else
        while (count_parked(what) != count) /* ends: by the alarm of the test at the latest */
            kin_ignore(kin_yield());
}

/* ---- bodies that many tests need ---- */

/* Returns the int it points to. */
__attribute__((unused)) static int return_it(void *arg)
{
    return *(int *)arg;
}

/* Counts and succeeds. */
__attribute__((unused)) static int count_it(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    return 0;
}

/* Sleeps until it is cancelled; returns what the sleep returned. */
__attribute__((unused)) static int sleep_for_ever(void *arg)
{
    if (arg)
        atomic_fetch_add((_Atomic int *)arg, 1);
    return kin_sleep(KIN_NEVER);
}

/* Yields until it is cancelled. */
__attribute__((unused)) static int yield_for_ever(void *arg)
{
    if (arg)
        atomic_fetch_add((_Atomic int *)arg, 1);
    for (;;) {
        int rc = kin_yield();
        if (rc < 0)
            return rc;
    }
}

#endif
