/* SPDX-License-Identifier: MIT */
/*
 * Text: the writers by hand, formatting against snprintf on random input, every size of buffer.
 */
#include "base/text.h"

#include "base/rng.h"
#include "kin_test.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static char memory[1024];
static struct kin__text text;

static struct kin__text *fresh(size_t cap)
{
    memset(memory, '~', sizeof(memory));
    kin__text_init(&text, memory, cap);
    return &text;
}

/* What a cut writes behind its buffer would be seen here. */
static void expect_intact(void)
{
    if (text.cap > 0) {
        EXPECT_LT(text.len, text.cap);
        EXPECT_EQ(memory[text.len], '\0');
    }
    for (size_t i = text.cap; i < sizeof(memory); i++)
        if (memory[i] != '~')
            EXPECT_EQ(i, text.cap); /* a byte behind the buffer */
}

KIN_TEST(a_text_starts_empty, "")
{
    fresh(10);
    EXPECT_STR(memory, "");
    EXPECT_EQ(text.len, 0);
    EXPECT(!kin__text_is_full(&text));
}

KIN_TEST(a_text_without_memory_drops_everything, "")
{
    kin__text_init(&text, NULL, 0);
    kin__text_str(&text, "hello");
    kin__text_printf(&text, "%10d|%-10s|", 1, "x");
    kin__text_pad(&text, 10);
    kin__text_end_line(&text);
    kin__text_cut(&text, 0);
    EXPECT_EQ(text.len, 0);
    EXPECT(kin__text_is_full(&text));
    fresh(1);
    kin__text_str(&text, "hello");
    kin__text_end_line(&text);
    EXPECT_STR(memory, "");
    expect_intact();
}

KIN_TEST(strings_and_bytes_are_appended, "")
{
    fresh(100);
    kin__text_str(&text, "one");
    kin__text_char(&text, ' ');
    kin__text_mem(&text, "two-and-more", 3);
    kin__text_str(&text, NULL);
    kin__text_mem(&text, NULL, 0);
    EXPECT_STR(memory, "one two(null)");
    EXPECT_EQ(text.len, 13);
}

KIN_TEST(numbers_reach_their_ends, "")
{
    fresh(200);
    kin__text_dec(&text, 0);
    kin__text_char(&text, ' ');
    kin__text_dec(&text, INT64_MAX);
    kin__text_char(&text, ' ');
    kin__text_dec(&text, INT64_MIN);
    kin__text_char(&text, ' ');
    kin__text_udec(&text, UINT64_MAX);
    kin__text_char(&text, ' ');
    kin__text_hex(&text, UINT64_MAX);
    kin__text_char(&text, ' ');
    kin__text_hex(&text, 0);
    EXPECT_STR(memory, "0 9223372036854775807 -9223372036854775808 18446744073709551615 "
                       "ffffffffffffffff 0");
}

KIN_TEST(what_does_not_fit_is_cut, "")
{
    fresh(8);
    kin__text_str(&text, "1234");
    kin__text_str(&text, "5678");
    EXPECT_STR(memory, "1234567");
    EXPECT(kin__text_is_full(&text));
    kin__text_dec(&text, 99);
    EXPECT_STR(memory, "1234567");
    expect_intact();
}

KIN_TEST(padding_counts_from_the_start_of_the_line, "")
{
    fresh(100);
    kin__text_str(&text, "ab");
    kin__text_pad(&text, 4);
    kin__text_str(&text, "c\nd");
    kin__text_pad(&text, 4);
    kin__text_str(&text, "e");
    kin__text_pad(&text, 3);
    kin__text_pad(&text, 5);
    EXPECT_STR(memory, "ab  c\nd   e");
    fresh(4);
    kin__text_pad(&text, SIZE_MAX);
    EXPECT_STR(memory, "   ");
    expect_intact();
}

KIN_TEST(a_line_ends_even_in_a_full_text, "")
{
    fresh(6);
    kin__text_str(&text, "abc");
    kin__text_end_line(&text);
    EXPECT_STR(memory, "abc\n");
    kin__text_str(&text, "defgh");
    kin__text_end_line(&text);
    EXPECT_STR(memory, "abc\n\n");
    expect_intact();
}

KIN_TEST(a_text_is_shortened_but_never_lengthened, "")
{
    fresh(20);
    kin__text_str(&text, "abcdef");
    kin__text_cut(&text, 10);
    EXPECT_STR(memory, "abcdef");
    kin__text_cut(&text, 6);
    EXPECT_STR(memory, "abcdef");
    kin__text_cut(&text, 2);
    EXPECT_STR(memory, "ab");
    kin__text_str(&text, "x");
    EXPECT_STR(memory, "abx");
}

static const char *ns_text(int64_t ns)
{
    kin__text_ns(fresh(100), ns);
    return memory;
}

KIN_TEST(durations_are_for_people, "")
{
    EXPECT_STR(ns_text(0), "0 ns");
    EXPECT_STR(ns_text(850), "850 ns");
    EXPECT_STR(ns_text(999), "999 ns");
    EXPECT_STR(ns_text(1000), "1.00 us");
    EXPECT_STR(ns_text(1250000), "1.25 ms");
    EXPECT_STR(ns_text(12590000), "12.5 ms");
    EXPECT_STR(ns_text(125900000), "125 ms");
    EXPECT_STR(ns_text(999999999), "999 ms");
    EXPECT_STR(ns_text(1050000000), "1.05 s");
    EXPECT_STR(ns_text(INT64_C(59999999999)), "59.9 s");
    EXPECT_STR(ns_text(INT64_C(60000000000)), "1 min 00 s");
    EXPECT_STR(ns_text(INT64_C(125000000000)), "2 min 05 s");
    EXPECT_STR(ns_text(INT64_C(3599999999999)), "59 min 59 s");
    EXPECT_STR(ns_text(INT64_C(12000000000000)), "3 h 20 min");
    EXPECT_STR(ns_text(-1250000), "-1.25 ms");
    EXPECT_STR(ns_text(INT64_MAX), "never");
    EXPECT_STR(ns_text(INT64_MAX - 1), "2562047 h 47 min");
    EXPECT_STR(ns_text(INT64_MIN), "-2562047 h 47 min");
}

static const char *bytes_text(uint64_t bytes)
{
    kin__text_bytes(fresh(100), bytes);
    return memory;
}

KIN_TEST(sizes_are_for_people, "")
{
    EXPECT_STR(bytes_text(0), "0 B");
    EXPECT_STR(bytes_text(1023), "1023 B");
    EXPECT_STR(bytes_text(1024), "1.00 KiB");
    EXPECT_STR(bytes_text(1280), "1.25 KiB");
    EXPECT_STR(bytes_text(12 * 1024 + 512), "12.5 KiB");
    EXPECT_STR(bytes_text(1024 * 1024 - 1), "1023 KiB");
    EXPECT_STR(bytes_text(UINT64_C(256) << 20), "256 MiB");
    EXPECT_STR(bytes_text(UINT64_C(3) << 30), "3.00 GiB");
    EXPECT_STR(bytes_text(UINT64_C(5) << 39), "2.50 TiB");
    EXPECT_STR(bytes_text(UINT64_C(1) << 50), "1.00 PiB");
    EXPECT_STR(bytes_text(UINT64_MAX), "15.9 EiB");
}

/* ---- formatting ---- */

/* Formats with both and compares, in a buffer of cap bytes. */
KIN_PRINTF(2, 3)
static void compare(size_t cap, const char *format, ...)
{
    char expected[sizeof(memory)] = "";
    va_list values;
    va_start(values, format);
    vsnprintf(expected, cap, format, values);
    va_end(values);
    va_start(values, format);
    kin__text_format(fresh(cap), format, values);
    va_end(values);
    expect_intact();
    if (cap > 0 && strcmp(memory, expected) != 0)
        printf("format: %s\n", format);
    if (cap > 0)
        EXPECT_STR(memory, expected);
}

KIN_TEST(each_conversion_matches_printf, "")
{
    int here = 0;
    size_t cap = sizeof(memory);
    compare(cap, "%s", "");
    compare(cap, "plain");
    compare(cap, "%s %d %u %ld %lu %lld %llu %zu %x %c %%", "s", -1, 2u, -3L, 4UL, -5LL, 6ULL,
            (size_t)7, 0xabcu, 'c');
    compare(cap, "%d %d %u %x", INT_MIN, INT_MAX, UINT_MAX, UINT_MAX);
    compare(cap, "%ld %ld %lu %lx", LONG_MIN, LONG_MAX, ULONG_MAX, ULONG_MAX);
    compare(cap, "%lld %lld %llu %llx", LLONG_MIN, LLONG_MAX, ULLONG_MAX, ULLONG_MAX);
    compare(cap, "%zd %zu %zx %i", (ptrdiff_t)-9, SIZE_MAX, SIZE_MAX, 12);
    compare(cap, "%p", (void *)&here);
    compare(cap, "%30p|%-30p|", (void *)&here, (void *)&here);
    compare(cap, "%5d|%-5d|%05d|%5d|%-5d|%05d|", 12, 12, 12, -12, -12, -12);
    compare(cap, "%1d|%01d|%-1d|", 1234, 1234, 1234);
    compare(cap, "%8s|%-8s|%.3s|%8.3s|%-8.3s|%.0s|%.s|", "abcd", "abcd", "abcd", "abcd", "abcd",
            "abcd", "abcd");
    compare(cap, "%*d|%*d|%-*d|%0*d|", 5, 1, -5, 1, 5, 1, 5, 1);
    compare(cap, "%.*s|%*.*s|%.*s|", 2, "abcd", 6, 2, "abcd", -1, "abcd");
    compare(cap, "%3c|%-3c|", 'a', 'b');
    compare(cap, "%08x|%-8x|%8x|%016llx", 0xbeefu, 0xbeefu, 0xbeefu, 0xbeefULL);
    compare(cap, "%" PRIu64 " %" PRId64 " %" PRIx64, UINT64_MAX, INT64_MIN, UINT64_MAX);
    compare(cap, "%%%d%%", 5);
}

KIN_TEST(a_precision_reads_no_further_than_it_says, "")
{
    const char bytes[3] = {'a', 'b', 'c'}; /* no NUL */
    kin__text_printf(fresh(100), "%.3s|%.*s", bytes, 2, bytes);
    EXPECT_STR(memory, "abc|ab");
}

/* Without the attribute of a printf, so that no compiler objects to what is wrong on purpose. */
static const char *odd_text(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    kin__text_format(fresh(100), format, values);
    va_end(values);
    return memory;
}

KIN_TEST(null_pointers_are_shown, "")
{
    EXPECT_STR(odd_text("%s %p", (char *)NULL, (void *)NULL), "(null) 0x0");
    EXPECT_STR(odd_text("%8s|%.2s", (char *)NULL, (char *)NULL), "  (null)|(n");
}

KIN_TEST(an_unknown_conversion_ends_the_formatting, "")
{
    EXPECT_STR(odd_text("a %d b %q c %d", 1, 2), "a 1 b %q c %d");
    EXPECT_STR(odd_text("%d%", 1), "1%");
    EXPECT_STR(odd_text("%-08"), "%-08");
    EXPECT_STR(odd_text("%ll"), "%ll");
    EXPECT_STR(odd_text("%ls %d", L"x", 1), "%ls %d");
    EXPECT_STR(odd_text("%.3d", 1), "%.3d");
    EXPECT_STR(odd_text("%f", 1.0), "%f");
    EXPECT_STR(odd_text("%hd", 1), "%hd");
}

KIN_TEST(strings_and_characters_are_never_filled_with_zeros, "")
{
    EXPECT_STR(odd_text("%05s|%03c|", "ab", 'c'), "   ab|  c|");
}

KIN_TEST(a_monstrous_width_is_cut_like_anything_else, "")
{
    EXPECT_EQ(strlen(odd_text("%99999999999999999999d", 1)), 99);
    expect_intact();
    EXPECT_EQ(strlen(odd_text("%-99999999999999999999s|", "x")), 99);
    EXPECT_EQ(strlen(odd_text("%*d", INT_MIN, 1)), 99);
    EXPECT_EQ(strlen(odd_text("%*d", INT_MAX, 1)), 99);
    expect_intact();
}

KIN_TEST(every_size_of_buffer_cuts_where_snprintf_does, "")
{
    for (size_t cap = 0; cap < 60; cap++)
        compare(cap, "task %-10s is %5d years, %08x, %s%c|%6s|%%", "fetch", -42, 0xbeefu, "done",
                '!', "ab");
}

/* A conversion with random flags and width, for values that vary in size. */
static void random_conversion(char *out, size_t size, struct kin__rng *rng, const char *letters)
{
    static const char *const number_flags[] = {"", "-", "0", "-0", "0-"};
    static const char *const other_flags[] = {"", "-"};
    bool is_number = strpbrk(letters, "dux") != NULL;
    const char *flags =
        is_number ? number_flags[kin__rng_below(rng, 5)] : other_flags[kin__rng_below(rng, 2)];
    char width[8] = "";
    if (kin__rng_chance(rng, 1, 2))
        snprintf(width, sizeof(width), "%d", (int)(1 + kin__rng_below(rng, 30)));
    snprintf(out, size, "<%%%s%s%s>", flags, width, letters);
}

/* Random length first, so that small and large values are equally likely. */
static uint64_t random_value(struct kin__rng *rng)
{
    return kin__rng_next(rng) >> kin__rng_below(rng, 64);
}

static void compare_random(struct kin__rng *rng, const char *letters)
{
    char f[64];
    char s[40];
    uint64_t v = random_value(rng);
    size_t cap = kin__rng_chance(rng, 1, 2) ? sizeof(memory) : kin__rng_below(rng, 40);
    random_conversion(f, sizeof(f), rng, letters);
    if (strcmp(letters, "d") == 0) {
        compare(cap, f, (int)v);
    } else if (strcmp(letters, "ld") == 0) {
        compare(cap, f, (long)v);
    } else if (strcmp(letters, "lld") == 0) {
        compare(cap, f, (long long)v);
    } else if (letters[0] == 'u' || letters[0] == 'x') {
        compare(cap, f, (unsigned)v);
    } else if (strncmp(letters, "ll", 2) == 0) {
        compare(cap, f, (unsigned long long)v);
    } else if (letters[0] == 'l') {
        compare(cap, f, (unsigned long)v);
    } else if (letters[0] == 'z') {
        compare(cap, f, (size_t)v);
    } else if (letters[0] == 'p') {
        compare(cap, f, (void *)(uintptr_t)(v | 1));
    } else if (letters[0] == 'c') {
        compare(cap, f, (int)(' ' + v % 90));
    } else {
        size_t size = kin__rng_below(rng, sizeof(s));
        for (size_t i = 0; i < size; i++)
            s[i] = (char)(' ' + kin__rng_below(rng, 90));
        s[size] = '\0';
        compare(cap, f, s);
    }
}

KIN_TEST(random_conversions_match_snprintf, "")
{
    static const char *const letters[] = {"d",   "u",  "x",  "ld", "lu", "lx", "lld", "llu",
                                          "llx", "zu", "zx", "p",  "c",  "s",  ".5s"};
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (int round = 0; round < 30000; round++)
        compare_random(&rng, letters[kin__rng_below(&rng, sizeof(letters) / sizeof(letters[0]))]);
}
