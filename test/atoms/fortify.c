/* SPDX-License-Identifier: MIT */
/*
 * Copies of a program that is compiled with -D_FORTIFY_SOURCE: the checked functions that the
 * compiler calls for memcpy, memmove and memset are watched like these.
 *
 * Sizes are not constants, so that the compiler cannot do without a call.
 */
#include "harness.h"

#include <stdatomic.h>
#include <string.h>

static char shared[16];
static volatile size_t size = 8;
static atomic_int is_full;

static void fill_by_memcpy(void *arg)
{
    (void)arg;
    memcpy(shared, "abcdefgh", size);
    atomic_store_explicit(&is_full, 1, memory_order_release);
}

static void fill_by_memmove(void *arg)
{
    (void)arg;
    memmove(shared, "ijklmnop", size);
    atomic_store_explicit(&is_full, 2, memory_order_release);
}

static void fill_by_memset(void *arg)
{
    (void)arg;
    memset(shared, 'x', size);
    atomic_store_explicit(&is_full, 3, memory_order_release);
}

static void look(void *arg)
{
    char own[16] = "";
    (void)arg;
    if (!atomic_load_explicit(&is_full, memory_order_acquire))
        return;
    memcpy(own, shared, size);
    kin_atoms_assert(own[7] != 0, "what was copied is seen");
}

static void begin(void *fill)
{
    is_full = 0;
    memset(shared, 0, sizeof(shared));
    kin_atoms_spawn("fill", *(void (**)(void *))fill, NULL);
    kin_atoms_spawn("look", look, NULL);
}

static void (*by_memcpy)(void *) = fill_by_memcpy, (*by_memmove)(void *) = fill_by_memmove,
            (*by_memset)(void *) = fill_by_memset;

const struct harness harnesses[] = {
    {.name = "a_checked_memcpy_is_ordered", .begin = begin, .arg = &by_memcpy},
    {.name = "a_checked_memmove_is_ordered", .begin = begin, .arg = &by_memmove},
    {.name = "a_checked_memset_is_ordered", .begin = begin, .arg = &by_memset},
    {.name = NULL}};
