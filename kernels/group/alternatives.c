/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/group/alternatives.h"

#include <math.h>
#include <string.h>

enum {
	MAX_REGIONS = 64,
	LANES = 16,      /* for a graph without blocks */
	FLOPS_EACH = 64, /* one element of a region counts as this many flops of a task when alternatives
			  * are sorted */
};

struct finder {
	const struct graph *g;
	const struct steps *s;
	const struct choices *now;
	struct arena *a;
	int n;
	struct choices *out;
	double *flops; /* per alternative: flops of the tasks that it changes, or elements of its values */
	int nvalues;   /* number of graph values when the steps were made */
	int *region;   /* per value: a value of the same region, or itself */
	int lanes;     /* channels of the largest block */
};

static int out_operand(const struct task *t)
{
	return t->stage[t->nstages - 1].out.operand;
}

/* Whether only the last stage's epilogue reads some tensor of the output's size. */
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

/* Adds the alternative in which all steps from i on with i's task do not take their residual. */
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

/* ---- regions: blocked, or plain, values that stride-1 windows, maps, Concat and Split connect ---- */

/* Channels per block of a value's native form; 0: plain. */
static int block_of(const struct operand *o)
{
	for (int i = 0; i < o->layout.n; i++)
		if (o->layout.ax[i].dim == 1 && o->layout.ax[i].div > 1)
			return o->layout.ax[i].div;
	return 0;
}

static int region_of(int *up, int v)
{
	while (up[v] != v)
		v = up[v] = up[up[v]];
	return v;
}

/* Whether the operand is a plain image whose channels could be blocked. */
static bool blockable(const struct finder *f, const struct operand *o)
{
	return !block_of(o) && o->role == ROLE_IN && o->dtype == DT_F32 && o->dims.rank == 4 &&
	       o->dims.d[1] * 4 >= f->lanes && o->dims.d[3] > 1;
}

static bool alike(const struct finder *f, int v, int w)
{
	const struct operand *x = &f->s->value[v].buf, *y = &f->s->value[w].buf;
	return (block_of(x) && block_of(y)) || (blockable(f, x) && blockable(f, y));
}

/* Unites two regions; the smaller number stays. */
static void unite(const struct finder *f, int v, int w)
{
	if (v < 0 || w < 0 || !alike(f, v, w))
		return;
	v = region_of(f->region, f->s->value[v].of);
	w = region_of(f->region, f->s->value[w].of);
	f->region[v < w ? w : v] = v < w ? v : w;
}

/* Whether no read of the operand skips elements. */
static bool unstrided(const struct task *t, int operand)
{
	for (int k = 0; k < t->nstages; k++)
		for (int i = 0; i < t->stage[k].nreads; i++)
			for (int d = 0; d < MAX_RANK && t->stage[k].read[i].operand == operand; d++)
				for (int a = 0; a < t->stage[k].naxes; a++)
					if (t->stage[k].read[i].dim[d].coef[a] > 1)
						return false;
	return true;
}

static void unite_step(const struct finder *f, const struct step *s)
{
	if (s->kind == STEP_TASK && s->anchor >= 0 && !s->fused) {
		int out = out_operand(s->task);
		for (int i = 0; i < s->task->noperands; i++)
			if (s->task->operand[i].role == ROLE_IN && unstrided(s->task, i))
				unite(f, s->value[i], s->value[out]);
	} else if (s->kind == STEP_HOST && step_any_layout(f->g, s->node)) {
		const struct node *n = &f->g->node[s->node];
		for (int i = 0; i < n->nin; i++)
			for (int k = 0; k < n->nout; k++)
				unite(f, s->host_in[i], n->out[k]);
	}
}

/* Whether the step makes a plain image from plain images by sums of products, so that its lanes lie along
 * pixels. */
static bool plain_sums(const struct finder *f, const struct step *s)
{
	if (s->kind != STEP_TASK || s->anchor < 0 || s->fused || s->task->nstages > 1 ||
	    s->task->stage[0].comb != COMB_SUM || s->task->stage[0].nreads < 2)
		return false;
	int v = s->value[out_operand(s->task)];
	return v >= 0 && v < f->nvalues && blockable(f, &f->s->value[v].buf) &&
	       !block_of(&s->task->operand[s->task->stage[0].read[0].operand]);
}

/* Marks the regions whose channels leave lanes unused or at whose border values are converted; of plain
 * regions those with convolutions. */
static void mark(const struct finder *f, bool *worth)
{
	for (int v = 0; v < f->nvalues; v++) {
		const struct operand *o = &f->s->value[v].buf;
		if (block_of(o) && o->dims.d[1] % block_of(o))
			worth[region_of(f->region, v)] = true;
	}
	for (int i = 0; i < f->s->nsteps; i++) {
		const struct step *s = &f->s->step[i];
		if (s->kind == STEP_TASK && s->anchor < 0 &&
		    block_of(&f->s->value[f->s->value[s->value[0]].of].buf))
			worth[region_of(f->region, f->s->value[s->value[0]].of)] = true;
		if (plain_sums(f, s))
			worth[region_of(f->region, s->value[out_operand(s->task)])] = true;
	}
}

/* Adds the alternative in which blocked regions become plain, or plain ones blocked: this region and all that
 * begin with a value of the same shape. */
static void other(struct finder *f, int region, bool *worth)
{
	struct choices c = *f->now;
	double flops = 0;
	const struct shape *first = &f->g->value[region].t.shape;
	for (int v = region; v < f->nvalues; v++) {
		int r = region_of(f->region, v);
		if (!alike(f, v, region) || !worth[r] || !shape_equal(&f->g->value[r].t.shape, first))
			continue;
		choices_set(&c, f->a, CHOICE_LANES, f->g->value[v].name,
			    block_of(&f->s->value[v].buf) ? 1 : f->lanes);
		flops += FLOPS_EACH * (double)shape_count(&f->g->value[v].t.shape);
	}
	for (int v = region + 1; v < f->nvalues; v++)
		if (alike(f, v, region) && shape_equal(&f->g->value[v].t.shape, first))
			worth[v] = false;
	worth[region] = false;
	add(f, c, flops);
}

static int regions(struct finder *f)
{
	while (f->nvalues < f->s->nvalues && f->s->value[f->nvalues].of == f->nvalues)
		f->nvalues++;
	bool *worth = arena_try(f->a, (size_t)f->nvalues + 1, sizeof *worth);
	f->region = arena_try(f->a, (size_t)f->nvalues + 1, sizeof *f->region);
	if (!worth || !f->region)
		return E_NOMEM;
	f->lanes = 1;
	for (int v = 0; v < f->nvalues; v++) {
		f->region[v] = v;
		f->lanes =
		    block_of(&f->s->value[v].buf) > f->lanes ? block_of(&f->s->value[v].buf) : f->lanes;
	}
	f->lanes = f->lanes > 1 ? f->lanes : LANES;
	for (int i = 0; i < f->s->nsteps; i++)
		unite_step(f, &f->s->step[i]);
	mark(f, worth);
	for (int v = 0, n = 0; v < f->nvalues && n < MAX_REGIONS; v++)
		if (worth[v])
			other(f, v, worth), n++;
	return E_OK;
}

/* Adds the alternative in which all blocks from step i on with the same task are fused if they are not, or
 * split into their groups if they are. */
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
			if (f->s->step[p].fused_by == i && f->s->step[p].anchor >= 0)
				choices_set(&c, f->a, CHOICE_FUSE, f->g->node[f->s->step[p].anchor].name, 1);
	}
	add(f, c, flops);
}

bool steps_leave_bytes(const struct graph *g, const struct steps *steps, const struct choices *now)
{
	static const char *const products[] = {"QLinearConv", "QLinearMatMul", "ConvInteger",
					       "MatMulInteger"};
	for (int i = 0; i < steps->nsteps && !choices_get(now, CHOICE_BYTES, CHOICE_ALL, 0); i++) {
		const struct step *s = &steps->step[i];
		const struct node *n = s->kind == STEP_HOST ? &g->node[s->node] : NULL;
		for (int k = 0; n && k < 4; k++)
			if (!strcmp(node_type(n), products[k]))
				return true;
	}
	return false;
}

/* Leaves a convolution of few channels to portable code: kernels multiply groups of four channels, of which
 * an image has three. */
static void leave_stem(struct finder *f, const struct step *s)
{
	const struct node *n = &f->g->node[s->anchor];
	int at = !strcmp(node_type(n), "QLinearConv") ? 3 : !strcmp(node_type(n), "ConvInteger") ? 1 : -1;
	const struct shape *w = at >= 0 && n->nin > at ? &f->g->value[n->in[at]].t.shape : NULL;
	if (!w || w->rank < 3 || w->d[1] % 4 == 0 || w->d[1] == 1)
		return;
	struct choices c = *f->now;
	choices_set(&c, f->a, CHOICE_BYTES, n->name, 0);
	add(f, c, task_flops(s->task));
}

/* Puts all operators on bytes into kernels. */
static void take_bytes(struct finder *f)
{
	struct choices c = *f->now;
	choices_set(&c, f->a, CHOICE_BYTES, CHOICE_ALL, 1);
	add(f, c, INFINITY);
}

int graph_alternatives(const struct graph *g, const struct steps *s, const struct choices *now,
		       struct arena *a, struct choices **out)
{
	size_t most = 3 * (size_t)s->nsteps + MAX_REGIONS + 3;
	struct finder f = {.g = g, .s = s, .now = now, .a = a};
	bool *parted = arena_try(a, most, sizeof *parted), *fused = arena_try(a, most, sizeof *parted);
	f.out = arena_try(a, most, sizeof *f.out);
	f.flops = arena_try(a, most, sizeof *f.flops);
	if (!parted || !fused || !f.out || !f.flops)
		return E_NOMEM;
	for (int i = 0; i < s->nsteps; i++) {
		if (s->step[i].kind != STEP_TASK || s->step[i].anchor < 0 || s->step[i].fused_by >= 0)
			continue;
		leave_stem(&f, &s->step[i]);
		if (!fused[i] && s->step[i].block > 1)
			blocks(&f, i, fused);
		if (!parted[i] && takes_residual(&s->step[i]))
			alone(&f, i, parted);
	}
	int rc = regions(&f);
	if (rc < 0)
		return rc;
	if (now->n > (choices_get(now, CHOICE_BYTES, CHOICE_ALL, -1) >= 0))
		add(&f, (struct choices){0}, s->flops);
	if (steps_leave_bytes(g, s, now))
		take_bytes(&f);
	*out = f.out;
	return f.n;
}
