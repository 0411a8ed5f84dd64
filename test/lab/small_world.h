/* SPDX-License-Identifier: MIT */
/*
 * A world for tests of the engine: a few actors, each a list of operations on a few shared words.
 *
 * A step is one operation. The trace of a run is kept, and from it the class of the run: a hash
 * over the events and what comes before each, computed from the definition (same actor, or same
 * word and not both reads and not both adds, or announced by) with none of the engine's own means.
 */
#ifndef KIN_TEST_SMALL_WORLD_H
#define KIN_TEST_SMALL_WORLD_H

#include "base/hash.h"
#include "base/rng.h"
#include "lab/engine.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SMALL_ACTORS 8
#define SMALL_OPS 8
#define SMALL_WORDS 6
#define SMALL_EVENTS 128

enum small_what {
    SMALL_END,   /* the actor has ended */
    SMALL_READ,  /* local = word */
    SMALL_STORE, /* word = value */
    SMALL_PUT,   /* word = local + value */
    SMALL_ADD,   /* word += value; nobody looks at the result */
    SMALL_COUNT, /* word += value, as a write: somebody waits for the word */
    SMALL_AWAIT, /* goes on when word > 0 */
    SMALL_CASE,  /* word = one of value choices */
    SMALL_FAULT, /* if a fault happens: word = value */
    SMALL_TWICE, /* if a fault happens: word = one of value choices */
    SMALL_LOOK,  /* local = word; if that is 0: local = word number value */
    SMALL_TRY,   /* local = word; if that is 0: word number value is counted up */
    SMALL_DICE,  /* local = the program's dice, below value */
    SMALL_SPAWN, /* announces actor number value */
    SMALL_CHECK, /* fails if local != value */
    SMALL_BARRIER,
    SMALL_NOTHING
};

struct small_op {
    uint8_t what, word;
    int16_t value;
    uint8_t also; /* a second word that is written in the same step, plus 1 */
};

struct small_program {
    unsigned actors; /* from the start on; others are announced by SPAWN */
    unsigned all;
    struct small_op ops[SMALL_ACTORS][SMALL_OPS];
    int64_t at_end[SMALL_WORDS]; /* what words must be in the end, where has_end says so */
    uint32_t has_end;
    bool fails_on_deadlock;
};

struct small_event {
    uint8_t actor;               /* of the program, not of the engine */
    uint8_t reads, adds, writes; /* sets of words */
    uint8_t spawns;              /* plus 1 */
    bool is_barrier;
    uint32_t answer;
};

struct small_world {
    const struct small_program *program;
    struct kin__engine *engine;
    int64_t words[SMALL_WORDS];
    int64_t local[SMALL_ACTORS];
    unsigned pc[SMALL_ACTORS];
    int8_t number[SMALL_ACTORS]; /* the engine's; -1: not announced */
    uint8_t whose[SMALL_ACTORS];
    unsigned announced;
    unsigned events;
    struct small_event trace[SMALL_EVENTS];
    bool was_over;
    uint64_t cheat; /* tests that the engine notices: see small_enabled */
    uint64_t runs;
};

static inline void small_announce(struct small_world *w, unsigned actor)
{
    static const char *const paths[SMALL_ACTORS] = {"root",   "root/0", "root/1", "root/2",
                                                    "root/3", "root/4", "root/5", "root/6"};

    if (w->number[actor] >= 0)
        return;
    w->number[actor] = (int8_t)kin__engine_actor(w->engine, paths[actor]);
    w->whose[(unsigned)w->number[actor] % SMALL_ACTORS] = (uint8_t)actor;
    w->announced++;
}

static inline bool small_is_enabled(const struct small_world *w, unsigned actor)
{
    if (w->number[actor] < 0 || w->pc[actor] >= SMALL_OPS)
        return false;
    const struct small_op *op = &w->program->ops[actor][w->pc[actor]];
    return op->what != SMALL_END && (op->what != SMALL_AWAIT || w->words[op->word] > 0);
}

static inline void small_touch(struct small_world *w, struct small_event *event, unsigned word,
                               enum kin__touch mode)
{
    uint8_t bit = (uint8_t)(1u << word);

    kin__engine_touch(w->engine, (uintptr_t)&w->words[word], mode);
    if (mode == KIN__TOUCH_READ)
        event->reads |= bit;
    else if (mode == KIN__TOUCH_ADD)
        event->adds |= bit;
    else
        event->writes |= bit;
}

/* Whoever waits next has looked at what it waits for, as a task does before it parks. */
static inline void small_look(struct small_world *w, struct small_event *event, unsigned actor)
{
    const struct small_op *next = &w->program->ops[actor][w->pc[actor]];

    if (w->pc[actor] < SMALL_OPS && next->what == SMALL_AWAIT)
        small_touch(w, event, next->word, KIN__TOUCH_READ);
}

/* Operations that ask the engine to choose. */
static inline void small_choose(struct small_world *w, const struct small_op *op,
                                struct small_event *event)
{
    const uint32_t n = (uint32_t)op->value;
    unsigned word = op->word;

    if (op->what == SMALL_DICE) {
        event->answer = kin__engine_choose(w->engine, KIN__CHOICE_RANDOM, n, "dice");
        w->local[event->actor] = event->answer;
        return;
    }
    if (op->what == SMALL_CASE)
        event->answer = kin__engine_choose(w->engine, KIN__CHOICE_CASE, n, "case");
    else
        event->answer = kin__engine_choose(w->engine, KIN__CHOICE_FAULT, 2, "fault");
    if (op->what == SMALL_TWICE && event->answer) {
        event->answer += kin__engine_choose(w->engine, KIN__CHOICE_NET, n, "twice");
        word = event->answer == 1 ? word : 0;
    }
    if (op->what != SMALL_CASE && !event->answer)
        return;
    small_touch(w, event, word, KIN__TOUCH_WRITE);
    w->words[word] = op->what == SMALL_FAULT ? op->value : (int64_t)event->answer;
}

/* Operations whose second touch hangs on what the first one finds. */
static inline void small_look_on(struct small_world *w, const struct small_op *op,
                                 struct small_event *event)
{
    small_touch(w, event, op->word, KIN__TOUCH_READ);
    w->local[event->actor] = w->words[op->word];
    if (w->words[op->word] != 0)
        return;
    small_touch(w, event, (unsigned)op->value,
                op->what == SMALL_TRY ? KIN__TOUCH_WRITE : KIN__TOUCH_READ);
    if (op->what == SMALL_TRY)
        w->words[op->value]++;
    else
        w->local[event->actor] = w->words[op->value];
}

static inline void small_step(struct small_world *w, unsigned actor)
{
    const struct small_op *op = &w->program->ops[actor][w->pc[actor]++];
    struct small_event *event = &w->trace[w->events < SMALL_EVENTS - 1 ? w->events++ : w->events];
    int64_t *word = &w->words[op->word];

    *event = (struct small_event){.actor = (uint8_t)actor};
    switch ((enum small_what)op->what) {
    case SMALL_END:
    case SMALL_NOTHING:
        break;
    case SMALL_READ:
        small_touch(w, event, op->word, KIN__TOUCH_READ);
        w->local[actor] = *word;
        break;
    case SMALL_STORE:
    case SMALL_PUT:
        small_touch(w, event, op->word, KIN__TOUCH_WRITE);
        *word = op->value + (op->what == SMALL_PUT ? w->local[actor] : 0);
        break;
    case SMALL_ADD:
    case SMALL_COUNT:
        small_touch(w, event, op->word, op->what == SMALL_ADD ? KIN__TOUCH_ADD : KIN__TOUCH_WRITE);
        *word += op->value;
        break;
    case SMALL_AWAIT:
        small_touch(w, event, op->word, KIN__TOUCH_READ);
        break;
    case SMALL_CASE:
    case SMALL_FAULT:
    case SMALL_TWICE:
    case SMALL_DICE:
        small_choose(w, op, event);
        break;
    case SMALL_LOOK:
    case SMALL_TRY:
        small_look_on(w, op, event);
        break;
    case SMALL_SPAWN:
        event->spawns = (uint8_t)(op->value + 1);
        small_announce(w, (unsigned)op->value);
        small_look(w, event, (unsigned)op->value);
        break;
    case SMALL_CHECK:
        if (w->local[actor] != op->value)
            kin__engine_fail(w->engine, "assert", -1,
                             kin__engine_path(w->engine, (unsigned)w->number[actor]),
                             "the local word is wrong");
        break;
    case SMALL_BARRIER:
        event->is_barrier = true;
        kin__engine_barrier(w->engine);
        break;
    }
    if (op->also) {
        small_touch(w, event, op->also - 1u, KIN__TOUCH_WRITE);
        w->words[op->also - 1] = op->value;
    }
    small_look(w, event, actor);
}

static inline bool small_is_done(const struct small_world *w)
{
    for (unsigned a = 0; a < SMALL_ACTORS; a++)
        if (w->number[a] >= 0 && w->pc[a] < SMALL_OPS &&
            w->program->ops[a][w->pc[a]].what != SMALL_END)
            return false;
    return true;
}

/* The checks at the end of a run. */
static inline void small_judge(struct small_world *w)
{
    if (!small_is_done(w)) {
        if (w->program->fails_on_deadlock)
            kin__engine_fail(w->engine, "deadlock", -35, "root", "nobody can go on");
        return;
    }
    for (unsigned i = 0; i < SMALL_WORDS; i++)
        if ((w->program->has_end >> i & 1) && w->words[i] != w->program->at_end[i]) {
            kin__engine_fail(w->engine, "assert", -1, "root", "a word is wrong in the end");
            return;
        }
}

/* One run, from begin to end. */
static inline void small_run(struct small_world *w)
{
    memset(w->words, 0, sizeof(w->words));
    memset(w->local, 0, sizeof(w->local));
    memset(w->pc, 0, sizeof(w->pc));
    memset(w->number, -1, sizeof(w->number));
    w->announced = w->events = 0;
    w->runs++;
    for (unsigned a = 0; a < w->program->actors; a++)
        small_announce(w, a);
    for (unsigned steps = 0; steps < SMALL_EVENTS; steps++) {
        uint16_t enabled[SMALL_ACTORS];
        unsigned count = 0;
        for (unsigned n = 0; n < w->announced; n++)
            if (small_is_enabled(w, w->whose[n]))
                enabled[count++] = (uint16_t)n;
        if (count == 0)
            break;
        unsigned picked = kin__engine_pick(w->engine, enabled, count);
        if (kin__engine_is_over(w->engine))
            break;
        small_step(w, w->whose[picked]);
        if (kin__engine_is_over(w->engine))
            break;
    }
    w->was_over = kin__engine_is_over(w->engine);
    if (!w->was_over)
        small_judge(w);
}

/* ---- the class of a run ---- */

static inline bool small_depends(const struct small_event *a, const struct small_event *b)
{
    if (a->actor == b->actor || a->is_barrier || b->is_barrier || a->spawns == b->actor + 1)
        return true;
    uint8_t any_a = a->reads | a->adds | a->writes, any_b = b->reads | b->adds | b->writes;
    /* A word that is read and added to in one step is as good as written. */
    uint8_t w_a = a->writes | (a->reads & a->adds), w_b = b->writes | (b->reads & b->adds);
    return (w_a & any_b) || (any_a & w_b) || (a->reads & b->adds) || (a->adds & b->reads);
}

static inline uint64_t small_class(const struct small_world *w)
{
    uint8_t clock[SMALL_EVENTS][SMALL_ACTORS];
    uint64_t hash = w->events;

    for (unsigned j = 0; j < w->events; j++) {
        memset(clock[j], 0, sizeof(clock[j]));
        for (unsigned i = 0; i < j; i++)
            for (unsigned a = 0; small_depends(&w->trace[i], &w->trace[j]) && a < SMALL_ACTORS; a++)
                clock[j][a] = clock[i][a] > clock[j][a] ? clock[i][a] : clock[j][a];
        clock[j][w->trace[j].actor]++;
        uint64_t x = w->trace[j].actor + 1u + ((uint64_t)w->trace[j].answer << 8);
        for (unsigned a = 0; a < SMALL_ACTORS; a++)
            x = kin__hash_u64(x * 31 + clock[j][a]);
        hash += kin__hash_u64(x);
    }
    return kin__hash_u64(hash);
}

/* ---- sets of classes ---- */

#define SMALL_SET 65536u

struct small_set {
    uint64_t slots[SMALL_SET];
    unsigned count;
};

/* False: it was there, or there is no room. */
static inline bool small_set_add(struct small_set *set, uint64_t hash)
{
    hash = hash ? hash : 1;
    for (unsigned at = (unsigned)hash % SMALL_SET;; at = (at + 1) % SMALL_SET) {
        if (set->slots[at] == hash || set->count > SMALL_SET / 2)
            return false;
        if (set->slots[at])
            continue;
        set->slots[at] = hash;
        set->count++;
        return true;
    }
}

/* ---- random programs ---- */

static inline void small_print(const struct small_program *program)
{
    static const char *const names[] = {"end",   "read",  "store", "put",     "add",
                                        "count", "await", "case",  "fault",   "twice",
                                        "look",  "try",   "dice",  "spawn",   "check",
                                        "barrier", "nothing"};

    for (unsigned a = 0; a < program->all; a++) {
        printf("  %s%u:", a < program->actors ? "" : "spawned ", a);
        for (unsigned i = 0; i < SMALL_OPS && program->ops[a][i].what; i++) {
            const struct small_op *op = &program->ops[a][i];
            printf(" %s(w%u %d", names[op->what], op->word, op->value);
            printf(op->also ? " also w%u)" : ")", op->also - 1u);
        }
        printf("\n");
    }
}

struct small_shape {
    unsigned actors_max, ops_max, words_max;
    bool has_choices, has_awaits, has_spawns, has_barriers;
    bool has_looks; /* steps that touch more or less by what they find */
};

static inline struct small_op small_random_op(struct kin__rng *rng, const struct small_shape *shape,
                                              unsigned words, unsigned awaited)
{
    struct small_op op = {.word = (uint8_t)kin__rng_below(rng, words)};
    const bool is_awaited = awaited >> op.word & 1;

    if (shape->has_looks && kin__rng_chance(rng, 1, 4)) {
        op.what = kin__rng_chance(rng, 1, 3) ? SMALL_TRY : SMALL_LOOK;
        op.value = (int16_t)kin__rng_below(rng, words);
        return op;
    }
    switch (kin__rng_below(rng, 10)) {
    case 0:
    case 1:
    case 2:
        op.what = SMALL_READ;
        break;
    case 3:
    case 4:
        op.what = SMALL_STORE;
        op.value = (int16_t)kin__rng_below(rng, 3);
        break;
    case 5:
        op.what = is_awaited ? SMALL_COUNT : SMALL_ADD;
        op.value = is_awaited ? (int16_t)((int)kin__rng_below(rng, 3) - 1) : 1;
        break;
    case 6:
        op.what = shape->has_awaits && is_awaited ? SMALL_AWAIT : SMALL_PUT;
        op.value = 1;
        break;
    case 7:
        op.what = SMALL_READ;
        op.value = 2;
        if (shape->has_choices)
            op.what = (uint8_t)(SMALL_CASE + kin__rng_below(rng, 3));
        break;
    case 8:
        op.what = SMALL_STORE;
        op.value = 1;
        op.also = (uint8_t)(1 + kin__rng_below(rng, words));
        break;
    default:
        op.what = shape->has_barriers && kin__rng_chance(rng, 1, 4) ? SMALL_BARRIER : SMALL_NOTHING;
        break;
    }
    return op;
}

static inline void small_random(struct small_program *program, struct kin__rng *rng,
                                const struct small_shape *shape)
{
    const unsigned words = 1 + (unsigned)kin__rng_below(rng, shape->words_max);
    const unsigned awaited = (unsigned)kin__rng_below(rng, 1u << words);

    memset(program, 0, sizeof(*program));
    program->all = program->actors = 2 + (unsigned)kin__rng_below(rng, shape->actors_max - 1);
    unsigned most = shape->ops_max;
    if (program->all == 3 && most > 3)
        most = 3;
    if (program->all > 3 && most > 2)
        most = 2;
    for (unsigned a = 0; a < program->all; a++) {
        unsigned count = 1 + (unsigned)kin__rng_below(rng, most);
        for (unsigned i = 0; i < count; i++)
            program->ops[a][i] = small_random_op(rng, shape, words, awaited);
        if (shape->has_spawns && a + 1 == program->all && kin__rng_chance(rng, 1, 2)) {
            program->actors = a;
            unsigned parent = (unsigned)kin__rng_below(rng, a);
            unsigned at = (unsigned)kin__rng_below(rng, 2);
            program->ops[parent][at] = (struct small_op){.what = SMALL_SPAWN, .value = (int16_t)a};
        }
    }
}

#endif
