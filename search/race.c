/* SPDX-License-Identifier: Apache-2.0 */
#include "search/race.h"

#include <math.h>

enum { MIN_ROUNDS = 5, FIRST_ROUNDS = 9, DUEL_ROUNDS = 21, MAX_ROUNDS = 63 };

#define RACE_WORK_NS (60 * NS_PER_MS) /* of one call: kernels longer than that get MIN_ROUNDS */
#define NEVER_CERTAIN 1.0

/* Rounds of n candidates that take `ns` each, at most `want`. */
static int rounds_for(int n, int64_t ns, int want)
{
	int64_t fit = RACE_WORK_NS / (n * (ns > 0 ? ns : 1));
	int64_t rounds = fit < want ? fit : want;
	return rounds < MIN_ROUNDS ? MIN_ROUNDS : (int)rounds;
}

/* Standard error of a median, relative: 1.4826 MAD estimates sigma, and the median of r normal samples
 * has 1.2533 sigma / sqrt(r). */
static double median_error(const struct meas *m)
{
	if (m->runs < 3 || m->median_ns <= 0)
		return NEVER_CERTAIN;
	return 1.4826 * 1.2533 * (double)m->spread_ns / (double)m->median_ns / sqrt(m->runs);
}

static double pair_error(const struct meas *a, const struct meas *b)
{
	double x = median_error(a), y = median_error(b);
	return sqrt(x * x + y * y);
}

static bool timed(const struct meas *m)
{
	return m->status == MEAS_OK && m->runs > 0 && m->median_ns > 0;
}

/* The incumbent and one challenger, with more rounds while their difference could be noise. */
static int duel(struct box *b, const struct built pair[2], int64_t ns, struct verdict *v, int challenger)
{
	for (int want = DUEL_ROUNDS, asked = 0; want <= MAX_ROUNDS; want *= 3) {
		struct meas m[2];
		int rounds = rounds_for(2, ns, want);
		if (rounds <= asked)
			break;
		asked = rounds;
		int rc = box_time(b, pair, 2, rounds, 0, true, m);
		if (rc < 0)
			return rc;
		if (!timed(&m[0]) || !timed(&m[1]))
			return E_OK;
		v->ratio = (double)m[1].median_ns / (double)m[0].median_ns;
		v->winner = m[1];
		double gain = 1 - v->ratio, error = RACE_SIGMAS * pair_error(&m[0], &m[1]);
		if (gain >= RACE_GAIN && gain > error) {
			v->winner_at = challenger;
			return E_OK;
		}
		if (gain + error < RACE_GAIN)
			break;
	}
	v->lost[challenger] = true;
	return E_OK;
}

int race_run(struct box *b, const struct built *code, int n, int64_t ns, struct verdict *v)
{
	struct meas m[BOX_MAX_RACE];
	*v = (struct verdict){.ratio = 1};
	int rc = box_time(b, code, n, rounds_for(n, ns, FIRST_ROUNDS), 0, true, m);
	if (rc < 0 || !timed(&m[0]))
		return rc;
	int best = -1;
	for (int i = 1; i < n; i++) {
		if (!timed(&m[i]))
			continue;
		v->lost[i] = (double)m[i].median_ns >
			     (double)m[0].median_ns * (1 + RACE_GAIN + pair_error(&m[0], &m[i]));
		if (best < 0 || m[i].median_ns < m[best].median_ns)
			best = i;
	}
	if (best < 0 || v->lost[best])
		return E_OK;
	const struct built pair[2] = {code[0], code[best]};
	return duel(b, pair, m[0].median_ns, v, best);
}
