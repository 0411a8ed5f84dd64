/* SPDX-License-Identifier: MIT */
/*
 * The probe at the door of the runtime: a task without room on its stack overflows here or nowhere.
 *
 * What runs behind the door takes locks. An overflow there would leave them held, and the task could
 * not simply be ended. So every public function that may lock or park first touches its stack as deep
 * as the runtime itself ever goes; if that hits the guard, it does so with nothing held.
 */
#ifndef KIN_SCOPE_ENTRY_H
#define KIN_SCOPE_ENTRY_H

#define KIN__ENTRY_DEPTH 3072 /* the deepest path measured takes 1.6 KiB in a debug build */

static inline void kin__entry_probe(void)
{
#if defined(__x86_64__)
    __asm__ volatile("testb $0, -3072(%%rsp)" ::: "cc", "memory");
#elif defined(__aarch64__)
    __asm__ volatile("sub x16, sp, #3072\n\tldrb w16, [x16]" ::: "x16", "memory");
#endif
}

#endif
