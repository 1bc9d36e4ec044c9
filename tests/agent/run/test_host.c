/* SPDX-License-Identifier: Apache-2.0 */
/* The portable path against the reference, on random tasks and written ones; placement of lifetimes. */
#include "tests/lib/test.h"
#include "tests/lib/tasks.h"
#include "agent/run/host.h"
#include "agent/run/host_tile.h"
#include "agent/run/lifetimes.h"
#include "agent/run/window.h"
#include "platform/machine/target.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static struct task task;

/* Values in (0.5, 1.5): every operator is smooth and defined there. */
static void fill(struct rng *r, const struct operand *o, float *p)
{
	int64_t n = shape_count(&o->dims);
	float *plain = malloc(sizeof *plain * (size_t)n);
	for (int64_t i = 0; i < n; i++)
		plain[i] = 0.5f + (float)rng_unit(r);
	operand_pack(o, plain, p);
	free(plain);
}

static bool close_to(float a, float b)
{
	return (isnan(a) && isnan(b)) || a == b ||
	       fabs((double)a - (double)b) <= 1e-4 * fabs((double)b) + 1e-4 || (fabsf(b) > 1e30f);
}

/* Compares all elements, also halos, but not padding lanes, which mean nothing. */
static bool same_values(const struct operand *o, const float *a, const float *b)
{
	int64_t i[MAX_RANK] = {0};
	bool same = true;
	for (int d = 0; d < o->dims.rank; d++)
		i[d] = -o->layout.lo[d];
	for (int d = 0; d >= 0;) {
		int64_t at = operand_offset(o, i);
		same &= close_to(a[at], b[at]);
		for (d = o->dims.rank - 1; d >= 0 && ++i[d] == o->dims.d[d] + o->layout.hi[d]; d--)
			i[d] = -o->layout.lo[d];
	}
	return same;
}

/* Makes a table of n indexes for tasks that look indexes up. stray: some indexes lie outside of every
 * operand. */
static int32_t *halves(struct arena *a, int64_t n, bool stray)
{
	int32_t *table = arena_alloc(a, sizeof *table * (size_t)n);
	for (int64_t k = 0; k < n; k++)
		table[k] = stray && k % 3 == 1 ? -1 : stray && k % 5 == 2 ? INT32_MAX : (int32_t)(k / 2);
	return table;
}

/* Runs a task both ways. The rows are split at a random place, as threads do. */
static bool agree(struct rng *r)
{
	struct arena a = {0};
	struct operand packed[MAX_OPERANDS];
	void *bufs[MAX_OPERANDS] = {0}, *ref[MAX_OPERANDS] = {0};
	struct host_task *h;
	int out = task.stage[task.nstages - 1].out.operand;
	const int32_t *table[MAX_OPERANDS] = {NULL};
	bool known = rng_below(r, 2), stray = rng_below(r, 2);
	for (int i = 0; i < task.noperands && known; i++)
		if (task.operand[i].dtype == DT_I32)
			table[i] = halves(&a, operand_elems(&task.operand[i]), stray);
	int lanes = tile_lanes() >> rng_below(r, 3); /* those of an image may be fewer */
	lanes = lanes < TILE_LEAST ? TILE_LEAST : lanes;
	if (host_make(&task, rng_below(r, 2) ? HOST_RUNS : HOST_TEXT, lanes, table, &a, packed, &h) < 0)
		return false;
	for (int i = 0; i < task.noperands; i++) {
		int64_t n = operand_elems(&packed[i]);
		bufs[i] = arena_alloc(&a, sizeof(float) * (size_t)n);
		ref[i] = arena_alloc(&a, sizeof(float) * (size_t)n);
		struct rng same = *r;
		if (task.operand[i].dtype == DT_I32) {
			memcpy(bufs[i], halves(&a, n, stray), sizeof(int32_t) * (size_t)n);
			memcpy(ref[i], bufs[i], sizeof(int32_t) * (size_t)n);
		} else if (task.operand[i].role == ROLE_IN || task.operand[i].role == ROLE_CONST) {
			fill(r, &packed[i], bufs[i]);
			fill(&same, &task.operand[i], ref[i]);
		}
	}
	if (task_reference(&task, ref, &a) < 0)
		return false;
	void *scratch = arena_aligned(&a, host_scratch_bytes(), 64);
	for (int e = 0; e < host_entries(h); e++) {
		int64_t n = host_extent(h, e), cut = rng_below(r, (uint32_t)n + 1);
		host_run(h, e, bufs, cut, n, scratch);
		host_run(h, e, bufs, 0, cut, scratch);
	}
	bool good = same_values(&task.operand[out], bufs[out], ref[out]);
	arena_free(&a);
	return good;
}

/* Powers, logarithms and steps of sums amplify rounding: the random programs keep to the others. */
static void tame(struct prog *p)
{
	for (int i = 0; i < p->n; i++) {
		int op = p->at[i].op;
		if (op == P_EXP || op == P_SQUARE || op == P_RECIP || op == P_LOG || op == P_SQRT ||
		    op == P_FLOOR || op == P_CEIL || op == P_RINT || op == P_SIGN)
			p->at[i].op = P_TANH;
		if (op == P_POW || op == P_DIV || op == P_LT || op == P_LE || op == P_EQ)
			p->at[i].op = P_MAX;
		if (op == P_SELECT && i > 0)
			p->at[i].op = P_SELECT;
	}
}

TEST(random_tasks)
{
	struct rng r;
	rng_seed(&r, 21);
	for (int i = 0; i < 1500; i += test_share()) {
		task_random(&r, &task);
		tame(&task.stage[0].body);
		tame(&task.stage[0].post);
		if (task.stage[0].comb == COMB_PROD)
			task.stage[0].comb = COMB_MIN;
		REQUIRE_OK(task_check(&task));
		bool good = agree(&r);
		if (!good) {
			struct buf b = {0};
			task_text(&task, &b);
			printf("task %d:\n%s", i, buf_str(&b));
			buf_free(&b);
		}
		REQUIRE(good);
	}
}

static int any(struct rng *r, int lo, int hi)
{
	return lo + (int)rng_below(r, (uint32_t)(hi - lo + 1));
}

/* " [n,c,h,w] plain", or in blocks of channels, with halos of lo and hi. */
static void put_image(struct buf *b, struct rng *r, const char *head, int c, int h, int w, const int lo[2],
		      const int hi[2])
{
	static const int blocks[] = {0, 0, 4, 8, 16};
	int block = blocks[any(r, 0, 4)];
	buf_printf(b, "%s f32 [2,%d,%d,%d] ", head, c, h, w);
	if (block)
		buf_printf(b, "0.1/%d.2.3.1", block);
	else
		buf_puts(b, "plain");
	for (int d = 0; d < 2; d++)
		if (lo[d] || hi[d])
			buf_printf(b, ";%d+%d+%d", 2 + d, lo[d], hi[d]);
	buf_puts(b, "\n");
}

enum { DENSE, GROUPED, DEPTHWISE, POOL, TRANSPOSED, PHASES, KINDS };

/* "2*y", or "y" for one. */
static void put_term(struct buf *b, int factor, const char *axis)
{
	if (factor > 1)
		buf_printf(b, "%d*", factor);
	buf_puts(b, axis);
}

/* "2*y+3*r-1" */
static void put_index(struct buf *b, int stride, const char *y, int dilation, const char *tap, int pad)
{
	put_term(b, stride, y);
	buf_puts(b, "+");
	put_term(b, dilation, tap);
	if (pad)
		buf_printf(b, "-%d", pad);
}

/* A reduction over windows: any stride, dilation and padding, by halos or guards, any layout, with a random
 * epilogue. */
static void put_window(struct rng *r, struct buf *b)
{
	static const char *const combs[] = {"sum", "max", "min"};
	int kind = any(r, 0, KINDS - 1), c = any(r, 1, 37), k = any(r, 1, 40), g = any(r, 2, 3);
	int y[2], taps[2], stride[2], dilation[2], pad[2], x[2], lo[2], hi[2];
	bool halo = any(r, 0, 1), bias = any(r, 0, 1), sum = any(r, 0, 1), weights_in = any(r, 0, 3) == 0;
	for (int d = 0; d < 2; d++) {
		y[d] = any(r, 1, 21);
		taps[d] = any(r, 1, 4);
		stride[d] = kind == TRANSPOSED ? 1 : any(r, 1, 3);
		dilation[d] = any(r, 1, 2);
		pad[d] = any(r, 0, taps[d] - 1);
		x[d] = (y[d] - 1) * stride[d] + (taps[d] - 1) * dilation[d] + 1 - pad[d];
		x[d] = x[d] < 1 ? 1 : x[d] - (x[d] > 1 ? any(r, 0, 1) : 0);
		lo[d] = halo ? 8 : 0;
		hi[d] = halo ? 30 : 0;
	}
	char phases[32] = "", phase[32] = "";
	if (kind == PHASES) { /* other weights at each remainder of y, or of both axes */
		bool both = any(r, 0, 1);
		snprintf(phases, sizeof phases, "%d,%s", g, both ? "3," : "");
		snprintf(phase, sizeof phase, "(y)%%%d,%s", g, both ? "(x)%3," : "");
		stride[0] = 1;
	}
	if (kind == DEPTHWISE || kind == POOL)
		k = c;
	if (kind == GROUPED)
		k *= g;
	buf_puts(b, "task syms=0\n");
	put_image(b, r, "operand X in", kind == GROUPED ? c * g : c, x[0], x[1], lo, hi);
	if (kind != POOL)
		buf_printf(b, "operand W %s f32 [%s%d,%d,%d,%d] plain\n", weights_in ? "in" : "const", phases,
			   k, kind == DEPTHWISE ? 1 : c, taps[0], taps[1]);
	if (bias)
		buf_printf(b, "operand B const f32 [%d] plain\n", k);
	const int none[2] = {0}, some[2] = {any(r, 0, 1), any(r, 0, 2)};
	int up = kind == TRANSPOSED ? 2 : 1;
	if (sum)
		put_image(b, r, "operand Z in", k, up * y[0], y[1], some, some);
	put_image(b, r, "operand Y out", k, up * y[0], y[1], none, none);
	if (kind == GROUPED)
		buf_printf(b, "stage n:2 g:%d k:%d y:%d x:%d | c:%d r:%d s:%d\n", g, k / g, y[0], y[1], c,
			   taps[0], taps[1]);
	else if (kind == TRANSPOSED)
		buf_printf(b, "stage n:2 k:%d p:2 y:%d x:%d | c:%d r:%d s:%d\n", k, y[0], y[1], c, taps[0],
			   taps[1]);
	else if (kind == DENSE || kind == PHASES)
		buf_printf(b, "stage n:2 k:%d y:%d x:%d | c:%d r:%d s:%d\n", k, y[0], y[1], c, taps[0],
			   taps[1]);
	else
		buf_printf(b, "stage n:2 k:%d y:%d x:%d | r:%d s:%d\n", k, y[0], y[1], taps[0], taps[1]);
	const char *channel = kind == GROUPED                                         ? "c"
			      : kind == DENSE || kind == TRANSPOSED || kind == PHASES ? "c"
										      : "k";
	char of[32] = "k";
	buf_puts(b, "read X [n,");
	if (kind == GROUPED) {
		put_term(b, c, "g+c");
		snprintf(of, sizeof of, k / g > 1 ? "%d*g+k" : "g+k", k / g);
	} else {
		buf_puts(b, channel);
	}
	buf_puts(b, ",");
	if (kind == TRANSPOSED)
		buf_printf(b, "(p+2*y-2*r+%d)/2", 2 * pad[0] + 1);
	else if (kind == PHASES)
		buf_printf(b, "(y-%d*r+%d)/%d", g, g * pad[0], g);
	else
		put_index(b, stride[0], "y", dilation[0], "r", pad[0]);
	buf_puts(b, ",");
	put_index(b, stride[1], "x", dilation[1], "s", pad[1]);
	buf_puts(b, "]\n");
	if (kind != POOL)
		buf_printf(b, "read W [%s%s,%s,r,s]\n", phase, of, kind == DEPTHWISE ? "0" : "c");
	if (bias)
		buf_printf(b, "read B [%s]\n", of);
	const char *line = kind == TRANSPOSED ? "p+2*y" : "y";
	if (sum)
		buf_printf(b, "read Z [n,%s,%s,x]\n", of, line);
	int next = kind == POOL ? 1 : 2;
	buf_puts(b, kind == POOL ? "body r0\n" : "body r0 r1 mul\n");
	buf_printf(b, "%s\n", kind == POOL ? combs[any(r, 0, 2)] : "sum");
	if (bias || sum) {
		buf_puts(b, "post acc");
		for (int i = 0; i < bias + sum; i++)
			buf_printf(b, " r%d add", next + i);
		buf_puts(b, any(r, 0, 1) ? " 0.100000001 mul tanh\n" : "\n");
	}
	buf_printf(b, "write Y [n,%s,%s,x]\n", of, line);
}

TEST(random_windows)
{
	struct rng r;
	rng_seed(&r, 31);
	for (int i = 0; i < 1200; i += test_share()) {
		struct buf b = {0};
		put_window(&r, &b);
		int rc = task_parse(buf_str(&b), &task);
		bool good = rc >= 0 && agree(&r);
		if (!good)
			printf("window %d:\n%s", i, buf_str(&b));
		REQUIRE_OK(rc);
		REQUIRE(good);
		buf_free(&b);
	}
}

/* Convolutions of plain images with short lines and few channels for each group: lines that have weights in
 * common are worked on together, those of other groups are not. */
TEST(short_lines)
{
	struct rng r;
	rng_seed(&r, 33);
	for (int i = 0; i < 400; i += test_share()) {
		struct buf b = {0};
		int g = any(&r, 1, 3), k = any(&r, 1, 6), c = any(&r, 1, 9), y = any(&r, 1, 9),
		    x = any(&r, 1, 17);
		int taps = any(&r, 1, 3);
		buf_printf(&b, "task syms=0\noperand X in f32 [1,%d,%d,%d] plain\n", g * c, y + taps - 1,
			   x + taps - 1);
		buf_printf(&b, "operand W const f32 [%d,%d,%d,%d] plain\n", g * k, c, taps, taps);
		buf_printf(&b, "operand Y out f32 [1,%d,%d,%d] plain\n", g * k, y, x);
		buf_printf(&b, "stage g:%d k:%d y:%d x:%d | c:%d r:%d s:%d\n", g, k, y, x, c, taps, taps);
		char of_c[16], of_k[16];
		snprintf(of_c, sizeof of_c, c > 1 ? "%d*g" : "g", c);
		snprintf(of_k, sizeof of_k, k > 1 ? "%d*g" : "g", k);
		buf_printf(&b, "read X [0,%s+c,y+r,x+s]\nread W [%s+k,c,r,s]\nbody r0 r1 mul\nsum\n", of_c,
			   of_k);
		buf_printf(&b, "%swrite Y [0,%s+k,y,x]\n", any(&r, 0, 1) ? "post acc tanh\n" : "", of_k);
		REQUIRE_OK(task_parse(buf_str(&b), &task));
		CHECK(agree(&r));
		buf_free(&b);
	}
}

/* Windows whose neighbours lie two, three or four elements apart, in rows of several vectors. */
TEST(long_strided_rows)
{
	struct rng r;
	rng_seed(&r, 34);
	for (int i = 0; i < 60; i += test_share()) {
		struct buf b = {0};
		int k = any(&r, 1, 9), c = any(&r, 1, 5), taps = any(&r, 1, 4), x = any(&r, 16, 70),
		    step = any(&r, 2, 4);
		buf_printf(&b, "task syms=0\noperand X in f32 [%d,3,%d] plain\n", c, step * (x - 1) + taps);
		buf_printf(&b, "operand W const f32 [%d,%d,%d] plain\noperand Y out f32 [%d,3,%d] plain\n", k, c,
			   taps, k, x);
		buf_printf(&b, "stage k:%d y:3 x:%d | c:%d s:%d\nread X [c,y,%d*x+s]\nread W [k,c,s]\n", k, x, c,
			   taps, step);
		buf_printf(&b, "body r0 r1 mul\nsum\nwrite Y [k,y,x]\n");
		int rc = task_parse(buf_str(&b), &task);
		if (rc < 0)
			printf("%s%s\n", buf_str(&b), err_text());
		REQUIRE_OK(rc);
		CHECK(agree(&r));
		buf_free(&b);
	}
}

TEST(products_and_chains)
{
	struct rng r;
	rng_seed(&r, 22);
	REQUIRE_OK(task_parse(task_conv, &task));
	CHECK(agree(&r));
	REQUIRE_OK(task_parse(task_softmax, &task));
	CHECK(agree(&r));
}

/* Reductions whose points lie in sequence in memory: longer than a block, of two axes, with a shared mean. */
TEST(norms)
{
	static const char *const form[] = {
	    ("task syms=0\noperand X in f32 [3,5,700] plain\noperand U tmp f32 [3,5,1] plain\n"
	     "operand Y out f32 [3,5,1] plain\nstage a:3 b:5 | x:700\nread X [a,b,x]\nbody r0\nsum\n"
	     "post acc 0.00142857141 mul\nwrite U [a,b,0]\nstage a:3 b:5 | x:700\nread X [a,b,x]\n"
	     "read U [a,b,0]\nbody r0 r1 sub square\nsum\npost acc sqrt\nwrite Y [a,b,0]\n"),
	    ("task syms=0\noperand X in f32 [2,37,9,17] plain\noperand B const f32 [17] plain\n"
	     "operand Y out f32 [2,37] plain\nstage n:2 k:37 | y:9 x:17\nread X [n,k,y,x]\nread B [x]\n"
	     "body r0 r1 max\nmin\npost acc 2 mul\nwrite Y [n,k]\n"),
	    ("task syms=0\noperand X in f32 [2,37,9,17] 0.1/16.2.3.1\noperand Y out f32 [2,37] plain\n"
	     "stage n:2 k:37 | y:9 x:17\nread X [n,k,y,x]\nbody r0\nmax\nwrite Y [n,k]\n")};
	struct rng r;
	rng_seed(&r, 27);
	for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
		REQUIRE_OK(task_parse(form[i], &task));
		for (int k = 0; k < 4; k++)
			CHECK(agree(&r));
	}
}

/* Maps whose operands are loops in memory: in parts of blocks, between layouts, with halos and broadcasts. */
TEST(maps)
{
	static const char *const form[] = {
	    /* channels in whole blocks, one constant a channel */
	    "task syms=0\noperand X in f32 [2,40,7,9] 0.1/16.2.3.1\noperand B const f32 [40] plain\n"
	    "operand Y out f32 [2,40,7,9] 0.1/16.2.3.1;2+1+1;3+2+1\nstage n:2 k:40 y:7 x:9\n"
	    "read X [n,k,y,x]\nread B [k]\nbody r0 r1 add sigmoid r0 mul\nwrite Y [n,k,y,x]\n",
	    /* logarithms of padding lanes could be anything */
	    "task syms=0\noperand X in f32 [2,40,7,9] 0.1/16.2.3.1;2+1+1;3+2+1\n"
	    "operand Y out f32 [2,40,7,9] 0.1/16.2.3.1\nstage n:2 k:40 y:7 x:9\n"
	    "read X [n,k,y,x]\nbody r0 log exp erf\nwrite Y [n,k,y,x]\n",
	    /* between layouts */
	    "task syms=0\noperand X in f32 [1,24,5,130] 0.1/16.2.3.1;2+1+1;3+2+1\n"
	    "operand Y out f32 [1,24,5,130] plain\nstage n:1 k:24 y:5 x:130\nread X [n,k,y,x]\n"
	    "body r0\nwrite Y [n,k,y,x]\n",
	    "task syms=0\noperand X in f32 [1,24,5,130] plain\noperand Y out f32 [1,24,5,130] 0.1/16.2.3.1\n"
	    "stage n:1 k:24 y:5 x:130\nread X [n,k,y,x]\nbody r0\nwrite Y [n,k,y,x]\n",
	    /* each pixel three times, odd sizes; a transpose; rows longer than a block */
	    "task syms=0\noperand X in f32 [1,16,4,3] 0.1/16.2.3.1\noperand Y out f32 [1,16,11,9] "
	    "0.1/16.2.3.1;2+1+1;3+1+1\nstage n:1 k:16 y:11 x:9\nread X [n,k,(y)/3,(x)/3]\nbody r0 2 mul\n"
	    "write Y [n,k,y,x]\n",
	    "task syms=0\noperand X in f32 [70,90] plain;1+0+3\noperand Y out f32 [90,70] plain\nstage i:90 "
	    "j:70\nread X [j,i]\nbody r0 neg\nwrite Y [i,j]\n",
	    "task syms=0\noperand X in f32 [3,1700] plain\noperand Z in f32 [1700] plain\noperand Y out f32 "
	    "[3,1700] plain\nstage i:3 j:1700\nread X [i,j]\nread Z [j]\nbody r0 r1 min tanh\npost acc r1 "
	    "acc mul add\nwrite Y [i,j]\n",
	    /* short rows, two and three elements apart, with a constant for all rows of a channel */
	    "task syms=0\noperand X in f32 [1,37,9,14] plain\noperand B const f32 [37] plain\noperand Y out f32 "
	    "[1,37,9,7] plain\nstage k:37 y:9 x:7\nread X [0,k,y,2*x]\nread B [k]\nbody r0 r1 mul\npost acc r1 "
	    "add tanh\nwrite Y [0,k,y,x]\n",
	    "task syms=0\noperand X in f32 [1,37,11,32] plain\noperand B const f32 [37] plain\noperand Y out "
	    "f32 [1,37,11,11] plain\nstage k:37 y:11 x:11\nread X [0,k,y,3*x]\nread B [k]\nbody r0 r1 add\n"
	    "write Y [0,k,y,x]\n",
	};
	struct rng r;
	rng_seed(&r, 25);
	for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
		int rc = task_parse(form[i], &task);
		if (rc < 0)
			printf("%s%s\n", form[i], err_text());
		REQUIRE_OK(rc);
		for (int k = 0; k < 8; k++) {
			bool good = agree(&r);
			if (!good)
				printf("%s", form[i]);
			CHECK(good);
		}
	}
}

/* Checks the bounds of kernels/loops/vmath.h for the reference and the portable path. */
static void check_far(const char *op, const float *want)
{
	char text[256];
	float x[8] = {-INFINITY, -1000, -30, 0, 30, 1000, INFINITY, NAN}, y[8], z[8];
	struct operand packed[MAX_OPERANDS];
	struct host_task *h;
	struct arena a = {0};
	snprintf(text, sizeof text,
		 "task syms=0\noperand X in f32 [8] plain\noperand Y out f32 [8] plain\n"
		 "stage n:8\nread X [n]\nbody r0 %s\nwrite Y [n]\n",
		 op);
	REQUIRE_OK(task_parse(text, &task));
	REQUIRE_OK(task_reference(&task, (void *[]){x, y}, &a));
	REQUIRE_OK(host_make(&task, HOST_RUNS, tile_lanes(), NULL, &a, packed, &h));
	host_run(h, 0, (void *[]){x, z}, 0, host_extent(h, 0), arena_aligned(&a, host_scratch_bytes(), 64));
	for (int i = 0; i < 7; i++)
		for (int path = 0; path < 2; path++) {
			float got = path ? z[i] : y[i];
			if (!(got == want[i] || fabsf(got - want[i]) < 1e-11f))
				printf("%s of %g, path %d: %g\n", op, (double)x[i], path, (double)got);
			CHECK(got == want[i] || fabsf(got - want[i]) < 1e-11f);
		}
	CHECK(isnan(y[7]) && isnan(z[7]));
	arena_free(&a);
}

TEST(silu_and_gelu_far_out)
{
	check_far("silu", (const float[]){-INFINITY, 0, 0, 0, 30, 1000, INFINITY});
	check_far("gelu", (const float[]){0, 0, 0, 0, 30, 1000, INFINITY});
}

TEST(windows_between_layouts)
{
	static float x[2 * 9 * 11 * 16], plain[24 * 63], part[8 * 63];
	struct operand big = {.dtype = DT_F32, .dims = {4, {1, 24, 7, 9}}},
		       small = {.dtype = DT_F32, .dims = {4, {1, 8, 7, 9}}};
	layout_blocked(&big.layout, 4, 1, 16);
	big.layout.lo[2] = big.layout.hi[2] = big.layout.lo[3] = big.layout.hi[3] = 1;
	struct window w;
	struct rng r;
	rng_seed(&r, 23);
	for (int i = 0; i < 3; i++) {
		rng_fill(&r, part, 8 * 63);
		memcpy(plain + 8 * 63 * i, part, sizeof part);
		window_make(&small, &big, (int64_t[MAX_RANK]){0, 8 * i}, &w);
		window_in(&w, part, x, 0, window_extent(&w));
	}
	for (int64_t c = 0; c < 24; c++)
		for (int64_t p = 0; p < 63; p++)
			CHECK(x[operand_offset(&big, (int64_t[]){0, c, p / 9, p % 9})] == plain[c * 63 + p]);
	window_make(&small, &big, (int64_t[MAX_RANK]){0, 8}, &w);
	window_out(&w, x, part, 0, window_extent(&w));
	CHECK(!memcmp(part, plain + 8 * 63, sizeof part));
}

TEST(lifetimes_never_share)
{
	struct rng r;
	int close = 0;
	rng_seed(&r, 24);
	for (int round = 0; round < 200; round++) {
		struct lifetime l[40];
		int64_t sum = 0, peak = 0;
		int n = 1 + (int)rng_below(&r, 40);
		for (int i = 0; i < n; i++) {
			l[i] =
			    (struct lifetime){.bytes = rng_below(&r, 5000), .from = (int)rng_below(&r, 20)};
			l[i].to = l[i].from + (int)rng_below(&r, 6);
			sum += (l[i].bytes + 63) / 64 * 64;
		}
		int64_t total = lifetimes_place(l, n);
		REQUIRE(total >= 0 && total <= sum);
		for (int i = 0; i < n; i++)
			for (int j = 0; j < i; j++)
				if (l[i].from <= l[j].to && l[j].from <= l[i].to && l[i].bytes && l[j].bytes)
					CHECK(l[i].at >= l[j].at + l[j].bytes ||
					      l[j].at >= l[i].at + l[i].bytes);
		for (int s = 0; s < 26; s++) {
			int64_t live = 0;
			for (int i = 0; i < n; i++)
				live += l[i].from <= s && s <= l[i].to ? l[i].bytes : 0;
			peak = live > peak ? live : peak;
		}
		int64_t least = lifetimes_least(l, n);
		CHECK(total >= peak && total >= least && least >= peak && total <= least + least / 4);
		close += total <= least + least / 20;
	}
	CHECK(close >= 180);
}

/* With 8 lanes host_fit chooses fallback kernels for pixels and matrices, and tiles for windows. */
TEST(tiles_or_kernels)
{
	static const struct {
		const char *text;
		enum host_fit with_8;
	} product[] = {
	    {"operand X in f32 [1,256,14,14] 0.1/8.2.3.1\noperand W const f32 [256,256,1,1] plain\noperand "
	     "Y out f32 [1,256,14,14] 0.1/8.2.3.1\nstage n:1 k:256 y:14 x:14 | c:256\nread X [n,c,y,x]\n"
	     "read W [k,c,0,0]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
	     FITS_AS_WELL},
	    {"operand X in f32 [1,256,16,16] 0.1/8.2.3.1\noperand W const f32 [256,256,3,3] plain\noperand "
	     "Y out f32 [1,256,14,14] 0.1/8.2.3.1\nstage n:1 k:256 y:14 x:14 | c:256 r:3 s:3\nread X "
	     "[n,c,y+r,x+s]\nread W [k,c,r,s]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
	     FITS_BETTER},
	    {"operand X in f32 [1,256,14,14] 0.1/8.2.3.1\noperand W const f32 [4,256,1,1] plain\noperand Y "
	     "out f32 [1,4,14,14] plain\nstage n:1 k:4 y:14 x:14 | c:256\nread X [n,c,y,x]\nread W "
	     "[k,c,0,0]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
	     FITS_BETTER}};
	for (size_t i = 0; i < sizeof product / sizeof *product; i++) {
		static struct task t;
		char text[700];
		snprintf(text, sizeof text, "task syms=0\n%s", product[i].text);
		REQUIRE_OK(task_parse(text, &t));
		if (tile_lanes() == 8)
			CHECK(host_fit(&t) == product[i].with_8);
		else
			CHECK(host_fit(&t) != FITS_NOT);
	}
}

/* Runs the random windows and the choice again with the narrower vectors of older processors. */
TEST(every_width_of_vectors)
{
	static const char *const isa[] = {"x86-64-v2", "x86-64-v3"}, *const test[] = {"random_windows",
										      "tiles_or_kernels"};
	struct target own, older;
	REQUIRE_OK(target_host(&own));
	for (size_t i = 0; i < 4; i++) {
		char cmd[128];
		const char *name = isa[i % 2];
		if (getenv("HONE_ISA") || strncmp(own.isa, "x86", 3) || target_baseline(name, &older) < 0 ||
		    older.lanes >= own.lanes)
			continue;
		snprintf(cmd, sizeof cmd, "HONE_ISA=%s /proc/%d/exe %s >/dev/null", name, (int)getpid(),
			 test[i / 2]);
		CHECK(system(cmd) == 0);
	}
}

TEST_MAIN
