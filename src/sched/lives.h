/* SPDX-License-Identifier: MIT */
/*
 * Who was born in a runtime that is recorded: for each task its spawn path, also for a while after
 * its end.
 *
 * A table of fixed size, used under the lock of its tape, at spawns and ends only. A task that is
 * over keeps its place until the room is wanted, oldest first; but not before the last of those it
 * spawned has lost its own, so that every path in the table is whole. When all places are taken by
 * tasks that live, or that others descend from, a new task gets none: it has no path.
 */
#ifndef KIN_SCHED_LIVES_H
#define KIN_SCHED_LIVES_H

#include "base/text.h"
#include "task/task.h"

#define KIN__LIFE_NAME 24u

struct kin__life {
    uint64_t id;      /* of the task */
    uint64_t born;    /* on the clock of the tape */
    kin_task_fn *fn;
    char name[KIN__LIFE_NAME]; /* as given, cut; "": none */
    uint32_t parent;  /* place of who spawned it; 0: nobody who runs here */
    uint32_t number;  /* how many that one had spawned before it */
    uint32_t spawned; /* how many it has spawned itself, */
    uint32_t kept;    /* and how many of them have a place */
    uint32_t chain;   /* the next in its bucket; 0: none */
    uint32_t next;    /* among those whose place may be taken; 0: none */
    bool is_over;
};

struct kin__lives {
    struct kin__life *table; /* the 0th is nobody's */
    uint32_t *buckets;       /* by the low half of the id, newest first; 0: empty */
    uint32_t size;           /* places, a power of two */
    uint32_t used;           /* how many were ever taken, without the 0th */
    uint32_t first, last;    /* whose place may be taken, in order */
    uint32_t strangers;      /* spawned by nobody who runs here */
    bool is_frozen;          /* nobody's place is taken: a dump is under way */
};

/* False: no memory. size is a power of two. */
bool kin__lives_init(struct kin__lives *lives, uint32_t size);
void kin__lives_fini(struct kin__lives *lives);
/* A task was made, and nobody runs it yet; parent: the id of who spawned it, 0: nobody. */
void kin__lives_begin_locked(struct kin__lives *lives, const struct kin__task *task,
                             uint64_t parent, uint64_t now);
void kin__lives_end_locked(struct kin__lives *lives, uint64_t id);
/* The place of the task whose id has this low half and that was the last to be born by then; 0:
 * there is none. */
uint32_t kin__lives_find_locked(const struct kin__lives *lives, uint32_t low, uint64_t when);
/* Its path as the lab has it: "root/0/2"; "?" when it is too long. */
void kin__lives_path_locked(const struct kin__lives *lives, uint32_t place, struct kin__text *text);

#endif
