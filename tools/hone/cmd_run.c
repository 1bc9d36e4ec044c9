/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/feed.h"
#include "agent/cache/json.h"

static int run_ready(const struct args *a, struct ready *r, const char *dir)
{
	int rc = arg_flag(a, "require-cache") ? ready_require(a, r) : 0;
	if (rc >= 0)
		rc = feed_inputs(a, r);
	if (rc >= 0)
		rc = plan_run(r->plan, r->in, r->out);
	if (rc < 0)
		return rc;
	json_t *list = json_array();
	rc = feed_outputs(a, r, dir, list);
	if (rc >= 0 && a->json)
		return json_out(json_pack("{so}", "outputs", list));
	json_decref(list);
	return rc;
}

static int run_run(const struct args *a)
{
	char cache[4096];
	const char *dir = arg_str(a, "output", NULL);
	if (!dir)
		return fail(E_USAGE,
			    "missing option --output; usage: hone run %s --input NAME=FILE --output DIR",
			    a->pos[0]);
	struct host h;
	struct ready r;
	int rc = model_cache_or_none(model_cache_dir(a, cache, sizeof cache), cache);
	if (rc >= 0)
		rc = host_open(a, cache, false, &h);
	if (rc < 0)
		return rc;
	rc = ready_open(a, a->pos[0], cache, KERNELS_BEST, &h, &r);
	if (rc >= 0) {
		rc = run_ready(a, &r, dir);
		ready_close(&r);
	}
	host_close(&h);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    OPT_FEED, OPT_REQUIRE_CACHE, OPT_THREADS, OPT_EXACT, OPT_CACHE, OPT_SHAPE, {NULL},
};

const struct cmd cmd_run = {
    .usage = "MODEL --input NAME=FILE... --output DIR [--exact]",
    .summary = "run a model once on given tensors",
    .details =
	"Kernels come from the cache, else from the built-in fallback kernels; with --require-cache from\n"
	"the cache alone.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_run,
    .name = "run",
};
