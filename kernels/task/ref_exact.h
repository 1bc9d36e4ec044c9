/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of exact stages (task.h): binary32 operators with the flushes of kernels/loops/loops.h. Values
 * are floats held in doubles. */
#ifndef KERNELS_REF_EXACT_H
#define KERNELS_REF_EXACT_H

#include "kernels/task/task.h"

/* The result of an operator that task_check allows in an exact stage, for operands a[0 ..]. */
double ref_exact_op(enum prog_op op, const double *a);
/* The number of type u8 or i8 that v is stored as. */
double ref_exact_byte(enum dtype t, double v);

#endif
