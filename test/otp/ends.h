/* SPDX-License-Identifier: MIT */
/*
 * What the tests of monitors and links share: tasks that end in every way when they are let, and
 * runs after which nothing of a party may be left.
 */
#ifndef KIN_TEST_ENDS_H
#define KIN_TEST_ENDS_H

#include "api/in_runtime.h"

#include "otp/party.h"

enum end_kind {
    END_OK,
    END_VALUE,
    END_ERROR,
    END_FAIL,
    END_CANCELLED, /* asked for itself */
    END_PANIC,
    END_KINDS
};

/* A task that begins, says so, and ends when it is let. Nothing of it moves meanwhile. */
struct target {
    struct kin_event has_begun, may_end;
    enum end_kind kind;
    struct kin_task_ref ref;
    struct kin_addr addr;
};

static int be_target(void *arg)
{
    struct target *target = arg;
    kin_event_set(&target->has_begun);
    kin_mask();
    kin_ignore(kin_event_wait(&target->may_end, KIN_NEVER));
    kin_unmask();
    switch (target->kind) {
    case END_OK:
        return 0;
    case END_VALUE:
        return 17;
    case END_ERROR:
        return -EIO;
    case END_FAIL:
        kin_fail(-EPIPE, "as it should");
    case END_PANIC:
        kin_panic("as it should");
    case END_CANCELLED:
    case END_KINDS:
        break;
    }
    kin_ignore(kin_task_cancel(target->ref));
    return kin_sleep(KIN_NEVER);
}

__attribute__((unused)) static void start_target(struct kin_nursery *n, struct target *target,
                                                 enum end_kind kind)
{
    *target = (struct target){.kind = kind};
    EXPECT_EQ(kin_spawn_with(n, NULL, be_target, target, 0, &target->ref), 0);
    target->addr = kin_task_addr(target->ref);
    EXPECT_EQ(kin_event_wait(&target->has_begun, KIN_NEVER), 0);
}

__attribute__((unused)) static void let_end(struct target *target)
{
    kin_event_set(&target->may_end);
}

__attribute__((unused)) static enum kin_down_reason reason_of(enum end_kind kind)
{
    static const enum kin_down_reason reasons[END_KINDS] = {
        KIN_DOWN_NORMAL, KIN_DOWN_NORMAL,    KIN_DOWN_ERROR,
        KIN_DOWN_ERROR,  KIN_DOWN_CANCELLED, KIN_DOWN_PANICKED};
    return reasons[kind];
}

__attribute__((unused)) static int status_of(enum end_kind kind)
{
    static const int statuses[END_KINDS] = {0, 0, -EIO, -EPIPE, KIN_CANCELLED, KIN_PANICKED};
    return statuses[kind];
}

/* A nursery whose children may fail. */
__attribute__((unused)) static void open_collecting(struct kin_nursery *n)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    options.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(n, &options), 0);
}

__attribute__((unused)) static void join_all(struct kin_nursery *n)
{
    kin_ignore(kin_nursery_join(n, NULL));
}

/* As run_on_few; nobody is a party afterwards. */
__attribute__((unused)) static void run_on_few_and_clean(kin_task_fn *fn, void *arg)
{
    run_on_few(fn, arg);
    EXPECT_EQ(kin__party_count(), 0);
    EXPECT_EQ(kin__watch_count(), 0);
}

#endif
