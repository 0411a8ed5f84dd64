/* SPDX-License-Identifier: MIT */
/*
 * Descriptors as things to wait for: a table of them, and the poller of a runtime.
 *
 *     try the call -> EAGAIN -> publish: event since? try again : linked -> event: count, wake
 *
 * The table is the process's and is indexed by number. An entry has a generation, which goes up
 * when kin closes or opens the number: an event of an earlier one is dropped and a task that waits
 * for it is told KIN_CLOSED. A number is not given back to the system while a thread is in a system
 * call on it: whoever leaves last closes it, so that no call hits what the number means next. A
 * descriptor that kin opened is registered once, edge-triggered. One that the program opened is
 * registered anew at every wait, because the program may have closed it and got the same number
 * again without telling: then the kernel has forgotten it, and says so.
 *
 * Edge-triggered events come once, so they are counted: an operation remembers the count before it
 * tries and parks only if no event came since. A bit that whoever publishes next clears is not
 * enough: of two readers that both failed, the first would take it, read a part and leave the other
 * parked beside the rest. All waiters of a direction are woken by an event: each tries, and those
 * that get nothing wait again.
 */
#include "wait/poll.h"

#include "sched/entry.h"
#include "sched/sched.h"
#include "wait/timer.h"

#include <kin/io.h>

#include <errno.h>
#include <stddef.h>

#define READY_BATCH 32  /* small: polling may happen on the stack of a task that parks */
#define BELL UINT64_MAX /* the data of the bell; no descriptor has that number */

struct poller {
    int set, bell;
    uint32_t number; /* no other poller of the process ever has it */
};

_Static_assert(offsetof(struct kin__fd_entry, writers) == KIN__LINE, "one line for readers");

static kin__a32 pollers; /* how many there were */
_Atomic(struct kin__fd_entry *) kin__fd_chunks[KIN__FD_CHUNKS];

/* The entry of a number; NULL when there is no memory for it or it is beyond the table. */
static struct kin__fd_entry *entry_of(int fd)
{
    struct kin__fd_entry *entry = kin__fd_find(fd), *chunk = NULL;
    uint32_t at = (uint32_t)fd >> KIN__FD_CHUNK_BITS;
    if (KIN__LIKELY(entry != NULL) || at >= KIN__FD_CHUNKS)
        return entry;
    struct kin__fd_entry *fresh = kin__vm_reserve(KIN__FD_CHUNK * sizeof(*fresh));
    if (!fresh)
        return NULL;
    /* pairs with the load in kin__fd_find */
    if (!kin__cas_acq_rel(&kin__fd_chunks[at], &chunk, fresh))
        kin__vm_release(fresh, KIN__FD_CHUNK * sizeof(*fresh)); /* somebody was faster */
    return kin__fd_find(fd);
}

/* The place of a direction in an entry. */
static unsigned way_of(unsigned bit)
{
    return bit == KIN__READY_WRITE;
}

/* ---- the poller of a runtime ---- */

/* Claims everybody in a queue. */
static inline void wake_locked(struct kin__waitq *queue, int status, struct kin__wakes *wakes)
{
    struct kin__claimed claimed;
    while (kin__waitq_claim(queue, &claimed)) /* ends: one fewer each time */
        kin__wakes_add(wakes, &claimed, status);
}

/* Counts an event for a direction, with more set if it tells of more than data. */
static inline void count_locked(struct kin__fd_entry *entry, unsigned way, uint32_t more)
{
    uint32_t events = kin__load_relaxed(&entry->events[way]); /* relaxed: under the lock */
    kin__store_release(&entry->events[way], (events + 2) | more); /* pairs with look_again */
}

static uint32_t on_ready(const struct kin__ready *ready)
{
    struct kin__fd_entry *entry = kin__fd_find((int)(uint32_t)ready->data);
    struct kin__wakes wakes = {0};
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    /* relaxed: the generation changes under the lock */
    if (KIN__LIKELY(kin__load_relaxed(&entry->state) >> 32 == ready->data >> 32)) {
        entry->kept |= (uint8_t)(ready->bits & (KIN__READY_READ | KIN__READY_WRITE));
        if (ready->bits & KIN__READY_READ) {
            count_locked(entry, 0, (ready->bits & KIN__READY_MORE) != 0);
            wake_locked(&entry->readers, (int)KIN__READY_READ, &wakes);
        }
        if (ready->bits & KIN__READY_WRITE) {
            count_locked(entry, 1, 0);
            if (entry->has_writers)
                wake_locked(&entry->writers, (int)KIN__READY_WRITE, &wakes);
            entry->has_writers = false;
        }
    }
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    uint32_t count = wakes.count;
    if (count)
        kin__wakes_run(&wakes);
    return count;
}

/* Fetches what the wakes will touch, all of it cold when there are many connections: the entries,
 * then whoever waits there. They overlap instead of being waited for one after the other. */
static inline void warm_up(const struct kin__ready *ready, int count)
{
    for (int i = 0; i < count; i++)
        __builtin_prefetch(kin__fd_find((int)(uint32_t)ready[i].data), 1);
    for (int i = 0; i < count; i++) {
        struct kin__fd_entry *entry = kin__fd_find((int)(uint32_t)ready[i].data);
        if (KIN__UNLIKELY(!entry)) /* the bell */
            continue;
        uintptr_t waiter = (uintptr_t)kin__load_relaxed(&entry->warm[0]); /* relaxed: a hint */
        uintptr_t task = (uintptr_t)kin__load_relaxed(&entry->warm[1]);   /* relaxed: as above */
        __builtin_prefetch((void *)waiter, 1);
        __builtin_prefetch((void *)(waiter + KIN__LINE), 1);
        for (unsigned line = 0; line < sizeof(struct kin__task) / KIN__LINE; line++)
            __builtin_prefetch((void *)(task + KIN__LINE * line), 1);
    }
}

static uint32_t poller_poll(struct kin__sched *sched, int64_t ns)
{
    struct poller *poller = sched->io_state;
    struct kin__ready ready[READY_BATCH];
    uint32_t woken = 0;
    int count;
    do { /* ends: once somebody was woken: what was fetched for that is still warm when it runs */
        count = kin__epoll_wait(poller->set, ready, READY_BATCH, ns);
        if (count > 2)
            warm_up(ready, count);
        for (int i = 0; i < count; i++) {
            if (KIN__UNLIKELY(ready[i].data == BELL))
                kin__bell_clear(poller->bell);
            else
                woken += on_ready(&ready[i]);
        }
        ns = 0;
    } while (count == READY_BATCH && woken == 0);
    return woken;
}

static void poller_wake(struct kin__sched *sched)
{
    kin__bell_ring(((struct poller *)sched->io_state)->bell);
}

static void poller_fini(struct kin__sched *sched)
{
    struct poller *poller = sched->io_state;
    (void)kin__fd_close(poller->bell);
    (void)kin__fd_close(poller->set);
    kin__heap_free(poller);
    sched->io_state = NULL;
}

static const struct kin__outside outside = {poller_poll, poller_wake, poller_fini};

/* Gives a runtime its poller. 0 or -errno. */
static __attribute__((noinline)) int start_poller(struct kin__sched *sched)
{
    static struct kin__lock lock; /* rank WAIT: one at a time */
    int rc = -ENOMEM;
    struct poller *poller = kin__heap_alloc(sizeof(*poller));
    if (!poller)
        return -ENOMEM;
    if ((rc = poller->set = kin__epoll_create()) < 0)
        goto fail_poller;
    if ((rc = poller->bell = kin__bell_create()) < 0)
        goto fail_set;
    if ((rc = kin__epoll_add(poller->set, poller->bell, BELL)) < 0)
        goto fail_bell;
    poller->number = kin__add_relaxed(&pollers, 1u) + 1; /* alone: a counter */
    kin__lock_take(&lock, KIN__RANK_WAIT);
    bool is_first = !kin__load_relaxed(&sched->io); /* relaxed: written under this lock */
    if (is_first) {
        sched->io_state = poller;
        kin__store_release(&sched->io, &outside); /* pairs with the load in poll_begin */
    }
    kin__lock_give(&lock, KIN__RANK_WAIT);
    if (is_first)
        return 0;
fail_bell:
    (void)kin__fd_close(poller->bell);
fail_set:
    (void)kin__fd_close(poller->set);
fail_poller:
    kin__heap_free(poller);
    return rc < 0 ? rc : 0;
}

/* Whether the kernel tells this poller about the descriptor for as long as it is open. */
static bool is_watched(const struct poller *poller, const struct kin__fd *fd)
{
    /* relaxed: a descriptor that is being closed is found to be when the waiter is linked */
    return kin__fd_is(fd, KIN__FD_OURS) &&
           kin__load_relaxed(&fd->entry->poller) == poller->number; /* relaxed: as above */
}

/* Makes the kernel tell a poller about the descriptor. 0 or -errno. */
static int register_locked(const struct poller *poller, const struct kin__fd *fd)
{
    uint64_t data = (uint64_t)fd->generation << 32 | (uint32_t)fd->fd;
    kin__a32 *where = &fd->entry->poller;
    bool is_known = kin__load_relaxed(where) == poller->number; /* relaxed: under the lock */
    int rc = is_known ? kin__epoll_rearm(poller->set, fd->fd, data)
                      : kin__epoll_add(poller->set, fd->fd, data);
    if (rc == -ENOENT) /* the program closed it, and this is another one */
        rc = kin__epoll_add(poller->set, fd->fd, data);
    else if (rc == -EEXIST)
        rc = kin__epoll_rearm(poller->set, fd->fd, data);
    if (rc == 0)
        kin__store_relaxed(where, poller->number); /* relaxed: as in is_watched */
    return rc;
}

/* ---- the waitable ---- */

/* Whether kin_close came since the operation began. */
static bool is_closed_locked(const struct kin__fd *fd)
{
    uint64_t state = kin__load_relaxed(&fd->entry->state); /* relaxed: both change under the lock */
    return state >> 32 != fd->generation || (state & KIN__FD_CLOSING);
}

static bool has_event(const struct kin__fd *fd, unsigned way)
{
    return kin__load_relaxed(&fd->entry->events[way]) != fd->seen[way]; /* relaxed: locked */
}

static bool fd_try(void *object, void *io, int *status)
{
    struct kin__fd_case *one = object;
    struct kin__fd_entry *entry = one->fd.entry;
    (void)io;
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    *status = is_closed_locked(&one->fd) ? KIN_CLOSED
              : has_event(&one->fd, way_of(one->bit)) ? (int)one->bit : 0;
    kin__fd_look_again(&one->fd);
    entry->kept &= (uint8_t)~one->bit;
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    return *status != 0;
}

static bool fd_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__fd_case *one = object;
    struct kin__fd_entry *entry = one->fd.entry;
    unsigned way = way_of(one->bit);
    (void)status;
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    bool links = !is_closed_locked(&one->fd) && !has_event(&one->fd, way);
    if (links && way) {
        kin__waitq_push(&entry->writers, waiter);
        entry->has_writers = true;
    } else if (links) {
        kin__waitq_push(&entry->readers, waiter);
        kin__store_relaxed(&entry->warm[0], waiter);       /* relaxed: only to fetch it early */
        kin__store_relaxed(&entry->warm[1], waiter->task); /* relaxed: as above */
    }
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    return links;
}

static void fd_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__fd_case *one = object;
    kin__lock_take(&one->fd.entry->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    kin__lock_give(&one->fd.entry->lock, KIN__RANK_WAIT);
}

const struct kin__waitable kin__fd_waitable = {"descriptor", fd_try, fd_publish, fd_unpublish};

/* ---- operations ---- */

/* Somebody closes the number: the state when it is done, or for as long as calls are under way. */
static __attribute__((noinline)) uint64_t await_close(struct kin__fd_entry *entry)
{
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    uint64_t state = kin__load_relaxed(&entry->state); /* relaxed: under the lock */
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    return state;
}

/* An event that nobody has tried for since counts as one that came after the beginning: the caller
 * may have tried before. */
static __attribute__((noinline)) void keep_events(struct kin__fd *fd)
{
    kin__lock_take(&fd->entry->lock, KIN__RANK_WAIT);
    for (unsigned way = 0; way < 2; way++) {
        if (fd->entry->kept & (way ? KIN__READY_WRITE : KIN__READY_READ))
            fd->seen[way] -= 2;
    }
    kin__lock_give(&fd->entry->lock, KIN__RANK_WAIT);
}

int kin__fd_begin_slow(int fd, struct kin__fd *out)
{
    struct kin__fd_entry *entry = entry_of(fd);
    if (!entry)
        return fd < 0 ? -EBADF : (uint32_t)fd / KIN__FD_CHUNK >= KIN__FD_CHUNKS ? -EMFILE : -ENOMEM;
    uint64_t state = kin__load_acquire(&entry->state); /* pairs with forget_locked */
    if ((state & KIN__FD_CLOSING) && ((state = await_close(entry)) & KIN__FD_CLOSING))
        return -EBADF;
    out->fd = fd;
    out->generation = (uint32_t)(state >> 32);
    out->entry = entry;
    kin__fd_look_again(out);
    return state & KIN__FD_OURS ? 0 : kin__fd_unblock(fd);
}

int kin__fd_begin(int fd, struct kin__fd *out)
{
    int rc = kin__fd_begin_try(fd, out);
    if (rc == 0)
        keep_events(out);
    return rc;
}

int kin__fd_prepare(const struct kin__fd *fd)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    int rc = 0;
    if (KIN__UNLIKELY(!kin__load_acquire(&sched->io)) && /* pairs with the store in start_poller */
        (rc = start_poller(sched)) < 0)
        return rc;
    const struct poller *poller = sched->io_state;
    if (KIN__LIKELY(is_watched(poller, fd)))
        return 0;
    kin__lock_take(&fd->entry->lock, KIN__RANK_WAIT);
    if (is_closed_locked(fd))
        rc = KIN_CLOSED;
    else /* a system call under a lock, for most once: a kin_close must not come in between */
        rc = register_locked(poller, fd);
    kin__lock_give(&fd->entry->lock, KIN__RANK_WAIT);
    return rc;
}

/* Waits for one direction, or for both. */
static int wait_one(const struct kin__fd *fd, unsigned bit, kin_time deadline)
{
    struct kin__fd_case one = {*fd, bit};
    if (KIN__LIKELY(kin__deadline_of(kin__task_self(), deadline) == KIN_NEVER))
        return kin__wait(&kin__fd_waitable, &one, NULL, KIN__WAIT_TRIED); /* less stack to touch */
    return kin__wait_until(&kin__fd_waitable, &one, NULL, deadline, KIN__WAIT_TRIED);
}

static int wait_both(const struct kin__fd *fd, kin_time deadline)
{
    struct kin__case cases[3];
    struct kin__fd_case ones[2] = {{*fd, KIN__READY_READ}, {*fd, KIN__READY_WRITE}};
    int status = 0;
    for (unsigned i = 0; i < 2; i++) {
        cases[i].ops = &kin__fd_waitable;
        cases[i].object = &ones[i];
        cases[i].io = NULL;
    }
    int rc = kin__wait_any_until(cases, 2, deadline, KIN__WAIT_TRIED, &status);
    return rc < 0 ? rc : status;
}

int kin__fd_wait(struct kin__fd *fd, unsigned bits, kin_time deadline)
{
    if (deadline == 0)
        return KIN_TIMEOUT;
    int rc = kin__fd_prepare(fd);
    if (rc < 0)
        return rc;
    struct kin__sched *sched = kin__worker_self()->sched;
    (void)kin__add_relaxed(&sched->outside, 1u); /* alone: the monitor looks when all sleep */
    rc = bits == (KIN__READY_READ | KIN__READY_WRITE) ? wait_both(fd, deadline)
                                                      : wait_one(fd, bits, deadline);
    (void)kin__sub_acq_rel(&sched->outside, 1u); /* alone: as above */
    kin__fd_look_again(fd);
    return rc;
}

/* Nothing that is known of the number holds for what it means next; calls that are under way on
 * what it meant stay counted. */
static void forget_locked(struct kin__fd_entry *entry, uint64_t kind)
{
    uint64_t state = kin__load_relaxed(&entry->state); /* relaxed: the exchange decides */
    uint64_t next;
    do {
        next = ((state >> 32) + 1) << 32 | kind | (state & KIN__FD_CALLS);
    } while (!kin__cas_acq_rel(&entry->state, &state, next)); /* pairs with kin__fd_enter */
    kin__store_relaxed(&entry->poller, 0u); /* relaxed: as in is_watched */
    kin__store_relaxed(&entry->dry, 0u);    /* relaxed: no count is as old */
    entry->kept = 0;
    for (unsigned way = 0; way < 2; way++) {
        uint32_t events = kin__load_relaxed(&entry->events[way]); /* relaxed: under the lock */
        kin__store_relaxed(&entry->events[way], (events + 2) & ~1u); /* relaxed: as above */
    }
}

int kin__fd_opened_as(int fd, unsigned kind)
{
    struct kin__fd_entry *entry = entry_of(fd);
    if (KIN__UNLIKELY(!entry)) {
        (void)kin__fd_close(fd);
        return (uint32_t)fd / KIN__FD_CHUNK >= KIN__FD_CHUNKS ? -EMFILE : -ENOMEM;
    }
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    forget_locked(entry, KIN__FD_OURS | kind);
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    return 0;
}

/* Closes under the lock: whoever gets the number from the system next finds the entry ready. */
static int close_locked(int fd, struct kin__fd_entry *entry)
{
    int rc = kin__fd_close(fd);
    forget_locked(entry, 0);
    return rc;
}

void kin__fd_left_last(int fd, struct kin__fd_entry *entry)
{
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    (void)close_locked(fd, entry);
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
}

int kin_close(int fd)
{
    struct kin__fd_entry *entry = entry_of(fd);
    struct kin__wakes wakes = {0};
    kin__entry_check_self();
    if (!entry)
        return fd < 0 ? -EBADF : kin__fd_close(fd);
    struct kin__worker *worker = kin__worker_self();
    const struct poller *poller = NULL;
    if (worker && kin__load_acquire(&worker->sched->io)) /* pairs with the store in start_poller */
        poller = worker->sched->io_state;
    int rc = 0;
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    /* pairs with kin__fd_enter: calls that came before are counted, others find it closed */
    uint64_t state = kin__or_acq_rel(&entry->state, KIN__FD_CLOSING);
    if (state & KIN__FD_CLOSING) {
        kin__lock_give(&entry->lock, KIN__RANK_WAIT);
        return -EBADF;
    }
    wake_locked(&entry->readers, KIN_CLOSED, &wakes);
    wake_locked(&entry->writers, KIN_CLOSED, &wakes);
    /* The set would keep reporting a descriptor of which the program has a copy. relaxed: locked */
    if (poller && kin__load_relaxed(&entry->poller) == poller->number)
        (void)kin__epoll_remove(poller->set, fd);
    if ((state & KIN__FD_CALLS) == 0)
        rc = close_locked(fd, entry);
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    kin__wakes_run(&wakes);
    return rc;
}
