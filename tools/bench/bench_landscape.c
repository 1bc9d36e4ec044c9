/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-landscape ARGS="MODEL... -o DIR": records landscapes (agent/worker/landscape.h) of models'
 * tasks, carefully enough to judge by, on a machine that other programs slow down half of the time.
 *
 * Candidates: the default, the rules, then random ones, every second of them the one with the best draft of
 * 16, so that the region in which a search moves is dense; from the middle on, mutations and crossings of the
 * fastest so far. hone-worker builds and checks all of them and keeps them loaded. Then they run in groups of
 * a few, formed anew each time, twice each (after a run that does not count) next to the reference, which is
 * the first candidate that works: the default (tools/bench/shots.h). Rounds go on until every candidate has
 * --rounds clean runs and three of its runs within 3 % of its fastest, or has run eight times as often; the
 * tasks of a batch take turns. The time of a candidate is its third fastest run: other programs only ever add
 * time, so this repeats within 1 to 3 %, while a median, or a ratio to the reference, is off by half.
 *
 *	--samples N   candidates of a task (150)       --rounds R  clean runs of each (6)
 *	--task KEYS   only tasks whose key begins with one of these, separated by commas
 *	--limit 150s  begin no more batches after that: tasks in DIR are skipped, so call again
 *	--warm        weights stay in the cache; else they come from memory, as in a network that is larger
 *	--device opencl:N  of that device, whose caches nobody can empty, so that its weights are always warm
 *
 * The machine's peaks are measured once and kept in DIR/target, a device's in DIR/target-opencl:N. Run it
 * alone on a core; PoCL then needs POCL_MAX_PTHREAD_COUNT=1 (from version 5 on, POCL_CPU_MAX_CU_COUNT=1). */
#include "agent/worker/device.h"
#include "agent/worker/landscape.h"
#include "agent/worker/wire.h"
#include "kernels/space/space.h"
#include "platform/base/log.h"
#include "tools/hone/model.h"
#include "tools/bench/shots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, OF_DRAFTS = 16, GOOD = 10 };

/* A task that is being recorded. */
struct subject {
	struct arena a;
	const char *text;
	char label[96];
	struct space *space;
	struct landscape_point *point; /* one for each shot */
	struct shots shots;
};

struct bench {
	struct target target;
	struct runner *runner;
	struct rng rng;
	const char *dir, *keys, *network;
	const char *device; /* with memory of its own; NULL: the processor */
	struct arena had;
	struct landscape *land; /* landscapes that are in the folder already */
	int nland;
	int samples, rounds, threads, left, done;
	bool warm;
	int64_t spread_ns, end_ns;
};

static bool known(const struct subject *s, const char *cand)
{
	for (int i = 0; i < s->shots.n; i++)
		if (!strcmp(s->point[i].cand, cand))
			return true;
	return false;
}

static int build(struct bench *b, struct subject *s, const char *cand)
{
	struct meas m;
	int handle, rc = b->runner->ops->build(b->runner, s->text, cand, INT64_MAX, &handle, &m);
	if (rc < 0)
		return fail_in(rc, "%s: %s", s->label, cand);
	s->point[s->shots.n] = (struct landscape_point){
	    .status = m.status, .build_ns = m.build_ns, .cand = arena_strdup(&s->a, cand)};
	shots_add(&s->shots, handle);
	return E_OK;
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

/* Picks one of the fastest candidates so far. */
static const char *pick_good(struct bench *b, const struct subject *s)
{
	const struct shot *shot = s->shots.shot;
	int good[GOOD], n = 0;
	for (int i = 0; i < s->shots.n; i++) {
		if (!shot[i].n)
			continue;
		int k = n < GOOD ? n++ : GOOD;
		for (; k > 0 && shot[good[k - 1]].min_ns > shot[i].min_ns; k--)
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

/* Adds candidates until there are `n`, or until too many tries gave nothing new because the space is
 * small. */
static int fill(struct bench *b, struct subject *s, int n,
		int (*next)(struct bench *, struct subject *, char[CAND_MAX]))
{
	char cand[CAND_MAX];
	int rc = E_OK;
	for (int tries = 0; s->shots.n < n && tries < 20 * n && rc >= 0; tries++)
		if (next(b, s, cand) >= 0 && !known(s, cand))
			rc = build(b, s, cand);
	return rc;
}

static int fill_rules(struct bench *b, struct subject *s)
{
	char cand[CAND_MAX];
	space_default(s->space, cand);
	int rc = build(b, s, cand);
	for (int rule = 0; rc >= 0 && s->shots.n < b->samples && space_portfolio(s->space, &rule, cand) >= 0;)
		if (!known(s, cand))
			rc = build(b, s, cand);
	return rc;
}

static int run_all(struct bench *b, struct subject *s, int clean)
{
	return fail_in(shots_run(&s->shots, b->runner, &b->rng, b->warm, clean), "%s", s->label);
}

/* Runs the new candidates a few times. */
static int run_new(struct bench *b, struct subject *s)
{
	int n = 1;
	for (int i = 0; i < SHOTS_FIRST / 2 && n > 0; i++)
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
	*s = (struct subject){0};
	s->text = arena_strdup(&s->a, t->text);
	s->point = ARENA_ARRAY(&s->a, struct landscape_point, b->samples);
	shots_open(&s->shots, &s->a, b->samples);
	task_label(t->task, s->label);
	return space_make(&s->a, t->task, &b->target, &want, &s->space);
}

/* Writes the landscape; the reference comes first in the file. */
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
			      .n = s->shots.n,
			      .point = s->point};
	int reference = s->shots.reference;
	for (int i = 0; i < s->shots.n; i++)
		shots_point(&s->shots, i, &s->point[i]);
	if (reference > 0) {
		struct landscape_point first = s->point[0];
		s->point[0] = s->point[reference];
		s->point[reference] = first;
	}
	return landscape_append(b->dir, &l);
}

static void report(const struct subject *s)
{
	int ok = 0, settled = 0;
	double runs = 0, best = 1e30;
	for (int i = 0; i < s->shots.n; i++) {
		const struct landscape_point *p = &s->point[i];
		if (p->status != MEAS_OK)
			continue;
		ok++;
		settled += (double)p->low_ns <= SHOTS_NEAR * (double)p->min_ns;
		runs += p->runs;
		best = (double)p->low_ns < best ? (double)p->low_ns : best;
	}
	printf("%-56s %4d candidates, %4d work, %3d settled in %.0f runs each, best %.3f of the default\n",
	       s->label, s->shots.n, ok, settled, ok ? runs / ok : 0,
	       ok ? best / (double)s->point[0].low_ns : 0);
	fflush(stdout);
}

static int time_batch(struct bench *b, struct subject *s, int n)
{
	int rc = E_OK, ran = 1;
	for (int pass = 0; pass < b->rounds * SHOTS_PASSES && ran && rc >= 0; pass++) {
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

/* Records a model's tasks. A batch whose candidates kill the worker is left out. */
static int record_model(struct bench *b, const struct args *a, const char *path)
{
	struct model m;
	struct subject s[BATCH];
	int n = 0, rc = model_open(a, path, &(struct chosen_for){.target = &b->target}, &m);
	if (rc < 0)
		return rc;
	rc = model_take_bytes(&m, &b->target);
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
	int rc = model_device_check(a);
	if (rc < 0)
		return rc;
	b->device = model_device(a);
	b->dir = arg_str(a, "output", NULL);
	b->keys = arg_str(a, "task", NULL);
	b->samples = (int)arg_int(a, "samples", 150);
	b->rounds = (int)arg_int(a, "rounds", 6);
	b->threads = (int)arg_int(a, "threads", 1);
	b->warm = arg_flag(a, "warm") || b->device;
	b->spread_ns = arg_duration(a, "spread", 200 * NS_PER_MS);
	b->end_ns = clock_now(&clock_real) + arg_duration(a, "limit", 24 * 3600 * NS_PER_S);
	if (!b->dir)
		return fail(E_USAGE, "missing option --output DIR, the folder for landscapes");
	if (b->device && b->threads != 1)
		return fail(E_USAGE, "--threads %d: kernels of --device %s are started by one thread",
			    b->threads, b->device);
	if (b->samples < 1 || b->samples > SHOTS_MOST || b->rounds < 1 || b->rounds > SHOTS_ROUNDS)
		return fail(E_USAGE, "--samples: 1 to %d, --rounds: 1 to %d", SHOTS_MOST, SHOTS_ROUNDS);
	return E_OK;
}

static int measure_again(struct bench *b)
{
	return b->device ? device_measure(b->device, NULL, b->dir, &b->target)
			 : target_measure_again(b->dir, &clock_real, &b->target);
}

/* Measures the peaks once per folder: the highest of a few measurements, because other programs only lower
 * them. */
static int open_machine(struct bench *b)
{
	int rc = file_mkdirs(b->dir, 0755);
	bool fresh = landscape_folder(b->dir, &b->had, &b->land) < 0;
	if (rc >= 0 && !b->device)
		rc = target_host(&b->target);
	if (rc >= 0)
		rc = b->device ? device_target(b->device, NULL, b->dir, &b->target)
			       : target_kept(b->dir, &clock_real, &b->target);
	for (int i = 0; fresh && i < 5 && rc >= 0; i++)
		rc = measure_again(b);
	if (rc < 0)
		return rc;
	rc = fresh ? 0 : landscape_folder(b->dir, &b->had, &b->land);
	b->nland = rc < 0 ? 0 : rc;
	return rc < 0
		   ? rc
		   : runner_worker(NULL, b->device ? b->device : "cpu", &b->target, b->threads, &b->runner);
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
    {"output", OPT_STR, "DIR", "folder to write landscapes to", 'o'},
    {"samples", OPT_INT, "N", "candidates for each task (150)"},
    {"rounds", OPT_INT, "R", "clean runs of each (6)"},
    {"spread", OPT_DURATION, "200ms", "shortest duration of a round"},
    {"limit", OPT_DURATION, "150s", "start no task after this time"},
    {"task", OPT_STR, "KEYS", "only tasks whose key begins with one of these, separated by commas"},
    {"warm", OPT_FLAG, NULL, "keep weights in the processor's cache between runs"},
    OPT_DEVICE,
    OPT_THREADS,
    OPT_SHAPE,
    {NULL},
};

static const struct cmd landscape = {
    .usage = "MODEL... -o DIR [--samples N] [--rounds R] [--task KEYS] [--device NAME] [--limit 150s]",
    .summary = "record the times of candidates of models' tasks",
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
