/* SPDX-License-Identifier: Apache-2.0 */
/* The history of a search: the sum over the network's kernels of the best times so far, by time since the
 * process began. A report draws it. A plain value of bounded size: when it is full, points that are near in
 * time are removed.
 *
 * Text (canonical, times up to 1e12 ms; hostile text gives E_CORRUPT): "hone-history 1", then a line "ms
 * trials total_ms" per point, times ascending. */
#ifndef AGENT_HISTORY_H
#define AGENT_HISTORY_H

#include "kernels/task/level.h"
#include "platform/base/buf.h"
#include "platform/base/err.h"
#include "platform/base/hash.h"

enum { HISTORY_MAX = 256 };

struct history_point {
	double at_ms; /* since the start of the process */
	int trials;
	double total_ms;
};

struct history {
	int n;
	double apart_ms; /* a point closer than this to the one before replaces it */
	struct history_point point[HISTORY_MAX];
};

struct graph;
struct target;
/* Key of the cache's CACHE_HISTORY record: the network, the machine, the number of threads, level. */
struct key history_key(const struct graph *g, const struct target *t, int threads, enum level level);
void history_add(struct history *h, struct history_point p);
void history_text(const struct history *h, struct buf *out);
int history_parse(const char *text, size_t n, struct history *out) MUST_CHECK;

#endif
