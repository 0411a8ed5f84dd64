/* SPDX-License-Identifier: MIT */
/*
 * Goal: each oracle sees the bug that it is there for.
 * Method: programs that are wrong, or a runtime that is made so from inside, each in one way; the
 * oracle, the status and the words of the report are compared.
 */
#include "lab/in_lab.h"

#include "lab/oracle.h"
#include "lab/world.h"
#include "park/park.h"
#include "scope/scope.h"
#include "task/word.h"
#include "wait/chan.h"
#include "wait/timer.h"

static int receive(void *chan)
{
    return kin_chan_recv(chan, NULL, KIN_NEVER);
}

static int sleep_for_ever(void *arg)
{
    (void)arg;
    return kin_sleep(KIN_NEVER);
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* ---- deadlock ---- */

static int wait_for_nobody(void *arg)
{
    struct kin_chan *chan;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, receive, chan));
    kin_ignore(kin_nursery_join(&n, NULL));
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(nobody_who_could_wake_anybody_is_a_deadlock, "A13")
{
    expect_oracle(wait_for_nobody, NULL, "deadlock", KIN_DEADLOCK);
    EXPECT(strstr(report.text, "root/0 waits for channel: receive") != NULL);
    EXPECT(strstr(report.text, "waits for nursery with root/0") != NULL);
}

struct locks {
    struct kin_mutex a, b;
};

static int take_both(struct kin_mutex *first, struct kin_mutex *second)
{
    int rc = kin_mutex_lock(first, KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = kin_mutex_lock(second, KIN_NEVER);
    if (rc == 0)
        kin_mutex_unlock(second);
    kin_mutex_unlock(first);
    return rc;
}

static int a_then_b(void *arg)
{
    struct locks *locks = arg;
    return take_both(&locks->a, &locks->b);
}

static int b_then_a(void *arg)
{
    struct locks *locks = arg;
    return take_both(&locks->b, &locks->a);
}

static int lock_in_both_orders(void *arg)
{
    struct locks locks = {0};
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, a_then_b, &locks));
    KIN_LAB_OK(kin_spawn(&n, b_then_a, &locks));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_ring_of_mutexes_is_followed, "A13")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, lock_in_both_orders, NULL), KIN_DEADLOCK);
    EXPECT_STR(report.oracle, "deadlock");
    EXPECT(strstr(report.text, "a ring: root/0 -> root/1 -> root/0") != NULL);
    EXPECT(strstr(report.text, "held by root/1") != NULL);
}

/* ---- wakes ---- */

/* Whoever wakes this task forgets to make it runnable. */
static int lose_a_wake(void *arg)
{
    struct kin_task_ref child;
    struct kin_chan *chan;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn_with(&n, NULL, receive, chan, 0, &child));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    struct kin__task *task = kin__task_find(child.id);
    (void)kin__word_claim(task, kin__word_ticket(task->ctl));
    kin_ignore(kin_nursery_join(&n, NULL));
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_task_that_was_woken_and_does_not_run_is_a_lost_wake, "F4")
{
    expect_oracle(lose_a_wake, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "root/0 was woken, and is not runnable") != NULL);
}

/* An item comes into the channel, and nobody is told. */
static int hide_an_item(void *arg)
{
    struct kin_chan *chan;
    int value = 1;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, receive, chan));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    struct kin__waitq receivers = chan->receivers;
    uint32_t state = chan->state;
    chan->receivers = (struct kin__waitq){0};
    chan->state = state & ~KIN__CHAN_RECEIVERS;
    KIN_LAB_OK(kin_chan_send(chan, &value, KIN_NEVER));
    chan->receivers = receivers;
    chan->state = state;
    kin_ignore(kin_nursery_join(&n, NULL));
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_task_that_waits_for_what_is_there_is_a_lost_wake, "F4")
{
    expect_oracle(hide_an_item, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "waits for channel: receive, but the channel has an item") != NULL);
}

static int wake_twice(void *arg)
{
    struct kin_task_ref child;
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn_with(&n, NULL, do_nothing, NULL, 0, &child));
    kin__schedule(kin__task_find(child.id));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_task_that_is_queued_twice_is_seen, "F2 F4")
{
    expect_oracle(wake_twice, NULL, "double-enqueue", KIN_PANICKED);
}

/* ---- cancellation ---- */

/* A request is left, and the sleeper is not woken. */
static int ask_without_waking(void *arg)
{
    struct kin_task_ref child;
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn_with(&n, NULL, sleep_for_ever, NULL, 0, &child));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    (void)kin__word_request(kin__task_find(child.id), KIN__CANCEL);
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

KIN_TEST(a_cancellation_that_does_not_end_a_wait_is_seen, "NSM:4.3")
{
    expect_oracle(ask_without_waking, NULL, "cancellation-bounded", KIN_STUCK);
}

/* ---- nurseries ---- */

/* The nursery says that it is joined while a child lives. */
static int join_too_early(void *is_branch)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, sleep_for_ever, NULL));
    struct kin__scope *scope = kin__handle_of(&n)->scope;
    uint8_t has = scope->has;
    scope->has |= is_branch ? KIN__SCOPE_COUNTS : 0;
    kin__lab_joined(scope);
    scope->has = has;
    return 0;
}

KIN_TEST(a_child_that_outlives_its_nursery_is_an_orphan, "NCG-1 N3001")
{
    int yes;
    expect_oracle(join_too_early, NULL, "no-orphan", KIN_ORPHAN);
    expect_oracle(join_too_early, &yes, "loser-drain", KIN_ORPHAN);
}

/* The join reports another end than the worst one. */
static int report_the_wrong_end(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    struct kin__handle *handle = kin__handle_of(&n);
    handle->errors[0] = (struct kin__failure){1, -EIO, KIN_SEV_ERROR};
    handle->errors[1] = (struct kin__failure){2, KIN_PANICKED, KIN_SEV_PANIC};
    handle->errors_kept = 2;
    handle->outcome = (struct kin_outcome){KIN_SEV_ERROR, -EIO, 0, 1};
    kin__lab_joined(handle->scope);
    return 0;
}

KIN_TEST(a_join_that_hides_a_panic_is_seen, "NSM:8.1")
{
    expect_oracle(report_the_wrong_end, NULL, "error-priority", KIN_PANICKED);
}

/* ---- what is left ---- */

static void never(void *object, uint64_t name)
{
    (void)object, (void)name;
}

static int leave_a_timer(void *arg)
{
    static struct kin__timer timer;
    (void)arg;
    timer.fire = never;
    kin__timer_arm(&timer, kin__world.sched, kin_after(KIN_SEC(1)));
    return 0;
}

KIN_TEST(a_deadline_that_outlives_everything_is_seen, "")
{
    expect_oracle(leave_a_timer, NULL, "quiescence", KIN_LEAKED);
}

static int owe(void *arg)
{
    struct kin_obligation *what;
    (void)arg;
    return kin_obligation_reserve(KIN_OBLIGATION_LEASE, &what);
}

static int owe_in_a_child(void *arg)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, owe, arg));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

KIN_TEST(an_obligation_that_nobody_ended_is_a_leak, "")
{
    expect_oracle(owe_in_a_child, NULL, "obligation-leak", KIN_LEAKED);
    EXPECT(strstr(report.text, "root/0") != NULL);
}

/* ---- progress ---- */

static int look_for_ever(void *arg)
{
    (void)arg;
    while (!kin_cancelled())
        kin_ignore(kin_yield());
    return KIN_CANCELLED;
}

KIN_TEST(looking_for_ever_is_a_livelock, "")
{
    expect_oracle(look_for_ever, NULL, "livelock", KIN_STUCK);
}

static int write_for_ever(void *arg)
{
    struct kin_event event = {0};
    (void)arg;
    while (kin_yield() == 0) {
        kin_event_set(&event);
        kin_event_reset(&event);
    }
    return KIN_CANCELLED;
}

KIN_TEST(steps_without_end_are_a_livelock, "")
{
    expect_oracle(write_for_ever, NULL, "livelock", KIN_STUCK);
}

static int sleep_too_long(void *arg)
{
    (void)arg;
    return kin_sleep(kin_after(KIN_SEC(1000)));
}

KIN_TEST(an_execution_has_so_much_time, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = KIN_LAB_ROUND_ROBIN;
    config.time_max = KIN_SEC(999);
    EXPECT_EQ(kin_lab_run(&config, sleep_too_long, NULL, &report), KIN_STUCK);
    EXPECT_STR(report.oracle, "livelock");
    config.time_max = KIN_SEC(1001);
    EXPECT_EQ(kin_lab_run(&config, sleep_too_long, NULL, &report), 0);
}

/* Somebody is runnable, and the world passes it over. */
static int starve(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, do_nothing, NULL));
    uint64_t steps = kin__world.steps;
    kin__world.steps = 10000 * (1 + steps / 10000);
    kin__oracle_step();
    kin__world.steps = steps;
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_task_that_is_passed_over_is_seen, "")
{
    expect_oracle(starve, NULL, "starvation", KIN_STUCK);
}

/* ---- checks of the runtime itself ---- */

static int break_a_rule(void *arg)
{
    struct kin_mutex mutex = {0};
    (void)arg;
    kin_mutex_unlock(&mutex);
    return 0;
}

KIN_TEST(what_aborts_a_program_fails_a_run, "")
{
    expect_oracle(break_a_rule, NULL, "check", KIN_PANICKED);
    EXPECT(strstr(report.text, "kin_mutex_unlock") != NULL);
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, do_nothing, NULL), 0); /* and the lab goes on */
}

/* ---- which oracles look ---- */

KIN_TEST(an_oracle_that_is_off_says_nothing, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = KIN_LAB_ROUND_ROBIN;
    config.oracles = KIN_ORACLE_LEAK;
    EXPECT_EQ(kin_lab_run(&config, owe_in_a_child, NULL, &report), 0);
    EXPECT_EQ(kin_lab_run(&config, wait_for_nobody, NULL, &report), 0);
    config.oracles = KIN_ORACLE_OBLIGATION;
    EXPECT_EQ(kin_lab_run(&config, owe_in_a_child, NULL, &report), KIN_LEAKED);
}
