/* SPDX-License-Identifier: MIT */
/*
 * Stack overflow: from a hit guard page to a panic of the task [C8].
 */
#ifndef KIN_SCOPE_OVERFLOW_H
#define KIN_SCOPE_OVERFLOW_H

/* Per runtime, counted: installs the fault handler and the calling thread's alternate stack. */
int kin__overflow_init(void);
void kin__overflow_fini(void);

#endif
