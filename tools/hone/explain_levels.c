/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/explain_levels.h"
#include "platform/base/buf.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"

unsigned explain_levels(struct cache *c, struct key task, const struct target *t, int threads,
			enum level level)
{
	struct arena scratch = {0};
	unsigned levels = 0;
	for (int l = 0; l < LEVELS; l++) {
		struct rec r;
		if (level_serves((enum level)l, level))
			continue;
		int rc = cache_find_rec(c, task, t, threads, (enum level)l, REC_BEST, &scratch, &r);
		if (rc >= 0 && r.kind == REC_BEST && r.level == (enum level)l)
			levels |= 1u << l;
	}
	arena_free(&scratch);
	return levels;
}

void explain_levels_names(unsigned levels, struct buf *out)
{
	const char *comma = "";
	for (int l = 0; l < LEVELS; l++)
		if (levels & 1u << l) {
			buf_printf(out, "%s%s", comma, level_name(l));
			comma = ", ";
		}
}

json_t *explain_levels_json(unsigned levels)
{
	json_t *list = json_array();
	for (int l = 0; l < LEVELS; l++)
		if (levels & 1u << l)
			json_array_append_new(list, json_string(level_name(l)));
	return list;
}

void explain_levels_words(const struct args *a, const char *model, enum level level, int n, unsigned levels)
{
	struct buf names = {0}, more = {0}, command = {0};
	int first = 0;
	if (!n)
		return;
	while (!(levels & 1u << first))
		first++;
	explain_levels_names(levels, &names);
	buf_printf(&more, " --level %s", level_name(first));
	next_words(a, "explain", model, buf_str(&more), NULL, &command);
	table_say("%d task%s without a kernel at level %s %s one at level %s: %s shows %s", n, plural_s(n),
		  level_name((int)level), n == 1 ? "has" : "have", buf_str(&names), buf_str(&command),
		  n == 1 ? "it" : "them");
	buf_free(&names);
	buf_free(&more);
	buf_free(&command);
}
