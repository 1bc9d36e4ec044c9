/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the interpreter: loops_run.c runs statements, loops_blocks.c blocks of threads,
 * loops_warp.c what a warp does together. */
#ifndef KERNELS_LOOPS_RUN_H
#define KERNELS_LOOPS_RUN_H

#include "kernels/loops/loops_lane.h"

enum { MAX_LANES = 16 };

struct block; /* the threads of an index, and who touched which element */

struct interp {
	const struct loops *l;
	struct ix_env env;
	int64_t elems[LOOPS_MAX_BUFS];
	/* These belong to the index that runs, or to its thread that runs: */
	int64_t *vars; /* loop variables: env.vars */
	union lane (*v)[MAX_LANES];
	uint8_t *set; /* per vector variable: assigned */
	enum lane_fault fault;
	const char *entry;
	struct block *block; /* NULL: the entry has no threads */
};

int64_t loops_value(struct interp *r, const struct ix *x);
int loops_check_tables(const struct interp *r)
    MUST_CHECK; /* E_CORRUPT: a table read was outside its buffer */
/* Element 0's index of an access of n lanes, all of which are in bounds. */
int loops_locate(struct interp *r, const struct mem *m, int n, int64_t *at) MUST_CHECK;
/* The bounds of a loop. E_CORRUPT: it is empty, but runs at least once. */
int loops_bounds(struct interp *r, const struct stmt *s, int64_t *lo, int64_t *hi) MUST_CHECK;
/* Runs the statements from s to before `end` (NULL: to the end of the list). */
int loops_run_span(struct interp *r, const struct stmt *s, const struct stmt *end) MUST_CHECK;

/* Runs [begin, end) of an entry with threads, in an order that `seed` gives. */
int loops_run_blocks(struct interp *r, const struct entry *e, int64_t begin, int64_t end,
		     uint64_t seed) MUST_CHECK;
/* Notes that the running thread reads or writes n lanes of the access at element `at`. E_CORRUPT: that breaks
 * the rules of threads. */
int loops_touch(struct interp *r, const struct mem *m, int n, int64_t at, bool writes) MUST_CHECK;
/* Makes a thread of the block the one that runs. */
void loops_become(struct interp *r, int thread);
/* Notes that the threads of a warp together read or write an element of a shared buffer. A next call of
 * loops_warp_begins says that another statement does. */
int loops_touch_together(struct interp *r, int buf, int64_t at, bool writes) MUST_CHECK;
void loops_warp_begins(struct interp *r);
/* loops_warp.c: runs a statement of fragments for the warp that begins with thread `first`. */
int loops_run_warp(struct interp *r, const struct stmt *s, int first) MUST_CHECK;
/* Starts the copy of a ST_COPY. */
int loops_start_copy(struct interp *r, const struct stmt *s) MUST_CHECK;

#endif
