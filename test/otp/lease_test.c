/* SPDX-License-Identifier: MIT */
/*
 * Goal: a name with a time is lost at its deadline, neither before nor after, and its holder is
 * told once; whoever renews it keeps it.
 * Method: small programs through the public headers. On workers the clock is read on both sides of
 * a call, and only what must hold whatever it said is expected; in the lab, where time stands still
 * between two steps, the very tick is.
 */
#include "api/in_runtime.h"

static bool is_free(const char *name)
{
    struct kin_addr found = {7, 7};
    int rc = kin_whereis(name, &found);
    EXPECT(rc == 0 || (rc == KIN_NOPROC && found.node == 7 && found.id == 7));
    return rc == KIN_NOPROC;
}

/* Waits to be told that this name was lost. When that was. */
static kin_time expect_lost(const char *name)
{
    struct kin_info info = {.vt = 0};
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(info.kind, KIN_INFO_LEASE);
    EXPECT_STR(info.u.lease.name, name);
    return (kin_time)info.vt;
}

static void expect_no_more(void)
{
    struct kin_info info;
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
}

/* ---- running out ---- */

static int lose_one(void *arg)
{
    (void)arg;
    for (int i = 0; i < enough(20, 2); i++) {
        kin_time before = kin_now();
        EXPECT_EQ(kin_register("mine", kin_self_addr(), KIN_US(200)), 0);
        kin_time after = kin_now();
        kin_time lost = expect_lost("mine");
        EXPECT_GE(kin_now(), lost); /* never early */
        EXPECT(lost >= before + KIN_US(200) && lost <= after + KIN_US(200));
        EXPECT(is_free("mine"));
        EXPECT_EQ(kin_unregister("mine"), KIN_NOPROC);
        EXPECT_EQ(kin_lease_renew("mine", 0), KIN_NOPROC);
        expect_no_more();
    }
    return 0;
}

KIN_TEST(a_lease_runs_out_and_its_holder_is_told_once, "REG-EXPIRE")
{
    run_on_few(lose_one, NULL);
}

/* A task that renews nothing: looks at its name until it is gone. */
static int watch_the_clock(void *arg)
{
    struct kin_addr found;
    (void)arg;
    for (int i = 0; i < enough(10, 1); i++) {
        kin_time earliest = kin_now() + KIN_US(500);
        EXPECT_EQ(kin_register("mine", kin_self_addr(), KIN_US(500)), 0);
        kin_time latest = kin_now() + KIN_US(500);
        for (;;) {
            kin_time before = kin_now();
            int rc = kin_whereis("mine", &found);
            EXPECT(rc == 0 || rc == KIN_NOPROC);
            if (rc == 0)
                EXPECT_LT(before, latest); /* at its deadline nobody finds it any more */
            else
                EXPECT_GE(kin_now(), earliest); /* and before everybody does */
            if (rc < 0)
                break;
            EXPECT_EQ(kin_in_lab() ? kin_sleep(kin_after(KIN_US(50))) : kin_yield(), 0);
        }
        expect_lost("mine");
    }
    return 0;
}

KIN_TEST(a_lease_is_over_at_its_deadline_for_everybody_who_looks, "REG-EXPIRE")
{
    run_on_few(watch_the_clock, NULL);
}

/* The holder runs on whoever takes the place of the blocked one, when it is told. */
static int tell_the_blocked(void *arg)
{
    int *ends = arg;
    expect_lost("mine");
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    return 0;
}

static int block_until_it_is_lost(void *arg)
{
    struct kin_task_ref holder;
    int ends[2];
    char byte;
    (void)arg;
    if (kin_in_lab()) /* where nobody is stuck */
        return 0;
    EXPECT_EQ(pipe(ends), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, tell_the_blocked, ends, 0, &holder), 0);
    EXPECT_EQ(kin_register("mine", kin_task_addr(holder), KIN_US(200)), 0);
    EXPECT_EQ(read(ends[0], &byte, 1), 1); /* in the kernel: only the monitor sees the deadline */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT(is_free("mine"));
    EXPECT_EQ(close(ends[0]), 0);
    return close(ends[1]);
}

KIN_TEST(a_lease_runs_out_while_the_only_worker_is_blocked, "REG-EXPIRE C7")
{
    struct kin_config config = KIN_CONFIG_INIT;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    config.workers = 1;
    config.workers_max = 2;
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_run(&config, block_until_it_is_lost, NULL), 0);
}

/* K253, to the tick where that can be had. */
static int at_the_tick(void *arg)
{
    (void)arg;
    if (!kin_in_lab())
        return 0;
    kin_time deadline = kin_after(KIN_MS(1));
    EXPECT_EQ(kin_register("kept", kin_self_addr(), KIN_MS(1)), 0);
    EXPECT_EQ(kin_register("lost", kin_self_addr(), KIN_MS(1)), 0);
    EXPECT_EQ(kin_sleep(deadline - 1), 0);
    EXPECT_EQ(kin_now(), deadline - 1);
    EXPECT(!is_free("kept") && !is_free("lost"));
    EXPECT_EQ(kin_lease_renew("kept", KIN_MS(1)), 0); /* one tick before */
    EXPECT_EQ(kin_sleep(deadline), 0);
    EXPECT_EQ(kin_now(), deadline);
    EXPECT(is_free("lost"));
    EXPECT(!is_free("kept"));
    EXPECT_EQ(expect_lost("lost"), deadline);
    EXPECT_EQ(kin_lease_renew("lost", KIN_MS(1)), KIN_NOPROC);
    expect_no_more();
    EXPECT_EQ(expect_lost("kept"), deadline - 1 + KIN_MS(1));
    return 0;
}

/* K253 */
KIN_TEST(at_exactly_its_deadline_a_lease_is_over, "REG-EXPIRE")
{
    run_on_few(at_the_tick, NULL);
}

static int give_back(void *arg)
{
    (void)arg;
    for (int i = 0; i < enough(20, 2); i++) {
        EXPECT_EQ(kin_register("given back", kin_self_addr(), KIN_US(100)), 0);
        int rc = kin_unregister("given back");
        EXPECT(rc == 0 || rc == KIN_NOPROC);
        if (rc < 0)
            expect_lost("given back"); /* the clock was faster */
        EXPECT_EQ(kin_register("after it", kin_self_addr(), KIN_US(300)), 0);
        expect_lost("after it"); /* nothing of the other comes */
        expect_no_more();
    }
    return 0;
}

KIN_TEST(a_name_that_is_given_up_runs_out_no_more, "REG-UNREGISTER REG-EXPIRE")
{
    run_on_few(give_back, NULL);
}

/* ---- renewing ---- */

static int renew(void *arg)
{
    struct kin_addr me = kin_self_addr();
    (void)arg;
    /* longer: still there when the first time is over */
    EXPECT_EQ(kin_register("longer", me, KIN_SEC(100)), 0);
    EXPECT_EQ(kin_lease_renew("longer", KIN_SEC(200)), 0);
    /* for good */
    EXPECT_EQ(kin_register("for good", me, KIN_MS(50)), 0);
    int rc = kin_lease_renew("for good", 0);
    EXPECT(rc == 0 || rc == KIN_NOPROC); /* the machine may be that slow */
    if (rc < 0)
        expect_lost("for good");
    /* shorter, and one that had no end */
    EXPECT_EQ(kin_lease_renew("longer", KIN_US(100)), 0);
    expect_lost("longer");
    EXPECT_EQ(kin_register("without", me, 0), 0);
    EXPECT_EQ(kin_lease_renew("without", KIN_US(100)), 0);
    expect_lost("without");
    EXPECT_EQ(is_free("for good"), rc < 0);
    kin_time later = kin_after(KIN_MS(60));
    EXPECT_EQ(kin_sleep(later), 0);
    EXPECT_EQ(is_free("for good"), rc < 0);
    expect_no_more();
    return 0;
}

KIN_TEST(renewing_sets_the_time_anew, "REG-EXPIRE")
{
    run_on_few(renew, NULL);
}

/* Times that never come. */
static int live_for_ever(void *arg)
{
    struct kin_addr me = kin_self_addr();
    (void)arg;
    EXPECT_EQ(kin_register("1", me, KIN_NEVER), 0);
    EXPECT_EQ(kin_register("2", me, KIN_NEVER - 1), 0);
    EXPECT_EQ(kin_register("3", me, KIN_US(100)), 0);
    int rc = kin_lease_renew("3", KIN_NEVER);
    EXPECT(rc == 0 || rc == KIN_NOPROC);
    if (rc < 0)
        expect_lost("3");
    EXPECT_EQ(kin_register("4", me, 1), 0); /* and one that comes at once */
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(300))), 0);
    EXPECT(!is_free("1") && !is_free("2") && is_free("3") == (rc < 0) && is_free("4"));
    expect_lost("4");
    expect_no_more();
    return 0;
}

KIN_TEST(a_time_that_never_comes_is_none, "REG-EXPIRE")
{
    run_on_few(live_for_ever, NULL);
}

struct pair {
    struct kin_event begun, go;
    struct kin_addr holder;
};

static int be_held_up(void *arg)
{
    struct pair *pair = arg;
    pair->holder = kin_self_addr();
    kin_event_set(&pair->begun);
    EXPECT_EQ(kin_event_wait(&pair->go, KIN_NEVER), 0);
    expect_lost("of another");
    expect_no_more();
    return 0;
}

static int renew_for_another(void *arg)
{
    struct pair pair = {.holder = {0, 0}};
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, be_held_up, &pair), 0);
    EXPECT_EQ(kin_event_wait(&pair.begun, KIN_NEVER), 0);
    EXPECT_EQ(kin_register("of another", pair.holder, KIN_SEC(100)), 0);
    EXPECT_EQ(kin_lease_renew("of another", KIN_SEC(50)), 0);
    EXPECT_EQ(kin_lease_renew("of another", KIN_US(50)), 0);
    kin_event_set(&pair.go);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    expect_no_more(); /* the holder is told, not whoever registered it */
    return 0;
}

KIN_TEST(whoever_registered_a_name_may_renew_it_and_its_holder_is_told, "REG-EXPIRE")
{
    run_on_few(renew_for_another, NULL);
}

/* ---- being told ---- */

static int told_in_order(void *arg)
{
    struct kin_info info;
    kin_time last = 0;
    char name[KIN_NAME_MAX + 1] = "";
    static const char *const names[] = {"d", "b", "c", "a"};
    (void)arg;
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin_register(names[i], kin_self_addr(), KIN_US(400 - i / 2 * 100)), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    for (int i = 0; i < 4; i++) { /* all are there: in the order of (time, name) */
        EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
        EXPECT_EQ(info.kind, KIN_INFO_LEASE);
        EXPECT((kin_time)info.vt > last ||
               ((kin_time)info.vt == last && strcmp(info.u.lease.name, name) > 0));
        last = (kin_time)info.vt;
        snprintf(name, sizeof name, "%s", info.u.lease.name);
        if (kin_in_lab()) /* two of each time, whoever was first */
            EXPECT_EQ(name[0], "acbd"[i]);
    }
    expect_no_more();
    return 0;
}

/* K256 for leases */
KIN_TEST(losses_are_told_in_the_order_of_time_and_name, "REG-EXPIRE SINV-4")
{
    EXPECT_EQ(run_reporting(1, told_in_order, NULL, NULL), 0);
}

static int read_names(void *arg)
{
    struct kin_info first, second;
    static const char longest[] =
        "a name that is somewhat longer than what fits into anything but memory of its own";
    (void)arg;
    EXPECT_EQ(kin_register(longest, kin_self_addr(), KIN_US(50)), 0);
    EXPECT_EQ(kin_wait_info(&first, KIN_NEVER), 0);
    /* somebody else takes the name, and gives it up: what was told stays what it is */
    EXPECT_EQ(kin_register(longest, kin_self_addr(), 0), 0);
    EXPECT_EQ(kin_unregister(longest), 0);
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(kin_register("another", kin_self_addr(), 0), 0);
        EXPECT_EQ(kin_unregister("another"), 0);
    }
    EXPECT_STR(first.u.lease.name, longest);
    EXPECT_EQ(kin_register("second", kin_self_addr(), KIN_US(50)), 0);
    EXPECT_EQ(kin_wait_info(&second, KIN_NEVER), 0);
    EXPECT_STR(second.u.lease.name, "second");
    return 0; /* with the name of the last one still kept */
}

KIN_TEST(the_name_that_is_told_stays_readable, "SINV-6")
{
    run_on_few(read_names, NULL);
}

/* ---- heirs ---- */

struct heirs {
    struct kin_event is_taken;
    struct kin_addr holder;
    _Atomic int rounds;
};

/* Takes the name as soon as it is free. By then its holder has been told. */
static int take_over(void *arg)
{
    struct heirs *heirs = arg;
    int rc;
    while ((rc = kin_register("coveted", kin_self_addr(), 0)) == KIN_TAKEN)
        EXPECT_EQ(kin_in_lab() ? kin_sleep(kin_after(KIN_US(20))) : kin_yield(), 0);
    EXPECT_EQ(rc, 0);
    kin_event_set(&heirs->is_taken);
    return 0;
}

static int lose_to_another(void *arg)
{
    struct kin_info info;
    (void)arg;
    for (int i = 0; i < enough(50, 1); i++) {
        struct heirs heirs = {.holder = kin_self_addr()};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_register("coveted", heirs.holder, KIN_US(100)), 0);
        EXPECT_EQ(kin_spawn(&n, take_over, &heirs), 0);
        EXPECT_EQ(kin_event_wait(&heirs.is_taken, KIN_NEVER), 0);
        EXPECT_EQ(kin_wait_info(&info, 0), 0); /* it is here, not on its way */
        EXPECT_STR(info.u.lease.name, "coveted");
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        expect_no_more();
        EXPECT(is_free("coveted"));
    }
    return 0;
}

KIN_TEST(a_holder_is_told_before_another_has_the_name, "REG-EXPIRE D11")
{
    run_on_few(lose_to_another, NULL);
}

/* Ends with leases that run, that have run out and were not read, and that run out just now. */
static int end_with_leases(void *arg)
{
    int round = *(int *)arg;
    EXPECT_EQ(kin_register("runs", kin_self_addr(), KIN_SEC(100)), 0);
    EXPECT_EQ(kin_register("ran out", kin_self_addr(), KIN_US(1)), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(80))), 0);
    EXPECT_EQ(kin_register("runs out", kin_self_addr(), KIN_US(round)), 0);
    while (round % 2 && !is_free("runs out"))
        EXPECT_EQ(kin_in_lab() ? kin_sleep(kin_after(1)) : kin_yield(), 0);
    return 0;
}

static int outlive(void *arg)
{
    (void)arg;
    for (int round = 1; round < enough(60, 3); round++) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, end_with_leases, &round), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT(is_free("runs") && is_free("ran out") && is_free("runs out"));
    }
    expect_no_more();
    return 0;
}

KIN_TEST(a_holder_that_ends_leaves_no_lease_behind, "SINV-3 REG-EXPIRE")
{
    run_on_few(outlive, NULL);
}

/* The name is in the hands of nobody else while it is renewed in time. */
static int keep_alive(void *arg)
{
    _Atomic int *rounds = arg;
    EXPECT_EQ(kin_register("busy", kin_self_addr(), KIN_SEC(100)), 0);
    for (int i = 0; i < enough(2000, 5); i++) {
        EXPECT_EQ(kin_lease_renew("busy", KIN_SEC(50 + i % 2 * 50)), 0);
        EXPECT(!is_free("busy"));
    }
    atomic_store(rounds, 1);
    return 0;
}

static int covet(void *arg)
{
    _Atomic int *is_over = arg;
    while (!atomic_load(is_over)) {
        int rc = kin_register("busy", kin_self_addr(), 0);
        EXPECT(rc == KIN_TAKEN || rc == 0);
        if (rc == 0) { /* before it began, or after it ended */
            EXPECT_EQ(kin_unregister("busy"), 0);
            return 0;
        }
        EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

static int renew_and_covet(void *arg)
{
    _Atomic int is_over = 0, *pointer = &is_over;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, keep_alive, pointer), 0);
    while (is_free("busy") && !atomic_load(&is_over))
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_spawn(&n, covet, pointer), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(nobody_gets_a_name_that_is_renewed_in_time, "REG-COLLISION REG-EXPIRE")
{
    run_on_few(renew_and_covet, NULL);
}
