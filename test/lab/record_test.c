/* SPDX-License-Identifier: MIT */
/*
 * Notes of a run: kept in order, cut to size, the oldest given up first, and nothing when off.
 */
#include "kin_test.h"

#include "lab/record.h"

#include <signal.h>
#include <string.h>

#define NOBODY KIN__NOTE_NOBODY

KIN_TEST(nothing_is_noted_unless_a_run_is_recorded, "")
{
    kin__record(1, KIN__NOTE_CALL, NOBODY, NULL, NULL);
    EXPECT_EQ(kin__record_count(), 0);
    kin__record_begin(NULL);
    kin__record(1, KIN__NOTE_CALL, NOBODY, NULL, NULL);
    kin__record_end();
    kin__record(2, KIN__NOTE_CALL, NOBODY, NULL, NULL);
    kin__record_waits("too late");
    EXPECT_EQ(kin__record_count(), 1);
    EXPECT_EQ(kin__record_get(0)->actor, 1);
    EXPECT_PTR(kin__record_get(1), NULL);
    EXPECT_STR(kin__record_waits_text(), "");
}

KIN_TEST(a_note_keeps_what_it_was_told, "")
{
    kin__record_begin(NULL);
    kin__record(3, KIN__NOTE_WAKE, 7, "root#chan0", "an item");
    kin__record_waits("root -> root#chan0 -> nobody");
    kin__record_end();
    const struct kin__event *event = kin__record_get(0);
    EXPECT_EQ(event->actor, 3);
    EXPECT_EQ(event->other, 7);
    EXPECT_EQ(event->what, KIN__NOTE_WAKE);
    EXPECT_STR(event->path, "root#chan0");
    EXPECT_STR(event->text, "an item");
    EXPECT_STR(kin__record_waits_text(), "root -> root#chan0 -> nobody");
    kin__record_begin(NULL); /* another run: nothing of the last one is left */
    EXPECT_EQ(kin__record_count(), 0);
    EXPECT_STR(kin__record_waits_text(), "");
}

KIN_TEST(long_texts_are_cut, "")
{
    char text[400];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    kin__record_begin(NULL);
    kin__record(0, KIN__NOTE_FAIL, NOBODY, text, text);
    EXPECT_EQ(strlen(kin__record_get(0)->text), KIN__RECORD_TEXT - 1);
    EXPECT_EQ(strlen(kin__record_get(0)->path), KIN__RECORD_TEXT - 1);
}

KIN_TEST(of_too_many_events_the_newest_are_kept, "")
{
    enum { COUNT = 20000 };
    kin__record_begin(NULL);
    for (unsigned i = 0; i < COUNT; i++)
        kin__record(i % 1000, KIN__NOTE_CALL, NOBODY, NULL, NULL);
    size_t kept = kin__record_count();
    EXPECT_LT(kept, COUNT);
    EXPECT_EQ(kin__record_dropped() + kept, COUNT);
    EXPECT_EQ(kin__record_get(kept - 1)->actor, (COUNT - 1) % 1000);
    EXPECT_EQ(kin__record_get(0)->actor, (COUNT - kept) % 1000);
    EXPECT_PTR(kin__record_get(kept), NULL);
}

static volatile sig_atomic_t traps;

static void count_trap(int signal_number)
{
    (void)signal_number;
    traps++;
}

KIN_TEST(a_debugger_gets_the_word_once, "")
{
    (void)signal(SIGTRAP, count_trap);
    kin__record_begin(NULL);
    kin__record_break_at = 2; /* without an engine steps are counted by notes */
    for (unsigned i = 0; i < 5; i++)
        kin__record(i, KIN__NOTE_CALL, NOBODY, NULL, NULL);
    EXPECT_EQ(traps, 1);
}
