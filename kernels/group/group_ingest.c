/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of the model that are read without a copy: if the only reader is a strided window, which reads an
 * image once and is not a Winograd convolution, its kernel copies rows from the caller's tensor into its own
 * ring, with the halo. */
#include "kernels/group/group_parts.h"

static bool strided(const struct stage *s, const struct read *r)
{
	for (int a = 0; a < s->naxes; a++)
		if (s->axis[a].kind == AXIS_SPATIAL && r->dim[2].coef[a] > 1)
			return true;
	return false;
}

static bool walks(const struct group *p, int operand)
{
	const struct stage *s = &p->task->stage[0];
	int64_t lo[MAX_RANK], hi[MAX_RANK];
	int reads = 0;
	for (int i = 0; i < s->nreads; i++)
		if (s->read[i].operand == operand)
			reads += strided(s, &s->read[i]) ? 1 : MAX_READS;
	return reads == 1 && p->task->operand[operand].dims.rank == 4 &&
	       operand_overhang(p->task, operand, lo, hi) == NEED_HALO;
}

int group_ingests(const struct graph *g, const struct groups *gr, int v, int *operand)
{
	int found = -1;
	if (!g->value[v].is_input || g->value[v].is_output || g->value[v].t.dtype != DT_F32)
		return -1;
	for (int i = 0; i < gr->n; i++) {
		const struct group *p = &gr->group[i];
		bool task = p->kind == STEP_TASK;
		for (int k = 0; k < (task ? p->task->noperands : g->node[p->anchor].nin); k++) {
			if ((task ? p->value[k] : g->node[p->anchor].in[k]) != v)
				continue;
			if (found >= 0 || !task || p->task->nstages > 1 || p->prev >= 0 || !walks(p, k))
				return -1;
			found = i;
			*operand = k;
		}
	}
	return found;
}
