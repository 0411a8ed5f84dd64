/* SPDX-License-Identifier: MIT */
/*
 * Servers: how they are started, asked to stop, and what is left of one that is over.
 *
 *     starter                          the server's task
 *     -------                          -----------------
 *     spawn                 SPAWNED
 *     waits ...             BEGUN      party, name, on_start
 *     returns 0             DONE       the loop
 *     returns why           DONE       kin__server_end: after its names and callers are seen to
 *     cancelled, timed out  GIVEN_UP   is cancelled, or does not begin
 *
 * Whoever comes second of DONE and GIVEN_UP finds the other and does as it says. A start that fails
 * is nobody's failure but the starter's: its task is marked as one of the runtime's own, whose end
 * its nursery does not judge [GS-INIT].
 *
 * The block of a server lives until both have let go of it. It is found through its party, and is
 * not found any more when kin__server_end has gone through: that runs when the task is over and
 * before its nursery counts it off, so no server outlives its nursery [SINV-5].
 */
#include "otp/serving.h"

#include "otp/registry.h"
#include "park/peek.h"
#include "plat/plat.h"
#include "sched/entry.h"
#include "scope/belongings.h"
#include "scope/scope.h"
#include "wait/ender.h"

#include <errno.h>
#include <string.h>

#define CAPACITY_DEFAULT 1024u
#define STOP_DEFAULT_NS (INT64_C(5) * 1000000000)
#define END_BATCH 64u /* callers answered before the lock is given up for a moment */

/* ---- the block ---- */

/* The argument of on_start, which did not run, of a server with an extra. */
static void give_back(const struct kin__server_extra *extra, const void *arg)
{
    if (extra && extra->on_unused)
        extra->on_unused(arg);
}

/* Nobody has it any more. */
static void destroy(struct kin_server *s)
{
    if (s->has_arg)
        give_back(s->extra, s->arg);
    if (s->cast)
        kin__letter_free(s->cast);
    kin__heap_free(s->copy);
    if (s->token)
        kin__reply_free(s->token);
    kin__server_timers_free(s);
    kin__bill_give(s->bill);
    kin__heap_free(s);
}

void kin__server_unref(struct kin_server *s)
{
    /* pairs with the other one: the last sees what the first did */
    if (kin__sub_acq_rel(&s->refs, 1u) == 1)
        destroy(s);
}

/* A block of so many bytes, at the expense of the running task. NULL: *rc says why. */
static struct kin_server *alloc_server(size_t bytes, int *rc)
{
    struct kin__bill bill;
    *rc = kin__bill_take(&bill, kin__task_self(), bytes);
    if (*rc < 0)
        return NULL;
    struct kin_server *s = kin__heap_alloc(bytes);
    if (s) {
        s->bill = bill;
        return s;
    }
    kin__bill_give(bill);
    *rc = -ENOMEM;
    return NULL;
}

/* A block for these options, or NULL. */
static struct kin_server *make(const struct kin_server_ops *ops,
                               const struct kin_server_options *o, const void *arg,
                               const struct kin__server_extra *extra, int *rc)
{
    size_t name_size = o->name ? strlen(o->name) + 1 : 0, bytes;
    *rc = -ENOMEM;
    if (__builtin_add_overflow(sizeof(struct kin_server) + name_size, o->state_size, &bytes))
        return NULL;
    struct kin_server *s = alloc_server(bytes, rc);
    if (!s)
        return NULL;
    s->ops = *ops;
    s->extra = extra;
    s->arg = arg;
    s->has_arg = true;
    if (o->name) /* behind the state, which is aligned */
        s->name = memcpy(s->memory + o->state_size, o->name, name_size);
    s->init_budget = o->init_budget;
    s->stop_budget = o->stop_budget;
    s->stop_timeout = o->stop_timeout ? o->stop_timeout : STOP_DEFAULT_NS;
    s->idle_timeout = o->idle_timeout;
    s->overflow = (uint8_t)o->overflow;
    s->drain = (uint8_t)o->drain;
    s->idle_at = KIN_NEVER;
    s->alarm_at = KIN_NEVER;
    kin__mailbox_init(&s->mailbox, o->mailbox_capacity ? o->mailbox_capacity : CAPACITY_DEFAULT,
                      o->overflow == KIN_OVERFLOW_DROP_OLDEST);
    kin__list_init(&s->posted);
    kin__list_init(&s->moved);
    kin__store_relaxed(&s->refs, 2u); /* alone: nobody else has it yet */
    return s;
}

/* ---- the start ---- */

static bool start_try(void *object, void *io, int *status)
{
    struct kin_server *s = object;
    (void)io;
    kin__lock_take(&s->start_lock, KIN__RANK_WAIT);
    bool is_done = s->start == KIN__START_DONE;
    kin__lock_give(&s->start_lock, KIN__RANK_WAIT);
    *status = 0;
    return is_done;
}

static bool start_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin_server *s = object;
    (void)status;
    kin__lock_take(&s->start_lock, KIN__RANK_WAIT);
    bool links = s->start != KIN__START_DONE;
    if (links)
        s->starter = waiter;
    kin__lock_give(&s->start_lock, KIN__RANK_WAIT);
    return links;
}

static void start_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin_server *s = object;
    (void)waiter;
    kin__lock_take(&s->start_lock, KIN__RANK_WAIT);
    s->starter = NULL;
    kin__lock_give(&s->start_lock, KIN__RANK_WAIT);
}

static const struct kin__waitable start_waitable = {"server: start", start_try, start_publish,
                                                    start_unpublish};

/* Of a start it is the server itself, once it has begun. */
uint64_t kin__server_holder(const struct kin__task *waiter, const struct kin__waits *waits)
{
    const struct kin_server *s = waits->object;
    uint64_t id = 0;
    if (waits->ops != &start_waitable)
        return kin__call_holder(waiter, waits);
    return kin__plat_peek(&s->id, &id, sizeof(id)) ? id : 0;
}

KIN__WAITABLE_READY(start_waitable)
{
    const struct kin_server *s = object;
    return s->start == KIN__START_DONE ? "the server has started, or failed to" : NULL;
}

bool kin__server_begin(struct kin_server *s, struct kin__task *self)
{
    s->task = self;
    s->id = kin__task_id(self);
    s->sched = kin__task_sched(self);
    kin__lock_take(&s->start_lock, KIN__RANK_WAIT);
    bool begins = s->start == KIN__START_SPAWNED;
    if (begins)
        s->start = KIN__START_BEGUN;
    kin__lock_give(&s->start_lock, KIN__RANK_WAIT);
    return begins;
}

void kin__server_watched_locked(struct kin_server *s, struct kin__party *party)
{
    kin__lock_take(&s->start_lock, KIN__RANK_WAIT);
    if (s->watch && s->start == KIN__START_BEGUN) { /* else the starter takes it back */
        s->watch->target = s->id;
        kin__watch_in_locked(s->watch, party);
        s->watch = NULL;
    }
    kin__lock_give(&s->start_lock, KIN__RANK_WAIT);
}

bool kin__server_tell_starter(struct kin_server *s, int rc)
{
    struct kin__waiter waiter;
    kin__lock_take(&s->start_lock, KIN__RANK_WAIT);
    bool tells = s->start < KIN__START_DONE;
    bool wakes = tells && s->starter;
    if (tells) {
        s->start = KIN__START_DONE;
        s->start_rc = rc;
    }
    if (wakes)
        waiter = *s->starter;
    kin__lock_give(&s->start_lock, KIN__RANK_WAIT);
    if (wakes)
        (void)kin__wake(&waiter, 0);
    return tells;
}

/* The task of the server ends for a reason of its own, or is asked to: waits for that. A starter
 * that is killed meanwhile kills the server, too, and goes on waiting: whoever comes next must not
 * find two of them. */
static int wait_for_end(const struct kin_server *s, kin_time deadline)
{
    struct kin__ender ender = {.task = s->id};
    if (!s->id)
        return 0;
    int rc = kin__wait_until(&kin__task_waitable, &ender, &ender, deadline, KIN__WAIT_SHIELDED);
    if (rc != KIN_CANCELLED)
        return rc;
    (void)kin__task_kill(s->id);
    do { /* ends: what cannot be masked comes a few times at most */
        rc = kin__wait_until(&kin__task_waitable, &ender, &ender, deadline, KIN__WAIT_DEAF);
    } while (rc == KIN_CANCELLED);
    return rc;
}

/* The starter does not wait for the start any longer. False: it is done. */
static bool give_up(struct kin_server *s)
{
    kin__lock_take(&s->start_lock, KIN__RANK_WAIT);
    bool is_done = s->start == KIN__START_DONE;
    bool has_begun = s->start == KIN__START_BEGUN;
    if (!is_done)
        s->start = KIN__START_GIVEN_UP;
    kin__lock_give(&s->start_lock, KIN__RANK_WAIT);
    if (is_done)
        return false;
    if (has_begun) {
        kin_ignore(kin_task_cancel((struct kin_task_ref){s->id}));
        if (wait_for_end(s, kin__clock_after(s->stop_timeout)) == KIN_TIMEOUT)
            kin__task_overdue(kin__task_sched(kin__task_self()), s->id); /* [N2002] */
    }
    return true;
}

/* Waits until the server has started. 0, or why it has not. */
static int wait_for_start(struct kin_server *s, kin_time deadline)
{
    int rc = kin__wait_until(&start_waitable, s, NULL, deadline, 0);
    if (rc < 0 && give_up(s))
        return rc;
    if (s->start_rc < 0)
        (void)wait_for_end(s, KIN_NEVER);
    return s->start_rc;
}

/* Whether a nursery is a supervisor's: then what is known of its children stays until it asks. */
static bool is_supervised(struct kin_nursery *n)
{
    struct kin__scope *scope = kin__scope_lock(kin__handle_of(n));
    if (!scope)
        return false;
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: constant while open */
    uint64_t id = owner ? kin__task_id(owner) : 0;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    struct kin__party *party = kin__party_lock(id);
    if (!party)
        return false;
    bool is_supervisor = party->server && party->server->extra;
    kin__party_unlock(party);
    return is_supervisor;
}

/* Spawns the server's task. */
static int spawn(struct kin_nursery *n, struct kin_server *s, const struct kin_server_options *o,
                 struct kin_task_ref *out, const void *site)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.name = s->name ? s->name : KIN__SERVER_NAME;
    options.budget = o->budget;
    options.caps = o->caps;
    options.priority = o->priority;
    options.stack_max_bytes = o->stack_max_bytes;
    options.cleanup = kin__server_cleanup;
    return kin__spawn_at(n, &options, kin__server_main, s, out, site);
}

/* What is wrong with the options; 0: nothing. */
static int check(const struct kin_server_options *o)
{
    if (!KIN__SIZED(o, "kin_server_start", "SERVER_OPTIONS") ||
        (o->name && kin__name_check(o->name) < 0))
        return -EINVAL;
    if ((unsigned)o->overflow > KIN_OVERFLOW_DROP_OLDEST || (unsigned)o->drain > KIN_DRAIN_ALL ||
        (unsigned)o->priority > KIN_PRIORITY_LOW)
        return -EINVAL;
    return o->init_timeout < 0 || o->stop_timeout < 0 || o->idle_timeout < 0 ? -EINVAL : 0;
}

/* What everybody who starts a server has to pass. */
static int enter(const struct kin_server_options *o)
{
    int rc = check(o);
    unsigned needs = KIN_CAP_SPAWN | (o->name ? KIN_CAP_REGISTRY : 0);
    return rc < 0 ? rc : kin__entry_begin(kin__task_self(), needs, KIN_NEVER);
}

/* Starts a server that was made, and waits until it runs. */
static int start(struct kin_nursery *n, struct kin_server *s, const struct kin_server_options *o,
                 struct kin_addr *out, const void *site)
{
    struct kin_task_ref ref = {0};
    s->starter_id = kin__task_id(kin__task_self());
    kin_time deadline = o->init_timeout ? kin__clock_after(o->init_timeout) : KIN_NEVER;
    bool is_kept = is_supervised(n);
    int rc = spawn(n, s, o, is_kept ? &ref : NULL, site);
    if (rc < 0) {
        kin__server_unref(s); /* its task's */
        return rc;
    }
    rc = wait_for_start(s, deadline);
    if (rc == 0)
        *out = (struct kin_addr){0, s->id};
    else if (rc == KIN_TAKEN)
        *out = s->taken_by;
    if (rc < 0 && is_kept)
        kin__task_forget(ref.id);
    return rc;
}

/* The start has failed: so is the monitor gone, and what it was told. */
static void watch_no_more(struct kin_server *s, struct kin__party *mine, uint64_t ref)
{
    kin__lock_take(&s->start_lock, KIN__RANK_WAIT);
    struct kin__watch *watch = s->watch;
    s->watch = NULL;
    kin__lock_give(&s->start_lock, KIN__RANK_WAIT);
    if (watch)
        kin__watch_abandon(watch, mine);
    else
        (void)kin_demonitor((struct kin_monitor_ref){ref}); /* it had become the server's */
}

/* The same with a monitor, if somebody wants one. The server is given away. */
static int start_watched(struct kin_nursery *n, struct kin_server *s,
                         const struct kin_server_options *o, struct kin_addr *out,
                         const struct kin__server_birth *birth)
{
    struct kin_monitor_ref *monitor = birth->monitor;
    struct kin__party *mine = NULL;
    uint64_t ref = 0;
    int rc = 0;
    if (monitor) {
        s->watch = kin__monitor_make(kin__task_self(), &mine, &rc);
        ref = s->watch ? s->watch->ref : 0;
    }
    if (rc < 0)
        kin__server_unref(s); /* its task's */
    else
        rc = start(n, s, o, out, birth->site);
    if (rc == 0 && monitor)
        monitor->id = ref;
    else if (ref)
        watch_no_more(s, mine, ref);
    kin__server_unref(s);
    return rc;
}

static const struct kin_server_options defaults = KIN_SERVER_OPTIONS_INIT;

int kin__server_start(struct kin_nursery *n, const struct kin_server_ops *ops,
                      const struct kin_server_options *options, const void *arg,
                      const struct kin__server_birth *birth, struct kin_addr *out)
{
    const struct kin_server_options *o = options ? options : &defaults;
    int rc = !n || !ops || !out ? -EINVAL : enter(o);
    struct kin_server *s = rc < 0 ? NULL : make(ops, o, arg, birth->extra, &rc);
    if (s)
        return start_watched(n, s, o, out, birth);
    give_back(birth->extra, arg);
    return rc;
}

int kin_server_start(struct kin_nursery *n, const struct kin_server_ops *ops,
                     const struct kin_server_options *options, const void *arg,
                     struct kin_addr *out)
{
    struct kin__server_birth birth = {NULL, NULL, __builtin_return_address(0)};
    return kin__server_start(n, ops, options, arg, &birth, out);
}

int kin_server_start_monitor(struct kin_nursery *n, const struct kin_server_ops *ops,
                             const struct kin_server_options *options, const void *arg,
                             struct kin_addr *out, struct kin_monitor_ref *monitor)
{
    struct kin__server_birth birth = {NULL, monitor, __builtin_return_address(0)};
    return monitor ? kin__server_start(n, ops, options, arg, &birth, out) : -EINVAL;
}

/* ---- the end ---- */

static void free_casts(struct kin__list *casts)
{
    struct kin__list *link;
    while ((link = kin__list_pop_front(casts))) /* ends: one fewer each time */
        kin__letter_free(KIN__CONTAINER_OF(link, struct kin__letter, link));
}

/* Takes what is in the mailbox, up to a batch of it; the last time the server becomes one that
 * nobody finds, if is_last. True: there is more. */
static bool clear_some(struct kin_server *s, int status, bool is_last)
{
    struct kin__wakes wakes = {0};
    struct kin__list casts;
    kin__list_init(&casts);
    kin__party_take(s->party);
    bool is_more = kin__mailbox_refuse_locked(&s->mailbox, status, END_BATCH, &wakes);
    is_more |= kin__mailbox_clear_locked(s->party, &s->mailbox, status, END_BATCH, &wakes, &casts);
    if (is_last && !is_more) {
        s->state = KIN_SERVER_STOPPED;
        s->party->server = NULL;
    }
    kin__party_unlock(s->party);
    kin__wakes_run(&wakes);
    free_casts(&casts);
    return is_more;
}

void kin__server_clear(struct kin_server *s, int status)
{
    while (clear_some(s, status, false)) /* ends: nobody is let in any more */
        ;
}

/* Calls that somebody was to answer and did not. */
static void close_tokens(struct kin_server *s, int status)
{
    struct kin__list *link;
    bool has_left = false;
    size_t leaks = 0;
    if (s->token)
        (void)kin__reply_close(s->token, status, &has_left);
    /* ends: one fewer each time, and nobody adds or takes any more */
    while ((link = kin__list_pop_front(&s->moved))) {
        struct kin__reply *reply = KIN__CONTAINER_OF(link, struct kin__reply, link);
        if (kin__reply_close(reply, status, &has_left) && !has_left)
            leaks++; /* [GS-REPLY-LEAK] */
        kin__reply_free(reply);
    }
    if (leaks)
        kin__leaks_add(s->sched, leaks);
}

void kin__server_end(struct kin_server *s, const struct kin_outcome *how)
{
    struct kin__list *link;
    bool is_calm = how->severity == KIN_SEV_OK || how->severity == KIN_SEV_CANCELLED;
    int status = is_calm || how->status >= 0 ? KIN_STOPPING : how->status;
    while (clear_some(s, status, true)) /* ends: nobody is let in any more */
        ;
    if (s->is_timed)
        kin__timer_disarm(&s->party->timer);
    close_tokens(s, status);
    if (s->note) {
        s->note->done(s->note);
        s->note = NULL;
    }
    while ((link = kin__list_pop_front(&s->posted))) { /* ends: one fewer each time */
        struct kin__note *note = KIN__CONTAINER_OF(link, struct kin__note, link);
        note->done(note);
    }
    (void)kin__server_tell_starter(s, how->status < 0 ? how->status : KIN_STOPPING);
    kin__server_unref(s);
}

/* ---- from outside ---- */

int kin_server_stop(struct kin_addr server, int reason, kin_time deadline)
{
    if (reason > 0)
        return -EINVAL;
    int rc = kin__entry_begin(kin__task_self(), 0, deadline);
    if (rc < 0)
        return rc;
    struct kin__task *self = kin__task_self();
    if (server.node != 0)
        return KIN_NOCONN;
    if (server.id == kin__task_id(self))
        return KIN_DEADLOCK;
    struct kin__party *party = kin__party_lock(server.id);
    struct kin_server *s = party ? party->server : NULL;
    if (party && (!s || party->sched != kin__task_sched(self))) {
        kin__party_unlock(party);
        return KIN_NOPROC;
    }
    if (!party)
        return KIN_NOPROC;
    if (!s->is_asked) {
        s->is_asked = true;
        s->reason = reason;
    }
    kin__party_wake_and_unlock(party);
    struct kin__ender ender = {.task = server.id};
    return kin__wait_until(&kin__task_waitable, &ender, &ender, deadline, 0);
}

enum kin_server_state kin_server_state(struct kin_addr server)
{
    kin__entry_turn_self();
    struct kin__party *party = server.node == 0 ? kin__party_lock(server.id) : NULL;
    if (!party)
        return KIN_SERVER_STOPPED;
    enum kin_server_state state = KIN_SERVER_STOPPED;
    if (party->server)
        state = (enum kin_server_state)party->server->state;
    kin__party_unlock(party);
    return state;
}

uint64_t kin_server_dropped(struct kin_addr server)
{
    kin__entry_turn_self();
    struct kin__party *party = server.node == 0 ? kin__party_lock(server.id) : NULL;
    uint64_t dropped = party && party->server ? party->server->dropped : 0;
    if (party)
        kin__party_unlock(party);
    return dropped;
}

void kin__server_post(uint64_t server, struct kin__note *note)
{
    struct kin__party *party = kin__party_lock(server);
    kin__list_init(&note->link);
    if (!party || !party->server) {
        if (party)
            kin__party_unlock(party);
        note->done(note);
        return;
    }
    kin__list_push_back(&party->server->posted, &note->link);
    kin__party_wake_and_unlock(party);
}

/* ---- for the server's own task ---- */

int kin_server_stop_self(struct kin_server *s, int status)
{
    if (!s || status > 0)
        return -EINVAL;
    struct kin__task *self = kin__task_self();
    kin__entry_turn_self();
    if (!self || self != s->task)
        return -EPERM;
    s->is_stopping = true;
    s->stop_status = status;
    return 0;
}

uint64_t kin__server_id(const struct kin_server *s)
{
    return s->id;
}

struct kin_addr kin__server_addr(const struct kin_server *s)
{
    return (struct kin_addr){0, s->id};
}

const char *kin__server_name(const struct kin_server *s)
{
    return s->name;
}

void *kin__server_state_of(struct kin_server *s)
{
    return s->memory;
}

void kin__server_finish(struct kin_server *s, int status)
{
    s->is_stopping = true;
    s->stop_status = status;
}

void kin__server_alarm(struct kin_server *s, kin_time at)
{
    s->alarm_at = at;
}
