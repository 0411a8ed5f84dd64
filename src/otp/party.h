/* SPDX-License-Identifier: MIT */
/*
 * A party: a task as others know it by its address. Who watches it, whom it watches, what it has
 * been told and not yet read, which names it holds, and, of a server, its mailbox.
 *
 *     address --- index of the task's frame ---> party        found without a lock: parties lie in
 *                                                             chunks, one for each frame there can
 *     party.task == the task's number?                        be, and never go away
 *
 * Most tasks never become one. A task is made a party by the first who monitors it, links with it,
 * gives it a name or starts it as a server; it is one no longer when the task is over: the nursery
 * that counts it off calls kin__party_end before the count goes down, so that whoever has joined a
 * nursery finds nothing of its members left.
 *
 * What it is told are notes, each in memory that was set aside when whatever may cause it was
 * agreed upon: a Down in its monitor, an Exit in its link, the end of a lease in the lease. So
 * telling never fails and never waits. Notes that can be read are read in the order of
 * (time, kind, subject) [GS-INFO-SORT]; a note can be read when every letter that was in the
 * mailbox before it has been taken out [D3].
 *
 * Locks: a party's own (rank PARTY), one at a time. A nursery's may be held around it, the lock of
 * a shard of names inside of it.
 */
#ifndef KIN_OTP_PARTY_H
#define KIN_OTP_PARTY_H

#include "base/list.h"
#include "base/lock.h"
#include "park/waitq.h"
#include "sched/sched.h"
#include "task/task.h"
#include "wait/timer.h"

#include <kin/addr.h>
#include <kin/monitor.h>

struct kin_server;

/* Something that a party is told; lives in what causes it. */
struct kin__note {
    struct kin__list link; /* in the lane of the party; under its lock */
    uint64_t after;        /* can be read when no letter up to this number is in the mailbox */
    struct kin_info info;
    /* It has been read, or whoever should have read it is over: gives the memory back. Called
     * without a lock, once. */
    void (*done)(struct kin__note *note);
};

/* Whether a reader wants to be woken for this note; arg is the reader's. */
typedef bool kin__note_wanted(const struct kin__note *note, uint64_t arg);
kin__note_wanted kin__note_any; /* all are wanted */

struct kin__party {
    struct kin__lock lock; /* rank PARTY; everything below */
    bool is_over;          /* its task is over, and kin__party_end goes through what it had */
    uint8_t exit_severity; /* enum kin_severity of the worst link that asked it to stop; 0: none */
    int32_t exit_status;   /* and the status of that one */
    uint64_t past;         /* whose party it was before; 0: that is not known any more; */
    uint8_t past_severity; /* and how that task has ended */
    int32_t past_status;
    kin__a64 task;         /* whose party it is, 0: nobody's; read by anyone, as a hint */
    struct kin__sched *sched;
    struct kin_server *server;   /* NULL: it is none */
    struct kin__waiter *reader;  /* the task itself, parked until it is told something */
    kin__note_wanted *wanted;    /* which notes wake the reader; NULL: all, and letters too */
    uint64_t wanted_arg;
    uint64_t letter_newest;      /* number of the last letter that came into the mailbox; and */
    uint64_t letter_oldest;      /* of the first that is in it; 0: none is. Both are a server's */
    uint64_t letter_last;        /* news that came after a later one than this are not read */
    struct kin__note *last;      /* what kin_wait_info gave last, as long as it can be looked at */
    struct kin__list downs;      /* the lane: notes, sorted; those of a monitor's end apart from */
    struct kin__list others;     /* those of anything else; */
    size_t news;                 /* so many in both */
    struct kin__list watchers;   /* struct kin__watch by link_in: who is told of its end */
    struct kin__list watches;    /* struct kin__watch by link_out: of whose end it is told */
    struct kin__list names;      /* struct kin__lease: the names that it holds */
    struct kin__timer timer;     /* of a server that stops: its masks end here */
    struct kin__case rest;       /* of a server: what it waits for while it rests; its task's own */
#ifdef KIN__LAB
    struct kin__party *used_next; /* those that this execution has used */
#endif
};

/* ---- finding and making ---- */

/* The party of the task with this number, locked; NULL: the task is none, or over. */
struct kin__party *kin__party_lock(uint64_t task);
/* The same; makes the task a party if it is not one. *rc: 0, KIN_NOPROC when it is over or never
 * was, -ENOMEM. With KIN_NOPROC *how says how it ended if that is still known (how->task is 0
 * otherwise): if its nursery keeps its frame, or if it was a party and nobody has become one in its
 * place. The task belongs to sched or it is KIN_NOPROC. */
struct kin__party *kin__party_need(uint64_t task, struct kin__sched *sched, int *rc,
                                   struct kin_outcome *how);
/* Locks a party that the caller knows, whosever it may be by now. */
static inline void kin__party_take(struct kin__party *party)
{
    kin__lock_take(&party->lock, KIN__RANK_PARTY);
}
static inline void kin__party_unlock(struct kin__party *party)
{
    kin__lock_give(&party->lock, KIN__RANK_PARTY);
}
/* Whose it is; under its lock. */
static inline uint64_t kin__party_task(const struct kin__party *party)
{
    return kin__load_relaxed(&party->task); /* relaxed: under the lock */
}
/* The party of the running task, locked; made if there is none. NULL: -ENOMEM. */
struct kin__party *kin__party_self(struct kin__task *self);

/* ---- telling and reading ---- */

/* Sorts the note into the lane and wakes the reader. The party is not over; the lock is given. */
void kin__note_tell_and_unlock(struct kin__party *party, struct kin__note *note);
/* The first note that can be read now, which is out of the lane then; NULL: none. With wanted, the
 * first that it accepts, whatever letters are there: who waits for something in particular does not
 * handle letters meanwhile. */
struct kin__note *kin__note_take_locked(struct kin__party *party, kin__note_wanted *wanted,
                                        uint64_t arg);
/* What is in the lane now can be read, and nothing that comes later; for a server that lets no
 * letter in any more. */
void kin__note_last_call_locked(struct kin__party *party);
/* Takes one out that is not to be read in its turn. False: it is in no lane. */
bool kin__note_remove_locked(struct kin__party *party, struct kin__note *note);
/* The first as kin__note_take_locked has it, and it stays where it is. */
struct kin__note *kin__note_look_locked(struct kin__party *party, kin__note_wanted *wanted,
                                        uint64_t arg);
/* The first that is no Down and that wanted accepts, without a look at any Down; it stays. */
struct kin__note *kin__note_look_others_locked(struct kin__party *party, kin__note_wanted *wanted,
                                               uint64_t arg);
/* Wakes the reader, if one waits for anything at all, with status 0, after the lock is given. */
void kin__party_wake_and_unlock(struct kin__party *party);
/* What somebody waits for in particular. */
struct kin__note_kind {
    kin__note_wanted *wanted; /* whether a note is it */
    /* The first in the lane that is, without a look at all the others; NULL: none is there. */
    struct kin__note *(*find)(struct kin__party *party, uint64_t arg);
    bool (*ends)(uint64_t arg); /* whether none can come any more; NULL: one always can */
};

/* A wait for such a note, of the running task's own party: 0 and the note, which is out of the
 * lane; KIN_STALE when none can come any more; KIN_TIMEOUT, KIN_CANCELLED. Whoever makes ends true
 * wakes the reader. */
int kin__note_wait(struct kin__party *party, const struct kin__note_kind *kind, uint64_t arg,
                   kin_time deadline, struct kin__note **out);

/* What a task ended with, as those who are told see it. */
enum kin_down_reason kin__down_reason(enum kin_severity severity);

/* ---- the end ---- */

/* The task is over and was a party: names are given up, callers are answered, watchers are told, in
 * this order [D11]. Called by scope (kin__party_ops), with no lock, before its nursery counts it
 * off. */
void kin__party_end(uint64_t task, const struct kin_outcome *how);

/* The parts of it, each in its own file; the party is locked by none of them when they begin, and
 * nobody adds anything to it any more: is_over. */
void kin__names_end(struct kin__party *party);                                  /* registry.c */
void kin__server_end(struct kin_server *server, const struct kin_outcome *how); /* server.c */
void kin__watches_end(struct kin__party *party, const struct kin_outcome *how); /* watch.c */

/* Whom a call or a start waits for, as kin__party_ops has it (server.c). */
struct kin__waits;
uint64_t kin__server_holder(const struct kin__task *waiter, const struct kin__waits *waits);

/* The runtime is over: its names go. */
void kin__names_close(struct kin__sched *sched); /* registry.c */

/* How many parties there are at this moment, and watches; for tests: 0 unless in a debug build. */
uint64_t kin__party_count(void);
uint64_t kin__watch_count(void);

#ifdef KIN__LAB
/* A run begins: nobody is a party, and nobody watches. */
void kin__party_rewind(void);
void kin__watch_rewind(void); /* called by it */
#endif

#endif
