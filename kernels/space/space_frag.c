/* SPDX-License-Identifier: Apache-2.0 */
/* Draws and drafts schedules with fragments. */
#include "kernels/space/draft_parts.h"
#include "kernels/space/frag.h"
#include "kernels/space/space_rules.h"

#include <float.h>
#include <math.h>
#include <string.h>

static struct sstage *last_stage(const struct space *s, struct sched *c)
{
	return &c->st[s->t->nstages - 1];
}

static bool plan(const struct space *s, const struct sched *c, struct frag_plan *p)
{
	return frag_plan_make(s->t, &s->tg, c, p) >= 0;
}

static bool fits(const struct space *s, const struct sched *c)
{
	struct frag_plan p;
	return plan(s, c, &p);
}

/* Sets the smallest block, and nothing else. */
static void set_smallest(const struct space *s, struct sched *c)
{
	sched_init(s->t, c);
	last_stage(s, c)->frags = (struct frags){1, 1, 1, 1, 1, 0};
}

bool frags_possible(const struct space *s)
{
	struct sched c;
	if (!target_multiplies_fragments(&s->tg, dtype_name(s->t->pairs ? s->t->pairs : DT_I8)))
		return false;
	set_smallest(s, &c);
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

/* Gives the schedule so many parts of the reduction, or the next smaller number that it can have. */
static void set_parts(const struct space *s, int64_t parts, struct sched *c)
{
	struct sstage *st = last_stage(s, c);
	struct frag_plan p;
	st->split_axis = -1;
	st->split = 0;
	st->spread = false;
	if (parts < 2 || !plan(s, c, &p))
		return;
	while (parts > 1 && frag_plan_divide(&p, parts) < 0)
		parts--;
	if (parts < 2)
		return;
	st->split_axis = p.k_axis;
	st->split = p.part;
	st->spread = true;
}

static void draw_parts(const struct space *s, struct rng *r, struct sched *c)
{
	static const int parts[] = {1, 1, 1, 2, 3, 4, 8, 16};
	set_parts(s, parts[rng_below(r, 8)], c);
}

/* Draws how many blocks a unit runs side by side, if it has room for them. */
static void draw_blocks(const struct space *s, struct rng *r, struct sched *c)
{
	static const int blocks[] = {1, 1, 1, 2, 2, 3, 4, 8};
	struct sstage *st = last_stage(s, c);
	st->blocks = blocks[rng_below(r, 8)];
	if (st->blocks > 1 && !fits(s, c))
		st->blocks = 1;
}

/* The n-th schedule of those that have the numbers of most draws. */
static struct frags nth(int n)
{
	int of[NUMBERS];
	for (int k = 0; k < NUMBERS; k++, n /= CHOICES)
		of[k] = n % CHOICES;
	return (struct frags){1 << of[0], 1 << of[1], 1 << of[2],
			      1 << of[3], 1 << of[4], of[5] ? of[5] + 1 : 0};
}

static double draft_plan(const struct space *s, const struct sstage *st, const struct frag_plan *p);

/* The draft of the schedule with as many parts of the reduction as make it the fastest. */
static double best_parts(const struct space *s, const struct sched *c, int *parts)
{
	const struct sstage *st = &c->st[s->t->nstages - 1];
	struct frag_plan whole, p;
	double best = DBL_MAX;
	*parts = 1;
	if (!plan(s, c, &whole))
		return best;
	for (int n = 1; n <= 16; n *= 2) {
		p = whole;
		if (n > 1 && frag_plan_divide(&p, n) < 0)
			continue;
		double d = draft_plan(s, st, &p);
		*parts = d < best ? n : *parts;
		best = fmin(best, d);
	}
	return best;
}

bool frags_rule(const struct space *s, int i, struct sched *c)
{
	double draft[ALL];
	int best = -1, parts[ALL];
	if (!frags_possible(s))
		return false;
	for (int n = 0; n < ALL; n++) {
		last_stage(s, c)->frags = nth(n);
		draft[n] = best_parts(s, c, &parts[n]);
	}
	for (; i >= 0; i--) {
		best = 0;
		for (int n = 1; n < ALL; n++)
			best = draft[n] < draft[best] ? n : best;
		if (draft[best] >= DBL_MAX)
			return false;
		draft[best] = i ? DBL_MAX : draft[best];
	}
	last_stage(s, c)->frags = nth(best);
	set_parts(s, parts[best], c);
	return true;
}

bool frags_draw(const struct space *s, struct rng *r, struct sched *c)
{
	if (!frags_possible(s) || (!frags_alone(s) && rng_below(r, 2)))
		return false;
	for (int i = 0; i < TRIES; i++) {
		for (int k = 0; k < NUMBERS; k++)
			draw_number(r, k, &last_stage(s, c)->frags);
		if (!fits(s, c))
			continue;
		draw_parts(s, r, c);
		draw_blocks(s, r, c);
		return true;
	}
	set_smallest(s, c);
	return true;
}

bool frags_change(const struct space *s, struct rng *r, struct sched *c)
{
	if (!sched_frags(s->t, c))
		return false;
	struct sstage *st = last_stage(s, c);
	int which = (int)rng_below(r, NUMBERS + 2);
	int64_t parts = stage_parts(&s->t->stage[s->t->nstages - 1], st);
	if (which == NUMBERS) {
		draw_parts(s, r, c);
		return true;
	}
	if (which > NUMBERS) {
		draw_blocks(s, r, c);
		return true;
	}
	set_parts(s, 1, c);
	draw_number(r, which, &st->frags);
	if (!fits(s, c))
		st->blocks = 1;
	set_parts(s, parts, c);
	return true;
}

enum {
	/* These limits hold for a unit whose architecture is not known (resident.h): shared memory, and
	   threads side by side. */
	RESIDENT_BYTES = 96 << 10,
	RESIDENT_THREADS = 1536,
	ROUND_NS = 700 /* from the first load of a step to its last product, of a block that runs alone */
};

/* Blocks that a unit runs side by side. */
static double resident(const struct space *s, int blocks, const struct frag_plan *p)
{
	int n = frag_plan_resident(&s->tg, blocks, p);
	return n ? n
		 : fmax(1, floor(fmin((double)RESIDENT_BYTES / (double)p->shared,
				      (double)RESIDENT_THREADS / p->threads)));
}

/* The second launch: an item adds the parts of some columns. */
static double draft_second(const struct space *s, const struct item_rates *r, const struct frag_plan *p)
{
	double lanes = p->cols % 4 ? 1 : 4, points = (double)(p->products * p->rows * p->cols);
	struct draft_launch l = draft_sum_parts((double)p->parts, (int)lanes,
						draft_post(&s->t->stage[s->t->nstages - 1]), points / lanes);
	struct sstage usual = {.group = 0};
	struct draft_terms x = {0};
	return draft_add_launch(r, &usual, &l, &x);
}

/* Rates as in draft_items.c: a unit runs some blocks at a time, which hide each other's latency. */
static double draft_plan(const struct space *s, const struct sstage *st, const struct frag_plan *p)
{
	const struct frags *f = &st->frags;
	const struct frag_factor *a = &p->of[0], *b = &p->of[1];
	struct item_rates r = draft_item_rates(&s->tg);
	double blocks = (double)p->products * (double)ceil_div(p->rows, a->tile) *
			(double)ceil_div(p->cols, b->tile) * (double)p->parts,
	       steps = (double)p->steps, meets = p->ring > 1 ? 1 : 2;
	double bytes = (double)dtype_bytes(a->type), from = p->sums == DT_I32 ? 1 : 4;
	double products = (double)(a->tile * b->tile * p->k) / frag_rate(&s->tg, a->type),
	       fills = (double)(a->tile * p->k) / a->wide + (double)(b->tile * p->k) / b->wide,
	       loads = (double)f->depth * p->threads * (f->rows + f->cols) * ITEM_LOAD * bytes / 2,
	       sums = (double)(a->tile * b->tile),
	       slots = steps * (products + fills * (ITEM_LOAD + ITEM_STORE + ITEM_COPY) + loads +
				meets * p->threads * ITEM_BARRIER) +
		       sums * (2 + ITEM_STORE);
	double waves = ceil(blocks / r.units), unit = r.slots / r.units;
	double ns = fmax(waves * slots / unit, ceil(waves / resident(s, st->blocks, p)) * steps * ROUND_NS *
						   (p->ring > 1 ? ITEM_AHEAD : 1));
	double near = blocks * steps * (double)p->k *
		      ((double)a->tile * from + (double)b->tile * (b->packed ? bytes : from));
	if (p->parts > 1)
		near += blocks * sums * 4;
	ns = fmax(ns, near / r.near);
	ns = fmax(ns, task_bytes(s->whole, true) / r.far) + r.launch;
	ns += p->parts > 1 ? draft_second(s, &r, p) : 0;
	return ns * draft_ghz(&s->tg);
}

double frags_draft(const struct space *s, const struct sched *c)
{
	struct frag_plan p;
	return plan(s, c, &p) ? draft_plan(s, &c->st[s->t->nstages - 1], &p) : 1e30;
}
