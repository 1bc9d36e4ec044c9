/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/group/group.h"

#include "kernels/space/sched.h"
#include "kernels/task/pack.h"

/* Checks a value that a step reads or writes, if there is one. */
static int check_value(const struct steps *s, const struct step *st, int v)
{
	return v < -1 || v >= s->nvalues
		   ? fail(E_CORRUPT, "step '%s' uses value %d of %d", st->name, v, s->nvalues)
		   : E_OK;
}

static int check_step(const struct graph *g, const struct steps *s, const struct step *st, bool *known)
{
	int rc = st->kind == STEP_TASK ? task_check(st->task) : E_OK;
	for (int k = 0, v; rc >= 0 && (v = step_read(g, st, k)) != STEP_END; k++) {
		rc = check_value(s, st, v);
		if (rc >= 0 && v >= 0 && !known[v])
			rc = fail(E_CORRUPT, "step '%s' reads value %d before it is computed", st->name, v);
	}
	for (int k = 0, v; rc >= 0 && (v = step_write(g, st, k)) != STEP_END; k++) {
		rc = check_value(s, st, v);
		if (rc >= 0 && v >= 0)
			known[v] = true;
	}
	return rc;
}

int steps_check(const struct graph *g, const struct steps *s)
{
	struct arena a = {0};
	bool *known = ARENA_ARRAY(&a, bool, s->nvalues + 1);
	int rc = E_OK;
	for (int v = 0; v < s->nvalues; v++) {
		const struct value *of = &g->value[s->value[v].of];
		known[v] = s->value[v].constant || (v < g->nvalues && (of->is_input || of->t.data));
	}
	for (int i = 0; i < s->nsteps && rc >= 0; i++)
		rc = check_step(g, s, &s->step[i], known);
	for (int i = 0; i < g->noutputs && rc >= 0; i++)
		if (!known[g->output[i]])
			rc = fail(E_CORRUPT, "no step computes the output '%s'", g->value[g->output[i]].name);
	arena_free(&a);
	return rc;
}

bool step_holds_f16(const struct graph *g, const struct steps *s, const struct step *st)
{
	for (int i = 0; i < st->task->noperands; i++) {
		if (!task_stores(st->task, i))
			continue;
		const struct tensor *w = &g->value[s->value[st->value[i]].of].t;
		if (!w->data || !pack_holds_any(pack_largest(w->data, shape_count(&w->shape))))
			return false;
	}
	return true;
}
