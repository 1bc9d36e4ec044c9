/* SPDX-License-Identifier: Apache-2.0 */
/* This x86-64 machine as a processor of predictions: code for vectors of four floats (x86-64-v2), the caches
 * and read speeds that are measured here, and the clock that a loop of additions shows. */
#ifndef TOOLS_PREDICT_HERE_H
#define TOOLS_PREDICT_HERE_H

#include "tools/bench/predict.h"

/* E_UNSUPPORTED: this is no x86-64 machine. */
int predict_here(struct predict_cpu *out) MUST_CHECK;
double predict_here_mhz(void); /* the clock, now */

#endif
