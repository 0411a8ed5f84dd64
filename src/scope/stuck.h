/* SPDX-License-Identifier: MIT */
/*
 * What is said of a task that does not react to its cancellation.
 */
#ifndef KIN_SCOPE_STUCK_H
#define KIN_SCOPE_STUCK_H

#include "plat/plat.h"
#include "task/task.h"

#define KIN__STUCK_FRAMES 20u

struct kin__stuck {
    uint64_t task;
    struct kin__code code;
    uintptr_t frames[KIN__STUCK_FRAMES];
    unsigned frame_count;
    const struct kin__worker *worker; /* that runs the task; NULL: none does */
    const struct kin__task *running;  /* the task then, as long as its id is that */
    const char *low, *end;            /* of its stack */
    struct kin__task_code origin; /* where the task comes from */
    char doing[80];               /* what it does */
    char text[2560]; /* begun by look up to text_len, completed by describe */
    size_t text_len;
};

/* Reads what a look needs; without a lock. */
void kin__stuck_init(struct kin__stuck *stuck);
/* Looks at a task while the lock of its nursery keeps it from ending: its name, where it was
 * spawned, what it waits for and where it stands [N2002]. No address is named yet: that reads files
 * and may take long. False: it only waits for children of its own, which are looked at
 * themselves. */
bool kin__stuck_look(struct kin__stuck *stuck, struct kin__task *task);
/* Completes the text, with the names of functions and lines; without a lock. */
void kin__stuck_describe(struct kin__stuck *stuck);

#endif
