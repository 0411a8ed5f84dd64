/* SPDX-License-Identifier: MIT */
/*
 * What a parked task waits for, as seen by somebody else.
 */
#ifndef KIN_PARK_PEEK_H
#define KIN_PARK_PEEK_H

#include "park/park.h"

struct kin__waits {
    const struct kin__waitable *ops; /* of the first thing */
    void *object;                    /* valid as long as the task is still in this park */
    bool is_several;                 /* it waits for more than that */
    uint64_t ticket;                 /* which park it is */
};

/* Looks at a task of the caller's runtime without stopping it. False: it is not parked. */
bool kin__wait_peek(const struct kin__task *task, struct kin__waits *out);
/* Whether the task is still in the park that was peeked at, unclaimed. */
bool kin__wait_is_same(const struct kin__task *task, const struct kin__waits *seen);

#endif
