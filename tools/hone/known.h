/* SPDX-License-Identifier: Apache-2.0 */
/* Next: lines of commands that are given no model, but whose next command needs one. They name a model that
 * this machine tuned or, in a default cache without records, one of the zoo, so that each can be pasted. */
#ifndef TOOLS_KNOWN_H
#define TOOLS_KNOWN_H

#include "agent/cache/cache.h"

/* The known model is that whose gain the cache stored last, of those with an absolute path to a file that is
 * still there. The lines name the shapes of the gain, and its threads and level where others would be chosen.
 * With -q nothing is printed, and no cache is read. */

/* Prints "Next: hone tune MODEL --budget 20s --cache DIR" for the known model; if there is none, but records,
 * a sentence with `hone bench MODEL`; else one with `hone tune MODEL` and, unless a cache is named, the
 * commands that write a model of the zoo and tune it. dir: the cache to name; NULL or the default one: none
 * is named. c NULL: no cache. */
void known_tune(struct cache *c, const char *dir);
/* The same, with the cache in the folder `from`, if it can be read. */
void known_tune_in(const char *from, const char *dir);
/* Prints "Next: hone bench MODEL --cache DIR" for the known model; if there is none, as known_tune. apart: a
 * model that was tuned for a device with a driver goes before others. */
void known_bench(struct cache *c, bool apart, const char *dir);
/* The same, with the cache in the folder `from`, if it can be read. */
void known_bench_in(const char *from, const char *dir);
/* For records of the user's own models, whose place no model of the zoo takes: "Next: hone WORDS MODEL" for
 * the one model that n cache folders know; if there are several, "Next: hone show"; if there is none, the
 * sentence that names `hone tune MODEL`, and "Next: hone show" if the folders have records. */
void known_after(const char *words, int n, const char *const from[], const char *dir);

#endif
