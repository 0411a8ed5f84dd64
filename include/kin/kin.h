/* SPDX-License-Identifier: MIT */
/*
 * kin: structured concurrency for C. Everything but <kin/janus.h> and the lab.
 */
#ifndef KIN_KIN_H
#define KIN_KIN_H

#include <kin/addr.h>
#include <kin/base.h>
#include <kin/blocking.h>
#include <kin/budget.h>
#include <kin/chan.h>
#include <kin/cleanup.h>
#include <kin/combine.h>
#include <kin/file.h>
#include <kin/io.h>
#include <kin/local.h>
#include <kin/monitor.h>
#include <kin/name.h>
#include <kin/net.h>
#include <kin/nursery.h>
#include <kin/obligation.h>
#include <kin/pool.h>
#include <kin/process.h>
#include <kin/queue.h>
#include <kin/random.h>
#include <kin/reader.h>
#include <kin/resolve.h>
#include <kin/run.h>
#include <kin/select.h>
#include <kin/server.h>
#include <kin/signal.h>
#include <kin/status.h>
#include <kin/stream.h>
#include <kin/supervisor.h>
#include <kin/sync.h>
#include <kin/task.h>
#include <kin/time.h>
#include <kin/view.h>

#endif
