/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: consecutive groups whose intermediates need not reach memory, because one kernel can compute them
 * in a ring of rows (kernels/loops/lower_chain.c): a convolution, a window of each channel (depthwise,
 * pooling), a 1x1 convolution; or the first or last two of these. Attention (group_attention.c) and chains of
 * products with vectors (group_chain.c) are blocks too. */
#include "kernels/group/group_parts.h"
#include "kernels/task/task_stage.h"
#include "kernels/space/sched.h"

#include <string.h>

enum { ROW_DIM = 2, L2_BYTES = 1 << 19 /* default if the target does not say */ };

/* The read of value v in a group of one stage if there is exactly one; else NULL. */
static const struct read *read_of(const struct group *p, int v)
{
	const struct read *found = NULL;
	const struct stage *s = &p->task->stage[0];
	for (int i = 0; i < s->nreads; i++) {
		const struct operand *o = &p->task->operand[s->read[i].operand];
		if (p->value[s->read[i].operand] != v || o->role != ROLE_IN)
			continue;
		if (found || o->dims.rank != 4)
			return NULL;
		found = &s->read[i];
	}
	return found;
}

/* The only axis of the index, except taps of a single point; -1: none. */
static int lone_axis(const struct stage *s, const struct index *x)
{
	int found = -1;
	for (int a = 0; a < s->naxes; a++)
		if (x->coef[a] && (s->axis[a].kind == AXIS_SPATIAL || s->axis[a].extent > 1))
			found = found < 0 && x->coef[a] == 1 ? a : MAX_AXES;
	return found < 0 || found == MAX_AXES || x->off || x->div > 1 || x->mod > 1 || x->table >= 0 ? -1
												     : found;
}

static bool image(const struct group *p)
{
	return p->kind == STEP_TASK && p->task->nstages == 1 && p->task->stage[0].comb != COMB_NONE &&
	       p->task->operand[p->task->stage[0].out.operand].dims.rank == 4;
}

/* Whether the group sums products over channels. */
static bool dense(const struct group *p)
{
	if (!image(p))
		return false;
	const struct stage *s = &p->task->stage[0];
	if (s->comb != COMB_SUM || s->nreads < 2 || s->read[0].dim[1].div > 1)
		return false;
	int axis = lone_axis(s, &s->read[0].dim[1]);
	return axis >= 0 && s->axis[axis].kind == AXIS_REDUCTION;
}

/* Whether the group computes each channel of value v separately, over some rows. */
static bool window(const struct group *p, int v)
{
	const struct read *r = image(p) ? read_of(p, v) : NULL;
	if (!r)
		return false;
	const struct stage *s = &p->task->stage[0];
	int axis = lone_axis(s, &r->dim[1]), taps = 0;
	for (int a = 0; a < s->naxes; a++)
		taps += r->dim[ROW_DIM].coef[a] && s->axis[a].kind == AXIS_REDUCTION && s->axis[a].extent > 1;
	return taps && axis >= 0 && axis == lone_axis(s, &s->out.dim[1]);
}

/* Whether the group is a 1x1 convolution of v. */
static bool pointwise(const struct group *p, int v)
{
	const struct read *r = image(p) && dense(p) ? read_of(p, v) : NULL;
	if (!r || r != &p->task->stage[0].read[0])
		return false;
	const struct stage *s = &p->task->stage[0];
	for (int d = ROW_DIM; d < 4; d++)
		if (lone_axis(s, &r->dim[d]) < 0 || lone_axis(s, &r->dim[d]) != lone_axis(s, &s->out.dim[d]))
			return false;
	return true;
}

/* Per value the one group that reads it; -1: none; -2: several, or it leaves the graph. */
static int *readers(const struct graph *g, const struct groups *gr, struct arena *a)
{
	int *by = arena_try(a, (size_t)g->nvalues + 1, sizeof *by);
	for (int v = 0; v < g->nvalues && by; v++)
		by[v] = g->value[v].is_output ? -2 : -1;
	for (int i = 0; i < gr->n && by; i++) {
		const struct group *p = &gr->group[i];
		bool task = p->kind == STEP_TASK;
		int n = task ? p->task->noperands : g->node[p->anchor].nin;
		for (int k = 0; k < n; k++) {
			int v = task ? p->value[k] : g->node[p->anchor].in[k];
			if (v < 0 || (task && p->task->operand[k].role == ROLE_OUT))
				continue;
			by[v] = by[v] == -1 || by[v] == i ? i : -2;
		}
	}
	return by;
}

static double value_bytes(const struct graph *g, int v)
{
	return (double)shape_count(&g->value[v].t.shape) * (double)dtype_bytes(g->value[v].t.dtype);
}

/* The groups of the longest block that begins with group i; returns their number. */
static int find_block(const struct groups *gr, const int *by, int i, int block[BLOCK_GROUPS])
{
	struct group *p = &gr->group[i];
	int n = 1;
	block[0] = i;
	bool begins = image(p) && p->prev < 0 && p->next < 0;
	if (!begins)
		return 1;
	int out = p->out, w = dense(p) && by[out] >= 0 && window(&gr->group[by[out]], out) ? by[out] : -1;
	if (w >= 0)
		block[n++] = w;
	else if (!window(p, p->value[p->task->stage[0].read[0].operand]))
		return 1;
	out = gr->group[block[n - 1]].out;
	if (by[out] >= 0 && pointwise(&gr->group[by[out]], out))
		block[n++] = by[out];
	for (int k = 1; k < n; k++)
		if (gr->group[block[k]].prev >= 0 || gr->group[block[k]].next >= 0)
			return k;
	return n;
}

static void link_block(struct groups *gr, const int *block, int n)
{
	for (int k = 0; k + 1 < n; k++) {
		gr->group[block[k]].next = block[k + 1];
		gr->group[block[k + 1]].prev = block[k];
	}
}

/* Fuses the whole block or nothing: attention gains by its scores, a chain by fewer calls. */
static void fuse_whole(const struct graph *g, const struct choices *c, struct groups *gr, const int *block,
		       int n, bool pays)
{
	if (!n)
		return;
	struct group *first = &gr->group[block[0]];
	first->block = n;
	if (choices_get(c, CHOICE_FUSE, g->node[first->anchor].name, pays ? n : 1) == n)
		link_block(gr, block, n);
}

/* Bytes of the weights, which a fused block reads again for every few rows. */
static double constant_bytes(const struct groups *gr, const int *block, int n)
{
	double bytes = 0;
	for (int k = 0; k < n; k++) {
		const struct task *t = gr->group[block[k]].task;
		for (int i = 0; n > 1 && i < t->noperands; i++)
			if (t->operand[i].role == ROLE_CONST)
				bytes += (double)operand_elems(&t->operand[i]) *
					 (double)dtype_bytes(t->operand[i].dtype);
	}
	return bytes;
}

int groups_fuse(const struct graph *g, const struct target *t, const struct choices *c, struct arena *a,
		struct groups *gr)
{
	int *by = readers(g, gr, a);
	double l2 = (double)(t->l2_bytes ? t->l2_bytes : L2_BYTES);
	bool *inside = arena_try(a, (size_t)gr->n + 1, sizeof *inside);
	if (!by || !inside)
		return E_NOMEM;
	for (int i = 0; i < gr->n; i++)
		gr->group[i].prev = gr->group[i].next = -1;
	if (target_runs_items(t)) { /* a block's rings leave work for a few items only */
		for (int i = 0; i < gr->n; i++)
			gr->group[i].block = 1;
		return E_OK;
	}
	for (int i = 0; i < gr->n; i++) {
		int block[BLOCK_GROUPS], n = find_block(gr, by, i, block);
		double bytes = 0; /* between the groups: if they fit in the L2 they are in cache anyway */
		for (int k = 0; k + 1 < n; k++)
			bytes += value_bytes(g, gr->group[block[k]].out);
		gr->group[i].block = bytes > l2 / 2 ? n : 1;
		bool pays = bytes > l2 && 3 * constant_bytes(gr, block, n) < bytes;
		int want = choices_get(c, CHOICE_FUSE, g->node[gr->group[i].anchor].name, pays ? n : 1);
		link_block(gr, block, n < want ? n : want);
	}
	for (int i = 0; i < gr->n; i++) {
		int block[BLOCK_GROUPS], n = group_attention(gr, by, i, block);
		bool pays = true;
		if (!n && !inside[i]) { /* not inside of a longer chain */
			n = group_chain(gr, t, by, i, block, &pays);
			for (int k = 0; k < n; k++)
				inside[block[k]] = true;
		}
		fuse_whole(g, c, gr, block, n, pays);
	}
	return E_OK;
}

/* ---- one task made of several ---- */

static bool same_operand(const struct operand *a, const struct operand *b)
{
	return a->role == b->role && a->dtype == b->dtype && shape_equal(&a->dims, &b->dims) &&
	       layout_equal(&a->layout, &b->layout) && !memcmp(&a->fill, &b->fill, sizeof a->fill);
}

/* The operand of the block that equals operand i of a member; -1: it does not fit. */
static int join_operand(struct block *b, const struct task *m, const int *value, int i, bool last)
{
	struct task *t = b->task;
	const struct operand *o = &m->operand[i];
	for (int k = 0; k < t->noperands; k++) {
		struct operand *have = &t->operand[k];
		if (b->made[k] >= 0 && b->made[k] == value[i] && o->role == ROLE_IN) {
			have->fill = task_reads(t, k) ? have->fill : o->fill; /* block_add compares */
			return layout_equal(&have->layout, &o->layout) && shape_equal(&have->dims, &o->dims)
				   ? k
				   : -1;
		}
		if (b->value[k] >= 0 && b->value[k] == value[i] && same_operand(have, o))
			return k;
	}
	if (t->noperands == MAX_OPERANDS)
		return -1;
	int k = t->noperands++;
	bool tmp = o->role == ROLE_OUT && !last;
	t->operand[k] = *o;
	t->operand[k].name[0] = (char)('a' + k);
	t->operand[k].name[1] = 0;
	t->operand[k].role = tmp ? ROLE_TMP : o->role;
	b->value[k] = tmp ? -1 : value[i];
	b->made[k] = tmp ? value[i] : -1;
	return k;
}

static void add_stage(struct task *t, const struct stage *from, const int *at)
{
	struct stage *s = &t->stage[t->nstages++];
	*s = *from;
	for (int i = 0; i <= s->nreads; i++) {
		struct read *r = i < s->nreads ? &s->read[i] : &s->out;
		r->operand = at[r->operand];
		for (int d = 0; d < MAX_RANK; d++)
			if (r->dim[d].table >= 0)
				r->dim[d].table = at[r->dim[d].table];
	}
}

bool block_add(struct block *b, const struct task *m, const int *value, bool last)
{
	int at[MAX_OPERANDS];
	if (b->task->nstages + m->nstages > MAX_STAGES)
		return false;
	for (int i = 0; i < m->noperands; i++)
		if ((at[i] = join_operand(b, m, value, i, last)) < 0)
			return false;
	for (int i = 0; i < m->noperands; i++) /* one intermediate has one fill */
		if (m->operand[i].role == ROLE_IN && b->task->operand[at[i]].fill != m->operand[i].fill)
			return false;
	for (int k = 0; k < m->nstages; k++)
		add_stage(b->task, &m->stage[k], at);
	return true;
}

/* Whether all tmps are read: a part that needs another layout of an intermediate would read a copy made
 * outside of the block. */
static bool all_read(const struct task *t)
{
	unsigned read = 0;
	for (int k = 0; k < t->nstages; k++)
		for (int i = 0; i < t->stage[k].nreads; i++)
			read |= 1u << t->stage[k].read[i].operand;
	for (int i = 0; i < t->noperands; i++)
		if (t->operand[i].role == ROLE_TMP && !(read >> i & 1))
			return false;
	return true;
}

bool block_runs(const struct task *t)
{
	struct ring r;
	const struct stage *last = &t->stage[t->nstages - 1];
	int axis = lone_axis(last, &last->out.dim[ROW_DIM]);
	if (task_check(t) < 0 || !all_read(t))
		return false;
	if (task_vectors(t))
		return true;
	if (axis >= 0 && task_ring(t, axis, 1, &r) >= 0)
		return true;
	for (int a = task_shared(t); a < stage_spatial(last); a++)
		if (task_ring(t, a, 1, &r) >= 0 && ring_apart(t, &r))
			return true;
	return false;
}
