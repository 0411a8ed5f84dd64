/* SPDX-License-Identifier: MIT */
/*
 * Goal: an address says which task it is, everywhere and for good.
 * Method: the running task's, a child's while it runs and when it is over, a server's in its
 * callbacks and outside, and those of nobody.
 */
#include "api/in_runtime.h"

#include <kin/server.h>

static int give_address(void *out)
{
    *(struct kin_addr *)out = kin_self_addr();
    return 0;
}

static int start_here(struct kin_server *s, void *state, const void *arg)
{
    (void)s, (void)state;
    **(struct kin_addr *const *)arg = kin_self_addr();
    return 0;
}

static int look_at_addresses(void *arg)
{
    static const struct kin_server_ops ops = {.on_start = start_here};
    struct kin_addr me = kin_self_addr(), child = {0, 0}, inside = {0, 0}, server = {0, 0};
    struct kin_addr *where = &inside;
    struct kin_task_ref ref;
    (void)arg;
    EXPECT(me.id == kin_self().id && me.node == 0);
    EXPECT(kin_addr_same(me, kin_task_addr(kin_self())));
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, give_address, &child, 0, &ref), 0);
    EXPECT_EQ(kin_server_start(&n, &ops, NULL, &where, &server), 0);
    EXPECT(kin_addr_same(server, inside));
    EXPECT(!kin_addr_same(server, me));
    EXPECT_EQ(kin_server_stop(server, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT(kin_addr_same(child, kin_task_addr(ref)));
    EXPECT(!kin_addr_same(child, me));
    return 0;
}

KIN_TEST(an_address_says_which_task_it_is, "")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_reporting(workers, look_at_addresses, NULL, NULL), 0);
}

KIN_TEST(nobody_is_the_same_as_nobody_alone, "")
{
    struct kin_addr nobody = {0, 0};
    EXPECT(kin_addr_same(kin_self_addr(), nobody)); /* outside a task */
    EXPECT(kin_addr_same(kin_task_addr((struct kin_task_ref){0}), nobody));
    EXPECT(!kin_addr_same((struct kin_addr){1, 7}, (struct kin_addr){2, 7}));
    EXPECT(!kin_addr_same((struct kin_addr){1, 7}, (struct kin_addr){1, 8}));
}
