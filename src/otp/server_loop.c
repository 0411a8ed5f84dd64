/* SPDX-License-Identifier: MIT */
/*
 * The body of a server's task: from its first step to the callback that is its last.
 *
 * Each round takes one thing, in this order:
 *
 *     a stop          asked for by kin_server_stop or by a cancellation: nothing that callbacks
 *                     bring about, be it without end, is taken before it [GS-STOP-BEGIN]
 *     on_continue     if the callback before asked for it: before any message
 *     infos           notes that can be read and timers that are due, sorted by (time, kind,
 *                     subject) [GS-INFO-SORT] [SINV-4]
 *     a letter        the oldest
 *     nothing         it parks, no longer than until the first timer; without one it rests
 *
 * A server that rests (park/rest.h) has returned from its body and has no stack; woken, it enters
 * its body again and goes on with the loop. Everything that it needs is in its block.
 *
 * A server that has just been handed a letter, while it was parked and its mailbox empty, does not
 * look at the mailbox before it parks again: the park itself finds whatever came meanwhile. So a
 * call to a server that waits costs it one lock, and no clock is read unless there is a timer.
 *
 * What a callback leaves open decides what its caller gets: see handle_call.
 */
#include "otp/serving.h"

#include "otp/registry.h"
#include "park/rest.h"
#include "plat/plat.h"
#include "base/bits.h"
#include "base/text.h"
#include "sched/entry.h"
#include "sched/report.h"
#include "scope/belongings.h"
#include "scope/scope.h"

#include <errno.h>
#include <string.h>

/* ---- what a callback returns ---- */

static void end(struct kin_server *s, int status)
{
    s->is_ending = true;
    s->status = status;
}

/* A callback has returned what means nothing: says which one of whom, and what. What it counts as:
 * the server ends with it. */
static __attribute__((noinline)) int reject(const struct kin_server *s, const char *callback,
                                            int rc)
{
    char memory[512];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "server %s%s", s->name ? s->name : "", s->name ? " (" : "");
    kin__task_say_id(&text, s->id);
    kin__text_printf(&text, "%s: %s returned %d, which is ", s->name ? ")" : "", callback, rc);
    kin__text_str(&text, rc > 0 ? "neither 0, KIN_CONTINUE nor an error: it ends with -EBADMSG"
                                : "no error that anybody knows: it ends with that");
    rc = rc > 0 ? -EBADMSG : rc;
    kin__report(s->sched, rc, s->id, memory);
    return rc;
}

/* What a callback has returned, if that is neither 0 nor anything out of the ordinary. */
static int examined(const struct kin_server *s, const char *callback, int rc)
{
    bool is_known = rc < 0 ? strcmp(kin_status_name(rc), "unknown") != 0 : rc <= KIN_CONTINUE;
    return is_known ? rc : reject(s, callback, rc);
}

static __attribute__((noinline)) void judge_slow(struct kin_server *s, const char *callback, int rc)
{
    bool is_cancel = rc == KIN_CANCELLED && !s->extra && kin_cancelled();
    rc = examined(s, callback, rc);
    if (rc < 0 && !is_cancel)
        end(s, rc); /* [GS-STOPPED] */
    else if (s->is_stopping)
        end(s, s->stop_status);
    else if (is_cancel)
        s->is_cancelled = true;
    else
        s->continues = s->ops.on_continue != NULL;
}

/* Looks at what a callback has returned. */
static inline void judge(struct kin_server *s, const char *callback, int rc)
{
    if (KIN__UNLIKELY(rc != 0 || s->is_stopping))
        judge_slow(s, callback, rc);
}

void kin__server_continue(struct kin_server *s)
{
    s->continues = false;
    judge(s, "on_continue", s->ops.on_continue(s, s->memory));
}

/* ---- letters ---- */

/* A callback for calls has returned without an answer, nor has it moved the token. If the server
 * ends for that, the caller gets its status when it is over; if the callback was cancelled, the
 * call was aborted by the drain; otherwise it was forgotten [GS-REPLY-LEAK]. */
static __attribute__((noinline)) void leave_open(struct kin_server *s, int rc)
{
    bool has_left = false;
    if (s->is_ending)
        return;
    if (rc == KIN_CANCELLED) {
        (void)kin__reply_close(s->token, KIN_STOPPING, &has_left);
    } else if (kin__reply_close(s->token, KIN_NOREPLY, &has_left)) {
        if (has_left) {
            KIN__LAB_FORGETS(s->id); /* no harm is done; in another schedule it is */
            return;
        }
        kin__leaks_add(s->sched, 1);
        kin__reply_report(s->sched, s->id, s->name);
    }
}

static __attribute__((noinline)) void free_copy(struct kin_server *s)
{
    kin__heap_free(s->copy);
    s->copy = NULL;
}

/* [GS-CALL-HANDLE] */
static void handle_call(struct kin_server *s,
                        int (*fn)(struct kin_server *, void *, const void *, size_t,
                                  struct kin_reply *))
{
    bool has_left = false;
    int rc = 0;
    s->next = KIN__NEXT_NOTHING;
    if (KIN__LIKELY(fn != NULL)) {
        const void *request = KIN__UNLIKELY(s->copy != NULL) ? s->copy : s->small;
        rc = fn(s, s->memory, request, s->request_size, kin__reply_handle(s->token));
    } else {
        (void)kin__reply_close(s->token, -ENOSYS, &has_left);
    }
    if (KIN__UNLIKELY(s->copy != NULL))
        free_copy(s);
    judge(s, "on_call", rc);
    if (KIN__UNLIKELY(kin__reply_is_open(s->token)))
        leave_open(s, rc);
}

/* [GS-CAST-HANDLE] */
static void handle_cast(struct kin_server *s)
{
    struct kin__letter *letter = s->cast;
    int rc = 0;
    s->next = KIN__NEXT_NOTHING;
    if (KIN__LIKELY(s->ops.on_cast != NULL))
        rc = s->ops.on_cast(s, s->memory, kin__letter_bytes(letter), letter->size);
    s->cast = NULL;
    kin__letter_free(letter);
    judge(s, "on_cast", rc);
}

/* ---- infos ---- */

static void handle_info(struct kin_server *s, const struct kin_info *info)
{
    judge(s, "on_info", s->ops.on_info ? s->ops.on_info(s, s->memory, info) : 0);
}

static void handle_note(struct kin_server *s)
{
    handle_info(s, &s->note->info);
    struct kin__note *note = s->note;
    s->note = NULL;
    note->done(note);
}

/* The note is the callback's. */
static void handle_posted(struct kin_server *s)
{
    struct kin__note *note = s->note;
    s->note = NULL;
    if (s->extra && s->extra->on_note)
        judge(s, "on_note", s->extra->on_note(s, s->memory, note));
    else
        note->done(note);
}

static void handle_alarm(struct kin_server *s)
{
    s->alarm_at = KIN_NEVER;
    if (s->extra->on_alarm)
        judge(s, "on_alarm", s->extra->on_alarm(s, s->memory));
}

/* ---- a round ---- */

void kin__server_handle(struct kin_server *s, enum kin__server_next next)
{
    s->is_idle_new = true;
    switch (next) {
    case KIN__NEXT_CALL:
        handle_call(s, s->ops.on_call);
        s->timers.round++;
        break;
    case KIN__NEXT_CAST:
        handle_cast(s);
        s->timers.round++;
        break;
    case KIN__NEXT_REQUEST:
        handle_call(s, s->extra->on_request);
        s->timers.round++;
        break;
    case KIN__NEXT_INFO:
        handle_note(s);
        break;
    case KIN__NEXT_TIMER:
        handle_info(s, &s->timeout);
        break;
    case KIN__NEXT_POSTED:
        handle_posted(s);
        break;
    case KIN__NEXT_ALARM:
        handle_alarm(s);
        break;
    case KIN__NEXT_NOTHING:
    case KIN__NEXT_STOP:
    case KIN__NEXT_CANCEL:
    case KIN__NEXT_REST:
        break;
    }
}

/* Whether a note comes before a timer. */
static bool is_before(const struct kin__note *note, const struct kin__server_timer *timer)
{
    if (note->info.vt != (uint64_t)timer->node.key)
        return note->info.vt < (uint64_t)timer->node.key;
    return note->info.kind < KIN_INFO_TIMEOUT;
}

/* The next info, of which a timer that is due may be one [GS-INFO-DELIVER]. A server that is not
 * ready does not take letters, so no note waits for one. */
static enum kin__server_next take_info_locked(struct kin_server *s, struct kin__server_timer *due)
{
    kin__note_wanted *wanted = s->is_later ? kin__note_any : NULL;
    struct kin__list *link = kin__list_pop_front(&s->posted);
    if (link) {
        s->note = KIN__CONTAINER_OF(link, struct kin__note, link);
        return KIN__NEXT_POSTED;
    }
    if (s->party->news != 0) {
        const struct kin__note *first = kin__note_look_locked(s->party, wanted, 0);
        if (first && (!due || is_before(first, due))) {
            s->note = kin__note_take_locked(s->party, wanted, 0);
            return KIN__NEXT_INFO;
        }
    }
    if (!due)
        return KIN__NEXT_NOTHING;
    kin__server_timer_take(s, due, &s->timeout);
    KIN__LAB_HEARD(s->id, &s->timeout, s->party->letter_oldest);
    return KIN__NEXT_TIMER;
}

/* The oldest letter whose sender still waits for it [D6]. */
static enum kin__server_next take_letter_locked(struct kin_server *s, struct kin__wakes *wakes)
{
    struct kin__letter *letter;
    while ((letter = kin__mailbox_first(&s->mailbox))) { /* ends: one fewer each time */
        kin__mailbox_remove_locked(s->party, &s->mailbox, letter, wakes);
        if (letter->kind == KIN__LETTER_CAST || kin__call_is_waiting(letter)) {
            kin__server_open_locked(s, letter);
            return (enum kin__server_next)s->next;
        }
    }
    return KIN__NEXT_NOTHING;
}

/* Whether it is to stop. A server with an extra hears of each kind once, and goes on. */
static enum kin__server_next take_stop_locked(const struct kin_server *s)
{
    if (s->is_draining)
        return KIN__NEXT_NOTHING;
    if (s->is_asked && !s->has_heard_stop)
        return KIN__NEXT_STOP;
    if (!s->extra)
        return kin__park_asked(s->task) ? KIN__NEXT_CANCEL : KIN__NEXT_NOTHING;
    uint64_t requests = kin__word_requests(s->task);
    bool is_new = ((requests & KIN__CANCEL) && !s->has_heard_cancel) ||
                  ((requests & KIN__UNMASKABLE) && !s->has_heard_force);
    return is_new ? KIN__NEXT_CANCEL : KIN__NEXT_NOTHING;
}

/* A timer that is due, or the alarm. */
static __attribute__((noinline)) struct kin__server_timer *find_due(struct kin_server *s,
                                                                    bool *is_alarm)
{
    if (s->is_draining)
        return NULL;
    kin_time now = kin__clock_now();
    *is_alarm = s->alarm_at <= now;
    return kin__server_timer_due(s, now);
}

/* Takes what is next when there is more than letters to think of. The lock is given. */
static __attribute__((noinline)) enum kin__server_next
take_slow_and_unlock(struct kin_server *s, struct kin__server_timer *due, bool is_alarm)
{
    struct kin__wakes wakes = {0};
    enum kin__server_next next = take_stop_locked(s);
    if (next == KIN__NEXT_NOTHING)
        next = take_info_locked(s, due);
    if (is_alarm && next == KIN__NEXT_NOTHING)
        next = KIN__NEXT_ALARM;
    if (next == KIN__NEXT_NOTHING) {
        if (s->state == KIN_SERVER_RUNNING || s->is_draining)
            next = take_letter_locked(s, &wakes);
        if (next == KIN__NEXT_NOTHING)
            s->timers.round++; /* otherwise when the letter is handled */
    }
    kin__party_unlock(s->party);
    kin__wakes_run(&wakes);
    return next;
}

/* Whether nothing but letters can be next, and nobody waits for room. */
static inline bool is_plain_locked(const struct kin_server *s)
{
    return s->state == KIN_SERVER_RUNNING && !s->is_asked && !kin__word_requests(s->task) &&
           s->party->news == 0 && kin__list_is_empty(&s->posted) &&
           kin__list_is_empty(&s->mailbox.room);
}

/* A server that always finds something to do is one operation older each time: the others get their
 * turn, whatever its callbacks do. */
static inline void grow_older(struct kin__task *task)
{
    if (KIN__LIKELY(--task->slice != 0))
        return;
    task->slice = kin__task_sched(task)->slice;
    kin__worker_yield(task);
}

enum kin__server_next kin__server_take(struct kin_server *s)
{
    bool is_alarm = false;
    struct kin__server_timer *due = NULL;
    grow_older(s->task);
    if (KIN__UNLIKELY(s->timers.heap.count != 0 || s->alarm_at != KIN_NEVER))
        due = find_due(s, &is_alarm);
    kin__party_take(s->party);
    struct kin__letter *letter = kin__mailbox_first(&s->mailbox);
    if (KIN__UNLIKELY(due || is_alarm || !is_plain_locked(s)) ||
        (letter && letter->kind != KIN__LETTER_CAST && !kin__call_is_waiting(letter)))
        return take_slow_and_unlock(s, due, is_alarm);
    if (letter) {
        kin__mailbox_drop_locked(s->party, &s->mailbox, letter);
        kin__server_open_locked(s, letter);
    } else {
        s->timers.round++;
    }
    kin__party_unlock(s->party);
    return (enum kin__server_next)s->next;
}

/* Whether it is to stop, when on_continue is next and nothing else would look. */
static enum kin__server_next take_stop(struct kin_server *s)
{
    grow_older(s->task);
    kin__party_take(s->party);
    enum kin__server_next next = take_stop_locked(s);
    kin__party_unlock(s->party);
    return next;
}

/* ---- waiting ---- */

/* Whether there is something to do, other than a timer. */
static bool is_ready_locked(const struct kin_server *s)
{
    if (s->state == KIN_SERVER_RUNNING && s->mailbox.count != 0)
        return true;
    if (!kin__list_is_empty(&s->posted) || (s->is_asked && !s->has_heard_stop))
        return true;
    return s->party->news != 0 &&
           kin__note_look_locked(s->party, s->is_later ? kin__note_any : NULL, 0);
}

/* Whatever it was that came, the loop looks for it. */
static bool mail_try(void *object, void *io, int *status)
{
    (void)object, (void)io;
    *status = 0;
    return true;
}

static bool mail_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin_server *s = object;
    (void)status;
    kin__party_take(s->party);
    bool waits = !is_ready_locked(s);
    if (KIN__LIKELY(waits))
        s->party->reader = waiter;
    kin__party_unlock(s->party);
    return waits;
}

static void mail_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin_server *s = object;
    kin__party_take(s->party);
    if (s->party->reader == waiter)
        s->party->reader = NULL;
    kin__party_unlock(s->party);
}

static const struct kin__waitable mail_waitable = {"mailbox", mail_try, mail_publish,
                                                   mail_unpublish};

KIN__WAITABLE_READY(mail_waitable)
{
    const struct kin_server *s = object;
    return is_ready_locked(s) ? "there is something in the mailbox" : NULL;
}

/* How long it may wait; the idle period begins if it is to. */
static kin_time wait_until(struct kin_server *s)
{
    if (KIN__LIKELY(s->timers.heap.count == 0 && s->idle_timeout == 0 && !s->extra))
        return KIN_NEVER;
    kin_time at = kin__server_timer_at(s);
    if (s->idle_timeout && s->is_idle_new && s->state == KIN_SERVER_RUNNING) {
        s->idle_at = kin__add_sat(kin__clock_now(), s->idle_timeout);
        s->is_idle_new = false;
    }
    if (s->idle_at < at)
        at = s->idle_at;
    return s->alarm_at < at ? s->alarm_at : at;
}

/* What may end the wait of a server with an extra, whose task is masked for good. Its own nurseries
 * may be cancelled, by itself: that is none of its business here. */
static unsigned wait_flags(const struct kin_server *s)
{
    if (s->has_heard_force)
        return KIN__WAIT_TRIED | KIN__WAIT_DEAF;
    bool hears = !s->has_heard_cancel && !(kin__word_requests(s->task) & KIN__SCOPE);
    return KIN__WAIT_TRIED | (hears ? KIN__WAIT_HEARS : 0);
}

/* Nothing came for a whole idle period. */
static bool is_idle(struct kin_server *s)
{
    kin_time at = s->idle_at;
    if (at == KIN_NEVER || at > kin__clock_now())
        return false;
    s->timeout = (struct kin_info){.kind = KIN_INFO_TIMEOUT, .vt = (uint64_t)at};
    s->timeout.u.timeout.deadline = at;
    kin__party_take(s->party);
    KIN__LAB_HEARD(s->id, &s->timeout, s->party->letter_oldest);
    kin__party_unlock(s->party);
    s->idle_at = KIN_NEVER;
    return true;
}

/* What is next after a wait that has ended with rc. What it was handed is. */
static enum kin__server_next woken(struct kin_server *s, int rc)
{
    s->was_handed = s->next != KIN__NEXT_NOTHING;
    if (KIN__LIKELY(s->was_handed))
        return (enum kin__server_next)s->next;
    if (rc == KIN_TIMEOUT && is_idle(s)) {
        handle_info(s, &s->timeout);
        return KIN__NEXT_NOTHING;
    }
    return rc == KIN_CANCELLED && !s->extra ? KIN__NEXT_CANCEL : KIN__NEXT_NOTHING;
}

/* Whether the server may wait without a stack: nothing of its callbacks has to be undone on one,
 * should there be none for it later. */
static bool can_rest(const struct kin_server *s)
{
    const struct kin__task *task = s->task;
    const struct kin__extra *extra = task->extra; /* its own cleanup is there, at least */
    return !s->extra && !task->masks && extra->cleanups.count == 1 && extra->locals.count == 0 &&
           !extra->has_owed && !kin__load_relaxed(&task->inner); /* relaxed: the task's own */
}

/* Rests until there is something. */
static enum kin__server_next rest(struct kin_server *s)
{
    struct kin__case *one = &s->party->rest;
    one->ops = &mail_waitable;
    one->object = one->io = s;
    int rc = kin__rest_begin(s->task, one);
    return KIN__LIKELY(rc == KIN__RESTING) ? KIN__NEXT_REST : woken(s, rc);
}

/* Parks until there is something, or begins to rest. */
static enum kin__server_next wait_for_mail(struct kin_server *s)
{
    kin_time deadline = wait_until(s);
    unsigned flags = KIN__UNLIKELY(s->extra != NULL) ? wait_flags(s) : KIN__WAIT_TRIED;
    s->task->flags &= (uint16_t)~KIN__TASK_DEADLINE; /* what a callback has left behind */
    if (KIN__UNLIKELY(deadline != KIN_NEVER))
        return woken(s, kin__wait_until(&mail_waitable, s, s, deadline, flags));
    if (can_rest(s))
        return rest(s);
    return woken(s, kin__wait(&mail_waitable, s, s, flags));
}

/* ---- the loop ---- */

/* A server with an extra hears that it is to stop, and goes on. */
static void hear(struct kin_server *s, enum kin__server_next next)
{
    uint64_t requests = kin__word_requests(s->task);
    enum kin__asked how = KIN__ASKED_STOP;
    int reason = s->reason;
    if (next == KIN__NEXT_STOP) {
        s->has_heard_stop = true;
    } else if (!s->has_heard_cancel && (requests & KIN__CANCEL)) {
        s->has_heard_cancel = true;
        how = KIN__ASKED_CANCEL;
        reason = kin_cancel_reason();
    } else {
        s->has_heard_force = true;
        how = KIN__ASKED_FORCED;
        reason = KIN_STUCK;
    }
    if (s->state < KIN_SERVER_DRAINING) {
        kin__server_close(s, KIN_SERVER_DRAINING);
        kin__server_clear(s, KIN_STOPPING);
    }
    judge(s, "on_asked", s->extra->on_asked(s, s->memory, how, reason));
}

/* Begins with what is next, and runs until it is to stop or rests; what the body returns. */
static int serve(struct kin_server *s, enum kin__server_next next)
{
    for (;;) { /* ends: as its callbacks and its nursery say */
        if (KIN__LIKELY(next < KIN__NEXT_STOP)) {
            if (KIN__LIKELY(next != KIN__NEXT_NOTHING))
                kin__server_handle(s, next);
        } else if (KIN__LIKELY(next == KIN__NEXT_REST)) {
            return KIN__RESTING;
        } else if (s->extra) {
            hear(s, next);
        } else {
            return kin__server_wind_up(s, true,
                                       next == KIN__NEXT_STOP ? s->reason : KIN_CANCELLED);
        }
        if (KIN__UNLIKELY(s->is_ending))
            return kin__server_wind_up(s, false, s->status);
        if (KIN__UNLIKELY(s->is_cancelled))
            return kin__server_wind_up(s, true, KIN_CANCELLED);
        next = KIN__NEXT_NOTHING;
        if (KIN__UNLIKELY(s->continues)) {
            next = take_stop(s);
            if (next == KIN__NEXT_NOTHING)
                kin__server_continue(s);
            continue;
        }
        if (KIN__UNLIKELY(!s->was_handed || s->timers.heap.count != 0 || s->extra))
            next = kin__server_take(s);
        if (KIN__LIKELY(next == KIN__NEXT_NOTHING))
            next = wait_for_mail(s);
    }
}

/* ---- the start ---- */

/* Others can find it from here on. */
static int settle(struct kin_server *s, struct kin__task *self)
{
    s->token = kin__reply_make(s->id);
    if (!s->token)
        return -ENOMEM;
    struct kin__party *party = kin__party_self(self);
    if (!party)
        return -ENOMEM;
    s->party = party;
    party->server = s;
    kin__server_watched_locked(s, party);
    kin__party_unlock(party);
    int rc = s->name ? kin__name_register(s->name, s->id, s->starter_id, 0, &s->taken_by) : 0;
    return rc == KIN_NOSCOPE && kin_cancelled() ? KIN_CANCELLED : rc;
}

static void set_running(struct kin_server *s)
{
    s->has_started = true;
    s->is_later = false;
    kin__party_take(s->party);
    if (s->state == KIN_SERVER_INIT)
        s->state = KIN_SERVER_RUNNING;
    kin__party_unlock(s->party);
}

void kin__server_started(struct kin_server *s)
{
    set_running(s);
    (void)kin__server_tell_starter(s, 0); /* one that has given up has cancelled it */
}

/* Runs on_start, unless it was cancelled before [GS-INIT]. 0, or why it does not start. */
static int start_up(struct kin_server *s)
{
    if (kin_cancelled())
        return KIN_CANCELLED;
    int rc = kin__phase_begin(s->task, &s->phase, &s->init_budget);
    if (rc < 0)
        return rc;
    s->has_arg = false;
    if (s->ops.on_start)
        rc = s->ops.on_start(s, s->memory, s->arg);
    kin__phase_end(s->task, &s->phase);
    s->is_idle_new = true;
    if (s->extra && rc == KIN__SERVER_LATER) {
        s->is_later = true;
        judge(s, "on_start", 0);
        return 0;
    }
    rc = examined(s, "on_start", rc);
    if (rc < 0)
        return rc;
    set_running(s);
    if (!kin__server_tell_starter(s, 0))
        s->is_cancelled = true; /* nobody knows it */
    judge(s, "on_start", rc);
    return 0;
}

int kin__server_main(void *arg)
{
    struct kin_server *s = arg;
    if (KIN__LIKELY(s->has_started)) /* it has rested */
        return serve(s, woken(s, kin__rest_end(s->task, &s->party->rest)));
    struct kin__task *self = kin__task_self();
    s->timers.round = 1;
    if (!kin__server_begin(s, self))
        return s->status = KIN_CANCELLED;
    if (s->extra)
        kin_mask(); /* for good: its nurseries are its own to cancel */
    s->status = settle(s, self);
    if (s->status == 0)
        s->status = start_up(s);
    return s->status < 0 && !s->is_ending ? s->status : serve(s, KIN__NEXT_NOTHING);
}

void kin__server_cleanup(void *arg)
{
    struct kin_server *s = arg;
    struct kin__task *self = kin__task_self();
    if (!s->task) { /* the body never ran */
        (void)kin__server_tell_starter(s, self ? KIN_CANCELLED : -ENOMEM);
        kin__server_unref(s);
        return;
    }
    if (!self) { /* it has rested, and there is no stack for it: kin__server_end does the rest */
        s->task->name = KIN__SERVER_NAME; /* the other one goes with the block */
        return;
    }
    bool has_failed = (self->flags & (KIN__TASK_FAILED | KIN__TASK_PANICKED)) == KIN__TASK_FAILED;
    if (has_failed && s->has_started && !s->has_stopped)
        (void)kin__server_wind_up(s, false, self->status); /* kin_fail in a callback */
    self->name = KIN__SERVER_NAME; /* as above */
    kin__lock_take(&s->start_lock, KIN__RANK_WAIT);
    bool has_started = s->start == KIN__START_DONE;
    kin__lock_give(&s->start_lock, KIN__RANK_WAIT);
    if (!has_started)
        self->flags |= KIN__TASK_INTERNAL; /* the starter's business, not the nursery's */
    if (!s->party) { /* else kin__server_end does it */
        (void)kin__server_tell_starter(s, s->status);
        kin__server_unref(s);
    }
}
