/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the board, from the files that the kernel exports. */
#include "tools/hone/doctor_parts.h"
#include "tools/hone/daemon.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define CPU "/sys/devices/system/cpu"
#define CPUFREQ CPU "/cpufreq"

enum { MANY = 64, TEXT = 256 };

/* ---- whether the gate would open */

/* What the honed that answers says: its own limits hold, and it does not take its jobs for others' load.
 * False: none answers, or it has not looked at the board. */
static bool gate_of_honed(struct doctor *d)
{
	const json_t *g = json_object_get(d->status, "gate");
	const char *text = daemon_text(g, "words", "");
	if (!json_is_object(g))
		return false;
	text = *text ? text : daemon_text(g, "why", "");
	if (daemon_flag(g, "open"))
		doctor_good(d, "honed may tune on the board now: %s", text);
	else
		doctor_say(d, FINDING_NOTE,
			   "honed waits for this by itself; its limits are in its configuration, [idle]",
			   "honed does not tune on the board now: %s", text);
	return true;
}

/* Asks a gate that has already settled, and that looks at the board for the second time. */
void doctor_gate(struct doctor *d)
{
	if (gate_of_honed(d))
		return;
	struct gate g;
	struct gate_verdict v;
	struct gate_limits limits = d->limits;
	struct gate_look look = {.v = &d->v, .minute = -1};
	limits.settle_ns = -1;
	limits.from_minute = limits.to_minute = 0;
	gate_init(&g, &limits);
	gate_look(&g, d->v.at_ns, &look, &v);
	look.v = &d->later;
	gate_look(&g, d->later.at_ns, &look, &v);
	if (v.open)
		doctor_good(d, "honed would tune on the board now: %s", v.text);
	else
		doctor_say(d, FINDING_NOTE,
			   "honed waits for this by itself; its limits are in honed.conf [idle]",
			   "%s would not tune on the board now: %s",
			   d->store ? "honed" : "with its default limits, honed", v.text);
}

/* ---- clocks */

static const struct governor {
	const char *name;
	enum finding_kind kind;
	const char *what;
} governors[] = {
    {"performance", FINDING_OK, "holds the highest clock"},
    {"userspace", FINDING_OK, "holds a clock"},
    {"ondemand", FINDING_NOTE, "follows the load: measurements drift, and are raced in turns for that"},
    {"schedutil", FINDING_NOTE, "follows the load: measurements drift, and are raced in turns for that"},
    {"conservative", FINDING_NOTE, "follows the load slowly: measurements drift, and the first are too slow"},
    {"interactive", FINDING_NOTE, "follows the load: measurements drift, and are raced in turns for that"},
    {"powersave", FINDING_WARNING, "holds the lowest clock: kernels are chosen for that"},
};

static void policy_path(char out[TEXT], const char *policy, const char *leaf)
{
	snprintf(out, TEXT, CPUFREQ "/%.63s/%.63s", policy, leaf);
}

static bool policy_line(const struct doctor *d, const char *policy, const char *leaf, char *out, size_t n)
{
	char path[TEXT];
	policy_path(path, policy, leaf);
	return sysfile_line(d->root, path, out, n);
}

static int64_t policy_number(const struct doctor *d, const char *policy, const char *leaf)
{
	char path[TEXT];
	int64_t v = 0;
	policy_path(path, policy, leaf);
	return sysfile_number(d->root, path, &v) && v > 0 ? v : 0;
}

/* Processors that choose their clock themselves name every governor that follows the load "powersave". */
static const struct governor *governor_of(const struct doctor *d, const char *policy, char word[32])
{
	static const struct governor unknown = {"", FINDING_NOTE, "is unknown to hone"};
	char driver[32];
	if (!policy_line(d, policy, "scaling_governor", word, 32))
		return NULL;
	if (!strcmp(word, "powersave") && policy_line(d, policy, "scaling_driver", driver, sizeof driver) &&
	    (!strcmp(driver, "intel_pstate") || !strncmp(driver, "amd", 3)))
		return &governors[2];
	for (size_t i = 0; i < sizeof governors / sizeof *governors; i++)
		if (!strcmp(governors[i].name, word))
			return &governors[i];
	return &unknown;
}

void doctor_governor(struct doctor *d)
{
	char policy[MANY][SYSFILE_NAME], word[32], worst_word[32] = "";
	int n = sysfile_list(d->root, CPUFREQ, "policy", policy, MANY);
	const struct governor *worst = NULL;
	for (int i = 0; i < n; i++) {
		const struct governor *g = governor_of(d, policy[i], word);
		if (!g || (worst && g->kind <= worst->kind))
			continue;
		worst = g;
		memcpy(worst_word, word, sizeof worst_word);
	}
	if (!worst)
		doctor_good(d, "the board has no cpufreq governors");
	else if (worst->kind == FINDING_OK)
		doctor_good(d, "governor %s %s", worst_word, worst->what);
	else
		doctor_say(d, worst->kind,
			   "where the robot allows it: echo performance | sudo tee " CPUFREQ
			   "/policy*/scaling_governor (hone never changes clocks)",
			   "governor %s %s", worst_word, worst->what);
}

void doctor_clock(struct doctor *d)
{
	char policy[MANY][SYSFILE_NAME];
	int n = sysfile_list(d->root, CPUFREQ, "policy", policy, MANY), capped = 0;
	int64_t allowed = 0, able = 0;
	for (int i = 0; i < n && !capped; i++) {
		allowed = policy_number(d, policy[i], "scaling_max_freq");
		able = policy_number(d, policy[i], "cpuinfo_max_freq");
		capped = allowed > 0 && allowed < able;
	}
	if (capped)
		doctor_say(
		    d, FINDING_NOTE,
		    d->jetson ? "a power mode does this: sudo nvpmodel -q; results are kept for each mode"
			      : "if that is not intended: cpupower frequency-info shows which limit applies",
		    "the clock may reach only %" PRId64 " of %" PRId64 " MHz", allowed / 1000, able / 1000);
	else if (d->v.clock_held && d->v.clock_khz < d->v.clock_most_khz / 10 * 9)
		doctor_say(d, FINDING_WARNING, "something else holds it down: see heat and throttle",
			   "the clock is held at %" PRId64 " of %" PRId64 " MHz (all policies)",
			   d->v.clock_khz / 1000, d->v.clock_most_khz / 1000);
	else if (n)
		doctor_good(d, "the clock may reach its maximum");
}

void doctor_mode(struct doctor *d)
{
	char mode[64];
	if (sysfile_line(d->root, "/var/lib/nvpmodel/status", mode, sizeof mode))
		doctor_say(d, FINDING_NOTE,
			   "tune in the mode that the robot drives in (sudo nvpmodel -m N); nothing to do if "
			   "this is it",
			   "power mode %s: results are kept for each mode", mode);
	else if (d->jetson)
		doctor_say(d, FINDING_WARNING, "let everybody read /var/lib/nvpmodel/status",
			   "the power mode cannot be read: results of all modes are mixed");
}

void doctor_cores(struct doctor *d)
{
	char online[64], present[64], isolated[64];
	bool on = sysfile_line(d->root, CPU "/online", online, sizeof online);
	if (on && sysfile_line(d->root, CPU "/present", present, sizeof present) && strcmp(online, present))
		doctor_say(d, FINDING_NOTE,
			   d->jetson ? "the power mode does this (nvpmodel -q)"
				     : "if that is not intended: chcpu -e CPUS",
			   "cores %s of %s are online; threads are chosen for those", online, present);
	if (sysfile_line(d->root, CPU "/isolated", isolated, sizeof isolated))
		doctor_say(d, FINDING_NOTE, "to use them, take isolcpus= off the kernel's command line",
			   "cores %s are isolated for the robot: hone leaves them alone", isolated);
	else if (on)
		doctor_good(d, "cores %s are online, none is isolated", online);
}

/* ---- heat and power */

void doctor_heat(struct doctor *d)
{
	const struct vitals *v = &d->v;
	int need = d->limits.headroom_mc ? d->limits.headroom_mc : 15000;
	if (!(v->has & VITAL_HEAT))
		doctor_say(d, FINDING_NOTE,
			   "nothing to do where the board cannot get hot (a virtual machine)",
			   "no temperature sensor found: the thermal limit is off");
	else if (v->headroom_mc < need)
		doctor_say(d, v->headroom_mc < 0 ? FINDING_PROBLEM : FINDING_WARNING,
			   "cool it (heat sink, fan, shade), or lower headroom= in honed.conf",
			   "zone %s is at %.1f C, %.1f C from its limit: tuning waits for %.0f C", v->zone,
			   v->temp_mc / 1e3, v->headroom_mc / 1e3, need / 1e3);
	else if (v->trip_assumed)
		doctor_say(d, FINDING_NOTE, "nothing to do; headroom= in honed.conf shifts the limit",
			   "zone %s is at %.1f C; the board reports no trip point, so 85 C is assumed",
			   v->zone, v->temp_mc / 1e3);
	else
		doctor_good(d, "zone %s is at %.1f C, %.1f C below its limit", v->zone, v->temp_mc / 1e3,
			    v->headroom_mc / 1e3);
}

static const char *throttle_remedy(unsigned by)
{
	if (by & THROTTLE_VOLTAGE)
		return "the power supply or its cable is too weak: 5.1 V, 3 A (Pi 5: 5 A) and a short thick "
		       "cable";
	if (by & THROTTLE_CURRENT)
		return "it draws more current than the board allows: choose a lower power mode, or a "
		       "stronger supply";
	return "it was too hot: heat sink, fan, shade";
}

void doctor_throttle(struct doctor *d)
{
	const struct vitals *v = &d->later;
	char what[160];
	if (v->throttle)
		doctor_say(d, v->throttle & THROTTLE_VOLTAGE ? FINDING_PROBLEM : FINDING_WARNING,
			   throttle_remedy(v->throttle), "the board throttles now: %s",
			   vitals_throttle_text(v->throttle, what, sizeof what));
	else if (v->throttled > 0)
		doctor_say(d, FINDING_WARNING, throttle_remedy(v->throttled_by),
			   "the board throttled since it was started: %s",
			   vitals_throttle_text(v->throttled_by, what, sizeof what));
	else if (v->has & VITAL_THROTTLE)
		doctor_good(d, "the board does not throttle, and has not since it was started");
}

void doctor_battery(struct doctor *d)
{
	int least = d->limits.battery_pct ? d->limits.battery_pct : 30;
	if (!(d->v.has & VITAL_BATTERY))
		return;
	if (d->v.discharging && d->v.battery_pct < least)
		doctor_say(d, FINDING_WARNING, "charge it, or lower battery= in honed.conf",
			   "the battery is at %d %% and discharging: tuning waits for %d %%",
			   d->v.battery_pct, least);
	else
		doctor_good(d, "the battery is at %d %%%s", d->v.battery_pct,
			    d->v.discharging ? " and discharging" : "");
}

/* ---- memory */

void doctor_pressure(struct doctor *d)
{
	if (d->v.has & VITAL_PRESSURE)
		doctor_good(d, "the kernel reports pressure (PSI)");
	else
		doctor_say(d, FINDING_NOTE,
			   d->raspberry
			       ? "add psi=1 to the line in /boot/firmware/cmdline.txt and start again"
			       : "add psi=1 to the kernel's command line, if it was built with PSI",
			   "the kernel does not report pressure (PSI is off): the load comes from "
			   "/proc/stat alone");
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = words; (at = strstr(at, word)); at += n)
		if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
	return false;
}

static bool folder_is_there(const struct doctor *d, const char *path)
{
	char at[4096];
	struct stat st;
	return snprintf(at, sizeof at, "%s%s", d->root, path) < (int)sizeof at && stat(at, &st) == 0 &&
	       S_ISDIR(st.st_mode);
}

void doctor_memory_group(struct doctor *d)
{
	char controllers[TEXT];
	if ((sysfile_line(d->root, "/sys/fs/cgroup/cgroup.controllers", controllers, sizeof controllers) &&
	     has_word(controllers, "memory")) ||
	    folder_is_there(d, "/sys/fs/cgroup/memory"))
		doctor_good(d, "the memory cgroup is on");
	else
		doctor_say(
		    d, FINDING_NOTE,
		    d->raspberry ? "add cgroup_enable=memory to /boot/firmware/cmdline.txt and start again"
				 : "add cgroup_enable=memory to the kernel's command line",
		    "the memory cgroup is off: MemoryMax= in units does nothing; workers limit themselves");
}

void doctor_memory(struct doctor *d)
{
	int64_t need = d->limits.memory_bytes ? d->limits.memory_bytes : INT64_C(128) << 20;
	if (!(d->v.has & VITAL_MEMORY))
		return;
	if (d->v.memory_free_bytes < need)
		doctor_say(d, FINDING_WARNING, "stop what is not needed, or lower memory= in honed.conf",
			   "%" PRId64 " of %" PRId64 " MiB of memory are free: tuning waits for %" PRId64
			   " MiB",
			   d->v.memory_free_bytes >> 20, d->v.memory_bytes >> 20, need >> 20);
	else
		doctor_good(d, "%" PRId64 " of %" PRId64 " MiB of memory are free",
			    d->v.memory_free_bytes >> 20, d->v.memory_bytes >> 20);
}

/* Whether the swap lies on a memory card: the disk that holds the file or the partition. */
static bool is_on_card(const struct doctor *d, const char *name)
{
	char path[512], at[4096];
	struct stat st;
	if (!strncmp(name, "/dev/", 5))
		return strstr(name, "mmcblk");
	if (snprintf(path, sizeof path, "%.255s%.255s", d->root, name) < 0 || stat(path, &st) < 0)
		return false;
	snprintf(path, sizeof path, "%.255s/sys/dev/block/%u:%u", d->root, major(st.st_dev),
		 minor(st.st_dev));
	return realpath(path, at) && strstr(at, "mmcblk");
}

void doctor_swap(struct doctor *d)
{
	char text[2048], *rest = text, name[256];
	int fd = sysfile_open(d->root, "/proc/swaps"), kept = 0;
	sysfile_read(fd, text, sizeof text);
	if (fd >= 0)
		close(fd);
	strsep(&rest, "\n");
	for (char *line; (line = strsep(&rest, "\n"));) {
		if (sscanf(line, "%255s", name) != 1 || strstr(name, "/zram"))
			continue;
		kept++;
		if (is_on_card(d, name))
			doctor_say(d, FINDING_WARNING,
				   d->raspberry ? "sudo dphys-swapfile swapoff && sudo systemctl disable "
						  "dphys-swapfile, or swap to zram"
						: "swap to zram instead",
				   "%s swaps to a card: slow, and it wears out", name);
	}
	if (!kept)
		doctor_good(d, "nothing is swapped to a disk");
	else if (strcmp(d->n ? d->finding[d->n - 1].check : "", d->check))
		doctor_say(d, FINDING_NOTE, "zram spares it", "memory is swapped to a disk");
}

void doctor_time(struct doctor *d)
{
	char name[1][SYSFILE_NAME];
	if (sysfile_list(d->root, "/sys/class/rtc", "rtc", name, 1) > 0)
		doctor_good(d, "a clock runs while the power is off");
	else
		doctor_say(d, FINDING_NOTE,
			   "hours= waits for the network's time (systemd-timesyncd); hone itself needs no "
			   "time of day",
			   "no clock runs while the power is off: the time of day is wrong after a start");
}
