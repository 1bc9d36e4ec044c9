/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that a board's record becomes on its way to other boards. No byte of what only that board said
 * goes with it: the server builds the line itself.
 *
 * The plain line is kept with the board's word. It holds what names the candidate (task text, class, device,
 * threads, exactness, candidate; of choices the text), and fixed values for all else. So boards that mean the
 * same candidate have the same plain line, byte for byte, and its hash is in the word's key and cand. The
 * published line is the plain one with the fleet's times and the number of boards. */
#ifndef TOOLS_FLEET_LINE_H
#define TOOLS_FLEET_LINE_H

#include "agent/cache/exchange.h"
#include "tools/fleet/aggregate.h"

/* What a checked line says of a candidate, and its plain line ("" where the candidate failed), in the arena.
 * 1: it says something; 0: nothing; < 0: E_CORRUPT, E_NOMEM. w->board is not set. */
int line_word(const struct exchange_line *l, struct arena *a, struct word *w, const char **plain) MUST_CHECK;
/* From a plain line of the word that g names. Malloc'd; NULL: it is no such line, or no memory. */
char *line_publish(const struct agreed *g, const char *plain);

#endif
