/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the door of kin_random lets through is what the system gives.
 * Method: the floor below is asked for pieces of every small size; the rest is in test/api.
 */
#include "kin_test.h"

#include "plat/plat.h"

#include <string.h>

KIN_TEST(pieces_of_every_size_are_filled_and_no_more, "")
{
    for (size_t size = 0; size < 300; size++) {
        unsigned char buf[301];
        memset(buf, 0xa5, sizeof(buf));
        EXPECT_EQ(kin__plat_random(buf, size), 0);
        for (size_t i = size; i < sizeof(buf); i++)
            EXPECT_EQ(buf[i], 0xa5);
        size_t same = 0;
        for (size_t i = 0; i < size; i++)
            same += buf[i] == 0xa5;
        EXPECT(size < 32 || same < size / 2);
    }
}
