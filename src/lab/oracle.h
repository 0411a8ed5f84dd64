/* SPDX-License-Identifier: MIT */
/*
 * When the oracles are asked.
 */
#ifndef KIN_LAB_ORACLE_H
#define KIN_LAB_ORACLE_H

#include <kin/run.h>

/* Nobody can go on, and nothing is due. */
void kin__oracle_stuck(void);
/* Nobody can go on now. */
void kin__oracle_idle(void);
/* A step has ended. */
void kin__oracle_step(void);
/* A runtime is over; the execution is. */
void kin__oracle_over(void);
void kin__oracle_end(void);
/* In place of standard error, for runtimes whose program does not say where reports go. */
void kin__oracle_report(const struct kin_report *report, void *arg);

#endif
