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
#include "task/extra.h"
#include "task/word.h"
#include "wait/chan.h"
#include "wait/crowd.h"
#include "wait/queue.h"
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

/* ---- order of arrival ---- */

static int acquire(void *sem)
{
    return kin_sem_acquire(sem, 1, KIN_NEVER);
}

/* Two are in line, and the second comes first. */
static int jump_the_queue(void *arg)
{
    struct kin_sem sem = {0};
    struct kin__crowd *crowd = (struct kin__crowd *)(void *)&sem;
    KIN_NURSERY(n);
    for (int i = 0; i < 2; i++) {
        KIN_LAB_OK(kin_spawn(&n, acquire, &sem));
        KIN_LAB_OK(kin_lab_wait_all_blocked());
    }
    if (arg) {
        struct kin__waiter *first = kin__waitq_first(&crowd->queue);
        kin__waitq_remove(first);
        kin__waitq_push(&crowd->queue, first);
    }
    kin_sem_release(&sem, 1);
    kin_sem_release(&sem, 1);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(whoever_overtakes_those_in_line_is_seen, "A9")
{
    int yes;
    expect_oracle(jump_the_queue, &yes, "fifo", KIN_PANICKED);
    EXPECT(strstr(report.text, "root/0 has waited for semaphore longer than root/1") != NULL);
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, jump_the_queue, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 200, jump_the_queue, NULL), 0);
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

/* Does not care what it is told. */
static int go_on_for_ever(void *arg)
{
    struct kin_event event = {0};
    (void)arg;
    do { /* ends: the lab has had enough */
        kin_event_set(&event);
        kin_ignore(kin_yield());
        kin_event_reset(&event);
    } while (kin_in_lab());
    return 0;
}

static int cancel_in_vain(void *arg)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, go_on_for_ever, arg));
    for (int i = 0; i < 3; i++)
        kin_ignore(kin_yield());
    kin_nursery_cancel(&n, KIN_CANCELLED);
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

KIN_TEST(a_task_that_goes_on_although_it_was_cancelled_is_seen, "NSM:4.3")
{
    expect_oracle(cancel_in_vain, NULL, "cancellation-bounded", KIN_STUCK);
    EXPECT(strstr(report.text, "root/0 was asked to stop, and has gone on") != NULL);
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

static int return_one(void *arg)
{
    (void)arg;
    return 1;
}

/* It is told to stop, and has something to give all the same. */
static int return_two_anyway(void *arg)
{
    (void)arg;
    kin_ignore(kin_sleep(KIN_NEVER));
    return 2;
}

/* Whoever races is not told what the loser returned. */
static int forget_a_loser(void *is_running)
{
    struct kin_branch b[2] = {{.fn = return_one}, {.fn = return_two_anyway}};
    size_t winner;
    KIN_LAB_OK(kin_race(b, 2, &winner));
    kin_lab_assert(winner == 0 && b[1].out.value == 2, "what a loser returned is told");
    if (is_running)
        b[1].out.task += 99; /* nobody's */
    else
        b[1].out.value = 0;
    kin__lab_drained(b, 2);
    return 0;
}

KIN_TEST(a_loser_whose_end_nobody_is_told_is_seen, "D1")
{
    int yes;
    expect_oracle(forget_a_loser, NULL, "loser-drain", KIN_PANICKED);
    EXPECT(strstr(report.text, "has ended with KIN_OK, 2, and the caller of its combinator is "
                               "told KIN_OK, 0") != NULL);
    expect_oracle(forget_a_loser, &yes, "loser-drain", KIN_ORPHAN);
}

/* ---- stacks ---- */

static kin_time overrun_until; /* so that the sleep is the first call: it begins with its wait */

/* Something was written where the stack ends, which has no guard page. */
static int overrun(void *is_parking)
{
    struct kin__stack *stack = kin__task_self()->stack;
    if (stack->is_guarded)
        kin__stack_mend(stack);
    stack->is_guarded = false;
    memset(stack->low, 0, 16);
    if (is_parking)
        kin__lab_gate.touched = 0; /* the call is no point, and the park itself has to see it */
    kin_ignore(is_parking ? kin_sleep(overrun_until) : kin_yield());
    memset(stack->low, 0, 16); /* it is not the end that shows it */
    return 0;
}

static int let_somebody_overrun(void *is_parking)
{
    overrun_until = kin_after(KIN_SEC(1));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, overrun, is_parking));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_stack_that_was_overrun_is_seen_at_the_next_switch, "SCHED:5.3.3")
{
    int yes;
    expect_oracle(let_somebody_overrun, NULL, "stack", KIN_PANICKED);
    EXPECT(strstr(report.text, "root/0 has written behind the end of its stack, before this call"));
    expect_oracle(let_somebody_overrun, &yes, "stack", KIN_PANICKED);
    EXPECT(strstr(report.text, "before it waits here") != NULL);
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
    handle->outcome = (struct kin__failure){1, -EIO, KIN_SEV_ERROR};
    kin__lab_joined(handle->scope);
    return 0;
}

KIN_TEST(a_join_that_hides_a_panic_is_seen, "NSM:8.1")
{
    expect_oracle(report_the_wrong_end, NULL, "error-priority", KIN_PANICKED);
}

/* The rows of the table, and what a join would have to say. */
static const struct priority {
    int32_t severities[2]; /* of children, in order of time */
    bool is_cancelled;
    struct kin__failure due;
} priorities[] = {
    {{KIN_SEV_ERROR, KIN_SEV_OK}, true, {1, -11, KIN_SEV_ERROR}},
    {{KIN_SEV_OK, KIN_SEV_ERROR}, true, {2, -12, KIN_SEV_ERROR}},
    {{KIN_SEV_ERROR, KIN_SEV_ERROR}, false, {1, -11, KIN_SEV_ERROR}},
    {{KIN_SEV_ERROR, KIN_SEV_PANIC}, true, {2, -12, KIN_SEV_PANIC}},
    {{KIN_SEV_OK, KIN_SEV_OK}, true, {0, KIN_TIMEOUT, KIN_SEV_CANCELLED}},
    {{KIN_SEV_OK, KIN_SEV_OK}, false, {0, 0, KIN_SEV_OK}},
};

/* A join that says one row's result for another row. */
static int say_another(void *arg)
{
    const struct priority *const *rows = arg;
    KIN_NURSERY(n);
    struct kin__handle *handle = kin__handle_of(&n);
    for (int32_t i = 0; i < 2; i++) {
        if (rows[0]->severities[i] != KIN_SEV_OK)
            handle->errors[handle->errors_kept++] =
                (struct kin__failure){(uint64_t)i + 1, -11 - i, rows[0]->severities[i]};
    }
    int32_t state = handle->state;
    handle->state = rows[0]->is_cancelled ? KIN_NURSERY_CANCELLED : KIN_NURSERY_CLOSED;
    handle->scope->reason = KIN_TIMEOUT;
    handle->scope->is_inherited = 0;
    handle->outcome = rows[1]->due;
    kin__lab_joined(handle->scope);
    handle->state = state;
    handle->errors_kept = 0;
    handle->scope->reason = 0;
    return 0;
}

KIN_TEST(every_row_of_the_table_of_priorities_is_kept, "NSM:4.4")
{
    enum { ROWS = sizeof priorities / sizeof priorities[0] };
    for (unsigned i = 0; i < ROWS; i++) {
        for (unsigned k = 0; k < ROWS; k++) {
            const struct priority *rows[2] = {&priorities[i], &priorities[k]};
            bool is_same = priorities[i].due.severity == priorities[k].due.severity &&
                           priorities[i].due.status == priorities[k].due.status;
            if (is_same)
                EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, say_another, (void *)rows), 0);
            else
                expect_oracle(say_another, (void *)rows, "error-priority", KIN_PANICKED);
        }
    }
}

/* ---- budgets ---- */

static struct kin__account *own_account(void)
{
    return &kin__worker_current(kin__world.worker)->extra->account;
}

/* What a part of the runtime does wrong with an account. */
static void mint_nothing(void) {}

static void make_some(void)
{
    own_account()->left.of[KIN__PART_OPS] += 5;
}

static void lose_some(void)
{
    own_account()->source.hard->left.of[KIN__PART_MEMORY]--;
}

static void forget_a_gift(void)
{
    own_account()->given.of[KIN__PART_CHANNEL_OPS]--;
}

static int spend_and(void *arg)
{
    void (*cheat)(void);
    memcpy(&cheat, arg, sizeof cheat);
    for (int i = 0; i < 3; i++)
        kin_ignore(kin_checkpoint());
    cheat();
    for (int i = 0; i < 3; i++)
        kin_ignore(kin_checkpoint());
    return 0;
}

static int two_spend(void *cheat)
{
    KIN_NURSERY(n, .budget = {1000, 100000, 10, 1000, 1000});
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.budget = (struct kin_budget){100, 1000, 2, 100, 100};
    KIN_LAB_OK(kin_spawn_with(&n, &options, spend_and, cheat, 0, NULL));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_budget_that_is_not_conserved_is_seen, "SCHED:8.2.1")
{
    void (*cheats[])(void) = {make_some, lose_some, forget_a_gift};
    void (*none)(void) = mint_nothing;
    for (size_t i = 0; i < sizeof cheats / sizeof cheats[0]; i++)
        expect_oracle(two_spend, &cheats[i], "budget-conservation", KIN_PANICKED);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 200, two_spend, &none), 0);
    EXPECT_EQ(lab(KIN_LAB_DPOR, 200, two_spend, &none), 0);
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
