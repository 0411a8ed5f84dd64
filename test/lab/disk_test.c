/* SPDX-License-Identifier: MIT */
/*
 * Goal: a crash leaves everything that a disk may leave, and nothing else.
 * Method: a few changes and a crash, explored exhaustively; what is there afterwards is noted, and
 * the set of all of it is compared with the one that is meant.
 */
#include "lab/in_lab.h"

#include "lab/disk.h"

#include <stdlib.h>

#define OUTCOMES_MAX 64
#define OUTCOME_BYTES 96

static char outcomes[OUTCOMES_MAX][OUTCOME_BYTES];
static unsigned outcomes_count;

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void note(const char *text)
{
    for (unsigned i = 0; i < outcomes_count; i++) {
        if (strcmp(outcomes[i], text) == 0)
            return;
    }
    if (outcomes_count < OUTCOMES_MAX)
        snprintf(outcomes[outcomes_count++], OUTCOME_BYTES, "%s", text);
}

/* All that the changes may leave, one after the other in the order of the alphabet. */
static const char *outcomes_of(kin_task_fn *changes)
{
    static char all[OUTCOMES_MAX * OUTCOME_BYTES];
    outcomes_count = 0;
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, changes, NULL), 0);
    EXPECT(report.exhausted);
    qsort(outcomes, outcomes_count, sizeof outcomes[0], by_text);
    all[0] = '\0';
    for (unsigned i = 0; i < outcomes_count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", outcomes[i]);
    return all;
}

static struct kin__slot *slot(const char *name)
{
    return kin__disk_slot(kin__disk_root(), name, strlen(name));
}

static void put(struct kin__node *file, const char *text, int64_t offset)
{
    kin_lab_assert(kin__disk_write(file, text, strlen(text), offset) == (int64_t)strlen(text),
                   "it is written");
}

/* Everything below the root: "a=text,b=text"; a dot stands for a zero. */
static void note_disk(void)
{
    char text[OUTCOME_BYTES] = "", bytes[32];
    const struct kin__slot *at = NULL;
    while ((at = kin__disk_next(kin__disk_root(), at))) {
        if (at->now->kind == KIN__NODE_DIR)
            continue;
        int64_t got = kin__disk_read(at->now, bytes, sizeof bytes - 1, 0);
        for (int64_t i = 0; i < got; i++)
            bytes[i] = bytes[i] ? bytes[i] : '.';
        bytes[got] = '\0';
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%s", *text ? "," : "",
                 at->name, bytes);
    }
    note(*text ? text : "nothing");
}

/* A file with this text, for certain. */
static struct kin__node *lasting(const char *name, const char *text)
{
    struct kin__node *file = kin__disk_make(slot(name), KIN__NODE_FILE, 0600);
    put(file, text, 0);
    kin_lab_assert(kin__disk_sync(file) == 0, "it is on the disk");
    kin_lab_assert(kin__disk_sync(kin__disk_root()) == 0, "its name, too");
    return file;
}

static int overwrite_twice(void *arg)
{
    struct kin__node *file = lasting("a", "old");
    (void)arg;
    put(file, "XY", 0);
    put(file, "Z", 5);
    kin__disk_crash();
    note_disk();
    return 0;
}

KIN_TEST(a_write_is_there_or_not_or_half_of_it, "")
{
    EXPECT_STR(outcomes_of(overwrite_twice),
               "a=XYd a=XYd..Z a=Xld a=Xld..Z a=oYd a=oYd..Z a=old a=old..Z");
}

static int append(void *arg)
{
    struct kin__node *file = lasting("a", "old");
    (void)arg;
    put(file, "XYZ", 3);
    kin__disk_crash();
    note_disk();
    return 0;
}

KIN_TEST(a_file_may_have_grown_without_its_bytes, "")
{
    EXPECT_STR(outcomes_of(append), "a=old a=old... a=old.YZ a=oldX a=oldXYZ");
}

static int cut_and_write(void *arg)
{
    struct kin__node *file = lasting("a", "old");
    (void)arg;
    kin_lab_assert(kin__disk_cut(file, 0) == 0, "it is empty");
    put(file, "N", 0);
    kin__disk_crash();
    note_disk();
    return 0;
}

KIN_TEST(what_comes_behind_a_lost_cut_is_lost, "")
{
    EXPECT_STR(outcomes_of(cut_and_write), "a= a=N a=old");
}

static int make_two(void *arg)
{
    (void)arg;
    put(kin__disk_make(slot("a"), KIN__NODE_FILE, 0600), "1", 0);
    struct kin__node *file = kin__disk_make(slot("b"), KIN__NODE_FILE, 0600);
    put(file, "2", 0);
    kin_lab_assert(kin__disk_sync(file) == 0, "what is in it");
    kin__disk_crash();
    note_disk();
    return 0;
}

KIN_TEST(names_last_when_their_directory_does_and_each_by_itself, "")
{
    EXPECT_STR(outcomes_of(make_two), "a= a=,b=2 a=1 a=1,b=2 b=2 nothing");
}

static int rename_over(void *arg)
{
    lasting("a", "old");
    struct kin__node *file = kin__disk_make(slot("b"), KIN__NODE_FILE, 0600);
    (void)arg;
    put(file, "new", 0);
    kin_lab_assert(kin__disk_sync(file) == 0, "what is in it");
    kin_lab_assert(kin__disk_move(slot("b"), slot("a")), "it has room");
    kin__disk_crash();
    note_disk();
    return 0;
}

KIN_TEST(a_rename_is_there_whole_or_not_at_all, "")
{
    EXPECT_STR(outcomes_of(rename_over), "a=new a=old a=old,b=new");
}

static int rename_across(void *arg)
{
    struct kin__node *dir = kin__disk_make(slot("dir"), KIN__NODE_DIR, 0700);
    lasting("a", "text");
    struct kin__slot *there = kin__disk_slot(dir, "b", 1);
    (void)arg;
    kin_lab_assert(kin__disk_move(slot("a"), there), "it has room");
    kin_lab_assert(kin__disk_sync(dir) == 0, "the new name lasts");
    kin__disk_crash();
    kin_lab_assert(!slot("a")->now && there->now, "and the old one has gone with it");
    kin_lab_assert(there->now->links == 1, "one name is left");
    note("moved");
    return 0;
}

KIN_TEST(to_sync_one_directory_of_a_rename_is_enough, "")
{
    EXPECT_STR(outcomes_of(rename_across), "moved");
}

static int make_and_remove(void *arg)
{
    (void)arg;
    kin_lab_assert(kin__disk_make(slot("a"), KIN__NODE_FILE, 0600) != NULL, "made");
    kin_lab_assert(kin__disk_set(slot("a"), NULL), "removed");
    kin_lab_assert(kin__disk_make(slot("a"), KIN__NODE_FILE, 0600) != NULL, "made again");
    put(slot("a")->now, "2", 0);
    kin_lab_assert(kin__disk_sync(slot("a")->now) == 0, "what is in it");
    kin__disk_crash();
    note_disk();
    return 0;
}

KIN_TEST(changes_of_one_name_come_in_order, "")
{
    EXPECT_STR(outcomes_of(make_and_remove), "a= a=2 nothing");
}

static int lose_and_sync(void *arg)
{
    struct kin__node *file = lasting("a", "old");
    (void)arg;
    put(file, "1", 0);
    kin__disk_lose(file);
    put(file, "2", 2);
    kin_lab_assert(kin__disk_sync(file) == 0, "a later one goes well");
    char bytes[4] = "";
    kin_lab_assert(kin__disk_read(file, bytes, 3, 0) == 3, "it is read");
    kin_lab_assert(strcmp(bytes, "1l2") == 0, "who reads sees everything");
    kin__disk_crash();
    note_disk();
    return 0;
}

KIN_TEST(what_a_failed_sync_has_lost_no_later_one_brings_back, "")
{
    EXPECT_STR(outcomes_of(lose_and_sync), "a=ol2");
}

static int crash_twice(void *arg)
{
    struct kin__node *file = lasting("a", "old");
    (void)arg;
    put(file, "X", 0);
    kin__disk_crash();
    kin__disk_crash();
    note_disk();
    return 0;
}

KIN_TEST(what_a_crash_has_left_is_on_the_disk, "")
{
    EXPECT_STR(outcomes_of(crash_twice), "a=Xld a=old");
}

static int fill(void *arg)
{
    static char much[1 << 20];
    struct kin__node *file = kin__disk_make(slot("a"), KIN__NODE_FILE, 0600);
    int64_t at = 0, put = 1;
    (void)arg;
    while ((put = kin__disk_write(file, much, sizeof much, at)) > 0)
        at += put;
    kin_lab_assert(put == -ENOSPC && at > (1 << 24), "at last it is full");
    return 0;
}

KIN_TEST(a_disk_is_full_at_some_time_and_empty_in_the_next_execution, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 2, fill, NULL), 0);
}
