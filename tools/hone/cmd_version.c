/* SPDX-License-Identifier: Apache-2.0 */
/* hone version, hone-fleet version. */
#include "agent/cache/json.h"
#include "tools/hone/cmd.h"
#include <stdio.h>

static int run_version(const struct args *a)
{
	if (a->json)
		return json_out(json_pack("{ss ss}", "name", a->program->name, "version", HONE_VERSION));
	printf("%s " HONE_VERSION "\n", a->program->name);
	return 0;
}

const struct cmd cmd_version = {
    .usage = "",
    .summary = "show the version of this program",
    .details = "",
    .run = run_version,
    .name = "version",
};
