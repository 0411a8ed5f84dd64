/* SPDX-License-Identifier: MIT */
/*
 * A watch: one party is told of the end of one other. A monitor is one of them, a link two.
 *
 *     watcher                                       target
 *     party.watches <--- link_out   watch   link_in ---> party.watchers
 *        |                           note                    |
 *        | lane <---------------------+                      |
 *     under the watcher's lock:                           under the target's lock:
 *     holds, the name, link_out, the note                 link_in
 *
 * The two locks are never held together. What keeps a watch in memory are its holds; whoever lets
 * go of the last one gives it back:
 *
 *     IN     the target's list has it, or somebody who took it out of there and is on its way
 *     OUT    the watcher waits for the news or has them in its lane; as long as this one is there
 *            the watch has its name, and somebody can find it under it
 *     PEER   of the first half of a link: the second one still has OUT. It keeps the name, too, so
 *            that both halves are found by it until nothing of the link can arrive any more
 *
 * An unlink or demonitor lets OUT go under the watcher's lock: from then on nothing arrives [D12].
 * It then takes the watch out of the target's list, if the target is not over; if it is, its end
 * has it, and finds that OUT is gone. test/model/monitor.pml has the three that may meet there.
 */
#ifndef KIN_OTP_WATCH_H
#define KIN_OTP_WATCH_H

#include "mem/frame.h"
#include "otp/party.h"
#include "task/bill.h"

#define KIN__WATCH_IN 1u
#define KIN__WATCH_OUT 2u
#define KIN__WATCH_PEER 4u

enum kin__watch_kind {
    KIN__WATCH_MONITOR,
    KIN__WATCH_FIRST, /* of a link: who is told is the one who made it; its name is the link's */
    KIN__WATCH_SECOND /* of a link: the other way round */
};

struct kin__watch {
    struct kin__frame frame;              /* the pool's; its name is the reference */
    _Atomic(struct kin__party *) watcher; /* whose lock is meant below; constant while named */
    uint64_t watcher_id;                  /* constant, as are the next ones */
    uint64_t target;
    uint8_t kind;   /* enum kin__watch_kind */
    uint8_t policy; /* enum kin_exit_policy, of a link */
    uint8_t holds;  /* KIN__WATCH_ bits; under the watcher's lock */
    uint64_t ref;   /* the name of the monitor or link as everybody sees it */
    union {
        uint64_t second;          /* of FIRST: the name of the other half */
        struct kin__watch *first; /* of SECOND: the other half, which PEER keeps */
    };
    struct kin__list link_in;  /* among the target's watchers; under the target's lock */
    struct kin__list link_out; /* among the watcher's watches until it has fired; under its lock */
    struct kin__note note;     /* the news; in the watcher's lane once it has fired */
    struct kin__bill bill;     /* of the task that made the monitor or link; constant */
};
_Static_assert(sizeof(struct kin__watch) <= KIN__WATCH_BYTES, "a frame holds a watch");

/* A new one, held by OUT alone and linked nowhere, at the expense of the running task. NULL: *rc is
 * -ENOMEM or KIN_BUDGET. */
struct kin__watch *kin__watch_make(enum kin__watch_kind kind, uint64_t target, int *rc);
/* Nobody knows it. */
void kin__watch_unmake(struct kin__watch *watch);
/* Gives it to its watcher, who will be told: the party is locked, and not over. */
void kin__watch_out_locked(struct kin__watch *watch, struct kin__party *watcher);
/* Takes that back, and unmakes it: nobody else knows it. */
void kin__watch_abandon(struct kin__watch *watch, struct kin__party *watcher);
/* Gives it to its target, whose end will tell: the party is locked, and not over. The watcher's
 * lock is not held; nobody knows the watch yet. */
void kin__watch_in_locked(struct kin__watch *watch, struct kin__party *target);

static inline uint64_t kin__watch_name(const struct kin__watch *watch)
{
    return kin__load_relaxed(&watch->frame.name); /* relaxed: under the watcher's lock, or ours */
}

/* A monitor of the running task, whose target is not known yet: kin__watch_in_locked gives it one,
 * kin__watch_abandon takes it back. NULL: as kin__watch_make. */
struct kin__watch *kin__monitor_make(struct kin__task *self, struct kin__party **mine, int *rc);

/* The watch with this name, its watcher locked; NULL: there is none any more. It may have let OUT
 * go already if it is the FIRST of a link. */
struct kin__watch *kin__watch_lock(uint64_t name, struct kin__party **watcher);
/* What the watch would have told is not told any more, and what is in the lane is taken out. The
 * watcher's lock is given. True: it was still pending. */
bool kin__watch_revoke_and_unlock(struct kin__watch *watch, struct kin__party *watcher);

/* Tells the watcher of a monitor. vt is filled in, and IN gone; the watcher's lock is given. */
void kin__watch_down_and_unlock(struct kin__watch *watch, struct kin__party *watcher,
                                struct kin_addr who, enum kin_down_reason reason, int status);

/* The end of a target, as its watchers see it. */
struct kin__ending {
    struct kin_outcome how;
    struct kin_outcome passed; /* the same, or why a link made it stop: what it passes on */
    uint64_t vt;               /* one moment for all of them */
};
/* link.c: the target of one half of a link is over. The caller has taken it out of the target's
 * list, and IN goes. */
void kin__link_exit(struct kin__watch *watch, const struct kin__ending *end);

/* For watch.c and link.c: lets some holds go. */
struct kin__let_go {
    struct kin__watch *watch; /* to be given back, or NULL */
    struct kin__watch *first; /* whose PEER goes, or NULL */
};
struct kin__let_go kin__watch_drop_locked(struct kin__watch *watch, unsigned holds);
/* The rest of it, with no lock. */
void kin__watch_let_go(struct kin__let_go what);

#endif
