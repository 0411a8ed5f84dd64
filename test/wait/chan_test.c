/* SPDX-License-Identifier: MIT */
/*
 * Goal: the invariants at the head of chan.c hold after every step, whoever waits and whoever left.
 * Method: waiters that are made by hand, of tasks that nobody runs, so that every interleaving of a
 * claim with a step can be set up; then real tasks on 1, 2 and 4 workers, where the test looks into
 * the channel to know who waits. Memory that runs out is simulated.
 */
#include "kin_test.h"

#include "park/park.h"
#include "plat/plat.h"
#include "sched/sched.h"
#include "wait/chan.h"

#include <kin/kin.h>
#include <kin/chan.h>
#include <kin/select.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct kin__waitable *const sends = &kin__chan_send_waitable;
static const struct kin__waitable *const receives = &kin__chan_recv_waitable;

static struct kin_chan *make(size_t item_size, size_t capacity)
{
    struct kin_chan *chan = NULL;
    EXPECT_EQ(kin_chan_create(&chan, item_size, capacity), 0);
    return chan;
}

static unsigned linked(const struct kin__waitq *queue)
{
    unsigned count = 0;
    if (kin__waitq_is_empty(queue))
        return 0;
    for (const struct kin__list *link = queue->list.next; link != &queue->list; link = link->next)
        count++;
    return count;
}

/* What must hold whenever the lock is free, and how many wait in each direction. */
static void audit(struct kin_chan *chan, unsigned *sending, unsigned *receiving)
{
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    uint32_t state = kin__chan_state(chan);
    unsigned out = linked(&chan->senders), in = linked(&chan->receivers);
    EXPECT_EQ((state & KIN__CHAN_SENDERS) != 0, out != 0);
    EXPECT_EQ((state & KIN__CHAN_RECEIVERS) != 0, in != 0);
    EXPECT_GE(chan->pins, out + in);
    EXPECT_LE(kin__chan_count(chan), chan->capacity);
    if (state & (KIN__CHAN_ABORTED | KIN__CHAN_DEAD))
        EXPECT(state & KIN__CHAN_CLOSED);
    kin__lock_give(&chan->lock, KIN__RANK_WAIT);
    *sending = out;
    *receiving = in;
}

static void expect_waiting(struct kin_chan *chan, unsigned sending, unsigned receiving)
{
    unsigned out, in;
    audit(chan, &out, &in);
    EXPECT_EQ(out, sending);
    EXPECT_EQ(in, receiving);
}

/* Lets others run until so many wait. */
static void await_waiting(struct kin_chan *chan, unsigned sending, unsigned receiving)
{
    unsigned out, in;
    for (;;) { /* ends: with the alarm of the test */
        audit(chan, &out, &in);
        if (out == sending && in == receiving)
            return;
        kin_ignore(kin_yield());
    }
}

/* ---- waiters made by hand ---- */

/* A task that is parked and that nobody runs: whoever wakes it sets woken, as for a thread. */
struct doll {
    struct kin__task task;
    struct kin__waiter waiter[2];
    int item;
};

static void doll_init(struct doll *doll, int item)
{
    memset(doll, 0, sizeof *doll);
    doll->item = item;
    doll->task.flags = KIN__TASK_THREAD;
    kin__store_relaxed(&doll->task.shadow, KIN__RUNNING); /* alone: nobody has it yet */
    kin__word_init(&doll->task);
}

static void doll_begin(struct doll *doll)
{
    uint64_t ticket;
    EXPECT_EQ(kin__word_begin(&doll->task, 0, KIN__REQUESTS, &ticket), KIN__BEGUN_OPEN);
    for (uint32_t i = 0; i < 2; i++) {
        doll->waiter[i].task = &doll->task;
        doll->waiter[i].ticket = ticket;
        doll->waiter[i].case_ = i;
        doll->waiter[i].io = &doll->item;
    }
}

/* Whether the waiter was linked. */
static bool doll_publish(struct doll *doll, struct kin_chan *chan, const struct kin__waitable *ops,
                         int which)
{
    int status = 0;
    return ops->publish(chan, &doll->waiter[which], &status);
}

/* Parks for one thing. */
static void doll_park(struct doll *doll, struct kin_chan *chan, const struct kin__waitable *ops)
{
    doll_begin(doll);
    EXPECT(doll_publish(doll, chan, ops, 0));
    EXPECT(!kin__word_commit(&doll->task));
}

static bool doll_is_woken(struct doll *doll)
{
    return kin__load_relaxed(&doll->task.woken) == 1; /* alone: one thread */
}

/* Somebody else ends the park: time, or a cancel. */
static void doll_claim(struct doll *doll)
{
    EXPECT_EQ(kin__word_claim(&doll->task, doll->waiter[0].ticket), KIN__WON_PARKED);
}

KIN_TEST(a_hand_over_takes_the_oldest_waiter_out, "CH:5.5 W:4.3")
{
    struct kin_chan *chan = make(sizeof(int), 0);
    struct doll dolls[3];
    int item = 70;
    for (int i = 0; i < 3; i++) {
        doll_init(&dolls[i], -1);
        doll_park(&dolls[i], chan, receives);
        expect_waiting(chan, 0, (unsigned)i + 1);
        EXPECT_EQ(chan->pins, (unsigned)i + 1);
    }
    for (int i = 0; i < 3; i++, item++) {
        EXPECT_EQ(kin_chan_send(chan, &item, 0), 0);
        EXPECT(doll_is_woken(&dolls[i]));
        EXPECT_EQ(dolls[i].item, item);
        EXPECT_EQ(dolls[i].task.wait_status, 0);
        expect_waiting(chan, 0, 2u - (unsigned)i);
        EXPECT_EQ(chan->pins, 2u - (unsigned)i);
    }
    EXPECT_EQ(kin_chan_send(chan, &item, 0), KIN_FULL);
    kin_chan_unref(chan);
}

KIN_TEST(whoever_left_is_passed_over_and_keeps_the_memory, "A6 A8 F3")
{
    struct kin_chan *chan = make(sizeof(int), 0);
    struct doll dolls[4];
    int item = 9;
    for (int i = 0; i < 4; i++) {
        doll_init(&dolls[i], 10 + i);
        doll_park(&dolls[i], chan, sends);
    }
    doll_claim(&dolls[0]);
    doll_claim(&dolls[2]);
    EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
    EXPECT_EQ(item, 11);
    expect_waiting(chan, 2, 0);
    EXPECT_EQ(chan->pins, 3); /* 0 and 2 will come back for the lock, 3 waits */
    EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
    EXPECT_EQ(item, 13);
    EXPECT_EQ(kin_chan_recv(chan, &item, 0), KIN_EMPTY);
    expect_waiting(chan, 0, 0);
    EXPECT_EQ(chan->pins, 2);
    kin_chan_unref(chan); /* the last reference, and still here */
    EXPECT_EQ(kin__chan_state(chan), KIN__CHAN_CLOSED | KIN__CHAN_ABORTED | KIN__CHAN_DEAD);
    sends->unpublish(chan, &dolls[2].waiter[0]);
    EXPECT_EQ(chan->pins, 1);
    sends->unpublish(chan, &dolls[0].waiter[0]); /* frees it; a sanitizer would see two of them */
}

KIN_TEST(nobody_but_leavers_in_line_makes_a_send_fail, "A8")
{
    struct kin_chan *chan = make(sizeof(int), 1);
    struct doll doll;
    int item = 5;
    doll_init(&doll, -1);
    doll_park(&doll, chan, receives);
    doll_claim(&doll);
    EXPECT_EQ(kin_chan_send(chan, &item, 0), 0); /* into the ring */
    EXPECT_EQ(doll.item, -1);
    EXPECT_EQ(kin_chan_len(chan), 1);
    expect_waiting(chan, 0, 0);
    receives->unpublish(chan, &doll.waiter[0]); /* harmless when it is out already */
    EXPECT_EQ(chan->pins, 0);
    kin_chan_unref(chan);
}

KIN_TEST(a_waiter_can_be_claimed_before_it_has_left, "A8 F4")
{
    struct kin_chan *chan = make(sizeof(int), 0);
    struct doll doll;
    int item = 6;
    doll_init(&doll, -1);
    doll_begin(&doll);
    EXPECT(doll_publish(&doll, chan, receives, 0));
    EXPECT_EQ(kin_chan_send(chan, &item, 0), 0);
    EXPECT_EQ(doll.item, 6);
    EXPECT(!doll_is_woken(&doll)); /* it has not left yet: the commit finds out */
    EXPECT(kin__word_commit(&doll.task));
    expect_waiting(chan, 0, 0);
    kin_chan_unref(chan);
}

KIN_TEST(publishing_checks_under_the_lock, "A9 CH:5.4 002:3")
{
    struct kin_chan *chan = make(sizeof(int), 1);
    struct doll doll, other;
    int item = 1;
    doll_init(&doll, -1);
    doll_init(&other, -1);
    doll_begin(&doll);
    EXPECT(!doll_publish(&doll, chan, sends, 0)); /* there is room */
    EXPECT_EQ(kin_chan_len(chan), 0);             /* and nothing was taken */
    EXPECT_EQ(kin_chan_send(chan, &item, 0), 0);
    EXPECT(!doll_publish(&doll, chan, receives, 0));
    EXPECT_EQ(kin_chan_len(chan), 1);
    EXPECT(doll_publish(&doll, chan, sends, 0));
    sends->unpublish(chan, &doll.waiter[0]);
    EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
    doll_park(&other, chan, receives);
    EXPECT(!doll_publish(&doll, chan, sends, 0)); /* somebody waits for it */
    EXPECT(!doll_is_woken(&other));
    kin_chan_close(chan);
    EXPECT(doll_is_woken(&other));
    EXPECT_EQ(other.task.wait_status, KIN_CLOSED);
    EXPECT(!doll_publish(&doll, chan, sends, 0));
    EXPECT(!doll_publish(&doll, chan, receives, 0));
    expect_waiting(chan, 0, 0);
    EXPECT_EQ(chan->pins, 0);
    kin_chan_unref(chan);
}

KIN_TEST(nobody_is_linked_after_the_close, "CH:5.4")
{
    for (size_t capacity = 0; capacity < 2; capacity++) {
        struct kin_chan *chan = make(sizeof(int), capacity);
        struct doll doll;
        int item = 1;
        for (size_t i = 0; i < capacity; i++)
            EXPECT_EQ(kin_chan_send(chan, &item, 0), 0);
        kin_chan_close(chan);
        doll_init(&doll, 2);
        doll_begin(&doll);
        EXPECT(!doll_publish(&doll, chan, sends, 0)); /* there is no room, and nobody waits */
        for (size_t i = 0; i < capacity; i++)
            EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
        EXPECT(!doll_publish(&doll, chan, receives, 0));
        EXPECT_EQ(chan->pins, 0);
        kin_chan_unref(chan);
    }
}

KIN_TEST(two_waiters_of_one_task_do_not_see_each_other, "G051")
{
    struct kin_chan *chan = make(sizeof(int), 0);
    struct doll doll, other;
    doll_init(&doll, 3);
    doll_init(&other, 4);
    doll_begin(&doll);
    EXPECT(doll_publish(&doll, chan, sends, 0));
    EXPECT(doll_publish(&doll, chan, receives, 1));
    expect_waiting(chan, 1, 1);
    doll_begin(&other);
    EXPECT(!doll_publish(&other, chan, sends, 0)); /* but others see them */
    EXPECT(!doll_publish(&other, chan, receives, 0));
    sends->unpublish(chan, &doll.waiter[0]);
    EXPECT(doll_publish(&other, chan, receives, 0));
    EXPECT(!doll_publish(&doll, chan, sends, 0)); /* among one's own waiters stands another's */
    receives->unpublish(chan, &doll.waiter[1]);
    receives->unpublish(chan, &other.waiter[0]);
    EXPECT_EQ(chan->pins, 0);
    kin_chan_unref(chan);
}

KIN_TEST(a_receive_moves_the_item_of_the_oldest_sender_in, "A9")
{
    struct kin_chan *chan = make(sizeof(int), 3);
    struct doll dolls[3];
    int item;
    chan->head = SIZE_MAX - 1; /* and the index goes round on the way */
    for (item = 0; item < 3; item++)
        EXPECT_EQ(kin_chan_send(chan, &item, 0), 0);
    for (int i = 0; i < 3; i++) {
        doll_init(&dolls[i], 3 + i);
        doll_park(&dolls[i], chan, sends);
    }
    doll_claim(&dolls[1]);
    EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
    EXPECT_EQ(item, 0);
    EXPECT(doll_is_woken(&dolls[0]));
    EXPECT_EQ(kin_chan_len(chan), 3);
    EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
    EXPECT(doll_is_woken(&dolls[2]));
    EXPECT(!doll_is_woken(&dolls[1]));
    static const int rest[] = {2, 3, 5};
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
        EXPECT_EQ(item, rest[i]);
    }
    EXPECT_EQ(kin_chan_recv(chan, &item, 0), KIN_EMPTY);
    sends->unpublish(chan, &dolls[1].waiter[0]);
    EXPECT_EQ(chan->pins, 0);
    kin_chan_unref(chan);
}

KIN_TEST(what_looks_hopeless_is, "")
{
    struct kin_chan *chan = make(sizeof(int), 1);
    struct doll doll;
    int item = 0;
    EXPECT(!kin__chan_send_is_hopeless(chan));
    EXPECT(kin__chan_recv_is_hopeless(chan));
    EXPECT_EQ(kin_chan_send(chan, &item, 0), 0);
    EXPECT(kin__chan_send_is_hopeless(chan));
    EXPECT(!kin__chan_recv_is_hopeless(chan));
    EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
    kin_chan_close(chan);
    EXPECT(!kin__chan_send_is_hopeless(chan));
    EXPECT(!kin__chan_recv_is_hopeless(chan));
    kin_chan_unref(chan);
    chan = make(sizeof(int), 0);
    EXPECT(kin__chan_send_is_hopeless(chan));
    EXPECT(kin__chan_recv_is_hopeless(chan));
    doll_init(&doll, 0);
    doll_park(&doll, chan, sends);
    EXPECT(kin__chan_send_is_hopeless(chan));
    EXPECT(!kin__chan_recv_is_hopeless(chan));
    sends->unpublish(chan, &doll.waiter[0]);
    EXPECT(kin__chan_recv_is_hopeless(chan));
    doll_init(&doll, 0);
    doll_park(&doll, chan, receives);
    EXPECT(!kin__chan_send_is_hopeless(chan));
    receives->unpublish(chan, &doll.waiter[0]);
    kin_chan_unref(chan);
}

/* A receive between two batches of an abort gets nothing from a sender that was not told yet. */
KIN_TEST(an_aborted_channel_delivers_nothing, "A6")
{
    struct kin_chan *chan = make(sizeof(int), 0);
    struct doll doll;
    int item = -1;
    doll_init(&doll, 8);
    doll_park(&doll, chan, sends);
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    uint32_t state = kin__chan_state(chan) | KIN__CHAN_CLOSED | KIN__CHAN_ABORTED;
    kin__store_relaxed(&chan->state, state); /* alone: under the lock */
    kin__lock_give(&chan->lock, KIN__RANK_WAIT);
    EXPECT_EQ(kin_chan_recv(chan, &item, 0), KIN_CLOSED);
    EXPECT_EQ(item, -1);
    EXPECT(!doll_is_woken(&doll));
    sends->unpublish(chan, &doll.waiter[0]);
    kin_chan_unref(chan);
}

KIN_TEST(references_are_counted, "002:0")
{
    struct kin_chan *chan = make(sizeof(int), 0);
    EXPECT_ABORT("002:0") { /* the memory stays mapped in there */
        struct doll doll;
        doll_init(&doll, 8);
        doll_park(&doll, chan, sends);
        doll_claim(&doll);
        kin_chan_unref(chan);
        kin_chan_unref(chan);
    }
    EXPECT_ABORT("002:0") {
        struct doll doll;
        doll_init(&doll, 8);
        doll_park(&doll, chan, sends);
        doll_claim(&doll);
        kin_chan_unref(chan);
        (void)kin_chan_ref(chan);
    }
    kin_chan_unref(chan);
}

/* ---- many waiters, batches ---- */

static int run_with(unsigned workers, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    config.seed = kin_test_seed();
    return kin_run(&config, fn, arg);
}

static _Atomic int closed_count;

static int expect_closed_recv(void *arg)
{
    int item = -1;
    EXPECT_EQ(kin_chan_recv(arg, &item, KIN_NEVER), KIN_CLOSED);
    EXPECT_EQ(item, -1);
    atomic_fetch_add(&closed_count, 1);
    return 0;
}

static int expect_closed_send(void *arg)
{
    int item = 1;
    EXPECT_EQ(kin_chan_send(arg, &item, kin_after(KIN_SEC(1000))), KIN_CLOSED);
    atomic_fetch_add(&closed_count, 1);
    return 0;
}

/* count wait, then the end comes. */
static void end_with(unsigned count, bool are_senders, void (*end)(struct kin_chan *))
{
    struct kin_chan *chan = make(sizeof(int), 0);
    KIN_NURSERY(n);
    atomic_store(&closed_count, 0);
    for (unsigned i = 0; i < count; i++)
        EXPECT_EQ(kin_spawn(&n, are_senders ? expect_closed_send : expect_closed_recv, chan), 0);
    await_waiting(chan, are_senders ? count : 0, are_senders ? 0 : count);
    EXPECT_EQ(chan->pins, count);
    struct kin_chan *kept = end == kin_chan_unref ? NULL : chan;
    end(chan);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&closed_count), (int)count);
    if (kept) {
        expect_waiting(kept, 0, 0);
        EXPECT_EQ(kept->pins, 0);
        kin_chan_unref(kept);
    }
}

static int end_with_many(void *arg)
{
    static const unsigned counts[] = {0, 1, 2, 63, 64, 65, 128, 129, 500};
    (void)arg;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        end_with(counts[i], false, kin_chan_close);
        end_with(counts[i], false, kin_chan_abort);
        end_with(counts[i], true, kin_chan_abort);
        end_with(counts[i], false, kin_chan_unref);
        end_with(counts[i], true, kin_chan_unref);
    }
    return 0;
}

KIN_TEST(everybody_hears_of_the_end_once, "CH:5.3 CH:5.4 A6")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_with(workers, end_with_many, NULL), 0);
}

static int end_with_very_many(void *arg)
{
    end_with(*(unsigned *)arg, false, kin_chan_close);
    return 0;
}

KIN_TEST(sixty_thousand_hear_of_a_close, "CH:5.4")
{
    unsigned count = 60000;
#if KIN__ASAN || KIN__TSAN
    count = 6000; /* a stack costs more there */
#endif
    if (getenv("KIN_HARD"))
        count = 6000; /* and a pick there */
    EXPECT_EQ(run_with(1, end_with_very_many, &count), 0);
}

/* ---- leavers against the last reference ---- */

struct leaver {
    struct kin_chan *chan;
    kin_time deadline;
    int rc;
};

static int leave(void *arg)
{
    struct leaver *leaver = arg;
    int item;
    leaver->rc = kin_chan_recv(leaver->chan, &item, leaver->deadline);
    return 0;
}

/* Receivers whose deadlines come just when the last reference goes: the memory must stay until the
 * last of them has taken itself out. */
static int race_for_the_memory(void *arg)
{
    enum { LEAVERS = 8 };
    (void)arg;
    for (int round = 0; round < 100; round++) {
        struct leaver leavers[LEAVERS];
        struct kin_chan *chan = make(sizeof(int), 0);
        kin_time soon = kin_after(KIN_MS(1));
        KIN_NURSERY(n);
        for (int i = 0; i < LEAVERS; i++) {
            leavers[i] = (struct leaver){chan, i % 2 ? soon + i * KIN_US(3) : KIN_NEVER, 1};
            EXPECT_EQ(kin_spawn(&n, leave, &leavers[i]), 0);
        }
        unsigned out, in;
        do { /* ends: all come, and the time comes */
            kin_ignore(kin_yield());
            audit(chan, &out, &in);
        } while (in < LEAVERS && kin_now() < soon);
        if (in < LEAVERS / 2) { /* a slow machine: some may not have begun */
            kin_chan_close(chan);
            EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
            kin_chan_unref(chan);
            continue;
        }
        while (kin_now() < soon + (round % 20) * KIN_US(2))
            ;
        if (in == LEAVERS)
            kin_chan_unref(chan);
        else
            kin_chan_close(chan);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        for (int i = 0; i < LEAVERS; i++)
            EXPECT(leavers[i].rc == KIN_CLOSED || (i % 2 && leavers[i].rc == KIN_TIMEOUT));
        if (in != LEAVERS)
            kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(the_memory_stays_until_the_last_waiter_has_left, "A6")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_with(workers, race_for_the_memory, NULL), 0);
}

/* The same for certain: the waiter was claimed by a cancel and has not run yet. */
static int cancel_then_unref(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 0);
    struct leaver leaver = {chan, KIN_NEVER, 1};
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, leave, &leaver), 0);
    await_waiting(chan, 0, 1);
    kin_nursery_cancel(&n, 0);
    kin_chan_unref(chan);
    EXPECT_EQ(chan->pins, 1);
    kin_ignore(kin_nursery_join(&n, NULL));
    EXPECT_EQ(leaver.rc, KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_cancelled_waiter_keeps_the_memory_until_it_has_run, "A6 A7")
{
    EXPECT_EQ(run_with(1, cancel_then_unref, NULL), 0);
}

/* ---- the last reference goes while a call lets others run ---- */

struct interrupted {
    struct kin_chan *chan;
    kin_task_fn *call;
    int rc;
};

static int call_recv(void *arg)
{
    return kin_chan_recv(arg, NULL, KIN_NEVER);
}

static int call_send(void *arg)
{
    int item = 1;
    return kin_chan_send(arg, &item, KIN_NEVER);
}

static int call_select(void *arg)
{
    int item = 1;
    struct kin_case cases[] = {kin_case_recv(arg, &item), kin_case_recv(NULL, &item),
                               kin_case_send(arg, &item)};
    int index = kin_select(cases, 3, KIN_NEVER);
    EXPECT_NE(index, 1);
    return index < 0 ? index : cases[index].status;
}

static int be_interrupted(void *arg)
{
    struct interrupted *it = arg;
    kin__task_self()->slice = 1; /* the charge of the next operation is a yield */
    it->rc = it->call(it->chan);
    return 0;
}

static int unref_in_between(void *arg)
{
    static kin_task_fn *const calls[] = {call_recv, call_send, call_select};
    (void)arg;
    for (int i = 0; i < 3; i++) {
        struct interrupted it = {make(sizeof(int), 0), calls[i], 1};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, be_interrupted, &it), 0);
        while (it.chan->pins == 0) /* one worker: nobody changes it meanwhile */
            kin_ignore(kin_yield());
        expect_waiting(it.chan, 0, 0);
        kin_chan_unref(it.chan);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(it.rc, KIN_CLOSED);
    }
    return 0;
}

KIN_TEST(a_call_that_lets_others_run_keeps_the_memory, "A6")
{
    EXPECT_EQ(run_with(1, unref_in_between, NULL), 0);
}

/* ---- close against senders that are admitted at the same time ---- */

struct admission {
    struct kin_chan *chan;
    _Atomic int sent, received, refused;
};

static int send_until_closed(void *arg)
{
    struct admission *a = arg;
    int item = 1;
    while (kin_chan_send(a->chan, &item, KIN_NEVER) == 0)
        atomic_fetch_add(&a->sent, 1);
    atomic_fetch_add(&a->refused, 1);
    return 0;
}

static int receive_until_closed(void *arg)
{
    struct admission *a = arg;
    int item;
    while (kin_chan_recv(a->chan, &item, KIN_NEVER) == 0)
        atomic_fetch_add(&a->received, 1);
    return 0;
}

static int close_in_between(void *arg)
{
    for (size_t round = 0; round < 60; round += kin_test_scale()) {
        struct admission a = {.chan = make(sizeof(int), round / kin_test_scale() % 4)};
        KIN_NURSERY(n);
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(kin_spawn(&n, send_until_closed, &a), 0);
            EXPECT_EQ(kin_spawn(&n, receive_until_closed, &a), 0);
        }
        for (size_t i = 0; i < round; i++) /* each takes as long as the others make it */
            kin_ignore(kin_yield());
        kin_chan_close(a.chan);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(atomic_load(&a.sent), atomic_load(&a.received));
        EXPECT_EQ(atomic_load(&a.refused), 3);
        expect_waiting(a.chan, 0, 0);
        EXPECT_EQ(kin_chan_len(a.chan), 0);
        kin_chan_unref(a.chan);
    }
    (void)arg;
    return 0;
}

KIN_TEST(what_was_admitted_before_the_close_arrives, "CH:5.1 CH:5.2 CH:5.3 LP-11")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_with(workers, close_in_between, NULL), 0);
}

/* ---- no memory ---- */

KIN_TEST(running_out_of_memory_is_answered, "N009")
{
    struct kin_chan *chan = NULL;
    uint64_t requests = 0;
    int rc = -ENOMEM;
    for (uint64_t at = 1; rc == -ENOMEM; at++) { /* ends: there are few requests */
        kin__plat_fail_after(at, false);
        rc = kin_chan_create(&chan, 100, 100);
        requests = kin__plat_requests();
        kin__plat_fail_after(0, false);
        EXPECT(rc == 0 || rc == -ENOMEM);
        EXPECT_EQ(chan == NULL, rc != 0);
    }
    EXPECT_EQ(requests, 2);
    kin_chan_unref(chan);
}

static void *receive_as_thread(void *arg)
{
    int item = -1;
    int rc = kin_chan_recv(arg, &item, kin_after(KIN_MS(1)));
    EXPECT(rc == KIN_TIMEOUT || rc == -ENOMEM);
    return NULL;
}

KIN_TEST(a_thread_without_memory_does_not_wait, "N009")
{
    struct kin_chan *chan = make(sizeof(int), 0);
    pthread_t thread;
    kin__plat_fail_after(1, true);
    EXPECT_EQ(pthread_create(&thread, NULL, receive_as_thread, chan), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    kin__plat_fail_after(0, false);
    expect_waiting(chan, 0, 0);
    EXPECT_EQ(chan->pins, 0);
    EXPECT_PTR(receive_as_thread(chan), NULL);
    kin_chan_unref(chan);
}

static int send_without_memory(void *arg)
{
    struct kin_chan *chan = arg;
    int item = 0;
    uint64_t before;
    kin__plat_fail_after(UINT64_MAX, false); /* counts, fails nothing */
    before = kin__plat_requests();
    for (int i = 0; i < 1000; i++) {
        EXPECT_EQ(kin_chan_send(chan, &item, 0), 0);
        EXPECT_EQ(kin_chan_recv(chan, &item, KIN_NEVER), 0);
        EXPECT_EQ(kin_chan_recv(chan, &item, 1), KIN_TIMEOUT);
    }
    EXPECT_EQ(kin__plat_requests(), before);
    kin__plat_fail_after(0, false);
    return 0;
}

KIN_TEST(operations_of_tasks_need_no_memory, "N009")
{
    struct kin_chan *chan = make(sizeof(int), 1);
    EXPECT_EQ(run_with(1, send_without_memory, chan), 0);
    kin_chan_unref(chan);
}
