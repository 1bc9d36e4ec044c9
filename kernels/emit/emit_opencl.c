/* SPDX-License-Identifier: Apache-2.0 */
/* Loops to OpenCL C 1.2, or to 3.0 with an extension of that (opencl_ext.c). The object is text: its first
 * line "//hone-opencl OPTIONS" names the compiler's options, of the list that platform/run/opencl.h accepts,
 * and the rest is the source.
 *
 * An entry is a kernel of its name. One work item runs the body for one index of the parallel extent. Its
 * arguments are, in this order: for each buffer, in the order of the kernel ABI, a pointer and a long, the
 * byte that the buffer begins at (of a texture: an image, and 0); each parameter as a long; begin and end,
 * longs. Work item w runs index begin + w if that is below end, so a launch may be rounded up to whole
 * groups; one of threads has a group for each index. Its groups have as many items as the entry says, which
 * the kernel's attribute tells the driver and the launch. The last buffer, if it is scratch, has as many
 * elements for each work item as the program declares: item w takes the w-th part; where it is common, all
 * have one part.
 *
 * If an entry has threads, each of its indices is a group, whose second size is their number, and its shared
 * buffers are local memory.
 *
 * Results equal the interpreter's bit for bit where the device rounds divisions and square roots correctly
 * (the loader of programs asks for that wherever it is offered) and flushes subnormals, which is a hint in
 * OpenCL: a device may keep them instead. MIN, MAX and SEL_x may pass a subnormal operand on as it is.
 * Elsewhere a division is within 2.5 units in the last place and a square root within 3 (OpenCL 1.2, 7.4).
 * Nothing is contracted: FMA is fma() where loops.fma, else a product and a sum.
 *
 * Buffers are not restrict: a manifest may let an output alias an input. Prefetches are left out. Products of
 * matrices (MMLA), and arithmetic in f16 (FMA2, SUM2) on targets without it, are refused as E_UNSUPPORTED, a
 * source of over 4 MB as E_INFEASIBLE: both reject a candidate. */
#include "kernels/emit/emit.h"
#include "kernels/emit/opencl_gen.h"
#include "kernels/loops/code.h"

#include <string.h>

const char *cl_width(int lanes)
{
	return lanes == 16 ? "16" : lanes == 8 ? "8" : lanes == 4 ? "4" : lanes == 2 ? "2" : "";
}

const char *cl_type(enum lv_type type, int lanes)
{
	static const char *const names[2][5] = {{"float", "float2", "float4", "float8", "float16"},
						{"int", "int2", "int4", "int8", "int16"}};
	return names[type == LV_S32][__builtin_ctz((unsigned)lanes)];
}

const char *cl_element(enum dtype t)
{
	return t == DT_F32   ? "float"
	       : t == DT_I32 ? "int"
	       : t == DT_I16 ? "short"
	       : t == DT_I8  ? "char"
	       : t == DT_U8  ? "uchar"
			     : "ushort";
}

void cl_lane(struct cl_gen *g, int v, int i)
{
	buf_printf(&g->out, g->l->lanes[v] > 1 ? "v%d.s%x" : "v%d", v, (unsigned)i);
}

static void body(struct cl_gen *g, const struct stmt *s);

/* The counter passes the last value by up to a step, which an int must hold, too. */
static void loop(struct cl_gen *g, const struct stmt *s)
{
	const struct ix *x = g->l->loopvar[s->var].x;
	bool small = cl_is_int(s->lo) && cl_is_int(s->hi) && s->step <= INT32_MAX - s->hi->hi;
	buf_printf(&g->out, "{\nconst %s e%d = ", cl_ix_type(s->hi), s->var);
	cl_ix(g, s->hi);
	buf_printf(&g->out, ";\nfor (%s c%d = ", small ? "int" : "long", s->var);
	cl_ix(g, s->lo);
	buf_printf(&g->out, "; c%d < e%d; c%d += %lld%s) {\n", s->var, s->var, s->var, (long long)s->step,
		   small ? "" : "L");
	if (x->op == IX_VAR)
		buf_printf(&g->out, "const %s i%d = (%s)c%d;\n", cl_ix_type(x), s->var, cl_ix_type(x),
			   s->var);
	body(g, s->body);
	buf_puts(&g->out, "}\n}\n");
}

static void branch(struct cl_gen *g, const struct stmt *s)
{
	buf_puts(&g->out, "if (");
	cl_ix(g, s->lo);
	buf_puts(&g->out, ") {\n");
	body(g, s->body);
	if (s->other) {
		buf_puts(&g->out, "} else {\n");
		body(g, s->other);
	}
	buf_puts(&g->out, "}\n");
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
static void body(struct cl_gen *g, const struct stmt *s)
{
	for (; s && !g->over; s = s->next) {
		if (s->op == ST_FOR)
			loop(g, s);
		else if (s->op == ST_IF)
			branch(g, s);
		else if (s->op == ST_STORE)
			cl_store(g, s);
		else if (s->op == ST_SET && s->vop == V_LOAD)
			cl_load(g, s);
		else if (s->op == ST_SET && s->vop == V_SHUF)
			cl_shuffle(g, s);
		else if (s->op == ST_SET)
			cl_set(g, s);
		else if (s->op == ST_COPY)
			cl_copy(g, s);
		else if (s->op == ST_BARRIER)
			buf_puts(&g->out, "barrier(CLK_LOCAL_MEM_FENCE);\n");
		g->over |= g->out.n > OPENCL_MAX_SOURCE;
	}
}

/* Marks the variables that statements set; E_UNSUPPORTED for operations that cannot be printed. */
static int mark_set(const struct cl_gen *g, const struct stmt *s, uint8_t *used)
{
	int rc = E_OK;
	for (; s && rc >= 0; s = s->next) {
		if (s->op == ST_SET && !cl_has(s->vop, g->l->type[s->dst]) && !cl_ext_has(g, s->vop))
			return fail(E_UNSUPPORTED, "emitter opencl has no operation %s",
				    vop_info[s->vop].name);
		if (s->op == ST_SET)
			used[s->dst] = 1;
		if (s->op == ST_FOR || s->op == ST_IF)
			rc = mark_set(g, s->body, used);
		if (s->op == ST_IF && rc >= 0)
			rc = mark_set(g, s->other, used);
	}
	return rc;
}

static bool only_read(const struct lbuf *b)
{
	return b->role == BUF_IN || b->role == BUF_CONST;
}

static void arguments(struct cl_gen *g)
{
	const struct loops *l = g->l;
	for (int i = 0; i < loops_arguments(l); i++) {
		const char *reads = only_read(&l->buf[i]) ? "const " : "";
		if (l->buf[i].texture)
			buf_printf(&g->out, "__read_only image2d_t m%d, const long o%d, ", i, i);
		else
			buf_printf(&g->out, "__global %suchar *m%d, const long o%d, ", reads, i, i);
	}
	for (int i = 0; i < l->nparams; i++)
		buf_printf(&g->out, "const long a%d, ", i);
	buf_puts(&g->out, "const long begin, const long end");
}

/* Where each buffer begins; of scratch, the work item's part. */
static void buffers(struct cl_gen *g)
{
	for (int i = 0; i < loops_arguments(g->l); i++) {
		const struct lbuf *b = &g->l->buf[i];
		const char *reads = only_read(b) ? "const " : "", *type = cl_element(b->dtype);
		if (b->texture)
			continue;
		buf_printf(&g->out, "__global %s%s *b%d = (__global %s%s *)(m%d + o%d)", reads, type, i,
			   reads, type, i, i);
		if (b->role == BUF_SCRATCH && !b->common) {
			buf_puts(&g->out, " + get_global_id(0) * (size_t)");
			cl_ix(g, b->elems);
		}
		buf_puts(&g->out, ";\n");
	}
}

static void variables(struct cl_gen *g, const uint8_t *used)
{
	for (int v = 0; v < g->l->nvars; v++)
		if (used[v])
			buf_printf(&g->out, "%s v%d;\n", cl_type(g->l->type[v], g->l->lanes[v]), v);
}

static void shared_buffers(struct cl_gen *g, const struct entry *e)
{
	for (int i = loops_arguments(g->l); i < g->l->nbufs; i++)
		buf_printf(&g->out, "__local %s b%d[%lld] __attribute__((aligned(16)));\n",
			   cl_element(g->l->buf[i].dtype), i, (long long)g->l->buf[i].elems->c);
	cl_shuffle_memory(g, e);
}

static void begin_threads(struct cl_gen *g, const struct entry *e)
{
	const struct ix *thread = g->l->loopvar[e->thread].x;
	shared_buffers(g, e);
	buf_printf(&g->out, "const %s i%d = (%s)get_local_id(1);\n", cl_ix_type(thread), e->thread,
		   cl_ix_type(thread));
}

static void entry(struct cl_gen *g, const struct entry *e, const uint8_t *used)
{
	const struct loops *l = g->l;
	const struct ix *index = l->loopvar[e->var].x;
	buf_puts(&g->out, "__kernel ");
	if (e->threads > 1 || e->group > 0)
		buf_printf(&g->out, "__attribute__((reqd_work_group_size(%d, %d, 1))) ",
			   e->group > 0 ? e->group : 1, e->threads);
	buf_printf(&g->out, "void %s(", e->name);
	arguments(g);
	buf_puts(&g->out, ")\n{\n");
	if (e->threads > 1)
		begin_threads(g, e);
	buf_puts(&g->out, "const long index = begin + (long)get_global_id(0);\n");
	if (e->threads ==
	    1) /* a launch has as many blocks as indexes; PoCL 3.1 mistakes barriers behind this */
		buf_puts(&g->out, "if (index >= end)\nreturn;\n");
	for (int i = 0; i < l->nparams; i++) {
		const char *type =
		    l->param[i].lo >= INT32_MIN && l->param[i].hi <= INT32_MAX ? "int" : "long";
		buf_printf(&g->out, "const %s p%d = (%s)a%d;\n", type, i, type, i);
	}
	if (index->op == IX_VAR)
		buf_printf(&g->out, "const %s i%d = (%s)index;\n", cl_ix_type(index), e->var,
			   cl_ix_type(index));
	buffers(g);
	variables(g, used);
	body(g, e->body);
	buf_puts(&g->out, "}\n");
}

/* The names that loops_entry gives. */
static bool is_name(const char *s)
{
	size_t n = *s == 'k' ? strspn(s + 1, "0123456789") : 0;
	return n > 0 && n + 1 < sizeof((struct entry *)0)->name && !s[n + 1];
}

static int print_program(struct cl_gen *g)
{
	struct arena a = {0};
	int rc = E_OK;
	buf_printf(&g->out, "//hone-opencl -cl-std=%s -cl-denorms-are-zero\n", cl_ext_standard(g));
	buf_puts(&g->out, "#pragma OPENCL FP_CONTRACT OFF\n");
	buf_puts(&g->out, cl_ix_functions);
	cl_ext_functions(g);
	for (int i = 0; i < g->l->nentries && rc >= 0; i++) {
		const struct entry *e = &g->l->entry[i];
		uint8_t *used = ARENA_ARRAY(&a, uint8_t, g->l->nvars + 1);
		if (!is_name(e->name))
			rc = fail(E_CORRUPT, "the name of entry %d is no symbol", i);
		if (rc >= 0)
			rc = mark_set(g, e->body, used);
		if (rc >= 0)
			entry(g, e, used);
	}
	arena_free(&a);
	if (rc >= 0 && g->over)
		rc = fail(E_INFEASIBLE, "the kernel's OpenCL source is longer than %d bytes",
			  (int)OPENCL_MAX_SOURCE);
	if (rc >= 0 && !buf_ok(&g->out))
		rc = fail(E_NOMEM, "no memory for OpenCL source");
	return rc;
}

static int emit(const struct loops *l, const struct target *t, struct arena *a, struct blob *object)
{
	struct cl_gen g = {.l = l};
	int rc = loops_check(l);
	if (rc >= 0 && loops_has_fragments(l))
		rc = fail(E_UNSUPPORTED, "emitter opencl has no fragments");
	if (rc < 0)
		return rc;
	cl_ext_choose(&g, t);
	rc = print_program(&g);
	if (rc >= 0)
		*object = (struct blob){.p = arena_memdup(a, g.out.p, g.out.n), .n = g.out.n};
	buf_free(&g.out);
	return rc;
}

static const char *version(void)
{
	return "opencl-1.2/" CODE_REVISION;
}

const struct emit emit_opencl = {.name = "opencl", .version = version, .emit = emit};
