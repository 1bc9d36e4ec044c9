/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/winograd_fused.h"
#include "kernels/space/resident.h"

#include <string.h>

enum {
	F23_POSITIONS = 16 /* of F(2,3): windows of more points are transformed one channel at a time */
};

static int not_one(const char *why)
{
	return fail(E_INFEASIBLE, "winograd: %s", why);
}

/* The widest vectors, at most four lanes, of which there are enough for all threads, and `all` elements are
 * whole ones. */
static int narrow(int lanes, int most, int64_t all, int64_t elems, int threads)
{
	lanes = lanes < most ? lanes : most;
	while (lanes > 1 && (all % lanes || elems / lanes < threads))
		lanes /= 2;
	return lanes;
}

static int largest_below(int n, int64_t most)
{
	int v = n < most ? n : (int)most;
	while (v > 1 && n % v)
		v--;
	return v < 1 ? 1 : v;
}

/* Divides the sums of all threads into passes that fit the room. */
static void divide_passes(struct winograd_fused *z, const struct winograd *w, int lanes, int64_t room)
{
	int64_t each = (int64_t)z->threads * lanes;
	z->pass_tiles = largest_below(w->px, room / each);
	z->pass_vectors = z->pass_tiles == w->px ? largest_below(w->kv, room / each / w->px) : 1;
	z->passes = w->px / z->pass_tiles * (w->kv / z->pass_vectors);
}

static int larger(int a, int b)
{
	return a > b ? a : b;
}

static int registers(const struct winograd_fused *z, const struct sstage *s)
{
	const struct winograd *w = &s->wino;
	int sums = w->px * w->kv * s->lanes, window = z->positions * z->in_lanes,
	    multiply = w->px + w->kv * s->lanes, ahead = 0;
	if (s->boxes > 1)
		ahead = (int)ceil_div(z->windows, z->threads) * window + FUSED_AHEAD;
	return sums + larger(ahead + multiply, window + w->m) + FUSED_REGISTERS;
}

/* Whether the numbers of a schedule, which may not be checked yet, can be divided and multiplied. */
static bool has_sizes(const struct sstage *s)
{
	const struct winograd *w = &s->wino;
	enum { MOST = SCHED_THREADS * SCHED_TILE };
	return w->px >= 1 && w->kv >= 1 && w->tiles >= w->px && w->chunk >= w->kv && w->tiles <= MOST &&
	       w->chunk <= MOST && (int64_t)(w->tiles / w->px) * (w->chunk / w->kv) <= SCHED_THREADS &&
	       s->share >= 1 && s->share <= FUSED_SHARE && (s->split_axis < 0 || s->split >= s->share);
}

struct winograd_fused winograd_fused_sizes(const struct task *t, const struct sstage *s)
{
	const struct stage *st = &t->stage[0];
	const struct winograd *w = &s->wino;
	struct winograd_form f;
	struct winograd_fused z = {.positions = (w->m + 2) * (w->m + 2)};
	if (winograd_form(t, &f) < 0 || !has_sizes(s))
		return z;
	int64_t channels = st->axis[f.c].extent, images = 1;
	z.tile_threads = w->tiles / w->px;
	z.vector_threads = w->chunk / w->kv;
	z.threads = z.positions * z.tile_threads * z.vector_threads;
	z.tile_lanes = w->px % 4 == 0 ? 4 : w->px % 2 == 0 ? 2 : 1;
	for (int a = 0; a < stage_spatial(st); a++)
		images *= a == f.k || a == f.y || a == f.x ? 1 : st->axis[a].extent;
	z.all_tiles = images * ceil_div(st->axis[f.y].extent, w->m) * ceil_div(st->axis[f.x].extent, w->m);
	z.blocks = ceil_div(z.all_tiles, w->tiles);
	z.chunks = ceil_div(ceil_div(st->axis[f.k].extent, s->lanes), w->chunk);
	z.steps = ceil_div(channels, s->share);
	z.part_steps = s->split_axis >= 0 ? s->split / s->share : z.steps;
	z.parts = ceil_div(z.steps, z.part_steps);
	int most = z.positions == F23_POSITIONS ? 4 : 1;
	z.in_lanes = narrow(s->lanes, most, channels | s->share, (int64_t)w->tiles * s->share, z.threads);
	z.windows = (int64_t)w->tiles * s->share / z.in_lanes;
	z.pitch = (int64_t)z.positions * w->tiles + 4;
	z.v_elems = ceil_div(z.pitch * s->share, 4) * 4;
	z.u_elems = (int64_t)z.positions * s->share * w->chunk * s->lanes;
	int64_t ring = (z.v_elems + z.u_elems) * s->boxes, least = (int64_t)z.threads * s->lanes;
	z.shared = ring > least ? ring : least;
	divide_passes(&z, w, s->lanes, z.shared);
	most = z.positions == F23_POSITIONS ? 4 : 2;
	z.out_lanes =
	    narrow(s->lanes, most, s->lanes, least * z.pass_tiles * z.pass_vectors / z.positions, z.threads);
	z.weights = z.chunks * z.steps * z.u_elems;
	z.registers = registers(&z, s);
	return z;
}

/* The keys of schedules that are not of this kind. */
static bool others_default(const struct stage *st, const struct sstage *s)
{
	const struct winograd *w = &s->wino;
	bool warp = false;
	for (int a = 0; a < stage_spatial(st); a++)
		warp |= s->warp[a] > 1;
	return !w->raw && !w->pixels && !w->prefetch && w->parts == 1 && !warp && stage_threads(st, s) == 1 &&
	       s->down_axis < 0 && !s->group && s->spread == (s->split_axis >= 0);
}

/* Bounds each number, so that no product of them overflows. */
static int check_numbers(const struct stage *st, const struct sstage *s, const struct winograd_form *f)
{
	const struct winograd *w = &s->wino;
	int64_t images = 1;
	if (w->tiles > SCHED_THREADS * SCHED_TILE || w->chunk > SCHED_THREADS * SCHED_TILE ||
	    w->px > SCHED_TILE || w->kv > SCHED_TILE || w->px * w->kv > SCHED_TILE)
		return not_one("a register tile or a block of too many tiles or vectors");
	if (w->tiles < 1 || w->chunk < 1 || w->tiles % w->px || w->chunk % w->kv)
		return not_one("tiles and chunk are not whole register tiles");
	if (s->share_axis != f->c || s->share < 1 || s->share > FUSED_SHARE || s->boxes < 1 ||
	    s->boxes > SCHED_BOXES)
		return not_one("share is not along the input channels, or too large");
	for (int a = 0; a < st->naxes; a++) {
		images *= a < stage_spatial(st) ? st->axis[a].extent : 1;
		if (images > INT32_MAX || st->axis[a].extent > 1 << 20)
			return not_one("scratch or weights are too large");
	}
	return E_OK;
}

static int check_parts(const struct task *t, const struct sstage *s, const struct winograd_form *f)
{
	const struct stage *st = &t->stage[0];
	if (s->split_axis < 0)
		return E_OK;
	int64_t channels = st->axis[f->c].extent;
	if (s->split_axis != f->c || s->split < s->share || s->split >= channels || s->split % s->share)
		return not_one("parts are not whole steps of the input channels");
	int64_t parts = stage_parts(st, s);
	return parts > SPREAD_PARTS || stage_vector_points(st, s) > SPREAD_BYTES / 4 / parts
		   ? not_one("too many parts, or too many sums of them")
		   : E_OK;
}

int winograd_fused_check(const struct task *t, const struct target *tg, const struct sstage *s,
			 const struct winograd_form *f)
{
	const struct stage *st = &t->stage[0];
	bool cuda = !strcmp(tg->isa, "cuda");
	if (!others_default(st, s))
		return not_one("one launch has no keys but tiles, gemm, chunk, share, split, w16 and blocks");
	int rc = check_numbers(st, s, f);
	if (rc < 0 || (rc = check_parts(t, s, f)) < 0)
		return rc;
	const struct winograd *w = &s->wino;
	if ((int64_t)(w->tiles / w->px) * (w->chunk / w->kv) > SCHED_THREADS)
		return not_one("a block of too many threads");
	struct winograd_fused z = winograd_fused_sizes(t, s);
	int64_t last = z.steps % z.part_steps;
	if (z.threads > SCHED_THREADS || z.threads > tg->group)
		return not_one("a block of too many threads");
	if (w->tiles - w->px >= z.all_tiles || w->chunk - w->kv >= ceil_div(st->axis[f->k].extent, s->lanes))
		return not_one("more tiles or vectors in a block than the output has");
	if (s->boxes > z.part_steps || (last && s->boxes > last))
		return not_one("a ring of more steps than there are");
	if (s->boxes > 1 && ceil_div(z.windows, z.threads) > FUSED_COPIES)
		return not_one("a ring whose steps have too many windows");
	if (4 * z.shared > share_most(tg))
		return not_one("shared buffers are too large");
	if (z.passes > FUSED_PASSES)
		return not_one("sums that need too many passes");
	if (s->blocks > 1 && (!cuda || s->blocks * z.threads > SCHED_RESIDENT))
		return not_one("more threads on a unit than CUDA has");
	if (cuda && z.registers > resident_registers((int)z.threads, s->blocks))
		return not_one("more registers than a thread has");
	return z.weights > WINOGRAD_WEIGHTS ? not_one("scratch or weights are too large") : E_OK;
}
