/* SPDX-License-Identifier: MIT */
/*
 * Simulated descriptors: numbers of the lab's own, and what each of them stands for.
 *
 *     kin_read -> wait/io.c -> kin__fd_read (here) -> ops->read of a socket, a pipe, a file, ...
 *
 * Numbers begin where those of the system never are, so that neither is taken for the other, and
 * none is used twice in an execution. Which one is next is no state that steps share, like the
 * address that an allocation gets. Everything is gone at the end of an execution; what was not
 * closed by then is a leak.
 */
#ifndef KIN_LAB_FDS_H
#define KIN_LAB_FDS_H

#include "plat/plat.h"

struct kin__text;
struct kin__waits;

/* What a kind of descriptor can do. Calls never wait: -EAGAIN. A call says by kin__lab_touch what
 * it touches, and by kin__sim_tell whom else it concerns. */
struct kin__sim_ops {
    const char *what;       /* for people, and in names: "tcp", "pipe", "file" */
    enum kin__fd_kind kind; /* which capability it needs */
    /* How many bytes, 0 at the end, or -errno. NULL: -EBADF, as of one not open for that. */
    int64_t (*read)(void *object, void *buf, size_t size);
    int64_t (*write)(void *object, const void *buf, size_t size);
    /* The same somewhere else, and where the next read or write begins, moved by a number of bytes:
     * for sendfile, and for splice, where streams have no else. NULL: neither can read it. */
    int64_t (*read_at)(void *object, void *buf, size_t size, int64_t offset);
    int64_t (*skip)(void *object, int64_t bytes);
    /* Whether sendfile may read, or write, it: 0 or -errno. NULL: it may write, and never reads. */
    int (*check)(const void *object, bool is_write);
    /* Which of bits (KIN__READY_) it is ready for. NULL: always for reading and writing. */
    unsigned (*look)(void *object, unsigned bits);
    int (*shutdown)(void *object, int how); /* NULL: -ENOTSOCK */
    /* The number is gone. Whoever uses it is told by the caller. NULL: nothing to do. */
    void (*close)(void *object);
    /* Appends what is known beside the name, such as addresses. NULL: nothing. */
    void (*describe)(const void *object, struct kin__text *text);
};

#define KIN__SIM_FIRST (1 << 20)

static inline bool kin__sim_is(int fd)
{
    return fd >= KIN__SIM_FIRST;
}

/* A new number for an object, which is that of whoever makes the step; -EMFILE: too many. */
int kin__sim_open(const struct kin__sim_ops *ops, void *object);
/* The same in two steps: a connection is nobody's as long as it waits to be accepted. */
int kin__sim_make(const struct kin__sim_ops *ops, void *object);
void kin__sim_take(int fd);
/* The object of a number that is open and of this kind; NULL: it is not. ops NULL: of any kind. */
void *kin__sim_get(int fd, const struct kin__sim_ops *ops);
/* The descriptor may be ready for bits from here on: whoever waits for it tries again, when the
 * call that is under way is over. */
void kin__sim_tell(int fd, unsigned bits);
/* Tells what is to be told. Not under a lock: the calls of plat do it, and kin_close at its end. */
void kin__sims_flush(void);
/* What a task that waits for a simulated descriptor does, "recv tcp root/1#fd0", until the next
 * call; NULL: it waits for something else. */
const char *kin__sim_waits(const struct kin__waits *waits);

/* Two Unix sockets that are connected. 0 or -errno. (net.c) */
int kin__sim_pair(int fds[2]);
/* Closes a descriptor of the system: 0 or -errno. (interpose.c) */
int kin__host_close(int fd);

/* An execution begins: nothing is open. It ends: what is still open is a leak, if anybody looks. */
void kin__sims_begin(void);
void kin__sims_end(bool is_looking);

#endif
