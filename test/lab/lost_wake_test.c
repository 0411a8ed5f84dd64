/* SPDX-License-Identifier: MIT */
/*
 * Goal: a wake that is lost is seen, whatever it is that somebody waits for.
 * Method: for each thing that can be waited for a task that is parked, and a runtime that is made
 * to forget it from inside; the words of the report are compared. A condition has no such words: a
 * signal that nobody waits for is gone by right.
 */
#include "lab/in_lab.h"

#include "lab/world.h"
#include "park/park.h"
#include "scope/scope.h"
#include "task/word.h"
#include "wait/chan.h"
#include "wait/poll.h"
#include "wait/queue.h"
#include "wait/timer.h"

#include <signal.h>
#include <unistd.h>

static int receive(void *chan)
{
    return kin_chan_recv(chan, NULL, KIN_NEVER);
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int sleep_a_second(void *arg)
{
    (void)arg;
    return kin_sleep(kin_after(KIN_SEC(1)));
}

/* Waits until its nursery's owner waits for its end, and takes it out of the line. */
static int hide_enders(void *nursery)
{
    int rc = kin_lab_wait_all_blocked();
    kin__handle_of(nursery)->scope->enders = (struct kin__waitq){0};
    return rc;
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

/* ---- wakes of everything else ---- */

/* Takes somebody who is parked out of the line for its first case; where it was. */
static struct kin__list *hide(uint32_t player)
{
    struct kin__waiter *waiter =
        (struct kin__waiter *)(uintptr_t)&kin__world.players[player].cases[0].waiter;
    struct kin__list *before = waiter->link.prev;
    kin__list_remove(&waiter->link);
    return before;
}

/* Puts it back there. */
static void show(uint32_t player, struct kin__list *before)
{
    struct kin__waiter *waiter =
        (struct kin__waiter *)(uintptr_t)&kin__world.players[player].cases[0].waiter;
    waiter->link = (struct kin__list){.next = before->next, .prev = before};
    before->next->prev = &waiter->link;
    before->next = &waiter->link;
}

/* What a child waits for, how it is let go, and what the oracle says when it is not. */
struct lost {
    int (*wait)(void *object);
    void (*wake)(void *object);
    const char *what;
    void (*prepare)(void *object); /* NULL: nothing */
};

static union {
    struct kin_event event;
    struct kin_sem sem;
    struct kin_group group;
    struct kin_barrier barrier;
    struct kin_mutex mutex;
    struct kin_rwlock rwlock;
    struct kin_watch *watch;
    struct {
        struct kin_broadcast *broadcast;
        struct kin_subscriber *subscriber;
    };
    int fds[2];
} subject;

static int wait_event(void *event)
{
    return kin_event_wait(event, KIN_NEVER);
}

static void set_event(void *event)
{
    kin_event_set(event);
}

static int wait_sem(void *sem)
{
    return kin_sem_acquire(sem, 2, KIN_NEVER);
}

static void give_sem(void *sem)
{
    kin_sem_release(sem, 2);
}

static int wait_group(void *group)
{
    return kin_group_wait(group, KIN_NEVER);
}

static void add_group(void *group)
{
    kin_group_add(group, 1);
}

static void end_group(void *group)
{
    kin_group_done(group);
}

static int wait_barrier(void *barrier)
{
    return kin_barrier_wait(barrier, KIN_NEVER);
}

static void make_barrier(void *barrier)
{
    kin_ignore(kin_barrier_init(barrier, 2));
}

static void come_last(void *barrier)
{
    kin_ignore(kin_barrier_wait(barrier, KIN_NEVER));
}

static int wait_mutex(void *mutex)
{
    return kin_mutex_lock(mutex, KIN_NEVER);
}

static void take_mutex(void *mutex)
{
    kin_ignore(kin_mutex_lock(mutex, KIN_NEVER));
}

static void give_mutex(void *mutex)
{
    kin_mutex_unlock(mutex);
}

static int wait_rwlock(void *rwlock)
{
    return kin_rwlock_write_lock(rwlock, KIN_NEVER);
}

static void read_rwlock(void *rwlock)
{
    kin_ignore(kin_rwlock_read_lock(rwlock, KIN_NEVER));
}

static void leave_rwlock(void *rwlock)
{
    kin_rwlock_read_unlock(rwlock);
}

static void make_watch(void *object)
{
    (void)object;
    kin_ignore(kin_watch_create(&subject.watch, sizeof(int), &(int){1}));
}

static int wait_watch(void *object)
{
    uint64_t version = 1;
    int value;
    (void)object;
    return kin_watch_wait(subject.watch, &value, &version, KIN_NEVER);
}

static void set_watch(void *object)
{
    (void)object;
    kin_ignore(kin_watch_set(subject.watch, &(int){2}));
}

static void make_broadcast(void *object)
{
    (void)object;
    kin_ignore(kin_broadcast_create(&subject.broadcast, sizeof(int), 2, KIN_BROADCAST_WAIT));
    kin_ignore(kin_broadcast_subscribe(subject.broadcast, &subject.subscriber));
}

static int wait_broadcast(void *object)
{
    int value;
    (void)object;
    return kin_broadcast_recv(subject.subscriber, &value, NULL, KIN_NEVER);
}

static void send_broadcast(void *object)
{
    (void)object;
    kin_ignore(kin_broadcast_send(subject.broadcast, &(int){2}, KIN_NEVER));
}

static void fill_broadcast(void *object)
{
    make_broadcast(object);
    for (int i = 0; i < 2; i++)
        kin_ignore(kin_broadcast_send(subject.broadcast, &i, KIN_NEVER));
}

static int wait_for_room(void *object)
{
    (void)object;
    return kin_broadcast_send(subject.broadcast, &(int){2}, KIN_NEVER);
}

static void take_broadcast(void *object)
{
    kin_ignore(wait_broadcast(object));
}

static void make_pipe(void *object)
{
    (void)object;
    if (pipe(subject.fds) < 0)
        kin_panic("no pipe");
}

static int wait_pipe(void *object)
{
    char byte;
    (void)object;
    return (int)kin_read(subject.fds[0], &byte, 1, KIN_NEVER);
}

/* Who waits there alone stands in the table, and not in line. */
static void write_pipe(void *object)
{
    (void)object;
    kin__store_relaxed(&kin__fd_find(subject.fds[0])->reader, NULL); /* alone: one thread */
    kin_ignore((int)write(subject.fds[1], "x", 1));
}

static int wait_signal(void *object)
{
    (void)object;
    return kin_signal_wait(SIGUSR1, KIN_NEVER);
}

static void raise_signal(void *object)
{
    (void)object;
    kin_ignore(kin_lab_raise(SIGUSR1));
}

static const struct lost losses[] = {
    {wait_for_room, take_broadcast, "broadcast: send, but there is room for it", fill_broadcast},
    {wait_pipe, write_pipe, "descriptor, but it is ready", make_pipe},
    {wait_signal, raise_signal, "signal, but it has arrived", NULL},
    {wait_event, set_event, "event, but it is set", NULL},
    {wait_sem, give_sem, "semaphore, but there are permits for it", NULL},
    {wait_group, end_group, "group, but all are done", add_group},
    {wait_barrier, come_last, "barrier, but its round is complete", make_barrier},
    {wait_mutex, give_mutex, "mutex, but nobody holds it", take_mutex},
    {wait_rwlock, leave_rwlock, "rwlock, but there is room for it", read_rwlock},
    {wait_watch, set_watch, "watch, but there is another value", make_watch},
    {wait_broadcast, send_broadcast, "broadcast: receive, but there is an item", make_broadcast},
};

/* Who waits is not in line at the moment of the wake. */
static int lose_one(void *arg)
{
    const struct lost *lost = arg;
    memset(&subject, 0, sizeof subject);
    if (lost->prepare)
        lost->prepare(&subject);
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, lost->wait, &subject));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    struct kin__list *before = hide(2);
    lost->wake(&subject);
    show(2, before);
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

KIN_TEST(a_wake_of_any_object_that_is_lost_is_seen, "F4")
{
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        struct lost lost = losses[i];
        expect_oracle(lose_one, &lost, "lost-wake", KIN_PANICKED);
        if (!strstr(report.text, lost.what))
            printf("%s\n", report.text);
        EXPECT(strstr(report.text, lost.what) != NULL);
    }
}

static int take_from_queue(void *queue)
{
    return kin_spsc_recv(queue, NULL, KIN_NEVER);
}

static int lose_in_a_queue(void *arg)
{
    struct kin_spsc *queue;
    (void)arg;
    KIN_LAB_OK(kin_spsc_create(&queue, sizeof(int), 2));
    struct kin__queue *q = (struct kin__queue *)(void *)queue;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, take_from_queue, queue));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    q->tail &= ~KIN__QUEUE_WAITS;
    KIN_LAB_OK(kin_spsc_send(queue, &(int){1}, KIN_NEVER));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

static int send_to_queue(void *queue)
{
    return kin_spsc_send(queue, &(int){2}, KIN_NEVER);
}

/* Who waits for room is not seen by whoever makes some. */
static int lose_room_in_a_queue(void *arg)
{
    struct kin_spsc *queue;
    (void)arg;
    KIN_LAB_OK(kin_spsc_create(&queue, sizeof(int), 1));
    struct kin__queue *q = (struct kin__queue *)(void *)queue;
    KIN_LAB_OK(send_to_queue(queue));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, send_to_queue, queue));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    q->head &= ~KIN__QUEUE_WAITS;
    KIN_LAB_OK(kin_spsc_recv(queue, NULL, KIN_NEVER));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

static int send_one(void *chan)
{
    return kin_chan_send(chan, &(int){1}, KIN_NEVER);
}

/* There is room in a channel, and nobody is told. */
static int lose_room_in_a_channel(void *arg)
{
    struct kin_chan *chan;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    KIN_LAB_OK(send_one(chan));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, send_one, chan));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    chan->count = 0;
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

/* The deadline of a sleeper goes, and time passes. */
static int lose_a_deadline(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, sleep_a_second, NULL));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    kin__timer_disarm(kin__world.players[2].cases[0].object);
    KIN_LAB_OK(kin_sleep(kin_after(KIN_SEC(2))));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

/* Its end is told to nobody. */
static int lose_an_end(void *arg)
{
    struct kin_task_ref child;
    struct kin_outcome how;
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn_with(&n, NULL, hide_enders, &n, 0, &child));
    kin_ignore(kin_task_join(&n, child, &how, KIN_NEVER));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

/* Who joins is taken for somebody who does not wait. */
static int hide_the_owner(void *nursery)
{
    int rc = kin_lab_wait_all_blocked();
    kin__handle_of(nursery)->scope->is_waiting = 0;
    return rc;
}

static int lose_the_last_end(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, hide_the_owner, &n));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

KIN_TEST(lost_wakes_of_queues_deadlines_and_ends_are_seen, "F4")
{
    expect_oracle(lose_room_in_a_queue, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "queue: send, but there is room for it") != NULL);
    expect_oracle(lose_room_in_a_channel, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "channel: send, but the channel has room") != NULL);
    expect_oracle(lose_the_last_end, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "nursery, but nobody is left in the nursery") != NULL);
    expect_oracle(lose_in_a_queue, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "queue: receive, but there is an item") != NULL);
    expect_oracle(lose_a_deadline, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "sleep, but its time has come") != NULL);
    expect_oracle(lose_an_end, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "task, but the task has ended") != NULL);
}

/* The root waits for room in its nursery, or for what a child does once, and is told by nobody. */
static int hide_the_root(void *arg)
{
    int rc = kin_lab_wait_all_blocked();
    (void)arg;
    (void)hide(1);
    return rc;
}

static int lose_a_slot(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    options.slot_deadline = KIN_NEVER;
    KIN_NURSERY(n, .tasks_max = 1);
    KIN_LAB_OK(kin_spawn(&n, hide_the_root, NULL));
    kin_ignore(kin_spawn_with(&n, &options, do_nothing, NULL, 0, NULL));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

static int do_once(void *once)
{
    return kin_once_do(once, hide_the_root, NULL, KIN_NEVER);
}

static int lose_a_turn(void *arg)
{
    struct kin_once once = {0};
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, do_once, &once));
    kin_ignore(kin_yield());
    kin_ignore(kin_once_do(&once, do_nothing, NULL, KIN_NEVER));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

static int use_up(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        int rc = kin_checkpoint();
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int lose_a_recharge(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_task_ref child;
    (void)arg;
    options.budget = (struct kin_budget){3, 1000, 2, 100, 100};
    KIN_NURSERY(n, .budget = {1000, 100000, 10, 1000, 1000}, .recharge = KIN_RECHARGE_MANUAL);
    KIN_LAB_OK(kin_spawn_with(&n, &options, use_up, NULL, 0, &child));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    struct kin__list *before = hide(2);
    KIN_LAB_OK(kin_budget_recharge(child, (struct kin_budget){5, 0, 0, 0, 0}));
    show(2, before);
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

/* The first branch fails, and whoever waits to start the next one does not hear of it. */
static int fail_unheard(void *arg)
{
    kin_ignore(hide_the_root(arg));
    return -EIO;
}

static int lose_a_failure(void *arg)
{
    struct kin_branch b[2] = {{.fn = fail_unheard}, {.fn = do_nothing}};
    (void)arg;
    kin_ignore(kin_hedge(b, 2, KIN_SEC(100), NULL));
    return 0;
}

KIN_TEST(lost_wakes_of_slots_turns_and_budgets_are_seen, "F4")
{
    expect_oracle(lose_a_failure, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "branch, but a branch has failed, or none can start") != NULL);
    expect_oracle(lose_a_slot, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "slot, but the nursery has room") != NULL);
    expect_oracle(lose_a_turn, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "once, but nobody does it") != NULL);
    expect_oracle(lose_a_recharge, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "budget, but there is some") != NULL);
}

static int choose_one(void *chan)
{
    struct kin_event event = {0};
    struct kin_case cases[] = {KIN_CASE_AFTER(KIN_SEC(5)), KIN_CASE_EVENT(&event),
                               KIN_CASE_RECV(chan, NULL)};
    return kin_select(cases, 3, KIN_NEVER) < 0;
}

static int hide_from_a_select(void *arg)
{
    struct kin_chan *chan;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, choose_one, chan));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    chan->count = 1;
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

KIN_TEST(every_case_of_a_select_is_looked_at, "F4")
{
    expect_oracle(hide_from_a_select, NULL, "lost-wake", KIN_PANICKED);
    EXPECT(strstr(report.text, "channel: receive, but the channel has an item") != NULL);
}
