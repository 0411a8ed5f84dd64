/* SPDX-License-Identifier: MIT */
/*
 * Host names to addresses.
 */
#ifndef KIN_WAIT_RESOLVE_H
#define KIN_WAIT_RESOLVE_H

#include "wait/address.h"

#include <kin/time.h>

#define KIN__ADDRESSES_MAX 16u /* most that one name is looked at for */

/* The addresses of a host, in the order in which they should be tried, with the port filled in; a
 * numeric one is itself. is_passive: no host means any. How many, at most cap; KIN_NOPROC when
 * there is no such name or it has no address, -EINVAL when it can be none, -ETIMEDOUT when no
 * server answered, -EPROTO when none said anything that made sense, KIN_TIMEOUT, KIN_CANCELLED,
 * -errno. Parks. */
int kin__resolve(const struct kin__hostport *from, bool is_passive, struct kin__sockaddr *out,
                 unsigned cap, kin_time deadline);

/* Forgets what was read and what was answered: for the end of the last runtime. */
void kin__resolve_forget(void);

#endif
