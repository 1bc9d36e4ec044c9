/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the lines that go from a board's record to other boards. The server builds each line itself, so no
 * byte that only one board sent reaches other boards.
 *
 * The plain line is kept with the board's word. It has the fields that name the candidate (task text, class,
 * device, threads, level, candidate; for choices the text), and fixed values for all others. So boards
 * that mean the same candidate have the same plain line, byte for byte, and its hash is in the word's key and
 * cand. The published line is the plain one with the fleet's times and the number of boards. */
#ifndef TOOLS_FLEET_LINE_H
#define TOOLS_FLEET_LINE_H

#include "agent/cache/exchange.h"
#include "tools/fleet/aggregate.h"

/* Reads what a checked line says of a candidate, and makes its plain line ("" if the candidate failed), in
 * the arena. Sets all of w but `board`. 1: the line is a word; 0: it is none; < 0: E_CORRUPT, E_NOMEM. */
int line_word(const struct exchange_line *l, struct arena *a, struct word *w, const char **plain) MUST_CHECK;
/* Makes the published line from a plain line of the word that g names. Malloc'd; NULL: the plain line is
 * another candidate's or malformed, or no memory. */
char *line_publish(const struct agreed *g, const char *plain);

#endif
