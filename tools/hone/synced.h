/* SPDX-License-Identifier: Apache-2.0 */
/* Results of hone-sync's last run (agent/sync/sync.h), for `hone sync` and `hone status`. */
#ifndef TOOLS_SYNCED_H
#define TOOLS_SYNCED_H

#include "agent/sync/sync.h"
#include <jansson.h>

/* Reads [sync] of honed's configuration; path NULL: CONF_FILE. If there is no file, nothing is configured.
 * cache: NULL, or gets the folder of the cache into which hone-sync takes records. */
int synced_conf(const char *path, struct arena *a, struct sync_conf *out, const char **cache) MUST_CHECK;
/* The results as an object, empty if hone-sync never ran; NULL: no memory. */
json_t *synced_status(const struct sync_conf *c);
/* Whether the last run failed; one that only found the board offline has not. */
bool synced_failed(const json_t *status);

struct synced_how {
	bool fleet;         /* a server or a watched folder is configured */
	bool nothing;       /* there is neither, and no folder was given */
	bool ran;           /* this command has made a run */
	bool good;          /* which was good */
	const char *config; /* the file that --config named, or NULL */
	const char *cache;  /* into which records are taken */
};
/* Prints them for people, and what to do next. */
void synced_tell(const json_t *status, const struct synced_how *how);

/* E_NOTFOUND: says how to configure a fleet, or how to take its files without. */
int synced_no_fleet(const char *config) MUST_CHECK;

#endif
