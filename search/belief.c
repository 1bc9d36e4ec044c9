/* SPDX-License-Identifier: Apache-2.0 */
#include "search/belief.h"

#include <math.h>

#define REACH 0.5                /* distance of features at which a neighbour weighs e^-1/2 */
#define FAR (20 * REACH * REACH) /* e^-10: weighs nothing */
#define SHRINK 1.0               /* with this weight of neighbours at distance 0, the posterior moves half way
				    to them */
#define NOISE 0.03               /* standard deviation of the log of a measurement */
#define OUTLIER 0.7              /* residuals are clipped to this; slow phases of the machine are no longer */
#define PRIOR 4                  /* the model's own sd counts as so many measurements */
#define OWN 0.5                  /* share of a candidate's variance that no neighbour explains */
#define GAIN 0.01                /* a smaller gain does not win a race */

static double log_guess(const struct member *m)
{
	return log(m->guess.ns);
}

static double clamp(double x, double most)
{
	return x > most ? most : x < -most ? -most : x;
}

void belief_form(struct belief *b, const struct herd *h)
{
	double squares = PRIOR;
	*b = (struct belief){.herd = h, .scale = 1, .best = INFINITY};
	for (int i = 0; i < h->npool && !h->ntold; i++)
		b->best = fmin(b->best, log_guess(&h->pool[i]) + 1);
	if (!h->ntold)
		return;
	for (int i = 0; i < h->ntold; i++)
		b->mean += (h->told[i].log_ns - log_guess(&h->told[i])) / h->ntold;
	for (int i = 0; i < h->ntold; i++) {
		const struct member *m = &h->told[i];
		b->rest[i] = clamp(m->log_ns - log_guess(m) - b->mean, OUTLIER);
		squares += b->rest[i] * b->rest[i] / (m->guess.sd * m->guess.sd + NOISE * NOISE);
	}
	b->scale = sqrt(squares / (PRIOR + h->ntold));
	b->best = h->told[0].log_ns - GAIN;
}

void belief_of(const struct belief *b, const struct member *m, double *log_ns, double *sd)
{
	double near = 0, sum = 0;
	for (int i = 0; i < b->herd->ntold; i++) {
		const float *f = b->herd->told[i].f;
		float d = 0;
		for (int k = 0; k < FEATURES; k++)
			d += (f[k] - m->f[k]) * (f[k] - m->f[k]);
		if (d > FAR)
			continue;
		double w = exp((double)-d / (2 * REACH * REACH));
		near += w;
		sum += w * b->rest[i];
	}
	*log_ns = log_guess(m) + b->mean + sum / (near + SHRINK);
	double own = m->guess.sd * b->scale, left = OWN + (1 - OWN) * SHRINK / (near + SHRINK);
	*sd = sqrt(own * own * left + NOISE * NOISE);
}

void belief_settle(const struct belief *b, struct herd *h)
{
	for (int i = 0; i < h->npool; i++) {
		double log_ns, sd;
		belief_of(b, &h->pool[i], &log_ns, &sd);
		h->pool[i].log_ns = log_ns;
		h->pool[i].guess.sd = sd;
	}
}

double belief_gain(const struct belief *b, const struct member *m)
{
	double sd = m->guess.sd, ahead = b->best - m->log_ns, z = ahead / sd;
	double gain = ahead * 0.5 * erfc(-z / sqrt(2)) + sd * exp(-z * z / 2) / sqrt(2 * M_PI);
	return gain > 0 ? gain : 0;
}
