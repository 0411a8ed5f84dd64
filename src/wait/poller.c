/* SPDX-License-Identifier: MIT */
/*
 * The poller of a runtime: watches descriptors, wakes whoever waits, brings results of calls on
 * files.
 *
 * It is told of a descriptor once, and then tells of each change (plat/poller.h). The ring for
 * files is a descriptor among others, which tells that there are results. Where there is none, or
 * KIN_POLLER_EPOLL was asked for, threads do the work.
 */
#include "wait/poller.h"

#include "sched/tape.h"
#include "wait/uring.h"

#include <errno.h>
#include <string.h>

#define FILES (UINT64_MAX - 16) /* the data of the ring for files: no descriptor's */

enum files_state { FILES_UNKNOWN, FILES_STARTING, FILES_RING, FILES_THREADS };

static kin__a32 numbers; /* of pollers: how many there were */
static struct kin__lock starting; /* rank POLLER; sched->io when it is set */

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
    return (int)(uint32_t)data;
}

/* An event. */
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

static struct kin__files *files_of(struct kin__watcher *watcher)
{
    /* pairs with the release in start_files */
    return kin__load_acquire(&watcher->files_state) == FILES_RING ? watcher->files : NULL;
}

static int watch_files(struct kin__watcher *watcher, struct kin__files *files)
{
    return watcher->kind->watch(watcher->impl, kin__files_fd(files), FILES, true);
}

static uint32_t poller_poll(struct kin__sched *sched, int64_t ns)
{
    struct kin__watcher *watcher = sched->io_state;
    struct kin__ready *ready = watcher->ready;
    uint32_t woken = 0;
    int count;
    do { /* ends: once somebody was woken: what was fetched for that is still warm when it runs */
        count = watcher->kind->wait(watcher->impl, ready, KIN__WATCHER_BATCH, ns);
        if (count > 2)
            warm_up(watcher, count);
        for (int i = 0; i < count; i++)
            woken += KIN__LIKELY(ready[i].data != FILES) ? on_ready(&ready[i]) : 0;
        ns = 0;
    } while (count == KIN__WATCHER_BATCH && woken == 0);
    /* there may be one by now; what it has was told, and is told once */
    struct kin__files *files = files_of(watcher);
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
    destroy_poller(watcher);
    sched->io_state = NULL;
}

static const struct kin__outside outside = {poller_poll, poller_wake, poller_fini};

/* Makes a poller the one of a runtime. False: it has one. */
static bool install(struct kin__sched *sched, struct kin__watcher *watcher)
{
    watcher->number = kin__add_relaxed(&numbers, 1u) + 1; /* alone: a counter */
    kin__lock_take(&starting, KIN__RANK_POLLER);
    bool is_first = !kin__load_relaxed(&sched->io); /* relaxed: written under this lock */
    if (is_first) {
        sched->io_state = watcher;
        /* pairs with the load in poll_begin */
        kin__store_release(&sched->io, kin__tape_around(sched, &outside));
    }
    kin__lock_give(&starting, KIN__RANK_POLLER);
    return is_first;
}

/* Whether threads are to work on files. Where it is all the same, debug builds are told by
 * KIN_POLLER, so that the same tests run with each. */
static bool wants_threads(const struct kin__sched *sched)
{
#ifdef KIN_DEBUG
    const char *word = kin__plat_env("KIN_POLLER");
    if (word && sched->config.poller == KIN_POLLER_AUTO)
        return strcmp(word, "epoll") == 0;
#endif
    return sched->config.poller == KIN_POLLER_EPOLL;
}

/* Whether the system will never give us a ring, as against: not now. */
static bool is_refusal(int rc)
{
    return rc == -ENOSYS || rc == -EPERM || rc == -EACCES || rc == -EOPNOTSUPP;
}

int kin__watcher_start(struct kin__sched *sched)
{
    if (kin__load_acquire(&sched->io)) /* pairs with the store in install */
        return 0;
    struct kin__watcher *watcher = kin__heap_alloc(sizeof(*watcher));
    if (!watcher)
        return -ENOMEM;
    watcher->kind = &kin__poller_epoll;
    if (wants_threads(sched))
        kin__store_relaxed(&watcher->files_state, FILES_THREADS); /* alone: not shared yet */
    int rc = watcher->kind->create(&watcher->impl);
    if (rc < 0)
        kin__heap_free(watcher);
    else if (!install(sched, watcher))
        destroy_poller(watcher); /* somebody was faster */
    return rc;
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
    watcher->files_error = rc;
    /* pairs with the acquire in files_of */
    kin__store_release(&watcher->files_state, rc == 0 ? FILES_RING : FILES_THREADS);
}

int kin__poll_start(struct kin__sched *sched)
{
    if (sched->config.poller != KIN_POLLER_URING)
        return 0;
    int rc = kin__watcher_start(sched);
    if (rc < 0)
        return rc;
    struct kin__watcher *watcher = sched->io_state;
    start_files(watcher);
    return is_refusal(watcher->files_error) ? KIN_UNSUPPORTED : watcher->files_error;
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

int kin__watcher_add_locked(struct kin__watcher *watcher, const struct kin__fd *fd)
{
    struct kin__fd_entry *entry = fd->entry;
    uint64_t data = (uint64_t)fd->generation << 32 | (uint32_t)fd->fd;
    bool is_known = kin__load_relaxed(&entry->poller) == watcher->number; /* relaxed: locked */
    int rc = watcher->kind->watch(watcher->impl, fd->fd, data, is_known);
    if (rc == 0)
        kin__store_relaxed(&entry->poller, watcher->number); /* relaxed: as in kin__watcher_has */
    return rc;
}
