/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/frag.h"
#include "kernels/space/mmla.h"
#include "kernels/space/quads.h"
#include "kernels/space/share.h"
#include "kernels/space/space.h"
#include "kernels/space/space_rules.h"
#include "kernels/space/winograd.h"

#include <math.h>
#include <string.h>

static struct space *view_of(struct arena *a, const struct task *whole, const struct task *view,
			     const struct target *tg, const struct space_want *want)
{
	struct space *s = ARENA_NEW(a, struct space);
	s->whole = whole;
	s->t = view;
	s->tg = *tg;
	/* A32 takes every operand from a register, and LLVM loads several ahead. With 16 registers 72 of 425
	 * schedules spill, with 12 only 10. */
	if (!strcmp(tg->isa, "armv7-neon"))
		s->tg.regs = tg->regs * 3 / 4;
	rules_ring(s);
	for (int i = 0; i < view->nstages; i++)
		rules_lanes(s, i);
	for (int i = 0; i < view->nstages; i++)
		s->quads |= rules_has_quads(s, i) ? 1u << i : 0;
	s->mmla = target_multiplies_blocks(tg);
	s->want = *want;
	s->w16 = level_f16(want->level) && target_converts_f16(tg);
	if (!view->pairs)
		rules_winograd(s);
	return s;
}

/* The pairs that schedules may multiply. A GPU that multiplies both types has bf16 where sums of f16 are not
 * allowed, and only by fragments. */
static enum dtype type_of_pairs(enum level l, const struct target *tg)
{
	bool bf16 = target_multiplies_bf16(tg) ||
		    (SCHED_THREADED && target_multiplies_fragments(tg, dtype_name(DT_BF16)));
	return level_sums_f16(l) && target_sums_f16(tg) ? DT_F16 : level_bf16(l) && bf16 ? DT_BF16 : DT_NONE;
}

/* The space of a view; NULL: it would be empty. */
static const struct space *part_of(struct arena *a, const struct space *of, const struct task *view)
{
	struct space *s = view_of(a, of->whole, task_keep(a, view), &of->tg, &of->want);
	return !SCHED_THREADED || !frags_alone(s) || frags_possible(s) ? s : NULL;
}

int space_make(struct arena *a, const struct task *t, const struct target *tg, const struct space_want *want,
	       struct space **out)
{
	int rc = task_check(t);
	if (rc < 0)
		return rc;
	const struct space_want usual = {.threads = 1};
	const struct task *whole = task_keep(a, t), *groups = task_groups(a, whole), *pairs;
	want = want ? want : &usual;
	*out = view_of(a, whole, groups == whole ? whole : task_keep(a, groups), tg, want);
	enum dtype type = type_of_pairs(want->level, tg);
	pairs = type ? task_pairs(a, whole, type) : NULL;
	if (SCHED_THREADED && type && !pairs)
		pairs = task_inputs(a, whole, type);
	if (pairs)
		(*out)->pairs = part_of(a, *out, pairs);
	bool tf32 =
	    SCHED_THREADED && level_bf16(want->level) && target_multiplies_fragments(tg, dtype_name(DT_F32));
	pairs = tf32 ? task_inputs(a, whole, DT_F32) : NULL;
	if (pairs)
		(*out)->tf32 = part_of(a, *out, pairs);
	return E_OK;
}

const struct space *rules_space(const struct space *s, const char *cand)
{
	enum dtype type = cand_pairs(cand);
	if (SCHED_THREADED && s->tf32 && type == DT_F32)
		return s->tf32;
	return s->pairs && type == s->pairs->t->pairs ? s->pairs : s;
}

const struct task *space_task(const struct space *s)
{
	return s->whole;
}

static int check_text(const struct space *s, const struct sched *c, char cand[CAND_MAX])
{
	int rc = sched_check(s->t, &s->tg, c);
	return rc < 0 ? rc : sched_text(s->t, c, cand);
}

/* Sets the ring and its chunks, which belong to the whole schedule and not to a stage. */
static void set_ring(const struct space *s, struct sched *c, int rows, int64_t chunks)
{
	struct sstage *last = &c->st[s->t->nstages - 1];
	if (!s->ring.rows)
		return;
	last->ring_axis = rules_rows(s, s->t->nstages - 1);
	last->ring = rows;
	last->block[last->ring_axis] = rules_chunk(s, last, chunks);
	rules_fit_rows(s, c);
}

/* Sets the ring that the rules choose for the threads of a run. */
static void set_thread_ring(const struct space *s, struct sched *c)
{
	bool apart = rules_apart(s); /* no row is computed twice */
	set_ring(s, c, s->ring.rows, apart ? s->want.threads : 1);
	if (s->ring.rows && s->want.threads > 1 && !apart)
		rules_thread_ring(s, &c->st[s->t->nstages - 1]);
	rules_fit_rows(s, c);
}

/* Makes the default of every stage, with `rows` rows a step. */
static void default_stages(const struct space *s, int rows, struct sched *c)
{
	struct space of = *s;
	if (s->ring.rows && rows != s->ring.rows &&
	    task_ring(s->t, rules_rows(s, s->t->nstages - 1), rows, &of.ring) < 0)
		of.ring = s->ring;
	for (int i = 0; i < s->t->nstages; i++)
		rules_stage(&of, i, 0, &c->st[i]);
}

void space_default(const struct space *s, char cand[CAND_MAX])
{
	struct sched c;
	sched_init(s->t, &c);
	if (SCHED_THREADED && frags_alone(s) && frags_rule(s, 0, &c) && check_text(s, &c, cand) >= 0)
		return;
	default_stages(s, s->ring.rows, &c);
	winograd_default(s, &c.st[0]);
	set_thread_ring(s, &c);
	int rows = c.st[s->t->nstages - 1].ring;
	if (rows != s->ring.rows) {
		default_stages(s, rows, &c);
		set_thread_ring(s, &c);
	}
	if (check_text(s, &c, cand) >= 0)
		return;
	sched_init(s->t, &c); /* a scalar schedule always fits */
	for (int i = 0; i < s->t->nstages && target_runs_items(&s->tg); i++)
		rules_parallel(s, i, &c.st[i]);
	if (sched_text(s->t, &c, cand) < 0)
		cand[0] = 0;
}

/* ---- the portfolio: families of rules; each makes its i-th schedule, or has none ---- */

static bool winograd_rule(const struct space *s, int i, struct sched *c)
{
	return winograd_variant(s, i, &c->st[0]);
}

static bool rows_rule(const struct space *s, int i, struct sched *c)
{
	static const int image[] = {2, 4, 1}, apart[] = {6, 4, 1};
	int rows = rules_apart(s) ? apart[i] : image[i];
	if (!s->ring.rows)
		return false;
	default_stages(s, rows, c);
	set_ring(s, c, rows, s->want.threads);
	return true;
}

static bool tiles_rule(const struct space *s, int i, struct sched *c)
{
	bool any = false;
	for (int k = 0; k < s->t->nstages; k++) {
		bool has = rules_stage(s, k, i + 1, &c->st[k]);
		any |= has;
		if (!has)
			rules_stage(s, k, 0, &c->st[k]);
	}
	set_thread_ring(s, c);
	return any;
}

/* Uses 3/4 or half of the registers, for tasks where all schedules above spill. */
static bool few_rule(const struct space *s, int i, struct sched *c)
{
	struct space few = *s;
	few.tg.regs = s->tg.regs * (3 - i) / 4;
	for (int k = 0; k < s->t->nstages; k++)
		rules_stage(&few, k, 0, &c->st[k]);
	set_ring(s, c, s->ring.rows, s->want.threads);
	return true;
}

/* Stores all stages' weights that can be as f16: in the default schedule, and in the best Winograd ones. That
 * only saves time that waits for weights. ResNet-18 on one core of a Zen 4 (118 GFLOP/s): six of its 22
 * kernels gain, 3x3 with 256 channels of 14x14 (741 us to 673) and 512 of 7x7 (845 us to 781), and all
 * together 1.03x. F(4,3) of each multiplies for 639 us, so no bandwidth would make it more than 1.07x. */
static bool w16_rule(const struct space *s, int i, struct sched *c)
{
	bool any = false;
	if (i)
		return winograd_w16(s, i == 1 ? 4 : 2, &c->st[0]);
	if (!s->w16)
		return false;
	default_stages(s, s->ring.rows, c);
	set_thread_ring(s, c);
	for (int k = 0; k < s->t->nstages; k++)
		any |= c->st[k].w16 = stage_stored(s->t, &s->t->stage[k], &c->st[k]) >= 0;
	return any;
}

/* Depthwise sums of bytes: the default without dot products, and with them another tile. */
static bool bytes_rule(const struct space *s, int i, struct sched *c)
{
	struct space of = *s;
	bool any = false;
	if (!s->quads)
		return false;
	of.quads = i ? s->quads : 0;
	default_stages(&of, s->ring.rows, c);
	for (int k = 0; k < s->t->nstages; k++)
		if (s->quads >> k & 1)
			any |= i ? quads_rule(s, k, i - 1, &c->st[k]) : true;
	set_thread_ring(s, c);
	return any;
}

/* Makes a schedule for a chain on a device of work items: the default one, run by several threads together.
 */
static bool crew_rule(const struct space *s, int i, struct sched *c)
{
	static const int threads[] = {64, 256};
	struct space of = *s;
	of.ring.rows = 0; /* whose rows may not be lanes */
	for (int k = 0; k < s->t->nstages && s->t->nstages > 1; k++) {
		of.st[k].nlanes = 0;
		rules_lanes(&of, k);
		rules_stage(&of, k, 0, &c->st[k]);
	}
	return items_crew(&of, threads[i], c);
}

/* Sums of dot products: the default without products of matrices. */
static bool blocks_rule(const struct space *s, int i, struct sched *c)
{
	struct space of = *s;
	(void)i;
	of.mmla = false;
	default_stages(&of, s->ring.rows, c);
	set_thread_ring(s, c);
	return s->mmla;
}

static const struct {
	int n;
	bool (*make)(const struct space *s, int i, struct sched *c);
} rules[] = {{2, frags_rule}, {3, bytes_rule}, {1, blocks_rule}, {3, w16_rule},    {5, winograd_rule},
	     {3, rows_rule},  {4, tiles_rule}, {2, few_rule},    {14, items_rule}, {2, crew_rule}};

/* The schedules of pairs come first, and the first of them is their default. */
static int pairs_portfolio(const struct space *s, int *at, char cand[CAND_MAX])
{
	int next = *at - 1;
	if (!(*at)++) {
		space_default(s, cand);
		return E_OK;
	}
	int rc = space_portfolio(s, &next, cand);
	*at = next + 1;
	return rc;
}

int space_portfolio(const struct space *s, int *at, char cand[CAND_MAX])
{
	int first = 0, all = 1;
	for (size_t f = 0; f < sizeof rules / sizeof *rules; f++)
		all += rules[f].n;
	for (int i = 0; i < 2; i++) {
		const struct space *part = i ? s->tf32 : s->pairs;
		int next = *at - first;
		if (part && next < all && pairs_portfolio(part, &next, cand) >= 0) {
			*at = first + next;
			return E_OK;
		}
		first += part ? all : 0;
		*at = *at < first ? first : *at;
	}
	for (size_t f = 0; f < sizeof rules / sizeof *rules; first += rules[f++].n)
		while (*at < first + rules[f].n) {
			struct sched c;
			sched_init(s->t, &c);
			if (rules[f].make(s, (*at)++ - first, &c) && check_text(s, &c, cand) >= 0)
				return E_OK;
		}
	return fail(E_NOTFOUND, "no more rules");
}

/* ---- draws ---- */

bool rules_draw_w16(const struct space *s, struct rng *r)
{
	return s->w16 && rng_below(r, 2);
}

static int draw(struct rng *r, const int *list, int n)
{
	return list[rng_below(r, (uint32_t)n)];
}

static void swap_order(struct rng *r, struct sstage *s, int from, int to)
{
	if (to - from < 2)
		return;
	int i = from + (int)rng_below(r, (uint32_t)(to - from)),
	    j = from + (int)rng_below(r, (uint32_t)(to - from));
	uint8_t t = s->order[i];
	s->order[i] = s->order[j];
	s->order[j] = t;
}

static void draw_lane(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	const struct stage_space *ss = &s->st[stage];
	int n = 1;
	while (n < ss->nlanes && ss->lane[n].cost < 4 * ss->lane[0].cost + 1e-9)
		n++;
	uint32_t usual = target_runs_items(&s->tg) ? 2 : 3; /* of 3, or of 2 draws 1 takes any lanes */
	const struct lane_choice *c = &ss->lane[rng_below(r, usual) ? 0 : rng_below(r, (uint32_t)n)];
	out->lane = c->axis;
	out->lanes = c->lanes;
}

static int64_t units_of(const struct stage *st, const struct sstage *s, int a)
{
	int64_t u = a == s->lane ? s->lanes : 1;
	return (extent_guess(st->axis[a].extent) + u - 1) / u;
}

static void draw_tile(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int vectors[] = {1, 2, 2, 2, 3, 4, 4, 6, 8};
	const struct stage *st = &s->t->stage[stage];
	int ns = stage_spatial(st), first = task_shared(s->t), room = target_vectors(&s->tg, out->lanes),
	    regs = room;
	for (int a = 0; a < ns; a++)
		out->tile[a] = 1;
	int woven = st->comb != COMB_NONE ? rules_weave(s->t, st, out) : -1,
	    pixel = stage_pixel_axis(s, stage, out->lane, woven);
	if (out->lane >= 0 && out->lane < ns) {
		int64_t n = units_of(st, out, out->lane);
		int v = draw(r, vectors, 9);
		out->tile[out->lane] = (int)(v < n ? v : n);
		/* Without dot products, LLVM keeps halves of the weights, and of a point's bytes, in
		 * registers. */
		bool halves = !target_runs_items(&s->tg) && stage_sum(s->t, st) == SUM_DOT &&
			      draft_dots(s->t, st, &s->tg) < QUAD;
		int others = halves ? 2 * out->tile[out->lane] + 3 : out->tile[out->lane] + 1;
		room = (regs - others) / out->tile[out->lane];
	}
	if (woven >= 0)
		room /= out->tile[woven];
	if (pixel >= 0 && room > 1) {
		int64_t n = units_of(st, out, pixel), max = n < room ? n : room;
		int64_t p = 1 + (int64_t)rng_below(r, (uint32_t)max);
		if (rng_below(r, 2))
			p = largest_divisor(n, p);
		out->tile[pixel] = (int)p;
		room /= (int)p;
	}
	if (room > 1 && rng_below(r, 6) == 0 && ns > first) {
		int a = first + (int)rng_below(r, (uint32_t)(ns - first));
		if (out->tile[a] == 1 && a != out->lane && units_of(st, out, a) >= 2)
			out->tile[a] = 2;
	}
}

static void draw_unroll(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int steps[] = {1, 1, 2, 2, 4, 8, 16};
	const struct stage *st = &s->t->stage[stage];
	int ns = stage_spatial(st), points = 1, total = 1;
	for (int a = 0; a < ns; a++)
		points *= out->tile[a];
	rules_unroll(s, stage, out);
	if (rng_below(r, 2))
		return;
	for (int a = ns; a < st->naxes; a++) {
		int64_t e = st->axis[a].extent;
		int u = draw(r, steps, 7);
		if (rng_below(r, 4) == 0 && !IS_SYM(e) && e <= 9)
			u = (int)e;
		if (IS_SYM(e) || u > e || (int64_t)points * total * u > 200)
			u = 1;
		out->unroll[a] = u;
		total *= u;
	}
}

static void draw_chains(const struct stage *st, struct rng *r, struct sstage *out)
{
	int steps = 1, points = 1;
	for (int a = 0; a < st->naxes; a++)
		*(a < stage_spatial(st) ? &points : &steps) *=
		    a < stage_spatial(st) ? out->tile[a] : out->unroll[a];
	out->chains = 1;
	while (st->comb != COMB_NONE && out->chains * 2 <= steps && points * out->chains < 8 &&
	       rng_below(r, 3))
		out->chains *= 2;
}

/* Tiles of an outer loop along axis a; 0: all of them. */
static int64_t draw_block(struct rng *r, const struct stage *st, const struct sstage *s, int a)
{
	static const int tiles[] = {1, 2, 3, 4, 6, 8, 12, 16, 32};
	int b = draw(r, tiles, 9);
	return b < units_of(st, s, a) / s->tile[a] ? b : 0;
}

static void draw_blocks(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int ns = stage_spatial(st);
	memset(out->outer, 0, sizeof out->outer);
	memset(out->block, 0, sizeof out->block);
	for (int a = 0; a < ns && s->t->nstages == 1 && !target_runs_items(&s->tg); a++) {
		int64_t n = units_of(st, out, a) / out->tile[a];
		if (n < 4 || rng_below(r, 5))
			continue;
		out->outer[a] = true;
		out->block[a] = draw_block(r, st, out, a);
	}
}

static void draw_split(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	out->split_axis = -1;
	out->split = 0;
	out->spread = false;
	if (target_runs_items(&s->tg)) {
		items_draw_parts(s, stage, r, out);
		return;
	}
	for (int a = stage_spatial(st); a < st->naxes && s->t->nstages == 1 && stage_splits(s->t, st); a++) {
		int64_t e = st->axis[a].extent, part = INT64_C(32) << rng_below(r, 4);
		if (IS_SYM(e) || e < 2 * part || a == out->lane || rng_below(r, 5))
			continue;
		out->split_axis = a;
		out->split = part;
		return;
	}
}

static void draw_order(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	int ns = stage_spatial(st);
	rules_order(s, stage, out);
	if (rng_below(r, 2))
		swap_order(r, out, 0, ns);
	if (rng_below(r, 3) == 0)
		swap_order(r, out, ns, st->naxes - (out->lane >= ns));
}

static void draw_stage(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	struct sched one;
	sched_init(s->t, &one);
	*out = one.st[stage];
	bool few = target_runs_items(&s->tg); /* such schedules have few numbers */
	if (s->wino_lanes && (few ? rng_below(r, 5) == 0 : rng_below(r, 2))) {
		winograd_draw(s, r, out);
		return;
	}
	draw_lane(s, stage, r, out);
	draw_tile(s, stage, r, out);
	draw_order(s, stage, r, out);
	draw_unroll(s, stage, r, out);
	draw_chains(st, r, out);
	draw_blocks(s, stage, r, out);
	draw_split(s, stage, r, out);
	if (rng_below(r, 2))
		panels_draw(s, stage, r, out);
	out->feed = rng_below(r, 2) && !target_runs_items(&s->tg);
	out->w16 = rules_draw_w16(s, r) && stage_stored(s->t, st, out) >= 0;
	quads_draw(s, stage, r, out);
	mmla_draw(s, r, out);
	if (target_runs_items(&s->tg) && rng_below(r, 2))
		items_draw_group(s, stage, r, out);
	rules_settle(s, stage, out);
	if (target_runs_items(&s->tg) && rng_below(r, 2))
		(rng_below(r, 2) ? items_draw_threads : items_draw_team)(s, stage, r, out);
	else
		down_draw(s, stage, r, out);
	texture_draw(s, stage, r, out);
	out->hoist = rng_below(r, 8) != 0;
}

static int64_t draw_chunks(const struct space *s, struct rng *r)
{
	static const int chunks[] = {1, 1, 2, 4, 8, 16}, rounds[] = {1, 1, 1, 2, 2, 3};
	int threads = s->want.threads;
	return threads > 1 ? threads * draw(r, rounds, 6) : draw(r, chunks, 6);
}

static void draw_ring(const struct space *s, struct rng *r, struct sched *c)
{
	static const int image[] = {1, 2, 2, 4, 4}, apart[] = {4, 6, 6, 8, 12};
	int rows = draw(r, rules_apart(s) ? apart : image, 5);
	set_ring(s, c, rows, draw_chunks(s, r));
}

/* Draws the threads of a chain, which belong to all of its stages. */
static void draw_crew(const struct space *s, struct rng *r, struct sched *c)
{
	static const int threads[] = {32, 64, 64, 128, 256};
	if (s->t->nstages == 1 || !target_runs_items(&s->tg))
		return;
	for (int k = 0; k < s->t->nstages; k++)
		items_no_threads(&c->st[k]);
	if (rng_below(r, 2))
		(void)items_crew(s, threads[rng_below(r, 5)], c);
}

enum { TRIES = 64 };

int space_random(const struct space *s, struct rng *r, char cand[CAND_MAX])
{
	if ((s->pairs || s->tf32) && rng_below(r, 4))
		s = !s->pairs || (s->tf32 && !rng_below(r, 4)) ? s->tf32 : s->pairs;
	for (int i = 0; i < TRIES; i++) {
		struct sched c;
		sched_init(s->t, &c);
		if (frags_draw(s, r, &c) && check_text(s, &c, cand) >= 0)
			return E_OK;
		for (int k = 0; k < s->t->nstages; k++)
			draw_stage(s, k, r, &c.st[k]);
		draw_ring(s, r, &c);
		draw_crew(s, r, &c);
		if (check_text(s, &c, cand) >= 0)
			return E_OK;
	}
	space_default(s, cand);
	return E_OK;
}

static void keep_ring(const struct space *s, struct sched *c, int axis, int rows, int64_t chunk)
{
	struct sstage *last = &c->st[s->t->nstages - 1];
	last->ring_axis = axis;
	last->ring = rows;
	if (axis >= 0)
		last->block[axis] = chunk;
	rules_fit_rows(s, c);
}

/* Draws one aspect of one stage again. */
static void change(const struct space *s, struct rng *r, struct sched *c)
{
	int k = (int)rng_below(r, (uint32_t)s->t->nstages);
	struct sstage *st = &c->st[k];
	const struct sstage *last = &c->st[s->t->nstages - 1];
	int axis = last->ring_axis, rows = last->ring;
	int64_t chunk = axis < 0 ? 0 : last->block[axis];
	if (frags_change(s, r, c))
		return;
	if (axis >= 0 && rng_below(r, 4) == 0) {
		draw_ring(s, r, c);
		return;
	}
	if (s->quads >> k & 1 && rng_below(r, 8) == 0) {
		st->quads = !st->quads;
		rules_settle(s, k, st);
		keep_ring(s, c, axis, rows, chunk);
		return;
	}
	if (s->mmla && rng_below(r, 8) == 0) {
		st->mmla = !st->mmla;
		rules_settle(s, k, st);
		keep_ring(s, c, axis, rows, chunk);
		return;
	}
	if (st->wino.m && rng_below(r, 8)) {
		winograd_change(s, r, st);
		return;
	}
	switch (st->wino.m ? 9 : rng_below(r, s->w16 ? 11 : 10)) {
	case 0:
	case 1:
		draw_tile(s, k, r, st);
		draw_chains(&s->t->stage[k], r, st);
		break;
	case 2:
		draw_unroll(s, k, r, st);
		draw_chains(&s->t->stage[k], r, st);
		break;
	case 3:
		swap_order(r, st, 0, stage_spatial(&s->t->stage[k]));
		break;
	case 4:
		(!target_runs_items(&s->tg) ? draw_blocks
		 : rng_below(r, 2)          ? items_draw_group
		 : rng_below(r, 2)          ? items_draw_threads
		 : rng_below(r, 2)          ? items_draw_team
					    : down_draw)(s, k, r, st);
		break;
	case 5:
		draw_split(s, k, r, st);
		break;
	case 6:
		*(rng_below(r, 2) ? &st->hoist : &st->feed) ^= true;
		break;
	case 7:
	case 8:
		panels_draw(s, k, r, st);
		break;
	case 9:
		draw_stage(s, k, r, st);
		break;
	default:
		st->w16 = !st->w16;
	}
	if (!st->wino.m)
		rules_settle(s, k, st);
	texture_change(s, k, r, st);
	keep_ring(s, c, axis, rows, chunk);
}

int space_mutate(const struct space *s, struct rng *r, const char *from, char cand[CAND_MAX])
{
	struct sched base, c;
	s = rules_space(s, from);
	int rc = sched_parse(s->t, from, &base);
	if (rc < 0)
		return rc;
	for (int i = 0; i < TRIES; i++) {
		c = base;
		change(s, r, &c);
		draw_crew(s, r, &c);
		if (check_text(s, &c, cand) >= 0 && strcmp(cand, from) != 0)
			return E_OK;
	}
	return space_random(s, r, cand);
}

int space_twin(const struct space *s, struct rng *r, const char *from, char cand[CAND_MAX])
{
	struct sched c;
	s = rules_space(s, from);
	const struct stage *st = &s->t->stage[s->t->nstages - 1];
	struct sstage *last = &c.st[s->t->nstages - 1];
	int axis[MAX_AXES], n = 0, rc = sched_parse(s->t, from, &c);
	if (rc < 0)
		return rc;
	for (int a = 0; a < st->naxes; a++)
		if (a == last->ring_axis || last->outer[a])
			axis[n++] = a;
	for (int i = 0; i < TRIES && n; i++) {
		int a = axis[rng_below(r, (uint32_t)n)];
		last->block[a] = a == last->ring_axis ? rules_chunk(s, last, draw_chunks(s, r))
						      : draw_block(r, st, last, a);
		if (check_text(s, &c, cand) >= 0 && strcmp(cand, from) != 0)
			return E_OK;
	}
	return fail(E_NOTFOUND, "no numbers of this schedule vary");
}

int space_cross(const struct space *s, struct rng *r, const char *a, const char *b, char cand[CAND_MAX])
{
	struct sched x, y, c;
	if (rules_space(s, a) != rules_space(s, b))
		return space_mutate(s, r, a, cand);
	s = rules_space(s, a);
	int rc = sched_parse(s->t, a, &x);
	if (rc < 0 || (rc = sched_parse(s->t, b, &y)) < 0)
		return rc;
	if (sched_frags(s->t, &x) || sched_frags(s->t, &y))
		return space_mutate(s, r, a, cand);
	for (int i = 0; i < TRIES / 4 && x.st[0].wino.m == y.st[0].wino.m; i++) {
		c = x;
		if (c.st[0].wino.m) {
			winograd_cross(r, &y.st[0], &c.st[0]);
			if (check_text(s, &c, cand) >= 0)
				return E_OK;
			continue;
		}
		for (int k = 0; k < s->t->nstages; k++) {
			struct sstage *st = &c.st[k];
			const struct sstage *o = &y.st[k];
			if (rng_below(r, 2)) { /* keeps one's register tile and takes the other's loops around
						* it */
				memcpy(st->order, o->order, sizeof st->order);
				memcpy(st->outer, o->outer, sizeof st->outer);
				memcpy(st->block, o->block, sizeof st->block);
			}
			if (rng_below(r, 2))
				memcpy(st->unroll, o->unroll, sizeof st->unroll);
			if (rng_below(r, 2)) {
				st->split_axis = o->split_axis;
				st->split = o->split;
				st->spread = o->spread;
			}
			if (s->w16 && rng_below(r, 2))
				st->w16 = o->w16;
			if (target_runs_items(&s->tg) && rng_below(r, 2))
				st->group = o->group;
			if (s->quads >> k & 1 && rng_below(r, 2))
				st->quads = o->quads;
			if (s->mmla && rng_below(r, 2))
				st->mmla = o->mmla;
			if (rng_below(r, 4) == 0)
				*st = *o;
			draw_chains(&s->t->stage[k], r, st);
			rules_settle(s, k, st);
		}
		const struct sstage *from = &(rng_below(r, 2) ? &x : &y)->st[s->t->nstages - 1];
		keep_ring(s, &c, from->ring_axis, from->ring,
			  from->ring_axis < 0 ? 0 : from->block[from->ring_axis]);
		draw_crew(s, r, &c);
		if (check_text(s, &c, cand) >= 0)
			return E_OK;
	}
	return space_mutate(s, r, a, cand);
}

int space_legal(const struct space *s, const char *cand)
{
	struct sched c;
	enum dtype pairs = cand_pairs(cand);
	if (pairs && !(pairs == DT_F16 ? level_sums_f16 : level_bf16)(s->want.level))
		return fail(E_INFEASIBLE, "%s: not allowed at level %s", pairs_name(pairs),
			    level_name((int)s->want.level));
	s = rules_space(s, cand);
	if (pairs && s->t->pairs != pairs)
		return fail(E_INFEASIBLE, "%s: no stage of the task can, or no instruction of %s",
			    pairs_name(pairs), s->tg.isa);
	int rc = sched_parse(s->t, cand, &c);
	if (rc >= 0 && c.st[0].wino.m && s->want.level == LEVEL_EXACT)
		return fail(E_INFEASIBLE, "winograd: not an exact algorithm");
	for (int k = 0; k < s->t->nstages && rc >= 0; k++)
		if (c.st[k].w16 && !level_f16(s->want.level))
			return fail(E_INFEASIBLE, "w16: not allowed at level %s",
				    level_name((int)s->want.level));
	return rc < 0 ? rc : sched_check(s->t, &s->tg, &c);
}

double space_draft(const struct space *s, const char *cand)
{
	struct sched c;
	s = rules_space(s, cand);
	if (sched_parse(s->t, cand, &c) < 0)
		return 1e30;
	return rules_draft(s, &c, NULL) / draft_ghz(&s->tg);
}

void space_structure(const char *cand, char out[CAND_MAX])
{
	size_t n = 0;
	for (; n < CAND_MAX - 1 && cand[n] && strncmp(cand + n, " | ", 3) != 0; n++)
		out[n] = cand[n];
	out[n] = 0;
}
