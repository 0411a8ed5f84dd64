/* SPDX-License-Identifier: MIT */
/*
 * Goal: a copy of an argument is whole, aligned, the child's alone, and gone when the child is
 *       over, whatever its size and however the child ends; who is metered has paid for it so long.
 * Method: white box: the bits that say where a copy lies, frames that come back, budgets.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "scope/argument.h"
#include "sched/blocks.h"

enum how { RETURN, FAIL, PANIC, CANCELLED, UNRUN, HOWS };

static const size_t sizes[] = {1, 4, 47, 48, 49, 64, 239, 240, 241, 5000};
#define SIZES (sizeof sizes / sizeof sizes[0])

struct seen {
    const unsigned char *copy; /* as the child saw it */
    uint16_t where;
    size_t size;
    enum how how;
};

static struct seen seen;
static struct reports reports; /* panics are, and nobody looks */

static void see(const unsigned char *copy)
{
    seen.copy = copy;
    seen.where = kin__task_self()->caps & KIN__CAPS_COPY;
    EXPECT_EQ((uintptr_t)copy % 16, 0);
    for (size_t i = 0; i < seen.size; i++)
        EXPECT_EQ(copy[i], (unsigned char)(i * 7 + 1));
}

static int end_somehow(void *arg)
{
    see(arg);
    if (seen.how == FAIL)
        kin_fail(-EIO, "on purpose");
    if (seen.how == PANIC)
        kin_panic("on purpose");
    return 0;
}

static uint16_t expected_place(size_t size, bool is_metered)
{
    if (is_metered || size > 240)
        return KIN__CAPS_COPY;
    return size <= 48 ? KIN__CAPS_SMALL : KIN__CAPS_LARGE;
}

/* One child with a copy. */
static void spawn_one(size_t size, enum how how, bool is_metered)
{
    static unsigned char arg[5000];
    uint64_t before = kin_budget_left().memory;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    for (size_t i = 0; i < size; i++)
        arg[i] = (unsigned char)(i * 7 + 1);
    seen = (struct seen){.size = size, .how = how};
    EXPECT_EQ(kin_spawn_copy(&n, end_somehow, arg, size), 0);
    if (is_metered)
        EXPECT_EQ(kin_budget_left().memory, before - size);
    memset(arg, 0xee, size); /* whatever becomes of the original */
    if (how == CANCELLED)
        kin_nursery_cancel(&n, 0);
    kin_ignore(kin_nursery_join(&n, NULL));
    EXPECT_EQ(kin_budget_left().memory, before);
    if (how == CANCELLED) {
        EXPECT_PTR(seen.copy, NULL);
        return;
    }
    EXPECT_EQ(seen.where, expected_place(size, is_metered));
    if (!is_metered && size <= 240) { /* the frame is the next one to be had, its name over */
        struct kin__frame *frame =
            kin__block_take(size <= 48 ? KIN__FRAME_SMALL : KIN__FRAME_LARGE);
        EXPECT_PTR(frame + 1, seen.copy);
        kin__block_give(size <= 48 ? KIN__FRAME_SMALL : KIN__FRAME_LARGE, frame);
    }
}

static int spawn_all(void *arg)
{
    bool is_metered = arg != NULL;
    for (size_t i = 0; i < SIZES; i++) {
        for (int how = RETURN; how < UNRUN; how++)
            spawn_one(sizes[i], (enum how)how, is_metered);
    }
    return 0;
}

KIN_TEST(a_copy_lies_where_its_size_says_and_goes_with_the_child, "B6")
{
    EXPECT_EQ(run_reporting(1, spawn_all, NULL, &reports), 0);
}

static int spawn_metered(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n);
    options.budget = (struct kin_budget){.ops = 10000, .memory = 5000, .spawns = 1000};
    EXPECT_EQ(kin_spawn_with(&n, &options, spawn_all, arg, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_metered_spawner_has_paid_for_a_copy_until_the_child_is_over, "SCHED:3.3.1 SCHED:8.2.1")
{
    EXPECT_EQ(run_reporting(1, spawn_metered, "", &reports), 0);
}

/* There is no memory for the child's stack: it never runs, and its copy goes all the same. */
static int spawn_unrun(void *arg)
{
    (void)arg;
    struct kin__frame *frame = kin__block_take(KIN__FRAME_SMALL);
    kin__block_give(KIN__FRAME_SMALL, frame);
    int one = 1;
    KIN_NURSERY(n);
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.stack_max_bytes = (size_t)4 << 20; /* of which there is none yet */
    EXPECT_EQ(kin_spawn_with(&n, &options, end_somehow, &one, sizeof one, NULL), 0);
    kin__plat_fail_after(1, true);
    int rc = kin_nursery_join(&n, NULL);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(rc, -ENOMEM);
    EXPECT_PTR(kin__block_take(KIN__FRAME_SMALL), frame);
    kin__block_give(KIN__FRAME_SMALL, frame);
    return 0;
}

KIN_TEST(the_copy_of_a_child_that_gets_no_stack_goes, "B6")
{
    EXPECT_EQ(run_reporting(1, spawn_unrun, NULL, &reports), 0);
}
