/* SPDX-License-Identifier: MIT */
/*
 * Goal: operations on different objects are independent, as 004 S9 says, both in truth and for the
 * search: either order leaves the same state, and DPOR goes through no order of them.
 * Method: pairs of objects in random states, with items inside and with tasks that wait. Both
 * orders of two operations must tell everybody the same; a hash of all that was told is the state.
 * Then DPOR explores two tasks with an operation each: it needs as many runs as for two tasks that
 * share nothing. Two operations on one object are the proof that both would notice.
 *
 * What S9 pairs and what stands for it here:
 *   gs_call, gs_cast  a message to a mailbox, which is a queue of many senders or a channel
 *   gs_reply          an answer, and the obligation to give it committed or aborted
 * Left out, because kin has no such thing yet: down (monitors), reg_register and reg_lookup (the
 * registry), sup_restart_plan (supervisors). Events and watched values are there beside them: what
 * the others are made of.
 */
#include "lab/in_lab.h"

#include "base/rng.h"

enum { WAITERS = 2 };
enum { STATES = 10000, STATES_EACH = 1000, STATES_DPOR = 40 }; /* EACH: of one execution */

struct thing;

/* A kind of object. */
struct shape {
    const char *name;
    unsigned operations;
    void (*make)(struct thing *thing, struct kin__rng *random);
    int (*operate)(struct thing *thing, unsigned which);
    int (*wait)(struct thing *thing);
    void (*end)(struct thing *thing); /* tells what is inside; whoever waits goes on */
};

struct waiter {
    struct thing *thing;
    int got;
};

struct thing {
    const struct shape *shape;
    struct kin_chan *chan; /* of an obligation: where the answer goes */
    struct kin_mpsc *mailbox;
    struct kin_obligation *owed;
    struct kin_watch *watch;
    struct kin_event event;
    struct kin_nursery n; /* of those who wait */
    struct waiter waiters[WAITERS];
    unsigned waiting;
    uint64_t told; /* a hash of everything */
};

/* What is done in one execution. */
static struct scene {
    const struct shape *shapes[2];
    uint64_t seed;
    uint64_t states;
    bool is_same;    /* both operations on the first of the two */
    bool is_at_once; /* by a task each */
    bool is_empty;   /* none at all */
    uint64_t different;
} scene;

static void tell(struct thing *thing, int value)
{
    thing->told = kin__hash_u64(thing->told + KIN__RNG_STEP + (uint64_t)(int64_t)value);
}

static unsigned below(struct kin__rng *random, unsigned n)
{
    return (unsigned)(kin__rng_next(random) % n);
}

/* ---- channels ---- */

static void chan_make(struct thing *thing, struct kin__rng *random)
{
    unsigned capacity = below(random, 4), count = below(random, capacity + 1);
    EXPECT_EQ(kin_chan_create(&thing->chan, sizeof(int), capacity), 0);
    for (int i = 0; i < (int)count; i++)
        EXPECT_EQ(kin_chan_send(thing->chan, &i, 0), 0);
    if (below(random, 5) == 0)
        kin_chan_close(thing->chan);
}

static int chan_operate(struct thing *thing, unsigned which)
{
    int value = 100 + (int)which;
    if (which < 2)
        return kin_chan_send(thing->chan, &value, 0);
    if (which == 2) {
        kin_chan_close(thing->chan);
        return 0;
    }
    int rc = kin_chan_recv(thing->chan, &value, 0);
    return rc < 0 ? rc : value;
}

static int chan_wait(struct thing *thing)
{
    int value = 1000;
    int rc = kin_chan_recv(thing->chan, &value, KIN_NEVER);
    return rc < 0 ? rc : value;
}

static void chan_end(struct thing *thing)
{
    int value;
    tell(thing, (int)kin_chan_len(thing->chan));
    tell(thing, kin_chan_is_closed(thing->chan));
    while (kin_chan_recv(thing->chan, &value, 0) == 0) /* ends: nobody sends any more */
        tell(thing, value);
    kin_chan_abort(thing->chan);
}

/* ---- mailboxes ---- */

static void mailbox_make(struct thing *thing, struct kin__rng *random)
{
    int count = (int)below(random, 3);
    EXPECT_EQ(kin_mpsc_create(&thing->mailbox, sizeof(int), 2), 0);
    for (int i = 0; i < count; i++)
        EXPECT_EQ(kin_mpsc_send(thing->mailbox, &i, 0), 0);
    if (below(random, 5) == 0)
        kin_mpsc_close(thing->mailbox);
}

static int mailbox_operate(struct thing *thing, unsigned which)
{
    int value = 100 + (int)which;
    if (which < 2)
        return kin_mpsc_send(thing->mailbox, &value, 0);
    kin_mpsc_close(thing->mailbox);
    return 0;
}

/* A sender who waits for room. */
static int mailbox_wait(struct thing *thing)
{
    int value = 1000;
    return kin_mpsc_send(thing->mailbox, &value, KIN_NEVER);
}

static void mailbox_end(struct thing *thing)
{
    int value;
    tell(thing, (int)kin_mpsc_len(thing->mailbox));
    tell(thing, kin_mpsc_is_closed(thing->mailbox));
    kin_mpsc_close(thing->mailbox);
    while (kin_mpsc_recv(thing->mailbox, &value, 0) == 0) /* ends: nobody sends any more */
        tell(thing, value);
}

/* ---- answers that are owed ----
 *
 * What one task owes is in one list, so the search takes it for one object: of two tasks each owes
 * its own answer.
 */

static struct kin_obligation *owe(void)
{
    struct kin_obligation *owed = NULL;
    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_SEND, &owed), 0);
    return owed;
}

static void reply_make(struct thing *thing, struct kin__rng *random)
{
    EXPECT_EQ(kin_chan_create(&thing->chan, sizeof(int), 1), 0);
    if (scene.is_at_once)
        return;
    thing->owed = owe();
    if (below(random, 5) == 0)
        EXPECT_EQ(kin_obligation_abort(thing->owed), 0);
}

static int reply_operate(struct thing *thing, unsigned which)
{
    int value = 100;
    struct kin_obligation *owed = scene.is_at_once ? owe() : thing->owed;
    int rc = which ? kin_chan_send(thing->chan, &value, 0) : KIN_CANCELLED;
    if (rc == 0)
        return kin_obligation_commit(owed);
    int ended = kin_obligation_abort(owed);
    return ended < 0 ? ended : rc;
}

static void reply_end(struct thing *thing)
{
    if (!scene.is_at_once)
        tell(thing, kin_obligation_abort(thing->owed)); /* stale, if it was answered */
    chan_end(thing);
}

/* ---- events and watched values ---- */

static void event_make(struct thing *thing, struct kin__rng *random)
{
    if (below(random, 3) == 0)
        kin_event_set(&thing->event);
}

static int event_operate(struct thing *thing, unsigned which)
{
    if (which)
        kin_event_set(&thing->event);
    else
        kin_event_reset(&thing->event);
    return 0;
}

static int event_wait(struct thing *thing)
{
    return kin_event_wait(&thing->event, KIN_NEVER);
}

static void event_end(struct thing *thing)
{
    tell(thing, kin_event_wait(&thing->event, 0));
    kin_event_set(&thing->event);
}

static void watch_make(struct thing *thing, struct kin__rng *random)
{
    int value = (int)below(random, 10);
    EXPECT_EQ(kin_watch_create(&thing->watch, sizeof(int), &value), 0);
    if (below(random, 5) == 0)
        kin_watch_close(thing->watch);
}

static int watch_operate(struct thing *thing, unsigned which)
{
    int value = 100 + (int)which;
    if (which < 2)
        return kin_watch_set(thing->watch, &value);
    kin_watch_close(thing->watch);
    return 0;
}

static int watch_wait(struct thing *thing)
{
    int value;
    uint64_t version = 0;
    int rc = kin_watch_get(thing->watch, &value, &version);
    if (rc == 0)
        rc = kin_watch_wait(thing->watch, &value, &version, KIN_NEVER);
    return rc < 0 ? rc : value;
}

static void watch_end(struct thing *thing)
{
    int value = 0;
    uint64_t version = 0;
    tell(thing, kin_watch_get(thing->watch, &value, &version));
    tell(thing, value);
    kin_watch_close(thing->watch);
}

/* ---- two of them ---- */

static const struct shape shapes[] = {
    {"mailbox", 3, mailbox_make, mailbox_operate, mailbox_wait, mailbox_end},
    {"channel", 4, chan_make, chan_operate, chan_wait, chan_end},
    {"reply", 2, reply_make, reply_operate, chan_wait, reply_end},
    {"event", 2, event_make, event_operate, event_wait, event_end},
    {"watched value", 3, watch_make, watch_operate, watch_wait, watch_end},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static int be_waiter(void *arg)
{
    struct waiter *waiter = arg;
    waiter->got = waiter->thing->shape->wait(waiter->thing);
    return 0;
}

static void make(struct thing *thing, const struct shape *shape, struct kin__rng *random,
                 unsigned waiters)
{
    memset(thing, 0, sizeof *thing);
    thing->shape = shape;
    shape->make(thing, random);
    EXPECT_EQ(kin_nursery_open(&thing->n, NULL), 0);
    for (; thing->waiting < waiters; thing->waiting++) {
        struct waiter *waiter = &thing->waiters[thing->waiting];
        waiter->thing = thing;
        EXPECT_EQ(kin_spawn(&thing->n, be_waiter, waiter), 0);
        EXPECT_EQ(kin_lab_wait_all_blocked(), 0); /* they are in line by their numbers */
    }
}

/* Returns the hash of all that became of it. */
static uint64_t end(struct thing *thing)
{
    thing->shape->end(thing);
    EXPECT_EQ(kin_nursery_join(&thing->n, NULL), 0);
    for (unsigned i = 0; i < thing->waiting; i++)
        tell(thing, thing->waiters[i].got);
    kin_chan_unref(thing->chan);
    kin_mpsc_unref(thing->mailbox);
    kin_watch_unref(thing->watch);
    return thing->told;
}

/* ---- either order leaves the same state ---- */

static uint64_t operate_in_order(uint64_t seed, unsigned first)
{
    struct kin__rng random;
    struct thing things[2];
    unsigned which[2];
    kin__rng_init(&random, seed, 0);
    for (unsigned i = 0; i < 2; i++) {
        which[i] = below(&random, scene.shapes[i]->operations);
        make(&things[i], scene.shapes[i], &random, below(&random, WAITERS + 1));
    }
    for (unsigned i = 0; i < 2; i++) {
        unsigned one = i ^ first;
        struct thing *thing = &things[scene.is_same ? 0 : one];
        int rc = thing->shape->operate(thing, which[one]);
        things[one].told += kin__hash_u64((uint64_t)(int64_t)rc + KIN__RNG_STEP);
    }
    EXPECT_EQ(kin_lab_wait_all_blocked(), 0);
    uint64_t second = end(&things[1]);
    return kin__hash_u64(end(&things[0])) ^ second;
}

static int compare_orders(void *arg)
{
    (void)arg;
    scene.different = 0;
    for (uint64_t i = 0; i < scene.states; i++)
        scene.different += operate_in_order(scene.seed + i, 0) !=
                           operate_in_order(scene.seed + i, 1);
    return 0;
}

/* How many of the states tell the two orders apart. */
static uint64_t different(const struct shape *a, const struct shape *b, uint64_t states,
                          bool is_same)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < states; i += STATES_EACH) {
        scene = (struct scene){
            .shapes = {a, b}, .seed = kin_test_seed() + i, .states = STATES_EACH,
            .is_same = is_same};
        int rc = lab(KIN_LAB_ROUND_ROBIN, 1, compare_orders, NULL);
        if (rc < 0)
            printf("%s and %s: %s\n", a->name, b->name, report.text);
        EXPECT_EQ(rc, 0);
        sum += scene.different;
    }
    return sum;
}

KIN_TEST(either_order_of_operations_on_two_objects_leaves_the_same_state, "")
{
    for (unsigned a = 0; a < SHAPES; a++) {
        for (unsigned b = 0; b <= a; b++) {
            uint64_t states = STATES / kin_test_scale() / (a == b ? 1 : 10);
            printf("%s and %s\n", shapes[a].name, shapes[b].name);
            EXPECT_EQ(different(&shapes[a], &shapes[b], states, false), 0);
        }
    }
}

KIN_TEST(the_order_of_operations_on_one_object_shows, "")
{
    for (unsigned a = 0; a < SHAPES; a++)
        EXPECT_GT(different(&shapes[a], &shapes[a], 100, true), 0);
}

/* ---- the search does not go through both orders ---- */

struct doer {
    struct thing *thing;
    unsigned which;
};

static int be_doer(void *arg)
{
    const struct doer *doer = arg;
    if (!scene.is_empty)
        kin_ignore(doer->thing->shape->operate(doer->thing, doer->which));
    return 0;
}

static int operate_at_once(void *arg)
{
    struct kin__rng random;
    struct thing things[2];
    struct doer doers[2];
    (void)arg;
    kin__rng_init(&random, scene.seed, 0);
    for (unsigned i = 0; i < 2; i++) {
        make(&things[i], scene.shapes[i], &random, 0);
        doers[i].thing = &things[scene.is_same ? 0 : i];
        doers[i].which = below(&random, scene.shapes[i]->operations);
    }
    KIN_NURSERY(outer);
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_spawn(&outer, be_doer, &doers[0]), 0);
    EXPECT_EQ(kin_spawn(&inner, be_doer, &doers[1]), 0);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    (void)end(&things[1]);
    (void)end(&things[0]);
    return 0;
}

/* Runs that a complete search takes. */
static uint64_t search(const struct shape *a, const struct shape *b, uint64_t seed, bool is_same,
                       bool is_empty)
{
    scene = (struct scene){.shapes = {a, b}, .seed = seed, .is_same = is_same,
                           .is_at_once = true, .is_empty = is_empty};
    int rc = lab(KIN_LAB_DPOR, 0, operate_at_once, NULL);
    printf("%s and %s: %llu %s\n", a->name, b->name, (unsigned long long)report.executions,
           report.text);
    EXPECT_EQ(rc, 0);
    EXPECT(report.exhausted);
    return report.executions;
}

KIN_TEST(the_search_goes_through_no_order_of_what_is_independent, "")
{
    uint64_t states = STATES_DPOR / kin_test_scale() + 1;
    for (unsigned a = 0; a < SHAPES; a++) {
        uint64_t more = 0;
        for (uint64_t i = 0; i < states; i++) {
            uint64_t seed = kin_test_seed() + i;
            for (unsigned b = 0; b <= a; b++) {
                uint64_t runs = search(&shapes[a], &shapes[b], seed, false, false);
                EXPECT_EQ(runs, search(&shapes[a], &shapes[b], seed, false, true));
            }
            more += search(&shapes[a], &shapes[a], seed, true, false) >
                    search(&shapes[a], &shapes[a], seed, true, true);
        }
        EXPECT_GT(more, 0); /* on one object it does */
    }
}
