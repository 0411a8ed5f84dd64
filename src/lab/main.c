/* SPDX-License-Identifier: MIT */
/*
 * The command line of a program whose main is KIN_LAB_MAIN.
 *
 * Tests register themselves before main. Each is run as its own config says, with what the command
 * line says on top, and answered with one line, or with the report of its failure. With -j the
 * tests, and the parts of a range of seeds, are dealt out to processes, whose words are printed in
 * the order of the tests whenever they are done (jobs.c). Whoever is asked to stop tells what has
 * come of it so far (stop.c).
 */
#include "lab/main.h"

#include "lab/chrome.h"
#include "lab/crash.h"
#include "lab/explain.h"
#include "lab/jobs.h"
#include "lab/record.h"
#include "lab/room.h"
#include "lab/stop.h"
#include "plat/plat.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 2048u
#define JSON_BYTES 8192u /* texts of a failure, every byte of them written as six */
#define BYTES_MAX ((size_t)64 << 20) /* of -s bytes */
#define PROGRESS_NS INT64_C(100000000)
#define SWEEP_NS INT64_C(2000000000) /* of a sweep, unless somebody says otherwise */

static struct kin_lab_test *tests; /* in the order of their definition */

void kin_lab_register_(struct kin_lab_test *test)
{
    struct kin_lab_test **end = &tests;
    while (*end) /* ends: at the last */
        end = &(*end)->next;
    test->next = NULL;
    *end = test;
}

const struct kin_lab_test *kin__main_find(const char *name)
{
    const struct kin_lab_test *test = tests;
    while (test && strcmp(test->name, name) != 0)
        test = test->next;
    return test;
}

static int unsaid; /* why something could not be printed; 0: everything could */

void kin__main_write(const char *bytes, size_t size)
{
    int rc = kin__plat_write(STDOUT_FILENO, bytes, size);
    if (rc < 0)
        unsaid = rc;
}

bool kin__main_is_unsaid(void)
{
    return unsaid != 0;
}

void kin__main_say(int fd, const struct kin__text *text)
{
    if (fd == STDOUT_FILENO)
        kin__main_write(text->buf, text->len);
    else
        kin__plat_write(fd, text->buf, text->len);
}

static int complain(const struct kin__options *options, const char *what)
{
    char memory[LINE_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%s: %s", options->program, what);
    kin__text_end_line(&text);
    kin__main_say(STDERR_FILENO, &text);
    return 2;
}

/* ---- numbers for people ---- */

static void put_count(struct kin__text *out, uint64_t count)
{
    char digits[24];
    struct kin__text text;
    kin__text_init(&text, digits, sizeof(digits));
    kin__text_udec(&text, count);
    for (size_t i = 0; i < text.len; i++) {
        if (i > 0 && (text.len - i) % 3 == 0)
            kin__text_char(out, ',');
        kin__text_char(out, digits[i]);
    }
}

static uint64_t per_second(uint64_t runs, int64_t ns)
{
    uint64_t us = ns < 1000 ? 1 : (uint64_t)ns / 1000;
    return runs > UINT64_MAX / 1000000 ? runs / us * 1000000 : runs * 1000000 / us;
}

/* ---- progress ---- */

struct progress {
    const char *test;
    int64_t began, shown;
    bool is_on, has_line;
};

static void show_progress(const struct kin__engine_result *so_far, void *arg)
{
    struct progress *progress = arg;
    int64_t now = kin__host_now();
    char memory[256];
    struct kin__text text;
    if (!progress->is_on || now - progress->shown < PROGRESS_NS)
        return;
    progress->shown = now;
    progress->has_line = true;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "\r\033[K%.40s: ", progress->test);
    put_count(&text, so_far->runs);
    kin__text_str(&text, " runs, ");
    put_count(&text, per_second(so_far->runs, now - progress->began));
    kin__text_str(&text, "/s");
    if (so_far->shrink_runs) {
        kin__text_str(&text, ", a failure is shrunk: ");
        put_count(&text, so_far->shrink_runs);
    } else if (so_far->estimate > so_far->runs) {
        kin__text_str(&text, ", about ");
        put_count(&text, so_far->estimate - so_far->runs);
        kin__text_str(&text, " left");
    }
    kin__main_say(STDERR_FILENO, &text);
}

static void end_progress(struct progress *progress)
{
    if (progress->has_line)
        kin__plat_write(STDERR_FILENO, "\r\033[K", 4);
}

/* ---- one test ---- */

static const char *under_way; /* the test that runs; NULL: none does */

/* The same, for on_death. */
static struct {
    const struct kin__options *options;
    const struct kin_lab_test *test;
    struct kin__verdict *verdict;
    struct progress *progress;
} running;

/* A test that calls exit has not passed, whatever it says. */
static void on_exit_of_test(void)
{
    char memory[256];
    struct kin__text text;
    if (!under_way)
        return;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "FAIL  %.100s: it called exit in the middle of a run\n", under_way);
    kin__main_say(STDOUT_FILENO, &text);
    _exit(1);
}

static void configure(const struct kin__options *options, const struct kin_lab_test *test,
                      struct kin_lab_config *config)
{
    *config = test->config;
    if (options->has_strategy) {
        config->strategy = options->strategy;
        config->depth = options->depth;
        config->preemptions = options->preemptions;
        config->executions_max = 0;
        config->bytes = options->bytes;
        config->bytes_count = options->bytes_count;
    } else if (options->faults) { /* each in each place, whoever comes first */
        config->strategy = KIN_LAB_DPOR;
        config->executions_max = 0;
    }
    if (options->runs)
        config->executions_max = options->runs;
    else if (options->time_ns)
        config->executions_max = 0;
    config->faults |= options->faults;
    config->report_dir = options->reports;
}

/* What a report says of strategy and faults, in words that this command line understands. */
static void put_words(const struct kin__options *options, const struct kin_lab_config *config)
{
    static char strategy[256], sweep[96];
    struct kin__text text;
    kin__text_init(&text, strategy, sizeof(strategy));
    kin__options_strategy(&text, config->strategy, kin__lab_wish.other, config->depth,
                          config->preemptions);
    if (config->strategy == KIN_LAB_BYTES && options->bytes_file)
        kin__text_printf(&text, ":%s", options->bytes_file);
    kin__lab_wish.strategy = strategy;
    kin__text_init(&text, sweep, sizeof(sweep));
    kin__options_faults(&text, options->faults & ~KIN_FAULT_EACH);
    kin__lab_wish.sweep = sweep[0] ? sweep : NULL;
}

/* What kin_lab_run has left, or leaves as the process ends. */
static void conclude(struct kin__verdict *out, struct progress *progress)
{
    out->runs = kin__lab_wish.result.runs;
    out->steps = kin__lab_wish.result.steps;
    end_progress(progress);
    out->ns = kin__host_now() - progress->began;
    out->result = kin__lab_wish.result;
    /* A negative answer without an oracle: it did not even begin. */
    out->is_error = out->status < 0 && !out->report.oracle;
    out->is_stopped = out->result.is_stopped && out->status >= 0;
    if (out->status == 0 && out->runs == 0 && !out->is_stopped) { /* nothing has passed then */
        struct kin__text text;
        kin__text_init(&text, kin__lab_wish.wrong, sizeof(kin__lab_wish.wrong));
        kin__text_str(&text, "not one run was made");
        out->status = KIN_STUCK;
        out->is_error = true;
    }
}

static void on_death(const struct kin_lab_report *report)
{
    if (running.options->is_death_known)
        return;
    running.verdict->report = *report;
    running.verdict->status = report->status;
    conclude(running.verdict, running.progress);
    (void)kin__main_tell(running.options, running.test, running.verdict);
}

void kin__main_run(const struct kin__options *options, const struct kin_lab_config *config,
                   const struct kin_lab_test *test, struct kin__verdict *out)
{
    struct kin_lab_config used = *config;
    struct progress progress = {.test = test->name,
                                .began = options->began ? options->began : kin__host_now()};
    struct kin__options noted = *options; /* for those who begin again */
    progress.shown = progress.began;
    progress.is_on = !options->is_json && !options->is_quiet && isatty(STDERR_FILENO);
    memset(out, 0, sizeof(*out));
    memset(&kin__lab_wish, 0, sizeof(kin__lab_wish));
    kin__lab_wish.program = options->program;
    kin__lab_wish.test = test->name;
    kin__lab_wish.wall_max = options->time_ns;
    if (options->faults && !options->has_strategy && !options->time_ns && !options->runs)
        kin__lab_wish.wall_max = SWEEP_NS;
    kin__lab_wish.patience = options->patience_ns;
    kin__lab_wish.is_lenient = options->is_lenient;
    kin__lab_wish.is_near = options->is_near;
    kin__lab_wish.keeps_going = options->keeps_going;
    kin__lab_wish.is_unshrunk = options->is_unshrunk;
    if (used.strategy == options->strategy) /* and not that of a replay */
        kin__lab_wish.other = options->other;
    put_words(options, &used);
    kin__lab_wish.progress = show_progress;
    kin__lab_wish.progress_arg = &progress;
    kin__record_break_at = options->break_at;
    if (options->has_seed && used.strategy != KIN_LAB_REPLAY && used.strategy != KIN_LAB_DPOR) {
        used.seed = options->seed;
        used.executions_max = options->runs;
        kin__lab_wish.seeds = options->seeds;
    }
    kin__lab_wish.died = on_death;
    kin__lab_wish.began = noted.began = progress.began;
    kin__crash_note(&noted, config, test);
    out->strategy = used.strategy;
    running.options = options;
    running.test = test;
    running.verdict = out;
    running.progress = &progress;
    under_way = test->name;
    out->status = kin_lab_run(&used, test->fn, NULL, &out->report);
    under_way = NULL;
    conclude(out, &progress);
}

/* ---- what is said of it ---- */

static void put_line(struct kin__text *out, const struct kin_lab_test *test,
                     const struct kin__verdict *verdict)
{
    bool is_dpor = verdict->strategy == KIN_LAB_DPOR;
    kin__text_printf(out, "%s  %s", verdict->is_stopped ? "stop" : "ok  ", test->name);
    kin__text_pad(out, 32);
    if (verdict->result.is_complete && is_dpor) {
        kin__text_str(out, "  complete: all ");
        put_count(out, verdict->runs);
        kin__text_str(out, verdict->runs == 1 ? " schedule passes" : " schedules pass");
    } else if (verdict->result.is_complete) { /* the runs of the others are among them */
        kin__text_str(out, "  complete: every schedule passes, ");
        put_count(out, verdict->runs);
        kin__text_str(out, verdict->runs == 1 ? " run" : " runs");
    } else if (verdict->result.is_exhausted && is_dpor && !verdict->result.patience) {
        if (verdict->result.dice && !verdict->result.is_bounded)
            kin__text_printf(out, "  complete for seed %llu: ",
                             (unsigned long long)verdict->result.seed);
        else
            kin__text_str(out, "  complete within the bound: ");
        put_count(out, verdict->runs);
        kin__text_str(out, verdict->runs == 1 ? " schedule passes" : " schedules pass");
    } else {
        kin__text_str(out, "  no failure in ");
        put_count(out, verdict->runs);
        kin__text_str(out, verdict->runs == 1 ? " run" : " runs");
    }
    kin__text_str(out, " (");
    kin__text_ns(out, verdict->ns);
    kin__text_str(out, ", ");
    put_count(out, per_second(verdict->runs, verdict->ns));
    kin__text_str(out, "/s)");
    if (!verdict->result.is_complete && verdict->result.estimate > verdict->runs) {
        kin__text_str(out, ", of about ");
        put_count(out, verdict->result.estimate);
    }
    if (verdict->result.sites) {
        kin__text_str(out, "; ");
        put_count(out, verdict->result.fired);
        kin__text_str(out, " of ");
        put_count(out, verdict->result.sites);
        kin__text_str(out, " sites fired");
    }
    kin__text_char(out, '\n');
    if (verdict->report.covers)
        kin__text_printf(out, "      covers: %s\n", verdict->report.covers);
}

static void put_field(struct kin__text *out, const char *name, const char *value)
{
    kin__text_printf(out, ",\"%s\":", name);
    kin__chrome_string(out, value);
}

static void put_json(struct kin__text *out, const struct kin_lab_test *test,
                     const struct kin__verdict *verdict)
{
    const struct kin__engine_result *result = &verdict->result;
    kin__text_str(out, "{\"test\":");
    kin__chrome_string(out, test->name);
    put_field(out, "verdict",
              verdict->is_error                         ? "error"
              : verdict->status < 0 || result->failures ? "fail"
              : verdict->is_stopped                     ? "stopped"
                                                        : "pass");
    put_field(out, "strategy", kin__lab_wish.strategy ? kin__lab_wish.strategy : "");
    kin__text_printf(out, ",\"complete\":%s,\"runs\":%llu,\"steps\":%llu,\"ns\":%lld",
                     result->is_complete ? "true" : "false", (unsigned long long)verdict->runs,
                     (unsigned long long)verdict->steps, (long long)verdict->ns);
    if (verdict->report.covers)
        put_field(out, "covers", verdict->report.covers);
    kin__text_printf(out, ",\"runs_per_s\":%llu,\"estimate\":%llu",
                     (unsigned long long)per_second(verdict->runs, verdict->ns),
                     (unsigned long long)result->estimate);
    if (result->sites)
        kin__text_printf(out, ",\"sites\":%llu,\"fired\":%llu", (unsigned long long)result->sites,
                         (unsigned long long)result->fired);
    if (verdict->status < 0) {
        kin__text_printf(out, ",\"status\":%d", verdict->status);
        put_field(out, "status_name", kin_status_name(verdict->status));
    }
    if (verdict->report.oracle) {
        put_field(out, "oracle", verdict->report.oracle);
        put_field(out, "where", result->failure.where);
        put_field(out, "text", result->failure.text);
        kin__text_printf(out, ",\"seed\":%llu,\"failures\":%llu,\"switches\":%u",
                         (unsigned long long)result->failing_seed,
                         (unsigned long long)result->failures, result->switches);
        if (verdict->report.replay_file)
            put_field(out, "file", verdict->report.replay_file);
        if (kin__lab_wish.unwritten[0])
            put_field(out, "unwritten", kin__lab_wish.unwritten);
    }
    kin__text_str(out, "}\n");
}

static void put_failure(const struct kin__options *options, const struct kin_lab_test *test,
                        const struct kin__verdict *verdict)
{
    char memory[LINE_BYTES];
    struct kin__text text;
    const char *report = verdict->report.text;
    kin__text_init(&text, memory, sizeof(memory));
    if (verdict->is_error) {
        kin__text_printf(&text, "FAIL  %s", test->name);
        kin__text_pad(&text, 32);
        kin__text_printf(&text, "  could not run: %s (%d)\n",
                         kin__lab_wish.wrong[0] ? kin__lab_wish.wrong
                                                : kin_status_text(verdict->status),
                         verdict->status);
    } else if (options->keeps_going) {
        kin__text_printf(&text, "FAIL  %s", test->name);
        kin__text_pad(&text, 32);
        kin__text_str(&text, "  ");
        put_count(&text, verdict->result.failures);
        kin__text_str(&text, " of ");
        put_count(&text, verdict->runs);
        kin__text_printf(&text, " runs fail, the first by %s\n", verdict->report.oracle);
    }
    kin__main_say(STDOUT_FILENO, &text);
    if (!verdict->is_error && report && *report)
        kin__main_write(report, strlen(report));
}

int kin__main_tell(const struct kin__options *options, const struct kin_lab_test *test,
                   const struct kin__verdict *verdict)
{
    char memory[JSON_BYTES];
    struct kin__text text;
    bool has_failed = verdict->status < 0 || verdict->result.failures;
    kin__text_init(&text, memory, sizeof(memory));
    if (options->is_json)
        put_json(&text, test, verdict);
    else if (has_failed)
        put_failure(options, test, verdict);
    else if (!options->is_quiet || verdict->is_stopped)
        put_line(&text, test, verdict);
    kin__main_say(STDOUT_FILENO, &text);
    return has_failed ? (verdict->is_error ? 2 : 1) : verdict->is_stopped ? 3 : 0;
}

/* ---- all tests ---- */

static bool is_wanted(const struct kin__options *options, const struct kin_lab_test *test)
{
    bool is_named = options->names_count == 0;
    for (unsigned i = 0; i < options->names_count && !is_named; i++)
        is_named = strstr(test->name, options->names[i]) != NULL;
    return is_named;
}

/* The status of one test, which is told; as a job it may be a part of its seeds. */
static int run_test(const struct kin__options *options, const struct kin_lab_test *test,
                    struct kin__tally *tally)
{
    struct kin_lab_config config;
    struct kin__verdict verdict;
    configure(options, test, &config);
    kin__main_run(options, &config, test, &verdict);
    int status = kin__main_tell(options, test, &verdict);
    if (status == 1 && options->explains && !options->is_json && !kin__stop_signal)
        kin__explain(options, &config, test, &verdict);
    kin__tally_add(tally, status, verdict.result.is_complete, verdict.runs);
    if (options->is_part) {
        tally->passed -= status == 0;
        tally->stopped -= status == 3;
    }
    return status;
}

static int list_tests(const struct kin__options *options)
{
    for (const struct kin_lab_test *test = tests; test; test = test->next) {
        char memory[LINE_BYTES];
        struct kin__text text;
        if (!is_wanted(options, test))
            continue;
        kin__text_init(&text, memory, sizeof(memory));
        kin__text_str(&text, test->name);
        kin__text_pad(&text, 32);
        kin__text_str(&text, "  ");
        kin__options_strategy(&text, test->config.strategy, 0, test->config.depth,
                              test->config.preemptions);
        if (test->config.faults)
            kin__text_str(&text, " with ");
        kin__options_faults(&text, test->config.faults);
        kin__text_pad(&text, 52);
        kin__text_printf(&text, "  %s", test->file);
        kin__text_end_line(&text);
        kin__main_say(STDOUT_FILENO, &text);
    }
    return 0;
}

/* All tests, and what came of them so far; for those who end in the middle, too. */
static struct {
    const struct kin__options *options; /* NULL: there is nothing to tell, or it is told */
    struct kin__tally tally;
    unsigned left; /* that were not begun */
    int64_t began;
} all;

static unsigned count_told(const struct kin__tally *tally)
{
    return tally->passed + tally->failed + tally->errors + tally->stopped;
}

/* 3 tests: 2 passed (1 completely), 1 failed; 1,204 runs in 1.25 s */
static void put_summary(const struct kin__tally *tally, int64_t ns)
{
    char memory[256];
    struct kin__text text;
    unsigned count = count_told(tally);
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%u test%s: %u passed (%u completely), %u failed", count,
                     count == 1 ? "" : "s", tally->passed, tally->complete, tally->failed);
    if (tally->errors)
        kin__text_printf(&text, ", %u could not run", tally->errors);
    if (kin__stop_signal)
        kin__text_printf(&text, ", %u stopped by signal %d (%s)", tally->stopped,
                         (int)kin__stop_signal, strsignal((int)kin__stop_signal));
    if (all.left)
        kin__text_printf(&text, ", %u not begun", all.left);
    kin__text_str(&text, "; ");
    put_count(&text, tally->runs);
    kin__text_str(&text, tally->runs == 1 ? " run in " : " runs in ");
    kin__text_ns(&text, ns);
    kin__text_char(&text, '\n');
    kin__main_say(STDOUT_FILENO, &text);
}

static void sum_up(void)
{
    const struct kin__tally *tally = &all.tally;
    const struct kin__options *options = all.options;
    all.options = NULL;
    if (!options || options->is_json)
        return;
    if (!options->is_quiet || tally->failed || tally->errors || kin__stop_signal)
        put_summary(tally, kin__host_now() - all.began);
}

static int run_tests(const struct kin__options *options)
{
    static struct kin__jobs jobs;
    struct kin__tally *tally = &all.tally;
    memset(&all, 0, sizeof(all));
    all.options = options;
    all.began = kin__host_now();
    kin__jobs_init(&jobs, options->jobs);
    for (const struct kin_lab_test *test = tests; test; test = test->next) {
        if (!is_wanted(options, test))
            continue;
        if (kin__stop_signal)
            all.left++;
        else if (options->jobs > 1)
            all.left += !kin__jobs_start(&jobs, options, test, run_test, tally);
        else
            (void)run_test(options, test, tally);
    }
    kin__jobs_finish(&jobs, tally);
    if (count_told(tally) + all.left == 0)
        return complain(options, tests ? "no test has such a name; --list tells them"
                                       : "this program has no tests");
    sum_up();
    return tally->failed ? 1 : tally->errors ? 2 : 0;
}

/* In the handler of a signal: it was asked to stop, and the step under way does not end. */
static void end_by_force(void)
{
    const char *test = under_way;
    under_way = NULL;
    if (test) {
        struct kin__verdict *verdict = running.verdict;
        kin__lab_interrupt(&verdict->report);
        verdict->status = verdict->report.status;
        conclude(verdict, running.progress);
        int status = kin__main_tell(running.options, running.test, verdict);
        kin__tally_add(&all.tally, status, false, verdict->runs);
    }
    if (!kin__stop_is_child())
        sum_up();
}

/* The file of -s bytes. 0, or 2 and the reason is told. */
static int read_bytes(struct kin__options *options)
{
    static struct kin__room room; /* stays: the options point to it */
    char memory[LINE_BYTES];
    struct kin__text text;
    int rc = kin__room_read(&room, options->bytes_file, BYTES_MAX, &options->bytes_count);
    options->bytes = room.base;
    if (rc == 0)
        return 0;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%s: %s", options->bytes_file, kin_status_text(rc));
    return complain(options, memory);
}

static int print_help(const struct kin__options *options)
{
    char memory[2 * LINE_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__options_help(&text, options->program);
    kin__main_say(STDOUT_FILENO, &text);
    return 0;
}

static int print_version(void)
{
    char memory[64];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "kin-lab %s\n", kin_version());
    kin__main_say(STDOUT_FILENO, &text);
    return 0;
}

static int answer(const struct kin__options *options)
{
    switch (options->ask) {
    case KIN__ASK_HELP: return print_help(options);
    case KIN__ASK_VERSION: return print_version();
    case KIN__ASK_LIST: return list_tests(options);
    case KIN__ASK_REPLAY:
    case KIN__ASK_SHRINK:
    case KIN__ASK_REGRESS: return kin__replay_files(options);
    default: return run_tests(options);
    }
}

/* Whether nobody traces this process, as the kernel says; not a debugger that works otherwise. */
static bool is_untraced(void)
{
    char bytes[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes) - 1);
    if (fd >= 0)
        close(fd);
    bytes[size > 0 ? size : 0] = '\0';
    return strstr(bytes, "\nTracerPid:\t0\n") != NULL;
}

static void warn_of_break(const struct kin__options *options)
{
    char memory[256];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "--break-at: there is no debugger: SIGTRAP in step %llu ends the "
                     "program; start it with gdb --args",
                     (unsigned long long)options->break_at);
    (void)complain(options, memory);
}

int kin_lab_main(int argc, char **argv)
{
    struct kin__options options;
    char memory[512];
    struct kin__text error;
    kin__text_init(&error, memory, sizeof(memory));
    if (kin__options_read(&options, argc, argv, &error) < 0)
        return complain(&options, memory);
    if (options.bytes_file && read_bytes(&options) != 0)
        return 2;
    static bool is_watched;
    if (!is_watched)
        is_watched = atexit(on_exit_of_test) == 0;
    if (options.break_at && is_untraced())
        warn_of_break(&options);
    unsaid = 0;
    kin__stop_watch(end_by_force);
    if (options.jobs == 1)
        kin__crash_prepare(&options);
    int status = answer(&options);
    kin__crash_release();
    kin__stop_unwatch();
    if (unsaid) {
        kin__text_init(&error, memory, sizeof(memory));
        kin__text_printf(&error, "standard output cannot be written: %s", kin_status_text(unsaid));
        (void)complain(&options, memory);
    }
    if (kin__stop_signal) {
        (void)fflush(NULL);
        kin__stop_die();
    }
    return unsaid && status == 0 ? 2 : status;
}
