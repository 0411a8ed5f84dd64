/* SPDX-License-Identifier: MIT */
/*
 * Faults: overflows are caught and left by the thousand, everything else goes where it would have
 * gone without us.
 *
 * The sanitizers have handlers and interceptors of their own and keep shadow memory of stacks that
 * a caught overflow abandons: what depends on neither is tested under them, the rest is left out.
 */
#define _GNU_SOURCE 1
#include "base/atomic.h"
#include "kin_test.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define IS_PLAIN (!KIN__ASAN && !KIN__TSAN)

static enum kin__fault_action pass_all(struct kin__fault *fault)
{
    (void)fault;
    return KIN__FAULT_PASS;
}

/* ---- installing ---- */

static void (*handler_of(int signo))(int)
{
    struct sigaction action;

    EXPECT_EQ(sigaction(signo, NULL, &action), 0);
    return action.sa_handler;
}

static void stand_in(int signo)
{
    (void)signo;
}

static enum kin__fault_action pass_all_too(struct kin__fault *fault)
{
    (void)fault;
    return KIN__FAULT_PASS;
}

KIN_TEST(the_last_user_restores_what_was_there, "")
{
    EXPECT(signal(SIGSEGV, stand_in) != SIG_ERR);
    EXPECT(signal(SIGBUS, SIG_IGN) != SIG_ERR);
    EXPECT_EQ(kin__fault_init(pass_all), 0);
    EXPECT(handler_of(SIGSEGV) != stand_in);
    EXPECT(handler_of(SIGBUS) != SIG_IGN);
    EXPECT_EQ(kin__fault_init(pass_all), 0);
    EXPECT_EQ(kin__fault_init(pass_all_too), -EBUSY);
    kin__fault_fini();
    EXPECT(handler_of(SIGSEGV) != stand_in);
    kin__fault_fini();
    EXPECT(handler_of(SIGSEGV) == stand_in);
    EXPECT(handler_of(SIGBUS) == SIG_IGN);
    EXPECT_EQ(kin__fault_init(pass_all_too), 0);
    kin__fault_fini();
    EXPECT(handler_of(SIGSEGV) == stand_in);
}

KIN_TEST(a_handler_on_top_of_ours_stays, "")
{
    EXPECT_EQ(kin__fault_init(pass_all), 0);
    EXPECT(signal(SIGSEGV, stand_in) != SIG_ERR);
    kin__fault_fini();
    EXPECT(handler_of(SIGSEGV) == stand_in);
    EXPECT_EQ(kin__fault_init(pass_all_too), 0);
    EXPECT(handler_of(SIGSEGV) == stand_in); /* still on top: it may call ours */
    kin__fault_fini();
}

KIN_TEST(fini_without_init_aborts, "")
{
    EXPECT_ABORT ("init before fini") {
        kin__fault_fini();
    }
}

KIN_TEST(a_thread_gets_its_stack_and_has_the_old_one_back, "")
{
    static _Alignas(16) char mine[65536];
    stack_t alt = {.ss_sp = mine, .ss_size = sizeof mine}, now, first;

    EXPECT_EQ(sigaltstack(NULL, &first), 0);
    EXPECT_EQ(sigaltstack(&alt, NULL), 0);
    EXPECT_EQ(kin__fault_thread_init(), 0);
    EXPECT_EQ(kin__fault_thread_init(), 0); /* twice: nothing more happens */
    EXPECT_EQ(sigaltstack(NULL, &now), 0);
    EXPECT(now.ss_sp != mine);
    EXPECT_GE(now.ss_size, 65536);
    kin__fault_thread_fini();
    EXPECT_EQ(sigaltstack(NULL, &now), 0);
    EXPECT_PTR(now.ss_sp, mine);
    kin__fault_thread_fini();
    first.ss_flags &= SS_DISABLE;
    EXPECT_EQ(sigaltstack(&first, NULL), 0);
}

#if IS_PLAIN

/* ---- overflows ---- */

#define STACK_BYTES ((size_t)64 * 1024)
#define GUARD_BYTES ((size_t)16 * 1024)

/* One stack per thread, with all that its overflow needs. */
struct ground {
    struct kin__context home, context;
    char *map;
    unsigned valgrind_id;
    uint64_t caught, healthy;
    uintptr_t depth_mark;
};

static struct ground grounds[2];

static struct ground *ground_of(uintptr_t address)
{
    for (int i = 0; i < 2; i++)
        if (grounds[i].map && address - (uintptr_t)grounds[i].map < GUARD_BYTES)
            return &grounds[i];
    return NULL;
}

static void leave_overflow(void *arg)
{
    struct ground *ground = arg;

    /* As after a call. */
    EXPECT_EQ((uintptr_t)__builtin_frame_address(0) % 16, 0);
    ground->caught++;
    kin__context_jump(&ground->context, &ground->home, ground);
}

static enum kin__fault_action leave_by_guard(struct kin__fault *fault)
{
    struct ground *ground = ground_of(fault->address);

    if (!ground || fault->in_libc)
        return KIN__FAULT_PASS;
    if (fault->sp - (uintptr_t)ground->map > GUARD_BYTES + STACK_BYTES)
        return KIN__FAULT_PASS;
    fault->stack = (uintptr_t)ground->map + GUARD_BYTES + STACK_BYTES - 8; /* is aligned for us */
    fault->target = leave_overflow;
    fault->argument = ground;
    return KIN__FAULT_JUMP;
}

static volatile int keep_going = 1;

static __attribute__((noinline)) int recurse(int depth)
{
    volatile char frame[200];

    frame[0] = (char)depth;
    if (!keep_going)
        return 0;
    return recurse(depth + 1) + frame[0];
}

static void run_overflow(void *pass)
{
    (void)pass;
    (void)recurse(0);
    abort();
}

static void run_healthy(void *pass)
{
    struct ground *ground = pass;

    ground->healthy++;
    kin__context_jump(&ground->context, &ground->home, ground);
}

static void overflow_many(void *arg)
{
    struct ground *ground = arg;
    const int rounds = (int)(2000 / kin_test_scale());
    sigset_t mask;

    EXPECT_EQ(kin__fault_thread_init(), 0);
    ground->map = kin__vm_reserve(GUARD_BYTES + STACK_BYTES);
    EXPECT_EQ(kin__vm_guard(ground->map, GUARD_BYTES + STACK_BYTES, GUARD_BYTES, 1), 1);
    char *low = ground->map + GUARD_BYTES;
    ground->valgrind_id = kin__stack_announce(low, low + STACK_BYTES);
    kin__context_adopt(&ground->home);
    for (int i = 0; i < rounds; i++) {
        errno = 33;
        kin__context_make(&ground->context, low, low + STACK_BYTES, run_overflow);
        kin__context_switch(&ground->home, &ground->context, ground);
        EXPECT_EQ(errno, 33);
        kin__context_drop(&ground->context);
        kin__context_make(&ground->context, low, low + STACK_BYTES, run_healthy);
        kin__context_switch(&ground->home, &ground->context, ground);
        kin__context_drop(&ground->context);
        EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
        EXPECT_EQ(sigismember(&mask, SIGSEGV), 0);
    }
    EXPECT_EQ(ground->caught, rounds);
    EXPECT_EQ(ground->healthy, rounds);
    kin__stack_forget(ground->valgrind_id);
    ground->map = NULL; /* the addresses may become the other thread's */
    kin__vm_release(low - GUARD_BYTES, GUARD_BYTES + STACK_BYTES);
    kin__fault_thread_fini();
}

KIN_TEST(thousands_of_overflows_are_caught, "SCHED:5.3.3")
{
    EXPECT_EQ(kin__fault_init(leave_by_guard), 0);
    overflow_many(&grounds[0]);
    kin__fault_fini();
}

KIN_TEST(overflows_are_caught_in_several_threads_at_once, "SCHED:5.3.3")
{
    struct kin__thread threads[2];

    EXPECT_EQ(kin__fault_init(leave_by_guard), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(kin__thread_start(&threads[i], overflow_many, &grounds[i], 256 * 1024, "over"),
                  0);
    for (int i = 0; i < 2; i++)
        kin__thread_join(&threads[i]);
    kin__fault_fini();
}

/* ---- what the resolver is told ---- */

static struct kin__context fault_home, fault_flow;
static struct kin__fault seen;
static char *other_stack;

static void come_home(void *arg)
{
    kin__context_jump(&fault_flow, &fault_home, arg);
}

static enum kin__fault_action note_and_leave(struct kin__fault *fault)
{
    seen = *fault;
    fault->stack = (uintptr_t)other_stack + STACK_BYTES;
    fault->target = come_home;
    fault->argument = &seen;
    return KIN__FAULT_JUMP;
}

/* Runs body in a flow; it faults, and what the resolver saw is in seen. */
static void fault_in(void (*body)(void *))
{
    char *low = kin__vm_reserve(2 * STACK_BYTES);

    EXPECT(low != NULL);
    other_stack = low + STACK_BYTES;
    kin__context_adopt(&fault_home);
    kin__context_make(&fault_flow, low, low + STACK_BYTES, body);
    EXPECT_PTR(kin__context_switch(&fault_home, &fault_flow, low), &seen);
    EXPECT_GE(seen.sp, (uintptr_t)low);
    EXPECT_LT(seen.sp, (uintptr_t)low + STACK_BYTES);
    kin__context_drop(&fault_flow);
    kin__vm_release(low, 2 * STACK_BYTES);
}

static char *volatile bad_pointer = (char *)24;

static void touch_bad_pointer(void *pass)
{
    (void)pass;
    *bad_pointer = 1;
}

KIN_TEST(a_fault_is_described, "")
{
    EXPECT_EQ(kin__fault_init(note_and_leave), 0);
    EXPECT_EQ(kin__fault_thread_init(), 0);
    fault_in(touch_bad_pointer);
    EXPECT_EQ(seen.address, 24);
    EXPECT_LT(seen.pc - (uintptr_t)touch_bad_pointer, 64);
    kin__fault_thread_fini();
    kin__fault_fini();
}

static size_t (*volatile length_of)(const char *) = strlen;

static void let_libc_touch_it(void *pass)
{
    (void)pass;
    (void)length_of(bad_pointer);
}

KIN_TEST(a_fault_in_libc_is_known_as_such, "C8")
{
    EXPECT_EQ(kin__fault_init(note_and_leave), 0);
    EXPECT_EQ(kin__fault_thread_init(), 0);
    fault_in(let_libc_touch_it);
    EXPECT(seen.in_libc);
#if defined(__PIE__) || defined(__pie__)
    /* In a static program every fault counts as one in libc; this one is not static. */
    fault_in(touch_bad_pointer);
    EXPECT(!seen.in_libc);
#endif
    kin__fault_thread_fini();
    kin__fault_fini();
}

static char *bus_page;

static void touch_bus_page(void *pass)
{
    (void)pass;
    *(volatile char *)bus_page = 1;
}

KIN_TEST(a_bus_error_is_a_fault_too, "")
{
    char name[] = "/tmp/kin-fault-XXXXXX";
    int fd = kin_test_mkstemp(name);

    EXPECT_GE(fd, 0);
    EXPECT_EQ(unlink(name), 0);
    bus_page = mmap(NULL, kin__vm_page(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT(bus_page != MAP_FAILED);
    EXPECT_EQ(kin__fault_init(note_and_leave), 0);
    EXPECT_EQ(kin__fault_thread_init(), 0);
    fault_in(touch_bus_page);
    EXPECT_EQ(seen.address, (uintptr_t)bus_page);
    kin__fault_thread_fini();
    kin__fault_fini();
}

#if defined(__x86_64__)
/* The state in which a C function may be entered is restored: direction flag, x87 stack. */
static void fault_in_an_odd_state(void *pass)
{
    (void)pass;
    __asm__ volatile("fld1\n\tfld1\n\tfld1\n\tfld1\n\tfld1\n\tfld1\n\tfld1\n\tfld1\n\tstd\n\t"
                     "movb $1, (%0)" ::"r"(bad_pointer)
                     : "memory", "cc");
}

static uint64_t flags_at_landing;
static uint16_t tags_at_landing;

static void land_and_look(void *arg)
{
    struct {
        uint16_t control, unused0, status, unused1, tags, unused2;
        uint32_t more[4];
    } state;

    __asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags_at_landing));
    __asm__ volatile("cld\n\tfnstenv %0\n\tfldenv %0" : "=m"(state));
    tags_at_landing = state.tags;
    kin__context_jump(&fault_flow, &fault_home, arg);
}

static enum kin__fault_action leave_to_look(struct kin__fault *fault)
{
    enum kin__fault_action action = note_and_leave(fault);

    fault->target = land_and_look;
    return action;
}

KIN_TEST(a_target_is_entered_in_a_proper_state, "")
{
    EXPECT_EQ(kin__fault_init(leave_to_look), 0);
    EXPECT_EQ(kin__fault_thread_init(), 0);
    fault_in(fault_in_an_odd_state);
    EXPECT_EQ(flags_at_landing & 0x400, 0);
    EXPECT_EQ(tags_at_landing, 0xffff); /* all eight empty */
    kin__fault_thread_fini();
    kin__fault_fini();
}
#endif

/* ---- passing on ---- */

/* How a child ends that runs body after preparing: the signal, or 0. */
static int signal_that_ends(void (*prepare)(void), void (*body)(void *))
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        EXPECT(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
        if (prepare)
            prepare();
        if (kin__fault_init(pass_all) != 0 || kin__fault_thread_init() != 0)
            _exit(9);
        body(NULL);
        _exit(0);
    }
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void ignore_segv(void)
{
    EXPECT(signal(SIGSEGV, SIG_IGN) != SIG_ERR);
}

static void send_segv(void *pass)
{
    (void)pass;
    (void)raise(SIGSEGV);
}

KIN_TEST(without_a_handler_the_process_dies_as_it_would, "")
{
    EXPECT_EQ(signal_that_ends(NULL, touch_bad_pointer), SIGSEGV);
    EXPECT_EQ(signal_that_ends(NULL, send_segv), SIGSEGV);
}

KIN_TEST(ignoring_works_for_sent_signals_only, "")
{
    EXPECT_EQ(signal_that_ends(ignore_segv, touch_bad_pointer), SIGSEGV);
    EXPECT_EQ(signal_that_ends(ignore_segv, send_segv), 0);
}

static sigjmp_buf way_back;
static int old_signo;
static void *old_address;
static int old_is_blocked, old_usr1_blocked, old_usr2_blocked;

static void note_mask(void)
{
    sigset_t mask;

    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    old_is_blocked = sigismember(&mask, SIGSEGV);
    old_usr1_blocked = sigismember(&mask, SIGUSR1);
    old_usr2_blocked = sigismember(&mask, SIGUSR2);
}

static void on_old_fault(int signo, siginfo_t *info, void *context)
{
    (void)context;
    old_signo = signo;
    old_address = info->si_addr;
    note_mask();
    siglongjmp(way_back, 1);
}

static void on_old_plain_fault(int signo)
{
    old_signo = signo;
    note_mask();
    siglongjmp(way_back, 1);
}

static __attribute__((noinline)) void fault_and_come_back(void)
{
    if (sigsetjmp(way_back, 1) == 0)
        touch_bad_pointer(NULL);
}

KIN_TEST(an_earlier_handler_gets_what_we_pass_on, "")
{
    struct sigaction action = {.sa_flags = SA_SIGINFO};

    action.sa_sigaction = on_old_fault;
    EXPECT_EQ(sigaddset(&action.sa_mask, SIGUSR1), 0);
    EXPECT_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    EXPECT_EQ(kin__fault_init(pass_all), 0);
    EXPECT_EQ(kin__fault_thread_init(), 0);
    for (int i = 0; i < 100; i++) {
        old_signo = 0;
        fault_and_come_back();
        EXPECT_EQ(old_signo, SIGSEGV);
        EXPECT_PTR(old_address, bad_pointer);
        EXPECT_EQ(old_is_blocked, 1);
        EXPECT_EQ(old_usr1_blocked, 1); /* by its own mask */
        EXPECT_EQ(old_usr2_blocked, 0); /* by nobody's but ours */
    }
    kin__fault_fini();
    kin__fault_thread_fini();
}

KIN_TEST(an_earlier_plain_handler_is_called_as_one, "")
{
    struct sigaction action = {.sa_flags = SA_NODEFER};

    action.sa_handler = on_old_plain_fault;
    EXPECT_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    EXPECT_EQ(kin__fault_init(pass_all), 0);
    EXPECT_EQ(kin__fault_thread_init(), 0);
    fault_and_come_back();
    EXPECT_EQ(old_signo, SIGSEGV);
    EXPECT_EQ(old_is_blocked, 0); /* it asked for that */
    kin__fault_fini();
    kin__fault_thread_fini();
}

static enum kin__fault_action report_and_abort(struct kin__fault *fault)
{
    (void)fault;
    kin__plat_write(2, "reported\n", 9);
    return KIN__FAULT_ABORT;
}

KIN_TEST(a_resolver_may_end_the_process, "")
{
    EXPECT_EQ(kin__fault_init(report_and_abort), 0);
    EXPECT_EQ(kin__fault_thread_init(), 0);
    EXPECT_ABORT ("reported") {
        *bad_pointer = 1;
    }
    kin__fault_fini();
    kin__fault_thread_fini();
}

#endif
