/* SPDX-License-Identifier: MIT */
/*
 * Arena: memory that lives exactly as long as a nursery.
 *
 * Bump allocation in chunks that double from 512 bytes to 64 KiB; a request of more than a quarter
 * of that gets a chunk of its own, unless it fits in what is left. Nothing is freed alone. The
 * caller serialises (the nursery's lock).
 */
#ifndef KIN_MEM_ARENA_H
#define KIN_MEM_ARENA_H

#include <stddef.h>

struct kin__arena_chunk;

struct kin__arena {
    struct kin__arena_chunk *chunks; /* newest first */
    char *next, *end;                /* free part of the newest */
    size_t bytes;                    /* handed out so far, each rounded up to 16 */
};

/* All zero is an empty arena. 16-aligned, zeroed memory; NULL when there is none or the size is
 * nonsensical. Size 0 gives a unique pointer. */
void *kin__arena_alloc(struct kin__arena *arena, size_t bytes);
/* Frees everything; the arena is empty again. */
void kin__arena_fini(struct kin__arena *arena);

#endif
