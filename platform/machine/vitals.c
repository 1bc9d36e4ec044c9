/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/vitals_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const throttle_words[] = {
    "under-voltage", "clock capped by the firmware",  "slowed down by the firmware", "soft temperature limit",
    "over-current",  "cooling holds a processor back"};
enum { THROTTLES = sizeof throttle_words / sizeof *throttle_words };

int vitals_open_leaf(const char *root, const char *dir, const char *name, const char *leaf)
{
	char path[512];
	return snprintf(path, sizeof path, "%s/%s/%s", dir, name, leaf) < (int)sizeof path
		   ? sysfile_open(root, path)
		   : -1;
}

bool vitals_leaf_line(const char *root, const char *dir, const char *name, const char *leaf, char *out, int n)
{
	char path[512];
	*out = 0;
	return snprintf(path, sizeof path, "%s/%s/%s", dir, name, leaf) < (int)sizeof path &&
	       sysfile_line(root, path, out, (size_t)n);
}

bool vitals_leaf_number(const char *root, const char *dir, const char *name, const char *leaf, int64_t *out)
{
	char path[512];
	return snprintf(path, sizeof path, "%s/%s/%s", dir, name, leaf) < (int)sizeof path &&
	       sysfile_number(root, path, out);
}

int vitals_open(const char *sysroot, struct vitals_reader **out)
{
	struct vitals_reader *r = calloc(1, sizeof *r);
	if (!r)
		return fail(E_NOMEM, "no memory to read the board's sensors");
	load_open(&r->load, sysroot);
	brakes_open(&r->brakes, sysroot);
	heat_open(&r->heat, sysroot, r->brakes.firmware >= 0 || r->brakes.alarm >= 0);
	clocks_open(&r->clocks, sysroot);
	batteries_open(&r->batteries, sysroot);
	*out = r;
	return E_OK;
}

static void shut(int fd)
{
	if (fd >= 0)
		close(fd);
}

void vitals_close(struct vitals_reader *r)
{
	if (!r)
		return;
	shut(r->load.stat);
	shut(r->load.meminfo);
	for (int i = 0; i < 3; i++)
		shut(r->load.pressure[i]);
	for (int i = 0; i < r->heat.n; i++)
		shut(r->heat.zone[i].fd);
	shut(r->brakes.firmware);
	shut(r->brakes.alarm);
	for (int i = 0; i < r->brakes.ncounters; i++)
		shut(r->brakes.counter[i].fd);
	for (int i = 0; i < r->brakes.ncoolers; i++)
		shut(r->brakes.cooler[i]);
	for (int i = 0; i < r->clocks.n; i++) {
		shut(r->clocks.policy[i].now);
		shut(r->clocks.policy[i].most);
		shut(r->clocks.policy[i].governor);
	}
	shut(r->clocks.gpu_now);
	shut(r->clocks.gpu_most);
	for (int i = 0; i < r->batteries.n; i++) {
		shut(r->batteries.battery[i].capacity);
		shut(r->batteries.battery[i].status);
	}
	free(r);
}

void vitals_glance(struct vitals_reader *r, int64_t now_ns, struct vitals *out)
{
	*out = (struct vitals){.at_ns = now_ns};
	brakes_read(&r->brakes, out);
	clocks_read(&r->clocks, out);
}

void vitals_read(struct vitals_reader *r, int64_t now_ns, struct vitals *out)
{
	clocks_look(&r->clocks);
	vitals_glance(r, now_ns, out);
	load_read(&r->load, out);
	heat_read(&r->heat, out);
	batteries_read(&r->batteries, out);
}

const char *vitals_throttle_text(unsigned throttle, char *out, int n)
{
	int at = 0;
	*out = 0;
	for (int i = 0; i < THROTTLES; i++)
		if (throttle >> i & 1 && at < n)
			at += snprintf(out + at, (size_t)(n - at), "%s%s", at ? ", " : "", throttle_words[i]);
	return out;
}

/* Whether a held clock fell by at least a twentieth: clocks from counters (Tegra) have a smaller error. */
static bool fell(const struct vitals *before, const struct vitals *after)
{
	return before->clock_held && after->clock_held &&
	       after->clock_khz < before->clock_khz - before->clock_khz / 20;
}

const char *vitals_taint(const struct vitals *before, const struct vitals *after)
{
	unsigned both = before->has & after->has;
	if (both & VITAL_THROTTLE && before->throttled != after->throttled)
		return "the board throttled meanwhile";
	if (both & VITAL_THROTTLE && before->throttle != after->throttle)
		return "the board began or ceased to throttle meanwhile";
	if (both & VITAL_CLOCK && before->clock_most_khz != after->clock_most_khz)
		return "the processor's highest clock was changed meanwhile";
	if (both & VITAL_CLOCK && before->gpu_most_khz != after->gpu_most_khz)
		return "the GPU's highest clock was changed meanwhile";
	return both & VITAL_CLOCK && fell(before, after) ? "the processor's clock fell meanwhile" : NULL;
}
