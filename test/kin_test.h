/* SPDX-License-Identifier: MIT */
/*
 * The test framework: each test registers itself and runs in a process of its own, with an alarm.
 *
 *     KIN_TEST(wake_before_commit_calls_the_park_off, "F4 W:4.3")
 *     {
 *         EXPECT_EQ(kin_x(), 5);
 *     }
 *
 * A test passes when its body returns and its process then exits with 0, so a leak or a race that a
 * sanitizer reports at exit fails it too. A body that leaves the process by itself fails, whatever
 * the status. An expectation may stand in any thread and on any stack of the test's process: it
 * ends the process with _exit.
 *
 * What a test prints is kept and shown when the test fails, or always with --verbose.
 *
 * Environment:
 *   KIN_SEED        the seed every test gets, instead of a random one
 *   KIN_TEST_SCALE  multiplies the alarms, for valgrind, sanitizers and emulators; a stress test
 *                   may divide its rounds by kin_test_scale()
 */
#ifndef KIN_TEST_H
#define KIN_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Wide enough for every integer of the tests with its sign, so that -1 and UINT64_MAX differ. */
__extension__ typedef __int128 kin_test_int;

struct kin_test {
    const char *name;
    const char *tags; /* clauses that this test would see broken, "" when there is none */
    const char *file;
    int line;
    unsigned limit_s; /* the alarm */
    void (*body)(void);
    struct kin_test *next;
};

/* Appends to the tests that main runs. */
void kin_test_add(struct kin_test *test);
/* What main does, for a list of one's own. Returns the exit status. */
int kin_test_main(int argc, char **argv, struct kin_test *tests);

/* A limit is for a test that hangs. Each has this at least: a machine that others use may be slow
 * without end. */
#define KIN_TEST_S 300

#define KIN_TEST_LIMIT(test_name, test_tags, seconds)                                              \
    static void test_name(void);                                                                   \
    static struct kin_test kin_test_of_##test_name = {                                             \
        #test_name, "" test_tags, __FILE__, __LINE__,                                              \
        (seconds) > KIN_TEST_S ? (seconds) : KIN_TEST_S, test_name, NULL};                         \
    __attribute__((constructor)) static void kin_test_add_##test_name(void)                        \
    {                                                                                              \
        kin_test_add(&kin_test_of_##test_name);                                                    \
    }                                                                                              \
    static void test_name(void)

#define KIN_TEST(test_name, test_tags) KIN_TEST_LIMIT(test_name, test_tags, KIN_TEST_S)

/* Whether a loop makes the round of this number, from 0 on: all of so many, but on a slow machine,
 * where each switch between two threads waits for a CPU, only those of the first seconds and a
 * hundredth of them always. For one loop at a time. */
bool kin_test_goes_on(uint64_t round, uint64_t rounds);
/* The seed of this test: KIN_SEED or random; printed when the test fails. */
uint64_t kin_test_seed(void);

/* As mkdtemp and mkstemp. What they made is removed with all that is in it when the test has ended,
 * however it did; a test need not, and may. From any process of the test. */
char *kin_test_mkdtemp(char *path);
int kin_test_mkstemp(char *path);

/* How many times slower than usual this run may be: KIN_TEST_SCALE, at least 1. */
unsigned kin_test_scale(void);

/* Ends the test as skipped, because this machine lacks something. What does not apply to a build
 * at all (say, overflow reports under a sanitizer) is left out by the preprocessor instead: with
 * KIN_STRICT a skipped test counts as failed. */
_Noreturn void kin_test_skip(const char *reason);
#define KIN_SKIP(reason) kin_test_skip(reason)

/* ---- expectations ---- */

/* Told of a failed expectation before it ends the process; NULL: nobody. It need not return. */
extern void (*kin_test_on_fail)(const char *text);

/* Ends the test as failed. what: the expectation as written; detail: may be "". */
_Noreturn void kin_test_fail(const char *file, int line, const char *what, const char *detail);
void kin_test_compare(const char *file, int line, bool holds, const char *macro,
                      const char *actual_text, const char *expected_text, kin_test_int actual,
                      kin_test_int expected);
void kin_test_string(const char *file, int line, const char *actual_text, const char *expected_text,
                     const char *actual, const char *expected);
void kin_test_pointer(const char *file, int line, const char *actual_text,
                      const char *expected_text, const void *actual, const void *expected);

#define EXPECT(condition)                                                                          \
    ((condition) ? (void)0 : kin_test_fail(__FILE__, __LINE__, "EXPECT(" #condition ")", ""))

#define KIN_TEST_COMPARE(macro, actual, op, expected)                                              \
    do {                                                                                           \
        const kin_test_int kin_test_a = (kin_test_int)(actual);                                    \
        const kin_test_int kin_test_e = (kin_test_int)(expected);                                  \
        kin_test_compare(__FILE__, __LINE__, kin_test_a op kin_test_e, macro, #actual, #expected,  \
                         kin_test_a, kin_test_e);                                                  \
    } while (0)

#define EXPECT_EQ(actual, expected) KIN_TEST_COMPARE("EXPECT_EQ", actual, ==, expected)
#define EXPECT_NE(actual, expected) KIN_TEST_COMPARE("EXPECT_NE", actual, !=, expected)
#define EXPECT_LT(actual, expected) KIN_TEST_COMPARE("EXPECT_LT", actual, <, expected)
#define EXPECT_LE(actual, expected) KIN_TEST_COMPARE("EXPECT_LE", actual, <=, expected)
#define EXPECT_GT(actual, expected) KIN_TEST_COMPARE("EXPECT_GT", actual, >, expected)
#define EXPECT_GE(actual, expected) KIN_TEST_COMPARE("EXPECT_GE", actual, >=, expected)
#define EXPECT_STR(actual, expected)                                                               \
    kin_test_string(__FILE__, __LINE__, #actual, #expected, (actual), (expected))
#define EXPECT_PTR(actual, expected)                                                               \
    kin_test_pointer(__FILE__, __LINE__, #actual, #expected, (actual), (expected))

/*
 * EXPECT_ABORT("pattern") { ... }: runs the block in a forked process, which must end by SIGABRT
 * with pattern somewhere in what it wrote to stderr. No thread but the caller exists in there.
 */
struct kin_test_abort {
    const char *pattern;
    const char *file;
    int line;
    int output; /* what the block writes to stderr */
    int child;  /* 0 inside the block's own process */
    bool began;
};
struct kin_test_abort kin_test_abort_begin(const char *pattern, const char *file, int line);
bool kin_test_abort_goes_on(struct kin_test_abort *expected);

#define EXPECT_ABORT(pattern)                                                                      \
    for (struct kin_test_abort kin_test_ab = kin_test_abort_begin(pattern, __FILE__, __LINE__);    \
         kin_test_abort_goes_on(&kin_test_ab);)

#endif
