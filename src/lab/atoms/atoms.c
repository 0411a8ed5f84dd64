/* SPDX-License-Identifier: MIT */
/*
 * Atom mode's face: one exploration from its config to its report.
 */
#include "lab/atoms/atoms.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

#define STEPS_MAX UINT64_C(100000)
#define RUNS_MAX UINT64_C(10000)

static char report_text[KIN__ATOMS_TEXT];
static struct kin__engine_failure failure; /* of the last exploration */

_Noreturn void kin__atoms_fail(const char *oracle, int status, const char *where, const char *text)
{
    struct kin__atoms *a = &kin__atoms;
    kin__engine_fail(a->engine, oracle, status, where, text);
    if (a->is_traced)
        kin__trail_text(text);
    a->has_failed = true;
    a->is_folded = a->is_peeking = false;
    if (a->phase == KIN__ATOMS_IDLE)
        kin__escape_raw(a->outside, 0);
    kin__flows_leave();
}

/* ---- what a run may ask for ---- */

void kin_atoms_assert(bool ok, const char *what)
{
    struct kin__atoms *a = &kin__atoms;
    if (KIN__LIKELY(ok))
        return;
    if (a->phase != KIN__ATOMS_IDLE)
        kin__atoms_fail("assert", KIN_PANICKED, what, what);
    KIN__HOUSE(a->engine != NULL, "kin_atoms_assert is for runs");
    kin__engine_fail(a->engine, "assert", KIN_PANICKED, what, what); /* begin, or the end */
    a->has_failed = true;
}

unsigned kin_atoms_choose(unsigned n, const char *label)
{
    if (n <= 1 || kin__atoms.phase == KIN__ATOMS_IDLE)
        return 0;
    return kin__engine_choose(kin__atoms.engine, KIN__CHOICE_CASE, n, label);
}

unsigned kin_atoms_spawn(const char *name, void (*fn)(void *arg), void *arg)
{
    bool was_inside = kin__atoms.is_inside;
    KIN__HOUSE(kin__atoms.engine != NULL, "threads are started in a run");
    kin__atoms.is_inside = true;
    unsigned number = kin__flow_start(name, fn, arg);
    kin__atoms.is_inside = was_inside;
    return number;
}

void kin_atoms_fence_all(void)
{
    bool was_inside = kin__atoms.is_inside;
    kin__atoms.is_inside = true;
    kin__atoms_fence_all((uintptr_t)__builtin_return_address(0));
    kin__atoms.is_inside = was_inside;
}

void kin_atoms_local(void **cell)
{
    kin__atoms.local = cell;
}

unsigned kin_atoms_self(void)
{
    return kin__atoms.phase == KIN__ATOMS_IDLE ? 0 : kin__atoms.current->number;
}

/* ---- one run ---- */

/* Nobody can go on. Names those who are left. */
static void report_deadlock(void)
{
    static const char *const states[] = {
        [KIN__FLOW_AWAITS] = "awaits what never holds", [KIN__FLOW_SPINS] = "spins",
        [KIN__FLOW_JOINS] = "waits for the end of a thread"};
    struct kin__atoms *a = &kin__atoms;
    char memory[512], names[128];
    struct kin__text text, where;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_init(&where, names, sizeof(names));
    kin__text_str(&text, "no thread can go on:");
    for (unsigned i = 1; i < a->count; i++) {
        const struct kin__flow *flow = &a->flows[i];
        if (flow->state == KIN__FLOW_OVER || flow->state == KIN__FLOW_READY)
            continue;
        kin__text_printf(&text, "%s %s %s", where.len ? "," : "", flow->name, states[flow->state]);
        kin__text_printf(&where, "%s%s", where.len ? "," : "", flow->name);
    }
    if (where.len)
        kin__engine_fail(a->engine, "deadlock", KIN_DEADLOCK, names, memory);
    a->has_failed = a->has_failed || where.len;
}

/* Calls begin or end, which may fail the run from any depth. */
struct outside {
    void (*fn)(void *arg);
    void *arg;
};

static int call_now(void *pass)
{
    const struct outside *call = pass;
    kin__atoms.is_inside = false;
    call->fn(call->arg);
    return 0;
}

static void call_outside(const char *name, void (*fn)(void *arg), void *arg)
{
    struct outside call = {fn, arg};
    kin__atoms.outside_name = name;
    (void)kin__call_raw(&kin__atoms.outside, call_now, &call);
    kin__atoms.outside = NULL;
    kin__atoms.is_inside = true;
}

static int run_once(void (*begin)(void *arg), void (*end)(void *arg), void *arg)
{
    struct kin__atoms *a = &kin__atoms;
    int rc = kin__races_begin();
    a->is_traced = kin__engine_is_recorded(a->engine);
    a->has_failed = a->has_stopped = a->is_folded = a->is_peeking = false;
    kin__order_begin();
    kin__blocks_begin();
    if (a->is_traced)
        kin__trail_begin();
    if (rc == 0)
        rc = kin__flows_begin();
    if (rc < 0)
        return rc;
    call_outside("begin", begin, arg);
    if (!a->has_failed)
        kin__flows_run();
    if (!a->has_failed && !a->has_stopped && !kin__engine_is_over(a->engine))
        report_deadlock();
    if (!a->has_failed && !a->has_stopped && !kin__engine_is_over(a->engine) && end)
        call_outside("end", end, arg);
    return 0;
}

/* ---- the whole ---- */

static int read_config(const struct kin_atoms_config *config, struct kin__engine_config *out)
{
    static const enum kin__strategy strategies[] = {
        [KIN_ATOMS_DPOR] = KIN__STRATEGY_DPOR,     [KIN_ATOMS_DFS] = KIN__STRATEGY_DFS,
        [KIN_ATOMS_RANDOM] = KIN__STRATEGY_RANDOM, [KIN_ATOMS_PCT] = KIN__STRATEGY_PCT,
        [KIN_ATOMS_WALK] = KIN__STRATEGY_WALK,     [KIN_ATOMS_REPLAY] = KIN__STRATEGY_REPLAY,
        [KIN_ATOMS_ROUND_ROBIN] = KIN__STRATEGY_ROUND_ROBIN};
    struct kin_atoms_config *c = &kin__atoms.config;
    *c = config ? *config : (struct kin_atoms_config)KIN_ATOMS_CONFIG_INIT;
    if (c->size != sizeof(*c) || (unsigned)c->strategy > KIN_ATOMS_REPLAY ||
        (unsigned)c->memory > KIN_ATOMS_C11)
        return -EINVAL;
    bool is_all = c->strategy == KIN_ATOMS_DPOR || c->strategy == KIN_ATOMS_DFS;
    uint64_t runs = c->strategy == KIN_ATOMS_ROUND_ROBIN ? 1 : is_all ? 0 : RUNS_MAX;
    *out = (struct kin__engine_config){
        .strategy = strategies[c->strategy],
        .seed = c->seed,
        .runs_max = c->executions_max ? c->executions_max : runs,
        .steps_max = c->steps_max ? c->steps_max : STEPS_MAX,
        .wall_max = c->wall_max,
        .depth = c->depth,
        .preemptions = c->preemptions,
        .test = c->name ? c->name : "atoms",
        .replay = c->replay_file,
        .keeps_going = c->keeps_going,
        .shrinks = !c->keeps_going,
    };
    return 0;
}

static void write_text(const struct kin__engine_result *result)
{
    struct kin__text text;
    kin__text_init(&text, report_text, sizeof(report_text));
    if (!failure.oracle)
        return;
    kin__text_printf(&text, "FAIL %s: %s: %s\n",
                     kin__atoms.config.name ? kin__atoms.config.name : "atoms", failure.oracle,
                     failure.text);
    kin__text_printf(&text, "found after %llu executions; %u switches, %u before shrinking\n",
                     (unsigned long long)(result->runs + result->redundant), result->switches,
                     result->switches_before);
    kin__trail_write(&text);
}

static void fill_report(const struct kin__engine_result *result, struct kin_atoms_report *report)
{
    failure = result->failure;
    write_text(result);
    *report = (struct kin_atoms_report){
        .executions = result->runs,
        .redundant = result->redundant,
        .steps = result->steps,
        .failures = result->failures,
        .schedule_hash = result->hash,
        .failing_seed = result->failing_seed,
        .status = failure.oracle ? failure.status : 0,
        .exhausted = result->is_exhausted,
        .oracle = failure.oracle,
        .text = report_text,
    };
}

int kin_atoms_run(const struct kin_atoms_config *config, void (*begin)(void *arg),
                  void (*end)(void *arg), void *arg, struct kin_atoms_report *report)
{
    struct kin__atoms *a = &kin__atoms;
    struct kin__engine_config how;
    struct kin_atoms_report unused;
    int status = begin && !a->engine ? read_config(config, &how) : -EINVAL;
    report = report ? report : &unused;
    *report = (struct kin_atoms_report){.text = ""};
    if (status == 0)
        a->engine = kin__engine_create(&how, &status);
    if (status < 0 || !a->engine)
        return report->status = status;
    kin__context_adopt(&a->flows[0].context);
    kin__trail_begin();
    kin__wild_begin();
    while (status == 0 && kin__engine_begin(a->engine)) {
        status = run_once(begin, end, arg);
        kin__engine_end(a->engine);
    }
    kin__wild_end();
    a->is_inside = false;
    fill_report(kin__engine_result(a->engine), report);
    if (report->oracle && a->config.save_file)
        kin_ignore(kin__engine_save(a->engine, a->config.save_file));
    kin__context_drop(&a->flows[0].context);
    kin__engine_destroy(a->engine);
    a->engine = NULL;
    a->local = NULL;
    return status < 0 ? (report->status = status) : report->status;
}
