/* SPDX-License-Identifier: Apache-2.0 */
/* Statements that only threads have. A copy is done at once, by the thread that makes it: OpenCL 1.2 has none
 * of its own that one thread starts. A shuffle goes through local memory, which every device has, unless the
 * device's sub-groups (opencl_ext.c) are large enough to exchange the values. */
#include "kernels/emit/opencl_gen.h"

/* q: where the copy goes; p: where it comes from; n: its valid elements. */
void cl_copy(struct cl_gen *g, const struct stmt *s)
{
	const char *type = cl_element(g->l->buf[s->to].dtype);
	buf_printf(&g->out, "{\n__local %s *q = b%d + ", type, s->to);
	cl_ix(g, s->to_at);
	buf_printf(&g->out, ";\n__global const %s *p = b%d + ", type, s->mem.buf);
	cl_ix(g, s->mem.at);
	buf_puts(&g->out, ";\n");
	if (s->mem.valid) {
		buf_printf(&g->out, "const %s n = ", cl_ix_type(s->mem.valid));
		cl_ix(g, s->mem.valid);
		buf_printf(&g->out, ";\nif (n >= %d)\n", s->s32);
	}
	if (s->s32 > 1)
		buf_printf(&g->out, "vstore%d(vload%d(0, p), 0, q);\n", s->s32, s->s32);
	else
		buf_puts(&g->out, "*q = *p;\n");
	if (s->mem.valid) {
		buf_puts(&g->out, "else {\n");
		for (int i = 0; i < s->s32; i++)
			buf_printf(&g->out, "q[%d] = n > %d ? p[%d] : 0;\n", i, i, i);
		buf_puts(&g->out, "}\n");
	}
	buf_puts(&g->out, "}\n");
}

/* 32-bit words that a thread passes on at a time in the SHUFs of a list; 0: it has none. Recursion is bounded
 * by LOOPS_MAX_DEPTH. */
static int shuffle_words(const struct cl_gen *g, const struct stmt *s)
{
	int most = 0;
	for (; s; s = s->next) {
		int in = shuffle_words(g, s->body), other = shuffle_words(g, s->other),
		    own = s->op == ST_SET && s->vop == V_SHUF ? g->l->lanes[s->a] : 0;
		most = in > most ? in : most;
		most = other > most ? other : most;
		most = own > most ? own : most;
	}
	return most;
}

void cl_shuffle_memory(struct cl_gen *g, const struct entry *e)
{
	int words = shuffle_words(g, e->body);
	if (words)
		buf_printf(&g->out, "__local uint h[%d];\n", e->threads * words);
}

/* The first barrier lets the threads read what the shuffle before left. */
static void by_memory(struct cl_gen *g, const struct stmt *s)
{
	int lanes = g->l->lanes[s->a];
	const char *w = cl_width(lanes), *type = cl_type(g->l->type[s->dst], lanes);
	buf_puts(&g->out, "barrier(CLK_LOCAL_MEM_FENCE);\n");
	if (lanes > 1)
		buf_printf(&g->out, "vstore%s(as_uint%s(v%d), get_local_id(1), h);\n", w, w, s->a);
	else
		buf_printf(&g->out, "h[get_local_id(1)] = as_uint(v%d);\n", s->a);
	buf_puts(&g->out, "barrier(CLK_LOCAL_MEM_FENCE);\n");
	if (lanes > 1)
		buf_printf(&g->out, "v%d = as_%s(vload%s(get_local_id(1) ^ %du, h));\n", s->dst, type, w,
			   (int)s->imm);
	else
		buf_printf(&g->out, "v%d = as_%s(h[get_local_id(1) ^ %du]);\n", s->dst, type, (int)s->imm);
}

/* Lanes one by one. */
static void by_exchange(struct cl_gen *g, const struct stmt *s)
{
	int lanes = g->l->lanes[s->a];
	const char *type = cl_type(g->l->type[s->dst], 1);
	buf_printf(&g->out, "v%d = (%s)(", s->dst, cl_type(g->l->type[s->dst], lanes));
	for (int i = 0; i < lanes; i++) {
		buf_printf(&g->out, "%sas_%s(exchange(as_uint(", i ? ", " : "", type);
		cl_lane(g, s->a, i);
		buf_printf(&g->out, "), %du))", (int)s->imm);
	}
	buf_puts(&g->out, ");\n");
}

void cl_shuffle(struct cl_gen *g, const struct stmt *s)
{
	if (!g->exchanges) {
		by_memory(g, s);
		return;
	}
	buf_printf(&g->out, "if (together() > %du) {\n", (int)s->imm);
	by_exchange(g, s);
	buf_puts(&g->out, "} else {\n");
	by_memory(g, s);
	buf_puts(&g->out, "}\n");
}
