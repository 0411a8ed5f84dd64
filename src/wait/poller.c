/* SPDX-License-Identifier: MIT */
/*
 * The poller of a runtime: watches descriptors, wakes whoever waits, brings results of calls on
 * files.
 *
 * Which poller is behind it is the table's business (plat/poller.h), but for one difference. One
 * that lasts is told of a descriptor once and then of each change. One that tells once, and keeps
 * the file open until then, is asked before every wait:
 *
 *     free -- prepare: watch, serial s --> watched by s -- told of s --> free, event counted
 *                                            |  told that s is lost: watch again
 *                                            +- closed, or nobody waits for a foreign one: unwatch
 *
 * (test/model/watch.pml)
 * There is one such watch for a direction of a descriptor in the whole process, and everybody who
 * waits relies on it, tasks of other runtimes too: when its poller ends, they try again, and watch
 * anew. What is told of any other serial is of the past and dropped.
 *
 * A watch that is given up lets go of its file when the thread that began it enters the kernel
 * next. Whoever closes a descriptor interrupts that thread, if it runs, and waits for the end of
 * the watch: else a peer would be told late that there is nobody any more, a listener's address
 * would still be taken.
 *
 * The ring for files is a descriptor among others, which tells that there are results. Where there
 * is none, or KIN_POLLER_EPOLL was asked for, threads do the work.
 */
#include "wait/poller.h"

#include "sched/tape.h"
#include "wait/uring.h"

#include <errno.h>
#include <string.h>

#define WAY_BIT (1u << 31) /* in the data of a watch that tells once: of which direction */
#define FILES (KIN__POLLER_LOST - 1) /* the data of the ring for files */
#define AWAIT_NS 50000000            /* how long a close waits for a watch to let go */
#define FILES_AGAIN_NS 1000000       /* when to look at it as long as it cannot be watched */

enum files_state { FILES_UNKNOWN, FILES_STARTING, FILES_RING, FILES_THREADS };

static kin__a32 numbers; /* of pollers: how many there were */
static kin__a32 serials; /* of watches: likewise */
static struct kin__lock pollers_lock; /* rank POLLER; the list, and sched->io when it is set */
static struct kin__list pollers;      /* all; next is NULL as long as there never was one */

/* ---- events ---- */

/* Counts an event for a direction, with more set if it tells of more than data. */
static inline void count_locked(struct kin__fd_entry *entry, unsigned way, uint32_t more)
{
    uint32_t events = kin__load_relaxed(&entry->events[way]); /* relaxed: under the lock */
    kin__store_release(&entry->events[way], (events + 2) | more); /* pairs with look_again */
}

/* What is ready, on behalf of whoever waits for it or will. */
static inline void note_locked(struct kin__fd_entry *entry, uint32_t bits, struct kin__wakes *wakes)
{
    entry->kept |= (uint8_t)(bits & (KIN__READY_READ | KIN__READY_WRITE));
    if (bits & KIN__READY_READ) {
        count_locked(entry, 0, (bits & KIN__READY_MORE) != 0);
        kin__fd_wake_readers_locked(entry, (int)KIN__READY_READ, wakes);
    }
    if (bits & KIN__READY_WRITE) {
        count_locked(entry, 1, 0);
        if (entry->has_writers)
            kin__fd_wake_locked(&entry->writers, (int)KIN__READY_WRITE, wakes);
        entry->has_writers = false;
    }
}

/* The number that the data of a watch is about. */
static int fd_of(uint64_t data)
{
    return (int)((uint32_t)data & ~WAY_BIT);
}

/* An event of a watch that lasts. */
static uint32_t on_ready(const struct kin__ready *ready)
{
    struct kin__fd_entry *entry = kin__fd_find(fd_of(ready->data));
    struct kin__wakes wakes = {0};
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    /* relaxed: the generation changes under the lock */
    if (KIN__LIKELY(kin__load_relaxed(&entry->state) >> 32 == ready->data >> 32))
        note_locked(entry, ready->bits, &wakes);
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    uint32_t count = wakes.count;
    if (count)
        kin__wakes_run(&wakes);
    return count;
}

#ifdef KIN__LAB
void kin__poll_tell(int fd, uint32_t bits)
{
    struct kin__fd_entry *entry = kin__fd_find(fd);
    if (!entry || !kin__load_relaxed(&entry->poller)) /* alone: there is one thread */
        return; /* nobody has waited for it yet */
    uint64_t state = kin__load_relaxed(&entry->state); /* alone: as above */
    (void)on_ready(&(struct kin__ready){(state >> 32) << 32 | (uint32_t)fd, bits});
}
#endif

/* ---- watches that tell once ---- */

static uint32_t bit_of(unsigned way)
{
    return way ? KIN__READY_WRITE : KIN__READY_READ;
}

static bool is_watched_locked(const struct kin__fd_entry *entry, unsigned way)
{
    return entry->watches[way] != 0;
}

/* Has a poller watch one direction. 0 or -errno. */
static int watch_locked(struct kin__watcher *watcher, int fd, struct kin__fd_entry *entry,
                        unsigned way)
{
    uint32_t serial;
    do { /* ends: at the second time */
        serial = kin__add_relaxed(&serials, 1u) + 1; /* alone: a counter */
    } while (serial == 0);
    uint64_t data = (uint64_t)serial << 32 | (way ? WAY_BIT : 0) | (uint32_t)fd;
    /* relaxed: under the lock */
    bool is_known = entry->is_pollable && (kin__load_relaxed(&entry->state) & KIN__FD_OURS);
    int rc = watcher->kind->watch(watcher->impl, fd, data, bit_of(way), is_known);
    if (rc < 0)
        return rc;
    entry->is_pollable = true;
    entry->watches[way] = serial;
    entry->watchers[way] = watcher->number;
    (void)kin__add_relaxed(&watcher->watches, 1u); /* alone: a hint */
    return 0;
}

/* What is told of it from here on is of the past. */
static void forget_watch(struct kin__watcher *watcher, struct kin__fd_entry *entry, unsigned way)
{
    (void)kin__sub_relaxed(&watcher->watches, 1u); /* alone: a hint */
    entry->watches[way] = 0;
}

/* Has the kernel end the watch of a direction. Unless it is forgotten, it is over when it has told
 * so. */
static void end_by(struct kin__watcher *watcher, int fd, struct kin__fd_entry *entry, unsigned way,
                   bool forgets)
{
    uint64_t data = (uint64_t)entry->watches[way] << 32 | (way ? WAY_BIT : 0) | (uint32_t)fd;
    watcher->kind->unwatch(watcher->impl, fd, data);
    if (forgets)
        forget_watch(watcher, entry, way);
}

/* The same, whichever runtime's poller it is. */
static __attribute__((noinline)) void end_slow(int fd, struct kin__fd_entry *entry, unsigned way,
                                               bool forgets)
{
    bool is_found = false;
    kin__lock_take(&pollers_lock, KIN__RANK_POLLER);
    KIN__LIST_EACH(link, &pollers) {
        struct kin__watcher *watcher = KIN__CONTAINER_OF(link, struct kin__watcher, link);
        if (watcher->number != entry->watchers[way])
            continue;
        end_by(watcher, fd, entry, way, forgets);
        is_found = true;
    }
    kin__lock_give(&pollers_lock, KIN__RANK_POLLER);
    if (!is_found)
        entry->watches[way] = 0; /* one that has ended has watched for the last time */
}

static inline void end_all(int fd, struct kin__fd_entry *entry, bool forgets)
{
    struct kin__watcher *watcher = kin__watcher_here();
    for (unsigned way = 0; way < 2; way++) {
        if (KIN__LIKELY(!is_watched_locked(entry, way)))
            continue;
        if (watcher && watcher->number == entry->watchers[way])
            end_by(watcher, fd, entry, way, forgets);
        else
            end_slow(fd, entry, way, forgets);
    }
}

void kin__watcher_drop_locked(int fd, struct kin__fd_entry *entry)
{
    end_all(fd, entry, true);
}

bool kin__watcher_end_locked(int fd, struct kin__fd_entry *entry)
{
    end_all(fd, entry, false);
    return is_watched_locked(entry, 0) || is_watched_locked(entry, 1);
}

/* Whether no watch of a descriptor is left. */
static bool have_ended(struct kin__fd_entry *entry)
{
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    bool are_over = !is_watched_locked(entry, 0) && !is_watched_locked(entry, 1);
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    return are_over;
}

void kin__watcher_await(struct kin__fd_entry *entry)
{
    struct kin__worker *worker = kin__worker_self();
    int64_t start = kin__clock_now(), now = start;
    bool is_first = true;
    do { /* ends: with its time */
        if (worker)
            (void)kin__idle_poll(worker->sched, now); /* what it tells may be there */
        if (have_ended(entry))
            return;
        if (is_first && kin__membarrier_init())
            kin__membarrier(); /* alone: no fence here; it interrupts whoever began the watch */
        is_first = false;
        kin__thread_yield();
        now = kin__clock_now();
    } while (now - start < AWAIT_NS);
}

/* Whether somebody waits for a direction. */
static bool is_awaited_locked(const struct kin__fd_entry *entry, unsigned way)
{
    if (way)
        return !kin__waitq_is_empty(&entry->writers);
    return kin__load_relaxed(&entry->reader) || /* relaxed: under the lock */
           !kin__waitq_is_empty(&entry->readers);
}

/* A watch has told, or is lost. */
static uint32_t on_told(struct kin__watcher *watcher, const struct kin__ready *ready)
{
    int fd = fd_of(ready->data);
    unsigned way = (ready->data & WAY_BIT) != 0;
    struct kin__fd_entry *entry = kin__fd_find(fd);
    struct kin__wakes wakes = {0};
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    if (KIN__LIKELY(entry->watches[way] == ready->data >> 32)) {
        forget_watch(watcher, entry, way);
        if (KIN__LIKELY(!(ready->bits & KIN__READY_LOST)))
            note_locked(entry, ready->bits & (bit_of(way) | KIN__READY_MORE), &wakes);
        else if (!is_awaited_locked(entry, way) || watch_locked(watcher, fd, entry, way) < 0)
            note_locked(entry, bit_of(way), &wakes); /* who is about to wait must try again */
    }
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    uint32_t count = wakes.count;
    if (count)
        kin__wakes_run(&wakes);
    return count;
}

/* A poller watches no more, or has lost something: whoever relies on it tries again. */
static uint32_t abandon(struct kin__watcher *watcher, int fd, struct kin__fd_entry *entry)
{
    struct kin__wakes wakes = {0};
    kin__lock_take(&entry->lock, KIN__RANK_WAIT);
    for (unsigned way = 0; way < 2; way++) {
        if (is_watched_locked(entry, way) && entry->watchers[way] == watcher->number) {
            end_by(watcher, fd, entry, way, true);
            note_locked(entry, bit_of(way), &wakes);
        }
    }
    kin__lock_give(&entry->lock, KIN__RANK_WAIT);
    uint32_t count = wakes.count;
    kin__wakes_run(&wakes);
    return count;
}

static __attribute__((noinline)) uint32_t abandon_all(struct kin__watcher *watcher)
{
    uint32_t woken = 0;
    for (uint32_t at = 0; at < KIN__FD_CHUNKS; at++) {
        /* pairs with the exchange in entry_of */
        struct kin__fd_entry *chunk = kin__load_acquire(&kin__fd_chunks[at]);
        for (uint32_t i = 0; chunk && i < KIN__FD_CHUNK; i++)
            woken += abandon(watcher, (int)(at * KIN__FD_CHUNK + i), &chunk[i]);
    }
    return woken;
}

/* ---- the poller of a runtime ---- */

/* Fetches what the wakes will touch and whoever is woken, all of it cold when there are many
 * connections, so that the misses overlap instead of coming one after the other: the entries, then
 * the stacks of those who wait there, then their tasks. Each stack is a page that no TLB holds any
 * more, and a fetch stays until its page is found; those of a tight loop wait together, where one
 * between a wake and the next, or before a switch, waits alone. */
static inline void warm_up(struct kin__watcher *watcher, int count)
{
    struct kin__fd_entry **entries = watcher->entries;
    for (int i = 0; i < count; i++) {
        entries[i] = kin__fd_find(fd_of(watcher->ready[i].data)); /* NULL: no descriptor's */
        __builtin_prefetch(entries[i], 1);
    }
    for (int i = 0; i < count; i++) {
        if (KIN__LIKELY(entries[i] != NULL))
            __builtin_prefetch(kin__load_relaxed(&entries[i]->stack), 1); /* relaxed: a hint */
    }
    for (int i = 0; i < count; i++) {
        uintptr_t task = 0;
        if (KIN__LIKELY(entries[i] != NULL))
            task = (uintptr_t)kin__load_relaxed(&entries[i]->reader); /* relaxed: a hint */
        for (unsigned line = 0; line < sizeof(struct kin__task) / KIN__LINE; line++)
            __builtin_prefetch((void *)(task + KIN__LINE * line), 1);
    }
}

/* What a poller that tells once has told. */
static __attribute__((noinline)) uint32_t on_once(struct kin__watcher *watcher,
                                                  const struct kin__ready *ready)
{
    if (KIN__LIKELY(ready->data != KIN__POLLER_LOST))
        return on_told(watcher, ready);
    watcher->watches_no_files = true;
    return abandon_all(watcher);
}

static struct kin__files *files_of(struct kin__watcher *watcher)
{
    /* pairs with the release in start_files */
    return kin__load_acquire(&watcher->files_state) == FILES_RING ? watcher->files : NULL;
}

static int watch_files(struct kin__watcher *watcher, struct kin__files *files)
{
    return watcher->kind->watch(watcher->impl, kin__files_fd(files), FILES, KIN__READY_READ, true);
}

/* Watches the ring for files again where that must be: how long a wait may be. */
static int64_t care_for_files(struct kin__watcher *watcher, struct kin__files *files, int64_t ns)
{
    if (KIN__LIKELY(!watcher->watches_no_files))
        return ns;
    watcher->watches_no_files = watch_files(watcher, files) < 0;
    return watcher->watches_no_files && (ns < 0 || ns > FILES_AGAIN_NS) ? FILES_AGAIN_NS : ns;
}

/* One thing that was told. */
static inline uint32_t on_one(struct kin__watcher *watcher, const struct kin__ready *ready)
{
    if (KIN__UNLIKELY(ready->data == FILES)) {
        watcher->watches_no_files = watcher->kind->is_once;
        return 0;
    }
    return KIN__LIKELY(!watcher->kind->is_once) ? on_ready(ready) : on_once(watcher, ready);
}

static uint32_t poller_poll(struct kin__sched *sched, int64_t ns)
{
    struct kin__watcher *watcher = sched->io_state;
    struct kin__ready *ready = watcher->ready;
    struct kin__files *files = files_of(watcher);
    uint32_t woken = 0;
    int count;
    if (files)
        ns = care_for_files(watcher, files, ns);
    do { /* ends: once somebody was woken: what was fetched for that is still warm when it runs */
        count = watcher->kind->wait(watcher->impl, ready, KIN__WATCHER_BATCH, ns);
        if (count > 2)
            warm_up(watcher, count);
        for (int i = 0; i < count; i++)
            woken += on_one(watcher, &ready[i]);
        ns = 0;
    } while (count == KIN__WATCHER_BATCH && woken == 0);
    files = files_of(watcher); /* there may be one by now; what it has was told, and is told once */
    return files ? woken + kin__files_reap(files) : woken;
}

static void poller_wake(struct kin__sched *sched)
{
    struct kin__watcher *watcher = sched->io_state;
    watcher->kind->wake(watcher->impl);
}

static void destroy_poller(struct kin__watcher *watcher)
{
    watcher->kind->destroy(watcher->impl);
    if (files_of(watcher))
        kin__files_destroy(watcher->files);
    kin__heap_free(watcher);
}

static void poller_fini(struct kin__sched *sched)
{
    struct kin__watcher *watcher = sched->io_state;
    if (kin__load_relaxed(&watcher->watches)) /* relaxed: nobody of this runtime is left */
        (void)abandon_all(watcher);
    kin__lock_take(&pollers_lock, KIN__RANK_POLLER);
    kin__list_remove(&watcher->link);
    kin__lock_give(&pollers_lock, KIN__RANK_POLLER);
    destroy_poller(watcher);
    sched->io_state = NULL;
}

static const struct kin__outside outside = {poller_poll, poller_wake, poller_fini};

/* Makes a poller the one of a runtime. False: it has one. */
static bool install(struct kin__sched *sched, struct kin__watcher *watcher)
{
    watcher->number = kin__add_relaxed(&numbers, 1u) + 1; /* alone: a counter */
    kin__lock_take(&pollers_lock, KIN__RANK_POLLER);
    bool is_first = !kin__load_relaxed(&sched->io); /* relaxed: written under this lock */
    if (is_first) {
        if (!pollers.next)
            kin__list_init(&pollers);
        kin__list_push_back(&pollers, &watcher->link);
        sched->io_state = watcher;
        /* pairs with the load in poll_begin */
        kin__store_release(&sched->io, kin__tape_around(sched, &outside));
    }
    kin__lock_give(&pollers_lock, KIN__RANK_POLLER);
    return is_first;
}

/* Which poller is wanted. Where it is all the same, debug builds are told by KIN_POLLER, so that
 * the same tests run with each. */
static enum kin_poller wanted(const struct kin__sched *sched)
{
    enum kin_poller is = sched->config.poller;
#ifdef KIN_DEBUG
    const char *word = is == KIN_POLLER_AUTO ? kin__plat_env("KIN_POLLER") : NULL;
    if (word && strcmp(word, "uring") == 0)
        is = KIN_POLLER_URING;
    else if (word && strcmp(word, "epoll") == 0)
        is = KIN_POLLER_EPOLL;
#endif
    return is;
}

/* Whether the system will never give us a ring, as against: not now. */
static bool is_refusal(int rc)
{
    return rc == -ENOSYS || rc == -EPERM || rc == -EACCES || rc == -EOPNOTSUPP;
}

static int create_kind(const struct kin__sched *sched, struct kin__watcher *watcher)
{
    enum kin_poller is = wanted(sched);
    int rc = -ENOSYS;
    if (is == KIN_POLLER_URING) {
        watcher->kind = &kin__poller_uring;
        rc = watcher->kind->create(&watcher->impl);
    }
    if (is_refusal(rc) && sched->config.poller != KIN_POLLER_URING) {
        watcher->kind = &kin__poller_epoll;
        rc = watcher->kind->create(&watcher->impl);
    }
    if (is == KIN_POLLER_EPOLL)
        kin__store_relaxed(&watcher->files_state, FILES_THREADS); /* alone: not shared yet */
    return rc;
}

int kin__watcher_start(struct kin__sched *sched)
{
    if (kin__load_acquire(&sched->io)) /* pairs with the store in install */
        return 0;
    struct kin__watcher *watcher = kin__heap_alloc(sizeof(*watcher));
    if (!watcher)
        return -ENOMEM;
    int rc = create_kind(sched, watcher);
    if (rc < 0)
        kin__heap_free(watcher);
    else if (!install(sched, watcher))
        destroy_poller(watcher); /* somebody was faster */
    return rc;
}

int kin__poll_start(struct kin__sched *sched)
{
    if (sched->config.poller != KIN_POLLER_URING)
        return 0;
    int rc = kin__watcher_start(sched);
    return is_refusal(rc) ? KIN_UNSUPPORTED : rc;
}

/* Makes the ring for files, once; without one, threads do what it would. */
static __attribute__((noinline, unused)) void start_files(struct kin__watcher *watcher)
{
    uint32_t unknown = FILES_UNKNOWN;
    struct kin__files *files = NULL;
    if (!kin__cas_relaxed(&watcher->files_state, &unknown, FILES_STARTING)) /* alone: one does it */
        return;
    int rc = kin__files_create(&files);
    if (rc == 0 && (rc = watch_files(watcher, files)) < 0)
        kin__files_destroy(files);
    watcher->files = files;
    /* pairs with the acquire in files_of */
    kin__store_release(&watcher->files_state, rc == 0 ? FILES_RING : FILES_THREADS);
}

#ifdef KIN__LAB /* what its kernel does is not for the lab to decide */
struct kin__files *kin__poll_files(void)
{
    return NULL;
}
#else
struct kin__files *kin__poll_files(void)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    if (KIN__UNLIKELY(!kin__load_acquire(&sched->io)) && /* pairs with the store in install */
        kin__watcher_start(sched) < 0)
        return NULL;
    struct kin__watcher *watcher = sched->io_state;
    if (KIN__UNLIKELY(kin__load_relaxed(&watcher->files_state) == FILES_UNKNOWN)) /* relaxed: so */
        start_files(watcher);
    return files_of(watcher);
}
#endif

const char *kin__poll_name(struct kin__sched *sched)
{
    if (!kin__load_acquire(&sched->io)) /* pairs with the store in install */
        return NULL;
    return ((struct kin__watcher *)sched->io_state)->kind->name;
}

const char *kin__poll_files_name(struct kin__sched *sched)
{
    static const char *const names[] = {NULL, NULL, "io_uring", "threads"};
    if (!kin__load_acquire(&sched->io)) /* pairs with the store in install */
        return NULL;
    /* relaxed: for reports */
    return names[kin__load_relaxed(&((struct kin__watcher *)sched->io_state)->files_state)];
}

int kin__watcher_add_locked(struct kin__watcher *watcher, const struct kin__fd *fd, unsigned bits)
{
    struct kin__fd_entry *entry = fd->entry;
    int rc = 0;
    if (watcher->kind->is_once) {
        for (unsigned way = 0; rc == 0 && way < 2; way++) {
            if ((bits & bit_of(way)) && !is_watched_locked(entry, way))
                rc = watch_locked(watcher, fd->fd, entry, way);
        }
        return rc;
    }
    uint64_t data = (uint64_t)fd->generation << 32 | (uint32_t)fd->fd;
    bool is_known = kin__load_relaxed(&entry->poller) == watcher->number; /* relaxed: locked */
    rc = watcher->kind->watch(watcher->impl, fd->fd, data, bits, is_known);
    if (rc == 0)
        kin__store_relaxed(&entry->poller, watcher->number); /* relaxed: as in is_watched */
    return rc;
}
