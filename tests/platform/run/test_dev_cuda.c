/* SPDX-License-Identifier: Apache-2.0 */
/* The device "cuda" through struct dev, on the fake driver: names, limits, launches, copies and maps,
 * measured peaks, and two units at a time. */
#include "platform/base/clock.h"
#include "platform/base/rng.h"
#include "platform/run/dev.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/sysroot.h"
#include "tests/lib/test.h"

#include <dlfcn.h>

/* k0: b[item] = 2 * a[item] + p in f32; blocks of 16 items. */
static const char object[] =
    "//hone-ptx k0,16,1,0\n.version 6.1\n.target sm_72\n.address_size 64\n"
    ".visible .entry k0(.param .u64 k0_a, .param .u64 k0_b, .param .u64 k0_p, .param .u64 k0_begin, .param "
    ".u64 k0_end)\n.reqntid 16, 1, 1\n{\n.reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .f32 %f<5>;\n.reg .b64 "
    "%rd<14>;\n"
    "ld.param.u64 %rd1, [k0_a];\nld.param.u64 %rd2, [k0_b];\nld.param.u64 %rd3, [k0_p];\n"
    "ld.param.u64 %rd4, [k0_begin];\nld.param.u64 %rd5, [k0_end];\n"
    "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nshl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r3, %r2;\n"
    "cvt.u64.u32 %rd6, %r4;\nadd.s64 %rd7, %rd4, %rd6;\nsetp.ge.s64 %p1, %rd7, %rd5;\n@%p1 bra END;\n"
    "cvta.to.global.u64 %rd8, %rd1;\ncvta.to.global.u64 %rd9, %rd2;\nshl.b64 %rd10, %rd7, 2;\n"
    "add.s64 %rd11, %rd8, %rd10;\nadd.s64 %rd12, %rd9, %rd10;\nld.global.f32 %f1, [%rd11];\n"
    "cvt.rn.f32.s64 %f2, %rd3;\nfma.rn.ftz.f32 %f3, %f1, 0f40000000, %f2;\nst.global.f32 [%rd12], %f3;\n"
    "END:\nret;\n}\n";

static const struct dev *cuda(void)
{
	const struct dev *d = dev_find("cuda:0");
	CHECK(d && d->own);
	CHECK(dlopen(fake_cuda(), RTLD_NOW)); /* the device finds it by its name */
	return d;
}

/* Results belong to the power mode that the board was in. A file that is none, or cannot be read, is data. */
TEST(power_mode_is_in_the_key)
{
	static const struct {
		const char *text, *mode;
	} cases[] = {{"pmode:0000 fmode:quiet\n", "pmode:0000"},
		     {"pmode:0002 fmode:quiet\n", "pmode:0002"},
		     {"\x01\xff\n", ""},
		     {"", ""},
		     {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "xxxxxxxxxxxxxxxxxxxxxxx"}};
	const char *path = "/var/lib/nvpmodel/status";
	struct sysroot b;
	struct key key[8];
	cuda_lie("integrated");
	const struct dev *d = cuda();
	sysroot_begin(&b);
	setenv("HONE_SYSROOT", b.root, 1);
	for (int i = 0; i < 8; i++) { /* then no file, a folder, and a FIFO that nobody writes */
		struct dev_unit *u;
		struct target t;
		sysroot_gone(&b, path);
		if (i < 5)
			sysroot_set(&b, path, "%s", cases[i].text);
		if (i == 6)
			CHECK(mkdir(sysroot_path(&b, path), 0755) == 0);
		if (i == 7)
			CHECK(rmdir(sysroot_path(&b, path)) == 0 &&
			      mkfifo(sysroot_path(&b, path), 0644) == 0);
		REQUIRE_OK(d->own->open(0, &u));
		d->own->target(u, &t);
		d->own->close(u);
		CHECK(!strcmp(t.mode, i < 5 ? cases[i].mode : ""));
		CHECK_OK(target_check(&t));
		key[i] = target_key(&t);
	}
	CHECK(!key_equal(key[0], key[1]) && !key_equal(key[0], key[5]) && !key_equal(key[1], key[5]));
	CHECK(key_equal(key[2], key[5]) && key_equal(key[6], key[5]) && key_equal(key[7], key[5]));
	unsetenv("HONE_SYSROOT");
	sysroot_end(&b);
	cuda_lie("");
}

TEST(names_of_devices)
{
	static const char *const good[] = {"cuda", "cuda:0", "cuda:7", "cuda:999"};
	static const char *const bad[] = {"cuda:", "cuda:x", "cuda:00", "cuda:1000", "CUDA:0", "cud:0"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		CHECK(dev_find(good[i]) && !strcmp(dev_find(good[i])->name, "cuda"));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(!dev_find(bad[i]));
	CHECK(dev_find("cuda:1")->risky && !strcmp(dev_find("cuda:1")->emitter, "ptx"));
}

TEST(limits_and_target)
{
	const struct dev *d = cuda();
	struct dev_unit *u;
	struct dev_limits l;
	struct target t;
	for (int shares = 0; shares < 2; shares++) {
		cuda_lie(shares ? "integrated" : "");
		REQUIRE_OK(d->own->open(0, &u));
		d->own->limits(u, &l);
		CHECK(l.memory_bytes == 256 << 20 && l.buffer_bytes == 256 << 20 && l.units == 1);
		CHECK(l.unified == (shares == 1));
		d->own->target(u, &t);
		CHECK(!strcmp(t.isa, "cuda") && !strcmp(t.cpu, "sm_87") && !strcmp(t.features, "+ptx74"));
		CHECK(!strcmp(t.soc, "Fake_C1") && !strcmp(t.rev, "11.4") && t.fma_gflops == 0);
		CHECK_OK(target_check(&t));
		d->own->close(u);
	}
	CHECK_FAILS(d->own->open(1, &u), E_NOTFOUND, "no CUDA device 1; the only one is cuda:0");
	cuda_lie("version 10010");
	CHECK_FAILS(d->own->open(0, &u), E_UNSUPPORTED, "install a newer driver");
	cuda_lie("cuInit=803");
	CHECK_FAILS(d->own->open(0, &u), E_IO, "SYSTEM_DRIVER_MISMATCH");
	cuda_lie("");
}

struct side { /* a unit, and its kernel */
	struct dev_unit *u;
	struct dev_code *c;
	struct dev_mem *a, *b;
};

enum { N = 500, ROOM = N * 4 + 128 };

static void open_side(const struct dev *d, int number, struct side *s)
{
	CHECK_OK(d->own->open(number, &s->u));
	CHECK_OK(d->own->load(s->u, object, sizeof object - 1, &s->c));
	CHECK(d->entry(s->c, "k0") == 0);
	CHECK_OK(d->own->alloc(s->u, ROOM, &s->a));
	CHECK_OK(d->own->alloc(s->u, ROOM, &s->b));
}

static void close_side(const struct dev *d, struct side *s)
{
	d->own->free(s->a);
	d->own->free(s->b);
	d->unload(s->c);
	d->own->close(s->u);
}

static void run_side(const struct dev *d, const struct side *s, struct rng *r)
{
	float a[N], b[N];
	int64_t p = (int64_t)rng_below(r, 9) - 4;
	const struct dev_spot spot[] = {{s->a, 64}, {s->b, 128}};
	int64_t begin = rng_below(r, N / 2), end = begin + rng_below(r, (uint32_t)(N - begin));
	const struct dev_work w = {
	    spot, 2, &p, 1, begin, end, .at_once = rng_below(r, 2) ? 1 + rng_below(r, 99) : 0};
	struct dev_launch *l;
	void *at;
	for (int i = 0; i < N; i++) {
		a[i] = (float)(int)rng_below(r, 100) - 50;
		b[i] = -1;
	}
	CHECK_OK(d->own->write(s->a, 64, a, sizeof a));
	CHECK_OK(d->own->write(s->b, 128, b, sizeof b));
	CHECK_OK(d->own->prepare(s->c, 0, &w, &l));
	if (test_bad)
		return;
	CHECK_OK(d->own->start(l));
	CHECK_OK(d->own->wait(s->u, rng_below(r, 2) ? INT64_MAX : clock_now(&clock_real) + NS_PER_S));
	if (rng_below(r, 2)) {
		CHECK_OK(d->own->read(s->b, 128, b, sizeof b));
	} else {
		CHECK_OK(d->own->map(s->b, 128, sizeof b, &at));
		memcpy(b, at, sizeof b);
		CHECK_OK(d->own->unmap(s->b));
	}
	for (int i = 0; i < N; i++)
		CHECK(b[i] == (i >= begin && i < end ? 2 * a[i] + (float)p : -1.f));
	d->own->drop(l);
}

/* Two units of one device, and of two, work in turns, and one that closes leaves the other alone. */
TEST(units_work_side_by_side)
{
	const struct dev *d = cuda();
	struct rng r;
	rng_seed(&r, 5);
	for (int k = 0; k < 4 && !test_bad; k++) {
		struct side s[2] = {{NULL}};
		cuda_lie(k & 1 ? "devices 2;integrated" : "devices 2");
		open_side(d, 0, &s[0]);
		open_side(d, k / 2, &s[1]);
		for (int i = 0; i < 20 && !test_bad; i++)
			run_side(d, &s[rng_below(&r, 2)], &r);
		close_side(d, &s[0]);
		for (int i = 0; i < 5 && !test_bad; i++)
			run_side(d, &s[1], &r);
		close_side(d, &s[1]);
	}
	cuda_lie("");
}

TEST(code_is_kept)
{
	const struct dev *d = cuda();
	struct side s = {NULL};
	struct rng r;
	struct buf kept = {0};
	rng_seed(&r, 6);
	cuda_lie("");
	open_side(d, 0, &s);
	buf_add(&kept, object, sizeof object - 1);
	CHECK_OK(d->own->keep(s.c, &kept));
	d->unload(s.c);
	CHECK(kept.n > sizeof object + 32);
	cuda_lie("cuLinkCreate_v2=221"); /* nothing can be linked now */
	CHECK_OK(d->own->load(s.u, kept.p, kept.n, &s.c));
	CHECK(d->entry(s.c, "k0") == 0);
	run_side(d, &s, &r);
	struct dev_code *c;
	CHECK_FAILS(d->own->load(s.u, object, sizeof object - 1, &c), E_IO, "JIT_COMPILER_NOT_FOUND (221)");
	cuda_lie("");
	close_side(d, &s);
	buf_free(&kept);
}

/* Of the fake device, which the processor interprets: positive, and soon. */
TEST(peaks_are_measured)
{
	const struct dev *d = cuda();
	struct dev_unit *u;
	struct target t;
	cuda_lie("");
	REQUIRE_OK(d->own->open(0, &u));
	d->own->target(u, &t);
	double start_s = test_now_s();
	CHECK_OK(d->own->measure(u, &t));
	printf("%.2f GFLOP/s; reads %.2f, %.2f, %.2f, %.2f GB/s, copies %.2f; %.1f s\n", t.fma_gflops,
	       t.bw_gbs[0], t.bw_gbs[1], t.bw_gbs[2], t.bw_gbs[3], t.copy_gbs, test_now_s() - start_s);
	CHECK(t.fma_gflops > 1e-4 && t.fma_gflops < 1e4 && t.copy_gbs > 1e-4 && t.copy_gbs < 1e4);
	for (int i = 0; i < 4; i++)
		CHECK(t.bw_gbs[i] > 1e-4 && t.bw_gbs[i] < 1e4 && (!i || t.bw_gbs[i] <= t.bw_gbs[i - 1]));
	printf("a launch takes %.0f ns, in a graph %.0f ns\n", t.launch_ns[0], t.launch_ns[1]);
	for (int i = 0; i < 2; i++)
		CHECK(t.launch_ns[i] > 10 && t.launch_ns[i] < 1e8);
	CHECK(test_now_s() - start_s < 20);
	d->own->close(u);
}

/* A driver that links slowly, and a device whose first launches are slow, do not lower the figures. Copies
 * take few ms here, so that a first launch that counted would make them a hundred times slower. */
TEST(slow_starts_do_not_count)
{
	const struct dev *d = cuda();
	struct dev_unit *u;
	struct target t[2];
	for (int slow = 0; slow < 2; slow++) {
		cuda_lie(slow ? "slow-link;slow-first" : "");
		REQUIRE_OK(d->own->open(0, &u));
		d->own->target(u, &t[slow]);
		CHECK_OK(d->own->measure(u, &t[slow]));
		d->own->close(u);
	}
	cuda_lie("");
	printf("copies %.4f GB/s, %.4f after a slow start\n", t[0].copy_gbs, t[1].copy_gbs);
	CHECK(t[1].copy_gbs > t[0].copy_gbs / 20);
}

TEST_MAIN
