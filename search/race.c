/* SPDX-License-Identifier: Apache-2.0 */
#include "search/race.h"

#include <math.h>

/* A slice's candidates are thinned out twice already: by their first two runs, then by a heat. Halving them
 * strictly, with shorter rounds (3, 5, duel), saves 6 % of the races' time and changes nothing: after 20 s
 * .9801 of the best network time instead of .9797, +-.0005 (48 replays: MobileNetV2, ResNet-18, SqueezeNet,
 * YuNet x 12 seeds, 5 % noise and slow phases, 0.4 ms for each run's caches). One first run instead of two,
 * or duels that end at one deviation: +-.0000; at most half as many rounds: -.0016. */
enum {
	MIN_ROUNDS = 5,
	HEAT_WINNERS = 3, /* challengers that a heat leaves */
	FIRST_ROUNDS = 9,
	DUEL_LEAST = 7,
	MAX_ROUNDS = 63
};

#define RACE_WORK_NS (60 * NS_PER_MS) /* work of one call; kernels too long for it still get MIN_ROUNDS */

/* How many rounds n candidates that take `ns` each get: at most `want`. */
static int rounds_for(int n, int64_t ns, int want)
{
	int64_t fit = RACE_WORK_NS / (n * (ns > 0 ? ns : 1));
	int64_t rounds = fit < want ? fit : want;
	return rounds < MIN_ROUNDS ? MIN_ROUNDS : (int)rounds;
}

static double pair_error(const struct meas *a, const struct meas *b)
{
	double x = meas_error(a), y = meas_error(b);
	return sqrt(x * x + y * y);
}

static bool timed(const struct meas *m)
{
	return m->status == MEAS_OK && m->runs > 0 && m->median_ns > 0;
}

/* Only the incumbent failed. If the worker died, all candidates failed. */
static bool fell(const struct meas *m, int n)
{
	bool others = false;
	for (int i = 1; i < n; i++)
		others |= timed(&m[i]);
	return others && m[0].status != MEAS_OK;
}

/* Rounds after which the difference should exceed its noise, estimated from the times so far: few on a quiet
 * machine, many on a busy one. */
static int rounds_needed(const struct meas pair[2], int asked)
{
	double gain = 1 - (double)pair[1].median_ns / (double)pair[0].median_ns;
	double off = gain >= RACE_GAIN ? gain : RACE_GAIN - gain;
	double one = RACE_SIGMAS * pair_error(&pair[0], &pair[1]) * sqrt(pair[0].runs), want = one / off;
	int least = asked ? 2 * asked : DUEL_LEAST;
	want = want * want < MAX_ROUNDS ? want * want : MAX_ROUNDS;
	return want > least ? (int)want : least < MAX_ROUNDS ? least : MAX_ROUNDS;
}

/* Whether kernel at[i] of the verdict (NULL: i) lost the worker in a call with these times. */
static bool found_bad(const struct meas *m, int n, const int *at, struct verdict *v)
{
	int bad = meas_blamed(m, n);
	if (bad < 0)
		return false;
	v->failed = at ? at[bad] : bad;
	v->how = m[bad].status;
	return true;
}

/* Whether throttling changed one of the times, which give no order then: the incumbent stays, and nobody has
 * lost. */
static bool spoilt(const struct meas *a, const struct meas *b)
{
	return a->throttled || b->throttled;
}

enum decision { UNDECIDED, STAYS, LOSES };

/* The rule by which an incumbent (m[0]) loses to a challenger (m[1]). */
static enum decision decide(const struct meas m[2], struct verdict *v)
{
	v->ratio = (double)m[1].median_ns / (double)m[0].median_ns;
	v->winner = m[1];
	double gain = 1 - v->ratio, error = RACE_SIGMAS * pair_error(&m[0], &m[1]);
	if (gain >= RACE_GAIN && gain > error)
		return LOSES;
	return gain + error < RACE_GAIN ? STAYS : UNDECIDED;
}

int race_pair(struct box *b, const struct built pair[2], int rounds, struct meas m[2], struct verdict *v)
{
	*v = (struct verdict){.ratio = 1, .failed = -1};
	for (int asked = 0; rounds > asked;) {
		asked = rounds;
		int rc = box_time(b, pair, 2, rounds, 0, TIME_QUIET, m);
		if (rc < 0 || found_bad(m, 2, NULL, v))
			return rc;
		v->lost[0] = fell(m, 2);
		if (!timed(&m[0]) || !timed(&m[1]))
			return E_OK;
		enum decision d = decide(m, v);
		if (spoilt(&m[0], &m[1]))
			return E_OK;
		v->winner_at = d == LOSES;
		if (d != UNDECIDED)
			break;
		rounds = rounds_for(2, m[0].median_ns, rounds_needed(m, asked));
	}
	v->lost[1] = !v->winner_at;
	return E_OK;
}

/* Races the incumbent against one challenger. met: their times in the first race. */
static int duel(struct box *b, const struct built pair[2], const struct meas met[2], struct verdict *v,
		int challenger)
{
	struct meas m[2];
	struct verdict d;
	int rc = race_pair(b, pair, rounds_for(2, met[0].median_ns, rounds_needed(met, 0)), m, &d);
	if (rc < 0)
		return rc;
	v->ratio = d.ratio;
	v->winner = d.winner;
	v->winner_at = d.winner_at ? challenger : 0;
	v->lost[0] = d.lost[0];
	v->lost[challenger] = d.lost[1];
	v->failed = d.failed > 0 ? challenger : d.failed;
	v->how = d.how;
	return E_OK;
}

/* Gives a large field a few rounds, and keeps the incumbent and the fastest. at[i]: index in `code` of the
 * i-th kept one. Returns how many are kept; 0: one has lost the worker. */
static int heat(struct box *b, const struct built *code, int n, int at[BOX_MAX_RACE], struct verdict *v)
{
	struct meas m[BOX_MAX_RACE];
	int left = 1;
	at[0] = 0;
	if (n <= HEAT_WINNERS + 1) {
		for (int i = 1; i < n; i++)
			at[i] = i;
		return n;
	}
	int rc = box_time(b, code, n, MIN_ROUNDS, 0, 0, m);
	if (rc >= 0 && found_bad(m, n, NULL, v))
		return 0;
	for (int i = 1; i < n && rc >= 0; i++) {
		int to = left;
		if (!timed(&m[i]))
			continue;
		for (; to > 1 && m[at[to - 1]].median_ns > m[i].median_ns; to--)
			at[to] = at[to - 1];
		at[to] = i;
		left++;
	}
	return rc < 0 ? rc : left > HEAT_WINNERS + 1 ? HEAT_WINNERS + 1 : left;
}

int race_run(struct box *b, const struct built *code, int n, int64_t ns, struct verdict *v)
{
	struct meas m[BOX_MAX_RACE];
	struct built in[BOX_MAX_RACE];
	int at[BOX_MAX_RACE], best = -1;
	*v = (struct verdict){.ratio = 1, .failed = -1};
	n = heat(b, code, n, at, v);
	for (int i = 0; i < n; i++)
		in[i] = code[at[i]];
	if (n < 2)
		return n < 0 ? n : E_OK;
	int rc = box_time(b, in, n, rounds_for(n, ns, FIRST_ROUNDS), 0, 0, m);
	if (rc >= 0 && found_bad(m, n, at, v))
		return rc;
	v->lost[0] = rc >= 0 && fell(m, n);
	if (rc < 0 || !timed(&m[0]))
		return rc;
	for (int i = 1; i < n; i++) {
		v->lost[at[i]] = m[i].status != MEAS_OK;
		if (!timed(&m[i]) || spoilt(&m[0], &m[i]))
			continue;
		v->lost[at[i]] = (double)m[i].median_ns >
				 (double)m[0].median_ns * (1 + RACE_GAIN + pair_error(&m[0], &m[i]));
		if (best < 0 || m[i].median_ns < m[best].median_ns)
			best = i;
	}
	if (best < 0 || v->lost[at[best]])
		return E_OK;
	const struct built pair[2] = {in[0], in[best]};
	const struct meas met[2] = {m[0], m[best]};
	return duel(b, pair, met, v, at[best]);
}
