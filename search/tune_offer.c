/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates from outside of the space: built, checked and timed as all others, within a part of the box. */
#include "search/tune_parts.h"

#include <string.h>

bool tune_is_offer(const struct tune *t, const char *cand)
{
	for (int i = 0; i < t->task->noffers; i++)
		if (!strcmp(t->task->offer[i], cand))
			return true;
	return false;
}

int tune_legal(const struct tune *t, const char *cand)
{
	return tune_is_offer(t, cand) ? E_OK : space_legal(t->space, cand);
}

int tune_try_offers(struct tune *t)
{
	int rc = E_OK;
	for (int i = 0;
	     i < t->task->noffers && rc >= 0 && t->box->spent.offer_ns < t->box->job->limits.offer_ns; i++) {
		const char *cand = t->task->offer[i];
		struct meas m;
		int trial;
		if (tune_knows(t, cand))
			continue;
		int64_t start_ns = clock_now(t->box->runner->clock);
		t->by = TRIED_OFFER;
		rc = tune_try(t, cand, &trial, &m);
		t->box->spent.offer_ns += clock_now(t->box->runner->clock) - start_ns;
		if (rc >= 0 && t->fallen)
			rc = tune_replace(t);
	}
	return rc;
}
