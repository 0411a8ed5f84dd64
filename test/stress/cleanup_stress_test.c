/* SPDX-License-Identifier: MIT */
/*
 * Cleanups under random programs, random cancellations and exhausted memory.
 *
 * Method: tasks draw their steps from the seed: put a cleanup down, open a nursery, join it, mark,
 * release, spawn, yield, set a value, owe something; and one of the ways out. Each task keeps a
 * stack of its own of what it acquired, and whatever is given back is compared with the top of it:
 * exactly the reverse order, each exactly once, on every way out. Cleanups of the programs draw
 * steps too. Some of the tasks are cancelled by their siblings at any time. The sweeps let the n-th
 * request for memory fail, for every n, in a process of its own, as in oom_test.c.
 */
#include "api/in_runtime.h"

#include <kin/cleanup.h>
#include <kin/local.h>
#include <kin/obligation.h>

#include "base/rng.h"
#include "plat/plat.h"
#include "scope/scope.h"

#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH_MAX = 64, NURSERIES_MAX = 3, FAMILY = 6, WAYS = 6 };

/* What was acquired, the newest last; a gap is a nursery that was joined under newer cleanups. */
enum thing { CLEANUP, NURSERY, GAP };
/* What a cleanup does. */
enum deed { FINE, RETURNS_ERROR, FAILS, PANICS };

struct item {
    enum thing thing;
    struct plan *plan;
    int place; /* in items */
    enum deed deed;
};

/* One task: its own view of what it has acquired. */
struct plan {
    uint64_t seed;
    int generation; /* children have one more */
    struct kin__rng rng;
    struct item items[DEPTH_MAX];
    int count;    /* things acquired and not given back */
    int put, ran; /* cleanups put down, and run */
    struct kin_nursery nurseries[NURSERIES_MAX];
    int open;
    int set; /* it has a value of its own, */
    _Atomic int destroyed;
    bool has_begun, is_over, has_panicked; /* the body is over, the task has panicked */
    bool is_echo; /* it failed as cancelled, with nurseries open, */
    bool left;    /* or a cleanup that failed left a nursery with a child */
    int end;      /* what the body ended with */
    int failed;   /* cleanups */
};

static _Atomic int tasks_run, cleanups_run, ways[WAYS];

static uint32_t draw(struct plan *plan, uint32_t bound)
{
    return (uint32_t)kin__rng_below(&plan->rng, bound);
}

static bool is_joined(struct kin_nursery *n)
{
    /* relaxed: the owner's own */
    return kin__load_relaxed(&kin__handle_of(n)->scope) == NULL;
}

/* Nurseries that are newer than this place have been left by the runtime, which tells nobody; older
 * ones have not. */
static void note_left(struct plan *plan, int place)
{
    while (plan->count - 1 > place && plan->items[plan->count - 1].thing != CLEANUP) {
        if (plan->items[plan->count - 1].thing == NURSERY)
            EXPECT(is_joined(&plan->nurseries[--plan->open]));
        plan->count--;
    }
    for (int i = 0; i < plan->open; i++)
        EXPECT(!is_joined(&plan->nurseries[i]));
}

/* A cleanup begins: it is the newest thing that its task has. */
static void give_back(const struct item *item)
{
    struct plan *plan = item->plan;

    note_left(plan, item->place);
    EXPECT_GT(plan->count, 0);
    EXPECT_EQ(plan->items[plan->count - 1].thing, CLEANUP);
    EXPECT_EQ(plan->count - 1, item->place);
    plan->count--;
    plan->ran++;
    atomic_fetch_add(&cleanups_run, 1);
}

_Noreturn static void end_by_fail(struct plan *plan, int status)
{
    if (plan->is_over)
        plan->failed++; /* of a cleanup, then */
    else
        plan->end = status;
    if (plan->end == KIN_CANCELLED && plan->open > 0)
        plan->is_echo = true;
    plan->is_over = true;
    kin_fail(status, "task %llu", (unsigned long long)kin_self().id);
}

_Noreturn static void end_by_panic(struct plan *plan)
{
    plan->is_over = plan->has_panicked = true;
    kin_panic("by chance");
}

static int be_random(void *arg);
static void put_down(struct plan *plan);

static void spawn_child(struct plan *plan, struct kin_nursery *n)
{
    struct plan child = {.seed = kin__rng_next(&plan->rng), .generation = plan->generation + 1};

    if (plan->generation < 2)
        kin_ignore(kin_spawn_copy(n, be_random, &child, sizeof child));
}

static void run_item(void *arg)
{
    struct item item = *(struct item *)arg; /* its place is taken by what comes next */
    struct plan *plan = item.plan;

    give_back(&item);
    if (draw(plan, 4) == 0)
        kin_ignore(kin_yield());
    if (draw(plan, 8) == 0)
        put_down(plan);
    if (draw(plan, 16) == 0) {
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        spawn_child(plan, &n);
        if (item.deed != FAILS)
            kin_ignore(kin_nursery_join(&n, NULL));
        else {
            plan->left = true;
            end_by_fail(plan, -EIO);
        }
    }
    if (item.deed == FAILS)
        end_by_fail(plan, -EIO);
    if (item.deed == PANICS)
        end_by_panic(plan);
}

static int try_item(void *arg)
{
    struct item item = *(struct item *)arg;

    give_back(&item);
    item.plan->failed += item.deed == RETURNS_ERROR;
    return item.deed == RETURNS_ERROR ? -EIO : 0;
}

static void put_down(struct plan *plan)
{
    static const enum deed deeds[] = {FINE, FINE, FINE, FINE, FINE, RETURNS_ERROR, FAILS, PANICS};
    struct item *item = &plan->items[plan->count];
    enum deed deed = deeds[draw(plan, 8)];

    *item = (struct item){CLEANUP, plan, plan->count, deed};
    bool is_try = deed == RETURNS_ERROR || (deed == FINE && draw(plan, 3) == 0);
    EXPECT_EQ(is_try ? kin_defer_try(try_item, item) : kin_defer(run_item, item), 0);
    plan->count++;
    plan->put++;
}

static void destroy_value(void *value)
{
    atomic_fetch_add((_Atomic int *)value, 1);
}

static const struct kin_local_key value_key = {destroy_value, true};

static void open_one(struct plan *plan)
{
    static const struct kin_nursery_options collect = {.size = sizeof collect,
                                                       .on_error = KIN_COLLECT};
    struct kin_nursery *n = &plan->nurseries[plan->open];

    EXPECT_EQ(kin_nursery_open(n, draw(plan, 2) ? &collect : NULL), 0);
    plan->items[plan->count] = (struct item){NURSERY, plan, plan->count, FINE};
    plan->count++;
    plan->open++;
    spawn_child(plan, n);
}

/* Joins the innermost nursery. What was put down inside it stays, and is older than what comes. */
static void join_one(struct plan *plan)
{
    int place = plan->count - 1;

    while (plan->items[place].thing != NURSERY) /* ends: one is open */
        place--;
    kin_ignore(kin_nursery_join(&plan->nurseries[--plan->open], NULL));
    if (place == plan->count - 1)
        plan->count--;
    else
        plan->items[place].thing = GAP;
}

/* Puts a few down and releases them; what fails there ends the task. */
static void mark_and_release(struct plan *plan)
{
    void *mark = kin_scope_mark();
    int count = plan->count;

    put_down(plan);
    put_down(plan);
    kin_scope_release(mark);
    EXPECT_EQ(plan->count, count);
}

/* So many random steps; the table of the task has room for all that they may acquire. */
static void take_steps(struct plan *plan, uint32_t count)
{
    for (uint32_t i = 0; i < count && plan->count < DEPTH_MAX - 8; i++) {
        uint32_t step = draw(plan, 8);
        if (step < 3)
            put_down(plan);
        else if (step == 3 && plan->open < NURSERIES_MAX)
            open_one(plan);
        else if (step == 4 && plan->open > 0)
            join_one(plan);
        else if (step == 5 && draw(plan, 4) == 0)
            mark_and_release(plan);
        else if (step == 6)
            kin_ignore(kin_yield());
        else if (step == 7) {
            EXPECT_EQ(kin_local_set(&value_key, &plan->destroyed), 0);
            plan->set = 1;
        }
    }
}

/* The last of all cleanups: the books must be right. */
static void close_books(void *arg)
{
    struct plan *plan = arg;

    note_left(plan, -1);
    EXPECT_EQ(plan->count, 0);
    EXPECT_EQ(plan->ran, plan->put);
    EXPECT_EQ(atomic_load(&plan->destroyed), 0); /* values go later */
    atomic_fetch_add(&tasks_run, 1);
}

static int be_random(void *arg)
{
    struct plan *plan = arg;

    plan->has_begun = true;
    kin__rng_init(&plan->rng, plan->seed, 0);
    EXPECT_EQ(kin_defer(close_books, plan), 0);
    take_steps(plan, 4 + draw(plan, 20));
    uint32_t way = draw(plan, WAYS);
    atomic_fetch_add(&ways[way], 1);
    if (way == 0)
        end_by_fail(plan, -EACCES);
    if (way == 1)
        end_by_panic(plan);
    if (way == 2) {
        int rc = kin_sleep(kin_after(KIN_US(draw(plan, 100))));
        if (rc < 0)
            end_by_fail(plan, rc);
    }
    if (plan->open > 0)
        end_by_fail(plan, -EBUSY); /* a body must not return with nurseries open */
    plan->is_over = true;
    plan->end = way == 3 ? -ENOENT : 0;
    return plan->end;
}

/* How a task must have ended. */
static void expect_end(const struct plan *plan, const struct kin_outcome *how)
{
    int status = plan->end;

    if (!plan->has_begun)
        status = KIN_CANCELLED;
    else if (plan->has_panicked)
        status = KIN_PANICKED;
    else if (status == 0 && plan->failed > 0)
        status = KIN_CLEANUP;
    bool hides = status == KIN_CANCELLED || (status == KIN_CLEANUP && plan->left);
    if (hides && (plan->is_echo || plan->left))
        EXPECT_LT(how->status, 0); /* or what a child in a nursery that was left had come to */
    else
        EXPECT_EQ(how->status, status);
    EXPECT_EQ(how->severity == KIN_SEV_PANIC, plan->has_panicked);
    EXPECT_EQ(plan->ran, plan->put);
    EXPECT_EQ(plan->count, 0);
    EXPECT_EQ(atomic_load(&plan->destroyed), plan->set);
}

static int cancel_somebody(void *arg)
{
    const struct kin_task_ref *refs = arg;
    struct kin__rng rng;

    kin__rng_init(&rng, kin_test_seed(), refs[0].id);
    for (int i = 0; i < 3; i++) {
        kin_ignore(kin_task_cancel(refs[kin__rng_below(&rng, FAMILY)]));
        kin_ignore(kin_yield());
    }
    return 0;
}

static void run_a_family(uint64_t seed)
{
    static _Atomic int inherited;
    struct kin_task_ref refs[FAMILY];
    struct plan plans[FAMILY];
    struct kin_outcome how;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);

    EXPECT_EQ(kin_local_set(&value_key, &inherited), 0); /* what children begin with */
    for (int i = 0; i < FAMILY; i++) {
        memset(&plans[i], 0, sizeof plans[i]);
        plans[i].seed = seed * FAMILY + (uint64_t)i;
        EXPECT_EQ(kin_spawn_with(&n, NULL, be_random, &plans[i], 0, &refs[i]), 0);
    }
    EXPECT_EQ(kin_spawn(&n, cancel_somebody, refs), 0);
    if (seed % 7 == 0)
        kin_nursery_cancel(&n, 0);
    kin_mask();
    for (int i = 0; i < FAMILY; i++) {
        EXPECT_EQ(kin_task_join(&n, refs[i], &how, KIN_NEVER), 0);
        expect_end(&plans[i], &how);
    }
    kin_unmask();
    kin_ignore(kin_nursery_join(&n, NULL));
    EXPECT_EQ(kin_local_set(&value_key, NULL), 0);
    EXPECT_EQ(atomic_load(&inherited), 0); /* nobody destroys what it has borrowed */
}

static int run_families(void *arg)
{
    uint64_t seed = *(uint64_t *)arg;
    unsigned rounds = 400 / kin_test_scale();

    for (unsigned i = 0; i < rounds; i++)
        run_a_family(seed + i);
    return 0;
}

KIN_TEST_LIMIT(random_programs_give_back_in_reverse_order, "NCG-3 NSM-4 N3002", 120)
{
    uint64_t seed = kin_test_seed();

    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_reporting(workers, run_families, &seed, NULL), 0);
    printf("%d tasks, %d cleanups\n", atomic_load(&tasks_run), atomic_load(&cleanups_run));
    EXPECT_GT(atomic_load(&tasks_run), 1000 / kin_test_scale());
    for (int i = 0; i < WAYS; i++)
        EXPECT_GT(atomic_load(&ways[i]), 0);
}

/* ---- exhausted memory ---- */

struct needs {
    int put, ran;           /* cleanups */
    int set, destroyed;     /* values */
    int reserved, ended;    /* obligations */
    int refused;
};

static bool is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EAGAIN;
}

static void count_up(void *arg)
{
    ++*(int *)arg;
}

static const struct kin_local_key count_keys[12] = {
    {count_up, true}, {count_up, false}, {count_up, true}, {count_up, false},
    {count_up, true}, {count_up, false}, {count_up, true}, {count_up, false},
    {count_up, true}, {count_up, false}, {count_up, true}, {count_up, false}};

static int need_everything(void *arg)
{
    struct needs *needs = arg;

    for (int i = 0; i < 100; i++) {
        int rc = kin_defer(count_up, &needs->ran);
        EXPECT(rc == 0 || rc == -ENOMEM);
        needs->put += rc == 0;
        needs->refused += rc != 0;
    }
    for (int i = 0; i < 12; i++) {
        int rc = kin_local_set(&count_keys[i], &needs->destroyed);
        EXPECT(rc == 0 || rc == -ENOMEM);
        EXPECT_PTR(kin_local_get(&count_keys[i]), rc == 0 ? &needs->destroyed : NULL);
        needs->set += rc == 0;
        needs->refused += rc != 0;
    }
    for (int i = 0; i < 100; i++) {
        struct kin_obligation *o = NULL;
        int rc = kin_obligation_reserve(KIN_OBLIGATION_IO, &o);
        EXPECT(rc == 0 || rc == -ENOMEM);
        needs->reserved += rc == 0;
        needs->refused += rc != 0;
        if (rc == 0)
            needs->ended += kin_obligation_commit(o) == 0;
    }
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++) { /* with values to hand down */
        int rc = kin_spawn(&n, return_it, &(int){0});
        EXPECT(rc == 0 || is_shortage(rc) || rc == KIN_NOSCOPE);
        needs->refused += rc != 0;
    }
    int rc = kin_nursery_join(&n, NULL);
    return is_shortage(rc) ? 0 : rc;
}

static int need_in_a_child(void *arg)
{
    KIN_NURSERY(n);
    int rc = kin_spawn(&n, need_everything, arg);
    if (rc == 0)
        rc = kin_nursery_join(&n, NULL);
    return rc;
}

static int run_needs(struct needs *needs)
{
    struct kin_config config = KIN_CONFIG_INIT;

    *needs = (struct needs){0};
    config.workers = 1;
    int rc = kin_run(&config, need_in_a_child, needs);
    EXPECT_EQ(needs->ran, needs->put);
    EXPECT_EQ(needs->destroyed, needs->set);
    EXPECT_EQ(needs->ended, needs->reserved);
    return rc;
}

/* In a process of its own: with the n-th request failing, then without. */
static void run_short_of(uint64_t n, bool forever)
{
    struct needs needs;

    kin__plat_fail_after(n, forever);
    int rc = run_needs(&needs);
    kin__plat_fail_after(0, false);
    EXPECT(rc == 0 || is_shortage(rc) || rc == KIN_NOSCOPE);
    EXPECT_EQ(run_needs(&needs), 0);
    EXPECT_EQ(needs.refused, 0);
    EXPECT_EQ(needs.put, 100);
    EXPECT_EQ(needs.set, 12);
    EXPECT_EQ(needs.reserved, 100);
}

static uint64_t count_requests(void)
{
    uint64_t requests = 0;
    int ends[2];

    EXPECT_EQ(pipe(ends), 0);
    const pid_t process = fork();
    EXPECT_GE(process, 0);
    if (process == 0) {
        struct needs needs;
        kin__plat_fail_after(0, false);
        EXPECT_EQ(run_needs(&needs), 0);
        requests = kin__plat_requests();
        const ssize_t wrote = write(ends[1], &requests, sizeof requests);
        exit(wrote == (ssize_t)sizeof requests ? 0 : 1);
    }
    close(ends[1]); /* a child that dies early ends the read below */
    EXPECT_EQ(read(ends[0], &requests, sizeof requests), sizeof requests);
    int status = 0;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
    close(ends[0]);
    return requests;
}

static void sweep(bool forever)
{
    const uint64_t requests = count_requests();

    printf("%llu requests\n", (unsigned long long)requests);
    fflush(stdout);
    EXPECT_GT(requests, 10);
    EXPECT_LT(requests, 500);
    for (uint64_t n = 1; n <= requests; n++) {
        const pid_t process = fork();
        EXPECT_GE(process, 0);
        if (process == 0) {
            alarm(KIN_TEST_S / 2 * kin_test_scale());
            run_short_of(n, forever);
            exit(0);
        }
        int status = 0;
        EXPECT_EQ(waitpid(process, &status, 0), process);
        if (status != 0)
            printf("with request %llu failing\n", (unsigned long long)n);
        EXPECT_EQ(status, 0);
    }
}

KIN_TEST_LIMIT(one_failing_request_is_refused_and_nothing_else, "NCG-3", 120)
{
    sweep(false);
}

KIN_TEST_LIMIT(no_more_memory_from_some_point_on_is_refused_and_nothing_else, "NCG-3", 120)
{
    sweep(true);
}
