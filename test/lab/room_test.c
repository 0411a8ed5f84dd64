/* SPDX-License-Identifier: MIT */
/*
 * Tests of growing rooms.
 */
#include "kin_test.h"
#include "lab/room.h"
#include "plat/plat.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

KIN_TEST(a_room_keeps_what_it_holds_when_it_grows, "")
{
    struct kin__room room = {NULL, 0};

    for (size_t i = 0; i < 100000; i++) {
        EXPECT(kin__room_fits(&room, i + 1, sizeof(uint32_t)));
        ((uint32_t *)room.base)[i] = (uint32_t)i;
    }
    for (size_t i = 0; i < 100000; i++)
        EXPECT_EQ(((uint32_t *)room.base)[i], i);
    for (size_t i = 100000 * sizeof(uint32_t); i < room.bytes; i++)
        EXPECT_EQ(((unsigned char *)room.base)[i], 0);
    kin__room_release(&room);
    EXPECT(room.base == NULL);
    EXPECT_EQ(room.bytes, 0);
}

KIN_TEST(a_room_that_cannot_grow_stays_as_it_is, "")
{
    struct kin__room room = {NULL, 0};

    EXPECT(kin__room_grow(&room, 1));
    const struct kin__room before = room;
    *(char *)room.base = 'x';
    kin__plat_fail_after(1, false);
    EXPECT(!kin__room_grow(&room, before.bytes + 1));
    kin__plat_fail_after(0, false);
    EXPECT(!kin__room_grow(&room, SIZE_MAX));
    EXPECT_PTR(room.base, before.base);
    EXPECT_EQ(room.bytes, before.bytes);
    EXPECT_EQ(*(char *)room.base, 'x');
    kin__room_release(&room);
    kin__room_release(&room);
}

KIN_TEST(a_file_is_read_whole_or_not_at_all, "")
{
    static char written[100000];
    struct kin__room room = {NULL, 0};
    char path[64];
    size_t size = 1;
    int fd = memfd_create("file", 0);

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    EXPECT_EQ(kin__room_read(&room, path, 10, &size), 0);
    EXPECT_EQ(size, 0);
    memset(written, 'x', sizeof(written));
    EXPECT_EQ(write(fd, written, sizeof(written)), sizeof(written));
    EXPECT_EQ(kin__room_read(&room, path, sizeof(written), &size), 0);
    EXPECT_EQ(size, sizeof(written));
    EXPECT_EQ(memcmp(room.base, written, size), 0);
    EXPECT_GT(room.bytes, size);
    EXPECT_EQ(kin__room_read(&room, path, sizeof(written) - 1, &size), -EFBIG);
    EXPECT_EQ(kin__room_read(&room, "/nowhere/at/all", 10, &size), -ENOENT);
    kin__room_release(&room);
    close(fd);
}
