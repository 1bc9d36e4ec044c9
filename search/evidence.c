/* SPDX-License-Identifier: Apache-2.0 */
#include "search/evidence.h"

#include <math.h>
#include <string.h>

/* WEIGHT_VAR: prior variance of a weight. The features of a candidate, as rows_pick gives them, have a squared
 * length of about 6, so before the first sample the standard deviation of a log time is about a quarter.
 * SAMPLE_VAR: variance of a sample's log time around a model that fits well, as evidence_add assumes it. NOISE:
 * the standard deviation that evidence_sd adds, unless a prior gives another one. */
#define WEIGHT_VAR 0.01f
#define SAMPLE_VAR 0.01f
#define NOISE 0.05f
#define ELSEWHERE 4.f /* factor on a prior's covariance: its samples count a quarter, as they are of other
			 tasks, maybe of another machine */

void evidence_init(struct evidence *e)
{
	memset(e, 0, sizeof *e);
	e->noise = NOISE;
	for (int i = 0; i < FEATURES; i++)
		e->cov[i][i] = WEIGHT_VAR;
}

/* out = cov x. Returns x cov x; rounding, or a prior that is no covariance matrix, may make it negative. */
static float through(const struct evidence *e, const float f[FEATURES], float out[EVIDENCE_COLUMNS])
{
	struct picked x;
	float sum = 0;
	rows_pick(f, &x);
	rows_sum(e->cov[0], EVIDENCE_COLUMNS, &x, out);
	for (int i = 0; i < x.n; i++)
		sum += out[x.row[i]] * x.x[i];
	return sum;
}

void evidence_add(struct evidence *e, const float f[FEATURES])
{
	float x[EVIDENCE_COLUMNS], var = through(e, f, x), gain = 1 / (SAMPLE_VAR + var);
	if (!(var > 0))
		return;
	for (int i = 0; i < FEATURES; i++)
		for (int k = 0; k < FEATURES; k++)
			e->cov[i][k] -= gain * x[i] * x[k];
}

double evidence_sd(const struct evidence *e, const float f[FEATURES])
{
	float x[EVIDENCE_COLUMNS], var = fmaxf(through(e, f, x), 0) + e->noise * e->noise;
	return var < 1 ? sqrt((double)var) : 1;
}

int evidence_read(struct evidence *e, struct prior *p)
{
	int rc = prior_read(p, "noise", &e->noise, 1);
	e->noise = fminf(fmaxf(e->noise, .01f), 1);
	for (int i = 0; i < FEATURES && rc >= 0; i++) {
		rc = prior_read(p, "known", e->cov[i], i + 1);
		for (int k = 0; k <= i; k++)
			e->cov[k][i] = e->cov[i][k] *= ELSEWHERE;
	}
	return rc;
}

void evidence_write(const struct evidence *e, struct buf *out)
{
	prior_write(out, "noise", &e->noise, 1);
	for (int i = 0; i < FEATURES; i++)
		prior_write(out, "known", e->cov[i], i + 1);
}
