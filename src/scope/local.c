/* SPDX-License-Identifier: MIT */
/*
 * Local values: a short table per task, searched from its end.
 *
 * A task has few, so a search beats a hash. The order of the table is the order of setting, which
 * is what the destruction goes back over; setting a value again moves it to the end. Inherited
 * values are copies of a pointer: they are borrowed, and the child never destroys them.
 */
#include "scope/belongings.h"

#include "plat/plat.h"
#include "sched/entry.h"

#include <kin/local.h>

#include <errno.h>
#include <string.h>

#define LOCALS_MAX (UINT32_C(1) << 24) /* of one task */

/* Room for one more, at the expense of a task. 0, -ENOMEM, KIN_BUDGET. */
static int grow(struct kin__locals *locals, struct kin__task *task)
{
    int rc = -ENOMEM;
    if (!locals->table) {
        locals->table = locals->first;
        locals->capacity = KIN__LOCALS_INLINE;
        return 0;
    }
    if (locals->capacity >= LOCALS_MAX)
        return -ENOMEM;
    size_t capacity = 2 * (size_t)locals->capacity;
    struct kin__local *table = kin__alloc(task, capacity * sizeof(*table), &rc);
    if (!table)
        return rc;
    memcpy(table, locals->table, locals->count * sizeof(*table));
    kin__local_free(locals);
    locals->table = table;
    locals->capacity = (uint32_t)capacity;
    return 0;
}

/* The place of a key, or count. */
static uint32_t find(const struct kin__locals *locals, const struct kin_local_key *key)
{
    for (uint32_t i = locals->count; i > 0; i--)
        if (locals->table[i - 1].key == key)
            return i - 1;
    return locals->count;
}

/* Takes one out; the others keep their order. */
static void remove_at(struct kin__locals *locals, uint32_t place)
{
    struct kin__local *at = &locals->table[place];
    memmove(at, at + 1, (locals->count - place - 1) * sizeof(*at));
    locals->count--;
}

void kin__local_free(struct kin__locals *locals)
{
    if (locals->table && locals->table != locals->first)
        kin__free(locals->table);
    locals->table = NULL;
    locals->capacity = 0;
}

/* ---- birth and end of a task ---- */

int kin__local_inherit(struct kin__task *spawner, struct kin__task *child)
{
    const struct kin__locals *from = &spawner->extra->locals;
    for (uint32_t i = 0; i < from->count; i++) {
        if (!from->table[i].key->inherit)
            continue;
        struct kin__extra *extra = kin__extra_need(child);
        if (!extra)
            return -ENOMEM;
        struct kin__locals *to = &extra->locals;
        int rc = to->count == to->capacity ? grow(to, spawner) : 0;
        if (rc < 0)
            return rc;
        to->table[to->count++] =
            (struct kin__local){from->table[i].key, from->table[i].value, 1, 0};
    }
    return 0;
}

/* The newest value of the task's own that was set before this round and has to be destroyed. */
static bool take(struct kin__locals *locals, struct kin__local *out)
{
    for (uint32_t i = locals->count; i > 0; i--) {
        const struct kin__local *local = &locals->table[i - 1];
        if (local->is_borrowed || !local->key->destroy || local->round >= locals->round)
            continue;
        *out = *local;
        remove_at(locals, i - 1);
        return true;
    }
    return false;
}

void kin__local_destroy(struct kin__task *task)
{
    struct kin__locals *locals = &task->extra->locals;
    struct kin__local local;
    while (locals->round < KIN_LOCAL_ROUNDS) {
        locals->round++;
        while (take(locals, &local)) /* ends: what is set meanwhile belongs to the next round */
            kin__cleanup_run(task, local.key->destroy, local.value);
        if (locals->count == 0)
            return;
    }
}

/* ---- the public face ---- */

int kin_local_set(const struct kin_local_key *key, void *value)
{
    struct kin__task *task = kin__task_self();
    if (!key)
        return -EINVAL;
    if (!task)
        return KIN_NOTASK;
    bool has_extra = task->flags & KIN__TASK_EXTRA;
    if (!value && !has_extra)
        return 0;
    kin__entry_turn(task);
    struct kin__extra *extra = kin__extra_need(task);
    if (!extra)
        return -ENOMEM;
    struct kin__locals *locals = &extra->locals;
    uint32_t place = find(locals, key);
    int rc;
    if (place < locals->count)
        remove_at(locals, place);
    else if (value && locals->count == locals->capacity && (rc = grow(locals, task)) < 0)
        return rc;
    if (value)
        locals->table[locals->count++] = (struct kin__local){key, value, 0, locals->round};
    return 0;
}

void *kin_local_get(const struct kin_local_key *key)
{
    struct kin__task *task = kin__task_self();
    if (!task || !(task->flags & KIN__TASK_EXTRA))
        return NULL;
    const struct kin__locals *locals = &task->extra->locals;
    uint32_t place = find(locals, key);
    return place < locals->count ? locals->table[place].value : NULL;
}
