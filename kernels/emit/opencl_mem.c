/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores. Each is a block with a pointer p to the first lane's element and, if not all lanes are
 * valid, their number n. A pointer and a constant are added last, so that an int cannot overflow. */
#include "kernels/emit/opencl_gen.h"
#include "kernels/loops/loops_lane.h"

/* What an access needs to be printed. */
struct access {
	const struct mem *m;
	enum lv_type type;
	enum dtype elem;
	int v, lanes, group;
	bool store, shared;
	bool side_by_side; /* one vector access does it */
};

static struct access access_of(const struct cl_gen *g, const struct mem *m, int v, bool store)
{
	struct access x = {.m = m,
			   .type = g->l->type[v],
			   .elem = mem_type(g->l, m),
			   .v = v,
			   .lanes = g->l->lanes[v],
			   .group = mem_group(m),
			   .store = store,
			   .shared = g->l->buf[m->buf].role == BUF_SHARED};
	/* PoCL 3.1 loads and stores 8 and 16 halves as if they were aligned to 16 bytes (OpenCL 1.2, 6.12.7,
	 * asks for 2), and faults: halves are loaded by fours, and stored one by one. */
	bool halves = store && x.type == LV_F32 && x.elem == DT_F16;
	x.side_by_side = x.lanes > 1 && m->stride == x.group && x.lanes * x.group <= 16 && !halves;
	return x;
}

static const char *half_pointer(const struct access *x)
{
	static const char *const type[2][2] = {{"__global const half *", "__global half *"},
					       {"__local const half *", "__local half *"}};
	return type[x->shared][x->store];
}

/* Declares p and n. */
static void declare(struct cl_gen *g, const struct access *x)
{
	const char *type = cl_element(x->elem);
	const struct mem *m = x->m;
	const char *read_only = x->store ? "" : "const ", *space = x->shared ? "__local" : "__global";
	buf_printf(&g->out, "%s %s%s *p = ", space, read_only, type);
	if (m->as != DT_NONE)
		buf_printf(&g->out, "(%s %s%s *)", space, read_only, type);
	buf_printf(&g->out, "b%d + ", m->buf);
	cl_ix(g, m->at);
	buf_puts(&g->out, ";\n");
	if (m->valid) {
		buf_printf(&g->out, "const %s n = ", cl_ix_type(m->valid));
		cl_ix(g, m->valid);
		buf_puts(&g->out, ";\n");
	}
}

/* Where lane i begins: "p", "p + 4", "p - 3". */
static void place(struct cl_gen *g, const struct access *x, int i)
{
	int64_t by = x->m->stride * i;
	if (by)
		buf_printf(&g->out, "p %c %lld", by < 0 ? '-' : '+', (long long)(by < 0 ? -by : by));
	else
		buf_puts(&g->out, "p");
}

/* The text around the place of a lane that is loaded. */
static void lane_text(const struct access *x, const char **before, const char **after)
{
	*before = "*(";
	*after = ")";
	if (x->group == 4) {
		*before = "as_int(vload4(0, ";
		*after = "))";
	} else if (x->group == 2) {
		bool bytes = dtype_bytes(x->elem) == 1;
		*before = bytes ? "as_int(convert_short2(vload2(0, " : "as_int(vload2(0, ";
		*after = bytes ? ")))" : "))";
	} else if (x->type == LV_F32 && x->elem == DT_F16) {
		*before = x->shared ? "vload_half(0, (__local const half *)("
				    : "vload_half(0, (__global const half *)(";
		*after = "))";
	} else if (x->type == LV_F32 && x->elem == DT_BF16) {
		*before = "as_float((uint)*(";
		*after = ") << 16)";
	}
}

static void load_lane(struct cl_gen *g, const struct access *x, int i)
{
	const char *before, *after;
	lane_text(x, &before, &after);
	buf_puts(&g->out, before);
	place(g, x, i);
	buf_puts(&g->out, after);
}

/* Lanes one by one; those from n on are 0 if `some`. */
static void load_lanes(struct cl_gen *g, const struct access *x, bool some)
{
	buf_printf(&g->out, "v%d = (%s)(", x->v, cl_type(x->type, x->lanes));
	for (int i = 0; i < (x->m->stride || some ? x->lanes : 1); i++) {
		buf_puts(&g->out, i ? ", " : "");
		if (some)
			buf_printf(&g->out, "n > %d ? ", i);
		load_lane(g, x, i);
		buf_puts(&g->out, some ? " : 0" : "");
	}
	buf_puts(&g->out, ");\n");
}

static void load_halves(struct cl_gen *g, const struct access *x)
{
	const char *w = x->lanes > 4 ? "4" : cl_width(x->lanes);
	buf_printf(&g->out, "(%s)(", cl_type(x->type, x->lanes));
	for (int i = 0; i < (x->lanes > 4 ? x->lanes / 4 : 1); i++)
		buf_printf(&g->out, "%svload_half%s(%d, (%s)p)", i ? ", " : "", w, i, half_pointer(x));
	buf_puts(&g->out, ");\n");
}

static void load_vector(struct cl_gen *g, const struct access *x)
{
	const char *w = cl_width(x->lanes), *type = cl_type(x->type, x->lanes);
	int n = x->lanes * x->group;
	buf_printf(&g->out, "v%d = ", x->v);
	if (x->group == 2 && dtype_bytes(x->elem) == 1)
		buf_printf(&g->out, "as_%s(convert_short%d(vload%d(0, p)));\n", type, n, n);
	else if (x->group > 1)
		buf_printf(&g->out, "as_%s(vload%d(0, p));\n", type, n);
	else if (x->type == LV_F32 && x->elem == DT_F16)
		load_halves(g, x);
	else if (x->type == LV_F32 && x->elem == DT_BF16)
		buf_printf(&g->out, "as_%s(convert_uint%s(vload%s(0, p)) << 16);\n", type, w, w);
	else if (x->elem == DT_F32 || x->elem == DT_I32)
		buf_printf(&g->out, "vload%s(0, p);\n", w);
	else
		buf_printf(&g->out, "convert_int%s(vload%s(0, p));\n", w, w);
}

static void load_all(struct cl_gen *g, const struct access *x)
{
	if (x->side_by_side)
		load_vector(g, x);
	else
		load_lanes(g, x, false);
}

static void load_from_buffer(struct cl_gen *g, const struct access *x)
{
	declare(g, x);
	if (x->m->valid && x->lanes > 1) {
		buf_printf(&g->out, "if (n >= %d)\n", x->lanes);
		load_all(g, x);
		buf_puts(&g->out, "else\n");
	}
	if (x->m->valid)
		load_lanes(g, x, true);
	else
		load_all(g, x);
}

void cl_load(struct cl_gen *g, const struct stmt *s)
{
	struct access x = access_of(g, &s->mem, s->dst, false);
	buf_puts(&g->out, "{\n");
	if (x.m->guard) {
		buf_puts(&g->out, "if (");
		cl_ix(g, x.m->guard);
		buf_puts(&g->out, ") {\n");
	}
	if (g->l->buf[x.m->buf].texture)
		cl_texels(g, s);
	else
		load_from_buffer(g, &x);
	if (x.m->guard) {
		union lane fill = lane_fill((struct lane_type){x.type, x.elem, x.group}, x.m->fill);
		buf_printf(&g->out, "} else\nv%d = (%s)(as_%s(0x%08xu));\n", x.v, cl_type(x.type, x.lanes),
			   cl_type(x.type, 1), (unsigned)fill.u);
	}
	buf_puts(&g->out, "}\n");
}

/* w: v as bf16, rounded to nearest even; subnormals become zeros of their sign. */
static void narrow_bf16(struct cl_gen *g, const struct access *x)
{
	const char *w = cl_width(x->lanes);
	buf_printf(&g->out,
		   "const uint%s x = as_uint%s(v%d), m = x & 0x7fffffffu;\n"
		   "const uint%s r = select((x + 0x7fffu + (x >> 16 & 1u)) >> 16, x >> 16 | 0x40u, "
		   "m > 0x7f800000u);\n"
		   "const ushort%s w = convert_ushort%s(select(r, x >> 16 & 0x8000u, m < 0x00800000u));\n",
		   w, w, x->v, w, w, w);
}

static const char *saturated(enum dtype t)
{
	return t == DT_I8 ? "convert_char_sat(" : t == DT_U8 ? "convert_uchar_sat(" : "convert_short_sat(";
}

static void store_lane(struct cl_gen *g, const struct access *x, int i)
{
	bool half = x->type == LV_F32 && x->elem == DT_F16, bf16 = x->type == LV_F32 && x->elem == DT_BF16,
	     word = x->group == 1 && dtype_bytes(x->elem) == 4;
	if (x->group > 1)
		buf_printf(&g->out, "vstore%d(as_%s%d(", x->group, cl_element(x->elem), x->group);
	else if (half)
		buf_puts(&g->out, "vstore_half_rte(");
	else
		buf_puts(&g->out, "*(");
	if (x->group > 1 || half) {
		cl_lane(g, x->v, i);
		buf_printf(&g->out, half ? ", 0, (%s)(" : "), 0, ", half_pointer(x));
		place(g, x, i);
		buf_puts(&g->out, half ? "));\n" : ");\n");
		return;
	}
	place(g, x, i);
	buf_puts(&g->out, ") = ");
	if (bf16) {
		buf_printf(&g->out, x->lanes > 1 ? "w.s%x" : "w", (unsigned)i);
	} else {
		buf_puts(&g->out, word ? "" : saturated(x->elem));
		cl_lane(g, x->v, i);
		buf_puts(&g->out, word ? "" : ")");
	}
	buf_puts(&g->out, ";\n");
}

static void store_vector(struct cl_gen *g, const struct access *x)
{
	const char *w = cl_width(x->lanes), *type = cl_element(x->elem);
	int n = x->lanes * x->group;
	if (x->group > 1)
		buf_printf(&g->out, "vstore%d(as_%s%d(v%d), 0, p);\n", n, type, n, x->v);
	else if (x->type == LV_F32 && x->elem == DT_BF16)
		buf_printf(&g->out, "vstore%s(w, 0, p);\n", w);
	else if (x->elem == DT_F32 || x->elem == DT_I32)
		buf_printf(&g->out, "vstore%s(v%d, 0, p);\n", w, x->v);
	else
		buf_printf(&g->out, "vstore%s(convert_%s%s_sat(v%d), 0, p);\n", w, type, w, x->v);
}

void cl_store(struct cl_gen *g, const struct stmt *s)
{
	struct access x = access_of(g, &s->mem, s->a, true);
	buf_puts(&g->out, "{\n");
	declare(g, &x);
	if (x.type == LV_F32 && x.elem == DT_BF16)
		narrow_bf16(g, &x);
	if (x.side_by_side && x.m->valid)
		buf_printf(&g->out, "if (n >= %d) {\n", x.lanes);
	if (x.side_by_side)
		store_vector(g, &x);
	if (x.side_by_side && x.m->valid)
		buf_puts(&g->out, "} else {\n");
	for (int i = 0; i < x.lanes && (!x.side_by_side || x.m->valid); i++) {
		if (x.m->valid)
			buf_printf(&g->out, "if (n > %d)\n", i);
		store_lane(g, &x, i);
	}
	buf_puts(&g->out, x.side_by_side && x.m->valid ? "}\n}\n" : "}\n");
}
