/* SPDX-License-Identifier: MIT */
/*
 * Goal: every item that was sent is received once, in order, and every answer of a channel is one
 * that a channel worked on by one task at a time could have given.
 * Method, first half: tasks and threads send and receive at random, by plain calls and by selects
 * with every kind of deadline, while others cancel them and close or abort the channels; then the
 * books must balance. Second half: short histories of a few tasks are recorded with the moments at
 * which each call began and ended; a search finds an order of steps of a sequential channel that
 * gives the same answers, or there is none and the test has failed. The search is shown to refuse
 * wrong histories.
 *
 * Environment: KIN_STRESS=n makes n times as many rounds.
 */
#include "kin_test.h"

#include "base/rng.h"

#include <kin/chan.h>
#include <kin/kin.h>
#include <kin/select.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many rounds a test makes that makes so many by default. */
static int rounds_of(int rounds)
{
    const char *given = getenv("KIN_STRESS");
    int factor = given ? atoi(given) : 1;
    return rounds * (factor > 0 ? factor : 1) / (int)kin_test_scale() + 1;
}

static struct kin_chan *make(size_t item_size, size_t capacity)
{
    struct kin_chan *chan = NULL;
    EXPECT_EQ(kin_chan_create(&chan, item_size, capacity), 0);
    return chan;
}

static int run_with(unsigned workers, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    config.seed = kin_test_seed();
    return kin_run(&config, fn, arg);
}

/* ---- books that must balance ---- */

enum { CHANS = 2, SENDERS = 4, RECEIVERS = 4, EACH = 40, IDS = SENDERS * EACH, WORDS = 5 };

enum { NOBODY = 0, SENT = 1 }; /* then + the channel */

struct book {
    struct kin_chan *chans[CHANS];
    size_t item_size;              /* 8, or all the words */
    bool is_aborted[CHANS];
    _Atomic int sent[IDS];         /* NOBODY, or SENT + channel */
    _Atomic int received[IDS];     /* how often */
    _Atomic int operations;
    uint64_t seed;
};

struct actor {
    struct book *book;
    uint64_t number; /* names its stream of random numbers */
    bool is_thread;
    struct kin_task_ref ref;
    int last[CHANS][SENDERS]; /* what it received last from each */
};

static kin_time random_deadline(struct kin__rng *rng)
{
    switch (kin__rng_below(rng, 6)) {
    case 0:
        return 0;
    case 1:
        return 1; /* long past */
    case 2:
    case 3:
        return kin_after((int64_t)kin__rng_below(rng, 60000));
    default:
        return KIN_NEVER;
    }
}

static void fill(uint64_t *item, int id)
{
    for (uint64_t i = 0; i < WORDS; i++)
        item[i] = i == 0 ? (uint64_t)id : (uint64_t)id * 31 + i;
}

/* Enters an item that came into the books. */
static void receive_into(struct actor *actor, int chan, const uint64_t *item)
{
    struct book *book = actor->book;
    EXPECT_LT(item[0], IDS);
    for (uint64_t i = 1; i < book->item_size / 8; i++)
        EXPECT_EQ(item[i], item[0] * 31 + i); /* whole */
    int id = (int)item[0], sender = id / EACH;
    EXPECT_GT(id, actor->last[chan][sender]); /* in order */
    actor->last[chan][sender] = id;
    atomic_fetch_add(&book->received[id], 1);
}

static void check_answer(int rc)
{
    EXPECT(rc == 0 || rc == KIN_CLOSED || rc == KIN_TIMEOUT || rc == KIN_CANCELLED ||
           rc == KIN_FULL || rc == KIN_EMPTY);
}

/* Sends item id by one call, or receives instead where the select says so. 0, or why not. */
static int send_somehow(struct actor *actor, struct kin__rng *rng, int id)
{
    struct book *book = actor->book;
    uint64_t item[WORDS], other[WORDS];
    int chan = (int)kin__rng_below(rng, CHANS), rc, index;
    kin_time deadline = random_deadline(rng);
    uint64_t how = actor->is_thread ? 0 : kin__rng_below(rng, 4);
    fill(item, id);
    atomic_fetch_add(&book->operations, 1);
    if (how <= 1) {
        rc = kin_chan_send(book->chans[chan], item, deadline);
        check_answer(rc);
        if (rc == 0)
            atomic_store(&book->sent[id], SENT + chan);
        return rc;
    }
    struct kin_case cases[] = {
        kin_case_send(book->chans[0], item), kin_case_send(book->chans[1], item),
        kin_case_after((int64_t)kin__rng_below(rng, 60000)),
        kin_case_recv(how == 3 ? book->chans[chan] : NULL, other)};
    index = kin__rng_below(rng, 2) ? kin_select(cases, 4, deadline)
                                   : kin_select_ordered(cases, 4, deadline);
    if (index < 0) {
        check_answer(index);
        return index;
    }
    rc = cases[index].status;
    check_answer(rc);
    if (index < 2 && rc == 0)
        atomic_store(&book->sent[id], SENT + index);
    if (index == 3 && rc == 0)
        receive_into(actor, chan, other);
    return rc;
}

static int send_all(void *arg)
{
    struct actor *actor = arg;
    struct kin__rng rng;
    kin__rng_init(&rng, actor->book->seed, actor->number);
    for (int i = 0; i < EACH; i++) {
        if (send_somehow(actor, &rng, (int)actor->number * EACH + i) == KIN_CANCELLED)
            return KIN_CANCELLED;
        if (!actor->is_thread && kin__rng_below(&rng, 8) == 0)
            kin_ignore(kin_yield());
    }
    return 0;
}

/* Receives by one call from any channel whose bit is not in over. 0, or why not. */
static int receive_somehow(struct actor *actor, struct kin__rng *rng, unsigned *over)
{
    struct book *book = actor->book;
    uint64_t items[CHANS][WORDS];
    int chan = (int)kin__rng_below(rng, CHANS), rc;
    kin_time deadline = random_deadline(rng);
    if (*over >> chan & 1)
        chan = 1 - chan;
    atomic_fetch_add(&book->operations, 1);
    if (actor->is_thread || kin__rng_below(rng, 2)) {
        rc = kin_chan_recv(book->chans[chan], items[chan], deadline);
    } else {
        struct kin_case cases[CHANS];
        for (int i = 0; i < CHANS; i++)
            cases[i] = kin_case_recv(*over >> i & 1 ? NULL : book->chans[i], items[i]);
        int index = kin_select(cases, CHANS, deadline);
        if (index < 0) {
            check_answer(index);
            return index;
        }
        chan = index;
        rc = cases[index].status;
    }
    check_answer(rc);
    if (rc == 0)
        receive_into(actor, chan, items[chan]);
    if (rc == KIN_CLOSED)
        *over |= 1u << chan;
    return rc;
}

static int receive_all(void *arg)
{
    struct actor *actor = arg;
    struct kin__rng rng;
    unsigned over = 0;
    kin__rng_init(&rng, actor->book->seed, actor->number);
    while (over != (1u << CHANS) - 1) {
        int rc = receive_somehow(actor, &rng, &over);
        if (rc == KIN_CANCELLED)
            return rc;
        if (!actor->is_thread && rc != 0)
            kin_ignore(kin_yield());
    }
    return 0;
}

static void actor_init(struct actor *actor, struct book *book, uint64_t number, bool is_thread)
{
    memset(actor, 0, sizeof *actor);
    memset(actor->last, -1, sizeof actor->last);
    actor->book = book;
    actor->number = number;
    actor->is_thread = is_thread;
}

static void book_open(struct book *book, struct kin__rng *rng)
{
    memset(book, 0, sizeof *book);
    book->seed = kin__rng_next(rng);
    book->item_size = kin__rng_below(rng, 2) ? 8 : 8 * WORDS;
    for (int i = 0; i < CHANS; i++)
        book->chans[i] = make(book->item_size, kin__rng_below(rng, 4));
}

/* Ends the channels somehow and takes what is left. */
static void book_end(struct book *book, struct kin__rng *rng)
{
    struct actor actor;
    actor_init(&actor, book, 999, true);
    for (int i = 0; i < CHANS; i++) {
        book->is_aborted[i] = kin__rng_below(rng, 4) == 0;
        if (kin__rng_below(rng, 2))
            kin_chan_close(book->chans[i]);
        if (book->is_aborted[i])
            kin_chan_abort(book->chans[i]);
        else
            kin_chan_close(book->chans[i]);
    }
    for (int i = 0; i < CHANS; i++) {
        uint64_t item[WORDS];
        while (kin_chan_recv(book->chans[i], item, KIN_NEVER) == 0)
            receive_into(&actor, i, item);
    }
}

static void book_balance(struct book *book)
{
    for (int id = 0; id < IDS; id++) {
        int sent = atomic_load(&book->sent[id]), received = atomic_load(&book->received[id]);
        EXPECT_LE(received, 1); /* nothing twice */
        if (received == 1)
            EXPECT_NE(sent, NOBODY); /* a send that failed handed nothing over */
        else if (sent != NOBODY)
            EXPECT(book->is_aborted[sent - SENT]); /* nothing lost */
    }
    for (int i = 0; i < CHANS; i++)
        kin_chan_unref(book->chans[i]);
}

static uint64_t operations;

static void cancel_some(struct actor *actors, int count, struct kin__rng *rng)
{
    for (uint64_t i = kin__rng_below(rng, 4); i > 0; i--) {
        kin_ignore(kin_sleep(kin_after((int64_t)kin__rng_below(rng, 80000))));
        kin_ignore(kin_task_cancel(actors[kin__rng_below(rng, (uint64_t)count)].ref));
    }
}

static void one_book(struct kin__rng *rng)
{
    static struct book book;
    static struct actor actors[SENDERS + RECEIVERS];
    KIN_NURSERY(n);
    book_open(&book, rng);
    for (int i = 0; i < SENDERS + RECEIVERS; i++) {
        actor_init(&actors[i], &book, (uint64_t)i, false);
        EXPECT_EQ(kin_spawn_with(&n, NULL, i < SENDERS ? send_all : receive_all, &actors[i], 0,
                                 &actors[i].ref), 0);
    }
    cancel_some(actors, SENDERS + RECEIVERS, rng);
    kin_ignore(kin_sleep(kin_after((int64_t)kin__rng_below(rng, 500000))));
    book_end(&book, rng);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    operations += (uint64_t)atomic_load(&book.operations);
    book_balance(&book);
}

static int keep_books(void *arg)
{
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), *(unsigned *)arg);
    for (int i = 0; i < rounds_of(1000); i++)
        one_book(&rng);
    return 0;
}

KIN_TEST_LIMIT(every_item_is_received_once_on_one_worker, "CH:5.1 CH:5.2 CH:5.3 A7 A10", 600)
{
    unsigned workers = 1;
    EXPECT_EQ(run_with(workers, keep_books, &workers), 0);
    printf("%llu operations\n", (unsigned long long)operations);
}

KIN_TEST_LIMIT(every_item_is_received_once_on_two_workers, "CH:5.1 CH:5.2 CH:5.3 A7 A10", 600)
{
    unsigned workers = 2;
    EXPECT_EQ(run_with(workers, keep_books, &workers), 0);
    printf("%llu operations\n", (unsigned long long)operations);
}

KIN_TEST_LIMIT(every_item_is_received_once_on_four_workers, "CH:5.1 CH:5.2 CH:5.3 A7 A10", 600)
{
    unsigned workers = 4;
    EXPECT_EQ(run_with(workers, keep_books, &workers), 0);
    printf("%llu operations\n", (unsigned long long)operations);
}

/* ---- the same with plain threads, and with two runtimes ---- */

static void *send_as_thread(void *arg)
{
    (void)send_all(arg);
    return NULL;
}

static void *receive_as_thread(void *arg)
{
    (void)receive_all(arg);
    return NULL;
}

/* One half of the actors, in a runtime of their own. */
static int act(void *arg)
{
    struct actor *actors = arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, send_all, &actors[0]), 0);
    EXPECT_EQ(kin_spawn(&n, receive_all, &actors[SENDERS]), 0);
    return kin_nursery_join(&n, NULL);
}

static void *act_elsewhere(void *arg)
{
    EXPECT_EQ(run_with(1, act, arg), 0);
    return NULL;
}

KIN_TEST_LIMIT(every_item_is_received_once_across_threads_and_runtimes, "CH:5.1 CH:5.2", 600)
{
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 77);
    for (int round = 0; round < rounds_of(60); round++) {
        static struct book book;
        static struct actor actors[SENDERS + RECEIVERS];
        pthread_t threads[6];
        book_open(&book, &rng);
        for (int i = 0; i < SENDERS + RECEIVERS; i++)
            actor_init(&actors[i], &book, (uint64_t)i, i % SENDERS >= 2);
        for (int i = 0; i < 2; i++) {
            EXPECT_EQ(pthread_create(&threads[i], NULL, act_elsewhere, &actors[i]), 0);
            EXPECT_EQ(pthread_create(&threads[2 + i], NULL, send_as_thread, &actors[2 + i]), 0);
            EXPECT_EQ(pthread_create(&threads[4 + i], NULL, receive_as_thread,
                                     &actors[SENDERS + 2 + i]), 0);
        }
        struct timespec moment = {0, (long)kin__rng_below(&rng, 3000000)};
        nanosleep(&moment, NULL);
        book_end(&book, &rng);
        for (int i = 0; i < 6; i++)
            EXPECT_EQ(pthread_join(threads[i], NULL), 0);
        book_balance(&book);
    }
}

/* ---- histories ---- */

enum { TASKS = 3, CALLS = 4, CALLS_MAX = 24, EVENTS_MAX = 2 * CALLS_MAX };
enum kind { SEND, RECV, CLOSE };

struct call {
    enum kind kind;
    int value;       /* sent, or received when rc is 0 */
    bool is_waiting; /* may wait */
    int rc;
    uint64_t began, ended; /* moments */
};

struct history {
    struct call calls[CALLS_MAX];
    int count;
    size_t capacity;
};

/* A channel that one step after the other is done to. Numbers are of calls. */
struct model {
    int buffer[CALLS_MAX], senders[CALLS_MAX], receivers[CALLS_MAX];
    int buffered, sending, receiving;
    bool is_closed;
    uint32_t has_begun, has_arrived, is_over; /* sets of calls */
};

struct search {
    const struct history *history;
    int events[EVENTS_MAX]; /* calls in the order of moments; ~call where it ends */
    int count;
    int steps_left;         /* bound of the search */
};

static int pop(int *queue, int *count)
{
    int first = queue[0];
    (*count)--;
    memmove(queue, queue + 1, (size_t)*count * sizeof *queue);
    return first;
}

/* The call ends with rc. False: that is not what it answered. */
static bool finish(struct model *model, const struct history *history, int call, int rc)
{
    model->is_over |= 1u << call;
    return history->calls[call].rc == rc;
}

/* The same for a receive that gets value. */
static bool finish_with(struct model *model, const struct history *history, int call, int value)
{
    return finish(model, history, call, 0) && history->calls[call].value == value;
}

static bool arrive_send(struct model *model, const struct history *history, int call)
{
    const struct call *it = &history->calls[call];
    if (model->is_closed)
        return finish(model, history, call, KIN_CLOSED);
    if (model->receiving)
        return finish_with(model, history, pop(model->receivers, &model->receiving), it->value) &&
               finish(model, history, call, 0);
    if ((size_t)model->buffered < history->capacity) {
        model->buffer[model->buffered++] = it->value;
        return finish(model, history, call, 0);
    }
    if (!it->is_waiting)
        return finish(model, history, call, KIN_FULL);
    model->senders[model->sending++] = call;
    return true;
}

static bool arrive_recv(struct model *model, const struct history *history, int call)
{
    if (model->buffered) {
        int value = pop(model->buffer, &model->buffered);
        if (model->sending) {
            int sender = pop(model->senders, &model->sending);
            model->buffer[model->buffered++] = history->calls[sender].value;
            if (!finish(model, history, sender, 0))
                return false;
        }
        return finish_with(model, history, call, value);
    }
    if (model->sending) {
        int sender = pop(model->senders, &model->sending);
        return finish(model, history, sender, 0) &&
               finish_with(model, history, call, history->calls[sender].value);
    }
    if (model->is_closed)
        return finish(model, history, call, KIN_CLOSED);
    if (!history->calls[call].is_waiting)
        return finish(model, history, call, KIN_EMPTY);
    model->receivers[model->receiving++] = call;
    return true;
}

static bool arrive(struct model *model, const struct history *history, int call)
{
    model->has_arrived |= 1u << call;
    if (history->calls[call].kind == SEND)
        return arrive_send(model, history, call);
    if (history->calls[call].kind == RECV)
        return arrive_recv(model, history, call);
    model->is_closed = true;
    while (model->receiving) {
        if (!finish(model, history, pop(model->receivers, &model->receiving), KIN_CLOSED))
            return false;
    }
    return finish(model, history, call, 0);
}

/* A call that waits goes away. False: it does not wait, or did not answer so. */
static bool leave(struct model *model, const struct history *history, int call)
{
    bool is_send = history->calls[call].kind == SEND;
    int *queue = is_send ? model->senders : model->receivers;
    int *count = is_send ? &model->sending : &model->receiving;
    for (int i = 0; i < *count; i++) {
        if (queue[i] == call) {
            (*count)--;
            memmove(queue + i, queue + i + 1, (size_t)(*count - i) * sizeof *queue);
            return finish(model, history, call, KIN_TIMEOUT);
        }
    }
    return false;
}

/* Whether the events from at on can happen. A step needs to be done only before an end that waits
 * for it: later is as good as earlier for everything else. */
static bool explain(struct search *search, const struct model *model, int at)
{
    struct model now = *model;
    if (--search->steps_left <= 0)
        return true; /* not decided; the caller sees that */
    while (at < search->count) {
        int event = search->events[at];
        if (event >= 0)
            now.has_begun |= 1u << event;
        else if (!(now.is_over >> ~event & 1))
            break;
        at++;
    }
    if (at == search->count)
        return true;
    for (int call = 0; call < search->history->count; call++) {
        if (!(now.has_begun >> call & 1) || (now.is_over >> call & 1))
            continue;
        struct model next = now;
        bool fits = now.has_arrived >> call & 1 ? leave(&next, search->history, call)
                                                : arrive(&next, search->history, call);
        if (fits && explain(search, &next, at))
            return true;
    }
    return false;
}

/* 1: a sequential channel could have done this; 0: it could not; -1: not found out. */
static int check(const struct history *history)
{
    struct search search = {.history = history, .steps_left = 300000};
    struct model model;
    memset(&model, 0, sizeof model);
    uint64_t last = 0;
    for (;;) { /* ends: every moment is later than the one before */
        uint64_t next = UINT64_MAX;
        int event = 0;
        for (int i = 0; i < history->count; i++) {
            const struct call *call = &history->calls[i];
            if (call->began > last && call->began < next)
                next = call->began, event = i;
            if (call->ended > last && call->ended < next)
                next = call->ended, event = ~i;
        }
        if (next == UINT64_MAX)
            break;
        search.events[search.count++] = event;
        last = next;
    }
    bool is_explained = explain(&search, &model, 0);
    return search.steps_left <= 0 ? -1 : is_explained;
}

static void show(const struct history *history)
{
    static const char *const kinds[] = {"send", "recv", "close"};
    printf("capacity %zu\n", history->capacity);
    for (int i = 0; i < history->count; i++) {
        const struct call *call = &history->calls[i];
        printf("%3llu-%-3llu %s %d%s: %s\n", (unsigned long long)call->began,
               (unsigned long long)call->ended, kinds[call->kind], call->value,
               call->is_waiting ? "" : " without waiting", kin_status_name(call->rc));
    }
}

/* ---- the checker itself ---- */

static int check_calls(size_t capacity, const struct call *calls, size_t count)
{
    struct history history = {.count = (int)count, .capacity = capacity};
    memcpy(history.calls, calls, count * sizeof *calls);
    return check(&history);
}

#define CHECK(capacity, ...)                                                                       \
    check_calls(capacity, (struct call[]){__VA_ARGS__},                                            \
                sizeof((struct call[]){__VA_ARGS__}) / sizeof(struct call))

KIN_TEST(the_checker_accepts_what_is_right, "")
{
    EXPECT_EQ(CHECK(1, {SEND, 5, true, 0, 1, 2}, {RECV, 5, true, 0, 3, 4}), 1);
    EXPECT_EQ(CHECK(0, {SEND, 5, true, 0, 1, 4}, {RECV, 5, true, 0, 2, 3}), 1);
    EXPECT_EQ(CHECK(0, {SEND, 5, true, KIN_TIMEOUT, 1, 4}, {RECV, 0, false, KIN_EMPTY, 2, 3}), 1);
    EXPECT_EQ(CHECK(1, {SEND, 1, true, 0, 1, 2}, {SEND, 2, true, 0, 3, 8}, {CLOSE, 0, 0, 0, 4, 5},
                    {RECV, 1, true, 0, 6, 7}, {RECV, 2, true, 0, 9, 10},
                    {RECV, 0, true, KIN_CLOSED, 11, 12}), 1);
    EXPECT_EQ(CHECK(1, {SEND, 1, true, 0, 1, 3}, {SEND, 2, true, 0, 2, 6}, {RECV, 2, true, 0, 4, 7},
                    {RECV, 1, true, 0, 5, 8}), 1); /* the sends overlap */
}

KIN_TEST(the_checker_refuses_what_is_wrong, "")
{
    /* lost, doubled, made up */
    EXPECT_EQ(CHECK(1, {SEND, 5, true, 0, 1, 2}, {RECV, 0, false, KIN_EMPTY, 3, 4}), 0);
    EXPECT_EQ(CHECK(2, {SEND, 5, true, 0, 1, 2}, {RECV, 5, true, 0, 3, 4},
                    {RECV, 5, true, 0, 5, 6}), 0);
    EXPECT_EQ(CHECK(2, {RECV, 5, true, 0, 3, 4}), 0);
    EXPECT_EQ(CHECK(2, {SEND, 5, true, KIN_TIMEOUT, 1, 2}, {RECV, 5, true, 0, 3, 4}), 0);
    /* out of order, overtaken */
    EXPECT_EQ(CHECK(2, {SEND, 1, true, 0, 1, 2}, {SEND, 2, true, 0, 3, 4}, {RECV, 2, true, 0, 5, 6},
                    {RECV, 1, true, 0, 7, 8}), 0);
    /* without need: full, timed out, refused */
    EXPECT_EQ(CHECK(1, {SEND, 1, false, KIN_FULL, 1, 2}), 0);
    EXPECT_EQ(CHECK(1, {SEND, 1, true, KIN_CLOSED, 1, 2}), 0);
    EXPECT_EQ(CHECK(1, {SEND, 1, true, 0, 1, 2}, {RECV, 0, true, KIN_TIMEOUT, 3, 4}), 0);
    /* a rendezvous that ends before anybody comes */
    EXPECT_EQ(CHECK(0, {SEND, 1, true, 0, 1, 2}, {RECV, 1, true, 0, 3, 4}), 0);
    /* after the close: admitted late, or sent away though it waited */
    EXPECT_EQ(CHECK(1, {CLOSE, 0, 0, 0, 1, 2}, {SEND, 1, true, 0, 3, 4}), 0);
    EXPECT_EQ(CHECK(1, {SEND, 1, true, 0, 1, 2}, {CLOSE, 0, 0, 0, 3, 4},
                    {RECV, 0, true, KIN_CLOSED, 5, 6}), 0);
}

/* ---- recording ---- */

static struct {
    struct kin_chan *chan;
    struct history history;
    _Atomic uint64_t moment;
    _Atomic int at; /* calls taken */
    uint64_t seed;
} record;

static uint64_t stamp(void)
{
    return atomic_fetch_add(&record.moment, 1) + 1;
}

/* Makes one call and writes it down; its answer. */
static int recorded(enum kind kind, kin_time deadline, int value)
{
    struct call *call = &record.history.calls[atomic_fetch_add(&record.at, 1)];
    int rc = 0, got = value;
    *call = (struct call){.kind = kind, .is_waiting = deadline != 0};
    call->began = stamp();
    if (kind == SEND)
        rc = kin_chan_send(record.chan, &value, deadline);
    else if (kind == RECV)
        rc = kin_chan_recv(record.chan, &got, deadline);
    else
        kin_chan_close(record.chan);
    call->ended = stamp();
    call->rc = rc;
    call->value = got;
    return rc;
}

static int make_calls(void *arg)
{
    struct kin__rng rng;
    uint64_t number = (uint64_t)(uintptr_t)arg;
    kin__rng_init(&rng, record.seed, number);
    for (int i = 0; i < CALLS; i++) {
        uint64_t draw = kin__rng_below(&rng, 8);
        kin_time deadline = draw < 2 ? 0 : draw < 4 ? KIN_NEVER
                                         : kin_after((int64_t)kin__rng_below(&rng, 30000));
        bool sends = kin__rng_below(&rng, 2) == 0;
        (void)recorded(sends ? SEND : RECV, deadline, (int)number * 100 + i + 1);
        if (kin__rng_below(&rng, 4) == 0)
            kin_ignore(kin_yield());
    }
    return 0;
}

static void *make_calls_as_thread(void *arg)
{
    (void)make_calls(arg);
    return NULL;
}

static void record_begin(struct kin__rng *rng)
{
    memset(&record.history, 0, sizeof record.history);
    record.history.capacity = kin__rng_below(rng, 3);
    record.chan = make(sizeof(int), record.history.capacity);
    record.seed = kin__rng_next(rng);
    atomic_store(&record.moment, 0);
    atomic_store(&record.at, 0);
}

/* Closes, and takes what is left, so that everybody comes home. */
static void record_close(void)
{
    (void)recorded(CLOSE, 0, 0);
    while (recorded(RECV, KIN_NEVER, 0) == 0)
        EXPECT_LT(atomic_load(&record.at), CALLS_MAX - 1);
}

/* Counts what could not be found out. */
static void record_end(int *undecided)
{
    record.history.count = atomic_load(&record.at);
    int verdict = check(&record.history);
    if (verdict == 0)
        show(&record.history);
    EXPECT_NE(verdict, 0);
    *undecided += verdict < 0;
    kin_chan_unref(record.chan);
}

static int record_histories(void *arg)
{
    struct kin__rng rng;
    int undecided = 0, rounds = rounds_of(2000);
    kin__rng_init(&rng, kin_test_seed(), *(unsigned *)arg + 100);
    for (int round = 0; round < rounds; round++) {
        record_begin(&rng);
        KIN_NURSERY(n);
        for (uintptr_t i = 1; i <= TASKS; i++)
            EXPECT_EQ(kin_spawn(&n, make_calls, (void *)i), 0);
        for (uint64_t i = kin__rng_below(&rng, 6); i > 0; i--)
            kin_ignore(kin_yield());
        if (kin__rng_below(&rng, 2))
            kin_ignore(kin_sleep(kin_after((int64_t)kin__rng_below(&rng, 60000))));
        record_close();
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        record_end(&undecided);
    }
    EXPECT_LE(undecided, rounds / 20);
    return 0;
}

KIN_TEST_LIMIT(histories_are_those_of_a_sequential_channel, "CH:5.1 CH:5.2 CH:5.3 A9", 600)
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_with(workers, record_histories, &workers), 0);
}

KIN_TEST_LIMIT(histories_of_threads_are_those_of_a_sequential_channel, "CH:5.1 CH:5.2 CH:5.3", 600)
{
    struct kin__rng rng;
    int undecided = 0, rounds = rounds_of(500);
    kin__rng_init(&rng, kin_test_seed(), 200);
    for (int round = 0; round < rounds; round++) {
        pthread_t threads[TASKS];
        record_begin(&rng);
        for (uintptr_t i = 0; i < TASKS; i++)
            EXPECT_EQ(pthread_create(&threads[i], NULL, make_calls_as_thread, (void *)(i + 1)), 0);
        struct timespec moment = {0, (long)kin__rng_below(&rng, 100000)};
        nanosleep(&moment, NULL);
        record_close();
        for (int i = 0; i < TASKS; i++)
            EXPECT_EQ(pthread_join(threads[i], NULL), 0);
        record_end(&undecided);
    }
    EXPECT_LE(undecided, rounds / 20);
}
