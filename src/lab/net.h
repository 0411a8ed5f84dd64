/* SPDX-License-Identifier: MIT */
/*
 * Sockets of the simulated network, as the rest of the lab sees them.
 */
#ifndef KIN_LAB_NET_H
#define KIN_LAB_NET_H

/* There is a way again between machines: what was held back goes on. */
void kin__net_healed(void);
/* The runtime is over: nothing arrives any more. */
void kin__net_over(void);
/* The execution is over, and nothing is left of it. */
void kin__net_end(void);

#endif
