/* SPDX-License-Identifier: MIT */
/*
 * Servers: a task with a state of its own and a mailbox, which answers calls one after the other.
 *
 *     kin_server_start -> INIT --on_start--> RUNNING --cancelled, stopped--> DRAINING -> STOPPING
 *                                               |                                           |
 *                                               +-- a callback fails, stop_self ----------> on_stop
 *                                                                                           |
 *                                                                                        STOPPED
 *
 * A server is a child of a nursery as any other task: it is over before the nursery is, and when it
 * fails its nursery hears of that. Others know its address, or its name. They send it
 *
 *     calls    and wait for the answer
 *     casts    which owe no answer
 *     infos    which nobody sends: the end of somebody it monitors or is linked with, its timers, a
 *              lease that ran out
 *
 * It handles one at a time: its callbacks never run at once, and each sees the state as the one
 * before left it. Calls and casts of one sender come in the order in which they were sent, all of
 * them in the order of arrival. Infos come first, those that are there in the order of (time, kind,
 * subject), but never before a message that had arrived before them.
 *
 * Messages are copied. What a callback is given is valid until it returns.
 *
 * Answers. The right to answer a call is a token, struct kin_reply. It is used once, in the
 * callback or, after kin_reply_move, at any time from anywhere. Every caller gets an answer: what
 * was sent, KIN_NOREPLY when the token was dropped or forgotten, and when the server ends first,
 * what it ended with.
 *
 * Stopping. A server that is cancelled, with its nursery or alone, or stopped by kin_server_stop,
 * lets nobody in any more and drains: casts and infos that are there are handled, all of them and
 * none that come later, calls that are there get KIN_STOPPING; enum kin_drain says otherwise. Then
 * on_stop runs. A stop comes before anything that callbacks bring about: neither on_continue nor
 * infos or timers without end keep it away. In a drain on_continue runs once after a callback that
 * asks for it, not again because it asks itself: on_stop does the rest. All of that is masked,
 * so its waits are not cut short, and bounded by stop_timeout: after that the server is reported as
 * stuck (KIN_STUCK) and its waits return KIN_CANCELLED. A server that fails, or stops itself,
 * handles nothing more: on_stop runs, casts are dropped, callers get its status. After a panic not
 * even on_stop runs.
 */
#ifndef KIN_SERVER_H
#define KIN_SERVER_H

#include <kin/addr.h>
#include <kin/base.h>
#include <kin/budget.h>
#include <kin/monitor.h>
#include <kin/nursery.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

struct kin_server;
struct kin_reply;

#define KIN_CONTINUE 1 /* of a callback: run on_continue before the next message */

/* The largest request, message or reply. Send a pointer to something larger. */
#define KIN_MESSAGE_MAX ((size_t)65536)

/* What a server does. Every callback may park. One that returns less than 0 stops the server with
 * it; KIN_CONTINUE runs on_continue before the next message; other positive values stop the server
 * with -EBADMSG. Those, and values below 0 that are no status, are reported with the server and the
 * callback. Any may be NULL. */
struct kin_server_ops {
    /* < 0: the start fails with it; KIN_IGNORE: it declines */
    int (*on_start)(struct kin_server *s, void *state, const void *arg);
    int (*on_call)(struct kin_server *s, void *state, const void *req, size_t size,
                   struct kin_reply *reply);
    int (*on_cast)(struct kin_server *s, void *state, const void *msg, size_t size);
    int (*on_info)(struct kin_server *s, void *state, const struct kin_info *info);
    int (*on_continue)(struct kin_server *s, void *state);
    /* not run when on_start never ran or failed, nor after a panic, nor when a server that waits
     * for messages is woken and there is no memory for a stack: it ends with -ENOMEM */
    void (*on_stop)(struct kin_server *s, void *state, const struct kin_outcome *why);
};

enum kin_server_state {
    KIN_SERVER_INIT = 0,
    KIN_SERVER_RUNNING,
    KIN_SERVER_DRAINING,
    KIN_SERVER_STOPPING,
    KIN_SERVER_STOPPED
};

/* What becomes of a cast to a full mailbox. */
enum kin_overflow {
    KIN_OVERFLOW_PARK = 0,   /* the sender waits for room */
    KIN_OVERFLOW_REJECT,     /* KIN_FULL, whatever the deadline */
    KIN_OVERFLOW_DROP_OLDEST /* the oldest cast is dropped, never a call */
};

/* What is still done of what is in the mailbox when the server is cancelled or stopped. */
enum kin_drain { KIN_DRAIN_CASTS = 0, KIN_DRAIN_NONE, KIN_DRAIN_ALL };

struct kin_server_options {
    size_t size;
    const char *name;        /* registered before on_start runs; NULL: none. Copied */
    size_t state_size;       /* bytes of state, all zero at first, aligned for any type */
    size_t mailbox_capacity; /* letters; 0: 1024 */
    enum kin_overflow overflow;
    enum kin_drain drain;
    struct kin_budget init_budget; /* of on_start; all zero: no limit of its own */
    struct kin_budget stop_budget; /* of drain and on_stop; all zero: no limit of its own */
    int64_t init_timeout;          /* ns that the start may take; 0: no limit */
    int64_t stop_timeout;          /* ns that drain and on_stop may take; 0: 5 s; KIN_NEVER */
    int64_t idle_timeout;          /* ns without a message until KIN_INFO_TIMEOUT; 0: never */
    struct kin_budget budget;      /* of its task, as in struct kin_spawn_options */
    uint32_t caps;                 /* of its task, as there */
    enum kin_priority priority;
    size_t stack_max_bytes; /* 0: the runtime's */
};
#define KIN_SERVER_OPTIONS_INIT                                                                    \
    { sizeof(struct kin_server_options), 0, 0, 0, KIN_OVERFLOW_PARK, KIN_DRAIN_CASTS,              \
      { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 }, 0, 0, 0, { 0, 0, 0, 0, 0 }, 0, KIN_PRIORITY_NORMAL, 0 }
#ifndef __cplusplus
#define KIN_SERVER_OPTIONS(...) KIN_OPTIONS_(kin_server_options, __VA_ARGS__)
#endif

/**
 * kin_server_start - start a server and wait until it runs.
 * @n:       the nursery that it becomes a child of.
 * @ops:     what it does; copied.
 * @options: borrowed; NULL for all defaults.
 * @arg:     handed to on_start, which copies what it needs.
 * @out:     receives its address; with KIN_TAKEN that of whoever has the name; else unchanged.
 *
 * Returns when on_start has returned. The name is registered before that; if it is taken on_start
 * does not run. Calls and casts that come meanwhile, by the name, wait in the mailbox. A start that
 * fails is the caller's business alone: it does not fail the nursery, the name is free again, and
 * whoever waits in the mailbox gets the same status. on_start may decline with KIN_IGNORE.
 *
 * When the caller is cancelled, or init_timeout has passed, the server is cancelled, too, and
 * waited for, for stop_timeout at most: only if on_start does not heed that may it still use arg
 * afterwards.
 *
 * Example:
 *     int count_on_call(struct kin_server *s, void *state, const void *req, size_t size,
 *                       struct kin_reply *reply)
 *     {
 *         long *sum = state;
 *         (void)s;
 *         if (size == sizeof *sum)
 *             *sum += *(const long *)req;
 *         kin_ignore(kin_reply_send(reply, sum, sizeof *sum));
 *         return 0;
 *     }
 *
 *     int start_counter(struct kin_nursery *n, struct kin_addr *out)
 *     {
 *         const struct kin_server_ops ops = {.on_call = count_on_call};
 *         struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
 *         options.name = "counter";
 *         options.state_size = sizeof(long);
 *         return kin_server_start(n, &ops, &options, NULL, out);
 *     }
 *
 * From:    task
 * Parks:   until on_start has returned
 * Cancel:  reports it, after the server has ended
 * Needs:   KIN_CAP_SPAWN, and KIN_CAP_REGISTRY for a name
 * Budget:  1 op; 1 spawn of the nursery's pool, memory for the state, until the server is gone
 * Returns: 0; what on_start returned, if that is below 0, and -EBADMSG for what means nothing;
 *          KIN_PANICKED; KIN_TAKEN; KIN_TIMEOUT; KIN_CANCELLED, also when the nursery was cancelled
 *          before on_start; KIN_NOSCOPE and the like as kin_spawn; -EINVAL, -ENOMEM, KIN_BUDGET,
 *          KIN_NOTASK
 * Spec:    [GS-INIT] [SINV-5]
 */
KIN_API KIN_MUST_USE int kin_server_start(struct kin_nursery *n, const struct kin_server_ops *ops,
                                          const struct kin_server_options *options, const void *arg,
                                          struct kin_addr *out);

/**
 * kin_server_start_monitor - start a server that is monitored from before its first step.
 * @n:       as of kin_server_start, as are the next ones.
 * @ops:     what it does.
 * @options: how.
 * @arg:     handed to on_start.
 * @out:     receives its address.
 * @monitor: receives the monitor of the calling task, as from kin_monitor; unchanged if the start
 *           fails.
 *
 * A server that fails right after its start may be over before kin_monitor is called, and then how
 * it ended is not always known any more. With this call it always is: kin_wait_down, or on_info of
 * a server, gets the true reason. A start that fails leaves no monitor, and no Down arrives.
 *
 * Example:
 *     int start_and_wait(struct kin_nursery *n, const struct kin_server_ops *ops)
 *     {
 *         struct kin_monitor_ref monitor;
 *         struct kin_addr server;
 *         struct kin_info end;
 *         int rc = kin_server_start_monitor(n, ops, NULL, NULL, &server, &monitor);
 *         if (rc == 0)
 *             rc = kin_wait_down(monitor, &end, KIN_NEVER);
 *         return rc < 0 ? rc : end.u.down.status;
 *     }
 *
 * From:    task
 * Parks:   until on_start has returned
 * Cancel:  reports it, after the server has ended
 * Needs:   KIN_CAP_SPAWN, and KIN_CAP_REGISTRY for a name
 * Budget:  1 op; 1 spawn of the nursery's pool, memory for the state, until the server is gone
 * Returns: as kin_server_start
 * Spec:    [GS-INIT] [MON-CREATE] [MON-DOWN]
 */
KIN_API KIN_MUST_USE int
kin_server_start_monitor(struct kin_nursery *n, const struct kin_server_ops *ops,
                         const struct kin_server_options *options, const void *arg,
                         struct kin_addr *out, struct kin_monitor_ref *monitor);

/**
 * kin_server_stop - ask a server to stop, and wait until it is over.
 * @server:   where it is; a supervisor will do.
 * @reason:   0: it ends well; below 0: it ends with this error.
 * @deadline: KIN_NEVER to wait without end, 0 to only ask.
 *
 * The callback that runs goes on to its end. Then the server drains as one that is cancelled does,
 * and on_stop runs. The first reason stays. When this returns 0 nothing of the server is left: its
 * names are free, its callers are answered and those who monitor it are told.
 *
 * Example:
 *     int replace(struct kin_nursery *n, const struct kin_server_ops *ops, struct kin_addr *server)
 *     {
 *         int rc = kin_server_stop(*server, 0, kin_after(KIN_SEC(1)));
 *         if (rc < 0 && rc != KIN_NOPROC)
 *             return rc;
 *         return kin_server_start(n, ops, NULL, NULL, server);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it; the stop goes on
 * Budget:  1 op
 * Returns: 0; KIN_TIMEOUT when it is not over yet: the stop goes on; KIN_NOPROC when it is over, or
 *          no server; KIN_DEADLOCK for the server itself; KIN_NOCONN for another node;
 *          KIN_CANCELLED, -EINVAL for a reason above 0, KIN_NOTASK
 * Spec:    [GS-STOP-BEGIN] [GS-STOPPED]
 */
KIN_API int kin_server_stop(struct kin_addr server, int reason, kin_time deadline);

/**
 * kin_server_stop_self - stop, when the callback returns.
 * @s:      the server of the callback.
 * @status: 0: it ends well, and calls that it has not answered get KIN_STOPPING; below 0: it ends
 *          with this error, and so do they.
 *
 * Nothing of the mailbox is handled any more; on_stop runs. A callback that returns less than 0
 * stops the server with that instead.
 *
 * Example:
 *     int finish_one(struct kin_server *s, int *left)
 *     {
 *         return --*left == 0 ? kin_server_stop_self(s, 0) : 0;
 *     }
 *
 * From:    task, the server's own
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: 0, -EPERM for others, -EINVAL for NULL or a status above 0
 */
KIN_API int kin_server_stop_self(struct kin_server *s, int status);

/**
 * kin_server_state - which of the five states a server is in.
 * @server: where it is.
 *
 * Example:
 *     int is_up(struct kin_addr server)
 *     {
 *         return kin_server_state(server) == KIN_SERVER_RUNNING;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: the state, which may have changed by the time it is read; KIN_SERVER_STOPPED for one
 *          that is over, and for whatever is no server
 */
KIN_API enum kin_server_state kin_server_state(struct kin_addr server);

/**
 * kin_server_dropped - how many casts newer ones have pushed out of the mailbox of a server.
 * @server: its address.
 *
 * That happens with KIN_OVERFLOW_DROP_OLDEST alone, and nobody is told otherwise: the sender of the
 * dropped cast got 0 long ago.
 *
 * Example:
 *     int report_losses(struct kin_addr meter)
 *     {
 *         return printf("%llu samples lost\n", (unsigned long long)kin_server_dropped(meter));
 *     }
 *
 * From:    task, thread
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: since its start; 0 when it is over or no server
 * Spec:    [GS-CAST-FULL]
 */
KIN_API uint64_t kin_server_dropped(struct kin_addr server);

/**
 * kin_server_timer_set - be told at a time.
 * @s:  the server of the callback.
 * @id: which of its timers, not 0; one that is set already is set anew.
 * @at: when; a time that has passed is at once.
 *
 * on_info gets a KIN_INFO_TIMEOUT with this id and time, once. Timers of one time come in the order
 * of their ids. Those that are left when the server stops are forgotten.
 *
 * Example:
 *     enum { FLUSH = 1 };
 *
 *     int flush_soon(struct kin_server *s)
 *     {
 *         return kin_server_timer_set(s, FLUSH, kin_after(KIN_MS(10)));
 *     }
 *
 *     bool is_flush(const struct kin_info *info)
 *     {
 *         return info->kind == KIN_INFO_TIMEOUT && info->u.timeout.id == FLUSH;
 *     }
 *
 * From:    task, the server's own
 * Parks:   no, but others may run
 * Budget:  a step of the turn, memory of the server's task until it has fired or is cancelled
 * Returns: 0, -ENOMEM, KIN_BUDGET, KIN_FULL when 65536 are set, -EINVAL for NULL or id 0, -EPERM
 *          for others
 * Spec:    [GS-INFO-SORT]
 */
KIN_API KIN_MUST_USE int kin_server_timer_set(struct kin_server *s, uint64_t id, kin_time at);

/**
 * kin_server_timer_cancel - forget a timer.
 * @s:  the server of the callback.
 * @id: which of its timers.
 *
 * Example:
 *     void flush_later(struct kin_server *s)
 *     {
 *         kin_ignore(kin_server_timer_cancel(s, 1));
 *     }
 *
 * From:    task, the server's own
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: 0: no timeout of it comes; KIN_STALE: it was not set, or has been delivered; -EINVAL,
 *          -EPERM
 */
KIN_API int kin_server_timer_cancel(struct kin_server *s, uint64_t id);

/**
 * kin_call - ask a server, and wait for the answer.
 * @to:       where it is.
 * @req:      borrowed; the request. NULL when req_size is 0.
 * @req_size: bytes of it, KIN_MESSAGE_MAX at most.
 * @rep:      receives the answer. NULL when rep_cap is 0.
 * @rep_cap:  bytes that fit there.
 * @rep_size: receives how many bytes the answer has; may be NULL.
 * @deadline: KIN_NEVER to wait without end. With 0 nothing is sent, as nobody waits for an answer.
 *
 * A full mailbox makes the caller wait, too. A caller that stops waiting leaves: the server does
 * not handle its call, unless it has begun to, and whoever answers then gets KIN_GONE.
 *
 * Example:
 *     int add(struct kin_addr counter, long number, long *sum)
 *     {
 *         return kin_call(counter, &number, sizeof number, sum, sizeof *sum, NULL,
 *                         kin_after(KIN_SEC(1)));
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it
 * Budget:  1 op, 1 channel operation
 * Returns: 0; -EMSGSIZE when the answer, or the request, is too large: of an answer *rep_size says
 *          how large, and nothing is copied; what the server aborted it with; KIN_NOPROC when it is
 *          over, or no server; KIN_STOPPING when it drains or stops; what it failed with before it
 *          answered, KIN_PANICKED for a panic; KIN_NOREPLY when it dropped the call; -ENOSYS when
 *          it takes none; KIN_DEADLOCK for the server itself; KIN_NOCONN for another node;
 *          KIN_TIMEOUT, or KIN_FULL with deadline 0 on a full mailbox; KIN_CANCELLED, KIN_BUDGET,
 *          -ENOMEM, -EINVAL, KIN_NOTASK
 * Spec:    [GS-CALL-SEND] [GS-CALL-HANDLE] [SINV-1]
 */
KIN_API KIN_MUST_USE int kin_call(struct kin_addr to, const void *req, size_t req_size, void *rep,
                                  size_t rep_cap, size_t *rep_size, kin_time deadline);

/**
 * kin_cast - tell a server something, and do not wait for an answer.
 * @to:       where it is.
 * @msg:      borrowed; the message. NULL when size is 0.
 * @size:     bytes of it, KIN_MESSAGE_MAX at most.
 * @deadline: how long to wait for room; 0: not at all, and a full mailbox is KIN_FULL.
 *
 * 0 says that it is in the mailbox, and no more: it is dropped if the server fails or stops itself
 * first, or, with KIN_OVERFLOW_DROP_OLDEST, to make room for another.
 *
 * Example:
 *     void log_line(struct kin_addr logger, const char *line)
 *     {
 *         if (kin_cast(logger, line, strlen(line), 0) == KIN_FULL)
 *             fprintf(stderr, "%s\n", line);
 *     }
 *
 * From:    task
 * Parks:   only for room, with KIN_OVERFLOW_PARK; never for room in the mailbox of the caller
 *          itself
 * Cancel:  reports it; the message was not sent
 * Budget:  1 op, 1 channel operation, memory for the message until it is handled
 * Returns: 0; KIN_FULL, or KIN_TIMEOUT when the deadline has passed; KIN_NOPROC when it is over, or
 *          no server; KIN_STOPPING when it drains or stops; KIN_NOCONN for another node; -EMSGSIZE,
 *          KIN_CANCELLED, KIN_BUDGET, -ENOMEM, -EINVAL, KIN_NOTASK
 * Spec:    [GS-CAST-TRY] [GS-CAST-FULL]
 */
KIN_API KIN_MUST_USE int kin_cast(struct kin_addr to, const void *msg, size_t size,
                                  kin_time deadline);

/**
 * kin_reply_send - answer a call.
 * @reply: the right to.
 * @rep:   borrowed; the answer. NULL when size is 0.
 * @size:  bytes of it, KIN_MESSAGE_MAX at most. An answer that does not fit where the caller wants
 *         it is an answer, and the caller's error.
 *
 * A token that was moved is dropped all the same afterwards.
 *
 * Example:
 *     int echo(struct kin_reply *reply, const void *req, size_t size)
 *     {
 *         kin_ignore(kin_reply_send(reply, req, size));
 *         return 0;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: 0; KIN_REPLIED when it was answered before; KIN_GONE when the caller has left, or the
 *          server has ended; KIN_STALE for a token that was moved, under its old name, and for one
 *          whose callback has returned; -EMSGSIZE, -EINVAL
 * Spec:    [GS-REPLY] [SINV-1]
 */
KIN_API int kin_reply_send(struct kin_reply *reply, const void *rep, size_t size);

/**
 * kin_reply_move - keep the right to answer beyond the callback.
 * @reply: the token that on_call was given.
 * @out:   receives the token under the name that it has from now on; unchanged on failure.
 *
 * Any task or thread may answer with it, and then drops it. One that was moved is moved as it is.
 *
 * Example:
 *     int answer_later(struct kin_reply **waiting, struct kin_reply *reply)
 *     {
 *         if (!*waiting)
 *             return kin_reply_move(reply, waiting);
 *         kin_ignore(kin_reply_abort(reply, KIN_FULL));
 *         return 0;
 *     }
 *
 *     void answer_now(struct kin_reply **waiting, int number)
 *     {
 *         kin_ignore(kin_reply_send(*waiting, &number, sizeof number));
 *         kin_reply_drop(*waiting);
 *         *waiting = NULL;
 *     }
 *
 * From:    task, the server's own
 * Parks:   no, but others may run
 * Budget:  a step of the turn, memory of the server's task until kin_reply_drop
 * Returns: 0; KIN_REPLIED, KIN_GONE and KIN_STALE as kin_reply_send; -EPERM for others; -ENOMEM and
 *          KIN_BUDGET: the token is as it was; -EINVAL
 */
KIN_API KIN_MUST_USE int kin_reply_move(struct kin_reply *reply, struct kin_reply **out);

/**
 * kin_reply_abort - answer a call with an error.
 * @reply:  the right to answer.
 * @status: what kin_call returns; below 0.
 *
 * Example:
 *     int refuse(struct kin_reply *reply)
 *     {
 *         kin_ignore(kin_reply_abort(reply, KIN_UNSUPPORTED));
 *         return 0;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: as kin_reply_send; -EINVAL for a status that is not below 0
 */
KIN_API int kin_reply_abort(struct kin_reply *reply, int status);

/**
 * kin_reply_drop - give up the right to answer.
 * @reply: a token; NULL is left alone.
 *
 * Frees a token that was moved. If nobody has answered, the caller gets KIN_NOREPLY, which counts
 * among kin_leaks. A callback that returns without having answered or moved its token does the
 * same, and tokens that were forgotten altogether are found when the server ends.
 *
 * Example:
 *     void answer_late(struct kin_reply *moved, int number)
 *     {
 *         kin_ignore(kin_reply_send(moved, &number, sizeof number));
 *         kin_reply_drop(moved);
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 * Spec:    [GS-REPLY-LEAK]
 */
KIN_API void kin_reply_drop(struct kin_reply *reply);

KIN_END_DECLS

#endif
