/* SPDX-License-Identifier: MIT */
/*
 * The switch between flows in portable C, for machines without one in assembly.
 *
 * Built in place of switch_<machine>.S, with KIN_SWITCH_GENERIC defined for this floor. It stands
 * on the ucontext functions of the C library, which save everything that the assembly saves and the
 * signal mask as well, by a system call: a switch costs about a hundred times as much. A suspended
 * flow's sp is the address of a record on its own stack, in the frame of the function that left.
 *
 *     | ... frames ... | record of the flow |            suspended
 *     | free           | record, first call |            made, not begun
 *
 * A call that can be escaped from uses the same functions, not setjmp: they restore the
 * floating-point control words too. It differs from the assembly in one thing: fn begins with the
 * control words of its caller.
 */
#define _GNU_SOURCE 1
#include "plat/context.h"

#include "base/assert.h"

#include <ucontext.h>

#define NOMINAL_BYTES 8192u /* makecontext wants a size; only its high end is used */

struct record {
    ucontext_t state;
    void *pass; /* written by whoever continues the flow */
};

/* At the high end of the stack of a flow that has not begun. */
struct fresh {
    struct record record;
    void (*first)(void *pass, void (*entry)(void *));
    void (*entry)(void *pass);
};

/* In the frame of kin__call_raw. */
struct place {
    ucontext_t state;
    volatile int value;
    volatile bool is_over;
};

void *kin__switch_raw(void **save_sp, void *to_sp, void *pass)
{
    struct record *to = to_sp;
    struct record self;

    to->pass = pass;
    *save_sp = &self;
    int rc = swapcontext(&self.state, &to->state);
    KIN__CHECK(rc == 0, "house");
    return self.pass;
}

void kin__jump_raw(void *to_sp, void *pass)
{
    struct record *to = to_sp;

    to->pass = pass;
    (void)setcontext(&to->state);
    kin__check_failed("setcontext", "house", __FILE__, __LINE__, __func__);
}

int kin__call_raw(void **escape_sp, int (*fn)(void *), void *arg)
{
    struct place place;

    place.is_over = false;
    int rc = getcontext(&place.state);
    KIN__CHECK(rc == 0, "house");
    if (place.is_over)
        return place.value;
    *escape_sp = &place;
    kin__escape_raw(&place, fn(arg));
}

void kin__escape_raw(void *escape_sp, int value)
{
    struct place *place = escape_sp;

    place->value = value;
    place->is_over = true;
    (void)setcontext(&place->state);
    kin__check_failed("setcontext", "house", __FILE__, __LINE__, __func__);
}

/* makecontext hands over ints only: the address comes in two halves. */
static void start(unsigned high, unsigned low)
{
    struct fresh *fresh = (struct fresh *)(uintptr_t)((uint64_t)high << 32 | low);

    if (fresh->first)
        fresh->first(fresh->record.pass, fresh->entry);
    else
        fresh->entry(fresh->record.pass);
    kin__entry_returned();
}

void *kin__make_raw(void *base, void (*entry)(void *pass),
                    void (*first)(void *pass, void (*entry)(void *)))
{
    uintptr_t at = ((uintptr_t)base - sizeof(struct fresh)) & ~(uintptr_t)63;
    struct fresh *fresh = (struct fresh *)at;

    int rc = getcontext(&fresh->record.state);
    KIN__CHECK(rc == 0, "house");
    fresh->first = first;
    fresh->entry = entry;
    fresh->record.state.uc_link = NULL;
    fresh->record.state.uc_stack.ss_sp = (char *)at - NOMINAL_BYTES;
    fresh->record.state.uc_stack.ss_size = NOMINAL_BYTES;
    makecontext(&fresh->record.state, (void (*)(void))start, 2, (unsigned)((uint64_t)at >> 32),
                (unsigned)at);
    return fresh;
}

bool kin__context_supported(void)
{
    return true; /* the C library keeps a shadow stack itself where there is one */
}
