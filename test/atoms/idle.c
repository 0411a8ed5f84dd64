/* SPDX-License-Identifier: MIT */
/*
 * Sleeping and waking of workers: src/sched/{idle,steal,inject,deque,bias}.c as they are.
 *
 * Workers that run out of work search, are listed and sleep; somebody brings work through the
 * global queue or the public part of a deque and wakes one. Either the sleeper sees the work or
 * whoever brought it sees the sleeper: a run in which work lies about while everybody sleeps is a
 * deadlock. A timed sleep ends at once. What is outside of the process may come to be while a
 * worker is about to sleep: then the worker sleeps there, and a waker that has not heard of it
 * before rings there.
 */
#include "under.h"

#define TASKS 2u

static struct kin__task *tasks; /* TASKS of them */
static unsigned total;
static kin__a32 had;

uint64_t kin__worker_load(struct kin__worker *worker)
{
    return kin__deque_len(&worker->deque);
}

/* By a thief that has taken the bias of a worker that does not move. */
void kin__worker_open(struct kin__worker *worker)
{
    while (kin__deque_publish(&worker->deque)) { /* ends: halves what is private */
    }
}

void kin__monitor_poke(struct kin__sched *sched)
{
    (void)sched;
}

static uint32_t next_victim(struct kin__worker *thief, uint32_t attempt)
{
    return thief->index + 1 + attempt;
}

static const struct kin__policy policy = {.victim = next_victim};

static void start(unsigned workers, unsigned count)
{
    under_begin();
    struct kin__sched *sched = under_sched();
    sched->workers_max = workers + 1; /* the 0th never runs */
    sched->policy = &policy;
    sched->alive = workers;
    for (unsigned i = 1; i <= workers; i++) {
        under_worker(i)->state = KIN__WORKER_ACTIVE;
        under_worker(i)->steal_enabled = 1;
    }
    tasks = kin_atoms_alloc(TASKS * sizeof(*tasks));
    for (unsigned i = 0; i < TASKS; i++) {
        kin__word_init(&tasks[i]);
        tasks[i].status = 100;
    }
    total = count;
    had = 0;
}

/* Runs a task: the last one stops the runtime, as the end of the first task does. */
static void run(struct kin__task *task)
{
    kin_atoms_assert(task->status == 100, "it is what was pushed, and nobody had it before");
    task->status = 0;
    if (atomic_fetch_add_explicit(&had, 1, memory_order_acq_rel) + 1 == total) {
        atomic_store_explicit(&under_sched()->is_stopping, 1, memory_order_release);
        kin__idle_wake_all(under_sched());
    }
}

/* The loop of a worker, as far as it concerns sleeping. */
static void work(struct kin__worker *worker)
{
    struct kin__sched *sched = under_sched();
    while (!atomic_load_explicit(&sched->is_stopping, memory_order_acquire)) {
        struct kin__task *task = kin__inject_take(&sched->inject, 1);
        kin__bias_take(&worker->bias);
        if (!task)
            task = kin__deque_pop(&worker->deque);
        if (!task && kin__deque_reclaim(&worker->deque))
            task = kin__deque_pop(&worker->deque);
        kin__bias_give(&worker->bias);
        if (!task)
            task = kin__idle_wait(worker);
        if (task)
            run(task);
    }
}

static void consumer(void *arg)
{
    (void)arg;
    work(under_worker(kin_atoms_self()));
}

/* Somebody from outside brings one after the other. */
static void provider(void *arg)
{
    for (unsigned i = 0; i < *(const unsigned *)arg; i++) {
        kin__inject_push(&under_sched()->inject, &tasks[i], &tasks[i], 1);
        kin__idle_wake_one(under_sched());
    }
}

static void begin_one(void *arg)
{
    start(1, *(const unsigned *)arg);
    under_spawn("worker", consumer, NULL);
    under_spawn_outside("provider", provider, arg);
}

static void begin_two(void *arg)
{
    start(2, *(const unsigned *)arg);
    under_spawn("worker 1", consumer, NULL);
    under_spawn("worker 2", consumer, NULL);
    under_spawn_outside("provider", provider, arg);
}

/* A worker has more than it runs, and shares it. */
static void sharer(void *arg)
{
    struct kin__worker *worker = under_worker(kin_atoms_self());
    kin__bias_take(&worker->bias);
    for (unsigned i = 0; i < *(const unsigned *)arg; i++)
        (void)kin__deque_push(&worker->deque, &tasks[i]);
    bool is_public = kin__deque_publish(&worker->deque);
    kin__bias_give(&worker->bias);
    if (is_public && kin__idle_wants(under_sched()))
        kin__idle_wake_one(under_sched());
    work(worker);
}

static void begin_share(void *arg)
{
    start(2, *(const unsigned *)arg);
    under_spawn("worker 1", sharer, arg);
    under_spawn("worker 2", consumer, NULL);
}

/* ---- what is outside: a bell ---- */

static kin__a32 *bell; /* 1: it was rung, and nobody has slept there since */

static uint32_t poll_bell(struct kin__sched *sched, int64_t ns)
{
    kin__a32 *word = sched->io_state;
    while (ns < 0 && !atomic_load_explicit(word, memory_order_acquire))
        (void)kin__futex_wait(word, 0, -1);
    atomic_store_explicit(word, 0, memory_order_relaxed);
    return 0;
}

static void ring_bell(struct kin__sched *sched)
{
    kin__a32 *word = sched->io_state;
    atomic_store_explicit(word, 1, memory_order_release);
    kin__futex_wake(word, 1);
}

static const struct kin__outside outside = {.poll = poll_bell, .wake = ring_bell};

/* Installs it as the poller does: its state first. */
static void install(void *arg)
{
    (void)arg;
    under_sched()->io_state = bell;
    atomic_store_explicit(&under_sched()->io, &outside, memory_order_release);
}

static void begin_outside(void *arg)
{
    begin_one(arg);
    bell = kin_atoms_alloc(sizeof(*bell));
    *bell = 0;
    under_spawn_outside("installer", install, NULL);
}

static void end(void *arg)
{
    (void)arg;
    kin_atoms_assert(had == total, "everything was run");
    kin_atoms_assert(under_sched()->idle == 0 && !under_sched()->sleepers, "nobody sleeps");
}

static unsigned one = 1, two = 2;

const struct harness harnesses[] = {
    {.name = "idle_one_task", .begin = begin_one, .end = end, .arg = &one},
    {.name = "idle_two_tasks", .begin = begin_one, .end = end, .arg = &two},
    {.name = "idle_two_workers", .begin = begin_two, .end = end, .arg = &one, .preemptions = 2},
    {.name = "idle_two_workers_two_tasks", .begin = begin_two, .end = end, .arg = &two,
     .preemptions = 2},
    {.name = "idle_one_task_c11", .begin = begin_one, .end = end, .arg = &one,
     .memory = KIN_ATOMS_C11},
    {.name = "idle_share", .begin = begin_share, .end = end, .arg = &one},
    {.name = "idle_outside", .begin = begin_outside, .end = end, .arg = &one},
    {.name = "idle_outside_c11", .begin = begin_outside, .end = end, .arg = &one,
     .memory = KIN_ATOMS_C11, .preemptions = 2},
    {.name = "idle_one_task_tso", .begin = begin_one, .end = end, .arg = &one,
     .memory = KIN_ATOMS_TSO, .is_deep = true},
    {.name = "idle_two_workers_in_full", .begin = begin_two, .end = end, .arg = &one,
     .is_deep = true},
    {0},
};
