/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and draws for sums of products of bytes by products of matrices (mmla.h). */
#include "kernels/space/mmla.h"
#include "kernels/space/space_rules.h"

/* Registers that a tile leaves free: the program's constants, and what LLVM holds because it loads operands
 * early, more so in a body without a loop. Measured by what spills. */
enum { MOST_PAIRS = 7, MOST_VECTORS = 6, SPARE = 10, SPARE_STRAIGHT = 13 };

/* Completes a tile of `points` points of the axis and `vectors` vectors. Its registers are the sums, the
 * operands of its pairs of points, and the weights of two channels. */
static bool make_tile(const struct space *s, int stage, struct sstage *c, int axis, int points, int vectors)
{
	const struct stage *st = &s->t->stage[stage];
	int pairs = (points + 1) / 2, free = s->tg.regs - (2 * pairs * vectors + pairs + 2);
	if (vectors > ceil_div(st->axis[c->lane].extent, c->lanes) || points > st->axis[axis].extent ||
	    (points % 2 && points != st->axis[axis].extent) || free < SPARE)
		return false;
	for (int a = 0; a < stage_spatial(st); a++)
		c->tile[a] = 1;
	c->tile[c->lane] = vectors;
	c->tile[axis] = points;
	rules_finish(s, stage, c);
	c->mmla = true;
	rules_settle(s, stage, c);
	struct mmla m;
	if (!c->mmla || stage_mmla(s->t, st, c, &m) < 0)
		return false;
	free -= m.run != 0; /* a load has the operands of two steps */
	return free >= SPARE && rules_fits(s, stage, c) &&
	       (free >= SPARE_STRAIGHT || stage_steps(st) >= MMLA_RUN);
}

void mmla_default(const struct space *s, int stage, struct sstage *out)
{
	const struct sstage base = *out;
	const struct stage *st = &s->t->stage[stage];
	int spatial = mmla_possible(s->t, st) ? stage_spatial(st) : 0;
	double least = draft_stage(s->t, &s->tg, stage, out);
	for (int i = 0; i < spatial * MOST_VECTORS * 2 * MOST_PAIRS && base.lane >= 0; i++) {
		struct sstage c = base;
		int v = i / spatial % MOST_VECTORS + 1, a = spatial - 1 - i % spatial;
		if (!make_tile(s, stage, &c, a, i / spatial / MOST_VECTORS + 1, v))
			continue;
		double d = draft_stage(s->t, &s->tg, stage, &c);
		if (d < least) {
			least = d;
			*out = c;
		}
	}
}

void mmla_draw(const struct space *s, struct rng *r, struct sstage *out)
{
	out->mmla = s->mmla && rng_below(r, 4);
}
