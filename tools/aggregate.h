/* SPDX-License-Identifier: Apache-2.0 */
/* What a fleet's boards agree on: pure. In: for one class, what each board says of each candidate. Out: which
 * record each channel gets, and what each contributor's word is worth.
 *
 * A candidate is agreed on by k boards when at least k distinct boards, none revoked nor struck out, say
 * times whose distance from their median is at most the tolerance; a board counts once, with its latest word.
 * Among those that are agreed on, the one with the lowest median wins; its published time is that median, its
 * spread the MAD of the boards. A board's score: share of its words that lie within the tolerance of what the
 * others agreed on, where at least two others did; below STRIKE_SCORE with STRIKE_WORDS words or more it is
 * struck out, and its words no longer count. So one liar cannot move a median, and k - 1 cannot promote a
 * record. Choices (which kernels are fused) are agreed on when k boards say the same text. */
#ifndef TOOLS_AGGREGATE_H
#define TOOLS_AGGREGATE_H

#include "agent/batch.h"

#define STRIKE_SCORE 0.5
enum { STRIKE_WORDS = 16 };

struct word {            /* what a board says */
	int board;       /* 0 <= board < nboards */
	struct key key;  /* of the record */
	struct key cand; /* revoked_hash; of choices: hash of the text */
	enum cache_type type;
	int64_t median_ns; /* of choices 0 */
	bool failed;       /* it did not work there (wrong, crash) */
	int64_t since_s;   /* first seen */
	const char *line;  /* as exchanged */
};

struct agreed {
	struct key key, cand;
	enum cache_type type;
	enum channel upto; /* the widest channel that has it: of all, early, canary */
	int boards;        /* that agree */
	int64_t median_ns, mad_ns;
	const char *line; /* of the board nearest to the median */
};

struct score {
	int words, good;
	double score; /* 1 where nothing could be compared */
	bool struck;
};

struct aggregate_rules {
	int quorum[CHANNELS];
	double tolerance; /* .15 */
	int64_t stage_s;  /* that long on a channel before the next */
	int64_t now_s;
};

/* revoked[nboards], nrecord: no word of theirs counts, nor of them. out: in the arena, one for each (key,
 * channel) that has one, by key. score[nboards]. Returns the number of agreed. */
int aggregate(const struct word *w, int n, int nboards, const bool *revoked, const struct key *record,
	      int nrecord, const struct aggregate_rules *rules, struct arena *a, struct agreed **out,
	      struct score *score) MUST_CHECK;

#endif
