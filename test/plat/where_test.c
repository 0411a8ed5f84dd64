/* SPDX-License-Identifier: MIT */
/*
 * Goal: a thread that runs or sleeps in a system call can be asked where it stands, without ending
 *       its sleep; one that has gone, or does something else, answers nothing.
 * Method: threads on stacks of their own making, asked until they answer.
 */
#include "kin_test.h"

#include "base/text.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic int started, let_go, slept;
static _Atomic(char *) stack_of_it; /* an address in its frame */
static int ends[2];
static int self_of_it;
static _Atomic bool is_there_now = true;

static bool is_there(const void *arg)
{
    (void)arg;
    return atomic_load(&is_there_now);
}

__attribute__((noinline)) static void spin_here(void)
{
    while (!atomic_load(&let_go))
        continue;
}

static void be(void (*how)(void))
{
    char here = 0;
    kin__self_set(&self_of_it);
    atomic_store(&stack_of_it, &here);
    atomic_store(&started, 1);
    how();
    kin__self_set(NULL);
}

__attribute__((noinline)) static void sleep_here(void)
{
    struct pollfd fd = {ends[0], POLLIN, 0};
    int rc = poll(&fd, 1, -1);
    atomic_store(&slept, rc);
}

static void run_spinner(void *arg)
{
    (void)arg;
    be(spin_here);
}

static void run_sleeper(void *arg)
{
    (void)arg;
    be(sleep_here);
}

static unsigned ask(const struct kin__thread *thread, char *words, size_t size)
{
    static struct kin__code code;
    uintptr_t frames[20];
    char *at = atomic_load(&stack_of_it);
    struct kin__where where = {thread, &self_of_it, is_there, NULL, at - 8192, at + 256};
    struct kin__text text;
    kin__code_read(&code);
    unsigned count = kin__thread_where(&where, &code, frames, 20);
    kin__text_init(&text, words, size);
    for (unsigned i = 0; i < count; i++) {
        kin__code_name(&text, frames[i]);
        kin__text_char(&text, '\n');
    }
    return count;
}

static void start(struct kin__thread *thread, void (*fn)(void *))
{
    atomic_store(&started, 0);
    atomic_store(&let_go, 0);
    EXPECT_EQ(kin__thread_start(thread, fn, NULL, 65536, "asked"), 0);
    while (!atomic_load(&started))
        kin__thread_yield();
}

KIN_TEST(a_thread_that_runs_says_where, "N2002")
{
    struct kin__thread thread;
    char words[4096];
#if KIN__TSAN
    KIN_SKIP("ThreadSanitizer keeps signals back");
#endif
    start(&thread, run_spinner);
    while (ask(&thread, words, sizeof words) == 0) /* ends: it is given a CPU */
        continue;
    printf("%s", words);
    EXPECT(strstr(words, "spin_here (where_test.c:") == words);
    atomic_store(&is_there_now, false); /* it does something else by now */
    EXPECT_EQ(ask(&thread, words, sizeof words), 0);
    atomic_store(&is_there_now, true);
    atomic_store(&let_go, 1);
    kin__thread_join(&thread);
}

KIN_TEST(a_sleep_goes_on_while_it_is_looked_at, "N2002")
{
    struct kin__thread thread;
    char words[4096];
    if (getenv("KIN_EMULATED"))
        KIN_SKIP("the registers that the kernel tells are those of an emulator");
    EXPECT_EQ(pipe(ends), 0);
    start(&thread, run_sleeper);
    while (!kin__thread_is_asleep(&thread)) /* ends: it calls poll */
        kin__thread_yield();
    do { /* ends: it stays there */
        kin__thread_yield();
    } while (ask(&thread, words, sizeof words) == 0 || !strstr(words, "sleep_here (where_test.c:"));
    printf("%s", words);
    EXPECT_EQ(write(ends[1], "", 1), 1);
    kin__thread_join(&thread);
    EXPECT_EQ(atomic_load(&slept), 1); /* and not -1, by a signal */
    close(ends[0]);
    close(ends[1]);
}

KIN_TEST(a_thread_that_has_gone_is_not_asked, "N2002")
{
    struct kin__thread thread;
    char words[256];
    start(&thread, run_spinner);
    int32_t tid = kin__load_relaxed(&thread.tid);
    atomic_store(&let_go, 1);
    kin__thread_join(&thread);
    EXPECT_EQ(ask(&thread, words, sizeof words), 0);
    kin__store_relaxed(&thread.tid, tid); /* a number that is nobody's, or somebody else's */
    EXPECT_EQ(ask(&thread, words, sizeof words), 0);
    kin__thread_adopt(&thread);
    EXPECT_EQ(ask(&thread, words, sizeof words), 0); /* the asker itself */
}
