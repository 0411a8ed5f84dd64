/* SPDX-License-Identifier: MIT */
/*
 * Obligations: src/scope/obligation.c as it is: adopted by two at once, ended by a third, or ended
 * by two.
 *
 * However many adopt or end it, an obligation ends once, by whoever ends it or by the task that
 * owes it when that is over; the list that it hangs on is in order whenever somebody looks at it;
 * and what is reserved in the same place afterwards is another one.
 */
#include "under.h"

#include "scope/belongings.h"

#include <kin/obligation.h>

static struct kin_obligation *obligation;
static int ended, adopted, leaked;

/* What the end of a task would do with those that it still has. */
void kin__cleanup_run(struct kin__task *task, void (*fn)(void *arg), void *arg)
{
    (void)task, (void)fn, (void)arg;
}

void kin__report(struct kin__sched *sched, int status, uint64_t task, const char *text)
{
    (void)sched, (void)status, (void)task, (void)text;
}

static kin__a32 ends;

static void count(int rc)
{
    kin_atoms_assert(rc == 0 || rc == KIN_STALE, "it is there or it has ended");
    if (rc == 0)
        (void)atomic_fetch_add_explicit(&ends, 1, memory_order_relaxed);
}

static void leave(void)
{
    struct kin__task *task = under_self();
    if (task->flags & KIN__TASK_EXTRA) {
        size_t left = kin__obligation_leak(task, false);
        (void)atomic_fetch_add_explicit(&ends, (uint32_t)left, memory_order_relaxed);
    }
}

static void adopt(void *arg)
{
    int rc = kin__obligation_adopt(obligation, under_self());
    kin_atoms_assert(rc == 0 || rc == KIN_STALE, "adopted, or it was too late");
    if (*(const int *)arg)
        leave();
}

static void end_it(void *arg)
{
    (void)arg;
    count(kin_obligation_commit(obligation));
}

/* Ends it and reserves another, which has its frame if it was there to be ended. */
static void end_and_reserve(void *arg)
{
    struct kin_obligation *next;
    end_it(arg);
    kin_atoms_assert(kin_obligation_reserve(KIN_OBLIGATION_USER, &next) == 0, "there is room");
    kin_atoms_assert(kin_obligation_commit(next) == 0, "nobody else has ended it");
}

static struct kin__task *maker;

static void start(unsigned threads)
{
    under_begin();
    ended = adopted = leaked = 0;
    ends = 0;
    for (unsigned i = 0; i <= threads; i++) {
        under_frames(KIN__FRAME_EXTRA, i, 1);
        under_frames(KIN__FRAME_OBLIGATION, i, 1);
    }
    /* made before the run by a task of its own, whose belongings stay */
    maker = kin_atoms_alloc(sizeof(*maker));
    maker->runtime = 1;
    maker->slice = 1000;
    under_worker(0)->current = maker;
    kin__self_set(under_worker(0));
    kin_atoms_assert(kin_obligation_reserve(KIN_OBLIGATION_USER, &obligation) == 0, "it is made");
    kin__self_set(NULL);
}

static void end(void *arg)
{
    (void)arg;
    if (ends == 0) { /* it still hangs on somebody, or nobody wanted it */
        count(kin_obligation_abort(obligation));
    }
    kin_atoms_assert(ends == 1, "it ends once");
    kin_atoms_assert(kin_obligation_abort(obligation) == KIN_STALE, "and is over then");
}

static int stays = 0, leaves = 1;

static void begin_two(void *arg)
{
    (void)arg;
    start(2);
    under_spawn("heir", adopt, &leaves);
    under_spawn("ender", end_it, NULL);
}

static void begin_heirs(void *arg)
{
    start(3);
    under_spawn("heir 1", adopt, arg);
    under_spawn("heir 2", adopt, &stays);
    under_spawn("ender", end_it, NULL);
}

static void begin_enders(void *arg)
{
    (void)arg;
    start(2);
    under_spawn("ender 1", end_and_reserve, NULL);
    under_spawn("ender 2", end_and_reserve, NULL);
}

static void begin_end_and_leave(void *arg)
{
    (void)arg;
    start(3);
    under_spawn("heir", adopt, &leaves);
    under_spawn("ender 1", end_it, NULL);
    under_spawn("ender 2", end_it, NULL);
}

static void adopt_twice(void *arg)
{
    adopt(&stays);
    adopt(arg);
}

static void begin_rounds(void *arg)
{
    start(2);
    under_spawn("heir 1", adopt_twice, arg);
    under_spawn("heir 2", adopt_twice, &stays);
}

const struct harness harnesses[] = {
    {.name = "obligation_adopt_and_end", .begin = begin_two, .end = end},
    {.name = "obligation_adopt_and_end_c11", .begin = begin_two, .end = end,
     .memory = KIN_ATOMS_C11},
    {.name = "obligation_two_enders", .begin = begin_enders, .end = end},
    {.name = "obligation_two_enders_c11", .begin = begin_enders, .end = end,
     .memory = KIN_ATOMS_C11},
    {.name = "obligation_two_enders_and_an_heir", .begin = begin_end_and_leave, .end = end},
    {.name = "obligation_two_heirs", .begin = begin_heirs, .end = end, .arg = &stays},
    {.name = "obligation_two_heirs_one_leaves", .begin = begin_heirs, .end = end, .arg = &leaves,
     .is_deep = true},
    {.name = "obligation_two_rounds", .begin = begin_rounds, .end = end, .arg = &leaves},
    {0},
};
