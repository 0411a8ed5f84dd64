/* SPDX-License-Identifier: MIT */
/*
 * Spawn paths of tasks, live and lately over.
 */
#include "sched/lives.h"

#include "base/hash.h"
#include "plat/plat.h"

#include <string.h>

#define DEPTH_MAX 128u /* of a path */

static size_t table_bytes(uint32_t size)
{
    return (size_t)size * sizeof(struct kin__life);
}

bool kin__lives_init(struct kin__lives *lives, uint32_t size)
{
    *lives = (struct kin__lives){.size = size};
    lives->table = kin__vm_reserve(table_bytes(size));
    lives->buckets = kin__vm_reserve(size * sizeof(uint32_t));
    if (lives->table && lives->buckets)
        return true;
    kin__lives_fini(lives);
    return false;
}

void kin__lives_fini(struct kin__lives *lives)
{
    if (lives->table)
        kin__vm_release(lives->table, table_bytes(lives->size));
    if (lives->buckets)
        kin__vm_release(lives->buckets, lives->size * sizeof(uint32_t));
    *lives = (struct kin__lives){0};
}

static uint32_t *bucket_of(const struct kin__lives *lives, uint32_t low)
{
    return &lives->buckets[kin__hash_u64(low) & (lives->size - 1)];
}

/* The place may be taken from now on, after all that may be already. */
static void offer(struct kin__lives *lives, uint32_t place)
{
    lives->table[place].next = 0;
    if (lives->first)
        lives->table[lives->last].next = place;
    else
        lives->first = place;
    lives->last = place;
}

static void offer_if_free(struct kin__lives *lives, uint32_t place)
{
    if (place && lives->table[place].is_over && lives->table[place].kept == 0)
        offer(lives, place);
}

static void unchain(struct kin__lives *lives, uint32_t place)
{
    uint32_t *link = bucket_of(lives, (uint32_t)lives->table[place].id);
    while (*link != place) /* ends: it is in there */
        link = &lives->table[*link].chain;
    *link = lives->table[place].chain;
}

/* A place for a new life; 0: there is none. */
static uint32_t take_place(struct kin__lives *lives)
{
    uint32_t place = lives->first;
    if (lives->used + 1 < lives->size)
        return ++lives->used;
    if (!place || lives->is_frozen)
        return 0;
    lives->first = lives->table[place].next;
    unchain(lives, place);
    uint32_t parent = lives->table[place].parent;
    if (parent) {
        lives->table[parent].kept--;
        offer_if_free(lives, parent);
    }
    return place;
}

/* The place of a task that is not over; 0: it has none. */
static uint32_t place_of(const struct kin__lives *lives, uint64_t id)
{
    uint32_t place = *bucket_of(lives, (uint32_t)id);
    while (place && lives->table[place].id != id) /* ends: with the chain */
        place = lives->table[place].chain;
    return place;
}

void kin__lives_begin_locked(struct kin__lives *lives, const struct kin__task *task,
                             uint64_t parent, uint64_t now)
{
    uint32_t from = parent ? place_of(lives, parent) : 0;
    if (parent && !from)
        return; /* nobody knows its path */
    uint32_t number = from ? lives->table[from].spawned++ : lives->strangers++;
    uint32_t place = take_place(lives);
    if (!place)
        return;
    struct kin__life *life = &lives->table[place];
    uint32_t *bucket = bucket_of(lives, (uint32_t)kin__task_id(task));
    *life = (struct kin__life){.id = kin__task_id(task), .born = now, .fn = task->fn,
                               .parent = from, .number = number, .chain = *bucket};
    if (task->flags & KIN__TASK_NAMED) {
        struct kin__text text;
        kin__text_init(&text, life->name, sizeof(life->name));
        kin__text_str(&text, task->name);
    }
    *bucket = place;
    if (from)
        lives->table[from].kept++;
}

void kin__lives_end_locked(struct kin__lives *lives, uint64_t id)
{
    uint32_t place = place_of(lives, id);
    if (!place)
        return;
    lives->table[place].is_over = true;
    offer_if_free(lives, place);
}

uint32_t kin__lives_find_locked(const struct kin__lives *lives, uint32_t low, uint64_t when)
{
    uint32_t place = *bucket_of(lives, low);
    while (place && ((uint32_t)lives->table[place].id != low || lives->table[place].born > when))
        place = lives->table[place].chain; /* ends: with the chain */
    return place;
}

void kin__lives_path_locked(const struct kin__lives *lives, uint32_t place, struct kin__text *text)
{
    uint32_t numbers[DEPTH_MAX];
    unsigned depth = 0;
    for (; lives->table[place].parent; place = lives->table[place].parent) {
        if (depth == DEPTH_MAX) {
            kin__text_char(text, '?');
            return;
        }
        numbers[depth++] = lives->table[place].number;
    }
    if (lives->table[place].number) /* the first task comes from outside, too */
        kin__text_printf(text, "outside/%u", lives->table[place].number - 1);
    else
        kin__text_str(text, "root");
    while (depth > 0) /* ends: one fewer each time */
        kin__text_printf(text, "/%u", numbers[--depth]);
}
