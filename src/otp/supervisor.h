/* SPDX-License-Identifier: MIT */
/*
 * A supervisor from the inside: its children, and what is done with one of them.
 *
 *     supervisor.c   decides: what an end means, plans, the shutdown
 *     sup_child.c    acts: starts a child on a task of its own, adopts it, asks it to stop
 *     sup_table.c    records of children, and how they are found by name and by task
 *     sup_admin.c    the calls of others
 *     sup_start.c    kin_supervisor_start
 *     sup_event.c    what others hear of it: reports, and the hook of the options
 *
 * Everything here belongs to the supervisor's task, but for what is said to be otherwise.
 */
#ifndef KIN_OTP_SUPERVISOR_H
#define KIN_OTP_SUPERVISOR_H

#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"
#include "otp/intern.h"
#include "otp/plan.h"
#include "otp/server.h"

#include <kin/nursery.h>
#include <kin/supervisor.h>

/* Where a child stands. */
enum kin__child_state {
    KIN__CHILD_REST,     /* there is no task */
    KIN__CHILD_STARTING, /* its start function runs, on the task child->task */
    KIN__CHILD_RUNNING   /* it is the task child->task, and is watched */
};

/* Why a child that rests does, if nobody has wanted it since. */
enum kin__child_rest {
    KIN__REST_FRESH,      /* it never was started */
    KIN__REST_DONE,       /* it ended well, or declined: a plan starts it again with the others */
    KIN__REST_LOST,       /* it panicked or was cancelled: a plan leaves it alone [SINV-2] */
    KIN__REST_TERMINATED, /* somebody asked for that: likewise */
    KIN__REST_FAILED,     /* a start by hand failed, or it failed and is not restarted: likewise */
    KIN__REST_BLOCKED     /* it was to be started, and somebody it depends on was down: it is
                             started when that one is, and a plan tries again */
};

/* How far the shutdown of a child has come [D10]. */
enum kin__child_asked {
    KIN__CHILD_UNASKED,
    KIN__CHILD_CANCELLED, /* and its shutdown time runs */
    KIN__CHILD_KILLED,    /* by a cancel that cannot be masked, and the time to the report runs */
    KIN__CHILD_REPORTED
};

struct kin__sup;

/* A call of somebody, on its way to the supervisor and while it waits for the answer. */
struct kin__order {
    struct kin__list link; /* in waiters of a child */
    enum kin__order_kind {
        KIN__ORDER_START,
        KIN__ORDER_TERMINATE,
        KIN__ORDER_TERMINATE_ADDR,
        KIN__ORDER_RESTART,
        KIN__ORDER_DELETE,
        KIN__ORDER_WHICH,
        KIN__ORDER_COUNT
    } kind;
    struct kin_reply *reply;  /* moved, once it waits */
    struct kin__kid *child; /* of START: the record, made by the caller */
    struct kin_addr addr;
    size_t cap;
    char name[];
};

/* What the supervisor answers. */
struct kin__answer {
    struct kin_addr addr;
    struct kin_child_counts counts;
    struct kin_child_info *infos; /* of WHICH: the caller's to free */
};

struct kin__kid {
    struct kin__sup *sup;
    struct kin__list order; /* in sup->order; the rank says where */
    uint64_t rank;
    size_t index; /* among the children that the supervisor was started with */
    struct kin__kid *name_next, *task_next; /* in the tables */
    struct kin__heap_node alarm; /* in sup->alarms: the next step of the shutdown, or a restart */

    /* the spec; the strings and the argument are in the same block */
    const char *name;        /* NULL: it has none; the text of */
    struct kin__name *named; /* a count on it */
    kin_child_start_fn *start;
    const void *arg;
    size_t arg_size;
    const char **depends_on; /* names, NULL at the end; "" for one that ended well and has gone */
    int64_t shutdown; /* 0: as its kind says */
    struct kin_backoff backoff;
    struct kin__history history; /* of its own restarts, if has_limit */
    bool has_limit;
    enum kin_restart restart;
    bool is_significant;

    enum kin__child_state state;
    enum kin__child_rest rest;
    enum kin__child_asked asked;
    bool is_wanted;     /* it is to be started again: now, when its alarm comes, or by the plan */
    bool is_terminated; /* somebody asked for its end */
    bool is_blind;      /* it could not be watched: its end is looked for by the alarm */
    bool is_new;        /* by start_child: it leaves no trace if this start fails */
    bool is_late;       /* it ended before the supervisor had started: in sup->late */
    bool is_quiet;      /* how it ended: a supervisor that gave up and asks for nothing */
    struct kin__list late;
    uint64_t task; /* the number of the task that starts it, or of itself; 0: there is none */
    struct kin_monitor_ref ref;
    struct kin_addr addr;   /* where it is, or was last */
    struct kin__sup *below; /* what it is, if it is a supervisor; a reference */
    unsigned restarts;
    int status; /* how it ended last, */
    enum kin_severity severity;
    bool has_not_started; /* or why it could not be started */
    const void *site;     /* the code that has spawned it; NULL: not known */
    char *text;           /* what it said when it failed; NULL: nothing */
    int64_t delay;       /* of the last backoff */
    kin_time started_at; /* when it was last adopted */
    struct kin__order *order_start; /* who waits for its start */
    struct kin__list waiters;       /* struct kin__order: who waits for its end */

    /* written by the task that starts it, before it posts the note */
    struct kin__note note;
    int start_status;
    bool start_panicked;
    struct kin_addr start_addr;
};

enum kin__sup_mode {
    KIN__SUP_STARTING, /* the children of the options are being started */
    KIN__SUP_RUNNING,
    KIN__SUP_CLOSING /* children are being stopped; the end is near */
};

enum kin__sup_phase {
    KIN__PLAN_NONE,
    KIN__PLAN_STOPS,  /* the children of the plan are stopped, the last one first */
    KIN__PLAN_WAITS,  /* until the alarm of the plan */
    KIN__PLAN_STARTS  /* they are started, the first one first */
};

struct kin__sup {
    kin__a32 references; /* see sup_start.c */
    kin__a64 failed;      /* the child whose start failed the start; UINT64_MAX: none. Written by
                             the supervisor, read by its starter */
    kin__a32 is_quiet;    /* it gave up and asks for nothing; read by the supervisor above */
    uint64_t id;          /* its task */
    struct kin_server *server;
    struct kin__sched *sched;
    struct kin_nursery nursery; /* of the children and of the tasks that start them */
    struct kin__list below_next;
    /* supervisors that were started in the nursery and not yet adopted; under the nursery's lock */
    struct kin__list below;

    enum kin_strategy strategy;
    enum kin_escalation escalation;
    enum kin_auto_shutdown auto_shutdown;
    enum kin_child_stopped on_child_stopped;
    unsigned max_children;
    struct kin_backoff reset_backoff;
    struct kin__kid *template_; /* of KIN_TEMPLATE, if it was given */
    struct kin__history history;
    int64_t reset_delay; /* of the last reset, */
    kin_time reset_at;   /* and when that was over */
    struct kin__rng rng;
    struct kin__hash_key key;

    struct kin__list order; /* struct kin__kid, in the order of their starts */
    uint64_t rank_last;
    struct kin__kid **by_name, **by_task; /* tables of mask + 1 chains each */
    size_t mask;
    struct kin__heap alarms; /* room for all children and the plan */
    uint64_t alarm_seq;
    size_t specs, active, running, restarting; /* how many children: all, not at rest, as shown */
    size_t significant; /* how many that are significant run or are restarting */
    size_t dependent;   /* how many children depend on somebody */
    bool has_blocked;   /* some may be at rest because of whom they depend on */

    enum kin__sup_mode mode;
    bool has_started;      /* it has been RUNNING */
    int status;            /* CLOSING: what the supervisor ends with */
    bool is_hurried;       /* CLOSING: everybody has been asked at once */
    struct kin__list *cursor; /* STARTING, CLOSING, and the plan: how far that has come in order */
    enum kin__sup_phase phase;
    struct kin__plan plan;
    kin_time plan_at; /* not before then does it start anybody */
    struct kin__heap_node plan_alarm;
    struct kin__list late; /* STARTING: children that ended meanwhile, the first one first */

    /* what others hear */
    kin_supervisor_event_fn *on_event;
    void *event_arg;
    kin_time reports_at; /* when the window of reports began, in which there were */
    unsigned reports;    /* so many; */
    uint64_t left_out;   /* and those that were one too many since the last one */
};

static inline struct kin__kid *kin__child_of(struct kin__list *link)
{
    return KIN__CONTAINER_OF(link, struct kin__kid, order);
}

/* What makes a server a supervisor. */
extern const struct kin__server_extra kin__sup_extra;
extern const struct kin_server_ops kin__sup_ops;
extern const char kin__sup_nursery_name[]; /* by which a supervisor's nursery is known */

void kin__sup_unref(struct kin__sup *sup);

/* ---- sup_table.c ---- */

/* Whether a spec makes sense for such a supervisor. */
bool kin__child_spec_is_valid(const struct kin_child_spec *spec, enum kin_strategy strategy,
                              enum kin_auto_shutdown auto_shutdown);
/* A record with copies of what the spec points at; of no supervisor yet, and at the expense of the
 * running task until it is unmade. spec may lack a start. NULL: *rc is -ENOMEM or KIN_BUDGET. */
struct kin__kid *kin__child_make(const struct kin_child_spec *spec, int *rc);
/* The same with a name that somebody has already, or NULL, instead of the spec's. */
struct kin__kid *kin__child_make_named(const struct kin_child_spec *spec, struct kin__name *name,
                                       int *rc);
void kin__child_unmake(struct kin__kid *child);
/* Its spec again, with the strings of the record. */
struct kin_child_spec kin__child_spec(const struct kin__kid *child);
/* Room for one child more in the tables and for its alarm; false: no memory. */
bool kin__sup_reserve(struct kin__sup *sup);
/* The child is the supervisor's, as the last of the order. There is room. */
void kin__child_enter(struct kin__sup *sup, struct kin__kid *child);
/* It rests, and is the supervisor's no more: gives it back. */
void kin__child_remove(struct kin__kid *child);
struct kin__kid *kin__child_by_name(struct kin__sup *sup, const char *name);
/* A child that runs as this task, and is watched by this monitor; 0: by any. */
struct kin__kid *kin__child_by_task(struct kin__sup *sup, uint64_t task, uint64_t ref);
void kin__child_task_enter(struct kin__kid *child);
void kin__child_task_leave(struct kin__kid *child);
/* Changes where it stands, and what is counted of that. */
void kin__child_set(struct kin__kid *child, enum kin__child_state state, bool is_wanted);
enum kin_child_state kin__child_shown(const struct kin__kid *child);
/* The name of a child that it depends on and that stays down; NULL: there is none. */
const char *kin__child_lacks(const struct kin__kid *child);
void kin__sup_alarm_set(struct kin__sup *sup, struct kin__heap_node *alarm, kin_time at);
void kin__sup_alarm_off(struct kin__sup *sup, struct kin__heap_node *alarm);

/* ---- sup_child.c ---- */

/* Starts it; its note comes, whatever happens. It rests. */
void kin__child_start(struct kin__kid *child);
/* The start function has returned an address: the child is watched from now on. False: it cannot
 * be, and was asked to stop; the alarm looks for its end. */
bool kin__child_adopt(struct kin__kid *child);
/* Asks it to stop, or the task that starts it. The first step of the ladder [SUP-CANCEL-CHILD]. */
void kin__child_stop(struct kin__kid *child);
/* The time of the last step is over: the next one. */
void kin__child_hurry(struct kin__kid *child);
/* From the second step of the ladder to the report, in ns; tests make it shorter before they run
 * anything. */
extern int64_t kin__sup_report_ns;
/* Of one that could not be watched: whether it is over. If not, the alarm comes again. */
bool kin__child_is_gone(struct kin__kid *child);
/* Its task is over: nothing is kept of it but how it ended. */
void kin__child_rested(struct kin__kid *child);

/* Half of every part that has a limit. */
struct kin_budget kin__half_of(const struct kin_budget *left);

/* ---- supervisor.c ---- */

/* Somebody wants its end. True: it rests, and may be gone. False: its waiters are answered when it
 * is over. */
bool kin__sup_terminate(struct kin__kid *child);
/* What a callback ends with: goes on with whatever is under way, and sets the alarm. */
int kin__sup_go_on(struct kin__sup *sup);

/* ---- sup_event.c ---- */

/* Tells the hook, and whoever gets reports, what was decided about a child. delay: until it is
 * started again; other: of KIN_EVENT_BLOCKED, the name of whom it waits for. */
void kin__sup_tell(struct kin__kid *child, enum kin_supervisor_event_kind kind, int64_t delay,
                   const char *other);
/* By the task that starts the child: its start function has returned what means nothing. */
void kin__child_tell_start(const struct kin__kid *child, int rc);
/* The supervisor is about to end: how many reports were left out. */
void kin__sup_tell_rest(struct kin__sup *sup);
/* Keeps what the task of the child has left: how it explained its end. It is over. */
void kin__child_keep_text(struct kin__kid *child);
/* The same of a start that failed; by the task that starts it. */
void kin__child_keep_words(struct kin__kid *child, const char *words);

/* ---- sup_admin.c ---- */

int kin__sup_request(struct kin_server *s, void *state, const void *req, size_t size,
                     struct kin_reply *reply);
/* Its start is over with this: 0, or why not. Whoever waits for it is told. */
void kin__child_answer_start(struct kin__kid *child, int status);
/* It is over: whoever waits for that is told. */
void kin__child_answer_end(struct kin__kid *child);

#endif
