/* SPDX-License-Identifier: MIT */
/*
 * Copies of arguments: each goes with its child, not with the nursery.
 *
 * A server spawns a child for each connection into a nursery that lives as long as the server, so
 * what one child needs must not be left when that child is over. A copy lies in
 *
 *     a frame of kind SMALL   up to 48 bytes     from the worker's cache and back, without a lock
 *     a frame of kind LARGE   up to 240 bytes    the same
 *     a block of kin_alloc    more; or the spawner is metered, which pays for it as for any memory
 *
 * Two bits in the caps of the task say which, and the task that is over knows where: the pointer is
 * its argument. So the frame of a task has no field for it.
 */
#ifndef KIN_SCOPE_ARGUMENT_H
#define KIN_SCOPE_ARGUMENT_H

#include "sched/worker.h"
#include "task/task.h"

#include <string.h>

#if KIN__ASAN && !defined(KIN__LAB) /* the lab cuts the same frames anew in each run */
#include <sanitizer/asan_interface.h>
#define KIN__POISON(memory, bytes) __asan_poison_memory_region(memory, bytes)
#define KIN__UNPOISON(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define KIN__POISON(memory, bytes) ((void)(memory), (void)(bytes))
#define KIN__UNPOISON(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#define KIN__SMALL_MOST (KIN__SMALL_BYTES - sizeof(struct kin__frame))
#define KIN__LARGE_MOST (KIN__LARGE_BYTES - sizeof(struct kin__frame))
_Static_assert(sizeof(struct kin__frame) % 16 == 0, "what follows the head is aligned");

/* All but the usual. */
int kin__argument_copy_slow(struct kin__task *child, struct kin__task *spawner, const void *arg,
                            size_t size);
void kin__argument_give_slow(struct kin__task *task);

/* Gives the task a copy of its argument, at the expense of the spawner, NULL: of the task that the
 * plain thread works for, if any. 0, -ENOMEM, KIN_BUDGET. worker is the running one, NULL: none. */
static inline int kin__argument_copy(struct kin__task *child, struct kin__task *spawner,
                                     struct kin__worker *worker, const void *arg, size_t size)
{
    struct kin__frame *frame = NULL;
    if (KIN__LIKELY(size <= KIN__SMALL_MOST && spawner && !(spawner->flags & KIN__TASK_METERED)))
        frame = kin__frame_alloc(&worker->blocks[KIN__FRAME_SMALL]);
    if (KIN__UNLIKELY(!frame))
        return kin__argument_copy_slow(child, spawner, arg, size);
    KIN__POISON(frame + 1, KIN__SMALL_MOST);
    KIN__UNPOISON(frame + 1, size);
    child->arg = memcpy(frame + 1, arg, size);
    child->caps |= KIN__CAPS_SMALL;
    return 0;
}

/* The task is over, on a worker, and its argument was a copy. */
static inline void kin__argument_give(struct kin__task *task)
{
    if (KIN__UNLIKELY((task->caps & KIN__CAPS_COPY) != KIN__CAPS_SMALL)) {
        kin__argument_give_slow(task);
        return;
    }
    KIN__POISON(task->arg, KIN__SMALL_MOST);
    kin__frame_free_as(&kin__worker_self()->blocks[KIN__FRAME_SMALL],
                       (struct kin__frame *)task->arg - 1, KIN__FRAME_SMALL);
}

#endif
