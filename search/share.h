/* SPDX-License-Identifier: Apache-2.0 */
/* A search that many boards divide: which part of a task's space belongs to this board.
 *
 * Structures of candidates (what needs a compile of its own: sketch, register tile, vector axis) are dealt to
 * `parts` parts by hash of salt, task and structure; a board's part is hash of salt, board and task, so that
 * each task is divided anew and no board depends on another. A board first tries the default, the
 * incumbent, the known candidates and the rules, which are few and for every board; then its own part; and
 * the rest only once that is dry: a board that is alone, or whose fleet is gone, searches the whole space.
 * Numbers of a structure that is good here are varied even if the structure is in another board's part.
 *
 * Short boxes do not reach every task of a network. So boards also begin with different tasks, drawn in
 * proportion to their promise; and before all that, each board tries the first known candidate of every task.
 */
#ifndef SEARCH_SHARE_H
#define SEARCH_SHARE_H

#include "platform/base/hash.h"
#include <stdbool.h>

/* How many parts a fleet of so many boards divides a search into: ten boards share a part, because boards
 * that find the same confirm each other at once; each part still holds some structures. 0: not divided. */
enum { SHARE_BOARDS = 10, SHARE_PARTS = 100, SHARE_MOST_PARTS = 1 << 20 /* that a fleet may ask for */ };
int share_parts(int boards);

struct share {
	int parts;         /* < 2: not divided */
	const char *salt;  /* of the fleet's division */
	const char *board; /* this board's id */
};

/* This board's part of one task. {0}: all of it. */
struct portion {
	uint64_t deal;  /* hash key that deals the task's structures to parts */
	uint32_t parts; /* < 2: not divided */
	uint32_t mine;  /* 0 <= mine < parts */
};

struct portion share_portion(const struct share *s, const char *task); /* s NULL: not divided */
/* structure: mix_text(space_structure).lo */
bool portion_has(const struct portion *p, uint64_t structure);
/* Makes boards with the same random seed draw differently if the search is divided. */
uint64_t share_seed(const struct share *s, uint64_t seed);

#endif
