/* SPDX-License-Identifier: MIT */
/*
 * Select: a row of a table for each kind of case, one try for each, then one park for all.
 *
 *     cases of the caller -> look: which may be ready -> try them -> wait for all
 *
 * Exactly one case happens: a try that completes ends the select, and once it is parked every waker
 * competes for the one ticket of its park [A10] [W:4.3]. Whoever loses keeps what it brought. A
 * case writes nothing before it has won, so the buffers of the others stay as they were.
 *
 * What may be ready is drawn one by one, each equally likely, until a try completes; most selects
 * find one or none and draw nothing. A walk over the cases from a random place, the cheaper way to
 * an order, would favour the case behind a row of cases that are not ready. It is good enough for
 * the order of publication, which decides only between cases on one channel. Ordered selects keep
 * the caller's order in both.
 *
 * Of several times to wait for, only the soonest can come first, so one timer is enough.
 *
 * Up to SMALL cases live on the caller's stack; more need one allocation, before anything happens.
 */
#include "base/bits.h"
#include "plat/plat.h"
#include "sched/entry.h"
#include "sched/tape.h"
#include "task/budget.h"
#include "wait/chan.h"
#include "wait/ender.h"
#include "wait/event.h"
#include "wait/item.h"
#include "wait/poll.h"
#include "wait/signal.h"
#include "wait/timer.h"

#include <kin/select.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define SMALL 8u
#define NOBODY UINT32_MAX
#define NO_ROOM INT32_MIN /* a status that nothing else has */

_Static_assert(KIN_SELECT_MAX <= UINT16_MAX, "an index fits into the order");

/* ---- kinds that complete at once, or never ---- */

static bool at_once(void *object, void *io, int *status)
{
    (void)object, (void)io;
    *status = 0;
    return true;
}

/* The case can only fail; object is the status. */
static bool fail(void *object, void *io, int *status)
{
    (void)io;
    *status = (int)(intptr_t)object;
    return true;
}

static bool not_yet(void *object, void *io, int *status)
{
    (void)object, (void)io, (void)status;
    return false;
}

static bool publish_nowhere(void *object, struct kin__waiter *waiter, int *status)
{
    (void)object, (void)waiter, (void)status;
    return true;
}

static bool publish_complete(void *object, struct kin__waiter *waiter, int *status)
{
    (void)object, (void)waiter, (void)status;
    return false;
}

static void unpublish_nowhere(void *object, struct kin__waiter *waiter)
{
    (void)object, (void)waiter;
}

static const struct kin__waitable now_waitable = {"select", at_once, publish_complete,
                                                  unpublish_nowhere};
static const struct kin__waitable never_waitable = {"select", not_yet, publish_nowhere,
                                                    unpublish_nowhere};
static const struct kin__waitable failed_waitable = {"select", fail, publish_complete,
                                                     unpublish_nowhere};

/* ---- the table ---- */

struct kind {
    const struct kin__waitable *ops;
    unsigned needs; /* for kin__op */
};

static const struct kind kinds[] = {
    [KIN_CASE_KIND_SEND] = {&kin__chan_send_waitable, KIN_CAP_CHANNEL | KIN__COST_CHANNEL},
    [KIN_CASE_KIND_RECV] = {&kin__chan_recv_waitable, KIN_CAP_CHANNEL | KIN__COST_CHANNEL},
    [KIN_CASE_KIND_AFTER] = {&now_waitable, KIN_CAP_TIME}, /* a time that has come already */
    [KIN_CASE_KIND_EVENT] = {&kin__event_waitable, 0},
    /* these need room beside their park: see fill_room */
    [KIN_CASE_KIND_TASK] = {NULL, 0},
    [KIN_CASE_KIND_SIGNAL] = {NULL, KIN_CAP_PROCESS},
    [KIN_CASE_KIND_READ] = {NULL, KIN__COST_SYSCALL},
    [KIN_CASE_KIND_WRITE] = {NULL, KIN__COST_SYSCALL},
};

/* What some kinds keep beside their park. */
struct room {
    const struct kin__waitable *ops;
    void *object; /* NULL: nothing that can be waited for */
    union {
        struct kin__ender ender;
        struct kin__fd_case fd;
    };
};

static inline bool needs_room(const struct kin_case *one)
{
    return one->kind >= KIN_CASE_KIND_TASK;
}

/* ---- looking ---- */

struct choice {
    struct kin_case *cases;  /* the caller's */
    uint32_t count;          /* how many */
    uint32_t tries;          /* how many of them may be ready */
    uint16_t *ready;         /* which */
    uint16_t *index;         /* of the caller's cases, for each park */
    struct kin__case *parks; /* what is waited for, if nothing is ready */
    unsigned needs;          /* what the cases need, together, */
    unsigned fd_needs;       /* and what the descriptors among them do */
    bool is_ordered;
    bool is_outside;         /* something outside of the process may end the wait */
    struct room *rooms;      /* one for each case; NULL: there are none */
    kin_time until;          /* when the soonest time comes; 0: not known yet */
};

/* What a case waits for; NULL: nothing that can be waited for. */
static inline void *object_of(const struct choice *choice, struct kin_case *one)
{
    if (KIN__LIKELY(one->kind <= KIN_CASE_KIND_RECV))
        return one->on.chan;
    if (one->kind == KIN_CASE_KIND_EVENT)
        return one->on.event;
    if (needs_room(one))
        return choice->rooms[one - choice->cases].object;
    return one->on.ns <= 0 ? one : NULL; /* a time in the future: see add_timer */
}

static inline const struct kin__waitable *ops_of(const struct choice *choice,
                                                 const struct kin_case *one)
{
    return KIN__LIKELY(!needs_room(one)) ? kinds[one->kind].ops
                                         : choice->rooms[one - choice->cases].ops;
}

/* How a case looks, without a lock. */
enum look {
    WRONG, /* there is no such case */
    ROOMY, /* it needs room, and there is none */
    IDLE,  /* it cannot happen at once */
    MAYBE  /* it may be ready */
};

/* A direction of a descriptor: what is known of earlier events is taken away, then it is looked at,
 * and if it is not ready the kernel watches it. */
static enum look look_at_fd(struct choice *choice, const struct kin_case *one, struct room *room)
{
    int ignored;
    room->ops = &kin__fd_waitable;
    room->object = NULL;
    room->fd.bit = one->kind == KIN_CASE_KIND_READ ? KIN__READY_READ : KIN__READY_WRITE;
    if (one->on.fd < 0)
        return IDLE;
    choice->is_outside = true;
    choice->fd_needs |= kin__fd_needs(kin__task_self(), one->on.fd);
    room->object = &room->fd;
    int rc = kin__fd_begin(one->on.fd, &room->fd.fd);
    if (rc == 0) {
        (void)kin__fd_waitable.try_complete(&room->fd, NULL, &ignored);
        rc = kin__fd_look(one->on.fd, room->fd.bit);
    }
    if (rc == 0)
        rc = kin__fd_prepare(&room->fd.fd);
    if (rc == 0)
        return IDLE;
    room->ops = rc > 0 ? &now_waitable : &failed_waitable;
    room->object = (void *)(intptr_t)rc;
    return MAYBE;
}

/* A signal is held from here on, unless the task may not: then the charge refuses. */
static enum look look_at_signal(struct choice *choice, const struct kin_case *one,
                                struct room *room)
{
    struct kin__listener *self;
    room->ops = &kin__signal_waitable;
    room->object = NULL;
    if (one->on.signo == 0 || !(kin__task_self()->caps & KIN_CAP_PROCESS))
        return IDLE;
    choice->is_outside = true;
    int rc = kin__signal_prepare(one->on.signo, &self);
    room->object = self;
    if (rc < 0) {
        room->ops = &failed_waitable;
        room->object = (void *)(intptr_t)rc;
    }
    return MAYBE;
}

static enum look fill_room(struct choice *choice, const struct kin_case *one)
{
    if (!choice->rooms)
        return ROOMY;
    struct room *room = &choice->rooms[one - choice->cases];
    if (one->kind == KIN_CASE_KIND_SIGNAL)
        return look_at_signal(choice, one, room);
    if (one->kind != KIN_CASE_KIND_TASK)
        return look_at_fd(choice, one, room);
    room->ops = kin__load_relaxed(&kin__ender_ops); /* relaxed: a constant */
    room->ender = (struct kin__ender){.task = one->on.task.id};
    room->object = one->on.task.id ? &room->ender : NULL;
    return room->object ? MAYBE : IDLE;
}

static __attribute__((noinline)) enum look look_at_others(struct choice *choice,
                                                          struct kin_case *one)
{
    if ((unsigned)one->kind >= sizeof kinds / sizeof kinds[0] ||
        (unsigned)one->kind < KIN_CASE_KIND_SEND)
        return WRONG;
    if (needs_room(one))
        return fill_room(choice, one);
    return object_of(choice, one) ? MAYBE : IDLE;
}

static inline enum look look_at(struct choice *choice, struct kin_case *one)
{
    const struct kin_chan *chan = one->on.chan;
    if (KIN__LIKELY(one->kind == KIN_CASE_KIND_RECV))
        return !chan || kin__chan_recv_is_hopeless(chan) ? IDLE : MAYBE;
    if (KIN__UNLIKELY(one->kind != KIN_CASE_KIND_SEND))
        return look_at_others(choice, one);
    if (KIN__UNLIKELY(chan && !one->item.from && chan->item_size != 0))
        return WRONG;
    return !chan || kin__chan_send_is_hopeless(chan) ? IDLE : MAYBE;
}

/* Notes the cases that may be ready. 0, -EINVAL; NO_ROOM when there must be rooms. */
static inline int look(struct choice *choice)
{
    struct kin_case *one = choice->cases;
    uint16_t *ready = choice->ready;
    uint32_t tries = 0, count = choice->count;
    unsigned needs = 0;
    for (uint32_t i = 0; i < count; i++, one++) {
        enum look look = look_at(choice, one);
        if (KIN__UNLIKELY(look <= ROOMY))
            return look == ROOMY ? NO_ROOM : -EINVAL;
        needs |= kinds[one->kind].needs;
        ready[tries] = (uint16_t)i;
        tries += look == MAYBE;
    }
    choice->tries = tries;
    choice->needs = needs | choice->fd_needs;
    return 0;
}

/* ---- the charge ---- */

static inline bool is_on_channel(const struct kin_case *one)
{
    return one->kind <= KIN_CASE_KIND_RECV && one->on.chan;
}

/* When others may run meanwhile, the channels stay, as in chan.c. One that is dead by then is
 * closed, and *dead is its case. */
static __attribute__((noinline)) int charge_slow(const struct choice *choice,
                                                 struct kin__task *task, kin_time deadline,
                                                 uint32_t *dead)
{
    struct kin_case *cases = choice->cases;
    for (uint32_t i = 0; i < choice->count; i++) {
        if (is_on_channel(&cases[i]))
            kin__chan_pin(cases[i].on.chan);
    }
    int rc = kin__op(task, choice->needs, deadline);
    for (uint32_t i = 0; i < choice->count; i++) {
        if (is_on_channel(&cases[i]) && !kin__chan_unpin(cases[i].on.chan))
            *dead = i;
    }
    return rc;
}

/* ---- choosing ---- */

/* The case happened. */
static inline int commit(const struct choice *choice, uint32_t index, int status)
{
    if (is_on_channel(&choice->cases[index]))
        KIN__LAB_CALLED(choice->cases[index].on.chan,
                        choice->cases[index].kind == KIN_CASE_KIND_SEND ? KIN__LAB_SEND
                                                                        : KIN__LAB_RECV,
                        status, choice->cases[index].item.to);
    choice->cases[index].status = status;
    return (int)index;
}

/* Puts one of those from place at on there, each equally likely. */
static __attribute__((noinline)) void draw(const struct choice *choice, uint32_t at)
{
    uint16_t *ready = choice->ready;
#ifdef KIN__LAB
    uint64_t drawn = at + kin__lab_choose(KIN__LAB_CASE, choice->tries - at, "select");
#else
    struct kin__worker *worker = kin__worker_self();
    uint64_t drawn = at + kin__rng_below(&worker->rng, choice->tries - at);
    if (KIN__UNLIKELY(kin__load_relaxed(&worker->attention) & KIN__TAPED)) /* alone: its own bit */
        kin__tape_drew(worker, choice->tries - at, (uint32_t)drawn - at);
#endif
    uint16_t swapped = ready[drawn];
    ready[drawn] = ready[at];
    ready[at] = swapped;
}

/* Tries each that may be ready. The index of the one that happened, or KIN_TIMEOUT. */
static inline int try_ready(const struct choice *choice)
{
    for (uint32_t i = 0; i < choice->tries; i++) {
        if (KIN__UNLIKELY(i + 1 < choice->tries && !choice->is_ordered))
            draw(choice, i);
        struct kin_case *one = &choice->cases[choice->ready[i]];
        int status = 0;
        if (ops_of(choice, one)->try_complete(object_of(choice, one), one->item.to, &status))
            return commit(choice, choice->ready[i], status);
    }
    return KIN_TIMEOUT;
}

/* ---- waiting ---- */

/* Where a walk over the cases begins, and its step modulo their number: forwards or backwards. So
 * each of two stands before the other equally often. */
static inline uint32_t begin_walk(const struct choice *choice, uint32_t *step)
{
    *step = 1;
#ifdef KIN__LAB
    (void)choice;
    return 0; /* what one task draws must not depend on what others drew */
#else
    if (choice->is_ordered || choice->count < 2)
        return 0;
    uint64_t random = kin__rng_next(&kin__worker_self()->rng);
    if (random & 1)
        *step = choice->count - 1;
    return (uint32_t)(((random >> 32) * choice->count) >> 32);
#endif
}

/* Lists what can be waited for, in the order of a walk; how many there are. */
static inline uint32_t list_parks(const struct choice *choice)
{
    struct kin__case *park = choice->parks;
    uint32_t step, at = begin_walk(choice, &step);
    uint32_t live = 0;
    for (uint32_t i = 0; i < choice->count; i++) {
        struct kin_case *one = &choice->cases[at];
        void *object = object_of(choice, one);
        if (KIN__LIKELY(object != NULL)) {
            park->ops = ops_of(choice, one);
            park->object = object;
            park->io = one->item.to;
            park++;
            choice->index[live++] = (uint16_t)at;
        }
        at += step;
        if (at >= choice->count)
            at -= choice->count;
    }
    return live;
}

/* Adds the time that comes first, or something that never does when there is nothing to wait for;
 * how many parks there are then. */
static uint32_t add_timer(struct choice *choice, uint32_t live, struct kin__timer *timer)
{
    const struct kin_case *soonest = NULL;
    for (uint32_t i = 0; i < choice->count; i++) {
        const struct kin_case *one = &choice->cases[i];
        if (one->kind == KIN_CASE_KIND_AFTER && one->on.ns != INT64_MAX &&
            (!soonest || one->on.ns < soonest->on.ns))
            soonest = one;
    }
    struct kin__case *park = &choice->parks[live];
    if (!soonest && live > 0)
        return live;
    if (soonest) {
        struct kin__worker *worker = kin__worker_self();
        worker->now = kin__clock_now();
        if (!choice->until)
            choice->until = kin__add_sat(worker->now, soonest->on.ns);
        kin__timer_init(timer, choice->until);
        choice->index[live] = (uint16_t)(soonest - choice->cases);
    }
    *park = (struct kin__case){.ops = soonest ? &kin__timer_waitable : &never_waitable,
                               .object = timer};
    return live + 1;
}

/* The index of the case that completed, with its status; or why none did. */
static inline int wait_once(struct choice *choice, kin_time deadline, int *status)
{
    struct kin__timer timer;
    uint32_t live = list_parks(choice);
    if (KIN__UNLIKELY(live < choice->count || live == 0))
        live = add_timer(choice, live, &timer);
    int rc = kin__wait_any_until(choice->parks, live, deadline, KIN__WAIT_TRIED, status);
    return rc < 0 ? rc : (int)choice->index[rc];
}

/* The same when some are outside of the process. An event of the past may come late and end the
 * wait for a descriptor that is not ready: then it goes on, and nothing has happened. */
static __attribute__((noinline)) int wait_outside(struct choice *choice, kin_time deadline,
                                                  int *status)
{
    int rc;
    kin__worker_outside(1);
    for (;;) { /* ends: as waits do */
        rc = wait_once(choice, deadline, status);
        const struct kin_case *one = rc < 0 ? NULL : &choice->cases[rc];
        if (!one || one->kind < KIN_CASE_KIND_READ || *status < 0)
            break;
        struct kin__fd_case *room = &choice->rooms[rc].fd;
        int ready = kin__fd_look(one->on.fd, room->bit);
        if (ready == 0)
            ready = kin__fd_prepare(&room->fd);
        *status = ready < 0 ? ready : 0;
        if (ready != 0)
            break;
    }
    kin__worker_outside(-1);
    return rc;
}

static inline int wait_for_one(struct choice *choice, kin_time deadline)
{
    int status = 0;
    int rc = KIN__UNLIKELY(choice->is_outside) ? wait_outside(choice, deadline, &status)
                                               : wait_once(choice, deadline, &status);
    return rc < 0 ? rc : commit(choice, (uint32_t)rc, status);
}

/* ---- the public face ---- */

/* Everything behind the checks of the arguments. */
static inline __attribute__((always_inline)) int choose(struct choice *choice,
                                                        struct kin__task *task, kin_time deadline)
{
    uint32_t dead = NOBODY;
    KIN__LAB_CALLS();
    int rc = look(choice);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    if (KIN__LIKELY(!kin__op_may_yield(task)))
        rc = kin__op(task, choice->needs, deadline);
    else
        rc = charge_slow(choice, task, deadline, &dead);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    if (KIN__UNLIKELY(dead != NOBODY))
        return commit(choice, dead, KIN_CLOSED);
    if (kin__item_tries(deadline)) {
        rc = try_ready(choice);
        if (rc >= 0 || deadline == 0)
            return rc;
    }
    return wait_for_one(choice, deadline);
}

/* The same with rooms, for a few. */
static __attribute__((noinline)) int choose_with_rooms(struct choice *choice,
                                                       struct kin__task *task, kin_time deadline)
{
    struct room rooms[SMALL];
    memset(rooms, 0, choice->count * sizeof(rooms[0]));
    choice->rooms = rooms;
    return choose(choice, task, deadline);
}

/* The same with memory for many, and with rooms. */
static __attribute__((noinline)) int choose_of_many(struct choice *choice, struct kin__task *task,
                                                    kin_time deadline)
{
    size_t parks_bytes = (choice->count + 2) * sizeof(struct kin__case);
    size_t rooms_bytes = choice->count * sizeof(struct room);
    char *memory = kin__heap_alloc(parks_bytes + rooms_bytes +
                                   2 * choice->count * sizeof(uint16_t));
    if (!memory)
        return -ENOMEM;
    choice->parks = (struct kin__case *)(void *)memory;
    choice->rooms = (struct room *)(void *)(memory + parks_bytes);
    choice->index = (uint16_t *)(void *)(memory + parks_bytes + rooms_bytes);
    choice->ready = choice->index + choice->count;
    int rc = choose(choice, task, deadline);
    kin__heap_free(memory);
    return rc;
}

static inline int select_from(struct kin_case *cases, size_t count, kin_time deadline,
                              bool is_ordered)
{
    struct kin__case parks[SMALL + 2];
    uint16_t index[SMALL + 1], ready[SMALL];
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    if (KIN__UNLIKELY(count > KIN_SELECT_MAX || (count && !cases)))
        return -EINVAL;
    kin__entry_check(task);
    struct choice choice = {.cases = cases, .count = (uint32_t)count, .ready = ready,
                            .index = index, .parks = parks, .is_ordered = is_ordered};
    if (KIN__UNLIKELY(count > SMALL))
        return choose_of_many(&choice, task, deadline);
    int rc = choose(&choice, task, deadline);
    return KIN__LIKELY(rc != NO_ROOM) ? rc : choose_with_rooms(&choice, task, deadline);
}

int kin_select(struct kin_case *cases, size_t count, kin_time deadline)
{
    return select_from(cases, count, deadline, false);
}

int kin_select_ordered(struct kin_case *cases, size_t count, kin_time deadline)
{
    return select_from(cases, count, deadline, true);
}
