/* SPDX-License-Identifier: MIT */
/*
 * Where the end of a task, which is known two floors up, can be waited for by this one.
 */
#include "wait/ender.h"

_Atomic(const struct kin__waitable *) kin__ender_ops;
