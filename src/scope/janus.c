/* SPDX-License-Identifier: MIT */
/*
 * The exports of SPEC-021: the functions of <kin/janus.h>, on top of kin's own.
 *
 *     creating thread --request--> proxy, the first task of the runtime --> nurseries, tasks
 *                     <--answer---
 *
 * A task calls what it needs by itself. The thread that created a scheduler is none, and a nursery
 * belongs to a task: so the first task of the runtime stands in for it. It waits for requests and
 * does what it is asked, one after the other, while the thread sleeps; the nurseries of the thread
 * are the proxy's, innermost first, as those of any task. Only spawns need no proxy: any thread may
 * spawn into a nursery that it knows to be open, and nobody but this thread can end it.
 *
 * Schedulers are found by the number of the thread that created them, which is never used twice. A
 * call of the creator counts as a user of its scheduler; a shutdown takes the scheduler out of the
 * list and waits until there is none, so that afterwards nobody else has a pointer to it.
 *
 * The pointer that stands for a nursery is the name of its scope, which is never used twice either:
 * an old one is recognised without being followed. Its storage is a block that its owner keeps
 * among its belongings, so that it is freed also if the owner ends by a failure and never comes
 * back.
 */
#include "scope/scope.h"

#include "park/park.h"
#include "sched/entry.h"
#include "scope/belongings.h"
#include "scope/budget.h"
#include "scope/capability.h"
#include "task/extra.h"
#include "wait/event.h"

#include <kin/janus.h>

#include <errno.h>
#include <string.h>

#define THREAD_STACK_BYTES ((size_t)256 * 1024)

enum { STARTING, RUNNING, FAILED }; /* state of a scheduler */

/* Something that the proxy does for a thread. */
struct request {
    void (*fn)(struct request *request); /* NULL: end everything */
    void *nursery;
    uint64_t task;
    struct kin_budget budget;
    int64_t result;
};

struct janus {
    /* under the list's lock */
    struct janus *next;
    kin__a32 users;   /* calls of the creator that are under way; futex */

    /* constant once it is in the list */
    uint64_t creator;
    struct kin_config config;
    uint32_t lacks; /* capabilities that the creator lacks */
    struct kin__thread thread; /* runs the runtime; its first worker */
    struct kin__task *proxy;

    kin__a32 state;    /* futex: the creator waits for RUNNING or FAILED */
    kin__a32 answered; /* futex: the request is done */
    struct kin__lock lock;    /* rank WAIT; the rest */
    struct request *request;  /* one that the proxy has not taken yet; there is one at a time */
    struct kin__waitq waiting; /* the proxy */
};

/* The schedulers that are not shut down, the newest first. */
static struct kin__lock list_lock; /* rank LEAF */
static struct janus *list;

/* Nurseries of this header have this very name. */
static const char nursery_name[] = "janus";

/* ---- numbers of another width ---- */

static struct kin_budget widen(Budget budget)
{
    struct kin_budget wide = {budget.ops, budget.memory, budget.spawn_count, budget.channel_ops,
                              budget.syscalls};
    if (budget.ops == UINT32_MAX)
        wide.ops = UINT64_MAX;
    if (budget.memory == SIZE_MAX)
        wide.memory = UINT64_MAX;
    if (budget.spawn_count == UINT16_MAX)
        wide.spawns = UINT32_MAX;
    if (budget.channel_ops == UINT16_MAX)
        wide.channel_ops = UINT32_MAX;
    if (budget.syscalls == UINT16_MAX)
        wide.syscalls = UINT32_MAX;
    return wide;
}

static uint16_t saturate(uint32_t amount)
{
    return amount < UINT16_MAX ? (uint16_t)amount : UINT16_MAX;
}

/* [C1] */
static Budget narrow(const struct kin_budget *budget)
{
    return (Budget){budget->ops < UINT32_MAX ? (uint32_t)budget->ops : UINT32_MAX,
                    budget->memory < SIZE_MAX ? (size_t)budget->memory : SIZE_MAX,
                    saturate(budget->spawns), saturate(budget->channel_ops),
                    saturate(budget->syscalls)};
}

static kin_task_fn *function_of(void *func)
{
    kin_task_fn *fn;
    _Static_assert(sizeof(fn) == sizeof(func), "pointers to functions are pointers");
    memcpy(&fn, &func, sizeof(fn)); /* which ISO C does not let a cast do */
    return fn;
}

/* ---- what a task does: for itself, or as a proxy ---- */

/* The nursery that a scope is of. */
static struct kin_nursery *nursery_of(const struct kin__scope *scope)
{
    return (struct kin_nursery *)(void *)scope->handle;
}

static struct kin__scope *innermost_of(const struct kin__task *task)
{
    /* pairs with the release in open, for the thread whose proxy the task is */
    return kin__load_acquire(&task->inner);
}

static void *name_of(const struct kin__scope *scope)
{
    /* relaxed: constant while it is open, and its owner asks */
    return (void *)(uintptr_t)kin__load_relaxed(&scope->frame.name);
}

/* Where the storage of a nursery begins in a block that is kept. */
#define STORAGE_AT ((sizeof(struct kin__more) + 15) / 16 * 16)
_Static_assert(_Alignof(struct kin_nursery) == 16, "as blocks of the heap are");

/* What is in that storage. */
struct storage {
    struct kin_nursery nursery;
    /* its owner waits for it, or for one of its tasks, and recharges nobody */
    struct kin_event is_ending;
};

static struct kin_event *ending_of(const struct kin__scope *scope)
{
    return &((struct storage *)(void *)scope->handle)->is_ending;
}

static void *begin_here(struct kin__task *task)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    kin__entry_check(task);
    options.name = nursery_name;
    options.on_exhausted = KIN_EXHAUSTED_FAIL;
    int rc; /* nobody pays: there is one for each nursery, which is paid for beyond a few */
    struct kin__more *block = kin__alloc(NULL, STORAGE_AT + sizeof(struct storage), &rc);
    if (!block)
        return NULL;
    struct kin_nursery *nursery = (struct kin_nursery *)(void *)((char *)block + STORAGE_AT);
    if (!kin__more_keep(task, block)) {
        kin__free(block);
        return NULL;
    }
    if (kin_nursery_open(nursery, &options) < 0) {
        kin__more_free(block);
        return NULL;
    }
    return name_of(innermost_of(task));
}

/* What a nursery's end is called here. */
static int code_of(const struct kin_outcome *how)
{
    if (how->severity == KIN_SEV_OK)
        return JANUS_OK;
    if (how->severity == KIN_SEV_PANIC)
        return JANUS_PANICKED;
    if (how->status == KIN_BUDGET)
        return JANUS_BUDGET;
    if (how->severity == KIN_SEV_CANCELLED || how->status == KIN_CANCELLED)
        return JANUS_CANCELLED;
    return how->status >= JANUS_BUDGET ? -EIO : how->status;
}

static int end_here(struct kin__task *task, const void *name)
{
    struct kin__scope *innermost = innermost_of(task), *scope = innermost;
    struct kin_outcome how;
    kin__entry_check(task);
    while (scope && name_of(scope) != name)
        scope = scope->outer;
    if (!scope || scope->name != nursery_name)
        return KIN_STALE;
    if (scope != innermost)
        return -EBUSY;
    struct kin_nursery *nursery = nursery_of(scope);
    kin_event_set(ending_of(scope));
    kin_ignore(kin_nursery_join(nursery, &how));
    kin__handle_empty(kin__handle_of(nursery));
    kin__more_free((struct kin__more *)(void *)((char *)nursery - STORAGE_AT));
    return code_of(&how);
}

/* Whether a scope that the caller has open has this child, over or not. */
static bool has_child(struct kin__scope *scope, uint64_t id)
{
    struct kin__task *child = kin__task_find(id);
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    /* relaxed: as long as its scope is locked a task that is in it keeps its name and its scope */
    bool is_there = child && kin__load_relaxed(&child->scope) == scope &&
                    kin__load_relaxed(&child->frame.name) == id; /* relaxed: as above */
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return is_there;
}

/* A join that no cancellation ends: the child is cancelled with its nursery, and what is returned
 * is never the caller's own cancellation. It costs nothing: a proxy is to serve when the budget of
 * its runtime is used up too. */
static int64_t join_here(struct kin__task *task, uint64_t id)
{
    struct kin__ender ender = {.task = id};
    kin__entry_check(task);
    struct kin__scope *scope = innermost_of(task);
    while (scope && !has_child(scope, id))
        scope = scope->outer;
    if (!scope)
        return kin__task_find(id) ? -EPERM : KIN_STALE;
    struct kin_event *ending = scope->name == nursery_name ? ending_of(scope) : NULL;
    if (ending)
        kin_event_set(ending); /* meanwhile the owner recharges nobody */
    while (kin__wait(&kin__task_waitable, &ender, NULL, KIN__WAIT_DEAF) < 0) {
        /* ends: only a kill wakes such a wait early, and a task is killed once */
    }
    if (ending)
        kin_event_reset(ending);
    KIN__ASSERT(ender.is_known, "SCHED:15.2.2: the nursery of the task is open");
    return ender.how.severity == KIN_SEV_OK ? ender.how.value : ender.how.status;
}

static void do_begin(struct request *request)
{
    request->nursery = begin_here(kin__task_self());
}

static void do_end(struct request *request)
{
    request->result = end_here(kin__task_self(), request->nursery);
}

static void do_join(struct request *request)
{
    request->result = join_here(kin__task_self(), request->task);
}

static void do_left(struct request *request)
{
    const struct kin__scope *scope = innermost_of(kin__task_self());
    request->budget = scope ? kin_nursery_budget_left(nursery_of(scope)) : kin_budget_left();
}

/* The proxy holds every capability; a nursery without a pool of its own shares that of the
 * runtime. */
static void do_recharge(struct request *request)
{
    const struct kin__scope *scope = innermost_of(kin__task_self());
    struct kin_nursery none;
    if (scope) {
        request->result = kin_nursery_recharge(nursery_of(scope), request->budget);
        return;
    }
    request->result = kin_nursery_open(&none, NULL);
    if (request->result < 0)
        return;
    request->result = kin_nursery_recharge(&none, request->budget);
    kin_ignore(kin_nursery_join(&none, NULL));
}

/* ---- the proxy ---- */

static bool request_try(void *object, void *io, int *status)
{
    struct janus *janus = object;
    kin__lock_take(&janus->lock, KIN__RANK_WAIT);
    struct request *request = janus->request;
    janus->request = NULL;
    kin__lock_give(&janus->lock, KIN__RANK_WAIT);
    *(struct request **)io = request;
    *status = 0;
    return request != NULL;
}

static bool request_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct janus *janus = object;
    (void)status;
    kin__lock_take(&janus->lock, KIN__RANK_WAIT);
    bool links = !janus->request;
    if (links)
        kin__waitq_push(&janus->waiting, waiter);
    kin__lock_give(&janus->lock, KIN__RANK_WAIT);
    return links;
}

static void request_unpublish(void *object, struct kin__waiter *waiter)
{
    struct janus *janus = object;
    kin__lock_take(&janus->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    kin__lock_give(&janus->lock, KIN__RANK_WAIT);
}

static const struct kin__waitable request_waitable = {"request", request_try, request_publish,
                                                      request_unpublish};

/* Stores a value that a thread waits for. */
static void tell(kin__a32 *word, uint32_t value)
{
    kin__store_release(word, value); /* pairs with the acquire in await */
    kin__futex_wake(word, 1);
}

/* Sleeps as long as the word has a value; what it has then. */
static uint32_t await(kin__a32 *word, uint32_t value)
{
    uint32_t now;
    while ((now = kin__load_acquire(word)) == value) /* pairs with the release in tell */
        (void)kin__futex_wait(word, value, -1);
    return now;
}

/* The first task of the runtime. */
static int serve(void *arg)
{
    struct janus *janus = arg;
    struct kin__task *self = kin__task_self();
    struct kin__scope *scope;
    janus->proxy = self;
    tell(&janus->state, RUNNING);
    for (;;) { /* ends: with the shutdown */
        struct request *request = NULL;
        while (kin__wait(&request_waitable, janus, &request, KIN__WAIT_DEAF) < 0) {
            /* ends: a failing task of one of its nurseries asks the owner to stop, which the proxy
             * is too deaf to hear; only a kill wakes it early, once */
        }
        if (!request->fn)
            break;
        request->fn(request);
        tell(&janus->answered, 1);
    }
    while ((scope = innermost_of(self))) /* ends: one fewer each time */
        (void)end_here(self, name_of(scope));
    return 0;
}

static void run(void *arg)
{
    struct janus *janus = arg;
    kin__thread_set_lacks(janus->lacks);
    int rc = kin_run(&janus->config, serve, janus);
    /* relaxed: only this thread and its runtime, which has ended, ever write it */
    if (rc < 0 && kin__load_relaxed(&janus->state) == STARTING)
        tell(&janus->state, FAILED);
}

/* ---- the creator ---- */

/* Hands a request to the proxy. */
static void post(struct janus *janus, struct request *request)
{
    struct kin__wakes wakes = {0};
    struct kin__claimed claimed;
    kin__lock_take(&janus->lock, KIN__RANK_WAIT);
    if (kin__waitq_claim(&janus->waiting, &claimed)) {
        *(struct request **)claimed.io = request;
        kin__wakes_add(&wakes, &claimed, 0);
    } else {
        janus->request = request;
    }
    kin__lock_give(&janus->lock, KIN__RANK_WAIT);
    kin__wakes_run(&wakes);
}

/* The scheduler that the calling thread created last, with a user more; NULL: there is none. */
static struct janus *enter(void)
{
    uint64_t thread = kin__thread_number();
    kin__lock_take(&list_lock, KIN__RANK_LEAF);
    struct janus *janus = list;
    while (janus && janus->creator != thread)
        janus = janus->next;
    if (janus) /* relaxed: under the lock */
        (void)kin__add_relaxed(&janus->users, 1u);
    kin__lock_give(&list_lock, KIN__RANK_LEAF);
    return janus;
}

static void leave(struct janus *janus)
{
    kin__lock_take(&list_lock, KIN__RANK_LEAF); /* whoever waits frees it after the lock is given */
    /* relaxed: under the lock */
    tell(&janus->users, kin__load_relaxed(&janus->users) - 1);
    kin__lock_give(&list_lock, KIN__RANK_LEAF);
}

/* Has a request done for the calling thread. False: it has no scheduler. */
static bool ask(struct request *request)
{
    struct janus *janus = enter();
    if (!janus)
        return false;
    kin__store_relaxed(&janus->answered, 0u); /* relaxed: published with the request */
    post(janus, request);
    (void)await(&janus->answered, 0);
    leave(janus);
    return true;
}

/* Takes a scheduler out of the list. False: it is not in it. */
static bool unlist(struct janus *janus)
{
    kin__lock_take(&list_lock, KIN__RANK_LEAF);
    struct janus **link = &list;
    while (*link && *link != janus)
        link = &(*link)->next;
    bool is_listed = *link != NULL;
    if (is_listed)
        *link = janus->next;
    kin__lock_give(&list_lock, KIN__RANK_LEAF);
    return is_listed;
}

/* Spawns into the innermost nursery of a task, which may be another thread's proxy. */
static int spawn_into(const struct kin__task *owner, const struct kin_spawn_options *options,
                      kin_task_fn *fn, void *arg, struct kin_task_ref *out, const void *site)
{
    const struct kin__scope *scope = innermost_of(owner);
    return scope ? kin__spawn_at(nursery_of(scope), options, fn, arg, out, site) : KIN_NOSCOPE;
}

static int spawn(struct kin_spawn_options *options, void *func, void *arg,
                 struct kin_task_ref *out, const void *site)
{
    struct kin__task *task = kin__task_self();
    if (!func)
        return -EINVAL;
    if (task) {
        options->recharge_limit = kin__task_sched(task)->config.budget;
        return spawn_into(task, options, function_of(func), arg, out, site);
    }
    struct janus *janus = enter();
    if (!janus)
        return kin__thread_is_core() ? KIN_UNSUPPORTED : KIN_NOSCOPE; /* [N1001] */
    options->recharge_limit = janus->config.budget;
    int rc = spawn_into(janus->proxy, options, function_of(func), arg, out, site);
    leave(janus);
    return rc;
}

/* ---- the public face: schedulers ---- */

void *janus_scheduler_create(SchedulerConfig config)
{
    if (kin__worker_self() || kin__thread_is_core())
        return NULL;
    struct janus *janus = kin__heap_alloc(sizeof(*janus));
    if (!janus)
        return NULL;
    janus->creator = kin__thread_number();
    janus->config = (struct kin_config)KIN_CONFIG_INIT;
    janus->config.workers = config.worker_count;
    janus->config.seed = config.deterministic_seed;
    janus->config.budget = widen(config.default_budget);
    janus->lacks = kin__thread_lacks(); /* a creator that works for a task has no more than that */
    if (kin__thread_start(&janus->thread, run, janus, THREAD_STACK_BYTES, "kin-janus") < 0) {
        kin__heap_free(janus);
        return NULL;
    }
    if (await(&janus->state, STARTING) == FAILED) {
        kin__thread_join(&janus->thread);
        kin__heap_free(janus);
        return NULL;
    }
    kin__lock_take(&list_lock, KIN__RANK_LEAF);
    janus->next = list;
    list = janus;
    kin__lock_give(&list_lock, KIN__RANK_LEAF);
    return janus;
}

void janus_scheduler_shutdown(void *scheduler)
{
    struct janus *janus = scheduler;
    struct request end = {.fn = NULL};
    uint32_t users;
    if (kin__worker_self())
        kin__misuse(kin__task_self(), "janus_scheduler_shutdown",
                    "a scheduler is shut down from outside of its tasks", "SCHED:12.1.1");
    if (!janus || !unlist(janus))
        return;
    while ((users = kin__load_acquire(&janus->users))) /* pairs with the release in leave */
        (void)await(&janus->users, users);
    kin__lock_take(&list_lock, KIN__RANK_LEAF); /* the last one has left it */
    kin__lock_give(&list_lock, KIN__RANK_LEAF);
    post(janus, &end);
    kin__thread_join(&janus->thread);
    kin__heap_free(janus);
}

int janus_scheduler_spawn(void *func, void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    return spawn(&options, func, arg, NULL, __builtin_return_address(0));
}

int janus_scheduler_yield(void)
{
    return kin_yield();
}

/* ---- budgets ---- */

Budget janus_budget_get_current(void)
{
    struct request request = {.fn = do_left};
    if (kin__task_self())
        request.budget = kin_budget_left();
    else
        (void)ask(&request);
    return narrow(&request.budget);
}

int janus_budget_recharge(Budget amount)
{
    struct request request = {.fn = do_recharge, .budget = widen(amount)};
    if (kin__task_self())
        return kin_budget_recharge_self(request.budget);
    return ask(&request) ? (int)request.result : kin__no_task();
}

/* ---- nurseries ---- */

void *janus_nursery_begin(void)
{
    struct request request = {.fn = do_begin};
    struct kin__task *task = kin__task_self();
    if (task)
        return begin_here(task);
    return ask(&request) ? request.nursery : NULL;
}

int janus_nursery_end(void *nursery)
{
    struct request request = {.fn = do_end, .nursery = nursery};
    struct kin__task *task = kin__task_self();
    if (!nursery)
        return -EINVAL;
    if (task)
        return end_here(task, nursery);
    return ask(&request) ? (int)request.result : kin__no_task();
}

/* ---- opcodes ---- */

/* A check without a result: a task that may not go on ends here. One of its own nurseries being
 * cancelled does not end it: it hears of that when it ends the nursery. */
static void go_on(int rc)
{
    struct kin__task *task = KIN__UNLIKELY(rc < 0) ? kin__task_self() : NULL;
    if (!task || (rc == KIN_CANCELLED && !(kin__word_requests(task) & (KIN__CANCEL | KIN__KILL))))
        return;
    kin_fail(rc, "at a check of the runtime");
}

/* The budget of the running task is used up: it waits until somebody recharges it [SCHED:3.2.2], or
 * until the owner of its nursery waits for somebody there: nobody else would ever do so. */
static int await_recharge(struct kin__task *task)
{
    const struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
    if (!(task->flags & KIN__TASK_METERED) || scope->name != nursery_name)
        return KIN_BUDGET;
    struct kin__case ending = {.ops = &kin__event_waitable, .object = ending_of(scope)};
    return kin__account_wait(&task->extra->account, KIN__PART_OPS, &ending, KIN_NEVER);
}

void janus_rt_budget_check(void)
{
    int rc = kin_checkpoint();
    struct kin__task *task = KIN__UNLIKELY(rc == KIN_BUDGET) ? kin__task_self() : NULL;
    if (task && kin_budget_exhausted() == KIN_BUDGET_OPS)
        rc = await_recharge(task);
    go_on(rc);
}

/* Takes up to cost operations out of an account, and out of what it draws from. */
static void use_up_to(struct kin__account *account, uint64_t cost)
{
    static const struct kin__amounts nothing;
    struct kin__wakes wakes = {0};
    uint64_t left = kin__account_left(account).of[KIN__PART_OPS];
    if (left < cost && account->refills) {
        struct kin__amounts more = {{cost - left, 0, 0, 0, 0}};
        kin__purse_draw_some(account->source, &more);
        kin__account_add(account, &more, &nothing, &wakes);
        kin__wakes_run(&wakes);
    }
    do { /* ends: as soon as no nursery of this task takes from the same account meanwhile */
        left = kin__account_left(account).of[KIN__PART_OPS];
    } while (!kin__account_use(account, KIN__PART_OPS, left < cost ? left : cost));
}

void janus_rt_budget_decrement(uint32_t cost)
{
    struct kin__task *task = kin__task_self();
    if (!task)
        return;
    kin__entry_check(task);
    if (task->flags & KIN__TASK_METERED)
        use_up_to(&task->extra->account, cost);
    /* and of the turn: at least one is left, which the next operation takes */
    task->slice = cost < task->slice ? (uint16_t)(task->slice - cost) : 1;
}

void janus_rt_yield(void)
{
    go_on(kin_yield());
}

uint64_t janus_rt_task_create(void *func, void *arg, Budget budget)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_task_ref ref = {0};
    options.budget = widen(budget);
    int rc = spawn(&options, func, arg, &ref, __builtin_return_address(0));
    return rc < 0 ? 0 : ref.id;
}

int64_t janus_rt_task_join(uint64_t id)
{
    struct request request = {.fn = do_join, .task = id};
    struct kin__task *task = kin__task_self();
    if (id == 0)
        return -EINVAL;
    if (task)
        return join_here(task, id);
    return ask(&request) ? request.result : kin__no_task();
}
