/* SPDX-License-Identifier: MIT */
/*
 * What a running task asks and offers: who am I, let others run; and where frames come from.
 */
#include "sched/entry.h"
#include "scope/scope.h"
#include "park/park.h"
#include "task/word.h"

#define SHARE_OPS 1024u /* checkpoints per share, the service profile's yield interval */

/* For threads that are not workers; all under outside_lock (rank TASK). */
static struct kin__lock outside_lock;
static struct kin__frame_cache outside[KIN__FRAME_KINDS] = {
    {.kind = KIN__FRAME_TASK}, {.kind = KIN__FRAME_SCOPE}};

static struct kin__frame *take_outside(enum kin__frame_kind kind)
{
    kin__lock_take(&outside_lock, KIN__RANK_TASK);
    struct kin__frame *frame = kin__frame_alloc(&outside[kind]);
    kin__lock_give(&outside_lock, KIN__RANK_TASK);
    return frame;
}

static void give_outside(enum kin__frame_kind kind, struct kin__frame *frame)
{
    kin__lock_take(&outside_lock, KIN__RANK_TASK);
    kin__frame_free(&outside[kind], frame);
    kin__lock_give(&outside_lock, KIN__RANK_TASK);
}

struct kin__frame *kin__frame_take_task(void)
{
    struct kin__worker *worker = kin__worker_self();
    return KIN__LIKELY(worker != NULL) ? kin__frame_alloc(&worker->frames)
                                       : take_outside(KIN__FRAME_TASK);
}

void kin__frame_give_task(struct kin__frame *frame)
{
    struct kin__worker *worker = kin__worker_self();
    if (KIN__LIKELY(worker != NULL))
        kin__frame_free(&worker->frames, frame);
    else
        give_outside(KIN__FRAME_TASK, frame);
}

struct kin__frame *kin__frame_take_scope(void)
{
    struct kin__worker *worker = kin__worker_self();
    return KIN__LIKELY(worker != NULL) ? kin__frame_alloc(&worker->scopes)
                                       : take_outside(KIN__FRAME_SCOPE);
}

void kin__frame_give_scope(struct kin__frame *frame)
{
    struct kin__worker *worker = kin__worker_self();
    if (KIN__LIKELY(worker != NULL))
        kin__frame_free(&worker->scopes, frame);
    else
        give_outside(KIN__FRAME_SCOPE, frame);
}

/* ---- the public face ---- */

struct kin_task_ref kin_self(void)
{
    struct kin__task *task = kin__task_self();
    return (struct kin_task_ref){task ? kin__task_id(task) : 0};
}

uint64_t kin_task_id(struct kin_task_ref task)
{
    return task.id;
}

int kin_yield(void)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    kin__entry_check(task);
    kin__worker_yield(task);
    return kin__park_asked(task);
}

int kin_checkpoint(void)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    if (KIN__UNLIKELY(++task->ops >= SHARE_OPS)) {
        task->ops = 0;
        return kin_yield();
    }
    return kin__park_asked(task);
}
