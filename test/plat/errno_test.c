/* SPDX-License-Identifier: MIT */
/*
 * Goal: kin_errno is the errno of the thread that asks, also in a flow that went on in another one.
 * Method: one function asks on two threads, whose errno differs. A compiler that looked up once
 * where errno is would give the first thread's value twice.
 */
#define _GNU_SOURCE 1
#include "kin_test.h"

#include "plat/context.h"
#include "plat/plat.h"

#include <kin/status.h>

#include <errno.h>

#define STACK_BYTES ((size_t)64 * 1024)

static struct kin__context here, there, flow; /* of the test, of the other thread, in between */
static int first, second;

static void ask_twice(void *arg)
{
    (void)arg;
    first = kin_errno();
    (void)kin__context_switch(&flow, &here, NULL);
    second = kin_errno();
    kin__context_jump(&flow, &there, NULL);
}

static void go_on(void *arg)
{
    (void)arg;
    kin__context_adopt(&there);
    errno = 77;
    (void)kin__context_switch(&there, &flow, NULL);
    kin__context_drop(&there);
}

KIN_TEST(errno_is_that_of_the_running_thread, "")
{
    struct kin__thread thread;
    char *low = kin__vm_reserve(STACK_BYTES);
    EXPECT(low != NULL);
    unsigned id = kin__stack_announce(low, low + STACK_BYTES);

    kin__context_adopt(&here);
    kin__context_make(&flow, low, low + STACK_BYTES, ask_twice);
    errno = 33;
    (void)kin__context_switch(&here, &flow, NULL);
    EXPECT_EQ(kin__thread_start(&thread, go_on, NULL, 256 * 1024, "other"), 0);
    errno = 34;
    kin__thread_join(&thread);
    EXPECT_EQ(first, 33);
    EXPECT_EQ(second, 77);
    kin__context_drop(&flow);
    kin__stack_forget(id);
    kin__vm_release(low, STACK_BYTES);
    kin__context_drop(&here);
}
