/* SPDX-License-Identifier: Apache-2.0 */
/* What tuning gained, for people: what kernels there are of each class, how long they took untuned, and how
 * whole models went. Of each kernel or model GAIN_BOARDS boards are asked, the first that said something, and
 * their median counts: it decides nothing but what the page shows.
 *
 * Tables: kernels: class, type (CACHE_REC: a kernel, its best record's key; CACHE_HISTORY: a model), key;
 * label (of its task's structure, not what a board calls it), device, threads, before_ns, after_ns (of
 * models), boards (that said so), since_s. gains: class, type, key, board; before_ns, after_ns. */
#ifndef TOOLS_FLEET_GAIN_H
#define TOOLS_FLEET_GAIN_H

#include "tools/fleet/fleet_store.h"

enum {
	GAIN_BOARDS = 15,
	GAIN_MOST = 4096, /* of one board */
};

/* In a transaction: a checked line of a board's batch; what is neither a kernel nor a history says nothing.
 */
int gain_take(struct db_conn *c, const char *cls, const char *board, const struct exchange_line *l,
	      struct arena *a, int64_t now_s) MUST_CHECK;

#endif
