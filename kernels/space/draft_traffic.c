/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what the loops of a stage touch, and how much of that comes from the next cache level. */
#include "kernels/space/draft_parts.h"

#include <math.h>

struct touch_form draft_form(const struct task *t, const struct stage *st, const struct read *r)
{
	struct touch_form f = {.n = 0};
	unsigned seen = 0;
	for (int d = 0; d < t->operand[r->operand].dims.rank; d++)
		for (int a = 0; a < st->naxes; a++) {
			int64_t c = r->dim[d].coef[a];
			if (!c || seen >> a & 1)
				continue;
			seen |= 1u << a;
			f.term[f.n++] = (struct touch_term){(uint8_t)a, (uint8_t)d, r->dim[d].table >= 0,
							    IS_SYM(c) ? 1 : fabs((double)c)};
		}
	return f;
}

double draft_touched(const struct touch_form *f, int lane, int lanes, const double *n)
{
	double all = 1;
	for (int i = 0; i < f->n;) {
		double points = 1, span = 1;
		int d = f->term[i].dim;
		bool table = f->term[i].table;
		for (; i < f->n && f->term[i].dim == d; i++) {
			int a = f->term[i].axis;
			points *= n[a];
			span += f->term[i].apart * (a == lane ? lanes : 1) * (n[a] - 1);
		}
		all *= !table && span < points ? span : points;
	}
	return all;
}

double draft_footprint(const struct tile_cost *c, int read, const double *n)
{
	return c->bytes[read] * draft_touched(&c->form[read], -1, 1, n);
}

void draft_tile_points(const struct tile_cost *c, double *n)
{
	for (int a = 0; a < c->st->naxes; a++)
		n[a] = a < c->ns               ? c->s->tile[a] * (a == c->s->lane ? c->s->lanes : 1)
		       : a == c->s->split_axis ? (double)c->s->split
					       : (double)c->extent[a];
}

/* What the inner loops touch: points along each axis; per cache level, the bytes of each read and of all
 * together, and the share of them that was lost from the cache so far. */
struct held {
	double n[MAX_AXES], kept[MAX_READS + 1];
	struct {
		double room, safe, read[MAX_READS + 1], set, lost;
	} of[DRAFT_LEVELS];
};

static double lost(const struct held *h, int level)
{
	return fmax(h->of[level].lost, fmin(1, h->of[level].set / h->of[level].room - h->of[level].safe));
}

static void again(const struct tile_cost *c, struct held *h, int axis, double count)
{
	for (int l = 0; l < DRAFT_LEVELS; l++) {
		h->of[l].lost = lost(h, l);
		h->of[l].set = 0;
	}
	h->n[axis] *= count;
	/* Small tiles seldom divide the extent. For other tiles the constants above were fitted with whole
	 * last tiles. */
	if (c->held)
		h->n[axis] = fmin(h->n[axis], (double)c->extent[axis]);
	for (int i = 0; i <= c->st->nreads; i++) {
		double kept = h->kept[i] = c->axes[i] >> axis & 1 ? draft_footprint(c, i, h->n) : h->kept[i];
		for (int l = 0; l < DRAFT_LEVELS; l++) {
			double more = fmax(0, h->of[l].read[i] * count - kept);
			h->of[l].read[i] = kept + h->of[l].lost * more;
			h->of[l].set += h->of[l].read[i];
		}
	}
}

static void first_tile(const struct tile_cost *c, struct held *h)
{
	*h = (struct held){
	    .of = {{.room = c->l1_bytes, .safe = L1_SAFE}, {.room = c->l2_bytes, .safe = L2_SAFE}}};
	draft_tile_points(c, h->n);
	for (int i = 0; i <= c->st->nreads; i++) {
		h->kept[i] = draft_footprint(c, i, h->n);
		for (int l = 0; l < DRAFT_LEVELS; l++)
			h->of[l].set += h->of[l].read[i] = h->kept[i];
	}
}

/* Goes from the innermost loop outwards; loops over blocks are around all loops over tiles. */
static void all_loops(const struct tile_cost *c, struct held *h)
{
	int ns = c->ns, nouter = 0, parted = c->parts > 1;
	for (int a = 0; a < ns; a++)
		nouter += c->s->outer[a];
	for (int j = 2 * ns - 1; j >= 0; j--) {
		int a = c->s->order[j % ns];
		int64_t u = (int64_t)c->s->tile[a] * (a == c->s->lane ? c->s->lanes : 1);
		double count = (double)((c->extent[a] + u - 1) / u),
		       block = c->s->outer[a] && c->s->block[a] ? (double)c->s->block[a] : count;
		if (parted && nouter + j - ns < c->s->par) { /* the loop over parts is right inside of the
							      * parallel loops */
			again(c, h, c->s->split_axis, c->parts);
			parted = 0;
		}
		count = j >= ns ? fmin(block, count) : ceil(count / fmin(block, count));
		if (count > 1)
			again(c, h, a, count);
	}
}

/* The share of an operand that the cache no longer holds when the kernel starts. Inputs and outputs compete
 * with all data that the task reads and writes, scratch with the data of its ring. */
static double before(const struct tile_cost *c, const struct held *h, int read, int level)
{
	const struct read *r = read < c->st->nreads ? &c->st->read[read] : &c->st->out;
	bool scratch = c->t->operand[r->operand].role == ROLE_TMP;
	double bytes = scratch ? h->of[level].set : c->passing;
	return fmax(0, fmin(1, bytes / h->of[level].room - h->of[level].safe));
}

void draft_traffic(const struct tile_cost *c, double bytes[DRAFT_LEVELS])
{
	struct held h;
	first_tile(c, &h);
	all_loops(c, &h);
	for (int l = 0; l < DRAFT_LEVELS; l++) {
		bytes[l] = 0;
		for (int i = 0; i <= c->st->nreads; i++) {
			bool cold = i < c->st->nreads && operand_packs(c->t, c->st->read[i].operand);
			if (l == 0 && i < c->st->nreads && c->streams[i] > 0)
				continue;
			double first = cold ? l == 0 : before(c, &h, i, l);
			bytes[l] += h.of[l].read[i] - (1 - first) * h.kept[i];
		}
	}
}
