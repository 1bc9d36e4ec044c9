/* SPDX-License-Identifier: Apache-2.0 */
/* loops_check and the interpreter use these for entries with threads; kernels/loops/loops.h states the
 * rules. */
#ifndef KERNELS_LOOPS_THREADS_H
#define KERNELS_LOOPS_THREADS_H

#include "kernels/loops/loops.h"

/* Whether all threads of a block meet at the statement itself (not in its body). */
bool loops_meets(const struct stmt *s);
/* Checks shared buffers, and where threads meet, in a program that is sound otherwise. E_CORRUPT. */
int loops_check_threads(const struct loops *l) MUST_CHECK;

#endif
