/* SPDX-License-Identifier: MIT */
/*
 * A name as a value: its bytes are stored once, and whoever keeps the name keeps a count on them
 * [SINV-6].
 *
 * A name is kept in many places: by the table it is found in, by the note that tells of its end, by
 * whoever lists or restarts what is called so. None of these copies the bytes, and none can outlive
 * them. They never change.
 */
#ifndef KIN_OTP_INTERN_H
#define KIN_OTP_INTERN_H

#include "base/atomic.h"

#include <stddef.h>
#include <stdint.h>

struct kin__name {
    kin__a32 refs; /* of anybody; the one that takes it to 0 frees the block */
    uint32_t size; /* bytes of text, without the 0 at its end; constant, as is the text */
    char text[];
};

/* The name with these size bytes and a count of one; NULL when memory is used up. */
struct kin__name *kin__name_make(const char *text, size_t size);
/* One more who keeps it: costs the same however long the name is. Returns it. */
struct kin__name *kin__name_ref(struct kin__name *name);
/* One fewer; NULL is fine. */
void kin__name_unref(struct kin__name *name);
/* How many bytes a name that comes from outside has; -EINVAL when it is NULL, empty or longer than
 * KIN_NAME_MAX. */
int kin__name_check(const char *text);

#endif
