/* SPDX-License-Identifier: MIT */
/*
 * Runs tests one after the other, each in a forked child, and says how each of them ended.
 *
 *   parent                                   child
 *     map a report both can see
 *     fork  -------------------------------> stdout and stderr go to a kept file
 *     wait for its end, at most the limit    body()
 *     (then SIGQUIT, then SIGKILL)           report: PASSED | FAILED | SKIPPED
 *     judge report and exit status  <------- exit
 *
 * The alarm is the parent's, because the child may have blocked every signal. A child leads a
 * process group of its own, which is killed when it has ended, so nothing a test started outlives
 * it. SIGQUIT comes first because a runtime that is stuck may print its tasks on it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kin_test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum outcome { RUNNING, PASSED, FAILED, SKIPPED };

enum { MADE_MAX = 64, MADE_BYTES = 128 };

/* Written by the child, read by the parent after the child has ended. */
struct report {
    _Atomic int outcome; /* the first to leave RUNNING writes the text */
    uint64_t seed;       /* by the parent, before the fork */
    char text[2048];
    atomic_flag is_making;           /* somebody writes to: */
    char made[MADE_MAX][MADE_BYTES]; /* files and directories of the test; "": none */
};

struct options {
    bool verbose;
    bool here; /* no fork and no alarm: for a debugger */
    char **filters;
    int filter_count;
};

struct counts {
    unsigned passed, failed, skipped;
};

enum { STATUS_FAILED = 97, STATUS_SKIPPED = 98, STATUS_NO_ABORT = 99, OUTPUT_SHOWN = 64 * 1024 };
enum { ROUNDS_MS = 20000 };

static struct kin_test *tests_first, **tests_end = &tests_first;
static struct report *report; /* of the test that runs in this process */
static bool is_echoing;       /* nobody reads the report: failures go to stderr */
static volatile sig_atomic_t child_running;
void (*kin_test_on_fail)(const char *text);

/* Asked by the sanitizers at start; their environment variables come on top. An allocation that is
 * too large fails as it does without them, and a test may start threads in a process it forked. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1:die_after_fork=0";
}

void kin_test_add(struct kin_test *test)
{
    test->next = NULL;
    *tests_end = test;
    tests_end = &test->next;
}

/* ---- inside a test ---- */

/* Leaves the verdict for the parent; only the first thread to do so is heard. */
static void settle(enum outcome outcome, const char *format, ...)
{
    int running = RUNNING;

    if (!atomic_compare_exchange_strong(&report->outcome, &running, (int)outcome))
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(report->text, sizeof report->text, format, list);
    va_end(list);
}

/* Ends the test's process. The streams are flushed by hand: exit handlers may wait for threads. */
static _Noreturn void leave(int status)
{
    fflush(stdout);
    fflush(stderr);
    _exit(status);
}

_Noreturn void kin_test_fail(const char *file, int line, const char *what, const char *detail)
{
    char text[sizeof report->text];

    snprintf(text, sizeof text, "%s:%d: %s%s", file, line, what, detail);
    if (kin_test_on_fail)
        kin_test_on_fail(text);
    if (is_echoing)
        fprintf(stderr, "%s\n", text);
    settle(FAILED, "%s", text);
    leave(STATUS_FAILED);
}

_Noreturn void kin_test_skip(const char *reason)
{
    settle(SKIPPED, "%s", reason);
    leave(STATUS_SKIPPED);
}

uint64_t kin_test_seed(void)
{
    return report->seed;
}

unsigned kin_test_scale(void)
{
    const char *given = getenv("KIN_TEST_SCALE");
    const int scale = given ? atoi(given) : 1;

    return scale > 1 ? (unsigned)scale : 1;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool kin_test_goes_on(uint64_t round, uint64_t rounds)
{
    static int64_t start;

    if (round == 0)
        start = now_ms();
    return round < rounds && (round <= rounds / 100 || now_ms() - start < ROUNDS_MS);
}

/* Writes value in decimal and hexadecimal. */
static void print_integer(char *buffer, size_t size, kin_test_int value)
{
    if (value >= INT64_MIN && value <= INT64_MAX)
        snprintf(buffer, size, "%" PRId64 " (0x%" PRIx64 ")", (int64_t)value,
                 (uint64_t)(int64_t)value);
    else if (value >= 0 && value <= (kin_test_int)UINT64_MAX)
        snprintf(buffer, size, "%" PRIu64 " (0x%" PRIx64 ")", (uint64_t)value, (uint64_t)value);
    else
        snprintf(buffer, size, "0x%016" PRIx64 "%016" PRIx64, (uint64_t)(value >> 64),
                 (uint64_t)value);
}

/* Fails with both expressions and both values, one under the other. */
static _Noreturn void fail_pair(const char *file, int line, const char *macro,
                                const char *actual_text, const char *expected_text,
                                const char *actual, const char *expected)
{
    char what[400], detail[1400];

    snprintf(what, sizeof what, "%s(%s, %s)", macro, actual_text, expected_text);
    snprintf(detail, sizeof detail, "\n        actual:   %s\n        expected: %s", actual,
             expected);
    kin_test_fail(file, line, what, detail);
}

void kin_test_compare(const char *file, int line, bool holds, const char *macro,
                      const char *actual_text, const char *expected_text, kin_test_int actual,
                      kin_test_int expected)
{
    char actual_value[80], expected_value[80];

    if (holds)
        return;
    print_integer(actual_value, sizeof actual_value, actual);
    print_integer(expected_value, sizeof expected_value, expected);
    fail_pair(file, line, macro, actual_text, expected_text, actual_value, expected_value);
}

void kin_test_string(const char *file, int line, const char *actual_text, const char *expected_text,
                     const char *actual, const char *expected)
{
    if (actual == expected || (actual && expected && strcmp(actual, expected) == 0))
        return;
    char actual_value[600], expected_value[600];
    snprintf(actual_value, sizeof actual_value, actual ? "\"%s\"" : "(null)", actual);
    snprintf(expected_value, sizeof expected_value, expected ? "\"%s\"" : "(null)", expected);
    fail_pair(file, line, "EXPECT_STR", actual_text, expected_text, actual_value, expected_value);
}

void kin_test_pointer(const char *file, int line, const char *actual_text,
                      const char *expected_text, const void *actual, const void *expected)
{
    if (actual == expected)
        return;
    char actual_value[40], expected_value[40];
    snprintf(actual_value, sizeof actual_value, "%p", actual);
    snprintf(expected_value, sizeof expected_value, "%p", expected);
    fail_pair(file, line, "EXPECT_PTR", actual_text, expected_text, actual_value, expected_value);
}

/* ---- files that keep what a process printed ---- */

/* A file without a name that both sides of a fork share. */
static int keep_open(void)
{
    const int fd = memfd_create("kin_test", MFD_CLOEXEC);

    if (fd < 0) {
        perror("kin_test: memfd_create");
        exit(2);
    }
    return fd;
}

/* Reads what was kept, at most size - 1 bytes from its end, and ends it with a zero. */
static size_t keep_read(int fd, char *buffer, size_t size)
{
    const off_t all = lseek(fd, 0, SEEK_END);
    const off_t from = all > (off_t)size - 1 ? all - ((off_t)size - 1) : 0;
    size_t have = 0;

    while (have < size - 1) {
        const ssize_t got = pread(fd, buffer + have, size - 1 - have, from + (off_t)have);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    buffer[have] = 0;
    return have;
}

/* ---- EXPECT_ABORT ---- */

struct kin_test_abort kin_test_abort_begin(const char *pattern, const char *file, int line)
{
    struct kin_test_abort expected = {pattern, file, line, keep_open(), 0, false};

    fflush(stdout);
    fflush(stderr);
    expected.child = (int)fork();
    if (expected.child < 0)
        kin_test_fail(file, line, "EXPECT_ABORT: fork failed", "");
    if (expected.child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(expected.output, STDERR_FILENO);
        is_echoing = true;
    }
    return expected;
}

/* In the block's process: true before the block, and the end of the process after it. In the
 * test's process: judges how the block ended. */
bool kin_test_abort_goes_on(struct kin_test_abort *expected)
{
    if (expected->child == 0) {
        if (expected->began)
            leave(STATUS_NO_ABORT);
        expected->began = true;
        return true;
    }
    int status = 0;
    while (waitpid(expected->child, &status, 0) < 0 && errno == EINTR)
        continue;
    static char said[16384]; /* with the stack of who has done it, which a sanitizer makes long */
    char detail[1400];
    keep_read(expected->output, said, sizeof said);
    close(expected->output);
    const char *wrong = NULL;
    if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_NO_ABORT)
        wrong = "the block ran to its end";
    else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        wrong = "the block ended in another way";
    else if (!strstr(said, expected->pattern))
        wrong = "it aborted, but without the pattern";
    if (!wrong)
        return false;
    snprintf(detail, sizeof detail,
             ": %s (wait status 0x%x)\n        pattern: %s\n        stderr:  %.1000s", wrong,
             (unsigned)status, expected->pattern, said);
    kin_test_fail(expected->file, expected->line, "EXPECT_ABORT", detail);
}

/* ---- the parent ---- */

static uint64_t choose_seed(void)
{
    const char *given = getenv("KIN_SEED");
    uint64_t seed = 0;

    if (given && *given)
        return strtoull(given, NULL, 0);
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)now_ms() * 0x9e3779b97f4a7c15u;
    return seed;
}

/* ---- files of a test ---- */

/* Keeps a path for the time after the test, where one was that is gone by now. */
static bool keep_made(const char *path)
{
    unsigned i = 0;

    if (strlen(path) >= MADE_BYTES)
        return false;
    while (atomic_flag_test_and_set(&report->is_making)) /* ends: another has it for a moment */
        continue;
    while (i < MADE_MAX && report->made[i][0] && access(report->made[i], F_OK) == 0)
        i++;
    if (i < MADE_MAX)
        strcpy(report->made[i], path);
    atomic_flag_clear(&report->is_making);
    return i < MADE_MAX;
}

char *kin_test_mkdtemp(char *path)
{
    char *made = mkdtemp(path);

    if (made && !keep_made(path)) {
        (void)rmdir(path);
        kin_test_fail(__FILE__, __LINE__, "a test makes a few directories", "");
    }
    return made;
}

int kin_test_mkstemp(char *path)
{
    const int fd = mkstemp(path);

    if (fd >= 0 && !keep_made(path)) {
        (void)unlink(path);
        kin_test_fail(__FILE__, __LINE__, "a test makes a few files", "");
    }
    return fd;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

/* What is left of the files of a test. */
static void remove_made(void)
{
    for (unsigned i = 0; i < MADE_MAX; i++)
        if (report->made[i][0])
            (void)nftw(report->made[i], remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Whoever started this may ignore signals, as nohup and a shell in the background do, and programs
 * inherit that: a test begins without. */
static void heed_signals(void)
{
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            signal(number, SIG_DFL);
    }
    signal(SIGINT, SIG_DFL); /* which this program has handlers for */
    signal(SIGTERM, SIG_DFL);
}

static _Noreturn void run_child(struct kin_test *test, int output, const sigset_t *signals)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    heed_signals();
    sigprocmask(SIG_SETMASK, signals, NULL);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    test->body();
    settle(PASSED, "");
    exit(0);
}

/* Waits for the child's end; past the limit asks it to say what it does, then kills it. True when
 * it ended by itself. */
static bool await_child(pid_t child, unsigned limit_s, int *status)
{
    const int64_t start = now_ms(), limit = (int64_t)limit_s * 1000, grace = 1000;
    bool in_time = true, killed = false;
    sigset_t child_ended;

    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    /* Ends: after limit and grace the child is killed, and a killed child is reaped. */
    for (;;) {
        const pid_t got = waitpid(child, status, WNOHANG);
        if (got == child || (got < 0 && errno != EINTR))
            return in_time;
        const int64_t spent = now_ms() - start;
        if (in_time && spent >= limit) {
            in_time = false;
            kill(child, SIGQUIT);
        } else if (!in_time && !killed && spent >= limit + grace) {
            killed = true;
            kill(-child, SIGKILL);
            kill(child, SIGKILL);
        }
        const struct timespec nap = {0, 100 * 1000000};
        sigtimedwait(&child_ended, NULL, &nap);
    }
}

/* Runs test in a child; says in text how it ended. */
static enum outcome run_test(struct kin_test *test, int output, char *text, size_t text_size)
{
    sigset_t child_ended, before;
    int status = 0;

    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, &before);
    const pid_t child = fork();
    if (child < 0) {
        snprintf(text, text_size, "fork failed: %s", strerror(errno));
        return FAILED;
    }
    if (child == 0)
        run_child(test, output, &before);
    setpgid(child, child); /* also done by the child: whoever comes first */
    child_running = child;
    const unsigned limit_s = test->limit_s * kin_test_scale();
    const bool in_time = await_child(child, limit_s, &status);
    child_running = 0;
    kill(-child, SIGKILL); /* what the test left behind */
    remove_made();
    sigprocmask(SIG_SETMASK, &before, NULL);

    const int outcome = atomic_load(&report->outcome);
    if (!in_time)
        snprintf(text, text_size, "still running after %u s%s%s", limit_s,
                 outcome == FAILED ? "; " : "", report->text);
    else if (outcome == FAILED || outcome == SKIPPED)
        snprintf(text, text_size, "%s", report->text);
    else if (WIFSIGNALED(status))
        snprintf(text, text_size, "killed by signal %d (%s)%s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)), outcome == PASSED ? " after its body returned" : "");
    else if (outcome == RUNNING)
        snprintf(text, text_size, "ended its process with status %d", WEXITSTATUS(status));
    else if (WEXITSTATUS(status) != 0)
        snprintf(text, text_size, "exit status %d after its body returned: see the report below",
                 WEXITSTATUS(status));
    else
        return PASSED;
    return in_time && outcome == SKIPPED ? SKIPPED : FAILED;
}

static void show_output(int output)
{
    static char buffer[OUTPUT_SHOWN];

    if (keep_read(output, buffer, sizeof buffer) == 0)
        return;
    printf("    ---- its output\n");
    for (char *line = buffer, *end; *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        printf("    | %.*s%s", (int)(end - line), line, end[-1] == '\n' ? "" : "\n");
    }
    printf("    ----\n");
}

/* Runs one test and prints its line. */
static void run_and_tell(struct kin_test *test, const struct options *options,
                         struct counts *counts)
{
    static char text[4096];
    const int output = keep_open();
    const int64_t start = now_ms();

    memset(report, 0, sizeof *report);
    report->seed = choose_seed();
    fflush(stdout);
    const enum outcome outcome = run_test(test, output, text, sizeof text);
    if (outcome == PASSED) {
        counts->passed++;
        printf("ok   %s\n", test->name);
    } else if (outcome == SKIPPED) {
        counts->skipped++;
        printf("skip %s %s\n", test->name, text);
    } else {
        counts->failed++;
        printf("FAIL %s %s\n", test->name, text);
        printf("    tags: \"%s\"  seed: KIN_SEED=0x%" PRIx64 "\n", test->tags, report->seed);
    }
    if (options->verbose)
        printf("    %lld ms\n", (long long)(now_ms() - start));
    if (outcome == FAILED || options->verbose)
        show_output(output);
    fflush(stdout);
    close(output);
}

static bool is_chosen(const struct kin_test *test, const struct options *options)
{
    for (int i = 0; i < options->filter_count; i++)
        if (strstr(test->name, options->filters[i]))
            return true;
    return options->filter_count == 0;
}

/* The user ends the run: take the child along. */
static void on_interrupt(int signal_number)
{
    if (child_running > 0)
        kill(-(pid_t)child_running, SIGKILL);
    remove_made(); /* this process does nothing but wait */
    _exit(128 + signal_number);
}

static int usage(const char *program)
{
    printf("usage: %s [--list] [--verbose] [--here] [substring...]\n"
           "Runs the tests whose name contains one of the substrings; without any, all of them.\n"
           "  --list     name, tags and place of the tests, without running them\n"
           "  --verbose  also show the time and the output of tests that pass\n"
           "  --here     run in this very process, without an alarm, for a debugger\n"
           "Environment: KIN_SEED=n the seed of every test; KIN_TEST_SCALE=n multiplies alarms.\n",
           program);
    return 0;
}

static void list_tests(const struct kin_test *tests, const struct options *options)
{
    for (; tests; tests = tests->next)
        if (is_chosen(tests, options))
            printf("%s\t%s\t%s:%d\n", tests->name, tests->tags, tests->file, tests->line);
}

int kin_test_main(int argc, char **argv, struct kin_test *tests)
{
    const char *slash = strrchr(argv[0], '/'), *program = slash ? slash + 1 : argv[0];
    struct options options = {0};
    struct counts counts = {0};
    bool list = false;
    int i = 1;

    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--list") == 0)
            list = true;
        else if (strcmp(argv[i], "--verbose") == 0)
            options.verbose = true;
        else if (strcmp(argv[i], "--here") == 0)
            options.here = true;
        else
            return usage(program) + (strcmp(argv[i], "--help") != 0) * 2;
    }
    options.filters = argv + i;
    options.filter_count = argc - i;
    if (list) {
        list_tests(tests, &options);
        return 0;
    }
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED) {
        perror("kin_test: mmap");
        return 2;
    }
    signal(SIGCHLD, SIG_DFL); /* ignored, it would keep ends from being waited for */
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    for (struct kin_test *test = tests; test; test = test->next) {
        if (!is_chosen(test, &options))
            continue;
        if (!options.here) {
            run_and_tell(test, &options, &counts);
            continue;
        }
        memset(report, 0, sizeof *report);
        report->seed = choose_seed();
        is_echoing = true;
        printf("here %s KIN_SEED=0x%" PRIx64 "\n", test->name, report->seed);
        test->body();
        remove_made();
        counts.passed++;
    }
    printf("%s: %u passed, %u failed, %u skipped\n", program, counts.passed, counts.failed,
           counts.skipped);
    fflush(stdout);
    munmap(report, sizeof *report);
    return counts.failed != 0;
}

int main(int argc, char **argv)
{
    return kin_test_main(argc, argv, tests_first);
}
