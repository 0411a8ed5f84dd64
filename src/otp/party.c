/* SPDX-License-Identifier: MIT */
/*
 * Parties: finding one by the number of its task, making one, and what happens when its task ends.
 *
 *     number = generation << 26 | index          directory[index >> 8] ---> chunk of 256 parties
 *                                                 (an entry is set once and never changes)
 *
 * A party belongs to the frame of a task, not to the task: its memory stays when the task is over,
 * and is the party of whoever gets the frame next. So a late caller can always lock it, and then
 * sees by the number whose it is.
 *
 * A task becomes a party under the lock of its nursery, in which it is not over; its end passes
 * that lock between being over and looking here. So either the end finds the party, or nobody makes
 * one any more.
 *
 *     need:   lock nursery, not over?, mark the nursery, lock party, fill in, unlock both
 *     end:    lock nursery, over, unlock; party there? is_over; names, server, watches; nobody's
 */
#include "otp/party.h"

#include "plat/plat.h"
#include "scope/scope.h"

#include <errno.h>
#include <string.h>

#define CHUNK_BITS 8u
#define CHUNK_PARTIES (1u << CHUNK_BITS)
#define CHUNKS (1u << (KIN__FRAME_INDEX_BITS - CHUNK_BITS))
#define INDEX_MASK ((UINT64_C(1) << KIN__FRAME_INDEX_BITS) - 1)

static _Atomic(struct kin__party *) directory[CHUNKS]; /* set once each */
static kin__a64 count; /* of those that are somebody's, in debug builds */

/* ---- memory ---- */

static _Atomic(struct kin__party *) *entry_of(uint64_t task)
{
    return &directory[(task & INDEX_MASK) >> CHUNK_BITS];
}

/* The party of this task's frame; NULL: no frame near it was ever that of a party. */
static struct kin__party *party_at(uint64_t task)
{
    /* pairs with the release in party_made */
    struct kin__party *chunk = kin__load_acquire_quiet(entry_of(task));
    return chunk ? &chunk[task & (CHUNK_PARTIES - 1)] : NULL;
}

/* The same; NULL: there is no memory. */
static struct kin__party *party_made(uint64_t task)
{
    struct kin__party *party = party_at(task);
    if (KIN__LIKELY(party != NULL))
        return party;
    size_t bytes = CHUNK_PARTIES * sizeof(struct kin__party);
    struct kin__party *chunk = kin__vm_reserve(bytes), *before = NULL;
    if (!chunk)
        return NULL;
    /* pairs with the acquire in party_at */
    if (!kin__cas_acq_rel(entry_of(task), &before, chunk))
        kin__vm_release(chunk, bytes); /* somebody else was faster */
    return party_at(task);
}

static void count_one(uint64_t more)
{
#ifdef KIN_DEBUG
    (void)kin__add_quiet(&count, more); /* relaxed: a number */
#else
    (void)more;
#endif
}

uint64_t kin__party_count(void)
{
    return kin__load_quiet(&count); /* relaxed: a number */
}

#ifdef KIN__LAB

static struct kin__party *used; /* in this execution */

static void note_used(struct kin__party *party)
{
    if (party->used_next)
        return;
    party->used_next = used ? used : party; /* the last one points at itself */
    used = party;
}

#define LAB_PARTIES 65536u /* as many as there are frames: lab/frame.c */

static void ops_install(void);

/* All memory is there from the first execution on, so that every one of them touches the same. */
void kin__party_rewind(void)
{
    if (!kin__load_quiet(&directory[0])) { /* alone: there is one thread, here and below */
        struct kin__party *all = kin__vm_reserve(LAB_PARTIES * sizeof(*all));
        KIN__CHECK(all != NULL, "house");
        for (uint32_t i = 0; i < LAB_PARTIES / CHUNK_PARTIES; i++)
            kin__store_quiet(&directory[i], all + i * CHUNK_PARTIES);
        ops_install();
    }
    while (used) { /* ends: one fewer each time */
        struct kin__party *party = used;
        used = party->used_next == party ? NULL : party->used_next;
        memset(party, 0, sizeof(*party));
    }
    kin__store_quiet(&count, 0);
    kin__watch_rewind();
}

#else
static void note_used(struct kin__party *party)
{
    (void)party;
}
#endif

/* ---- finding and making ---- */

struct kin__party *kin__party_lock(uint64_t task)
{
    struct kin__party *party = task ? party_at(task) : NULL;
    /* A hint that spares the lock; whoever knows of the party's making sees it. Pairs with the
     * releases in fill_locked and leave_and_unlock: who finds it over sees what the task did. */
    if (!party || kin__load_acquire(&party->task) != task)
        return NULL;
    kin__party_take(party);
    if (KIN__LIKELY(kin__party_task(party) == task && !party->is_over))
        return party;
    kin__party_unlock(party);
    return NULL;
}

/* Whether it is one of the runtime's own, which nobody has an address of. It is so from its first
 * moment on, while the task changes other flags. */
__attribute__((no_sanitize("thread"))) static bool is_internal(const struct kin__task *task)
{
    return *(const volatile uint16_t *)&task->flags & KIN__TASK_INTERNAL;
}

/* Becomes the party of this task, if it is not. */
static void fill_locked(struct kin__party *party, uint64_t task, struct kin__sched *sched)
{
    if (kin__party_task(party) == task)
        return;
    KIN__ASSERT(kin__party_task(party) == 0, "D11: the end of a task leaves nothing of its party");
    note_used(party);
    party->is_over = false;
    party->past = 0;
    party->exit_severity = 0;
    party->exit_status = 0;
    party->sched = sched;
    party->server = NULL;
    party->reader = NULL;
    party->wanted = NULL;
    party->letter_newest = party->letter_oldest = 0;
    party->letter_last = UINT64_MAX;
    party->last = NULL;
    party->news = 0;
    kin__list_init(&party->downs);
    kin__list_init(&party->others);
    kin__list_init(&party->watchers);
    kin__list_init(&party->watches);
    kin__list_init(&party->names);
    kin__store_release(&party->task, task); /* pairs with the acquire in kin__party_lock */
    count_one(1);
}

static void ops_install(void);

/* The slow half of need: by way of the task itself. */
static struct kin__party *make_one(uint64_t id, struct kin__sched *sched, int *rc,
                                   struct kin_outcome *how)
{
    struct kin__party *party = kin__task_find(id) ? party_made(id) : NULL;
    struct kin__task *task;
    *rc = party ? KIN_NOPROC : kin__task_find(id) ? -ENOMEM : KIN_NOPROC;
    struct kin__scope *scope = party ? kin__scope_lock_of(id, &task) : NULL;
    if (!scope)
        return NULL;
    if (kin__scope_sched(scope) != sched || is_internal(task)) {
        party = NULL;
    } else if (task->over) {
        *how = kin__task_outcome(task);
        party = NULL;
    } else {
        ops_install();
        scope->has |= KIN__SCOPE_PARTIES;
        kin__party_take(party);
        fill_locked(party, id, sched);
        *rc = 0;
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return party;
}

/* How a task that was a party has ended, if that is still known. */
static void look_back(uint64_t task, const struct kin__sched *sched, struct kin_outcome *how)
{
    struct kin__party *party = task ? party_at(task) : NULL;
    if (!party)
        return;
    kin__party_take(party);
    if (party->past == task && party->sched == sched) {
        how->severity = (enum kin_severity)party->past_severity;
        how->status = party->past_status;
        how->task = task;
    }
    kin__party_unlock(party);
}

struct kin__party *kin__party_need(uint64_t task, struct kin__sched *sched, int *rc,
                                   struct kin_outcome *how)
{
    struct kin__party *party = kin__party_lock(task);
    *how = (struct kin_outcome){KIN_SEV_OK, 0, 0, 0, ""};
    if (KIN__UNLIKELY(!party)) {
        party = make_one(task, sched, rc, how);
        if (*rc == KIN_NOPROC && how->task == 0)
            look_back(task, sched, how);
        return party;
    }
    if (KIN__LIKELY(party->sched == sched)) {
        *rc = 0;
        return party;
    }
    kin__party_unlock(party);
    *rc = KIN_NOPROC;
    return NULL;
}

struct kin__party *kin__party_self(struct kin__task *self)
{
    struct kin_outcome how;
    int rc;
    return kin__party_need(kin__task_id(self), kin__task_sched(self), &rc, &how);
}

enum kin_down_reason kin__down_reason(enum kin_severity severity)
{
    switch (severity) {
    case KIN_SEV_OK:
        return KIN_DOWN_NORMAL;
    case KIN_SEV_ERROR:
        return KIN_DOWN_ERROR;
    case KIN_SEV_CANCELLED:
        return KIN_DOWN_CANCELLED;
    case KIN_SEV_PANIC:
        break;
    }
    return KIN_DOWN_PANICKED;
}

/* ---- the end ---- */

static bool is_empty_locked(const struct kin__party *party)
{
    return party->news == 0 && kin__list_is_empty(&party->watchers) &&
           kin__list_is_empty(&party->watches) && kin__list_is_empty(&party->names) &&
           !party->last;
}

/* Nobody's from here on. The lock is given. */
static void leave_and_unlock(struct kin__party *party, const struct kin_outcome *how)
{
    KIN__ASSERT(is_empty_locked(party), "D11: the end of a task leaves nothing of its party");
    party->past = kin__party_task(party);
    party->past_severity = (uint8_t)how->severity;
    party->past_status = how->status;
    kin__store_release(&party->task, 0); /* pairs with the acquire in kin__party_lock */
    kin__party_unlock(party);
    count_one(UINT64_MAX);
}

void kin__party_end(uint64_t task, const struct kin_outcome *how)
{
    struct kin__party *party = party_at(task);
    /* relaxed: whoever made it had the lock of the nursery, which the caller has had since */
    if (!party || kin__load_relaxed(&party->task) != task)
        return;
    kin__party_take(party);
    struct kin_server *server = party->server;
    if (!server && is_empty_locked(party)) { /* as of most who have watched somebody */
        leave_and_unlock(party, how);
        return;
    }
    party->is_over = true;
    kin__party_unlock(party);
    kin__names_end(party);
    KIN__LAB_ENDS();
    if (server)
        kin__server_end(server, how);
    kin__watches_end(party, how);
    kin__party_take(party);
    leave_and_unlock(party, how);
}

/* ---- what scope calls ---- */

static int exit_status(uint64_t task)
{
    struct kin__party *party = kin__party_lock(task);
    if (!party)
        return 0;
    int status = party->exit_severity ? party->exit_status : 0;
    kin__party_unlock(party);
    return status;
}

static const struct kin__party_ops ops = {kin__party_end, exit_status, kin__names_close,
                                          kin__server_holder};

static void ops_install(void)
{
    kin__store_release_quiet(&kin__party_ops, &ops); /* pairs with the acquires in scope */
}
