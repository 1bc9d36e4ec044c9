/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_verbs.h"
#include <stddef.h>

static const struct cmd *const cmds[] = {&fleet_cmd_init,
					 &fleet_cmd_serve,
					 &fleet_cmd_token,
					 &fleet_cmd_boards,
					 &fleet_cmd_rename,
					 &fleet_cmd_revoke,
					 &fleet_cmd_root,
					 &cmd_help,
					 &cmd_version,
					 NULL};

static const struct program fleet = {
    .name = "hone-fleet",
    .summary = "collect records from boards, and publish those that enough boards agree on",
    .start = "hone-fleet init && hone-fleet serve",
    .cmds = cmds,
    .environment = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY: for s3:// places.\n",
    .see = ".BR hone (1),\n.BR honed (8)\n",
};

int main(int argc, char **argv)
{
	return program_main(&fleet, argc, argv);
}
