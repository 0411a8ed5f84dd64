/* SPDX-License-Identifier: MIT */
/*
 * The timers of a server: by id for whoever sets and cancels them, by time for the loop.
 *
 * Nothing fires. The loop waits no longer than until the first one, and makes a Timeout of each
 * that is due, in the order of (deadline, id), sorted in among the other infos [GS-INFO-SORT]. One
 * that is set by another timer's callback, for a time that has passed, is due after the next
 * letter: a callback which does that for ever does not keep letters out.
 *
 * Timers and their tables are memory of the server's task.
 */
#include "otp/serving.h"

#include "base/hash.h"
#include "plat/plat.h"
#include "sched/entry.h"
#include "scope/belongings.h"

#include <errno.h>

#define TIMERS_FIRST 8u
#define TIMERS_MAX 65536u

static struct kin__server_timer *of_node(struct kin__heap_node *node)
{
    return KIN__CONTAINER_OF(node, struct kin__server_timer, node);
}

static void give(void *memory)
{
    if (memory)
        kin__free(memory);
}

/* Where the timer with this id is noted, or would be. */
static struct kin__server_timer **place_of(const struct kin__server_timers *timers, uint64_t id)
{
    struct kin__server_timer **place =
        &timers->buckets[kin__hash_u64(id) & (timers->heap.cap - 1)];
    while (*place && (*place)->node.seq != id) /* ends: a chain is finite */
        place = &(*place)->next;
    return place;
}

/* Room for more, at the expense of the server's task. */
static int grow(struct kin__server_timers *timers, struct kin__task *task)
{
    int rc = 0;
    size_t cap = timers->heap.cap ? 2 * timers->heap.cap : TIMERS_FIRST;
    if (cap > TIMERS_MAX)
        return KIN_FULL;
    struct kin__heap_node **slots =
        kin__alloc(task, cap * sizeof(struct kin__heap_node *), &rc);
    struct kin__server_timer **buckets =
        slots ? kin__alloc(task, cap * sizeof(struct kin__server_timer *), &rc) : NULL;
    if (!buckets) {
        give(slots);
        return rc;
    }
    give(kin__heap_move(&timers->heap, slots, cap));
    give(timers->buckets);
    timers->buckets = buckets;
    for (size_t i = 0; i < timers->heap.count; i++) {
        struct kin__server_timer *timer = of_node(timers->heap.slots[i]);
        struct kin__server_timer **place = place_of(timers, timer->node.seq);
        timer->next = NULL;
        *place = timer;
    }
    return 0;
}

static void remove_at(struct kin__server_timers *timers, struct kin__server_timer **place)
{
    struct kin__server_timer *timer = *place;
    *place = timer->next;
    kin__heap_remove(&timers->heap, &timer->node);
}

struct kin__server_timer *kin__server_timer_due(const struct kin_server *s, kin_time now)
{
    struct kin__heap_node *node = kin__heap_peek(&s->timers.heap);
    return node && node->key <= now && of_node(node)->round != s->timers.round ? of_node(node)
                                                                               : NULL;
}

void kin__server_timer_take(struct kin_server *s, struct kin__server_timer *timer,
                            struct kin_info *info)
{
    *info = (struct kin_info){.kind = KIN_INFO_TIMEOUT, .vt = (uint64_t)timer->node.key};
    info->u.timeout.deadline = timer->node.key;
    info->u.timeout.id = timer->node.seq;
    remove_at(&s->timers, place_of(&s->timers, timer->node.seq));
    kin__free(timer);
}

void kin__server_timers_free(struct kin_server *s)
{
    struct kin__heap_node *node;
    while ((node = kin__heap_pop(&s->timers.heap))) /* ends: one fewer each time */
        kin__free(of_node(node));
    give(s->timers.heap.slots);
    give(s->timers.buckets);
}

/* ---- the public face ---- */

/* What is wrong with the arguments; 0: nothing. */
static int check(const struct kin_server *s, uint64_t id)
{
    if (!s || id == 0)
        return -EINVAL;
    struct kin__task *task = kin__task_self();
    kin__entry_turn_self();
    return task && task == s->task ? 0 : -EPERM;
}

int kin_server_timer_set(struct kin_server *s, uint64_t id, kin_time at)
{
    int rc = check(s, id);
    if (rc < 0)
        return rc;
    struct kin__server_timers *timers = &s->timers;
    struct kin__server_timer **place = timers->heap.cap ? place_of(timers, id) : NULL;
    struct kin__server_timer *timer = place ? *place : NULL;
    if (timer) {
        kin__heap_remove(&timers->heap, &timer->node);
    } else {
        if (timers->heap.count == timers->heap.cap && (rc = grow(timers, s->task)) < 0)
            return rc;
        timer = kin__alloc(s->task, sizeof(*timer), &rc);
        if (!timer)
            return rc;
        timer->node.seq = id;
        *place_of(timers, id) = timer;
    }
    timer->node.key = at;
    timer->round = timers->round;
    (void)kin__heap_insert(&timers->heap, &timer->node); /* there is room */
    return 0;
}

int kin_server_timer_cancel(struct kin_server *s, uint64_t id)
{
    int rc = check(s, id);
    if (rc < 0)
        return rc;
    struct kin__server_timer **place = s->timers.heap.cap ? place_of(&s->timers, id) : NULL;
    struct kin__server_timer *timer = place ? *place : NULL;
    if (!timer)
        return KIN_STALE;
    remove_at(&s->timers, place);
    kin__free(timer);
    return 0;
}
