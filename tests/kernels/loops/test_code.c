/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"
#include "kernels/loops/code.h"
#include "platform/base/rng.h"

static struct code c, d;

static void sample(void)
{
	memset(&c, 0, sizeof c);
	strcpy(c.m.emitter, "llvm");
	strcpy(c.m.version, "llvm-19.1.7/1");
	strcpy(c.m.isa, "x86-64-v4");
	strcpy(c.m.features, "+avx512vnni,+avx512bf16");
	c.m.lanes = 16;
	c.m.nsyms = 1;
	c.m.scratch_bytes = 4096;
	c.m.winograd = 4;
	c.m.alias_out = 1;
	c.m.alias_in = -1;
	c.m.nentries = 2;
	strcpy(c.m.entry[0], "k0");
	strcpy(c.m.extent_expr[0], "p0 16 + p1 /");
	strcpy(c.m.entry[1], "k1");
	strcpy(c.m.extent_expr[1], "7");
	c.m.nparams = 2;
	c.m.param[0] = 100;
	c.m.param[1] = 8;
	c.m.nbufs = 3;
	c.m.buf[0] =
	    (struct code_buf){.name = "W", .role = BUF_CONST, .operand = 0, .elems = 16, .packed = true};
	c.m.buf[0].packing =
	    (struct packing){.n = 3, .extent = {2, 2, 4}, .src = {2, {5, 2}}, .coef = {{4, 0, 1}, {0, 1, 0}}};
	c.m.buf[1] = (struct code_buf){.name = "Y", .role = BUF_OUT, .operand = 3, .elems = 128};
	c.m.buf[2] = (struct code_buf){.name = "tmp", .role = BUF_SCRATCH, .operand = -1, .elems = 1024};
	c.object = (struct blob){"OBJECT", 6};
}

TEST(bytes_round_trip)
{
	struct buf a = {0}, b = {0};
	struct arena arena = {0};
	sample();
	code_bytes(&c, &a);
	REQUIRE_OK(code_parse(a.p, a.n, &arena, &d));
	CHECK(!memcmp(&c.m, &d.m, sizeof c.m));
	CHECK(d.object.n == 6 && !memcmp(d.object.p, "OBJECT", 6));
	code_bytes(&d, &b);
	CHECK(a.n == b.n && !memcmp(a.p, b.p, a.n));
	buf_free(&a);
	buf_free(&b);
	arena_free(&arena);
}

/* A manifest says whether its code sums in f16, or products of bf16 or TF32. Without that line it does
 * neither. */
TEST(sums_are_named)
{
	static const struct {
		enum dtype sums;
		const char *line;
	} rows[] = {{DT_F16, "sums f16\n"}, {DT_BF16, "sums bf16\n"}, {DT_F32, "sums tf32\n"}};
	struct buf a = {0};
	struct arena arena = {0};
	sample();
	CHECK(code_pairs(&c.m) == DT_NONE);
	code_bytes(&c, &a);
	CHECK(!memmem(a.p, a.n, "sums", 4) && !memmem(a.p, a.n, "null", 4));
	for (int i = 0; i < 3; i++) {
		a.n = 0;
		c.m.sums = rows[i].sums;
		code_bytes(&c, &a);
		REQUIRE_OK(code_parse(a.p, a.n, &arena, &d));
		CHECK(d.m.sums == rows[i].sums && code_pairs(&d.m) == rows[i].sums &&
		      !memcmp(&c.m, &d.m, sizeof c.m));
		char *sums = memmem(a.p, a.n, rows[i].line, strlen(rows[i].line));
		REQUIRE(sums);
		sums[6] = '3';
		CHECK_FAILS(code_parse(a.p, a.n, &arena, &d), E_CORRUPT, "sums");
	}
	c.m.sums = DT_NONE;
	c.m.buf[0].packing.bf16 = true;
	CHECK(code_pairs(&c.m) == DT_BF16);
	buf_free(&a);
	arena_free(&arena);
}

/* Only a packed constant is a texture, and pairs of bf16 are none. */
TEST(textures_are_packed_constants)
{
	struct buf a = {0};
	struct arena arena = {0};
	sample();
	c.m.buf[0].texture = true;
	code_bytes(&c, &a);
	REQUIRE_OK(code_parse(a.p, a.n, &arena, &d));
	CHECK(d.m.buf[0].texture && !d.m.buf[1].texture && !memcmp(&c.m, &d.m, sizeof c.m));
	char *texture = memmem(a.p, a.n, "texture 1", 9);
	REQUIRE(texture);
	texture[8] = '0';
	CHECK_FAILS(code_parse(a.p, a.n, &arena, &d), E_CORRUPT, "texture");
	for (int i = 0; i < 3; i++) {
		a.n = 0;
		sample();
		c.m.buf[i].texture = true;
		c.m.buf[0].packing.bf16 = true;
		code_bytes(&c, &a);
		CHECK_FAILS(code_parse(a.p, a.n, &arena, &d), E_CORRUPT, "texture");
	}
	buf_free(&a);
	arena_free(&arena);
}

/* Scratch that all indices share exists once, and they all run at a time; else as many run as have room. */
TEST(scratch_is_of_an_index_or_shared)
{
	struct buf a = {0};
	struct arena arena = {0};
	int64_t bytes;
	sample();
	CHECK(code_at_once(&c.m, 100, 10 * 4096, &bytes) == 10 && bytes == 10 * 4096);
	CHECK(code_at_once(&c.m, 7, 10 * 4096, &bytes) == 7 && bytes == 7 * 4096);
	CHECK(code_at_once(&c.m, 7, 4095, &bytes) == 1 && bytes == 4096);
	c.m.shares_scratch = true;
	CHECK(code_at_once(&c.m, 100, 4095, &bytes) == 100 && bytes == 4096);
	code_bytes(&c, &a);
	REQUIRE_OK(code_parse(a.p, a.n, &arena, &d));
	CHECK(d.m.shares_scratch && !memcmp(&c.m, &d.m, sizeof c.m));
	char *common = memmem(a.p, a.n, "common 1", 8);
	REQUIRE(common);
	common[7] = '0';
	CHECK_FAILS(code_parse(a.p, a.n, &arena, &d), E_CORRUPT, "common");
	c.m.scratch_bytes = 0;
	CHECK(code_at_once(&c.m, 100, 0, &bytes) == 100 && bytes == 0);
	buf_free(&a);
	arena_free(&arena);
}

TEST(extents_are_postfix)
{
	sample();
	CHECK(code_extent(&c.m, 0, c.m.param) == 14);
	CHECK(code_extent(&c.m, 1, c.m.param) == 7);
	static const struct {
		const char *text;
		int64_t want;
	} rows[] = {{"p0 p1 min 3 %", 2}, {"p0 p1 max", 100},     {"2 3 4 + *", 14},
		    {"-3 5 +", 2},        {"p0 p2 +", E_CORRUPT}, {"1 +", E_CORRUPT},
		    {"1 2", E_CORRUPT},   {"", E_CORRUPT},        {"1 0 /", E_CORRUPT},
		    {"3 4 -", E_CORRUPT}, {"1 x", E_CORRUPT},     {"9223372036854775807 2 *", E_CORRUPT}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		strcpy(c.m.extent_expr[0], rows[i].text);
		CHECK(code_extent(&c.m, 0, c.m.param) == rows[i].want);
	}
}

TEST(hostile_bytes_are_corrupt)
{
	struct buf a = {0};
	struct rng r;
	struct arena arena = {0};
	sample();
	code_bytes(&c, &a);
	for (size_t n = 0; n < a.n; n++) {
		char *part = malloc(n + 1);
		memcpy(part, a.p, n);
		CHECK(code_parse(part, n, &arena, &d) == E_CORRUPT);
		free(part);
	}
	rng_seed(&r, 4);
	for (int i = 0; i < 20000; i++) {
		char *bytes = malloc(a.n);
		memcpy(bytes, a.p, a.n);
		for (int k = 0; k < 3; k++)
			bytes[rng_below(&r, (uint32_t)a.n)] = (char)rng_u64(&r);
		int rc = code_parse(bytes, a.n, &arena, &d);
		CHECK(rc == E_OK || rc == E_CORRUPT);
		arena_reset(&arena);
		free(bytes);
	}
	buf_free(&a);
	arena_free(&arena);
}

TEST_MAIN
