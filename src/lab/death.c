/* SPDX-License-Identifier: MIT */
/*
 * A run that dies of a signal, or of a step that does not end, is a failure with a schedule.
 *
 *     SIGSEGV, SIGBUS    fault.c asks first whether a stack has overflowed, and passes on the rest
 *     SIGABRT, SIGFPE, SIGILL
 *     SIGVTALRM          of a timer in real time: a tick. A step that sees three of them hangs
 *
 * The handler runs on the alternate stack of the thread. It makes the run under way the failing one
 * of its engine, so that the report is made as any other: the lab has no locks, and its memory
 * comes from the kernel. Whatever the program has destroyed, the report may trip over: a second
 * fault says so in one line. Then the signal has its default action, which leaves a core dump of
 * the place; a hang ends by SIGABRT. Going on with other runs was rejected: nobody knows what the
 * crash has left in the memory that runs share. It is made small by others (crash.c).
 *
 * Where somebody has a handler of his own, as sanitizers do, it stays, and the signal is his. Ticks
 * are counted, and not the time, so that a process that was stopped has not been hanging; and under
 * a debugger nothing hangs. Time in the engine is its own affair.
 */
#define _GNU_SOURCE 1
#include "lab/death.h"

#include "lab/report.h"
#include "plat/source.h"
#include "lab/world.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <kin/status.h>

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(10000000000) /* between the first and the third tick */
#define SLOWNESS 10 /* of a program under a sanitizer or valgrind, and more */
#define FRAMES_MAX 32u
#define TICK SIGVTALRM

static const struct {
    int signo;
    const char *words;
} causes[] = {
    {SIGSEGV, "segmentation fault (SIGSEGV)"}, {SIGBUS, "bus error (SIGBUS)"},
    {SIGFPE, "arithmetic error (SIGFPE)"},     {SIGILL, "illegal instruction (SIGILL)"},
    {SIGABRT, "abort (SIGABRT)"},
};
#define CAUSES (sizeof(causes) / sizeof(*causes))

static struct kin__engine *engine; /* NULL: nobody is watched */
static void (*tell_it)(void);
static bool is_telling;
static struct kin__cause cause;
static bool is_ticking; /* there is a timer */
static timer_t timer;
static uint64_t tick_run, tick_step; /* at the last tick, */
static unsigned ticks;               /* and so many before it */

/* ---- where ---- */

/* A file of the program itself, at a return address. */
static bool is_program(uintptr_t pc, struct kin__place *place)
{
    if (cause.looked_count < sizeof(cause.looked) / sizeof(*cause.looked))
        cause.looked[cause.looked_count++] = pc;
    return kin__source_find(pc, place) && place->file[0] && !place->is_ours;
}

/* The innermost place of the program: the address itself, or whence the C library or kin was
 * called. */
static bool find_place(uintptr_t pc, uintptr_t sp, struct kin__place *place)
{
    static struct kin__code code;
    uintptr_t frames[FRAMES_MAX];
    const struct kin__worker *worker = kin__world.worker;
    const struct kin__stack *stack = worker ? worker->stack : NULL;
    if (is_program(pc + 1, place))
        return true;
    if (!stack || sp < (uintptr_t)stack->low || sp >= (uintptr_t)stack->base)
        return false;
    kin__code_read(&code);
    unsigned count =
        kin__code_frames(&code, (const void *)sp, stack->base, frames, FRAMES_MAX);
    for (unsigned i = 0; i < count; i++)
        if (is_program(frames[i], place))
            return true;
    return false;
}

static void find_cause(int signo, const void *context)
{
    struct kin__place place = {.line = 0};
    struct kin__text text;
    uintptr_t pc, sp;
    cause.signo = signo;
    cause.looked_count = 0;
    kin__text_init(&text, cause.place, sizeof(cause.place));
    kin__fault_where(context, &pc, &sp);
    if (find_place(pc, sp, &place)) {
        kin__text_printf(&text, "%s:%u", place.file, place.line);
        if (place.function[0])
            kin__text_printf(&text, " in %s", place.function);
    } else {
        kin__code_place(&text, pc);
    }
}

const struct kin__cause *kin__death_cause(void)
{
    return &cause;
}

void kin__death_look(const struct kin__cause *at)
{
    struct kin__place place;
    for (unsigned i = 0; i < at->looked_count; i++)
        (void)kin__source_find(at->looked[i], &place);
}

static const char *words_of(int signo)
{
    for (size_t i = 0; i < CAUSES; i++)
        if (causes[i].signo == signo)
            return causes[i].words;
    return "the step does not end";
}

/* root/1 (post), step 7: segmentation fault (SIGSEGV), address 0x10, at mail.c:31 in post */
static void put_reason(struct kin__text *text, int signo, const siginfo_t *info)
{
    const struct kin__world *w = &kin__world;
    const struct kin__task *task = w->current < w->player_count ? w->players[w->current].task
                                                                : NULL;
    kin__text_str(text, kin__player_path(w->current));
    if (task && (task->flags & KIN__TASK_NAMED))
        kin__text_printf(text, " (%.40s)", task->name);
    kin__text_printf(text, ", step %llu: %s", (unsigned long long)kin__engine_step(engine),
                     words_of(signo));
    if ((signo == SIGSEGV || signo == SIGBUS) && info->si_code > 0)
        kin__text_printf(text, ", address 0x%llx", (unsigned long long)(uintptr_t)info->si_addr);
    kin__text_printf(text, ", at %s", cause.place);
}

/* ---- death ---- */

static void die(int signo, const siginfo_t *info, const void *context)
{
    struct kin__engine_failure failure = {.oracle = signo == TICK ? "hang" : "crash",
                                          .status = signo == TICK ? KIN_STUCK : KIN_PANICKED};
    struct kin__world *w = &kin__world;
    struct kin__text text;
    kin__text_init(&text, failure.where, sizeof(failure.where));
    kin__text_str(&text, kin__player_path(w->current));
    kin__text_init(&text, failure.text, sizeof(failure.text));
    find_cause(signo, context);
    put_reason(&text, signo, info);
    kin__record(w->current, KIN__NOTE_FAIL, KIN__NOTE_NOBODY, failure.where, failure.text);
    kin__engine_die(engine, &failure);
    w->is_on = w->is_running = false; /* time and files are the host's now */
    tell_it();
}

/* The report has crashed itself. */
static void say_little(int signo)
{
    const char *test = kin__lab_wish.test ? kin__lab_wish.test : "test";
    char memory[256];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "FAIL  %.100s: %s, and there is no telling more\n", test,
                     words_of(signo));
    kin__plat_write(STDERR_FILENO, memory, text.len);
}

static void on_signal(int signo, siginfo_t *info, void *context)
{
    if (is_telling)
        say_little(signo);
    else if (engine) {
        is_telling = true;
        die(signo, info, context);
    }
    const int last = signo == TICK ? SIGABRT : signo;
    (void)signal(last, SIG_DFL);
    if (info->si_code <= 0 || signo == TICK) /* else the instruction comes again */
        (void)raise(last);
}

/* ---- steps that do not end ---- */

/* Whether a debugger looks on, by the kernel's own words. */
static bool is_traced(void)
{
    static const char key[] = "\nTracerPid:\t";
    char bytes[1024];
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? -1 : pread(fd, bytes, sizeof(bytes) - 1, 0);
    if (fd >= 0)
        (void)close(fd);
    bytes[size > 0 ? size : 0] = '\0';
    const char *at = strstr(bytes, key);
    return at && at[sizeof(key) - 1] != '0';
}

static void on_tick(int signo, siginfo_t *info, void *context)
{
    const struct kin__world *w = &kin__world;
    const bool is_programs = w->current != KIN__WORLD_NOBODY || !w->is_running;
    if (info->si_code != SI_TIMER || !engine || is_telling)
        return;
    if (!w->is_on || !is_programs || tick_run != kin__engine_run(engine) || tick_step != w->steps) {
        tick_run = kin__engine_run(engine);
        tick_step = w->steps;
        ticks = 0;
    } else if (++ticks >= 2 && !is_traced()) {
        on_signal(signo, info, context);
    }
}

int64_t kin__death_patience(void)
{
    if (kin__lab_wish.patience)
        return kin__lab_wish.patience;
    return PATIENCE_NS * (KIN__ASAN || KIN__TSAN || kin__is_under_valgrind() ? SLOWNESS : 1);
}

void kin__death_tick(int64_t patience)
{
    struct sigevent event;
    const int64_t ns = patience / 2 > 0 ? patience / 2 : 1; /* 0 would be never */
    const struct timespec half = {ns / 1000000000, ns % 1000000000};
    const struct itimerspec often = {half, half};
    memset(&event, 0, sizeof(event));
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = TICK;
    ticks = 0;
    is_ticking = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    if (is_ticking)
        (void)timer_settime(timer, 0, &often, NULL);
}

/* ---- watching ---- */

typedef void action_fn(int signo, siginfo_t *info, void *context);

/* Puts one action in the place of another, where that is what is there; NULL: the default. */
static bool exchange(int signo, action_fn *from, action_fn *to)
{
    struct sigaction action, now;
    memset(&action, 0, sizeof(action));
    action.sa_handler = SIG_DFL;
    if (to) {
        action.sa_sigaction = to;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER;
    }
    if (sigaction(signo, NULL, &now) != 0)
        return false;
    const bool has_info = now.sa_flags & SA_SIGINFO;
    return (from ? has_info && now.sa_sigaction == from : !has_info && now.sa_handler == SIG_DFL) &&
           sigaction(signo, &action, NULL) == 0;
}

void kin__death_watch(struct kin__engine *of, void (*tell)(void))
{
    engine = of;
    tell_it = tell;
    for (size_t i = 0; i < CAUSES; i++)
        (void)exchange(causes[i].signo, NULL, on_signal);
    if (!kin__record_break_at && exchange(TICK, NULL, on_tick))
        kin__death_tick(kin__death_patience());
}

void kin__death_unwatch(void)
{
    if (is_ticking)
        (void)timer_delete(timer);
    is_ticking = false;
    for (size_t i = 0; i < CAUSES; i++)
        (void)exchange(causes[i].signo, on_signal, NULL);
    (void)exchange(TICK, on_tick, NULL);
    engine = NULL;
}
