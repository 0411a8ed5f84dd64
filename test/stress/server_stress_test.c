/* SPDX-License-Identifier: MIT */
/*
 * Goal: every call is answered once or its caller left, every cast that was let in is handled once,
 * or dropped by the policy or by a stop, and of a server that is over nothing is left.
 * Method: callers and casters with every kind of deadline, some of them cancelled, against a server
 * that answers, moves, drops, aborts and waits at random, with a small mailbox and any policy, and
 * that somebody ends in one of many ways at any time. Each message has a number of its own, and the
 * books of what was sent, handled, answered and returned must balance.
 *
 * Environment: KIN_STRESS=n makes n times as many rounds.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "otp/party.h"

#include <kin/kin.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SENDERS = 10, EACH = 30, IDS = SENDERS * EACH, ANSWERERS = 2 };
enum { STOP, STOP_WITH, CANCEL, CANCEL_NURSERY, FAILS, SELF, SELF_WITH, CRASH, PANIC, ENDS };

/* What became of one message; each is written by one task, or counted. */
struct entry {
    int rc;               /* what the sender got; 1: it was never sent */
    bool is_call;
    unsigned answer;      /* what the caller was given */
    _Atomic int handled;  /* callbacks that ran for it */
    _Atomic int answered; /* answers that say they reached the caller */
    _Atomic int aborted;  /* the same for aborts */
};

struct book {
    struct entry entries[IDS];
    uint64_t seed;
    struct kin_addr server;
    struct kin_chan *moved; /* tokens: struct token */
    struct kin_server_options options;
    int end;                /* how it ends */
    _Atomic int wants_end;  /* a callback is to do it */
    int last[SENDERS];      /* of each sender, the last cast that was handled; the server's own */
    bool is_ordered;
};

struct token {
    struct kin_reply *reply;
    unsigned id;
};

#define ABORTED (-EXDEV)

static int rounds_of(int rounds)
{
    const char *given = getenv("KIN_STRESS");
    int factor = given ? atoi(given) : 1;
    return rounds * (factor > 0 ? factor : 1) / (int)kin_test_scale() + 1;
}

/* ---- the server ---- */

struct state {
    struct book *book;
    struct kin__rng rng;
};

static int on_start(struct kin_server *s, void *state, const void *arg)
{
    struct state *me = state;
    (void)s;
    me->book = (struct book *)(uintptr_t)arg;
    kin__rng_init(&me->rng, me->book->seed, 99);
    return 0;
}

static void answer_it(struct book *book, struct kin_reply *reply, unsigned id)
{
    unsigned value = 2 * id + 1;
    int rc = kin_reply_send(reply, &value, sizeof value);
    if (rc == 0)
        atomic_fetch_add(&book->entries[id].answered, 1);
    else
        EXPECT_EQ(rc, KIN_GONE);
}

/* What a callback does beside its work, and how it may end the server. */
static int finish(struct kin_server *s, struct state *me)
{
    if (kin__rng_chance(&me->rng, 1, 8))
        kin_ignore(kin_yield());
    if (kin__rng_chance(&me->rng, 1, 30))
        kin_ignore(kin_sleep(kin_after(KIN_US(20))));
    if (atomic_exchange(&me->book->wants_end, 0) == 0)
        return 0;
    switch (me->book->end) {
    case FAILS:
        return -EIO;
    case SELF:
        return kin_server_stop_self(s, 0);
    case SELF_WITH:
        return kin_server_stop_self(s, -EPIPE);
    case CRASH:
        kin_fail(-EDOM, "as planned");
    case PANIC:
        kin_panic("as planned");
    default:
        return 0;
    }
}

static int on_call(struct kin_server *s, void *state, const void *req, size_t size,
                   struct kin_reply *reply)
{
    struct state *me = state;
    struct token token;
    EXPECT(size >= sizeof token.id);
    memcpy(&token.id, req, sizeof token.id);
    struct entry *entry = &me->book->entries[token.id];
    EXPECT_EQ(atomic_fetch_add(&entry->handled, 1), 0);
    switch (kin__rng_below(&me->rng, 8)) {
    case 0: /* somebody else answers */
        EXPECT_EQ(kin_reply_move(reply, &token.reply), 0);
        if (kin_chan_send(me->book->moved, &token, 0) < 0)
            kin_reply_drop(token.reply);
        break;
    case 1:
        kin_reply_drop(reply);
        break;
    case 2: {
        int rc = kin_reply_abort(reply, ABORTED);
        EXPECT(rc == 0 || rc == KIN_GONE);
        if (rc == 0)
            atomic_fetch_add(&entry->aborted, 1);
        break;
    }
    default:
        answer_it(me->book, reply, token.id);
        EXPECT_LT(kin_reply_send(reply, NULL, 0), 0);
    }
    return finish(s, me);
}

static int on_cast(struct kin_server *s, void *state, const void *msg, size_t size)
{
    struct state *me = state;
    unsigned id;
    EXPECT(size >= sizeof id);
    memcpy(&id, msg, sizeof id);
    EXPECT_EQ(atomic_fetch_add(&me->book->entries[id].handled, 1), 0);
    int *last = &me->book->last[id / EACH];
    me->book->is_ordered &= *last < (int)id;
    *last = (int)id;
    return finish(s, me);
}

/* ---- the others ---- */

struct sender {
    struct book *book;
    unsigned number;
};

static kin_time random_deadline(struct kin__rng *rng)
{
    switch (kin__rng_below(rng, 6)) {
    case 0:
        return 0;
    case 1:
        return kin_after((int64_t)kin__rng_below(rng, 50000));
    case 2:
        return kin_after(KIN_SEC(1000));
    default:
        return KIN_NEVER;
    }
}

static void send_one(struct book *book, struct kin__rng *rng, unsigned id)
{
    unsigned char bytes[600] = {0};
    struct entry *entry = &book->entries[id];
    size_t size = sizeof id + (kin__rng_chance(rng, 1, 5) ? kin__rng_below(rng, 500) : 0);
    kin_time deadline = random_deadline(rng);
    memcpy(bytes, &id, sizeof id);
    entry->is_call = kin__rng_chance(rng, 1, 2);
    if (entry->is_call)
        entry->rc = kin_call(book->server, bytes, size, &entry->answer, sizeof entry->answer, NULL,
                             deadline);
    else
        entry->rc = kin_cast(book->server, bytes, size, deadline);
}

static int send_all(void *arg)
{
    struct sender *sender = arg;
    struct kin__rng rng;
    kin__rng_init(&rng, sender->book->seed, sender->number);
    for (unsigned i = 0; i < EACH; i++) {
        send_one(sender->book, &rng, sender->number * EACH + i);
        if (kin__rng_chance(&rng, 1, 4) && kin_yield() < 0)
            return 0;
    }
    return 0;
}

static int answer_all(void *arg)
{
    struct book *book = arg;
    struct token token;
    while (kin_chan_recv(book->moved, &token, KIN_NEVER) == 0) { /* ends: when it is closed */
        if (token.id % 3)
            kin_ignore(kin_yield());
        if (token.id % 7)
            answer_it(book, token.reply, token.id);
        kin_reply_drop(token.reply);
    }
    return 0;
}

/* ---- the books ---- */

/* What an end that was planned tells those who wait. */
static bool is_end_status(int end, int rc)
{
    static const int statuses[ENDS] = {[STOP_WITH] = -ESHUTDOWN, [FAILS] = -EIO,
                                       [SELF_WITH] = -EPIPE,     [CRASH] = -EDOM,
                                       [PANIC] = KIN_PANICKED};
    return rc == KIN_STOPPING || rc == KIN_NOPROC || (statuses[end] && rc == statuses[end]);
}

static void check_call(const struct book *book, unsigned id)
{
    const struct entry *entry = &book->entries[id];
    EXPECT_LE(entry->handled, 1);
    EXPECT_LE(entry->answered + entry->aborted, 1);
    EXPECT_EQ(entry->answered, entry->rc == 0);
    EXPECT_EQ(entry->aborted, entry->rc == ABORTED);
    if (entry->rc == 0)
        EXPECT_EQ(entry->answer, 2 * id + 1);
    if (entry->rc == 0 || entry->rc == ABORTED || entry->rc == KIN_NOREPLY)
        EXPECT_EQ(entry->handled, 1);
    else if (entry->rc == KIN_FULL || entry->rc == KIN_NOPROC)
        EXPECT_EQ(entry->handled, 0);
    else if (entry->rc != KIN_TIMEOUT && entry->rc != KIN_CANCELLED)
        EXPECT(is_end_status(book->end, entry->rc));
}

/* How many casts that were let in were not handled. */
static int check_cast(const struct book *book, unsigned id)
{
    const struct entry *entry = &book->entries[id];
    if (entry->rc == 0) {
        EXPECT_LE(entry->handled, 1);
        return entry->handled == 0;
    }
    EXPECT_EQ(entry->handled, 0);
    EXPECT(entry->rc == KIN_FULL || entry->rc == KIN_TIMEOUT || entry->rc == KIN_CANCELLED ||
           is_end_status(book->end, entry->rc));
    return 0;
}

static void check(const struct book *book)
{
    int dropped = 0;
    bool drops = book->options.overflow == KIN_OVERFLOW_DROP_OLDEST ||
                 book->options.drain == KIN_DRAIN_NONE || book->end >= FAILS;
    for (unsigned id = 0; id < IDS; id++) {
        const struct entry *entry = &book->entries[id];
        if (entry->rc == 1)
            EXPECT_EQ(entry->handled, 0);
        else if (entry->is_call)
            check_call(book, id);
        else
            dropped += check_cast(book, id);
    }
    if (!drops)
        EXPECT_EQ(dropped, 0);
    EXPECT(book->is_ordered);
}

/* ---- a round ---- */

static void plan(struct book *book, uint64_t seed, struct kin__rng *rng)
{
    memset(book, 0, sizeof *book);
    for (unsigned id = 0; id < IDS; id++)
        book->entries[id].rc = 1;
    for (unsigned i = 0; i < SENDERS; i++)
        book->last[i] = -1;
    book->seed = seed;
    book->is_ordered = true;
    book->options = (struct kin_server_options)KIN_SERVER_OPTIONS_INIT;
    book->options.state_size = sizeof(struct state);
    book->options.mailbox_capacity = 1 + kin__rng_below(rng, 8);
    book->options.overflow = (enum kin_overflow)kin__rng_below(rng, 3);
    book->options.drain = (enum kin_drain)kin__rng_below(rng, 3);
    book->end = (int)kin__rng_below(rng, ENDS);
    EXPECT_EQ(kin_chan_create(&book->moved, sizeof(struct token), 4), 0);
}

static void end_server(struct book *book, struct kin_nursery *house)
{
    if (book->end == STOP || book->end == STOP_WITH) {
        int rc = kin_server_stop(book->server, book->end == STOP ? 0 : -ESHUTDOWN, KIN_NEVER);
        EXPECT_EQ(rc, 0);
    } else if (book->end == CANCEL) {
        EXPECT_EQ(kin_task_cancel((struct kin_task_ref){book->server.id}), 0);
    } else if (book->end == CANCEL_NURSERY) {
        kin_nursery_cancel(house, 0);
    } else {
        atomic_store(&book->wants_end, 1); /* the next message does */
        for (int i = 0; i < 2000 && atomic_load(&book->wants_end); i++)
            kin_ignore(kin_yield());
        /* or none came any more */
        kin_ignore(kin_server_stop(book->server, 0, KIN_NEVER));
    }
}

static void one_round(struct book *book, struct kin__rng *rng)
{
    static const struct kin_server_ops ops = {.on_start = on_start, .on_call = on_call,
                                              .on_cast = on_cast};
    struct sender senders[SENDERS];
    struct kin_task_ref refs[SENDERS];
    KIN_NURSERY(helpers, .on_error = KIN_COLLECT);
    KIN_NURSERY(clients, .on_error = KIN_COLLECT);
    KIN_NURSERY(house, .on_error = KIN_COLLECT);
    EXPECT_EQ(kin_server_start(&house, &ops, &book->options, book, &book->server), 0);
    for (int i = 0; i < ANSWERERS; i++)
        EXPECT_EQ(kin_spawn(&helpers, answer_all, book), 0);
    for (unsigned i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){book, i};
        EXPECT_EQ(kin_spawn_with(&clients, NULL, send_all, &senders[i], 0, &refs[i]), 0);
    }
    for (uint64_t i = kin__rng_below(rng, 60); i > 0; i--)
        kin_ignore(kin_yield());
    for (unsigned i = 0; i < SENDERS; i++) {
        if (kin__rng_chance(rng, 1, 8))
            EXPECT_EQ(kin_task_cancel(refs[i]), 0);
    }
    for (uint64_t i = kin__rng_below(rng, 60); i > 0; i--)
        kin_ignore(kin_yield());
    end_server(book, &house);
    kin_mask(); /* what was opened after the house was is cancelled with it */
    kin_ignore(kin_nursery_join(&house, NULL));
    EXPECT_EQ(kin_nursery_join(&clients, NULL), 0);
    kin_chan_close(book->moved);
    EXPECT_EQ(kin_nursery_join(&helpers, NULL), 0);
    kin_unmask();
    kin_chan_unref(book->moved);
}

static int in_chaos(void *arg)
{
    struct kin__rng rng;
    struct book *book = malloc(sizeof *book);
    kin__rng_init(&rng, kin_test_seed(), 7 + *(unsigned *)arg);
    for (int i = 0; i < rounds_of(30); i++) {
        plan(book, kin__rng_next(&rng), &rng);
        one_round(book, &rng);
        if (atomic_load(&book->wants_end)) /* it was stopped, after all */
            book->end = STOP;
        check(book);
    }
    free(book);
    return 0;
}

static void ignore_report(const struct kin_report *report, void *arg)
{
    (void)report, (void)arg;
}

static void run_chaos(unsigned workers)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    config.seed = kin_test_seed();
    config.on_report = ignore_report;
    EXPECT_EQ(kin_run(&config, in_chaos, &workers), 0);
    EXPECT_EQ(kin__party_count(), 0);
}

KIN_TEST_LIMIT(books_balance_on_one_worker, "SINV-1 GS-REPLY GS-CAST-TRY GS-STOPPED", 120)
{
    run_chaos(1);
}

KIN_TEST_LIMIT(books_balance_on_two_workers, "SINV-1 GS-REPLY GS-CAST-TRY GS-STOPPED", 120)
{
    run_chaos(2);
}

KIN_TEST_LIMIT(books_balance_on_four_workers, "SINV-1 GS-REPLY GS-CAST-TRY GS-STOPPED", 120)
{
    run_chaos(4);
}
