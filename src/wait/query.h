/* SPDX-License-Identifier: MIT */
/*
 * Asking name servers.
 */
#ifndef KIN_WAIT_QUERY_H
#define KIN_WAIT_QUERY_H

#include "wait/dns.h"
#include "wait/names.h"

#include <kin/time.h>

/* Both kinds of addresses of one name. Large: not for a stack. */
enum { KIN__QUERY_V6, KIN__QUERY_V4, KIN__QUERY_KINDS };
struct kin__query {
    char name[KIN__DNS_TEXT];
    struct {
        enum kin__dns_verdict verdict; /* STRAY: to be asked for; nothing was learnt: error */
        int error;                     /* -ETIMEDOUT, -EPROTO, or what the system said last */
        struct kin__dns_answer answer;
    } kinds[KIN__QUERY_KINDS];
};

/* Asks the servers for what the query lacks. 0 when every kind has its verdict or its error;
 * KIN_TIMEOUT, KIN_CANCELLED, -ENOMEM when it could not come to that. Parks. */
int kin__query_ask(struct kin__query *query, const struct kin__names *names, kin_time deadline);

/* The type of a kind. */
static inline enum kin__dns_type kin__query_type(unsigned kind)
{
    return kind == KIN__QUERY_V6 ? KIN__DNS_AAAA : KIN__DNS_A;
}

#endif
