/* SPDX-License-Identifier: MIT */
/*
 * Local values: what a task carries with it, found by key.
 *
 *     static const struct kin_local_key request_key = {request_free, true};
 *
 * A key is any object of this type that outlives the tasks that use it; its address is what counts.
 * At the end of a task, after its cleanups, the values that are its own are destroyed, the one that
 * was set last first. A destroy function runs as the task and may set values again; they are
 * destroyed in a further round. After four rounds what is still there is forgotten.
 */
#ifndef KIN_LOCAL_H
#define KIN_LOCAL_H

#include <kin/base.h>
#include <kin/status.h>

#include <stdbool.h>
#include <stddef.h>

KIN_BEGIN_DECLS

struct kin_local_key {
    void (*destroy)(void *value); /* NULL: nothing is to be done */
    bool inherit;                 /* children get the value that their spawner has at the spawn */
};

#define KIN_LOCAL_ROUNDS 4u /* of destruction */

/**
 * kin_local_set - give the running task a value under a key.
 * @key:   kept until the task is over.
 * @value: kept; NULL takes the value away.
 *
 * The value that was there is not destroyed: it is the caller's again, if it was the task's own.
 *
 * With @key's inherit set, tasks that this one spawns from now on begin with the same value. They
 * borrow it, hand it down in turn and never destroy it, so it has to outlive them: always so for
 * children in a nursery of one's own, the spawner's own duty in a nursery of somebody else.
 *
 * Example:
 *     static const struct kin_local_key request = {.destroy = free};
 *
 *     int begin_request(const char *name)
 *     {
 *         char *copy = strdup(name);
 *         int rc = kin_local_set(&request, copy);
 *         if (rc < 0)
 *             free(copy);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   no, but others may run
 * Budget:  a step of the turn, memory for more values than a few
 * Returns: 0, -EINVAL without a key, -ENOMEM or KIN_BUDGET with everything as it was, KIN_NOTASK
 */
KIN_API KIN_MUST_USE int kin_local_set(const struct kin_local_key *key, void *value);

/**
 * kin_local_get - the value that the running task has under a key.
 * @key: any key.
 *
 * Example:
 *     static const struct kin_local_key name_key = {NULL, true};
 *
 *     int greet(void *arg)
 *     {
 *         int rc = kin_local_set(&name_key, arg);
 *
 *         if (rc == 0)
 *             printf("hello, %s\n", (const char *)kin_local_get(&name_key));
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: the value, borrowed; NULL when there is none, or outside a task
 */
KIN_API void *kin_local_get(const struct kin_local_key *key);

KIN_END_DECLS

#endif
