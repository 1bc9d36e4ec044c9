/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/sysfile.h"
#include "platform/machine/vitals.h"
#include "tests/lib/sysroot.h"

#include <fcntl.h>
#include <sys/wait.h>

static struct vitals_reader *opened(const struct sysroot *b)
{
	struct vitals_reader *r = NULL;
	if (vitals_open(b->root, &r) < 0)
		abort();
	return r;
}

/* The vitals that a newly opened reader sees. */
static struct vitals seen(const struct sysroot *b)
{
	struct vitals v;
	struct vitals_reader *r = opened(b);
	vitals_read(r, 7, &v);
	vitals_close(r);
	return v;
}

static struct vitals look(struct vitals_reader *r)
{
	struct vitals v;
	vitals_read(r, 7, &v);
	return v;
}

static struct vitals glance(struct vitals_reader *r)
{
	struct vitals v;
	vitals_glance(r, 7, &v);
	return v;
}

TEST(raspberry_pi)
{
	struct sysroot b;
	sysroot_pi4(&b);
	struct vitals v = seen(&b);
	CHECK(v.has == (VITAL_LOAD | VITAL_HEAT | VITAL_THROTTLE | VITAL_CLOCK | VITAL_MEMORY));
	CHECK(v.at_ns == 7 && v.cpus == 4);
	CHECK(v.busy_ns == INT64_C(100000000000) && v.total_ns == INT64_C(10000000000000));
	CHECK(!strcmp(v.zone, "cpu-thermal") && v.temp_mc == 48200);
	CHECK(v.headroom_mc == 85000 - 48200); /* from the firmware's limit, not from the trip at 110 C */
	CHECK(!v.trip_assumed);
	CHECK(v.throttle == 0 && v.throttled == 0);
	CHECK(v.clock_khz == 600000 && v.clock_most_khz == 1800000 && !v.clock_held);
	CHECK(v.memory_bytes == INT64_C(3792) << 20 && v.memory_free_bytes == INT64_C(3200) << 20);
	sysroot_end(&b);
}

TEST(raspberry_pi_with_pressure)
{
	struct sysroot b;
	sysroot_pi4_psi(&b);
	sysroot_pressure(&b, 11, 22, 33);
	struct vitals v = seen(&b);
	CHECK(v.has & VITAL_PRESSURE);
	CHECK(v.stalled_ns[0] == 11000 && v.stalled_ns[1] == 22000 && v.stalled_ns[2] == 33000);
	sysroot_end(&b);
}

TEST(raspberry_pi_throttles)
{
	struct sysroot b;
	sysroot_pi4(&b);
	struct vitals_reader *r = opened(&b);
	struct vitals calm = look(r);
	sysroot_set(&b, PI_THROTTLED, "50005\n"); /* under-voltage, slowed; both since boot */
	struct vitals low = look(r), still = look(r);
	CHECK(low.throttle == (THROTTLE_VOLTAGE | THROTTLE_SLOWED) && low.throttled == 4);
	CHECK(vitals_taint(&calm, &low) != NULL && vitals_taint(&low, &calm) != NULL);
	CHECK(still.throttled == low.throttled && vitals_taint(&low, &still) == NULL);
	sysroot_set(&b, PI_THROTTLED, "40000\n"); /* over; another reader cleared one bit */
	struct vitals over = look(r);
	CHECK(over.throttle == 0 && over.throttled == low.throttled);
	CHECK(vitals_taint(&still, &over) != NULL); /* it began in a different state */
	sysroot_set(&b, PI_THROTTLED, "50000\n");   /* between two looks, seen only by its sticky bit */
	struct vitals again = look(r), after = look(r);
	CHECK(again.throttle == THROTTLE_VOLTAGE && again.throttled == over.throttled + 1);
	CHECK(after.throttle == 0 && after.throttled == again.throttled);
	sysroot_set(&b, "/sys/class/hwmon/hwmon1/in0_lcrit_alarm", "1\n");
	CHECK(glance(r).throttle == THROTTLE_VOLTAGE);
	vitals_close(r);
	sysroot_set(&b, PI_THROTTLED, "0x80008\n");
	CHECK(seen(&b).throttle == (THROTTLE_SOFT_LIMIT | THROTTLE_VOLTAGE));
	sysroot_end(&b);
}

TEST(sticky_bits_of_before_are_no_throttling)
{
	struct sysroot b;
	sysroot_pi4(&b);
	sysroot_set(&b, PI_THROTTLED, "f0000\n");
	struct vitals v = seen(&b);
	CHECK(v.throttle == 0 && v.throttled == 4 && v.throttled_by == 15);
	sysroot_end(&b);
}

TEST(raspberry_pi_5_has_another_path)
{
	struct sysroot b;
	sysroot_pi4(&b);
	sysroot_gone(&b, PI_THROTTLED);
	sysroot_gone(&b, "/sys/class/hwmon/hwmon1/in0_lcrit_alarm");
	CHECK(!(seen(&b).has & VITAL_THROTTLE));
	sysroot_set(&b, "/sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled", "4\n");
	CHECK(seen(&b).throttle == THROTTLE_SLOWED);
	sysroot_end(&b);
}

TEST(jetson_xavier)
{
	struct sysroot b;
	sysroot_xavier_nx(&b);
	struct vitals_reader *r = opened(&b);
	struct vitals v = look(r);
	CHECK(!(~v.has &
		(VITAL_LOAD | VITAL_PRESSURE | VITAL_HEAT | VITAL_THROTTLE | VITAL_CLOCK | VITAL_MEMORY)));
	CHECK(!(v.has & VITAL_BATTERY));
	CHECK(!strcmp(v.zone, "CPU-therm") &&
	      v.headroom_mc == 90500 - 41500);                     /* passive; active: a fan's */
	sysroot_set(&b, HEAT_DIR "thermal_zone1/temp", "88000\n"); /* the GPU wakes up */
	v = look(r);
	CHECK(!strcmp(v.zone, "GPU-therm") && v.headroom_mc == 3000);
	CHECK(v.clock_khz == 2 * 1190400 && v.clock_most_khz == 2 * 1420800);
	CHECK(v.gpu_khz == 114750 && v.gpu_most_khz == 1109250);
	sysroot_set(&b, "/sys/class/devfreq/17000000.gv11b/max_freq", "510000000\n");
	struct vitals capped = glance(r);
	CHECK(vitals_taint(&v, &capped) && strstr(vitals_taint(&v, &capped), "GPU"));
	vitals_close(r);
	sysroot_end(&b);
}

TEST(jetson_over_current)
{
	struct sysroot b;
	sysroot_xavier_nx(&b);
	sysroot_set(&b, "/sys/class/hwmon/hwmon2/oc3_event_cnt", "17\n");
	struct vitals_reader *r = opened(&b);
	struct vitals v = look(r), w;
	CHECK(v.throttle == 0 && v.throttled == 17 && v.throttled_by == THROTTLE_CURRENT); /* earlier */
	sysroot_set(&b, "/sys/class/hwmon/hwmon2/oc1_event_cnt", "2\n");
	w = glance(r);
	CHECK(w.throttle == THROTTLE_CURRENT && w.throttled == 19 && vitals_taint(&v, &w));
	v = glance(r);
	CHECK(v.throttle == 0 && v.throttled == 19);
	sysroot_set(&b, "/sys/class/hwmon/hwmon2/oc1_event_cnt", "%s", "");
	CHECK(glance(r).throttled == 19); /* failing to read once is no event */
	sysroot_set(&b, HEAT_DIR "cooling_device1/cur_state", "4\n");
	w = glance(r);
	CHECK(w.throttle == THROTTLE_COOLING && vitals_taint(&v, &w));
	vitals_close(r);
	sysroot_end(&b);
}

TEST(cooling_devices)
{
	static const struct {
		const char *type;
		bool counts;
	} kinds[] = {{"Processor", true},
		     {"cpufreq-cpu4", true},
		     {"thermal-cpufreq-1", true},
		     {"thermal-devfreq-0", true},
		     {"devfreq-17000000.gpu", true},
		     {"idle-cpu0", true},
		     {"cpu-throttle-alert", true},
		     {"intel_powerclamp", true},
		     {"pwm-fan", false},
		     {"Fan", false},
		     {"LCD", false},
		     {"iwlwifi_1", false},
		     {"hot-surface-alert", false}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct sysroot b;
		sysroot_vm(&b);
		sysroot_set(&b, HEAT_DIR "cooling_device0/type", "%s\n", kinds[i].type);
		sysroot_set(&b, HEAT_DIR "cooling_device0/cur_state", "1\n");
		CHECK(seen(&b).throttle == (kinds[i].counts ? (unsigned)THROTTLE_COOLING : 0));
		sysroot_end(&b);
	}
}

TEST(clocks)
{
	struct sysroot b;
	sysroot_orin(&b);
	struct vitals_reader *r = opened(&b);
	struct vitals v = look(r), w;
	CHECK(v.clock_held && v.clock_khz == 2 * 1510400);
	sysroot_clock(&b, 0, "performance", 1490000, 1510400, 1510400); /* a clock as counters measure it */
	w = glance(r);
	CHECK(!vitals_taint(&v, &w));
	sysroot_clock(&b, 0, "performance", 1100000, 1510400, 1510400);
	w = glance(r);
	CHECK(vitals_taint(&v, &w) != NULL && vitals_taint(&w, &v) == NULL);
	sysroot_clock(&b, 2, "schedutil", 600000, 1510400, 1510400); /* follows the load: no taint */
	w = look(r);
	CHECK(!w.clock_held && !vitals_taint(&v, &w));
	sysroot_clock(&b, 2, "schedutil", 600000, 1200000, 1510400);
	v = glance(r);
	CHECK(vitals_taint(&w, &v) != NULL && strstr(vitals_taint(&w, &v), "highest clock"));
	vitals_close(r);
	sysroot_end(&b);
}

TEST(laptop)
{
	struct sysroot b;
	sysroot_laptop(&b);
	struct vitals v = seen(&b);
	CHECK(v.has & VITAL_BATTERY && v.battery_pct == 83 && v.discharging); /* not the mouse's */
	CHECK(!strcmp(v.zone, "acpitz") && v.headroom_mc == 72000);           /* no trip at 0 C */
	CHECK(v.throttle == 0 && v.has & VITAL_THROTTLE && v.cpus == 8);
	CHECK(!v.clock_held); /* whatever the name of its governor */
	sysroot_set(&b, "/sys/class/power_supply/BAT0/status", "Charging\n");
	CHECK(!seen(&b).discharging);
	sysroot_set(&b, "/sys/class/power_supply/BAT1/type", "Battery\n");
	sysroot_set(&b, "/sys/class/power_supply/BAT1/capacity", "12\n");
	sysroot_set(&b, "/sys/class/power_supply/BAT1/status", "Discharging\n");
	v = seen(&b);
	CHECK(v.battery_pct == 12 && v.discharging);
	sysroot_end(&b);
}

TEST(no_trip_is_told)
{
	struct sysroot b;
	sysroot_vm(&b);
	sysroot_zone(&b, 0, "soc-thermal", 61000, NULL, 0);
	sysroot_zone(&b, 1, "ddr-thermal", 70000, "active", 50000);
	struct vitals v = seen(&b);
	CHECK(v.has & VITAL_HEAT && v.trip_assumed && v.headroom_mc == 15000 &&
	      !strcmp(v.zone, "ddr-thermal"));
	sysroot_trip(&b, 0, 3, "passive", 75000); /* one zone has a trip: the others do not count */
	v = seen(&b);
	CHECK(!v.trip_assumed && v.headroom_mc == 14000 && !strcmp(v.zone, "soc-thermal"));
	sysroot_end(&b);
}

TEST(bare_machine)
{
	struct sysroot b;
	sysroot_vm(&b);
	CHECK(seen(&b).has == (VITAL_LOAD | VITAL_MEMORY));
	sysroot_end(&b);
	sysroot_begin(&b);
	struct vitals v = seen(&b), none = {.at_ns = 7};
	CHECK(!memcmp(&v, &none, sizeof v));
	CHECK(vitals_taint(&v, &none) == NULL);
	sysroot_end(&b);
}

TEST(this_machine)
{
	struct vitals_reader *r;
	struct vitals v, w;
	REQUIRE_OK(vitals_open("", &r));
	vitals_read(r, 1, &v);
	vitals_read(r, 2, &w);
	vitals_close(r);
	CHECK(v.has & VITAL_LOAD && v.cpus >= 1 && v.busy_ns > 0 && v.busy_ns <= v.total_ns);
	CHECK(v.cpus == sysconf(_SC_NPROCESSORS_ONLN));
	CHECK(w.total_ns >= v.total_ns);
	CHECK(v.has & VITAL_MEMORY && v.memory_free_bytes > 0 && v.memory_free_bytes <= v.memory_bytes);
}

/* ---- hostile files */

static const char *const all_files[] = {"/proc/stat",
					"/proc/meminfo",
					"/proc/pressure/cpu",
					"/proc/pressure/io",
					"/proc/pressure/memory",
					PI_THROTTLED,
					"/sys/class/hwmon/hwmon1/name",
					"/sys/class/hwmon/hwmon1/in0_lcrit_alarm",
					"/sys/class/hwmon/hwmon2/oc1_event_cnt",
					HEAT_DIR "thermal_zone0/temp",
					HEAT_DIR "thermal_zone0/type",
					HEAT_DIR "thermal_zone0/trip_point_0_temp",
					HEAT_DIR "thermal_zone0/trip_point_0_type",
					HEAT_DIR "cooling_device1/type",
					HEAT_DIR "cooling_device1/cur_state",
					CPU_DIR "cpufreq/policy0/scaling_cur_freq",
					CPU_DIR "cpufreq/policy0/scaling_max_freq",
					CPU_DIR "cpufreq/policy0/scaling_governor",
					"/sys/class/devfreq/17000000.gv11b/max_freq",
					"/sys/class/devfreq/17000000.gv11b/cur_freq",
					"/sys/class/power_supply/BAT0/type",
					"/sys/class/power_supply/BAT0/capacity",
					"/sys/class/power_supply/BAT0/status"};
enum { ALL = sizeof all_files / sizeof *all_files };

/* Checks for values that must never come out, whatever goes in. */
static void check_sane(const struct vitals *v, const char *what)
{
	bool sane = v->busy_ns >= 0 && v->busy_ns <= v->total_ns && v->cpus >= 0 && v->cpus < 10000 &&
		    v->throttled >= 0 && v->throttle < 64 && v->clock_khz >= 0 && v->clock_most_khz >= 0 &&
		    v->memory_free_bytes >= 0 && v->memory_free_bytes <= v->memory_bytes &&
		    v->battery_pct >= 0 && v->battery_pct <= 100 && memchr(v->zone, 0, sizeof v->zone) &&
		    v->temp_mc >= -60000 && v->temp_mc <= 200000 && v->headroom_mc <= 190000 &&
		    v->headroom_mc >= -180000;
	for (int i = 0; i < 3; i++)
		sane &= v->stalled_ns[i] >= 0;
	if (!sane)
		printf("impossible vitals with %s\n", what);
	CHECK(sane);
}

static void stage_all(struct sysroot *b)
{
	sysroot_xavier_nx(b);
	sysroot_set(b, PI_THROTTLED, "0\n");
	sysroot_set(b, "/sys/class/hwmon/hwmon1/name", "rpi_volt\n");
	sysroot_set(b, "/sys/class/hwmon/hwmon1/in0_lcrit_alarm", "0\n");
	sysroot_set(b, "/sys/class/power_supply/BAT0/type", "Battery\n");
	sysroot_set(b, "/sys/class/power_supply/BAT0/capacity", "50\n");
	sysroot_set(b, "/sys/class/power_supply/BAT0/status", "Full\n");
}

/* Each file in turn holds each of these texts, before and after the reader opens it. */
static const char *const nonsense[] = {
    "",
    "\n",
    " ",
    "x",
    "-",
    "-1\n",
    "nan\n",
    "1e999\n",
    "99999999999999999999999999\n",
    "9223372036854775807\n",
    "-9223372036854775808\n",
    "0x7fffffffffffffff\n",
    "ffffffff\n",
    "4611686018427387904\n",
    "\377\376\375",
    "%s%n%s%n",
    "cpu",
    "cpu ",
    "cpu  1 2 3",
    "cpu  -1 -1 -1 -1\n",
    "cpu  9223372036854775807 9223372036854775807 9223372036854775807 9223372036854775807\n",
    "cpu  57646075230 57646075230 57646075230 57646075230 57646075230 57646075230 57646075230\n",
    "cpu  5 5 5 5\ncpu\ncpuX\ncpu0",
    "some",
    "some total=",
    "some total=-5\n",
    "some total=18446744073709551615\n",
    "MemTotal: 99999999999999999999 kB\nMemAvailable: 1 kB\n",
    "MemTotal: 1 kB\nMemAvailable: 5 kB\n",
    "MemAvailable: 5 kB\n",
    "-40000\n",
    "-300000\n",
    "250000\n",
    "12 34\n",
    "12abc\n",
    "101\n",
    "Discharging"};

/* Turns one file into each of these, for a reader that has it open and for one that opens it. */
static void spoil(const struct sysroot *b, const char *file)
{
	char old[1024] = "";
	int fd = sysfile_open(b->root, file);
	REQUIRE(fd >= 0);
	sysfile_read(fd, old, sizeof old);
	close(fd);
	for (size_t t = 0; t < sizeof nonsense / sizeof *nonsense; t++) {
		sysroot_set(b, file, "%s", old);
		struct vitals_reader *r = opened(b);
		sysroot_set(b, file, "%s", nonsense[t]);
		struct vitals v = look(r);
		check_sane(&v, nonsense[t]);
		vitals_close(r);
		v = seen(b);
		check_sane(&v, nonsense[t]);
	}
	sysroot_set(b, file, "%s", old);
}

TEST(garbage)
{
	struct sysroot b;
	struct vitals before, v;
	stage_all(&b);
	before = seen(&b);
	CHECK(before.has == 127);
	for (int f = 0; f < ALL; f++)
		spoil(&b, all_files[f]);
	v = seen(&b);
	CHECK(v.has == 127 && v.headroom_mc == before.headroom_mc);
	sysroot_end(&b);
}

/* Replaces each file by a FIFO (nobody writes to it), a folder, a loop of links, and nothing. */
TEST(no_files)
{
	struct sysroot b;
	for (int kind = 0; kind < 4; kind++) {
		stage_all(&b);
		for (int f = 0; f < ALL; f++) {
			const char *at = sysroot_path(&b, all_files[f]);
			sysroot_gone(&b, all_files[f]);
			if (kind == 0)
				CHECK(mkfifo(at, 0600) == 0);
			if (kind == 1)
				CHECK(mkdir(at, 0700) == 0);
			if (kind == 2)
				CHECK(symlink(strrchr(at, '/') + 1, at) == 0);
			struct vitals v = seen(&b);
			check_sane(&v, all_files[f]);
		}
		struct vitals v = seen(&b);
		CHECK(!(v.has & ~(VITAL_THROTTLE)));
		sysroot_end(&b);
	}
}

/* Of a large file only the beginning counts; names that are too long, or too many, are left out. */
TEST(large)
{
	struct sysroot b;
	sysroot_pi4(&b);
	const char *zone = HEAT_DIR "thermal_zone0/temp";
	CHECK(truncate(sysroot_path(&b, zone), 10 << 20) == 0);
	CHECK(seen(&b).temp_mc == 48200);
	sysroot_set(&b, "/proc/stat", "%s", "cpu  1 1 1 1 1 1 1 1\n");
	CHECK(truncate(sysroot_path(&b, "/proc/stat"), 10 << 20) == 0);
	CHECK(seen(&b).total_ns == 80000000);
	sysroot_gone(&b, zone);
	for (int i = 1; i < 200; i++)
		sysroot_zone(&b, i, "x", 50000, NULL, 0);
	char name[300];
	snprintf(name, sizeof name, HEAT_DIR "thermal_zone%0200d/temp", 7);
	sysroot_set(&b, name, "90000\n");
	struct vitals v = seen(&b);
	CHECK(v.has & VITAL_HEAT && v.temp_mc == 50000);
	sysroot_end(&b);
}

enum { NOTHING, SOMETHING, NO_SUCH_USER };

/* What a user without permission sees; if the test runs as root, in a child. */
static int seen_by_another(const struct sysroot *b)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(NO_SUCH_USER);
		_exit(seen(b).has & ~(unsigned)VITAL_THROTTLE ? SOMETHING : NOTHING);
	}
	int status = -1;
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : SOMETHING;
}

TEST(not_readable)
{
	struct sysroot b;
	stage_all(&b);
	CHECK(chmod(b.root, 0755) == 0);
	for (int f = 0; f < ALL; f++)
		CHECK(chmod(sysroot_path(&b, all_files[f]), 0) == 0);
	int saw = seen_by_another(&b);
	CHECK(saw != SOMETHING);
	sysroot_end(&b);
	if (saw == NO_SUCH_USER)
		SKIP("root is the only user of this namespace");
}

/* Reading needs no write access: it works on a tree that nobody may write. */
TEST(only_reads)
{
	struct sysroot b;
	char cmd[192];
	stage_all(&b);
	snprintf(cmd, sizeof cmd, "chmod -R a-w '%s'", b.root);
	REQUIRE(system(cmd) == 0);
	CHECK(seen(&b).has == 127);
	struct vitals_reader *r = opened(&b);
	int ours = 0;
	for (int fd = 3; fd < 256; fd++) {
		char link[32], at[256] = "";
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		if (readlink(link, at, sizeof at - 1) < 0 || strncmp(at, b.root, strlen(b.root)))
			continue;
		CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
		ours++;
	}
	CHECK(ours > 20);
	vitals_close(r);
	sysroot_end(&b);
}

TEST(closes_what_it_opens)
{
	struct sysroot b;
	stage_all(&b);
	int before = open("/dev/null", O_RDONLY), after;
	for (int i = 0; i < 3; i++)
		seen(&b);
	after = open("/dev/null", O_RDONLY);
	CHECK(before >= 0 && after == before + 1);
	close(before);
	close(after);
	sysroot_end(&b);
}

TEST_MAIN
