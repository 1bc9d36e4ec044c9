/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar operators over blocks of floats, compiled for several vector widths; the best that the machine has
 * is taken. exp, tanh, sigmoid and erf are those of kernels/loops/vmath.h, with its errors. */
#ifndef AGENT_HOST_MATH_H
#define AGENT_HOST_MATH_H

#include "agent/run/vec4.h"
#include "kernels/task/task.h"

enum { HOST_LANES = 16 };

/* out[k] = op(a[k], b[k], c[k]), with as many operands as the operator has; out may be one of these, and
 * overlaps none otherwise. The arrays have room for n rounded up to HOST_LANES: elements behind n are read
 * and written, too. */
void host_apply(enum prog_op op, float *out, const float *a, const float *b, const float *c, int n);
/* out[k] = op(a[k], value), for the operators of host_takes_value; the same room. */
void host_apply_value(enum prog_op op, float *out, const float *a, float value, int n);
static inline void host_fill(float *out, float value, int64_t n)
{
	const vec4 v = {value, value, value, value};
	int64_t k = 0;
	for (; k + 4 <= n; k += 4)
		*(vec4 *)(out + k) = v;
	if (n >= 4)
		*(vec4 *)(out + n - 4) = v;
	for (; k < n && n < 4; k++)
		out[k] = value;
}
bool host_takes_value(enum prog_op op);

#endif
