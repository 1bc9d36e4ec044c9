/* SPDX-License-Identifier: Apache-2.0 */
/* Throttling, and clocks. */
#include "platform/machine/vitals_parts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PLATFORM "/sys/devices/platform"
#define HWMON "/sys/class/hwmon"
#define THERMAL "/sys/class/thermal"
#define CPUFREQ "/sys/devices/system/cpu/cpufreq"
#define DEVFREQ "/sys/class/devfreq"

enum { MANY = 64 };

/* /sys/devices/platform/soc/soc:firmware; on a Pi 5 soc@107c000000/soc@107c000000:firmware. */
static int open_firmware(const char *root)
{
	char soc[MANY][SYSFILE_NAME], path[256];
	int n = sysfile_list(root, PLATFORM, "soc", soc, MANY), fd = -1;
	for (int i = 0; i < n && fd < 0; i++) {
		snprintf(path, sizeof path, PLATFORM "/%.63s/%.63s:firmware/get_throttled", soc[i], soc[i]);
		fd = sysfile_open(root, path);
	}
	return fd;
}

static void open_hwmon(struct brakes *b, const char *root, const char *name)
{
	static const char *const counters[] = {"oc1_event_cnt", "oc2_event_cnt", "oc3_event_cnt"};
	char word[32];
	for (int i = 0; i < 3 && b->ncounters < COUNTERS; i++) {
		int fd = vitals_open_leaf(root, HWMON, name, counters[i]);
		if (fd >= 0)
			b->counter[b->ncounters++] = (struct counter){.fd = fd, .last = -1};
	}
	if (b->alarm < 0 && vitals_leaf_line(root, HWMON, name, "name", word, sizeof word) &&
	    !strcmp(word, "rpi_volt"))
		b->alarm = vitals_open_leaf(root, HWMON, name, "in0_lcrit_alarm");
}

/* Excludes fans and backlights. The list has names of kernels before 5.13 and since; the alerts are
 * Jetson's. */
static bool cools_processor(const char *type)
{
	static const char *const kinds[] = {"Processor",
					    "cpufreq",
					    "thermal-cpufreq-",
					    "thermal-devfreq-",
					    "thermal-idle",
					    "devfreq-",
					    "idle-",
					    "intel_powerclamp",
					    NULL};
	for (int i = 0; kinds[i]; i++)
		if (!strncmp(type, kinds[i], strlen(kinds[i])))
			return true;
	return strstr(type, "-throttle-alert");
}

void brakes_open(struct brakes *b, const char *root)
{
	char name[MANY][SYSFILE_NAME], type[32];
	b->firmware = open_firmware(root);
	b->alarm = -1;
	int n = sysfile_list(root, HWMON, "hwmon", name, MANY);
	for (int i = 0; i < n; i++)
		open_hwmon(b, root, name[i]);
	n = sysfile_list(root, THERMAL, "cooling_device", name, MANY);
	for (int i = 0; i < n && b->ncoolers < COOLERS; i++) {
		if (!vitals_leaf_line(root, THERMAL, name[i], "type", type, sizeof type) ||
		    !cools_processor(type))
			continue;
		int fd = vitals_open_leaf(root, THERMAL, name[i], "cur_state");
		if (fd >= 0)
			b->cooler[b->ncoolers++] = fd;
	}
}

/* Another reader (rpi_volt) may clear sticky bits: only their rise is an event. */
static unsigned read_firmware(struct brakes *b, unsigned *sticky)
{
	int64_t bits = 0;
	*sticky = b->sticky;
	if (!sysfile_value(b->firmware, 16, &bits))
		return 0;
	*sticky = bits >> 16 & 15;
	return bits & 15;
}

static bool count_events(struct brakes *b, int64_t *sum)
{
	bool rose = false;
	for (int i = 0; i < b->ncounters; i++) {
		struct counter *c = &b->counter[i];
		int64_t v = c->last;
		if (sysfile_value(c->fd, 10, &v) && (v < 0 || v > INT64_MAX / 64))
			v = c->last;
		rose |= c->last >= 0 && v > c->last;
		c->last = v;
		*sum += v > 0 ? v : 0;
	}
	return rose;
}

static bool held_back(const struct brakes *b)
{
	bool any = false;
	for (int i = 0; i < b->ncoolers; i++) {
		int64_t state;
		any |= sysfile_value(b->cooler[i], 10, &state) && state > 0;
	}
	return any;
}

void brakes_read(struct brakes *b, struct vitals *v)
{
	unsigned sticky, now = read_firmware(b, &sticky), rose = sticky & ~b->sticky;
	int64_t alarm = 0;
	if (sysfile_value(b->alarm, 10, &alarm) && alarm == 1)
		now |= THROTTLE_VOLTAGE;
	if (held_back(b))
		now |= THROTTLE_COOLING;
	b->flips += __builtin_popcount(rose) + __builtin_popcount(now & ~b->now);
	v->throttled = b->flips;
	v->throttle = now | (b->looked ? rose : 0);
	if (count_events(b, &v->throttled))
		v->throttle |= THROTTLE_CURRENT;
	if (v->throttled > b->flips)
		b->ever |= THROTTLE_CURRENT;
	v->throttled_by = b->ever |= now | sticky;
	b->sticky = sticky;
	b->now = now;
	b->looked = true;
	if (b->firmware >= 0 || b->alarm >= 0 || b->ncounters || b->ncoolers)
		v->has |= VITAL_THROTTLE;
}

static bool is_gpu(const char *root, const char *name)
{
	static const char *const kinds[] = {"gv11b", "gp10b", "ga10b", "gm20b", "gpu"};
	char word[64];
	if (!vitals_leaf_line(root, DEVFREQ, name, "device/of_node/name", word, sizeof word))
		snprintf(word, sizeof word, "%.63s", name);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strstr(word, kinds[i]))
			return true;
	return false;
}

/* Drivers of processors that choose their clock themselves. */
static bool follows_itself(const char *root, const char *policy)
{
	char word[32];
	return vitals_leaf_line(root, CPUFREQ, policy, "scaling_driver", word, sizeof word) &&
	       (!strncmp(word, "intel_", 6) || !strncmp(word, "amd", 3));
}

void clocks_open(struct clocks *c, const char *root)
{
	char name[MANY][SYSFILE_NAME];
	int n = sysfile_list(root, CPUFREQ, "policy", name, POLICIES);
	for (int i = 0; i < n; i++)
		c->policy[c->n++] =
		    (struct policy){vitals_open_leaf(root, CPUFREQ, name[i], "scaling_cur_freq"),
				    vitals_open_leaf(root, CPUFREQ, name[i], "scaling_max_freq"),
				    vitals_open_leaf(root, CPUFREQ, name[i], "scaling_governor")};
	for (int i = 0; i < n; i++)
		c->varies |= follows_itself(root, name[i]);
	c->gpu_now = c->gpu_most = -1;
	n = sysfile_list(root, DEVFREQ, "", name, MANY);
	for (int i = 0; i < n && c->gpu_most < 0; i++)
		if (is_gpu(root, name[i])) {
			c->gpu_now = vitals_open_leaf(root, DEVFREQ, name[i], "cur_freq");
			c->gpu_most = vitals_open_leaf(root, DEVFREQ, name[i], "max_freq");
		}
	clocks_look(c);
}

void clocks_look(struct clocks *c)
{
	c->held = c->n > 0 && !c->varies;
	for (int i = 0; i < c->n; i++) {
		char word[32];
		sysfile_read(c->policy[i].governor, word, sizeof word);
		c->held &= !strncmp(word, "performance", 11) || !strncmp(word, "userspace", 9);
	}
}

/* The clock in kHz; devfreq gives Hz. */
static bool clock_value(int fd, int64_t scale, int64_t *khz)
{
	int64_t v;
	if (!sysfile_value(fd, 10, &v) || v <= 0 || v / scale > 100000000)
		return false;
	*khz += v / scale;
	return true;
}

void clocks_read(const struct clocks *c, struct vitals *v)
{
	bool told = c->n > 0;
	for (int i = 0; i < c->n; i++) {
		told &= clock_value(c->policy[i].now, 1, &v->clock_khz);
		told &= clock_value(c->policy[i].most, 1, &v->clock_most_khz);
	}
	if (!told)
		v->clock_khz = v->clock_most_khz = 0;
	v->clock_held = told && c->held;
	told |= clock_value(c->gpu_most, 1000, &v->gpu_most_khz);
	clock_value(c->gpu_now, 1000, &v->gpu_khz);
	if (told)
		v->has |= VITAL_CLOCK;
}
