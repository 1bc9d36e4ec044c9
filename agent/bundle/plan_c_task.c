/* SPDX-License-Identifier: Apache-2.0 */
/* Portable tasks as plain C: loops with constant bounds around straight-line code, so that the target's
 * compiler makes the best of them. The formulas are those of agent/run/host_run.c and
 * agent/run/host_math.c; answers differ by rounding, because those fuse multiplications and additions where
 * the machine can, and sum what lies in sequence in several parts. Tasks that read or write integers follow
 * kernels/task/task.h: each operator is rounded by itself, whole values are s32, and bytes are those of
 * kernels/task/ref_exact.h. */
#include "agent/run/host_parts.h"
#include "agent/bundle/plan_c_parts.h"
#include "kernels/task/task_stage.h"

#include <string.h>

enum { BLOCK = 64, /* accumulators of a reduction */ LINE = 4096 /* elements of a row for one call */ };

/* State while one function is written. */
struct fn {
	struct plan_c *c;
	struct buf *b;
	const struct hstage *h;
	const struct operand *operand;
	const struct task *t;
	const struct flat_nest *nest; /* NULL: by axes */
	int in_place, depth, nvars;
	bool sums_whole; /* the stage's sum is s32 */
};

/* A variable "t<number>", a float or s32. */
struct var {
	int number;
	bool whole;
};

static const char *type_of(struct var v)
{
	return v.whole ? "int32_t" : "float";
}

static void line(struct fn *f, const char *text)
{
	for (int i = 0; i < f->depth; i++)
		buf_puts(f->b, "\t");
	buf_puts(f->b, text);
}

static void open_block(struct fn *f)
{
	buf_puts(f->b, " {\n");
	f->depth++;
}

static void close_blocks(struct fn *f, int depth)
{
	while (f->depth > depth) {
		f->depth--;
		line(f, "}\n");
	}
}

static bool reads(const struct prog *q, int r)
{
	for (int i = 0; i < q->n; i++)
		if (q->at[i].op == P_READ && q->at[i].arg == r)
			return true;
	return false;
}

static bool is_read(const struct stage *s, int r)
{
	return reads(&s->body, r) || reads(&s->post, r);
}

static bool is_output(const struct fn *f, int operand)
{
	return operand == f->h->s->out.operand || operand == f->in_place;
}

/* ---- offsets of elements ---- */

static void put_term(struct buf *b, bool *any, int64_t coef, const char *letter, int number)
{
	if (!coef)
		return;
	buf_printf(b, "%s%s%d", *any ? coef < 0 ? " - " : " + " : coef < 0 ? "-" : "", letter, number);
	if (coef != 1 && coef != -1)
		buf_printf(b, " * %lld", (long long)(coef < 0 ? -coef : coef));
	*any = true;
}

static void put_number(struct buf *b, bool *any, int64_t v)
{
	if (v || !*any)
		buf_printf(b, "%s%lld",
			   *any    ? v < 0 ? " - " : " + "
			   : v < 0 ? "-"
				   : "",
			   (long long)(v < 0 ? -v : v));
	*any = true;
}

/* Axes of extent 1 are always 0 and have no variable. */
static void put_affine(const struct fn *f, const struct index *x, int64_t more)
{
	bool any = false;
	for (int a = 0; a < f->h->s->naxes; a++)
		put_term(f->b, &any, f->h->s->axis[a].extent == 1 ? 0 : x->coef[a], "a", a);
	put_number(f->b, &any, x->off + more);
}

static int64_t least(const struct stage *s, const struct index *x)
{
	int64_t v = x->off;
	for (int a = 0; a < s->naxes; a++)
		v += x->coef[a] < 0 ? x->coef[a] * (s->axis[a].extent - 1) : 0;
	return v;
}

/* Writes a dim's index as an integer expression that can be part of any other. */
static void put_index(struct fn *f, const struct index *x)
{
	bool negative = least(f->h->s, x) < 0;
	const int64_t by[2] = {x->div > 1 ? x->div : 0, x->mod > 1 ? x->mod : 0};
	static const char *const floored[2] = {"floor_div(", "floor_mod("}, *const plain[2] = {" / ", " % "};
	f->c->floor_div |= negative && (by[0] || by[1]);
	buf_puts(f->b, x->table >= 0 ? "" : "(");
	if (x->table >= 0)
		buf_printf(f->b, "b%d[", x->table);
	for (int i = 1; i >= 0; i--)
		buf_puts(f->b, by[i] ? negative ? floored[i] : "(" : "");
	buf_puts(f->b, "(");
	put_affine(f, x, 0);
	buf_puts(f->b, ")");
	for (int i = 0; i < 2; i++)
		if (by[i])
			buf_printf(f->b, "%s%lld)", negative ? ", " : plain[i], (long long)by[i]);
	buf_puts(f->b, x->table >= 0 ? "]" : ")");
}

static bool is_plain(const struct operand *o, const struct index *x, int d)
{
	return x->div <= 1 && x->mod <= 1 && x->table < 0 && !host_is_split(o, d);
}

static int64_t stride_of(const struct operand *o, int d)
{
	struct phys_axis ax[MAX_SPLITS];
	int n = operand_axes(o, ax);
	return host_offset(ax, n, o, d, 1) - host_offset(ax, n, o, d, 0);
}

/* Dims whose index is not a plain sum of axes have a variable iNUMBER_DIM, shifted by the halo before it. */
static void put_offset_by_axes(struct fn *f, const struct read *r, int number)
{
	struct phys_axis ax[MAX_SPLITS];
	const struct operand *o = &f->operand[r->operand];
	int n = operand_axes(o, ax);
	int64_t constant = 0, coef[MAX_AXES] = {0};
	bool any = false;
	for (int d = 0; d < o->dims.rank; d++) {
		if (!is_plain(o, &r->dim[d], d))
			continue;
		int64_t stride = stride_of(o, d);
		constant += (r->dim[d].off + o->layout.lo[d]) * stride;
		for (int a = 0; a < f->h->s->naxes; a++)
			coef[a] += f->h->s->axis[a].extent == 1 ? 0 : r->dim[d].coef[a] * stride;
	}
	for (int a = 0; a < f->h->s->naxes; a++)
		put_term(f->b, &any, coef[a], "a", a);
	for (int j = 0; j < n; j++) {
		if (is_plain(o, &r->dim[ax[j].dim], ax[j].dim))
			continue;
		buf_printf(f->b, "%si%d_%d", any ? " + " : "", number, ax[j].dim);
		if (ax[j].div > 1)
			buf_printf(f->b, " / %lld", (long long)ax[j].div);
		if (ax[j].mod)
			buf_printf(f->b, " %% %lld", (long long)ax[j].mod);
		if (ax[j].stride != 1)
			buf_printf(f->b, " * %lld", (long long)ax[j].stride);
		any = true;
	}
	put_number(f->b, &any, constant);
}

static void put_offset_in_nest(struct fn *f, int ref)
{
	const struct flat_nest *n = f->nest;
	bool any = false;
	for (int k = 0; k < n->nloops - 1; k++)
		put_term(f->b, &any, n->loop[k].step[ref], "l", k);
	put_term(f->b, &any, n->step[ref], "x", 0);
	put_number(f->b, &any, n->base[ref]);
}

/* ref: index of the stage's read; FLAT_OUT: the output. */
static void put_offset(struct fn *f, const struct read *r, int ref, int number)
{
	if (f->nest)
		put_offset_in_nest(f, ref);
	else
		put_offset_by_axes(f, r, number);
}

/* Nobody fills the halos of intermediates. */
static bool lacks_halo(const struct fn *f, const struct operand *o)
{
	return o->role == ROLE_TMP && !task_floats(f->t);
}

static bool may_leave(const struct fn *f, const struct read *r, int d)
{
	int64_t lo, hi;
	const struct operand *o = &f->operand[r->operand];
	if (!lacks_halo(f, o))
		return index_guarded(f->t, f->h->s, r, d);
	index_range(f->h->s, &r->dim[d], &lo, &hi);
	return lo < 0 || hi >= o->dims.d[d];
}

/* Writes the variables that put_offset needs; returns whether any dim may lie outside. */
static bool put_indices(struct fn *f, const struct read *r, int ref, int number, bool guarded[MAX_RANK])
{
	bool any = false;
	const struct operand *o = &f->operand[r->operand];
	for (int d = 0; d < o->dims.rank && !f->nest; d++) {
		const struct index *x = &r->dim[d];
		guarded[d] = ref != FLAT_OUT && (x->table >= 0 || may_leave(f, r, d));
		any |= guarded[d];
		if (is_plain(o, x, d))
			continue;
		line(f, "const int64_t ");
		buf_printf(f->b, "i%d_%d = ", number, d);
		put_index(f, x);
		buf_printf(f->b, " + %lld;\n", (long long)o->layout.lo[d]);
	}
	return any;
}

/* ---- computation ---- */

/* A number that the operand's type has. */
static void put_fill(struct fn *f, const struct operand *o)
{
	if (o->dtype == DT_F32)
		c_float(f->b, o->fill);
	else
		buf_printf(f->b, "%lld", (long long)o->fill);
}

/* Integers are s32, also those of an intermediate, which lie as floats. */
static struct var put_read(struct fn *f, int number)
{
	const struct read *r = &f->h->s->read[number];
	const struct operand *o = &f->operand[r->operand];
	const struct var x = {f->nvars++, f->t->operand[r->operand].dtype != DT_F32};
	const bool cast = x.whole && o->dtype == DT_F32;
	const int v = x.number;
	bool guarded[MAX_RANK] = {0}, guards = put_indices(f, r, number, v, guarded), first = true;
	line(f, "const ");
	buf_printf(f->b, "%s t%d = %s", type_of(x), v, cast ? "(int32_t)(" : "");
	for (int d = 0; d < o->dims.rank && guards; d++) {
		if (!guarded[d])
			continue;
		const int64_t lo = o->layout.lo[d], less = lacks_halo(f, o) ? lo : 0,
			      more = lacks_halo(f, o) ? 0 : lo + o->layout.hi[d];
		buf_puts(f->b, first ? "(uint64_t)(" : " && (uint64_t)(");
		first = false;
		if (is_plain(o, &r->dim[d], d))
			put_affine(f, &r->dim[d], lo - less);
		else
			buf_printf(f->b, "i%d_%d - %lld", v, d, (long long)less);
		buf_printf(f->b, ") < %lld", (long long)(o->dims.d[d] + more));
	}
	buf_puts(f->b, guards ? " ? " : "");
	if (is_output(f, r->operand))
		buf_puts(f->b, "o[");
	else
		buf_printf(f->b, "b%d[", r->operand);
	put_offset(f, r, number, v);
	buf_puts(f->b, guards ? "] : " : "]");
	if (guards)
		put_fill(f, o);
	buf_puts(f->b, cast ? ");\n" : ";\n");
	return x;
}

/* Sums and products of whole values are exact. */
static bool is_whole(enum prog_op op, const struct var *arg)
{
	return (op == P_ADD || op == P_MUL) && arg[0].whole && arg[1].whole;
}

static struct var put_call(struct fn *f, enum prog_op op, const struct var *arg)
{
	const struct var v = {f->nvars++, is_whole(op, arg)};
	line(f, "const ");
	buf_printf(f->b, "%s t%d = ", type_of(v), v.number);
	if (v.whole) {
		buf_printf(f->b, "t%d %c t%d;\n", arg[0].number, op == P_ADD ? '+' : '*', arg[1].number);
		return v;
	}
	f->c->op[op] = true;
	buf_printf(f->b, "op_%s(", prog_op_name(op));
	for (int i = 0; i < prog_op_arity(op); i++)
		buf_printf(f->b, "%s%st%d", i ? ", " : "", arg[i].whole ? "(float)" : "", arg[i].number);
	buf_puts(f->b, ");\n");
	return v;
}

/* Writes a program; returns the variable that holds its value. */
static struct var put_prog(struct fn *f, const struct prog *q, struct var acc)
{
	struct var stack[MAX_PROG + 1];
	int top = 0;
	for (int i = 0; i < q->n; i++) {
		enum prog_op op = (enum prog_op)q->at[i].op;
		top -= prog_op_arity(op);
		if (op == P_READ) {
			stack[top] = put_read(f, q->at[i].arg);
		} else if (op == P_ACC) {
			stack[top] = acc;
		} else if (op == P_IMM) {
			stack[top] = (struct var){f->nvars++, false};
			line(f, "const float ");
			buf_printf(f->b, "t%d = ", stack[top].number);
			c_float(f->b, q->at[i].imm);
			buf_puts(f->b, ";\n");
		} else {
			stack[top] = put_call(f, op, &stack[top]);
		}
		top++;
	}
	return stack[0];
}

static struct var put_body(struct fn *f)
{
	return put_prog(f, &f->h->s->body, (struct var){-1, false});
}

/* Bytes are stored as such, those of an intermediate as floats. */
static void put_store(struct fn *f, struct var acc)
{
	bool guarded[MAX_RANK];
	const int out = f->h->s->out.operand;
	const enum dtype is = f->t->operand[out].dtype, held = f->operand[out].dtype;
	const struct var v = f->h->s->post.n ? put_prog(f, &f->h->s->post, acc) : acc;
	const int at = f->nvars++;
	(void)put_indices(f, &f->h->s->out, FLAT_OUT, at, guarded);
	line(f, "o[");
	put_offset(f, &f->h->s->out, FLAT_OUT, at);
	buf_puts(f->b, "] = ");
	if (held != DT_F32)
		buf_printf(f->b, "(%s)", c_dtype(held));
	if (dtype_is_byte(is)) {
		f->c->to_byte[is == DT_I8] = true;
		buf_printf(f->b, "to_%s(", dtype_name(is));
	}
	buf_printf(f->b, "%st%d%s;\n", v.whole && is != DT_I32 ? "(float)" : "", v.number,
		   dtype_is_byte(is) ? ")" : "");
}

/* ---- loops ---- */

static void put_loop(struct fn *f, const char *letter, int number, int64_t n)
{
	line(f, "for (int64_t ");
	buf_printf(f->b, "%s%d = 0; %s%d < %lld; %s%d++)", letter, number, letter, number, (long long)n,
		   letter, number);
	open_block(f);
}

static void put_pointers(struct fn *f)
{
	const struct stage *s = f->h->s;
	bool done[MAX_OPERANDS] = {0};
	for (int r = 0; r < s->nreads; r++) {
		const struct read *x = &s->read[r];
		for (int d = 0; d < f->operand[x->operand].dims.rank && is_read(s, r); d++)
			if (x->dim[d].table >= 0 && !done[x->dim[d].table]) {
				done[x->dim[d].table] = true;
				line(f, "const int32_t *");
				buf_printf(f->b, "b%d = buf[%d];\n", x->dim[d].table, x->dim[d].table);
			}
		if (!is_read(s, r) || done[x->operand] || is_output(f, x->operand))
			continue;
		done[x->operand] = true;
		line(f, "const ");
		buf_printf(f->b, "%s *%sb%d = buf[%d];\n", c_dtype(f->operand[x->operand].dtype),
			   f->in_place < 0 ? "restrict " : "", x->operand, x->operand);
	}
	line(f, c_dtype(f->operand[s->out.operand].dtype));
	buf_printf(f->b, " *%so = buf[%d];\n", f->in_place < 0 ? "restrict " : "", s->out.operand);
	line(f, "(void)param;\n");
}

static bool uses_axis(const struct fn *f, int a)
{
	const struct stage *s = f->h->s;
	if (s->axis[a].extent == 1)
		return false;
	for (int i = 0; i <= s->nreads; i++) {
		const struct read *r = i < s->nreads ? &s->read[i] : &s->out;
		for (int d = 0; d < f->operand[r->operand].dims.rank; d++)
			if (r->dim[d].coef[a] && (i == s->nreads || is_read(s, i)))
				return true;
	}
	return false;
}

/* Writes letter%d = its part of i; `inner` values of i make one step. */
static void put_part(struct fn *f, const char *letter, int number, int64_t inner, int64_t n)
{
	line(f, "const int64_t ");
	buf_printf(f->b, "%s%d = i", letter, number);
	if (inner > 1)
		buf_printf(f->b, " / %lld", (long long)inner);
	buf_printf(f->b, " %% %lld;\n", (long long)n);
}

static void put_rows(struct fn *f)
{
	line(f, "for (int64_t i = begin; i < end; i++)");
	open_block(f);
}

static const struct {
	const char *first; /* neutral element */
	enum prog_op op;
} combiners[] = {
    [COMB_SUM] = {"-0.0f", P_ADD},
    [COMB_MAX] = {"-(float)INFINITY", P_MAX},
    [COMB_MIN] = {"(float)INFINITY", P_MIN},
    [COMB_PROD] = {"1.0f", P_MUL},
};

static void put_reduction(struct fn *f)
{
	const struct hstage *h = f->h;
	const struct stage *s = h->s;
	int depth = f->depth, run = h->axis;
	int64_t extent = run < 0 ? 1 : s->axis[run].extent;
	line(f, "for (int64_t x = 0; x < ");
	buf_printf(f->b, "%lld; x += %d)", (long long)extent, BLOCK);
	open_block(f);
	line(f, "const int n = (int)(");
	buf_printf(f->b, "%lld - x < %d ? %lld - x : %d);\n", (long long)extent, BLOCK, (long long)extent,
		   BLOCK);
	const bool whole = f->sums_whole;
	line(f, whole ? "int32_t acc[" : "float acc[");
	buf_printf(f->b, "%d];\n", BLOCK);
	line(f, "for (int k = 0; k < n; k++)\n\t");
	line(f, "acc[k] = ");
	buf_printf(f->b, "%s;\n",
		   whole                                     ? "0"
		   : h->how == BY_OUTER || h->how == BY_ROWS ? "0.0f"
							     : combiners[s->comb].first);
	for (int a = h->nspatial; a < s->naxes; a++)
		if (s->axis[a].extent != 1)
			put_loop(f, "a", a, s->axis[a].extent);
	for (int last = 0; last < 2; last++) {
		line(f, "for (int k = 0; k < n; k++)");
		open_block(f);
		if (run >= 0 && uses_axis(f, run)) {
			line(f, "const int64_t ");
			buf_printf(f->b, "a%d = x + k;\n", run);
		}
		if (last) {
			const struct var v = {f->nvars++, whole};
			line(f, "const ");
			buf_printf(f->b, "%s t%d = acc[k];\n", type_of(v), v.number);
			put_store(f, v);
		} else if (whole) {
			const struct var v = put_body(f);
			line(f, "acc[k] += ");
			buf_printf(f->b, "t%d;\n", v.number);
		} else {
			const struct var v = put_body(f);
			f->c->op[combiners[s->comb].op] = true;
			line(f, "acc[k] = op_");
			buf_printf(f->b, "%s(acc[k], %st%d);\n", prog_op_name(combiners[s->comb].op),
				   v.whole ? "(float)" : "", v.number);
		}
		close_blocks(f, depth + 1);
	}
	close_blocks(f, depth);
}

/* Writes rows along one axis; the other spatial axes make the extent. */
static int64_t put_by_axes(struct fn *f)
{
	const struct hstage *h = f->h;
	const struct stage *s = h->s;
	int nspatial = 0;
	int64_t extent = 1;
	for (int a = 0; a < s->naxes; a++)
		nspatial += s->axis[a].kind == AXIS_SPATIAL;
	put_rows(f);
	for (int a = nspatial - 1; a >= 0; a--) {
		if (a == h->axis)
			continue;
		if (uses_axis(f, a))
			put_part(f, "a", a, extent, s->axis[a].extent);
		extent *= s->axis[a].extent;
	}
	if (s->comb != COMB_NONE) {
		put_reduction(f);
	} else {
		if (h->axis >= 0 && s->axis[h->axis].extent != 1)
			put_loop(f, "a", h->axis, s->axis[h->axis].extent);
		put_store(f, put_body(f));
	}
	return extent;
}

/* Writes one of the two nests of loops with constant steps; long rows are cut into lines. */
static int64_t put_nest(struct fn *f)
{
	const struct flat_nest *n = f->nest;
	int64_t extent = 1, lines = (n->row + LINE - 1) / LINE;
	put_rows(f);
	if (lines > 1) {
		put_part(f, "p", 0, 1, lines);
		line(f, "const int64_t last = ");
		buf_printf(f->b, "p0 * %d + %d < %lld ? p0 * %d + %d : %lld;\n", LINE, LINE,
			   (long long)n->row, LINE, LINE, (long long)n->row);
		extent = lines;
	}
	for (int k = n->nloops - 2; k >= 0; k--) {
		put_part(f, "l", k, extent, n->loop[k].n);
		extent *= n->loop[k].n;
	}
	if (lines > 1) {
		line(f, "for (int64_t x0 = p0 * ");
		buf_printf(f->b, "%d; x0 < last; x0++)", LINE);
		open_block(f);
	} else {
		put_loop(f, "x", 0, n->row);
	}
	put_store(f, put_body(f));
	return extent;
}

/* In a map, the program's value takes the place of the accumulator. */
static void put_function(struct plan_c *c, const struct host_task *h, const struct hstage *s,
			 const struct flat_nest *nest, int in_place, struct c_call *call)
{
	struct buf body = {0};
	struct fn f = {c,    &body,    s, h->operand, h->t,
		       nest, in_place, 1, 0,          .sums_whole = stage_whole(h->t, s->s)};
	put_pointers(&f);
	call->extent = nest ? put_nest(&f) : put_by_axes(&f);
	close_blocks(&f, 1);
	call->fn = c_function(c, &body);
	buf_free(&body);
}

/* A stage of a task over integers, which has no parts. Rows are along the axis that is innermost in the
 * output. */
static struct hstage exact_stage(const struct host_task *h, int k)
{
	const struct stage *s = &h->t->stage[k];
	const struct operand *o = &h->operand[s->out.operand];
	struct phys_axis ax[MAX_SPLITS];
	int n = operand_axes(o, ax), last = stage_spatial(s) - 1;
	int axis = n ? index_axis(s, &s->out.dim[ax[n - 1].dim]) : -1;
	bool row = axis >= 0 && axis <= last && s->axis[axis].extent > 1;
	return (struct hstage){.t = h->t,
			       .operand = h->operand,
			       .s = s,
			       .nspatial = last + 1,
			       .axis = row ? axis : last,
			       .how = BY_PROGRAM};
}

static void put_exact(struct plan_c *c, const struct host_task *h, int k, struct c_call *call)
{
	const struct hstage s = exact_stage(h, k);
	c->exact = true;
	put_function(c, h, &s, NULL, -1, call);
	c_call(c, call);
}

void c_stage(struct plan_c *c, const struct host_task *h, int k, void *const *buf, int in_place)
{
	const struct flat *flat = h->exact ? NULL : h->stage[k].part->flat;
	struct c_place place[MAX_OPERANDS];
	struct c_call call = {.param = -1, .edge = -1, .nplaces = h->t->noperands};
	for (int i = 0; i < h->t->noperands; i++)
		place[i] = c_place_of(c, &buf[i]);
	call.place = c_places(c, place, h->t->noperands);
	if (h->exact) {
		put_exact(c, h, k, &call);
		return;
	}
	for (int i = 0; i < (flat ? 2 : h->stage[k].n); i++) {
		const struct hstage *s = &h->stage[k].part[flat ? 0 : i];
		if (flat ? !flat->nest[i].pieces : !s->extent)
			continue;
		put_function(c, h, s, flat ? &flat->nest[i] : NULL, in_place, &call);
		c_call(c, &call);
	}
}
