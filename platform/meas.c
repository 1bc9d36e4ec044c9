/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/meas.h"
#include "platform/err.h"

#include <string.h>

const char *meas_status_name(enum meas_status s)
{
	static const char *const names[MEAS_STATUSES] = {"ok",    "infeasible", "build",   "spill",
							 "wrong", "crash",      "timeout", "aborted"};
	return (unsigned)s < MEAS_STATUSES ? names[s] : "unknown";
}

int meas_status_parse(const char *name, enum meas_status *out)
{
	for (int i = 0; i < MEAS_STATUSES; i++)
		if (!strcmp(name, meas_status_name((enum meas_status)i))) {
			*out = (enum meas_status)i;
			return E_OK;
		}
	return fail(E_CORRUPT, "no such status of a measurement");
}
