/* SPDX-License-Identifier: MIT */
/*
 * Runs the tests of another file in the lab: each of its bodies, which call kin_run themselves,
 * under round-robin, random schedules, PCT and, bounded, DPOR.
 *
 *     #include "lab/conform.h"
 *     #include "api/chan_test.c"
 *
 * Included before that file, it takes the place of KIN_TEST. A test that is about threads, about
 * what is outside of the process or about chance is left out by name: define CONFORM_SKIP before,
 * as a list of strings, and say why. CONFORM_ONLY_TURNS lists tests that hold by turns only: they
 * count on the order in which one worker runs its tasks.
 *
 * Left out as a whole, because the lab has another truth or none: run, janus, priority, view and
 * strict (workers, profiles, counters), misuse (aborts), report (texts with addresses), random, and
 * what is outside of the process and not simulated (process, blocking, lock_cycles).
 *
 * An expectation that fails is a failure of the run: it is shrunk and told as a story, like those
 * that the oracles find.
 *
 * In the environment KIN_LAB_RUNS says how many schedules of each kind a test gets, KIN_LAB_REPORTS
 * names a directory for the files of a failure, and KIN_LAB_REPLAY is such a file, which is then
 * followed instead. KIN_LAB_SWEEP is a kind of fault that happens in each place of the run by turns
 * instead: what a test expects need not hold then, what the oracles look at must.
 */
#ifndef KIN_TEST_CONFORM_H
#define KIN_TEST_CONFORM_H

#include "kin_test.h"
#include "lab/report.h"
#include "lab/world.h"

#include <kin/kin.h>
#include <kin/lab.h>

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFORM_STEPS 40000u /* of all runs of a test by one strategy; fewer if each has few */
#define CONFORM_RUNS_MAX 200u
#define CONFORM_SWEPT_MAX 2000u
#define CONFORM_LOOKS 200u /* at something, after which time passes a little */
#define CONFORM_DPOR_NS INT64_C(50000000) /* runs that turn out to be known are not counted */

/* What aborts the process is not for the lab: a fork has no place in a run. */
#undef EXPECT_ABORT
#define EXPECT_ABORT(pattern) for (; (void)(pattern), false;)

#ifndef CONFORM_SKIP
#define CONFORM_SKIP
#endif
#ifndef CONFORM_ONLY_TURNS
#define CONFORM_ONLY_TURNS
#endif

static void conform_add(struct kin_test *test);
static void conform(const char *name, void (*body)(void));

#undef KIN_TEST_LIMIT
#define KIN_TEST_LIMIT(test_name, test_tags, seconds)                                              \
    static void conform_body_##test_name(void);                                                    \
    static void test_name(void)                                                                    \
    {                                                                                              \
        conform(#test_name, conform_body_##test_name);                                             \
    }                                                                                              \
    static struct kin_test kin_test_of_##test_name = {                                             \
        #test_name, "" test_tags, __FILE__, __LINE__,                                              \
        (seconds) > KIN_TEST_S ? (seconds) : KIN_TEST_S, test_name, NULL};                         \
    __attribute__((constructor)) static void kin_test_add_##test_name(void)                        \
    {                                                                                              \
        conform_add(&kin_test_of_##test_name);                                                     \
    }                                                                                              \
    static void conform_body_##test_name(void)

static jmp_buf conform_out; /* of a body that has failed outside of any task */

/* What can be swept: programs that take no care of it leak when they fail. */
static const struct conform_kind {
    const char *name;
    uint32_t fault;
} conform_kinds[] = {{"oom", KIN_FAULT_OOM}, {"cancel", KIN_FAULT_CANCEL},
                     {"deadline", KIN_FAULT_DEADLINE}, {"budget", KIN_FAULT_BUDGET}};
static uint32_t conform_fault; /* that is swept; 0: none */
static unsigned conform_turns;

/* Something has gone wrong on purpose: the run ends here, and nobody is to blame. */
static void conform_stop(void)
{
    bool is_task = kin__world.is_running && kin__task_self();
    if (is_task) {
        kin__world_kill();
        kin_fail(-ECANCELED, "the test expects too much of a run with faults");
    }
    if (!kin__world.is_running)
        longjmp(conform_out, 1);
}

/* A test that looks for something again and again does not find it any more, if something has gone
 * wrong on purpose. Else it may look for the time to pass, which it does here by hand: in the lab
 * time passes by itself only when nobody can run. */
static void conform_look(void)
{
    if (!kin_in_lab() || ++conform_turns % CONFORM_LOOKS != 0)
        return;
    if (conform_fault && kin__lab_faults_fired())
        conform_stop();
    kin_lab_advance(KIN_US(50));
}

__attribute__((unused)) static int conform_yield(void)
{
    conform_look();
    return kin_yield();
}

__attribute__((unused)) static int conform_checkpoint(void)
{
    conform_look();
    return kin_checkpoint();
}
#define kin_yield() conform_yield()
#define kin_checkpoint() conform_checkpoint()

static int conform_run(void *body)
{
    void (*fn)(void);
    memcpy(&fn, body, sizeof(fn));
    conform_turns = 0;
    if (setjmp(conform_out) == 0)
        fn();
    return 0;
}

/* An expectation has failed. What fails on the lab's own stack ends the process, as ever. */
static void conform_failed(const char *text)
{
    if (conform_fault && kin_in_lab() && kin__lab_faults_fired())
        conform_stop();
    static char line[512];
    size_t at = 0;
    for (; *text && at + 1 < sizeof(line); text++) {
        char c = *text == '\n' ? ' ' : *text;
        if (c != ' ' || (at && line[at - 1] != ' '))
            line[at++] = c;
    }
    line[at] = '\0';
    kin_lab_assert(false, line); /* does not return in a task */
    if (kin_in_lab() && !kin__world.is_running)
        longjmp(conform_out, 1);
}

static bool conform_lists(const char *const *list, const char *name)
{
    for (; *list; list++) {
        if (strcmp(*list, name) == 0)
            return true;
    }
    return false;
}

/* What is left out is no test of the lab at all. */
static void conform_add(struct kin_test *test)
{
    static const char *const skip[] = {CONFORM_SKIP NULL};
    if (!conform_lists(skip, test->name))
        kin_test_add(test);
}

/* The same schedules each time, so that a run of all tests says the same of the same program. Those
 * of another seed are for whoever has the time: KIN_SEED=n. */
static uint64_t conform_seed(const char *name)
{
    uint64_t seed = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        seed = (seed ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return getenv("KIN_SEED") ? kin_test_seed() : seed;
}

/* Returns the steps of one run, or 0. */
static uint64_t conform_by(enum kin_lab_strategy strategy, uint64_t runs, const char *name,
                           void (*body)(void))
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    struct kin_lab_report report = {0};
    config.strategy = strategy;
    config.executions_max = runs;
    config.seed = conform_seed(name);
    config.oracles = ~(KIN_ORACLE_RESULT | KIN_ORACLE_OBLIGATION); /* tests leak on purpose */
    config.report_dir = getenv("KIN_LAB_REPORTS");
    config.replay_file = getenv("KIN_LAB_REPLAY");
    if (config.replay_file)
        config.strategy = KIN_LAB_REPLAY;
    kin__lab_wish.wall_max = strategy == KIN_LAB_DPOR ? CONFORM_DPOR_NS : 0;
    kin__lab_wish.keeps_order = true; /* tests with one worker are about its order */
    int rc = kin_lab_run_host(&config, conform_run, &body, &report);
    if (rc == -E2BIG && strategy == KIN_LAB_DPOR)
        return 0; /* more tasks than it can search */
    if (rc < 0)
        printf("strategy %u\n%s\n", (unsigned)strategy, report.text);
    if (rc < 0 && report.replay_file)
        printf("again: KIN_LAB_REPLAY=%s with %s\n", report.replay_file, name);
    EXPECT_EQ(rc, 0);
    return report.executions ? report.steps / report.executions : 0;
}

/* Each fault in each place of the run by turns. Loops of a test may still look in vain, and a
 * signal for which nobody waits any more ends the process by right. */
static void conform_swept(void (*body)(void))
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    struct kin_lab_report report = {0};
    config.strategy = KIN_LAB_ROUND_ROBIN;
    config.executions_max = CONFORM_SWEPT_MAX;
    config.seed = kin_test_seed();
    config.faults = conform_fault | KIN_FAULT_EACH;
    config.oracles = KIN_ORACLE_WAKE | KIN_ORACLE_ORPHAN | KIN_ORACLE_LEAK | KIN_ORACLE_ORDER |
                     KIN_ORACLE_BUDGET;
    config.report_dir = getenv("KIN_LAB_REPORTS");
    kin__lab_wish.keeps_order = true;
    int rc = kin_lab_run_host(&config, conform_run, &body, &report);
    if (rc == KIN_STUCK || (rc < 0 && strcmp(report.oracle, "signal") == 0))
        return;
    if (rc < 0)
        printf("%s\n", report.text);
    EXPECT_EQ(rc, 0);
}

static void conform(const char *name, void (*body)(void))
{
    static const char *const turns[] = {CONFORM_ONLY_TURNS NULL};
    const char *wanted = getenv("KIN_LAB_RUNS"), *sweep = getenv("KIN_LAB_SWEEP");
    kin_test_on_fail = conform_failed;
    for (size_t i = 0; sweep && i < sizeof(conform_kinds) / sizeof(conform_kinds[0]); i++)
        conform_fault |= strcmp(sweep, conform_kinds[i].name) == 0 ? conform_kinds[i].fault : 0;
    if (conform_fault) {
        conform_swept(body);
        return;
    }
    uint64_t steps = conform_by(KIN_LAB_ROUND_ROBIN, 1, name, body);
    if (steps == 0 || conform_lists(turns, name))
        return;
    uint64_t runs = CONFORM_STEPS / kin_test_scale() / steps + 2;
    runs = wanted ? strtoull(wanted, NULL, 0) : runs < CONFORM_RUNS_MAX ? runs : CONFORM_RUNS_MAX;
    conform_by(KIN_LAB_RANDOM, runs, name, body);
    conform_by(KIN_LAB_PCT, runs, name, body);
    conform_by(KIN_LAB_DPOR, runs, name, body);
}

#endif
