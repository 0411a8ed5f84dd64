/* SPDX-License-Identifier: MIT */
/*
 * Goal: the lab's verdict is true. For every small program (a) DPOR comes out in exactly the ways
 * in which a plain search without any reduction does, where every call is a point; and (b)
 * production, on two and on four workers, with random delays in front of calls, comes out in no
 * other way.
 * Method: programs made from numbers (theorem.h), each explored by both searches; the ways in which
 * it came out go to the same programs in production (theorem.c), which looks for another one.
 *
 * A program that DPOR cannot finish within its bound is skipped and counted as such. Where only the
 * plain search cannot, that search must still have seen nothing that DPOR has not. In (b) are no
 * programs with deadlines that lie ahead, because in production time passes whenever it likes, and
 * none that may come to a standstill, because production would stand still.
 *
 * The programs are the same in each run of the tests, 20,000 of them where the build is fast.
 * KIN_THEOREM_COUNT=n tries n others, which the seed of the test says or KIN_THEOREM_FIRST, the
 * number of the first one. With KIN_THEOREM_SHOW every way to come out is printed.
 */
#include "lab/in_lab.h"

#include "theorem.h"

#include "lab/report.h"
#include "lab/world.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DPOR_RUNS = 600, PLAIN_RUNS = 1500, OUTCOMES = 1 << 10 };
#ifdef KIN_DEBUG
enum { PROGRAMS = 200 };
#else
enum { PROGRAMS = 20000 };
#endif
enum { FIRST_PROGRAM = 1001 }; /* in two hundred from here on the mutants of lab.txt show */
#define TIMES "5" /* in production, on so many workers each time */

static bool theorem_is_over(void)
{
    return kin__world.is_closed;
}

static void theorem_pause(void)
{
}

/* ---- ways to come out ---- */

struct outcomes {
    uint64_t slots[OUTCOMES]; /* 0: free */
    unsigned count;
    bool is_stuck; /* one of them is a standstill */
};
static struct outcomes seen[2], *now;
static uint64_t wanted; /* an outcome that is made to fail the run; 0: none */

static bool has(const struct outcomes *set, uint64_t hash)
{
    for (unsigned at = hash % OUTCOMES; set->slots[at]; at = (at + 1) % OUTCOMES)
        if (set->slots[at] == hash)
            return true;
    return false;
}

static void add(struct outcomes *set, uint64_t hash)
{
    unsigned at = hash % OUTCOMES;
    if (has(set, hash))
        return;
    EXPECT_LT(set->count, OUTCOMES / 2);
    while (set->slots[at]) /* ends: half of it is free */
        at = (at + 1) % OUTCOMES;
    set->slots[at] = hash;
    set->count++;
}

/* The last run, if it was ended by the lab: it came to a standstill, which is known when the next
 * one begins and one more has failed; or the search has broken it off, and it came out in no
 * way. */
static struct {
    uint64_t outcome; /* 0: there is no such run */
    uint64_t failures;
} last;

static void settle(uint64_t failures)
{
    if (last.outcome && failures > last.failures) {
        now->is_stuck = true;
        add(now, last.outcome);
    }
    last.outcome = 0;
}

/* Called for every run. */
static int one_run(void *arg)
{
    const uint64_t failures = kin__engine_result(kin__world.engine)->failures;
    (void)arg;
    settle(failures);
    kin_ignore(kin_run(NULL, theorem_play, NULL));
    if (kin__world.is_killed) {
        last.outcome = theorem_outcome(true);
        last.failures = failures;
    } else if (!kin__world.is_closed) {
        uint64_t outcome = theorem_outcome(false);
        if (getenv("KIN_THEOREM_SHOW") && !has(now, outcome))
            theorem_say_outcome();
        add(now, outcome);
        if (outcome == wanted)
            theorem_say_outcome();
        kin_lab_assert(outcome != wanted, "this is how it came out");
    }
    return 0;
}

/* Explores the program; whether nothing is left. */
static bool explore(enum kin__strategy other, uint64_t runs, struct outcomes *set)
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = KIN_LAB_DPOR;
    config.executions_max = runs;
    config.seed = 7;
    config.oracles = wanted ? KIN_ORACLE_ORDER : KIN_ORACLE_DEADLOCK;
    memset(set, 0, sizeof(*set));
    memset(&kin__lab_wish, 0, sizeof(kin__lab_wish));
    kin__lab_wish.other = other;
    kin__lab_wish.keeps_going = !wanted;
    kin__lab_wish.is_unshrunk = true;
    now = set;
    last.outcome = 0;
    kin_ignore(kin_lab_run_host(&config, one_run, NULL, &report));
    const struct kin__engine_result *result = &kin__lab_wish.result;
    settle(result->failures);
    EXPECT(wanted || !result->has_diverged);
    if (!wanted && result->failure.oracle)
        EXPECT_STR(result->failure.oracle, "deadlock");
    return result->is_exhausted;
}

/* ---- how a program that fails is shown ---- */

static void show_outcome(enum kin__strategy other, uint64_t outcome)
{
    static struct outcomes unused;
    wanted = outcome;
    (void)explore(other, 0, &unused);
    printf("%s\n", report.text);
    wanted = 0;
}

static void show_missing(const struct outcomes *more, const struct outcomes *less,
                         enum kin__strategy search)
{
    for (unsigned i = 0; i < OUTCOMES; i++) {
        if (more->slots[i] && !has(less, more->slots[i])) {
            show_outcome(search, more->slots[i]);
            return;
        }
    }
}

/* ---- (a) ---- */

static struct {
    unsigned programs, skipped, halves, outcomes, written;
    uint64_t runs[2];
} sums;

static unsigned missing(const struct outcomes *more, const struct outcomes *less)
{
    unsigned count = 0;
    for (unsigned i = 0; i < OUTCOMES; i++)
        count += more->slots[i] && !has(less, more->slots[i]);
    return count;
}

/* How far the searches have come. */
enum extent { NEITHER, ONLY_DPOR, BOTH };

/* Whether the two searches agree, as far as they have come. */
static bool agree(enum extent *extent)
{
    *extent = NEITHER;
    const bool is_whole = explore(KIN__STRATEGY_AUTO, DPOR_RUNS, &seen[0]);
    sums.runs[0] += report.executions;
    if (!is_whole)
        return true;
    *extent = explore(KIN__STRATEGY_DFS, PLAIN_RUNS, &seen[1]) ? BOTH : ONLY_DPOR;
    sums.runs[1] += report.executions;
    return missing(&seen[1], &seen[0]) == 0 &&
           (*extent == ONLY_DPOR || missing(&seen[0], &seen[1]) == 0);
}

/* Takes out of the program what it does not need in order to fail. */
static void shrink(void)
{
    enum extent extent;
    for (unsigned i = 0; i < program.tasks; i++) {
        for (unsigned k = 0; k < program.count[i];) { /* ends: one call fewer, or passed */
            struct theorem_program before = program;
            memmove(&program.ops[i][k], &program.ops[i][k + 1], THEOREM_OPS - k - 1u);
            program.count[i]--;
            if (!agree(&extent))
                continue;
            program = before;
            k++;
        }
    }
    (void)agree(&extent);
}

/* Whether DPOR has come to its end; that the plain search agrees is certain then. */
static bool try_program(uint64_t seed)
{
    enum extent extent;
    theorem_make(seed);
    if (getenv("KIN_THEOREM_SHOW"))
        theorem_show(seed);
    sums.programs++;
    if (agree(&extent)) {
        sums.skipped += extent == NEITHER;
        sums.halves += extent == ONLY_DPOR;
        sums.outcomes += extent == NEITHER ? 0 : seen[0].count;
        return extent != NEITHER;
    }
    shrink();
    printf("program %llu: DPOR comes out in %u ways, plain search in %u (KIN_THEOREM_FIRST=%llu "
           "KIN_THEOREM_COUNT=1)\n",
           (unsigned long long)seed, seen[0].count, seen[1].count, (unsigned long long)seed);
    theorem_show(seed);
    show_missing(&seen[1], &seen[0], KIN__STRATEGY_DFS);
    show_missing(&seen[0], &seen[1], KIN__STRATEGY_AUTO);
    const bool the_searches_agree = false;
    EXPECT(the_searches_agree);
    return false;
}

/* ---- (b) ---- */

/* A line of the input of theorem.c: a program, and the ways in which it may come out. */
static void write_ways(FILE *file, uint64_t seed)
{
    if (theorem_is_timed() || seen[0].is_stuck)
        return;
    fprintf(file, "%llu %u", (unsigned long long)seed, seen[0].count);
    for (unsigned i = 0; i < OUTCOMES; i++)
        if (seen[0].slots[i])
            fprintf(file, " %llx", (unsigned long long)seen[0].slots[i]);
    fprintf(file, "\n");
    sums.written++;
}

/* Runs the programs of the file in production. False: that cannot be done here. */
static bool run_in_production(int fd)
{
    char seed[24];
    int how;
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)kin_test_seed());
    pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0) {
        dup2(fd, 0);
        execl(KIN_THEOREM, KIN_THEOREM, seed, TIMES, (char *)NULL);
        _exit(127);
    }
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    EXPECT(WIFEXITED(how));
    if (WEXITSTATUS(how) == 127)
        return false;
    EXPECT_EQ(WEXITSTATUS(how), 0);
    return true;
}

/* ---- both ---- */

static unsigned program_count(void)
{
    const char *given = getenv("KIN_THEOREM_COUNT");
    return given ? (unsigned)strtoul(given, NULL, 10) : PROGRAMS / kin_test_scale() + 1;
}

static uint64_t first_program(void)
{
    const char *given = getenv("KIN_THEOREM_FIRST");
    if (given)
        return strtoull(given, NULL, 10);
    return getenv("KIN_THEOREM_COUNT") ? kin_test_seed() << 16 : FIRST_PROGRAM;
}

KIN_TEST_LIMIT(the_lab_has_seen_whatever_a_small_program_does, "", 1800)
{
    const uint64_t first = first_program();
    const unsigned count = program_count();
    char name[] = "/tmp/kin_theorem_XXXXXX";
    int fd = mkstemp(name);
    EXPECT_GE(fd, 0);
    FILE *file = fdopen(fd, "w+");
    EXPECT(file != NULL);
    unlink(name);
    for (unsigned i = 0; i < count; i++)
        if (try_program(first + i))
            write_ways(file, first + i);
    EXPECT_EQ(fflush(file), 0);
    rewind(file);
    printf("%u programs from number %llu on, %u of them skipped as too large, %u too large for the "
           "plain search; %u outcomes, %llu runs by DPOR, %llu by plain search\n",
           sums.programs, (unsigned long long)first, sums.skipped, sums.halves, sums.outcomes,
           (unsigned long long)sums.runs[0], (unsigned long long)sums.runs[1]);
    printf("%u of them run in production; the others wait for time, or may stand still\n",
           sums.written);
    fflush(stdout);
    EXPECT_LT(sums.skipped, sums.programs / 2 + 1);
    const bool has_run = run_in_production(fd);
    fclose(file);
    if (!has_run)
        KIN_SKIP("the program cannot be run from here");
}
