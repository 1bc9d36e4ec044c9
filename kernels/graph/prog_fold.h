/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of several operators that are one function: x * sigmoid(x) becomes silu, and half of
 * x * (1 + erf(x / sqrt 2)), in any order of the factors, gelu. The argument is then written once, not twice.
 */
#ifndef KERNELS_PROG_FOLD_H
#define KERNELS_PROG_FOLD_H

#include "kernels/task/task.h"

/* p is well formed. Another operator may become foldable by what is folded: call it after every operator
 * joins. */
void prog_fold(struct prog *p);

#endif
