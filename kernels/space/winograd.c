/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/winograd.h"
#include "kernels/space/share.h"
#include "kernels/space/winograd_fused.h"

#include <string.h>

static int not_one(const char *why)
{
	return fail(E_INFEASIBLE, "winograd: %s", why);
}

/* Number of axes that the index depends on; *one: the last of them. */
static int index_axes(const struct stage *st, const struct index *x, int *one)
{
	int n = 0;
	for (int a = 0; a < st->naxes; a++)
		if (x->coef[a]) {
			*one = a;
			n++;
		}
	return n;
}

static bool direct(const struct index *x)
{
	return x->div <= 1 && x->mod <= 1 && x->table < 0;
}

/* Finds filters [k,c,r,s]: each dim is indexed by one whole axis. The input's read shows which reduction axes
 * are taps. */
static int find_filter(const struct task *t, const struct stage *st, int i, struct winograd_form *f)
{
	const struct read *w = &st->read[i];
	const struct operand *o = &t->operand[w->operand];
	int ns = stage_spatial(st), dims = 0, axis = -1;
	f->k = -1;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &w->dim[d];
		int n = index_axes(st, x, &axis);
		if (n == 0 && o->dims.d[d] == 1)
			continue;
		if (n != 1 || dims == 4 || x->off || x->coef[axis] != 1 ||
		    st->axis[axis].extent != o->dims.d[d])
			return not_one("filters are not indexed by one axis in each dim");
		if (axis < ns) {
			if (f->k >= 0)
				return not_one("filters differ along two spatial axes");
			f->k = axis;
			f->filter_dim[0] = d;
		}
		dims++;
	}
	f->filter = i;
	return dims == 4 && f->k >= 0 ? E_OK : not_one("filters are not [k,c,r,s]");
}

/* The dim of the filters that axis a indexes. */
static int filter_dim(const struct stage *st, const struct winograd_form *f, int a)
{
	for (int d = 0; d < MAX_RANK; d++)
		if (st->read[f->filter].dim[d].coef[a])
			return d;
	return 0;
}

/* Finds the axes of an index y + r + off, in any order. */
static int find_window(const struct stage *st, const struct index *x, struct winograd_form *f)
{
	int spatial = -1, tap = -1, n = 0;
	for (int a = 0; a < st->naxes; a++) {
		if (!x->coef[a])
			continue;
		*(st->axis[a].kind == AXIS_SPATIAL ? &spatial : &tap) = a;
		if (x->coef[a] != 1 || ++n > 2)
			return not_one("strides or dilations");
	}
	if (spatial < 0 || tap < 0 || st->axis[tap].extent != 3 || spatial == f->k)
		return not_one("a window that is not 3 long");
	int *to = f->y < 0 ? &f->y : &f->x;
	if (f->x >= 0 || f->y == spatial || (f->y >= 0 && f->r == tap))
		return not_one("more than two windows");
	*to = spatial;
	*(to == &f->y ? &f->r : &f->s) = tap;
	return E_OK;
}

static int find_input(const struct task *t, const struct stage *st, int i, struct winograd_form *f)
{
	const struct read *in = &st->read[i];
	const struct operand *o = &t->operand[in->operand];
	int axis = -1, rc;
	f->in = i;
	f->c = f->y = f->x = f->r = f->s = -1;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &in->dim[d];
		int n = index_axes(st, x, &axis);
		bool reduces = false;
		for (int a = stage_spatial(st); a < st->naxes; a++)
			reduces |= x->coef[a] != 0;
		if (!direct(x) || x->coef[f->k])
			return not_one("inputs are looked up, or differ along the output channels");
		if (!reduces)
			continue;
		if (n == 1 && f->c < 0 && x->coef[axis] == 1 && !x->off)
			f->c = axis;
		else if ((rc = find_window(st, x, f)) < 0)
			return rc;
	}
	for (int d = 0; d < o->dims.rank && f->x >= 0; d++) /* y, r, x and s may index only the windows'
							     * dims */
		if ((in->dim[d].coef[f->y] && !in->dim[d].coef[f->r]) ||
		    (in->dim[d].coef[f->x] && !in->dim[d].coef[f->s]))
			return not_one("inputs along the diagonal");
	return f->c >= 0 && f->x >= 0 ? E_OK : not_one("inputs are not [.., c, y + r, x + s]");
}

int winograd_form(const struct task *t, struct winograd_form *f)
{
	const struct stage *st = &t->stage[0];
	if (t->nstages != 1 || t->nsyms || st->comb != COMB_SUM || st->body.n != 3 ||
	    st->naxes - stage_spatial(st) != 3 || st->body.at[0].op != P_READ ||
	    st->body.at[1].op != P_READ || st->body.at[2].op != P_MUL)
		return not_one("not a sum of products over three axes");
	int a = st->body.at[0].arg, b = st->body.at[1].arg, w = operand_packs(t, st->read[b].operand) ? b : a;
	if (a == b || !operand_packs(t, st->read[w].operand) ||
	    t->operand[st->read[a + b - w].operand].dtype != DT_F32 ||
	    t->operand[st->read[w].operand].dtype != DT_F32 || stage_exact(t, st))
		return not_one("no constant filters");
	int rc = find_filter(t, st, w, f);
	if (rc < 0 || (rc = find_input(t, st, a + b - w, f)) < 0)
		return rc;
	f->filter_dim[1] = filter_dim(st, f, f->c);
	f->filter_dim[2] = filter_dim(st, f, f->r);
	f->filter_dim[3] = filter_dim(st, f, f->s);
	return E_OK;
}

/* Distance in vectors from one xi to the next, at least n. It is odd, so that the points of one tile lie in
 * different cache sets. If n is small and a row of points is read with several tiles of each point, it is 4
 * more than a multiple of 8, so that neighbouring tiles lie in different sets too. */
static int64_t plane(int64_t n, bool rows)
{
	return rows ? ceil_div(n - 4, 8) * 8 + 4 : n | 1;
}

static int64_t whole_tiles(const struct winograd *w, int64_t tiles)
{
	int px = w->px < 1 ? 1 : w->px;
	return ceil_div(tiles, px) * px;
}

static int64_t whole_vectors(const struct winograd *w, int64_t vectors)
{
	int kv = w->kv < 1 ? 1 : w->kv;
	return ceil_div(vectors, kv) * kv;
}

struct winograd_sizes winograd_sizes(const struct task *t, const struct sstage *s)
{
	const struct stage *st = &t->stage[0];
	const struct winograd *w = &s->wino;
	struct winograd_form f;
	struct winograd_sizes z = {.points = w->m + 2, .batch = 1};
	if (winograd_form(t, &f) < 0)
		return z;
	z.down = ceil_div(st->axis[f.y].extent, w->m);
	z.wide = ceil_div(st->axis[f.x].extent, w->m);
	z.tiles = z.down * z.wide;
	struct winograd whole = s->wino;
	if (SCHED_THREADED) {
		whole.tiles = w->tiles ? w->tiles : (int)whole_tiles(w, z.tiles);
		w = &whole;
	}
	z.blocks = ceil_div(z.tiles, w->tiles);
	for (int a = 0; a < stage_spatial(st); a++)
		z.batch *= a == f.k || a == f.y || a == f.x ? 1 : st->axis[a].extent;
	z.vectors = ceil_div(st->axis[f.k].extent, s->lanes);
	if (SCHED_THREADED)
		whole.chunk = w->chunk ? w->chunk : (int)whole_vectors(w, z.vectors);
	z.chunks = ceil_div(z.vectors, w->chunk);
	z.channels = st->axis[f.c].extent;
	z.cblocks = ceil_div(z.channels, s->lanes);
	int64_t xi = (int64_t)z.points * z.points;
	z.group = w->raw && w->raw < z.cblocks ? (int64_t)w->raw * s->lanes : z.channels;
	z.groups = ceil_div(z.channels, z.group);
	z.v_plane = plane(z.cblocks * w->tiles, w->raw);
	z.m_plane = plane((int64_t)w->chunk * w->tiles, w->raw);
	z.v_elems = xi * z.v_plane * s->lanes;
	z.m_elems = xi * z.m_plane * s->lanes;
	z.u_elems = (w->raw ? 9 : xi) * z.chunks * w->chunk * z.channels * s->lanes;
	return z;
}

/* Checks that vectors of input channels do not reach outside of the input. */
static int check_inputs(const struct task *t, const struct stage *st, const struct sstage *s,
			const struct winograd_form *f)
{
	int64_t stride;
	bool pads;
	int rc = read_stride(t, st, &st->read[f->in], f->c, s->lanes, &stride, &pads);
	if (rc < 0)
		return rc;
	if (stride != 1 || (!pads && st->axis[f->c].extent % s->lanes))
		return not_one("input channels do not lie side by side");
	return E_OK;
}

static bool others_default(const struct task *t, const struct sstage *s)
{
	struct sched none;
	sched_init(t, &none);
	none.st[0].lane = s->lane;
	none.st[0].lanes = s->lanes;
	none.st[0].wino = s->wino;
	const struct sstage *n = &none.st[0];
	return !memcmp(n->tile, s->tile, sizeof n->tile) && !memcmp(n->unroll, s->unroll, sizeof n->unroll) &&
	       !memcmp(n->order, s->order, sizeof n->order) && !memcmp(n->outer, s->outer, sizeof n->outer) &&
	       !s->par && (s->split_axis < 0 || winograd_is_fused(s)) && s->chains == 1 && s->hoist &&
	       !s->feed;
}

enum { MAX_SCRATCH = 1 << 23 }; /* elements: 32 MiB */

static int check_sizes(const struct task *t, const struct sstage *s)
{
	const struct winograd *w = &s->wino;
	struct winograd_sizes z = winograd_sizes(t, s);
	if (w->tiles > z.tiles || w->px > w->tiles || w->px * w->kv > SCHED_TILE)
		return not_one("more tiles than the output or the registers have");
	if (w->chunk % w->kv || w->chunk - w->kv >= z.vectors || w->parts > z.chunks)
		return not_one("chunks are not whole panels, or there are more parts than chunks");
	if (w->raw && (w->raw > z.cblocks || w->kv > 1 || w->px * z.points > SCHED_TILE))
		return not_one("untransformed filters need one vector of outputs and not more channels than "
			       "the input has");
	if (w->raw && w->pixels)
		return not_one("untransformed filters exclude fetched pixels");
	if (z.v_elems > MAX_SCRATCH || z.m_elems > MAX_SCRATCH || z.u_elems > WINOGRAD_WEIGHTS)
		return not_one("scratch or weights are too large");
	return E_OK;
}

void winograd_whole(const struct task *t, struct sstage *s)
{
	struct winograd_sizes z = winograd_sizes(t, s);
	if (!s->wino.tiles)
		s->wino.tiles = (int)whole_tiles(&s->wino, z.tiles);
	if (!s->wino.chunk)
		s->wino.chunk = (int)whole_vectors(&s->wino, z.vectors);
}

/* Checks the keys and the sizes of a schedule of work items. */
static int check_items(const struct task *t, const struct sstage *s)
{
	const struct stage *st = &t->stage[0];
	const struct winograd *w = &s->wino;
	int64_t images = 1;
	if (w->tiles || w->chunk || w->raw || w->pixels || w->prefetch || w->parts != 1)
		return not_one("work items have all tiles in one block, and no keys but gemm");
	if (w->px * w->kv > SCHED_TILE)
		return not_one("a register tile of too many tiles and vectors");
	bool warp = false;
	for (int a = 0; a < stage_spatial(st); a++)
		warp |= s->warp[a] > 1;
	if (warp || stage_threads(st, s) > 1 || s->share_axis >= 0 || s->blocks > 1 || s->down_axis >= 0 ||
	    s->spread)
		return not_one("not with threads, blocks or tiles in turn");
	for (int a = 0; a < stage_spatial(st); a++) {
		images *= st->axis[a].extent;
		if (images > INT32_MAX || st->axis[a].extent > 1 << 20)
			return not_one("scratch or weights are too large");
	}
	struct winograd_sizes z = winograd_sizes(t, s);
	if (w->px > z.tiles || w->kv - 1 >= z.vectors)
		return not_one("more tiles or vectors in a register tile than the output has");
	return z.batch * (z.v_elems + z.m_elems) > WINOGRAD_ITEMS || z.u_elems > WINOGRAD_WEIGHTS
		   ? not_one("scratch or weights are too large")
		   : E_OK;
}

int winograd_check(const struct task *t, const struct target *tg, const struct sstage *s)
{
	const struct stage *st = &t->stage[0];
	const struct winograd *w = &s->wino;
	struct winograd_form f;
	bool items = SCHED_THREADED && target_runs_items(tg);
	int rc = winograd_form(t, &f);
	if (rc < 0)
		return rc;
	if ((w->m != 2 && w->m != 4) || w->px < 1 || w->kv < 1 || w->parts < 1 ||
	    (!items && (w->tiles < 1 || w->chunk < 1)))
		return not_one("m is not 2 or 4, or keys are missing");
	if (s->lane != f.k || !others_default(t, s))
		return not_one("lanes are not output channels, or there are keys that do not belong here");
	if ((rc = sched_check_lane(t, tg, st, s)) < 0 || (rc = check_inputs(t, st, s, &f)) < 0)
		return rc;
	if (winograd_is_fused(s))
		return items ? winograd_fused_check(t, tg, s, &f) : not_one("one launch, on a processor");
	return items ? check_items(t, s) : check_sizes(t, s);
}

struct winograd_share winograd_share(int m)
{
	double points = (m + 2) * (m + 2);
	return (struct winograd_share){points / (9. * m * m), points / 9};
}
