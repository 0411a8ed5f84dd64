/* SPDX-License-Identifier: MIT */
/*
 * Goal: operations on different objects are independent, as 004 S9 says, both in truth and for the
 * search: either order leaves the same state, and DPOR goes through no order of them.
 * Method: pairs of objects in random states, with items inside and with tasks that wait. Both
 * orders of two operations must tell everybody the same; a hash of all that was told is the state.
 * Then DPOR explores two tasks with an operation each: it needs as many runs as for two tasks that
 * share nothing. Two operations on one object are the proof that both would notice.
 *
 * What S9 pairs and what it is here:
 *   gs_call, gs_cast          a call and a cast to a server; and a message to a queue or a channel
 *   gs_reply                  an answer, and the obligation to give it committed or aborted
 *   down                      the end of a task that somebody else watches
 *   reg_register, reg_lookup  registering, looking up, unregistering
 * A supervisor's plan is made of these: ends of tasks, and its own mailbox. Events and watched
 * values are there beside them: what the others are made of.
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
    bool has_task; /* which does something about it, when it likes, or whose end is told to others:
                    * the search has orders of that */
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
    struct kin_addr server;
    struct kin_nursery home; /* of the server, or of who is watched: if there is an id */
    char name[8];
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
    unsigned names;  /* how many were given */
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

/* ---- servers ---- */

static int log_cast(struct kin_server *s, void *state, const void *msg, size_t size)
{
    int *log = state;
    (void)s, (void)size;
    *log = (*log * 31 + *(const int *)msg) % 1000003;
    return 0;
}

static int log_call(struct kin_server *s, void *state, const void *req, size_t size,
                    struct kin_reply *reply)
{
    int *log = state;
    (void)s, (void)req, (void)size;
    *log = (*log * 31 + 7) % 1000003;
    EXPECT_EQ(kin_reply_send(reply, log, sizeof *log), 0);
    return 0;
}

static int server_wait(struct thing *thing)
{
    int log = 0;
    int rc = kin_call(thing->server, NULL, 0, &log, sizeof log, NULL, KIN_NEVER);
    return rc < 0 ? rc : log;
}

static void server_make(struct thing *thing, struct kin__rng *random)
{
    static const struct kin_server_ops ops = {.on_cast = log_cast, .on_call = log_call};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    int count = (int)below(random, 3);
    options.state_size = sizeof(int);
    EXPECT_EQ(kin_nursery_open(&thing->home, NULL), 0);
    EXPECT_EQ(kin_server_start(&thing->home, &ops, &options, NULL, &thing->server), 0);
    for (int i = 0; i < count; i++)
        EXPECT_EQ(kin_cast(thing->server, &i, sizeof i, 0), 0);
    EXPECT_GE(server_wait(thing), 0); /* it has handled them and waits */
    EXPECT_EQ(kin_lab_wait_all_blocked(), 0);
}

static int server_operate(struct thing *thing, unsigned which)
{
    int value = 100 + (int)which;
    return which < 2 ? kin_cast(thing->server, &value, sizeof value, 0) : server_wait(thing);
}

static void server_end(struct thing *thing)
{
    tell(thing, server_wait(thing));
    EXPECT_EQ(kin_server_stop(thing->server, 0, KIN_NEVER), 0);
}

/* ---- names ---- */

/* Two names of different shards: those of one share its lock, and the search takes them for one
 * object. */
static void name_make(struct thing *thing, struct kin__rng *random)
{
    snprintf(thing->name, sizeof thing->name, "name %c", (char)('a' + 5 * (scene.names++ % 2)));
    EXPECT_EQ(kin_register(thing->name, kin_self_addr(), 0), 0); /* there is a registry now */
    if (scene.is_at_once || below(random, 2))
        EXPECT_EQ(kin_unregister(thing->name), 0);
}

static int name_operate(struct thing *thing, unsigned which)
{
    struct kin_addr who;
    if (which == 0)
        return kin_register(thing->name, kin_self_addr(), 0);
    return which == 1 ? kin_unregister(thing->name) : kin_whereis(thing->name, &who);
}

static int name_wait(struct thing *thing)
{
    return name_operate(thing, 2);
}

static void name_end(struct thing *thing)
{
    tell(thing, name_wait(thing));
    kin_ignore(kin_unregister(thing->name));
}

/* ---- ends that are watched ---- */

static int be_watched(void *arg)
{
    struct thing *thing = arg;
    int rc = kin_event_wait(&thing->event, KIN_NEVER);
    return rc < 0 ? rc : thing->waiting > 0 ? -ECANCELED : 0;
}

static void down_make(struct thing *thing, struct kin__rng *random)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_task_ref task;
    options.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(&thing->home, &options), 0);
    EXPECT_EQ(kin_spawn_with(&thing->home, NULL, be_watched, thing, 0, &task), 0);
    thing->server = kin_task_addr(task);
    EXPECT_EQ(kin_lab_wait_all_blocked(), 0);
    if (below(random, 5) == 0)
        kin_event_set(&thing->event);
}

/* Each waiter watches for itself: it is told, whenever it comes. */
static int down_wait(struct thing *thing)
{
    struct kin_monitor_ref ref;
    struct kin_info info;
    int rc = kin_monitor(thing->server, &ref);
    if (rc == 0)
        rc = kin_wait_down(ref, &info, KIN_NEVER);
    return rc < 0 ? rc : (int)info.u.down.reason;
}

static int down_operate(struct thing *thing, unsigned which)
{
    struct kin_monitor_ref ref;
    if (which == 0) {
        kin_event_set(&thing->event);
        return 0;
    }
    int rc = kin_monitor(thing->server, &ref);
    return rc < 0 ? rc : kin_demonitor(ref); /* KIN_STALE: it was over */
}

static void down_end(struct thing *thing)
{
    kin_event_set(&thing->event);
}

/* ---- two of them ---- */

static const struct shape shapes[] = {
    {"mailbox", 3, mailbox_make, mailbox_operate, mailbox_wait, mailbox_end, false},
    {"channel", 4, chan_make, chan_operate, chan_wait, chan_end, false},
    {"reply", 2, reply_make, reply_operate, chan_wait, reply_end, false},
    {"event", 2, event_make, event_operate, event_wait, event_end, false},
    {"watched value", 3, watch_make, watch_operate, watch_wait, watch_end, false},
    {"server", 3, server_make, server_operate, server_wait, server_end, true},
    {"name", 3, name_make, name_operate, name_wait, name_end, true},
    {"end of a task", 2, down_make, down_operate, down_wait, down_end, true},
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
    if (thing->server.id)
        tell(thing, kin_nursery_join(&thing->home, NULL));
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

static void do_nothing(void *arg)
{
    (void)arg;
}

/* Whoever has a cleanup or owes something has belongings, and ends in more steps, which the search
 * orders with the join. So that only operations make a difference everybody has some. */
static int be_doer(void *arg)
{
    const struct doer *doer = arg;
    EXPECT_EQ(kin_defer(do_nothing, NULL), 0);
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
        if (shapes[a].has_task)
            continue;
        for (uint64_t i = 0; i < states; i++) {
            uint64_t seed = kin_test_seed() + i;
            for (unsigned b = 0; b <= a; b++) {
                if (shapes[b].has_task)
                    continue;
                uint64_t runs = search(&shapes[a], &shapes[b], seed, false, false);
                EXPECT_EQ(runs, search(&shapes[a], &shapes[b], seed, false, true));
            }
            more += search(&shapes[a], &shapes[a], seed, true, false) >
                    search(&shapes[a], &shapes[a], seed, true, true);
        }
        EXPECT_GT(more, 0); /* on one object it does */
    }
}
