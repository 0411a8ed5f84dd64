/* SPDX-License-Identifier: MIT */
/*
 * The records of a supervisor's children: how they are made, counted, and found by name and by
 * task.
 *
 * A record is one block with everything that its spec pointed at behind it, but for its name, which
 * others may keep. Both tables and the heap of alarms have room for every child from the moment
 * that it is entered, so that nothing that happens to it later needs memory.
 */
#include "otp/supervisor.h"

#include "plat/plat.h"
#include "scope/belongings.h"

#include <errno.h>
#include <string.h>

#define CHAINS_FIRST 8u
#define ALIGN_TO 16u

/* ---- records ---- */

bool kin__child_spec_is_valid(const struct kin_child_spec *spec, enum kin_strategy strategy,
                              enum kin_auto_shutdown auto_shutdown)
{
    bool is_template = strategy == KIN_TEMPLATE;
    if (!spec->start || (spec->arg_size && !spec->arg) || (spec->name && !*spec->name) ||
        (!spec->name && !is_template))
        return false;
    if (is_template && spec->depends_on && *spec->depends_on)
        return false;
    if ((unsigned)spec->restart > KIN_ESCALATE || spec->shutdown < KIN_BRUTAL ||
        spec->window < 0)
        return false;
    if (spec->significant &&
        (spec->restart == KIN_PERMANENT || auto_shutdown == KIN_AUTO_SHUTDOWN_NEVER))
        return false; /* it would never shut anything down */
    return kin__backoff_is_valid(&spec->backoff);
}

static size_t rounded(size_t size)
{
    return (size + ALIGN_TO - 1) & ~(size_t)(ALIGN_TO - 1);
}

/* What a record of the spec takes, and how many names it depends on; 0: too much. */
static size_t size_of(const struct kin_child_spec *spec, size_t *count)
{
    size_t size = rounded(sizeof(struct kin__kid));
    const char *const *on = spec->depends_on;
    if (spec->arg_size > SIZE_MAX / 2)
        return 0;
    size += rounded(spec->arg_size);
    for (*count = 0; on && on[*count]; ++*count)
        size += strlen(on[*count]) + 1;
    size = rounded(size);
    return size + (*count + 1) * sizeof(char *);
}

static const char *put_string(char **at, const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = memcpy(*at, string, size);
    *at += size;
    return copy;
}

/* record | argument | strings | table of the names that it depends on */
static void copy_spec(struct kin__kid *child, const struct kin_child_spec *spec, size_t size,
                      size_t count)
{
    char *at = (char *)child + rounded(sizeof(*child));
    const char **table = (const char **)(void *)((char *)child + size) - (count + 1);
    child->arg = spec->arg;
    child->arg_size = spec->arg_size;
    if (spec->arg_size)
        child->arg = memcpy(at, spec->arg, spec->arg_size);
    at += rounded(spec->arg_size);
    for (size_t i = 0; i < count; i++)
        table[i] = put_string(&at, spec->depends_on[i]);
    child->depends_on = table; /* the last of it is NULL: the block was zero */
    child->start = spec->start;
    child->restart = spec->restart;
    child->shutdown = spec->shutdown;
    child->is_significant = spec->significant;
    child->backoff = spec->backoff;
    child->has_limit = spec->max_restarts != 0;
}

struct kin__kid *kin__child_make_named(const struct kin_child_spec *spec, struct kin__name *name,
                                       int *rc)
{
    size_t count;
    size_t size = size_of(spec, &count);
    *rc = -ENOMEM;
    struct kin__kid *child = size ? kin__alloc(kin__task_self(), size, rc) : NULL;
    if (!child)
        return NULL;
    child->named = name ? kin__name_ref(name) : NULL; /* [SINV-6] */
    child->name = name ? name->text : NULL;
    copy_spec(child, spec, size, count);
    kin__list_init(&child->waiters);
    if (child->has_limit &&
        !kin__history_init(&child->history, spec->max_restarts, spec->window)) {
        kin__child_unmake(child);
        *rc = -ENOMEM;
        return NULL;
    }
    return child;
}

struct kin__kid *kin__child_make(const struct kin_child_spec *spec, int *rc)
{
    struct kin__name *name =
        spec->name ? kin__name_make(spec->name, strlen(spec->name), rc) : NULL;
    if (spec->name && !name)
        return NULL;
    struct kin__kid *child = kin__child_make_named(spec, name, rc);
    kin__name_unref(name); /* the record has one */
    return child;
}

struct kin_child_spec kin__child_spec(const struct kin__kid *child)
{
    return (struct kin_child_spec){.name = child->name,
                                   .start = child->start,
                                   .arg = child->arg,
                                   .arg_size = child->arg_size,
                                   .restart = child->restart,
                                   .shutdown = child->shutdown,
                                   .significant = child->is_significant,
                                   .depends_on = (const char *const *)child->depends_on,
                                   .backoff = child->backoff,
                                   .max_restarts = !child->has_limit ? 0
                                                   : child->history.max ? child->history.max
                                                                        : KIN_NO_RESTARTS,
                                   .window = child->history.window};
}

void kin__child_unmake(struct kin__kid *child)
{
    if (!child)
        return;
    if (child->below)
        kin__sup_unref(child->below);
    kin__heap_free(child->text);
    kin__history_fini(&child->history);
    kin__name_unref(child->named);
    kin__free(child);
}

/* ---- tables ---- */

static struct kin__kid **name_chain(struct kin__sup *sup, const char *name)
{
    return &sup->by_name[kin__hash_bytes(sup->key, name, strlen(name)) & sup->mask];
}

static struct kin__kid **task_chain(struct kin__sup *sup, uint64_t task)
{
    return &sup->by_task[kin__hash_u64(task ^ sup->key.k0) & sup->mask];
}

/* Only children with names of their own are found by them: those of a template may share one. */
static bool has_own_name(const struct kin__kid *child)
{
    return child->name && child->sup->strategy != KIN_TEMPLATE;
}

static void name_enter(struct kin__kid *child)
{
    struct kin__kid **chain = name_chain(child->sup, child->name);
    child->name_next = *chain;
    *chain = child;
}

void kin__child_task_enter(struct kin__kid *child)
{
    struct kin__kid **chain = task_chain(child->sup, child->task);
    child->task_next = *chain;
    *chain = child;
}

void kin__child_task_leave(struct kin__kid *child)
{
    struct kin__kid **at = task_chain(child->sup, child->task);
    while (*at != child) /* ends: it is there */
        at = &(*at)->task_next;
    *at = child->task_next;
}

struct kin__kid *kin__child_by_name(struct kin__sup *sup, const char *name)
{
    struct kin__kid *child = *name_chain(sup, name);
    while (child && strcmp(child->name, name) != 0) /* ends: with the chain */
        child = child->name_next;
    return child;
}

struct kin__kid *kin__child_by_task(struct kin__sup *sup, uint64_t task, uint64_t ref)
{
    struct kin__kid *child = *task_chain(sup, task);
    /* ends: with the chain */
    while (child && (child->task != task || (ref && child->ref.id != ref)))
        child = child->task_next;
    return child;
}

/* Twice as many chains. */
static bool grow_tables(struct kin__sup *sup)
{
    size_t chains = sup->by_name ? 2 * (sup->mask + 1) : CHAINS_FIRST;
    struct kin__kid **tables = kin__heap_alloc(2 * chains * sizeof(struct kin__kid *));
    if (!tables)
        return false;
    kin__heap_free(sup->by_name);
    sup->by_name = tables;
    sup->by_task = tables + chains;
    sup->mask = chains - 1;
    KIN__LIST_EACH(link, &sup->order) {
        struct kin__kid *child = kin__child_of(link);
        if (has_own_name(child))
            name_enter(child);
        if (child->state == KIN__CHILD_RUNNING)
            kin__child_task_enter(child);
    }
    return true;
}

static bool grow_alarms(struct kin__sup *sup)
{
    size_t cap = sup->alarms.cap ? 2 * sup->alarms.cap : CHAINS_FIRST;
    struct kin__heap_node **slots = kin__heap_alloc(cap * sizeof(*slots));
    if (!slots)
        return false;
    kin__heap_free(kin__heap_move(&sup->alarms, slots, cap));
    return true;
}

bool kin__sup_reserve(struct kin__sup *sup)
{
    if ((!sup->by_name || sup->specs > sup->mask) && !grow_tables(sup))
        return false;
    return sup->specs + 1 < sup->alarms.cap || grow_alarms(sup); /* one is the plan's */
}

void kin__child_enter(struct kin__sup *sup, struct kin__kid *child)
{
    child->sup = sup;
    child->rank = ++sup->rank_last;
    kin__list_push_back(&sup->order, &child->order);
    if (has_own_name(child))
        name_enter(child);
    sup->specs++;
    sup->dependent += child->depends_on[0] != NULL;
}

/* ---- dependencies ---- */

/* One that was down for good has gone, and one that had done what it was for is not missed. */
static void leave_dependents(struct kin__kid *child)
{
    struct kin__sup *sup = child->sup;
    sup->dependent -= child->depends_on[0] != NULL;
    if (sup->dependent == 0 || sup->mode == KIN__SUP_CLOSING || child->rest != KIN__REST_DONE ||
        !child->name)
        return;
    KIN__LIST_EACH(link, &sup->order) {
        for (const char **on = kin__child_of(link)->depends_on; *on; on++) {
            if (strcmp(*on, child->name) == 0)
                *on = "";
        }
    }
}

/* Whether nobody is going to start it. One that ended well, or declined, has done what it was for;
 * one that never was started is on its way. */
static bool is_down(const struct kin__kid *child)
{
    return child->state == KIN__CHILD_REST && !child->is_wanted &&
           child->rest != KIN__REST_DONE && child->rest != KIN__REST_FRESH;
}

const char *kin__child_lacks(const struct kin__kid *child)
{
    for (const char *const *on = (const char *const *)child->depends_on; *on; on++) {
        const struct kin__kid *other = **on ? kin__child_by_name(child->sup, *on) : NULL;
        if (**on && (!other || is_down(other)))
            return *on;
    }
    return NULL;
}

void kin__child_remove(struct kin__kid *child)
{
    struct kin__sup *sup = child->sup;
    KIN__ASSERT(child->state == KIN__CHILD_REST && kin__list_is_empty(&child->waiters), "house");
    kin__child_answer_start(child, KIN_CANCELLED); /* of a start that a plan had put off */
    kin__child_set(child, KIN__CHILD_REST, false);
    kin__sup_alarm_off(sup, &child->alarm);
    if (sup->cursor == &child->order) /* whoever goes through the order comes from one side */
        sup->cursor = sup->mode == KIN__SUP_CLOSING || sup->phase == KIN__PLAN_STOPS
                          ? child->order.prev
                          : child->order.next;
    kin__list_remove(&child->order);
    if (child->is_late)
        kin__list_remove(&child->late);
    leave_dependents(child);
    if (has_own_name(child)) {
        struct kin__kid **at = name_chain(sup, child->name);
        while (*at != child) /* ends: it is there */
            at = &(*at)->name_next;
        *at = child->name_next;
    }
    sup->specs--;
    kin__child_unmake(child);
}

/* ---- counts ---- */

enum kin_child_state kin__child_shown(const struct kin__kid *child)
{
    if (child->state == KIN__CHILD_RUNNING)
        return KIN_CHILD_RUNNING;
    return child->state == KIN__CHILD_STARTING || child->is_wanted ? KIN_CHILD_RESTARTING
                                                                   : KIN_CHILD_STOPPED;
}

/* Adds the child to what is counted, or takes it off. */
static void count(struct kin__kid *child, size_t one)
{
    struct kin__sup *sup = child->sup;
    enum kin_child_state shown = kin__child_shown(child);
    if (child->state != KIN__CHILD_REST)
        sup->active += one;
    if (shown == KIN_CHILD_RUNNING)
        sup->running += one;
    if (shown == KIN_CHILD_RESTARTING)
        sup->restarting += one;
    if (child->is_significant && shown != KIN_CHILD_STOPPED)
        sup->significant += one;
}

void kin__child_set(struct kin__kid *child, enum kin__child_state state, bool is_wanted)
{
    count(child, (size_t)-1);
    child->state = state;
    child->is_wanted = is_wanted;
    count(child, 1);
}

/* ---- alarms ---- */

void kin__sup_alarm_off(struct kin__sup *sup, struct kin__heap_node *alarm)
{
    if (kin__heap_is_in(alarm))
        kin__heap_remove(&sup->alarms, alarm);
}

void kin__sup_alarm_set(struct kin__sup *sup, struct kin__heap_node *alarm, kin_time at)
{
    kin__sup_alarm_off(sup, alarm);
    if (at == KIN_NEVER)
        return;
    alarm->key = at;
    alarm->seq = ++sup->alarm_seq;
    bool has_room = kin__heap_insert(&sup->alarms, alarm);
    KIN__CHECK(has_room, "house");
    (void)has_room;
}
