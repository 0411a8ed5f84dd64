/* SPDX-License-Identifier: MIT */
/*
 * Making a failing run small: what is tried, and what a lenient run follows.
 *
 * A script says who goes on at each step, and what each actor's choices were in the order in which
 * it asked: pledges. A lenient run leaves out those who cannot go on, and answers 0 where nothing
 * was pledged, so that steps may be moved and dropped without a thought for what they need.
 */
#ifndef KIN_LAB_SHRINK_H
#define KIN_LAB_SHRINK_H

#include "lab/log.h"
#include "lab/room.h"

/* A choice that was answered, and is to be answered so again. */
struct kin__pledge {
    uint32_t name; /* who asked */
    uint32_t answer;
    uint32_t next; /* the next of the same name, plus 1 */
    uint8_t kind;
};

struct kin__script {
    struct kin__room picks;   /* uint32_t: names */
    struct kin__room pledges; /* struct kin__pledge */
    size_t pick_count, pledge_count;
};

/* Steps that one actor makes in a row. */
struct kin__block {
    uint32_t name;
    uint32_t begin, count; /* steps */
};

/* How small a run is: the first that differs counts. */
struct kin__size {
    uint64_t faults, switches, steps, sum;
    uint64_t others; /* answers that are neither 0 nor of faults; not compared */
};

enum kin__shrink_stage {
    KIN__SHRINK_FAULTS, /* drop them, by halves */
    KIN__SHRINK_COARSE, /* put the steps of each actor together, in windows of blocks */
    KIN__SHRINK_FINE,   /* drop, merge, swap and shorten single blocks */
    KIN__SHRINK_ZERO,   /* other answers become 0, by halves */
    KIN__SHRINK_LESS,   /* or smaller, one by one */
    KIN__SHRINK_SEARCH, /* fewer preemptions by search */
    KIN__SHRINK_END
};

struct kin__shrink {
    struct kin__script base;  /* the smallest failing run */
    struct kin__script tried; /* what is tried now */
    struct kin__room blocks;  /* struct kin__block, of base */
    size_t block_count;
    struct kin__size size; /* of base */
    enum kin__shrink_stage stage;
    size_t at, chunk; /* where in the stage, and how much at once */
    unsigned way;     /* of changing a block or a choice */
    bool has_shrunk;  /* since the first stage */
    bool has_passed;  /* since this pass over the blocks began */
    uint64_t steps_left;
    uint64_t runs_left, search_left;
    int64_t wall_end;
};

struct kin__lab;

/* Starts from the kept run. */
void kin__shrink_start(struct kin__lab *s);
/* Plans and starts the next try. False: it is as small as it gets. */
bool kin__shrink_next(struct kin__lab *s);
/* Looks at what became of the try. */
void kin__shrink_learn(struct kin__lab *s);
void kin__shrink_release(struct kin__shrink *shrink);

/* Who went on and what was answered in a run. False: no memory. */
bool kin__script_read(struct kin__script *script, const struct kin__log *log);
void kin__script_release(struct kin__script *script);

#endif
