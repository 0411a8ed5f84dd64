/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of other runtimes ask of tasks that are started from outside, started with a
 *       handshake, watched for their cancellation, slow to end, and on stacks of every size. Each
 *       test names the cases it covers (G: Go, T: Trio, D: libdill, N: neco).
 * Method: one body per case, on 1, 2 and 4 workers; but for stacks, whose memory is taken away
 *         behind the scenes, black box.
 */
#include "api/in_runtime.h"

#include "sched/sched.h"

#include <pthread.h>

/* Runs a list of bodies one after the other. */
#define RUN_ALL(...)                                                                               \
    do {                                                                                           \
        kin_task_fn *const bodies_[] = {__VA_ARGS__};                                              \
        for (size_t i_ = 0; i_ < sizeof bodies_ / sizeof bodies_[0]; i_++)                         \
            run_on_few(bodies_[i_], NULL);                                                         \
    } while (0)

/* ---- functions that run after a cancel ---- */

/* A function that runs when its scope is cancelled is a child that waits for that, and a task
 * cancel of the child alone is what stops it. */
struct after {
    _Atomic int waits, ran, go_on;
};

static int run_after_the_cancel(void *arg)
{
    struct after *after = arg;
    atomic_fetch_add(&after->waits, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    if (kin_cancel_reason() != KIN_CANCELLED) { /* else it was stopped */
        while (atomic_load(&after->go_on) == 0)
            kin_ignore(kin_yield());
        atomic_fetch_add(&after->ran, 1);
    }
    return KIN_CANCELLED;
}

/* G108: called once after the cancel, however often that comes; G110: by another task than the one
 * that cancels, which goes on. */
static int called_once_and_elsewhere(void *arg)
{
    struct after after = {0};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, run_after_the_cancel, &after), 0);
    await(&after.waits, 1);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&after.ran), 0);
    for (int i = 0; i < 3; i++)
        kin_nursery_cancel(&n, -EPIPE);
    EXPECT_EQ(atomic_load(&after.ran), 0); /* the cancel has returned, and it cannot have run */
    atomic_store(&after.go_on, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    EXPECT_EQ(atomic_load(&after.ran), 1);
    return 0;
}

/* G109: one that was stopped before is not called. */
static int stopped_before(void *arg)
{
    struct after after = {.go_on = 1};
    struct kin_task_ref ref;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, run_after_the_cancel, &after, 0, &ref), 0);
    await(&after.waits, 1);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    kin_nursery_cancel(&n, -EPIPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    EXPECT_EQ(atomic_load(&after.ran), 0);
    return 0;
}

/* G111: in a scope that is cancelled already it does not wait. Nothing can be spawned there, so the
 * one who would wait is told at once. */
static int cancelled_already(void *arg)
{
    struct after after = {.go_on = 1};
    KIN_NURSERY(n);
    (void)arg;
    kin_nursery_cancel(&n, -EPIPE);
    EXPECT_EQ(kin_spawn(&n, run_after_the_cancel, &after), KIN_NOSCOPE);
    EXPECT_EQ(run_after_the_cancel(&after), KIN_CANCELLED); /* the owner itself */
    EXPECT_EQ(atomic_load(&after.ran), 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    return 0;
}

KIN_TEST(functions_that_run_after_a_cancel, "NSM:4.2 B12 NSM:3.1")
{
    RUN_ALL(called_once_and_elsewhere, stopped_before, cancelled_already);
}

/* ---- started from outside ---- */

struct outside {
    struct kin_nursery *n;
    struct kin_chan *chan;
    _Atomic int ran, refused, stop;
    int count;
};

/* Spawns count tasks. */
static void *spawn_from_outside(void *arg)
{
    struct outside *outside = arg;
    for (int i = 0; i < outside->count; i++) {
        int rc = kin_spawn(outside->n, count_it, &outside->ran);
        EXPECT(rc == 0 || rc == KIN_NOSCOPE);
        atomic_fetch_add(&outside->refused, rc != 0);
    }
    return NULL;
}

/* T033: a thread starts a task. T040: very many of them. */
static int basic_and_massive(void *arg)
{
    (void)arg;
    for (int count = 1; count <= 20000; count *= 20000) {
        struct outside outside = {.count = count};
        pthread_t thread;
        KIN_NURSERY(n);
        outside.n = &n;
        EXPECT_EQ(pthread_create(&thread, NULL, spawn_from_outside, &outside), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(atomic_load(&outside.ran), count);
    }
    return 0;
}

/* T034: too late is an answer, and nothing runs. */
static int too_late(void *arg)
{
    struct outside outside = {.count = 10};
    struct kin_nursery n;
    pthread_t thread;
    (void)arg;
    outside.n = &n;
    for (int way = 0; way < 3; way++) {
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
        if (way == 0)
            kin_nursery_close(&n);
        else if (way == 1)
            kin_nursery_cancel(&n, 0);
        else
            EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(pthread_create(&thread, NULL, spawn_from_outside, &outside), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        kin_ignore(kin_nursery_join(&n, NULL));
    }
    EXPECT_EQ(atomic_load(&outside.ran), 0);
    EXPECT_EQ(atomic_load(&outside.refused), 30);
    return 0;
}

/* T037: what one thread hands over arrives in its order. */
static void *send_in_order(void *arg)
{
    struct outside *outside = arg;
    for (int i = 0; i < outside->count; i++)
        EXPECT_EQ(kin_chan_send(outside->chan, &i, KIN_NEVER), 0);
    kin_chan_close(outside->chan);
    return NULL;
}

static int in_order(void *arg)
{
    struct outside outside = {.count = 2000};
    pthread_t thread;
    int expected = 0, item;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&outside.chan, sizeof(int), 16), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, send_in_order, &outside), 0);
    while (kin_chan_recv(outside.chan, &item, KIN_NEVER) == 0)
        EXPECT_EQ(item, expected++);
    EXPECT_EQ(expected, outside.count);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    kin_chan_unref(outside.chan);
    return 0;
}

/* T038: a task that starts its own successor, again and again, starves nobody. */
static int start_the_next(void *arg)
{
    struct outside *outside = arg;
    atomic_fetch_add(&outside->ran, 1);
    if (atomic_load(&outside->stop) == 0)
        kin_ignore(kin_spawn(outside->n, start_the_next, outside));
    return 0;
}

static int no_starvation(void *arg)
{
    struct outside outside = {0};
    KIN_NURSERY(n);
    (void)arg;
    outside.n = &n;
    EXPECT_EQ(kin_spawn(&n, start_the_next, &outside), 0);
    for (int i = 0; i < 20; i++) /* ends: this task gets its turns, */
        EXPECT_EQ(kin_yield(), 0);
    await(&outside.ran, 10); /* and so do the others */
    atomic_store(&outside.stop, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

/* T035 T036 T039: threads start tasks, and wake one that waits, while others do; waking twice is
 * waking once. */
enum { THREADS = 3, EACH = 300 };

struct stress {
    struct kin_nursery *n;
    struct kin_event woken;
    _Atomic int ran, accepted;
};

static void *start_and_wake(void *arg)
{
    struct stress *stress = arg;
    for (int i = 0; i < EACH; i++) {
        int rc = kin_spawn(stress->n, count_it, &stress->ran);
        EXPECT(rc == 0 || rc == KIN_NOSCOPE);
        atomic_fetch_add(&stress->accepted, rc == 0);
        kin_event_set(&stress->woken);
        kin_event_set(&stress->woken);
    }
    return NULL;
}

static int threaded_stress(void *arg)
{
    struct stress stress = {0};
    pthread_t threads[THREADS];
    KIN_NURSERY(n);
    (void)arg;
    stress.n = &n;
    for (int i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, start_and_wake, &stress), 0);
    while (atomic_load(&stress.ran) < THREADS * EACH) {
        EXPECT_EQ(kin_event_wait(&stress.woken, KIN_NEVER), 0);
        kin_event_reset(&stress.woken);
        if (atomic_load(&stress.accepted) == THREADS * EACH)
            kin_event_set(&stress.woken); /* nobody else does any more */
        EXPECT_EQ(kin_yield(), 0);
    }
    for (int i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&stress.ran), THREADS * EACH);
    return 0;
}

KIN_TEST(tasks_that_threads_start, "NSM:3.1 B9 F4")
{
    RUN_ALL(basic_and_massive, too_late, in_order, no_starvation, threaded_stress);
}

/* ---- slow to end ---- */

struct slow {
    _Atomic int started, cancels_seen, finish;
};

/* Ends only when somebody lets it; its cleanup runs once, however many cancels come. */
static void note_the_cancel(void *arg)
{
    struct slow *slow = arg;
    atomic_fetch_add(&slow->cancels_seen, 1);
    kin_mask();
    while (atomic_load(&slow->finish) == 0)
        EXPECT_EQ(kin_yield(), 0); /* held back */
    kin_unmask();
}

static int be_slow(void *arg)
{
    struct slow *slow = arg;
    EXPECT_EQ(kin_defer(note_the_cancel, slow), 0);
    atomic_store(&slow->started, 1);
    return kin_sleep(KIN_NEVER);
}

/* T041: a task that takes its time is waited for. T042: two cancels are one end, and a mask that is
 * put on after the cancel came holds back what comes, not what has been seen. */
static int slow_ends(void *arg)
{
    struct slow slow = {0};
    struct kin_task_ref ref;
    struct kin_outcome how;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, be_slow, &slow, 0, &ref), 0);
    await(&slow.started, 1);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    await(&slow.cancels_seen, 1);
    EXPECT_EQ(kin_task_cancel(ref), 0); /* while it cleans up */
    EXPECT_EQ(kin_task_join(&n, ref, &how, 0), KIN_TIMEOUT); /* and it is not over */
    EXPECT_EQ(kin_nursery_poll(&n, NULL), KIN_EMPTY);
    atomic_store(&slow.finish, 1);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(atomic_load(&slow.cancels_seen), 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* cancelled alone: no failure */
    return 0;
}

KIN_TEST(tasks_that_are_slow_to_end, "B7 B12 NSM-2")
{
    RUN_ALL(slow_ends);
}

/* ---- a start with a handshake ---- */

/* What a child gets that is to say when it is ready. */
struct started {
    struct kin_chan *ready; /* of an int; one fits */
    int how;                /* what the child does */
    int second;             /* what its second word was answered with */
};

enum { SAY_AND_STAY, SAY_TWICE, FAIL_BEFORE, END_SILENTLY, NEVER_SAY };

static int be_started(void *arg)
{
    struct started *started = arg;
    int value = 42;
    switch (started->how) {
    case FAIL_BEFORE:
        return -EIO;
    case END_SILENTLY:
        return 0;
    case NEVER_SAY:
        return kin_sleep(KIN_NEVER);
    default:
        EXPECT_EQ(kin_chan_send(started->ready, &value, KIN_NEVER), 0);
        if (started->how == SAY_TWICE) {
            while (!kin_chan_is_closed(started->ready))
                EXPECT_EQ(kin_yield(), 0);
            started->second = kin_chan_send(started->ready, &value, KIN_NEVER);
            return 0;
        }
        return kin_sleep(KIN_NEVER);
    }
}

/* Starts a child and waits until it is ready: its value, or why there is none. */
static int start(struct kin_nursery *n, struct started *started, kin_time deadline)
{
    struct kin_task_ref ref;
    struct kin_outcome how;
    int value = -1;
    int rc = kin_spawn_with(n, NULL, be_started, started, 0, &ref);
    if (rc < 0)
        return rc;
    struct kin_case cases[] = {kin_case_recv(started->ready, &value), kin_case_task(ref)};
    rc = kin_select_ordered(cases, 2, deadline);
    kin_chan_close(started->ready);
    if (rc < 0) {
        EXPECT_EQ(kin_task_cancel(ref), 0);
        return rc;
    }
    if (rc == 0)
        return value;
    EXPECT_EQ(kin_task_join(n, ref, &how, 0), 0);
    return how.severity == KIN_SEV_OK ? -EPROTO : how.status; /* it never said so */
}

/* T047 T048 T049 T050 T051 */
static int handshakes(void *arg)
{
    static const struct {
        int how, expected, joined;
    } shapes[] = {{SAY_AND_STAY, 42, KIN_CANCELLED},
                  {SAY_TWICE, 42, 0},
                  {FAIL_BEFORE, -EIO, -EIO},
                  {END_SILENTLY, -EPROTO, 0},
                  {NEVER_SAY, KIN_TIMEOUT, 0}};
    (void)arg;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct started started = {.how = shapes[i].how, .second = 1};
        kin_time deadline = shapes[i].how == NEVER_SAY ? kin_after(KIN_MS(1)) : KIN_NEVER;
        EXPECT_EQ(kin_chan_create(&started.ready, sizeof(int), 1), 0);
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        EXPECT_EQ(start(&n, &started, deadline), shapes[i].expected);
        if (shapes[i].how == SAY_AND_STAY)
            kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), shapes[i].joined);
        EXPECT_EQ(started.second, shapes[i].how == SAY_TWICE ? KIN_CLOSED : 1);
        kin_chan_unref(started.ready);
    }
    return 0;
}

/* T052 T053: into a nursery that admits nobody; and the starter is cancelled while it waits. T054:
 * while somebody starts a child the nursery is not over. */
struct starter {
    struct kin_nursery *n;
    struct started *started;
    _Atomic int begun, rc;
};

static int start_elsewhere(void *arg)
{
    struct starter *starter = arg;
    atomic_store(&starter->begun, 1);
    struct kin_task_ref ref;
    int rc = kin_spawn_with(starter->n, NULL, be_started, starter->started, 0, &ref);
    if (rc == 0) {
        int value = -1;
        rc = kin_chan_recv(starter->started->ready, &value, KIN_NEVER);
    }
    atomic_store(&starter->rc, rc);
    return rc;
}

static int start_in_ended_ones(void *arg)
{
    struct started started = {.how = NEVER_SAY};
    struct starter starter = {.started = &started, .rc = 1};
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&started.ready, sizeof(int), 1), 0);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    kin_nursery_cancel(&n, -EPIPE);
    EXPECT_EQ(start(&n, &started, KIN_NEVER), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    EXPECT_EQ(start(&n, &started, KIN_NEVER), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    starter.n = &n;
    {
        KIN_NURSERY(inner);
        EXPECT_EQ(kin_spawn(&inner, start_elsewhere, &starter), 0);
        await(&starter.begun, 1);
        for (int i = 0; i < 10; i++)
            EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(kin_nursery_poll(&n, NULL), KIN_EMPTY);
        kin_nursery_cancel(&inner, -EIO);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), -EIO);
        int rc = atomic_load(&starter.rc); /* 1: it was cancelled before it ran */
        EXPECT(rc == KIN_CANCELLED || rc == 1);
    }
    kin_nursery_cancel(&n, -EPIPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    kin_chan_unref(started.ready);
    return 0;
}

KIN_TEST(tasks_that_say_when_they_have_started, "A10 SCHED:15.2.2 NSM:3.1")
{
    RUN_ALL(handshakes, start_in_ended_ones);
}

/* ---- stacks ---- */

/* Fills some of the stack and calls fn at the bottom of it. */
static __attribute__((noinline)) int with_deep_stack(int (*fn)(void *arg), void *arg, int levels)
{
    volatile unsigned char room[512];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = (unsigned char)(i * 3 + (size_t)levels);
    int rc = levels == 0 ? fn(arg) : with_deep_stack(fn, arg, levels - 1);
    for (size_t i = 0; i < sizeof room; i++)
        EXPECT_EQ(room[i], (unsigned char)(i * 3 + (size_t)levels)); /* nobody took it away */
    return rc;
}

struct exchange {
    struct kin_chan *chan;
    int levels;
    bool sends;
    _Atomic int *parked;
};

static int exchange_one(void *arg)
{
    struct exchange *exchange = arg;
    unsigned char slot[1000]; /* on this stack, written and read by the partner */
    memset(slot, exchange->sends ? exchange->levels + 1 : 0, sizeof slot);
    atomic_fetch_add(exchange->parked, 1);
    int rc = exchange->sends ? kin_chan_send(exchange->chan, slot, KIN_NEVER)
                             : kin_chan_recv(exchange->chan, slot, KIN_NEVER);
    for (size_t i = 1; i < sizeof slot; i++)
        EXPECT_EQ(slot[i], slot[0]);
    EXPECT_NE(slot[0], 0);
    return rc;
}

static int exchange_deep(void *arg)
{
    struct exchange *exchange = arg;
    return with_deep_stack(exchange_one, exchange, exchange->levels);
}

/* Comes and goes, so that there are stacks to take memory from. */
static int touch_a_stack(void *arg)
{
    (void)arg;
    return kin_sleep(kin_after(KIN_US(1)));
}

enum { PARKED = 60 };

/* G021: the memory of stacks is taken away while tasks are parked in sends and receives; what is on
 * their stacks stays. G022: and while they park. */
static int reclaim_while_parked(void *arg)
{
    static struct exchange exchanges[2][PARKED];
    _Atomic int parked = 0;
    struct kin_chan *chans[PARKED];
    struct kin__sched *sched = kin__worker_self()->sched;
    (void)arg;
    KIN_NURSERY(n);
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < PARKED; i++) {
            if (half == 0)
                EXPECT_EQ(kin_chan_create(&chans[i], 1000, 0), 0);
            exchanges[half][i] = (struct exchange){chans[i], i, (i + half) % 2, &parked};
            EXPECT_EQ(kin_spawn(&n, exchange_deep, &exchanges[half][i]), 0);
            EXPECT_EQ(kin_spawn(&n, touch_a_stack, NULL), 0);
            (void)kin__stack_trim(&sched->stacks, SIZE_MAX);
        }
        if (half == 0) {
            await(&parked, PARKED);
            for (int i = 0; i < 20; i++) {
                EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
                (void)kin__stack_trim(&sched->stacks, SIZE_MAX);
            }
        }
    }
    while (atomic_load(&parked) < 2 * PARKED) {
        (void)kin__stack_trim(&sched->stacks, SIZE_MAX);
        EXPECT_EQ(kin_yield(), 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < PARKED; i++)
        kin_chan_unref(chans[i]);
    return 0;
}

/* D007: stacks of the size that one asks for, small ones too. D048: a stack is used again, and what
 * the last one left there matters to nobody. D047: very many tasks, one after the other. */
static int use_some_stack(void *arg)
{
    (void)arg;
    volatile unsigned char room[1500];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0xa5;
    EXPECT_EQ(kin_yield(), 0);
    for (size_t i = 0; i < sizeof room; i++)
        EXPECT_EQ(room[i], 0xa5);
    return 0;
}

static int stacks_of_every_size(void *arg)
{
    static const size_t sizes[] = {1, 4096, 16384, 100000, (size_t)1 << 20, (size_t)16 << 20};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_stats before, after;
    enum { MANY = 3000 };
    (void)arg;
    for (int round = 0; round < 2; round++) {
        KIN_NURSERY(n);
        for (int i = 0; i < 600; i++) {
            options.stack_max_bytes = sizes[i % (int)(sizeof sizes / sizeof sizes[0])];
            if (SANITIZED && options.stack_max_bytes < 65536)
                options.stack_max_bytes = 65536; /* their frames are larger */
            EXPECT_EQ(kin_spawn_with(&n, &options, use_some_stack, NULL, 0, NULL), 0);
            if (i % 6 == 5)
                EXPECT_EQ(kin_yield(), 0);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    EXPECT_EQ(kin_stats_get(&before), 0);
    for (int i = 0; i < MANY; i++) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, use_some_stack, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    EXPECT_EQ(kin_stats_get(&after), 0);
    EXPECT_LT(after.stacks - before.stacks, MANY / 2); /* workers keep some, and use them again */
    return 0;
}

/* D008: a nursery opened by a task that was spawned itself. */
static int open_one_more(void *arg)
{
    int left = *(int *)arg - 1;
    KIN_NURSERY(n);
    if (left > 0)
        EXPECT_EQ(kin_spawn(&n, open_one_more, &left), 0);
    return kin_nursery_join(&n, NULL);
}

static int bundles_in_bundles(void *arg)
{
    int levels = 20;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, open_one_more, &levels), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(stacks_are_reclaimed_behind_nobody_s_back, "SCHED:5.3.1 C4")
{
    RUN_ALL(reclaim_while_parked, stacks_of_every_size, bundles_in_bundles);
}

/* D053: threads with runtimes of their own, each with all of it. */
static void *run_all_of_it(void *arg)
{
    EXPECT_EQ(run_reporting(1, bundles_in_bundles, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, slow_ends, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(1, handshakes, NULL, NULL), 0);
    return arg;
}

KIN_TEST(threads_with_runtimes_of_their_own, "SCHED:6.2.1")
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_all_of_it, NULL), 0);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
}
