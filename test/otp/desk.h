/* SPDX-License-Identifier: MIT */
/*
 * What the black-box tests of servers, supervisors, monitors, links and names share: a diary in
 * which everybody writes down what happens, and a server that does whatever it is asked.
 *
 *     desk      a server whose requests and messages carry the function that it is to run
 *     diary     words in the order in which they were written, such as "+ cast:1 cast:2 stop:0"
 *
 * Public headers only. Waits are bounded by the alarm of the test, never by a clock.
 */
#ifndef KIN_TEST_DESK_H
#define KIN_TEST_DESK_H

#include "api/in_runtime.h"

#include <stdarg.h>

/* Marks what not every test needs. */
#define SPARE __attribute__((unused)) static

/* Declares a nursery in which the failure of one child leaves the others alone. */
#define HOUSE(n) KIN_NURSERY(n, .on_error = KIN_COLLECT)

/* Lets others run, and in the lab time pass, which stands still there while anybody can run. */
SPARE void linger(void)
{
    kin_ignore(kin_yield());
    if (kin_in_lab())
        kin_ignore(kin_sleep(kin_after(KIN_MS(1))));
}

/* Lets others run until *flag is at least value. */
SPARE void await_flag(_Atomic int *flag, int value)
{
    while (atomic_load(flag) < value) /* ends: or the alarm does */
        linger();
}

/* ---- the diary ---- */

struct diary {
    atomic_flag busy;
    _Atomic int words;
    size_t length;
    char text[8192];
};

/* Adds a word. */
__attribute__((format(printf, 2, 3))) SPARE void jot(struct diary *diary, const char *fmt, ...)
{
    char word[64];
    va_list values;
    va_start(values, fmt);
    vsnprintf(word, sizeof word, fmt, values);
    va_end(values);
    while (atomic_flag_test_and_set(&diary->busy)) { /* ends: the holder copies one word */
    }
    size_t length = strlen(word);
    EXPECT(diary->length + length + 2 < sizeof diary->text);
    if (diary->length > 0)
        diary->text[diary->length++] = ' ';
    memcpy(diary->text + diary->length, word, length + 1);
    diary->length += length;
    atomic_flag_clear(&diary->busy);
    atomic_fetch_add(&diary->words, 1);
}

/* The whole text, as it is now. */
SPARE const char *text_of(struct diary *diary, char copy[8192])
{
    while (atomic_flag_test_and_set(&diary->busy)) { /* ends: the holder copies one word */
    }
    memcpy(copy, diary->text, diary->length + 1);
    atomic_flag_clear(&diary->busy);
    return copy;
}

#define EXPECT_DIARY(diary, expected)                                                              \
    do {                                                                                           \
        char *copy_ = malloc(8192);                                                                \
        EXPECT_STR(text_of(diary, copy_), expected);                                               \
        free(copy_);                                                                               \
    } while (0)

/* Whether the diary has that word. */
SPARE bool has_word(struct diary *diary, const char *word)
{
    char *copy = malloc(8192);
    size_t length = strlen(word);
    bool found = false;
    text_of(diary, copy);
    for (const char *at = copy; !found && (at = strstr(at, word)); at++)
        found = (at == copy || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0');
    free(copy);
    return found;
}

/* Lets others run until there are so many words. */
SPARE void await_words(struct diary *diary, int count)
{
    await_flag(&diary->words, count);
}

/* Lets others run until the word is there. */
SPARE void await_word(struct diary *diary, const char *word)
{
    while (!has_word(diary, word)) /* ends: or the alarm does */
        linger();
}

SPARE void clear_diary(struct diary *diary)
{
    memset(diary, 0, sizeof *diary);
    atomic_flag_clear(&diary->busy);
}

/* ---- the desk ---- */

struct desk;
struct task_at_desk;
/* What a desk is asked to do; reply is NULL in a cast. */
typedef int desk_fn(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply);

struct task_at_desk {
    desk_fn *fn;
    long n;
    void *p;
};

/* How a desk is to be: the argument of its start. All zero: quiet, without a diary. */
struct desk_plan {
    struct diary *diary;
    const char *label; /* written at the start, "+label", and at the end, "-label" */
    int (*on_start)(struct desk *desk);
    int (*on_info)(struct desk *desk, const struct kin_info *info);
    int (*on_continue)(struct desk *desk);
    void (*on_stop)(struct desk *desk, const struct kin_outcome *why);
    void *p;
};

/* Its state. */
struct desk {
    struct kin_server *server;
    struct desk_plan plan;
    long sum;
    struct kin_reply *held;
};

SPARE int desk_on_start(struct kin_server *s, void *state, const void *arg)
{
    struct desk *desk = state;
    EXPECT_EQ(desk->sum, 0);
    desk->server = s;
    desk->plan = *(const struct desk_plan *)arg;
    if (desk->plan.label)
        jot(desk->plan.diary, "+%s", desk->plan.label);
    return desk->plan.on_start ? desk->plan.on_start(desk) : 0;
}

SPARE int desk_on_call(struct kin_server *s, void *state, const void *req, size_t size,
                       struct kin_reply *reply)
{
    struct task_at_desk job;
    (void)s;
    EXPECT_EQ(size, sizeof job);
    EXPECT(reply != NULL);
    memcpy(&job, req, sizeof job);
    return job.fn(state, &job, reply);
}

SPARE int desk_on_cast(struct kin_server *s, void *state, const void *msg, size_t size)
{
    struct task_at_desk job;
    (void)s;
    EXPECT_EQ(size, sizeof job);
    memcpy(&job, msg, sizeof job);
    return job.fn(state, &job, NULL);
}

SPARE int desk_on_info(struct kin_server *s, void *state, const struct kin_info *info)
{
    struct desk *desk = state;
    (void)s;
    return desk->plan.on_info ? desk->plan.on_info(desk, info) : 0;
}

SPARE int desk_on_continue(struct kin_server *s, void *state)
{
    struct desk *desk = state;
    (void)s;
    return desk->plan.on_continue ? desk->plan.on_continue(desk) : 0;
}

SPARE void desk_on_stop(struct kin_server *s, void *state, const struct kin_outcome *why)
{
    struct desk *desk = state;
    (void)s;
    if (desk->plan.label)
        jot(desk->plan.diary, "-%s", desk->plan.label);
    if (desk->plan.on_stop)
        desk->plan.on_stop(desk, why);
}

__attribute__((unused)) static const struct kin_server_ops desk_ops = {
    desk_on_start, desk_on_call, desk_on_cast, desk_on_info, desk_on_continue, desk_on_stop};

/* The options of a desk. */
#define DESK_OPTIONS(name_)                                                                        \
    struct kin_server_options name_ = KIN_SERVER_OPTIONS_INIT;                                     \
    name_.state_size = sizeof(struct desk)

/* What kin_server_start answers. */
SPARE int try_open_desk(struct kin_nursery *n, const struct desk_plan *plan,
                        const struct kin_server_options *options, struct kin_addr *out)
{
    DESK_OPTIONS(plain);
    static const struct desk_plan quiet;
    return kin_server_start(n, &desk_ops, options ? options : &plain, plan ? plan : &quiet, out);
}

/* Starts one, which must go well. */
SPARE struct kin_addr open_desk(struct kin_nursery *n, const struct desk_plan *plan,
                                const struct kin_server_options *options)
{
    struct kin_addr addr = {0, 0};
    EXPECT_EQ(try_open_desk(n, plan, options, &addr), 0);
    EXPECT_EQ(addr.node, 0);
    EXPECT_NE(addr.id, 0);
    return addr;
}

/* What a call returns: below 0 its status, else the number that it was answered with. */
SPARE int ask_by(struct kin_addr desk, desk_fn *fn, long n, void *p, kin_time deadline)
{
    struct task_at_desk job = {fn, n, p};
    int answer = -1;
    size_t size = 77;
    int rc = kin_call(desk, &job, sizeof job, &answer, sizeof answer, &size, deadline);
    if (rc < 0)
        return rc;
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(size, sizeof answer);
    EXPECT_GE(answer, 0);
    return answer;
}

SPARE int ask(struct kin_addr desk, desk_fn *fn, long n, void *p)
{
    return ask_by(desk, fn, n, p, KIN_NEVER);
}

/* What a cast returns. */
SPARE int send_by(struct kin_addr desk, desk_fn *fn, long n, void *p, kin_time deadline)
{
    struct task_at_desk job = {fn, n, p};
    return kin_cast(desk, &job, sizeof job, deadline);
}

SPARE int send_to(struct kin_addr desk, desk_fn *fn, long n, void *p)
{
    return send_by(desk, fn, n, p, KIN_NEVER);
}

/* ---- what desks are asked ---- */

/* Answers with a number, which must go well. */
SPARE void answer(struct kin_reply *reply, int number)
{
    if (reply)
        EXPECT_EQ(kin_reply_send(reply, &number, sizeof number), 0);
}

/* Adds n to the sum, answers with it. */
SPARE int do_add(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    desk->sum += job->n;
    answer(reply, (int)desk->sum);
    return 0;
}

/* Writes n into the diary: "call:n", "cast:n". */
SPARE int do_jot(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    jot(desk->plan.diary, "%s:%ld", reply ? "call" : "cast", job->n);
    answer(reply, 0);
    return 0;
}

/* Answers, then returns n. */
SPARE int do_return(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    answer(reply, 0);
    return (int)job->n;
}

/* Returns n without an answer. */
SPARE int do_return_only(struct desk *desk, const struct task_at_desk *job,
                         struct kin_reply *reply)
{
    (void)desk;
    (void)reply;
    return (int)job->n;
}

/* Crashes with n. */
SPARE int do_fail(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    (void)reply;
    kin_fail((int)job->n, "as asked");
}

SPARE int do_panic(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    (void)job;
    (void)reply;
    kin_panic("as asked");
}

/* Stops itself with n, without an answer. */
SPARE int do_stop_self(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)reply;
    EXPECT_EQ(kin_server_stop_self(desk->server, (int)job->n), 0);
    return 0;
}

/* Somewhere to stand until the gate opens. */
struct gate {
    struct kin_event reached, open;
};

/* Waits at the gate p behind a mask, then answers 0. */
SPARE int do_wait(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct gate *gate = job->p;
    (void)desk;
    kin_event_set(&gate->reached);
    kin_mask();
    EXPECT_EQ(kin_event_wait(&gate->open, KIN_NEVER), 0);
    kin_unmask();
    answer(reply, 0);
    return 0;
}

/* Makes a desk busy until its gate is opened. */
SPARE void keep_busy(struct kin_addr desk, struct gate *gate)
{
    memset(gate, 0, sizeof *gate);
    EXPECT_EQ(send_to(desk, do_wait, 0, gate), 0);
    EXPECT_EQ(kin_event_wait(&gate->reached, KIN_NEVER), 0);
}

/* Keeps the reply for later: in the desk, and in *p. */
SPARE int do_hold(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    EXPECT_EQ(kin_reply_move(reply, &desk->held), 0);
    if (job->p)
        atomic_store((_Atomic(struct kin_reply *) *)job->p, desk->held);
    return 0;
}

/* Tells who runs the desk. */
SPARE int do_name_task(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    *(struct kin_task_ref *)job->p = kin_self();
    answer(reply, 0);
    return 0;
}

/* ---- callers as tasks ---- */

/* A call made by a task of its own, and what came of it. */
struct caller {
    struct kin_addr to;
    desk_fn *fn;
    long n;
    void *p;
    kin_time deadline; /* 0: KIN_NEVER */
    _Atomic int began, over;
    int rc;
    _Atomic(struct kin_reply *) held; /* of hold_a_call */
};

SPARE int caller_main(void *arg)
{
    struct caller *caller = arg;
    atomic_store(&caller->began, 1);
    caller->rc = ask_by(caller->to, caller->fn, caller->n, caller->p,
                        caller->deadline ? caller->deadline : KIN_NEVER);
    atomic_store(&caller->over, 1);
    return 0;
}

/* The same with a cast. */
SPARE int caster_main(void *arg)
{
    struct caller *caller = arg;
    atomic_store(&caller->began, 1);
    caller->rc = send_by(caller->to, caller->fn, caller->n, caller->p,
                         caller->deadline ? caller->deadline : KIN_NEVER);
    atomic_store(&caller->over, 1);
    return 0;
}

/* Spawns somebody who calls that. */
SPARE void spawn_caller(struct kin_nursery *n, struct caller *caller, struct kin_addr to,
                        desk_fn *fn, long number)
{
    memset(caller, 0, sizeof *caller);
    caller->to = to;
    caller->fn = fn;
    caller->n = number;
    caller->p = &caller->held;
    EXPECT_EQ(kin_spawn(n, caller_main, caller), 0);
}

/* Spawns somebody whose call the desk keeps, and waits until it has it. */
SPARE struct kin_reply *hold_a_call(struct kin_nursery *n, struct caller *caller,
                                    struct kin_addr to)
{
    spawn_caller(n, caller, to, do_hold, 0);
    while (!atomic_load(&caller->held)) /* ends: the call is made and taken */
        linger();
    return atomic_load(&caller->held);
}

/* Lets others run for a while: enough for whoever is runnable to get where it parks. Nothing that a
 * test expects may hang on it; it only makes the interesting order likely. */
SPARE void let_others_run(void)
{
    for (int i = 0; i < 20; i++)
        kin_ignore(kin_yield());
}

/* ---- ends ---- */

/* How somebody ended, waited for. */
SPARE struct kin_info end_of(struct kin_monitor_ref watch)
{
    struct kin_info info;
    memset(&info, 0, sizeof info);
    EXPECT_EQ(kin_wait_down(watch, &info, KIN_NEVER), 0);
    EXPECT_EQ(info.kind, KIN_INFO_DOWN);
    EXPECT_EQ(info.u.down.ref.id, watch.id);
    return info;
}

SPARE struct kin_monitor_ref watch(struct kin_addr who)
{
    struct kin_monitor_ref ref = {0};
    EXPECT_EQ(kin_monitor(who, &ref), 0);
    EXPECT_NE(ref.id, 0);
    return ref;
}

/* Waits for the end of what is watched, which must be this one. */
#define EXPECT_END(ref, reason_, status_)                                                          \
    do {                                                                                           \
        struct kin_info end_ = end_of(ref);                                                        \
        EXPECT_EQ(end_.u.down.reason, reason_);                                                    \
        EXPECT_EQ(end_.u.down.status, status_);                                                    \
    } while (0)

/* Waits until somebody is over, whichever way. */
SPARE void await_end(struct kin_addr who)
{
    end_of(watch(who));
}

/* Stops a server with 0 and waits for it. */
SPARE void close_desk(struct kin_addr desk)
{
    EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), 0);
}

/* Ends whatever is still in the nursery. */
SPARE void close_house(struct kin_nursery *n)
{
    kin_nursery_cancel(n, 0);
    int rc = kin_nursery_join(n, NULL);
    EXPECT(rc <= 0);
}

#endif
