/* SPDX-License-Identifier: MIT */
/*
 * Cancellation: it reaches every descendant, however deep, and only where it was sent.
 *
 *     main -- nursery "tree" -- branch -- nursery -- leaf, leaf, leaf
 *                            -- branch -- nursery -- leaf, leaf, leaf
 *                            -- branch -- nursery -- leaf, leaf, leaf
 *
 * Cancelling the outer nursery wakes the sleeping leaves, stops the one in each branch that
 * computes (it meets a checkpoint), and every task still runs its own way out. Nobody is killed: a
 * task is asked, and returns. The second part cancels one task by its name, which its siblings do
 * not notice.
 */
#include <kin/kin.h>

#include <stdatomic.h>
#include <stdio.h>

enum { BRANCHES = 3, LEAVES = 3 };

static atomic_int begun, cleaned_up;

/* A leaf that sleeps: the cancellation ends its wait. */
static int sleeping_leaf(void *arg)
{
    (void)arg;
    atomic_fetch_add(&begun, 1);
    int rc = kin_sleep(KIN_NEVER);
    atomic_fetch_add(&cleaned_up, 1);
    return rc;
}

/* A leaf that computes: the cancellation shows at its next checkpoint. */
static int busy_leaf(void *arg)
{
    int rc;

    (void)arg;
    atomic_fetch_add(&begun, 1);
    while ((rc = kin_checkpoint()) == 0) { /* ends: when it is cancelled */
    }
    atomic_fetch_add(&cleaned_up, 1);
    return rc;
}

static int branch(void *arg)
{
    KIN_NURSERY(n);

    (void)arg;
    int rc = 0;
    for (int i = 0; i < LEAVES && rc == 0; i++)
        rc = kin_spawn(&n, i == 0 ? busy_leaf : sleeping_leaf, NULL);
    return kin_nursery_end(&n, rc);
}

static int cancel_tree(void *arg)
{
    KIN_NURSERY(n, .name = "tree");

    (void)arg;
    int rc = 0;
    for (int i = 0; i < BRANCHES && rc == 0; i++)
        rc = kin_spawn(&n, branch, NULL);
    while (rc == 0 && atomic_load(&begun) < BRANCHES * LEAVES) /* ends: every leaf begins */
        rc = kin_sleep(kin_after(KIN_MS(1)));
    if (rc == 0)
        kin_nursery_cancel(&n, 0);
    return kin_nursery_end(&n, rc);
}

static int finish(void *arg)
{
    int *value = arg;

    kin_ignore(kin_sleep(kin_after(KIN_MS(2))));
    *value = 42;
    return 0;
}

/* One child is cancelled alone; the nursery goes on and succeeds. */
static int cancel_one(void *arg)
{
    struct kin_task_ref lost = {0};
    KIN_NURSERY(n);

    int rc = kin_spawn(&n, finish, arg);
    if (rc == 0)
        rc = kin_spawn_with(&n, NULL, sleeping_leaf, NULL, 0, &lost);
    if (rc == 0)
        rc = kin_task_cancel(lost);
    rc = kin_nursery_end(&n, rc);
    printf("one task cancelled: the join returned %s, cancelling it again %s\n",
           kin_status_name(rc), kin_status_name(kin_task_cancel(lost)));
    return rc;
}

int main(void)
{
    int rc = kin_run(NULL, cancel_tree, NULL);
    int leaves = BRANCHES * LEAVES;

    printf("a tree cancelled: the join returned %s, %d of %d leaves cleaned up\n",
           kin_status_name(rc), atomic_load(&cleaned_up), leaves);
    bool is_right = rc == KIN_CANCELLED && atomic_load(&cleaned_up) == leaves;

    int value = 0;
    rc = kin_run(NULL, cancel_one, &value);
    return is_right && rc == 0 && value == 42 ? 0 : 1;
}
