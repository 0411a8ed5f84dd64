/* SPDX-License-Identifier: MIT */
/*
 * Descriptors as things to wait for: a table of them.
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
#include "wait/poller.h"
#include "wait/timer.h"

#include <kin/io.h>

#include <errno.h>
#include <stddef.h>
#include <string.h>

_Static_assert(offsetof(struct kin__fd_entry, readers) == KIN__LINE, "one line for a reader");
_Static_assert(sizeof(struct kin__fd_entry) == 2 * KIN__LINE, "two lines");

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

/* The first reader's place is in the entry, if it waits for nothing before this. */
static inline void push_reader_locked(struct kin__fd_entry *entry, struct kin__waiter *waiter)
{
    /* relaxed: under the lock */
    if (KIN__UNLIKELY(waiter->case_ != 0 || kin__load_relaxed(&entry->reader))) {
        kin__waitq_push(&entry->readers, waiter);
        entry->has_readers = true;
        return;
    }
    kin__list_init(&waiter->link); /* in no queue, should it be taken out after a wake */
    entry->ticket = waiter->ticket;
    kin__store_relaxed(&entry->reader, waiter->task); /* relaxed: as above */
    kin__store_relaxed(&entry->stack, waiter);        /* relaxed: a hint */
}

/* Whether a waiter has that place. */
static bool is_first_locked(const struct kin__fd_entry *entry, const struct kin__waiter *waiter)
{
    return waiter->case_ == 0 && entry->ticket == waiter->ticket &&
           kin__load_relaxed(&entry->reader) == waiter->task; /* relaxed: under the lock */
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
        push_reader_locked(entry, waiter);
    }
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    return links;
}

static void fd_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__fd_entry *entry = ((struct kin__fd_case *)object)->fd.entry;
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    if (is_first_locked(entry, waiter))
        kin__store_relaxed(&entry->reader, NULL); /* relaxed: under the lock */
    else
        kin__waitq_remove(waiter);
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
}

const struct kin__waitable kin__fd_waitable = {"descriptor", fd_try, fd_publish, fd_unpublish};

KIN__WAITABLE_READY(kin__fd_waitable)
{
    const struct kin__fd_case *one = object;
    return kin__fd_look(one->fd.fd, one->bit) > 0 ? "it is ready" : NULL;
}

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
    if (KIN__LAB_FOREIGN(fd))
        return KIN_UNSUPPORTED;
    struct kin__fd_entry *entry = entry_of(fd);
    if (!entry) {
        int rc = kin__fd_manner(fd); /* -EBADF unless there is such a descriptor */
        return rc < 0 ? rc : (uint32_t)fd / KIN__FD_CHUNK >= KIN__FD_CHUNKS ? -EMFILE : -ENOMEM;
    }
    uint64_t state = kin__load_acquire(&entry->state); /* pairs with forget_locked */
    if ((state & KIN__FD_CLOSING) && ((state = await_close(entry)) & KIN__FD_CLOSING))
        return -EBADF;
    out->fd = fd;
    out->generation = (uint32_t)(state >> 32);
    out->entry = entry;
    kin__fd_look_again(out);
    int manner = state & KIN__FD_OURS ? KIN__FD_FREE : kin__fd_manner(fd);
    out->manner = (uint8_t)manner;
    return manner < 0 ? manner : 0;
}

int kin__fd_begin(int fd, struct kin__fd *out)
{
    int rc = kin__fd_begin_try(fd, out);
    if (rc == 0)
        keep_events(out);
    return rc;
}

unsigned kin__fd_needs_slow(int fd)
{
    static const unsigned needs[] = {[KIN__FD_KIND_OTHER] = 0,
                                     [KIN__FD_KIND_SOCKET] = KIN_CAP_NET,
                                     [KIN__FD_KIND_FILE] = KIN_CAP_FILE};
    return needs[kin__fd_kind(fd)];
}

#ifdef KIN__LAB /* whoever makes something happen tells of it: kin__poll_tell */
int kin__fd_prepare(struct kin__fd *fd)
{
    bool is_known = kin__load_relaxed(&fd->entry->poller); /* alone: there is one thread */
    if (is_known && kin__fd_is(fd, KIN__FD_OURS))
        return 0;
    kin__store_relaxed(&fd->entry->poller, 1u); /* alone: as above */
    int ready = kin__fd_look(fd->fd, KIN__READY_READ | KIN__READY_WRITE | KIN__READY_MORE);
    if (ready > 0) /* as a kernel tells of what it begins to watch */
        kin__poll_tell(fd->fd, (uint32_t)ready);
    return 0;
}

void kin__poll_forget(int fd)
{
    struct kin__fd_entry *entry = entry_of(fd);
    if (entry)
        memset(entry, 0, sizeof(*entry));
}
#else
int kin__fd_prepare(struct kin__fd *fd)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    int rc = 0;
    if (KIN__UNLIKELY(!kin__load_acquire(&sched->io)) && /* pairs with the store in install */
        (rc = kin__watcher_start(sched)) < 0)
        return rc;
    struct kin__watcher *watcher = sched->io_state;
    if (KIN__LIKELY(kin__watcher_has(watcher, fd)))
        return 0;
    kin__lock_take(&fd->entry->lock, KIN__RANK_WAIT);
    if (is_closed_locked(fd))
        rc = KIN_CLOSED;
    else /* a system call under a lock, for most once: a kin_close must not come in between */
        rc = kin__watcher_add_locked(watcher, fd);
    kin__lock_give(&fd->entry->lock, KIN__RANK_WAIT);
    return rc;
}
#endif

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
    if (KIN__UNLIKELY(rc == -EPERM && fd->manner == KIN__FD_LOOK)) {
        fd->manner = KIN__FD_FREE; /* nobody can wait for it: it is as a file is */
        return (int)bits;
    }
    if (rc < 0)
        return rc;
    kin__worker_outside(1);
    rc = bits == (KIN__READY_READ | KIN__READY_WRITE) ? wait_both(fd, deadline)
                                                      : wait_one(fd, bits, deadline);
    kin__worker_outside(-1);
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
    kin__store_relaxed(&entry->poller, 0u); /* relaxed: as in kin__watcher_has */
    kin__store_relaxed(&entry->dry, 0u);    /* relaxed: no count is as old */
    entry->kept = 0;
    for (unsigned way = 0; way < 2; way++) {
        uint32_t events = kin__load_relaxed(&entry->events[way]); /* relaxed: under the lock */
        kin__store_relaxed(&entry->events[way], (events + 2) & ~1u); /* relaxed: as above */
    }
}

int kin__fd_opened_as(int fd, unsigned kind)
{
    if (KIN__LAB_FOREIGN(fd)) {
        (void)kin__fd_close(fd);
        return KIN_UNSUPPORTED;
    }
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
    kin__entry_check_gives();
    if (!entry)
        return fd < 0 ? -EBADF : kin__fd_close(fd);
    struct kin__watcher *watcher = kin__watcher_here();
    int rc = 0;
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    /* pairs with kin__fd_enter: calls that came before are counted, others find it closed */
    uint64_t state = kin__or_acq_rel(&entry->state, KIN__FD_CLOSING);
    if (state & KIN__FD_CLOSING) {
        kin__lock_give(&entry->lock, KIN__RANK_WAIT);
        return -EBADF;
    }
    kin__fd_wake_readers_locked(entry, KIN_CLOSED, &wakes);
    kin__fd_wake_locked(&entry->writers, KIN_CLOSED, &wakes);
    /* The set would keep reporting a descriptor of which the program has a copy. relaxed: locked */
    if (watcher && kin__load_relaxed(&entry->poller) == watcher->number)
        watcher->kind->unwatch(watcher->impl, fd);
    if ((state & KIN__FD_CALLS) == 0)
        rc = close_locked(fd, entry);
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    KIN__LAB_CLOSED();
    kin__wakes_run(&wakes);
    return rc;
}
