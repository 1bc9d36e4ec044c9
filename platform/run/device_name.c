/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/device_name.h"

#include "platform/machine/topo.h"

#include <stdlib.h>
#include <string.h>

const char *const device_kinds[] = {"opencl", "cuda", NULL};

size_t device_name_read(const char *name, int *number)
{
	size_t n = strcspn(name, ":");
	*number = -1;
	if (!name[n])
		return n;
	const char *at = name + n + 1;
	size_t digits = strspn(at, "0123456789");
	if (!digits || digits > 3 || at[digits] || (digits > 1 && *at == '0'))
		return 0;
	*number = atoi(at);
	return n;
}

bool device_is_named(const char *name)
{
	int number;
	size_t n = device_name_read(name, &number);
	for (int i = 0; device_kinds[i] && number >= 0; i++)
		if (strlen(device_kinds[i]) == n && !memcmp(name, device_kinds[i], n))
			return true;
	return false;
}

bool device_is_sole(const char *name)
{
	return !strncmp(name, "cuda:", 5) && device_is_named(name);
}

bool device_is_processor(const char *name)
{
	return !strcmp(name, "cpu") || topo_is_name(topo_cluster_of(name));
}
