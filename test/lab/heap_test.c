/* SPDX-License-Identifier: MIT */
/*
 * Goal: kin's objects are at the same addresses in every execution, and what is not given back,
 * given back twice, or written beside is found.
 * Method: bodies that use the heap as kin itself does, each wrong in one way.
 */
#include "lab/in_lab.h"

#include "plat/plat.h"

static void *kept;

static int leak(void *arg)
{
    (void)arg;
    kept = kin__heap_alloc(24);
    return 0;
}

KIN_TEST(what_is_not_freed_is_a_leak_with_its_owner, "")
{
    expect_oracle(leak, NULL, "leak", KIN_LEAKED);
    EXPECT(strstr(report.text, "24 bytes that root asked for") != NULL);
}

static int leak_in_a_child(void *arg)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, leak, arg));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(the_owner_may_be_any_task, "")
{
    expect_oracle(leak_in_a_child, NULL, "leak", KIN_LEAKED);
    EXPECT(strstr(report.text, "root/0 asked for") != NULL);
}

static int leak_a_channel(void *arg)
{
    struct kin_chan *chan;
    (void)arg;
    return kin_chan_create(&chan, sizeof(int), 1);
}

KIN_TEST(a_channel_that_nobody_gave_up_is_a_leak, "")
{
    expect_oracle(leak_a_channel, NULL, "leak", KIN_LEAKED);
}

#if !defined(__SANITIZE_ADDRESS__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
static int overrun(void *arg)
{
    char *block = kin__heap_alloc(24);
    (void)arg;
    *(volatile char *)(block + 24) = 1;
    kin__heap_free(block);
    return 0;
}

KIN_TEST(writing_behind_a_block_is_found, "")
{
    expect_oracle(overrun, NULL, "overrun", KIN_PANICKED);
}

static int write_late(void *arg)
{
    char *block = kin__heap_alloc_lines(200);
    (void)arg;
    kin__heap_free_lines(block);
    *(volatile char *)(block + 100) = 1;
    return 0;
}

KIN_TEST(writing_to_a_freed_block_is_found, "")
{
    expect_oracle(write_late, NULL, "use-after-free", KIN_PANICKED);
}
#endif
#endif

static int free_twice(void *arg)
{
    char *block = kin__heap_alloc(8);
    (void)arg;
    kin__heap_free(block);
    kin__heap_free(block);
    return 0;
}

KIN_TEST(freeing_twice_is_found, "")
{
    expect_oracle(free_twice, NULL, "double-free", KIN_PANICKED);
}

static void *addresses[3];
static unsigned round_;

static int note_addresses(void *arg)
{
    void *block[3];
    (void)arg;
    for (int i = 0; i < 3; i++) {
        block[i] = kin__heap_alloc(100);
        for (int k = 0; k < 100; k++)
            kin_lab_assert(((char *)block[i])[k] == 0, "memory is zero");
        if (round_ == 0)
            addresses[i] = block[i];
        kin_lab_assert(block[i] == addresses[i], "addresses are the same in every execution");
        memset(block[i], 0x55, 100);
    }
    kin__heap_free(block[1]);
    void *other = kin__heap_alloc(100);
    kin_lab_assert(other != block[1], "what was freed is not handed out again at once");
    kin__heap_free(other);
    kin__heap_free(block[0]);
    kin__heap_free(block[2]);
    round_++;
    return 0;
}

KIN_TEST(every_execution_has_the_same_addresses, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 50, note_addresses, NULL), 0);
    EXPECT_GE(round_, 50);
}

static int free_older(void *arg)
{
    void **block = arg;
    kin__heap_free(*block);
    *block = NULL; /* a run may be made twice */
    kin__heap_free(NULL);
    return 0;
}

KIN_TEST(what_was_there_before_belongs_to_the_host, "")
{
    void *block = kin__heap_alloc(10);
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, free_older, &block), 0);
    block = kin__heap_alloc(10);
    EXPECT(block != NULL);
    kin__heap_free(block);
}
