/* SPDX-License-Identifier: Apache-2.0 */
/* Names of devices, and lists of them. */
#include "agent/control/conf.h"

#include <string.h>

bool conf_is_device(const char *name)
{
	static const char *const kinds[] = {"opencl:", "cuda:"};
	if (!strcmp(name, CONF_CPU))
		return true;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const char *number = name + strlen(kinds[i]);
		size_t digits = strncmp(name, kinds[i], strlen(kinds[i])) ? 0 : strspn(number, "0123456789");
		if (digits > 0 && digits < 4 && !number[digits] && (digits == 1 || *number != '0'))
			return true;
	}
	return false;
}

const char *conf_device_name(const char *device)
{
	return device ? device : CONF_CPU;
}

static bool is_listed(const struct conf_devices *list, const char *name)
{
	for (int i = 0; i < list->n; i++)
		if (!strcmp(list->name[i], name))
			return true;
	return false;
}

int conf_devices_parse(struct arena *a, const char *value, struct conf_devices *out, const char **twice)
{
	struct conf_devices list = {.name = ARENA_ARRAY(a, const char *, CONF_DEVICES)};
	char *rest, *copy = arena_strdup(a, value);
	*twice = NULL;
	for (char *p = strtok_r(copy, " \t", &rest); p; p = strtok_r(NULL, " \t", &rest)) {
		if (is_listed(&list, p))
			*twice = p;
		if (*twice || !conf_is_device(p) || list.n >= CONF_DEVICES)
			return E_USAGE;
		list.name[list.n++] = p;
	}
	if (!list.n)
		return E_USAGE;
	*out = list;
	return E_OK;
}
