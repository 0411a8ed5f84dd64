/* SPDX-License-Identifier: MIT */
/*
 * The list: each operation by itself, then random operations on four lists against arrays.
 */
#include "base/list.h"

#include "base/rng.h"
#include "kin_test.h"

struct item {
    int before;
    struct kin__list link;
    int after;
};

KIN_TEST(container_of_finds_the_struct_from_its_link, "")
{
    struct item item = {1, {NULL, NULL}, 2};
    struct kin__list *link = &item.link;
    EXPECT_PTR(KIN__CONTAINER_OF(link, struct item, link), &item);
    EXPECT_EQ(KIN__CONTAINER_OF(link, struct item, link)->after, 2);
}

KIN_TEST(container_of_evaluates_its_pointer_once, "")
{
    struct item items[2] = {{1, {NULL, NULL}, 10}, {2, {NULL, NULL}, 20}};
    struct kin__list *links[2] = {&items[0].link, &items[1].link};
    struct kin__list **at = links;
    EXPECT_PTR(KIN__CONTAINER_OF(*at++, struct item, link), &items[0]);
    EXPECT_PTR(at, links + 1);
}

KIN_TEST(an_initialised_list_is_empty, "")
{
    struct kin__list head;
    kin__list_init(&head);
    EXPECT(kin__list_is_empty(&head));
    EXPECT_PTR(kin__list_first(&head), NULL);
    EXPECT_PTR(kin__list_last(&head), NULL);
    EXPECT_PTR(kin__list_pop_front(&head), NULL);
    KIN__LIST_EACH(link, &head)
    EXPECT_PTR(link, NULL); /* not reached */
}

KIN_TEST(zeroed_and_removed_nodes_are_not_linked, "")
{
    struct kin__list head;
    struct kin__list node = {NULL, NULL};
    kin__list_init(&head);
    EXPECT(!kin__list_is_linked(&node));
    kin__list_push_back(&head, &node);
    EXPECT(kin__list_is_linked(&node));
    kin__list_remove(&node);
    EXPECT(!kin__list_is_linked(&node));
    EXPECT_PTR(node.next, &node);
    EXPECT_PTR(node.prev, &node);
    kin__list_remove(&node); /* a second time changes nothing */
    EXPECT(kin__list_is_empty(&head));
}

KIN_TEST(front_and_back_keep_their_order, "")
{
    struct kin__list head, a, b, c;
    kin__list_init(&head);
    kin__list_init(&a);
    kin__list_init(&b);
    kin__list_init(&c);
    kin__list_push_back(&head, &b);
    kin__list_push_back(&head, &c);
    kin__list_push_front(&head, &a);
    EXPECT_PTR(kin__list_first(&head), &a);
    EXPECT_PTR(kin__list_next(&head, &a), &b);
    EXPECT_PTR(kin__list_next(&head, &b), &c);
    EXPECT_PTR(kin__list_next(&head, &c), NULL);
    EXPECT_PTR(kin__list_last(&head), &c);
    EXPECT_PTR(kin__list_pop_front(&head), &a);
    EXPECT_PTR(kin__list_first(&head), &b);
}

KIN_TEST(a_walk_survives_the_removal_of_its_node, "")
{
    struct kin__list head, other, nodes[5] = {{NULL, NULL}};
    int seen = 0;
    kin__list_init(&head);
    kin__list_init(&other);
    for (int i = 0; i < 5; i++)
        kin__list_push_back(&head, &nodes[i]);
    KIN__LIST_EACH(link, &head)
    {
        EXPECT_PTR(link, &nodes[seen]);
        kin__list_remove(link);
        kin__list_push_front(&other, link);
        seen++;
    }
    EXPECT_EQ(seen, 5);
    EXPECT(kin__list_is_empty(&head));
    EXPECT_PTR(kin__list_first(&other), &nodes[4]);
}

KIN_TEST(splice_of_empty_lists_changes_nothing, "")
{
    struct kin__list head, from, node = {NULL, NULL};
    kin__list_init(&head);
    kin__list_init(&from);
    kin__list_splice(&head, &from);
    EXPECT(kin__list_is_empty(&head));
    kin__list_push_back(&head, &node);
    kin__list_splice(&head, &from);
    EXPECT_PTR(kin__list_first(&head), &node);
    EXPECT_PTR(kin__list_last(&head), &node);
    kin__list_splice(&from, &head);
    EXPECT(kin__list_is_empty(&head));
    EXPECT_PTR(kin__list_first(&from), &node);
    EXPECT_PTR(node.next, &from);
    EXPECT_PTR(node.prev, &from);
}

#ifdef KIN_DEBUG
KIN_TEST(linking_a_linked_node_aborts_in_debug, "")
{
    EXPECT_ABORT ("check failed: !kin__list_is_linked(link)") {
        struct kin__list head, node = {NULL, NULL};
        kin__list_init(&head);
        kin__list_push_back(&head, &node);
        kin__list_push_back(&head, &node);
    }
}
#endif

/* ---- against a model ---- */

enum { LISTS = 4, NODES = 24, ROUNDS = 20000 };

struct model {
    struct kin__list heads[LISTS];
    struct kin__list nodes[NODES];
    int order[LISTS][NODES]; /* the node numbers each list should hold */
    int count[LISTS];
    int home[NODES]; /* which list a node should be in; -1: none */
};

static void model_insert(struct model *m, int list, int at, int node)
{
    for (int i = m->count[list]; i > at; i--)
        m->order[list][i] = m->order[list][i - 1];
    m->order[list][at] = node;
    m->count[list]++;
    m->home[node] = list;
}

static void model_remove(struct model *m, int node)
{
    int list = m->home[node];
    int at = 0;
    while (m->order[list][at] != node)
        at++;
    m->count[list]--;
    for (int i = at; i < m->count[list]; i++)
        m->order[list][i] = m->order[list][i + 1];
    m->home[node] = -1;
}

static void model_splice(struct model *m, int into, int from)
{
    for (int i = 0; i < m->count[from]; i++)
        model_insert(m, into, m->count[into], m->order[from][i]);
    m->count[from] = 0;
    kin__list_splice(&m->heads[into], &m->heads[from]);
}

static void model_compare(struct model *m)
{
    for (int list = 0; list < LISTS; list++) {
        const struct kin__list *head = &m->heads[list];
        const struct kin__list *back = head;
        int at = 0;
        KIN__LIST_EACH(link, &m->heads[list])
        {
            EXPECT_LT(at, m->count[list]);
            EXPECT_PTR(link, &m->nodes[m->order[list][at]]);
            EXPECT_PTR(link->prev, back);
            back = link;
            at++;
        }
        EXPECT_EQ(at, m->count[list]);
        EXPECT_PTR(head->prev, back);
        EXPECT_EQ(kin__list_is_empty(head), m->count[list] == 0);
    }
    for (int node = 0; node < NODES; node++)
        EXPECT_EQ(kin__list_is_linked(&m->nodes[node]), m->home[node] >= 0);
}

static void model_step(struct model *m, struct kin__rng *rng)
{
    int node = (int)kin__rng_below(rng, NODES);
    int list = (int)kin__rng_below(rng, LISTS);
    if (kin__rng_chance(rng, 1, 16)) {
        model_splice(m, list, (list + 1) % LISTS);
    } else if (kin__rng_chance(rng, 1, 8)) {
        struct kin__list *popped = kin__list_pop_front(&m->heads[list]);
        if (m->count[list] == 0) {
            EXPECT_PTR(popped, NULL);
            return;
        }
        EXPECT_PTR(popped, &m->nodes[m->order[list][0]]);
        model_remove(m, m->order[list][0]);
    } else if (m->home[node] >= 0) {
        model_remove(m, node);
        kin__list_remove(&m->nodes[node]);
    } else if (kin__rng_chance(rng, 1, 2)) {
        model_insert(m, list, 0, node);
        kin__list_push_front(&m->heads[list], &m->nodes[node]);
    } else {
        model_insert(m, list, m->count[list], node);
        kin__list_push_back(&m->heads[list], &m->nodes[node]);
    }
}

KIN_TEST(random_operations_match_arrays, "")
{
    static struct model m;
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (int i = 0; i < LISTS; i++)
        kin__list_init(&m.heads[i]);
    for (int i = 0; i < NODES; i++)
        m.home[i] = -1;
    for (int round = 0; round < ROUNDS; round++) {
        model_step(&m, &rng);
        model_compare(&m);
    }
}
