/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of a stage under a schedule: which reads and stores are transposed or interleaved, and which
 * sums start with a bias. */
#include "kernels/space/sched.h"
#include "kernels/space/winograd.h"

/* Number of terms below which one saved addition matters: 3 % of the sum's cost. */
enum { SHORT_SUM = 64 };

/* Whether the axis covers a dim of bytes that ends inside of its only block of n: what lies behind it in the
 * block has no meaning, so it may be written, too. */
static bool ends_in_block(const struct task *t, const struct stage *st, int axis, int64_t n)
{
	const struct operand *o = &t->operand[st->out.operand];
	const struct layout *l = &o->layout;
	for (int j = 0; j < l->n - 1 && dtype_is_byte(o->dtype); j++) {
		int d = l->ax[j].dim;
		if (l->ax[j].div == n && l->ax[l->n - 1].dim == d && o->dims.d[d] < n && !l->lo[d] &&
		    !l->hi[d])
			return index_axis(st, &st->out.dim[d]) == axis &&
			       st->axis[axis].extent == o->dims.d[d];
	}
	return false;
}

int store_weaves(const struct task *t, const struct stage *st, const struct sstage *s)
{
	int64_t stride, next;
	bool pads;
	if (s->lane < 0 || s->lane >= stage_spatial(st) || s->wino.m ||
	    (st->comb != COMB_NONE && t->nstages > 1) ||
	    read_stride(t, st, &st->out, s->lane, s->lanes, &stride, &pads) < 0 || stride < 2 ||
	    stride > s->lanes)
		return -1;
	for (int b = 0; b < stage_spatial(st); b++)
		if (b != s->lane && st->axis[b].extent == s->tile[b] && s->tile[b] > 1 &&
		    (s->tile[b] == stride || ends_in_block(t, st, b, stride)) &&
		    read_stride(t, st, &st->out, b, (int)stride, &next, &pads) >= 0 && next == 1)
			return b;
	return -1;
}

int store_turns(const struct task *t, const struct stage *st, const struct sstage *s)
{
	int64_t stride;
	bool pads;
	int turn = -1;
	if (s->lane < 0 || st->comb == COMB_NONE || s->lane >= stage_spatial(st) || t->nstages > 1 ||
	    t->nsyms || s->wino.m || t->operand[st->out.operand].dtype == DT_I32 || /* scratch holds floats */
	    read_stride(t, st, &st->out, s->lane, s->lanes, &stride, &pads) < 0 || stride == 0 || stride == 1)
		return -1;
	for (int b = 0; b < stage_spatial(st); b++) {
		if (b == s->lane || s->tile[b] == 1)
			continue;
		if (turn >= 0 || s->tile[b] < 3 ||
		    read_stride(t, st, &st->out, b, s->tile[b], &stride, &pads) < 0 || stride != 1)
			return -1;
		turn = b;
	}
	return turn;
}

static bool storable(const struct task *t, int operand)
{
	const struct operand *o = &t->operand[operand];
	return o->dtype == DT_F32 && !o->group && operand_packs(t, operand) && task_reads(t, operand) == 1;
}

int stage_stored(const struct task *t, const struct stage *st, const struct sstage *s)
{
	struct winograd_form f;
	int read = !s->wino.m ? stage_weights(t, st, s->lane) : winograd_form(t, &f) >= 0 ? f.filter : -1;
	return read >= 0 && storable(t, st->read[read].operand) ? st->read[read].operand : -1;
}

bool task_stores(const struct task *t, int operand)
{
	for (int k = 0; k < t->nstages; k++)
		for (int i = 0; i < t->stage[k].nreads; i++)
			if (t->stage[k].read[i].operand == operand && t->stage[k].comb != COMB_NONE &&
			    stage_in_body(&t->stage[k], i) && storable(t, operand))
				return true;
	return false;
}

int stage_weight_bytes(const struct sstage *s)
{
	return s->w16 ? 2 : 4;
}

int stage_line(const struct sstage *s)
{
	return LINE_ELEMS * 4 / stage_weight_bytes(s);
}

/* Whether vectors along axis b are contiguous, from the start of each of its tiles. */
static bool side_by_side(const struct task *t, const struct stage *st, const struct read *r,
			 const struct sstage *s, int b)
{
	int64_t stride, e = st->axis[b].extent;
	bool pads;
	if (s->tile[b] < 3 || (s->tile[b] % s->lanes && s->tile[b] != e) || s->tile[b] > 2 * s->lanes)
		return false;
	return read_stride(t, st, r, b, s->lanes, &stride, &pads) >= 0 && stride == 1;
}

int read_crosses(const struct task *t, const struct stage *st, const struct read *r, const struct sstage *s)
{
	int64_t stride;
	bool pads;
	if (s->lane < 0 || st->comb != COMB_NONE || t->operand[r->operand].role == ROLE_TMP ||
	    operand_packs(t, r->operand) || read_stride(t, st, r, s->lane, s->lanes, &stride, &pads) < 0 ||
	    stride == 0 || stride == 1)
		return -1;
	for (int d = 0; d < t->operand[r->operand].dims.rank; d++)
		if (index_guarded(t, st, r, d))
			return -1;
	for (int b = 0; b < stage_spatial(st); b++)
		if (b != s->lane && side_by_side(t, st, r, s, b))
			return b;
	return -1;
}

int64_t stage_vector_points(const struct stage *st, const struct sstage *s)
{
	int64_t n = 1;
	for (int a = 0; a < stage_spatial(st); a++) {
		int64_t u = a == s->lane ? s->lanes : 1;
		n *= ceil_div(st->axis[a].extent, u) * u;
	}
	return n;
}

bool stage_splits(const struct task *t, const struct stage *st)
{
	return !stage_whole(t, st) && !stage_exact(t, st);
}

/* Whether a read has the type of the stage's sums. */
static bool like_sums(const struct task *t, const struct stage *st, const struct sstage *s, int read)
{
	enum sum_kind kind = s->quads ? SUM_DOT : stage_sum(t, st);
	bool whole = t->operand[st->read[read].operand].dtype == DT_I32;
	return whole ? kind == SUM_WHOLE || kind == SUM_DOT : kind == SUM_FLOAT;
}

int stage_bias(const struct task *t, const struct stage *st, const struct sstage *s)
{
	int read = -1, steps = 1;
	for (int a = stage_spatial(st); a < st->naxes && steps <= SHORT_SUM; a++)
		steps *= IS_SYM(st->axis[a].extent) || st->axis[a].extent > SHORT_SUM
			     ? SHORT_SUM + 1
			     : (int)st->axis[a].extent;
	if (s->split_axis >= 0 || s->wino.m || s->lane >= stage_spatial(st) || s->chains > 1 ||
	    steps > SHORT_SUM || stage_long_post(st) || stage_team(st, s) > 1)
		return -1;
	for (int i = 0; i < st->post.n && st->comb == COMB_SUM; i++) {
		if (st->post.at[i].op != P_ACC)
			continue;
		bool adds =
		    i + 2 < st->post.n && st->post.at[i + 1].op == P_READ && st->post.at[i + 2].op == P_ADD;
		if (!adds || (read >= 0 && read != st->post.at[i + 1].arg))
			return -1;
		read = st->post.at[i + 1].arg;
	}
	return read >= 0 && t->operand[st->read[read].operand].role == ROLE_CONST && like_sums(t, st, s, read)
		   ? read
		   : -1;
}
