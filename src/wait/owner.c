/* SPDX-License-Identifier: MIT */
/*
 * Owners of locks: misuse with both parties named, and locks whose owner is over.
 *
 *     the end of a task that holds locks -> its id is noted, the end is reported, and everybody who
 *     is parked on any lock looks again -> finds the id noted -> breaks the lock
 *     a newcomer to a lock whose owner is over finds the id noted or stale -> breaks the lock
 *
 * Making every parked locker look again instead of those of one lock costs a walk over all frames,
 * and those who wait for other locks their place in line; in return no lock and no task pays
 * anything for the day on which this happens. A task parks again if it came to look for nothing.
 *
 * Noted ids are needed although a stale id tells the same, because the frame of a task may be kept
 * with its name until its nursery is joined. The last NOTED of them are known; beyond that a lock
 * that nobody was waiting for is found broken only when the frame is given back.
 */
#include "wait/owner.h"

#include "base/lock.h"
#include "base/text.h"
#include "park/park.h"
#include "plat/plat.h"
#include "sched/report.h"
#include "sched/sched.h"

#include <errno.h>

#define TEXT_BYTES 512u
#define NOTED 64u

const char kin__owner_what_mutex[] = "mutex";
const char kin__owner_what_rwlock[] = "rwlock";

/* Owners that are over, the last NOTED of them; written under the lock, read by any thread. */
static struct kin__lock noted_lock; /* rank LEAF */
static kin__a64 noted[NOTED];
static kin__a32 noted_count; /* how many there ever were */

static bool is_noted(uint64_t owner)
{
    /* pairs with the release in note: whoever looks because of it sees what was noted */
    uint32_t count = kin__load_acquire(&noted_count);
    for (uint32_t i = 0; i < NOTED && i < count; i++) {
        if (kin__load_relaxed(&noted[i]) == owner) /* relaxed: behind the acquire above */
            return true;
    }
    return false;
}

static void note(uint64_t owner)
{
    kin__lock_take(&noted_lock, KIN__RANK_LEAF);
    uint32_t count = kin__load_relaxed(&noted_count);   /* relaxed: under the lock */
    kin__store_relaxed(&noted[count % NOTED], owner);   /* relaxed: published by the next line */
    kin__store_release(&noted_count, count + 1);        /* pairs with the acquire in is_noted */
    kin__lock_give(&noted_lock, KIN__RANK_LEAF);
}

#if defined(KIN__LAB) || defined(KIN__ATOMS)
void kin__owner_forget(void)
{
    kin__store_quiet(&noted_count, 0u); /* alone: there is one thread */
}
#endif

bool kin__owner_is_over(uint64_t owner)
{
    /* fence: the beginning of the caller's wait before the notes; mirror: kin__owner_abandon */
    kin__fence_after_rmw();
    if (KIN__UNLIKELY(is_noted(owner)))
        return true;
    return !kin__task_find(owner) && !kin__task_find(owner | ~KIN__OWNER_MASK);
}

/* Goes on meanwhile, and may even end: the process is about to abort. */
static void name_owner(struct kin__text *text, uint64_t owner)
{
    const struct kin__task *task = kin__task_find(owner);
    if (!task)
        task = kin__task_find(owner | ~KIN__OWNER_MASK);
    kin__task_say_id(text, task ? kin__task_id(task) : owner);
    if (task && !is_noted(owner))
        kin__text_printf(text, " (%s)", kin__task_name(task));
    else
        kin__text_str(text, ", which is over");
}

_Noreturn void kin__owner_misuse(const char *call, const char *rule, const void *object,
                                 uint64_t owner)
{
    char memory[TEXT_BYTES];
    struct kin__text text;
    struct kin__task *task = kin__task_self();
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "kin: %s: %s; called by ", call, rule);
    if (task)
        kin__task_say(&text, task);
    else
        kin__text_str(&text, "a thread outside of every task");
    kin__text_printf(&text, ", on %p", (void *)(uintptr_t)object);
    if (owner) {
        kin__text_str(&text, ", held by ");
        name_owner(&text, owner);
    }
    kin__report_abort(task, &text);
}

void kin__owner_report(const char *what, const void *object, uint64_t owner)
{
    char memory[TEXT_BYTES];
    struct kin__text text;
    struct kin__task *task = kin__task_self();
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%s %p is broken: its owner, ", what, (void *)(uintptr_t)object);
    kin__task_say_id(&text, owner);
    kin__text_str(&text, ", has ended without unlocking it; found by ");
    kin__task_say(&text, task);
    kin__report(kin__task_sched(task), -EOWNERDEAD, owner, memory);
}

/* Ends the wait of a frame's task if it is one for a lock. */
static void look_again(struct kin__frame *frame, void *arg)
{
    struct kin__task *task = kin__task_of_frame(frame);
    (void)arg;
    /* pairs with the release in commit: what the task waits for is known when it is off its
     * stack */
    uint64_t word = kin__load_acquire(&task->ctl);
    if (word == 0)
        return; /* a frame that was never used */
    while (!(word & (KIN__CLAIMED | KIN__OFF))) { /* ends: it parks, or has no need to */
        kin__thread_yield();
        word = kin__load_acquire(&task->ctl); /* pairs with the same */
    }
    const char *what = kin__load_relaxed(&task->waiting); /* relaxed: behind the acquire above */
    if (!(word & KIN__CLAIMED) && (what == kin__owner_what_mutex || what == kin__owner_what_rwlock))
        (void)kin__wake_task(task, kin__word_ticket(word), UINT32_MAX, KIN_CANCELLED);
}

void kin__owner_abandon(struct kin__task *task)
{
    char memory[TEXT_BYTES];
    struct kin__text text;
    unsigned count = (task->flags & KIN__TASK_LOCKS) / KIN__TASK_LOCK;
    bool is_known = count < KIN__TASK_LOCKS / KIN__TASK_LOCK; /* else it may hold nothing */
    note(kin__owner_of(task));
    /* fence: the note before the words of those who wait; mirror: kin__owner_is_over, behind the
     * read-modify-write with which a wait begins */
    kin__fence_seq();
    kin__text_init(&text, memory, sizeof(memory));
    kin__task_say(&text, task);
    kin__text_printf(&text, ", has ended and still holds %u lock%s", count, count > 1 ? "s" : "");
    if (is_known)
        kin__report(kin__task_sched(task), -EOWNERDEAD, kin__task_id(task), memory);
    kin__frame_each(look_again, NULL);
}
