/* SPDX-License-Identifier: MIT */
/*
 * Goal: notes are read in the order of (time, kind, subject), whoever told them first, but not
 *       before the letters that came before them; a reader is woken by what it waits for and by
 *       nothing else.
 * Method: white box: notes told by hand in random orders, from the printed seed, and compared with
 *         the sorted order; letter numbers set by hand.
 */
#include "otp/ends.h"

#include "base/rng.h"

static struct kin__party *own(void)
{
    struct kin__party *party = kin__party_self(kin__task_self());
    EXPECT(party != NULL);
    return party;
}

static void nothing(struct kin__note *note)
{
    (void)note;
}

static struct kin__note make(uint64_t vt, enum kin_info_kind kind, uint64_t subject)
{
    static const char *const names[] = {"a", "ab", "b", "c"};
    struct kin__note note = {.done = nothing, .info = {.vt = vt, .kind = kind}};
    switch (kind) {
    case KIN_INFO_DOWN:
        note.info.u.down.who.id = subject;
        break;
    case KIN_INFO_EXIT:
        note.info.u.exit.from.id = subject;
        break;
    case KIN_INFO_TIMEOUT:
        note.info.u.timeout.id = subject;
        break;
    case KIN_INFO_LEASE:
        note.info.u.lease.name = names[subject];
        break;
    case KIN_INFO_NODE_UP:
    case KIN_INFO_NODE_DOWN:
        note.info.u.node.node = subject;
        break;
    }
    return note;
}

/* ---- order ---- */

enum { TIMES = 2, KINDS = 6, SUBJECTS = 4, NOTES = TIMES * KINDS * SUBJECTS };

static int shuffle_and_read(void *arg)
{
    static struct kin__note notes[NOTES];
    int order[NOTES], count = 0;
    uint64_t state = kin_test_seed();
    (void)arg;
    for (uint64_t vt = 0; vt < TIMES; vt++) {
        for (int kind = 0; kind < KINDS; kind++) {
            for (uint64_t subject = 0; subject < SUBJECTS; subject++)
                notes[count++] = make(vt + 1, (enum kin_info_kind)kind, subject);
        }
    }
    for (int round = 0; round < enough(50, 2); round++) {
        for (int i = 0; i < NOTES; i++)
            order[i] = i;
        for (int i = NOTES - 1; i > 0; i--) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            int j = (int)((state >> 33) % (uint64_t)(i + 1)), kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
        for (int i = 0; i < NOTES; i++)
            kin__note_tell_and_unlock(own(), &notes[order[i]]);
        for (int i = 0; i < NOTES; i++) {
            struct kin__party *party = own();
            EXPECT_PTR(kin__note_look_locked(party, NULL, 0), &notes[i]);
            EXPECT_PTR(kin__note_take_locked(party, NULL, 0), &notes[i]);
            kin__party_unlock(party);
        }
        struct kin__party *party = own();
        EXPECT(kin__note_take_locked(party, NULL, 0) == NULL);
        kin__party_unlock(party);
    }
    return 0;
}

/* K256 */
KIN_TEST(notes_are_read_by_time_kind_and_subject, "GS-INFO-SORT SINV-4")
{
    EXPECT_EQ(run_reporting(1, shuffle_and_read, NULL, NULL), 0);
}

/* ---- many Downs ---- */

enum { DOWNS = 1000 };

/* Whoever waits for anything but a Down would crash if it looked at them: their list leads nowhere
 * meanwhile. */
static int read_past_downs(void *arg)
{
    static struct kin__note downs[DOWNS];
    struct kin__note exit = make(5, KIN_INFO_EXIT, 7), lease = make(9, KIN_INFO_LEASE, 2);
    struct kin_info info;
    (void)arg;
    for (uint64_t i = 0; i < DOWNS; i++) {
        downs[i] = make(1, KIN_INFO_DOWN, i);
        kin__note_tell_and_unlock(own(), &downs[i]);
    }
    kin__note_tell_and_unlock(own(), &lease);
    kin__note_tell_and_unlock(own(), &exit);
    struct kin__party *party = own();
    struct kin__list *first = party->downs.next;
    party->downs.next = NULL;
    kin__party_unlock(party);
    EXPECT_EQ(kin_wait_info(&info, 0), 0);
    EXPECT_EQ(info.kind, KIN_INFO_EXIT);
    EXPECT_EQ(kin_wait_info(&info, 0), 0);
    EXPECT_EQ(info.kind, KIN_INFO_LEASE);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    kin__party_take(party);
    party->downs.next = first;
    EXPECT_EQ(party->news, DOWNS);
    for (int i = 0; i < DOWNS; i++)
        EXPECT_PTR(kin__note_take_locked(party, NULL, 0), &downs[i]);
    EXPECT_EQ(party->news, 0);
    kin__party_unlock(party);
    return 0;
}

KIN_TEST(who_waits_for_anything_else_looks_at_no_down, "GS-INFO-SORT")
{
    EXPECT_EQ(run_reporting(1, read_past_downs, NULL, NULL), 0);
}

/* Two links of one pair, told in either order. */
static int tell_two_links(void *arg)
{
    (void)arg;
    for (int round = 0; round < 2; round++) {
        struct kin__note notes[2];
        for (unsigned i = 0; i < 2; i++) {
            notes[i] = make(1, KIN_INFO_EXIT, 7);
            notes[i].info.u.exit.ref.id = i + 1;
        }
        kin__note_tell_and_unlock(own(), &notes[round]);
        kin__note_tell_and_unlock(own(), &notes[!round]);
        for (int i = 0; i < 2; i++) {
            struct kin__party *party = own();
            EXPECT_PTR(kin__note_take_locked(party, NULL, 0), &notes[i]);
            kin__party_unlock(party);
        }
    }
    return 0;
}
KIN_TEST(two_links_of_one_pair_are_read_by_their_references, "GS-INFO-SORT LINK-EXIT")
{
    EXPECT_EQ(run_reporting(1, tell_two_links, NULL, NULL), 0);
}

static int tell_equals(void *arg)
{
    struct kin__note notes[5];
    (void)arg;
    for (int i = 0; i < 5; i++) {
        notes[i] = make(7, KIN_INFO_DOWN, 3);
        kin__note_tell_and_unlock(own(), &notes[i]);
    }
    for (int i = 0; i < 5; i++) {
        struct kin__party *party = own();
        EXPECT_PTR(kin__note_take_locked(party, NULL, 0), &notes[i]);
        kin__party_unlock(party);
    }
    return 0;
}

KIN_TEST(of_equal_notes_the_first_told_is_the_first_read, "GS-INFO-SORT")
{
    EXPECT_EQ(run_reporting(1, tell_equals, NULL, NULL), 0);
}

/* ---- letters ---- */

static bool is_exit(const struct kin__note *note, uint64_t arg)
{
    (void)arg;
    return note->info.kind == KIN_INFO_EXIT;
}

static int mix_with_letters(void *arg)
{
    struct kin__note down = make(5, KIN_INFO_DOWN, 1), exit_ = make(9, KIN_INFO_EXIT, 1);
    (void)arg;
    struct kin__party *party = own();
    party->letter_newest = 3; /* letters 1 to 3 have come, and 2 and 3 are there */
    party->letter_oldest = 2;
    kin__note_tell_and_unlock(party, &down);
    party = own();
    EXPECT(kin__note_look_locked(party, NULL, 0) == NULL); /* they were sent before */
    party->letter_newest = 4;
    kin__note_tell_and_unlock(party, &exit_);
    party = own();
    EXPECT(kin__note_take_locked(party, NULL, 0) == NULL);
    /* who waits for something in particular does not handle letters */
    EXPECT_PTR(kin__note_look_locked(party, is_exit, 0), &exit_);
    party->letter_oldest = 4; /* 2 and 3 were handled */
    EXPECT_PTR(kin__note_take_locked(party, NULL, 0), &down);
    EXPECT(kin__note_take_locked(party, NULL, 0) == NULL);
    party->letter_oldest = 0; /* so was 4, and there is none */
    EXPECT_PTR(kin__note_take_locked(party, NULL, 0), &exit_);
    kin__party_unlock(party);
    return 0;
}

/* D3: what was sent before an end is handled before the news of it. */
KIN_TEST(a_note_waits_for_the_letters_before_it, "GS-INFO-SORT")
{
    EXPECT_EQ(run_reporting(1, mix_with_letters, NULL, NULL), 0);
}

/* ---- who is woken ---- */

struct hearing {
    struct kin_event has_begun;
    uint64_t task;
    struct kin__note *got;
    int rc;
    _Atomic int is_ended;
};

static struct hearing *the_hearing;

static struct kin__note *find_exit(struct kin__party *party, uint64_t arg)
{
    return kin__note_look_locked(party, is_exit, arg);
}

static bool has_ended(uint64_t arg)
{
    (void)arg;
    return atomic_load(&the_hearing->is_ended) != 0;
}

static int hear_exit(void *arg)
{
    struct hearing *hearing = arg;
    struct kin__party *party = own();
    kin__party_unlock(party);
    hearing->task = kin_self_addr().id;
    kin_event_set(&hearing->has_begun);
    static const struct kin__note_kind exits = {is_exit, find_exit, has_ended};
    hearing->rc = kin__note_wait(party, &exits, 0, KIN_NEVER, &hearing->got);
    return 0;
}

static struct kin__party *party_of(struct hearing *hearing)
{
    struct kin__party *party = kin__party_lock(hearing->task);
    EXPECT(party != NULL);
    return party;
}

static bool is_parked(struct hearing *hearing)
{
    struct kin__party *party = party_of(hearing);
    bool is = party->reader != NULL;
    kin__party_unlock(party);
    return is;
}

static void start_hearing(struct kin_nursery *n, struct hearing *hearing)
{
    *hearing = (struct hearing){.rc = 1};
    the_hearing = hearing;
    EXPECT_EQ(kin_spawn(n, hear_exit, hearing), 0);
    EXPECT_EQ(kin_event_wait(&hearing->has_begun, KIN_NEVER), 0);
    while (!is_parked(hearing))
        kin_ignore(kin_yield());
}

static int wake_some(void *arg)
{
    static struct hearing hearing;
    struct kin__note down = make(1, KIN_INFO_DOWN, 1), exit_ = make(2, KIN_INFO_EXIT, 1);
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    start_hearing(&n, &hearing);
    kin__note_tell_and_unlock(party_of(&hearing), &down); /* not what it waits for */
    EXPECT(is_parked(&hearing));
    kin__party_wake_and_unlock(party_of(&hearing)); /* nor are letters */
    EXPECT(is_parked(&hearing));
    kin__note_tell_and_unlock(party_of(&hearing), &exit_);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(hearing.rc, 0);
    EXPECT_PTR(hearing.got, &exit_);

    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    start_hearing(&n, &hearing);
    struct kin__party *party = party_of(&hearing);
    atomic_store(&hearing.is_ended, 1);
    party->wanted = NULL;
    kin__party_wake_and_unlock(party);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(hearing.rc, KIN_STALE); /* none can come any more */
    return 0;
}

KIN_TEST(a_reader_is_woken_by_what_it_waits_for, "")
{
    run_on_few_and_clean(wake_some, NULL);
}
