/* SPDX-License-Identifier: MIT */
/*
 * Three strengths of "this must hold", each naming the clause that a failure breaks.
 *
 *   KIN__CHECK   always on: going on would corrupt memory.
 *   KIN__ASSERT  debug and lab builds: contracts and invariants.
 *   KIN__AUDIT   lab builds: walks whole structures, too slow for anything else.
 *
 * A failure prints the condition, the place, the clause and the task concerned, then aborts.
 */
#ifndef KIN_BASE_ASSERT_H
#define KIN_BASE_ASSERT_H

#include <stdbool.h>

/* Prints the failed condition with its clause and aborts; safe in a signal handler. */
_Noreturn void kin__check_failed(const char *condition, const char *clause, const char *file,
                                 int line, const char *function);

#define KIN__LIKELY(x) __builtin_expect(!!(x), 1)
#define KIN__UNLIKELY(x) __builtin_expect(!!(x), 0)

#define KIN__CHECK(condition, clause)                                                              \
    (KIN__LIKELY(condition) ? (void)0                                                              \
                            : kin__check_failed(#condition, clause, __FILE__, __LINE__, __func__))

#ifdef KIN_DEBUG
#define KIN__ASSERT(condition, clause) KIN__CHECK(condition, clause)
#else
#define KIN__ASSERT(condition, clause) ((void)sizeof((condition) ? 1 : 0))
#endif

#ifdef KIN__LAB
#define KIN__AUDIT(condition, clause) KIN__CHECK(condition, clause)
#else
#define KIN__AUDIT(condition, clause) ((void)sizeof((condition) ? 1 : 0))
#endif

#endif
