/* SPDX-License-Identifier: MIT */
/*
 * Why a schedule fails: the nearest one that passes, and what it does otherwise.
 */
#ifndef KIN_LAB_EXPLAIN_H
#define KIN_LAB_EXPLAIN_H

#include "lab/main.h"

/* Prints it for a failure that was just told. */
void kin__explain(const struct kin__options *options, const struct kin_lab_config *config,
                  const struct kin_lab_test *test, const struct kin__verdict *verdict);

#endif
