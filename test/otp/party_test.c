/* SPDX-License-Identifier: MIT */
/*
 * Goal: a party is found by the number of its task as long as that is not over, and by nobody
 *       afterwards; its end comes before its nursery counts it off, names before servers before
 *       watchers; nothing is left when memory runs out.
 * Method: white box: parties made and looked at by hand, in this runtime and in two at once.
 */
#include "otp/ends.h"

#include "plat/plat.h"
#include "scope/scope.h"

#include <pthread.h>

/* ---- finding ---- */

static struct kin__party *need(uint64_t task, int *rc, struct kin_outcome *how)
{
    return kin__party_need(task, kin__task_sched(kin__task_self()), rc, how);
}

static int find(void *arg)
{
    struct target target;
    struct kin_outcome how;
    struct kin_nursery n;
    int rc = 1;
    (void)arg;
    uint64_t me = kin_self_addr().id;
    EXPECT(kin__party_lock(me) == NULL); /* most tasks are none */
    EXPECT(kin__party_lock(0) == NULL);
    struct kin__party *mine = kin__party_self(kin__task_self());
    EXPECT(mine != NULL);
    EXPECT_EQ(kin__party_task(mine), me);
    EXPECT_PTR(mine->sched, kin__task_sched(kin__task_self()));
    kin__party_unlock(mine);
    EXPECT_PTR(kin__party_lock(me), mine);
    kin__party_unlock(mine);
    EXPECT_PTR(need(me, &rc, &how), mine); /* the same one */
    EXPECT_EQ(rc, 0);
    kin__party_unlock(mine);
    open_collecting(&n);
    start_target(&n, &target, END_ERROR);
    struct kin__party *its = need(target.addr.id, &rc, &how);
    EXPECT(its != NULL && its != mine);
    EXPECT_EQ(rc, 0);
    kin__party_unlock(its);
    let_end(&target);
    EXPECT_EQ(kin_task_join(&n, target.ref, NULL, KIN_NEVER), 0);
    EXPECT(kin__party_lock(target.addr.id) == NULL);
    EXPECT(need(target.addr.id, &rc, &how) == NULL);
    EXPECT_EQ(rc, KIN_NOPROC);
    EXPECT_EQ(how.task, target.addr.id); /* its frame is kept: how it ended is known */
    EXPECT_EQ(how.status, -EIO);
    join_all(&n);
    EXPECT(need(target.addr.id, &rc, &how) == NULL);
    EXPECT_EQ(rc, KIN_NOPROC);
    EXPECT_EQ(how.task, target.addr.id); /* nobody has become a party in its place */
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    EXPECT_EQ(how.status, -EIO);
    EXPECT(need(target.addr.id + (UINT64_C(1) << KIN__FRAME_INDEX_BITS), &rc, &how) == NULL);
    EXPECT_EQ(how.task, 0); /* another one, of the same frame */
    EXPECT(need(UINT64_MAX, &rc, &how) == NULL);
    EXPECT_EQ(rc, KIN_NOPROC);
    return 0;
}

KIN_TEST(a_party_is_found_while_its_task_is_not_over, "")
{
    run_on_few_and_clean(find, NULL);
}

/* ---- frames that come back ---- */

static int be_party_once(void *arg)
{
    struct kin__party **first = arg;
    struct kin__party *party = kin__party_self(kin__task_self());
    EXPECT(party != NULL);
    EXPECT(!party->is_over && party->exit_severity == 0 && party->last == NULL);
    EXPECT(party->news == 0 && kin__list_is_empty(&party->watches));
    EXPECT(kin__list_is_empty(&party->watchers) && kin__list_is_empty(&party->names));
    party->exit_severity = KIN_SEV_PANIC; /* what an earlier life leaves is not there in the next */
    party->letter_newest = party->letter_oldest = 99;
    kin__party_unlock(party);
    bool is_same = *first == party;
    *first = party;
    return is_same;
}

static int come_back(void *arg)
{
    struct kin__party *party = NULL;
    int again = 0;
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct kin_outcome how;
        struct kin_task_ref ref;
        struct kin_nursery n;
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
        EXPECT_EQ(kin_spawn_with(&n, NULL, be_party_once, &party, 0, &ref), 0);
        EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
        again += how.value;
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    EXPECT_GT(again, 0); /* the memory of a party is that of its frame */
    return 0;
}

KIN_TEST(a_party_of_a_frame_that_comes_back_is_new, "")
{
    EXPECT_EQ(run_reporting(1, come_back, NULL, NULL), 0);
    EXPECT_EQ(kin__party_count(), 0);
}

/* ---- who is none ---- */

struct runtimes {
    _Atomic uint64_t other; /* a task of the other runtime */
    _Atomic int is_done;
};

static int be_other_runtime(void *arg)
{
    struct runtimes *runtimes = arg;
    struct kin__party *party = kin__party_self(kin__task_self());
    EXPECT(party != NULL);
    kin__party_unlock(party);
    atomic_store(&runtimes->other, kin_self_addr().id);
    await(&runtimes->is_done, 1);
    return 0;
}

static int be_internal(void *arg)
{
    struct runtimes *runtimes = arg;
    atomic_store(&runtimes->other, kin_self_addr().id);
    await(&runtimes->is_done, 1);
    return 0;
}

static int look_across(void *arg)
{
    struct runtimes *runtimes = arg;
    static struct runtimes own; /* may be looked at after this task */
    struct kin_outcome how;
    struct kin_monitor_ref ref;
    struct kin_link_ref link;
    struct kin_info info;
    int rc;
    while (atomic_load(&runtimes->other) == 0)
        kin_ignore(kin_yield());
    uint64_t other = atomic_load(&runtimes->other);
    EXPECT(need(other, &rc, &how) == NULL); /* another runtime's */
    EXPECT_EQ(rc, KIN_NOPROC);
    EXPECT_EQ(kin_monitor((struct kin_addr){0, other}, &ref), 0);
    EXPECT_EQ(kin_wait_down(ref, &info, 0), 0);
    EXPECT_EQ(info.u.down.reason, KIN_DOWN_NOPROC);
    EXPECT_EQ(kin_link((struct kin_addr){0, other}, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &link),
              KIN_NOPROC);
    EXPECT_EQ(kin__task_start_internal(kin__task_sched(kin__task_self()), be_internal, &own, "it"),
              0);
    while (atomic_load(&own.other) == 0)
        kin_ignore(kin_yield());
    EXPECT(need(atomic_load(&own.other), &rc, &how) == NULL); /* the runtime's own */
    EXPECT_EQ(rc, KIN_NOPROC);
    atomic_store(&own.is_done, 1);
    atomic_store(&runtimes->is_done, 1);
    return 0;
}

static void *run_other(void *arg)
{
    EXPECT_EQ(run_reporting(1, be_other_runtime, arg, NULL), 0);
    return NULL;
}

KIN_TEST(tasks_of_another_runtime_and_internal_ones_are_nobody, "")
{
    struct runtimes runtimes = {0};
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, run_other, &runtimes), 0);
    EXPECT_EQ(run_reporting(1, look_across, &runtimes, NULL), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(kin__party_count(), 0);
}

/* ---- memory ---- */

/* Fails each request for memory of a call once, until the call succeeds; what was got before stays,
 * so the next round asks for the next thing. How many failed. */
static int fail_until(int (*call)(struct kin_addr who), struct kin_addr who)
{
    int failures = 0, rc;
    do {
        uint64_t parties = kin__party_count(), watches = kin__watch_count();
        kin__plat_fail_after(failures ? 2 : 1, false);
        rc = call(who);
        kin__plat_fail_after(0, false);
        EXPECT(rc == 0 || rc == -ENOMEM);
        if (rc == 0)
            return failures;
        EXPECT_EQ(kin__watch_count(), watches);
        EXPECT_LE(kin__party_count(), parties + 1); /* the caller may have become one */
        struct kin__party *party = kin__party_lock(kin_self_addr().id);
        if (party) {
            EXPECT(kin__list_is_empty(&party->watches) && kin__list_is_empty(&party->watchers));
            kin__party_unlock(party);
        }
    } while (++failures < 10);
    return failures;
}

static int monitor_it(struct kin_addr who)
{
    struct kin_monitor_ref ref = {9};
    int rc = kin_monitor(who, &ref);
    EXPECT_EQ(ref.id == 9, rc < 0);
    return rc;
}

static int link_with_it(struct kin_addr who)
{
    struct kin_link_ref ref = {9};
    int rc = kin_link(who, KIN_EXIT_IGNORE, KIN_EXIT_IGNORE, &ref);
    EXPECT_EQ(ref.id == 9, rc < 0);
    return rc;
}

static int wait_for_it(struct kin_addr who)
{
    struct kin_info info;
    (void)who;
    int rc = kin_wait_info(&info, 0);
    return rc == KIN_TIMEOUT ? 0 : rc;
}

struct scarce {
    int (*call)(struct kin_addr who);
    int expected;
};

/* Takes frames of tasks until one lies in another chunk of parties than the caller's. */
static int run_scarce(void *arg)
{
    struct scarce *scarce = arg;
    enum { FAR = 300 };
    static struct target targets[FAR];
    struct kin_nursery n;
    open_collecting(&n);
    for (int i = 0; i < FAR; i++)
        start_target(&n, &targets[i], END_OK);
    EXPECT_EQ(fail_until(scarce->call, targets[FAR - 1].addr), scarce->expected);
    for (int i = 0; i < FAR; i++)
        let_end(&targets[i]);
    join_all(&n);
    return 0;
}

/* Requests of a first call: the pool of watches takes two, each chunk of parties one. */
KIN_TEST(a_monitor_without_memory_leaves_nothing, "")
{
    struct scarce scarce = {monitor_it, 4};
    EXPECT_EQ(run_reporting(1, run_scarce, &scarce, NULL), 0);
    EXPECT_EQ(kin__party_count(), 0);
    EXPECT_EQ(kin__watch_count(), 0);
}

KIN_TEST(a_link_without_memory_leaves_nothing, "")
{
    struct scarce scarce = {link_with_it, 4};
    EXPECT_EQ(run_reporting(1, run_scarce, &scarce, NULL), 0);
    EXPECT_EQ(kin__party_count(), 0);
    EXPECT_EQ(kin__watch_count(), 0);
}

KIN_TEST(a_wait_for_news_without_memory_leaves_nothing, "")
{
    struct scarce scarce = {wait_for_it, 1};
    EXPECT_EQ(run_reporting(1, run_scarce, &scarce, NULL), 0);
    EXPECT_EQ(kin__party_count(), 0);
}

/* ---- the end ---- */

struct told {
    struct kin__note note;
    _Atomic int done;
};

static void done_and_count(struct kin__note *note)
{
    atomic_fetch_add(&KIN__CONTAINER_OF(note, struct told, note)->done, 1);
}

static void tell(uint64_t task, struct told *told, enum kin_info_kind kind)
{
    struct kin__party *party = kin__party_lock(task);
    EXPECT(party != NULL);
    memset(told, 0, sizeof *told);
    told->note.info.kind = kind;
    told->note.info.u.lease.name = "a name";
    told->note.done = done_and_count;
    kin__note_tell_and_unlock(party, &told->note);
}

/* Reads one lease, is told two notes, and ends. */
static int leave_notes(void *arg)
{
    struct told *told = arg;
    struct kin_info info;
    uint64_t me = kin_self_addr().id;
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    tell(me, &told[0], KIN_INFO_LEASE);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_STR(info.u.lease.name, "a name");
    EXPECT_EQ(atomic_load(&told[0].done), 0); /* its name can still be looked at */
    tell(me, &told[1], KIN_INFO_LEASE);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&told[0].done), 1); /* until the next one */
    tell(me, &told[2], KIN_INFO_LEASE);
    tell(me, &told[3], KIN_INFO_DOWN);
    EXPECT_EQ(atomic_load(&told[1].done), 0);
    return 0;
}

static int end_with_notes(void *arg)
{
    struct told told[4];
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, leave_notes, told), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(atomic_load(&told[i].done), 1); /* each once */
    return 0;
}

KIN_TEST(notes_that_nobody_reads_are_given_back_once, "")
{
    run_on_few_and_clean(end_with_notes, NULL);
}

/* The end of a party is through before somebody who waits for the end of its task goes on. */
static int end_before_join(void *arg)
{
    (void)arg;
    for (int i = 0; i < enough(100, 1); i++) {
        struct target target;
        struct kin_monitor_ref ref;
        struct kin_info info;
        struct kin_outcome how;
        struct kin_nursery n;
        open_collecting(&n);
        start_target(&n, &target, i % 2 ? END_OK : END_ERROR);
        EXPECT_EQ(kin_monitor(target.addr, &ref), 0);
        let_end(&target);
        EXPECT_EQ(kin_task_join(&n, target.ref, &how, KIN_NEVER), 0);
        EXPECT_EQ(how.status, i % 2 ? 0 : -EIO);
        EXPECT_EQ(kin_wait_down(ref, &info, 0), 0); /* it has been told before */
        join_all(&n);
    }
    return 0;
}

KIN_TEST(who_joins_a_task_comes_after_everybody_who_is_told, "")
{
    run_on_few_and_clean(end_before_join, NULL);
}
