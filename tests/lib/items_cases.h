/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of work items, and candidates on them that have a key. */
#ifndef TESTS_ITEMS_CASES_H
#define TESTS_ITEMS_CASES_H

#include "tests/lib/kernel_cases.h"

/* A device of work items with few, usual or many registers. */
static inline struct target items_board(uint64_t seed)
{
	static const int regs[] = {16, 32, 60};
	struct target tg = case_board(4, regs[seed % 3]);
	strcpy(tg.isa, "opencl");
	tg.group = 256;
	return tg;
}

/* Whether shared buffers of the candidate are rings of boxes: share=k:16x2. */
static inline bool has_ring_of_boxes(const char *cand)
{
	const char *share = strstr(cand, "share=");
	const char *size = share ? strchr(share, ':') : NULL;
	return size && strchr(size, 'x');
}

/* Draws until the candidate has the key; false: none of many has. "x" is the key of rings of boxes. */
static inline bool draw_with(const struct space *s, struct rng *r, const char *key, char cand[CAND_MAX])
{
	for (int i = 0; i < 60; i++)
		if (space_random(s, r, cand) >= 0 &&
		    (strcmp(key, "x") ? strstr(cand, key) != NULL : has_ring_of_boxes(cand)))
			return true;
	return false;
}

#endif
