/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of hone-fleet. To add one, define a `const struct cmd fleet_cmd_NAME`, and list it here and in
 * tools/fleet/main_fleet.c. */
#ifndef TOOLS_FLEET_VERBS_H
#define TOOLS_FLEET_VERBS_H

#include "tools/hone/cmd.h"

extern const struct cmd fleet_cmd_init, fleet_cmd_serve, fleet_cmd_token, fleet_cmd_boards, fleet_cmd_rename,
    fleet_cmd_revoke, fleet_cmd_root;

/* Prints the command `to` as what to do next (tools/hone/next.h), with those options of this command that
 * `to` takes, too, and then `more` (" --cert FILE", or ""). */
void fleet_next(const struct args *args, const struct cmd *to, const char *more);
/* Appends the command `to` as this user calls it, with those options of this command that `to` takes, too. */
void fleet_command(const struct args *args, const struct cmd *to, struct buf *out);
/* Returns whether the folder certainly has no keys; false if this user may not look into it. */
bool fleet_lacks_keys(const char *keys);

#endif
