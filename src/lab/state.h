/* SPDX-License-Identifier: MIT */
/*
 * The state of an engine, shared by its own files and seen by no world.
 *
 *     phase      begin plans                       end learns
 *     EXPLORE    the strategy's next run           what it was; a failure stops or is counted
 *     CHECK      the last run again, strictly      whether it was the same
 *     SHRINK     a smaller failing run, perhaps    whether it still fails in the same way
 *     RECORD     the smallest, strictly            nothing: the world notes it for the report
 *     DONE       none
 *
 * A run is answered by a plan: a few functions that look at who is enabled and say who goes on.
 * The decisions of a run go into a log. Actors have numbers that hold for one run, in the order of
 * their announcement, and names that hold for the engine's life: a name is the place of the path
 * in a table. Logs speak of names, so that a run may be followed in which actors are announced in
 * another order.
 */
#ifndef KIN_LAB_STATE_H
#define KIN_LAB_STATE_H

#include "base/rng.h"
#include "base/text.h"
#include "lab/engine.h"
#include "lab/log.h"
#include "lab/room.h"
#include "lab/shrink.h"
#include "lab/tree.h"

#define KIN__NOBODY 0xffffu       /* no actor */
#define KIN__NO_NAME UINT32_MAX   /* no name */
#define KIN__ACTORS_MAX 65535u    /* in one run */
#define KIN__NAMES_MAX (1u << 20) /* in all runs */
#define KIN__UNTIL (1u << 31)     /* in a name that a lenient run follows: until it cannot go on */
#define KIN__PATH_MAX 1024u       /* bytes of one path, the NUL among them */
#define KIN__PCT_DEPTH_MAX 32u

/* What is known of a path. */
struct kin__name {
    uint64_t hash;
    uint64_t stamp; /* the run in which these hold: */
    uint16_t actor;
    uint16_t parent;       /* actor that announced it, or KIN__NOBODY */
    uint32_t text;         /* where the path begins in the room of texts */
    uint64_t pledge_stamp; /* the run in which this holds: */
    uint32_t pledge;       /* its next choice that a lenient run promised, plus 1 */
    uint32_t trial_total;  /* steps in the trial run, its own and of all that it announced */
};

struct kin__actor {
    uint64_t hash;
    uint64_t weight; /* of PCT: its priority; of a walk: the steps that it has left */
    uint32_t name;
    uint32_t choices; /* asked by it so far */
};

/* Who can go on. */
struct kin__menu {
    const uint16_t *enabled;
    unsigned count;
    bool is_small; /* all of them are below 64, and mask says which */
    uint16_t mark;
    uint64_t mask;
    uint64_t hash;
};

struct kin__lab;

/* How a run is answered. */
struct kin__plan {
    const char *name;
    void (*begin)(struct kin__lab *s);
    /* One of the menu; KIN__NOBODY: the run is over by the plan's will. */
    unsigned (*pick)(struct kin__lab *s, const struct kin__menu *menu);
    /* The answer; when the run is over after it, it does not count. */
    uint32_t (*choose)(struct kin__lab *s, enum kin__choice kind, uint32_t n, const char *label);
    /* NULL where there is nothing to do. */
    void (*born)(struct kin__lab *s, unsigned actor);
    void (*over)(struct kin__lab *s); /* the last step that counts has ended */
};

enum kin__phase {
    KIN__PHASE_EXPLORE,
    KIN__PHASE_CHECK,
    KIN__PHASE_SHRINK,
    KIN__PHASE_RECORD,
    KIN__PHASE_DONE
};

struct kin__starve {
    uint64_t from, until; /* steps */
    unsigned victim;
};

struct kin__pct {
    unsigned depth;
    uint64_t change[KIN__PCT_DEPTH_MAX]; /* steps at which the first loses its priority */
    uint64_t fallen; /* the priority of the last one who went on for too long */
    unsigned row;    /* steps of the same actor in a row while others could go on */
};

/* What a run follows. */
struct kin__follow {
    const struct kin__log *log; /* strictly */
    size_t at, choice;
    /* leniently: see lab/shrink.h */
    const struct kin__script *script;
    size_t pick;
    bool is_begun;   /* a step of the pick was made */
    uint32_t row;    /* steps of the same actor so far */
    uint64_t stray;  /* one step of so many goes astray: strategy_near.c */
    uint32_t nobody; /* the next pledge of no actor, plus 1 */
    bool by_turns;   /* goes on by turns behind its end; else whoever runs goes on */
};

/* The portfolio. */
struct kin__portfolio {
    uint64_t slice; /* work of a slice */
    uint64_t until; /* when it ends */
    bool is_tree;   /* the slice is that of DPOR */
};

/* A sweep: one run again and again, each time with another of the faults that could happen in it.
 * They are numbered from 1 on in the order in which they are asked for; a choice among n is one of
 * n - 1 faults, or none. */
struct kin__sweep {
    const struct kin__plan *plan; /* of the run; NULL: there was none yet */
    uint64_t seed;
    uint64_t sites; /* faults that could happen in it; counted by a run without any */
    uint64_t next;  /* the one that happens in this run; 0: none */
    uint64_t seen;  /* so many were asked for so far in this run */
};

struct kin__lab {
    struct kin__engine head; /* first: worlds know this part */

    /* the run under way */
    const struct kin__plan *plan;
    struct kin__actor *actors; /* the room below; moves only in kin__engine_actor */
    unsigned actor_count;
    unsigned current; /* who makes the step; KIN__NOBODY before the first */
    struct kin__menu menu; /* of the last pick; nobody before the first */
    uint64_t stamp;   /* number of this run, for struct kin__name */
    bool is_recorded, is_abandoned, is_trial;
    bool is_stopped; /* abandoned because somebody said stop */
    bool is_swept; /* its faults are those of the sweep */
    bool gave_way;     /* whoever made the last step has yielded with it */
    bool has_diverged; /* this run did not follow what it had to */
    bool has_dice;     /* some run asked for them */
    uint16_t mark;     /* of the choice that is asked for */
    uint64_t steps_max; /* of this run */
    uint16_t *schedule; /* the room below */
    size_t schedule_cap;
    uint64_t draws; /* state of the numbers that are drawn: kin__draw */
    struct kin__log log;
    struct kin__engine_failure run_failure;
    unsigned turn;       /* the last one by round-robin */
    unsigned lazy_steps; /* how often kin__lazy_pick let somebody go on */

    /* names */
    struct kin__room actor_room, schedule_room, touch_room;
    struct kin__room names, texts, table; /* struct kin__name, char, uint32_t (0: free) */
    uint32_t name_count, actor_known;
    size_t text_bytes, table_size;

    /* plans */
    struct kin__starve starve;
    struct kin__pct pct;
    size_t byte_at;
    struct kin__follow follow;
    struct kin__tree tree;

    /* all of it */
    enum kin__phase phase;
    struct kin__engine_config config;
    struct kin__engine_result result;
    struct kin__portfolio portfolio;
    struct kin__sweep sweep;
    bool has_trial;
    uint64_t trial_steps;
    uint64_t seeds; /* runs so far that had a seed of their own */
    uint64_t tree_runs;
    uint64_t work;               /* steps of all runs, and something for each run */
    int64_t wall_end;            /* 0: not known yet */
    uint64_t wall_work;          /* when the clock is read again */
    int broken;                  /* -errno that ended everything */
    struct kin__log file;        /* what REPLAY follows */
    struct kin__room file_room;  /* its text: labels are in it */
    struct kin__room notes_room; /* the lines that are the world's */
    struct kin__script file_script;
    struct kin__log compare; /* the run that is checked */
    struct kin__engine_failure compare_failure;
    struct kin__log kept; /* the failing run, as small as it is */
    struct kin__engine_failure kept_failure;
    uint32_t kept_preemptions;
    bool has_kept;
    bool is_adopted; /* it was found by another engine */
    struct kin__shrink shrink;
};

static inline struct kin__lab *kin__lab_of(struct kin__engine *e)
{
    return (struct kin__lab *)(void *)e;
}

static inline const struct kin__lab *kin__lab_of_const(const struct kin__engine *e)
{
    return (const struct kin__lab *)(const void *)e;
}

static inline struct kin__name *kin__lab_names(const struct kin__lab *s)
{
    return (struct kin__name *)s->names.base;
}

__extension__ typedef unsigned __int128 kin__wide;

/* 64 random bits of the run's seed. Two multiplications: a run draws one for each step, and the
 * generator of base/rng.h took a third of the time of a step. */
static inline uint64_t kin__draw(struct kin__lab *s)
{
    s->draws += UINT64_C(0xa0761d6478bd642f);
    const kin__wide product = (kin__wide)s->draws * (s->draws ^ UINT64_C(0xe7037ed1a0b428db));
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

/* Less than n, evenly but for n in 2^64. */
static inline uint64_t kin__draw_below(struct kin__lab *s, uint64_t n)
{
    return (uint64_t)((kin__wide)kin__draw(s) * n >> 64);
}

static inline bool kin__draw_chance(struct kin__lab *s, uint64_t one_in)
{
    return kin__draw_below(s, one_in) == 0;
}

/* ---- engine.c ---- */

/* Makes everything ready for a run that is answered by plan. */
void kin__lab_start(struct kin__lab *s, const struct kin__plan *plan, uint64_t seed);
/* The run is over; what is still asked is answered by turns. */
void kin__lab_over(struct kin__lab *s);
/* How often the run has left somebody who could have gone on; 0 for an adopted one. */
uint32_t kin__lab_preemptions(const struct kin__lab *s);
/* The engine itself cannot go on: a failure of oracle "engine". Ends the run and all others. */
void kin__lab_broke(struct kin__lab *s, int status, const char *text);
/* The hash of a choice that is no pick; its upper 16 bits are the mark. */
uint64_t kin__choice_hash(enum kin__choice kind, uint32_t n, const char *label);
/* Dice of the program: they follow from the seed, who asks and how often. */
uint32_t kin__lab_dice(struct kin__lab *s, uint32_t n);
/* Whether an actor of the menu has this name, and which. KIN__NOBODY: none. */
unsigned kin__menu_find(const struct kin__lab *s, const struct kin__menu *menu, uint32_t name);

/* ---- diverge.c ---- */

/* What is asked now, where something else was recorded. */
struct kin__asked {
    const struct kin__menu *menu; /* a pick */
    const char *label;            /* else a choice; NULL too: the run has ended */
    enum kin__choice kind;
    uint32_t n;
};

/* The run has left what it follows, at decision at: ends it, and says so. recorded NULL: its end.
 * label: of what was recorded, unless a pick. */
void kin__lab_diverged(struct kin__lab *s, size_t at, const struct kin__decision *recorded,
                       const char *label, const struct kin__asked *now);

/* ---- paths.c ---- */

/* The name of a path, a new one if need be; KIN__NO_NAME: no memory or too many. */
uint32_t kin__path_name(struct kin__lab *s, const char *path);
const char *kin__path_text(const struct kin__lab *s, uint32_t name);

/* ---- course.c ---- */

/* Whether a fault happens in a run that is swept, and which. */
uint32_t kin__sweep_choose(struct kin__lab *s, uint32_t n);
/* Whether somebody said stop. */
bool kin__lab_is_asked_to_stop(const struct kin__lab *s);
/* Nanoseconds of real time. */
int64_t kin__lab_wall(void);

/* ---- plans ---- */

extern const struct kin__plan kin__plan_turns;
extern const struct kin__plan kin__plan_random;
extern const struct kin__plan kin__plan_pct;
extern const struct kin__plan kin__plan_walk;
extern const struct kin__plan kin__plan_bytes;
extern const struct kin__plan kin__plan_strict;
extern const struct kin__plan kin__plan_lenient;
extern const struct kin__plan kin__plan_tree;

/* The next by turns after the last one who was picked. */
unsigned kin__turns_pick(struct kin__lab *s, const struct kin__menu *menu);
/* Whoever runs goes on, but not without end; the least number if it cannot. */
unsigned kin__lazy_pick(struct kin__lab *s, const struct kin__menu *menu);
/* Anybody, evenly. */
unsigned kin__random_pick(struct kin__lab *s, const struct kin__menu *menu);
/* As random does: faults are rare, everything else is even. */
uint32_t kin__random_choose(struct kin__lab *s, enum kin__choice kind, uint32_t n,
                            const char *label);
/* Learns from the trial run how many steps everybody makes. */
void kin__walk_learn(struct kin__lab *s);

/* The script that is followed (s->follow): a run of it begins. */
void kin__script_begin(struct kin__lab *s);
/* Who goes on by it from *pick on; those who cannot are left out. KIN__NOBODY: it is over. */
unsigned kin__script_next(const struct kin__lab *s, const struct kin__menu *menu, size_t *pick);
/* Where it goes on after a step of that pick, before which there were row of the same actor. */
size_t kin__script_after(const struct kin__lab *s, size_t pick, uint32_t row);
/* What was pledged for this choice of whoever runs. False: nothing. */
bool kin__script_answer(struct kin__lab *s, enum kin__choice kind, uint32_t n, uint32_t *answer);

/* ---- strategy_near.c ---- */

/* The next run around the file: see there. False: there is none. */
bool kin__near_next(struct kin__lab *s, uint64_t seed);
/* Who of those that can goes first at a new node. False: as in any other search. */
bool kin__near_first(struct kin__lab *s, const struct kin__menu *menu, struct kin__node *node,
                     uint64_t can);

/* ---- kinlab.c ---- */

/* Reads the file that REPLAY follows: 0 or -errno. */
int kin__kinlab_load(struct kin__lab *s, const char *path);
/* Reads its text, which is changed and kept: 0 or -errno. */
int kin__kinlab_parse(struct kin__lab *s, char *text, size_t size);

#endif
