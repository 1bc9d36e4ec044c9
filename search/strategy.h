/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies propose candidates; they know no device and no operator, only the space's text and a model's
 * guesses. One file strategy_NAME.c defines `const struct strategy strategy_NAME`; the Makefile writes
 * strategy_table[].
 *
 * search/tune.c calls ask() for the next candidate (E_NOTFOUND: nothing left to propose) and tell() with its
 * measurement. The caller filters out candidates that this task has already measured. State lives in the
 * arena given to start(), which the strategy may go on using; the guide outlives it. */
#ifndef SEARCH_STRATEGY_H
#define SEARCH_STRATEGY_H

#include "platform/base/meas.h"
#include "search/guide.h"

struct strategy {
	const char *name;
	int (*start)(struct arena *a, const struct guide *g, uint64_t seed, void **state);
	int (*ask)(void *state, char cand[CAND_MAX]);
	void (*tell)(void *state, const char *cand, const struct meas *m);
};

#define STRATEGY_DEFAULT "auto" /* has the least regret: make bench-strategies */

extern const struct strategy *const strategy_table[];
const struct strategy *strategy_find(const char *name); /* NULL: unknown */

#endif
