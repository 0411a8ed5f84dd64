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
/* Somebody who is parked is about to become runnable. */
struct kin__player;
void kin__oracle_woken(const struct kin__player *player);
/* Time has moved, or many steps were made, under KIN_FAULT_CHAOS. */
void kin__oracle_chaos(void);
/* A step has ended in which an account has changed. */
void kin__oracle_accounts(void);
/* A step has ended. */
void kin__oracle_step(void);
/* A runtime is over; the execution is. */
void kin__oracle_over(void);
void kin__oracle_end(void);
/* An execution begins. Somebody may have left a name behind. */
void kin__oracle_otp_begin(void);
void kin__oracle_names(void);
/* In place of standard error, for runtimes whose program does not say where reports go. */
void kin__oracle_report(const struct kin_report *report, void *arg);

#endif
