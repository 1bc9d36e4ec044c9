/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/meas.h"

const char *meas_status_name(enum meas_status s)
{
	static const char *const names[MEAS_STATUSES] = {"ok",    "infeasible", "build",   "spill",
							 "wrong", "crash",      "timeout", "aborted"};
	return (unsigned)s < MEAS_STATUSES ? names[s] : "unknown";
}
