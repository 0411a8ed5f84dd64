/* SPDX-License-Identifier: MIT */
/*
 * Names as values: one block each, with a count of who keeps it [SINV-6].
 */
#include "otp/intern.h"

#include "plat/plat.h"
#include "scope/belongings.h"

#include <kin/name.h>

#include <errno.h>
#include <string.h>

int kin__name_check(const char *text)
{
    size_t size = text ? strnlen(text, KIN_NAME_MAX + 1) : 0;
    return size > 0 && size <= KIN_NAME_MAX ? (int)size : -EINVAL;
}

struct kin__name *kin__name_make(const char *text, size_t size, int *rc)
{
    struct kin__name *name = kin__alloc(kin__task_self(), sizeof(*name) + size + 1, rc);
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
        kin__free(name);
}

/* ---- names that were shown ---- */

#define CHAINS_FIRST 64u

/* Which chain a text belongs to. The key is no secret: the program itself chooses these names. */
static struct kin__name **chain_of(const struct kin__shown *shown, const struct kin__name *name)
{
    static const struct kin__hash_key key = {1, 2};
    return &shown->chains[kin__hash_bytes(key, name->text, name->size) & shown->mask];
}

/* Twice as many chains. Without memory the chains grow longer, unless there is none at all. */
static bool grow_locked(struct kin__shown *shown)
{
    struct kin__shown grown = {.mask = shown->chains ? 2 * shown->mask + 1 : CHAINS_FIRST - 1};
    grown.chains = kin__heap_alloc((grown.mask + 1) * sizeof(struct kin__name *));
    if (!grown.chains)
        return shown->chains != NULL;
    for (size_t i = 0; shown->chains && i <= shown->mask; i++) {
        struct kin__name *name;
        while ((name = shown->chains[i])) { /* ends: one fewer each time */
            struct kin__name **chain = chain_of(&grown, name);
            shown->chains[i] = name->next;
            name->next = *chain;
            *chain = name;
        }
    }
    kin__heap_free(shown->chains);
    shown->chains = grown.chains;
    shown->mask = grown.mask;
    return true;
}

/* What stands for the name in the table, which may be the name itself; NULL: no memory. */
static struct kin__name *enter_locked(struct kin__shown *shown, struct kin__name *name)
{
    if ((!shown->chains || shown->count > shown->mask) && !grow_locked(shown))
        return NULL;
    struct kin__name **chain = chain_of(shown, name);
    for (struct kin__name *other = *chain; other; other = other->next) {
        if (other->size == name->size && memcmp(other->text, name->text, name->size) == 0)
            return other;
    }
    name->next = *chain;
    *chain = kin__name_ref(name);
    shown->count++;
    return name;
}

const char *kin__name_show(struct kin__shown *shown, struct kin__name *name)
{
    /* pairs with the release below: the table keeps what stands for it */
    struct kin__name *stands = kin__load_acquire(&name->shown);
    if (stands)
        return stands->text;
    kin__lock_take(&shown->lock, KIN__RANK_WAIT);
    stands = enter_locked(shown, name);
    kin__lock_give(&shown->lock, KIN__RANK_WAIT);
    if (!stands)
        return NULL;
    kin__store_release(&name->shown, stands); /* pairs with the acquire above */
    return stands->text;
}

void kin__shown_free(struct kin__shown *shown)
{
    for (size_t i = 0; shown->chains && i <= shown->mask; i++) {
        struct kin__name *name;
        while ((name = shown->chains[i])) { /* ends: one fewer each time */
            shown->chains[i] = name->next;
            kin__name_unref(name);
        }
    }
    kin__heap_free(shown->chains);
}
