/* SPDX-License-Identifier: MIT */
/*
 * Calls that block a thread: two pools of threads that come when they are needed and go when not.
 *
 *     call --> a thread idles?  ------ hand it over, wake it ----+
 *          --> there may be more? ---- start one with it --------+--> fn --> wake the task
 *          --> else in line, behind the others;                  |
 *              a thread that is done takes the first -------------+
 *
 * A job lives on the stack of the task that waits for it, so the line needs no memory and is as
 * long as tasks are in it; who wants it shorter limits tasks. A job is started the moment a thread
 * is chosen for it, under the pool's lock: until then the task may leave and takes its job along,
 * from then on it stays. So idle threads and a line never exist side by side.
 *
 * Idle threads are taken newest first: what is not needed idles at the other end until its time is
 * over. Each sleeps on a word of its own and is woken with its job; a shared word would wake one
 * that then finds nothing.
 *
 * Two pools, because foreign code may take all threads for ever while waiting for a task, which in
 * turn wants to read a file: kin's own calls end without anybody's doing and have their own.
 *
 * A function may end its thread (pthread_exit). Then its call answers KIN_WORKER, and the thread is
 * one that has ended by itself.
 *
 * A thread that has ended by itself is joined by whoever uses its place next, or with the rest when
 * the last runtime ends: all jobs are over by then, because their tasks are.
 */
#include "wait/offload.h"

#include "park/waitq.h"
#include "sched/entry.h"
#include "sched/sched.h"
#include "wait/timer.h"

#include <errno.h>

#define THREADS_MAX 256u
#define THREADS_DEFAULT 64u
#define IDLE_DEFAULT_NS INT64_C(10000000000)
#define STACK_BYTES ((size_t)1024 * 1024) /* foreign code expects some room */
#define LEAVING UINT32_MAX

enum job_state { WAITING, STARTED, DONE };

struct job {
    void (*fn)(void *);
    void *arg;
    struct pool *pool;
    /* under the pool's lock */
    struct kin__list link; /* in the line, while WAITING */
    enum job_state state;
    int status;               /* when DONE */
    struct kin__waitq waiter; /* the task, once it has parked */
};

enum slot_state { VACANT, BUSY, IDLE, ENDED };

/* A place for a thread. */
struct slot {
    struct kin__thread thread; /* by whoever took the place out of VACANT or ENDED */
    struct pool *pool;
    kin__a32 wake; /* futex: 1 when job is there, or the end is */
    /* under the pool's lock */
    enum slot_state state;
    struct kin__list link; /* among the idle */
    struct job *job;       /* handed over */
};

struct pool {
    struct kin__lock lock; /* rank WAIT; the rest */
    bool is_ready;         /* the lists are */
    bool is_stopping;
    unsigned threads, resting; /* BUSY or IDLE; IDLE */
    struct kin__list line;     /* jobs, oldest first */
    struct kin__list idle;     /* slots, newest first */
    struct slot slots[THREADS_MAX];
};

enum { FOREIGN, OWN, POOLS };
static struct pool pools[POOLS];
static kin__a32 threads_max = THREADS_DEFAULT;
static kin__ai64 idle_limit_ns = IDLE_DEFAULT_NS;
static kin__a32 users; /* runtimes, or LEAVING while the last one joins the threads */

static void lock_pool(struct pool *pool)
{
    kin__lock_take(&pool->lock, KIN__RANK_WAIT);
    if (KIN__UNLIKELY(!pool->is_ready)) {
        kin__list_init(&pool->line);
        kin__list_init(&pool->idle);
        pool->is_ready = true;
    }
}

static void unlock_pool(struct pool *pool)
{
    KIN__ASSERT(pool->resting <= pool->threads, "house");
    kin__lock_give(&pool->lock, KIN__RANK_WAIT);
}

/* ---- threads ---- */

/* The job is over: its task may go. */
static void finish_locked(struct job *job, int status, struct kin__wakes *wakes)
{
    struct kin__claimed claimed;
    job->state = DONE;
    job->status = status;
    if (kin__waitq_claim(&job->waiter, &claimed))
        kin__wakes_add(wakes, &claimed, status);
}

/* The first job in line; NULL when there is none. */
static struct job *take_first_locked(struct pool *pool)
{
    if (kin__list_is_empty(&pool->line))
        return NULL;
    struct job *job = KIN__CONTAINER_OF(pool->line.next, struct job, link);
    kin__list_remove(&job->link);
    job->state = STARTED;
    return job;
}

/* Nothing is to be done: from here on jobs are handed over. */
static void lie_down_locked(struct slot *slot)
{
    slot->state = IDLE;
    kin__store_relaxed(&slot->wake, slot->pool->is_stopping); /* alone: written under the lock */
    kin__list_push_front(&slot->pool->idle, &slot->link);
    slot->pool->resting++;
    kin__thread_passive(1); /* a thread that idles wakes nobody; a task that waits is counted */
}

/* The slot's thread ends. */
static void end_locked(struct slot *slot)
{
    kin__list_remove(&slot->link);
    kin__thread_passive(-1);
    slot->pool->resting--;
    slot->pool->threads--;
    slot->state = ENDED;
}

/* Sleeps until a job is handed over; NULL: the thread has ended. */
static struct job *rest(struct slot *slot)
{
    struct pool *pool = slot->pool;
    struct job *job = NULL;
    bool is_over = false;
    while (!job && !is_over) { /* ends: a job comes or the time does */
        int64_t ns = kin__load_relaxed(&idle_limit_ns); /* relaxed: a limit */
        is_over = kin__futex_wait(&slot->wake, 0, ns) == -ETIMEDOUT;
        lock_pool(pool);
        is_over |= pool->is_stopping;
        job = slot->job;
        slot->job = NULL;
        if (!job && is_over)
            end_locked(slot);
        unlock_pool(pool);
    }
    return job;
}

/* The next thing to do, after one that is over; NULL: the thread has ended. A slot is idle before
 * the task of its last job is woken: that one may come back at once, and must not find every thread
 * busy. */
static struct job *next_job(struct slot *slot, struct job *over)
{
    struct kin__wakes wakes = {0};
    lock_pool(slot->pool);
    if (over)
        finish_locked(over, 0, &wakes);
    struct job *job = slot->job ? slot->job : take_first_locked(slot->pool);
    slot->job = NULL;
    if (!job)
        lie_down_locked(slot);
    unlock_pool(slot->pool);
    kin__wakes_run(&wakes);
    return job ? job : rest(slot);
}

/* What a thread is at. */
struct run {
    struct slot *slot;
    struct job *job;
};

static void run_job(void *arg)
{
    struct run *run = arg;
    run->job->fn(run->job->arg);
}

static void lose_thread(void *arg);

static void slot_main(void *arg)
{
    struct run run = {.slot = arg};
    while ((run.job = next_job(run.slot, run.job))) /* ends: when it has idled for long */
        kin__thread_call(run_job, lose_thread, &run);
}

/* ---- jobs ---- */

/* Gives the job to an idle thread. False: there is none. */
static bool hand_over_locked(struct pool *pool, struct job *job, struct slot **out)
{
    if (kin__list_is_empty(&pool->idle))
        return false;
    struct slot *slot = KIN__CONTAINER_OF(pool->idle.next, struct slot, link);
    kin__list_remove(&slot->link);
    kin__thread_passive(-1);
    pool->resting--;
    slot->state = BUSY;
    slot->job = job;
    job->state = STARTED;
    /* alone: what goes with it is read under the lock */
    kin__store_relaxed(&slot->wake, 1u);
    *out = slot;
    return true;
}

/* Gives the job to a place whose thread is still to be started; NULL: there may be no more. */
static struct slot *take_place_locked(struct pool *pool, struct job *job)
{
    if (pool->threads >= kin__load_relaxed(&threads_max)) /* relaxed: a limit */
        return NULL;
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        struct slot *slot = &pool->slots[i];
        if (slot->state != VACANT && slot->state != ENDED)
            continue;
        slot->state = BUSY;
        slot->pool = pool;
        slot->job = job;
        job->state = STARTED;
        pool->threads++;
        return slot;
    }
    return NULL;
}

/* There is no thread for the place. With others at work the job waits for one of them; without,
 * it and whatever came behind it cannot be done: rc. */
static int give_place_back(struct slot *slot, struct job *job, int rc, bool may_wait)
{
    struct pool *pool = slot->pool;
    struct kin__wakes wakes = {0};
    struct job *stranded;
    lock_pool(pool);
    slot->job = NULL;
    slot->state = VACANT;
    pool->threads--;
    job->state = WAITING;
    if (pool->threads > 0)
        rc = may_wait ? 0 : KIN_TIMEOUT;
    if (rc == 0)
        kin__list_push_back(&pool->line, &job->link);
    while (pool->threads == 0 && (stranded = take_first_locked(pool))) /* ends: one fewer */
        finish_locked(stranded, rc, &wakes);
    unlock_pool(pool);
    kin__wakes_run(&wakes);
    return rc;
}

/* Starts the thread of a place that was taken for the job. 0 when it is started or in line. */
static int start_thread(struct slot *place, struct job *job, bool may_wait)
{
    kin__thread_join(&place->thread); /* one that has ended there before */
    int rc = kin__thread_start(&place->thread, slot_main, place, STACK_BYTES, "kin-block");
    return rc < 0 ? give_place_back(place, job, rc, may_wait) : 0;
}

/* Starts the job, or puts it in line. 0, KIN_TIMEOUT when it would have to wait and may not, or why
 * there is no thread at all. */
static int submit(struct pool *pool, struct job *job, bool may_wait)
{
    struct slot *idle = NULL, *place = NULL;
    lock_pool(pool);
    if (!hand_over_locked(pool, job, &idle) && !(place = take_place_locked(pool, job)) && may_wait)
        kin__list_push_back(&pool->line, &job->link);
    bool is_refused = !idle && !place && !may_wait;
    unlock_pool(pool);
    if (KIN__LIKELY(idle != NULL))
        kin__futex_wake(&idle->wake, 1);
    if (!place)
        return is_refused ? KIN_TIMEOUT : 0;
    return start_thread(place, job, may_wait);
}

/* A place for the first in line, in which somebody leaves instead of coming back for it; NULL: the
 * line is empty, or the others see to it. */
static struct slot *take_place_for_first_locked(struct pool *pool)
{
    struct job *job = take_first_locked(pool);
    struct slot *place = job ? take_place_locked(pool, job) : NULL;
    if (job && !place) { /* others are at work: there is a limit, and it is reached */
        KIN__ASSERT(pool->threads > 0, "house");
        job->state = WAITING;
        kin__list_push_front(&pool->line, &job->link);
    }
    return place;
}

/* The function has ended its thread. Its task hears of it, and the first in line gets a thread in
 * place of this one. The slot is free for others only then: nobody joins a thread that waits for
 * one that is joined, nor itself. */
static void lose_thread(void *arg)
{
    const struct run *run = arg;
    struct pool *pool = run->slot->pool;
    struct kin__wakes wakes = {0};
    lock_pool(pool);
    finish_locked(run->job, KIN_WORKER, &wakes);
    pool->threads--;
    struct slot *place = take_place_for_first_locked(pool);
    struct job *first = place ? place->job : NULL;
    run->slot->state = ENDED;
    unlock_pool(pool);
    int rc = place ? start_thread(place, first, true) : 0;
    if (rc < 0) {
        lock_pool(pool);
        finish_locked(first, rc, &wakes);
        unlock_pool(pool);
    }
    kin__wakes_run(&wakes);
}

/* ---- the waitable ---- */

static bool job_try(void *object, void *io, int *status)
{
    struct job *job = object;
    (void)io;
    lock_pool(job->pool);
    bool is_done = job->state == DONE;
    *status = job->status;
    unlock_pool(job->pool);
    return is_done;
}

static bool job_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct job *job = object;
    (void)status;
    lock_pool(job->pool);
    bool links = job->state != DONE;
    if (links)
        kin__waitq_push(&job->waiter, waiter);
    unlock_pool(job->pool);
    return links;
}

static void job_unpublish(void *object, struct kin__waiter *waiter)
{
    struct job *job = object;
    lock_pool(job->pool);
    kin__waitq_remove(waiter);
    unlock_pool(job->pool);
}

static const struct kin__waitable waitables[] = {
    [KIN__OFFLOAD_CALL] = {"blocking call", job_try, job_publish, job_unpublish},
    [KIN__OFFLOAD_FILE] = {"file", job_try, job_publish, job_unpublish},
    [KIN__OFFLOAD_NAMES] = {"host names", job_try, job_publish, job_unpublish},
};

/* The deadline or a cancel came. True: the job had not been started, and never will be. */
static bool withdraw(struct job *job)
{
    lock_pool(job->pool);
    bool is_mine = job->state == WAITING;
    if (is_mine)
        kin__list_remove(&job->link);
    unlock_pool(job->pool);
    return is_mine;
}

/* Waits for the end of the job: its status, or why it was not started. */
static int wait_for(const struct kin__waitable *ops, struct job *job, kin_time deadline)
{
    int rc = kin__wait_until(ops, job, NULL, deadline, 0);
    if (rc != KIN_TIMEOUT && rc != KIN_CANCELLED)
        return rc;
    if (withdraw(job))
        return rc;
    while ((rc = kin__wait(ops, job, NULL, KIN__WAIT_DEAF)) == KIN_CANCELLED) {
        /* ends: only what cannot be masked wakes such a wait early, once for each nursery */
    }
    return rc;
}

int kin__offload(enum kin__offload_kind kind, void (*fn)(void *), void *arg, kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    struct job job = {.fn = fn, .arg = arg};
    job.pool = &pools[kind == KIN__OFFLOAD_CALL ? FOREIGN : OWN];
    deadline = kin__deadline_of(task, deadline);
    bool may_wait = deadline == KIN_NEVER || (deadline > 0 && deadline > kin__clock_now());
    int rc = kin__park_asked(task);
    if (rc == 0)
        rc = submit(job.pool, &job, may_wait);
    if (rc < 0)
        return rc;
    kin__worker_outside(1);
    rc = wait_for(&waitables[kind], &job, may_wait ? deadline : KIN_NEVER);
    kin__worker_outside(-1);
    return rc;
}

/* ---- life ---- */

void kin__offload_enter(void)
{
    uint32_t seen = kin__load_relaxed(&users); /* relaxed: the exchange looks again */
    for (;;) { /* ends: threads without jobs end */
        if (seen == LEAVING) {
            kin__thread_yield();
            seen = kin__load_relaxed(&users); /* relaxed: as above */
        } else if (kin__cas_acquire(&users, &seen, seen + 1)) { /* pairs with the end of leave */
            return;
        }
    }
}

/* Ends all threads. Nobody has a job. */
static void stop(struct pool *pool)
{
    lock_pool(pool);
    pool->is_stopping = true;
    KIN__LIST_EACH(link, &pool->idle) {
        struct slot *slot = KIN__CONTAINER_OF(link, struct slot, link);
        kin__store_relaxed(&slot->wake, 1u); /* alone: what goes with it is read under the lock */
        kin__futex_wake(&slot->wake, 1);
    }
    unlock_pool(pool);
    for (unsigned i = 0; i < THREADS_MAX; i++)
        kin__thread_join(&pool->slots[i].thread); /* if there is one; nobody starts any now */
    lock_pool(pool);
    KIN__ASSERT(pool->threads == 0 && kin__list_is_empty(&pool->line), "house");
    for (unsigned i = 0; i < THREADS_MAX; i++)
        pool->slots[i].state = VACANT;
    pool->is_stopping = false;
    unlock_pool(pool);
}

bool kin__offload_leave(void)
{
    uint32_t seen = kin__load_relaxed(&users); /* relaxed: the exchange looks again */
    uint32_t next;
    do { /* ends: each time somebody else came or went */
        KIN__CHECK(seen != 0 && seen != LEAVING, "house: a runtime leaves once");
        next = seen == 1 ? LEAVING : seen - 1;
    } while (!kin__cas_acq_rel(&users, &seen, next)); /* pairs with itself: all have left */
    if (next != LEAVING)
        return false;
    for (unsigned i = 0; i < POOLS; i++)
        stop(&pools[i]);
    kin__store_release(&users, 0u); /* pairs with the acquire in enter */
    return true;
}

void kin__offload_limit(unsigned max, int64_t idle_ns)
{
    max = max < 1 ? 1 : max > THREADS_MAX ? THREADS_MAX : max;
    kin__store_relaxed(&threads_max, max);       /* relaxed: a limit */
    kin__store_relaxed(&idle_limit_ns, idle_ns); /* relaxed: as above */
}

unsigned kin__offload_threads(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < POOLS; i++) {
        lock_pool(&pools[i]);
        count += pools[i].threads;
        unlock_pool(&pools[i]);
    }
    return count;
}

unsigned kin__offload_resting(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < POOLS; i++) {
        lock_pool(&pools[i]);
        count += pools[i].resting;
        unlock_pool(&pools[i]);
    }
    return count;
}
