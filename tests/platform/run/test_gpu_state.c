/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a GPU, by a management library that lies and by files of boards that do. */
#include "platform/base/clock.h"
#include "platform/base/rng.h"
#include "platform/run/gpu_state.h"
#include "tests/lib/fake_nvml.h"
#include "tests/lib/sysroot.h"
#include "tests/lib/test.h"

static const char uuid[] = "00102030-4050-6070-8090-a0b0c0d0e0f0";

/* The state in words. */
static const char *told(const char *lie)
{
	static char text[200];
	struct gpu_watch *w;
	struct gpu_state s;
	setenv("FAKE_NVML", lie, 1);
	*text = 0;
	if (gpu_watch_open(uuid, false, NULL, fake_nvml(), &w) < 0) {
		snprintf(text, sizeof text, "none: %s", err_text());
		return text;
	}
	gpu_watch_read(w, &s);
	gpu_watch_close(w);
	gpu_state_text(&s, text, sizeof text);
	return text;
}

TEST(libraries_that_lie)
{
	static const struct {
		const char *lie, *text;
	} cases[] = {
	    {"", "1230 of 1980 MHz, memory 2619 MHz, 45 C, 120.5 W, 3 % busy"},
	    {"slowed 104", "1230 of 1980 MHz, memory 2619 MHz, 45 C, 120.5 W, 3 % busy, held down by heat "
			   "and its hardware"},
	    {"slowed 132",
	     "1230 of 1980 MHz, memory 2619 MHz, 45 C, 120.5 W, 3 % busy, held down by its power "
	     "limit and the power supply"},
	    {"nvmlDeviceGetClockInfo=3", "45 C, 120.5 W, 3 % busy"},
	    {"nvmlDeviceGetMaxClockInfo=3", "1230 MHz, memory 2619 MHz, 45 C, 120.5 W, 3 % busy"},
	    {"nvmlDeviceGetTemperature=999;nvmlDeviceGetPowerUsage=-1",
	     "1230 of 1980 MHz, memory 2619 MHz, 3 % busy"},
	    {"nvmlDeviceGetUtilizationRates=3;nvmlDeviceGetCurrentClocksThrottleReasons=3;slowed 104",
	     "1230 of 1980 MHz, memory 2619 MHz, 45 C, 120.5 W"},
	    {"garbage", "held down by its power limit and heat and its hardware and the power supply"},
	    {"nvmlInit_v2=9", "none: libnvidia-ml.so.1 does not start (9)"},
	    {"nvmlDeviceGetHandleByUUID=6", "none: libnvidia-ml.so.1 does not know this GPU (6)"},
	    {"nvmlShutdown=999", "1230 of 1980 MHz, memory 2619 MHz, 45 C, 120.5 W, 3 % busy"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *text = told(cases[i].lie);
		CHECK(!strcmp(text, cases[i].text));
		if (test_bad) {
			printf("%s: %s\n", cases[i].lie, text);
			break;
		}
	}
	struct gpu_watch *w;
	CHECK_FAILS(gpu_watch_open("ffffffff-0000-0000-0000-000000000000", false, NULL, fake_nvml(), &w),
		    E_NOTFOUND, "does not know this GPU (6)");
	CHECK_FAILS(gpu_watch_open(uuid, false, NULL, "/nonexistent/libnvidia-ml.so.1", &w), E_NOTFOUND,
		    "there is no libnvidia-ml.so.1");
	CHECK_FAILS(gpu_watch_open(uuid, false, NULL, "/proc/self/exe", &w), E_NOTFOUND, "libnvidia-ml");
}

/* No call hangs its caller, and what hung once is not asked again. */
TEST(libraries_that_hang)
{
	static const char *const calls[] = {"nvmlInit_v2", "nvmlDeviceGetHandleByUUID",
					    "nvmlDeviceGetClockInfo",
					    "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlShutdown"};
	gpu_watch_patience(50 * NS_PER_MS);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		char lie[80];
		double start_s = test_now_s();
		struct gpu_watch *w = NULL;
		struct gpu_state s;
		snprintf(lie, sizeof lie, "hang %s", calls[i]);
		setenv("FAKE_NVML", lie, 1);
		int rc = gpu_watch_open(uuid, false, NULL, fake_nvml(), &w);
		CHECK((rc < 0) == (i < 2));
		if (rc < 0)
			CHECK(rc == E_NOTFOUND && strstr(err_text(), "not told in 0.05 s"));
		for (int k = 0; k < 3 && rc >= 0; k++) {
			gpu_watch_read(w, &s);
			CHECK((s.clock_mhz < 0) == (i < 4));
		}
		if (rc >= 0)
			gpu_watch_close(w);
		CHECK(test_now_s() - start_s < 5);
		if (test_bad)
			printf("%s\n", lie);
	}
	gpu_watch_patience(NS_PER_S);
}

static const struct sysroot_file jetson[] = {
    {"/sys/class/devfreq/17000000.ga10b/cur_freq", "624750000\n"},
    {"/sys/class/devfreq/17000000.ga10b/max_freq", "1300500000\n"},
    {"/sys/class/thermal/thermal_zone0/type", "CPU-therm\n"},
    {"/sys/class/thermal/thermal_zone0/temp", "51000\n"},
    {"/sys/class/thermal/thermal_zone1/type", "GPU-therm\n"},
    {"/sys/class/thermal/thermal_zone1/temp", "48600\n"},
    {"/sys/class/hwmon/hwmon3/in1_label", "VDD_CPU_CV\n"},
    {"/sys/class/hwmon/hwmon3/in1_input", "5000\n"},
    {"/sys/class/hwmon/hwmon3/in2_label", "VDD_GPU_SOC\n"},
    {"/sys/class/hwmon/hwmon3/in2_input", "19000\n"},
    {"/sys/class/hwmon/hwmon3/curr2_input", "250\n"},
    {"/sys/class/hwmon/hwmon3/oc1_event_cnt", "0\n"},
    {"/sys/devices/gpu.0/load", "375\n"},
    {NULL, NULL},
};

static bool says(const char *text, const char *words)
{
	return text && strstr(text, words);
}

#define COMPATIBLE "/proc/device-tree/compatible"

/* NVML tells the state of any other GPU that shares the processor's memory. */
TEST(only_a_jetson_is_read_as_one)
{
	static const struct {
		const char *compatible, *load;
		bool is;
	} cases[] = {{"nvidia,tegra234", NULL, true},
		     {NULL, "375\n", true}, /* in a container */
		     {NULL, NULL, false},
		     {"", NULL, false},
		     {"nvidia,gb10", NULL, false},
		     {"rockchip,rk3588", "375\n", false}};
	setenv("FAKE_NVML", "", 1);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sysroot b;
		struct gpu_watch *w;
		struct gpu_state s;
		sysroot_begin(&b);
		sysroot_fill(&b, jetson);
		sysroot_gone(&b, "/sys/devices/gpu.0/load");
		if (cases[i].load)
			sysroot_set(&b, "/sys/devices/gpu.0/load", "%s", cases[i].load);
		if (cases[i].compatible && !cases[i].is)
			sysroot_set(&b, COMPATIBLE, "%s", cases[i].compatible);
		else if (cases[i].compatible)
			sysroot_set(&b, COMPATIBLE, "nvidia,p3737%cnvidia,tegra234", 0);
		REQUIRE_OK(gpu_watch_open(uuid, true, b.root, fake_nvml(), &w));
		gpu_watch_read(w, &s);
		CHECK(s.clock_mhz == (cases[i].is ? 624 : 1230));
		gpu_watch_close(w);
		sysroot_end(&b);
	}
}

TEST(files_of_a_jetson)
{
	struct sysroot b;
	struct gpu_watch *w;
	struct gpu_state s, later;
	char text[200];
	sysroot_begin(&b);
	sysroot_fill(&b, jetson);
	REQUIRE_OK(gpu_watch_open("", true, b.root, NULL, &w));
	gpu_watch_read(w, &s);
	gpu_state_text(&s, text, sizeof text);
	CHECK(!strcmp(text, "624 of 1300 MHz, 49 C, 4.8 W, 37 % busy"));
	CHECK(!gpu_state_taint(&s, &s));
	sysroot_set(&b, "/sys/class/hwmon/hwmon3/oc1_event_cnt", "2\n");
	gpu_watch_read(w, &later);
	CHECK(says(gpu_state_taint(&s, &later), "began to throttle"));
	gpu_watch_read(w, &s);
	CHECK(says(gpu_state_taint(&later, &s), "ceased to throttle"));
	later.events = s.events + 1;
	later.slowed = s.slowed;
	CHECK(says(gpu_state_taint(&s, &later), "the board throttled"));
	later = GPU_STATE_NONE; /* what is not told says nothing of the times */
	CHECK(s.events > 0 && !gpu_state_taint(&s, &later) && !gpu_state_taint(&later, &s));
	s.slowed = GPU_SLOWED_BOARD;
	CHECK(!gpu_state_taint(&s, &later) && !gpu_state_taint(&later, &s));
	gpu_watch_close(w);
	sysroot_end(&b);
	sysroot_begin(&b); /* a board that tells nothing */
	sysroot_set(&b, COMPATIBLE, "nvidia,p2972-0000%cnvidia,tegra194", 0);
	REQUIRE_OK(gpu_watch_open("", true, b.root, NULL, &w));
	gpu_watch_read(w, &s);
	gpu_state_text(&s, text, sizeof text);
	CHECK(!*text);
	gpu_watch_close(w);
	sysroot_end(&b);
}

/* Whatever the files hold, each number is one that a GPU may have, or is not told. */
TEST(files_that_lie)
{
	static const char *const texts[] = {"",
					    "-1",
					    "-9223372036854775808",
					    "9223372036854775807",
					    "1e999",
					    "abc",
					    "0",
					    "99999999999999999999999",
					    "\n\n",
					    "7 7",
					    "\xff\xfe"};
	enum { FILES = sizeof jetson / sizeof *jetson - 1, TEXTS = sizeof texts / sizeof *texts };
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0; i < 60 && !test_bad; i++) {
		struct sysroot b;
		struct gpu_watch *w;
		struct gpu_state s;
		char text[200];
		sysroot_begin(&b);
		sysroot_fill(&b, jetson);
		sysroot_set(&b, COMPATIBLE, "nvidia,tegra234");
		for (int f = 0; f < FILES; f++) {
			unsigned how = rng_below(&r, 4);
			if (how == 0)
				sysroot_set(&b, jetson[f].path, "%s", texts[rng_below(&r, TEXTS)]);
			if (how == 1 && rng_below(&r, 3) == 0) { /* nobody writes it: a read would hang */
				sysroot_gone(&b, jetson[f].path);
				CHECK(mkfifo(sysroot_path(&b, jetson[f].path), 0644) == 0);
			}
		}
		REQUIRE_OK(gpu_watch_open("", true, b.root, NULL, &w));
		for (int k = 0; k < 2; k++) {
			gpu_watch_read(w, &s);
			CHECK(s.clock_mhz == -1 || (s.clock_mhz > 0 && s.clock_mhz <= 100000));
			CHECK(s.temp_mc == -1 || (s.temp_mc > 0 && s.temp_mc <= 200000));
			CHECK(s.power_mw == -1 || s.power_mw > 0);
			CHECK(s.load_pct >= -1 && s.load_pct <= 100 && s.events >= 0);
			gpu_state_text(&s, text, sizeof text);
		}
		gpu_watch_close(w);
		sysroot_end(&b);
	}
}

/* States that another process sent, and room for their texts. */
TEST(states_of_any_bytes)
{
	struct rng r;
	rng_seed(&r, 4);
	for (int i = 0; i < 2000; i++) {
		struct gpu_state s;
		char text[200];
		for (size_t k = 0; k < sizeof s; k++)
			((unsigned char *)&s)[k] = rng_below(&r, 3) ? (unsigned char)rng_below(&r, 256) : 0;
		gpu_state_clean(&s);
		CHECK(s.load_pct >= -1 && s.load_pct <= 100 && s.slowed < 32 && s.events >= -1);
		int room = 1 + (int)rng_below(&r, sizeof text);
		memset(text, 'x', sizeof text);
		gpu_state_text(&s, text, room);
		CHECK(memchr(text, 0, (size_t)room));
		CHECK(room == sizeof text || text[room] == 'x');
	}
}

TEST_MAIN
