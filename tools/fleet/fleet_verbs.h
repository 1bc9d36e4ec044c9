/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of hone-fleet. To add one, define a `const struct cmd fleet_cmd_NAME`, and list it here and in
 * tools/fleet/main_fleet.c. */
#ifndef TOOLS_FLEET_VERBS_H
#define TOOLS_FLEET_VERBS_H

#include "tools/hone/cmd.h"

extern const struct cmd fleet_cmd_init, fleet_cmd_serve, fleet_cmd_token, fleet_cmd_boards, fleet_cmd_rename,
    fleet_cmd_revoke, fleet_cmd_root;

#endif
