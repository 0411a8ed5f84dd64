/* SPDX-License-Identifier: MIT */
/*
 * Mutexes and events: src/wait/{mutex,event}.c as they are.
 *
 * What a mutex protects is plain memory: two who have it at once, or an unlock that orders nothing,
 * are a race. Nobody stays in line; one who is cancelled in line does not have it; whoever has it
 * may free it; whoever comes while its owner ends is told. An event on the stack of the one who
 * waits is gone when the wait is over.
 */
#include "under.h"

#include "base/text.h"
#include "sched/report.h"
#include "wait/mutex.h"
#include "wait/owner.h"

#include <kin/sync.h>

#include <errno.h>

static struct kin_mutex *mutex;
static struct kin_event *event;
static int inside, entered, value;

/* Who ends with a mutex is reported: nobody listens. */
void kin__report(struct kin__sched *sched, int status, uint64_t task, const char *text)
{
    (void)sched, (void)status, (void)task, (void)text;
}

_Noreturn void kin__report_abort(struct kin__task *task, struct kin__text *text)
{
    (void)task;
    kin_atoms_assert(false, text->buf);
    __builtin_trap();
}

static void start(void)
{
    under_begin();
    mutex = kin_atoms_alloc(sizeof(*mutex));
    event = kin_atoms_alloc(sizeof(*event));
    inside = entered = value = 0;
}

static void lock_rounds(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++) {
        int rc = kin_mutex_lock(mutex, KIN_NEVER);
        kin_atoms_assert(rc == 0 || rc == KIN_CANCELLED, "how a lock ends");
        if (rc != 0)
            continue;
        kin_atoms_assert(inside++ == 0, "one at a time");
        entered++;
        inside--;
        kin_mutex_unlock(mutex);
    }
}

static int one = 1, two = 2;

static void begin_two(void *arg)
{
    start();
    under_spawn("first", lock_rounds, arg);
    under_spawn("second", lock_rounds, arg);
}

static void begin_three(void *arg)
{
    begin_two(arg);
    under_spawn("third", lock_rounds, arg);
}

static void cancel(void *arg)
{
    (void)arg;
    kin__park_request(under_task(0), KIN__CANCEL);
}

static void begin_cancel(void *arg)
{
    begin_two(arg);
    under_spawn_outside("canceller", cancel, NULL);
}

static void end_mutex(void *arg)
{
    (void)arg;
    kin_atoms_assert(kin__mutex_owner(mutex) == 0, "it is free");
    kin_atoms_assert(inside == 0, "nobody is inside");
}

static void end_two(void *arg)
{
    kin_atoms_assert(entered == 2 * *(const int *)arg, "everybody was inside");
    end_mutex(arg);
}

/* The first task has had the mutex for long. */
static void hold_as_first(void)
{
    under_worker(0)->current = under_task(0);
    kin__self_set(under_worker(0));
    kin_atoms_assert(kin_mutex_lock(mutex, 0) == 0, "it is free");
    kin__self_set(NULL);
}

/* ---- an owner that frees it ---- */

static void unlock_it(void *arg)
{
    (void)arg;
    kin_mutex_unlock(mutex);
}

/* Whoever has unlocked it must have let go of it. */
static void lock_and_free(void *arg)
{
    (void)arg;
    int rc = kin_mutex_lock(mutex, KIN_NEVER);
    if (rc == KIN_CANCELLED)
        rc = kin_mutex_lock(mutex, 0);
    if (rc == 0)
        kin_atoms_free(mutex);
}

static void cancel_second(void *arg)
{
    (void)arg;
    kin__park_request(under_task(1), KIN__CANCEL);
}

static void begin_lock_and_free(void *arg)
{
    start();
    (void)arg;
    under_spawn("owner", unlock_it, NULL);
    under_spawn("next", lock_and_free, NULL);
    under_spawn_outside("canceller", cancel_second, NULL);
    hold_as_first();
}

/* ---- an owner that ends ---- */

static void ignore_report(const struct kin_report *report, void *arg)
{
    (void)report, (void)arg;
}

/* The body has returned, and the nursery keeps the name. */
static void end_as_owner(void *arg)
{
    (void)arg;
    kin__owner_abandon(under_self());
}

static void lock_in_vain(void *arg)
{
    (void)arg;
    kin_atoms_assert(kin_mutex_lock(mutex, KIN_NEVER) == -EOWNERDEAD, "it is told");
}

static void begin_abandon(void *arg)
{
    start();
    under_sched()->config.on_report = ignore_report;
    kin__owner_forget();
    under_spawn("owner", end_as_owner, NULL);
    for (int i = 0; i < *(const int *)arg; i++)
        under_spawn(i ? "second" : "first", lock_in_vain, NULL);
    hold_as_first();
}

/* ---- events ---- */

static void wait_for(void *arg)
{
    (void)arg;
    kin_atoms_assert(kin_event_wait(event, KIN_NEVER) == 0, "it comes");
    kin_atoms_assert(value == 1, "what was done before it is seen");
}

static void set(void *arg)
{
    (void)arg;
    value = 1;
    kin_event_set(event);
}

static void begin_event(void *arg)
{
    start();
    (void)arg;
    under_spawn("first", wait_for, NULL);
    under_spawn("second", wait_for, NULL);
    under_spawn("setter", set, NULL);
}

/* The memory is gone as soon as the wait is over. */
static void wait_and_free(void *arg)
{
    (void)arg;
    kin_atoms_assert(kin_event_wait(event, KIN_NEVER) == 0, "it comes");
    kin_atoms_free(event);
}

static void begin_free(void *arg)
{
    start();
    (void)arg;
    under_spawn("waiter", wait_and_free, NULL);
    under_spawn("setter", set, NULL);
}

static void set_and_reset(void *arg)
{
    set(arg);
    kin_event_reset(event);
    kin_event_set(event);
}

static void begin_reset(void *arg)
{
    start();
    (void)arg;
    under_spawn("waiter", wait_for, NULL);
    under_spawn("setter", set_and_reset, NULL);
}

const struct harness harnesses[] = {
    {.name = "mutex_two_rounds", .begin = begin_two, .end = end_two, .arg = &two},
    {.name = "mutex_cancel_c11", .begin = begin_cancel, .end = end_mutex, .arg = &one,
     .memory = KIN_ATOMS_C11},
    {.name = "event_two_waiters_c11", .begin = begin_event, .memory = KIN_ATOMS_C11,
     .is_deep = true},
    {.name = "mutex_three_tasks", .begin = begin_three, .end = end_mutex, .arg = &one,
     .is_deep = true},
    {.name = "mutex_cancel", .begin = begin_cancel, .end = end_mutex, .arg = &one},
    {.name = "mutex_is_freed", .begin = begin_lock_and_free},
    {.name = "mutex_owner_ends", .begin = begin_abandon, .arg = &one},
    {.name = "mutex_owner_ends_c11", .begin = begin_abandon, .arg = &one, .memory = KIN_ATOMS_C11},
    {.name = "mutex_owner_ends_before_two", .begin = begin_abandon, .arg = &two, .is_deep = true},
    {.name = "event_two_waiters", .begin = begin_event},
    {.name = "event_is_freed", .begin = begin_free},
    {.name = "event_reset", .begin = begin_reset},
    {.name = "event_is_freed_c11", .begin = begin_free, .memory = KIN_ATOMS_C11},
    {0},
};
