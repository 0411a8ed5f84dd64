/* SPDX-License-Identifier: MIT */
/*
 * Goal: signals that a test raises arrive as those of the system do, in every schedule.
 * Method: tasks that wait, select and shut down, and one that raises, explored exhaustively.
 */
#include "lab/in_lab.h"

#include "wait/signal.h"

#include <kin/select.h>
#include <kin/signal.h>
#include <kin/sync.h>

static int wait_once(void *arg)
{
    int *heard = arg;
    KIN_LAB_OK(kin_signal_wait(SIGHUP, KIN_NEVER));
    ++*heard;
    return 0;
}

static int raise_hup(void *arg)
{
    (void)arg;
    return kin_lab_raise(SIGHUP);
}

static int wake_all(void *arg)
{
    int heard = 0;
    (void)arg;
    KIN_LAB_OK(kin_signal_wait(SIGHUP, 0) == KIN_TIMEOUT ? 0 : -EINVAL); /* held from here on */
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, wait_once, &heard));
    KIN_LAB_OK(kin_spawn(&n, raise_hup, NULL));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(heard == 1, "whoever comes first, it is heard");
    KIN_LAB_OK(kin_signal_wait(SIGHUP, 0)); /* this one listens, too */
    kin_lab_assert(kin_signal_wait(SIGHUP, 0) == KIN_TIMEOUT, "once");
    return 0;
}

KIN_TEST(a_signal_is_heard_by_whoever_listens, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 100, wake_all, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, wake_all, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT_GT(report.executions, 1);
}

static int select_signal(void *arg)
{
    struct kin_case one = kin_case_signal(SIGUSR1);
    (void)arg;
    kin_lab_assert(kin_select(&one, 1, kin_after(KIN_SEC(1))) == KIN_TIMEOUT, "nobody raises it");
    KIN_LAB_OK(kin_lab_raise(SIGUSR1));
    kin_lab_assert(kin_select(&one, 1, KIN_NEVER) == 0, "it has arrived");
    return 0;
}

KIN_TEST(a_select_has_signals_among_its_cases, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 20, select_signal, NULL), 0);
}

static int wait_for_nobody(void *arg)
{
    (void)arg;
    return kin_signal_wait(SIGHUP, KIN_NEVER);
}

KIN_TEST(who_waits_for_what_nobody_raises_waits_for_ever, "")
{
    expect_oracle(wait_for_nobody, NULL, "deadlock", KIN_DEADLOCK);
    EXPECT(strstr(report.text, "signal") != NULL);
}

/* ---- shutting down ---- */

static int serve(void *arg)
{
    int *ended = arg;
    int rc = kin_sleep(KIN_NEVER);
    ++*ended;
    return rc;
}

static int shut_down(void *arg)
{
    int ended = 0;
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_shutdown_on_signals(&n));
    KIN_LAB_OK(kin_spawn(&n, serve, &ended));
    KIN_LAB_OK(kin_spawn(&n, serve, &ended));
    KIN_LAB_OK(kin_lab_raise(SIGTERM));
    KIN_LAB_OK(kin_lab_raise(SIGINT)); /* so close to the first it is the same */
    kin_lab_assert(kin_nursery_join(&n, NULL) == KIN_CANCELLED, "it is cancelled");
    kin_lab_assert(ended <= 2, "those that had begun have ended");
    return 0;
}

KIN_TEST(a_shutdown_cancels_its_nursery, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 100, shut_down, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, shut_down, NULL), 0);
    EXPECT(report.exhausted);
}

static int hang(void *arg)
{
    (void)arg;
    kin_mask();
    int rc = kin_sleep(kin_after(KIN_SEC(60)));
    kin_unmask();
    return rc;
}

static int press_twice(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_shutdown_on_signals(&n));
    KIN_LAB_OK(kin_spawn(&n, hang, NULL));
    KIN_LAB_OK(kin_sleep(kin_after(KIN_MS(1))));
    KIN_LAB_OK(kin_lab_raise(SIGTERM));
    kin_lab_advance(KIN_SEC(1));
    KIN_LAB_OK(kin_lab_raise(SIGTERM));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(the_second_signal_ends_the_process, "")
{
    expect_oracle(press_twice, NULL, "signal", KIN_PANICKED);
    expect_oracle(press_twice, NULL, "signal", KIN_PANICKED); /* nothing is left of the first */
}

static int raise_unheld(void *arg)
{
    KIN_LAB_OK(kin_lab_raise(SIGWINCH));
    kin_lab_assert(kin_lab_raise(SIGKILL) == -EINVAL, "nobody can wait for it");
    kin_lab_assert(kin_lab_raise(SIGSEGV) == -EINVAL, "nor for this");
    return arg ? kin_lab_raise(SIGTERM) : 0;
}

KIN_TEST(what_nobody_holds_does_what_it_does_to_a_process, "")
{
    char yes[] = "yes";
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 2, raise_unheld, NULL), 0);
    expect_oracle(raise_unheld, yes, "signal", KIN_PANICKED);
    EXPECT_EQ(kin_lab_raise(SIGTERM), KIN_NOTASK);
}

static int hold_late(void *arg)
{
    (void)arg;
    kin_ignore(kin_signal_wait(SIGTERM, kin_after(KIN_MS(1))));
    return 0;
}

static int raise_term(void *arg)
{
    (void)arg;
    return kin_lab_raise(SIGTERM);
}

static int race_for_it(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, hold_late, NULL));
    KIN_LAB_OK(kin_spawn(&n, raise_term, NULL));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_signal_that_comes_before_anybody_holds_it_is_found, "")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, race_for_it, NULL), KIN_PANICKED);
    EXPECT_STR(report.oracle, "signal");
}

/* ---- one execution and the next ---- */

static int hold_and_wait(void *arg)
{
    (void)arg;
    KIN_LAB_OK(kin_signal_wait(SIGTERM, 0) == KIN_TIMEOUT ? 0 : -EINVAL);
    KIN_LAB_OK(kin_lab_raise(SIGTERM));
    return kin_signal_wait(SIGHUP, KIN_NEVER);
}

static int hold_and_fail(void *arg)
{
    (void)arg;
    KIN_LAB_OK(kin_signal_wait(SIGTERM, 0) == KIN_TIMEOUT ? 0 : -EINVAL);
    KIN_LAB_OK(kin_lab_raise(SIGTERM));
    kin_lab_assert(false, "it fails");
    return 0;
}

static int hold_and_abort(void *arg)
{
    struct kin_mutex mutex = {0};
    (void)arg;
    KIN_LAB_OK(kin_signal_wait(SIGTERM, 0) == KIN_TIMEOUT ? 0 : -EINVAL);
    KIN_LAB_OK(kin_lab_raise(SIGTERM));
    kin_mutex_unlock(&mutex); /* which ends the process */
    return 0;
}

static int hear_nothing(void *arg)
{
    (void)arg;
    kin_lab_assert(kin_signal_wait(SIGTERM, 0) == KIN_TIMEOUT, "nobody has raised it here");
    return 0;
}

KIN_TEST(an_execution_knows_nothing_of_the_signals_of_the_one_before, "")
{
    int (*const fails[])(void *) = {hold_and_wait, hold_and_fail, hold_and_abort};
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_LT(lab(KIN_LAB_RANDOM, 1, fails[i], NULL), 0);
        EXPECT_EQ(lab(KIN_LAB_RANDOM, 1, hear_nothing, NULL), 0);
        EXPECT_LT(lab(KIN_LAB_RANDOM, 1, fails[i], NULL), 0);
        EXPECT_EQ(lab(KIN_LAB_RANDOM, 1, raise_term, NULL), KIN_PANICKED);
        EXPECT_STR(report.oracle, "signal");
    }
}
