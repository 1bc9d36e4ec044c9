/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/cached.h"
#include "agent/cache/revert.h"
#include "agent/run/image.h"

static bool are_defaults(const struct ready *r, struct arena *a)
{
	const struct host *h = r->host;
	struct key *task = ARENA_ARRAY(a, struct key, r->model.ntasks + 1);
	for (int i = 0; i < r->model.ntasks; i++)
		task[i] = r->model.task[i].key;
	return all_at_defaults(r->cache, &h->target, h->threads, h->level, r->model.ntasks, task);
}

static int fill(const struct args *a, const struct ready *r, struct arena *arena, struct tune_report *out,
		int *missing, const char **why)
{
	const struct plan_kernel *k;
	int n = plan_kernels(r->plan, &k);
	struct tune_kernel *row = ARENA_ARRAY(arena, struct tune_kernel, n + 1);
	for (int i = 0; i < n; i++) {
		row[i] = (struct tune_kernel){.name = arena_strdup(arena, k[i].name),
					      .label = arena_strdup(arena, k[i].label),
					      .before = k[i].origin,
					      .after = k[i].origin,
					      .why = k[i].why,
					      .before_default = k[i].at_default,
					      .at_default = k[i].at_default};
		*missing += ready_missing(r, &k[i]);
	}
	if (!a->json)
		ready_look_at_records(r);
	out->tasks = r->model.ntasks;
	out->nkernels = n;
	out->kernel = row;
	if (!gain_get(r->cache, r->history, &out->gain))
		out->gain = (struct gain){0};
	out->at_defaults = !*missing && r->cache && are_defaults(r, arena);
	int rc = ready_require(a, r);
	*why = arena_strdup(arena, rc < 0 ? err_text() : "");
	return rc == E_NOTFOUND ? 0 : rc;
}

int cached_report(const struct args *a, struct arena *arena, struct tune_report *out, int *missing,
		  const char **why)
{
	char dir[4096];
	struct host h = {0};
	struct ready r;
	*out = (struct tune_report){0};
	*missing = 0;
	int rc = image_is_no_model(a->pos[0]);
	if (rc >= 0)
		rc = model_cache_to_read(a, dir, sizeof dir);
	if (rc >= 0)
		rc = host_open(a, dir, false, &h);
	if (rc < 0)
		return rc;
	out->cache = arena_strdup(arena, dir);
	out->target = arena_printf(arena, "%s %s, %d lanes", h.target.soc, h.target.isa, h.target.lanes);
	rc = ready_open(a, a->pos[0], dir, KERNELS_BEST, &h, &r);
	if (rc >= 0) {
		rc = fill(a, &r, arena, out, missing, why);
		ready_close(&r);
	}
	host_close(&h);
	out->elapsed_s = (double)clock_since_start(&clock_real) / 1e9;
	return rc;
}
