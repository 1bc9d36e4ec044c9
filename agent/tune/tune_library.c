/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that compete with a box's own kernels. */
#include "agent/tune/tune_parts.h"

#include "agent/cache/lookup.h"
#include "agent/worker/libraries.h"
#include "platform/base/log.h"
#include "search/placement.h"

#include <string.h>

int tune_libraries_open(struct session *s)
{
	if (!s->o->libraries)
		return E_OK;
	struct library_state *all = ARENA_ARRAY(s->a, struct library_state, LIBRARY_MOST);
	int n = libraries_find(s->o->libraries, s->o->worker, all);
	for (int i = 0; i < n; i++) {
		if (!all[i].open && all[i].named)
			return fail(
			    E_NOTFOUND,
			    "library %s cannot be opened: %s; install it, or leave it out of --library",
			    all[i].name, all[i].why);
		log_more("library %s: %s", all[i].name, all[i].open ? all[i].found.word : all[i].why);
	}
	s->report->library = all;
	s->report->nlibraries = n < 0 ? 0 : n;
	return n < 0 ? n : E_OK;
}

int tune_libraries_offer(struct session *s, int i)
{
	const struct tune_report *r = s->report;
	const char **offer = arena_try(s->a, (size_t)r->nlibraries + 1, sizeof *offer);
	char cand[512];
	if (!offer)
		return E_NOMEM;
	s->job[i].offer = offer;
	for (int k = 0; k < r->nlibraries; k++)
		if (r->library[k].open &&
		    library_cand(s->task[i].task, r->library[k].found.word,
				 s->start.alone ? 1 : s->o->threads, cand, sizeof cand) >= 0)
			offer[s->job[i].noffers++] = arena_strdup(s->a, cand);
	return E_OK;
}

static bool is_offered(const struct job_task *t, const char *cand)
{
	for (int i = 0; i < t->noffers; i++)
		if (!strcmp(t->offer[i], cand))
			return true;
	return false;
}

int tune_libraries_own(struct session *s, int i, struct arena *a, struct rec *r)
{
	struct rec own;
	if (!library_is_cand(r->cand))
		return E_OK;
	bool offered = is_offered(&s->job[i], r->cand);
	int rc = cache_find_rec(s->store.cache, s->task[i].key, &s->target, s->o->threads, s->o->level,
				REC_OWN, a, &own);
	if (!offered && rc >= 0)
		*r = own;
	else if (rc >= 0 && own.kind != REC_DEFAULT)
		s->job[i].own = arena_strdup(s->a, own.cand);
	return offered ? E_OK : rc;
}

int64_t tune_libraries_ns(const struct session *s)
{
	int64_t left = placement_share_ns(s->o->budget_ns) - s->report->spent.job.offer_ns;
	return left > 0 ? left : 0;
}
