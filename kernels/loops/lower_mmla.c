/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of bytes by products of matrices (kernels/space/mmla.h). While the reduction runs, the
 * sums of a pair of points lie in blocks: the first point's variable has the first two channels of both
 * points, the second one's the other two. */
#include "kernels/loops/lower_parts.h"

#include <string.h>

/* Advances at[] over all reduction axes but that of the groups. */
static bool next_step(const struct nest *k, int *at)
{
	for (int a = k->st->naxes - 1; a >= k->ns; a--) {
		if (a == k->mmla.group)
			continue;
		if (++at[a] < k->n[a])
			return true;
		at[a] = 0;
	}
	return false;
}

/* A step of transposing a and b. */
static int joined(struct nest *k, enum vop op, int a, int b, int step)
{
	int v = lv_new_s32(k->w->l, MMLA_LANES);
	lv_trn(k->w->l, v, op, a, b, step);
	return v;
}

/* ---- sums ---- */

/* Whether at[] is the first point of a pair; *second: the sum of its neighbour, or of a point that there is
 * not. */
static bool pair_at(const struct nest *k, const int *at, int *second)
{
	int next[MAX_AXES], p = k->mmla.pixel;
	if (at[p] % 2)
		return false;
	memcpy(next, at, sizeof next);
	next[p]++;
	*second = next[p] < k->n[p] ? k->acc[nest_point(k, next)] : k->lone[nest_point(k, at)];
	return true;
}

void nest_mmla_sums(struct nest *k)
{
	int at[MAX_AXES] = {0}, p = k->mmla.pixel;
	k->lone = ARENA_ARRAY(k->w->l->arena, int, k->npoints);
	do
		if (at[p] % 2 == 0 && at[p] + 1 == k->n[p]) {
			int v = k->lone[nest_point(k, at)] = lv_new_s32(k->w->l, MMLA_LANES);
			lv_const_s32(k->w->l, v, 0);
		}
	while (nest_next(k, 0, k->ns, at));
}

void nest_mmla_turn(struct nest *k)
{
	struct loops *l = k->w->l;
	int at[MAX_AXES] = {0}, q;
	do {
		int p = k->acc[nest_point(k, at)];
		if (!pair_at(k, at, &q))
			continue;
		int first = joined(k, V_TRN0, p, q, 2);
		lv_trn(l, q, V_TRN1, p, q, 2);
		lv_set(l, p, V_COPY, first, -1, -1, -1);
	} while (nest_next(k, 0, k->ns, at));
}

/* ---- operands ---- */

/* Half `i` of the weights of a vector of channels for the two groups from at[] on. */
static int weights_of(struct nest *k, const int *at, int i)
{
	struct loops *l = k->w->l;
	int place[MAX_AXES];
	struct mem m = nest_mem(k, k->mmla.weights, at, MMLA_LANES);
	memcpy(place, at, sizeof place);
	place[k->mmla.group] += i;
	m.at = ix_add(l, m.at, ix_c(l, (int64_t)i * MMLA_LANES * m.group));
	m.valid = NULL;
	struct known e = nest_entry(k, k->mmla.weights, place, m);
	if ((e.var = nest_find(k, &e)) >= 0)
		return e.var;
	lv_load(l, e.var = lv_new_s32(l, MMLA_LANES), m);
	return nest_know(k, e);
}

/* Loads `count` groups of the image, `stride` bytes apart, from at[] on; with stride 0 one group into all
 * lanes.
 */
static int load_image(struct nest *k, const int *at, int count, int64_t stride)
{
	struct loops *l = k->w->l;
	struct mem m = nest_mem(k, k->mmla.image, at, MMLA_LANES);
	int v = lv_new_s32(l, MMLA_LANES);
	m.stride = stride;
	m.valid = count < MMLA_LANES && stride ? ix_c(l, count) : NULL;
	lv_load(l, v, m);
	return v;
}

/* The first or second half of the lanes of a and b, in turn. */
static int interleaved(struct nest *k, int a, int b, int half)
{
	struct loops *l = k->w->l;
	int even = lv_new_s32(l, MMLA_LANES), both = lv_new_s32(l, MMLA_LANES);
	lv_lace(l, even, a, a, 2, half, 0);
	lv_lace(l, both, even, b, 2, half, 1);
	return both;
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* Operands of a row of the tile: two groups of each pair of points along the axis of neighbours. */
struct operands {
	int of[SCHED_TILE / 2][2]; /* the second: for the next two groups, if there are any */
	int steps;                 /* 1 or 2 */
};

/* Each load has up to four groups of a point. Returns the groups that the operands have. */
static int load_runs(struct nest *k, int *at, struct operands *x)
{
	int p = k->mmla.pixel, g = k->mmla.group, n = least(k->mmla.run, k->n[g] - at[g]), v[2];
	int64_t group = nest_mem(k, k->mmla.image, at, MMLA_LANES).group;
	x->steps = (n + 1) / MMLA_GROUPS;
	for (int i = 0; i < k->n[p]; i++) {
		at[p] = i;
		v[i % 2] = load_image(k, at, n, group);
		if (i % 2 == 0 && i + 1 < k->n[p])
			continue;
		for (int j = 0; j < x->steps; j++)
			x->of[i / 2][j] = joined(k, j ? V_TRN1 : V_TRN0, v[0], v[i % 2], 2);
	}
	at[p] = 0;
	return n;
}

/* Loads one group of up to four neighbours from point `first` on; of a single one, in all lanes. */
static int load_group(struct nest *k, int *at, int group, int first)
{
	int p = k->mmla.pixel, g = k->mmla.group, place[MAX_AXES];
	memcpy(place, at, sizeof place);
	place[p] = first;
	place[g] = group;
	return load_image(k, place, k->n[p] - first, k->n[p] > 1 ? k->mmla.stride : 0);
}

/* Each load has a group of up to four points. If the last ones are two, it begins two points earlier, which
 * needs no mask. */
static int load_neighbours(struct nest *k, int *at, struct operands *x)
{
	int p = k->mmla.pixel, g = k->mmla.group, n = least(MMLA_GROUPS, k->n[g] - at[g]);
	x->steps = 1;
	for (int i = 0; i < k->n[p]; i += MMLA_RUN) {
		bool back = i > 0 && i + 2 == k->n[p];
		int v[MMLA_GROUPS];
		for (int j = 0; j < n; j++)
			v[j] = load_group(k, at, at[g] + j, back ? i - 2 : i);
		for (int j = 0; j < 2 && i + 2 * j < k->n[p]; j++)
			x->of[i / 2 + j][0] = interleaved(k, v[0], v[n - 1], back ? 1 : j);
	}
	return n;
}

/* ---- the body ---- */

/* Adds the products of the operands to the sums of all vectors of a row of the tile. */
static void multiply(struct nest *k, int *at, const struct operands *x)
{
	struct loops *l = k->w->l;
	int lane = k->s->lane, p = k->mmla.pixel, g = k->mmla.group, first = at[g];
	enum vop op = k->w->t->operand[k->st->read[k->mmla.image].operand].dtype == DT_U8 ? V_MMLAU : V_MMLAS;
	for (int j = 0; j < x->steps; j++, at[g] += MMLA_GROUPS)
		for (at[lane] = 0; at[lane] < k->n[lane]; at[lane]++) {
			int w[2] = {weights_of(k, at, 0), weights_of(k, at, 1)};
			for (at[p] = 0; at[p] < k->n[p]; at[p] += 2) {
				int sum[2] = {k->acc[nest_point(k, at)], -1};
				pair_at(k, at, &sum[1]);
				for (int i = 0; i < 2; i++)
					lv_set(l, sum[i], op, x->of[at[p] / 2][j], w[i], sum[i], -1);
			}
			at[p] = 0;
		}
	at[lane] = 0;
	at[g] = first;
}

/* Advances at[] over all points of the tile but those of the lanes and of a row. */
static bool next_row(const struct nest *k, int *at)
{
	for (int a = k->ns - 1; a >= 0; a--) {
		if (a == k->s->lane || a == k->mmla.pixel)
			continue;
		if (++at[a] < k->n[a])
			return true;
		at[a] = 0;
	}
	return false;
}

void nest_mmla(struct nest *k)
{
	int at[MAX_AXES] = {0}, g = k->mmla.group, done = 0, steps = 1;
	for (int a = k->ns; a < k->st->naxes; a++)
		steps *= k->n[a];
	do {
		for (int n = 0; at[g] < k->n[g]; at[g] += n) {
			do {
				struct operands x;
				n = (k->mmla.run ? load_runs : load_neighbours)(k, at, &x);
				multiply(k, at, &x);
			} while (next_row(k, at));
			for (int i = 0; i < n; i++)
				nest_fetch(k, done++, steps);
		}
		at[g] = 0;
	} while (next_step(k, at));
}
