/* SPDX-License-Identifier: MIT */
/*
 * Goal: a task that holds no name but its own reaches nobody by making names up, and writes no dump
 *       to what it may not write to.
 * Method: public calls only: numbers around one's own and around those of old lives.
 */
#include "api/budgets.h"

#include <kin/monitor.h>
#include <kin/view.h>

#include <fcntl.h>

#define VICTIMS 50
#define GUESSES 4000

struct crowd {
    struct kin_event go;
    _Atomic int cancelled;
    uint64_t old; /* a name of a life that is over */
};

static int be_victim(void *arg)
{
    struct crowd *crowd = arg;
    int rc = kin_event_wait(&crowd->go, KIN_NEVER);
    atomic_fetch_add(&crowd->cancelled, rc == KIN_CANCELLED);
    return rc;
}

static void guess(uint64_t id)
{
    if (id == kin_self().id)
        return;
    EXPECT_EQ(kin_task_cancel((struct kin_task_ref){id}), KIN_STALE);
}

/* Counts up and down, in both halves of the number. */
static int guess_names(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t bases[2] = {kin_self().id, crowd->old};
    for (int b = 0; b < 2; b++) {
        for (uint64_t k = 1; k < GUESSES; k++) {
            guess(bases[b] + k);
            guess(bases[b] - k);
            guess(bases[b] + (k << 26));
            guess(bases[b] - (k << 26));
            guess(((uint64_t)1 << 26) + k);
        }
    }
    return 0;
}

static int name_oneself(void *arg)
{
    *(uint64_t *)arg = kin_self().id;
    return 0;
}

static int have_guessers(void *arg)
{
    struct crowd crowd = {.old = 0};
    (void)arg;
    KIN_NURSERY(first);
    EXPECT_EQ(kin_spawn(&first, name_oneself, &crowd.old), 0);
    EXPECT_EQ(kin_nursery_join(&first, NULL), 0);
    KIN_NURSERY(n);
    for (int i = 0; i < VICTIMS; i++)
        EXPECT_EQ(kin_spawn(&n, be_victim, &crowd), 0);
    KIN_NURSERY(confined);
    EXPECT_EQ(spawn_able(&confined, KIN_CAP_NONE, guess_names, &crowd), 0);
    EXPECT_EQ(kin_nursery_join(&confined, NULL), 0);
    kin_event_set(&crowd.go);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&crowd.cancelled), 0);
    return 0;
}

KIN_TEST(names_that_are_made_up_reach_nobody, "SCHED:15.1.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, have_guessers, NULL), 0);
}

static int dump(void *arg)
{
    int expected = kin_caps() & KIN_CAP_FILE ? 0 : KIN_NOCAP;
    EXPECT_EQ(kin_dump(*(int *)arg), expected);
    EXPECT_EQ(kin_lock_cycles(*(int *)arg), expected);
    return 0;
}

static int have_dumpers(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(spawn_able(&n, KIN_CAP_NONE, dump, arg), 0);
    EXPECT_EQ(spawn_able(&n, KIN_CAP_FILE, dump, arg), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_dump_needs_what_a_write_needs, "SCHED:10.2.4")
{
    char path[] = "/tmp/kin-dump-XXXXXX";
    int fd = kin_test_mkstemp(path);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 1, have_dumpers, &fd), 0);
    EXPECT_EQ(close(fd), 0);
}
