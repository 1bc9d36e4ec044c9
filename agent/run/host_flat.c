/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/host_flat.h"
#include "agent/run/host.h"
#include "agent/run/host_math.h"
#include "agent/run/vec4.h"

#include <string.h>

enum {
	ROWS = 32,
	OUT = FLAT_OUT,
	REFS = FLAT_REFS,
	MOST_BLOCK = 4096, /* of a layout */
	LONG = 4 * HOST_LANES
};

_Static_assert(HOST_BLOCK % HOST_LANES == 0, "host_apply rounds up");

struct flat_scratch {
	float slot[PROG_PLACES][HOST_BLOCK];
	int64_t at[REFS][ROWS], len[ROWS];
};

/* How the loops walk an axis. */
struct walk {
	int64_t block; /* 0: not split */
	bool whole;    /* padding lanes too */
};

struct maker {
	const struct task *t;
	const struct stage *s;
	struct operand *operand;
	struct walk axis[MAX_AXES];
};

int64_t flat_extent(const struct flat *f)
{
	return f->nest[0].pieces + f->nest[1].pieces;
}

size_t flat_scratch_bytes(void)
{
	return sizeof(struct flat_scratch);
}

static const struct read *ref(const struct maker *m, int i)
{
	return i == OUT ? &m->s->out : &m->s->read[i];
}

/* Steps of a dim: over blocks and inside of one; block 0: not split. */
static int64_t dim_steps(const struct operand *o, int d, int64_t *outer, int64_t *inner)
{
	struct phys_axis ax[MAX_SPLITS];
	int64_t block = 0;
	int n = operand_axes(o, ax);
	*outer = *inner = 0;
	for (int j = 0; j < n; j++) {
		if (ax[j].dim != d)
			continue;
		if (ax[j].div > 1) {
			block = ax[j].div;
			*outer = ax[j].stride;
		} else {
			*inner = ax[j].stride;
		}
	}
	return block;
}

/* The only axis of an index that is that axis itself (before division); -1: none. */
static int lone(const struct stage *s, const struct index *x)
{
	int found = -1;
	for (int a = 0; a < s->naxes; a++) {
		if (x->coef[a] && (found >= 0 || x->coef[a] != 1))
			return -1;
		found = x->coef[a] ? a : found;
	}
	return x->off ? -1 : found;
}

static bool constant_index(const struct stage *s, const struct index *x)
{
	for (int a = 0; a < s->naxes; a++)
		if (x->coef[a])
			return false;
	return true;
}

/* Splits axes as dim d of a reference needs; false: the stage has no such form. */
static bool split_for(struct maker *m, int i, int d)
{
	const struct index *x = &ref(m, i)->dim[d];
	const struct operand *o = &m->operand[ref(m, i)->operand];
	int64_t outer, inner, block = dim_steps(o, d, &outer, &inner);
	if (x->table >= 0 || x->mod > 1 || (i != OUT && index_guarded(m->t, m->s, ref(m, i), d)))
		return false;
	if (x->div > 1 && block)
		return false;
	block = x->div > 1 ? x->div : block;
	if (!block || (x->div <= 1 && constant_index(m->s, x)))
		return true;
	int a = lone(m->s, x);
	if (a < 0 || (m->axis[a].block && m->axis[a].block != block))
		return false;
	m->axis[a].block = block;
	return true;
}

/* A constant along a split axis is split likewise. */
static void pack_constant(struct maker *m, int i)
{
	struct operand *o = &m->operand[ref(m, i)->operand];
	int uses = 0;
	bool halo = false;
	for (int d = 0; d < o->dims.rank; d++)
		halo |= o->layout.lo[d] || o->layout.hi[d];
	for (int k = 0; k < m->s->nreads; k++)
		uses += m->s->read[k].operand == ref(m, i)->operand;
	if (o->role != ROLE_CONST || o->dtype != DT_F32 || o->layout.n || halo || uses != 1)
		return;
	for (int d = 0; d < o->dims.rank && !o->layout.n; d++) {
		const struct index *x = &ref(m, i)->dim[d];
		int a = lone(m->s, x);
		if (a >= 0 && x->div <= 1 && m->axis[a].block && m->axis[a].block <= MOST_BLOCK &&
		    o->dims.d[d] == m->s->axis[a].extent)
			layout_blocked(&o->layout, o->dims.rank, d, (int)m->axis[a].block);
	}
}

/* Returns whether the program keeps finite values finite, roughly. */
static bool tame(const struct prog *p)
{
	for (int i = 0; i < p->n; i++)
		if (p->at[i].op == P_DIV || p->at[i].op == P_POW || p->at[i].op == P_SQRT ||
		    p->at[i].op == P_RECIP || p->at[i].op == P_EXP || p->at[i].op == P_LOG)
			return false;
	return true;
}

/* Returns whether every reference that depends on the axis has padding behind it. */
static bool padded(const struct maker *m, int a)
{
	for (int i = 0; i <= m->s->nreads; i++) {
		const struct read *r = i < m->s->nreads ? &m->s->read[i] : &m->s->out;
		const struct operand *o = &m->operand[r->operand];
		for (int d = 0; d < o->dims.rank; d++) {
			int64_t outer, inner;
			if (r->dim[d].coef[a] &&
			    (!dim_steps(o, d, &outer, &inner) || o->dims.d[d] != m->s->axis[a].extent))
				return false;
		}
	}
	return tame(&m->s->body) && tame(&m->s->post);
}

/* Element steps of a reference along axis a: over blocks and inside of one. */
static void axis_steps(const struct maker *m, int i, int a, int64_t *outer, int64_t *inner)
{
	const struct read *r = ref(m, i);
	const struct operand *o = &m->operand[r->operand];
	int64_t block = m->axis[a].block, bo, bi;
	*outer = *inner = 0;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &r->dim[d];
		if (!x->coef[a])
			continue;
		bool split = dim_steps(o, d, &bo, &bi) > 0;
		*outer += split ? bo : x->div > 1 ? bi : x->coef[a] * block * bi;
		*inner += split ? bi : x->div > 1 ? 0 : x->coef[a] * bi;
	}
}

static int64_t base_of(const struct maker *m, int i)
{
	const struct read *r = ref(m, i);
	const struct operand *o = &m->operand[r->operand];
	int64_t at = 0, outer, inner;
	for (int d = 0; d < o->dims.rank; d++) {
		int64_t x = (r->dim[d].div > 1 ? r->dim[d].off / r->dim[d].div : r->dim[d].off) +
			    o->layout.lo[d],
			block = dim_steps(o, d, &outer, &inner);
		at += block ? x / block * outer + x % block * inner : x * inner;
	}
	return at;
}

static void each_ref(const struct maker *m, struct flat_nest *n, int a, int64_t count, bool blocks)
{
	struct flat_loop *l = &n->loop[n->nloops++];
	int64_t outer, inner;
	memset(l, 0, sizeof *l);
	l->n = count;
	for (int i = 0; i < REFS; i++) {
		if (i >= m->s->nreads && i != OUT)
			continue;
		axis_steps(m, i, a, &outer, &inner);
		l->step[i] = blocks ? outer : inner;
	}
}

/* Adds the loops of all axes. `tail`: the axis of which only the rest after its whole blocks is walked; -1:
 * whole blocks of all. */
static void add_loops(const struct maker *m, struct flat_nest *n, int tail)
{
	for (int i = 0; i < m->s->nreads; i++)
		n->base[i] = base_of(m, i);
	n->base[OUT] = base_of(m, OUT);
	for (int a = 0; a < m->s->naxes; a++) {
		int64_t e = m->s->axis[a].extent, b = m->axis[a].block;
		if (!b) {
			each_ref(m, n, a, e, false);
			continue;
		}
		each_ref(m, n, a, m->axis[a].whole ? (e + b - 1) / b : e / b, true);
		struct flat_loop *l = &n->loop[n->nloops - 1];
		if (a == tail) {
			for (int i = 0; i < REFS; i++)
				n->base[i] += l->n * l->step[i];
			l->n = 1;
		}
		each_ref(m, n, a, a == tail ? e % b : b, false);
	}
}

static bool continues(const struct flat_loop *outer, const struct flat_loop *inner)
{
	for (int i = 0; i < REFS; i++)
		if (outer->step[i] != inner->n * inner->step[i])
			return false;
	return true;
}

/* Cycles for an element if the loop makes the rows, roughly. Steps beyond a cache line cost more than what
 * long rows save. */
static double row_cycles(const struct flat_loop *l, int nreads)
{
	enum { PER_ROW = 16, LINE = 16 };
	double cycles = (double)PER_ROW / (double)l->n + (l->step[OUT] > LINE ? 4
							  : l->step[OUT] == 1 ? 0
									      : 1);
	for (int i = 0; i < nreads; i++)
		cycles += l->step[i] > LINE ? 2 : l->step[i] > 1 ? 1 : 0;
	return cycles;
}

/* Moves the loop that makes the best rows innermost. */
static void choose_rows(struct flat_nest *n, int nreads)
{
	int best = n->nloops - 1;
	for (int k = best - 1; k >= 0; k--)
		if (row_cycles(&n->loop[k], nreads) < row_cycles(&n->loop[best], nreads))
			best = k;
	struct flat_loop l = n->loop[n->nloops ? best : 0];
	for (int k = best; k + 1 < n->nloops; k++)
		n->loop[k] = n->loop[k + 1];
	if (n->nloops)
		n->loop[n->nloops - 1] = l;
}

/* Largest steps of the output outermost; loops that continue each other become one. */
static void order_loops(struct flat_nest *n)
{
	int count = 0;
	for (int i = 1; i < n->nloops; i++) {
		struct flat_loop l = n->loop[i];
		int k = i;
		for (; k > 0 && n->loop[k - 1].step[OUT] < l.step[OUT]; k--)
			n->loop[k] = n->loop[k - 1];
		n->loop[k] = l;
	}
	for (int i = 0; i < n->nloops; i++) {
		struct flat_loop l = n->loop[i];
		if (l.n == 1)
			continue;
		if (count && continues(&n->loop[count - 1], &l))
			l.n *= n->loop[--count].n;
		n->loop[count++] = l;
	}
	n->nloops = count;
}

/* The innermost loop becomes rows, walked in pieces. */
static void cut_rows(struct flat_nest *n)
{
	if (!n->nloops) {
		memset(n->loop, 0, sizeof *n->loop);
		n->loop[n->nloops++].n = 1;
	}
	struct flat_loop *l = &n->loop[n->nloops - 1];
	memcpy(n->step, l->step, sizeof n->step);
	n->row = l->n;
	n->piece = n->row < HOST_BLOCK ? n->row : HOST_BLOCK;
	n->pitch = n->piece < LONG ? n->piece : (n->piece + HOST_LANES - 1) & -HOST_LANES;
	l->n = n->piece ? (n->row + n->piece - 1) / n->piece : 0;
	for (int i = 0; i < REFS; i++)
		l->step[i] *= n->piece;
	n->pieces = 1;
	for (int i = 0; i < n->nloops; i++)
		n->pieces *= n->loop[i].n;
}

/* The loop along which rows that are one piece follow each other. */
static const struct flat_loop *line_of(const struct flat_nest *n)
{
	int last = n->nloops - 1;
	return &n->loop[n->loop[last].n == 1 && last > 0 ? last - 1 : last];
}

/* Reads that stay the same along long rows, or along lines of short ones, are applied as scalars. */
static int make_programs(const struct stage *s, struct flat_nest *n, struct arena *a)
{
	bool row[MAX_OPERANDS] = {false};
	const struct flat_loop *l = line_of(n);
	bool lines = n->piece < LONG && n->loop[n->nloops - 1].n == 1 && l->n * n->piece >= LONG;
	for (int i = 0; i < s->nreads; i++) {
		row[i] = n->step[i] == 0 && (n->piece >= LONG || (lines && l->step[i] == 0));
		n->lines |= lines && row[i];
	}
	int rc = host_prog_make(&s->body, row, a, &n->body);
	return rc < 0 ? rc : host_prog_make(&s->post, row, a, &n->post);
}

/* Decides how axes are walked; false: the stage has no such form. */
static bool split_axes(struct maker *m, bool may_pack, int *tail)
{
	*tail = -1;
	for (int i = 0; i <= m->s->nreads; i++) {
		int k = i < m->s->nreads ? i : OUT;
		for (int d = 0; d < m->operand[ref(m, k)->operand].dims.rank; d++)
			if (!split_for(m, k, d))
				return false;
	}
	for (int i = 0; i < m->s->nreads && may_pack; i++)
		pack_constant(m, i);
	for (int a = 0; a < m->s->naxes; a++) {
		int64_t b = m->axis[a].block;
		if (!b || m->s->axis[a].extent % b == 0 || (m->axis[a].whole = padded(m, a)))
			continue;
		if (*tail >= 0)
			return false;
		*tail = a;
	}
	return true;
}

int flat_make(const struct task *t, int k, struct operand operand[MAX_OPERANDS], bool may_pack,
	      struct arena *a, struct flat **out)
{
	struct operand own[MAX_OPERANDS];
	struct maker m = {.t = t, .s = &t->stage[k], .operand = own};
	int tail;
	*out = NULL;
	memcpy(own, operand, sizeof own);
	for (int x = 0; x < m.s->naxes; x++)
		if (m.s->axis[x].kind != AXIS_SPATIAL && m.s->axis[x].extent > 1)
			return E_OK;
	if (!split_axes(&m, may_pack, &tail))
		return E_OK;
	struct flat *f = arena_try(a, 1, sizeof *f);
	if (!f)
		return E_NOMEM;
	f->s = m.s;
	f->copy = m.s->body.n == 1 && m.s->body.at[0].op == P_READ && !m.s->post.n;
	for (int i = 0, rc; i < (tail < 0 ? 1 : 2); i++) {
		add_loops(&m, &f->nest[i], i ? tail : -1);
		order_loops(&f->nest[i]);
		choose_rows(&f->nest[i], m.s->nreads);
		cut_rows(&f->nest[i]);
		if ((rc = make_programs(m.s, &f->nest[i], a)) < 0)
			return rc == E_UNSUPPORTED ? E_OK : rc;
	}
	memcpy(operand, own, sizeof own);
	*out = f;
	return E_OK;
}

/* ---- running ---- */

static void copy_row(float *to, int64_t st, const float *from, int64_t sf, int64_t n)
{
	if (st == 1 && sf == 1)
		vec4_copy(to, from, n);
	else if (st == 1 && sf == 0)
		host_fill(to, *from, n);
	else if (st == 1)
		vec4_gather(to, from, sf, n);
	else
		for (int64_t i = 0; i < n; i++)
			to[i * st] = from[i * sf];
}

struct odometer {
	int64_t i[FLAT_LOOPS], at[REFS];
};

static void start_at(const struct flat_nest *n, int64_t piece, struct odometer *o)
{
	memset(o, 0, sizeof *o);
	memcpy(o->at, n->base, sizeof o->at);
	for (int k = n->nloops - 1; k >= 0; k--) {
		o->i[k] = piece % n->loop[k].n;
		piece /= n->loop[k].n;
		for (int r = 0; r < REFS; r++)
			o->at[r] += o->i[k] * n->loop[k].step[r];
	}
}

static void advance(const struct flat_nest *n, int nreads, struct odometer *o)
{
	for (int k = n->nloops - 1; k >= 0; k--) {
		const struct flat_loop *l = &n->loop[k];
		bool again = ++o->i[k] == l->n;
		int64_t by = again ? 1 - l->n : 1;
		for (int r = 0; r < nreads; r++)
			o->at[r] += by * l->step[r];
		o->at[OUT] += by * l->step[OUT];
		if (!again)
			return;
		o->i[k] = 0;
	}
}

/* Finds the lengths of n rows from *o on, and where each reference has them, and moves *o behind them. Rows
 * that are one piece follow each other along the loop before the last. */
static void start_rows(const struct flat_nest *n, int nreads, struct odometer *o, int rows,
		       struct flat_scratch *w)
{
	const struct flat_loop *l = line_of(n);
	int last = n->nloops - 1, k = (int)(l - n->loop);
	for (int j = 0, count; j < rows; j += count) {
		count = l->n - o->i[k] < rows - j ? (int)(l->n - o->i[k]) : rows - j;
		for (int i = 0; i <= nreads; i++) {
			int r = i < nreads ? i : OUT;
			for (int x = 0; x < count; x++)
				w->at[r][j + x] = o->at[r] + x * l->step[r];
			o->at[r] += (count - 1) * l->step[r];
		}
		for (int x = 0; x < count; x++) {
			int64_t left = n->row - (k == last ? o->i[last] + x : 0) * n->piece;
			w->len[j + x] = left < n->piece ? left : n->piece;
		}
		o->i[k] += count - 1;
		advance(n, nreads, o);
	}
}

/* Rows that are worked on at once; `slot`: where each value is. */
struct block {
	const struct flat *f;
	const struct flat_nest *n;
	void *const *bufs;
	struct flat_scratch *w;
	int rows, count;
	float *slot[PROG_PLACES];
};

static const float *source(const struct block *b, int r, int row)
{
	return (const float *)b->bufs[b->f->s->read[r].operand] + b->w->at[r][row];
}

/* Whether a single row of whole vectors lies in sequence: it is used where it is. */
static bool in_place(const struct block *b, int ref)
{
	return b->rows == 1 && b->n->step[ref] == 1 && b->w->len[0] % HOST_LANES == 0;
}

static void load_read(struct block *b, int r, int slot)
{
	const struct flat_nest *n = b->n;
	if (in_place(b, r)) {
		const float *from = source(b, r, 0);
		memcpy(&b->slot[slot], &from, sizeof from); /* nothing writes there */
		return;
	}
	b->slot[slot] = b->w->slot[slot];
	for (int j = 0; j < b->rows; j++)
		copy_row(b->slot[slot] + j * n->pitch, 1, source(b, r, j), n->step[r], b->w->len[j]);
}

/* Runs a program; `to`: NULL, or where the last value goes instead of its slot. Returns where it is. */
static const float *run_prog(struct block *b, const struct host_prog *q, float *to)
{
	for (int i = 0; i < q->n; i++) {
		const struct host_ins *ins = &q->ins[i];
		const float *a = b->slot[ins->a], *second = b->slot[ins->b], *third = b->slot[ins->c];
		if (ins->op == P_READ) {
			load_read(b, ins->read, ins->to);
			continue;
		}
		float *out = b->slot[ins->to] = i == q->n - 1 && to ? to : b->w->slot[ins->to];
		if (ins->op == P_IMM)
			host_fill(out, ins->imm, b->count);
		else if (ins->by_imm)
			host_apply_value(ins->op, out, a, ins->imm, b->count);
		else if (ins->by_row && b->n->lines)
			host_apply_value(ins->op, out, a, *source(b, ins->read, 0), b->count);
		else if (ins->by_row)
			for (int j = 0; j < b->rows; j++)
				host_apply_value(ins->op, out + j * b->n->pitch, a + j * b->n->pitch,
						 *source(b, ins->read, j), (int)b->w->len[j]);
		else
			host_apply(ins->op, out, a, second, third, b->count);
	}
	return b->slot[q->result];
}

static void run_rows(const struct flat *f, const struct flat_nest *n, void *const *bufs,
		     struct flat_scratch *w, int rows)
{
	struct block b = {f, n, bufs, w, rows, rows == 1 ? (int)w->len[0] : (int)(rows * n->pitch), {NULL}};
	float *out = bufs[f->s->out.operand];
	for (int i = 0; i < PROG_PLACES; i++)
		b.slot[i] = w->slot[i];
	float *to = in_place(&b, OUT) ? out + w->at[OUT][0] : NULL;
	const float *v = run_prog(&b, &n->body, n->post.n ? w->slot[PROG_ACC] : to);
	if (n->post.n && v != w->slot[PROG_ACC])
		memcpy(w->slot[PROG_ACC], v, sizeof *v * (size_t)b.count);
	if (n->post.n)
		v = run_prog(&b, &n->post, to);
	for (int j = 0; j < rows && v != to; j++)
		copy_row(out + w->at[OUT][j], n->step[OUT], v + j * n->pitch, 1, w->len[j]);
}

/* A copy needs no block: rows of the innermost loop but one follow each other. */
static void copy_nest(const struct flat *f, const struct flat_nest *n, void *const *bufs, int64_t begin,
		      int64_t end)
{
	struct odometer o;
	int r = f->s->body.at[0].arg, last = n->nloops - 1, outer = last - 1;
	float *out = bufs[f->s->out.operand];
	const float *from = bufs[f->s->read[r].operand];
	bool lines = n->loop[last].n == 1 && outer >= 0; /* a row is one piece */
	start_at(n, begin, &o);
	while (begin < end) {
		int64_t left = n->row - o.i[last] * n->piece, len = left < n->piece ? left : n->piece,
			rows = 1;
		if (lines)
			rows = n->loop[outer].n - o.i[outer] < end - begin ? n->loop[outer].n - o.i[outer]
									   : end - begin;
		int64_t st = lines ? n->loop[outer].step[OUT] : 0, sf = lines ? n->loop[outer].step[r] : 0;
		for (int64_t j = 0; j < rows; j++)
			copy_row(out + o.at[OUT] + j * st, n->step[OUT], from + o.at[r] + j * sf, n->step[r],
				 len);
		begin += rows;
		if (rows > 1)
			start_at(n, begin, &o);
		else
			advance(n, f->s->nreads, &o);
	}
}

static void run_nest(const struct flat *f, const struct flat_nest *n, void *const *bufs, int64_t begin,
		     int64_t end, struct flat_scratch *w)
{
	struct odometer o;
	const struct flat_loop *l = line_of(n);
	int64_t most = HOST_BLOCK / n->pitch;
	if (f->copy) {
		copy_nest(f, n, bufs, begin, end);
		return;
	}
	most = most > ROWS ? ROWS : most;
	start_at(n, begin, &o);
	while (begin < end) {
		int rows = (int)(end - begin < most ? end - begin : most);
		if (n->lines && l->n - o.i[l - n->loop] < rows)
			rows = (int)(l->n - o.i[l - n->loop]);
		start_rows(n, f->s->nreads, &o, rows, w);
		run_rows(f, n, bufs, w, rows);
		begin += rows;
	}
}

void flat_run(const struct flat *f, void *const *bufs, int64_t begin, int64_t end, void *scratch)
{
	int64_t first = f->nest[0].pieces;
	if (begin < first)
		run_nest(f, &f->nest[0], bufs, begin, end < first ? end : first, scratch);
	if (end > first)
		run_nest(f, &f->nest[1], bufs, begin > first ? begin - first : 0, end - first, scratch);
}
