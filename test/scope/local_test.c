/* SPDX-License-Identifier: MIT */
/*
 * Goal: the table of local values keeps its order, knows what is borrowed, and spawns that have
 * nothing to hand down give the child nothing.
 * Method: white box: the belongings of running tasks and of their children are looked at.
 */
#include "api/in_runtime.h"

#include <kin/local.h>

#include "plat/plat.h"
#include "sched/extra.h"
#include "sched/worker.h"

static char values[16];
static const struct kin_local_key keys[16] = {{NULL, true}, {NULL, false}, {NULL, true}};

static struct kin__locals *mine(void)
{
    struct kin__task *task = kin__task_self();

    return task->flags & KIN__TASK_EXTRA ? &task->extra->locals : NULL;
}

static int keep_order(void *arg)
{
    (void)arg;
    EXPECT_PTR(mine(), NULL);
    EXPECT_EQ(kin_local_set(&keys[0], NULL), 0);
    EXPECT_PTR(mine(), NULL); /* nothing to take away: nothing is made */
    for (int i = 0; i < 16; i++) {
        EXPECT_EQ(kin_local_set(&keys[i], &values[i]), 0);
        EXPECT_EQ(mine()->count, i + 1);
        EXPECT_EQ(mine()->table == mine()->first, i < (int)KIN__LOCALS_INLINE);
    }
    EXPECT_EQ(kin_local_set(&keys[3], &values[0]), 0); /* goes to the end */
    EXPECT_EQ(mine()->count, 16);
    EXPECT_PTR(mine()->table[15].key, &keys[3]);
    EXPECT_PTR(mine()->table[3].key, &keys[4]);
    EXPECT_EQ(kin_local_set(&keys[0], NULL), 0);
    EXPECT_EQ(mine()->count, 15);
    EXPECT_PTR(mine()->table[0].key, &keys[1]);
    return 0;
}

KIN_TEST(values_stand_in_the_order_of_setting, "")
{
    EXPECT_EQ(run_reporting(1, keep_order, NULL, NULL), 0);
}

static int expect_borrowed(void *arg)
{
    (void)arg;
    EXPECT(mine() != NULL);
    EXPECT_EQ(mine()->count, 2);
    EXPECT_PTR(mine()->table[0].key, &keys[0]);
    EXPECT_PTR(mine()->table[1].key, &keys[2]);
    EXPECT_EQ(mine()->table[0].is_borrowed, 1);
    EXPECT_EQ(kin_local_set(&keys[0], &values[9]), 0);
    EXPECT_EQ(mine()->table[1].is_borrowed, 0);
    return 0;
}

static int expect_nothing(void *arg)
{
    (void)arg;
    EXPECT_PTR(mine(), NULL);
    return 0;
}

static int hand_down(void *arg)
{
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_local_set(&keys[1], &values[1]), 0);
    EXPECT_EQ(kin_spawn(&n, expect_nothing, NULL), 0);
    EXPECT_EQ(kin_local_set(&keys[0], &values[0]), 0);
    EXPECT_EQ(kin_local_set(&keys[2], &values[2]), 0);
    EXPECT_EQ(kin_spawn(&n, expect_borrowed, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_PTR(kin_local_get(&keys[0]), &values[0]);
    return 0;
}

KIN_TEST(only_what_is_to_be_inherited_goes_to_a_child, "")
{
    run_on_few(hand_down, NULL);
}

static int be_short(void *arg)
{
    (void)arg;
    for (int i = 0; i < (int)KIN__LOCALS_INLINE; i++)
        EXPECT_EQ(kin_local_set(&keys[i], &values[i]), 0);
    kin__plat_fail_after(1, true);
    EXPECT_EQ(kin_local_set(&keys[4], &values[4]), -ENOMEM);
    EXPECT_EQ(kin_local_set(&keys[0], &values[5]), 0); /* what is there needs no room */
    EXPECT_EQ(kin_local_set(&keys[1], NULL), 0);
    EXPECT_EQ(kin_local_set(&keys[4], &values[4]), 0); /* there is some now */
    kin__plat_fail_after(0, false);
    EXPECT_PTR(kin_local_get(&keys[0]), &values[5]);
    EXPECT_PTR(kin_local_get(&keys[1]), NULL);
    EXPECT_PTR(kin_local_get(&keys[2]), &values[2]);
    EXPECT_PTR(kin_local_get(&keys[4]), &values[4]);
    return 0;
}

KIN_TEST(without_memory_everything_stays_as_it_was, "")
{
    EXPECT_EQ(run_reporting(1, be_short, NULL, NULL), 0);
}
