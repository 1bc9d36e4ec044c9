/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/shots.h"

#include "platform/base/stats.h"

enum { GROUP = 3, SETTLED = 3 };

#define CLEAN 1.10
#define SLOW 1.6
#define VERY_SLOW 3

void shots_open(struct shots *s, struct arena *a, int room)
{
	*s = (struct shots){.reference = -1, .cap = room * SHOTS_RUNS};
	s->shot = ARENA_ARRAY(a, struct shot, room);
	s->ref_ns = ARENA_ARRAY(a, double, s->cap);
}

void shots_add(struct shots *s, int handle)
{
	s->shot[s->n] = (struct shot){.handle = handle};
	if (handle >= 0 && s->reference < 0)
		s->reference = s->n;
	s->n++;
}

/* Ratios to the reference of the runs during which the reference was not disturbed. Returns their number. */
static int clean_runs(const struct shots *s, int i, double *ratio)
{
	const struct shot *t = &s->shot[i];
	int n = 0;
	for (int k = 0; k < t->n; k++)
		if (t->ref_ns[k] <= CLEAN * s->ref_best_ns)
			ratio[n++] = t->ns[k] / t->ref_ns[k];
	return n;
}

static void add_run(struct shot *t, double ns, double ref_ns)
{
	if (t->n == SHOTS_RUNS)
		return;
	t->ns[t->n] = ns;
	t->ref_ns[t->n++] = ref_ns;
	if (t->n == 1 || ns < t->min_ns)
		t->min_ns = ns;
}

/* Runs a few candidates next to the reference, twice each. */
static int run_group(struct shots *s, struct runner *r, bool warm, const int *at, int n)
{
	int handles[GROUP + 1];
	struct meas m[GROUP + 1];
	for (int i = 0; i < n; i++)
		handles[i] = s->shot[at[i]].handle;
	handles[n] = s->shot[s->reference].handle;
	int rc = r->ops->time(r, handles, n + 1, 2, 0, warm ? 0 : TIME_COLD, INT64_MAX, m);
	if (rc < 0 || m[n].status != MEAS_OK)
		return rc;
	for (int i = 0; i < n; i++) {
		struct shot *t = &s->shot[at[i]];
		if (m[i].status != MEAS_OK)
			continue;
		add_run(t, (double)m[i].min_ns, (double)m[n].min_ns);
		add_run(t, (double)(2 * m[i].median_ns - m[i].min_ns), (double)m[n].min_ns);
	}
	if (s->nref < s->cap)
		s->ref_ns[s->nref++] = (double)m[n].min_ns;
	return E_OK;
}

static void shuffle(struct rng *r, int *v, int n)
{
	for (int i = n - 1; i > 0; i--) {
		int j = (int)rng_below(r, (uint32_t)i + 1), keep = v[i];
		v[i] = v[j];
		v[j] = keep;
	}
}

static double best_ns(const struct shots *s)
{
	double best = 1e30;
	for (int i = 0; i < s->n; i++)
		if (s->shot[i].n && s->shot[i].min_ns < best)
			best = s->shot[i].min_ns;
	return best;
}

static int near_fastest(const struct shot *t)
{
	int n = 0;
	for (int k = 0; k < t->n; k++)
		n += t->ns[k] <= SHOTS_NEAR * t->min_ns;
	return n;
}

/* Whether candidate i needs more runs. */
static bool wants(const struct shots *s, int i, int clean, double best)
{
	const struct shot *t = &s->shot[i];
	double ratio[SHOTS_RUNS];
	if (t->handle < 0 || t->n >= clean * SHOTS_PASSES)
		return false;
	if (t->n < SHOTS_FIRST || t->min_ns > VERY_SLOW * best)
		return t->n < SHOTS_FIRST;
	if (t->min_ns > SLOW * best)
		return clean_runs(s, i, ratio) < (clean + 2) / 3;
	return clean_runs(s, i, ratio) < clean || near_fastest(t) < SETTLED;
}

int shots_run(struct shots *s, struct runner *r, struct rng *rng, bool warm, int clean)
{
	int at[SHOTS_MOST], n = 0, rc = E_OK;
	double best = best_ns(s);
	for (int i = 0; i < s->n && s->reference >= 0; i++)
		if (wants(s, i, clean, best))
			at[n++] = i;
	shuffle(rng, at, n);
	for (int i = 0; i < n && rc >= 0; i += GROUP)
		rc = run_group(s, r, warm, at + i, n - i < GROUP ? n - i : GROUP);
	if (s->nref)
		s->ref_best_ns = stats_quantile(s->ref_ns, s->nref, 0.05);
	return rc < 0 ? rc : n;
}

void shots_point(const struct shots *s, int i, struct landscape_point *p)
{
	struct shot *t = &s->shot[i];
	double ratio[SHOTS_RUNS];
	if (p->status == MEAS_OK && !t->n)
		p->status = MEAS_TIMEOUT;
	if (p->status != MEAS_OK)
		return;
	int n = clean_runs(s, i, ratio);
	p->ratio = n ? stats_median(ratio, n) : 0;
	p->runs = t->n;
	p->min_ns = (int64_t)t->min_ns;
	stats_median(t->ns, t->n); /* sorts t->ns */
	p->low_ns = (int64_t)t->ns[t->n < SETTLED ? t->n - 1 : SETTLED - 1];
}
