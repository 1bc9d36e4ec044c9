/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/log.h"
#include "agent/cache/exchange.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include <stdio.h>

static int export_type(struct cache *c, enum cache_type t, int *n)
{
	struct arena a = {0};
	struct key *k;
	int count = cache_keys(c, t, &a, &k), rc = 0;
	for (int i = 0; i < count && rc >= 0; i++) {
		json_t *j = exchange_json(c, t, k[i]);
		*n += j != NULL;
		if (j)
			rc = json_out(j);
	}
	arena_free(&a);
	return rc;
}

static int run_export(const struct args *a)
{
	char dir[4096];
	struct cache *c;
	int n = 0, rc = model_cache_open(a, false, dir, sizeof dir, &c);
	if (rc < 0)
		return rc;
	for (int i = 0; exchange_types[i] && rc >= 0; i++)
		rc = export_type(c, exchange_types[i], &n);
	cache_close(c);
	if (rc < 0)
		return rc;
	fflush(stdout);
	log_info("%d record%s of %s", n, plural_s(n), dir);
	next_say("hone import FILE --cache DIR on another board");
	return 0;
}

static const struct opt opts[] = {OPT_CACHE, {NULL}};

const struct cmd cmd_export = {
    .usage = "[--cache DIR]",
    .summary = "the cache's records as JSON lines",
    .details = "One object a line, also with --json: type, key and text. Machine code is not exported; use "
	       "hone pack for it.",
    .opts = opts,
    .run = run_export,
    .name = "export",
};
