/* SPDX-License-Identifier: Apache-2.0 */
/* Findings on staged boards, and `hone doctor`. */
#include "tools/hone/doctor.h"
#include "tests/lib/sysroot.h"
#include "tests/lib/around.h"
#include "tests/lib/cli.h"

#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static struct arena arena;
static const struct finding *found;
static int nfound;

static void examine(const struct sysroot *b, const char *cache)
{
	struct doctor_options o = {.sysroot = b->root, .cache = cache};
	arena_reset(&arena);
	nfound = doctor_look(&o, &arena, &found);
	CHECK(nfound > 10);
	for (int i = 0; i < nfound; i++) {
		CHECK(found[i].what[0] && !strchr(found[i].what, '\n'));
		CHECK((found[i].kind == FINDING_OK) == !found[i].remedy[0]);
	}
}

/* The i-th finding of a check; NULL: there are fewer. */
static const struct finding *nth(const char *check, int i)
{
	for (int k = 0; k < nfound; k++)
		if (!strcmp(found[k].check, check) && i-- == 0)
			return &found[k];
	return NULL;
}

static bool is(const char *check, enum finding_kind kind, const char *what, const char *remedy)
{
	const struct finding *f;
	for (int i = 0; (f = nth(check, i)); i++)
		if (f->kind == kind && strstr(f->what, what) && strstr(f->remedy, remedy))
			return true;
	for (int i = 0; (f = nth(check, i)); i++)
		printf("%s is %s: %s; %s\n", check, finding_word(f->kind), f->what, f->remedy);
	return false;
}

/* A board of two clusters, as its device tree and sysfs show it. online: processors; the small ones are 0-3.
 */
static void stage_rk3399(struct sysroot *b, const char *online)
{
	sysroot_vm(b);
	sysroot_set(b, "/sys/firmware/devicetree/base/compatible", "pine64,rockpro64%crockchip,rk3399", 0);
	sysroot_set(b, CPU_DIR "online", "%s\n", online);
	sysroot_set(b, CPU_DIR "present", "0-5\n");
	for (int i = 0; i < 6; i++) {
		char path[96];
		snprintf(path, sizeof path, CPU_DIR "cpu%d/regs/identification/midr_el1", i);
		sysroot_set(b, path, "0x00000000%s\n", i < 4 ? "410fd034" : "410fd083");
		snprintf(path, sizeof path, CPU_DIR "cpu%d/cpu_capacity", i);
		sysroot_set(b, path, "%d\n", i < 4 ? 485 : 1024);
	}
}

TEST(clusters_and_the_file_of_the_board)
{
	struct sysroot b;
	setenv("HONE_BOARDS", "configs/boards", 1);
	stage_rk3399(&b, "0-5");
	examine(&b, b.root);
	CHECK(is("board", FINDING_OK,
		 "the board is Rockchip RK3399 (configs/boards/rk3399.conf, by rockchip,rk3399)", ""));
	CHECK(is("board", FINDING_OK, "cluster cortex-a72: processors 4-5, speed 100 %: hone tunes for it",
		 ""));
	CHECK(is("board", FINDING_OK,
		 "cluster cortex-a53: processors 0-3, speed 47 %: hone tune --device cpu:cortex-a53 tunes",
		 ""));
	CHECK(is("board", FINDING_OK, "rk3399.conf: the caches of cortex-a53 have 32, 512 and 0 KiB", ""));
	sysroot_set(&b, CPU_DIR "cpu0/cache/index0/level", "1\n");
	examine(&b, b.root);
	CHECK(is("board", FINDING_OK, "the caches of cortex-a53 are not used, because the kernel describes",
		 ""));
	sysroot_end(&b);

	/* One of the fast ones is off; then both. */
	stage_rk3399(&b, "0-4");
	examine(&b, b.root);
	CHECK(is("board", FINDING_NOTE,
		 "of the cluster cortex-a72 (processors 4-5 by rk3399.conf), 1 of 2 are", "chcpu -e"));
	sysroot_set(&b, CPU_DIR "online", "0-3\n");
	examine(&b, b.root);
	CHECK(is("board", FINDING_NOTE, "cortex-a72 (processors 4-5 by rk3399.conf), 0 of 2 are online",
		 "chcpu"));
	sysroot_end(&b);

	/* What the keys of other boards change. */
	sysroot_vm(&b);
	sysroot_set(&b, "/sys/firmware/devicetree/base/compatible", "nvidia,p2972-0000%cnvidia,tegra194", 0);
	examine(&b, b.root);
	CHECK(is("board", FINDING_OK, "jetson-xavier.conf: its GPU should be cuda:0", ""));
	sysroot_set(&b, "/sys/firmware/devicetree/base/compatible", "%s", "raspberrypi,3-model-b");
	examine(&b, b.root);
	CHECK(is("board", FINDING_OK, "rpi3.conf: hone tune takes 40 s where no --budget is given", ""));
	CHECK(is("board", FINDING_OK, "rpi3.conf: each process of hone tune may write to 384 MiB", ""));
	sysroot_set(&b, "/sys/firmware/devicetree/base/compatible", "%s", "raspberrypi,5-model-b");
	sysroot_set(&b, CPU_DIR "cpu0/regs/identification/midr_el1", "0x414fd0b1\n");
	sysroot_set(&b, CPU_DIR "online", "0\n");
	examine(&b, b.root);
	CHECK(is("board", FINDING_OK, "instructions are ordered as for neoverse-n1, by rpi5.conf", ""));

	/* Files with mistakes: all are named, and the board's own is used if it has none. */
	sysroot_set(&b, "/b/own.conf", "name = Own\ncompatible = raspberrypi,5-model-b\n");
	sysroot_set(&b, "/b/loop.conf", "like = loop\n");
	sysroot_set(&b, "/b/odd.conf", "machine = m\n[limits]\nbox = soon\n");
	setenv("HONE_BOARDS", sysroot_path(&b, "/b"), 1);
	examine(&b, b.root);
	CHECK(is("board", FINDING_OK, "the board is Own", ""));
	CHECK(is("board", FINDING_WARNING, "loop.conf: what it is like leads to no end", "mend or remove"));
	CHECK(is("board", FINDING_WARNING, "odd.conf:3: box needs a time", "mend or remove"));
	sysroot_end(&b);
	unsetenv("HONE_BOARDS");
}

TEST(raspberry_pi)
{
	struct sysroot b;
	sysroot_pi4(&b);
	examine(&b, b.root);
	CHECK(is("governor", FINDING_NOTE, "ondemand follows the load", "hone never changes clocks"));
	CHECK(is("clock", FINDING_OK, "", ""));
	CHECK(!nth("power-mode", 0));
	CHECK(is("cores", FINDING_OK, "0-3", ""));
	CHECK(is("heat", FINDING_OK, "cpu-thermal is at 48.2 C, 36.8 C below", ""));
	CHECK(is("throttle", FINDING_OK, "", ""));
	CHECK(!nth("battery", 0));
	CHECK(is("pressure", FINDING_NOTE, "PSI is off", "psi=1 to the line in /boot/firmware/cmdline.txt"));
	CHECK(is("memory-cgroup", FINDING_NOTE, "MemoryMax=", "cgroup_enable=memory to /boot/firmware"));
	CHECK(is("memory", FINDING_OK, "3200 of 3792 MiB", ""));
	CHECK(is("swap", FINDING_NOTE, "", "zram"));
	CHECK(is("time", FINDING_NOTE, "after a start", "hours="));
	CHECK(is("configuration", FINDING_NOTE, "", "honed.conf"));
	CHECK(is("honed", FINDING_NOTE, "honed does not run", "honed --config FILE"));
	CHECK(!nth("units", 0) && !nth("worker", 0) && !nth("limits", 0)); /* skipped for another root */
	sysroot_end(&b);
	sysroot_pi4_psi(&b);
	sysroot_set(&b, "/sys/class/rtc/rtc0/name", "x\n");
	examine(&b, b.root);
	CHECK(is("pressure", FINDING_OK, "PSI", "") && is("memory-cgroup", FINDING_OK, "", "") &&
	      is("time", FINDING_OK, "", ""));
	sysroot_end(&b);
}

TEST(power_and_heat)
{
	struct sysroot b;
	sysroot_pi4(&b);
	sysroot_set(&b, PI_THROTTLED, "50005\n");
	sysroot_temp(&b, 0, 72000);
	examine(&b, b.root);
	CHECK(is("throttle", FINDING_PROBLEM, "now: under-voltage, slowed down", "power supply"));
	CHECK(is("heat", FINDING_WARNING, "72.0 C, 13.0 C from its limit", "heat sink"));
	CHECK(is("gate", FINDING_NOTE, "throttles: under-voltage", "waits"));
	sysroot_set(&b, PI_THROTTLED, "50000\n");
	sysroot_temp(&b, 0, 86000);
	examine(&b, b.root);
	CHECK(is("throttle", FINDING_WARNING, "since it was started: under-voltage, slowed", "power supply"));
	CHECK(is("heat", FINDING_PROBLEM, "-1.0 C", "fan"));
	CHECK(is("gate", FINDING_NOTE, "1.0 C above its limit", ""));
	sysroot_set(&b, PI_THROTTLED, "80000\n");
	sysroot_temp(&b, 0, 50000);
	examine(&b, b.root);
	CHECK(is("throttle", FINDING_WARNING, "soft temperature limit", "too hot"));
	CHECK(is("gate", FINDING_OK, "would tune on the board now", ""));
	sysroot_end(&b);
}

TEST(jetson)
{
	struct sysroot b;
	sysroot_xavier_nx(&b);
	sysroot_set(&b, "/sys/class/hwmon/hwmon2/oc3_event_cnt", "4\n");
	sysroot_set(&b, CPU_DIR "isolated", "3\n");
	examine(&b, b.root);
	CHECK(is("power-mode", FINDING_NOTE, "pmode:0002", "nvpmodel -m"));
	CHECK(is("clock", FINDING_NOTE, "1420 of 1907 MHz", "nvpmodel -q"));
	CHECK(is("cores", FINDING_NOTE, "0-3 of 0-5", "nvpmodel") &&
	      is("cores", FINDING_NOTE, "cores 3 are isolated", "isolcpus"));
	CHECK(is("throttle", FINDING_WARNING, "over-current", "lower power mode"));
	CHECK(is("heat", FINDING_OK, "CPU-therm", ""));
	sysroot_gone(&b, "/var/lib/nvpmodel/status");
	examine(&b, b.root);
	CHECK(is("power-mode", FINDING_WARNING, "mixed", "nvpmodel"));
	sysroot_end(&b);
	sysroot_orin(&b);
	examine(&b, b.root);
	CHECK(is("governor", FINDING_OK, "performance", "") && is("clock", FINDING_OK, "", ""));
	sysroot_clock(&b, 0, "performance", 700000, 1510400, 1510400);
	examine(&b, b.root);
	CHECK(is("clock", FINDING_WARNING, "held at 2210 of 3020 MHz", "heat"));
	sysroot_clock(&b, 2, "powersave", 700000, 1510400, 1510400);
	examine(&b, b.root);
	CHECK(is("governor", FINDING_WARNING, "powersave holds the lowest clock", "performance"));
	sysroot_clock(&b, 2, "tuneful\033[2J", 700000, 1510400, 1510400);
	examine(&b, b.root);
	CHECK(is("governor", FINDING_NOTE, "tuneful?[2J is unknown", ""));
	sysroot_end(&b);
}

TEST(laptop)
{
	struct sysroot b;
	sysroot_laptop(&b);
	sysroot_clock(&b, 0, "powersave", 800000, 3900000, 3900000); /* on a processor that chooses its clock
								      * itself */
	examine(&b, b.root);
	CHECK(is("governor", FINDING_NOTE, "powersave follows the load", ""));
	CHECK(is("battery", FINDING_OK, "83 % and discharging", ""));
	sysroot_set(&b, "/sys/class/power_supply/BAT0/capacity", "11\n");
	sysroot_memory(&b, 4000, 100);
	sysroot_set(&b, "/proc/swaps",
		    "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 100\n"
		    "/dev/mmcblk0p3 partition 1 0 -2\n");
	examine(&b, b.root);
	CHECK(is("battery", FINDING_WARNING, "11 %", "charge it"));
	CHECK(is("memory", FINDING_WARNING, "100 of 4000 MiB", "memory="));
	CHECK(is("swap", FINDING_WARNING, "/dev/mmcblk0p3 swaps to a card", "zram") && !nth("swap", 1));
	sysroot_set(&b, "/etc/hone/honed.conf", "[idle]\nbattery = 10%%\nmemory = 64M\n");
	examine(&b, b.root);
	CHECK(is("battery", FINDING_OK, "11 %", "") && is("memory", FINDING_OK, "100", ""));
	sysroot_end(&b);
}

TEST(bare_machine)
{
	struct sysroot b;
	sysroot_vm(&b);
	examine(&b, b.root);
	CHECK(is("heat", FINDING_NOTE, "no temperature sensor found", "virtual"));
	CHECK(!nth("throttle", 0) && !nth("clock", 0));
	CHECK(is("swap", FINDING_OK, "", "") && is("gate", FINDING_OK, "", ""));
	sysroot_zone(&b, 0, "soc", 40000, NULL, 0);
	examine(&b, b.root);
	CHECK(is("heat", FINDING_NOTE, "85 C is assumed", "headroom="));
	sysroot_end(&b);
	sysroot_begin(&b);
	examine(&b, b.root);
	for (int i = 0; i < nfound; i++)
		CHECK(found[i].kind != FINDING_PROBLEM);
	sysroot_end(&b);
}

TEST(configuration)
{
	struct sysroot b;
	sysroot_vm(&b);
	sysroot_set(&b, "/etc/hone/honed.conf", "[model a]\npath = /nowhere/a.onnx\n");
	examine(&b, b.root);
	CHECK(is("configuration", FINDING_OK, "1 model", ""));
	CHECK(is("configuration", FINDING_WARNING, "no such file: /nowhere/a.onnx", "path="));
	sysroot_set(&b, "/etc/hone/honed.conf", "[idle]\nloud = yes\n");
	examine(&b, b.root);
	CHECK(is("configuration", FINDING_PROBLEM, "loud", "correct"));
	sysroot_set(&b, "/etc/hone/honed.conf", "%s", "");
	sysroot_set(&b, "/etc/hone/honed.conf.d/50.conf", "[idle]\nload = 900%%\n");
	examine(&b, b.root);
	CHECK(is("configuration", FINDING_PROBLEM, "50.conf", ""));
	sysroot_end(&b);
}

TEST(units)
{
	static const char *const units[] = {"honed.service", "honed.socket", "hone-boot.service",
					    "hone-worker.socket", "hone-worker@.service"};
	struct sysroot b;
	char path[128];
	sysroot_vm(&b);
	sysroot_set(&b, "/run/systemd/system/x", "%s", "");
	examine(&b, b.root);
	CHECK(is("units", FINDING_NOTE, "honed.service, honed.socket", "install"));
	CHECK(is("honed", FINDING_NOTE, "honed does not run", "honed --config FILE"));
	for (int i = 0; i < 5; i++) {
		snprintf(path, sizeof path, "/usr/lib/systemd/system/%s", units[i]);
		sysroot_set(&b, path, "x\n");
		if (i < 4)
			continue;
		examine(&b, b.root);
		CHECK(is("units", FINDING_OK, "", ""));
		CHECK(is("honed", FINDING_NOTE, "honed does not run",
			 "systemctl enable --now honed.socket honed"));
	}
	sysroot_gone(&b, "/usr/lib/systemd/system/hone-boot.service");
	examine(&b, b.root);
	CHECK(is("units", FINDING_WARNING, "does not know hone-boot.service", ""));
	sysroot_end(&b);
}

/* The folder lies on this machine's disk; the mount table is the staged board's. */
TEST(cache)
{
	struct sysroot b;
	char cache[256], deep[300];
	sysroot_vm(&b);
	snprintf(cache, sizeof cache, "%s/var/cache/hone", b.root);
	snprintf(deep, sizeof deep, "%s/not/yet/made", cache);
	sysroot_set(&b, "/var/cache/hone/x", "%s", "");
	sysroot_set(&b, "/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/root rw\n");
	examine(&b, deep);
	CHECK(is("cache", FINDING_OK, "not/yet/made", "") && nth("space", 0));
	CHECK(chmod(cache, 0777) == 0);
	examine(&b, cache);
	CHECK(is("cache", FINDING_WARNING, "others can write", "chmod go-w"));
	CHECK(chmod(cache, 0755) == 0);
	sysroot_set(&b, "/proc/self/mountinfo",
		    "1 0 8:1 / / rw - ext4 /dev/root rw\n2 1 0:9 / %s/var rw - tmpfs t rw\n", b.root);
	examine(&b, cache);
	CHECK(is("cache", FINDING_WARNING, "in memory", "writable partition"));
	sysroot_set(&b, "/proc/self/mountinfo", "1 0 8:1 / / ro - ext4 /dev/root ro\n");
	examine(&b, cache);
	CHECK(is("cache", FINDING_WARNING, "read-only", "") && !nth("cache", 1));
	examine(&b, NULL);
	CHECK(is("cache", FINDING_PROBLEM, "no cache folder is known", "--cache") && !nth("space", 0));
	sysroot_end(&b);
}

TEST(cache_of_honed)
{
	struct sysroot b;
	sysroot_vm(&b);
	sysroot_set(&b, "/data/x", "%s", "");
	sysroot_set(&b, "/proc/self/mountinfo",
		    "1 0 8:1 / / rw - ext4 /dev/root rw\n2 1 0:9 / %s/data rw - tmpfs t rw\n", b.root);
	examine(&b, b.root);
	CHECK(!nth("honed-cache", 0)); /* none is configured */
	sysroot_set(&b, "/etc/hone/honed.conf", "[honed]\ncache = /data/hone\n");
	examine(&b, b.root);
	CHECK(is("honed-cache", FINDING_WARNING, "/data/hone: its file system is in memory", "cache="));
	sysroot_set(&b, "/etc/hone/honed.conf", "%s", "");
	examine(&b, b.root);
	CHECK(is("honed-cache", FINDING_OK, "/var/lib/hone/cache", ""));
	sysroot_end(&b);
}

TEST(cache_of_another_user)
{
	if (geteuid() == 0 && !test_root())
		SKIP("root is the only user here");
	struct sysroot b;
	char cache[256];
	sysroot_vm(&b);
	sysroot_set(&b, "/cache/lock", "%s", "");
	sysroot_set(&b, "/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/root rw\n");
	snprintf(cache, sizeof cache, "%s/cache", b.root);
	CHECK(chmod(b.root, 0755) == 0 && chmod(cache, 0555) == 0);
	nobody = geteuid() == 0;
	REQUIRE_OK(file_write(in_dir("stdout"), "", 0));
	REQUIRE_OK(file_write(in_dir("stderr"), "", 0));
	REQUIRE(chmod(dir, 0777) == 0 && chmod(in_dir("stderr"), 0666) == 0 &&
		chmod(in_dir("stdout"), 0666) == 0);
	CHECK_RUN(1, "doctor --sysroot %s --cache %s", b.root, cache);
	nobody = false;
	CHECK_SAYS(cli_out, "you cannot write to the cache folder");
	CHECK_SAYS(cli_out, "sudo chown");
	CHECK_SAYS(cli_err, "solve the problems, then check again\nNext: hone doctor --cache ");
	/* The folder cannot be seen in one that is closed, whose owner nobody is told to change. */
	sysroot_set(&b, "/shut/hone/x", "%s", "");
	char shut[300], hidden[300];
	snprintf(shut, sizeof shut, "%s/shut", b.root);
	snprintf(hidden, sizeof hidden, "%s/shut/hone", b.root);
	CHECK(chmod(shut, 0700) == 0);
	if (geteuid() == 0) {
		nobody = true;
		CHECK_RUN(1, "doctor --sysroot %s --cache %s", b.root, hidden);
		nobody = false;
		CHECK_SAYS(cli_out, "you cannot make the cache folder ");
		CHECK_SAYS(cli_out, "(user 65534 cannot write to ");
		CHECK_SAYS(cli_out, "or give --cache DIR");
		CHECK(!strstr(cli_out, "chown") && !strstr(cli_out, "chmod"));
	}
	sysroot_end(&b);
}

/* No folder above the cache is the user's to change: the advice names another place. */
static void check_homeless(const char *why)
{
	CHECK(strstr(cli_out, "cannot make the cache folder ") && strstr(cli_out, "/.cache/hone"));
	CHECK_SAYS(cli_out, why);
	CHECK_SAYS(cli_out, "set HOME or XDG_CACHE_HOME to a folder that you can write, or give --cache DIR");
	CHECK(!strstr(cli_out, "chown") && !strstr(cli_out, "chmod"));
}

TEST(cache_of_a_user_without_a_home)
{
	static const char *const commands[] = {"doctor", "bugreport"};
	struct sysroot b;
	char home[300];
	const char *was = getenv("XDG_CACHE_HOME");
	char *old = was ? strdup(was) : NULL, *old_home = strdup(getenv("HOME") ? getenv("HOME") : "");
	sysroot_vm(&b);
	sysroot_set(&b, "/file", "%s", "");
	sysroot_set(&b, "/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/root rw\n");
	CHECK(chmod(b.root, 0755) == 0);
	unsetenv("XDG_CACHE_HOME");
	setenv("HONE_SYSROOT", b.root, 1);
	for (int i = 0; i < 2; i++) {
		snprintf(home, sizeof home, "%s/file/me", b.root);
		setenv("HOME", home, 1);
		hone("%s", commands[i]);
		check_homeless("/file is not a folder)");
		if (!test_root())
			continue;
		setenv("HOME", "/nonexistent", 1);
		CHECK(chmod(dir, 0777) == 0 && chmod(in_dir("stderr"), 0666) == 0 &&
		      chmod(in_dir("stdout"), 0666) == 0);
		nobody = true;
		hone("%s", commands[i]);
		nobody = false;
		check_homeless("(user 65534 cannot write to /)");
	}
	unsetenv("HONE_SYSROOT");
	setenv("HOME", old_home, 1);
	if (old)
		setenv("XDG_CACHE_HOME", old, 1);
	free(old);
	free(old_home);
	sysroot_end(&b);
}

TEST(flash)
{
	struct sysroot b;
	struct stat st;
	char dev[128], path[256];
	sysroot_vm(&b);
	REQUIRE(stat(b.root, &st) == 0);
	snprintf(dev, sizeof dev, "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	snprintf(path, sizeof path, "%s/device/life_time", dev);
	sysroot_set(&b, path, "0x02 0x01\n");
	examine(&b, b.root);
	CHECK(is("flash", FINDING_OK, "10 to 20 %", ""));
	sysroot_set(&b, path, "0x08 0x09\n");
	examine(&b, b.root);
	CHECK(is("flash", FINDING_WARNING, "80 to 90 %", "replace"));
	sysroot_set(&b, path, "0x0b 0x01\n");
	examine(&b, b.root);
	CHECK(is("flash", FINDING_PROBLEM, "near the end", "replace"));
	sysroot_end(&b);
}

/* The socket is bound but nobody accepts, so the answer never comes. */
TEST(honed_that_does_not_answer)
{
	struct sysroot b;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	sysroot_vm(&b);
	sysroot_set(&b, "/run/hone/x", "%s", "");
	snprintf(at.sun_path, sizeof at.sun_path, "%s/run/hone/honed.sock", b.root);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	REQUIRE(bind(fd, (void *)&at, sizeof at) == 0);
	examine(&b, b.root);
	CHECK(is("honed", FINDING_PROBLEM, "does not answer", "see what honed printed"));
	REQUIRE(listen(fd, 8) == 0);
	examine(&b, b.root);
	CHECK(is("honed", FINDING_PROBLEM, "does not answer", "start it again"));
	sysroot_set(&b, "/run/systemd/system/x", "%s", "");
	sysroot_set(&b, "/etc/systemd/system/honed.service", "x\n");
	examine(&b, b.root);
	CHECK(is("honed", FINDING_PROBLEM, "does not answer", "systemctl restart honed"));
	close(fd);
	sysroot_end(&b);
}

/* All files that are read hold hostile texts. */
TEST(garbage)
{
	static const char *const files[] = {"/proc/cmdline",
					    "/proc/swaps",
					    "/sys/fs/cgroup/cgroup.controllers",
					    "/sys/firmware/devicetree/base/model",
					    CPU_DIR "online",
					    CPU_DIR "present",
					    CPU_DIR "isolated",
					    CPU_DIR "cpufreq/policy0/scaling_driver",
					    CPU_DIR "cpufreq/policy0/scaling_governor",
					    CPU_DIR "cpufreq/policy0/scaling_max_freq",
					    CPU_DIR "cpufreq/policy0/cpuinfo_max_freq",
					    "/var/lib/nvpmodel/status",
					    "/proc/self/mountinfo",
					    HEAT_DIR "thermal_zone0/type"};
	static const char *const texts[] = {
	    "", "\n\n\n", "\033[31m\001\377", "%n%s", "-9223372036854775808\n", "99999999999999999999\n"};
	struct sysroot b;
	char large[6000];
	memset(large, 'x', sizeof large - 1);
	large[sizeof large - 1] = 0;
	sysroot_xavier_nx(&b);
	for (size_t f = 0; f < sizeof files / sizeof *files; f++)
		for (int t = 0; t < 7; t++) {
			sysroot_set(&b, files[f], "%s", t < 6 ? texts[t] : large);
			examine(&b, b.root);
			for (int i = 0; i < nfound; i++)
				CHECK(!strpbrk(found[i].what, "\033\001\377"));
		}
	sysroot_end(&b);
}

/* ---- the command */

TEST(command_on_a_board)
{
	struct sysroot b;
	sysroot_pi4(&b);
	CHECK_RUN(0, "doctor --sysroot %s --cache %s", b.root, b.root);
	CHECK_SAYS(cli_out, "0 problems, 0 warnings");
	CHECK_SAYS(cli_out, "psi=1");
	CHECK_SAYS(cli_err, "`hone tune MODEL --budget 20s --cache ");
	sysroot_set(&b, PI_THROTTLED, "50005\n");
	CHECK_RUN(1, "doctor --sysroot %s --cache %s", b.root, b.root);
	CHECK(!strncmp(cli_out, "1 problem, ", 11));
	CHECK_SAYS(cli_out, "\nproblem  throttle");
	CHECK_RUN(1, "doctor --json --sysroot %s --cache %s", b.root, b.root);
	json_t *j = parse_out();
	check_keys(j, "problem_count warning_count note_count ok_count findings");
	CHECK(json_integer_value(json_object_get(j, "problem_count")) == 1);
	check_keys(json_array_get(json_object_get(j, "findings"), 0), "check severity what remedy");
	json_decref(j);
	sysroot_end(&b);
}

TEST(command_here)
{
	if (!worker())
		SKIP("no hone-worker ($HONE_WORKER)");
	setenv("HONE_SOCKET", in_dir("none.sock"), 1);
	hone("doctor --json --cache %s", in_dir("cache"));
	json_t *j = parse_out(), *f;
	size_t i, seen = 0;
	json_array_foreach(json_object_get(j, "findings"), i, f)
	{
		const char *check = json_string_value(json_object_get(f, "check"));
		const char *verdict = json_string_value(json_object_get(f, "severity"));
		if (!strcmp(check, "worker") || !strcmp(check, "devices") || !strcmp(check, "code")) {
			CHECK(!strcmp(verdict, "ok"));
			seen++;
		}
	}
	CHECK(seen >= 3);
	json_decref(j);
	unsetenv("HONE_SOCKET");
}

TEST(worker_that_is_not_ours)
{
	const char *const bad[] = {"/bin/true", "/nowhere/hone-worker", "/bin/cat", "/etc/passwd"};
	const char *before = getenv("HONE_WORKER");
	char kept[512];
	snprintf(kept, sizeof kept, "%s", before ? before : "");
	for (int i = 0; i < 4; i++) {
		setenv("HONE_WORKER", bad[i], 1);
		CHECK_RUN(1, "doctor --cache %s", in_dir("cache"));
		CHECK_SAYS(cli_out, "problem  worker");
	}
	if (before)
		setenv("HONE_WORKER", kept, 1);
	else
		unsetenv("HONE_WORKER");
}

__attribute__((destructor)) static void free_arena(void)
{
	arena_free(&arena);
}

TEST_MAIN
