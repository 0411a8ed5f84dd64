/* SPDX-License-Identifier: MIT */
/*
 * Logs of runs.
 */
#include "lab/log.h"

#include "base/assert.h"
#include "lab/engine.h"

#include <string.h>

bool kin__log_add(struct kin__log *log, const struct kin__decision *decision, const char *label)
{
    if (!kin__room_fits(&log->decisions, log->count + 1, sizeof(*decision)) ||
        (label && !kin__room_fits(&log->labels, log->choices + 1, sizeof(label))))
        return false;
    *kin__log_at(log, log->count++) = *decision;
    if (label)
        ((const char **)log->labels.base)[log->choices++] = label;
    else
        log->steps++;
    return true;
}

bool kin__log_copy(struct kin__log *to, const struct kin__log *from)
{
    kin__log_clear(to, from->seed);
    if (!kin__room_fits(&to->decisions, from->count, sizeof(struct kin__decision)) ||
        !kin__room_fits(&to->labels, from->choices, sizeof(const char *)))
        return false;
    if (from->count)
        memcpy(to->decisions.base, from->decisions.base,
               from->count * sizeof(struct kin__decision));
    if (from->choices)
        memcpy(to->labels.base, from->labels.base, from->choices * sizeof(const char *));
    to->count = from->count;
    to->choices = from->choices;
    to->steps = from->steps;
    to->hash = from->hash;
    return true;
}

void kin__log_release(struct kin__log *log)
{
    kin__room_release(&log->decisions);
    kin__room_release(&log->labels);
}

uint32_t kin__log_switches(const struct kin__log *log)
{
    uint32_t switches = 0, last = UINT32_MAX;

    for (size_t i = 0; i < log->count; i++) {
        const struct kin__decision *decision = kin__log_at(log, i);
        if (decision->kind != KIN__CHOICE_TASK)
            continue;
        switches += last != UINT32_MAX && last != decision->answer;
        last = decision->answer;
    }
    return switches;
}
