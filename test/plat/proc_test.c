/* SPDX-License-Identifier: MIT */
/*
 * Goal: the kernel's word on whether a thread sleeps is read rightly, for all kinds of threads.
 * Method: one that waits on a futex, the calling one, one that has ended, one never started.
 */
#include "kin_test.h"

#include "plat/plat.h"

static kin__a32 word;

static void sleep_on_word(void *arg)
{
    (void)arg;
    while (!kin__load_acquire(&word)) /* pairs with the release in the test */
        (void)kin__futex_wait(&word, 0, -1);
}

KIN_TEST(a_thread_in_the_kernel_is_asleep_and_none_is_when_it_has_ended, "")
{
    struct kin__thread thread;

    EXPECT_EQ(kin__thread_start(&thread, sleep_on_word, NULL, 65536, "a) b (c"), 0);
    while (!kin__thread_is_asleep(&thread)) /* ends: it waits soon, or the alarm rings */
        kin__thread_yield();
    kin__store_release(&word, 1u); /* pairs with the acquire in sleep_on_word */
    kin__futex_wake(&word, 1);
    kin__thread_join(&thread);
    EXPECT(!kin__thread_is_asleep(&thread));
}

KIN_TEST(the_calling_thread_is_not_asleep, "")
{
    struct kin__thread self = {0};

    EXPECT(!kin__thread_is_asleep(&self)); /* not known yet */
    kin__thread_adopt(&self);
    EXPECT_EQ(self.handle, 0); /* never joined */
    EXPECT_GT(kin__load_relaxed(&self.tid), 0); /* relaxed: a number */
    for (int i = 0; i < 100; i++)
        EXPECT(!kin__thread_is_asleep(&self));
}
