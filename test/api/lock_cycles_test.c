/* SPDX-License-Identifier: MIT */
/*
 * Goal: rings of locks of every kind are found on request, and nothing else is taken for one.
 * Method: black box. Tasks that hold a mutex, or a rwlock as writer, and want the next one, in
 *         every mixture; readers in between, whom nobody knows; a ring across two runtimes, of
 *         which neither may follow the other's tasks.
 */
#include "api/in_runtime.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum { RING = 3 };

struct lock {
    struct kin_mutex mutex;
    struct kin_rwlock rwlock;
};

struct ring {
    struct lock locks[RING];
    unsigned kinds; /* bit i: lock i is a rwlock */
    unsigned reads; /* bit i: who holds lock i reads */
    struct kin_event go;
    _Atomic int hold;
};

static int take(struct ring *ring, int i, bool reads)
{
    if (!(ring->kinds >> i & 1))
        return kin_mutex_lock(&ring->locks[i].mutex, KIN_NEVER);
    return reads ? kin_rwlock_read_lock(&ring->locks[i].rwlock, KIN_NEVER)
                 : kin_rwlock_write_lock(&ring->locks[i].rwlock, KIN_NEVER);
}

static void give(struct ring *ring, int i, bool reads)
{
    if (!(ring->kinds >> i & 1))
        kin_mutex_unlock(&ring->locks[i].mutex);
    else if (reads)
        kin_rwlock_read_unlock(&ring->locks[i].rwlock);
    else
        kin_rwlock_write_unlock(&ring->locks[i].rwlock);
}

struct member {
    struct ring *ring;
    int number;
};

static int hold_one_want_the_next(void *arg)
{
    const struct member *member = arg;
    struct ring *ring = member->ring;
    int mine = member->number, next = (mine + 1) % RING;
    bool reads = ring->reads >> mine & 1;
    EXPECT_EQ(take(ring, mine, reads), 0);
    atomic_fetch_add(&ring->hold, 1);
    EXPECT_EQ(kin_event_wait(&ring->go, KIN_NEVER), 0);
    int rc = take(ring, next, false);
    if (rc == 0)
        give(ring, next, false);
    give(ring, mine, reads);
    return rc;
}

/* Looks until there is a ring, or often enough. */
static int look(int fd, int times)
{
    int found = 0;
    for (int i = 0; i < times && found == 0; i++) {
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(200))), 0);
        found = kin_lock_cycles(fd);
    }
    return found;
}

static int close_a_ring(struct ring *ring, bool is_found)
{
    char text[1024] = {0};
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_NONBLOCK), 0);
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.name = "ring-member";
    KIN_NURSERY(n);
    for (int i = 0; i < RING; i++)
        EXPECT_EQ(kin_spawn_with(&n, &options, hold_one_want_the_next,
                                 KIN_ARGS(struct member, ring, i), NULL), 0);
    await(&ring->hold, RING);
    EXPECT_EQ(kin_lock_cycles(ends[1]), 0); /* they hold one each and want none */
    kin_event_set(&ring->go);
    EXPECT_EQ(look(ends[1], is_found ? 10000 : 10), is_found);
    if (is_found) {
        EXPECT_GT(read(ends[0], text, sizeof text - 1), 0);
        EXPECT(strstr(text, "cycle: task "));
        EXPECT(strstr(text, " (ring-member) waits for "));
        EXPECT(strstr(text, " (ring-member)\n"));
        EXPECT_EQ(strstr(text, "waits for mutex ") != NULL, ring->kinds != 7);
        EXPECT_EQ(strstr(text, "waits for rwlock ") != NULL, ring->kinds != 0);
    }
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_lock_cycles(ends[1]), 0);
    EXPECT_EQ(close(ends[0]), 0);
    EXPECT_EQ(close(ends[1]), 0);
    return 0;
}

static int close_every_ring(void *arg)
{
    (void)arg;
    for (unsigned kinds = 0; kinds < 1u << RING; kinds++) {
        struct ring ring = {.kinds = kinds};
        EXPECT_EQ(close_a_ring(&ring, true), 0);
    }
    /* a reader is not known by name: nothing is said, rather than something wrong */
    struct ring ring = {.kinds = 2, .reads = 2};
    EXPECT_EQ(close_a_ring(&ring, false), 0);
    return 0;
}

KIN_TEST(rings_of_mutexes_and_rwlocks_are_found, "A13")
{
    EXPECT_EQ(run_reporting(1, close_every_ring, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, close_every_ring, NULL, NULL), 0);
}

/* ---- looking while nurseries come and go ---- */

static int open_and_join(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        int one = 1;
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, return_it, &one), 0);
        EXPECT_EQ(kin_spawn(&n, return_it, &one), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

static int look_again_and_again(void *arg)
{
    for (int i = 0; i < 300; i++) {
        EXPECT_EQ(kin_lock_cycles(*(int *)arg), 0);
        EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

static int look_meanwhile(void *arg)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)arg;
    EXPECT_GE(fd, 0);
    KIN_NURSERY(n);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin_spawn(&n, open_and_join, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, look_again_and_again, &fd), 0);
    EXPECT_EQ(kin_spawn(&n, look_again_and_again, &fd), 0);
    int rc = kin_nursery_join(&n, NULL);
    EXPECT_EQ(close(fd), 0);
    return rc;
}

/* ThreadSanitizer sees whether a nursery that is being opened is read too early. */
KIN_TEST(rings_are_looked_for_while_nurseries_come_and_go, "A13")
{
    EXPECT_EQ(run_reporting(4, look_meanwhile, NULL, NULL), 0);
}

/* ---- two runtimes ---- */

struct across {
    struct kin_mutex left, right;
    _Atomic int holds[2], is_over;
};

/* Holds one and wants the other, which a task of the other runtime holds. */
static int want_across(void *arg)
{
    struct across *across = arg;
    EXPECT_EQ(kin_mutex_lock(&across->left, KIN_NEVER), 0);
    atomic_store(&across->holds[0], 1);
    await(&across->holds[1], 1);
    EXPECT_EQ(kin_mutex_lock(&across->right, KIN_NEVER), 0); /* when the others are cancelled */
    kin_mutex_unlock(&across->right);
    kin_mutex_unlock(&across->left);
    return 0;
}

static int want_back(void *arg)
{
    struct across *across = arg;
    EXPECT_EQ(kin_mutex_lock(&across->right, KIN_NEVER), 0);
    atomic_store(&across->holds[1], 1);
    await(&across->holds[0], 1);
    int rc = kin_mutex_lock(&across->left, KIN_NEVER);
    EXPECT_EQ(rc, KIN_CANCELLED);
    kin_mutex_unlock(&across->right);
    return rc;
}

static int want_across_in_a_child(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, want_across, arg), 0);
    return kin_nursery_join(&n, NULL);
}

static void *run_the_other(void *arg)
{
    struct across *across = arg;
    EXPECT_EQ(run_reporting(1, want_across_in_a_child, arg, NULL), 0);
    atomic_store(&across->is_over, 1);
    return NULL;
}

static int look_across(void *arg)
{
    static struct across across;
    pthread_t thread;
    (void)arg;
    memset(&across, 0, sizeof across);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, want_back, &across), 0);
    await(&across.holds[1], 1); /* who is older is the one that would report the ring */
    EXPECT_EQ(pthread_create(&thread, NULL, run_the_other, &across), 0);
    await(&across.holds[0], 1);
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(200))), 0);
        EXPECT_EQ(kin_lock_cycles(2), 0); /* the other runtime's tasks are its own */
    }
    kin_nursery_cancel(&n, 0);
    while (atomic_load(&across.is_over) == 0) /* it ends while it is looked at */
        EXPECT_EQ(kin_lock_cycles(2), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

static int look_across_often(void *arg)
{
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(look_across(arg), 0);
    return 0;
}

KIN_TEST(a_ring_across_runtimes_is_not_followed, "A13")
{
    (void)unsetenv("KIN_HARD"); /* it takes two workers: one that computes is not replaced */
    EXPECT_EQ(run_reporting(2, look_across_often, NULL, NULL), 0);
}
