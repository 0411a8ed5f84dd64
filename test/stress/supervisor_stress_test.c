/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever happens to a tree of supervisors, it comes to its end and leaves nobody; no child
 * ever lives twice at once; none that panicked or was cancelled comes back by itself; no supervisor
 * restarts more often than it may.
 * Method: random trees, whose seed is printed, of children that end well, fail, crash, panic, stay,
 * are deaf or slow, decline or fail to start; meanwhile tasks that cancel children, give orders to
 * supervisors, and leave before the answer. Each child keeps its own books, which are checked at
 * each of its starts and at the end.
 */
#include "api/in_runtime.h"

#include "base/rng.h"

enum { FAN = 5, NODES = 64, GREMLINS = 3 };

struct node {
    struct tree *tree;
    char name[16];
    struct node *above;
    struct node *below[FAN];
    int count; /* of below; 0: a leaf */
    bool is_plain; /* a leaf that is a task, not a server */
    enum kin_restart restart;
    int64_t shutdown;
    struct kin_supervisor_options options; /* of a supervisor */

    _Atomic uint64_t dice;   /* counts throws */
    _Atomic int alive;       /* incarnations of a leaf that live */
    _Atomic int incarnation; /* of a supervisor: how often it was started */
    _Atomic uint64_t id;     /* of a supervisor: where it was last */
    _Atomic int restarts;    /* of a supervisor: starts of leaves again, by itself, in this life */
    _Atomic int is_lost;     /* the last incarnation panicked or was cancelled, */
    _Atomic int seen;        /* in this life of the supervisor above; 0: it was never started */
    _Atomic int by_hand;     /* how many ask for its start just now, or have left before it came */
};

struct tree {
    uint64_t seed;
    struct node nodes[NODES];
    int count;
    _Atomic int steps_left; /* of the gremlins */
    _Atomic int starts, losses, orders;
    struct kin_nursery n;
    struct kin_addr root;
};

/* A number below n that belongs to this node alone, whoever throws when. */
static uint64_t throw_dice(struct node *node, uint64_t n)
{
    struct kin__rng rng;
    kin__rng_init(&rng, node->tree->seed + (uint64_t)(node - node->tree->nodes),
                  atomic_fetch_add(&node->dice, 1));
    return kin__rng_below(&rng, n);
}

/* ---- leaves ---- */

static void bury(void *arg)
{
    struct node *node = arg;
    EXPECT_EQ(atomic_fetch_sub(&node->alive, 1), 1);
}

/* Lives for a while and ends somehow: what a plain leaf returns. */
static int live(struct node *node)
{
    uint64_t turns = throw_dice(node, 30), end = throw_dice(node, 10);
    int rc = 0;
    for (uint64_t i = 0; i < turns && rc == 0; i++)
        rc = kin_yield();
    if (rc == 0 && end < 4)
        rc = kin_sleep(KIN_NEVER);
    if (rc == 0 && end == 4) { /* deaf */
        kin_mask();
        rc = kin_sleep(KIN_NEVER);
        kin_unmask();
    }
    if (rc < 0) {
        atomic_store(&node->is_lost, 1);
        return KIN_CANCELLED;
    }
    switch (end) {
    case 5:
        return 0;
    case 6:
        kin_fail(-EPIPE, "a leaf falls");
    case 7:
        atomic_store(&node->is_lost, 1);
        kin_panic("a leaf burns");
    default:
        return -EIO;
    }
}

static void be_born(struct node *node)
{
    EXPECT_EQ(atomic_fetch_add(&node->alive, 1), 0);
    EXPECT_EQ(kin_defer(bury, node), 0);
}

static int plain_leaf(void *arg)
{
    be_born(arg);
    return live(arg);
}

static int leaf_on_start(struct kin_server *s, void *state, const void *arg)
{
    struct node *node = *(struct node *const *)arg;
    (void)s;
    *(struct node **)state = node;
    be_born(node);
    return KIN_CONTINUE;
}

static int leaf_on_continue(struct kin_server *s, void *state)
{
    int rc = live(*(struct node **)state);
    return rc == 0 ? kin_server_stop_self(s, 0) : rc;
}

/* The books: whether this start may be. */
static void check_start(struct node *node)
{
    struct node *above = node->above;
    int life = atomic_load(&above->incarnation);
    bool is_first = atomic_exchange(&node->seen, life) != life;
    bool was_lost = atomic_exchange(&node->is_lost, 0);
    bool is_by_hand = atomic_load(&node->by_hand) > 0;

    atomic_fetch_add(&node->tree->starts, 1);
    if (is_first || is_by_hand || above->options.strategy != KIN_ONE_FOR_ONE)
        return; /* plans start others, too */
    EXPECT(!was_lost);
    if (above->options.escalation != KIN_ESCALATION_RESET)
        EXPECT_LE(atomic_fetch_add(&above->restarts, 1) + 1, (int)above->options.max_restarts);
}

static int start_leaf(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    static const struct kin_server_ops ops = {.on_start = leaf_on_start,
                                              .on_continue = leaf_on_continue};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    struct node *node = (struct node *)(uintptr_t)arg;
    struct kin_task_ref ref;

    check_start(node);
    uint64_t how = throw_dice(node, 30);
    for (uint64_t i = 0; how < 8 && i < 5 * how; i++) { /* slow */
        int rc = kin_yield();
        if (rc < 0)
            return rc;
    }
    if (how == 28)
        return KIN_IGNORE;
    if (how == 29 && atomic_load(&node->seen) > 1)
        return -EAGAIN;
    if (node->is_plain) {
        int rc = kin_spawn_with(n, NULL, plain_leaf, node, 0, &ref);
        if (rc == 0)
            *out = kin_task_addr(ref);
        return rc;
    }
    options.state_size = sizeof(struct node *);
    return kin_server_start(n, &ops, &options, &node, out);
}

/* ---- supervisors ---- */

static int start_branch(struct kin_nursery *n, const void *arg, struct kin_addr *out);

static struct kin_child_spec spec_of(struct node *node)
{
    return (struct kin_child_spec){.name = node->name,
                                   .start = node->count ? start_branch : start_leaf,
                                   .arg = node,
                                   .restart = node->restart,
                                   .shutdown = node->shutdown};
}

static int start_branch(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct node *node = (struct node *)(uintptr_t)arg;
    struct kin_child_spec specs[FAN];

    for (int i = 0; i < node->count; i++)
        specs[i] = spec_of(node->below[i]);
    atomic_fetch_add(&node->incarnation, 1);
    atomic_store(&node->restarts, 0);
    int rc = kin_supervisor_start(n, &node->options, specs, (size_t)node->count, out);
    if (rc == 0)
        atomic_store(&node->id, out->id);
    return rc;
}

static struct node *grow(struct tree *tree, struct node *above, int depth, struct kin__rng *rng)
{
    static const int64_t shutdowns[] = {KIN_BRUTAL, KIN_US(50), KIN_MS(1)};
    struct node *node = &tree->nodes[tree->count++];

    node->tree = tree;
    node->above = above;
    snprintf(node->name, sizeof node->name, "n%d", tree->count);
    node->restart = (enum kin_restart)kin__rng_below(rng, above ? 4 : 1);
    if (node->restart == KIN_ESCALATE && kin__rng_chance(rng, 3, 4))
        node->restart = KIN_PERMANENT;
    node->is_plain = kin__rng_chance(rng, 1, 2);
    node->shutdown = shutdowns[kin__rng_below(rng, 3)];
    node->options = (struct kin_supervisor_options)KIN_SUPERVISOR_OPTIONS_INIT;
    node->options.strategy = (enum kin_strategy)kin__rng_below(rng, 3);
    node->options.max_restarts = 1 + (unsigned)kin__rng_below(rng, 6);
    node->options.window = KIN_SEC(1000000);
    node->options.escalation = (enum kin_escalation)kin__rng_below(rng, 3);
    node->options.reset_backoff = (struct kin_backoff){KIN_US(20), KIN_US(100), 0, 20};
    if (depth == 0)
        return node;
    node->shutdown = KIN_NEVER; /* as a supervisor should have */
    int count = 1 + (int)kin__rng_below(rng, FAN);
    for (int i = 0; i < count && tree->count < NODES - FAN; i++) {
        int deeper = kin__rng_chance(rng, 1, 3) ? depth - 1 : 0;
        node->below[node->count++] = grow(tree, node, deeper, rng);
    }
    return node;
}

/* ---- gremlins ---- */

static void expect_one_of(int rc, const int *allowed)
{
    for (; *allowed != 1; allowed++)
        if (rc == *allowed)
            return;
    EXPECT_STR(kin_status_name(rc), "an answer that is allowed");
}

/* A start by hand is over, unless whoever asked has left, or was sent away by a supervisor that
 * stops: then it may still come. */
static int by_hand(struct node *child, int rc)
{
    if (rc != KIN_TIMEOUT && rc != KIN_CANCELLED && rc != KIN_STOPPING)
        atomic_fetch_sub(&child->by_hand, 1);
    return rc;
}

/* One order about a child of a supervisor; any of the answers in the contract may come. */
static void give_order(struct node *node, struct node *child, uint64_t what, kin_time deadline)
{
    /* whatever is asked: also what the supervisor failed with, if it ends meanwhile */
    static const int common[] = {0,    KIN_NOPROC, KIN_STOPPING, KIN_TIMEOUT,  KIN_CANCELLED,
                                 -EIO, -EPIPE,     -EAGAIN,      KIN_PANICKED, KIN_EXHAUSTED, 1};
    static const int starts[] = {0,         KIN_NOPROC,  KIN_STOPPING, KIN_TIMEOUT,  KIN_CANCELLED,
                                 -EIO,      -EPIPE,      -EAGAIN,      KIN_PANICKED, KIN_EXHAUSTED,
                                 KIN_TAKEN, KIN_IGNORE,  -EBUSY,       -EALREADY,    KIN_NOSCOPE,
                                 1};
    static const int deletes[] = {0,      KIN_NOPROC, KIN_STOPPING, KIN_TIMEOUT,  KIN_CANCELLED,
                                  -EIO,   -EPIPE,     -EAGAIN,      KIN_PANICKED, KIN_EXHAUSTED,
                                  -EBUSY, -EALREADY,  1};
    struct kin_addr sup = {0, atomic_load(&node->id)}, out;
    struct kin_child_info infos[FAN];
    struct kin_child_counts counts;
    struct kin_child_spec spec = spec_of(child);
    ssize_t count;

    switch (what) {
    case 0:
        expect_one_of(kin_supervisor_terminate_child(sup, child->name, deadline), common);
        break;
    case 1:
        atomic_fetch_add(&child->by_hand, 1);
        expect_one_of(
            by_hand(child, kin_supervisor_restart_child(sup, child->name, &out, deadline)), starts);
        break;
    case 2:
        expect_one_of(kin_supervisor_delete_child(sup, child->name, deadline), deletes);
        break;
    case 3:
        atomic_fetch_add(&child->by_hand, 1);
        expect_one_of(by_hand(child, kin_supervisor_start_child(sup, &spec, &out, deadline)),
                      starts);
        break;
    case 4:
        expect_one_of(kin_supervisor_count_children(sup, &counts, deadline), common);
        break;
    default:
        count = kin_supervisor_which_children(sup, infos, FAN, deadline);
        expect_one_of(count > 0 ? 0 : (int)count, common);
        if (count > 0 && what == 5) {
            size_t i = (size_t)count < FAN ? (size_t)count - 1 : FAN - 1;
            kin_ignore(kin_task_cancel((struct kin_task_ref){infos[i].addr.id}));
        }
        if (count > 0 && what == 6)
            expect_one_of(kin_supervisor_terminate_addr(sup, infos[0].addr, deadline), common);
    }
}

static int gremlin(void *arg)
{
    struct tree *tree = arg;
    while (atomic_fetch_sub(&tree->steps_left, 1) > 0) {
        struct node *node = &tree->nodes[0];
        uint64_t which = throw_dice(node, (uint64_t)tree->count);
        uint64_t what = throw_dice(node, 8);
        bool leaves = throw_dice(node, 4) == 0;
        node = &tree->nodes[which];
        if (node->count == 0)
            node = node->above;
        struct node *child = node->below[throw_dice(node, (uint64_t)node->count)];
        if (child->count && (what == 1 || what == 3))
            continue; /* of leaves alone the books are kept */
        give_order(node, child, what, leaves ? kin_after(KIN_US(30)) : KIN_NEVER);
        atomic_fetch_add(&tree->orders, 1);
        int rc = kin_yield();
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int one_tree(void *arg)
{
    struct tree *tree = arg;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery gremlins;
    struct node *root = &tree->nodes[0];

    options.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(&tree->n, &options), 0);
    int rc = start_branch(&tree->n, root, &tree->root);
    if (rc == 0) {
        EXPECT_EQ(kin_nursery_open(&gremlins, NULL), 0);
        for (int i = 0; i < GREMLINS; i++)
            EXPECT_EQ(kin_spawn(&gremlins, gremlin, tree), 0);
        switch (throw_dice(root, 3)) {
        case 0: /* in the middle of it */
            for (uint64_t turns = throw_dice(root, 300); turns > 0; turns--)
                kin_ignore(kin_yield());
            kin_nursery_cancel(&tree->n, 0); /* the gremlins' is inside of it */
            rc = kin_nursery_join(&gremlins, NULL);
            EXPECT(rc == 0 || rc == KIN_CANCELLED);
            break;
        case 1:
            EXPECT_EQ(kin_nursery_join(&gremlins, NULL), 0);
            kin_nursery_cancel(&tree->n, 0);
            break;
        default:
            EXPECT_EQ(kin_nursery_join(&gremlins, NULL), 0);
            rc = kin_server_stop(tree->root, 0, KIN_NEVER);
            EXPECT(rc == 0 || rc == KIN_NOPROC);
        }
    }
    kin_ignore(kin_nursery_join(&tree->n, NULL));
    for (int i = 0; i < tree->count; i++)
        EXPECT_EQ(atomic_load(&tree->nodes[i].alive), 0);
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

static int plant(uint64_t seed, unsigned workers)
{
    static struct tree tree;
    struct kin__rng rng;

    memset(&tree, 0, sizeof tree);
    tree.seed = seed;
    kin__rng_init(&rng, seed, 1);
    atomic_store(&tree.steps_left, 150);
    grow(&tree, NULL, 3, &rng);
    EXPECT_EQ(run_reporting(workers, one_tree, &tree, NULL), 0);
    return atomic_load(&tree.starts);
}

KIN_TEST_LIMIT(trees_of_supervisors_live_through_everything_and_end, "SINV-2 SUP-BUDGET-EXCEEDED",
               300)
{
    uint64_t seed = kin_test_seed();
    int rounds = 240 / (int)kin_test_scale(), starts = 0;

    for (int i = 0; i < rounds; i++) {
        printf("tree %#llx\n", (unsigned long long)(seed + (uint64_t)i));
        starts += plant(seed + (uint64_t)i, 1u << (i % 3));
    }
    EXPECT_GT(starts, 2 * rounds);
}
