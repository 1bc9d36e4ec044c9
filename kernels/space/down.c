/* SPDX-License-Identifier: Apache-2.0 */
/* Items that make several tiles along an axis: what the windows of two of them have in common. */
#include "kernels/space/sched.h"

/* Rows that the window of one tile has, and that the next one's begins after. */
static int64_t rows_in_common(const struct stage *st, const struct sstage *s, const struct index *x)
{
	int64_t step = x->coef[s->down_axis] * s->tile[s->down_axis], rows = step - x->coef[s->down_axis] + 1;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		rows += x->coef[a] * (st->axis[a].extent - 1);
	return rows - step;
}

int stage_down_read(const struct task *t, const struct stage *st, const struct sstage *s, int64_t *shared)
{
	for (int i = 0; i < st->nreads && s->down_axis >= 0; i++)
		for (int d = 0; d < t->operand[st->read[i].operand].dims.rank && stage_in_body(st, i); d++) {
			const struct index *x = &st->read[i].dim[d];
			bool plain = x->coef[s->down_axis] > 0 && x->div <= 1 && x->mod <= 1 && x->table < 0;
			for (int a = 0; a < st->naxes; a++)
				plain &= x->coef[a] >= 0;
			if (plain && (*shared = rows_in_common(st, s, x)) > 0)
				return i;
		}
	return -1;
}
