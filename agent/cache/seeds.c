/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/seeds.h"

#include "agent/cache/fields.h"
#include "agent/cache/hint.h"
#include "kernels/space/transfer.h"
#include "search/keys.h"

#include <stdlib.h>
#include <string.h>

/* At most this many of the newest winners in other tasks are read: parsing a task takes 20 us. */
enum { MOST_AKIN = 2000 };

/* All pointers are into the scratch arena. */
struct seed {
	const char *cand, *task; /* task NULL: the job's own task */
	int lanes;               /* as in struct job_seed */
	bool foreign;            /* found on another target */
	double away;             /* distance of its task's shape */
	int64_t far;             /* difference of the numbers of threads */
	int64_t ns;
};

struct list {
	int n;
	struct seed seed[MAX_SEEDS + 1]; /* best first; the last is room for one too many */
};

struct wanted {
	struct key key, kind;
	const struct task *task; /* NULL: the task could not be parsed */
	struct list hints, own, akin;
};

struct gather {
	struct arena *scratch;
	struct key target_key;
	int threads, ntasks;
	enum level level;
	const struct job_task *job;
	struct wanted *wanted; /* per task */
	struct keys standard;  /* default schedules, each hashed with its task and target */
	int nakin;             /* so far */
	struct key *akin;      /* keys of records of other tasks: a ring of MOST_AKIN */
};

static bool better(const struct seed *x, const struct seed *y)
{
	if (x->foreign != y->foreign)
		return y->foreign;
	if (x->away < y->away || x->away > y->away)
		return x->away < y->away;
	return x->far != y->far ? x->far < y->far : x->ns < y->ns;
}

/* Inserts a seed in order; a candidate that is in the list already keeps its better place. */
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

/* Returns the number at the end of a record's target text; 0: none. */
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

/* Copies only seeds that are inserted: they are few, and records are many. */
static void insert_copy(struct gather *g, struct list *l, int most, const struct seed *s)
{
	struct seed copy = *s;
	if (l->n == most && !better(s, &l->seed[most - 1]))
		return;
	copy.cand = arena_strdup(g->scratch, s->cand);
	copy.task = s->task ? arena_strdup(g->scratch, s->task) : NULL;
	insert(l, most, &copy);
}

static bool give_own(struct gather *g, const struct rec *r)
{
	const struct seed s = seed_of(g, r);
	bool any = false, hint = r->kind == REC_HINT;
	for (int i = 0; i < g->ntasks; i++) {
		struct wanted *w = &g->wanted[i];
		const char *incumbent = g->job[i].incumbent;
		if (!key_equal(w->key, r->task))
			continue;
		any = true;
		if (!incumbent || strcmp(incumbent, r->cand))
			insert_copy(g, hint ? &w->hints : &w->own, hint ? HINT_SEEDS : MAX_SEEDS, &s);
	}
	return any;
}

/* t: memory for the record's task. */
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
		insert_copy(g, &w->akin, AKIN_SEEDS, &s);
	}
}

static int meet_hint(void *ctx, const struct rec *r)
{
	struct gather *g = ctx;
	if (hint_open(r) && key_equal(r->target_key, g->target_key) && level_serves(r->level, g->level))
		give_own(g, r);
	return E_OK;
}

/* A best record of the same task is a seed, and so is hone's own best one beside a library's; one of another
 * task may become one. A default's candidate is remembered, to recognise it in other records. */
static void meet(struct gather *g, struct key k, const struct rec *r)
{
	if (r->meas.status != MEAS_OK || !level_serves(r->level, g->level))
		return;
	if (r->kind == REC_DEFAULT)
		keys_add(g->scratch, &g->standard, standard_key(r));
	else if (!give_own(g, r))
		g->akin[g->nakin++ % MOST_AKIN] = k;
}

/* Keeps one record in memory at a time. */
static int read_all(struct gather *g, struct cache *c)
{
	struct arena keys = {0}, one = {0};
	struct task *t = ARENA_NEW(&keys, struct task);
	struct key *key;
	struct rec r;
	int n = cache_keys(c, CACHE_REC, &keys, &key), rc = E_OK;
	g->akin = ARENA_ARRAY(&keys, struct key, MOST_AKIN);
	for (int i = 0; i < n && (rc >= 0 || rc == E_NOTFOUND); i++) {
		arena_reset(&one);
		rc = cache_get_rec(c, key[i], &one, &r);
		if (rc >= 0)
			meet(g, key[i], &r);
	}
	for (int i = g->nakin > MOST_AKIN ? g->nakin - MOST_AKIN : 0;
	     i < g->nakin && (rc >= 0 || rc == E_NOTFOUND); i++) {
		arena_reset(&one);
		rc = cache_get_rec(c, g->akin[i % MOST_AKIN], &one, &r);
		if (rc >= 0)
			give_akin(g, &r, t);
	}
	if (rc >= 0 || rc == E_NOTFOUND)
		rc = hint_each(c, &one, meet_hint, g);
	arena_free(&one);
	arena_free(&keys);
	return rc == E_NOTFOUND ? E_OK : rc;
}

static void put(const struct list *l, bool foreign, struct arena *a, struct job_seed *out)
{
	for (int i = 0; i < l->n; i++)
		out[i] = (struct job_seed){.cand = arena_strdup(a, l->seed[i].cand),
					   .task = l->seed[i].task ? arena_strdup(a, l->seed[i].task) : NULL,
					   .lanes = l->seed[i].lanes,
					   .foreign = foreign};
}

int cache_seeds(struct cache *c, const struct target *t, int threads, enum level level, struct arena *a,
		int ntasks, struct job_task *job)
{
	struct arena scratch = {0};
	struct gather g = {.scratch = &scratch,
			   .target_key = target_key(t),
			   .threads = threads,
			   .ntasks = ntasks,
			   .level = level,
			   .job = job};
	want(&g);
	int rc = read_all(&g, c);
	for (int i = 0; i < ntasks; i++) {
		const struct wanted *w = &g.wanted[i];
		int n = w->hints.n + w->own.n;
		struct job_seed *seed = ARENA_ARRAY(a, struct job_seed, n + w->akin.n + 1);
		put(&w->hints, true, a, seed);
		put(&w->own, false, a, seed + w->hints.n);
		put(&w->akin, false, a, seed + n);
		job[i].seed = seed;
		job[i].nseeds = n + w->akin.n;
	}
	arena_free(&scratch);
	return rc < 0 ? rc : E_OK;
}
