/* SPDX-License-Identifier: MIT */
/*
 * The world of task mode: the production runtime on one thread, where an engine says who goes on.
 *
 *     execution            kin__world_begin ........................... kin__world_end
 *       runtime              kin__sched_run .......... over
 *         step                 a task, from one point to the next
 *
 * Everybody who can go on is in one set; there is no queue, because the order in which tasks were
 * woken would be a state that nobody sees. The actors of the engine are the tasks, named by who
 * spawned them (root, root/0, root/0/2), the clock, which lets deadlines come that are due, and
 * walkers (root/0/cancel): the end of a task or a deadline has cancelled a nursery, and the walker
 * asks the children one after the other; or a grace is over, and the walker kills them.
 *
 * All of it begins again with each execution: the same frames, stacks and memory in the same order,
 * the same time. So equal decisions give equal addresses, and nothing is mapped or allocated per
 * run.
 */
#ifndef KIN_LAB_WORLD_H
#define KIN_LAB_WORLD_H

#include "base/lab.h"
#include "lab/engine.h"
#include "lab/record.h"
#include "park/waitable.h"
#include "sched/sched.h"
#include "scope/scope.h"

#include <kin/lab.h>

#define KIN__CLOCK 0u                           /* the actor that fires what is due */
#define KIN__WORLD_NOBODY UINT32_MAX
#define KIN__WORLD_ACTORS 65535u                /* in one execution */
#define KIN__WORLD_START INT64_C(1000000000000) /* when every execution begins */
#define KIN__WORLD_EPOCH INT64_C(1700000000000000000) /* what the calendar shows at time 0 */
#define KIN__WORLD_PATH 48u
#define KIN__WORLD_MADE 16u

/* An actor of the engine. */
struct kin__player {
    struct kin__task *task;   /* NULL: the clock, a walker, or over */
    const char *path;         /* its name; in short, or in the room of long ones */
    uint32_t path_len;
    uint32_t place;           /* among the enabled; NOBODY: it is not */
    uint64_t ran;             /* the step that it began last */
    uint64_t since;           /* the step in which it became enabled */
    uint64_t switches;        /* times that others could run */
    uint64_t asked;           /* of switches, when it was seen to be told to stop; 0: it was not */
    const struct kin__case *cases; /* what it waits for, as long as it is parked, */
    uint32_t case_count;
    uint64_t arrived;         /* and when it came, among all who ever parked */
    uint64_t begun;           /* when it called a channel last: lab/history.h */
    uint32_t newest;          /* of what it has acquired: lifo.c */
    struct kin_outcome how;   /* it has ended, and its name; 0 as long as it has not */
    uint32_t spawned;         /* children so far, */
    uint32_t walkers;         /* and walkers */
    uint32_t blocks;          /* pieces of memory that it asked for so far, */
    uint32_t fds;             /* and descriptors */
    uint16_t host;            /* the machine it is on: lab/hosts.h */
    uint32_t parent, number;  /* whose which child: what the path was made from */
    uint32_t version, parent_version; /* of the path, and of the one it was made from */
    bool is_woken;            /* somebody made it runnable, and it has not run since */
    struct kin__walk walk;    /* of a walker: what is left to do */
    char near[KIN__WORLD_PATH];
};

struct kin__world {
    struct kin__engine *engine; /* NULL: whoever waits longest goes on */
    struct kin__sched *sched;   /* kept from run to run */
    struct kin__worker *worker; /* its only one */
    struct kin__player *players;
    uint16_t *enabled;          /* players that can go on; room for the clock behind them */
    uint32_t player_count, enabled_count;
    uint32_t live;              /* tasks that are not over */
    uint32_t current;           /* who makes the step; NOBODY: the host */
    uint32_t roots;             /* runtimes of this execution so far */
    uint32_t leaker;            /* who was the first to leak an obligation; NOBODY */
    uint64_t steps;
    uint64_t arrivals; /* parks so far */
    uint64_t idle;  /* steps in a row that have changed nothing */
    uint32_t looks; /* at the clock, in this step */
    uint32_t made_count; /* pieces of memory that this step has made */
    struct kin__made {
        uintptr_t begin, end;
    } made[KIN__WORLD_MADE];
    int64_t now;
    bool has_moved;  /* the enabled are not those of the last pick */
    bool has_paid;   /* accounts of budgets have changed in this step */
    bool is_on;      /* an execution is under way: time and memory are the lab's */
    bool is_running; /* a runtime is, too */
    bool is_search;  /* it is one of a search, and not closed */
    bool is_single;  /* a task goes on until it waits, yields or ends: lab/report.h */
    bool is_closed;  /* its outcome stands, and nothing counts any more */
    bool is_killed;  /* everybody was told to end */
    bool is_lost;    /* not everybody could be ended */
    uint64_t closed_at; /* the step with which it was closed, or killed */
    struct kin__list watchers; /* who waits until all others wait; newest first */
    /* of all executions of one kin_lab_run */
    uint32_t oracles, faults;
    int64_t time_max;
    unsigned workers;
    bool keeps_fixture; /* what the first task leaves behind is no leak */
    bool is_fair;       /* the strategy passes over nobody for long */
};
extern struct kin__world kin__world;

/* ---- executions (world.c) ---- */

/* Makes what is kept; 0 or -ENOMEM. Once. */
int kin__world_init(void);
void kin__world_begin(struct kin__engine *engine);
void kin__world_end(void);
/* The execution has failed. The first failure counts; where names an actor or an object. */
void kin__world_fail(const char *oracle, int status, const char *where, const char *text);
/* The same, with the words of printf. */
void kin__world_failf(const char *oracle, int status, const char *where, const char *format, ...)
    KIN_PRINTF(4, 5);

/* ---- who can go on (world.c) ---- */

/* A task that was just made, as a child of whoever makes the step. */
void kin__world_add(struct kin__task *task);
void kin__world_remove(struct kin__task *task);
/* A walker goes on with what is left of a walk. It is named after the player of this step. */
void kin__world_walk(const struct kin__walk *walk);
/* Whether the next step of a walk may tell somebody. */
bool kin__world_walk_tells(const struct kin__walk *walk);
/* The task that makes the next step; NULL: the runtime is over. Deadlines come meanwhile. */
struct kin__player *kin__world_next(void);
/* The outcome stands: what is left of the execution is off the record. */
void kin__world_close(void);
/* And everybody is to end. */
void kin__world_kill(void);
/* Time moves to when; what is due on the way happens. */
void kin__world_advance(int64_t when);
static inline void kin__world_enable(uint32_t index)
{
    struct kin__world *w = &kin__world;
    struct kin__player *player = &w->players[index];
    player->place = w->enabled_count;
    player->since = w->steps;
    w->enabled[w->enabled_count++] = (uint16_t)index;
    w->has_moved = true;
}

static inline void kin__world_disable(uint32_t index)
{
    struct kin__world *w = &kin__world;
    uint32_t place = w->players[index].place;
    uint16_t last = w->enabled[--w->enabled_count];
    w->enabled[place] = last;
    w->players[last].place = place;
    w->players[index].place = KIN__WORLD_NOBODY;
    w->has_moved = true;
}

/* The number of a task among the players travels in a field of queues that the lab has not. */
static inline uint32_t kin__player_of(const struct kin__task *task)
{
    return task->batch_count;
}

static inline const char *kin__player_path(uint32_t player)
{
    return player < kin__world.player_count ? kin__world.players[player].path : "host";
}

/* Whether an oracle is on. */
static inline bool kin__world_looks(uint32_t oracle)
{
    return (kin__world.oracles & oracle) && !kin__world.is_closed;
}

/* ---- memory (heap.c, frame.c, worker.c) ---- */

/* The step under way has made this. Nobody else knows of it before the step has ended, so that it
 * is not among what the step touches; and must not be: where it lies hangs on what others have made
 * before. */
void kin__world_made(const void *what, size_t bytes);
void kin__lab_heap_begin(void);
/* Looks for what was not given back; then all of it is gone. */
void kin__lab_heap_end(bool is_looking);
void kin__lab_frames_begin(void);
/* Frames in use, of all kinds. */
uint32_t kin__lab_frames_used(void);
void kin__lab_stacks_begin(void);

/* ---- the order in which things are left (lifo.c) ---- */

void kin__lifo_begin(void);
/* A task is over: it has left everything. */
void kin__lifo_over(struct kin__player *player);

/* ---- files (file.c) ---- */

/* An execution begins, with an empty disk. */
void kin__lab_files_begin(void);

/* ---- faults (fault.c) ---- */

/* Whether a fault of this kind happens here. */
bool kin__lab_fault_slow(uint32_t kind, const char *label);
static inline bool kin__lab_fault_happens(uint32_t kind, const char *label)
{
    return KIN__UNLIKELY(kin__world.faults & kind) && kin__lab_fault_slow(kind, label);
}
/* At a point of the running task, which may fail there unless its body has returned; and when it
 * has parked. Only with faults. */
void kin__lab_fault_point(bool may_fail);
void kin__lab_fault_parks(struct kin__task *task);
void kin__lab_faults_begin(void);
/* Whether time may pass though somebody can go on; it has. */
bool kin__lab_fault_delays(void);
void kin__lab_fault_delayed(void);
uint32_t kin__lab_faults_fired(void);
/* A line for people: what went wrong in the last execution, if anything did. */
struct kin__text;
void kin__lab_faults_tell(struct kin__text *out);
/* Whether chaos is long over, and the execution still is not. */
bool kin__lab_fault_lingers(void);

#endif
