/* SPDX-License-Identifier: Apache-2.0 */
/* Code for Arm processors, run by qemu-user: random typed programs, bit for bit as interpreted (NaNs are one
 * class). */
#include "kernels/emit/emit.h"
#include "tests/lib/arm_programs.h"
#include "tests/lib/typed_program.h"

enum { PROGRAMS = 60 };

static struct arena objects;
static struct memory in[PROGRAMS], expected[PROGRAMS];
static uint64_t seeds[PROGRAMS];

/* Fills the memory and makes a program. */
typedef void make_program(struct typed_maker *m, const struct target *t);

static void any_program(struct typed_maker *m, const struct target *t)
{
	fill_memory(&m->r);
	random_program(m, t);
}

/* Numbers whose sum of a product has few digits, many, or too large or small an exponent. */
static uint16_t some_half(struct typed_maker *m, int exp)
{
	static const uint16_t odd[] = {0, 0x8000, 1, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00};
	unsigned digits = pick(m, 2) ? 0x83ff : 0x8300;
	if (pick(m, 12) == 0)
		return odd[pick(m, 10)];
	exp = exp < 0 ? 0 : exp > 30 ? 30 : exp;
	return (uint16_t)((rng_u64(&m->r) & digits) | (unsigned)exp << 10);
}

/* FMA2 of three parts of a buffer, and SUM2 of its results and floats. */
static void f16_program(struct typed_maker *m, const struct target *t)
{
	int lanes = 1 << pick(m, KINDS), v[3];
	uint16_t h[ELEMS];
	fill_memory(&m->r);
	for (int i = 0; i < 128; i++) {
		int e = 5 + pick(m, 20), to = pick(m, 4) ? 4 + pick(m, 20) : pick(m, 2) ? 29 : 1;
		h[i] = some_half(m, e);
		h[i + 128] = some_half(m, to + 15 - e);
		h[i + 256] = some_half(m, to + pick(m, 26) - 13);
	}
	memcpy(start.bytes[1] + 2 * MARGIN, h, 384 * sizeof *h);
	begin_program(t->fma);
	l.f16 = true;
	loops_entry(&l, c(64 / lanes));
	const struct ix *i = ix_mul(&l, ix_var(&l, l.entry[0].var), c(lanes)), *i2 = ix_mul(&l, i, c(2));
	for (int k = 0; k < 3; k++)
		lv_load(&l, v[k] = lv_new_s32(&l, lanes),
			(struct mem){.buf = 1, .at = ix_add(&l, i2, c(128 * k)), .stride = 2, .group = 2});
	lv_set(&l, v[0], V_FMA2, v[0], v[1], v[2], -1);
	lv_store(&l, v[0], (struct mem){.buf = 1 + TYPES, .at = i2, .stride = 2, .group = 2});
	int sum = lv_new(&l, lanes);
	lv_load(&l, sum, (struct mem){.buf = 0, .at = i, .stride = 1});
	lv_set(&l, sum, V_SUM2, v[0], sum, -1, -1);
	lv_store(&l, sum, (struct mem){.buf = TYPES, .at = i, .stride = 1});
	loops_entry_end(&l);
}

/* Sums of 8 MMLAs of the largest bytes and of others. */
static void block_program(struct typed_maker *m, const struct target *t)
{
	static const uint32_t odd[] = {0x80808080, 0x7f7f7f7f, 0xffffffff, 0x807f80ff};
	int lanes = 4 << pick(m, KINDS - 2), v[3], from[2] = {3 + pick(m, 2), 3};
	enum vop op = from[0] == 3 ? V_MMLAS : V_MMLAU;
	const struct ix *x;
	fill_memory(&m->r);
	for (int b = 3; b < 5; b++)
		for (int i = 0; i < ELEMS; i += 4)
			if (pick(m, 2))
				memcpy(start.bytes[b] + MARGIN + i, &odd[pick(m, 4)], 4);
	begin_program(t->fma);
	l.blocks = true;
	for (int k = 0; k < 3; k++)
		v[k] = lv_new_s32(&l, lanes);
	loops_entry(&l, c(1 + pick(m, 2)));
	const struct ix *at = ix_mul(&l, ix_var(&l, l.entry[0].var), c(4 * lanes));
	lv_load(&l, v[2], (struct mem){.buf = 5, .at = c(pick(m, 64)), .stride = 1});
	struct stmt *f = for_begin(&l, c(0), c(4), 1, false, &x);
	for (int k = 0; k < 2; k++)
		lv_load(&l, v[k],
			(struct mem){.buf = from[k],
				     .at = ix_add(&l, at, ix_add(&l, ix_mul(&l, x, c(64)), c(16 * k))),
				     .stride = 4,
				     .group = 4});
	lv_set(&l, v[2], op, v[0], v[1], v[2], -1);
	lv_set(&l, v[2], op, v[1], v[0], v[2], -1);
	for_end(&l, f);
	lv_store(&l, v[2], (struct mem){.buf = 2 * TYPES - 1, .at = at, .stride = 1});
	loops_entry_end(&l);
}

/* Sums of dot products of quads of which all lanes have the same one, on either side or on none. */
static void dot_program(struct typed_maker *m, const struct target *t)
{
	int lanes = 4 << pick(m, KINDS - 2), v[4], same = pick(m, 3);
	bool is_signed = pick(m, 2);
	const struct ix *x;
	fill_memory(&m->r);
	begin_program(t->fma);
	for (int k = 0; k < 4; k++)
		v[k] = lv_new_s32(&l, lanes);
	loops_entry(&l, c(1 + pick(m, 2)));
	const struct ix *at = ix_mul(&l, ix_var(&l, l.entry[0].var), c(4 * lanes));
	for (int k = 2; k < 4; k++)
		lv_load(&l, v[k], (struct mem){.buf = 5, .at = c(pick(m, 64)), .stride = 1});
	struct stmt *f = for_begin(&l, c(0), c(4), 1, false, &x);
	for (int step = 0; step < 4; step++) {
		for (int k = 0; k < 2; k++)
			lv_load(
			    &l, v[k],
			    (struct mem){.buf = k || is_signed ? 3 : 4,
					 .at = ix_add(&l, at, ix_add(&l, ix_mul(&l, x, c(16)), c(4 * step))),
					 .stride = same == k ? 0 : 4,
					 .group = 4});
		for (int k = 2; k < 4; k++)
			lv_dot4(&l, v[k], is_signed ? V_DOT4S : V_DOT4U, v[0], v[1], v[k], false);
	}
	for_end(&l, f);
	for (int k = 2; k < 4; k++)
		lv_store(&l, v[k],
			 (struct mem){
			     .buf = 2 * TYPES - 1, .at = ix_add(&l, at, c((k - 2) * lanes)), .stride = 1});
	loops_entry_end(&l);
}

/* Compiles program i of a seed and interprets it. 1: it is good; 0: an s32 overflows. */
static int make(const struct arm_board *b, const struct target *t, make_program *program, int i,
		uint64_t seed, FILE *input)
{
	struct typed_maker m = {0};
	struct blob o;
	rng_seed(&m.r, seed);
	program(&m, t);
	arm_name(&l, i);
	int64_t extent = ix_eval(l.entry[0].extent, NULL, NULL, NULL);
	place(&want);
	int rc = loops_check(&l);
	if (rc >= 0 && (rc = loops_run(&l, 0, want.bufs, NULL, 0, extent)) < 0 &&
	    strstr(err_text(), "the result overflows s32"))
		return 0;
	arena_reset(&objects);
	if (rc >= 0)
		rc = emit_find("llvm")->emit(&l, t, &objects, &o);
	if (rc < 0 && rc != E_SPILL) {
		printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		test_bad = 1;
		return 0;
	}
	arm_put_object(b, i, &o, input);
	in[i] = start;
	expected[i] = want;
	seeds[i] = seed;
	return 1;
}

static void make_all(const struct arm_board *board, const struct target *t, make_program *program,
		     uint64_t seed, struct arm_program *p)
{
	FILE *input = arm_open("in", "wb");
	for (int i = 0; i < PROGRAMS && !test_bad; seed++) {
		if (!make(board, t, program, i, seed, input))
			continue;
		p[i] = (struct arm_program){.nentries = 1, .nbufs = NBUFS, .bytes = sizeof in[i].bytes};
		p[i].extent[0] = ix_eval(l.entry[0].extent, NULL, NULL, NULL);
		for (int b = 0; b < NBUFS; b++)
			p[i].at[b] =
			    (size_t)b * sizeof in[i].bytes[0] + MARGIN * dtype_bytes(types[b % TYPES]);
		CHECK(fwrite(in[i].bytes, sizeof in[i].bytes, 1, input) == 1);
		i++;
	}
	CHECK(fclose(input) == 0);
}

static void run_programs(const struct arm_board *b, make_program *program)
{
	struct target t;
	static struct arm_program p[PROGRAMS];
	const char *from = getenv("HONE_SEED");
	arm_target(b, &t);
	REQUIRE(!test_bad);
	make_all(b, &t, program, from ? strtoull(from, NULL, 0) : 1 + 1000 * (uint64_t)(b - arm_boards), p);
	REQUIRE(!test_bad);
	if (!arm_run(b, p, PROGRAMS)) {
		printf("%s: it did not run\n", b->name);
		test_bad = 1;
		return;
	}
	FILE *out = arm_open("out", "rb");
	for (int i = 0; i < PROGRAMS; i++) {
		want = expected[i];
		CHECK(fread(got.bytes, sizeof got.bytes, 1, out) == 1);
		CHECK(!differ(b->name, seeds[i]));
	}
	fclose(out);
}

static void run_on(const struct arm_board *b)
{
	run_programs(b, any_program);
}

static void sum_f16_on(const struct arm_board *b)
{
	struct target t;
	arm_target(b, &t);
	if (target_sums_f16(&t))
		run_programs(b, f16_program);
}

static void blocks_on(const struct arm_board *b)
{
	struct target t;
	arm_target(b, &t);
	if (target_multiplies_blocks(&t))
		run_programs(b, block_program);
}

static void dots_on(const struct arm_board *b)
{
	run_programs(b, dot_program);
}

/* Divisions by parameters: each result is compared in the program, which then stores 1, else 0. */
enum { PAIRS = 40, RESULTS = 64, DIVISION_BYTES = RESULTS + 2 * PAIRS * (int)sizeof(float) };

static const int64_t most[] = {INT32_MAX, (INT64_C(1) << 53) - 1}; /* of 32 bits, and of doubles */

static void make_wide_pairs(int64_t *p)
{
	const int64_t m = most[1], hard[] = {0,
					     1,
					     m,
					     1,
					     m,
					     m,
					     m,
					     2,
					     m - 1,
					     m,
					     m,
					     3,
					     INT64_C(9007199136250224),
					     94906265,
					     INT64_C(9007199136250225),
					     94906265};
	struct rng r;
	rng_seed(&r, 2);
	for (int i = 0; i < 2 * PAIRS; i++)
		p[i] = i < (int)(sizeof hard / sizeof *hard)
			   ? hard[i]
			   : 1 + (int64_t)(rng_u64(&r) >> (11 + (i % 2 ? rng_below(&r, 52) : 0))) % (m - 1);
	for (int i = 0; i < 2 * PAIRS; i += 10) /* just below a whole quotient */
		p[i] = p[i] / p[i + 1] * p[i + 1] - (p[i] >= p[i + 1]);
}

static void make_pairs(int64_t *p)
{
	static const int64_t hard[] = {
	    0,         1,         INT32_MAX,     1,         INT32_MAX,     INT32_MAX,
	    INT32_MAX, 2,         INT32_MAX - 1, INT32_MAX, 2147395599,    46340,
	    INT32_MAX, 46341,     2147395600,    46340,     INT32_MAX - 1, 3,
	    1 << 30,   INT32_MAX, 1 << 30,       1 << 15,   (1 << 30) - 1, 1 << 15};
	struct rng r;
	rng_seed(&r, 1);
	for (int i = 0; i < 2 * PAIRS; i++)
		p[i] = i < (int)(sizeof hard / sizeof *hard)
			   ? hard[i]
			   : 1 + rng_below(&r, i % 2 ? 1u << rng_below(&r, 30) : INT32_MAX);
}

static void store_whether(const struct ix *good, int at)
{
	int v = lv_new(&l, 1);
	lv_load(&l, v, (struct mem){.buf = 0, .at = c(0), .stride = 1, .guard = good});
	lv_store(&l, v, (struct mem){.buf = 1, .at = c(at), .stride = 1});
}

static void make_divisions(const struct target *t, const int64_t *params, bool wide)
{
	arena_reset(&arena);
	loops_init(&l, &arena, t->fma);
	loops_buf(&l, "one", BUF_IN, DT_F32, c(1));
	loops_buf(&l, "good", BUF_OUT, DT_F32, c(2 * PAIRS));
	for (int i = 0; i < 2 * PAIRS; i++)
		loops_param(&l, "p", i % 2, most[wide]);
	loops_entry(&l, c(1));
	for (int i = 0; i < 2 * PAIRS; i += 2) {
		const struct ix *x = ix_param(&l, i),
				*y = i % 8 == 6 ? c(params[i + 1]) : ix_param(&l, i + 1);
		store_whether(ix_eq(&l, ix_div(&l, x, y), c(params[i] / params[i + 1])), i);
		store_whether(ix_eq(&l, ix_mod(&l, x, y), c(params[i] % params[i + 1])), i + 1);
	}
	loops_entry_end(&l);
	arm_name(&l, 0);
}

static void divide(const struct arm_board *b, bool wide)
{
	static const char zero[DIVISION_BYTES];
	struct target t;
	struct blob o;
	int64_t params[2 * PAIRS];
	struct arm_program p = {
	    .nentries = 1, .nbufs = 2, .nparams = 2 * PAIRS, .extent = {1}, .params = params};
	float one = 1, good[2 * PAIRS];
	p.at[1] = RESULTS;
	p.bytes = DIVISION_BYTES;
	arm_target(b, &t);
	(wide ? make_wide_pairs : make_pairs)(params);
	make_divisions(&t, params, wide);
	REQUIRE_OK(loops_check(&l));
	arena_reset(&objects);
	REQUIRE_OK(emit_find("llvm")->emit(&l, &t, &objects, &o));
	FILE *f = arm_open("in", "wb");
	arm_put_object(b, 0, &o, f);
	CHECK(fwrite(&one, sizeof one, 1, f) == 1);
	CHECK(fwrite(zero, sizeof zero - sizeof one, 1, f) == 1 && fclose(f) == 0);
	REQUIRE(arm_run(b, &p, 1));
	f = arm_open("out", "rb");
	CHECK(fseek(f, RESULTS, SEEK_SET) == 0 && fread(good, sizeof good, 1, f) == 1);
	fclose(f);
	for (int i = 0; i < 2 * PAIRS; i++)
		if (good[i] != 1) {
			printf("%s: %s of %lld and %lld is wrong\n", b->name,
			       i % 2 ? "remainder" : "quotient", (long long)params[i & ~1],
			       (long long)params[i | 1]);
			test_bad = 1;
		}
}

static void divide_on(const struct arm_board *b)
{
	divide(b, false);
	divide(b, true);
}

static void on_all(void (*run)(const struct arm_board *b))
{
	const char *missing = arm_missing();
	if (missing)
		SKIP(missing);
	arm_begin();
	for (int i = 0; i < ARM_BOARDS; i++)
		run(&arm_boards[i]);
	arm_end();
}

TEST(divisions_by_parameters)
{
	on_all(divide_on);
}

TEST(f16_sums_at_the_edges)
{
	on_all(sum_f16_on);
}

TEST(products_of_matrices_of_bytes)
{
	on_all(blocks_on);
}

TEST(dot_products_by_element)
{
	on_all(dots_on);
}

TEST(random_typed_programs_on_arm)
{
	on_all(run_on);
}

TEST_MAIN
