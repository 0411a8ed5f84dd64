/* SPDX-License-Identifier: MIT */
/*
 * The picture of a failed run.
 */
#ifndef KIN_LAB_PICTURE_H
#define KIN_LAB_PICTURE_H

#include "base/text.h"
#include "lab/report.h"
#include "lab/story.h"

/* Draws it as SVG. When the text is full afterwards it is no picture. */
void kin__picture_draw(struct kin__text *out, const struct kin__finding *finding,
                       const struct kin__story *story);

#endif
