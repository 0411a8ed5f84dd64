/* SPDX-License-Identifier: MIT */
/*
 * The answers of a run: what a log holds, how it is copied and measured.
 *
 *     decision   0     1      2     3      4     ...
 *     kind       task  case   task  task   fault
 *     answer     root  1 of 3 root  root/1 0 of 2
 *
 * Picks name actors by name, which holds for the engine's life, not by number, which holds for one
 * run. Labels are kept apart, one for each decision that is no pick.
 */
#ifndef KIN_LAB_LOG_H
#define KIN_LAB_LOG_H

#include "lab/room.h"

#include <stdint.h>

/* One answer. */
struct kin__decision {
    uint64_t seen;    /* of a pick: the enabled actors below 64; else how many there were */
    uint32_t answer;  /* of a pick: the name; else what was chosen */
    uint16_t mark;    /* hash of kind, number and labels of what could be chosen; 0: not known */
    uint8_t kind;     /* enum kin__choice */
    uint8_t has_more; /* of a pick: actors from 64 on are enabled too */
};

struct kin__log {
    struct kin__room decisions; /* struct kin__decision */
    struct kin__room labels;    /* const char * */
    size_t count, choices, steps;
    uint64_t hash; /* of all decisions */
    uint64_t seed;
};

static inline struct kin__decision *kin__log_at(const struct kin__log *log, size_t i)
{
    return (struct kin__decision *)log->decisions.base + i;
}

static inline const char *kin__log_label(const struct kin__log *log, size_t choice)
{
    return ((const char **)log->labels.base)[choice];
}

static inline void kin__log_clear(struct kin__log *log, uint64_t seed)
{
    log->count = log->choices = log->steps = 0;
    log->hash = 0;
    log->seed = seed;
}

/* False: no memory. label: NULL for a pick; a constant else. */
bool kin__log_add(struct kin__log *log, const struct kin__decision *decision, const char *label);
/* False: no memory, and to is empty. */
bool kin__log_copy(struct kin__log *to, const struct kin__log *from);
void kin__log_release(struct kin__log *log);
/* How often somebody else goes on than before. */
uint32_t kin__log_switches(const struct kin__log *log);

#endif
