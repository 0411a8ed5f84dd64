/* SPDX-License-Identifier: MIT */
/*
 * The trace: valid JSON whatever the names are, with slices, flows and instants.
 */
#include "kin_test.h"

#include "failure.h"
#include "json.h"
#include "lab/chrome.h"

#include <string.h>

static char memory[8 << 20];

static void write_trace(struct kin__engine *engine)
{
    struct kin__finding finding = {.test = "ti\"ny\\\n", .strategy = "random", .engine = engine};
    struct kin__story story = {0};
    struct kin__text text;
    EXPECT(kin__story_tell(&story, engine));
    kin__text_init(&text, memory, sizeof(memory));
    kin__chrome_write(&text, &finding, &story);
    EXPECT(!kin__text_is_full(&text));
    kin__story_forget(&story);
}

KIN_TEST(a_trace_is_valid_json, "")
{
    struct kin__engine *engine = find_failure(3, "it \"fails\" \\ so");
    write_trace(engine);
    check_json(memory);
    EXPECT(strstr(memory, "\"thread_name\"") != NULL);
    EXPECT(strstr(memory, "\"ph\":\"X\"") != NULL);
    EXPECT(strstr(memory, "\"ph\":\"s\"") != NULL);
    EXPECT(strstr(memory, "\"ph\":\"f\"") != NULL);
    EXPECT(strstr(memory, "\"ph\":\"i\"") != NULL);
    EXPECT(strstr(memory, "it \\\"fails\\\" \\\\ so") != NULL);
    EXPECT(strstr(memory, "ti\\\"ny\\\\\\u000a") != NULL);
    kin__engine_destroy(engine);
}

KIN_TEST(any_bytes_may_be_in_names, "")
{
    struct kin__engine *engine = find_failure(2, "\x01\x1f\x7f\xff \xc3\xa4");
    write_trace(engine);
    check_json(memory);
    kin__engine_destroy(engine);
}

KIN_TEST(the_largest_record_fits, "")
{
    struct kin__engine *engine = find_failure(2, "late");
    char text[96];
    memset(text, '"', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    kin__record_begin(engine);
    for (unsigned i = 0; i < 9000; i++)
        kin__record(i % 2, KIN__NOTE_WAKE, 1 - i % 2, text, text);
    kin__record_end();
    write_trace(engine);
    check_json(memory);
    kin__engine_destroy(engine);
}

KIN_TEST(a_string_is_quoted, "")
{
    char out[64];
    struct kin__text text;
    kin__text_init(&text, out, sizeof(out));
    kin__chrome_string(&text, "a\"b\\c\td");
    EXPECT_STR(out, "\"a\\\"b\\\\c\\u0009d\"");
}
