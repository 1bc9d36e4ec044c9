/* SPDX-License-Identifier: Apache-2.0 */
/* libhone and libhone-device.so are compiled apart, and must agree on these values
 * (agent/run/device_lib.h). */
#ifndef AGENT_DEVICE_FIT_H
#define AGENT_DEVICE_FIT_H

#include "agent/run/device_lib.h"
#include "agent/run/plan_parts.h"

#define DEVICE_FIT                                                                                           \
	{                                                                                                    \
		HONE_VERSION, sizeof(struct plan), sizeof(struct pstep), sizeof(struct place),               \
		    sizeof(struct graph), sizeof(struct code), sizeof(struct target)                         \
	}

#endif
