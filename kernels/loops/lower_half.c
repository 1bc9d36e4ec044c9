/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of f16. f16 has 11 digits, so a long sum in it loses most of what it adds. A tile
 * therefore sums at most HALF_STEPS steps of the reduction in f16, in two sums for each point (the parts of a
 * pair), adds both to the point's sum in f32, and starts again with zeros. The f32 sums are in scratch
 * meanwhile, because the f16 sums fill the registers; to add a register's sums to those in scratch takes
 * about as long as 6 steps. */
#include "kernels/loops/lower_parts.h"
#include "kernels/space/draft.h"

bool half_keeps_sums(const struct stage *st)
{
	return stage_steps(st) > HALF_STEPS;
}

/* Iterations of reduction loop i. */
static int64_t trips(const struct nest *k, int i)
{
	int axis = k->red[i].axis;
	int64_t extent = 1, b = axis_block(k->w->t, k->st, axis);
	ix_is_const(k->extent[axis], &extent);
	if (axis == k->s->split_axis && k->s->split < extent)
		extent = k->s->split;
	return k->red[i].kind == RED_OUTER   ? ceil_div(extent, b)
	       : k->red[i].kind == RED_INNER ? ceil_div(b, nest_red_step(k, i))
					     : ceil_div(extent, nest_red_step(k, i));
}

/* Steps of the reduction in one iteration of loop i - 1: those of the body, and the iterations of the loops
 * from i on. Axes without a loop have all of their points in the body. */
static int64_t steps_inside(const struct nest *k, int i)
{
	int64_t n = 1;
	for (int a = k->ns; a < k->st->naxes; a++)
		n *= k->n[a];
	for (int j = 0; j < k->nred; j++)
		n *= nest_red_step(k, j) * (j < i ? 1 : trips(k, j));
	return n;
}

/* Chooses the loop whose iterations are summed in f16, some at a time: the innermost one that has more steps
 * than are allowed. One iteration has at most as many (sched_check). */
static void choose_loop(struct nest *k)
{
	int i = k->sums_at ? k->nred : 0;
	while (i > 0 && steps_inside(k, i - 1) <= HALF_STEPS)
		i--;
	k->chunk = i - 1;
	if (i < 1)
		return;
	int64_t all = trips(k, k->chunk), most = HALF_STEPS / steps_inside(k, i);
	most = most < 1 ? 1 : most > all ? all : most;
	k->chunk_trips = ceil_div(all, ceil_div(all, most));
}

static struct mem sum_at(const struct nest *k, int point)
{
	struct loops *l = k->w->l;
	return (struct mem){.buf = k->w->scratch_buf,
			    .at = ix_add(l, k->sums_at, ix_c(l, (int64_t)point * k->s->lanes)),
			    .stride = 1};
}

void half_clear(struct nest *k)
{
	for (int i = 0; i < k->nacc; i++)
		lv_const_s32(k->w->l, k->half[i], 0);
}

/* Adds the f16 sums of a point to a variable of f32. */
static void add_point(struct nest *k, int point, int sum)
{
	for (int c = 0; c < k->s->chains; c++)
		lv_set(k->w->l, sum, V_SUM2, k->half[point * k->s->chains + c], sum, -1, -1);
}

void half_add(struct nest *k)
{
	for (int p = 0; p < k->npoints; p++) {
		int v = lv_new(k->w->l, k->s->lanes);
		lv_load(k->w->l, v, sum_at(k, p));
		add_point(k, p, v);
		lv_store(k->w->l, v, sum_at(k, p));
	}
}

void half_reduce(struct nest *k, void (*start)(struct nest *k))
{
	struct loops *l = k->w->l;
	k->half = ARENA_ARRAY(l->arena, int, k->nacc);
	for (int i = 0; i < k->nacc; i++)
		k->half[i] = lv_new_s32(l, k->s->lanes);
	choose_loop(k);
	if (k->chunk < 0) {
		half_clear(k);
		nest_reduce(k, 0);
		start(k);
		for (int p = 0; p < k->npoints; p++)
			add_point(k, p, k->acc[p * k->s->chains]);
	} else {
		start(k);
		for (int p = 0; p < k->npoints; p++)
			lv_store(l, k->acc[p * k->s->chains], sum_at(k, p));
		nest_reduce(k, 0);
		for (int p = 0; p < k->npoints; p++)
			lv_load(l, k->acc[p * k->s->chains], sum_at(k, p));
	}
	k->half = NULL;
	k->chunk = -1;
}
