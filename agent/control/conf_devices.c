/* SPDX-License-Identifier: Apache-2.0 */
/* Names of devices and of libraries, and lists of them. */
#include "agent/control/conf.h"
#include "kernels/library/library.h"
#include "platform/run/device_name.h"

#include <stdio.h>
#include <string.h>

bool conf_is_device(const char *name)
{
	return device_is_processor(name) || device_is_named(name);
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

static bool is_library(const char *name)
{
	static const char known[] = " " LIBRARY_ALL " " LIBRARY_NAMES " ";
	char word[LIBRARY_FILE + 2];
	if (name[0] == '/')
		return strlen(name) + 1 < LIBRARY_FILE; /* a longer one was cut */
	snprintf(word, sizeof word, " %s ", name);
	return *name && !strchr(name, ' ') && strstr(known, word);
}

bool conf_is_libraries(const char *value)
{
	char name[LIBRARY_FILE];
	int n = 0;
	if (!strcmp(value, CONF_NONE))
		return true;
	for (const char *at = value; (at = library_next(at, name)); n++)
		if (!is_library(name))
			return false;
	return n > 0 && n <= LIBRARY_MOST;
}
