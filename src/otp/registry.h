/* SPDX-License-Identifier: MIT */
/*
 * The registry: which task is found under which name, and until when.
 */
#ifndef KIN_OTP_REGISTRY_H
#define KIN_OTP_REGISTRY_H

#include "otp/intern.h"
#include "otp/party.h"

#include <kin/name.h>

/* Gives the name to the task holder of the running runtime on behalf of the task registrar: either
 * may take it away again, or renew it. ttl in ns, 0: for as long as the holder lives. The name is
 * copied. Looks at no capability and charges nothing. 0; -EINVAL for a name that is NULL, empty or
 * too long, or a ttl below 0; KIN_NOPROC when the holder is over; KIN_NOSCOPE when its nursery is
 * sealed or cancelled; KIN_TAKEN with *taken_by set, if that is not NULL, to who has it, which may
 * be the holder itself; -ENOMEM. Called by a task, without a lock. */
int kin__name_register(const char *name, uint64_t holder, uint64_t registrar, int64_t ttl,
                       struct kin_addr *taken_by);
/* Takes it away again on behalf of the task caller: 0; -EPERM when that neither holds nor has
 * registered it; KIN_NOPROC when nobody has it; -EINVAL. */
int kin__name_unregister(const char *name, uint64_t caller);
/* The names of the runtime that a program was shown; NULL: no memory. */
struct kin__shown *kin__names_shown(struct kin__sched *sched);
/* The timer of this name comes now, as one that was on its way when the lease was renewed; for
 * tests. False: nobody has the name. */
bool kin__name_ring(struct kin__sched *sched, const char *name);
/* How many names are held, for tests and for people. What becomes of them at the end of a holder
 * and of a runtime is declared in otp/party.h. */
size_t kin__names_count(struct kin__sched *sched);
#ifdef KIN__LAB
/* The first name whose holder is over, and that holder; NULL: there is none. Nobody runs meanwhile.
 */
const char *kin__names_stale(struct kin__sched *sched, uint64_t *holder);
#endif

#endif
