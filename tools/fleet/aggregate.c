/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/aggregate.h"
#include <stdlib.h>
#include <string.h>

enum { PASSES = 8 /* passes, since a board that is struck out may have made others look bad or good */ };
static const int64_t most_ns = (int64_t)1 << 53;

/* The words about one candidate. */
struct group {
	const struct word **w; /* those with times, sorted by time; then those that say it failed */
	int n, ntime;
	int boards, failed;
	int64_t median_ns, mad_ns;
	bool half;                         /* at least half of the boards with times agree */
	const struct held *held[CHANNELS]; /* NULL: it never was on that channel */
};

struct sums {
	const struct aggregate_in *in;
	double tolerance;
	struct group *g;
	int ngroup;
	int64_t *ns, *off; /* scratch for the times of one group */
	struct cand_score *score;
};

static int key_order(struct key a, struct key b)
{
	if (a.hi != b.hi)
		return a.hi < b.hi ? -1 : 1;
	return (a.lo > b.lo) - (a.lo < b.lo);
}

static int by_key(const void *a, const void *b)
{
	return key_order(*(const struct key *)a, *(const struct key *)b);
}

static int by_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static int64_t ns_of(const struct word *w)
{
	int64_t t = w->median_ns;
	return w->type == CACHE_CHOICES ? 1 : t < 0 ? 0 : t > most_ns ? most_ns : t;
}

static int by_cand(const struct word *x, const struct word *y)
{
	int o = key_order(x->key, y->key);
	o = o ? o : (int)x->type - (int)y->type;
	return o ? o : key_order(x->cand, y->cand);
}

/* Sorts the older words of a board for the same candidate first; for choices, for the same key. */
static int by_board(const void *a, const void *b)
{
	const struct word *x = *(const struct word *const *)a, *y = *(const struct word *const *)b;
	int o = key_order(x->key, y->key);
	o = o ? o : (int)x->type - (int)y->type;
	o = o ? o : x->type == CACHE_CHOICES ? 0 : key_order(x->cand, y->cand);
	o = o ? o : x->board - y->board;
	return o ? o : (x > y) - (x < y);
}

static int by_time(const void *a, const void *b)
{
	const struct word *x = *(const struct word *const *)a, *y = *(const struct word *const *)b;
	int o = by_cand(x, y);
	int64_t m = ns_of(x), n = ns_of(y);
	o = o ? o : (int)x->failed - (int)y->failed;
	o = o ? o : (m > n) - (m < n);
	return o ? o : x->board - y->board;
}

static int by_held(const void *a, const void *b)
{
	const struct held *x = *(const struct held *const *)a, *y = *(const struct held *const *)b;
	int o = key_order(x->key, y->key);
	o = o ? o : (int)x->type - (int)y->type;
	return o ? o : key_order(x->cand, y->cand);
}

static bool counts(const struct aggregate_in *in, const struct word *w, const struct key *record)
{
	return w->board >= 0 && w->board < in->nboard && (!in->revoked || !in->revoked[w->board]) &&
	       (w->type == CACHE_REC || w->type == CACHE_CHOICES) &&
	       !(in->nrecord && bsearch(&w->cand, record, (size_t)in->nrecord, sizeof *record, by_key));
}

static bool same_voice(const struct word *x, const struct word *y)
{
	return x->board == y->board && x->type == y->type && key_equal(x->key, y->key) &&
	       (x->type == CACHE_CHOICES || key_equal(x->cand, y->cand));
}

/* Collects the words that count, the latest of each board, sorted by candidate and time. */
static int sort_words(const struct aggregate_in *in, struct arena *a, const struct word ***out)
{
	struct key *record = arena_try(a, (size_t)in->nrecord + 1, sizeof *record);
	const struct word **w = arena_try(a, (size_t)in->nword + 1, sizeof *w);
	int n = 0, kept = 0;
	if (!record || !w)
		return E_NOMEM;
	if (in->nrecord)
		memcpy(record, in->record, (size_t)in->nrecord * sizeof *record);
	qsort(record, (size_t)in->nrecord, sizeof *record, by_key);
	for (int i = 0; i < in->nword; i++)
		if (counts(in, &in->word[i], record))
			w[n++] = &in->word[i];
	qsort(w, (size_t)n, sizeof *w, by_board);
	for (int i = 0; i < n; i++)
		if (i + 1 == n || !same_voice(w[i], w[i + 1]))
			w[kept++] = w[i];
	qsort(w, (size_t)kept, sizeof *w, by_time);
	*out = w;
	return kept;
}

static int make_groups(struct sums *s, struct arena *a)
{
	const struct word **w;
	int n = sort_words(s->in, a, &w);
	if (n < 0)
		return n;
	s->g = arena_try(a, (size_t)n + 1, sizeof *s->g);
	s->ns = arena_try(a, (size_t)n + 1, sizeof *s->ns);
	s->off = arena_try(a, (size_t)n + 1, sizeof *s->off);
	if (!s->g || !s->ns || !s->off)
		return E_NOMEM;
	for (int i = 0; i < n; i++) {
		if (!i || by_cand(w[i - 1], w[i]))
			s->g[s->ngroup++].w = w + i;
		struct group *g = &s->g[s->ngroup - 1];
		g->n++;
		g->ntime += !w[i]->failed;
	}
	return E_OK;
}

static int find_held(struct sums *s, struct arena *a)
{
	int n = s->in->nheld, at = 0;
	const struct held **h = arena_try(a, (size_t)n + 1, sizeof *h);
	if (!h)
		return E_NOMEM;
	for (int i = 0; i < n; i++)
		h[i] = &s->in->held[i];
	qsort(h, (size_t)n, sizeof *h, by_held);
	for (int i = 0; i < s->ngroup; i++) {
		const struct word *w = s->g[i].w[0];
		struct held own = {.key = w->key, .type = w->type, .cand = w->cand};
		const struct held *want = &own;
		while (at < n && by_held(&h[at], &want) < 0)
			at++;
		for (; at < n && !by_held(&h[at], &want); at++)
			if (h[at]->channel < CHANNELS)
				s->g[i].held[h[at]->channel] = h[at];
	}
	return E_OK;
}

/* Element j of t without t[skip]. */
static int64_t without(const int64_t *t, int skip, int j)
{
	return t[j + (skip >= 0 && j >= skip)];
}

/* Median of the sorted t[n] without t[skip]; skip < 0: of all. */
static int64_t median_of(const int64_t *t, int n, int skip)
{
	n -= skip >= 0;
	if (n <= 0)
		return 0;
	int64_t high = without(t, skip, n / 2), low = without(t, skip, (n - 1) / 2);
	return low + (high - low) / 2;
}

/* Number of elements of the sorted t[n] that are below x. */
static int below(const int64_t *t, int n, int64_t x)
{
	int lo = 0;
	while (lo < n) {
		int mid = lo + (n - lo) / 2;
		if (t[mid] < x)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

static int64_t room_ns(const struct sums *s, int64_t median)
{
	return (int64_t)(s->tolerance * (double)median);
}

static bool near(const struct sums *s, int64_t t, int64_t median)
{
	int64_t room = room_ns(s, median);
	return median > 0 && t >= median - room && t <= median + room;
}

/* Number of elements of the sorted t[n] without t[skip] that are near the median. */
static int agreeing(const struct sums *s, const int64_t *t, int n, int skip, int64_t median)
{
	int64_t room = room_ns(s, median);
	if (median <= 0)
		return 0;
	return below(t, n, median + room + 1) - below(t, n, median - room) -
	       (skip >= 0 && near(s, t[skip], median));
}

/* Writes the times of a group's boards that are not struck out to s->ns, sorted. Returns their number. */
static int live_times(struct sums *s, const struct group *g, int *failed)
{
	int n = 0;
	*failed = 0;
	for (int i = 0; i < g->n; i++) {
		const struct word *w = g->w[i];
		if (s->score[w->board].struck)
			continue;
		if (w->failed)
			++*failed;
		else
			s->ns[n++] = ns_of(w);
	}
	return n;
}

static bool stopped(int boards, int failed)
{
	return (int64_t)failed * FAILED_SHARE > boards;
}

/* Compares a board's word with those of the others: 1: it is right; 0: wrong; -1: the others do not agree.
 * at: the index of its time in ns[n], which has the boards that are not struck out; -1: it is not there. */
static int judge(const struct sums *s, const struct word *w, int n, int at, int failed)
{
	int quorum = s->in->rules.quorum[CHANNEL_ALL] > 2 ? s->in->rules.quorum[CHANNEL_ALL] : 2;
	int64_t median = median_of(s->ns, n, at);
	int agree = agreeing(s, s->ns, n, at, median), others = n - (at >= 0);
	if (failed >= quorum && failed > others)
		return w->failed;
	if (agree < quorum || agree * 2 < others || stopped(agree, failed))
		return -1;
	return !w->failed && near(s, ns_of(w), median);
}

static void score_group(struct sums *s, const struct group *g)
{
	int failed, n = live_times(s, g, &failed), at = 0;
	if (g->w[0]->type != CACHE_REC)
		return;
	for (int i = 0; i < g->n; i++) {
		const struct word *w = g->w[i];
		struct cand_score *c = &s->score[w->board];
		bool in = !c->struck;
		int good = judge(s, w, n, in && !w->failed ? at : -1, failed - (in && w->failed));
		at += in && !w->failed;
		c->words += good >= 0;
		c->good += good > 0;
	}
}

/* Updates all scores. Returns whether a board was struck out. */
static bool strike(struct sums *s)
{
	bool any = false;
	for (int i = 0; i < s->in->nboard; i++) {
		struct cand_score *c = &s->score[i];
		bool was = c->struck;
		c->score = c->words ? (double)c->good / c->words : 1;
		c->struck |= c->words >= STRIKE_WORDS && c->score < STRIKE_SCORE;
		any |= c->struck && !was;
	}
	return any;
}

static void score_all(struct sums *s)
{
	for (int i = 0; i < s->in->nboard; i++)
		s->score[i] = (struct cand_score){.score = 1};
	for (int pass = 0; pass < PASSES; pass++) {
		for (int i = 0; i < s->in->nboard; i++)
			s->score[i].words = s->score[i].good = 0;
		for (int i = 0; i < s->ngroup; i++)
			score_group(s, &s->g[i]);
		if (!strike(s))
			return;
	}
}

static void sum_group(struct sums *s, struct group *g)
{
	int n = live_times(s, g, &g->failed);
	g->median_ns = median_of(s->ns, n, -1);
	g->boards = agreeing(s, s->ns, n, -1, g->median_ns);
	g->half = g->boards * 2 >= n;
	for (int i = 0; i < n; i++)
		s->off[i] = llabs((long long)(s->ns[i] - g->median_ns));
	qsort(s->off, (size_t)n, sizeof *s->off, by_ns);
	g->mad_ns = median_of(s->off, n, -1);
}

static bool agreed_on(const struct sums *s, const struct group *g, enum channel c)
{
	int quorum = s->in->rules.quorum[c];
	return g->boards >= (quorum > 1 ? quorum : 1) && g->half && !stopped(g->boards, g->failed);
}

static bool was_on(const struct sums *s, const struct group *g, enum channel c, int64_t for_s)
{
	return g->held[c] && s->in->rules.now_s - g->held[c]->since_s >= for_s;
}

/* Whether a candidate may be on a channel above canary. */
static bool fit(const struct sums *s, const struct group *g, enum channel c)
{
	return agreed_on(s, g, c) &&
	       (!s->in->rules.stage_s || g->held[c] || was_on(s, g, c - 1, s->in->rules.stage_s));
}

static bool on_now(const struct group *g, enum channel c)
{
	return g->held[c] && g->held[c]->now;
}

/* Whether a is better than b by more than the share `by`, so that it may replace b. */
static bool beats(const struct group *a, const struct group *b, double by)
{
	if (a->w[0]->type == CACHE_CHOICES)
		return a->boards > b->boards;
	return (double)a->median_ns < (1 - by) * (double)b->median_ns;
}

/* Whether a is better than b, or b is NULL. The candidate that the channel has now is replaced only by one
 * that is better by GAIN. */
static bool better(const struct group *a, const struct group *b, enum channel c)
{
	return !b || beats(a, b, on_now(b, c) ? GAIN : 0) || (on_now(a, c) && !beats(b, a, GAIN) && b != a);
}

/* Reasons to have a candidate on canary, the most urgent first. */
enum turn { TURN_AGREED, TURN_STAGE, TURN_NEW, TURN_DONE, TURN_NOT };

static enum turn turn(const struct sums *s, const struct group *g, const struct group *early)
{
	int64_t stage_s = s->in->rules.stage_s ? s->in->rules.stage_s : CANARY_S;
	if (!agreed_on(s, g, CHANNEL_CANARY))
		return TURN_NOT;
	if (g == early || (early && !beats(g, early, GAIN)))
		return g == early ? TURN_DONE : TURN_NOT;
	if (agreed_on(s, g, CHANNEL_EARLY) && !fit(s, g, CHANNEL_EARLY))
		return TURN_AGREED;
	if (!was_on(s, g, CHANNEL_CANARY, stage_s))
		return on_now(g, CHANNEL_CANARY) ? TURN_STAGE : TURN_NEW;
	return early ? TURN_NOT : TURN_DONE;
}

/* g: the n groups of one key. */
static const struct group *best_of(const struct sums *s, const struct group *g, int n, enum channel c)
{
	const struct group *best = NULL;
	for (int i = 0; i < n; i++)
		if (fit(s, &g[i], c) && better(&g[i], best, c))
			best = &g[i];
	return best;
}

/* How reliable the boards are that say a candidate works. 0: some board was right in at least half of its
 * comparisons; 1: some board was not compared yet; 2: all were wrong more often. */
static int repute(const struct sums *s, const struct group *g)
{
	int least = 2;
	for (int i = 0; i < g->ntime; i++) {
		const struct cand_score *c = &s->score[g->w[i]->board];
		int r = c->struck ? 2 : !c->words ? 1 : c->score < STRIKE_SCORE ? 2 : 0;
		least = r < least ? r : least;
	}
	return least;
}

/* Whether canary tries a before b: reliable boards first, then the lowest time. */
static bool sooner(const struct sums *s, const struct group *a, const struct group *b)
{
	int x = repute(s, a), y = b ? repute(s, b) : 3;
	return x != y ? x < y : better(a, b, CHANNEL_CANARY);
}

static const struct group *canary_of(const struct sums *s, const struct group *g, int n,
				     const struct group *early)
{
	const struct group *best = NULL;
	enum turn first = TURN_NOT;
	for (int i = 0; i < n; i++) {
		enum turn t = turn(s, &g[i], early);
		if (t < first ||
		    (t == first && t != TURN_NOT &&
		     (t == TURN_NEW ? sooner(s, &g[i], best) : better(&g[i], best, CHANNEL_CANARY))))
			best = &g[i], first = t;
	}
	return best;
}

static int nearest(const struct sums *s, const struct group *g)
{
	const struct word *best = NULL;
	for (int i = 0; i < g->ntime; i++) {
		const struct word *w = g->w[i];
		if (!s->score[w->board].struck &&
		    (!best || llabs((long long)(ns_of(w) - g->median_ns)) <
				  llabs((long long)(ns_of(best) - g->median_ns))))
			best = w;
	}
	return (int)(best - s->in->word);
}

/* Index of the published record if the channel keeps it, since it is still true; else -1. */
static int kept(const struct sums *s, const struct group *g, enum channel c)
{
	const struct held *h = g->held[c];
	double off = h ? (double)(g->median_ns - h->median_ns) : 0;
	bool keep =
	    h && h->now &&
	    (g->w[0]->type == CACHE_CHOICES || (off < 0 ? -off : off) <= STEADY * (double)h->median_ns);
	return keep ? (int)(h - s->in->held) : -1;
}

static void give(const struct sums *s, const struct group *g, enum channel c, struct agreed *out)
{
	bool timed = g->w[0]->type == CACHE_REC;
	*out = (struct agreed){.key = g->w[0]->key,
			       .cand = g->w[0]->cand,
			       .type = g->w[0]->type,
			       .channel = c,
			       .boards = g->boards,
			       .failed = g->failed,
			       .median_ns = timed ? g->median_ns : 0,
			       .mad_ns = timed ? g->mad_ns : 0,
			       .low_ns = timed ? g->median_ns - room_ns(s, g->median_ns) : 0,
			       .high_ns = timed ? g->median_ns + room_ns(s, g->median_ns) : 0,
			       .from = nearest(s, g),
			       .held = kept(s, g, c)};
	if (out->held >= 0 && timed)
		out->median_ns = g->held[c]->median_ns;
}

/* Gives each channel at most one of a key's groups. */
static int give_key(const struct sums *s, const struct group *g, int n, struct agreed *out)
{
	const struct group *on[CHANNELS] = {0};
	int made = 0;
	for (int c = CHANNEL_EARLY; c < CHANNELS; c++)
		on[c] = best_of(s, g, n, c);
	on[CHANNEL_CANARY] = canary_of(s, g, n, on[CHANNEL_EARLY]);
	for (int c = 0; c < CHANNELS; c++)
		if (on[c])
			give(s, on[c], c, &out[made++]);
	return made;
}

static int give_all(struct sums *s, struct arena *a, struct agreed **out)
{
	int made = 0;
	*out = arena_try(a, (size_t)s->ngroup * CHANNELS + 1, sizeof **out);
	if (!*out)
		return E_NOMEM;
	for (int i = 0, j; i < s->ngroup; i = j) {
		const struct word *w = s->g[i].w[0];
		for (j = i + 1;
		     j < s->ngroup && s->g[j].w[0]->type == w->type && key_equal(s->g[j].w[0]->key, w->key);)
			j++;
		made += give_key(s, &s->g[i], j - i, *out + made);
	}
	return made;
}

int aggregate(const struct aggregate_in *in, struct arena *a, struct agreed **out, struct cand_score *score)
{
	double t = in->rules.tolerance;
	struct sums s = {.in = in, .tolerance = t > 0.9 ? 0.9 : t > 0 ? t : 0, .score = score};
	int rc = make_groups(&s, a);
	if (rc >= 0)
		rc = find_held(&s, a);
	if (rc < 0)
		return rc;
	score_all(&s);
	for (int i = 0; i < s.ngroup; i++)
		sum_group(&s, &s.g[i]);
	return give_all(&s, a, out);
}
