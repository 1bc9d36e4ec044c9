/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/one_core.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

int one_core(void)
{
	cpu_set_t set;
	int cpu = sched_getcpu();
	if (cpu < 0)
		return fail(E_IO, "cannot tell which processor this is: %s", strerror(errno));
	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) < 0)
		return fail(E_IO, "cannot use processor %d alone: %s", cpu, strerror(errno));
	return E_OK;
}
