/* SPDX-License-Identifier: Apache-2.0 */
/* The speed of an OpenCL device: multiply-adds of float4 in registers, and reads and copies of float4 that
 * neighbouring work items make side by side. Each figure is the best of several runs. */
#include "platform/run/opencl.h"

#include <math.h>

/* Arguments are those of every kernel (kernels/emit/emit_opencl.c): memory and first byte of each buffer,
 * parameters, range. */
static const char program[] =
    "//hone-opencl -cl-std=CL1.2 -cl-denorms-are-zero\n"
    "__kernel void k0(__global uchar *m0, const long o0, const long begin, const long end)\n"
    "{\n"
    "__global float4 *b = (__global float4 *)(m0 + o0);\n"
    "float4 x = (float4)(get_global_id(0) & 7), y = x + 1.f, z = x * .5f, v = x - 3.f;\n"
    "float4 p = x, q = y, r = z, s = v;\n"
    "const float4 m = (float4)(.999f), c = (float4)(.001f);\n"
    "for (int i = 0; i < 128; i++) {\n"
    "x = fma(x, m, c); y = fma(y, m, c); z = fma(z, m, c); v = fma(v, m, c);\n"
    "p = fma(p, m, c); q = fma(q, m, c); r = fma(r, m, c); s = fma(s, m, c);\n"
    "}\n"
    "b[get_global_id(0) & 1023] = x + y + z + v + p + q + r + s;\n"
    "}\n"
    "__kernel void k1(__global uchar *m0, const long o0, const long mask, const long step,\n"
    "const long begin, const long end)\n"
    "{\n"
    "__global float4 *b = (__global float4 *)(m0 + o0);\n"
    "float4 s = (float4)(0.f);\n"
    "int at = (int)get_global_id(0);\n"
    "for (int i = 0; i < 64; i++) {\n"
    "s += b[at & (int)mask];\n"
    "at += (int)step;\n"
    "}\n"
    "if (s.x == 12345.678f)\n"
    "b[0] = s;\n"
    "}\n"
    "__kernel void k2(__global uchar *m0, const long o0, const long apart, const long begin, const long "
    "end)\n"
    "{\n"
    "__global float4 *b = (__global float4 *)(m0 + o0);\n"
    "const long i = get_global_id(0);\n"
    "b[i + apart] = b[i];\n"
    "}\n";

#define FLOPS_PER_ITEM (128 * 8 * 4 * 2)
enum { READ_BYTES_PER_ITEM = 64 * 16, READ_ITEMS = 1 << 16, VECTOR_BYTES = 16, RUNS = 4, MOST_TIMES = 4096 };
#define LONG_ENOUGH_NS (4 * NS_PER_MS)
#define GIVE_UP_NS (10 * NS_PER_S) /* a driver compiles at the first launch */

struct peaks {
	struct opencl_dev *dev;
	struct opencl_code *code;
	struct opencl_buf *buf;
	int64_t bytes; /* a power of 2 */
};

static int run(const struct peaks *p, int entry, const int64_t *param, int nparams, int64_t items, int times,
	       int64_t *ns)
{
	const struct opencl_spot spot = {.buf = p->buf};
	const struct opencl_launch at = {
	    .spot = &spot, .nspots = 1, .param = param, .nparams = nparams, .end = items};
	struct opencl_job *j;
	int rc = opencl_prepare(p->code, entry, &at, &j);
	if (rc < 0)
		return rc;
	int64_t start_ns = clock_now(&clock_real);
	for (int i = 0; i < times && rc >= 0; i++)
		rc = opencl_start(j);
	if (rc >= 0)
		rc = opencl_wait(p->dev, &clock_real, start_ns + GIVE_UP_NS);
	*ns = clock_now(&clock_real) - start_ns;
	opencl_drop(j);
	return rc;
}

/* The least time of a launch: a loop of launches is made longer until it takes a few ms. */
static int best(const struct peaks *p, int entry, const int64_t *param, int nparams, int64_t items,
		double *ns)
{
	int times = 1, rc = E_OK;
	*ns = HUGE_VAL;
	for (int i = 0; i < RUNS && rc >= 0;) {
		int64_t took_ns = 0;
		rc = run(p, entry, param, nparams, items, times, &took_ns);
		bool enough = took_ns > LONG_ENOUGH_NS || times >= MOST_TIMES;
		if (enough && took_ns > 0)
			*ns = fmin(*ns, (double)took_ns / times);
		i += enough;
		times *= enough ? 1 : 2;
	}
	return rc >= 0 && isinf(*ns) ? fail(E_IO, "launches on the OpenCL device take no time") : rc;
}

static int reads(const struct peaks *p, int64_t bytes, double *gbs)
{
	double ns;
	if (bytes > p->bytes)
		bytes = p->bytes;
	const int64_t param[] = {bytes / VECTOR_BYTES - 1, READ_ITEMS};
	int rc = best(p, 1, param, 2, READ_ITEMS, &ns);
	*gbs = (double)READ_ITEMS * READ_BYTES_PER_ITEM / ns;
	return rc;
}

static int measure(const struct peaks *p, struct target *t)
{
	double ns = 1;
	int64_t items = (int64_t)opencl_dev_info(p->dev)->units * 2048, half = p->bytes / 2 / VECTOR_BYTES;
	int rc = best(p, 0, NULL, 0, items, &ns);
	t->fma_gflops = (double)items * FLOPS_PER_ITEM / ns;
	if (rc >= 0)
		rc = reads(p, 8 << 10, &t->bw_gbs[0]);
	if (rc >= 0)
		rc = reads(p, 256 << 10, &t->bw_gbs[1]);
	if (rc >= 0)
		rc = reads(p, 2 << 20, &t->bw_gbs[2]);
	if (rc >= 0)
		rc = reads(p, INT64_MAX, &t->bw_gbs[3]);
	if (rc >= 0)
		rc = best(p, 2, &half, 1, half, &ns);
	t->copy_gbs = (double)half * 2 * VECTOR_BYTES / ns;
	return rc;
}

int opencl_measure(struct opencl_dev *d, struct target *t)
{
	struct peaks p = {.dev = d, .bytes = (int64_t)128 << 20};
	const struct opencl_info *i = opencl_dev_info(d);
	while (p.bytes > 1 << 16 && (p.bytes > i->alloc_bytes || p.bytes > i->global_bytes / 8))
		p.bytes /= 2;
	int rc = opencl_load(d, program, sizeof program - 1, &p.code);
	for (int k = 0; k < 3 && rc >= 0; k++) {
		const char name[] = {'k', (char)('0' + k), 0};
		rc = opencl_entry(p.code, name);
	}
	if (rc >= 0)
		rc = opencl_alloc(d, p.bytes, &p.buf);
	if (rc >= 0)
		rc = measure(&p, t);
	opencl_free(p.buf);
	opencl_unload(p.code);
	return rc < 0 ? rc : E_OK;
}
