/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators of one tensor: activations, roundings, elementary functions, Clip. */
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <float.h>
#include <math.h>

enum {
	U_ABS,
	U_ACOS,
	U_ACOSH,
	U_ASIN,
	U_ASINH,
	U_ATAN,
	U_ATANH,
	U_BITNOT,
	U_CEIL,
	U_CELU,
	U_CLIP_ATTR,
	U_CLIP,
	U_COS,
	U_COSH,
	U_ELU,
	U_ERF,
	U_EXP,
	U_FLOOR,
	U_GELU,
	U_HARDSIGMOID,
	U_HARDSWISH,
	U_ISINF,
	U_ISNAN,
	U_LEAKYRELU,
	U_LOG,
	U_MISH,
	U_NEG,
	U_NOT,
	U_RECIPROCAL,
	U_RELU,
	U_ROUND,
	U_SELU,
	U_SHRINK,
	U_SIGMOID,
	U_SIGN,
	U_SIN,
	U_SINH,
	U_SOFTPLUS,
	U_SOFTSIGN,
	U_SQRT,
	U_SWISH,
	U_TAN,
	U_TANH,
	U_THRESHOLDEDRELU
};

static const struct op_row rows[] = {
    {"Abs", 6, 0, 1, 1, 1, 1, U_ABS},
    {"Acos", 7, 0, 1, 1, 1, 1, U_ACOS},
    {"Acosh", 9, 0, 1, 1, 1, 1, U_ACOSH},
    {"Asin", 7, 0, 1, 1, 1, 1, U_ASIN},
    {"Asinh", 9, 0, 1, 1, 1, 1, U_ASINH},
    {"Atan", 7, 0, 1, 1, 1, 1, U_ATAN},
    {"Atanh", 9, 0, 1, 1, 1, 1, U_ATANH},
    {"BitwiseNot", 18, 0, 1, 1, 1, 1, U_BITNOT},
    {"Ceil", 6, 0, 1, 1, 1, 1, U_CEIL},
    {"Celu", 12, 0, 1, 1, 1, 1, U_CELU, "alpha"},
    {"Clip", 6, 10, 1, 1, 1, 1, U_CLIP_ATTR, "min max"},
    {"Clip", 11, 0, 1, 3, 1, 1, U_CLIP},
    {"Cos", 7, 0, 1, 1, 1, 1, U_COS},
    {"Cosh", 9, 0, 1, 1, 1, 1, U_COSH},
    {"Elu", 6, 0, 1, 1, 1, 1, U_ELU, "alpha"},
    {"Erf", 9, 0, 1, 1, 1, 1, U_ERF},
    {"Exp", 6, 0, 1, 1, 1, 1, U_EXP},
    {"Floor", 6, 0, 1, 1, 1, 1, U_FLOOR},
    {"Gelu", 20, 0, 1, 1, 1, 1, U_GELU, "approximate"},
    {"HardSigmoid", 6, 0, 1, 1, 1, 1, U_HARDSIGMOID, "alpha beta"},
    {"HardSwish", 14, 0, 1, 1, 1, 1, U_HARDSWISH},
    {"IsInf", 10, 0, 1, 1, 1, 1, U_ISINF, "detect_negative detect_positive"},
    {"IsNaN", 9, 0, 1, 1, 1, 1, U_ISNAN},
    {"LeakyRelu", 6, 0, 1, 1, 1, 1, U_LEAKYRELU, "alpha"},
    {"Log", 6, 0, 1, 1, 1, 1, U_LOG},
    {"Mish", 18, 0, 1, 1, 1, 1, U_MISH},
    {"Neg", 6, 0, 1, 1, 1, 1, U_NEG},
    {"Not", 1, 0, 1, 1, 1, 1, U_NOT},
    {"Reciprocal", 6, 0, 1, 1, 1, 1, U_RECIPROCAL},
    {"Relu", 6, 0, 1, 1, 1, 1, U_RELU},
    {"Round", 11, 0, 1, 1, 1, 1, U_ROUND},
    {"Selu", 6, 0, 1, 1, 1, 1, U_SELU, "alpha gamma"},
    {"Shrink", 9, 0, 1, 1, 1, 1, U_SHRINK, "lambd bias"},
    {"Sigmoid", 6, 0, 1, 1, 1, 1, U_SIGMOID},
    {"Sign", 9, 0, 1, 1, 1, 1, U_SIGN},
    {"Sin", 7, 0, 1, 1, 1, 1, U_SIN},
    {"Sinh", 9, 0, 1, 1, 1, 1, U_SINH},
    {"Softplus", 1, 0, 1, 1, 1, 1, U_SOFTPLUS},
    {"Softsign", 1, 0, 1, 1, 1, 1, U_SOFTSIGN},
    {"Sqrt", 6, 0, 1, 1, 1, 1, U_SQRT},
    {"Swish", 24, 0, 1, 1, 1, 1, U_SWISH, "alpha"},
    {"Tan", 7, 0, 1, 1, 1, 1, U_TAN},
    {"Tanh", 6, 0, 1, 1, 1, 1, U_TANH},
    {"ThresholdedRelu", 10, 0, 1, 1, 1, 1, U_THRESHOLDEDRELU, "alpha"},
    {""},
};

/* p: the operator's two parameters (alpha, beta and the like). */
typedef double real_fn(double x, const double *p);
typedef int64_t int_fn(int64_t x, const int64_t *p);

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
	return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

#define REAL(NAME, EXPR)                                                                                     \
	static double f_##NAME(double x, const double *p)                                                    \
	{                                                                                                    \
		(void)p;                                                                                     \
		return EXPR;                                                                                 \
	}

REAL(abs, fabs(x))
REAL(acos, acos(x))
REAL(acosh, acosh(x))
REAL(asin, asin(x))
REAL(asinh, asinh(x))
REAL(atan, atan(x))
REAL(atanh, atanh(x))
REAL(ceil, ceil(x))
REAL(celu, x > 0 ? x : p[0] * expm1(x / p[0]))
REAL(clip, x<p[0] ? (p[0] > p[1] ? p[1] : p[0]) : x> p[1] ? p[1] : x)
REAL(cos, cos(x))
REAL(cosh, cosh(x))
REAL(elu, x < 0 ? p[0] * expm1(x) : x)
REAL(erf, erf(x))
REAL(exp, exp(x))
REAL(floor, floor(x))
REAL(gelu, 0.5 * x * (1 + erf(x * M_SQRT1_2)))
REAL(gelu_tanh, 0.5 * x * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x))))
REAL(hardsigmoid, fmax(0, fmin(1, p[0] * x + p[1])))
REAL(hardswish, x *fmax(0, fmin(1, x / 6 + 0.5)))
REAL(isinf, isinf(x) && (x < 0 ? p[0] : p[1]) != 0)
REAL(isnan, isnan(x))
REAL(leakyrelu, x < 0 ? p[0] * x : x)
REAL(log, log(x))
REAL(mish, x *tanh(softplus(x)))
REAL(neg, -x)
REAL(reciprocal, 1 / x)
REAL(relu, x < 0 ? 0 : x)
REAL(round, rint(x))
REAL(selu, p[1] * (x > 0 ? x : p[0] * expm1(x)))
REAL(shrink, x<-p[0] ? x + p[1] : x> p[0] ? x - p[1] : 0)
REAL(sigmoid, sigmoid(x))
REAL(sign, x > 0 ? 1 : x < 0 ? -1 : x)
REAL(sin, sin(x))
REAL(sinh, sinh(x))
REAL(softplus, softplus(x))
REAL(softsign, x / (1 + fabs(x)))
REAL(sqrt, sqrt(x))
REAL(swish, x *sigmoid(p[0] * x))
REAL(tan, tan(x))
REAL(tanh, tanh(x))
REAL(thresholdedrelu, x > p[0] ? x : 0)

#define WHOLE(NAME, EXPR)                                                                                    \
	static int64_t g_##NAME(int64_t x, const int64_t *p)                                                 \
	{                                                                                                    \
		(void)p;                                                                                     \
		return EXPR;                                                                                 \
	}

WHOLE(abs, x < 0 ? (int64_t)(0 - (uint64_t)x) : x)
WHOLE(bitnot, ~x)
WHOLE(clip, x<p[0] ? (p[0] > p[1] ? p[1] : p[0]) : x> p[1] ? p[1] : x)
WHOLE(neg, (int64_t)(0 - (uint64_t)x))
WHOLE(not, !x)
WHOLE(relu, x < 0 ? 0 : x)
WHOLE(sign, (x > 0) - (x < 0))

static const struct {
	real_fn *real;
	int_fn *whole;
	char param[2][6];
	float fallback[2];
} fns[] = {
    [U_ABS] = {f_abs, g_abs},
    [U_ACOS] = {f_acos},
    [U_ACOSH] = {f_acosh},
    [U_ASIN] = {f_asin},
    [U_ASINH] = {f_asinh},
    [U_ATAN] = {f_atan},
    [U_ATANH] = {f_atanh},
    [U_BITNOT] = {NULL, g_bitnot},
    [U_CEIL] = {f_ceil},
    [U_CELU] = {f_celu, NULL, {"alpha"}, {1}},
    [U_CLIP_ATTR] = {f_clip, NULL, {"min", "max"}, {-FLT_MAX, FLT_MAX}},
    [U_CLIP] = {f_clip, g_clip},
    [U_COS] = {f_cos},
    [U_COSH] = {f_cosh},
    [U_ELU] = {f_elu, NULL, {"alpha"}, {1}},
    [U_ERF] = {f_erf},
    [U_EXP] = {f_exp},
    [U_FLOOR] = {f_floor},
    [U_GELU] = {f_gelu},
    [U_HARDSIGMOID] = {f_hardsigmoid, NULL, {"alpha", "beta"}, {0.2f, 0.5f}},
    [U_HARDSWISH] = {f_hardswish},
    [U_ISINF] = {f_isinf},
    [U_ISNAN] = {f_isnan},
    [U_LEAKYRELU] = {f_leakyrelu, NULL, {"alpha"}, {0.01f}},
    [U_LOG] = {f_log},
    [U_MISH] = {f_mish},
    [U_NEG] = {f_neg, g_neg},
    [U_NOT] = {NULL, g_not},
    [U_RECIPROCAL] = {f_reciprocal},
    [U_RELU] = {f_relu, g_relu},
    [U_ROUND] = {f_round},
    [U_SELU] = {f_selu, NULL, {"alpha", "gamma"}, {1.67326319217681884765625f, 1.05070102214813232421875f}},
    [U_SHRINK] = {f_shrink, NULL, {"lambd", "bias"}, {0.5f, 0}},
    [U_SIGMOID] = {f_sigmoid},
    [U_SIGN] = {f_sign, g_sign},
    [U_SIN] = {f_sin},
    [U_SINH] = {f_sinh},
    [U_SOFTPLUS] = {f_softplus},
    [U_SOFTSIGN] = {f_softsign},
    [U_SQRT] = {f_sqrt},
    [U_SWISH] = {f_swish, NULL, {"alpha"}, {1}},
    [U_TAN] = {f_tan},
    [U_TANH] = {f_tanh},
    [U_THRESHOLDEDRELU] = {f_thresholdedrelu, NULL, {"alpha"}, {1}},
};

static bool is_test(int code)
{
	return code == U_ISNAN || code == U_ISINF;
}

static unsigned dtypes_of(int code)
{
	if (code == U_NOT)
		return DTYPE_BIT(DT_BOOL);
	return (fns[code].real ? DTYPES_FLOAT : 0) | (fns[code].whole ? DTYPES_INT : 0) |
	       (code == U_BITNOT ? DTYPE_BIT(DT_U64) : 0);
}

static int infer_limits(const struct opctx *c)
{
	for (int i = 1; i <= 2; i++) {
		if (!in_there(c, i))
			continue;
		if (c->in[i].dtype != c->in[0].dtype)
			return fail(E_CORRUPT, "limit of type %s for input of type %s",
				    dtype_name(c->in[i].dtype), dtype_name(c->in[0].dtype));
		int rc = in_need_scalar(c, i);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static int infer(struct opctx *c)
{
	int rc = in_need(c, 0, dtypes_of(c->code));
	if (rc < 0)
		return rc;
	if (c->code == U_CLIP && (rc = infer_limits(c)) < 0)
		return rc;
	if (c->code == U_GELU && (rc = attr_choice(c, "approximate", "none tanh", 0)) < 0)
		return rc;
	return out_set(c, 0, is_test(c->code) ? DT_BOOL : c->in[0].dtype, &c->in[0].shape);
}

static void real_params(const struct opctx *c, double *p)
{
	for (int i = 0; i < 2; i++)
		if (fns[c->code].param[i][0])
			p[i] = node_float(c->node, fns[c->code].param[i], fns[c->code].fallback[i]);
	if (c->code == U_CLIP) {
		p[0] = in_there(c, 1) ? tensor_get(&c->in[1], 0) : -INFINITY;
		p[1] = in_there(c, 2) ? tensor_get(&c->in[2], 0) : INFINITY;
	}
	if (c->code == U_ISINF) {
		p[0] = (double)node_int(c->node, "detect_negative", 1);
		p[1] = (double)node_int(c->node, "detect_positive", 1);
	}
}

static void eval_real(const struct opctx *c, int64_t count)
{
	double p[2] = {0, 0}, v[RUN];
	real_fn *f = fns[c->code].real;
	real_params(c, p);
	if (c->code == U_GELU && attr_choice(c, "approximate", "none tanh", 0) == 1)
		f = f_gelu_tanh;
	for (int64_t i = 0; i < count; i += RUN) {
		int64_t n = count - i < RUN ? count - i : RUN;
		load_f64(&c->in[0], i, 1, n, v);
		for (int64_t j = 0; j < n; j++)
			v[j] = f(v[j], p);
		store_f64(&c->out[0], i, n, v);
	}
}

static void eval_whole(const struct opctx *c, int64_t count)
{
	int64_t p[2] = {INT64_MIN, INT64_MAX}, v[RUN];
	int_fn *g = fns[c->code].whole;
	for (int i = 0; i < 2; i++)
		if (in_there(c, i + 1))
			p[i] = tensor_get_i64(&c->in[i + 1], 0);
	for (int64_t i = 0; i < count; i += RUN) {
		int64_t n = count - i < RUN ? count - i : RUN;
		load_i64(&c->in[0], i, 1, n, v);
		for (int64_t j = 0; j < n; j++)
			v[j] = g(v[j], p);
		store_i64(&c->out[0], i, n, v);
	}
}

static int eval(struct opctx *c)
{
	int64_t count = shape_count(&c->in[0].shape);
	if (dtype_in(c->in[0].dtype, DTYPES_FLOAT))
		eval_real(c, count);
	else
		eval_whole(c, count);
	return E_OK;
}

const struct op op_unary = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
