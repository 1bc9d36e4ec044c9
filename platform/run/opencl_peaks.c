/* SPDX-License-Identifier: Apache-2.0 */
/* The speed of an OpenCL device, each figure as the best of several ways and runs. Ways differ in how wide
 * vectors are (float4 fills a lane of a GPU, float16 the registers of a processor) and in what neighbouring
 * work items touch: a GPU reads fast what lies side by side, a processor what one item reads in a row. */
#include "platform/run/opencl.h"

#include <math.h>
#include <string.h>

/* Arguments are those of every kernel (kernels/emit/emit_opencl.c): memory and first byte of each buffer,
 * parameters, range. */
#define HEAD(k, params)                                                                                      \
	"__kernel void k" k "(__global uchar *m0, const long o0, " params                                    \
	"const long begin, const long end)\n{\n"
#define FMA(k, v)                                                                                            \
	HEAD(k, "")                                                                                          \
	"__global " v " *b = (__global " v " *)(m0 + o0);\n" v " x = (" v                                    \
	")(get_global_id(0) & 7), y = x + 1.f, z = x * .5f, w = x - 3.f;\n" v                                \
	" p = x, q = y, r = z, s = w;\n"                                                                     \
	"const " v " m = (" v ")(.999f), c = (" v ")(.001f);\n"                                              \
	"for (int i = 0; i < 128; i++) {\n"                                                                  \
	"x = fma(x, m, c); y = fma(y, m, c); z = fma(z, m, c); w = fma(w, m, c);\n"                          \
	"p = fma(p, m, c); q = fma(q, m, c); r = fma(r, m, c); s = fma(s, m, c);\n"                          \
	"}\n"                                                                                                \
	"b[get_global_id(0) & 255] = x + y + z + w + p + q + r + s;\n"                                       \
	"}\n"
/* Side by side: n steps of the range's width, in a set of mask + 1 vectors. */
#define READ_BESIDE                                                                                          \
	HEAD("1", "const long mask, const long step, const long n, ")                                        \
	"__global float4 *b = (__global float4 *)(m0 + o0);\n"                                               \
	"float4 s = (float4)(0.f);\n"                                                                        \
	"int at = (int)get_global_id(0);\n"                                                                  \
	"for (int i = 0; i < (int)n; i++) {\n"                                                               \
	"s += b[at & (int)mask];\n"                                                                          \
	"at += (int)step;\n"                                                                                 \
	"}\n"                                                                                                \
	"if (s.x == 12345.678f)\n"                                                                           \
	"b[0] = s;\n"                                                                                        \
	"}\n"
#define COPY_BESIDE                                                                                          \
	HEAD("2", "const long apart, const long n, ")                                                        \
	"__global float4 *b = (__global float4 *)(m0 + o0);\n"                                               \
	"const long i = get_global_id(0);\n"                                                                 \
	"b[i + apart] = b[i];\n"                                                                             \
	"}\n"
/* In a row: n vectors from item * n on, in a set of mask + 8 vectors. */
#define READ_ROW                                                                                             \
	HEAD("4", "const long mask, const long step, const long n, ")                                        \
	"__global float16 *b = (__global float16 *)(m0 + o0);\n"                                             \
	"float16 s = (float16)(0.f), t = s, u = s, v = s, w = s, x = s, y = s, z = s;\n"                     \
	"int at = (int)(get_global_id(0) * n);\n"                                                            \
	"for (int i = 0; i < (int)n; i += 8) {\n"                                                            \
	"__global float16 *p = b + ((at + i) & (int)mask);\n"                                                \
	"s += p[0]; t += p[1]; u += p[2]; v += p[3]; w += p[4]; x += p[5]; y += p[6]; z += p[7];\n"          \
	"}\n"                                                                                                \
	"s += t + u + v + w + x + y + z;\n"                                                                  \
	"if (s.s0 == 12345.678f)\n"                                                                          \
	"b[0] = s;\n"                                                                                        \
	"}\n"
#define COPY_ROW                                                                                             \
	HEAD("5", "const long apart, const long n, ")                                                        \
	"__global float16 *b = (__global float16 *)(m0 + o0) + get_global_id(0) * n;\n"                      \
	"for (int i = 0; i < (int)n; i++)\n"                                                                 \
	"b[i + (int)apart] = b[i];\n"                                                                        \
	"}\n"

static const char program[] = "//hone-opencl -cl-std=CL1.2 -cl-denorms-are-zero\n" FMA("0", "float4")
    READ_BESIDE COPY_BESIDE FMA("3", "float16") READ_ROW COPY_ROW HEAD("6", "") "}\n";

struct way { /* kernels first .. first + 2 */
	int first, lanes;
	int64_t items_per_unit; /* that read and copy */
	bool in_a_row;
};

enum { KERNELS = 7, WAYS = 2, NOTHING = 6 /* number of the kernel that does nothing */ };
static const struct way ways[WAYS] = {{0, 4, 2048, false}, {3, 16, 8, true}};

enum { FMA_STEPS = 128 * 8, FMA_ITEMS_PER_UNIT = 2048, LEAST_RUNS = 3, RUNS = 10, MOST_TIMES = 4096 };
#define READ_BYTES ((int64_t)8 << 20) /* of a launch, at least */
/* A short run fits between two moments at which other programs have the processor of a driver for it. */
#define LONG_ENOUGH_NS (1 * NS_PER_MS)
#define GIVE_UP_NS (10 * NS_PER_S)   /* a driver compiles at the first launch */
#define FIGURE_NS (120 * NS_PER_MS)  /* of one figure; after it, LEAST_RUNS runs are enough */
#define ENOUGH_NS (4000 * NS_PER_MS) /* all in all; then no further way is tried, and one run counts */

struct peaks {
	struct opencl_dev *dev;
	struct opencl_code *code;
	struct opencl_buf *buf;
	int64_t bytes; /* a power of 2 */
	int64_t units, end_ns;
};

static bool over(const struct peaks *p)
{
	return clock_now(&clock_real) >= p->end_ns;
}

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

/* The least time of a launch: a loop of launches is made longer until it takes long enough. The first launch
 * does not count, because a driver may compile the kernel then. */
static int best(const struct peaks *p, int entry, const int64_t *param, int nparams, int64_t items,
		double *ns)
{
	int64_t took_ns = 0;
	int times = 1, rc = run(p, entry, param, nparams, items, 1, &took_ns);
	int64_t end_ns = clock_now(&clock_real) + FIGURE_NS;
	*ns = HUGE_VAL;
	for (int i = 0; i < RUNS && rc >= 0;) {
		bool late = clock_now(&clock_real) >= end_ns;
		if (!isinf(*ns) && (over(p) || (late && i >= LEAST_RUNS)))
			break;
		rc = run(p, entry, param, nparams, items, times, &took_ns);
		bool enough = took_ns > LONG_ENOUGH_NS || times >= MOST_TIMES || over(p);
		if (enough && took_ns > 0)
			*ns = fmin(*ns, (double)took_ns / times);
		i += enough;
		times *= enough ? 1 : 2;
	}
	return rc >= 0 && isinf(*ns) ? fail(E_IO, "launches on the OpenCL device take no time") : rc;
}

static void raise_to(double *peak, double now)
{
	*peak = now > *peak ? now : *peak;
}

/* Reads of a set of bytes, all in all READ_BYTES at least. */
static int reads(const struct peaks *p, const struct way *w, int64_t bytes, double *gbs)
{
	double ns;
	bytes = bytes < p->bytes ? bytes : p->bytes;
	int64_t vector = w->lanes * 4, items = p->units * w->items_per_unit,
		each = (bytes > READ_BYTES ? bytes : READ_BYTES) / vector / items;
	each = each < 64 ? 64 : each / 64 * 64;
	const int64_t param[] = {bytes / vector - (w->in_a_row ? 8 : 1), items, each};
	int rc = best(p, w->first + 1, param, 3, items, &ns);
	if (rc >= 0)
		raise_to(gbs, (double)(items * each * vector) / ns);
	return rc;
}

/* The first half of the memory to the second. */
static int copies(const struct peaks *p, const struct way *w, double *gbs)
{
	double ns;
	int64_t vectors = p->bytes / 2 / (w->lanes * 4),
		items = w->in_a_row ? p->units * w->items_per_unit : vectors;
	if (items > vectors)
		items = vectors;
	const int64_t param[] = {vectors, vectors / items};
	int rc = best(p, w->first + 2, param, 2, items, &ns);
	if (rc >= 0)
		raise_to(gbs, (double)(vectors / items * items * w->lanes * 8) / ns);
	return rc;
}

static int measure(const struct peaks *p, const struct way *w, struct target *t)
{
	static const int64_t sets[] = {8 << 10, 256 << 10, 2 << 20, INT64_MAX};
	double ns = 1;
	int64_t items = p->units * FMA_ITEMS_PER_UNIT;
	int rc = best(p, w->first, NULL, 0, items, &ns);
	if (rc >= 0)
		raise_to(&t->fma_gflops, (double)items * FMA_STEPS * w->lanes * 2 / ns);
	for (int i = 0; i < 4 && rc >= 0; i++)
		rc = reads(p, w, sets[i], &t->bw_gbs[i]);
	return rc < 0 ? rc : copies(p, w, &t->copy_gbs);
}

/* A system may give memory that nobody has written as one page of zeros. (`zeros` is not const, so that it
 * takes no room in the file.) */
static int touch(const struct peaks *p)
{
	static char zeros[1 << 16];
	int rc = E_OK;
	for (int64_t at = 0; at < p->bytes && rc >= 0; at += (int64_t)sizeof zeros)
		rc = opencl_write(p->buf, at, zeros, sizeof zeros);
	return rc;
}

/* First the way that suits the kind of device, then the other, if there is time. */
static int measure_all(const struct peaks *p, struct target *t)
{
	int first = !strcmp(opencl_dev_info(p->dev)->kind, "cpu");
	t->fma_gflops = t->copy_gbs = 0;
	memset(t->bw_gbs, 0, sizeof t->bw_gbs);
	int rc = best(p, NOTHING, NULL, 0, 64, &t->launch_ns[0]);
	for (int i = 0; i < WAYS && rc >= 0 && (i == 0 || !over(p)); i++)
		rc = measure(p, &ways[(first + i) % WAYS], t);
	for (int i = 3; i > 0; i--) /* a smaller set is in the larger one's memory, or nearer */
		raise_to(&t->bw_gbs[i - 1], t->bw_gbs[i]);
	return rc;
}

int opencl_measure(struct opencl_dev *d, struct target *t)
{
	const struct opencl_info *i = opencl_dev_info(d);
	struct peaks p = {.dev = d,
			  .bytes = (int64_t)128 << 20,
			  .units = i->units < 1      ? 1
				   : i->units < 4096 ? i->units
						     : 4096};
	while (p.bytes > 1 << 16 && (p.bytes > i->alloc_bytes || p.bytes > i->global_bytes / 8))
		p.bytes /= 2;
	int rc = opencl_load(d, program, sizeof program - 1, &p.code);
	for (int k = 0; k < KERNELS && rc >= 0; k++) {
		const char name[] = {'k', (char)('0' + k), 0};
		rc = opencl_entry(p.code, name);
	}
	if (rc >= 0)
		rc = opencl_alloc(d, p.bytes, &p.buf);
	if (rc >= 0)
		rc = touch(&p);
	p.end_ns = clock_now(&clock_real) + ENOUGH_NS; /* compiling and writing do not count */
	if (rc >= 0)
		rc = measure_all(&p, t);
	opencl_free(p.buf);
	opencl_unload(p.code);
	return rc < 0 ? rc : E_OK;
}
