/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds points of a relaxed space to schedules. */
#include "kernels/space/relax_parts.h"
#include "platform/base/mix.h"

#include <math.h>
#include <string.h>

enum { PULLS = 4 /* steps towards the sketch until the numbers are legal together */ };

enum way { NEAREST, EVEN, DIVISOR, SMALLER };

static int64_t clamp(int64_t v, const struct relax_var *of)
{
	return v < of->low ? of->low : v > of->top ? of->top : v;
}

/* The integer nearest to v on a logarithmic scale. */
static int64_t nearest(double v)
{
	double below = floor(v);
	return (int64_t)(v * v > below * (below + 1) ? below + 1 : below);
}

/* The divisor of n nearest to v. */
static int64_t nearest_divisor(int64_t n, double v)
{
	int64_t best = 1;
	for (int64_t d = 2; d <= n && (double)(d - 1) < 2 * v; d++)
		if (n % d == 0 && fabs(log((double)d / v)) < fabs(log((double)best / v)))
			best = d;
	return best;
}

static int64_t tile(const struct relax *r, const struct relax_var *at, double v, enum way way)
{
	const struct sstage *s = &r->sketch.st[at->stage];
	int64_t extent = extent_guess(r->space->t->stage[at->stage].axis[at->axis].extent),
		units = ceil_div(extent, at->axis == s->lane ? s->lanes : 1);
	if (way == EVEN) {
		int64_t count = nearest((double)units / v);
		return ceil_div(units, count < 1 ? 1 : count);
	}
	return way == DIVISOR ? nearest_divisor(units, v) : way == SMALLER ? (int64_t)v : nearest(v);
}

/* Unrolled steps must divide the blocks of a layout evenly. Unrolling a whole axis belongs to another
 * sketch. */
static bool steps_legal(const struct task *t, const struct stage *st, const struct sstage *s, int a,
			int64_t u)
{
	int64_t e = st->axis[a].extent, b = axis_block(t, st, a);
	return a == s->lane || u == 1 || (u < e && (b <= 1 || e <= b || (b % u == 0 && e % b % u == 0)));
}

static int64_t steps(const struct relax *r, const struct relax_var *at, double v, enum way way)
{
	const struct task *t = r->space->t;
	const struct stage *st = &t->stage[at->stage];
	int64_t best = 1, e = st->axis[at->axis].extent;
	for (int64_t u = 2; u <= at->top && (way != SMALLER || (double)u <= v); u++)
		if (steps_legal(t, st, &r->sketch.st[at->stage], at->axis, u) &&
		    (way != DIVISOR || e % u == 0) && fabs(log((double)u / v)) < fabs(log((double)best / v)))
			best = u;
	return best;
}

static int64_t power_of_two(double v, enum way way)
{
	int64_t p = 1;
	while (way == SMALLER ? (double)(2 * p) <= v : (double)(p * p * 2) < v * v)
		p *= 2;
	return p;
}

/* Rounds a part to whole blocks of the layout and whole bodies of u steps. */
static int64_t part(const struct relax *r, const struct relax_var *at, double v, int64_t u)
{
	const struct task *t = r->space->t;
	const struct stage *st = &t->stage[at->stage];
	int64_t b = axis_block(t, st, at->axis), e = st->axis[at->axis].extent, unit = b % u ? b * u : b,
		first = (int64_t)(v / (double)unit), best = 0;
	for (int64_t k = first > 2 ? first - 2 : 1; k <= first + 2; k++) {
		int64_t n = k * unit;
		if (n < e && e % n % u == 0 &&
		    (!best || fabs(log((double)n / v)) < fabs(log((double)best / v))))
			best = n;
	}
	return best ? best : r->sketch.st[at->stage].split;
}

/* Unrolled steps of the axis that the part splits: an earlier variable, or the sketch's number. */
static int64_t steps_of(const struct relax *r, const struct relax_var *part, const int64_t *v)
{
	for (int i = 0; i < part - r->var; i++)
		if (r->var[i].kind == RELAX_UNROLL && r->var[i].stage == part->stage &&
		    r->var[i].axis == part->axis)
			return v[i];
	return r->sketch.st[part->stage].unroll[part->axis];
}

/* Tiles of an item, of those that there are for each. */
static int64_t down(const struct relax *r, const struct relax_var *at, double v, enum way way,
		    const int64_t *all)
{
	int64_t size = r->sketch.st[at->stage].tile[at->axis];
	for (int i = 0; i < at - r->var; i++)
		if (r->var[i].kind == RELAX_TILE && r->var[i].axis == at->axis)
			size = all[i];
	int64_t tiles = ceil_div(r->space->t->stage[at->stage].axis[at->axis].extent, size);
	if (way == EVEN) {
		int64_t items = nearest((double)tiles / v);
		return ceil_div(tiles, items < 1 ? 1 : items);
	}
	return way == DIVISOR ? nearest_divisor(tiles, v) : way == SMALLER ? (int64_t)v : nearest(v);
}

static int64_t round_one(const struct relax *r, const struct relax_var *at, double v, enum way way,
			 const int64_t *all)
{
	switch (at->kind) {
	case RELAX_TILE:
		return tile(r, at, v, way);
	case RELAX_UNROLL:
		return steps(r, at, v, way);
	case RELAX_CHAINS:
	case RELAX_GROUP:
		return power_of_two(v, way);
	case RELAX_DOWN:
		return down(r, at, v, way, all);
	case RELAX_SPLIT:
		return part(r, at, v, steps_of(r, at, all));
	default:
		return way == SMALLER ? (int64_t)v : nearest(v);
	}
}

static void round_all(const struct relax *r, const double *x, int way, int64_t v[RELAX_MAX])
{
	for (int i = 0; i < r->n; i++)
		v[i] = clamp(round_one(r, &r->var[i], exp(x[i]) * (1 + 1e-9), (enum way)way, v), &r->var[i]);
}

struct key relax_key(const struct relax *r, const double *x, int way)
{
	int64_t v[RELAX_MAX];
	round_all(r, x, way, v);
	return mix_bytes(v, sizeof *v * (size_t)r->n, 0);
}

/* Recomputes what follows from the numbers. */
static void settle(const struct relax *r, struct sched *c)
{
	const struct space *s = r->space;
	if (c->st[0].wino.m) {
		winograd_settle(s, &c->st[0]);
		return;
	}
	for (int k = 0; k < s->t->nstages; k++) {
		const struct stage *st = &s->t->stage[k];
		int64_t steps = 1;
		for (int a = stage_spatial(st); a < st->naxes; a++)
			steps *= c->st[k].unroll[a];
		while (c->st[k].chains > steps)
			c->st[k].chains /= 2;
		for (int a = 0; a < stage_spatial(st); a++) {
			int64_t u = a == c->st[k].lane ? c->st[k].lanes : 1;
			if (c->st[k].outer[a] &&
			    c->st[k].block[a] * c->st[k].tile[a] * u >= extent_guess(st->axis[a].extent))
				c->st[k].block[a] = 0;
		}
		rules_settle(s, k, &c->st[k]);
	}
	rules_fit_rows(s, c);
}

void relax_round(const struct relax *r, const double *x, int way, char cand[CAND_MAX])
{
	double start[RELAX_MAX], at[RELAX_MAX];
	relax_start(r, start);
	for (int pull = 0; pull <= PULLS; pull++) {
		int64_t v[RELAX_MAX];
		struct sched c = r->sketch;
		for (int i = 0; i < r->n; i++)
			at[i] = x[i] + (start[i] - x[i]) * pull / PULLS;
		round_all(r, at, way, v);
		for (int i = 0; i < r->n; i++)
			relax_set(&c, &r->var[i], v[i]);
		settle(r, &c);
		if (sched_check(r->space->t, &r->space->tg, &c) >= 0 &&
		    sched_text(r->space->t, &c, cand) >= 0)
			return;
	}
	if (sched_text(r->space->t, &r->sketch, cand) < 0) /* cannot fail: the sketch was parsed from a
							    * text */
		space_default(r->space, cand);
}
