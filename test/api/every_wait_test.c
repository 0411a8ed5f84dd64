/* SPDX-License-Identifier: MIT */
/*
 * Goal: every call that may park means the same by its deadline, by a deadline around it, by a
 *       cancellation and by a mask; and every call that completes at once reports a cancellation at
 *       least once in a turn instead of starting.
 * Method: black box. A table of all such calls, each once in a state in which it has to wait and
 *         once in one in which it need not; a task goes through the table with deadlines, another
 *         one while it is cancelled. On 1, 2 and 4 workers.
 */
#include "api/in_runtime.h"

/* Everything that is waited for below. */
struct scene {
    struct kin_chan *full, *empty;
    struct kin_spsc *full_spsc, *empty_spsc;
    struct kin_mpsc *full_mpsc, *empty_mpsc;
    struct kin_broadcast *news;
    struct kin_subscriber *slow;
    struct kin_watch *watch;
    struct kin_mutex held, mine;
    struct kin_rwlock rwlock;
    struct kin_cond cond;
    struct kin_sem sem;
    struct kin_event event;
    struct kin_group group;
    struct kin_once once;
    struct kin_barrier barrier;
    struct kin_event end;       /* of who holds the locks */
    struct kin_addr holder;     /* who that is */
    _Atomic int holds, started; /* it does; the task that is to be cancelled runs */
};

static int send_full(struct scene *s, kin_time deadline)
{
    int item = 9;
    return kin_chan_send(s->full, &item, deadline);
}

static int recv_empty(struct scene *s, kin_time deadline)
{
    int item = 9, rc = kin_chan_recv(s->empty, &item, deadline);
    EXPECT_EQ(item, 9);
    return rc;
}

static int select_both(struct scene *s, kin_time deadline)
{
    int item = 9;
    struct kin_case cases[] = {kin_case_send(s->full, &item), kin_case_recv(s->empty, &item),
                               kin_case_event(&s->event), kin_case_after(KIN_SEC(1000))};
    int rc = kin_select(cases, 4, deadline);
    EXPECT_EQ(item, 9);
    return rc;
}

static int select_ordered(struct scene *s, kin_time deadline)
{
    struct kin_case cases[12];
    for (int i = 0; i < 12; i++)
        cases[i] = kin_case_recv(s->empty, NULL);
    return kin_select_ordered(cases, 12, deadline);
}

static int select_nothing(struct scene *s, kin_time deadline)
{
    (void)s;
    return kin_select(NULL, 0, deadline);
}

static int lock_held(struct scene *s, kin_time deadline)
{
    return kin_mutex_lock(&s->held, deadline);
}

static int read_held(struct scene *s, kin_time deadline)
{
    return kin_rwlock_read_lock(&s->rwlock, deadline);
}

static int write_held(struct scene *s, kin_time deadline)
{
    return kin_rwlock_write_lock(&s->rwlock, deadline);
}

static int wait_cond(struct scene *s, kin_time deadline)
{
    return kin_cond_wait(&s->cond, &s->mine, deadline); /* the mutex is held before and after */
}

static int acquire_none(struct scene *s, kin_time deadline)
{
    return kin_sem_acquire(&s->sem, 1, deadline);
}

static int wait_event(struct scene *s, kin_time deadline)
{
    return kin_event_wait(&s->event, deadline);
}

static int wait_group(struct scene *s, kin_time deadline)
{
    return kin_group_wait(&s->group, deadline);
}

static int never(void *arg)
{
    (void)arg;
    EXPECT(false);
    return 0;
}

static int wait_once(struct scene *s, kin_time deadline)
{
    return kin_once_do(&s->once, never, NULL, deadline);
}

static int wait_barrier(struct scene *s, kin_time deadline)
{
    return kin_barrier_wait(&s->barrier, deadline);
}

static int send_news(struct scene *s, kin_time deadline)
{
    int item = 9;
    return kin_broadcast_send(s->news, &item, deadline);
}

static int recv_news(struct scene *s, kin_time deadline)
{
    /* the slow one has one item unread: another subscriber has none */
    struct kin_subscriber *fresh;
    uint64_t lost = 9;
    int item = 9, rc = kin_broadcast_subscribe(s->news, &fresh);
    if (rc < 0)
        return rc;
    rc = kin_broadcast_recv(fresh, &item, &lost, deadline);
    EXPECT(rc == 0 || (item == 9 && lost == 9));
    kin_subscriber_unref(fresh);
    return rc;
}

static int wait_watch(struct scene *s, kin_time deadline)
{
    uint64_t version = 1;
    int item = 9, rc = kin_watch_wait(s->watch, &item, &version, deadline);
    EXPECT(rc == 0 || (item == 9 && version == 1));
    return rc;
}

static int send_spsc(struct scene *s, kin_time deadline)
{
    int item = 9;
    return kin_spsc_send(s->full_spsc, &item, deadline);
}

static int recv_spsc(struct scene *s, kin_time deadline)
{
    return kin_spsc_recv(s->empty_spsc, NULL, deadline);
}

static int send_mpsc(struct scene *s, kin_time deadline)
{
    int item = 9;
    return kin_mpsc_send(s->full_mpsc, &item, deadline);
}

static int recv_mpsc(struct scene *s, kin_time deadline)
{
    return kin_mpsc_recv(s->empty_mpsc, NULL, deadline);
}

static int wait_down(struct scene *s, kin_time deadline)
{
    struct kin_monitor_ref ref;
    struct kin_info info = {.vt = 9};
    int rc = kin_monitor(s->holder, &ref);
    if (rc < 0)
        return rc;
    rc = kin_wait_down(ref, &info, deadline);
    EXPECT(rc == 0 || info.vt == 9);
    EXPECT_EQ(kin_demonitor(ref), rc == 0 ? KIN_STALE : 0); /* nothing was taken */
    return rc;
}

static int wait_info(struct scene *s, kin_time deadline)
{
    struct kin_info info = {.vt = 9};
    (void)s;
    int rc = kin_wait_info(&info, deadline);
    EXPECT(rc == 0 || info.vt == 9);
    return rc;
}

static const struct wait {
    const char *name;
    int (*call)(struct scene *s, kin_time deadline);
    int at_once; /* what it answers when it may not wait */
} waits[] = {
    {"kin_chan_send", send_full, KIN_FULL},
    {"kin_chan_recv", recv_empty, KIN_EMPTY},
    {"kin_select", select_both, KIN_TIMEOUT},
    {"kin_select_ordered", select_ordered, KIN_TIMEOUT},
    {"kin_select of nothing", select_nothing, KIN_TIMEOUT},
    {"kin_mutex_lock", lock_held, KIN_TIMEOUT},
    {"kin_rwlock_read_lock", read_held, KIN_TIMEOUT},
    {"kin_rwlock_write_lock", write_held, KIN_TIMEOUT},
    {"kin_cond_wait", wait_cond, KIN_TIMEOUT},
    {"kin_sem_acquire", acquire_none, KIN_TIMEOUT},
    {"kin_event_wait", wait_event, KIN_TIMEOUT},
    {"kin_group_wait", wait_group, KIN_TIMEOUT},
    {"kin_once_do", wait_once, KIN_TIMEOUT},
    {"kin_barrier_wait", wait_barrier, KIN_TIMEOUT},
    {"kin_broadcast_send", send_news, KIN_FULL},
    {"kin_broadcast_recv", recv_news, KIN_EMPTY},
    {"kin_watch_wait", wait_watch, KIN_EMPTY},
    {"kin_spsc_send", send_spsc, KIN_FULL},
    {"kin_spsc_recv", recv_spsc, KIN_EMPTY},
    {"kin_mpsc_send", send_mpsc, KIN_FULL},
    {"kin_mpsc_recv", recv_mpsc, KIN_EMPTY},
    {"kin_wait_down", wait_down, KIN_TIMEOUT},
    {"kin_wait_info", wait_info, KIN_TIMEOUT},
};
enum { WAITS = sizeof waits / sizeof waits[0] };

/* ---- the scene ---- */

static int hold_until_the_end(void *arg)
{
    struct scene *s = arg;
    s->holder = kin_self_addr();
    atomic_store(&s->holds, 1);
    return kin_event_wait(&s->end, KIN_NEVER);
}

static int hold(void *arg)
{
    struct scene *s = arg;
    EXPECT_EQ(kin_mutex_lock(&s->held, KIN_NEVER), 0);
    EXPECT_EQ(kin_rwlock_write_lock(&s->rwlock, KIN_NEVER), 0);
    EXPECT_EQ(kin_once_do(&s->once, hold_until_the_end, s, KIN_NEVER), 0);
    kin_rwlock_write_unlock(&s->rwlock);
    kin_mutex_unlock(&s->held);
    return 0;
}

static void scene_open(struct scene *s, struct kin_nursery *n)
{
    int item = 5;
    memset(s, 0, sizeof *s);
    EXPECT_EQ(kin_chan_create(&s->full, sizeof item, 1), 0);
    EXPECT_EQ(kin_chan_create(&s->empty, sizeof item, 1), 0);
    EXPECT_EQ(kin_chan_send(s->full, &item, 0), 0);
    EXPECT_EQ(kin_spsc_create(&s->full_spsc, sizeof item, 1), 0);
    EXPECT_EQ(kin_spsc_create(&s->empty_spsc, sizeof item, 1), 0);
    EXPECT_EQ(kin_spsc_send(s->full_spsc, &item, 0), 0);
    EXPECT_EQ(kin_mpsc_create(&s->full_mpsc, sizeof item, 1), 0);
    EXPECT_EQ(kin_mpsc_create(&s->empty_mpsc, sizeof item, 1), 0);
    EXPECT_EQ(kin_mpsc_send(s->full_mpsc, &item, 0), 0);
    EXPECT_EQ(kin_broadcast_create(&s->news, sizeof item, 1, KIN_BROADCAST_WAIT), 0);
    EXPECT_EQ(kin_broadcast_subscribe(s->news, &s->slow), 0);
    EXPECT_EQ(kin_broadcast_send(s->news, &item, 0), 0);
    EXPECT_EQ(kin_watch_create(&s->watch, sizeof item, &item), 0);
    EXPECT_EQ(kin_barrier_init(&s->barrier, 2), 0);
    kin_group_add(&s->group, 1);
    EXPECT_EQ(kin_spawn(n, hold, s), 0);
    await(&s->holds, 1);
}

/* Nobody who left has taken or given anything, or is still in a line. */
static void scene_close(struct scene *s)
{
    int item = 0;
    uint64_t version = 0;
    EXPECT_EQ(kin_chan_len(s->full), 1);
    EXPECT_EQ(kin_chan_len(s->empty), 0);
    EXPECT_EQ(kin_chan_recv(s->full, &item, 0), 0);
    EXPECT_EQ(item, 5);
    EXPECT_EQ(kin_chan_recv(s->full, &item, 0), KIN_EMPTY);
    EXPECT_EQ(kin_chan_send(s->empty, &item, 0), 0);
    EXPECT_EQ(kin_chan_len(s->empty), 1);
    EXPECT_EQ(kin_spsc_len(s->full_spsc), 1);
    EXPECT_EQ(kin_mpsc_len(s->full_mpsc), 1);
    EXPECT_EQ(kin_broadcast_recv(s->slow, &item, NULL, 0), 0);
    EXPECT_EQ(item, 5);
    EXPECT_EQ(kin_broadcast_recv(s->slow, &item, NULL, 0), KIN_EMPTY);
    EXPECT_EQ(kin_watch_get(s->watch, &item, &version), 0);
    EXPECT_EQ(version, 1);
    kin_sem_release(&s->sem, 1);
    EXPECT_EQ(kin_sem_acquire(&s->sem, 1, 0), 0);
    EXPECT_EQ(kin_barrier_wait(&s->barrier, 0), KIN_TIMEOUT); /* nobody else has come */
    kin_group_done(&s->group);
    EXPECT_EQ(kin_group_wait(&s->group, 0), 0);
    kin_cond_signal(&s->cond);
    EXPECT_EQ(kin_mutex_lock(&s->mine, 0), 0);
    kin_mutex_unlock(&s->mine);
    kin_chan_unref(s->full);
    kin_chan_unref(s->empty);
    kin_spsc_unref(s->full_spsc);
    kin_spsc_unref(s->empty_spsc);
    kin_mpsc_unref(s->full_mpsc);
    kin_mpsc_unref(s->empty_mpsc);
    kin_subscriber_unref(s->slow);
    kin_broadcast_unref(s->news);
    kin_watch_unref(s->watch);
}

static void expect(const struct wait *wait, int actual, int expected, int line)
{
    if (actual != expected) {
        fprintf(stderr, "%s (line %d)\n", wait->name, line);
        EXPECT_EQ(actual, expected);
    }
}
#define EXPECT_WAIT(wait, actual, expected) expect(wait, actual, expected, __LINE__)

/* ---- deadlines ---- */

static int go_through_deadlines(void *arg)
{
    struct scene *s = arg;
    EXPECT_EQ(kin_mutex_lock(&s->mine, 0), 0);
    for (int i = 0; i < WAITS; i++) {
        const struct wait *wait = &waits[i];
        EXPECT_WAIT(wait, wait->call(s, 0), wait->at_once);
        EXPECT_WAIT(wait, wait->call(s, 1), KIN_TIMEOUT);          /* long ago */
        EXPECT_WAIT(wait, wait->call(s, -1), KIN_TIMEOUT);         /* before the clock began */
        EXPECT_WAIT(wait, wait->call(s, INT64_MIN), KIN_TIMEOUT);
        EXPECT_WAIT(wait, wait->call(s, kin_after(KIN_US(20))), KIN_TIMEOUT);
        { /* one around it */
            KIN_WITHIN(KIN_US(50));
            EXPECT_WAIT(wait, wait->call(s, KIN_NEVER), KIN_TIMEOUT);
            EXPECT_WAIT(wait, wait->call(s, kin_after(KIN_SEC(1000))), KIN_TIMEOUT); /* passed */
            EXPECT_WAIT(wait, wait->call(s, 0), wait->at_once); /* a call that may not wait */
        }
        { /* the tighter one counts */
            KIN_WITHIN(KIN_SEC(1000));
            EXPECT_WAIT(wait, wait->call(s, kin_after(KIN_US(20))), KIN_TIMEOUT);
        }
        kin_mask(); /* holds no deadline back */
        EXPECT_WAIT(wait, wait->call(s, kin_after(KIN_US(20))), KIN_TIMEOUT);
        kin_unmask();
    }
    EXPECT_EQ(kin_sleep(0), 0);
    EXPECT_EQ(kin_sleep(INT64_MIN), 0);
    {
        KIN_WITHIN(-1);
        EXPECT_EQ(kin_sleep(1), 0); /* it is over, whatever is around it */
        EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_TIMEOUT);
        EXPECT_EQ(kin_checkpoint(), KIN_TIMEOUT);
        EXPECT_EQ(kin_yield(), 0);
    }
    kin_mutex_unlock(&s->mine);
    return 0;
}

static int try_deadlines(void *arg)
{
    static struct scene s;
    (void)arg;
    KIN_NURSERY(n);
    scene_open(&s, &n);
    EXPECT_EQ(go_through_deadlines(&s), 0);
    scene_close(&s);
    kin_event_set(&s.end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(every_wait_means_the_same_by_its_deadline, "N2001")
{
    run_on_few(try_deadlines, NULL);
}

/* ---- a cancellation ---- */

static int go_through_cancelled(void *arg)
{
    struct scene *s = arg;
    EXPECT_EQ(kin_mutex_lock(&s->mine, 0), 0);
    atomic_store(&s->started, 1);
    while (!kin_cancelled()) /* ends: somebody cancels it */
        kin_ignore(kin_yield());
    for (int i = 0; i < WAITS; i++) {
        const struct wait *wait = &waits[i];
        for (int again = 0; again < 3; again++) { /* it stays */
            EXPECT_WAIT(wait, wait->call(s, KIN_NEVER), KIN_CANCELLED);
            EXPECT_WAIT(wait, wait->call(s, kin_after(KIN_SEC(1000))), KIN_CANCELLED);
        }
        kin_mask();
        EXPECT_WAIT(wait, wait->call(s, kin_after(KIN_US(20))), KIN_TIMEOUT);
        EXPECT(kin_cancelled()); /* known all the same */
        kin_unmask();
        EXPECT_WAIT(wait, wait->call(s, KIN_NEVER), KIN_CANCELLED);
    }
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    EXPECT_EQ(kin_checkpoint(), KIN_CANCELLED);
    kin_mutex_unlock(&s->mine);
    return KIN_CANCELLED;
}

static int try_cancelled(void *arg)
{
    static struct scene s;
    (void)arg;
    KIN_NURSERY(n);
    scene_open(&s, &n);
    {
        KIN_NURSERY(inner);
        EXPECT_EQ(kin_spawn(&inner, go_through_cancelled, &s), 0);
        await(&s.started, 1);
        kin_nursery_cancel(&inner, -EPIPE);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), -EPIPE);
    }
    scene_close(&s);
    kin_event_set(&s.end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(every_wait_reports_a_cancellation_that_came_before, "B12 A7")
{
    run_on_few(try_cancelled, NULL);
}

/* The same while it waits: whoever is parked wakes. */
struct parked {
    struct scene *s;
    const struct wait *wait;
    _Atomic int rc;
};

static int park_in_it(void *arg)
{
    struct parked *parked = arg;
    bool holds = parked->wait->call == wait_cond;
    if (holds)
        EXPECT_EQ(kin_mutex_lock(&parked->s->mine, KIN_NEVER), 0);
    atomic_fetch_add(&parked->s->started, 1);
    atomic_store(&parked->rc, parked->wait->call(parked->s, KIN_NEVER));
    if (holds)
        kin_mutex_unlock(&parked->s->mine);
    return KIN_CANCELLED;
}

static int try_parked(void *arg)
{
    static struct scene s;
    static struct parked parked[WAITS];
    (void)arg;
    KIN_NURSERY(n);
    scene_open(&s, &n);
    {
        KIN_NURSERY(inner);
        for (int i = 0; i < WAITS; i++) {
            parked[i] = (struct parked){&s, &waits[i], 0};
            EXPECT_EQ(kin_spawn(&inner, park_in_it, &parked[i]), 0);
        }
        await(&s.started, WAITS);
        for (int i = 0; i < 20; i++)
            EXPECT_EQ(kin_yield(), 0);
        kin_nursery_cancel(&inner, -EPIPE);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), -EPIPE); /* ends: all of them wake */
    }
    for (int i = 0; i < WAITS; i++)
        EXPECT_WAIT(&waits[i], atomic_load(&parked[i].rc), KIN_CANCELLED);
    scene_close(&s);
    kin_event_set(&s.end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(every_wait_ends_when_its_task_is_cancelled, "A7 NSM:4.2 SCHED:8.3.1")
{
    run_on_few(try_parked, NULL);
}

/* ---- calls that complete at once ---- */

/* Everything is free, or there. */
struct ready {
    struct kin_chan *chan;
    struct kin_spsc *spsc;
    struct kin_mpsc *mpsc;
    struct kin_broadcast *news;
    struct kin_subscriber *reader;
    struct kin_watch *watch;
    struct kin_mutex mutex;
    struct kin_rwlock rwlock;
    struct kin_sem sem;
    struct kin_event event;
    struct kin_group group;
    struct kin_once once;
    struct kin_barrier barrier;
    int sent, received; /* what the calls that answered 0 did */
    _Atomic int started;
};

static int do_send(struct ready *r)
{
    int rc = kin_chan_send(r->chan, &r->sent, KIN_NEVER);
    r->sent += rc == 0;
    return rc;
}

static int do_recv(struct ready *r)
{
    int item = -1, rc = kin_chan_recv(r->chan, &item, KIN_NEVER);
    if (rc == 0)
        EXPECT_EQ(item, r->received++); /* those that reported took nothing */
    return rc;
}

static int do_select(struct ready *r)
{
    struct kin_case one = kin_case_event(&r->event);
    return kin_select(&one, 1, KIN_NEVER);
}

static int do_mutex(struct ready *r)
{
    int rc = kin_mutex_lock(&r->mutex, KIN_NEVER);
    if (rc == 0)
        kin_mutex_unlock(&r->mutex);
    return rc;
}

static int do_read(struct ready *r)
{
    int rc = kin_rwlock_read_lock(&r->rwlock, KIN_NEVER);
    if (rc == 0)
        kin_rwlock_read_unlock(&r->rwlock);
    return rc;
}

static int do_write(struct ready *r)
{
    int rc = kin_rwlock_write_lock(&r->rwlock, KIN_NEVER);
    if (rc == 0)
        kin_rwlock_write_unlock(&r->rwlock);
    return rc;
}

static int do_sem(struct ready *r)
{
    int rc = kin_sem_acquire(&r->sem, 1, KIN_NEVER);
    if (rc == 0)
        kin_sem_release(&r->sem, 1);
    return rc;
}

static int do_event(struct ready *r)
{
    return kin_event_wait(&r->event, KIN_NEVER);
}

static int do_group(struct ready *r)
{
    return kin_group_wait(&r->group, KIN_NEVER);
}

static int done(void *arg)
{
    (void)arg;
    return 0;
}

static int do_once(struct ready *r)
{
    return kin_once_do(&r->once, done, NULL, KIN_NEVER);
}

static int do_barrier(struct ready *r)
{
    return kin_barrier_wait(&r->barrier, KIN_NEVER);
}

static int do_broadcast(struct ready *r)
{
    return kin_broadcast_send(r->news, &r->sent, KIN_NEVER);
}

static int do_watch_set(struct ready *r)
{
    return kin_watch_set(r->watch, &r->sent);
}

static int do_watch_get(struct ready *r)
{
    return kin_watch_get(r->watch, NULL, NULL);
}

static int do_watch_wait(struct ready *r)
{
    uint64_t version = 0;
    return kin_watch_wait(r->watch, NULL, &version, KIN_NEVER);
}

static int do_spsc(struct ready *r)
{
    int rc = kin_spsc_send(r->spsc, &r->sent, KIN_NEVER);
    return rc < 0 ? rc : kin_spsc_recv(r->spsc, NULL, KIN_NEVER);
}

static int do_mpsc(struct ready *r)
{
    int rc = kin_mpsc_send(r->mpsc, &r->sent, KIN_NEVER);
    return rc < 0 ? rc : kin_mpsc_recv(r->mpsc, NULL, KIN_NEVER);
}

static int do_sleep(struct ready *r)
{
    (void)r;
    return kin_sleep(0);
}

static int do_create(struct ready *r)
{
    struct kin_chan *chan;
    int rc = kin_chan_create(&chan, 0, 0);
    (void)r;
    if (rc == 0)
        kin_chan_unref(chan);
    return rc;
}

static const struct op {
    const char *name;
    int (*call)(struct ready *r);
} ops[] = {
    {"kin_chan_send", do_send},         {"kin_chan_recv", do_recv},
    {"kin_select", do_select},          {"kin_mutex_lock", do_mutex},
    {"kin_rwlock_read_lock", do_read},  {"kin_rwlock_write_lock", do_write},
    {"kin_sem_acquire", do_sem},        {"kin_event_wait", do_event},
    {"kin_group_wait", do_group},       {"kin_once_do", do_once},
    {"kin_barrier_wait", do_barrier},   {"kin_broadcast_send", do_broadcast},
    {"kin_watch_set", do_watch_set},    {"kin_watch_get", do_watch_get},
    {"kin_watch_wait", do_watch_wait},  {"kin_spsc", do_spsc},
    {"kin_mpsc", do_mpsc},              {"kin_sleep", do_sleep},
    {"kin_chan_create", do_create},
};
enum { OPS = sizeof ops / sizeof ops[0], INTERVAL = 32, ROUND = 4 * INTERVAL };

static int complete_while_cancelled(void *arg)
{
    struct ready *r = arg;
    int reported[OPS] = {0}, completed[OPS] = {0};
    atomic_store(&r->started, 1);
    while (!kin_cancelled()) /* ends: somebody cancels it */
        kin_ignore(kin_yield());
    for (int i = 0; i < OPS; i++) {
        for (int k = 0; k < ROUND; k++) {
            int rc = ops[i].call(r);
            EXPECT(rc == 0 || rc == KIN_CANCELLED);
            reported[i] += rc == KIN_CANCELLED;
            completed[i] += rc == 0;
        }
        if (reported[i] == 0 || completed[i] == 0)
            fprintf(stderr, "%s: %d reported, %d completed\n", ops[i].name, reported[i],
                    completed[i]);
        EXPECT_GE(reported[i], ROUND / INTERVAL / 2); /* once in a turn, */
        EXPECT_GE(completed[i], ROUND / 2);           /* and else it does what it is asked to */
    }
    EXPECT_EQ(r->sent, completed[0]);
    EXPECT_EQ(r->received, completed[1]);
    EXPECT_EQ(kin_chan_len(r->chan), ROUND + r->sent - r->received);
    return KIN_CANCELLED;
}

static int try_ready(void *arg)
{
    static struct ready r;
    (void)arg;
    memset(&r, 0, sizeof r);
    EXPECT_EQ(kin_chan_create(&r.chan, sizeof(int), 2 * ROUND), 0);
    for (int i = 0; i < ROUND; i++)
        EXPECT_EQ(kin_chan_send(r.chan, &i, 0), 0);
    EXPECT_EQ(kin_spsc_create(&r.spsc, sizeof(int), 2 * ROUND), 0);
    EXPECT_EQ(kin_mpsc_create(&r.mpsc, sizeof(int), 2 * ROUND), 0);
    EXPECT_EQ(kin_broadcast_create(&r.news, sizeof(int), 2, KIN_BROADCAST_LAG), 0);
    EXPECT_EQ(kin_watch_create(&r.watch, sizeof(int), &r.sent), 0);
    EXPECT_EQ(kin_sem_init(&r.sem, 1), 0);
    EXPECT_EQ(kin_barrier_init(&r.barrier, 1), 0);
    kin_event_set(&r.event);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, complete_while_cancelled, &r), 0);
    await(&r.started, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    kin_chan_unref(r.chan);
    kin_spsc_unref(r.spsc);
    kin_mpsc_unref(r.mpsc);
    kin_broadcast_unref(r.news);
    kin_watch_unref(r.watch);
    return 0;
}

KIN_TEST(what_completes_at_once_reports_a_cancellation_once_in_a_turn, "B12 SCHED:4.1.1")
{
#ifdef KIN_DEBUG
    const char *hard = getenv("KIN_HARD");
    if (hard && strstr(hard, "park"))
        return; /* there nothing completes at once */
#endif
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct kin_config config = KIN_CONFIG_INIT;
        config.workers = workers;
        config.seed = kin_test_seed();
        config.yield_interval = INTERVAL;
        EXPECT_EQ(kin_run(&config, try_ready, NULL), 0);
    }
}
