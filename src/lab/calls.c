/* SPDX-License-Identifier: MIT */
/*
 * What a test says to the lab from inside of a run.
 */
#include "lab/world.h"

#include "park/park.h"
#include "sched/entry.h"

uint32_t kin__lab_choose(unsigned kind, uint32_t n, const char *label)
{
    struct kin__world *w = &kin__world;
    if (!w->engine || w->is_closed)
        return 0;
    return kin__engine_choose(w->engine, (enum kin__choice)kind, n, label);
}

void kin__lab_draws(const char *who)
{
    struct kin__world *w = &kin__world;
    if (w->engine && !w->is_closed)
        kin__engine_draws(w->engine, who);
}

void kin__lab_sees_all(void)
{
    struct kin__world *w = &kin__world;
    kin__lab_touch(&w->enabled_count, KIN__LAB_READ);
    if (w->engine && w->is_running && !w->is_closed)
        kin__engine_barrier(w->engine);
}

bool kin__lab_is_inside(void)
{
    return kin__world.is_on;
}

void kin_lab_assert(bool ok, const char *what)
{
    struct kin__world *w = &kin__world;
    if (KIN__LIKELY(ok) || !w->is_on)
        return;
    struct kin__task *task = kin__task_self();
    kin__world_fail("assert", KIN_PANICKED, kin__player_path(w->current), what);
    if (task)
        kin_fail(KIN_PANICKED, "%s", what);
}

int kin_lab_ok_(int rc, const char *call)
{
    if (kin__lab_faults_fired())
        return 0;
    kin__world_failf("return", rc, kin__player_path(kin__world.current), "%s gave %s (%d)", call,
                     kin_status_name(rc), rc);
    return rc;
}

uint64_t kin_lab_random(void)
{
    kin__lab_draws("kin_lab_random");
    uint64_t high = kin__lab_choose(KIN__CHOICE_RANDOM, 0, "random");
    return high << 32 | kin__lab_choose(KIN__CHOICE_RANDOM, 0, "random");
}

uint32_t kin_lab_choose(uint32_t n, const char *label)
{
    return n > 1 ? kin__lab_choose(KIN__CHOICE_CASE, n, label) : 0;
}

bool kin_lab_fault(const char *label)
{
    return kin__world.is_running && kin__lab_fault_happens(UINT32_MAX, label);
}

bool kin_lab_buggify_(const char *label)
{
    return kin_lab_fault(label);
}

void *kin_lab_shared_(const volatile void *address)
{
    if (kin__world.is_running) {
        kin__lab_point();
        kin__lab_touch(address, KIN__LAB_WRITE);
    }
    return NULL;
}

uint64_t kin_lab_switches(void)
{
    const struct kin__world *w = &kin__world;
    return w->is_running && w->current < w->player_count ? w->players[w->current].switches : 0;
}

void kin_lab_advance(int64_t ns)
{
    struct kin__world *w = &kin__world;
    if (!w->is_running || ns <= 0 || !kin__task_self())
        return;
    kin__lab_point(); /* others may come before it, */
    kin__world_advance(w->now + ns);
    kin__lab_touch(&w->now, KIN__LAB_WRITE); /* and behind it */
}

/* ---- waiting until everybody else waits ---- */

static bool blocked_try(void *object, void *io, int *status)
{
    (void)object, (void)io, (void)status;
    return false;
}

static bool blocked_publish(void *object, struct kin__waiter *waiter, int *status)
{
    (void)object, (void)status;
    kin__lab_touch(&kin__world.watchers, KIN__LAB_WRITE); /* who comes last goes first */
    kin__list_init(&waiter->link);
    kin__list_push_front(&kin__world.watchers, &waiter->link);
    return true;
}

static void blocked_unpublish(void *object, struct kin__waiter *waiter)
{
    (void)object;
    kin__lab_touch(&kin__world.watchers, KIN__LAB_WRITE);
    kin__list_remove(&waiter->link);
}

static const struct kin__waitable blocked_waitable = {"all others", blocked_try, blocked_publish,
                                                      blocked_unpublish};

int kin_lab_wait_all_blocked(void)
{
    struct kin__task *task = kin__task_self();
    if (!task)
        return KIN_NOTASK;
    kin__entry_check(task);
    return kin__wait(&blocked_waitable, NULL, NULL, KIN__WAIT_TRIED);
}
