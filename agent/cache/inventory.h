/* SPDX-License-Identifier: Apache-2.0 */
/* The inventory of a cache: what was in it when honed last looked. honed keeps it between its starts, so that
 * it notices a cache that was removed, emptied, damaged or replaced meanwhile: what it knows of its models is
 * then no longer true.
 *
 * It counts the records of all layers that kernels need: best and default records, choices and recipes; and
 * the kernels' code. Nothing is kept of hints, histories and trials, which come and go. `some` names a few of
 * the records, since another cache may have as many. Names, sizes and times of the files tell that nothing
 * changed without reading them. They do not tell damage that left them alone; opening the cache does. */
#ifndef AGENT_INVENTORY_H
#define AGENT_INVENTORY_H

#include "platform/base/err.h"
#include "platform/base/hash.h"

enum { INVENTORY_SOME = 4 };

/* honed's words: the folder, and what inventory_say writes. */
#define CACHE_LACKS                                                                                          \
	"cache %s is not as honed left it: it has %s; so every model is tuned again"

struct inventory {
	struct key files; /* of the segments of all layers; 0: nothing is known */
	int records, code;
	struct key some[INVENTORY_SOME]; /* keys of records, the smallest first; 0: there are no more */
};

struct cache;

static inline bool inventory_is_known(const struct inventory *v)
{
	return v->files.hi || v->files.lo;
}

/* Takes the inventory of what is in the files; puts that wait do not count. */
void inventory_take(const struct cache *c, struct inventory *out);
/* Whether the cache, whose inventory is `now`, lacks something that `before` had. False: nothing is known of
 * `before`. */
bool inventory_lacks(const struct cache *c, const struct inventory *before, const struct inventory *now);
/* The files of the cache in the folder and of its seed layers, as in struct inventory. */
struct key inventory_files(const char *dir);
/* Whether the cache in the folder lacks something that `before` had: 1, or 0. Reads the cache only if its
 * files changed. *now: what it has. < 0: it cannot be read. */
int inventory_compare(const char *dir, const struct inventory *before, struct inventory *now) MUST_CHECK;
/* Writes what is missing: "24 of 30 records, code of 20 of 30 kernels". */
void inventory_say(const struct inventory *before, const struct inventory *now, char *out, size_t n);

#endif
