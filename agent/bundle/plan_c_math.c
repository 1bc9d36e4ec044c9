/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar operators of programs in C: the formulas of agent/run/host_math.c (kernels/loops/vmath.c
 * explains them).
 */
#include "agent/bundle/plan_c_parts.h"

#include <math.h>
#include <string.h>

void c_float(struct buf *b, float v)
{
	if (isnan(v))
		buf_puts(b, "(float)NAN");
	else if (isinf(v))
		buf_puts(b, v < 0 ? "-(float)INFINITY" : "(float)INFINITY");
	else
		buf_printf(b, "%af", (double)v);
}

/* Bodies of functions of a, b and c. */
static const char *const bodies[P_OPS] = {
    [P_ADD] = "return a + b;",
    [P_SUB] = "return a - b;",
    [P_MUL] = "return a * b;",
    [P_DIV] = "return a / b;",
    [P_MIN] = "return a < b ? a : b;",
    [P_MAX] = "return a > b ? a : b;",
    [P_POW] = "return powf(a, b);",
    [P_NEG] = "return -a;",
    [P_ABS] = "uint32_t bits;\n"
	      "\tmemcpy(&bits, &a, sizeof bits);\n"
	      "\tbits &= 0x7fffffffu;\n"
	      "\tmemcpy(&a, &bits, sizeof a);\n"
	      "\treturn a;",
    [P_SQRT] = "return sqrtf(a);",
    [P_RECIP] = "return 1 / a;",
    [P_EXP] = "float t = (a * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounded */\n"
	      "\tt = t > -125 ? t : -125;\n"
	      "\tt = t < 128 ? t : 128;\n"
	      "\tfloat r = a - t * 0.693359375f;\n"
	      "\tr -= t * -2.12194440e-4f;\n"
	      "\tfloat y = 1.0f / 5040;\n"
	      "\ty = y * r + 1.0f / 720;\n"
	      "\ty = y * r + 1.0f / 120;\n"
	      "\ty = y * r + 1.0f / 24;\n"
	      "\ty = y * r + 1.0f / 6;\n"
	      "\ty = y * r + 0.5f;\n"
	      "\ty = y * r + 1;\n"
	      "\ty = y * r + 1;\n"
	      "\tconst int32_t bits = ((int32_t)t + 126) * (1 << 23); /* 2^(t-1) */\n"
	      "\tfloat p;\n"
	      "\tmemcpy(&p, &bits, sizeof p);\n"
	      "\ty *= p;\n"
	      "\treturn a < -87 ? 0 : y + y;",
    [P_LOG] = "return logf(a);",
    [P_TANH] = "const float e = op_exp(-2 * op_abs(a)), z = a * a, far = (1 - e) / (1 + e);\n"
	       "\tfloat y = 21844.0f / 6081075;\n"
	       "\ty = y * z - 1382.0f / 155925;\n"
	       "\ty = y * z + 62.0f / 2835;\n"
	       "\ty = y * z - 17.0f / 315;\n"
	       "\ty = y * z + 2.0f / 15;\n"
	       "\ty = y * z - 1.0f / 3;\n"
	       "\treturn op_abs(a) < 0.4f ? y * z * a + a : a < 0 ? -far : far;",
    [P_SIGMOID] = "return 1 / (1 + op_exp(-a));",
    [P_ERF] = "const float k = 1.12837917f, z = a * a, t = 1 / (op_abs(a) * 0.3275911f + 1);\n"
	      "\tfloat p = 1.061405429f;\n"
	      "\tp = p * t - 1.453152027f;\n"
	      "\tp = p * t + 1.421413741f;\n"
	      "\tp = p * t - 0.284496736f;\n"
	      "\tp = p * t + 0.254829592f;\n"
	      "\tconst float far = 1 - p * t * op_exp(-z);\n"
	      "\tfloat y = k / 9360;\n"
	      "\ty = y * z - k / 1320;\n"
	      "\ty = y * z + k / 216;\n"
	      "\ty = y * z - k / 42;\n"
	      "\ty = y * z + k / 10;\n"
	      "\ty = y * z - k / 3;\n"
	      "\ty = y * z + 0.128379167f; /* k - 1 */\n"
	      "\treturn op_abs(a) < 0.5f ? y * a + a : a < 0 ? -far : far;",
    [P_FLOOR] = "return floorf(a);",
    [P_CEIL] = "return ceilf(a);",
    [P_RINT] = "return rintf(a);",
    [P_SIGN] = "return (float)((a > 0) - (a < 0));",
    [P_LT] = "return a < b ? 1.0f : 0.0f;",
    [P_LE] = "return a <= b ? 1.0f : 0.0f;",
    [P_EQ] = "return a == b ? 1.0f : 0.0f;",
    [P_SELECT] = "return a != 0 ? b : c;",
    [P_SQUARE] = "return a * a;",
    [P_SILU] = "return a == -(float)INFINITY ? a : a * op_sigmoid(a);",
    [P_GELU] = "const float low = a < -10 ? -10 : a, in = low > 10 ? 10 : low;\n"
	       "\treturn low * 0.5f * (1 + op_erf(in * 0.707106781f));",
};

/* Ordered so that users precede what they use. In the enum, an operator that is used precedes its users. */
static const struct {
	enum prog_op op, uses;
} uses[] = {{P_GELU, P_ERF}, {P_SILU, P_SIGMOID}, {P_ERF, P_EXP}, {P_SIGMOID, P_EXP},
	    {P_TANH, P_EXP}, {P_TANH, P_ABS},     {P_ERF, P_ABS}};

void c_helpers(const struct plan_c *c, struct buf *out)
{
	bool op[P_OPS];
	memcpy(op, c->op, sizeof op);
	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		op[uses[i].uses] |= op[uses[i].op];
	for (int i = 0; i < P_OPS; i++)
		if (op[i] && bodies[i]) {
			static const char *const args[] = {"", "float a", "float a, float b",
							   "float a, float b, float c"};
			buf_printf(out, "static inline float op_%s(%s)\n{\n\t%s\n}\n\n",
				   prog_op_name((enum prog_op)i), args[prog_op_arity((enum prog_op)i)],
				   bodies[i]);
		}
	for (int i = 0; i < 2; i++)
		if (c->to_byte[i])
			buf_printf(
			    out,
			    "/* The nearest number of the type, ties to even; NaN becomes the least. */\n"
			    "static inline float to_%s(float a)\n{\n\ta = a > %s ? a : %s;\n"
			    "\ta = a < %s ? a : %s;\n\treturn (a + 12582912.0f) - 12582912.0f;\n}\n\n",
			    i ? "i8" : "u8", i ? "-128.0f" : "0.0f", i ? "-128.0f" : "0.0f",
			    i ? "127.0f" : "255.0f", i ? "127.0f" : "255.0f");
	if (c->floor_div)
		buf_puts(out, "/* Rounded down; b > 0. */\n"
			      "static inline int64_t floor_mod(int64_t a, int64_t b)\n{\n"
			      "\treturn a % b + (a % b < 0 ? b : 0);\n}\n\n"
			      "static inline int64_t floor_div(int64_t a, int64_t b)\n{\n"
			      "\treturn (a - floor_mod(a, b)) / b;\n}\n\n");
}

bool c_needs_math(const struct plan_c *c)
{
	return c->op[P_POW] || c->op[P_LOG] || c->op[P_SQRT] || c->op[P_FLOOR] || c->op[P_CEIL] ||
	       c->op[P_RINT];
}
