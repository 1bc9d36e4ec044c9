/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/mmla.h"

enum { GROUP = 4 /* bytes */ };

/* Bytes from one point of the axis to the next in the image; E_INFEASIBLE: n of them are not evenly spaced.
 */
static int distance(const struct task *t, const struct stage *st, const struct mmla *m, int axis, int n,
		    int64_t *bytes)
{
	const struct read *x = &st->read[m->image];
	bool pads;
	int rc = read_stride(t, st, x, axis, n, bytes, &pads);
	*bytes *= t->operand[x->operand].group ? GROUP : 1;
	return rc;
}

/* Finds image, weights and the axis that counts their groups. The first operand of the instruction may be
 * unsigned, the second is signed. false: there are none, or there is a single group. */
static bool find_sum(const struct task *t, const struct stage *st, struct mmla *m)
{
	for (int i = 0; i < 2 && stage_sum(t, st) == SUM_DOT; i++) {
		m->weights = st->body.at[i].arg;
		m->image = st->body.at[1 - i].arg;
		const struct read *r = &st->read[m->weights];
		const struct operand *w = &t->operand[r->operand];
		if (!w->group || !operand_packs(t, r->operand) || w->dtype != DT_I8)
			continue;
		m->group = index_axis(st, &r->dim[w->group_dim]);
		return m->group >= 0 && st->axis[m->group].extent >= MMLA_GROUPS;
	}
	return false;
}

/* Groups of a point that follow one another in the image along the sum: 4, 2 or 0. */
static int run_of(const struct task *t, const struct stage *st, const struct mmla *m)
{
	int64_t bytes;
	for (int n = MMLA_RUN; n > 1; n /= 2)
		if (distance(t, st, m, m->group, n, &bytes) >= 0 && bytes == GROUP)
			return n;
	return 0;
}

/* Chooses the axis of neighbours among those of the tile that only the image depends on; if a load has
 * several points, that whose groups lie closest. false: there is none, or other points or lanes share no
 * weights. */
static bool find_pixel(const struct task *t, const struct stage *st, const struct sstage *s, struct mmla *m)
{
	unsigned image = read_axes(t, st, &st->read[m->image]),
		 weights = read_axes(t, st, &st->read[m->weights]);
	m->pixel = -1;
	for (int a = 0; a < stage_spatial(st); a++) {
		int64_t stride = 0;
		if (a != s->lane && s->tile[a] == 1)
			continue;
		if ((weights >> a & 1) != (a == s->lane) || (weights & image) >> a & 1)
			return false;
		if (!(image >> a & 1) ||
		    (!m->run && (distance(t, st, m, a, MMLA_RUN, &stride) < 0 || stride < 1)) ||
		    (m->pixel >= 0 && stride >= m->stride))
			continue;
		m->stride = stride;
		m->pixel = a;
	}
	return m->pixel >= 0;
}

int stage_mmla(const struct task *t, const struct stage *st, const struct sstage *s, struct mmla *m)
{
	if (s->lane >= stage_spatial(st) || s->lanes != MMLA_LANES || s->chains > 1 || !find_sum(t, st, m))
		return fail(E_INFEASIBLE, "mmla: no dot products with four channels in lanes");
	int64_t unroll = s->unroll[m->group], groups = st->axis[m->group].extent;
	if ((unroll % MMLA_GROUPS && unroll != groups) || (s->prefetch && groups % MMLA_GROUPS))
		return fail(E_INFEASIBLE, "mmla: half a step in a body or a panel");
	m->run = run_of(t, st, m);
	return find_pixel(t, st, s, m) ? E_OK
				       : fail(E_INFEASIBLE, "mmla: no neighbouring points in the tile");
}

/* Steps of the axis in a body: as many as the schedule has, if they are whole steps. Without a loop, or
 * beside a shorter last step, LLVM loads early and spills. */
static int whole_steps(const struct task *t, const struct stage *st, int a, int unroll)
{
	int64_t e = st->axis[a].extent, b = axis_block(t, st, a);
	bool blocked = b > 1 && e > b;
	if (unroll % MMLA_GROUPS == 0 || unroll == e)
		return unroll;
	for (int u = MMLA_RUN; u > 1; u /= 2)
		if (blocked ? b % u == 0 && e % b % u == 0 : e >= 2 * u && (e % u == 0 || u == MMLA_GROUPS))
			return u;
	return blocked ? unroll : (int)e;
}

void mmla_settle(const struct task *t, const struct stage *st, struct sstage *s)
{
	struct mmla m;
	if (!s->mmla || !(s->mmla = find_sum(t, st, &m)))
		return;
	s->unroll[m.group] = whole_steps(t, st, m.group, s->unroll[m.group]);
	s->chains = 1;
	s->prefetch = st->axis[m.group].extent % MMLA_GROUPS ? 0 : s->prefetch;
	s->mmla = stage_mmla(t, st, s, &m) >= 0;
}

bool mmla_possible(const struct task *t, const struct stage *st)
{
	struct mmla m;
	return find_sum(t, st, &m);
}
