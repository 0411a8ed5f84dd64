/* SPDX-License-Identifier: MIT */
/*
 * Goal: misuse is answered, never undefined: handles that were never opened, NULL, sizes that
 *       cannot be, calls in the wrong order, from a plain thread, from a task of another runtime,
 *       and in the profile that has no tasks.
 * Method: black box, every answer compared; what can only be a bug of the caller must abort and
 *         say so.
 */
#include "api/in_runtime.h"

#include <pthread.h>
#include <unistd.h>

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int do_nothing(void *item, void *result, void *arg)
{
    (void)item, (void)result, (void)arg;
    return 0;
}

static int fail_io(void *arg)
{
    (void)arg;
    return -EIO;
}

/* ---- a nursery that was never opened ---- */

/* What every call on a handle answers that is all zero. */
static void use_unopened(bool is_task)
{
    struct kin_nursery n;
    struct kin_outcome how = {KIN_SEV_PANIC, 1, 2, 3, ""};
    const struct kin_budget none = kin_nursery_budget_left(NULL);
    memset(&n, 0, sizeof n);
    EXPECT_EQ(kin_spawn(&n, nothing, NULL), KIN_NOSCOPE);
    EXPECT_EQ(kin_spawn_copy(&n, nothing, &how, sizeof how), KIN_NOSCOPE);
    EXPECT_EQ(kin_spawn_with(&n, NULL, nothing, NULL, 0, NULL), KIN_NOSCOPE);
    kin_nursery_close(&n);
    kin_nursery_cancel(&n, -EIO);
    EXPECT_EQ(kin_nursery_join(&n, &how), is_task ? KIN_NOSCOPE : KIN_NOTASK);
    EXPECT_EQ(kin_nursery_poll(&n, &how), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    EXPECT_EQ(kin_nursery_errors(&n, &how, 1), 0);
    EXPECT_EQ(kin_nursery_errors_dropped(&n), 0);
    EXPECT_PTR(kin_nursery_alloc(&n, 16), NULL);
    EXPECT(none.ops == 0 && none.memory == 0 && none.spawns == 0 && none.channel_ops == 0 &&
           none.syscalls == 0);
    EXPECT_EQ(kin_nursery_budget_left(&n).ops, 0);
    EXPECT_EQ(kin_nursery_recharge(&n, none), is_task ? KIN_STALE : KIN_NOTASK);
    EXPECT_EQ(kin_task_join(&n, (struct kin_task_ref){5}, &how, 0),
              is_task ? KIN_STALE : KIN_NOTASK);
    EXPECT_EQ(how.severity, KIN_SEV_PANIC); /* outputs are untouched */
    EXPECT_EQ(how.task, 3);
}

static int use_unopened_in_a_task(void *arg)
{
    (void)arg;
    use_unopened(true);
    return 0;
}

KIN_TEST(a_nursery_that_was_never_opened_is_none, "N1001 NCG-4")
{
    use_unopened(false);
    run_on_few(use_unopened_in_a_task, NULL);
}

/* ---- failures that are asked for early, or into nowhere ---- */

enum { FAILING = 40 };

static int ask_while_children_fail(void *arg)
{
    struct kin_outcome how[4] = {{KIN_SEV_OK, 0, 0, 0, ""}};
    size_t seen = 0;
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;
    options.on_error = KIN_COLLECT;
    options.errors_max = 3;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 5), 0);
    for (int i = 0; i < FAILING; i++)
        EXPECT_EQ(kin_spawn(&n, fail_io, NULL), 0);
    while (seen + kin_nursery_errors_dropped(&n) < FAILING) { /* ends: they do */
        size_t now = kin_nursery_errors(&n, how, 4);
        EXPECT_GE(now, seen); /* kept in order of time: what was seen stays */
        for (size_t i = 0; i < now; i++)
            EXPECT_EQ(how[i].status, -EIO);
        seen = now;
        kin_ignore(kin_yield());
    }
    EXPECT_EQ(seen, 3);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 5), 3); /* counts, and writes nowhere */
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, SIZE_MAX), 3);
    EXPECT_EQ(kin_nursery_errors_dropped(&n), FAILING - 3);
    return 0;
}

KIN_TEST(failures_may_be_asked_for_before_the_join, "NSM-5 B3")
{
    run_on_few(ask_while_children_fail, NULL);
}

/* ---- ends without a word ---- */

static int panic_without_a_word(void *arg)
{
    const char *volatile no_text = NULL;
    (void)arg;
    kin_panic(no_text, 0);
}

static int fail_without_a_word(void *arg)
{
    const char *volatile no_text = NULL;
    (void)arg;
    kin_fail(-EPIPE, no_text, 0);
}

static int end_without_a_word(void *arg)
{
    (void)arg;
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, panic_without_a_word, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED);
    }
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, fail_without_a_word, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    return 0;
}

KIN_TEST(an_end_needs_no_text, "")
{
    struct reports reports = {0};
    EXPECT_EQ(run_reporting(1, end_without_a_word, NULL, &reports), 0);
    EXPECT_EQ(reports.count, 1);
    EXPECT_EQ(reports.status[0], KIN_PANICKED);
    EXPECT(strstr(reports.text[0], "no reason given"));
}

/* ---- unlocking what others hold ---- */

struct lent {
    struct kin_rwlock lock;
    struct kin_mutex mutex;
    _Atomic int holds;
};

static int hold_as_reader(void *arg)
{
    struct lent *lent = arg;
    EXPECT_EQ(kin_rwlock_read_lock(&lent->lock, KIN_NEVER), 0);
    EXPECT_EQ(kin_mutex_lock(&lent->mutex, KIN_NEVER), 0);
    atomic_store(&lent->holds, 1);
    int rc = kin_sleep(KIN_NEVER);
    kin_mutex_unlock(&lent->mutex);
    kin_rwlock_read_unlock(&lent->lock);
    return rc;
}

static int unlock_as_a_stranger(void *arg)
{
    struct lent lent = {{{0}}, {{0}}, 0};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, hold_as_reader, &lent), 0);
    await(&lent.holds, 1);
    if (arg)
        kin_rwlock_read_unlock(&lent.lock);
    else
        kin_mutex_unlock(&lent.mutex);
    _exit(1); /* what the reader does later is not the question */
}

KIN_TEST(whoever_holds_no_lock_unlocks_none, "")
{
    int yes = 1;
    EXPECT_ABORT("kin_rwlock_read_unlock: a lock is unlocked by the task that holds it") {
        kin_ignore(run_reporting(1, unlock_as_a_stranger, &yes, NULL));
    }
    EXPECT_ABORT("kin_mutex_unlock: a mutex is unlocked by the task that holds it") {
        kin_ignore(run_reporting(1, unlock_as_a_stranger, NULL, NULL));
    }
    EXPECT_ABORT("called by a thread outside of every task") {
        struct kin_rwlock lock = {{0}};
        kin_rwlock_read_unlock(&lock);
    }
    EXPECT_ABORT("called by a thread outside of every task") {
        kin_mutex_unlock(NULL);
    }
}

/* A task that has held more locks than it can count still tells those who wait for one of them. */
enum { MANY = 9 };

struct rich {
    struct kin_mutex mutexes[MANY];
    struct kin_rwlock rwlock;
    struct kin_event end;
    _Atomic int holds, waiting, told;
};

static int hold_many_and_panic(void *arg)
{
    struct rich *rich = arg;
    for (int i = 0; i < MANY; i++)
        EXPECT_EQ(kin_mutex_lock(&rich->mutexes[i], KIN_NEVER), 0);
    EXPECT_EQ(kin_rwlock_write_lock(&rich->rwlock, KIN_NEVER), 0);
    atomic_store(&rich->holds, 1);
    EXPECT_EQ(kin_event_wait(&rich->end, KIN_NEVER), 0);
    kin_panic("with all of them");
}

static int want_one(void *arg)
{
    struct rich *rich = arg;
    int number = atomic_fetch_add(&rich->waiting, 1);
    if (number == MANY)
        EXPECT_EQ(kin_rwlock_read_lock(&rich->rwlock, KIN_NEVER), -EOWNERDEAD);
    else
        EXPECT_EQ(kin_mutex_lock(&rich->mutexes[number], KIN_NEVER), -EOWNERDEAD);
    atomic_fetch_add(&rich->told, 1);
    return 0;
}

static int wait_for_the_rich(void *arg)
{
    static struct rich rich;
    struct kin_task_ref ref;
    (void)arg;
    memset(&rich, 0, sizeof rich);
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    EXPECT_EQ(kin_spawn_with(&n, NULL, hold_many_and_panic, &rich, 0, &ref), 0); /* frame is kept */
    await(&rich.holds, 1);
    for (int i = 0; i <= MANY; i++)
        EXPECT_EQ(kin_spawn(&n, want_one, &rich), 0);
    await(&rich.waiting, MANY + 1);
    for (int i = 0; i < 20; i++)
        kin_ignore(kin_yield()); /* they are in line by now, as a rule */
    kin_event_set(&rich.end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED); /* ends: everybody is told */
    EXPECT_EQ(atomic_load(&rich.told), MANY + 1);
    return 0;
}

KIN_TEST(who_has_lost_count_of_its_locks_keeps_nobody_waiting, "T064 T085")
{
    run_on_few(wait_for_the_rich, NULL);
}

/* ---- the profile without tasks ---- */

static int use_everything_in_core(void *arg)
{
    struct kin_nursery n;
    struct kin_branch b = {nothing, NULL, {KIN_SEV_OK, 0, 0, 0, ""}};
    struct kin_chan *chan;
    size_t winner = 7;
    int item = 3;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_spawn(&n, nothing, NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_spawn_copy(&n, nothing, &item, sizeof item), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_spawn_with(&n, NULL, nothing, NULL, 0, NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_nursery_poll(&n, NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_nursery_recharge(&n, KIN_UNLIMITED_BUDGET), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_task_join(&n, (struct kin_task_ref){5}, NULL, 0), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_race(&b, 1, &winner), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_any(&b, 1, &winner), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_all(&b, 1), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_quorum(&b, 1, 1), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_timeout(&b, KIN_NEVER), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_hedge(&b, 1, 1, &winner), KIN_UNSUPPORTED);
    EXPECT_EQ(winner, 7);
    EXPECT_EQ(kin_pool_map(NULL, do_nothing, &item, sizeof item, 1, KIN_NEVER), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_chan_create(&chan, sizeof item, 1), 0); /* what any thread may do goes on */
    EXPECT_EQ(kin_pool_each(NULL, do_nothing, chan, KIN_NEVER), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_chan_send(chan, &item, 0), 0);
    EXPECT_EQ(kin_chan_recv(chan, &item, KIN_NEVER), 0);
    kin_chan_unref(chan);
    EXPECT_EQ(kin_run(NULL, nothing, NULL), -EBUSY);
    return 5;
}

KIN_TEST(in_core_every_spawn_and_every_nursery_call_is_unsupported, "SCHED:10.2.1")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.profile = KIN_CORE;
    EXPECT_EQ(kin_run(&config, use_everything_in_core, NULL), 5);
    EXPECT_EQ(kin_run(NULL, nothing, NULL), 0); /* and it is over with that */
}

/* ---- plain threads ---- */

/* Every call that needs a task, from a thread that has none; what may be called from anywhere is
 * not here. */
static void use_as_a_thread(void)
{
    struct kin_nursery n;
    struct kin_branch b = {nothing, NULL, {KIN_SEV_OK, 0, 0, 0, ""}};
    struct kin_case one = kin_case_after(0);
    struct kin_mutex mutex = {{0}};
    struct kin_rwlock rwlock = {{0}};
    struct kin_cond cond = {{0}};
    struct kin_sem sem = {{0}};
    struct kin_event event = {{0}};
    struct kin_group group = {{0}};
    struct kin_once once = {{0}};
    struct kin_barrier barrier;
    struct kin_stats stats;
    struct kin_obligation *owed = NULL;
    const struct kin_local_key key = {NULL, false};
    int item = 3;
    EXPECT_EQ(kin_barrier_init(&barrier, 1), 0);
    EXPECT_EQ(kin_sem_init(&sem, 1), 0);
    kin_event_set(&event);
    EXPECT_EQ(kin_nursery_open(&n, NULL), KIN_NOTASK);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_NOTASK);
    EXPECT_EQ(kin_task_join(&n, (struct kin_task_ref){5}, NULL, 0), KIN_NOTASK);
    EXPECT_EQ(kin_race(&b, 1, NULL), KIN_NOTASK);
    EXPECT_EQ(kin_any(&b, 1, NULL), KIN_NOTASK);
    EXPECT_EQ(kin_all(&b, 1), KIN_NOTASK);
    EXPECT_EQ(kin_quorum(&b, 1, 1), KIN_NOTASK);
    EXPECT_EQ(kin_timeout(&b, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_hedge(&b, 1, 0, NULL), KIN_NOTASK);
    EXPECT_EQ(kin_pool_map(NULL, do_nothing, &item, sizeof item, 1, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_yield(), KIN_NOTASK);
    EXPECT_EQ(kin_checkpoint(), KIN_NOTASK);
    EXPECT_EQ(kin_sleep(0), KIN_NOTASK);
    EXPECT_EQ(kin_select(&one, 1, 0), KIN_NOTASK);
    EXPECT_EQ(kin_select_ordered(&one, 1, 0), KIN_NOTASK);
    EXPECT_EQ(kin_mutex_lock(&mutex, 0), KIN_NOTASK);
    EXPECT_EQ(kin_rwlock_read_lock(&rwlock, 0), KIN_NOTASK);
    EXPECT_EQ(kin_rwlock_write_lock(&rwlock, 0), KIN_NOTASK);
    EXPECT_EQ(kin_cond_wait(&cond, &mutex, 0), KIN_NOTASK);
    EXPECT_EQ(kin_sem_acquire(&sem, 1, 0), KIN_NOTASK);
    EXPECT_EQ(kin_event_wait(&event, 0), KIN_NOTASK);
    EXPECT_EQ(kin_group_wait(&group, 0), KIN_NOTASK);
    EXPECT_EQ(kin_once_do(&once, nothing, NULL, 0), KIN_NOTASK);
    EXPECT_EQ(kin_barrier_wait(&barrier, 0), KIN_NOTASK);
    EXPECT_EQ(kin_defer(free, NULL), KIN_NOTASK);
    EXPECT_EQ(kin_defer_try(nothing, NULL), KIN_NOTASK);
    EXPECT_EQ(kin_local_set(&key, &item), KIN_NOTASK);
    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_USER, &owed), KIN_NOTASK);
    EXPECT_EQ(kin_budget_recharge((struct kin_task_ref){5}, KIN_UNLIMITED_BUDGET), KIN_NOTASK);
    EXPECT_EQ(kin_budget_recharge_self(KIN_UNLIMITED_BUDGET), KIN_NOTASK);
    EXPECT_EQ(kin_stats_get(&stats), KIN_NOTASK);
    EXPECT_EQ(kin_dump(1), KIN_NOTASK);
    EXPECT_EQ(kin_lock_cycles(1), KIN_NOTASK);
    EXPECT_PTR(owed, NULL);
    /* these ask, and there is nothing to tell */
    EXPECT_EQ(kin_task_id(kin_self()), 0);
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_cancel_reason(), 0);
    EXPECT_EQ(kin_caps(), 0);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_NONE);
    EXPECT_EQ(kin_leaks(), 0);
    EXPECT_PTR(kin_local_get(&key), NULL);
    EXPECT_PTR(kin_scope_mark(), NULL);
    kin_mask();
    kin_unmask();
    kin_unmask(); /* no task: nothing is unmatched */
    kin_deadline_pop(kin_deadline_push(5));
    kin_scope_release(&item);
}

static void *be_a_thread(void *arg)
{
    (void)arg;
    use_as_a_thread();
    return NULL;
}

static int with_a_thread_beside(void *arg)
{
    pthread_t thread;
    (void)arg;
    EXPECT_EQ(pthread_create(&thread, NULL, be_a_thread, NULL), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

KIN_TEST(what_needs_a_task_says_so_to_threads, "N1002 NCG-5")
{
    use_as_a_thread();
    EXPECT_EQ(run_reporting(2, with_a_thread_beside, NULL, NULL), 0);
    use_as_a_thread();
}

/* ---- tasks of another runtime ---- */

struct across {
    struct kin_nursery *n;
    struct kin_task_ref child, owner;
    struct kin_chan *chan;
    struct kin_mutex mutex;
    struct kin_event event;
    _Atomic int ran;
};

static int use_from_another_runtime(void *arg)
{
    struct across *across = arg;
    struct kin_outcome how = {KIN_SEV_PANIC, 1, 2, 3, ""};
    int item = 0;
    EXPECT_EQ(kin_spawn(across->n, count_it, &across->ran), 0);
    EXPECT_EQ(kin_task_join(across->n, across->child, &how, 0), -EPERM); /* owner only */
    EXPECT_EQ(how.severity, KIN_SEV_PANIC);
    EXPECT_EQ(kin_nursery_poll(across->n, &how), -EPERM);
    EXPECT_EQ(kin_chan_recv(across->chan, &item, KIN_NEVER), 0);
    EXPECT_EQ(item, 77);
    EXPECT_EQ(kin_mutex_lock(&across->mutex, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    struct kin_case wait = kin_case_task(across->child);
    EXPECT_EQ(kin_select(&wait, 1, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_task_cancel(across->child), 0);
    EXPECT_EQ(kin_select(&wait, 1, KIN_NEVER), 0); /* its end is seen here, too */
    kin_event_set(&across->event);
    return 0;
}

static void *run_another(void *arg)
{
    EXPECT_EQ(run_reporting(1, use_from_another_runtime, arg, NULL), 0);
    return NULL;
}

static int be_used_from_elsewhere(void *arg)
{
    struct across across = {.owner = kin_self()};
    struct kin_outcome how;
    pthread_t thread;
    int item = 77;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&across.chan, sizeof(int), 0), 0);
    EXPECT_EQ(kin_mutex_lock(&across.mutex, KIN_NEVER), 0);
    KIN_NURSERY(n);
    across.n = &n;
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_for_ever, NULL, 0, &across.child), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, run_another, &across), 0);
    EXPECT_EQ(kin_chan_send(across.chan, &item, KIN_NEVER), 0);
    EXPECT_EQ(kin_task_join(&n, across.child, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(kin_event_wait(&across.event, KIN_NEVER), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&across.ran), 1);
    kin_mutex_unlock(&across.mutex);
    kin_chan_unref(across.chan);
    return 0;
}

KIN_TEST(tasks_of_two_runtimes_meet_where_they_may, "SCHED:15.2.2 NSM:3.1")
{
    EXPECT_EQ(run_reporting(1, be_used_from_elsewhere, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, be_used_from_elsewhere, NULL, NULL), 0);
}

static int join_from_another_runtime(void *arg)
{
    return kin_nursery_join(arg, NULL);
}

static void *run_a_join(void *arg)
{
    kin_ignore(run_reporting(1, join_from_another_runtime, arg, NULL));
    return NULL;
}

static int be_joined_from_elsewhere(void *arg)
{
    pthread_t thread;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(pthread_create(&thread, NULL, run_a_join, &n), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_join_from_another_runtime_aborts, "NSM-2")
{
    EXPECT_ABORT("only the task that opened a nursery joins it") {
        kin_ignore(run_reporting(1, be_joined_from_elsewhere, NULL, NULL));
    }
}

/* ---- sizes that cannot be ---- */

static int ask_for_too_much(void *arg)
{
    struct kin_spawn_options spawn = KIN_SPAWN_OPTIONS_INIT;
    struct kin_nursery_options open = KIN_NURSERY_OPTIONS_INIT;
    struct kin_task_ref ref = {99};
    struct kin_nursery bad;
    char byte = 0;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_copy(&n, nothing, &byte, SIZE_MAX), -ENOMEM);
    EXPECT_EQ(kin_spawn_copy(&n, nothing, &byte, SIZE_MAX - 4096), -ENOMEM);
    EXPECT_EQ(kin_spawn_copy(&n, nothing, &byte, (size_t)1 << 60), -ENOMEM);
    EXPECT_EQ(kin_spawn_copy(&n, nothing, NULL, 1), -EINVAL);
    EXPECT_EQ(kin_spawn_with(&n, NULL, nothing, &byte, SIZE_MAX, &ref), -ENOMEM);
    EXPECT_EQ(kin_spawn_with(&n, NULL, NULL, NULL, 0, &ref), -EINVAL);
    spawn.stack_max_bytes = SIZE_MAX;
    EXPECT_EQ(kin_spawn_with(&n, &spawn, nothing, NULL, 0, &ref), -EINVAL);
    spawn.stack_max_bytes = 0;
    spawn.caps = 0x40000000u;
    EXPECT_EQ(kin_spawn_with(&n, &spawn, nothing, NULL, 0, &ref), -EINVAL);
    spawn.caps = KIN_CAP_NONE | KIN_CAP_SPAWN;
    EXPECT_EQ(kin_spawn_with(&n, &spawn, nothing, NULL, 0, &ref), -EINVAL);
    spawn.caps = 0;
    spawn.size--;
    EXPECT_EQ(kin_spawn_with(&n, &spawn, nothing, NULL, 0, &ref), -EINVAL);
    EXPECT_EQ(ref.id, 99);
    EXPECT_PTR(kin_nursery_alloc(&n, SIZE_MAX), NULL);
    EXPECT_PTR(kin_nursery_alloc(&n, SIZE_MAX - 31), NULL);
    EXPECT_PTR(kin_nursery_alloc(&n, (size_t)1 << 60), NULL);
    EXPECT(kin_nursery_alloc(&n, 0) != NULL);
    EXPECT_PTR(kin_alloc(SIZE_MAX), NULL);
    EXPECT_PTR(kin_alloc((size_t)1 << 60), NULL);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    open.errors_max = UINT32_MAX;
    EXPECT_EQ(kin_nursery_open(&bad, &open), -ENOMEM);
    EXPECT_EQ(kin_spawn(&bad, nothing, NULL), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&bad, NULL), -ENOMEM);
    EXPECT_EQ(kin_nursery_join(&bad, NULL), -ENOMEM); /* it never was, so it is not stale */
    open.errors_max = 0;
    open.cancel_grace = -1;
    EXPECT_EQ(kin_nursery_open(&bad, &open), -EINVAL);
    open.cancel_grace = INT64_MAX;
    open.deadline = INT64_MIN; /* long ago */
    EXPECT_EQ(kin_nursery_open(&bad, &open), 0);
    EXPECT_EQ(kin_nursery_join(&bad, NULL), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(sizes_that_cannot_be_are_refused_and_leave_nothing_behind, "NSM:3.1")
{
    run_on_few(ask_for_too_much, NULL);
}

/* Names that nobody has, or that somebody has made up. */
static int use_wrong_names(void *arg)
{
    static const uint64_t names[] = {0, 1, 63, UINT64_MAX, UINT64_MAX / 2, UINT64_C(1) << 63,
                                     UINT64_C(0x123456789abcdef)};
    struct kin_nursery n;
    struct kin_outcome how = {KIN_SEV_PANIC, 1, 2, 3, ""};
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct kin_task_ref ref = {names[i]};
        struct kin_obligation *owed = (struct kin_obligation *)(uintptr_t)names[i];
        EXPECT_EQ(kin_task_cancel(ref), KIN_STALE);
        EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), names[i] ? KIN_STALE : -EINVAL);
        EXPECT_EQ(kin_budget_recharge(ref, KIN_UNLIMITED_BUDGET), KIN_STALE);
        EXPECT_EQ(kin_obligation_commit(owed), names[i] ? KIN_STALE : -EINVAL);
        EXPECT_EQ(kin_obligation_abort(owed), names[i] ? KIN_STALE : -EINVAL);
        struct kin_case one = kin_case_task(ref);
        EXPECT_EQ(kin_select(&one, 1, 0), names[i] ? 0 : KIN_TIMEOUT); /* over, or nobody */
    }
    EXPECT_EQ(kin_task_join(&n, kin_self(), &how, KIN_NEVER), -EINVAL); /* no child of n */
    EXPECT_EQ(how.severity, KIN_SEV_PANIC);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_task_join(&n, kin_self(), &how, KIN_NEVER), KIN_STALE);
    return 0;
}

KIN_TEST(names_that_nobody_has_are_stale, "ABA:8.3")
{
    run_on_few(use_wrong_names, NULL);
}
