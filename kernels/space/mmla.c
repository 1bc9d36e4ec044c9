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
		if (!operand_packs(t, r->operand) || w->dtype != DT_I8)
			continue;
		m->group = index_axis(st, &r->dim[w->group_dim]);
		return m->group >= 0 && st->axis[m->group].extent >= MMLA_GROUPS;
	}
	return false;
}

/* Groups of a point that follow one another in the image along the sum: 4, else 0. */
static int run_of(const struct task *t, const struct stage *st, const struct mmla *m)
{
	int64_t bytes;
	return distance(t, st, m, m->group, MMLA_RUN, &bytes) >= 0 && bytes == GROUP ? MMLA_RUN : 0;
}

/* Sets run, and takes the tile's last axis beside the lanes as that of the neighbours. false: there is none,
 * or points or lanes of the tile do not share weights as the instruction needs it. */
static bool find_pixel(const struct task *t, const struct stage *st, const struct sstage *s, struct mmla *m)
{
	unsigned image = read_axes(t, st, &st->read[m->image]),
		 weights = read_axes(t, st, &st->read[m->weights]);
	m->pixel = -1;
	for (int a = 0; a < stage_spatial(st); a++) {
		if (a != s->lane && s->tile[a] == 1)
			continue;
		if ((weights >> a & 1) != (a == s->lane) || (weights & image) >> a & 1)
			return false;
		m->pixel = a == s->lane ? m->pixel : a;
	}
	m->run = run_of(t, st, m);
	return m->pixel >= 0 && (m->run || distance(t, st, m, m->pixel, MMLA_RUN, &m->stride) >= 0);
}

int stage_mmla(const struct task *t, const struct stage *st, const struct sstage *s, struct mmla *m)
{
	if (s->lane >= stage_spatial(st) || s->lanes != MMLA_LANES || s->chains > 1 || !find_sum(t, st, m) ||
	    !find_pixel(t, st, s, m))
		return fail(E_INFEASIBLE, "mmla: not with these lanes and points");
	int64_t unroll = s->unroll[m->group], groups = st->axis[m->group].extent;
	if ((unroll % MMLA_GROUPS && unroll != groups) || (s->prefetch && groups % MMLA_GROUPS))
		return fail(E_INFEASIBLE, "mmla: half a step");
	return E_OK;
}

/* Steps of the axis in a body: as many as the schedule has, if they are whole steps. Without a loop, or
 * beside a shorter last step, LLVM loads early and spills. */
static int whole_steps(const struct task *t, const struct stage *st, int a, int unroll)
{
	int e = (int)st->axis[a].extent,
	    u = e % MMLA_RUN || e == MMLA_RUN || axis_block(t, st, a) == MMLA_GROUPS ? MMLA_GROUPS : MMLA_RUN;
	return unroll % MMLA_GROUPS == 0 || unroll == e ? unroll : e < MMLA_RUN ? e : u;
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
