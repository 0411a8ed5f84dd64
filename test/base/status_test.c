/* SPDX-License-Identifier: MIT */
/*
 * Statuses: every number of the contract with its name, code and sentence; the names of errno.
 */
#include <kin/status.h>

#include "kin_test.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/* The contract, written down a second time: a number that changes breaks programs. */
static const struct {
    int number;
    int status;
    const char *name;
    const char *code;
} contract[] = {
    {0, KIN_OK, "KIN_OK", ""},
    {-4096, KIN_CANCELLED, "KIN_CANCELLED", ""},
    {-4097, KIN_TIMEOUT, "KIN_TIMEOUT", "N2001"},
    {-4098, KIN_CLOSED, "KIN_CLOSED", ""},
    {-4099, KIN_FULL, "KIN_FULL", ""},
    {-4100, KIN_EMPTY, "KIN_EMPTY", ""},
    {-4101, KIN_BUDGET, "KIN_BUDGET", ""},
    {-4102, KIN_NOSCOPE, "KIN_NOSCOPE", "N1001"},
    {-4103, KIN_NOTASK, "KIN_NOTASK", "N1002"},
    {-4104, KIN_STUCK, "KIN_STUCK", "N2002"},
    {-4105, KIN_ORPHAN, "KIN_ORPHAN", "N3001"},
    {-4106, KIN_CLEANUP, "KIN_CLEANUP", "N3002"},
    {-4107, KIN_NOCAP, "KIN_NOCAP", ""},
    {-4108, KIN_PANICKED, "KIN_PANICKED", ""},
    {-4109, KIN_OVERFLOW, "KIN_OVERFLOW", ""},
    {-4110, KIN_WORKER, "KIN_WORKER", ""},
    {-4111, KIN_NOPROC, "KIN_NOPROC", ""},
    {-4112, KIN_TAKEN, "KIN_TAKEN", ""},
    {-4113, KIN_STOPPING, "KIN_STOPPING", ""},
    {-4114, KIN_NOREPLY, "KIN_NOREPLY", ""},
    {-4115, KIN_REPLIED, "KIN_REPLIED", ""},
    {-4116, KIN_GONE, "KIN_GONE", ""},
    {-4117, KIN_EXHAUSTED, "KIN_EXHAUSTED", ""},
    {-4118, KIN_LEAKED, "KIN_LEAKED", ""},
    {-4119, KIN_DEADLOCK, "KIN_DEADLOCK", ""},
    {-4120, KIN_NOCONN, "KIN_NOCONN", ""},
    {-4121, KIN_STALE, "KIN_STALE", ""},
    {-4122, KIN_UNSUPPORTED, "KIN_UNSUPPORTED", ""},
    {-4123, KIN_IGNORE, "KIN_IGNORE", ""},
};
enum { CONTRACT = sizeof(contract) / sizeof(contract[0]), UNKNOWN = -4124 };

/* A sentence that can follow a colon. */
static void expect_sentence(const char *text)
{
    size_t size = strlen(text);
    EXPECT_GT(size, 5);
    EXPECT(!isupper((unsigned char)text[0]));
    EXPECT_NE(text[size - 1], '.');
}

KIN_TEST(numbers_names_and_codes_are_those_of_the_contract, "")
{
    for (size_t i = 0; i < CONTRACT; i++) {
        EXPECT_EQ(contract[i].status, contract[i].number);
        EXPECT_STR(kin_status_name(contract[i].number), contract[i].name);
        EXPECT_STR(kin_status_code(contract[i].number), contract[i].code);
        expect_sentence(kin_status_text(contract[i].number));
    }
}

KIN_TEST(no_two_statuses_share_number_name_or_sentence, "")
{
    for (int a = UNKNOWN + 1; a <= 0; a++) {
        if (strcmp(kin_status_name(a), "unknown") == 0)
            continue;
        for (int b = a + 1; b <= 0; b++) {
            EXPECT(strcmp(kin_status_name(a), kin_status_name(b)) != 0);
            EXPECT(strcmp(kin_status_text(a), kin_status_text(b)) != 0);
        }
    }
    for (size_t a = 0; a < CONTRACT; a++)
        for (size_t b = a + 1; b < CONTRACT; b++)
            EXPECT_NE(contract[a].status, contract[b].status);
}

KIN_TEST(a_count_is_a_success, "")
{
    const int counts[] = {1, 2, 4096, INT_MAX};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        EXPECT_STR(kin_status_name(counts[i]), "KIN_OK");
        EXPECT_STR(kin_status_text(counts[i]), kin_status_text(KIN_OK));
        EXPECT_STR(kin_status_code(counts[i]), "");
    }
}

KIN_TEST(what_nobody_defined_is_unknown, "")
{
    const int strange[] = {-41, -58, -512, -4000, -4095, UNKNOWN, -5000, -100000, INT_MIN};
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
        EXPECT_STR(kin_status_name(strange[i]), "unknown");
        EXPECT_STR(kin_status_text(strange[i]), "unknown error");
        EXPECT_STR(kin_status_code(strange[i]), "");
    }
}

KIN_TEST(errnos_have_their_names, "")
{
    EXPECT_STR(kin_status_name(-EPIPE), "EPIPE");
    EXPECT_STR(kin_status_name(-EPERM), "EPERM");
    EXPECT_STR(kin_status_name(-EAGAIN), "EAGAIN");
    EXPECT_STR(kin_status_name(-EDEADLK), "EDEADLK");
    EXPECT_STR(kin_status_name(-EOPNOTSUPP), "EOPNOTSUPP");
    EXPECT_STR(kin_status_name(-ECANCELED), "ECANCELED");
    EXPECT_STR(kin_status_name(-EHWPOISON), "EHWPOISON");
    EXPECT_STR(kin_status_text(-EINVAL), "an argument is not valid");
    EXPECT_STR(kin_status_code(-ETIMEDOUT), "");
    for (int status = -4095; status < 0; status++)
        expect_sentence(kin_status_text(status));
}

#if defined(__GLIBC__) && defined(_GNU_SOURCE) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 32)
/* The C library of the test machine knows the same errors by the same names. */
KIN_TEST(errnos_are_named_as_libc_names_them, "")
{
    int known = 0;
    for (int number = 1; number < 4096; number++) {
        const char *expected = strerrorname_np(number);
        if (number == EOPNOTSUPP)
            expected = "EOPNOTSUPP"; /* libc prefers the other name, ENOTSUP */
        EXPECT_STR(kin_status_name(-number), expected != NULL ? expected : "unknown");
        known += expected != NULL;
    }
    EXPECT_GT(known, 120);
}
#endif
