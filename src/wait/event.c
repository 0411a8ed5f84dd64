/* SPDX-License-Identifier: MIT */
/*
 * An event: a flag, and those who wait until it is set.
 *
 * A set lets go everybody who is in line at that moment; the line is taken over as a whole before
 * the first of them is woken, so a reset that follows at once keeps nobody in, and whoever comes
 * after the reset waits for the next set.
 */
#include "wait/event.h"

#include "sched/entry.h"
#include "task/budget.h"
#include "wait/crowd.h"
#include "wait/timer.h"

#include <errno.h>

struct event {
    struct kin__crowd crowd;
    kin__a32 is_set; /* changes under the lock, is read by anybody */
};

_Static_assert(sizeof(struct event) <= sizeof(struct kin_event), "an event fits");
_Static_assert(_Alignof(struct event) <= _Alignof(struct kin_event), "an event fits");

static inline struct event *of(struct kin_event *event)
{
    return (struct event *)(void *)event;
}

/* ---- the waitable ---- */

static bool event_try(void *object, void *io, int *status)
{
    struct event *event = object;
    (void)io;
    *status = 0;
    /* pairs with the release in kin_event_set */
    if (!kin__load_acquire(&event->is_set))
        return false;
    if (KIN__LIKELY(kin__crowd_is_quiet(&event->crowd)))
        return true;
    kin__crowd_take(&event->crowd);
    bool is_set = kin__load_relaxed(&event->is_set); /* relaxed: under the lock */
    kin__crowd_give(&event->crowd);
    return is_set;
}

static bool event_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct event *event = object;
    (void)status;
    kin__crowd_take(&event->crowd);
    bool links = !kin__load_relaxed(&event->is_set); /* relaxed: under the lock */
    if (links)
        kin__waitq_push(&event->crowd.queue, waiter);
    kin__crowd_give(&event->crowd);
    return links;
}

static void event_unpublish(void *object, struct kin__waiter *waiter)
{
    struct event *event = object;
    (void)kin__crowd_leave(&event->crowd, waiter);
    kin__crowd_give(&event->crowd);
}

const struct kin__waitable kin__event_waitable = {"event", event_try, event_publish,
                                                  event_unpublish};

KIN__WAITABLE_READY(kin__event_waitable)
{
    const struct event *event = object;
    return kin__load_relaxed(&event->is_set) ? "it is set" : NULL; /* relaxed: nobody runs */
}

/* ---- the public face ---- */

void kin_event_set(struct kin_event *event)
{
    if (!event)
        return;
    kin__entry_turn_self();
    kin__crowd_take(&of(event)->crowd);
    /* pairs with the acquire in event_try: who sees it sees the lock taken as well */
    kin__store_release(&of(event)->is_set, 1u);
    kin__crowd_wake_all(&of(event)->crowd, 0);
}

void kin_event_reset(struct kin_event *event)
{
    if (!event)
        return;
    kin__entry_turn_self();
    kin__crowd_take(&of(event)->crowd);
    kin__store_relaxed(&of(event)->is_set, 0u); /* relaxed: orders nothing */
    kin__crowd_give(&of(event)->crowd);
}

int kin_event_wait(struct kin_event *event, kin_time deadline)
{
    if (!event)
        return -EINVAL;
    int rc = kin__entry_begin(kin__task_self(), 0, deadline);
    if (rc < 0)
        return rc;
    return kin__wait_until(&kin__event_waitable, event, NULL, deadline, 0);
}
