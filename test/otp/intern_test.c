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
#include <pthread.h>
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
        struct kin__name *name = kin__name_make(text_of(size), size);
        EXPECT(name != NULL);
        EXPECT_EQ(name->size, size);
        letters[0] = 'b'; /* the original may change */
        EXPECT_EQ(name->text[0], 'a');
        EXPECT_EQ(strlen(name->text), size);
        kin__name_unref(name);
    }
    kin__name_unref(NULL);
}

/* What a copy costs is a count: no memory, no bytes moved, for the longest as for the shortest. */
KIN_TEST(a_copy_is_a_pointer_and_a_count, "SINV-6")
{
    static const size_t sizes[] = {1, 16, KIN_NAME_MAX};
    for (int i = 0; i < 3; i++) {
        struct kin__name *name = kin__name_make(text_of(sizes[i]), sizes[i]);
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
    EXPECT_PTR(kin__name_make("a", 1), NULL);
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
    struct kin__name *name = kin__name_make("shared", 6);
    EXPECT(name != NULL);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, copy_and_drop, kin__name_ref(name)), 0);
    kin__name_unref(name);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
}
