/* SPDX-License-Identifier: MIT */
/*
 * Rows from notes: what belongs to one call is one row, who is who, and what the source says.
 */
#include "kin_test.h"

#include "lab/story.h"

#include <stdio.h>
#include <string.h>

#define NOBODY KIN__NOTE_NOBODY

static struct kin__story story;

/* Calls of kin, as far as a story can tell: their names begin like one's. */
void kin_pretend(unsigned actor, enum kin__noted what, unsigned other, const char *text);
void kin_pretend_again(unsigned actor);

__attribute__((noinline)) void kin_pretend(unsigned actor, enum kin__noted what, unsigned other,
                                           const char *text)
{
    kin__record(actor, KIN__NOTE_CALL, NOBODY, NULL, NULL);
    if (what != KIN__NOTE_CALL)
        kin__record(actor, what, other, NULL, text);
    __asm__ volatile("");
}

/* One that calls the other: the program called this one. */
__attribute__((noinline)) void kin_pretend_again(unsigned actor)
{
    kin_pretend(actor, KIN__NOTE_CALL, NOBODY, NULL);
    __asm__ volatile("");
}

static bool has_lines(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
    return story.count > 0 && story.rows[0].place[0];
#else
    return false;
#endif
}

/* In front may be a call: what runs a test here has a name like one of kin's. */
static bool ends_with(const char *string, const char *end)
{
    size_t length = strlen(string), tail = strlen(end);
    return length >= tail && strcmp(string + length - tail, end) == 0;
}

KIN_TEST(an_empty_run_has_no_rows, "")
{
    kin__record_begin(NULL);
    kin__record_end();
    EXPECT(kin__story_tell(&story, NULL));
    EXPECT_EQ(story.count, 0);
    EXPECT_EQ(story.actors_count, 0);
    kin__story_forget(&story);
}

KIN_TEST(a_call_and_what_comes_of_it_are_one_row, "")
{
    kin__record_begin(NULL);
    kin_pretend(1, KIN__NOTE_WAKE, 2, NULL);
    kin__record_end();
    EXPECT(kin__story_tell(&story, NULL));
    if (!has_lines())
        KIN_SKIP("frames cannot be followed here");
    /* without an engine every note is a step of its own, so the two do not become one */
    EXPECT_EQ(story.count, 2);
    EXPECT_EQ(story.rows[1].links_count, 1);
    EXPECT_EQ(story.rows[1].links[0].other, 2);
    EXPECT_EQ(story.rows[1].links[0].what, KIN__NOTE_WAKE);
    EXPECT(strstr(story.rows[1].words, "wakes") != NULL);
    EXPECT(strncmp(story.rows[0].place, "story_test.c:", 13) == 0);
    EXPECT(strstr(story.rows[0].call, "pretend(1, KIN__NOTE_WAKE, 2, NULL)") != NULL);
    EXPECT(strstr(story.actors[1].name, "a_call_and_what") != NULL);
    EXPECT(story.actors[1].is_seen);
    EXPECT(!story.actors[2].is_seen);
}

KIN_TEST(the_outermost_call_of_kin_is_the_programs, "")
{
    kin__record_begin(NULL);
    kin_pretend_again(0);
    kin__record_end();
    EXPECT(kin__story_tell(&story, NULL));
    if (!has_lines())
        KIN_SKIP("frames cannot be followed here");
    EXPECT_EQ(story.count, 1);
    EXPECT_STR(story.rows[0].call, "pretend_again(0)");
}

KIN_TEST(ends_failures_and_time_are_rows_of_their_own, "")
{
    kin__record_begin(NULL);
    kin__record(0, KIN__NOTE_SPAWN, 1, NULL, "deposit");
    kin__record(1, KIN__NOTE_PARK, NOBODY, "root#chan0", "channel: receive");
    kin__record(NOBODY, KIN__NOTE_TIME, NOBODY, NULL, NULL);
    kin__record(1, KIN__NOTE_FAULT, NOBODY, NULL, "no memory");
    kin__record(1, KIN__NOTE_END, NOBODY, NULL, "KIN_CANCELLED");
    kin__record(0, KIN__NOTE_CANCEL, 1, NULL, NULL);
    kin__record(0, KIN__NOTE_FAIL, NOBODY, "root", "money is lost");
    kin__record_end();
    EXPECT(kin__story_tell(&story, NULL));
    EXPECT_EQ(story.count, 7);
    EXPECT(strstr(story.rows[0].words, "begins") != NULL);
    EXPECT(ends_with(story.rows[1].words, "waits, channel: receive root#chan0"));
    EXPECT_EQ(story.rows[2].actor, NOBODY);
    EXPECT(ends_with(story.rows[3].words, "FAULT no memory"));
    EXPECT_STR(story.rows[4].words, "ends: KIN_CANCELLED");
    EXPECT(strstr(story.rows[5].words, "cancels") != NULL);
    EXPECT_STR(story.rows[6].words, "FAILS: money is lost");
    EXPECT(story.rows[6].is_failure);
    EXPECT(!story.rows[5].is_failure);
    EXPECT(strstr(story.actors[1].name, "(deposit)") != NULL);
}

KIN_TEST(long_runs_are_told_from_where_they_were_kept, "")
{
    kin__record_begin(NULL);
    for (unsigned i = 0; i < 30000; i++)
        kin__record(i % 7, KIN__NOTE_END, NOBODY, NULL, NULL);
    kin__record_end();
    EXPECT(kin__story_tell(&story, NULL));
    EXPECT_EQ(story.count + story.dropped, 30000);
    EXPECT_EQ(story.actors_count, 7);
    kin__story_forget(&story);
    EXPECT_EQ(story.count, 0);
}

#define TWICE(actor, other) kin_pretend_again(actor), kin_pretend_again(other)
#define BEFORE(call) (pretended++, call)

static int pretended;

KIN_TEST(calls_of_one_line_have_each_their_own_arguments, "")
{
    static const char *const calls[] = {"(one)", "(two)", "(3)", "(one)", "(two)", "", "", "(4)"};
    unsigned one = 1, two = 2;
    kin__record_begin(NULL);
    kin_pretend_again(one), kin_pretend_again(two), kin_pretend_again(3);
    BEFORE(kin_pretend_again(one)), BEFORE(kin_pretend_again(two));
    TWICE(one, two);
    kin_pretend_again(4); /* and not kin_pretend_again(5) */
    kin__record_end();
    EXPECT(kin__story_tell(&story, NULL));
    if (!has_lines())
        KIN_SKIP("frames cannot be followed here");
    EXPECT_EQ(story.count, 8);
    for (size_t i = 0; i < 8; i++) {
        char whole[64];
        snprintf(whole, sizeof(whole), "pretend_again%s", calls[i]);
        EXPECT_STR(story.rows[i].call, whole);
    }
    kin__story_forget(&story);
}
