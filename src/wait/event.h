/* SPDX-License-Identifier: MIT */
/*
 * An event as a thing to wait for among others.
 */
#ifndef KIN_WAIT_EVENT_H
#define KIN_WAIT_EVENT_H

#include "park/waitable.h"

#include <kin/sync.h>

/* The waitable whose object is a struct kin_event. Completes with 0 and stays complete until the
 * event is reset; takes nothing. */
extern const struct kin__waitable kin__event_waitable;

#endif
