/* SPDX-License-Identifier: MIT */
/*
 * A plain thread that waits where a task would park.
 *
 * It takes a frame, which stands in for a task: waiters point at it, wakers claim its word, and
 * whoever delivers finds the flag KIN__TASK_THREAD instead of a run queue and wakes the thread. So
 * no waitable knows the difference. A thread commits its own park, which a task must not: nobody
 * will run on its stack.
 */
#include "park/thread.h"

#include "base/lab.h"
#include "plat/plat.h"
#include "sched/blocks.h"
#include "task/word.h"

#include <errno.h>

/* Sleeps until woken is set. False: the deadline came first. */
static bool sleep_until(struct kin__task *task, kin_time deadline)
{
    while (!kin__load_acquire(&task->woken)) { /* pairs with the release in schedule_slow */
        int64_t left = -1;
        if (deadline != KIN_NEVER) {
            left = deadline - kin__clock_now();
            if (left <= 0)
                return false;
        }
        KIN__LAB_ABORT("a blocking call waits for a task: in the lab it is one step");
        (void)kin__futex_wait(&task->woken, 0, left);
    }
    return true;
}

void kin__thread_park(struct kin__task *task)
{
    if (kin__word_is_ready(task))
        return;
    /* relaxed: the thread's own; whoever wakes it does so after the commit below */
    kin__store_relaxed(&task->woken, 0u);
    /* relaxed: the ticket is its own */
    uint64_t ticket = kin__word_ticket(kin__load_relaxed(&task->ctl));
    if (!kin__word_commit(task) && !sleep_until(task, task->deadline)) {
        if (kin__word_claim(task, ticket) != KIN__LOST) {
            task->wait_case = UINT32_MAX; /* nobody's: it is too late */
            task->wait_status = KIN_TIMEOUT;
        } else {
            (void)sleep_until(task, KIN_NEVER); /* somebody is delivering */
        }
    }
    kin__word_move(task, KIN__RUNNABLE, KIN__RUNNING, KIN__BY_WORKER);
}

int kin__wait_thread(const struct kin__waitable *ops, void *object, void *io, kin_time deadline)
{
    struct kin__case one = {.ops = ops, .object = object, .io = io};
    int status = 0;
    if (ops->try_complete(object, io, &status))
        return status;
    if (deadline <= 0)
        return KIN_TIMEOUT;
    struct kin__frame *frame = kin__block_take(KIN__FRAME_TASK);
    if (!frame)
        return -ENOMEM;
    struct kin__task *task = kin__task_of_frame(frame);
    kin__word_init(task);
    kin__store_relaxed(&task->scope, NULL); /* alone: of no nursery, so that no dump shows it */
    kin__store_relaxed(&task->shadow, KIN__RUNNING); /* alone: the thread's own */
    task->stack = NULL;
    task->flags = KIN__TASK_THREAD;
    task->runtime = 0;
    task->masks = 0;
    task->deadline = deadline;
    task->wait_status = 0;
    int rc = kin__wait_as(task, &one, 1, KIN__WAIT_TRIED, &status);
    if (rc < 0) /* nobody cancels a thread */
        status = KIN_TIMEOUT;
    kin__word_fini(task);
    kin__block_give(KIN__FRAME_TASK, frame);
    return status;
}
