/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU of a Jetson, by the kernel's files (NVIDIA, Jetson Linux Developer Guide, "Clocks", "Thermal",
 * "Power"). Names differ between boards and releases, so that each is looked for. */
#include "platform/machine/sysfile.h"
#include "platform/machine/vitals.h"
#include "platform/run/gpu_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HWMON "/sys/class/hwmon"
#define THERMAL "/sys/class/thermal"

enum { MANY = 64, CHANNELS = 8 };

struct jetson {
	struct vitals_reader *vitals;
	int temp, load, mv, ma; /* descriptors; -1: absent */
};

static int find_zone(const char *root)
{
	char name[MANY][SYSFILE_NAME], path[256], type[32];
	int n = sysfile_list(root, THERMAL, "thermal_zone", name, MANY);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, THERMAL "/%.63s/type", name[i]);
		if (!sysfile_line(root, path, type, sizeof type) ||
		    (strncmp(type, "GPU", 3) != 0 && strncmp(type, "gpu", 3) != 0))
			continue;
		snprintf(path, sizeof path, THERMAL "/%.63s/temp", name[i]);
		return sysfile_open(root, path);
	}
	return -1;
}

static int open_channel(const char *root, const char *monitor, const char *what, int channel)
{
	char path[256];
	snprintf(path, sizeof path, HWMON "/%.63s/%s%d_input", monitor, what, channel);
	return sysfile_open(root, path);
}

/* The rail of the GPU: "VDD_GPU_SOC", "GPU", "VDD_CPU_GPU_CV". */
static void find_rail(struct jetson *j, const char *root)
{
	char name[MANY][SYSFILE_NAME], path[256], label[64];
	int n = sysfile_list(root, HWMON, "hwmon", name, MANY);
	for (int i = 0; i < n; i++)
		for (int c = 1; c <= CHANNELS; c++) {
			snprintf(path, sizeof path, HWMON "/%.63s/in%d_label", name[i], c);
			if (!sysfile_line(root, path, label, sizeof label) || !strstr(label, "GPU"))
				continue;
			j->mv = open_channel(root, name[i], "in", c);
			j->ma = open_channel(root, name[i], "curr", c);
			return;
		}
}

/* A driver for Tegra alone makes these. */
static const char *const loads[] = {"/sys/devices/gpu.0/load", "/sys/devices/platform/gpu.0/load"};

static int open_load(const char *root)
{
	int fd = -1;
	for (int i = 0; i < 2 && fd < 0; i++)
		fd = sysfile_open(root, loads[i]);
	return fd;
}

bool jetson_is(const char *root)
{
	char names[512];
	int fd = sysfile_open(root, "/proc/device-tree/compatible");
	int n = fd < 0 ? -1 : sysfile_read(fd, names, sizeof names);
	bool is = n > 0 && memmem(names, (size_t)n, "nvidia,tegra", strlen("nvidia,tegra"));
	if (fd < 0)
		fd = open_load(root), is = fd >= 0;
	if (fd >= 0)
		close(fd);
	return is;
}

int jetson_open(const char *root, struct jetson **out)
{
	struct jetson *j = calloc(1, sizeof *j);
	if (!j)
		return fail(E_NOMEM, "no memory for the state of a GPU");
	int rc = vitals_open(root, &j->vitals);
	if (rc < 0) {
		free(j);
		return rc;
	}
	j->mv = j->ma = -1;
	j->temp = find_zone(root);
	find_rail(j, root);
	j->load = open_load(root);
	*out = j;
	return E_OK;
}

void jetson_read(struct jetson *j, struct gpu_state *out)
{
	struct vitals v = {0};
	int64_t x, mv, ma;
	vitals_glance(j->vitals, 0, &v);
	*out = GPU_STATE_NONE;
	if (v.gpu_khz > 0)
		out->clock_mhz = v.gpu_khz / 1000;
	if (v.gpu_most_khz > 0)
		out->clock_most_mhz = v.gpu_most_khz / 1000;
	if (sysfile_value(j->temp, 10, &x))
		out->temp_mc = x;
	if (sysfile_value(j->load, 10, &x) && x >= 0 && x <= 1000)
		out->load_pct = (int)(x / 10);
	if (sysfile_value(j->mv, 10, &mv) && sysfile_value(j->ma, 10, &ma) && mv > 0 && mv < 1000000 &&
	    ma >= 0 && ma < 1000000)
		out->power_mw = mv * ma / 1000;
	out->slowed = v.throttle ? GPU_SLOWED_BOARD : 0;
	out->events = v.throttled;
}

void jetson_close(struct jetson *j)
{
	if (!j)
		return;
	const int fds[] = {j->temp, j->load, j->mv, j->ma};
	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	vitals_close(j->vitals);
	free(j);
}
