/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that a device reads as textures. Whether that is faster depends on the device, so such schedules
 * are drawn and timed, and their drafts are those of buffers. A processor has no cache for textures: its
 * driver works out each texel. */
#include "kernels/space/space_rules.h"

static bool has_cache(const struct space *s)
{
	return target_textures(&s->tg) && !s->tg.serial;
}

void texture_draw(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	if (!has_cache(s) || rng_below(r, 2))
		return;
	out->texture = true;
	texture_settle(s, stage, out);
}

void texture_settle(const struct space *s, int stage, struct sstage *out)
{
	struct sstage without = *out;
	without.texture = false;
	if (out->texture && !rules_fits(s, stage, out) && rules_fits(s, stage, &without))
		out->texture = false;
}

void texture_change(const struct space *s, int stage, struct rng *r, struct sstage *out)
{
	if (!has_cache(s) || out->wino.m || rng_below(r, 6))
		return;
	out->texture = !out->texture;
	texture_settle(s, stage, out);
}

bool texture_rule(const struct space *s, int stage, struct sstage *out)
{
	out->texture = has_cache(s);
	texture_settle(s, stage, out);
	return out->texture;
}
