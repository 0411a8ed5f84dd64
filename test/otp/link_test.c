/* SPDX-License-Identifier: MIT */
/*
 * Goal: a bad end of one end of a link does to the other what that one's policy says, with the
 *       reason; a good end does nothing; an unlink lets nothing arrive after it; nothing is left.
 * Method: black box, on 1, 2 and 4 workers; who ends waits for an event before, so that nothing
 *         depends on time.
 */
#include "otp/ends.h"

/* ---- policies ---- */

/* One end of a link: links, says so, and waits until it is cancelled or let go. */
struct peer {
    struct target *other;
    enum kin_exit_policy mine, theirs;
    struct kin_event has_linked, may_go;
    struct kin_link_ref link;
    struct kin_task_ref ref;
    int rc, reason;
    struct kin_info info;
};

static int be_peer(void *arg)
{
    struct peer *peer = arg;
    EXPECT_EQ(kin_link(peer->other->addr, peer->mine, peer->theirs, &peer->link), 0);
    EXPECT_NE(peer->link.id, 0);
    kin_event_set(&peer->has_linked);
    /* K179: an exit ends a wait whose time has not come */
    kin_time never = kin_in_lab() ? KIN_NEVER : kin_after(KIN_SEC(1000));
    peer->rc = kin_event_wait(&peer->may_go, never);
    peer->reason = kin_cancel_reason();
    if (peer->mine == KIN_EXIT_TRAP)
        EXPECT_EQ(kin_wait_info(&peer->info, 0), peer->other->kind <= END_VALUE ? KIN_TIMEOUT : 0);
    return peer->rc;
}

static void start_peer(struct kin_nursery *n, struct peer *peer, struct target *other,
                       enum kin_exit_policy mine, enum kin_exit_policy theirs)
{
    *peer = (struct peer){.other = other, .mine = mine, .theirs = theirs, .rc = 1};
    EXPECT_EQ(kin_spawn_with(n, NULL, be_peer, peer, 0, &peer->ref), 0);
    EXPECT_EQ(kin_event_wait(&peer->has_linked, KIN_NEVER), 0);
}

static void end_one(enum end_kind kind, enum kin_exit_policy policy)
{
    struct target target;
    struct peer peer;
    struct kin_nursery n;
    bool is_bad = kind > END_VALUE;
    open_collecting(&n);
    start_target(&n, &target, kind);
    start_peer(&n, &peer, &target, policy, KIN_EXIT_IGNORE);
    let_end(&target);
    EXPECT_EQ(kin_task_join(&n, target.ref, NULL, KIN_NEVER), 0);
    if (!is_bad || policy != KIN_EXIT_PROPAGATE)
        kin_event_set(&peer.may_go);
    EXPECT_EQ(kin_task_join(&n, peer.ref, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_unlink(peer.link), KIN_STALE);
    if (is_bad && policy == KIN_EXIT_PROPAGATE) {
        EXPECT_EQ(peer.rc, KIN_CANCELLED);
        EXPECT_EQ(peer.reason, status_of(kind));
    } else {
        EXPECT_EQ(peer.rc, 0);
        EXPECT_EQ(peer.reason, 0);
    }
    if (is_bad && policy == KIN_EXIT_TRAP) {
        EXPECT_EQ(peer.info.kind, KIN_INFO_EXIT);
        EXPECT(kin_addr_same(peer.info.u.exit.from, target.addr));
        EXPECT_EQ(peer.info.u.exit.reason, reason_of(kind));
        EXPECT_EQ(peer.info.u.exit.status, status_of(kind));
        EXPECT_EQ(peer.info.u.exit.ref.id, peer.link.id);
        EXPECT_GT(peer.info.vt, 0);
    }
    join_all(&n);
}

static int try_every_policy(void *arg)
{
    (void)arg;
    for (enum end_kind kind = 0; kind < END_KINDS; kind++) {
        for (enum kin_exit_policy policy = 0; policy <= KIN_EXIT_IGNORE; policy++)
            end_one(kind, policy);
    }
    return 0;
}

/* K172: a good end is not delivered. */
KIN_TEST(a_bad_end_does_what_the_policy_of_the_other_says, "LINK-CREATE LINK-EXIT")
{
    run_on_few_and_clean(try_every_policy, NULL);
}

/* ---- the other way round ---- */

/* A target that traps what the one who has linked with it does. */
struct listener {
    struct kin_event has_begun;
    struct kin_task_ref ref;
    int rc;
    struct kin_info info;
};

static int listen_once(void *arg)
{
    struct listener *listener = arg;
    kin_event_set(&listener->has_begun);
    listener->rc = kin_wait_info(&listener->info, KIN_NEVER);
    return listener->rc;
}

static void start_listener(struct kin_nursery *n, struct listener *listener)
{
    *listener = (struct listener){.rc = 1};
    EXPECT_EQ(kin_spawn_with(n, NULL, listen_once, listener, 0, &listener->ref), 0);
    EXPECT_EQ(kin_event_wait(&listener->has_begun, KIN_NEVER), 0);
}

struct linker {
    struct kin_addr other;
    enum kin_exit_policy theirs;
    struct kin_link_ref link;
};

static int link_and_fail(void *arg)
{
    struct linker *linker = arg;
    EXPECT_EQ(kin_link(linker->other, KIN_EXIT_IGNORE, linker->theirs, &linker->link), 0);
    return -ENXIO;
}

static int fail_towards(void *arg)
{
    struct listener listener;
    struct kin_nursery n;
    (void)arg;
    open_collecting(&n);
    start_listener(&n, &listener);
    struct linker linker = {kin_task_addr(listener.ref), KIN_EXIT_TRAP, {0}};
    struct kin_task_ref ref;
    EXPECT_EQ(kin_spawn_with(&n, NULL, link_and_fail, &linker, 0, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, listener.ref, NULL, KIN_NEVER), 0);
    EXPECT_EQ(listener.rc, 0);
    EXPECT_EQ(listener.info.kind, KIN_INFO_EXIT);
    EXPECT_EQ(listener.info.u.exit.from.id, ref.id);
    EXPECT_EQ(listener.info.u.exit.status, -ENXIO);
    EXPECT_EQ(listener.info.u.exit.reason, KIN_DOWN_ERROR);
    EXPECT_EQ(listener.info.u.exit.ref.id, linker.link.id); /* the same name at both ends */
    start_listener(&n, &listener);
    linker = (struct linker){kin_task_addr(listener.ref), KIN_EXIT_PROPAGATE, {0}};
    EXPECT_EQ(kin_spawn(&n, link_and_fail, &linker), 0);
    EXPECT_EQ(kin_task_join(&n, listener.ref, NULL, KIN_NEVER), 0);
    EXPECT_EQ(listener.rc, KIN_CANCELLED);
    join_all(&n);
    return 0;
}

KIN_TEST(each_end_has_a_policy_of_its_own, "LINK-CREATE LINK-EXIT")
{
    run_on_few_and_clean(fail_towards, NULL);
}

/* ---- refusals ---- */

static int link_badly(void *arg)
{
    struct kin_link_ref link = {77};
    struct target target;
    struct kin_nursery n;
    struct kin_addr self = kin_self_addr();
    (void)arg;
    EXPECT_EQ(kin_link(self, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &link), -EINVAL); /* itself */
    EXPECT_EQ(kin_link(self, KIN_EXIT_TRAP, KIN_EXIT_TRAP, NULL), -EINVAL);
    EXPECT_EQ(kin_link(self, (enum kin_exit_policy)3, KIN_EXIT_TRAP, &link), -EINVAL);
    EXPECT_EQ(kin_link(self, KIN_EXIT_TRAP, (enum kin_exit_policy)-1, &link), -EINVAL);
    EXPECT_EQ(kin_link((struct kin_addr){0, 0}, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &link), KIN_NOPROC);
    EXPECT_EQ(kin_link((struct kin_addr){0, 99}, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &link), KIN_NOPROC);
    EXPECT_EQ(kin_link((struct kin_addr){3, 99}, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &link), KIN_NOCONN);
    open_collecting(&n);
    start_target(&n, &target, END_ERROR);
    let_end(&target);
    EXPECT_EQ(kin_task_join(&n, target.ref, NULL, KIN_NEVER), 0);
    /* K171: over already, known how or not */
    EXPECT_EQ(kin_link(target.addr, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &link), KIN_NOPROC);
    join_all(&n);
    EXPECT_EQ(kin_link(target.addr, KIN_EXIT_PROPAGATE, KIN_EXIT_TRAP, &link), KIN_NOPROC);
    EXPECT_EQ(link.id, 77); /* untouched */
    EXPECT_EQ(kin_unlink((struct kin_link_ref){0}), KIN_STALE);
    EXPECT_EQ(kin_unlink((struct kin_link_ref){UINT64_MAX}), KIN_STALE);
    return 0;
}

KIN_TEST(who_cannot_be_linked_with_is_refused, "LINK-CREATE")
{
    struct kin_link_ref link;
    run_on_few_and_clean(link_badly, NULL);
    EXPECT_EQ(kin_link((struct kin_addr){0, 9}, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &link), KIN_NOTASK);
    EXPECT_EQ(kin_unlink((struct kin_link_ref){1}), KIN_STALE);
}

/* ---- unlink ---- */

static int unlink_before(void *arg)
{
    struct target target;
    struct kin_link_ref once, twice;
    struct kin_monitor_ref watch;
    struct kin_info info;
    struct kin_nursery n;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &target, END_ERROR);
    EXPECT_EQ(kin_link(target.addr, KIN_EXIT_PROPAGATE, KIN_EXIT_PROPAGATE, &once), 0);
    EXPECT_EQ(kin_link(target.addr, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &twice), 0); /* two links */
    EXPECT_NE(once.id, twice.id);
    EXPECT_EQ(kin_monitor(target.addr, &watch), 0);
    EXPECT_EQ(kin_demonitor((struct kin_monitor_ref){once.id}), KIN_STALE); /* no monitor */
    EXPECT_EQ(kin_unlink((struct kin_link_ref){watch.id}), KIN_STALE);      /* no link */
    EXPECT_EQ(kin_wait_down((struct kin_monitor_ref){twice.id}, &info, 0), KIN_STALE);
    EXPECT_EQ(kin_unlink(once), 0);
    EXPECT_EQ(kin_unlink(once), KIN_STALE);
    let_end(&target);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0); /* of the other link */
    EXPECT_EQ(info.u.exit.ref.id, twice.id);
    EXPECT_EQ(kin_wait_down(watch, &info, KIN_NEVER), 0);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT); /* once, and no Down among it */
    EXPECT(!kin_cancelled());
    join_all(&n);
    return 0;
}

/* K170: unlink -> nothing; kin has two links where there are two. */
KIN_TEST(nothing_arrives_after_an_unlink, "LINK-CREATE LINK-EXIT")
{
    run_on_few_and_clean(unlink_before, NULL);
}

static int unlink_after(void *arg)
{
    struct target one, two;
    struct kin_link_ref of_one, of_two;
    struct kin_info info;
    struct kin_nursery n;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &one, END_PANIC);
    start_target(&n, &two, END_CANCELLED);
    EXPECT_EQ(kin_link(one.addr, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &of_one), 0);
    EXPECT_EQ(kin_link(two.addr, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &of_two), 0);
    let_end(&one);
    let_end(&two);
    join_all(&n);
    EXPECT_EQ(kin_unlink(of_one), KIN_STALE); /* the Exit that is there is taken away */
    EXPECT_EQ(kin_wait_info(&info, 0), 0);
    EXPECT_EQ(info.u.exit.ref.id, of_two.id);
    EXPECT_EQ(info.u.exit.reason, KIN_DOWN_CANCELLED);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    return 0;
}

/* K170: unlink after delivery takes the queued Exit away. */
KIN_TEST(an_unlink_takes_away_what_has_come_and_nothing_else, "LINK-EXIT")
{
    run_on_few_and_clean(unlink_after, NULL);
}

/* The one who made the link is over; the other has its Exit and unlinks by the name of the link. */
struct heir {
    struct kin_event may_unlink, has_begun;
    struct linker linker;
    int unlinked, waited;
};

static int unlink_what_came(void *arg)
{
    struct heir *heir = arg;
    struct kin_info info;
    kin_event_set(&heir->has_begun);
    EXPECT_EQ(kin_event_wait(&heir->may_unlink, KIN_NEVER), 0);
    heir->unlinked = kin_unlink(heir->linker.link);
    heir->waited = kin_wait_info(&info, 0);
    return 0;
}

static int unlink_from_the_other_end(void *arg)
{
    bool by_another = *(bool *)arg;
    struct heir heir = {.unlinked = 1};
    struct kin_task_ref ref, failed;
    struct kin_nursery n;
    open_collecting(&n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, unlink_what_came, &heir, 0, &ref), 0);
    EXPECT_EQ(kin_event_wait(&heir.has_begun, KIN_NEVER), 0);
    heir.linker = (struct linker){kin_task_addr(ref), KIN_EXIT_TRAP, {0}};
    EXPECT_EQ(kin_spawn_with(&n, NULL, link_and_fail, &heir.linker, 0, &failed), 0);
    EXPECT_EQ(kin_task_join(&n, failed, NULL, KIN_NEVER), 0);
    if (by_another)
        EXPECT_EQ(kin_unlink(heir.linker.link), KIN_STALE);
    kin_event_set(&heir.may_unlink);
    EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    EXPECT_EQ(heir.unlinked, KIN_STALE);
    EXPECT_EQ(heir.waited, KIN_TIMEOUT);
    join_all(&n);
    return 0;
}

KIN_TEST(the_name_of_a_link_is_good_until_nothing_can_arrive, "LINK-EXIT")
{
    bool by_another = false;
    run_on_few_and_clean(unlink_from_the_other_end, &by_another);
    by_another = true;
    run_on_few_and_clean(unlink_from_the_other_end, &by_another);
}

/* ---- chains ---- */

enum { CHAIN_MAX = 10 };

struct chain {
    struct link_in_chain {
        struct chain *chain;
        int place, reason;
        struct kin_addr addr;
        struct kin_event has_linked;
    } members[CHAIN_MAX];
    int length, status;
    struct kin_event may_fail;
};

static int be_in_chain(void *arg)
{
    struct link_in_chain *member = arg;
    struct chain *chain = member->chain;
    struct kin_link_ref link;
    member->addr = kin_self_addr();
    if (member->place > 0)
        EXPECT_EQ(kin_link(chain->members[member->place - 1].addr, KIN_EXIT_PROPAGATE,
                           KIN_EXIT_PROPAGATE, &link),
                  0);
    kin_event_set(&member->has_linked);
    if (member->place == 0) {
        EXPECT_EQ(kin_event_wait(&chain->may_fail, KIN_NEVER), 0);
        return chain->status;
    }
    int rc = kin_sleep(KIN_NEVER);
    member->reason = kin_cancel_reason();
    return rc;
}

static void run_chain(int length, int status, int expected)
{
    struct chain chain = {.length = length, .status = status};
    struct kin_nursery n;
    open_collecting(&n);
    for (int i = 0; i < length; i++) {
        chain.members[i] = (struct link_in_chain){.chain = &chain, .place = i};
        EXPECT_EQ(kin_spawn(&n, be_in_chain, &chain.members[i]), 0);
        EXPECT_EQ(kin_event_wait(&chain.members[i].has_linked, KIN_NEVER), 0);
    }
    kin_event_set(&chain.may_fail);
    join_all(&n);
    for (int i = 1; i < length; i++)
        EXPECT_EQ(chain.members[i].reason, expected);
}

static int run_chains(void *arg)
{
    static const int lengths[] = {1, 2, 3, 9, 10};
    (void)arg;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        run_chain(lengths[i], -EIO, -EIO);
    return 0;
}

/* K175, K177: a fails, and the last of the chain is stopped with a's reason. */
KIN_TEST(a_reason_comes_through_a_chain, "LINK-EXIT")
{
    run_on_few_and_clean(run_chains, NULL);
}

/* Whom a link has stopped has ended cancelled: that is what others are told of it. */
static int stop_and_tell(void *arg)
{
    struct target target;
    struct peer peer;
    struct kin_link_ref link;
    struct kin_monitor_ref watch;
    struct kin_info info;
    struct kin_nursery n;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &target, END_PANIC);
    start_peer(&n, &peer, &target, KIN_EXIT_PROPAGATE, KIN_EXIT_IGNORE);
    EXPECT_EQ(kin_link(kin_task_addr(peer.ref), KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &link), 0);
    EXPECT_EQ(kin_monitor(kin_task_addr(peer.ref), &watch), 0);
    let_end(&target);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(info.u.exit.from.id, peer.ref.id);
    EXPECT_EQ(info.u.exit.reason, KIN_DOWN_CANCELLED);
    EXPECT_EQ(info.u.exit.status, KIN_CANCELLED);
    EXPECT_EQ(kin_wait_down(watch, &info, KIN_NEVER), 0);
    EXPECT_EQ(info.u.down.reason, KIN_DOWN_CANCELLED);
    EXPECT_EQ(peer.reason, KIN_PANICKED);
    join_all(&n);
    return 0;
}

KIN_TEST(whom_a_link_has_stopped_was_cancelled, "LINK-EXIT MON-DOWN")
{
    run_on_few_and_clean(stop_and_tell, NULL);
}

/* ---- several reasons ---- */

struct judged {
    struct target *targets;
    struct kin_event has_linked;
    int reason;
    bool is_cancelled_first;
    struct kin_event may_look;
};

static int be_judged(void *arg)
{
    struct judged *judged = arg;
    struct kin_link_ref link;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_link(judged->targets[i].addr, KIN_EXIT_PROPAGATE, KIN_EXIT_IGNORE, &link), 0);
    kin_event_set(&judged->has_linked);
    kin_mask();
    EXPECT_EQ(kin_event_wait(&judged->may_look, KIN_NEVER), 0);
    kin_unmask();
    judged->reason = kin_cancel_reason();
    return kin_sleep(KIN_NEVER);
}

static int judge(void *arg)
{
    static const enum end_kind kinds[3] = {END_ERROR, END_PANIC, END_CANCELLED};
    for (int cancelled_first = 0; cancelled_first < 2; cancelled_first++) {
        struct target targets[3];
        struct judged judged = {.targets = targets};
        struct kin_task_ref ref;
        struct kin_nursery n;
        (void)arg;
        open_collecting(&n);
        for (int i = 0; i < 3; i++)
            start_target(&n, &targets[i], kinds[i]);
        EXPECT_EQ(kin_spawn_with(&n, NULL, be_judged, &judged, 0, &ref), 0);
        EXPECT_EQ(kin_event_wait(&judged.has_linked, KIN_NEVER), 0);
        if (cancelled_first)
            EXPECT_EQ(kin_task_cancel(ref), 0);
        for (int i = 0; i < 3; i++) {
            let_end(&targets[i]);
            EXPECT_EQ(kin_task_join(&n, targets[i].ref, NULL, KIN_NEVER), 0);
        }
        kin_event_set(&judged.may_look);
        EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
        /* the worst of the links; but the first reason of another kind stays */
        EXPECT_EQ(judged.reason, cancelled_first ? KIN_CANCELLED : KIN_PANICKED);
        join_all(&n);
    }
    return 0;
}

KIN_TEST(the_worst_of_several_reasons_counts, "LINK-EXIT")
{
    run_on_few_and_clean(judge, NULL);
}

/* ---- what a link reaches ---- */

struct owner {
    struct target *target;
    struct kin_event is_ready;
    int inner_rc, cleaned;
};

static int be_inside(void *arg)
{
    struct owner *owner = arg;
    kin_event_set(&owner->is_ready);
    return owner->inner_rc = kin_sleep(KIN_NEVER);
}

static void clean_up(void *arg)
{
    ((struct owner *)arg)->cleaned++;
}

static int own(void *arg)
{
    struct owner *owner = arg;
    struct kin_link_ref link;
    struct kin_nursery n;
    EXPECT_EQ(kin_defer(clean_up, owner), 0);
    EXPECT_EQ(kin_link(owner->target->addr, KIN_EXIT_PROPAGATE, KIN_EXIT_IGNORE, &link), 0);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, be_inside, owner), 0);
    int rc = kin_nursery_join(&n, NULL);
    EXPECT_EQ(rc, KIN_CANCELLED); /* its nurseries are cancelled with it */
    EXPECT_EQ(kin_cancel_reason(), -EIO);
    return kin_checkpoint();
}

static int reach(void *arg)
{
    struct target target;
    struct owner owner = {.target = &target};
    struct kin_outcome how;
    struct kin_task_ref ref;
    struct kin_nursery n;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &target, END_ERROR);
    EXPECT_EQ(kin_spawn_with(&n, NULL, own, &owner, 0, &ref), 0);
    EXPECT_EQ(kin_event_wait(&owner.is_ready, KIN_NEVER), 0);
    let_end(&target);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(owner.inner_rc, KIN_CANCELLED);
    EXPECT_EQ(owner.cleaned, 1);
    join_all(&n);
    return 0;
}

/* K179: an exit ends a wait with everything that belongs to it. */
KIN_TEST(a_link_stops_a_task_as_a_cancellation_does, "LINK-EXIT")
{
    run_on_few_and_clean(reach, NULL);
}

/* ---- both at once ---- */

struct two {
    struct kin_addr addrs[2];
    struct kin_event are_ready;
    _Atomic int numbers, here;
};

static int end_together(void *arg)
{
    struct two *two = arg;
    struct kin_link_ref link;
    int me = atomic_fetch_add(&two->numbers, 1);
    two->addrs[me] = kin_self_addr();
    if (atomic_fetch_add(&two->here, 1) == 1)
        kin_event_set(&two->are_ready);
    EXPECT_EQ(kin_event_wait(&two->are_ready, KIN_NEVER), 0);
    int rc = kin_link(two->addrs[1 - me], KIN_EXIT_PROPAGATE, KIN_EXIT_TRAP, &link);
    EXPECT(rc == 0 || rc == KIN_NOPROC);
    if (rc == 0 && me == 0)
        kin_ignore(kin_unlink(link));
    return -EIO;
}

static int link_each_other(void *arg)
{
    (void)arg;
    for (int i = 0; i < enough(200 / (int)kin_test_scale() + 5, 1); i++) {
        struct two two = {0};
        struct kin_nursery n;
        open_collecting(&n);
        EXPECT_EQ(kin_spawn(&n, end_together, &two), 0);
        EXPECT_EQ(kin_spawn(&n, end_together, &two), 0);
        join_all(&n);
    }
    return 0;
}

/* K165 */
KIN_TEST(two_that_link_with_each_other_and_end_leave_nothing, "LINK-EXIT")
{
    run_on_few_and_clean(link_each_other, NULL);
}
