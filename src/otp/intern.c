/* SPDX-License-Identifier: MIT */
/*
 * Names as values: one block each, with a count of who keeps it [SINV-6].
 */
#include "otp/intern.h"

#include "plat/plat.h"

#include <kin/name.h>

#include <errno.h>
#include <string.h>

int kin__name_check(const char *text)
{
    size_t size = text ? strnlen(text, KIN_NAME_MAX + 1) : 0;
    return size > 0 && size <= KIN_NAME_MAX ? (int)size : -EINVAL;
}

struct kin__name *kin__name_make(const char *text, size_t size)
{
    struct kin__name *name = kin__heap_alloc(sizeof(*name) + size + 1);
    if (!name)
        return NULL;
    kin__store_relaxed(&name->refs, 1u); /* alone: nobody else has it yet */
    name->size = (uint32_t)size;
    memcpy(name->text, text, size); /* the 0 behind it is the heap's */
    return name;
}

struct kin__name *kin__name_ref(struct kin__name *name)
{
    (void)kin__add_relaxed(&name->refs, 1u); /* relaxed: the caller's own count keeps it */
    return name;
}

void kin__name_unref(struct kin__name *name)
{
    /* pairs with itself: whoever frees it comes after everybody who has read it */
    if (name && kin__sub_acq_rel(&name->refs, 1u) == 1)
        kin__heap_free(name);
}
