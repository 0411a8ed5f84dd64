/* SPDX-License-Identifier: MIT */
/*
 * Links: two tasks share their fate, each by a policy of its own [LINK-CREATE] [LINK-EXIT].
 *
 *     a made the link      FIRST   watcher a, target b, what becomes of a when b fails
 *                          SECOND  watcher b, target a, what becomes of b when a fails
 *
 * The name of the link is that of FIRST, which stays as long as anything of the link can arrive at
 * either end. The halves do not know of each other's state: a half whose target ends has fired, and
 * the other one, whose watcher ends, is revoked by the same end.
 *
 * A link that propagates leaves its request while the watcher's party is locked: whoever unlinks
 * comes either before, and nothing arrives, or after, and it has arrived [D12]. The request needs
 * the lock of the nursery that the watcher lives in, so that it cannot end meanwhile; that lock is
 * the outer one.
 */
#include "otp/watch.h"

#include "sched/entry.h"
#include "scope/scope.h"
#include "task/budget.h"

#include <errno.h>

/* ---- an end ---- */

/* Why the watcher is asked to stop: the first reason stays, but among links the worst one counts
 * [D12]. */
static void note_reason_locked(struct kin__party *party, bool is_first,
                               const struct kin_outcome *how)
{
    if (!is_first && (!party->exit_severity || party->exit_severity >= (uint8_t)how->severity))
        return;
    party->exit_severity = (uint8_t)how->severity;
    party->exit_status = how->status;
}

/* The watcher is asked to stop. */
static void propagate(struct kin__watch *watch, const struct kin_outcome *how)
{
    struct kin__party *party = kin__load_relaxed(&watch->watcher); /* relaxed: IN holds it */
    struct kin__walk walk = {0};
    struct kin__task *task;
    struct kin__scope *scope = kin__scope_lock_of(watch->watcher_id, &task);
    kin__party_take(party);
    bool is_due = kin__list_is_linked(&watch->link_out) && !party->is_over && scope && !task->over;
    if (is_due) {
        note_reason_locked(party, kin__cancel_is_first_locked(scope, task), how);
        kin__cancel_ask_locked(scope, task);
    }
    kin__list_remove(&watch->link_out);
    struct kin__let_go what = kin__watch_drop_locked(watch, KIN__WATCH_IN | KIN__WATCH_OUT);
    kin__party_unlock(party);
    if (is_due)
        kin__cancel_inside_locked(task, &walk);
    if (scope)
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__walk_on(&walk);
    kin__watch_let_go(what);
}

/* The watcher is told, if is_told; the watch is over otherwise. */
static void trap(struct kin__watch *watch, const struct kin__ending *end, bool is_told)
{
    struct kin__party *party = kin__load_relaxed(&watch->watcher); /* relaxed: IN holds it */
    struct kin_info *info = &watch->note.info;
    kin__party_take(party);
    is_told = is_told && kin__list_is_linked(&watch->link_out) && !party->is_over;
    kin__list_remove(&watch->link_out);
    unsigned holds = KIN__WATCH_IN | (is_told ? 0 : KIN__WATCH_OUT);
    struct kin__let_go what = kin__watch_drop_locked(watch, holds);
    if (is_told) {
        info->vt = end->vt;
        info->u.exit.from = (struct kin_addr){0, watch->target};
        info->u.exit.reason = kin__down_reason(end->how.severity);
        info->u.exit.status = end->how.status;
        kin__note_tell_and_unlock(party, &watch->note);
    } else {
        kin__party_unlock(party);
    }
    kin__watch_let_go(what);
}

void kin__link_exit(struct kin__watch *watch, const struct kin__ending *end)
{
    bool is_bad = end->how.severity > KIN_SEV_OK;
    if (is_bad && watch->policy == KIN_EXIT_PROPAGATE)
        propagate(watch, &end->passed);
    else
        trap(watch, end, is_bad && watch->policy == KIN_EXIT_TRAP);
}

/* ---- the public face ---- */

/* Both halves, linked nowhere. 0, -ENOMEM, KIN_BUDGET. */
static int make_halves(uint64_t self, uint64_t other, struct kin__watch **first,
                       struct kin__watch **second)
{
    int rc;
    *first = kin__watch_make(KIN__WATCH_FIRST, other, &rc);
    *second = *first ? kin__watch_make(KIN__WATCH_SECOND, self, &rc) : NULL;
    if (!*second) {
        kin__watch_unmake(*first);
        return rc;
    }
    (*first)->holds |= KIN__WATCH_PEER;
    (*first)->second = kin__watch_name(*second);
    (*second)->first = *first;
    (*second)->ref = (*first)->ref;
    (*second)->note.info.u.exit.ref.id = (*first)->ref;
    return 0;
}

/* Ties two halves to both parties, the caller's own first: it cannot end meanwhile. */
static int tie(struct kin__task *self, struct kin__watch *first, struct kin__watch *second)
{
    struct kin_outcome how;
    int rc;
    struct kin__party *mine = kin__party_self(self);
    if (!mine)
        return -ENOMEM;
    kin__watch_out_locked(first, mine);
    kin__watch_in_locked(second, mine);
    kin__party_unlock(mine);
    struct kin__party *theirs = kin__party_need(first->target, kin__task_sched(self), &rc, &how);
    if (theirs) {
        kin__watch_in_locked(first, theirs);
        kin__watch_out_locked(second, theirs);
        kin__party_unlock(theirs);
        return 0;
    }
    kin__party_take(mine);
    kin__list_remove(&first->link_out);
    kin__list_remove(&second->link_in);
    kin__party_unlock(mine);
    return rc;
}

int kin_link(struct kin_addr who, enum kin_exit_policy mine, enum kin_exit_policy theirs,
             struct kin_link_ref *out)
{
    struct kin__task *self = kin__task_self();
    struct kin__watch *first, *second;
    if (!out || (unsigned)mine > KIN_EXIT_IGNORE || (unsigned)theirs > KIN_EXIT_IGNORE)
        return -EINVAL;
    if (!self)
        return KIN_NOTASK;
    if (who.node != 0)
        return KIN_NOCONN;
    if (who.id == kin__task_id(self))
        return -EINVAL;
    kin__entry_turn(self);
    if (who.id == 0)
        return KIN_NOPROC;
    int rc = make_halves(kin__task_id(self), who.id, &first, &second);
    if (rc < 0)
        return rc;
    first->policy = (uint8_t)mine;
    second->policy = (uint8_t)theirs;
    uint64_t ref = first->ref; /* once it is tied it may be over at any moment */
    rc = tie(self, first, second);
    if (rc < 0) {
        kin__watch_unmake(second);
        kin__watch_unmake(first);
        return rc;
    }
    out->id = ref;
    return 0;
}

int kin_unlink(struct kin_link_ref ref)
{
    struct kin__party *watcher;
    kin__entry_turn_self();
    struct kin__watch *watch = kin__watch_lock(ref.id, &watcher);
    if (!watch)
        return KIN_STALE;
    if (watch->kind != KIN__WATCH_FIRST) {
        kin__party_unlock(watcher);
        return KIN_STALE;
    }
    uint64_t second = watch->second;
    bool was_pending = kin__watch_revoke_and_unlock(watch, watcher);
    watch = kin__watch_lock(second, &watcher);
    if (watch)
        (void)kin__watch_revoke_and_unlock(watch, watcher);
    return was_pending ? 0 : KIN_STALE;
}
