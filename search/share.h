/* SPDX-License-Identifier: Apache-2.0 */
/* A search that many boards divide: which part of a task's space is this board's.
 *
 * Structures of candidates (what needs a compile of its own: sketch, register tile, vector axis) are dealt to
 * `parts` parts by hash of salt, task and structure; a board's part is hash of salt, board and task, so that
 * each task is divided anew and no board depends on another. Its own part comes first, after the default, the
 * incumbent, what is known (seeds) and the rules, which are few and for every board; the rest only once that
 * is dry: a board that is alone, or whose fleet is gone, searches as it always did. Numbers of a structure
 * that is good here are varied whosever part it is in.
 *
 * Short boxes do not reach every task of a network. So boards also begin with different tasks, by chance in
 * proportion to what these promise; and before all, each tries the first of what is known of every task. */
#ifndef SEARCH_SHARE_H
#define SEARCH_SHARE_H

#include "platform/base/hash.h"
#include <stdbool.h>

/* Into how many parts a fleet of so many boards divides a search: ten boards to a part, as boards that find
 * the same confirm each other at once; a part holds some structures still. 0: not divided. */
enum { SHARE_BOARDS = 10, SHARE_PARTS = 100, SHARE_MOST_PARTS = 1 << 20 /* that a fleet may ask for */ };
int share_parts(int boards);

struct share {
	int parts;         /* < 2: not divided */
	const char *salt;  /* of the fleet's division */
	const char *board; /* this board's id */
};

/* This board's part of one task. {0}: all of it. */
struct portion {
	uint64_t deal;  /* of the task's structures */
	uint32_t parts; /* < 2: one for all */
	uint32_t mine;  /* 0 <= mine < parts */
};

struct portion share_portion(const struct share *s, const char *task); /* s NULL: not divided */
/* structure: mix_text(space_structure).lo */
bool portion_has(const struct portion *p, uint64_t structure);
/* Boards of one seed draw differently, where the search is divided. */
uint64_t share_seed(const struct share *s, uint64_t seed);

#endif
