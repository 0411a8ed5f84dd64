/* SPDX-License-Identifier: MIT */
/*
 * What a parked task waits for, as seen by somebody else.
 *
 * The cases of a wait lie on the sleeper's stack and the frame points at them, from before the park
 * begins until somebody claims it. A reader takes the word, the pointer and what it points at, and
 * then the word again: if that is the same unclaimed park, all of it was valid while it was read.
 * Otherwise it is thrown away unused. Stacks stay mapped as long as their runtime, so that even a
 * pointer into one that has moved on can be followed once.
 */
#include "park/peek.h"

#define PARK_MASK (~KIN__REQUESTS) /* what identifies a park: requests may come and go */

/* The reads are of another flow's stack, on purpose and checked afterwards. */
__attribute__((no_sanitize("thread", "address"))) static void read_case(uintptr_t cases,
                                                                       struct kin__waits *out)
{
    const volatile struct kin__case *first =
        (const volatile struct kin__case *)(cases & ~(uintptr_t)1);
    out->ops = first->ops;
    out->object = first->object;
    out->is_several = cases & 1;
}

__attribute__((no_sanitize("thread"))) static uintptr_t read_cases(const struct kin__task *task)
{
    return *(const volatile uintptr_t *)&task->wait_cases;
}

bool kin__wait_peek(const struct kin__task *task, struct kin__waits *out)
{
    uint64_t word = kin__load_acquire(&task->ctl); /* pairs with commit: the cases are written */
    if ((word & KIN__CLAIMED) || !(word & KIN__OFF))
        return false;
    out->ticket = kin__word_ticket(word);
    uintptr_t cases = read_cases(task);
    if (!kin__wait_is_same(task, out)) /* else it is a pointer, not somebody's result */
        return false;
    read_case(cases, out);
    return kin__wait_is_same(task, out);
}

bool kin__wait_is_same(const struct kin__task *task, const struct kin__waits *seen)
{
    kin__fence_seq(); /* fence: what was read before the word; mirror: the exchange of a claim */
    uint64_t word = kin__load_relaxed(&task->ctl); /* relaxed: behind the fence */
    return (word & PARK_MASK & ~KIN__SHIELD) == (seen->ticket << KIN__TICKET_SHIFT | KIN__OFF);
}
