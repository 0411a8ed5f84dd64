/* SPDX-License-Identifier: MIT */
/*
 * The trace: valid JSON whatever the names are, with slices, flows and instants.
 */
#include "kin_test.h"

#include "failure.h"
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

/* Behind a string that begins at at; ends the test where it is none. */
static const char *behind_string(const char *at)
{
    EXPECT_EQ(*at, '"');
    for (at++; *at != '"'; at++) {
        EXPECT(*at >= ' ' && *at < 0x7f);
        if (*at == '\\') {
            at++;
            EXPECT(strchr("\"\\/bfnrtu", *at) != NULL);
        }
    }
    return at + 1;
}

/* A checker without recursion: what may come next, and a stack of brackets. */
static void check_json(const char *at)
{
    char stack[32];
    unsigned depth = 0;
    bool is_value = true; /* a value must come; else a comma or an end */
    do {
        at += strspn(at, " \n");
        if (is_value && (*at == '{' || *at == '[')) {
            EXPECT_LT(depth, 32);
            stack[depth++] = *at++;
            at += strspn(at, " \n");
            is_value = !(*at == '}' || *at == ']');
        } else if (is_value) {
            if (*at == '"') {
                at = behind_string(at);
            } else {
                size_t length = strspn(at, "-0123456789truefalsn");
                EXPECT_GT(length, 0);
                at += length;
            }
            is_value = false;
        } else if (*at == ',') {
            at++;
            is_value = true;
        } else {
            EXPECT_GT(depth, 0);
            EXPECT_EQ(*at, stack[depth - 1] == '{' ? '}' : ']');
            at++;
            depth--;
        }
        at += strspn(at, " \n");
        if (is_value && stack[depth - 1] == '{') { /* a name comes first */
            at = behind_string(at);
            EXPECT_EQ(*at, ':');
            at++;
        }
    } while (depth > 0);
    at += strspn(at, " \n");
    EXPECT_EQ(*at, '\0');
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
