/* SPDX-License-Identifier: MIT */
/*
 * Goal: the table of cleanups grows and goes, floors and places are right while cleanups run, and
 * nothing of a task that is over stays behind.
 * Method: white box: the belongings of running tasks are looked at from inside their cleanups;
 * calls at every depth of the stack; floating-point control words.
 */
#include "api/in_runtime.h"

#include <kin/cleanup.h>
#include <kin/local.h>
#include <kin/obligation.h>

#include "plat/plat.h"
#include "sched/blocks.h"
#include "sched/extra.h"
#include "sched/worker.h"
#include "scope/scope.h"

static struct kin__cleanups *mine(void)
{
    struct kin__task *task = kin__task_self();

    EXPECT(task->flags & KIN__TASK_EXTRA);
    return &task->extra->cleanups;
}

static void nothing(void *arg)
{
    (void)arg;
}

/* ---- the table ---- */

static int fill_the_table(void *arg)
{
    void *mark = kin_scope_mark();
    (void)arg;
    EXPECT(!(kin__task_self()->flags & KIN__TASK_EXTRA)); /* a mark needs nothing */
    for (uint32_t i = 0; i < 1000; i++) {
        EXPECT_EQ(kin_defer(nothing, NULL), 0);
        EXPECT_EQ(mine()->count, i + 1);
        EXPECT_EQ(mine()->table == mine()->first, i < KIN__CLEANUPS_INLINE);
    }
    uint32_t capacity = mine()->capacity;
    kin_scope_release(mark);
    EXPECT_EQ(mine()->count, 0);
    EXPECT_EQ(mine()->capacity, capacity); /* kept for the next scope */
    for (uint32_t i = 0; i < 1000; i++)
        EXPECT_EQ(kin_defer(nothing, NULL), 0);
    EXPECT_EQ(mine()->capacity, capacity);
    return 0;
}

KIN_TEST(the_table_grows_beyond_the_first_few, "NCG-3")
{
    EXPECT_EQ(run_reporting(1, fill_the_table, NULL, NULL), 0);
}

/* ---- heights ---- */

static int take_back(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_defer(nothing, NULL), 0);
    uint64_t height = mine()->height;
    for (int i = 0; i < 10; i++) {
        KIN_USING(nothing, NULL);
        EXPECT_EQ(mine()->height, height + 1);
    }
    EXPECT_EQ(mine()->height, height); /* nothing has happened */
    {
        KIN_USING(nothing, NULL);
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(mine()->height, height + 1 + KIN__HEIGHT_EVENT);
    }
    EXPECT_EQ(mine()->height, height + KIN__HEIGHT_EVENT);
    kin_scope_release(kin_scope_mark());
    EXPECT_EQ(mine()->height, height + KIN__HEIGHT_EVENT); /* there was nothing to release */
    void *mark = kin_scope_mark();
    EXPECT_EQ(kin_defer(nothing, NULL), 0);
    kin_scope_release(mark);
    EXPECT_EQ(mine()->height, height + 2 * KIN__HEIGHT_EVENT);
    return 0;
}

KIN_TEST(a_scope_takes_back_what_it_put_down_if_nothing_has_happened, "NCG-3")
{
    EXPECT_EQ(run_reporting(1, take_back, NULL, NULL), 0);
}

/* ---- floors ---- */

struct floors {
    uint32_t place; /* where the cleanup stands in the table */
    int ran;
};

static void look_at_floor(void *arg)
{
    struct floors *floors = arg;

    EXPECT_EQ(mine()->floor, floors->place + 1);
    EXPECT_EQ(mine()->count, floors->place + 1); /* it keeps its place */
    EXPECT_EQ(mine()->table[floors->place].kind, KIN__CLEANUP_TAKEN);
    floors->ran++;
}

static void look_and_fail(void *arg)
{
    struct floors *floors = arg;
    struct floors inner = {floors->place + 1, 0};

    look_at_floor(arg);
    EXPECT_EQ(kin_defer(look_at_floor, &inner), 0);
    KIN_NURSERY(n);
    /* relaxed: the task's own */
    EXPECT_EQ(kin__load_relaxed(&kin__task_self()->inner)->cleanups, floors->place + 2);
    kin_fail(-EIO, "with a place");
}

static int put_down_floors(void *arg)
{
    struct floors *floors = arg;

    for (uint32_t i = 0; i < 10; i++) {
        floors[i] = (struct floors){i, 0};
        EXPECT_EQ(kin_defer(i % 3 ? look_at_floor : look_and_fail, &floors[i]), 0);
    }
    EXPECT_EQ(mine()->floor, 0);
    return 0;
}

static int put_down_floors_and_fail(void *arg)
{
    EXPECT_EQ(put_down_floors(arg), 0);
    kin_fail(-EPERM, "with floors");
}

KIN_TEST(a_cleanup_keeps_its_place_while_it_runs, "NCG-3")
{
    static struct floors floors[10];

    EXPECT_EQ(run_reporting(1, put_down_floors, floors, NULL), KIN_CLEANUP);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(floors[i].ran, 1);
    EXPECT_EQ(run_reporting(1, put_down_floors_and_fail, floors, NULL), -EPERM);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(floors[i].ran, 1);
}

/* ---- nothing stays behind ---- */

static void destroy(void *value)
{
    (void)value;
}

static const struct kin_local_key keys[8] = {{destroy, true}, {destroy, true}, {NULL, true},
                                             {destroy, false}, {NULL, false}, {destroy, true},
                                             {destroy, true}, {destroy, true}};

static int have_everything(void *arg)
{
    static char value;
    struct kin_obligation *o;
    int how = *(int *)arg;

    for (int i = 0; i < 12; i++)
        EXPECT_EQ(kin_defer(nothing, NULL), 0);
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(kin_local_set(&keys[i], &value), 0);
    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_USER, &o), 0);
    if (how == 1)
        kin_fail(-EIO, "with everything");
    if (how == 2)
        kin_panic("with everything");
    if (how == 3)
        return 0;
    return kin_obligation_commit(o);
}

static int live_and_die(void *arg)
{
    static int hows[4] = {0, 1, 2, 3};
    static char value;
    (void)arg;
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(kin_local_set(&keys[i], &value), 0);
    for (int round = 0; round < 2000; round++) {
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        EXPECT_EQ(kin_spawn(&n, have_everything, &hows[round % 4]), 0);
        EXPECT_EQ(kin_spawn(&n, have_everything, &hows[0]), 0);
        if (round % 5 == 0)
            kin_nursery_cancel(&n, 0); /* neither begins */
        kin_ignore(kin_nursery_join(&n, NULL));
    }
    return 0;
}

/* The highest index of any frame of a kind that was ever handed out, about. */
static uint64_t index_of_fresh(enum kin__frame_kind kind)
{
    struct kin__frame *frames[4 * KIN__FRAME_BATCH];
    uint64_t highest = 0;

    for (unsigned i = 0; i < 4 * KIN__FRAME_BATCH; i++) {
        frames[i] = kin__block_take(kind);
        EXPECT(frames[i] != NULL);
        /* alone: ours */
        uint64_t name = kin__load_relaxed(&frames[i]->name);
        uint64_t index = name & ((UINT64_C(1) << KIN__FRAME_INDEX_BITS) - 1);
        highest = index > highest ? index : highest;
    }
    for (unsigned i = 0; i < 4 * KIN__FRAME_BATCH; i++)
        kin__block_give(kind, frames[i]);
    return highest;
}

KIN_TEST(tasks_that_are_over_leave_nothing_behind, "")
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        EXPECT_EQ(run_reporting(workers, live_and_die, NULL, NULL), 0);
        EXPECT_LT(index_of_fresh(KIN__FRAME_EXTRA), 1500);
        EXPECT_LT(index_of_fresh(KIN__FRAME_OBLIGATION), 1500);
    }
}

/* ---- floating-point control words ---- */

#if defined(__x86_64__) && !defined(KIN_SWITCH_GENERIC) /* which leaves them as they are */
#define MXCSR_ROUND_UP 0x4000u
#define MXCSR_ROUNDING 0x6000u

static uint32_t rounding(void)
{
    uint32_t mxcsr;

    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    return mxcsr & MXCSR_ROUNDING;
}

static void round_up(void)
{
    uint32_t mxcsr;

    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    mxcsr = (mxcsr & ~MXCSR_ROUNDING) | MXCSR_ROUND_UP;
    __asm__ volatile("ldmxcsr %0" ::"m"(mxcsr));
}

static void expect_default_and_change(void *arg)
{
    EXPECT_EQ(rounding(), 0);
    ++*(int *)arg;
    round_up();
    if (*(int *)arg % 2)
        kin_fail(-EIO, "rounding up");
}

static int round_up_and_end(void *arg)
{
    int *ran = arg;

    EXPECT_EQ(rounding(), 0);
    EXPECT_EQ(kin_defer(expect_default_and_change, ran), 0);
    /* The others run behind the one that changed them, in the same call. */
    round_up();
    if (ran[1])
        kin_fail(-EPERM, "rounding up");
    return 0;
}

static int host_rounders(void *arg)
{
    (void)arg;
    round_up(); /* what children on this stack must neither see nor change */
    for (int fails = 0; fails < 2; fails++) {
        int ran[2] = {0, fails};
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        EXPECT_EQ(kin_spawn(&n, round_up_and_end, ran), 0);
        EXPECT_EQ(kin_spawn(&n, round_up_and_end, ran), 0);
        EXPECT_LT(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(ran[0], 2);
        EXPECT_EQ(rounding(), MXCSR_ROUND_UP);
    }
    return 0;
}

KIN_TEST(cleanups_at_the_end_begin_with_the_control_words_of_a_task, "SCHED:5.3.1")
{
    EXPECT_EQ(run_reporting(1, host_rounders, NULL, NULL), 0);
    EXPECT_EQ(rounding(), 0);
}
#endif

/* ---- calls at every depth ---- */

/* A sanitizer keeps books about frames that an overflow leaves without returning. */
#if !SANITIZED

typedef void call_fn(void);

static volatile int sink;

/* Recurses in small steps and makes the call at every depth, so that the stack ends inside it. */
__attribute__((noinline)) static int call_at_every_depth(call_fn *call, int depth)
{
    volatile char room[48];

    room[0] = (char)depth;
    if (depth < 0)
        return 0;
    call();
    int below = call_at_every_depth(call, depth + 1);
    room[1] = (char)below;
    return room[0] + room[1];
}

static void call_defer(void)
{
    kin_ignore(kin_defer(nothing, NULL));
}

static void call_release(void)
{
    void *mark = kin_scope_mark();
    kin_ignore(kin_defer(nothing, NULL));
    kin_scope_release(mark);
}

static void call_local(void)
{
    static char value;
    static struct kin_local_key many[64];
    static int next;
    kin_ignore(kin_local_set(&many[next++ % 64], &value));
    (void)kin_local_get(&many[0]);
}

static void call_obligation(void)
{
    struct kin_obligation *o;
    if (kin_obligation_reserve(KIN_OBLIGATION_USER, &o) == 0)
        kin_ignore(kin_obligation_commit(o));
}

static int descend_calling(void *arg)
{
    sink = call_at_every_depth(*(call_fn **)arg, 0);
    return 0;
}

static int overflow_in_calls(void *arg)
{
    static call_fn *const calls[] = {call_defer, call_release, call_local, call_obligation};
    (void)arg;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (int round = 0; round < 10; round++) {
            KIN_NURSERY(n);
            EXPECT_EQ(kin_spawn(&n, descend_calling, (void *)(uintptr_t)&calls[i]), 0);
            EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
        }
    }
    EXPECT_LE(kin_leaks(), 10); /* one that overflows between the two calls */
    call_obligation();
    return 0;
}

KIN_TEST(an_overflow_inside_these_calls_leaves_nothing_locked, "C8")
{
    run_on_few(overflow_in_calls, NULL);
}

/* ---- kin_fail with hardly any stack left ---- */

static void count_up(void *arg)
{
    volatile char room[1500];

    room[0] = 1;
    *(int *)arg += room[0];
}

/* Recurses until fewer than left bytes are free, and fails there. */
__attribute__((noinline)) static int fail_with_room(ptrdiff_t left)
{
    volatile char room[48];

    room[0] = 1;
    if (left < 0)
        return 0;
    if ((const char *)__builtin_frame_address(0) - kin__task_self()->low < left)
        kin_fail(-EPERM, "with little room");
    int below = fail_with_room(left);
    room[1] = (char)below;
    return room[0] + room[1];
}

struct tight {
    ptrdiff_t left;
    int ran;
};

static int fail_when_tight(void *arg)
{
    struct tight *tight = arg;

    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_defer(count_up, &tight->ran), 0);
    sink = fail_with_room(tight->left);
    return 0;
}

KIN_TEST(cleanups_have_room_where_the_body_had_none, "C8 NCG-3")
{
    struct tight roomy = {16384, 0}, tight = {2000, 0};

    EXPECT_EQ(run_reporting(1, fail_when_tight, &roomy, NULL), -EPERM);
    EXPECT_EQ(roomy.ran, 5);
    EXPECT_EQ(run_reporting(1, fail_when_tight, &tight, NULL), KIN_OVERFLOW);
    EXPECT_EQ(tight.ran, 5);
}

#endif

/* ---- a child that there is no stack for ---- */

struct stackless {
    int cleaned;
    bool is_outside;
};

static void look_where(void *arg)
{
    struct stackless *seen = arg;
    seen->cleaned++;
    seen->is_outside = !kin__task_self() && kin_yield() == KIN_NOTASK;
}

static int spawn_stackless(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_task_ref ref;
    struct kin_outcome how;
    struct stackless seen = {0, false};
    (void)arg;
    options.cleanup = look_where;
    options.stack_max_bytes = (size_t)4 * 1024 * 1024; /* of which there is none yet */
    EXPECT_EQ(kin_defer(nothing, NULL), 0);            /* from now on there are belongings */
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    for (int i = 1; i <= 3; i++) {
        kin__plat_fail_after(1, true);
        EXPECT_EQ(kin_spawn_with(&n, &options, sleep_for_ever, &seen, 0, &ref), 0);
        if (i == 3)
            EXPECT_EQ(kin_task_cancel(ref), 0);
        EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
        kin__plat_fail_after(0, false);
        EXPECT_EQ(how.status, -ENOMEM);
        EXPECT_EQ(seen.cleaned, i);
        EXPECT(seen.is_outside);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), -ENOMEM);
    return 0;
}

KIN_TEST(without_a_stack_the_first_cleanup_runs_outside_of_the_task, "D-90")
{
    EXPECT_EQ(run_reporting(1, spawn_stackless, NULL, NULL), 0);
}
