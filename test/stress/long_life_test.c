/* SPDX-License-Identifier: MIT */
/*
 * Goal: a nursery may live for years: what belongs to one child goes with that child.
 * Method: many children go through one nursery, few of them alive at a time, once for each way to
 * start one; what the process has of memory after a quarter of them is held against what it has
 * after the last. KIN_LONG_LIFE=n is how many children; `make soak` takes ten million.
 */
#include "api/held.h"

#include <kin/cleanup.h>
#include <kin/local.h>

#define CHILDREN 300000
#define ALIVE 100
#define RESIDENT_MOST (2 * 1024 * 1024) /* ALIVE stacks, and more */

struct life {
    struct kin_nursery *n;
    struct kin_spawn_options options;
    char arg[1024];
    _Atomic int64_t over;
};

static struct life life;

static int live(void *arg)
{
    (void)arg;
    int rc = kin_yield();
    atomic_fetch_add(&life.over, 1);
    return rc;
}

static void note_cleanup(void *arg)
{
    (void)arg;
}

/* ---- ways to start a child ---- */

/* These do not wait for room: whoever is full tries again. */
static int start_bare(void)
{
    int rc;
    while ((rc = kin_spawn(life.n, live, life.arg)) == KIN_FULL) /* ends: a child does */
        EXPECT_EQ(kin_yield(), 0);
    return rc;
}

static int start_copy(void)
{
    int rc;
    while ((rc = kin_spawn_copy(life.n, live, life.arg, 16)) == KIN_FULL) /* ends: a child does */
        EXPECT_EQ(kin_yield(), 0);
    return rc;
}

static int start_with(size_t size, struct kin_task_ref *out)
{
    return kin_spawn_with(life.n, &life.options, live, life.arg, size, out);
}

static int start_plain(void)
{
    return start_with(0, NULL);
}

static int start_small_copy(void)
{
    return start_with(sizeof(int), NULL);
}

static int start_large_copy(void)
{
    return start_with(200, NULL);
}

static int start_huge_copy(void)
{
    return start_with(sizeof life.arg, NULL);
}

static int start_named(void)
{
    struct kin_task_ref child;
    return start_with(16, &child);
}

static int start_with_everything(void)
{
    static const struct kin_local_key key = {NULL, true};
    life.options.name = "child";
    life.options.cleanup = note_cleanup;
    life.options.caps = KIN_CAP_SPAWN | KIN_CAP_TIME;
    life.options.budget = (struct kin_budget){.ops = 100, .memory = 100, .spawns = 1};
    life.options.stack_max_bytes = 65536;
    life.options.priority = KIN_PRIORITY_LOW;
    EXPECT_EQ(kin_local_set(&key, &life), 0);
    return start_with(16, NULL);
}

static int fail(void *arg)
{
    (void)arg;
    return -EIO;
}

/* A child that opens a nursery by hand, with room for more failures than fit into the handle, and
 * leaves that room behind: used or not. */
static int collect(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    options.errors_max = 100;
    options.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (int i = 0; i < *(int *)arg; i++)
        EXPECT_EQ(kin_spawn(&n, fail, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), *(int *)arg ? -EIO : 0);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), *(int *)arg);
    return live(NULL);
}

static int start_collector(void)
{
    static _Atomic int turn;
    int errors = atomic_fetch_add(&turn, 1) % 20;
    return kin_spawn_with(life.n, &life.options, collect, &errors, sizeof errors, NULL);
}

/* ---- the measure ---- */

static int start_them(void *arg)
{
    int (*start)(void) = *(int (**)(void))arg;
    int64_t children = number_or("KIN_LONG_LIFE", CHILDREN / ((SANITIZED ? 20 : 1) *
                                                              (int64_t)kin_test_scale()));
    struct grown before = {0, 0};
    KIN_NURSERY(n, .tasks_max = ALIVE);
    life.n = &n;
    life.over = 0;
    life.options = (struct kin_spawn_options)KIN_SPAWN_OPTIONS_INIT;
    life.options.slot_deadline = KIN_NEVER;
    for (int64_t i = 0; i < children; i++) {
        EXPECT_EQ(start(), 0);
        if (i == children / 4)
            before = measure_memory();
    }
    while (atomic_load(&life.over) < children) /* ends: they do */
        EXPECT_EQ(kin_yield(), 0);
    struct grown after = measure_memory();
    printf("  %lld children: resident %lld KiB after a quarter of them, %lld after all; heap %lld, "
           "%lld\n", (long long)children, (long long)before.resident_bytes / 1024,
           (long long)after.resident_bytes / 1024, (long long)before.heap_bytes / 1024,
           (long long)after.heap_bytes / 1024);
    if (children >= CHILDREN)
        expect_flat(after, before, RESIDENT_MOST);
    return kin_nursery_join(&n, NULL);
}

static void expect_flat_after(int (*start)(void))
{
    hold_one_arena();
    EXPECT_EQ(run_reporting(2, start_them, &start, NULL), 0);
}

KIN_TEST_LIMIT(children_leave_nothing, "", 600)
{
    expect_flat_after(start_plain);
}

KIN_TEST_LIMIT(children_of_a_bare_spawn_leave_nothing, "", 600)
{
    expect_flat_after(start_bare);
}

KIN_TEST_LIMIT(the_copy_of_an_argument_goes_with_the_child, "", 600)
{
    expect_flat_after(start_copy);
}

KIN_TEST_LIMIT(small_copies_go_with_the_children, "", 600)
{
    expect_flat_after(start_small_copy);
}

KIN_TEST_LIMIT(large_copies_go_with_the_children, "", 600)
{
    expect_flat_after(start_large_copy);
}

KIN_TEST_LIMIT(huge_copies_go_with_the_children, "", 600)
{
    expect_flat_after(start_huge_copy);
}

KIN_TEST_LIMIT(names_of_children_that_ended_long_ago_go, "", 600)
{
    expect_flat_after(start_named);
}

KIN_TEST_LIMIT(all_options_of_a_spawn_go_with_the_child, "", 600)
{
    expect_flat_after(start_with_everything);
}

KIN_TEST_LIMIT(what_a_child_kept_of_its_nurseries_goes_with_it, "", 600)
{
    expect_flat_after(start_collector);
}
