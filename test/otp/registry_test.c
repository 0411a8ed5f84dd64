/* SPDX-License-Identifier: MIT */
/*
 * Goal: a name has one holder, is found by everybody, and is free again when it must be: after an
 * unregister and at the end of its holder, before anybody can know of that end.
 * Method: small programs through the public headers, each on one and on several workers.
 */
#include "api/budgets.h"

#include "plat/plat.h"
#include "sched/sched.h"
#include "wait/timer.h"

#include <pthread.h>

/* ---- refusals ---- */

static char long_name[KIN_NAME_MAX + 2]; /* one byte too many */

static const char *longest(void)
{
    memset(long_name, 'x', sizeof long_name - 1);
    return long_name + 1;
}

static void expect_bad_names(int otherwise)
{
    const char *const bad[] = {NULL, "", long_name};
    struct kin_addr who = {7, 7};
    longest();
    for (size_t i = 0; i < 3; i++) {
        EXPECT_EQ(kin_register(bad[i], kin_self_addr(), 0), -EINVAL);
        EXPECT_EQ(kin_unregister(bad[i]), -EINVAL);
        EXPECT_EQ(kin_lease_renew(bad[i], 0), -EINVAL);
        EXPECT_EQ(kin_whereis(bad[i], &who), -EINVAL);
    }
    EXPECT_EQ(kin_register("a", kin_self_addr(), -1), -EINVAL);
    EXPECT_EQ(kin_lease_renew("a", -1), -EINVAL);
    EXPECT_EQ(kin_whereis("a", NULL), -EINVAL);
    EXPECT_EQ(kin_unregister("a"), otherwise);
    EXPECT_EQ(kin_lease_renew("a", 1), otherwise);
    EXPECT_EQ(kin_whereis("a", &who), otherwise);
    EXPECT(who.node == 7 && who.id == 7);
}

KIN_TEST(outside_a_task_there_are_no_names, "N1002")
{
    expect_bad_names(KIN_NOTASK);
    EXPECT_EQ(kin_register("a", (struct kin_addr){0, 0}, 0), KIN_NOTASK);
}

static int say_nonsense(void *arg)
{
    struct kin_addr who = {7, 7};
    (void)arg;
    expect_bad_names(KIN_NOPROC); /* before there is any name at all */
    EXPECT_EQ(kin_register(longest(), kin_self_addr(), 0), 0);
    expect_bad_names(KIN_NOPROC);
    EXPECT_EQ(kin_whereis(long_name + 1, &who), 0);
    EXPECT(kin_addr_same(who, kin_self_addr()));
    EXPECT_EQ(kin_register("a", (struct kin_addr){0, 0}, 0), KIN_NOPROC);
    EXPECT_EQ(kin_register("a", (struct kin_addr){0, UINT64_MAX}, 0), KIN_NOPROC);
    EXPECT_EQ(kin_register("a", (struct kin_addr){1, kin_self_addr().id}, 0), KIN_NOCONN);
    EXPECT_EQ(kin_whereis("a", &who), KIN_NOPROC);
    return 0;
}

KIN_TEST(nonsense_is_refused, "")
{
    run_on_few(say_nonsense, NULL);
}

/* ---- one holder ---- */

/* A task that lives until it is told, and ends with what it is told. */
struct other {
    struct kin_event begun, go;
    struct kin_task_ref ref;
    int status;
};

static int live(void *arg)
{
    struct other *other = arg;
    kin_event_set(&other->begun);
    int rc = kin_event_wait(&other->go, KIN_NEVER);
    return rc < 0 ? rc : other->status;
}

static struct kin_addr start_other(struct kin_nursery *n, struct other *other)
{
    memset(other, 0, sizeof *other);
    EXPECT_EQ(kin_spawn_with(n, NULL, live, other, 0, &other->ref), 0);
    return kin_task_addr(other->ref);
}

static bool holds(struct kin_addr who, const char *name)
{
    struct kin_addr found = {0, 0};
    int rc = kin_whereis(name, &found);
    EXPECT(rc == 0 || rc == KIN_NOPROC);
    EXPECT_EQ(rc == 0, found.id != 0);
    return rc == 0 && kin_addr_same(found, who);
}

static bool is_free(const char *name)
{
    struct kin_addr found = {7, 7};
    return kin_whereis(name, &found) == KIN_NOPROC && found.node == 7 && found.id == 7;
}

static int collide(void *arg)
{
    struct other other;
    struct kin_addr me = kin_self_addr();
    (void)arg;
    KIN_NURSERY(n);
    struct kin_addr it = start_other(&n, &other);
    EXPECT_EQ(kin_register("one", me, 0), 0);
    EXPECT_EQ(kin_register("one", it, 0), KIN_TAKEN); /* K220 */
    struct kin_addr holder = {7, 7};
    EXPECT_EQ(kin_register_or_find("one", it, 0, &holder), KIN_TAKEN);
    EXPECT(kin_addr_same(holder, me));
    EXPECT_EQ(kin_register_or_find("one", it, 0, NULL), KIN_TAKEN);
    holder = (struct kin_addr){7, 7};
    EXPECT_EQ(kin_register_or_find("other", it, 0, &holder), 0);
    EXPECT_EQ(holder.node, 7); /* unchanged */
    EXPECT_EQ(kin_unregister("other"), 0);
    EXPECT_EQ(kin_register("one", me, 0), KIN_TAKEN); /* K221 */
    EXPECT_EQ(kin_register("one", me, KIN_SEC(1)), KIN_TAKEN);
    EXPECT(holds(me, "one"));
    EXPECT(is_free("on") && is_free("one ") && is_free("One"));
    EXPECT_EQ(kin_register("two", it, 0), 0);
    EXPECT(holds(me, "one") && holds(it, "two"));
    EXPECT_EQ(kin_unregister("one"), 0);
    EXPECT(is_free("one"));
    EXPECT_EQ(kin_unregister("one"), KIN_NOPROC);
    EXPECT_EQ(kin_register("one", it, 0), 0);
    EXPECT(holds(it, "one"));
    kin_event_set(&other.go);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT(is_free("one") && is_free("two"));
    EXPECT_EQ(kin_register("one", it, 0), KIN_NOPROC); /* it is over */
    return 0;
}

/* K220 K221 */
KIN_TEST(a_name_has_one_holder, "REG-REGISTER REG-COLLISION REG-LOOKUP REG-UNREGISTER D11")
{
    run_on_few(collide, NULL);
}

/* ---- who may change what ---- */

struct trio {
    struct kin_addr starter;
    struct kin_event go;
};

static int meddle(void *arg)
{
    struct trio *trio = arg;
    EXPECT_EQ(kin_unregister("starter's"), -EPERM);
    EXPECT_EQ(kin_lease_renew("starter's", KIN_SEC(1)), -EPERM);
    EXPECT(holds(trio->starter, "starter's"));
    EXPECT_EQ(kin_register("mine", kin_self_addr(), 0), 0);
    EXPECT_EQ(kin_register("given", trio->starter, 0), 0); /* it may give to others */
    EXPECT_EQ(kin_unregister("given"), 0);                 /* and take it away again */
    EXPECT_EQ(kin_register("left", trio->starter, 0), 0);
    kin_event_set(&trio->go);
    return kin_sleep(KIN_NEVER);
}

static int own(void *arg)
{
    struct trio trio = {.starter = kin_self_addr()};
    struct kin_outcome out;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_register("starter's", trio.starter, 0), 0);
    EXPECT_EQ(kin_spawn(&n, meddle, &trio), 0);
    EXPECT_EQ(kin_event_wait(&trio.go, KIN_NEVER), 0);
    EXPECT_EQ(kin_unregister("mine"), -EPERM); /* K225 */
    EXPECT_EQ(kin_lease_renew("mine", 0), -EPERM); /* K226 */
    EXPECT(!is_free("mine"));
    EXPECT_EQ(kin_lease_renew("left", 0), 0); /* the holder of a name that another registered */
    EXPECT_EQ(kin_unregister("left"), 0);
    kin_nursery_cancel(&n, KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, &out), KIN_CANCELLED);
    EXPECT_EQ(kin_unregister("mine"), KIN_NOPROC);
    EXPECT_EQ(kin_unregister("starter's"), 0);
    return 0;
}

/* K225 K226 */
KIN_TEST(only_the_holder_and_whoever_registered_it_change_a_name, "REG-UNREGISTER")
{
    run_on_few(own, NULL);
}

/* ---- ends ---- */

enum { NAMES = 300 };

struct text {
    char text[32];
};

static struct text make_name(int i)
{
    struct text name;
    snprintf(name.text, sizeof name.text, "name %d", i);
    return name;
}

/* Lives as long as the expression that it is in. */
#define name_of(i) (make_name(i).text)

static int hold_many(void *arg)
{
    struct other others[2];
    struct kin_addr it[2];
    int count = enough(NAMES, 6);
    (void)arg;
    KIN_NURSERY(n);
    it[0] = start_other(&n, &others[0]);
    it[1] = start_other(&n, &others[1]);
    for (int i = 0; i < count; i++)
        EXPECT_EQ(kin_register(name_of(i), it[i % 2], 0), 0);
    for (int i = 0; i < count; i++)
        EXPECT(holds(it[i % 2], name_of(i)));
    for (int i = 0; i < count; i += 3)
        EXPECT_EQ(kin_unregister(name_of(i)), 0);
    for (int i = 0; i < count; i++)
        EXPECT_EQ(is_free(name_of(i)), i % 3 == 0);
    kin_event_set(&others[0].go); /* K223 */
    EXPECT_EQ(kin_task_join(&n, others[0].ref, NULL, KIN_NEVER), 0);
    for (int i = 0; i < count; i++) /* K224: those of the other, and no more */
        EXPECT_EQ(holds(it[1], name_of(i)), i % 2 == 1 && i % 3 != 0);
    for (int i = 0; i < count; i++)
        EXPECT_EQ(is_free(name_of(i)), i % 2 == 0 || i % 3 == 0);
    EXPECT_EQ(kin_register(name_of(1), it[0], 0), KIN_NOPROC); /* its frame is kept, it is over */
    kin_event_set(&others[1].go);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < count; i++)
        EXPECT(is_free(name_of(i)));
    return 0;
}

/* K223 K224 */
KIN_TEST(a_holder_that_ends_gives_up_all_its_names_and_no_others, "SINV-3 D11")
{
    run_on_few(hold_many, NULL);
}

static int end_somehow(void *arg)
{
    int how = *(int *)arg;
    EXPECT_EQ(kin_register("mortal", kin_self_addr(), 0), 0);
    if (how == 1)
        kin_fail(-EIO, "on purpose");
    if (how == 2)
        kin_panic("on purpose");
    if (how == 3)
        return kin_sleep(KIN_NEVER);
    return how == 4 ? -ENOENT : 0;
}

static int see_ends(void *arg)
{
    static int ways[] = {0, 1, 2, 3, 4};
    struct kin_nursery_options collect = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;
    collect.on_error = KIN_COLLECT;
    for (int way = 0; way < 5; way++) {
        struct kin_nursery n;
        EXPECT_EQ(kin_nursery_open(&n, &collect), 0);
        EXPECT_EQ(kin_spawn(&n, end_somehow, &ways[way]), 0);
        while (way == 3 && is_free("mortal"))
            EXPECT_EQ(kin_yield(), 0);
        if (way == 3)
            kin_nursery_cancel(&n, KIN_CANCELLED);
        kin_ignore(kin_nursery_join(&n, NULL));
        EXPECT(is_free("mortal"));
    }
    return 0;
}

KIN_TEST(however_a_holder_ends_its_name_is_free, "SINV-3 D11")
{
    run_on_few(see_ends, NULL);
}

static int never_runs(void *arg)
{
    (void)arg;
    kin_panic("it was cancelled before it could run");
}

static int name_the_unborn(void *arg)
{
    struct kin_task_ref ref;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, never_runs, NULL, 0, &ref), 0);
    EXPECT_EQ(kin_register("unborn", kin_task_addr(ref), KIN_SEC(100)), 0);
    EXPECT(holds(kin_task_addr(ref), "unborn"));
    kin_nursery_cancel(&n, KIN_CANCELLED);
    kin_ignore(kin_nursery_join(&n, NULL));
    EXPECT(is_free("unborn"));
    return 0;
}

KIN_TEST(a_task_that_never_runs_holds_a_name_and_gives_it_up, "SINV-3")
{
    /* one worker: the spawned task waits for its turn */
    EXPECT_EQ(run_reporting(1, name_the_unborn, NULL, NULL), 0);
}

/* Whoever is told of the end of a holder takes its name at once. */
static int succeed(void *arg)
{
    struct other *other = arg;
    struct kin_monitor_ref watch;
    struct kin_info info;
    struct kin_addr it = kin_task_addr(other->ref);
    EXPECT_EQ(kin_monitor(it, &watch), 0);
    kin_event_set(&other->go);
    EXPECT_EQ(kin_wait_down(watch, &info, KIN_NEVER), 0);
    EXPECT(kin_addr_same(info.u.down.who, it));
    EXPECT(is_free("throne"));
    EXPECT_EQ(kin_register("throne", kin_self_addr(), 0), 0);
    return 0;
}

static int pass_on(void *arg)
{
    int rounds = enough(200, 2);
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        struct other other;
        KIN_NURSERY(n);
        struct kin_addr it = start_other(&n, &other);
        EXPECT_EQ(kin_register("throne", it, 0), 0);
        EXPECT_EQ(kin_spawn(&n, succeed, &other), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT(is_free("throne"));
    }
    return 0;
}

KIN_TEST(a_name_is_free_before_the_end_of_its_holder_is_told, "D11")
{
    run_on_few(pass_on, NULL);
}

/* ---- nurseries ---- */

static int ask_for_a_name(void *arg)
{
    struct other *other = arg;
    kin_event_set(&other->begun);
    EXPECT_EQ(kin_event_wait(&other->go, KIN_NEVER), 0);
    EXPECT_EQ(kin_register("member", kin_self_addr(), 0), 0);
    return 0;
}

static int join_one(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, ask_for_a_name, arg), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT(is_free("member"));
    return 0;
}

static int name_while_joined(void *arg)
{
    struct other other = {.status = 0};
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, join_one, &other), 0);
    EXPECT_EQ(kin_event_wait(&other.begun, KIN_NEVER), 0);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_yield(), 0); /* most likely the owner is in its join by now */
    kin_event_set(&other.go);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_member_of_a_nursery_that_is_joined_may_have_a_name, "REG-REGISTER")
{
    run_on_few(name_while_joined, NULL);
}

/* Lives on though its nursery was cancelled. */
static int outlive(void *arg)
{
    struct other *other = arg;
    kin_mask();
    kin_event_set(&other->begun);
    EXPECT_EQ(kin_event_wait(&other->go, KIN_NEVER), 0);
    EXPECT_EQ(kin_register("its own", kin_self_addr(), 0), KIN_NOSCOPE);
    EXPECT_EQ(kin_unregister("before"), 0); /* what it has it may still give up */
    EXPECT_EQ(kin_register("another's", (struct kin_addr){0, (uint64_t)other->status}, 0),
              KIN_NOPROC);
    kin_unmask();
    return 0;
}

static int name_in_ended(void *arg)
{
    struct other other = {.status = 0};
    bool cancels = *(bool *)arg;
    struct kin_nursery n;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, outlive, &other, 0, &other.ref), 0);
    EXPECT_EQ(kin_event_wait(&other.begun, KIN_NEVER), 0);
    struct kin_addr it = kin_task_addr(other.ref);
    EXPECT_EQ(kin_register("before", it, 0), 0);
    kin_mask();
    if (cancels)
        kin_nursery_cancel(&n, KIN_CANCELLED);
    else
        kin_nursery_close(&n);
    EXPECT_EQ(kin_register("after", it, 0), KIN_NOSCOPE);
    EXPECT(is_free("after"));
    EXPECT(holds(it, "before")); /* what it has it keeps */
    EXPECT_EQ(kin_lease_renew("before", KIN_SEC(100)), 0);
    EXPECT_EQ(kin_register("mine", kin_self_addr(), 0), 0); /* the holder's nursery counts */
    EXPECT_EQ(kin_unregister("mine"), 0);
    kin_event_set(&other.go);
    EXPECT_EQ(kin_nursery_join(&n, NULL), cancels ? KIN_CANCELLED : 0);
    kin_unmask();
    EXPECT(is_free("before"));
    return 0;
}

KIN_TEST(in_a_nursery_that_is_closed_or_cancelled_nobody_gets_a_name, "REG-REGISTER N1001")
{
    bool no = false, yes = true;
    run_on_few(name_in_ended, &no);
    run_on_few(name_in_ended, &yes);
}

/* ---- capabilities and budgets ---- */

static int without_capability(void *arg)
{
    bool can = kin_caps() & KIN_CAP_REGISTRY;
    struct kin_addr starter = *(struct kin_addr *)arg;
    EXPECT_EQ(kin_register("gated", kin_self_addr(), 0), can ? 0 : KIN_NOCAP);
    EXPECT_EQ(kin_lease_renew("gated", 0), can ? 0 : KIN_NOCAP);
    EXPECT_EQ(kin_unregister("gated"), can ? 0 : KIN_NOCAP);
    EXPECT(is_free("gated"));
    EXPECT(holds(starter, "open")); /* anybody may look */
    return 0;
}

static int check_gates(void *arg)
{
    struct kin_addr me = kin_self_addr();
    (void)arg;
    EXPECT_EQ(kin_register("open", me, 0), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(spawn_able(&n, KIN_CAP_NONE, without_capability, &me), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    KIN_NURSERY(m);
    EXPECT_EQ(spawn_able(&m, KIN_CAP_REGISTRY, without_capability, &me), 0);
    EXPECT_EQ(kin_nursery_join(&m, NULL), 0);
    return 0;
}

KIN_TEST(whoever_changes_a_name_needs_a_capability, "SCHED:15.1.2")
{
    run_on_few(check_gates, NULL);
}

static int spend_all(void *arg)
{
    struct kin_addr found;
    int rc, spent = 0;
    (void)arg;
    EXPECT_EQ(kin_register("costly", kin_self_addr(), 0), 0);
    while ((rc = kin_whereis("costly", &found)) == 0)
        spent++;
    EXPECT_EQ(rc, KIN_BUDGET);
    EXPECT_EQ(spent, 9); /* one each: the tenth was for the name */
    EXPECT_EQ(kin_register("another", kin_self_addr(), 0), KIN_BUDGET);
    EXPECT_EQ(kin_lease_renew("costly", 0), KIN_BUDGET);
    EXPECT_EQ(kin_unregister("costly"), 0); /* letting go is not refused */
    EXPECT_EQ(kin_unregister("costly"), KIN_NOPROC);
    return 0;
}

static int check_budget(void *arg)
{
    (void)arg;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.budget = (struct kin_budget){10, 100000, 10, 10, 10};
    options.caps = KIN_CAP_ALL;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, &options, spend_all, NULL, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(each_call_costs_an_operation_and_letting_go_is_never_refused, "SCHED:3.3.1")
{
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, check_budget, NULL), 0);
}

static int let_go_when_cancelled(void *arg)
{
    struct other *other = arg;
    int count = enough(2000, 20);
    for (int i = 0; i < count; i++)
        EXPECT_EQ(kin_register(name_of(i), kin_self_addr(), 0), 0);
    kin_event_set(&other->begun);
    while (!kin_cancelled())
        kin_ignore(kin_yield());
    for (int i = 0; i < count; i++) /* more than one turn has */
        EXPECT_EQ(kin_unregister(name_of(i)), 0);
    return KIN_CANCELLED;
}

static int cancel_a_holder(void *arg)
{
    struct other other = {.status = 0};
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, let_go_when_cancelled, &other), 0);
    EXPECT_EQ(kin_event_wait(&other.begun, KIN_NEVER), 0);
    kin_nursery_cancel(&n, KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_cancelled_task_lets_go_of_all_it_has, "REG-UNREGISTER")
{
    run_on_few(cancel_a_holder, NULL);
}

/* ---- many ---- */

static int hold_very_many(void *arg)
{
    int count = enough(20000, 60);
    struct kin_addr me = kin_self_addr();
    (void)arg;
    for (int i = 0; i < count; i++) {
        EXPECT_EQ(kin_register(name_of(i), me, 0), 0);
        EXPECT(holds(me, name_of(i / 2)));
    }
    for (int i = 0; i < count; i++) {
        EXPECT(holds(me, name_of(i)));
        EXPECT_EQ(kin_register(name_of(i), me, 0), KIN_TAKEN);
    }
    EXPECT(is_free(name_of(count)) && is_free(name_of(-1)));
    for (int i = 1; i < count; i += 2)
        EXPECT_EQ(kin_unregister(name_of(i)), 0);
    for (int i = 0; i < count; i++)
        EXPECT_EQ(is_free(name_of(i)), i % 2 == 1);
    return 0; /* the others go with it */
}

KIN_TEST(any_number_of_names_is_found, "REG-LOOKUP")
{
    EXPECT_EQ(run_reporting(1, hold_very_many, NULL, NULL), 0);
}

struct portion {
    int from, count;
};

static int hold_a_portion(void *arg)
{
    const struct portion *portion = arg;
    for (int i = 0; i < portion->count; i++)
        EXPECT_EQ(kin_register(name_of(portion->from + i), kin_self_addr(), 0), 0);
    for (int i = 0; i < portion->count; i++) {
        EXPECT(holds(kin_self_addr(), name_of(portion->from + i)));
        if (i % 2)
            EXPECT_EQ(kin_unregister(name_of(portion->from + i)), 0);
    }
    return 0;
}

static int hold_together(void *arg)
{
    int count = enough(3000, 3);
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 4; i++) {
        struct portion portion = {i * count, count};
        EXPECT_EQ(kin_spawn_copy(&n, hold_a_portion, &portion, sizeof portion), 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 4 * count; i++)
        EXPECT(is_free(name_of(i)));
    return 0;
}

KIN_TEST(several_fill_the_registry_at_once, "REG-REGISTER REG-LOOKUP")
{
    run_on_few(hold_together, NULL);
}

/* ---- runtimes ---- */

struct neighbour {
    pthread_t thread;
    struct kin_event ready, done;
    struct kin_addr addr;
    int workers;
};

static int be_neighbour(void *arg)
{
    struct neighbour *neighbour = arg;
    neighbour->addr = kin_self_addr();
    EXPECT(is_free("here"));
    EXPECT_EQ(kin_register("there", kin_self_addr(), 0), 0);
    kin_event_set(&neighbour->ready);
    EXPECT_EQ(kin_event_wait(&neighbour->done, KIN_NEVER), 0);
    EXPECT(is_free("here") && holds(kin_self_addr(), "there"));
    return 0;
}

static void *run_neighbour(void *arg)
{
    EXPECT_EQ(run_reporting(1, be_neighbour, arg, NULL), 0);
    return NULL;
}

static int meet_neighbour(void *arg)
{
    struct neighbour *neighbour = arg;
    EXPECT_EQ(kin_register("here", kin_self_addr(), 0), 0);
    EXPECT_EQ(pthread_create(&neighbour->thread, NULL, run_neighbour, neighbour), 0);
    EXPECT_EQ(kin_event_wait(&neighbour->ready, KIN_NEVER), 0);
    EXPECT(is_free("there"));
    EXPECT_EQ(kin_register("foreign", neighbour->addr, 0), KIN_NOPROC);
    EXPECT_EQ(kin_register("there", kin_self_addr(), 0), 0);
    kin_event_set(&neighbour->done);
    EXPECT_EQ(pthread_join(neighbour->thread, NULL), 0);
    return 0;
}

KIN_TEST(names_belong_to_a_runtime, "")
{
    struct neighbour neighbour = {.workers = 1};
    EXPECT_EQ(run_reporting(2, meet_neighbour, &neighbour, NULL), 0);
}

static int find_nothing(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        EXPECT(is_free(name_of(i)));
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_register(name_of(i), kin_self_addr(), 0), 0);
    return 0;
}

KIN_TEST(a_runtime_leaves_no_names_behind, "SINV-3")
{
    for (int i = 0; i < 3; i++)
        run_on_few(find_nothing, NULL);
}

/* ---- no memory ---- */

static int run_out_of_memory(void *arg)
{
    uint64_t n = 0, requests;
    int rc;
    (void)arg;
    do {
        kin__plat_fail_after(++n, false);
        rc = kin_register("poor", kin_self_addr(), KIN_SEC(100));
        requests = kin__plat_requests();
        kin__plat_fail_after(0, false);
        EXPECT(rc == 0 || rc == -ENOMEM);
        EXPECT_EQ(is_free("poor"), rc < 0);
        EXPECT_EQ(rc < 0, requests >= n);
    } while (rc < 0);
    EXPECT_GT(n, 3); /* a registry, a lease, a name */
    EXPECT_EQ(kin_unregister("poor"), 0);
    /* Tables that cannot grow are slower and not wrong. */
    for (int i = 0; i < 3000; i++) {
        kin__plat_fail_after(2, true); /* the name may have its memory, the table not */
        rc = kin_register(name_of(i), kin_self_addr(), 0);
        kin__plat_fail_after(0, false);
        EXPECT(rc == 0 || rc == -ENOMEM);
        if (rc < 0)
            EXPECT_EQ(kin_register(name_of(i), kin_self_addr(), 0), 0);
    }
    for (int i = 0; i < 3000; i++)
        EXPECT(holds(kin_self_addr(), name_of(i)));
    return 0;
}

KIN_TEST(without_memory_there_is_no_name_and_nothing_is_lost, "")
{
    EXPECT_EQ(run_reporting(1, run_out_of_memory, NULL, NULL), 0);
}

/* ---- a renewal overtakes the timer ---- */

/* A timer that has left the wheel comes when the lease has been renewed: the test lets the timers
 * of its worker fire at a time that is yet to come, which the lease has not reached. */
static int fire_too_early(void *arg)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin_info info;
    (void)arg;
    EXPECT_EQ(kin_register("kept", kin_self_addr(), KIN_SEC(3600)), 0);
    EXPECT_EQ(kin_lease_renew("kept", KIN_SEC(7200)), 0);
    EXPECT_EQ(kin__timer_count(worker), 1);
    (void)worker->sched->source->poll(worker, kin_now() + 2 * KIN_SEC(7200));
    EXPECT_EQ(kin__timer_count(worker), 0); /* it came */
    EXPECT(holds(kin_self_addr(), "kept"));
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT); /* and nobody was told */
    EXPECT_EQ(kin_lease_renew("kept", KIN_SEC(60)), 0);
    EXPECT_EQ(kin_unregister("kept"), 0);
    return 0;
}

KIN_TEST(a_timer_that_a_renewal_has_overtaken_leaves_the_lease_alone, "REG-EXPIRE")
{
    EXPECT_EQ(run_reporting(1, fire_too_early, NULL, NULL), 0);
}
