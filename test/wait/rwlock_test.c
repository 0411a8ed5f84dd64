/* SPDX-License-Identifier: MIT */
/*
 * Goal: readers and writers go in exactly in the order of one line, in batches, and whoever leaves
 * the line lets in those it kept out.
 * Method: lines whose order is known on any number of workers, and a log of who was in with whom.
 */
#include "wait/in_line.h"

#include <kin/sync.h>

#include <sched.h>

/* The crowd is the first thing in it. */
static struct kin__crowd *crowd_of(struct kin_rwlock *rwlock)
{
    return (struct kin__crowd *)(void *)rwlock;
}

struct shared {
    struct kin_rwlock rwlock;
    const char *kinds; /* 'R' or 'W' for each number */
    struct kin_event go_on;
    _Atomic int readers, writers; /* that are inside */
    _Atomic int total;            /* that ever were */
};

static int go_in(void *arg)
{
    struct in_line *me = arg;
    struct shared *shared = me->object;
    bool reads = shared->kinds[me->number] == 'R';
    me->rc = reads ? kin_rwlock_read_lock(&shared->rwlock, me->deadline)
                   : kin_rwlock_write_lock(&shared->rwlock, me->deadline);
    if (me->rc < 0)
        return 0;
    atomic_fetch_add(reads ? &shared->readers : &shared->writers, 1);
    shared->total++;
    EXPECT_EQ(kin_event_wait(&shared->go_on, KIN_NEVER), 0);
    atomic_fetch_sub(reads ? &shared->readers : &shared->writers, 1);
    if (reads)
        kin_rwlock_read_unlock(&shared->rwlock);
    else
        kin_rwlock_write_unlock(&shared->rwlock);
    return 0;
}

/* Everybody inside leaves; those outside wait for the next round of the event. */
static void let_out(struct shared *shared)
{
    kin_event_set(&shared->go_on);
    kin_event_reset(&shared->go_on);
}

static void await_inside(struct shared *shared, int readers, int writers)
{
    while (shared->readers != readers || shared->writers != writers) /* ends: by the alarm */
        kin_ignore(kin_yield());
    for (int i = 0; i < 20; i++)
        kin_ignore(kin_yield());
    EXPECT_EQ(shared->readers, readers); /* and stays so */
    EXPECT_EQ(shared->writers, writers);
}

/* R R | W | R R R | W W: five batches of two, one, three, one, one. */
static int in_batches(void *arg)
{
    struct shared shared = {.kinds = "WRRWRRRWW"};
    static struct line line;
    (void)arg;
    EXPECT_EQ(kin_rwlock_read_lock(&shared.rwlock, KIN_NEVER), 0);
    line_open(&line, crowd_of(&shared.rwlock), go_in, &shared);
    for (int i = 0; i < 9; i++)
        line_add(&line, KIN_NEVER); /* the readers too: a writer is before them */
    EXPECT_EQ(kin_rwlock_read_lock(&shared.rwlock, 0), KIN_TIMEOUT);
    kin_rwlock_read_unlock(&shared.rwlock);
    static const int batches[][2] = {{0, 1}, {2, 0}, {0, 1}, {3, 0}, {0, 1}, {0, 1}};
    for (int i = 0, total = 0; i < 6; i++) {
        await_inside(&shared, batches[i][0], batches[i][1]);
        total += batches[i][0] + batches[i][1];
        EXPECT_EQ(shared.total, total);
        let_out(&shared);
    }
    line_join(&line);
    return 0;
}

KIN_TEST(readers_and_writers_go_in_as_they_stand_in_line, "G090 N016")
{
    EXPECT_EQ(run_reporting(1, in_batches, NULL, NULL), 0);
}

/* A writer that leaves lets in the readers behind it, beside those inside. */
static int writer_leaves(void *arg)
{
    struct shared shared = {.kinds = "WRRWR"};
    static struct line line;
    (void)arg;
    EXPECT_EQ(kin_rwlock_read_lock(&shared.rwlock, KIN_NEVER), 0);
    line_open(&line, crowd_of(&shared.rwlock), go_in, &shared);
    for (int i = 0; i < 5; i++)
        line_add(&line, i == 3 ? kin_after(KIN_SEC(1000)) : KIN_NEVER);
    EXPECT_EQ(kin_task_cancel(line.refs[0]), 0);
    await_inside(&shared, 2, 0);
    EXPECT_EQ(in_line(crowd_of(&shared.rwlock)), 2);
    EXPECT_EQ(kin_task_cancel(line.refs[3]), 0);
    await_inside(&shared, 3, 0);
    kin_event_set(&shared.go_on);
    line_join(&line);
    kin_rwlock_read_unlock(&shared.rwlock);
    EXPECT_EQ(kin_rwlock_write_lock(&shared.rwlock, 0), 0);
    kin_rwlock_write_unlock(&shared.rwlock);
    EXPECT_EQ(line.waiters[0].rc, KIN_CANCELLED);
    EXPECT_EQ(line.waiters[3].rc, KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_writer_that_leaves_keeps_nobody_out, "T061")
{
    run_on_few(writer_leaves, NULL);
}

/* More readers than one batch of wakes, all let in by one unlock. */
static int many_readers(void *arg)
{
    enum { READERS = 200 };
    char kinds[READERS + 1] = {0};
    struct shared shared = {.kinds = kinds};
    static struct line line;
    (void)arg;
    memset(kinds, 'R', READERS);
    EXPECT_EQ(kin_rwlock_write_lock(&shared.rwlock, KIN_NEVER), 0);
    line_open(&line, crowd_of(&shared.rwlock), go_in, &shared);
    for (int i = 0; i < READERS; i++)
        line_add(&line, KIN_NEVER);
    kin_rwlock_write_unlock(&shared.rwlock);
    expect_quiet(crowd_of(&shared.rwlock));
    await_inside(&shared, READERS, 0);
    EXPECT_EQ(kin_rwlock_write_lock(&shared.rwlock, 0), KIN_TIMEOUT);
    kin_event_set(&shared.go_on);
    line_join(&line);
    EXPECT_EQ(kin_rwlock_write_lock(&shared.rwlock, 0), 0);
    kin_rwlock_write_unlock(&shared.rwlock);
    return 0;
}

KIN_TEST(one_unlock_lets_in_all_readers_at_the_head, "G089")
{
    run_on_few(many_readers, NULL);
}
