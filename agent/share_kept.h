/* SPDX-License-Identifier: Apache-2.0 */
/* How the fleet divides the search (search/share.h), as hone-sync leaves it for the jobs of this board: the
 * file `share`, one line
 *
 *	CLASS PARTS SALT BOARD\n
 *
 * CLASS and BOARD 32 hex digits, PARTS 0 to SNAPSHOT_PARTS, SALT 1 to 32 letters, digits, - and _ ("-" where
 * PARTS is 0). It is in hone-sync's state folder, or in the cache's where hone-sync opens the cache itself;
 * all may read it. It decides in which order a board searches and nothing else, so that nobody has to be
 * believed: one that is not there, of another class or not like that means that the search is not divided. */
#ifndef AGENT_SHARE_KEPT_H
#define AGENT_SHARE_KEPT_H

#include "agent/snapshot.h"
#include "search/share.h"

#define SHARE_FILE "share"
enum { SHARE_BYTES = 256 };

/* Into a folder, for a board with that id; what is there already is not written again. E_USAGE: s or the id
 * cannot be said like that, and a file that is there is gone. */
int share_kept_put(const char *dir, const struct snapshot *s, const char *board) MUST_CHECK;
/* Of boards of that class; texts in the arena. Hostile text of n bytes: E_CORRUPT. E_NOTFOUND: it is of
 * another class. */
int share_kept_parse(const char *text, size_t n, const char *cls, struct arena *a,
		     struct share *out) MUST_CHECK;
/* What there is for boards of that class: the cache's folder decides if it has one, else SYNC_STATE does.
 * *out is {0} where the search is not divided. */
void share_kept_get(const char *cache, struct key cls, struct arena *a, struct share *out);

#endif
