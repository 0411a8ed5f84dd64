/* SPDX-License-Identifier: MIT */
/*
 * Goal: every public call through which tasks share something, a look too, and the end of a task
 * are points of the lab; what was not gone through is not called complete.
 * Method: each POINT of points.def after a touch, counting switches: a third of the public calls. A
 * CALL of that table is not called here: it comes into kin by a door that a POINT has, and that is
 * where the point is. Programs whose bug is one point that an earlier lab had not, under two
 * strategies each.
 */
#ifdef __clang__ /* a call without arguments is a call */
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif
#include "lab/found.h"

#include <errno.h>

/* ---- every call ---- */

static const char *const points[] = {
#define POINT(name) #name,
#define CALL(name)
#define OWN(name)
#define OUTSIDE(name)
#include "lab/points.def"
#undef POINT
#undef CALL
#undef OWN
#undef OUTSIDE
};
enum { POINTS = sizeof points / sizeof *points };

static bool seen[POINTS];
static int word;

static void note(const char *name, bool is_point)
{
    if (!is_point)
        printf("%s is no point\n", name);
    EXPECT(is_point);
    for (unsigned i = 0; i < POINTS; i++)
        seen[i] |= strcmp(points[i], name) == 0;
}

#define IS_POINT(name, ...)                                                                        \
    do {                                                                                           \
        KIN_SHARED(word)++;                                                                        \
        uint64_t before_ = kin_lab_switches();                                                     \
        kin_ignore(name(__VA_ARGS__));                                                             \
        note(#name, kin_lab_switches() > before_);                                                 \
    } while (0)
#define IS_POINT_VOID(name, ...)                                                                   \
    do {                                                                                           \
        KIN_SHARED(word)++;                                                                        \
        uint64_t before_ = kin_lab_switches();                                                     \
        name(__VA_ARGS__);                                                                         \
        note(#name, kin_lab_switches() > before_);                                                 \
    } while (0)
#define IS_POINT_VALUE(name, ...)                                                                  \
    do {                                                                                           \
        KIN_SHARED(word)++;                                                                        \
        uint64_t before_ = kin_lab_switches();                                                     \
        (void)name(__VA_ARGS__);                                                                   \
        note(#name, kin_lab_switches() > before_);                                                 \
    } while (0)

static int one = 1;

static void call_channels(void)
{
    struct kin_chan *chan = NULL;
    IS_POINT(kin_chan_create, &chan, sizeof(int), 2);
    IS_POINT(kin_chan_send, chan, &one, 0);
    IS_POINT_VALUE(kin_chan_len, chan);
    IS_POINT_VALUE(kin_chan_is_closed, chan);
    IS_POINT(kin_chan_recv, chan, NULL, 0);
    struct kin_case cases[] = {KIN_CASE_RECV(chan, NULL)};
    IS_POINT(kin_select, cases, 1, 0);
    IS_POINT(kin_select_ordered, cases, 1, 0);
    IS_POINT_VALUE(kin_chan_ref, chan);
    IS_POINT_VOID(kin_chan_close, chan);
    IS_POINT_VOID(kin_chan_abort, chan);
    IS_POINT_VOID(kin_chan_unref, chan);
    kin_chan_unref(chan);
}

static void call_queues(void)
{
    struct kin_spsc *spsc = NULL;
    IS_POINT(kin_spsc_create, &spsc, sizeof(int), 2);
    IS_POINT(kin_spsc_send, spsc, &one, 0);
    IS_POINT_VALUE(kin_spsc_len, spsc);
    IS_POINT_VALUE(kin_spsc_is_closed, spsc);
    IS_POINT(kin_spsc_recv, spsc, NULL, 0);
    IS_POINT_VALUE(kin_spsc_ref, spsc);
    IS_POINT_VOID(kin_spsc_close, spsc);
    IS_POINT_VOID(kin_spsc_unref, spsc);
    kin_spsc_unref(spsc);
    struct kin_mpsc *mpsc = NULL;
    IS_POINT(kin_mpsc_create, &mpsc, sizeof(int), 2);
    IS_POINT(kin_mpsc_send, mpsc, &one, 0);
    IS_POINT_VALUE(kin_mpsc_len, mpsc);
    IS_POINT_VALUE(kin_mpsc_is_closed, mpsc);
    IS_POINT(kin_mpsc_recv, mpsc, NULL, 0);
    IS_POINT_VALUE(kin_mpsc_ref, mpsc);
    IS_POINT_VOID(kin_mpsc_close, mpsc);
    IS_POINT_VOID(kin_mpsc_unref, mpsc);
    kin_mpsc_unref(mpsc);
}

static void call_streams(void)
{
    struct kin_broadcast *broadcast = NULL;
    struct kin_subscriber *subscriber = NULL;
    IS_POINT(kin_broadcast_create, &broadcast, sizeof(int), 2, KIN_BROADCAST_LAG);
    IS_POINT(kin_broadcast_subscribe, broadcast, &subscriber);
    IS_POINT(kin_broadcast_send, broadcast, &one, 0);
    IS_POINT(kin_broadcast_recv, subscriber, NULL, NULL, 0);
    IS_POINT_VALUE(kin_broadcast_is_closed, broadcast);
    IS_POINT_VALUE(kin_broadcast_ref, broadcast);
    IS_POINT_VALUE(kin_subscriber_ref, subscriber);
    IS_POINT_VOID(kin_broadcast_close, broadcast);
    IS_POINT_VOID(kin_subscriber_unref, subscriber);
    IS_POINT_VOID(kin_broadcast_unref, broadcast);
    kin_subscriber_unref(subscriber);
    kin_broadcast_unref(broadcast);
    struct kin_watch *watch = NULL;
    uint64_t version = 0;
    IS_POINT(kin_watch_create, &watch, sizeof(int), &one);
    IS_POINT(kin_watch_set, watch, &one);
    IS_POINT(kin_watch_get, watch, NULL, &version);
    IS_POINT(kin_watch_wait, watch, NULL, &version, 0);
    IS_POINT_VALUE(kin_watch_is_closed, watch);
    IS_POINT_VALUE(kin_watch_ref, watch);
    IS_POINT_VOID(kin_watch_close, watch);
    IS_POINT_VOID(kin_watch_unref, watch);
    kin_watch_unref(watch);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static void call_locks(void)
{
    struct kin_mutex mutex = {0};
    struct kin_rwlock rwlock = {0};
    struct kin_cond cond = {0};
    struct kin_sem sem;
    struct kin_event event = {0};
    struct kin_group group = {0};
    struct kin_once once = {0};
    struct kin_barrier barrier;
    EXPECT_EQ(kin_sem_init(&sem, 1), 0);
    EXPECT_EQ(kin_barrier_init(&barrier, 1), 0);
    IS_POINT(kin_mutex_lock, &mutex, 0);
    IS_POINT_VOID(kin_cond_signal, &cond);
    IS_POINT_VOID(kin_cond_broadcast, &cond);
    IS_POINT_VOID(kin_mutex_unlock, &mutex);
    IS_POINT(kin_rwlock_read_lock, &rwlock, 0);
    IS_POINT_VOID(kin_rwlock_read_unlock, &rwlock);
    IS_POINT(kin_rwlock_write_lock, &rwlock, 0);
    IS_POINT_VOID(kin_rwlock_write_unlock, &rwlock);
    IS_POINT(kin_sem_acquire, &sem, 1, 0);
    IS_POINT_VOID(kin_sem_release, &sem, 1);
    IS_POINT(kin_event_wait, &event, 0);
    IS_POINT_VOID(kin_event_set, &event);
    IS_POINT_VOID(kin_event_reset, &event);
    IS_POINT_VOID(kin_group_add, &group, 1);
    IS_POINT_VOID(kin_group_done, &group);
    IS_POINT(kin_group_wait, &group, 0);
    IS_POINT(kin_once_do, &once, nothing, NULL, KIN_NEVER);
    IS_POINT(kin_barrier_wait, &barrier, KIN_NEVER);
}

static void call_scopes(void)
{
    struct kin_nursery n;
    struct kin_addr who;
    IS_POINT(kin_nursery_open, &n, NULL);
    IS_POINT(kin_spawn, &n, nothing, NULL);
    IS_POINT(kin_spawn_copy, &n, nothing, &one, sizeof one);
    IS_POINT_VALUE(kin_nursery_state, &n);
    IS_POINT_VALUE(kin_cancelled);
    IS_POINT_VALUE(kin_cancel_reason);
    IS_POINT_VOID(kin_nursery_cancel, &n, 0);
    IS_POINT_VOID(kin_nursery_close, &n);
    IS_POINT(kin_nursery_join, &n, NULL);
    IS_POINT(kin_task_cancel, (struct kin_task_ref){12345});
    IS_POINT(kin_yield);
    IS_POINT(kin_checkpoint);
    IS_POINT(kin_sleep, 0);
    IS_POINT_VALUE(kin_now);
    IS_POINT_VALUE(kin_after, 1);
    IS_POINT_VALUE(kin_leaks);
    IS_POINT(kin_whereis, "nobody", &who);
    IS_POINT(kin_register, "somebody", kin_self_addr(), 0);
    IS_POINT(kin_unregister, "somebody");
    IS_POINT_VALUE(kin_budget_left);
    IS_POINT(kin_random, &word, sizeof word);
}

static int call_all(void *arg)
{
    (void)arg;
    call_channels();
    call_queues();
    call_streams();
    call_locks();
    call_scopes();
    return 0;
}

KIN_TEST(every_call_is_a_point, "")
{
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, call_all, NULL), 0);
    for (unsigned i = 0; i < POINTS; i++) {
        if (!seen[i])
            printf("%s is not called\n", points[i]);
        EXPECT(seen[i]);
    }
}

/* ---- programs with one bug each ---- */

static int two_children(kin_task_fn *a, kin_task_fn *b, void *arg)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, a, arg));
    KIN_LAB_OK(kin_spawn(&n, b, arg));
    return kin_nursery_join(&n, NULL);
}

struct two {
    struct kin_mutex a, b;
};

static int lock_both(struct kin_mutex *first, struct kin_mutex *second)
{
    kin_ignore(kin_mutex_lock(first, KIN_NEVER));
    kin_ignore(kin_mutex_lock(second, KIN_NEVER));
    kin_mutex_unlock(second);
    kin_mutex_unlock(first);
    return 0;
}

static int lock_a_b(void *arg)
{
    struct two *two = arg;
    return lock_both(&two->a, &two->b);
}

static int lock_b_a(void *arg)
{
    struct two *two = arg;
    return lock_both(&two->b, &two->a);
}

static int lock_crosswise(void *arg)
{
    struct two two = {0};
    (void)arg;
    return two_children(lock_a_b, lock_b_a, &two);
}

KIN_TEST(one_worker_comes_between_two_locks, "")
{
    expect_found(lock_crosswise, KIN_DEADLOCK);
}

static int hold(void *mutex)
{
    kin_ignore(kin_mutex_lock(mutex, KIN_NEVER));
    kin_mutex_unlock(mutex);
    return 0;
}

static int try_once(void *mutex)
{
    int rc = kin_mutex_lock(mutex, 0);
    if (rc == 0)
        kin_mutex_unlock(mutex);
    kin_lab_assert(rc == 0, "a try-lock always succeeds");
    return 0;
}

static int hold_and_try(void *arg)
{
    struct kin_mutex mutex = {0};
    (void)arg;
    return two_children(hold, try_once, &mutex);
}

KIN_TEST(a_lock_is_held_between_its_lock_and_its_unlock, "")
{
    expect_found(hold_and_try, KIN_PANICKED);
}

static int look_twice(void *chan)
{
    size_t first = kin_chan_len(chan);
    bool was_closed = kin_chan_is_closed(chan);
    kin_lab_assert(first == kin_chan_len(chan) && was_closed == kin_chan_is_closed(chan),
                   "two looks see the same");
    return 0;
}

static int send_and_close(void *chan)
{
    kin_ignore(kin_chan_send(chan, &one, 0));
    kin_chan_close(chan);
    return 0;
}

static int look_at_a_channel(void *arg)
{
    struct kin_chan *chan;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    int rc = two_children(look_twice, send_and_close, chan);
    kin_chan_unref(chan);
    return rc;
}

KIN_TEST(two_looks_are_two_steps, "")
{
    expect_found(look_at_a_channel, KIN_PANICKED);
}

static int hold_a_name(void *arg)
{
    (void)arg;
    return kin_register("x", kin_self_addr(), 0);
}

static int look_for_it(void *arg)
{
    struct kin_addr who;
    (void)arg;
    kin_lab_assert(kin_whereis("x", &who) != 0, "nobody ever has the name");
    return 0;
}

static int look_for_a_name(void *arg)
{
    return two_children(look_for_it, hold_a_name, arg);
}

KIN_TEST(what_a_task_has_until_its_end_is_seen, "")
{
    expect_found(look_for_a_name, KIN_PANICKED);
}

static int try_six_times(void *event)
{
    for (int i = 0; i < 6; i++) {
        if (kin_event_wait(event, 0) == 0)
            return 0;
        kin_ignore(kin_yield());
    }
    kin_lab_assert(false, "six tries are enough");
    return 0;
}

static int set_event(void *event)
{
    kin_event_set(event);
    return 0;
}

static int give_up(void *arg)
{
    struct kin_event event = {0};
    (void)arg;
    return two_children(try_six_times, set_event, &event);
}

KIN_TEST(yields_are_not_enough_however_many, "")
{
    expect_found(give_up, KIN_PANICKED);
}

static int poll_often(void *event)
{
    int times = 0;
    for (int i = 0; i < 70; i++)
        times += kin_event_wait(event, 0) == 0;
    kin_lab_assert(times < 2 || times > 68, "it never comes in the middle");
    return 0;
}

static int poll_an_event(void *arg)
{
    struct kin_event event = {0};
    (void)arg;
    return two_children(poll_often, set_event, &event);
}

KIN_TEST(a_change_may_come_between_any_two_of_many_looks, "")
{
    expect_found(poll_an_event, KIN_PANICKED);
}

static int look_until_cancelled(void *arg)
{
    (void)arg;
    while (!kin_cancelled()) { /* ends: the other one cancels */
    }
    return KIN_CANCELLED;
}

static int cancel(void *n)
{
    kin_nursery_cancel(n, 0);
    return 0;
}

static int cancel_who_looks(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    KIN_LAB_OK(kin_nursery_open(&n, NULL));
    KIN_LAB_OK(kin_spawn(&n, look_until_cancelled, &n));
    KIN_LAB_OK(kin_spawn(&n, cancel, &n));
    return kin_nursery_join(&n, NULL) == KIN_CANCELLED ? 0 : -EINVAL;
}

KIN_TEST(who_only_looks_lets_others_run, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 50, cancel_who_looks, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_PCT, 50, cancel_who_looks, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_DPOR, 20000, cancel_who_looks, NULL), 0);
    EXPECT(!report.exhausted);
    EXPECT(strstr(report.covers, "steps of others") != NULL);
}

static int ask_at_once(void *arg)
{
    (void)arg;
    kin_lab_assert(kin_checkpoint() == 0, "whoever has begun is not cancelled yet");
    return 0;
}

static int cancel_who_begins(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    KIN_LAB_OK(kin_nursery_open(&n, NULL));
    KIN_LAB_OK(kin_spawn(&n, ask_at_once, NULL));
    kin_nursery_cancel(&n, 0);
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

KIN_TEST(a_cancel_may_come_between_the_begin_and_the_first_call, "")
{
    expect_found(cancel_who_begins, KIN_PANICKED);
}

/* ---- the children of a cancelled nursery are asked one after the other ---- */

static struct walk {
    struct kin_nursery n;
    struct kin_event asked;
} walk;

/* Sees that the nursery is cancelled, and goes on: it was not asked itself. */
static int look_and_go_on(void *arg)
{
    (void)arg;
    if (kin_nursery_state(&walk.n) == KIN_NURSERY_CANCELLING)
        kin_lab_assert(kin_checkpoint() != 0, "whoever sees it was asked already");
    return 0;
}

static int fail_at_once(void *arg)
{
    (void)arg;
    return -EIO;
}

static int cancel_itself(void *arg)
{
    (void)arg;
    kin_nursery_cancel(&walk.n, 0);
    return 0;
}

/* One of two children cancels the nursery of both, in this way. */
static int cancel_by(kin_task_fn *other)
{
    memset(&walk, 0, sizeof walk);
    KIN_LAB_OK(kin_nursery_open(&walk.n, NULL));
    KIN_LAB_OK(kin_spawn(&walk.n, look_and_go_on, NULL));
    if (other)
        KIN_LAB_OK(kin_spawn(&walk.n, other, NULL));
    else
        kin_nursery_cancel(&walk.n, 0);
    kin_ignore(kin_nursery_join(&walk.n, NULL));
    return 0;
}

static int cancel_from_outside(void *arg)
{
    return (void)arg, cancel_by(NULL);
}

static int cancel_from_inside(void *arg)
{
    return (void)arg, cancel_by(cancel_itself);
}

static int cancel_by_failing(void *arg)
{
    return (void)arg, cancel_by(fail_at_once);
}

KIN_TEST(who_sees_that_its_nursery_is_cancelled_may_not_be_asked_yet, "")
{
    expect_found(cancel_from_outside, KIN_PANICKED);
    expect_found(cancel_from_inside, KIN_PANICKED);
    expect_found(cancel_by_failing, KIN_PANICKED);
}

static int tell_when_asked(void *arg)
{
    (void)arg;
    if (kin_event_wait(&walk.asked, KIN_NEVER) < 0)
        kin_event_set(&walk.asked);
    return 0;
}

/* arg: waits until it is told so. */
static int hear_and_go_on(void *arg)
{
    kin_mask();
    int rc = kin_event_wait(&walk.asked, arg ? KIN_NEVER : 0);
    kin_unmask();
    kin_lab_assert(rc < 0 || kin_checkpoint() != 0, "all are asked at once");
    return 0;
}

static int ask_one_first(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    memset(&walk, 0, sizeof walk);
    options.deadline = arg ? kin_after(KIN_MS(1)) : KIN_NEVER;
    KIN_LAB_OK(kin_nursery_open(&walk.n, &options));
    KIN_LAB_OK(kin_spawn(&walk.n, hear_and_go_on, arg));
    KIN_LAB_OK(kin_spawn(&walk.n, tell_when_asked, NULL));
    KIN_LAB_OK(kin_spawn(&walk.n, hear_and_go_on, arg)); /* in whatever order they are asked */
    if (!arg)
        kin_nursery_cancel(&walk.n, 0);
    kin_ignore(kin_nursery_join(&walk.n, NULL));
    return 0;
}

static int ask_one_first_by_time(void *arg)
{
    return (void)arg, ask_one_first(&walk);
}

KIN_TEST(a_child_that_was_asked_may_act_before_the_next_one_is, "")
{
    expect_found(ask_one_first, KIN_PANICKED);
    expect_found(ask_one_first_by_time, KIN_PANICKED);
}

/* The caller that began the cancellation returns when all were asked. */
static int cancel_and_ask(void *arg)
{
    (void)arg;
    kin_nursery_cancel(&walk.n, 0);
    kin_event_set(&walk.asked);
    return 0;
}

static int hear_of_all(void *arg)
{
    (void)arg;
    kin_mask();
    kin_ignore(kin_event_wait(&walk.asked, KIN_NEVER));
    kin_unmask();
    kin_lab_assert(kin_checkpoint() == KIN_CANCELLED, "all were asked before the call returned");
    return 0;
}

static int cancel_completely(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    memset(&walk, 0, sizeof walk);
    KIN_LAB_OK(kin_nursery_open(&n, NULL));
    KIN_LAB_OK(kin_nursery_open(&walk.n, NULL));
    KIN_LAB_OK(kin_spawn(&walk.n, hear_of_all, NULL));
    KIN_LAB_OK(kin_spawn(&walk.n, hear_of_all, NULL));
    KIN_LAB_OK(kin_spawn(&n, cancel_and_ask, NULL));
    kin_ignore(kin_nursery_join(&walk.n, NULL));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(whoever_cancels_a_nursery_returns_when_all_were_asked, "")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, cancel_completely, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 500, cancel_completely, NULL), 0);
}

/* ---- the end of a task is told to one after the other ---- */

static struct {
    struct kin_nursery n;
    struct kin_task_ref child;
    struct kin_event watched, may_end, told;
} ending;

/* Whether a monitor has been told of the end. */
static bool has_heard(struct kin_monitor_ref ref)
{
    struct kin_info info;
    kin_mask();
    int rc = kin_wait_down(ref, &info, 0);
    kin_unmask();
    return rc == 0;
}

static int look_at_nursery(void *arg)
{
    struct kin_monitor_ref ref;
    (void)arg;
    if (kin_monitor(kin_task_addr(ending.child), &ref) == 0 &&
        kin_nursery_state(&ending.n) == KIN_NURSERY_CANCELLING)
        kin_lab_assert(has_heard(ref), "the nursery and the monitor hear of it at once");
    return 0;
}

static int fail_before_monitor(void *arg)
{
    (void)arg;
    memset(&ending, 0, sizeof ending);
    KIN_LAB_OK(kin_nursery_open(&ending.n, NULL));
    KIN_LAB_OK(kin_spawn_with(&ending.n, NULL, fail_at_once, NULL, 0, &ending.child));
    kin_ignore(kin_spawn(&ending.n, look_at_nursery, NULL)); /* refused after the failure */
    kin_ignore(kin_nursery_join(&ending.n, NULL));
    return 0;
}

static int end_at_once(void *arg)
{
    (void)arg;
    return 0;
}

static int monitor_before_join(void *arg)
{
    struct kin_monitor_ref ref;
    struct kin_info info;
    (void)arg;
    memset(&ending, 0, sizeof ending);
    KIN_LAB_OK(kin_nursery_open(&ending.n, NULL));
    KIN_LAB_OK(kin_spawn_with(&ending.n, NULL, end_at_once, NULL, 0, &ending.child));
    kin_nursery_close(&ending.n);
    KIN_LAB_OK(kin_monitor(kin_task_addr(ending.child), &ref));
    KIN_LAB_OK(kin_wait_down(ref, &info, KIN_NEVER));
    int rc = kin_nursery_poll(&ending.n, NULL);
    kin_ignore(kin_nursery_join(&ending.n, NULL));
    kin_lab_assert(rc == 0, "the monitor and the join hear of it at once");
    return 0;
}

static int end_when_told(void *arg)
{
    (void)arg;
    return kin_event_wait(&ending.may_end, KIN_NEVER);
}

static int pass_it_on(void *arg)
{
    struct kin_monitor_ref ref;
    struct kin_info info;
    (void)arg;
    KIN_LAB_OK(kin_monitor(kin_task_addr(ending.child), &ref));
    kin_event_set(&ending.watched);
    KIN_LAB_OK(kin_wait_down(ref, &info, KIN_NEVER));
    kin_event_set(&ending.told);
    return 0;
}

static int monitor_before_monitor(void *arg)
{
    struct kin_monitor_ref ref;
    (void)arg;
    memset(&ending, 0, sizeof ending);
    KIN_LAB_OK(kin_nursery_open(&ending.n, NULL));
    KIN_LAB_OK(kin_spawn_with(&ending.n, NULL, end_when_told, NULL, 0, &ending.child));
    KIN_LAB_OK(kin_spawn(&ending.n, pass_it_on, NULL));
    KIN_LAB_OK(kin_monitor(kin_task_addr(ending.child), &ref)); /* before or after the other */
    KIN_LAB_OK(kin_event_wait(&ending.watched, KIN_NEVER));
    kin_event_set(&ending.may_end);
    KIN_LAB_OK(kin_event_wait(&ending.told, KIN_NEVER));
    bool is_told = has_heard(ref);
    kin_ignore(kin_nursery_join(&ending.n, NULL));
    kin_lab_assert(is_told, "two monitors hear of it at once");
    return 0;
}

KIN_TEST(those_who_hear_of_an_end_hear_of_it_one_after_the_other, "")
{
    expect_found(fail_before_monitor, KIN_PANICKED);
    expect_found(monitor_before_join, KIN_PANICKED);
    expect_found(monitor_before_monitor, KIN_PANICKED);
}

/* ---- what the verdict says ---- */

static int throw_dice(void *arg)
{
    (void)arg;
    return kin_lab_random() == 0 ? -EIO : 0;
}

static int throw_bytes(void *arg)
{
    int number;
    (void)arg;
    return kin_random(&number, sizeof number);
}

KIN_TEST(who_throws_dice_is_not_complete, "")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, throw_dice, NULL), 0);
    EXPECT(!report.exhausted);
    EXPECT(strstr(report.covers, "(kin_lab_random drew)") != NULL);
    EXPECT_EQ(lab(KIN_LAB_AUTO, 2000, throw_dice, NULL), 0);
    EXPECT(!report.exhausted);
    EXPECT_EQ(report.executions, 2000); /* other seeds may come out in another way */
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, throw_bytes, NULL), 0);
    EXPECT(!report.exhausted);
    EXPECT(strstr(report.covers, "(kin_random drew)") != NULL);
}

static int choose_one(void *arg)
{
    (void)arg;
    return kin_lab_choose(1000, "one of many") == 999 ? -EIO : 0;
}

KIN_TEST(what_is_chosen_is_gone_through, "")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, choose_one, NULL), -EIO);
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, nothing, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT(strstr(report.covers, "every order") != NULL);
}

/* ---- faults ---- */

static bool sleeps;

static int wait_thrice(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        if ((sleeps ? kin_sleep(kin_after(1000)) : kin_yield()) < 0)
            return KIN_CANCELLED;
    }
    return 0;
}

static int rely_on_it(void *arg)
{
    KIN_NURSERY(n);
    int spawned = kin_spawn(&n, wait_thrice, arg), rc = kin_nursery_join(&n, NULL);
    kin_lab_assert(spawned < 0 || rc == 0, "no task ever fails");
    return 0;
}

KIN_TEST(tasks_fail_where_they_yield, "")
{
    static const uint32_t faults[] = {KIN_FAULT_FAIL, KIN_FAULT_PANIC,
                                      KIN_FAULT_FAIL | KIN_FAULT_EACH,
                                      KIN_FAULT_PANIC | KIN_FAULT_EACH};
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned k = 0; k < 2; k++) {
            sleeps = k;
            EXPECT_EQ(lab_with(KIN_LAB_AUTO, 100000, faults[i], rely_on_it, NULL), KIN_PANICKED);
            EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, faults[i], rely_on_it, NULL), KIN_PANICKED);
        }
    }
}
