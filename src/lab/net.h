/* SPDX-License-Identifier: MIT */
/*
 * Sockets of the simulated network, as the rest of the lab sees them.
 */
#ifndef KIN_LAB_NET_H
#define KIN_LAB_NET_H

/* There is a way again between machines: what was held back goes on. */
void kin__net_healed(void);
/* The runtime is over: nothing arrives any more. An execution begins: there is nothing. */
void kin__net_over(void);
void kin__net_begin(void);

#endif
