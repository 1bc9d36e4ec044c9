/* SPDX-License-Identifier: Apache-2.0 */
/* A small net that corrects the draft: log time = log draft + trust x f(features).
 *
 * f is the mean of HEADS nets of one hidden layer each, which lie side by side in one matrix and differ in
 * what they began with: what they disagree in is what the samples have not settled. They learn differences
 * of log time within a task (Burges et al. 2005, RankNet, with how much is between two instead of only which
 * is faster; pairs of fast candidates count most), by Adam (Kingma and Ba 2015), from batches of all samples
 * of the job, new and old. Without a prior, trust begins at 0 and grows with samples: few of them make it
 * worse than the draft alone. With a prior, weights are held near it. */
#include "search/cost.h"
#include "platform/rng.h"
#include "search/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	HEADS = 4,
	UNITS = 8, /* of a head */
	HIDDEN = HEADS * UNITS,
	BATCH = 24,      /* samples of one task */
	LEAST_TASKS = 3, /* with LEAST_EACH samples: below, the draft alone is better */
	LEAST_EACH = 8,
	LEAST = 150,
	MOST_KNOWN = 4000 /* samples that a prior counts for */
};

#define SLOPE 0.05f /* of a unit that is off */
#define RATE 0.004f
#define PULL 0.02f /* towards the prior, or 0, a step and rate */
#define HALF_TRUST 300.f
#define FAR 0.4f   /* pairs further apart pull no harder */
#define GOOD 0.25f /* within so much of the task's best, pairs count at least half */
#define LIMIT 1.5f /* of a correction */

struct weights {
	float in[FEATURES][HIDDEN]; /* feature 0: the constant 1 */
	float out[HIDDEN];
};

enum { WEIGHTS = sizeof(struct weights) / sizeof(float) };

struct mlp {
	struct weights w, anchor;
	struct weights mean, square; /* Adam's */
	struct evidence evidence;
	int64_t steps;
	float trust;
	float made; /* samples that the prior was made of */
	struct rng rng;
};

_Static_assert(sizeof(struct mlp) <= 64 << 10, "the state fits in 64 KB");

static void begin(struct mlp *m, uint64_t seed)
{
	memset(m, 0, sizeof *m);
	rng_seed(&m->rng, seed + 11);
	evidence_init(&m->evidence);
	for (int i = 0; i < FEATURES; i++)
		for (int k = 0; k < HIDDEN; k++)
			m->w.in[i][k] = (float)rng_normal(&m->rng) * .4f;
	for (int k = 0; k < HIDDEN; k++)
		m->w.out[k] = (float)rng_normal(&m->rng) * .1f;
}

static float trust_of(float samples)
{
	return samples < LEAST ? 0 : samples / (samples + HALF_TRUST);
}

static int read_weights(struct prior *p, struct weights *w)
{
	int rc = E_OK;
	for (int i = 0; i < FEATURES && rc >= 0; i++)
		rc = prior_read(p, "in", w->in[i], HIDDEN);
	return rc < 0 ? rc : prior_read(p, "out", w->out, HIDDEN);
}

static int read_prior(struct mlp *m, const char *text, size_t n)
{
	struct prior p;
	int rc = prior_open(&p, text, n, "mlp");
	if (rc >= 0)
		rc = prior_read(&p, "samples", &m->made, 1);
	if (rc >= 0)
		rc = read_weights(&p, &m->w);
	if (rc >= 0)
		rc = evidence_read(&m->evidence, &p);
	if (rc >= 0)
		rc = prior_end(&p);
	m->made = fminf(fmaxf(m->made, 0), MOST_KNOWN);
	m->anchor = m->w;
	m->trust = trust_of(m->made);
	return rc;
}

static int mlp_start(struct arena *a, const char *prior, size_t n, uint64_t seed, void **state)
{
	struct mlp *m = ARENA_NEW(a, struct mlp);
	*state = m;
	begin(m, seed);
	int rc = n ? read_prior(m, prior, n) : E_OK;
	if (rc < 0)
		begin(m, seed);
	return rc;
}

/* The units' values, and each head's sum of them. */
static void forward(const struct weights *w, const float f[FEATURES], float unit[HIDDEN], float head[HEADS])
{
	memcpy(unit, w->in[0], sizeof w->in[0]);
	for (int i = 1; i < FEATURES; i++) {
		if (f[i] == 0)
			continue;
		for (int k = 0; k < HIDDEN; k++)
			unit[k] += f[i] * w->in[i][k];
	}
	for (int k = 0; k < HIDDEN; k++)
		unit[k] = unit[k] > 0 ? unit[k] : SLOPE * unit[k];
	for (int h = 0; h < HEADS; h++) {
		head[h] = 0;
		for (int k = h * UNITS; k < (h + 1) * UNITS; k++)
			head[h] += unit[k] * w->out[k];
	}
}

static float correction(const struct mlp *m, const float f[FEATURES], float *spread)
{
	float unit[HIDDEN], head[HEADS], mean = 0, square = 0;
	forward(&m->w, f, unit, head);
	for (int h = 0; h < HEADS; h++)
		mean += head[h] / HEADS;
	for (int h = 0; h < HEADS; h++)
		square += (head[h] - mean) * (head[h] - mean) / (HEADS - 1);
	*spread = square;
	return fminf(fmaxf(mean, -LIMIT), LIMIT);
}

static struct guess mlp_guess(const void *state, const float f[FEATURES])
{
	const struct mlp *m = state;
	float spread, c = correction(m, f, &spread);
	double sd = evidence_sd(&m->evidence, f), apart = fminf(m->trust * m->trust * spread, 1);
	return (struct guess){exp((double)(f[FEATURE_DRAFT] + m->trust * c)), sqrt(sd * sd + apart)};
}

/* ---- learning ---- */

/* Samples by task: those of task t are at[first[t]] to at[first[t + 1]]. */
struct by_task {
	int ntasks, *first, *at;
	float *best; /* log of the shortest time of each */
};

static float log_ns(const struct sample *s)
{
	return s->f[FEATURE_DRAFT] + s->log_ratio;
}

static struct by_task sort_tasks(struct arena *a, const struct sample *s, int n)
{
	struct by_task b = {0};
	for (int i = 0; i < n; i++)
		b.ntasks = s[i].task >= b.ntasks ? s[i].task + 1 : b.ntasks;
	b.first = ARENA_ARRAY(a, int, b.ntasks + 2);
	b.at = ARENA_ARRAY(a, int, n);
	b.best = ARENA_ARRAY(a, float, b.ntasks + 1);
	for (int i = 0; i < n; i++)
		b.first[s[i].task + 2]++;
	for (int t = 2; t < b.ntasks + 2; t++)
		b.first[t] += b.first[t - 1];
	for (int i = 0; i < n; i++)
		b.at[b.first[s[i].task + 1]++] = i;
	for (int t = 0; t < b.ntasks; t++)
		for (int i = b.first[t]; i < b.first[t + 1]; i++) {
			float x = log_ns(&s[b.at[i]]);
			b.best[t] = i == b.first[t] || x < b.best[t] ? x : b.best[t];
		}
	return b;
}

/* A batch: samples of one task, what is known and thought of them. */
struct batch {
	int n;
	const struct sample *s[BATCH];
	float want[BATCH], weight[BATCH];
	float unit[BATCH][HIDDEN], head[BATCH][HEADS], slope[BATCH][HEADS];
};

static void draw(struct mlp *m, const struct by_task *b, const struct sample *s, int n, struct batch *out)
{
	int t = s[rng_below(&m->rng, (uint32_t)n)].task, all = b->first[t + 1] - b->first[t];
	out->n = all < BATCH ? all : BATCH;
	for (int i = 0; i < out->n; i++) {
		int k = all <= BATCH ? i : (int)rng_below(&m->rng, (uint32_t)all);
		const struct sample *x = out->s[i] = &s[b->at[b->first[t] + k]];
		out->want[i] = x->log_ratio;
		out->weight[i] = 1 / (1 + (log_ns(x) - b->best[t]) / GOOD);
		forward(&m->w, x->f, out->unit[i], out->head[i]);
	}
}

/* What each head's sums should change by. */
static void pull_pairs(struct batch *b)
{
	memset(b->slope, 0, sizeof b->slope);
	float share = 2.f / (float)(b->n * (b->n - 1));
	for (int i = 0; i < b->n; i++)
		for (int k = 0; k < i; k++) {
			float w = share * fmaxf(b->weight[i], b->weight[k]), d = b->want[i] - b->want[k];
			for (int h = 0; h < HEADS; h++) {
				float e = b->head[i][h] - b->head[k][h] - d;
				e = w * fminf(fmaxf(e, -FAR), FAR);
				b->slope[i][h] += e;
				b->slope[k][h] -= e;
			}
		}
}

static void backward(const struct weights *w, const struct batch *b, struct weights *g)
{
	memset(g, 0, sizeof *g);
	for (int i = 0; i < b->n; i++) {
		float in[HIDDEN];
		for (int k = 0; k < HIDDEN; k++) {
			float s = b->slope[i][k / UNITS];
			g->out[k] += s * b->unit[i][k];
			in[k] = s * w->out[k] * (b->unit[i][k] > 0 ? 1 : SLOPE);
			g->in[0][k] += in[k];
		}
		for (int j = 1; j < FEATURES; j++) {
			float x = b->s[i]->f[j];
			if (x == 0)
				continue;
			for (int k = 0; k < HIDDEN; k++)
				g->in[j][k] += x * in[k];
		}
	}
}

static void adam(struct mlp *m, const struct weights *gradient, float rate)
{
	float *w = &m->w.in[0][0], *mean = &m->mean.in[0][0], *square = &m->square.in[0][0];
	const float *g = &gradient->in[0][0], *anchor = &m->anchor.in[0][0];
	m->steps++;
	double n = (double)m->steps;
	float fix = (float)(sqrt(1 - pow(.995, n)) / (1 - pow(.9, n)));
	for (int i = 0; i < WEIGHTS; i++) {
		mean[i] = .9f * mean[i] + .1f * g[i];
		square[i] = .995f * square[i] + .005f * g[i] * g[i];
		w[i] -= rate * (fix * mean[i] / (sqrtf(square[i]) + 1e-6f) + PULL * (w[i] - anchor[i]));
	}
}

/* What is left of the differences within tasks. */
static float residual(const struct mlp *m, const struct by_task *b, const struct sample *s)
{
	double sum = 0, n = 1e-9;
	for (int t = 0; t < b->ntasks; t++) {
		double mean = 0, square = 0, count = b->first[t + 1] - b->first[t];
		for (int i = b->first[t]; i < b->first[t + 1]; i++) {
			const struct sample *x = &s[b->at[i]];
			float spread, e = x->log_ratio - m->trust * correction(m, x->f, &spread);
			e = fminf(fmaxf(e, -2), 2);
			mean += (double)e / count;
			square += (double)(e * e);
		}
		sum += count > 1 ? square - count * mean * mean : 0;
		n += count > 1 ? count - 1 : 0;
	}
	return (float)sqrt(sum / n);
}

static void mlp_learn(void *state, const struct sample *s, int n, int fresh)
{
	struct mlp *m = state;
	struct arena a = {0};
	struct weights gradient;
	struct batch batch;
	struct by_task tasks = sort_tasks(&a, s, n);
	int enough = 0;
	for (int i = n - fresh; i < n; i++)
		evidence_add(&m->evidence, s[i].f);
	for (int t = 0; t < tasks.ntasks; t++)
		enough += tasks.first[t + 1] - tasks.first[t] >= LEAST_EACH;
	for (int i = 0; i < fresh; i++) {
		draw(m, &tasks, s, n, &batch);
		if (batch.n < 2)
			continue;
		pull_pairs(&batch);
		backward(&m->w, &batch, &gradient);
		adam(m, &gradient, RATE * (1 - (float)i / (float)fresh));
	}
	m->trust = trust_of(m->made + (enough < LEAST_TASKS ? 0 : (float)n));
	m->evidence.noise = fmaxf(residual(m, &tasks, s), .02f);
	arena_free(&a);
}

static void mlp_save(const void *state, struct buf *out)
{
	const struct mlp *m = state;
	float made = m->trust * HALF_TRUST / (1 - m->trust);
	prior_head(out, "mlp");
	prior_write(out, "samples", &made, 1);
	for (int i = 0; i < FEATURES; i++)
		prior_write(out, "in", m->w.in[i], HIDDEN);
	prior_write(out, "out", m->w.out, HIDDEN);
	evidence_write(&m->evidence, out);
}

const struct cost cost_mlp = {
    .name = "mlp",
    .start = mlp_start,
    .learn = mlp_learn,
    .guess = mlp_guess,
    .save = mlp_save,
};
