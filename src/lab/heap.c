/* SPDX-License-Identifier: MIT */
/*
 * The lab's heap: kin's objects at the same addresses in every execution, and none of them lost.
 *
 *     arena   | head | block | red | head | block | red | ...      begins again with each execution
 *
 * Nothing that was freed is handed out again in the same execution, so that a late access is seen:
 * a freed block is filled with a pattern that must still be there at the end, and so must be what
 * lies behind each block. Under the address sanitizer such an access is reported at once. Who asked
 * for what is known by the path of the task and a count: root/1#3 is the third piece of memory that
 * root/1 asked for.
 *
 * Outside of an execution all of this is the host's heap.
 */
#include "lab/world.h"

#include "base/text.h"

#include <string.h>

#if KIN__ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define ARENA_BYTES ((size_t)1 << 30)
#define RED_BYTES 16u       /* behind every block */
#define FILL_MAX 512u       /* bytes of a freed block that are filled and looked at */
#define RED 0x5eu
#define FREED 0xddu
#define IN_USE 0x6b696e20u
#define GONE 0x676f6e65u

struct head {
    uint32_t state;         /* IN_USE, GONE */
    uint32_t player, number; /* whose which */
    size_t bytes;
    struct head *next, *prev; /* among those in use */
    struct head *older;     /* the one before, in use or not */
};
_Static_assert(sizeof(struct head) <= KIN__LINE, "a head fits before a line");

static struct {
    char *base;
    size_t used;
    struct head *live;   /* newest first */
    struct head *newest;
} arena;

static bool is_ours(const void *p)
{
    return arena.base && (const char *)p >= arena.base &&
           (const char *)p < arena.base + ARENA_BYTES;
}

static struct head *head_of(void *p)
{
    return (struct head *)(void *)((char *)p - KIN__LINE);
}

static char *block_of(struct head *head)
{
    return (char *)head + KIN__LINE;
}

void kin__lab_heap_begin(void)
{
    if (arena.used && KIN__ASAN)
        ASAN_UNPOISON_MEMORY_REGION(arena.base, arena.used);
    arena.used = 0;
    arena.live = arena.newest = NULL;
}

static void name_block(const struct head *head, char *memory, size_t size)
{
    struct kin__text text;
    kin__text_init(&text, memory, size);
    kin__text_printf(&text, "%s#%u", kin__player_path(head->player), head->number);
}

static void *take(size_t bytes)
{
    struct kin__world *w = &kin__world;
    size_t body = (bytes + RED_BYTES + KIN__LINE - 1) & ~(size_t)(KIN__LINE - 1);
    size_t room = KIN__LINE + body;
    if (!arena.base && !(arena.base = kin__vm_reserve(ARENA_BYTES)))
        return NULL;
    if (bytes > ARENA_BYTES || room > ARENA_BYTES - arena.used)
        return NULL;
    struct head *head = (struct head *)(void *)(arena.base + arena.used);
    arena.used += room;
    uint32_t player = w->current;
    uint32_t number = player < w->player_count ? w->players[player].blocks++ : 0;
    *head = (struct head){IN_USE, player, number, bytes, arena.live, NULL, arena.newest};
    if (arena.live)
        arena.live->prev = head;
    arena.live = arena.newest = head;
    kin__world_made(head, room);
    memset(block_of(head), 0, bytes);
    memset(block_of(head) + bytes, RED, RED_BYTES);
    if (KIN__ASAN)
        ASAN_POISON_MEMORY_REGION(block_of(head) + bytes, RED_BYTES);
    return block_of(head);
}

static bool is_filled(const char *p, size_t bytes, unsigned char with)
{
    uint64_t eight = with * UINT64_C(0x0101010101010101), word;
    size_t at = 0;
    for (; at + 8 <= bytes; at += 8) {
        memcpy(&word, p + at, 8);
        if (word != eight)
            return false;
    }
    for (; at < bytes; at++) {
        if ((unsigned char)p[at] != with)
            return false;
    }
    return true;
}

static void look_behind(struct head *head)
{
    char name[160];
    if (KIN__ASAN || is_filled(block_of(head) + head->bytes, RED_BYTES, RED))
        return;
    name_block(head, name, sizeof(name));
    kin__world_failf("overrun", KIN_PANICKED, name, "somebody wrote behind the %zu bytes of %s",
                     head->bytes, name);
}

static void give(void *p)
{
    struct head *head = head_of(p);
    char name[160];
    if (head->state != IN_USE) {
        name_block(head, name, sizeof(name));
        kin__world_failf("double-free", KIN_PANICKED, name, "%s was freed twice", name);
        return;
    }
    look_behind(head);
    head->state = GONE;
    if (head->next)
        head->next->prev = head->prev;
    if (head->prev)
        head->prev->next = head->next;
    else
        arena.live = head->next;
    if (KIN__ASAN)
        ASAN_UNPOISON_MEMORY_REGION(p, head->bytes); /* its owner may have poisoned parts */
    memset(p, FREED, head->bytes < FILL_MAX ? head->bytes : FILL_MAX);
    if (KIN__ASAN)
        ASAN_POISON_MEMORY_REGION(p, head->bytes);
}

/* What was freed and written to since. */
static void look_at_freed(void)
{
    char name[160];
    for (struct head *head = arena.newest; head; head = head->older) {
        size_t bytes = head->bytes < FILL_MAX ? head->bytes : FILL_MAX;
        if (head->state == IN_USE || is_filled(block_of(head), bytes, FREED))
            continue;
        name_block(head, name, sizeof(name));
        kin__world_failf("use-after-free", KIN_PANICKED, name,
                         "somebody wrote to %s, %zu bytes, after it was freed", name, head->bytes);
        return;
    }
}

void kin__lab_heap_end(bool is_looking)
{
    struct kin__world *w = &kin__world;
    char name[160];
    if (!is_looking)
        return;
    if (!KIN__ASAN)
        look_at_freed();
    for (struct head *head = arena.live; head; head = head->next) {
        look_behind(head);
        if (w->keeps_fixture && head->player == 1) /* the first task's own */
            continue;
        name_block(head, name, sizeof(name));
        kin__world_failf("leak", KIN_LEAKED, name, "%zu bytes that %s asked for were not freed",
                         head->bytes, kin__player_path(head->player));
        return;
    }
}

/* ---- what the runtime calls ---- */

static void *alloc(size_t bytes)
{
    if (kin__lab_fault_happens(KIN_FAULT_OOM, "memory"))
        return NULL;
    return take(bytes);
}

static bool is_kept; /* what is asked for now outlives the execution */

void kin__lab_heap_keep(bool keeps)
{
    is_kept = keeps;
}

static bool is_lab(void)
{
    return kin__world.is_on && !is_kept;
}

void *kin__heap_alloc(size_t bytes)
{
    return is_lab() ? alloc(bytes ? bytes : 1) : kin__host_alloc(bytes);
}

void *kin__heap_alloc_lines(size_t bytes)
{
    return is_lab() ? alloc(bytes ? bytes : 1) : kin__host_alloc_lines(bytes);
}

void kin__heap_free(void *p)
{
    if (is_ours(p))
        give(p);
    else
        kin__host_free(p);
}

void kin__heap_free_lines(void *p)
{
    if (is_ours(p))
        give(p);
    else
        kin__host_free_lines(p);
}
