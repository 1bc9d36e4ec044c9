/* SPDX-License-Identifier: Apache-2.0 */
/* hone-fleet's configuration: the defaults, then a file of [fleet] key = value, then options of the same
 * names. The later ones win. */
#ifndef TOOLS_FLEET_CONF_H
#define TOOLS_FLEET_CONF_H

#include "platform/base/arena.h"
#include "tools/hone/cmd.h"
#include "tools/fleet/fleet.h"

#define FLEET_CONF "/etc/hone-fleet/hone-fleet.conf"
#define FLEET_STATE "/var/lib/hone-fleet"
/* File in the folder of keys: the newest root document, for boards' images. */
#define FLEET_ROOT "root.signed"

/* Options for commands that need only a part of the configuration. The first must be `config`. */
#define FLEET_OPT_CONFIG                                                                                     \
	{                                                                                                    \
		"config", OPT_STR, "FILE", "configuration (default " FLEET_CONF ", if it exists)"       \
	}
#define FLEET_OPT_DB                                                                                         \
	{                                                                                                    \
		"db", OPT_STR, "URL", "database: a file, or postgresql://... (" FLEET_STATE "/fleet.db)"     \
	}
#define FLEET_OPT_KEYS                                                                                       \
	{                                                                                                    \
		"keys", OPT_STR, "DIR", "folder of keys, which init makes (" FLEET_STATE "/keys)"            \
	}
#define FLEET_OPT_STATE                                                                                      \
	{                                                                                                    \
		"state", OPT_STR, "DIR",                                                                     \
		    "folder of all files of the fleet: DIR/fleet.db, DIR/keys, DIR/publish (" FLEET_STATE    \
		    "), for a trial a folder of your own"                                                    \
	}
extern const struct opt fleet_conf_opts[]; /* all options; ends with name NULL */

void fleet_conf_default(struct fleet_conf *c);
/* Sets one value. E_USAGE says which values are possible. Texts live in the arena. */
int fleet_conf_set(struct fleet_conf *c, const char *name, const char *value, struct arena *a) MUST_CHECK;
/* Reads a file. E_USAGE names the line; E_NOTFOUND: no such file. */
int fleet_conf_read(struct fleet_conf *c, const char *path, struct arena *a) MUST_CHECK;
/* Writes FLEET_ROOT into the folder `keys`, readable for all users, as boards' programs have their own: it is
 * public. E_USAGE: the path is too long; E_IO. */
int fleet_write_root(const char *keys, const void *doc, size_t n) MUST_CHECK;
/* Applies the defaults, the file, and the options of a command whose table has any of the above; then checks
 * values that depend on each other. */
int fleet_conf_of(const struct args *args, struct fleet_conf *c, struct arena *a) MUST_CHECK;

#endif
