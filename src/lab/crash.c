/* SPDX-License-Identifier: MIT */
/*
 * Making a run small that takes its process with it: each try is a process of its own.
 *
 *     the process of the tests     the keeper                        one process for each try
 *     ------------------------     -----------------------------     -------------------------
 *     starts the keeper            waits; its memory is that of
 *     test, test, test             the beginning
 *     a crash: its schedule  --->  makes the same engine, which
 *     waits                        adopts it, begins a smaller  -->  makes it; a crash: its
 *                                  run; learns what came of it  <--  schedule and its place
 *                                  ... until none is smaller
 *                                  begins the smallest again    -->  makes it, notes it, tells it
 *     ends by its signal     <---  that it is told              <--
 *
 * Nobody knows what a crash has left in the memory of its process, so that no run is made there any
 * more: tries begin from the memory that the first run had, as a replay will. The same crash is the
 * same signal in the same place of the program, and of the same task. A try has a second; all of
 * them have what shrinking has. Whatever goes wrong on the way, the crash is told as it was found.
 *
 * A hang is made small in the same way, with less patience: a step of a try that lasts forty
 * milliseconds hangs. That may be wrong, so that the run that is told has all the patience again;
 * when it does not hang the first one is told. The same hang is one of the same task: a loop is
 * interrupted now here, now there. It takes no longer than what shrinking has for hangs, and twice
 * the patience with one.
 *
 * Schedules go from one to the other as files of kinlab.c, in memory.
 */
#include "lab/crash.h"

#include "base/text.h"
#include "lab/death.h"
#include "lab/main.h"
#include "lab/room.h"
#include "lab/stop.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRY_S 1u     /* of one run */
#define TELL_S 5u    /* of the run that is told, and of telling it; of a try to hang */
#define ALL_MS 20000 /* after which nobody waits for the keeper any more */
#define STOP_MS 3000 /* the same, when somebody said stop */
#define TRY_HANG_NS INT64_C(40000000) /* that a step of a try may last, where a hang is tried */
#define SLOWNESS 10  /* of a program under a sanitizer or valgrind */
#define SCHEDULE_BYTES ((size_t)64 << 20)
#define CRASHED 3    /* status of a try that has left its schedule */
#define TOLD 4       /* status of the one that told */

/* What a crash leaves beside its schedule. Pointers in it are to what the keeper has as well: to
 * the program, and to its command line. */
struct note {
    struct kin__cause cause;
    struct kin__engine_result result;
    struct kin__options options;
    struct kin_lab_config config;
    const struct kin_lab_test *test;
};

static struct {
    pid_t pid;     /* of the keeper; 0: there is none */
    int ask, told; /* ends of two pipes: a byte says that there is a crash, that it is told */
    int schedule, note;
    char path[32]; /* by which the schedule is opened */
    /* what is run */
    const struct kin__options *options;
    const struct kin_lab_config *config;
    const struct kin_lab_test *test;
    /* in the keeper */
    bool is_keeper;
    struct kin__crash_how how;
} keeper;

static unsigned slowness(void)
{
    return KIN__ASAN || KIN__TSAN || kin__is_under_valgrind() ? SLOWNESS : 1;
}

void kin__crash_note(const struct kin__options *options, const struct kin_lab_config *config,
                     const struct kin_lab_test *test)
{
    keeper.options = options;
    keeper.config = config;
    keeper.test = test;
}

/* ---- what goes from one to the other ---- */

/* Leaves the engine's failing run to others. */
static bool leave(const struct kin__engine *engine)
{
    static struct note note;
    note.cause = *kin__death_cause();
    note.result = *kin__engine_result(engine);
    note.options = *keeper.options;
    note.config = *keeper.config;
    note.test = keeper.test;
    return pwrite(keeper.note, &note, sizeof(note), 0) == (ssize_t)sizeof(note) &&
           kin__engine_save(engine, keeper.path) == 0;
}

static bool find_schedule(struct kin__room *room, size_t *size)
{
    return kin__room_read(room, keeper.path, SCHEDULE_BYTES, size) == 0;
}

static struct note crash; /* on which the keeper works */

static bool is_hang(const struct kin__engine_result *result)
{
    return strcmp(result->failure.oracle, "hang") == 0;
}

/* Whether it is the same crash, or hang. */
static bool is_it(const struct kin__cause *cause, const struct kin__engine_result *result)
{
    return cause->signo == crash.cause.signo &&
           (is_hang(&crash.result) || strcmp(cause->place, crash.cause.place) == 0) &&
           strcmp(result->failure.where, crash.result.failure.where) == 0;
}

/* Seconds for a hang that all the patience is had with: it is seen with the third tick of half of
 * it each, and the first may come late. */
static unsigned seconds_of_hang(void)
{
    return (unsigned)(kin__death_patience() / 1000000000 * 2) + 2;
}

/* ---- a try ---- */

/* It has crashed. */
static void leave_try(void)
{
    const struct kin__engine *engine = keeper.how.engine;
    const bool is_same = is_it(kin__death_cause(), kin__engine_result(engine));
    _exit(is_same && leave(engine) ? CRASHED : 1);
}

static void tell_last(void)
{
    if (!is_it(kin__death_cause(), kin__engine_result(keeper.how.engine)))
        _exit(1);
    keeper.how.tell();
    _exit(TOLD);
}

/* What the process that makes the run ends with; in which a step that lasts so long hangs, if it is
 * a hang that is looked for. */
static int run_apart(void (*died)(void), unsigned seconds, int64_t patience)
{
    int how = 0;
    const pid_t pid = kin__stop_fork(true);
    if (pid == 0) {
        (void)signal(SIGALRM, SIG_DFL);
        (void)alarm(seconds);
        kin__death_watch(keeper.how.engine, died);
        if (is_hang(&crash.result))
            kin__death_tick(patience);
        keeper.how.execute();
        _exit(0);
    }
    if (pid > 0)
        kin__stop_reap(pid, &how);
    return pid > 0 && WIFEXITED(how) ? WEXITSTATUS(how) : 1;
}

/* The run that is as small as it gets is made once more, and told. */
static bool tell(void)
{
    const unsigned more = is_hang(&crash.result) ? seconds_of_hang() : 0;
    return run_apart(tell_last, TELL_S * slowness() + more, kin__death_patience()) == TOLD;
}

/* Whether a try, which leaves its schedule then, ends as the first run did. */
static bool is_again(void)
{
    const int64_t patience = kin__death_patience();
    const unsigned seconds = is_hang(&crash.result) ? TELL_S : TRY_S;
    return run_apart(leave_try, seconds * slowness(),
                     patience < TRY_HANG_NS ? patience : TRY_HANG_NS) == CRASHED;
}

/* Makes smaller runs until there is none, and has the smallest told. */
static bool shrink(void)
{
    struct kin__engine *engine = keeper.how.engine;
    struct kin__room rooms[2] = {{NULL, 0}, {NULL, 0}}; /* of the smallest, and of a try */
    size_t size = 0;
    if (!find_schedule(&rooms[0], &size) ||
        kin__engine_adopt(engine, rooms[0].base, size, &crash.result) < 0)
        return false;
    kin__death_look(&crash.cause);
    while (kin__engine_begin(engine)) { /* ends: the engine has enough */
        if (kin__engine_is_recorded(engine))
            return tell();
        bool has_crashed = is_again() && find_schedule(&rooms[1], &size);
        if (kin__engine_learn(engine, has_crashed ? rooms[1].base : NULL, size)) {
            const struct kin__room other = rooms[0];
            rooms[0] = rooms[1];
            rooms[1] = other;
        }
        keeper.how.progress();
    }
    return false;
}

/* ---- the keeper ---- */

/* Waits for a crash; then what is run is run again, and comes to kin__crash_work. */
static _Noreturn void keep(int asked)
{
    static struct kin__verdict verdict;
    char byte = 0;
    ssize_t got;
    while ((got = read(asked, &byte, 1)) < 0) /* ends: only signals interrupt */
        continue;
    if (got == 1 && pread(keeper.note, &crash, sizeof(crash), 0) == (ssize_t)sizeof(crash)) {
        keeper.is_keeper = true;
        kin__main_run(&crash.options, &crash.config, crash.test, &verdict);
    }
    _exit(0);
}

bool kin__crash_is_keeper(void)
{
    return keeper.is_keeper;
}

_Noreturn void kin__crash_work(const struct kin__crash_how *how)
{
    const char byte = 1;
    keeper.how = *how;
    keeper.is_keeper = false; /* what is run in processes of its own is a run as any other */
    if (shrink())
        (void)kin__plat_write(keeper.told, &byte, 1);
    _exit(0);
}

/* ---- the process of the tests ---- */

static bool make_files(int asks[2], int tells[2])
{
    struct kin__text text;
    keeper.schedule = memfd_create("kin-crash", MFD_CLOEXEC);
    keeper.note = memfd_create("kin-crash-note", MFD_CLOEXEC);
    kin__text_init(&text, keeper.path, sizeof(keeper.path));
    kin__text_printf(&text, "/proc/self/fd/%d", keeper.schedule);
    return keeper.schedule >= 0 && keeper.note >= 0 && pipe(asks) == 0 && pipe(tells) == 0;
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

static bool is_wanted(const struct kin__options *options)
{
    return (options->ask == KIN__ASK_RUN || options->ask == KIN__ASK_SHRINK) &&
           !options->is_unshrunk && !options->keeps_going && !options->break_at;
}

void kin__crash_prepare(const struct kin__options *options)
{
    int asks[2] = {-1, -1}, tells[2] = {-1, -1};
    if (!is_wanted(options))
        return;
    keeper.pid = make_files(asks, tells) ? kin__stop_fork(false) : -1;
    if (keeper.pid == 0) {
        close_all((int[]){asks[1], tells[0]}, 2);
        keeper.told = tells[1];
        keep(asks[0]);
    }
    keeper.ask = asks[1];
    keeper.told = tells[0];
    close_all((int[]){asks[0], tells[1]}, 2);
    if (keeper.pid < 0)
        close_all((int[]){keeper.ask, keeper.told, keeper.schedule, keeper.note}, 4);
    keeper.pid = keeper.pid < 0 ? 0 : keeper.pid;
}

bool kin__crash_shrink(const struct kin__engine *engine)
{
    char byte = 1;
    struct pollfd answer = {.fd = keeper.told, .events = POLLIN};
    const struct kin__engine_result *result = kin__engine_result(engine);
    if (!keeper.pid || !result->failure.oracle || kin__engine_is_over(engine) || !leave(engine) ||
        write(keeper.ask, &byte, 1) != 1)
        return false;
    int64_t until = kin__host_now() + (int64_t)ALL_MS * slowness() * 1000000;
    if (is_hang(result))
        until += (int64_t)seconds_of_hang() * 1000000000;
    bool is_asked = false;
    int got = 0;
    while (got <= 0 && kin__host_now() < until) { /* ends: in time */
        if (kin__stop_signal && !is_asked) {
            is_asked = true;
            (void)alarm(0); /* it ends by itself, and soon */
            (void)kill(keeper.pid, (int)kin__stop_signal);
            until = kin__host_now() + (int64_t)STOP_MS * slowness() * 1000000;
        }
        got = poll(&answer, 1, 100);
    }
    const bool is_told = got > 0 && read(keeper.told, &byte, 1) == 1;
    kin__crash_release(); /* from here on it tells nothing */
    return is_told;
}

void kin__crash_release(void)
{
    int how;
    if (!keeper.pid)
        return;
    (void)kill(keeper.pid, SIGKILL);
    kin__stop_reap(keeper.pid, &how);
    close_all((int[]){keeper.ask, keeper.told, keeper.schedule, keeper.note}, 4);
    keeper.pid = 0;
}
