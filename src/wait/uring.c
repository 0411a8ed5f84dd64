/* SPDX-License-Identifier: MIT */
/*
 * Calls on files behind a ring: from the task to the kernel and back.
 *
 *     task                     op, on its stack         kernel           whoever reaps
 *     begin: call  ---------->  FLYING  --------------> has the memory
 *     wait, parked                |                     posts a result
 *     cancel: asks the kernel     |                                      takes the result,
 *     to give it up, waits on     +------------------------------------ op's lock: DONE, claim,
 *     gone only when DONE <------ wake <-------------------------------- give, wake
 *
 * One call has one result, always: begin hands it to the kernel or fails, and the kernel keeps
 * results that do not fit. Nor can there be such: fewer calls are under way than the ring has
 * places for results, even if each is also cancelled. The op and the memory that the call names are
 * the kernel's from begin on until the result was taken. The task does not leave before, whatever
 * it is asked: a cancellation is passed on to the kernel, whose answer decides. If it had not begun
 * it says ECANCELED and has done nothing; else it goes on, and what it has done is what the task is
 * told. The request to cancel names the op by its address. It is over when the call that makes it
 * returns, and the task that made it is still there, so it cannot hit another op at that address.
 * (test/model/uring_op.pml)
 *
 * The lock of an op orders the result before the task: whoever reaps touches the op for the last
 * time when it gives the lock, and the task runs on after it has taken it, or was woken after that.
 *
 * A result that nobody asked for, ECANCELED or EINTR, comes when the thread that began the call
 * ends meanwhile: the call is made again, once. It comes again and again where the kernel can have
 * no more threads, on one of which it does what may wait: then the call is somebody else's. There
 * may also be no result at all for such a call. So one without a result after a while is asked
 * back: if it runs it goes on, and if it has not begun it is somebody else's, too.
 *
 * A runtime has no calls under way when it ends, because its tasks are over.
 *
 * Several threads may reap at once: results are taken under a lock, and each is for one op.
 */
#include "wait/uring.h"

#include "park/waitq.h"
#include "plat/plat.h"
#include "sched/sched.h"
#include "wait/timer.h"

#include <kin/status.h>

#include <errno.h>

#define CALLS 64u    /* places: each call is handed over at once */
#define RESULTS 512u
#define FLYING_MAX (RESULTS / 4) /* a call and what cancels it have a result each */
#define TRIES 2u     /* of a call that the kernel gives up by itself */
#define STALL_NS INT64_C(250000000) /* when a call is asked back: long for a disk */
#define BATCH 16u    /* small: polling may happen on the stack of a task that parks */

static kin__ai64 patience_ns = STALL_NS;

struct kin__files {
    struct kin__uring ring;
    kin__a32 flying;       /* calls without a result so far; whoever begins one or reaps */
    struct kin__lock lock; /* rank LEAF; taking results */
};

struct op {
    struct kin__lock lock; /* rank WAIT; the rest */
    bool is_done;
    int32_t value;            /* when it is done */
    struct kin__waitq waiter; /* the task, once it has parked */
};

/* ---- life ---- */

int kin__files_create(struct kin__files **out)
{
    struct kin__files *files = kin__heap_alloc(sizeof(*files));
    if (!files)
        return -ENOMEM;
    int rc = kin__uring_create(&files->ring, CALLS, RESULTS);
    if (rc < 0)
        kin__heap_free(files);
    else
        *out = files;
    return rc;
}

void kin__files_destroy(struct kin__files *files)
{
    /* relaxed: nobody is left */
    KIN__CHECK(kin__load_relaxed(&files->flying) == 0, "house: no call outlives its task");
    kin__uring_destroy(&files->ring);
    kin__heap_free(files);
}

int kin__files_fd(const struct kin__files *files)
{
    return files->ring.fd;
}

bool kin__files_has(const struct kin__files *files, enum kin__uring_verb verb)
{
    return kin__uring_has(&files->ring, verb);
}

void kin__files_patience(int64_t ns)
{
    kin__store_relaxed(&patience_ns, ns); /* relaxed: a limit */
}

/* ---- results ---- */

/* The kernel is done with an op: its task may go. True: it was woken. */
static bool finish(struct op *op, int32_t value)
{
    struct kin__wakes wakes = {0};
    struct kin__claimed claimed;
    kin__lock_take(&op->lock, KIN__RANK_WAIT);
    op->is_done = true;
    op->value = value;
    if (kin__waitq_claim(&op->waiter, &claimed))
        kin__wakes_add(&wakes, &claimed, 0);
    kin__lock_give(&op->lock, KIN__RANK_WAIT); /* the last touch */
    bool is_woken = wakes.count != 0;
    kin__wakes_run(&wakes);
    return is_woken;
}

uint32_t kin__files_reap(struct kin__files *files)
{
    struct kin__uring_result results[BATCH];
    uint32_t count = BATCH, woken = 0;
    while (count == BATCH) { /* ends: no more calls are made meanwhile than there are workers */
        if (KIN__LIKELY(!kin__uring_has_results(&files->ring)))
            break;
        kin__lock_take(&files->lock, KIN__RANK_LEAF);
        count = kin__uring_take(&files->ring, results, BATCH);
        kin__lock_give(&files->lock, KIN__RANK_LEAF);
        for (uint32_t i = 0; i < count; i++) {
            struct op *op = (struct op *)(uintptr_t)results[i].name;
            if (!op) /* of a request to cancel */
                continue;
            (void)kin__sub_acq_rel(&files->flying, 1u); /* pairs with the addition in begin */
            woken += finish(op, results[i].value);
        }
    }
    return woken;
}

/* ---- the waitable ---- */

static bool op_try(void *object, void *io, int *status)
{
    struct op *op = object;
    (void)io;
    kin__lock_take(&op->lock, KIN__RANK_WAIT);
    bool is_done = op->is_done;
    kin__lock_give(&op->lock, KIN__RANK_WAIT);
    *status = 0;
    return is_done;
}

static bool op_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct op *op = object;
    (void)status;
    kin__lock_take(&op->lock, KIN__RANK_WAIT);
    bool links = !op->is_done;
    if (links)
        kin__waitq_push(&op->waiter, waiter);
    kin__lock_give(&op->lock, KIN__RANK_WAIT);
    return links;
}

static void op_unpublish(void *object, struct kin__waiter *waiter)
{
    struct op *op = object;
    kin__lock_take(&op->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    kin__lock_give(&op->lock, KIN__RANK_WAIT);
}

static const struct kin__waitable op_waitable = {"file", op_try, op_publish, op_unpublish};

/* ---- calls ---- */

/* Hands the call to the kernel. False: it did not take it. */
static bool begin(struct kin__files *files, struct kin__uring_call *call, struct op *op)
{
    *op = (struct op){0};
    call->name = (uint64_t)(uintptr_t)op;
    /* pairs with the subtraction in kin__files_reap: whoever reaps sees the op as it is here. (The
     * kernel, through which it gets there, orders that too, but no sanitizer knows.) */
    bool is_admitted = kin__add_acq_rel(&files->flying, 1u) < FLYING_MAX;
    if (is_admitted && kin__uring_call(&files->ring, call) == 0)
        return true;
    (void)kin__sub_acq_rel(&files->flying, 1u); /* alone: as if it had never been */
    return false;
}

/* Waits until the op is done: 0, or why the kernel was asked to give it up: -EAGAIN when only the
 * time was. */
static int wait_for(struct kin__files *files, struct op *op)
{
    kin_time most = kin__deadline_of(kin__task_self(), KIN_NEVER);
    int64_t patience = kin__load_relaxed(&patience_ns); /* relaxed: a limit */
    int rc = kin__wait_until(&op_waitable, op, NULL, kin__clock_after(patience), 0);
    if (KIN__LIKELY(rc == 0))
        return 0;
    if (rc == KIN_TIMEOUT && kin__clock_now() < most)
        rc = -EAGAIN;
    struct kin__uring_call cancel = {.verb = KIN__URING_CANCEL, .fd = -1,
                                     .address = (uint64_t)(uintptr_t)op};
    (void)kin__uring_call(&files->ring, &cancel); /* if it is not taken, the call runs to its end */
    (void)kin__files_reap(files);
    while (kin__wait(&op_waitable, op, NULL, KIN__WAIT_DEAF) == KIN_CANCELLED) {
        /* ends: only what cannot be masked wakes such a wait early, once for each nursery */
    }
    return rc;
}

/* Whether the kernel has given the call up and done nothing. */
static bool is_given_up(int32_t value)
{
    return value == -ECANCELED || value == -EINTR;
}

bool kin__files_perform(struct kin__files *files, struct kin__uring_call *call, int64_t *result)
{
    struct op op = {.is_done = false};
    int rc = kin__park_asked(kin__task_self());
    for (unsigned tries = 0; rc == 0; tries++) { /* ends: after TRIES */
        if (tries == TRIES || !begin(files, call, &op))
            return false;
        (void)kin__files_reap(files); /* what was in memory is done already */
        kin__worker_outside(1);
        rc = wait_for(files, &op);
        kin__worker_outside(-1);
        if (KIN__LIKELY(!is_given_up(op.value)))
            break;
        if (rc == -EAGAIN)
            return false;
    }
    *result = rc < 0 && (!op.is_done || is_given_up(op.value)) ? rc : op.value;
    return true;
}
