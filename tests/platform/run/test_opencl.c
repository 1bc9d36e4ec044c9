/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL drivers that lie: whatever they say, there is a clear error or a bounded list, and no crash. */
#include "platform/base/rng.h"
#include "tests/lib/fake_opencl.h"
#include "tests/lib/maps.h"
#include "tests/lib/opencl_run.h"
#include "tests/lib/test.h"

#include <dlfcn.h>

static const char object[] = "//hone-opencl -cl-std=CL1.2 -cl-denorms-are-zero\n__kernel void k0() {}\n";

static struct opencl *open_lying(const char *lie)
{
	struct opencl *o = NULL;
	fake_lie(lie);
	CHECK_OK(opencl_open(fake_opencl(), &o));
	return o;
}

static bool is_clean(const char *s, size_t room)
{
	size_t n = strnlen(s, room);
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			return false;
	return n < room;
}

static bool all_clean(const struct opencl_info *i)
{
	return is_clean(i->platform, sizeof i->platform) && is_clean(i->name, sizeof i->name) &&
	       is_clean(i->vendor, sizeof i->vendor) && is_clean(i->version, sizeof i->version) &&
	       is_clean(i->c_version, sizeof i->c_version) && is_clean(i->driver, sizeof i->driver) &&
	       is_clean(i->extensions, sizeof i->extensions);
}

TEST(an_honest_device_is_listed)
{
	CHECK(!maps_driver(0)); /* nothing is linked */
	struct opencl *o = open_lying("");
	CHECK(maps_driver(0));
	REQUIRE(o && opencl_count(o) == 1 && !opencl_note(o)[0]);
	const struct opencl_info *i = opencl_info(o, 0);
	CHECK(!strcmp(i->name, "Fake G1") && !strcmp(i->platform, "Fake") && !strcmp(i->kind, "gpu"));
	CHECK(i->group_items == 256 && i->alloc_bytes == 1 << 20 && i->units == 1);
	CHECK(i->fp64 && !i->fp16); /* cl_khr_fp16x is another extension */
	CHECK(i->fma && !i->exact_divide);
	CHECK_OK(opencl_usable(i));
	opencl_close(o);
}

TEST(lists_are_bounded)
{
	struct opencl *o = open_lying("platforms-endless");
	REQUIRE(o);
	CHECK(opencl_count(o) == OPENCL_MAX_PLATFORMS);
	opencl_close(o);
	o = open_lying("devices-endless");
	REQUIRE(o);
	CHECK(opencl_count(o) == OPENCL_MAX_DEVICES);
	opencl_close(o);
	static const char *const empty[] = {"platforms-none", "devices-none"};
	for (int i = 0; i < 2; i++) {
		o = open_lying(empty[i]);
		REQUIRE(o);
		CHECK(opencl_count(o) == 0 && !opencl_note(o)[0]);
		opencl_close(o);
	}
}

TEST(null_handles_end_a_list)
{
	static const char *const lies[] = {"platforms-null", "devices-null"};
	for (int i = 0; i < 2; i++) {
		struct opencl *o = open_lying(lies[i]);
		REQUIRE(o);
		CHECK(opencl_count(o) == 1);
		CHECK(strstr(opencl_note(o), "NULL") && strstr(opencl_note(o), "is left out"));
		opencl_close(o);
	}
}

TEST(strings_are_cut_and_cleaned)
{
	static const char *const lies[] = {"strings-endless", "strings-dirty", "fail clGetDeviceInfo",
					   "fail clGetPlatformInfo"};
	for (int i = 0; i < 4; i++) {
		struct opencl *o = open_lying(lies[i]);
		REQUIRE(o && opencl_count(o) == 1);
		CHECK(all_clean(opencl_info(o, 0)));
		if (i == 0)
			CHECK(strlen(opencl_info(o, 0)->name) > 100);
		if (i == 1)
			CHECK(!strcmp(opencl_info(o, 0)->name, "[31mred [0m ?? \"quoted\""));
		if (i == 2)
			CHECK(!opencl_info(o, 0)->name[0]);
		opencl_close(o);
	}
}

/* Cleaning what is clean changes nothing; random bytes become clean. */
TEST(infos_of_other_processes_are_cleaned)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct opencl_info i, again;
		struct rng r;
		rng_seed(&r, seed);
		for (size_t k = 0; k < sizeof i; k++)
			((unsigned char *)&i)[k] =
			    (unsigned char)(rng_below(&r, 3) ? rng_below(&r, 256) : ' ' + rng_below(&r, 2));
		opencl_info_clean(&i);
		CHECK(all_clean(&i) && is_clean(i.kind, sizeof i.kind));
		CHECK(i.units >= 0 && i.clock_mhz >= 0 && i.group_items >= 0 && i.local_bytes >= 0);
		CHECK(i.global_bytes >= 0 && i.alloc_bytes >= 0);
		for (const bool *f = &i.local_is_memory; f <= &i.compiles; f++)
			CHECK(*(const unsigned char *)f <= 1);
		memcpy(&again, &i, sizeof i);
		opencl_info_clean(&again);
		CHECK(memcmp(&again, &i, sizeof i) == 0);
	}
}

TEST(numbers_are_bounded)
{
	struct opencl *o = open_lying("numbers-huge");
	REQUIRE(o && opencl_count(o) == 1);
	const struct opencl_info *i = opencl_info(o, 0);
	CHECK(i->global_bytes == INT64_MAX && i->units == UINT32_MAX && i->group_items > 0);
	struct opencl_dev *d;
	struct opencl_buf *b;
	REQUIRE_OK(opencl_use(o, 0, &d));
	CHECK_FAILS(opencl_alloc(d, 0, &b), E_NOMEM, "0 bytes");
	CHECK_FAILS(opencl_alloc(d, -1, &b), E_NOMEM, "-1 bytes");
	opencl_leave(d);
	opencl_close(o);
	o = open_lying("numbers-short");
	REQUIRE(o && opencl_count(o) == 1);
	CHECK(opencl_info(o, 0)->units == 0);
	CHECK_FAILS(opencl_use(o, 0, &d), E_UNSUPPORTED, "not available");
	opencl_close(o);
}

TEST(a_missing_loader_is_not_found)
{
	struct opencl *o;
	CHECK_FAILS(opencl_open("/nowhere/libOpenCL.so.1", &o), E_NOTFOUND, "no OpenCL loader");
	CHECK_FAILS(opencl_open("libc.so.6", &o), E_UNSUPPORTED, "clGetPlatformIDs");
	fake_lie("fail clGetPlatformIDs");
	CHECK_FAILS(opencl_open(fake_opencl(), &o), E_NOMEM, "clGetPlatformIDs: CL_OUT_OF_RESOURCES (-5)");
	o = open_lying("fail clGetDeviceIDs");
	REQUIRE(o);
	CHECK(opencl_count(o) == 0 && strstr(opencl_note(o), "clGetDeviceIDs: CL_OUT_OF_RESOURCES"));
	opencl_close(o);
}

/* Does everything with a device; the first call that fails ends it. */
static int use_all(struct opencl *o)
{
	struct opencl_dev *d = NULL;
	struct opencl_buf *b = NULL;
	struct opencl_code *c = NULL;
	void *p;
	char some[8] = "";
	int64_t param = 7;
	int k = 0, rc = opencl_use(o, 0, &d);
	if (rc >= 0)
		rc = opencl_alloc(d, 64, &b);
	if (rc >= 0)
		rc = opencl_map(b, 8, 56, &p);
	if (rc >= 0)
		rc = opencl_unmap(b);
	if (rc >= 0)
		rc = opencl_load(d, object, sizeof object - 1, &c);
	if (rc >= 0)
		rc = k = opencl_entry(c, "k0");
	const struct opencl_spot spot = {.buf = b, .at = 8};
	const struct opencl_launch at = {
	    .spot = &spot, .nspots = 1, .param = &param, .nparams = 1, .end = 100, .at_once = 30};
	if (rc >= 0)
		rc = opencl_run(d, c, k, &at);
	if (rc >= 0)
		rc = opencl_write(b, 8, some, sizeof some);
	if (rc >= 0)
		rc = opencl_read(b, 8, some, sizeof some);
	if (rc >= 0)
		rc = opencl_wait(d, &clock_real, clock_now(&clock_real) + NS_PER_S);
	opencl_unload(c);
	opencl_free(b);
	opencl_leave(d);
	return rc;
}

TEST(every_failing_call_is_named)
{
	static const char *const fails[] = {"clCreateContext",
					    "clCreateCommandQueue",
					    "clCreateBuffer",
					    "clEnqueueMapBuffer",
					    "clEnqueueUnmapMemObject",
					    "clFinish",
					    "clCreateProgramWithSource",
					    "clCreateKernel",
					    "clSetKernelArg",
					    "clEnqueueNDRangeKernel",
					    "clFlush",
					    "clEnqueueMarkerWithWaitList",
					    "clGetEventInfo"};
	struct opencl *o = open_lying("");
	REQUIRE(o);
	CHECK_OK(use_all(o));
	for (size_t i = 0; i < sizeof fails / sizeof *fails; i++) {
		char lie[64], text[96];
		snprintf(lie, sizeof lie, "fail %s", fails[i]);
		snprintf(text, sizeof text, "%s", fails[i]);
		fake_lie(lie);
		CHECK_FAILS(use_all(o), E_NOMEM, text);
		CHECK(strstr(err_text(), "CL_OUT_OF_RESOURCES (-5)"));
	}
	static const char *const nulls[] = {"clCreateContext",
					    "clCreateCommandQueue",
					    "clCreateBuffer",
					    "clEnqueueMapBuffer",
					    "clCreateKernel",
					    "clCreateProgramWithSource",
					    "clEnqueueMarkerWithWaitList"};
	for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++) {
		char lie[64];
		snprintf(lie, sizeof lie, "null %s", nulls[i]);
		fake_lie(lie);
		CHECK_FAILS(use_all(o), E_IO, nulls[i]);
	}
	static const char *const unseen[] = {"fail clReleaseContext", "fail clReleaseMemObject",
					     "fail clReleaseKernel", "fail clGetKernelWorkGroupInfo"};
	for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++) {
		fake_lie(unseen[i]);
		CHECK_OK(use_all(o));
	}
	opencl_close(o);
}

TEST(a_failed_build_shows_the_log)
{
	struct opencl *o = open_lying("");
	struct opencl_dev *d = NULL;
	struct opencl_code *c;
	REQUIRE(o);
	REQUIRE_OK(opencl_use(o, 0, &d));
	fake_lie("fail clBuildProgram");
	CHECK_FAILS(opencl_load(d, object, sizeof object - 1, &c), E_INFEASIBLE,
		    "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11): line 1: [1mno such type");
	CHECK(is_clean(err_text(), 4096));
	fake_lie("strings-endless");
	CHECK_FAILS(opencl_load(d, object, sizeof object - 1, &c), E_INFEASIBLE, "xxxx");
	CHECK(strlen(err_text()) < 700);
	opencl_leave(d);
	opencl_close(o);
}

/* The driver's count of calls. */
static int count_of(const char *symbol)
{
	void *lib = dlopen(fake_opencl(), RTLD_NOW | RTLD_NOLOAD);
	const int *n = lib ? dlsym(lib, symbol) : NULL;
	CHECK(n);
	return n ? *n : -1;
}

/* A binary is taken, and its source not built again, if it is of this source, device and driver, and whole.
 */
TEST(kept_programs_are_not_built_again)
{
	static const struct {
		const char *lie;
		int at, cut; /* byte that changes; bytes that are cut off */
		bool taken;
	} cases[] = {{"", -1, 0, true},
		     {"", -1, 3, false},
		     {"", -1, 7, false},
		     {"", sizeof object, 0, false},      /* of the key, as of another source */
		     {"", sizeof object + 16, 0, false}, /* of the binary */
		     {"fail clCreateProgramWithBinary", -1, 0, false},
		     {"null clCreateProgramWithBinary", -1, 0, false},
		     {"", -1, 0, true}};
	struct opencl *o = open_lying("");
	struct opencl_dev *d = NULL;
	struct opencl_code *c;
	struct buf kept = {0};
	REQUIRE(o);
	REQUIRE_OK(opencl_use(o, 0, &d));
	REQUIRE_OK(opencl_load(d, object, sizeof object - 1, &c));
	buf_add(&kept, object, sizeof object - 1);
	REQUIRE_OK(opencl_binary(c, &kept));
	opencl_unload(c);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf x = {0};
		buf_add(&x, kept.p, kept.n - (size_t)cases[i].cut);
		if (cases[i].at >= 0)
			x.p[cases[i].at] ^= 1;
		int sources = count_of("fake_opencl_sources"), builds = count_of("fake_opencl_builds");
		fake_lie(cases[i].lie);
		REQUIRE_OK(opencl_load(d, x.p, x.n, &c));
		CHECK(count_of("fake_opencl_sources") == sources + !cases[i].taken);
		CHECK(count_of("fake_opencl_builds") > builds);
		if (test_bad)
			printf("case %d\n", (int)i);
		opencl_unload(c);
		buf_free(&x);
	}
	buf_free(&kept);
	opencl_leave(d);
	opencl_close(o);
}

/* A driver that compiles at the first launch is not taken for a slow device, even if no time is left for more
 * than one launch that counts. */
TEST(peaks_do_not_count_first_launches)
{
	struct opencl *o = open_lying("");
	struct opencl_dev *d = NULL;
	struct target t;
	REQUIRE(o);
	REQUIRE_OK(opencl_use(o, 0, &d));
	opencl_target(opencl_info(o, 0), &t);
	fake_lie("cold");
	CHECK_OK(opencl_measure(d, &t));
	CHECK(t.fma_gflops > 1);
	if (test_bad)
		printf("%g GFLOP/s\n", t.fma_gflops);
	opencl_leave(d);
	opencl_close(o);
}

/* No option but those of the emitter reaches a driver. */
TEST(objects_are_not_trusted)
{
	static const char *const bad[] = {"",
					  "//hone-opencl",
					  "__kernel void k0() {}\n",
					  "//hone-opencl -I/etc\nx",
					  "//hone-opencl -cl-std=CL1.2 -D A=B\nx",
					  "//hone-opencl  -cl-std=CL1.2\nx",
					  "//hone-opencl -cl-std=CL1.2 -cl-std=CL1.2\nx",
					  "//hone-opencl-cl-std=CL1.2\nx",
					  "//hone-opencl -cl-std=CL1.2 \nx"};
	struct opencl *o = open_lying("");
	struct opencl_dev *d = NULL;
	struct opencl_code *c;
	REQUIRE(o);
	REQUIRE_OK(opencl_use(o, 0, &d));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		size_t n = strlen(bad[i]);
		char *copy = malloc(n + 1); /* exactly as long, so that a sanitizer sees reads behind it */
		memcpy(copy, bad[i], n);
		copy = realloc(copy, n ? n : 1);
		CHECK_FAILS(opencl_load(d, copy, n, &c), E_CORRUPT, "OpenCL object");
		free(copy);
	}
	REQUIRE_OK(opencl_load(d, "//hone-opencl\n", 14, &c));
	CHECK_FAILS(opencl_run(d, c, 0, &(struct opencl_launch){.end = 1}), E_USAGE, "entry 0");
	CHECK(opencl_entry(c, "k0") == 0 && opencl_entry(c, "k1") == 1 && opencl_entry(c, "k0") == 0);
	CHECK_OK(opencl_run(d, c, 0, &(struct opencl_launch){.end = 0}));
	CHECK_FAILS(opencl_run(d, c, 0, &(struct opencl_launch){.end = INT64_MAX}), E_INFEASIBLE,
		    "work items");
	CHECK_FAILS(opencl_run(d, c, 0, &(struct opencl_launch){.begin = -1}), E_USAGE, "-1");
	CHECK_OK(opencl_run(d, c, 1, &(struct opencl_launch){.end = 1000, .group = 1 << 20})); /* cut to 64 */
	opencl_unload(c);
	opencl_leave(d);
	opencl_close(o);
}

TEST(mapped_buffers_are_not_launched)
{
	struct opencl *o = open_lying("");
	struct opencl_dev *d = NULL;
	struct opencl_buf *b = NULL;
	struct opencl_code *c;
	void *p = NULL;
	REQUIRE(o);
	REQUIRE_OK(opencl_use(o, 0, &d));
	REQUIRE_OK(opencl_alloc(d, 16, &b));
	REQUIRE_OK(opencl_load(d, object, sizeof object - 1, &c));
	CHECK_FAILS(opencl_unmap(b), E_USAGE, "not mapped");
	CHECK_OK(opencl_map(b, 4, 12, &p));
	CHECK_FAILS(opencl_map(b, 0, 4, &p), E_USAGE, "mapped already");
	CHECK_FAILS(opencl_write(b, 0, "", 1), E_USAGE, "mapped already");
	CHECK(opencl_entry(c, "k0") == 0);
	CHECK_FAILS(
	    opencl_run(d, c, 0,
		       &(struct opencl_launch){.spot = &(struct opencl_spot){b, 0}, .nspots = 1, .end = 1}),
	    E_USAGE, "buffer 0 is mapped");
	opencl_unload(c);
	opencl_free(b);
	opencl_leave(d);
	CHECK_FAILS(opencl_use(o, 1, &d), E_NOTFOUND, "device 1");
	opencl_close(o);
}

static struct opencl_dev *use_lying(struct opencl **o)
{
	struct opencl_dev *d = NULL;
	*o = open_lying("");
	CHECK(*o && opencl_use(*o, 0, &d) >= 0);
	return d;
}

/* Only the parts of a buffer that exist are copied. */
TEST(copies_stay_inside)
{
	char bytes[16] = "0123456789abcde", got[16] = "";
	struct opencl *o;
	struct opencl_buf *b = NULL;
	struct opencl_dev *d = use_lying(&o);
	REQUIRE(d);
	REQUIRE_OK(opencl_alloc(d, 16, &b));
	CHECK_OK(opencl_write(b, 4, bytes, 12));
	CHECK_OK(opencl_read(b, 8, got, 8));
	CHECK(!strcmp(got, "456789ab"));
	CHECK_OK(opencl_read(b, 16, got, 0));
	static const int64_t bad[][2] = {{0, 17}, {16, 1},        {17, 0},       {-1, 1},
					 {1, -1}, {INT64_MAX, 1}, {1, INT64_MAX}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_FAILS(opencl_read(b, bad[i][0], got, bad[i][1]), E_USAGE, "buffer of 16");
		CHECK_FAILS(opencl_write(b, bad[i][0], got, bad[i][1]), E_USAGE, "buffer of 16");
	}
	fake_lie("fail clEnqueueMapBuffer"); /* the driver copies */
	CHECK_OK(opencl_write(b, 0, bytes + 1, 12));
	CHECK_OK(opencl_read(b, 4, got, 8));
	CHECK(!memcmp(got, "56789abc", 8));
	opencl_free(b);
	opencl_leave(d);
	opencl_close(o);
}

static bool has_textures(const char *size)
{
	struct target t;
	setenv("FAKE_OPENCL_IMAGES", size, 1);
	struct opencl *o = open_lying("");
	if (!o)
		return false;
	opencl_target(opencl_info(o, 0), &t);
	opencl_close(o);
	return target_textures(&t);
}

/* Devices whose images are too small for rows of texels have no textures, whatever they say. */
TEST(images_make_textures)
{
	CHECK(!has_textures("0") && !has_textures("1023") && has_textures("1024") && has_textures("16384"));
	unsetenv("FAKE_OPENCL_IMAGES");
}

/* An image that a device does not make is a fault of the candidate, not of the device. */
TEST(images_are_written_as_a_whole)
{
	enum { ELEMS = 3 * 4096 + 8 };
	static float from[ELEMS];
	struct opencl *o;
	struct opencl_buf *b = NULL;
	void *p;
	setenv("FAKE_OPENCL_IMAGES", "1024", 1);
	struct opencl_dev *d = use_lying(&o);
	REQUIRE(d);
	static const int64_t bad[] = {0, -4, 6, INT64_MAX, 1024 * 4096 + 4};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(opencl_alloc_image(d, i % 2, bad[i], &b), E_INFEASIBLE, "allows 1024 rows");
	REQUIRE_OK(opencl_alloc_image(d, false, ELEMS, &b));
	CHECK_OK(opencl_write(b, 0, from, sizeof from));
	CHECK_FAILS(opencl_write(b, 0, from, sizeof from - 16), E_USAGE, "as a whole");
	CHECK_FAILS(opencl_write(b, 16, from, sizeof from - 16), E_USAGE, "as a whole");
	CHECK_FAILS(opencl_read(b, 0, from, 16), E_USAGE, "as a whole");
	CHECK_FAILS(opencl_map(b, 0, 16, &p), E_USAGE, "as a whole");
	fake_lie("fail clEnqueueWriteImage");
	CHECK_FAILS(opencl_write(b, 0, from, sizeof from), E_NOMEM, "clEnqueueWriteImage");
	opencl_free(b);
	static const struct {
		const char *lie;
		int rc;
		const char *text;
	} lies[] = {{"no-images", E_INFEASIBLE, "clCreateImage: CL_IMAGE_FORMAT_NOT_SUPPORTED (-10)"},
		    {"null clCreateImage", E_INFEASIBLE, "clCreateImage: it gave NULL"},
		    {"fail clCreateImage", E_NOMEM, "clCreateImage: CL_OUT_OF_RESOURCES"}};
	for (int i = 0; i < 3; i++) {
		fake_lie(lies[i].lie);
		CHECK_FAILS(opencl_alloc_image(d, true, ELEMS, &b), lies[i].rc, lies[i].text);
	}
	unsetenv("FAKE_OPENCL_IMAGES");
	opencl_leave(d);
	opencl_close(o);
}

/* A device that hangs is given up at the deadline, and never waited for again. */
TEST(a_hanging_device_is_lost)
{
	struct opencl *o;
	struct opencl_code *c = NULL;
	struct opencl_buf *b = NULL;
	struct opencl_job *j = NULL;
	void *p;
	struct opencl_dev *d = use_lying(&o);
	REQUIRE(d);
	REQUIRE_OK(opencl_alloc(d, 16, &b));
	REQUIRE_OK(opencl_load(d, object, sizeof object - 1, &c));
	CHECK(opencl_entry(c, "k0") == 0);
	REQUIRE_OK(opencl_prepare(c, 0, &(struct opencl_launch){.end = 1}, &j));
	fake_lie("stuck");
	CHECK_OK(opencl_start(j));
	int64_t start = clock_now(&clock_real);
	CHECK_FAILS(opencl_wait(d, &clock_real, start + 20 * NS_PER_MS), E_TIMEOUT, "in time");
	CHECK(clock_now(&clock_real) - start >= 20 * NS_PER_MS);
	CHECK_FAILS(opencl_wait(d, &clock_real, INT64_MAX), E_IO, "hangs");
	CHECK_FAILS(opencl_start(j), E_IO, "hangs");
	CHECK_FAILS(opencl_map(b, 0, 16, &p), E_IO, "hangs");
	CHECK_FAILS(opencl_write(b, 0, "", 1), E_IO, "hangs");
	CHECK_FAILS(opencl_load(d, object, sizeof object - 1, &c), E_IO, "hangs");
	opencl_drop(j);
	opencl_unload(c);
	opencl_free(b);
	opencl_leave(d);
	opencl_close(o);
}

TEST(a_kernel_that_fails_is_named)
{
	struct opencl *o;
	struct opencl_dev *d = use_lying(&o);
	REQUIRE(d);
	fake_lie("lost");
	CHECK_FAILS(opencl_wait(d, &clock_real, clock_now(&clock_real) + NS_PER_S), E_NOMEM,
		    "a kernel: CL_OUT_OF_RESOURCES");
	CHECK_FAILS(opencl_wait(d, &clock_real, INT64_MAX), E_NOMEM, "clFinish");
	opencl_leave(d);
	opencl_close(o);
}

TEST_MAIN
