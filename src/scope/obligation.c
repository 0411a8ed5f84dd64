/* SPDX-License-Identifier: MIT */
/*
 * Obligations: reserved by a task, ended once by anybody, found when the task ends first [D1].
 *
 * A handle is no pointer but the name of a frame, so that one which is used again after its end is
 * answered with KIN_STALE instead of being followed into memory that has become something else.
 *
 *     task -> belongings: lock, list --- obligation --- obligation ---
 *                           ^                |
 *                           +---- owner -----+
 *
 * The list and the names of what is in it change under the lock of the belongings that they hang
 * on. Whoever comes with a handle finds the frame, reads its owner, locks that, and only then knows
 * whether the name is still the one it has and the owner still the same: neither frames nor
 * belongings are ever unmapped, so looking at stale ones is harmless. A move to another owner
 * leaves the obligation in no list for a moment; who ends it just then unlinks nothing. The heir's
 * lock was not held for that, so the store of the owner releases what was done before it.
 */
#include "scope/belongings.h"

#include "base/text.h"
#include "sched/blocks.h"
#include "sched/entry.h"

#include <kin/obligation.h>

#include <errno.h>

#define REPORTS_MAX 8u /* leaks that one task has reported one by one; all are counted */
#define TEXT_BYTES 512u

struct kin__obligation {
    struct kin__frame frame;            /* the pool's; its name is the handle */
    _Atomic(struct kin__extra *) owner; /* under the lock of the old one; NULL: was never used */
    struct kin__list link;              /* among what the owner owes; under the owner's lock */
    const void *site;                   /* code address that reserved it; */
    uint32_t kind; /* enum kin_obligation_kind; */
    struct kin__bill bill; /* of the task that reserved it; all are constant while it is reserved */
};
_Static_assert(sizeof(struct kin__obligation) <= KIN__OBLIGATION_BYTES, "a frame holds one");
_Static_assert(sizeof(struct kin_obligation *) == sizeof(uint64_t), "a handle is a name");

/* ---- handles ---- */

static uint64_t name_of(const struct kin_obligation *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* Locks the owner of the obligation that has this name; NULL: it has ended. */
static struct kin__extra *lock_owner(uint64_t name, struct kin__obligation **out)
{
    struct kin__frame *frame = kin__frame_at(KIN__FRAME_OBLIGATION, name);
    if (!frame)
        return NULL;
    struct kin__obligation *o = KIN__CONTAINER_OF(frame, struct kin__obligation, frame);
    for (;;) { /* ends: a round for each move that comes in between */
        struct kin__extra *owner = kin__load_relaxed(&o->owner); /* relaxed: checked below */
        if (!owner)
            return NULL;
        kin__lock_take(&owner->lock, KIN__RANK_WAIT);
        /* relaxed: while the owner is the one that is locked neither of the two changes */
        bool is_known = kin__load_relaxed(&o->frame.name) == name;
        /* pairs with kin__obligation_adopt: who finds the heir sees that the link is in no list */
        bool is_locked = kin__load_acquire(&o->owner) == owner;
        if (is_known && is_locked) {
            *out = o;
            return owner;
        }
        kin__lock_give(&owner->lock, KIN__RANK_WAIT);
        if (!is_known)
            return NULL;
    }
}

/* Ends it: nobody finds it under its name any more. The frame is the caller's to give back. */
static void end_locked(struct kin__obligation *o)
{
    uint64_t name = kin__load_relaxed(&o->frame.name); /* relaxed: under the lock */
    kin__list_remove(&o->link);
    /* relaxed: compared under the lock */
    kin__store_relaxed(&o->frame.name, name + (UINT64_C(1) << KIN__FRAME_INDEX_BITS));
}

/* The rest of it, without a lock. */
static void give_back(struct kin__obligation *o)
{
    struct kin__bill bill = o->bill;
    kin__block_give(KIN__FRAME_OBLIGATION, &o->frame);
    kin__bill_give(bill);
}

static int end(struct kin_obligation *handle)
{
    struct kin__obligation *o;
    if (!handle)
        return -EINVAL;
    kin__entry_check_gives();
    struct kin__extra *owner = lock_owner(name_of(handle), &o);
    if (!owner)
        return KIN_STALE;
    end_locked(o);
    kin__lock_give(&owner->lock, KIN__RANK_WAIT);
    give_back(o);
    return 0;
}

/* ---- for others ---- */

int kin__obligation_adopt(struct kin_obligation *handle, struct kin__task *task)
{
    struct kin__obligation *o;
    KIN__ASSERT(task == kin__task_self(), "D1");
    struct kin__extra *heir = kin__extra_need(task);
    if (!heir)
        return -ENOMEM;
    heir->has_owed = 1;
    struct kin__extra *owner = lock_owner(name_of(handle), &o);
    if (!owner)
        return KIN_STALE;
    kin__list_remove(&o->link);
    kin__store_release(&o->owner, heir); /* pairs with lock_owner */
    kin__lock_give(&owner->lock, KIN__RANK_WAIT);
    kin__lock_take(&heir->lock, KIN__RANK_WAIT);
    /* relaxed: as in lock_owner; somebody may have ended it in between, or moved it on */
    bool is_ours = kin__load_relaxed(&o->frame.name) == name_of(handle) &&
                   kin__load_relaxed(&o->owner) == heir; /* relaxed: as above */
    if (is_ours)
        kin__list_push_back(&heir->obligations, &o->link);
    kin__lock_give(&heir->lock, KIN__RANK_WAIT);
    return is_ours ? 0 : KIN_STALE;
}

void kin__leaks_add(struct kin__sched *sched, size_t count)
{
    (void)kin__add_relaxed(&sched->leaks, count); /* relaxed: a number and nothing else */
}

/* ---- the end of a task ---- */

/* One that was forgotten, for its report. */
struct leak {
    struct kin__task *task;
    const void *site;
    uint32_t kind;
    size_t number, count; /* which of how many */
};

/* Ends everything that the task owes, oldest first, and describes the first few. How many. */
static size_t take_all(struct kin__extra *extra, struct leak *leaks, size_t max)
{
    size_t count = 0;
    for (;;) { /* ends: one fewer each time */
        kin__lock_take(&extra->lock, KIN__RANK_WAIT);
        struct kin__list *link = kin__list_first(&extra->obligations);
        struct kin__obligation *o =
            link ? KIN__CONTAINER_OF(link, struct kin__obligation, link) : NULL;
        if (o && count < max)
            leaks[count] = (struct leak){extra->task, o->site, o->kind, count + 1, 0};
        if (o)
            end_locked(o);
        kin__lock_give(&extra->lock, KIN__RANK_WAIT);
        if (!o)
            return count;
        give_back(o);
        count++;
    }
}

static void report_leak(void *arg)
{
    static const char *const kinds[] = {"user", "send", "ack", "lease", "io"};
    const struct leak *leak = arg;
    struct kin__task *task = leak->task;
    char memory[TEXT_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__task_say(&text, task);
    kin__text_printf(&text, ", leaked an obligation of kind %s", kinds[leak->kind]);
    if (leak->count > 1)
        kin__text_printf(&text, " (%zu of %zu)", leak->number, leak->count);
    kin__text_str(&text, ", reserved at ");
    kin__code_place(&text, (uintptr_t)leak->site);
    kin__report(kin__task_sched(task), KIN_LEAKED, kin__task_id(task), memory);
}

size_t kin__obligation_leak(struct kin__task *task, bool is_told)
{
    struct leak leaks[REPORTS_MAX];
    if (KIN__LIKELY(!task->extra->has_owed))
        return 0;
    size_t count = take_all(task->extra, leaks, REPORTS_MAX);
    if (count == 0)
        return 0;
    kin__leaks_add(kin__task_sched(task), count);
    for (size_t i = 0; is_told && i < count && i < REPORTS_MAX; i++) {
        leaks[i].count = count;
        kin__cleanup_run(task, report_leak, &leaks[i]);
    }
    return count;
}

/* ---- the public face ---- */

int kin_obligation_reserve(enum kin_obligation_kind kind, struct kin_obligation **out)
{
    struct kin__task *task = kin__task_self();
    if ((unsigned)kind > KIN_OBLIGATION_IO || !out)
        return -EINVAL;
    if (!task)
        return KIN_NOTASK;
    kin__entry_turn(task);
    struct kin__extra *extra = kin__extra_need(task);
    struct kin__bill bill;
    int rc = -ENOMEM;
    struct kin__frame *frame = extra ? kin__block_take_billed(KIN__FRAME_OBLIGATION,
                                                              KIN__OBLIGATION_BYTES, &bill, &rc)
                                     : NULL;
    if (!frame)
        return rc;
    struct kin__obligation *o = KIN__CONTAINER_OF(frame, struct kin__obligation, frame);
    o->bill = bill;
    o->kind = (uint32_t)kind;
    o->site = __builtin_return_address(0);
    extra->has_owed = 1;
    kin__lock_take(&extra->lock, KIN__RANK_WAIT);
    kin__store_relaxed(&o->owner, extra); /* relaxed: under the lock; others have no name for it */
    kin__list_push_back(&extra->obligations, &o->link);
    kin__lock_give(&extra->lock, KIN__RANK_WAIT);
    /* relaxed: constant while it is reserved */
    *out = (struct kin_obligation *)(uintptr_t)kin__load_relaxed(&frame->name);
    return 0;
}

int kin_obligation_commit(struct kin_obligation *o)
{
    return end(o);
}

int kin_obligation_abort(struct kin_obligation *o)
{
    return end(o);
}

size_t kin_leaks(void)
{
    KIN__LAB_POINT();
    const struct kin__worker *worker = kin__worker_self();
    return worker ? kin__load_relaxed(&worker->sched->leaks) : 0; /* relaxed: a number */
}
