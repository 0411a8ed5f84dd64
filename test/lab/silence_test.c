/* SPDX-License-Identifier: MIT */
/*
 * Goal: the oracles have nothing to say of programs that are right.
 * Method: three programs that use everything that can be waited for, held or owed, under some
 * thousand schedules with all oracles on, and under faults. (Those of conformance have some hundred
 * each, but leak on purpose.)
 */
#include "lab/in_lab.h"

#include <signal.h>
#include <unistd.h>

/* ---- locks and meetings ---- */

static struct {
    struct kin_mutex mutex;
    struct kin_cond cond;
    struct kin_rwlock rwlock;
    struct kin_sem sem;
    struct kin_event event;
    struct kin_group group;
    struct kin_barrier barrier;
    struct kin_once once;
    int here;
} room;

static int open_room(void *arg)
{
    (void)arg;
    return kin_yield();
}

static int meet(void *arg)
{
    int rc = kin_once_do(&room.once, open_room, NULL, KIN_NEVER);
    if (rc == 0)
        rc = kin_sem_acquire(&room.sem, 1, KIN_NEVER);
    if (rc < 0)
        return rc;
    kin_sem_release(&room.sem, 1);
    rc = arg ? kin_rwlock_write_lock(&room.rwlock, KIN_NEVER)
             : kin_rwlock_read_lock(&room.rwlock, KIN_NEVER);
    if (rc < 0)
        return rc;
    if (arg)
        kin_rwlock_write_unlock(&room.rwlock);
    else
        kin_rwlock_read_unlock(&room.rwlock);
    rc = kin_mutex_lock(&room.mutex, KIN_NEVER);
    if (rc < 0)
        return rc;
    room.here++;
    kin_cond_signal(&room.cond);
    kin_mutex_unlock(&room.mutex);
    kin_group_done(&room.group);
    rc = kin_barrier_wait(&room.barrier, KIN_NEVER);
    return rc < 0 ? rc : kin_event_wait(&room.event, KIN_NEVER);
}

static int hold_a_meeting(void *arg)
{
    (void)arg;
    memset(&room, 0, sizeof(room));
    KIN_LAB_OK(kin_barrier_init(&room.barrier, 2));
    kin_group_add(&room.group, 2);
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, meet, NULL));
    KIN_LAB_OK(kin_spawn(&n, meet, &room));
    kin_sem_release(&room.sem, 1);
    KIN_LAB_OK(kin_mutex_lock(&room.mutex, KIN_NEVER));
    while (room.here < 2)
        KIN_LAB_OK(kin_cond_wait(&room.cond, &room.mutex, KIN_NEVER));
    kin_mutex_unlock(&room.mutex);
    KIN_LAB_OK(kin_group_wait(&room.group, KIN_NEVER));
    kin_event_set(&room.event);
    return kin_nursery_join(&n, NULL);
}

/* ---- what is handed over ---- */

static struct {
    struct kin_chan *chan;
    struct kin_spsc *queue;
    struct kin_watch *watch;
    struct kin_broadcast *broadcast;
    struct kin_subscriber *subscriber;
    int fds[2];
} post;

static int deliver(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct kin_case cases[] = {KIN_CASE_SEND(post.chan, &i), KIN_CASE_AFTER(KIN_SEC(9))};
        int rc = kin_select(cases, 2, KIN_NEVER);
        if (rc == 0)
            rc = kin_spsc_send(post.queue, &i, KIN_NEVER);
        if (rc == 0)
            rc = kin_broadcast_send(post.broadcast, &i, KIN_NEVER);
        if (rc < 0)
            return rc;
    }
    kin_ignore(kin_watch_set(post.watch, &(int){2}));
    return kin_write(post.fds[1], "x", 1, NULL, KIN_NEVER);
}

static void close_it(void *fd)
{
    kin_ignore(kin_close(*(int *)fd));
}

static int receive_all(void)
{
    uint64_t version = 1;
    int value;
    char byte;
    for (int i = 0; i < 2; i++) {
        KIN_LAB_OK(kin_chan_recv(post.chan, &value, kin_after(KIN_SEC(9))));
        KIN_LAB_OK(kin_spsc_recv(post.queue, &value, KIN_NEVER));
        KIN_LAB_OK(kin_broadcast_recv(post.subscriber, &value, NULL, KIN_NEVER));
    }
    KIN_LAB_OK(kin_watch_wait(post.watch, &value, &version, KIN_NEVER));
    return kin_read(post.fds[0], &byte, 1, KIN_NEVER) == 1 ? 0 : -EIO;
}

static int hand_over(void *arg)
{
    struct kin_obligation *owed;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&post.chan, sizeof(int), 1));
    KIN_LAB_OK(kin_spsc_create(&post.queue, sizeof(int), 1));
    KIN_LAB_OK(kin_watch_create(&post.watch, sizeof(int), &(int){1}));
    KIN_LAB_OK(kin_broadcast_create(&post.broadcast, sizeof(int), 1, KIN_BROADCAST_WAIT));
    KIN_LAB_OK(kin_broadcast_subscribe(post.broadcast, &post.subscriber));
    KIN_LAB_OK(pipe(post.fds));
    KIN_LAB_OK(kin_defer(close_it, &post.fds[0]));
    KIN_LAB_OK(kin_defer(close_it, &post.fds[1]));
    KIN_LAB_OK(kin_obligation_reserve(KIN_OBLIGATION_ACK, &owed));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, deliver, NULL));
    KIN_LAB_OK(receive_all());
    KIN_LAB_OK(kin_obligation_commit(owed));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_subscriber_unref(post.subscriber);
    kin_broadcast_unref(post.broadcast);
    kin_watch_unref(post.watch);
    kin_spsc_unref(post.queue);
    kin_chan_unref(post.chan);
    return 0;
}

/* ---- who comes first ---- */

static int nap(void *how_long)
{
    return kin_sleep(kin_after(how_long ? KIN_MS(5) : KIN_MS(1)));
}

static int fail_soon(void *arg)
{
    (void)nap(arg);
    return -EIO;
}

static int listen(void *arg)
{
    (void)arg;
    return kin_signal_wait(SIGUSR1, KIN_NEVER);
}

static int compete(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_branch b[3] = {{.fn = fail_soon}, {.fn = nap, .arg = b}, {.fn = nap}};
    struct kin_task_ref child;
    struct kin_outcome how;
    size_t winner;
    (void)arg;
    KIN_LAB_OK(kin_hedge(b, 3, KIN_MS(2), &winner));
    kin_ignore(kin_race(b, 3, &winner));
    options.slot_deadline = KIN_NEVER;
    KIN_NURSERY(n, .tasks_max = 1, .budget = {1000, 100000, 10, 1000, 1000});
    KIN_LAB_OK(kin_spawn(&n, listen, NULL));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    KIN_LAB_OK(kin_lab_raise(SIGUSR1));
    KIN_LAB_OK(kin_spawn_with(&n, &options, nap, NULL, 0, &child));
    KIN_LAB_OK(kin_task_join(&n, child, &how, KIN_NEVER));
    return kin_nursery_join(&n, NULL);
}

static void expect_silence(kin_task_fn *program)
{
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, program, NULL), 0);
    for (enum kin_lab_strategy how = KIN_LAB_RANDOM; how <= KIN_LAB_DPOR; how++) {
        if (lab(how, 1000, program, NULL) < 0)
            printf("%s\n", report.text);
        EXPECT_EQ(report.status, 0);
        EXPECT(how == KIN_LAB_DPOR || report.executions == 1000);
    }
}

KIN_TEST(a_meeting_is_silent, "")
{
    expect_silence(hold_a_meeting);
}

KIN_TEST(what_is_handed_over_is_silent, "")
{
    expect_silence(hand_over);
}

KIN_TEST(a_competition_is_silent, "")
{
    expect_silence(compete);
}
