/* SPDX-License-Identifier: MIT */
/*
 * What the tests of cleanups share: cleanups that write letters, and running one task in such a way
 * that what it wrote and how it ended can be compared.
 */
#ifndef KIN_TEST_LETTERS_H
#define KIN_TEST_LETTERS_H

#include "api/in_runtime.h"

#include <stdatomic.h>
#include <kin/cleanup.h>

/* ---- letters ---- */

static char text[64];
static _Atomic int at;

__attribute__((unused)) static void clear_text(void)
{
    memset(text, 0, sizeof text);
    atomic_store(&at, 0);
}

__attribute__((unused)) static void put_letter(char letter)
{
    int i = atomic_fetch_add(&at, 1);

    EXPECT_LT(i, (int)sizeof text - 1);
    text[i] = letter;
}

/* A cleanup that writes the letter it points to. */
__attribute__((unused)) static void write_it(void *arg)
{
    put_letter(*(const char *)arg);
}

__attribute__((unused)) static int write_and_succeed(void *arg)
{
    put_letter(*(const char *)arg);
    return 7;
}

__attribute__((unused)) static int write_and_fail(void *arg)
{
    put_letter(*(const char *)arg);
    return -EIO;
}

__attribute__((unused)) static void write_then_kin_fail(void *arg)
{
    put_letter(*(const char *)arg);
    kin_fail(-EPIPE, "on purpose");
}

__attribute__((unused)) static void write_then_panic(void *arg)
{
    put_letter(*(const char *)arg);
    kin_panic("on purpose");
}

#define LETTER(c) ((void *)(uintptr_t)("" c))
#define DEFER(c) EXPECT_EQ(kin_defer(write_it, LETTER(c)), 0)

__attribute__((unused)) static void defer_abc(void)
{
    DEFER("a");
    DEFER("b");
    DEFER("c");
}

/* ---- running one task ---- */

/* How the child of a run is started. */
enum start { ON_BORROWED, ON_OWN, START_KINDS };

struct one {
    kin_task_fn *fn;
    void *arg;
    enum start start;
    bool cancels; /* once it runs */
    _Atomic int runs;
    struct kin_outcome out;
    int joined;
};

__attribute__((unused)) static int be_one(void *arg)
{
    struct one *one = arg;

    if (one->start == ON_OWN)
        EXPECT_EQ(kin_yield(), 0);
    atomic_store(&one->runs, 1);
    return one->fn(one->arg);
}

__attribute__((unused)) static int run_one(void *arg)
{
    struct one *one = arg;
    struct kin_task_ref ref;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);

    options.name = "the one";
    atomic_store(&one->runs, 0);
    EXPECT_EQ(kin_spawn_with(&n, &options, be_one, one, 0, &ref), 0);
    if (one->start == ON_OWN || one->cancels)
        await(&one->runs, 1);
    if (one->cancels)
        EXPECT_EQ(kin_task_cancel(ref), 0);
    if (one->start == ON_OWN) /* else the join below runs it, on 1 worker at least */
        EXPECT_EQ(kin_task_join(&n, ref, &one->out, KIN_NEVER), 0);
    one->joined = kin_nursery_join(&n, one->start == ON_OWN ? NULL : &one->out);
    return 0;
}

/* Runs fn(arg) as a child on 1, 2 and 4 workers and both kinds of stack; compares how it ended and
 * what its cleanups wrote. */
__attribute__((unused)) static void expect_way_cancelling(kin_task_fn *fn, void *arg,
                                                          enum kin_severity severity, int status,
                                                          const char *written, bool cancels)
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        for (int start = 0; start < START_KINDS; start++) {
            struct one one = {fn, arg, (enum start)start, cancels, 0, {KIN_SEV_OK, 0, 0, 0, ""}, 0};
            clear_text();
            EXPECT_EQ(run_reporting(workers, run_one, &one, NULL), 0);
            EXPECT_STR(text, written);
            EXPECT_EQ(one.joined, severity == KIN_SEV_CANCELLED ? 0 : status);
            if (severity != KIN_SEV_CANCELLED || start == ON_OWN) {
                EXPECT_EQ(one.out.severity, severity);
                EXPECT_EQ(one.out.status, status);
            }
        }
    }
}

__attribute__((unused)) static void expect_way(kin_task_fn *fn, void *arg,
                                               enum kin_severity severity, int status,
                                               const char *written)
{
    expect_way_cancelling(fn, arg, severity, status, written, false);
}

/* ---- cleanups and children that several tests need ---- */

struct writer {
    void *letter;
    _Atomic int has_begun;
};

/* Sleeps until it is cancelled; its cleanup writes the letter. */
__attribute__((unused)) static int sleep_and_write(void *arg)
{
    struct writer *writer = arg;
    EXPECT_EQ(kin_defer(write_it, writer->letter), 0);
    atomic_store(&writer->has_begun, 1); /* from here on the writer may be gone */
    return kin_sleep(KIN_NEVER);
}

/* Starts a child and waits until it has put its cleanup down. */
__attribute__((unused)) static void spawn_writer(struct kin_nursery *n, void *letter)
{
    struct writer writer = {letter, 0};
    EXPECT_EQ(kin_spawn(n, sleep_and_write, &writer), 0);
    while (!atomic_load(&writer.has_begun)) /* ends: the child runs */
        kin_ignore(kin_yield());
}

/* A cleanup that spawns, parks, sleeps and joins. */
__attribute__((unused)) static void use_the_runtime(void *arg)
{
    int two = 2;
    _Atomic int count = 0;
    KIN_NURSERY(n);

    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_spawn(&n, count_it, &count), 0);
    EXPECT_EQ(kin_spawn(&n, return_it, &two), 0);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&count), 3);
    put_letter(*(const char *)arg);
}

#endif
