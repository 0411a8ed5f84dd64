/* SPDX-License-Identifier: MIT */
/*
 * Goal: the one timer of a nursery is what its state says, a firing that comes late does nothing,
 *       and the end of a grace marks who must be marked; one task alone can be treated as if its
 *       grace were over.
 * Method: white box: fields of the scope, firings made by hand with names of this life and others.
 */
#include "api/in_runtime.h"

#include "park/peek.h"
#include "plat/plat.h"
#include "scope/scope.h"
#include "task/word.h"

static struct kin__scope *scope_of(struct kin_nursery *n)
{
    return kin__load_relaxed(&kin__handle_of(n)->scope); /* relaxed: the owner's own */
}

static bool is_armed(struct kin__scope *scope)
{
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    bool is = (scope->has & KIN__SCOPE_TIMED) && kin__list_is_linked(&scope->timer.node.link);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return is;
}

static uint64_t word_of(struct kin__scope *scope)
{
    return kin__load_acquire(&scope->word); /* pairs with the release of whoever changed it */
}

/* ---- which timer ---- */

static int change_the_timer(void *arg)
{
    _Atomic int started = 0;
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT(!is_armed(scope_of(&n))); /* most have none */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);

    options.deadline = kin_after(KIN_SEC(100));
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    struct kin__scope *scope = scope_of(&n);
    EXPECT(is_armed(scope));
    void (*on_deadline)(void *, uint64_t) = scope->timer.fire;
    EXPECT_EQ(scope->timer.node.deadline, options.deadline);
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
    await(&started, 1);
    kin_mask(); /* keeps the child's end from being waited for below */
    kin_nursery_cancel(&n, 0);
    kin_unmask();
    if (kin__scope_state(word_of(scope)) == KIN_NURSERY_CANCELLING && is_armed(scope)) {
        EXPECT(scope->timer.fire != on_deadline); /* it is the grace now */
        EXPECT_LT(scope->timer.node.deadline, options.deadline);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);

    /* an owner that cancels an empty nursery itself waits for nobody */
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    scope = scope_of(&n);
    kin_nursery_cancel(&n, 0);
    EXPECT(!is_armed(scope));
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    struct kin_stats stats;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.timers, 0);
    return 0;
}

KIN_TEST(the_timer_is_the_deadline_first_and_the_grace_then, "N2001 N2002")
{
    for (int i = 0; i < 10; i++)
        run_on_few(change_the_timer, NULL);
}

/* ---- late ---- */

static int fire_late(void *arg)
{
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;
    options.deadline = kin_after(KIN_SEC(100));
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    struct kin__scope *scope = scope_of(&n);
    void (*on_deadline)(void *, uint64_t) = scope->timer.fire;
    uint64_t name = scope->timer.name;
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    on_deadline(scope, name); /* over */
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_PTR(scope_of(&n), scope); /* the block's next life */
    on_deadline(scope, name);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN);
    kin_nursery_cancel(&n, -EIO);
    on_deadline(scope, kin__load_relaxed(&scope->frame.name)); /* relaxed: own. Of this life */
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO); /* and too late */
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    kin_nursery_close(&n);
    on_deadline(scope, kin__load_relaxed(&scope->frame.name)); /* relaxed: own */
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED); /* terminal */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_firing_that_comes_late_does_nothing, "NSM:2.4 ABA:8.3")
{
    EXPECT_EQ(run_reporting(1, fire_late, NULL, NULL), 0);
}

/* ---- the end of the grace ---- */

struct scene {
    struct kin_nursery *n;
    _Atomic int started, rc;
    _Atomic int let_go;
};

static int stay_masked(void *arg)
{
    struct scene *scene = arg;
    kin_mask();
    atomic_store(&scene->started, 1);
    int rc = kin_sleep(KIN_NEVER);
    atomic_store(&scene->rc, rc);
    while (atomic_load(&scene->let_go) == 0)
        kin_ignore(kin_yield());
    kin_unmask();
    return rc;
}

static int mark(void *arg)
{
    struct scene scene = {0};
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin__task *self = kin__task_self();
    (void)arg;
    options.cancel_grace = KIN_MS(5);
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    struct kin__scope *scope = scope_of(&n);
    EXPECT_EQ(kin_spawn(&n, stay_masked, &scene), 0);
    await(&scene.started, 1);
    kin_time over = kin_after(options.cancel_grace); /* or a moment later */
    kin_nursery_cancel(&n, 0);
    bool is_early = !(word_of(scope) & KIN__OVERDUE) && !(kin__word_requests(self) & KIN__FORCE);
    EXPECT(is_early || kin_now() >= over);
    while (atomic_load(&scene.rc) == 0)
        kin_ignore(kin_yield());
    EXPECT_EQ(atomic_load(&scene.rc), KIN_CANCELLED);
    EXPECT(word_of(scope) & KIN__OVERDUE);
    EXPECT(kin__word_requests(self) & KIN__FORCE);
    atomic_store(&scene.let_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin__word_requests(self), 0); /* all of it goes with the join */
    return 0;
}

KIN_TEST(an_overdue_nursery_is_marked_and_so_is_its_owner_until_the_join, "B7 B12")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_reporting(workers, mark, NULL, NULL), 0);
}

/* An outer nursery that is overdue keeps its owner forced while an inner one is joined. */
static int stay_forced(void *arg)
{
    struct kin_nursery outer, inner;
    struct kin__task *self = kin__task_self();
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&outer, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    kin_nursery_cancel(&outer, -EIO);
    struct kin__scope *scope = scope_of(&outer);
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    /* relaxed: under the lock; the store pairs as in kin__scope_move_locked */
    kin__store_release(&scope->word, kin__load_relaxed(&scope->word) | KIN__OVERDUE);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    (void)kin__word_request(self, KIN__FORCE);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin__word_requests(self), KIN__SCOPE | KIN__FORCE);
    EXPECT_EQ(kin_nursery_join(&outer, NULL), -EIO);
    EXPECT_EQ(kin__word_requests(self), 0);
    return 0;
}

KIN_TEST(an_outer_nursery_that_is_overdue_keeps_its_owner_forced, "B7 B11")
{
    EXPECT_EQ(run_reporting(1, stay_forced, NULL, NULL), 0);
}

/* A killed task that joins is woken once, and then stays parked as long as its child lives. */
static int hold_out(void *arg)
{
    struct scene *scene = arg;
    atomic_store(&scene->started, 1);
    while (atomic_load(&scene->let_go) == 0)
        kin_ignore(kin_yield()); /* takes no notice */
    return KIN_CANCELLED;
}

static int join_it(void *arg)
{
    struct scene *scene = arg;
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_spawn(&inner, hold_out, scene), 0);
    await(&scene->started, 1); /* so that the join has nothing to run itself */
    atomic_store(&scene->rc, 1);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int kill_one_that_joins(void *arg)
{
    struct reports *reports = arg;
    struct scene scene = {0};
    struct kin_task_ref ref;
    struct kin__waits waits;
    KIN_NURSERY(n, .cancel_grace = KIN_MS(1));
    EXPECT_EQ(kin_spawn_with(&n, NULL, join_it, &scene, 0, &ref), 0);
    await(&scene.rc, 1);
    struct kin__task *joiner = kin__task_find(ref.id);
    while (!kin__wait_peek(joiner, &waits)) /* ends: it joins; one that runs would be reported */
        kin_ignore(kin_yield());
    kin_nursery_cancel(&n, 0);
    while (!(kin__word_requests(joiner) & KIN__KILL) || atomic_load(&reports->count) == 0)
        kin_ignore(kin_yield());
    for (int i = 0; i < 100; i++)
        kin_ignore(kin_yield());
    while (!kin__wait_peek(joiner, &waits))
        kin_ignore(kin_yield());
    EXPECT_PTR(waits.ops, &kin__join_waitable);
    for (int i = 0; i < 1000; i++) {
        kin_ignore(kin_yield());
        EXPECT(kin__wait_is_same(joiner, &waits)); /* it does not spin */
    }
    atomic_store(&scene.let_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_killed_task_goes_on_joining_without_spinning, "NSM-2 B7 D10")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, kill_one_that_joins, &reports, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 1); /* the child, not the one that joins it */
    }
}

/* The task that reports does not come to run: the timer comes again, and then nobody is asked. */
static int fire_twice(void *arg)
{
    struct scene scene = {.let_go = 1};
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_task_ref ref;
    (void)arg;
    options.cancel_grace = KIN_SEC(100);
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, stay_masked, &scene, 0, &ref), 0);
    await(&scene.started, 1);
    kin_ignore(kin_yield());
    kin_nursery_cancel(&n, 0);
    struct kin__scope *scope = scope_of(&n);
    void (*on_grace)(void *, uint64_t) = scope->timer.fire;
    uint64_t name = scope->timer.name;
    on_grace(scope, name); /* one worker, which does not leave this task */
    EXPECT(!(kin__word_requests(kin__task_find(ref.id)) & KIN__KILL));
    EXPECT(is_armed(scope));
    EXPECT(scope->timer.fire == on_grace);
    EXPECT_LT(scope->timer.node.deadline, kin_after(KIN_SEC(50))); /* soon */
    on_grace(scope, name);
    EXPECT(kin__word_requests(kin__task_find(ref.id)) & KIN__KILL);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(without_a_task_that_reports_the_children_are_killed_all_the_same, "B7")
{
    struct reports reports = {0};
    EXPECT_EQ(run_reporting(1, fire_twice, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 0);
}

/* Whoever gets the reports waits for the very task that is reported: it is killed all the same. */
static _Atomic int is_over;

static void wait_for_the_end(const struct kin_report *report, void *arg)
{
    (void)arg;
    EXPECT_EQ(report->status, KIN_STUCK);
    while (atomic_load(&is_over) == 0)
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(5))), 0);
}

static int end_when_killed(void *arg)
{
    atomic_store((_Atomic int *)arg, 1);
    kin_mask();
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    kin_unmask();
    atomic_store(&is_over, 1);
    return KIN_CANCELLED;
}

static int report_to_a_waiter(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n, .cancel_grace = KIN_MS(1));
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, end_when_killed, &started), 0);
    await(&started, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_report_that_does_not_return_keeps_nobody_alive, "N2002 B7")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 2;
    config.on_report = wait_for_the_end;
    EXPECT_EQ(kin_run(&config, report_to_a_waiter, NULL), 0);
}

/* Whoever gets the reports panics. */
static void panic_at_once(const struct kin_report *report, void *arg)
{
    if (report->status == KIN_STUCK) {
        atomic_fetch_add((_Atomic int *)arg, 1);
        kin_panic("in a report");
    }
}

KIN_TEST(a_report_that_panics_is_not_the_result_and_keeps_nobody_alive, "N2002")
{
    struct kin_config config = KIN_CONFIG_INIT;
    _Atomic int count = 0;
    config.workers = 2;
    config.on_report = panic_at_once;
    config.report_arg = &count;
    EXPECT_EQ(kin_run(&config, report_to_a_waiter, NULL), 0);
    EXPECT_EQ(atomic_load(&count), 1);
}

/* ---- one task alone ---- */

struct lonely {
    _Atomic int started, inner_started, inner_rc, let_go;
    int rc, reason;
};

static int sleep_inside(void *arg)
{
    struct lonely *lonely = arg;
    kin_mask();
    atomic_store(&lonely->inner_started, 1);
    int rc = kin_sleep(KIN_NEVER);
    atomic_store(&lonely->inner_rc, rc);
    kin_unmask();
    return rc;
}

static int be_lonely(void *arg)
{
    struct lonely *lonely = arg;
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_spawn(&inner, sleep_inside, lonely), 0);
    await(&lonely->inner_started, 1);
    kin_mask();
    atomic_store(&lonely->started, 1);
    lonely->rc = kin_sleep(KIN_NEVER); /* not the nursery's grace: nobody cancels that */
    lonely->reason = kin_cancel_reason();
    EXPECT_EQ(kin_sleep(kin_after(KIN_SEC(1000))), KIN_CANCELLED); /* masks are void from here on */
    kin_unmask();
    kin_ignore(kin_nursery_join(&inner, NULL));
    return KIN_CANCELLED;
}

static int wait_to_be_let_go(void *arg)
{
    struct lonely *lonely = arg;
    while (atomic_load(&lonely->let_go) == 0) {
        int rc = kin_yield();
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* How it is done, by a kill at once or by way of a report. */
static int treat_one(void (*treat)(uint64_t id))
{
    struct lonely lonely = {0};
    struct kin_task_ref ref, sibling;
    struct kin_outcome how;
    struct kin__waits waits;
    struct kin_nursery n;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, be_lonely, &lonely, 0, &ref), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, wait_to_be_let_go, &lonely, 0, &sibling), 0);
    await(&lonely.started, 1);
    while (!kin__wait_peek(kin__task_find(ref.id), &waits)) /* ends: it sleeps next */
        kin_ignore(kin_yield());
    treat(ref.id);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(lonely.rc, KIN_CANCELLED);
    EXPECT_EQ(lonely.reason, KIN_STUCK);
    EXPECT_EQ(atomic_load(&lonely.inner_rc), KIN_CANCELLED); /* what it has open goes with it */
    treat(ref.id);                                           /* over: nothing happens */
    treat(0);
    treat(UINT64_MAX);
    atomic_store(&lonely.let_go, 1);
    EXPECT_EQ(kin_task_join(&n, sibling, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_OK); /* and nobody else */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

static void kill_it(uint64_t id)
{
    const struct kin__task *task = kin__task_find(id);
    EXPECT_EQ(kin__task_kill(id), task != NULL && !task->over);
}

static int kill_one(void *arg)
{
    (void)arg;
    return treat_one(kill_it);
}

KIN_TEST(one_task_can_be_killed_alone, "B7 D10")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, kill_one, NULL, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 0); /* a kill by itself says nothing */
    }
}

static void make_it_overdue(uint64_t id)
{
    kin__task_overdue(kin__task_sched(kin__task_self()), id);
}

static int make_one_overdue(void *arg)
{
    (void)arg;
    return treat_one(make_it_overdue);
}

KIN_TEST(one_task_that_is_overdue_is_reported_and_killed, "N2002 B7")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, make_one_overdue, NULL, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 1);
        EXPECT_EQ(reports.status[0], KIN_STUCK);
        EXPECT(strstr(reports.text[0], "sleep") != NULL); /* what it is parked on */
    }
}

/* There is no frame for the task that reports. */
static void make_it_overdue_without_memory(uint64_t id)
{
    enum { FRAMES = 5000 };
    static struct kin__frame *frames[FRAMES];
    int count = 0;
    kin__plat_fail_after(1, true);
    while (count < FRAMES && (frames[count] = kin__block_take(KIN__FRAME_TASK)))
        count++;
    EXPECT_LT(count, FRAMES);
    make_it_overdue(id);
    kin__plat_fail_after(0, false);
    while (count > 0)
        kin__block_give(KIN__FRAME_TASK, frames[--count]);
}

static int make_one_overdue_without_memory(void *arg)
{
    (void)arg;
    return treat_one(make_it_overdue_without_memory);
}

KIN_TEST(one_task_that_is_overdue_is_killed_without_memory_for_a_report, "B7")
{
    struct reports reports = {0};
    EXPECT_EQ(run_reporting(1, make_one_overdue_without_memory, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 0);
}

static int make_overdue_for_a_waiter(void *arg)
{
    _Atomic int started = 0;
    struct kin_task_ref ref;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, end_when_killed, &started, 0, &ref), 0);
    await(&started, 1);
    struct kin__waits waits;
    while (!kin__wait_peek(kin__task_find(ref.id), &waits)) /* it is parked */
        kin_ignore(kin_yield());
    make_it_overdue(ref.id);
    kin_ignore(kin_task_join(&n, ref, NULL, KIN_NEVER));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_report_of_one_task_that_does_not_return_keeps_nobody_alive, "N2002 B7")
{
    struct kin_config config = KIN_CONFIG_INIT;
    _Atomic int count = 0;
    config.workers = 2;
    config.on_report = wait_for_the_end;
    EXPECT_EQ(kin_run(&config, make_overdue_for_a_waiter, NULL), 0);
    config.on_report = panic_at_once;
    config.report_arg = &count;
    EXPECT_EQ(kin_run(&config, make_overdue_for_a_waiter, NULL), 0);
    EXPECT_EQ(atomic_load(&count), 1);
}
