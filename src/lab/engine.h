/* SPDX-License-Identifier: MIT */
/*
 * Who decides in the lab: every choice of a run is asked of one engine, which follows a strategy.
 *
 * The engine knows neither tasks nor threads. A world runs something in which several actors take
 * turns; whenever more than one thing can happen it asks, and whenever an actor touches what others
 * may touch it says so:
 *
 *     while (kin__engine_begin(e)) {           what this run is for: the engine's business
 *         ... actors are announced ...         kin__engine_actor
 *         ... the next step is whose? ...      kin__engine_pick
 *         ... it touches this and that ...     kin__engine_touch
 *         ... which of n happens? ...          kin__engine_choose
 *         ... an oracle objects ...            kin__engine_fail
 *         kin__engine_end(e);                  races are looked for, the next run is planned
 *     }
 *
 * A run is the sequence of its answers. The same answers give the same run: the same enabled
 * actors, the same labels, the same touches up to the naming of what a step itself made. The engine
 * checks that (a hash per decision) and says where two runs parted that should not have.
 *
 * A step is everything between two picks. Two steps depend on each other if they are of the same
 * actor, or touch the same thing and not both only read it, and not both only add to it; besides, a
 * step comes after the one that announced or enabled its actor. Exploration by DPOR runs one
 * schedule of each class of schedules that differ in the order of independent steps alone; when no
 * class is left the verdict is complete. A world owes for that:
 *
 *   - what a step does and touches follows from what it reads of what it touches, and from the
 *     answers to its choices; nothing else;
 *   - an actor waits for one thing at a time. The step after which it waits, or which announces it,
 *     has read this thing; a step that may end the wait, or would begin it anew before the actor
 *     went on, writes the thing, and does not merely add to it.
 */
#ifndef KIN_LAB_ENGINE_H
#define KIN_LAB_ENGINE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kin__text;

enum kin__strategy {
    KIN__STRATEGY_AUTO,        /* a portfolio: round-robin once, then the others by turns */
    KIN__STRATEGY_ROUND_ROBIN, /* each actor in turn */
    KIN__STRATEGY_RANDOM,      /* anybody; every fifth run starves one actor for a while */
    KIN__STRATEGY_PCT,         /* priorities with depth - 1 changes */
    KIN__STRATEGY_WALK,        /* uniform over interleavings, from the steps of a first run */
    KIN__STRATEGY_DFS,         /* all schedules, to check DPOR against; with preemptions: bounded */
    KIN__STRATEGY_DPOR,        /* one of each class; with preemptions: bounded */
    KIN__STRATEGY_BYTES,       /* a fuzzer's bytes decide */
    KIN__STRATEGY_REPLAY       /* a file decides */
};

/* What is chosen; in files by these names in small letters. */
enum kin__choice {
    KIN__CHOICE_TASK,  /* who goes on: kin__engine_pick */
    KIN__CHOICE_CASE,  /* which ready case of a select */
    KIN__CHOICE_TIMER, /* which of several deadlines of one moment comes first */
    KIN__CHOICE_FAULT, /* 0: nothing happens */
    KIN__CHOICE_NET,   /* order and delay of what is delivered */
    KIN__CHOICE_RANDOM /* the program's own dice; not enumerated: see kin__engine_draws */
};

enum kin__touch {
    KIN__TOUCH_GATHER = 0, /* beside an add: this is the last add that an actor waits for. That
                            * actor comes after all steps that have added, and the search looks for
                            * no other order. */
    KIN__TOUCH_READ = 1,
    KIN__TOUCH_ADD = 2, /* adds, and looks at no result: commutes with others that add */
    KIN__TOUCH_WRITE = 4
};

struct kin__engine_config {
    enum kin__strategy strategy;
    uint64_t seed;
    uint64_t seeds;       /* so many runs are drawn, with seed, seed + 1, ...; 0: mixed from seed */
    uint64_t runs_max;    /* explorations, abandoned ones too; without shrinking; 0: no limit */
    uint64_t steps_max;   /* of one run; beyond it is a livelock; 0: a million */
    int64_t wall_max;     /* nanoseconds of real time for everything; 0: no limit */
    unsigned depth;       /* of PCT; 0: 3 */
    unsigned preemptions; /* bound of DPOR and of DFS; 0: none */
    const char *test;     /* its name, for files */
    const char *replay;   /* file to follow, for REPLAY */
    bool is_lenient;      /* a replay that parts from its file goes on by round-robin */
    bool is_near;         /* of a replay: the file leniently, then runs around it, nearest first */
    const uint8_t *bytes; /* for BYTES */
    size_t bytes_count;
    bool keeps_going;     /* go on after a failure (counting); default: shrink it and stop */
    bool shrinks;         /* after a failure */
    bool sweeps;          /* what is drawn is run again for each fault that could happen in it */
    unsigned check_every; /* one run of so many is made twice and compared; 0: never */
    const char *notes;    /* lines for the file: workers, faults, ... in the world's own words */
    const volatile sig_atomic_t *stop; /* not 0: no more runs; NULL: nobody says so */
    struct kin__text *misread; /* gets what is wrong with the file to follow; may be NULL */
};

/* Why a run failed. Two failures are the same if oracle and where are. */
struct kin__engine_failure {
    const char *oracle; /* "assert", "deadlock", "lost-wake", ...: a constant */
    int status;         /* what kin_lab_run answers */
    char where[128];    /* path of whom or what it concerns */
    char text[512];     /* in words */
};

/* What came out of all of it. */
struct kin__engine_result {
    uint64_t runs, steps; /* explored, and steps in them */
    uint64_t redundant;   /* abandoned by sleep sets; not counted among the runs */
    uint64_t failures;
    uint64_t failing_run; /* which of the runs was the first that failed */
    uint64_t sites, fired; /* of sweeps: faults that could happen, and those that did */
    uint64_t hash;         /* of the failing schedule, or of the last one */
    uint64_t seed;         /* what all of it began with */
    uint64_t failing_seed; /* makes the first run of the same strategy fail; 0: dpor, replay */
    bool is_complete;      /* no class of schedules is left, none failed, and none of what stands
                            * next has happened: */
    const char *dice;      /* who was the first to draw what is not enumerated; NULL: nobody did */
    bool is_bounded;       /* schedules with more preemptions than the bound were left out */
    uint32_t patience;     /* schedules were left out in which somebody is passed over for more
                            * steps than this; 0: none was */
    bool is_capped;        /* a world has left something out: kin__engine_caps */
    bool is_searched;      /* a search has come to its end, but for what stands above */
    bool is_exhausted;     /* the strategy has no run left; complete but for what stands above */
    bool is_stopped;       /* there would have been more, had nobody said stop */
    bool has_diverged;     /* a run did not repeat itself; failure says where */
    uint64_t estimate;     /* of runs in all, for progress; 0: unknown */
    struct kin__engine_failure failure; /* the first, after shrinking; oracle NULL: none */
    uint32_t switches, switches_before; /* of the failing run, shrunk and as it was found */
    uint64_t shrink_runs;
    bool is_cut; /* shrinking had no time left; it may be smaller */
    uint64_t followed; /* steps of a lenient replay up to the first that could not be made */
};

/* The half of an engine that the inline functions below use. */
struct kin__engine {
    uint64_t *touch_at;    /* the next touch of this step goes here; [-1] is readable */
    uint64_t *touch_end;   /* where there is no more room */
    uint64_t *touch_begin; /* the first touch of this step */
    bool is_over;          /* the run: see kin__engine_is_over */
    bool collects;         /* what the step under way touches is kept, for DPOR */
    bool is_same;          /* those who can go on are those of the last pick: kin__engine_same */
};

/* NULL: no memory, or (status says) a file that cannot be read or a config that makes no sense. */
struct kin__engine *kin__engine_create(const struct kin__engine_config *config, int *status);
void kin__engine_destroy(struct kin__engine *e);

/* ---- runs ---- */

/* Plans the next run. False: there is none; the result stands. */
bool kin__engine_begin(struct kin__engine *e);
/* What the run now under way is. A recorded one is the last of a failure: the world notes what
 * happens for the report. An abandoned or failed one is brought to its end by the world without
 * being asked about: pick still answers, and nothing is kept. */
bool kin__engine_is_recorded(const struct kin__engine *e);
/* One of a search must say what its steps touch. */
bool kin__engine_is_search(const struct kin__engine *e);
static inline bool kin__engine_is_over(const struct kin__engine *e)
{
    return e->is_over;
}
/* Whether the run under way is to end because somebody said stop; it is abandoned then. The one of
 * a report is not. */
bool kin__engine_is_stopped(struct kin__engine *e);
/* Every actor ended, or the world gave up on those that did not. */
void kin__engine_end(struct kin__engine *e);
/* The step under way, from 1 on. */
uint64_t kin__engine_step(const struct kin__engine *e);

/* ---- what happens in a run ---- */

/* A new actor, numbered from 0 on in the order of their announcement. The path names it in files
 * and must be the same in every run; it is copied. */
unsigned kin__engine_actor(struct kin__engine *e, const char *path);
/* Who goes on: one of the enabled actors, which may be in any order that the same answers repeat;
 * count >= 1. */
unsigned kin__engine_pick(struct kin__engine *e, const uint16_t *enabled, unsigned count);
/* The next pick of this run is among the actors of the last one, in any order: the engine need not
 * look at each of them. A world that never says so is asked for nothing else. */
static inline void kin__engine_same(struct kin__engine *e)
{
    e->is_same = true;
}
/* The step under way depends on everything that comes before and after it. */
void kin__engine_barrier(struct kin__engine *e);
/* After the step under way nobody is enabled, and the world moves on by itself: time jumps. What
 * follows depends on all that was before, and no other order of the two is looked for. */
void kin__engine_idle(struct kin__engine *e);
/* The step under way ends because its actor gives way, though it could go on. */
void kin__engine_yield(struct kin__engine *e);
/* One of n, 0 <= answer < n; n = 0: any number of 32 bits. label: a constant text, part of the
 * hash. */
uint32_t kin__engine_choose(struct kin__engine *e, enum kin__choice kind, uint32_t n,
                            const char *label);
/* The run under way has drawn a number that no strategy enumerates: another seed may come out in
 * another way. who: a constant text, for people. */
void kin__engine_draws(struct kin__engine *e, const char *who);
/* The run under way has come to a bound of the world's own: not all that could happen was asked. */
void kin__engine_caps(struct kin__engine *e);
/* The run has failed; the first failure of a run counts. */
void kin__engine_fail(struct kin__engine *e, const char *oracle, int status, const char *where,
                      const char *text);

/* The run under way takes the process with it: it is the failure, in words to which its end is
 * added here, and nothing comes after it. May be called in the handler of a signal. */
void kin__engine_die(struct kin__engine *e, const struct kin__engine_failure *failure);
/* Runs that take their process with them are made elsewhere; this engine has made none. The failing
 * run of another one, as it was saved and with what came out there, becomes its own, and what it
 * begins from here on is smaller, or the recorded one at last. The text is changed and stays. 0 or
 * -errno. */
int kin__engine_adopt(struct kin__engine *e, char *text, size_t size,
                      const struct kin__engine_result *of);
/* In place of kin__engine_end: the run was made elsewhere, and failed in the same way, as it was
 * saved there; NULL: it did not. True: it is the failing run now, and the text is to stay. */
bool kin__engine_learn(struct kin__engine *e, char *text, size_t size);
/* Which run is under way, among all that there ever were. */
uint64_t kin__engine_run(const struct kin__engine *e);

/* Makes room for one more touch of this step. */
void kin__engine_touch_slow(struct kin__engine *e, uint64_t touch);

/* The step under way touches this. Cheap, and often: the same touch twice in a row is kept once,
 * the others are put together at the end of the step. The uppermost three bits of what are lost,
 * which makes two things one at worst. */
static inline void kin__engine_touch(struct kin__engine *e, uintptr_t what, enum kin__touch mode)
{
    uint64_t touch = (uint64_t)what << 3 | (uint64_t)mode;

    if (e->touch_at[-1] == touch)
        return;
    if (__builtin_expect(e->touch_at == e->touch_end, 0))
        kin__engine_touch_slow(e, touch);
    else
        *e->touch_at++ = touch;
}

/* Whether the step under way has touched anything. */
static inline bool kin__engine_has_touched(const struct kin__engine *e)
{
    return e->touch_at != e->touch_begin;
}

/* ---- what came out ---- */

const struct kin__engine_result *kin__engine_result(const struct kin__engine *e);
/* Writes the failing schedule; 0 or -errno. */
int kin__engine_save(const struct kin__engine *e, const char *path);

/* A schedule that a run followed, for reports: which actor made step i (from 0), count of them. */
const uint16_t *kin__engine_schedule(const struct kin__engine *e, size_t *count);
const char *kin__engine_path(const struct kin__engine *e, unsigned actor);
/* The lines of the file that is followed which are not the engine's own, as notes wrote them. */
const char *kin__engine_notes(const struct kin__engine *e);
/* What stands behind a word in a text of such lines, as far as it fits; false: no line begins with
 * the word (kinlab.c). */
bool kin__engine_note(const char *text, const char *word, char *out, size_t size);
/* Whether a text begins as a file that can be followed: NULL, or what is wrong with it. */
const char *kin__engine_misread(const char *text, size_t size);

#endif
