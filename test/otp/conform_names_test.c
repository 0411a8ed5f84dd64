/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the own tests of other actor systems ask of registries, asked of kin's names: cases
 *       K220 to K228, and K253 about leases. Each test names its case.
 * Method: black box, one body per case, on 1, 2 and 4 workers.
 *
 * Cases that kin answers elsewhere or has nothing to ask of:
 *   K222, K228      several holders of one name, and reaching them all: a name has one holder
 *   K226            a value beside the name: there is none
 *   K235 to K238    tasks with results: nurseries, in api/conformance_scopes_test.c
 *   K243            partitions: there are none
 */
#include "otp/desk.h"

/* Holds names until it is told to go. */
struct holder {
    const char *name;
    int count; /* of further names, name.0 to name.count-1 */
    struct kin_event go_on;
    _Atomic int ready;
    struct kin_task_ref ref;
    int status;
};

static int holder_main(void *arg)
{
    struct holder *holder = arg;
    char name[64];
    EXPECT_EQ(kin_register(holder->name, kin_self_addr(), 0), 0);
    for (int i = 0; i < holder->count; i++) {
        snprintf(name, sizeof name, "%s.%d", holder->name, i);
        EXPECT_EQ(kin_register(name, kin_self_addr(), 0), 0);
    }
    atomic_store(&holder->ready, 1);
    int rc = kin_event_wait(&holder->go_on, KIN_NEVER);
    return rc < 0 ? rc : holder->status;
}

static struct kin_addr spawn_holder(struct kin_nursery *n, struct holder *holder, const char *name,
                                    int count)
{
    memset(holder, 0, sizeof *holder);
    holder->name = name;
    holder->count = count;
    EXPECT_EQ(kin_spawn_with(n, NULL, holder_main, holder, 0, &holder->ref), 0);
    await_flag(&holder->ready, 1);
    return kin_task_addr(holder->ref);
}

static struct kin_addr find(const char *name)
{
    struct kin_addr found = {0, 0};
    EXPECT_EQ(kin_whereis(name, &found), 0);
    return found;
}

static void expect_free(const char *name)
{
    struct kin_addr found = {3, 4};
    EXPECT_EQ(kin_whereis(name, &found), KIN_NOPROC);
    EXPECT_EQ(found.node, 3);
    EXPECT_EQ(found.id, 4);
}

/* K220 K221: a name has one holder; the holder may not have it twice either. */
static int in_k220_k221_a_name_has_one_holder(void *arg)
{
    struct holder holder;
    HOUSE(n);
    (void)arg;
    expect_free("one");
    struct kin_addr who = spawn_holder(&n, &holder, "one", 0);
    EXPECT_EQ(kin_register("one", kin_self_addr(), 0), KIN_TAKEN);
    EXPECT_EQ(kin_register("one", who, 0), KIN_TAKEN);
    EXPECT_EQ(kin_register("one", who, KIN_SEC(1)), KIN_TAKEN);
    EXPECT(kin_addr_same(find("one"), who));
    EXPECT_EQ(kin_register("ONE", kin_self_addr(), 0), 0);
    EXPECT_EQ(kin_register("one ", kin_self_addr(), 0), 0);
    EXPECT(kin_addr_same(find("ONE"), kin_self_addr()));
    EXPECT_EQ(kin_unregister("ONE"), 0);
    EXPECT_EQ(kin_unregister("one "), 0);
    kin_event_set(&holder.go_on);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    expect_free("one");
    return 0;
}

KIN_TEST(k220_k221_a_name_has_one_holder, "K220 K221 REG-REGISTER REG-COLLISION REG-LOOKUP")
{
    run_on_few(in_k220_k221_a_name_has_one_holder, NULL);
}

/* K223 K224: with the holder all its names go, before anybody can know that it is over. */
static int in_k223_k224_with_the_holder_all_its_names_go(void *arg)
{
    const int count = enough(300, 20);
    char name[64];
    const int status[] = {0, -EIO};
    (void)arg;
    for (int round = 0; round < 3; round++) {
        struct holder holder;
        HOUSE(n);
        struct kin_addr who = spawn_holder(&n, &holder, "many", count);
        for (int i = 0; i < count; i++) {
            snprintf(name, sizeof name, "many.%d", i);
            EXPECT(kin_addr_same(find(name), who));
        }
        struct kin_monitor_ref ref = watch(who);
        holder.status = status[round % 2];
        if (round == 2)
            EXPECT_EQ(kin_task_cancel(holder.ref), 0);
        else
            kin_event_set(&holder.go_on);
        end_of(ref);
        expect_free("many");
        for (int i = 0; i < count; i++) {
            snprintf(name, sizeof name, "many.%d", i);
            expect_free(name);
        }
        EXPECT_EQ(kin_register("many", kin_self_addr(), 0), 0);
        EXPECT_EQ(kin_unregister("many"), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), status[round % 2]);
    }
    return 0;
}

KIN_TEST(k223_k224_with_the_holder_all_its_names_go, "K223 K224 D11 SINV-3")
{
    run_on_few(in_k223_k224_with_the_holder_all_its_names_go, NULL);
}

static int unregister_it(void *arg)
{
    EXPECT_EQ(kin_unregister(arg), -EPERM);
    EXPECT_EQ(kin_lease_renew(arg, KIN_SEC(1)), -EPERM);
    return 0;
}

/* K225: only the holder, or who registered it, may take a name back. */
static int in_k225_only_ones_own_names_can_be_taken_back(void *arg)
{
    struct holder holder;
    struct kin_task_ref other;
    HOUSE(n);
    struct kin_addr who = spawn_holder(&n, &holder, "his", 0);
    (void)arg;
    EXPECT_EQ(kin_unregister("his"), -EPERM);
    EXPECT(kin_addr_same(find("his"), who));
    EXPECT_EQ(kin_register("ours", who, 0), 0); /* he has it, this task registered it */
    EXPECT(kin_addr_same(find("ours"), who));
    EXPECT_EQ(kin_spawn_with(&n, NULL, unregister_it, "ours", 0, &other), 0);
    EXPECT_EQ(kin_task_join(&n, other, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_lease_renew("ours", KIN_SEC(1000)), 0);
    EXPECT_EQ(kin_unregister("nobody's"), KIN_NOPROC);
    EXPECT_EQ(kin_lease_renew("nobody's", 1), KIN_NOPROC);
    struct kin_monitor_ref ref = watch(who);
    kin_event_set(&holder.go_on);
    EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
    expect_free("his");
    expect_free("ours");
    EXPECT_EQ(kin_register("mine", kin_self_addr(), 0), 0);
    EXPECT_EQ(kin_unregister("mine"), 0);
    EXPECT_EQ(kin_unregister("mine"), KIN_NOPROC);
    EXPECT_EQ(kin_register("mine", kin_self_addr(), 0), 0);
    EXPECT_EQ(kin_unregister("mine"), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k225_only_ones_own_names_can_be_taken_back, "K225 REG-UNREGISTER")
{
    run_on_few(in_k225_only_ones_own_names_can_be_taken_back, NULL);
}

/* K225: who registered a name may take it back from its holder. */
static int in_k225_who_registered_a_name_may_take_it_back(void *arg)
{
    struct holder holder;
    HOUSE(n);
    struct kin_addr who = spawn_holder(&n, &holder, "his", 0);
    (void)arg;
    EXPECT_EQ(kin_register("lent", who, 0), 0);
    EXPECT_EQ(kin_unregister("lent"), 0);
    expect_free("lent");
    EXPECT(kin_addr_same(find("his"), who));
    kin_event_set(&holder.go_on);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k225_who_registered_a_name_may_take_it_back, "K225 REG-UNREGISTER")
{
    run_on_few(in_k225_who_registered_a_name_may_take_it_back, NULL);
}

/* K227: a start under a taken name, a call to a name that is not there. */
static int in_k227_starts_and_calls_by_name(void *arg)
{
    struct holder holder;
    struct kin_addr out = {0, 0};
    DESK_OPTIONS(options);
    HOUSE(n);
    struct kin_addr who = spawn_holder(&n, &holder, "place", 0);
    (void)arg;
    options.name = "place";
    EXPECT_EQ(try_open_desk(&n, NULL, &options, &out), KIN_TAKEN);
    EXPECT(kin_addr_same(out, who));
    struct kin_monitor_ref ref = watch(who);
    kin_event_set(&holder.go_on);
    end_of(ref);
    struct kin_addr desk = open_desk(&n, NULL, &options);
    EXPECT(kin_addr_same(find("place"), desk));
    EXPECT_EQ(ask(find("place"), do_add, 4, NULL), 4);
    close_desk(desk);
    expect_free("place");
    EXPECT_EQ(ask(desk, do_add, 4, NULL), KIN_NOPROC);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k227_starts_and_calls_by_name, "K227")
{
    run_on_few(in_k227_starts_and_calls_by_name, NULL);
}

static int claim_it(void *arg)
{
    int rc = kin_register("prize", kin_self_addr(), 0);
    EXPECT(rc == 0 || rc == KIN_TAKEN);
    if (rc == 0) {
        EXPECT(kin_addr_same(find("prize"), kin_self_addr()));
        EXPECT_EQ(atomic_fetch_add((_Atomic int *)arg, 1), 0);
        kin_ignore(kin_yield());
        EXPECT(kin_addr_same(find("prize"), kin_self_addr()));
        EXPECT_EQ(atomic_fetch_sub((_Atomic int *)arg, 1), 1);
        if (kin_task_id(kin_self()) % 2)
            EXPECT_EQ(kin_unregister("prize"), 0);
    }
    return 0;
}

/* K220: many want one name: one at a time has it. */
static int in_k220_one_at_a_time_has_a_name(void *arg)
{
    _Atomic int holders = 0;
    (void)arg;
    for (int round = 0; round < 20; round++) {
        KIN_NURSERY(n);
        for (int i = 0; i < 20; i++)
            EXPECT_EQ(kin_spawn(&n, claim_it, &holders), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        expect_free("prize");
    }
    return 0;
}

KIN_TEST(k220_one_at_a_time_has_a_name, "K220 REG-COLLISION")
{
    run_on_few(in_k220_one_at_a_time_has_a_name, NULL);
}

/* ---- leases ---- */

/* K253: a lease that has run out: the name is free and its holder is told. */
static int in_k253_a_lease_that_runs_out_is_told_to_its_holder(void *arg)
{
    struct kin_info info;
    kin_time before = kin_now();
    (void)arg;
    EXPECT_EQ(kin_register("short", kin_self_addr(), KIN_MS(2)), 0);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(info.kind, KIN_INFO_LEASE);
    EXPECT_STR(info.u.lease.name, "short");
    EXPECT_GE(kin_now(), before + KIN_MS(2));
    expect_free("short");
    EXPECT_EQ(kin_lease_renew("short", KIN_SEC(1)), KIN_NOPROC);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_register("short", kin_self_addr(), 0), 0);
    EXPECT_EQ(kin_unregister("short"), 0);
    return 0;
}

KIN_TEST(k253_a_lease_that_runs_out_is_told_to_its_holder, "K253 REG-EXPIRE D11")
{
    run_on_few(in_k253_a_lease_that_runs_out_is_told_to_its_holder, NULL);
}

/* K253: a lease that is renewed in time is kept, also without an end from then on; a name that is
 * given back in time tells nothing. */
static int in_k253_a_lease_that_is_renewed_is_kept(void *arg)
{
    struct kin_info info;
    (void)arg;
    EXPECT_EQ(kin_register("kept", kin_self_addr(), KIN_SEC(1000)), 0);
    EXPECT_EQ(kin_register("given back", kin_self_addr(), KIN_SEC(500)), 0);
    EXPECT_EQ(kin_unregister("given back"), 0);
    EXPECT_EQ(kin_lease_renew("kept", KIN_SEC(2000)), 0);
    EXPECT_EQ(kin_lease_renew("kept", 0), 0);
    EXPECT(kin_addr_same(find("kept"), kin_self_addr()));
    EXPECT_EQ(kin_lease_renew("kept", KIN_MS(1)), 0);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(info.kind, KIN_INFO_LEASE);
    EXPECT_STR(info.u.lease.name, "kept");
    expect_free("kept");
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_register("no lease", kin_self_addr(), 0), 0);
    EXPECT_EQ(kin_lease_renew("no lease", KIN_MS(1)), 0);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_STR(info.u.lease.name, "no lease");
    return 0;
}

KIN_TEST(k253_a_lease_that_is_renewed_is_kept, "K253")
{
    run_on_few(in_k253_a_lease_that_is_renewed_is_kept, NULL);
}

static int jot_lease(struct desk *desk, const struct kin_info *info)
{
    struct kin_addr found;
    EXPECT_EQ(info->kind, KIN_INFO_LEASE);
    EXPECT_EQ(kin_whereis(info->u.lease.name, &found), KIN_NOPROC);
    jot(desk->plan.diary, "lease:%s", info->u.lease.name);
    return 0;
}

/* K253: a server is told by its callback; the lease of a holder that is over tells nobody. */
static int in_k253_a_server_is_told_of_its_lease(void *arg)
{
    struct diary diary;
    struct kin_info info;
    struct desk_plan plan = {.diary = &diary, .on_info = jot_lease};
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(kin_register("desk", desk, KIN_MS(1)), 0);
    await_words(&diary, 1);
    EXPECT_DIARY(&diary, "lease:desk");
    EXPECT_EQ(kin_register("desk", desk, KIN_MS(2)), 0);
    close_desk(desk);
    expect_free("desk");
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(4))), 0);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k253_a_server_is_told_of_its_lease, "K253 REG-EXPIRE")
{
    run_on_few(in_k253_a_server_is_told_of_its_lease, NULL);
}
