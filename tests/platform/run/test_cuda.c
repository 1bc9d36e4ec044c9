/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA drivers that lie: whatever they say, there is a clear error or a bounded list, and no crash. And
 * honest ones: launches run in order, on the bytes that they were given. Past 800 lines because all cases use
 * the one fake driver and the few helpers that open it. */
#include "platform/base/rng.h"
#include "platform/run/cuda.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/maps.h"
#include "tests/lib/test.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

/* k0: b[item - begin] = a + item, in s32; k1: b[item] += 1. Blocks have 32 items. */
#define HEAD(k, params)                                                                                      \
	".visible .entry " k "(.param .u64 " k "_b, " params ".param .u64 " k "_begin, .param .u64 " k       \
	"_end)\n.reqntid 32, 1, 1\n{\n.reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<12>;\n"             \
	"ld.param.u64 %rd1, [" k "_b];\nld.param.u64 %rd2, [" k "_begin];\nld.param.u64 %rd3, [" k           \
	"_end];\n"                                                                                           \
	"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nshl.b32 %r3, %r1, 5;\nadd.s32 %r4, %r3, %r2;\n"       \
	"cvt.u64.u32 %rd4, %r4;\nadd.s64 %rd5, %rd2, %rd4;\n"                                                \
	"setp.ge.s64 %p1, %rd5, %rd3;\n@%p1 bra END_" k ";\n"                                                \
	"cvta.to.global.u64 %rd6, %rd1;\n"
#define TAIL(k) "END_" k ":\nret;\n}\n"
#define OBJECT(group)                                                                                        \
	"//hone-ptx k0," group ",1,0;k1,32,1,0\n.version 6.1\n.target sm_72\n.address_size 64\n" HEAD(       \
	    "k0",                                                                                            \
	    ".param .u64 k0_a, ") "ld.param.u64 %rd7, [k0_a];\nadd.s64 %rd8, %rd7, %rd5;\ncvt.u32.u64 %r5, " \
				  "%rd8;\n"                                                                  \
				  "shl.b64 %rd9, %rd4, 2;\nadd.s64 %rd10, %rd6, %rd9;\nst.global.u32 "       \
				  "[%rd10], %r5;\n" TAIL("k0") HEAD(                                         \
				      "k1",                                                                  \
				      "") "shl.b64 %rd9, %rd5, 2;\nadd.s64 %rd10, %rd6, "                    \
					  "%rd9;\nld.global.u32 %r5, [%rd10];\n"                             \
					  "add.s32 %r6, %r5, 1;\nst.global.u32 [%rd10], %r6;\n" TAIL("k1")
static const char object[] = OBJECT("32");
enum { LENGTH = sizeof object - 1 };

static struct cuda *open_lying(const char *lie)
{
	struct cuda *c = NULL;
	cuda_lie(lie);
	CHECK_OK(cuda_open(fake_cuda(), &c));
	return c;
}

static struct cuda_dev *use_lying(const char *lie, struct cuda **c)
{
	struct cuda_dev *d = NULL;
	*c = open_lying(lie);
	CHECK(*c && cuda_use(*c, 0, &d) >= 0);
	return d;
}

static void leave(struct cuda *c, struct cuda_dev *d)
{
	cuda_leave(d);
	cuda_close(c);
}

static bool is_clean(const char *s, size_t room)
{
	size_t n = strnlen(s, room);
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			return false;
	return n < room;
}

TEST(an_honest_device_is_listed)
{
	CHECK(!maps_driver(0)); /* nothing is linked */
	struct cuda *c = open_lying("");
	CHECK(maps_driver(0));
	REQUIRE(c && cuda_count(c) == 1 && !cuda_note(c)[0]);
	const struct cuda_info *i = cuda_info(c, 0);
	CHECK(!strcmp(i->name, "Fake C1") && i->driver == 11040 && i->capability == 87);
	CHECK(!strcmp(i->uuid, "00102030-4050-6070-8090-a0b0c0d0e0f0"));
	CHECK(i->group_items == 1024 && i->units == 1 && i->clock_mhz == 1300 && i->l2_bytes == 256 << 10);
	CHECK(i->shared_bytes == 48 << 10 && i->global_bytes == 256 << 20 && !i->integrated && i->managed);
	CHECK_OK(cuda_usable(i));
	cuda_close(c);
}

TEST(lists_are_bounded)
{
	static const struct {
		const char *lie;
		int devices;
	} cases[] = {{"devices 2147483647", CUDA_MAX_DEVICES},
		     {"devices 2", 2},
		     {"devices 0", 0},
		     {"devices -7", 0},
		     {"cuDeviceGetCount=100", 0},
		     {"devices 5;cuDeviceGet=101", 0}};
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct cuda *c = open_lying(cases[k].lie);
		REQUIRE(c);
		CHECK(cuda_count(c) == cases[k].devices);
		CHECK(!cuda_note(c)[0] == (k < 5));
		cuda_close(c);
	}
}

TEST(texts_are_cut_and_cleaned)
{
	static const char *const lies[] = {"strings-endless", "strings-dirty", "cuDeviceGetName=1",
					   "cuDeviceGetUuid=1"};
	for (int k = 0; k < 4; k++) {
		struct cuda *c = open_lying(lies[k]);
		REQUIRE(c && cuda_count(c) == 1);
		const struct cuda_info *i = cuda_info(c, 0);
		CHECK(is_clean(i->name, sizeof i->name) && is_clean(i->uuid, sizeof i->uuid));
		CHECK(k != 0 || strlen(i->name) == sizeof i->name - 1);
		CHECK(k != 1 || !strcmp(i->name, "[31mred [0m ?? \"quoted\""));
		CHECK(k != 2 || !i->name[0]);
		CHECK(k != 3 || !i->uuid[0]);
		cuda_close(c);
	}
}

/* Cleaning what is clean changes nothing; random bytes become clean. */
TEST(infos_of_other_processes_are_cleaned)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct cuda_info i, again;
		struct rng r;
		rng_seed(&r, seed);
		for (size_t k = 0; k < sizeof i; k++)
			((unsigned char *)&i)[k] =
			    (unsigned char)(rng_below(&r, 3) ? rng_below(&r, 256) : ' ' + rng_below(&r, 2));
		cuda_info_clean(&i);
		CHECK(is_clean(i.name, sizeof i.name) && is_clean(i.uuid, sizeof i.uuid));
		for (const int64_t *n = &i.driver; n <= &i.global_bytes; n++)
			CHECK(*n >= 0);
		for (const bool *f = &i.integrated; f <= &i.watchdog; f++)
			CHECK(*(const unsigned char *)f <= 1);
		memcpy(&again, &i, sizeof i);
		cuda_info_clean(&again);
		CHECK(memcmp(&again, &i, sizeof i) == 0);
		struct target t, parsed;
		struct buf text = {0};
		cuda_target(&i, &t);
		target_text(&t, &text);
		CHECK_OK(target_parse(buf_str(&text), &parsed));
		buf_free(&text);
	}
}

TEST(limits_that_cannot_be)
{
	static const struct {
		const char *lie, *why;
	} cases[] = {{"numbers 0", "no multiprocessors"},
		     {"numbers -1", "no multiprocessors"},
		     {"numbers 31", "no size of blocks"},
		     {"numbers 1024", "no size of grids"},
		     {"capability 2147483647", "compute capability"},
		     {"capability -87", "compute capability"},
		     {"memory 0", "no memory"},
		     {"prohibited", "forbids it"},
		     {"capability 70", "below 7.2"},
		     {"version 10010", "supports CUDA 10.1, and 10.2 is"},
		     {"version -5", "supports CUDA 0.0"},
		     {"cuDeviceTotalMem_v2=1", "no memory"},
		     {"cuDeviceGetAttribute=1", "below 7.2"}};
	struct cuda_dev *d;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct cuda *c = open_lying(cases[k].lie);
		REQUIRE(c && cuda_count(c) == 1);
		CHECK_FAILS(cuda_use(c, 0, &d), E_UNSUPPORTED, cases[k].why);
		cuda_close(c);
	}
	/* Huge numbers are true of no device, but harmless. */
	struct cuda *c;
	struct cuda_buf *b;
	struct target t;
	d = use_lying("numbers 2147483647;memory 18446744073709551615;capability 90", &c);
	REQUIRE(d);
	cuda_target(cuda_dev_info(d), &t);
	CHECK(t.cores == 4096 && t.group == 1024 && t.l2_bytes == 1 << 30);
	CHECK_FAILS(cuda_alloc(d, 0, &b), E_NOMEM, "0 bytes");
	CHECK_FAILS(cuda_alloc(d, -1, &b), E_NOMEM, "-1 bytes");
	CHECK_FAILS(cuda_use(c, 1, &d), E_NOTFOUND, "no CUDA device 1; the only one is cuda:0");
	CHECK_FAILS(cuda_use(c, -1, &d), E_NOTFOUND, "no CUDA device -1");
	leave(c, d);
}

TEST(drivers_that_do_not_start)
{
	struct cuda *c;
	CHECK_FAILS(cuda_open("/nowhere/libcuda.so.1", &c), E_NOTFOUND, "no CUDA driver");
	CHECK_FAILS(cuda_open("libc.so.6", &c), E_UNSUPPORTED, "has no function cuInit");
	static const char *const lies[][2] = {{"cuInit=999", "cuInit: CUDA_ERROR_UNKNOWN (999)"},
					      {"cuInit=34", "CUDA_ERROR_STUB_LIBRARY (34)"},
					      {"cuInit=803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"},
					      {"cuInit=12345", "cuInit: an unknown error (12345)"},
					      {"cuDriverGetVersion=1", "cuDriverGetVersion"},
					      {"cuDeviceGetCount=3", "CUDA_ERROR_NOT_INITIALIZED (3)"}};
	for (size_t k = 0; k < sizeof lies / sizeof *lies; k++) {
		cuda_lie(lies[k][0]);
		CHECK_FAILS(cuda_open(fake_cuda(), &c), E_IO, lies[k][1]);
	}
}

/* What a device and its driver know together is the target. */
TEST(targets_of_drivers)
{
	static const struct {
		int capability, driver;
		const char *cpu, *features;
	} cases[] = {{72, 10020, "sm_72", "+ptx65"},  {75, 11040, "sm_75", "+ptx74"},
		     {87, 11040, "sm_87", "+ptx74"},  {87, 11020, "sm_86", "+ptx72"},
		     {90, 11040, "sm_87", "+ptx74"},  {90, 12000, "sm_90", "+ptx80"},
		     {90, 12040, "sm_90", "+ptx84"},  {90, 12041, "sm_90", "+ptx84"},
		     {90, 12050, "sm_90", "+ptx85"},  {120, 13000, "sm_90", "+ptx85"},
		     {88, 12020, "sm_87", "+ptx82"},  {86, 11010, "sm_86", "+ptx71"},
		     {80, 10020, "sm_75", "+ptx65"},  {89, 11070, "sm_87", "+ptx77"},
		     {100, 11080, "sm_90", "+ptx78"}, {90, INT32_MAX, "sm_90", "+ptx85"}};
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct cuda_info i = {.name = "An  X",
				      .capability = cases[k].capability,
				      .driver = cases[k].driver,
				      .units = 8,
				      .group_items = 1024,
				      .l2_bytes = 512 << 10};
		struct target t;
		cuda_target(&i, &t);
		CHECK(!strcmp(t.isa, "cuda") && target_runs_items(&t) && !strcmp(target_device(&t), "cuda"));
		CHECK(!strcmp(t.cpu, cases[k].cpu) && !strcmp(t.features, cases[k].features));
		CHECK(t.lanes == 4 && t.regs == 60 && t.cores == 8 && t.group == 1024 && !t.serial && t.fma);
		CHECK(t.l2_bytes == 512 << 10 && !strcmp(t.soc, "An__X"));
		if (test_bad)
			printf("%d: %s %s\n", (int)k, t.cpu, t.features);
	}
}

/* ---- programs and launches ---- */

/* deadline_ns 0: does not wait. */
static int start_and_wait(struct cuda_dev *d, struct cuda_code *c, const char *name, struct cuda_buf *b,
			  int64_t param, int64_t begin, int64_t end, int64_t at_once, int64_t deadline_ns)
{
	const struct cuda_spot spot = {.buf = b};
	const struct cuda_launch at = {.spot = &spot,
				       .nspots = 1,
				       .param = &param,
				       .nparams = !strcmp(name, "k0"),
				       .begin = begin,
				       .end = end,
				       .at_once = at_once};
	struct cuda_job *j;
	int rc = cuda_entry(c, name);
	if (rc >= 0)
		rc = cuda_prepare(c, rc, &at, &j);
	if (rc < 0)
		return rc;
	rc = cuda_start(j);
	if (rc >= 0 && deadline_ns)
		rc = cuda_wait(d, &clock_real, deadline_ns);
	cuda_drop(j);
	return rc;
}

/* Each item once, in launches of at most at_once, whose parts of the scratch begin at their own first item.
 */
TEST(launches_run)
{
	enum { N = 1000 };
	struct cuda *c;
	struct cuda_dev *d = use_lying("", &c);
	struct cuda_code *k = NULL;
	struct cuda_buf *b = NULL;
	int32_t got[N];
	struct rng r;
	rng_seed(&r, 3);
	REQUIRE(d);
	REQUIRE_OK(cuda_alloc(d, sizeof got, &b));
	REQUIRE_OK(cuda_load(d, object, LENGTH, &k));
	for (int t = 0; t < 30 && !test_bad; t++) {
		int64_t begin = rng_below(&r, 100), n = 1 + rng_below(&r, N),
			a = (int64_t)rng_below(&r, 1000) - 500, once = t % 3 ? 1 + rng_below(&r, 400) : 0,
			part = once ? once : n;
		memset(got, 0, sizeof got);
		CHECK_OK(cuda_write(b, 0, got, sizeof got));
		CHECK_OK(start_and_wait(d, k, "k0", b, a, begin, begin + n, once,
					t % 2 ? INT64_MAX : clock_now(&clock_real) + NS_PER_S));
		CHECK_OK(cuda_read(b, 0, got, sizeof got));
		for (int64_t i = 0; i < N; i++) {
			int64_t last =
			    n > i ? (n - 1 - i) / part * part + i : -1; /* item that wrote it last */
			CHECK(got[i] == (i < part && last >= 0 ? a + begin + last : 0));
		}
	}
	CHECK_OK(start_and_wait(d, k, "k0", b, 7, 5, 5, 0, INT64_MAX)); /* nothing */
	cuda_unload(k);
	cuda_free(b);
	leave(c, d);
}

/* What is started runs behind what was started before, and copies behind both. */
TEST(the_order_is_kept)
{
	struct cuda *c;
	struct cuda_dev *d = use_lying("", &c);
	struct cuda_code *k = NULL;
	struct cuda_buf *b = NULL;
	struct cuda_job *j[2] = {NULL};
	int32_t got[64] = {0};
	int64_t a = 100;
	REQUIRE(d);
	REQUIRE_OK(cuda_alloc(d, sizeof got, &b));
	REQUIRE_OK(cuda_load(d, object, LENGTH, &k));
	const struct cuda_spot spot = {.buf = b};
	CHECK(cuda_entry(k, "k0") == 0 && cuda_entry(k, "k1") == 1);
	REQUIRE_OK(cuda_prepare(k, 0, &(struct cuda_launch){&spot, 1, &a, 1, 0, 64, 0}, &j[0]));
	REQUIRE_OK(cuda_prepare(k, 1, &(struct cuda_launch){.spot = &spot, .nspots = 1, .end = 64}, &j[1]));
	a = 0; /* it was copied */
	CHECK_OK(cuda_start(j[0]));
	for (int i = 0; i < 5; i++)
		CHECK_OK(cuda_start(j[1]));
	CHECK_OK(cuda_read(b, 0, got, sizeof got));
	for (int i = 0; i < 64; i++)
		CHECK(got[i] == 105 + i);
	CHECK_OK(cuda_start(j[1]));
	CHECK_OK(cuda_write(b, 0, got, 4)); /* not overwritten by the launch */
	CHECK_OK(cuda_read(b, 0, got, sizeof got));
	CHECK(got[0] == 105 && got[1] == 107);
	cuda_drop(j[0]);
	cuda_drop(j[1]);
	cuda_unload(k);
	cuda_free(b);
	leave(c, d);
}

/* The host and the device write one buffer in turns, by copies and by maps, on boards that share memory and
 * on others; a first map after a launch was prepared, too. */
TEST(maps_show_what_was_written)
{
	static const char *const lies[] = {"", "integrated", "integrated;cuMemHostAlloc=2",
					   "integrated;null cuMemHostAlloc",
					   "integrated;cuMemHostGetDevicePointer_v2=1"};
	for (int k = 0; k < 10 && !test_bad; k++) {
		enum { N = 256 };
		struct cuda *c;
		struct cuda_dev *d = use_lying(lies[k % 5], &c);
		struct cuda_code *code = NULL;
		struct cuda_buf *b = NULL;
		struct rng r;
		int32_t want[N], got[N], *p;
		void *at;
		rng_seed(&r, (uint64_t)k);
		REQUIRE(d);
		REQUIRE_OK(cuda_alloc(d, sizeof got, &b));
		REQUIRE_OK(cuda_load(d, object, LENGTH, &code));
		for (int i = 0; i < N; i++)
			want[i] = i;
		CHECK_OK(cuda_write(b, 0, want, sizeof want));
		if (k >= 5) {
			CHECK_OK(start_and_wait(d, code, "k1", b, 0, 0, N, 0, INT64_MAX));
			for (int i = 0; i < N; i++)
				want[i]++;
		}
		for (int t = 0; t < 40 && !test_bad; t++) {
			int first = 16 * (int)rng_below(&r, N / 16),
			    n = 1 + (int)rng_below(&r, (uint32_t)(N - first));
			if (t % 3 == 0) {
				CHECK_OK(start_and_wait(d, code, "k1", b, 0, first, first + n, 0,
							t & 1 ? INT64_MAX : 0));
				for (int i = first; i < first + n; i++)
					want[i]++;
			} else {
				REQUIRE_OK(cuda_map(b, 4 * first, 4 * n, &at));
				CHECK((uintptr_t)at % 64 == 0);
				p = at;
				for (int i = 0; i < n; i++) {
					CHECK(p[i] == want[first + i]);
					p[i] = want[first + i] = (int)rng_below(&r, 1 << 30);
				}
				CHECK_FAILS(cuda_map(b, 0, 4, &at), E_USAGE, "mapped already");
				CHECK_OK(cuda_unmap(b));
			}
		}
		CHECK_OK(cuda_read(b, 0, got, sizeof got));
		CHECK(!memcmp(got, want, sizeof got));
		CHECK_FAILS(cuda_unmap(b), E_USAGE, "not mapped");
		CHECK_FAILS(cuda_map(b, 0, 0, &at), E_USAGE, "0 bytes");
		CHECK_OK(cuda_map(b, 8, 8, &at));
		CHECK_FAILS(start_and_wait(d, code, "k1", b, 0, 0, 1, 0, INT64_MAX), E_USAGE,
			    "buffer 0 is mapped");
		cuda_unload(code);
		cuda_free(b);
		leave(c, d);
	}
}

/* Only the parts of a buffer that exist are copied. */
TEST(copies_stay_inside)
{
	char got[16] = "";
	struct cuda *c;
	struct cuda_buf *b = NULL;
	struct cuda_dev *d = use_lying("", &c);
	REQUIRE(d);
	REQUIRE_OK(cuda_alloc(d, 16, &b));
	CHECK_OK(cuda_write(b, 4, "0123456789a", 12));
	CHECK_OK(cuda_read(b, 8, got, 8));
	CHECK(!strcmp(got, "456789a"));
	CHECK_OK(cuda_read(b, 16, got, 0));
	static const int64_t bad[][2] = {{0, 17}, {16, 1},        {17, 0},       {-1, 1},
					 {1, -1}, {INT64_MAX, 1}, {1, INT64_MAX}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_FAILS(cuda_read(b, bad[i][0], got, bad[i][1]), E_USAGE, "buffer of 16");
		CHECK_FAILS(cuda_write(b, bad[i][0], got, bad[i][1]), E_USAGE, "buffer of 16");
	}
	cuda_free(b);
	leave(c, d);
}

/* Does everything with a device; the first call that fails ends it. */
static int use_all(struct cuda *o)
{
	struct cuda_dev *d = NULL;
	struct cuda_buf *b = NULL;
	struct cuda_code *c = NULL;
	void *p;
	char some[8] = "";
	int rc = cuda_use(o, 0, &d);
	if (rc >= 0)
		rc = cuda_alloc(d, 512, &b);
	if (rc >= 0)
		rc = cuda_map(b, 64, 64, &p);
	if (rc >= 0)
		rc = cuda_unmap(b);
	if (rc >= 0)
		rc = cuda_load(d, object, LENGTH, &c);
	if (rc >= 0)
		rc = start_and_wait(d, c, "k0", b, 7, 0, 100, 30, INT64_MAX);
	if (rc >= 0)
		rc = cuda_write(b, 8, some, sizeof some);
	if (rc >= 0)
		rc = cuda_read(b, 8, some, sizeof some);
	if (rc >= 0)
		rc = cuda_wait(d, &clock_real, clock_now(&clock_real) + NS_PER_S);
	cuda_unload(c);
	cuda_free(b);
	cuda_leave(d);
	return rc;
}

TEST(every_failing_call_is_named)
{
	static const char *const calls[] = {
	    "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuStreamCreate",       "cuStreamQuery",
	    "cuStreamSynchronize",      "cuMemAlloc_v2",       "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
	    "cuLinkCreate_v2",          "cuLinkAddData_v2",    "cuLinkComplete",       "cuModuleLoadData",
	    "cuModuleGetFunction",      "cuFuncGetAttribute",  "cuLaunchKernel"};
	static const struct {
		int code, rc;
		const char *name;
	} codes[] = {{2, E_NOMEM, "OUT_OF_MEMORY"},
		     {304, E_IO, "OPERATING_SYSTEM"},
		     {701, E_INFEASIBLE, "LAUNCH_OUT_OF_RESOURCES"},
		     {46, E_IO, "DEVICE_UNAVAILABLE"},
		     {719, E_IO, "LAUNCH_FAILED"},
		     {218, E_INFEASIBLE, "INVALID_PTX"}};
	struct cuda *o = open_lying("");
	REQUIRE(o);
	CHECK_OK(use_all(o));
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		for (size_t k = 0; k < sizeof codes / sizeof *codes && !test_bad; k++) {
			char lie[64], text[128];
			snprintf(lie, sizeof lie, "%s=%d", calls[i], codes[k].code);
			snprintf(text, sizeof text, "%s: CUDA_ERROR_%s (%d)", calls[i], codes[k].name,
				 codes[k].code);
			cuda_lie(lie);
			CHECK_FAILS(use_all(o), codes[k].rc, text);
			if (test_bad)
				printf("%s: %s\n", lie, err_text());
		}
	static const char *const nulls[] = {"cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuMemAlloc_v2",
					    "cuLinkCreate_v2",          "cuLinkComplete", "cuModuleLoadData",
					    "cuModuleGetFunction"};
	for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++) {
		char lie[64];
		snprintf(lie, sizeof lie, "null %s", nulls[i]);
		cuda_lie(lie);
		CHECK_FAILS(use_all(o), E_IO, nulls[i]);
	}
	static const char *const unseen[] = {"cuMemFree_v2=1", "cuModuleUnload=1", "cuLinkDestroy=1",
					     "cuStreamDestroy_v2=400", "cuDevicePrimaryCtxRelease=1"};
	for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++) {
		cuda_lie(unseen[i]);
		CHECK_OK(use_all(o));
	}
	cuda_lie("cuLaunchKernel=1");
	CHECK_FAILS(use_all(o), E_INFEASIBLE, "CUDA_ERROR_INVALID_VALUE (1)");
	cuda_lie("");
	CHECK_OK(use_all(o));
	cuda_close(o);
}

/* The application's own context is current again after each call. */
TEST(contexts_are_put_back)
{
	struct cuda *c;
	struct cuda_dev *d = use_lying("", &c);
	void *lib = dlopen(fake_cuda(), RTLD_NOW | RTLD_NOLOAD), *context = NULL;
	int (*pop)(void **) = lib ? (int (*)(void **))(uintptr_t)dlsym(lib, "cuCtxPopCurrent_v2") : NULL;
	REQUIRE(d && pop);
	CHECK_OK(use_all(c));
	cuda_lie("cuLaunchKernel=701");
	CHECK_FAILS(use_all(c), E_INFEASIBLE, "701");
	cuda_lie("");
	CHECK(pop(&context) == 201); /* none is current */
	leave(c, d);
}

TEST(a_failed_link_shows_the_log)
{
	struct cuda *c;
	struct cuda_dev *d = use_lying("jit", &c);
	struct cuda_code *k;
	REQUIRE(d);
	CHECK_FAILS(
	    cuda_load(d, object, LENGTH, &k), E_INFEASIBLE,
	    "cuLinkAddData_v2: CUDA_ERROR_INVALID_PTX (218): ptxas application ptx input, line 9; error: "
	    "[1mno such instruction");
	CHECK(is_clean(err_text(), 4096));
	leave(c, d);
}

/* The driver's count of calls. */
static int count_of(const char *symbol)
{
	void *lib = dlopen(fake_cuda(), RTLD_NOW | RTLD_NOLOAD);
	const int *n = lib ? dlsym(lib, symbol) : NULL;
	CHECK(n);
	return n ? *n : -1;
}

/* A cubin is taken, and its PTX not linked again, if it is of this PTX, device and driver, and whole. */
TEST(kept_programs_are_not_linked_again)
{
	enum { AT = LENGTH + 1 };
	static const struct {
		const char *lie;
		int at, cut; /* byte that changes; bytes that are cut off */
		bool taken;
	} cases[] = {{"", -1, 0, true},
		     {"", -1, 3, false},
		     {"", -1, INT32_MAX, false},
		     {"", 42, 0, false},      /* of the PTX, whose version is then 6.2 */
		     {"", AT, 0, false},      /* of the key */
		     {"", AT + 16, 0, false}, /* of the sum */
		     {"", AT + 32, 0, false}, /* of the cubin */
		     {"kept-refused", -1, 0, true},
		     {"cuModuleLoadData=200", -1, 0, false},
		     {"", -1, 0, true}};
	struct cuda *c;
	struct cuda_dev *d = use_lying("", &c);
	struct cuda_code *k;
	struct buf kept = {0};
	REQUIRE(d);
	REQUIRE_OK(cuda_load(d, object, LENGTH, &k));
	buf_add(&kept, object, LENGTH);
	REQUIRE_OK(cuda_binary(k, &kept));
	cuda_unload(k);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t n = cases[i].cut < INT32_MAX ? kept.n - (size_t)cases[i].cut : AT + 20;
		char *x = malloc(n); /* exactly as long, so that a sanitizer sees reads behind it */
		memcpy(x, kept.p, n);
		if (cases[i].at >= 0)
			x[cases[i].at] ^= cases[i].at < LENGTH ? 3 : 1;
		int links = count_of("fake_cuda_links");
		cuda_lie(cases[i].lie);
		int rc = cuda_load(d, x, n, &k);
		CHECK(i == 8 ? rc == E_INFEASIBLE : rc >= 0);
		CHECK(count_of("fake_cuda_links") == links + !cases[i].taken);
		if (rc >= 0) {
			CHECK(cuda_entry(k, "k0") == 0);
			cuda_unload(k);
		}
		if (test_bad)
			printf("case %d: %s\n", (int)i, rc < 0 ? err_text() : "");
		free(x);
	}
	leave(c, d);
	/* Another device, or another driver. */
	static const char *const others[] = {"version 12000", "capability 75", "strings-dirty"};
	for (int i = 0; i < 3; i++) {
		int links = count_of("fake_cuda_links");
		d = use_lying(others[i], &c);
		REQUIRE(d);
		REQUIRE_OK(cuda_load(d, kept.p, kept.n, &k));
		CHECK(count_of("fake_cuda_links") == links + 1);
		cuda_unload(k);
		leave(c, d);
	}
	buf_free(&kept);
}

TEST(objects_are_not_trusted)
{
	static const char *const bad[] = {
	    "",
	    "//hone-ptx",
	    "//hone-ptx \n",
	    ".version 6.0\n",
	    "//hone-ptx k0\nx",
	    "//hone-ptx k0,32\nx",
	    "//hone-ptx k0,32,1\nx",
	    "//hone-ptx k0,32,1,\nx",
	    "//hone-ptx k0,32,1,0",
	    "//hone-ptx k0,32,1,0 \nx",
	    "//hone-ptx k0,32,1,0;\nx",
	    "//hone-ptx k0,32,1,0,k1,32,1,0\nx",
	    "//hone-ptx  k0,32,1,0\nx",
	    "//hone-ptx 0k,32,1,0\nx",
	    "//hone-ptx ,32,1,0\nx",
	    "//hone-ptx k0,0,1,0\nx",
	    "//hone-ptx k0,-1,1,0\nx",
	    "//hone-ptx k0,32,0,0\nx",
	    "//hone-ptx k0,99999999999999999999,1,0\nx",
	    "//hone-ptx k0,2000,1,0\nx",
	    "//hone-ptx k0,32,1,9999999999\nx",
	    "//hone-ptx k012345678901234567890123456789012,32,1,0\nx",
	    "//hone-ptx a,1,1,0;b,1,1,0;c,1,1,0;d,1,1,0;e,1,1,0;f,1,1,0;g,1,1,0;h,"
	    "1,1,0;i,1,1,0\nx"};
	struct cuda *o;
	struct cuda_dev *d = use_lying("", &o);
	struct cuda_code *c;
	struct cuda_job *j;
	REQUIRE(d);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		size_t n = strlen(bad[i]);
		char *copy = malloc(n + 1); /* exactly as long, so that a sanitizer sees reads behind it */
		memcpy(copy, bad[i], n);
		copy = realloc(copy, n ? n : 1);
		CHECK_FAILS(cuda_load(d, copy, n, &c), E_CORRUPT, "PTX object");
		free(copy);
		if (test_bad)
			printf("%s\n", bad[i]);
	}
	static const char large[] = "//hone-ptx k0,1024,2,0\nx", shares[] = "//hone-ptx k0,32,1,166913\nx";
	CHECK_FAILS(cuda_load(d, large, sizeof large - 1, &c), E_INFEASIBLE, "blocks of 2048 threads");
	CHECK_FAILS(cuda_load(d, shares, sizeof shares - 1, &c), E_INFEASIBLE, "shares 166913 bytes");
	REQUIRE_OK(cuda_load(d, object, LENGTH, &c));
	CHECK_FAILS(cuda_prepare(c, 0, &(struct cuda_launch){.end = 1}, &j), E_USAGE,
		    "entry 0"); /* not looked up */
	CHECK(cuda_entry(c, "k1") == 1 && cuda_entry(c, "k0") == 0 && cuda_entry(c, "k1") == 1);
	CHECK_FAILS(cuda_entry(c, "k2"), E_NOTFOUND, "no entry point 'k2'");
	CHECK_FAILS(cuda_prepare(c, 2, &(struct cuda_launch){.end = 1}, &j), E_USAGE, "entry 2");
	CHECK_FAILS(cuda_prepare(c, 0, &(struct cuda_launch){.end = INT64_MAX}, &j), E_INFEASIBLE,
		    "work items");
	CHECK_FAILS(cuda_prepare(c, 0, &(struct cuda_launch){.begin = -1}, &j), E_USAGE, "-1");
	CHECK_FAILS(cuda_prepare(c, 0, &(struct cuda_launch){.nparams = CUDA_MAX_ARGS}, &j), E_USAGE,
		    "entry 0");
	cuda_unload(c);
	leave(o, d);
}

/* The head of an object names what its PTX lacks, or what the device cannot run. */
TEST(entries_that_do_not_run)
{
	struct cuda *o;
	struct cuda_dev *d = use_lying("few-registers", &o);
	struct cuda_code *c;
	struct cuda_made made;
	REQUIRE(d);
	static const char other[] = OBJECT("64");
	REQUIRE_OK(cuda_load(d, other, sizeof other - 1, &c));
	CHECK_FAILS(cuda_entry(c, "k0"), E_INFEASIBLE,
		    "needs 40 registers: the device runs blocks of 32 threads");
	CHECK_FAILS(cuda_made(c, 0, &made), E_USAGE, "entry 0");
	CHECK(cuda_entry(c, "k1") == 1);
	CHECK_OK(cuda_made(c, 1, &made));
	CHECK(made.registers == 40 && made.local_bytes == 0 && made.most_threads == 32);
	cuda_unload(c);
	cuda_lie("spills");
	REQUIRE_OK(cuda_load(d, object, LENGTH, &c));
	CHECK(cuda_entry(c, "k0") == 0);
	CHECK_OK(cuda_made(c, 0, &made));
	CHECK(made.local_bytes == 16);
	cuda_unload(c);
	leave(o, d);
}

/* Runs the function in a process that has not used the driver yet: a context that is broken stays broken. */
static void in_a_process(void (*run)(int), int n)
{
	int status = 1;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		void *lib = dlopen(fake_cuda(), RTLD_NOW);
		void (*fresh)(void) = lib ? (void (*)(void))(uintptr_t)dlsym(lib, "fake_cuda_fresh") : NULL;
		CHECK(fresh);
		if (fresh) {
			fresh();
			run(n);
		}
		fflush(NULL);
		_exit(test_bad);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

/* What a launch of a lost device left behind: every later call fails at once, and says why. */
static void check_lost(struct cuda_dev *d, struct cuda_code *c, struct cuda_buf *b, const char *why)
{
	struct cuda_code *other;
	struct cuda_buf *more;
	void *p;
	double start_s = test_now_s();
	CHECK_FAILS(cuda_wait(d, &clock_real, INT64_MAX), E_IO, why);
	CHECK_FAILS(start_and_wait(d, c, "k0", b, 1, 0, 1, 0, INT64_MAX), E_IO, why);
	CHECK_FAILS(cuda_alloc(d, 16, &more), E_IO, why);
	CHECK_FAILS(cuda_map(b, 0, 16, &p), E_IO, why);
	CHECK_FAILS(cuda_write(b, 0, "", 1), E_IO, why);
	CHECK_FAILS(cuda_read(b, 0, &other, 1), E_IO, why);
	CHECK_FAILS(cuda_load(d, object, LENGTH, &other), E_IO, why);
	CHECK_FAILS(cuda_entry(c, "k0"), E_IO, why);
	CHECK(test_now_s() - start_s < 1);
}

/* A device that hangs is given up at the deadline, and never waited for again. */
TEST(a_hanging_device_is_lost)
{
	struct cuda *o;
	struct cuda_code *c = NULL;
	struct cuda_buf *b = NULL;
	struct cuda_dev *d = use_lying("", &o);
	REQUIRE(d);
	REQUIRE_OK(cuda_alloc(d, 512, &b));
	REQUIRE_OK(cuda_load(d, object, LENGTH, &c));
	cuda_lie("stuck");
	int64_t start = clock_now(&clock_real);
	CHECK_FAILS(start_and_wait(d, c, "k0", b, 1, 0, 1, 0, start + 20 * NS_PER_MS), E_TIMEOUT, "in time");
	CHECK(clock_now(&clock_real) - start >= 20 * NS_PER_MS);
	check_lost(d, c, b, "is lost (the CUDA device did not end a kernel in time)");
	cuda_unload(c);
	cuda_free(b);
	leave(o, d);
}

static void break_context(int error)
{
	char lie[32], why[32];
	struct cuda *o;
	struct cuda_code *c = NULL;
	struct cuda_buf *b = NULL;
	struct cuda_dev *d = use_lying("", &o);
	snprintf(why, sizeof why, "(%d)", error);
	CHECK(d && cuda_alloc(d, 512, &b) >= 0 && cuda_load(d, object, LENGTH, &c) >= 0);
	snprintf(lie, sizeof lie, "sticky %d@2", error);
	cuda_lie(lie);
	CHECK_OK(start_and_wait(d, c, "k0", b, 1, 0, 1, 0, INT64_MAX));
	CHECK_FAILS(start_and_wait(d, c, "k0", b, 1, 0, 1, 0,
				   error % 2 ? INT64_MAX : clock_now(&clock_real) + NS_PER_S),
		    E_IO, why);
	check_lost(d, c, b, why);
	cuda_unload(c);
	cuda_free(b);
	cuda_leave(d);
	CHECK_FAILS(cuda_use(o, 0, &d), E_IO, why); /* as a true driver */
}

TEST(a_broken_context_is_lost)
{
	static const int codes[] = {700, 702, 710, 714, 715, 716, 717, 718, 719, 999, 46, 214};
	for (size_t k = 0; k < sizeof codes / sizeof *codes && !test_bad; k++) {
		in_a_process(break_context, codes[k]);
		if (test_bad)
			printf("%d\n", codes[k]);
	}
}

static void leave_buffer(int items)
{
	struct cuda *o;
	struct cuda_code *c = NULL;
	struct cuda_buf *b = NULL;
	struct cuda_dev *d = use_lying("", &o);
	CHECK(d && cuda_alloc(d, 512, &b) >= 0 && cuda_load(d, object, LENGTH, &c) >= 0);
	CHECK_OK(start_and_wait(d, c, "k0", b, 1, 0, 128, 0, INT64_MAX));
	CHECK_FAILS(start_and_wait(d, c, "k0", b, 1, 0, items, 0, INT64_MAX), E_IO,
		    "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

TEST(an_illegal_address_is_told)
{
	in_a_process(leave_buffer, 129);
}

/* A driver does not survive a fork; that is an error, not a wrong answer. */
static void use_after_fork(int n)
{
	(void)n;
	struct cuda *o = open_lying("");
	fflush(NULL);
	pid_t pid = fork();
	int status = 1;
	if (pid == 0) {
		struct cuda_dev *d;
		CHECK_FAILS(cuda_use(o, 0, &d), E_IO, "CUDA_ERROR_NOT_INITIALIZED (3)");
		CHECK_FAILS(cuda_open(fake_cuda(), &o), E_IO, "cuInit: CUDA_ERROR_NOT_INITIALIZED (3)");
		fflush(NULL);
		_exit(test_bad);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(forks_are_told)
{
	in_a_process(use_after_fork, 0);
}

TEST_MAIN
