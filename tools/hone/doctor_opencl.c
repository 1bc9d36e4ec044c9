/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL: whether the loader and drivers are here, which devices answer, and whether this user may open the
 * nodes of the kernel's drivers. A child process asks the drivers (tools/hone/opencl_list.h). */
#include "tools/hone/doctor_parts.h"
#include "agent/cache/json.h"
#include "platform/base/clock.h"
#include "tools/hone/opencl_list.h"

#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_NS (5 * NS_PER_S)
#define VENDORS "/etc/OpenCL/vendors"

enum { MANY = 16 };

/* Nodes of graphics processors whose drivers have OpenCL. */
static const struct {
	const char *dir, *prefix;
} nodes[] = {{"/dev/dri", "renderD"}, {"/dev", "mali"}, {"/dev", "kgsl-3d"}, {"/dev", "nvidiactl"}};

/* How this user gets the right to open a node. */
static void node_remedy(const struct stat *st, char *out, size_t n)
{
	const struct group *g = st->st_gid && st->st_mode & S_IWGRP ? getgrgid(st->st_gid) : NULL;
	if (g)
		snprintf(out, n,
			 "sudo usermod -aG %.32s $USER, then log in again; for honed: configs/examples/"
			 "opencl.conf",
			 g->gr_name);
	else
		snprintf(out, n,
			 "a udev rule that gives it to a group of this user (SUBSYSTEM, GROUP=\"video\", "
			 "MODE=\"0660\")");
}

/* Returns the number of nodes, and warns of those that this user may not open. */
static int look_at_nodes(struct doctor *d)
{
	int there = 0;
	for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
		char name[MANY][SYSFILE_NAME], path[PATH_MAX], remedy[160];
		int n = sysfile_list(d->root, nodes[i].dir, nodes[i].prefix, name, MANY);
		for (int k = 0; k < n; k++) {
			struct stat st;
			if (snprintf(path, sizeof path, "%s%s/%s", d->root, nodes[i].dir, name[k]) >=
				(int)sizeof path ||
			    stat(path, &st) < 0)
				continue;
			there++;
			if (access(path, R_OK | W_OK) == 0)
				continue;
			node_remedy(&st, remedy, sizeof remedy);
			doctor_say(d, FINDING_WARNING, remedy,
				   "this user may not open %s/%s: OpenCL does not find the device behind it",
				   nodes[i].dir, name[k]);
		}
	}
	return there;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

static void device_finding(struct doctor *d, const json_t *device)
{
	if (json_is_true(json_object_get(device, "usable")))
		doctor_good(d, "%s answers: %.100s, driver %.60s", text_of(device, "device"),
			    text_of(device, "name"), text_of(device, "driver"));
	else
		doctor_say(d, FINDING_WARNING, "another version of its driver may do what is missing",
			   "%s (%.100s) cannot be used: %.200s", text_of(device, "device"),
			   text_of(device, "name"), text_of(device, "why"));
}

/* Says what the drivers answered. A board without a graphics processor needs none. */
static void ask_drivers(struct doctor *d, int there)
{
	char icd[MANY][SYSFILE_NAME];
	int drivers = sysfile_list(d->root, VENDORS, "", icd, MANY);
	json_t *j = opencl_list_json("", ANSWER_NS);
	const json_t *list = json_object_get(j, "devices"), *device;
	const char *note = text_of(j, "note");
	size_t i;
	json_array_foreach(list, i, device) device_finding(d, device);
	if (!json_array_size(list))
		doctor_say(d, there ? FINDING_WARNING : FINDING_NOTE,
			   "only --device opencl:N needs one; networks run on the processor without it",
			   "no OpenCL device answers (%d driver%s in " VENDORS "): %s", drivers,
			   plural_s(drivers), *note ? note : "the drivers list none");
	else if (*note)
		doctor_say(d, FINDING_NOTE, "hone devices shows the others", "of OpenCL: %s", note);
	json_decref(j);
}

void doctor_opencl(struct doctor *d)
{
	int there = look_at_nodes(d);
	if (!*d->root)
		ask_drivers(d, there);
}
