/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/seeds.h"

#include <stdlib.h>
#include <string.h>

struct seed {
	const char *cand; /* of a record in the scratch arena */
	bool foreign;     /* found on another target */
	int64_t far;      /* difference of the numbers of threads */
	int64_t ns;
};

struct list {
	struct key task;
	int n;
	struct seed seed[MAX_SEEDS + 1]; /* best first; the last is room for one too many */
};

struct gather {
	struct key target_key;
	int threads, ntasks;
	bool exact;
	const struct job_task *job;
	struct list *list; /* per task */
};

static bool better(const struct seed *x, const struct seed *y)
{
	if (x->foreign != y->foreign)
		return y->foreign;
	return x->far != y->far ? x->far < y->far : x->ns < y->ns;
}

/* A candidate that is there already keeps its better place. */
static void insert(struct list *l, const struct seed *s)
{
	for (int i = 0; i < l->n; i++) {
		if (strcmp(l->seed[i].cand, s->cand))
			continue;
		if (!better(s, &l->seed[i]))
			return;
		memmove(&l->seed[i], &l->seed[i + 1], sizeof *l->seed * (size_t)(--l->n - i));
		break;
	}
	int at = l->n;
	while (at > 0 && better(s, &l->seed[at - 1]))
		at--;
	if (at == MAX_SEEDS)
		return;
	memmove(&l->seed[at + 1], &l->seed[at], sizeof *l->seed * (size_t)(l->n - at));
	l->seed[at] = *s;
	l->n += l->n < MAX_SEEDS;
}

static int add_rec(void *ctx, const struct rec *r)
{
	struct gather *g = ctx;
	if (r->meas.status != MEAS_OK || r->kind != REC_BEST || (g->exact && !r->exact))
		return E_OK;
	const struct seed s = {.cand = r->cand,
			       .foreign = !key_equal(r->target_key, g->target_key),
			       .far = llabs((int64_t)r->threads - g->threads),
			       .ns = r->meas.median_ns};
	for (int i = 0; i < g->ntasks; i++) {
		const char *incumbent = g->job[i].incumbent;
		if (key_equal(g->list[i].task, r->task) && !(incumbent && !strcmp(incumbent, r->cand)))
			insert(&g->list[i], &s);
	}
	return E_OK;
}

int cache_seeds(struct cache *c, const struct target *t, int threads, bool exact, struct arena *a, int ntasks,
		struct job_task *job)
{
	struct arena scratch = {0};
	struct gather g = {.target_key = target_key(t),
			   .threads = threads,
			   .ntasks = ntasks,
			   .exact = exact,
			   .job = job,
			   .list = ARENA_ARRAY(&scratch, struct list, ntasks + 1)};
	for (int i = 0; i < ntasks; i++)
		g.list[i].task = hash_text(job[i].text);
	int rc = cache_each_rec(c, &scratch, add_rec, &g);
	for (int i = 0; i < ntasks; i++) {
		const char **cand = ARENA_ARRAY(a, const char *, MAX_SEEDS);
		for (int k = 0; k < g.list[i].n; k++)
			cand[k] = arena_strdup(a, g.list[i].seed[k].cand);
		job[i].seed = cand;
		job[i].nseeds = g.list[i].n;
	}
	arena_free(&scratch);
	return rc < 0 ? rc : E_OK;
}
