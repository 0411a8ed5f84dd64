/* SPDX-License-Identifier: MIT */
/*
 * Goal: a stack that ends inside a call of the runtime is an overflow of its task, never one of the
 *       runtime: nothing stays locked, and whatever the call was made on works afterwards.
 * Method: a task recurses in small steps and makes the call at every depth, until its stack is
 *         full. Then the same objects are used by another task, with a deadline that a lock that is
 *         still held would never reach. Every call that locks or parks is in the table, each where
 *         it completes at once, where it waits, or where it wakes somebody.
 */
#include "api/in_runtime.h"

#if !SANITIZED /* their frames are of other sizes, and they do not know stacks left by a fault */

#include <fcntl.h>
#include <unistd.h>

struct scene {
    struct kin_chan *chan, *rendezvous;
    struct kin_spsc *spsc;
    struct kin_mpsc *mpsc;
    struct kin_broadcast *news;
    struct kin_subscriber *reader;
    struct kin_watch *watch;
    struct kin_mutex mutex;
    struct kin_rwlock rwlock;
    struct kin_cond cond;
    struct kin_sem sem;
    struct kin_event event;
    struct kin_group group;
    struct kin_once once;
    struct kin_barrier barrier;
    struct kin_nursery *owned;
    struct kin_task_ref self;
    int null_fd, ends[2];
};

typedef void call_fn(struct scene *s);

/* Long ago: who would have to wait gets in line and leaves again, without sleeping. */
static kin_time past(void)
{
    return 1;
}

static void use_chan(struct scene *s)
{
    int item = 1;
    if (kin_chan_send(s->chan, &item, past()) == 0)
        kin_ignore(kin_chan_recv(s->chan, &item, past()));
}

static void wait_chan(struct scene *s)
{
    int item = 1;
    kin_ignore(kin_chan_recv(s->rendezvous, &item, past()));
    kin_ignore(kin_chan_send(s->rendezvous, &item, past()));
}

static void make_chan(struct scene *s)
{
    struct kin_chan *chan;
    (void)s;
    if (kin_chan_create(&chan, 0, 0) == 0) { /* of signals: no memory but its own */
        kin_chan_close(chan);
        kin_chan_abort(chan);
        kin_chan_unref(kin_chan_ref(chan));
        kin_chan_unref(chan);
    }
}

static void use_select(struct scene *s)
{
    int item = 1;
    struct kin_case cases[4] = {kin_case_recv(s->rendezvous, &item),
                                kin_case_send(s->rendezvous, &item), kin_case_event(&s->event),
                                kin_case_after(KIN_SEC(1000))};
    struct kin_case outside[4] = {kin_case_task(s->self), kin_case_recv(s->rendezvous, &item),
                                  kin_case_read(s->ends[0]), kin_case_after(KIN_SEC(1000))};
    kin_ignore(kin_select(cases, 4, past()));
    kin_ignore(kin_select_ordered(cases, 2, 0));
    kin_ignore(kin_select(outside, 4, past()));
}

static void use_mutex(struct scene *s)
{
    if (kin_mutex_lock(&s->mutex, past()) == 0)
        kin_mutex_unlock(&s->mutex);
}

static void use_rwlock(struct scene *s)
{
    if (kin_rwlock_read_lock(&s->rwlock, past()) == 0)
        kin_rwlock_read_unlock(&s->rwlock);
    if (kin_rwlock_write_lock(&s->rwlock, past()) == 0)
        kin_rwlock_write_unlock(&s->rwlock);
}

static void use_events(struct scene *s)
{
    kin_ignore(kin_event_wait(&s->event, past()));
    kin_event_set(&s->event);
    kin_event_reset(&s->event);
    kin_group_add(&s->group, 1);
    kin_ignore(kin_group_wait(&s->group, past()));
    kin_group_done(&s->group);
}

static void use_sem(struct scene *s)
{
    kin_sem_release(&s->sem, 1);
    kin_ignore(kin_sem_acquire(&s->sem, 1, past()));
    kin_ignore(kin_sem_acquire(&s->sem, SIZE_MAX, past()));
}

static void use_barrier(struct scene *s)
{
    kin_ignore(kin_barrier_wait(&s->barrier, past()));
    kin_cond_signal(&s->cond);
    kin_cond_broadcast(&s->cond);
}

static void use_streams(struct scene *s)
{
    int item = 1;
    uint64_t version = 0;
    kin_ignore(kin_broadcast_send(s->news, &item, past()));
    kin_ignore(kin_broadcast_recv(s->reader, &item, NULL, past()));
    kin_ignore(kin_watch_set(s->watch, &item));
    kin_ignore(kin_watch_wait(s->watch, &item, &version, past()));
    kin_ignore(kin_watch_wait(s->watch, &item, &version, past()));
}

static void use_queues(struct scene *s)
{
    int item = 1;
    if (kin_spsc_send(s->spsc, &item, past()) == 0)
        kin_ignore(kin_spsc_recv(s->spsc, &item, past()));
    if (kin_mpsc_send(s->mpsc, &item, past()) == 0)
        kin_ignore(kin_mpsc_recv(s->mpsc, &item, past()));
    kin_ignore(kin_mpsc_recv(s->mpsc, &item, past()));
}

static void use_views(struct scene *s)
{
    struct kin_outcome how;
    kin_ignore(kin_lock_cycles(s->null_fd));
    (void)kin_nursery_errors(s->owned, &how, 1);
    (void)kin_nursery_errors_dropped(s->owned);
    (void)kin_nursery_budget_left(s->owned);
    (void)kin_budget_left();
}

static void use_masks(struct scene *s)
{
    (void)s;
    kin_mask();
    kin_ignore(kin_checkpoint());
    kin_unmask();
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static void use_tasks(struct scene *s)
{
    struct kin_branch b[2] = {{do_nothing, NULL, {KIN_SEV_OK, 0, 0, 0, ""}},
                              {do_nothing, NULL, {KIN_SEV_OK, 0, 0, 0, ""}}};
    (void)s;
    kin_ignore(kin_all(b, 2));
    kin_ignore(kin_hedge(b, 2, 1, NULL));
}

static const struct {
    const char *name;
    call_fn *call;
} calls[] = {
    {"channel", use_chan},      {"channel, waiting", wait_chan}, {"channel, made", make_chan},
    {"select", use_select},     {"mutex", use_mutex},            {"rwlock", use_rwlock},
    {"events", use_events},     {"semaphore", use_sem},          {"barrier, cond", use_barrier},
    {"streams", use_streams},   {"queues", use_queues},          {"views", use_views},
    {"masks", use_masks},       {"tasks", use_tasks},
};
enum { CALLS = sizeof calls / sizeof calls[0] };

/* ---- falling off the end of a stack ---- */

static volatile int sink;

__attribute__((noinline)) static int call_at_every_depth(call_fn *call, struct scene *s, int depth)
{
    volatile char room[32];
    room[0] = (char)depth;
    if (depth < 0)
        return 0;
    call(s);
    int below = call_at_every_depth(call, s, depth + 1);
    room[1] = (char)below;
    return room[0] + room[1];
}

struct fall {
    struct scene *s;
    call_fn *call;
};

static int fall_off(void *arg)
{
    struct fall *fall = arg;
    sink = call_at_every_depth(fall->call, fall->s, 0);
    return 0;
}

/* Nothing is locked: everything can be used, and is left as it was. */
static int use_all_again(void *arg)
{
    struct scene *s = arg;
    int item = 1;
    uint64_t version = 0;
    while (kin_chan_recv(s->chan, &item, 0) == 0)
        ; /* ends: what was sent before the overflow */
    EXPECT_EQ(kin_chan_send(s->chan, &item, 0), 0);
    EXPECT_EQ(kin_chan_recv(s->chan, &item, 0), 0);
    EXPECT_EQ(kin_chan_recv(s->rendezvous, &item, 0), KIN_EMPTY);
    EXPECT_EQ(kin_chan_send(s->rendezvous, &item, 0), KIN_FULL);
    kin_event_set(&s->event);
    EXPECT_EQ(kin_event_wait(&s->event, 0), 0);
    kin_event_reset(&s->event);
    kin_sem_release(&s->sem, 1);
    EXPECT_EQ(kin_sem_acquire(&s->sem, 1, 0), 0);
    EXPECT_EQ(kin_barrier_wait(&s->barrier, 0), KIN_TIMEOUT);
    kin_cond_broadcast(&s->cond);
    EXPECT_EQ(kin_broadcast_send(s->news, &item, 0), 0);
    EXPECT_EQ(kin_broadcast_recv(s->reader, &item, NULL, 0), 0);
    EXPECT_EQ(kin_watch_set(s->watch, &item), 0);
    EXPECT_EQ(kin_watch_wait(s->watch, &item, &version, 0), 0);
    kin_ignore(kin_nursery_errors(s->owned, NULL, 0) == 0);
    EXPECT_EQ(kin_spawn(s->owned, do_nothing, NULL), 0);
    /* a lock that the overflow left locked belongs to a task that is over: that is told */
    int rc = kin_mutex_lock(&s->mutex, 0);
    EXPECT(rc == 0 || rc == -EOWNERDEAD);
    if (rc == 0)
        kin_mutex_unlock(&s->mutex);
    rc = kin_rwlock_write_lock(&s->rwlock, 0);
    EXPECT(rc == 0 || rc == -EOWNERDEAD || rc == KIN_TIMEOUT); /* readers are not known */
    if (rc == 0)
        kin_rwlock_write_unlock(&s->rwlock);
    return 0;
}

static void scene_open(struct scene *s)
{
    int item = 0;
    memset(s, 0, sizeof *s);
    s->self = kin_self();
    EXPECT_EQ(kin_chan_create(&s->chan, sizeof item, 4), 0);
    EXPECT_EQ(kin_chan_create(&s->rendezvous, sizeof item, 0), 0);
    EXPECT_EQ(kin_spsc_create(&s->spsc, sizeof item, 4), 0);
    EXPECT_EQ(kin_mpsc_create(&s->mpsc, sizeof item, 4), 0);
    EXPECT_EQ(kin_broadcast_create(&s->news, sizeof item, 4, KIN_BROADCAST_LAG), 0);
    EXPECT_EQ(kin_broadcast_subscribe(s->news, &s->reader), 0);
    EXPECT_EQ(kin_watch_create(&s->watch, sizeof item, &item), 0);
    EXPECT_EQ(kin_barrier_init(&s->barrier, 2), 0);
    s->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    EXPECT_GE(s->null_fd, 0);
    EXPECT_EQ(pipe2(s->ends, O_CLOEXEC), 0);
}

static void scene_close(struct scene *s)
{
    kin_chan_unref(s->chan);
    kin_chan_unref(s->rendezvous);
    kin_spsc_unref(s->spsc);
    kin_mpsc_unref(s->mpsc);
    kin_subscriber_unref(s->reader);
    kin_broadcast_unref(s->news);
    kin_watch_unref(s->watch);
    EXPECT_EQ(close(s->null_fd), 0);
    EXPECT_EQ(kin_close(s->ends[0]), 0);
    EXPECT_EQ(kin_close(s->ends[1]), 0);
}

static int fall_in_every_call(void *arg)
{
    (void)arg;
    for (int i = 0; i < CALLS; i++) {
        for (int round = 0; round < 3; round++) { /* the end of a stack is another one each time */
            static struct scene s;
            struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
            struct fall fall = {&s, calls[i].call};
            scene_open(&s);
            KIN_NURSERY(owned, .on_error = KIN_COLLECT);
            s.owned = &owned;
            KIN_NURSERY(n);
            options.stack_max_bytes = 16384; /* fewer depths, and as many ends */
            options.name = calls[i].name;
            EXPECT_EQ(kin_spawn_with(&n, &options, fall_off, &fall, 0, NULL), 0);
            EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
            EXPECT_EQ(use_all_again(&s), 0);
            EXPECT_EQ(kin_nursery_join(&owned, NULL), 0);
            scene_close(&s);
        }
    }
    return 0;
}

KIN_TEST_LIMIT(a_stack_that_ends_inside_a_call_leaves_nothing_locked, "C8", 120)
{
    EXPECT_EQ(run_reporting(1, fall_in_every_call, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, fall_in_every_call, NULL, NULL), 0);
}

#endif
