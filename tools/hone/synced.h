/* SPDX-License-Identifier: Apache-2.0 */
/* What hone-sync's last run left (agent/sync/sync.h), for `hone sync` and `hone status`. */
#ifndef TOOLS_SYNCED_H
#define TOOLS_SYNCED_H

#include "agent/sync/sync.h"
#include <jansson.h>

/* Of honed's configuration; NULL: CONF_FILE. No file at all is nothing configured. */
int synced_conf(const char *path, struct arena *a, struct sync_conf *out) MUST_CHECK;
/* An object, empty where there was no run; NULL: no memory. */
json_t *synced_status(const struct sync_conf *c);
/* For people; nothing: there is nothing to sync with. */
void synced_tell(const json_t *status, bool nothing);

#endif
