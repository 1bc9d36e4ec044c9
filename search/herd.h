/* SPDX-License-Identifier: Apache-2.0 */
/* What strategies have in common: the fastest measured candidates, to breed from; a pool of candidates that
 * nobody has proposed yet, all different, with what the model thinks of each; and what is known already.
 *
 * Memory, all in the task's arena: some 100 bytes and the features for each member (HERD_TOLD from the first
 * measurement on, the pool's from the first draw on), and 24 bytes for each proposal. Time: a candidate drawn
 * and guessed takes 10 to 20 us on a fast core, where it takes 10 ms to build; 0.1 ms for blocks of several
 * stages (50 ms and more to build), 0.3 ms for attention. So HERD_ROUND proposals may draw some 100. */
#ifndef SEARCH_HERD_H
#define SEARCH_HERD_H

#include "platform/base/meas.h"
#include "search/guide.h"
#include "search/keys.h"
#include <stdbool.h>

enum {
	HERD_TOLD = 32,    /* measured candidates kept */
	HERD_ROUND = 8,    /* proposals between two looks at the model: about a slice of the box */
	HERD_TIRED = 128,  /* draws in a row that bring nothing new: nothing is left */
	HERD_OTHERS = 4096 /* draws of a divided search that may be of others' parts, for one fill */
};

struct member {
	char *cand;
	uint64_t key, unit; /* of the text; of its structure, which is what gets compiled */
	struct guess guess;
	double log_ns; /* measured, or as guessed */
	int room;      /* bytes of cand */
	float f[FEATURES];
};

struct herd {
	const struct guide *guide;
	struct arena *arena;
	struct rng rng;
	struct member *told; /* measured, fastest first */
	struct member *pool; /* in no order */
	struct member spare; /* drawn, on its way into the pool */
	int ntold, npool, cap;
	struct keys known;          /* proposed or measured */
	struct keys built, failed;  /* units */
	uint64_t round[HERD_ROUND]; /* units proposed since herd_round() */
	int nround;
};

/* cap: of the pool. The arena and the guide outlive the herd. */
void herd_open(struct herd *h, struct arena *a, const struct guide *g, uint64_t seed, int cap);
/* Keeps a measurement. A failure is known from then on, and so is its structure. */
void herd_tell(struct herd *h, const char *cand, const struct meas *m);
bool herd_knows(const struct herd *h, const char *cand);

bool herd_timed(const struct meas *m); /* it has a time, so it may have offspring */

/* Fills in a member (its text grows in the arena); asks the model again; copies one. */
void member_set(struct herd *h, struct member *m, const char *cand);
void member_think(const struct herd *h, struct member *m); /* log_ns is its guess */
void member_copy(struct herd *h, struct member *to, const struct member *from);

/* Into the pool, unless it is known, there already, or of a structure that failed or is another board's. A
 * full pool lets go of the one thought slowest. */
bool herd_add(struct herd *h, const struct member *m);
/* Candidates from `breed`, until `want` new ones were added or HERD_TIRED in a row were not. What is another
 * board's is thrown away unseen (a few us each), at most HERD_OTHERS of them. The pool's number. */
int herd_fill(struct herd *h, int want, int (*breed)(void *ctx, char cand[CAND_MAX]), void *ctx);
/* One of the measured, the faster the likelier (the better of two draws); NULL: none yet. */
const struct member *herd_parent(struct herd *h);
/* A mutation or a crossing of parents, or (the share `fresh`, and while there are no parents) a random one.
 */
int herd_breed(struct herd *h, double fresh, char cand[CAND_MAX]);

/* A round begins: every guess is made again, since the model may have learnt. */
void herd_round(struct herd *h);
bool herd_in_round(const struct herd *h, uint64_t unit); /* proposed in it */
/* The pool's member thought fastest, one of each structure first; the share `blind` of the calls any. -1:
 * empty. */
int herd_best(struct herd *h, double blind);
/* Proposes the pool's i-th: it leaves the pool. i < 0: E_NOTFOUND. */
int herd_take(struct herd *h, int i, char cand[CAND_MAX]) MUST_CHECK;

#endif
