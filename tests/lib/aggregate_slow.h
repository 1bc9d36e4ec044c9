/* SPDX-License-Identifier: Apache-2.0 */
/* A slow, literal implementation of tools/fleet/aggregate.h, with which tests compare the fast one. */
#ifndef TESTS_AGGREGATE_SLOW_H
#define TESTS_AGGREGATE_SLOW_H

#include "tools/fleet/aggregate.h"
#include <stdlib.h>
#include <string.h>

/* One candidate and the words about it that count (slow_counts). */
struct slow_cand {
	const struct word *w[512];
	int n;
};

static bool slow_alike(const struct word *x, const struct word *y)
{
	return x->type == y->type && key_equal(x->key, y->key) && key_equal(x->cand, y->cand);
}

static bool slow_counts(const struct aggregate_in *in, int i)
{
	const struct word *w = &in->word[i];
	if (w->board < 0 || w->board >= in->nboard || (in->revoked && in->revoked[w->board]) ||
	    (w->type != CACHE_REC && w->type != CACHE_CHOICES))
		return false;
	for (int r = 0; r < in->nrecord; r++)
		if (key_equal(in->record[r], w->cand))
			return false;
	for (int j = i + 1; j < in->nword; j++) {
		const struct word *x = &in->word[j];
		bool there = true; /* a later word about a revoked candidate replaces none */
		for (int r = 0; r < in->nrecord; r++)
			there &= !key_equal(in->record[r], x->cand);
		if (there && x->board == w->board && x->type == w->type && key_equal(x->key, w->key) &&
		    (w->type == CACHE_CHOICES || key_equal(x->cand, w->cand)))
			return false;
	}
	return true;
}

static int64_t slow_ns(const struct word *w)
{
	int64_t most = (int64_t)1 << 53, t = w->median_ns;
	return w->type == CACHE_CHOICES ? 1 : t < 0 ? 0 : t > most ? most : t;
}

static int64_t slow_median(const int64_t *t, int n)
{
	int64_t s[512];
	memcpy(s, t, (size_t)n * sizeof *t);
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && s[j] < s[j - 1]; j--) {
			int64_t x = s[j];
			s[j] = s[j - 1];
			s[j - 1] = x;
		}
	return n == 0 ? 0 : n % 2 ? s[n / 2] : s[n / 2 - 1] + (s[n / 2] - s[n / 2 - 1]) / 2;
}

static bool slow_near(const struct aggregate_in *in, int64_t t, int64_t median)
{
	int64_t off = t > median ? t - median : median - t;
	return median > 0 && off <= (int64_t)(in->rules.tolerance * (double)median);
}

/* Sums up the words of all boards but one (-1: of all) about a candidate. */
struct slow_sum {
	int times, agree, failed;
	int64_t median, mad;
};

static struct slow_sum slow_sum_of(const struct aggregate_in *in, const struct slow_cand *c, int but,
				   const struct cand_score *score)
{
	struct slow_sum s = {0};
	int64_t t[512] = {0}, off[512] = {0};
	for (int i = 0; i < c->n; i++) {
		if (c->w[i]->board == but || score[c->w[i]->board].struck)
			continue;
		if (c->w[i]->failed)
			s.failed++;
		else
			t[s.times++] = slow_ns(c->w[i]);
	}
	s.median = slow_median(t, s.times);
	for (int i = 0; i < s.times; i++) {
		s.agree += slow_near(in, t[i], s.median);
		off[i] = t[i] > s.median ? t[i] - s.median : s.median - t[i];
	}
	s.mad = slow_median(off, s.times);
	return s;
}

static void slow_judge(const struct aggregate_in *in, const struct slow_cand *c,
		       const struct cand_score *before, struct cand_score *score)
{
	int quorum = in->rules.quorum[CHANNEL_ALL] > 2 ? in->rules.quorum[CHANNEL_ALL] : 2;
	for (int i = 0; c->w[0]->type == CACHE_REC && i < c->n; i++) {
		const struct word *w = c->w[i];
		struct slow_sum o = slow_sum_of(in, c, w->board, before);
		bool works =
		    o.agree >= quorum && 2 * o.agree >= o.times && o.failed * FAILED_SHARE <= o.agree;
		bool fails = o.failed >= quorum && o.failed > o.times;
		score[w->board].words += works || fails;
		score[w->board].good +=
		    fails ? w->failed : works && !w->failed && slow_near(in, slow_ns(w), o.median);
	}
}

static void slow_scores(const struct aggregate_in *in, const struct slow_cand *c, int n,
			struct cand_score *score)
{
	for (int b = 0; b < in->nboard; b++)
		score[b] = (struct cand_score){.score = 1};
	for (bool again = true; again;) {
		struct cand_score before[512];
		memcpy(before, score, (size_t)in->nboard * sizeof *score);
		again = false;
		for (int b = 0; b < in->nboard; b++)
			score[b].words = score[b].good = 0;
		for (int i = 0; i < n; i++)
			slow_judge(in, &c[i], before, score);
		for (int b = 0; b < in->nboard; b++) {
			score[b].score = score[b].words ? (double)score[b].good / score[b].words : 1;
			if (!score[b].struck && score[b].words >= STRIKE_WORDS &&
			    score[b].score < STRIKE_SCORE)
				score[b].struck = again = true;
		}
	}
}

static const struct held *slow_held(const struct aggregate_in *in, const struct slow_cand *c, int channel)
{
	const struct held *found = NULL;
	for (int i = 0; i < in->nheld; i++) {
		const struct held *h = &in->held[i];
		if ((int)h->channel == channel && h->type == c->w[0]->type &&
		    key_equal(h->key, c->w[0]->key) && key_equal(h->cand, c->w[0]->cand))
			found = h;
	}
	return found;
}

static bool slow_agreed(const struct aggregate_in *in, const struct slow_cand *c, int channel,
			const struct cand_score *score)
{
	struct slow_sum s = slow_sum_of(in, c, -1, score);
	int quorum = in->rules.quorum[channel] > 1 ? in->rules.quorum[channel] : 1;
	return s.agree >= quorum && 2 * s.agree >= s.times && s.failed * FAILED_SHARE <= s.agree;
}

static bool slow_stayed(const struct aggregate_in *in, const struct slow_cand *c, int channel, int64_t for_s)
{
	const struct held *h = slow_held(in, c, channel);
	return h && in->rules.now_s - h->since_s >= for_s;
}

static bool slow_fit(const struct aggregate_in *in, const struct slow_cand *c, int channel,
		     const struct cand_score *score)
{
	return slow_agreed(in, c, channel, score) && (in->rules.stage_s == 0 || slow_held(in, c, channel) ||
						      slow_stayed(in, c, channel - 1, in->rules.stage_s));
}

/* Returns whether x beats y: it is faster by more than the share `by`, or more boards agree on these
 * choices. */
static bool slow_beats(const struct aggregate_in *in, const struct slow_cand *x, const struct slow_cand *y,
		       double by, const struct cand_score *score)
{
	struct slow_sum a = slow_sum_of(in, x, -1, score), b = slow_sum_of(in, y, -1, score);
	return x->w[0]->type == CACHE_CHOICES ? a.agree > b.agree
					      : (double)a.median < (1 - by) * (double)b.median;
}

/* The best marked candidate; the one that is published now stays unless another one beats it by GAIN. */
static const struct slow_cand *slow_best(const struct aggregate_in *in, const struct slow_cand *const *c,
					 const bool *mark, int n, int channel, const struct cand_score *score)
{
	const struct slow_cand *best = NULL;
	for (int i = 0; i < n; i++) {
		const struct held *h = slow_held(in, c[i], channel);
		if (mark[i] && !(h && h->now) && (!best || slow_beats(in, c[i], best, 0, score)))
			best = c[i];
	}
	for (int i = 0; i < n; i++) {
		const struct held *h = slow_held(in, c[i], channel);
		if (mark[i] && h && h->now && (!best || !slow_beats(in, best, c[i], GAIN, score)))
			best = c[i];
	}
	return best;
}

static int slow_repute(const struct slow_cand *c, const struct cand_score *score)
{
	bool right = false, unknown = false;
	for (int i = 0; i < c->n; i++) {
		const struct cand_score *s = &score[c->w[i]->board];
		if (c->w[i]->failed || s->struck)
			continue;
		right |= s->words > 0 && s->score >= STRIKE_SCORE;
		unknown |= s->words == 0;
	}
	return right ? 0 : unknown ? 1 : 2;
}

/* Unmarks all but the candidates with the best repute. */
static void slow_reputed(const struct slow_cand *const *c, bool *mark, int n, const struct cand_score *score)
{
	int least = 2;
	for (int i = 0; i < n; i++)
		if (mark[i] && slow_repute(c[i], score) < least)
			least = slow_repute(c[i], score);
	for (int i = 0; i < n; i++)
		mark[i] &= slow_repute(c[i], score) == least;
}

static const struct slow_cand *slow_canary(const struct aggregate_in *in, const struct slow_cand *const *c,
					   int n, const struct slow_cand *early,
					   const struct cand_score *score)
{
	int64_t stage_s = in->rules.stage_s ? in->rules.stage_s : CANARY_S;
	for (int turn = 0; turn < 5; turn++) {
		bool mark[512] = {0};
		for (int i = 0; i < n; i++) {
			const struct held *h = slow_held(in, c[i], CHANNEL_CANARY);
			bool agreed = slow_agreed(in, c[i], CHANNEL_EARLY, score) &&
				      !slow_fit(in, c[i], CHANNEL_EARLY, score);
			bool done = slow_stayed(in, c[i], CHANNEL_CANARY, stage_s);
			bool worth = slow_agreed(in, c[i], CHANNEL_CANARY, score) && c[i] != early &&
				     (!early || slow_beats(in, c[i], early, GAIN, score));
			mark[i] = turn == 0   ? worth && agreed
				  : turn == 1 ? worth && !done && h && h->now
				  : turn == 2 ? worth && !done
				  : turn == 3 ? c[i] == early && slow_agreed(in, c[i], CHANNEL_CANARY, score)
					      : worth && !early;
		}
		if (turn == 2)
			slow_reputed(c, mark, n, score);
		const struct slow_cand *best = slow_best(in, c, mark, n, CHANNEL_CANARY, score);
		if (best)
			return best;
	}
	return NULL;
}

static void slow_give(const struct aggregate_in *in, const struct slow_cand *c, int channel,
		      const struct cand_score *score, struct agreed *out)
{
	struct slow_sum s = slow_sum_of(in, c, -1, score);
	const struct held *h = slow_held(in, c, channel);
	bool timed = c->w[0]->type == CACHE_REC;
	int64_t nearest = INT64_MAX;
	int64_t room = (int64_t)(in->rules.tolerance * (double)s.median);
	*out = (struct agreed){.key = c->w[0]->key,
			       .cand = c->w[0]->cand,
			       .type = c->w[0]->type,
			       .channel = channel,
			       .boards = s.agree,
			       .failed = s.failed,
			       .median_ns = timed ? s.median : 0,
			       .mad_ns = timed ? s.mad : 0,
			       .low_ns = timed ? s.median - room : 0,
			       .high_ns = timed ? s.median + room : 0,
			       .from = -1,
			       .held = -1};
	for (int i = 0; i < c->n; i++) {
		int64_t t = slow_ns(c->w[i]), off = t > s.median ? t - s.median : s.median - t;
		const struct word *was = out->from >= 0 ? &in->word[out->from] : NULL;
		bool before = was && (t < slow_ns(was) || (t == slow_ns(was) && c->w[i]->board < was->board));
		if (c->w[i]->failed || score[c->w[i]->board].struck || off > nearest ||
		    (off == nearest && !before))
			continue;
		nearest = off;
		out->from = (int)(c->w[i] - in->word);
	}
	int64_t off = h ? s.median - h->median_ns : 0;
	if (h && h->now && (!timed || (double)(off < 0 ? -off : off) <= STEADY * (double)h->median_ns)) {
		out->held = (int)(h - in->held);
		out->median_ns = timed ? h->median_ns : 0;
	}
}

static int slow_order(const void *a, const void *b)
{
	const struct slow_cand *const *x = a, *const *y = b;
	const struct key *k = &(*x)->w[0]->cand, *l = &(*y)->w[0]->cand;
	return k->hi != l->hi ? (k->hi > l->hi ? 1 : -1) : (k->lo > l->lo) - (k->lo < l->lo);
}

static int slow_give_order(const void *a, const void *b)
{
	const struct agreed *x = a, *y = b;
	if (x->key.hi != y->key.hi)
		return x->key.hi > y->key.hi ? 1 : -1;
	if (x->key.lo != y->key.lo)
		return x->key.lo > y->key.lo ? 1 : -1;
	return x->type != y->type ? (int)x->type - (int)y->type : (int)x->channel - (int)y->channel;
}

/* `out` needs room for in->nword entries for each channel. */
static int aggregate_slow(const struct aggregate_in *in, struct agreed *out, struct cand_score *score)
{
	struct slow_cand *c = calloc((size_t)in->nword + 1, sizeof *c);
	int n = 0, made = 0;
	for (int i = 0; i < in->nword; i++) {
		int at = 0;
		if (!slow_counts(in, i))
			continue;
		while (at < n && !slow_alike(c[at].w[0], &in->word[i]))
			at++;
		n += at == n;
		c[at].w[c[at].n++] = &in->word[i];
	}
	slow_scores(in, c, n, score);
	for (int i = 0; i < n; i++) {
		const struct slow_cand *same[512], *on[CHANNELS];
		int nsame = 0;
		bool first = true;
		for (int j = 0; j < n; j++) {
			if (c[j].w[0]->type != c[i].w[0]->type || !key_equal(c[j].w[0]->key, c[i].w[0]->key))
				continue;
			first &= j >= i;
			same[nsame++] = &c[j];
		}
		if (!first)
			continue;
		qsort(same, (size_t)nsame, sizeof *same, slow_order);
		for (int channel = CHANNEL_EARLY; channel < CHANNELS; channel++) {
			bool mark[512];
			for (int j = 0; j < nsame; j++)
				mark[j] = slow_fit(in, same[j], channel, score);
			on[channel] = slow_best(in, same, mark, nsame, channel, score);
		}
		on[CHANNEL_CANARY] = slow_canary(in, same, nsame, on[CHANNEL_EARLY], score);
		for (int channel = 0; channel < CHANNELS; channel++)
			if (on[channel])
				slow_give(in, on[channel], channel, score, &out[made++]);
	}
	free(c);
	qsort(out, (size_t)made, sizeof *out, slow_give_order);
	return made;
}

#endif
