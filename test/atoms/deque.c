/* SPDX-License-Identifier: MIT */
/*
 * The deque: src/sched/deque.c as it is, with a ring of four and indices that pass their overflow.
 *
 * The owner pushes, publishes, gets back and pops; thieves steal. What a task carries was written
 * before its push and is read by whoever has it. Each task is had once, and at the end all were, or
 * are still in the ring.
 */
#include "harness.h"

#include "sched/deque.h"

#include <string.h>

#define TASKS 6u

static struct kin__deque *deque;
static struct kin__task *tasks; /* TASKS of them; status is what a task carries */
static unsigned pushed;
static int had[TASKS]; /* as the one who had it wrote it */

_Noreturn void kin__check_failed(const char *condition, const char *clause, const char *file,
                                 int line, const char *function)
{
    (void)clause, (void)file, (void)line, (void)function;
    kin_atoms_assert(false, condition);
    __builtin_trap();
}

static void have(struct kin__task *task)
{
    unsigned index = (unsigned)(task - tasks);
    kin_atoms_assert(index < TASKS && task->status == 100 + (int)index, "it is what was pushed");
    task->status = 0;
    had[index]++;
}

static void push(void)
{
    struct kin__task *task = &tasks[pushed];
    task->status = 100 + (int)pushed++;
    kin_atoms_assert(kin__deque_push(deque, task), "there is room");
}

static void pop(void)
{
    struct kin__task *task = kin__deque_pop(deque);
    if (task)
        have(task);
}

static void thief(void *arg)
{
    struct kin__task *out[KIN__STEAL_MAX];
    bool contended;
    for (unsigned i = 0; i < *(const unsigned *)arg; i++) {
        uint32_t count = kin__deque_steal(deque, out, KIN__STEAL_MAX, &contended);
        for (uint32_t j = 0; j < count; j++)
            have(out[j]);
    }
}

/* ---- what the owner does ---- */

static void publishes(void *arg)
{
    (void)arg;
    push();
    push();
    (void)kin__deque_publish(deque);
    pop();
    push();
    (void)kin__deque_publish(deque);
    pop();
}

static void reclaims(void *arg)
{
    (void)arg;
    push();
    push();
    (void)kin__deque_publish(deque);
    (void)kin__deque_publish(deque);
    if (kin__deque_reclaim(deque))
        pop();
    push();
    (void)kin__deque_publish(deque);
    pop();
}

/* The ring is full, so that slots are used again. */
static void goes_round(void *arg)
{
    (void)arg;
    for (int i = 0; i < 4; i++)
        push();
    (void)kin__deque_publish(deque);
    (void)kin__deque_publish(deque);
    tasks[4].status = 104;
    if (kin__deque_push(deque, &tasks[4])) /* a slot was given up */
        pushed = 5;
    (void)kin__deque_publish(deque);
    pop();
}

static void takes_oldest(void *arg)
{
    struct kin__task *out[4];
    (void)arg;
    push();
    push();
    push();
    (void)kin__deque_publish(deque);
    uint32_t count = kin__deque_take_oldest(deque, out, 2);
    for (uint32_t i = 0; i < count; i++)
        have(out[i]);
    pop();
}

static unsigned once = 1, twice = 2;
static uint32_t first;

static void begin(void (*owner)(void *arg), unsigned thieves, unsigned *rounds)
{
    static const char *const names[] = {"thief 1", "thief 2"};
    deque = kin_atoms_alloc(sizeof(*deque));
    tasks = kin_atoms_alloc(TASKS * sizeof(*tasks));
    memset(had, 0, sizeof(had));
    pushed = 0;
    kin__deque_init(deque, first);
    kin_atoms_spawn("owner", owner, NULL);
    for (unsigned i = 0; i < thieves; i++)
        kin_atoms_spawn(names[i], thief, rounds);
}

static void begin_publishes(void *arg)
{
    begin(publishes, *(unsigned *)arg, &twice);
}

static void begin_reclaims(void *arg)
{
    begin(reclaims, *(unsigned *)arg, &twice);
}

static void begin_round(void *arg)
{
    first = UINT32_MAX - 1;
    begin(goes_round, *(unsigned *)arg, &twice);
}

static void begin_oldest(void *arg)
{
    begin(takes_oldest, *(unsigned *)arg, &twice);
}

static void end(void *arg)
{
    struct kin__task *left[8];
    (void)arg;
    uint32_t count = kin__deque_take_oldest(deque, left, 8);
    for (uint32_t i = 0; i < count; i++)
        had[left[i] - tasks]++;
    for (unsigned i = 0; i < TASKS; i++)
        kin_atoms_assert(had[i] == (i < pushed), "each is had once");
}

const struct harness harnesses[] = {
    {.name = "deque_publish", .begin = begin_publishes, .end = end, .arg = &once},
    {.name = "deque_publish_two_thieves", .begin = begin_publishes, .end = end, .arg = &twice},
    {.name = "deque_reclaim", .begin = begin_reclaims, .end = end, .arg = &once},
    {.name = "deque_reclaim_two_thieves", .begin = begin_reclaims, .end = end, .arg = &twice},
    {.name = "deque_take_oldest", .begin = begin_oldest, .end = end, .arg = &once},
    {.name = "deque_take_oldest_two_thieves", .begin = begin_oldest, .end = end, .arg = &twice},
    {.name = "deque_full_ring", .begin = begin_round, .end = end, .arg = &once},
    {.name = "deque_full_ring_two_thieves", .begin = begin_round, .end = end, .arg = &twice},
    {.name = "deque_publish_c11", .begin = begin_publishes, .end = end, .arg = &once,
     .memory = KIN_ATOMS_C11},
    {.name = "deque_reclaim_c11", .begin = begin_reclaims, .end = end, .arg = &once,
     .memory = KIN_ATOMS_C11},
    {.name = "deque_full_ring_c11", .begin = begin_round, .end = end, .arg = &once,
     .memory = KIN_ATOMS_C11},
    {.name = "deque_publish_two_thieves_c11", .begin = begin_publishes, .end = end, .arg = &twice,
     .memory = KIN_ATOMS_C11},
    {.name = "deque_publish_tso", .begin = begin_publishes, .end = end, .arg = &once,
     .memory = KIN_ATOMS_TSO},
    {0},
};
