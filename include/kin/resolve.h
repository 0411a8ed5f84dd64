/* SPDX-License-Identifier: MIT */
/*
 * Host names to addresses.
 *
 * kin_tcp_connect and its like look names up by themselves; this is for programs that want to see
 * the addresses. It reads resolv.conf and hosts as they are when it is called, asks the name
 * servers for both kinds of addresses at once, over UDP and, where an answer is too long, TCP, and
 * remembers answers for as long as they hold, those that say no included.
 *
 * The environment variables KIN_RESOLV_CONF and KIN_HOSTS name other files than those of /etc; a
 * program with raised privileges does not heed them. A server may have a port of its own:
 * "nameserver 127.0.0.1#5353". Of the options in resolv.conf or RES_OPTIONS those that change what
 * is asked are heeded, use-vc, no-aaaa, edns0 and single-request among them; LOCALDOMAIN, too.
 */
#ifndef KIN_RESOLVE_H
#define KIN_RESOLVE_H

#include <kin/base.h>
#include <kin/net.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stddef.h>

KIN_BEGIN_DECLS

/**
 * kin_resolve - the addresses of a host.
 * @host:     borrowed; "name" or "name:port". A numeric address is its own answer. A name that ends
 *            with a dot is complete; others are also looked for in the domains of the search list.
 *            Names are ASCII: one in another script is given in its xn-- form.
 * @out:      receives the addresses as text, in the order in which they should be tried: IPv6 and
 *            IPv4 in turn, first the kind that this machine has a way for. With a port if @host has
 *            one, so that kin_tcp_connect can use them.
 * @cap:      how many fit; there are never more than 16.
 * @deadline: KIN_NEVER to wait as long as resolv.conf says, 0 to take only what is known.
 *
 * Example:
 *     int print_addresses(const char *host)
 *     {
 *         char addresses[16][KIN_ADDR_MAX];
 *         int count = kin_resolve(host, addresses, 16, kin_after(KIN_SEC(5)));
 *         for (int i = 0; i < count; i++)
 *             puts(addresses[i]);
 *         return count < 0 ? count : 0;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it
 * Budget:  1 op, 1 syscall; needs KIN_CAP_NET
 * Returns: how many addresses, at most @cap; KIN_NOPROC when there is no such name or it has no
 *          address; -ETIMEDOUT when no server answered, -EPROTO when none could or would;
 *          KIN_TIMEOUT when the deadline came first, KIN_CANCELLED, KIN_BUDGET, KIN_NOCAP,
 *          KIN_NOTASK; -EINVAL for what cannot be a name, -ENOMEM, -errno
 */
KIN_API KIN_MUST_USE int kin_resolve(const char *host, char (*out)[KIN_ADDR_MAX], size_t cap,
                                     kin_time deadline);

KIN_END_DECLS

#endif
