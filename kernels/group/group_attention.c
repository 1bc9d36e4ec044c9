/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as a block: a product, the softmax along its rows, and the product of that with the values, in
 * one kernel that keeps some rows of the scores in cache (kernels/loops/lower_chain.c). Copies that reorder
 * keys and values only for this block are part of it and come first. */
#include "kernels/group/group_parts.h"
#include "kernels/space/sched.h"

#include <string.h>

static bool is_product(const struct group *p)
{
	if (p->kind != STEP_TASK || p->task->nstages != 1)
		return false;
	const struct stage *s = &p->task->stage[0];
	return s->comb == COMB_SUM && s->nreads >= 2 && s->body.n == 3 && s->body.at[2].op == P_MUL &&
	       p->value[s->read[0].operand] >= 0 && p->value[s->read[1].operand] >= 0;
}

/* Whether the group is the chain of stages that structure_softmax makes, on value v and along rows. */
static bool is_softmax(const struct group *p, int v)
{
	if (p->kind != STEP_TASK || p->task->nstages != 4 || p->task->stage[0].comb != COMB_MAX)
		return false;
	const struct stage *s = p->task->stage;
	return p->value[s[0].read[0].operand] == v && s[1].comb == COMB_NONE && s[2].comb == COMB_SUM &&
	       s[3].comb == COMB_NONE;
}

/* The copy that makes an operand of group i, if the group reads all of it and nothing else reads it; -1:
 * none. */
static int copy_for(const struct groups *gr, const int *by, int i, int read)
{
	const struct task *t = gr->group[i].task;
	const struct read *r = &t->stage[0].read[read];
	const struct shape *dims = &t->operand[r->operand].dims;
	int v = gr->group[i].value[r->operand];
	unsigned axes = read_axes(t, &t->stage[0], r);
	int64_t wanted = 1;
	for (int a = 0; a < t->stage[0].naxes; a++)
		wanted *= axes >> a & 1 ? t->stage[0].axis[a].extent : 1;
	if (wanted != shape_count(dims))
		return -1;
	for (int k = 0; k < i && by[v] == i; k++) {
		const struct group *p = &gr->group[k];
		if (p->kind == STEP_TASK && p->out == v)
			return group_copies(p) && p->prev < 0 && p->next < 0 ? k : -1;
	}
	return -1;
}

int group_attention(const struct groups *gr, const int *by, int i, int block[BLOCK_GROUPS])
{
	const struct group *scores = &gr->group[i];
	int n = 0, s = is_product(scores) ? by[scores->out] : -1;
	if (s < 0 || !is_softmax(&gr->group[s], scores->out))
		return 0;
	const struct group *soft = &gr->group[s];
	int y = by[soft->out];
	if (y < 0 || !is_product(&gr->group[y]))
		return 0;
	const struct group *mixed = &gr->group[y];
	if (mixed->value[mixed->task->stage[0].read[0].operand] != soft->out)
		return 0;
	int keys = copy_for(gr, by, i, 1), values = copy_for(gr, by, y, 1);
	if (keys >= 0)
		block[n++] = keys;
	if (values >= 0)
		block[n++] = values;
	block[n++] = i;
	block[n++] = s;
	block[n++] = y;
	for (int k = 0; k < n; k++)
		if (gr->group[block[k]].prev >= 0 || gr->group[block[k]].next >= 0)
			return 0;
	return n;
}
