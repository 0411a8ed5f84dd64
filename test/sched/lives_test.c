/* SPDX-License-Identifier: MIT */
/*
 * Goal: a task has a path as long as it lives, and afterwards until its room is wanted.
 * Method: lives of made-up tasks in small tables, begun and ended by hand.
 */
#include "kin_test.h"

#include "sched/lives.h"

#include <string.h>

/* A frame that bears this id; nobody runs it. */
static struct kin__task *made(uint64_t id, const char *name)
{
    static struct kin__task task;
    memset(&task, 0, sizeof(task));
    kin__store_relaxed(&task.frame.name, id); /* alone: one thread */
    task.name = name;
    task.flags = name ? KIN__TASK_NAMED : 0;
    return &task;
}

static const char *path_of(const struct kin__lives *lives, uint32_t low, uint64_t when)
{
    static char memory[4096];
    struct kin__text text;
    uint32_t place = kin__lives_find_locked(lives, low, when);
    if (!place)
        return "";
    kin__text_init(&text, memory, sizeof(memory));
    kin__lives_path_locked(lives, place, &text);
    return memory;
}

KIN_TEST(paths_count_the_children_of_each_task, "")
{
    struct kin__lives lives;
    EXPECT(kin__lives_init(&lives, 16));
    kin__lives_begin_locked(&lives, made(1, "main"), 0, 0);
    kin__lives_begin_locked(&lives, made(2, NULL), 1, 1);
    kin__lives_begin_locked(&lives, made(3, NULL), 1, 2);
    kin__lives_begin_locked(&lives, made(4, NULL), 3, 3);
    kin__lives_begin_locked(&lives, made(5, NULL), 0, 4);
    EXPECT_STR(path_of(&lives, 1, 9), "root");
    EXPECT_STR(path_of(&lives, 2, 9), "root/0");
    EXPECT_STR(path_of(&lives, 3, 9), "root/1");
    EXPECT_STR(path_of(&lives, 4, 9), "root/1/0");
    EXPECT_STR(path_of(&lives, 5, 9), "outside/0");
    EXPECT_STR(path_of(&lives, 6, 9), "");
    EXPECT_STR(lives.table[1].name, "main");
    kin__lives_fini(&lives);
}

KIN_TEST(a_frame_that_is_used_again_is_told_apart_by_time, "")
{
    struct kin__lives lives;
    EXPECT(kin__lives_init(&lives, 16));
    kin__lives_begin_locked(&lives, made(1, NULL), 0, 0);
    kin__lives_begin_locked(&lives, made(7, NULL), 1, 10);
    kin__lives_end_locked(&lives, 7);
    /* the same low half, a later generation */
    kin__lives_begin_locked(&lives, made(7 | UINT64_C(1) << 32, NULL), 1, 20);
    EXPECT_STR(path_of(&lives, 7, 5), "");
    EXPECT_STR(path_of(&lives, 7, 15), "root/0");
    EXPECT_STR(path_of(&lives, 7, 20), "root/1");
    kin__lives_fini(&lives);
}

KIN_TEST(the_oldest_end_makes_room_first, "")
{
    struct kin__lives lives;
    EXPECT(kin__lives_init(&lives, 4)); /* three, and nobody's */
    kin__lives_begin_locked(&lives, made(1, NULL), 0, 0);
    for (uint64_t id = 2; id < 100; id++) {
        kin__lives_begin_locked(&lives, made(id, NULL), 1, id);
        kin__lives_end_locked(&lives, id);
        EXPECT_NE(strcmp(path_of(&lives, (uint32_t)id, 1000), ""), 0);
        if (id > 3)
            EXPECT_STR(path_of(&lives, (uint32_t)id - 2, 1000), "");
        EXPECT_STR(path_of(&lives, 1, 1000), "root");
    }
    EXPECT_STR(path_of(&lives, 99, 1000), "root/97");
    kin__lives_fini(&lives);
}

KIN_TEST(who_has_descendants_in_the_table_stays, "")
{
    struct kin__lives lives;
    EXPECT(kin__lives_init(&lives, 8));
    kin__lives_begin_locked(&lives, made(1, NULL), 0, 0);
    kin__lives_begin_locked(&lives, made(2, NULL), 1, 1);
    kin__lives_begin_locked(&lives, made(3, NULL), 2, 2); /* a guest: outlives its spawner */
    kin__lives_end_locked(&lives, 2);
    for (uint64_t id = 10; id < 30; id++) {
        kin__lives_begin_locked(&lives, made(id, NULL), 1, id);
        kin__lives_end_locked(&lives, id);
    }
    EXPECT_STR(path_of(&lives, 3, 100), "root/0/0");
    kin__lives_end_locked(&lives, 3);
    for (uint64_t id = 30; id < 60; id++) {
        kin__lives_begin_locked(&lives, made(id, NULL), 1, id);
        kin__lives_end_locked(&lives, id);
    }
    EXPECT_STR(path_of(&lives, 3, 100), "");
    EXPECT_STR(path_of(&lives, 2, 100), ""); /* went with the last that came from it */
    EXPECT_STR(path_of(&lives, 1, 100), "root");
    kin__lives_fini(&lives);
}

KIN_TEST(a_full_table_leaves_newcomers_without_a_path, "")
{
    struct kin__lives lives;
    EXPECT(kin__lives_init(&lives, 4));
    for (uint64_t id = 1; id < 10; id++)
        kin__lives_begin_locked(&lives, made(id, NULL), id - 1, id);
    EXPECT_STR(path_of(&lives, 3, 100), "root/0/0");
    EXPECT_STR(path_of(&lives, 4, 100), "");
    kin__lives_end_locked(&lives, 9); /* which is unknown */
    kin__lives_end_locked(&lives, 3);
    lives.is_frozen = true; /* a dump is under way */
    kin__lives_begin_locked(&lives, made(20, NULL), 1, 20);
    EXPECT_STR(path_of(&lives, 20, 100), "");
    EXPECT_STR(path_of(&lives, 3, 100), "root/0/0");
    lives.is_frozen = false;
    kin__lives_begin_locked(&lives, made(21, NULL), 1, 21);
    EXPECT_STR(path_of(&lives, 21, 100), "root/2"); /* the one before it was counted */
    EXPECT_STR(path_of(&lives, 3, 100), "");
    kin__lives_fini(&lives);
}

KIN_TEST(a_path_that_is_too_deep_is_a_question_mark, "")
{
    struct kin__lives lives;
    EXPECT(kin__lives_init(&lives, 512));
    for (uint64_t id = 1; id < 200; id++)
        kin__lives_begin_locked(&lives, made(id, NULL), id - 1, id);
    EXPECT_STR(path_of(&lives, 3, 500), "root/0/0");
    EXPECT_STR(path_of(&lives, 199, 500), "?");
    kin__lives_fini(&lives);
}
