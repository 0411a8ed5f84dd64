/* SPDX-License-Identifier: MIT */
/*
 * Monitors and links: being told of the end of a task or server, and sharing its fate.
 *
 *     monitor   one way: when the other is over I am told, once, how it ended. Nothing else happens
 *     link      both ways, a policy for each end: when the other fails I am asked to stop
 *               (PROPAGATE), am told (TRAP), or nothing (IGNORE). A good end tells nobody
 *
 * A server is told by its callback on_info, a plain task by kin_wait_down and kin_wait_info. What
 * one is told of is never lost, and comes in the order of (time, kind, subject). Whatever the other
 * sent before its end is there before the news of its end.
 */
#ifndef KIN_MONITOR_H
#define KIN_MONITOR_H

#include <kin/addr.h>
#include <kin/base.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stdint.h>

KIN_BEGIN_DECLS

/* Names of monitors and links that stay safe when these are over. {0} is none. */
struct kin_monitor_ref {
    uint64_t id;
};
struct kin_link_ref {
    uint64_t id;
};

/* What one is told; the numbers are the order of those of one moment. */
enum kin_info_kind {
    KIN_INFO_DOWN = 0,
    KIN_INFO_EXIT,
    KIN_INFO_TIMEOUT,
    KIN_INFO_LEASE,
    KIN_INFO_NODE_UP,
    KIN_INFO_NODE_DOWN
};

/* How somebody ended, the larger the worse, up to KIN_DOWN_PANICKED. */
enum kin_down_reason {
    KIN_DOWN_NORMAL = 0,
    KIN_DOWN_ERROR,
    KIN_DOWN_CANCELLED,
    KIN_DOWN_PANICKED,
    KIN_DOWN_NOPROC, /* it was over already, and nobody knows how it ended */
    KIN_DOWN_NOCONN  /* the connection to its node is lost */
};

struct kin_info {
    enum kin_info_kind kind;
    uint64_t vt; /* when it happened */
    union {
        struct {
            struct kin_addr who;
            enum kin_down_reason reason;
            int status; /* 0, the error, KIN_CANCELLED, KIN_PANICKED, KIN_NOPROC */
            struct kin_monitor_ref ref;
        } down;
        struct {
            struct kin_addr from;
            enum kin_down_reason reason;
            int status;
            struct kin_link_ref ref;
        } exit;
        struct {
            kin_time deadline;
            uint64_t id; /* 0: the idle timeout, once per idle period */
        } timeout;
        struct {
            const char *name; /* whose lease ran out; valid during the callback, or until the next
                                 kin_wait_info */
        } lease;
        struct {
            uint64_t node;
        } node;
    } u;
};

/* What becomes of one end of a link when the other fails. */
enum kin_exit_policy {
    KIN_EXIT_PROPAGATE = 0, /* it is asked to stop */
    KIN_EXIT_TRAP,          /* it is told */
    KIN_EXIT_IGNORE
};

/**
 * kin_monitor - be told when somebody is over.
 * @who: a task or server, or nobody; any address.
 * @out: receives the name of the monitor; unchanged on failure.
 *
 * The calling task is told once, by a KIN_INFO_DOWN that says how @who ended: a server by its
 * callback on_info, a plain task by kin_wait_down. Who is over already is told of at once, with the
 * true reason as long as that is known and with KIN_DOWN_NOPROC otherwise; so is nobody. Nothing
 * else happens to either of the two, and each monitor of one target is told.
 *
 * A monitor ends with its Down, with kin_demonitor, or with the task that made it.
 *
 * Example:
 *     int outlive(struct kin_addr other)
 *     {
 *         struct kin_monitor_ref watch;
 *         struct kin_info news;
 *         int rc = kin_monitor(other, &watch);
 *         if (rc == 0)
 *             rc = kin_wait_down(watch, &news, KIN_NEVER);
 *         return rc < 0 ? rc : news.u.down.status;
 *     }
 *
 * From:    task
 * Parks:   no, but others may run
 * Budget:  a step of the turn, memory until the monitor has ended
 * Returns: 0, -EINVAL for NULL, -ENOMEM, KIN_BUDGET, KIN_NOTASK
 * Spec:    [MON-CREATE] [MON-DOWN] [D12]
 */
KIN_API KIN_MUST_USE int kin_monitor(struct kin_addr who, struct kin_monitor_ref *out);

/**
 * kin_demonitor - do not be told.
 * @ref: any name, stale ones too.
 *
 * After it has returned no Down of this monitor arrives: one that came before and was not read is
 * taken away. A kin_wait_down that waits for it returns KIN_STALE.
 *
 * Example:
 *     int watch_for_a_while(struct kin_addr other, struct kin_info *news)
 *     {
 *         struct kin_monitor_ref watch;
 *         int rc = kin_monitor(other, &watch);
 *         if (rc < 0)
 *             return rc;
 *         rc = kin_wait_down(watch, news, kin_after(KIN_SEC(1)));
 *         kin_demonitor(watch);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: 0 when it was pending, KIN_STALE when it had fired or is unknown
 * Spec:    [D12]
 */
KIN_API int kin_demonitor(struct kin_monitor_ref ref);

/**
 * kin_wait_down - wait until the target of a monitor is over.
 * @ref:      a monitor of the calling task.
 * @out:      receives the Down; unchanged on failure.
 * @deadline: until when to wait; 0: not at all.
 *
 * For plain tasks. In a callback of a server it takes the Down, which on_info does not see then,
 * before letters that are in the mailbox.
 *
 * Example:
 *     int restart_when_it_fails(struct kin_monitor_ref watch, bool *again)
 *     {
 *         struct kin_info news;
 *         int rc = kin_wait_down(watch, &news, KIN_NEVER);
 *         if (rc == 0)
 *             *again = news.u.down.reason == KIN_DOWN_ERROR;
 *         return rc;
 *     }
 *
 * From:    task, the one that monitors
 * Parks:   yes
 * Cancel:  while it waits; nothing was taken
 * Budget:  1 op
 * Returns: 0, KIN_STALE when the Down was delivered before, or the monitor has ended or is unknown,
 *          -EPERM when it is another task's, -EINVAL for NULL, KIN_TIMEOUT, KIN_CANCELLED,
 *          KIN_BUDGET, KIN_NOTASK
 * Spec:    [MON-DOWN]
 */
KIN_API KIN_MUST_USE int kin_wait_down(struct kin_monitor_ref ref, struct kin_info *out,
                                       kin_time deadline);

/**
 * kin_wait_info - wait for whatever else the calling task is told.
 * @out:      receives a KIN_INFO_EXIT, of a link whose end here is KIN_EXIT_TRAP, or a
 *            KIN_INFO_LEASE; unchanged on failure.
 * @deadline: until when to wait; 0: not at all.
 *
 * For plain tasks. A Down is for kin_wait_down alone. The name in a KIN_INFO_LEASE stays valid
 * until the next kin_wait_info of this task or its end.
 *
 * Example:
 *     int hear_of_failures(void)
 *     {
 *         struct kin_info news;
 *         int rc;
 *         while ((rc = kin_wait_info(&news, KIN_NEVER)) == 0) {
 *             if (news.kind == KIN_INFO_EXIT)
 *                 printf("a friend ended: %s\n", kin_status_name(news.u.exit.status));
 *         }
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; nothing was taken
 * Budget:  1 op
 * Returns: 0, -EINVAL for NULL, -ENOMEM, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOTASK
 * Spec:    [LINK-EXIT] [REG-EXPIRE]
 */
KIN_API KIN_MUST_USE int kin_wait_info(struct kin_info *out, kin_time deadline);

/**
 * kin_link - share somebody's fate.
 * @who:    a task or server that is not over.
 * @mine:   what becomes of the calling task when @who fails.
 * @theirs: what becomes of @who when the calling task fails.
 * @out:    receives the name of the link, which is the same at both ends; unchanged on failure.
 *
 * To fail is to end with an error, cancelled or panicked; a good end ends the link and nothing
 * else. KIN_EXIT_PROPAGATE asks the task to stop as kin_task_cancel does, with the status of the
 * failure as its kin_cancel_reason; the worst of several counts, and one that is stopped like this
 * passes the same reason on through links of its own. KIN_EXIT_TRAP tells it: a server by its
 * callback on_info, a plain task by kin_wait_info. Who links twice has two links.
 *
 * Example:
 *     int stand_together(struct kin_addr friend_)
 *     {
 *         struct kin_link_ref link;
 *         return kin_link(friend_, KIN_EXIT_PROPAGATE, KIN_EXIT_PROPAGATE, &link);
 *     }
 *
 * From:    task
 * Parks:   no, but others may run
 * Budget:  a step of the turn, memory until the link has ended
 * Returns: 0, KIN_NOPROC when @who is over or nobody, -EINVAL for NULL, an unknown policy or the
 *          calling task itself, KIN_NOCONN for another node, -ENOMEM, KIN_BUDGET, KIN_NOTASK
 * Spec:    [LINK-CREATE] [LINK-EXIT] [D12]
 */
KIN_API KIN_MUST_USE int kin_link(struct kin_addr who, enum kin_exit_policy mine,
                                  enum kin_exit_policy theirs, struct kin_link_ref *out);

/**
 * kin_unlink - end a link, at both ends.
 * @ref: any name, stale ones too.
 *
 * After it has returned nothing of this link arrives at either end: an Exit that came before and
 * was not read is taken away.
 *
 * Example:
 *     int together_for_a_while(struct kin_addr friend_, int (*work)(void))
 *     {
 *         struct kin_link_ref link;
 *         int rc = kin_link(friend_, KIN_EXIT_PROPAGATE, KIN_EXIT_TRAP, &link);
 *         if (rc < 0)
 *             return rc;
 *         rc = work();
 *         kin_unlink(link);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: 0 when the end of who made it was pending, KIN_STALE when it had fired or is unknown
 * Spec:    [LINK-EXIT] [D12]
 */
KIN_API int kin_unlink(struct kin_link_ref ref);

KIN_END_DECLS

#endif
