/* SPDX-License-Identifier: Apache-2.0 */
/* Results of hone-sync's last run (agent/sync/sync.h), for `hone sync` and `hone status`. */
#ifndef TOOLS_SYNCED_H
#define TOOLS_SYNCED_H

#include "agent/sync/sync.h"
#include <jansson.h>

/* Reads [sync] of honed's configuration; path NULL: CONF_FILE. If there is no file, nothing is configured. */
int synced_conf(const char *path, struct arena *a, struct sync_conf *out) MUST_CHECK;
/* The results as an object, empty if hone-sync never ran; NULL: no memory. */
json_t *synced_status(const struct sync_conf *c);
/* Prints them for people. fleet: a server or a watched folder is configured; nothing: none is, and no folder
 * was given; config: the file that --config named, or NULL. */
void synced_tell(const json_t *status, bool fleet, bool nothing, const char *config);

/* E_NOTFOUND: says how to configure a fleet, or how to take its files without. */
int synced_no_fleet(const char *config) MUST_CHECK;

#endif
