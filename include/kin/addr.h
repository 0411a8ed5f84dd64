/* SPDX-License-Identifier: MIT */
/*
 * Addresses: where a task or a server is, as a value that can be copied, kept and sent.
 */
#ifndef KIN_ADDR_H
#define KIN_ADDR_H

#include <kin/base.h>
#include <kin/task.h>

#include <stdbool.h>
#include <stdint.h>

KIN_BEGIN_DECLS

/* A task, perhaps a server, perhaps one that is over. {0, 0} is nobody. */
struct kin_addr {
    uint64_t node; /* 0: this process */
    uint64_t id;   /* the number of its task */
};

/**
 * kin_self_addr - where the running task is.
 *
 * In a callback of a server that is the server.
 *
 * Example:
 *     int introduce(struct kin_chan *friends)
 *     {
 *         struct kin_addr me = kin_self_addr();
 *         return kin_chan_send(friends, &me, KIN_NEVER);
 *     }
 *
 * From:    anywhere
 * Returns: its address; {0, 0} outside a task
 */
KIN_API struct kin_addr kin_self_addr(void);

/**
 * kin_task_addr - where a task is.
 * @task: any name, stale ones too.
 *
 * Example:
 *     int watch_over(struct kin_task_ref worker, struct kin_monitor_ref *watch)
 *     {
 *         return kin_monitor(kin_task_addr(worker), watch);
 *     }
 *
 * From:    anywhere
 * Returns: its address; {0, 0} for nobody
 */
KIN_API struct kin_addr kin_task_addr(struct kin_task_ref task);

/**
 * kin_addr_same - whether two addresses are the same.
 * @a: one.
 * @b: the other.
 *
 * Example:
 *     bool is_me(struct kin_addr somebody)
 *     {
 *         return kin_addr_same(somebody, kin_self_addr());
 *     }
 *
 * From:    anywhere
 * Returns: true when both are the same task, or both nobody
 */
static inline bool kin_addr_same(struct kin_addr a, struct kin_addr b)
{
    return a.node == b.node && a.id == b.id;
}

KIN_END_DECLS

#endif
