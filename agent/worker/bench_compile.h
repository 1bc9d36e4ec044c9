/* SPDX-License-Identifier: Apache-2.0 */
/* Benchmark of the compiler: from a task's text to loadable code. */
#ifndef AGENT_BENCH_COMPILE_H
#define AGENT_BENCH_COMPILE_H

#include "kernels/emit/emit.h"
#include "platform/run/dev.h"

/* Prints, for 200 seeded structural candidates of the task in the file with points x unroll <= 200: median
 * and 90th percentile in ms and candidates a second on one core; then resident memory before and after 2,000
 * builds. */
int bench_compile(const char *path, const struct dev *d, const struct emit *e,
		  const struct target *t) MUST_CHECK;

#endif
