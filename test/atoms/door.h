/* SPDX-License-Identifier: MIT */
/*
 * Put in front of every file that is compiled for atom mode: what the machine does beside atomics.
 *
 * Three functions of base/atomic.h are instructions that no compiler reports. Here they are what
 * they mean: a full fence of the language, wherever this machine needs none as well, and one more
 * turn of a loop that waits.
 */
#ifndef KIN_ATOMS_DOOR_H
#define KIN_ATOMS_DOOR_H

#include "base/atomic.h"

#include <kin/atoms.h>

#define kin__fence_seq() atomic_thread_fence(memory_order_seq_cst)
#define kin__fence_after_rmw() atomic_thread_fence(memory_order_seq_cst)
#define kin__cpu_relax() kin_atoms_spin()

#endif
