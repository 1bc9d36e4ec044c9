/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/hints.h"
#include "agent/cache/hint.h"
#include "platform/machine/target.h"
#include <string.h>

struct counting {
	struct key own; /* class of this machine */
	struct hints *out;
};

static int count(void *ctx, const struct rec *h)
{
	struct counting *x = ctx;
	bool here = strcmp(h->device, "cpu") != 0 || key_equal(h->target_key, x->own);
	x->out->here += hint_open(h) && here;
	x->out->other += hint_open(h) && !here;
	return 0;
}

int hints_count(struct cache *c, struct hints *out)
{
	struct arena a = {0};
	struct target t;
	*out = (struct hints){0};
	int rc = target_host(&t);
	if (rc >= 0)
		rc = hint_each(c, &a, count, &(struct counting){target_key(&t), out});
	arena_free(&a);
	return rc < 0 ? rc : E_OK;
}
