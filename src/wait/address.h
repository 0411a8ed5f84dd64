/* SPDX-License-Identifier: MIT */
/*
 * Addresses as text: "host:port", "[v6]:port", "unix:/path".
 */
#ifndef KIN_WAIT_ADDRESS_H
#define KIN_WAIT_ADDRESS_H

#include "plat/plat.h"

#define KIN__HOST_BYTES 256u /* the longest name, with its end */

/* The two halves of an address. */
struct kin__hostport {
    char host[KIN__HOST_BYTES]; /* without brackets; "" or "*": none */
    uint16_t port;
};

/* Takes "host:port" apart. 0 or -EINVAL. */
int kin__address_split(const char *text, struct kin__hostport *out);
/* A numeric host as an address. False: it is a name, or none. */
bool kin__address_numeric(const struct kin__hostport *from, struct kin__sockaddr *out);
/* Without a host: any address, if is_passive, or this machine, of both kinds; first the one that
 * also does for the other, or that every machine has. "::" is this machine as well, for those who
 * call what a listener at any address says of itself. How many, at most cap; 0: there is one. */
unsigned kin__address_hostless(const struct kin__hostport *from, bool is_passive,
                               struct kin__sockaddr *out, unsigned cap);
/* A Unix address, from "unix:/path" or a path; '@' at its begin: an abstract one. 0, -EINVAL,
 * -ENAMETOOLONG. */
int kin__address_unix(const char *path, struct kin__sockaddr *out);
/* Writes an address so that it can be read back. 0, -ENOSPC, -EAFNOSUPPORT. */
int kin__address_text(const struct kin__sockaddr *address, char *buf, size_t cap);

#endif
