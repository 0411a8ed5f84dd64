/* SPDX-License-Identifier: MIT */
/*
 * What the machine's own files say about host names: resolv.conf and hosts.
 */
#ifndef KIN_WAIT_NAMES_H
#define KIN_WAIT_NAMES_H

#include "base/hash.h"
#include "wait/address.h"
#include "wait/dns.h"

#define KIN__NAMES_SERVERS 8u
#define KIN__NAMES_SEARCH 8u

/* What the files said when they were read; it does not change afterwards. */
struct kin__names {
    unsigned refs; /* whoever shares it counts */
    /* resolv.conf */
    unsigned server_count;
    struct kin__sockaddr servers[KIN__NAMES_SERVERS];
    unsigned search_count;
    char search[KIN__NAMES_SEARCH][KIN__DNS_TEXT]; /* domains, in lower case */
    unsigned ndots;    /* a name with so many dots is tried as it is before anything else */
    unsigned timeout_s, attempts;
    /* its options by their names */
    bool rotates;    /* rotate: load is spread over the servers */
    bool by_stream;  /* use-vc: servers are asked over streams only */
    bool in_turn;    /* single-request: for one kind of addresses after the other */
    bool skips_v6;   /* no-aaaa: for IPv4 addresses only */
    bool skips_bare; /* no-tld-query: not for a name without a dot as it is */
    bool has_edns;   /* edns0: datagrams may be longer than 512 bytes */
    /* hosts */
    char *hosts;             /* its text, cut into words; owned */
    struct kin__host *lines; /* one per name; owned */
    uint32_t *heads;         /* owned */
    uint32_t line_count, head_mask;
    struct kin__hash_key key;
    uint64_t stamps[2][4]; /* which state of the two files this is */
};

struct kin__names_files {
    const char *conf, *hosts;
    /* what the environment says instead of the search list and after the options; NULL: nothing */
    const char *search, *options;
};

/* Reads the files, unless they are as before was made from: then *out is NULL. A file that is not
 * there is an empty one. Blocks. 0, -ENOMEM. */
int kin__names_load(const struct kin__names_files *files, const struct kin__names *before,
                    struct kin__names **out);
void kin__names_destroy(struct kin__names *names);

/* The two readers. text is changed; that of hosts is taken over, on failure too. */
void kin__names_read_conf(struct kin__names *names, char *text);
int kin__names_read_hosts(struct kin__names *names, char *text);

/* The addresses that hosts has for a name in lower case, in its order: how many, at most cap. */
unsigned kin__names_host(const struct kin__names *names, const char *name, uint16_t port,
                         struct kin__sockaddr *out, unsigned cap);
/* The i-th name to ask for when somebody means name: with the domains of the search list, and as it
 * is. False: there are no more. */
bool kin__names_candidate(const struct kin__names *names, const char *name, unsigned i,
                          char out[KIN__DNS_TEXT]);

#endif
