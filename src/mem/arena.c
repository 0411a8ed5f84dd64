/* SPDX-License-Identifier: MIT */
/*
 * Arenas: chunks from the heap, newest first, of which only the newest still hands out memory.
 *
 *     arena -> | chunk 2 KiB, filling | -> | 20 KB, alone | -> | 1 KiB, full | -> | 512, full |
 *                    ^ next    ^ end
 *
 * A large request goes into a chunk of its own behind the newest, so that what is left of the
 * newest stays in use; with a quarter as the limit, less than a quarter of a 64 KiB chunk is left
 * over.
 *
 * Memory is zero because the heap's chunks are and each byte is handed out once. Under ASan the
 * part of a chunk that no one asked for is poisoned, so that writing past an allocation is seen.
 */
#include "mem/arena.h"

#include "base/assert.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <stdint.h>

#if KIN__ASAN
#include <sanitizer/asan_interface.h>
#endif

#define CHUNK_MIN ((size_t)512)
#define CHUNK_MAX ((size_t)64 * 1024)
#define LARGE (CHUNK_MAX / 4) /* a request above this does not begin a chunk for others */
#define ALIGN ((size_t)16)

struct kin__arena_chunk {
    struct kin__arena_chunk *next; /* the next older */
    size_t bytes;                  /* all of it, head included; 0: of one large request alone */
};

_Static_assert(sizeof(struct kin__arena_chunk) % ALIGN == 0, "what follows the head is aligned");

static void poison(void *p, size_t bytes)
{
#if KIN__ASAN
    __asan_poison_memory_region(p, bytes);
#else
    (void)p;
    (void)bytes;
#endif
}

static void unpoison(void *p, size_t bytes)
{
#if KIN__ASAN
    __asan_unpoison_memory_region(p, bytes);
#else
    (void)p;
    (void)bytes;
#endif
}

/* A chunk of its own for one request; the newest chunk stays the newest. */
static void *alloc_alone(struct kin__arena *arena, size_t rounded)
{
    struct kin__arena_chunk *chunk = kin__heap_alloc(sizeof(*chunk) + rounded);
    if (!chunk)
        return NULL;

    struct kin__arena_chunk **place = arena->chunks ? &arena->chunks->next : &arena->chunks;
    chunk->next = *place;
    *place = chunk;
    return chunk + 1;
}

/* Begins a chunk that has room for rounded bytes at least. */
static bool grow(struct kin__arena *arena, size_t rounded)
{
    size_t bytes = arena->chunks ? arena->chunks->bytes * 2 : CHUNK_MIN;

    if (bytes < CHUNK_MIN)
        bytes = CHUNK_MIN; /* so far there was one large request only */
    if (bytes > CHUNK_MAX)
        bytes = CHUNK_MAX;
    while (bytes < sizeof(struct kin__arena_chunk) + rounded) /* ends: rounded <= LARGE */
        bytes *= 2;

    struct kin__arena_chunk *chunk = kin__heap_alloc(bytes);
    if (!chunk)
        return false;
    chunk->next = arena->chunks;
    chunk->bytes = bytes;
    arena->chunks = chunk;
    arena->next = (char *)(chunk + 1);
    arena->end = (char *)chunk + bytes;
    poison(arena->next, (size_t)(arena->end - arena->next));
    return true;
}

void *kin__arena_alloc(struct kin__arena *arena, size_t bytes)
{
    if (bytes > PTRDIFF_MAX - sizeof(struct kin__arena_chunk) - ALIGN)
        return NULL;

    size_t rounded = bytes ? (bytes + ALIGN - 1) & ~(ALIGN - 1) : ALIGN;
    char *p;
    if (rounded <= (size_t)(arena->end - arena->next)) {
        p = arena->next;
        arena->next += rounded;
    } else if (rounded > LARGE) {
        p = alloc_alone(arena, rounded);
        if (!p)
            return NULL;
        poison(p, rounded);
    } else {
        if (!grow(arena, rounded))
            return NULL;
        p = arena->next;
        arena->next += rounded;
    }
    unpoison(p, bytes);
    arena->bytes += rounded;
    KIN__ASSERT(((uintptr_t)p & (ALIGN - 1)) == 0, "house");
    return p;
}

void kin__arena_fini(struct kin__arena *arena)
{
    struct kin__arena_chunk *chunk = arena->chunks;

    while (chunk) { /* ends: the list of chunks does */
        struct kin__arena_chunk *older = chunk->next;
        kin__heap_free(chunk);
        chunk = older;
    }
    *arena = (struct kin__arena){0};
}
