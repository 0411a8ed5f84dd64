/* SPDX-License-Identifier: MIT */
/*
 * Goal: a task finds the values it set, children the ones they inherit, and each value is destroyed
 * once, by its owner, after the cleanups.
 * Method: small programs through the public headers on 1, 2 and 4 workers, every answer compared.
 */
#include "api/in_runtime.h"

#include <kin/cleanup.h>
#include <kin/local.h>

static _Atomic int destroyed;

static void count_destroyed(void *value)
{
    atomic_fetch_add((_Atomic int *)value, 1);
    atomic_fetch_add(&destroyed, 1);
}

static const struct kin_local_key plain_key = {NULL, false};
static const struct kin_local_key other_key = {NULL, false};
static const struct kin_local_key handed_key = {NULL, true};
static const struct kin_local_key owned_key = {count_destroyed, false};
static const struct kin_local_key shared_key = {count_destroyed, true};

/* ---- set and get ---- */

KIN_TEST(outside_a_task_there_are_no_values, "N1002")
{
    int value = 1;

    EXPECT_EQ(kin_local_set(&plain_key, &value), KIN_NOTASK);
    EXPECT_EQ(kin_local_set(NULL, &value), -EINVAL);
    EXPECT_PTR(kin_local_get(&plain_key), NULL);
    EXPECT_PTR(kin_local_get(NULL), NULL);
}

static int set_and_get(void *arg)
{
    int a = 1, b = 2;
    (void)arg;
    EXPECT_PTR(kin_local_get(&plain_key), NULL);
    EXPECT_EQ(kin_local_set(&plain_key, NULL), 0); /* takes away what is not there */
    EXPECT_EQ(kin_local_set(NULL, &a), -EINVAL);
    EXPECT_EQ(kin_local_set(&plain_key, &a), 0);
    EXPECT_PTR(kin_local_get(&plain_key), &a);
    EXPECT_PTR(kin_local_get(&other_key), NULL);
    EXPECT_PTR(kin_local_get(NULL), NULL);
    EXPECT_EQ(kin_local_set(&other_key, &b), 0);
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
        EXPECT_PTR(kin_local_get(&plain_key), &a); /* wherever the task runs */
        EXPECT_PTR(kin_local_get(&other_key), &b);
    }
    EXPECT_EQ(kin_local_set(&plain_key, &b), 0);
    EXPECT_PTR(kin_local_get(&plain_key), &b);
    EXPECT_EQ(kin_local_set(&plain_key, NULL), 0);
    EXPECT_PTR(kin_local_get(&plain_key), NULL);
    EXPECT_PTR(kin_local_get(&other_key), &b);
    return 0;
}

static int set_in_many(void *arg)
{
    KIN_NURSERY(n);
    (void)arg;
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(kin_spawn(&n, set_and_get, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(each_task_has_values_of_its_own, "")
{
    run_on_few(set_in_many, NULL);
}

static int set_many(void *arg)
{
    enum { KEYS = 300 };
    static struct kin_local_key keys[KEYS];
    static int values[KEYS];
    (void)arg;
    for (int i = 0; i < KEYS; i++)
        EXPECT_EQ(kin_local_set(&keys[i], &values[i]), 0);
    for (int i = 0; i < KEYS; i++)
        EXPECT_PTR(kin_local_get(&keys[i]), &values[i]);
    for (int i = 0; i < KEYS; i += 2)
        EXPECT_EQ(kin_local_set(&keys[i], NULL), 0);
    for (int i = 0; i < KEYS; i++)
        EXPECT_PTR(kin_local_get(&keys[i]), i % 2 ? &values[i] : NULL);
    return 0;
}

KIN_TEST(a_task_may_have_many_values, "")
{
    run_on_few(set_many, NULL);
}

/* ---- destruction ---- */

static char text[32];

static void write_value(void *value)
{
    size_t at = strlen(text);

    EXPECT_LT(at, sizeof text - 1);
    text[at] = *(char *)value;
}

static const struct kin_local_key letter_keys[] = {
    {write_value, false}, {write_value, false}, {write_value, true}, {NULL, false}};

static void write_cleanup(void *arg)
{
    EXPECT_PTR(kin_local_get(&letter_keys[0]), arg); /* cleanups still find them */
    write_value("!");
}

static int set_letters(void *arg)
{
    static char letters[] = "abcd";
    int status = *(int *)arg;
    EXPECT_EQ(kin_local_set(&letter_keys[1], &letters[3]), 0);
    EXPECT_EQ(kin_local_set(&letter_keys[2], &letters[2]), 0);
    EXPECT_EQ(kin_local_set(&letter_keys[3], &letters[3]), 0); /* has no destroy */
    EXPECT_EQ(kin_local_set(&letter_keys[0], &letters[0]), 0);
    EXPECT_EQ(kin_local_set(&letter_keys[1], &letters[1]), 0); /* set again: the newest */
    EXPECT_EQ(kin_defer(write_cleanup, &letters[0]), 0);
    if (status == -EPERM)
        kin_fail(status, "with values");
    if (status == KIN_PANICKED)
        kin_panic("with values");
    return status;
}

KIN_TEST(values_are_destroyed_after_the_cleanups_the_newest_first, "NCG-3")
{
    static const int statuses[] = {0, 5, -ENOENT, -EPERM, KIN_PANICKED};

    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        memset(text, 0, sizeof text);
        int status = statuses[i];
        EXPECT_EQ(run_reporting(1, set_letters, &status, NULL), statuses[i]);
        EXPECT_STR(text, "!bac");
    }
}

static int replace_and_take_away(void *arg)
{
    _Atomic int *counts = arg;
    EXPECT_EQ(kin_local_set(&owned_key, &counts[0]), 0);
    EXPECT_EQ(kin_local_set(&owned_key, &counts[1]), 0); /* the first is the caller's again */
    EXPECT_EQ(kin_local_set(&shared_key, &counts[2]), 0);
    EXPECT_EQ(kin_local_set(&shared_key, NULL), 0);
    return 0;
}

KIN_TEST(only_the_value_that_is_there_at_the_end_is_destroyed, "")
{
    _Atomic int counts[3] = {0};

    EXPECT_EQ(run_reporting(1, replace_and_take_away, counts, NULL), 0);
    EXPECT_EQ(atomic_load(&counts[0]), 0);
    EXPECT_EQ(atomic_load(&counts[1]), 1);
    EXPECT_EQ(atomic_load(&counts[2]), 0);
}

/* A destroy that sets its value again, as often as it is let. */
static void set_again(void *value);
static const struct kin_local_key stubborn_key = {set_again, false};
static const struct kin_local_key once_key = {count_destroyed, false};

static void set_again(void *value)
{
    atomic_fetch_add((_Atomic int *)value, 1);
    EXPECT_PTR(kin_local_get(&stubborn_key), NULL);
    EXPECT_EQ(kin_local_set(&stubborn_key, value), 0);
    EXPECT_PTR(kin_local_get(&stubborn_key), value);
}

static int be_stubborn(void *arg)
{
    EXPECT_EQ(kin_local_set(&stubborn_key, arg), 0);
    return 0;
}

static void set_another(void *value)
{
    EXPECT_EQ(kin_local_set(&once_key, value), 0);
}

static const struct kin_local_key chain_key = {set_another, false};

static int chain(void *arg)
{
    EXPECT_EQ(kin_local_set(&chain_key, arg), 0);
    return 0;
}

KIN_TEST(values_set_by_a_destroy_are_destroyed_in_a_few_more_rounds, "")
{
    _Atomic int rounds = 0, chained = 0;

    EXPECT_EQ(run_reporting(1, be_stubborn, &rounds, NULL), 0);
    EXPECT_EQ(atomic_load(&rounds), KIN_LOCAL_ROUNDS);
    EXPECT_EQ(run_reporting(1, chain, &chained, NULL), 0);
    EXPECT_EQ(atomic_load(&chained), 1);
}

/* ---- destroys that do everything ---- */

static void defer_in_destroy(void *value)
{
    EXPECT_EQ(kin_defer(count_destroyed, value), 0);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(20))), 0);
}

static void fail_in_destroy(void *value)
{
    atomic_fetch_add((_Atomic int *)value, 1);
    kin_fail(-EIO, "in a destroy");
}

static void panic_in_destroy(void *value)
{
    atomic_fetch_add((_Atomic int *)value, 1);
    kin_panic("in a destroy");
}

static const struct kin_local_key defer_key = {defer_in_destroy, false};
static const struct kin_local_key fail_key = {fail_in_destroy, false};
static const struct kin_local_key panic_key = {panic_in_destroy, false};

static int set_difficult(void *arg)
{
    _Atomic int *counts = arg;
    EXPECT_EQ(kin_local_set(&owned_key, &counts[0]), 0);
    EXPECT_EQ(kin_local_set(&defer_key, &counts[1]), 0);
    EXPECT_EQ(kin_local_set(&fail_key, &counts[2]), 0);
    if (atomic_load(&counts[4]))
        EXPECT_EQ(kin_local_set(&panic_key, &counts[3]), 0);
    return 0;
}

KIN_TEST(a_destroy_may_defer_park_fail_and_panic, "N3002")
{
    _Atomic int counts[5] = {0};

    EXPECT_EQ(run_reporting(1, set_difficult, counts, NULL), KIN_CLEANUP);
    EXPECT_EQ(atomic_load(&counts[0]), 1);
    EXPECT_EQ(atomic_load(&counts[1]), 1);
    EXPECT_EQ(atomic_load(&counts[2]), 1);
    atomic_store(&counts[4], 1);
    EXPECT_EQ(run_reporting(1, set_difficult, counts, NULL), KIN_PANICKED);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(atomic_load(&counts[i]), 2);
    EXPECT_EQ(atomic_load(&counts[3]), 1);
}

/* ---- inheritance ---- */

struct family {
    _Atomic int values[4];
    _Atomic int children;
};

static int look_and_hand_on(void *arg)
{
    struct family *family = arg;
    EXPECT_PTR(kin_local_get(&handed_key), &family->values[0]);
    EXPECT_PTR(kin_local_get(&shared_key), &family->values[1]);
    EXPECT_PTR(kin_local_get(&owned_key), NULL);
    EXPECT_PTR(kin_local_get(&plain_key), NULL);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&family->values[1]), 0); /* not destroyed while anybody has it */
    atomic_fetch_add(&family->children, 1);
    return 0;
}

static int hand_on(void *arg)
{
    struct family *family = arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, look_and_hand_on, arg), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(look_and_hand_on(arg), 0);
    /* one of its own in the place of the borrowed one, for itself and its own children */
    EXPECT_EQ(kin_local_set(&shared_key, &family->values[3]), 0);
    EXPECT_EQ(kin_local_set(&handed_key, NULL), 0);
    EXPECT_PTR(kin_local_get(&handed_key), NULL);
    EXPECT_PTR(kin_local_get(&shared_key), &family->values[3]);
    return 0;
}

static int found_a_family(void *arg)
{
    struct family family = {{0}, 0};
    (void)arg;
    EXPECT_EQ(kin_local_set(&handed_key, &family.values[0]), 0);
    EXPECT_EQ(kin_local_set(&shared_key, &family.values[1]), 0);
    EXPECT_EQ(kin_local_set(&owned_key, &family.values[2]), 0);
    EXPECT_EQ(kin_local_set(&plain_key, &family.values[2]), 0);
    KIN_NURSERY(n);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_spawn(&n, hand_on, &family), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&family.children), 40);
    EXPECT_EQ(atomic_load(&family.values[3]), 20); /* each destroyed its own */
    EXPECT_EQ(atomic_load(&family.values[1]), 0);
    EXPECT_PTR(kin_local_get(&shared_key), &family.values[1]); /* children change nothing here */
    EXPECT_EQ(kin_local_set(&shared_key, NULL), 0);            /* the family ends before the task */
    EXPECT_EQ(kin_local_set(&owned_key, NULL), 0);
    return 0;
}

KIN_TEST(children_borrow_what_is_handed_down, "")
{
    run_on_few(found_a_family, NULL);
}

static int count_run(void *arg)
{
    (void)arg;
    kin_test_fail(__FILE__, __LINE__, "a task that was cancelled before it began runs", "");
}

static int never_begin(void *arg)
{
    _Atomic int value = 0;
    (void)arg;
    EXPECT_EQ(kin_local_set(&shared_key, &value), 0);
    for (int round = 0; round < 50; round++) {
        KIN_NURSERY(n);
        for (int i = 0; i < 20; i++)
            EXPECT_EQ(kin_spawn(&n, count_run, NULL), 0);
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_spawn(&n, count_run, NULL), KIN_NOSCOPE); /* refused with values copied */
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    }
    EXPECT_EQ(atomic_load(&value), 0);
    EXPECT_EQ(kin_local_set(&shared_key, NULL), 0);
    return 0;
}

KIN_TEST(a_task_that_never_began_destroys_nothing, "NSM:4.2")
{
    EXPECT_EQ(run_reporting(1, never_begin, NULL, NULL), 0);
}

/* More values than a task has room for without memory of its own. */
static int inherit_many(void *arg)
{
    enum { KEYS = 40 };
    static struct kin_local_key keys[KEYS];
    static int values[KEYS];
    int *depth = arg;
    if (*depth == 0) {
        for (int i = 0; i < KEYS; i++) {
            keys[i].inherit = true;
            EXPECT_EQ(kin_local_set(&keys[i], &values[i]), 0);
        }
    }
    for (int i = 0; i < KEYS; i++)
        EXPECT_PTR(kin_local_get(&keys[i]), &values[i]);
    if (*depth == 5)
        return 0;
    int next = *depth + 1;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, inherit_many, &next), 0);
    EXPECT_EQ(kin_spawn(&n, inherit_many, &next), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(many_values_are_handed_down_through_many_generations, "")
{
    int depth = 0;

    run_on_few(inherit_many, &depth);
}
