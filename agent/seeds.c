/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/seeds.h"

#include "agent/fields.h"
#include "kernels/transfer.h"
#include "search/keys.h"

#include <stdlib.h>
#include <string.h>

/* All pointers are into the scratch arena. */
struct seed {
	const char *cand, *task; /* task NULL: the same */
	int lanes;               /* as in struct job_seed */
	bool foreign;            /* found on another target */
	double away;             /* of its task's shape */
	int64_t far;             /* difference of the numbers of threads */
	int64_t ns;
};

struct list {
	int n;
	struct seed seed[MAX_SEEDS + 1]; /* best first; the last is room for one too many */
};

struct wanted {
	struct key key, kind;
	const struct task *task; /* NULL: not to be read */
	struct list own, akin;
};

struct gather {
	struct arena *scratch;
	struct key target_key;
	int threads, ntasks;
	bool exact;
	const struct job_task *job;
	struct wanted *wanted; /* per task */
	struct keys standard;  /* default schedules, with whose they are */
	int nbest, cap;
	const struct rec **best;
};

static bool better(const struct seed *x, const struct seed *y)
{
	if (x->foreign != y->foreign)
		return y->foreign;
	if (x->away < y->away || x->away > y->away)
		return x->away < y->away;
	return x->far != y->far ? x->far < y->far : x->ns < y->ns;
}

/* A candidate that is there already keeps its better place. */
static void insert(struct list *l, int most, const struct seed *s)
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
	if (at == most)
		return;
	memmove(&l->seed[at + 1], &l->seed[at], sizeof *l->seed * (size_t)(l->n - at));
	l->seed[at] = *s;
	l->n += l->n < most;
}

static uint64_t standard_key(const struct rec *r)
{
	return hash_join(hash_join(r->task, r->target_key), hash_text(r->cand)).lo;
}

static int add_rec(void *ctx, const struct rec *r)
{
	struct gather *g = ctx;
	if (r->meas.status != MEAS_OK || (g->exact && !r->exact))
		return E_OK;
	if (r->kind != REC_BEST) {
		keys_add(g->scratch, &g->standard, standard_key(r));
		return E_OK;
	}
	if (g->nbest == g->cap) {
		g->cap = g->cap ? 2 * g->cap : 256;
		const struct rec **to = ARENA_ARRAY(g->scratch, const struct rec *, g->cap);
		for (int i = 0; i < g->nbest; i++)
			to[i] = g->best[i];
		g->best = to;
	}
	g->best[g->nbest++] = r;
	return E_OK;
}

static void want(struct gather *g)
{
	struct arena scratch = {0};
	struct task *t = ARENA_NEW(&scratch, struct task);
	g->wanted = ARENA_ARRAY(g->scratch, struct wanted, g->ntasks + 1);
	for (int i = 0; i < g->ntasks; i++) {
		struct wanted *w = &g->wanted[i];
		w->key = hash_text(g->job[i].text);
		if (task_parse(g->job[i].text, t) < 0)
			continue;
		w->kind = task_kind(t);
		w->task = task_keep(g->scratch, t);
	}
	arena_free(&scratch);
}

/* The number that a record's target ends with. 0: none such. */
static int lanes_of(const char *target)
{
	const char *at = strrchr(target, ' ');
	int64_t n;
	return at && field_int(at + 1, 4, 16, &n) && (n == 4 || n == 8 || n == 16) ? (int)n : 0;
}

static struct seed seed_of(const struct gather *g, const struct rec *r)
{
	bool foreign = !key_equal(r->target_key, g->target_key);
	return (struct seed){.cand = r->cand,
			     .lanes = foreign ? lanes_of(r->target) : 0,
			     .foreign = foreign,
			     .far = llabs((int64_t)r->threads - g->threads),
			     .ns = r->meas.median_ns};
}

static bool give_own(struct gather *g, const struct rec *r)
{
	const struct seed s = seed_of(g, r);
	bool any = false;
	for (int i = 0; i < g->ntasks; i++) {
		const char *incumbent = g->job[i].incumbent;
		if (!key_equal(g->wanted[i].key, r->task))
			continue;
		any = true;
		if (!incumbent || strcmp(incumbent, r->cand))
			insert(&g->wanted[i].own, MAX_SEEDS, &s);
	}
	return any;
}

/* t: room for its task. */
static void give_akin(struct gather *g, const struct rec *r, struct task *t)
{
	struct seed s = seed_of(g, r);
	if (keys_has(&g->standard, standard_key(r)) || !key_equal(hash_text(r->task_text), r->task) ||
	    task_parse(r->task_text, t) < 0)
		return;
	struct key kind = task_kind(t);
	s.task = r->task_text;
	for (int i = 0; i < g->ntasks; i++) {
		struct wanted *w = &g->wanted[i];
		if (!w->task || !key_equal(w->kind, kind))
			continue;
		s.away = task_away(w->task, t);
		insert(&w->akin, AKIN_SEEDS, &s);
	}
}

static void give_all(struct gather *g)
{
	struct arena scratch = {0};
	struct task *t = ARENA_NEW(&scratch, struct task);
	for (int i = 0; i < g->nbest; i++)
		if (!give_own(g, g->best[i]))
			give_akin(g, g->best[i], t);
	arena_free(&scratch);
}

static void put(const struct list *l, struct arena *a, struct job_seed *out)
{
	for (int i = 0; i < l->n; i++)
		out[i] = (struct job_seed){.cand = arena_strdup(a, l->seed[i].cand),
					   .task = l->seed[i].task ? arena_strdup(a, l->seed[i].task) : NULL,
					   .lanes = l->seed[i].lanes};
}

int cache_seeds(struct cache *c, const struct target *t, int threads, bool exact, struct arena *a, int ntasks,
		struct job_task *job)
{
	struct arena scratch = {0};
	struct gather g = {.scratch = &scratch,
			   .target_key = target_key(t),
			   .threads = threads,
			   .ntasks = ntasks,
			   .exact = exact,
			   .job = job};
	int rc = cache_each_rec(c, &scratch, add_rec, &g);
	want(&g);
	give_all(&g);
	for (int i = 0; i < ntasks; i++) {
		const struct wanted *w = &g.wanted[i];
		struct job_seed *seed = ARENA_ARRAY(a, struct job_seed, w->own.n + w->akin.n + 1);
		put(&w->own, a, seed);
		put(&w->akin, a, seed + w->own.n);
		job[i].seed = seed;
		job[i].nseeds = w->own.n + w->akin.n;
	}
	arena_free(&scratch);
	return rc < 0 ? rc : E_OK;
}
