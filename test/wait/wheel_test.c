/* SPDX-License-Identifier: MIT */
/*
 * Goal: the wheel fires every deadline, never early, at most a tick late, equal ones in order.
 * Method: random insertions, removals and steps of time, from microseconds to years, against a
 * plain array that is searched from end to end; and the edges one by one.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "wait/wheel.h"

#include <stdio.h>
#include <stdlib.h>

#define TICK (INT64_C(1) << KIN__WHEEL_SHIFT)
#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define SEC INT64_C(1000000000)
#define DAY (86400 * SEC)
#define YEAR (365 * DAY)

static int64_t tick_of(int64_t ns)
{
    return ns > 0 ? ns / TICK : 0;
}

KIN_TEST(an_empty_wheel_wants_nothing, "TW-1")
{
    static struct kin__wheel wheel;
    struct kin__wheel_node node = {{NULL, NULL}, 5, 0, 0};
    kin__wheel_init(&wheel, 12345);
    EXPECT_EQ(kin__wheel_next(&wheel), INT64_MAX);
    EXPECT_PTR(kin__wheel_pop(&wheel, 0), NULL);
    EXPECT_PTR(kin__wheel_pop(&wheel, INT64_MAX), NULL);
    kin__wheel_remove(&wheel, &node); /* in no wheel: harmless */
    EXPECT_EQ(wheel.count, 0);
}

KIN_TEST(a_deadline_fires_when_its_tick_is_past_and_not_before, "TW-1")
{
    const int64_t starts[] = {0, 1, TICK - 1, 63 * TICK, 64 * TICK, 4095 * TICK + 7, 100 * DAY};
    const int64_t after[] = {0, 1, TICK - 1, TICK, 63 * TICK, 64 * TICK, 65 * TICK, 4096 * TICK,
                             MS, SEC, 3600 * SEC, DAY, 40 * DAY, YEAR, 100 * YEAR};
    for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++) {
        for (size_t a = 0; a < sizeof after / sizeof after[0]; a++) {
            static struct kin__wheel wheel;
            struct kin__wheel_node node = {{NULL, NULL}, starts[s] + after[a], 0, 0};
            int64_t fires = (tick_of(node.deadline) + 1) * TICK;
            kin__wheel_init(&wheel, starts[s]);
            kin__wheel_insert(&wheel, &node);
            EXPECT_LE(kin__wheel_next(&wheel), fires);
            EXPECT_PTR(kin__wheel_pop(&wheel, node.deadline - 1), NULL);
            EXPECT_PTR(kin__wheel_pop(&wheel, fires - 1), NULL);
            EXPECT_EQ(kin__wheel_next(&wheel), fires); /* in the last tick it knows exactly */
            EXPECT_PTR(kin__wheel_pop(&wheel, fires), &node);
            EXPECT_LE(fires - node.deadline, TICK);
            EXPECT_PTR(kin__wheel_pop(&wheel, fires), NULL);
            EXPECT_EQ(wheel.count, 0);
            EXPECT_EQ(kin__wheel_next(&wheel), INT64_MAX);
        }
    }
}

/* Whoever sleeps until kin__wheel_next and steps then gets there in at most one step per level. */
KIN_TEST(sleeping_until_the_next_step_leads_to_the_deadline, "TW-1")
{
    for (int64_t distance = 1; distance < 80 * YEAR; distance = distance * 3 + 1) {
        static struct kin__wheel wheel;
        struct kin__wheel_node node = {{NULL, NULL}, 777777 + distance, 0, 0};
        int64_t now = 777777;
        unsigned steps = 0;
        kin__wheel_init(&wheel, now);
        kin__wheel_insert(&wheel, &node);
        while (!kin__wheel_pop(&wheel, now)) {
            int64_t next = kin__wheel_next(&wheel);
            EXPECT_GT(next, now); /* else a worker would turn round and round */
            now = next;
            steps++;
            EXPECT_LE(steps, KIN__WHEEL_LEVELS + 1);
        }
        EXPECT_GE(now, node.deadline);
        EXPECT_LE(now, node.deadline + TICK);
    }
}

KIN_TEST(a_deadline_in_the_past_fires_at_the_next_step, "TW-1")
{
    const int64_t past[] = {-1, 0, 1, INT64_MIN, 5 * SEC, 10 * SEC - TICK, 10 * SEC};
    for (size_t i = 0; i < sizeof past / sizeof past[0]; i++) {
        static struct kin__wheel wheel;
        struct kin__wheel_node node = {{NULL, NULL}, past[i], 0, 0};
        int64_t now = 10 * SEC;
        kin__wheel_init(&wheel, now);
        kin__wheel_insert(&wheel, &node);
        EXPECT_LE(kin__wheel_next(&wheel), now + TICK);
        EXPECT_PTR(kin__wheel_pop(&wheel, now + TICK), &node);
    }
}

KIN_TEST(never_stays_in_the_wheel_for_ever, "TW-1")
{
    static struct kin__wheel wheel;
    struct kin__wheel_node never = {{NULL, NULL}, INT64_MAX, 0, 0};
    struct kin__wheel_node almost = {{NULL, NULL}, INT64_MAX - 1, 0, 0};
    struct kin__wheel_node soon = {{NULL, NULL}, 5 * MS, 0, 0};
    kin__wheel_init(&wheel, 0);
    kin__wheel_insert(&wheel, &never);
    kin__wheel_insert(&wheel, &almost);
    kin__wheel_insert(&wheel, &soon);
    EXPECT_PTR(kin__wheel_pop(&wheel, 6 * MS), &soon);
    for (int64_t now = 6 * MS; now < INT64_MAX / 2; now *= 2)
        EXPECT_PTR(kin__wheel_pop(&wheel, now), NULL);
    EXPECT_PTR(kin__wheel_pop(&wheel, INT64_MAX), NULL);
    EXPECT_EQ(wheel.count, 2);
    EXPECT_LT(kin__wheel_next(&wheel), INT64_MAX); /* it is not empty */
    kin__wheel_remove(&wheel, &never);
    kin__wheel_remove(&wheel, &almost);
    EXPECT_EQ(kin__wheel_next(&wheel), INT64_MAX);
}

KIN_TEST(equal_deadlines_fire_in_the_order_of_insertion, "TW-1 T056")
{
    enum { MANY = 500 };
    const int64_t distances[] = {0, 1000, MS, 5 * MS, SEC, 3600 * SEC, 30 * DAY};
    for (size_t d = 0; d < sizeof distances / sizeof distances[0]; d++) {
        static struct kin__wheel wheel;
        static struct kin__wheel_node nodes[MANY];
        int64_t deadline = 3 * SEC + distances[d];
        kin__wheel_init(&wheel, 3 * SEC);
        for (int i = 0; i < MANY; i++) {
            nodes[i] = (struct kin__wheel_node){.deadline = deadline};
            kin__wheel_insert(&wheel, &nodes[i]);
            if (i == MANY / 2) /* half of them wait in a lower level by then */
                EXPECT_PTR(kin__wheel_pop(&wheel, deadline - distances[d] / 3), NULL);
        }
        for (int i = 0; i < MANY; i++)
            EXPECT_PTR(kin__wheel_pop(&wheel, deadline + TICK), &nodes[i]);
        EXPECT_PTR(kin__wheel_pop(&wheel, deadline + TICK), NULL);
    }
}

KIN_TEST(a_removed_deadline_does_not_fire, "TW-1")
{
    enum { MANY = 300 };
    static struct kin__wheel wheel;
    static struct kin__wheel_node nodes[MANY];
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    kin__wheel_init(&wheel, 0);
    for (int i = 0; i < MANY; i++) {
        nodes[i].deadline = (int64_t)kin__rng_below(&rng, (uint64_t)(2 * SEC));
        kin__wheel_insert(&wheel, &nodes[i]);
    }
    for (int i = 0; i < MANY; i += 2) {
        kin__wheel_remove(&wheel, &nodes[i]);
        kin__wheel_remove(&wheel, &nodes[i]); /* twice: harmless */
    }
    EXPECT_EQ(wheel.count, MANY / 2);
    int fired = 0;
    for (struct kin__wheel_node *node; (node = kin__wheel_pop(&wheel, 3 * SEC)); fired++)
        EXPECT_EQ((node - nodes) % 2, 1);
    EXPECT_EQ(fired, MANY / 2);
    EXPECT_EQ(kin__wheel_next(&wheel), INT64_MAX); /* no empty slot is taken for a used one */
}

/* ---- against an array ---- */

enum { LIVE_MAX = 300 };

struct shadow {
    struct kin__wheel_node node;
    int64_t fires_after; /* the tick that must be past */
    uint64_t order;
    bool is_live;
};

struct model {
    struct kin__wheel wheel;
    struct shadow shadows[LIVE_MAX];
    int64_t now;
    uint64_t order;
    uint64_t fired;
    struct kin__rng rng;
};

static int64_t random_distance(struct kin__rng *rng)
{
    static const int64_t scales[] = {TICK, 100 * US, MS,  70 * MS,  SEC,      300 * SEC,
                                     DAY,  20 * DAY, YEAR, 50 * YEAR, 120 * YEAR};
    int64_t scale = scales[kin__rng_below(rng, sizeof scales / sizeof scales[0])];
    return (int64_t)kin__rng_below(rng, (uint64_t)scale + 1);
}

static void insert_one(struct model *model)
{
    struct shadow *shadow = &model->shadows[kin__rng_below(&model->rng, LIVE_MAX)];
    if (shadow->is_live)
        return;
    int64_t distance = random_distance(&model->rng);
    uint64_t kind = kin__rng_below(&model->rng, 16);
    int64_t deadline = kind == 0 ? model->now - distance
                       : model->now > INT64_MAX - distance ? INT64_MAX
                                                           : model->now + distance;
    if (kind == 1) /* the same as another one's */
        deadline = model->shadows[kin__rng_below(&model->rng, LIVE_MAX)].node.deadline;
    if (kind == 2 && model->now < INT64_MAX / 2) /* at the edge of a slot */
        deadline = (model->now + distance) & -(TICK << (6 * kin__rng_below(&model->rng, 5)));
    if (kind == 3 && kin__rng_below(&model->rng, 8) == 0)
        deadline = INT64_MAX;
    shadow->node.deadline = deadline;
    int64_t tick = tick_of(deadline), reached = tick_of(model->now);
    shadow->fires_after = tick > reached ? tick : reached;
    shadow->order = model->order++;
    shadow->is_live = true;
    kin__wheel_insert(&model->wheel, &shadow->node);
}

static void remove_one(struct model *model)
{
    struct shadow *shadow = &model->shadows[kin__rng_below(&model->rng, LIVE_MAX)];
    kin__wheel_remove(&model->wheel, &shadow->node); /* also when it is in no wheel */
    shadow->is_live = false;
}

/* Everything that is due comes out, nothing else, ticks in order, equal deadlines in order. */
static void fire_due(struct model *model)
{
    int64_t now_tick = tick_of(model->now), last_tick = -1;
    struct kin__wheel_node *node;
    while ((node = kin__wheel_pop(&model->wheel, model->now))) {
        struct shadow *shadow = KIN__CONTAINER_OF(node, struct shadow, node);
        EXPECT(shadow->is_live);
        shadow->is_live = false;
        model->fired++;
        EXPECT_LT(shadow->fires_after, now_tick);
        EXPECT_GE(shadow->fires_after, last_tick);
        last_tick = shadow->fires_after;
        for (int i = 0; i < LIVE_MAX; i++) {
            const struct shadow *other = &model->shadows[i];
            EXPECT(!other->is_live || other->node.deadline != node->deadline ||
                   other->order > shadow->order);
        }
    }
    int64_t first = INT64_MAX;
    uint64_t live = 0;
    for (int i = 0; i < LIVE_MAX; i++) {
        if (!model->shadows[i].is_live)
            continue;
        live++;
        EXPECT_GE(model->shadows[i].fires_after, now_tick);
        if (model->shadows[i].fires_after < first)
            first = model->shadows[i].fires_after;
    }
    EXPECT_EQ(model->wheel.count, live);
    int64_t next = kin__wheel_next(&model->wheel);
    EXPECT_EQ(next == INT64_MAX, live == 0);
    if (live && first < INT64_MAX / TICK) {
        EXPECT_GT(next, model->now);
        EXPECT_LE(next, (first + 1) * TICK);
    }
}

KIN_TEST(random_deadlines_agree_with_an_array, "TW-1")
{
    static struct model model;
    const unsigned steps = 60000 / kin_test_scale();
    kin__rng_init(&model.rng, kin_test_seed(), 0);
    for (int lap = 0; lap < 4; lap++) {
        model.now = lap == 0 ? 0 : random_distance(&model.rng);
        for (int i = 0; i < LIVE_MAX; i++)
            model.shadows[i] = (struct shadow){.is_live = false};
        kin__wheel_init(&model.wheel, model.now);
        for (unsigned i = 0; i < steps; i++) {
            uint64_t what = kin__rng_below(&model.rng, 16);
            if (what < 9) {
                insert_one(&model);
            } else if (what < 11) {
                remove_one(&model);
            } else {
                int64_t next = kin__wheel_next(&model.wheel);
                int64_t step = random_distance(&model.rng) >> kin__rng_below(&model.rng, 40);
                if (what == 11 && next < INT64_MAX - 1)
                    model.now = next; /* as a worker does that sleeps until then */
                else if (what == 12 && next < INT64_MAX - 1 && next > 0)
                    model.now = next - 1 > model.now ? next - 1 : model.now;
                else if (model.now < INT64_MAX / 4)
                    model.now += step;
                fire_due(&model);
            }
        }
    }
    printf("%llu fired\n", (unsigned long long)model.fired);
    EXPECT_GT(model.fired, steps / 8);
}

KIN_TEST(a_hundred_thousand_deadlines_fire_in_order_of_their_ticks, "TW-1")
{
    enum { MANY = 100000 };
    struct kin__wheel *wheel = malloc(sizeof *wheel);
    struct kin__wheel_node *nodes = calloc(MANY, sizeof *nodes);
    struct kin__rng rng;
    int64_t now = SEC;
    unsigned fired = 0;
    EXPECT(wheel && nodes);
    kin__rng_init(&rng, kin_test_seed(), 0);
    kin__wheel_init(wheel, now);
    for (int i = 0; i < MANY; i++) {
        nodes[i].deadline = now + (int64_t)kin__rng_below(&rng, (uint64_t)(600 * SEC));
        kin__wheel_insert(wheel, &nodes[i]);
    }
    int64_t last = 0;
    while (wheel->count) {
        int64_t next = kin__wheel_next(wheel);
        EXPECT_GT(next, now);
        now = next;
        for (struct kin__wheel_node *node; (node = kin__wheel_pop(wheel, now)); fired++) {
            EXPECT_GE(tick_of(node->deadline), last);
            last = tick_of(node->deadline);
            EXPECT_LE(node->deadline, now);
            EXPECT_LE(now - node->deadline, TICK);
        }
    }
    EXPECT_EQ(fired, MANY);
    free(nodes);
    free(wheel);
}
