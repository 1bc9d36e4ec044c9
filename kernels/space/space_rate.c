/* SPDX-License-Identifier: Apache-2.0 */
/* The roofline of a space: how many products an instruction makes, and the least time of a task. */
#include "kernels/space/frag.h"
#include "kernels/space/mmla.h"
#include "kernels/space/quads.h"
#include "kernels/space/share.h"
#include "kernels/space/space_rules.h"
#include "kernels/space/winograd.h"

#include <math.h>

static double roofline(const struct target *tg, double ops, double bytes)
{
	double peak = tg->fma_gflops > 0 ? tg->fma_gflops : 12. * tg->lanes;
	int level = bytes <= (double)tg->l1_bytes   ? 0
		    : bytes <= (double)tg->l2_bytes ? 1
		    : bytes <= (double)tg->l3_bytes ? 2
						    : 3;
	static const double usual[] = {200, 100, 30, 10};
	double bw = tg->bw_gbs[level] > 0 ? tg->bw_gbs[level] : usual[level];
	double flops = ops / peak, moved = bytes / bw;
	return flops > moved ? flops : moved;
}

/* Products that a dot product of a depthwise stage makes; 0: it has none. */
static double most_products(const struct task *t, const struct stage *st, const struct target *tg)
{
	double most = 0;
	for (int a = 0; a < stage_spatial(st); a++)
		most = fmax(most, quads_products(t, st, a, tg->lanes));
	return most;
}

/* frag_rate() of a task whose products fragments can make; 0: they cannot. */
static double fragment_products(const struct task *t, const struct target *tg)
{
	enum dtype type = t->pairs ? t->pairs : DT_I8;
	struct frag_plan p;
	struct sched s;
	if (!SCHED_THREADED || !target_multiplies_fragments(tg, dtype_name(type)))
		return 0;
	sched_init(t, &s);
	s.st[t->nstages - 1].frags = (struct frags){1, 1, 1, 1, 1, 0}; /* the smallest block */
	return frag_plan_make(t, tg, &s, &p) < 0 ? 0 : frag_rate(tg, type);
}

/* Returns how many products one instruction of the stage's sum makes, where an f32 instruction makes 1. */
static double products(const struct task *t, const struct stage *st, const struct target *tg)
{
	enum sum_kind kind = stage_sum(t, st);
	double quads = kind == SUM_SHORT || kind == SUM_WHOLE ? most_products(t, st, tg) : 0;
	if (quads > 0)
		return fmax(1, quads * draft_dots(t, st, tg) / QUAD);
	if (kind == SUM_DOT && target_multiplies_blocks(tg) && mmla_possible(t, st))
		return MMLA_GROUPS * draft_dots(t, st, tg);
	return kind == SUM_PAIR || kind == SUM_HALF ? 2 : kind == SUM_DOT ? draft_dots(t, st, tg) : 1;
}

/* t: task_groups() of a task, or task_pairs(). */
static double dot_rate(const struct task *t, const struct target *tg)
{
	double rate = 1, most = 0;
	for (int k = 0; k < t->nstages; k++) {
		const struct stage *st = &t->stage[k];
		double work = stage_points(st) * stage_steps(st);
		if (work > most)
			rate = products(t, st, tg);
		most = work > most ? work : most;
	}
	return fmax(rate, fragment_products(t, tg));
}

double space_rate(const struct task *t, const struct target *tg, const char *cand)
{
	struct arena scratch = {0};
	double rate = dot_rate(task_view(&scratch, t, cand), tg);
	arena_free(&scratch);
	return rate;
}

/* Bytes of the task with the smallest weights that the space has. */
static double least_bytes(const struct space *s)
{
	double bytes = task_bytes(s->whole, true);
	for (int i = 0; i < s->whole->noperands && s->w16; i++)
		if (task_stores(s->t, i))
			bytes -= 2 * (double)shape_count(&s->whole->operand[i].dims);
	return bytes;
}

double space_roofline(const struct space *s)
{
	double ops = task_flops(s->whole) / dot_rate(s->t, &s->tg), bytes = least_bytes(s),
	       best = roofline(&s->tg, ops, bytes);
	for (int m = 2; m <= 4 && s->wino_lanes; m += 2) {
		struct winograd_share w = winograd_share(m);
		double other = roofline(&s->tg, ops * w.flops, bytes);
		best = other < best ? other : best;
	}
	best = fmin(best, s->pairs ? space_roofline(s->pairs) : best);
	return fmin(best, s->tf32 ? space_roofline(s->tf32) : best);
}
