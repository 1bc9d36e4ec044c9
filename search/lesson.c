/* SPDX-License-Identifier: Apache-2.0 */
#include "search/lesson.h"

#include <math.h>
#include <string.h>

enum {
	LEAST = 150,     /* with fewer samples a model is not trusted */
	LEAST_TASKS = 3, /* tasks that need LEAST_EACH samples each, or a job's samples do not count */
	LEAST_EACH = 8,
	REMEMBERED = 200 /* weight of the previous deviation, in samples */
};

#define HALF_TRUST 300.f
#define FAR 0.4f   /* Huber's threshold: pairs with a larger error pull no harder */
#define GOOD 0.25f /* a sample this much slower than the task's best (log) has weight one half */
#define OUTLIER 2.
#define LEAST_NOISE 0.02f

static float log_ns(const struct sample *s)
{
	return s->f[FEATURE_DRAFT] + s->log_ratio;
}

struct lesson lesson_make(struct arena *a, const struct sample *s, int n)
{
	struct lesson l = {.s = s, .n = n};
	for (int i = 0; i < n; i++)
		l.ntasks = s[i].task >= l.ntasks ? s[i].task + 1 : l.ntasks;
	l.first = ARENA_ARRAY(a, int, l.ntasks + 2);
	l.at = ARENA_ARRAY(a, int, n + 1);
	l.best = ARENA_ARRAY(a, float, l.ntasks + 1);
	for (int i = 0; i < n; i++)
		l.first[s[i].task + 2]++;
	for (int t = 2; t < l.ntasks + 2; t++)
		l.first[t] += l.first[t - 1];
	for (int t = 0; t < l.ntasks; t++)
		l.best[t] = INFINITY;
	for (int i = 0; i < n; i++) {
		l.at[l.first[s[i].task + 1]++] = i;
		l.best[s[i].task] = fminf(l.best[s[i].task], log_ns(&s[i]));
	}
	return l;
}

void lesson_draw(const struct lesson *l, struct rng *r, struct lesson_batch *b)
{
	int t = l->s[rng_below(r, (uint32_t)l->n)].task, all = l->first[t + 1] - l->first[t];
	b->n = all < BATCH ? all : BATCH;
	for (int i = 0; i < b->n; i++) {
		int k = all <= BATCH ? i : (int)rng_below(r, (uint32_t)all);
		b->s[i] = &l->s[l->at[l->first[t] + k]];
		b->weight[i] = 1 / (1 + (log_ns(b->s[i]) - l->best[t]) / GOOD);
	}
}

void batch_pull(const struct lesson_batch *b, int heads, const float *have, float *slope, float *curve)
{
	float share = 2.f / (float)(b->n * (b->n - 1)), sum[BATCH] = {0};
	memset(slope, 0, sizeof *slope * (size_t)(b->n * heads));
	for (int i = 0; i < b->n; i++)
		for (int k = 0; k < i; k++) {
			float w = share * fmaxf(b->weight[i], b->weight[k]),
			      d = b->s[i]->log_ratio - b->s[k]->log_ratio;
			sum[i] += w;
			sum[k] += w;
			for (int h = 0; h < heads; h++) {
				float e = have[i * heads + h] - have[k * heads + h] - d;
				e = w * fminf(fmaxf(e, -FAR), FAR);
				slope[i * heads + h] += e;
				slope[k * heads + h] -= e;
			}
		}
	if (curve)
		memcpy(curve, sum, sizeof *curve * (size_t)b->n);
}

float trust_of(float known)
{
	return known < LEAST ? 0 : known / (known + HALF_TRUST);
}

float trust_known(float trust)
{
	return trust * HALF_TRUST / (1 - trust);
}

float lesson_trust(float known, const struct lesson *l)
{
	int enough = 0;
	for (int t = 0; t < l->ntasks; t++)
		enough += l->first[t + 1] - l->first[t] >= LEAST_EACH;
	return trust_of(known + (enough < LEAST_TASKS ? 0 : (float)l->n));
}

float lesson_noise(float noise, const struct lesson *fresh, const float *left)
{
	double sum = 0, n = 0;
	for (int t = 0; t < fresh->ntasks; t++) {
		double mean = 0, count = fresh->first[t + 1] - fresh->first[t];
		for (int i = fresh->first[t]; i < fresh->first[t + 1]; i++)
			mean += (double)left[fresh->at[i]] / count;
		for (int i = fresh->first[t]; i < fresh->first[t + 1]; i++) {
			double e = fmin(fmax((double)left[fresh->at[i]] - mean, -OUTLIER), OUTLIER);
			sum += e * e;
		}
		n += count > 1 ? count - 1 : 0;
	}
	double var = (REMEMBERED * (double)(noise * noise) + sum) / (REMEMBERED + n);
	return fmaxf((float)sqrt(var), LEAST_NOISE);
}

void lesson_witness(struct evidence *e, struct arena *a, const struct sample *s, int n, correct_fn *correct,
		    const void *model, float trust)
{
	struct lesson fresh = lesson_make(a, s, n);
	float *left = ARENA_ARRAY(a, float, n + 1), spread;
	for (int i = 0; i < n; i++) {
		left[i] = s[i].log_ratio - trust * correct(model, s[i].f, &spread);
		evidence_add(e, s[i].f);
	}
	e->noise = lesson_noise(e->noise, &fresh, left);
}
