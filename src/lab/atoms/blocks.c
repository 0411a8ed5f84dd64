/* SPDX-License-Identifier: MIT */
/*
 * The memory of a run: blocks from one region, never used twice, all gone when the next run begins.
 *
 * The same requests give the same addresses, which is what makes runs comparable. A block that was
 * freed stays as it is: whoever touches it is reported by races.c.
 */
#include "lab/atoms/atoms.h"

#include "plat/plat.h"

#include <string.h>

#define REGION_BYTES ((size_t)16 << 20)
#define BLOCKS_MAX 4096u
#define LINE 64u

struct block {
    size_t begin, size; /* in the region */
};

static char *region;
static size_t used;
static struct block blocks[BLOCKS_MAX];
static unsigned blocks_count;

void kin__blocks_begin(void)
{
    used = 0;
    blocks_count = 0;
}

void *kin_atoms_alloc(size_t size)
{
    if (!region)
        region = kin__vm_reserve(REGION_BYTES);
    KIN__CHECK(region != NULL && size <= REGION_BYTES - used - LINE && blocks_count < BLOCKS_MAX,
               "house: memory for the blocks of a run");
    char *block = region + used;
    blocks[blocks_count++] = (struct block){used, size};
    used += (size + LINE - 1) / LINE * LINE;
    bool was_inside = kin__atoms.is_inside;
    kin__atoms.is_inside = true;
    memset(block, 0, size);
    kin__atoms.is_inside = was_inside;
    return block;
}

bool kin__block_find(uintptr_t address, unsigned *block, size_t *offset)
{
    for (unsigned i = 0; region && i < blocks_count; i++) {
        uintptr_t begin = (uintptr_t)region + blocks[i].begin;
        if (address < begin || address >= begin + blocks[i].size)
            continue;
        *block = i;
        *offset = address - begin;
        return true;
    }
    return false;
}

void kin_atoms_free(void *memory)
{
    unsigned block;
    size_t offset;
    if (!memory)
        return;
    bool is_known = kin__block_find((uintptr_t)memory, &block, &offset) && offset == 0;
    KIN__CHECK(is_known, "house: only what was allocated in this run is freed");
    kin__races_access((uintptr_t)memory, blocks[block].size, KIN__ACCESS_WRITE | KIN__ACCESS_FREE,
                      (uintptr_t)__builtin_return_address(0));
}
