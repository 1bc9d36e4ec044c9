/* SPDX-License-Identifier: Apache-2.0 */
/* The two texts: the parts that every network's header and source share, and the parts of their own. */
#include "agent/bundle/plan_c_parts.h"

#include <string.h>

/* '@' is the network's name, '$' the same in capitals, '^' the set's tag. */
static void put(const struct plan_c *c, struct buf *b, const char *text)
{
	for (const char *p = text; *p; p++)
		if (*p == '@')
			buf_puts(b, c->name);
		else if (*p == '$')
			buf_puts(b, c->upper);
		else if (*p == '^')
			buf_puts(b, c->tag);
		else
			buf_u8(b, (uint8_t)*p);
}

/* ---- the header ---- */

static const char *const types[DTYPES] = {
    [DT_F32] = "float",    [DT_F64] = "double",   [DT_F16] = "uint16_t", [DT_BF16] = "uint16_t",
    [DT_I8] = "int8_t",    [DT_U8] = "uint8_t",   [DT_I16] = "int16_t",  [DT_U16] = "uint16_t",
    [DT_I32] = "int32_t",  [DT_U32] = "uint32_t", [DT_I64] = "int64_t",  [DT_U64] = "uint64_t",
    [DT_BOOL] = "uint8_t",
};

const char *c_dtype(enum dtype t)
{
	return types[t];
}

static void put_shape(struct buf *b, const struct shape *s)
{
	buf_puts(b, "{");
	for (int d = 0; d < s->rank; d++)
		buf_printf(b, "%s%lld", d ? ", " : "", (long long)s->d[d]);
	buf_puts(b, s->rank ? "}" : "1}");
}

static void put_members(struct buf *b, const struct c_tensor *x, int n, bool in)
{
	for (int i = 0; i < n; i++) {
		char shape[160];
		shape_text(&x[i].t->shape, shape);
		buf_printf(b, "\t%s%s *%s; /* %s %s, ", in ? "const " : "", c_dtype(x[i].t->dtype),
			   x[i].member, shape, dtype_name(x[i].t->dtype));
		c_comment(b, x[i].name ? x[i].name : "");
		buf_puts(b, " */\n");
	}
}

static void put_macros(const struct plan_c *c, struct buf *b, const struct c_tensor *x, int n)
{
	for (int i = 0; i < n; i++) {
		buf_printf(b, "#define %s_%s_ELEMS %lld\n", c->upper, x[i].upper,
			   (long long)shape_count(&x[i].t->shape));
		buf_printf(b, "#define %s_%s_RANK %d\n#define %s_%s_SHAPE ", c->upper, x[i].upper,
			   x[i].t->shape.rank, c->upper, x[i].upper);
		put_shape(b, &x[i].t->shape);
		buf_puts(b, "\n");
	}
}

static const char about[] =
    " *\n"
    " * Build:  cc -O3 -c @.c\n"
    " *         cc main.c @.o @_kernels.o @_weights.o~\n"
    " * Use:    static unsigned char arena[$_ARENA_BYTES] __attribute__((aligned(64)));\n"
    " *         @_init(arena);\n"
    " *         const struct @_io io = {...};   every tensor's address\n"
    " *         @_run(&io, arena);\n"
    " *\n"
    " * Nothing is allocated, and nothing called but memcpy, memset and what stands above. All state is\n"
    " * in the arena: with one each, threads run at the same time. Tensors are dense, row-major, and\n"
    " * aligned as their type. The kernels are position-independent code in .text.@_kernels,\n"
    " * the weights lie in .rodata.@_weights: a linker script may place them, aligned as they are.\n"
    " * Several networks link into one program.\n"
    " * During a run subnormal numbers count as zero: the processor's mode is set, and restored at the\n"
    " * end. Not for -ffast-math. */\n";

static const char functions[] =
    "/* Bytes of RAM that a run needs, for one thread and for several. */\n"
    "#define $_ARENA_ALIGN 64\n"
    "#define $_ARENA_BYTES $_ARENA_BYTES_FOR(1)\n"
    "\n"
    "/* Once for an arena, before its first run, and again if anything else wrote there. */\n"
    "void @_init(void *arena);\n"
    "/* 0; -1: a pointer is NULL, or the arena is not aligned; -2: an index lies outside of its tensor. */\n"
    "int @_run(const struct @_io *io, void *arena);\n"
    "\n"
    "/* With several threads: `parallel` calls fn on ranges [begin, end) that together make [0, extent)\n"
    " * once, on any threads, and returns when all are done and what they wrote is seen by all.\n"
    " * thread: 0 <= thread < threads; two that run at the same time have different ones. */\n"
    "typedef void @_range(void *ctx, int thread, int64_t begin, int64_t end);\n"
    "typedef void @_for(void *user, @_range *fn, void *ctx, int64_t extent);\n"
    "/* The arena has $_ARENA_BYTES_FOR(threads). user: for `parallel`. */\n"
    "int @_run_parallel(const struct @_io *io, void *arena, int threads,\n"
    "\t\t@_for *parallel, void *user);\n";

void c_header(const struct plan_c *c, struct buf *b)
{
	const struct graph *g = c->p->g;
	struct buf text = {0};
	buf_printf(b, PLAN_C_HEADER HONE_VERSION " for ", c->name);
	for (int i = 0; i < c->nisa; i++)
		buf_printf(b, "%s%s", i ? ", " : "", c->isa[i]);
	buf_printf(b, "%s.\n * %zu bytes of code, %lld of weights, %lld of RAM.\n",
		   c->nisa ? " processors" : "any processor", c->image.n, (long long)c->weight_bytes,
		   (long long)(c->value_bytes + c->thread_bytes));
	put(c, &text, about);
	for (const char *p = buf_str(&text); *p; p++)
		if (*p == '~')
			buf_puts(b, c_needs_math(c) ? " -lm" : "");
		else
			buf_u8(b, (uint8_t)*p);
	b->failed |= text.failed;
	buf_free(&text);
	put(c, b,
	    "#ifndef HONE_NET_$_H\n#define HONE_NET_$_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n"
	    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
	put(c, b,
	    "/* This header, @.c and the two objects were made together: those of other sets do not link. "
	    "*/\n"
	    "#define $_SET 0x^\n\n");
	put_macros(c, b, c->in, g->ninputs);
	put_macros(c, b, c->out, g->noutputs);
	put(c, b, "\nstruct @_io {\n");
	put_members(b, c->in, g->ninputs, true);
	put_members(b, c->out, g->noutputs, false);
	buf_puts(b, "};\n\n");
	buf_printf(b, "#define %s_ARENA_BYTES_FOR(threads) ((size_t)%lld + (size_t)(threads) * %lld)\n",
		   c->upper, (long long)c->value_bytes, (long long)c->thread_bytes);
	put(c, b, functions);
	put(c, b, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

/* ---- the source ---- */

static const char types_text[] =
    "typedef void kernel(void *const *buf, const int64_t *param, int64_t begin, int64_t end);\n\n"
    "enum { ARENA, WEIGHTS, IN, OUT, SCRATCH, STATUS, NOWHERE };\n\n"
    "struct place {\n"
    "\tint region;\n"
    "\tint64_t at; /* bytes; of IN and OUT: which */\n"
    "};\n\n"
    "struct halo { /* count times n elements, `step` apart */\n"
    "\tint64_t at, n, count, step;\n"
    "};\n\n"
    "struct edge { /* of the tensor at this byte of the arena */\n"
    "\tint64_t at;\n"
    "\tfloat fill;\n"
    "\tint unit; /* bytes of an element: 4, of floats, or 1 */\n"
    "\tint n;\n"
    "\tconst struct halo *halo;\n"
    "};\n\n"
    "struct call {\n"
    "\tkernel *fn;\n"
    "\tint64_t extent;\n"
    "\tconst int64_t *param;\n"
    "\tconst struct place *place;\n"
    "\tint nplaces;\n"
    "\tconst struct edge *edge; /* set before */\n"
    "\tint nedges;\n"
    "\tint alone; /* too little for several threads */\n"
    "};\n\n"
    "extern const unsigned char @_weights_^[];\n";

static const char run_text[] =
    "struct job {\n"
    "\tconst struct call *call;\n"
    "\tchar *arena;\n"
    "\tconst void *const *in;\n"
    "\tvoid *const *out;\n"
    "\tint *status;\n"
    "};\n\n"
    "static void *address(const struct job *j, const struct place *p, int thread)\n"
    "{\n"
    "\tswitch (p->region) {\n"
    "\tcase ARENA:\n"
    "\t\treturn j->arena + p->at;\n"
    "\tcase WEIGHTS:\n"
    "\t\treturn (void *)(uintptr_t)(@_weights_^ + p->at);\n"
    "\tcase IN:\n"
    "\t\treturn (void *)(uintptr_t)j->in[p->at];\n"
    "\tcase OUT:\n"
    "\t\treturn j->out[p->at];\n"
    "\tcase SCRATCH:\n"
    "\t\treturn j->arena + VALUES + (size_t)thread * THREAD;\n"
    "\tcase STATUS:\n"
    "\t\treturn j->status;\n"
    "\tdefault:\n"
    "\t\treturn NULL;\n"
    "\t}\n"
    "}\n\n"
    "/* Its share of the rows. */\n"
    "static void set_edge(char *arena, const struct edge *e, int64_t begin, int64_t end, int64_t extent)\n"
    "{\n"
    "\tconst int64_t last = end * e->n / extent;\n"
    "\tfor (int64_t i = begin * e->n / extent; i < last; i++) {\n"
    "\t\tconst struct halo *h = &e->halo[i];\n"
    "\t\tchar *p = arena + e->at + h->at * e->unit;\n"
    "\t\tfor (int64_t k = 0; k < h->count; k++, p += h->step * e->unit)\n"
    "\t\t\tif (e->unit == 1)\n"
    "\t\t\t\tmemset(p, (int)e->fill, (size_t)h->n);\n"
    "\t\t\telse\n"
    "\t\t\t\tfor (int64_t x = 0; x < h->n; x++)\n"
    "\t\t\t\t\t((float *)(void *)p)[x] = e->fill;\n"
    "\t}\n"
    "}\n\n"
    "static void range(void *ctx, int thread, int64_t begin, int64_t end)\n"
    "{\n"
    "\tconst struct job *j = ctx;\n"
    "\tconst struct call *c = j->call;\n"
    "\tvoid *buf[MOST];\n"
    "\tfor (int i = 0; i < c->nplaces; i++)\n"
    "\t\tbuf[i] = address(j, &c->place[i], thread);\n"
    "\tfor (int i = 0; i < c->nedges; i++)\n"
    "\t\tset_edge(j->arena, &c->edge[i], begin, end, c->extent);\n"
    "\tc->fn(buf, c->param, begin, end);\n"
    "}\n\n";

static const char flush_x86[] = "/* Subnormal numbers are zero as operands and as results. */\n"
				"static unsigned flush(void)\n"
				"{\n"
				"\tunsigned old, now;\n"
				"\t__asm__ volatile(\"stmxcsr %0\" : \"=m\"(old));\n"
				"\tnow = old | 0x8040u;\n"
				"\t__asm__ volatile(\"ldmxcsr %0\" : : \"m\"(now) : \"memory\");\n"
				"\treturn old;\n"
				"}\n\n"
				"static void restore(unsigned old)\n"
				"{\n"
				"\tunsigned now;\n"
				"\t__asm__ volatile(\"stmxcsr %0\" : \"=m\"(now));\n"
				"\tnow = (now & ~0x8040u) | (old & 0x8040u);\n"
				"\t__asm__ volatile(\"ldmxcsr %0\" : : \"m\"(now) : \"memory\");\n"
				"}\n\n";

static const char flush_aarch64[] =
    "/* Subnormal numbers are zero. */\n"
    "static uint64_t flush(void)\n"
    "{\n"
    "\tuint64_t old;\n"
    "\t__asm__ volatile(\"mrs %0, fpcr\" : \"=r\"(old));\n"
    "\t__asm__ volatile(\"msr fpcr, %0\" : : \"r\"(old | (UINT64_C(1) << 24)) : \"memory\");\n"
    "\treturn old;\n"
    "}\n\n"
    "static void restore(uint64_t old)\n"
    "{\n"
    "\t__asm__ volatile(\"msr fpcr, %0\" : : \"r\"(old) : \"memory\");\n"
    "}\n\n";

static const char flushed_range[] =
    "/* Of another thread than the caller's. */\n"
    "static void flushed_range(void *ctx, int thread, int64_t begin, int64_t end)\n"
    "{\n"
    "\tconst FPU_MODE old = flush();\n"
    "\trange(ctx, thread, begin, end);\n"
    "\trestore(old);\n"
    "}\n\n";

static const char init_text[] =
    "void @_init(void *arena)\n"
    "{\n"
    "\tmemset(arena, 0, VALUES);\n"
    "\tfor (const struct edge *e = fixed; e->halo; e++)\n"
    "\t\tset_edge(arena, e, 0, 1, 1);\n"
    "}\n\n"
    "int @_run(const struct @_io *io, void *arena)\n"
    "{\n"
    "\treturn @_run_parallel(io, arena, 1, NULL, NULL);\n"
    "}\n\n"
    "int @_run_parallel(const struct @_io *io, void *arena, int threads, @_for *parallel, void *user)\n"
    "{\n"
    "\tif (!io || !arena || (uintptr_t)arena % $_ARENA_ALIGN || threads < 1 || (threads > 1 && !parallel))\n"
    "\t\treturn -1;\n";

static const char loop_text[] = "\tint status = 0;\n"
				"\tstruct job j = {NULL, arena, in, out, &status};\n"
				"\tconst FPU_MODE old = flush();\n"
				"\tfor (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {\n"
				"\t\tj.call = &calls[i];\n"
				"\t\tif (threads > 1 && !calls[i].alone && calls[i].extent > 1)\n"
				"\t\t\tparallel(user, flushed_range, &j, calls[i].extent);\n"
				"\t\telse\n"
				"\t\t\trange(&j, 0, 0, calls[i].extent);\n"
				"\t}\n"
				"\trestore(old);\n"
				"\treturn status;\n"
				"}\n";

/* Writes an array of the caller's pointers, and a check of each. */
static void put_pointers(struct buf *b, const char *type, const char *name, const struct c_tensor *x, int n)
{
	buf_printf(b, "\t%s%s[] = {", type, name);
	for (int i = 0; i < n; i++)
		buf_printf(b, "io->%s, ", x[i].member);
	buf_printf(b,
		   "arena};\n\tfor (size_t i = 0; i < sizeof %s / sizeof *%s; i++)\n\t\tif "
		   "(!%s[i])\n\t\t\treturn -1;\n",
		   name, name, name);
}

static void put_constants(const struct plan_c *c, struct buf *b)
{
	buf_printf(b,
		   "#define VALUES ((size_t)%lld) /* bytes of the arena; behind them each thread's own */\n",
		   (long long)c->value_bytes);
	buf_printf(b, "#define THREAD ((size_t)%lld)\n", (long long)c->thread_bytes);
	buf_printf(b, "#define MOST %d /* buffers of a kernel */\n", CODE_MAX_BUFS);
	buf_printf(b, "#define FPU_MODE %s\n\n", c_is_arm() ? "uint64_t" : "unsigned");
}

static void put_kernels(const struct plan_c *c, struct buf *b)
{
	for (int i = 0; i < c->nsymbols; i++)
		buf_printf(b, "extern kernel %s_%s_%s;\n#define %s %s_%s_%s\n", c->name, c->symbol[i].name,
			   c->tag, c->symbol[i].name, c->name, c->symbol[i].name, c->tag);
	buf_puts(b, "\n");
}

void c_source(const struct plan_c *c, struct buf *b)
{
	const struct graph *g = c->p->g;
	buf_printf(b, PLAN_C_SOURCE, c->name);
	put(c, b, "#include \"@.h\"\n\n#include <string.h>\n");
	buf_puts(b, c->portable ? "#include <math.h>\n\n" : "\n");
	if (c->portable)
		buf_printf(b, "#ifdef __clang__\n#pragma STDC FP_CONTRACT OFF\n%s#endif\n\n",
			   c->exact ? "#elif defined(__GNUC__)\n#pragma GCC optimize(\"fp-contract=off\")\n"
				    : "");
	put(c, b, "#if $_SET != 0x^\n#error \"@.h is of another set than @.c\"\n#endif\n\n");
	put_constants(c, b);
	put(c, b, types_text);
	put_kernels(c, b);
	c_helpers(c, b);
	buf_add(b, c->functions.p, c->functions.n);
	buf_add(b, c->tables.p, c->tables.n);
	buf_printf(
	    b,
	    "\n/* Halos that stay. */\nstatic const struct edge fixed[] = {\n%s\t{0, 0, 0, 0, NULL},\n};\n\n",
	    buf_str(&c->fixed));
	buf_puts(b, "/* Function, extent, parameters, buffers, halos, alone. */\nstatic const struct call "
		    "calls[] = {\n");
	buf_add(b, c->calls.p, c->calls.n);
	buf_puts(b, "};\n\n");
	put(c, b, run_text);
	put(c, b, c_is_arm() ? flush_aarch64 : flush_x86);
	put(c, b, flushed_range);
	put(c, b, init_text);
	put_pointers(b, "const void *", "in", c->in, g->ninputs);
	put_pointers(b, "void *", "out", c->out, g->noutputs);
	put(c, b, loop_text);
}
