/* SPDX-License-Identifier: MIT */
/*
 * Durations that were given where a deadline is asked for, such as kin_sleep(KIN_SEC(1)).
 *
 * Both are numbers of nanoseconds, and a duration as a deadline is a point shortly after the system
 * was started: the call times out at once, and nobody knows why. A deadline that has passed is
 * taken for a duration if it lies in the first hour of the clock and the clock is at more than
 * twice that, and at more than a minute: a deadline that was a point in time once has hardly waited
 * for longer than the system had run before. Less than a microsecond is left alone: people write 1
 * for "passed". In the lab, where clocks begin late, it is a point before the beginning of time.
 *
 * A place is told by who waits, for what and how deep in its stack, which costs nothing. The first
 * so many places are reported, with the calls that led there; then this is silent.
 *
 * Why not at compile time: gcc looks at an argument only in a macro or an inlined function around
 * each call that has a deadline, whose address would be that of something else then, and sees no
 * constant there without optimisation; clang can be told at each declaration, by an attribute of
 * its own behind the parameters. A type of its own for deadlines would end kin_after(...) as plain
 * arithmetic. So a program sees it when it runs, with every compiler and at every level.
 */
#include "wait/duration.h"

#include "base/heap.h"
#include "base/text.h"
#include "plat/plat.h"
#include "sched/entry.h"
#include "sched/report.h"

#include <errno.h>

#define SHORTEST INT64_C(1000)
#ifdef KIN__LAB
#define LATEST INT64_C(1000000000000) /* where its clock begins */
#else
#define LATEST (INT64_C(3600) * 1000000000)
#endif
#define UPTIME_MIN (INT64_C(60) * 1000000000)
#define PLACES 32u
#define FRAMES 8u
#define TEXT_BYTES 1024u

static bool is_duration(kin_time deadline)
{
    if (deadline < SHORTEST || deadline >= LATEST)
        return false;
    kin_time now = kin__clock_now();
    return now > UPTIME_MIN && deadline < now / 2;
}

/* Whether this place was not told of before. */
static bool is_new(uint64_t place)
{
    static kin__a64 told[PLACES]; /* written once each; 0: free */
    place |= 1;
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t known = kin__load_relaxed(&told[i]); /* relaxed: the exchange decides */
        if (known == 0 && kin__cas_relaxed(&told[i], &known, place)) /* relaxed: a number alone */
            return true;
        if (known == place)
            return false;
    }
    return false;
}

/* The calls that led to the frame at sp. */
static void put_calls(struct kin__text *text, const struct kin__task *task, const void *sp)
{
    uintptr_t frames[FRAMES];
    struct kin__code *code = kin__heap_alloc(sizeof(*code));
    if (!code)
        return;
    kin__code_read(code);
    unsigned count = kin__code_frames(code, sp, task->stack->base, frames, FRAMES);
    for (unsigned i = 0; i < count; i++) {
        kin__text_str(text, "\n  ");
        kin__code_name(text, frames[i]);
    }
    kin__heap_free(code);
}

static __attribute__((noinline)) void report(struct kin__task *task, kin_time deadline,
                                             const char *what, const void *sp)
{
    struct kin__text text;
    char *memory = kin__heap_alloc(TEXT_BYTES); /* not on a stack that may be small */
    if (!memory)
        return;
    kin__text_init(&text, memory, TEXT_BYTES);
    kin__task_say(&text, task);
    kin__text_printf(&text, ", gave %s the deadline ", what);
    kin__text_ns(&text, deadline);
    kin__text_str(&text, " after the start of the system, long ago: a deadline is a point in time, "
                         "kin_after(duration)");
    put_calls(&text, task, sp);
    kin__report(kin__task_sched(task), -EINVAL, kin__task_id(task), memory);
    kin__heap_free(memory);
}

void kin__duration_look(struct kin__task *task, kin_time deadline, const char *what)
{
    if (KIN__LIKELY(!is_duration(deadline)) || (task->flags & KIN__TASK_THREAD))
        return;
    const char *sp = __builtin_frame_address(0);
    uint64_t depth = (uint64_t)(task->stack->base - sp);
    if (is_new((uint64_t)(uintptr_t)task->site ^ (uint64_t)(uintptr_t)what ^ depth << 48))
        report(task, deadline, what, sp);
}
