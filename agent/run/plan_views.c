/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are parts of others: an alias is the whole of its input, and what Concat joins or Split divides
 * lies inside the whole where both lie alike in memory. Then the kernels write and read in place, and the
 * step has nothing to copy. */
#include "agent/run/plan_parts.h"

#include <string.h>

/* Returns the value whose memory v uses, and the offset there. */
static int root_of(const struct plan *p, int v, int64_t *at)
{
	for (*at = 0; p->place[v].parent >= 0; v = p->place[v].parent)
		*at += p->place[v].at;
	return v;
}

enum { DEVICE_ALIGNS = 16 /* bytes: kernels of a device read as many at a time */ };

/* Part v of a whole that begins at element `at` of it, if it can; Concat's (joined) may be all of a larger
 * one's memory. */
static void place_part(struct plan *p, int v, int whole, int64_t at, bool joined)
{
	int64_t inside = 0;
	int r = joined ? root_of(p, v, &inside) : v;
	if (at < 0 || p->place[r].parent >= 0 || p->s->value[r].constant || p->s->value[whole].constant)
		return;
	if (r != v && (inside || operand_elems(&p->s->value[r].buf) != operand_elems(&p->s->value[v].buf)))
		return;
	if (p->device && at * (int64_t)dtype_bytes(p->s->value[whole].buf.dtype) % DEVICE_ALIGNS)
		return;
	int64_t unused;
	if (root_of(p, whole, &unused) == r || p->s->value[r].buf.dtype != p->s->value[whole].buf.dtype)
		return;
	p->place[r].parent = whole;
	p->place[r].at = at;
}

static void place_parts(struct plan *p, struct pstep *ps, bool joined)
{
	const struct node *n = &p->g->node[ps->step->node];
	if (!step_any_layout(p->g, ps->step->node) || joined != !strcmp(node_type(n), "Concat"))
		return;
	int whole = joined ? n->out[0] : ps->step->host_in[0], parts = joined ? n->nin : n->nout;
	const struct operand *w = &p->s->value[whole].buf;
	int64_t axis = node_int(n, "axis", joined ? 1 : 0), at = 0;
	axis += axis < 0 ? w->dims.rank : 0;
	for (int i = 0; i < parts; i++) {
		int v = joined ? ps->step->host_in[i] : n->out[i];
		if (v < 0)
			continue;
		const struct operand *o = &p->s->value[v].buf;
		place_part(p, v, whole, operand_inside(o, w, (int)axis, at), joined);
		at += o->dims.d[axis];
	}
}

void plan_views(struct plan *p)
{
	for (int v = 0; v < p->s->nvalues; v++)
		p->place[v].parent = -1;
	for (int i = 0; i < p->nsteps; i++) {
		struct pstep *ps = &p->step[i];
		if (ps->step->kind == STEP_ALIAS)
			p->place[ps->step->value[1]].parent = ps->step->value[0];
		else if (ps->step->kind == STEP_HOST)
			place_parts(p, ps, false);
	}
	for (int i = 0; i < p->nsteps; i++)
		if (p->step[i].step->kind == STEP_HOST)
			place_parts(p, &p->step[i], true);
	for (int v = 0; v < p->s->nvalues; v++)
		p->place[v].root = root_of(p, v, &p->place[v].offset);
}
