/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL and CUDA: whether the drivers are here, which devices answer, and whether this user may open the
 * nodes of the kernel's drivers. A child process asks the drivers (tools/hone/drivers.h). */
#include "tools/hone/doctor_parts.h"
#include "agent/cache/json.h"
#include "platform/base/clock.h"
#include "tools/hone/drivers.h"

#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_NS (5 * NS_PER_S)
#define VENDORS "/etc/OpenCL/vendors"

enum { MANY = 16 };

struct node {
	const char *dir, *prefix;
};
/* Nodes of graphics processors whose drivers have OpenCL. */
static const struct node opencl_nodes[] = {
    {"/dev/dri", "renderD"}, {"/dev", "mali"}, {"/dev", "kgsl-3d"}, {"/dev", "nvidiactl"}, {NULL, NULL}};
/* Those of NVIDIA: the first three of cards, the others of Jetsons. */
static const struct node cuda_nodes[] = {{"/dev", "nvidiactl"},  {"/dev", "nvidia0"}, {"/dev", "nvidia-uvm"},
					 {"/dev", "nvhost-gpu"}, {"/dev", "nvmap"},   {NULL, NULL}};

/* How this user gets the right to open a node. */
static void node_remedy(const struct stat *st, char *out, size_t n)
{
	const struct group *g = st->st_gid && st->st_mode & S_IWGRP ? getgrgid(st->st_gid) : NULL;
	if (g)
		snprintf(out, n,
			 "sudo usermod -aG %.32s $USER, then log in again; for honed: configs/examples/"
			 "devices.conf",
			 g->gr_name);
	else
		snprintf(out, n,
			 "a udev rule that gives it to a group of this user (SUBSYSTEM, GROUP=\"video\", "
			 "MODE=\"0660\")");
}

/* Returns the number of nodes, and warns of those that this user may not open. */
static int look_at_nodes(struct doctor *d, const struct node *nodes, const char *what)
{
	int there = 0;
	for (size_t i = 0; nodes[i].dir; i++) {
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
				   "this user may not open %s/%s: %s does not find the device behind it",
				   nodes[i].dir, name[k], what);
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
	const char *driver = text_of(device, "driver");
	long long cuda = (long long)json_integer_value(json_object_get(device, "cuda_version"));
	if (!json_is_true(json_object_get(device, "usable")))
		doctor_say(d, FINDING_WARNING, "another version of its driver may do what is missing",
			   "%s (%.100s) cannot be used: %.200s", text_of(device, "device"),
			   text_of(device, "name"), text_of(device, "why"));
	else if (cuda)
		doctor_good(d, "%s answers: %.100s, driver of CUDA %lld.%lld", text_of(device, "device"),
			    text_of(device, "name"), cuda / 1000, cuda % 1000 / 10);
	else
		doctor_good(d, "%s answers: %.100s, driver %.60s", text_of(device, "device"),
			    text_of(device, "name"), driver);
}

/* Says what the drivers answered. A board without a graphics processor needs none. */
static void ask_drivers(struct doctor *d, enum drivers kind, const char *what, int there)
{
	char icd[MANY][SYSFILE_NAME], drivers[64] = "", remedy[96];
	json_t *j = drivers_json(kind, "", ANSWER_NS);
	const json_t *list = json_object_get(j, "devices"), *device;
	const char *note = text_of(j, "note");
	size_t i;
	if (kind == DRIVERS_OPENCL) {
		int n = sysfile_list(d->root, VENDORS, "", icd, MANY);
		snprintf(drivers, sizeof drivers, " (%d driver%s in " VENDORS ")", n, plural_s(n));
	}
	json_array_foreach(list, i, device) device_finding(d, device);
	snprintf(remedy, sizeof remedy,
		 "only --device %s:N needs one; networks run on the processor without it",
		 drivers_name(kind));
	if (!json_array_size(list))
		doctor_say(d, there ? FINDING_WARNING : FINDING_NOTE, remedy, "no %s device answers%s: %s",
			   what, drivers, *note ? note : "the drivers list none");
	else if (*note)
		doctor_say(d, FINDING_NOTE, "hone devices shows the others", "of %s: %s", what, note);
	json_decref(j);
}

void doctor_opencl(struct doctor *d)
{
	int there = look_at_nodes(d, opencl_nodes, "OpenCL") || strstr(d->board.devices, "opencl:");
	if (!*d->root)
		ask_drivers(d, DRIVERS_OPENCL, "OpenCL", there);
}

void doctor_cuda(struct doctor *d)
{
	int there = look_at_nodes(d, cuda_nodes, "CUDA") || strstr(d->board.devices, "cuda:");
	if (!*d->root)
		ask_drivers(d, DRIVERS_CUDA, "CUDA", there);
}
