/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/alternatives.h"

#include <string.h>

struct finder {
	const struct graph *g;
	const struct steps *s;
	const struct choices *now;
	struct arena *a;
	int n;
	struct choices *out;
	double *flops; /* per alternative: of the tasks that it changes */
};

static int out_operand(const struct task *t)
{
	return t->stage[t->nstages - 1].out.operand;
}

/* A tensor of the output's size enters that only the last stage's epilogue reads. */
static bool takes_residual(const struct step *s)
{
	const struct task *t = s->task;
	const struct stage *last = &t->stage[t->nstages - 1];
	int64_t size = shape_count(&t->operand[out_operand(t)].dims);
	if (!s->joined || last->comb == COMB_NONE)
		return false;
	for (int i = 0; i < last->post.n; i++) {
		if (last->post.at[i].op != P_READ)
			continue;
		const struct operand *o = &t->operand[last->read[last->post.at[i].arg].operand];
		if (o->role == ROLE_IN && shape_count(&o->dims) == size)
			return true;
	}
	return false;
}

/* Channels of the step's output where they leave lanes of their blocks unused, else 0. */
static int64_t narrow_channels(const struct step *s)
{
	const struct operand *o = &s->task->operand[out_operand(s->task)];
	for (int i = 0; i < o->layout.n; i++)
		if (o->layout.ax[i].dim == 1 && o->layout.ax[i].div > 1)
			return o->dims.d[1] % o->layout.ax[i].div ? o->dims.d[1] : 0;
	return 0;
}

static const char *out_name(const struct finder *f, const struct step *s)
{
	return f->g->value[f->s->value[s->value[out_operand(s->task)]].of].name;
}

static void add(struct finder *f, struct choices c, double flops)
{
	int at = f->n++;
	for (; at > 0 && f->flops[at - 1] < flops; at--) {
		f->out[at] = f->out[at - 1];
		f->flops[at] = f->flops[at - 1];
	}
	f->out[at] = c;
	f->flops[at] = flops;
}

/* All steps from i on with i's task, without its residual. */
static void alone(struct finder *f, int i, bool *done)
{
	const struct step *first = &f->s->step[i];
	struct key k = task_key(first->task);
	struct choices c = *f->now;
	double flops = 0;
	for (; i < f->s->nsteps; i++) {
		const struct step *s = &f->s->step[i];
		if (s->kind != STEP_TASK || s->anchor < 0 || done[i] || !key_equal(task_key(s->task), k))
			continue;
		choices_set(&c, f->a, CHOICE_JOIN, f->g->node[s->anchor].name, 0);
		flops += task_flops(s->task);
		done[i] = true;
	}
	add(f, c, flops);
}

/* All values from step i on with as many channels, plain. */
static void plain(struct finder *f, int i, bool *done)
{
	int64_t channels = narrow_channels(&f->s->step[i]);
	struct choices c = *f->now;
	double flops = 0;
	for (; i < f->s->nsteps; i++) {
		const struct step *s = &f->s->step[i];
		if (s->kind != STEP_TASK || s->anchor < 0 || narrow_channels(s) != channels)
			continue;
		choices_set(&c, f->a, CHOICE_LANES, out_name(f, s), 1);
		flops += task_flops(s->task);
		done[i] = true;
	}
	add(f, c, flops);
}

/* All blocks from step i on with as dear a task, fused where they are not; or their parts each alone. */
static void blocks(struct finder *f, int i, bool *done)
{
	const struct step *first = &f->s->step[i];
	struct key k = task_key(first->task);
	struct choices c = *f->now;
	double flops = 0;
	for (; i < f->s->nsteps; i++) {
		const struct step *s = &f->s->step[i];
		if (s->kind != STEP_TASK || s->anchor < 0 || done[i] || !key_equal(task_key(s->task), k))
			continue;
		done[i] = true;
		flops += task_flops(s->task);
		if (!s->fused)
			choices_set(&c, f->a, CHOICE_FUSE, f->g->node[s->anchor].name, s->block);
		for (int p = 0; p < f->s->nsteps && s->fused; p++)
			if (f->s->step[p].fused_by == i)
				choices_set(&c, f->a, CHOICE_FUSE, f->g->node[f->s->step[p].anchor].name, 1);
	}
	add(f, c, flops);
}

int graph_alternatives(const struct graph *g, const struct steps *s, const struct choices *now,
		       struct arena *a, struct choices **out)
{
	size_t most = 3 * (size_t)s->nsteps + 1;
	struct finder f = {.g = g, .s = s, .now = now, .a = a};
	bool *parted = arena_try(a, most, sizeof *parted), *unblocked = arena_try(a, most, sizeof *parted),
	     *fused = arena_try(a, most, sizeof *parted);
	f.out = arena_try(a, most, sizeof *f.out);
	f.flops = arena_try(a, most, sizeof *f.flops);
	if (!parted || !unblocked || !fused || !f.out || !f.flops)
		return E_NOMEM;
	for (int i = 0; i < s->nsteps; i++) {
		if (s->step[i].kind != STEP_TASK || s->step[i].anchor < 0 || s->step[i].fused_by >= 0)
			continue;
		if (!fused[i] && s->step[i].block > 1)
			blocks(&f, i, fused);
		if (!parted[i] && takes_residual(&s->step[i]))
			alone(&f, i, parted);
		if (!unblocked[i] && narrow_channels(&s->step[i]))
			plain(&f, i, unblocked);
	}
	if (now->n)
		add(&f, (struct choices){0}, s->flops);
	*out = f.out;
	return f.n;
}
