/* SPDX-License-Identifier: MIT */
/*
 * Goal: a watch is given back exactly once, by whoever lets go of its last hold, whatever the order
 *       of its target's end, its watcher's end and a revoke; it has its name as long as something
 *       can arrive.
 * Method: white box: the steps of the three are made by hand in every order, in tasks that live.
 */
#include "otp/ends.h"

#include "otp/watch.h"

/* Two parties: the running task, which watches, and a target. */
struct pair {
    struct kin_nursery n;
    struct target target;
    struct kin__party *mine, *its;
};

static void begin(struct pair *pair)
{
    struct kin_outcome how;
    int rc;
    open_collecting(&pair->n);
    start_target(&pair->n, &pair->target, END_OK);
    pair->mine = kin__party_self(kin__task_self());
    EXPECT(pair->mine != NULL);
    kin__party_unlock(pair->mine);
    pair->its = kin__party_need(pair->target.addr.id, pair->mine->sched, &rc, &how);
    EXPECT(pair->its != NULL);
    kin__party_unlock(pair->its);
}

static void finish(struct pair *pair)
{
    let_end(&pair->target);
    join_all(&pair->n);
    EXPECT_EQ(kin__watch_count(), 0);
}

static struct kin__watch *watch_it(struct pair *pair)
{
    struct kin__watch *watch = kin__watch_make(KIN__WATCH_MONITOR, pair->target.addr.id, &(int){0});
    EXPECT(watch != NULL);
    kin__party_take(pair->mine);
    kin__watch_out_locked(watch, pair->mine);
    kin__party_unlock(pair->mine);
    kin__party_take(pair->its);
    kin__watch_in_locked(watch, pair->its);
    kin__party_unlock(pair->its);
    return watch;
}

static bool is_named(uint64_t name)
{
    struct kin__party *watcher;
    struct kin__watch *watch = kin__watch_lock(name, &watcher);
    if (watch)
        kin__party_unlock(watcher);
    return watch != NULL;
}

static bool revoke_it(uint64_t name)
{
    struct kin__party *watcher;
    struct kin__watch *watch = kin__watch_lock(name, &watcher);
    return watch && kin__watch_revoke_and_unlock(watch, watcher);
}

/* What the target's end does, on a target that lives: it is over for a moment. */
static void end_target(struct pair *pair, const struct kin_outcome *how)
{
    kin__party_take(pair->its);
    pair->its->is_over = true;
    kin__party_unlock(pair->its);
    kin__watches_end(pair->its, how);
    kin__party_take(pair->its);
    pair->its->is_over = false;
    kin__party_unlock(pair->its);
}

static const struct kin_outcome failed = {KIN_SEV_ERROR, -EIO, 0, 1, ""};

/* ---- a monitor ---- */

static int meet(void *arg)
{
    struct pair pair;
    struct kin_info info;
    (void)arg;
    begin(&pair);
    /* revoked, and nobody ended */
    struct kin__watch *watch = watch_it(&pair);
    uint64_t name = watch->ref;
    EXPECT(is_named(name));
    EXPECT_EQ(kin__watch_count(), kin__watch_count() ? 1 : 0);
    EXPECT(revoke_it(name));
    EXPECT(!is_named(name));
    EXPECT(!revoke_it(name));
    EXPECT_EQ(kin__watch_count(), 0);
    /* the target ends, and then it is revoked */
    name = watch_it(&pair)->ref;
    end_target(&pair, &failed);
    EXPECT(is_named(name));
    EXPECT(!revoke_it(name)); /* it had fired; what came is taken away */
    EXPECT(!is_named(name));
    EXPECT_EQ(kin_wait_down((struct kin_monitor_ref){name}, &info, 0), KIN_STALE);
    EXPECT_EQ(kin__watch_count(), 0);
    /* the target ends, and it is read */
    name = watch_it(&pair)->ref;
    end_target(&pair, &failed);
    EXPECT_EQ(kin_wait_down((struct kin_monitor_ref){name}, &info, 0), 0);
    EXPECT_EQ(info.u.down.status, -EIO);
    EXPECT(!is_named(name));
    EXPECT_EQ(kin__watch_count(), 0);
    finish(&pair);
    return 0;
}

KIN_TEST(a_monitor_is_given_back_once, "MON-DOWN")
{
    run_on_few_and_clean(meet, NULL);
}

/* The target is over, and its end has not come to the watch yet when it is revoked. */
static int meet_before(void *arg)
{
    struct pair pair;
    struct kin_info info;
    (void)arg;
    begin(&pair);
    struct kin__watch *watch = watch_it(&pair);
    struct kin__watch *other = watch_it(&pair);
    uint64_t name = watch->ref, kept = other->ref;
    kin__party_take(pair.its);
    pair.its->is_over = true;
    kin__party_unlock(pair.its);
    EXPECT(revoke_it(name)); /* it was pending, and nothing will arrive */
    EXPECT(!is_named(name));
    EXPECT_EQ(watch->holds, KIN__WATCH_IN); /* the end finds it in its list */
    end_target(&pair, &failed);
    EXPECT_EQ(kin_wait_down((struct kin_monitor_ref){name}, &info, 0), KIN_STALE);
    EXPECT_EQ(kin_wait_down((struct kin_monitor_ref){kept}, &info, 0), 0);
    EXPECT_EQ(pair.mine->news, 0);
    EXPECT_EQ(kin__watch_count(), 0);
    finish(&pair);
    return 0;
}

KIN_TEST(what_is_revoked_before_the_end_comes_to_it_is_not_told, "MON-DOWN")
{
    EXPECT_EQ(run_reporting(1, meet_before, NULL, NULL), 0);
}

/* The target's end has taken the list, and tells one after the other; meanwhile one is revoked. */
static int meet_in_between(void *arg)
{
    struct pair pair;
    (void)arg;
    for (int order = 0; order < 2; order++) {
        begin(&pair);
        struct kin__watch *watch = watch_it(&pair);
        uint64_t name = watch->ref;
        struct kin__ending end = {failed, failed, 1};
        kin__party_take(pair.its);
        pair.its->is_over = true;
        kin__list_remove(&watch->link_in);
        kin__party_unlock(pair.its);
        watch->kind = KIN__WATCH_SECOND; /* told by a function that can be called */
        watch->first = NULL;
        watch->policy = order ? KIN_EXIT_TRAP : KIN_EXIT_PROPAGATE;
        EXPECT(revoke_it(name));
        EXPECT(!is_named(name));
        EXPECT_EQ(watch->holds, KIN__WATCH_IN); /* the end has it */
        kin__link_exit(watch, &end);
        EXPECT(!kin_cancelled()); /* nothing arrives after the revoke */
        EXPECT_EQ(pair.mine->news, 0);
        EXPECT_EQ(kin__watch_count(), 0);
        pair.its->is_over = false;
        finish(&pair);
    }
    return 0;
}

KIN_TEST(what_is_revoked_while_the_end_has_it_is_not_told, "MON-DOWN LINK-EXIT")
{
    EXPECT_EQ(run_reporting(1, meet_in_between, NULL, NULL), 0);
}

/* ---- the holds of a link ---- */

static struct kin__watch *make_pair(struct kin__watch **second, struct kin__party *party)
{
    struct kin__watch *first = kin__watch_make(KIN__WATCH_FIRST, 1, &(int){0});
    *second = kin__watch_make(KIN__WATCH_SECOND, 1, &(int){0});
    EXPECT(first != NULL && *second != NULL);
    first->holds |= KIN__WATCH_PEER;
    first->second = kin__watch_name(*second);
    (*second)->first = first;
    kin__party_take(party);
    kin__watch_out_locked(first, party);
    kin__watch_out_locked(*second, party);
    kin__party_unlock(party);
    return first;
}

static void drop(struct kin__watch *watch, struct kin__party *party, unsigned holds)
{
    kin__party_take(party);
    kin__list_remove(&watch->link_out);
    struct kin__let_go what = kin__watch_drop_locked(watch, holds);
    kin__party_unlock(party);
    kin__watch_let_go(what);
}

static int let_go(void *arg)
{
    struct kin__watch *first, *second;
    (void)arg;
    struct kin__party *party = kin__party_self(kin__task_self());
    EXPECT(party != NULL);
    kin__party_unlock(party);
    for (unsigned order = 0; order < 4; order++) {
        first = make_pair(&second, party);
        uint64_t name = first->ref, other = first->second;
        if (order & 2) { /* the target of the first half has it, too */
            first->holds |= KIN__WATCH_IN;
            drop(first, party, KIN__WATCH_IN);
        }
        EXPECT(is_named(name) && is_named(other));
        drop(order & 1 ? second : first, party, KIN__WATCH_OUT);
        EXPECT(is_named(name)); /* as long as the second half can be told, the link has its name */
        EXPECT_EQ(is_named(other), !(order & 1));
        drop(order & 1 ? first : second, party, KIN__WATCH_OUT);
        EXPECT(!is_named(name) && !is_named(other));
        EXPECT_EQ(kin__watch_count(), 0);
    }
    return 0;
}

KIN_TEST(a_link_has_its_name_until_both_halves_are_over, "LINK-EXIT")
{
    EXPECT_EQ(run_reporting(1, let_go, NULL, NULL), 0);
    EXPECT_EQ(kin__party_count(), 0);
}
