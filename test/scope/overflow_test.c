/* SPDX-License-Identifier: MIT */
/*
 * Goal: a stack overflow ends its task as a panic where that is safe, else the process.
 * Method: recursion to the guard in every kind of task, with nurseries open, in libc, in calls.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"

#include <kin/sync.h>

#include <pthread.h>
#include <regex.h>
#include <stdlib.h>

/* A sanitizer keeps books about frames that an overflow leaves without returning: there is nothing
 * to test there. */
#if !SANITIZED

static volatile int sink;

/* Recurses until the stack ends. */
__attribute__((noinline)) static int descend(int depth)
{
    volatile char room[200];

    room[0] = (char)depth;
    if (depth < 0)
        return 0;
    int below = descend(depth + 1);
    room[1] = (char)below;
    return room[0] + room[1];
}

static int overflow(void *arg)
{
    (void)arg;
    sink = descend(0);
    return 0;
}

static int overflow_once(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_outcome how, kept;
    struct kin_task_ref ref;
    _Atomic int ran = 0;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);

    options.name = "the deep one";
    EXPECT_EQ(kin_spawn(&n, count_it, &ran), 0);
    EXPECT_EQ(kin_spawn_with(&n, &options, overflow, NULL, 0, &ref), 0);
    EXPECT_EQ(kin_spawn(&n, count_it, &ran), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), KIN_OVERFLOW);
    EXPECT_EQ(how.severity, KIN_SEV_PANIC);
    EXPECT_EQ(how.task, ref.id);
    EXPECT_EQ(kin_nursery_errors(&n, &kept, 1), 1);
    EXPECT_EQ(kept.status, KIN_OVERFLOW);
    EXPECT_EQ(atomic_load(&ran), 2); /* siblings are fine */
    *(uint64_t *)arg = ref.id;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0); /* and so are later tasks */
    EXPECT_EQ(kin_spawn(&n, count_it, &ran), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&ran), 3);
    return 0;
}

KIN_TEST(an_overflow_is_a_panic_of_its_task_and_names_it, "C8 SCHED:14.1.1 SCHED:5.3.3")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        char entry[32], text[32];
        uint64_t id = 0;
        EXPECT_EQ(run_reporting(workers, overflow_once, &id, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 1);
        EXPECT_EQ(reports.status[0], KIN_OVERFLOW);
        EXPECT_EQ(reports.task[0], id);
        printf("%s\n", reports.text[0]);
        snprintf(entry, sizeof entry, "entry %s (", "overflow");
        said(id, text, sizeof text);
        EXPECT(strstr(reports.text[0], "the deep one"));
        EXPECT(strstr(reports.text[0], text));
        EXPECT(strstr(reports.text[0], entry));
        EXPECT(strstr(reports.text[0], "(overflow_test.c:"));
        EXPECT(strstr(reports.text[0], "bytes deep"));
    }
}

/* ---- frames that are larger than the guard ---- */

#define READER(kib)                                                                                \
    __attribute__((noinline)) static int read_##kib(void *arg)                                     \
    {                                                                                              \
        char room[kib * 1024];                                                                     \
        memset(room, *(int *)arg, 512); /* a short message into a large buffer */                  \
        __asm__ volatile("" : : "r"(room) : "memory");                                             \
        return 0;                                                                                  \
    }
READER(300) READER(600) READER(800) READER(1024) READER(4096)

static int bystand(void *arg)
{
    return kin_event_wait(arg, KIN_NEVER);
}

static int read_into_large_frames(void *arg)
{
    static kin_task_fn *const readers[] = {read_300, read_600, read_800, read_1024, read_4096};
    int byte = 1;
    struct kin_event done = {0};
    (void)arg;
    KIN_NURSERY(others);
    for (int i = 0; i < 50; i++) /* stacks all around, which stay whole */
        EXPECT_EQ(kin_spawn(&others, bystand, &done), 0);
    await_parked(50, "event");
    for (int i = 0; i < 5; i++) {
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        EXPECT_EQ(kin_spawn(&n, readers[i], &byte), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
    }
    kin_event_set(&done);
    return kin_nursery_join(&others, NULL);
}

KIN_TEST(a_frame_larger_than_the_guard_is_an_overflow, "C8 SCHED:15.2.1")
{
    struct reports reports = {0};
    EXPECT_EQ(run_reporting(2, read_into_large_frames, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 5);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(reports.status[i], KIN_OVERFLOW);
    EXPECT(strstr(reports.text[3], "entry read_1024 ("));
    EXPECT(strstr(reports.text[3], ", at read_1024 (overflow_test.c:"));
}

#if defined(__x86_64__)
/* As a function with such a frame does that was compiled without probes. */
static int call_from_beyond(void *arg)
{
    size_t size = 400 * 1024;
    (void)arg;
    __asm__ volatile("movq %%rsp, %%rbx\n\tsubq %0, %%rsp\n\tandq $-16, %%rsp\n\t"
                     "call kin_yield\n\tmovq %%rbx, %%rsp"
                     :
                     : "r"(size)
                     : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
                       "memory", "cc");
    return 0;
}

static int park_below_one_that_jumps(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, call_from_beyond, NULL), 0);
    kin_ignore(kin_sleep(KIN_NEVER)); /* on the stack below; the process does not survive */
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_call_from_beyond_the_guard_names_the_task, "C8")
{
    (void)unsetenv("KIN_HARD"); /* the size of the stack is the point */
    EXPECT_ABORT("entry call_from_beyond (")
    {
        kin_ignore(run_reporting(1, park_below_one_that_jumps, NULL, NULL));
    }
    EXPECT_ABORT("past the guard of 65536 bytes")
    {
        kin_ignore(run_reporting(1, park_below_one_that_jumps, NULL, NULL));
    }
}
#endif

/* ---- stacks without a guard of their own ---- */

struct crowd {
    struct kin_event go;
    _Atomic int good, bad;
};

static int stand_by(void *arg)
{
    struct crowd *crowd = arg;
    char room[256];
    memset(room, 7, sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
    EXPECT_EQ(kin_event_wait(&crowd->go, KIN_NEVER), 0);
    EXPECT_EQ(kin_yield(), 0);
    for (size_t i = 0; i < sizeof room; i++)
        EXPECT_EQ(room[i], 7);
    atomic_fetch_add(&crowd->good, 1);
    return 0;
}

static int overflow_later(void *arg)
{
    struct crowd *crowd = arg;
    EXPECT_EQ(kin_event_wait(&crowd->go, KIN_NEVER), 0);
    EXPECT_EQ(kin_yield(), 0);
    atomic_fetch_add(&crowd->bad, 1);
    return overflow(NULL);
}

static int overflow_in_a_crowd(void *arg)
{
    struct crowd crowd = {.good = 0, .bad = 0};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    for (int i = 0; i < 200; i++) {
        options.name = i % 40 == 20 ? "culprit" : "bystander";
        EXPECT_EQ(kin_spawn_with(&n, &options, i % 40 == 20 ? overflow_later : stand_by, &crowd, 0,
                                 NULL), 0);
    }
    await_parked(200, "event");
    kin_event_set(&crowd.go);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
    EXPECT_EQ(crowd.good, 195);
    EXPECT_EQ(crowd.bad, 5);
    return 0;
}

/* As past the cap on guards, where the kernel has no guard regions. */
KIN_TEST(a_stack_has_a_guard_while_its_task_runs, "C8 SCHED:15.2.1")
{
    kin__vm_force(KIN__VM_NONE);
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, overflow_in_a_crowd, NULL, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 5);
        for (int i = 0; i < 5; i++)
            EXPECT(strstr(reports.text[i], "(culprit)"));
    }
    kin__vm_force(KIN__VM_PROBE);
}

KIN_TEST(the_first_task_may_overflow, "C8")
{
    struct reports reports = {0};

    EXPECT_EQ(run_reporting(1, overflow, NULL, &reports), KIN_OVERFLOW);
    EXPECT_EQ(run_reporting(2, overflow, NULL, &reports), KIN_OVERFLOW);
    EXPECT_EQ(atomic_load(&reports.count), 2);
    EXPECT(strstr(reports.text[0], "main"));
}

static int overflow_a_thousand_times(void *arg)
{
    _Atomic int ran = 0;
    struct kin_stats before, after;
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        EXPECT_EQ(kin_spawn(&n, overflow, NULL), 0);
        EXPECT_EQ(kin_spawn(&n, count_it, &ran), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
        if (i == 100)
            EXPECT_EQ(kin_stats_get(&before), 0);
    }
    EXPECT_EQ(atomic_load(&ran), 1000);
    EXPECT_EQ(kin_stats_get(&after), 0);
    EXPECT_LE(after.stacks, before.stacks + 8); /* the spare ones come back */
    return 0;
}

KIN_TEST(a_thousand_overflows_in_a_row_cost_no_stack, "C8")
{
    run_on_few(overflow_a_thousand_times, NULL);
}

/* A task that overflows while children of its nurseries use its frames. */
struct dead_frames {
    _Atomic int started, bad;
    char order[8];
    _Atomic int at;
};

struct user {
    struct dead_frames *all;
    const volatile uint64_t *mark;
    char letter;
};

static int use_dead_frames(void *arg)
{
    struct user *me = arg; /* itself on the overflowed stack */

    atomic_fetch_add(&me->all->started, 1);
    kin_ignore(kin_sleep(KIN_NEVER));
    for (int i = 0; i < 100; i++) {
        kin_ignore(kin_yield());
        if (*me->mark != 0x5eedf00d)
            atomic_store(&me->all->bad, 1);
    }
    me->all->order[atomic_fetch_add(&me->all->at, 1)] = me->letter;
    return 0;
}

static int overflow_with_nurseries(void *arg)
{
    struct dead_frames *all = arg;
    volatile uint64_t mark = 0x5eedf00d;
    struct user outer_user = {all, &mark, 'o'}, inner_user = {all, &mark, 'i'};
    KIN_NURSERY(outer);
    EXPECT_EQ(kin_spawn(&outer, use_dead_frames, &outer_user), 0);
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_spawn(&inner, use_dead_frames, &inner_user), 0);
    EXPECT_EQ(kin_spawn(&inner, use_dead_frames, &inner_user), 0);
    await(&all->started, 3);
    sink = descend(0);
    return (int)mark;
}

static int overflow_over_children(void *arg)
{
    (void)arg;
    for (int i = 0; i < 30; i++) {
        struct dead_frames all = {0};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, overflow_with_nurseries, &all), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
        EXPECT_EQ(atomic_load(&all.bad), 0);
        EXPECT_STR(all.order, "iio");
    }
    return 0;
}

KIN_TEST(children_may_use_the_frames_of_an_overflowed_task_until_they_are_joined, "C8 NSM-2 NSM-4")
{
    run_on_few(overflow_over_children, NULL);
}

/* Overflows inside a child that runs in the join of its parent. */
static int host_an_overflow(void *arg)
{
    volatile uint64_t marks[64];
    (void)arg;
    for (int i = 0; i < 64; i++)
        marks[i] = (uint64_t)i;
    for (int round = 0; round < 20; round++) {
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        EXPECT_EQ(kin_spawn(&n, overflow, NULL), 0);
        EXPECT_EQ(kin_spawn(&n, overflow, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
        EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 2);
        for (int i = 0; i < 64; i++)
            EXPECT_EQ(marks[i], (uint64_t)i);
    }
    return 0;
}

static int host_overflows(void *arg)
{
    KIN_NURSERY(n);
    (void)arg;
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_spawn(&n, host_an_overflow, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(an_overflow_on_a_borrowed_stack_leaves_the_lender_standing, "C8")
{
    run_on_few(host_overflows, NULL);
}

/* ---- overflows inside calls of the runtime ---- */

typedef void call_fn(void *arg);

/* Recurses in small steps and makes the call at every depth, so that the stack ends inside it. */
__attribute__((noinline)) static int call_at_every_depth(call_fn *call, void *arg, int depth)
{
    volatile char room[48];

    room[0] = (char)depth;
    if (depth < 0)
        return 0;
    call(arg);
    int below = call_at_every_depth(call, arg, depth + 1);
    room[1] = (char)below;
    return room[0] + room[1];
}

struct caller {
    call_fn *call;
    struct kin_nursery n; /* joined by the parent, after the caller is over */
    struct kin_nursery *owned;
    struct kin_task_ref victim;
};

static void call_yield(void *arg)
{
    (void)arg;
    kin_ignore(kin_yield());
}

static void call_sleep(void *arg)
{
    (void)arg;
    kin_ignore(kin_sleep(kin_after(1000)));
}

static void call_spawn(void *arg)
{
    static _Atomic int count;
    kin_ignore(kin_spawn(((struct caller *)arg)->owned, count_it, &count));
}

static void call_spawn_copy(void *arg)
{
    static _Atomic int count;
    _Atomic int *p = &count;
    kin_ignore(kin_spawn_copy(((struct caller *)arg)->owned, count_it, &p, sizeof p));
}

static void call_open_join(void *arg)
{
    struct kin_nursery n;
    static _Atomic int count;
    (void)arg;
    kin_ignore(kin_nursery_open(&n, NULL));
    kin_ignore(kin_spawn(&n, count_it, &count));
    kin_ignore(kin_nursery_join(&n, NULL));
}

static void call_cancel(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    kin_ignore(kin_nursery_open(&n, NULL));
    kin_nursery_cancel(&n, 0);
    kin_ignore(kin_nursery_join(&n, NULL));
}

static void call_task_cancel(void *arg)
{
    kin_ignore(kin_task_cancel(((struct caller *)arg)->victim));
}

static void call_alloc(void *arg)
{
    (void)kin_nursery_alloc(((struct caller *)arg)->owned, 8);
}

static void call_poll(void *arg)
{
    (void)kin_nursery_poll(((struct caller *)arg)->owned, NULL);
    (void)kin_nursery_state(((struct caller *)arg)->owned);
}

static void call_stats(void *arg)
{
    struct kin_stats stats;
    (void)arg;
    (void)kin_stats_get(&stats);
}

static int be_caller(void *arg)
{
    struct caller *caller = arg;

    sink = call_at_every_depth(caller->call, caller, 0);
    return 0;
}

static int sleep_a_while(void *arg)
{
    (void)arg;
    kin_ignore(kin_sleep(KIN_NEVER));
    return KIN_CANCELLED;
}

static int overflow_in_calls(void *arg)
{
    struct caller caller = {*(call_fn **)arg, {{0}}, NULL, {0}};
    int zero = 0, rounds = caller.call == call_sleep ? 2 : 10; /* it sleeps at every depth */

    for (int i = 0; i < rounds; i++) {
        KIN_NURSERY(owned, .on_error = KIN_COLLECT);
        caller.owned = &owned;
        EXPECT_EQ(kin_spawn_with(&owned, NULL, sleep_a_while, NULL, 0, &caller.victim), 0);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, be_caller, &caller), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
        /* Every lock is free again: the same objects still work. */
        EXPECT_EQ(kin_spawn(&owned, return_it, &zero), 0);
        EXPECT_EQ(kin_sleep(kin_after(1000)), 0);
        EXPECT_EQ(kin_yield(), 0);
        EXPECT(kin_nursery_alloc(&owned, 100));
        kin_nursery_cancel(&owned, 0);
        EXPECT_LE(kin_nursery_join(&owned, NULL), 0);
    }
    return 0;
}

static void expect_safe(call_fn *call)
{
    run_on_few(overflow_in_calls, &call);
}

KIN_TEST(an_overflow_in_a_yield_leaves_nothing_held, "C8")
{
    expect_safe(call_yield);
}

KIN_TEST(an_overflow_in_a_sleep_leaves_nothing_held, "C8")
{
    expect_safe(call_sleep);
}

KIN_TEST(an_overflow_in_a_spawn_leaves_nothing_held, "C8")
{
    expect_safe(call_spawn);
}

KIN_TEST(an_overflow_in_an_open_and_join_leaves_nothing_held, "C8")
{
    expect_safe(call_open_join);
}

KIN_TEST(an_overflow_in_a_cancel_leaves_nothing_held, "C8")
{
    expect_safe(call_cancel);
    expect_safe(call_task_cancel);
}

KIN_TEST(an_overflow_in_a_look_leaves_nothing_held, "C8")
{
    expect_safe(call_poll);
    expect_safe(call_stats);
}

/* Memory comes from libc: an overflow there would end the process, so it must not happen. */
KIN_TEST(an_overflow_in_an_allocation_leaves_nothing_held, "C8")
{
    expect_safe(call_alloc);
    expect_safe(call_spawn_copy);
}

/* ---- where it cannot be survived ---- */

static int run_aborting(kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.on_overflow = KIN_STACK_ABORT;
    return kin_run(&config, fn, arg);
}

KIN_TEST(an_overflow_aborts_with_a_report_where_that_is_configured, "C8 SCHED:14.1.1")
{
    EXPECT_ABORT("stack overflow in task")
    {
        kin_ignore(run_aborting(overflow, NULL));
    }
    EXPECT_ABORT("(main)")
    {
        kin_ignore(run_aborting(overflow, NULL));
    }
}

static int compile_a_deep_expression(void *arg)
{
    size_t size = 200000;
    char *text = malloc(size + 1);
    regex_t regex;

    (void)arg;
    memset(text, '(', size / 2);
    memset(text + size / 2, ')', size / 2);
    text[size] = '\0';
    int rc = regcomp(&regex, text, REG_EXTENDED); /* recurses once per bracket */
    free(text);
    return rc;
}

KIN_TEST(an_overflow_inside_libc_aborts_with_a_report, "C8")
{
    EXPECT_ABORT("inside libc")
    {
        kin_ignore(kin_run(NULL, compile_a_deep_expression, NULL));
    }
}

static int compare_deep(const void *a, const void *b)
{
    sink = descend(0);
    return *(const int *)a - *(const int *)b;
}

static int sort_deep(void *arg)
{
    int numbers[4] = {4, 3, 2, 1};

    (void)arg;
    qsort(numbers, 4, sizeof numbers[0], compare_deep);
    return 0;
}

KIN_TEST(an_overflow_in_a_callback_of_libc_is_the_task_s_own, "C8")
{
    struct reports reports = {0};

    EXPECT_EQ(run_reporting(1, sort_deep, NULL, &reports), KIN_OVERFLOW);
    EXPECT_EQ(atomic_load(&reports.count), 1);
}

static int overflow_while_unwinding(void *arg)
{
    (void)arg;
    kin_ignore(kin_sleep(KIN_NEVER));
    sink = descend(0);
    return 0;
}

static int overflow_over_an_overflow(void *arg)
{
    KIN_NURSERY(inner);
    (void)arg;
    EXPECT_EQ(kin_spawn(&inner, overflow_while_unwinding, NULL), 0);
    kin_ignore(kin_yield());
    sink = descend(0);
    return 0;
}

static int nest_overflows(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, overflow_over_an_overflow, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
    }
    return 0;
}

KIN_TEST(children_may_overflow_while_their_overflowed_parent_joins_them, "C8")
{
    run_on_few(nest_overflows, NULL);
}

struct bottom {
    int depth;
    int status; /* KIN_PANICKED: by a panic */
};

__attribute__((noinline)) static int fail_deep(int depth, int status)
{
    volatile char room[200];

    room[0] = (char)depth;
    if (depth < 0)
        return 0;
    if (depth == 0 && status == KIN_PANICKED)
        kin_panic("at the bottom");
    if (depth == 0)
        kin_fail(status, "at the bottom");
    int below = fail_deep(depth - 1, status);
    room[1] = (char)below;
    return room[0] + room[1];
}

static int fail_near_the_end(void *arg)
{
    const struct bottom *bottom = arg;
    _Atomic int started = 0;
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_spawn(&inner, sleep_for_ever, &started), 0);
    sink = fail_deep(bottom->depth, bottom->status);
    return 0;
}

static int fail_at(int depth, int status)
{
    struct bottom bottom = {depth, status};
    KIN_NURSERY(n);

    EXPECT_EQ(kin_spawn(&n, fail_near_the_end, &bottom), 0);
    int rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == status || rc == KIN_OVERFLOW); /* whichever comes first */
    return rc;
}

static int fail_at_every_depth(void *arg)
{
    int low = 1, high = 100000; /* fails at low, overflows at high */
    int status = *(int *)arg;

    EXPECT_EQ(fail_at(low, status), status);
    EXPECT_EQ(fail_at(high, status), KIN_OVERFLOW);
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        *(fail_at(middle, status) == status ? &low : &high) = middle;
    }
    /* Where exactly it turns depends on whose stack the child runs on. */
    for (int depth = low > 60 ? low - 60 : 1; depth < low + 60; depth++)
        (void)fail_at(depth, status);
    return 0;
}

KIN_TEST(a_failure_near_the_end_of_the_stack_is_that_or_an_overflow, "C8")
{
    int status = -EIO;

    run_on_few(fail_at_every_depth, &status);
}

KIN_TEST(a_panic_near_the_end_of_the_stack_is_that_or_an_overflow, "C8")
{
    int status = KIN_PANICKED;

    run_on_few(fail_at_every_depth, &status);
}

static int own_a_large_one(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n);

    (void)arg;
    options.stack_max_bytes = (size_t)1 << 20;
    EXPECT_EQ(kin_spawn_with(&n, &options, overflow, NULL, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
    return 0;
}

KIN_TEST(a_large_stack_overflows_at_its_own_maximum, "SCHED:5.3.3")
{
    struct reports reports = {0};

    EXPECT_EQ(run_reporting(1, own_a_large_one, NULL, &reports), 0);
    EXPECT(strstr(reports.text[0], "maximum of 1048576"));
}

#else

KIN_TEST(stacks_are_large_enough_for_the_checks_at_the_door, "SCHED:5.3.3")
{
    int zero = 0;

    EXPECT_EQ(run_reporting(1, return_it, &zero, NULL), 0);
}

#endif
