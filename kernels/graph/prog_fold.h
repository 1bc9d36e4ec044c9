/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces programs of several operators that compute one function: x * sigmoid(x) becomes silu, and half of
 * x * (1 + erf(x / sqrt 2)), with the factors in any order, becomes gelu. The argument is then computed once,
 * not twice. */
#ifndef KERNELS_PROG_FOLD_H
#define KERNELS_PROG_FOLD_H

#include "kernels/task/task.h"

/* p must be well formed. Folding may make another operator foldable, so call this after every operator that
 * joins. */
void prog_fold(struct prog *p);

#endif
