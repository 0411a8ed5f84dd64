/* SPDX-License-Identifier: MIT */
/*
 * Goal: tasks and nurseries have the same names and frames in every execution, and frames come back
 * when there are no new ones.
 * Method: ids compared from run to run; more frames than there are taken and given back.
 */
#include "lab/in_lab.h"

#include "mem/frame.h"
#include "task/task.h"

static uint64_t ids[4];
static unsigned runs;

static int note_id(void *place)
{
    uint64_t *id = place;
    if (runs == 0)
        *id = kin_self().id;
    kin_lab_assert(*id == kin_self().id, "the n-th task spawned has the same id in every run");
    return 0;
}

static int note_ids(void *arg)
{
    (void)arg;
    {
        KIN_NURSERY(n);
        for (int i = 0; i < 4; i++)
            KIN_LAB_OK(kin_spawn(&n, note_id, &ids[i]));
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    runs++;
    return 0;
}

KIN_TEST(the_same_task_has_the_same_id_in_every_run, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 100, note_ids, NULL), 0);
    EXPECT_GE(runs, 100);
    EXPECT_NE(ids[0], ids[1]);
}

static int take_and_give(void *arg)
{
    struct kin__frame_cache cache = {.kind = KIN__FRAME_OBLIGATION};
    uint64_t first = 0;
    (void)arg;
    for (unsigned i = 0; i < 70000; i++) { /* more than there are indices */
        struct kin__frame *frame = kin__frame_alloc(&cache);
        kin_lab_assert(frame != NULL, "a frame that was given back is taken again");
        uint64_t name = frame->name;
        kin_lab_assert(name != first, "but by another name");
        kin_lab_assert(kin__frame_at(KIN__FRAME_OBLIGATION, name) == frame, "names are found");
        first = first ? first : name;
        kin__frame_free(&cache, frame);
    }
    kin_lab_assert(kin__frame_at(KIN__FRAME_OBLIGATION, 0) == NULL, "0 is nobody");
    kin_lab_assert(kin__frame_at(KIN__FRAME_OBLIGATION, 1u << 20) == NULL, "nor is one never cut");
    kin__frame_flush(&cache);
    return 0;
}

KIN_TEST(frames_are_used_again_when_all_were_used, "")
{
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, take_and_give, NULL), 0);
}

static int keep_one(void *arg)
{
    static struct kin__frame_cache cache = {.kind = KIN__FRAME_EXTRA};
    (void)arg;
    return kin__frame_alloc(&cache) == NULL;
}

KIN_TEST(a_frame_that_is_kept_is_a_leak, "")
{
    expect_oracle(keep_one, NULL, "leak", KIN_LEAKED);
}

static unsigned seen;

static void count(struct kin__frame *frame, void *arg)
{
    seen += frame->name != 0;
    *(unsigned *)arg = seen;
}

static int count_frames(void *arg)
{
    unsigned counted = 0;
    (void)arg;
    seen = 0;
    kin__frame_each(count, &counted);
    kin_lab_assert(counted == 1, "one task, one frame");
    kin_lab_assert(kin__frame_bytes() >= KIN__FRAME_BYTES, "which takes room");
    return 0;
}

KIN_TEST(every_frame_of_a_task_is_visited, "")
{
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, count_frames, NULL), 0);
}
