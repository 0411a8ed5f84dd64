/* SPDX-License-Identifier: MIT */
/*
 * kin: structured concurrency for C. Everything but the lab.
 */
#ifndef KIN_KIN_H
#define KIN_KIN_H

#include <kin/base.h>
#include <kin/nursery.h>
#include <kin/run.h>
#include <kin/status.h>
#include <kin/task.h>
#include <kin/time.h>
#include <kin/view.h>

#endif
