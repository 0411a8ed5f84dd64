/* SPDX-License-Identifier: MIT */
/*
 * The bias: src/sched/bias.c as it is, between the owner of a queue and the monitor.
 *
 * The queue is a plain counter that both change: whoever has the bias has it alone, or the two
 * changes are a race. Under TSO the light fence is nothing and the other side's barrier must do.
 */
#include "harness.h"

#include "plat/plat.h"
#include "sched/bias.h"

static struct kin__bias bias;
static int queue, changes;

void kin__thread_yield(void)
{
    kin_atoms_spin();
}

void kin__membarrier(void)
{
    kin_atoms_fence_all();
}

static void owner(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++) {
        kin__bias_take(&bias);
        queue++;
        kin__bias_give(&bias);
    }
}

static void monitor(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++) {
        if (!kin__bias_revoke(&bias))
            continue;
        queue++;
        changes++;
        kin__bias_restore(&bias);
    }
}

static int rounds;

static void begin(void *arg)
{
    rounds = *(const int *)arg & 7;
    queue = changes = 0;
    kin__bias_init(&bias, *(const int *)arg & 8);
    kin_atoms_spawn("owner", owner, &rounds);
    kin_atoms_spawn("monitor", monitor, &rounds);
}

static void end(void *arg)
{
    (void)arg;
    kin_atoms_assert(queue == rounds + changes, "no change is lost");
}

static int one = 1, two = 2, three = 3, strong = 10, strong_one = 9;

const struct harness harnesses[] = {
    {.name = "bias", .begin = begin, .end = end, .arg = &two},
    {.name = "bias_three_rounds", .begin = begin, .end = end, .arg = &three},
    {.name = "bias_strong", .begin = begin, .end = end, .arg = &strong},
    {.name = "bias_tso", .begin = begin, .end = end, .arg = &one, .memory = KIN_ATOMS_TSO},
    {.name = "bias_strong_tso", .begin = begin, .end = end, .arg = &strong_one,
     .memory = KIN_ATOMS_TSO},
    {.name = "bias_tso_two_rounds", .begin = begin, .end = end, .arg = &two,
     .memory = KIN_ATOMS_TSO, .is_deep = true},
    {.name = "bias_c11", .begin = begin, .end = end, .arg = &two, .memory = KIN_ATOMS_C11},
    {.name = "bias_strong_c11", .begin = begin, .end = end, .arg = &strong,
     .memory = KIN_ATOMS_C11},
    {0},
};
