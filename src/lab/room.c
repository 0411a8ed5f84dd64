/* SPDX-License-Identifier: MIT */
/*
 * Growing rooms.
 */
#include "lab/room.h"

#include "plat/plat.h"

#include <stdint.h>
#include <string.h>

#define FIRST_BYTES (size_t)16384

bool kin__room_grow(struct kin__room *room, size_t want)
{
    size_t bytes = room->bytes ? room->bytes + (room->bytes & 1) : FIRST_BYTES;

    if (want > SIZE_MAX / 4)
        return false;
    while (bytes < want)
        bytes *= 2;
    void *base = kin__vm_reserve(bytes);
    if (!base)
        return false;
    if (room->base)
        memcpy(base, room->base, room->bytes);
    kin__room_release(room);
    room->base = base;
    room->bytes = bytes;
    return true;
}

void kin__room_release(struct kin__room *room)
{
    if (room->base && !(room->bytes & 1))
        kin__vm_release(room->base, room->bytes);
    *room = (struct kin__room){NULL, 0};
}

void kin__room_lend(struct kin__room *room, void *base, size_t bytes)
{
    room->base = base;
    room->bytes = bytes - 1;
}
