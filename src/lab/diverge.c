/* SPDX-License-Identifier: MIT */
/*
 * What is said of a run that does not repeat itself: where it parted, and from what.
 */
#include "lab/state.h"

#include <kin/status.h>

#include <errno.h>

#define LISTED_MAX 8u /* actors that are named */

static const char *const kinds[] = {"task", "case", "timer", "fault", "net", "random"};

static void say_set(struct kin__text *text, const struct kin__lab *s, uint64_t seen, bool has_more)
{
    unsigned listed = 0;

    kin__text_str(text, "{");
    for (unsigned actor = 0; actor < 64; actor++) {
        if (!(seen >> actor & 1))
            continue;
        if (listed++ == LISTED_MAX) {
            has_more = true;
            break;
        }
        kin__text_str(text, listed > 1 ? ", " : "");
        kin__text_str(text, kin__engine_path(&s->head, actor));
    }
    if (has_more)
        kin__text_str(text, listed ? ", ..." : "...");
    kin__text_str(text, "}");
}

static void say_choice(struct kin__text *text, unsigned kind, uint64_t n, const char *label)
{
    kin__text_printf(text, "{%s of %llu: %s}",
                     kind < sizeof(kinds) / sizeof(*kinds) ? kinds[kind] : "?",
                     (unsigned long long)n, label ? label : "");
}

static void say_recorded(struct kin__text *text, const struct kin__lab *s,
                         const struct kin__decision *recorded, const char *label)
{
    if (!recorded) {
        kin__text_str(text, "the end");
    } else if (recorded->kind != KIN__CHOICE_TASK) {
        say_choice(text, recorded->kind, recorded->seen, label);
    } else {
        say_set(text, s, recorded->seen, recorded->has_more || !recorded->seen);
        if (recorded->answer != KIN__NO_NAME)
            kin__text_printf(text, " and %s", kin__path_text(s, recorded->answer));
    }
}

void kin__lab_diverged(struct kin__lab *s, size_t at, const struct kin__decision *recorded,
                       const char *label, const struct kin__asked *now)
{
    struct kin__text text;
    char memory[sizeof(s->run_failure.text)];
    const bool is_file = s->phase == KIN__PHASE_EXPLORE && s->plan == &kin__plan_strict;
    const char *who = s->current == KIN__NOBODY ? "" : kin__engine_path(&s->head, s->current);

    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%sDIVERGED at decision %zu: recorded ",
                     is_file ? "" : "uncontrolled nondeterminism: ", at);
    say_recorded(&text, s, recorded, label);
    kin__text_str(&text, " now ");
    if (now->menu)
        say_set(&text, s, now->menu->mask, !now->menu->is_small);
    else if (now->label)
        say_choice(&text, now->kind, now->n, now->label);
    else
        kin__text_str(&text, "the end");
    s->has_diverged = true;
    s->head.is_over = false; /* this failure comes before any other */
    s->run_failure.oracle = NULL;
    s->plan = &kin__plan_turns;
    kin__engine_fail(&s->head, is_file ? "diverged" : "nondeterminism",
                     is_file ? KIN_STALE : -ENOTRECOVERABLE, who, memory);
}
