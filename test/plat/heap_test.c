/* SPDX-License-Identifier: MIT */
/*
 * The heap gives zeroed, aligned memory, and every resource request can be made to fail.
 */
#include "kin_test.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <errno.h>
#include <string.h>

KIN_TEST(memory_is_zeroed_and_aligned, "")
{
    for (size_t bytes = 1; bytes < 5000; bytes += 7) {
        unsigned char *p = kin__heap_alloc(bytes);
        EXPECT(p != NULL);
        EXPECT_EQ((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < bytes; i++)
            EXPECT_EQ(p[i], 0);
        memset(p, 0xa5, bytes);
        kin__heap_free(p);
    }
}

KIN_TEST(no_bytes_are_still_an_allocation, "")
{
    void *p = kin__heap_alloc(0);

    EXPECT(p != NULL);
    kin__heap_free(p);
    kin__heap_free(NULL);
}

#if !KIN__ASAN && !KIN__TSAN /* they end the process instead of refusing */
KIN_TEST(too_much_memory_is_refused, "")
{
    volatile size_t bytes = SIZE_MAX / 2;

    EXPECT_PTR(kin__heap_alloc(bytes), NULL);
}
#endif

KIN_TEST(the_nth_request_fails_once, "")
{
    for (uint64_t n = 1; n < 6; n++) {
        kin__plat_fail_after(n, false);
        for (uint64_t i = 1; i < 10; i++) {
            void *p = kin__heap_alloc(8);
            EXPECT_EQ(p == NULL, i == n);
            kin__heap_free(p);
        }
        EXPECT_EQ(kin__plat_requests(), 9);
    }
}

KIN_TEST(every_request_from_the_nth_on_fails, "")
{
    kin__plat_fail_after(3, true);
    for (uint64_t i = 1; i < 10; i++) {
        void *p = kin__heap_alloc(8);
        EXPECT_EQ(p == NULL, i >= 3);
        kin__heap_free(p);
    }
    kin__plat_fail_after(0, false);
    void *p = kin__heap_alloc(8);
    EXPECT(p != NULL);
    kin__heap_free(p);
    EXPECT_EQ(kin__plat_requests(), 1);
}

static void do_nothing(void *arg)
{
    (void)arg;
}

KIN_TEST(reserving_and_starting_are_requests_too, "")
{
    struct kin__thread thread;

    kin__plat_fail_after(1, true);
    EXPECT_PTR(kin__vm_reserve(kin__vm_page()), NULL);
    EXPECT_EQ(kin__thread_start(&thread, do_nothing, NULL, 65536, "none"), -EAGAIN);
    EXPECT_EQ(thread.handle, 0);
    EXPECT_EQ(kin__plat_requests(), 2);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin__thread_start(&thread, do_nothing, NULL, 65536, "one"), 0);
    kin__thread_join(&thread);
}
