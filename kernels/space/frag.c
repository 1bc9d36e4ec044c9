/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/frag.h"
#include "kernels/task/fragment.h"

#include <string.h>

enum { PAIR = 2, VECTOR = 4, BYTES = 16, ADDRESSES = 32, FILE_REGISTERS = 64 << 10 /* of a unit */ };

static const struct frags *frags_of(const struct task *t, const struct sched *s)
{
	return &s->st[t->nstages - 1].frags;
}

bool sched_frags(const struct task *t, const struct sched *s)
{
	for (int i = 0; i < t->nstages; i++) {
		const struct frags *f = &s->st[i].frags;
		if (f->rows || f->cols || f->warp_rows || f->warp_cols || f->depth || f->ring)
			return true;
	}
	return false;
}

/* Whether the first stage only copies an input, of floats, for the last one. */
static bool copies(const struct task *t, struct frag_plan *p)
{
	if (t->nstages != 2 || t->stage[0].comb != COMB_NONE || t->stage[0].nreads != 1)
		return false;
	int to = t->stage[0].out.operand;
	p->from = t->stage[0].read[0].operand;
	p->image = stage_image(t, &t->stage[1]);
	return p->image >= 0 && t->stage[1].read[p->image].operand == to && to == t->noperands - 1 &&
	       t->operand[p->from].role == ROLE_IN && t->operand[p->from].dtype == DT_F32 &&
	       t->operand[t->stage[1].out.operand].dtype == DT_F32;
}

/* Finds the factor of a sum of products of bytes that is an input. task_groups() made one with a constant. */
static bool sums_bytes(const struct task *t, struct frag_plan *p)
{
	const struct stage *st = &t->stage[0];
	if (t->nstages != 1 || stage_sum(t, st) != SUM_DOT)
		return false;
	p->image =
	    operand_packs(t, st->read[st->body.at[0].arg].operand) ? st->body.at[1].arg : st->body.at[0].arg;
	p->from = st->read[p->image].operand;
	return t->operand[p->from].role == ROLE_IN;
}

/* Finds the image and the types. */
static bool factors(const struct task *t, struct frag_plan *p)
{
	const struct stage *st = &t->stage[t->nstages - 1];
	if (!(t->pairs ? copies : sums_bytes)(t, p))
		return false;
	p->weights = st->body.at[st->body.at[0].arg == p->image].arg;
	p->group = t->operand[st->read[p->weights].operand].group;
	p->type[0] = t->pairs ? t->pairs : t->operand[p->from].dtype;
	p->type[1] = t->pairs ? t->pairs : t->operand[st->read[p->weights].operand].dtype;
	p->sums = t->pairs ? DT_F32 : DT_I32;
	return true;
}

/* The dim of the image along which the products of a point are neighbours. */
static int paired_dim(const struct task *t, const struct stage *st, const struct frag_plan *p)
{
	for (int d = 0; d < t->operand[p->from].dims.rank; d++)
		if (st->read[p->image].dim[d].coef[p->k_axis])
			return d;
	return -1;
}

/* Whether n neighbours along the dim, or as many groups, lie side by side in memory, from a multiple on. */
static bool side_by_side(const struct stage *st, const struct operand *o, const struct index *x, int d,
			 int k_axis, int n)
{
	const struct layout *l = &o->layout;
	int last = l->n - 1;
	bool good = o->dims.d[d] % n == 0 && !l->lo[d] && !l->hi[d] && x->off % n == 0 && x->div <= 1 &&
		    x->mod <= 1 && x->table < 0;
	for (int a = 0; a < st->naxes; a++)
		good &= a == k_axis || x->coef[a] % n == 0;
	if (last < 0)
		return good && d == o->dims.rank - 1;
	if (n == 1) /* of groups: they are not apart */
		return good;
	good &= l->ax[last].dim == d && l->ax[last].div == 1;
	for (int j = 0; j < last; j++)
		good &= l->ax[j].dim != d || l->ax[j].div % n == 0;
	return good;
}

/* Finds how the threads move the image. E_INFEASIBLE: its channels do not lie side by side. */
static int moving(const struct task *t, const struct stage *st, struct frag_plan *p)
{
	const struct operand *o = &t->operand[p->from];
	const struct read *r = &st->read[p->image];
	int d = paired_dim(t, st, p), per = o->group ? o->group : 1;
	int64_t block = axis_block(t, st, p->k_axis);
	if (d < 0 || !side_by_side(st, o, &r->dim[d], d, p->k_axis, VECTOR / per) ||
	    (block > 1 && block % VECTOR))
		return fail(E_INFEASIBLE, "fragments: the image's channels are not side by side in fours");
	bool bytes = p->sums == DT_I32;
	p->wide = bytes && side_by_side(st, o, &r->dim[d], d, p->k_axis, BYTES / per) ? BYTES : VECTOR;
	p->moves = bytes;
	for (int i = 0; i < o->dims.rank && bytes; i++)
		p->moves &= o->fill == 0 || !index_guarded(t, st, r, i);
	return E_OK;
}

/* Finds the axes of columns and of k, and the number of rows and columns. */
static bool axes(const struct task *t, const struct stage *st, struct frag_plan *p)
{
	unsigned image = read_axes(t, st, &st->read[p->image]),
		 weights = read_axes(t, st, &st->read[p->weights]);
	int ns = stage_spatial(st);
	int64_t taps = 1;
	p->col_axis = p->k_axis = -1;
	p->rows = 1;
	for (int a = 0; a < st->naxes; a++) { /* no product overflows */
		if (st->axis[a].extent > INT32_MAX)
			return false;
		taps *= a < ns ? 1 : st->axis[a].extent;
		if (taps > INT32_MAX)
			return false;
	}
	for (int a = 0; a < ns; a++) {
		bool col = weights >> a & 1;
		if (col && image >> a & 1 && st->axis[a].extent == 1) /* one group of channels */
			continue;
		if (col && (image >> a & 1 || p->col_axis >= 0))
			return false;
		if (col)
			p->col_axis = a;
		else
			p->rows *= st->axis[a].extent;
		if (p->rows > INT32_MAX)
			return false;
	}
	const struct operand *w = &t->operand[st->read[p->weights].operand];
	for (int a = ns; a < st->naxes && p->group; a++)
		if (st->read[p->weights].dim[w->group_dim].coef[a])
			p->k_axis = p->k_axis < 0 ? a : st->naxes;
	if (p->col_axis < 0 || p->k_axis < 0 || p->k_axis == st->naxes)
		return false;
	p->cols = st->axis[p->col_axis].extent;
	return true;
}

static int64_t shared_bytes(const struct frags *f, const struct frag_plan *p)
{
	return (p->tile_rows + p->tile_cols) * p->pitch * (int64_t)dtype_bytes(p->type[0]) * p->ring +
	       FRAG_SIZE * f->warp_rows * p->sum_pitch * 4;
}

/* Registers of a thread: sums, the fragments of a row of products, what is loaded ahead, addresses. */
static int registers(const struct frags *f, const struct frag_plan *p)
{
	int waiting = f->ring && !p->moves ? p->wide * (p->sums == DT_I32 ? 1 : 4) / 4 * p->copies : 0;
	return FRAG_LANES * (f->rows * f->cols + f->cols + 1) + waiting + ADDRESSES;
}

static int tiles(const struct target *tg, const struct frags *f, struct frag_plan *p, int64_t channels,
		 int64_t taps)
{
	if (f->rows < 1 || f->cols < 1 || f->warp_rows < 1 || f->warp_cols < 1 || f->depth < 1 ||
	    f->rows * f->cols > FRAG_SUMS || f->warp_rows * f->warp_cols > FRAG_WARPS)
		return fail(E_INFEASIBLE, "fragments: not 1 to %d of each of 1 to %d warps", (int)FRAG_SUMS,
			    (int)FRAG_WARPS);
	p->threads = WARP * f->warp_rows * f->warp_cols;
	p->tile_rows = FRAG_SIZE * f->rows * f->warp_rows;
	p->tile_cols = FRAG_SIZE * f->cols * f->warp_cols;
	p->k = FRAG_SIZE * f->depth;
	p->pitch = frag_pitch(p->type[0], target_loads_matrices(tg), p->k);
	p->sum_pitch = p->tile_cols + frag_step(DT_F32, false);
	p->steps = channels / p->k * taps;
	p->ring = f->ring ? f->ring : 1;
	p->copies = (int)ceil_div(p->tile_rows * p->k / p->wide, p->threads);
	if (channels % p->k)
		return fail(E_INFEASIBLE, "fragments: %lld products in steps of %lld", (long long)channels,
			    (long long)p->k);
	if (f->ring &&
	    (f->ring < 2 || f->ring > SCHED_BOXES || f->ring > p->steps || p->copies > FRAG_COPIES))
		return fail(E_INFEASIBLE, "fragments: a ring of %d steps, of %lld with %d copies each",
			    f->ring, (long long)p->steps, p->copies);
	if (registers(f, p) * p->threads > FILE_REGISTERS)
		return fail(E_INFEASIBLE, "fragments: %d threads with %d registers each", p->threads,
			    registers(f, p));
	if (p->threads > tg->group || shared_bytes(f, p) > FRAG_SHARED)
		return fail(E_INFEASIBLE, "fragments: a block of %d threads and %lld bytes of shared buffers",
			    p->threads, (long long)shared_bytes(f, p));
	return p->tile_rows >= 2 * p->rows + FRAG_SIZE || p->tile_cols >= 2 * p->cols + FRAG_SIZE
		   ? fail(E_INFEASIBLE, "fragments: most of a tile is outside")
		   : E_OK;
}

/* Whether the schedule says nothing else. */
static bool alone(const struct task *t, const struct sched *s)
{
	struct sched bare;
	char all[CAND_MAX], own[CAND_MAX];
	sched_init(t, &bare);
	bare.st[t->nstages - 1].frags = *frags_of(t, s);
	return sched_text(t, s, all) >= 0 && sched_text(t, &bare, own) >= 0 && !strcmp(all, own);
}

int frag_plan_make(const struct task *t, const struct target *tg, const struct sched *s, struct frag_plan *p)
{
	const struct stage *st = &t->stage[t->nstages - 1];
	*p = (struct frag_plan){.image = -1};
	if (!factors(t, p) || !axes(t, st, p))
		return fail(E_INFEASIBLE, "fragments: the task is no product of an input and a constant");
	for (int i = 0; i < 2; i++)
		if (!target_multiplies_fragments(tg, dtype_name(p->type[i])))
			return fail(E_INFEASIBLE, "fragments: %s multiplies none of %s", tg->cpu,
				    dtype_name(p->type[i]));
	int rc = moving(t, st, p);
	if (rc < 0)
		return rc;
	if (!alone(t, s))
		return fail(E_INFEASIBLE, "fragments: with other keys");
	int64_t taps = 1;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		taps *= a == p->k_axis ? 1 : st->axis[a].extent;
	return tiles(tg, frags_of(t, s), p, st->axis[p->k_axis].extent * p->group, taps);
}

const struct task *frag_task(struct arena *a, const struct task *t, const struct frag_plan *p)
{
	if (!t->pairs)
		return t;
	struct task *one = task_dup(a, t);
	one->stage[0] = one->stage[1];
	one->stage[0].read[p->image].operand = p->from;
	one->nstages = 1;
	one->noperands--; /* the copy, which is the last */
	one->shared = 0;
	return one;
}
