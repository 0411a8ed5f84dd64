/* SPDX-License-Identifier: MIT */
/*
 * Cleanups: what a task owes on every way out, the newest first, in order with its nurseries
 * [NCG-3] [NSM:6.3].
 *
 *     open o, defer a, open n, defer b, defer c         out: c, b, leave n, a, leave o
 *
 * A nursery knows how many cleanups its owner had when it opened it; those from there on are newer.
 * To let a cleanup remember its nursery instead is not enough: once that nursery is joined, nothing
 * tells whether the one that is innermost then was opened before the cleanup or after it.
 *
 *   the body returns     conclude runs what is left. Nurseries are left alone: one that a cleanup
 *                        does not join is a bug of the body, and the worker aborts [NSM-1].
 *   fail, panic,         unwind runs everything in place, while the frames of the body still stand;
 *   overflow             then the body is escaped from, and conclude finds nothing to run.
 *   release              a plain loop in the body.
 *   a C scope is left    what KIN_USING put down is taken back and run by the scope itself, unless
 *                        something has happened since: see height in task/cleanup.h.
 *
 * Unwind and conclude run the cleanups inside a call that can be escaped from. A cleanup that fails
 * or panics unwinds what it put down itself, down to its floor, and lands behind that call, which
 * is then made again for the rest: one call for all of them and one more for each that fails, so
 * that neither their number nor their failures cost stack. Release needs no such call: the body is
 * not over, and kin_fail there ends it.
 */
#include "scope/belongings.h"

#include "base/check.h"
#include "base/text.h"
#include "plat/plat.h"
#include "sched/entry.h"

#include <kin/cleanup.h>

#include <errno.h>
#include <string.h>

#define CLEANUPS_MAX (UINT32_C(1) << 28) /* of one task; a mark has to fit */
#define TEXT_BYTES 512u
#define NOT_PUT UINT64_MAX /* the height of a cleanup that was not put down */

/* ---- putting down ---- */

/* Room for one more, at the expense of the task. 0, -ENOMEM, KIN_BUDGET. */
static int grow(struct kin__cleanups *cleanups, struct kin__task *task)
{
    int rc = -ENOMEM;
    if (!cleanups->table) {
        cleanups->table = cleanups->first;
        cleanups->capacity = KIN__CLEANUPS_INLINE;
        return 0;
    }
    if (cleanups->capacity >= CLEANUPS_MAX)
        return -ENOMEM;
    size_t capacity = 2 * (size_t)cleanups->capacity;
    struct kin__cleanup *table = kin__alloc(task, capacity * sizeof(*table), &rc);
    if (!table)
        return rc;
    memcpy(table, cleanups->table, cleanups->count * sizeof(*table));
    kin__cleanup_free(cleanups);
    cleanups->table = table;
    cleanups->capacity = (uint32_t)capacity;
    return 0;
}

/* What a cleanup calls, of either kind. */
typedef void any_fn(void);

/* The newest place is empty. */
static inline void put_there(struct kin__cleanups *cleanups, any_fn *fn, void *arg,
                             enum kin__cleanup_kind kind)
{
    struct kin__cleanup *slot = &cleanups->table[(uint32_t)cleanups->height++];
    slot->any = fn;
    slot->arg = arg;
    slot->kind = kind;
    KIN__LAB_ACQUIRES(KIN__LAB_CLEANUP, arg, cleanups->count);
}

/* The long way: belongings are made, the table grows. */
static __attribute__((noinline)) int put_slow(struct kin__task *task, any_fn *fn, void *arg,
                                              enum kin__cleanup_kind kind)
{
    if (!fn)
        return -EINVAL;
    if (!task)
        return KIN_NOTASK;
    kin__entry_check_room(task); /* no point of the lab: it is the task's own affair */
    if (task->slice == 0) /* put has taken a step, and that was the last */
        task->slice = 1;
    kin__op_turn(task);
    struct kin__extra *extra = kin__extra_need(task);
    if (!extra)
        return -ENOMEM;
    struct kin__cleanups *cleanups = &extra->cleanups;
    int rc = cleanups->count == cleanups->capacity ? grow(cleanups, task) : 0;
    if (rc == 0)
        put_there(cleanups, fn, arg, kind);
    return rc;
}

/* One more cleanup of the running task. */
static inline int put(struct kin__task *task, any_fn *fn, void *arg, enum kin__cleanup_kind kind)
{
    if (KIN__LIKELY(fn && task && (task->flags & KIN__TASK_EXTRA))) {
        struct kin__cleanups *cleanups = &task->extra->cleanups;
        if (KIN__LIKELY(cleanups->count < cleanups->capacity && --task->slice != 0)) {
            put_there(cleanups, fn, arg, kind);
            return 0;
        }
    }
    return put_slow(task, fn, arg, kind);
}

bool kin__cleanup_plan(struct kin__task *child, void (*fn)(void *arg))
{
    struct kin__extra *extra = kin__extra_need(child);
    if (!extra)
        return false;
    struct kin__cleanups *cleanups = &extra->cleanups;
    (void)grow(cleanups, child); /* there is none yet: the first ones need no memory */
    cleanups->table[cleanups->count++] =
        (struct kin__cleanup){.fn = fn, .kind = KIN__CLEANUP_PLAIN};
    return true;
}

void kin__cleanup_unrun(struct kin__task *task)
{
    const struct kin__cleanups *cleanups = &task->extra->cleanups;
    struct kin__worker *worker = kin__worker_self();
    if (cleanups->count == 0)
        return;
    kin__worker_set_current(worker, NULL); /* nothing can park here */
    cleanups->table->fn(cleanups->table->arg);
    kin__worker_set_current(worker, task);
}

void kin__cleanup_free(struct kin__cleanups *cleanups)
{
    if (cleanups->table && cleanups->table != cleanups->first)
        kin__free(cleanups->table);
    cleanups->table = NULL;
    cleanups->capacity = 0;
}

/* ---- running ---- */

/* A cleanup did not do what it should have [N3002]. */
static void note_failure(struct kin__cleanups *cleanups, const void *culprit, int status)
{
    if (cleanups->failed++ == 0) {
        cleanups->culprit = culprit;
        cleanups->status = status;
    }
}

/* Runs the newest one, or drops its place if it has run. It is taken before it runs and keeps its
 * place until it is over, below what it puts down meanwhile. */
static inline void run_newest(struct kin__cleanups *cleanups)
{
    uint32_t place = cleanups->count - 1;
    struct kin__cleanup *slot = &cleanups->table[place];
    uint64_t kind = slot->kind;
    void *arg = slot->arg;
    if (kind != KIN__CLEANUP_TAKEN)
        KIN__LAB_LEAVES(KIN__LAB_CLEANUP, arg, place + 1);
    slot->kind = KIN__CLEANUP_TAKEN;
    if (KIN__LIKELY(kind == KIN__CLEANUP_PLAIN)) {
        slot->fn(arg);
    } else if (kind == KIN__CLEANUP_TRY) {
        int (*fn)(void *) = slot->try_fn; /* the table may move meanwhile */
        int rc = fn(arg);
        if (rc < 0)
            note_failure(cleanups, (const void *)(uintptr_t)fn, rc);
    }
    if (KIN__LIKELY(cleanups->count == place + 1))
        cleanups->height--;
}

/* How far out a task goes. */
struct way {
    struct kin__task *task;
    uint32_t floor; /* what is below stays */
    bool leaves;    /* nurseries too */
};

/* The nursery that is newer than every cleanup that is left, and hence above the floor; NULL: there
 * is none. */
static struct kin__scope *newest_nursery(const struct way *way)
{
    struct kin__scope *scope = kin__load_relaxed(&way->task->inner); /* relaxed: the task's own */
    if (!way->leaves || !scope || scope->cleanups < kin__extra_cleanups(way->task))
        return NULL;
    return scope;
}

static bool is_out(const struct way *way)
{
    return kin__extra_cleanups(way->task) <= way->floor && !newest_nursery(way);
}

/* Goes all the way, or as far as the first cleanup that fails. */
static int go(void *arg)
{
    const struct way *way = arg;
    struct kin__task *task = way->task;
    while (!is_out(way)) { /* ends: one fewer each time, unless they put down more for ever */
        struct kin__scope *scope = newest_nursery(way);
        if (scope) {
            /* relaxed: the owner's own; another value means that the handle was opened twice */
            KIN__CHECK(kin__load_relaxed(&scope->handle->scope) == scope, "NSM-4: opened twice");
            KIN__LAB_UNWINDS(KIN__LAB_NURSERY, scope, 0);
            kin_nursery_leave_((struct kin_nursery *)(void *)scope->handle);
            continue;
        }
        struct kin__cleanups *cleanups = &task->extra->cleanups;
        if (way->leaves && cleanups->table[cleanups->count - 1].kind != KIN__CLEANUP_TAKEN)
            KIN__LAB_UNWINDS(KIN__LAB_CLEANUP, cleanups->table[cleanups->count - 1].arg,
                             cleanups->count);
        cleanups->floor = cleanups->count;
        task->masks = 0; /* of code that is not returned to */
        task->flags &= (uint16_t)~KIN__TASK_DEADLINE;
        run_newest(cleanups);
    }
    return 0;
}

/* Runs the cleanups above the floor, and ends the nurseries there if it leaves them; whatever the
 * cleanups do, this returns. */
static void go_out(struct kin__task *task, bool leaves)
{
    struct kin__cleanups *cleanups =
        task->flags & KIN__TASK_EXTRA ? &task->extra->cleanups : NULL;
    struct way way = {task, cleanups ? cleanups->floor : 0, leaves};
    void *escape = task->escape;
    while (!is_out(&way)) { /* ends: as in go */
        /* An escape leaves a sanitizer's books about this flow in disorder: it gets another. */
        struct kin__context outside = task->ctx;
        kin__context_enter(&task->ctx, &outside);
        (void)kin__call_raw(&task->escape, go, &way);
        kin__context_leave(&task->ctx, &outside);
        task->ctx = outside;
    }
    task->escape = escape;
    if (cleanups)
        cleanups->floor = way.floor;
}

void kin__unwind(struct kin__task *task)
{
    go_out(task, true);
}

void kin__cleanup_run(struct kin__task *task, void (*fn)(void *arg), void *arg)
{
    struct kin__cleanups *cleanups = &task->extra->cleanups;
    KIN__ASSERT(cleanups->count == 0 && cleanups->floor == 0, "NCG-3");
    if (!cleanups->table)
        (void)grow(cleanups, task); /* the first ones need no memory */
    put_there(cleanups, (any_fn *)fn, arg, KIN__CLEANUP_PLAIN);
    go_out(task, false);
}

bool kin__cleanup_fail(struct kin__task *task, int status)
{
    if (!(task->flags & KIN__TASK_EXTRA) || task->extra->cleanups.floor == 0)
        return false;
    struct kin__cleanups *cleanups = &task->extra->cleanups;
    /* its place is emptied but still says what it was */
    const struct kin__cleanup *running = &cleanups->table[cleanups->floor - 1];
    note_failure(cleanups, (const void *)(uintptr_t)running->fn, status);
    return true;
}

/* ---- the end of a task ---- */

/* Says which cleanups failed; as a cleanup itself, because it may run the user's code. */
static void report_failures(void *arg)
{
    struct kin__task *task = arg;
    const struct kin__cleanups *cleanups = &task->extra->cleanups;
    char memory[TEXT_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__task_say(&text, task);
    if (cleanups->failed == 1)
        kin__text_str(&text, ": a cleanup failed, ");
    else
        kin__text_printf(&text, ": %u cleanups failed, the first, ", cleanups->failed);
    kin__code_entry(&text, (uintptr_t)cleanups->culprit);
    kin__text_str(&text, ", with ");
    kin__report_status(&text, cleanups->status);
    const char *said = kin__words_said(task, KIN_CLEANUP);
    if (*said)
        kin__text_printf(&text, ": %s", said);
    kin__report(kin__task_sched(task), KIN_CLEANUP, kin__task_id(task), memory);
}

/* Runs what is left to run, and destroys the local values. */
static void empty(struct kin__task *task)
{
    go_out(task, false);
    kin__local_destroy(task);
}

int kin__conclude(struct kin__task *task, int rc)
{
    struct kin__extra *extra = task->extra;
#if KIN__ASAN
    if (task->flags & KIN__TASK_SPARE) /* an overflow has led to a spare stack and back */
        kin__context_move(&task->ctx, task->stack->low, task->stack->base);
#endif
    empty(task);
    if (extra->cleanups.failed)
        kin__cleanup_run(task, report_failures, task);
    size_t leaked = kin__obligation_leak(task, true);
    empty(task); /* what the reports brought about */
    leaked += kin__obligation_leak(task, false);
    rc = task->flags & KIN__TASK_FAILED ? task->status : kin__cancel_cause(task, rc);
    if (rc >= 0 && extra->cleanups.failed)
        rc = KIN_CLEANUP; /* [N3002] */
    else if (rc >= 0 && leaked)
        rc = KIN_LEAKED;
    kin__words_conclude(task, rc);
    kin__budget_settle(task);
    kin__extra_discard(task);
    return rc;
}

void kin__extra_discard(struct kin__task *task)
{
    kin__words_free(task->extra->words);
    kin__cleanup_free(&task->extra->cleanups);
    kin__local_free(&task->extra->locals);
    while (task->extra->kept) /* ends: one fewer each time */
        kin__more_free(task->extra->kept);
    kin__extra_drop(task);
}

/* ---- the public face ---- */

int kin_defer(void (*fn)(void *arg), void *arg)
{
    return put(kin__task_self(), (any_fn *)fn, arg, KIN__CLEANUP_PLAIN);
}

int kin_defer_try(int (*fn)(void *arg), void *arg)
{
    return put(kin__task_self(), (any_fn *)fn, arg, KIN__CLEANUP_TRY);
}

/* A mark is 1 + the number of cleanups, so that none is NULL. */
void *kin_scope_mark(void)
{
    struct kin__task *task = kin__task_self();
    return task ? (void *)((uintptr_t)kin__extra_cleanups(task) + 1) : NULL;
}

void kin_scope_release(void *mark)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task || !mark || !(task->flags & KIN__TASK_EXTRA)))
        return;
    struct kin__cleanups *cleanups = &task->extra->cleanups;
    uintptr_t to = (uintptr_t)mark - 1;
    if (to < cleanups->floor)
        to = cleanups->floor;
    if (to >= cleanups->count)
        return;
    struct kin__scope *scope = kin__load_relaxed(&task->inner); /* relaxed: the task's own */
    if (KIN__UNLIKELY(scope && scope->cleanups > to))
        kin__misuse(task, "kin_scope_release", "nurseries opened since are joined before", "NCG-3");
    cleanups->height += KIN__HEIGHT_EVENT;
    while (to < cleanups->count) /* ends: one fewer each time, unless they put down more for ever */
        run_newest(cleanups);
}

struct kin_using_at_ kin_using_enter_(void (*fn)(void *arg), void *arg)
{
    static uint64_t nowhere; /* no height is equal to it, of those that are handed out */
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(put(task, (any_fn *)fn, arg, KIN__CLEANUP_PLAIN) < 0))
        return (struct kin_using_at_){&nowhere, NOT_PUT};
    struct kin__cleanups *cleanups = &task->extra->cleanups;
#ifdef KIN__LAB
    return (struct kin_using_at_){&nowhere, cleanups->height}; /* the lab is told */
#else
    return (struct kin_using_at_){&cleanups->height, cleanups->height};
#endif
}

/* Something has happened since. It may be the newest nevertheless, and then the caller runs it; or
 * have been released with an older mark, and its place be another's. */
int kin_using_leave_(uint64_t height, void (*fn)(void *arg), void *arg)
{
    struct kin__task *task = kin__task_self();
    if (height == NOT_PUT || !task)
        return 1;
    struct kin__cleanups *cleanups = &task->extra->cleanups;
    uint32_t place = (uint32_t)height - 1;
    const struct kin__cleanup *slot = &cleanups->table[place];
    struct kin__scope *scope = kin__load_relaxed(&task->inner); /* relaxed: the task's own */
    if (cleanups->count == place + 1 && slot->fn == fn && slot->arg == arg &&
        (!scope || scope->cleanups <= place)) {
        KIN__LAB_LEAVES(KIN__LAB_CLEANUP, arg, place + 1);
        cleanups->height--;
        return 1;
    }
    kin_scope_release((void *)((uintptr_t)place + 1));
    return 0;
}
