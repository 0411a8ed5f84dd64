/* SPDX-License-Identifier: MIT */
/*
 * Names: finding a task or server by what it is called.
 *
 *     "logger" ---> the address of its holder          at most one holder, and until when
 *
 * Names belong to the runtime. Each has one holder, which may have many. It is free again when the
 * holder is over, when it is unregistered, or when its lease has run out; and it is free before
 * anybody can be told that its holder is over, so that whoever takes the place of a server finds
 * the name free. A name is any text of 1 to KIN_NAME_MAX bytes; it is copied once and shared by
 * whoever keeps it.
 *
 * A lease is a name with a time. Whoever forgets to renew it, because it is stuck or has too much
 * to do, loses the name: at the deadline nobody finds it any more, and the holder is told by
 * KIN_INFO_LEASE.
 */
#ifndef KIN_NAME_H
#define KIN_NAME_H

#include <kin/addr.h>
#include <kin/base.h>
#include <kin/status.h>

#include <stdint.h>

KIN_BEGIN_DECLS

#define KIN_NAME_MAX 255 /* bytes of a name */

/**
 * kin_register - give a name to a task or server.
 * @name: 1 to KIN_NAME_MAX bytes; copied.
 * @who:  its holder: a task of this runtime, any, also the caller. Its nursery is open, or being
 *        joined.
 * @ttl:  how long, in ns from now; 0: for as long as the holder lives. A time that never comes is
 *        none.
 *
 * A taken name is refused, whoever has it: also to its own holder.
 *
 * Example:
 *     int be_found(void *arg)
 *     {
 *         int rc = kin_register("clock", kin_self_addr(), 0);
 *         (void)arg;
 *         return rc < 0 ? rc : kin_sleep(KIN_NEVER);
 *     }
 *
 * From:    a task
 * Parks:   no
 * Needs:   KIN_CAP_REGISTRY
 * Budget:  1 op, memory until the name is free again
 * Returns: 0, KIN_TAKEN, KIN_NOPROC when the holder is over or nobody, KIN_NOSCOPE when its nursery
 *          was closed by hand or cancelled, KIN_NOCONN for an address of another node, -EINVAL for
 *          a name that is NULL, empty or too long and for a ttl below 0, -ENOMEM, KIN_NOTASK,
 *          KIN_NOCAP, KIN_BUDGET, KIN_CANCELLED when a turn ended here and the task has been
 *          cancelled
 * Spec:    [REG-REGISTER] [REG-COLLISION]
 */
KIN_API KIN_MUST_USE int kin_register(const char *name, struct kin_addr who, int64_t ttl);

/**
 * kin_register_or_find - give a name to a task or server, or learn who has it.
 * @name:   as of kin_register.
 * @who:    as there.
 * @ttl:    as there.
 * @holder: receives, with KIN_TAKEN, who has the name; otherwise unchanged. NULL: nobody wants to
 *          know.
 *
 * kin_register and kin_whereis in one step: between the two of them the holder could have changed.
 *
 * Example:
 *     int lead_or_follow(struct kin_addr *leader)
 *     {
 *         *leader = kin_self_addr();
 *         int rc = kin_register_or_find("leader", *leader, KIN_SEC(10), leader);
 *         return rc == KIN_TAKEN ? 0 : rc;
 *     }
 *
 * From:    a task
 * Parks:   no
 * Needs:   KIN_CAP_REGISTRY
 * Budget:  as kin_register
 * Returns: as kin_register
 * Spec:    [REG-REGISTER] [REG-COLLISION]
 */
KIN_API KIN_MUST_USE int kin_register_or_find(const char *name, struct kin_addr who, int64_t ttl,
                                              struct kin_addr *holder);

/**
 * kin_unregister - take a name away.
 * @name: as it was registered.
 *
 * For its holder and for the task that registered it. The name is free when this returns, and the
 * holder is not told. A task that is cancelled, or whose budget is used up, may still give up what
 * it has.
 *
 * Example:
 *     int hand_over(struct kin_addr heir)
 *     {
 *         int rc = kin_unregister("leader");
 *         return rc < 0 ? rc : kin_register("leader", heir, KIN_SEC(10));
 *     }
 *
 * From:    a task
 * Parks:   no, but others may run
 * Needs:   KIN_CAP_REGISTRY
 * Budget:  1 op, if there is one left
 * Returns: 0, KIN_NOPROC when nobody has it, -EPERM for anybody else, -EINVAL for a name that is
 *          NULL, empty or too long, KIN_NOTASK, KIN_NOCAP
 * Spec:    [REG-UNREGISTER]
 */
KIN_API int kin_unregister(const char *name);

/**
 * kin_lease_renew - let a name last longer, or less long.
 * @name: as it was registered.
 * @ttl:  how long, in ns from now; 0: for as long as the holder lives.
 *
 * For its holder and for the task that registered it. What was left of the old time does not count.
 * A lease that has run out cannot be renewed: somebody else may have the name by now. It is
 * registered again.
 *
 * Example:
 *     int stay_leader(void *arg)
 *     {
 *         int rc = kin_register("leader", kin_self_addr(), KIN_SEC(10));
 *         (void)arg;
 *         while (rc == 0) {
 *             rc = kin_sleep(kin_after(KIN_SEC(3)));
 *             if (rc == 0)
 *                 rc = kin_lease_renew("leader", KIN_SEC(10));
 *         }
 *         return rc;
 *     }
 *
 * From:    a task
 * Parks:   no
 * Needs:   KIN_CAP_REGISTRY
 * Budget:  1 op
 * Returns: 0, KIN_NOPROC when nobody has it, its lease having run out included, -EPERM for anybody
 *          else, -EINVAL for a name that is NULL, empty or too long and for a ttl below 0,
 *          KIN_NOTASK, KIN_NOCAP, KIN_BUDGET, KIN_CANCELLED when a turn ended here and the task has
 *          been cancelled
 * Spec:    [REG-EXPIRE]
 */
KIN_API KIN_MUST_USE int kin_lease_renew(const char *name, int64_t ttl);

/**
 * kin_whereis - find who has a name.
 * @name: as it was registered.
 * @out:  receives its holder; unchanged on failure.
 *
 * The holder may be over, or have lost the name, before the answer is used: its address stays safe,
 * and whatever is done with it answers so. Any task may look.
 *
 * Example:
 *     int watch_leader(struct kin_monitor_ref *watch)
 *     {
 *         struct kin_addr leader;
 *         int rc = kin_whereis("leader", &leader);
 *         return rc < 0 ? rc : kin_monitor(leader, watch);
 *     }
 *
 * From:    a task
 * Parks:   no
 * Budget:  1 op
 * Returns: 0, KIN_NOPROC when nobody has it, -EINVAL for NULL and for a name that is empty or too
 *          long, KIN_NOTASK, KIN_BUDGET, KIN_CANCELLED when a turn ended here and the task has been
 *          cancelled
 * Spec:    [REG-LOOKUP]
 */
KIN_API KIN_MUST_USE int kin_whereis(const char *name, struct kin_addr *out);

KIN_END_DECLS

#endif
