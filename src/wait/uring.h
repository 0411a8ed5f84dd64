/* SPDX-License-Identifier: MIT */
/*
 * Calls on files, begun by tasks and carried out by the kernel behind a ring.
 */
#ifndef KIN_WAIT_URING_H
#define KIN_WAIT_URING_H

#include "plat/uring.h"

struct kin__files; /* a runtime's ring for files */

/* 0; or why there is none, as kin__uring_create says it. */
int kin__files_create(struct kin__files **out);
/* No call is under way. */
void kin__files_destroy(struct kin__files *files);
/* Ready to be read from when there are results. */
int kin__files_fd(const struct kin__files *files);
bool kin__files_has(const struct kin__files *files, enum kin__uring_verb verb);

/* Hands results to the tasks that wait for them: how many were woken. From any thread. */
uint32_t kin__files_reap(struct kin__files *files);

/* Makes a call and parks the running task until the kernel is done with it: memory that the call
 * names is the kernel's until then, whatever comes. A cancellation or the task's pushed deadline is
 * passed on to the kernel. True: *result is what it answered, or KIN_CANCELLED, KIN_TIMEOUT when it
 * has done nothing. False: nothing has begun, too many calls are under way or there is no memory,
 * or no thread of the kernel's has come to it in a while: somebody else does it. */
bool kin__files_perform(struct kin__files *files, struct kin__uring_call *call, int64_t *result);

/* For tests: how long a call may be without a result before it is asked back. */
void kin__files_patience(int64_t ns);

#endif
