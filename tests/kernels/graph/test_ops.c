/* SPDX-License-Identifier: Apache-2.0 */
/* Every operator family on small cases made by hand, and on random mutations of them. */
#include "tests/lib/op_call.h"
#include "kernels/graph/geometry.h"
#include "kernels/graph/resample.h"
#include "platform/base/rng.h"
#include <math.h>

enum { MUTATIONS = 200 /* of each case */ };

struct op_case {
	const char *type;
	int opset;
	const char *attrs, *in, *want;
};

static bool same(const struct tensor *got, const struct tensor *want)
{
	if (got->dtype != want->dtype || !shape_equal(&got->shape, &want->shape))
		return false;
	for (int64_t i = 0; i < shape_count(&got->shape); i++) {
		double g = tensor_get(got, i), w = tensor_get(want, i);
		if (!(g == w || fabs(g - w) <= 1e-5 * (1 + fabs(w)) || (g != g && w != w)))
			return false;
	}
	return true;
}

static void show(const struct tensor *t)
{
	char shape[160];
	shape_text(&t->shape, shape);
	printf("  got %s %s ", dtype_name(t->dtype), shape);
	for (int64_t i = 0; i < shape_count(&t->shape) && t->data && i < 40; i++)
		printf("%s%g", i ? "," : "", tensor_get(t, i));
	printf("\n");
}

static void check_outputs(struct call *k, const char *want)
{
	char *save = NULL, *copy = arena_strdup(&k->arena, want);
	int n = 0;
	for (char *w = strtok_r(copy, "|", &save); w; w = strtok_r(NULL, "|", &save), n++) {
		struct tensor t;
		REQUIRE(call_tensor(&k->arena, w, &t));
		CHECK(same(&k->out[n], &t));
		if (!same(&k->out[n], &t))
			show(&k->out[n]);
	}
}

static void check_case(const struct op_case *o)
{
	struct call k;
	bool fails = *o->want == '!';
	int before = test_bad, nout = 1;
	for (const char *p = o->want; *p && !fails; p++)
		nout += *p == '|';
	REQUIRE(call_open(&k, o->type, o->opset, o->attrs, o->in, nout));
	int rc = call_infer(&k);
	if (rc >= 0)
		rc = call_eval(&k);
	if (fails) {
		CHECK(rc < 0);
		CHECK(rc >= 0 || strstr(err_text(), o->want + 1));
		if (rc < 0 && !strstr(err_text(), o->want + 1))
			printf("  text: %s\n", err_text());
	} else {
		CHECK_OK(rc);
		if (rc >= 0)
			check_outputs(&k, o->want);
	}
	if (test_bad != before)
		printf("  in %s-%d %s (%s)\n", o->type, o->opset, o->attrs, o->in);
	test_bad |= before;
	call_close(&k);
}

/* ---- mutations: infer refuses them, or eval runs them within its memory ---- */

static int64_t odd_number(struct rng *r)
{
	static const int64_t odd[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, 1 << 30, -8, 100, 65536};
	uint32_t k = rng_below(r, 20);
	return k < 8 ? odd[k] : (int64_t)rng_below(r, 7) - 2;
}

static void mutate_attr(struct call *k, struct rng *r)
{
	static const char *const words[] = {"SAME_UPPER",
					    "SAME_LOWER",
					    "VALID",
					    "reflect",
					    "wrap",
					    "edge",
					    "linear",
					    "cubic",
					    "align_corners",
					    "tf_crop_and_resize",
					    "half_pixel_symmetric",
					    "not_larger",
					    "bidirectional",
					    "reverse",
					    "CRD",
					    "ceil"};
	struct attr *a = &k->attr[rng_below(r, (uint32_t)k->node.nattr)];
	int64_t v = odd_number(r), *ints = ARENA_ARRAY(&k->arena, int64_t, CALL_TENSORS);
	float *floats = ARENA_ARRAY(&k->arena, float, CALL_TENSORS);
	if (a->kind == ATTR_INTS || a->kind == ATTR_FLOATS) {
		for (int i = 0; i < a->n && i < CALL_TENSORS; i++) {
			ints[i] = a->ints[i];
			floats[i] = a->floats[i];
		}
		int at = (int)rng_below(r, CALL_TENSORS);
		a->n += a->n && !rng_below(r, 6) ? -1 : a->n < CALL_TENSORS && !rng_below(r, 6);
		at = a->n ? at % a->n : 0;
		ints[at] = v;
		floats[at] = rng_below(r, 4) ? (float)v : NAN;
		a->ints = ints;
		a->floats = floats;
	}
	a->i = v;
	a->f = rng_below(r, 4) ? (float)v : NAN;
	if (a->kind != ATTR_STRINGS && a->kind != ATTR_TENSOR)
		a->s = words[rng_below(r, sizeof words / sizeof *words)];
	if (!rng_below(r, 20) && a->kind != ATTR_TENSOR && a->s)
		a->kind = (enum attr_kind)rng_below(r, ATTR_STRING + 1);
}

/* Another shape or type for an input, filled with small numbers. */
static void mutate_tensor(struct call *k, struct rng *r, struct tensor *t)
{
	struct shape s = t->shape;
	enum dtype type = rng_below(r, 6) ? t->dtype : (enum dtype)(1 + rng_below(r, DTYPES - 1));
	s.rank += s.rank < MAX_RANK && !rng_below(r, 6) ? 1 : s.rank && !rng_below(r, 6) ? -1 : 0;
	if (s.rank)
		s.d[rng_below(r, (uint32_t)s.rank)] = rng_below(r, 5);
	CHECK_OK(tensor_alloc(&k->arena, type, &s, t));
	for (int64_t i = 0; i < shape_count(&s); i++)
		tensor_set(t, i, rng_below(r, 4));
}

static void mutate(struct call *k, struct rng *r)
{
	struct tensor *t = k->c.nin ? &k->in[rng_below(r, (uint32_t)k->c.nin)] : NULL;
	uint32_t what = rng_below(r, 10);
	if (what < 4 && k->node.nattr) {
		mutate_attr(k, r);
	} else if (what < 5 && k->node.nattr) {
		uint32_t gone = rng_below(r, (uint32_t)k->node.nattr);
		k->attr[gone] = k->attr[--k->node.nattr];
	} else if (t && what < 7 && t->dtype && t->data) {
		mutate_tensor(k, r, t);
	} else if (t && what < 9 && t->data && shape_count(&t->shape)) {
		tensor_set_i64(t, rng_below(r, (uint32_t)shape_count(&t->shape)), odd_number(r));
	} else if (t && rng_below(r, 2)) {
		*t = (struct tensor){0};
	} else if (t && t->data) {
		k->late[t - k->in] = t->data;
		t->data = NULL;
	}
}

static bool small(const struct call *k)
{
	for (int i = 0; i < k->c.nout; i++)
		if (k->out[i].dtype == DT_NONE || shape_count(&k->out[i].shape) > 20000)
			return false;
	return true;
}

/* Counts in ran[0] the calls that reach eval. */
static void check_mutation(const struct op_case *o, struct rng *r, int *ran)
{
	struct call k;
	int nout = 1;
	for (const char *p = o->want; *p && *o->want != '!'; p++)
		nout += *p == '|';
	REQUIRE(call_open(&k, o->type, o->opset, o->attrs, o->in, nout));
	k.arena.cap_bytes = 8 << 20;
	for (uint32_t i = rng_below(r, 3) + 1; i; i--)
		mutate(&k, r);
	int rc = call_infer(&k);
	if (rc >= 0 && small(&k)) {
		++*ran;
		rc = call_eval(&k);
		CHECK(rc >= 0 || rc == E_NOMEM || rc == E_CORRUPT);
	}
	call_close(&k);
}

static void check_family(const struct op_case *cases, size_t n)
{
	struct rng r;
	int bad = 0, ran = 0;
	rng_seed(&r, 20);
	for (size_t i = 0; i < n; i++) {
		test_bad = 0;
		check_case(&cases[i]);
		for (int k = 0; k < MUTATIONS; k++)
			check_mutation(&cases[i], &r, &ran);
		bad |= test_bad;
	}
	test_bad = bad;
	CHECK(ran > (int)n * MUTATIONS / 10);
}

#define CASES(NAME, ...)                                                                                     \
	TEST(NAME)                                                                                           \
	{                                                                                                    \
		static const struct op_case cases[] = {__VA_ARGS__};                                         \
		check_family(cases, sizeof cases / sizeof *cases);                                           \
	}

#include "tests/lib/op_cases.h"

TEST(einsum_refuses)
{
	static const char *const cases[][3] = {
	    {"equation=ij,jk", "2x3 | 2x2", "extents 3 and 2 of one label"},
	    {"equation=ij", "2", "2 axes for an operand of rank 1"},
	    {"equation=i", "2 | 2", "not of 2 operands"},
	    {"equation=i,j", "2", "not of 1 operand"},
	    {"equation=i->ii", "2", "or twice"},
	    {"equation=i->j", "2", "no operand has"},
	    {"equation=i..", "2", "neither letter nor ellipsis"},
	    {"equation=i1", "2x2", "neither letter nor ellipsis"},
	    {"equation=......", "2", "neither letter nor ellipsis"},
	    {"equation=abcdefgh,ijklmnopq", "1x1x1x1x1x1x1x1 | 1x1x1x1x1x1x1x1", "more than 8 axes"},
	    {"equation=abcdefgh,ijklmnop,q->", "1x1x1x1x1x1x1x1 | 1x1x1x1x1x1x1x1 | 1", "more than 16"},
	    {"equation=i", "i32 2", "input 0 of type i32"},
	    {"equation=abc,def,ghi,jkl->", "16x16x16 | 16x16x16 | 16x16x16 | 16x16x16", "too many"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct call k;
		REQUIRE(call_open(&k, "Einsum", 13, cases[i][0], cases[i][1], 1));
		int rc = call_infer(&k);
		CHECK(rc == E_CORRUPT || rc == E_UNSUPPORTED);
		CHECK(strstr(err_text(), cases[i][2]));
		call_close(&k);
	}
}

TEST(geometry)
{
	struct call k;
	struct filter_window w;
	REQUIRE(call_open(&k, "Conv", 11, "auto_pad=SAME_UPPER strides=[2,2]", "1x3x5x6 | 8x3x3x2", 1));
	REQUIRE_OK(conv_window(&k.c, &k.in[0].shape, &k.in[1].shape, &w));
	CHECK(w.rank == 2 && w.in[0] == 1 && w.in[1] == 5 && w.in[2] == 6);
	CHECK(w.out[0] == 1 && w.out[1] == 3 && w.out[2] == 3);
	CHECK(w.begin[1] == 1 && w.end[1] == 1 && w.begin[2] == 0 && w.end[2] == 0);
	call_close(&k);
}

TEST(resample)
{
	struct call k;
	struct resample r;
	REQUIRE(call_open(&k, "Resize", 13, "", "1x2 | - | 2 1,2", 1));
	REQUIRE_OK(resample_plan(&k.c, &r));
	CHECK(r.rank == 2 && r.axis[0].same && !r.axis[1].same);
	CHECK(r.axis[1].taps == 1 && r.axis[1].out == 4 && r.axis[1].index[1] == 0 &&
	      r.axis[1].index[2] == 1);
	call_close(&k);
}

TEST_MAIN
