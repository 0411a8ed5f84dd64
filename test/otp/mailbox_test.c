/* SPDX-License-Identifier: MIT */
/*
 * Goal: letters of a mailbox keep their order and their numbers, whatever leaves from wherever, and
 * a cast is a copy of what was sent.
 * Method: the box alone, on a party that is nobody's, compared with an array that is searched the
 * slow way; casts of every size around the sizes where their memory changes.
 */
#include "kin_test.h"

#include "otp/mailbox.h"

#include "base/rng.h"
#include "plat/plat.h"

#include <errno.h>
#include <string.h>

static struct kin__party *a_party(void)
{
    static struct kin__party party;
    memset(&party, 0, sizeof party);
    return &party;
}

static struct kin__letter *numbered(unsigned number)
{
    struct kin__letter *letter;
    EXPECT_EQ(kin__letter_make(NULL, &number, sizeof number, &letter), 0);
    EXPECT(letter != NULL);
    return letter;
}

static unsigned number_of(const struct kin__letter *letter)
{
    unsigned number;
    memcpy(&number, kin__letter_bytes(letter), sizeof number);
    return number;
}

KIN_TEST(a_cast_is_a_copy_of_its_bytes, "GS-CAST-TRY")
{
    static const size_t sizes[] = {0, 1, 15, 16, 63, 64, 65, 66, 127, 128, 1000, KIN_MESSAGE_MAX};
    static unsigned char bytes[KIN_MESSAGE_MAX];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        struct kin__letter *letter;
        EXPECT_EQ(kin__letter_make(NULL, size ? bytes : NULL, size, &letter), 0);
        EXPECT(letter != NULL);
        EXPECT_EQ(letter->size, size);
        EXPECT_EQ(letter->kind, KIN__LETTER_CAST);
        EXPECT_EQ((uintptr_t)kin__letter_bytes(letter) % 16, 0);
        EXPECT_EQ(memcmp(kin__letter_bytes(letter), bytes, size), 0);
        kin__letter_free(letter);
    }
}

KIN_TEST(without_memory_there_is_no_cast, "GS-CAST-TRY")
{
    static const unsigned char bytes[4096];
    kin__plat_fail_after(1, true);
    struct kin__letter *letter = NULL;
    EXPECT_EQ(kin__letter_make(NULL, bytes, sizeof bytes, &letter), -ENOMEM);
    kin__plat_fail_after(0, false);
    EXPECT(letter == NULL);
}

KIN_TEST(letters_come_out_as_they_went_in, "GS-CAST-HANDLE")
{
    struct kin__party *party = a_party();
    struct kin__mailbox mailbox;
    struct kin__wakes wakes = {0};
    kin__mailbox_init(&mailbox, 4, true);
    EXPECT(!kin__mailbox_is_full(&mailbox));
    EXPECT(kin__mailbox_first(&mailbox) == NULL);
    EXPECT(kin__mailbox_cast(&mailbox) == NULL);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 4; i++)
            kin__mailbox_push_locked(party, &mailbox, numbered(i));
        EXPECT(kin__mailbox_is_full(&mailbox));
        EXPECT_EQ(party->letter_newest, 4 * round + 4);
        for (unsigned i = 0; i < 4; i++) {
            struct kin__letter *letter = kin__mailbox_first(&mailbox);
            EXPECT_EQ(number_of(letter), i);
            EXPECT_EQ(party->letter_oldest, 4 * round + i + 1);
            EXPECT_PTR(kin__mailbox_cast(&mailbox), letter);
            kin__mailbox_remove_locked(party, &mailbox, letter, &wakes);
            kin__letter_free(letter);
        }
        EXPECT_EQ(party->letter_oldest, 0);
        EXPECT_EQ(mailbox.count, 0);
    }
    EXPECT(wakes.first == NULL);
}

/* Removes letters from anywhere, and compares with an array. */
KIN_TEST(letters_leave_from_anywhere, "GS-CAST-HANDLE")
{
    enum { ROOM = 50, STEPS = 5000 };
    struct kin__party *party = a_party();
    struct kin__mailbox mailbox;
    struct kin__wakes wakes = {0};
    struct kin__letter *model[ROOM];
    size_t count = 0;
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    kin__mailbox_init(&mailbox, ROOM, true);
    for (unsigned step = 0; step < STEPS; step++) {
        if (count < ROOM && (count == 0 || kin__rng_next(&rng) % 2)) {
            model[count] = numbered(step);
            kin__mailbox_push_locked(party, &mailbox, model[count++]);
        } else {
            size_t at = (size_t)(kin__rng_next(&rng) % count);
            struct kin__letter *letter = model[at];
            if (kin__rng_next(&rng) % 2)
                kin__mailbox_remove_locked(party, &mailbox, letter, &wakes);
            else
                kin__mailbox_drop_locked(party, &mailbox, letter);
            EXPECT(!letter->is_boxed);
            kin__letter_free(letter);
            memmove(&model[at], &model[at + 1], (--count - at) * sizeof model[0]);
        }
        EXPECT_EQ(mailbox.count, count);
        EXPECT_PTR(kin__mailbox_first(&mailbox), count ? model[0] : NULL);
        EXPECT_PTR(kin__mailbox_cast(&mailbox), count ? model[0] : NULL);
        EXPECT_EQ(party->letter_oldest, count ? model[0]->number : 0);
    }
    while (count > 0) {
        kin__mailbox_drop_locked(party, &mailbox, model[--count]);
        kin__letter_free(model[count]);
    }
}

/* With casts alone there is nobody to answer, and the order is what it was, in batches of any
 * size. */
KIN_TEST(aborting_calls_leaves_casts_as_they_are, "GS-DRAIN-MSG")
{
    for (unsigned batch = 1; batch <= 9; batch++) {
        struct kin__party *party = a_party();
        struct kin__mailbox mailbox;
        struct kin__wakes wakes = {0};
        uint64_t turned = 0;
        unsigned rounds = 0;
        kin__mailbox_init(&mailbox, 16, true);
        for (unsigned i = 0; i < 7; i++)
            kin__mailbox_push_locked(party, &mailbox, numbered(i));
        while (kin__mailbox_abort_locked(party, &mailbox, -1, batch, &turned, &wakes))
            EXPECT(++rounds < 100);
        EXPECT(wakes.first == NULL);
        EXPECT_EQ(mailbox.count, 7);
        EXPECT_EQ(party->letter_oldest, 1);
        for (unsigned i = 0; i < 7; i++) {
            struct kin__letter *letter = kin__mailbox_first(&mailbox);
            EXPECT_EQ(number_of(letter), i);
            EXPECT_EQ(letter->number, i + 1);
            kin__mailbox_drop_locked(party, &mailbox, letter);
            kin__letter_free(letter);
        }
        turned = 0;
        EXPECT(!kin__mailbox_abort_locked(party, &mailbox, -1, batch, &turned, &wakes));
    }
}

KIN_TEST(clearing_takes_everything_in_order, "GS-STOPPED")
{
    struct kin__party *party = a_party();
    struct kin__mailbox mailbox;
    struct kin__wakes wakes = {0};
    struct kin__list casts;
    unsigned count = 0;
    kin__list_init(&casts);
    kin__mailbox_init(&mailbox, 10, true);
    for (unsigned i = 0; i < 10; i++)
        kin__mailbox_push_locked(party, &mailbox, numbered(i));
    while (kin__mailbox_clear_locked(party, &mailbox, -1, 3, &wakes, &casts))
        EXPECT_LT(mailbox.count, 10);
    EXPECT_EQ(mailbox.count, 0);
    EXPECT_EQ(party->letter_oldest, 0);
    for (struct kin__list *link; (link = kin__list_pop_front(&casts)); count++) {
        struct kin__letter *letter = KIN__CONTAINER_OF(link, struct kin__letter, link);
        EXPECT_EQ(number_of(letter), count);
        kin__letter_free(letter);
    }
    EXPECT_EQ(count, 10);
    EXPECT(!kin__mailbox_refuse_locked(&mailbox, -1, 3, &wakes));
}
