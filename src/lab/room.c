/* SPDX-License-Identifier: MIT */
/*
 * Growing rooms, and files that are read into one.
 */
#include "lab/room.h"

#include "plat/file.h"
#include "plat/plat.h"

#include <errno.h>
#include <fcntl.h>
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

int kin__room_read(struct kin__room *room, const char *path, size_t max, size_t *size)
{
    const int fd = kin__file_open(path, O_RDONLY, 0, true);
    int64_t part = 1;

    if (fd < 0)
        return fd;
    for (*size = 0; part > 0; *size += part > 0 ? (size_t)part : 0) {
        if (*size > max)
            part = -EFBIG;
        else if (!kin__room_fits(room, *size + 2, 1))
            part = -ENOMEM;
        else
            part = kin__file_pread(fd, (char *)room->base + *size, room->bytes - *size - 1,
                                   (int64_t)*size, true);
    }
    (void)kin__fd_close(fd);
    return (int)part;
}
