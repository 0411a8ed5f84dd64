/* SPDX-License-Identifier: MIT */
/*
 * The tape: what a recorded runtime decided lately, in a ring for each worker.
 *
 *     entry, 16 bytes   time 40 (units of 16 ns) | kind 8 | argument 16 || task 32 | other 32
 *
 * A task is the low half of its id, which is 26 bits of its frame's index and 6 of its generation;
 * lives.h knows which task that was at that time.
 *
 * Recording is asked for by the environment (KIN_RECORD) when a runtime is made. Without it nothing
 * of this is reached. A recorded worker has KIN__TAPED among what it must attend to, so that its
 * picks and yields take the rare halves that they have anyway; and a number that no task has, so
 * that what it makes runnable seems to be of another runtime and takes the long way. A recorded
 * runtime has tables of its own around those through which ends, timers and I/O go.
 *
 * A ring is written by its worker alone, the last one by everybody else under the tape's lock. A
 * reader stops nobody and waits for nobody:
 *
 *     writer   count = n ; head of entry n ; who of entry n ; count = n + 1       all release
 *     reader   from = count ; copies head and who of entries below from ; to = count   all acquire
 *
 * Whoever has seen a word of entry n sees a count of at least n afterwards. So an entry that was
 * overwritten while it was copied is n = to - size or older, and is thrown away; every other copy
 * is whole.
 *
 * What a note tells can be seen by others only after the note is written: a task is noted before it
 * can be picked elsewhere, an end before its nursery hears of it.
 */
#ifndef KIN_SCHED_TAPE_H
#define KIN_SCHED_TAPE_H

#include "base/lock.h"
#include "plat/plat.h"
#include "sched/lives.h"
#include "sched/source.h"
#include "task/task.h"

struct kin__sched;
struct kin__worker;

enum kin__tape_kind {
    KIN__TAPE_SPAWN = 1, /* task is new, other spawned it */
    KIN__TAPE_RUN,       /* task goes on here */
    KIN__TAPE_PARK,      /* task waits; other: which text says for what, see kin__tape_word */
    KIN__TAPE_YIELD,     /* task gives the others a turn */
    KIN__TAPE_LEND,      /* task waits for its children: the one that runs next is on its stack */
    KIN__TAPE_WAKE,      /* task can go on, other saw to that; argument: what its wait answers */
    KIN__TAPE_TIMER,     /* the same by a deadline; other: what its wait answers, in full */
    KIN__TAPE_IO,        /* the same by something outside; other: as above */
    KIN__TAPE_CANCEL,    /* a wait of task was ended by a cancellation, by other */
    KIN__TAPE_ASK,       /* task is to stop and was told by other; it runs, or will not hear yet */
    KIN__TAPE_CASE,      /* task took a case of a select, the argument-th of other (ready ones) */
    KIN__TAPE_STEAL,     /* task was taken from worker argument, with other - 1 more */
    KIN__TAPE_END,       /* task is over; other: with what status */
    KIN__TAPE_SLEEP,     /* the worker has nothing to do, */
    KIN__TAPE_AWAKE,     /* and is back */
    KIN__TAPE_REPORT,    /* somebody was told of task; other: what, a status */
    KIN__TAPE_CLOCK,     /* the times that follow have task and other as their upper bits; those
                          * before had the argument */
    KIN__TAPE_KINDS
};
#define KIN__TAPE_TENANCY "CPU_Parallel" /* of every task, in records [SCHED:11.2.1] [C13] */
#define KIN__TAPE_UNIT_SHIFT 4u  /* 16 ns */
#define KIN__TAPE_TIME_BITS 40u  /* nearly five hours */

struct kin__tape_entry {
    kin__a64 head, who;
};

struct kin__tape_ring {
    /* owner writes, dumps read */
    _Alignas(KIN__LINE) kin__a64 count; /* entries ever written */
    kin__a64 last;                      /* time of the newest, in full */
    struct kin__tape_entry *entries;    /* constant */
    uint64_t until; /* how far a dump goes; whoever dumps */
    /* owner only */
    const struct kin__task *over; /* the task that just ended here; its frame may be another's */
    enum kin__tape_kind cause;    /* what wakes are now: WAKE, TIMER or IO */
};

struct kin__tape {
    /* constant after open */
    int64_t began;
    uint64_t size;        /* entries of a ring, a power of two */
    unsigned ring_count;  /* workers_max, and one for all others */
    size_t bytes;         /* of this and everything behind it */
    bool saves_end;       /* also when nothing happened */
    unsigned process;     /* whose file it is: a child that was forked has another */
    char path[4096];      /* of the file */
    struct kin__owner_ops owner; /* tables of the runtime, with ours around them */
    const struct kin__owner_ops *owner_below;
    struct kin__source source;
    const struct kin__source *source_below;
    struct kin__outside io;
    const struct kin__outside *io_below; /* set once, before sched->io is */

    kin__a32 is_dumping;  /* by whom it is set, page is used */
    kin__a32 is_saved;
    char page[4096];
    struct kin__lock lock; /* rank LEAF; lives, and the last ring */
    struct kin__lives lives;
    struct kin__tape_ring rings[];
};

/* ---- life ---- */

/* A runtime that is being made, with its tables set, is recorded if the environment says so. 0 or
 * -ENOMEM. */
int kin__tape_open(struct kin__sched *sched);
/* The runtime is over: the file, if it is wanted and was not written; and the memory. */
void kin__tape_close(struct kin__sched *sched);
/* The table to poll what is outside by: the given one, or with ours around it. */
const struct kin__outside *kin__tape_around(struct kin__sched *sched,
                                            const struct kin__outside *io);

/* ---- notes: the runtime has a tape; worker is the caller's own ---- */

/* A task is about to be put into a queue, by anybody: a new one, or one that was woken; is_late:
 * some time ago, and who that was is not known. */
void kin__tape_pushed(struct kin__sched *sched, const struct kin__task *task, bool is_late);
/* The worker goes on with task; whoever ran there parks, yields or, if it lends its stack to task,
 * lends. */
void kin__tape_picked(struct kin__worker *worker, const struct kin__task *task, bool is_lent);
/* The worker goes on with nobody: task parks. */
void kin__tape_parked(struct kin__worker *worker, const struct kin__task *task);
void kin__tape_stole(struct kin__worker *worker, const struct kin__worker *victim,
                     const struct kin__task *task, uint32_t count);
void kin__tape_sleeps(struct kin__worker *worker, bool is_asleep);
/* The running task had n ready cases of a select to take one from, and took this; counted from 0.
 * Called when worker->attention has KIN__TAPED. */
void kin__tape_drew(struct kin__worker *worker, uint32_t n, uint32_t which);
/* A task was asked to stop, which ended no wait of it; by anybody. */
void kin__tape_asked(struct kin__sched *sched, const struct kin__task *task);
/* Somebody is told of something bad: writes the file, unless that was done before. From anywhere, a
 * signal handler among them, with any lock held. */
void kin__tape_report(struct kin__sched *sched, int status, uint64_t task);
/* The process is about to end by a signal: the same for every runtime that is recorded. */
void kin__tape_crash(void);

/* ---- dumps (tape_dump.c) ---- */

/* What a ring has, oldest first. */
struct kin__tape_note {
    uint64_t when; /* in units */
    enum kin__tape_kind kind;
    uint16_t argument;
    uint32_t task, other;
};
/* Copies the entry with number at. epoch: the upper bits of its time. False: it may have been
 * overwritten meanwhile. */
bool kin__tape_read(const struct kin__tape *tape, const struct kin__tape_ring *ring, uint64_t at,
                    uint64_t epoch, struct kin__tape_note *out);
/* The text that the other of a PARK stands for. */
const char *kin__tape_word(uint32_t other);
/* The lock of somebody in haste, for whom it may be held for ever, by the caller itself perhaps,
 * and who may hold any other. */
bool kin__tape_lock_hasty(struct kin__tape *tape);
void kin__tape_unlock_hasty(struct kin__tape *tape);
/* Writes all of it as text. 0, -EBUSY when somebody else does, or -errno of a write that failed.
 * is_hasty: as above. */
int kin__tape_dump(struct kin__tape *tape, int fd, bool is_hasty);
/* Writes the file, once. */
void kin__tape_save(struct kin__tape *tape, bool is_hasty);

/* Whether the other of such a note is a task. */
static inline bool kin__tape_has_other(unsigned kind)
{
    return kind == KIN__TAPE_SPAWN || kind == KIN__TAPE_WAKE || kind == KIN__TAPE_CANCEL ||
           kind == KIN__TAPE_ASK;
}

extern const char kin__tape_words[]; /* where the texts of parks are counted from */
extern const char *const kin__tape_kinds[KIN__TAPE_KINDS];

#endif
