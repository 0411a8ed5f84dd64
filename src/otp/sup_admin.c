/* SPDX-License-Identifier: MIT */
/*
 * The calls with which others ask a supervisor about its children, and to do something with them.
 *
 * A call is a request with one pointer in it, to an order in memory of its own. The order is the
 * supervisor's as soon as it has taken the request out of its mailbox, and the caller's otherwise:
 * a caller that leaves early takes nothing away from under the supervisor. An order that has to
 * wait for a start or an end hangs on its child with the token of the call, which was moved. A list
 * of children is a block that travels with the answer, and is the caller's once the answer is.
 */
#include "otp/registry.h"
#include "otp/supervisor.h"

#include "plat/plat.h"
#include "sched/entry.h"

#include <errno.h>
#include <string.h>

static void order_free(struct kin__order *order)
{
    if (order && order->child)
        kin__child_unmake(order->child);
    kin__heap_free(order);
}

/* ---- the supervisor's side: answers ---- */

/* Answers by a token that was moved, and frees it and the order. */
static void answer_order(struct kin__order *order, int status, struct kin_addr addr)
{
    struct kin__answer answer = {.addr = addr};
    if (status < 0)
        (void)kin_reply_abort(order->reply, status); /* the caller may have left: fine */
    else
        (void)kin_reply_send(order->reply, &answer, sizeof(answer));
    kin_reply_drop(order->reply);
    order_free(order);
}

void kin__child_answer_start(struct kin__kid *child, int status)
{
    struct kin__order *order = child->order_start;
    child->order_start = NULL;
    if (order)
        answer_order(order, status, child->addr);
}

void kin__child_answer_end(struct kin__kid *child)
{
    struct kin__list *link;
    while ((link = kin__list_pop_front(&child->waiters))) /* ends: one fewer each time */
        answer_order(KIN__CONTAINER_OF(link, struct kin__order, link), 0, child->addr);
}

/* ---- the supervisor's side: orders ---- */

/* Makes the answer one that comes later; the order stays. 0 or -ENOMEM. */
static int put_off(struct kin__order *order, struct kin_reply *reply)
{
    return kin_reply_move(reply, &order->reply);
}

/* The child that an order of start_child means, made whole by the template if it lacks something.
 * NULL: no memory, or nonsense, by *rc. It is in the order, whatever it was before. */
static struct kin__kid *complete(struct kin__sup *sup, struct kin__order *order, int *rc)
{
    struct kin__kid *given = order->child;
    *rc = -EINVAL;
    if (!given->start) {
        if (!sup->template_)
            return NULL;
        struct kin_child_spec spec = kin__child_spec(sup->template_);
        if (given->arg || given->arg_size) {
            spec.arg = given->arg;
            spec.arg_size = given->arg_size;
        }
        struct kin__kid *whole = kin__child_make_named(
            &spec, given->named ? given->named : sup->template_->named, rc);
        if (!whole)
            return NULL;
        *rc = -EINVAL;
        kin__child_unmake(given);
        order->child = given = whole;
    }
    struct kin_child_spec spec = kin__child_spec(given);
    if (!kin__child_spec_is_valid(&spec, sup->strategy, sup->auto_shutdown)) {
        *rc = -EINVAL;
        return NULL;
    }
    for (const char *const *on = (const char *const *)given->depends_on; *on; on++) {
        if (!kin__child_by_name(sup, *on))
            return NULL;
    }
    *rc = 0;
    return given;
}

static int order_start(struct kin__sup *sup, struct kin__order *order, struct kin_reply *reply)
{
    int rc;
    struct kin__kid *child = complete(sup, order, &rc);
    if (!child)
        return rc;
    if (sup->strategy != KIN_TEMPLATE && kin__child_by_name(sup, child->name))
        return KIN_TAKEN;
    if (sup->max_children && sup->specs >= sup->max_children)
        return KIN_FULL;
    if (!kin__sup_reserve(sup))
        return -ENOMEM;
    rc = put_off(order, reply);
    if (rc < 0)
        return rc;
    order->child = NULL;
    kin__child_enter(sup, child);
    child->is_new = true;
    child->order_start = order;
    kin__child_start(child);
    return 0;
}

static int order_restart(struct kin__sup *sup, struct kin__order *order, struct kin_reply *reply)
{
    struct kin__kid *child = kin__child_by_name(sup, order->name);
    if (!child)
        return KIN_NOPROC;
    enum kin_child_state shown = kin__child_shown(child);
    if (shown != KIN_CHILD_STOPPED)
        return shown == KIN_CHILD_RUNNING ? -EBUSY : -EALREADY;
    int rc = put_off(order, reply);
    if (rc < 0)
        return rc;
    child->order_start = order;
    kin__child_start(child);
    return 0;
}

/* 1: it is done, and the caller is to be told so. */
static int order_terminate(struct kin__kid *child, struct kin__order *order,
                           struct kin_reply *reply)
{
    if (!child)
        return KIN_NOPROC;
    if (child->state == KIN__CHILD_REST) {
        (void)kin__sup_terminate(child);
        return 1;
    }
    int rc = put_off(order, reply);
    if (rc < 0)
        return rc;
    kin__list_push_back(&child->waiters, &order->link);
    (void)kin__sup_terminate(child);
    return 0;
}

static int order_delete(struct kin__sup *sup, const struct kin__order *order)
{
    struct kin__kid *child = kin__child_by_name(sup, order->name);
    if (!child)
        return KIN_NOPROC;
    enum kin_child_state shown = kin__child_shown(child);
    if (shown != KIN_CHILD_STOPPED)
        return shown == KIN_CHILD_RUNNING ? -EBUSY : -EALREADY;
    kin__child_remove(child);
    return 1;
}

static struct kin_child_counts counts_of(const struct kin__sup *sup)
{
    return (struct kin_child_counts){.specs = sup->specs,
                                     .active = sup->running,
                                     .restarting = sup->restarting,
                                     .stopped = sup->specs - sup->running - sup->restarting};
}

/* A block with what is to be said about the first children; NULL: no memory. Their names are
 * shown: the children may be gone before anybody reads it [SINV-6]. */
static struct kin_child_info *list_children(struct kin__sup *sup, size_t count)
{
    struct kin__shown *shown = kin__names_shown(sup->sched);
    struct kin_child_info *infos = shown ? kin__heap_alloc(count * sizeof(*infos)) : NULL;
    size_t i = 0;
    if (!infos)
        return NULL;
    for (struct kin__list *link = sup->order.next; i < count; link = link->next) {
        const struct kin__kid *child = kin__child_of(link);
        const char *name = child->named ? kin__name_show(shown, child->named) : NULL;
        if (child->named && !name) {
            kin__heap_free(infos);
            return NULL;
        }
        infos[i++] = (struct kin_child_info){.name = name,
                                             .state = kin__child_shown(child),
                                             .restart = child->restart,
                                             .restarts = child->restarts,
                                             .status = child->status};
        if (child->state == KIN__CHILD_RUNNING)
            infos[i - 1].addr = child->addr;
    }
    return infos;
}

static int order_which(struct kin__sup *sup, const struct kin__order *order,
                       struct kin_reply *reply)
{
    struct kin__answer answer = {.counts = counts_of(sup)};
    size_t count = order->cap < sup->specs ? order->cap : sup->specs;
    if (count) {
        answer.infos = list_children(sup, count);
        if (!answer.infos)
            return -ENOMEM;
    }
    if (kin_reply_send(reply, &answer, sizeof(answer)) != 0)
        kin__heap_free(answer.infos); /* the caller has left */
    return 0;
}

/* Carries an order out, or begins to. 1: done, tell the caller; 0: it is told, or will be; less
 * than 0: why not. */
static int carry_out(struct kin__sup *sup, struct kin__order *order, struct kin_reply *reply)
{
    struct kin__answer answer = {.counts = counts_of(sup)};
    switch (order->kind) {
    case KIN__ORDER_START:
        return order_start(sup, order, reply);
    case KIN__ORDER_TERMINATE:
        return order_terminate(kin__child_by_name(sup, order->name), order, reply);
    case KIN__ORDER_TERMINATE_ADDR:
        return order_terminate(order->addr.node == 0 && order->addr.id != 0
                                   ? kin__child_by_task(sup, order->addr.id, 0)
                                   : NULL,
                               order, reply);
    case KIN__ORDER_RESTART:
        return order_restart(sup, order, reply);
    case KIN__ORDER_DELETE:
        return order_delete(sup, order);
    case KIN__ORDER_WHICH:
        return order_which(sup, order, reply);
    case KIN__ORDER_COUNT:
        break;
    }
    (void)kin_reply_send(reply, &answer, sizeof(answer));
    return 0;
}

int kin__sup_request(struct kin_server *s, void *state, const void *req, size_t size,
                     struct kin_reply *reply)
{
    struct kin__sup *sup = *(struct kin__sup **)state;
    struct kin__answer answer = {{0, 0}, {0, 0, 0, 0}, NULL};
    struct kin__order *order;
    (void)s;
    KIN__CHECK(size == sizeof(struct kin__order *), "house");
    memcpy(&order, req, sizeof(struct kin__order *));
    int rc = KIN_STOPPING;
    if (sup && sup->mode == KIN__SUP_RUNNING)
        rc = carry_out(sup, order, reply);
    bool waits = rc == 0 && order->reply;
    if (rc > 0)
        (void)kin_reply_send(reply, &answer, sizeof(answer));
    else if (rc < 0)
        (void)kin_reply_abort(reply, rc);
    if (!waits)
        order_free(order);
    return sup ? kin__sup_go_on(sup) : 0;
}

/* ---- the caller's side ---- */

static struct kin__order *order_make(enum kin__order_kind kind, const char *name)
{
    size_t size = name ? strlen(name) + 1 : 1;
    struct kin__order *order = kin__heap_alloc(sizeof(*order) + size);
    if (!order)
        return NULL;
    order->kind = kind;
    if (name)
        memcpy(order->name, name, size);
    return order;
}

/* Sends an order, which is given, and waits for the answer. */
static int place(struct kin_addr sup, struct kin__order *order, struct kin__answer *answer,
                 kin_time deadline)
{
    bool was_taken = false;
    if (!order)
        return -ENOMEM;
    int rc = kin__call_extra(sup, &kin__sup_extra, &order, sizeof(struct kin__order *), answer,
                             sizeof(*answer), NULL, deadline, &was_taken);
    if (!was_taken)
        order_free(order);
    return rc;
}

/* An order about the child with this name, of which nothing but success is to be known. */
static int place_named(struct kin_addr sup, enum kin__order_kind kind, const char *name,
                       struct kin_addr *out, kin_time deadline)
{
    struct kin__answer answer;
    if (!name || !*name)
        return -EINVAL;
    if (!kin__task_self())
        return KIN_NOTASK;
    kin__entry_turn_self();
    int rc = place(sup, order_make(kind, name), &answer, deadline);
    if (rc == 0 && out)
        *out = answer.addr;
    return rc;
}

int kin_supervisor_start_child(struct kin_addr sup, const struct kin_child_spec *spec,
                               struct kin_addr *out, kin_time deadline)
{
    static const struct kin_child_spec nothing;
    struct kin__answer answer;
    if (!out || (spec && spec->arg_size && !spec->arg))
        return -EINVAL;
    if (!kin__task_self())
        return KIN_NOTASK;
    kin__entry_turn_self();
    struct kin__order *order = order_make(KIN__ORDER_START, NULL);
    if (!order)
        return -ENOMEM;
    int rc;
    order->child = kin__child_make(spec ? spec : &nothing, &rc);
    if (!order->child) {
        order_free(order);
        return rc;
    }
    rc = place(sup, order, &answer, deadline);
    if (rc == 0)
        *out = answer.addr;
    return rc;
}

int kin_supervisor_terminate_child(struct kin_addr sup, const char *name, kin_time deadline)
{
    return place_named(sup, KIN__ORDER_TERMINATE, name, NULL, deadline);
}

int kin_supervisor_terminate_addr(struct kin_addr sup, struct kin_addr child, kin_time deadline)
{
    struct kin__answer answer;
    if (!kin__task_self())
        return KIN_NOTASK;
    kin__entry_turn_self();
    struct kin__order *order = order_make(KIN__ORDER_TERMINATE_ADDR, NULL);
    if (order)
        order->addr = child;
    return place(sup, order, &answer, deadline);
}

int kin_supervisor_restart_child(struct kin_addr sup, const char *name, struct kin_addr *out,
                                 kin_time deadline)
{
    return out ? place_named(sup, KIN__ORDER_RESTART, name, out, deadline) : -EINVAL;
}

int kin_supervisor_delete_child(struct kin_addr sup, const char *name, kin_time deadline)
{
    return place_named(sup, KIN__ORDER_DELETE, name, NULL, deadline);
}

ssize_t kin_supervisor_which_children(struct kin_addr sup, struct kin_child_info *buf, size_t cap,
                                      kin_time deadline)
{
    struct kin__answer answer;
    if (!buf && cap)
        return -EINVAL;
    if (!kin__task_self())
        return KIN_NOTASK;
    kin__entry_turn_self();
    struct kin__order *order = order_make(KIN__ORDER_WHICH, NULL);
    if (order)
        order->cap = cap;
    int rc = place(sup, order, &answer, deadline);
    if (rc < 0)
        return rc;
    size_t count = cap < answer.counts.specs ? cap : answer.counts.specs;
    if (count)
        memcpy(buf, answer.infos, count * sizeof(*buf));
    kin__heap_free(answer.infos);
    return (ssize_t)answer.counts.specs;
}

int kin_supervisor_count_children(struct kin_addr sup, struct kin_child_counts *out,
                                  kin_time deadline)
{
    struct kin__answer answer;
    if (!out)
        return -EINVAL;
    if (!kin__task_self())
        return KIN_NOTASK;
    kin__entry_turn_self();
    int rc = place(sup, order_make(KIN__ORDER_COUNT, NULL), &answer, deadline);
    if (rc == 0)
        *out = answer.counts;
    return rc;
}
