/* SPDX-License-Identifier: Apache-2.0 */
/* Checks everything that lowering relies on. */
#include "kernels/space/mmla.h"
#include "kernels/space/quads.h"
#include "kernels/space/sched.h"
#include "kernels/space/frag.h"
#include "kernels/space/share.h"
#include "kernels/space/winograd.h"

#include <string.h>

static int check_order(const struct stage *st, const struct sstage *s, int ns)
{
	unsigned seen = 0;
	for (int i = 0; i < st->naxes; i++) {
		int a = s->order[i];
		if (a >= st->naxes || seen >> a & 1 || (i < ns) != (a < ns))
			return fail(E_INFEASIBLE,
				    "order: must name the spatial axes, then the reduction axes, each once");
		seen |= 1u << a;
	}
	return E_OK;
}

/* Whether lanes past the end of a reduction add nothing to a sum of whole numbers: there are none, or loads
 * give 0 there. (A load that a guard skips gives the fill value in all lanes.) */
static bool whole_ends(const struct task *t, const struct stage *st, const struct sstage *s)
{
	int64_t e = st->axis[s->lane].extent;
	bool zero = false;
	if (!IS_SYM(e) && e % s->lanes == 0)
		return true;
	for (int i = 0; i < st->nreads; i++) {
		const struct operand *o = &t->operand[st->read[i].operand];
		if (stage_in_body(st, i) && read_axes(t, st, &st->read[i]) >> s->lane & 1 && o->fill == 0)
			zero = true;
	}
	return zero;
}

int sched_check_lane(const struct task *t, const struct target *tg, const struct stage *st,
		     const struct sstage *s)
{
	int ns = stage_spatial(st);
	if (s->lane < 0)
		return s->lanes == 1 ? E_OK : fail(E_INFEASIBLE, "lanes without an axis");
	int least = target_runs_items(tg) ? 2 : 4, most = target_most_lanes(tg);
	if (s->lanes < least || s->lanes > most || (s->lanes & (s->lanes - 1)))
		return fail(E_INFEASIBLE, "%d lanes: not a power of two from %d to the target's %d", s->lanes,
			    least, most);
	if (s->lane >= ns && s->order[st->naxes - 1] != s->lane)
		return fail(E_INFEASIBLE, "lanes along a reduction that is not the innermost loop");
	if (s->lane >= ns && stage_whole(t, st) && !whole_ends(t, st, s))
		return fail(E_INFEASIBLE, "lanes of %s past its end would count", st->axis[s->lane].name);
	for (int i = 0; i <= st->nreads; i++) {
		const struct read *r = i < st->nreads ? &st->read[i] : &st->out;
		int64_t stride;
		bool pads;
		if (operand_packs(t, r->operand))
			continue;
		int rc = read_stride(t, st, r, s->lane, s->lanes, &stride, &pads);
		if (rc < 0)
			return rc;
		for (int d = 0; d < t->operand[r->operand].dims.rank; d++)
			if (r->dim[d].coef[s->lane] && index_guarded(t, st, r, d))
				return fail(E_INFEASIBLE, "lanes of %s would leave %s",
					    st->axis[s->lane].name, t->operand[r->operand].name);
	}
	return E_OK;
}

static int check_unroll(const struct task *t, const struct stage *st, const struct sstage *s, int a)
{
	int64_t e = st->axis[a].extent, u = s->unroll[a], b = axis_block(t, st, a);
	const char *name = st->axis[a].name;
	if (u == 1)
		return E_OK;
	if (IS_SYM(e))
		return fail(E_INFEASIBLE, "unroll of %s, whose extent is not known", name);
	if (u > e)
		return fail(E_INFEASIBLE, "unroll of %s exceeds its extent", name);
	if (a == s->lane ? u > e / s->lanes : u < e && b > 1 && e > b && (b % u || e % b % u))
		return fail(E_INFEASIBLE, "unroll of %s does not divide its blocks", name);
	return E_OK;
}

static int check_split(const struct task *t, const struct stage *st, const struct sstage *s, int ns)
{
	int a = s->split_axis;
	if (a < 0)
		return E_OK;
	int64_t e = st->axis[a].extent;
	if (!stage_splits(t, st))
		return fail(E_INFEASIBLE, "split: the output cannot hold partial sums");
	if (a < ns || a == s->lane || t->nstages > 1 || IS_SYM(e) || s->split >= e || s->split < 1)
		return fail(E_INFEASIBLE, "split: not a part of a reduction axis of a single stage");
	if (s->split % axis_block(t, st, a) || s->split % s->unroll[a] || e % s->split % s->unroll[a])
		return fail(E_INFEASIBLE, "split of %s: not in whole blocks and unrolled steps",
			    st->axis[a].name);
	return E_OK;
}

static int check_spread(const struct task *t, const struct target *tg, const struct stage *st,
			const struct sstage *s, int ns)
{
	if (!s->spread)
		return E_OK;
	bool tiles = s->par == ns && s->lane < ns && !s->quads && !s->mmla, known = true;
	for (int a = 0; a < ns; a++) {
		tiles &= !s->outer[a];
		known &= !IS_SYM(st->axis[a].extent);
	}
	if (!target_runs_items(tg) || s->split_axis < 0 || stage_sum(t, st) != SUM_FLOAT || !tiles || !known)
		return fail(E_INFEASIBLE,
			    "spread: only of a split sum of floats, whose tiles are work items");
	int64_t parts = stage_parts(st, s);
	return parts > SPREAD_PARTS || stage_vector_points(st, s) > SPREAD_BYTES / 4 / parts
		   ? fail(E_INFEASIBLE, "spread: more than %d parts, or over %d MB of sums", SPREAD_PARTS,
			  SPREAD_BYTES >> 20)
		   : E_OK;
}

/* Number of copies of the body in the code: full and last tiles of each axis, with and without guards. */
static int64_t copies(const struct task *t, const struct stage *st, const struct sstage *s, int ns)
{
	int64_t n = 1;
	for (int a = 0; a < st->naxes; a++) {
		int64_t e = st->axis[a].extent, step = a < ns ? s->tile[a] : s->unroll[a];
		step *= a == s->lane ? s->lanes : 1;
		n *= IS_SYM(e) ? (a < ns && step > 1 ? 3 : 1) : e > step && e % step ? 2 : 1;
	}
	for (int i = 0; i < st->nreads; i++)
		for (int d = 0; d < t->operand[st->read[i].operand].dims.rank; d++)
			if (index_guarded(t, st, &st->read[i], d))
				return 2 * n;
	return n;
}

static int check_tile(const struct task *t, const struct stage *st, const struct sstage *s, int ns, int first)
{
	int64_t points = 1, steps = 1;
	for (int a = 0; a < ns; a++) {
		int64_t e = st->axis[a].extent, unit = a == s->lane ? s->lanes : 1;
		if (s->tile[a] < 1 || s->tile[a] > SCHED_TILE ||
		    (a < first && (s->tile[a] > 1 || a == s->lane)))
			return fail(E_INFEASIBLE,
				    "tile of %s: more than %d, or of an axis that the stages share",
				    st->axis[a].name, SCHED_TILE);
		if (!IS_SYM(e) && s->tile[a] > 1 && (s->tile[a] - 1) * unit >= e)
			return fail(E_INFEASIBLE, "tile of %s exceeds its extent", st->axis[a].name);
		if ((points *= s->tile[a]) > SCHED_TILE)
			return fail(E_INFEASIBLE, "register tile of more than %d points", SCHED_TILE);
	}
	for (int a = ns; a < st->naxes; a++)
		steps *= s->unroll[a] > SCHED_POINTS ? SCHED_POINTS : s->unroll[a];
	int64_t body = points * steps * prog_weight(&st->body), post = points * prog_weight(&st->post);
	if ((points * steps > 1 && body > 4 * SCHED_POINTS) || (points > 1 && post > 4 * SCHED_POINTS) ||
	    (points * steps > 1 && (body + post) * copies(t, st, s, ns) > 16 * SCHED_POINTS) ||
	    points * s->chains > SCHED_POINTS)
		return fail(E_INFEASIBLE, "body of %lld points x %lld steps is too large", (long long)points,
			    (long long)steps);
	if (s->chains < 1 || s->chains > steps || (s->chains > 1 && st->comb == COMB_NONE))
		return fail(E_INFEASIBLE, "chains: more than unrolled steps");
	return E_OK;
}

static int check_par(const struct task *t, const struct stage *st, const struct sstage *s, int ns)
{
	int nouter = 0;
	for (int a = 0; a < st->naxes; a++) {
		if (!s->outer[a])
			continue;
		if (a >= ns || t->nstages > 1)
			return fail(E_INFEASIBLE, "outer: only possible for spatial axes of a single stage");
		nouter++;
	}
	if (s->par > nouter + ns || (t->nstages > 1 && s->par))
		return fail(E_INFEASIBLE, "par: more loops than the schedule has");
	for (int i = 0; i < s->par - nouter; i++)
		if (s->outer[s->order[i]])
			return fail(E_INFEASIBLE, "par: tiles of %s lie in a block",
				    st->axis[s->order[i]].name);
	return E_OK;
}

/* Whether the lane distance along the axis does not depend on the number of rows: in memory, all dims that
 * the axis indexes lie inside of dim `row`. */
static bool inside_rows(const struct operand *o, const struct read *r, int axis, int row)
{
	bool inside = false;
	for (int j = 0; j < (o->layout.n ? o->layout.n : o->dims.rank); j++) {
		int d = o->layout.n ? o->layout.ax[j].dim : j;
		if (r->dim[d].coef[axis] && !inside)
			return false;
		inside |= d == row;
	}
	return true;
}

/* Whether the distance along the axis depends on the rows that a ring keeps of the operand. */
static bool rows_between(const struct task *t, const struct ring *ring, const struct read *r, int axis)
{
	int row = ring->dim[r->operand];
	return row >= 0 && axis >= 0 && !inside_rows(&t->operand[r->operand], r, axis, row);
}

/* Whether a vector of quads or of neighbouring points reaches from one row to the next. */
static bool joins_rows(const struct task *t, const struct stage *st, const struct sstage *s,
		       const struct ring *ring)
{
	struct quads q;
	struct mmla m;
	if (s->quads && stage_quads(t, st, s, &q) >= 0)
		return rows_between(t, ring, &st->read[q.image], q.tap) ||
		       rows_between(t, ring, &st->out, q.pixel);
	return s->mmla && stage_mmla(t, st, s, &m) >= 0 && !m.run &&
	       rows_between(t, ring, &st->read[m.image], m.pixel);
}

/* Checks that rows are not in lanes, that tiles span rows only if a step has whole tiles, and that no vector
 * of an intermediate reaches from one row to the next. */
static int check_ring(const struct task *t, const struct sched *s)
{
	const struct sstage *last = &s->st[t->nstages - 1];
	struct ring ring;
	for (int i = 0; i < t->nstages - 1; i++)
		if (s->st[i].ring_axis >= 0)
			return fail(E_INFEASIBLE, "ring: not in the last stage");
	int rc = last->ring_axis < 0 ? E_OK : task_ring(t, last->ring_axis, last->ring, &ring);
	for (int i = 0; i < t->nstages && last->ring_axis >= 0 && rc >= 0; i++) {
		const struct stage *st = &t->stage[i];
		const struct sstage *ss = &s->st[i];
		int axis = ring.st[i].axis, tile = axis < 0 ? 1 : ss->tile[axis];
		if (axis >= 0 &&
		    (ss->lane == axis || ring.rows % tile || (tile > 1 && !ring_whole(&ring, i))))
			return fail(E_INFEASIBLE, "ring: rows of stage %d in lanes or tiles", i);
		if (joins_rows(t, st, ss, &ring))
			return fail(E_INFEASIBLE, "ring: neighbours in other rows");
		for (int k = 0; k <= st->nreads && ss->lane >= 0; k++) {
			const struct read *r = k < st->nreads ? &st->read[k] : &st->out;
			int64_t stride = 0;
			bool pads;
			int row = ring.dim[r->operand];
			if (t->operand[r->operand].role == ROLE_TMP &&
			    ((row >= 0 && r->dim[row].coef[ss->lane]) ||
			     read_stride(t, st, r, ss->lane, ss->lanes, &stride, &pads) < 0 || stride < 0 ||
			     (stride > 1 &&
			      (row < 0 || !inside_rows(&t->operand[r->operand], r, ss->lane, row)))))
				return fail(E_INFEASIBLE, "ring: lanes of %s lie apart",
					    t->operand[r->operand].name);
		}
	}
	return rc;
}

static int check_w16(const struct task *t, const struct target *tg, const struct stage *st,
		     const struct sstage *s)
{
	if (s->w16 && !target_converts_f16(tg))
		return fail(E_INFEASIBLE, "w16: %s does not convert f16", tg->isa);
	return s->w16 && stage_stored(t, st, s) < 0
		   ? fail(E_INFEASIBLE, "w16: the stage has no packed weights of its own")
		   : E_OK;
}

static int check_texture(const struct task *t, const struct target *tg, const struct stage *st,
			 const struct sstage *s)
{
	const char *why = !target_textures(tg)         ? "the device has none"
			  : s->wino.m                  ? "not with winograd"
			  : stage_stored(t, st, s) < 0 ? "the stage has no packed weights of its own"
			  : s->lanes % 4 || s->prefetch
			      ? "only for vectors of 4, 8 or 16 lanes, not prefetched"
			      : NULL;
	return s->texture && why ? fail(E_INFEASIBLE, "texture: %s", why) : E_OK;
}

/* Threads copy the weights that they share from a buffer, so these cannot be a texture. */
static int check_shared_texture(const struct task *t, const struct target *tg, const struct stage *st,
				const struct sstage *s)
{
	struct shared_read box[MAX_READS];
	int rc = s->texture && s->share_axis >= 0 ? stage_share(t, tg, st, s, box) : -1;
	return rc >= 0 && box[stage_weights(t, st, s->lane)].on
		   ? fail(E_INFEASIBLE, "texture: threads share the weights")
		   : E_OK;
}

static int check_quads(const struct task *t, const struct stage *st, const struct sstage *s)
{
	struct quads q;
	if (s->quads && (s->prefetch || s->feed))
		return fail(E_INFEASIBLE, "quads: with prefetches");
	return s->quads ? stage_quads(t, st, s, &q) : E_OK;
}

static int check_mmla(const struct task *t, const struct target *tg, const struct stage *st,
		      const struct sstage *s)
{
	struct mmla m;
	if (s->mmla && !target_multiplies_blocks(tg))
		return fail(E_INFEASIBLE, "mmla: no i8mm");
	return s->mmla ? stage_mmla(t, st, s, &m) : E_OK;
}

/* The tiles that an item makes one after the other are a body of their own each, which keeps code small. */
static int check_down(const struct task *t, const struct target *tg, const struct stage *st,
		      const struct sstage *s, int ns)
{
	int a = s->down_axis;
	int64_t shared, products = s->down;
	bool taps = true, plain = s->par == ns;
	if (a < 0)
		return E_OK;
	for (int i = 0; i < st->naxes; i++) {
		products *= i < ns ? s->tile[i] : s->unroll[i];
		taps &= i < ns || s->unroll[i] == st->axis[i].extent;
		plain &= i >= ns || !s->outer[i];
	}
	plain &= s->split_axis < 0 && s->share_axis < 0 && !s->prefetch && !s->feed && !s->quads && !s->mmla &&
		 stage_threads(st, s) == 1 && t->nstages == 1;
	if (!target_runs_items(tg) || !plain || !taps || s->lane >= ns || stage_sum(t, st) != SUM_FLOAT)
		return fail(E_INFEASIBLE,
			    "down: only of the work items of a sum of floats, whose taps are all in the body");
	if (a >= ns || a == s->lane || IS_SYM(st->axis[a].extent) || s->down < 2 ||
	    (int64_t)(s->down - 1) * s->tile[a] >= st->axis[a].extent)
		return fail(E_INFEASIBLE, "down: not two tiles or more along a spatial axis beside the lanes");
	if (products > DOWN_PRODUCTS)
		return fail(E_INFEASIBLE, "down: an item has %lld products, more than %d", (long long)products,
			    (int)DOWN_PRODUCTS);
	return stage_down_read(t, st, s, &shared) < 0
		   ? fail(E_INFEASIBLE, "down: tiles along %s have no rows in common", st->axis[a].name)
		   : E_OK;
}

static int check_group(const struct task *t, const struct target *tg, const struct sstage *s)
{
	if (s->group && (!target_runs_items(tg) || t->nstages > 1))
		return fail(E_INFEASIBLE, "group: only of the work items of a single stage");
	return s->group && (s->group < LEAST_GROUP || s->group > tg->group || s->group & (s->group - 1))
		   ? fail(E_INFEASIBLE,
			  "a group of %d work items: not a power of two from %d to the "
			  "device's %d",
			  s->group, LEAST_GROUP, tg->group)
		   : E_OK;
}

static int check_blocks(const struct task *t, const struct target *tg, const struct stage *st,
			const struct sstage *s)
{
	int n = s->group ? s->group : stage_threads(st, s);
	if (s->blocks > 1 && (strcmp(tg->isa, "cuda") != 0 || t->nstages > 1 || n == 1))
		return fail(E_INFEASIBLE, "blocks: only of the groups or threads of a single stage on CUDA");
	return s->blocks > 1 && s->blocks * n > SCHED_RESIDENT
		   ? fail(E_INFEASIBLE, "blocks: more than %d threads on a unit", (int)SCHED_RESIDENT)
		   : E_OK;
}

/* The first reduction axis that has a loop; -1: none. */
static int first_loop(const struct stage *st, const struct sstage *s, int ns)
{
	for (int i = ns; i < st->naxes; i++)
		if (st->axis[s->order[i]].extent != s->unroll[s->order[i]])
			return s->order[i];
	return -1;
}

static int check_share(const struct task *t, const struct stage *st, const struct sstage *s, int ns)
{
	int a = s->share_axis;
	if (a < 0)
		return fail(E_INFEASIBLE, "threads that share nothing");
	int64_t e = st->axis[a].extent;
	if (a < ns || a == s->lane || IS_SYM(e) || a != first_loop(st, s, ns))
		return fail(E_INFEASIBLE, "share: not the first loop of the reduction");
	if (s->share < 1 || e % s->share || s->share % s->unroll[a] || s->share % axis_block(t, st, a))
		return fail(E_INFEASIBLE, "share of %s: not in whole blocks and unrolled steps",
			    st->axis[a].name);
	if (s->boxes < 1 || s->boxes > SCHED_BOXES || s->boxes > e / s->share)
		return fail(E_INFEASIBLE, "share: a ring of %d boxes, of %lld that are copied", s->boxes,
			    (long long)(e / s->share));
	for (a = ns; a < st->naxes; a++) /* every address in a shared buffer must be provable */
		if (IS_SYM(st->axis[a].extent) ||
		    (st->axis[a].extent > axis_block(t, st, a) && st->axis[a].extent % axis_block(t, st, a)))
			return fail(E_INFEASIBLE, "share: %s ends inside of a block of the layout",
				    st->axis[a].name);
	return E_OK;
}

/* Whether each thread has a whole step of the reduction's loop: idle ones gain nothing, and PoCL 3.1 lets
 * them run the body of a loop. */
static bool has_steps(const struct stage *st, const struct sstage *s, int axis, int threads)
{
	int64_t unit = axis == s->lane ? s->lanes : 1, e = st->axis[axis].extent;
	return !IS_SYM(e) && e % unit == 0 && e / unit / s->unroll[axis] >= threads;
}

/* Whether one axis has all threads of the block. */
static bool divides_axis(const struct stage *st, const struct sstage *s, int ns, int threads)
{
	for (int a = ns; a < st->naxes; a++)
		if (s->threads[a] > 1)
			return s->threads[a] == threads && has_steps(st, s, a, threads);
	return false;
}

/* Threads that share the sums of a tile. */
static int check_team(const struct task *t, const struct target *tg, const struct stage *st,
		      const struct sstage *s, int ns)
{
	int n = stage_threads(st, s);
	int64_t elems = s->lanes;
	bool loops = s->par == ns;
	for (int a = 0; a < ns; a++) {
		int64_t e = st->axis[a].extent, points = (int64_t)s->tile[a] * (a == s->lane ? s->lanes : 1);
		elems *= s->tile[a];
		loops &= !s->outer[a];
		if (IS_SYM(e) || e % points)
			return fail(E_INFEASIBLE, "threads: %s ends inside of a tile", st->axis[a].name);
	}
	if (!target_runs_items(tg) || t->nstages > 1 || !loops || n < SCHED_TEAM || n > SCHED_THREADS ||
	    n > tg->group || n & (n - 1))
		return fail(E_INFEASIBLE,
			    "threads: not a stage of a power of two from %d to %d work items a group, all "
			    "loops parallel",
			    (int)SCHED_TEAM, tg->group);
	if (!divides_axis(st, s, ns, n) || (s->lane >= ns && st->axis[s->lane].extent % s->lanes))
		return fail(E_INFEASIBLE, "threads: not all of one reduction's loop, in whole vectors");
	if (s->group || s->split_axis >= 0 || s->prefetch || s->feed || s->quads || s->mmla ||
	    s->share_axis >= 0 || stage_sum(t, st) != SUM_FLOAT || stage_exact(t, st) ||
	    store_turns(t, st, s) >= 0)
		return fail(E_INFEASIBLE, "threads: only of sums in f32, with none of the other keys");
	int places = share_places(tg, n);
	return places > 1 && elems * places > SCHED_SHARED / 4
		   ? fail(E_INFEASIBLE, "threads: the sums of a block are over %d bytes", (int)SCHED_SHARED)
		   : E_OK;
}

/* Whether a reduction is not split, or into parts of the share axis that are blocks of their own: each has
 * whole boxes, and as many as a ring holds. */
static bool splits_boxes(const struct stage *st, const struct sstage *s)
{
	int a = s->split_axis;
	if (a < 0)
		return true;
	int64_t ring = (int64_t)s->boxes * s->share, last = st->axis[a].extent % s->split;
	return s->spread && a == s->share_axis && s->split % s->share == 0 && s->split >= ring &&
	       (!last || last >= ring);
}

/* The shape of a warp, which divides the threads of a block. */
static int check_warp(const struct stage *st, const struct sstage *s)
{
	int ns = stage_spatial(st), all = 1;
	bool divides = true;
	for (int a = 0; a < ns; a++) {
		all *= s->warp[a] > SCHED_TEAM ? 2 * SCHED_TEAM : s->warp[a];
		divides &= all <= SCHED_TEAM && s->threads[a] % s->warp[a] == 0;
	}
	return all == 1 || (all == SCHED_TEAM && divides && s->share_axis >= 0)
		   ? E_OK
		   : fail(E_INFEASIBLE, "warp: not %d threads that divide those of a block that shares tiles",
			  (int)SCHED_TEAM);
}

/* Whether the axis has whole blocks of threads, or the last of them can overlap the one before it: not along
 * lanes, nor where stores or parts of the reduction take tiles by their number. */
static bool has_blocks(const struct task *t, const struct stage *st, const struct sstage *s, int axis)
{
	int64_t e = st->axis[axis].extent, span = share_span(st, s, axis);
	if (IS_SYM(e) || e % span == 0)
		return !IS_SYM(e);
	return axis != s->lane && e > span && !s->spread && store_weaves(t, st, s) < 0;
}

static int check_threads(const struct task *t, const struct target *tg, const struct stage *st,
			 const struct sstage *s, int ns)
{
	int64_t n = 1;
	if (stage_team(st, s) > 1)
		return check_team(t, tg, st, s, ns);
	for (int a = 0; a < ns; a++) {
		n *= s->threads[a];
		if (s->threads[a] < 1 || n > SCHED_THREADS)
			return fail(E_INFEASIBLE, "a block of more than %d threads", (int)SCHED_THREADS);
		if (stage_threads(st, s) > 1 && !has_blocks(t, st, s, a))
			return fail(E_INFEASIBLE, "threads: %s ends inside of a block", st->axis[a].name);
	}
	if (n == 1)
		return s->share_axis < 0 ? E_OK : fail(E_INFEASIBLE, "share: without threads");
	if (n > tg->group || !target_runs_items(tg) || t->nstages > 1 || s->par != ns)
		return fail(E_INFEASIBLE, "threads: not a stage of %d work items a group, all loops parallel",
			    tg->group);
	if (s->group || s->prefetch || s->feed || s->quads || s->mmla || s->lane >= ns ||
	    st->comb != COMB_SUM || stage_sum(t, st) != SUM_FLOAT || stage_exact(t, st) ||
	    (store_turns(t, st, s) >= 0 && !s->spread))
		return fail(E_INFEASIBLE, "threads: only of sums in f32, with none of the other keys");
	struct shared_read boxes[MAX_READS];
	int rc = check_share(t, st, s, ns);
	if (rc >= 0 && !splits_boxes(st, s))
		return fail(E_INFEASIBLE,
			    "threads: a split that is not spread in whole boxes of the share axis");
	return rc < 0 ? rc : stage_share(t, tg, st, s, boxes);
}

/* Bytes that an intermediate takes at most, without its shared dims. */
static int64_t tmp_bytes(const struct task *t, int operand, int shared)
{
	const struct operand *o = &t->operand[operand];
	int64_t n = 4;
	for (int s = 0; s < t->nstages; s++)
		for (int d = 0; d < o->dims.rank && t->stage[s].out.operand == operand; d++) {
			bool in = false;
			for (int a = 0; a < shared; a++)
				in |= t->stage[s].out.dim[d].coef[a] != 0;
			if (!in && (IS_SYM(o->dims.d[d]) || n > SCHED_SHARED))
				return INT64_MAX / 2;
			n *= in ? 1 : o->dims.d[d] + 2 * TMP_ROW * (d == o->dims.rank - 1);
		}
	return n;
}

/* Whether the threads divide one axis of the chain's stage, whose tiles are whole. */
static bool divides_stage(const struct task *t, const struct stage *st, const struct sstage *s, int threads)
{
	int ns = stage_spatial(st), axis = -1;
	bool lone = true;
	for (int a = 0; a < st->naxes; a++) {
		int64_t e = st->axis[a].extent, points = a == s->lane ? s->lanes : 1;
		points *= a < ns ? s->tile[a] : 1;
		if (s->threads[a] > 1 && (axis >= 0 || a < task_shared(t) || s->threads[a] != threads))
			return false;
		axis = s->threads[a] > 1 ? a : axis;
		if (a < task_shared(t))
			continue;
		if (IS_SYM(e) || ((a < ns || a == s->lane) && e % points))
			return false;
		lone &= a >= ns || e == points;
	}
	if (axis >= ns)
		return lone && has_steps(st, s, axis, threads);
	int64_t points = (int64_t)s->tile[axis] * (axis == s->lane ? s->lanes : 1);
	return st->axis[axis].extent / points >= threads;
}

/* Threads that run a chain together. */
static int check_crew(const struct task *t, const struct target *tg, const struct sched *s)
{
	int n = stage_threads(&t->stage[0], &s->st[0]), shared = task_shared(t);
	int64_t bytes = 0;
	bool plain = true, divides = true;
	for (int k = 0; k < t->nstages; k++) {
		const struct stage *st = &t->stage[k];
		const struct sstage *ss = &s->st[k];
		const struct operand *o = &t->operand[st->out.operand];
		bool tmp = o->role == ROLE_TMP;
		if (stage_threads(st, ss) != n)
			return fail(E_INFEASIBLE, "threads: not the same number in all stages of the chain");
		plain &= ss->ring_axis < 0 && !ss->prefetch && !ss->feed && !ss->quads && !ss->mmla &&
			 !stage_exact(t, st) && (st->comb == COMB_NONE || stage_sum(t, st) == SUM_FLOAT) &&
			 (!tmp || (o->dtype == DT_F32 && !o->layout.n));
		for (int d = 0; d < o->dims.rank && tmp; d++)
			plain &= !o->layout.lo[d] && !o->layout.hi[d];
		divides &= ss->share_axis < 0 && (n == 1 || divides_stage(t, st, ss, n));
		bytes += tmp && n > 1 ? tmp_bytes(t, st->out.operand, shared) : 0;
		int places = share_places(tg, stage_team(st, ss));
		int64_t sums = places * (int64_t)ss->lanes * 4;
		for (int a = 0; a < stage_spatial(st); a++)
			sums *= ss->tile[a];
		bytes += places > 1 ? sums : 0;
		if (bytes > SCHED_SHARED && n > 1)
			return fail(E_INFEASIBLE, "threads: intermediates of over %d bytes",
				    (int)SCHED_SHARED);
	}
	if (n > 1 &&
	    (!target_runs_items(tg) || n < SCHED_TEAM || n > SCHED_THREADS || n > tg->group || n & (n - 1)))
		return fail(E_INFEASIBLE, "threads: not a power of two from %d to %d work items a group",
			    (int)SCHED_TEAM, tg->group);
	return divides && (n == 1 || plain)
		   ? E_OK
		   : fail(E_INFEASIBLE, "threads: not of whole tiles of f32 along one axis of each stage");
}

/* Groups whose index counts elements are broadcast: the lanes are outputs. */
static int check_image(const struct task *t, const struct target *tg, const struct stage *st,
		       const struct sstage *s)
{
	int image = stage_image(t, st);
	enum sum_kind sum = stage_sum(t, st);
	if (sum == SUM_PAIR && !tg->fma)
		return fail(E_INFEASIBLE, "bf16: %s has no fused multiply-add", tg->isa);
	if (SCHED_THREADED && sum == SUM_PAIR && !strcmp(tg->isa, "cuda"))
		return fail(E_INFEASIBLE, "bf16: %s multiplies it by fragments alone", tg->isa);
	if (sum == SUM_HALF && !target_sums_f16(tg))
		return fail(E_INFEASIBLE, "f16: %s has no arithmetic in f16", tg->isa);
	int64_t steps = 1;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		steps *= s->unroll[a];
	if (sum == SUM_HALF && steps > HALF_STEPS)
		return fail(E_INFEASIBLE, "f16: a body has %lld steps, at most %d", (long long)steps,
			    HALF_STEPS);
	return image >= 0 && s->lane >= 0 && read_axes(t, st, &st->read[image]) >> s->lane & 1
		   ? fail(E_INFEASIBLE, "%s: the lanes lie along the image",
			  dtype_name(t->operand[st->read[image].operand].dtype))
		   : E_OK;
}

static int check_prefetch(const struct task *t, const struct sched *s, int stage)
{
	struct panel_ahead h;
	struct feed f;
	int rc = s->st[stage].feed ? stage_feed(t, &t->stage[stage], &s->st[stage], &f) : E_OK;
	if (rc < 0 || !s->st[stage].prefetch)
		return rc;
	if (s->st[t->nstages - 1].ring_axis >= 0 && stage == 0 && ring_copy(t) >= 0)
		return E_OK;
	if (s->st[t->nstages - 1].ring_axis >= 0)
		return fail(E_INFEASIBLE, "prefetch: a ring's rows use all panels in turn");
	return stage_ahead(t, &t->stage[stage], &s->st[stage], &h);
}

int sched_check(const struct task *t, const struct target *tg, const struct sched *s)
{
	int first = sched_shared(t, s->st[t->nstages - 1].ring_axis);
	struct frag_plan frags;
	if (sched_frags(t, s))
		return SCHED_THREADED ? frag_plan_make(t, tg, s, &frags) : E_UNSUPPORTED;
	if (SCHED_THREADED && t->pairs && t->nstages == 1)
		return fail(E_INFEASIBLE, "%s: inputs are multiplied by fragments alone",
			    pairs_name(t->pairs));
	for (int i = 0; i < t->nstages; i++) {
		const struct stage *st = &t->stage[i];
		const struct sstage *ss = &s->st[i];
		int ns = stage_spatial(st), rc = check_w16(t, tg, st, ss);
		if (!SCHED_THREADED && (stage_threads(st, ss) > 1 || ss->share_axis >= 0 || ss->blocks > 1 ||
					ss->texture || ss->down_axis >= 0))
			return fail(E_UNSUPPORTED, "threads or textures: default schedules have none");
		if (SCHED_THREADED && rc >= 0)
			rc = check_texture(t, tg, st, ss);
		if (SCHED_THREADED && ss->wino.m && rc >= 0)
			rc = check_group(t, tg, ss);
		if (ss->wino.m)
			return rc < 0 ? rc : winograd_check(t, tg, ss);
		if (rc < 0 || (rc = check_image(t, tg, st, ss)) < 0 || (rc = check_order(st, ss, ns)) < 0 ||
		    (rc = sched_check_lane(t, tg, st, ss)) < 0 ||
		    (rc = check_tile(t, st, ss, ns, first)) < 0 || (rc = check_split(t, st, ss, ns)) < 0 ||
		    (rc = check_par(t, st, ss, ns)) < 0 || (rc = check_spread(t, tg, st, ss, ns)) < 0 ||
		    (rc = check_prefetch(t, s, i)) < 0 || (rc = check_quads(t, st, ss)) < 0 ||
		    (rc = check_mmla(t, tg, st, ss)) < 0 || (rc = check_group(t, tg, ss)) < 0 ||
		    (SCHED_THREADED && (rc = check_down(t, tg, st, ss, ns)) < 0) ||
		    (SCHED_THREADED && (rc = check_blocks(t, tg, st, ss)) < 0) ||
		    (SCHED_THREADED && t->nstages == 1 && (rc = check_threads(t, tg, st, ss, ns)) < 0) ||
		    (SCHED_THREADED && (rc = check_warp(st, ss)) < 0) ||
		    (SCHED_THREADED && (rc = check_shared_texture(t, tg, st, ss)) < 0))
			return rc;
		for (int a = ns; a < st->naxes; a++)
			if ((rc = check_unroll(t, st, ss, a)) < 0)
				return rc;
	}
	int rc = SCHED_THREADED && t->nstages > 1 ? check_crew(t, tg, s) : E_OK;
	return rc < 0 ? rc : check_ring(t, s);
}
