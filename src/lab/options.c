/* SPDX-License-Identifier: MIT */
/*
 * Reading the command line of a lab program.
 *
 * Whatever is wrong is answered with one line that names it; nothing has happened then. Options may
 * stand between names, take their value behind = or as the next argument, and end at --. libc's
 * getopt is not used: it prints by itself and keeps its place in globals, and tests want to ask
 * many times.
 */
#include "lab/options.h"

#include <string.h>

#define DEPTH_MAX 32u     /* of PCT, as KIN__PCT_DEPTH_MAX of lab/state.h */
#define TIME_MAX (INT64_C(36500) * 86400 * 1000000000 / 2) /* 50 years: sums of two are times */
#define REPORTS "kin-lab" /* where reports go unless somebody says otherwise */

struct reading {
    struct kin__options *out;
    struct kin__text *error;
    int argc, at;
    char **argv;
    char name[24];     /* of the option under way, for errors: "--runs" */
    const char *value; /* behind =, or the rest of a short one; NULL: none */
    bool is_failed;
};

static void fail(struct reading *r, const char *what, const char *text)
{
    if (!r->is_failed)
        kin__text_printf(r->error, "%s: %s", what, text);
    r->is_failed = true;
}

static void name_option(struct reading *r, const char *name)
{
    struct kin__text text;
    kin__text_init(&text, r->name, sizeof(r->name));
    kin__text_printf(&text, "--%s", name);
}

/* ---- values ---- */

/* The value of the option under way: behind it, or the next argument. */
static const char *value_of(struct reading *r)
{
    if (r->value)
        return r->value;
    if (r->at + 1 < r->argc)
        return r->argv[++r->at];
    fail(r, r->name, "a value is missing");
    return "";
}

/* A number, decimal or with 0x, from the front of *text. False: none, or too large. */
static bool take_number(const char **text, uint64_t *out)
{
    const char *at = *text;
    unsigned base = 10;
    uint64_t number = 0;
    if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) {
        base = 16;
        at += 2;
    }
    const char *first = at;
    for (;; at++) { /* ends: at the first byte that is no digit */
        unsigned digit = *at >= '0' && *at <= '9'   ? (unsigned)(*at - '0')
                         : *at >= 'a' && *at <= 'f' ? (unsigned)(*at - 'a' + 10)
                         : *at >= 'A' && *at <= 'F' ? (unsigned)(*at - 'A' + 10)
                                                    : 99;
        if (digit >= base)
            break;
        if (__builtin_mul_overflow(number, base, &number) ||
            __builtin_add_overflow(number, digit, &number))
            return false;
    }
    *text = at;
    *out = number;
    return at != first;
}

unsigned kin__options_number(const char *text, unsigned max)
{
    uint64_t number;
    return take_number(&text, &number) && number <= max ? (unsigned)number : 0;
}

static uint64_t number_of(struct reading *r, const char *text, uint64_t min, uint64_t max)
{
    uint64_t number = 0;
    const char *at = text;
    if (r->is_failed)
        return 0;
    if (!take_number(&at, &number) || *at || number < min || number > max) {
        kin__text_printf(r->error, "%s: '%.60s' is no number from %llu to %llu", r->name, text,
                         (unsigned long long)min, (unsigned long long)max);
        r->is_failed = true;
        return 0;
    }
    return number;
}

/* 2s, 500ms, 3m; a number alone is of seconds. */
static int64_t time_of(struct reading *r, const char *text)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"", 1000000000},
                 {"m", 60000000000}, {"min", 60000000000}, {"h", 3600000000000}};
    uint64_t number;
    const char *at = text;
    if (r->is_failed)
        return 0;
    for (size_t i = 0; take_number(&at, &number) && i < sizeof(units) / sizeof(units[0]); i++) {
        uint64_t ns;
        if (strcmp(at, units[i].unit) == 0 && number > 0 &&
            !__builtin_mul_overflow(number, units[i].ns, &ns) && ns <= TIME_MAX)
            return (int64_t)ns;
        at = text;
    }
    kin__text_printf(r->error, "%s: '%.60s' is no time such as 500ms, 2s or 3m, or a very long one",
                     r->name, text);
    r->is_failed = true;
    return 0;
}

static void read_seeds(struct reading *r, const char *text)
{
    uint64_t first = 0, last = 0;
    const char *at = text;
    if (r->is_failed)
        return;
    bool is_good = take_number(&at, &first);
    last = is_good ? first : 0;
    if (is_good && strncmp(at, "..", 2) == 0) {
        at += 2;
        is_good = take_number(&at, &last);
    }
    is_good = is_good && !*at;
    if (!is_good || last < first || first == 0) { /* 0 says that there is none */
        kin__text_printf(r->error, "%s: '%.60s' is no seed and no range such as 1..1000%s", r->name,
                         text,
                         !is_good     ? ""
                         : first == 0 ? ": seeds begin with 1"
                                      : ": it ends before it begins");
        r->is_failed = true;
        return;
    }
    r->out->has_seed = true;
    r->out->seed = first;
    r->out->seeds = last - first + 1;
}

/* ---- lists of words ---- */

static const struct {
    const char *name;
    enum kin_lab_strategy strategy;
    enum kin__strategy other;
    enum { NOTHING, DEPTH, PREEMPTIONS, BYTES_FILE } behind; /* the colon */
} strategies[] = {
    {"auto", KIN_LAB_AUTO, 0, NOTHING},
    {"rr", KIN_LAB_ROUND_ROBIN, 0, NOTHING},
    {"random", KIN_LAB_RANDOM, 0, NOTHING},
    {"pct", KIN_LAB_PCT, 0, DEPTH},
    {"urw", KIN_LAB_RANDOM, KIN__STRATEGY_WALK, NOTHING},
    {"dpor", KIN_LAB_DPOR, 0, PREEMPTIONS},
    {"dfs", KIN_LAB_DPOR, KIN__STRATEGY_DFS, PREEMPTIONS},
    {"bytes", KIN_LAB_BYTES, 0, BYTES_FILE},
};
#define STRATEGIES (sizeof(strategies) / sizeof(strategies[0]))

/* What stands behind the colon; NULL: there is none. */
static void read_behind(struct reading *r, unsigned kind, const char *text)
{
    r->out->bytes_file = kind == BYTES_FILE ? text : NULL;
    if (kind == BYTES_FILE && (!text || !*text))
        fail(r, r->name, "the file is missing, as in bytes:FILE");
    else if (kind == DEPTH && text)
        r->out->depth = (unsigned)number_of(r, text, 1, DEPTH_MAX);
    else if (kind == PREEMPTIONS && text)
        r->out->preemptions = (unsigned)number_of(r, text, 1, 1000);
    else if (kind == NOTHING && text)
        fail(r, r->name, "this strategy takes no number");
}

static void read_strategy(struct reading *r, const char *text)
{
    size_t length = strcspn(text, ":");
    for (size_t i = 0; i < STRATEGIES; i++) {
        if (strlen(strategies[i].name) != length || strncmp(strategies[i].name, text, length) != 0)
            continue;
        r->out->has_strategy = true;
        r->out->strategy = strategies[i].strategy;
        r->out->other = strategies[i].other;
        read_behind(r, strategies[i].behind, text[length] ? text + length + 1 : NULL);
        return;
    }
    if (r->is_failed)
        return;
    kin__text_printf(r->error,
                     "%s: unknown strategy '%.60s'; there are auto, rr, random, pct:d, urw, "
                     "dpor:c, dfs:c, bytes:file",
                     r->name, text);
    r->is_failed = true;
}

void kin__options_strategy(struct kin__text *out, enum kin_lab_strategy strategy,
                           enum kin__strategy other, unsigned depth, unsigned preemptions)
{
    size_t i = 0;
    while (i < STRATEGIES &&
           (strategies[i].strategy != strategy || strategies[i].other != other))
        i++;
    kin__text_str(out, i < STRATEGIES ? strategies[i].name : "replay");
    if (i < STRATEGIES && strategies[i].behind == DEPTH)
        kin__text_printf(out, ":%u", depth ? depth : 3);
    if (i < STRATEGIES && strategies[i].behind == PREEMPTIONS && preemptions)
        kin__text_printf(out, ":%u", preemptions);
}

static const struct {
    const char *name;
    uint32_t bits;
} faults[] = {
    {"oom", KIN_FAULT_OOM},           {"cancel", KIN_FAULT_CANCEL}, {"fail", KIN_FAULT_FAIL},
    {"panic", KIN_FAULT_PANIC},       {"deadline", KIN_FAULT_DEADLINE},
    {"budget", KIN_FAULT_BUDGET},     {"delay", KIN_FAULT_DELAY},   {"net", KIN_FAULT_NET},
    {"file", KIN_FAULT_FILE},         {"chaos", KIN_FAULT_CHAOS}, {"each", KIN_FAULT_EACH},
    {"all", KIN_FAULT_OOM | KIN_FAULT_CANCEL | KIN_FAULT_FAIL | KIN_FAULT_PANIC |
                KIN_FAULT_DEADLINE | KIN_FAULT_BUDGET | KIN_FAULT_DELAY | KIN_FAULT_NET |
                KIN_FAULT_FILE},
};

#define FAULTS (sizeof(faults) / sizeof(faults[0]))

/* Which fault the first length bytes of text name; FAULTS: none. */
static size_t find_fault(const char *text, size_t length)
{
    size_t i = 0;
    while (i < FAULTS &&
           (strlen(faults[i].name) != length || strncmp(faults[i].name, text, length) != 0))
        i++;
    return i;
}

static void read_faults(struct reading *r, const char *text)
{
    while (!r->is_failed) { /* ends: passes one word each time */
        size_t length = strcspn(text, ",");
        size_t i = find_fault(text, length);
        if (i == FAULTS) {
            kin__text_printf(r->error,
                             "%s: unknown fault '%.*s'; there are oom, cancel, fail, panic, "
                             "deadline, budget, delay, net, file, chaos, all",
                             r->name, (int)(length < 60 ? length : 60), text);
            r->is_failed = true;
            return;
        }
        r->out->faults |= faults[i].bits;
        if (!text[length])
            return;
        text += length + 1;
    }
}

void kin__options_faults(struct kin__text *out, uint32_t bits)
{
    bool is_first = true;
    for (size_t i = 0; i < FAULTS - 1; i++) { /* all is last */
        if (!(bits & faults[i].bits))
            continue;
        kin__text_printf(out, "%s%s", is_first ? "" : ",", faults[i].name);
        is_first = false;
    }
}

uint32_t kin__options_fault_bits(const char *words)
{
    uint32_t bits = 0;
    for (;;) { /* ends: passes one word each time */
        size_t length = strcspn(words, ",");
        size_t i = find_fault(words, length);
        if (i < FAULTS)
            bits |= faults[i].bits;
        if (!words[length])
            return bits;
        words += length + 1;
    }
}

/* ---- options ---- */

static void ask(struct reading *r, enum kin__ask what, const char *file)
{
    if (r->out->ask != KIN__ASK_RUN && r->out->ask != what)
        fail(r, r->name, "it does not go together with what was asked before");
    r->out->ask = what;
    if (file)
        r->out->file = file;
}

enum option {
    LIST, HELP, VERSION, STRATEGY, DPOR, SEED, RUNS, TIME, SWEEP, REPLAY, SHRINK, REGRESS, EXPLAIN,
    JSON, JOBS, REPORTS_DIR, NO_FILES, LENIENT, KEEP_GOING, NO_SHRINK, QUIET, BREAK_AT, PATIENCE
};

static const struct {
    const char *name;
    char letter;
    bool has_value;
    enum option option;
} options[] = {
    {"list", 'l', false, LIST},        {"help", 'h', false, HELP},
    {"version", 0, false, VERSION},    {"strategy", 's', true, STRATEGY},
    {"dpor", 0, false, DPOR},          {"seed", 0, true, SEED},
    {"seeds", 0, true, SEED},          {"runs", 'n', true, RUNS},
    {"time", 't', true, TIME},         {"sweep", 0, true, SWEEP},
    {"replay", 0, true, REPLAY},       {"shrink", 0, true, SHRINK},
    {"regress", 0, true, REGRESS},     {"explain", 'e', false, EXPLAIN},
    {"json", 0, false, JSON},          {"jobs", 'j', true, JOBS},
    {"report-dir", 0, true, REPORTS_DIR}, {"no-files", 0, false, NO_FILES},
    {"lenient", 0, false, LENIENT},    {"keep-going", 'k', false, KEEP_GOING},
    {"no-shrink", 0, false, NO_SHRINK}, {"quiet", 'q', false, QUIET},
    {"break-at", 0, true, BREAK_AT},   {"patience", 0, true, PATIENCE},
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

static const char *file_of(struct reading *r)
{
    const char *file = value_of(r);
    if (!r->is_failed && !*file)
        fail(r, r->name, "a path is missing");
    return file;
}

static void apply(struct reading *r, enum option option)
{
    struct kin__options *out = r->out;
    switch (option) {
    case LIST: ask(r, KIN__ASK_LIST, NULL); break;
    case HELP: ask(r, KIN__ASK_HELP, NULL); break;
    case VERSION: ask(r, KIN__ASK_VERSION, NULL); break;
    case STRATEGY: read_strategy(r, value_of(r)); break;
    case DPOR: read_strategy(r, "dpor"); break;
    case SEED: read_seeds(r, value_of(r)); break;
    case RUNS: out->runs = number_of(r, value_of(r), 1, UINT64_MAX); break;
    case TIME: out->time_ns = time_of(r, value_of(r)); break;
    case PATIENCE: out->patience_ns = time_of(r, value_of(r)); break;
    case SWEEP:
        read_faults(r, value_of(r));
        out->faults |= KIN_FAULT_EACH;
        break;
    case REPLAY: ask(r, KIN__ASK_REPLAY, file_of(r)); break;
    case SHRINK: ask(r, KIN__ASK_SHRINK, file_of(r)); break;
    case REGRESS: ask(r, KIN__ASK_REGRESS, file_of(r)); break;
    case EXPLAIN: out->explains = true; break;
    case JSON: out->is_json = true; break;
    case JOBS: out->jobs = (unsigned)number_of(r, value_of(r), 1, KIN__OPTIONS_JOBS); break;
    case REPORTS_DIR: out->reports = file_of(r); break;
    case NO_FILES: out->reports = NULL; break;
    case LENIENT: out->is_lenient = true; break;
    case KEEP_GOING: out->keeps_going = true; break;
    case NO_SHRINK: out->is_unshrunk = true; break;
    case QUIET: out->is_quiet = true; break;
    case BREAK_AT: out->break_at = number_of(r, value_of(r), 1, UINT64_MAX); break;
    }
}

static void read_long(struct reading *r, const char *argument)
{
    size_t length = strcspn(argument + 2, "="), i = 0;
    while (i < OPTIONS && (strlen(options[i].name) != length ||
                           strncmp(options[i].name, argument + 2, length) != 0))
        i++;
    if (i == OPTIONS) {
        kin__text_printf(r->error, "unknown option '%.60s'; --help lists them", argument);
        r->is_failed = true;
        return;
    }
    name_option(r, options[i].name);
    r->value = argument[2 + length] ? argument + 2 + length + 1 : NULL;
    if (r->value && !options[i].has_value)
        fail(r, r->name, "it takes no value");
    else
        apply(r, options[i].option);
}

/* -s pct, -j8, -qk */
static void read_short(struct reading *r, const char *argument)
{
    for (const char *at = argument + 1; *at && !r->is_failed; at++) {
        size_t i = 0;
        while (i < OPTIONS && options[i].letter != *at)
            i++;
        if (i == OPTIONS) {
            kin__text_printf(r->error, "unknown option '-%c'; --help lists them",
                             *at >= ' ' && *at < 0x7f ? *at : '?');
            r->is_failed = true;
            return;
        }
        name_option(r, options[i].name);
        r->value = options[i].has_value && at[1] ? at + 1 : NULL;
        apply(r, options[i].option);
        if (options[i].has_value)
            return;
    }
}

static void read_name(struct reading *r, const char *name)
{
    if (!*name)
        fail(r, "''", "no test has an empty name");
    else if (r->out->names_count == KIN__OPTIONS_NAMES)
        fail(r, "names of tests", "there are too many");
    else
        r->out->names[r->out->names_count++] = name;
}

int kin__options_read(struct kin__options *out, int argc, char **argv, struct kin__text *error)
{
    struct reading r = {.out = out, .error = error, .argc = argc, .at = 1, .argv = argv};
    bool is_over = false; /* -- was there */
    memset(out, 0, sizeof(*out));
    out->program = argc > 0 && argv[0] && *argv[0] ? argv[0] : "lab";
    out->reports = REPORTS;
    out->jobs = 1;
    for (; r.at < argc && !r.is_failed; r.at++) {
        const char *argument = argv[r.at];
        if (is_over || argument[0] != '-' || !argument[1])
            read_name(&r, argument);
        else if (strcmp(argument, "--") == 0)
            is_over = true;
        else if (argument[1] == '-')
            read_long(&r, argument);
        else
            read_short(&r, argument);
    }
    return r.is_failed ? -1 : 0;
}

static const char help_text[] =
    "Runs tests under many schedules, finds what breaks one, and shows it.\n"
    "A name runs the tests that contain it; without one all tests run.\n"
    "\n"
    "what is run\n"
    "  -l, --list           names the tests and what they are set to\n"
    "  --replay FILE        one run, as the file of a failure says\n"
    "  --shrink FILE        the same, made shorter; the result is a new file\n"
    "  --regress DIR        replays every .kinlab file in it; one that no longer fits is\n"
    "                       followed as far as it goes and explored from there\n"
    "\n"
    "which schedules\n"
    "  -s, --strategy NAME  auto     all of these by turns; the default\n"
    "                       rr       each task in turn, once\n"
    "                       random   anybody; now and then somebody starves\n"
    "                       pct:D    priorities with D-1 changes: bugs of depth D\n"
    "                       urw      every order of steps equally likely\n"
    "                       dpor:C   every schedule that differs at all, or those with at\n"
    "                                most C preemptions; may say 'complete'\n"
    "                       dfs:C    every schedule, differ it or not: to check dpor by\n"
    "                       bytes:FILE  one run that the bytes of a file decide: a fuzzer's\n"
    "  --dpor               the same as -s dpor\n"
    "  --seeds A..B         one run for each seed; --seed A for one\n"
    "  -n, --runs N         stops after N runs\n"
    "  -t, --time TIME      stops after 500ms, 2s, 3m; the default of auto is 2s\n"
    "  --sweep WHAT         lets things fail, one in each run: oom, cancel, fail, panic,\n"
    "                       deadline, budget, delay, net, file; all; chaos for many at once.\n"
    "                       Each schedule is run again for each place where one can; without\n"
    "                       -s these are rr's, and then those of dpor, for 2s\n"
    "\n"
    "what comes of it\n"
    "  -e, --explain        tells the smallest change that makes a failing schedule pass\n"
    "  --report-dir DIR     where schedule, picture and trace of a failure go; kin-lab\n"
    "  --no-files           writes none\n"
    "  --json               one line of JSON for each test\n"
    "  -q, --quiet          only failures\n"
    "  -k, --keep-going     counts failing runs and does not stop at the first\n"
    "  --no-shrink          shows the failing run as it was found\n"
    "  --break-at STEP      in the run that is told: SIGTRAP there, for a debugger\n"
    "  --patience TIME      a step that lasts so long in real time hangs; 10s\n"
    "  --lenient            a replay that no longer fits goes on by itself\n"
    "  -j, --jobs N         runs tests, or parts of a range of seeds, in N processes\n"
    "  -h, --help           this text\n"
    "  --version            of kin\n"
    "  --                   what follows are names of tests\n"
    "\n"
    "The status is 0 when no test failed, 1 when one did, 2 when something was asked that\n"
    "cannot be done, or what came of it could not be written.\n";

void kin__options_help(struct kin__text *out, const char *program)
{
    kin__text_printf(out, "usage: %s [options] [test ...]\n\n", program);
    kin__text_str(out, help_text);
}
