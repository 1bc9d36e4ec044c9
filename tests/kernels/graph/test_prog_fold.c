/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are silu or gelu, in the ways that exporters write them, and programs that only look
 * alike. */
#include "tests/lib/test.h"

#include "kernels/graph/prog_fold.h"

#include <math.h>

static const struct {
	const char *body, *folded; /* NULL: not folded */
} cases[] = {
    {"r0 sigmoid r0 mul", "r0 silu"},
    {"r0 r0 sigmoid mul", "r0 silu"},
    {"r0 r1 add r0 r1 add sigmoid mul", "r0 r1 add silu"},
    {"r0 r1 mul r0 r1 mul sigmoid mul r0 add", "r0 r1 mul silu r0 add"},
    {"r0 r1 add r0 sigmoid mul", NULL},
    {"r0 r1 sigmoid mul", NULL},
    {"r0 sigmoid r0 add", NULL},
    {"r0 r0 1.41421354 div erf 1 add mul 0.5 mul", "r0 gelu"},
    {"r0 0.707106769 mul erf 1 add r0 mul 0.5 mul", "r0 gelu"},
    {"0.5 r0 mul 1 r0 0.707106769 mul erf add mul", "r0 gelu"},
    {"r0 0.707106769 mul erf 1 add 0.5 mul r0 mul", "r0 gelu"},
    {"0.5 1 0.707106769 r0 mul erf add mul r0 mul", "r0 gelu"},
    {"r0 r1 mul r0 r1 mul 1.41421354 div erf 1 add mul 0.5 mul neg", "r0 r1 mul gelu neg"},
    {"r0 r0 1.41421354 mul erf 1 add mul 0.5 mul", NULL},
    {"r0 1.41421354 r0 div erf 1 add mul 0.5 mul", NULL},
    {"r0 r0 1.41421354 div erf 1 sub mul 0.5 mul", NULL},
    {"r0 r1 1.41421354 div erf 1 add mul 0.5 mul", NULL},
    {"r0 r0 1.41421354 div erf 1 add mul 0.25 mul", NULL},
    /* the argument of one is the other's result */
    {"r0 sigmoid r0 mul r0 sigmoid r0 mul sigmoid mul", "r0 silu silu"},
};

static const char head[] = "task syms=0\noperand A in f32 [8] plain\noperand B in f32 [8] plain\n"
			   "operand Y out f32 [8] plain\nstage n:8\nread A [n]\nread B [n]\nbody ";

static void of_body(const char *body, struct task *t)
{
	char text[512];
	snprintf(text, sizeof text, "%s%s\nwrite Y [n]\n", head, body);
	REQUIRE_OK(task_parse(text, t));
}

static void fill(float *a, float *b)
{
	for (int i = 0; i < 8; i++) {
		a[i] = (float)(i - 4) * 1.3f;
		b[i] = (float)(i * 5 % 7) * .7f - 2;
	}
}

TEST(folds)
{
	static struct task t, want;
	static struct arena scratch;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float a[8], b[8], y[8], z[8];
		of_body(cases[i].body, &t);
		of_body(cases[i].folded ? cases[i].folded : cases[i].body, &want);
		fill(a, b);
		REQUIRE_OK(task_reference(&t, (void *[]){a, b, y}, &scratch));
		prog_fold(&t.stage[0].body);
		struct key k = task_key(&t), w = task_key(&want);
		if (memcmp(&k, &w, sizeof k) != 0) {
			printf("%s\n", cases[i].body);
			test_bad = 1;
		}
		REQUIRE_OK(task_check(&t));
		REQUIRE_OK(task_reference(&t, (void *[]){a, b, z}, &scratch));
		for (int j = 0; j < 8; j++)
			CHECK(fabsf(y[j] - z[j]) <= 1e-6f * fmaxf(1, fabsf(y[j])));
	}
	arena_free(&scratch);
}

TEST_MAIN
