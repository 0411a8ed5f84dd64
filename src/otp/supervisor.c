/* SPDX-License-Identifier: MIT */
/*
 * Supervisors: what they do about what happens to their children.
 *
 * A supervisor is a server that owns a nursery. Whatever happens reaches it as an event, one at a
 * time: the note of a start that is over, the Down of a child, an alarm, a call, a request to stop.
 * It changes what it knows, goes on with whatever is under way (kin__sup_go_on), and waits for the
 * next one. It never waits for a child, so it always answers.
 *
 * A child:
 *
 *             kin__child_start             note: 0
 *     REST ---------------------> STARTING ----------------------> RUNNING
 *      ^ is_wanted: restarting      | note: declined, failed         | Down
 *      +----------------------------+--------------------------------+
 *
 *     asked    UNASKED -> CANCELLED -> KILLED -> REPORTED, by the alarm of the child [D10]
 *
 * Who asks a child to stop is whoever goes backwards through the order: the plan, or the shutdown;
 * or somebody by a call (is_terminated). What a child that was asked ended with is consumed by
 * whoever asked [D16]; any other end is judged (kin__plan_verdict).
 *
 * The supervisor:
 *
 *     STARTING   a cursor goes through the order and starts one child after the other [D9]. Those
 *                that end meanwhile are judged when the last one is started
 *     RUNNING    one_for_one, template: each child that is to be restarted has an alarm of its own.
 *                one_for_all, rest_for_one: one plan at most, a range of the order in three phases
 *                STOPS: a cursor goes back from the last child to the first one of the range, and
 *                    each is over before the next is asked; then those are wanted which were asked,
 *                    which failed by themselves, or which had ended well before
 *                WAITS: for the backoff of the child that failed, or whose start has failed
 *                STARTS: a cursor goes forward and starts those that are wanted
 *                Another failure in or before the range, in any phase, makes the range larger and
 *                begins with STOPS again
 *     CLOSING    a cursor goes back through the whole order; of a template all are asked at once.
 *                When nobody is left the nursery is joined and the server ends with sup->status
 *
 * A child that panicked or was cancelled by somebody else stays at rest, and no plan starts it
 * either [SINV-2]; likewise one that somebody terminated. Nor is a child started again that depends
 * on one of these: it is blocked until that one is started by hand, or a plan finds it up.
 */
#include "otp/supervisor.h"

#include "plat/plat.h"
#include "scope/scope.h"

#include <errno.h>

const char kin__sup_nursery_name[] = "supervisor";

static bool is_group(const struct kin__sup *sup)
{
    return sup->strategy == KIN_ONE_FOR_ALL || sup->strategy == KIN_REST_FOR_ONE;
}

/* Whether the record of a child goes when it is over and not started again. */
static bool is_passing(const struct kin__kid *child)
{
    return child->restart == KIN_TEMPORARY || child->sup->strategy == KIN_TEMPLATE;
}

/* It stays at rest, or goes if it is one that does. */
static void leave_be(struct kin__kid *child, enum kin__child_rest why)
{
    child->rest = why;
    kin__child_set(child, KIN__CHILD_REST, false);
    kin__sup_alarm_off(child->sup, &child->alarm);
    kin__child_answer_start(child, KIN_CANCELLED); /* of a start that a plan had put off */
    if (is_passing(child))
        kin__child_remove(child);
}

/* For the lab's oracle: what was decided about an end. */
static void tell_lab(const struct kin__sup *sup, enum kin_severity severity, unsigned what)
{
    KIN__LAB_DECIDES(sup->id, severity, what, sup->history.window, sup->history.max);
    (void)sup;
    (void)severity;
    (void)what;
}

/* ---- the end of the supervisor ---- */

/* Everybody is asked to stop from now on, and nobody is started any more. The first reason
 * counts. */
static void close_down(struct kin__sup *sup, int status)
{
    if (sup->mode == KIN__SUP_CLOSING)
        return;
    /* a start that was stopped before it was over is no success */
    sup->status = sup->mode == KIN__SUP_STARTING && status == 0 ? KIN_STOPPING : status;
    sup->mode = KIN__SUP_CLOSING;
    sup->phase = KIN__PLAN_NONE;
    sup->cursor = sup->order.prev;
    kin__sup_alarm_off(sup, &sup->plan_alarm);
    KIN__LIST_EACH(link, &sup->order) {
        struct kin__kid *child = kin__child_of(link);
        if (child->order_start)
            kin__child_answer_start(child, KIN_STOPPING);
        kin__child_set(child, child->state, false);
        if (child->state == KIN__CHILD_REST)
            kin__sup_alarm_off(sup, &child->alarm);
        else if (sup->strategy == KIN_TEMPLATE && child->asked == KIN__CHILD_UNASKED)
            kin__child_stop(child);
    }
}

/* There is no time left: everybody is killed at once. */
static void hurry_up(struct kin__sup *sup)
{
    sup->is_hurried = true;
    KIN__LIST_EACH(link, &sup->order) {
        struct kin__kid *child = kin__child_of(link);
        if (child->state != KIN__CHILD_REST && !child->is_blind &&
            child->asked <= KIN__CHILD_CANCELLED)
            kin__child_hurry(child);
    }
}

/* A supervisor above, if there is one, will ask how this one ended, or will not. */
static void tell_above(struct kin__sup *sup, bool asks)
{
    struct kin__task *self;
    struct kin__scope *scope = kin__scope_lock_of(sup->id, &self);
    if (!scope)
        return;
    bool forgets = !asks && kin__list_is_linked(&sup->below_next);
    if (forgets)
        kin__list_remove(&sup->below_next);
    if (asks && scope->name == kin__sup_nursery_name) {
        struct kin_nursery *n = (struct kin_nursery *)(void *)scope->handle;
        struct kin__sup *above = KIN__CONTAINER_OF(n, struct kin__sup, nursery);
        kin__add_relaxed(&sup->references, 1u); /* relaxed: the caller has one */
        kin__list_push_back(&above->below, &sup->below_next);
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (forgets)
        kin__sup_unref(sup); /* not the last one */
}

/* Nobody is left: so is nothing of the supervisor after this. */
static void finish(struct kin__sup *sup)
{
    struct kin_server *s = sup->server;
    int status = sup->status;
    kin_nursery_cancel(&sup->nursery, KIN_CANCELLED); /* whom start functions left behind */
    kin_ignore(kin_nursery_join(&sup->nursery, NULL));
    kin__handle_empty(kin__handle_of(&sup->nursery));
    struct kin__list *link;
    while ((link = kin__list_first(&sup->order))) /* ends: one fewer each time */
        kin__child_remove(kin__child_of(link));
    kin__sup_tell_rest(sup);
    *(struct kin__sup **)kin__server_state_of(s) = NULL;
    if (!sup->has_started)
        tell_above(sup, false);
    kin__sup_unref(sup);
    kin__server_finish(s, status);
}

/* Somebody who was given the nursery may have cancelled it: then nobody can be started any more. */
static void look_at_nursery(struct kin__sup *sup)
{
    if (kin_nursery_state(&sup->nursery) >= KIN_NURSERY_CANCELLING)
        close_down(sup, KIN_CANCELLED);
}

/* ---- restarts ---- */

/* The child, and those that its strategy says, are stopped and started again, after a delay
 * [SUP-PLAN-RESTART]. */
static void begin_plan(struct kin__kid *child, kin_time at)
{
    struct kin__sup *sup = child->sup;
    struct kin__plan plan = kin__plan_of(sup->strategy, child->rank);
    if (plan.last > sup->rank_last)
        plan.last = sup->rank_last; /* whoever comes later is new */
    if (sup->phase != KIN__PLAN_NONE && sup->plan.first < plan.first)
        plan.first = sup->plan.first;
    if (sup->phase == KIN__PLAN_NONE || sup->plan_at < at)
        sup->plan_at = at;
    sup->plan = plan;
    sup->phase = KIN__PLAN_STOPS;
    sup->cursor = sup->order.prev;
    kin__sup_alarm_off(sup, &sup->plan_alarm);
    for (struct kin__list *link = sup->order.prev; link != &sup->order; link = link->prev) {
        struct kin__kid *other = kin__child_of(link);
        if (other->rank < plan.first)
            break;
        if (kin__plan_has(plan, other->rank) && other->state == KIN__CHILD_REST &&
            (other->rest == KIN__REST_DONE || other->rest == KIN__REST_BLOCKED))
            kin__child_set(other, KIN__CHILD_REST, true);
    }
}

/* Starts a child that is wanted, unless somebody it depends on stays down: then so does the child.
 * False: it does. */
static bool start_again(struct kin__kid *child)
{
    const char *other = kin__child_lacks(child);
    if (!other) {
        kin__child_start(child);
        return true;
    }
    KIN__ASSERT(!is_passing(child), "SUP-PLAN-RESTART: such a child depends on nobody, or is gone");
    leave_be(child, KIN__REST_BLOCKED);
    child->sup->has_blocked = true;
    kin__sup_tell(child, KIN_EVENT_BLOCKED, 0, other);
    return false;
}

/* Whether the plan that is under way will come to a child. */
static bool plan_comes_to(const struct kin__sup *sup, const struct kin__kid *child)
{
    if (sup->phase == KIN__PLAN_NONE || !kin__plan_has(sup->plan, child->rank))
        return false;
    return sup->phase != KIN__PLAN_STARTS ||
           (sup->cursor != &sup->order && kin__child_of(sup->cursor)->rank < child->rank);
}

/* A child has been started: those that were not because of it are, now, or in the turn that the
 * plan has for them. */
static void unblock(struct kin__sup *sup)
{
    if (!sup->has_blocked || sup->mode != KIN__SUP_RUNNING)
        return;
    sup->has_blocked = false;
    KIN__LIST_EACH(link, &sup->order) {
        struct kin__kid *child = kin__child_of(link);
        if (child->state != KIN__CHILD_REST || child->rest != KIN__REST_BLOCKED || child->is_wanted)
            continue;
        if (kin__child_lacks(child)) {
            sup->has_blocked = true;
            continue;
        }
        child->rest = KIN__REST_DONE;
        kin__child_set(child, KIN__CHILD_REST, true);
        if (!plan_comes_to(sup, child))
            kin__child_start(child);
    }
}

/* The child rests and will be started again at this time, in the way of its strategy
 * [SUP-RESTART-CHILD]. */
static void schedule(struct kin__kid *child, kin_time at, kin_time now)
{
    struct kin__sup *sup = child->sup;
    child->rest = KIN__REST_DONE;
    kin__child_set(child, KIN__CHILD_REST, true);
    if (!is_group(sup)) {
        if (at <= now)
            (void)start_again(child);
        else
            kin__sup_alarm_set(sup, &child->alarm, at);
    } else if (sup->phase == KIN__PLAN_STARTS && sup->cursor == &child->order) {
        sup->phase = KIN__PLAN_WAITS; /* its start failed: the plan goes on with it */
        sup->plan_at = at;
    } else {
        begin_plan(child, at);
    }
}

/* One restart too many [SUP-BUDGET-EXCEEDED]. */
static void exhaust(struct kin__kid *child, kin_time now)
{
    static const struct kin_backoff usual = {KIN_SEC(1), KIN_SEC(60), 200, 0};
    struct kin__sup *sup = child->sup;
    const struct kin_backoff *backoff =
        sup->reset_backoff.first || sup->reset_backoff.max ? &sup->reset_backoff : &usual;
    if (sup->escalation != KIN_ESCALATION_RESET) {
        tell_lab(sup, child->severity, KIN__LAB_LEAVES_BE);
        /* pairs with the acquire in child_ended of the supervisor above */
        kin__store_release(&sup->is_quiet, sup->escalation == KIN_ESCALATION_STOP);
        kin__sup_tell(child, KIN_EVENT_EXHAUSTED, 0, NULL);
        child->rest = KIN__REST_FAILED;
        kin__child_set(child, KIN__CHILD_REST, false);
        close_down(sup, KIN_EXHAUSTED);
        return;
    }
    kin__history_clear(&sup->history);
    kin__history_clear(&child->history);
    if (child->has_limit)
        (void)kin__history_add(&child->history, now);
    tell_lab(sup, child->severity, KIN__LAB_FORGIVES);
    if (kin__history_add(&sup->history, now))
        tell_lab(sup, child->severity, KIN__LAB_RESTARTS);
    /* after two windows without one it is not the next of a row */
    if (now - sup->reset_at > 2 * (sup->history.window < KIN_NEVER / 4 ? sup->history.window
                                                                       : KIN_NEVER / 4))
        sup->reset_delay = 0;
    int64_t delay = kin__backoff_next(backoff, &sup->reset_delay, &sup->rng);
    sup->reset_at = now + delay;
    kin__sup_tell(child, KIN_EVENT_RESET, delay, NULL);
    schedule(child, sup->reset_at, now);
}

/* The child failed, or a start that should have brought it back: it is started again if it may be.
 * One entry in the history, whatever the plan restarts [D16]. */
static void restart(struct kin__kid *child)
{
    struct kin__sup *sup = child->sup;
    kin_time now = kin__clock_now();
    if (!is_group(sup) && kin__child_lacks(child)) {
        (void)start_again(child); /* nobody is started: that counts for nothing */
        return;
    }
    bool is_too_many = child->has_limit && !kin__history_add(&child->history, now);
    if (is_too_many || !kin__history_add(&sup->history, now)) {
        exhaust(child, now);
        return;
    }
    tell_lab(sup, child->severity, KIN__LAB_RESTARTS);
    int64_t delay = kin__backoff_next(&child->backoff, &child->delay, &sup->rng);
    kin__sup_tell(child, KIN_EVENT_RESTART, delay, NULL);
    schedule(child, now + delay, now);
}

/* ---- ends of children ---- */

/* A significant child has ended for good: perhaps that is the end of the supervisor. */
static void shut_down_with(struct kin__sup *sup)
{
    if (sup->auto_shutdown == KIN_AUTO_SHUTDOWN_ANY ||
        (sup->auto_shutdown == KIN_AUTO_SHUTDOWN_ALL && sup->significant == 0))
        close_down(sup, 0);
}

/* What the end of a child that nobody had asked means [SUP-CHILD-FAILED]. It rests. */
static void judge(struct kin__kid *child)
{
    struct kin__sup *sup = child->sup;
    enum kin__verdict verdict = kin__plan_verdict(child->restart, child->severity, child->is_quiet,
                                                  sup->on_child_stopped);
    bool is_lost = child->severity >= KIN_SEV_CANCELLED; /* [SINV-2] */
    bool is_significant = child->is_significant;
    bool is_stopping = sup->phase == KIN__PLAN_STOPS && kin__plan_has(sup->plan, child->rank);
    if (is_stopping && (verdict == KIN__VERDICT_RESTART ||
                        (verdict == KIN__VERDICT_KEEP && child->severity == KIN_SEV_OK &&
                         !is_significant))) {
        child->rest = KIN__REST_DONE;
        kin__child_set(child, KIN__CHILD_REST, true); /* the plan was about to ask it */
        if (child->severity > KIN_SEV_OK)
            kin__sup_tell(child, KIN_EVENT_RESTART, 0, NULL);
        return;
    }
    if (verdict == KIN__VERDICT_RESTART) {
        restart(child);
        return;
    }
    tell_lab(sup, child->severity, KIN__LAB_LEAVES_BE);
    int status = child->status;
    if (verdict == KIN__VERDICT_ESCALATE || verdict == KIN__VERDICT_STOP)
        kin__sup_tell(child, KIN_EVENT_ESCALATED, 0, NULL);
    else if (child->severity > KIN_SEV_OK)
        kin__sup_tell(child, KIN_EVENT_STOPPED, 0, NULL); /* that it is lost, too [D7] */
    leave_be(child, is_lost ? KIN__REST_LOST
                            : child->severity == KIN_SEV_OK ? KIN__REST_DONE : KIN__REST_FAILED);
    if (verdict == KIN__VERDICT_ESCALATE)
        close_down(sup, status);
    else if (verdict == KIN__VERDICT_STOP)
        close_down(sup, 0);
    else if (is_significant)
        shut_down_with(sup);
}

/* The child has been told to stop, and is over. */
static void consume(struct kin__kid *child, bool is_terminated)
{
    struct kin__sup *sup = child->sup;
    if (sup->mode == KIN__SUP_CLOSING) {
        child->rest = KIN__REST_TERMINATED;
    } else if (is_terminated) {
        leave_be(child, KIN__REST_TERMINATED);
    } else if (child->restart == KIN_TEMPORARY) {
        kin__child_remove(child);
    } else {
        child->rest = KIN__REST_DONE;
        kin__child_set(child, KIN__CHILD_REST, true);
    }
}

/* A child that ran is over. */
static void child_ended(struct kin__kid *child, enum kin_severity severity, int status)
{
    struct kin__sup *sup = child->sup;
    bool is_terminated = child->is_terminated;
    bool was_asked = child->asked != KIN__CHILD_UNASKED || is_terminated;
    child->severity = severity;
    child->status = status;
    child->has_not_started = false;
    kin__child_keep_text(child);
    /* pairs with the release in exhaust */
    child->is_quiet = child->below && kin__load_acquire(&child->below->is_quiet);
    if (kin__clock_now() - child->started_at >= sup->history.window)
        child->delay = 0; /* it has run long enough: its backoff begins anew */
    kin__child_rested(child);
    child->asked = KIN__CHILD_UNASKED;
    child->is_terminated = false;
    kin__child_answer_end(child);
    if (was_asked || sup->mode == KIN__SUP_CLOSING) {
        consume(child, is_terminated);
    } else if (sup->mode == KIN__SUP_STARTING) {
        child->is_late = true;
        kin__list_push_back(&sup->late, &child->late);
    } else {
        judge(child);
    }
}

bool kin__sup_terminate(struct kin__kid *child)
{
    if (child->state == KIN__CHILD_REST) {
        leave_be(child, KIN__REST_TERMINATED);
        return true;
    }
    child->is_terminated = true;
    if (child->asked == KIN__CHILD_UNASKED)
        kin__child_stop(child);
    return false;
}

/* ---- starts of children ---- */

/* The start of a child that was to be restarted has failed or was declined. */
static void restart_failed(struct kin__kid *child)
{
    kin__child_answer_start(child, child->status);
    if (child->status == KIN_IGNORE) {
        leave_be(child, KIN__REST_DONE);
    } else if (child->severity == KIN_SEV_PANIC) {
        judge(child);
    } else {
        restart(child); /* the attempt counts [D8] */
    }
}

/* The first start of a child, or one by hand, has failed or was declined: whoever asked for it is
 * told, and nothing else happens. */
static void start_failed(struct kin__kid *child)
{
    bool is_declined = child->status == KIN_IGNORE;
    bool leaves = is_passing(child) || (child->is_new && !is_declined);
    kin__child_answer_start(child, child->status);
    child->rest = is_declined ? KIN__REST_DONE : KIN__REST_FAILED;
    child->is_new = false;
    if (leaves)
        kin__child_remove(child);
}

/* A start is over, and there is no child. */
static void start_ended(struct kin__kid *child)
{
    struct kin__sup *sup = child->sup;
    bool is_terminated = child->is_terminated;
    bool was_asked = child->asked != KIN__CHILD_UNASKED || is_terminated;
    child->status = child->start_status;
    child->severity = child->start_panicked ? KIN_SEV_PANIC : KIN_SEV_ERROR;
    child->has_not_started = true;
    child->is_quiet = false;
    kin__child_rested(child);
    child->asked = KIN__CHILD_UNASKED;
    child->is_terminated = false;
    kin__child_answer_end(child);
    if (was_asked || sup->mode == KIN__SUP_CLOSING) {
        bool leaves = is_terminated && child->is_new && sup->mode != KIN__SUP_CLOSING;
        child->is_new = false;
        if (is_terminated)
            kin__child_answer_start(child, child->status);
        if (leaves)
            kin__child_remove(child);
        else
            consume(child, is_terminated);
    } else if (sup->mode == KIN__SUP_STARTING) {
        if (child->status == KIN_IGNORE) {
            leave_be(child, KIN__REST_DONE);
        } else {
            /* pairs with the acquire of the starter */
            kin__store_release(&sup->failed, child->index);
            close_down(sup, child->status);
        }
    } else if (child->is_wanted) {
        restart_failed(child);
    } else {
        start_failed(child);
    }
}

/* A start is over, and there is one. */
static void start_succeeded(struct kin__kid *child)
{
    struct kin__sup *sup = child->sup;
    bool was_asked = child->asked != KIN__CHILD_UNASKED;
    bool was_wanted = child->is_wanted;
    if (!kin__child_adopt(child))
        return;
    child->is_new = false;
    if (was_wanted)
        child->restarts++;
    child->asked = KIN__CHILD_UNASKED;
    if (!was_asked) {
        if (was_wanted)
            kin__sup_tell(child, KIN_EVENT_STARTED, 0, NULL);
        kin__child_answer_start(child, 0);
        unblock(sup);
        return;
    }
    /* It came too late: it is asked in its turn, or now. */
    if (child->is_terminated) {
        kin__child_answer_start(child, KIN_CANCELLED);
        kin__child_stop(child);
    } else if (sup->is_hurried || sup->strategy == KIN_TEMPLATE) {
        kin__child_stop(child);
    }
    if (sup->is_hurried)
        kin__child_hurry(child);
}

/* ---- going on ---- */

/* Starts the next one of those that the supervisor was started with. */
static void go_on_starting(struct kin__sup *sup)
{
    for (; sup->cursor != &sup->order; sup->cursor = sup->cursor->next) {
        struct kin__kid *child = kin__child_of(sup->cursor);
        if (child->state == KIN__CHILD_STARTING)
            return;
        if (child->state == KIN__CHILD_REST && child->rest == KIN__REST_FRESH && !child->is_late) {
            kin__child_start(child);
            return;
        }
    }
    sup->mode = KIN__SUP_RUNNING;
    sup->has_started = true;
    kin__server_started(sup->server);
    struct kin__list *link;
    /* ends: nobody is late any more */
    while (sup->mode == KIN__SUP_RUNNING && (link = kin__list_pop_front(&sup->late))) {
        struct kin__kid *child = KIN__CONTAINER_OF(link, struct kin__kid, late);
        child->is_late = false;
        judge(child);
    }
}

/* Asks the next one to stop, going backwards to the first rank. False: somebody is not over yet. */
static bool go_on_stopping(struct kin__sup *sup, uint64_t first, uint64_t last)
{
    for (; sup->cursor != &sup->order; sup->cursor = sup->cursor->prev) {
        struct kin__kid *child = kin__child_of(sup->cursor);
        if (child->rank < first)
            break;
        if (child->state == KIN__CHILD_REST || child->rank > last)
            continue;
        if (child->asked == KIN__CHILD_UNASKED)
            kin__child_stop(child);
        return false;
    }
    return true;
}

/* Starts the next one of the plan. */
static void go_on_restarting(struct kin__sup *sup)
{
    for (; sup->cursor != &sup->order; sup->cursor = sup->cursor->next) {
        struct kin__kid *child = kin__child_of(sup->cursor);
        if (child->rank > sup->plan.last)
            break;
        if (child->state == KIN__CHILD_STARTING)
            return;
        if (child->state == KIN__CHILD_REST && child->is_wanted && start_again(child))
            return;
    }
    sup->phase = KIN__PLAN_NONE;
}

static void go_on_with_plan(struct kin__sup *sup)
{
    if (sup->phase == KIN__PLAN_STOPS &&
        go_on_stopping(sup, sup->plan.first, sup->plan.last)) { /* [SUP-CANCEL-CHILD] */
        sup->cursor = sup->cursor->next;
        sup->phase = KIN__PLAN_WAITS;
    }
    if (sup->phase == KIN__PLAN_WAITS) {
        if (sup->plan_at > kin__clock_now())
            kin__sup_alarm_set(sup, &sup->plan_alarm, sup->plan_at);
        else
            sup->phase = KIN__PLAN_STARTS;
    }
    if (sup->phase == KIN__PLAN_STARTS)
        go_on_restarting(sup);
}

int kin__sup_go_on(struct kin__sup *sup)
{
    if (sup->mode == KIN__SUP_STARTING)
        go_on_starting(sup);
    if (sup->mode == KIN__SUP_RUNNING && sup->phase != KIN__PLAN_NONE)
        go_on_with_plan(sup);
    if (sup->mode == KIN__SUP_CLOSING) {
        if (!sup->is_hurried && sup->strategy != KIN_TEMPLATE)
            (void)go_on_stopping(sup, 0, UINT64_MAX);
        if (sup->active == 0) {
            finish(sup);
            return 0;
        }
    }
    const struct kin__heap_node *first = kin__heap_peek(&sup->alarms);
    kin__server_alarm(sup->server, first ? first->key : KIN_NEVER);
    return 0;
}

/* ---- events ---- */

static struct kin__sup *sup_of(void *state)
{
    return *(struct kin__sup **)state;
}

static int on_start(struct kin_server *s, void *state, const void *arg)
{
    struct kin__sup *sup = (struct kin__sup *)(uintptr_t)arg;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    sup->server = s;
    sup->id = kin__server_id(s);
    sup->sched = kin__task_sched(kin__task_self());
    kin__rng_init(&sup->rng, sup->sched->config.seed, sup->id);
    options.name = kin__sup_nursery_name;
    options.on_error = KIN_COLLECT;
    if (sup->sched->config.profile == KIN_CLUSTER)
        options.recharge = KIN_RECHARGE_AUTO; /* [SCHED:10.2.3] */
    int rc = kin_nursery_open(&sup->nursery, &options);
    if (rc < 0) {
        kin__sup_unref(sup);
        return rc;
    }
    *(struct kin__sup **)state = sup;
    tell_lab(sup, KIN_SEV_OK, KIN__LAB_FORGIVES);
    tell_above(sup, true);
    if (kin__list_is_empty(&sup->order)) {
        sup->mode = KIN__SUP_RUNNING;
        sup->has_started = true;
        return 0;
    }
    sup->cursor = sup->order.next;
    kin_ignore(kin__sup_go_on(sup));
    return KIN__SERVER_LATER;
}

/* It never began. */
static void on_unused(const void *arg)
{
    kin__sup_unref((struct kin__sup *)(uintptr_t)arg);
}

static int on_note(struct kin_server *s, void *state, struct kin__note *note)
{
    struct kin__kid *child = KIN__CONTAINER_OF(note, struct kin__kid, note);
    struct kin__sup *sup = sup_of(state);
    (void)s;
    look_at_nursery(sup);
    if (child->start_status == 0)
        start_succeeded(child);
    else
        start_ended(child);
    return kin__sup_go_on(sup);
}

static int on_info(struct kin_server *s, void *state, const struct kin_info *info)
{
    static const enum kin_severity severities[] = {KIN_SEV_OK,    KIN_SEV_ERROR,
                                                   KIN_SEV_CANCELLED, KIN_SEV_PANIC,
                                                   KIN_SEV_ERROR, KIN_SEV_ERROR};
    struct kin__sup *sup = sup_of(state);
    (void)s;
    if (!sup || info->kind != KIN_INFO_DOWN)
        return 0;
    look_at_nursery(sup);
    struct kin__kid *child =
        kin__child_by_task(sup, info->u.down.who.id, info->u.down.ref.id);
    if (!child)
        return 0;
    child_ended(child, severities[info->u.down.reason], info->u.down.status);
    return kin__sup_go_on(sup);
}

/* The alarm of one child. */
static void ring(struct kin__kid *child)
{
    if (child->is_blind) {
        if (kin__child_is_gone(child))
            start_ended(child);
    } else if (child->state != KIN__CHILD_REST) {
        kin__child_hurry(child);
    } else if (child->is_wanted) {
        (void)start_again(child);
    }
}

static int on_alarm(struct kin_server *s, void *state)
{
    struct kin__sup *sup = sup_of(state);
    kin_time now = kin__clock_now();
    struct kin__heap_node *first;
    (void)s;
    /* ends: what is set meanwhile is later than now */
    while ((first = kin__heap_peek(&sup->alarms)) && first->key <= now) {
        kin__heap_remove(&sup->alarms, first);
        if (first == &sup->plan_alarm)
            sup->phase = KIN__PLAN_STARTS;
        else
            ring(KIN__CONTAINER_OF(first, struct kin__kid, alarm));
    }
    return kin__sup_go_on(sup);
}

static int on_asked(struct kin_server *s, void *state, enum kin__asked how, int reason)
{
    struct kin__sup *sup = sup_of(state);
    (void)s;
    close_down(sup, how == KIN__ASKED_STOP ? reason : KIN_CANCELLED);
    if (how == KIN__ASKED_FORCED)
        hurry_up(sup);
    return kin__sup_go_on(sup);
}

const struct kin_server_ops kin__sup_ops = {.on_start = on_start, .on_info = on_info};
const struct kin__server_extra kin__sup_extra = {.on_asked = on_asked,
                                                 .on_note = on_note,
                                                 .on_alarm = on_alarm,
                                                 .on_request = kin__sup_request,
                                                 .on_unused = on_unused};
