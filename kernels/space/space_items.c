/* SPDX-License-Identifier: Apache-2.0 */
/* What only schedules of work items have: their groups, and parts of a reduction that are items of their own.
 */
#include "kernels/space/space_rules.h"

void items_draw_group(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int items[] = {0, 16, 32, 32, 64, 64, 128, 256, 512};
	int most = s->t->nstages == 1 ? s->tg.group : 0, g = items[rng_below(r, 9)];
	(void)stage; /* the only one */
	out->group = g <= most ? g : 0;
}

/* Splits the longest reduction axis into about so many parts. */
static bool spread(const struct space *s, int stage, int64_t parts, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	struct sstage old = *out;
	int axis = -1;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		if (!IS_SYM(st->axis[a].extent) && (axis < 0 || st->axis[a].extent > st->axis[axis].extent))
			axis = a;
	if (axis < 0 || s->t->nstages > 1)
		return false;
	int64_t e = st->axis[axis].extent, b = axis_block(s->t, st, axis), u = out->unroll[axis],
		unit = b % u ? b * u : b;
	out->split_axis = axis;
	out->split = ceil_div(ceil_div(e, parts), unit) * unit;
	out->spread = true;
	bool fits = rules_fits(s, stage, out);
	if (!fits)
		*out = old;
	return fits;
}

/* Most tasks have more items than the device runs at a time. */
void items_draw_parts(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	static const int parts[] = {2, 3, 4, 4, 8, 8, 16, 32};
	rules_settle(s, stage, out);
	if (rng_below(r, 3) == 0)
		(void)spread(s, stage, parts[rng_below(r, 8)], out);
}

/* The default in groups, or with its reduction in parts. */
bool items_rule(const struct space *s, int i, struct sched *c)
{
	static const struct {
		int group, parts;
	} rule[] = {{32, 1}, {128, 1}, {0, 4}, {0, 8}, {0, 2}};
	if (!target_runs_items(&s->tg) || s->t->nstages > 1 || rule[i].group > s->tg.group)
		return false;
	rules_stage(s, 0, 0, &c->st[0]);
	c->st[0].group = rule[i].group;
	return rule[i].parts == 1 || spread(s, 0, rule[i].parts, &c->st[0]);
}
