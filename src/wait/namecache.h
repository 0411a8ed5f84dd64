/* SPDX-License-Identifier: MIT */
/*
 * Answers of name servers, for as long as they hold. One for the whole process.
 */
#ifndef KIN_WAIT_NAMECACHE_H
#define KIN_WAIT_NAMECACHE_H

#include "wait/dns.h"

#include <kin/time.h>

/* What is known of a name, in lower case: FOUND with its addresses, EMPTY, NOBODY; STRAY when
 * nothing is. */
enum kin__dns_verdict kin__namecache_get(const char *name, enum kin__dns_type type, kin_time now,
                                         struct kin__dns_answer *answer);
/* Keeps one of those until now + answer->ttl_s. Without memory it is simply not kept. */
void kin__namecache_put(const char *name, enum kin__dns_type type, enum kin__dns_verdict verdict,
                        const struct kin__dns_answer *answer, kin_time now);
/* Forgets everything. */
void kin__namecache_clear(void);

#endif
