/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's transforms along one axis, for the points 0, 1, -1, (2, -2,) infinity: B', G and A' of the
 * paper, with shared subterms. */
#include "kernels/loops/lower_parts.h"

enum { MAX_FORMS = 13, MAX_TERMS = 3, MAX_POINTS = 6 };

/* A sum of coef * value `of`, where values are the inputs followed by the earlier forms. */
struct form {
	struct {
		float coef;
		int of;
	} term[MAX_TERMS];
};

struct transform {
	int in, shared, out; /* counts of inputs, shared subterms, results; `form` holds the subterms, then
			      * the results */
	struct form form[MAX_FORMS];
};

static const struct transform input2 = {
    4, 0, 4, {{{{1, 0}, {-1, 2}}}, {{{1, 1}, {1, 2}}}, {{{1, 2}, {-1, 1}}}, {{{1, 1}, {-1, 3}}}}};

/* Uses only one constant, -4: several would live through all loops and be spilled on AArch64. */
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

/* G without the factors of its rows, which `scaled` output transforms apply: for F(2,3) 1, 1/2, 1/2, 1; for
 * F(4,3) 1/4, -1/6, -1/6, 1/24, 1/24, 1. */
static const struct transform filter2 = {
    3, 1, 4, {{{{1, 0}, {1, 2}}}, {{{1, 0}}}, {{{1, 3}, {1, 1}}}, {{{1, 3}, {-1, 1}}}, {{{1, 2}}}}};

static const struct transform filter4 = {3,
					 3,
					 6,
					 {{{{1, 0}, {1, 2}}},
					  {{{1, 0}, {4, 2}}},
					  {{{1, 1}, {1, 1}}},
					  {{{1, 0}}},
					  {{{1, 3}, {1, 1}}},
					  {{{1, 3}, {-1, 1}}},
					  {{{1, 4}, {1, 5}}},
					  {{{1, 4}, {-1, 5}}},
					  {{{1, 2}}}}};

/* The rows of these filter transforms, one by one. */
static const float filter_row2[4][3] = {{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 1}};
static const float filter_row4[6][3] = {{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 1}};

static const struct transform output2 = {4, 0, 2, {{{{1, 0}, {1, 1}, {1, 2}}}, {{{1, 1}, {-1, 2}, {-1, 3}}}}};

/* As input4: only the constant 4. */
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

static const struct transform scaled2 = {
    4, 2, 2, {{{{1, 1}, {1, 2}}}, {{{1, 1}, {-1, 2}}}, {{{1, 0}, {.5f, 4}}}, {{{.5f, 5}, {-1, 3}}}}};

static const struct transform scaled4 = {6,
					 6,
					 4,
					 {{{{1, 1}, {1, 2}}},
					  {{{1, 1}, {-1, 2}}},
					  {{{1, 3}, {1, 4}}},
					  {{{1, 3}, {-1, 4}}},
					  {{{-1 / 6.f, 6}}},
					  {{{-1 / 6.f, 7}}},
					  {{{1, 10}, {1 / 4.f, 0}, {1 / 24.f, 8}}},
					  {{{1, 11}, {1 / 12.f, 9}}},
					  {{{1, 10}, {1 / 6.f, 8}}},
					  {{{1, 11}, {1 / 3.f, 9}, {1, 5}}}}};

/* v + coef * x; v -1: none */
static int add_term(struct loops *l, int v, float coef, int x, int lanes)
{
	if (v < 0 && coef == 1)
		return x;
	int r = lv_new(l, lanes);
	if (coef == 1 || coef == -1) {
		lv_set(l, r, coef > 0 ? V_ADD : V_SUB, v, x, -1, -1);
		return r;
	}
	int c = lv_new(l, lanes);
	lv_const(l, c, coef);
	lv_set(l, r, v < 0 ? V_MUL : V_FMA, x, c, v, -1);
	return r;
}

/* Values that the results in the set `outs` need, the results included: bits of inputs, then of forms. */
static unsigned needed(const struct transform *t, unsigned outs)
{
	unsigned set = outs << (t->in + t->shared);
	for (int i = t->shared + t->out - 1; i >= 0; i--)
		for (int j = 0; j < MAX_TERMS && set >> (t->in + i) & 1; j++)
			if (t->form[i].term[j].coef != 0)
				set |= 1u << t->form[i].term[j].of;
	return set;
}

static void transform(struct loops *l, const struct transform *t, unsigned outs, const int *in, int *out,
		      int lanes)
{
	int value[MAX_POINTS + MAX_FORMS], n = 0;
	unsigned set = needed(t, outs);
	for (; n < t->in; n++)
		value[n] = in[n];
	for (int i = 0; i < t->shared + t->out; i++, n++) {
		const struct form *f = &t->form[i];
		int v = -1;
		for (int j = 0; j < MAX_TERMS && f->term[j].coef != 0 && set >> n & 1; j++)
			v = add_term(l, v, f->term[j].coef, value[f->term[j].of], lanes);
		value[n] = v;
	}
	for (int i = 0; i < t->out; i++)
		out[i] = value[t->in + t->shared + i];
}

#define ALL ~0u

static const struct transform *input(int m)
{
	return m == 2 ? &input2 : &input4;
}

bool transform_input_needs(int m, unsigned outs, int i)
{
	return needed(input(m), outs) >> i & 1;
}

void transform_input(struct loops *l, int m, unsigned outs, const int *in, int *out, int lanes)
{
	transform(l, input(m), outs, in, out, lanes);
}

int transform_filter_row(struct loops *l, int m, int y, const int g[3], int lanes)
{
	const float *row = m == 2 ? filter_row2[y] : filter_row4[y];
	int v = -1;
	for (int r = 0; r < 3; r++)
		if (row[r] != 0)
			v = add_term(l, v, row[r], g[r], lanes);
	return v;
}

bool transform_filter_uses(int m, int y, int r)
{
	return (m == 2 ? filter_row2[y] : filter_row4[y])[r] != 0;
}

void transform_filter(struct loops *l, int m, const int *in, int *out, int lanes)
{
	transform(l, m == 2 ? &filter2 : &filter4, ALL, in, out, lanes);
}

void transform_output(struct loops *l, int m, bool scaled, const int *in, int *out, int lanes)
{
	static const struct transform *const all[2][2] = {{&output2, &output4}, {&scaled2, &scaled4}};
	transform(l, all[scaled][m == 4], ALL, in, out, lanes);
}
