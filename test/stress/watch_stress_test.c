/* SPDX-License-Identifier: MIT */
/*
 * Goal: whoever monitors, demonitors, links, unlinks and ends at the same moment as whom, each
 *       monitor gives exactly one Down, with the true reason, or none after a demonitor that
 *       returned 0; nothing of a link arrives after its unlink; nothing is left of any of it.
 * Method: generations of tasks on 1, 2 and 4 workers which do all that to each other at random,
 *         from the printed seed, and end in every way. Those who started them watch each of them
 *         and compare its Down with its outcome. Bounded by rounds.
 */
#include "otp/ends.h"

#if SANITIZED
enum { ROUNDS = 4 };
#else
enum { ROUNDS = 20 };
#endif
enum { SLOTS = 64, STARTERS = 4, BROOD = 24, STEPS = 40, KEPT = 12 };

static uint64_t step(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* Whom there is: the numbers of tasks that live or have lived. */
static struct world {
    _Atomic uint64_t tasks[SLOTS];
    _Atomic uint64_t number;
    _Atomic int downs, exits, revoked, asked;
} world;

static struct kin_addr somebody(uint64_t *random)
{
    return (struct kin_addr){0, atomic_load(&world.tasks[step(random) % SLOTS])};
}

/* ---- one that does everything ---- */

enum watch_state { NONE, PENDING, OVER };

struct busy {
    uint64_t random;
    struct kin_monitor_ref watches[KEPT];
    struct kin_addr targets[KEPT];
    enum watch_state states[KEPT];
    struct kin_link_ref links[KEPT];
    bool is_linked[KEPT];
    struct kin_link_ref unlinked[STEPS];
    int unlinked_count;
};

static void monitor_somebody(struct busy *busy, unsigned i)
{
    if (busy->states[i] == PENDING)
        return;
    busy->targets[i] = somebody(&busy->random);
    EXPECT_EQ(kin_monitor(busy->targets[i], &busy->watches[i]), 0);
    busy->states[i] = PENDING;
}

/* Nothing comes of a monitor that has ended. */
static void expect_over(struct busy *busy, unsigned i)
{
    struct kin_info info;
    int rc = kin_wait_down(busy->watches[i], &info, 0);
    EXPECT(rc == KIN_STALE || rc == KIN_CANCELLED);
    EXPECT_EQ(kin_demonitor(busy->watches[i]), KIN_STALE);
    busy->states[i] = OVER;
}

static void demonitor_one(struct busy *busy, unsigned i)
{
    if (busy->states[i] == NONE)
        return;
    int rc = kin_demonitor(busy->watches[i]);
    EXPECT(rc == KIN_STALE || (rc == 0 && busy->states[i] == PENDING));
    atomic_fetch_add(&world.revoked, rc == 0);
    expect_over(busy, i);
}

static void wait_for_one(struct busy *busy, unsigned i, kin_time deadline)
{
    struct kin_info info;
    if (busy->states[i] != PENDING)
        return;
    int rc = kin_wait_down(busy->watches[i], &info, deadline);
    EXPECT(rc == 0 || rc == KIN_TIMEOUT || rc == KIN_CANCELLED);
    if (rc != 0)
        return;
    EXPECT_EQ(info.kind, KIN_INFO_DOWN);
    EXPECT_EQ(info.u.down.ref.id, busy->watches[i].id);
    EXPECT(kin_addr_same(info.u.down.who, busy->targets[i]));
    EXPECT_EQ(info.u.down.status == 0, info.u.down.reason == KIN_DOWN_NORMAL);
    atomic_fetch_add(&world.downs, 1);
    expect_over(busy, i);
}

static void link_with_somebody(struct busy *busy, unsigned i)
{
    enum kin_exit_policy mine = (enum kin_exit_policy)(step(&busy->random) % 3);
    enum kin_exit_policy theirs = (enum kin_exit_policy)(step(&busy->random) % 3);
    if (busy->is_linked[i] || step(&busy->random) % 2) /* or everybody goes down at once */
        return;
    int rc = kin_link(somebody(&busy->random), mine, theirs, &busy->links[i]);
    EXPECT(rc == 0 || rc == KIN_NOPROC || rc == -EINVAL);
    busy->is_linked[i] = rc == 0;
}

static void unlink_one(struct busy *busy, unsigned i)
{
    if (!busy->is_linked[i] || busy->unlinked_count == STEPS)
        return;
    int rc = kin_unlink(busy->links[i]);
    EXPECT(rc == 0 || rc == KIN_STALE);
    EXPECT_EQ(kin_unlink(busy->links[i]), KIN_STALE);
    busy->unlinked[busy->unlinked_count++] = busy->links[i];
    busy->is_linked[i] = false;
}

static void read_exits(struct busy *busy)
{
    struct kin_info info;
    int rc;
    while ((rc = kin_wait_info(&info, 0)) == 0) {
        EXPECT_EQ(info.kind, KIN_INFO_EXIT);
        EXPECT_NE(info.u.exit.from.id, 0);
        EXPECT_NE(info.u.exit.reason, KIN_DOWN_NORMAL);
        EXPECT_NE(info.u.exit.status, 0);
        for (int i = 0; i < busy->unlinked_count; i++)
            EXPECT_NE(info.u.exit.ref.id, busy->unlinked[i].id);
        atomic_fetch_add(&world.exits, 1);
    }
    EXPECT(rc == KIN_TIMEOUT || rc == KIN_CANCELLED);
}

static void do_something(struct busy *busy)
{
    unsigned i = (unsigned)(step(&busy->random) % KEPT);
    switch (step(&busy->random) % 10) {
    case 0:
    case 1:
    case 2:
        monitor_somebody(busy, i);
        break;
    case 3:
        demonitor_one(busy, i);
        break;
    case 4:
        wait_for_one(busy, i, 0);
        break;
    case 5:
        wait_for_one(busy, i, kin_after(KIN_US(50)));
        break;
    case 6:
        link_with_somebody(busy, i);
        break;
    case 7:
        unlink_one(busy, i);
        break;
    case 8:
        read_exits(busy);
        break;
    default:
        kin_ignore(kin_yield());
        break;
    }
}

static int be_busy(void *arg)
{
    struct busy busy = {.random = *(uint64_t *)arg};
    atomic_store(&world.tasks[step(&busy.random) % SLOTS], kin_self_addr().id);
    uint64_t steps = step(&busy.random) % STEPS;
    for (uint64_t i = 0; i < steps; i++)
        do_something(&busy);
    for (unsigned i = 0; i < KEPT && step(&busy.random) % 4; i++)
        demonitor_one(&busy, i);
    if (kin_cancelled())
        atomic_fetch_add(&world.asked, 1);
    switch (step(&busy.random) % 8) {
    case 0:
        return -EIO;
    case 1:
        kin_fail(-EPIPE, "by chance");
    case 2:
        kin_panic("by chance");
    case 3:
        kin_ignore(kin_task_cancel(kin_self()));
        return kin_sleep(KIN_NEVER);
    case 4:
        return kin_cancelled() ? KIN_CANCELLED : 3;
    default:
        return 0;
    }
}

/* ---- those who start them ---- */

/* How a task ended, and what was told of it, is the same. */
static void compare(struct kin_nursery *n, struct kin_task_ref ref, const struct kin_info *info)
{
    struct kin_outcome how;
    kin_mask();
    EXPECT_EQ(kin_task_join(n, ref, &how, KIN_NEVER), 0);
    kin_unmask();
    EXPECT_EQ(info->u.down.reason, kin__down_reason(how.severity));
    EXPECT_EQ(info->u.down.status, how.status);
    EXPECT_EQ(info->u.down.who.id, ref.id);
}

static int start_some(void *arg)
{
    uint64_t random = *(uint64_t *)arg, seeds[BROOD];
    struct kin_monitor_ref watches[BROOD];
    struct kin_task_ref refs[BROOD];
    struct kin_info info;
    struct kin_nursery n;
    open_collecting(&n);
    for (int i = 0; i < BROOD; i++) {
        seeds[i] = step(&random);
        EXPECT_EQ(kin_spawn_with(&n, NULL, be_busy, &seeds[i], 0, &refs[i]), 0);
        EXPECT_EQ(kin_monitor(kin_task_addr(refs[i]), &watches[i]), 0);
        if (step(&random) % 8 == 0)
            kin_ignore(kin_task_cancel(refs[step(&random) % (uint64_t)(i + 1)]));
    }
    for (int i = 0; i < BROOD; i++) {
        EXPECT_EQ(kin_wait_down(watches[i], &info, KIN_NEVER), 0);
        compare(&n, refs[i], &info);
        EXPECT_EQ(kin_wait_down(watches[i], &info, 0), KIN_STALE);
    }
    join_all(&n);
    return 0;
}

static int start_rounds(void *arg)
{
    uint64_t seed = *(uint64_t *)arg;
    for (int round = 0; round < ROUNDS / (int)kin_test_scale() + 1; round++) {
        uint64_t seeds[STARTERS];
        struct kin_nursery n;
        memset(&world.tasks, 0, sizeof world.tasks);
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
        for (int i = 0; i < STARTERS; i++) {
            seeds[i] = step(&seed);
            EXPECT_EQ(kin_spawn(&n, start_some, &seeds[i]), 0);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST_LIMIT(everybody_watches_everybody, "MON-CREATE MON-DOWN LINK-CREATE LINK-EXIT", 120)
{
    uint64_t seed = kin_test_seed();
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        seed += workers;
        EXPECT_EQ(run_reporting(workers, start_rounds, &seed, NULL), 0);
        EXPECT_EQ(kin__party_count(), 0);
        EXPECT_EQ(kin__watch_count(), 0);
    }
    printf("%d downs, %d exits, %d revoked, %d asked\n", world.downs, world.exits, world.revoked,
           world.asked);
    EXPECT_GT(world.downs + world.revoked, 0);
}

/* ---- one link, ended and unlinked at once ---- */

struct duel {
    struct kin_addr addrs[2];
    struct kin_link_ref link;
    struct kin_event has_linked, may_go;
    _Atomic int here;
    int unlinked; /* what the referee got */
    bool was_asked;
};

static int end_in_duel(void *arg)
{
    struct duel *duel = arg;
    duel->addrs[0] = kin_self_addr();
    atomic_store(&duel->here, 1);
    kin_ignore(kin_event_wait(&duel->may_go, KIN_NEVER));
    return -EIO;
}

static int be_asked_in_duel(void *arg)
{
    struct duel *duel = arg;
    await(&duel->here, 1);
    EXPECT_EQ(kin_link(duel->addrs[0], KIN_EXIT_PROPAGATE, KIN_EXIT_IGNORE, &duel->link), 0);
    kin_event_set(&duel->has_linked);
    int rc = kin_event_wait(&duel->may_go, KIN_NEVER); /* the other one may be over already */
    EXPECT(rc == 0 || rc == KIN_CANCELLED);
    duel->unlinked = kin_unlink(duel->link);
    duel->was_asked = kin_cancelled();
    for (int i = 0; i < 50; i++)
        kin_ignore(kin_yield());
    EXPECT_EQ(kin_cancelled(), duel->was_asked); /* nothing arrives after the unlink */
    EXPECT_EQ(duel->was_asked, duel->unlinked == KIN_STALE);
    return 0;
}

static int run_duels(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300 / (int)kin_test_scale() + 5; i++) {
        struct duel duel = {.unlinked = 1};
        struct kin_nursery n;
        open_collecting(&n);
        EXPECT_EQ(kin_spawn(&n, end_in_duel, &duel), 0);
        EXPECT_EQ(kin_spawn(&n, be_asked_in_duel, &duel), 0);
        EXPECT_EQ(kin_event_wait(&duel.has_linked, KIN_NEVER), 0);
        kin_event_set(&duel.may_go);
        join_all(&n);
    }
    return 0;
}

KIN_TEST(an_unlink_and_an_end_at_once_agree, "LINK-EXIT")
{
    run_on_few_and_clean(run_duels, NULL);
}
