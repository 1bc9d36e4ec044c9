/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's transforms along one axis, for the points 0, 1, -1, (2, -2,) infinity: B' and A' of the paper,
 * with common subterms shared. */
#include "kernels/lower.h"

enum { MAX_FORMS = 13, MAX_TERMS = 3, MAX_POINTS = 6 };

/* A sum of coef * value `of`: an input, or an earlier form behind them. The first coef is 1. */
struct form {
	struct {
		float coef;
		int of;
	} term[MAX_TERMS];
};

struct transform {
	int in, shared, out; /* forms: the shared subterms, then the results */
	struct form form[MAX_FORMS];
};

static const struct transform input2 = {
    4, 0, 4, {{{{1, 0}, {-1, 2}}}, {{{1, 1}, {1, 2}}}, {{{1, 2}, {-1, 1}}}, {{{1, 1}, {-1, 3}}}}};

/* One constant, -4: several live through all loops, and on AArch64 they are spilled. */
static const struct transform input4 = {6,
					7,
					6,
					{{{{1, 4}, {-4, 2}}},
					 {{{1, 3}, {-4, 1}}},
					 {{{1, 4}, {-1, 2}}},
					 {{{1, 3}, {-1, 1}}},
					 {{{1, 9}, {1, 9}}},
					 {{{1, 2}, {-1, 0}}},
					 {{{1, 5}, {-1, 3}}},
					 {{{1, 8}, {-4, 11}}},
					 {{{1, 6}, {1, 7}}},
					 {{{1, 6}, {-1, 7}}},
					 {{{1, 8}, {1, 10}}},
					 {{{1, 8}, {-1, 10}}},
					 {{{1, 12}, {-4, 9}}}}};

static const struct transform output2 = {4, 0, 2, {{{{1, 0}, {1, 1}, {1, 2}}}, {{{1, 1}, {-1, 2}, {-1, 3}}}}};

/* And 4. */
static const struct transform output4 = {6,
					 6,
					 4,
					 {{{{1, 1}, {1, 2}}},
					  {{{1, 1}, {-1, 2}}},
					  {{{1, 3}, {1, 4}}},
					  {{{1, 3}, {-1, 4}}},
					  {{{1, 9}, {1, 9}}},
					  {{{1, 5}, {1, 7}}},
					  {{{1, 0}, {1, 6}, {1, 8}}},
					  {{{1, 7}, {1, 10}}},
					  {{{1, 6}, {4, 8}}},
					  {{{1, 11}, {4, 10}}}}};

/* v + coef * x */
static int add_term(struct loops *l, int v, float coef, int x, int lanes)
{
	int r = lv_new(l, lanes);
	if (coef == 1 || coef == -1) {
		lv_set(l, r, coef > 0 ? V_ADD : V_SUB, v, x, -1, -1);
		return r;
	}
	int c = lv_new(l, lanes);
	lv_const(l, c, coef);
	lv_set(l, r, V_FMA, x, c, v, -1);
	return r;
}

static void transform(struct loops *l, const struct transform *t, const int *in, int *out, int lanes)
{
	int value[MAX_POINTS + MAX_FORMS], n = 0;
	for (; n < t->in; n++)
		value[n] = in[n];
	for (int i = 0; i < t->shared + t->out; i++) {
		const struct form *f = &t->form[i];
		int v = value[f->term[0].of];
		for (int j = 1; j < MAX_TERMS && f->term[j].coef != 0; j++)
			v = add_term(l, v, f->term[j].coef, value[f->term[j].of], lanes);
		value[n++] = v;
	}
	for (int i = 0; i < t->out; i++)
		out[i] = value[t->in + t->shared + i];
}

void transform_input(struct loops *l, int m, const int *in, int *out, int lanes)
{
	transform(l, m == 2 ? &input2 : &input4, in, out, lanes);
}

void transform_output(struct loops *l, int m, const int *in, int *out, int lanes)
{
	transform(l, m == 2 ? &output2 : &output4, in, out, lanes);
}
