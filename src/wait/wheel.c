/* SPDX-License-Identifier: MIT */
/*
 * The wheel's arithmetic: where a deadline stands, which slot comes next, what moves down.
 */
#include "wait/wheel.h"

#include "base/assert.h"
#include "base/lab.h"

#ifdef KIN__LAB
#define SORT_STEPS UINT32_MAX
#define WHOLE 0u /* a tick is a moment: it is past when it comes */
#else
#define SORT_STEPS 16u
#define WHOLE 1u /* the whole tick must be past */
#endif

static uint64_t tick_of(int64_t ns)
{
    return (uint64_t)(ns > 0 ? ns : 0) >> KIN__WHEEL_SHIFT;
}

void kin__wheel_init(struct kin__wheel *wheel, int64_t now)
{
    wheel->tick = tick_of(now);
    wheel->seq = 0;
    wheel->count = 0;
    for (unsigned level = 0; level < KIN__WHEEL_LEVELS; level++) {
        wheel->used[level] = 0;
        for (unsigned slot = 0; slot < KIN__WHEEL_SLOTS; slot++)
            kin__list_init(&wheel->slots[level][slot]);
    }
}

static struct kin__wheel_node *node_of(struct kin__list *link)
{
    return KIN__CONTAINER_OF(link, struct kin__wheel_node, link);
}

/* The link after which node stands in order; looks at a bounded number from the back. */
static struct kin__list *place_in(struct kin__list *slot, const struct kin__wheel_node *node)
{
    struct kin__list *after = slot->prev;
    for (uint32_t i = 0; after != slot && i < SORT_STEPS; i++, after = after->prev) {
        const struct kin__wheel_node *other = node_of(after);
        if (other->deadline < node->deadline ||
            (other->deadline == node->deadline && other->seq < node->seq))
            break;
    }
    return after;
}

/* Puts node where it belongs, seen from the wheel's tick. */
static void place(struct kin__wheel *wheel, struct kin__wheel_node *node)
{
    uint64_t tick = tick_of(node->deadline);
    if (tick < wheel->tick)
        tick = wheel->tick;
    uint64_t differs = tick ^ wheel->tick;
    unsigned level = differs ? (unsigned)(63 - __builtin_clzll(differs)) / 6 : 0;
    unsigned slot = (unsigned)(tick >> (6 * level)) % KIN__WHEEL_SLOTS;
    KIN__ASSERT(level < KIN__WHEEL_LEVELS, "TW-1");
    struct kin__list *list = &wheel->slots[level][slot];
    struct kin__list *after = level == 0 ? place_in(list, node) : list->prev;
    kin__list_link(&node->link, after, after->next);
    wheel->used[level] |= UINT64_C(1) << slot;
    node->place = level * KIN__WHEEL_SLOTS + slot;
}

void kin__wheel_insert(struct kin__wheel *wheel, struct kin__wheel_node *node)
{
    node->seq = wheel->seq++;
    wheel->count++;
    place(wheel, node);
}

/* Unlinks and keeps the bitmap true. */
static void take(struct kin__wheel *wheel, struct kin__wheel_node *node)
{
    unsigned level = node->place / KIN__WHEEL_SLOTS;
    unsigned slot = node->place % KIN__WHEEL_SLOTS;
    kin__list_remove(&node->link);
    if (kin__list_is_empty(&wheel->slots[level][slot]))
        wheel->used[level] &= ~(UINT64_C(1) << slot);
}

/* For the lab: what is left of those that are due at once decides which of them can come next. */
static void touch_moment(int64_t deadline, unsigned mode)
{
    KIN__LAB_TOUCH((const void *)(uintptr_t)deadline, mode);
    (void)deadline, (void)mode;
}

void kin__wheel_remove(struct kin__wheel *wheel, struct kin__wheel_node *node)
{
    touch_moment(node->deadline, KIN__LAB_ADD);
    if (!kin__list_is_linked(&node->link))
        return;
    take(wheel, node);
    wheel->count--;
}

/* The first slot that is not empty, from the wheel's tick on: its level in *level and the tick at
 * which it begins. Lower levels come first: everything in them is earlier. False: empty. */
static bool first_slot(const struct kin__wheel *wheel, unsigned *level, uint64_t *begin)
{
    for (unsigned i = 0; i < KIN__WHEEL_LEVELS; i++) {
        uint64_t used = wheel->used[i];
        if (!used)
            continue;
        uint64_t lap = wheel->tick >> (6 * i);
        KIN__ASSERT((used >> (lap % 64)) != 0, "TW-1"); /* none lies behind the tick */
        *level = i;
        *begin = ((lap & ~UINT64_C(63)) | (uint64_t)__builtin_ctzll(used)) << (6 * i);
        return true;
    }
    return false;
}

/* Which node of a slot comes first. In the lab those of one moment may come in any order. */
static struct kin__list *first_of(struct kin__list *slot, unsigned level)
{
    struct kin__list *first = kin__list_first(slot);
#ifdef KIN__LAB
    uint32_t count = 0;
    for (struct kin__list *link = first; level == 0 && link != slot; link = link->next)
        count++;
    for (uint32_t i = count > 1 ? kin__lab_choose(KIN__LAB_TIMER, count, "timer") : 0; i > 0; i--)
        first = first->next;
#endif
    (void)level;
    return first;
}

struct kin__wheel_node *kin__wheel_pop(struct kin__wheel *wheel, int64_t now)
{
    uint64_t now_tick = tick_of(now);
    unsigned level;
    uint64_t begin;
    while (first_slot(wheel, &level, &begin)) { /* ends: each round fires or moves something down */
        if (begin > now_tick || (level == 0 && begin + WHOLE > now_tick))
            break;
        if (begin > wheel->tick)
            wheel->tick = begin;
        struct kin__list *slot = &wheel->slots[level][(begin >> (6 * level)) % KIN__WHEEL_SLOTS];
        struct kin__wheel_node *node = node_of(first_of(slot, level));
        if (level == 0) {
            touch_moment(node->deadline, KIN__LAB_WRITE);
            take(wheel, node);
            wheel->count--;
            return node;
        }
        wheel->used[level] &= ~(UINT64_C(1) << (begin >> (6 * level)) % KIN__WHEEL_SLOTS);
        struct kin__list moving;
        kin__list_init(&moving);
        kin__list_splice(&moving, slot);
        while (!kin__list_is_empty(&moving)) /* ends: one fewer each round */
            place(wheel, node_of(kin__list_pop_front(&moving)));
    }
    if (now_tick > wheel->tick)
        wheel->tick = now_tick;
    return NULL;
}

#ifdef KIN__LAB
/* The soonest deadline of a slot: time jumps there, and nowhere in between. */
static int64_t soonest(const struct kin__list *slot)
{
    int64_t least = INT64_MAX;
    for (const struct kin__list *link = slot->next; link != slot; link = link->next) {
        int64_t deadline = node_of((struct kin__list *)(uintptr_t)link)->deadline;
        least = deadline < least ? deadline : least;
    }
    return least;
}
#endif

int64_t kin__wheel_next(const struct kin__wheel *wheel)
{
    unsigned level;
    uint64_t begin;
    if (!first_slot(wheel, &level, &begin))
        return INT64_MAX;
#ifdef KIN__LAB
    return soonest(&wheel->slots[level][(begin >> (6 * level)) % KIN__WHEEL_SLOTS]);
#endif
    if (level == 0)
        begin += WHOLE;
    return begin >= (UINT64_C(1) << (63 - KIN__WHEEL_SHIFT)) ? INT64_MAX - 1
                                                             : (int64_t)(begin << KIN__WHEEL_SHIFT);
}
