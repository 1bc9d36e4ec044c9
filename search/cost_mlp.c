/* SPDX-License-Identifier: Apache-2.0 */
/* A small neural network that corrects the draft: log time = log draft + trust x f(features).
 *
 * f is the mean of HEADS networks of one hidden layer each. They lie side by side in one matrix and differ in
 * their initial weights: where they disagree, the samples have not settled the answer. They minimise the loss
 * of search/lesson.h with Adam (Kingma and Ba 2015), on batches of all samples of the job, new and old.
 * Without a prior, trust starts at 0 and grows with the number of samples, because few samples make it worse
 * than the draft alone. With a prior, the weights are held near it. */
#include "search/cost.h"
#include "platform/base/rng.h"
#include "search/lesson.h"
#include "search/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	HEADS = 4,
	HIDDEN = 48,      /* unit k belongs to head k % HEADS */
	MOST_KNOWN = 4000 /* largest number of samples that a prior counts for */
};

#define SLOPE 0.05f /* of the leaky ReLU below 0 */
#define RATE 0.004f
#define PULL 0.02f /* weight decay towards the prior, or 0, per step and RATE */
#define LEVEL 0.1f /* pull towards 0 of a task's common level, which pairs leave undetermined */
#define LIMIT 1.5f /* largest correction, of log time */

struct weights {
	float in[FEATURES][HIDDEN]; /* feature 0: the constant 1 */
	float out[HIDDEN];
};

_Static_assert(HIDDEN % ROW == 0 && HIDDEN % HEADS == 0, "as rows_sum and heads need it");
enum { WEIGHTS = sizeof(struct weights) / sizeof(float) };

struct mlp {
	struct weights w, anchor;
	struct weights mean, square; /* Adam's moments */
	struct evidence evidence;
	int64_t steps;
	float trust;
	float made; /* number of samples that the prior was made of */
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

/* Computes the activation of each unit, and each head's weighted sum of them. */
static void forward(const struct weights *w, const struct picked *f, float unit[HIDDEN], float head[HEADS])
{
	rows_sum(w->in[0], HIDDEN, f, unit);
	for (int k = 0; k < HIDDEN; k++)
		unit[k] = unit[k] > 0 ? unit[k] : SLOPE * unit[k];
	for (int h = 0; h < HEADS; h++)
		head[h] = 0;
	for (int k = 0; k < HIDDEN; k += HEADS)
		for (int h = 0; h < HEADS; h++)
			head[h] += unit[k + h] * w->out[k + h];
}

static float correction(const void *model, const float f[FEATURES], float *spread)
{
	const struct mlp *m = model;
	struct picked x;
	float unit[HIDDEN], head[HEADS], mean = 0, square = 0;
	rows_pick(f, &x);
	forward(&m->w, &x, unit, head);
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
	double sd = evidence_sd(&m->evidence, f), apart = (double)fminf(m->trust * m->trust * spread, 1);
	return (struct guess){exp((double)(f[FEATURE_DRAFT] + m->trust * c)), sqrt(sd * sd + apart)};
}

/* ---- learning ---- */

/* A batch, its activations and outputs, and the loss's gradient by each head's output. */
struct pass {
	struct lesson_batch b;
	struct picked x[BATCH];
	float unit[BATCH][HIDDEN], head[BATCH][HEADS], slope[BATCH][HEADS];
};

/* Pulls the common level of each head to 0: else heads would differ in it, and that would look like
 * uncertainty. */
static void pull_levels(struct pass *p)
{
	for (int h = 0; h < HEADS; h++) {
		float level = 0;
		for (int i = 0; i < p->b.n; i++)
			level += p->head[i][h] / (float)p->b.n;
		for (int i = 0; i < p->b.n; i++)
			p->slope[i][h] += LEVEL * level / (float)p->b.n;
	}
}

static void backward(const struct weights *w, const struct pass *p, struct weights *g)
{
	memset(g, 0, sizeof *g);
	for (int i = 0; i < p->b.n; i++) {
		const struct picked *x = &p->x[i];
		float in[HIDDEN];
		for (int k = 0; k < HIDDEN; k++) {
			float s = p->slope[i][k % HEADS];
			g->out[k] += s * p->unit[i][k];
			in[k] = s * w->out[k] * (p->unit[i][k] > 0 ? 1 : SLOPE);
		}
		for (int j = 0; j < x->n; j++)
			for (int k = 0; k < HIDDEN; k++)
				g->in[x->row[j]][k] += x->x[j] * in[k];
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

static void mlp_learn(void *state, const struct sample *s, int n, int fresh)
{
	struct mlp *m = state;
	struct arena a = {0};
	struct weights gradient;
	struct pass p;
	struct lesson l = lesson_make(&a, s, n);
	lesson_witness(&m->evidence, &a, s + n - fresh, fresh, correction, m, m->trust);
	for (int i = 0; i < fresh; i++) {
		lesson_draw(&l, &m->rng, &p.b);
		if (p.b.n < 2)
			continue;
		for (int k = 0; k < p.b.n; k++) {
			rows_pick(p.b.s[k]->f, &p.x[k]);
			forward(&m->w, &p.x[k], p.unit[k], p.head[k]);
		}
		batch_pull(&p.b, HEADS, p.head[0], p.slope[0], NULL);
		pull_levels(&p);
		backward(&m->w, &p, &gradient);
		adam(m, &gradient, RATE * (1 - (float)i / (float)fresh));
	}
	m->trust = lesson_trust(m->made, &l);
	arena_free(&a);
}

static void mlp_save(const void *state, struct buf *out)
{
	const struct mlp *m = state;
	float made = trust_known(m->trust);
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
