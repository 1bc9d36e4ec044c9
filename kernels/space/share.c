/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/share.h"
#include "kernels/space/resident.h"

#include <string.h>

/* The product of the threads of axes [from, to); of a schedule that is not checked yet, at least that many
 * are too many. */
static int product(const struct sstage *s, int from, int to)
{
	int n = 1;
	for (int a = from; a < to && n <= SCHED_THREADS; a++)
		n *= s->threads[a];
	return n;
}

int stage_threads(const struct stage *st, const struct sstage *s)
{
	return product(s, 0, st->naxes);
}

int share_places(const struct target *tg, int n)
{
	return n > 1 && target_exchanges(tg) ? n / SHARE_NEIGHBOURS : n;
}

int share_left(int n)
{
	return n % 4 ? n / 2 : n / 4;
}

int stage_team(const struct stage *st, const struct sstage *s)
{
	return product(s, stage_spatial(st), st->naxes);
}

/* Points of a spatial axis that one thread computes. */
static int64_t own_points(const struct sstage *s, int axis)
{
	return (int64_t)s->tile[axis] * (axis == s->lane ? s->lanes : 1);
}

int64_t share_span(const struct stage *st, const struct sstage *s, int axis)
{
	if (axis < stage_spatial(st))
		return own_points(s, axis) * s->threads[axis];
	return axis == s->share_axis ? s->share : st->axis[axis].extent;
}

bool share_overlaps(const struct stage *st, const struct sstage *s, int axis)
{
	return st->axis[axis].extent % share_span(st, s, axis) != 0;
}

/* Whether boxes of the read can be described: its indices are sums of axes with constant factors, and a
 * packed constant's are single axes. */
static bool is_plain(const struct task *t, const struct stage *st, int read)
{
	const struct read *r = &st->read[read];
	const struct operand *o = &t->operand[r->operand];
	bool packed = operand_packs(t, r->operand);
	if (!stage_in_body(st, read) || o->dtype != DT_F32 || o->group || o->role == ROLE_TMP)
		return false;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &r->dim[d];
		int axes = 0;
		for (int a = 0; a < st->naxes; a++) {
			axes += x->coef[a] != 0;
			if (x->coef[a] < 0 || (packed && x->coef[a] > 1))
				return false; /* a symbol is negative, too */
		}
		if (x->div > 1 || x->mod > 1 || x->table >= 0 || IS_SYM(x->off) ||
		    (packed && (axes > 1 || x->off)))
			return false;
	}
	return true;
}

/* Elements of a box of the read, whose sizes are put into size[]; `own`: of one thread's. INT64_MAX: too
 * many. */
static int64_t box(const struct task *t, const struct stage *st, const struct sstage *s, int read, bool own,
		   int64_t size[MAX_RANK])
{
	int64_t n = 1;
	for (int d = 0; d < t->operand[st->read[read].operand].dims.rank; d++) {
		size[d] = 1;
		for (int a = 0; a < st->naxes; a++) {
			int64_t points =
				    own && a < stage_spatial(st) ? own_points(s, a) : share_span(st, s, a),
				more;
			if (__builtin_mul_overflow(st->read[read].dim[d].coef[a], points - 1, &more) ||
			    __builtin_add_overflow(size[d], more, &size[d]))
				return INT64_MAX;
		}
		if (__builtin_mul_overflow(n, size[d], &n))
			return INT64_MAX;
	}
	return n;
}

/* The dim that lanes go along; else the one whose elements are neighbours in memory. */
static int inner_dim(const struct task *t, const struct stage *st, const struct sstage *s, int read)
{
	const struct read *r = &st->read[read];
	const struct operand *o = &t->operand[r->operand];
	for (int d = 0; d < o->dims.rank && s->lane >= 0; d++)
		if (r->dim[d].coef[s->lane])
			return d;
	return o->layout.n ? o->layout.ax[o->layout.n - 1].dim : o->dims.rank - 1;
}

static int width(const struct task *t, const struct stage *st, const struct sstage *s, int read, int inner)
{
	const struct read *r = &st->read[read];
	const struct index *x = &r->dim[inner];
	int64_t stride = 0;
	bool pads;
	for (int a = 0; a < st->naxes; a++)
		if (x->coef[a] != (a == s->lane))
			return 1;
	if (operand_packs(t, r->operand))
		return s->lanes;
	return x->off == 0 && read_stride(t, st, r, s->lane, s->lanes, &stride, &pads) >= 0 && stride == 1
		   ? s->lanes
		   : 1;
}

int64_t share_most(const struct target *tg)
{
	const struct gpu_unit *u = gpu_unit(tg);
	return u ? (int64_t)(u->shared_kb - u->taken_kb) << 10 : SCHED_SHARED;
}

int stage_share(const struct task *t, const struct target *tg, const struct stage *st, const struct sstage *s,
		struct shared_read out[MAX_READS])
{
	int64_t bytes = 0, own[MAX_RANK], most = share_most(tg);
	int threads = stage_threads(st, s);
	for (int i = 0; i < st->nreads; i++) {
		struct shared_read *b = &out[i];
		int rank = t->operand[st->read[i].operand].dims.rank;
		*b = (struct shared_read){.on = rank > 0 && is_plain(t, st, i)};
		if (!b->on)
			continue;
		b->elems = box(t, st, s, i, false, b->size);
		if (b->elems > most / 4)
			return fail(E_INFEASIBLE, "share: a box of %lld elements", (long long)b->elems);
		b->on = b->elems < threads * box(t, st, s, i, true, own);
		b->inner = inner_dim(t, st, s, i);
		b->wide = width(t, st, s, i, b->inner);
		int64_t stride = b->size[b->inner];
		for (int d = rank - 1; d >= 0; d--) {
			b->stride[d] = d == b->inner ? 1 : stride;
			stride *= d == b->inner ? 1 : b->size[d];
		}
		b->pitch = (b->elems + 3) / 4 * 4;
		bytes += b->on ? b->pitch * 4 * s->boxes : 0;
	}
	if (!bytes)
		return fail(E_INFEASIBLE, "share: no two threads read the same elements");
	return bytes > most
		   ? fail(E_INFEASIBLE, "share: %lld bytes of shared buffers", (long long)bytes)
		   : E_OK;
}
