/* SPDX-License-Identifier: Apache-2.0 */
/* Operations. select(x, y, c) is y where c is true, for vectors and single values alike. */
#include "kernels/emit/opencl_gen.h"
#include <stdio.h>
#include <string.h>

/* Templates: $a $b $c $e are the four operands, $F $I $U the float, int and uint types of the result's
 * lanes. */
static const char *const f32_text[V_OPS] = {
    [V_COPY] = "$a",
    [V_ADD] = "$a + $b",
    [V_SUB] = "$a - $b",
    [V_MUL] = "$a * $b",
    [V_DIV] = "$a / $b",
    [V_MIN] = "select($b, $a, $a < $b)",
    [V_MAX] = "select($b, $a, $a > $b)",
    [V_FMA] = "fma($a, $b, $c)",
    [V_NEG] = "-$a",
    [V_ABS] = "fabs($a)",
    [V_SQRT] = "sqrt($a)",
    [V_FLOOR] = "floor($a)",
    [V_CEIL] = "ceil($a)",
    [V_RINT] = "rint($a)",
    [V_SEL_LT] = "select($e, $c, $a < $b)",
    [V_SEL_LE] = "select($e, $c, $a <= $b)",
    [V_SEL_EQ] = "select($e, $c, $a == $b)",
    [V_POW2] = "as_$F(as_$U($a) << 23)",
    [V_GETEXP] = "convert_$F(as_$I(as_$U($a) >> 23 & 255u) - 127)",
    [V_GETMANT] = "as_$F((as_$U($a) & 0x7fffffu) | 0x3f800000u)",
    [V_BDOT2] = "fma(as_$F($a << 16), as_$F($b << 16), fma(as_$F(as_$U($a) & 0xffff0000u), "
		"as_$F(as_$U($b) & 0xffff0000u), $c))",
    [V_CVT] = "convert_$F($a)",
};

/* The sum of two products of 16 bits may not fit s32, but wraps as an unsigned number. */
static const char *const s32_text[V_OPS] = {
    [V_COPY] = "$a",
    [V_ADD] = "$a + $b",
    [V_SUB] = "$a - $b",
    [V_MUL] = "$a * $b",
    [V_MIN] = "min($a, $b)",
    [V_MAX] = "max($a, $b)",
    [V_DOT4U] = CL_DOT4U("$a", "$b", "$c"),
    [V_DOT4S] = CL_DOT4S("$a", "$b", "$c"),
    [V_DOT2] = "as_$I(as_$U($c) + as_$U(($a << 16 >> 16) * ($b << 16 >> 16)) + "
	       "as_$U(($a >> 16) * ($b >> 16)))",
    [V_CVT] = "convert_$I_rte($a)",
    [V_QUADU] = "clamp($a, 0, 255) | clamp($b, 0, 255) << 8 | clamp($c, 0, 255) << 16 | "
		"clamp($e, 0, 255) << 24",
    [V_QUADS] = "(clamp($a, -128, 127) & 255) | (clamp($b, -128, 127) & 255) << 8 | "
		"(clamp($c, -128, 127) & 255) << 16 | clamp($e, -128, 127) << 24",
};

/* What is printed without a template. */
static const bool special[V_OPS] = {
    [V_CONST] = true, [V_LOAD] = true,  [V_LANE] = true, [V_TRN0] = true, [V_TRN1] = true,
    [V_LACE] = true,  [V_HADD] = true,  [V_HMIN] = true, [V_HMAX] = true, [V_HMUL] = true,
    [V_BTURN] = true, [V_BBACK] = true, [V_SHUF] = true};

bool cl_has(enum vop op, enum lv_type type)
{
	return special[op] || (type == LV_F32 ? f32_text : s32_text)[op];
}

static void expand(struct cl_gen *g, const struct stmt *s, const char *text)
{
	int lanes = g->l->lanes[s->dst];
	struct buf *out = &g->out;
	for (const char *p = text; *p; p++) {
		if (*p != '$') {
			buf_add(out, p, 1);
			continue;
		}
		switch (*++p) {
		case 'F':
			buf_puts(out, cl_type(LV_F32, lanes));
			break;
		case 'I':
			buf_puts(out, cl_type(LV_S32, lanes));
			break;
		case 'U':
			buf_printf(out, "uint%s", cl_width(lanes));
			break;
		default:
			buf_printf(out, "v%d", *p == 'a' ? s->a : *p == 'b' ? s->b : *p == 'c' ? s->c : s->d);
		}
	}
}

static void constant(struct cl_gen *g, const struct stmt *s, enum lv_type type)
{
	uint32_t bits = (uint32_t)s->s32;
	if (type == LV_F32)
		memcpy(&bits, &s->imm, sizeof bits);
	buf_printf(&g->out, "(%s)(as_%s(0x%08xu))", cl_type(type, g->l->lanes[s->dst]), cl_type(type, 1),
		   (unsigned)bits);
}

/* The variable and the lane of it that lane i of a TRN0, TRN1 or LACE takes. */
static void source(const struct stmt *s, int i, int lanes, int *v, int *lane)
{
	int step = (int)s->imm;
	int from = s->vop == V_LACE ? lace_lane(lace_of(step), i, lanes) : -1;
	bool odd = i & step;
	if (s->vop == V_LACE) {
		*v = from < 0 ? s->a : s->b;
		*lane = from < 0 ? i : from;
	} else if (s->vop == V_TRN0) {
		*v = odd ? s->b : s->a;
		*lane = odd ? i - step : i;
	} else {
		*v = odd ? s->b : s->a;
		*lane = odd ? i : i + step;
	}
}

static void shuffle(struct cl_gen *g, const struct stmt *s, enum lv_type type)
{
	int lanes = g->l->lanes[s->dst];
	buf_printf(&g->out, "(%s)(", cl_type(type, lanes));
	for (int i = 0, v, lane; i < lanes; i++) {
		source(s, i, lanes, &v, &lane);
		buf_puts(&g->out, i ? ", " : "");
		cl_lane(g, v, lane);
	}
	buf_puts(&g->out, ")");
}

static void bytes_turned(struct cl_gen *g, const struct stmt *s)
{
	int lanes = g->l->lanes[s->dst];
	buf_printf(&g->out, "(%s)(", cl_type(LV_S32, lanes));
	for (int i = 0; i < lanes; i++)
		for (int p = 0; p < 4; p++) {
			int j = 4 * i + p,
			    from = s->vop == V_BBACK ? j % lanes * 4 + j / lanes : p * lanes + i;
			buf_puts(&g->out, p ? " | " : i ? ", " : "");
			buf_puts(&g->out, "(");
			cl_lane(g, s->a, from / 4);
			buf_printf(&g->out, " >> %d & 255) << %d", from % 4 * 8, 8 * p);
		}
	buf_puts(&g->out, ")");
}

/* Two values combined by HADD or one of its friends. */
static void combine(struct cl_gen *g, enum vop op, enum lv_type type, const char *x, const char *y)
{
	bool least = op == V_HMIN;
	if (op == V_HADD || op == V_HMUL)
		buf_printf(&g->out, "%s %c %s", x, op == V_HADD ? '+' : '*', y);
	else if (type == LV_F32)
		buf_printf(&g->out, "select(%s, %s, %s %c %s)", y, x, x, least ? '<' : '>', y);
	else
		buf_printf(&g->out, "%s(%s, %s)", least ? "min" : "max", x, y);
}

/* The tree of halves: h8, h4, h2 and h1 are what is left of 16 lanes. */
static void across(struct cl_gen *g, const struct stmt *s, enum lv_type type)
{
	char from[16], lo[24], hi[24];
	snprintf(from, sizeof from, "v%d", s->a);
	buf_puts(&g->out, "{ ");
	for (int n = g->l->lanes[s->a] / 2; n >= 1; n /= 2) {
		snprintf(lo, sizeof lo, "%s.lo", from);
		snprintf(hi, sizeof hi, "%s.hi", from);
		buf_printf(&g->out, "const %s h%d = ", cl_type(type, n), n);
		combine(g, s->vop, type, lo, hi);
		buf_puts(&g->out, "; ");
		snprintf(from, sizeof from, "h%d", n);
	}
	buf_printf(&g->out, "v%d = (%s)(%s); }\n", s->dst, cl_type(type, g->l->lanes[s->dst]), from);
}

void cl_set(struct cl_gen *g, const struct stmt *s)
{
	enum lv_type type = g->l->type[s->dst];
	if (vop_across(s->vop)) {
		across(g, s, type);
		return;
	}
	buf_printf(&g->out, "v%d = ", s->dst);
	if (s->vop == V_CONST) {
		constant(g, s, type);
	} else if (s->vop == V_LANE) {
		buf_printf(&g->out, "(%s)(", cl_type(type, g->l->lanes[s->dst]));
		cl_lane(g, s->a, (int)s->imm);
		buf_puts(&g->out, ")");
	} else if (s->vop == V_TRN0 || s->vop == V_TRN1 || s->vop == V_LACE) {
		shuffle(g, s, type);
	} else if (s->vop == V_BTURN || s->vop == V_BBACK) {
		bytes_turned(g, s);
	} else if (cl_ext_set(g, s)) {
		/* printed */
	} else if (s->vop == V_FMA && !g->l->fma) {
		expand(g, s, "$a * $b + $c");
	} else {
		expand(g, s, type == LV_F32 ? f32_text[s->vop] : s32_text[s->vop]);
	}
	buf_puts(&g->out, ";\n");
}
