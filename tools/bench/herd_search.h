/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet of one class that searches: boards that replay recorded measurements (agent/worker/replay.h) in one
 * box for each boot, each with noise of its own, and a server that aggregates between boots
 * (tools/fleet/aggregate.h).
 *
 * A boot: a board tunes all tasks of the network from its incumbents, with what it tried in earlier boots,
 * and with what its channel has as the first seed of a task, unless it tried that. Then it says the best of
 * each task and what came of those seeds. After a boot of all a day has passed and the server aggregates.
 * Canary is one board in ten by number, all of them below CANARY_FLEET; early and all by hash of the id, as
 * boards decide it. A liar is a board that says of a candidate it drew, another one each boot, that it takes
 * half the time of the best there is; what it gets counts for nobody.
 *
 * Boards run in threads; the result is a function of the description alone. */
#ifndef TOOLS_HERD_SEARCH_H
#define TOOLS_HERD_SEARCH_H

#include "agent/worker/landscape.h"
#include "agent/sync/snapshot.h"

enum { HERD_BOOTS = 64, CANARY_FLEET = 20 };

enum herd_mode {
	HERD_ALONE,   /* nobody hears of anybody */
	HERD_SHARED,  /* results are shared, the search is not divided */
	HERD_DIVIDED, /* both */
	HERD_MODES
};

struct herd_search {
	const struct landscape *land; /* of one machine */
	int nland;
	const int *uses; /* of each task in the network */
	int boards, liars, boots;
	enum herd_mode mode;
	int parts; /* where it is divided */
	int quorum[CHANNELS];
	int64_t stage_s;
	int64_t box_ns;
	double sigma; /* of a run's noise */
	uint64_t seed;
	int threads;
	double enough; /* ends once half of the boards reach that; 0: not */
};

/* After a boot: over the honest boards, the network's time with the best recorded over that with a board's
 * own incumbents, both as recorded. */
struct herd_boot {
	double median, tenth; /* nine of ten boards are better than the latter */
	double reached;       /* share of boards at `enough`, 0.98 where that is 0 */
	int trials;           /* of a board, mean */
	int struck;
};

/* out: [boots]. Returns the number of boots. */
int herd_search(const struct herd_search *c, struct herd_boot *out) MUST_CHECK;

#endif
