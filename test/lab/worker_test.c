/* SPDX-License-Identifier: MIT */
/*
 * Goal: tasks begin, wait, yield, fail, panic, overflow and end as on real workers; with one worker
 * a task goes on until it waits; nothing is mapped or lost from run to run.
 * Method: programs whose course is noted and compared; many runs with the mappings counted.
 */
#include "lab/in_lab.h"

#include <stdio.h>

/* ---- one worker, or several ---- */

static int turns[64], turn_count;

static int take_turns(void *who)
{
    struct kin_event event = {0};
    for (int i = 0; i < 4; i++) {
        turns[turn_count++] = *(int *)who;
        kin_event_set(&event); /* a door that does not wait */
    }
    return 0;
}

static int switches(void)
{
    int count = 0;
    for (int i = 1; i < turn_count; i++)
        count += turns[i] != turns[i - 1];
    return count;
}

static int most;

static int two_take_turns(void *arg)
{
    int who[2] = {0, 1};
    (void)arg;
    turn_count = 0;
    {
        KIN_NURSERY(n);
        for (int i = 0; i < 2; i++)
            KIN_LAB_OK(kin_spawn(&n, take_turns, &who[i]));
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    most = switches() > most ? switches() : most;
    return 0;
}

KIN_TEST(the_number_of_workers_is_what_the_program_is_told_and_nothing_else, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = KIN_LAB_RANDOM;
    config.executions_max = 100;
    for (config.workers = 1; config.workers <= 2; config.workers++) {
        most = 0;
        EXPECT_EQ(kin_lab_run(&config, two_take_turns, NULL, &report), 0);
        EXPECT_GT(most, 3);
    }
}

/* ---- ends ---- */

static int fail(void *arg)
{
    (void)arg;
    kin_fail(-EIO, "on purpose");
}

static int panic(void *arg)
{
    (void)arg;
    kin_panic("on purpose");
}

static int cleanups;

static void clean_up(void *arg)
{
    (void)arg;
    cleanups++;
    kin_ignore(kin_sleep(kin_after(KIN_MS(1)))); /* a cleanup may wait */
}

static int fail_with_cleanups(void *arg)
{
    KIN_LAB_OK(kin_defer(clean_up, NULL));
    KIN_LAB_OK(kin_defer(clean_up, NULL));
    return fail(arg);
}

static int end_in_every_way(void *arg)
{
    (void)arg;
    cleanups = 0;
    struct kin_outcome how;
    {
        KIN_NURSERY(n);
        KIN_LAB_OK(kin_spawn(&n, fail_with_cleanups, NULL));
        kin_lab_assert(kin_nursery_join(&n, &how) == -EIO, "a failure is told");
        kin_lab_assert(cleanups == 2, "its cleanups have run");
    }
    {
        KIN_NURSERY(n);
        KIN_LAB_OK(kin_spawn(&n, panic, NULL));
        kin_lab_assert(kin_nursery_join(&n, &how) == KIN_PANICKED, "a panic is told");
        kin_lab_assert(how.severity == KIN_SEV_PANIC, "as one");
    }
    return 0;
}

KIN_TEST(tasks_end_in_every_way, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 200, end_in_every_way, NULL), 0);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if !defined(SANITIZED) && !defined(__SANITIZE_ADDRESS__)
static int go_deep(volatile char *before)
{
    volatile char here[4096];
    here[0] = *before;
    return here[0] == 1 ? 1 : go_deep(here) + here[0];
}

static int overflow(void *arg)
{
    char first = 0;
    (void)arg;
    return go_deep(&first);
}

static int survive_an_overflow(void *arg)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, overflow, arg));
    kin_lab_assert(kin_nursery_join(&n, NULL) == KIN_OVERFLOW, "an overflow is a panic");
    return 0;
}

KIN_TEST(an_overflow_is_a_panic_here_too, "C8")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 5, survive_an_overflow, NULL), 0);
}
#endif

/* ---- what is kept ---- */

static int sleep_a_bit(void *arg)
{
    (void)arg;
    return kin_sleep(kin_after(KIN_US(1)));
}

static int hundred_sleep(void *arg)
{
    KIN_NURSERY(n);
    for (int i = 0; i < 100; i++)
        KIN_LAB_OK(kin_spawn(&n, sleep_a_bit, arg));
    return kin_nursery_join(&n, NULL);
}

static int mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    int count = 0;
    for (int c; file && (c = fgetc(file)) != EOF;)
        count += c == '\n';
    if (file)
        fclose(file);
    return count;
}

KIN_TEST(runs_map_nothing_new, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 5, hundred_sleep, NULL), 0);
    int before = mappings();
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 50, hundred_sleep, NULL), 0);
    EXPECT_LE(mappings(), before + 2); /* the engine's own come and go */
}

static int want_more_stack(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.stack_max_bytes = (size_t)1024 * 1024;
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++)
        KIN_LAB_OK(kin_spawn_with(&n, &options, sleep_a_bit, arg, 0, NULL));
    KIN_LAB_OK(kin_spawn(&n, sleep_a_bit, arg));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(stacks_come_in_sizes, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 50, want_more_stack, NULL), 0);
}

/* ---- what is handed to children that may never begin ---- */

enum { CONNECTIONS = 2 };

static unsigned served, unserved;

static void hang_up(void *arg)
{
    kin_close(*(int *)arg);
}

static int serve(void *arg)
{
    (void)arg;
    served++;
    return kin_sleep(KIN_NEVER);
}

static int serve_and_close(void *arg)
{
    (void)serve(arg);
    hang_up(arg);
    return 0;
}

static int stop(void *n)
{
    kin_nursery_cancel(n, 0);
    return 0;
}

/* A server that is cancelled at any moment. With a closer its children begin with that as their
 * cleanup; without one they close by themselves. */
static int serve_until_cancelled(void *is_careful)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    unsigned before = served;
    options.cleanup = is_careful ? hang_up : NULL;
    KIN_NURSERY(connections);
    KIN_NURSERY(n);
    int rc = kin_spawn(&n, stop, &connections);
    for (int i = 0; i < CONNECTIONS && rc == 0; i++) {
        int conn;
        rc = kin_udp_open("127.0.0.1:0", &conn);
        if (rc < 0)
            break;
        rc = kin_spawn_with(&connections, &options, is_careful ? serve : serve_and_close, &conn,
                            sizeof(conn), NULL);
        if (rc < 0)
            kin_close(conn);
    }
    kin_nursery_cancel(&connections, 0); /* whatever became of the other one */
    kin_ignore(kin_nursery_join(&n, NULL));
    kin_ignore(kin_nursery_join(&connections, NULL));
    unserved += served < before + CONNECTIONS;
    return 0;
}

KIN_TEST(what_children_were_to_own_is_closed_though_they_never_began, "B6 D-90")
{
    static int yes;
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, serve_until_cancelled, NULL), KIN_LEAKED);
    served = unserved = 0;
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, serve_until_cancelled, &yes), 0);
    EXPECT(report.exhausted);
    EXPECT_GT(served, 0);
    EXPECT_GT(unserved, 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 200, serve_until_cancelled, &yes), 0);
    for (uint32_t fault = KIN_FAULT_OOM; fault <= KIN_FAULT_PANIC; fault *= 2) {
        int rc = lab_with(KIN_LAB_RANDOM, 300, fault, serve_until_cancelled, &yes);
        if (rc < 0)
            printf("%s\n", report.text);
        EXPECT_EQ(rc, 0);
    }
}
