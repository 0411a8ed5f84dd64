/* SPDX-License-Identifier: MIT */
/*
 * The lab: a test run under every schedule that matters, with the failing one to replay.
 *
 * A test links kin-lab (pkg-config kin-lab, CMake kin::lab) instead of kin; nothing else in the
 * program changes. Inside of kin_lab_run tasks take turns on the calling thread, time is virtual
 * and jumps when every task waits, and whatever could happen in more than one way is decided by a
 * strategy. The same seed gives the same run.
 *
 *     #include <kin/kin.h>
 *     #include <kin/lab.h>
 *
 *     static int add(void *chan)
 *     {
 *         return kin_chan_send(chan, &(int){1}, KIN_NEVER);
 *     }
 *     KIN_LAB(two_are_added, .strategy = KIN_LAB_DPOR)
 *     {
 *         struct kin_chan *chan;
 *         int sum = 0, value;
 *         KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
 *         KIN_NURSERY(n);
 *         KIN_LAB_OK(kin_spawn(&n, add, chan));
 *         KIN_LAB_OK(kin_spawn(&n, add, chan));
 *         for (int i = 0; i < 2 && kin_chan_recv(chan, &value, KIN_NEVER) == 0; i++)
 *             sum += value;
 *         KIN_LAB_OK(kin_nursery_join(&n, NULL));
 *         kin_chan_unref(chan);
 *         kin_lab_assert(sum == 2, "both are seen");
 *         return 0;
 *     }
 *     KIN_LAB_MAIN()
 *
 * A task can be interrupted where it calls kin, also where it only looks or gives something back,
 * at every KIN_SHARED, and before its end; with any number of workers. Plain memory that tasks
 * share without kin's objects is said with KIN_SHARED(x); a complete exploration covers kin's
 * objects and those words, no others. It is not complete once the test has drawn random numbers,
 * because other seeds may come out in another way, nor if endless schedules were left out: those of
 * a loop that looks for what others do. Nobody who can run is passed over for ever, and time passes
 * only when nobody can run: a loop that waits for a moment without kin_sleep or a deadline is a
 * livelock.
 *
 * A test is run again and again in one process: what it needs it makes itself, and gives back.
 * Variables with static storage keep what the last run left in them.
 */
#ifndef KIN_LAB_H
#define KIN_LAB_H

#include <kin/base.h>
#include <kin/run.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

/* In kin-lab, not in kin. */
#define KIN_LAB_API __attribute__((visibility("default")))

/* Who decides. */
enum kin_lab_strategy {
    KIN_LAB_AUTO = 0,    /* round-robin once, then all others by turns */
    KIN_LAB_ROUND_ROBIN, /* each task in turn, no faults: one run says it all */
    KIN_LAB_RANDOM,      /* anybody; every fifth run starves one task for a while */
    KIN_LAB_PCT,         /* priorities with depth - 1 changes */
    KIN_LAB_DPOR,        /* one of every class of schedules that differ at all: exhaustive */
    KIN_LAB_REPLAY,      /* as replay_file says */
    KIN_LAB_BYTES        /* as bytes say, which are a fuzzer's: one run */
};

/* What may go wrong on purpose: bits of config.faults. Each run has at most one of the first six
 * unless KIN_FAULT_CHAOS is set. */
#define KIN_FAULT_OOM 1u      /* a request for memory fails, or each one from there on */
#define KIN_FAULT_CANCEL 2u   /* a task is cancelled, wherever it is */
#define KIN_FAULT_FAIL 4u     /* a task fails where it calls kin; never the first one, nor in a
                               * cleanup, nor where it gives something back */
#define KIN_FAULT_PANIC 8u    /* a task panics there */
#define KIN_FAULT_DEADLINE 16u /* the deadline of a wait comes first */
#define KIN_FAULT_BUDGET 32u  /* a budget is used up */
#define KIN_FAULT_DELAY 64u   /* time passes though somebody could run */
#define KIN_FAULT_NET 128u    /* the network: short, late, lost, refused, reset, ... */
#define KIN_FAULT_FILE 256u   /* a call on a file fails, is short, or finds the disk full */
#define KIN_FAULT_CHAOS 1024u /* any number of them in the first half of a run, then none */
#define KIN_FAULT_EACH 2048u  /* each schedule is run again for each place where one can happen */

/* What is looked at: bits of config.oracles; 0: all. */
#define KIN_ORACLE_DEADLOCK 1u     /* deadlock */
#define KIN_ORACLE_WAKE 2u         /* lost-wake, double-enqueue */
#define KIN_ORACLE_ORPHAN 4u       /* no-orphan, quiescence */
#define KIN_ORACLE_OBLIGATION 8u   /* obligation-leak */
#define KIN_ORACLE_LEAK 16u        /* leak, use-after-free */
#define KIN_ORACLE_PROGRESS 32u    /* starvation, livelock */
#define KIN_ORACLE_CANCEL 64u      /* cancellation-bounded, loser-drain */
#define KIN_ORACLE_ORDER 128u      /* fifo, linearizability, lifo-cleanup */
#define KIN_ORACLE_RESULT 256u     /* error-priority, return */
#define KIN_ORACLE_BUDGET 512u     /* budget-conservation */
#define KIN_ORACLE_SERVERS 1024u   /* system-message-order, registry-clean, reply-linearity,
                                      restart-monotone */

/* What kin_lab_run is told. 0 is the default of each. */
struct kin_lab_config {
    size_t size;   /* KIN_LAB_CONFIG_INIT sets it */
    uint64_t seed;
    unsigned workers;        /* what kin_config.workers says to the program, no more; 0: 2 */
    enum kin_lab_strategy strategy;
    uint64_t executions_max; /* 0: no limit for DPOR, 2 s for AUTO, 1 for round-robin, else 1000.
                              * Those count, too, that DPOR breaks off because they lead nowhere */
    unsigned depth;          /* of PCT; 0: 3 */
    unsigned preemptions;    /* DPOR runs only schedules with so many at most; 0: no limit */
    uint32_t faults;         /* KIN_FAULT_ bits */
    uint32_t oracles;        /* KIN_ORACLE_ bits; 0: all */
    int64_t time_max;        /* virtual time of one run; 0: a day. Longer is a livelock */
    const char *replay_file;
    const char *report_dir;  /* where the schedule of a failure goes; NULL: nowhere */
    const void *bytes;       /* of BYTES: each decision takes one, or as many as it needs. Behind
                              * the last one whoever runs goes on, and nothing fails */
    size_t bytes_count;
};
#define KIN_LAB_CONFIG_INIT                                                                        \
    { sizeof(struct kin_lab_config), 0, 0, KIN_LAB_AUTO, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#ifndef __cplusplus
#define KIN_LAB_CONFIG(...) KIN_OPTIONS_(kin_lab_config, __VA_ARGS__)
#endif

/* What came out. Strings live until the next kin_lab_run. */
struct kin_lab_report {
    uint64_t executions;    /* runs, without those that shrank a failure or checked themselves */
    uint64_t steps;         /* in them */
    uint64_t schedule_hash; /* of the failing run, or of the last one */
    uint64_t failing_seed;  /* with the same strategy the first run fails, with KIN_FAULT_EACH one
                               of its sweep; 0: DPOR, replay */
    int status;             /* what kin_lab_run returns */
    bool exhausted;         /* DPOR: nothing is left of all that .covers speaks of, and nothing was
                             * left out; see the head of this file */
    const char *oracle;     /* "assert", "return", "deadlock", "lost-wake", ...; NULL: no failure */
    const char *text;       /* the failure in words; "" when there is none */
    const char *replay_file; /* where the failing schedule is; NULL: nowhere */
    const char *covers;     /* a line: what was gone through, and what was not */
};

/**
 * kin_lab_run - run a test under many schedules.
 * @config: borrowed; NULL for all defaults.
 * @test:   the first task of every run.
 * @arg:    handed to test.
 * @out:    receives what came out; NULL if the status is enough.
 *
 * A run fails by an assertion, by an oracle (a deadlock, a lost wake, something that was not given
 * back, ...), or when test returns a negative number. The first failure is shrunk to a schedule
 * with few switches, described in out->text, and ends the call.
 *
 * Example:
 *     #include <kin/lab.h>
 *     int explore(kin_task_fn *test)
 *     {
 *         struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
 *         struct kin_lab_report report;
 *         config.strategy = KIN_LAB_DPOR;
 *         int rc = kin_lab_run(&config, test, NULL, &report);
 *         if (rc < 0)
 *             fputs(report.text, stderr);
 *         else if (report.exhausted)
 *             printf("complete: all %llu schedules pass\n", (unsigned long long)report.executions);
 *         return rc;
 *     }
 *
 * With KIN_LAB_BYTES a fuzzer decides: -fsanitize=fuzzer, and no main.
 *
 * Example:
 *     #include <kin/lab.h>
 *     extern int test(void *arg); // the first task
 *     int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
 *     {
 *         struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
 *         struct kin_lab_report report;
 *         config.strategy = KIN_LAB_BYTES;
 *         config.bytes = bytes;
 *         config.bytes_count = size;
 *         if (kin_lab_run(&config, test, NULL, &report) < 0) {
 *             fputs(report.text, stderr);
 *             abort();
 *         }
 *         return 0;
 *     }
 *
 * From:    thread; one call at a time in a process
 * Parks:   no
 * Returns: 0 when no run failed, else the status of the failure: KIN_PANICKED for an assertion,
 *          KIN_DEADLOCK, KIN_LEAKED, what test returned, ...; -EINVAL for a wrong config, -EBUSY
 *          inside of a run, -ENOMEM, -errno of a replay file that cannot be read
 */
KIN_LAB_API KIN_MUST_USE int kin_lab_run(const struct kin_lab_config *config, kin_task_fn *test,
                                         void *arg, struct kin_lab_report *out);

/**
 * kin_lab_run_host - run a function that is no task, and calls kin_run, under many schedules.
 * @config: borrowed; NULL for all defaults.
 * @test:   called outside of any task, once for every run.
 * @arg:    handed to test.
 * @out:    receives what came out; NULL if the status is enough.
 *
 * For programs whose tests begin before the runtime does. Everything else is as in kin_lab_run.
 *
 * Example:
 *     #include <kin/lab.h>
 *     static int first(void *ran)
 *     {
 *         *(bool *)ran = true;
 *         return 0;
 *     }
 *     static int program(void *arg)
 *     {
 *         bool ran = false;
 *         (void)arg;
 *         int rc = kin_run(NULL, first, &ran);
 *         kin_lab_assert(rc < 0 || ran, "the first task runs");
 *         return rc;
 *     }
 *     int main(void)
 *     {
 *         return kin_lab_run_host(NULL, program, NULL, NULL) == 0 ? 0 : 1;
 *     }
 *
 * From:    thread; one call at a time in a process
 * Parks:   no
 * Returns: as kin_lab_run
 */
KIN_LAB_API KIN_MUST_USE int kin_lab_run_host(const struct kin_lab_config *config,
                                              kin_task_fn *test, void *arg,
                                              struct kin_lab_report *out);

/**
 * kin_lab_assert - what must hold in every run.
 * @ok:   whether it holds.
 * @what: in words, for the report; constant.
 *
 * When it does not hold the run has failed: the running task ends as by kin_fail, and the others
 * are cancelled.
 *
 * Example:
 *     #include <kin/lab.h>
 *     static int sell(void *tickets)
 *     {
 *         if (KIN_SHARED(*(int *)tickets) > 0)
 *             KIN_SHARED(*(int *)tickets)--; // somebody else may have been here in between
 *         return 0;
 *     }
 *     KIN_LAB(nobody_sells_what_is_not_there)
 *     {
 *         int tickets = 1;
 *         KIN_NURSERY(n);
 *         KIN_LAB_OK(kin_spawn(&n, sell, &tickets));
 *         KIN_LAB_OK(kin_spawn(&n, sell, &tickets));
 *         KIN_LAB_OK(kin_nursery_join(&n, NULL));
 *         kin_lab_assert(tickets == 0, "one ticket is sold once"); // fails
 *         return 0;
 *     }
 *     KIN_LAB_MAIN()
 *
 * From:    task, thread
 * Parks:   no
 * Returns: nothing; not at all in a task when it does not hold
 */
KIN_LAB_API void kin_lab_assert(bool ok, const char *what);

/**
 * kin_lab_random - a number that the seed decides.
 *
 * Different tasks draw from streams of their own, so that what one gets does not depend on when
 * others draw.
 *
 * Example:
 *     #include <kin/lab.h>
 *     KIN_LAB(whatever_comes_is_taken, .strategy = KIN_LAB_RANDOM)
 *     {
 *         struct kin_chan *chan;
 *         uint64_t sent = kin_lab_random(), got = 0; // --seed 17 makes it the same again
 *         KIN_LAB_OK(kin_chan_create(&chan, sizeof(sent), 1));
 *         KIN_LAB_OK(kin_chan_send(chan, &sent, KIN_NEVER));
 *         KIN_LAB_OK(kin_chan_recv(chan, &got, KIN_NEVER));
 *         kin_chan_unref(chan);
 *         kin_lab_assert(got == sent, "it is what was sent");
 *         return 0;
 *     }
 *     KIN_LAB_MAIN()
 *
 * From:    task
 * Parks:   no
 * Returns: 64 bits; 0 outside of a run
 */
KIN_LAB_API uint64_t kin_lab_random(void);

/**
 * kin_lab_choose - a number that the strategy decides.
 * @n:     how many there are to choose from, at least 1.
 * @label: what is chosen; constant.
 *
 * An exhaustive exploration goes through all of them.
 *
 * Example:
 *     #include <kin/lab.h>
 *     KIN_LAB(a_send_that_does_not_wait_needs_room, .strategy = KIN_LAB_DPOR)
 *     {
 *         struct kin_chan *chan;
 *         uint32_t room = kin_lab_choose(3, "room"); // runs with 0, with 1 and with 2
 *         KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), room));
 *         int rc = kin_chan_send(chan, &(int){7}, 0);
 *         kin_chan_unref(chan);
 *         kin_lab_assert(rc == (room > 0 ? 0 : KIN_FULL), "without room it is not sent");
 *         return 0;
 *     }
 *     KIN_LAB_MAIN()
 *
 * From:    task
 * Parks:   no
 * Returns: 0 to n - 1; 0 outside of a run
 */
KIN_LAB_API uint32_t kin_lab_choose(uint32_t n, const char *label);

/**
 * kin_lab_fault - whether something goes wrong here, on purpose.
 * @label: what; constant.
 *
 * For faults of the program's own: in a lab run with any fault bit set it is true now and then. See
 * KIN_BUGGIFY for code that also runs outside of the lab.
 *
 * Example:
 *     #include <kin/lab.h>
 *     static int twice(int number)
 *     {
 *         if (kin_lab_fault("the cache has forgotten"))
 *             return number + number; // the slow way is tried, too
 *         return number << 1;
 *     }
 *     KIN_LAB(both_ways_lead_there, .faults = KIN_FAULT_DELAY)
 *     {
 *         kin_lab_assert(twice(3) == 6, "twice three is six");
 *         return 0;
 *     }
 *     KIN_LAB_MAIN()
 *
 * From:    task
 * Parks:   no
 * Returns: true when it does; false outside of a run
 */
KIN_LAB_API bool kin_lab_fault(const char *label);

/**
 * kin_lab_wait_all_blocked - wait until every other task waits.
 *
 * Time does not count: it returns before the clock jumps. Of several tasks that wait for this the
 * one that came last goes first.
 *
 * Example:
 *     #include <kin/lab.h>
 *     static int wait_for(void *event)
 *     {
 *         return kin_event_wait(event, KIN_NEVER);
 *     }
 *     KIN_LAB(an_event_wakes_everybody)
 *     {
 *         struct kin_event event = {0};
 *         KIN_NURSERY(n);
 *         KIN_LAB_OK(kin_spawn(&n, wait_for, &event));
 *         KIN_LAB_OK(kin_spawn(&n, wait_for, &event));
 *         KIN_LAB_OK(kin_lab_wait_all_blocked()); // both wait from here on
 *         kin_event_set(&event);
 *         return kin_nursery_join(&n, NULL);
 *     }
 *     KIN_LAB_MAIN()
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Returns: 0, KIN_CANCELLED, KIN_NOTASK, KIN_UNSUPPORTED outside of the lab
 */
KIN_LAB_API KIN_MUST_USE int kin_lab_wait_all_blocked(void);

/**
 * kin_lab_advance - let virtual time pass, though somebody could run.
 * @ns: how much; not negative.
 *
 * What becomes due on the way happens before the call returns.
 *
 * Example:
 *     #include <kin/lab.h>
 *     KIN_LAB(an_hour_is_nothing)
 *     {
 *         kin_time deadline = kin_after(KIN_SEC(3600));
 *         kin_lab_advance(KIN_SEC(3600));
 *         kin_lab_assert(kin_now() >= deadline, "the deadline has come");
 *         return 0;
 *     }
 *     KIN_LAB_MAIN()
 *
 * From:    task
 * Parks:   no
 * Returns: nothing
 */
KIN_LAB_API void kin_lab_advance(int64_t ns);

/**
 * kin_lab_crash_files - let the power go, and come back.
 *
 * Files in the lab are in memory and begin empty in each run, but for a directory /tmp. A crash
 * leaves what is on the disk for certain: the contents of files that kin_fsync or kin_fdatasync was
 * called for, names in directories that kin_fsync was called for. What was written, made, renamed
 * or removed since may be there or not, each by itself; of a write also one half, or zeros where
 * the file grew. Which is a choice of the strategy: an exhaustive exploration goes through all of
 * them.
 *
 * The caller stands for what comes after the crash: it, and tasks that it spawns from then on, find
 * the disk as it is. To all other tasks and to descriptors of before every call on a file is -EIO;
 * end the tasks, close the descriptors.
 *
 * Example:
 *     #include <kin/lab.h>
 *     int crash_and_look(struct kin_nursery *writers, const char *path)
 *     {
 *         int fd;
 *         kin_lab_crash_files();
 *         kin_nursery_cancel(writers, 0);
 *         kin_ignore(kin_nursery_join(writers, NULL));
 *         int rc = kin_open(path, O_RDONLY, 0, &fd);
 *         return rc < 0 ? rc : kin_close(fd);
 *     }
 *
 * From:    task
 * Parks:   no
 * Returns: nothing
 */
KIN_LAB_API void kin_lab_crash_files(void);

/**
 * kin_lab_raise - let a signal arrive.
 * @signo: as for kin_signal_wait.
 *
 * Signals of the system do not arrive in the lab, these do: for whoever waits by kin_signal_wait or
 * kin_case_signal, or asked for kin_shutdown_on_signals. One that nobody holds, and that would end
 * a process, ends the run: it has failed, the oracle is "signal".
 *
 * Example:
 *     #include <kin/lab.h>
 *     static int serve(void *arg)
 *     {
 *         (void)arg;
 *         return kin_sleep(KIN_NEVER);
 *     }
 *     KIN_LAB(a_signal_ends_the_service)
 *     {
 *         KIN_NURSERY(n);
 *         KIN_LAB_OK(kin_shutdown_on_signals(&n));
 *         KIN_LAB_OK(kin_spawn(&n, serve, NULL));
 *         KIN_LAB_OK(kin_lab_raise(SIGTERM));
 *         kin_lab_assert(kin_nursery_join(&n, NULL) == KIN_CANCELLED, "it ends by the signal");
 *         return 0;
 *     }
 *     KIN_LAB_MAIN()
 *
 * From:    task
 * Parks:   no
 * Returns: 0, KIN_NOTASK, -EINVAL for one that cannot be waited for
 */
KIN_LAB_API KIN_MUST_USE int kin_lab_raise(int signo);

/**
 * kin_lab_switches - how often the running task could have been interrupted so far.
 *
 * KIN_ASSERT_YIELDS and KIN_ASSERT_NO_YIELD compare two of them.
 *
 * Example:
 *     #include <kin/lab.h>
 *     KIN_LAB(a_yield_lets_others_run)
 *     {
 *         uint64_t before = kin_lab_switches();
 *         KIN_LAB_OK(kin_yield());
 *         kin_lab_assert(kin_lab_switches() > before, "somebody could have run");
 *         KIN_ASSERT_NO_YIELD
 *         {
 *             (void)kin_now();
 *         }
 *         return 0;
 *     }
 *     KIN_LAB_MAIN()
 *
 * From:    task
 * Parks:   no
 * Returns: a count that only grows; 0 outside of a run
 */
KIN_LAB_API uint64_t kin_lab_switches(void);

/* The block lets others run at least once; or never. */
#define KIN_ASSERT_YIELDS                                                                          \
    for (uint64_t kin_lab_at_ = kin_lab_switches(), kin_lab_once_ = 1; kin_lab_once_;              \
         kin_lab_once_ = 0, kin_lab_assert(kin_lab_switches() != kin_lab_at_, "the block yields"))
#define KIN_ASSERT_NO_YIELD                                                                        \
    for (uint64_t kin_lab_at_ = kin_lab_switches(), kin_lab_once_ = 1; kin_lab_once_;              \
         kin_lab_once_ = 0,                                                                        \
                  kin_lab_assert(kin_lab_switches() == kin_lab_at_, "the block does not yield"))

/* The lvalue, recorded as a write to that word: plain memory that tasks share. Others may run right
 * before it is evaluated. In a program that links kin it is the lvalue and no more. */
void *kin_lab_shared_(const volatile void *address) __attribute__((weak));
#define KIN_SHARED(lvalue)                                                                         \
    (*(__extension__({                                                                             \
        __typeof__(&(lvalue)) kin_lab_address_ = &(lvalue);                                        \
        if (kin_lab_shared_)                                                                       \
            (void)kin_lab_shared_((const volatile void *)kin_lab_address_);                        \
        kin_lab_address_;                                                                          \
    })))

/* True now and then in a run of the lab with faults; false in a program that links kin. */
bool kin_lab_buggify_(const char *label) __attribute__((weak));
#define KIN_BUGGIFY(label) (kin_lab_buggify_ && kin_lab_buggify_(label))

/* ---- the simulated network ---- */

/**
 * kin_lab_host - add a machine to the network of this run.
 * @name: borrowed; small letters, digits and '-'. It resolves to 10.0.0.2 for the first machine
 *        that is added, 10.0.0.3 for the second, and so on.
 *
 * One machine is there from the beginning: "lab", 10.0.0.1. Every task is on the machine of the
 * task that spawned it, unless it moves. A test without machines has its network on that one.
 *
 * Example:
 *     #include <kin/lab.h>
 *     KIN_LAB(machines_have_names)
 *     {
 *         char addresses[4][KIN_ADDR_MAX];
 *         KIN_LAB_OK(kin_lab_host("server"));
 *         int count = kin_resolve("server", addresses, 4, kin_after(KIN_SEC(5)));
 *         kin_lab_assert(count == 1 && strcmp(addresses[0], "10.0.0.2") == 0, "it is the second");
 *         return 0;
 *     }
 *     KIN_LAB_MAIN()
 *
 * From:    task
 * Parks:   no
 * Returns: 0, -EEXIST, -ENOSPC beyond 64 machines, -EINVAL, KIN_UNSUPPORTED outside of a run
 */
KIN_LAB_API KIN_MUST_USE int kin_lab_host(const char *name);

/**
 * kin_lab_move - the running task is on another machine from here on.
 * @name: borrowed; "lab", or one of kin_lab_host.
 *
 * It decides which machine "localhost" and a listener of "*:80" are, and where what the task opens
 * or spawns from here on is. Descriptors stay where they were opened.
 *
 * Example:
 *     #include <kin/lab.h>
 *
 *     static int serve(void *arg)
 *     {
 *         int listener, conn;
 *         (void)arg;
 *         int rc = kin_lab_move("server");
 *         if (rc == 0)
 *             rc = kin_tcp_listen("*:7000", NULL, &listener);
 *         if (rc < 0)
 *             return rc;
 *         rc = kin_accept(listener, &conn, kin_after(KIN_SEC(10)));
 *         if (rc == 0)
 *             kin_close(conn);
 *         kin_close(listener);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   no
 * Returns: 0, KIN_NOPROC for a machine that is not there, KIN_UNSUPPORTED outside of a run
 */
KIN_LAB_API KIN_MUST_USE int kin_lab_move(const char *name);

/**
 * kin_lab_partition - cut the network between machines, or mend it.
 * @a:      borrowed; a machine.
 * @b:      borrowed; another one, or NULL for all others.
 * @is_cut: whether nothing gets through from here on.
 *
 * What is written while there is no way arrives when there is one again. Who connects gets no
 * answer, until there is one again or -ETIMEDOUT after 127 virtual seconds. Datagrams are lost.
 *
 * Example:
 *     #include <kin/lab.h>
 *
 *     static int cut_for_a_minute(void *arg)
 *     {
 *         (void)arg;
 *         int rc = kin_lab_partition("server", NULL, true);
 *         if (rc == 0)
 *             rc = kin_sleep(kin_after(KIN_SEC(60)));
 *         return rc < 0 ? rc : kin_lab_partition("server", NULL, false);
 *     }
 *
 * From:    task
 * Parks:   no
 * Returns: 0, KIN_NOPROC for a machine that is not there, KIN_UNSUPPORTED outside of a run
 */
KIN_LAB_API KIN_MUST_USE int kin_lab_partition(const char *a, const char *b, bool is_cut);

/**
 * kin_lab_latency - how long it takes from one machine to another, and back.
 * @a:  borrowed; a machine.
 * @b:  borrowed; another one, or the same, or NULL for all others.
 * @ns: virtual time for one way; 0, as at the beginning: what is sent is there at once.
 *
 * Example:
 *     #include <kin/lab.h>
 *     static int answer(void *listener)
 *     {
 *         int conn;
 *         int rc = kin_accept(*(int *)listener, &conn, KIN_NEVER);
 *         return rc < 0 ? rc : kin_close(conn);
 *     }
 *     KIN_LAB(far_away)
 *     {
 *         int listener, conn;
 *         KIN_LAB_OK(kin_lab_host("client"));
 *         KIN_LAB_OK(kin_lab_latency("client", "lab", KIN_MS(40)));
 *         KIN_LAB_OK(kin_tcp_listen("*:7000", NULL, &listener));
 *         KIN_NURSERY(n);
 *         KIN_LAB_OK(kin_spawn(&n, answer, &listener));
 *         KIN_LAB_OK(kin_lab_move("client"));
 *         kin_time start = kin_now();
 *         KIN_LAB_OK(kin_tcp_connect("lab:7000", &conn, KIN_NEVER));
 *         kin_lab_assert(kin_now() - start >= KIN_MS(80), "there and back");
 *         kin_close(conn);
 *         KIN_LAB_OK(kin_nursery_join(&n, NULL));
 *         return kin_close(listener);
 *     }
 *     KIN_LAB_MAIN()
 *
 * From:    task
 * Parks:   no
 * Returns: 0, KIN_NOPROC for a machine that is not there, -EINVAL, KIN_UNSUPPORTED outside of a run
 */
KIN_LAB_API KIN_MUST_USE int kin_lab_latency(const char *a, const char *b, int64_t ns);

/* ---- tests with a command line ---- */

struct kin_lab_test {
    const char *name, *file;
    kin_task_fn *fn;
    struct kin_lab_config config;
    struct kin_lab_test *next;
};

/* For the macros below. */
KIN_LAB_API void kin_lab_register_(struct kin_lab_test *test);
KIN_LAB_API int kin_lab_ok_(int rc, const char *call);

/**
 * kin_lab_main - run the tests that KIN_LAB has defined, as the command line says.
 * @argc: as main got it.
 * @argv: as main got it; --help tells what it understands.
 *
 * Example:
 *     #include <kin/lab.h>
 *     KIN_LAB(nothing_goes_wrong)
 *     {
 *         return 0;
 *     }
 *     int main(int argc, char **argv) // KIN_LAB_MAIN() is the same
 *     {
 *         return kin_lab_main(argc, argv);
 *     }
 *
 * From:    thread
 * Parks:   no
 * Returns: what main returns: 0 when no test failed
 */
KIN_LAB_API int kin_lab_main(int argc, char **argv);

/* A test: KIN_LAB(name, .strategy = KIN_LAB_DPOR, .faults = KIN_FAULT_OOM) { ...; return 0; }, with
 * fields of struct kin_lab_config. What the body itself has made and not given back when it returns
 * is taken back by the lab; what other tasks leave is a leak. */
#define KIN_LAB(...) KIN_LAB_DEFINE_(__VA_ARGS__, .size = sizeof(struct kin_lab_config))
#define KIN_LAB_DEFINE_(test_name, ...)                                                            \
    static int test_name(void *kin_lab_arg_);                                                      \
    static struct kin_lab_test kin_lab_test_of_##test_name = {                                     \
        #test_name, __FILE__, test_name, {__VA_ARGS__}, NULL};                                     \
    __attribute__((constructor)) static void kin_lab_add_##test_name(void)                         \
    {                                                                                              \
        kin_lab_register_(&kin_lab_test_of_##test_name);                                           \
    }                                                                                              \
    static int test_name(__attribute__((unused)) void *kin_lab_arg_)

/* The call must succeed, unless a fault was planned: then the test is over and has passed. Inside
 * the body of a KIN_LAB. */
#define KIN_LAB_OK(call)                                                                           \
    do {                                                                                           \
        int kin_lab_rc_ = (call);                                                                  \
        if (kin_lab_rc_ < 0)                                                                       \
            return kin_lab_ok_(kin_lab_rc_, #call);                                                \
    } while (0)

#define KIN_LAB_MAIN()                                                                             \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return kin_lab_main(argc, argv);                                                           \
    }

KIN_END_DECLS

#endif
