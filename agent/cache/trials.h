/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a task's tuning: which candidates were tried, who proposed them, their estimated and measured
 * times, and how long all that took. There is one for each task, target, device, number of threads and
 * exactness; it continues from box to box. It explains a tuning, lets the next one continue, and teaches cost
 * models.
 *
 * It is bounded: when TRIALS_MAX or TRIALS_BYTES are reached, a third of the trials is removed. The default,
 * the incumbent, the fastest and the newest stay, and every second one of the rest, so that old trials are
 * sparse. Counts include the removed ones.
 *
 * Text (canonical, at most TRIALS_BYTES and the task's own text): "hone-trials 2", the fields of the table in
 * trials.c (agent/cache/fields.h), then a line for each trial, oldest first: "status by lost box at_ms ns
 * default_ns spent_ns build_ns draft_ns guess_ns guess_sd cand". */
#ifndef AGENT_TRIALS_H
#define AGENT_TRIALS_H

#include "agent/cache/cache.h"
#include "kernels/task/level.h"
#include "search/tried.h"

enum { TRIALS_MAX = 200, TRIALS_BYTES = 20 << 10 };

struct trials_entry {
	struct tried t; /* at_ns: since the start of its box's process */
	int box;        /* the first is 1; 0: of a box that former versions did not count */
};

struct trials {
	struct key task; /* of the task text */
	char target[160];
	struct key target_key;
	char device[16];
	int threads;
	enum level level;
	char emitter[32];         /* name and version; times of another emitter's code do not count */
	int boxes;                /* so far */
	int64_t spent_ns;         /* of all boxes, on this task */
	int64_t fallback_ns;      /* one use, in the network, with fallback kernels; 0: not known */
	int64_t best_ns;          /* the incumbent, as the last box's races chained it; 0: none, */
	int64_t default_ns;       /* and the default, on the same scale */
	int count[MEAS_STATUSES]; /* of all trials ever */
	const char *label, *task_text;
	int n;
	struct trials_entry entry[TRIALS_MAX]; /* oldest first; no two of one candidate */
	struct arena arena;                    /* oldest first; all candidates differ */
	size_t cand_bytes;
};

/* Starts an empty log and copies the texts. trials_free releases it. */
void trials_start(struct trials *l, struct key task, const char *text, const char *label);
void trials_free(struct trials *l);
/* Adds a trial. It replaces an older one of the same candidate; with t->lost it only marks that one as having
 * lost. */
void trials_add(struct trials *l, const struct tried *t, int box);
bool trials_drop(struct trials *l, const char *cand); /* returns whether it was there */
struct key trials_key(const struct trials *l);
void trials_text(const struct trials *l, struct buf *out);
/* True: the text was written by the former version. Its key is not trials_key's, and trials_parse derives the
 * task's key from the task's text. */
bool trials_is_former(const char *text);
/* *out is a started log, to be freed; after an error it is empty. E_CORRUPT; fuzzed. */
int trials_parse(const char *text, struct trials *out) MUST_CHECK;

int trials_put(struct cache *c, const struct trials *l) MUST_CHECK;
/* The log with this key. E_NOTFOUND: none, or damaged. */
int trials_get(struct cache *c, struct key k, struct trials *out) MUST_CHECK;
/* Calls fn for every log of the cache, oldest first; bad ones are skipped. fn < 0 ends it. Returns their
 * number, or < 0. */
int trials_each(struct cache *c, int (*fn)(void *ctx, const struct trials *l), void *ctx) MUST_CHECK;

const char *tried_by_name(enum tried_by b); /* NULL: no such value */

#endif
