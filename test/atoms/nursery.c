/* SPDX-License-Identifier: MIT */
/*
 * Nurseries: src/scope/{nursery,spawn,ended,cancel}.c as they are: children that end, a close and a
 * cancellation from outside, and the owner's join, which must not miss any of them.
 *
 * A join returns when every child is over, and sees what they did; whoever was admitted runs or was
 * cancelled before it began; nobody is admitted after a close or a cancellation; the block of the
 * nursery is touched by nobody who is not entitled to, also when it is used again.
 */
#include "under.h"

#include "park/park.h"
#include "scope/scope.h"

/* Grace is time's business. */
void kin__grace_arm_locked(struct kin__scope *scope)
{
    (void)scope;
}

static struct kin_nursery *nursery, *inner;
static int ran[4], refused, cancelled, result;
static kin__a32 began;

static void start(unsigned children)
{
    under_begin();
    under_sched()->owner = &kin__scope_owner_ops;
    under_frames(KIN__FRAME_SCOPE, 1, 2);
    under_frames(KIN__FRAME_TASK, 1, children);
    nursery = kin_atoms_alloc(sizeof(*nursery));
    inner = kin_atoms_alloc(sizeof(*inner));
    refused = cancelled = result = 0;
    for (unsigned i = 0; i < 4; i++)
        ran[i] = 0;
    began = 0;
}

static int child(void *arg)
{
    *(int *)arg = 1;
    return 0;
}

/* Waits until it is cancelled. */
static bool never_try(void *object, void *io, int *status)
{
    (void)object, (void)io, (void)status;
    return false;
}

static bool never_publish(void *object, struct kin__waiter *waiter, int *status)
{
    (void)object, (void)waiter, (void)status;
    return true;
}

static void never_unpublish(void *object, struct kin__waiter *waiter)
{
    (void)object, (void)waiter;
}

static const struct kin__waitable never = {"never", never_try, never_publish, never_unpublish};

static int waiting_child(void *arg)
{
    *(int *)arg = 1;
    return kin__wait(&never, NULL, NULL, 0);
}

static void open_nursery(struct kin_nursery *n)
{
    kin_atoms_assert(kin_nursery_open(n, NULL) == 0, "it is opened");
}

static void spawn(struct kin_nursery *n, int (*fn)(void *arg), int *flag)
{
    int rc = kin_spawn(n, fn, flag);
    kin_atoms_assert(rc == 0 || rc == KIN_NOSCOPE, "how a spawn ends");
    if (rc != 0) {
        refused++;
        *flag = -1;
    }
}

/* ---- spawn and join, twice ---- */

static void join_rounds(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++) {
        open_nursery(nursery);
        spawn(nursery, child, &ran[2 * i]);
        if (*(const int *)arg == 1)
            spawn(nursery, child, &ran[1]);
        kin_atoms_assert(kin_nursery_join(nursery, NULL) == 0, "all is well");
        kin_atoms_assert(ran[2 * i] == 1, "the child has run");
        kin_atoms_assert(*(const int *)arg == 2 || ran[1] == 1, "so has the other");
    }
}

static void begin_join(void *arg)
{
    start(2);
    under_spawn("owner", join_rounds, arg);
}

/* ---- a cancellation from outside ---- */

static void cancel(void *arg)
{
    (void)arg;
    kin_nursery_cancel(nursery, KIN_TIMEOUT);
}

static void close_it(void *arg)
{
    (void)arg;
    kin_nursery_close(nursery);
}

static void owner_of_waiting(void *arg)
{
    (void)arg;
    spawn(nursery, waiting_child, &ran[0]);
    result = kin_nursery_join(nursery, NULL);
    kin_atoms_assert(result == KIN_TIMEOUT, "it was cancelled");
}

/* The nursery is open before the run begins: who comes from outside has its handle by then. */
static void open_before(void)
{
    struct kin__task *owner = under_task(0);
    kin__self_set(under_worker(1));
    under_worker(1)->current = owner;
    open_nursery(nursery);
    kin__self_set(NULL);
}

static void begin_cancel(void *arg)
{
    (void)arg;
    start(1);
    under_spawn("owner", owner_of_waiting, NULL);
    open_before();
    under_spawn_outside("canceller", cancel, NULL);
}

static void end_cancel(void *arg)
{
    (void)arg;
    kin_atoms_assert(refused ? ran[0] == -1 : ran[0] == 0 || ran[0] == 1, "as it was admitted");
}

/* ---- a close from outside, a spawn and a join ---- */

static void owner_of_closed(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++)
        spawn(nursery, child, &ran[i]);
    kin_atoms_assert(kin_nursery_join(nursery, NULL) == 0, "all is well");
    for (int i = 0; i < *(const int *)arg; i++)
        kin_atoms_assert(ran[i] != 0, "each has run or was refused");
    kin_atoms_assert(ran[0] != -1 || ran[1] != 1, "what is closed stays closed");
}

static void begin_close(void *arg)
{
    start(2);
    under_spawn("owner", owner_of_closed, arg);
    open_before();
    under_spawn_outside("closer", close_it, NULL);
}

/* ---- a child that fails cancels its sibling ---- */

static int failing_child(void *arg)
{
    *(int *)arg = 1;
    return -5;
}

static void owner_of_failing(void *arg)
{
    (void)arg;
    open_nursery(nursery);
    spawn(nursery, waiting_child, &ran[0]);
    spawn(nursery, failing_child, &ran[1]);
    result = kin_nursery_join(nursery, NULL);
    kin_atoms_assert(result == -5, "the failure is the result");
}

static void begin_fail(void *arg)
{
    (void)arg;
    start(2);
    under_spawn("owner", owner_of_failing, NULL);
}

/* ---- a nursery that is opened while its owner is being cancelled ---- */

static bool has_grandchild;

static int opening_child(void *arg)
{
    *(int *)arg = 1;
    open_nursery(inner);
    if (has_grandchild)
        spawn(inner, waiting_child, &ran[1]);
    else
        (void)kin__wait(&never, NULL, NULL, 0);
    return kin_nursery_join(inner, NULL);
}

static void owner_of_opening(void *arg)
{
    has_grandchild = arg != NULL;
    spawn(nursery, opening_child, &ran[0]);
    result = kin_nursery_join(nursery, NULL);
    kin_atoms_assert(result == KIN_TIMEOUT, "it was cancelled");
}

static void begin_inner(void *arg)
{
    start(1);
    under_frames(KIN__FRAME_SCOPE, 3, 1);
    under_frames(KIN__FRAME_TASK, 3, 1);
    under_spawn("owner", owner_of_opening, arg);
    open_before();
    under_spawn_outside("canceller", cancel, NULL);
}

/* ---- a canceller that comes when the nursery is over, or its block is used again ---- */

static void owner_of_two(void *arg)
{
    if (arg)
        spawn(nursery, child, &ran[0]);
    result = kin_nursery_join(nursery, NULL);
    open_nursery(inner);
    spawn(inner, child, &ran[1]);
    kin_atoms_assert(kin_nursery_join(inner, NULL) == 0, "it is another one");
    kin_atoms_assert(ran[1] == 1, "its child has run");
}

static void begin_late(void *arg)
{
    start(2);
    under_spawn("owner", owner_of_two, arg);
    open_before();
    under_spawn_outside("canceller", cancel, NULL);
}

static int one = 1, two = 2;

const struct harness harnesses[] = {
    {.name = "nursery_two_rounds", .begin = begin_join, .arg = &two},
    {.name = "nursery_two_children", .begin = begin_join, .arg = &one},
    {.name = "nursery_late_cancel", .begin = begin_late, .preemptions = 2},
    {.name = "nursery_inner", .begin = begin_inner, .preemptions = 2},
    {.name = "nursery_close", .begin = begin_close, .arg = &one},
    {.name = "nursery_cancel", .begin = begin_cancel, .end = end_cancel},
    {.name = "nursery_failure", .begin = begin_fail, .preemptions = 2},
    {.name = "nursery_late_cancel_c11", .begin = begin_late, .preemptions = 2,
     .memory = KIN_ATOMS_C11},
    {.name = "nursery_inner_c11", .begin = begin_inner, .preemptions = 2, .memory = KIN_ATOMS_C11,
     .is_deep = true},
    {.name = "nursery_failure_in_full", .begin = begin_fail, .is_deep = true},
    {.name = "nursery_late_cancel_in_full", .begin = begin_late, .is_deep = true},
    {.name = "nursery_close_two_children", .begin = begin_close, .arg = &two, .is_deep = true},
    {.name = "nursery_inner_with_a_child", .begin = begin_inner, .arg = &one, .preemptions = 2,
     .is_deep = true},
    {0},
};
