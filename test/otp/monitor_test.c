/* SPDX-License-Identifier: MIT */
/*
 * Goal: a monitor tells once how its target ended, whenever it was made; a demonitor lets nothing
 *       arrive after it; nothing of either is left when a task is over.
 * Method: black box, on 1, 2 and 4 workers; targets wait for an event before they end, so that
 *         nothing depends on time. Counts of parties and of allocations show what is left.
 */
#include "otp/ends.h"

/* ---- ends of all kinds ---- */

/* K160: every kind of end is told with its reason and its status. */
static int watch_every_end(void *arg)
{
    (void)arg;
    for (enum end_kind kind = 0; kind < END_KINDS; kind++) {
        struct target target;
        struct kin_monitor_ref ref;
        struct kin_info info;
        struct kin_nursery n;
        open_collecting(&n);
        start_target(&n, &target, kind);
        EXPECT_EQ(kin_monitor(target.addr, &ref), 0);
        EXPECT_NE(ref.id, 0);
        EXPECT_EQ(kin_wait_down(ref, &info, 0), KIN_TIMEOUT);
        kin_time before = kin_now();
        let_end(&target);
        EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
        EXPECT_EQ(info.kind, KIN_INFO_DOWN);
        EXPECT(kin_addr_same(info.u.down.who, target.addr));
        EXPECT_EQ(info.u.down.reason, reason_of(kind));
        EXPECT_EQ(info.u.down.status, status_of(kind));
        EXPECT_EQ(info.u.down.ref.id, ref.id);
        EXPECT_GE(info.vt, before);
        EXPECT_LE(info.vt, kin_now());
        EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), KIN_STALE); /* once */
        EXPECT_EQ(kin_demonitor(ref), KIN_STALE);
        join_all(&n);
    }
    return 0;
}

KIN_TEST(every_kind_of_end_is_told_with_its_reason, "MON-CREATE MON-DOWN")
{
    run_on_few_and_clean(watch_every_end, NULL);
}

/* ---- over already ---- */

static int watch_late(void *arg)
{
    (void)arg;
    for (enum end_kind kind = 0; kind < END_KINDS; kind++) {
        struct target target;
        struct kin_monitor_ref ref, again;
        struct kin_info info;
        struct kin_nursery n;
        open_collecting(&n);
        start_target(&n, &target, kind); /* somebody has its name: its end stays known */
        let_end(&target);
        EXPECT_EQ(kin_task_join(&n, target.ref, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_monitor(target.addr, &ref), 0);
        EXPECT_EQ(kin_wait_down(ref, &info, 0), 0); /* at once */
        EXPECT_EQ(info.u.down.reason, reason_of(kind));
        EXPECT_EQ(info.u.down.status, status_of(kind));
        join_all(&n);
        EXPECT_EQ(kin_monitor(target.addr, &again), 0);
        EXPECT_NE(again.id, ref.id);
        EXPECT_EQ(kin_wait_down(again, &info, 0), 0);
        EXPECT_EQ(info.u.down.reason, KIN_DOWN_NOPROC);
        EXPECT_EQ(info.u.down.status, KIN_NOPROC);
        EXPECT(kin_addr_same(info.u.down.who, target.addr));
    }
    return 0;
}

/* K160: dead -> NOPROC, or the true reason as long as that is known. */
KIN_TEST(who_is_over_is_told_at_once_with_the_true_reason_if_known, "MON-CREATE MON-DOWN")
{
    run_on_few_and_clean(watch_late, NULL);
}

static int watch_nobody(void *arg)
{
    static const struct kin_addr nobody[] = {{0, 0}, {0, UINT64_MAX}, {0, 12345}, {7, 1}};
    (void)arg;
    for (size_t i = 0; i < 4; i++) {
        struct kin_monitor_ref ref;
        struct kin_info info;
        EXPECT_EQ(kin_monitor(nobody[i], &ref), 0);
        EXPECT_EQ(kin_wait_down(ref, &info, 0), 0);
        EXPECT_EQ(info.u.down.reason, nobody[i].node ? KIN_DOWN_NOCONN : KIN_DOWN_NOPROC);
        EXPECT_EQ(info.u.down.status, nobody[i].node ? KIN_NOCONN : KIN_NOPROC);
        EXPECT(kin_addr_same(info.u.down.who, nobody[i]));
    }
    return 0;
}

KIN_TEST(nobody_is_down_at_once, "MON-CREATE MON-DOWN")
{
    run_on_few_and_clean(watch_nobody, NULL);
}

/* ---- demonitor ---- */

static int forget(void *arg)
{
    struct target target;
    struct kin_monitor_ref ref, other;
    struct kin_info info;
    struct kin_nursery n;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &target, END_ERROR);
    EXPECT_EQ(kin_monitor(target.addr, &ref), 0);
    EXPECT_EQ(kin_monitor(target.addr, &other), 0);
    EXPECT_EQ(kin_demonitor(ref), 0); /* before the end: no Down */
    EXPECT_EQ(kin_demonitor(ref), KIN_STALE); /* twice is fine */
    EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), KIN_STALE);
    let_end(&target);
    EXPECT_EQ(kin_wait_down(other, &info, KIN_NEVER), 0); /* the other one is untouched */
    EXPECT_EQ(info.u.down.ref.id, other.id);
    EXPECT_EQ(kin_demonitor((struct kin_monitor_ref){0}), KIN_STALE);
    EXPECT_EQ(kin_demonitor((struct kin_monitor_ref){UINT64_MAX}), KIN_STALE);
    EXPECT_EQ(kin_demonitor((struct kin_monitor_ref){1}), KIN_STALE);
    join_all(&n);
    return 0;
}

/* K161 */
KIN_TEST(no_down_comes_after_a_demonitor, "MON-CREATE MON-DOWN")
{
    run_on_few_and_clean(forget, NULL);
}

static int flush(void *arg)
{
    struct target one, two;
    struct kin_monitor_ref of_one, of_two, early;
    struct kin_info info;
    struct kin_nursery n;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &one, END_OK);
    start_target(&n, &two, END_ERROR);
    EXPECT_EQ(kin_monitor(one.addr, &of_one), 0);
    EXPECT_EQ(kin_monitor(two.addr, &of_two), 0);
    EXPECT_EQ(kin_monitor(one.addr, &early), 0);
    let_end(&one);
    let_end(&two);
    EXPECT_EQ(kin_task_join(&n, one.ref, NULL, KIN_NEVER), 0); /* all of its watchers are told */
    EXPECT_EQ(kin_wait_down(of_one, &info, 0), 0);
    EXPECT_EQ(kin_wait_down(of_two, &info, KIN_NEVER), 0);
    EXPECT_EQ(kin_demonitor(early), KIN_STALE); /* it had fired: the Down is taken away */
    EXPECT_EQ(kin_wait_down(early, &info, KIN_NEVER), KIN_STALE);
    join_all(&n);
    return 0;
}

/* K162 */
KIN_TEST(a_demonitor_takes_away_what_has_come_and_nothing_else, "MON-DOWN")
{
    run_on_few_and_clean(flush, NULL);
}

/* ---- several ---- */

static int watch_twice(void *arg)
{
    enum { WATCHES = 100 };
    struct kin_monitor_ref refs[WATCHES];
    struct target target;
    struct kin_info info;
    struct kin_nursery n;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &target, END_CANCELLED);
    for (int i = 0; i < WATCHES; i++)
        EXPECT_EQ(kin_monitor(target.addr, &refs[i]), 0);
    let_end(&target);
    for (int i = WATCHES - 1; i >= 0; i--) { /* each its own, in any order */
        EXPECT_EQ(kin_wait_down(refs[i], &info, KIN_NEVER), 0);
        EXPECT_EQ(info.u.down.ref.id, refs[i].id);
        EXPECT_EQ(info.u.down.reason, KIN_DOWN_CANCELLED);
    }
    join_all(&n);
    return 0;
}

/* K168 */
KIN_TEST(each_monitor_of_one_target_is_told, "MON-DOWN")
{
    run_on_few_and_clean(watch_twice, NULL);
}

/* Watches two and ends without having read anything: one Down is there, one monitor is pending. */
struct couple {
    struct target over, alive;
    _Atomic int go;
};

static int watch_and_leave(void *arg)
{
    struct couple *couple = arg;
    struct kin_monitor_ref ref;
    struct kin_info info;
    EXPECT_EQ(kin_monitor(couple->over.addr, &ref), 0);
    EXPECT_EQ(kin_monitor(couple->alive.addr, &ref), 0);
    EXPECT_EQ(kin_monitor(couple->over.addr, &ref), 0);
    EXPECT_EQ(kin_monitor(kin_self_addr(), &ref), 0); /* nobody will read it */
    let_end(&couple->over);
    EXPECT_EQ(kin_monitor(couple->over.addr, &ref), 0);
    EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
    return 0;
}

static int leave_watches(void *arg)
{
    struct couple couple;
    struct kin_nursery n, watchers;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &couple.over, END_PANIC);
    start_target(&n, &couple.alive, END_OK);
    EXPECT_EQ(kin_nursery_open(&watchers, NULL), 0);
    EXPECT_EQ(kin_spawn(&watchers, watch_and_leave, &couple), 0);
    EXPECT_EQ(kin_nursery_join(&watchers, NULL), 0);
    let_end(&couple.alive); /* nobody is there to be told */
    join_all(&n);
    return 0;
}

/* K168: the death of a watcher removes its monitors. */
KIN_TEST(the_end_of_a_watcher_leaves_nothing, "MON-DOWN")
{
    run_on_few_and_clean(leave_watches, NULL);
}

/* ---- others ---- */

struct shared {
    struct kin_monitor_ref ref;
    struct kin_event is_waiting;
    _Atomic int rc;
};

static int wait_for_another(void *arg)
{
    struct shared *shared = arg;
    struct kin_info info = {0};
    int rc = kin_wait_down(shared->ref, &info, KIN_NEVER);
    EXPECT_EQ(info.kind, 0); /* untouched */
    return rc == -EPERM ? 0 : -EBADMSG;
}

static int demonitor_it(void *arg)
{
    struct shared *shared = arg;
    EXPECT_EQ(kin_event_wait(&shared->is_waiting, KIN_NEVER), 0);
    atomic_store(&shared->rc, kin_demonitor(shared->ref));
    return 0;
}

static int ask_others(void *arg)
{
    struct shared shared = {.rc = 1};
    struct target target;
    struct kin_info info;
    struct kin_nursery n, others;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &target, END_OK);
    EXPECT_EQ(kin_monitor(target.addr, &shared.ref), 0);
    EXPECT_EQ(kin_nursery_open(&others, NULL), 0);
    EXPECT_EQ(kin_spawn(&others, wait_for_another, &shared), 0);
    EXPECT_EQ(kin_nursery_join(&others, NULL), 0); /* who is not the watcher may not wait */
    EXPECT_EQ(kin_nursery_open(&others, NULL), 0);
    EXPECT_EQ(kin_spawn(&others, demonitor_it, &shared), 0);
    kin_event_set(&shared.is_waiting);
    EXPECT_EQ(kin_wait_down(shared.ref, &info, KIN_NEVER), KIN_STALE); /* but may demonitor */
    EXPECT_EQ(kin_nursery_join(&others, NULL), 0);
    EXPECT_EQ(atomic_load(&shared.rc), 0);
    let_end(&target);
    join_all(&n);
    return 0;
}

KIN_TEST(a_wait_ends_when_another_task_demonitors, "MON-DOWN")
{
    for (int i = 0; i < enough(50, 1); i++)
        run_on_few_and_clean(ask_others, NULL);
}

/* ---- waits ---- */

static int wait_badly(void *arg)
{
    struct target target;
    struct kin_monitor_ref ref;
    struct kin_info info = {0};
    struct kin_nursery n;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &target, END_OK);
    EXPECT_EQ(kin_monitor(target.addr, NULL), -EINVAL);
    EXPECT_EQ(kin_monitor(target.addr, &ref), 0);
    EXPECT_EQ(kin_wait_down(ref, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_wait_info(NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_wait_down(ref, &info, 1), KIN_TIMEOUT);
    EXPECT_EQ(kin_wait_down(ref, &info, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_wait_info(&info, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(info.vt, 0); /* untouched */
    let_end(&target);
    EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
    join_all(&n);
    return 0;
}

KIN_TEST(waits_answer_as_waits_do, "MON-DOWN")
{
    struct kin_info info;
    struct kin_monitor_ref ref;
    run_on_few_and_clean(wait_badly, NULL);
    EXPECT_EQ(kin_monitor((struct kin_addr){0, 0}, &ref), KIN_NOTASK); /* no task */
    EXPECT_EQ(kin_wait_down((struct kin_monitor_ref){1}, &info, 0), KIN_NOTASK);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_NOTASK);
    EXPECT_EQ(kin_demonitor((struct kin_monitor_ref){1}), KIN_STALE);
}

static int wait_until_cancelled(void *arg)
{
    struct target *target = arg;
    struct kin_monitor_ref ref;
    struct kin_info info;
    EXPECT_EQ(kin_monitor(target->addr, &ref), 0);
    kin_event_set(&target->has_begun);
    int rc = kin_wait_down(ref, &info, KIN_NEVER);
    EXPECT_EQ(rc, KIN_CANCELLED);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), KIN_CANCELLED);
    kin_mask(); /* what has come is there all the same */
    let_end(target);
    EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
    kin_unmask();
    return rc;
}

static int cancel_waits(void *arg)
{
    struct target target;
    struct kin_nursery n, watchers;
    (void)arg;
    open_collecting(&n);
    start_target(&n, &target, END_OK);
    kin_event_reset(&target.has_begun);
    EXPECT_EQ(kin_nursery_open(&watchers, NULL), 0);
    EXPECT_EQ(kin_spawn(&watchers, wait_until_cancelled, &target), 0);
    EXPECT_EQ(kin_event_wait(&target.has_begun, KIN_NEVER), 0);
    kin_nursery_cancel(&watchers, 0);
    EXPECT_EQ(kin_nursery_join(&watchers, NULL), KIN_CANCELLED);
    join_all(&n);
    return 0;
}

KIN_TEST(a_cancellation_ends_the_wait_and_loses_nothing, "MON-DOWN NCG-3")
{
    run_on_few_and_clean(cancel_waits, NULL);
}

/* ---- order ---- */

/* K256: many that end in one moment are told in the order of their numbers. */
static int end_at_once(void *arg)
{
    enum { TARGETS = 30 };
    struct target targets[TARGETS];
    struct kin_monitor_ref refs[TARGETS], last;
    struct kin_info info;
    struct kin_nursery n;
    (void)arg;
    open_collecting(&n);
    for (int i = 0; i < TARGETS; i++)
        start_target(&n, &targets[i], END_OK);
    for (int i = TARGETS - 1; i >= 0; i--)
        EXPECT_EQ(kin_monitor(targets[i].addr, &refs[i]), 0);
    for (int i = 0; i < TARGETS; i++)
        let_end(&targets[i]);
    join_all(&n);
    /* all are in the lane: any order of reading gives each its own */
    EXPECT_EQ(kin_monitor(targets[0].addr, &last), 0);
    for (int i = 0; i < TARGETS; i += 2) {
        EXPECT_EQ(kin_wait_down(refs[i], &info, 0), 0);
        EXPECT(kin_addr_same(info.u.down.who, targets[i].addr));
    }
    for (int i = TARGETS - 1; i >= 0; i -= 2)
        EXPECT_EQ(kin_wait_down(refs[i], &info, 0), 0);
    EXPECT_EQ(kin_wait_down(last, &info, 0), 0);
    return 0;
}

KIN_TEST(a_join_comes_after_every_down_of_the_nursery, "MON-DOWN")
{
    for (int i = 0; i < enough(20, 1); i++)
        run_on_few_and_clean(end_at_once, NULL);
}

/* ---- many ---- */

enum { CROWD = 1000 };

struct crowd {
    struct kin_addr addrs[CROWD];
    struct kin_event all_are_here;
    _Atomic int numbers, here, downs, stale;
    int size;
};

/* Watches some others, forgets some of them, and ends. */
static int be_one_of_many(void *arg)
{
    struct crowd *crowd = arg;
    struct kin_monitor_ref refs[8];
    struct kin_info info;
    int me = atomic_fetch_add(&crowd->numbers, 1);
    crowd->addrs[me] = kin_self_addr();
    if (atomic_fetch_add(&crowd->here, 1) == crowd->size - 1)
        kin_event_set(&crowd->all_are_here);
    EXPECT_EQ(kin_event_wait(&crowd->all_are_here, KIN_NEVER), 0);
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(kin_monitor(crowd->addrs[(me + i * 37) % crowd->size], &refs[i]), 0);
    for (int i = 0; i < 8; i += 3) {
        int rc = kin_demonitor(refs[i]);
        EXPECT(rc == 0 || rc == KIN_STALE);
        atomic_fetch_add(&crowd->stale, rc == KIN_STALE);
        EXPECT_EQ(kin_wait_down(refs[i], &info, KIN_NEVER), KIN_STALE);
    }
    int rc = kin_wait_down(refs[1], &info, 0); /* may be over already */
    EXPECT(rc == 0 || rc == KIN_TIMEOUT);
    atomic_fetch_add(&crowd->downs, rc == 0);
    return 0;
}

static int mix_many(void *arg)
{
    static struct crowd crowd;
    struct kin_nursery n;
    (void)arg;
    memset(&crowd, 0, sizeof crowd);
    crowd.size = enough(CROWD / (int)kin_test_scale(), 3);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    for (int i = 0; i < crowd.size; i++)
        EXPECT_EQ(kin_spawn(&n, be_one_of_many, &crowd), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

/* K165, K166 */
KIN_TEST(thousands_of_monitors_both_ways_leave_nothing, "MON-DOWN")
{
    run_on_few_and_clean(mix_many, NULL);
}
