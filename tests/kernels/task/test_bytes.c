/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks over bytes: their text and checks, and the reference against loops over integers written by hand. */
#include "kernels/task/pack.h"
#include "tests/lib/byte_cases.h"
#include "kernels/task/task_stage.h"

#include <float.h>

/* The convolution of ONNX Runtime's QLinearConv, fused: integer sums and bias, one product with a float, to
 * nearest even, the zero point, the clamp. */
struct qconv {
	int c, k, h, w, f, pad, in_zero, out_zero;
	bool is_signed;
};

static int64_t image_value(const struct qconv *q, const void *x, int c, int y, int i)
{
	int at = (c * q->h + y) * q->w + i;
	if (y < 0 || y >= q->h || i < 0 || i >= q->w)
		return q->in_zero;
	return q->is_signed ? ((const int8_t *)x)[at] : ((const uint8_t *)x)[at];
}

static int qconv_point(const struct qconv *q, const struct kcase *c, int k, int y, int x)
{
	const int8_t *w = c->plain[1];
	int64_t sum = ((const int32_t *)c->plain[2])[k];
	for (int i = 0; i < q->c; i++)
		for (int r = 0; r < q->f; r++)
			for (int s = 0; s < q->f; s++)
				sum += image_value(q, c->plain[0], i, y + r - q->pad, x + s - q->pad) *
				       w[((k * q->c + i) * q->f + r) * q->f + s];
	volatile float v = (float)sum * ((const float *)c->plain[3])[k];
	double whole = rint((double)v) + q->out_zero;
	double least = q->is_signed ? -128 : 0;
	return (int)(whole < least ? least : whole > least + 255 ? least + 255 : whole);
}

static void qconv_text(const struct qconv *q, struct buf *b)
{
	const char *t = q->is_signed ? "i8" : "u8";
	int oh = q->h + 2 * q->pad - q->f + 1, ow = q->w + 2 * q->pad - q->f + 1;
	buf_printf(b, "task syms=0\noperand X in %s [%d,%d,%d] 0/16.1.2.0", t, q->c, q->h, q->w);
	if (q->in_zero)
		buf_printf(b, " fill=%d", q->in_zero);
	buf_printf(b, "\noperand W const i8 [%d,%d,%d,%d] plain\n", q->k, q->c, q->f, q->f);
	buf_printf(b, "operand B const i32 [%d] plain\noperand S const f32 [%d] plain\n", q->k, q->k);
	buf_printf(b, "operand Y out %s [%d,%d,%d] plain\n", t, q->k, oh, ow);
	buf_printf(b, "stage k:%d y:%d x:%d | c:%d r:%d s:%d\n", q->k, oh, ow, q->c, q->f, q->f);
	buf_puts(b, "read X [c,");
	window(b, "y", "r", 1, 1, q->pad);
	buf_puts(b, ",");
	window(b, "x", "s", 1, 1, q->pad);
	buf_printf(b, "]\nread W [k,c,r,s]\nread B [k]\nread S [k]\nbody r0 r1 mul\nsum\n");
	buf_printf(b, "post acc r2 add r3 mul rint %d add\nwrite Y [k,y,x]\n", q->out_zero);
}

/* Gives scales that spread the results over all bytes and beyond. */
static void spread(struct kcase *c, const struct qconv *q)
{
	for (int k = 0; k < q->k; k++)
		((float *)c->ref[3])[k] *= 500.f / (30000.f + 8000.f * sqrtf((float)(q->c * q->f * q->f)));
	memcpy(c->plain[3], c->ref[3], (size_t)q->k * 4);
	memcpy(c->phys[3], c->ref[3], (size_t)q->k * 4);
}

TEST(reference_is_the_formula)
{
	int clamped = 0, inside = 0;
	for (int i = 0; i < 60; i++) {
		struct rng r;
		struct kcase c;
		struct buf text = {0};
		rng_seed(&r, (uint64_t)i);
		struct qconv q = {.c = pick(&r, 1, 40),
				  .k = pick(&r, 1, 9),
				  .h = pick(&r, 3, 7),
				  .w = pick(&r, 3, 9),
				  .f = pick(&r, 0, 1) ? 3 : 1,
				  .is_signed = i % 2};
		q.pad = q.f == 3 && pick(&r, 0, 1);
		q.in_zero = q.is_signed ? pick(&r, -128, 127) : pick(&r, 0, 255);
		q.out_zero = q.is_signed ? pick(&r, -128, 127) : pick(&r, 0, 255);
		qconv_text(&q, &text);
		REQUIRE_OK(case_parse(&c, buf_str(&text), &r));
		spread(&c, &q);
		REQUIRE_OK(task_reference(&c.t, c.ref, &c.a));
		int oh = q.h + 2 * q.pad - q.f + 1, ow = q.w + 2 * q.pad - q.f + 1;
		for (int at = 0; at < q.k * oh * ow; at++) {
			int want = qconv_point(&q, &c, at / (oh * ow), at / ow % oh, at % ow);
			int got = q.is_signed ? ((int8_t *)c.ref[4])[at] : ((uint8_t *)c.ref[4])[at];
			if (got != want)
				printf("case %d at %d: %d instead of %d\n%s", i, at, got, want,
				       buf_str(&text));
			REQUIRE(got == want);
			bool edge = want == (q.is_signed ? -128 : 0) || want == (q.is_signed ? 127 : 255);
			*(edge ? &clamped : &inside) += 1;
		}
		buf_free(&text);
		arena_free(&c.a);
	}
	CHECK(clamped > 500 && inside > 500);
}

static void parses(const char *text)
{
	struct task t;
	struct buf b = {0};
	REQUIRE_OK(task_parse(text, &t));
	task_text(&t, &b);
	CHECK(!strcmp(buf_str(&b), text));
	buf_free(&b);
}

#define CONV(x, w, y, post)                                                                                  \
	"task syms=0\noperand X in " x "\noperand W const " w " [8,8] plain\noperand B const i32 [8] "       \
	"plain\noperand Y out " y                                                                            \
	" [8] plain\nstage k:8 | c:8\nread X [c]\nread W [k,c]\nread B [k]\nbody r0 "                        \
	"r1 mul\nsum\n" post "write Y [k]\n"

TEST(text_round_trip)
{
	parses(CONV("u8 [8] plain", "i8", "u8", "post acc r2 add 0.5 mul rint\n"));
	parses(CONV("i8 [8] plain fill=-128", "i8", "i8", ""));
	parses(CONV("u8 [8] 0/4.0 fill=255", "u8", "f32", "post acc r2 add exp\n"));
	parses(CONV("u8 [8] plain", "i8", "i32", "post acc r2 add r2 mul\n"));
	parses(CONV("i32 [8] plain fill=-7", "i8", "f32", ""));
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct rng r;
		struct buf text = {0};
		rng_seed(&r, seed);
		byte_text(&text, &r);
		parses(buf_str(&text));
		buf_free(&text);
	}
}

TEST(refused)
{
	static const struct {
		const char *text, *why;
	} k[] = {
	    {CONV("u8 [8] plain fill=256", "i8", "u8", ""), "no u8 has the value"},
	    {CONV("u8 [8] plain fill=-1", "i8", "u8", ""), "no u8 has the value"},
	    {CONV("i8 [8] plain fill=128", "i8", "u8", ""), "no i8 has the value"},
	    {CONV("u8 [8] plain fill=0.5", "i8", "u8", ""), "no u8 has the value"},
	    {CONV("f32 [8] plain", "i8", "u8", ""), "sum of numbers that are not whole"},
	    {CONV("u8 [8] plain", "f32", "i8", ""), "sum of numbers that are not whole"},
	    {CONV("u8 [8] plain", "i8", "u8", "post acc exp\n"), "bytes from exp"},
	    {CONV("u8 [8] plain", "i8", "u8", "post acc 2 pow\n"), "bytes from pow"},
	    {CONV("u16 [8] plain", "i8", "u8", ""), "a type"},
	    {CONV("u8 [8] plain", "i8", "i32", "post acc 2 add\n"), "i32 from a value that is not whole"},
	    {CONV("u8 [8] plain", "i8", "i32", "post acc r2 sub\n"), "i32 from a value that is not whole"},
	    {CONV("f32 [8] plain", "i8", "i32", ""), "i32 from a value that is not whole"},
	    {CONV("u8 [8] plain fill=2.14748365e+09", "i8", "u8", ""), "no u8 has the value"},
	    {CONV("i32 [8] plain fill=2.14748365e+09", "i8", "f32", ""), "no i32 has the value"},
	    {CONV("i32 [8] plain fill=0.5", "i8", "f32", ""), "no i32 has the value"},
	    {"task syms=0\noperand X in i32 [8] plain\noperand T tmp i32 [8] plain\noperand Y out i32 [8] "
	     "plain\nstage y:8\nread X [y]\nbody r0\nwrite T [y]\nstage y:8\nread T [y]\nbody r0\nwrite Y "
	     "[y]\n",
	     "must not be i32"},
	    {"task syms=0\noperand X in f32 [8] plain\noperand T in i32 [8,1] plain\noperand Y out f32 [8] "
	     "plain\nstage y:8\nread X [@T(y)]\nbody r0\nwrite Y [y]\n",
	     "no plain vector"},
	    {"task syms=0\noperand X in f32 [8,8] plain\noperand T tmp f32 [8] plain\noperand Y out u8 [8] "
	     "plain\nstage y:8 | x:8\nread X [y,x]\nbody r0\nsum\nwrite T [y]\nstage y:8\nread T [y]\nbody "
	     "r0\n"
	     "write Y [y]\n",
	     "rounded in any order"},
	    {"task syms=0\noperand X in u8 [8,8] plain\noperand Y out u8 [8] plain\nstage y:8 | x:8\nread X "
	     "[y,x]\nbody r0 square\nsum\nwrite Y [y]\n",
	     "not whole"},
	    {"task syms=0\noperand X in u8 [8,8] plain\noperand Y out u8 [8] plain\nstage y:8 | x:8\nread X "
	     "[y,x]\nbody r0\nprod\nwrite Y [y]\n",
	     "not whole"},
	};
	struct task t;
	for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
		int rc = task_parse(k[i].text, &t);
		if (rc != E_CORRUPT || !strstr(err_text(), k[i].why))
			printf("%zu: %s\n", i, rc < 0 ? err_text() : "accepted");
		CHECK(rc == E_CORRUPT && strstr(err_text(), k[i].why));
	}
}

/* Stores one value through a map from f32 to bytes. */
static int stored(const char *type, const char *body, float x)
{
	struct task t;
	char text[512];
	uint8_t y = 77;
	struct arena a = {0};
	snprintf(text, sizeof text,
		 "task syms=0\noperand X in f32 [1] plain\noperand Y out %s [1] plain\nstage i:1\nread X "
		 "[i]\nbody %s\nwrite Y [i]\n",
		 type, body);
	void *bufs[] = {&x, &y};
	if (task_parse(text, &t) < 0 || task_reference(&t, bufs, &a) < 0)
		return -1000;
	arena_free(&a);
	return type[0] == 'u' ? y : (int8_t)y;
}

TEST(stores)
{
	CHECK(stored("u8", "r0", 2.5f) == 2 && stored("u8", "r0", 3.5f) == 4 &&
	      stored("u8", "r0", -.5f) == 0);
	CHECK(stored("i8", "r0", -127.5f) == -128 && stored("i8", "r0", 126.5f) == 126);
	CHECK(stored("u8", "r0", 1e30f) == 255 && stored("u8", "r0", -INFINITY) == 0);
	CHECK(stored("i8", "r0", INFINITY) == 127 && stored("i8", "r0", -1e9f) == -128);
	CHECK(stored("u8", "r0", NAN) == 0 && stored("i8", "r0", NAN) == -128);
	CHECK(stored("i8", "r0 5 max", NAN) == 5 && stored("i8", "5 r0 max", NAN) == -128);
	/* rounded after each operator: 1.00000012 * 2^24 - 2^24 is 2, and 16777219 / 2 rounds first */
	CHECK(stored("u8", "r0 1.00000012 mul 16777216 sub", 16777216.f) == 2);
	CHECK(stored("u8", "r0 r0 mul 1 sub 8388608 mul rint", 1.00000012f) == 2);
	/* subnormal operands and results are zero */
	CHECK(stored("u8", "r0 1.2676506e+30 mul 1.2676506e+30 mul", 1e-39f) == 0);
	CHECK(stored("u8", "r0 0.5 mul 1.2676506e+30 mul 1.2676506e+30 mul", FLT_MIN) == 0);
	CHECK(stored("u8", "r0 1.2676506e+30 mul 1.2676506e+30 mul", FLT_MIN) == 255);
}

TEST(whole_sums_are_exact)
{
	/* 2^24 + 1 is no float: the bias makes it 2^24 + 2 before the conversion */
	static const char text[] = "task syms=0\noperand X in u8 [300] plain\noperand W const i8 [300] "
				   "plain\noperand B const i32 [1] "
				   "plain\noperand Y out u8 [1] plain\nstage k:1 | c:300\nread X [c]\nread W "
				   "[c]\nread B [k]\nbody r0 r1 "
				   "mul\nsum\npost acc r2 add 16777216 sub\nwrite Y [k]\n";
	struct task t;
	struct arena a = {0};
	uint8_t x[300] = {1}, y = 0;
	int8_t w[300] = {1};
	int32_t b = 16777217;
	void *bufs[] = {x, w, &b, &y};
	REQUIRE_OK(task_parse(text, &t));
	REQUIRE_OK(task_reference(&t, bufs, &a));
	CHECK(y == 2);
	memset(x, 255, sizeof x);
	memset(w, -128, sizeof w);
	b = 16777216 + 300 * 255 * 128 + 9;
	REQUIRE_OK(task_reference(&t, bufs, &a));
	CHECK(y == 8 || y == 10); /* 16777225 is no float either */
	CHECK(y == (uint8_t)((float)16777225 - 16777216.f));
	arena_free(&a);
}

TEST(pack_and_unpack)
{
	struct task t;
	uint8_t plain[2 * 5 * 3], back[sizeof plain], phys[2 * 2 * 5 * 5 * 4];
	REQUIRE_OK(
	    task_parse("task syms=0\noperand X in i8 [2,5,3] 0.1/4.2.1;2+1+1 fill=-7\noperand Y out u8 [2] "
		       "plain\nstage n:2\nread X [n,0,0]\nbody r0\nwrite Y [n]\n",
		       &t));
	const struct operand *o = &t.operand[0];
	REQUIRE(operand_elems(o) == 2 * 2 * 5 * 4);
	for (size_t i = 0; i < sizeof plain; i++)
		plain[i] = (uint8_t)(i * 7);
	memset(phys, 99, sizeof phys);
	operand_pack(o, plain, phys);
	operand_unpack(o, phys, back);
	CHECK(!memcmp(plain, back, sizeof plain));
	for (int64_t n = 0; n < 2; n++)
		for (int64_t c = 0; c < 5; c++)
			for (int64_t x = -1; x < 4; x++) {
				const int64_t at[] = {n, c, x};
				int want = x < 0 || x > 2 ? (uint8_t)-7 : plain[(n * 5 + c) * 3 + x];
				CHECK(phys[operand_offset(o, at)] == want);
			}
	CHECK(phys[2 * 2 * 5 * 4] == 99);
	CHECK(task_bytes(&t, true) == 2 * 5 * 3 + 2);
}

TEST(packing_of_bytes)
{
	/* pads, mirrors and interleaves, as pack_run does with floats */
	struct packing p;
	float f[30], g[96];
	uint8_t b[30], d[96];
	REQUIRE_OK(pack_parse("2,4,3,4 < 5,6 fill=0 | 0 0,0,2,1 | 5 -4,-1,0,0", &p));
	REQUIRE(pack_elems(&p) == 96);
	for (int i = 0; i < 30; i++)
		f[i] = b[i] = (uint8_t)(3 + i * 5);
	pack_run_type(&p, DT_F32, f, g);
	pack_run_type(&p, DT_I8, b, d);
	for (int i = 0; i < 96; i++)
		CHECK(g[i] == (float)d[i]);
}

static int group_of(const char *text, int operand)
{
	struct task t;
	struct arena a = {0};
	if (task_parse(text, &t) < 0)
		return -1;
	int group = task_groups(&a, &t)->operand[operand].group;
	arena_free(&a);
	return group;
}

TEST(groups)
{
#define GROUPS(x, c, w, dims, index)                                                                         \
	"task syms=0\noperand X in " x "\noperand W const " w " " dims                                       \
	" plain\noperand Y out u8 [4,3] plain\nstage y:4 k:3 | c:" c "\nread X " index                       \
	"\nread W [k,c]\nbody r0 r1 mul\nsum\nwrite Y [y,k]\n"
	CHECK(group_of(GROUPS("u8 [4,8] plain", "8", "i8", "[3,8]", "[y,c]"), 0) == 4);
	CHECK(group_of(GROUPS("i8 [4,8] plain", "8", "i8", "[3,8]", "[y,c]"), 1) == 4);
	CHECK(group_of(GROUPS("i8 [4,8] plain", "8", "u8", "[3,8]", "[y,c]"), 1) == 4);
	CHECK(group_of(GROUPS("u8 [4,7] 1/4.0.1", "7", "i8", "[3,7]", "[y,c]"), 0) == 4);
	CHECK(group_of(GROUPS("u8 [4,8] plain", "4", "i8", "[3,4]", "[y,c+4]"), 0) == 4);
	CHECK(group_of(GROUPS("u8 [4,8] plain", "8", "u8", "[3,8]", "[y,c]"), 0) == 0);    /* both unsigned */
	CHECK(group_of(GROUPS("u8 [4,7] plain", "7", "i8", "[3,7]", "[y,c]"), 0) == 0);    /* rows of 7 */
	CHECK(group_of(GROUPS("u8 [8,4] plain", "8", "i8", "[3,8]", "[c,y]"), 0) == 0);    /* not innermost */
	CHECK(group_of(GROUPS("u8 [4,8] plain", "4", "i8", "[3,4]", "[y,c+2]"), 0) == 0);  /* not aligned */
	CHECK(group_of(GROUPS("u8 [4,16] plain", "8", "i8", "[3,8]", "[y,2*c]"), 0) == 0); /* every second */
	CHECK(group_of(GROUPS("u8 [4,8] plain", "8", "i8", "[3,8]", "[y,c-4]"), 0) == 0);  /* guarded */
	CHECK(group_of(GROUPS("u8 [4,8] plain", "6", "i8", "[3,6]", "[y,c]"), 0) == 4); /* 2 others times 0 */
	CHECK(group_of(GROUPS("u8 [4,8] plain", "8", "i8", "[3,8]", "[y,c]") "", 2) == 0);
}

/* Bytes past the end of operand 0 that groups of operand 1 may reach; -1: the weights have no groups. */
static int past_of(const char *text)
{
	struct task t;
	CHECK_OK(task_parse(text, &t));
	return group_of(text, 1) == 4 && group_of(text, 0) == 0 ? task_past(&t, 0) : -1;
}

/* Groups of an input may begin at any byte of a row, where the lanes have other outputs to lie along. */
TEST(groups_at_any_byte)
{
#define ROWS(x, c, outputs, index)                                                                           \
	"task syms=0\noperand X in " x "\noperand W const i8 [" outputs "," c                                \
	"] plain\noperand Y out u8 [4," outputs "] plain\nstage y:4 k:" outputs " | c:" c "\nread X " index  \
	"\nread W [k,c]\nbody r0 r1 mul\nsum\nwrite Y [y,k]\n"
	CHECK(past_of(ROWS("u8 [4,7] plain", "7", "8", "[y,c]")) == 1);
	CHECK(past_of(ROWS("i8 [4,5] plain", "5", "8", "[y,c]")) == 3);
	CHECK(past_of(ROWS("u8 [4,8] plain", "4", "8", "[y,c+2]")) == 0);
	CHECK(past_of(ROWS("u8 [4,9] plain", "6", "8", "[y,c+1]")) == 2);
	CHECK(past_of(ROWS("u8 [4,13] plain", "7", "8", "[y,2*y+c]")) == 1);
	CHECK(past_of(ROWS("u8 [4,7] 0.1", "7", "8", "[y,c]")) == 1);
	CHECK(past_of(ROWS("u8 [4,7] 1.0", "7", "8", "[y,c]")) == -1);      /* columns */
	CHECK(past_of(ROWS("u8 [4,7] plain", "7", "7", "[y,c]")) == -1);    /* few outputs */
	CHECK(past_of(ROWS("u8 [4,6] plain", "7", "8", "[y,c]")) == -1);    /* guarded */
	CHECK(past_of(ROWS("u8 [4,13] plain", "7", "8", "[y,2*c]")) == -1); /* every second */
}

TEST_MAIN
