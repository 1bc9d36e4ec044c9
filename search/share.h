/* SPDX-License-Identifier: Apache-2.0 */
/* A search that many boards divide: which part of a task's space is this board's.
 *
 * Structures of candidates (what needs a compile of its own: sketch, register tile, vector axis) are dealt to
 * `parts` parts by hash of salt, task and structure; a board's part is hash of salt, board and task, so that
 * each task is divided anew and no board depends on another. Its own part comes first, after the default, the
 * incumbent and what is known (seeds); the rest only once that is empty: a board that is alone, or whose
 * fleet is gone, searches as it always did. */
#ifndef SEARCH_SHARE_H
#define SEARCH_SHARE_H

#include "platform/hash.h"
#include <stdbool.h>

struct share {
	int parts;         /* < 2: not divided */
	const char *salt;  /* of the fleet's division */
	const char *board; /* this board's id */
};

/* The part of this board in a task. 0 <= part < parts. */
int share_part(const struct share *s, const char *task);
/* Whether a candidate's structure (kernels' own text of it) is in that part. */
bool share_mine(const struct share *s, const char *task, const char *structure);

#endif
