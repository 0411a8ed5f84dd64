/* SPDX-License-Identifier: MIT */
/*
 * How a supervisor is started: everything that can be wrong with what it is given is found, and
 * everything that it keeps is copied, before there is a task.
 *
 * The block of a supervisor has one reference of its task, one of whoever starts it and reads from
 * it whose start failed, and one of a supervisor above, which asks how it ended.
 */
#include "otp/supervisor.h"

#include "plat/plat.h"
#include "sched/entry.h"
#include "scope/capability.h"

#include <kin/budget.h>

#include <errno.h>

#define KEY_STREAM UINT64_C(0x6b696e5f737570) /* of random numbers, for the keys of tables */

static void sup_free(struct kin__sup *sup)
{
    struct kin__list *link;
    while ((link = kin__list_pop_front(&sup->order))) /* ends: one fewer each time */
        kin__child_unmake(kin__child_of(link));
    while ((link = kin__list_pop_front(&sup->below))) /* ends: as above */
        kin__sup_unref(KIN__CONTAINER_OF(link, struct kin__sup, below_next));
    kin__child_unmake(sup->template_);
    kin__history_fini(&sup->history);
    kin__heap_free(sup->by_name);
    kin__heap_free(sup->alarms.slots);
    kin__heap_free(sup);
}

void kin__sup_unref(struct kin__sup *sup)
{
    /* pairs with the others: the last one sees what they did */
    if (kin__sub_acq_rel(&sup->references, 1u) == 1)
        sup_free(sup);
}

/* What is wrong with the options; 0: nothing. */
static int check_options(const struct kin_supervisor_options *o)
{
    if (!KIN__SIZED(o, "kin_supervisor_start", "SUPERVISOR_OPTIONS") || o->window < 0 ||
        (unsigned)o->strategy > KIN_TEMPLATE ||
        (unsigned)o->escalation > KIN_ESCALATION_RESET ||
        (unsigned)o->auto_shutdown > KIN_AUTO_SHUTDOWN_ALL ||
        (unsigned)o->on_child_stopped > KIN_STOPPED_ESCALATE)
        return -EINVAL;
    return kin__backoff_is_valid(&o->reset_backoff) ? 0 : -EINVAL;
}

/* A supervisor without children. */
static struct kin__sup *sup_make(const struct kin_supervisor_options *o, struct kin__sched *sched)
{
    struct kin__rng rng;
    struct kin__sup *sup = kin__heap_alloc(sizeof(*sup));
    if (!sup)
        return NULL;
    kin__store_relaxed(&sup->references, 2u); /* alone: nobody else has it yet */
    kin__store_relaxed(&sup->failed, UINT64_MAX); /* alone: as above */
    sup->strategy = o->strategy;
    sup->escalation = o->escalation;
    sup->auto_shutdown = o->auto_shutdown;
    sup->on_child_stopped = o->on_child_stopped;
    sup->max_children = o->max_children;
    sup->reset_backoff = o->reset_backoff;
    sup->on_event = o->on_event;
    sup->event_arg = o->event_arg;
    kin__list_init(&sup->order);
    kin__list_init(&sup->below);
    kin__list_init(&sup->late);
    kin__heap_init(&sup->alarms, NULL, 0);
    sup->cursor = &sup->order;
    kin__rng_init(&rng, sched->config.seed, KEY_STREAM);
    sup->key.k0 = kin__rng_next(&rng);
    sup->key.k1 = kin__rng_next(&rng);
    if (kin__history_init(&sup->history, o->max_restarts, o->window) && kin__sup_reserve(sup))
        return sup;
    sup_free(sup);
    return NULL;
}

/* One child more. 0, -ENOMEM, KIN_BUDGET. */
static int add_child(struct kin__sup *sup, const struct kin_child_spec *spec, size_t index)
{
    int rc = -ENOMEM;
    struct kin__kid *child = kin__sup_reserve(sup) ? kin__child_make(spec, &rc) : NULL;
    if (!child)
        return rc;
    child->index = index;
    kin__child_enter(sup, child);
    return 0;
}

/* Its children, in the order of their starts [D9]. */
static int add_children(struct kin__sup *sup, const struct kin_child_spec *children, size_t count)
{
    uint32_t *order = kin__heap_alloc((count + 1) * sizeof(*order));
    if (!order)
        return -ENOMEM;
    int rc = kin__plan_order(children, count, sup->key, order);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add_child(sup, &children[order[i]], order[i]);
    kin__heap_free(order);
    return rc;
}

/* The children as they are given; of a template, what it is. */
static int take_children(struct kin__sup *sup, const struct kin_child_spec *children, size_t count)
{
    bool is_template = sup->strategy == KIN_TEMPLATE;
    for (size_t i = 0; i < count; i++) {
        if (!kin__child_spec_is_valid(&children[i], sup->strategy, sup->auto_shutdown))
            return -EINVAL;
    }
    if (!is_template)
        return sup->max_children && count > sup->max_children ? KIN_FULL
                                                              : add_children(sup, children, count);
    if (count > 1)
        return -EINVAL;
    int rc = 0;
    sup->template_ = count ? kin__child_make(&children[0], &rc) : NULL;
    return count && !sup->template_ ? rc : 0;
}

/* As much as its starter may share, where a task has what it was given and nothing else. */
static void share(struct kin_server_options *options)
{
    struct kin_budget left = kin_budget_left();
    uint32_t caps = kin_caps();
    options->caps = caps ? caps : KIN_CAP_NONE;
    options->budget = kin__half_of(&left);
}

/* What both public calls do. */
static int start(struct kin_nursery *n, const struct kin_supervisor_options *options,
                 const struct kin_child_spec *children, size_t count, struct kin_addr *out,
                 struct kin__server_birth *birth)
{
    static const struct kin_supervisor_options defaults = KIN_SUPERVISOR_OPTIONS_INIT;
    const struct kin_supervisor_options *o = options ? options : &defaults;
    struct kin_server_options server = KIN_SERVER_OPTIONS_INIT;
    struct kin__task *self = kin__task_self();
    if (!n || !out || (!children && count) || check_options(o) < 0)
        return -EINVAL;
    if (!self)
        return kin__no_task();
    kin__entry_check(self);
    struct kin__sched *sched = kin__task_sched(self);
    struct kin__sup *sup = sup_make(o, sched);
    if (!sup)
        return -ENOMEM;
    int rc = take_children(sup, children, count);
    if (rc < 0) {
        sup_free(sup);
        return rc;
    }
    server.name = o->name;
    server.state_size = sizeof(struct kin__sup *);
    server.stop_timeout = KIN_NEVER; /* its children say how long it takes */
    if (kin__profile_is_strict(sched))
        share(&server);
    birth->extra = &kin__sup_extra;
    rc = kin__server_start(n, &kin__sup_ops, &server, sup, birth, out);
    /* pairs with the release of the supervisor; a starter that is killed may be too early */
    uint64_t failed = kin__load_acquire(&sup->failed);
    if (rc < 0 && o->failed_child && failed < count)
        *o->failed_child = children[failed].name;
    kin__sup_unref(sup);
    return rc;
}

int kin_supervisor_start(struct kin_nursery *n, const struct kin_supervisor_options *options,
                         const struct kin_child_spec *children, size_t count, struct kin_addr *out)
{
    struct kin__server_birth birth = {NULL, NULL, __builtin_return_address(0)};
    return start(n, options, children, count, out, &birth);
}

int kin_supervisor_start_monitor(struct kin_nursery *n,
                                 const struct kin_supervisor_options *options,
                                 const struct kin_child_spec *children, size_t count,
                                 struct kin_addr *out, struct kin_monitor_ref *monitor)
{
    struct kin__server_birth birth = {NULL, monitor, __builtin_return_address(0)};
    return monitor ? start(n, options, children, count, out, &birth) : -EINVAL;
}
