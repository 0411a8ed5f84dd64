/* SPDX-License-Identifier: MIT */
/*
 * Descriptors as things to wait for.
 *
 *     begin -> enter -> the system call -> leave -> EAGAIN? wait -> enter -> ...
 */
#ifndef KIN_WAIT_POLL_H
#define KIN_WAIT_POLL_H

#include "base/atomic.h"
#include "base/lock.h"
#include "park/park.h"
#include "park/waitq.h"
#include "plat/plat.h"

#include <kin/time.h>

#include <sys/uio.h>

/* What is known of a number. Events are counted by direction, in steps of two: an operation
 * remembers the count before it tries, so that one that came since is not missed, whoever else
 * looks at the same descriptor. From the first event on that told of more than data (an end, an
 * error, urgent data) the count of reads is odd. */
struct kin__fd_entry {
    /* one cache line: all that a reader and its events need */
    kin__a64 state;            /* generation, KIN__FD_ bits, calls under way */
    kin__a32 events[2];        /* written under the lock, read without */
    kin__a32 dry;              /* the count at which a read took all there was, + 1; or 0 */
    struct kin__lock lock;     /* rank WAIT; the rest */
    kin__a32 poller;           /* where it is registered; 0: nowhere; read without the lock */
    uint8_t kept;              /* directions with an event that nobody has tried for */
    bool has_readers;          /* somebody is in readers, or was until the last event */
    bool has_writers;          /* somebody has waited for writing since the last such event */
    uint64_t ticket;           /* of the reader's park */
    _Atomic(struct kin__task *) reader; /* who waits for reading, as a rule alone; warm_up peeks */
    _Atomic(void *) stack;     /* something on the reader's stack, only to fetch that early */
    /* the other: those who found the place of the reader taken, */
    _Alignas(KIN__LINE) struct kin__waitq readers;
    struct kin__waitq writers; /* and for writing */
} __attribute__((aligned(KIN__LINE)));

#define KIN__FD_CALLS 0xffffffu      /* how many threads are in a system call on it */
#define KIN__FD_CLOSING 0x1000000u   /* whoever leaves last closes it */
#define KIN__FD_OURS 0x2000000u      /* kin opened it: it is closed by kin_close only */
#define KIN__FD_TCP 0x4000000u       /* a TCP socket: a short read has emptied it */

/* A descriptor as one operation sees it. If the number is closed meanwhile, and maybe used again
 * for something else, the operation finds out. */
struct kin__fd {
    int fd;
    uint32_t generation;
    struct kin__fd_entry *entry;
    uint32_t seen[2]; /* events of which the next try knows the result */
    uint8_t manner;   /* enum kin__fd_manner: how a call on it is kept from blocking */
};

/* The table, in pieces that are made when a number in them is used. */
#define KIN__FD_CHUNK_BITS 10u
#define KIN__FD_CHUNK (1u << KIN__FD_CHUNK_BITS)
#define KIN__FD_CHUNKS 4096u /* four million descriptors */
extern _Atomic(struct kin__fd_entry *) kin__fd_chunks[KIN__FD_CHUNKS];

/* The entry of a number; NULL when its piece was not made yet, or it is beyond the table. */
static inline struct kin__fd_entry *kin__fd_find(int fd)
{
    uint32_t at = (uint32_t)fd >> KIN__FD_CHUNK_BITS;
    if (KIN__UNLIKELY(at >= KIN__FD_CHUNKS))
        return NULL;
    /* pairs with the exchange in entry_of */
    struct kin__fd_entry *chunk = kin__load_acquire(&kin__fd_chunks[at]);
    return KIN__LIKELY(chunk != NULL) ? &chunk[(uint32_t)fd & (KIN__FD_CHUNK - 1)] : NULL;
}

/* What comes from here on is another event. Quiet: what matters of it is looked at again under the
 * lock, before anybody waits. */
static inline void kin__fd_look_again(struct kin__fd *fd)
{
    fd->seen[0] = kin__load_acquire_quiet(&fd->entry->events[0]); /* pairs with count_locked */
    fd->seen[1] = kin__load_acquire_quiet(&fd->entry->events[1]); /* pairs as above */
}

/* Begins an operation on a descriptor. 0, -EBADF, -EMFILE for a number beyond the table,
 * -ENOMEM. */
int kin__fd_begin(int fd, struct kin__fd *out);
/* The same for callers that have not tried yet, and will before they wait. */
int kin__fd_begin_slow(int fd, struct kin__fd *out);
static inline int kin__fd_begin_try(int fd, struct kin__fd *out)
{
    struct kin__fd_entry *entry = kin__fd_find(fd);
    uint64_t state = entry ? kin__load_acquire(&entry->state) : 0; /* pairs with forget_locked */
    if (KIN__UNLIKELY((state & (KIN__FD_OURS | KIN__FD_CLOSING)) != KIN__FD_OURS))
        return kin__fd_begin_slow(fd, out);
    out->fd = fd;
    out->generation = (uint32_t)(state >> 32);
    out->entry = entry;
    out->manner = KIN__FD_FREE;
    kin__fd_look_again(out);
    return 0;
}
/* Parks the running task until the descriptor may be ready for bits (KIN__READY_): some of them;
 * KIN_TIMEOUT, KIN_CANCELLED, KIN_CLOSED when kin_close came, -EPERM when it cannot be waited for,
 * -ENOMEM. Callers try first, and come here on -EAGAIN, in a loop. */
int kin__fd_wait(struct kin__fd *fd, unsigned bits, kin_time deadline);
/* A number that kin has just got from the system, non-blocking: nothing known of it holds. kind:
 * KIN__FD_TCP or 0. 0 or -EMFILE, -ENOMEM; then it is closed. */
int kin__fd_opened_as(int fd, unsigned kind);

static inline int kin__fd_opened(int fd)
{
    return kin__fd_opened_as(fd, 0);
}

/* The last thread has left a descriptor that is being closed. */
void kin__fd_left_last(int fd, struct kin__fd_entry *entry);

#ifdef KIN__LAB
/* An event of a simulated descriptor, which is told by whoever makes it happen. */
void kin__poll_tell(int fd, uint32_t bits);
/* An execution begins: nothing is known of the number. */
void kin__poll_forget(int fd);
#endif

/* Before a system call on the number: from here to kin__fd_leave it means what it meant at the
 * beginning. False: it was closed since. */
#ifdef KIN__LAB /* a step goes from the one to the other: two calls at once are none of its cares */
static inline bool kin__fd_enter(const struct kin__fd *fd)
{
    uint64_t state = kin__load_relaxed(&fd->entry->state); /* alone: there is one thread */
    return state >> 32 == fd->generation && !(state & KIN__FD_CLOSING);
}

static inline void kin__fd_leave(const struct kin__fd *fd)
{
    (void)fd;
}
#else
static inline bool kin__fd_enter(const struct kin__fd *fd)
{
    uint64_t state = kin__load_relaxed(&fd->entry->state); /* relaxed: the exchange decides */
    do {
        if (KIN__UNLIKELY(state >> 32 != fd->generation || (state & KIN__FD_CLOSING)))
            return false;
        /* pairs with kin_close: it sees this call, or this sees that it closes */
    } while (!kin__cas_acquire(&fd->entry->state, &state, state + 1));
    return true;
}

static inline void kin__fd_leave(const struct kin__fd *fd)
{
    uint64_t state = kin__sub_acq_rel(&fd->entry->state, 1u); /* pairs with kin_close */
    if (KIN__UNLIKELY((state & (KIN__FD_CLOSING | KIN__FD_CALLS)) == (KIN__FD_CLOSING | 1u)))
        kin__fd_left_last(fd->fd, fd->entry);
}
#endif

/* One call between enter and leave, without waiting, or as good as (wait/shared.c): how many bytes,
 * or -errno. What belongs to others is left as it is. */
int64_t kin__fd_readv_shared(const struct kin__fd *fd, const struct iovec *parts, int count);
int64_t kin__fd_writev_shared(const struct kin__fd *fd, const struct iovec *parts, int count);
int64_t kin__fd_sendfile_shared(const struct kin__fd *to, int from, int64_t *offset, size_t size);

static inline int64_t kin__fd_read_some(const struct kin__fd *fd, void *buf, size_t size)
{
    return KIN__LIKELY(fd->manner == KIN__FD_FREE)
               ? kin__fd_read(fd->fd, buf, size)
               : kin__fd_readv_shared(fd, &(struct iovec){buf, size}, 1);
}

static inline int64_t kin__fd_write_some(const struct kin__fd *fd, const void *buf, size_t size)
{
    struct iovec part = {(void *)(uintptr_t)buf, size};
    return KIN__LIKELY(fd->manner == KIN__FD_FREE) ? kin__fd_write(fd->fd, buf, size)
                                                   : kin__fd_writev_shared(fd, &part, 1);
}

/* Whether the descriptor is of a kind, KIN__FD_TCP. */
static inline bool kin__fd_is(const struct kin__fd *fd, unsigned kind)
{
    return (kin__load_relaxed(&fd->entry->state) & kind) != 0; /* relaxed: constant while open */
}

/* A read has returned less than was asked for: if it is a TCP socket, it is empty, and unless an
 * event comes the next read need not try. Not once there were other events than data: one of them
 * may tell of data and of an end at once. */
static inline void kin__fd_note_short(const struct kin__fd *fd)
{
    if (kin__fd_is(fd, KIN__FD_TCP) && !(fd->seen[0] & 1))
        kin__store_relaxed(&fd->entry->dry, fd->seen[0] + 1); /* relaxed: compared with a count */
}

static inline bool kin__fd_is_dry(const struct kin__fd *fd)
{
    return kin__load_relaxed(&fd->entry->dry) == fd->seen[0] + 1; /* relaxed: as above */
}

/* Under the lock: claims everybody in a queue of an entry. */
static inline void kin__fd_wake_locked(struct kin__waitq *queue, int status,
                                       struct kin__wakes *wakes)
{
    struct kin__claimed claimed;
    while (kin__waitq_claim(queue, &claimed)) /* ends: one fewer each time */
        kin__wakes_add(wakes, &claimed, status);
}

/* Under the lock: claims everybody who waits for reading. */
static inline void kin__fd_wake_readers_locked(struct kin__fd_entry *entry, int status,
                                               struct kin__wakes *wakes)
{
    struct kin__task *task = kin__load_relaxed(&entry->reader); /* relaxed: under the lock */
    if (KIN__LIKELY(task != NULL)) {
        struct kin__claimed claimed = {task, NULL, 0, (int)kin__word_claim(task, entry->ticket)};
        kin__store_relaxed(&entry->reader, NULL); /* relaxed: as above */
        if (KIN__LIKELY(claimed.claim != KIN__LOST))
            kin__wakes_add(wakes, &claimed, status);
    }
    if (KIN__UNLIKELY(entry->has_readers))
        kin__fd_wake_locked(&entry->readers, status, wakes);
    entry->has_readers = false;
}

/* What must come before a wait by kin__wait_any: the kernel watches it. 0, KIN_CLOSED, -errno. */
int kin__fd_prepare(struct kin__fd *fd);
/* One direction of a descriptor for kin__wait_any; completes with the ready bit or KIN_CLOSED.
 * Whoever waits counts itself meanwhile: kin__worker_outside. */
struct kin__fd_case {
    struct kin__fd fd;
    unsigned bit; /* KIN__READY_READ or KIN__READY_WRITE */
};
extern const struct kin__waitable kin__fd_waitable;

/* Which capability an operation on the descriptor needs: that for sockets or that for files; pipes
 * and the like need none. Only looked at for tasks that lack one. */
unsigned kin__fd_needs_slow(int fd);
static inline unsigned kin__fd_needs(const struct kin__task *task, int fd)
{
    return KIN__LIKELY(!(task->flags & KIN__TASK_METERED)) ? 0 : kin__fd_needs_slow(fd);
}

/* Before a runtime runs: the poller that its configuration asks for by name. 0, KIN_UNSUPPORTED
 * where the system refuses it, -errno. Others come when the first task needs one. */
int kin__poll_start(struct kin__sched *sched);
/* The ring for files of the runtime that the caller is in; NULL: it has none. */
struct kin__files;
struct kin__files *kin__poll_files(void);
/* What watches descriptors, and what carries out calls on files, in a word; NULL: nothing yet. */
const char *kin__poll_name(struct kin__sched *sched);
const char *kin__poll_files_name(struct kin__sched *sched);

#endif
