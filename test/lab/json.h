/* SPDX-License-Identifier: MIT */
/*
 * Reading JSON strictly: fails the test where a text is none.
 */
#ifndef KIN_TEST_LAB_JSON_H
#define KIN_TEST_LAB_JSON_H

#include "kin_test.h"

#include <string.h>

/* Behind a string, which has ASCII alone. */
static const char *json_string(const char *at)
{
    EXPECT_EQ(*at, '"');
    for (at++; *at != '"'; at++) {
        EXPECT(*at >= ' ' && *at < 0x7f);
        if (*at != '\\')
            continue;
        at++;
        EXPECT(*at && strchr("\"\\/bfnrtu", *at) != NULL);
        for (int i = 0; *at == 'u' && i < 4; i++)
            EXPECT(strchr("0123456789abcdefABCDEF", at[1 + i]) != NULL && at[1 + i]);
    }
    return at + 1;
}

/* Behind a number, true, false or null. */
static const char *json_scalar(const char *at)
{
    static const char *const words[] = {"true", "false", "null"};
    for (unsigned i = 0; i < 3; i++) {
        if (strncmp(at, words[i], strlen(words[i])) == 0)
            return at + strlen(words[i]);
    }
    at += *at == '-';
    size_t digits = strspn(at, "0123456789");
    EXPECT(digits > 0 && (digits == 1 || *at != '0'));
    at += digits;
    if (*at == '.') {
        digits = strspn(at + 1, "0123456789");
        EXPECT_GT(digits, 0);
        at += 1 + digits;
    }
    return at;
}

/* Without recursion: what may come next, and a stack of brackets. */
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
            at = *at == '"' ? json_string(at) : json_scalar(at);
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
            at = json_string(at);
            EXPECT_EQ(*at, ':');
            at++;
        }
    } while (depth > 0);
    at += strspn(at, " \n");
    EXPECT_EQ(*at, '\0');
}

#endif
