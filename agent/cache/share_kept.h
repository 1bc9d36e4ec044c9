/* SPDX-License-Identifier: Apache-2.0 */
/* The division of the search among the fleet's boards (search/share.h), as hone-sync stores it for the jobs
 * of this board: the file `share`, one line
 *
 *	CLASS PARTS SALT BOARD\n
 *
 * CLASS and BOARD 32 hex digits, PARTS 0 to SHARE_MOST_PARTS, SALT 1 to 32 letters, digits, - and _ ("-" if
 * PARTS is 0). It lies in hone-sync's state folder, or in the cache's folder if hone-sync opens the cache
 * itself; all users may read it. It decides only the order in which a board searches, so it need not be
 * trusted: if the file is missing, malformed or for another class, the search is not divided. */
#ifndef AGENT_SHARE_KEPT_H
#define AGENT_SHARE_KEPT_H

#include "platform/base/arena.h"
#include "platform/base/err.h"
#include "search/share.h"

#define SYNC_STATE "/var/lib/hone-sync" /* hone-sync's state folder, unless it is configured otherwise */
#define SHARE_FILE "share"
enum { SHARE_BYTES = 256 };

/* Writes the division for a class of boards into a folder, unless the file has this line already. E_USAGE:
 * the class or the division does not fit the form above; an existing file is removed. */
int share_kept_put(const char *dir, const char *cls, const struct share *s) MUST_CHECK;
/* Parses the division for boards of class `cls`; texts in the arena. Hostile text of n bytes: E_CORRUPT.
 * E_NOTFOUND: it is for another class. */
int share_kept_parse(const char *text, size_t n, const char *cls, struct arena *a,
		     struct share *out) MUST_CHECK;
/* Gets the division for boards of class `cls`: from the cache's folder if it has the file, else from
 * SYNC_STATE. *out is {0} if the search is not divided. */
void share_kept_get(const char *cache, struct key cls, struct arena *a, struct share *out);

#endif
