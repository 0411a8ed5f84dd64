/* SPDX-License-Identifier: MIT */
/*
 * kin_lab_run: a test, a strategy, and one execution after the other until the engine has enough.
 */
#include "lab/crash.h"
#include "lab/death.h"
#include "lab/options.h"
#include "lab/report.h"
#include "lab/stop.h"
#include "lab/world.h"

#include "plat/plat.h"
#include "scope/overflow.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define EXECUTIONS_DEFAULT 1000u
#define AUTO_NS INT64_C(2000000000)
#define TIME_MAX_DEFAULT (INT64_C(86400) * 1000000000)
#define CHECK_EVERY 64u
#define DEPTH_MAX 32u /* of PCT, as KIN__PCT_DEPTH_MAX of lab/state.h */
#define STEPS_MAX 250000u /* of one execution: more is a livelock */

/* What is run again and again. */
struct subject {
    kin_task_fn *test;
    void *arg;
    bool is_host; /* test calls kin_run itself */
};

/* ---- the engine's side ---- */

static enum kin__strategy strategy_of(const struct kin_lab_config *config)
{
    static const uint8_t strategies[] = {
        [KIN_LAB_AUTO] = KIN__STRATEGY_AUTO,     [KIN_LAB_ROUND_ROBIN] = KIN__STRATEGY_ROUND_ROBIN,
        [KIN_LAB_RANDOM] = KIN__STRATEGY_RANDOM, [KIN_LAB_PCT] = KIN__STRATEGY_PCT,
        [KIN_LAB_DPOR] = KIN__STRATEGY_DPOR,     [KIN_LAB_REPLAY] = KIN__STRATEGY_REPLAY,
        [KIN_LAB_BYTES] = KIN__STRATEGY_BYTES,
    };
    if (kin__lab_wish.other)
        return kin__lab_wish.other;
    return (enum kin__strategy)strategies[config->strategy];
}

static const char *name_of_strategy(const struct kin_lab_config *config)
{
    static const char *const names[] = {"auto", "rr", "random", "pct", "dpor", "replay",
                                        "bytes"};
    return names[config->strategy];
}

/* Whether one fault is tried after the other, and not any number at once. */
static bool is_swept(const struct kin_lab_config *config)
{
    return (config->faults & KIN_FAULT_EACH) && !(config->faults & KIN_FAULT_CHAOS);
}

static uint64_t executions_of(const struct kin_lab_config *config)
{
    if (config->executions_max || kin__lab_wish.seeds)
        return config->executions_max;
    if (is_swept(config) && config->strategy == KIN_LAB_ROUND_ROBIN)
        return 0;
    switch (config->strategy) {
    case KIN_LAB_ROUND_ROBIN:
        return 1;
    case KIN_LAB_REPLAY:
        return !kin__lab_wish.is_near;
    case KIN_LAB_AUTO:
    case KIN_LAB_DPOR:
        return 0;
    default:
        return kin__lab_wish.wall_max ? 0 : EXECUTIONS_DEFAULT;
    }
}

/* What a replay must know beside the schedule, for the file. */
static void write_notes(const struct kin_lab_config *config, char *memory, size_t size)
{
    struct kin__text text;
    kin__text_init(&text, memory, size);
    if (config->workers)
        kin__text_printf(&text, "workers %u\n", config->workers);
    if (config->faults) {
        kin__text_str(&text, "faults ");
        kin__options_faults(&text, config->faults);
        kin__text_str(&text, "\n");
    }
}

static struct kin__engine *make_engine(const struct kin_lab_config *config, int *status)
{
    const struct kin__lab_wish *wish = &kin__lab_wish;
    static char notes[128];
    struct kin__text misread;
    write_notes(config, notes, sizeof(notes));
    kin__text_init(&misread, kin__lab_wish.misread, sizeof(kin__lab_wish.misread));
    int64_t wall_max = wish->wall_max;
    if (!wall_max && config->strategy == KIN_LAB_AUTO && !config->executions_max && !wish->seeds)
        wall_max = AUTO_NS;
    struct kin__engine_config engine = {
        .strategy = strategy_of(config),
        .seed = config->seed,
        .seeds = wish->seeds,
        .runs_max = executions_of(config),
        .steps_max = STEPS_MAX,
        .wall_max = wall_max,
        .depth = config->depth,
        .preemptions = config->preemptions,
        .test = wish->test ? wish->test : "test",
        .replay = config->replay_file,
        .bytes = config->bytes,
        .bytes_count = config->bytes_count,
        .is_lenient = wish->is_lenient,
        .is_near = wish->is_near,
        .keeps_going = wish->keeps_going,
        .shrinks = !wish->is_unshrunk && !wish->keeps_going,
        .sweeps = is_swept(config),
        .check_every = CHECK_EVERY,
        .notes = notes,
        .stop = &kin__stop_signal,
        .misread = &misread,
    };
    return kin__engine_create(&engine, status);
}

/* What the file of a replay says beside the schedule. */
static void read_notes(const struct kin__engine *engine, struct kin_lab_config *config)
{
    const char *notes = kin__engine_notes(engine);
    char word[128];
    if (kin__engine_note(notes, "faults", word, sizeof(word)))
        config->faults |= kin__options_fault_bits(word);
    if (!config->workers && kin__engine_note(notes, "workers", word, sizeof(word)))
        config->workers = kin__options_number(word, KIN_WORKERS_MAX);
}

/* What is wrong with a config; NULL: nothing. */
static const char *find_wrong(const struct kin_lab_config *config)
{
    if (config->size != sizeof(*config))
        return "its config has no size: it begins with KIN_LAB_CONFIG_INIT";
    if ((unsigned)config->strategy > KIN_LAB_BYTES)
        return "its .strategy is none of enum kin_lab_strategy";
    if (config->time_max < 0)
        return "its .time_max is negative";
    if (config->workers > KIN_WORKERS_MAX)
        return "its .workers are more than KIN_WORKERS_MAX";
    if (config->depth > DEPTH_MAX)
        return "its .depth is more than 32";
    if (config->strategy == KIN_LAB_REPLAY && !config->replay_file)
        return "its .strategy is KIN_LAB_REPLAY, and there is no .replay_file";
    if (config->strategy == KIN_LAB_BYTES && !config->bytes && config->bytes_count)
        return "its .bytes are missing";
    return NULL;
}

static int check_config(const struct kin_lab_config *config)
{
    struct kin__text text;
    const char *wrong = find_wrong(config);
    kin__text_init(&text, kin__lab_wish.wrong, sizeof(kin__lab_wish.wrong));
    kin__text_str(&text, wrong ? wrong : "");
    return wrong ? -EINVAL : 0;
}

static void tell_world(const struct kin_lab_config *config)
{
    struct kin__world *w = &kin__world;
    w->oracles = config->oracles ? config->oracles : UINT32_MAX;
    w->faults = config->faults;
    w->workers = config->workers ? config->workers : 2;
    w->time_max = config->time_max ? config->time_max : TIME_MAX_DEFAULT;
    w->keeps_fixture = kin__lab_wish.test != NULL;
    w->is_fair = config->strategy == KIN_LAB_ROUND_ROBIN;
}

/* ---- executions ---- */

static void execute(struct kin__engine *engine, const struct subject *subject)
{
    kin__world_begin(engine);
    int rc = subject->is_host ? subject->test(subject->arg)
                              : kin_run(NULL, subject->test, subject->arg);
    if (rc < 0 && kin__world_looks(KIN_ORACLE_RESULT) && !kin__lab_faults_fired())
        kin__world_failf("return", rc, "root", "the test returned %s (%d)", kin_status_name(rc),
                         rc);
    kin__world_end();
}

static void explore(struct kin__engine *engine, const struct subject *subject)
{
    const struct kin__lab_wish *wish = &kin__lab_wish;
    uint64_t count = 0;
    while (kin__engine_begin(engine)) { /* ends: the engine has enough */
        execute(engine, subject);
        kin__engine_end(engine);
        if (wish->progress && (++count & 0xff) == 0)
            wish->progress(kin__engine_result(engine), wish->progress_arg);
    }
}

static void describe(const struct kin__engine *engine, const struct kin_lab_config *config,
                     int64_t began, struct kin_lab_report *out)
{
    static char covers[512];
    const struct kin__engine_result *result = kin__engine_result(engine);
    struct kin__text text;
    kin__text_init(&text, covers, sizeof(covers));
    kin__report_covers(&text, result);
    *out = (struct kin_lab_report){
        .executions = result->runs,
        .steps = result->steps,
        .schedule_hash = result->hash,
        .failing_seed = result->failing_seed,
        .status = result->failure.oracle ? result->failure.status : 0,
        .exhausted = result->is_complete,
        .oracle = result->failure.oracle,
        .text = "",
        .covers = covers,
    };
    if (!result->failure.oracle)
        return;
    struct kin__finding finding = {
        .test = kin__lab_wish.test ? kin__lab_wish.test : "test",
        .strategy = name_of_strategy(config),
        .directory = config->report_dir,
        .wall_ns = kin__host_now() - began,
        .engine = engine,
        .failure = &result->failure,
    };
    out->text = kin__report_make(&finding, &out->replay_file);
}

/* What tell_death needs to know of the runs under way. */
static struct {
    struct kin__engine *engine;
    const struct kin_lab_config *config;
    const struct subject *subject;
    int64_t began;
} watched;

/* In the handler of a signal: nobody will come back to tell it. */
static void tell_crash(void)
{
    static struct kin_lab_report report;
    describe(watched.engine, watched.config, watched.began, &report);
    kin__lab_wish.result = *kin__engine_result(watched.engine);
    if (kin__lab_wish.died)
        kin__lab_wish.died(&report);
    else
        kin__plat_write(STDERR_FILENO, report.text, strlen(report.text));
}

static void tell_death(void)
{
    if (!kin__crash_shrink(watched.engine))
        tell_crash();
    if (kin__stop_signal)
        kin__stop_die(); /* who said so wants to know that it was for this */
}

static void execute_watched(void)
{
    execute(watched.engine, watched.subject);
}

static void show_watched(void)
{
    if (kin__lab_wish.progress)
        kin__lab_wish.progress(kin__engine_result(watched.engine), kin__lab_wish.progress_arg);
}

/* All runs; or those of a crash that another process has met. */
static void explore_or_shrink(struct kin__engine *engine, const struct subject *subject)
{
    const struct kin__crash_how how = {.engine = engine,
                                       .execute = execute_watched,
                                       .tell = tell_crash,
                                       .progress = show_watched};
    if (kin__crash_is_keeper())
        kin__crash_work(&how);
    explore(engine, subject);
}

void kin__lab_interrupt(struct kin_lab_report *out)
{
    kin__world.is_on = kin__world.is_running = false; /* time and files are the host's now */
    describe(watched.engine, watched.config, watched.began, out);
    kin__lab_wish.result = *kin__engine_result(watched.engine);
    kin__lab_wish.result.is_stopped = true;
}

static int run(const struct kin_lab_config *given, const struct subject *subject,
               struct kin_lab_report *out)
{
    static struct kin_lab_report nobody;
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    struct kin_lab_report *report = out ? out : &nobody;
    if (given)
        config = *given;
    if (!subject->test || check_config(&config) < 0)
        return -EINVAL;
    if (kin__world.is_on || kin__worker_self())
        return -EBUSY;
    int64_t began = kin__lab_wish.began ? kin__lab_wish.began : kin__host_now();
    int rc = kin__world_init();
    if (rc < 0)
        return rc;
    struct kin__engine *engine = make_engine(&config, &rc);
    if (!engine)
        return rc;
    read_notes(engine, &config);
    watched.engine = engine;
    watched.config = &config;
    watched.subject = subject;
    watched.began = began;
    kin__death_watch(engine, tell_death); /* before those who may pass a fault on to it */
    rc = kin__overflow_init();
    if (rc == 0) {
        tell_world(&config);
        explore_or_shrink(engine, subject);
        kin__overflow_fini();
    }
    kin__death_unwatch();
    if (rc == 0) {
        describe(engine, &config, began, report);
        kin__lab_wish.result = *kin__engine_result(engine);
        rc = report->status;
    }
    kin__engine_destroy(engine);
    return rc;
}

/* ---- the public face ---- */

int kin_lab_run(const struct kin_lab_config *config, kin_task_fn *test, void *arg,
                struct kin_lab_report *out)
{
    struct subject subject = {test, arg, false};
    return run(config, &subject, out);
}

int kin_lab_run_host(const struct kin_lab_config *config, kin_task_fn *test, void *arg,
                     struct kin_lab_report *out)
{
    struct subject subject = {test, arg, true};
    return run(config, &subject, out);
}

bool kin_in_lab(void)
{
    return kin__world.is_on;
}
