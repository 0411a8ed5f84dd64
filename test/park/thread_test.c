/* SPDX-License-Identifier: MIT */
/*
 * Goal: a plain thread waits where a task would park: it gets what it is given, exactly once, or
 *       hears of its deadline, and leaves nothing behind.
 * Method: white box: a box of items as the thing to wait for, threads without any runtime, wakes at
 *         every moment; then tasks of a runtime on the other side.
 */
#include "api/in_runtime.h"

#include "base/lock.h"
#include "park/thread.h"
#include "park/waitq.h"
#include "plat/plat.h"
#include "sched/blocks.h"
#include "wait/timer.h"

#include <pthread.h>
#include <sched.h>

/* Items to be taken, one by one; io: where the item goes. */
struct box {
    struct kin__lock lock;
    struct kin__waitq waiters;
    int items[64];
    int count;
};

static bool take_locked(struct box *box, int *item)
{
    if (box->count == 0)
        return false;
    *item = box->items[--box->count];
    return true;
}

static bool box_try(void *object, void *io, int *status)
{
    struct box *box = object;
    kin__lock_take(&box->lock, KIN__RANK_WAIT);
    bool is_taken = take_locked(box, io);
    kin__lock_give(&box->lock, KIN__RANK_WAIT);
    *status = 0;
    return is_taken;
}

static bool box_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct box *box = object;
    (void)status;
    kin__lock_take(&box->lock, KIN__RANK_WAIT);
    bool links = box->count == 0;
    if (links)
        kin__waitq_push(&box->waiters, waiter);
    kin__lock_give(&box->lock, KIN__RANK_WAIT);
    return links;
}

static void box_unpublish(void *object, struct kin__waiter *waiter)
{
    struct box *box = object;
    kin__lock_take(&box->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    kin__lock_give(&box->lock, KIN__RANK_WAIT);
}

static const struct kin__waitable box_waitable = {
    .what = "box",
    .try_complete = box_try,
    .publish = box_publish,
    .unpublish = box_unpublish,
};

/* Hands an item to whoever waits, or keeps it. */
static void put(struct box *box, int item)
{
    struct kin__claimed claimed;
    struct kin__wakes wakes = {0};
    kin__lock_take(&box->lock, KIN__RANK_WAIT);
    if (kin__waitq_claim(&box->waiters, &claimed)) {
        *(int *)claimed.io = item;
        kin__wakes_add(&wakes, &claimed, 7);
    } else {
        EXPECT_LT(box->count, 64);
        box->items[box->count++] = item;
    }
    kin__lock_give(&box->lock, KIN__RANK_WAIT);
    kin__wakes_run(&wakes);
}

static int take(struct box *box, int *item, kin_time deadline)
{
    return kin__wait_until(&box_waitable, box, item, deadline, KIN__WAIT_THREAD);
}

KIN_TEST(what_is_there_is_taken_at_once_and_a_deadline_of_0_does_not_wait, "CH:5.1")
{
    struct box box = {0};
    int item = -1;
    EXPECT_EQ(take(&box, &item, 0), KIN_TIMEOUT);
    EXPECT_EQ(take(&box, &item, -1), KIN_TIMEOUT);
    EXPECT_EQ(take(&box, &item, 1), KIN_TIMEOUT); /* long past */
    EXPECT_EQ(take(&box, &item, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(item, -1);
    EXPECT(kin__waitq_is_empty(&box.waiters)); /* whoever left is not there any more */
    put(&box, 5);
    EXPECT_EQ(take(&box, &item, 0), 0);
    EXPECT_EQ(item, 5);
    put(&box, 6);
    EXPECT_EQ(take(&box, &item, KIN_NEVER), 0);
    EXPECT_EQ(item, 6);
    /* only where it is allowed */
    EXPECT_EQ(kin__wait_until(&box_waitable, &box, &item, KIN_NEVER, 0), KIN_NOTASK);
}

/* The frame that a thread would wait with now. */
static struct kin__frame *next_frame(void)
{
    struct kin__frame *frame = kin__block_take(KIN__FRAME_TASK);
    EXPECT(frame != NULL);
    kin__block_give(KIN__FRAME_TASK, frame);
    return frame;
}

KIN_TEST(a_wait_gives_its_frame_back_and_takes_nothing_of_its_last_life_over, "ABA:8.3 F4")
{
    struct box box = {0};
    int item = -1;
    struct kin__frame *frame = next_frame();
    EXPECT_EQ(take(&box, &item, kin_after(1)), KIN_TIMEOUT);
    EXPECT_PTR(next_frame(), frame);
    /* relaxed: nobody else has it */
    kin__store_relaxed(&kin__task_of_frame(frame)->woken, 1u); /* as after a wake */
    EXPECT_EQ(take(&box, &item, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(item, -1);
    EXPECT_PTR(next_frame(), frame);
}

/* ---- one waits, one gives ---- */

struct pair {
    struct box box;
    _Atomic int started;
    int got, rc;
};

static void *be_taker(void *arg)
{
    struct pair *pair = arg;
    atomic_store(&pair->started, 1);
    pair->rc = take(&pair->box, &pair->got, KIN_NEVER);
    return NULL;
}

KIN_TEST(a_thread_blocks_until_it_is_given_something, "F4 W:4.3")
{
    for (int i = 0; kin_test_goes_on((uint64_t)i, 2000 / kin_test_scale()); i++) {
        struct pair pair = {.got = -1};
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, be_taker, &pair), 0);
        while (i % 50 && !atomic_load(&pair.started)) /* ends: it runs soon */
            sched_yield();
        for (int k = i % 50 * 20; k > 0; k--) /* at every moment of its way into the wait */
            kin__cpu_relax();
        put(&pair.box, i);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        EXPECT_EQ(pair.got, i);
        EXPECT(pair.rc == 7 || pair.rc == 0); /* waited, or found it there */
    }
}

/* Claims whoever waits, and takes its time to deliver. False: nobody waits. */
static bool put_slowly(struct box *box, int item, int64_t ns)
{
    static kin__a32 never;
    struct kin__claimed claimed;
    struct kin__wakes wakes = {0};
    kin__lock_take(&box->lock, KIN__RANK_WAIT);
    bool is_claimed = kin__waitq_claim(&box->waiters, &claimed);
    if (is_claimed)
        kin__wakes_add(&wakes, &claimed, 7);
    kin__lock_give(&box->lock, KIN__RANK_WAIT);
    if (is_claimed) {
        (void)kin__futex_wait(&never, 0, ns);
        *(int *)claimed.io = item; /* its until the wake, whatever the clock says */
        kin__wakes_run(&wakes);
    }
    return is_claimed;
}

static void *be_taker_in_a_hurry(void *arg)
{
    struct pair *pair = arg;
    int item = -1;
    pair->rc = take(&pair->box, &item, kin_after(KIN_MS(20)));
    pair->got = item; /* as it is now: nobody writes it later */
    atomic_store(&pair->started, 1);
    return NULL;
}

KIN_TEST(a_thread_that_was_claimed_in_time_waits_for_what_it_is_given, "F4 A7")
{
    for (int delivered = 0; delivered < 3;) { /* ends: it is in time, as a rule */
        struct pair pair = {.got = -1};
        pthread_t thread;
        bool is_claimed = false;
        EXPECT_EQ(pthread_create(&thread, NULL, be_taker_in_a_hurry, &pair), 0);
        while (!is_claimed && atomic_load(&pair.started) == 0) {
            is_claimed = put_slowly(&pair.box, 9, KIN_MS(50)); /* past its deadline */
            sched_yield();
        }
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        EXPECT_EQ(pair.rc, is_claimed ? 7 : KIN_TIMEOUT);
        EXPECT_EQ(pair.got, is_claimed ? 9 : -1);
        delivered += is_claimed;
    }
}

/* ---- many, with deadlines that come at the moment of the wake ---- */

enum { TAKERS = 4, ITEMS = 3000 };

struct crowd {
    struct box box;
    _Atomic int taken;
    _Atomic int timeouts;
    _Atomic int is_over;
    _Atomic char seen[ITEMS];
};

static void *take_many(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t random = kin_test_seed() + (uint64_t)(uintptr_t)&random;
    while (!atomic_load(&crowd->is_over)) {
        int item = -1;
        random = random * 6364136223846793005u + 1442695040888963407u;
        int rc = take(&crowd->box, &item, kin_after((int64_t)(random >> 33) % 60000));
        if (rc == KIN_TIMEOUT) {
            EXPECT_EQ(item, -1); /* nothing was taken */
            atomic_fetch_add(&crowd->timeouts, 1);
            continue;
        }
        EXPECT(rc == 0 || rc == 7);
        EXPECT_EQ(atomic_fetch_add(&crowd->seen[item], 1), 0);
        atomic_fetch_add(&crowd->taken, 1);
    }
    return NULL;
}

KIN_TEST(of_many_threads_with_deadlines_each_item_reaches_one, "F4 A8 A10")
{
    static struct crowd crowd;
    const int items = ITEMS / (int)kin_test_scale();
    pthread_t threads[TAKERS];
    static kin__a32 never;
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    for (int i = 0; i < TAKERS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, take_many, &crowd), 0);
    for (int i = 0; i < items; i++) {
        put(&crowd.box, i);
        if (i % 3 == 0)
            (void)kin__futex_wait(&never, 0, 20000); /* a moment in which deadlines come */
        while (atomic_load(&crowd.taken) + 32 < i)
            sched_yield();
    }
    while (atomic_load(&crowd.taken) < items)
        sched_yield();
    atomic_store(&crowd.is_over, 1);
    for (int i = 0; i < TAKERS; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    EXPECT(kin__waitq_is_empty(&crowd.box.waiters));
    EXPECT_EQ(crowd.box.count, 0);
    printf("%d timeouts\n", atomic_load(&crowd.timeouts));
}

/* ---- threads and tasks ---- */

struct mixed {
    struct box to_threads, to_tasks;
    _Atomic int sum;
};

enum { EACH = 500 };

static void *answer(void *arg)
{
    struct mixed *mixed = arg;
    for (int i = 0; i < EACH; i++) {
        int item = 0;
        EXPECT_GE(take(&mixed->to_threads, &item, KIN_NEVER), 0);
        put(&mixed->to_tasks, item + 1);
    }
    return NULL;
}

static int ask(void *arg)
{
    struct mixed *mixed = arg;
    for (int i = 0; i < EACH; i++) {
        int item = 0;
        put(&mixed->to_threads, i);
        EXPECT_GE(take(&mixed->to_tasks, &item, KIN_NEVER), 0);
        atomic_fetch_add(&mixed->sum, item);
    }
    return 0;
}

static int ask_side_by_side(void *arg)
{
    struct mixed mixed;
    pthread_t threads[2];
    (void)arg;
    memset(&mixed, 0, sizeof mixed);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, answer, &mixed), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, ask, &mixed), 0);
    EXPECT_EQ(kin_spawn(&n, ask, &mixed), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    EXPECT_EQ(atomic_load(&mixed.sum), 2 * (EACH * (EACH - 1) / 2 + EACH));
    return 0;
}

KIN_TEST(threads_and_tasks_wake_each_other, "F4 W:4.3")
{
    run_on_few(ask_side_by_side, NULL);
}
