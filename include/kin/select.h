/* SPDX-License-Identifier: MIT */
/*
 * Select: wait for several things, and do exactly one of them.
 *
 *     struct kin_case cases[] = {
 *         kin_case_recv(jobs, &job),
 *         kin_case_send(results, &result),
 *         kin_case_after(KIN_SEC(1)),
 *     };
 *     switch (kin_select(cases, 3, KIN_NEVER)) {
 *     case 0:
 *         ...                    cases[0].status is 0, or KIN_CLOSED and job is as it was
 *         break;
 *     ...
 *     }
 *
 * The case whose index comes back has happened, and no other: no other channel was touched, no
 * other buffer written. Its status says how it went. A closed channel is ready: sends to it, and
 * receives from it when it is empty, happen with the status KIN_CLOSED. A case on NULL never
 * happens, so that a case is switched off by its pointer.
 */
#ifndef KIN_SELECT_H
#define KIN_SELECT_H

#include <kin/base.h>
#include <kin/chan.h>
#include <kin/status.h>
#include <kin/task.h>
#include <kin/time.h>

#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

struct kin_event;

/* The most cases of one select. */
#define KIN_SELECT_MAX 1024

enum kin_case_kind {
    KIN_CASE_KIND_SEND = 1, /* an item is handed over */
    KIN_CASE_KIND_RECV,     /* an item is taken */
    KIN_CASE_KIND_AFTER,    /* a time has passed since the call */
    KIN_CASE_KIND_EVENT,    /* an event is set */
    KIN_CASE_KIND_TASK,     /* a task is over */
    KIN_CASE_KIND_SIGNAL,   /* a signal of the operating system arrives */
    KIN_CASE_KIND_READ,     /* a descriptor can be read */
    KIN_CASE_KIND_WRITE     /* a descriptor can be written */
};

/* One of the things to wait for; made by the functions below. A case can be used again and again:
 * kin_select writes nothing but the status of the case that happened. */
struct kin_case {
    enum kin_case_kind kind;
    int status; /* of the one that happened: 0, KIN_CLOSED or an error */
    union {
        struct kin_chan *chan;
        struct kin_event *event;
        struct kin_task_ref task;
        int64_t ns;
        int fd;
        int signo;
    } on;
    union {
        const void *from; /* what is sent */
        void *to;         /* where what is received goes; NULL: it is dropped */
    } item;
};

/**
 * kin_case_send - the case that an item is handed over.
 * @chan: a channel; NULL: never.
 * @item: borrowed until the select has returned.
 *
 * Example:
 *     int send_to_either(struct kin_chan *left, struct kin_chan *right, const int *item)
 *     {
 *         struct kin_case cases[] = {kin_case_send(left, item), kin_case_send(right, item)};
 *         return kin_select(cases, 2, KIN_NEVER);
 *     }
 *
 * From:    anywhere
 * Returns: the case; its status is 0, or KIN_CLOSED and nothing was handed over
 */
static inline struct kin_case kin_case_send(struct kin_chan *chan, const void *item)
{
    struct kin_case made;
    made.kind = KIN_CASE_KIND_SEND;
    made.status = 0;
    made.on.chan = chan;
    made.item.from = item;
    return made;
}

/**
 * kin_case_recv - the case that an item is taken.
 * @chan: a channel; NULL: never.
 * @item: receives it, if this case happens with status 0; NULL: it is dropped.
 *
 * Example:
 *     int receive_from_either(struct kin_chan *left, struct kin_chan *right, int *item)
 *     {
 *         struct kin_case cases[] = {kin_case_recv(left, item), kin_case_recv(right, item)};
 *         int which = kin_select(cases, 2, KIN_NEVER);
 *         return which < 0 ? which : cases[which].status;
 *     }
 *
 * From:    anywhere
 * Returns: the case; its status is 0, or KIN_CLOSED and nothing was taken
 */
static inline struct kin_case kin_case_recv(struct kin_chan *chan, void *item)
{
    struct kin_case made;
    made.kind = KIN_CASE_KIND_RECV;
    made.status = 0;
    made.on.chan = chan;
    made.item.to = item;
    return made;
}

/**
 * kin_case_after - the case that some time has passed.
 * @ns: how long, counted from the call of kin_select; 0 or less: at once; INT64_MAX: never.
 *
 * Example:
 *     int receive_or_tick(struct kin_chan *chan, int *item)
 *     {
 *         struct kin_case cases[] = {kin_case_recv(chan, item), kin_case_after(KIN_SEC(1))};
 *         return kin_select(cases, 2, KIN_NEVER);
 *     }
 *
 * From:    anywhere
 * Returns: the case; its status is 0
 */
static inline struct kin_case kin_case_after(int64_t ns)
{
    struct kin_case made;
    made.kind = KIN_CASE_KIND_AFTER;
    made.status = 0;
    made.on.ns = ns;
    made.item.to = 0;
    return made;
}

/**
 * kin_case_event - the case that an event is set.
 * @event: an event; NULL: never.
 *
 * The event stays set: the case is ready again in the next select.
 *
 * Example:
 *     int receive_until(struct kin_chan *chan, int *item, struct kin_event *stop)
 *     {
 *         struct kin_case cases[] = {kin_case_recv(chan, item), kin_case_event(stop)};
 *         return kin_select(cases, 2, KIN_NEVER);
 *     }
 *
 * From:    anywhere
 * Returns: the case; its status is 0
 */
static inline struct kin_case kin_case_event(struct kin_event *event)
{
    struct kin_case made;
    made.kind = KIN_CASE_KIND_EVENT;
    made.status = 0;
    made.on.event = event;
    made.item.to = 0;
    return made;
}

/**
 * kin_case_task - the case that a task is over.
 * @task: any name; {0}: never.
 *
 * A task that is over stays over: the case is ready again in the next select.
 *
 * Example:
 *     int wait_for_either(struct kin_task_ref task, struct kin_event *stop)
 *     {
 *         struct kin_case cases[] = {kin_case_task(task), kin_case_event(stop)};
 *         return kin_select(cases, 2, KIN_NEVER);
 *     }
 *
 * From:    anywhere
 * Returns: the case; its status is 0
 */
static inline struct kin_case kin_case_task(struct kin_task_ref task)
{
    struct kin_case made;
    made.kind = KIN_CASE_KIND_TASK;
    made.status = 0;
    made.on.task = task;
    made.item.to = 0;
    return made;
}

/**
 * kin_case_signal - the case that a signal of the operating system arrives.
 * @signo: as for kin_signal_wait; 0: never.
 *
 * Needs KIN_CAP_PROCESS.
 *
 * Example:
 *     #include <signal.h>
 *
 *     int work_until_interrupted(struct kin_chan *jobs, int *job)
 *     {
 *         struct kin_case cases[] = {kin_case_recv(jobs, job), kin_case_signal(SIGINT)};
 *         return kin_select(cases, 2, KIN_NEVER);
 *     }
 *
 * From:    anywhere
 * Returns: the case; its status is 0, -EINVAL for a signal that cannot be waited for, -ENOMEM,
 *          -EAGAIN
 */
static inline struct kin_case kin_case_signal(int signo)
{
    struct kin_case made;
    made.kind = KIN_CASE_KIND_SIGNAL;
    made.status = 0;
    made.on.ns = 0;
    made.on.signo = signo;
    made.item.to = 0;
    return made;
}

/**
 * kin_case_read - the case that a descriptor can be read without waiting.
 * @fd: a descriptor; a negative one: never.
 *
 * Example:
 *     int input_or_job(int fd, struct kin_chan *jobs, int *job)
 *     {
 *         struct kin_case cases[] = {kin_case_read(fd), kin_case_recv(jobs, job)};
 *         return kin_select(cases, 2, KIN_NEVER);
 *     }
 *
 * From:    anywhere
 * Returns: the case; its status is 0, also at the end of what can be read; KIN_CLOSED when
 *          kin_close came meanwhile; -EBADF, -EPERM for what cannot be waited for
 */
static inline struct kin_case kin_case_read(int fd)
{
    struct kin_case made;
    made.kind = KIN_CASE_KIND_READ;
    made.status = 0;
    made.on.ns = 0;
    made.on.fd = fd;
    made.item.to = 0;
    return made;
}

/**
 * kin_case_write - the case that a descriptor can be written without waiting.
 * @fd: a descriptor; a negative one: never.
 *
 * Example:
 *     int wait_for_room(int fd)
 *     {
 *         struct kin_case cases[] = {kin_case_write(fd), kin_case_after(KIN_SEC(5))};
 *         return kin_select(cases, 2, KIN_NEVER) == 0 ? 0 : KIN_TIMEOUT;
 *     }
 *
 * From:    anywhere
 * Returns: the case; its status as kin_case_read
 */
static inline struct kin_case kin_case_write(int fd)
{
    struct kin_case made = kin_case_read(fd);
    made.kind = KIN_CASE_KIND_WRITE;
    return made;
}

/* The same as macros. */
#define KIN_CASE_SEND(chan, item) kin_case_send((chan), (item))
#define KIN_CASE_RECV(chan, item) kin_case_recv((chan), (item))
#define KIN_CASE_AFTER(ns) kin_case_after(ns)
#define KIN_CASE_EVENT(event) kin_case_event(event)
#define KIN_CASE_TASK(task) kin_case_task(task)
#define KIN_CASE_SIGNAL(signo) kin_case_signal(signo)
#define KIN_CASE_READ(fd) kin_case_read(fd)
#define KIN_CASE_WRITE(fd) kin_case_write(fd)

/**
 * kin_select - wait until one of several things can happen, and let exactly one happen.
 * @cases:    what to wait for; the status of the one that happened is written.
 * @count:    how many, at most KIN_SELECT_MAX; with none, or only cases on NULL, nothing ever
 *            happens.
 * @deadline: until when to wait; 0: not at all.
 *
 * Among several that are ready each is equally likely; the runtime's seed decides. One channel may
 * be in several cases, and sends and receives on it in one select do not meet each other. Cases are
 * looked at one after the other: what comes and goes meanwhile may be missed by a select that must
 * not wait.
 *
 * Example:
 *     int merge(struct kin_chan *left, struct kin_chan *right, struct kin_chan *out)
 *     {
 *         while (left || right) {
 *             int number;
 *             struct kin_case cases[] = {kin_case_recv(left, &number),
 *                                        kin_case_recv(right, &number)};
 *             int index = kin_select(cases, 2, KIN_NEVER);
 *             if (index < 0)
 *                 return index;
 *             if (cases[index].status == KIN_CLOSED) {
 *                 if (index == 0)
 *                     left = NULL;
 *                 else
 *                     right = NULL;
 *                 continue;
 *             }
 *             int rc = kin_chan_send(out, &number, KIN_NEVER);
 *             if (rc < 0)
 *                 return rc;
 *         }
 *         return 0;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; nothing has happened
 * Needs:   KIN_CAP_CHANNEL for a case on a channel; for one on a descriptor, what the
 *          descriptor is: KIN_CAP_NET, KIN_CAP_FILE
 * Budget:  1 op, 1 channel operation when a case is on a channel, 1 system call when one is on a
 *          descriptor
 * Returns: the index of the case that happened, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOCAP,
 *          KIN_NOTASK, -ENOMEM with more than 8 cases, -EINVAL for too many cases, an unknown kind,
 *          or a send of NULL on a channel whose items have a size
 */
KIN_API KIN_MUST_USE int kin_select(struct kin_case *cases, size_t count, kin_time deadline);

/**
 * kin_select_ordered - as kin_select, but of several that are ready the first is taken.
 * @cases:    what to wait for, the most urgent first.
 * @count:    how many, at most KIN_SELECT_MAX.
 * @deadline: until when to wait; 0: not at all.
 *
 * A case that is always ready keeps all behind it from happening.
 *
 * Example:
 *     int urgent_first(struct kin_chan *urgent, struct kin_chan *other, int *item)
 *     {
 *         struct kin_case cases[] = {kin_case_recv(urgent, item), kin_case_recv(other, item)};
 *         return kin_select_ordered(cases, 2, KIN_NEVER);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; nothing has happened
 * Needs:   KIN_CAP_CHANNEL for a case on a channel; for one on a descriptor, what the
 *          descriptor is: KIN_CAP_NET, KIN_CAP_FILE
 * Budget:  as kin_select
 * Returns: as kin_select
 */
KIN_API KIN_MUST_USE int kin_select_ordered(struct kin_case *cases, size_t count,
                                            kin_time deadline);

KIN_END_DECLS

#endif
