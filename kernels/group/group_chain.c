/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of products with vectors, and the maps before, between and behind them, as in a small control
 * network: one kernel keeps the intermediates in the L1. Calling and starting each group alone takes about as
 * long as its arithmetic. */
#include "kernels/group/group_parts.h"
#include "kernels/space/sched.h"

enum {
	L1_BYTES = 1 << 15, /* default if the target does not say */
	L2_BYTES = 1 << 19,
	SHORT_BYTES = 1 << 16, /* bytes of weights: with less, several threads do not pay */
};

static double bytes_of(const struct operand *o)
{
	return (double)operand_elems(o) * (double)sizeof(float);
}

/* Whether the task sums products of a vector and constants. */
static bool is_product(const struct task *t)
{
	const struct stage *s = &t->stage[0];
	return s->comb == COMB_SUM && s->nreads >= 2 && s->body.n == 3 && s->body.at[2].op == P_MUL &&
	       t->operand[s->read[0].operand].role == ROLE_IN && operand_packs(t, s->read[1].operand);
}

/* Whether the group is not yet in a block, and its data fits a core's L1 together with its neighbours'. */
static bool is_link(const struct group *p, const struct target *t)
{
	if (p->kind != STEP_TASK || p->prev >= 0 || p->next >= 0 || p->task->nstages != 1 ||
	    group_copies(p) || !task_floats(p->task))
		return false;
	const struct stage *s = &p->task->stage[0];
	double l1 = (double)(t->l1_bytes ? t->l1_bytes : L1_BYTES);
	return task_vectors(p->task) && bytes_of(&p->task->operand[s->out.operand]) <= l1 / 2 &&
	       (s->comb == COMB_NONE || is_product(p->task));
}

/* Whether the group sums over value v and reads it nowhere else. (A group that adds v to its sums shares the
 * outputs' axis with the group that makes v, so they are no chain.) */
static bool sums(const struct group *p, int v)
{
	const struct stage *s = &p->task->stage[0];
	for (int i = 1; i < s->nreads; i++)
		if (p->value[s->read[i].operand] == v)
			return false;
	return p->value[s->read[0].operand] == v;
}

/* Bytes of the task's constants; each is read once. */
static double weights(const struct task *t)
{
	double bytes = 0;
	for (int i = 0; i < t->noperands; i++)
		bytes += t->operand[i].role == ROLE_CONST ? bytes_of(&t->operand[i]) : 0;
	return bytes;
}

int group_chain(const struct groups *gr, const struct target *t, const int *by, int i,
		int block[BLOCK_GROUPS], bool *pays)
{
	int n = 0, good = 0, operands = 0, products = 0;
	double all = 0, l2 = (double)(t->l2_bytes ? t->l2_bytes : L2_BYTES), most = 0;
	for (; i >= 0 && n < BLOCK_GROUPS && is_link(&gr->group[i], t); i = by[gr->group[i].out]) {
		const struct group *p = &gr->group[i];
		double bytes = weights(p->task);
		bool product = p->task->stage[0].comb == COMB_SUM;
		operands += p->task->noperands - (n > 0); /* the value between two groups is an operand of
							   * both */
		all += bytes;
		if (operands > MAX_OPERANDS || all > l2 ||
		    (n && product && !sums(p, gr->group[block[n - 1]].out)))
			break;
		block[n++] = i;
		products += product;
		most = bytes > most ? bytes : most;
		if (products > 1) {
			good = n;
			*pays = most <= SHORT_BYTES;
		}
	}
	return good;
}
