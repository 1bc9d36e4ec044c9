/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/task/ref_exact.h"
#include "kernels/task/task_stage.h"

#include <math.h>

#define LEAST_NORMAL 0x1p-126

/* A subnormal becomes a zero of its sign. */
static double flushed(double v)
{
	return fabs(v) < LEAST_NORMAL ? copysign(0, v) : v;
}

/* Rounds to 24 bits as if the exponent had no limit, then flushes what is tiny. A double holds the exact
 * result of the operators here, or one whose second rounding does no harm, because it has more than 2 * 24 +
 * 2 bits. */
static double rounded(double v)
{
	if (fabs(v) < LEAST_NORMAL - 0x1p-151)
		return copysign(0, v);
	return flushed((double)(float)v);
}

static double compare(enum prog_op op, double a, double b)
{
	return op == P_LT ? a < b : op == P_LE ? a <= b : a == b;
}

double ref_exact_op(enum prog_op op, const double *x)
{
	double a = flushed(x[0]), b = prog_op_arity(op) > 1 ? flushed(x[1]) : 0;
	switch (op) {
	case P_ADD:
		return rounded(a + b);
	case P_SUB:
		return rounded(a - b);
	case P_MUL:
		return rounded(a * b);
	case P_SQUARE:
		return rounded(a * a);
	case P_DIV:
		return rounded(a / b);
	case P_RECIP:
		return rounded(1 / a);
	case P_SQRT:
		return rounded(sqrt(a));
	case P_MIN:
		return a < b ? a : b;
	case P_MAX:
		return a > b ? a : b;
	case P_NEG:
		return -x[0];
	case P_ABS:
		return fabs(x[0]);
	case P_FLOOR:
		return floor(a);
	case P_CEIL:
		return ceil(a);
	case P_RINT:
		return rint(a);
	case P_SIGN:
		return (a > 0) - (a < 0);
	case P_SELECT:
		return a != 0 ? x[1] : x[2];
	default:
		return compare(op, a, b);
	}
}

double ref_exact_byte(enum dtype t, double v)
{
	double least = (double)byte_least(t), most = (double)byte_greatest(t);
	v = v > least ? v : least;
	return rint(v < most ? v : most);
}
