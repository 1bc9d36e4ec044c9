/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-landscape ARGS="MODEL... -o DIR": records landscapes (agent/landscape.h) of models' tasks,
 * carefully enough to train and to judge by, on a machine that others slow down for half of the time.
 *
 * Candidates: the default, the rules, then random ones, every other of them the best drafted of 16, so that
 * the region in which a search moves is dense; from the middle on, mutations and crossings of the fastest so
 * far. All are built and checked by hone-worker, and stay built. Then they run in groups of a few, formed
 * anew each time, twice each (after a run that does not count) next to the reference, which is the first
 * candidate that works: the default. A run is clean where the reference ran beside it within 10 % of its own
 * best (of its fastest twentieth). Rounds go on until every candidate has --rounds clean runs and three of
 * its runs within 3 % of its fastest, or has run eight times as often; the tasks of a batch take turns. What
 * is 1.6 times slower than the best runs less often, what is 3 times slower a few times. The time that counts
 * is the third fastest run: what else the machine does only ever adds time, so this repeats within 1 to 3 %
 * where a median, or a ratio to the reference, is off by half.
 *
 *	--samples N   candidates of a task (150)       --rounds R  clean runs of each (6)
 *	--task KEYS   only tasks whose key begins with one of these, separated by commas
 *	--limit 150s  begin no more batches after that: what is in DIR already is skipped, so call again
 *	--warm        weights stay in the cache; else they come from memory, as in a network that is larger
 *
 * The machine's peaks are measured once and kept in DIR/target. Use it alone on a core. */
#include "agent/landscape.h"
#include "agent/wire.h"
#include "kernels/space.h"
#include "platform/log.h"
#include "tools/model.h"
#include "tools/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_SAMPLES = 2000,
	MOST_ROUNDS = 12, /* clean runs */
	PASSES = 8,       /* times that are run, at most */
	MOST_RUNS = MOST_ROUNDS * PASSES,
	GROUP = 3,
	BATCH = 3,
	OF_DRAFTS = 16,
	GOOD = 10,
	FIRST_RUNS = 4,
	SETTLED = 3
};

#define CLEAN 1.10
#define NEAR_FASTEST 1.03
#define SLOW 1.6
#define VERY_SLOW 3

struct shot {
	int handle; /* -1: failed */
	int n;      /* runs */
	double ns[MOST_RUNS], ref_ns[MOST_RUNS];
	double min_ns;
};

/* A task that is being recorded. */
struct subject {
	struct arena a;
	const char *text;
	char label[96];
	struct space *space;
	struct landscape_point *point;
	struct shot *shot;
	int n, reference; /* -1: none works */
	double *ref_ns;   /* all of the reference's runs */
	int nref, cap;
	double ref_best_ns;
};

struct bench {
	struct target target;
	struct runner *runner;
	struct rng rng;
	const char *dir, *keys, *network;
	struct arena had;
	struct landscape *land; /* in the folder already */
	int nland;
	int samples, rounds, threads, left, done;
	bool warm;
	int64_t spread_ns, end_ns;
};

/* Runs beside a reference that was not disturbed, as ratios to it. */
static int clean_runs(const struct subject *s, int i, double *ratio)
{
	const struct shot *t = &s->shot[i];
	int n = 0;
	for (int k = 0; k < t->n; k++)
		if (t->ref_ns[k] <= CLEAN * s->ref_best_ns)
			ratio[n++] = t->ns[k] / t->ref_ns[k];
	return n;
}

static bool known(const struct subject *s, const char *cand)
{
	for (int i = 0; i < s->n; i++)
		if (!strcmp(s->point[i].cand, cand))
			return true;
	return false;
}

static int build(struct bench *b, struct subject *s, const char *cand)
{
	struct meas m;
	struct shot *t = &s->shot[s->n];
	struct landscape_point *p = &s->point[s->n];
	int rc = b->runner->ops->build(b->runner, s->text, cand, INT64_MAX, &t->handle, &m);
	if (rc < 0)
		return fail_in(rc, "%s: %s", s->label, cand);
	*p = (struct landscape_point){
	    .status = m.status, .build_ns = m.build_ns, .cand = arena_strdup(&s->a, cand)};
	if (t->handle >= 0 && s->reference < 0)
		s->reference = s->n;
	s->n++;
	return E_OK;
}

static void add_run(struct shot *t, double ns, double ref_ns)
{
	if (t->n == MOST_RUNS)
		return;
	t->ns[t->n] = ns;
	t->ref_ns[t->n++] = ref_ns;
	if (t->n == 1 || ns < t->min_ns)
		t->min_ns = ns;
}

/* Two runs each, of a few candidates next to the reference. */
static int run_group(struct bench *b, struct subject *s, const int *at, int n)
{
	int handles[GROUP + 1];
	struct meas m[GROUP + 1];
	for (int i = 0; i < n; i++)
		handles[i] = s->shot[at[i]].handle;
	handles[n] = s->shot[s->reference].handle;
	int rc = b->runner->ops->time(b->runner, handles, n + 1, 2, 0, b->warm ? 0 : TIME_COLD, INT64_MAX, m);
	if (rc < 0)
		return fail_in(rc, "%s", s->label);
	if (m[n].status != MEAS_OK)
		return E_OK;
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

static double best_ns(const struct subject *s)
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
		n += t->ns[k] <= NEAR_FASTEST * t->min_ns;
	return n;
}

/* Does candidate i want more runs, if those as fast as the best want so many clean ones? */
static bool wants(const struct subject *s, int i, int clean, double best)
{
	const struct shot *t = &s->shot[i];
	double ratio[MOST_RUNS];
	if (t->handle < 0 || t->n >= clean * PASSES)
		return false;
	if (t->n < FIRST_RUNS || t->min_ns > VERY_SLOW * best)
		return t->n < FIRST_RUNS;
	if (t->min_ns > SLOW * best)
		return clean_runs(s, i, ratio) < (clean + 2) / 3;
	return clean_runs(s, i, ratio) < clean || near_fastest(t) < SETTLED;
}

/* Two runs each of those that want more. Returns how many did. */
static int run_all(struct bench *b, struct subject *s, int clean)
{
	int at[MOST_SAMPLES], n = 0, rc = E_OK;
	double best = best_ns(s);
	for (int i = 0; i < s->n && s->reference >= 0; i++)
		if (wants(s, i, clean, best))
			at[n++] = i;
	shuffle(&b->rng, at, n);
	for (int i = 0; i < n && rc >= 0; i += GROUP)
		rc = run_group(b, s, at + i, n - i < GROUP ? n - i : GROUP);
	if (s->nref)
		s->ref_best_ns = stats_quantile(s->ref_ns, s->nref, 0.05);
	return rc < 0 ? rc : n;
}

static int draw(struct bench *b, struct subject *s, char cand[CAND_MAX])
{
	char other[CAND_MAX];
	double best;
	int rc = space_random(s->space, &b->rng, cand);
	if (rc < 0 || rng_below(&b->rng, 2))
		return rc;
	best = space_draft(s->space, cand);
	for (int i = 1; i < OF_DRAFTS; i++) {
		if (space_random(s->space, &b->rng, other) < 0)
			continue;
		double ns = space_draft(s->space, other);
		if (ns < best && !known(s, other)) {
			best = ns;
			memcpy(cand, other, CAND_MAX);
		}
	}
	return E_OK;
}

/* One of the fastest so far. */
static const char *pick_good(struct bench *b, const struct subject *s)
{
	int good[GOOD], n = 0;
	for (int i = 0; i < s->n; i++) {
		if (!s->shot[i].n)
			continue;
		int k = n < GOOD ? n++ : GOOD;
		for (; k > 0 && s->shot[good[k - 1]].min_ns > s->shot[i].min_ns; k--)
			if (k < GOOD)
				good[k] = good[k - 1];
		if (k < GOOD)
			good[k] = i;
	}
	return n ? s->point[good[rng_below(&b->rng, (uint32_t)n)]].cand : NULL;
}

static int breed(struct bench *b, struct subject *s, char cand[CAND_MAX])
{
	const char *one = pick_good(b, s), *other = pick_good(b, s);
	if (!one)
		return draw(b, s, cand);
	if (rng_below(&b->rng, 4))
		return space_mutate(s->space, &b->rng, one, cand);
	return space_cross(s->space, &b->rng, one, other, cand);
}

/* Fills up to `n` candidates. A small space ends it. */
static int fill(struct bench *b, struct subject *s, int n,
		int (*next)(struct bench *, struct subject *, char[CAND_MAX]))
{
	char cand[CAND_MAX];
	int rc = E_OK;
	for (int tries = 0; s->n < n && tries < 20 * n && rc >= 0; tries++)
		if (next(b, s, cand) >= 0 && !known(s, cand))
			rc = build(b, s, cand);
	return rc;
}

static int fill_rules(struct bench *b, struct subject *s)
{
	char cand[CAND_MAX];
	space_default(s->space, cand);
	int rc = build(b, s, cand);
	for (int rule = 0; rc >= 0 && s->n < b->samples && space_portfolio(s->space, &rule, cand) >= 0;)
		if (!known(s, cand))
			rc = build(b, s, cand);
	return rc;
}

/* A few runs of what is new. */
static int run_new(struct bench *b, struct subject *s)
{
	int n = 1;
	for (int i = 0; i < FIRST_RUNS / 2 && n > 0; i++)
		n = run_all(b, s, 1);
	return n;
}

static int fill_subject(struct bench *b, struct subject *s)
{
	int rc = fill_rules(b, s);
	if (rc >= 0)
		rc = fill(b, s, b->samples / 2, draw);
	for (int part = 1; part <= 4 && rc >= 0; part++) {
		rc = run_new(b, s);
		if (rc >= 0)
			rc = fill(b, s, b->samples / 2 + b->samples * part / 8, breed);
	}
	return rc;
}

static int open_subject(struct bench *b, struct subject *s, const struct step_task *t)
{
	const struct space_want want = {.threads = b->threads};
	*s = (struct subject){.reference = -1};
	s->text = arena_strdup(&s->a, t->text);
	s->point = ARENA_ARRAY(&s->a, struct landscape_point, b->samples);
	s->shot = ARENA_ARRAY(&s->a, struct shot, b->samples);
	s->cap = b->samples * MOST_RUNS;
	s->ref_ns = ARENA_ARRAY(&s->a, double, s->cap);
	task_label(t->task, s->label);
	return space_make(&s->a, t->task, &b->target, &want, &s->space);
}

static void close_point(const struct subject *s, int i)
{
	struct landscape_point *p = &s->point[i];
	struct shot *t = &s->shot[i];
	double ratio[MOST_RUNS];
	if (p->status == MEAS_OK && !t->n)
		p->status = MEAS_TIMEOUT;
	if (p->status != MEAS_OK)
		return;
	int n = clean_runs(s, i, ratio);
	p->ratio = n ? stats_median(ratio, n) : 0;
	p->runs = t->n;
	p->min_ns = (int64_t)t->min_ns;
	stats_median(t->ns, t->n); /* sorts */
	p->low_ns = (int64_t)t->ns[t->n < SETTLED ? t->n - 1 : SETTLED - 1];
}

/* The reference comes first in the file. */
static int write_subject(struct bench *b, struct subject *s)
{
	char words[LANDSCAPE_WORDS];
	snprintf(words, sizeof words,
		 "%s: %d clean runs at least, beside the reference; low is the third fastest", b->network,
		 b->rounds);
	struct landscape l = {.task = s->text,
			      .label = s->label,
			      .target = b->target,
			      .threads = b->threads,
			      .cold = !b->warm,
			      .protocol = words,
			      .n = s->n,
			      .point = s->point};
	for (int i = 0; i < s->n; i++)
		close_point(s, i);
	if (s->reference > 0) {
		struct landscape_point first = s->point[0];
		s->point[0] = s->point[s->reference];
		s->point[s->reference] = first;
	}
	return landscape_append(b->dir, &l);
}

static void report(const struct subject *s)
{
	int ok = 0, settled = 0;
	double runs = 0, best = 1e30;
	for (int i = 0; i < s->n; i++) {
		const struct landscape_point *p = &s->point[i];
		if (p->status != MEAS_OK)
			continue;
		ok++;
		settled += (double)p->low_ns <= NEAR_FASTEST * (double)p->min_ns;
		runs += p->runs;
		best = (double)p->low_ns < best ? (double)p->low_ns : best;
	}
	printf("%-56s %4d candidates, %4d work, %3d settled in %.0f runs each, best %.3f of the default\n",
	       s->label, s->n, ok, settled, ok ? runs / ok : 0, ok ? best / (double)s->point[0].low_ns : 0);
	fflush(stdout);
}

static int time_batch(struct bench *b, struct subject *s, int n)
{
	int rc = E_OK, ran = 1;
	for (int pass = 0; pass < b->rounds * PASSES && ran && rc >= 0; pass++) {
		int64_t start_ns = clock_now(&clock_real);
		ran = 0;
		for (int i = 0; i < n && rc >= 0; i++) {
			rc = run_all(b, &s[i], b->rounds);
			ran += rc > 0;
		}
		clock_real.sleep(&clock_real, start_ns + b->spread_ns - clock_now(&clock_real));
	}
	return rc;
}

static int run_batch(struct bench *b, struct subject *s, int n)
{
	int rc = E_OK;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = fill_subject(b, &s[i]);
	if (rc >= 0)
		rc = time_batch(b, s, n);
	for (int i = 0; i < n && rc >= 0; i++) {
		rc = write_subject(b, &s[i]);
		report(&s[i]);
	}
	b->runner->ops->drop(b->runner, -1, INT64_MAX);
	for (int i = 0; i < n; i++)
		arena_free(&s[i].a);
	b->done += rc >= 0 ? n : 0;
	return rc;
}

static bool wanted(const struct bench *b, const struct step_task *t)
{
	char key[33];
	key_text(t->key, key);
	for (int i = 0; i < b->nland; i++)
		if (!strcmp(b->land[i].task, t->text))
			return false;
	for (const char *at = b->keys; at && *at;) {
		size_t n = strcspn(at, ",");
		if (n && n <= 32 && !strncmp(at, key, n))
			return true;
		at += n + (at[n] == ',');
	}
	return !b->keys;
}

/* A batch whose candidates kill the worker is left out. */
static int record_model(struct bench *b, const struct args *a, const char *path)
{
	struct model m;
	struct subject s[BATCH];
	int n = 0, rc = model_open(a, path, &(struct chosen_for){.target = &b->target}, &m);
	if (rc < 0)
		return rc;
	b->network = model_name(path, &m.arena);
	for (int i = 0; i <= m.ntasks && rc >= 0; i++) {
		if (n && (n == BATCH || i == m.ntasks)) {
			rc = run_batch(b, s, n);
			n = 0;
			if (rc == E_CHILD) {
				log_error("%s", err_text());
				rc = E_OK;
			}
		}
		if (rc < 0 || i == m.ntasks || !wanted(b, &m.task[i]))
			continue;
		if (clock_now(&clock_real) > b->end_ns)
			b->left++;
		else if (open_subject(b, &s[n], &m.task[i]) >= 0)
			n++;
	}
	model_close(&m);
	return rc;
}

static int read_options(struct bench *b, const struct args *a)
{
	b->dir = arg_str(a, "output", NULL);
	b->keys = arg_str(a, "task", NULL);
	b->samples = (int)arg_int(a, "samples", 150);
	b->rounds = (int)arg_int(a, "rounds", 6);
	b->threads = (int)arg_int(a, "threads", 1);
	b->warm = arg_flag(a, "warm");
	b->spread_ns = arg_duration(a, "spread", 200 * NS_PER_MS);
	b->end_ns = clock_now(&clock_real) + arg_duration(a, "limit", 24 * 3600 * NS_PER_S);
	if (!b->dir)
		return fail(E_USAGE, "name the folder for landscapes with --output DIR");
	if (b->samples < 1 || b->samples > MOST_SAMPLES || b->rounds < 1 || b->rounds > MOST_ROUNDS)
		return fail(E_USAGE, "--samples: 1 to %d, --rounds: 1 to %d", MOST_SAMPLES, MOST_ROUNDS);
	return E_OK;
}

/* Peaks once for a folder: the highest of a few times, since what else runs only lowers them. */
static int open_machine(struct bench *b)
{
	int rc = file_mkdirs(b->dir, 0755);
	bool fresh = landscape_folder(b->dir, &b->had, &b->land) < 0;
	if (rc >= 0)
		rc = target_kept(b->dir, &clock_real, &b->target);
	for (int i = 0; fresh && i < 5 && rc >= 0; i++)
		rc = target_measure_again(b->dir, &clock_real, &b->target);
	if (rc < 0)
		return rc;
	rc = fresh ? 0 : landscape_folder(b->dir, &b->had, &b->land);
	b->nland = rc < 0 ? 0 : rc;
	return rc < 0 ? rc : runner_worker(NULL, "cpu", &b->target, b->threads, &b->runner);
}

static int run_landscape(const struct args *a)
{
	struct bench b = {0};
	int rc = read_options(&b, a);
	if (rc >= 0)
		rc = open_machine(&b);
	rng_seed(&b.rng, (uint64_t)clock_now(&clock_real));
	for (int i = 0; i < a->npos && rc >= 0; i++)
		rc = record_model(&b, a, a->pos[i]);
	if (rc >= 0)
		printf("%d tasks recorded, %d left\n", b.done, b.left);
	if (b.runner)
		b.runner->ops->close(b.runner);
	arena_free(&b.had);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"output", OPT_STR, "DIR", "folder for the landscapes", 'o'},
    {"samples", OPT_INT, "N", "candidates of a task (150)"},
    {"rounds", OPT_INT, "R", "clean runs of each (6)"},
    {"spread", OPT_DURATION, "200ms", "a round takes this long at least"},
    {"limit", OPT_DURATION, "150s", "begin no task after that"},
    {"task", OPT_STR, "KEYS", "only tasks whose key begins with one of these, separated by commas"},
    {"warm", OPT_FLAG, NULL, "weights stay in the cache"},
    OPT_THREADS,
    OPT_SHAPE,
    {NULL},
};

static const struct cmd landscape = {
    .usage = "MODEL... -o DIR [--samples N] [--rounds R] [--task KEYS] [--limit 150s]",
    .summary = "record what candidates of models' tasks take",
    .details = "",
    .min_pos = 1,
    .max_pos = -1,
    .opts = opts,
    .run = run_landscape,
    .name = "landscape",
};

int main(int argc, char **argv)
{
	return cmd_main(&landscape, argc, argv);
}
