/* SPDX-License-Identifier: MIT */
/*
 * The wire format of the domain name system: questions for addresses, and what comes back.
 *
 * Pure functions: what a server may have sent is never believed before it is checked, and no answer
 * makes them loop, read outside of it or write outside of what they are given.
 */
#ifndef KIN_WAIT_DNS_H
#define KIN_WAIT_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIN__DNS_TEXT 256u      /* a name as text, with its end */
#define KIN__DNS_QUERY_MAX 284u /* the longest question */
#define KIN__DNS_ADDRESSES 16u  /* kept of one answer */

enum kin__dns_type { KIN__DNS_A = 1, KIN__DNS_AAAA = 28 };

struct kin__dns_question {
    uint16_t id;
    enum kin__dns_type type;
    char name[KIN__DNS_TEXT];
    bool has_edns; /* it says that an answer may be longer than 512 bytes (RFC 6891) */
};

/* What a message means to whoever asked. */
enum kin__dns_verdict {
    KIN__DNS_STRAY,   /* it does not answer this question: ignored */
    KIN__DNS_BROKEN,  /* it does, and cannot be read: another server may do better */
    KIN__DNS_FAILED,  /* the server cannot or will not say: as above */
    KIN__DNS_PUZZLED, /* the server does not know what has_edns adds: asked again without it */
    KIN__DNS_CUT,     /* it did not fit: asked again over a stream */
    KIN__DNS_FOUND,   /* there are addresses */
    KIN__DNS_EMPTY,   /* the name exists, without addresses of this kind */
    KIN__DNS_NOBODY   /* the name does not exist */
};

struct kin__dns_answer {
    uint32_t ttl_s; /* how long all of it holds; 0: not at all */
    unsigned count;
    uint8_t addresses[KIN__DNS_ADDRESSES][16]; /* of 4 or 16 bytes */
};

/* Whether a text can be asked for: labels of 1 to 63 printable bytes, 253 in all; one dot at the
 * end is fine. */
bool kin__dns_is_name(const char *text);
/* Writes the question: how many bytes; 0 when the name is none. */
size_t kin__dns_build(const struct kin__dns_question *question, uint8_t *out);
/* Reads a message. *answer is filled in for FOUND, its ttl_s for EMPTY and NOBODY too. */
enum kin__dns_verdict kin__dns_parse(const struct kin__dns_question *question,
                                     const uint8_t *message, size_t size,
                                     struct kin__dns_answer *answer);

#endif
