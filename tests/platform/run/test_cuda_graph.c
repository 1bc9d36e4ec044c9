/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of launches, on the fake driver: random graphs against plain loops, buffers
 * that move, and drivers that fail in each call. */
#include "platform/base/clock.h"
#include "platform/base/log.h"
#include "platform/base/rng.h"
#include "platform/run/cuda.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/test.h"

#include <dlfcn.h>
#include <sys/mman.h>

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

enum { N = 200, BUFFERS = 3, MOST = 12 };

struct side {
	struct cuda *driver;
	struct cuda_dev *dev;
	struct cuda_code *code;
	struct cuda_buf *buf[BUFFERS];
	float is[BUFFERS][N]; /* what the buffers should hold */
	int n;
	struct cuda_job *job[MOST];
	struct {
		int from, to, p, begin, end;
	} step[MOST];
};

static int64_t soon(void)
{
	return clock_now(&clock_real) + 10 * NS_PER_S;
}

static bool open_side(struct side *s, const char *library, struct rng *r)
{
	memset(s, 0, sizeof *s);
	CHECK_OK(cuda_open(library, &s->driver));
	CHECK_OK(cuda_use(s->driver, 0, &s->dev));
	CHECK_OK(cuda_load(s->dev, object, sizeof object - 1, &s->code));
	CHECK(cuda_entry(s->code, "k0") == 0);
	for (int i = 0; i < BUFFERS && !test_bad; i++) {
		CHECK_OK(cuda_alloc(s->dev, sizeof s->is[i], &s->buf[i]));
		for (int k = 0; k < N; k++)
			s->is[i][k] = (float)(int)rng_below(r, 9) - 4;
		CHECK_OK(cuda_write(s->buf[i], 0, s->is[i], sizeof s->is[i]));
	}
	return !test_bad;
}

static void close_side(struct side *s)
{
	for (int i = 0; i < s->n; i++)
		cuda_drop(s->job[i]);
	for (int i = 0; i < BUFFERS; i++)
		cuda_free(s->buf[i]);
	cuda_unload(s->code);
	cuda_leave(s->dev);
	cuda_close(s->driver);
}

/* Each reads what some job before it has written, so that their order counts. */
static void make_jobs(struct side *s, struct rng *r)
{
	for (int i = 0; i < s->n; i++)
		cuda_drop(s->job[i]);
	s->n = 1 + (int)rng_below(r, MOST);
	for (int i = 0; i < s->n; i++) {
		int from = (int)rng_below(r, BUFFERS),
		    to = (from + 1 + (int)rng_below(r, BUFFERS - 1)) % BUFFERS,
		    begin = (int)rng_below(r, N / 2), end = begin + (int)rng_below(r, N / 2);
		int64_t p = (int64_t)rng_below(r, 5) - 2;
		const struct cuda_spot spot[] = {{s->buf[from], 0}, {s->buf[to], 0}};
		const struct cuda_launch at = {
		    spot, 2, &p, 1, begin, end, .at_once = rng_below(r, 3) ? 0 : 1 + (int)rng_below(r, 50)};
		s->step[i].from = from, s->step[i].to = to, s->step[i].p = (int)p;
		s->step[i].begin = begin, s->step[i].end = end;
		CHECK_OK(cuda_prepare(s->code, 0, &at, &s->job[i]));
	}
}

static void expect_run(struct side *s)
{
	for (int i = 0; i < s->n; i++)
		for (int k = s->step[i].begin; k < s->step[i].end; k++)
			s->is[s->step[i].to][k] = 2 * s->is[s->step[i].from][k] + (float)s->step[i].p;
}

/* Numbers must stay exact: sets all to small ones where they have grown. */
static void compare(struct side *s, struct rng *r)
{
	float now[N];
	for (int i = 0; i < BUFFERS; i++) {
		bool large = false;
		CHECK_OK(cuda_read(s->buf[i], 0, now, sizeof now));
		for (int k = 0; k < N; k++) {
			CHECK(now[k] == s->is[i][k]);
			large |= now[k] > 1e30f || now[k] < -1e30f;
		}
		for (int k = 0; k < N && large; k++)
			s->is[i][k] = (float)(int)rng_below(r, 9) - 4;
		if (large)
			CHECK_OK(cuda_write(s->buf[i], 0, s->is[i], sizeof s->is[i]));
	}
}

/* Maps a buffer, which moves it the first time on a board whose memory is shared. */
static void touch(struct side *s, struct rng *r)
{
	int i = (int)rng_below(r, BUFFERS), k = (int)rng_below(r, N);
	void *at;
	CHECK_OK(cuda_map(s->buf[i], 0, sizeof s->is[i], &at));
	if (test_bad)
		return;
	((float *)at)[k] = s->is[i][k] = 1;
	CHECK_OK(cuda_unmap(s->buf[i]));
}

static int counted(const char *name)
{
	void *library = dlopen(fake_cuda(), RTLD_NOW), *at = dlsym(library, name);
	CHECK(at);
	int n = at ? *(const int *)at : -1;
	dlclose(library);
	return n;
}

TEST(graphs_do_what_their_jobs_do)
{
	const char *count = getenv("HONE_TEST_GRAPHS");
	int cases = count ? atoi(count) : 30;
	for (int c = 0; c < cases && !test_bad; c++) {
		struct rng r;
		struct side s;
		struct cuda_job *all = NULL;
		rng_seed(&r, (uint64_t)c);
		cuda_lie(c % 3 ? "integrated;busy-threads" : "busy-threads");
		if (!open_side(&s, fake_cuda(), &r))
			break;
		make_jobs(&s, &r);
		CHECK_OK(cuda_record(s.dev, s.job, s.n, &all));
		CHECK(counted("fake_cuda_graphs") == 1);
		compare(&s, &r); /* recording runs nothing */
		for (int k = 0; k < 6 && !test_bad; k++) {
			if (rng_below(&r, 2))
				touch(&s, &r);
			CHECK_OK(cuda_start(all));
			expect_run(&s);
			if (rng_below(&r, 2)) {
				CHECK_OK(cuda_start(s.job[0]));
				int n = s.n;
				s.n = 1;
				expect_run(&s);
				s.n = n;
			}
			if (rng_below(&r, 2))
				CHECK_OK(cuda_wait(s.dev, &clock_real, soon()));
			compare(&s, &r);
		}
		cuda_drop(all);
		CHECK(counted("fake_cuda_graphs") == 0);
		close_side(&s);
		if (test_bad)
			printf("case %d\n", c);
	}
	cuda_lie("");
}

/* Each call fails, or gives nothing. The jobs then run one by one, unless the device is lost. */
TEST(calls_that_fail)
{
	static const struct {
		const char *lie, *why;
		int rc;
		bool starts, lost; /* it fails when it starts, not when it is recorded */
	} cases[] = {
	    {"cuStreamBeginCapture_v2=800", "cuStreamBeginCapture_v2: CUDA_ERROR_NOT_PERMITTED", E_IO},
	    {"cuStreamCreate=2", "cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY", E_NOMEM},
	    {"cuStreamEndCapture=901", "cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)",
	     E_IO},
	    {"cuStreamBeginCapture_v2=900", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)", E_IO},
	    {"cuGraphLaunch=910", "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)", E_IO, .starts = true},
	    {"null cuStreamEndCapture", "NULL without an error", E_IO},
	    {"cuLaunchKernel=701", "cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", E_INFEASIBLE},
	    {"cuGraphInstantiateWithFlags=2", "CUDA_ERROR_OUT_OF_MEMORY (2)", E_NOMEM},
	    {"null cuGraphInstantiateWithFlags", "NULL without an error", E_IO},
	    {"cuGraphInstantiateWithFlags=719", "CUDA_ERROR_LAUNCH_FAILED (719)", E_IO, .lost = true},
	    {"cuGraphLaunch=2", "cuGraphLaunch: CUDA_ERROR_OUT_OF_MEMORY (2)", E_NOMEM, .starts = true},
	    {"cuGraphLaunch=12345", "an unknown error (12345)", E_IO, .starts = true},
	    {"cuGraphLaunch=700", "CUDA_ERROR_ILLEGAL_ADDRESS", E_IO, .starts = true, .lost = true},
	    {"cuGraphDestroy=1", NULL, E_OK},
	    {"cuGraphExecDestroy=1", NULL, E_OK},
	};
	for (size_t c = 0; c < sizeof cases / sizeof *cases && !test_bad; c++) {
		struct rng r;
		struct side s;
		struct cuda_job *all = NULL;
		rng_seed(&r, c);
		cuda_lie("");
		if (!open_side(&s, fake_cuda(), &r))
			break;
		make_jobs(&s, &r);
		while (s.step[0].begin == s.step[0].end)
			make_jobs(&s, &r);
		cuda_lie(cases[c].lie);
		int rc = cuda_record(s.dev, s.job, s.n, &all);
		if (cases[c].starts || !cases[c].why) {
			CHECK_OK(rc);
			rc = cuda_start(all);
		}
		if (cases[c].why) {
			CHECK_FAILS(rc, cases[c].rc, cases[c].why);
		} else {
			CHECK_OK(rc);
			expect_run(&s);
		}
		cuda_lie("");
		for (int i = 0; i < s.n && !cases[c].lost; i++)
			CHECK_OK(cuda_start(s.job[i]));
		if (cases[c].lost) {
			CHECK_FAILS(cuda_start(s.job[0]), E_IO, "is lost");
		} else {
			expect_run(&s);
			compare(&s, &r);
		}
		cuda_drop(all);
		close_side(&s);
		if (test_bad)
			printf("%s\n", cases[c].lie);
	}
	cuda_lie("");
}

TEST(a_driver_without_graphs)
{
	char old[700];
	struct rng r;
	struct side s;
	struct cuda_job *all;
	snprintf(old, sizeof old, "%.*s/old/libcuda.so.1", (int)(strrchr(fake_cuda(), '/') - fake_cuda()),
		 fake_cuda());
	rng_seed(&r, 1);
	cuda_lie("");
	if (!open_side(&s, old, &r))
		return;
	make_jobs(&s, &r);
	CHECK_FAILS(cuda_record(s.dev, s.job, s.n, &all), E_UNSUPPORTED, "has no graphs");
	for (int i = 0; i < s.n; i++)
		CHECK_OK(cuda_start(s.job[i]));
	expect_run(&s);
	compare(&s, &r);
	struct target t;
	cuda_target(cuda_dev_info(s.dev), &t);
	CHECK_OK(cuda_measure(s.dev, &t));
	CHECK(t.launch_ns[0] > 0 && t.launch_ns[1] == 0);
	close_side(&s);
}

/* Measures the device's peaks, and keeps what is logged on stderr meanwhile. */
static int measure_peaks(struct cuda_dev *d, struct target *t, char *log, size_t room)
{
	int err = dup(2), file = memfd_create("log", 0);
	CHECK(err >= 0 && file >= 0 && dup2(file, 2) == 2);
	log_level_set(LOG_VERBOSE);
	int rc = cuda_measure(d, t);
	log_level_set(LOG_QUIET);
	dup2(err, 2);
	ssize_t n = pread(file, log, room - 1, 0);
	log[n > 0 ? n : 0] = 0;
	close(file);
	close(err);
	return rc;
}

/* A graph that is not made or does not start has no time, and the log says why. A lost device has no peaks.
 */
TEST(peaks_without_a_graph)
{
	static const struct {
		const char *lie, *why;
		bool lost;
	} cases[] = {{"cuStreamEndCapture=901", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)", false},
		     {"cuGraphInstantiateWithFlags=719", "CUDA_ERROR_LAUNCH_FAILED (719)", true},
		     {"cuGraphLaunch=2", "CUDA_ERROR_OUT_OF_MEMORY (2)", false},
		     {"cuGraphLaunch=700", "CUDA_ERROR_ILLEGAL_ADDRESS (700)", true}};
	for (size_t c = 0; c < sizeof cases / sizeof *cases && !test_bad; c++) {
		struct rng r;
		struct side s;
		struct target t;
		char log[4096];
		rng_seed(&r, c);
		cuda_lie("");
		if (!open_side(&s, fake_cuda(), &r))
			break;
		cuda_target(cuda_dev_info(s.dev), &t);
		cuda_lie(cases[c].lie);
		int rc = measure_peaks(s.dev, &t, log, sizeof log);
		if (cases[c].lost)
			CHECK_FAILS(rc, E_IO, cases[c].why);
		else
			CHECK_OK(rc);
		CHECK(strstr(log, "launches are not measured in a graph") && strstr(log, cases[c].why));
		CHECK(t.launch_ns[0] > 0 && t.launch_ns[1] == 0);
		cuda_lie("");
		close_side(&s);
		if (test_bad)
			printf("%s: %s\n", cases[c].lie, log);
	}
}

TEST(wrong_graphs)
{
	struct rng r;
	struct side s, other;
	struct cuda_job *all, *again;
	rng_seed(&r, 2);
	cuda_lie("");
	if (!open_side(&s, fake_cuda(), &r) || !open_side(&other, fake_cuda(), &r))
		return;
	make_jobs(&s, &r);
	CHECK_FAILS(cuda_record(s.dev, s.job, 0, &all), E_USAGE, "of 0 launches");
	CHECK_FAILS(cuda_record(other.dev, s.job, s.n, &all), E_USAGE, "another device");
	CHECK_OK(cuda_record(s.dev, s.job, s.n, &all));
	CHECK_FAILS(cuda_record(s.dev, &all, 1, &again), E_USAGE, "is a graph");
	cuda_drop(all);
	close_side(&s);
	close_side(&other);
}

TEST_MAIN
