/* SPDX-License-Identifier: MIT */
/*
 * Machines of the simulated network, and what lies between them.
 *
 *     lab 10.0.0.1 ---- server 10.0.0.2        every task is on one of them: that of its parent,
 *          \________ / ___ backup 10.0.0.3     or where kin_lab_move has put it
 *
 * Machine 0 is there from the beginning. Loopback addresses are the machine that one is on.
 */
#ifndef KIN_LAB_HOSTS_H
#define KIN_LAB_HOSTS_H

#include "plat/plat.h"

#define KIN__HOSTS_MAX 64u
#define KIN__NO_HOST UINT16_MAX

/* The machine that whoever makes the step is on. */
uint16_t kin__host_here(void);
/* The machine that an address means to somebody on from; KIN__NO_HOST: nobody has it. */
uint16_t kin__host_at(uint16_t from, const struct kin__sockaddr *address);
/* The address that a machine on from is seen with by whoever has the address to. */
void kin__host_source(uint16_t from, const struct kin__sockaddr *to, struct kin__sockaddr *out);

/* Something is about to go from one machine to the other: a fault may cut the link between them for
 * a while, for whatever goes there, either way. */
void kin__link_hinder(uint16_t from, uint16_t to);
/* Whether nothing arrives from one machine at the other, and how long it takes else. */
bool kin__link_is_cut(uint16_t from, uint16_t to);
int64_t kin__link_latency(uint16_t from, uint16_t to);

bool kin__address_is_any(const struct kin__sockaddr *address);
/* Whom one means who connects, or sends, to any address: the machine that one is on. */
void kin__address_settle(struct kin__sockaddr *address);
/* An address as a socket of another family shows it: IPv4 within IPv6. */
void kin__address_map(struct kin__sockaddr *address, int family);
/* Both 0 for an address without ports. */
uint16_t kin__address_port(const struct kin__sockaddr *address);
void kin__address_set_port(struct kin__sockaddr *address, uint16_t port);

/* The runtime is over: no link heals any more. The execution is: there is one machine again. */
void kin__hosts_over(void);
void kin__hosts_end(void);

#endif
