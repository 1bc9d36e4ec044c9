/* SPDX-License-Identifier: Apache-2.0 */
/* A strategy proposes candidates of a task. To add one, add a file strategy_NAME.c that defines
 * `const struct strategy strategy_NAME`, with all four members set; the Makefile writes strategy_table[].
 * Then it is `hone tune --strategy NAME`. What must hold:
 * - It knows only the guide: the space (candidates are text) and the predictions of the cost model; it knows
 *   no device and no operator.
 * - Every proposal is legal in the space, and the same seed and measurements give the same proposals.
 * - While guide.portion is set, it proposes only structures of that portion.
 * - State lives in the arena given to start(), which the strategy may go on using; the guide outlives it.
 * tests/search/test_strategy.c checks every strategy of the table.
 *
 * search/tune.c calls ask() for the next candidate (E_NOTFOUND: nothing is left to propose) and tell() with
 * its measurement. The caller skips candidates that this task has already measured. */
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
