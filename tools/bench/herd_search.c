/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/herd_search.h"

#include "agent/worker/replay.h"
#include "kernels/space/space.h"
#include "search/job.h"
#include "tools/fleet/aggregate.h"
#include "platform/base/mix.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_S 86400
#define LIE 0.5 /* a liar claims this share of the best time */
#define REACHED 0.98

/* A board's knowledge of a task. */
struct known {
	const char *best; /* NULL: nothing yet */
	int64_t best_ns;  /* measured time of `best` */
	int n, cap;
	struct tried *tried;
	const char *seed; /* first known candidate of this boot; NULL: none */
};

struct board {
	struct arena a;
	char id[33];
	enum channel channel;
	bool liar;
	struct known *known; /* [nland] */
	int trials, rc;
	char why[256];
};

/* Words sent to the server, with their candidates. */
struct said {
	struct word *word;
	const char **cand;
	int n, cap;
};

/* Candidates that channels hold or held, by entry. */
struct shelf {
	struct held *held;
	const char **cand;
	int n, cap;
};

struct fleet {
	const struct herd_search *c;
	struct arena a;
	struct runner *runner; /* replay; each board's runner is a copy of it */
	struct space **space;  /* per task, used by liars */
	double *best_ns;       /* true best time of a task's legal candidates */
	struct board *board;
	struct said said;
	struct shelf shelf;
	struct cand_score *score;
	int boot;
	atomic_int next; /* next board that no thread has taken */
};

/* ---- one board, one boot ---- */

struct box {
	struct fleet *f;
	struct board *b;
};

static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m,
		struct blob code)
{
	struct box *x = ctx;
	struct known *k = &x->b->known[task];
	(void)code;
	if (best) {
		k->best = arena_strdup(&x->b->a, cand);
		k->best_ns = m->median_ns;
	}
	return E_OK;
}

static struct tried *find_tried(const struct known *k, const char *cand)
{
	for (int i = k->n - 1; i >= 0; i--)
		if (!strcmp(k->tried[i].cand, cand))
			return &k->tried[i];
	return NULL;
}

static void hear(void *ctx, int task, const struct tried *t)
{
	struct box *x = ctx;
	struct known *k = &x->b->known[task];
	struct tried *was = find_tried(k, t->cand);
	if (!was && k->n == k->cap) {
		int cap = k->cap ? 2 * k->cap : 64;
		struct tried *p = ARENA_ARRAY(&x->b->a, struct tried, cap);
		if (k->n)
			memcpy(p, k->tried, sizeof *p * (size_t)k->n);
		k->tried = p;
		k->cap = cap;
	}
	if (!was) {
		was = &k->tried[k->n++];
		was->cand = arena_strdup(&x->b->a, t->cand);
	}
	const char *cand = was->cand;
	*was = *t;
	was->cand = cand;
}

static const struct job_task *make_tasks(const struct fleet *f, struct board *b, struct arena *a)
{
	int n = f->c->nland;
	struct job_task *task = ARENA_ARRAY(a, struct job_task, n);
	for (int i = 0; i < n; i++) {
		const struct known *k = &b->known[i];
		struct job_seed *seed = ARENA_NEW(a, struct job_seed);
		/* A job appends to this array, so each job gets a copy. */
		struct tried *tried = ARENA_ARRAY(a, struct tried, k->n + 1);
		if (k->n)
			memcpy(tried, k->tried, sizeof *tried * (size_t)k->n);
		seed->cand = k->seed;
		task[i] = (struct job_task){.text = f->c->land[i].task,
					    .label = f->c->land[i].label,
					    .uses = f->c->uses[i],
					    .nseeds = k->seed != NULL,
					    .seed = seed,
					    .incumbent = k->best,
					    .ntried = k->n,
					    .tried = tried};
	}
	return task;
}

static uint64_t seed_of(const struct fleet *f, int board)
{
	const int64_t of[3] = {(int64_t)f->c->seed, board, f->boot};
	return mix_bytes(of, sizeof of, 0x68657264).lo;
}

static int run_board(struct fleet *f, int i)
{
	struct board *b = &f->board[i];
	struct box x = {f, b};
	struct arena a = {0};
	struct runner *r;
	bool divided = f->c->mode == HERD_DIVIDED && f->c->parts > 1;
	int rc = replay_another(f->runner, (struct replay_noise){seed_of(f, i), f->c->sigma}, &r);
	if (rc < 0)
		return rc;
	const struct job j = {
	    .ntasks = f->c->nland,
	    .task = make_tasks(f, b, &a),
	    .search.share = divided ? (struct share){f->c->parts, "salt", b->id} : (struct share){0},
	    .search.seed = mix_text(b->id).lo ^ f->c->seed,
	    .limits.deadline_ns = f->c->box_ns,
	    .calls.ctx = &x,
	    .calls.sink = sink,
	    .calls.tried = hear,
	};
	struct job_result *result = ARENA_ARRAY(&a, struct job_result, j.ntasks);
	rc = job_run(&j, r, result);
	b->trials = rc;
	r->ops->close(r);
	arena_free(&a);
	return rc;
}

static void *work(void *ctx)
{
	struct fleet *f = ctx;
	for (int i; (i = atomic_fetch_add(&f->next, 1)) < f->c->boards;) {
		struct board *b = &f->board[i];
		b->rc = b->liar ? E_OK : run_board(f, i);
		if (b->rc < 0)
			snprintf(b->why, sizeof b->why, "%s", err_text());
	}
	return NULL;
}

static int run_boards(struct fleet *f)
{
	enum { MOST = 64 };
	pthread_t thread[MOST];
	int n = 0, want = f->c->threads < MOST ? f->c->threads : MOST;
	atomic_store(&f->next, 0);
	while (n < want - 1 && !pthread_create(&thread[n], NULL, work, f))
		n++;
	work(f);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < f->c->boards; i++)
		if (f->board[i].rc < 0)
			return fail(f->board[i].rc, "board %d: %s", i, f->board[i].why);
	return E_OK;
}

/* ---- the server ---- */

static void say(struct fleet *f, int board, int task, const char *cand, int64_t ns, bool failed)
{
	struct said *s = &f->said;
	if (s->n == s->cap) {
		int cap = s->cap ? 2 * s->cap : 1024;
		struct word *w = ARENA_ARRAY(&f->a, struct word, cap);
		const char **c = ARENA_ARRAY(&f->a, const char *, cap);
		if (s->n) {
			memcpy(w, s->word, sizeof *w * (size_t)s->n);
			memcpy(c, s->cand, sizeof *c * (size_t)s->n);
		}
		s->word = w;
		s->cand = c;
		s->cap = cap;
	}
	s->cand[s->n] = cand;
	s->word[s->n++] = (struct word){.board = board,
					.type = CACHE_REC,
					.failed = failed,
					.key = mix_text(f->c->land[task].task),
					.cand = mix_text(cand),
					.median_ns = failed ? 0 : ns};
}

static void lie(struct fleet *f, int board)
{
	struct rng r;
	char cand[CAND_MAX];
	rng_seed(&r, seed_of(f, board));
	for (int t = 0; t < f->c->nland; t++)
		if (space_random(f->space[t], &r, cand) >= 0)
			say(f, board, t, arena_strdup(&f->a, cand), (int64_t)(LIE * f->best_ns[t]), false);
}

static void tell(struct fleet *f, int board)
{
	for (int t = 0; t < f->c->nland; t++) {
		const struct known *k = &f->board[board].known[t];
		const struct tried *seed = k->seed ? find_tried(k, k->seed) : NULL;
		if (seed)
			say(f, board, t, seed->cand, seed->ns, seed->status != MEAS_OK);
		if (k->best)
			say(f, board, t, k->best, k->best_ns, false);
	}
}

static struct held *find_held(const struct shelf *s, const struct agreed *g)
{
	for (int i = 0; i < s->n; i++)
		if (key_equal(s->held[i].key, g->key) && key_equal(s->held[i].cand, g->cand) &&
		    s->held[i].channel == g->channel)
			return &s->held[i];
	return NULL;
}

/* Updates the channels: they hold exactly the candidates that the server agreed on. */
static void put_on_shelf(struct fleet *f, const struct agreed *g, int n, int64_t now_s)
{
	struct shelf *s = &f->shelf;
	if (s->n + n > s->cap) {
		int cap = 2 * (s->n + n);
		struct held *h = ARENA_ARRAY(&f->a, struct held, cap);
		const char **c = ARENA_ARRAY(&f->a, const char *, cap);
		if (s->n) {
			memcpy(h, s->held, sizeof *h * (size_t)s->n);
			memcpy(c, s->cand, sizeof *c * (size_t)s->n);
		}
		s->held = h;
		s->cand = c;
		s->cap = cap;
	}
	for (int i = 0; i < s->n; i++)
		s->held[i].now = false;
	for (int i = 0; i < n; i++) {
		struct held *h = find_held(s, &g[i]);
		if (!h) {
			h = &s->held[s->n];
			s->cand[s->n++] = f->said.cand[g[i].from];
			*h = (struct held){g[i].key, g[i].cand, g[i].type, g[i].channel, .since_s = now_s};
		}
		h->now = true;
		h->median_ns = g[i].median_ns;
	}
}

static int aggregate_all(struct fleet *f)
{
	struct arena a = {0};
	struct agreed *g;
	int64_t now_s = (int64_t)(f->boot + 1) * DAY_S;
	struct aggregate_in in = {.word = f->said.word,
				  .nword = f->said.n,
				  .nboard = f->c->boards,
				  .held = f->shelf.held,
				  .nheld = f->shelf.n,
				  .rules = {.tolerance = 0.15, .stage_s = f->c->stage_s, .now_s = now_s}};
	memcpy(in.rules.quorum, f->c->quorum, sizeof in.rules.quorum);
	int rc = aggregate(&in, &a, &g, f->score);
	if (rc >= 0)
		put_on_shelf(f, g, rc, now_s);
	arena_free(&a);
	return rc;
}

/* Seeds a board: for each task the candidate of the board's channel, unless the board has tried it. */
static void pull(struct fleet *f, struct board *b)
{
	const struct shelf *s = &f->shelf;
	for (int t = 0; t < f->c->nland; t++) {
		struct key key = mix_text(f->c->land[t].task);
		b->known[t].seed = NULL;
		for (int i = 0; i < s->n; i++)
			if (s->held[i].now && s->held[i].channel == b->channel &&
			    key_equal(s->held[i].key, key) && !find_tried(&b->known[t], s->cand[i]))
				b->known[t].seed = s->cand[i];
	}
}

static int serve(struct fleet *f)
{
	for (int i = 0; i < f->c->boards; i++)
		if (f->board[i].liar)
			lie(f, i);
		else
			tell(f, i);
	int rc = aggregate_all(f);
	for (int i = 0; i < f->c->boards && rc >= 0; i++)
		pull(f, &f->board[i]);
	return rc;
}

/* ---- what came of it ---- */

static double quality(const struct fleet *f, const struct board *b)
{
	double best = 0, own = 0;
	for (int t = 0; t < f->c->nland; t++) {
		int p = b->known[t].best ? replay_point(f->runner, t, b->known[t].best) : E_NOTFOUND;
		if (p < 0)
			return 0;
		best += f->c->uses[t] * f->best_ns[t];
		own += f->c->uses[t] * (double)landscape_ns(&f->c->land[t], p);
	}
	return best / own;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void look(struct fleet *f, struct herd_boot *out)
{
	struct arena a = {0};
	double *q = ARENA_ARRAY(&a, double, f->c->boards), enough = f->c->enough ? f->c->enough : REACHED;
	int n = 0;
	*out = (struct herd_boot){0};
	for (int i = 0; i < f->c->boards; i++) {
		out->struck += f->score[i].struck;
		if (f->board[i].liar)
			continue;
		q[n++] = quality(f, &f->board[i]);
		out->trials += f->board[i].trials;
	}
	qsort(q, (size_t)n, sizeof *q, ascending);
	for (int i = 0; i < n; i++)
		out->reached += q[i] >= enough ? 1. / n : 0;
	out->median = n % 2 ? q[n / 2] : (q[n / 2 - 1] + q[n / 2]) / 2;
	out->tenth = q[n / 10];
	out->trials /= n;
	arena_free(&a);
}

/* ---- the whole ---- */

static void open_boards(struct fleet *f)
{
	const struct herd_search *c = f->c;
	f->board = ARENA_ARRAY(&f->a, struct board, c->boards);
	f->score = ARENA_ARRAY(&f->a, struct cand_score, c->boards);
	for (int i = 0; i < c->boards; i++) {
		struct board *b = &f->board[i];
		const int64_t of[2] = {(int64_t)c->seed, i};
		key_text(mix_bytes(of, sizeof of, 1), b->id);
		bool canary = c->boards < CANARY_FLEET || i % 10 == 0;
		b->channel = canary ? CHANNEL_CANARY : channel_of(b->id);
		b->liar = i >= c->boards - c->liars;
		b->known = ARENA_ARRAY(&b->a, struct known, c->nland);
	}
}

static int open_task(struct fleet *f, int i)
{
	const struct landscape *l = &f->c->land[i];
	const struct space_want want = {.threads = l->threads};
	struct task *t = ARENA_NEW(&f->a, struct task);
	int rc = task_parse(l->task, t);
	if (rc >= 0)
		rc = space_make(&f->a, t, &l->target, &want, &f->space[i]);
	for (int k = 0; k < l->n && rc >= 0; k++) {
		double ns = (double)landscape_ns(l, k);
		if (ns > 0 && (f->best_ns[i] <= 0 || ns < f->best_ns[i]) &&
		    space_legal(f->space[i], l->point[k].cand) >= 0)
			f->best_ns[i] = ns;
	}
	return fail_in(rc, "%s", l->label);
}

static int open_fleet(struct fleet *f)
{
	const struct herd_search *c = f->c;
	if (c->boards < 1 || c->liars >= c->boards || c->boots < 1 || c->boots > HERD_BOOTS || c->nland < 1)
		return fail(E_USAGE, "a fleet of %d boards, %d of them liars, in %d boots", c->boards,
			    c->liars, c->boots);
	f->space = ARENA_ARRAY(&f->a, struct space *, c->nland);
	f->best_ns = ARENA_ARRAY(&f->a, double, c->nland);
	int rc = runner_replay(c->land, c->nland, (struct replay_noise){0}, &f->runner);
	for (int i = 0; i < c->nland && rc >= 0; i++)
		rc = open_task(f, i);
	struct runner *first = NULL; /* opening it completes the data that all copies share */
	if (rc >= 0)
		rc = replay_another(f->runner, (struct replay_noise){0}, &first);
	if (first)
		first->ops->close(first);
	if (rc >= 0)
		open_boards(f);
	return rc;
}

int herd_search(const struct herd_search *c, struct herd_boot *out)
{
	struct fleet f = {.c = c};
	int n = 0, rc = open_fleet(&f);
	for (bool enough = false; rc >= 0 && n < c->boots && !enough; n++) {
		f.boot = n;
		rc = run_boards(&f);
		if (rc >= 0 && c->mode != HERD_ALONE)
			rc = serve(&f);
		if (rc >= 0)
			look(&f, &out[n]);
		enough = rc >= 0 && c->enough > 0 && out[n].median >= c->enough;
	}
	for (int i = 0; f.board && i < c->boards; i++)
		arena_free(&f.board[i].a);
	if (f.runner)
		f.runner->ops->close(f.runner);
	arena_free(&f.a);
	return rc < 0 ? rc : n;
}
