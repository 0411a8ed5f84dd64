/* SPDX-License-Identifier: MIT */
/*
 * A name as a value: its bytes are stored once, and whoever keeps the name keeps a count on them
 * [SINV-6].
 *
 * A name is kept in many places: by the table it is found in, by the note that tells of its end, by
 * whoever lists or restarts what is called so. None of these copies the bytes, and none can outlive
 * them. They never change.
 *
 * A name that was shown to the program, which cannot count, is kept by a table of its runtime until
 * that is over: one block for each text, however many names have it and however often they are
 * shown. So a program holds what it was shown for as long as it likes; and what it never was shown
 * goes with its last keeper.
 */
#ifndef KIN_OTP_INTERN_H
#define KIN_OTP_INTERN_H

#include "base/atomic.h"
#include "base/hash.h"
#include "base/lock.h"

#include <stddef.h>
#include <stdint.h>

struct kin__name {
    kin__a32 refs; /* of anybody; the one that takes it to 0 frees the block */
    uint32_t size; /* bytes of text, without the 0 at its end; constant, as is the text */
    _Atomic(struct kin__name *) shown; /* what stands for it in the table; NULL: not known; set by
                                          whoever shows it, read by whoever keeps it */
    struct kin__name *next; /* of one in the table: in its chain; under the lock of the table */
    char text[];
};

/* The names of a runtime that were shown. All zero: none. */
struct kin__shown {
    struct kin__lock lock; /* rank WAIT; the rest */
    size_t count, mask;    /* names, chains less one */
    struct kin__name **chains; /* NULL: no name so far */
};

/* The name with these size bytes and a count of one, at the expense of the running task until
 * nobody keeps it. NULL: *rc is -ENOMEM or KIN_BUDGET. */
struct kin__name *kin__name_make(const char *text, size_t size, int *rc);
/* One more who keeps it: costs the same however long the name is. Returns it. */
struct kin__name *kin__name_ref(struct kin__name *name);
/* One fewer; NULL is fine. */
void kin__name_unref(struct kin__name *name);
/* The text of the name, which stays until kin__shown_free. NULL: no memory. */
const char *kin__name_show(struct kin__shown *shown, struct kin__name *name);
/* The runtime is over, and nobody looks any more. */
void kin__shown_free(struct kin__shown *shown);
/* How many bytes a name that comes from outside has; -EINVAL when it is NULL, empty or longer than
 * KIN_NAME_MAX. */
int kin__name_check(const char *text);

#endif
