/* SPDX-License-Identifier: MIT */
/*
 * Goal: a name is stored once, whoever keeps it; copying it costs the same however long it is.
 * Method: names of every length; requests for memory are counted; several threads copy and drop one
 * name at once, and the last of them frees it (a sanitizer sees whether it does, and only once).
 */
#include "kin_test.h"

#include "otp/intern.h"
#include "plat/plat.h"

#include <kin/name.h>

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static char letters[KIN_NAME_MAX + 2];

static const char *text_of(size_t size)
{
    memset(letters, 'a', sizeof letters);
    letters[size] = '\0';
    return letters;
}

KIN_TEST(a_name_has_1_to_255_bytes, "")
{
    EXPECT_EQ(kin__name_check(NULL), -EINVAL);
    EXPECT_EQ(kin__name_check(""), -EINVAL);
    for (size_t size = 1; size <= KIN_NAME_MAX; size++)
        EXPECT_EQ(kin__name_check(text_of(size)), size);
    EXPECT_EQ(kin__name_check(text_of(KIN_NAME_MAX + 1)), -EINVAL);
}

KIN_TEST(a_name_keeps_its_bytes, "SINV-6")
{
    for (size_t size = 1; size <= KIN_NAME_MAX; size++) {
        struct kin__name *name = kin__name_make(text_of(size), size, &(int){0});
        EXPECT(name != NULL);
        EXPECT_EQ(name->size, size);
        letters[0] = 'b'; /* the original may change */
        EXPECT_EQ(name->text[0], 'a');
        EXPECT_EQ(strlen(name->text), size);
        kin__name_unref(name);
    }
    kin__name_unref(NULL);
}

KIN_TEST(a_name_that_nobody_keeps_goes_back_to_the_heap, "SINV-6")
{
    size_t before = 0;
    for (unsigned i = 0; i < 2 * 8192; i++) {
        struct kin__name *name = kin__name_make(text_of(KIN_NAME_MAX), KIN_NAME_MAX, &(int){0});
        EXPECT(name != NULL);
        EXPECT_PTR(kin__name_ref(name), name);
        kin__name_unref(name);
        EXPECT_EQ(name->text[0], 'a'); /* one is left who keeps it */
        kin__name_unref(name);
        if (i == 8192)
            before = mallinfo2().uordblks;
    }
    EXPECT_LE(mallinfo2().uordblks, before + 1024 * 1024);
}

/* What a copy costs is a count: no memory, no bytes moved, for the longest as for the shortest. */
KIN_TEST(a_copy_is_a_pointer_and_a_count, "SINV-6")
{
    static const size_t sizes[] = {1, 16, KIN_NAME_MAX};
    for (int i = 0; i < 3; i++) {
        struct kin__name *name = kin__name_make(text_of(sizes[i]), sizes[i], &(int){0});
        EXPECT(name != NULL);
        kin__plat_fail_after(1, true);
        for (int copies = 0; copies < 1000; copies++)
            EXPECT_PTR(kin__name_ref(name), name);
        EXPECT_EQ(kin__plat_requests(), 0);
        kin__plat_fail_after(0, false);
        EXPECT_EQ(kin__load_relaxed(&name->refs), 1001); /* alone: one thread */
        for (int copies = 0; copies < 1000; copies++)
            kin__name_unref(name);
        EXPECT_EQ(strlen(name->text), sizes[i]);
        kin__name_unref(name);
    }
}

KIN_TEST(without_memory_there_is_no_name, "")
{
    kin__plat_fail_after(1, false);
    EXPECT_PTR(kin__name_make("a", 1, &(int){0}), NULL);
    kin__plat_fail_after(0, false);
}

/* Has one count to begin with, and drops it last. */
static void *copy_and_drop(void *arg)
{
    struct kin__name *name = arg;
    for (int i = 0; i < 20000; i++) {
        struct kin__name *copy = kin__name_ref(name);
        EXPECT_EQ(copy->text[copy->size], '\0');
        kin__name_unref(copy);
    }
    kin__name_unref(name);
    return NULL;
}

KIN_TEST(whoever_drops_a_name_last_frees_it, "SINV-6")
{
    pthread_t threads[4];
    struct kin__name *name = kin__name_make("shared", 6, &(int){0});
    EXPECT(name != NULL);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, copy_and_drop, kin__name_ref(name)), 0);
    kin__name_unref(name);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
}

/* ---- names that were shown ---- */

enum { SHOWN = 1000 };

static struct kin__name *numbered(int i)
{
    char text[16];
    int size = snprintf(text, sizeof text, "n%d", i);
    return kin__name_make(text, (size_t)size, &(int){0});
}

KIN_TEST(a_name_that_was_shown_stays_and_is_there_once, "SINV-6")
{
    struct kin__shown shown = {0};
    static const char *texts[SHOWN];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SHOWN; i++) {
            struct kin__name *name = numbered(i);
            const char *text = kin__name_show(&shown, name);
            EXPECT_PTR(kin__name_show(&shown, name), text);
            kin__name_unref(name); /* its last keeper, but for the table */
            if (round > 0)
                EXPECT_PTR(text, texts[i]);
            texts[i] = text;
        }
    }
    EXPECT_EQ(shown.count, SHOWN);
    for (int i = 0; i < SHOWN; i++) {
        char text[16];
        snprintf(text, sizeof text, "n%d", i);
        EXPECT_STR(texts[i], text);
    }
    kin__shown_free(&shown);
}

KIN_TEST(without_memory_no_name_is_shown_and_none_is_lost, "")
{
    struct kin__shown shown = {0};
    struct kin__name *name = numbered(1);
    kin__plat_fail_after(1, true);
    EXPECT(kin__name_show(&shown, name) == NULL);
    kin__plat_fail_after(0, false);
    EXPECT_STR(kin__name_show(&shown, name), "n1");
    kin__plat_fail_after(1, true); /* there is a table: it grows later */
    struct kin__name *next = name;
    for (int i = 2; i < 4; i++) {
        kin__plat_fail_after(0, false);
        next = numbered(i);
        kin__plat_fail_after(1, true);
        EXPECT(kin__name_show(&shown, next) != NULL);
        kin__name_unref(next);
    }
    kin__plat_fail_after(0, false);
    kin__name_unref(name);
    kin__shown_free(&shown);
}
