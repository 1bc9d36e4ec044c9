/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": finds the known name that is spelled most like a word. The distance counts inserted,
 * deleted and replaced letters and swapped neighbours (Damerau's, each letter moved once), of at most 31
 * letters; upper and lower case are the same letter. A word may have a mistake in three letters, and at least
 * one, but a name that shares no letter with it is never meant. A word of two letters or more that a name
 * begins with counts as one mistake, and that name wins over others with one mistake. A word of six letters
 * or more that is spelled like the beginning of a name counts one mistake more than it has. */
#ifndef PLATFORM_NEAR_H
#define PLATFORM_NEAR_H

#include <stdbool.h>

struct near {
	const char *word;
	const char *best; /* NULL: no name is close enough */
	bool begins;      /* `best` begins with the word */
	int least;        /* distance of `best`, or the first distance that is too large */
};

/* Both texts must outlive n. */
void near_begin(struct near *n, const char *word);
void near_add(struct near *n, const char *name);
/* The distance of two words. */
int near_distance(const char *a, const char *b);

#endif
