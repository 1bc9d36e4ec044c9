/* SPDX-License-Identifier: Apache-2.0 */
/* Phases of a stage. A transposed convolution of stride 2 reads other weights at odd outputs than at even
 * ones: its rows share nothing. Divided by the remainders of its axes it is several convolutions, each of
 * which is regular. */
#include "agent/run/host_parts.h"

enum { MOST_PHASES = 64 };

static int64_t common_divisor(int64_t a, int64_t b)
{
	return b ? common_divisor(b, a % b) : a;
}

/* The period of axis a: after so many steps every remainder is as at first. 0: too long. */
static int64_t period_of(const struct task *t, const struct stage *s, int a)
{
	int64_t period = 1;
	for (int i = 0; i < s->nreads; i++)
		for (int d = 0; d < t->operand[s->read[i].operand].dims.rank; d++) {
			const struct index *x = &s->read[i].dim[d];
			if (x->mod <= 1 || x->coef[a] % x->mod == 0)
				continue;
			if (x->coef[a] < 0 || x->div > 1 || x->mod > MOST_PHASES)
				return 0;
			int64_t p = x->mod / common_divisor(x->mod, x->coef[a]);
			period = period / common_divisor(period, p) * p;
			if (period > MOST_PHASES)
				return 0;
		}
	return period;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static bool all_multiples(const struct stage *s, const struct index *x, int64_t of)
{
	for (int a = 0; a < s->naxes; a++)
		if (x->coef[a] % of)
			return false;
	return true;
}

/* Divisions that leave no remainder are done, and remainders that do not vary become constants. */
static void simplify(const struct stage *s, struct index *x)
{
	if (x->div > 1 && all_multiples(s, x, x->div)) {
		for (int a = 0; a < s->naxes; a++)
			x->coef[a] /= x->div;
		x->off = floor_div(x->off, x->div);
		x->div = 1;
	}
	if (x->div <= 1 && x->mod > 1 && all_multiples(s, x, x->mod)) {
		for (int a = 0; a < s->naxes; a++)
			x->coef[a] = 0;
		x->off -= floor_div(x->off, x->mod) * x->mod;
		x->mod = 0;
	}
}

/* An index at axis values period * i + at. */
static void enter(const struct stage *s, const int64_t period[MAX_AXES], const int64_t at[MAX_AXES],
		  struct index *x)
{
	for (int a = 0; a < s->naxes; a++) {
		x->off += x->coef[a] * at[a];
		x->coef[a] *= period[a];
	}
	simplify(s, x);
}

static void make_phase(const struct task *t, const int64_t period[MAX_AXES], const int64_t at[MAX_AXES],
		       struct stage *s)
{
	for (int i = 0; i < s->nreads; i++)
		for (int d = 0; d < t->operand[s->read[i].operand].dims.rank; d++)
			enter(s, period, at, &s->read[i].dim[d]);
	for (int d = 0; d < t->operand[s->out.operand].dims.rank; d++)
		enter(s, period, at, &s->out.dim[d]);
	for (int a = 0; a < s->naxes; a++)
		s->axis[a].extent = (s->axis[a].extent - at[a] + period[a] - 1) / period[a];
}

int host_phases(const struct task *t, int k, struct arena *a, const struct stage **out)
{
	const struct stage *s = &t->stage[k];
	int64_t period[MAX_AXES], at[MAX_AXES] = {0};
	int n = 1;
	*out = s;
	for (int x = 0; x < s->naxes; x++) {
		period[x] = s->axis[x].kind == AXIS_SPATIAL ? period_of(t, s, x) : 1;
		if (period[x] > s->axis[x].extent)
			period[x] = 0;
		n *= (int)period[x];
		if (n < 1 || n > MOST_PHASES)
			return 1;
	}
	if (n == 1)
		return 1;
	struct stage *phase = arena_try(a, (size_t)n, sizeof *phase);
	if (!phase)
		return E_NOMEM;
	for (int i = 0; i < n; i++) {
		phase[i] = *s;
		make_phase(t, period, at, &phase[i]);
		for (int x = s->naxes - 1; x >= 0 && ++at[x] == period[x]; x--)
			at[x] = 0;
	}
	*out = phase;
	return n;
}
