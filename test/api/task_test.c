/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a running task can ask, offer and end: itself, yields, cancels of one, fails, panics.
 * Method: small programs through the public headers on 1, 2 and 4 workers, every answer compared.
 */
#include "api/in_runtime.h"

#include <pthread.h>
#include <time.h>

/* ---- names ---- */

static int ask_name(void *arg)
{
    const uint64_t id = kin_self().id;

    EXPECT_NE(id, 0);
    for (int i = 0; i < 20; i++) {
        kin_ignore(kin_yield());
        EXPECT_EQ(kin_self().id, id);
        EXPECT_EQ(kin_task_id(kin_self()), id);
    }
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    EXPECT_EQ(kin_self().id, id);
    *(uint64_t *)arg = id;
    return 0;
}

static int compare_names(void *arg)
{
    enum { COUNT = 50 };
    uint64_t seen[COUNT];
    struct kin_task_ref refs[COUNT];
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < COUNT; i++)
        EXPECT_EQ(kin_spawn_with(&n, NULL, ask_name, &seen[i], 0, &refs[i]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < COUNT; i++) {
        EXPECT_EQ(seen[i], refs[i].id);
        EXPECT_NE(seen[i], kin_self().id);
        for (int k = 0; k < i; k++)
            EXPECT_NE(seen[i], seen[k]);
    }
    return 0;
}

KIN_TEST(a_task_keeps_one_name_of_its_own, "002:1.1")
{
    run_on_few(compare_names, NULL);
}

/* ---- yields ---- */

struct log {
    _Atomic int at;
    char text[64];
};

struct letter {
    struct log *log;
    char letter;
};

static int write_and_yield(void *arg)
{
    struct letter *letter = arg;

    for (int i = 0; i < 5; i++) {
        letter->log->text[atomic_fetch_add(&letter->log->at, 1)] = letter->letter;
        EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

static int interleave(void *arg)
{
    struct log log = {0};
    struct letter a = {&log, 'a'}, b = {&log, 'b'};
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, write_and_yield, &a), 0);
    EXPECT_EQ(kin_spawn(&n, write_and_yield, &b), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT(strcmp(log.text, "ababababab") == 0 || strcmp(log.text, "bababababa") == 0);
    return 0;
}

KIN_TEST(two_tasks_that_yield_take_turns, "SCHED:4.2.1 SCHED:4.2.2")
{
    EXPECT_EQ(run_reporting(1, interleave, NULL, NULL), 0);
}

static int spin_by_checkpoints(void *arg)
{
    while (!atomic_load((_Atomic int *)arg))
        EXPECT_EQ(kin_checkpoint(), 0);
    return 0;
}

static int free_the_spinner(void *arg)
{
    _Atomic int go = 0;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, count_it, &go), 0);
    EXPECT_EQ(kin_spawn(&n, spin_by_checkpoints, &go), 0);
    EXPECT_EQ(kin_spawn(&n, spin_by_checkpoints, &go), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(checkpoints_let_others_run_after_a_while, "SCHED:4.1.1")
{
    run_on_few(free_the_spinner, NULL);
}

enum { SPINNERS = 10 };

struct spinners {
    struct kin_nursery *n;
    _Atomic int begun;
};

static int spin_until_cancelled(void *arg)
{
    bool by_yield = atomic_fetch_add(&((struct spinners *)arg)->begun, 1) % 2;

    while ((by_yield ? kin_yield() : kin_checkpoint()) == 0)
        continue;
    EXPECT(kin_cancelled());
    return KIN_CANCELLED;
}

static int cancel_the_nursery(void *arg)
{
    struct spinners *spinners = arg;

    await(&spinners->begun, SPINNERS);
    kin_nursery_cancel(spinners->n, 0);
    return 0;
}

static int cancel_spinners(void *arg)
{
    KIN_NURSERY(n);
    struct spinners spinners = {&n, 0};

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, cancel_the_nursery, &spinners), 0);
    for (int i = 0; i < SPINNERS; i++)
        EXPECT_EQ(kin_spawn(&n, spin_until_cancelled, &spinners), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(spinning_tasks_do_not_starve_their_canceller, "NSM:4.3 SCHED:4.2.2")
{
    run_on_few(cancel_spinners, NULL);
}

/* ---- cancelling one task ---- */

static int cancel_a_sleeper(void *arg)
{
    _Atomic int started = 0;
    struct kin_task_ref ref;
    struct kin_outcome how;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_for_ever, &started, 0, &ref), 0);
    await(&started, 1);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), 0); /* alone it is no failure */
    EXPECT_EQ(how.severity, KIN_SEV_OK);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    EXPECT_EQ(kin_task_cancel(ref), KIN_STALE);
    EXPECT(!kin_cancelled());
    return 0;
}

KIN_TEST(a_task_that_is_cancelled_alone_does_not_fail_its_nursery, "NSM:4.4 B4")
{
    run_on_few(cancel_a_sleeper, NULL);
}

static int note_reason(void *arg)
{
    _Atomic int *started = arg;

    atomic_fetch_add(started, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), KIN_CANCELLED);
    await(started, 2);
    EXPECT_EQ(kin_cancel_reason(), KIN_CANCELLED);
    return -EIO; /* an error is one, asked or not */
}

static int cancel_twice(void *arg)
{
    _Atomic int started = 0;
    struct kin_task_ref ref;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, note_reason, &started, 0, &ref), 0);
    await(&started, 1);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    atomic_store(&started, 2);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(a_task_may_be_cancelled_twice_and_still_fail, "B5 NSM:4.4")
{
    run_on_few(cancel_twice, NULL);
}

static int never_run(void *arg)
{
    (void)arg;
    kin_test_fail(__FILE__, __LINE__, "the body never runs", "");
}

static int cancel_before_it_runs(void *arg)
{
    _Atomic int ran = 0;
    struct kin_task_ref refs[100];
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(kin_spawn_with(&n, NULL, i % 2 ? count_it : never_run, &ran, 0, &refs[i]), 0);
        if (i % 2 == 0)
            EXPECT_EQ(kin_task_cancel(refs[i]), 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&ran), 50);
    return 0;
}

KIN_TEST(a_task_that_is_cancelled_before_its_first_run_never_runs, "B6")
{
    EXPECT_EQ(run_reporting(1, cancel_before_it_runs, NULL, NULL), 0);
}

static int be_unharmed(void *arg)
{
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_yield(), 0);
    atomic_fetch_add((_Atomic int *)arg, 1);
    return 0;
}

static int cancel_stale_names(void *arg)
{
    enum { COUNT = 1000 };
    static struct kin_task_ref stale[COUNT];
    _Atomic int ran = 0;

    (void)arg;
    {
        KIN_NURSERY(n);
        for (int i = 0; i < COUNT; i++)
            EXPECT_EQ(kin_spawn_with(&n, NULL, be_unharmed, &ran, 0, &stale[i]), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    for (int round = 0; round < 5; round++) {
        KIN_NURSERY(n);
        for (int i = 0; i < COUNT; i++) {
            EXPECT_EQ(kin_spawn(&n, be_unharmed, &ran), 0); /* in the frames of the first ones */
            EXPECT_EQ(kin_task_cancel(stale[COUNT - 1 - i]), KIN_STALE);
            EXPECT_EQ(kin_task_cancel(stale[i]), KIN_STALE);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    EXPECT_EQ(atomic_load(&ran), 6 * COUNT);
    return 0;
}

KIN_TEST(a_stale_name_never_hits_whoever_has_the_frame_now, "ABA:8.3 002:1.1")
{
    run_on_few(cancel_stale_names, NULL);
}

KIN_TEST(names_of_nobody_are_stale, "ABA:8.3")
{
    struct kin_task_ref nobody = {0}, nonsense = {UINT64_MAX}, early = {1};
    _Atomic int ran = 0;

    EXPECT_EQ(kin_task_cancel(nobody), KIN_STALE);
    EXPECT_EQ(kin_task_cancel(nonsense), KIN_STALE);
    EXPECT_EQ(kin_task_cancel(early), KIN_STALE);
    EXPECT_EQ(run_reporting(1, be_unharmed, &ran, NULL), 0);
    EXPECT_EQ(kin_task_cancel(nobody), KIN_STALE);
    EXPECT_EQ(kin_task_cancel(nonsense), KIN_STALE);
    EXPECT_EQ(kin_task_cancel(early), KIN_STALE);
}

static int cancel_oneself(void *arg)
{
    struct kin_nursery inner;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    EXPECT_EQ(kin_spawn(&inner, sleep_for_ever, NULL), 0);
    EXPECT_EQ(kin_task_cancel(kin_self()), 0);
    EXPECT(kin_cancelled());
    EXPECT_EQ(kin_cancel_reason(), KIN_CANCELLED);
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED); /* its nurseries go with it */
    EXPECT(kin_cancelled());                                  /* for good */
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int let_it_cancel_itself(void *arg)
{
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, cancel_oneself, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_task_may_cancel_itself_and_its_nurseries_go_with_it, "NSM:6.2 B12")
{
    run_on_few(let_it_cancel_itself, NULL);
}

static int own_two(void *arg)
{
    _Atomic int *started = arg;
    KIN_NURSERY(outer);
    KIN_NURSERY(inner);

    EXPECT_EQ(kin_spawn(&outer, sleep_for_ever, started), 0);
    EXPECT_EQ(kin_spawn(&inner, sleep_for_ever, started), 0);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&outer, NULL), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int cancel_an_owner(void *arg)
{
    _Atomic int started = 0;
    struct kin_task_ref ref;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, own_two, &started, 0, &ref), 0);
    await(&started, 2);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(cancelling_a_task_reaches_every_nursery_it_has_open, "NSM-3 NSM:6.2 B11")
{
    run_on_few(cancel_an_owner, NULL);
}

static void *cancel_from_thread(void *arg)
{
    EXPECT_EQ(kin_task_cancel(*(struct kin_task_ref *)arg), 0);
    return NULL;
}

static int be_cancelled_from_a_thread(void *arg)
{
    _Atomic int started = 0;
    struct kin_task_ref ref;
    pthread_t thread;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_for_ever, &started, 0, &ref), 0);
    await(&started, 1);
    EXPECT_EQ(pthread_create(&thread, NULL, cancel_from_thread, &ref), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

KIN_TEST(a_thread_cancels_a_task, "NSM:4.1")
{
    run_on_few(be_cancelled_from_a_thread, NULL);
}

/* ---- ends from depth ---- */

struct story {
    struct log log;
    _Atomic int ready, outer_asked;
    int how; /* 0 fail, 1 panic, less: neither */
};

static void note(struct story *story, char c)
{
    story->log.text[atomic_fetch_add(&story->log.at, 1)] = c;
}

static int be_inner_child(void *arg)
{
    struct story *story = arg;

    atomic_fetch_add(&story->ready, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    for (int i = 0; i < 50; i++) {
        kin_ignore(kin_yield());
        EXPECT_EQ(atomic_load(&story->outer_asked), 0); /* innermost first */
    }
    note(story, 'i');
    return 0;
}

static int be_outer_child(void *arg)
{
    struct story *story = arg;

    atomic_fetch_add(&story->ready, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    atomic_store(&story->outer_asked, 1);
    note(story, 'o');
    return 0;
}

__attribute__((noinline)) static void dive(struct story *story, int depth)
{
    volatile char room[64];

    room[0] = (char)depth;
    if (depth > 0) {
        dive(story, depth - 1);
        room[1] = room[0];
        return;
    }
    await(&story->ready, 3);
    if (story->how < 0)
        return;
    if (story->how)
        kin_panic("at depth, %s", "on purpose");
    kin_fail(-EPIPE, "at depth");
}

static int fail_inside_three(void *arg)
{
    struct story *story = arg;
    KIN_NURSERY(outer);
    KIN_NURSERY(middle);
    KIN_NURSERY(inner);

    EXPECT_EQ(kin_spawn(&outer, be_outer_child, story), 0);
    EXPECT_EQ(kin_spawn(&middle, be_inner_child, story), 0);
    EXPECT_EQ(kin_spawn(&inner, be_inner_child, story), 0);
    dive(story, 30);
    return 0;
}

static int live_beside(void *arg)
{
    struct story *story = arg;

    for (int i = 0; i < 50; i++) {
        EXPECT_EQ(kin_yield(), 0);
        EXPECT(!kin_cancelled());
    }
    (void)story;
    return 0;
}

static int tell(void *arg)
{
    struct story story = {0};
    struct kin_outcome how;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);

    story.how = *(int *)arg;
    options.name = "the diver";
    EXPECT_EQ(kin_spawn_with(&n, &options, fail_inside_three, &story, 0, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, live_beside, &story), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), story.how ? KIN_PANICKED : -EPIPE);
    EXPECT_EQ(how.severity, story.how ? KIN_SEV_PANIC : KIN_SEV_ERROR);
    EXPECT_STR(story.log.text, "iio");
    return 0;
}

KIN_TEST(a_failure_from_depth_ends_the_inner_nurseries_first_and_no_sibling, "NSM-4 NSM:6.3 NCG-3")
{
    int fail = 0;

    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, tell, &fail, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 0); /* an error is not news by itself */
    }
}

KIN_TEST(a_panic_from_depth_ends_the_inner_nurseries_first_and_is_reported, "NSM-4 NSM:6.3")
{
    int panic = 1;

    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, tell, &panic, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 1);
        EXPECT_EQ(reports.status[0], KIN_PANICKED);
        EXPECT(strstr(reports.text[0], "the diver"));
        EXPECT(strstr(reports.text[0], "at depth, on purpose"));
    }
}

static int panic_or_not(void *arg)
{
    if (*(int *)arg % 3 == 0)
        kin_panic("number %d", *(int *)arg);
    if (*(int *)arg % 3 == 1)
        kin_fail(KIN_TIMEOUT, "number %d", *(int *)arg);
    return 0;
}

static int panic_in_a_row(void *arg)
{
    int numbers[300];
    (void)arg;
    for (int round = 0; round < 3; round++) {
        KIN_NURSERY(n, .on_error = KIN_COLLECT, .errors_max = 300);
        for (int i = 0; i < 300; i++) {
            numbers[i] = i;
            EXPECT_EQ(kin_spawn(&n, panic_or_not, &numbers[i]), 0);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED); /* many of them run in the join */
        EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 200);
        int mine = 7; /* the frames of the joining task are untouched */
        EXPECT_EQ(mine, 7);
    }
    return 0;
}

KIN_TEST(children_that_panic_inside_the_join_of_their_parent_leave_it_standing, "NSM-2 NSM:3.2")
{
    run_on_few(panic_in_a_row, NULL);
}

static int fail_in_the_middle(void *arg)
{
    int zero = 0;
    int *left = arg;

    if (--*left == 0)
        kin_fail(-EIO, "at the end of the chain");
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), 0);
    EXPECT_EQ(kin_spawn(&n, fail_in_the_middle, left), 0); /* last: nobody is admitted after it */
    int rc = kin_nursery_join(&n, NULL);
    EXPECT_EQ(rc, -EIO);
    kin_fail(rc, "passed on");
}

static int fail_through_levels(void *arg)
{
    int left = 200;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, fail_in_the_middle, &left), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(failures_pass_through_two_hundred_levels, "NSM:6.3 NSM-5")
{
    run_on_few(fail_through_levels, NULL);
}

static int report_by_default(void *arg)
{
    (void)arg;
    kin_panic("nobody listens");
}

static int run_quietly(void *arg)
{
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, report_by_default, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED);
    abort(); /* so that what was written can be looked at */
}

KIN_TEST(without_a_callback_reports_go_to_standard_error, "")
{
    EXPECT_ABORT("KIN_PANICKED")
    {
        kin_ignore(kin_run(NULL, run_quietly, NULL));
    }
    EXPECT_ABORT("nobody listens")
    {
        kin_ignore(kin_run(NULL, run_quietly, NULL));
    }
}

/* ---- stacks ---- */

#if !SANITIZED
/* Uses about bytes of stack below the caller, every page of it. */
__attribute__((noinline)) static int use_stack(size_t bytes)
{
    volatile char room[1024];

    room[0] = 1;
    room[1023] = 1;
    if (bytes <= sizeof room + 64)
        return room[0];
    return use_stack(bytes - sizeof room - 64) + room[1023] - 1;
}

struct depth {
    size_t bytes;
    bool yields;
};

static int use_most(void *arg)
{
    struct depth *depth = arg;

    EXPECT_EQ(use_stack(depth->bytes), 1);
    if (depth->yields) {
        kin_ignore(kin_yield());
        EXPECT_EQ(use_stack(depth->bytes), 1);
    }
    return 0;
}

static int use_deep_stacks(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct depth most = {(size_t)256 * 1024 * 9 / 10, false};
    struct depth more = {(size_t)1024 * 1024 * 9 / 10, true};
    struct depth parked = {(size_t)256 * 1024 * 9 / 10, true};

    (void)arg;
    EXPECT_EQ(use_most(&most), 0); /* the first task */
    for (int i = 0; i < 20; i++) {
        KIN_NURSERY(n);
        options.stack_max_bytes = (size_t)1024 * 1024;
        EXPECT_EQ(kin_spawn_with(&n, &options, use_most, &more, 0, NULL), 0);
        EXPECT_EQ(kin_spawn(&n, use_most, &parked), 0);
        EXPECT_EQ(kin_spawn(&n, use_most, &most), 0); /* run in the join, on a borrowed stack */
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

/* A child that is run inside the join of a task which has used some of its stack already. */
__attribute__((noinline)) static int join_from(size_t bytes)
{
    volatile char room[512];
    struct depth most = {(size_t)256 * 1024 * 9 / 10, false};

    room[0] = 1;
    if (bytes > sizeof room)
        return join_from(bytes - sizeof room) + room[0] - 1;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, use_most, &most), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

static int lend_from_every_depth(void *arg)
{
    (void)arg;
    for (size_t bytes = 0; bytes < (size_t)64 * 1024; bytes += 1024)
        EXPECT_EQ(join_from(bytes), 0);
    return 0;
}

KIN_TEST(a_task_can_use_nine_tenths_of_its_stack_borrowed_or_not, "SCHED:5.3.2 C4")
{
    if (getenv("KIN_HARD") && strstr(getenv("KIN_HARD"), "stack"))
        return; /* the mode makes stacks small */
    run_on_few(use_deep_stacks, NULL);
    run_on_few(lend_from_every_depth, NULL);
}
#endif

/* ---- inline children that park ---- */

struct relay {
    _Atomic int count;
};

struct runner {
    struct relay *relay;
    int index;
    int rounds;
};

/* Parks again and again on whatever stack it has, and must be found there by whoever wakes it. */
static int run_relay(void *arg)
{
    struct runner *me = arg;
    volatile uint64_t marks[32];

    for (int i = 0; i < 32; i++)
        marks[i] = (uint64_t)me->index * 1000 + (uint64_t)i;
    for (int round = 0; round < me->rounds; round++) {
        if ((me->index + round) % 3 == 0)
            kin_ignore(kin_sleep(kin_after(KIN_US(round % 7 * 10))));
        else
            kin_ignore(kin_yield());
        for (int i = 0; i < 32; i++)
            EXPECT_EQ(marks[i], (uint64_t)me->index * 1000 + (uint64_t)i);
    }
    atomic_fetch_add(&me->relay->count, 1);
    return 0;
}

static int host_relay(void *arg)
{
    struct relay relay = {0};
    struct runner runners[8];
    volatile uint64_t mark = 0x1234;
    KIN_NURSERY(n);

    for (int i = 0; i < 8; i++) {
        runners[i] = (struct runner){&relay, i, *(int *)arg};
        EXPECT_EQ(kin_spawn(&n, run_relay, &runners[i]), 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&relay.count), 8);
    EXPECT_EQ(mark, 0x1234);
    return 0;
}

static int host_relays(void *arg)
{
    int rounds = 20;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        KIN_NURSERY(n);
        for (int k = 0; k < 10; k++)
            EXPECT_EQ(kin_spawn(&n, host_relay, &rounds), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(children_that_park_on_the_stack_of_their_parent_go_on_wherever_they_wake, "F5 NSM-2 W:4.2")
{
    run_on_few(host_relays, NULL);
}

/* ---- children that block their thread ---- */

static int block_the_thread(void *arg)
{
    struct timespec blocked = {0, 30000000};

    /* A system call that the runtime knows nothing of. Where the kernel does not tell that it is
     * one, as under an emulator, the monitor's question where the task is ends it early. */
    while (nanosleep(&blocked, &blocked) != 0)
        EXPECT_EQ(kin_errno(), EINTR);
    atomic_fetch_add((_Atomic int *)arg, 1);
    return 0;
}

static int join_a_blocker(void *arg)
{
    _Atomic int blocked = 0;
    volatile uint64_t mark = 77;
    struct relay relay = {0};
    struct runner runner = {&relay, 1, 50};
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, run_relay, &runner), 0);
    EXPECT_EQ(kin_spawn(&n, block_the_thread, &blocked), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&blocked), 1);
    EXPECT_EQ(mark, 77);
    return 0;
}

static int join_blockers(void *arg)
{
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(kin_spawn(&n, join_a_blocker, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(children_that_block_their_thread_in_the_join_of_their_parent_come_back, "WK:6.2 NSM-2")
{
    run_on_few(join_blockers, NULL);
}
