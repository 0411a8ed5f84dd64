/* SPDX-License-Identifier: MIT */
/*
 * Cleanups: what a task owes on every way out, the newest first.
 *
 *     int serve(void *arg)
 *     {
 *         struct conn *conn = conn_open(arg);
 *         int rc = kin_defer(conn_close, conn);      runs when the task is over, however it ends
 *         if (rc < 0) {
 *             conn_close(conn);
 *             return rc;
 *         }
 *         ...
 *     }
 *
 * They run when the body returns (a value, an error, KIN_CANCELLED), and after kin_fail, kin_panic
 * and a stack overflow, where no C scope is left in the ordinary way. After those three the
 * nurseries that the task has open are cancelled and joined in between, so that everything goes in
 * the reverse order in which it came. A task that never began has none.
 *
 * Those of kin_defer belong to the task, not to the C scope that they were put down in: they run
 * after everything that C scopes undo when they are left, nurseries of KIN_NURSERY included. What
 * is to go with its C scope is put down by KIN_USING.
 *
 * A cleanup runs as the task. It may park, open nurseries and defer again: what it defers runs
 * right after it. The task's cancellation still holds, so a cleanup that has to wait masks it
 * (kin_mask). At the end of a task, masks and pushed deadlines of the body are no longer in force.
 *
 * A cleanup that fails [N3002] is one put down by kin_defer_try that returns a negative status, or
 * any that calls kin_fail at the end of the task, which ends that cleanup alone. The others run all
 * the same. A task that would have succeeded ends with KIN_CLEANUP then; any other end stays what
 * it is. Either way one report of KIN_CLEANUP per task says how many failed and with what the first
 * one did. A cleanup that panics makes the task a panicked one, and the others run all the same.
 */
#ifndef KIN_CLEANUP_H
#define KIN_CLEANUP_H

#include <kin/base.h>
#include <kin/status.h>

#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

/**
 * kin_defer - run fn(arg) when the running task is over.
 * @fn:  what to do.
 * @arg: handed to fn; must live until then.
 *
 * On any return but 0 nothing was put down, and what @fn would have undone is still the caller's.
 * The first few of a task take no memory of their own; there is no limit but memory.
 *
 * Example:
 *     #include <errno.h>
 *
 *     int with_room(void *arg)
 *     {
 *         void *room = malloc(4096);
 *         int rc = room ? kin_defer(free, room) : -ENOMEM;
 *
 *         if (rc < 0) {
 *             free(room);
 *             return rc;
 *         }
 *         (void)arg;
 *         return kin_sleep(kin_after(KIN_MS(1)));
 *     }
 *
 * From:    task
 * Parks:   no, but others may run
 * Budget:  a step of the turn, memory for more cleanups than a few
 * Returns: 0, -EINVAL without a function, -ENOMEM, KIN_BUDGET, KIN_NOTASK
 * Spec:    [NCG-3]
 */
KIN_API KIN_MUST_USE int kin_defer(void (*fn)(void *arg), void *arg);

/**
 * kin_defer_try - the same for a cleanup that may fail.
 * @fn:  what to do; a negative result is a failure of the cleanup.
 * @arg: handed to fn; must live until then.
 *
 * Example:
 *     #include <errno.h>
 *
 *     static int flush(void *arg)
 *     {
 *         return fflush((FILE *)arg) == 0 ? 0 : -EIO;
 *     }
 *
 *     int write_line(void *arg)
 *     {
 *         int rc = kin_defer_try(flush, arg);
 *
 *         if (rc == 0)
 *             fputs("a line\n", (FILE *)arg);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   no, but others may run
 * Budget:  a step of the turn, memory for more cleanups than a few
 * Returns: 0, -EINVAL without a function, -ENOMEM, KIN_BUDGET, KIN_NOTASK
 * Spec:    [NCG-3] [N3002]
 */
KIN_API KIN_MUST_USE int kin_defer_try(int (*fn)(void *arg), void *arg);

/**
 * kin_scope_mark - where the cleanups of the running task stand now.
 *
 * Example:
 *     int with_two(void *first, void *second)
 *     {
 *         void *mark = kin_scope_mark();
 *         int rc = kin_defer(free, first);
 *         if (rc == 0)
 *             rc = kin_defer(free, second);
 *         kin_scope_release(mark);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   no
 * Returns: a mark for kin_scope_release, of no use to another task; NULL outside a task
 */
KIN_API void *kin_scope_mark(void);

/**
 * kin_scope_release - run the cleanups that were put down since a mark, the newest first.
 * @mark: what kin_scope_mark returned in this task; NULL does nothing.
 *
 * They run here and not again at the end of the task. A mark below which the task has come already
 * does nothing. Inside a cleanup no more is released than what that cleanup put down itself.
 *
 * A nursery that was opened after one of these cleanups was put down has to be joined before: with
 * such a nursery still open the call aborts, naming the task. A cleanup that calls kin_fail or
 * panics here ends the task, as it would anywhere else in the body, and the other cleanups run.
 *
 * Example:
 *     #include <errno.h>
 *
 *     int step(void)
 *     {
 *         void *mark = kin_scope_mark();
 *         void *room = malloc(64);
 *         int rc = room ? kin_defer(free, room) : -ENOMEM;
 *
 *         if (rc < 0)
 *             free(room);
 *         kin_scope_release(mark);
 *         return rc;
 *     }
 *
 * From:    task; elsewhere it does nothing
 * Parks:   if a cleanup does
 * Returns: nothing
 * Spec:    [NCG-3] [N3002]
 */
KIN_API void kin_scope_release(void *mark);

/* Where a cleanup of KIN_USING stands: at the top of the others, as long as *top is height. */
struct kin_using_at_ {
    uint64_t *top;
    uint64_t height;
};

/* What KIN_USING declares. */
struct kin_using_ {
    struct kin_using_at_ at;
    void (*fn)(void *arg);
    void *arg;
};

KIN_API struct kin_using_at_ kin_using_enter_(void (*fn)(void *arg), void *arg);
/* Takes it back from elsewhere than the top: whether it is still to be run. */
KIN_API KIN_MUST_USE int kin_using_leave_(uint64_t height, void (*fn)(void *arg), void *arg);

static inline struct kin_using_ kin_using_begin_(void (*fn)(void *arg), void *arg)
{
    struct kin_using_ use = {kin_using_enter_(fn, arg), fn, arg};

    return use;
}

static inline void kin_using_end_(struct kin_using_ *use)
{
    if (*use->at.top == use->at.height)
        *use->at.top = use->at.height - 1;
    else if (!kin_using_leave_(use->at.height, use->fn, use->arg))
        return;
    if (use->fn)
        use->fn(use->arg);
}

/* KIN_USING(fclose_it, file); runs fclose_it(file) when the C scope is left, by whatever statement,
 * and on every other way out of the task. What is deferred further down in the same C scope goes
 * first. It cannot fail: outside a task, and when there is no memory, leaving the scope still calls
 * the function (only kin_fail, a panic and an overflow then pass it by). */
#define KIN_USING(fn_, arg_) KIN_USING_AT_(fn_, arg_, __LINE__)
#define KIN_USING_AT_(fn_, arg_, line_) KIN_USING_NAMED_(fn_, arg_, line_)
#define KIN_USING_NAMED_(fn_, arg_, line_)                                                         \
    KIN_CLEANUP(kin_using_end_)                                                                    \
    __attribute__((unused)) struct kin_using_ kin_using_##line_##_ = kin_using_begin_(fn_, arg_)

KIN_END_DECLS

#endif
