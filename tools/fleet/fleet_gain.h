/* SPDX-License-Identifier: Apache-2.0 */
/* What tuning gained, for people: the kernels of each class, their untuned times, and the times of whole
 * models. The first GAIN_BOARDS boards that say something about a kernel or model count, by their median.
 * Only the page uses these figures; nothing is decided by them.
 *
 * Tables: kernels: class, type (CACHE_REC: a kernel, under the key of its best record; CACHE_HISTORY: a
 * model), key; label (made of its task's structure, not a board's label), device, threads, before_ns,
 * after_ns (models only), boards (whose times count), since_s. gains: class, type, key, board; before_ns,
 * after_ns. */
#ifndef TOOLS_FLEET_GAIN_H
#define TOOLS_FLEET_GAIN_H

#include "tools/fleet/fleet_store.h"

enum {
	GAIN_BOARDS = 15,
	GAIN_MOST = 4096, /* rows of one board */
};

/* Adds a checked line of a board's batch, in a transaction. Lines that are neither a kernel nor a history
 * are ignored. */
int gain_add(struct db_conn *c, const char *cls, const char *board, const struct exchange_line *l,
	     struct arena *a, int64_t now_s) MUST_CHECK;

#endif
