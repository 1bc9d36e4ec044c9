/* SPDX-License-Identifier: Apache-2.0 */
#include "search/share.h"
#include "platform/base/mix.h"

int share_parts(int boards)
{
	int parts = boards / SHARE_BOARDS;
	return boards < 2 ? 0 : parts < 2 ? 2 : parts < SHARE_PARTS ? parts : SHARE_PARTS;
}

static bool divided(const struct share *s)
{
	return s && s->parts > 1;
}

struct portion share_portion(const struct share *s, const char *task)
{
	if (!divided(s))
		return (struct portion){0};
	struct key of_task = mix_join(mix_text(s->salt), mix_text(task)),
		   of_board = mix_join(of_task, mix_text(s->board));
	return (struct portion){.deal = of_task.lo,
				.parts = (uint32_t)s->parts,
				.mine = (uint32_t)(of_board.lo % (uint32_t)s->parts)};
}

bool portion_has(const struct portion *p, uint64_t structure)
{
	return p->parts < 2 || mix_bytes(&structure, sizeof structure, p->deal).lo % p->parts == p->mine;
}

uint64_t share_seed(const struct share *s, uint64_t seed)
{
	return divided(s) ? seed ^ mix_join(mix_text(s->salt), mix_text(s->board)).lo : seed;
}
