/* SPDX-License-Identifier: Apache-2.0 */
/* The draft of one stage (draft.c), smooth in its numbers. Where that counts full tiles and last ones, this
 * counts as many tiles as there are, all of the mean size. */
#include "kernels/relax_parts.h"

#include <math.h>

/* Points where half of what is held is lost: the middle of the draft's ramp. */
#define HALF_LOST(safe) ((safe) + .5)

struct stage_cost {
	struct tape *p;
	const struct tile_cost *c; /* of the sketch */
	const struct relaxed_stage *v;
	int stage;
	struct num units[MAX_AXES], count[MAX_AXES]; /* points, or vectors of them; tiles of them */
	struct num n[MAX_AXES];                      /* the mean tile; unrolled steps */
	struct num steps;                            /* unrolled, in one body */
	struct num parts;                            /* of a split reduction */
	struct num held;                             /* vectors of a window in registers */
	struct num is_held;                          /* 0 to 1 */
	/* Of panels of constants: 1 where they come from the L2 for each tile, not from the L1, and the cost
	 * of their bytes. */
	struct num apart[MAX_OPERANDS], stream[MAX_OPERANDS];
};

static struct num product(struct tape *p, const struct num *n, unsigned axes, int from, int to)
{
	struct num all = num(1);
	for (int a = from; a < to; a++)
		if (axes >> a & 1)
			all = num_mul(p, all, n[a]);
	return all;
}

/* Elements of a read that n[] points of each axis touch, as the draft counts them; those of axis `lane` are
 * vectors. */
static struct num touched(const struct stage_cost *f, const struct read *r, int lane, const struct num *n)
{
	struct num all = num(1);
	unsigned seen = 0;
	for (int d = 0; d < f->c->t->operand[r->operand].dims.rank; d++) {
		struct num points = num(1), span = num(1); /* 1 + sum apart * (n - 1) */
		for (int a = 0; a < f->c->st->naxes; a++) {
			int64_t c = r->dim[d].coef[a];
			if (!c || seen >> a & 1 || (!n[a].at && n[a].v == 1))
				continue;
			seen |= 1u << a;
			double apart = (IS_SYM(c) ? 1 : fabs((double)c)) * (a == lane ? f->c->s->lanes : 1);
			points = num_mul(f->p, points, n[a]);
			span = num_add(f->p, span, num_scale(f->p, n[a], apart));
			span.v -= apart;
		}
		all = num_mul(f->p, all, r->dim[d].table < 0 ? num_min(f->p, span, points) : points);
	}
	return all;
}

static struct num footprint(const struct stage_cost *f, int read, const struct num *n)
{
	const struct read *r = read < f->c->st->nreads ? &f->c->st->read[read] : &f->c->st->out;
	return num_scale(f->p, touched(f, r, -1, n), 4);
}

static struct num points_of(const struct stage_cost *f, const struct num *n)
{
	return product(f->p, n, ~0u, 0, stage_spatial(f->c->st));
}

static struct num live(const struct stage_cost *f)
{
	const struct stage *st = f->c->st;
	const struct sstage *s = f->c->s;
	struct num all = num_mul(f->p, f->v->chains, points_of(f, f->v->tile));
	bool window = draft_slides(f->c->t, f->stage, s);
	int ns = stage_spatial(st), taps = 1;
	for (int a = ns; a < st->naxes; a++)
		taps *= s->unroll[a] == st->axis[a].extent ? s->unroll[a] : 1;
	for (int i = 0; i < st->nreads; i++) {
		if (!stage_in_body(st, i) || s->lane < 0 || !(f->c->axes[i] >> s->lane & 1))
			continue;
		struct num d = product(f->p, f->v->tile, f->c->axes[i], 0, ns);
		if (draft_read_slides(st, &st->read[i], f->c->t->operand[st->read[i].operand].dims.rank, s))
			d = num_min(f->p, d, num(WINDOW_LIVE));
		if (draft_read_stays(st, f->c->axes[i], s, window))
			d = num_scale(f->p, d, taps);
		all = num_add(f->p, all, d);
	}
	return num_add(f->p, all, num(1));
}

/* Cycles a step that registers too many take. */
static struct num spilled(const struct stage_cost *f)
{
	struct num over = num_sub(f->p, live(f), num(f->c->tg->regs));
	struct num some = num_sigmoid(f->p, num_scale(f->p, num_sub(f->p, over, num(.5)), 5));
	return num_add(f->p, num_scale(f->p, some, SPILL),
		       num_scale(f->p, num_above(f->p, num_sub(f->p, over, num(.5))), SPILLED));
}

static bool straight(const struct stage_cost *f)
{
	for (int a = stage_spatial(f->c->st); a < f->c->st->naxes; a++)
		if (f->c->s->unroll[a] != f->c->st->axis[a].extent)
			return false;
	return true;
}

/* What a step loads, in slots; *post: of what a tile's end reads; *stream: bytes of panels. */
static struct num loads(const struct stage_cost *f, struct num *post, struct num *stream)
{
	const struct stage *st = f->c->st;
	struct num sum = num(0);
	*post = *stream = num(0);
	for (int i = 0; i < st->nreads; i++) {
		struct num d = num_scale(f->p, product(f->p, f->n, f->c->axes[i], 0, stage_spatial(st)),
					 f->c->access[i]);
		if (!stage_in_body(st, i)) {
			*post = num_add(f->p, *post, d);
			continue;
		}
		*stream = num_add(f->p, *stream,
				  num_mul(f->p, f->stream[i], num_scale(f->p, d, 4 * f->c->s->lanes)));
		sum =
		    num_add(f->p, sum,
			    num_scale(f->p, touched(f, &st->read[i], f->c->s->lane, f->n), f->c->access[i]));
	}
	sum = num_max(f->p, num_sub(f->p, sum, num_mul(f->p, f->held, f->is_held)), num(0));
	return num_div(f->p, sum, f->steps);
}

/* One step of the reduction for a mean tile of so many points. */
static struct num one_step(const struct stage_cost *f, struct num points, struct num load, struct num stream)
{
	struct tape *p = f->p;
	if (f->c->s->prefetch && f->c->once)
		load = num_add(p, load, points);
	struct num work = num_scale(p, points, f->c->body),
		   slots = num_scale(p, num_add(p, work, load), 1. / 4),
		   step = num_norm(p, num_scale(p, load, 1 / LOADS_PER_CYCLE), slots, 6);
	step = num_norm(p, num_scale(p, work, 1 / FMA_PER_CYCLE), step, 6);
	step = num_norm(p, step, num_scale(p, stream, 1 / f->c->l2), 12);
	if (!straight(f))
		step = num_norm(p, step, num_div(p, num(LATENCY), f->v->chains), 12);
	return num_add(p, step, spilled(f));
}

/* Sums stored, of lanes that become one too; partial sums and chains. */
static struct num tile_end(const struct stage_cost *f, struct num points, struct num post_loads)
{
	struct tape *p = f->p;
	bool across = f->c->s->lane >= stage_spatial(f->c->st);
	struct num ends = points, lanes = num(0);
	if (across) {
		ends = num_max(p, num(1), num_ceil(p, num_scale(p, points, 1. / f->c->s->lanes)));
		lanes = num_add(p, num_scale(p, ends, ACROSS), num_scale(p, points, 2));
	}
	struct num end =
	    num_add(p, num_scale(p, ends, f->c->post / FMA_PER_CYCLE + f->c->access[f->c->st->nreads] * 1.5),
		    num_scale(p, post_loads, 1 / LOADS_PER_CYCLE));
	struct num again = num_add(p, num_scale(p, num_sub(p, f->parts, num(1)), 1.5 + 1 / LOADS_PER_CYCLE),
				   num_scale(p, num_sub(p, f->v->chains, num(1)), 1 / FMA_PER_CYCLE));
	return num_add(p, num_add(p, end, num_mul(p, again, points)), lanes);
}

static struct num one_tile(const struct stage_cost *f)
{
	struct tape *p = f->p;
	struct num post, stream, load = loads(f, &post, &stream), points = points_of(f, f->n);
	double call = straight(f) ? STEP : CALL;
	struct num around = num_add(p, num(call), num_scale(p, f->is_held, WINDOW - call));
	struct num body = num_scale(p, one_step(f, points, load, stream), f->c->steps);
	return num_add(p, num_add(p, body, num_mul(p, f->parts, around)), tile_end(f, points, post));
}

/* As traffic() of the draft, for both levels at once: what loops touch, bytes of each read, and how much of
 * it did not stay. */
enum { LEVELS = 2 };
struct moved {
	struct num n[MAX_AXES];
	struct num kept[MAX_OPERANDS + 1];         /* touched so far */
	struct num read[LEVELS][MAX_OPERANDS + 1]; /* come from the next level */
	struct num set[LEVELS], lost[LEVELS];
};

static void lose(const struct stage_cost *f, struct moved *m)
{
	static const double safe[LEVELS] = {L1_SAFE, L2_SAFE};
	const double cache[LEVELS] = {f->c->l1_bytes, f->c->l2_bytes};
	for (int l = 0; l < LEVELS; l++) {
		struct num full = num_scale(f->p, m->set[l], 1 / (HALF_LOST(safe[l]) * cache[l]));
		m->lost[l] = num_max(f->p, m->lost[l], num_switch(f->p, full));
	}
}

static void again(const struct stage_cost *f, struct moved *m, int axis, struct num count)
{
	struct tape *p = f->p;
	if (count.v <= 1 && !count.at)
		return;
	lose(f, m);
	m->n[axis] = num_mul(p, m->n[axis], count);
	for (int l = 0; l < LEVELS; l++)
		m->set[l] = num(0);
	for (int i = 0; i <= f->c->st->nreads; i++) {
		struct num kept = footprint(f, i, m->n);
		for (int l = 0; l < LEVELS; l++) {
			struct num more =
			    num_max(p, num_sub(p, num_mul(p, m->read[l][i], count), kept), num(0));
			m->read[l][i] = num_add(p, kept, num_mul(p, m->lost[l], more));
			m->set[l] = num_add(p, m->set[l], m->read[l][i]);
		}
	}
}

/* The draft lets last tiles be whole here, but for windows. */
static struct num first_points(const struct stage_cost *f, int a)
{
	if (a == f->c->s->split_axis)
		return f->v->split;
	if (a >= stage_spatial(f->c->st))
		return num((double)extent_guess(f->c->st->axis[a].extent));
	return num_scale(f->p, f->held.v > 0 ? f->n[a] : f->v->tile[a],
			 a == f->c->s->lane ? f->c->s->lanes : 1);
}

static void first_tile(const struct stage_cost *f, struct moved *m)
{
	for (int a = 0; a < f->c->st->naxes; a++)
		m->n[a] = first_points(f, a);
	for (int i = 0; i <= f->c->st->nreads; i++) {
		struct num bytes = footprint(f, i, m->n);
		for (int l = 0; l < LEVELS; l++) {
			m->read[l][i] = bytes;
			m->set[l] = num_add(f->p, m->set[l], bytes);
		}
	}
}

/* From the innermost loop out; blocks around all tiles; parts right inside of parallel loops. */
static void all_loops(const struct stage_cost *f, struct moved *m)
{
	const struct sstage *s = f->c->s;
	int ns = stage_spatial(f->c->st), nouter = 0;
	bool parted = s->split_axis >= 0;
	for (int a = 0; a < ns; a++)
		nouter += s->outer[a];
	for (int j = 2 * ns - 1; j >= 0; j--) {
		int a = s->order[j % ns];
		bool blocks = s->outer[a] && s->block[a];
		struct num count = f->count[a];
		if (parted && nouter + j - ns < s->par) {
			again(f, m, s->split_axis, f->parts);
			parted = false;
		}
		if (j >= ns)
			again(f, m, a, blocks ? num_min(f->p, f->v->block[a], count) : count);
		else if (blocks)
			again(f, m, a,
			      num_max(f->p, num(1), num_ceil(f->p, num_div(f->p, count, f->v->block[a]))));
	}
}

/* Cycles that traffic into the L1 and into the L2 takes. */
static void traffic(const struct stage_cost *f, struct num *from_l2, struct num *from_l3)
{
	struct moved m = {.set = {{0}}};
	first_tile(f, &m);
	all_loops(f, &m);
	*from_l2 = *from_l3 = num(0);
	for (int i = 0; i <= f->c->st->nreads; i++) {
		struct num bytes = m.read[0][i];
		if (i < f->c->st->nreads)
			bytes = num_mul(f->p, bytes, num_sub(f->p, num(1), f->apart[i]));
		*from_l2 = num_add(f->p, *from_l2, bytes);
		*from_l3 = num_add(f->p, *from_l3, m.read[1][i]);
	}
	*from_l2 = num_scale(f->p, *from_l2, 1 / f->c->l2);
	*from_l3 = num_scale(f->p, *from_l3, 1 / f->c->l3);
}

/* Panels of constants that the L1 does not hold for the next tile. */
static void streams(struct stage_cost *f)
{
	const struct stage *st = f->c->st;
	struct num n[MAX_AXES];
	for (int a = 0; a < st->naxes; a++) {
		double all = (double)extent_guess(st->axis[a].extent),
		       lanes = a == f->c->s->lane ? f->c->s->lanes : 1;
		n[a] = f->c->once || (a >= stage_spatial(st) && a != f->c->s->split_axis)
			   ? num(all)
			   : num_scale(f->p, f->v->tile[a], lanes);
		if (a == f->c->s->split_axis && !f->c->once)
			n[a] = f->v->split;
	}
	for (int i = 0; i < st->nreads; i++) {
		f->apart[i] = f->stream[i] = num(0);
		if (!operand_packs(f->c->t, st->read[i].operand) || !stage_in_body(st, i))
			continue;
		struct num panel = footprint(f, i, n);
		struct num rate =
		    num_add(f->p, num(draft_stream(0, f->c)),
			    num_scale(f->p, panel, draft_stream(1, f->c) - draft_stream(0, f->c)));
		f->apart[i] = num_switch(f->p, num_scale(f->p, panel, 2 / f->c->l1_bytes));
		f->stream[i] = num_mul(f->p, f->apart[i], rate);
	}
}

/* Filters that stay in registers, if those are enough. */
static void window(struct stage_cost *f)
{
	int held = draft_window(f->c->t, f->stage, f->c->s);
	f->held = num(held);
	f->is_held = num(0);
	if (!held)
		return;
	struct num want = num_mul(f->p, f->v->chains, points_of(f, f->v->tile));
	struct num left = num_sub(f->p, num(f->c->tg->regs - held - HELD_SPARE + .5), want);
	f->is_held = num_sigmoid(f->p, num_scale(f->p, left, 4));
}

static void open_axes(struct stage_cost *f, int axis, struct num rows)
{
	const struct stage *st = f->c->st;
	f->steps = num(1);
	for (int a = 0; a < st->naxes; a++) {
		double extent = (double)extent_guess(st->axis[a].extent),
		       lanes = a == f->c->s->lane ? f->c->s->lanes : 1;
		f->n[a] = f->v->tile[a];
		if (a >= stage_spatial(st)) {
			f->steps = num_mul(f->p, f->steps, f->n[a]);
			continue;
		}
		f->units[a] = a == axis ? num_min(f->p, rows, num(extent)) : num(ceil(extent / lanes));
		struct num tiles = num_ceil(f->p, num_div(f->p, f->units[a], f->v->tile[a]));
		f->count[a] = num_max(f->p, num(1), tiles);
		f->n[a] = num_min(f->p, f->n[a], num_div(f->p, f->units[a], f->count[a]));
	}
	f->parts = num(1);
	int a = f->c->s->split_axis;
	if (a >= 0)
		f->parts = num_ceil(f->p, num_div(f->p, num((double)st->axis[a].extent), f->v->split));
}

static void open_stage(struct stage_cost *f, const struct relaxed *v, int stage)
{
	f->p = v->p;
	f->c = &v->r->draft[stage];
	f->v = &v->st[stage];
	f->stage = stage;
}

struct num relax_stage_cost(const struct relaxed *v, int stage, int axis, struct num rows)
{
	struct stage_cost f;
	struct num from_l2, from_l3;
	struct tape *p = v->p;
	open_stage(&f, v, stage);
	open_axes(&f, axis, rows);
	window(&f);
	streams(&f);
	struct num tiles = product(p, f.count, ~0u, 0, stage_spatial(f.c->st)),
		   core = num_mul(p, tiles, one_tile(&f));
	traffic(&f, &from_l2, &from_l3);
	struct num all = num_norm(p, num_norm(p, core, from_l2, 6), from_l3, 2);
	struct num cold = num(draft_cold(f.c));
	if (f.c->once)
		return num_add(p, num_norm(p, all, cold, 6), num_scale(p, core, BESIDE));
	return f.c->s->prefetch ? num_norm(p, all, cold, 6) : num_add(p, all, cold);
}

struct num relax_excess(struct tape *p, struct num sum, struct num left, double right)
{
	struct num over = num_sub(p, num_log(p, left), num(log(right)));
	return over.v > 0 ? num_add(p, sum, num_mul(p, over, over)) : sum;
}

struct num relax_stage_penalty(const struct relaxed *v, int stage)
{
	struct stage_cost f;
	struct num sum = num(0);
	open_stage(&f, v, stage);
	const struct stage *st = f.c->st;
	int ns = stage_spatial(st);
	open_axes(&f, -1, num(0));
	struct num points = points_of(&f, f.v->tile), body = num_mul(v->p, points, f.steps);
	sum = relax_excess(v->p, sum, live(&f), f.c->tg->regs);
	sum = relax_excess(v->p, sum, points, SCHED_TILE);
	sum = relax_excess(v->p, sum, num_scale(v->p, body, prog_weight(&st->body)), 4 * SCHED_POINTS);
	sum = relax_excess(v->p, sum, num_scale(v->p, points, prog_weight(&st->post)), 4 * SCHED_POINTS);
	sum = relax_excess(v->p, sum, body, RELAX_BODY);
	if (f.steps.at || f.v->chains.at)
		sum = relax_excess(v->p, sum, num_div(v->p, f.v->chains, f.steps), 1);
	for (int a = 0; a < ns; a++)
		if (f.c->s->outer[a] && f.c->s->block[a])
			sum = relax_excess(v->p, sum, num_div(v->p, f.v->block[a], f.count[a]), 1);
	return sum;
}
