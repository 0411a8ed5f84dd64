/* SPDX-License-Identifier: MIT */
/*
 * When to spin, when to sleep, whom to wake [002:1.4].
 *
 * One 32-bit word counts sleepers and searchers. At most one worker searches at a time: others that
 * run out of work go straight to sleep, and a searcher that finds some passes the search on by
 * waking the next sleeper, so a burst of work wakes workers one after the other and no herd runs.
 *
 *     sleeper    listed, sleepers + 1 ; full fence ; look at every queue again ; sleep
 *     provider   publish work ; full fence ; somebody sleeps and nobody searches? wake one
 *
 * Either the sleeper sees the work or the provider sees the sleeper; with acquire and release alone
 * both can miss (test/model/idle.pml). A wake hands the role of the searcher over in the same step
 * in which it takes a sleeper off the count, so two wakes in a row wake two, and a wake on its way
 * is not repeated.
 *
 * Work is private to its owner as long as the word is 0: who makes something runnable then pays one
 * load for the question, and no fence. Whoever reads something else publishes [E5]:
 *
 *     owner      push, private ; light fence ; the word is 0? done : publish, wake one as above
 *     sleeper    moments of sleep that grow from 1 us to 1 ms, the first ones spun [SCHED:7.4.2]
 *                then, for good: listed ; membarrier ; does anybody have anything, private or not?
 *
 * Either the owner's load comes after the membarrier and sees the sleeper, or its push came before
 * and the sleeper sees that (test/model/nap.pml). A sleeper that sees private work goes on with
 * moments of 1 ms, and the searcher opens the queue of an owner that does not move (steal.c). A
 * moment is long enough for a worker with a little work now and then never to pay a membarrier.
 *
 * What an owner is to run next itself, such as the task that it has just woken, it does not
 * publish: the two would be torn apart. It sees to it that somebody is up who looks, no more, and
 * a sleeper that naps is such a somebody.
 */
#include "sched/sched.h"
#include "sched/tape.h"

#define SPIN_FIRST_NS 1000
#define WATCH_NS 32000 /* an owner that has not moved for that long has its queue opened */
#define MOMENT_LAST_NS 1000000u /* the longest moment of a sleep that is not for good */

/* Becomes the searcher, unless there is one. */
static bool search_begin(struct kin__sched *sched)
{
    uint32_t idle = kin__load_relaxed(&sched->idle); /* relaxed: the exchange decides */
    do {
        if (idle & KIN__IDLE_SEARCHER)
            return false;
        /* pairs with itself */
    } while (!kin__cas_acq_rel(&sched->idle, &idle, idle | KIN__IDLE_SEARCHER));
    return true;
}

/* The searcher found something: the search goes on with another worker if more is to be had. */
static void search_found(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    (void)kin__sub_acq_rel(&sched->idle, KIN__IDLE_SEARCHER); /* pairs with search_begin */
    kin__fence_seq(); /* fence: no longer a searcher before looking; mirror: a provider's fence */
    if (kin__idle_wants(sched) && kin__steal_is_worth(worker))
        kin__idle_wake_one(sched);
}

/* What the word of idle workers counts a listed sleeper as. */
static uint32_t count_of(const struct kin__worker *worker)
{
    return KIN__IDLE_SLEEPER + (worker->is_napping ? KIN__IDLE_NAP : 0);
}

/* Turns one sleeper into the searcher, if that is still wanted; NULL when it is not. The list and
 * the count of sleepers change together under the lock: a sleeper that gets up by itself in between
 * would otherwise take the count of another. */
static struct kin__worker *choose_locked(struct kin__sched *sched)
{
    uint32_t idle = kin__load_relaxed(&sched->idle); /* relaxed: the exchange decides */
    struct kin__worker *worker = sched->sleepers;
    do {
        if (kin__idle_sleepers(idle) == 0 || (idle & KIN__IDLE_SEARCHER))
            return NULL;
        KIN__CHECK(worker != NULL, "SCHED:6.3.1");
        /* pairs with search_begin: sleeper to searcher in one step */
    } while (!kin__cas_acq_rel(&sched->idle, &idle,
                               (idle - count_of(worker)) | KIN__IDLE_SEARCHER));
    sched->sleepers = worker->sleeper_next;
    worker->is_listed = false;
    return worker;
}

void kin__idle_wake_one(struct kin__sched *sched)
{
    kin__fence_seq(); /* fence: the work before the count; its mirror is in sleep_listed */
    if (!kin__idle_wants(sched))
        return;
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    struct kin__worker *worker = choose_locked(sched);
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    if (!worker)
        return;
    (void)kin__add_relaxed(&sched->wakes, 1u); /* alone: a counter */
    kin__idle_wake_worker(worker);
}

void kin__idle_wake_worker(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    kin__store_release(&worker->wake, 1u); /* pairs with the loads in sleep_inside, sleep_outside */
    kin__fence_seq(); /* fence: wake before is_outside; its mirror is in sleep_outside */
    /* pairs with the release in sleep_outside: what the sleeper knew of io, the waker knows */
    if (kin__load_acquire(&worker->is_outside))
        kin__load_relaxed(&sched->io)->wake(sched); /* relaxed: constant once it is there */
    else
        kin__futex_wake(&worker->wake, 1);
}

void kin__idle_wake_all(struct kin__sched *sched)
{
    for (unsigned i = 0; i < sched->workers_max; i++)
        kin__idle_wake_worker(&sched->workers[i]);
}

/* How somebody polls. */
enum { LOOKING = 1, SLEEPING };

/* Becomes the one who polls; NULL when somebody does, or there is nothing outside. Whoever wants to
 * sleep waits for a look to end: else both could leave, and nobody would be there for what comes
 * next. So when all workers sleep, one of them does so in the poll. */
static const struct kin__outside *poll_begin(struct kin__sched *sched, uint32_t how)
{
    /* pairs with the release of whoever brought it: its state is there */
    const struct kin__outside *io = kin__load_acquire(&sched->io);
    uint32_t is = 0;
    if (KIN__LIKELY(!io))
        return NULL;
    /* pairs with poll_end; ends: looks do */
    while (!kin__cas_acquire(&sched->is_polled, &is, how)) {
        if (how == LOOKING || is == SLEEPING)
            return NULL;
        kin__thread_yield();
        is = 0;
    }
    return io;
}

static void poll_end(struct kin__sched *sched)
{
    kin__store_release(&sched->is_polled, 0u); /* pairs with poll_begin */
}

uint32_t kin__idle_poll(struct kin__sched *sched, int64_t now)
{
    const struct kin__outside *io = poll_begin(sched, LOOKING);
    if (!io)
        return 0;
    kin__store_relaxed(&sched->polled_at, now); /* relaxed: a hint */
    uint32_t woken = io->poll(sched, 0);
    poll_end(sched);
    return woken;
}

/* Sleeps in the poll of what is outside, if nobody does; *woken is how much that made runnable
 * here. False: somebody does, or nothing is. */
static bool sleep_outside(struct kin__worker *worker, int64_t moment_ns, uint32_t *woken)
{
    struct kin__sched *sched = worker->sched;
    const struct kin__outside *io = poll_begin(sched, SLEEPING);
    if (!io)
        return false;
    /* pairs with the acquire in kin__idle_wake_worker: a waker may not have heard of io before */
    kin__store_release(&worker->is_outside, 1u);
    kin__fence_seq(); /* fence: is_outside before wake; its mirror is in kin__idle_wake_worker */
    if (!kin__load_acquire(&worker->wake)) /* pairs with the release in kin__idle_wake_worker */
        *woken = io->poll(sched, moment_ns);
    kin__store_relaxed(&worker->is_outside, 0u); /* relaxed: a late wake ends the next poll early */
    poll_end(sched);
    return true;
}

/* Sleeps on a word of its own. */
static void sleep_inside(struct kin__worker *worker, int64_t moment_ns)
{
    while (!kin__load_acquire(&worker->wake)) { /* pairs with the release in wake_worker */
        if (kin__futex_wait(&worker->wake, 0, moment_ns) != 0 || moment_ns >= 0)
            break; /* an early return: the caller looks around and comes back */
    }
}

/* The sleeper gets up. True: a waker has chosen it, it is the searcher now. False: nobody had, and
 * it is an ordinary idle worker again. */
static bool unlist_self(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    bool was_listed = worker->is_listed;
    if (was_listed) {
        struct kin__worker **link = &sched->sleepers;
        while (*link != worker) /* ends: it is in the list */
            link = &(*link)->sleeper_next;
        *link = worker->sleeper_next;
        worker->is_listed = false;
        (void)kin__sub_acq_rel(&sched->idle, count_of(worker)); /* pairs with choose_locked */
    }
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    return !was_listed;
}

/* How long this worker may sleep: until its timers, or those of workers that cannot. */
static int64_t sleep_bound(struct kin__worker *worker, int64_t now)
{
    struct kin__sched *sched = worker->sched;
    int64_t first = kin__load_relaxed(&worker->next_deadline); /* relaxed: own, armed by itself */
    uint32_t stuck = kin__load_relaxed(&sched->has_stuck); /* relaxed: fenced where it counts */
    for (unsigned i = 0; stuck && i < sched->workers_max; i++) {
        struct kin__worker *other = &sched->workers[i];
        /* relaxed: whoever retires with timers wakes a sleeper after */
        bool is_dead = kin__load_relaxed(&other->state) == KIN__WORKER_DEAD;
        if (!is_dead && !kin__load_relaxed(&other->is_replaced)) /* relaxed: as above */
            continue;
        int64_t due = kin__load_relaxed(&other->next_deadline); /* relaxed: as above */
        first = due < first ? due : first;
    }
    if (first == KIN_NEVER)
        return -1;
    return first > now ? first - now : 0;
}

/* The worker is about to sleep for good: true when another has something that it keeps to itself.
 * Owners push without a fence: the membarrier is one for all of them. A runtime without it has
 * owners that fence, and a worker without company has nobody to look at. */
static bool is_private_somewhere(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    if (kin__load_relaxed(&sched->alive) == 1) /* relaxed: who starts one has seen the sleeper */
        return false;
    if (!sched->is_strong)
        kin__membarrier(); /* fence: listed before the looks; its mirror: has_company */
    return kin__steal_is_worth(worker);
}

/* Onto the list, and no longer the searcher; naps when it is not for good. */
static void list_self(struct kin__worker *worker, bool was_searching, bool naps)
{
    struct kin__sched *sched = worker->sched;
    /* alone: a late waker or a stop may set it: one more look */
    kin__store_relaxed(&worker->wake, 0u);
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    worker->sleeper_next = sched->sleepers;
    sched->sleepers = worker;
    worker->is_listed = true;
    worker->is_napping = naps;
    /* pairs with wake_one: counted under the lock under which it was listed */
    (void)kin__add_acq_rel(&sched->idle,
                           count_of(worker) - (was_searching ? KIN__IDLE_SEARCHER : 0));
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    kin__fence_seq(); /* fence: the count before the queues; its mirror is in kin__idle_wake_one */
}

/* Sleeps: for at most moment_ns, or, when it is negative, for good. True: it is the searcher now.
 * *woken: how much it has to run itself. */
static bool sleep_listed(struct kin__worker *worker, bool was_searching, int64_t moment_ns,
                         uint32_t *woken)
{
    struct kin__sched *sched = worker->sched;
    list_self(worker, was_searching, moment_ns >= 0);
    bool is_needed = kin__steal_is_visible(sched);
    if (!is_needed && moment_ns < 0 && is_private_somewhere(worker))
        moment_ns = MOMENT_LAST_NS; /* not for good after all: it comes back and opens that */
    /* Also the timers: a worker that retired just now found a searcher and woke nobody. */
    int64_t bound = sleep_bound(worker, worker->now);
    if (bound >= 0 && (moment_ns < 0 || bound < moment_ns))
        moment_ns = bound;
    /* pairs with the release in kin__sched_stop, and relaxed for attention: the waker fenced */
    if (!is_needed && !kin__load_acquire(&sched->is_stopping) &&
        !(kin__load_relaxed(&worker->attention) & KIN__DRAIN)) {
        kin__store_relaxed(&worker->state, KIN__WORKER_SLEEP); /* alone: for others to see */
        if (KIN__UNLIKELY(sched->tape != NULL))
            kin__tape_sleeps(worker, true);
        if (!sleep_outside(worker, moment_ns, woken))
            sleep_inside(worker, moment_ns);
        if (KIN__UNLIKELY(sched->tape != NULL))
            kin__tape_sleeps(worker, false);
        kin__store_relaxed(&worker->state, KIN__WORKER_ACTIVE); /* alone: for others to see */
    }
    /* Pushes that came while this worker searched have relied on it: what it saw just now, it does
     * not simply take, it searches again and passes the search on. */
    bool is_searcher = unlist_self(worker);
    if (is_searcher)
        worker->moment_ns = 0; /* there was a reason to wake it: it backs off from the start */
    else
        is_searcher = is_needed && search_begin(sched);
    kin__monitor_poke(sched); /* it may have been a timer, and the first work for long */
    return is_searcher;
}

/* Fires what is due anywhere this worker answers for. */
static bool poll_due(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    uint32_t woken = 0;
    kin__store_relaxed(&worker->is_polling, 1u); /* relaxed: so that the monitor knows why */
    for (unsigned i = 0; i < sched->workers_max; i++) {
        struct kin__worker *other = &sched->workers[i];
        /* relaxed: poll looks again under the wheel's lock */
        if (kin__load_relaxed(&other->next_deadline) <= worker->now)
            woken += sched->source->poll(other, worker->now);
    }
    kin__store_relaxed(&worker->is_polling, 0u); /* relaxed: as above */
    return woken != 0;
}

/* Waits ns, or until there is something to take. */
static void spin(struct kin__worker *worker, int64_t ns)
{
    int64_t until = kin__clock_now() + ns;
    do {
        for (unsigned i = 0; i < 16; i++)
            kin__cpu_relax();
        /* relaxed: a hint */
        if (kin__steal_is_visible(worker->sched) || kin__load_relaxed(&worker->sched->is_stopping))
            return;
    } while (kin__clock_now() < until);
}

/* The search: rounds over victims with growing moments between them, as long as spinning has lately
 * been worth it: a worker that only serves timers would otherwise spin between any two of them. */
static struct kin__task *search(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    struct kin__task *task = NULL;
    kin__store_relaxed(&worker->state, KIN__WORKER_IDLE_SPIN); /* alone: for others to see */
    for (int64_t moment = SPIN_FIRST_NS;; moment *= 2) { /* ends: at the longest moment */
        if ((task = kin__steal_round(worker)) || kin__inject_len(&sched->inject)) {
            if (moment > SPIN_FIRST_NS) /* it came while this worker spun */
                worker->spin_ns = KIN__SPIN_LAST_NS;
            break;
        }
        /* relaxed: a hint */
        if (moment > worker->spin_ns || kin__load_relaxed(&sched->is_stopping)) {
            if (worker->spin_ns > SPIN_FIRST_NS)
                worker->spin_ns /= 2;
            if (kin__steal_watch(worker)) {
                spin(worker, WATCH_NS);
                task = kin__steal_open(worker);
            }
            break;
        }
        spin(worker, moment);
    }
    kin__store_relaxed(&worker->state, KIN__WORKER_ACTIVE); /* alone: for others to see */
    return task;
}

/* Whoever does not search leaves that to the one who does, and sleeps for the longest moment at
 * once. While others have work that it cannot take, no moment is for good: one of them may yet be
 * opened. */
int64_t kin__idle_moment(struct kin__worker *worker, bool is_searcher)
{
    uint32_t last = worker->moment_ns;
    bool is_worth = kin__steal_is_worth(worker);
    if (last == MOMENT_LAST_NS && !is_worth)
        return -1;
    if (last == 0 && kin__load_relaxed(&worker->sched->alive) == 1) /* relaxed: a hint */
        return -1; /* alone: nobody but a push from outside has work for it, and that wakes it */
    uint32_t next = !is_searcher ? MOMENT_LAST_NS : last ? last * 4 : 2 * KIN__SPIN_LAST_NS;
    worker->moment_ns = next < MOMENT_LAST_NS ? next : MOMENT_LAST_NS;
    return worker->moment_ns;
}

/* A lone worker has nobody to rob; but if others than workers have pushed to its runtime since it
 * was here last, they may again at any moment: two runtimes that talk to each other spin. */
static bool is_worth_searching(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    uint64_t seen = worker->seen_outside;
    worker->seen_outside = kin__load_relaxed(&sched->pushed_outside); /* relaxed: a hint */
    return kin__load_relaxed(&sched->alive) > 1 || worker->seen_outside != seen; /* relaxed: so */
}

struct kin__task *kin__idle_wait(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    /* relaxed: a hint */
    if (kin__load_relaxed(&sched->io) && kin__idle_poll(sched, worker->now))
        return NULL;
    bool is_searcher = is_worth_searching(worker) && search_begin(sched);
    for (;;) { /* ends: a sleep from which nobody woke it as the searcher */
        if (is_searcher) {
            struct kin__task *task = search(worker);
            if (task || kin__inject_len(&sched->inject)) {
                search_found(worker);
                return task;
            }
        }
        worker->now = kin__clock_now();
        bool has_woken = poll_due(worker);
        if (has_woken || sleep_bound(worker, worker->now) == 0) {
            if (is_searcher)
                search_found(worker);
            return NULL;
        }
        uint32_t woken = 0;
        int64_t moment = kin__idle_moment(worker, is_searcher);
        is_searcher = sleep_listed(worker, is_searcher, moment, &woken);
        if (is_searcher && woken)
            search_found(worker); /* what it slept for came together with the wake */
        if (!is_searcher || woken)
            return NULL;
    }
}
