/* SPDX-License-Identifier: MIT */
/*
 * Goal: the guarantees of 001 as properties: no orphans, errors reach the scope, a cancellation
 *       reaches everybody below, cleanups run in reverse order, deadlines compose.
 * Method: random trees of tasks and nurseries, by a printed seed, on 1, 2 and 4 workers. Every node
 *         may fail, panic, be cancelled, mask itself, have deadlines and hold resources; what must
 *         hold is checked by the nodes themselves and after every join.
 */
#include "api/in_runtime.h"

enum { DEPTH = 4, RESOURCES = 6 };

static uint64_t step(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* A nursery as its children see it. */
struct family {
    struct kin_nursery *n;
    struct owner *owner;
    int holds;           /* resources that the owner held when it opened the nursery */
    _Atomic int spawned; /* accepted */
    _Atomic int alive;   /* bodies that run */
    _Atomic int errors;  /* ends with an error, */
    _Atomic int panics;  /* a panic, */
    _Atomic int asked;   /* by hand, with this reason */
    bool has_deadline;
    bool collects;
};

/* A task and what it holds: resources, closed in reverse order. */
struct owner {
    uint64_t random;
    int depth;
    struct family *family;
    _Atomic int open; /* how many of the resources are */
    struct resource {
        struct owner *owner;
        int index;
    } resources[RESOURCES];
    int end; /* how it means to end: 0, -EIO, KIN_PANICKED */
};

static void close_resource(void *arg)
{
    struct resource *resource = arg;
    /* the last one opened is closed first [NCG-3] */
    EXPECT_EQ(atomic_fetch_sub(&resource->owner->open, 1), resource->index + 1);
}

static void acquire(struct owner *me)
{
    int index = atomic_load(&me->open);
    if (index == RESOURCES)
        return;
    me->resources[index] = (struct resource){me, index};
    EXPECT_EQ(kin_defer(close_resource, &me->resources[index]), 0);
    atomic_store(&me->open, index + 1);
}

/* The first cleanup of each task, so the last to run: nothing of it is left but this. */
static void depart(void *arg)
{
    struct owner *me = arg;
    struct family *family = me->family;
    EXPECT_EQ(atomic_load(&me->open), 0);
    EXPECT_GE(atomic_load(&family->owner->open), family->holds); /* inner before outer [NSM-4] */
    atomic_fetch_add(&family->errors, me->end == -EIO);
    atomic_fetch_add(&family->panics, me->end == KIN_PANICKED);
    atomic_fetch_sub(&family->alive, 1);
}

/* Waits, computes, or neither; what comes of it is what the rules allow. */
static void pass_time(struct owner *me)
{
    int rc = 0;
    switch (step(&me->random) % 6) {
    case 0:
        rc = kin_sleep(kin_after((int64_t)(step(&me->random) % 100) * 1000));
        break;
    case 1:
        rc = kin_yield();
        break;
    case 2:
        rc = kin_checkpoint();
        break;
    case 3:
        kin_mask();
        rc = kin_sleep(kin_after((int64_t)(step(&me->random) % 50) * 1000));
        EXPECT_EQ(rc, 0); /* nothing ends a masked wait of a moment */
        kin_unmask();
        break;
    default:
        break;
    }
    EXPECT(rc == 0 || (rc == KIN_CANCELLED && kin_cancelled()));
}

static int be_node(void *arg);

static void spawn_children(struct owner *me, struct family *family, struct owner *below, int count)
{
    for (int i = 0; i < count; i++) {
        below[i].random = step(&me->random);
        below[i].depth = me->depth - 1;
        below[i].family = family;
        atomic_store(&below[i].open, 0);
        int rc = kin_spawn(family->n, be_node, &below[i]);
        EXPECT(rc == 0 || rc == KIN_NOSCOPE);
        atomic_fetch_add(&family->spawned, rc == 0);
        if (step(&me->random) % 4 == 0)
            pass_time(me);
    }
}

/* What a join must say of a family [NSM:4.4]. */
static void check_join(struct family *family, int rc, const struct kin_outcome *how)
{
    EXPECT_EQ(atomic_load(&family->alive), 0); /* [NCG-1] */
    if (atomic_load(&family->panics)) {
        EXPECT_EQ(rc, KIN_PANICKED);
        EXPECT_EQ(how->severity, KIN_SEV_PANIC);
    } else if (atomic_load(&family->errors)) {
        EXPECT_EQ(rc, -EIO);
        EXPECT_EQ(how->severity, KIN_SEV_ERROR);
    } else if (rc != 0) { /* then it was cancelled: by hand, by its deadline, or from outside */
        EXPECT_EQ(how->severity, KIN_SEV_CANCELLED);
        EXPECT(rc == atomic_load(&family->asked) || (family->has_deadline && rc == KIN_TIMEOUT) ||
               kin_cancelled());
    } else {
        EXPECT_EQ(kin_nursery_state(family->n), KIN_NURSERY_CLOSED);
    }
    if ((atomic_load(&family->errors) || atomic_load(&family->panics)) && !family->collects)
        EXPECT_EQ(kin_nursery_state(family->n), KIN_NURSERY_CANCELLED); /* [NCG-2] */
    size_t kept = kin_nursery_errors(family->n, NULL, 0) + kin_nursery_errors_dropped(family->n);
    EXPECT_EQ(kept, atomic_load(&family->errors) + atomic_load(&family->panics));
}

/* Opens a nursery, lives with it for a while and joins it; or leaves that to the way out. */
static void have_family(struct owner *me, struct family *family, struct owner *below, bool joins)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_outcome how;
    options.on_error = step(&me->random) % 2 ? KIN_COLLECT : KIN_FAIL_FAST;
    if (step(&me->random) % 6 == 0)
        options.deadline = kin_after((int64_t)(step(&me->random) % 300) * 1000);
    family->owner = me;
    family->holds = atomic_load(&me->open);
    family->collects = options.on_error == KIN_COLLECT;
    family->has_deadline = options.deadline != 0;
    EXPECT_EQ(kin_nursery_open(family->n, &options), 0);
    if (step(&me->random) % 3 == 0)
        acquire(me);
    spawn_children(me, family, below, (int)(step(&me->random) % 4));
    if (step(&me->random) % 5 == 0) {
        atomic_store(&family->asked, -EPIPE);
        kin_nursery_cancel(family->n, -EPIPE);
        EXPECT(kin_cancelled()); /* the owner is asked, too, until it has joined */
    }
    pass_time(me);
    if (!joins)
        return;
    int rc = kin_nursery_join(family->n, &how);
    check_join(family, rc, &how);
}

static int be_node(void *arg)
{
    struct owner *me = arg;
    struct family families[2] = {{0}, {0}};
    struct owner below[2][3];
    struct kin_nursery nurseries[2];
    me->end = 0;
    EXPECT_EQ(atomic_fetch_add(&me->family->alive, 1) >= 0, true);
    EXPECT_EQ(kin_defer(depart, me), 0);
    EXPECT_GE(atomic_load(&me->family->owner->open), me->family->holds);
    acquire(me);
    pass_time(me);
    uint64_t ways = step(&me->random) % 24;
    bool leaves_open = ways < 2; /* kin_fail and kin_panic end the nurseries, too */
    for (int i = 0; i < 2 && me->depth > 0; i++) {
        families[i].n = &nurseries[i];
        have_family(me, &families[i], below[i], !(leaves_open && i == 1));
        pass_time(me);
    }
    acquire(me);
    if (ways == 0) {
        me->end = -EIO;
        kin_fail(-EIO, "at random");
    }
    if (ways == 1) {
        me->end = KIN_PANICKED;
        kin_panic("at random");
    }
    if (ways == 2)
        me->end = -EIO;
    return me->end ? me->end : kin_cancelled() ? KIN_CANCELLED : 0;
}

static int grow_a_tree(void *arg)
{
    uint64_t *random = arg;
    struct owner root = {.random = step(random), .depth = DEPTH};
    struct kin_nursery n;
    struct family family = {.n = &n, .owner = &root};
    static struct owner first[4];
    struct kin_outcome how;
    family.collects = step(random) % 2;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    options.on_error = family.collects ? KIN_COLLECT : KIN_FAIL_FAST;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    spawn_children(&root, &family, first, 4);
    if (step(random) % 3 == 0) {
        atomic_store(&family.asked, -EPIPE);
        kin_nursery_cancel(&n, -EPIPE);
    }
    int rc = kin_nursery_join(&n, &how);
    check_join(&family, rc, &how);
    EXPECT(!kin_cancelled());
    return 0;
}

static int grow_trees(void *arg)
{
    const int rounds = enough(150 / (int)kin_test_scale(), 5);
    (void)arg;
    uint64_t random = kin_test_seed();
    for (int i = 0; i < rounds; i++)
        EXPECT_EQ(grow_a_tree(&random), 0);
    return 0;
}

KIN_TEST(random_trees_keep_every_guarantee,
         "NCG-1 NCG-2 NCG-3 NSM-1 NSM-2 NSM-4 NSM-5 NSM:4.4 NSM:6.3 B13")
{
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    run_on_few(grow_trees, NULL);
}

/* ---- a cancellation reaches everybody below ---- */

/* Leaves wait for ever: the join of the root returns only if each of them was reached. */
struct branch {
    uint64_t random;
    int depth;
    _Atomic int *reached;
};

static int be_branch(void *arg)
{
    struct branch me = *(struct branch *)arg;
    uint64_t kind = step(&me.random) % 4;
    if (me.depth == 0 || kind == 0) {
        bool is_masked = step(&me.random) % 4 == 0;
        if (is_masked) { /* late, but not never */
            kin_mask();
            kin_ignore(kin_sleep(kin_after((int64_t)(step(&me.random) % 200) * 1000)));
            kin_unmask();
        }
        int rc = kin_sleep(KIN_NEVER);
        EXPECT_EQ(rc, KIN_CANCELLED);
        EXPECT_EQ(kin_cancel_reason(), -EPIPE);
        atomic_fetch_add(me.reached, 1);
        return rc;
    }
    bool is_masked = kind == 1; /* the nursery is opened under a mask that goes before the join */
    struct kin_nursery n;
    if (is_masked)
        kin_mask();
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    for (uint64_t i = 1 + step(&me.random) % 3; i > 0; i--) {
        struct branch below = {step(&me.random), me.depth - 1, me.reached};
        int rc = kin_spawn_copy(&n, be_branch, &below, sizeof below);
        EXPECT(rc == 0 || rc == KIN_NOSCOPE);
        if (step(&me.random) % 4 == 0)
            kin_ignore(kin_yield());
    }
    if (is_masked)
        kin_unmask();
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED); /* from outside, whatever the reason */
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), -EPIPE);
    return KIN_CANCELLED;
}

static int cancel_trees(void *arg)
{
    uint64_t random = kin_test_seed();
    const int rounds = enough(100 / (int)kin_test_scale(), 5);
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        _Atomic int reached = 0;
        struct branch first = {step(&random), 6, &reached};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, be_branch, &first), 0);
        for (uint64_t k = step(&random) % 100; k > 0; k--)
            kin_ignore(kin_yield());
        kin_nursery_cancel(&n, -EPIPE);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
        EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
    }
    return 0;
}

KIN_TEST(a_cancellation_reaches_every_leaf_of_random_trees, "NSM-3 NSM:4.2 NSM:6.2 B7 A7")
{
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    run_on_few(cancel_trees, NULL);
}

/* ---- deadlines compose ---- */

/* Opens scopes of every kind inside of each other, up to a wait for ever. tightest: of the pushed
 * ones; own: of the nurseries since the task began. */
static int nest_deadlines(uint64_t random, int depth, kin_time tightest)
{
    kin_time deadline = kin_after((int64_t)(step(&random) % 3000) * 1000);
    if (depth == 0) {
        int rc = kin_sleep(KIN_NEVER);
        EXPECT(rc == KIN_TIMEOUT || rc == KIN_CANCELLED);
        if (rc == KIN_TIMEOUT)
            EXPECT_GE(kin_now(), tightest); /* never early */
        return rc;
    }
    if (step(&random) % 2) {
        kin_time before = kin_deadline_push(deadline);
        EXPECT_EQ(before, tightest);
        int rc = nest_deadlines(random, depth - 1, deadline < tightest ? deadline : tightest);
        kin_deadline_pop(before);
        return rc;
    }
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    options.deadline = step(&random) % 2 ? deadline : 0;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    int rc = nest_deadlines(random, depth - 1, tightest);
    int joined = kin_nursery_join(&n, NULL);
    kin_time limit = options.deadline && options.deadline < tightest ? options.deadline : tightest;
    if (joined == KIN_TIMEOUT)
        EXPECT_GE(kin_now(), limit); /* its own, or a pushed one */
    else if (joined == KIN_CANCELLED)
        EXPECT(kin_cancelled()); /* one around it */
    else
        EXPECT_EQ(joined, 0);
    return rc;
}

static int compose(void *arg)
{
    uint64_t random = kin_test_seed();
    const int rounds = enough(150 / (int)kin_test_scale(), 5);
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        kin_time last = kin_after(KIN_MS(3));
        kin_time before = kin_deadline_push(last);
        EXPECT_EQ(before, KIN_NEVER);
        int rc = nest_deadlines(step(&random), 5, last);
        EXPECT(rc == KIN_TIMEOUT || rc == KIN_CANCELLED);
        kin_deadline_pop(before);
        EXPECT(!kin_cancelled());
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(1))), 0); /* nothing of it is left */
    }
    return 0;
}

KIN_TEST(deadlines_of_every_kind_compose_to_the_tightest, "N2001")
{
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    run_on_few(compose, NULL);
}
