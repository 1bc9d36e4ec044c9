/* SPDX-License-Identifier: Apache-2.0 */
/* Structured forms compared with the operators' own eval, on shapes without common divisors; and cases that
 * have no form. */
#include "kernels/group/group_parts.h"
#include "kernels/graph/structure.h"
#include "platform/base/rng.h"
#include "tests/lib/op_call.h"

#include <math.h>

struct form_case {
	const char *type;
	int opset;
	const char *attrs, *in; /* "?": computed when the model runs */
};

/* Gives the task's operands the caller's values and those of constants. */
static int bind(struct call *k, const struct task *t, void **bufs)
{
	for (int i = 0; i < t->noperands; i++) {
		const struct operand *o = &t->operand[i];
		int n = o->name[1] - '0';
		struct tensor *x = *o->name == 'i' ? &k->in[n] : *o->name == 'o' ? &k->out[n] : &k->c.made[n];
		bufs[i] = o->role == ROLE_TMP ? NULL : *o->name == 'i' && k->late[n] ? k->late[n] : x->data;
		if (*o->name == 'o')
			bufs[i] = ARENA_ARRAY(&k->arena, float, (size_t)shape_count(&x->shape));
		if (o->role != ROLE_TMP && !bufs[i])
			return fail(E_CORRUPT, "operand %s has no data", o->name);
	}
	return E_OK;
}

static void random_inputs(struct call *k, struct rng *r)
{
	for (int i = 0; i < k->c.nin; i++) {
		float *x = k->late[i] ? k->late[i] : k->in[i].data;
		if (k->in[i].dtype != DT_F32)
			continue;
		for (int64_t j = 0; x && shape_count(&k->in[i].shape) > 4 && j < shape_count(&k->in[i].shape);
		     j++)
			x[j] = (float)rng_below(r, 20001) / 1e4f - 1;
	}
}

static double worst(const float *got, const struct tensor *want)
{
	double most = 0, scale = 1e-6;
	for (int64_t i = 0; i < shape_count(&want->shape); i++) {
		double w = tensor_get(want, i), e = fabs((double)got[i] - w);
		most = e > most || isnan(e) ? e : most;
		scale = fabs(w) > scale ? fabs(w) : scale;
	}
	return most / scale;
}

static void check_form(const struct form_case *f, struct rng *r)
{
	struct call k;
	struct task *t;
	void *bufs[MAX_OPERANDS];
	struct arena scratch = {0};
	bool bad = test_bad;
	test_bad = false;
	REQUIRE(call_open(&k, f->type, f->opset, f->attrs, f->in, 1));
	k.c.made = ARENA_ARRAY(&k.arena, struct tensor, OP_MADE);
	random_inputs(&k, r);
	t = ARENA_NEW(&k.arena, struct task);
	CHECK_OK(call_infer(&k));
	int rc = test_bad ? -1 : k.node.op->task(&k.c, t);
	CHECK_OK(rc);
	if (rc >= 0)
		rc = bind(&k, t, bufs);
	CHECK_OK(rc);
	if (rc >= 0) {
		CHECK_OK(task_reference(t, bufs, &scratch));
		CHECK_OK(call_eval(&k));
		double e = worst(bufs[t->stage[t->nstages - 1].out.operand], &k.out[0]);
		CHECK(e <= 2e-6);
		if (e > 2e-6)
			printf("  error %g of the largest\n", e);
	}
	if (test_bad)
		printf("  in %s-%d %s (%s)\n", f->type, f->opset, f->attrs, f->in);
	test_bad |= bad;
	arena_free(&scratch);
	call_close(&k);
}

static void check_none(const struct form_case *f)
{
	struct call k;
	struct task *t;
	REQUIRE(call_open(&k, f->type, f->opset, f->attrs, f->in, 1));
	k.c.made = ARENA_ARRAY(&k.arena, struct tensor, OP_MADE);
	t = ARENA_NEW(&k.arena, struct task);
	CHECK_OK(call_infer(&k));
	int rc = k.node.op->task(&k.c, t);
	CHECK(rc == E_UNSUPPORTED);
	if (rc != E_UNSUPPORTED)
		printf("  in %s-%d %s (%s)\n", f->type, f->opset, f->attrs, f->in);
	call_close(&k);
}

#define FORMS(name, ...)                                                                                     \
	TEST(name)                                                                                           \
	{                                                                                                    \
		static const struct form_case form[] = {__VA_ARGS__};                                        \
		struct rng r;                                                                                \
		rng_seed(&r, 7);                                                                             \
		for (size_t i = 0; i < sizeof form / sizeof *form; i++)                                      \
			check_form(&form[i], &r);                                                            \
	}

FORMS(transposed_convolution,
      /* strides 1, 2, 3; phases as axes, or by remainder where they do not divide the output */
      {"ConvTranspose", 11, "", "?1x3x5x4 | 3x7x3x3"},
      {"ConvTranspose", 11, "strides=[2,2]", "?1x3x5x4 | 3x7x2x2"},
      {"ConvTranspose", 11, "strides=[2,2] pads=[1,1,1,1]", "?2x3x5x4 | 3x7x4x4 | 7"},
      {"ConvTranspose", 11, "strides=[2,2] pads=[1,1,1,1]", "?1x3x5x4 | 3x7x3x3 | 7"},
      {"ConvTranspose", 11, "strides=[2,2] pads=[1,1,1,1] output_padding=[1,1]", "?1x3x5x4 | 3x7x3x3"},
      {"ConvTranspose", 11, "strides=[3,2] pads=[2,0,1,3]", "?1x2x4x6 | 2x5x5x4"},
      {"ConvTranspose", 11, "strides=[3,3]", "?1x2x4x3 | 2x5x2x2"},
      {"ConvTranspose", 11, "dilations=[2,3] pads=[1,2,0,1]", "?1x2x5x6 | 2x3x3x2"},
      {"ConvTranspose", 11, "strides=[2,2] group=3", "?1x6x3x3 | 6x4x3x3 | 12"},
      {"ConvTranspose", 11, "strides=[2,2] group=6 pads=[1,1,1,1]", "?1x6x3x3 | 6x1x4x4"},
      {"ConvTranspose", 11, "strides=[2] pads=[1,1]", "?1x3x9 | 3x5x4"},
      {"ConvTranspose", 11, "strides=[2,1,2] pads=[0,1,1,0,1,1]", "?1x2x3x4x3 | 2x3x2x3x4"},
      {"ConvTranspose", 11, "strides=[2,2] auto_pad=SAME_UPPER", "?1x2x3x4 | 2x3x3x3"},
      {"ConvTranspose", 11, "strides=[2,2] output_shape=[10,9]", "?1x2x4x4 | 2x3x3x3"})

FORMS(average_counts_its_padding,
      {"AveragePool", 11, "kernel_shape=[2,2] auto_pad=SAME_UPPER count_include_pad=1", "?1x2x3x3"},
      {"AveragePool", 11, "kernel_shape=[3,4] strides=[2,2] auto_pad=SAME_LOWER count_include_pad=1",
       "?1x2x5x7"},
      {"AveragePool", 11, "kernel_shape=[2,3] pads=[0,1,1,1] count_include_pad=1", "?1x2x3x3"})

FORMS(lrn, {"LRN", 13, "size=5", "?2x7x3x4"}, {"LRN", 13, "size=4 alpha=0.5f beta=0.5f bias=2f", "?1x6x5"},
      {"LRN", 13, "size=3 alpha=0.9f beta=1f", "?1x5x2x2"},
      {"LRN", 13, "size=1 alpha=0.9f beta=0.6f bias=0.5f", "?1x5x2x2"},
      {"LRN", 13, "size=9 alpha=0.9f", "?1x5x3"})

TEST(nodes_without_a_form)
{
	static const struct form_case none[] = {
	    {"ConvTranspose", 11, "", "?1x3x5x4 | ?3x7x3x3"},
	    {"ConvTranspose", 11, "strides=[2,2] dilations=[2,2]", "?1x3x5x4 | 3x7x3x3"},
	    {"LRN", 13, "size=100", "?1x5x3"},
	};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		check_none(&none[i]);
}

TEST_MAIN
