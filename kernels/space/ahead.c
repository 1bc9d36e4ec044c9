/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which panel of weights comes next and how fast it must be prefetched while the present one is used,
 * and which lines of the input to prefetch. */
#include "kernels/space/sched.h"

static int64_t tiles_of(const struct stage *st, const struct sstage *s, int a)
{
	return ceil_div(st->axis[a].extent, (int64_t)s->tile[a] * (a == s->lane ? s->lanes : 1));
}

bool stage_in_body(const struct stage *st, int read)
{
	for (int i = 0; i < st->body.n; i++)
		if (st->body.at[i].op == P_READ && st->body.at[i].arg == read)
			return true;
	return false;
}

int stage_weights(const struct task *t, const struct stage *st, int lane)
{
	for (int i = 0; i < st->nreads && lane >= 0 && lane < stage_spatial(st) && st->comb != COMB_NONE; i++)
		if (stage_in_body(st, i) && operand_packs(t, st->read[i].operand) &&
		    read_axes(t, st, &st->read[i]) >> lane & 1)
			return i;
	return -1;
}

/* Sets the lines that a step fetches, in units of 1 to 1/32 line: the largest unit that fetches the panel in
 * time with at most 1/8 of excess. */
static void rate(struct panel_ahead *h, int line)
{
	int64_t share = h->tiles * line;
	for (h->shift = 0; h->shift < 5; h->shift++) {
		h->lines = ceil_div(h->step << h->shift, share);
		if (h->lines * share * 8 <= (h->step << h->shift) * 9)
			break;
	}
	h->lines = ceil_div(h->step << h->shift, share);
}

/* Checks the order of loops from the outside in: loops over panels, then parts of a split reduction, then
 * loops over tiles. */
static int loops(const struct stage *st, const struct sstage *s, struct panel_ahead *h)
{
	for (int i = 0; i < stage_spatial(st); i++) {
		int a = s->order[i];
		bool panels = h->axes >> a & 1, many = tiles_of(st, s, a) > 1;
		bool parted = s->split_axis >= 0 && panels != (i < s->par);
		if (s->outer[a] || (many && (parted || (panels && h->tiles > 1))))
			return fail(E_INFEASIBLE, "prefetch: a panel is not used by all tiles in turn");
		h->tiles *= panels ? 1 : tiles_of(st, s, a);
		h->step *= !panels ? 1 : s->tile[a] * (a == s->lane ? s->lanes : 1);
	}
	return E_OK;
}

/* Steps of a reduction axis in a packed operand; whole blocks if the loop is over blocks. */
static int64_t steps_of(const struct task *t, const struct stage *st, const struct sstage *s, int a)
{
	int64_t e = st->axis[a].extent, b = axis_block(t, st, a);
	return b > 1 && e > b && s->unroll[a] < e ? ceil_div(e, b) * b : e;
}

bool stage_streams(const struct task *t, const struct stage *st, const struct sstage *s)
{
	struct panel_ahead h;
	bool one = stage_ahead(t, st, s, &h) >= 0 && h.tiles == 1;
	for (int a = 0; a < stage_spatial(st) && one; a++)
		one = s->tile[a] == 1 || h.axes >> a & 1;
	return one;
}

int stage_ahead(const struct task *t, const struct stage *st, const struct sstage *s, struct panel_ahead *h)
{
	int ns = stage_spatial(st);
	*h = (struct panel_ahead){.read = stage_weights(t, st, s->lane), .tiles = 1, .steps = 1, .step = 1};
	if (h->read < 0)
		return fail(E_INFEASIBLE, "prefetch: no packed operand has the lanes along it");
	const struct operand *o = &t->operand[st->read[h->read].operand];
	if (dtype_is_byte(o->dtype) && !o->group)
		return fail(E_INFEASIBLE, "prefetch: %s has single bytes", o->name);
	h->axes = read_axes(t, st, &st->read[h->read]);
	int rc = loops(st, s, h);
	if (rc < 0)
		return rc;
	for (int a = ns; a < st->naxes; a++)
		h->steps *= h->axes >> a & 1 ? steps_of(t, st, s, a) : 1;
	h->part = h->steps;
	if (s->split_axis >= 0) {
		if (s->order[ns] != s->split_axis || !(h->axes >> s->split_axis & 1))
			return fail(E_INFEASIBLE, "prefetch: parts of a panel lie apart");
		h->part = h->steps / steps_of(t, st, s, s->split_axis) * s->split;
	}
	rate(h, stage_line(s));
	return E_OK;
}

/* The only axis beside the lane axis whose points are tiled; -1: none or several. */
static int tiled_axis(const struct stage *st, const struct sstage *s)
{
	int found = -1;
	for (int a = 0; a < stage_spatial(st); a++) {
		if (a == s->lane || s->tile[a] == 1)
			continue;
		if (found >= 0)
			return -1;
		found = a;
	}
	return found;
}

int stage_feed(const struct task *t, const struct stage *st, const struct sstage *s, struct feed *f)
{
	int ns = stage_spatial(st);
	int64_t one;
	bool pads, there = false;
	*f = (struct feed){-1, tiled_axis(st, s), ns, 0, 0};
	if (f->points < 0 || s->lane < 0 || s->lane >= ns || st->comb == COMB_NONE || s->wino.m || t->nsyms ||
	    t->nstages > 1 || st->naxes != ns + 1)
		return fail(E_INFEASIBLE, "feed: no tile of one axis beside the lanes and a sum over one");
	int64_t block = axis_block(t, st, ns);
	for (int i = 0; i < st->nreads && !there; i++) {
		const struct read *r = &st->read[i];
		unsigned axes = read_axes(t, st, r);
		bool rows = axes >> s->lane & 1;
		if (!stage_in_body(st, i) || t->operand[r->operand].role != ROLE_IN ||
		    t->operand[r->operand].dtype != DT_F32 || !(axes >> ns & 1))
			continue;
		f->read = i;
		f->block = rows ? 0 : block;
		if (rows)
			there = !(axes >> f->points & 1) && s->lanes == LINE_ELEMS &&
				read_stride(t, st, r, s->lane, s->lanes, &one, &pads) >= 0 && one == 1;
		else
			there = block > 1 && read_stride(t, st, r, ns, (int)block, &one, &pads) >= 0 &&
				one == 1 && read_stride(t, st, r, f->points, 2, &f->step, &pads) >= 0 &&
				f->step >= block;
	}
	return there ? E_OK : fail(E_INFEASIBLE, "feed: no input is read by blocks of channels or by rows");
}
