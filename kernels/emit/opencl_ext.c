/* SPDX-License-Identifier: Apache-2.0 */
/* Operations for which devices have extensions of OpenCL C. The target's features name the extensions that
 * the device lists. A program with such an operation calls functions that this file prints before its
 * entries. The device's compiler chooses their bodies by the macros that it defines; without any of them it
 * takes plain arithmetic. All bodies give the same bits.
 *
 * Dot products of four bytes. cl_khr_integer_dot_product (OpenCL Extension Specification 3.0, section 42)
 * belongs to OpenCL C 3.0. Its functions of packed bytes are those that every device with it has; they
 * saturate sums, which no right program reaches. cl_arm_integer_dot_product_int8 and _accumulate_int8
 * multiply bytes of one sign only: a - 128 is signed, and 128 times the sum of b's bytes makes up for it.
 * That is the same for all points of a tile that multiply b.
 *
 * Arithmetic in f16, by cl_khr_fp16: fma rounds once, as FMA2 does. There is no other body, and a target
 * without it is refused. A device may make zeros of subnormals of f16.
 *
 * Exchanges between threads: cl_khr_subgroup_shuffle, of OpenCL C 3.0, or cl_intel_subgroups. together() is
 * the size of a sub-group, and threads i and i ^ mask with mask below that size (a power of two) are taken to
 * be in one: devices divide a group by its threads' numbers, though OpenCL does not promise it, and a kernel
 * on another device would be found to be wrong. Where a sub-group is too small, a shuffle goes through local
 * memory (opencl_threads.c). */
#include "kernels/emit/opencl_gen.h"

/* Adds 128 times the sum of b's bytes to c first. That may leave the range of an int; the products then bring
 * it back. */
static const char by_signed[] = "dot4s(a ^ (int)0x80808080u, b, as_int(as_uint(c) + "
				"(as_uint(dot4s(0x01010101, b, 0)) << 7)))";

/* Expressions of c and the products of the bytes of a and b, where a macro is defined; the last one stands
 * for the compilers that define none. */
static const struct dots {
	const char *feature, *macro;
	bool enable; /* the macro names an extension that a pragma enables */
	const char *dot4s, *dot4u;
} dots[] = {{"+cl_khr_integer_dot_product", "__opencl_c_integer_dot_product_input_4x8bit_packed", false,
	     "dot_acc_sat_4x8packed_ss_int(as_uint(a), as_uint(b), c)",
	     "dot_acc_sat_4x8packed_us_int(as_uint(a), as_uint(b), c)"},
	    {"+cl_arm_integer_dot_product_accumulate_int8", "cl_arm_integer_dot_product_accumulate_int8",
	     true, "arm_dot_acc(as_char4(a), as_char4(b), c)", by_signed},
	    {"+cl_arm_integer_dot_product_int8", "cl_arm_integer_dot_product_int8", true,
	     "as_int(as_uint(c) + as_uint(arm_dot(as_char4(a), as_char4(b))))", by_signed},
	    {NULL, NULL, false, CL_DOT4S("a", "b", "c"), CL_DOT4U("a", "b", "c")}};
enum { KHR_DOTS, DOTS = sizeof dots / sizeof *dots };

static const char exchanges[] =
    "#if defined(cl_khr_subgroup_shuffle)\n"
    "#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n"
    "static uint together(void)\n{\nreturn get_max_sub_group_size();\n}\n"
    "static uint exchange(const uint v, const uint mask)\n{\nreturn sub_group_shuffle_xor(v, mask);\n}\n"
    "#elif defined(cl_intel_subgroups)\n"
    "#pragma OPENCL EXTENSION cl_intel_subgroups : enable\n"
    "static uint together(void)\n{\nreturn get_max_sub_group_size();\n}\n"
    "static uint exchange(const uint v, const uint mask)\n{\n"
    "return intel_sub_group_shuffle_xor(v, mask);\n}\n"
    "#else\n"
    "static uint together(void)\n{\nreturn 1;\n}\n"
    "static uint exchange(const uint v, const uint mask)\n{\nreturn v;\n}\n"
    "#endif\n";

/* Whether a statement has one of the operations from `first` on to before `end`. Recursion is bounded by
 * LOOPS_MAX_DEPTH. */
static bool any_of(const struct stmt *s, enum vop first, enum vop end)
{
	bool any = false;
	for (; s && !any; s = s->next) {
		any = s->op == ST_SET && s->vop >= first && s->vop < end;
		if (s->op == ST_FOR || s->op == ST_IF)
			any = any_of(s->body, first, end);
		if (s->op == ST_IF && !any)
			any = any_of(s->other, first, end);
	}
	return any;
}

static bool program_has(const struct loops *l, enum vop first, enum vop end)
{
	bool any = false;
	for (int i = 0; i < l->nentries; i++)
		any |= any_of(l->entry[i].body, first, end);
	return any;
}

void cl_ext_choose(struct cl_gen *g, const struct target *t)
{
	bool uses = program_has(g->l, V_DOT4U, V_DOT2);
	for (int i = 0; uses && dots[i].feature; i++)
		g->dots |= target_has(t, dots[i].feature);
	g->khr_dots = uses && target_has(t, dots[KHR_DOTS].feature);
	g->halves = target_sums_f16(t) && program_has(g->l, V_FMA2, V_CVT);
	g->exchanges = target_exchanges(t) && program_has(g->l, V_SHUF, V_OPS);
	g->khr_exchanges = g->exchanges && target_has(t, "+cl_khr_subgroup_shuffle");
}

bool cl_ext_has(const struct cl_gen *g, enum vop op)
{
	return g->halves && (op == V_FMA2 || op == V_SUM2);
}

const char *cl_ext_standard(const struct cl_gen *g)
{
	return g->khr_dots || g->khr_exchanges ? "CL3.0" : "CL1.2";
}

static void function(struct cl_gen *g, const char *name, const char *expression)
{
	buf_printf(&g->out, "static int %s(const int a, const int b, const int c)\n{\nreturn %s;\n}\n", name,
		   expression);
}

/* FMA2 and SUM2 of so many lanes. */
static void half_functions(struct cl_gen *g, int lanes)
{
	const char *w = cl_width(lanes), *h = cl_width(2 * lanes);
	buf_printf(&g->out,
		   "static int%s fma2_%d(const int%s a, const int%s b, const int%s c)\n{\n"
		   "return as_int%s(fma(as_half%s(a), as_half%s(b), as_half%s(c)));\n}\n",
		   w, lanes, w, w, w, w, h, h, h);
	buf_printf(
	    &g->out,
	    "static float%s sum2_%d(const int%s a, const float%s b)\n{\nconst half%s h = as_half%s(a);\n"
	    "return b + (convert_float%s(h.even) + convert_float%s(h.odd));\n}\n",
	    w, lanes, w, w, h, h, w, w);
}

/* Vectors of 32 halves do not exist. */
static const char halves_of_16[] = "static int16 fma2_16(const int16 a, const int16 b, const int16 c)\n{\n"
				   "return (int16)(fma2_8(a.lo, b.lo, c.lo), fma2_8(a.hi, b.hi, c.hi));\n}\n"
				   "static float16 sum2_16(const int16 a, const float16 b)\n{\n"
				   "return (float16)(sum2_8(a.lo, b.lo), sum2_8(a.hi, b.hi));\n}\n";

void cl_ext_functions(struct cl_gen *g)
{
	if (g->halves) {
		buf_puts(&g->out,
			 "#if defined(cl_khr_fp16)\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n");
		for (int lanes = 1; lanes <= 8; lanes *= 2)
			half_functions(g, lanes);
		buf_puts(&g->out, "#endif\n");
		buf_puts(&g->out, halves_of_16);
	}
	if (g->exchanges)
		buf_puts(&g->out, exchanges);
	for (int i = 0; g->dots && i < DOTS; i++) {
		const struct dots *d = &dots[i];
		if (d->macro)
			buf_printf(&g->out, "#%s defined(%s)\n", i ? "elif" : "if", d->macro);
		else
			buf_puts(&g->out, "#else\n");
		if (d->enable)
			buf_printf(&g->out, "#pragma OPENCL EXTENSION %s : enable\n", d->macro);
		function(g, "dot4s", d->dot4s);
		function(g, "dot4u", d->dot4u);
	}
	buf_puts(&g->out, g->dots ? "#endif\n" : "");
}

/* Lanes one by one. */
static void dot(struct cl_gen *g, const struct stmt *s)
{
	int lanes = g->l->lanes[s->dst];
	const int operand[] = {s->a, s->b, s->c};
	buf_printf(&g->out, "(%s)(", cl_type(LV_S32, lanes));
	for (int i = 0; i < lanes; i++) {
		buf_printf(&g->out, "%s%s(", i ? ", " : "", s->vop == V_DOT4U ? "dot4u" : "dot4s");
		for (int k = 0; k < 3; k++) {
			buf_puts(&g->out, k ? ", " : "");
			cl_lane(g, operand[k], i);
		}
		buf_puts(&g->out, ")");
	}
	buf_puts(&g->out, ")");
}

bool cl_ext_set(struct cl_gen *g, const struct stmt *s)
{
	bool sums = g->dots && (s->vop == V_DOT4U || s->vop == V_DOT4S), halves = cl_ext_has(g, s->vop);
	if (sums)
		dot(g, s);
	else if (halves && s->vop == V_FMA2)
		buf_printf(&g->out, "fma2_%d(v%d, v%d, v%d)", g->l->lanes[s->dst], s->a, s->b, s->c);
	else if (halves)
		buf_printf(&g->out, "sum2_%d(v%d, v%d)", g->l->lanes[s->dst], s->a, s->b);
	return sums || halves;
}
