/* SPDX-License-Identifier: MIT */
/*
 * Races: two accesses to one byte that nothing orders, of which one writes and one is plain.
 *
 * Memory is watched in cells of eight bytes. A cell keeps the accesses that a later one may still
 * race with: who, when by its own clock, which bytes, and from where in the code. A new access is
 * in order with an old one if the old one's moment is in the past of the thread that makes the new
 * one. It takes the place of those that are in its past and would race with nothing that it would
 * not race with itself; so a cell holds one access per thread and kind at most, mostly one.
 *
 * Accesses are compared by what the code orders, not by when they happen to come: one execution of
 * a class finds the races of all of them. Freed memory has an access that is in order with nobody.
 */
#include "lab/atoms/atoms.h"

#include "base/text.h"
#include "plat/plat.h"

#include <errno.h>

#define CELLS_FIRST 1024u
#define ROOM 7u /* accesses kept for a cell, two lines; the oldest goes when there are more */

struct access {
    uintptr_t pc;
    uint32_t clock;
    uint8_t flow, mask, kind;
};

struct cell {
    uintptr_t key; /* address / 8 */
    uint32_t run;
    uint32_t count;
    struct access accesses[ROOM];
};

static struct cell *cells; /* open addressing; those of other runs are free */
static uint32_t cells_size, cells_count, run;

static inline uint32_t slot_of(uintptr_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (cells_size - 1);
}

static struct cell *free_slot(uintptr_t key)
{
    uint32_t slot = slot_of(key);
    while (cells[slot].run == run) /* ends: half of them are free */
        slot = (slot + 1) & (cells_size - 1);
    return &cells[slot];
}

static bool grow(void)
{
    struct cell *old = cells;
    uint32_t size = cells_size;
    cells_size = size ? size * 2 : CELLS_FIRST;
    cells = kin__heap_alloc(cells_size * sizeof(*cells));
    for (uint32_t i = 0; cells && i < size; i++) {
        if (old[i].run == run)
            *free_slot(old[i].key) = old[i];
    }
    kin__heap_free(old);
    return cells != NULL;
}

int kin__races_begin(void)
{
    run++;
    cells_count = 0;
    return cells || grow() ? 0 : -ENOMEM;
}

static inline struct cell *cell_at(uintptr_t key)
{
    for (uint32_t slot = slot_of(key); cells[slot].run == run;
         slot = (slot + 1) & (cells_size - 1)) { /* ends: as above */
        if (cells[slot].key == key)
            return &cells[slot];
    }
    if (++cells_count > cells_size / 2)
        KIN__HOUSE(grow(), "memory for the cells of a run");
    struct cell *cell = free_slot(key);
    cell->key = key;
    cell->run = run;
    cell->count = 0;
    return cell;
}

/* ---- two accesses ---- */

static inline bool conflict(unsigned one, unsigned other)
{
    return ((one | other) & KIN__ACCESS_WRITE) && !(one & other & KIN__ACCESS_ATOMIC);
}

/* Whether whatever races with the old access races with the new one as well. */
static inline bool covers(unsigned kind, unsigned old)
{
    bool is_atomic = kind & KIN__ACCESS_ATOMIC;
    if (kind & KIN__ACCESS_WRITE)
        return !is_atomic || (old & KIN__ACCESS_ATOMIC);
    return !(old & KIN__ACCESS_WRITE) && (!is_atomic || (old & KIN__ACCESS_ATOMIC));
}

static const char *name_of(unsigned kind)
{
    if (kind & KIN__ACCESS_FREE)
        return "free";
    if (kind & KIN__ACCESS_ATOMIC)
        return kind & KIN__ACCESS_WRITE ? "atomic write" : "atomic read";
    return kind & KIN__ACCESS_WRITE ? "write" : "read";
}

static void describe(struct kin__text *text, unsigned flow, unsigned kind, uintptr_t pc)
{
    kin__text_printf(text, "%s by %s at ", name_of(kind), kin__atoms.flows[flow].name);
    kin__trail_code(text, pc);
}

static _Noreturn void report(const struct cell *cell, const struct access *old,
                             const struct access *new)
{
    char memory[512], places[128];
    struct kin__text text, where;
    bool is_late = (old->kind | new->kind) & KIN__ACCESS_FREE;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_init(&where, places, sizeof(places));
    unsigned first = (unsigned)__builtin_ctz(old->mask & new->mask);
    kin__trail_memory(&text, cell->key * 8 + first);
    kin__text_str(&text, ": ");
    describe(&text, new->flow, new->kind, new->pc);
    kin__text_str(&text, is_late ? "; and " : ", not ordered with the ");
    describe(&text, old->flow, old->kind, old->pc);
    kin__trail_code(&where, old->pc < new->pc ? old->pc : new->pc);
    kin__text_str(&where, ", ");
    kin__trail_code(&where, old->pc < new->pc ? new->pc : old->pc);
    kin__atoms_fail(is_late ? "use-after-free" : "data-race", KIN_PANICKED, places, memory);
}

/* What happens most: nobody but this thread was here. True: it is noted. */
static inline bool access_own(struct cell *cell, const struct access *new)
{
    struct access *old = &cell->accesses[0];
    if (cell->count != 1 || old->flow != new->flow || (old->kind & KIN__ACCESS_FREE))
        return cell->count == 0 && (*old = *new, cell->count = 1);
    if (covers(new->kind, old->kind) && !(old->mask & ~new->mask)) {
        *old = *new;
        return true;
    }
    return old->clock == new->clock && covers(old->kind, new->kind) && !(new->mask & ~old->mask);
}

/* Compares a new access with those of its cell and keeps it. */
static void access_cell(uintptr_t key, const struct access *new)
{
    struct cell *cell = cell_at(key);
    if (KIN__LIKELY(access_own(cell, new)))
        return;
    const struct kin__clock *past = &kin__atoms.current->known.before;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cell->count; i++) {
        struct access *old = &cell->accesses[i];
        bool is_same = old->flow == new->flow;
        if (is_same && old->clock == new->clock && (new->mask & ~old->mask) == 0 &&
            covers(old->kind, new->kind) && !(old->kind & KIN__ACCESS_FREE) && kept == i)
            return; /* said already, and by nobody contested since */
        bool is_past = is_same || past->at[old->flow] >= old->clock;
        if (KIN__UNLIKELY((old->mask & new->mask) &&
                          ((old->kind & KIN__ACCESS_FREE) ||
                           (!is_past && conflict(old->kind, new->kind)))))
            report(cell, old, new);
        if (!is_past || (old->mask & ~new->mask) || !covers(new->kind, old->kind))
            cell->accesses[kept++] = *old;
    }
    if (kept == ROOM) {
        for (uint32_t i = 1; i < ROOM; i++)
            cell->accesses[i - 1] = cell->accesses[i];
        kept--;
    }
    cell->accesses[kept++] = *new;
    cell->count = kept;
}

void kin__races_access(uintptr_t address, size_t size, unsigned kind, uintptr_t pc)
{
    const struct kin__atoms *a = &kin__atoms;
    if (a->phase == KIN__ATOMS_IDLE || a->is_peeking || a->config.ignores_races)
        return;
    const struct kin__flow *self = a->current;
    struct access new = {pc, self->known.before.at[self->number], (uint8_t)self->number, 0,
                         (uint8_t)kind};
    while (size > 0) { /* ends: less each time */
        unsigned from = (unsigned)(address & 7);
        unsigned count = size < 8 - from ? (unsigned)size : 8 - from;
        new.mask = (uint8_t)(((1u << count) - 1) << from);
        access_cell(address >> 3, &new);
        address += count;
        size -= count;
    }
}

void kin__races_forget(uintptr_t address, size_t size)
{
    for (uintptr_t key = address >> 3; key < (address + size + 7) >> 3; key++)
        cell_at(key)->count = 0;
}
