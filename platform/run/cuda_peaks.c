/* SPDX-License-Identifier: Apache-2.0 */
/* The speed of a CUDA device, each figure as the best of several runs of small programs. Neighbouring threads
 * read what lies side by side, 16 bytes each. */
#include "platform/run/cuda.h"
#include "platform/base/log.h"

#include <math.h>
#include <string.h>

/* Parameters are those of every kernel (kernels/emit/emit_ptx.c): the buffer's address, parameters, range.
 * All ranges are whole blocks, so no item is left out. */
#define HEAD(k, params)                                                                                      \
	".visible .entry k" k "(.param .u64 m, " params ".param .u64 begin, .param .u64 end)\n"              \
	".reqntid 256, 1, 1\n{\n"                                                                            \
	".reg .pred %p<2>;\n.reg .b32 %r<12>;\n.reg .f32 %f<24>;\n.reg .b64 %rd<12>;\n"                      \
	"ld.param.u64 %rd0, [m];\n"                                                                          \
	"cvta.to.global.u64 %rd1, %rd0;\n"                                                                   \
	"mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %tid.x;\n"                                                     \
	"shl.b32 %r2, %r0, 8;\nadd.s32 %r3, %r2, %r1;\n"
#define FMA1(f) "fma.rn.f32 %f" f ", %f" f ", %f8, %f9;\n"
#define FMA8 FMA1("0") FMA1("1") FMA1("2") FMA1("3") FMA1("4") FMA1("5") FMA1("6") FMA1("7")
#define START1(f, g) "add.f32 %f" f ", %f" g ", 0f3F800000;\n"
#define LOAD1(i)                                                                                             \
	"and.b32 %r7, %r3, %r4;\nmul.wide.u32 %rd3, %r7, 16;\nadd.s64 %rd4, %rd1, %rd3;\n"                   \
	"ld.global.v4.f32 {%f10, %f11, %f12, %f13}, [%rd4];\n"                                               \
	"add.f32 %f" i ", %f" i ", %f10;\nadd.s32 %r3, %r3, %r5;\n"

static const char program[] = "//hone-ptx k0,256,1,0;k1,256,1,0;k2,256,1,0;k3,256,1,0\n"
			      ".version 6.0\n.target sm_70\n.address_size 64\n"
    /* 128 times 32 fused multiply-adds in 8 chains */
    HEAD("0", "") "cvt.rn.f32.u32 %f0, %r1;\n" START1("1", "0") START1("2", "1") START1("3", "2")
	START1("4", "3") START1("5", "4") START1("6", "5") START1(
	    "7", "6") "mov.f32 %f8, 0f3F7FBE77;\nmov.f32 %f9, 0f3A83126F;\n" /* 0.999, 0.001 */
		      "mov.u32 %r4, 0;\n"
		      "AGAIN0:\n" FMA8 FMA8 FMA8 FMA8
		      "add.s32 %r4, %r4, 1;\nsetp.lt.s32 %p0, %r4, 128;\n@%p0 bra AGAIN0;\n"
		      "add.f32 %f0, %f0, %f1;\nadd.f32 %f2, %f2, %f3;\nadd.f32 %f4, %f4, %f5;\nadd.f32 %f6, "
		      "%f6, %f7;\n"
		      "add.f32 %f0, %f0, %f2;\nadd.f32 %f4, %f4, %f6;\nadd.f32 %f0, %f0, %f4;\n"
		      "mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd1, %rd3;\nst.global.f32 [%rd4], %f0;\n"
		      "ret;\n}\n"
    /* n reads, the range's width apart, in a set of mask + 1 vectors; n: a multiple of 4 */
    HEAD(
	"1",
	".param .u64 mask, .param .u64 step, .param .u64 n, ") "ld.param.u64 %rd5, [mask];\ncvt.u32.u64 %r4, "
							       "%rd5;\n"
							       "ld.param.u64 %rd6, [step];\ncvt.u32.u64 %r5, "
							       "%rd6;\n"
							       "ld.param.u64 %rd7, [n];\ncvt.u32.u64 %r6, "
							       "%rd7;\n"
							       "mov.f32 %f0, 0f00000000;\nmov.f32 %f1, "
							       "%f0;\nmov.f32 %f2, %f0;\nmov.f32 %f3, %f0;\n"
							       "AGAIN1:\n" LOAD1("0") LOAD1("1")
								   LOAD1("2")
								       LOAD1(
									   "3") "add.s32 %r6, %r6, "
										"-4;\nsetp.gt.s32 %p0, %r6, "
										"0;\n@%p0 bra AGAIN1;\n"
										"add.f32 %f0, %f0, "
										"%f1;\nadd.f32 %f2, %f2, "
										"%f3;\nadd.f32 %f0, %f0, "
										"%f2;\n"
										"setp.neu.f32 %p1, %f0, "
										"0f4640E6B7;\n@%p1 bra "
										"END1;\n" /* 12345.678 */
										"st.global.f32 [%rd1], %f0;\n"
										"END1:\nret;\n}\n"
    /* a vector of the first half to the second, which begins `apart` vectors further */
    HEAD("2", ".param .u64 apart, ") "ld.param.u64 %rd5, [apart];\nshl.b64 %rd6, %rd5, 4;\n"
				     "mul.wide.u32 %rd3, %r3, 16;\nadd.s64 %rd4, %rd1, %rd3;\n"
				     "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd4];\n"
				     "add.s64 %rd7, %rd4, %rd6;\n"
				     "st.global.v4.f32 [%rd7], {%f0, %f1, %f2, %f3};\n"
				     "ret;\n}\n"
    /* nothing */
    HEAD("3", "") "ret;\n}\n";

enum { KERNELS = 4, NOTHING = 3 /* number of the kernel that does nothing */, GROUP = 256 };
enum { IN_GRAPH = 128, STARTS = 4 };
enum { VECTOR = 16, ITEMS_PER_UNIT = 2048, FMA_STEPS = 128 * 32, RUNS = 4, MOST_TIMES = 4096 };
#define READ_BYTES_PER_UNIT ((int64_t)8 << 20) /* of a launch, at least */
#define LEAST_BYTES ((int64_t)64 << 10)
#define MOST_BYTES ((int64_t)1 << 30)
#define LONG_ENOUGH_NS (3 * NS_PER_MS)
#define GIVE_UP_NS (10 * NS_PER_S)
#define ENOUGH_NS (1100 * NS_PER_MS) /* all in all; then one run counts */

struct peaks {
	struct cuda_dev *dev;
	struct cuda_code *code;
	struct cuda_buf *buf;
	int64_t bytes; /* a power of 2 */
	int64_t items; /* that keep the device busy: whole blocks */
	int64_t read_bytes, end_ns;
};

static bool over(const struct peaks *p)
{
	return clock_now(&clock_real) >= p->end_ns;
}

static int run(const struct peaks *p, int entry, const int64_t *param, int nparams, int64_t items, int times,
	       int64_t *ns)
{
	const struct cuda_spot spot = {.buf = p->buf};
	const struct cuda_launch at = {
	    .spot = &spot, .nspots = 1, .param = param, .nparams = nparams, .end = items};
	struct cuda_job *j;
	int rc = cuda_prepare(p->code, entry, &at, &j);
	if (rc < 0)
		return rc;
	int64_t start_ns = clock_now(&clock_real);
	for (int i = 0; i < times && rc >= 0; i++)
		rc = cuda_start(j);
	if (rc >= 0)
		rc = cuda_wait(p->dev, &clock_real, start_ns + GIVE_UP_NS);
	*ns = clock_now(&clock_real) - start_ns;
	cuda_drop(j);
	return rc;
}

/* The least time of a launch: a loop of launches is made longer until it takes a few ms. The first launch does
 * not count, because the driver may load the code then and the device may raise its clocks. */
static int best(const struct peaks *p, int entry, const int64_t *param, int nparams, int64_t items,
		double *ns)
{
	int64_t took_ns = 0;
	int times = 1, rc = run(p, entry, param, nparams, items, 1, &took_ns);
	*ns = HUGE_VAL;
	for (int i = 0; i < RUNS && rc >= 0 && (isinf(*ns) || !over(p));) {
		rc = run(p, entry, param, nparams, items, times, &took_ns);
		bool enough = took_ns > LONG_ENOUGH_NS || times >= MOST_TIMES || over(p);
		if (enough && took_ns > 0)
			*ns = fmin(*ns, (double)took_ns / times);
		i += enough;
		times *= enough ? 1 : 2;
	}
	return rc >= 0 && isinf(*ns) ? fail(E_IO, "launches on the CUDA device take no time") : rc;
}

static int reads(const struct peaks *p, int64_t bytes, double *gbs)
{
	double ns = 1;
	bytes = bytes < p->bytes ? bytes : p->bytes;
	int64_t all = bytes > p->read_bytes ? bytes : p->read_bytes, each = all / VECTOR / p->items;
	each = each < 8 ? 8 : each / 4 * 4;
	const int64_t param[] = {bytes / VECTOR - 1, p->items, each};
	int rc = best(p, 1, param, 3, p->items, &ns);
	*gbs = (double)(p->items * each * VECTOR) / ns;
	return rc;
}

/* The time of an empty kernel in a graph; *ns stays where the driver makes none or does not start it. */
static int graph(const struct peaks *p, double *ns)
{
	const struct cuda_spot spot = {.buf = p->buf};
	const struct cuda_launch at = {.spot = &spot, .nspots = 1, .end = GROUP};
	struct cuda_job *one = NULL, *all = NULL, *jobs[IN_GRAPH];
	double best_ns = HUGE_VAL;
	int rc = cuda_prepare(p->code, NOTHING, &at, &one);
	for (int i = 0; i < IN_GRAPH; i++)
		jobs[i] = one;
	int made = rc < 0 ? rc : cuda_record(p->dev, jobs, IN_GRAPH, &all);
	for (int i = 0; i < 2 * RUNS && rc >= 0 && made >= 0; i++) {
		int64_t start_ns = clock_now(&clock_real);
		for (int k = 0; k < STARTS && made >= 0; k++)
			made = cuda_start(all);
		if (made < 0)
			break;
		rc = cuda_wait(p->dev, &clock_real, start_ns + GIVE_UP_NS);
		if (i > 0 && rc >= 0) /* the first may bring the graph to the device */
			best_ns = fmin(best_ns, (double)(clock_now(&clock_real) - start_ns) / (STARTS * IN_GRAPH));
	}
	if (rc >= 0 && made < 0) { /* if the device is lost, the wait fails */
		log_more("launches are not measured in a graph: %s", err_text());
		rc = cuda_wait(p->dev, &clock_real, clock_now(&clock_real) + GIVE_UP_NS);
	}
	if (rc >= 0 && isfinite(best_ns) && best_ns > 0)
		*ns = best_ns;
	cuda_drop(all);
	cuda_drop(one);
	return rc;
}

static int measure(const struct peaks *p, struct target *t)
{
	static const int64_t sets[] = {8 << 10, 256 << 10, 2 << 20, INT64_MAX};
	double ns = 1;
	int rc = best(p, 0, NULL, 0, p->items, &ns);
	t->fma_gflops = (double)p->items * FMA_STEPS * 2 / ns;
	for (int i = 0; i < 4 && rc >= 0; i++)
		rc = reads(p, sets[i], &t->bw_gbs[i]);
	if (rc < 0)
		return rc;
	for (int i = 3; i > 0; i--) /* a smaller set is in the larger one's memory, or nearer */
		t->bw_gbs[i - 1] = fmax(t->bw_gbs[i - 1], t->bw_gbs[i]);
	const int64_t vectors = p->bytes / 2 / VECTOR;
	rc = best(p, 2, &vectors, 1, vectors, &ns);
	t->copy_gbs = (double)p->bytes / ns;
	if (rc >= 0)
		rc = best(p, NOTHING, NULL, 0, GROUP, &t->launch_ns[0]);
	return rc < 0 ? rc : graph(p, &t->launch_ns[1]);
}

/* Sums of what nobody has written could be anything. (`zeros` is not const, so that it takes no room in the
 * file.) */
static int clear(const struct peaks *p)
{
	static char zeros[1 << 20];
	int rc = E_OK;
	for (int64_t at = 0; at < p->bytes && rc >= 0;) {
		int64_t n = p->bytes - at < (int64_t)sizeof zeros ? p->bytes - at : (int64_t)sizeof zeros;
		rc = cuda_write(p->buf, at, zeros, n);
		at += n;
	}
	return rc;
}

int cuda_measure(struct cuda_dev *d, struct target *t)
{
	const struct cuda_info *i = cuda_dev_info(d);
	int64_t units = i->units < 1 ? 1 : i->units < 4096 ? i->units : 4096, large = 4 * t->l2_bytes;
	struct peaks p = {.dev = d,
			  .bytes = LEAST_BYTES,
			  .items = units * ITEMS_PER_UNIT,
			  .read_bytes = units * READ_BYTES_PER_UNIT};
	while (p.bytes < MOST_BYTES && p.bytes < large && 2 * p.bytes <= i->global_bytes / 8)
		p.bytes *= 2;
	int rc = cuda_load(d, program, sizeof program - 1, &p.code);
	for (int k = 0; k < KERNELS && rc >= 0; k++) {
		const char name[] = {'k', (char)('0' + k), 0};
		rc = cuda_entry(p.code, name);
	}
	if (rc >= 0)
		rc = cuda_alloc(d, p.bytes, &p.buf);
	if (rc >= 0)
		rc = clear(&p);
	p.end_ns = clock_now(&clock_real) + ENOUGH_NS; /* compiling and writing do not count */
	if (rc >= 0)
		rc = measure(&p, t);
	cuda_free(p.buf);
	cuda_unload(p.code);
	return rc < 0 ? rc : E_OK;
}
