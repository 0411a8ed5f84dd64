/* SPDX-License-Identifier: MIT */
/*
 * The course of a search: what the next run is for, and what is learned from the last one.
 *
 * Runs that are drawn have a seed each: the first that of the config, the others mixed from it, so
 * that the seed of a failing run alone makes it the first. What PCT and the walk need to know of
 * the test (how many steps there are) comes from a trial by round-robin that does not depend on
 * the seed.
 *
 * The portfolio draws its plan from the seed too, and gives every other slice of steps to DPOR;
 * slices double. When DPOR has no class left, nothing else can find anything.
 *
 * With sweeps every run that is drawn is made again for each fault that could have happened in it:
 * the same seed gives the same run up to there. A search begins with a sweep of the run by turns.
 */
#include "lab/engine.h"
#include "lab/state.h"
#include "plat/plat.h"

#include <errno.h>
#include <string.h>

#define TRIAL_SEED UINT64_C(0x747269616c)
#define SLICE_FIRST 4096u
#define SLICE_MAX (UINT64_C(1) << 22)
#define RUN_WORK 16u        /* a run counts for so many steps besides those that it has */
#define WALL_EVERY 4096u    /* steps between two looks at the clock */
#define ESTIMATE_EVERY 256u /* runs between two guesses of how many there are */

int64_t kin__lab_wall(void)
{
#ifdef KIN__LAB
    return kin__host_now();
#else
    return kin__clock_now();
#endif
}

/* ---- plans of exploring runs ---- */

static uint64_t next_seed(struct kin__lab *s)
{
    uint64_t nth = s->seeds++;

    if (nth == 0 || s->config.seeds)
        return s->config.seed + nth;
    return kin__hash_u64(s->config.seed + nth * KIN__RNG_STEP) | 1;
}

/* Starts a run that is drawn; with sweeps it is the one that counts what could go wrong. */
static bool draw(struct kin__lab *s, const struct kin__plan *plan, uint64_t seed)
{
    kin__lab_start(s, plan, seed);
    s->is_swept = s->config.sweeps;
    s->sweep = (struct kin__sweep){.plan = plan, .seed = seed};
    return true;
}

/* The same run again, with the next fault. */
static bool start_swept(struct kin__lab *s)
{
    s->sweep.next++;
    s->sweep.seen = 0;
    kin__lab_start(s, s->sweep.plan, s->sweep.seed);
    s->is_swept = true;
    return true;
}

uint32_t kin__sweep_choose(struct kin__lab *s, uint32_t n)
{
    struct kin__sweep *sweep = &s->sweep;
    const uint64_t before = sweep->seen;

    sweep->seen += n ? n - 1 : 0;
    return sweep->next > before && sweep->next <= sweep->seen ? (uint32_t)(sweep->next - before)
                                                               : 0;
}

static void end_swept(struct kin__lab *s)
{
    struct kin__sweep *sweep = &s->sweep;

    if (sweep->next == 0) {
        sweep->sites = sweep->seen;
        s->result.sites += sweep->seen;
    } else {
        s->result.fired += sweep->seen >= sweep->next;
    }
}

static bool start_trial(struct kin__lab *s)
{
    s->is_trial = true;
    kin__lab_start(s, &kin__plan_turns, TRIAL_SEED);
    return true;
}

static bool start_pct(struct kin__lab *s, uint64_t seed, unsigned depth)
{
    s->pct.depth = depth;
    return draw(s, &kin__plan_pct, seed);
}

static bool start_tree(struct kin__lab *s)
{
    if (!kin__tree_next(s))
        return false;
    kin__lab_start(s, &kin__plan_tree, s->config.seed);
    return true;
}

/* One run, or as many as are asked for. */
static bool start_replay(struct kin__lab *s)
{
    if (s->config.is_near)
        return kin__near_next(s, s->tree.is_refused ? next_seed(s) : s->file.seed);
    if (s->result.runs && !s->config.runs_max)
        return false;
    s->is_recorded = !s->config.shrinks;
    s->follow.log = &s->file;
    s->follow.script = &s->file_script;
    s->follow.by_turns = true;
    if (s->config.is_lenient)
        kin__lab_start(s, &kin__plan_lenient, s->file.seed);
    else
        kin__lab_start(s, &kin__plan_strict, s->file.seed);
    return true;
}

static bool start_drawn(struct kin__lab *s)
{
    const uint64_t seed = next_seed(s);

    switch (kin__hash_u64(seed ^ TRIAL_SEED) % 8) {
    case 0:
        return start_pct(s, seed, 2);
    case 1:
    case 2:
        return start_pct(s, seed, 3);
    case 3:
        return start_pct(s, seed, 5);
    case 4:
    case 5:
        return draw(s, &kin__plan_walk, seed);
    default:
        return draw(s, &kin__plan_random, seed);
    }
}

/* Slices by turns: what is drawn, DPOR, ... */
static bool start_auto(struct kin__lab *s)
{
    struct kin__portfolio *portfolio = &s->portfolio;

    if (s->work >= portfolio->until) {
        portfolio->is_tree = portfolio->slice != 0 && !portfolio->is_tree;
        if (!portfolio->slice)
            portfolio->slice = SLICE_FIRST;
        else if (!portfolio->is_tree && portfolio->slice < SLICE_MAX)
            portfolio->slice *= 2;
        portfolio->until = s->work + portfolio->slice;
    }
    if (!portfolio->is_tree || s->tree.is_refused || s->config.runs_max == 1 || s->config.seeds)
        return start_drawn(s);
    if (start_tree(s))
        return true;
    /* What the search has left out for want of patience, or of other numbers, may be drawn. */
    return (s->tree.is_unfair || s->has_dice) && !s->broken && start_drawn(s);
}

/* Whether a strategy searches, so that a sweep has to begin with a run by turns. */
static bool is_searched(enum kin__strategy strategy)
{
    return strategy == KIN__STRATEGY_AUTO || strategy == KIN__STRATEGY_DFS ||
           strategy == KIN__STRATEGY_DPOR;
}

/* The strategy's next run. False: there is none. */
static bool start_next(struct kin__lab *s)
{
    const enum kin__strategy strategy = s->config.strategy;

    s->is_recorded = s->is_trial = false;
    if (!s->has_trial && (strategy == KIN__STRATEGY_AUTO || strategy == KIN__STRATEGY_PCT ||
                          strategy == KIN__STRATEGY_WALK))
        return start_trial(s);
    if (s->sweep.next < s->sweep.sites)
        return start_swept(s);
    if (s->config.seeds && s->seeds == s->config.seeds)
        return false;
    if (s->config.sweeps && !s->sweep.plan && is_searched(strategy))
        return draw(s, &kin__plan_turns, s->config.seed);
    switch (strategy) {
    case KIN__STRATEGY_AUTO:
        return start_auto(s);
    case KIN__STRATEGY_ROUND_ROBIN:
        if (s->result.runs && !s->has_dice)
            return false; /* it would be the same again */
        return draw(s, &kin__plan_turns, next_seed(s));
    case KIN__STRATEGY_RANDOM:
        return draw(s, &kin__plan_random, next_seed(s));
    case KIN__STRATEGY_PCT:
        return start_pct(s, next_seed(s), s->config.depth);
    case KIN__STRATEGY_WALK:
        return draw(s, &kin__plan_walk, next_seed(s));
    case KIN__STRATEGY_DFS:
    case KIN__STRATEGY_DPOR:
        return start_tree(s);
    case KIN__STRATEGY_BYTES:
        if (s->result.runs)
            return false;
        kin__lab_start(s, &kin__plan_bytes, s->config.seed);
        return true;
    case KIN__STRATEGY_REPLAY:
        break;
    }
    return start_replay(s);
}

/* ---- from one phase to the next ---- */

/* The engine broke, or a run did not repeat itself: there is nothing to go on with. */
static void give_up(struct kin__lab *s)
{
    s->phase = KIN__PHASE_DONE;
    if (s->broken && s->has_kept)
        return; /* the failure stands as it was found */
    s->result.failure = s->run_failure;
    s->result.has_diverged = s->has_diverged;
    s->result.failures++;
    s->result.failing_run = s->result.runs;
    s->result.failing_seed = 0;
    s->result.is_complete = false;
}

bool kin__lab_is_asked_to_stop(const struct kin__lab *s)
{
    return s->config.stop && *s->config.stop;
}

/* Whether the time that all of it may take has passed. The clock is not read for every run. */
static bool is_late(struct kin__lab *s)
{
    if (!s->config.wall_max)
        return false;
    if (s->wall_end && s->work < s->wall_work)
        return false;
    const int64_t now = kin__lab_wall();
    if (!s->wall_end && __builtin_add_overflow(now, s->config.wall_max, &s->wall_end))
        s->wall_end = INT64_MAX;
    s->wall_work = s->work + WALL_EVERY;
    return now >= s->wall_end;
}

static bool start_record(struct kin__lab *s)
{
    s->phase = KIN__PHASE_RECORD;
    s->is_recorded = true;
    s->follow.log = &s->kept;
    kin__lab_start(s, &kin__plan_strict, s->kept.seed);
    return true;
}

static bool start_shrink(struct kin__lab *s)
{
    s->is_recorded = false;
    return kin__shrink_next(s) || (s->phase != KIN__PHASE_DONE && start_record(s));
}

/* What the search has left out so far. */
static void tell_bounds(struct kin__lab *s)
{
    s->result.is_bounded = s->tree.is_cut;
    s->result.patience = s->tree.is_unfair ? s->tree.patience : 0;
}

/* Exploration has ended, for whatever reason. */
static bool leave_explore(struct kin__lab *s)
{
    if (!s->has_kept || s->broken) {
        if (s->broken)
            give_up(s);
        s->phase = KIN__PHASE_DONE;
        return false;
    }
    if (!s->config.shrinks)
        return start_record(s);
    s->phase = KIN__PHASE_SHRINK;
    kin__shrink_start(s);
    return start_shrink(s);
}

/* Whether a search that has come to its end has left nothing out. */
static bool is_all(const struct kin__engine_result *result)
{
    return !result->dice && !result->is_bounded && !result->patience && !result->is_capped;
}

static bool begin_explore(struct kin__lab *s)
{
    const struct kin__engine_config *config = &s->config;
    const uint64_t begun = s->result.runs + s->result.redundant; /* of which there may be more */
    const bool is_enough = (config->runs_max && begun >= config->runs_max) ||
                           (s->has_kept && !config->keeps_going) || is_late(s);
    const bool is_stopped = !is_enough && kin__lab_is_asked_to_stop(s);

    s->result.is_stopped = is_stopped;
    tell_bounds(s);
    if (!is_enough && !is_stopped && !s->broken) {
        if (start_next(s))
            return true;
        tell_bounds(s); /* what the last steps back have left out, too */
        s->result.is_exhausted = !s->broken;
        if (s->tree.is_exhausted)
            s->result.estimate = s->tree_runs;
        s->result.is_searched = s->tree.is_exhausted;
        s->result.is_complete = s->tree.is_exhausted && is_all(&s->result) && !s->broken &&
                                !s->result.failures;
    }
    return leave_explore(s);
}

bool kin__engine_begin(struct kin__engine *e)
{
    struct kin__lab *s = kin__lab_of(e);

    if (s->broken && s->phase != KIN__PHASE_DONE)
        give_up(s);
    switch (s->phase) {
    case KIN__PHASE_EXPLORE:
        return begin_explore(s);
    case KIN__PHASE_CHECK:
        s->follow.log = &s->compare;
        s->is_recorded = false;
        kin__lab_start(s, &kin__plan_strict, s->compare.seed);
        return true;
    case KIN__PHASE_SHRINK:
        return start_shrink(s);
    case KIN__PHASE_RECORD:
    case KIN__PHASE_DONE:
        break;
    }
    s->phase = KIN__PHASE_DONE;
    return false;
}

/* ---- what a run was ---- */

static void swap_logs(struct kin__log *a, struct kin__log *b)
{
    struct kin__log other = *a;

    *a = *b;
    *b = other;
}

static bool is_same(const struct kin__engine_failure *a, const struct kin__engine_failure *b)
{
    if (!a->oracle || !b->oracle)
        return !a->oracle && !b->oracle;
    return strcmp(a->oracle, b->oracle) == 0 && strcmp(a->where, b->where) == 0;
}

/* The first run that failed is kept. */
static void keep(struct kin__lab *s, uint64_t failing_seed)
{
    s->result.failures++;
    if (s->has_kept)
        return;
    s->has_kept = true;
    s->result.failure = s->kept_failure = s->run_failure;
    s->result.failing_seed = failing_seed;
    s->result.failing_run = s->result.runs;
    s->result.hash = s->log.hash;
    s->kept_preemptions = kin__lab_preemptions(s);
    s->result.switches = s->result.switches_before = kin__log_switches(&s->log);
    if (s->is_recorded && !s->config.keeps_going)
        s->phase = KIN__PHASE_DONE; /* the world has noted it already */
    if (!kin__log_copy(&s->kept, &s->log))
        kin__lab_broke(s, -ENOMEM, "there is no memory to keep the failing run");
}

static void end_explore(struct kin__lab *s)
{
    const bool is_tree = s->plan == &kin__plan_tree;
    const bool has_failed = s->run_failure.oracle != NULL;

    if (s->broken || s->has_diverged) {
        give_up(s);
        return;
    }
    if (s->is_abandoned) {
        s->result.redundant += !s->tree.is_refused;
        return;
    }
    if (s->is_trial)
        kin__walk_learn(s);
    if (s->is_trial && !has_failed)
        return;
    s->result.runs++;
    s->result.steps += s->log.steps;
    if (s->is_swept)
        end_swept(s);
    if (is_tree && !s->tree.around && ++s->tree_runs % ESTIMATE_EVERY == 0)
        s->result.estimate = kin__tree_estimate(&s->tree, s->tree_runs);
    if (!s->has_kept)
        s->result.hash = s->log.hash;
    if (has_failed)
        keep(s, is_tree || s->config.strategy == KIN__STRATEGY_REPLAY ? 0
                : s->is_trial                                         ? s->config.seed
                                                                      : s->log.seed);
    else if (s->config.check_every && (s->result.runs - 1) % s->config.check_every == 0) {
        swap_logs(&s->compare, &s->log);
        s->phase = KIN__PHASE_CHECK;
    }
}

/* A run that was repeated must end as it did. */
static void end_repeated(struct kin__lab *s, const struct kin__engine_failure *before)
{
    if (!s->broken && !s->has_diverged && !is_same(before, &s->run_failure)) {
        struct kin__text text;
        s->has_diverged = true;
        const char *now = s->run_failure.oracle ? s->run_failure.oracle : "no failure";
        kin__text_init(&text, s->run_failure.text, sizeof(s->run_failure.text));
        kin__text_printf(&text,
                         "uncontrolled nondeterminism: the same decisions ended with %s at %s "
                         "before, with %s now",
                         before->oracle ? before->oracle : "no failure", before->where, now);
        s->run_failure.oracle = "nondeterminism";
        s->run_failure.status = -ENOTRECOVERABLE;
    }
    if (s->broken || s->has_diverged)
        give_up(s);
}

static void end_record(struct kin__lab *s)
{
    end_repeated(s, &s->kept_failure);
    if (s->phase == KIN__PHASE_DONE)
        return;
    s->result.failure = s->run_failure;
    s->result.hash = s->kept.hash;
    s->result.switches = kin__log_switches(&s->kept);
    s->phase = KIN__PHASE_DONE;
}

bool kin__engine_is_stopped(struct kin__engine *e)
{
    struct kin__lab *s = kin__lab_of(e);

    if (!kin__lab_is_asked_to_stop(s) || s->phase == KIN__PHASE_RECORD)
        return false;
    s->head.is_over = s->is_abandoned = s->is_stopped = true; /* whatever its plan says to that */
    s->head.collects = false;
    return true;
}

void kin__engine_end(struct kin__engine *e)
{
    static const struct kin__engine_failure none;
    struct kin__lab *s = kin__lab_of(e);

    kin__lab_over(s);
    s->work += s->log.steps + RUN_WORK;
    if (s->is_stopped) { /* nothing is learned from it */
        s->phase = s->phase == KIN__PHASE_CHECK ? KIN__PHASE_EXPLORE : s->phase;
        return;
    }
    switch (s->phase) {
    case KIN__PHASE_EXPLORE:
        end_explore(s);
        break;
    case KIN__PHASE_CHECK:
        s->phase = KIN__PHASE_EXPLORE;
        end_repeated(s, &none);
        break;
    case KIN__PHASE_SHRINK:
        kin__shrink_learn(s);
        break;
    case KIN__PHASE_RECORD:
        end_record(s);
        break;
    case KIN__PHASE_DONE:
        break;
    }
}

/* ---- runs that are made elsewhere ---- */

int kin__engine_adopt(struct kin__engine *e, char *text, size_t size,
                      const struct kin__engine_result *of)
{
    struct kin__lab *s = kin__lab_of(e);
    const int status = kin__kinlab_parse(s, text, size);

    if (status < 0)
        return status;
    swap_logs(&s->kept, &s->file);
    s->has_kept = s->is_adopted = true;
    s->kept_failure = of->failure;
    s->result = *of;
    s->phase = KIN__PHASE_SHRINK;
    kin__shrink_start(s);
    s->shrink.search_left = 0; /* what a search learns from a run is lost with its process */
    return 0;
}

bool kin__engine_learn(struct kin__engine *e, char *text, size_t size)
{
    struct kin__lab *s = kin__lab_of(e);
    const bool has_failed = text && kin__kinlab_parse(s, text, size) == 0;

    if (has_failed)
        swap_logs(&s->log, &s->file);
    s->run_failure = s->kept_failure;
    if (!has_failed)
        s->run_failure.oracle = NULL;
    const void *labels = s->log.labels.base;
    kin__engine_end(e);
    return s->kept.labels.base == labels;
}

/* ---- the last run of a process ---- */

/* What it means for the schedule that the run ends here. */
static void put_end(struct kin__text *text, const struct kin__lab *s)
{
    const uint64_t steps = s->file.steps;

    if (s->run_failure.oracle)
        kin__text_printf(text, "; everybody was to end after: %s, %s", s->run_failure.oracle,
                         s->run_failure.text);
    else if (s->head.is_over)
        kin__text_str(text, "; this was off the record, behind the end of the schedule");
    else if (s->config.strategy == KIN__STRATEGY_REPLAY && !s->config.is_near && !s->is_adopted)
        kin__text_printf(text, "; the file that is replayed has %llu steps%s",
                         (unsigned long long)steps, steps == s->log.steps ? ": the same end" : "");
}

void kin__engine_die(struct kin__engine *e, const struct kin__engine_failure *failure)
{
    struct kin__lab *s = kin__lab_of(e);
    struct kin__engine_result *result = &s->result;
    const bool is_explored = s->phase == KIN__PHASE_EXPLORE;
    const bool has_seed = is_explored && s->plan != &kin__plan_tree &&
                          s->config.strategy != KIN__STRATEGY_REPLAY;
    struct kin__text text;

    s->kept_failure = *failure;
    kin__text_init(&text, s->kept_failure.text, sizeof(s->kept_failure.text));
    kin__text_str(&text, failure->text);
    put_end(&text, s);
    s->kept = s->log; /* the same memory: nobody will give it back */
    s->has_kept = true;
    result->failure = s->kept_failure;
    result->hash = s->log.hash;
    result->switches = kin__log_switches(&s->log);
    if (s->is_adopted)
        return; /* the rest is as it was where it was found */
    result->failures++;
    result->runs += is_explored;
    result->steps += is_explored ? s->log.steps : 0;
    result->failing_seed = !has_seed ? 0 : s->is_trial ? s->config.seed : s->log.seed;
    result->failing_run = result->runs;
    result->switches_before = result->switches;
    result->shrink_runs = 0;
}

uint64_t kin__engine_run(const struct kin__engine *e)
{
    return kin__lab_of_const(e)->stamp;
}

/* ---- what came out ---- */

const struct kin__engine_result *kin__engine_result(const struct kin__engine *e)
{
    return &kin__lab_of_const(e)->result;
}
