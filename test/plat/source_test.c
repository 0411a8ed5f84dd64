/* SPDX-License-Identifier: MIT */
/*
 * Lines and functions of addresses: this program's own, which its debugging information has.
 */
#include "kin_test.h"

#include "plat/source.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static struct kin__place where;

/* Asks for the place of the call to it. */
__attribute__((noinline)) static bool ask(void)
{
    return kin__source_find((uintptr_t)__builtin_return_address(0), &where);
}

KIN_TEST(a_call_knows_its_line, "")
{
    unsigned line = __LINE__ + 1;
    EXPECT(ask()); /* this very line */
    EXPECT_STR(where.function, "a_call_knows_its_line");
    EXPECT_STR(where.file, "source_test.c");
    EXPECT_EQ(where.line, line);
    EXPECT(!where.is_ours);
}

KIN_TEST(the_text_of_the_line_can_be_read, "")
{
    char text[128];
    EXPECT(ask()); /* words that stand on this line */
    EXPECT(strstr(where.path, "source_test.c") != NULL);
    kin__source_line(&where, text, sizeof(text));
    if (!text[0])
        KIN_SKIP("the sources are not where they were compiled");
    EXPECT_STR(text, "EXPECT(ask()); /* words that stand on this line */");
    kin__source_line(&where, text, 8);
    EXPECT_STR(text, "EXPECT(");
    where.line = 100000;
    kin__source_line(&where, text, sizeof(text));
    EXPECT_STR(text, "");
    strcpy(where.path, "/nowhere/at/all.c");
    kin__source_line(&where, text, sizeof(text));
    EXPECT_STR(text, "");
}

KIN_TEST(files_of_kin_are_known_as_such, "")
{
    EXPECT(kin__source_find((uintptr_t)&kin__source_find + 8, &where));
    EXPECT_STR(where.function, "kin__source_find");
    EXPECT_STR(where.file, "source.c");
    EXPECT(where.is_ours);
}

KIN_TEST(functions_alone_are_found_too, "")
{
    EXPECT(kin__source_function((uintptr_t)&ask + 4, &where));
    EXPECT_STR(where.function, "ask");
    EXPECT_EQ(where.line, 0);
}

KIN_TEST(what_is_no_code_has_no_place, "")
{
    static const char data[] = "data";
    char local = 0;
    EXPECT(!kin__source_find(0, &where));
    EXPECT(!kin__source_find(1, &where));
    EXPECT(!kin__source_find(UINTPTR_MAX, &where));
    EXPECT(!kin__source_find((uintptr_t)&local, &where));
    EXPECT(!kin__source_find((uintptr_t)data, &where));
    EXPECT_STR(where.function, "");
    EXPECT_STR(where.file, "");
}

KIN_TEST(code_of_other_objects_can_be_asked_for, "")
{
    /* libc has no debugging information as a rule, and may have lost its symbols */
    (void)kin__source_find((uintptr_t)&open + 16, &where);
    EXPECT(!where.is_ours);
    EXPECT(ask()); /* and this program's is read again */
    EXPECT_STR(where.file, "source_test.c");
    EXPECT(ask());
    EXPECT_STR(where.file, "source_test.c");
}
