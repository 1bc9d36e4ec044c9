/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/features.h"
#include "kernels/space/space_rules.h"
#include "kernels/space/winograd_fused.h"

#include <math.h>

/* One stage of a candidate. */
struct view {
	const struct space *s;
	const struct stage *st;
	const struct sstage *c;
	const struct draft_terms *d;
	int stage, lane; /* -1: not a spatial axis */
	int vectors, points;
	double steps; /* steps in the body */
};

static double units(const struct view *v, int a)
{
	return ceil((double)extent_guess(v->st->axis[a].extent) / (a == v->c->lane ? v->c->lanes : 1));
}

static double tiles(const struct view *v, int a)
{
	return ceil(units(v, a) / v->c->tile[a]);
}

/* Cache lines of a row of tile points that fall into one set of the L1. */
static double aliases(const struct view *v, const struct read *r, int axis)
{
	double bytes = draft_apart(v->s->t, r, axis, axis == v->lane ? v->c->lanes : 1), sets = 1;
	if (bytes < LINE_ELEMS * 4 || fmod(bytes, LINE_ELEMS * 4) != 0)
		return 1;
	while (sets < 64 && fmod(bytes * sets, 4096) != 0)
		sets *= 2;
	return fmax(1, v->c->tile[axis] / sets);
}

/* The share of tiles that are smaller along some axis. */
static double ragged(const struct view *v)
{
	double full = 1;
	for (int a = 0; a < stage_spatial(v->st); a++)
		full *= floor(units(v, a) / v->c->tile[a]) / tiles(v, a);
	return 1 - full;
}

static void put_shape(const struct view *v, float *f)
{
	const struct sstage *c = v->c;
	int first = 1, second = 1;
	double lines = 1;
	for (int a = 0; a < stage_spatial(v->st); a++) {
		for (int i = 0; i < v->st->nreads; i++)
			if (c->tile[a] > 1 && !operand_packs(v->s->t, v->st->read[i].operand))
				lines = fmax(lines, aliases(v, &v->st->read[i], a));
		if (a == v->lane)
			continue;
		second = c->tile[a] > first ? first : c->tile[a] > second ? c->tile[a] : second;
		first = c->tile[a] > first ? c->tile[a] : first;
	}
	f[FEATURE_NARROW] = (float)log2((double)v->s->tg.lanes / c->lanes) / 4;
	f[FEATURE_ROWS] = (float)log2(second) / 2;
	f[FEATURE_RAGGED] = (float)ragged(v);
	f[FEATURE_ALIAS] = (float)log2(lines) / 4;
}

static double trips(const struct view *v, int a)
{
	double part =
	    a == v->c->split_axis ? (double)v->c->split : (double)extent_guess(v->st->axis[a].extent);
	return ceil(part / ((double)v->c->unroll[a] * (a == v->c->lane ? v->c->lanes : 1)));
}

static void put_reduction(const struct view *v, float *f)
{
	const struct sstage *c = v->c;
	int last = -1;
	for (int j = stage_spatial(v->st); j < v->st->naxes; j++)
		if (trips(v, c->order[j]) > 1) {
			last = c->order[j];
			f[FEATURE_NEST] += .25f;
		}
	if (last < 0)
		return;
	f[FEATURE_TRIPS] = (float)log2(trips(v, last)) / 8;
	for (int i = 0; i < v->st->nreads; i++) {
		const struct read *r = &v->st->read[i];
		double bytes = draft_apart(v->s->t, r, last, c->unroll[last]);
		if (stage_in_body(v->st, i) && !operand_packs(v->s->t, r->operand))
			f[FEATURE_STRIDE] =
			    fmaxf(f[FEATURE_STRIDE], (float)log2(1 + bytes / (LINE_ELEMS * 4)) / 8);
	}
}

static void put_tile(const struct view *v, float *f)
{
	const struct sstage *c = v->c;
	double regs = target_vectors(&v->s->tg, c->lanes);
	f[FEATURE_VECTORS] = (float)log2(v->vectors) / 2;
	f[FEATURE_POINTS] = (float)log2(v->points) / 4;
	f[FEATURE_LIVE] = (float)fmin(v->d->live / regs, 2);
	f[FEATURE_UNROLL] = (float)log2(v->steps) / 4;
	f[FEATURE_BODY] = (float)log2(v->vectors * v->points * v->steps) / 8;
	f[FEATURE_CHAINS] = (float)log2(c->chains) / 3;
	f[FEATURE_ACROSS] = c->lane >= stage_spatial(v->st);
	f[FEATURE_SCALAR] = c->lane < 0;
	f[FEATURE_HELD] = draft_held(v->s->t, &v->s->tg, v->stage, c) > 0;
	f[FEATURE_HOIST] = c->hoist;
	f[FEATURE_PREFETCH] = (float)c->prefetch / 2;
	f[FEATURE_FEED] = c->feed;
	if (c->lane >= 0) {
		double extent = (double)extent_guess(v->st->axis[c->lane].extent);
		f[FEATURE_IDLE] = (float)(1 - extent / (ceil(extent / c->lanes) * c->lanes));
	}
}

/* Whether the lane axis changes fastest, or slowest, among all tiles. */
static void put_order(const struct view *v, float *f)
{
	int ns = stage_spatial(v->st), first = -1, last = -1;
	for (int j = 0; j < ns; j++)
		if (tiles(v, v->c->order[j]) > 1) {
			first = first < 0 ? v->c->order[j] : first;
			last = v->c->order[j];
		}
	f[FEATURE_INNER] = last >= 0 && last == v->lane;
	f[FEATURE_OUTER] = first >= 0 && first == v->lane;
	for (int j = ns; j < v->st->naxes; j++)
		f[FEATURE_ORDER] = f[FEATURE_ORDER] > 0 || v->c->order[j] != j;
}

static void put_loops(const struct view *v, float *f)
{
	const struct sstage *c = v->c;
	double l1 = v->s->tg.l1_bytes ? (double)v->s->tg.l1_bytes : 1 << 15, block = 1, blocks = 1, all = 1;
	f[FEATURE_SET] = (float)log2(1 + v->d->set / l1) / 3;
	f[FEATURE_PANEL] = (float)log2(1 + v->d->panel / l1) / 3;
	if (c->split_axis >= 0)
		f[FEATURE_SPLIT] =
		    (float)log2(ceil((double)v->st->axis[c->split_axis].extent / (double)c->split)) / 4;
	f[FEATURE_SPREAD] = c->spread;
	for (int a = 0; a < stage_spatial(v->st); a++) {
		double n = tiles(v, a);
		all *= n;
		if (!c->outer[a] || !c->block[a] || (double)c->block[a] >= n)
			continue;
		block *= (double)c->block[a];
		blocks *= ceil(n / (double)c->block[a]);
	}
	f[FEATURE_BLOCK] = (float)log2(block) / 6;
	f[FEATURE_BLOCKS] = (float)log2(blocks) / 6;
	f[FEATURE_TILES] = (float)log2(all) / 16;
	put_order(v, f);
}

static void put_task(const struct view *v, float *f)
{
	f[FEATURE_STEPS] = (float)log2(stage_steps(v->st)) / 10;
	f[FEATURE_MAP] = v->st->comb == COMB_NONE;
	f[FEATURE_DEPTH] = v->st->comb != COMB_NONE && !stage_contracts(v->s->t, v->st, v->c->lane);
}

static void put_winograd(const struct view *v, float *f)
{
	struct sstage whole = *v->c;
	const struct winograd *w = &whole.wino;
	winograd_whole(v->s->t, &whole);
	double regs = v->s->tg.regs;
	f[FEATURE_WINO_2] = w->m == 2;
	f[FEATURE_WINO_4] = w->m == 4;
	f[FEATURE_WINO_BLOCK] = (float)log2(w->tiles) / 8;
	f[FEATURE_WINO_REGS] = (float)((w->px * w->kv + w->px + w->kv) / regs);
	f[FEATURE_WINO_CHUNK] = (float)log2(w->chunk) / 4;
	f[FEATURE_WINO_RAW] = w->raw > 0;
	f[FEATURE_WINO_PARTS] = (float)log2(w->parts > 1 ? w->parts : 1) / 4;
	f[FEATURE_WINO_PIXELS] = (float)w->pixels;
	f[FEATURE_PREFETCH] = (float)w->prefetch / 2;
	f[FEATURE_SPREAD] = winograd_is_fused(v->c) && v->c->spread;
}

static struct view view(const struct space *s, const struct sched *c, const struct draft_terms *of, int k)
{
	struct view v = {
	    .s = s, .st = &s->t->stage[k], .c = &c->st[k], .d = &of[k], .stage = k, .lane = -1, .vectors = 1};
	v.points = 1;
	v.steps = 1;
	int ns = stage_spatial(v.st);
	if (v.c->lane >= 0 && v.c->lane < ns)
		v.lane = v.c->lane;
	for (int a = 0; a < v.st->naxes; a++)
		if (a < ns)
			*(a == v.lane ? &v.vectors : &v.points) *= v.c->tile[a];
		else
			v.steps *= v.c->unroll[a];
	return v;
}

/* Indexes of the parallel loops. Loops over blocks come before loops over tiles. */
static double parallel(const struct view *v)
{
	const struct sstage *c = v->c;
	int ns = stage_spatial(v->st), left = c->par;
	double n = 1;
	for (int j = 0; j < 2 * ns && left > 0; j++) {
		int a = c->order[j % ns];
		double all = tiles(v, a), block = c->outer[a] && c->block[a] ? (double)c->block[a] : all;
		if (j < ns && !c->outer[a])
			continue;
		n *= j < ns ? ceil(all / block) : fmin(all, block);
		left--;
	}
	return n;
}

/* Parallel indexes: chunks for a ring; blocks times parts for a Winograd schedule. */
static double indexes(const struct space *s, const struct sched *c, const struct view *last)
{
	const struct sstage *l = last->c;
	if (winograd_is_fused(l)) {
		struct winograd_fused z = winograd_fused_sizes(s->t, l);
		return z.threads ? (double)(z.blocks * z.chunks * z.parts) : 1;
	}
	if (l->wino.m) {
		struct winograd_sizes z = winograd_sizes(s->t, l);
		return (double)(z.batch * z.blocks) * (l->wino.parts > 1 ? l->wino.parts : 1);
	}
	if (l->ring_axis < 0)
		return parallel(last);
	double n = 1, rows = ceil((double)extent_guess(last->st->axis[l->ring_axis].extent) / l->ring);
	for (int a = 0; a < sched_shared(s->t, l->ring_axis); a++)
		n *= (double)extent_guess(last->st->axis[a].extent);
	(void)c;
	return n * (l->block[l->ring_axis] ? ceil(rows / (double)l->block[l->ring_axis]) : 1);
}

static void put_whole(const struct space *s, const struct sched *c, const struct draft_terms *of, float *f)
{
	struct view last = view(s, c, of, s->t->nstages - 1);
	const struct sstage *l = last.c;
	if (l->ring_axis >= 0) {
		f[FEATURE_RING] = (float)log2(l->ring + 1) / 3;
		f[FEATURE_CHUNK] = (float)log2(1 + (double)l->block[l->ring_axis]) / 5;
	}
	f[FEATURE_GROUP] = l->group ? (float)log2(l->group) / 8 : 0;
	double threads = s->want.threads > 1 ? s->want.threads : 1, n = indexes(s, c, &last);
	f[FEATURE_INDEXES] = (float)log2(n) / 8;
	f[FEATURE_THREADS] = (float)log2(ceil(n / threads) * threads / n);
}

static void put_stage(const struct view *v, float *f)
{
	put_task(v, f);
	if (v->c->wino.m) {
		put_winograd(v, f);
		return;
	}
	put_tile(v, f);
	put_shape(v, f);
	put_loops(v, f);
	put_reduction(v, f);
}

void space_features(const struct space *s, const char *cand, float f[FEATURES])
{
	struct sched c;
	struct draft_terms of[MAX_STAGES];
	s = rules_space(s, cand);
	for (int i = 0; i < FEATURES; i++)
		f[i] = 0;
	if (sched_parse(s->t, cand, &c) < 0)
		return;
	double cycles = rules_draft(s, &c, of), ns = cycles / draft_ghz(&s->tg);
	if (!(ns > 0) || !isfinite(ns))
		return;
	for (int k = 0; k < s->t->nstages; k++) {
		struct view v = view(s, &c, of, k);
		float one[FEATURES] = {0}, share = (float)(of[k].cycles / cycles);
		put_stage(&v, one);
		for (int i = 0; i < FEATURES; i++)
			f[i] += share * one[i];
		for (int i = 0; i < DRAFT_TERMS; i++)
			f[FEATURE_ISSUE + i] += (float)fmin(of[k].of[i] / cycles, 4);
		f[FEATURE_WORST] = fmaxf(f[FEATURE_WORST], share);
		if (!v.c->wino.m)
			f[FEATURE_EXCESS] =
			    fmaxf(f[FEATURE_EXCESS],
				  (float)fmin((v.d->live + 2 - target_vectors(&s->tg, v.c->lanes)) / 8., 4));
	}
	put_whole(s, &c, of, f);
	f[FEATURE_CYCLES] = (float)fmin(log2(1 + cycles) / 20, 4);
	f[FEATURE_DRAFT] = (float)log(ns);
}
