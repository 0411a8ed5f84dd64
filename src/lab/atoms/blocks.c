/* SPDX-License-Identifier: MIT */
/*
 * The memory of a run: blocks from one region, never used twice, all gone when the next run begins.
 *
 * The same requests give the same addresses, which is what makes runs comparable. A block that was
 * freed stays as it is: whoever touches it is reported by races.c. Behind each block a line stays
 * free: whoever leaves its block by less than that is in none.
 */
#include "lab/atoms/atoms.h"

#include "base/text.h"
#include "plat/plat.h"

#include <string.h>

#define BLOCKS_MAX 4096u
#define LINE 64u

struct block {
    size_t begin, size; /* in the region */
    bool is_freed;
};

static char *region;
static size_t used = LINE; /* so that there is nothing in front of the first block either */
static uint16_t block_of[KIN__ATOMS_REGION / LINE]; /* of a line: 1 + its block; 0: none */
static struct block blocks[BLOCKS_MAX];
static unsigned blocks_count;

void kin__blocks_begin(void)
{
    memset(block_of, 0, used / LINE * sizeof(block_of[0]));
    used = LINE;
    blocks_count = 0;
}

void *kin_atoms_alloc(size_t size)
{
    if (!region) {
        region = kin__vm_reserve(KIN__ATOMS_REGION);
        kin__atoms.region = (uintptr_t)region;
    }
    KIN__HOUSE(region != NULL && used + 2 * LINE <= KIN__ATOMS_REGION &&
                   size <= KIN__ATOMS_REGION - used - 2 * LINE && blocks_count < BLOCKS_MAX,
               "memory for the blocks of a run");
    char *block = region + used;
    blocks[blocks_count++] = (struct block){used, size, false};
    size_t lines = (size + LINE - 1) / LINE;
    for (size_t i = 0; i < lines; i++)
        block_of[used / LINE + i] = (uint16_t)blocks_count;
    used += (lines + 1) * LINE;
    bool was_inside = kin__atoms.is_inside;
    kin__atoms.is_inside = true;
    memset(block, 0, size);
    kin__atoms.is_inside = was_inside;
    return block;
}

bool kin__block_find(uintptr_t address, unsigned *block, size_t *offset)
{
    size_t at = address - (uintptr_t)region;
    if (!region || at >= KIN__ATOMS_REGION || !block_of[at / LINE])
        return false;
    *block = block_of[at / LINE] - 1u;
    *offset = at - blocks[*block].begin;
    return *offset < blocks[*block].size;
}

/* The run has failed at a place of the code by what is wrong with an address. */
static _Noreturn void fail_at(const char *oracle, const char *what, uintptr_t address, uintptr_t pc)
{
    const struct kin__atoms *a = &kin__atoms;
    char memory[256], place[128];
    struct kin__text text, where;
    kin__atoms.is_inside = true;
    kin__text_init(&where, place, sizeof(place));
    kin__trail_code(&where, pc);
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%s %s, ",
                     a->phase == KIN__ATOMS_IDLE ? a->outside_name : a->current->name, what);
    size_t at = address - (uintptr_t)region;
    unsigned near = region && at < used ? block_of[at / LINE] : 0u;
    if (region && at < used && !near && at >= LINE) /* in the line behind a block */
        near = block_of[at / LINE - 1];
    if (near)
        kin__text_printf(&text, "block %u+%zu of %zu bytes", near - 1,
                         at - blocks[near - 1].begin, blocks[near - 1].size);
    else
        kin__trail_memory(&text, address);
    kin__text_printf(&text, ", at %s", place);
    kin__atoms_fail(oracle, KIN_PANICKED, place, memory);
}

void kin__block_access(uintptr_t address, size_t size, uintptr_t pc)
{
    const struct kin__atoms *a = &kin__atoms;
    unsigned block;
    size_t offset;
    if (!region || (a->phase == KIN__ATOMS_IDLE && !a->outside))
        return;
    if (!kin__block_find(address, &block, &offset) || size > blocks[block].size - offset)
        fail_at("out-of-bounds", "accesses memory that is of no block", address, pc);
    if (blocks[block].is_freed && (a->phase == KIN__ATOMS_IDLE || a->config.ignores_races))
        fail_at("use-after-free", "accesses a block that was freed", address, pc);
}

void kin_atoms_free(void *memory)
{
    unsigned block;
    size_t offset;
    uintptr_t address = (uintptr_t)memory, pc = (uintptr_t)__builtin_return_address(0);
    if (!memory)
        return;
    KIN__HOUSE(kin__atoms.engine != NULL, "memory is freed in a run");
    if (!kin__block_find(address, &block, &offset) || offset != 0)
        fail_at("wild-free", "frees what was not allocated in this run", address, pc);
    if (blocks[block].is_freed)
        fail_at("double-free", "frees a block that was freed before", address, pc);
    kin__races_access(address, blocks[block].size, KIN__ACCESS_WRITE | KIN__ACCESS_FREE, pc);
    blocks[block].is_freed = true;
}
