/* SPDX-License-Identifier: MIT */
/*
 * Signals as things to wait for: for each signal of each runtime the tasks that listen, and one
 * thread of the process that hands arrivals out.
 *
 *     handler: bit, bell --> thread: take bits --+--> listeners that wait: woken
 *                                                +--> the others: kept until they wait again
 *                                                +--> watchers: fire
 *
 * A task listens from its first wait for a signal to its end, and hears of everything that arrives
 * meanwhile, also between two waits. Two that arrive before it looks are one, as with the operating
 * system. A task that begins to listen finds what no task has taken. Listeners stand in a table by
 * the address of their task and are thrown out some time after that is over: its name tells.
 *
 * A task that tries takes the bits itself, so that what has arrived is never found missing because
 * the thread has not run yet; but watchers take locks that come before this one, and only the
 * thread fires them.
 *
 * It is a thread because it must exist when all workers are busy and when all threads of the
 * program block the signal. It starts with the first signal that is held and ends with the last
 * runtime that held one. One lock for everything: signals are rare.
 */
#include "wait/signal.h"

#include "base/hash.h"
#include "park/waitq.h"
#include "plat/plat.h"
#include "plat/signal.h"
#include "sched/entry.h"
#include "sched/sched.h"
#include "task/budget.h"
#include "wait/timer.h"

#include <kin/signal.h>

#include <errno.h>

#define STACK_BYTES ((size_t)128 * 1024)
/* Starting a thread takes more of a stack than the check at the door asks for. */
#define START_ROOM 8192
#define GAP_NS INT64_C(100000000) /* two that come closer to each other mean the same */
#define TABLE_FIRST 16u           /* places for listeners, a power of two */

struct kin__listener {
    struct kin__listener *next; /* in the same place */
    struct signal *signal;
    struct kin__task *task; /* whose name was this: */
    uint64_t name;
    struct kin__waitq waiters; /* the task's own: one, or several cases of a select */
    bool is_kept;              /* it arrived when the task did not wait */
};

/* One signal of one runtime. */
struct signal {
    struct kin__listener **table; /* NULL: no task has waited for it */
    uint32_t places, count;
    bool is_held;
    bool is_untaken; /* no task has taken what arrived last */
};

struct watch {
    struct watch *next;
    uint64_t signals;
    const struct kin__signal_watcher *watcher;
    void *object;
    uint64_t name;
    uint64_t early; /* those that are due and arrived before it watched: not its business */
    uint64_t seen;  /* the round that fired it last, or that it was made in */
};

/* A runtime that holds signals. */
struct holder {
    struct holder *next;
    struct kin__sched *sched;
    struct watch *watches;
    struct signal signals[KIN__SIGNALS];
};

static struct kin__lock lock; /* rank WAIT; the rest */
static struct holder *holders;
static uint16_t holds[KIN__SIGNALS];    /* how many runtimes hold each */
static uint64_t due;                    /* arrived, and the watchers have not been asked yet */
static uint64_t rounds;                 /* of asking them */
static const struct kin__sched *firing; /* whose watcher runs right now */
static int64_t done_at;                 /* when one last did something; the thread's own */
static int64_t gap = GAP_NS;
static struct kin__thread thread;       /* whoever starts and joins it */
static bool is_listening;               /* it runs */
static bool is_ending;                  /* the last holder has left, it is to end */

static void take_lock(void)
{
    kin__lock_take(&lock, KIN__RANK_WAIT);
}

static void give_lock(void)
{
    kin__lock_give(&lock, KIN__RANK_WAIT);
}

/* ---- arrivals ---- */

/* Hands one out to a runtime. Of several cases of one select one is enough. */
static void arrive_locked(struct signal *signal, struct kin__wakes *wakes)
{
    struct kin__claimed claimed;
    signal->is_untaken = true;
    for (uint32_t i = 0; i < signal->places; i++) {
        for (struct kin__listener *one = signal->table[i]; one; one = one->next) {
            one->is_kept = !kin__waitq_claim(&one->waiters, &claimed);
            if (one->is_kept)
                continue;
            kin__wakes_add(wakes, &claimed, 0);
            signal->is_untaken = false;
        }
    }
}

/* Hands out what has arrived. */
static void hand_out_locked(struct kin__wakes *wakes)
{
    uint64_t arrived = kin__signal_take();
    due |= arrived;
    for (struct holder *holder = holders; arrived && holder; holder = holder->next) {
        for (struct watch *watch = holder->watches; watch; watch = watch->next)
            watch->early &= ~arrived;
        for (int i = 0; i < KIN__SIGNALS; i++) {
            if ((arrived >> i & 1) && holder->signals[i].is_held)
                arrive_locked(&holder->signals[i], wakes);
        }
    }
}

/* ---- the waitable ---- */

static bool signal_try(void *object, void *io, int *status)
{
    struct kin__listener *self = object;
    struct kin__wakes wakes = {0};
    (void)io;
    *status = 0;
    take_lock();
    hand_out_locked(&wakes);
    bool is_kept = self->is_kept;
    self->is_kept = false;
    if (is_kept)
        self->signal->is_untaken = false;
    give_lock();
    kin__wakes_run(&wakes);
    return is_kept;
}

static bool signal_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__listener *self = object;
    (void)status;
    take_lock();
    bool links = !self->is_kept;
    if (links)
        kin__waitq_push(&self->waiters, waiter);
    give_lock();
    return links;
}

static void signal_unpublish(void *object, struct kin__waiter *waiter)
{
    (void)object;
    take_lock();
    kin__waitq_remove(waiter);
    give_lock();
}

const struct kin__waitable kin__signal_waitable = {"signal", signal_try, signal_publish,
                                                   signal_unpublish};

KIN__WAITABLE_READY(kin__signal_waitable)
{
    const struct kin__listener *self = object;
    return self->is_kept ? "it has arrived" : NULL;
}

/* ---- the thread ---- */

/* A watch for the signal that this round has not asked yet; the first runtime's first. */
static struct watch *next_watch_locked(uint64_t bit, const struct kin__sched **whose)
{
    for (struct holder *holder = holders; holder; holder = holder->next) {
        for (struct watch *watch = holder->watches; watch; watch = watch->next) {
            if ((watch->early & bit) || !(watch->signals & bit) || watch->seen == rounds)
                continue;
            *whose = holder->sched;
            return watch;
        }
    }
    return NULL;
}

/* The watchers have been asked: the next one is everybody's. */
static void forget_early_locked(uint64_t bit)
{
    for (struct holder *holder = holders; holder; holder = holder->next) {
        for (struct watch *watch = holder->watches; watch; watch = watch->next)
            watch->early &= ~bit;
    }
}

static bool is_awaited_locked(int signo)
{
    for (struct holder *holder = holders; holder; holder = holder->next) {
        if (holder->signals[signo - 1].table)
            return true;
    }
    return false;
}

/* Asks every watcher about one signal that has arrived. The lock is given up while one works. */
static void fire_locked(int signo)
{
    struct watch *watch;
    bool has_done = false, is_busy = false;
    rounds++;
    while ((watch = next_watch_locked(kin__signal_bit(signo), &firing))) {
        /* ends: each is asked once */
        watch->seen = rounds;
        const struct kin__signal_watcher *watcher = watch->watcher;
        void *object = watch->object;
        uint64_t name = watch->name;
        give_lock();
        enum kin__watched how = watcher->fire(object, name);
        take_lock();
        has_done |= how == KIN__WATCHED_DONE;
        is_busy |= how == KIN__WATCHED_BUSY;
    }
    firing = NULL;
    if (!(due & kin__signal_bit(signo)))
        forget_early_locked(kin__signal_bit(signo));
    int64_t now = kin__clock_now();
    if (has_done)
        done_at = now;
    if (has_done || is_awaited_locked(signo) || holds[signo - 1] == 0 ||
        (is_busy && now - done_at < gap))
        return;
    /* Under the lock, so that nobody gives it back meanwhile: what it does is done by the program's
     * own handler, if at all, which may call nothing of kin. */
    kin__signal_pass(signo);
}

/* Hands out what has arrived and asks the watchers about it. */
static void deliver_locked(void)
{
    struct kin__wakes wakes = {0};
    hand_out_locked(&wakes);
    give_lock();
    kin__wakes_run(&wakes);
    take_lock();
    while (due) { /* ends: one fewer each time, as long as they come slower than we work */
        int signo = 1 + __builtin_ctzll(due);
        due &= due - 1;
        fire_locked(signo);
    }
}

#ifdef KIN__LAB /* no thread listens: whoever raises one delivers it, lab/signal.c */

void kin__signal_deliver(void)
{
    take_lock();
    deliver_locked();
    give_lock();
}

static int start_locked(void)
{
    if (!is_listening)
        done_at = 0;
    is_listening = true;
    return 0;
}

#else

static uint64_t held_locked(void)
{
    uint64_t held = 0;
    for (int signo = 1; signo <= KIN__SIGNALS; signo++) {
        if (holds[signo - 1])
            held |= kin__signal_bit(signo);
    }
    return held;
}

static void listen(void *arg)
{
    (void)arg;
    take_lock();
    while (!is_ending) { /* ends: with the last runtime that held one */
        uint64_t held = held_locked();
        give_lock();
        kin__thread_passive(1); /* tasks that wait for a signal are counted; watchers only cancel */
        kin__signal_listen(held);
        kin__thread_passive(-1);
        take_lock();
        deliver_locked();
    }
    give_lock();
}

/* Starts the thread if need be. Under the lock: once in a long time. */
static int start_locked(void)
{
    if (is_listening)
        return 0;
    int rc = kin__thread_start(&thread, listen, NULL, STACK_BYTES, "kin-signal");
    is_listening = rc == 0;
    return rc;
}

#endif

/* ---- holding ---- */

static struct holder *holder_of(const struct kin__sched *sched)
{
    struct holder *holder = holders;
    while (holder && holder->sched != sched) /* ends: there are few */
        holder = holder->next;
    return holder;
}

static int hold_locked(struct holder *holder, int signo)
{
    int rc = holds[signo - 1] ? 0 : kin__signal_hold(signo);
    if (rc < 0)
        return rc;
    holds[signo - 1]++;
    holder->signals[signo - 1].is_held = true;
    kin__signal_call(); /* the thread takes it from now on, too */
    return 0;
}

/* The runtime's holder, which is made with the memory in *fresh if need be; NULL: the thread is
 * about to end, and will be needed again. */
static struct holder *join_locked(struct kin__sched *sched, struct holder **fresh)
{
    struct holder *holder = holder_of(sched);
    if (holder || is_ending || !*fresh)
        return holder;
    holder = *fresh;
    *fresh = NULL;
    holder->sched = sched;
    holder->next = holders;
    holders = holder;
    return holder;
}

/* Takes the lock with the holder of the running task's runtime in *out. 0 or -ENOMEM, and the lock
 * is not taken. */
static int lock_holder(struct holder **out)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    struct holder *fresh = NULL;
    take_lock();
    while (!(*out = join_locked(sched, &fresh))) { /* ends: the thread does */
        give_lock();
        if (!fresh && !(fresh = kin__heap_alloc(sizeof(*fresh))))
            return -ENOMEM;
        kin__thread_yield();
        take_lock();
    }
    if (fresh) {
        give_lock(); /* another task was faster */
        kin__heap_free(fresh);
        take_lock();
    }
    return 0;
}

/* Starting a thread from a task needs more room than other calls. */
static void check_room(void)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY((const char *)__builtin_frame_address(0) - task->low < START_ROOM))
        kin__entry_overflow(task);
}

/* ---- listeners ---- */

static struct kin__listener **place_of(const struct signal *signal, const struct kin__task *task)
{
    return &signal->table[kin__hash_u64((uintptr_t)task) & (signal->places - 1)];
}

static bool is_over(const struct kin__listener *one)
{
    return kin__load_relaxed(&one->task->frame.name) != one->name; /* relaxed: never comes back */
}

/* Moves the listeners into a table of a fitting size; those whose task is over go to *freed. */
static void resize_locked(struct signal *signal, struct kin__listener **freed)
{
    struct kin__listener **old = signal->table;
    uint32_t places = signal->places, live = 0;
    for (uint32_t i = 0; i < places; i++) {
        for (const struct kin__listener *one = old[i]; one; one = one->next)
            live += !is_over(one);
    }
    uint32_t wanted = TABLE_FIRST;
    while (wanted < 2 * live) /* ends: the number of tasks is bounded */
        wanted *= 2;
    struct kin__listener **table = kin__heap_alloc(wanted * sizeof(*table));
    if (!table)
        return; /* it works with the old one, too */
    signal->table = table;
    signal->places = wanted;
    signal->count = 0;
    for (uint32_t i = 0; i < places; i++) {
        for (struct kin__listener *one = old[i], *next; one; one = next) {
            next = one->next;
            struct kin__listener **to = is_over(one) ? freed : place_of(signal, one->task);
            signal->count += to != freed;
            one->next = *to;
            *to = one;
        }
    }
    kin__heap_free(old);
}

/* The running task as one that listens; NULL: no memory. */
static struct kin__listener *listener_locked(struct signal *signal, struct kin__listener **freed)
{
    struct kin__task *task = kin__task_self();
    struct kin__listener *one = signal->table ? *place_of(signal, task) : NULL;
    while (one && one->task != task) /* ends: the table is as large as needed */
        one = one->next;
    if (one && !is_over(one))
        return one;
    if (!one) {
        if (signal->count >= signal->places)
            resize_locked(signal, freed);
        one = signal->table ? kin__heap_alloc(sizeof(*one)) : NULL;
        if (!one)
            return NULL;
        one->next = *place_of(signal, task);
        *place_of(signal, task) = one;
        signal->count++;
    }
    one->signal = signal;
    one->task = task;
    one->name = kin__task_id(task);
    one->is_kept = signal->is_untaken;
    return one;
}

static void free_listeners(struct kin__listener *list)
{
    while (list) { /* ends: one fewer each time */
        struct kin__listener *next = list->next;
        KIN__ASSERT(kin__waitq_is_empty(&list->waiters), "A8");
        kin__heap_free(list);
        list = next;
    }
}

static void free_table(struct signal *signal)
{
    for (uint32_t i = 0; i < signal->places; i++)
        free_listeners(signal->table[i]);
    kin__heap_free(signal->table);
}

int kin__signal_prepare(int signo, struct kin__listener **out)
{
    struct holder *holder;
    struct kin__listener *freed = NULL;
    *out = NULL;
    if (!kin__signal_is_fit(signo))
        return -EINVAL;
    check_room();
    int rc = lock_holder(&holder);
    if (rc < 0)
        return rc;
    struct signal *signal = &holder->signals[signo - 1];
    if (!signal->is_held && (rc = start_locked()) == 0)
        rc = hold_locked(holder, signo);
    if (rc == 0 && !(*out = listener_locked(signal, &freed)))
        rc = -ENOMEM;
    give_lock();
    free_listeners(freed);
    return rc;
}

/* ---- watching ---- */

/* Forgets watches of things that are over. */
static void tidy_locked(struct holder *holder, struct watch **freed)
{
    struct watch **link = &holder->watches;
    while (*link) { /* ends: one further each time */
        struct watch *watch = *link;
        if (!watch->watcher->is_over(watch->object, watch->name)) {
            link = &watch->next;
            continue;
        }
        *link = watch->next;
        watch->next = *freed;
        *freed = watch;
    }
}

static void free_watches(struct watch *list)
{
    while (list) { /* ends: one fewer each time */
        struct watch *next = list->next;
        kin__heap_free(list);
        list = next;
    }
}

int kin__signal_watch(uint64_t signals, const struct kin__signal_watcher *watcher, void *object,
                      uint64_t name)
{
    struct holder *holder;
    struct kin__wakes wakes = {0};
    struct watch *watch = kin__heap_alloc(sizeof(*watch)), *freed = NULL;
    if (!watch)
        return -ENOMEM;
    check_room();
    int rc = lock_holder(&holder);
    if (rc < 0) {
        kin__heap_free(watch);
        return rc;
    }
    hand_out_locked(&wakes); /* what is there already came before */
    *watch = (struct watch){NULL, signals, watcher, object, name, due, rounds};
    rc = start_locked();
    for (int signo = 1; rc == 0 && signo <= KIN__SIGNALS; signo++) {
        if ((signals & kin__signal_bit(signo)) && !holder->signals[signo - 1].is_held)
            rc = hold_locked(holder, signo);
    }
    tidy_locked(holder, &freed);
    if (rc == 0) {
        watch->next = holder->watches;
        holder->watches = watch;
    } else { /* what it holds stays held: without a watch it does what it did before */
        watch->next = freed;
        freed = watch;
    }
    give_lock();
    kin__wakes_run(&wakes);
    free_watches(freed);
    return rc;
}

/* ---- the end of a runtime ---- */

/* Takes a runtime out of the list and gives its signals back; NULL: it holds none. */
static struct holder *remove_locked(const struct kin__sched *sched)
{
    struct holder **link = &holders;
    while (*link && (*link)->sched != sched) /* ends: there are few */
        link = &(*link)->next;
    struct holder *holder = *link;
    if (!holder)
        return NULL;
    *link = holder->next;
    for (int signo = 1; signo <= KIN__SIGNALS; signo++) {
        if (holder->signals[signo - 1].is_held && --holds[signo - 1] == 0)
            kin__signal_let_go(signo);
    }
    return holder;
}

void kin__signal_leave(struct kin__sched *sched)
{
    take_lock();
    struct holder *holder = remove_locked(sched);
    while (firing == sched) { /* ends: a watcher does not wait */
        give_lock();
        kin__thread_yield();
        take_lock();
    }
    bool is_last = holder && !holders && is_listening;
    is_ending |= is_last;
    give_lock();
    if (is_last) {
        kin__signal_call();
        kin__thread_join(&thread);
        take_lock();
        is_listening = is_ending = false;
        due = 0;
        give_lock();
    }
    if (holder) {
        for (int i = 0; i < KIN__SIGNALS; i++)
            free_table(&holder->signals[i]);
        free_watches(holder->watches);
        kin__heap_free(holder);
    }
}

/* ---- for tests ---- */

unsigned kin__signal_watches(void)
{
    unsigned count = 0;
    take_lock();
    for (struct holder *holder = holders; holder; holder = holder->next) {
        for (struct watch *watch = holder->watches; watch; watch = watch->next)
            count++;
    }
    give_lock();
    return count;
}

bool kin__signal_has_thread(void)
{
    take_lock();
    bool runs = is_listening;
    give_lock();
    return runs;
}

unsigned kin__signal_listeners(int signo)
{
    unsigned count = 0;
    take_lock();
    for (struct holder *holder = holders; holder; holder = holder->next)
        count += holder->signals[signo - 1].count;
    give_lock();
    return count;
}

void kin__signal_set_gap(int64_t ns)
{
    take_lock();
    gap = ns;
    give_lock();
}

/* ---- the public face ---- */

int kin_signal_wait(int signo, kin_time deadline)
{
    struct kin__listener *self;
    if (!kin__signal_is_fit(signo))
        return -EINVAL;
    int rc = kin__entry_begin(kin__task_self(), KIN_CAP_PROCESS, deadline);
    if (rc == 0)
        rc = kin__signal_prepare(signo, &self);
    if (rc < 0)
        return rc;
    kin__worker_outside(1);
    rc = kin__wait_until(&kin__signal_waitable, self, NULL, deadline, 0);
    kin__worker_outside(-1);
    return rc;
}
