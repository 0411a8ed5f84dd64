/* SPDX-License-Identifier: MIT */
/*
 * The tree of schedules as far as it is being searched: one path of it, and what is left beside.
 *
 *     nodes     one for each step of the path: who could go on, who did, who must still be tried
 *     forks     one for each choice that is enumerated, in the order of the path; a node knows
 *               where its own begin
 *     touches   what each step of the path touched, and below a node also what those touched that
 *               were tried there before
 *     sleepers  for each node, who need not be tried, with the touches it would make
 *     clocks    for each step, which steps of each actor come before it
 *     guides    for each actor that a node must still try, the actors that go on after that one
 *
 * All but the guides are stacks: what belongs to deeper nodes lies above. Whoever is done at a node
 * joins its sleepers when everything above has gone.
 */
#ifndef KIN_LAB_TREE_H
#define KIN_LAB_TREE_H

#include "lab/engine.h"
#include "lab/room.h"

#define KIN__TREE_ACTORS 64u   /* a set of actors is one word */
#define KIN__TREE_DEPTH 65534u /* a clock counts in 16 bits */

struct kin__node {
    uint64_t enabled; /* who could go on */
    uint64_t sleep;   /* who need not be tried, on arrival */
    uint64_t todo;    /* who must be tried, or was */
    uint64_t denied;  /* who may not be, because somebody else has waited for too long */
    uint64_t done;    /* who was */
    uint32_t forks;   /* where the choices of the step begin */
    uint32_t floor;   /* where the touches of the node begin: of those who were tried, ... */
    uint32_t touches, touch_count; /* ... and of the step */
    uint32_t sleepers, sleeper_count;
    uint32_t spent;   /* preemptions on the way here */
    uint64_t bloom;   /* of the things that the step touched */
    uint16_t actor;   /* who goes on now */
    uint16_t row;     /* steps in a row of the same actor before this one */
    uint16_t before;  /* the step before by the same actor, plus 1; 0: none */
    uint16_t barrier; /* the last barrier before this step, plus 1 */
    uint16_t idle;    /* the last time everybody was idle before this step, plus 1 */
    uint32_t gathers; /* the touch by which the step gathers, plus 1; 0: it does not */
    uint16_t mark;
    uint16_t wish;    /* of a search around a script: who goes on by it, or KIN__NOBODY, ... */
    uint32_t pick;    /* ... and where in the script that stands */
    uint32_t guides;  /* the first of its guides, 0: none */
};

/* A choice that is enumerated. */
struct kin__fork {
    uint32_t n, answer; /* counted from first on, and round */
    uint32_t first;
    uint16_t mark;
    uint8_t kind;
};

/* A thing touched by a step of the path, or by a step that sleeps. */
struct kin__tread {
    uint32_t thing;     /* slot in the table of things */
    uint32_t way;       /* 0 it reads, 1 it adds, 2 it writes */
    uint32_t before[3]; /* the last read, add and write of it before this step, plus 1 */
    uint32_t node;
};

/* A step that need not be tried: an actor, and the answers to its choices. */
struct kin__sleeper {
    uint64_t bloom;   /* of its things */
    uint64_t answers; /* hash of them */
    uint32_t touches, touch_count;
    uint16_t actor;
    bool is_partial; /* the actor has to be tried with other answers; these touch nothing */
};

/* What is known of a thing while it is touched on the path. */
struct kin__thing {
    uint64_t what;    /* 0: a free slot; the lowest three bits are 1 else */
    uint32_t last[3]; /* the last read, add and write, plus 1 */
    uint32_t stamp;   /* of the step that touched it last */
    uint32_t modes;   /* how that step did: enum kin__touch, or of several */
};

/* A piece of a guide, which says who makes one step after the other. */
struct kin__guide {
    uint32_t rest;  /* the next piece, 0: none */
    uint32_t other; /* of a first piece: the next guide of the node; of a free one: the next */
    uint16_t count;
    uint16_t actors[11];
};

struct kin__script;

struct kin__tree {
    struct kin__room nodes, forks, touches, sleepers, clocks, things, guides;
    uint32_t depth; /* nodes on the path */
    uint32_t fork_count, touch_count, sleeper_count;
    uint32_t prefix;      /* how many nodes were known when the run began, ... */
    uint32_t fork_prefix; /* ... and how many forks */
    uint32_t at;          /* how many nodes the run has passed, ... */
    uint32_t fork_at;     /* ... and how many forks */
    uint32_t closed;      /* how many steps have been looked at for races */
    uint32_t stride;      /* of clocks: actors there is room for */
    uint32_t stamp;       /* of steps, for things */
    uint32_t thing_count; /* slots taken */
    size_t thing_size;
    uint32_t guide_count; /* pieces that were made, ... */
    uint32_t guide_free;  /* ... and the first that nobody needs, 0: none */
    uint32_t guide;       /* what the run follows, 0: nothing; ... */
    uint32_t guide_at;    /* ... and how far it has come in this piece */
    uint32_t bound; /* preemptions, plus 1; 0: no bound */
    const struct kin__script *around; /* see strategy_near.c; NULL: the search is around nothing */
    bool reduces;   /* DPOR; else all schedules */
    bool has_begun;
    bool is_exhausted;                 /* nothing is left */
    bool is_cut;                       /* the bound left something out, */
    bool is_unfair;                    /* or that nobody waits for more than patience steps */
    uint32_t patience;
    uint64_t runs;                     /* with this patience */
    uint32_t since[KIN__TREE_ACTORS];  /* when an actor could go on and has not: the first node */
    bool is_refused;                   /* the test is too large to be searched */
    bool is_too_deep;                  /* this run has more steps than can be searched */
    bool is_barrier, is_idle;          /* the step under way */
    uint32_t idle, barrier;            /* the last ones, plus 1 */
    uint16_t last[KIN__TREE_ACTORS];   /* the last step of each actor, plus 1 */
    uint16_t waker[KIN__TREE_ACTORS];  /* the step that enabled it last, plus 1 */
    uint16_t parent[KIN__TREE_ACTORS]; /* the step that announced it, plus 1 */
};

struct kin__lab;

static inline struct kin__node *kin__tree_node(const struct kin__tree *tree, uint32_t i)
{
    return (struct kin__node *)tree->nodes.base + i;
}

/* Starts a search anew, around nothing; bound: preemptions plus 1, 0: any number. */
void kin__tree_start(struct kin__tree *tree, bool reduces, uint32_t bound);
void kin__tree_release(struct kin__tree *tree);
/* Goes on to the next path. False: there is none. */
bool kin__tree_next(struct kin__lab *s);
/* A guess of how many runs there are in all when so many led here; 0: unknown. */
uint64_t kin__tree_estimate(const struct kin__tree *tree, uint64_t runs);

/* ---- guide.c ---- */

/* One more actor at the end of a guide, or of a new one that nobody knows yet: *last is its last
 * piece, 0 at first. What there is no room for is left out. */
void kin__guide_add(struct kin__tree *tree, uint32_t *first, uint32_t *last, unsigned actor);
/* A guide becomes one of the node's. */
void kin__guide_give(struct kin__tree *tree, struct kin__node *node, uint32_t guide);
/* The run that comes follows the guide of the node that begins with its actor, if there is one. */
void kin__guide_take(struct kin__tree *tree, struct kin__node *node);
/* Who goes on by the guide, if it is one of these; else there is no guide from here on, and the
 * answer is KIN__NOBODY. */
unsigned kin__guide_next(struct kin__tree *tree, uint64_t can);
/* Nobody needs the guides of the node any more. */
void kin__guide_forget(struct kin__tree *tree, struct kin__node *node);

/* ---- dpor.c ---- */

/* The last step of the path has ended: its touches are put together, races with earlier steps put
 * others on the list of those who must be tried. stopped: who can no longer go on because of it.
 * False: no memory. */
bool kin__dpor_close(struct kin__lab *s, uint64_t stopped);
/* Who sleeps at the node after the last one. False: no memory. */
bool kin__dpor_sleep(struct kin__lab *s, struct kin__node *next);
/* Whether the actor of a node need not be tried with these answers. */
bool kin__dpor_sleeps(const struct kin__tree *tree, const struct kin__node *node, uint64_t answers);
/* The hash of answers with one more. */
uint64_t kin__dpor_answers(uint64_t answers, uint32_t answer);
/* The step of node d has been tried: it joins the sleepers of its node, and its touches are
 * forgotten by the things. Nothing deeper is left. False: no memory. */
bool kin__dpor_tried(struct kin__lab *s, uint32_t d);

#endif
