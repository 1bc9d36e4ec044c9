/* SPDX-License-Identifier: Apache-2.0 */
/* The part that strategies share: the fastest measured candidates, to breed from; a pool of distinct
 * candidates that nobody has proposed yet, with the model's guess for each; and the set of known candidates.
 *
 * Memory, all in the task's arena: some 100 bytes and the features for each member (HERD_TOLD from the first
 * measurement on, the pool's from the first draw on), and 24 bytes for each proposal. Time: drawing and
 * guessing a candidate takes 10 to 20 us on a fast core, building it 10 ms; 0.1 ms for blocks of several
 * stages (50 ms and more to build), 0.3 ms for attention. So HERD_ROUND proposals may draw some 100. */
#ifndef SEARCH_HERD_H
#define SEARCH_HERD_H

#include "platform/base/meas.h"
#include "search/guide.h"
#include "search/keys.h"
#include <stdbool.h>

enum {
	HERD_TOLD = 32,    /* measured candidates kept */
	HERD_ROUND = 8,    /* proposals between two updates of the guesses: about a slice of the box */
	HERD_TIRED = 128,  /* after so many draws in a row without a new candidate, nothing is left */
	HERD_OTHERS = 4096 /* in a divided search: draws from other boards' parts that one fill may discard */
};

struct member {
	char *cand;
	uint64_t key, unit; /* hash of the text; of its structure, which is what gets compiled */
	struct guess guess;
	double log_ns; /* measured, or else guessed */
	int room;      /* bytes of cand */
	float f[FEATURES];
};

struct herd {
	const struct guide *guide;
	struct arena *arena;
	struct rng rng;
	struct member *told; /* measured, fastest first */
	struct member *pool; /* in no order */
	struct member spare; /* the member being drawn, before it goes into the pool */
	int ntold, npool, cap;
	struct keys known;          /* proposed or measured */
	struct keys built, failed;  /* units */
	uint64_t round[HERD_ROUND]; /* units proposed since herd_round() */
	int nround;
};

/* cap: largest size of the pool. The arena and the guide outlive the herd. */
void herd_open(struct herd *h, struct arena *a, const struct guide *g, uint64_t seed, int cap);
/* Keeps a measurement. A candidate that failed is not proposed again, nor is its structure if it was never
 * built. */
void herd_tell(struct herd *h, const char *cand, const struct meas *m);
bool herd_knows(const struct herd *h, const char *cand);

bool herd_timed(const struct meas *m); /* it has a time, so it may have offspring */

/* Fills in a member (its text grows in the arena); makes the model's guess again; copies a member. */
void member_set(struct herd *h, struct member *m, const char *cand);
void member_think(const struct herd *h, struct member *m); /* sets log_ns to the new guess */
void member_copy(struct herd *h, struct member *to, const struct member *from);

/* Puts a member into the pool, unless it is known, in the pool already, of a structure that failed, or of
 * another board's part. A full pool drops the member predicted slowest. */
bool herd_add(struct herd *h, const struct member *m);
/* Adds candidates from `breed`, until `want` new ones were added or HERD_TIRED in a row were not. Candidates
 * of another board's part are discarded before they are guessed (a few us each), at most HERD_OTHERS of them.
 * Returns the size of the pool. */
int herd_fill(struct herd *h, int want, int (*breed)(void *ctx, char cand[CAND_MAX]), void *ctx);
/* Draws one of the measured candidates, faster ones more likely (the better of two draws); NULL: none is
 * measured yet. */
const struct member *herd_parent(struct herd *h);
/* A mutation or a crossing of parents, or a random candidate (with probability `fresh`, and while there are
 * no parents). */
int herd_breed(struct herd *h, double fresh, char cand[CAND_MAX]);

/* Begins a round: the pool has the model's guesses again, which a strategy may have corrected. */
void herd_round(struct herd *h);
bool herd_in_round(const struct herd *h, uint64_t unit); /* proposed in it */
/* Index of the pool's member predicted fastest, preferring structures not yet proposed in this round; with
 * probability `blind` any member. -1: the pool is empty. */
int herd_best(struct herd *h, double blind);
/* Proposes the pool's i-th member and removes it from the pool. i < 0: E_NOTFOUND. */
int herd_propose(struct herd *h, int i, char cand[CAND_MAX]) MUST_CHECK;

#endif
