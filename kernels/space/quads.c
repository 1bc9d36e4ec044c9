/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/quads.h"

/* Whether the index is a sum of axes, without division or table. */
static bool direct(const struct index *x)
{
	return x->div <= 1 && x->mod <= 1 && x->table < 0;
}

/* The only dim of a read that the axis indexes; -1: none, or more. */
static int dim_of(const struct task *t, const struct read *r, int axis)
{
	int found = -1;
	for (int d = 0; d < t->operand[r->operand].dims.rank; d++)
		if (r->dim[d].coef[axis]) {
			if (found >= 0)
				return -1;
			found = d;
		}
	return found;
}

/* Whether the innermost block of the read operand has `lanes` elements of dim c, around which those of dim x
 * lie, and every vector along `lane` has one block. */
static bool rows_of_blocks(const struct task *t, const struct stage *st, const struct read *r, int c, int x,
			   const struct sstage *s)
{
	struct phys_axis ax[MAX_SPLITS];
	const struct operand *o = &t->operand[r->operand];
	const struct index *i = &r->dim[c];
	int n = operand_axes(o, ax);
	if (n < 2 || ax[n - 1].dim != c || ax[n - 1].extent != s->lanes || ax[n - 2].dim != x ||
	    ax[n - 2].mod || ax[n - 2].div != 1 || o->layout.lo[c] || o->layout.hi[c] ||
	    i->coef[s->lane] != 1 || !direct(i) || i->off % s->lanes)
		return false;
	for (int a = 0; a < st->naxes; a++)
		if (a != s->lane && i->coef[a] % s->lanes)
			return false;
	return true;
}

/* Finds the image and the weights. One of them is signed: so are the second operands of dot products. */
static bool find_reads(const struct task *t, const struct stage *st, struct quads *q)
{
	if (t->nsyms || !stage_whole(t, st) || st->body.n != 3)
		return false;
	for (int i = 0; i < 2; i++) {
		q->image = st->body.at[i].arg;
		q->weights = st->body.at[1 - i].arg;
		const struct operand *x = &t->operand[st->read[q->image].operand],
				     *w = &t->operand[st->read[q->weights].operand];
		if (x->role != ROLE_CONST && !x->group && operand_packs(t, st->read[q->weights].operand) &&
		    (x->dtype == DT_I8 || w->dtype == DT_I8))
			return true;
	}
	return false;
}

/* Whether the taps along axis a lie in rows of dim x of the image, and are all that the weights' dim has. */
static bool taps_of(const struct task *t, const struct stage *st, int a, struct quads *q, int x)
{
	const struct read *image = &st->read[q->image], *weights = &st->read[q->weights];
	int d = dim_of(t, weights, a);
	if (dim_of(t, image, a) != x || image->dim[x].coef[a] != 1 || !direct(&image->dim[x]) || d < 0 ||
	    index_axis(st, &weights->dim[d]) != a || weights->dim[d].coef[a] != 1 || weights->dim[d].off ||
	    st->axis[a].extent != t->operand[weights->operand].dims.d[d] || st->axis[a].extent < 2 ||
	    st->axis[a].extent > QUADS_TAPS)
		return false;
	q->tap = a;
	q->tap_dim = d;
	q->taps = (int)st->axis[a].extent;
	q->n = (q->taps + QUAD - 1) / QUAD;
	q->phases = QUAD * q->n - q->taps + 1;
	return true;
}

/* Whether a tmp lacks the dim, because stages share the axis that indexes it. */
static bool left_out(const struct task *t, const struct read *r, int d)
{
	bool shared = false;
	for (int a = 0; a < task_shared(t); a++)
		shared |= r->dim[d].coef[a] != 0;
	return shared && t->operand[r->operand].role == ROLE_TMP;
}

static bool find_row(const struct task *t, const struct stage *st, const struct sstage *s, struct quads *q)
{
	const struct read *image = &st->read[q->image];
	int c = dim_of(t, image, s->lane);
	if (c < 0 || !(read_axes(t, st, &st->read[q->weights]) >> s->lane & 1))
		return false;
	for (int a = stage_spatial(st); a < st->naxes; a++) {
		int x = dim_of(t, image, a);
		if (x >= 0 && x != c && !left_out(t, image, x) && !left_out(t, image, c) &&
		    rows_of_blocks(t, st, image, c, x, s) && taps_of(t, st, a, q, x))
			return true;
	}
	return false;
}

/* Sets the axis along a row that the tile spans. Other points' windows lie in other rows. */
static int find_pixel(const struct task *t, const struct stage *st, const struct sstage *s, struct quads *q)
{
	const struct read *image = &st->read[q->image];
	int x = dim_of(t, image, q->tap);
	q->pixel = -1;
	q->stride = 1;
	for (int a = 0; a < st->naxes; a++) {
		int64_t c = image->dim[x].coef[a];
		if (!c || a == q->tap)
			continue;
		bool wide = a < stage_spatial(st) ? s->tile[a] > 1 : s->unroll[a] > 1;
		if (a < stage_spatial(st) && dim_of(t, image, a) == x && c > 0 && (q->pixel < 0 || wide)) {
			if (wide && q->pixel >= 0 && s->tile[q->pixel] > 1)
				return fail(E_INFEASIBLE, "quads: two axes along rows");
			q->pixel = a;
			q->stride = c;
		} else if (wide) {
			return fail(E_INFEASIBLE, "quads: %s is no plain axis", st->axis[a].name);
		}
	}
	return E_OK;
}

int stage_quads(const struct task *t, const struct stage *st, const struct sstage *s, struct quads *q)
{
	if (s->lane < 0 || s->lane >= stage_spatial(st) || s->wino.m || s->chains > 1 ||
	    !find_reads(t, st, q) || !find_row(t, st, s, q))
		return fail(E_INFEASIBLE, "quads: no block of channels in the lanes");
	if (s->unroll[q->tap] != q->taps)
		return fail(E_INFEASIBLE, "quads: the taps of a row are not all in the body");
	for (int d = 0; d < t->operand[st->read[q->image].operand].dims.rank; d++)
		if (index_guarded(t, st, &st->read[q->image], d))
			return fail(E_INFEASIBLE, "quads: reads of %s need guards",
				    t->operand[st->read[q->image].operand].name);
	return find_pixel(t, st, s, q);
}

bool quads_store(const struct task *t, const struct stage *st, const struct sstage *s, const struct quads *q)
{
	int c = dim_of(t, &st->out, s->lane), x = q->pixel < 0 ? -1 : dim_of(t, &st->out, q->pixel);
	return dtype_is_byte(t->operand[st->out.operand].dtype) && c >= 0 && x >= 0 && x != c &&
	       !left_out(t, &st->out, c) && !left_out(t, &st->out, x) && st->out.dim[x].coef[q->pixel] == 1 &&
	       direct(&st->out.dim[x]) && rows_of_blocks(t, st, &st->out, c, x, s);
}

int64_t quads_chain(const struct quads *q, int64_t first, int64_t before, int64_t pixels)
{
	int64_t at = before >= 0 && first - before < q->phases ? before : first, most = pixels - QUAD * q->n;
	return at > most && most >= 0 ? most : at > 0 && most < 0 ? 0 : at;
}

void quads_settle(const struct task *t, const struct stage *st, struct sstage *s)
{
	struct quads q;
	if (!s->quads)
		return;
	s->quads =
	    s->lane >= 0 && s->lane < stage_spatial(st) && find_reads(t, st, &q) && find_row(t, st, s, &q);
	if (!s->quads)
		return;
	s->unroll[q.tap] = q.taps;
	s->chains = 1;
	s->prefetch = 0;
	s->feed = false;
	s->quads = stage_quads(t, st, s, &q) >= 0;
}

double quads_products(const struct task *t, const struct stage *st, int lane, int lanes)
{
	struct quads q;
	struct sched one;
	sched_init(t, &one);
	struct sstage s = one.st[0];
	s.lane = lane;
	s.lanes = lanes;
	s.quads = true;
	quads_settle(t, st, &s);
	return s.quads && stage_quads(t, st, &s, &q) >= 0 ? (double)q.taps / q.n : 0;
}
