/* SPDX-License-Identifier: MIT */
/*
 * Copies of arguments that are not small, or somebody's expense.
 */
#include "scope/argument.h"

#include "sched/blocks.h"
#include "scope/belongings.h"

#include <errno.h>

/* A frame of a kind, with the copy in it. */
static int copy_into(struct kin__task *child, enum kin__frame_kind kind, const void *arg,
                     size_t size)
{
    struct kin__frame *frame = kin__block_take(kind);
    if (!frame)
        return -ENOMEM;
    KIN__POISON(frame + 1, kind == KIN__FRAME_SMALL ? KIN__SMALL_MOST : KIN__LARGE_MOST);
    KIN__UNPOISON(frame + 1, size);
    child->arg = memcpy(frame + 1, arg, size);
    child->caps |= kind == KIN__FRAME_SMALL ? KIN__CAPS_SMALL : KIN__CAPS_LARGE;
    return 0;
}

int kin__argument_copy_slow(struct kin__task *child, struct kin__task *spawner, const void *arg,
                            size_t size)
{
    int rc;
    spawner = kin__bill_client(spawner);
    if (size <= KIN__LARGE_MOST && !(spawner && (spawner->flags & KIN__TASK_METERED)))
        return copy_into(child, size <= KIN__SMALL_MOST ? KIN__FRAME_SMALL : KIN__FRAME_LARGE, arg,
                         size);
    void *copy = kin__alloc(spawner, size, &rc);
    if (!copy)
        return rc;
    child->arg = memcpy(copy, arg, size);
    child->caps |= KIN__CAPS_COPY;
    return 0;
}

void kin__argument_give_slow(struct kin__task *task)
{
    if ((task->caps & KIN__CAPS_COPY) == KIN__CAPS_COPY) {
        kin__free(task->arg);
        return;
    }
    KIN__POISON(task->arg, KIN__LARGE_MOST);
    kin__block_give(KIN__FRAME_LARGE, (struct kin__frame *)task->arg - 1);
}
