/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates a fleet of one class that searches: boards that replay recorded measurements
 * (agent/worker/replay.h), one box per boot, each with its own noise, and a server that aggregates between
 * boots (tools/fleet/aggregate.h).
 *
 * At a boot, a board tunes all tasks of the network from its incumbents, knows what it tried in earlier
 * boots, and takes its channel's candidate as the first known candidate of a task, unless it tried that
 * before. Then it reports the best of each task and the results of those candidates. After all boards have
 * booted, a day has passed and the server aggregates. One board in ten by number is in the canary channel,
 * and all boards of a fleet smaller than CANARY_FLEET; the others are in early or all by the hash of their
 * id, as real boards are. A liar reports a random candidate, another one each boot, with half of the best
 * time that exists; its own kernels are not counted in any figure.
 *
 * Boards run in threads; the result depends on the description alone. */
#ifndef TOOLS_HERD_SEARCH_H
#define TOOLS_HERD_SEARCH_H

#include "agent/worker/landscape.h"
#include "agent/sync/snapshot.h"

enum { HERD_BOOTS = 64, CANARY_FLEET = 20 };

enum herd_mode {
	HERD_ALONE,   /* boards exchange nothing */
	HERD_SHARED,  /* results are shared, the search is not divided */
	HERD_DIVIDED, /* both */
	HERD_MODES
};

struct herd_search {
	const struct landscape *land; /* of one machine */
	int nland;
	const int *uses; /* number of uses of each task in the network */
	int boards, liars, boots;
	enum herd_mode mode;
	int parts; /* number of parts, if the search is divided */
	int quorum[CHANNELS];
	int64_t stage_s;
	int64_t box_ns;
	double sigma; /* noise of a run (sigma of its logarithm) */
	uint64_t seed;
	int threads;
	double enough; /* end when half of the boards reach this quality; 0: never */
};

/* Result of a boot over the honest boards: the network's time with the best recorded candidates over its time
 * with a board's own incumbents, both as recorded. */
struct herd_boot {
	double median, tenth; /* tenth: nine of ten boards are better */
	double reached;       /* share of boards that reach `enough`, or 0.98 if that is 0 */
	int trials;           /* per board, mean */
	int struck;
};

/* out: [boots]. Returns the number of boots. */
int herd_search(const struct herd_search *c, struct herd_boot *out) MUST_CHECK;

#endif
