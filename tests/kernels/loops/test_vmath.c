/* SPDX-License-Identifier: Apache-2.0 */
/* The error bounds stated in kernels/loops/vmath.h, over dense sweeps, compared with libm in double
 * precision. */
#include "tests/lib/test.h"

#include "kernels/loops/vmath.h"

#include <float.h>
#include <math.h>

enum { LANES = 16, POINTS = 1 << 17 };

static int points; /* whole vectors */

struct sweep {
	struct arena a;
	struct loops l;
	float in[2][POINTS], out[POINTS];
};

static int constant(void *ctx, float imm, int lanes)
{
	struct loops *l = ctx;
	int v = lv_new(l, lanes);
	lv_const(l, v, imm);
	return v;
}

/* out[i] = f(in[0][i]), or g(in[0][i], in[1][i]). */
static void run(struct sweep *s, int (*f)(struct vmath *, int), int (*g)(struct vmath *, int, int), bool fma)
{
	struct loops *l = &s->l;
	struct vmath m = {l, LANES, l, constant};
	int buf[3], x[2];
	void *bufs[] = {s->in[0], s->in[1], s->out};
	loops_init(l, &s->a, fma);
	for (int i = 0; i < 3; i++)
		buf[i] = loops_buf(l,
				   i == 2 ? "y"
				   : i    ? "b"
					  : "a",
				   i == 2 ? BUF_OUT : BUF_IN, DT_F32, ix_c(l, points));
	int e = loops_entry(l, ix_c(l, points / LANES));
	const struct ix *at = ix_mul(l, ix_var(l, l->entry[e].var), ix_c(l, LANES));
	for (int i = 0; i < 2; i++)
		lv_load(l, x[i] = lv_new(l, LANES), (struct mem){.buf = buf[i], .at = at, .stride = 1});
	lv_store(l, f ? f(&m, x[0]) : g(&m, x[0], x[1]), (struct mem){.buf = buf[2], .at = at, .stride = 1});
	loops_entry_end(l);
	CHECK_OK(loops_check(l));
	CHECK_OK(loops_run(l, 0, bufs, NULL, 0, points / LANES));
	arena_free(&s->a);
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static double silu(double x)
{
	return x * sigmoid(x);
}

static double gelu(double x)
{
	return x * erfc(-x / sqrt(2)) / 2;
}

/* Largest error, relative or absolute, except at points where the reference is not a normal float. */
static double worst(const struct sweep *s, double (*ref)(double), bool absolute, float *where)
{
	double most = 0;
	for (int i = 0; i < points; i++) {
		double want = ref(s->in[0][i]), err = fabs(s->out[i] - want) / (absolute ? fmax(1, fabs(s->in[0][i])) : fabs(want));
		if (fabs(want) > FLT_MAX || (!absolute && fabs(want) < FLT_MIN))
			continue;
		if (!(err <= most)) { /* a NaN counts */
			most = err;
			*where = s->in[0][i];
		}
	}
	return most;
}

static void fill_linear(struct sweep *s, double from, double to)
{
	for (int i = 0; i < points; i++)
		s->in[0][i] = (float)(from + (to - from) * i / (points - 1));
}

/* Points evenly spaced in the exponent, with both signs if `both`. */
static void fill_scales(struct sweep *s, double from, double to, bool both)
{
	for (int i = 0; i < points; i++)
		s->in[0][i] =
		    (float)(from * pow(to / from, (double)i / (points - 1)) * (both && i % 2 ? -1 : 1));
}

static const struct {
	const char *name;
	int (*f)(struct vmath *, int);
	double (*ref)(double);
	double from, to, least, most; /* the linear sweep, and the magnitudes of the other one */
	bool both, absolute;
	double bound;
} functions[] = {
    {"exp", vmath_exp, exp, -86.9, 88.7, 1e-30, 86.9, true, false, 4e-7},
    {"log", vmath_log, log, .01, 4, 1.2e-38, 3.4e38, false, false, 2e-7},
    {"tanh", vmath_tanh, tanh, -12, 12, 1e-30, 80, true, false, 4e-7},
    {"sigmoid", vmath_sigmoid, sigmoid, -87, 87, 1e-30, 87, true, false, 5e-7},
    {"silu", vmath_silu, silu, -87, 87, 1e-30, 87, true, false, 5e-7},
    {"erf", vmath_erf, erf, -5, 5, 1e-30, 80, true, true, 7e-7},
    {"gelu", vmath_gelu, gelu, -8, 8, 1e-30, 8, true, true, 5e-7},
};

static struct sweep *new_sweep(void)
{
	points = ((POINTS / LANES - 1) / test_share() + 1) * LANES;
	return calloc(1, sizeof(struct sweep));
}

TEST(errors)
{
	struct sweep *s = new_sweep();
	REQUIRE(s);
	for (int i = 0; i < (int)(sizeof functions / sizeof functions[0]); i++)
		for (int way = 0; way < 4; way++) {
			float where = 0;
			if (way < 2)
				fill_linear(s, functions[i].from, functions[i].to);
			else
				fill_scales(s, functions[i].least, functions[i].most, functions[i].both);
			run(s, functions[i].f, NULL, way % 2);
			double err = worst(s, functions[i].ref, functions[i].absolute, &where);
			if (err > functions[i].bound)
				printf("%s(%.9g): error %.3g, more than %.3g (%s, %s)\n", functions[i].name,
				       (double)where, err, functions[i].bound, way < 2 ? "linear" : "scales",
				       way % 2 ? "fma" : "mul, add");
			CHECK(err <= functions[i].bound);
		}
	free(s);
}

/* |b log2 a| 2e-7 relative, and no better than the last steps around it. */
TEST(power)
{
	struct sweep *s = new_sweep();
	REQUIRE(s);
	for (int i = 0; i < points; i++) {
		s->in[0][i] = (float)(1e-3 * pow(1e6, (double)i / (points - 1)));
		s->in[1][i] = (float)(i % 97 - 48) / 8;
	}
	for (int fma = 0; fma < 2; fma++) {
		run(s, NULL, vmath_pow, fma);
		for (int i = 0; i < points && !test_bad; i++) {
			double a = s->in[0][i], b = s->in[1][i], want = pow(a, b);
			double bound = 2e-7 * fmax(1, fabs(b * log2(a)));
			if (fabs(want) < FLT_MIN || fabs(want) > FLT_MAX)
				continue;
			if (!(fabs(s->out[i] - want) <= bound * want))
				printf("pow(%.9g, %g): error %.3g, more than %.3g\n", a, b,
				       fabs(s->out[i] / want - 1), bound);
			CHECK(fabs(s->out[i] - want) <= bound * want);
		}
	}
	free(s);
}

static float one(struct sweep *s, int (*f)(struct vmath *, int), float x)
{
	for (int i = 0; i < points; i++)
		s->in[0][i] = x;
	run(s, f, NULL, true);
	return s->out[0];
}

TEST(ends)
{
	struct sweep *s = new_sweep();
	REQUIRE(s);
	CHECK(one(s, vmath_exp, -88) == 0 && one(s, vmath_exp, -INFINITY) == 0);
	CHECK(isinf(one(s, vmath_exp, 88.9f)) && isinf(one(s, vmath_exp, INFINITY)));
	CHECK(one(s, vmath_log, 0) == -INFINITY && one(s, vmath_log, INFINITY) == INFINITY);
	CHECK(isnan(one(s, vmath_log, -1)));
	CHECK(one(s, vmath_tanh, INFINITY) == 1 && one(s, vmath_tanh, -INFINITY) == -1);
	CHECK(one(s, vmath_sigmoid, INFINITY) == 1 && one(s, vmath_sigmoid, -INFINITY) == 0);
	CHECK(one(s, vmath_silu, INFINITY) == INFINITY && fabsf(one(s, vmath_silu, -1000)) < 1e-30f);
	CHECK(one(s, vmath_silu, -INFINITY) == -INFINITY);
	CHECK(one(s, vmath_gelu, INFINITY) == INFINITY && fabsf(one(s, vmath_gelu, -INFINITY)) < 2e-7f);
	CHECK(one(s, vmath_erf, INFINITY) == 1 && one(s, vmath_erf, -INFINITY) == -1);
	for (int i = 0; i < (int)(sizeof functions / sizeof functions[0]); i++)
		CHECK(isnan(one(s, functions[i].f, NAN)));
	free(s);
}

TEST_MAIN
