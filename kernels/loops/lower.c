/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers a task and a schedule to loops and a manifest: buffers and packings, then the stages, then the data
 * that a plan needs. A task of one stage is a nest whose leading loops are the parallel extent. The stages of
 * a chain run one after the other for every index of the parallel extent, with intermediates in thread
 * scratch. */
#include "kernels/loops/lower_parts.h"
#include "kernels/space/winograd_fused.h"
#include "platform/base/sanitized.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct ix *size_ix(struct lower *w, int64_t v)
{
	return IS_SYM(v) ? ix_param(w->l, SYM_INDEX(v)) : ix_c(w->l, v);
}

static const struct ix *round_up(struct loops *l, const struct ix *x, int64_t to)
{
	return ix_mul(l, ix_div(l, ix_add(l, x, ix_c(l, to - 1)), ix_c(l, to)), ix_c(l, to));
}

const struct ix *lower_scratch(struct lower *w, const struct ix *elems)
{
	const struct ix *at = w->scratch;
	w->scratch = ix_add(w->l, at, round_up(w->l, elems, 16));
	return at;
}

static void dims_of(struct lower *w, const struct operand *o, struct lower_place *p)
{
	for (int d = 0; d < o->dims.rank; d++) {
		p->size[d] = size_ix(w, o->dims.d[d]);
		p->lo[d] = size_ix(w, o->layout.lo[d]);
		p->hi[d] = size_ix(w, o->layout.hi[d]);
	}
}

const struct ix *lower_layout(struct lower *w, const struct operand *o, struct lower_place *p,
			      unsigned without, int ring_dim, int64_t held)
{
	struct loops *l = w->l;
	const struct ix *stride = ix_c(l, 1);
	p->base = ix_c(l, 0);
	for (int j = 0; j < (o->layout.n ? o->layout.n : o->dims.rank); j++) {
		int d = o->layout.n ? o->layout.ax[j].dim : j;
		int64_t div = o->layout.n ? o->layout.ax[j].div : 1, mod = 0;
		if (without >> d & 1)
			continue;
		for (int i = 0; i < j && o->layout.n; i++)
			if (o->layout.ax[i].dim == d)
				mod = o->layout.ax[i].div / div;
		const struct ix *all = ix_add(l, p->size[d], ix_add(l, p->lo[d], p->hi[d]));
		all = ix_div(l, ix_add(l, all, ix_c(l, div - 1)), ix_c(l, div));
		if (d == ring_dim && (!ix_is_const(all, &mod) || mod > held))
			mod = held;
		else if (d == ring_dim)
			mod = 0;
		p->ax[p->n].dim = d;
		p->ax[p->n].div = div;
		p->ax[p->n].mod = mod;
		/* one atom for a symbol with halo: products of such sums would have too many terms */
		p->ax[p->n++].extent = mod ? ix_c(l, mod) : ix_atom(l, all);
	}
	for (int j = p->n - 1; j >= 0; j--) {
		int64_t e;
		const struct ix *extent = p->ax[j].extent;
		if (j == p->n - 1 && !p->ax[j].mod && p->ax[j].div == 1 && ix_is_const(extent, &e))
			extent = ix_c(l, tmp_row(o, p->ax[j].dim, e));
		p->ax[j].stride = stride;
		stride = ix_mul(l, stride, extent);
	}
	return stride;
}

/* ---- packed constants ---- */

struct panel {
	struct lower_place *p;
	const struct task *t;
	const struct stage *st;
	const struct sstage *s;
	const struct read *r;
	struct shape src; /* of the constant, in single elements */
	int64_t extent[PACK_MAX];
	struct quads *quads; /* NULL: the constant is not summed by quads */
	struct mmla *mmla;   /* NULL: nor by products of matrices */
	bool full;
};

/* Adds a digit of `axis` with values below `extent`. */
static void digit(struct panel *q, int axis, int64_t div, int64_t mod, int64_t extent)
{
	struct lower_place *p = q->p;
	if (extent == 1)
		return;
	if (p->ndigits == PACK_MAX) {
		q->full = true;
		return;
	}
	q->extent[p->ndigits] = extent;
	p->digit[p->ndigits++] = (struct digit){axis, div, mod, 0};
}

/* The order inside of a vector of channels and two groups: two channels, then the other two, each with both
 * groups. No address has these digits. */
static void block_digits(struct panel *q)
{
	digit(q, q->s->lane, 2, 2, 2);
	digit(q, q->s->lane, 1, 2, 2);
	digit(q, q->mmla->group, 1, MMLA_GROUPS, MMLA_GROUPS);
}

/* Points of a reduction axis that its innermost digit counts as one. */
static int64_t step_of(const struct panel *q, int a)
{
	return a == q->s->lane ? q->s->lanes : q->mmla && a == q->mmla->group ? MMLA_GROUPS : 1;
}

/* Adds the digits in the order of use: tiles of spatial axes, the reduction's loops, points of the tile,
 * lanes. */
static void digits(struct panel *q, unsigned axes)
{
	const struct sstage *s = q->s;
	int ns = stage_spatial(q->st);
	for (int i = 0; i < ns; i++) {
		int a = s->order[i];
		int64_t step = (int64_t)s->tile[a] * (a == s->lane ? s->lanes : 1);
		if (axes >> a & 1)
			digit(q, a, step, 0, ceil_div(q->st->axis[a].extent, step));
	}
	for (int pass = 0; pass < 2; pass++)
		for (int i = ns; i < q->st->naxes; i++) {
			int a = s->order[i];
			int64_t e = q->st->axis[a].extent, b = axis_block(q->t, q->st, a), u = step_of(q, a);
			bool split = b > 1 && e > b && a != s->lane && s->unroll[a] < e;
			if (!(axes >> a & 1) || (q->quads && a == q->quads->tap))
				continue;
			if (split && !pass)
				digit(q, a, b, 0, ceil_div(e, b));
			else if (split && pass)
				digit(q, a, u, b / u, b / u);
			else if (!pass)
				digit(q, a, u, 0, ceil_div(e, u));
		}
	for (int i = 0; i < ns; i++) {
		int a = s->order[i], u = a == s->lane ? s->lanes : 1;
		if (axes >> a & 1)
			digit(q, a, u, s->tile[a], s->tile[a]);
	}
	/* The taps begin `phase` bytes later, so each byte has an earlier tap. */
	if (q->quads) {
		digit(q, q->quads->tap, QUAD, 0, q->quads->n);
		digit(q, q->quads->tap, -1, 0, q->quads->phases);
	}
	if (q->mmla)
		block_digits(q);
	else if (s->lane >= 0 && axes >> s->lane & 1)
		digit(q, s->lane, 1, s->lanes, s->lanes);
}

static int packing_of(struct panel *q)
{
	struct lower_place *p = q->p;
	const struct operand *o = &q->t->operand[q->r->operand];
	struct packing *k = &p->packing;
	int64_t stride = q->quads ? QUAD : 1;
	if (q->full || ((o->group || q->quads) && p->ndigits == PACK_MAX))
		return fail(E_INFEASIBLE, "constant %s: packing needs more than %d loops", o->name, PACK_MAX);
	for (int j = p->ndigits - 1; j >= 0; j--) {
		p->digit[j].stride = stride;
		stride *= q->extent[j];
	}
	*k = (struct packing){.n = p->ndigits, .src = q->src};
	memcpy(k->extent, q->extent, sizeof k->extent);
	for (int d = 0; d < o->dims.rank; d++) {
		k->off[d] = q->r->dim[d].off;
		for (int j = 0; j < p->ndigits; j++) {
			int64_t c = q->r->dim[d].coef[p->digit[j].axis] * p->digit[j].div;
			c *= o->group && d == o->group_dim ? o->group : 1;
			if (c > INT32_MAX || c < -INT32_MAX)
				return fail(E_INFEASIBLE, "constant %s: packing factor too large", o->name);
			k->coef[d][j] = (int32_t)c;
		}
	}
	if (o->group) { /* the bytes of a group */
		k->coef[o->group_dim][k->n] = 1;
		k->extent[k->n++] = o->group;
	}
	if (q->quads) {
		k->coef[q->quads->tap_dim][k->n] = 1;
		k->extent[k->n++] = QUAD;
	}
	return pack_check(k);
}

/* Removes the digits of block_digits() from the address. The digit of the groups counts single ones, half as
 * far apart: addresses are those of whole steps. */
static void address_blocks(struct lower_place *p, const struct mmla *m)
{
	p->ndigits -= 3;
	for (int j = 0; j < p->ndigits; j++)
		if (p->digit[j].axis == m->group && p->digit[j].div == MMLA_GROUPS) {
			p->digit[j].div = 1;
			p->digit[j].mod *= MMLA_GROUPS;
			p->digit[j].stride /= MMLA_GROUPS;
		}
}

static int place_packed(struct lower *w, int operand)
{
	for (int s = 0; s < w->t->nstages; s++)
		for (int i = 0; i < w->t->stage[s].nreads; i++) {
			const struct stage *st = &w->t->stage[s];
			if (st->read[i].operand != operand)
				continue;
			if (w->s.st[s].wino.m && winograd_packs(w, i))
				return winograd_packing(w, &w->at[operand]);
			struct quads quads;
			struct mmla mmla;
			struct panel q = {.p = &w->at[operand],
					  .t = w->t,
					  .st = st,
					  .s = &w->s.st[s],
					  .r = &st->read[i],
					  .src = w->whole->operand[operand].dims};
			if (q.s->quads && stage_quads(w->t, st, q.s, &quads) >= 0 && quads.weights == i)
				q.quads = &quads;
			if (q.s->mmla && stage_mmla(w->t, st, q.s, &mmla) >= 0 && mmla.weights == i)
				q.mmla = &mmla;
			digits(&q, read_axes(w->t, st, q.r));
			w->at[operand].packed = true;
			int rc = packing_of(&q);
			if (rc >= 0 && q.mmla)
				address_blocks(&w->at[operand], &mmla);
			return rc;
		}
	return E_OK;
}

/* The stage whose schedule may store the constant in another way; NULL: none. */
static const struct sstage *stores(const struct lower *w, int operand)
{
	for (int s = 0; s < w->t->nstages; s++)
		if (stage_stored(w->t, &w->t->stage[s], &w->s.st[s]) == operand)
			return &w->s.st[s];
	return NULL;
}

/* Elements before a tmp's first row, so that column 0, and not the halo before it, begins a vector. Each row
 * then ends in the halo of the next row. */
static int64_t row_lead(const struct operand *o, const struct lower_place *p)
{
	int last = p->n - 1, d = p->n ? p->ax[last].dim : 0;
	int64_t e;
	if (!p->n || p->ax[last].mod || p->ax[last].div > 1 || !ix_is_const(p->ax[last].extent, &e) ||
	    tmp_row(o, d, e) % TMP_ROW)
		return 0;
	return (TMP_ROW - o->layout.lo[d] % TMP_ROW) % TMP_ROW;
}

/* f16, bf16 and bytes lie two or four in the place of a float, and addresses count them. */
static void place_tmp(struct lower *w, int operand)
{
	const struct operand *o = &w->t->operand[operand];
	struct lower_place *p = &w->at[operand];
	struct loops *l = w->l;
	int64_t per = (int64_t)(sizeof(float) / dtype_bytes(o->dtype));
	p->buf = w->scratch_buf;
	const struct ix *n = chain_tmp(w, operand), *lead = ix_c(l, row_lead(o, p));
	n = ix_div(l, ix_add(l, ix_add(l, n, lead), ix_c(l, per - 1)), ix_c(l, per));
	p->base = ix_add(l, ix_mul(l, lower_scratch(w, n), ix_c(l, per)), lead);
}

static int place_operands(struct lower *w)
{
	static const enum buf_role role[] = {
	    [ROLE_IN] = BUF_IN, [ROLE_OUT] = BUF_OUT, [ROLE_CONST] = BUF_CONST};
	int nbufs = 0, rc = E_OK;
	for (int i = 0; i < w->t->noperands; i++)
		nbufs += w->t->operand[i].role != ROLE_TMP;
	w->scratch_buf = nbufs;
	for (int i = 0; i < w->t->noperands; i++) {
		const struct operand *o = &w->t->operand[i];
		const struct sstage *s = NULL;
		struct lower_place *p = &w->at[i];
		dims_of(w, o, p);
		if (o->role == ROLE_TMP) {
			place_tmp(w, i);
			continue;
		}
		const struct ix *elems = lower_layout(w, o, p, 0, -1, 0);
		if (o->group)
			elems = ix_mul(w->l, elems, ix_c(w->l, o->group));
		elems = ix_add(w->l, elems, ix_c(w->l, o->past));
		if (operand_packs(w->t, i)) {
			if ((rc = place_packed(w, i)) < 0)
				return rc;
			elems = ix_c(w->l, pack_elems(&p->packing));
			bool pairs = o->group && o->dtype == DT_F32;
			s = stores(w, i);
			p->packing.f16 = (s && s->w16) || (pairs && w->t->pairs == DT_F16);
			p->packing.bf16 = pairs && w->t->pairs == DT_BF16;
		}
		p->buf = loops_buf(w->l, o->name, role[o->role], pack_type(&p->packing, o->dtype), elems);
		w->l->buf[p->buf].texture = s && s->texture;
		if (o->dtype == DT_I32)
			loops_table_range(w->l, p->buf, INT32_MIN, INT32_MAX);
	}
	return rc;
}

/* ---- stages ---- */

static void describe_reads(struct nest *k)
{
	const struct task *t = k->w->t;
	int lane = k->s->lane;
	int64_t extent = lane < 0 ? 0 : k->st->axis[lane].extent;
	for (int i = 0; i <= k->st->nreads; i++) {
		const struct read *r = i < k->st->nreads ? &k->st->read[i] : &k->st->out;
		bool pads = true;
		if (i < k->st->nreads)
			k->cross[i] = read_crosses(t, k->st, r, k->s);
		k->axes[i] = read_axes(t, k->st, r);
		if (lane < 0 || !(k->axes[i] >> lane & 1))
			continue;
		if (k->w->at[r->operand].packed) {
			k->stride[i] = 1;
			continue;
		}
		if (read_stride(t, k->st, r, lane, k->s->lanes, &k->stride[i], &pads) < 0)
			k->w->l->failed = true;
		k->masks[i] = !pads || lane >= k->ns;
		if (i == k->st->nreads) /* the output is written in part: lanes past the axis belong to
					 * other elements */
			for (int d = 0; d < t->operand[r->operand].dims.rank; d++)
				k->masks[i] |= r->dim[d].coef[lane] &&
					       r->dim[d].off + extent != t->operand[r->operand].dims.d[d] &&
					       !(r->dim[d].off == 0 && IS_SYM(extent) &&
						 extent == t->operand[r->operand].dims.d[d]);
		k->ragged |= k->masks[i] && (IS_SYM(extent) || extent % k->s->lanes);
	}
	/* Lanes past a reduction's end would count even if no load is along the lanes. */
	if (lane >= k->ns && (IS_SYM(extent) || extent % k->s->lanes) && !lower_zero_safe(k))
		k->ragged = true;
}

static void describe_guards(struct nest *k)
{
	k->versioned = true;
	for (int i = 0; i < k->st->nreads; i++) {
		const struct read *r = &k->st->read[i];
		for (int d = 0; d < k->w->t->operand[r->operand].dims.rank; d++) {
			if (k->w->at[r->operand].packed || !index_guarded(k->w->t, k->st, r, d))
				continue;
			k->guarded = true;
			k->versioned &= r->dim[d].table < 0 && r->dim[d].mod <= 1;
		}
	}
	k->versioned &= k->guarded;
}

/* Takes "rint Z add" off the end of an exact stage's program, whose result is rounded when it is stored:
 * clamping before rounding, between bounds that are Z lower, gives the same bytes. */
static void describe_zero(struct nest *k, struct prog *p)
{
	int n = p->n;
	if (!k->exact)
		return;
	bool adds = n >= 4 && p->at[n - 1].op == P_ADD && p->at[n - 2].op == P_IMM &&
		    p->at[n - 3].op == P_RINT && rintf(p->at[n - 2].imm) == p->at[n - 2].imm &&
		    fabsf(p->at[n - 2].imm) <= 1 << 20;
	if (adds) {
		k->zero = p->at[n - 2].imm;
		p->n -= 3;
	} else if (n >= 2 && p->at[n - 1].op == P_RINT) {
		p->n--;
	}
}

static bool keeps_bytes(const struct nest *k)
{
	const struct stage *st = k->st;
	bool most = st->comb == COMB_MAX && k->s->lane < k->ns && k->turn < 0;
	if (!k->exact || (st->comb != COMB_NONE && !most) || k->post.n || k->zero != 0 || k->body.n != 1 ||
	    k->body.at[0].op != P_READ)
		return false;
	const struct operand *from = &k->w->t->operand[st->read[k->body.at[0].arg].operand],
			     *to = &k->w->t->operand[st->out.operand];
	return from->dtype == to->dtype && dtype_is_byte(from->dtype) && !from->group;
}

static void describe_post(struct nest *k)
{
	k->body = k->st->body;
	k->bias = stage_bias(k->w->t, k->st, k->s);
	for (int i = 0; i < k->st->post.n; i++) {
		k->post.at[k->post.n++] = k->st->post.at[i];
		if (k->bias >= 0 && k->st->post.at[i].op == P_ACC)
			i += 2;
	}
	if (k->st->post.n || k->st->comb == COMB_NONE)
		describe_zero(k, k->st->post.n ? &k->post : &k->body);
	if (k->post.n == 1 && k->post.at[0].op == P_ACC)
		k->post.n = 0;
	k->keeps_bytes = keeps_bytes(k);
}

/* Elements between neighbouring lanes of the output. */
static int lane_stride(const struct nest *k)
{
	int64_t stride = 0;
	bool pads;
	int rc = read_stride(k->w->t, k->st, &k->st->out, k->s->lane, k->s->lanes, &stride, &pads);
	return rc < 0 ? 0 : (int)stride;
}

struct nest *nest_new(struct lower *w, int stage, const struct sstage *s)
{
	struct nest *k = ARENA_NEW(w->l->arena, struct nest);
	k->w = w;
	k->st = &w->t->stage[stage];
	k->s = s;
	k->ns = stage_spatial(k->st);
	k->known = ARENA_ARRAY(w->l->arena, struct known, KNOWN_MAX);
	k->chunk = -1;
	for (int a = 0; a < MAX_AXES; a++)
		k->n[a] = 1;
	for (int a = 0; a < k->st->naxes; a++)
		k->extent[a] = size_ix(w, k->st->axis[a].extent);
	k->sum = k->s->quads ? SUM_DOT : stage_sum(w->t, k->st);
	k->exact = stage_exact(w->t, k->st);
	k->gives_s32 = w->t->operand[k->st->out.operand].dtype == DT_I32;
	k->weave = store_weaves(w->t, k->st, k->s);
	k->woven = k->weave < 0 ? 0 : lane_stride(k);
	k->turn = store_turns(w->t, k->st, k->s);
	describe_reads(k);
	describe_guards(k);
	describe_post(k);
	k->next_rows = stage == 1 && w->ring.rows && w->s.st[0].prefetch ? ring_copy(w->t) : -1;
	if ((k->s->prefetch && !w->ring.rows && stage_ahead(w->t, k->st, k->s, &k->ahead) < 0) ||
	    (k->s->feed && stage_feed(w->t, k->st, k->s, &k->feed) < 0) ||
	    (k->s->quads && stage_quads(w->t, k->st, k->s, &k->quads) < 0) ||
	    (k->s->mmla && stage_mmla(w->t, k->st, k->s, &k->mmla) < 0))
		w->l->failed = true;
	return k;
}

void lower_ones(struct lower *w)
{
	int v = lv_new(w->l, target_most_lanes(w->tg));
	lv_const(w->l, v, 1);
	lv_store(w->l, v, (struct mem){.buf = w->scratch_buf, .at = w->ones, .stride = 1});
}

/* Elements of a stage's register tile. */
static int64_t tile_elems(const struct nest *k)
{
	int64_t n = k->s->lanes;
	for (int a = 0; a < k->ns; a++)
		n *= k->s->tile[a];
	return n;
}

static void stages(struct lower *w)
{
	struct nest *k[MAX_STAGES];
	if (w->frags)
		frag_lanes(w);
	for (int s = 0; s < w->t->nstages; s++) {
		k[s] = nest_new(w, s, &w->s.st[s]);
		if (k[s]->s->spread) /* sums lie as the second entry reads them, and need no scratch of an
				      * index */
			k[s]->turn = k[s]->weave = -1;
		if (k[s]->sum == SUM_HALF && half_keeps_sums(k[s]->st))
			k[s]->sums_at = lower_scratch(w, ix_c(w->l, tile_elems(k[s])));
		if (k[s]->turn >= 0)
			k[s]->turn_at =
			    lower_scratch(w, ix_c(w->l, (int64_t)k[s]->s->tile[k[s]->turn] *
							    k[s]->s->tile[k[s]->s->lane] * k[s]->s->lanes));
		if (k[s]->s->lane >= k[s]->ns && k[s]->ragged && !lower_zero_safe(k[s]) && !w->ones)
			w->ones = lower_scratch(w, ix_c(w->l, target_most_lanes(w->tg)));
	}
	bool fused = winograd_is_fused(&w->s.st[0]);
	if (w->s.st[0].wino.m && !fused)
		winograd_scratch(w);
	if (w->s.st[0].spread)
		spread_scratch(w);
	int64_t none;
	bool crew = w->t->nstages > 1 && stage_threads(&w->t->stage[0], &w->s.st[0]) > 1;
	if (!ix_is_const(w->scratch, &none) || none)
		w->scratch_buf = loops_buf(w->l, crew ? "tmp" : "scratch", crew ? BUF_SHARED : BUF_SCRATCH,
					   w->frags ? w->frags->sums : DT_F32, w->scratch);
	if (w->s.st[0].spread || (w->s.st[0].wino.m && !fused && target_runs_items(w->tg)))
		w->l->buf[w->scratch_buf].common = true;
	if (w->frags)
		frag_stage(k[0]);
	else if (w->t->nstages > 1)
		chain_stages(w, k);
	else if (w->s.st[0].wino.m)
		winograd_stage(k[0]);
	else
		nest_stage(k[0]);
	if (w->s.st[0].spread)
		nest_stage(spread_sums(k[0]));
}

/* Finds the symbols that are sizes. Other symbols are offsets and factors, which may be negative. */
static void size_symbols(const struct task *t, bool *size)
{
	for (int s = 0; s < t->nstages; s++)
		for (int a = 0; a < t->stage[s].naxes; a++)
			if (IS_SYM(t->stage[s].axis[a].extent))
				size[SYM_INDEX(t->stage[s].axis[a].extent)] = true;
	for (int i = 0; i < t->noperands; i++)
		for (int d = 0; d < t->operand[i].dims.rank; d++) {
			const struct operand *o = &t->operand[i];
			const int64_t v[] = {o->dims.d[d], o->layout.lo[d], o->layout.hi[d]};
			for (int j = 0; j < 3; j++)
				if (IS_SYM(v[j]))
					size[SYM_INDEX(v[j])] = true;
		}
}

static void make_params(struct lower *w, struct manifest *m)
{
	char name[12];
	bool size[MAX_SYMS] = {0};
	size_symbols(w->t, size);
	for (int i = 0; i < w->t->nsyms; i++) {
		snprintf(name, sizeof name, "s%d", i);
		loops_param(w->l, name, size[i] ? 0 : -INT32_MAX, INT32_MAX);
	}
	for (int a = 0; a < MAX_AXES; a++)
		w->block_param[a] = -1;
	int last = w->t->nstages - 1;
	for (int a = 0; a < w->t->stage[last].naxes; a++) {
		if (!w->s.st[last].outer[a] && w->s.st[last].ring_axis != a)
			continue;
		int64_t b = w->s.st[last].block[a];
		snprintf(name, sizeof name, "b_%s", w->t->stage[last].axis[a].name);
		w->block_param[a] = loops_param(w->l, name, 1, 1 << 30);
		m->param[w->block_param[a]] = b ? b : 1 << 30;
	}
	m->nparams = w->l->nparams;
	m->nsyms = w->t->nsyms;
}

/* ---- manifest ---- */

static void postfix(const struct ix *x, struct buf *out)
{
	static const char *const name[] = {[IX_ADD] = "+", [IX_MUL] = "*",   [IX_DIV] = "/",
					   [IX_MOD] = "%", [IX_MIN] = "min", [IX_MAX] = "max"};
	if (out->n && out->p[out->n - 1] != ' ')
		buf_puts(out, " ");
	if (x->op == IX_CONST) {
		buf_printf(out, "%lld", (long long)x->c);
	} else if (x->op == IX_PARAM) {
		buf_printf(out, "p%d", x->id);
	} else if (x->op <= IX_MAX && name[x->op]) {
		postfix(x->a, out);
		postfix(x->b, out);
		buf_printf(out, " %s", name[x->op]);
	} else {
		out->failed = true;
	}
}

static int put_entries(const struct loops *l, struct manifest *m)
{
	m->nentries = l->nentries;
	for (int e = 0; e < l->nentries; e++) {
		struct buf text = {0};
		memcpy(m->entry[e], l->entry[e].name, sizeof m->entry[e]);
		postfix(l->entry[e].extent, &text);
		bool good = buf_ok(&text) && text.n < sizeof m->extent_expr[e];
		if (good)
			memcpy(m->extent_expr[e], text.p, text.n + 1);
		buf_free(&text);
		if (!good)
			return fail(E_INFEASIBLE, "parallel extent is too long an expression");
	}
	return E_OK;
}

static bool aliases(const struct lower *w, int i)
{
	const struct stage *st = &w->t->stage[0];
	bool twice = st->comb != COMB_NONE && stage_long_post(st); /* its sums are stored twice */
	return task_overwrites(w->t, i) && w->s.st[0].split_axis < 0 && !w->s.st[0].wino.m && !twice;
}

static int put_bufs(const struct lower *w, struct manifest *m)
{
	const struct task *t = w->t;
	m->alias_in = m->alias_out = -1;
	for (int i = 0; i < t->noperands; i++) {
		const struct lower_place *p = &w->at[i];
		if (t->operand[i].role == ROLE_TMP)
			continue;
		struct code_buf *b = &m->buf[m->nbufs++];
		memcpy(b->name, t->operand[i].name, sizeof b->name);
		b->role = w->l->buf[p->buf].role;
		b->operand = i;
		b->packed = p->packed;
		b->packing = p->packing;
		b->texture = w->l->buf[p->buf].texture;
		if (!ix_is_const(w->l->buf[p->buf].elems, &b->elems))
			b->elems = 0;
		int out = t->stage[t->nstages - 1].out.operand;
		if (m->alias_in < 0 && aliases(w, i)) {
			m->alias_in = p->buf;
			m->alias_out = w->at[out].buf;
		}
	}
	if (loops_arguments(w->l) == m->nbufs)
		return E_OK;
	struct code_buf *b = &m->buf[m->nbufs++];
	*b = (struct code_buf){.name = "scratch", .role = BUF_SCRATCH, .operand = -1};
	if (!ix_is_const(w->scratch, &b->elems))
		return fail(E_INFEASIBLE, "scratch of a chain with symbolic sizes");
	m->scratch_bytes = b->elems * (int64_t)sizeof(float);
	m->shares_scratch = w->l->buf[w->scratch_buf].common;
	return E_OK;
}

int lower(const struct task *t, const char *cand, const struct target *tg, struct arena *a,
	  struct loops **out, struct manifest *m)
{
	struct lower *w = ARENA_NEW(a, struct lower);
	w->l = ARENA_NEW(a, struct loops);
	w->whole = t;
	w->t = t = task_view(a, t, cand);
	w->tg = tg;
	memset(m, 0, sizeof *m);
	int rc = sched_parse(t, cand, &w->s);
	if (rc < 0 || (rc = sched_check(t, tg, &w->s)) < 0)
		return rc;
	if (w->s.st[0].wino.m)
		winograd_whole(t, &w->s.st[0]);
	if (sched_frags(t, &w->s) && (rc = frag_view(w, a)) < 0)
		return rc;
	t = w->t;
	const struct sstage *end = &w->s.st[t->nstages - 1];
	w->shared = sched_shared(t, end->ring_axis);
	if (end->ring_axis >= 0 && (rc = task_ring(t, end->ring_axis, end->ring, &w->ring)) < 0)
		return rc;
	loops_init(w->l, a, tg->fma);
	w->l->f16 = target_sums_f16(tg);
	w->l->blocks = target_multiplies_blocks(tg);
	w->l->narrow = target_loads_matrices(tg);
	make_params(w, m);
	w->scratch = ix_c(w->l, 0);
	if ((rc = place_operands(w)) < 0)
		return rc;
	stages(w);
	if (w->l->failed)
		return fail(E_INFEASIBLE, "schedule needs too large a loop nest");
	if ((rc = loops_check_textures(w->l)) < 0)
		return rc;
	memcpy(m->isa, tg->isa, sizeof m->isa);
	target_extras(tg, m->features);
	m->lanes = tg->lanes;
	m->winograd = w->s.st[0].wino.m;
	m->sums = DT_NONE;
	if ((rc = put_entries(w->l, m)) < 0 || (rc = put_bufs(w, m)) < 0)
		return rc;
	m->sums = code_pairs(m) ? DT_NONE : t->pairs; /* constants of bf16 say it themselves */
	*out = w->l;
	/* The compiler of machine code checks each nest that it gets; builds with a sanitizer check them all.
	 */
	assert(!SANITIZED_ADDRESS || loops_check(w->l) >= 0);
	return E_OK;
}
