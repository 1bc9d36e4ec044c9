/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/herd_power.h"

#include "agent/sync/sync_pace.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define BIN_NS (100 * NS_PER_MS)
#define MOST_S (7 * 86400.)
enum { BINS_OF_1_S = 10, BINS_OF_10_S = 100 };

static int64_t ns_of(double s)
{
	return (int64_t)(s * 1e9);
}

struct power {
	const struct herd_power *c;
	struct herd_peak *sum;
	int64_t end_ns;
	uint32_t *bin;
	int nbins;
};

/* Interval of a board. One that heard the server's wish follows it; agent/sync/sync.c keeps it within a
 * factor of 4. */
static double pace_s(const struct herd_power *c, bool heard)
{
	return heard ? fmin(fmax(c->poll_s, c->every_s / 4), c->every_s * 4) : c->every_s;
}

/* Simulates one board from one start to the next, or to the end. */
static void live(struct power *p, struct sync_pace *pace, bool *heard, int64_t from_ns, int64_t to_ns,
		 struct rng *r)
{
	const struct herd_power *c = p->c;
	p->sum->starts++;
	pace_next(pace, PACE_START, from_ns, ns_of(pace_s(c, *heard)), 0, r);
	while (pace->next_ns < to_ns) {
		int64_t now_ns = pace->next_ns;
		double now_s = (double)now_ns / 1e9;
		bool fails = now_s >= c->fails_from && now_s < c->fails_to;
		p->bin[now_ns / BIN_NS]++;
		p->sum->asks++;
		p->sum->failed += fails;
		*heard |= !fails && c->poll_s > 0 && now_s >= c->poll_from;
		pace_next(pace, fails ? PACE_FAILED : PACE_GOOD, now_ns, ns_of(pace_s(c, *heard)),
			  fails ? ns_of(c->retry_s) : 0, r);
	}
}

static void run_board(struct power *p, struct rng *r)
{
	struct sync_pace pace = {0};
	bool heard = false;
	int64_t again_ns = p->c->again_s > 0 ? ns_of(p->c->again_s) : p->end_ns;
	for (int64_t at_ns = 0; at_ns < p->end_ns; at_ns += again_ns)
		live(p, &pace, &heard, at_ns, at_ns > p->end_ns - again_ns ? p->end_ns : at_ns + again_ns, r);
}

/* Planned requests per second. If the server asks for a slower pace, boards hear it only at their next
 * request, so the old pace counts until all must have heard. */
static double planned_at(const struct herd_power *c, double at_s)
{
	double slow = pace_s(c, true);
	if (c->poll_s <= 0 || at_s < c->poll_from + (slow > c->every_s ? 2 * c->every_s : 0))
		return c->boards / c->every_s;
	return c->boards / slow;
}

static double peak(const struct power *p, int width, double *at_s)
{
	double most = 0;
	int64_t n = 0;
	for (int i = 0; i < p->nbins; i++) {
		n += p->bin[i];
		n -= i >= width ? p->bin[i - width] : 0;
		double s = (double)i / BINS_OF_1_S,
		       share = (double)n / ((double)width / BINS_OF_1_S) / planned_at(p->c, s);
		if (share > most) {
			most = share;
			*at_s = s;
		}
	}
	return most;
}

static double mean_late(const struct power *p)
{
	double n = 0, planned = 0;
	for (int i = p->nbins * 3 / 4; i < p->nbins; i++) {
		n += p->bin[i];
		planned += planned_at(p->c, (double)i / BINS_OF_1_S) / BINS_OF_1_S;
	}
	return planned > 0 ? n / planned : 0;
}

int herd_power(const struct herd_power *c, struct herd_peak *out)
{
	*out = (struct herd_peak){.planned = planned_at(c, c->run_s)};
	if (!(c->run_s > 0 && c->run_s <= MOST_S && c->every_s >= 1))
		return fail(E_USAGE, "a simulation of %.0f s is too long; at most a week is possible",
			    c->run_s);
	struct power p = {c, out, ns_of(c->run_s), NULL, (int)(c->run_s * BINS_OF_1_S) + 1};
	p.bin = calloc((size_t)p.nbins, sizeof *p.bin);
	if (!p.bin)
		return fail(E_NOMEM, "no memory for %d tenths of a second", p.nbins);
	for (int i = 0; i < c->boards; i++) {
		struct rng r;
		rng_seed(&r, c->seed * 1000003 + (uint64_t)i);
		run_board(&p, &r);
	}
	double at_s;
	out->one = peak(&p, BINS_OF_1_S, &out->one_at_s);
	out->ten = peak(&p, BINS_OF_10_S, &at_s);
	out->mean_late = mean_late(&p);
	free(p.bin);
	return E_OK;
}
