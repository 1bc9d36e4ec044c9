/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/floats.h"
#include "tools/hone/model.h"
#include "tools/hone/table.h"
#include <stdio.h>
#include <string.h>

#define CLEARLY 1.02 /* so much slower than floats is worth a line */

static bool is_same(const struct gain *floats, const struct gain *g)
{
	return floats->level == LEVEL_FP32 && floats->threads == g->threads &&
	       !strcmp(floats->model, g->model) && !strcmp(floats->device, g->device) &&
	       !strcmp(floats->shapes, g->shapes);
}

void floats_find(const struct tune_report *r, struct floats *out)
{
	struct arena a = {0};
	struct cache *c;
	struct gain *all;
	*out = (struct floats){0};
	if (r->gain.level != LEVEL_INT8 || !r->gain.model[0] || !(r->after_ms > 0) || r->late ||
	    !r->recipe.quantised || model_cache_read(r->cache, &c) < 0)
		return;
	for (int i = 0, n = gain_all(c, &a, &all); i < n; i++)
		if (is_same(&all[i], &r->gain)) {
			out->ms = all[i].now_ms;
			snprintf(out->date, sizeof out->date, "%s", all[i].date);
		}
	out->faster = out->ms > 0 && r->after_ms > CLEARLY * out->ms;
	cache_close(c);
	arena_free(&a);
}

void floats_print(const struct tune_report *r, const struct floats *f)
{
	char now[24], then[24];
	if (f->faster)
		table_say(
		    "int8: now %s, slower than level fp32, which took %s in its box of %s: compare both with "
		    "hone bench, with and without --level int8; if floats win, leave out --level int8, or "
		    "give int8 a longer --budget",
		    table_ms(r->after_ms, now), table_ms(f->ms, then), f->date);
}
