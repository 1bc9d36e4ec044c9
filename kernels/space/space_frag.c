/* SPDX-License-Identifier: Apache-2.0 */
/* Draws and drafts schedules with fragments. */
#include "kernels/space/draft_parts.h"
#include "kernels/space/frag.h"
#include "kernels/space/space_rules.h"

#include <float.h>
#include <math.h>
#include <string.h>

static struct frags *last_frags(const struct space *s, struct sched *c)
{
	return &c->st[s->t->nstages - 1].frags;
}

static bool fits(const struct space *s, const struct sched *c)
{
	struct frag_plan p;
	return frag_plan_make(s->t, &s->tg, c, &p) >= 0;
}

bool frags_possible(const struct space *s)
{
	struct sched c;
	if (!target_multiplies_fragments(&s->tg, dtype_name(s->t->pairs ? s->t->pairs : DT_I8)))
		return false;
	sched_init(s->t, &c);
	*last_frags(s, &c) = (struct frags){1, 1, 1, 1, 1, 0}; /* the smallest block */
	return fits(s, &c);
}

bool frags_alone(const struct space *s)
{
	bool inputs = s->t->pairs && s->t->nstages == 1; /* task_inputs() made it */
	return inputs || (s->t->pairs == DT_BF16 && !strcmp(s->tg.isa, "cuda"));
}

/* Draws one number again. */
static void draw_number(struct rng *r, int which, struct frags *f)
{
	static const int sums[] = {1, 2, 2, 4}, warps[] = {1, 1, 2, 2, 4}, depth[] = {1, 2, 2, 4},
			 ring[] = {0, 0, 2, 2, 3};
	if (which < 2)
		*(which ? &f->rows : &f->cols) = sums[rng_below(r, 4)];
	else if (which < 4)
		*(which > 2 ? &f->warp_rows : &f->warp_cols) = warps[rng_below(r, 5)];
	else if (which == 4)
		f->depth = depth[rng_below(r, 4)];
	else
		f->ring = ring[rng_below(r, 5)];
}

enum { NUMBERS = 6, TRIES = 16, CHOICES = 3, ALL = 3 * 3 * 3 * 3 * 3 * 3 };

/* The n-th schedule of those that have the numbers of most draws. */
static struct frags nth(int n)
{
	int of[NUMBERS];
	for (int k = 0; k < NUMBERS; k++, n /= CHOICES)
		of[k] = n % CHOICES;
	return (struct frags){1 << of[0], 1 << of[1], 1 << of[2],
			      1 << of[3], 1 << of[4], of[5] ? of[5] + 1 : 0};
}

bool frags_rule(const struct space *s, int i, struct sched *c)
{
	double draft[ALL];
	int best = -1;
	if (!frags_possible(s))
		return false;
	for (int n = 0; n < ALL; n++) {
		*last_frags(s, c) = nth(n);
		draft[n] = fits(s, c) ? frags_draft(s, c) : DBL_MAX;
	}
	for (; i >= 0; i--) {
		best = 0;
		for (int n = 1; n < ALL; n++)
			best = draft[n] < draft[best] ? n : best;
		if (draft[best] >= DBL_MAX)
			return false;
		draft[best] = i ? DBL_MAX : draft[best];
	}
	*last_frags(s, c) = nth(best);
	return true;
}

bool frags_draw(const struct space *s, struct rng *r, struct sched *c)
{
	if (!frags_possible(s) || (!frags_alone(s) && rng_below(r, 2)))
		return false;
	for (int i = 0; i < TRIES; i++) {
		for (int k = 0; k < NUMBERS; k++)
			draw_number(r, k, last_frags(s, c));
		if (fits(s, c))
			return true;
	}
	*last_frags(s, c) = (struct frags){1, 1, 1, 1, 1, 0};
	return true;
}

bool frags_change(const struct space *s, struct rng *r, struct sched *c)
{
	if (!sched_frags(s->t, c))
		return false;
	draw_number(r, (int)rng_below(r, NUMBERS), last_frags(s, c));
	return true;
}

enum {
	RESIDENT_BYTES = 96 << 10, /* of shared buffers of the blocks that run on a unit at a time */
	RESIDENT_THREADS = 1536,
	ROUND_NS = 700 /* from the first load of a step to its last product, of a block that runs alone */
};

/* Rates as in draft_items.c: a unit runs some blocks at a time, which hide each other's latency. */
double frags_draft(const struct space *s, const struct sched *c)
{
	struct frag_plan p;
	const struct frags *f = &c->st[s->t->nstages - 1].frags;
	struct item_rates r = draft_item_rates(&s->tg);
	if (frag_plan_make(s->t, &s->tg, c, &p) < 0)
		return 1e30;
	const struct frag_factor *a = &p.of[0], *b = &p.of[1];
	double blocks =
		   (double)p.products * (double)ceil_div(p.rows, a->tile) * (double)ceil_div(p.cols, b->tile),
	       steps = (double)p.steps, meets = p.ring > 1 ? 1 : 2;
	double bytes = (double)dtype_bytes(a->type), from = p.sums == DT_I32 ? 1 : 4;
	double products = (double)(a->tile * b->tile * p.k) / frag_rate(&s->tg, a->type),
	       fills = (double)(a->tile * p.k) / a->wide + (double)(b->tile * p.k) / b->wide,
	       loads = (double)f->depth * p.threads * (f->rows + f->cols) * ITEM_LOAD * bytes / 2,
	       sums = (double)(a->tile * b->tile),
	       slots = steps * (products + fills * (ITEM_LOAD + ITEM_STORE + ITEM_COPY) + loads +
				meets * p.threads * ITEM_BARRIER) +
		       sums * (2 + ITEM_STORE);
	double shared = (double)(frag_tile_elems(&p, false) + frag_tile_elems(&p, true)) * bytes * p.ring +
			16. * f->warp_rows * (double)p.sum_pitch * 4;
	double together = fmax(1, floor(fmin(RESIDENT_BYTES / shared, RESIDENT_THREADS / (double)p.threads)));
	double waves = ceil(blocks / r.units), unit = r.slots / r.units;
	double ns = fmax(waves * slots / unit,
			 ceil(waves / together) * steps * ROUND_NS * (p.ring > 1 ? ITEM_AHEAD : 1));
	double near = blocks * steps * (double)p.k *
		      ((double)a->tile * from + (double)b->tile * (b->packed ? bytes : from));
	ns = fmax(ns, near / r.near);
	return fmax(ns, task_bytes(s->whole, true) / r.far) * draft_ghz(&s->tg);
}
