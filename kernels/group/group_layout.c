/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts. A value has one native form; a reader that needs another form gets a variant, made by a conversion
 * step (or, for a constant, packed when the plan is built). A form is plain or blocked by channels, with or
 * without a halo.
 *
 * group_guess.c and layout_graph.c decide which native forms are blocked. A form gets the largest halo that
 * the windows over it need; the inputs of a Concat and the outputs of a Split share the halo of the whole.
 * Forms that are `exact` (host nodes, aliases) have no halo. */
#include "kernels/group/compose.h"
#include "kernels/group/group_parts.h"
#include "kernels/task/task_stage.h"

#include <stdio.h>
#include <string.h>

enum {
	MAX_HALO = 32,    /* larger overhangs are read with guards */
	SHARE_ROUNDS = 8, /* rounds that spread halos between wholes and parts that are wholes themselves */
};

struct variant {
	int of;    /* graph value; variants v < nvalues are the native forms of value v */
	int lanes; /* channels that lie together in memory; 1: plain */
	bool exact, haloed, made;
	float fill; /* 0 without a halo */
	int64_t lo[MAX_RANK], hi[MAX_RANK];
};

/* A group's step and its task before simplification. */
struct laid {
	int at;
	const struct task *task;
};

struct layer {
	struct graph *g;
	const struct groups *gr;
	struct arena *a;
	int lanes, nv, cap;
	struct variant *v;
	int (*want)[MAX_OPERANDS]; /* per group and operand: as in struct form */
	int (*use)[MAX_OPERANDS];  /* per group and operand: variant */
	int **host_in;             /* per group */
	int *ingests;              /* per group: the variant that it makes directly from an input of the
				    * model; -1: none */
	struct laid **laid;        /* per group that is in a block */
	struct steps *out;
};

static int add_variant(struct layer *l, int of, int lanes)
{
	if (l->nv == l->cap)
		return fail(E_NOMEM, "too many layouts");
	l->v[l->nv] = (struct variant){.of = of, .lanes = lanes};
	return l->nv++;
}

/* Finds or adds a form of value `of`. halo: it may get a halo with this fill; exact: it must have none. */
static int find(struct layer *l, int of, int lanes, bool halo, bool exact, float fill)
{
	for (int i = of; i < l->nv; i = i == of ? l->g->nvalues : i + 1) {
		const struct variant *v = &l->v[i];
		if (v->of != of || v->lanes != lanes || (exact && v->haloed))
			continue;
		if (halo && (v->exact || (v->haloed && v->fill != fill)))
			continue;
		return i;
	}
	return add_variant(l, of, lanes);
}

enum need operand_overhang(const struct task *t, int operand, int64_t *lo, int64_t *hi)
{
	enum need need = NEED_ANY;
	memset(lo, 0, sizeof *lo * MAX_RANK);
	memset(hi, 0, sizeof *hi * MAX_RANK);
	for (int k = 0; k < t->nstages; k++) {
		const struct stage *s = &t->stage[k];
		for (int i = 0; i < s->nreads; i++) {
			const struct read *r = &s->read[i];
			for (int d = 0; d < t->operand[operand].dims.rank && r->operand == operand; d++) {
				if (!index_guarded(t, s, r, d))
					continue;
				int64_t a, b, size = t->operand[operand].dims.d[d];
				index_range(s, &r->dim[d], &a, &b);
				lo[d] = -a > lo[d] ? -a : lo[d];
				hi[d] = b - size + 1 > hi[d] ? b - size + 1 : hi[d];
				bool window = d != 1 && lo[d] <= MAX_HALO && hi[d] <= MAX_HALO &&
					      r->dim[d].mod <= 1 && r->dim[d].table < 0;
				need = window && need != NEED_EXACT ? NEED_HALO : NEED_EXACT;
			}
		}
	}
	return need;
}

static int choose_task(struct layer *l, int group, enum need round)
{
	const struct group *p = &l->gr->group[group];
	int64_t lo[MAX_RANK], hi[MAX_RANK];
	for (int i = 0; i < p->task->noperands; i++) {
		const struct operand *o = &p->task->operand[i];
		if (o->role == ROLE_OUT)
			l->use[group][i] = p->out;
		if (o->role == ROLE_OUT || o->role == ROLE_TMP ||
		    operand_overhang(p->task, i, lo, hi) != round)
			continue;
		int v =
		    find(l, p->value[i], l->want[group][i], round == NEED_HALO, round == NEED_EXACT, o->fill);
		if (v < 0)
			return v;
		l->use[group][i] = v;
		for (int d = 0; d < MAX_RANK && round == NEED_HALO; d++) {
			struct variant *x = &l->v[v];
			x->haloed = true;
			x->fill = o->fill;
			x->lo[d] = lo[d] > x->lo[d] ? lo[d] : x->lo[d];
			x->hi[d] = hi[d] > x->hi[d] ? hi[d] : x->hi[d];
		}
	}
	return E_OK;
}

static void fill_value(const struct layer *l, int i, struct step_value *out)
{
	const struct variant *v = &l->v[i];
	const struct tensor *x = &l->g->value[v->of].t;
	*out = (struct step_value){.of = v->of, .constant = x->data != NULL};
	out->buf.dtype = x->dtype;
	out->buf.role = x->data ? ROLE_CONST : ROLE_IN;
	out->buf.dims.rank = x->shape.rank;
	memcpy(out->buf.dims.d, x->shape.d, sizeof *x->shape.d * (size_t)x->shape.rank);
	if (v->lanes > 1)
		layout_blocked(&out->buf.layout, x->shape.rank, 1, v->lanes);
	memcpy(out->buf.layout.lo, v->lo, sizeof v->lo);
	memcpy(out->buf.layout.hi, v->hi, sizeof v->hi);
	out->buf.fill = v->fill;
}

static bool same_form(const struct variant *x, const struct variant *y)
{
	return x->lanes == y->lanes && !memcmp(x->lo, y->lo, sizeof x->lo) &&
	       !memcmp(x->hi, y->hi, sizeof x->hi) && x->fill == y->fill;
}

/* The form in which Concat reads v, whose place in the whole begins at `at` of the axis: the whole's form, so
 * that the conversion kernel writes v into its place, or else the native form, which is copied. */
static int choose_part(struct layer *l, int v, int whole, int axis, int64_t at)
{
	struct variant form = l->v[whole];
	struct step_value w, part;
	if (l->g->value[v].t.data || same_form(&l->v[v], &form))
		return v;
	form.of = v;
	form.exact = form.made = false;
	for (int i = l->g->nvalues; i < l->nv; i++)
		if (l->v[i].of == v && same_form(&l->v[i], &form))
			return i;
	int i = add_variant(l, v, form.lanes);
	if (i < 0)
		return i;
	l->v[i] = form;
	fill_value(l, whole, &w);
	fill_value(l, i, &part);
	if (operand_inside(&part.buf, &w.buf, axis, at) >= 0)
		return i;
	l->nv--;
	return v;
}

static int choose_concat(struct layer *l, const struct node *n, int *in)
{
	const struct shape *whole = &l->g->value[n->out[0]].t.shape;
	int64_t axis = node_int(n, "axis", 1), at = 0;
	axis += axis < 0 ? whole->rank : 0;
	for (int i = 0; i < n->nin; i++) {
		in[i] = n->in[i] < 0 ? -1 : choose_part(l, n->in[i], n->out[0], (int)axis, at);
		if (in[i] < 0 && n->in[i] >= 0)
			return in[i];
		at += n->in[i] < 0 ? 0 : l->g->value[n->in[i]].t.shape.d[axis];
	}
	return E_OK;
}

/* Host nodes and aliases read exact plain forms. Nodes that accept any layout read native forms or, for
 * Concat, the whole's. */
static int choose_host(struct layer *l, int group)
{
	const struct group *p = &l->gr->group[group];
	const struct node *n = &l->g->node[p->anchor];
	bool any = p->kind == STEP_HOST && step_any_layout(l->g, p->anchor);
	l->host_in[group] = arena_try(l->a, (size_t)n->nin + 1, sizeof(int));
	if (!l->host_in[group])
		return E_NOMEM;
	if (any && !strcmp(node_type(n), "Concat"))
		return choose_concat(l, n, l->host_in[group]);
	for (int i = 0; i < n->nin; i++) {
		int v = n->in[i];
		if (v >= 0 && !any)
			v = find(l, v, 1, false, true, 0);
		if (v < 0 && n->in[i] >= 0)
			return v;
		l->host_in[group][i] = v;
	}
	return E_OK;
}

/* Whether form v may have x's halo: it has no halo with another fill, and no reader needs it without a
 * halo. */
static bool may_share(const struct variant *v, const struct variant *x)
{
	return !v->exact && !x->exact && v->lanes == x->lanes &&
	       (!v->haloed || !x->haloed || v->fill == x->fill);
}

/* Gives both forms the larger halo of each dim. True: something changed. */
static bool share_halo(struct variant *v, struct variant *x)
{
	bool changed = v->haloed != x->haloed;
	for (int d = 0; d < MAX_RANK; d++) {
		int64_t lo = v->lo[d] > x->lo[d] ? v->lo[d] : x->lo[d];
		int64_t hi = v->hi[d] > x->hi[d] ? v->hi[d] : x->hi[d];
		changed |= v->lo[d] != lo || x->lo[d] != lo || v->hi[d] != hi || x->hi[d] != hi;
		v->lo[d] = x->lo[d] = lo;
		v->hi[d] = x->hi[d] = hi;
	}
	v->fill = x->fill = v->haloed ? v->fill : x->fill;
	v->haloed = x->haloed = v->haloed || x->haloed;
	return changed;
}

/* Gives the output of a Concat and its inputs, and the input of a Split and its outputs, the same halo if
 * their layouts are otherwise equal. Then a part can be a view of the whole (group_views.c) and is not
 * copied. */
static void share_halos(struct layer *l)
{
	bool changed = true;
	for (int round = 0; round < SHARE_ROUNDS && changed; round++) {
		changed = false;
		for (int i = 0; i < l->gr->n; i++) {
			const struct group *p = &l->gr->group[i];
			const struct node *n = &l->g->node[p->anchor];
			bool join = p->kind == STEP_HOST && !strcmp(node_type(n), "Concat");
			if (p->kind != STEP_HOST || !step_any_layout(l->g, p->anchor))
				continue;
			struct variant *whole = &l->v[join ? n->out[0] : n->in[0]];
			for (int k = 0; k < (join ? n->nin : n->nout); k++) {
				int v = join ? n->in[k] : n->out[k];
				if (v >= 0 && may_share(&l->v[v], whole))
					changed |= share_halo(&l->v[v], whole);
			}
		}
	}
}

static int choose(struct layer *l)
{
	static const enum need rounds[] = {NEED_HALO, NEED_ANY, NEED_EXACT};
	int rc = E_OK;
	for (int r = 0; r < 3; r++) {
		if (r == 1)
			share_halos(l);
		for (int i = 0; i < l->gr->n && rc >= 0; i++)
			if (l->gr->group[i].kind == STEP_TASK)
				rc = choose_task(l, i, rounds[r]);
	}
	for (int i = 0; i < l->gr->n && rc >= 0; i++)
		if (l->gr->group[i].kind != STEP_TASK)
			rc = choose_host(l, i);
	return rc;
}

static struct step *add_step(struct layer *l, enum step_kind kind, const char *name, int anchor)
{
	struct step *s = &l->out->step[l->out->nsteps++];
	*s = (struct step){.kind = kind, .name = name, .anchor = anchor, .fused_by = -1, .node = -1};
	for (int i = 0; i < MAX_OPERANDS; i++)
		s->value[i] = -1;
	return s;
}

static int finish_task(struct layer *l, struct step *s)
{
	task_simplify(s->task);
	int rc = task_check(s->task);
	l->out->flops += s->fused ? 0 : task_flops(s->task);
	return fail_in(rc, "step %s", s->name);
}

/* Makes the task that copies a value's native form into variant i. */
static struct task *conversion(const struct layer *l, int i)
{
	const struct variant *v = &l->v[i];
	struct task *t = ARENA_NEW(l->gr->work, struct task);
	struct stage *st = &t->stage[0];
	const struct operand *from = &l->out->value[v->of].buf, *to = &l->out->value[i].buf;
	t->noperands = 2;
	t->nstages = 1;
	t->operand[0] = *from;
	t->operand[1] = *to;
	t->operand[1].role = ROLE_OUT;
	t->operand[0].fill = t->operand[1].fill = 0;
	st->nreads = 1;
	st->naxes = from->dims.rank;
	st->body.n = 1;
	st->read[0].operand = 0;
	st->out.operand = 1;
	for (int d = 0; d < MAX_RANK; d++) {
		st->read[0].dim[d].table = st->out.dim[d].table = -1;
		if (d >= st->naxes)
			continue;
		snprintf(st->axis[d].name, sizeof st->axis[d].name, "d%c", '0' + d);
		st->axis[d].extent = from->dims.d[d];
		st->read[0].dim[d].coef[d] = st->out.dim[d].coef[d] = 1;
	}
	return t;
}

static int add_conversion(struct layer *l, int i)
{
	int of = l->v[i].of;
	struct step *s = add_step(l, STEP_TASK, arena_printf(l->a, "convert %s", l->g->value[of].name), -1);
	s->task = conversion(l, i);
	s->value[0] = of;
	s->value[1] = i;
	return finish_task(l, s);
}

static int need_variant(struct layer *l, int i)
{
	if (i < l->g->nvalues || l->v[i].made || l->out->value[i].constant)
		return E_OK;
	l->v[i].made = true;
	return add_conversion(l, i);
}

/* Adds the copy with which the block's first group begins, if there is one. */
static bool add_ingest(const struct layer *l, int group, struct block *b)
{
	int i = l->ingests[group];
	return i < 0 || block_add(b, conversion(l, i), (int[]){l->v[i].of, i}, false);
}

/* Called after the last group of a block: makes the step that does the whole block. */
static int add_block(struct layer *l, int last)
{
	const struct group *gr = l->gr->group;
	int first = last;
	while (gr[first].prev >= 0)
		first = gr[first].prev;
	struct block b = {.task = ARENA_NEW(l->gr->work, struct task)};
	bool fits = add_ingest(l, first, &b);
	for (int i = first; i >= 0 && fits; i = gr[i].next)
		fits = block_add(&b, l->laid[i]->task, l->out->step[l->laid[i]->at].value, i == last);
	if (!fits || !block_runs(b.task))
		return E_OK;
	int tmp = task_delay_factor(b.task);
	if (tmp >= 0)
		memmove(&b.value[tmp], &b.value[tmp + 1], sizeof *b.value * (size_t)(MAX_OPERANDS - 1 - tmp));
	struct step *s = add_step(l, STEP_TASK, l->g->node[gr[first].anchor].name, gr[first].anchor);
	s->task = b.task;
	s->fused = true;
	memcpy(s->value, b.value, sizeof *s->value * (size_t)b.task->noperands);
	int at = (int)(s - l->out->step);
	for (int i = first; i >= 0; i = gr[i].next, s->block++)
		l->out->step[l->laid[i]->at].fused_by = at;
	for (int i = 0; i < at && l->ingests[first] >= 0; i++)
		if (l->out->step[i].anchor < 0 && l->out->step[i].value[1] == l->ingests[first])
			l->out->step[i].fused_by = at;
	return finish_task(l, s);
}

static int add_task(struct layer *l, int group)
{
	const struct group *p = &l->gr->group[group];
	int rc = E_OK, n = p->task->noperands;
	for (int i = 0; i < n && rc >= 0; i++)
		if (p->value[i] >= 0)
			rc = need_variant(l, l->use[group][i]);
	if (rc < 0)
		return rc;
	struct step *s = add_step(l, STEP_TASK, l->g->node[p->anchor].name, p->anchor);
	s->task = p->task;
	s->joined = p->joined;
	s->block = p->block;
	for (int i = 0; i < n; i++) {
		struct operand *o = &s->task->operand[i];
		if (p->value[i] < 0)
			continue;
		int64_t lo[MAX_RANK], hi[MAX_RANK];
		bool outside = o->role != ROLE_OUT && operand_overhang(s->task, i, lo, hi) != NEED_ANY;
		s->value[i] = l->use[group][i];
		o->layout = l->out->value[s->value[i]].buf.layout;
		o->fill = outside ? o->fill : 0;
	}
	bool first = l->ingests[group] >= 0;
	if (first || p->prev >= 0 || p->next >= 0) {
		struct laid *laid = l->laid[group] = ARENA_NEW(l->a, struct laid);
		*laid = (struct laid){(int)(s - l->out->step), task_dup(l->a, s->task)};
	}
	rc = finish_task(l, s);
	return rc >= 0 && (first || p->prev >= 0) && p->next < 0 ? add_block(l, group) : rc;
}

static int add_host(struct layer *l, int group)
{
	const struct group *p = &l->gr->group[group];
	const struct node *n = &l->g->node[p->anchor];
	int rc = E_OK, nin = p->kind == STEP_ALIAS ? 1 : n->nin;
	for (int i = 0; i < nin && rc >= 0; i++)
		if (l->host_in[group][i] >= 0)
			rc = need_variant(l, l->host_in[group][i]);
	if (rc < 0)
		return rc;
	struct step *s = add_step(l, p->kind, n->name, p->anchor);
	if (p->kind == STEP_ALIAS) {
		s->value[0] = l->host_in[group][0];
		s->value[1] = n->out[0];
	} else {
		s->node = p->anchor;
		s->host_in = l->host_in[group];
	}
	return rc;
}

static int begin(struct layer *l)
{
	const struct graph *g = l->g;
	size_t uses = (size_t)g->nvalues + 1, n = (size_t)l->gr->n + 1;
	for (int i = 0; i < l->gr->n; i++) {
		const struct group *p = &l->gr->group[i];
		uses += p->kind == STEP_TASK ? (size_t)p->task->noperands : (size_t)g->node[p->anchor].nin;
	}
	l->cap = (int)uses;
	l->nv = g->nvalues;
	l->v = arena_try(l->a, uses, sizeof *l->v);
	l->want = arena_try(l->a, n, sizeof *l->want);
	l->use = arena_try(l->a, n, sizeof *l->use);
	l->host_in = arena_try(l->a, n, sizeof *l->host_in);
	l->laid = arena_try(l->a, n, sizeof *l->laid);
	l->ingests = arena_try(l->a, n, sizeof *l->ingests);
	if (!l->v || !l->want || !l->use || !l->host_in || !l->laid || !l->ingests)
		return E_NOMEM;
	return E_OK;
}

enum { QUAD = 4 /* bytes of a dot product */ };

/* Whether operand i is an image of few channels of bytes, over which a convolution sums: in blocks of four it
 * takes dot products. */
static bool wants_quads(const struct layer *l, const struct group *p, int i)
{
	const struct stage *s = &p->task->stage[0];
	const struct operand *o = &p->task->operand[i];
	int axis = channel_axis(p->task, i);
	return group_convolves(l->g, p) && dtype_is_byte(o->dtype) && o->role == ROLE_IN &&
	       i == s->read[0].operand && o->dims.rank == 4 && axis >= 0 &&
	       s->axis[axis].kind == AXIS_REDUCTION && o->dims.d[1] > QUAD / 2 && o->dims.d[1] <= QUAD;
}

/* Whether all that reads value v wants blocks of four. */
static bool all_want_quads(const struct layer *l, int v)
{
	int n = 0;
	for (int k = 0; k < l->gr->n; k++) {
		const struct group *p = &l->gr->group[k];
		const struct node *node = &l->g->node[p->anchor];
		for (int i = 0; p->kind == STEP_TASK && i < p->task->noperands; i++) {
			if (p->value[i] != v || p->task->operand[i].role == ROLE_OUT)
				continue;
			if (l->want[k][i] != QUAD)
				return false;
			n++;
		}
		for (int i = 0; p->kind != STEP_TASK && i < node->nin; i++)
			if (node->in[i] == v)
				return false;
	}
	return n > 0;
}

static void take_quads(struct layer *l)
{
	for (int k = 0; k < l->gr->n; k++) {
		const struct group *p = &l->gr->group[k];
		for (int i = 0; p->kind == STEP_TASK && i < p->task->noperands; i++)
			if (l->want[k][i] == 1 && wants_quads(l, p, i))
				l->want[k][i] = QUAD;
	}
	for (int k = 0; k < l->gr->n; k++) { /* what a map writes has that form at once */
		const struct group *p = &l->gr->group[k];
		if (p->kind == STEP_TASK && p->task->nstages == 1 &&
		    stage_maps(p->task, &p->task->stage[0]) && l->v[p->out].lanes == 1 &&
		    !l->g->value[p->out].is_output && all_want_quads(l, p->out))
			l->v[p->out].lanes = QUAD;
	}
}

/* Decides the native forms. */
static int decide(struct layer *l, const struct target *t, const struct choices *c)
{
	struct form *form = arena_try(l->a, (size_t)l->g->nvalues + 1, sizeof *form);
	if (!form)
		return E_NOMEM;
	groups_guess_layout(l->g, l->gr, l->lanes, c, form, l->want);
	int rc = groups_choose_layout(l->g, l->gr, t, c, form, l->want);
	for (int v = 0; v < l->g->nvalues && rc >= 0; v++)
		l->v[v] = (struct variant){.of = v, .lanes = form[v].lanes, .exact = form[v].exact};
	if (rc >= 0)
		take_quads(l);
	return rc;
}

/* Finds those of the first n inputs that stay in the caller's form, before the other forms are chosen. */
static void begin_ingests(struct layer *l, int n)
{
	for (int i = 0; i < l->gr->n; i++)
		l->ingests[i] = -1;
	for (int k = 0; k < n; k++) {
		int v = l->g->input[k], operand, i = group_ingests(l->g, l->gr, v, &operand);
		if (i < 0 || l->v[v].lanes > 1 || l->want[i][operand] > 1)
			continue;
		l->v[v].exact = true;
		l->ingests[i] = operand;
	}
}

/* Sets the forms that the readers of these inputs were given. */
static void end_ingests(struct layer *l)
{
	for (int i = 0; i < l->gr->n; i++)
		l->ingests[i] = l->ingests[i] < 0 ? -1 : l->use[i][l->ingests[i]];
}

int groups_lay_out(struct graph *g, const struct groups *gr, const struct target *t, const struct choices *c,
		   struct arena *a, struct steps *out)
{
	struct layer l = {.g = g, .gr = gr, .a = a, .lanes = t->lanes, .out = out};
	int rc = begin(&l);
	if (rc < 0)
		return rc;
	if ((rc = decide(&l, t, c)) < 0)
		return rc;
	begin_ingests(&l, target_runs_items(t) ? 0 : g->ninputs);
	if ((rc = choose(&l)) < 0)
		return rc;
	end_ingests(&l);
	out->nvalues = l.nv;
	out->value = arena_try(a, (size_t)l.nv + 1, sizeof *out->value);
	out->step = arena_try(a, (size_t)(l.nv + 2 * gr->n) + 1, sizeof *out->step);
	if (!out->value || !out->step)
		return E_NOMEM;
	for (int i = 0; i < l.nv; i++)
		fill_value(&l, i, &out->value[i]);
	for (int i = 0; i < gr->n && rc >= 0; i++)
		rc = gr->group[i].kind == STEP_TASK ? add_task(&l, i) : add_host(&l, i);
	return rc;
}
