/* SPDX-License-Identifier: Apache-2.0 */
#include "search/learn.h"

#include "platform/base/log.h"

#include <math.h>
#include <string.h>

enum { FIRST_CAP = 128 }; /* samples; doubled up to LEARN_MAX */

int learn_open(struct learn *l, int ntasks, const char *cost, const char *prior, size_t n, uint64_t seed)
{
	const char *name = cost ? cost : "draft";
	*l = (struct learn){.cost = cost_find(name), .ntasks = ntasks};
	if (!l->cost)
		return fail(E_USAGE, "unknown cost model '%s'", name);
	l->count = ARENA_ARRAY(&l->arena, int, ntasks + 1);
	int rc = l->cost->start(&l->arena, prior, n, seed, &l->model);
	if (rc != E_CORRUPT && rc != E_UNSUPPORTED)
		return rc;
	log_more("cost model %s begins without its prior: %s", name, err_text());
	return E_OK;
}

void learn_close(struct learn *l)
{
	arena_free(&l->arena);
	arena_free(&l->samples);
}

/* Index of the oldest sample of the task that has the most samples. */
static int least_missed(const struct learn *l)
{
	int task = 0, at = 0;
	for (int i = 1; i < l->ntasks; i++)
		task = l->count[i] > l->count[task] ? i : task;
	while (l->sample[at].task != task)
		at++;
	return at;
}

static void forget(struct learn *l, int at)
{
	l->count[l->sample[at].task]--;
	l->n--;
	memmove(&l->sample[at], &l->sample[at + 1], sizeof *l->sample * (size_t)(l->n - at));
}

static void grow(struct learn *l)
{
	struct arena wide = {0};
	l->cap = l->cap ? 2 * l->cap : FIRST_CAP;
	struct sample *p = ARENA_ARRAY(&wide, struct sample, l->cap);
	if (l->n)
		memcpy(p, l->sample, sizeof *p * (size_t)l->n);
	arena_free(&l->samples);
	l->samples = wide;
	l->sample = p;
}

void learn_add(struct learn *l, int task, const float f[FEATURES], const struct meas *m)
{
	bool timed = m->status == MEAS_OK || m->status == MEAS_ABORTED;
	struct sample new = {.task = task};
	if (!timed || m->min_ns <= 0)
		return;
	memcpy(new.f, f, sizeof new.f);
	new.log_ratio = (float)log((double)m->min_ns) - new.f[FEATURE_DRAFT];
	if (l->n == LEARN_MAX)
		forget(l, least_missed(l));
	if (l->n == l->cap)
		grow(l);
	l->count[task]++;
	l->sample[l->n++] = new;
	l->fresh += l->fresh < l->n;
}

void learn_fit(struct learn *l)
{
	if (l->fresh)
		l->cost->learn(l->model, l->sample, l->n, l->fresh);
	l->fresh = 0;
}
