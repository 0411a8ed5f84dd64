/* SPDX-License-Identifier: MIT */
/*
 * How a server stops: the drain, on_stop, and the time that both may take.
 *
 *     cancelled, kin_server_stop     DRAINING: nobody is let in; calls in the mailbox are answered
 *                                    with KIN_STOPPING, casts and infos are handled [GS-DRAIN-MSG]
 *     a callback failed, stop_self   nothing of the mailbox is handled
 *     then                           STOPPING: on_stop
 *
 * All of it is masked [GS-STOP-BEGIN] and under the stop budget. The drain handles what was there
 * when it began, all of it and nothing else: the mailbox cannot grow meanwhile, news that come
 * later are not read, and on_continue runs once after a callback that asks for it, not again
 * because it asks itself. So the drain ends, however much its callbacks bring about. When it and
 * on_stop take longer than the server's stop timeout the server is reported as stuck and its mask
 * holds nothing back any more [D19].
 */
#include "otp/serving.h"

#include "plat/plat.h"
#include "scope/scope.h"

#include <errno.h>

#define CLOSE_BATCH 64u /* callers answered before the lock is given up for a moment */

void kin__server_close(struct kin_server *s, enum kin_server_state state)
{
    bool aborts = state == KIN_SERVER_DRAINING && s->drain == KIN_DRAIN_CASTS;
    uint64_t turned = 0;
    bool is_more;
    do { /* ends: nobody is let in any more */
        struct kin__wakes wakes = {0};
        kin__party_take(s->party);
        s->state = (uint8_t)state;
        is_more = kin__mailbox_refuse_locked(&s->mailbox, KIN_STOPPING, CLOSE_BATCH, &wakes);
        if (!is_more && aborts)
            is_more = kin__mailbox_abort_locked(s->party, &s->mailbox, KIN_STOPPING, CLOSE_BATCH,
                                                &turned, &wakes);
        kin__party_unlock(s->party);
        kin__wakes_run(&wakes);
    } while (is_more);
}

/* ---- the time that it may take ---- */

/* The stop has taken too long [N2002]. */
static void on_overdue(void *object, uint64_t name)
{
    struct kin__party *party = object;
    kin__party_take(party);
    bool is_it = kin__party_task(party) == name && party->server && !party->is_over;
    struct kin__sched *sched = party->sched;
    kin__party_unlock(party);
    if (is_it)
        kin__task_overdue(sched, name);
}

static void arm(struct kin_server *s)
{
    struct kin__timer *timer = &s->party->timer;
    if (s->stop_timeout == KIN_NEVER || s->is_timed)
        return;
    timer->fire = on_overdue;
    timer->object = s->party;
    timer->name = s->id;
    s->is_timed = true;
    kin__timer_arm(timer, s->sched, kin__clock_after(s->stop_timeout));
}

/* ---- the drain ---- */

/* Handles what is left in the mailbox, and infos. What the server ends with: status, unless a
 * callback fails. */
static int drain(struct kin_server *s, int status)
{
    s->is_draining = true;
    kin__party_take(s->party);
    kin__note_last_call_locked(s->party);
    kin__party_unlock(s->party);
    /* ends: of what was there one goes each time, and nothing is added */
    while (!(kin__word_requests(s->task) & KIN__UNMASKABLE)) {
        if (s->continues) {
            kin__server_continue(s);
            s->continues = false;
        } else {
            enum kin__server_next next = kin__server_take(s);
            if (next == KIN__NEXT_NOTHING)
                break;
            kin__server_handle(s, next);
        }
        if (s->is_ending)
            return s->status < 0 ? s->status : status;
    }
    return status;
}

/* Whether there is something to drain. */
static bool has_mail(struct kin_server *s)
{
    kin__party_take(s->party);
    bool has = s->mailbox.count != 0 || s->party->news != 0 || s->continues;
    kin__party_unlock(s->party);
    return has;
}

/* ---- the end of the body ---- */

/* Runs on_stop, if it is to run [GS-DRAIN-DONE]. */
static void stop(struct kin_server *s, int status)
{
    struct kin_outcome why = {KIN_SEV_OK, 0, 0, s->id, ""};
    if (!s->has_started || s->has_stopped)
        return;
    s->has_stopped = true;
    if (status < 0) {
        why.severity = status == KIN_CANCELLED && kin_cancelled() ? KIN_SEV_CANCELLED
                                                                  : KIN_SEV_ERROR;
        why.status = status;
    }
    if (s->ops.on_stop)
        s->ops.on_stop(s, s->memory, &why);
}

int kin__server_wind_up(struct kin_server *s, bool drains, int status)
{
    bool drops = drains && s->drain == KIN_DRAIN_NONE;
    kin__phase_end(s->task, &s->phase); /* kin_fail has left it */
    if (kin__phase_begin(s->task, &s->phase, &s->stop_budget) < 0)
        status = status < 0 ? status : -ENOMEM; /* it stops without it */
    kin_mask();
    drains &= !drops;
    kin__server_close(s, drains ? KIN_SERVER_DRAINING : KIN_SERVER_STOPPING);
    drains = drains && has_mail(s);
    if (drains || (s->has_started && s->ops.on_stop))
        arm(s);
    if (drains) {
        status = drain(s, status);
    } else if (drops) {
        kin__server_clear(s, KIN_STOPPING);
    }
    kin__server_close(s, KIN_SERVER_STOPPING);
    stop(s, status);
    kin_unmask();
    kin__phase_end(s->task, &s->phase);
    return status; /* [GS-STOPPED] */
}
