/* SPDX-License-Identifier: MIT */
/*
 * Monitors: being told once how somebody ended [MON-CREATE] [MON-DOWN]; and waiting for what one is
 * told.
 *
 * Who monitors somebody that is over already is told at once, with the true reason if that is still
 * known. So there is no moment at which a monitor could come too late [D12].
 */
#include "otp/watch.h"

#include "plat/plat.h"
#include "sched/entry.h"
#include "task/budget.h"

#include <errno.h>

/* The target is no longer there, or never was: the watcher is told so. */
static void tell_at_once(struct kin__watch *watch, struct kin__party *watcher, uint64_t node,
                         const struct kin_outcome *how)
{
    enum kin_down_reason reason = how->task ? kin__down_reason(how->severity) : KIN_DOWN_NOPROC;
    int status = how->task ? how->status : KIN_NOPROC;
    if (node != 0) {
        reason = KIN_DOWN_NOCONN;
        status = KIN_NOCONN;
    }
    kin__party_take(watcher);
    watch->note.info.vt = (uint64_t)kin__clock_now();
    kin__watch_down_and_unlock(watch, watcher, (struct kin_addr){node, watch->target}, reason,
                               status);
}

struct kin__watch *kin__monitor_make(struct kin__task *self, struct kin__party **mine, int *rc)
{
    struct kin__watch *watch = kin__watch_make(KIN__WATCH_MONITOR, 0, rc);
    if (!watch)
        return NULL;
    *mine = kin__party_self(self);
    if (!*mine) {
        kin__watch_unmake(watch);
        *rc = -ENOMEM;
        return NULL;
    }
    kin__watch_out_locked(watch, *mine);
    kin__party_unlock(*mine);
    return watch;
}

int kin_monitor(struct kin_addr who, struct kin_monitor_ref *out)
{
    struct kin__task *self = kin__task_self();
    struct kin_outcome how = {KIN_SEV_OK, 0, 0, 0, ""};
    struct kin__party *target = NULL;
    int rc;
    if (!out)
        return -EINVAL;
    if (!self)
        return KIN_NOTASK;
    kin__entry_turn(self);
    struct kin__party *mine;
    struct kin__watch *watch = kin__monitor_make(self, &mine, &rc);
    if (!watch)
        return rc;
    watch->target = who.id;
    uint64_t ref = watch->ref; /* once the target knows it, it may be over at any moment */
    rc = KIN_NOPROC;
    if (who.node == 0 && who.id != 0)
        target = kin__party_need(who.id, kin__task_sched(self), &rc, &how);
    if (target) {
        kin__watch_in_locked(watch, target);
        kin__party_unlock(target);
    } else if (rc == -ENOMEM) {
        kin__watch_abandon(watch, mine);
        return rc;
    } else {
        tell_at_once(watch, mine, who.node, &how);
    }
    out->id = ref;
    return 0;
}

int kin_demonitor(struct kin_monitor_ref ref)
{
    struct kin__party *watcher;
    kin__entry_turn_self();
    struct kin__watch *watch = kin__watch_lock(ref.id, &watcher);
    if (!watch)
        return KIN_STALE;
    if (watch->kind == KIN__WATCH_MONITOR)
        return kin__watch_revoke_and_unlock(watch, watcher) ? 0 : KIN_STALE;
    kin__party_unlock(watcher);
    return KIN_STALE;
}

/* ---- waiting for news ---- */

static bool is_down_of(const struct kin__note *note, uint64_t ref)
{
    return note->info.kind == KIN_INFO_DOWN && note->info.u.down.ref.id == ref;
}

/* Whether no Down of this monitor can come any more; under the watcher's lock. */
static bool is_revoked(uint64_t ref)
{
    struct kin__frame *frame = kin__frame_at(KIN__FRAME_WATCH, ref);
    return kin__load_relaxed(&frame->name) != ref; /* relaxed: under the lock */
}

/* Its Down, if that is in the lane: the reference leads there. */
static struct kin__note *find_down(struct kin__party *party, uint64_t ref)
{
    struct kin__frame *frame = kin__frame_at(KIN__FRAME_WATCH, ref);
    struct kin__watch *watch = KIN__CONTAINER_OF(frame, struct kin__watch, frame);
    (void)party;
    return !is_revoked(ref) && kin__list_is_linked(&watch->note.link) ? &watch->note : NULL;
}

static const struct kin__note_kind down_kind = {is_down_of, find_down, is_revoked};

int kin_wait_down(struct kin_monitor_ref ref, struct kin_info *out, kin_time deadline)
{
    struct kin__task *self = kin__task_self();
    struct kin__party *mine;
    struct kin__note *note = NULL;
    if (!out)
        return -EINVAL;
    int rc = kin__entry_begin(self, 0, deadline);
    if (rc < 0)
        return rc;
    struct kin__watch *watch = kin__watch_lock(ref.id, &mine);
    if (!watch)
        return KIN_STALE;
    /* one that is in neither list is being handled by on_info, from which this was called */
    if (watch->kind != KIN__WATCH_MONITOR || (!kin__list_is_linked(&watch->link_out) &&
                                              !kin__list_is_linked(&watch->note.link)))
        rc = KIN_STALE;
    else if (watch->watcher_id != kin__task_id(self))
        rc = -EPERM;
    kin__party_unlock(mine);
    if (rc == 0)
        rc = kin__note_wait(mine, &down_kind, ref.id, deadline, &note);
    if (rc < 0)
        return rc;
    *out = note->info;
    note->done(note);
    return 0;
}

/* ---- what a task is told besides ---- */

static bool is_exit_or_lease(const struct kin__note *note, uint64_t arg)
{
    (void)arg;
    return note->info.kind == KIN_INFO_EXIT || note->info.kind == KIN_INFO_LEASE;
}

/* The first; Downs are not looked at, however many there are. */
static struct kin__note *find_exit_or_lease(struct kin__party *party, uint64_t arg)
{
    return kin__note_look_others_locked(party, is_exit_or_lease, arg);
}

static const struct kin__note_kind other_kind = {is_exit_or_lease, find_exit_or_lease, NULL};

/* Puts aside what the caller may still look at, and gives back what it looked at before. */
static void keep(struct kin__party *party, struct kin__note *note)
{
    kin__party_take(party);
    struct kin__note *before = party->last;
    party->last = note;
    kin__party_unlock(party);
    if (before)
        before->done(before);
}

int kin_wait_info(struct kin_info *out, kin_time deadline)
{
    struct kin__task *self = kin__task_self();
    struct kin__note *note = NULL;
    if (!out)
        return -EINVAL;
    int rc = kin__entry_begin(self, 0, deadline);
    if (rc < 0)
        return rc;
    struct kin__party *mine = kin__party_self(self);
    if (!mine)
        return -ENOMEM;
    kin__party_unlock(mine);
    keep(mine, NULL);
    rc = kin__note_wait(mine, &other_kind, 0, deadline, &note);
    if (rc < 0)
        return rc;
    *out = note->info;
    if (note->info.kind == KIN_INFO_LEASE)
        keep(mine, note);
    else
        note->done(note);
    return 0;
}
