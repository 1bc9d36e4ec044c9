/* SPDX-License-Identifier: Apache-2.0 */
/* Decides by rule which values are blocked by channels: the first guess for kernels/group/layout_graph.c.
 * Blocked forms begin at convolutions and spread to channel-parallel consumers. Choices override the
 * rules. */
#include "kernels/group/group_parts.h"
#include "kernels/space/sched.h"

#include <string.h>

enum { MAX_PLANES = 32 /* most channels of a plain input that a convolution only broadcasts */ };

struct decider {
	const struct graph *g;
	const struct groups *gr;
	const struct choices *choices;
	int lanes;
	struct form *form;
	int (*want)[MAX_OPERANDS];
};

bool value_wide(const struct shape *s, int lanes)
{
	int64_t pixels = 1;
	for (int d = 2; d < s->rank; d++)
		pixels *= s->d[d];
	return s->rank >= 3 && s->d[1] * 2 >= lanes && pixels > 1;
}

static bool wide(const struct decider *l, const struct shape *s)
{
	return value_wide(s, l->lanes);
}

/* The share of lanes that are used for n contiguous elements. */
static double used(const struct decider *l, int64_t n)
{
	return (double)n / (double)((n + l->lanes - 1) / l->lanes * l->lanes);
}

/* The lanes of value v if the rules ask for `rule`; a choice overrides it. */
static int chosen(const struct decider *l, int v, int rule)
{
	const struct value *x = &l->g->value[v];
	int lanes = choices_get(l->choices, CHOICE_LANES, x->name, 0);
	if (lanes < 1 || l->form[v].exact || !wide(l, &x->t.shape))
		return rule;
	return lanes > 1 ? l->lanes : 1;
}

/* The axis that covers all of dim d, from its first element to its last; -1: none. */
static int whole_dim(const struct task *t, const struct stage *s, const struct read *r, int d)
{
	int a = index_axis(s, &r->dim[d]);
	return a >= 0 && t->operand[r->operand].dims.d[d] == s->axis[a].extent ? a : -1;
}

int channel_axis(const struct task *t, int operand)
{
	int axis = -2;
	const struct stage *s = &t->stage[0];
	for (int i = 0; i <= s->nreads; i++) {
		const struct read *r = i < s->nreads ? &s->read[i] : &s->out;
		if (r->operand != operand)
			continue;
		int a = t->operand[operand].dims.rank >= 3 ? whole_dim(t, s, r, 1) : -1;
		axis = axis == -2 || axis == a ? a : -1;
	}
	return axis < 0 ? -1 : axis;
}

static bool is_conv(const struct decider *l, const struct group *p)
{
	return group_convolves(l->g, p);
}

/* Whether to convert the input to plain: a convolution to fewer channels than lanes, with a long program at
 * its end. Lanes along the reduction would run that program in one lane only. */
static bool needs_pixels(const struct decider *l, const struct task *t)
{
	const struct stage *s = &t->stage[0];
	const struct shape *in = &t->operand[s->read[0].operand].dims,
			   *out = &t->operand[s->out.operand].dims;
	return !wide(l, out) && stage_long_post(s) && in->rank >= 3 && used(l, in->d[in->rank - 1]) > .5;
}

/* The lanes of operand i of a group, an input, before its own channels are considered. */
static int decide_input(struct decider *l, const struct group *p, int i, bool conv)
{
	const struct task *t = p->task;
	const struct operand *o = &t->operand[i];
	int axis = channel_axis(t, i);
	if (o->role != ROLE_IN || axis < 0 || !wide(l, &o->dims))
		return 1;
	const struct stage *s = &t->stage[0];
	bool reduced = s->axis[axis].kind == AXIS_REDUCTION,
	     first = (conv || stage_resamples(t, s)) && i == s->read[0].operand;
	struct form *v = &l->form[p->value[i]];
	if (reduced && (!conv || (first && needs_pixels(l, t))))
		return 1;
	if (!first || v->lanes > 1 ||
	    choices_get(l->choices, CHOICE_LANES, l->g->value[p->value[i]].name, 0) == 1)
		return v->lanes;
	bool few = reduced && o->dims.d[1] <= MAX_PLANES;
	if (l->g->value[p->value[i]].is_input)
		v->lanes = chosen(l, p->value[i], few ? 1 : l->lanes);
	return few ? v->lanes : l->lanes;
}

/* The lanes of each operand of a task group. */
static void decide_task(struct decider *l, int group)
{
	const struct group *p = &l->gr->group[group];
	const struct task *t = p->task;
	const struct stage *s = &t->stage[0];
	int *want = l->want[group], lanes = 1, rule = 1;
	int out = t->stage[t->nstages - 1].out.operand, out_axis = channel_axis(t, out);
	bool conv = is_conv(l, p);
	for (int i = 0; i < t->noperands; i++)
		want[i] = 1;
	if (t->nstages != 1 || group_multiplies(l->g, p))
		return;
	for (int i = 0; i < t->noperands; i++) {
		want[i] = decide_input(l, p, i, conv);
		if (want[i] > lanes && channel_axis(t, i) == out_axis)
			lanes = want[i];
	}
	if (conv && s->nreads > 1 && channel_axis(t, s->read[0].operand) != out_axis)
		lanes = l->lanes;
	if (out_axis >= 0 && wide(l, &t->operand[out].dims))
		rule = lanes;
	want[out] = out_axis >= 0 ? chosen(l, p->out, rule) : 1;
	for (int i = 0; i < t->noperands; i++)
		if (t->operand[i].role == ROLE_IN && wide(l, &t->operand[i].dims) && out_axis >= 0 &&
		    channel_axis(t, i) == out_axis && wide(l, &t->operand[out].dims))
			want[i] = want[out];
	l->form[p->out].lanes = want[out];
}

/* Concat and Split accept any form; their outputs are blocked if an input is. */
static void decide_host(struct decider *l, const struct node *n)
{
	int lanes = 1;
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] >= 0 && l->form[n->in[i]].lanes > lanes)
			lanes = l->form[n->in[i]].lanes;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] >= 0)
			l->form[n->out[i]].lanes =
			    chosen(l, n->out[i], wide(l, &l->g->value[n->out[i]].t.shape) ? lanes : 1);
}

static void decide_forwards(struct decider *l)
{
	for (int i = 0; i < l->gr->n; i++) {
		const struct group *p = &l->gr->group[i];
		const struct node *n = &l->g->node[p->anchor];
		if (p->kind == STEP_TASK) {
			decide_task(l, i);
		} else if (p->kind == STEP_HOST && step_any_layout(l->g, p->anchor)) {
			decide_host(l, n);
		} else {
			for (int k = 0; k < n->nout; k++)
				if (n->out[k] >= 0)
					l->form[n->out[k]].exact = true;
		}
	}
}

void groups_guess_layout(const struct graph *g, const struct groups *gr, int lanes, const struct choices *c,
			 struct form *form, int (*want)[MAX_OPERANDS])
{
	struct decider l = {.g = g, .gr = gr, .choices = c, .lanes = lanes, .form = form, .want = want};
	for (int v = 0; v < g->nvalues; v++)
		form[v] =
		    (struct form){.lanes = 1, .exact = g->value[v].t.data || !value_type(&g->value[v].t)};
	decide_forwards(&l);
}
