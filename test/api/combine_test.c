/* SPDX-License-Identifier: MIT */
/*
 * Goal: each combinator decides as its page says, whatever the order of ends, and leaves none of
 * its branches running.
 * Method: scripts that fix the order of ends, cancellations from every side, then random programs
 * whose results are checked against the outcomes; on 1, 2 and 4 workers.
 */
#include "api/in_runtime.h"

#include "scope/scope.h" /* to wait for the end of a sibling, which no nursery's child can */

#include <kin/combine.h>

enum { OK = 7, ERROR = -EIO, OTHER = -EPIPE, BRANCHES_MAX = 8 };

enum kind { RACE, ANY, ALL, QUORUM2, QUORUM3, HEDGE };

static int call(enum kind kind, struct kin_branch *b, size_t count, size_t *winner)
{
    switch (kind) {
    case RACE:
        return kin_race(b, count, winner);
    case ANY:
        return kin_any(b, count, winner);
    case ALL:
        return kin_all(b, count);
    case QUORUM2:
        return kin_quorum(b, count, 2);
    case QUORUM3:
        return kin_quorum(b, count, 3);
    default:
        return kin_hedge(b, count, 0, winner);
    }
}

/* ---- misuse ---- */

static int fine(void *arg)
{
    (void)arg;
    return OK;
}

static int call_wrongly(void *arg)
{
    struct kin_branch b[2] = {{fine, NULL, {KIN_SEV_PANIC, 1, 2, 3, ""}}, {NULL, NULL, {0}}};
    size_t winner = 99;

    (void)arg;
    for (int kind = RACE; kind <= HEDGE; kind++) {
        EXPECT_EQ(call((enum kind)kind, NULL, 3, &winner), -EINVAL);
        EXPECT_EQ(call((enum kind)kind, b, 0, &winner), -EINVAL);
        EXPECT_EQ(call((enum kind)kind, b, 2, &winner), -EINVAL); /* the second has no function */
    }
    EXPECT_EQ(kin_timeout(NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_timeout(&b[1], KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_quorum(b, 1, 0), -EINVAL);
    EXPECT_EQ(kin_quorum(b, 1, 2), -EINVAL);
    EXPECT_EQ(winner, 99);
    EXPECT_EQ(b[0].out.severity, KIN_SEV_PANIC); /* untouched */
    EXPECT_EQ(b[0].out.task, 3);
    return 0;
}

KIN_TEST(nonsense_is_answered, "")
{
    run_on_few(call_wrongly, NULL);
}

KIN_TEST(outside_a_task_there_is_no_combinator, "N1002")
{
    struct kin_branch b = {fine, NULL, {KIN_SEV_OK, 0, 0, 0, ""}};
    size_t winner = 99;

    EXPECT_EQ(kin_race(&b, 1, &winner), KIN_NOTASK);
    EXPECT_EQ(kin_any(&b, 1, &winner), KIN_NOTASK);
    EXPECT_EQ(kin_all(&b, 1), KIN_NOTASK);
    EXPECT_EQ(kin_quorum(&b, 1, 1), KIN_NOTASK);
    EXPECT_EQ(kin_timeout(&b, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_hedge(&b, 1, KIN_MS(1), &winner), KIN_NOTASK);
    EXPECT_EQ(winner, 99);
}

/* ---- scripts ---- */

struct stage {
    _Atomic int started, running;
    int count;                                /* actors in all */
    struct kin_task_ref by_turn[BRANCHES_MAX]; /* whose turn it is, in this order */
};

struct actor {
    struct stage *stage;
    char when; /* its turn: a digit; '-': it does not end by itself */
    char how;  /* s success, e error, o another error, c KIN_CANCELLED, f kin_fail, p panic;
                * z sleeps; l, L, P: waits until it is cancelled, then succeeds, fails, panics */
};

static int leave(const struct actor *actor, int rc)
{
    atomic_fetch_sub(&actor->stage->running, 1);
    return rc;
}

/* Waits until everybody has begun and the one before is over. */
static int await_turn(const struct actor *actor)
{
    struct stage *stage = actor->stage;

    while (atomic_load(&stage->started) < stage->count) {
        int rc = kin_yield();
        if (rc < 0)
            return rc;
    }
    if (actor->when != '0') {
        struct kin__ender before = {.task = stage->by_turn[actor->when - '1'].id};
        int rc = kin__wait_until(&kin__task_waitable, &before, NULL, KIN_NEVER, 0);
        if (rc < 0)
            return rc;
    }
    return kin_cancelled() ? KIN_CANCELLED : 0; /* that may have decided everything */
}

static int end_in_its_way(const struct actor *actor)
{
    switch (actor->how) {
    case 'e':
    case 'L':
        return leave(actor, ERROR);
    case 'o':
        return leave(actor, OTHER);
    case 'c':
        return leave(actor, KIN_CANCELLED);
    case 'f':
        leave(actor, 0);
        kin_fail(ERROR, "as the script says");
    case 'p':
    case 'P':
        leave(actor, 0);
        kin_panic("as the script says");
    default:
        return leave(actor, OK);
    }
}

static int act(void *arg)
{
    const struct actor *actor = arg;
    int rc = 0;

    if (actor->when != '-')
        actor->stage->by_turn[actor->when - '0'] = kin_self();
    atomic_fetch_add(&actor->stage->running, 1);
    atomic_fetch_add(&actor->stage->started, 1);
    if (actor->when != '-')
        rc = await_turn(actor);
    else if (actor->how == 'z')
        rc = kin_sleep(KIN_NEVER);
    else
        EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    return rc < 0 ? leave(actor, rc) : end_in_its_way(actor);
}

struct script {
    enum kind kind;
    const char *how, *when;
    int rc;
    int winner; /* -1: untouched */
    const char *outs; /* how each ends: o well, e error, c cancelled, p panic */
};

static void check_outcome(const struct kin_outcome *out, char how)
{
    static const char letters[] = "oecp"; /* by enum kin_severity */

    EXPECT_EQ(letters[out->severity], how);
    EXPECT_EQ(out->value, how == 'o' ? OK : 0);
    EXPECT_EQ(out->status < 0, how != 'o');
    EXPECT_NE(out->task, 0); /* all have begun */
}

static int play(void *arg)
{
    const struct script *script = arg;
    size_t count = strlen(script->how), winner = 99;
    struct stage stage = {.count = (int)count};
    struct actor actors[BRANCHES_MAX];
    struct kin_branch b[BRANCHES_MAX];

    for (size_t i = 0; i < count; i++) {
        actors[i] = (struct actor){&stage, script->when[i], script->how[i]};
        b[i] = (struct kin_branch){act, &actors[i], {KIN_SEV_PANIC, 1, 2, 3, ""}};
    }
    EXPECT_EQ(call(script->kind, b, count, &winner), script->rc);
    EXPECT_EQ(atomic_load(&stage.running), 0); /* drained */
    EXPECT_EQ(winner, script->winner < 0 ? 99 : script->winner);
    for (size_t i = 0; i < count; i++)
        check_outcome(&b[i].out, script->outs[i]);
    EXPECT(!kin_cancelled()); /* the caller goes on */
    EXPECT_EQ(kin_cancel_reason(), 0);
    EXPECT_EQ(kin_yield(), 0);
    return 0;
}

static void play_all(struct script *scripts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf("script %zu: %s %s\n", i, scripts[i].how, scripts[i].when);
        run_on_few(play, &scripts[i]);
    }
}

KIN_TEST(a_race_is_decided_by_the_first_end, "D1 B5")
{
    static struct script scripts[] = {
        {RACE, "s", "0", 0, 0, "o"},
        {RACE, "e", "0", ERROR, 0, "e"},
        {RACE, "sz", "0-", 0, 0, "oc"},
        {RACE, "zs", "-0", 0, 1, "co"},
        {RACE, "ez", "0-", ERROR, 0, "ec"},
        {RACE, "zo", "-0", OTHER, 1, "ce"},
        {RACE, "zf", "-0", ERROR, 1, "ce"},
        {RACE, "pz", "0-", KIN_PANICKED, 0, "pc"},
        {RACE, "zc", "-0", KIN_CANCELLED, 1, "ce"},  /* returned without having been asked */
        {RACE, "se", "10", ERROR, 1, "ce"},          /* the success would have come second */
        {RACE, "szes", "2-01", ERROR, 2, "ccec"},
        {RACE, "lLPs", "---0", 0, 3, "oepo"},        /* what losers return changes nothing */
        {RACE, "lLPe", "---0", ERROR, 3, "oepe"},
    };
    play_all(scripts, sizeof scripts / sizeof scripts[0]);
}

KIN_TEST(any_is_decided_by_the_first_success, "D1 B5")
{
    static struct script scripts[] = {
        {ANY, "s", "0", 0, 0, "o"},
        {ANY, "e", "0", ERROR, -1, "e"},
        {ANY, "es", "01", 0, 1, "eo"},
        {ANY, "se", "10", 0, 0, "oe"},
        {ANY, "ezs", "0-1", 0, 2, "eco"},
        {ANY, "eo", "01", ERROR, -1, "ee"},
        {ANY, "eo", "10", OTHER, -1, "ee"},          /* the first failure in time */
        {ANY, "ep", "01", ERROR, -1, "ep"},
        {ANY, "pe", "01", KIN_PANICKED, -1, "pe"},
        {ANY, "ces", "012", 0, 2, "eeo"},
        {ANY, "lLPs", "---0", 0, 3, "oepo"},
    };
    play_all(scripts, sizeof scripts / sizeof scripts[0]);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        scripts[i].kind = HEDGE; /* without a delay it is the same */
    play_all(scripts, sizeof scripts / sizeof scripts[0]);
}

KIN_TEST(all_is_decided_by_the_first_failure, "D1 B5")
{
    static struct script scripts[] = {
        {ALL, "s", "0", 0, -1, "o"},
        {ALL, "sss", "201", 0, -1, "ooo"},
        {ALL, "sez", "01-", ERROR, -1, "oec"},
        {ALL, "zeo", "-10", OTHER, -1, "cce"},
        {ALL, "pz", "0-", KIN_PANICKED, -1, "pc"},
        {ALL, "fzz", "0--", ERROR, -1, "ecc"},
        {ALL, "cz", "0-", KIN_CANCELLED, -1, "ec"},
        {ALL, "lLPe", "---0", ERROR, -1, "oepe"},    /* not even a panic comes after the decision */
    };
    play_all(scripts, sizeof scripts / sizeof scripts[0]);
}

KIN_TEST(a_quorum_ends_when_reached_or_out_of_reach, "D1 B5")
{
    static struct script scripts[] = {
        {QUORUM2, "ss", "01", 0, -1, "oo"},
        {QUORUM2, "ssz", "01-", 0, -1, "ooc"},
        {QUORUM2, "ses", "012", 0, -1, "oeo"},
        {QUORUM2, "sse", "012", 0, -1, "ooc"},
        {QUORUM2, "oez", "01-", OTHER, -1, "eec"},
        {QUORUM2, "oez", "10-", ERROR, -1, "eec"},
        {QUORUM2, "soe", "012", OTHER, -1, "oee"},
        {QUORUM2, "se", "01", ERROR, -1, "oe"},
        {QUORUM3, "eozz", "01--", ERROR, -1, "eecc"},
        {QUORUM3, "sszs", "01-2", 0, -1, "ooco"},
        {QUORUM3, "pezzo", "01--2", KIN_PANICKED, -1, "pecce"},
        {QUORUM3, "ssslLPe", "123---0", 0, -1, "ooooepe"},
    };
    play_all(scripts, sizeof scripts / sizeof scripts[0]);
}

/* ---- which branch begins first, and branches that need not run ---- */

static int note_and_win(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    return OK;
}

static int race_ready_ones(void *arg)
{
    _Atomic int ran[4] = {0};
    struct kin_branch b[4];
    size_t winner = 99;

    (void)arg;
    for (size_t i = 0; i < 4; i++)
        b[i] = (struct kin_branch){note_and_win, &ran[i], {KIN_SEV_OK, 0, 0, 0, ""}};
    EXPECT_EQ(kin_race(b, 4, &winner), 0);
    EXPECT_LT(winner, 4);
    EXPECT_EQ(b[winner].out.severity, KIN_SEV_OK);
    for (size_t i = 0; i < 4; i++) { /* whoever did not run is cancelled, whoever did is not */
        EXPECT_EQ(b[i].out.severity, atomic_load(&ran[i]) ? KIN_SEV_OK : KIN_SEV_CANCELLED);
        EXPECT_EQ(b[i].out.status, atomic_load(&ran[i]) ? 0 : KIN_CANCELLED);
    }
    return (int)winner;
}

KIN_TEST(branches_that_need_not_run_do_not, "B6")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_GE(run_reporting(workers, race_ready_ones, NULL, NULL), 0);
    if (!getenv("KIN_HARD") && !kin_in_lab()) /* they run tasks in other orders */
        EXPECT_EQ(run_reporting(1, race_ready_ones, NULL, NULL), 0);
}

static int call_without_winner(void *arg)
{
    struct kin_branch b = {fine, NULL, {KIN_SEV_OK, 0, 0, 0, ""}};

    (void)arg;
    EXPECT_EQ(kin_race(&b, 1, NULL), 0);
    EXPECT_EQ(kin_any(&b, 1, NULL), 0);
    EXPECT_EQ(kin_hedge(&b, 1, KIN_MS(1), NULL), 0);
    EXPECT_EQ(b.out.value, OK);
    return 0;
}

KIN_TEST(the_winner_need_not_be_asked_for, "")
{
    run_on_few(call_without_winner, NULL);
}

/* ---- everything below a loser is drained too ---- */

struct family {
    _Atomic int alive, born;
};

static int live_on(void *arg)
{
    struct family *family = arg;

    atomic_fetch_add(&family->alive, 1);
    atomic_fetch_add(&family->born, 1);
    int rc = kin_sleep(KIN_NEVER);
    atomic_fetch_sub(&family->alive, 1);
    return rc;
}

static int have_children(void *arg)
{
    struct family *family = arg;
    KIN_NURSERY(n);

    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_spawn(&n, live_on, arg), 0);
    atomic_fetch_add(&family->alive, 1);
    int rc = kin_nursery_join(&n, NULL);
    EXPECT_EQ(atomic_load(&family->alive), 1);
    atomic_fetch_sub(&family->alive, 1);
    return rc;
}

static int win_over_a_family(void *arg)
{
    struct family *family = arg;

    await(&family->born, 5);
    return 0;
}

static int race_a_family(void *arg)
{
    struct family family = {0};
    struct kin_branch b[2] = {{have_children, &family, {KIN_SEV_OK, 0, 0, 0, ""}},
                              {win_over_a_family, &family, {KIN_SEV_OK, 0, 0, 0, ""}}};
    size_t winner = 99;

    (void)arg;
    EXPECT_EQ(kin_race(b, 2, &winner), 0);
    EXPECT_EQ(winner, 1);
    EXPECT_EQ(atomic_load(&family.alive), 0);
    EXPECT_EQ(b[0].out.severity, KIN_SEV_CANCELLED);
    return 0;
}

KIN_TEST(children_of_losers_are_over_too, "D1 NSM-3")
{
    run_on_few(race_a_family, NULL);
}

/* ---- a branch that is cancelled alone ---- */

static int cancel_oneself(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_task_cancel(kin_self()), 0);
    return kin_sleep(KIN_NEVER);
}

static int cancel_single_branches(void *arg)
{
    struct kin_branch b[2] = {{cancel_oneself, NULL, {KIN_SEV_OK, 0, 0, 0, ""}},
                              {sleep_for_ever, NULL, {KIN_SEV_OK, 0, 0, 0, ""}}};
    size_t winner = 99;

    (void)arg;
    EXPECT_EQ(kin_race(b, 2, &winner), KIN_CANCELLED); /* its end is an end */
    EXPECT_EQ(winner, 0);
    EXPECT_EQ(kin_all(b, 2), KIN_CANCELLED); /* and no success */
    EXPECT_EQ(kin_any(b, 1, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_timeout(b, KIN_NEVER), KIN_CANCELLED);
    b[1].fn = fine;
    EXPECT_EQ(kin_any(b, 2, &winner), 0);
    EXPECT_EQ(winner, 1);
    EXPECT(!kin_cancelled());
    return 0;
}

KIN_TEST(a_branch_cancelled_alone_has_ended_without_success, "B5")
{
    run_on_few(cancel_single_branches, NULL);
}

/* ---- timeout ---- */

static int outlive_the_deadline(void *arg)
{
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), KIN_TIMEOUT);
    return *(int *)arg;
}

static int never(void *arg)
{
    (void)arg;
    EXPECT_STR("started", "never started");
    return 0;
}

static void expect_late(int returns, enum kin_severity severity)
{
    struct kin_branch b = {outlive_the_deadline, &returns, {KIN_SEV_OK, 0, 0, 0, ""}};

    EXPECT_EQ(kin_timeout(&b, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    if (b.out.severity == KIN_SEV_CANCELLED && (severity != KIN_SEV_CANCELLED || !b.out.task))
        return; /* too late even for the first instruction, or to begin at all */
    EXPECT_EQ(b.out.severity, severity);
    EXPECT_EQ(b.out.status, returns < 0 ? returns : 0);
    EXPECT_EQ(b.out.value, returns < 0 ? 0 : returns);
    EXPECT_NE(b.out.task, 0);
}

static int time_out(void *arg)
{
    int value = 5, error = ERROR;
    struct kin_branch b = {return_it, &value, {KIN_SEV_PANIC, 1, 2, 3, ""}};

    (void)arg;
    EXPECT_EQ(kin_timeout(&b, KIN_NEVER), 0);
    EXPECT_EQ(b.out.severity, KIN_SEV_OK);
    EXPECT_EQ(b.out.value, 5);
    EXPECT_EQ(kin_timeout(&b, kin_after(KIN_SEC(3600))), 0);
    b.arg = &error;
    EXPECT_EQ(kin_timeout(&b, kin_after(KIN_SEC(3600))), ERROR);
    EXPECT_EQ(b.out.status, ERROR);
    expect_late(KIN_CANCELLED, KIN_SEV_CANCELLED);
    expect_late(9, KIN_SEV_OK);        /* kept, and late all the same */
    expect_late(ERROR, KIN_SEV_ERROR); /* as is an error */
    b.fn = never;
    for (int i = 0; i < 3; i++) {
        b.out = (struct kin_outcome){KIN_SEV_PANIC, 1, 2, 3, ""};
        EXPECT_EQ(kin_timeout(&b, i == 0 ? 0 : i == 1 ? -5 : kin_now()), KIN_TIMEOUT);
        EXPECT_EQ(b.out.severity, KIN_SEV_CANCELLED);
        EXPECT_EQ(b.out.status, KIN_CANCELLED);
        EXPECT_EQ(b.out.task, 0);
    }
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(1))), 0);
    return 0;
}

KIN_TEST(a_timeout_is_the_deadline_of_one_branch, "D1 N2001 B5")
{
    run_on_few(time_out, NULL);
}

/* ---- hedge ---- */

struct hedged {
    _Atomic int started;
    int rc; /* 1: sleeps for ever */
};

static int be_hedged(void *arg)
{
    struct hedged *hedged = arg;

    atomic_fetch_add(&hedged->started, 1);
    return hedged->rc == 1 ? kin_sleep(KIN_NEVER) : hedged->rc;
}

/* Hedges branches that return these; how many were started. */
static int hedge(const int *rcs, size_t count, int64_t delay, int rc, size_t winner_is)
{
    struct hedged hedged[BRANCHES_MAX];
    struct kin_branch b[BRANCHES_MAX];
    size_t winner = 99;
    int started = 0;

    for (size_t i = 0; i < count; i++) {
        hedged[i] = (struct hedged){0, rcs[i]};
        b[i] = (struct kin_branch){be_hedged, &hedged[i], {KIN_SEV_PANIC, 1, 2, 3, ""}};
    }
    EXPECT_EQ(kin_hedge(b, count, delay, &winner), rc);
    EXPECT_EQ(winner, winner_is);
    for (size_t i = 0; i < count; i++) {
        started += atomic_load(&hedged[i].started);
        if (b[i].out.task == 0) {
            EXPECT_EQ(atomic_load(&hedged[i].started), 0);
            EXPECT_EQ(b[i].out.severity, KIN_SEV_CANCELLED);
            EXPECT_EQ(b[i].out.status, KIN_CANCELLED);
            EXPECT(rc == 0 && i > winner);
        } else if (rcs[i] == 1) {
            EXPECT_EQ(b[i].out.severity, KIN_SEV_CANCELLED);
        } else if (b[i].out.severity != KIN_SEV_CANCELLED) {
            EXPECT_EQ(b[i].out.severity, rcs[i] < 0 ? KIN_SEV_ERROR : KIN_SEV_OK);
            EXPECT_EQ(b[i].out.status, rcs[i] < 0 ? rcs[i] : 0);
            EXPECT_EQ(b[i].out.value, rcs[i] < 0 ? 0 : rcs[i]);
        }
    }
    EXPECT(!kin_cancelled());
    return started;
}

static int hedge_some(void *arg)
{
    const int64_t hour = KIN_SEC(3600), soon = KIN_US(200);

    (void)arg;
    EXPECT_EQ(hedge((const int[]){5}, 1, hour, 0, 0), 1);
    EXPECT_EQ(hedge((const int[]){5, 6, 7}, 3, hour, 0, 0), 1); /* the others are never started */
    /* a failure starts the next one at once: nobody waits an hour here */
    EXPECT_EQ(hedge((const int[]){ERROR, 6, 7}, 3, hour, 0, 1), 2);
    EXPECT_EQ(hedge((const int[]){ERROR, OTHER, 7}, 3, hour, 0, 2), 3);
    EXPECT_EQ(hedge((const int[]){ERROR, OTHER}, 2, hour, ERROR, 99), 2);
    EXPECT_EQ(hedge((const int[]){OTHER, ERROR}, 2, hour, OTHER, 99), 2);
    /* one that takes long does not keep the next one from being started */
    EXPECT_EQ(hedge((const int[]){1, 6}, 2, soon, 0, 1), 2);
    EXPECT_EQ(hedge((const int[]){1, 1, 1, 1, 6}, 5, soon, 0, 4), 5);
    EXPECT_EQ(hedge((const int[]){1, ERROR, 6}, 3, soon, 0, 2), 3);
    return 0;
}

KIN_TEST(a_hedge_starts_one_after_the_other, "D1")
{
    run_on_few(hedge_some, NULL);
}

/* The first one fails when the second has begun: that starts the third too early. On a busy machine
 * its time may come first, and it win before the second has begun, which then never does. */
static int fail_after_second(void *arg)
{
    const _Atomic int *begun = arg;
    int rc = 0;
    while (rc == 0 && atomic_load(begun) == 0) /* ends: one of the two happens */
        rc = kin_yield();
    return ERROR;
}

static int hedge_slowly(void *arg)
{
    _Atomic int begun = 0, ran = 0;
    struct kin_branch b[3] = {{fail_after_second, &begun, {KIN_SEV_OK, 0, 0, 0, ""}},
                              {sleep_for_ever, &begun, {KIN_SEV_OK, 0, 0, 0, ""}},
                              {note_and_win, &ran, {KIN_SEV_OK, 0, 0, 0, ""}}};
    size_t winner = 99;

    (void)arg;
    EXPECT_EQ(kin_hedge(b, 3, KIN_MS(1), &winner), 0);
    EXPECT_EQ(winner, 2);
    EXPECT_EQ(b[0].out.status, ERROR);
    EXPECT_EQ(b[1].out.severity, KIN_SEV_CANCELLED);
    return 0;
}

KIN_TEST(a_late_failure_starts_the_next_hedge_too, "D1")
{
    run_on_few(hedge_slowly, NULL);
}

/* The time of the task is over while it waits for the next branch's turn. */
static int hedge_out_of_time(void *arg)
{
    struct hedged hedged[2] = {{0, 1}, {0, 6}};
    struct kin_branch b[2] = {{be_hedged, &hedged[0], {KIN_SEV_OK, 0, 0, 0, ""}},
                              {be_hedged, &hedged[1], {KIN_SEV_OK, 0, 0, 0, ""}}};
    (void)arg;
    kin_time before = kin_deadline_push(kin_after(KIN_MS(1)));
    EXPECT_EQ(kin_hedge(b, 2, KIN_SEC(3600), NULL), KIN_TIMEOUT);
    kin_deadline_pop(before);
    EXPECT_EQ(atomic_load(&hedged[1].started), 0);
    EXPECT_EQ(b[1].out.task, 0);
    return 0;
}

KIN_TEST(a_hedge_that_is_out_of_time_starts_nobody_else, "D1")
{
    run_on_few(hedge_out_of_time, NULL);
}

/* ---- cancelled from outside ---- */

struct outside {
    int kind; /* enum kind, or those below */
    _Atomic int begun;
    struct kin_branch b[3];
    int rc;
    size_t winner;
};
enum { TIMEOUT = HEDGE + 1, HEDGE_SLOWLY, KINDS };

static int call_kind(struct outside *outside, int kind)
{
    if (kind == TIMEOUT)
        return kin_timeout(outside->b, kin_after(KIN_SEC(3600)));
    if (kind == HEDGE_SLOWLY)
        return kin_hedge(outside->b, 3, KIN_SEC(3600), &outside->winner);
    return call((enum kind)kind, outside->b, 3, &outside->winner);
}

static int call_and_sleep(void *arg)
{
    struct outside *outside = arg;

    for (size_t i = 0; i < 3; i++) {
        outside->b[i] = (struct kin_branch){sleep_for_ever, &outside->begun,
                                            {KIN_SEV_PANIC, 1, 2, 3, ""}};
    }
    outside->winner = 99;
    outside->rc = call_kind(outside, outside->kind);
    EXPECT(kin_cancelled()); /* sticky */
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    /* A second call starts nobody. */
    for (int kind = 0; kind < KINDS; kind++) {
        outside->b[0].fn = outside->b[1].fn = outside->b[2].fn = never;
        EXPECT_EQ(call_kind(outside, kind), outside->rc);
        for (int i = 0; i < (kind == TIMEOUT ? 1 : 3); i++) {
            EXPECT_EQ(outside->b[i].out.severity, KIN_SEV_CANCELLED);
            EXPECT_EQ(outside->b[i].out.task, 0);
        }
    }
    return KIN_CANCELLED;
}

static int begun_of(int kind)
{
    return kind == TIMEOUT || kind == HEDGE_SLOWLY ? 1 : 3;
}

static int cancel_the_nursery(void *arg)
{
    static const int reasons[] = {0, KIN_TIMEOUT, -EPIPE};

    (void)arg;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < 3; i++) {
            struct outside outside = {.kind = kind};
            KIN_NURSERY(n);
            EXPECT_EQ(kin_spawn(&n, call_and_sleep, &outside), 0);
            await(&outside.begun, begun_of(kind));
            kin_nursery_cancel(&n, reasons[i]);
            int rc = kin_nursery_join(&n, NULL);
            EXPECT_EQ(rc, reasons[i] ? reasons[i] : KIN_CANCELLED);
            EXPECT_EQ(outside.rc, KIN_CANCELLED); /* whatever the reason outside */
        }
    }
    return 0;
}

KIN_TEST(a_cancel_of_the_nursery_around_is_the_answer, "NSM-3 B12")
{
    run_on_few(cancel_the_nursery, NULL);
}

static int cancel_the_caller(void *arg)
{
    (void)arg;
    for (int kind = 0; kind < KINDS; kind++) {
        struct outside outside = {.kind = kind};
        struct kin_task_ref ref;
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn_with(&n, NULL, call_and_sleep, &outside, 0, &ref), 0);
        await(&outside.begun, begun_of(kind));
        EXPECT_EQ(kin_task_cancel(ref), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(outside.rc, KIN_CANCELLED);
    }
    return 0;
}

KIN_TEST(a_cancel_of_the_caller_is_the_answer, "NSM-3 B12")
{
    run_on_few(cancel_the_caller, NULL);
}

static int end_late(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    return OK;
}

/* Cancelled before a decision, it stays cancelled, whatever branches still return. */
static int call_with_late_values(void *arg)
{
    struct outside *outside = arg;

    for (size_t i = 0; i < 3; i++)
        outside->b[i] = (struct kin_branch){end_late, &outside->begun, {KIN_SEV_OK, 0, 0, 0, ""}};
    outside->winner = 99;
    outside->rc = call_kind(outside, outside->kind);
    return 0;
}

static int cancel_before_late_values(void *arg)
{
    (void)arg;
    for (int kind = 0; kind < KINDS; kind++) {
        struct outside outside = {.kind = kind};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, call_with_late_values, &outside), 0);
        await(&outside.begun, begun_of(kind));
        kin_nursery_cancel(&n, -EPIPE);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
        EXPECT_EQ(outside.rc, KIN_CANCELLED);
        for (int i = 0; i < begun_of(kind); i++) {
            EXPECT_EQ(outside.b[i].out.severity, KIN_SEV_OK); /* nothing is thrown away */
            EXPECT_EQ(outside.b[i].out.value, OK);
        }
        if (kind == RACE)
            EXPECT_LT(outside.winner, 3); /* the first end, and an index in any case */
        else
            EXPECT_EQ(outside.winner, 99);
    }
    return 0;
}

KIN_TEST(values_that_come_after_a_cancel_are_kept_and_do_not_count, "B5")
{
    run_on_few(cancel_before_late_values, NULL);
}

static int call_within(void *arg)
{
    (void)arg;
    for (int kind = 0; kind < KINDS; kind++) {
        struct outside outside = {.kind = kind};
        for (size_t i = 0; i < 3; i++)
            outside.b[i] = (struct kin_branch){sleep_for_ever, NULL, {KIN_SEV_OK, 0, 0, 0, ""}};
        {
            KIN_WITHIN(KIN_US(300));
            EXPECT_EQ(call_kind(&outside, kind), KIN_TIMEOUT);
        }
        EXPECT_EQ(outside.b[0].out.severity, KIN_SEV_CANCELLED);
        EXPECT(!kin_cancelled());
        EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

KIN_TEST(a_pushed_deadline_holds_for_combinators, "N2001")
{
    run_on_few(call_within, NULL);
}

/* ---- one inside the other ---- */

static int all_of_two(void *arg)
{
    struct kin_branch b[2] = {{sleep_for_ever, arg, {KIN_SEV_OK, 0, 0, 0, ""}},
                              {fine, NULL, {KIN_SEV_OK, 0, 0, 0, ""}}};

    return kin_all(b, 2);
}

static int in_time(void *arg)
{
    struct kin_branch b = {all_of_two, arg, {KIN_SEV_OK, 0, 0, 0, ""}};
    int rc = kin_timeout(&b, kin_after(KIN_MS(1)));

    EXPECT(rc == KIN_TIMEOUT || rc == KIN_CANCELLED);
    return rc;
}

static int nest(void *arg)
{
    _Atomic int begun = 0;
    struct kin_branch b[3] = {{all_of_two, &begun, {KIN_SEV_OK, 0, 0, 0, ""}},
                              {in_time, &begun, {KIN_SEV_OK, 0, 0, 0, ""}},
                              {in_time, &begun, {KIN_SEV_OK, 0, 0, 0, ""}}};
    size_t winner = 99;

    (void)arg;
    EXPECT_EQ(kin_race(b, 3, &winner), KIN_TIMEOUT);
    EXPECT(winner == 1 || winner == 2);
    EXPECT_EQ(b[0].out.severity, KIN_SEV_CANCELLED);
    EXPECT(!kin_cancelled());
    return 0;
}

KIN_TEST(combinators_nest, "NSM-3 NSM-4")
{
    run_on_few(nest, NULL);
}

/* ---- many ---- */

enum { MANY = 3000 };

static int index_as_value(void *arg)
{
    return (int)(uintptr_t)arg;
}

static int call_many(void *arg)
{
    struct kin_branch *b = malloc(MANY * sizeof *b);
    size_t winner;

    (void)arg;
    EXPECT(b != NULL);
    for (size_t i = 0; i < MANY; i++)
        b[i] = (struct kin_branch){index_as_value, (void *)(uintptr_t)i, {KIN_SEV_OK, 0, 0, 0, ""}};
    EXPECT_EQ(kin_all(b, MANY), 0);
    for (size_t i = 0; i < MANY; i++) {
        EXPECT_EQ(b[i].out.severity, KIN_SEV_OK);
        EXPECT_EQ(b[i].out.value, (int)i);
    }
    for (size_t i = 0; i < MANY; i++)
        b[i].fn = i == MANY / 2 ? fine : sleep_for_ever, b[i].arg = NULL;
    EXPECT_EQ(kin_any(b, MANY, &winner), 0);
    EXPECT_EQ(winner, MANY / 2);
    for (size_t i = 0; i < MANY; i++)
        EXPECT_EQ(b[i].out.severity, i == winner ? KIN_SEV_OK : KIN_SEV_CANCELLED);
    free(b);
    return 0;
}

KIN_TEST(thousands_of_branches_are_no_different, "")
{
    run_on_few(call_many, NULL);
}

/* ---- random programs ---- */

struct random_branch {
    uint32_t number;
    _Atomic int *running;
};

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static int do_something(void *arg)
{
    struct random_branch *random = arg;
    uint32_t number = random->number;
    int rc = 0;

    atomic_fetch_add(random->running, 1);
    for (uint32_t i = 0; i < number % 5 && rc == 0; i++)
        rc = kin_yield();
    number /= 5;
    if (rc == 0 && number % 3 == 0)
        rc = kin_sleep(kin_after((int64_t)(number % 7) * KIN_US(20)));
    number /= 21;
    atomic_fetch_sub(random->running, 1);
    if (rc < 0 && number % 4 != 0)
        return rc;
    switch (number / 4 % 8) {
    case 0:
        return ERROR;
    case 1:
        return OTHER;
    case 2:
        kin_fail(-EBADF, "at random");
    case 3:
        kin_panic("at random");
    default:
        return (int)(number % 1000);
    }
}

/* What must hold whatever happened. */
static void check_result(int kind, int rc, const struct kin_branch *b, size_t count, size_t winner,
                         bool is_cancelled)
{
    size_t good = 0, need = kind == ALL ? count : kind == QUORUM2 ? 2 : kind == QUORUM3 ? 3 : 1;
    bool is_of_one = false;

    for (size_t i = 0; i < count; i++) {
        good += b[i].out.severity == KIN_SEV_OK;
        is_of_one = is_of_one || b[i].out.status == rc;
    }
    if (rc == 0) {
        EXPECT_GE(good, need);
        if (kind == RACE || kind == ANY || kind >= HEDGE)
            EXPECT_EQ(b[winner].out.severity, KIN_SEV_OK);
    } else {
        EXPECT(is_of_one || is_cancelled);
        if (kind == RACE && !is_cancelled)
            EXPECT_EQ(b[winner].out.status, rc);
        if (kind == ANY && !is_cancelled)
            EXPECT_EQ(good, 0);
    }
}

static int combine_at_random(void *arg)
{
    uint64_t *state = arg;
    _Atomic int running = 0;
    struct random_branch random[BRANCHES_MAX];
    struct kin_branch b[BRANCHES_MAX];
    size_t count = 3 + next_random(state) % (BRANCHES_MAX - 2), winner = 99;
    int kind = (int)(next_random(state) % (HEDGE + 2));
    int rc;

    for (size_t i = 0; i < count; i++) {
        random[i] = (struct random_branch){next_random(state), &running};
        b[i] = (struct kin_branch){do_something, &random[i], {KIN_SEV_PANIC, 1, 2, 3, ""}};
    }
    if (kind == HEDGE + 1)
        rc = kin_hedge(b, count, (int64_t)(next_random(state) % 50) * KIN_US(1), &winner);
    else
        rc = call((enum kind)kind, b, count, &winner);
    EXPECT_EQ(atomic_load(&running), 0);
    for (size_t i = 0; i < count; i++)
        EXPECT_NE(b[i].out.status, 1); /* every one was written */
    check_result(kind, rc, b, count, winner == 99 ? 0 : winner, kin_cancelled());
    return 0;
}

struct chaos {
    uint64_t state;
    unsigned rounds;
};

/* Callers in a nursery that is cancelled at some moment or other, or is not. */
static int be_random(void *arg)
{
    struct chaos *chaos = arg;
    uint64_t states[6];

    for (unsigned round = 0; round < chaos->rounds; round++) {
        KIN_NURSERY(n);
        for (int i = 0; i < 6; i++) {
            states[i] = chaos->state + next_random(&chaos->state);
            EXPECT_EQ(kin_spawn(&n, combine_at_random, &states[i]), 0);
        }
        for (uint32_t i = next_random(&chaos->state) % 64; i > 0; i--)
            EXPECT_EQ(kin_yield(), 0);
        bool cancels = next_random(&chaos->state) % 2;
        if (cancels)
            kin_nursery_cancel(&n, -EPIPE);
        EXPECT_EQ(kin_nursery_join(&n, NULL), cancels ? -EPIPE : 0);
    }
    return 0;
}

KIN_TEST(random_combinators_keep_their_promises, "D1 B5")
{
    struct chaos chaos = {kin_test_seed(), 300 / kin_test_scale() + 1};

    run_on_few(be_random, &chaos);
}
