/* SPDX-License-Identifier: Apache-2.0 */
/* hone bench --submit: measures one model with fallback, default and tuned kernels in turn, checks what the
 * tuned ones compute, and writes the file of tools/hone/submission.h. */
#ifndef TOOLS_BENCH_SUBMIT_H
#define TOOLS_BENCH_SUBMIT_H

#include "tools/hone/cmd.h"

/* E_USAGE: other options or several models were given, which a submission does not have. E_NOTFOUND: a kernel
 * is not tuned. E_BUSY: the machine was disturbed. E_WRONG: an output differs from the reference. Then no
 * file is written. */
int bench_submit(const struct args *a, const char *name) MUST_CHECK;

#endif
