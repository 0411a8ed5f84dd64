/* SPDX-License-Identifier: MIT */
/*
 * Goal: the kernel's word on whether a thread sleeps or is gone is read rightly, for all kinds of
 * threads, and on how many there are.
 * Method: one that waits on a futex, the calling one, one that has ended, one that ends while it is
 * looked at, one never started, one of the kernel's own.
 */
#define _GNU_SOURCE 1
#include "kin_test.h"

#include "plat/context.h"
#include "plat/plat.h"
#include "plat/uring.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static kin__a32 word;

static void sleep_on_word(void *arg)
{
    (void)arg;
    while (!kin__load_acquire(&word)) /* pairs with the release in the test */
        (void)kin__futex_wait(&word, 0, -1);
}

KIN_TEST(the_process_has_a_number, "")
{
    EXPECT_EQ(kin__process_id(), (unsigned)getpid());
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

static struct kin__thread watched;

#if !KIN__ASAN && !KIN__TSAN /* a front takes what is not there as arguments, too */
static void (*before_asking)(void); /* called before the kernel is asked for a thread */

/* In place of the C library's, which it calls. */
long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long args[6];
    va_list more;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    va_start(more, number);
    for (int i = 0; i < 6; i++)
        args[i] = va_arg(more, long);
    va_end(more);
    if (number == SYS_tgkill && before_asking)
        before_asking();
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

/* The thread ends, and the kernel has forgotten it. */
static void let_end(void)
{
    long tid = kin__load_relaxed(&watched.tid); /* relaxed: a number */
    before_asking = NULL;
    kin__store_release(&word, 1u); /* pairs with the acquire in sleep_on_word */
    kin__futex_wake(&word, 1);
    kin__thread_join(&watched);
    while (syscall(SYS_tgkill, (long)getpid(), tid, 0L) == 0) /* ends: the kernel forgets it soon */
        kin__thread_yield();
}

/* The monitor looks at a worker just when the runtime ends: nobody is to be missed then. */
KIN_TEST(a_thread_that_ends_well_while_it_is_looked_at_is_not_gone, "SCHED:14.1.1")
{
    EXPECT_EQ(kin__thread_start(&watched, sleep_on_word, NULL, 65536, "kin-test"), 0);
    while (!kin__thread_is_asleep(&watched)) /* ends: it waits soon, or the alarm rings */
        kin__thread_yield();
    EXPECT(!kin__thread_is_gone(&watched));
    before_asking = let_end;
    EXPECT(!kin__thread_is_gone(&watched));
    EXPECT(!before_asking); /* the kernel was asked */
    EXPECT(!kin__thread_is_gone(&watched));
}

#endif

static void exit_thread(void *arg)
{
    (void)arg;
    pthread_exit(NULL);
}

KIN_TEST(a_thread_that_does_not_return_is_gone, "SCHED:14.1.1")
{
    EXPECT_EQ(kin__thread_start(&watched, exit_thread, NULL, 65536, "kin-test"), 0);
    kin__thread_join(&watched);
    while (!kin__thread_is_gone(&watched)) /* ends: the kernel forgets it soon */
        kin__thread_yield();
    kin__thread_leave(&watched);
    EXPECT(!kin__thread_is_gone(&watched));
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

KIN_TEST(threads_are_counted, "")
{
    struct kin__thread thread;
    unsigned before = kin__process_threads();

    EXPECT_GE(before, 1);
    EXPECT_EQ(kin__thread_start(&thread, sleep_on_word, NULL, 65536, "kin-test"), 0);
    unsigned during = kin__process_threads();
    EXPECT_GE(during, before + 1); /* a sanitizer may have started one, too */
    kin__store_release(&word, 1u); /* pairs with the acquire in sleep_on_word */
    kin__futex_wake(&word, 1);
    kin__thread_join(&thread);
    while (kin__process_threads() != during - 1) /* ends: the kernel takes it away soon */
        kin__thread_yield();
}

KIN_TEST(a_thread_that_the_kernel_has_in_the_process_does_not_count, "")
{
    struct kin__uring ring;
    struct kin__uring_result result;
    unsigned before = kin__process_threads();
    int fds[2];
    char byte = 0;

    if (kin__uring_create(&ring, 4, 8) < 0)
        KIN_SKIP("io_uring is refused here");
    EXPECT_EQ(pipe(fds), 0);
    struct kin__uring_call call = {.verb = KIN__URING_READ, .how = KIN__URING_ASYNC, .fd = fds[0],
                                   .address = (uintptr_t)&byte, .size = 1, .name = 1};
    EXPECT_EQ(kin__uring_call(&ring, &call), 0); /* which a thread of the kernel does */
    while (kin__process_threads() != before) /* ends: it has its name as soon as it runs */
        kin__thread_yield();
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    while (kin__uring_take(&ring, &result, 1) == 0) /* ends: or the alarm comes */
        kin__thread_yield();
    EXPECT_EQ(result.value, 1);
    while (kin__process_threads() != before) /* ends: as above, if the kernel has one more now */
        kin__thread_yield();
    kin__uring_destroy(&ring);
}

/* Memory that is there, that is not, and that ends in between. */
KIN_TEST(memory_is_looked_at_without_a_fault, "")
{
    const size_t page = kin__vm_page();
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char bytes[16] = "";
    EXPECT(pages != MAP_FAILED);
    strcpy(pages + page - 8, "seven..");
    EXPECT_EQ(munmap(pages + page, page), 0);
    EXPECT(kin__plat_peek(pages + page - 8, bytes, 8));
    EXPECT_STR(bytes, "seven..");
    EXPECT(!kin__plat_peek(pages + page - 8, bytes, 9));
    EXPECT(!kin__plat_peek(pages + page, bytes, 1));
    EXPECT(!kin__plat_peek(NULL, bytes, 1));
    EXPECT_EQ(munmap(pages, page), 0);
}
