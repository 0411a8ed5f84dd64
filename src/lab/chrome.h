/* SPDX-License-Identifier: MIT */
/*
 * A failed run as a trace that trace viewers read.
 */
#ifndef KIN_LAB_CHROME_H
#define KIN_LAB_CHROME_H

#include "base/text.h"
#include "lab/report.h"
#include "lab/story.h"

/* Writes it as JSON. When the text is full afterwards it is none. */
void kin__chrome_write(struct kin__text *out, const struct kin__finding *finding,
                       const struct kin__story *story);
/* A string of JSON with its quotes. */
void kin__chrome_string(struct kin__text *out, const char *string);

#endif
