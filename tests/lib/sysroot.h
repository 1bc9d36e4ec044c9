/* SPDX-License-Identifier: Apache-2.0 */
/* Boards as folders (a sysroot each) for code that reads the kernel's files below a root. They are made below
 * /tmp from tables, changed in place (a reader with an open file sees that), and removed by sysroot_end. */
#ifndef TESTS_SYSROOT_H
#define TESTS_SYSROOT_H

#include "platform/base/file.h"
#include "tests/lib/test.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct sysroot {
	char root[64];
};

struct sysroot_file {
	const char *path, *text;
};

#define CPU_DIR "/sys/devices/system/cpu/"
#define HEAT_DIR "/sys/class/thermal/"

static inline const char *sysroot_path(const struct sysroot *b, const char *path)
{
	static char at[4][512];
	static int next;
	char *p = at[next++ % 4];
	snprintf(p, sizeof at[0], "%s%s", b->root, path);
	return p;
}

/* Makes the folders that are missing; an existing file is changed in place. */
__attribute__((format(printf, 3, 4))) static inline void sysroot_set(const struct sysroot *b,
								     const char *path, const char *fmt, ...)
{
	char folder[512];
	snprintf(folder, sizeof folder, "%s", sysroot_path(b, path));
	*strrchr(folder, '/') = 0;
	for (char *at = folder + strlen(b->root) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = 0;
		mkdir(folder, 0755);
	}
	mkdir(folder, 0755);
	FILE *f = fopen(sysroot_path(b, path), "w");
	if (!f)
		abort();
	va_list ap;
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
}

static inline void sysroot_fill(const struct sysroot *b, const struct sysroot_file *f)
{
	for (; f->path; f++)
		sysroot_set(b, f->path, "%s", f->text);
}

static inline void sysroot_gone(const struct sysroot *b, const char *path)
{
	unlink(sysroot_path(b, path));
}

static inline void sysroot_begin(struct sysroot *b)
{
	snprintf(b->root, sizeof b->root, "/tmp/hone-board-XXXXXX");
	if (!mkdtemp(b->root))
		abort();
}

static inline void sysroot_end(struct sysroot *b)
{
	char cmd[192];
	snprintf(cmd, sizeof cmd, "chmod -R u+rwX '%s'; rm -rf '%s'", b->root, b->root);
	if (system(cmd) != 0)
		fprintf(stderr, "cannot remove %s\n", b->root);
}

/* ---- values that change: ticks of 10 ms since boot, MiB, milli-degrees */

static inline void sysroot_load(const struct sysroot *b, int cpus, int64_t busy_ticks, int64_t idle_ticks)
{
	char text[4096];
	int n = snprintf(text, sizeof text, "cpu  %lld 0 0 %lld 0 0 0 0 0 0\n", (long long)busy_ticks,
			 (long long)idle_ticks);
	for (int i = 0; i < cpus; i++)
		n += snprintf(text + n, sizeof text - (size_t)n, "cpu%d %lld 0 0 %lld 0 0 0 0 0 0\n", i,
			      (long long)busy_ticks / cpus, (long long)idle_ticks / cpus);
	sysroot_set(b, "/proc/stat", "%sintr 12345 0 0\nctxt 6789\nbtime 1700000000\nprocs_running 1\n",
		    text);
}

static inline void sysroot_memory(const struct sysroot *b, int total_mb, int available_mb)
{
	sysroot_set(b, "/proc/meminfo",
		    "MemTotal:       %8d kB\nMemFree:        %8d kB\nMemAvailable:   %8d kB\n"
		    "Buffers:           20000 kB\nSwapTotal:             0 kB\n",
		    total_mb * 1024, available_mb * 512, available_mb * 1024);
}

static inline void sysroot_pressure(const struct sysroot *b, int64_t cpu_us, int64_t io_us, int64_t memory_us)
{
	const char *name[] = {"/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"};
	int64_t us[] = {cpu_us, io_us, memory_us};
	for (int i = 0; i < 3; i++)
		sysroot_set(b, name[i],
			    "some avg10=0.00 avg60=0.00 avg300=0.00 total=%lld\n"
			    "full avg10=0.00 avg60=0.00 avg300=0.00 total=%lld\n",
			    (long long)us[i], (long long)us[i] / 2);
}

static inline void sysroot_temp(const struct sysroot *b, int zone, int mc)
{
	char path[96];
	snprintf(path, sizeof path, HEAT_DIR "thermal_zone%d/temp", zone);
	sysroot_set(b, path, "%d\n", mc);
}

/* trip: type of trip point 0, the only one; NULL: none */
static inline void sysroot_zone(const struct sysroot *b, int zone, const char *type, int mc, const char *trip,
				int trip_mc)
{
	char path[96];
	sysroot_temp(b, zone, mc);
	snprintf(path, sizeof path, HEAT_DIR "thermal_zone%d/type", zone);
	sysroot_set(b, path, "%s\n", type);
	if (!trip)
		return;
	snprintf(path, sizeof path, HEAT_DIR "thermal_zone%d/trip_point_0_type", zone);
	sysroot_set(b, path, "%s\n", trip);
	snprintf(path, sizeof path, HEAT_DIR "thermal_zone%d/trip_point_0_temp", zone);
	sysroot_set(b, path, "%d\n", trip_mc);
}

static inline void sysroot_clock(const struct sysroot *b, int policy, const char *governor, int khz,
				 int most_khz, int hardware_khz)
{
	const struct {
		const char *leaf;
		int v;
	} number[] = {
	    {"scaling_cur_freq", khz}, {"scaling_max_freq", most_khz}, {"cpuinfo_max_freq", hardware_khz}};
	char path[128];
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof path, CPU_DIR "cpufreq/policy%d/%s", policy, number[i].leaf);
		sysroot_set(b, path, "%d\n", number[i].v);
	}
	snprintf(path, sizeof path, CPU_DIR "cpufreq/policy%d/scaling_governor", policy);
	sysroot_set(b, path, "%s\n", governor);
}

/* ---- boards; each is cool and idle, with memory to spare */

#define PI_THROTTLED "/sys/devices/platform/soc/soc:firmware/get_throttled"

/* Raspberry Pi 4, 4 GB, as Raspberry Pi OS sets it up: no PSI, no memory cgroup. */
static inline void sysroot_pi4(struct sysroot *b)
{
	static const struct sysroot_file files[] = {
	    {"/proc/cmdline",
	     "coherent_pool=1M 8250.nr_uarts=0 snd_bcm2835.enable_headphones=0 cgroup_disable=memory "
	     "console=tty1 root=PARTUUID=abcd-02 rootfstype=ext4 rootwait\n"},
	    {"/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/var/swap                     "
			    "          file\t\t102396\t\t0\t\t-2\n"},
	    {"/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io pids\n"},
	    {"/sys/firmware/devicetree/base/model", "Raspberry Pi 4 Model B Rev 1.4"},
	    {PI_THROTTLED, "0\n"},
	    {"/sys/class/hwmon/hwmon0/name", "cpu_thermal\n"},
	    {"/sys/class/hwmon/hwmon1/name", "rpi_volt\n"},
	    {"/sys/class/hwmon/hwmon1/in0_lcrit_alarm", "0\n"},
	    {HEAT_DIR "cooling_device0/type", "rpi-poe-fan\n"},
	    {HEAT_DIR "cooling_device0/cur_state", "3\n"},
	    {CPU_DIR "online", "0-3\n"},
	    {CPU_DIR "present", "0-3\n"},
	    {CPU_DIR "isolated", "\n"},
	    {CPU_DIR "cpufreq/policy0/scaling_driver", "cpufreq-dt\n"},
	    {NULL, NULL},
	};
	sysroot_begin(b);
	sysroot_fill(b, files);
	sysroot_load(b, 4, 10000, 990000);
	sysroot_memory(b, 3792, 3200);
	sysroot_zone(b, 0, "cpu-thermal", 48200, "critical", 110000);
	sysroot_clock(b, 0, "ondemand", 600000, 1800000, 1800000);
}

/* The same with psi=1 and the memory cgroup. */
static inline void sysroot_pi4_psi(struct sysroot *b)
{
	sysroot_pi4(b);
	sysroot_set(b, "/proc/cmdline",
		    "console=tty1 root=PARTUUID=abcd-02 rootwait psi=1 cgroup_enable=memory\n");
	sysroot_set(b, "/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
	sysroot_pressure(b, 0, 0, 0);
}

static inline void sysroot_jetson(struct sysroot *b, const char *model, const char *gpu)
{
	static const struct sysroot_file files[] = {
	    {"/proc/cmdline", "root=/dev/mmcblk0p1 rw rootwait rootfstype=ext4 console=ttyTCU0,115200n8\n"},
	    {"/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n"},
	    {"/sys/class/hwmon/hwmon2/name", "soctherm_oc\n"},
	    {"/sys/class/hwmon/hwmon2/oc1_event_cnt", "0\n"},
	    {"/sys/class/hwmon/hwmon2/oc2_event_cnt", "0\n"},
	    {"/sys/class/hwmon/hwmon2/oc3_event_cnt", "0\n"},
	    {HEAT_DIR "cooling_device0/type", "pwm-fan\n"},
	    {HEAT_DIR "cooling_device0/cur_state", "2\n"},
	    {HEAT_DIR "cooling_device1/type", "thermal-cpufreq-0\n"},
	    {HEAT_DIR "cooling_device1/cur_state", "0\n"},
	    {HEAT_DIR "cooling_device2/type", "thermal-devfreq-0\n"},
	    {HEAT_DIR "cooling_device2/cur_state", "0\n"},
	    {CPU_DIR "online", "0-3\n"},
	    {CPU_DIR "present", "0-5\n"},
	    {CPU_DIR "isolated", "\n"},
	    {"/var/lib/nvpmodel/status", "pmode:0002 fmode:fanNull\n"},
	    {NULL, NULL},
	};
	char path[128];
	sysroot_begin(b);
	sysroot_fill(b, files);
	sysroot_set(b, "/sys/firmware/devicetree/base/model", "%s", model);
	snprintf(path, sizeof path, "/sys/class/devfreq/17000000.%s/cur_freq", gpu);
	sysroot_set(b, path, "114750000\n");
	snprintf(path, sizeof path, "/sys/class/devfreq/17000000.%s/max_freq", gpu);
	sysroot_set(b, path, "1109250000\n");
	snprintf(path, sizeof path, "/sys/class/devfreq/17000000.%s/device/of_node/name", gpu);
	sysroot_set(b, path, "%s", gpu);
	sysroot_set(b, "/sys/class/devfreq/15880000.nvdla0/max_freq", "1\n");
	sysroot_load(b, 4, 10000, 990000);
	sysroot_memory(b, 7765, 5000);
	sysroot_pressure(b, 0, 0, 0);
	sysroot_clock(b, 0, "schedutil", 1190400, 1420800, 1907200);
	sysroot_clock(b, 2, "schedutil", 1190400, 1420800, 1907200);
}

static inline void sysroot_trip(const struct sysroot *b, int zone, int trip, const char *type, int mc)
{
	char path[96];
	snprintf(path, sizeof path, HEAT_DIR "thermal_zone%d/trip_point_%d_type", zone, trip);
	sysroot_set(b, path, "%s\n", type);
	snprintf(path, sizeof path, HEAT_DIR "thermal_zone%d/trip_point_%d_temp", zone, trip);
	sysroot_set(b, path, "%d\n", mc);
}

static inline void sysroot_xavier_nx(struct sysroot *b)
{
	sysroot_jetson(b, "NVIDIA Jetson Xavier NX Developer Kit", "gv11b");
	sysroot_zone(b, 0, "CPU-therm", 41500, "critical", 96500);
	sysroot_trip(b, 0, 1, "hot", 93000);
	sysroot_trip(b, 0, 2, "passive", 90500);
	sysroot_trip(b, 0, 3, "active", 35000);
	sysroot_zone(b, 1, "GPU-therm", 41000, "critical", 98000);
	sysroot_trip(b, 1, 1, "passive", 91000);
	sysroot_set(b, HEAT_DIR "thermal_zone1/temp", "%s",
		    ""); /* no power: an empty file, as reading gives EAGAIN */
	sysroot_zone(b, 2, "PMIC-Die", 100000, "critical", 120000);
	sysroot_zone(b, 3, "thermal-fan-est", 41900, "active", 50000);
	sysroot_zone(b, 4, "AUX-therm", 40500, "critical", -274000);
}

static inline void sysroot_orin(struct sysroot *b)
{
	sysroot_jetson(b, "NVIDIA Jetson Orin Nano Developer Kit", "ga10b");
	sysroot_zone(b, 0, "cpu-thermal", 47000, "passive", 99000);
	sysroot_trip(b, 0, 1, "critical", 104500);
	sysroot_zone(b, 1, "gpu-thermal", 46000, "passive", 99000);
	sysroot_zone(b, 8, "tj-thermal", 47500, "passive", 99000);
	sysroot_clock(b, 0, "performance", 1510400, 1510400, 1510400);
	sysroot_clock(b, 2, "performance", 1510400, 1510400, 1510400);
}

static inline void sysroot_laptop(struct sysroot *b)
{
	static const struct sysroot_file files[] = {
	    {"/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/mapper/vg-root ro quiet\n"},
	    {"/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n"},
	    {"/sys/class/power_supply/AC/type", "Mains\n"},
	    {"/sys/class/power_supply/AC/online", "0\n"},
	    {"/sys/class/power_supply/BAT0/type", "Battery\n"},
	    {"/sys/class/power_supply/BAT0/capacity", "83\n"},
	    {"/sys/class/power_supply/BAT0/status", "Discharging\n"},
	    {"/sys/class/power_supply/hidpp_battery_0/type", "Battery\n"},
	    {"/sys/class/power_supply/hidpp_battery_0/scope", "Device\n"},
	    {"/sys/class/power_supply/hidpp_battery_0/capacity", "5\n"},
	    {"/sys/class/power_supply/hidpp_battery_0/status", "Discharging\n"},
	    {HEAT_DIR "cooling_device0/type", "Processor\n"},
	    {HEAT_DIR "cooling_device0/cur_state", "0\n"},
	    {HEAT_DIR "cooling_device1/type", "intel_powerclamp\n"},
	    {HEAT_DIR "cooling_device1/cur_state", "-1\n"},
	    {HEAT_DIR "cooling_device2/type", "Fan\n"},
	    {HEAT_DIR "cooling_device2/cur_state", "1\n"},
	    {CPU_DIR "online", "0-7\n"},
	    {CPU_DIR "present", "0-7\n"},
	    {CPU_DIR "cpufreq/policy0/scaling_driver", "intel_pstate\n"},
	    {NULL, NULL},
	};
	sysroot_begin(b);
	sysroot_fill(b, files);
	sysroot_load(b, 8, 20000, 1980000);
	sysroot_memory(b, 15800, 9000);
	sysroot_pressure(b, 0, 0, 0);
	sysroot_zone(b, 0, "acpitz", 47000, "critical", 119000);
	sysroot_zone(b, 1, "x86_pkg_temp", 51000, "passive", 0);
	sysroot_clock(b, 0, "performance", 1800000, 3900000, 3900000);
}

/* A virtual machine that reports only its load and memory. */
static inline void sysroot_vm(struct sysroot *b)
{
	sysroot_begin(b);
	sysroot_load(b, 4, 1000, 99000);
	sysroot_memory(b, 8000, 6000);
}

#endif
