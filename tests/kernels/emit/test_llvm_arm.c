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

/* Compiles program i of a seed and interprets it. 1: it is good; 0: an s32 overflows. */
static int make(const struct arm_board *b, const struct target *t, int i, uint64_t seed, FILE *input)
{
	struct typed_maker m = {0};
	struct blob o;
	rng_seed(&m.r, seed);
	fill_memory(&m.r);
	random_program(&m, t->fma);
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

static void make_all(const struct arm_board *board, const struct target *t, uint64_t seed,
		     struct arm_program *p)
{
	FILE *input = arm_open("in", "wb");
	for (int i = 0; i < PROGRAMS && !test_bad; seed++) {
		if (!make(board, t, i, seed, input))
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

static void run_on(const struct arm_board *b)
{
	struct target t;
	static struct arm_program p[PROGRAMS];
	arm_target(b, &t);
	REQUIRE(!test_bad);
	make_all(b, &t, 1 + 1000 * (uint64_t)(b - arm_boards), p);
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

TEST(random_typed_programs_on_arm)
{
	const char *missing = arm_missing();
	if (missing)
		SKIP(missing);
	arm_begin();
	for (int i = 0; i < ARM_BOARDS; i++)
		run_on(&arm_boards[i]);
	arm_end();
}

TEST_MAIN
