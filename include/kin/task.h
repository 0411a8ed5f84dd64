/* SPDX-License-Identifier: MIT */
/*
 * Tasks: what a running task can ask, offer and end.
 */
#ifndef KIN_TASK_H
#define KIN_TASK_H

#include <kin/base.h>
#include <kin/run.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stdbool.h>
#include <stdint.h>

KIN_BEGIN_DECLS

/* A name for a task that stays safe when the task is over. {0} is nobody. */
struct kin_task_ref {
    uint64_t id;
};

/* How bad an end was; the larger is the worse. */
enum kin_severity { KIN_SEV_OK = 0, KIN_SEV_ERROR, KIN_SEV_CANCELLED, KIN_SEV_PANIC };

#define KIN_OUTCOME_TEXT 104 /* bytes of a text in an outcome, its end included */

/* How a task, or a nursery, ended. */
struct kin_outcome {
    enum kin_severity severity;
    int status;    /* 0, or why it failed */
    int value;     /* what a successful task returned */
    uint64_t task; /* whose end it was; 0: nobody's in particular */
    char text[KIN_OUTCOME_TEXT]; /* what kin_fail or kin_panic said, cut to fit; "": nothing */
};

/**
 * kin_self - the running task.
 *
 * Example:
 *     int cancel_later(struct kin_chan *names)
 *     {
 *         struct kin_task_ref me = kin_self();
 *         return kin_chan_send(names, &me, KIN_NEVER);
 *     }
 *
 * From:    anywhere
 * Returns: its name; {0} outside a task
 */
KIN_API struct kin_task_ref kin_self(void);

/**
 * kin_task_id - the number of a task, as reports print it.
 * @task: any name, stale ones too.
 *
 * Example:
 *     void say_hello(void)
 *     {
 *         printf("task %llu is here\n", (unsigned long long)kin_task_id(kin_self()));
 *     }
 *
 * From:    anywhere
 * Returns: the number; 0 for nobody
 */
KIN_API uint64_t kin_task_id(struct kin_task_ref task);

/**
 * kin_yield - let the other runnable tasks run.
 *
 * The task goes to the back of a queue of its own, behind everything that is runnable now.
 *
 * Example:
 *     int wait_for_flag(_Atomic int *flag)
 *     {
 *         while (!*flag) {
 *             int rc = kin_yield();
 *             if (rc < 0)
 *                 return rc;
 *         }
 *         return 0;
 *     }
 *
 * From:    task
 * Parks:   no, but others run
 * Cancel:  reports it, after the others ran
 * Returns: 0, KIN_CANCELLED, KIN_NOTASK
 * Spec:    [SCHED:4.2.1] [SCHED:4.2.2]
 */
KIN_API int kin_yield(void);

/**
 * kin_checkpoint - the cheap check for loops: yields when the task has had its share.
 *
 * Call it in every long loop. It costs a nanosecond or two and lets others run every so often.
 *
 * Example:
 *     int sum_up(const long *numbers, size_t count, long *sum)
 *     {
 *         for (size_t i = 0; i < count; i++) {
 *             int rc = kin_checkpoint();
 *             if (rc < 0)
 *                 return rc;
 *             *sum += numbers[i];
 *         }
 *         return 0;
 *     }
 *
 * From:    task
 * Parks:   no, but others may run
 * Cancel:  reports it
 * Budget:  1 op
 * Returns: 0, KIN_CANCELLED, KIN_TIMEOUT when a pushed deadline has passed, KIN_BUDGET when there
 *          are no operations left and nobody gives more, KIN_NOTASK
 * Spec:    [SCHED:4.1.1]
 */
KIN_API int kin_checkpoint(void);

/**
 * kin_cancelled - whether the running task was asked to stop.
 *
 * Example:
 *     int count_up(void *arg)
 *     {
 *         long *counter = arg;
 *         while (!kin_cancelled()) {
 *             ++*counter;
 *             kin_ignore(kin_checkpoint());
 *         }
 *         return KIN_CANCELLED;
 *     }
 *
 * From:    anywhere
 * Returns: true as soon as it was asked, also under a mask; false outside a task
 */
KIN_API bool kin_cancelled(void);

/**
 * kin_cancel_reason - why the running task was asked to stop.
 *
 * Example:
 *     int why(void)
 *     {
 *         if (kin_cancelled())
 *             fprintf(stderr, "asked to stop: %s\n", kin_status_text(kin_cancel_reason()));
 *         return kin_cancelled() ? KIN_CANCELLED : 0;
 *     }
 *
 * From:    anywhere
 * Returns: 0 while it was not asked; the first reason given, which later ones do not replace:
 *          KIN_TIMEOUT after its nursery's deadline, the first error after that of a sibling,
 *          KIN_CANCELLED when it was cancelled alone; KIN_STUCK once the grace is over
 */
KIN_API int kin_cancel_reason(void);

/**
 * kin_mask - hold cancellation back until kin_unmask.
 *
 * In between, waits are not ended by a cancellation and neither yield nor checkpoint reports one;
 * kin_cancelled does. A nursery that is opened in between is out of its reach, too, so that others
 * can help to clean up; if it is still open at kin_unmask, it is cancelled then. Deadlines hold as
 * ever. Masks nest, 255 deep at most. They are bounded: when the grace of the nursery that was
 * cancelled is over, the task is reported and its masks are void.
 *
 * Example:
 *     int say_goodbye(struct kin_chan *chan)
 *     {
 *         static const char bye[16] = "goodbye";
 *         kin_mask();
 *         int rc = kin_chan_send(chan, bye, kin_after(KIN_MS(100)));
 *         kin_unmask();
 *         return rc;
 *     }
 *
 * From:    task; elsewhere it does nothing
 * Parks:   no
 * Returns: nothing
 * Spec:    [NCG-3]
 */
KIN_API void kin_mask(void);

/**
 * kin_unmask - end the innermost kin_mask.
 *
 * One without a kin_mask before it aborts, naming the task.
 *
 * Example:
 *     int put_back(struct kin_mutex *lock, int *stock)
 *     {
 *         kin_mask();
 *         int rc = kin_mutex_lock(lock, kin_after(KIN_MS(100)));
 *         if (rc == 0) {
 *             ++*stock;
 *             kin_mutex_unlock(lock);
 *         }
 *         kin_unmask();
 *         return rc;
 *     }
 *
 * From:    task; elsewhere it does nothing
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_unmask(void);

/**
 * kin_deadline_push - tighten the deadline of everything this task waits for.
 * @deadline: when; one that is later than what is in force changes nothing.
 *
 * Waits that would go on past it return KIN_TIMEOUT; a join cancels its nursery then. A nursery
 * that is opened under it takes it as its own where it is tighter. KIN_WITHIN is the scoped form.
 *
 * Example:
 *     int ask(struct kin_chan *questions, struct kin_chan *answers, int *number)
 *     {
 *         kin_time before = kin_deadline_push(kin_after(KIN_MS(50)));
 *         int rc = kin_chan_send(questions, number, KIN_NEVER);
 *         if (rc == 0)
 *             rc = kin_chan_recv(answers, number, KIN_NEVER);
 *         kin_deadline_pop(before);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   no
 * Returns: what was in force before, for kin_deadline_pop; KIN_NEVER outside a task
 * Spec:    [N2001]
 */
KIN_API kin_time kin_deadline_push(kin_time deadline);

/**
 * kin_deadline_pop - back to the deadline that was in force.
 * @previous: what kin_deadline_push returned.
 *
 * Example:
 *     int nap(void)
 *     {
 *         kin_time before = kin_deadline_push(kin_after(KIN_MS(5)));
 *         int rc = kin_sleep(kin_after(KIN_SEC(1)));
 *         kin_deadline_pop(before);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_deadline_pop(kin_time previous);

/* The net under KIN_WITHIN. */
static inline void kin_within_leave_(kin_time *previous)
{
    kin_deadline_pop(*previous);
}

/* KIN_WITHIN(KIN_MS(50)); everything up to the end of the C scope has 50 ms. */
#define KIN_WITHIN(ns_) KIN_WITHIN_AT_(ns_, __LINE__)
#define KIN_WITHIN_AT_(ns_, line_) KIN_WITHIN_NAMED_(ns_, line_)
#define KIN_WITHIN_NAMED_(ns_, line_)                                                              \
    KIN_CLEANUP(kin_within_leave_)                                                                 \
    __attribute__((unused)) kin_time kin_within_##line_##_ = kin_deadline_push(kin_after(ns_))

/**
 * kin_task_cancel - ask one task to stop.
 * @task: any name.
 *
 * Asks, never waits. A task that has not begun never runs its body. A child that is cancelled alone
 * does not fail its nursery.
 *
 * Example:
 *     int work(void *arg);
 *
 *     int work_for_a_while(void *arg)
 *     {
 *         struct kin_task_ref worker;
 *         KIN_NURSERY(n);
 *         int rc = kin_spawn_with(&n, NULL, work, arg, 0, &worker);
 *         if (rc == 0)
 *             rc = kin_sleep(kin_after(KIN_SEC(1)));
 *         if (rc == 0)
 *             rc = kin_task_cancel(worker);
 *         return kin_nursery_end(&n, rc);
 *     }
 *
 * From:    anywhere
 * Returns: 0; KIN_STALE once its nursery is released, or it is over and kin_spawn_with named it to
 *          nobody
 */
KIN_API int kin_task_cancel(struct kin_task_ref task);

/**
 * kin_fail - end the running task with an error, from any depth.
 * @status: why; a status >= 0 counts as -EINVAL.
 * @fmt:    why, in words, as for kin_panic; NULL: there are none.
 *
 * The text goes with the status: it is in the outcome of the task, in the list of its nursery's
 * failures, and further outward as long as each task returns the status that it got. When it gets
 * to the first task, whose outcome nobody asks for, it is reported.
 *
 * Cleanups run and nurseries that the task has open are cancelled and joined, the newest first. C
 * frames in between are left without running, so what they hold must be known to a nursery or a
 * cleanup.
 *
 * Example:
 *     #include <errno.h>
 *
 *     long number_in(const char *text)
 *     {
 *         char *end;
 *         long number = strtol(text, &end, 10);
 *         if (*end)
 *             kin_fail(-EINVAL, "%s is no number", text);
 *         return number;
 *     }
 *
 * From:    task
 * Returns: never
 */
KIN_API KIN_NORETURN void kin_fail(int status, const char *fmt, ...) KIN_PRINTF(2, 3);

/**
 * kin_panic - end the running task because a rule of its own was broken.
 * @fmt: like printf: %s %d %u %x %c %p %ld %lu %lld %llu %zu and widths; from the first conversion
 *       that is none of these on, the text is printed as it is. NULL: no reason is given.
 *
 * As kin_fail, but the outcome is KIN_SEV_PANIC with KIN_PANICKED and the text is reported at once.
 * The process goes on. Outside a task it aborts.
 *
 * Example:
 *     int nth(const int *numbers, int count, int n)
 *     {
 *         if (n < 0 || n >= count)
 *             kin_panic("there are %d numbers, and no number %d", count, n);
 *         return numbers[n];
 *     }
 *
 * From:    anywhere
 * Returns: never
 */
KIN_API KIN_NORETURN void kin_panic(const char *fmt, ...) KIN_PRINTF(1, 2);

KIN_END_DECLS

#endif
