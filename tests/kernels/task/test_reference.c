/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/task/reference.h"
#include "tests/lib/kernel_cases.h"

static struct kcase c;

/* The element that a point of a stage writes. */
static double element(const struct stage *s, const int64_t *at)
{
	int64_t i[MAX_RANK];
	const struct operand *o = &c.t.operand[s->out.operand];
	for (int d = 0; d < o->dims.rank; d++)
		i[d] = index_value(s, &s->out.dim[d], c.ref, at);
	return (double)((const float *)c.ref[s->out.operand])[operand_offset(o, i)];
}

/* Compares with task_point, up to the rounding of intermediates: single points and the whole task. */
static double worst_of(struct rng *r, int points)
{
	struct arena a = {0};
	struct reference *ref;
	const struct stage *s = &c.t.stage[c.t.nstages - 1];
	double worst = 0;
	if (reference_open(&c.t, c.ref, &a, &ref) < 0)
		return INFINITY;
	for (int i = 0; i < points; i++) {
		int64_t at[MAX_AXES] = {0};
		for (int k = 0; k < s->naxes && s->axis[k].kind == AXIS_SPATIAL; k++)
			at[k] = rng_below(r, (uint32_t)s->axis[k].extent);
		double want = task_point(&c.t, c.ref, at);
		const double got[] = {reference_point(ref, at), element(s, at)};
		for (int k = 0; k < 2; k++) {
			double off = fabs(got[k] - want) / (fabs(want) > 1 ? fabs(want) : 1);
			worst = off > worst || isnan(off) ? off : worst;
		}
	}
	arena_free(&a);
	return worst;
}

TEST(every_kind_of_task)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct buf text = {0};
		struct rng r;
		rng_seed(&r, seed);
		case_text(&text, &r);
		if (case_parse(&c, buf_str(&text), &r) >= 0) {
			double worst = worst_of(&r, 12);
			if (!(worst < 1e-5)) {
				printf("seed %llu: %g\n%s", (unsigned long long)seed, worst, buf_str(&text));
				CHECK(false);
			}
		}
		arena_free(&c.a);
		buf_free(&text);
	}
}

/* Reads whose index is divided, or taken modulo, after spatial and reduction axes were added: of transposed
 * convolutions, and of rings. */
TEST(indexes_that_are_bent)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct buf text = {0};
		struct rng r;
		rng_seed(&r, seed);
		int ch = 1 + (int)rng_below(&r, 5), k = 1 + (int)rng_below(&r, 5),
		    y = 1 + (int)rng_below(&r, 9);
		int taps = 1 + (int)rng_below(&r, 4), by = 2 + (int)rng_below(&r, 3),
		    off = (int)rng_below(&r, 4);
		int rows = (y + off - 1) / by + 1;
		bool wraps = rng_below(&r, 2);
		buf_printf(
		    &text,
		    "task syms=0\noperand X in f32 [%d,%d] plain\noperand W const f32 [%d,%d,%d] plain\n", ch,
		    wraps ? by : rows, k, ch, taps);
		buf_printf(&text, "operand Y out f32 [%d,%d] plain\nstage k:%d y:%d | c:%d r:%d\n", k, y, k,
			   y, ch, taps);
		if (wraps)
			buf_printf(&text, "read X [c,(y+r+%d)%%%d]\n", off, by);
		else
			buf_printf(&text, "read X [c,(y-r+%d)/%d]\n", off, by);
		buf_puts(&text, "read W [k,c,r]\nbody r0 r1 mul\nsum\nwrite Y [k,y]\n");
		int rc = case_parse(&c, buf_str(&text), &r);
		double worst = rc < 0 ? INFINITY : worst_of(&r, 20);
		if (!(worst < 1e-6)) {
			printf("seed %llu: %g %s\n%s", (unsigned long long)seed, worst,
			       rc < 0 ? err_text() : "", buf_str(&text));
			CHECK(false);
		}
		arena_free(&c.a);
		buf_free(&text);
	}
}

/* A point of one stage needs nine points of the stage before, which neighbours share. */
TEST(intermediates_are_remembered)
{
	static const char pair[] =
	    "task syms=0\noperand X in f32 [1,8,6,6] plain\noperand W const f32 [16,8] plain\noperand T tmp "
	    "f32 "
	    "[1,16,6,6] plain\noperand V const f32 [16,1,3,3] plain\noperand Y out f32 [1,16,6,6] plain\n"
	    "stage n:1 k:16 y:6 x:6 | c:8\nread X [n,c,y,x]\nread W [k,c]\nbody r0 r1 mul\nsum\nwrite T "
	    "[n,k,y,x]\n"
	    "stage n:1 k:16 y:6 x:6 | r:3 s:3\nread T [n,k,y+r-1,x+s-1]\nread V [k,0,r,s]\nbody r0 r1 mul\n"
	    "sum\nwrite Y [n,k,y,x]\n";
	struct rng r;
	struct arena a = {0};
	struct reference *ref;
	const int64_t at[] = {0, 3, 2, 2};
	rng_seed(&r, 1);
	REQUIRE_OK(case_parse(&c, pair, &r));
	CHECK(worst_of(&r, 200) < 1e-6);
	REQUIRE_OK(reference_open(&c.t, c.ref, &a, &ref));
	double before = reference_point(ref, at);
	for (int i = 0; i < 8 * 36; i++)
		((float *)c.ref[0])[i] = 0;
	const int64_t next[] = {0, 3, 3, 2}, far[] = {0, 4, 2, 2};
	CHECK(before != 0 && reference_point(ref, next) != 0);
	CHECK(reference_point(ref, far) == 0);
	arena_free(&a);
	arena_free(&c.a);
}

TEST_MAIN
