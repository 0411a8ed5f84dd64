/* SPDX-License-Identifier: MIT */
/*
 * Obligations: promises that are kept or given up, and found when they are forgotten.
 *
 *     reserve ---> Reserved --- commit ---> Committed        each exactly once [D1]
 *                     |-------- abort ----> Aborted
 *                     +-------- the task that reserved it is over ----> Leaked
 *
 * Whoever reserves one owes it. Any task or thread that has the handle may commit or abort it. When
 * a task is over (its cleanups have run and its local values are destroyed) and still owes
 * something, each of these is leaked: it is counted (kin_leaks), it is reported with KIN_LEAKED,
 * its kind, where it was reserved, and the task's name and spawn site, and a task that would have
 * succeeded ends with KIN_LEAKED.
 *
 * A nursery is not over before its children are, so by the time of its join everything that they
 * reserved has been committed, aborted or found leaked, and a leak is their failure, which the join
 * returns. What the owner of a nursery reserves is the owner's own and may outlast the join.
 */
#ifndef KIN_OBLIGATION_H
#define KIN_OBLIGATION_H

#include <kin/base.h>
#include <kin/status.h>

#include <stddef.h>

KIN_BEGIN_DECLS

/* What was promised; for reports. */
enum kin_obligation_kind {
    KIN_OBLIGATION_USER = 0,
    KIN_OBLIGATION_SEND,
    KIN_OBLIGATION_ACK,
    KIN_OBLIGATION_LEASE,
    KIN_OBLIGATION_IO
};

struct kin_obligation;

/**
 * kin_obligation_reserve - owe something.
 * @kind: what it is.
 * @out:  receives the handle; valid until somebody commits or aborts it, and known as stale from
 *        then on.
 *
 * Example:
 *     int keep_a_promise(void)
 *     {
 *         struct kin_obligation *promise;
 *         int rc = kin_obligation_reserve(KIN_OBLIGATION_ACK, &promise);
 *
 *         return rc < 0 ? rc : kin_obligation_commit(promise);
 *     }
 *
 * From:    task
 * Parks:   no, but others may run
 * Budget:  a step of the turn, memory until it has ended
 * Returns: 0, -EINVAL for an unknown kind or NULL, -ENOMEM, KIN_BUDGET, KIN_NOTASK
 */
KIN_API KIN_MUST_USE int kin_obligation_reserve(enum kin_obligation_kind kind,
                                                struct kin_obligation **out);

/**
 * kin_obligation_commit - the promise is kept; ends and frees the obligation.
 * @o: given.
 *
 * Example:
 *     int answer(struct kin_chan *to, const int *item, struct kin_obligation *owed)
 *     {
 *         int rc = kin_chan_send(to, item, KIN_NEVER);
 *         return rc < 0 ? kin_obligation_abort(owed) : kin_obligation_commit(owed);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: 0, KIN_STALE when it has ended already, -EINVAL for NULL
 */
KIN_API int kin_obligation_commit(struct kin_obligation *o);

/**
 * kin_obligation_abort - the promise is given up; ends and frees the obligation.
 * @o: given.
 *
 * Example:
 *     int borrow(int *books, struct kin_obligation **lease)
 *     {
 *         int rc = kin_obligation_reserve(KIN_OBLIGATION_LEASE, lease);
 *         if (rc == 0 && *books == 0)
 *             return kin_obligation_abort(*lease) < 0 ? KIN_STALE : KIN_EMPTY;
 *         *books -= rc == 0;
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: 0, KIN_STALE when it has ended already, -EINVAL for NULL
 */
KIN_API int kin_obligation_abort(struct kin_obligation *o);

/**
 * kin_leaks - obligations leaked so far in this runtime.
 *
 * Example:
 *     void warn_of_leaks(void)
 *     {
 *         if (kin_leaks() > 0)
 *             fprintf(stderr, "%zu promises were forgotten\n", kin_leaks());
 *     }
 *
 * From:    anywhere
 * Returns: how many; 0 outside a runtime
 */
KIN_API size_t kin_leaks(void);

KIN_END_DECLS

#endif
