/* SPDX-License-Identifier: MIT */
/*
 * Goal: every report about a task tells which one it was and where it was spawned: a panic, a
 *       leaked obligation, a failed cleanup, a lock that was not given back, a task that does not
 *       react.
 * Method: black box. Children that end in all these ways are spawned from one place in the code;
 *         their reports must name the child, and the same place, which another place does not have.
 */
#include "api/in_runtime.h"

#include <signal.h>

static int panic_now(void *arg)
{
    (void)arg;
    kin_panic("on purpose");
}

static int leak_now(void *arg)
{
    struct kin_obligation *promise;
    (void)arg;
    return kin_obligation_reserve(KIN_OBLIGATION_LEASE, &promise);
}

static int fail_a_cleanup(void *arg)
{
    (void)arg;
    return -EIO;
}

static int clean_up_badly(void *arg)
{
    return kin_defer_try(fail_a_cleanup, arg);
}

static int keep_a_lock(void *arg)
{
    return kin_mutex_lock(arg, KIN_NEVER);
}

static _Atomic int started;

static int hide_behind_a_mask(void *arg)
{
    (void)arg;
    kin_mask();
    atomic_store(&started, 1);
    int rc = kin_sleep(KIN_NEVER); /* until the grace is over */
    kin_unmask();
    return rc;
}

/* The one place. */
static __attribute__((noinline)) int spawn_here(struct kin_nursery *n, const char *name,
                                                kin_task_fn *fn, void *arg,
                                                struct kin_task_ref *ref)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.name = name;
    int rc = kin_spawn_with(n, &options, fn, arg, 0, ref);
    return rc;
}

struct story {
    struct kin_mutex mutex;
    uint64_t ids[6];
};

static int end_in_every_way(void *arg)
{
    struct story *story = arg;
    static const struct {
        const char *name;
        kin_task_fn *fn;
    } ways[] = {{"panicker", panic_now},
                {"leaker", leak_now},
                {"cleaner", clean_up_badly},
                {"keeper", keep_a_lock},
                {"hider", hide_behind_a_mask}};
    struct kin_task_ref ref;
    for (int i = 0; i < 5; i++) {
        KIN_NURSERY(n, .on_error = KIN_COLLECT, .cancel_grace = KIN_MS(1));
        EXPECT_EQ(spawn_here(&n, ways[i].name, ways[i].fn, &story->mutex, &ref), 0);
        story->ids[i] = kin_task_id(ref);
        if (i == 4) {
            await(&started, 1);
            await_parked(1, "sleep"); /* or the report would say that it runs */
            kin_nursery_cancel(&n, 0);
        }
        kin_ignore(kin_nursery_join(&n, NULL));
    }
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, panic_now, NULL, 0, &ref), 0); /* another place */
    story->ids[5] = kin_task_id(ref);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED);
    return 0;
}

/* What follows "spawned at " in a report. */
static const char *site_of(const char *text, char *site)
{
    const char *at = strstr(text, "spawned at ");
    EXPECT(at != NULL);
    EXPECT_EQ(sscanf(at, "spawned at %99[^)])", site), 1);
    return site;
}

KIN_TEST(every_report_names_the_task_and_where_it_was_spawned, "D1 N3002 N2002")
{
    static const char *const names[] = {"panicker", "leaker", "cleaner", "keeper", "hider",
                                        "no name"};
    static const int statuses[] = {KIN_PANICKED, KIN_LEAKED, KIN_CLEANUP, -EOWNERDEAD, KIN_STUCK,
                                   KIN_PANICKED};
    static const char *const entries[] = {
        "entry panic_now (", "entry leak_now (", "entry clean_up_badly (",
        "entry keep_a_lock (", "entry hide_behind_a_mask (", "entry panic_now (report_test.c:"};
    char site[100];
    struct reports reports = {0};
    struct story story = {.ids = {0}};
    EXPECT_EQ(run_reporting(2, end_in_every_way, &story, &reports), 0);
    EXPECT_EQ(reports.count, 6);
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(reports.status[i], statuses[i]);
        EXPECT_EQ(reports.task[i], story.ids[i]);
        EXPECT(strstr(reports.text[i], names[i]) != NULL);
        EXPECT(strstr(reports.text[i], entries[i]) != NULL);
        site_of(reports.text[i], site);
        EXPECT(strstr(site, i < 5 ? "spawn_here (report_test.c:" : "end_in_every_way (") == site);
    }
    EXPECT(strstr(reports.text[1], "kind lease, reserved at leak_now (report_test.c:") != NULL);
    EXPECT(strstr(reports.text[0], ", panics at panic_now (report_test.c:") != NULL);
    EXPECT(strstr(reports.text[4], "it waits for sleep") != NULL);
}
