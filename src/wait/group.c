/* SPDX-License-Identifier: MIT */
/*
 * A group: a count, and those who wait until it is 0.
 *
 * The count changes under the lock of the crowd. The one who takes it to 0 lets go everybody who is
 * in line then; an add that follows at once concerns those who come later.
 */
#include "wait/crowd.h"

#include "sched/entry.h"
#include "task/budget.h"
#include "wait/owner.h"
#include "wait/timer.h"

#include <kin/sync.h>

#include <errno.h>

struct group {
    struct kin__crowd crowd;
    size_t left;
};

_Static_assert(sizeof(struct group) <= sizeof(struct kin_group), "a group fits");
_Static_assert(_Alignof(struct group) <= _Alignof(struct kin_group), "a group fits");

static inline struct group *of(struct kin_group *group)
{
    return (struct group *)(void *)group;
}

/* ---- the waitable ---- */

static bool group_try(void *object, void *io, int *status)
{
    struct group *group = object;
    (void)io;
    kin__crowd_take(&group->crowd);
    bool is_done = group->left == 0;
    kin__crowd_give(&group->crowd);
    *status = 0;
    return is_done;
}

static bool group_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct group *group = object;
    (void)status;
    kin__crowd_take(&group->crowd);
    bool links = group->left != 0;
    if (links)
        kin__waitq_push(&group->crowd.queue, waiter);
    kin__crowd_give(&group->crowd);
    return links;
}

static void group_unpublish(void *object, struct kin__waiter *waiter)
{
    struct group *group = object;
    (void)kin__crowd_leave(&group->crowd, waiter);
    kin__crowd_give(&group->crowd);
}

static const struct kin__waitable group_waitable = {"group", group_try, group_publish,
                                                    group_unpublish};

KIN__WAITABLE_READY(group_waitable)
{
    const struct group *group = object;
    return group->left == 0 ? "all are done" : NULL;
}

/* ---- the public face ---- */

void kin_group_add(struct kin_group *group, size_t n)
{
    if (!group)
        return;
    kin__entry_turn_self();
    kin__crowd_take(&of(group)->crowd);
    if (KIN__UNLIKELY(n > SIZE_MAX - of(group)->left))
        kin__owner_misuse("kin_group_add", "a group counts to at most SIZE_MAX", group, 0);
    of(group)->left += n;
    kin__crowd_give(&of(group)->crowd);
}

void kin_group_done(struct kin_group *group)
{
    if (!group)
        return;
    kin__entry_turn_self();
    kin__crowd_take(&of(group)->crowd);
    if (KIN__UNLIKELY(of(group)->left == 0))
        kin__owner_misuse("kin_group_done", "no more are done than were added", group, 0);
    if (--of(group)->left == 0)
        kin__crowd_wake_all(&of(group)->crowd, 0);
    else
        kin__crowd_give(&of(group)->crowd);
}

int kin_group_wait(struct kin_group *group, kin_time deadline)
{
    if (!group)
        return -EINVAL;
    int rc = kin__entry_begin(kin__task_self(), 0, deadline);
    if (rc < 0)
        return rc;
    return kin__wait_until(&group_waitable, group, NULL, deadline, 0);
}
