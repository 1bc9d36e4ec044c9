/* SPDX-License-Identifier: Apache-2.0 */
/* What a fleet's boards agree on: pure, n log n. In: for one class, what each board says of each candidate,
 * and what the channels have. Out: which record each channel gets, and what each contributor's word is worth.
 *
 * A board counts once for a candidate, with its latest word. k boards agree on a candidate when k of those
 * that say a time lie within the tolerance of the median of them all, and at least half of them do; it is
 * stopped where more than one board for each FAILED_SHARE of those says that it does not work. So one liar
 * does not move a median far, k - 1 cannot promote a record, and one cannot stop what many know to work.
 * Choices (which kernels are fused) have no time: k boards agree on one when it is the latest of each of them
 * for that key.
 *
 * Channels: the lowest median (of choices: the most boards) of the candidates that quorum[channel] agree on
 * and that were stage_s on the channel before it. Canary has no channel before it: what would be better than
 * early's is tried there: first what quorum[early] agree on already, then what is there, then what was not
 * there yet, each for stage_s (CANARY_S, where stages take no time), so that nobody keeps others from being
 * tried by claiming to be faster; of that, what boards say whose words were found right in at least
 * STRIKE_SCORE of what could be compared comes before what is said by those not known yet, and that before
 * the others'.
 * What a channel has stays while nothing is better by more than GAIN, with its published time while that is
 * true within STEADY.
 *
 * A board's score: the share of its words that lie within the tolerance of the median of the others, where
 * quorum[all] others (2 at least) agree, or so many say that it does not work; below STRIKE_SCORE with
 * STRIKE_WORDS such words or more it is struck out: its words count no longer. k - 1 boards cannot strike one
 * out. */
#ifndef TOOLS_AGGREGATE_H
#define TOOLS_AGGREGATE_H

#include "agent/sync/snapshot.h"
#include "agent/cache/cache.h"

#define STRIKE_SCORE 0.5
#define STEADY 0.05
#define GAIN 0.02 /* with 0.05, fleets come to a stand at 0.95 of the best */
enum { STRIKE_WORDS = 16, FAILED_SHARE = 4, CANARY_S = 24 * 3600 };

struct word {                 /* what a board says */
	int board;            /* 0 <= board < nboards */
	enum cache_type type; /* CACHE_REC or CACHE_CHOICES; others say nothing */
	bool failed;          /* it did not work there (wrong, crash) */
	struct key key;       /* of the record */
	struct key cand;      /* revoked_hash; of choices: hash of the text */
	int64_t median_ns;    /* of choices 0. Anything: no time can hurt */
};

struct held { /* on a channel, now or once */
	struct key key, cand;
	enum cache_type type;
	enum channel channel;
	bool now;
	int64_t since_s;   /* first there */
	int64_t median_ns; /* as published, where it is there now */
};

struct agreed {
	struct key key, cand;
	enum cache_type type;
	enum channel channel;
	int boards, failed; /* that agree; that say it does not work */
	int64_t median_ns, mad_ns;
	int64_t low_ns, high_ns; /* the times that agree lie between them */
	int from;                /* index of the word of an agreeing board, the nearest to the median */
	int held; /* index of what the channel has, and what it keeps as it is; -1: it is to be written */
};

struct cand_score {
	int words, good; /* that could be compared */
	double score;    /* 1 where nothing could */
	bool struck;
};

struct aggregate_rules {
	int quorum[CHANNELS];
	double tolerance; /* .15 of the median */
	int64_t stage_s;  /* that long on a channel before the next; 0: at once */
	int64_t now_s;
};

struct aggregate_in {
	const struct word *word; /* older ones of a board first */
	int nword, nboard;
	const bool *revoked;      /* boards: no word of theirs counts; NULL: none */
	const struct key *record; /* candidates that are revoked */
	int nrecord;
	const struct held *held;
	int nheld;
	struct aggregate_rules rules;
};

/* out: in the arena, by key, type and channel, one for each that has one. score[nboard]. Returns the number
 * of agreed; E_NOMEM. */
int aggregate(const struct aggregate_in *in, struct arena *a, struct agreed **out,
	      struct cand_score *score) MUST_CHECK;

#endif
