/* SPDX-License-Identifier: MIT */
/*
 * Supervisors: servers that start others, and start them again when they fail.
 *
 *     shop (rest_for_one)
 *       +-- books                 started first, stopped last
 *       +-- counter               depends on books
 *       +-- reporter              depends on counter: goes down and comes up with it
 *
 * A supervisor is given specs of children. It starts them in the order of the array, each after
 * those it depends on, and stops them in the reverse order, each over before the next is asked. A
 * start function starts one child in the nursery that it is given, mostly by kin_server_start, but
 * a plain task will do (kin_spawn_with, kin_task_addr), or another supervisor. It runs on a task of
 * its own, so that the supervisor answers others meanwhile; one that fails is the starter's or
 * caller's business, and its children's nursery does not hear of it.
 *
 * What an end means:
 *
 *                  ended well      failed          panicked or was cancelled
 *     TRANSIENT    stays stopped   restarted       stays stopped
 *     PERMANENT    restarted       restarted       on_child_stopped says
 *     TEMPORARY    spec is gone    spec is gone    spec is gone
 *     ESCALATE     stays stopped   the supervisor ends with its status
 *
 * A panic or a cancellation never restarts anybody: "let it crash" is kin_fail, or an error that
 * the child returns.
 *
 * Whom a restart restarts. KIN_ONE_FOR_ONE, KIN_TEMPLATE: the child alone. KIN_ONE_FOR_ALL: all of
 * them. KIN_REST_FOR_ONE: the child and those after it in the order of the starts. The others are
 * stopped first, in reverse, and then all are started in order; temporary ones are not, nor those
 * that were lost or terminated before, nor, whatever the strategy, those that depend on one that
 * stays down: these are started again when that one is, by kin_supervisor_restart_child. Another
 * failure meanwhile makes one larger plan of both.
 *
 * How often. Each failure that restarts somebody is one entry in the history of the supervisor,
 * however many it restarts, and so is each attempt to restart that fails. When max_restarts entries
 * are less than window old, one more is too many: escalation says what then. A child may have a
 * limit of its own in its spec: what is too many for it is so for the supervisor.
 *
 *     STOP       the supervisor stops its children and ends as a failure, KIN_EXHAUSTED; a
 *                supervisor above restarts it only if it is KIN_PERMANENT
 *     ESCALATE   the same, and above it is a failure like any other
 *     RESET      the history is forgotten; the restart comes after reset_backoff
 *
 * Backoff. A child is restarted after its backoff: first, then factor_pct of the one before, up to
 * max (0: 60 s). It begins anew when the child has run for a window. All zero: at once.
 *
 * Stopping a child: it is cancelled; after its shutdown time it is cancelled without regard to its
 * masks; if it is still there five seconds later it is reported (N2002). It is waited for in any
 * case: no task is ever let go of. A supervisor as a child is waited for without end, unless its
 * shutdown says otherwise: its own children say how long it takes.
 *
 * Reports. Each child that ends without being asked to and is started again, or fails and is not,
 * is reported (struct kin_config, on_report; standard error otherwise): supervisor, child, how it
 * ended and what it said, where it was spawned, how many restarts there were in the window. So are
 * escalation and giving up. Of one supervisor at most 16 of these reports come in a window; the
 * next one, or one at its end, says how many were left out. A program has all of them, and restarts
 * that succeeded, by on_event of the options.
 *
 * A supervisor that is cancelled, with its nursery or alone, or stopped (kin_server_stop), shuts
 * down in order. When the grace of its nursery is over, or when it is killed itself, everybody who
 * is left is cancelled at once, masks or not. Tasks that start functions have left in the nursery
 * are cancelled when the last child is over.
 *
 * A call to a supervisor that ends meanwhile answers KIN_STOPPING, or what the supervisor failed
 * with, as kin_call does.
 *
 * Significant children. With auto_shutdown ANY, the end for good of one significant child ends the
 * supervisor, Ok; with ALL, that of the last one. A child that somebody terminated does not count.
 */
#ifndef KIN_SUPERVISOR_H
#define KIN_SUPERVISOR_H

#include <kin/addr.h>
#include <kin/base.h>
#include <kin/monitor.h>
#include <kin/nursery.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

KIN_BEGIN_DECLS

/* Starts one child in n; runs on a task of its own, never on the supervisor's. arg is the
 * supervisor's copy. 0 with *out set, KIN_IGNORE, or why it failed. */
typedef int kin_child_start_fn(struct kin_nursery *n, const void *arg, struct kin_addr *out);

/* When a child that is over is started again. One that panicked or was cancelled never is. */
enum kin_restart {
    KIN_TRANSIENT = 0, /* when it failed */
    KIN_PERMANENT,     /* always */
    KIN_TEMPORARY,     /* never; its spec goes with it */
    KIN_ESCALATE       /* never; its failure is the supervisor's */
};

#define KIN_BRUTAL ((int64_t)-1) /* of shutdown: cannot be masked, at once */
#define KIN_NO_RESTARTS UINT32_MAX /* of max_restarts: the first failure is one too many */

/* How long to wait before a child is started again; all zero: no delay. */
struct kin_backoff {
    int64_t first, max;   /* ns; max 0: 60 s, or first if that is more */
    unsigned factor_pct;  /* each delay is this much of the one before; 0: 200 */
    unsigned jitter_pct;  /* up to this much of a delay is added or taken off at random */
};

struct kin_child_spec {
    const char *name; /* copied; NULL for the children of KIN_TEMPLATE only */
    kin_child_start_fn *start;
    const void *arg; /* copied, if arg_size is not 0 */
    size_t arg_size;
    enum kin_restart restart;
    int64_t shutdown; /* ns from cancel to a cancel that cannot be masked; 0: 5 s, but KIN_NEVER for
                         a child that is a supervisor; KIN_NEVER; KIN_BRUTAL */
    bool significant;
    const char *const *depends_on; /* names of others of the same supervisor, NULL at the end */
    struct kin_backoff backoff;
    unsigned max_restarts; /* of this child alone, besides the supervisor's; 0: no limit;
                              KIN_NO_RESTARTS */
    int64_t window;        /* ns, for that; 0: 5 s */
};

enum kin_strategy {
    KIN_ONE_FOR_ONE = 0,
    KIN_ONE_FOR_ALL,
    KIN_REST_FOR_ONE,
    KIN_TEMPLATE /* many children of one kind, all started on demand; see start_child */
};
enum kin_escalation {
    KIN_ESCALATION_STOP = 0,
    KIN_ESCALATION_ESCALATE,
    KIN_ESCALATION_RESET
};
enum kin_auto_shutdown {
    KIN_AUTO_SHUTDOWN_NEVER = 0,
    KIN_AUTO_SHUTDOWN_ANY,
    KIN_AUTO_SHUTDOWN_ALL
};
/* What the loss of a permanent child to a cancel or a panic means. */
enum kin_child_stopped {
    KIN_STOPPED_KEEP = 0,
    KIN_STOPPED_STOP_SUPERVISOR,
    KIN_STOPPED_ESCALATE
};

/* What a supervisor does about a child that has ended without being asked to. Each but
 * KIN_EVENT_STARTED is a report, too: see below. */
enum kin_supervisor_event_kind {
    KIN_EVENT_RESTART = 0, /* it is started again, after delay; also after a start that failed */
    KIN_EVENT_STARTED,     /* it was started again: addr is the new one, the rest as before */
    KIN_EVENT_STOPPED,     /* it failed, panicked or was cancelled, and is not started again */
    KIN_EVENT_BLOCKED,     /* it is not started again: the child other, on which it depends, is
                              down */
    KIN_EVENT_ESCALATED,   /* it ends the supervisor: KIN_ESCALATE, or on_child_stopped */
    KIN_EVENT_EXHAUSTED,   /* one restart too many: the supervisor gives up */
    KIN_EVENT_RESET        /* one too many, with KIN_ESCALATION_RESET: started again after delay */
};

/* Strings are valid during the call only. */
struct kin_supervisor_event {
    enum kin_supervisor_event_kind kind;
    struct kin_addr supervisor;
    const char *supervisor_name; /* NULL: it has none */
    const char *child;           /* its name; NULL: it has none */
    struct kin_addr addr;        /* where it was; {0, 0}: it could not be started */
    enum kin_severity severity;  /* how it ended, */
    int status;
    const char *text;  /* and what it said; NULL: nothing */
    const void *site;  /* the code that spawned it; NULL: not known */
    const char *other; /* of KIN_EVENT_BLOCKED */
    unsigned restarts, max_restarts; /* in the window, with this one; and how many may be */
    int64_t window, delay;           /* ns */
};

/* Hears of each event, on the supervisor's own task: the children wait until it returns, and it
 * must not call the supervisor. */
typedef void kin_supervisor_event_fn(const struct kin_supervisor_event *event, void *arg);

struct kin_supervisor_options {
    size_t size;
    const char *name; /* as of a server */
    enum kin_strategy strategy;
    unsigned max_restarts; /* 0: 3; KIN_NO_RESTARTS */
    int64_t window;        /* ns; 0: 5 s */
    enum kin_escalation escalation;
    enum kin_auto_shutdown auto_shutdown;
    enum kin_child_stopped on_child_stopped;
    unsigned max_children;     /* 0: no limit */
    const char **failed_child; /* receives the name of the child whose start failed the start; it is
                                  the caller's own string; NULL: nobody wants to know */
    struct kin_backoff reset_backoff; /* of RESET; all zero: 1 s, doubled up to 60 s */
    kin_supervisor_event_fn *on_event; /* NULL: nobody wants to know */
    void *event_arg;
};
#define KIN_SUPERVISOR_OPTIONS_INIT                                                                \
    { sizeof(struct kin_supervisor_options), 0, KIN_ONE_FOR_ONE, 0, 0, KIN_ESCALATION_STOP,        \
      KIN_AUTO_SHUTDOWN_NEVER, KIN_STOPPED_KEEP, 0, 0, { 0, 0, 0, 0 }, 0, 0 }
#ifndef __cplusplus
#define KIN_SUPERVISOR_OPTIONS(...) KIN_OPTIONS_(kin_supervisor_options, __VA_ARGS__)
#endif

enum kin_child_state { KIN_CHILD_RUNNING = 0, KIN_CHILD_RESTARTING, KIN_CHILD_STOPPED };

struct kin_child_info {
    const char *name; /* NULL: it has none; valid until kin_run returns, whoever is gone by then */
    struct kin_addr addr; /* {0, 0} unless it runs */
    enum kin_child_state state;
    enum kin_restart restart;
    unsigned restarts; /* how often the supervisor has started it again */
    int status;        /* how it ended last, or why it did not start; 0: well, or it never ended */
};

struct kin_child_counts {
    size_t specs, active, restarting, stopped;
};

/**
 * kin_supervisor_start - start a supervisor and its children.
 * @n:        the nursery that it will be a child of.
 * @options:  borrowed; NULL for all defaults.
 * @children: borrowed; copied, with names, dependencies and arguments. Of KIN_TEMPLATE none or one,
 *            the template, of which nothing is started yet.
 * @count:    how many.
 * @out:      receives its address; with KIN_TAKEN that of the holder of the name.
 *
 * Returns when the last child has started. A child that declines (KIN_IGNORE) is kept, stopped; one
 * that fails undoes the start: those that run are stopped in reverse, *failed_child names it, and
 * its status is the answer. The nursery does not hear of that. Children that fail meanwhile are
 * dealt with after the start.
 *
 * Example:
 *     int start_books(struct kin_nursery *n, const void *arg, struct kin_addr *out);
 *     int start_counter(struct kin_nursery *n, const void *arg, struct kin_addr *out);
 *
 *     int open_shop(struct kin_nursery *n, struct kin_addr *shop)
 *     {
 *         static const char *const books[] = { "books", NULL };
 *         const struct kin_child_spec children[] = {
 *             { .name = "books", .start = start_books, .restart = KIN_PERMANENT },
 *             { .name = "counter", .start = start_counter, .depends_on = books },
 *         };
 *         struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
 *         options.strategy = KIN_REST_FOR_ONE;
 *         return kin_supervisor_start(n, &options, children, 2, shop);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; what was started is stopped before it returns
 * Needs:   KIN_CAP_SPAWN; KIN_CAP_REGISTRY for a name
 * Budget:  1 op, 1 spawn of the nursery's pool, memory, until the supervisor is gone
 * Returns: 0; what the start of a child failed with, KIN_PANICKED for a panic, -EBADMSG when it
 *          answered neither an address nor an error; KIN_TAKEN; KIN_FULL when there are more than
 *          max_children; KIN_CANCELLED; KIN_STOPPING when it was stopped meanwhile; what kin_spawn
 *          answers; -ENOMEM; KIN_BUDGET; KIN_NOTASK; -EINVAL for NULL, a wrong size or enum, a spec
 *          without a start or, but of a template, without a name, a name that is there twice, a
 *          dependency that is unknown or runs in a circle, an argument of a size that is NULL, a
 *          shutdown or window that is negative, a backoff whose max is less than its first or whose
 *          jitter is more than 100, or a significant child that is permanent or that nobody shuts
 *          down for
 * Spec:    [SUP-CHILD-FAILED] [SUP-PLAN-RESTART] [SUP-BUDGET-EXCEEDED] [SINV-2]
 */
KIN_API KIN_MUST_USE int kin_supervisor_start(struct kin_nursery *n,
                                              const struct kin_supervisor_options *options,
                                              const struct kin_child_spec *children, size_t count,
                                              struct kin_addr *out);

/**
 * kin_supervisor_start_monitor - start a supervisor that is monitored from before its first step.
 * @n:        as of kin_supervisor_start, as are the next ones.
 * @options:  how.
 * @children: whom.
 * @count:    how many.
 * @out:      receives its address.
 * @monitor:  receives the monitor of the calling task, as from kin_monitor; unchanged if the start
 *            fails.
 *
 * As kin_server_start_monitor: how the supervisor ends is known, however soon that is.
 *
 * Example:
 *     int run_shop(struct kin_nursery *n, const struct kin_child_spec *children, size_t count)
 *     {
 *         struct kin_monitor_ref monitor;
 *         struct kin_addr shop;
 *         struct kin_info end;
 *         int rc = kin_supervisor_start_monitor(n, NULL, children, count, &shop, &monitor);
 *         if (rc == 0)
 *             rc = kin_wait_down(monitor, &end, KIN_NEVER);
 *         return rc < 0 ? rc : end.u.down.status;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; what was started is stopped before it returns
 * Needs:   KIN_CAP_SPAWN; KIN_CAP_REGISTRY for a name
 * Budget:  1 op, 1 spawn of the nursery's pool, memory, until the supervisor is gone
 * Returns: as kin_supervisor_start
 * Spec:    [MON-CREATE] [MON-DOWN]
 */
KIN_API KIN_MUST_USE int
kin_supervisor_start_monitor(struct kin_nursery *n, const struct kin_supervisor_options *options,
                             const struct kin_child_spec *children, size_t count,
                             struct kin_addr *out, struct kin_monitor_ref *monitor);

/**
 * kin_supervisor_start_child - add a child and start it.
 * @sup:      a supervisor.
 * @spec:     borrowed; copied. Of KIN_TEMPLATE: NULL for one like the template; without a start for
 *            one like it with this argument or name, if there is one; or whole.
 * @out:      receives the address of the child.
 * @deadline: until when to wait for the start, which goes on if that is too short.
 *
 * It is the last in the order of starts. If its start fails nothing of it is left; if it declines,
 * its spec is kept, stopped, unless it is temporary or of a template.
 *
 * Children of a template need no name, may have the same, and are not found by it. Nothing is left
 * of one that is over and not restarted.
 *
 * Example:
 *     int start_session(struct kin_nursery *n, const void *arg, struct kin_addr *out);
 *
 *     int serve(struct kin_addr sessions, int client)
 *     {
 *         const struct kin_child_spec spec = { .start = start_session,
 *                                              .arg = &client,
 *                                              .arg_size = sizeof client,
 *                                              .restart = KIN_TEMPORARY };
 *         struct kin_addr session;
 *         return kin_supervisor_start_child(sessions, &spec, &session, KIN_NEVER);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; the start goes on
 * Budget:  1 op, 1 channel operation, memory for the spec as long as the child is known
 * Returns: 0; what its start failed with, KIN_IGNORE when it declined; KIN_TAKEN when there is a
 *          child of that name; KIN_FULL when there are max_children; KIN_TIMEOUT; KIN_CANCELLED,
 *          also when it was terminated meanwhile; KIN_STOPPING; KIN_NOPROC when there is no such
 *          supervisor; -EINVAL as kin_supervisor_start; -ENOMEM; KIN_BUDGET; KIN_NOTASK
 * Spec:    [SUP-RESTART-CHILD]
 */
KIN_API KIN_MUST_USE int kin_supervisor_start_child(struct kin_addr sup,
                                                    const struct kin_child_spec *spec,
                                                    struct kin_addr *out, kin_time deadline);

/**
 * kin_supervisor_terminate_child - stop a child.
 * @sup:      a supervisor.
 * @name:     the name of the child.
 * @deadline: until when to wait for its end, which comes all the same.
 *
 * The child is over when this returns 0, and is not restarted, by no plan either; its spec stays,
 * unless it is temporary. One that is being started or restarted is stopped as well; of one that is
 * stopped already nothing changes.
 *
 * Example:
 *     int pause_reports(struct kin_addr shop)
 *     {
 *         return kin_supervisor_terminate_child(shop, "reporter", kin_after(KIN_SEC(10)));
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; the child ends all the same
 * Budget:  as kin_call
 * Returns: 0, KIN_NOPROC when there is no such child or supervisor, KIN_TIMEOUT, KIN_CANCELLED,
 *          KIN_STOPPING, -EINVAL for a NULL or empty name, -ENOMEM, KIN_NOTASK
 * Spec:    [SUP-STOP-CHILD] [SUP-CANCEL-CHILD]
 */
KIN_API int kin_supervisor_terminate_child(struct kin_addr sup, const char *name,
                                           kin_time deadline);

/**
 * kin_supervisor_terminate_addr - stop the child at an address.
 * @sup:      a supervisor.
 * @child:    where the child is: of a template it has no other name.
 * @deadline: until when to wait for its end, which comes all the same.
 *
 * Example:
 *     int hang_up(struct kin_addr sessions, struct kin_addr session)
 *     {
 *         int rc = kin_supervisor_terminate_addr(sessions, session, KIN_NEVER);
 *         return rc == KIN_NOPROC ? 0 : rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; the child ends all the same
 * Budget:  as kin_call
 * Returns: as kin_supervisor_terminate_child; KIN_NOPROC when no child runs there
 * Spec:    [SUP-STOP-CHILD] [SUP-CANCEL-CHILD]
 */
KIN_API int kin_supervisor_terminate_addr(struct kin_addr sup, struct kin_addr child,
                                          kin_time deadline);

/**
 * kin_supervisor_restart_child - start a child that is stopped.
 * @sup:      a supervisor.
 * @name:     the name of the child.
 * @out:      receives its address.
 * @deadline: until when to wait for the start, which goes on if that is too short.
 *
 * That is no restart that counts. If it fails the child stays stopped, and nobody tries again.
 *
 * Example:
 *     int resume_reports(struct kin_addr shop)
 *     {
 *         struct kin_addr reporter;
 *         return kin_supervisor_restart_child(shop, "reporter", &reporter, KIN_NEVER);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; the start goes on
 * Budget:  as kin_call
 * Returns: 0, what its start failed with, KIN_IGNORE when it declined, -EBUSY when it runs,
 *          -EALREADY when it is being restarted, KIN_NOPROC when there is no such child or
 *          supervisor, KIN_TIMEOUT, KIN_CANCELLED, KIN_STOPPING, -EINVAL for a NULL or an empty
 *          name, -ENOMEM, KIN_NOTASK
 */
KIN_API KIN_MUST_USE int kin_supervisor_restart_child(struct kin_addr sup, const char *name,
                                                      struct kin_addr *out, kin_time deadline);

/**
 * kin_supervisor_delete_child - forget a child that is stopped.
 * @sup:      a supervisor.
 * @name:     the name of the child.
 * @deadline: until when to wait for the answer.
 *
 * Example:
 *     int close_counter(struct kin_addr shop)
 *     {
 *         int rc = kin_supervisor_terminate_child(shop, "counter", KIN_NEVER);
 *         return rc < 0 ? rc : kin_supervisor_delete_child(shop, "counter", KIN_NEVER);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Budget:  as kin_call
 * Returns: 0, -EBUSY when it runs, -EALREADY when it is being restarted, KIN_NOPROC when there is
 *          no such child or supervisor, KIN_TIMEOUT, KIN_CANCELLED, KIN_STOPPING, -EINVAL for a
 *          NULL or empty name, -ENOMEM, KIN_NOTASK
 */
KIN_API int kin_supervisor_delete_child(struct kin_addr sup, const char *name, kin_time deadline);

/**
 * kin_supervisor_which_children - say how each child is.
 * @sup:      a supervisor.
 * @buf:      receives the first of them, in the order of their starts; NULL with cap 0.
 * @cap:      how many it holds.
 * @deadline: until when to wait for the answer.
 *
 * A child whose first start is under way is shown as restarting. Names are kept for the program,
 * one copy of each: they can be read when the child, or the supervisor, is long gone. So children
 * that are listed over and over should not all have a new name: those of a template need none.
 *
 * Example:
 *     int print_children(struct kin_addr shop)
 *     {
 *         struct kin_child_info infos[32];
 *         ssize_t count = kin_supervisor_which_children(shop, infos, 32, KIN_NEVER);
 *         for (ssize_t i = 0; i < count && i < 32; i++)
 *             printf("%s: restarted %u times\n", infos[i].name, infos[i].restarts);
 *         return count < 0 ? (int)count : 0;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Budget:  as kin_call
 * Returns: how many children there are, KIN_NOPROC when there is no such supervisor, KIN_TIMEOUT,
 *          KIN_CANCELLED, KIN_STOPPING, -EINVAL for NULL with a cap, -ENOMEM, KIN_NOTASK
 */
KIN_API KIN_MUST_USE ssize_t kin_supervisor_which_children(struct kin_addr sup,
                                                           struct kin_child_info *buf, size_t cap,
                                                           kin_time deadline);

/**
 * kin_supervisor_count_children - count children by how they are.
 * @sup:      a supervisor.
 * @out:      receives how many there are, run, are being restarted, and are stopped.
 * @deadline: until when to wait for the answer.
 *
 * Example:
 *     bool is_busy(struct kin_addr sessions)
 *     {
 *         struct kin_child_counts counts;
 *         return kin_supervisor_count_children(sessions, &counts, KIN_NEVER) == 0 &&
 *                counts.active > 1000;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Budget:  as kin_call
 * Returns: 0, KIN_NOPROC when there is no such supervisor, KIN_TIMEOUT, KIN_CANCELLED,
 *          KIN_STOPPING, -EINVAL for NULL, -ENOMEM, KIN_NOTASK
 */
KIN_API KIN_MUST_USE int kin_supervisor_count_children(struct kin_addr sup,
                                                       struct kin_child_counts *out,
                                                       kin_time deadline);

KIN_END_DECLS

#endif
