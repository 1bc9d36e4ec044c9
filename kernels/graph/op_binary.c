/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators of two or more tensors with NumPy broadcasting. */
#include "kernels/task/runs.h"
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <math.h>

enum {
	B_ADD,
	B_AND,
	B_BITAND,
	B_BITOR,
	B_BITXOR,
	B_DIV,
	B_EQUAL,
	B_FMOD,
	B_GREATER,
	B_GREATEREQ,
	B_LESS,
	B_LESSEQ,
	B_MAX,
	B_MEAN,
	B_MIN,
	B_MOD,
	B_MUL,
	B_OR,
	B_POW,
	B_PRELU,
	B_SHL,
	B_SHR,
	B_SUB,
	B_SUM,
	B_WHERE,
	B_XOR
};

static const struct op_row rows[] = {
    {"Add", 7, 0, 2, 2, 1, 1, B_ADD},
    {"And", 7, 0, 2, 2, 1, 1, B_AND},
    {"BitShift", 11, 0, 2, 2, 1, 1, B_SHL, "direction"},
    {"BitwiseAnd", 18, 0, 2, 2, 1, 1, B_BITAND},
    {"BitwiseOr", 18, 0, 2, 2, 1, 1, B_BITOR},
    {"BitwiseXor", 18, 0, 2, 2, 1, 1, B_BITXOR},
    {"Div", 7, 0, 2, 2, 1, 1, B_DIV},
    {"Equal", 7, 0, 2, 2, 1, 1, B_EQUAL},
    {"Greater", 7, 0, 2, 2, 1, 1, B_GREATER},
    {"GreaterOrEqual", 12, 0, 2, 2, 1, 1, B_GREATEREQ},
    {"Less", 7, 0, 2, 2, 1, 1, B_LESS},
    {"LessOrEqual", 12, 0, 2, 2, 1, 1, B_LESSEQ},
    {"Max", 6, 0, 1, -1, 1, 1, B_MAX},
    {"Mean", 6, 0, 1, -1, 1, 1, B_MEAN},
    {"Min", 6, 0, 1, -1, 1, 1, B_MIN},
    {"Mod", 10, 0, 2, 2, 1, 1, B_MOD, "fmod"},
    {"Mul", 7, 0, 2, 2, 1, 1, B_MUL},
    {"Or", 7, 0, 2, 2, 1, 1, B_OR},
    {"PRelu", 7, 0, 2, 2, 1, 1, B_PRELU},
    {"Pow", 7, 0, 2, 2, 1, 1, B_POW},
    {"Sub", 7, 0, 2, 2, 1, 1, B_SUB},
    {"Sum", 6, 0, 1, -1, 1, 1, B_SUM},
    {"Where", 9, 0, 3, 3, 1, 1, B_WHERE},
    {"Xor", 7, 0, 2, 2, 1, 1, B_XOR},
    {""},
};

typedef double real_fn(double a, double b);
typedef int64_t int_fn(int64_t a, int64_t b);

#define REAL(NAME, EXPR)                                                                                     \
	static double f_##NAME(double a, double b)                                                           \
	{                                                                                                    \
		return EXPR;                                                                                 \
	}

REAL(add, a + b)
REAL(div, a / b)
REAL(equal, a == b)
REAL(fmod, fmod(a, b))
REAL(greater, a > b)
REAL(greatereq, a >= b)
REAL(less, a < b)
REAL(lesseq, a <= b)
REAL(max, a != a || a > b ? a : b)
REAL(min, a != a || a < b ? a : b)
REAL(mul, a *b)
REAL(pow, pow(a, b))
REAL(prelu, a < 0 ? a * b : a)
REAL(sub, a - b)

/* Integers wrap; a division by zero gives 0. */
#define WHOLE(NAME, EXPR)                                                                                    \
	static int64_t g_##NAME(int64_t a, int64_t b)                                                        \
	{                                                                                                    \
		return EXPR;                                                                                 \
	}

static int64_t wrap_mul(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a * (uint64_t)b);
}

WHOLE(add, (int64_t)((uint64_t)a + (uint64_t)b))
WHOLE(and, a &&b)
WHOLE(bitand, a &b)
WHOLE(bitor, a | b)
WHOLE(bitxor, a ^ b)
WHOLE(div, b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b)
WHOLE(equal, a == b)
WHOLE(fmod, b == 0 || b == -1 ? 0 : a % b)
WHOLE(greater, a > b)
WHOLE(greatereq, a >= b)
WHOLE(less, a < b)
WHOLE(lesseq, a <= b)
WHOLE(max, a > b ? a : b)
WHOLE(min, a < b ? a : b)
WHOLE(mul, wrap_mul(a, b))
WHOLE(or, a || b)
WHOLE(prelu, a < 0 ? wrap_mul(a, b) : a)
WHOLE(shl, b<0 || b> 63 ? 0 : (int64_t)((uint64_t)a << b))
WHOLE(shr, b<0 || b> 63 ? 0 : (int64_t)((uint64_t)a >> b))
WHOLE(sub, (int64_t)((uint64_t)a - (uint64_t)b))
WHOLE(xor, !a != !b)

/* The remainder has the sign of the divisor, as in Python. */
static int64_t g_mod(int64_t a, int64_t b)
{
	int64_t r = g_fmod(a, b);
	return r && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t g_pow(int64_t a, int64_t b)
{
	if (b < 0)
		return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
	int64_t r = 1;
	for (; b; b >>= 1, a = wrap_mul(a, a))
		if (b & 1)
			r = wrap_mul(r, a);
	return r;
}

#define BOOL DTYPE_BIT(DT_BOOL)
#define BITS (DTYPES_INT | DTYPE_BIT(DT_U64))

static const struct {
	real_fn *real;
	int_fn *whole;
	unsigned dtypes;
	bool test; /* the result is bool */
} fns[] = {
    [B_ADD] = {f_add, g_add, DTYPES_NUMBER},
    [B_AND] = {NULL, g_and, BOOL},
    [B_BITAND] = {NULL, g_bitand, BITS},
    [B_BITOR] = {NULL, g_bitor, BITS},
    [B_BITXOR] = {NULL, g_bitxor, BITS},
    [B_DIV] = {f_div, g_div, DTYPES_NUMBER},
    [B_EQUAL] = {f_equal, g_equal, DTYPES_ANY, true},
    [B_FMOD] = {f_fmod, g_fmod, DTYPES_NUMBER},
    [B_GREATER] = {f_greater, g_greater, DTYPES_NUMBER, true},
    [B_GREATEREQ] = {f_greatereq, g_greatereq, DTYPES_NUMBER, true},
    [B_LESS] = {f_less, g_less, DTYPES_NUMBER, true},
    [B_LESSEQ] = {f_lesseq, g_lesseq, DTYPES_NUMBER, true},
    [B_MAX] = {f_max, g_max, DTYPES_NUMBER},
    [B_MEAN] = {f_add, NULL, DTYPES_FLOAT},
    [B_MIN] = {f_min, g_min, DTYPES_NUMBER},
    [B_MOD] = {NULL, g_mod, DTYPES_INT},
    [B_MUL] = {f_mul, g_mul, DTYPES_NUMBER},
    [B_OR] = {NULL, g_or, BOOL},
    [B_POW] = {f_pow, g_pow, DTYPES_NUMBER},
    [B_PRELU] = {f_prelu, g_prelu, DTYPES_NUMBER},
    [B_SHL] = {NULL, g_shl, DTYPES_UNSIGNED | DTYPE_BIT(DT_U64)},
    [B_SHR] = {NULL, g_shr, DTYPES_UNSIGNED | DTYPE_BIT(DT_U64)},
    [B_SUB] = {f_sub, g_sub, DTYPES_NUMBER},
    [B_SUM] = {f_add, NULL, DTYPES_FLOAT},
    [B_XOR] = {NULL, g_xor, BOOL},
};

/* The row's code, refined by an attribute: Mod's fmod, BitShift's direction. */
static int code_of(const struct opctx *c)
{
	if (c->code == B_MOD && node_int(c->node, "fmod", 0))
		return B_FMOD;
	if (c->code != B_SHL)
		return c->code;
	int right = attr_choice(c, "direction", "LEFT RIGHT", 0);
	return right < 0 ? right : right ? B_SHR : B_SHL;
}

static int broadcast_all(const struct opctx *c, struct shape *out)
{
	*out = c->in[0].shape;
	for (int i = 1; i < c->nin; i++) {
		struct shape s = *out;
		int rc = shape_broadcast(&s, &c->in[i].shape, out);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static int infer_where(struct opctx *c)
{
	struct shape s;
	int rc = in_need(c, 0, BOOL);
	if (rc < 0 || (rc = in_need(c, 1, DTYPES_ANY)) < 0 || (rc = in_need(c, 2, DTYPES_ANY)) < 0)
		return rc;
	if (c->in[1].dtype != c->in[2].dtype)
		return fail(E_CORRUPT, "types %s and %s differ", dtype_name(c->in[1].dtype),
			    dtype_name(c->in[2].dtype));
	rc = broadcast_all(c, &s);
	return rc < 0 ? rc : out_set(c, 0, c->in[1].dtype, &s);
}

static int infer(struct opctx *c)
{
	if (c->code == B_WHERE)
		return infer_where(c);
	int code = code_of(c);
	if (code < 0)
		return code;
	struct shape s;
	int rc;
	for (int i = 0; i < c->nin; i++) {
		if ((rc = in_need(c, i, fns[code].dtypes)) < 0)
			return rc;
		if (c->in[i].dtype != c->in[0].dtype && code != B_POW)
			return fail(E_CORRUPT, "types %s and %s differ", dtype_name(c->in[0].dtype),
				    dtype_name(c->in[i].dtype));
	}
	if ((rc = broadcast_all(c, &s)) < 0)
		return rc;
	if (code == B_PRELU && !shape_equal(&s, &c->in[0].shape))
		return fail(E_CORRUPT, "slope does not broadcast to the input's shape");
	return out_set(c, 0, fns[code].test ? DT_BOOL : c->in[0].dtype, &s);
}

/* Operand 0 of the walk is the output, operand i + 1 is input i. */
static void open_walk(struct walk *w, const struct opctx *c)
{
	const struct shape *s = &c->out[0].shape;
	walk_open(w, c->arena, s->rank, s->d, c->nin + 1);
	walk_like(w, 0, s);
	for (int i = 0; i < c->nin; i++)
		walk_like(w, i + 1, &c->in[i].shape);
}

static void run_real(const struct opctx *c, int code, const struct walk *w, int64_t from, int64_t n)
{
	double acc[RUN], v[RUN];
	real_fn *f = fns[code].real;
	load_f64(&c->in[0], w->at[1] + from * w->run[1], w->run[1], n, acc);
	for (int i = 1; i < c->nin; i++) {
		load_f64(&c->in[i], w->at[i + 1] + from * w->run[i + 1], w->run[i + 1], n, v);
		for (int64_t j = 0; j < n; j++)
			acc[j] = f(acc[j], v[j]);
	}
	for (int64_t j = 0; code == B_MEAN && j < n; j++)
		acc[j] /= c->nin;
	store_f64(&c->out[0], w->at[0] + from, n, acc);
}

static void run_whole(const struct opctx *c, int code, const struct walk *w, int64_t from, int64_t n)
{
	int64_t acc[RUN], v[RUN];
	int_fn *g = fns[code].whole;
	load_i64(&c->in[0], w->at[1] + from * w->run[1], w->run[1], n, acc);
	for (int i = 1; i < c->nin; i++) {
		load_i64(&c->in[i], w->at[i + 1] + from * w->run[i + 1], w->run[i + 1], n, v);
		for (int64_t j = 0; j < n; j++)
			acc[j] = g(acc[j], v[j]);
	}
	store_i64(&c->out[0], w->at[0] + from, n, acc);
}

static void run_where(const struct opctx *c, const struct walk *w, size_t bytes)
{
	const uint8_t *cond = c->in[0].data;
	for (int64_t j = 0; j < w->n; j++) {
		int from = cond[w->at[1] + j * w->run[1]] ? 1 : 2;
		const char *src = c->in[from].data;
		int64_t at = w->at[from + 1] + j * w->run[from + 1];
		char *dst = (char *)c->out[0].data + (w->at[0] + j) * (int64_t)bytes;
		for (size_t b = 0; b < bytes; b++)
			dst[b] = src[at * (int64_t)bytes + (int64_t)b];
	}
}

/* Comparisons of f32; `swapped`: the second operand is compared with the first. */
static const struct {
	bool known, swapped;
	enum run_test test;
} tests[] = {[B_LESS] = {true, false, RUN_LESS},
	     [B_LESSEQ] = {true, false, RUN_LESSEQ},
	     [B_GREATER] = {true, true, RUN_LESS},
	     [B_GREATEREQ] = {true, true, RUN_LESSEQ},
	     [B_EQUAL] = {true, false, RUN_EQUAL}};

static bool is_quick(const struct opctx *c, int code)
{
	if (code == B_WHERE)
		return dtype_bytes(c->out[0].dtype) == 4;
	return (size_t)code < sizeof tests / sizeof *tests && tests[code].known && c->in[0].dtype == DT_F32;
}

/* Computes a run with kernels/task/runs.h; steps within a run are 0 or 1 in broadcasts. */
static void run_quick(const struct opctx *c, int code, const struct walk *w)
{
	if (code == B_WHERE) {
		run_select((const uint8_t *)c->in[0].data + w->at[1], w->run[1],
			   (const uint32_t *)c->in[1].data + w->at[2], w->run[2],
			   (const uint32_t *)c->in[2].data + w->at[3], w->run[3],
			   (uint32_t *)c->out[0].data + w->at[0], w->n);
		return;
	}
	int a = tests[code].swapped, b = !a;
	run_test(tests[code].test, (const float *)c->in[a].data + w->at[a + 1], w->run[a + 1],
		 (const float *)c->in[b].data + w->at[b + 1], w->run[b + 1],
		 (uint8_t *)c->out[0].data + w->at[0], w->n);
}

static int eval(struct opctx *c)
{
	struct walk w;
	open_walk(&w, c);
	int code = code_of(c);
	bool real = false;
	for (int i = 0; i < c->nin; i++)
		real |= dtype_in(c->in[i].dtype, DTYPES_FLOAT);
	for (walk_start(&w); !w.done; walk_next(&w)) {
		if (is_quick(c, code)) {
			run_quick(c, code, &w);
			continue;
		}
		if (code == B_WHERE) {
			run_where(c, &w, dtype_bytes(c->out[0].dtype));
			continue;
		}
		for (int64_t from = 0; from < w.n; from += RUN) {
			int64_t n = w.n - from < RUN ? w.n - from : RUN;
			if (real)
				run_real(c, code, &w, from, n);
			else
				run_whole(c, code, &w, from, n);
		}
	}
	return E_OK;
}

const struct op op_binary = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
