/* SPDX-License-Identifier: MIT */
/*
 * Combinators: run several functions as tasks, take what is needed, and leave none behind.
 *
 *     kin_race     the first end decides, good or bad
 *     kin_any      the first success decides
 *     kin_all      every one must succeed
 *     kin_quorum   so many must succeed
 *     kin_hedge    as kin_any, but a branch starts only when those before it take too long
 *     kin_timeout  one function, with a deadline
 *
 * Each runs its branches in a nursery of its own. As soon as the answer is known the branches that
 * are still running are cancelled, and the call returns when the last of them is over: whatever a
 * branch points at may go away then. How every branch ended is in its out. One that was asked to
 * stop and succeeded all the same keeps its value there; one that was never started, because the
 * answer was known before, is KIN_SEV_CANCELLED with task 0; one that could not be started for want
 * of memory, budget or a capability has failed with that status and task 0.
 *
 * The first of three things decides: enough branches have succeeded; too many have failed; the call
 * is cancelled from outside, because its task is, or a nursery around it, or because a pushed
 * deadline came. Then it returns what the decision says, and what branches return after it is found
 * in their out and nowhere else. Cancelled from outside it returns the reason: KIN_CANCELLED,
 * KIN_TIMEOUT for a deadline, or what the nursery around it was cancelled with. The reason is
 * sticky as ever: the caller's next wait reports the cancellation too.
 *
 * Branches with a lower index are begun first on the worker that makes the call. They hold the
 * capabilities of the caller, in every profile.
 */
#ifndef KIN_COMBINE_H
#define KIN_COMBINE_H

#include <kin/base.h>
#include <kin/run.h>
#include <kin/task.h>
#include <kin/time.h>

#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

/* One of the functions that a combinator runs. */
struct kin_branch {
    kin_task_fn *fn;
    void *arg;
    struct kin_outcome out; /* how it ended, once the call has returned */
};

/**
 * kin_race - the first branch that ends decides, even if it fails.
 * @b:      the branches; written to until the call returns.
 * @count:  how many, at least 1.
 * @winner: receives the index of the first branch that ended, also when it failed or the call was
 *          cancelled; untouched when the call could not begin; may be NULL.
 *
 * Example:
 *     int fetch_left(void *arg);
 *     int fetch_right(void *arg);
 *
 *     int fetch(void *page)
 *     {
 *         struct kin_branch b[2] = {{fetch_left, page, {KIN_SEV_OK, 0, 0, 0, ""}},
 *                                   {fetch_right, page, {KIN_SEV_OK, 0, 0, 0, ""}}};
 *         size_t winner;
 *         int rc = kin_race(b, 2, &winner);
 *         return rc < 0 ? rc : b[winner].out.value;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  cancels the branches; they are waited for all the same
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn for each child
 * Returns: 0 or the winner's failure; the reason when it was cancelled before one ended; -EINVAL
 *          for NULL or no branch, KIN_NOTASK, -ENOMEM, KIN_NOCAP, KIN_BUDGET, KIN_UNSUPPORTED in
 *          the core profile
 * Spec:    [D1]
 */
KIN_API KIN_MUST_USE int kin_race(struct kin_branch *b, size_t count, size_t *winner);

/**
 * kin_any - the first branch that succeeds decides.
 * @b:      the branches; written to until the call returns.
 * @count:  how many, at least 1.
 * @winner: receives the index of the first success; untouched when there is none; may be NULL.
 *
 * Example:
 *     int ask_first(void *arg);
 *     int ask_second(void *arg);
 *
 *     int ask_any(void *question)
 *     {
 *         struct kin_branch b[] = {{.fn = ask_first, .arg = question},
 *                                  {.fn = ask_second, .arg = question}};
 *         size_t winner;
 *         int rc = kin_any(b, 2, &winner);
 *         return rc < 0 ? rc : b[winner].out.value;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  cancels the branches; they are waited for all the same
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn for each child
 * Returns: 0; the first failure in time when every branch failed; the rest as kin_race
 * Spec:    [D1]
 */
KIN_API KIN_MUST_USE int kin_any(struct kin_branch *b, size_t count, size_t *winner);

/**
 * kin_all - every branch must succeed; the first failure cancels the others.
 * @b:     the branches; written to until the call returns.
 * @count: how many, at least 1.
 *
 * Example:
 *     int load(void *path);
 *
 *     int load_both(char *config, char *data)
 *     {
 *         struct kin_branch b[] = {{.fn = load, .arg = config}, {.fn = load, .arg = data}};
 *         return kin_all(b, 2);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  cancels the branches; they are waited for all the same
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn for each child
 * Returns: 0; the first failure in time; the rest as kin_race
 * Spec:    [D1]
 */
KIN_API KIN_MUST_USE int kin_all(struct kin_branch *b, size_t count);

/**
 * kin_quorum - so many branches must succeed.
 * @b:     the branches; written to until the call returns.
 * @count: how many.
 * @need:  how many of them, from 1 to count.
 *
 * The others are cancelled when the quorum is reached, and when so many have failed that it cannot
 * be reached any more.
 *
 * Example:
 *     int store(void *replica);
 *
 *     int store_safely(void *replicas[3])
 *     {
 *         struct kin_branch b[3];
 *         for (size_t i = 0; i < 3; i++) {
 *             b[i].fn = store;
 *             b[i].arg = replicas[i];
 *         }
 *         return kin_quorum(b, 3, 2);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  cancels the branches; they are waited for all the same
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn for each child
 * Returns: 0; the first failure in time when it cannot be reached; -EINVAL also when need is 0 or
 *          more than count; the rest as kin_race
 * Spec:    [D1]
 */
KIN_API KIN_MUST_USE int kin_quorum(struct kin_branch *b, size_t count, size_t need);

/**
 * kin_timeout - run one function as a task that has until a deadline.
 * @b:        the function; written to until the call returns.
 * @deadline: when it is cancelled; KIN_NEVER: never; one that has passed: it is not started.
 *
 * Example:
 *     int lookup(void *name);
 *
 *     int lookup_soon(char *name)
 *     {
 *         struct kin_branch b = {lookup, name, {KIN_SEV_OK, 0, 0, 0, ""}};
 *         int rc = kin_timeout(&b, kin_after(KIN_MS(50)));
 *         return rc < 0 ? rc : b.out.value;
 *     }
 *
 * From:    task
 * Parks:   yes, past the deadline until the function has returned
 * Cancel:  cancels the branch; it is waited for all the same
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn for each child
 * Returns: 0; its failure; KIN_TIMEOUT when the deadline came before its end, whatever it still
 *          returned; the rest as kin_race
 * Spec:    [D1] [N2001]
 */
KIN_API KIN_MUST_USE int kin_timeout(struct kin_branch *b, kin_time deadline);

/**
 * kin_hedge - start one branch, and another one each time that takes too long or fails.
 * @b:      the branches, in the order in which they are started; written to until the call returns.
 * @count:  how many, at least 1.
 * @delay:  ns without a success after which the next one is started beside those that run; 0 or
 *          less: all are started at once.
 * @winner: receives the index of the first success; untouched when there is none; may be NULL.
 *
 * A failure starts the next branch at once. For requests of which a few take much longer than the
 * others: with a delay that most of them keep, hardly more requests are made than without.
 *
 * Example:
 *     int ask(void *server);
 *
 *     int ask_soon(void *servers[3], size_t *who)
 *     {
 *         struct kin_branch b[3] = {{.fn = ask, .arg = servers[0]}, {.fn = ask, .arg = servers[1]},
 *                                   {.fn = ask, .arg = servers[2]}};
 *         return kin_hedge(b, 3, KIN_MS(10), who);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  cancels the branches; they are waited for all the same
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn for each child
 * Returns: as kin_any
 * Spec:    [D1]
 */
KIN_API KIN_MUST_USE int kin_hedge(struct kin_branch *b, size_t count, int64_t delay,
                                   size_t *winner);

KIN_END_DECLS

#endif
