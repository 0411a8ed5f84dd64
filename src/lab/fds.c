/* SPDX-License-Identifier: MIT */
/*
 * The table of simulated descriptors, and the calls of plat on descriptors, which go by it.
 *
 * The lab's library has these in place of plat/linux/fd.c. A number that is not simulated is the
 * system's: it can be closed, and else it is KIN_UNSUPPORTED, because what happens to it is not for
 * the lab to decide. What the program makes itself with pipe or socketpair inside of a run is
 * simulated too (interpose.c).
 *
 * Whoever changes something for the other end tells it at once, but not from under a lock: a list
 * keeps what is to be told until the call is over.
 */
#include "lab/fds.h"

#include "base/text.h"
#include "lab/room.h"
#include "lab/world.h"
#include "park/peek.h"
#include "wait/poll.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define SIMS_MAX (1u << 20) /* in one execution */

struct sim {
    const struct kin__sim_ops *ops; /* NULL: it was closed */
    void *object;
    uint32_t player, number; /* whose which; NOBODY: nobody's yet */
    uint64_t step;           /* in which it was made, or taken */
};

static struct sim *sims; /* reserved once */
static uint32_t sims_count;

struct tell {
    int fd;
    unsigned bits;
};
static struct kin__room tells; /* struct tell */
static unsigned tells_count;

static struct sim *sim_of(int fd)
{
    return kin__sim_is(fd) && (uint32_t)(fd - KIN__SIM_FIRST) < sims_count
               ? &sims[fd - KIN__SIM_FIRST] : NULL;
}

/* ---- the table ---- */

int kin__sim_make(const struct kin__sim_ops *ops, void *object)
{
    if (!sims && !(sims = kin__vm_reserve(SIMS_MAX * sizeof(*sims))))
        return -ENOMEM;
    if (sims_count == SIMS_MAX)
        return -EMFILE;
    kin__world_made(&sims[sims_count], sizeof(*sims));
    sims[sims_count] = (struct sim){ops, object, KIN__WORLD_NOBODY, 0, kin__world.steps};
    return KIN__SIM_FIRST + (int)sims_count++;
}

void kin__sim_take(int fd)
{
    struct kin__world *w = &kin__world;
    struct sim *sim = sim_of(fd);
    sim->player = w->current;
    sim->number = w->current < w->player_count ? w->players[w->current].fds++ : 0;
    sim->step = w->steps;
}

int kin__sim_open(const struct kin__sim_ops *ops, void *object)
{
    int fd = kin__sim_make(ops, object);
    if (fd >= 0)
        kin__sim_take(fd);
    return fd;
}

void *kin__sim_get(int fd, const struct kin__sim_ops *ops)
{
    const struct sim *sim = sim_of(fd);
    if (sim)
        kin__lab_touch(sim, KIN__LAB_READ);
    return sim && sim->ops && (!ops || sim->ops == ops) ? sim->object : NULL;
}

static void put_name(const struct sim *sim, struct kin__text *text)
{
    kin__text_printf(text, "%s#fd%u", kin__player_path(sim->player), sim->number);
}

const char *kin__sim_waits(const struct kin__waits *waits)
{
    static char memory[160];
    struct kin__text text;
    const struct kin__fd_case *one = waits->object;
    const struct sim *sim = waits->ops == &kin__fd_waitable ? sim_of(one->fd.fd) : NULL;
    if (!sim || !sim->ops)
        return NULL;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%s %s ", one->bit == KIN__READY_WRITE ? "send" : "recv",
                     sim->ops->what);
    put_name(sim, &text);
    return memory;
}

/* ---- telling ---- */

void kin__sims_flush(void)
{
    const struct tell *told = tells.base;
    for (unsigned i = 0; i < tells_count; i++)
        kin__poll_tell(told[i].fd, told[i].bits);
    tells_count = 0;
}

void kin__lab_closed(void)
{
    kin__sims_flush();
}

void kin__sim_tell(int fd, unsigned bits)
{
    bool fits = kin__room_fits(&tells, tells_count + 1, sizeof(struct tell));
    KIN__CHECK(fits, "house: the lab has no memory");
    ((struct tell *)tells.base)[tells_count++] = (struct tell){fd, bits};
}

/* ---- executions ---- */

void kin__sims_begin(void)
{
    kin__poll_forget(KIN__SIM_FIRST); /* so that no step makes the table */
    for (uint32_t i = 1; i < sims_count; i++)
        kin__poll_forget(KIN__SIM_FIRST + (int)i);
    sims_count = 0;
    tells_count = 0;
}

void kin__sims_end(bool is_looking)
{
    const struct kin__world *w = &kin__world;
    for (uint32_t i = 0; is_looking && i < sims_count; i++) {
        const struct sim *sim = &sims[i];
        char memory[160], more[160] = "";
        struct kin__text name, about;
        if (!sim->ops || sim->player == KIN__WORLD_NOBODY ||
            (w->keeps_fixture && sim->player == 1)) /* the first task's own */
            continue;
        kin__text_init(&name, memory, sizeof(memory));
        put_name(sim, &name);
        kin__text_init(&about, more, sizeof(more));
        if (sim->ops->describe)
            sim->ops->describe(sim->object, &about);
        kin__world_failf("leak", KIN_LEAKED, memory,
                         "the %s%s that %s has opened in step %llu was not closed", sim->ops->what,
                         more, kin__player_path(sim->player), (unsigned long long)sim->step);
        return;
    }
}

/* ---- the calls of plat ---- */

/* What a number stands for; NULL, and *rc says why not. */
static struct sim *get(int fd, int64_t *rc)
{
    struct sim *sim = sim_of(fd);
    if (sim)
        kin__lab_touch(sim, KIN__LAB_READ);
    if (sim && sim->ops)
        return sim;
    *rc = fd >= 0 && fd < KIN__SIM_FIRST ? KIN_UNSUPPORTED : -EBADF;
    return NULL;
}

int kin__fd_close(int fd)
{
    struct sim *sim = sim_of(fd);
    if (!sim)
        return kin__host_close(fd);
    kin__lab_touch(sim, KIN__LAB_WRITE);
    if (!sim->ops)
        return -EBADF;
    const struct kin__sim_ops *ops = sim->ops;
    sim->ops = NULL;
    if (ops->close)
        ops->close(sim->object);
    return 0;
}

int kin__fd_unblock(int fd)
{
    int64_t rc = 0;
    (void)get(fd, &rc);
    return (int)rc;
}

/* None of them blocks. */
int kin__fd_manner(int fd)
{
    return kin__fd_unblock(fd);
}

static int64_t read_one(const struct sim *sim, void *buf, size_t size)
{
    return sim->ops->read ? sim->ops->read(sim->object, buf, size) : -EBADF;
}

/* Whether one can be sent to the other as a file: 0 or -errno. */
static int check_sendfile(const struct sim *to, const struct sim *from)
{
    int in = !from->ops->read     ? -EBADF
             : from->ops->check ? from->ops->check(from->object, false) : -EINVAL;
    int out = !to->ops->write     ? -EBADF
              : to->ops->check ? to->ops->check(to->object, true) : 0;
    return in == -EBADF ? in : out ? out : in;
}

static int64_t write_one(const struct sim *sim, const void *buf, size_t size)
{
    return sim->ops->write ? sim->ops->write(sim->object, buf, size) : -EBADF;
}

int64_t kin__fd_read(int fd, void *buf, size_t size)
{
    int64_t rc = 0;
    const struct sim *sim = get(fd, &rc);
    if (sim)
        rc = read_one(sim, buf, size);
    kin__sims_flush();
    return rc;
}

int64_t kin__fd_receive(int fd, void *buf, size_t size)
{
    return kin__fd_read(fd, buf, size);
}

int64_t kin__fd_write(int fd, const void *buf, size_t size)
{
    int64_t rc = 0;
    const struct sim *sim = get(fd, &rc);
    if (sim)
        rc = write_one(sim, buf, size);
    kin__sims_flush();
    return rc;
}

/* Copies between parts and one piece of memory; which has room. */
static void gather(const struct iovec *parts, int count, char *whole, int64_t size, bool is_read)
{
    for (int i = 0; i < count && size > 0; i++) {
        size_t part = parts[i].iov_len < (size_t)size ? parts[i].iov_len : (size_t)size;
        if (part)
            memcpy(is_read ? parts[i].iov_base : whole, is_read ? whole : parts[i].iov_base, part);
        whole += part;
        size -= (int64_t)part;
    }
}

/* Several parts at once: a datagram, or what a pipe takes whole or not at all, is one thing. What
 * is too large for that goes part by part, until one is not done in full. */
static int64_t each_part(int fd, const struct iovec *parts, int count, bool is_read)
{
    static char whole[65536]; /* there is one thread */
    int64_t done = 0, rc = 0, size = 0;
    const struct sim *sim = get(fd, &rc);
    for (int i = 0; i < count; i++)
        size += (int64_t)parts[i].iov_len;
    if (sim && size <= (int64_t)sizeof(whole)) {
        if (!is_read)
            gather(parts, count, whole, size, false);
        rc = is_read ? read_one(sim, whole, (size_t)size) : write_one(sim, whole, (size_t)size);
        if (is_read)
            gather(parts, count, whole, rc, true);
        count = 0;
    }
    for (int i = 0; sim && i < count; i++) {
        const struct iovec *part = &parts[i];
        if (part->iov_len == 0)
            continue;
        rc = is_read ? read_one(sim, part->iov_base, part->iov_len)
                     : write_one(sim, part->iov_base, part->iov_len);
        done += rc > 0 ? rc : 0;
        if (rc < (int64_t)part->iov_len)
            break;
    }
    kin__sims_flush();
    return done ? done : rc;
}

int64_t kin__fd_readv(int fd, const struct iovec *parts, int count)
{
    return each_part(fd, parts, count, true);
}

int64_t kin__fd_writev(int fd, const struct iovec *parts, int count)
{
    return each_part(fd, parts, count, false);
}

/* Moves bytes; what cannot be written is not taken. */
static int64_t move(const struct sim *sink, const struct sim *source, int64_t *offset, size_t size)
{
    static char buf[16384]; /* there is one thread */
    int64_t at = offset ? *offset : source->ops->skip(source->object, 0);
    int64_t rc = source->ops->read_at(source->object, buf, size < sizeof(buf) ? size : sizeof(buf),
                                      at);
    if (rc > 0)
        rc = write_one(sink, buf, (size_t)rc);
    if (rc > 0 && offset)
        *offset = at + rc;
    else if (rc > 0)
        (void)source->ops->skip(source->object, rc);
    kin__sims_flush();
    return rc;
}

int64_t kin__fd_sendfile(int to, int from, int64_t *offset, size_t size)
{
    int64_t rc = 0;
    const struct sim *file = get(from, &rc), *sink = get(to, &rc);
    if (!file || !sink)
        return rc;
    rc = check_sendfile(sink, file);
    return rc < 0 ? rc : move(sink, file, offset, size);
}

int64_t kin__fd_readv_as(int fd, enum kin__fd_manner manner, const struct iovec *parts, int count)
{
    (void)manner;
    return kin__fd_readv(fd, parts, count);
}

int64_t kin__fd_writev_as(int fd, enum kin__fd_manner manner, const struct iovec *parts, int count)
{
    (void)manner;
    return kin__fd_writev(fd, parts, count);
}

int64_t kin__fd_writev_little(int fd, const struct iovec *parts, int count)
{
    return kin__fd_writev(fd, parts, count);
}

int64_t kin__fd_sendfile_as(int to, enum kin__fd_manner manner, int from, int64_t *offset,
                            size_t size)
{
    (void)manner;
    return kin__fd_sendfile(to, from, offset, size);
}

static bool is_pipe(const struct sim *sim)
{
    return sim->ops->kind == KIN__FD_KIND_OTHER;
}

int kin__fd_takes(int fd)
{
    int64_t rc = 0;
    const struct sim *sim = get(fd, &rc);
    if (!sim)
        return (int)rc;
    return !sim->ops->write ? -EBADF : is_pipe(sim) && sim->ops->check
                                           ? sim->ops->check(sim->object, true) : 0;
}

int64_t kin__fd_splice(int to, int from, size_t size)
{
    int64_t rc = 0;
    const struct sim *source = get(from, &rc), *sink = get(to, &rc);
    if (source && sink)
        rc = check_sendfile(sink, source);
    if (rc == -EPIPE || rc == -EBADF)
        return rc;
    bool can = source && sink && (is_pipe(source) || is_pipe(sink)) && source->ops->read_at;
    return can && !source->ops->check ? move(sink, source, NULL, size)
                                      : -EINVAL; /* whoever copies has another way */
}

int kin__fd_shutdown(int fd, int how)
{
    int64_t rc = 0;
    kin__lab_point();
    const struct sim *sim = get(fd, &rc);
    if (sim)
        rc = sim->ops->shutdown ? sim->ops->shutdown(sim->object, how) : -ENOTSOCK;
    kin__sims_flush();
    return (int)rc;
}

int kin__fd_look(int fd, unsigned bits)
{
    int64_t rc = 0;
    const struct sim *sim = get(fd, &rc);
    if (sim)
        rc = (int64_t)(sim->ops->look ? sim->ops->look(sim->object, bits)
                                      : bits & (KIN__READY_READ | KIN__READY_WRITE));
    return (int)rc;
}

enum kin__fd_kind kin__fd_kind(int fd)
{
    const struct sim *sim = sim_of(fd);
    return sim && sim->ops ? sim->ops->kind : KIN__FD_KIND_OTHER;
}

bool kin__lab_is_foreign(int fd)
{
    return kin__world.is_on && fd >= 0 && !kin__sim_is(fd);
}
