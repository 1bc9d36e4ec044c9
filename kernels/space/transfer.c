/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/transfer.h"
#include "kernels/space/mmla.h"
#include "kernels/space/quads.h"
#include "kernels/space/space_rules.h"
#include "kernels/space/winograd_fused.h"

#include <math.h>
#include <string.h>

enum { MOST_LANES = 16 };

static void put_read(const struct stage *s, const struct task *t, const struct read *r, struct buf *b)
{
	const struct operand *o = &t->operand[r->operand];
	buf_printf(b, " %d", o->role == ROLE_CONST);
	if (o->dtype != DT_F32)
		buf_printf(b, " %s", dtype_name(o->dtype));
	for (int d = 0; d < o->dims.rank; d++) {
		for (int a = 0; a < s->naxes; a++)
			if (r->dim[d].coef[a])
				buf_printf(b, " %d:%lld", a, (long long)r->dim[d].coef[a]);
		buf_printf(b, " %lld %lld %d,", (long long)r->dim[d].div, (long long)r->dim[d].mod,
			   r->dim[d].table >= 0);
	}
}

static void put_stage(const struct task *t, const struct stage *s, struct buf *b)
{
	for (int a = 0; a < s->naxes; a++)
		buf_printf(b, "%.8s%d ", s->axis[a].name, s->axis[a].kind);
	buf_printf(b, "c%d", s->comb);
	for (int i = 0; i < s->body.n; i++) {
		buf_printf(b, " p%d", s->body.at[i].op);
		if (s->body.at[i].op == P_READ)
			put_read(s, t, &s->read[s->body.at[i].arg], b);
	}
	buf_puts(b, "\n");
}

struct key task_kind(const struct task *t)
{
	struct buf b = {0};
	for (int k = 0; k < t->nstages; k++)
		put_stage(t, &t->stage[k], &b);
	struct key k = hash_bytes(buf_str(&b), b.n);
	buf_free(&b);
	return k;
}

double task_away(const struct task *a, const struct task *b)
{
	double sum = 0;
	for (int k = 0; k < a->nstages && k < b->nstages; k++) {
		const struct stage *x = &a->stage[k], *y = &b->stage[k];
		for (int i = 0; i < x->naxes && i < y->naxes; i++)
			sum += fabs(log((double)extent_guess(x->axis[i].extent)) -
				    log((double)extent_guess(y->axis[i].extent)));
	}
	return sum;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int clip_unroll(const struct task *t, const struct stage *st, const struct sstage *s, int a)
{
	int64_t e = st->axis[a].extent, b = axis_block(t, st, a);
	int64_t u = least(s->unroll[a], a == s->lane ? e / s->lanes : e);
	while (u > 1 && a != s->lane && u < e && b > 1 && e > b && (b % u || e % b % u))
		u--;
	return u > 1 ? (int)u : 1;
}

/* Takes threads away of which the output has no tiles or vectors, and steps of a ring. */
static void clip_fused(const struct task *t, struct sstage *s)
{
	struct winograd *w = &s->wino;
	struct winograd_fused z = winograd_fused_sizes(t, s);
	int64_t vectors = ceil_div(t->stage[0].axis[s->lane].extent, s->lanes);
	w->tiles = (int)least(w->tiles, ceil_div(z.all_tiles, w->px) * w->px);
	w->chunk = (int)least(w->chunk, ceil_div(vectors, w->kv) * w->kv);
	s->boxes = (int)least(s->boxes, z.part_steps);
}

static void clip_winograd(const struct task *t, struct sstage *s)
{
	struct winograd *w = &s->wino;
	struct winograd_form f;
	if (!w->m || !w->tiles || winograd_form(t, &f) < 0)
		return;
	if (winograd_is_fused(s)) {
		clip_fused(t, s);
		return;
	}
	struct winograd_sizes z = winograd_sizes(t, s);
	w->tiles = (int)least(w->tiles, z.tiles);
	w->px = (int)least(w->px, w->tiles);
	w->chunk = (int)least(w->chunk, ceil_div(z.vectors, w->kv) * w->kv);
	w->raw = (int)least(w->raw, z.cblocks);
	w->parts = (int)least(w->parts, winograd_sizes(t, s).chunks);
}

/* Clips the numbers that extents bound. */
static void clip(const struct task *t, const struct stage *st, struct sstage *s)
{
	for (int a = 0; a < st->naxes; a++) {
		int64_t e = st->axis[a].extent, points = a == s->lane ? ceil_div(e, s->lanes) : e;
		s->tile[a] = (int)least(s->tile[a], points);
		s->unroll[a] = clip_unroll(t, st, s, a);
		int64_t tiles = ceil_div(points, s->tile[a]);
		if (s->block[a] >= tiles)
			s->block[a] = 0;
	}
	if (s->split_axis >= 0 && s->split >= st->axis[s->split_axis].extent)
		s->split_axis = -1;
	s->spread &= s->split_axis >= 0;
	if (s->ring_axis >= 0)
		s->ring = (int)least(s->ring, st->axis[s->ring_axis].extent);
}

static void fit_lanes(const struct space *s, int lanes, struct sstage *ss)
{
	bool items = target_runs_items(&s->tg); /* their vectors have any width */
	if (ss->lane >= 0 && ((ss->lanes == lanes && !items) || ss->lanes > target_most_lanes(&s->tg)))
		ss->lanes = s->tg.lanes;
}

/* Removes one point from the axis with the most points; the lane axis comes last. */
static bool shrink(const struct stage *st, struct sstage *ss)
{
	int most = -1;
	for (int a = 0; a < stage_spatial(st); a++)
		if (ss->tile[a] > 1 && a != ss->lane && (most < 0 || ss->tile[a] > ss->tile[most]))
			most = a;
	if (most < 0 && ss->lane >= 0 && ss->tile[ss->lane] > 1)
		most = ss->lane;
	if (most >= 0)
		ss->tile[most]--;
	return most >= 0;
}

static void fit_registers(const struct space *s, int stage, struct sstage *ss)
{
	if (winograd_is_fused(ss)) /* its check counts registers, where they are known */
		return;
	if (ss->wino.m) {
		ss->wino.px = (int)least(ss->wino.px, winograd_most(s, ss));
		return;
	}
	while (draft_live(s->t, stage, ss) > target_vectors(&s->tg, ss->lanes) &&
	       shrink(&s->t->stage[stage], ss))
		;
}

static void no_fetching(struct sstage *s)
{
	s->prefetch = 0;
	s->feed = false;
}

static void no_quads(struct sstage *s)
{
	s->quads = false;
}

static void no_mmla(struct sstage *s)
{
	s->mmla = false;
}

static void no_w16(struct sstage *s)
{
	s->w16 = false;
}

static void no_texture(struct sstage *s)
{
	s->texture = false;
}

static void no_unrolling(struct sstage *s)
{
	for (int a = 0; a < MAX_AXES; a++)
		s->unroll[a] = 1;
	s->chains = 1;
}

static void no_blocks(struct sstage *s)
{
	for (int a = 0; a < MAX_AXES; a++) {
		s->outer[a] = false;
		if (a != s->ring_axis)
			s->block[a] = 0;
	}
	s->split_axis = -1;
	s->spread = false;
}

/* Properties that are removed one after the other until the rest is legal. */
static void (*const give_up[])(struct sstage *s) = {no_texture, items_no_threads, no_quads,     no_mmla,
						    no_w16,     no_fetching,      no_unrolling, no_blocks};

static int same_shape(const struct task *a, const struct task *b)
{
	bool same = a->nstages == b->nstages;
	for (int k = 0; same && k < a->nstages; k++)
		same = a->stage[k].naxes == b->stage[k].naxes &&
		       stage_spatial(&a->stage[k]) == stage_spatial(&b->stage[k]);
	return same ? E_OK : fail(E_INFEASIBLE, "a schedule of another kind of task");
}

/* Clips the numbers to this task's extents and this board's lanes and registers, and gives up what the level
 * does not allow. */
static void fit(const struct space *s, int lanes, struct sched *c)
{
	struct winograd_form f;
	for (int k = 0; k < s->t->nstages; k++)
		c->st[k].w16 &= s->w16;
	for (int k = 0; k < s->t->nstages && lanes; k++)
		fit_lanes(s, lanes, &c->st[k]);
	for (int k = 0; k < s->t->nstages; k++)
		c->st[k].group = (int)least(c->st[k].group, s->tg.group);
	for (int k = 0; k < s->t->nstages; k++)
		clip(s->t, &s->t->stage[k], &c->st[k]);
	for (int k = 0; k < s->t->nstages; k++) {
		quads_settle(s->t, &s->t->stage[k], &c->st[k]);
		mmla_settle(s->t, &s->t->stage[k], &c->st[k]);
	}
	clip_winograd(s->t, &c->st[0]);
	for (int k = 0; k < s->t->nstages && lanes && lanes != s->tg.lanes; k++)
		if (!c->st[k].wino.m || winograd_form(s->t, &f) >= 0)
			fit_registers(s, k, &c->st[k]);
}

int space_transfer(const struct space *of, const struct task *from, int lanes, const char *cand,
		   char out[CAND_MAX])
{
	struct sched c;
	const struct space *s = of;
	struct target there = s->tg;
	struct arena scratch = {0};
	int rc = same_shape(s->whole, from);
	enum dtype pairs = cand_pairs(cand);
	if (rc >= 0 && pairs != rules_space(s, cand)->t->pairs)
		rc = fail(E_INFEASIBLE, "%s: not in this space", pairs_name(pairs));
	from = rc >= 0 ? task_view(&scratch, from, cand) : from;
	if (rc >= 0)
		rc = sched_parse(from, cand, &c);
	there.lanes = lanes ? MOST_LANES : there.lanes;
	there.group = there.group ? TARGET_MOST_GROUP : 0;
	for (int k = 0; rc >= 0 && k < c.nstages; k++) {
		c.st[k].mmla &= target_multiplies_blocks(&s->tg);
		c.st[k].blocks = strcmp(s->tg.isa, "cuda") ? 1 : c.st[k].blocks;
		c.st[k].texture &= target_textures(&s->tg);
	}
	if (rc >= 0) /* clipping divides by the schedule's numbers, so they are checked first */
		rc = sched_check(from, &there, &c);
	s = rules_space(s, cand);
	if (rc >= 0 && pairs) /* one may copy an image that the other has in scratch */
		rc = same_shape(s->t, from);
	arena_free(&scratch);
	if (rc < 0)
		return rc;
	fit(s, lanes, &c);
	rc = sched_check(s->t, &s->tg, &c);
	for (size_t i = 0; rc < 0 && i < sizeof give_up / sizeof *give_up; i++) {
		for (int k = 0; k < s->t->nstages; k++)
			give_up[i](&c.st[k]);
		rc = sched_check(s->t, &s->tg, &c);
	}
	if (rc < 0 || (rc = sched_text(s->t, &c, out)) < 0)
		return rc;
	return space_legal(of, out);
}
