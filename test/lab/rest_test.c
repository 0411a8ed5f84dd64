/* SPDX-License-Identifier: MIT */
/*
 * Goal: a server at rest loses no message and no end in any order of steps, and where there is no
 * stack for it when it is woken it ends with that status, with its callers answered.
 * Method: a small program, a server with a caller and somebody who ends it, in every order by DPOR,
 * and in many with memory that fails wherever it can.
 */
#include "in_lab.h"

struct house {
    struct kin_addr server;
    int handled, called, ended;
};

static int count(struct kin_server *s, void *state, const void *req, size_t size,
                 struct kin_reply *reply)
{
    struct house *house = *(struct house **)state;
    (void)s;
    (void)req;
    (void)size;
    house->handled++;
    int rc = kin_reply_send(reply, NULL, 0);
    EXPECT(rc == 0 || rc == KIN_GONE);
    return 0;
}

static int keep(struct kin_server *s, void *state, const void *arg)
{
    (void)s;
    *(struct house **)state = (struct house *)(uintptr_t)arg;
    return 0;
}

static int call(void *arg)
{
    struct house *house = arg;
    house->called = kin_call(house->server, NULL, 0, NULL, 0, NULL, KIN_NEVER);
    return 0;
}

static int end(void *arg)
{
    struct house *house = arg;
    house->ended = kin_task_cancel((struct kin_task_ref){house->server.id});
    return 0;
}

static struct {
    unsigned answered, sent_away, starved, unstarted;
} seen;

/* What must be so, whatever failed. */
static void look(const struct house *house)
{
    EXPECT_LE(house->handled, 1);
    if (house->called == 0)
        EXPECT_EQ(house->handled, 1);
    seen.answered += house->called == 0;
    seen.sent_away += house->called == KIN_STOPPING || house->called == KIN_NOPROC;
    seen.starved += house->called == -ENOMEM;
}

static int program(void *arg)
{
    static const struct kin_server_ops ops = {.on_start = keep, .on_call = count};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    struct house house = {.called = 1};
    (void)arg;
    options.state_size = sizeof(struct house *);
    KIN_NURSERY(n); /* whoever fails ends all */
    int rc = kin_server_start(&n, &ops, &options, &house, &house.server);
    if (rc == 0)
        rc = kin_spawn(&n, call, &house);
    if (rc == 0)
        rc = kin_spawn(&n, end, &house);
    if (rc < 0) {
        seen.unstarted++;
        kin_nursery_cancel(&n, 0);
    }
    int joined = kin_nursery_join(&n, NULL);
    EXPECT(joined == 0 || joined == KIN_CANCELLED || joined == -ENOMEM);
    look(&house);
    return 0;
}

static void explore(enum kin_lab_strategy strategy, uint64_t executions, uint32_t faults)
{
    int rc = lab_with(strategy, executions, faults, program, NULL);
    if (rc < 0)
        printf("%s\n", report.text);
    EXPECT_EQ(rc, 0);
}

KIN_TEST(in_every_order_a_call_is_answered_or_sent_away, "F4")
{
    memset(&seen, 0, sizeof seen);
    explore(KIN_LAB_DPOR, 0, 0);
    EXPECT(report.exhausted);
    EXPECT_GT(seen.answered, 0);
    EXPECT_GT(seen.sent_away, 0);
    EXPECT_EQ(seen.starved + seen.unstarted, 0);
}

KIN_TEST(by_chance_and_by_priorities_too, "F4")
{
    memset(&seen, 0, sizeof seen);
    explore(KIN_LAB_RANDOM, 3000, 0);
    explore(KIN_LAB_PCT, 3000, 0);
    EXPECT_GT(seen.answered, 0);
    EXPECT_GT(seen.sent_away, 0);
}

KIN_TEST(without_a_stack_it_ends_and_its_caller_knows, "")
{
    memset(&seen, 0, sizeof seen);
    explore(KIN_LAB_RANDOM, 5000, KIN_FAULT_OOM);
    EXPECT_GT(seen.starved, 0);
    EXPECT_GT(seen.answered, 0);
}

KIN_TEST(cancelled_wherever_it_is, "")
{
    memset(&seen, 0, sizeof seen);
    explore(KIN_LAB_RANDOM, 3000, KIN_FAULT_CANCEL);
    EXPECT_GT(seen.answered, 0);
}
