/* SPDX-License-Identifier: MIT */
/*
 * Budgets: a plug-in that may use only so much, and may do only so much.
 *
 *     main -- nursery, a pool of 5000 operations -- plug-in "good"     needs 100
 *                                                -- plug-in "greedy"   needs more than there is
 *                                                -- plug-in "curious"  tries what it may not do
 *
 * The plug-ins get a budget out of the pool and the capability for time alone. The greedy one stops
 * where its budget ends and nobody else notices; main looks at what it did and gives it a little
 * more, once. What is not used returns to the pool.
 */
#include <kin/kin.h>

#include <stdatomic.h>
#include <stdio.h>

struct plugin {
    const char *name;
    long need;          /* operations it would like to do */
    _Atomic long done;
    _Atomic int is_out; /* it has reached the end of its budget */
    _Atomic int is_over;
};

/* Does its work in small steps. A checkpoint takes no deadline: out of its budget, the task waits
 * until it is recharged or cancelled, unless its nursery says KIN_EXHAUSTED_FAIL. */
static int compute(void *arg)
{
    struct plugin *plugin = arg;

    while (atomic_load(&plugin->done) < plugin->need) {
        if (kin_budget_left().ops == 0)
            atomic_store(&plugin->is_out, 1);
        int rc = kin_checkpoint(); /* waits here for a recharge */
        if (rc < 0) {
            atomic_store(&plugin->is_over, 1);
            return rc;
        }
        atomic_fetch_add(&plugin->done, 1);
    }
    printf("%s: done after %ld operations\n", plugin->name, atomic_load(&plugin->done));
    return 0;
}

static int pry(void *arg)
{
    struct plugin *plugin = arg;
    struct kin_nursery n;
    int rc = kin_nursery_open(&n, NULL);

    printf("%s: opening a nursery: %s\n", plugin->name, kin_status_text(rc));
    if (rc == 0)
        return kin_nursery_end(&n, 0);
    rc = kin_budget_recharge_self(KIN_UNLIMITED_BUDGET);
    printf("%s: recharging itself: %s\n", plugin->name, kin_status_text(rc));
    return 0;
}

/* Starts a plug-in with a share of the pool. */
static int start(struct kin_nursery *n, kin_task_fn *fn, struct plugin *plugin, uint64_t ops,
                 struct kin_task_ref *ref)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;

    options.name = plugin->name;
    options.budget.ops = ops;
    options.caps = KIN_CAP_TIME;
    return kin_spawn_with(n, &options, fn, plugin, 0, ref);
}

/* Lets a plug-in work until it has done so much and is out of its budget, or is over. */
static int watch(struct plugin *plugin, long done)
{
    int rc = 0;

    while (rc == 0 && !atomic_load(&plugin->is_over) &&
           (!atomic_load(&plugin->is_out) || atomic_load(&plugin->done) < done))
        rc = kin_yield();
    return rc;
}

static int host(void *arg)
{
    struct plugin good = {.name = "good", .need = 100};
    struct plugin greedy = {.name = "greedy", .need = 1000000};
    struct plugin curious = {.name = "curious"};
    struct kin_task_ref ref;
    KIN_NURSERY(n, .budget = {.ops = 5000, .spawns = 3}, .recharge = KIN_RECHARGE_MANUAL);

    (void)arg;
    int rc = start(&n, compute, &greedy, 1000, &ref);
    if (rc == 0)
        rc = start(&n, compute, &good, 1000, NULL);
    if (rc == 0)
        rc = start(&n, pry, &curious, 10, NULL);
    if (rc < 0)
        return kin_nursery_end(&n, rc);
    rc = start(&n, compute, &good, 10000, NULL); /* more than the pool has */
    printf("main: a fourth plug-in: %s\n", kin_status_text(rc));

    rc = watch(&greedy, 0);
    if (rc < 0)
        return kin_nursery_end(&n, rc);
    printf("main: greedy is out after %ld operations, the pool has %llu left\n",
           atomic_load(&greedy.done), (unsigned long long)kin_nursery_budget_left(&n).ops);
    rc = kin_budget_recharge(ref, (struct kin_budget){.ops = 500});
    if (rc == 0)
        rc = watch(&greedy, 1500);
    printf("main: that was all for greedy\n");
    kin_ignore(kin_task_cancel(ref));
    return kin_nursery_end(&n, rc);
}

int main(void)
{
    int rc = kin_run(NULL, host, NULL);

    printf("main: %s\n", kin_status_text(rc));
    return rc < 0;
}
