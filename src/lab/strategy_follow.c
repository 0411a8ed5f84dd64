/* SPDX-License-Identifier: MIT */
/*
 * Following a run that was: strictly, decision by decision, or leniently, as far as it goes.
 *
 * A strict run parts from its log when what is asked has another mark than what was recorded, and
 * is over then. A lenient one leaves out those who cannot go on; each actor's choices are answered
 * as pledged, in the order in which that actor asks.
 */
#include "lab/state.h"

#define OPEN_MAX 4096u /* steps of an open block: it may wait in a loop for another */

/* ---- strictly ---- */

static void strict_begin(struct kin__lab *s)
{
    s->follow.at = s->follow.choice = 0;
}

/* The decision that comes next in the log; NULL behind its end. */
static const struct kin__decision *next_decision(const struct kin__lab *s, const char **label)
{
    const struct kin__log *log = s->follow.log;

    if (s->follow.at == log->count)
        return NULL;
    const struct kin__decision *next = kin__log_at(log, s->follow.at);
    *label = next->kind == KIN__CHOICE_TASK ? NULL : kin__log_label(log, s->follow.choice);
    return next;
}

static unsigned strict_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    const char *label = NULL;
    const struct kin__decision *next = next_decision(s, &label);
    unsigned actor = KIN__NOBODY;

    if (next && next->kind == KIN__CHOICE_TASK && (!next->mark || next->mark == menu->mark))
        actor = kin__menu_find(s, menu, next->answer);
    if (actor == KIN__NOBODY) {
        const struct kin__asked now = {.menu = menu};
        kin__lab_diverged(s, s->follow.at, next, label, &now);
        return KIN__NOBODY;
    }
    s->follow.at++;
    return actor;
}

static uint32_t strict_choose(struct kin__lab *s, enum kin__choice kind, uint32_t n,
                              const char *label)
{
    const char *recorded = NULL;
    const struct kin__decision *next = next_decision(s, &recorded);

    if (!next || next->kind != kind || next->seen != n || next->mark != s->mark) {
        const struct kin__asked now = {.label = label, .kind = kind, .n = n};
        kin__lab_diverged(s, s->follow.at, next, recorded, &now);
        return 0;
    }
    s->follow.at++;
    s->follow.choice++;
    return next->answer;
}

/* The run ends where its log does. */
static void strict_over(struct kin__lab *s)
{
    const char *label = NULL;
    const struct kin__decision *next = next_decision(s, &label);
    const struct kin__asked now = {.menu = NULL};

    if (next)
        kin__lab_diverged(s, s->follow.at, next, label, &now);
}

const struct kin__plan kin__plan_strict = {.name = "strict",
                                           .begin = strict_begin,
                                           .pick = strict_pick,
                                           .choose = strict_choose,
                                           .over = strict_over};

/* ---- leniently ---- */

bool kin__script_read(struct kin__script *script, const struct kin__log *log)
{
    uint32_t name = KIN__NO_NAME;
    size_t picks = 0, pledges = 0;

    script->pick_count = script->pledge_count = 0;
    if (!kin__room_fits(&script->picks, log->steps, sizeof(uint32_t)) ||
        !kin__room_fits(&script->pledges, log->choices, sizeof(struct kin__pledge)))
        return false;
    for (size_t i = 0; i < log->count; i++) {
        const struct kin__decision *decision = kin__log_at(log, i);
        if (decision->kind == KIN__CHOICE_TASK) {
            ((uint32_t *)script->picks.base)[picks++] = decision->answer;
            name = decision->answer & ~KIN__UNTIL;
        } else {
            ((struct kin__pledge *)script->pledges.base)[pledges++] =
                (struct kin__pledge){name, decision->answer, 0, decision->kind};
        }
    }
    script->pick_count = picks;
    script->pledge_count = pledges;
    return true;
}

void kin__script_release(struct kin__script *script)
{
    kin__room_release(&script->picks);
    kin__room_release(&script->pledges);
}

/* Every actor's pledges are chained, from the last one on. */
void kin__script_begin(struct kin__lab *s)
{
    struct kin__pledge *pledges = s->follow.script->pledges.base;
    struct kin__name *names = kin__lab_names(s);

    s->follow.pick = s->follow.row = 0;
    s->follow.is_begun = false;
    s->result.followed = UINT64_MAX;
    s->follow.nobody = 0;
    s->turn = KIN__NOBODY;
    for (size_t i = s->follow.script->pledge_count; i-- > 0;) {
        uint32_t *first = &s->follow.nobody;
        if (pledges[i].name != KIN__NO_NAME) {
            struct kin__name *name = &names[pledges[i].name];
            if (name->pledge_stamp != s->stamp)
                name->pledge = 0;
            name->pledge_stamp = s->stamp;
            first = &name->pledge;
        }
        pledges[i].next = *first;
        *first = (uint32_t)i + 1;
    }
}

unsigned kin__script_next(const struct kin__lab *s, const struct kin__menu *menu, size_t *pick)
{
    const struct kin__script *script = s->follow.script;
    const uint32_t *picks = script->picks.base;

    for (; *pick < script->pick_count; ++*pick) {
        unsigned actor = kin__menu_find(s, menu, picks[*pick] & ~KIN__UNTIL);
        if (actor != KIN__NOBODY)
            return actor;
    }
    return KIN__NOBODY;
}

/* An open block ends when its actor gives way, too. */
size_t kin__script_after(const struct kin__lab *s, size_t pick, uint32_t row)
{
    const uint32_t name = ((const uint32_t *)s->follow.script->picks.base)[pick];
    const bool has_yielded = s->gave_way && s->current != KIN__NOBODY &&
                             s->actors[s->current].name == (name & ~KIN__UNTIL);

    return pick + (!(name & KIN__UNTIL) || has_yielded || row >= OPEN_MAX);
}

static unsigned lenient_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    if (s->follow.is_begun)
        s->follow.pick = kin__script_after(s, s->follow.pick, s->follow.row);
    const size_t wanted = s->follow.pick;
    const unsigned actor = kin__script_next(s, menu, &s->follow.pick);

    if (s->follow.pick != wanted && s->result.followed == UINT64_MAX)
        s->result.followed = wanted;
    s->follow.is_begun = actor != KIN__NOBODY;
    if (!s->follow.is_begun)
        return s->follow.by_turns ? kin__turns_pick(s, menu) : kin__lazy_pick(s, menu);
    s->follow.row = actor == s->current ? s->follow.row + 1 : 0;
    return s->turn = actor;
}

bool kin__script_answer(struct kin__lab *s, enum kin__choice kind, uint32_t n, uint32_t *answer)
{
    uint32_t *first = &s->follow.nobody;

    if (s->current != KIN__NOBODY) {
        struct kin__name *name = &kin__lab_names(s)[s->actors[s->current].name];
        if (name->pledge_stamp != s->stamp)
            return false;
        first = &name->pledge;
    }
    if (!*first)
        return false;
    const struct kin__pledge *pledge =
        (struct kin__pledge *)s->follow.script->pledges.base + (*first - 1);
    if (pledge->kind != kind)
        return false;
    *first = pledge->next;
    *answer = n && pledge->answer >= n ? n - 1 : pledge->answer;
    return true;
}

static uint32_t lenient_choose(struct kin__lab *s, enum kin__choice kind, uint32_t n,
                               const char *label)
{
    uint32_t answer = 0;

    (void)label;
    return kin__script_answer(s, kind, n, &answer) ? answer : 0;
}

const struct kin__plan kin__plan_lenient = {
    .name = "lenient", .begin = kin__script_begin, .pick = lenient_pick, .choose = lenient_choose};
