/* SPDX-License-Identifier: MIT */
/*
 * Watches: their memory, who lets go of them when, and what the end of a party means to those that
 * it is in, at either end.
 *
 * Three may meet at one watch: the end of its target, the end of its watcher, and somebody who
 * revokes it. Each does its part under the watcher's lock, where the first one decides:
 *
 *     target's end     has taken it out of the list: OUT is there -> into the lane; IN goes
 *     watcher's end    OUT goes; then as a revoke
 *     revoke           OUT goes; then, under the target's lock: is the target not over? -> out of
 *                      its list, and IN goes. Otherwise the target's end lets IN go
 */
#include "otp/watch.h"

#include "plat/plat.h"
#include "sched/blocks.h"

/* ---- memory ---- */

static kin__a64 count; /* of those that are in use, in debug builds */

static void count_one(uint64_t more)
{
#ifdef KIN_DEBUG
    (void)kin__add_quiet(&count, more); /* relaxed: a number */
#else
    (void)more;
#endif
}

uint64_t kin__watch_count(void)
{
    return kin__load_quiet(&count); /* relaxed: a number */
}

#ifdef KIN__LAB
void kin__watch_rewind(void)
{
    kin__store_quiet(&count, 0); /* alone: there is one thread */
}
#endif

static void give_back(struct kin__watch *watch)
{
    struct kin__bill bill = watch->bill;
    count_one(UINT64_MAX);
    kin__block_give(KIN__FRAME_WATCH, &watch->frame);
    kin__bill_give(bill);
}

static struct kin__watch *watch_of_note(struct kin__note *note)
{
    return KIN__CONTAINER_OF(note, struct kin__watch, note);
}

struct kin__let_go kin__watch_drop_locked(struct kin__watch *watch, unsigned holds)
{
    struct kin__let_go what = {NULL, NULL};
    unsigned before = watch->holds, named = KIN__WATCH_OUT | KIN__WATCH_PEER;
    watch->holds = (uint8_t)(before & ~holds);
    if ((before & named) && !(watch->holds & named)) {
        uint64_t name = kin__watch_name(watch) + (UINT64_C(1) << KIN__FRAME_INDEX_BITS);
        kin__store_relaxed(&watch->frame.name, name); /* relaxed: compared under the lock */
    }
    if ((before & holds & KIN__WATCH_OUT) && watch->kind == KIN__WATCH_SECOND)
        what.first = watch->first;
    if (watch->holds == 0)
        what.watch = watch;
    return what;
}

void kin__watch_let_go(struct kin__let_go what)
{
    if (what.watch)
        give_back(what.watch);
    if (!what.first)
        return;
    struct kin__watch *first = what.first;
    /* relaxed: constant, because PEER still holds it */
    struct kin__party *party = kin__load_relaxed(&first->watcher);
    kin__party_take(party);
    struct kin__let_go last = kin__watch_drop_locked(first, KIN__WATCH_PEER);
    kin__party_unlock(party);
    if (last.watch)
        give_back(last.watch);
}

/* The news were read, or nobody is there to read them. */
static void note_done(struct kin__note *note)
{
    struct kin__watch *watch = watch_of_note(note);
    struct kin__party *party = kin__load_relaxed(&watch->watcher); /* relaxed: OUT holds it */
    kin__party_take(party);
    struct kin__let_go what = kin__watch_drop_locked(watch, KIN__WATCH_OUT);
    kin__party_unlock(party);
    kin__watch_let_go(what);
}

struct kin__watch *kin__watch_make(enum kin__watch_kind kind, uint64_t target, int *rc)
{
    struct kin__bill bill;
    struct kin__frame *frame =
        kin__block_take_billed(KIN__FRAME_WATCH, KIN__WATCH_BYTES, &bill, rc);
    if (!frame)
        return NULL;
    struct kin__watch *watch = KIN__CONTAINER_OF(frame, struct kin__watch, frame);
    count_one(1);
    watch->bill = bill;
    watch->target = target;
    watch->kind = (uint8_t)kind;
    watch->policy = 0;
    watch->holds = KIN__WATCH_OUT;
    watch->ref = kin__watch_name(watch);
    watch->second = 0;
    watch->note.info.kind = kind == KIN__WATCH_MONITOR ? KIN_INFO_DOWN : KIN_INFO_EXIT;
    watch->note.info.u.down.ref.id = watch->ref; /* a link's half gets the link's */
    kin__list_init(&watch->link_in);
    kin__list_init(&watch->link_out);
    kin__list_init(&watch->note.link);
    watch->note.done = note_done;
    return watch;
}

void kin__watch_unmake(struct kin__watch *watch)
{
    if (watch)
        give_back(watch);
}

void kin__watch_out_locked(struct kin__watch *watch, struct kin__party *watcher)
{
    watch->watcher_id = kin__party_task(watcher);
    /* pairs with the acquire in kin__watch_lock: who finds this watcher sees the new name */
    kin__store_release(&watch->watcher, watcher);
    kin__list_push_back(&watcher->watches, &watch->link_out);
}

void kin__watch_abandon(struct kin__watch *watch, struct kin__party *watcher)
{
    kin__party_take(watcher);
    kin__list_remove(&watch->link_out);
    kin__party_unlock(watcher);
    kin__watch_unmake(watch);
}

void kin__watch_in_locked(struct kin__watch *watch, struct kin__party *target)
{
    watch->holds |= KIN__WATCH_IN; /* nobody else knows it before it is in the list */
    kin__list_push_back(&target->watchers, &watch->link_in);
}

struct kin__watch *kin__watch_lock(uint64_t name, struct kin__party **watcher)
{
    struct kin__frame *frame = name ? kin__frame_at(KIN__FRAME_WATCH, name) : NULL;
    if (!frame)
        return NULL;
    struct kin__watch *watch = KIN__CONTAINER_OF(frame, struct kin__watch, frame);
    /* pairs with the release in kin__watch_out_locked */
    struct kin__party *party = kin__load_acquire(&watch->watcher);
    if (!party)
        return NULL;
    kin__party_take(party);
    if (kin__watch_name(watch) == name) {
        *watcher = party;
        return watch;
    }
    kin__party_unlock(party);
    return NULL;
}

/* ---- revoking ---- */

/* A reader that waits for this very news, and will not get them, looks again. */
static void wake_for_and_unlock(const struct kin__watch *watch, struct kin__party *watcher)
{
    if (watcher->wanted && watcher->wanted(&watch->note, watcher->wanted_arg)) {
        watcher->wanted = NULL;
        kin__party_wake_and_unlock(watcher);
    } else {
        kin__party_unlock(watcher);
    }
}

/* Takes a watch that has let OUT go out of its target's list, unless the target's end has it or
 * will find it there. */
static void leave_target(struct kin__watch *watch, struct kin__party *watcher, uint64_t target)
{
    struct kin__party *party = kin__party_lock(target);
    if (!party)
        return; /* it is over, and its end lets IN go: the watch may be gone already */
    kin__list_remove(&watch->link_in);
    kin__party_unlock(party);
    kin__party_take(watcher);
    struct kin__let_go what = kin__watch_drop_locked(watch, KIN__WATCH_IN);
    kin__party_unlock(watcher);
    kin__watch_let_go(what);
}

bool kin__watch_revoke_and_unlock(struct kin__watch *watch, struct kin__party *watcher)
{
    bool was_pending = kin__list_is_linked(&watch->link_out);
    bool was_told = kin__note_remove_locked(watcher, &watch->note);
    uint64_t target = watch->target;
    struct kin__let_go what = {NULL, NULL};
    kin__list_remove(&watch->link_out);
    if (was_pending || was_told) /* otherwise somebody reads it at this moment, or it is over */
        what = kin__watch_drop_locked(watch, KIN__WATCH_OUT);
    if (was_pending)
        wake_for_and_unlock(watch, watcher);
    else
        kin__party_unlock(watcher);
    if (was_pending)
        leave_target(watch, watcher, target);
    kin__watch_let_go(what);
    return was_pending;
}

/* ---- telling ---- */

void kin__watch_down_and_unlock(struct kin__watch *watch, struct kin__party *watcher,
                                struct kin_addr who, enum kin_down_reason reason, int status)
{
    struct kin_info *info = &watch->note.info;
    kin__list_remove(&watch->link_out);
    info->u.down.who = who;
    info->u.down.reason = reason;
    info->u.down.status = status;
    kin__note_tell_and_unlock(watcher, &watch->note);
}

/* The target of a monitor is over: the watcher is told, if it still wants to know [MON-DOWN]. */
static void tell_down(struct kin__watch *watch, const struct kin__ending *end)
{
    struct kin__party *party = kin__load_relaxed(&watch->watcher); /* relaxed: IN holds it */
    kin__party_take(party);
    bool is_wanted = kin__list_is_linked(&watch->link_out) && !party->is_over;
    unsigned holds = KIN__WATCH_IN | (party->is_over ? KIN__WATCH_OUT : 0);
    kin__list_remove(&watch->link_out);
    struct kin__let_go what = kin__watch_drop_locked(watch, holds);
    if (is_wanted) {
        watch->note.info.vt = end->vt;
        kin__watch_down_and_unlock(watch, party, (struct kin_addr){0, watch->target},
                                   kin__down_reason(end->how.severity), end->how.status);
    } else {
        kin__party_unlock(party);
    }
    kin__watch_let_go(what);
}

/* ---- the end of a party ---- */

/* Who wanted to know of its end. One that a link has stopped passes on why it was stopped, so that
 * the reason comes through a chain of links. */
static void tell_watchers(struct kin__party *party, const struct kin_outcome *how)
{
    struct kin__ending end = {*how, *how, 0};
    struct kin__list watchers, *link;
    kin__list_init(&watchers);
    kin__party_take(party);
    kin__list_splice(&watchers, &party->watchers); /* nobody else looks for them: is_over */
    if (how->severity == KIN_SEV_CANCELLED && party->exit_severity) {
        end.passed.severity = (enum kin_severity)party->exit_severity;
        end.passed.status = party->exit_status;
    }
    kin__party_unlock(party);
    if (!kin__list_is_empty(&watchers))
        end.vt = (uint64_t)kin__clock_now(); /* one moment for all of them */
    while ((link = kin__list_pop_front(&watchers))) { /* ends: one fewer each time */
        struct kin__watch *watch = KIN__CONTAINER_OF(link, struct kin__watch, link_in);
        KIN__LAB_ENDS();
        if (watch->kind == KIN__WATCH_MONITOR)
            tell_down(watch, &end);
        else
            kin__link_exit(watch, &end);
    }
}

/* Whose end it wanted to know of. */
static void revoke_watches(struct kin__party *party)
{
    for (;;) { /* ends: nobody is added, and one goes each time */
        kin__party_take(party);
        struct kin__list *link = kin__list_first(&party->watches);
        if (!link) {
            kin__party_unlock(party);
            return;
        }
        struct kin__watch *watch = KIN__CONTAINER_OF(link, struct kin__watch, link_out);
        (void)kin__watch_revoke_and_unlock(watch, party);
    }
}

/* What it was told and did not read. */
static void drop_notes(struct kin__party *party)
{
    kin__party_take(party);
    struct kin__note *note = party->last;
    party->last = NULL;
    kin__party_unlock(party);
    do { /* ends: nobody is told any more, and one goes each time */
        if (note)
            note->done(note);
        kin__party_take(party);
        note = kin__note_look_locked(party, kin__note_any, 0);
        if (note)
            (void)kin__note_remove_locked(party, note);
        kin__party_unlock(party);
    } while (note);
}

void kin__watches_end(struct kin__party *party, const struct kin_outcome *how)
{
    tell_watchers(party, how);
    revoke_watches(party);
    drop_notes(party);
}
