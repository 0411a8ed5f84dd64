/* SPDX-License-Identifier: MIT */
/*
 * Rooms: arrays of the engine that grow by doubling and are kept until the engine goes.
 *
 * They are mappings of their own, not of the heap: in the lab the heap is part of the run that is
 * watched. A room that grows moves; nothing keeps a pointer into it across a call that may grow it.
 * A room may begin in memory that is lent to it, which it leaves when it grows: an engine has two
 * dozen rooms, most of which stay small, and system calls for each took longer than a short search.
 */
#ifndef KIN_LAB_ROOM_H
#define KIN_LAB_ROOM_H

#include <stdbool.h>
#include <stddef.h>

struct kin__room {
    void *base;
    size_t bytes; /* all zero: an empty room; odd: the memory is lent */
};

/* Makes the room at least want bytes large; what it holds stays, the rest is zero. False: no
 * memory, and nothing has changed. */
bool kin__room_grow(struct kin__room *room, size_t want);
void kin__room_release(struct kin__room *room);
/* Begins a room in memory that outlives it, zeroed, an even number of bytes. */
void kin__room_lend(struct kin__room *room, void *base, size_t bytes);

/* Fills a room with a file of max bytes at most, and leaves room for one more. 0 or -errno. */
int kin__room_read(struct kin__room *room, const char *path, size_t max, size_t *size);

/* Whether the array has room for count elements of size bytes, growing it if need be. */
static inline bool kin__room_fits(struct kin__room *room, size_t count, size_t size)
{
    return count * size <= room->bytes || kin__room_grow(room, count * size);
}

#endif
