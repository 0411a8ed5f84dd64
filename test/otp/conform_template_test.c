/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the own tests of other actor systems ask of supervisors with many children of one
 *       kind, asked of kin's: cases K084, K106, K107 and K116. Each test names its case.
 * Method: black box, one body per case, on 1, 2 and 4 workers. Children write into a diary.
 */
#include "otp/crew.h"

/* K106: children of one kind: each comes back alone; too often ends them all. */
static int in_k106_children_of_a_template_come_back_alone(void *arg)
{
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    struct kin_child_info all[4];
    struct kin_addr first, second;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    crew.spec[0].name = NULL;
    options.strategy = KIN_TEMPLATE;
    options.max_restarts = 2;
    options.window = KIN_SEC(1000);
    struct kin_addr sup = start_sup(&n, &options, NULL, 0);
    struct kin_monitor_ref ref = watch(sup);
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[0], &first, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[0], &second, KIN_NEVER), 0);
    EXPECT(!kin_addr_same(first, second));
    crash_child(first, -EIO);
    await_words(&crew.diary, 4);
    while (counts_of(sup).active < 2) /* ends: the child comes back */
        linger();
    EXPECT_EQ(ask(second, do_add, 1, NULL), 1);
    EXPECT_EQ(kin_supervisor_which_children(sup, all, 4, KIN_NEVER), 2);
    EXPECT(kin_addr_same(all[0].addr, second) || kin_addr_same(all[1].addr, second));
    EXPECT(!kin_addr_same(all[0].addr, first) && !kin_addr_same(all[1].addr, first));
    crash_child(second, -EIO);
    await_words(&crew.diary, 6);
    while (counts_of(sup).active < 2) /* ends: the child comes back */
        linger();
    EXPECT_EQ(kin_supervisor_which_children(sup, all, 4, KIN_NEVER), 2);
    crash_child(all[0].addr, -EIO);
    EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
    EXPECT_DIARY(&crew.diary, "+a +a -a +a -a +a -a -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(k106_children_of_a_template_come_back_alone, "K106 K108")
{
    run_on_few(in_k106_children_of_a_template_come_back_alone, NULL);
}

/* A template that is given at the start. */
static int in_a_template_may_be_given_at_the_start(void *arg)
{
    struct crew crew;
    (void)arg;
    SUP_OPTIONS(options);
    struct kin_addr first, second;
    HOUSE(n);
    make_crew(&crew, KIN_TEMPORARY);
    options.strategy = KIN_TEMPLATE;
    crew.spec[0].name = NULL;
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 1);
    EXPECT_DIARY(&crew.diary, "");
    EXPECT_EQ(kin_supervisor_start_child(sup, NULL, &first, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(sup, NULL, &second, KIN_NEVER), 0);
    EXPECT_DIARY(&crew.diary, "+a +a");
    EXPECT_EQ(counts_of(sup).active, 2);
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, "+a +a -a -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_template_may_be_given_at_the_start, "K106")
{
    run_on_few(in_a_template_may_be_given_at_the_start, NULL);
}

static int meet_at_the_end(void *arg)
{
    struct plain *plain = arg;
    atomic_fetch_add(&plain->started, 1);
    int rc = kin_sleep(KIN_NEVER);
    kin_mask();
    EXPECT_EQ(kin_barrier_wait(&plain->barrier, KIN_NEVER) >= 0, 1);
    kin_unmask();
    atomic_fetch_add(&plain->ended, 1);
    return rc;
}

static int start_meeting(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    return start_plain(n, meet_at_the_end, arg, out);
}

/* K107: children of a template are stopped all at once: each waits for the others to be. */
static int in_k107_children_of_a_template_are_stopped_all_at_once(void *arg)
{
    struct plain plain;
    (void)arg;
    SUP_OPTIONS(options);
    struct kin_addr out;
    HOUSE(n);
    memset(&plain, 0, sizeof plain);
    EXPECT_EQ(kin_barrier_init(&plain.barrier, 5), 0);
    options.strategy = KIN_TEMPLATE;
    struct kin_child_spec spec = plain_spec(NULL, start_meeting, &plain, KIN_TEMPORARY);
    spec.shutdown = KIN_NEVER;
    struct kin_addr sup = start_sup(&n, &options, NULL, 0);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &out, KIN_NEVER), 0);
    await_flag(&plain.started, 5);
    close_desk(sup);
    EXPECT_EQ(atomic_load(&plain.ended), 5);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k107_children_of_a_template_are_stopped_all_at_once, "K107")
{
    run_on_few(in_k107_children_of_a_template_are_stopped_all_at_once, NULL);
}

/* K084: children of a template on the ladder. */
static int in_k084_a_mask_does_not_help_children_of_a_template(void *arg)
{
    static const int64_t shutdown[] = {KIN_MS(1), KIN_BRUTAL};
    HOUSE(n);
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct plain stubborn, polite;
        SUP_OPTIONS(options);
        struct kin_addr s, p;
        memset(&stubborn, 0, sizeof stubborn);
        memset(&polite, 0, sizeof polite);
        options.strategy = KIN_TEMPLATE;
        struct kin_addr sup = start_sup(&n, &options, NULL, 0);
        struct kin_child_spec spec = plain_spec(NULL, start_stubborn, &stubborn, KIN_TEMPORARY);
        spec.shutdown = shutdown[i];
        EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &s, KIN_NEVER), 0);
        spec.start = start_polite;
        spec.arg = &polite;
        EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &p, KIN_NEVER), 0);
        struct kin_monitor_ref of_s = watch(s), of_p = watch(p);
        await_flag(&stubborn.started, 1);
        await_flag(&polite.started, 1);
        close_desk(sup);
        EXPECT_END(of_s, KIN_DOWN_CANCELLED, KIN_CANCELLED);
        EXPECT_END(of_p, KIN_DOWN_CANCELLED, KIN_CANCELLED);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k084_a_mask_does_not_help_children_of_a_template, "K084 K081 K082")
{
    run_on_few(in_k084_a_mask_does_not_help_children_of_a_template, NULL);
}

static int end_at_once(void *arg)
{
    atomic_fetch_add(&((struct plain *)arg)->ended, 1);
    return 0;
}

static int start_ephemeral(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    return start_plain(n, end_at_once, arg, out);
}

/* K116: of many temporary children that end nothing is left. */
static int in_k116_of_many_temporary_children_nothing_is_left(void *arg)
{
    struct plain plain;
    (void)arg;
    SUP_OPTIONS(options);
    struct kin_addr out;
    const int count = enough(2000 / (int)kin_test_scale() + 10, 12);
    HOUSE(n);
    memset(&plain, 0, sizeof plain);
    options.strategy = KIN_TEMPLATE;
    struct kin_child_spec spec = plain_spec(NULL, start_ephemeral, &plain, KIN_TEMPORARY);
    struct kin_addr sup = start_sup(&n, &options, NULL, 0);
    for (int i = 0; i < count; i++)
        EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &out, KIN_NEVER), 0);
    await_flag(&plain.ended, count);
    while (counts_of(sup).active > 0) /* ends: the supervisor is told of each end */
        linger();
    EXPECT_EQ(kin_supervisor_which_children(sup, NULL, 0, KIN_NEVER), 0);
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k116_of_many_temporary_children_nothing_is_left, "K116 K110")
{
    run_on_few(in_k116_of_many_temporary_children_nothing_is_left, NULL);
}
