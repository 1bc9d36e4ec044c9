/* SPDX-License-Identifier: Apache-2.0 */
/* The portable path against the reference, on random tasks and written ones; placement of lifetimes. */
#include "tests/lib/test.h"
#include "tests/lib/tasks.h"
#include "agent/run/host.h"
#include "agent/run/lifetimes.h"
#include "agent/run/window.h"

#include <math.h>

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

/* Runs a task both ways. The rows are split at a random place, as threads do. */
static bool agree(struct rng *r)
{
	struct arena a = {0};
	struct operand packed[MAX_OPERANDS];
	void *bufs[MAX_OPERANDS] = {0}, *ref[MAX_OPERANDS] = {0};
	struct host_task *h;
	int out = task.stage[task.nstages - 1].out.operand;
	if (host_make(&task, &a, packed, &h) < 0)
		return false;
	for (int i = 0; i < task.noperands; i++) {
		int64_t n = operand_elems(&packed[i]);
		bufs[i] = arena_alloc(&a, sizeof(float) * (size_t)n);
		ref[i] = arena_alloc(&a, sizeof(float) * (size_t)n);
		struct rng same = *r;
		if (task.operand[i].dtype == DT_I32) {
			for (int64_t k = 0; k < n; k++)
				((int32_t *)bufs[i])[k] = ((int32_t *)ref[i])[k] = (int32_t)(k / 2);
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
	for (int i = 0; i < 1500; i++) {
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

TEST(products_and_chains)
{
	struct rng r;
	rng_seed(&r, 22);
	REQUIRE_OK(task_parse(task_conv, &task));
	CHECK(agree(&r));
	REQUIRE_OK(task_parse(task_softmax, &task));
	CHECK(agree(&r));
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
	REQUIRE_OK(host_make(&task, &a, packed, &h));
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

TEST_MAIN
