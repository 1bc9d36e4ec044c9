/* SPDX-License-Identifier: Apache-2.0 */
/* What the emitter opencl prints for extensions of OpenCL C compiles with the declarations of clang's header,
 * which knows the extensions, for a target that has all of them. Values are tested in test_opencl_kernels.c,
 * on devices without the extensions. */
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/draft.h"
#include "tests/lib/byte_cases.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

#include <sys/wait.h>

/* Prints kernels of a random task to a file, at a level of precision. */
static bool print_task(uint64_t seed, enum level level, const char *features, const char *file)
{
	const struct space_want want = {.level = level};
	struct target tg = case_gpu();
	struct rng r;
	struct buf text = {0};
	struct kcase c;
	struct space *s;
	struct loops *l;
	struct manifest m;
	struct blob object;
	char cand[CAND_MAX];
	strcpy(tg.features, features);
	rng_seed(&r, seed);
	if (level == LEVEL_FP32)
		byte_products_text(&text, &r);
	else
		paired_conv(&text, &r, 18);
	bool good = case_parse(&c, buf_str(&text), &r) >= 0 && space_make(&c.a, &c.t, &tg, &want, &s) >= 0;
	if (good)
		byte_cand(s, &r, level == LEVEL_FP32 ? "" : "f16", cand);
	good = good && lower(&c.t, cand, &tg, &c.a, &l, &m) >= 0 &&
	       emit_find("opencl")->emit(l, &tg, &c.a, &object) >= 0 &&
	       file_write(file, object.p, object.n) >= 0;
	if (!good)
		printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
	buf_free(&text);
	arena_free(&c.a);
	return good;
}

/* The text of a file; freed by the next call. */
static const char *read_text(const char *file)
{
	static struct arena a;
	struct blob b;
	arena_reset(&a);
	return file_read(&a, file, 64 << 20, &b) < 0 ? "" : arena_strndup(&a, b.p, b.n);
}

/* Compiles a printed kernel as its first line asks for, with options of clang, and checks that it calls the
 * function. */
static void check_compiled(const char *file, const char *options, const char *function)
{
	char command[1200], out[300], standard[8] = "";
	const char *at = strstr(read_text(file), "-cl-std=");
	snprintf(out, sizeof out, "%s.ll", file);
	CHECK(at && sscanf(at, "-cl-std=%7s", standard) == 1);
	snprintf(command, sizeof command,
		 "clang -x cl -cl-std=%s -Xclang -finclude-default-header -target spir64 -Wall -Werror %s "
		 "-Wno-unused-function -Wno-unused-variable -emit-llvm -S -o %s %s",
		 standard, options, out, file);
	CHECK(WEXITSTATUS(system(command)) == 0);
	CHECK(strstr(read_text(out), function));
}

static bool has_clang(void)
{
	return system("clang -x cl -cl-std=CL3.0 -Xclang -finclude-default-header -target spir64 "
		      "-fsyntax-only /dev/null 2>/dev/null") == 0;
}

TEST(extensions_are_compiled)
{
	static const struct {
		enum level level;
		const char *features, *options, *function;
	} cases[] = {
	    {LEVEL_FP32, "+cl_khr_integer_dot_product", "", "@_Z28dot_acc_sat_4x8packed_"},
	    {LEVEL_FP32, "+cl_arm_integer_dot_product_int8,+cl_arm_integer_dot_product_accumulate_int8", "",
	     "@_Z11arm_dot_accDv4_cS_i"},
	    {LEVEL_FP32, "+cl_arm_integer_dot_product_int8",
	     "-Xclang -cl-ext=-cl_arm_integer_dot_product_accumulate_int8", "@_Z7arm_dotDv4_cS_"},
	    {LEVEL_FP32, "+cl_arm_integer_dot_product_int8",
	     "-Xclang -cl-ext=-cl_arm_integer_dot_product_accumulate_int8,-cl_arm_integer_dot_product_int8",
	     "mul"},
	    {LEVEL_HALF_SUM, "+cl_khr_fp16", "", "@_Z3fmaDv8_DhS_S_"},
	};
	if (!has_clang())
		SKIP("no clang with OpenCL: apt-get install clang");
	for (size_t i = 0; i < sizeof cases / sizeof *cases && !test_bad; i++) {
		int compiled = 0;
		/* Schedules of work items have vectors of any width: those of 4 lanes are compiled. */
		for (uint64_t seed = 1; seed <= 40 && compiled < 4 && !test_bad; seed++) {
			char file[256];
			snprintf(file, sizeof file, "%s/%d-%d.cl", scratch_folder(), (int)i, (int)seed);
			CHECK(print_task(seed, cases[i].level, cases[i].features, file));
			if (!strstr(read_text(file), "= (int4)(dot4") &&
			    !strstr(read_text(file), "= fma2_4("))
				continue;
			check_compiled(file, cases[i].options, cases[i].function);
			compiled++;
		}
		CHECK(compiled >= 3);
	}
}

/* Prints a product with a vector, whose threads share sums. */
static void print_team(const char *features, const char *cand, const char *file)
{
	struct target tg = case_gpu();
	struct kcase c;
	struct rng r;
	struct loops *l;
	struct manifest m;
	struct blob object;
	strcpy(tg.features, features);
	rng_seed(&r, 1);
	REQUIRE_OK(case_parse(&c,
			      "task syms=0\noperand X in f32 [256] plain\noperand W const f32 [8,256] plain\n"
			      "operand Y out f32 [8] plain\nstage y:8 | k:256\nread X [k]\nread W [y,k]\n"
			      "body r0 r1 mul\nsum\nwrite Y [y]\n",
			      &r));
	REQUIRE_OK(lower(&c.t, cand, &tg, &c.a, &l, &m));
	REQUIRE_OK(emit_find("opencl")->emit(l, &tg, &c.a, &object));
	REQUIRE_OK(file_write(file, object.p, object.n));
	arena_free(&c.a);
}

/* Threads exchange values in sub-groups where the device lists them, in the OpenCL C that they belong to. */
TEST(exchanges_are_compiled)
{
	static const struct {
		const char *features, *standard, *function;
		const char *options; /* clang's other declarations have no functions of Intel */
	} cases[] = {{"+cl_khr_subgroup_shuffle", "-cl-std=CL3.0 ", "@_Z21sub_group_shuffle_xorjj"},
		     {"+cl_khr_subgroup_shuffle,+cl_intel_subgroups", "-cl-std=CL3.0 ",
		      "@_Z21sub_group_shuffle_xorjj"},
		     {"+cl_intel_subgroups", "-cl-std=CL1.2 ", "@_Z27intel_sub_group_shuffle_xorjj",
		      "-cl-no-stdinc"}},
	  none = {"+cl_khr_fp16", "-cl-std=CL1.2 ", ""};
	static const char *const cands[] = {"par=1 threads=k:32", "lane=y:4 tile=y:2 par=1 threads=k:128"};
	char file[256];
	if (!has_clang())
		SKIP("no clang with OpenCL: apt-get install clang");
	for (int i = 0; i < 6 && !test_bad; i++) {
		snprintf(file, sizeof file, "%s/team%d.cl", scratch_folder(), i);
		print_team(cases[i / 2].features, cands[i % 2], file);
		CHECK(strstr(read_text(file), cases[i / 2].standard));
		const char *options = cases[i / 2].options ? cases[i / 2].options : "";
		check_compiled(file, options, cases[i / 2].function);
	}
	snprintf(file, sizeof file, "%s/team.cl", scratch_folder());
	print_team(none.features, cands[0], file);
	CHECK(strstr(read_text(file), none.standard) && !strstr(read_text(file), "exchange"));
}

/* Programs without such an operation, and targets without such a feature, have the text that they had. */
TEST(texts_without_extensions_stay)
{
	char file[256];
	snprintf(file, sizeof file, "%s/plain.cl", scratch_folder());
	CHECK(print_task(1, LEVEL_FP32, "", file));
	CHECK(strstr(read_text(file), "-cl-std=CL1.2 ") && !strstr(read_text(file), "dot4"));
}

/* Products of bytes that a step of four makes, of unsigned bytes and of signed ones with signed weights. */
TEST(the_draft_knows_dot_products)
{
	static const struct {
		const char *features;
		double mixed, both_signed;
	} cases[] = {{"", 1, 1},
		     {"+cl_khr_fp16", 1, 1},
		     {"+cl_khr_integer_dot_product", 4, 4},
		     {"+cl_arm_integer_dot_product_int8", 1.8, 4}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int is_signed = 0; is_signed < 2; is_signed++) {
			struct kcase c;
			struct target tg = case_gpu();
			strcpy(tg.features, cases[i].features);
			largest_case(&c, 3 + is_signed * 2 * LARGEST_LENGTHS);
			double got = draft_dots(&c.t, &c.t.stage[0], &tg);
			CHECK(got == (is_signed ? cases[i].both_signed : cases[i].mixed));
			strcpy(tg.isa, "cuda");
			strcpy(tg.cpu, "sm_72");
			CHECK(draft_dots(&c.t, &c.t.stage[0], &tg) == 4); /* dp4a */
			arena_free(&c.a);
		}
}

TEST_MAIN
