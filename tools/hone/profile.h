/* SPDX-License-Identifier: Apache-2.0 */
/* Files for other programs about a plan's runs: a trace for Perfetto and Chrome, kernel names for perf. */
#ifndef TOOLS_PROFILE_H
#define TOOLS_PROFILE_H

#include "agent/run/plan.h"
#include "agent/run/trace.h"
#include "tools/hone/ready.h"

/* Runs the model `runs` times, traced, and writes the Chrome trace event format: a row per thread and for
 * the device, and an event per kernel and thread, with label, origin and rates as arguments; on the device
 * one per launch and copy. */
int profile_trace(struct ready *r, int runs, const char *path) MUST_CHECK;
/* Writes /tmp/perf-PID.map, where perf looks up the names of code that no file holds. */
int profile_perf_map(const struct plan *p) MUST_CHECK;

#endif
