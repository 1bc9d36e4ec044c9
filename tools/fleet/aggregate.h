/* SPDX-License-Identifier: Apache-2.0 */
/* Computes which records a fleet's boards agree on. It is a pure function that takes n log n steps. In: for
 * one class, the words of the boards (a word is what one board says of one candidate) and the records that
 * the channels have. Out: the record that each channel gets, and a score for each board.
 *
 * A board counts once for a candidate, with its latest word. k boards agree on a candidate when the times of
 * k boards lie within the tolerance of the median of all times, and these are at least half of the boards
 * that say a time. The candidate is stopped if more than one board for each FAILED_SHARE boards that agree
 * says that it does not work. So one liar does not move a median far, k - 1 boards cannot promote a record,
 * and one board cannot stop a candidate that many know to work. Choices (which kernels are fused) have no
 * time: k boards agree on choices when these are the latest word of each of them for that key.
 *
 * Channels: early and all get the candidate with the lowest median (for choices: with the most boards) among
 * those that quorum[channel] boards agree on and that were stage_s on the channel before, or on this channel
 * already. Canary has no channel before it. It tries the candidates that would be better than the one of
 * early: first those that quorum[early] boards agree on already, then the one that canary has, then new ones.
 * Each is tried for stage_s (CANARY_S if stages take no time), so a board cannot keep others from being tried
 * by claiming to be faster. Among new ones, the first are those of boards whose words were right in at least
 * STRIKE_SCORE of the comparisons, then those of boards that are not known yet, then the others. A channel
 * keeps what it has until another candidate is better by more than GAIN, and keeps the published time while
 * the median stays within STEADY of it.
 *
 * A board's score is the share of its words that lie within the tolerance of the median of the others. A word
 * is compared if at least quorum[all] others (2 at least) agree, or if as many say that the candidate does
 * not work. A board with a score below STRIKE_SCORE after STRIKE_WORDS or more compared words is struck out:
 * its words no longer count. k - 1 boards cannot strike one out. */
#ifndef TOOLS_AGGREGATE_H
#define TOOLS_AGGREGATE_H

#include "agent/sync/snapshot.h"
#include "agent/cache/cache.h"

#define STRIKE_SCORE 0.5
#define STEADY 0.05
#define GAIN 0.02 /* with 0.05, fleets stop improving at 0.95 of the best */
enum { STRIKE_WORDS = 16, FAILED_SHARE = 4, CANARY_S = 24 * 3600 };

struct word {                 /* what one board says of one candidate */
	int board;            /* 0 <= board < nboards */
	enum cache_type type; /* CACHE_REC or CACHE_CHOICES; other types are ignored */
	bool failed;          /* the candidate did not work there (wrong, crash) */
	struct key key;       /* the record's */
	struct key cand;      /* revoked_hash; choices: hash of the text */
	int64_t median_ns;    /* choices: 0; any value is safe */
};

struct held { /* a record that a channel has or had */
	struct key key, cand;
	enum cache_type type;
	enum channel channel;
	bool now;
	int64_t since_s;   /* when it first came to the channel */
	int64_t median_ns; /* as published; only where `now` */
};

struct agreed {
	struct key key, cand;
	enum cache_type type;
	enum channel channel;
	int boards, failed; /* boards that agree; boards that say it does not work */
	int64_t median_ns, mad_ns;
	int64_t low_ns, high_ns; /* range of the times that agree */
	int from;                /* index of a word: of the agreeing board that is nearest to the median */
	int held; /* index in in->held of a record that the channel keeps unchanged; -1: write a new one */
};

struct cand_score {
	int words, good; /* words that could be compared; those of them that were right */
	double score;    /* good / words; 1 if no word could be compared */
	bool struck;
};

struct aggregate_rules {
	int quorum[CHANNELS];
	double tolerance; /* share of the median: .15 */
	int64_t stage_s;  /* time on a channel before the next one; 0: none */
	int64_t now_s;
};

struct aggregate_in {
	const struct word *word; /* older words of a board come first */
	int nword, nboard;
	const bool *revoked;      /* per board: its words do not count; NULL: none is revoked */
	const struct key *record; /* revoked candidates */
	int nrecord;
	const struct held *held;
	int nheld;
	struct aggregate_rules rules;
};

/* out: in the arena, sorted by key, type and channel; one entry for each channel that gets a record. score
 * has nboard elements. Returns the number of entries; E_NOMEM. */
int aggregate(const struct aggregate_in *in, struct arena *a, struct agreed **out,
	      struct cand_score *score) MUST_CHECK;

#endif
