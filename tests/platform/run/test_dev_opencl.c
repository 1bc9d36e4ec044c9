/* SPDX-License-Identifier: Apache-2.0 */
/* Names of devices, targets of OpenCL devices whatever their drivers say, and measured peaks. */
#include "platform/run/dev.h"
#include "platform/base/rng.h"
#include "tests/lib/opencl_device.h"

TEST(names_of_devices)
{
	static const char *const good[] = {"cpu", "sim", "opencl", "opencl:0", "opencl:7", "opencl:999"};
	static const char *const bad[] = {
	    "",          ":",         ":0",        "opencl:",   "opencl:x",    "opencl:0x1",
	    "opencl:-1", "opencl:1 ", "opencl:00", "opencl:01", "opencl:1000", "opencl:0:0",
	    "cpu:0",     "sim:1",     "OpenCL:0",  "openc:0",   "openclx:0",   "opencl:99999999999999999999"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		CHECK(dev_find(good[i]));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(!dev_find(bad[i]));
		if (test_bad)
			printf("%s\n", bad[i]);
	}
	CHECK(dev_number("opencl:17") == 17 && dev_number("opencl") == 0);
	CHECK(dev_find("opencl:3")->own && !dev_find("cpu")->own);
}

static void random_text(struct rng *r, char *out, size_t room)
{
	size_t n = rng_below(r, (uint32_t)room);
	for (size_t i = 0; i < n; i++)
		out[i] = (char)(rng_below(r, 4) ? 'a' + rng_below(r, 26) : 1 + rng_below(r, 255));
	out[n] = 0;
}

/* A target is read back from its text as it was, whatever a driver says. */
TEST(targets_of_any_driver)
{
	struct rng r;
	rng_seed(&r, 1);
	for (int i = 0; i < 300 && !test_bad; i++) {
		struct opencl_info info = {.units = (int64_t)(((uint64_t)rng_below(&r, UINT32_MAX) << 32 |
							       rng_below(&r, UINT32_MAX)) >>
							      rng_below(&r, 64)),
					   .fma = rng_below(&r, 2)};
		struct target t, again;
		struct buf text = {0}, other = {0};
		random_text(&r, info.name, sizeof info.name);
		random_text(&r, info.driver, sizeof info.driver);
		random_text(&r, info.version, sizeof info.version);
		random_text(&r, info.extensions, sizeof info.extensions);
		opencl_target(&info, &t);
		target_text(&t, &text);
		CHECK_OK(target_parse(buf_str(&text), &again));
		target_text(&again, &other);
		CHECK(!strcmp(buf_str(&text), buf_str(&other)));
		CHECK(t.cores >= 1 && target_runs_items(&t) && !strcmp(target_device(&t), "opencl"));
		if (test_bad)
			printf("%s\n", buf_str(&text));
		buf_free(&text);
		buf_free(&other);
	}
}

/* Whole words of the list become features, in an order that is not the driver's. */
TEST(extensions_are_features)
{
	static const struct {
		const char *version, *extensions, *features;
		bool half_fma;
	} cases[] = {
	    {"OpenCL 1.2", "cl_khr_fp16", ""},
	    {"OpenCL 1.2", "cl_khr_fp16", "+cl_khr_fp16", true},
	    {"OpenCL 3.0", "cl_khr_integer_dot_product cl_khr_fp16",
	     "+cl_khr_fp16,+cl_khr_integer_dot_product", true},
	    {"OpenCL 3.0 x", "cl_khr_fp64 cl_khr_integer_dot_product", "+cl_khr_integer_dot_product"},
	    {"OpenCL 4.1", "cl_khr_integer_dot_product", "+cl_khr_integer_dot_product"},
	    {"OpenCL 2.1 x", "cl_khr_integer_dot_product", ""},
	    {"OpenCL 2.1 x", "cl_khr_subgroup_shuffle cl_intel_subgroups", "+cl_intel_subgroups"},
	    {"OpenCL 3.0", "cl_khr_subgroup_shuffle_relative cl_khr_subgroup_shuffle",
	     "+cl_khr_subgroup_shuffle"},
	    {"", "cl_khr_integer_dot_product", ""},
	    {"OpenCL 99999999999999999999", "cl_khr_integer_dot_product2 xcl_khr_integer_dot_product", ""},
	    {"OpenCL 1.2",
	     "cl_arm_integer_dot_product_accumulate_int8 cl_arm_integer_dot_product_int8 "
	     "cl_arm_integer_dot_product_int8",
	     "+cl_arm_integer_dot_product_int8,+cl_arm_integer_dot_product_accumulate_int8"},
	    {"OpenCL 1.2", "cl_arm_integer_dot_product_accumulate_int16", ""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct opencl_info info = {.units = 1, .half_fma = cases[i].half_fma};
		struct target t;
		strcpy(info.version, cases[i].version);
		strcpy(info.extensions, cases[i].extensions);
		opencl_target(&info, &t);
		CHECK(!strcmp(t.features, cases[i].features));
	}
}

TEST(peaks_are_measured)
{
	const char *why;
	struct opencl_dev *d = opencl_device(&why);
	struct target t;
	if (!d)
		SKIP(why);
	opencl_target(opencl_dev_info(d), &t);
	CHECK_OK(opencl_measure(d, &t));
	CHECK(t.fma_gflops > .1 && t.fma_gflops < 1e7 && t.copy_gbs > .01 && t.copy_gbs < 1e5);
	for (int i = 0; i < 4; i++)
		CHECK(t.bw_gbs[i] > .01 && t.bw_gbs[i] < 1e6);
	printf("a launch takes %.0f ns\n", t.launch_ns[0]);
	CHECK(t.launch_ns[0] > 100 && t.launch_ns[0] < 1e8 && t.launch_ns[1] == 0);
	if (strcmp(opencl_dev_info(d)->kind, "cpu"))
		SKIP("no device whose peaks are known otherwise");
	/* A driver for the processor reaches what one core of it reaches. Both are the best of some tries. */
	struct target core, again;
	bool reached = false;
	REQUIRE_OK(target_host(&core));
	for (int i = 0; i < 8 && !reached && !test_bad; i++) {
		again = core;
		CHECK_OK(target_quick(&again, &clock_real));
		target_raise(&core, &again);
		again = t;
		CHECK_OK(opencl_measure(d, &again));
		target_raise(&t, &again);
		reached = t.fma_gflops > .3 * core.fma_gflops && t.bw_gbs[0] > .25 * core.bw_gbs[0] &&
			  t.bw_gbs[3] > .35 * core.bw_gbs[3];
	}
	CHECK(reached);
	printf("%.1f of %.1f GFLOP/s; %.1f, %.1f of %.1f, %.1f GB/s\n", t.fma_gflops, core.fma_gflops,
	       t.bw_gbs[0], t.bw_gbs[3], core.bw_gbs[0], core.bw_gbs[3]);
}

/* A kept program is taken where it is of the same source, device and driver; else its source is built. */
TEST(programs_are_kept)
{
	static const char object[] =
	    "//hone-opencl -cl-std=CL1.2\n"
	    "__kernel void k0(__global uchar *m0, const long o0, const long begin, const "
	    "long end) { ((__global int *)(m0 + o0))[get_global_id(0)] = 7; }\n";
	const char *why;
	struct opencl_dev *d = opencl_device(&why);
	struct opencl_code *c;
	struct opencl_buf *b;
	struct buf kept = {0};
	int32_t got[4];
	if (!d)
		SKIP(why);
	REQUIRE_OK(opencl_alloc(d, sizeof got, &b));
	REQUIRE_OK(opencl_load(d, object, sizeof object - 1, &c));
	buf_add(&kept, object, sizeof object - 1);
	CHECK(opencl_entry(c, "k0") == 0);
	CHECK_OK(opencl_binary(c, &kept));
	opencl_unload(c);
	size_t head = sizeof object - 1 + 1 + 16;
	REQUIRE(kept.n > head);
	for (int damage = 0; damage < 4; damage++) {
		/* whole; of another source; another binary; cut off */
		struct buf x = {0};
		memset(got, 0, sizeof got);
		buf_add(&x, kept.p, damage == 3 ? head - 5 : kept.n);
		if (damage == 1)
			x.p[sizeof object + 3] ^= 1;
		for (size_t i = head; damage == 2 && i < x.n; i++)
			x.p[i] = (char)~x.p[i];
		REQUIRE_OK(opencl_load(d, x.p, x.n, &c));
		CHECK(opencl_entry(c, "k0") == 0);
		const struct opencl_spot spot = {.buf = b};
		CHECK_OK(opencl_run(d, c, 0, &(struct opencl_launch){.spot = &spot, .nspots = 1, .end = 4}));
		CHECK_OK(opencl_read(b, 0, got, sizeof got));
		CHECK(got[0] == 7 && got[3] == 7);
		opencl_unload(c);
		buf_free(&x);
	}
	opencl_free(b);
	buf_free(&kept);
}

TEST_MAIN
