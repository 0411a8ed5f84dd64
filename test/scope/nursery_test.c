/* SPDX-License-Identifier: MIT */
/*
 * Goal: the nursery's word makes the five legal moves and no other, and a late caller hits nobody.
 * Method: white box: every pair of states, copies of handles kept beyond the join, tokens counted.
 */
#include "api/in_runtime.h"

#include "scope/scope.h"
#include "task/extra.h"
#include "task/word.h"

#include <pthread.h>

static struct kin__scope *scope_of(struct kin_nursery *n)
{
    struct kin__handle *handle = (struct kin__handle *)(void *)n;

    return kin__load_relaxed(&handle->scope); /* relaxed: the test is the owner */
}

static uint64_t word_of(struct kin_nursery *n)
{
    return kin__load_acquire(&scope_of(n)->word); /* pairs with the release of the last move */
}

static bool is_legal(int from, int to)
{
    static const int moves[5][2] = {{0, 1}, {0, 2}, {1, 3}, {1, 2}, {2, 4}};

    for (int i = 0; i < 5; i++)
        if (moves[i][0] == from && moves[i][1] == to)
            return true;
    return false;
}

KIN_TEST(five_moves_are_legal_and_keep_the_count, "NSM:2.3")
{
    static struct kin__scope scope;

    for (int from = 0; from < 5; from++) {
        for (int to = 0; to < 5; to++) {
            if (!is_legal(from, to))
                continue;
            uint64_t word = 1234 * KIN__LIVE_ONE | (uint64_t)from;
            kin__store_relaxed(&scope.word, word); /* alone: nobody else is here */
            kin__scope_move_locked(&scope, (enum kin_nursery_state)to);
            word = kin__load_relaxed(&scope.word); /* alone: as above */
            EXPECT_EQ(kin__scope_state(word), to);
            EXPECT_EQ(kin__scope_live(word), 1234);
        }
    }
}

KIN_TEST(every_other_move_aborts, "NSM:2.4")
{
    static struct kin__scope scope;

    for (int from = 0; from < 5; from++) {
        for (int to = 0; to < 5; to++) {
            if (is_legal(from, to))
                continue;
            kin__store_relaxed(&scope.word, (uint64_t)from); /* alone: nobody else is here */
            EXPECT_ABORT("NSM:2.3")
            {
                kin__scope_move_locked(&scope, (enum kin_nursery_state)to);
            }
        }
    }
}

static int count_tokens(void *arg)
{
    struct kin_nursery n;
    int zero = 0;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin__scope_live(word_of(&n)), 1); /* the body */
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), 0);
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), 0);
    EXPECT_EQ(kin__scope_live(word_of(&n)), 3);
    kin_nursery_close(&n);
    EXPECT_EQ(kin__scope_live(word_of(&n)), 2);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin__scope_live(word_of(&n)), 2);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin__scope_live(word_of(&n)), 1);
    kin_nursery_close(&n);
    EXPECT_EQ(kin__scope_live(word_of(&n)), 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(the_count_is_the_children_and_the_body_while_open, "B1 NSM:7.1")
{
    EXPECT_EQ(run_reporting(1, count_tokens, NULL, NULL), 0);
}

static int refuse_without_a_trace(void *arg)
{
    struct kin_nursery n;
    char big[100] = {0};
    int zero = 0;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    kin_nursery_close(&n);
    uint64_t word = word_of(&n);
    for (int i = 0; i < 1000; i++) {
        EXPECT_EQ(kin_spawn(&n, return_it, &zero), KIN_NOSCOPE);
        EXPECT_EQ(kin_spawn_copy(&n, return_it, big, sizeof big), KIN_NOSCOPE);
    }
    EXPECT_EQ(word_of(&n), word);
    EXPECT_PTR(scope_of(&n)->arena.chunks, NULL);
    EXPECT(kin__list_is_empty(&scope_of(&n)->children));
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_refused_spawn_leaves_nothing_behind, "NSM:3.1")
{
    EXPECT_EQ(run_reporting(1, refuse_without_a_trace, NULL, NULL), 0);
}

/* A call that was on its way when the nursery was joined sees what the handle said before. */
static int come_late(void *arg)
{
    struct kin_nursery n, late;
    _Atomic int ran = 0;
    (void)arg;
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
        memcpy(&late, &n, sizeof n);
        struct kin__scope *block = scope_of(&n);
        uint64_t name = kin__load_relaxed(&block->frame.name); /* alone: the test's own */
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        /* It ended twice: under the lock, before a late caller can have it, and when it was freed.
         * alone: nobody has the block */
        EXPECT_EQ((kin__load_relaxed(&block->frame.name) - name) >> KIN__FRAME_INDEX_BITS, 2);
        EXPECT_EQ(kin_spawn(&late, count_it, &ran), KIN_NOSCOPE); /* nobody has it now */
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
        EXPECT_PTR(scope_of(&n), block); /* the same block in its next life */
        uint64_t word = word_of(&n);
        kin_nursery_close(&late);
        kin_nursery_cancel(&late, -EIO);
        EXPECT_EQ(kin_spawn(&late, count_it, &ran), KIN_NOSCOPE);
        EXPECT_EQ(kin_spawn_copy(&late, count_it, &ran, sizeof ran), KIN_NOSCOPE);
        EXPECT_PTR(kin_nursery_alloc(&late, 100), NULL);
        EXPECT_EQ(word_of(&n), word);
        EXPECT(!kin_cancelled());
        EXPECT_EQ(scope_of(&n)->is_sealed, 0);
        EXPECT_EQ(kin_spawn(&n, count_it, &ran), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    EXPECT_EQ(atomic_load(&ran), 100);
    return 0;
}

KIN_TEST(a_call_that_comes_late_does_not_reach_the_next_life_of_the_block, "NSM:2.4 ABA:8.3")
{
    EXPECT_EQ(run_reporting(1, come_late, NULL, NULL), 0);
}

static int reuse_the_block(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    int status = -EIO, zero = 0;

    (void)arg;
    for (int i = 0; i < 10; i++) {
        options.on_error = KIN_COLLECT;
        options.tasks_max = 5;
        options.errors_max = 2;
        EXPECT_EQ(kin_nursery_open(&n, &options), 0);
        EXPECT(kin_nursery_alloc(&n, 5000));
        for (int k = 0; k < 5; k++)
            EXPECT_EQ(kin_spawn(&n, return_it, &status), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
        EXPECT_EQ(kin_nursery_errors_dropped(&n), 3);
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0); /* nothing of that is left */
        EXPECT_PTR(scope_of(&n)->arena.chunks, NULL);
        for (int k = 0; k < 10; k++)
            EXPECT_EQ(kin_spawn(&n, return_it, &zero), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
        EXPECT_EQ(kin_nursery_errors_dropped(&n), 0);
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
        EXPECT_EQ(kin_spawn(&n, return_it, &status), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED); /* fail fast again */
    }
    return 0;
}

KIN_TEST(a_recycled_block_remembers_nothing, "")
{
    EXPECT_EQ(run_reporting(1, reuse_the_block, NULL, NULL), 0);
}

static int note_class(void *arg)
{
    *(unsigned *)arg = kin__task_self()->stack_class;
    return 0;
}

struct two_runtimes {
    struct kin_nursery *n;
    unsigned plain, wished;
};

static int spawn_here(void *arg)
{
    struct two_runtimes *two = arg;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;

    options.stack_max_bytes = (size_t)1 << 20;
    EXPECT_EQ(kin_spawn(two->n, note_class, &two->plain), 0);
    EXPECT_EQ(kin_spawn_with(two->n, &options, note_class, &two->wished, 0, NULL), 0);
    return 0;
}

static void *spawn_from_the_other(void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.workers = 1;
    config.stack_max_bytes = (size_t)2 << 20;
    EXPECT_EQ(kin_run(&config, spawn_here, arg), 0);
    return NULL;
}

static void *spawn_from_a_thread(void *arg)
{
    EXPECT_EQ(spawn_here(arg), 0);
    return NULL;
}

static int host_both(void *arg)
{
    void *(*const mains[2])(void *) = {spawn_from_the_other, spawn_from_a_thread};
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct two_runtimes two = {NULL, 99, 99};
        pthread_t thread;
        KIN_NURSERY(n);
        two.n = &n;
        EXPECT_EQ(pthread_create(&thread, NULL, mains[i], &two), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(two.plain, kin__stack_class((size_t)64 << 10));
        EXPECT_EQ(two.wished, kin__stack_class((size_t)1 << 20));
    }
    return 0;
}

KIN_TEST(a_child_gets_the_stacks_of_the_runtime_it_runs_in, "SCHED:5.3.2")
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.workers = 2;
    config.stack_max_bytes = (size_t)64 << 10;
    EXPECT_EQ(kin_run(&config, host_both, NULL), 0);
}

static int count_kept(void)
{
    const struct kin__task *task = kin__task_self();
    int count = 0;

    if (task->flags & KIN__TASK_EXTRA) {
        for (struct kin__more *more = task->extra->kept; more; more = more->next)
            count++;
    }
    return count;
}

static int keep_many_errors(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery first, second;
    int status = -EIO;

    (void)arg;
    options.errors_max = 17;
    options.on_error = KIN_COLLECT;
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(kin_nursery_open(&first, &options), 0);
        EXPECT_EQ(kin_nursery_open(&second, &options), 0);
        for (int k = 0; k < 18; k++)
            EXPECT_EQ(kin_spawn(&second, return_it, &status), 0);
        EXPECT_EQ(kin_nursery_join(&second, NULL), -EIO);
        EXPECT_EQ(kin_nursery_join(&first, NULL), 0);
        EXPECT_EQ(kin_nursery_errors(&second, NULL, 0), 17);
        EXPECT_EQ(kin_nursery_errors_dropped(&second), 1);
        EXPECT_EQ(count_kept(), 1); /* of those that are needed one, however often it was opened */
    }
    for (int i = 0; i < 100; i++) {
        KIN_NURSERY(scoped, .errors_max = 17, .on_error = KIN_COLLECT);
        EXPECT_EQ(count_kept(), 2);
        for (int k = 0; k < 17 * (i & 1); k++)
            EXPECT_EQ(kin_spawn(&scoped, return_it, &status), 0);
        EXPECT_EQ(kin_nursery_join(&scoped, NULL), i & 1 ? -EIO : 0);
        EXPECT_EQ(count_kept(), 1 + (i & 1)); /* still readable, if the handle has no room */
    }
    EXPECT_EQ(count_kept(), 1);
    return 0;
}

static int keep_in_children(void *arg)
{
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, keep_many_errors, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(count_kept(), 0); /* what its child left went with the child */
    return keep_many_errors(NULL);
}

KIN_TEST(room_for_many_errors_is_kept_once_per_handle_and_given_back, "B3")
{
    run_on_few(keep_in_children, NULL);
}

/* ---- a join waits and does not spin ---- */

static int stand_at_gate(void *arg)
{
    return kin_event_wait(arg, KIN_NEVER);
}

/* Opens the gate when the owner of the inner nursery is parked in its join, and still is after
 * others had many turns: a join that looked again and again would be seen running or queued. */
static int watch_the_owner(void *arg)
{
    await_parked(1, "nursery");
    for (int i = 0; i < 100; i++) {
        kin_ignore(kin_yield());
        EXPECT_EQ(count_parked("nursery"), 1);
    }
    kin_event_set(arg);
    return 0;
}

static int in_a_join_parks(void *arg)
{
    struct kin_event gate = {0}; /* opens when the owner was seen parked */
    (void)arg;
    KIN_NURSERY(outer);
    EXPECT_EQ(kin_spawn(&outer, watch_the_owner, &gate), 0);
    {
        KIN_NURSERY(inner);
        EXPECT_EQ(kin_spawn(&inner, stand_at_gate, &gate), 0);
        await_parked(1, "event"); /* it has begun: the join cannot run it itself */
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    }
    EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    return 0;
}

KIN_TEST(a_join_parks_until_the_last_child_is_over_and_does_not_spin, "NSM:5.1")
{
    for (unsigned workers = 1; workers <= 2; workers++)
        EXPECT_EQ(run_reporting(workers, in_a_join_parks, NULL, NULL), 0);
}
