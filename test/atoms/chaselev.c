/* SPDX-License-Identifier: MIT */
/*
 * The deque of Chase and Lev, as in "Correct and efficient work-stealing for weak memory models"
 * (Le, Pop, Cohen, Zappa Nardelli), with a fixed ring: a check of the engine against a number.
 *
 * With two thieves there are exactly 84,208 executions of the program below, as independent
 * checkers have counted them.
 */
#include "harness.h"

#include <stdatomic.h>
#include <string.h>

#define SLOTS 4
#define NOTHING (-1)

static atomic_int top, bottom, slots[SLOTS], taken[SLOTS];
static int content[SLOTS];

static void push(int item)
{
    int at = atomic_load_explicit(&bottom, memory_order_relaxed);
    atomic_store_explicit(&slots[at % SLOTS], item, memory_order_relaxed);
    content[item] = item + 100;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&bottom, at + 1, memory_order_relaxed);
}

static int take(void)
{
    int at = atomic_load_explicit(&bottom, memory_order_relaxed) - 1;
    int item = NOTHING;
    atomic_store_explicit(&bottom, at, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    int first = atomic_load_explicit(&top, memory_order_relaxed);
    if (first <= at) {
        item = atomic_load_explicit(&slots[at % SLOTS], memory_order_relaxed);
        if (first < at)
            return item;
        int seen = first;
        if (!atomic_compare_exchange_strong_explicit(&top, &seen, first + 1, memory_order_seq_cst,
                                                     memory_order_relaxed))
            item = NOTHING;
    }
    atomic_store_explicit(&bottom, at + 1, memory_order_relaxed);
    return item;
}

static int steal(void)
{
    int first = atomic_load_explicit(&top, memory_order_acquire);
    atomic_thread_fence(memory_order_seq_cst);
    int end = atomic_load_explicit(&bottom, memory_order_acquire);
    if (first >= end)
        return NOTHING;
    int item = atomic_load_explicit(&slots[first % SLOTS], memory_order_relaxed);
    return atomic_compare_exchange_strong_explicit(&top, &first, first + 1, memory_order_seq_cst,
                                                   memory_order_relaxed)
               ? item
               : NOTHING;
}

static void got(int item)
{
    if (item == NOTHING)
        return;
    kin_atoms_assert(content[item] == item + 100, "what was pushed is seen");
    int times = atomic_fetch_add_explicit(&taken[item], 1, memory_order_relaxed);
    kin_atoms_assert(times == 0, "an item is taken once");
}

static void owner(void *arg)
{
    (void)arg;
    push(0);
    push(1);
    got(take());
    push(2);
    got(take());
    got(take());
}

static void thief(void *arg)
{
    (void)arg;
    got(steal());
    got(steal());
}

static void begin(void *arg)
{
    static const char *const names[] = {"thief 1", "thief 2"};
    top = bottom = 0;
    memset(slots, 0, sizeof(slots));
    memset(taken, 0, sizeof(taken));
    memset(content, 0, sizeof(content));
    kin_atoms_spawn("owner", owner, NULL);
    for (const char *thieves = arg; *thieves; thieves++)
        kin_atoms_spawn(names[thieves - (const char *)arg], thief, NULL);
}

const struct harness harnesses[] = {
    {.name = "chase_lev_one_thief", .begin = begin, .arg = "1"},
    {.name = "chase_lev_two_thieves", .begin = begin, .arg = "12", .executions = 84208},
    {0},
};
