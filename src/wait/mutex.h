/* SPDX-License-Identifier: MIT */
/*
 * A mutex from the inside, for the condition that gives it up and takes it again.
 */
#ifndef KIN_WAIT_MUTEX_H
#define KIN_WAIT_MUTEX_H

#include "wait/crowd.h"

#include <kin/sync.h>

struct kin__mutex {
    kin__a64 word; /* 0: free; else the owner, and WAITED; mutex.c says who changes what */
    struct kin__crowd crowd;
};

/* The task that holds it, as in owner.h, 0 for none; another moment old. */
uint64_t kin__mutex_owner(const struct kin_mutex *mutex);
/* Whether the task holds it, which only the task itself can change. */
bool kin__mutex_is_held(const struct kin_mutex *mutex, const struct kin__task *task);
/* As kin_mutex_unlock, for a task that is known to hold it. */
void kin__mutex_release(struct kin_mutex *mutex, struct kin__task *task);
/* As kin_mutex_lock, but nothing ends the wait early. 0 or -EOWNERDEAD. */
int kin__mutex_retake(struct kin_mutex *mutex, struct kin__task *task);

#endif
