/* SPDX-License-Identifier: Apache-2.0 */
/* Integer expressions as C expressions. A node whose range fits 32 bits is an int; its operands may be
 * longer, and then the operation is done in long and the result cut. Ranges are those of the values that are
 * really computed, since nothing is computed ahead of its guard. */
#include "kernels/emit/opencl_gen.h"

/* Rounding towards minus infinity; a divisor of 0 gives 0, and -1 does not overflow. */
#define FUNCTIONS(type, s)                                                                                   \
	"static " type " div_" s "(" type " a, " type " b)\n"                                                \
	"{\n"                                                                                                \
	"if (b == 0 || b == -1)\n"                                                                           \
	"return b == 0 ? 0 : -a;\n"                                                                          \
	"return a / b - (a % b != 0 && (a < 0) != (b < 0));\n"                                               \
	"}\n"                                                                                                \
	"static " type " mod_" s "(" type " a, " type " b)\n"                                                \
	"{\n"                                                                                                \
	"if (b == 0 || b == -1)\n"                                                                           \
	"return 0;\n"                                                                                        \
	"const " type " r = a % b;\n"                                                                        \
	"return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n"                                                 \
	"}\n"

const char cl_ix_functions[] = FUNCTIONS("int", "int") FUNCTIONS("long", "long");

bool cl_is_int(const struct ix *x)
{
	return x->lo >= INT32_MIN && x->hi <= INT32_MAX;
}

const char *cl_ix_type(const struct ix *x)
{
	return cl_is_int(x) ? "int" : "long";
}

/* The smallest number has no literal of its own. */
static void constant(struct cl_gen *g, int64_t c)
{
	if (c >= -INT32_MAX && c <= INT32_MAX)
		buf_printf(&g->out, c < 0 ? "(%lld)" : "%lld", (long long)c);
	else if (c == INT32_MIN)
		buf_puts(&g->out, "(-2147483647 - 1)");
	else if (c == INT64_MIN)
		buf_puts(&g->out, "(-9223372036854775807L - 1)");
	else
		buf_printf(&g->out, c < 0 ? "(%lldL)" : "%lldL", (long long)c);
}

static void operand(struct cl_gen *g, const struct ix *x, bool wide)
{
	if (wide && cl_is_int(x))
		buf_puts(&g->out, "(long)");
	cl_ix(g, x);
}

/* The text before the operands, between them and after them. */
static void operation(const struct ix *x, bool wide, const char *text[3])
{
	static const char *const infix[] = {[IX_ADD] = " + ", [IX_MUL] = " * ", [IX_DIV] = " / ",
					    [IX_MOD] = " % ", [IX_LT] = " < ",  [IX_EQ] = " == "};
	bool plain = x->a->lo >= 0 && x->b->lo >= 1;
	text[0] = "(";
	text[1] = ", ";
	text[2] = ")";
	if (x->op == IX_MIN || x->op == IX_MAX)
		text[0] = x->op == IX_MIN ? "min(" : "max(";
	else if (x->op == IX_DIV && !plain)
		text[0] = wide ? "div_long(" : "div_int(";
	else if (x->op == IX_MOD && !plain)
		text[0] = wide ? "mod_long(" : "mod_int(";
	else
		text[1] = infix[x->op];
}

/* Recursion is bounded by IX_MAX_HEIGHT; the text, which shares no nodes, by OPENCL_MAX_SOURCE. */
void cl_ix(struct cl_gen *g, const struct ix *x)
{
	if (g->out.n > OPENCL_MAX_SOURCE) {
		g->over = true;
		return;
	}
	if ((x->op == IX_MIN || x->op == IX_MAX) && x->a == x->b)
		x = x->a; /* ix_atom */
	if (x->op == IX_CONST) {
		constant(g, x->c);
	} else if (x->op == IX_VAR || x->op == IX_PARAM) {
		buf_printf(&g->out, "%c%d", x->op == IX_VAR ? 'i' : 'p', x->id);
	} else if (x->op == IX_TABLE) {
		buf_printf(&g->out, "b%d[", x->id);
		cl_ix(g, x->a);
		buf_puts(&g->out, "]");
	} else {
		bool wide = !cl_is_int(x) || !cl_is_int(x->a) || !cl_is_int(x->b);
		const char *text[3];
		operation(x, wide, text);
		if (wide && cl_is_int(x))
			buf_puts(&g->out, "(int)");
		buf_puts(&g->out, text[0]);
		operand(g, x->a, wide);
		buf_puts(&g->out, text[1]);
		operand(g, x->b, wide);
		buf_puts(&g->out, text[2]);
	}
}
