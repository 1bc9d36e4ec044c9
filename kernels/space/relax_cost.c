/* SPDX-License-Identifier: Apache-2.0 */
/* The draft of one stage (draft.c), smooth in its numbers. The draft counts full tiles and last tiles; this
 * file counts all tiles with their mean size. */
#include "kernels/space/relax_parts.h"

#include <math.h>

/* Relative size at which half of the data in a cache is lost: the middle of the draft's ramp. */
#define HALF_LOST(safe) ((safe) + .5)

struct stage_cost {
	struct tape *p;
	const struct tile_cost *c; /* draft of the sketch */
	const struct relaxed_stage *v;
	int stage;
	struct num units[MAX_AXES], count[MAX_AXES]; /* points, or vectors of them; number of tiles */
	struct num n[MAX_AXES];                      /* the mean tile; on reduction axes the unrolled steps */
	struct num steps;                            /* unrolled steps in one body */
	struct num parts;                            /* parts of a split reduction */
	struct num held;                             /* vectors of a window that stay in registers */
	struct num is_held;                          /* 0 to 1 */
	/* For panels of constants: `apart` is 1 if they come from the L2 for each tile and 0 if they come
	 * from the L1; `stream` is the cost of their bytes. */
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

/* Elements of a read that n[] points of each axis touch, counted as the draft does; points of axis `lane` are
 * vectors. */
static struct num touched(const struct stage_cost *f, int read, int lane, const struct num *n)
{
	const struct touch_form *t = &f->c->form[read];
	struct num all = num(1);
	for (int i = 0; i < t->n;) {
		struct num points = num(1), span = num(1); /* 1 + sum apart * (n - 1) */
		int d = t->term[i].dim;
		bool table = t->term[i].table;
		for (; i < t->n && t->term[i].dim == d; i++) {
			int a = t->term[i].axis;
			if (!n[a].at && n[a].v == 1)
				continue;
			double apart = t->term[i].apart * (a == lane ? f->c->s->lanes : 1);
			points = num_mul(f->p, points, n[a]);
			span = num_add(f->p, span, num_scale(f->p, n[a], apart));
			span.v -= apart;
		}
		all = num_mul(f->p, all, table ? points : num_min(f->p, span, points));
	}
	return all;
}

static struct num footprint(const struct stage_cost *f, int read, const struct num *n)
{
	return num_scale(f->p, touched(f, read, -1, n), f->c->bytes[read]);
}

static struct num points_of(const struct stage_cost *f, const struct num *n)
{
	return product(f->p, n, ~0u, 0, stage_spatial(f->c->st));
}

/* Registers that the body needs; *fixed: including values that are loaded once for many tiles. */
static struct num live(const struct stage_cost *f, struct num *fixed)
{
	const struct stage *st = f->c->st;
	const struct sstage *s = f->c->s;
	struct num all = num_mul(f->p, f->v->chains, points_of(f, f->v->tile));
	bool window = draft_slides(f->c->t, f->stage, s);
	int ns = stage_spatial(st), taps = 1;
	*fixed = num(0);
	for (int a = ns; a < st->naxes; a++)
		taps *= s->unroll[a] == st->axis[a].extent ? s->unroll[a] : 1;
	for (int i = 0; i < st->nreads; i++) {
		bool slides =
		    draft_read_slides(st, &st->read[i], f->c->t->operand[st->read[i].operand].dims.rank, s);
		if (!stage_in_body(st, i) || s->lane < 0)
			continue;
		if (!(f->c->axes[i] >> s->lane & 1))
			continue;
		struct num d = product(f->p, f->v->tile, f->c->axes[i], 0, ns);
		if (slides)
			d = num_min(f->p, d, num(WINDOW_LIVE));
		if (draft_read_stays(st, f->c->axes[i], s, window))
			*fixed = num_add(f->p, *fixed, num_scale(f->p, d, taps - 1));
		all = num_add(f->p, all, d);
	}
	return num_add(f->p, all, num(1));
}

/* Vectors that an item keeps from one of its tiles to the next, as kept() of the draft. */
static struct num kept(const struct stage_cost *f)
{
	struct stage_cost two = *f;
	int64_t shared;
	int axis = f->c->s->down_axis,
	    read = axis < 0 ? -1 : stage_down_read(f->c->t, f->c->st, f->c->s, &shared);
	if (read < 0)
		return num(0);
	two.n[axis] = num_scale(f->p, f->n[axis], 2);
	struct num some = touched(f, read, f->c->s->lane, f->n),
		   more = touched(f, read, f->c->s->lane, two.n);
	return num_max(f->p, num(0), num_sub(f->p, num_scale(f->p, some, 2), more));
}

/* Cycles a step that spills cost; *reloaded: loads per body of other values that should have stayed in
 * registers. */
static struct num spilled(const struct stage_cost *f, struct num *reloaded)
{
	struct num fixed, all = live(f, &fixed),
			  over = num_sub(f->p, num_add(f->p, all, kept(f)), num(f->c->regs - f->c->waiting));
	struct num some = num_sigmoid(f->p, num_scale(f->p, num_sub(f->p, over, num(.5)), 5));
	*reloaded = num_max(f->p, num(0), num_min(f->p, num_add(f->p, over, fixed), fixed));
	return num_add(f->p, num_scale(f->p, some, SPILL),
		       num_scale(f->p, num_above(f->p, num_sub(f->p, over, num(.5))), SPILLED));
}

/* Load slots of a step, which include the `reloaded` loads of a body; *post: loads at the end of a tile;
 * *stream: bytes of panels. */
static struct num loads(const struct stage_cost *f, struct num reloaded, struct num *post, struct num *stream)
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
		*stream =
		    num_add(f->p, *stream,
			    num_mul(f->p, f->stream[i], num_scale(f->p, d, f->c->bytes[i] * f->c->s->lanes)));
		sum =
		    num_add(f->p, sum, num_scale(f->p, touched(f, i, f->c->s->lane, f->n), f->c->access[i]));
	}
	sum = num_max(f->p, num_sub(f->p, sum, num_mul(f->p, f->held, f->is_held)), num(0));
	return num_div(f->p, num_add(f->p, sum, reloaded), f->steps);
}

/* Conversions of f16 weights in a step. */
static struct num conversions(const struct stage_cost *f)
{
	struct num sum = num(0);
	for (int i = 0; i < f->c->st->nreads; i++)
		if (f->c->converts[i] > 0)
			sum = num_add(f->p, sum,
				      product(f->p, f->n, f->c->axes[i], 0, stage_spatial(f->c->st)));
	return sum;
}

/* Cycles of one step of the reduction for a mean tile of `points` points. */
static struct num one_step(const struct stage_cost *f, struct num points, struct num load, struct num stream)
{
	struct tape *p = f->p;
	double loop = f->c->straight ? 0 : LOOP;
	if (f->c->s->prefetch && f->c->once)
		load = num_add(p, load, points);
	struct num work = num_add(p, num_scale(p, points, f->c->body), conversions(f)),
		   around = num_div(p, num(loop), f->steps),
		   slots = num_scale(p, num_add(p, num_add(p, work, load), around), 1. / 4),
		   step = num_norm(p, num_scale(p, load, 1 / f->c->loads), slots, 6);
	step = num_norm(p, num_scale(p, work, 1 / FMA_PER_CYCLE), step, 6);
	step = num_norm(p, step, num_scale(p, stream, 1 / f->c->l2), 12);
	return f->c->straight ? step : num_norm(p, step, num_div(p, num(LATENCY), f->v->chains), 12);
}

/* Cycles at the end of a tile: stores, combining of lanes, partial sums and chains. */
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
		    num_scale(p, post_loads, 1 / f->c->loads));
	struct num again = num_add(p, num_scale(p, num_sub(p, f->parts, num(1)), 1.5 + 1 / f->c->loads),
				   num_scale(p, num_sub(p, f->v->chains, num(1)), 1 / FMA_PER_CYCLE));
	return num_add(p, num_add(p, end, num_mul(p, again, points)), lanes);
}

static struct num one_tile(const struct stage_cost *f)
{
	struct tape *p = f->p;
	struct num reloaded, spill = spilled(f, &reloaded), post, stream,
			     load = loads(f, reloaded, &post, &stream), points = points_of(f, f->n);
	double call = f->c->straight ? STEP : CALL;
	struct num around = num_add(p, num(call), num_scale(p, f->is_held, WINDOW - call));
	struct num body = num_scale(p, num_add(p, one_step(f, points, load, stream), spill), f->c->steps);
	return num_add(p, num_add(p, body, num_mul(p, f->parts, around)), tile_end(f, points, post));
}

/* As draft_traffic(), for both levels at once: what the loops touch, the bytes of each read, and how much of
 * it was lost. */
struct moved {
	struct num n[MAX_AXES];
	struct num kept[MAX_OPERANDS + 1];               /* touched so far */
	struct num read[DRAFT_LEVELS][MAX_OPERANDS + 1]; /* bytes from the next level */
	struct num set[DRAFT_LEVELS], lost[DRAFT_LEVELS];
};

static void lose(const struct stage_cost *f, struct moved *m)
{
	static const double safe[DRAFT_LEVELS] = {L1_SAFE, L2_SAFE};
	const double cache[DRAFT_LEVELS] = {f->c->l1_bytes, f->c->l2_bytes};
	for (int l = 0; l < DRAFT_LEVELS; l++) {
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
	for (int l = 0; l < DRAFT_LEVELS; l++)
		m->set[l] = num(0);
	for (int i = 0; i <= f->c->st->nreads; i++) {
		struct num kept = m->kept[i] = footprint(f, i, m->n);
		for (int l = 0; l < DRAFT_LEVELS; l++) {
			struct num more =
			    num_max(p, num_sub(p, num_mul(p, m->read[l][i], count), kept), num(0));
			m->read[l][i] = num_add(p, kept, num_mul(p, m->lost[l], more));
			m->set[l] = num_add(p, m->set[l], m->read[l][i]);
		}
	}
}

/* Points of the first tile. The draft counts last tiles as whole here, except for windows. */
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
		struct num bytes = m->kept[i] = footprint(f, i, m->n);
		for (int l = 0; l < DRAFT_LEVELS; l++) {
			m->read[l][i] = bytes;
			m->set[l] = num_add(f->p, m->set[l], bytes);
		}
	}
}

/* Goes from the innermost loop outwards: blocks are around all tiles, parts are right inside of the parallel
 * loops. */
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

/* The share of a read that is no longer in the cache when the kernel starts. */
static struct num before(const struct stage_cost *f, const struct moved *m, int read, int level)
{
	const struct stage *st = f->c->st;
	const struct read *r = read < st->nreads ? &st->read[read] : &st->out;
	if (read < st->nreads && operand_packs(f->c->t, r->operand))
		return num(level == 0);
	double safe = level ? L2_SAFE : L1_SAFE, cache = level ? f->c->l2_bytes : f->c->l1_bytes;
	if (f->c->t->operand[r->operand].role != ROLE_TMP)
		return num(fmax(0, fmin(1, f->c->passing / cache - safe)));
	return num_switch(f->p, num_scale(f->p, m->set[level], 1 / (HALF_LOST(safe) * cache)));
}

/* Cycles that traffic into the L1 and into the L2 takes. */
static void traffic(const struct stage_cost *f, struct num cycles[DRAFT_LEVELS])
{
	const double rate[DRAFT_LEVELS] = {f->c->l2, f->c->l3};
	struct moved m = {.set = {{0}}};
	first_tile(f, &m);
	all_loops(f, &m);
	for (int l = 0; l < DRAFT_LEVELS; l++) {
		cycles[l] = num(0);
		for (int i = 0; i <= f->c->st->nreads; i++) {
			struct num here = num_sub(f->p, num(1), before(f, &m, i, l)),
				   bytes = num_sub(f->p, m.read[l][i], num_mul(f->p, here, m.kept[i]));
			if (l == 0 && i < f->c->st->nreads)
				bytes = num_mul(f->p, bytes, num_sub(f->p, num(1), f->apart[i]));
			cycles[l] = num_add(f->p, cycles[l], bytes);
		}
		cycles[l] = num_scale(f->p, cycles[l], 1 / rate[l]);
	}
}

/* Finds the panels of constants that the L1 does not keep for the next tile. */
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

/* Filters that stay in registers, if there are enough registers. */
static void window(struct stage_cost *f)
{
	int held = draft_window(f->c->t, f->stage, f->c->s);
	f->held = num(held);
	f->is_held = num(0);
	if (!held)
		return;
	struct num want = num_mul(f->p, f->v->chains, points_of(f, f->v->tile));
	struct num left = num_sub(f->p, num(f->c->regs - held - HELD_SPARE + .5), want);
	f->is_held = num_sigmoid(f->p, num_scale(f->p, left, 4));
}

static void open_axes(struct stage_cost *f, int axis, struct num rows)
{
	const struct stage *st = f->c->st;
	f->steps = num(f->c->narrow);
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

/* Number of tiles that use a panel of weights. */
static struct num passes(const struct stage_cost *f)
{
	int w = stage_weights(f->c->t, f->c->st, f->c->s->lane);
	return w < 0 ? num(1) : product(f->p, f->count, ~f->c->axes[w], 0, stage_spatial(f->c->st));
}

static struct num groups_of(const struct stage_cost *f, struct num items)
{
	double usual = f->c->tg->serial ? 1 : draft_item_group(f->c->s);
	struct num each = f->c->s->group ? f->v->group : num(usual);
	return num_max(f->p, num(1), num_ceil(f->p, num_div(f->p, items, each)));
}

/* Items, counted as if all units had as many groups as the busiest one. */
static struct num in_groups(const struct stage_cost *f, const struct item_rates *r, struct num items)
{
	struct tape *p = f->p;
	struct num group = num(draft_item_group(f->c->s)), groups = groups_of(f, items);
	if (f->c->s->group)
		group = num_max(p, f->v->group, num(ITEM_WARP));
	struct num rounds = num_max(p, num(1), num_ceil(p, num_scale(p, groups, 1. / r->units)));
	return num_scale(p, num_mul(p, rounds, group), r->units);
}

/* What one launch does, as in draft_items(). */
struct launch {
	struct num items, slots, chain, bodies, near;
	double far, resident;
};

static struct num launch_ns(const struct stage_cost *f, const struct item_rates *r, const struct launch *l)
{
	struct tape *p = f->p;
	struct num filled = num_max(p, in_groups(f, r, l->items), num(r->fill)),
		   ns = num_scale(p, num_mul(p, filled, l->slots), 1 / r->slots);
	struct num wait =
	    num_add(p, num_scale(p, l->chain, ITEM_LATENCY), num_scale(p, l->bodies, ITEM_LOAD_LATENCY));
	if (l->resident > 0)
		wait = num_mul(p, wait, num_max(p, num(1), num_scale(p, l->items, 1 / l->resident)));
	ns = num_norm(p, ns, num_scale(p, wait, 1 / ITEM_CLOCK), 2);
	ns = num_norm(p, ns, num_scale(p, l->near, 1 / r->near), 2);
	ns = num_norm(p, ns, num(l->far / r->far), 2);
	ns.v += r->launch;
	return ns;
}

/* Bytes of the sums of all parts. */
static struct num partial_bytes(const struct stage_cost *f)
{
	struct num vectors = product(f->p, f->units, ~0u, 0, stage_spatial(f->c->st));
	return num_scale(f->p, num_mul(f->p, vectors, f->parts), f->c->s->lanes * 4);
}

static struct launch sum_parts(const struct stage_cost *f)
{
	struct tape *p = f->p;
	int lanes = f->c->s->lanes;
	struct num slots = num_scale(p, f->parts, lanes + draft_item_load(lanes)), chain = f->parts;
	slots.v += lanes * f->c->post + draft_item_store(lanes) + ITEM_AROUND;
	chain.v += f->c->post;
	return (struct launch){.items = product(p, f->units, ~0u, 0, stage_spatial(f->c->st)),
			       .slots = slots,
			       .chain = chain,
			       .bodies = num(1),
			       .near = partial_bytes(f)};
}

/* As draft_items(). */
static struct num items_cost(const struct stage_cost *f, struct num items)
{
	struct tape *p = f->p;
	const struct item_rates r = draft_item_rates(f->c->tg);
	const struct sstage *s = f->c->s;
	double wide = s->lanes;
	struct num parts = s->spread ? f->parts : num(1), reloaded, post, stream, down = num(1),
		   spill = spilled(f, &reloaded), points = points_of(f, f->n),
		   steps = num_div(p, num(f->c->steps), parts);
	struct stage_cost all = *f; /* of an item's tiles */
	if (s->down_axis >= 0) {
		struct num tiles = f->count[s->down_axis];
		struct num each = num_max(p, num(1), num_ceil(p, num_div(p, tiles, f->v->down)));
		down = num_div(p, tiles, each);
		items = num_div(p, items, down);
		all.n[s->down_axis] = num_mul(p, f->n[s->down_axis], down);
		points = num_mul(p, points, down);
	}
	struct num load = num_mul(p, loads(&all, num(0), &post, &stream), steps),
		   bodies = num_div(p, steps, f->steps), work = num_scale(p, steps, wide * f->c->body);
	work.v += (s->spread ? 0 : wide * f->c->post) + draft_item_store(s->lanes);
	struct num slots =
	    num_add(p, num_mul(p, points, work), num_scale(p, load, draft_item_load(s->lanes)));
	slots = num_add(p, slots,
			num_mul(p, num_mul(p, bodies, down),
				num_add(p, num(ITEM_BODY), num_scale(p, spill, ITEM_SPILL))));
	slots.v += ITEM_AROUND;
	items = num_mul(p, items, parts);
	struct num waits = num_scale(p, down, ITEM_AHEAD);
	waits.v += 1 - ITEM_AHEAD;
	struct num near =
	    num_scale(p, num_mul(p, items, load), s->lanes * 4 * ITEM_SHARED + draft_beyond(f->c, NULL));
	near = num_add(p, near, num_scale(p, num_mul(p, items, points), f->c->beyond[f->c->st->nreads]));
	struct launch first = {.items = items,
			       .slots = slots,
			       .chain = num_div(p, slots, num_max(p, num(1), points_of(f, f->n))),
			       .bodies = num_mul(p, bodies, waits),
			       .near = s->spread ? num_add(p, near, partial_bytes(f)) : near,
			       .far = f->c->passing,
			       /* it moves in steps: the sketch's own */
			       .resident = draft_resident(f->c->tg, s, f->c->live, 0)};
	struct num ns = launch_ns(f, &r, &first);
	if (s->spread) {
		struct launch second = sum_parts(f);
		ns = num_add(p, ns, launch_ns(f, &r, &second));
	}
	return num_scale(p, ns, draft_ghz(f->c->tg));
}

/* As all_groups() of the draft. */
static struct num all_groups(const struct stage_cost *f, struct num core, struct num items)
{
	struct tape *p = f->p;
	const struct tile_cost *c = f->c;
	if (c->t->nstages > 1)
		return core;
	if (c->s->spread) {
		struct num one = f->parts, vectors = product(p, f->units, ~0u, 0, stage_spatial(c->st));
		one.v += UNIT_GROUP;
		core = num_add(p, core, num_mul(p, vectors, one));
		items = num_mul(p, items, f->parts);
	}
	return num_add(p, core, num_scale(p, groups_of(f, items), UNIT_GROUP));
}

struct num relax_stage_cost(const struct relaxed *v, int stage, int axis, struct num rows)
{
	struct stage_cost f;
	struct num from[DRAFT_LEVELS];
	struct tape *p = v->p;
	open_stage(&f, v, stage);
	open_axes(&f, axis, rows);
	window(&f);
	streams(&f);
	struct num tiles = product(p, f.count, ~0u, 0, stage_spatial(f.c->st));
	const struct target *tg = f.c->tg;
	if (target_runs_items(tg) && !tg->serial)
		return items_cost(&f, tiles);
	struct num core = num_mul(p, tiles, one_tile(&f));
	traffic(&f, from);
	if (tg->serial)
		core = all_groups(&f, core, tiles);
	struct num all = num_norm(p, num_norm(p, core, from[0], 4), from[1], 2);
	if (tg->serial)
		return all;
	struct num cold = num(draft_cold(f.c));
	if (f.c->once)
		return num_add(p, num_norm(p, all, cold, 6), num_scale(p, core, BESIDE));
	if (f.c->s->prefetch || cold.v <= 0)
		return num_norm(p, all, cold, 6);
	return num_add(p, all, num_max(p, num(0), num_sub(p, cold, num_div(p, core, passes(&f)))));
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
	struct num fixed, all = num_add(v->p, live(&f, &fixed), kept(&f));
	sum = relax_excess(v->p, sum, num_add(v->p, all, fixed), f.c->regs);
	if (f.c->s->down_axis >= 0)
		sum = relax_excess(v->p, sum, num_mul(v->p, body, f.v->down), DOWN_PRODUCTS);
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
