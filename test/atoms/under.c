/* SPDX-License-Identifier: MIT */
/*
 * The scheduler and the system below the code under test: see under.h.
 */
#include "under.h"

#include "plat/plat.h"
#include "sched/entry.h"
#include "wait/duration.h"

#include <string.h>

#define THREADS 8u
#define FRAMES 4u /* of each kind, for each worker */
#define INDEX(name) ((unsigned)((name) & ((UINT64_C(1) << KIN__FRAME_INDEX_BITS) - 1)))

static struct kin__sched *sched;
static struct kin__task *tasks[THREADS];
static unsigned tasks_count;
static struct kin__frame *frames[KIN__FRAME_KINDS][THREADS * FRAMES + 1];
static unsigned frames_count[KIN__FRAME_KINDS];
static unsigned children[THREADS]; /* that each thread has spawned */
static kin__ai64 now;
static kin__a32 wakes;
static struct kin__stack stack; /* everybody's, as far as anybody looks */

/* By the index of a task's frame: 1 while the task is in a run queue. */
static kin__a32 runnable[THREADS * FRAMES + 1];

static const size_t bytes_of[KIN__FRAME_KINDS] = {
    KIN__FRAME_BYTES, KIN__SCOPE_BYTES, KIN__EXTRA_BYTES,  KIN__OBLIGATION_BYTES,
    KIN__WATCH_BYTES, KIN__REPLY_BYTES, KIN__LETTER_BYTES, KIN__LEASE_BYTES,
    KIN__SMALL_BYTES, KIN__LARGE_BYTES};

/* ---- plat ---- */

__thread void *kin__self;

/* One variable that the threads of a run have by turns: kin_atoms_local. Nobody watches it. */
__attribute__((noinline, no_sanitize("thread"))) void kin__self_set(void *self)
{
    kin__self = self;
}

int64_t kin__clock_now(void)
{
    return atomic_load_explicit(&now, memory_order_relaxed);
}

void under_set_now(int64_t value)
{
    atomic_store_explicit(&now, value, memory_order_relaxed);
}

static bool is_zero(void *word)
{
    return atomic_load_explicit((kin__a32 *)word, memory_order_relaxed) == 0;
}

void kin__lock_slow(kin__a32 *word)
{
    do
        kin_atoms_await(is_zero, word);
    while (atomic_exchange_explicit(word, 1, memory_order_acquire) != 0);
}

void kin__thread_yield(void)
{
    kin_atoms_spin();
}

uint64_t kin__thread_number(void)
{
    return kin_atoms_self();
}

bool kin__thread_is_core(void)
{
    return false;
}

void kin__membarrier(void)
{
    kin_atoms_fence_all();
}

void *kin__heap_alloc(size_t bytes)
{
    return kin_atoms_alloc(bytes);
}

void kin__heap_free(void *p)
{
    kin_atoms_free(p);
}

void *kin__heap_alloc_lines(size_t bytes)
{
    return kin_atoms_alloc(bytes);
}

void kin__heap_free_lines(void *p)
{
    kin_atoms_free(p);
}

/* A word that threads sleep on: wakes are counted, so that one that comes between the look and the
 * sleep is seen, as the kernel promises. */
static bool has_woken(void *seen)
{
    return atomic_load_explicit(&wakes, memory_order_relaxed) != *(uint32_t *)seen;
}

int kin__futex_wait(kin__a32 *word, uint32_t expected, int64_t timeout_ns)
{
    uint32_t seen = atomic_load_explicit(&wakes, memory_order_seq_cst);
    if (atomic_load_explicit(word, memory_order_seq_cst) != expected)
        return 0;
    if (timeout_ns < 0)
        kin_atoms_await(has_woken, &seen);
    else
        kin_atoms_spin(); /* it ends early; but who finds everything as it was sleeps on */
    return 0;
}

void kin__futex_wake(kin__a32 *word, int count)
{
    (void)word;
    (void)count;
    (void)atomic_fetch_add_explicit(&wakes, 1, memory_order_seq_cst);
}

_Noreturn void kin__check_failed(const char *condition, const char *clause, const char *file,
                                 int line, const char *function)
{
    (void)clause, (void)file, (void)line, (void)function;
    kin_atoms_assert(false, condition);
    __builtin_trap();
}

void kin__duration_look(struct kin__task *task, kin_time deadline, const char *what)
{
    (void)task, (void)deadline, (void)what; /* reports are somebody else's */
}

void kin__code_place(struct kin__text *text, uintptr_t pc)
{
    (void)text; /* nobody looks at the words */
    (void)pc;
}

void kin__code_entry(struct kin__text *text, uintptr_t fn)
{
    kin__code_place(text, fn);
}

int kin__plat_write(int fd, const char *text, size_t size)
{
    (void)fd, (void)text;
    return (int)size;
}

_Noreturn void kin__plat_abort(void)
{
    kin_atoms_assert(false, "nobody aborts");
    __builtin_trap();
}

/* ---- mem ---- */

struct kin__frame_step kin__frame_step = {1, KIN__FRAME_NEXT};

struct kin__frame *kin__frame_alloc_slow(struct kin__frame_cache *cache)
{
    (void)cache;
    return NULL; /* memory is used up */
}

void kin__frame_free_slow(struct kin__frame_cache *cache)
{
    (void)cache;
}

struct kin__frame *kin__frame_at(enum kin__frame_kind kind, uint64_t name)
{
    unsigned index = INDEX(name);
    return index > 0 && index <= frames_count[kind] ? frames[kind][index] : NULL;
}

/* For words that nobody looks at. */
uint64_t kin__frame_life(uint64_t name)
{
    (void)name;
    return 1;
}

void kin__frame_each(void (*visit)(struct kin__frame *frame, void *arg), void *arg)
{
    for (unsigned i = 1; i <= frames_count[KIN__FRAME_TASK]; i++)
        visit(frames[KIN__FRAME_TASK][i], arg);
}

static struct kin__frame *make_frame(enum kin__frame_kind kind)
{
    struct kin__frame *frame = kin_atoms_alloc(bytes_of[kind]);
    unsigned index = ++frames_count[kind];
    frames[kind][index] = frame;
    frame->name = (UINT64_C(1) << KIN__FRAME_INDEX_BITS) | index;
    return frame;
}

/* ---- sched ---- */

_Atomic(struct kin__sched *) kin__scheds[KIN__SCHEDS_MAX];

/* Found by its address: the name of a task may be another by the time that it is woken. */
static kin__a32 *queue_of(const struct kin__task *task)
{
    unsigned index = 1;
    while (index < frames_count[KIN__FRAME_TASK] && frames[KIN__FRAME_TASK][index] != &task->frame)
        index++;
    return &runnable[index];
}

void kin__schedule(struct kin__task *task)
{
    uint32_t was = atomic_exchange_explicit(queue_of(task), 1, memory_order_acq_rel);
    kin_atoms_assert(was == 0, "a task is put into a run queue once");
}

void kin__schedule_last(struct kin__task *task)
{
    kin__schedule(task);
}

static bool is_runnable(void *queue)
{
    return atomic_load_explicit((kin__a32 *)queue, memory_order_acquire) != 0;
}

/* Picks the task out of its run queue. */
static void wait_for_turn(struct kin__task *task)
{
    kin__a32 *queue = queue_of(task);
    kin_atoms_await(is_runnable, queue);
    atomic_store_explicit(queue, 0, memory_order_relaxed);
}

void kin__worker_park(struct kin__task *task)
{
    if (kin__word_is_ready(task))
        return;
    if (kin__word_commit(task))
        kin__schedule(task);
    wait_for_turn(task);
}

void kin__worker_yield(struct kin__task *task)
{
    (void)task;
}

struct kin__task *kin__worker_take_child(struct kin__worker *worker, const struct kin__scope *scope)
{
    (void)worker;
    (void)scope;
    return NULL; /* no stack is lent */
}

void kin__worker_run_here(struct kin__task *task, struct kin__task *child)
{
    (void)task;
    (void)child;
}

_Noreturn void kin__worker_escape(struct kin__task *task)
{
    (void)task;
    kin_atoms_assert(false, "no task escapes here");
    __builtin_trap();
}

/* Whoever sleeps here sleeps until it is woken: harnesses poll wheels themselves. */
__attribute__((weak)) void kin__idle_wake_all(struct kin__sched *woken)
{
    (void)woken;
}

void kin__entry_overflow(struct kin__task *task)
{
    (void)task;
    kin_atoms_assert(false, "no task overflows here");
}

int kin__op_slow(struct kin__task *task, unsigned what, kin_time deadline)
{
    (void)what;
    (void)deadline;
    task->slice = 1000;
    return 0;
}

/* ---- workers and tasks ---- */

struct kin__sched *under_sched(void)
{
    return sched;
}

struct kin__worker *under_worker(unsigned n)
{
    return &sched->workers[n];
}

struct kin__task *under_task(unsigned n)
{
    return tasks[n];
}

struct kin__task *under_self(void)
{
    return kin__task_self();
}

static struct kin__worker *become_worker(struct kin__task *task)
{
    struct kin__worker *worker = under_worker(kin_atoms_self());
    kin__self_set(worker);
    worker->current = task;
    return worker;
}

void under_begin(void)
{
    memset(children, 0, sizeof(children));
    memset(frames_count, 0, sizeof(frames_count));
    memset(runnable, 0, sizeof(runnable));
    tasks_count = 0;
    now = 1000;
    wakes = 0;
    sched = kin_atoms_alloc(sizeof(*sched));
    sched->workers = kin_atoms_alloc(THREADS * sizeof(*sched->workers));
    sched->workers_max = sched->workers_base = THREADS;
    sched->number = 1;
    sched->slice = 1000;
    sched->birth = (struct kin__birth){.slice = 1000, .runtime = 1};
    sched->hard.steal = true; /* new tasks take the way through kin__schedule_new_slow */
    kin__scheds[1] = sched;
    for (unsigned i = 0; i < THREADS; i++) {
        struct kin__worker *worker = under_worker(i);
        worker->sched = sched;
        kin__store_relaxed(&worker->runtime, 1); /* alone: not shared yet */
        worker->index = (uint16_t)i;
        worker->next_deadline = KIN_NEVER;
        for (unsigned kind = 0; kind < KIN__FRAME_KINDS; kind++)
            worker->blocks[kind].kind = kind;
    }
    kin_atoms_local(&kin__self);
}

void under_frames(enum kin__frame_kind kind, unsigned thread, unsigned count)
{
    struct kin__frame_cache *cache = &under_worker(thread)->blocks[kind];
    for (unsigned i = 0; i < count; i++) {
        struct kin__frame *frame = make_frame(kind);
        frame->free_next = cache->free;
        cache->free = frame;
        cache->count++;
    }
}

struct life {
    void (*fn)(void *arg);
    void *arg;
    struct kin__task *task;
};

static void live(void *arg)
{
    struct life *life = arg;
    (void)become_worker(life->task);
    life->fn(life->arg);
}

void under_spawn(const char *name, void (*fn)(void *arg), void *arg)
{
    struct kin__task *task = kin__task_of_frame(make_frame(KIN__FRAME_TASK));
    struct life *life = kin_atoms_alloc(sizeof(*life));
    kin__word_init(task);
    task->runtime = 1;
    task->slice = 1000;
    task->stack = &stack;
    tasks[tasks_count++] = task;
    *life = (struct life){fn, arg, task};
    (void)kin_atoms_spawn(name, live, life);
}

void under_spawn_outside(const char *name, void (*fn)(void *arg), void *arg)
{
    tasks[tasks_count++] = NULL;
    (void)kin_atoms_spawn(name, fn, arg);
}

/* What a worker does with a task that has not begun. */
static void run_task(void *arg)
{
    struct kin__task *task = arg;
    struct kin__worker *worker = become_worker(task);
    void *given = task->arg;
    task->stack = &stack;
    task->low = NULL;
    bool is_asked = kin__word_requests(task) & (KIN__CANCEL | KIN__KILL);
    int rc = is_asked ? KIN_CANCELLED : task->fn(given);
    if (!(task->flags & KIN__TASK_FAILED))
        task->status = rc;
    if (!sched->owner->child_done(task))
        return;
    kin__word_fini(task);
    kin__frame_free(&worker->blocks[KIN__FRAME_TASK], &task->frame);
}

void kin__schedule_new_slow(struct kin__task *task)
{
    static const char *const names[THREADS][FRAMES] = {
        {"begin/0", "begin/1", "begin/2", "begin/3"}, {"1/0", "1/1", "1/2", "1/3"},
        {"2/0", "2/1", "2/2", "2/3"},                 {"3/0", "3/1", "3/2", "3/3"},
        {"4/0", "4/1", "4/2", "4/3"},                 {"5/0", "5/1", "5/2", "5/3"},
        {"6/0", "6/1", "6/2", "6/3"},                 {"7/0", "7/1", "7/2", "7/3"}};
    unsigned self = kin_atoms_self();
    (void)kin_atoms_spawn(names[self][children[self]++], run_task, task);
}
