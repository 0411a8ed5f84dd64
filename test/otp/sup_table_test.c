/* SPDX-License-Identifier: MIT */
/*
 * Goal: the records of children are copies, are found by name and by task however many there are,
 * and are counted right.
 * Method: white box: random entries, removals and changes of state against a plain array, with the
 * seed printed; memory that runs out at each request.
 */
#include "kin_test.h"

#include "otp/supervisor.h"
#include "plat/plat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 300 };

static int never(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)n, (void)arg, (void)out;
    return KIN_IGNORE;
}

static struct kin__sup *make_sup(void)
{
    struct kin__sup *sup = kin__heap_alloc(sizeof(*sup));
    EXPECT(sup != NULL);
    kin__store_relaxed(&sup->references, 1u); /* alone: nobody else has it */
    kin__list_init(&sup->order);
    kin__list_init(&sup->below);
    kin__list_init(&sup->late);
    sup->cursor = &sup->order;
    sup->key = (struct kin__hash_key){kin_test_seed(), 3};
    return sup;
}

static void name_of(char *name, size_t number)
{
    snprintf(name, 32, "child %zu", number);
}

KIN_TEST(a_record_holds_copies_of_all_that_its_spec_points_at, "")
{
    char name[] = "name", on_one[] = "one", on_two[] = "two";
    const char *on[] = {on_one, on_two, NULL};
    unsigned char bytes[33];
    struct kin_child_spec spec = {.name = name,
                                  .start = never,
                                  .arg = bytes,
                                  .arg_size = sizeof bytes,
                                  .restart = KIN_PERMANENT,
                                  .shutdown = 7,
                                  .depends_on = on,
                                  .backoff = {1, 2, 3, 4}};
    memset(bytes, 0xab, sizeof bytes);
    struct kin__kid *child = kin__child_make(&spec, &(int){0});
    EXPECT(child != NULL);
    memset(name, 0, sizeof name);
    memset(on_one, 0, sizeof on_one);
    memset(on_two, 0, sizeof on_two);
    memset(bytes, 0, sizeof bytes);
    struct kin_child_spec again = kin__child_spec(child);
    EXPECT_STR(again.name, "name");
    EXPECT_STR(again.depends_on[0], "one");
    EXPECT_STR(again.depends_on[1], "two");
    EXPECT(again.depends_on[2] == NULL);
    for (size_t i = 0; i < sizeof bytes; i++)
        EXPECT_EQ(((const unsigned char *)again.arg)[i], 0xab);
    EXPECT_EQ((uintptr_t)again.arg % 16, 0);
    EXPECT_EQ(again.restart, KIN_PERMANENT);
    EXPECT_EQ(again.shutdown, 7);
    EXPECT_EQ(again.backoff.jitter_pct, 4);
    kin__child_unmake(child);
    struct kin_child_spec bare = {.start = never, .arg = &spec};
    child = kin__child_make(&bare, &(int){0});
    EXPECT(child->name == NULL);
    EXPECT_PTR(child->arg, &spec); /* without a size it is passed as it is */
    EXPECT_EQ(child->shutdown, 0); /* its kind says how long: see sup_child.c */
    kin__child_unmake(child);
    bare.arg_size = SIZE_MAX - 8;
    EXPECT(kin__child_make(&bare, &(int){0}) == NULL);
}

/* ---- against an array ---- */

struct model {
    struct kin__kid *child; /* NULL: there is none of this number */
    enum kin__child_state state;
    bool is_wanted, is_significant;
};

static void compare(struct kin__sup *sup, const struct model *models)
{
    size_t specs = 0, active = 0, running = 0, restarting = 0, significant = 0;
    char name[32];
    for (size_t i = 0; i < MOST; i++) {
        const struct model *m = &models[i];
        name_of(name, i);
        EXPECT_PTR(kin__child_by_name(sup, name), m->child);
        EXPECT_PTR(kin__child_by_task(sup, i + 1, 0),
                   m->child && m->state == KIN__CHILD_RUNNING ? m->child : NULL);
        if (!m->child)
            continue;
        bool is_restarting = m->state == KIN__CHILD_STARTING ||
                             (m->state == KIN__CHILD_REST && m->is_wanted);
        specs++;
        active += m->state != KIN__CHILD_REST;
        running += m->state == KIN__CHILD_RUNNING;
        restarting += is_restarting;
        significant += m->is_significant && (m->state == KIN__CHILD_RUNNING || is_restarting);
    }
    EXPECT_EQ(sup->specs, specs);
    EXPECT_EQ(sup->active, active);
    EXPECT_EQ(sup->running, running);
    EXPECT_EQ(sup->restarting, restarting);
    EXPECT_EQ(sup->significant, significant);
    uint64_t rank = 0;
    KIN__LIST_EACH(link, &sup->order) {
        EXPECT_GT(kin__child_of(link)->rank, rank);
        rank = kin__child_of(link)->rank;
    }
}

static void enter(struct kin__sup *sup, struct model *m, size_t i, struct kin__rng *rng)
{
    char name[32];
    name_of(name, i);
    struct kin_child_spec spec = {.name = name, .start = never};
    spec.significant = m->is_significant = kin__rng_chance(rng, 1, 2);
    EXPECT(kin__sup_reserve(sup));
    m->child = kin__child_make(&spec, &(int){0});
    EXPECT(m->child != NULL);
    m->state = KIN__CHILD_REST;
    m->is_wanted = false;
    kin__child_enter(sup, m->child);
}

static void change(struct model *m, size_t i, struct kin__rng *rng)
{
    enum kin__child_state state = (enum kin__child_state)kin__rng_below(rng, 3);
    if (m->state == KIN__CHILD_RUNNING)
        kin__child_task_leave(m->child);
    m->state = state;
    m->is_wanted = kin__rng_chance(rng, 1, 2);
    m->child->task = i + 1;
    kin__child_set(m->child, m->state, m->is_wanted);
    if (m->state == KIN__CHILD_RUNNING)
        kin__child_task_enter(m->child);
    if (kin__rng_chance(rng, 1, 2))
        kin__sup_alarm_set(m->child->sup, &m->child->alarm, (kin_time)kin__rng_below(rng, 1000));
    else
        kin__sup_alarm_off(m->child->sup, &m->child->alarm);
}

KIN_TEST(children_are_found_and_counted_whatever_happens_to_them, "")
{
    static struct model models[MOST];
    struct kin__rng rng;
    struct kin__sup *sup = make_sup();

    kin__rng_init(&rng, kin_test_seed(), 4);
    for (int round = 0; round < 20000; round++) {
        size_t i = kin__rng_below(&rng, MOST);
        struct model *m = &models[i];
        if (!m->child) {
            enter(sup, m, i, &rng);
        } else if (kin__rng_chance(&rng, 1, 4)) {
            if (m->state == KIN__CHILD_RUNNING)
                kin__child_task_leave(m->child);
            kin__child_set(m->child, KIN__CHILD_REST, m->is_wanted);
            kin__child_remove(m->child);
            m->child = NULL;
        } else {
            change(m, i, &rng);
        }
        if (round % 200 == 0)
            compare(sup, models);
    }
    compare(sup, models);
    const struct kin__heap_node *first = NULL;
    while (kin__heap_peek(&sup->alarms)) { /* alarms ring in their order */
        struct kin__heap_node *node = kin__heap_pop(&sup->alarms);
        if (first)
            EXPECT_GE(node->key, first->key);
        first = node;
    }
    kin__sup_unref(sup);
}

KIN_TEST(a_cursor_that_stands_on_a_child_that_goes_moves_on_in_its_direction, "")
{
    struct kin__sup *sup = make_sup();
    struct kin__rng rng;
    struct model models[5];

    kin__rng_init(&rng, 1, 1);
    for (size_t i = 0; i < 5; i++)
        enter(sup, &models[i], i, &rng);
    sup->mode = KIN__SUP_RUNNING;
    sup->phase = KIN__PLAN_STARTS;
    sup->cursor = &models[2].child->order;
    kin__child_remove(models[2].child);
    EXPECT_PTR(sup->cursor, &models[3].child->order);
    sup->phase = KIN__PLAN_STOPS;
    kin__child_remove(models[3].child);
    EXPECT_PTR(sup->cursor, &models[1].child->order);
    kin__child_remove(models[4].child); /* not where the cursor is */
    EXPECT_PTR(sup->cursor, &models[1].child->order);
    sup->mode = KIN__SUP_CLOSING;
    kin__child_remove(models[1].child);
    kin__child_remove(models[0].child);
    EXPECT_PTR(sup->cursor, &sup->order);
    kin__sup_unref(sup);
}

KIN_TEST(room_that_cannot_be_had_changes_nothing, "")
{
    static struct model models[MOST];
    struct kin__rng rng;
    struct kin__sup *sup = make_sup();
    int failures = 0;

    kin__rng_init(&rng, 1, 1);
    for (size_t i = 0; i < MOST; i++) {
        kin__plat_fail_after(1, false);
        if (!kin__sup_reserve(sup)) {
            failures++;
            kin__plat_fail_after(2, false); /* the second table, if there is one */
            failures += !kin__sup_reserve(sup);
        }
        kin__plat_fail_after(0, false);
        enter(sup, &models[i], i, &rng);
    }
    EXPECT_GT(failures, 5);
    compare(sup, models);
    struct kin_child_spec spec = {.name = "x", .start = never};
    kin__plat_fail_after(1, false);
    EXPECT(kin__child_make(&spec, &(int){0}) == NULL);
    kin__plat_fail_after(0, false);
    kin__sup_unref(sup);
}
