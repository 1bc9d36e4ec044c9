/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/plan_parts.h"
#include "agent/run/halo.h"
#include "agent/run/lifetimes.h"
#include "kernels/task/task_stage.h"
#include "platform/base/until.h"

#include <stdlib.h>
#include <string.h>

static int64_t round64(int64_t n)
{
	return (n + 63) / 64 * 64;
}

static size_t value_bytes(const struct plan *p, int v)
{
	return (size_t)p->place[v].elems * dtype_bytes(p->s->value[v].buf.dtype);
}

static bool is_of_tasks(enum dtype t)
{
	return t == DT_F32 || dtype_is_byte(t);
}

/* Returns whether a value keeps its memory for itself: other types than tasks compute with (and s32, which few
 * values have) must never become padding lanes of another value, kept values are never overwritten, and a halo on
 * a device is written once, when the plan is built. */
static bool stays(const struct plan *p, int v)
{
	const struct operand *o = &p->s->value[v].buf;
	bool halo = false;
	for (int d = 0; d < o->dims.rank && p->device; d++)
		halo |= o->layout.lo[d] || o->layout.hi[d];
	return p->keep || halo || !is_of_tasks(o->dtype);
}

/* The k-th value that a step touches, its reads first; -1: none at this index, STEP_END: past the last. */
static int touched(const struct plan *p, int step, int k)
{
	int v = -1, reads = 0;
	const struct step *s = p->step[step].step;
	while (reads <= k && (v = step_read(p->g, s, reads)) != STEP_END)
		reads++;
	v = k < reads ? v : step_write(p->g, s, k - reads);
	return v >= 0 && p->s->value[v].constant ? -1 : v;
}

/* Finds for each root the last step that touches it; nsteps for the model's outputs. */
static void find_last(const struct plan *p, int *last)
{
	for (int i = 0; i < p->nsteps; i++)
		for (int k = 0, v; (v = touched(p, i, k)) != STEP_END; k++)
			if (v >= 0)
				last[p->place[v].root] = i;
	for (int i = 0; i < p->g->noutputs; i++)
		last[p->place[p->g->output[i]].root] = p->nsteps;
}

/* Returns whether the portable part of a fallback kernel reads the operand after the compiled part has
 * written. */
static bool read_later(const struct pstep *ps, int operand)
{
	for (int k = 0; k < ps->nrest; k++)
		if (ps->rest_of[k] == operand)
			return true;
	return false;
}

/* Returns the value that a step's kernel may overwrite, and will, as nothing reads it later; -1: none. */
static int written_over(const struct plan *p, int step, const int *last)
{
	const struct pstep *ps = &p->step[step];
	const struct manifest *m = ps->code ? &ps->found->m : NULL;
	if (!m || m->alias_in < 0 || m->alias_out < 0)
		return -1;
	int in = m->buf[m->alias_in].operand, out = m->buf[m->alias_out].operand;
	int v = in < 0 || out < 0 ? -1 : ps->step->value[in];
	if (v < 0 || p->place[ps->step->value[out]].parent >= 0 || p->s->value[v].constant || stays(p, v) ||
	    read_later(ps, in))
		return -1;
	const struct operand *x = &p->s->value[v].buf, *y = &p->s->value[ps->step->value[out]].buf;
	int uses = 0, root = p->place[v].root;
	for (int k = 0, u; (u = touched(p, step, k)) != STEP_END; k++)
		uses += u >= 0 && p->place[u].root == root;
	return uses == 1 && last[root] == step && y->dtype == x->dtype && y->fill == x->fill &&
		       operand_elems(x) == operand_elems(y) && task_overwrites(ps->step->task, in)
		   ? v
		   : -1;
}

/* Updates a value's root and offset after its parent's changed. */
static void follow_parent(struct plan *p, int v)
{
	struct place *x = &p->place[v];
	if (x->parent < 0)
		return;
	x->root = p->place[x->parent].root;
	x->offset = p->place[x->parent].offset + x->at;
}

/* Finds the values that share memory: views, and an output that overwrites an input. */
static int find_roots(struct plan *p)
{
	int *last = arena_try(&p->a, (size_t)p->s->nvalues + 1, sizeof *last);
	if (!last)
		return E_NOMEM;
	plan_views(p);
	find_last(p, last);
	for (int i = 0; i < p->nsteps; i++) {
		const struct step *s = p->step[i].step;
		int over = written_over(p, i, last), out = -1;
		for (int k = 0, v; over >= 0 && (v = step_write(p->g, s, k)) != STEP_END; k++)
			out = v >= 0 ? v : out;
		if (out >= 0) {
			last[p->place[over].root] = last[out];
			p->place[out].parent = over;
		}
		for (int k = 0, v; (v = step_write(p->g, s, k)) != STEP_END; k++)
			if (v >= 0)
				follow_parent(p, v);
	}
	return E_OK;
}

static void ask(struct plan *p, int v, int64_t elems)
{
	int64_t end = p->place[v].offset + elems;
	struct place *root = &p->place[p->place[v].root];
	root->elems = end > root->elems ? end : root->elems;
}

/* Elements per value: its layout's, and what kernels declare. */
static void size_values(struct plan *p)
{
	for (int v = 0; v < p->s->nvalues; v++) {
		p->place[v].lifetime = -1;
		ask(p, v, operand_elems(&p->s->value[v].buf));
	}
	for (int i = 0; i < p->nsteps; i++) {
		const struct pstep *ps = &p->step[i];
		for (int b = 0; ps->code && b < ps->nbufs; b++) {
			const struct code_buf *cb = &ps->found->m.buf[b];
			if (cb->operand < 0 || cb->packed || ps->step->value[cb->operand] < 0)
				continue;
			ask(p, ps->step->value[cb->operand], cb->elems);
		}
	}
}

/* Returns whether kernels use an input or output in the caller's memory: only kernels touch it, in its plain
 * layout, and not past its end. */
static bool is_given(const struct plan *p, int v, bool output)
{
	int outputs = 0;
	for (int i = 0; i < p->g->noutputs; i++)
		outputs += p->g->output[i] == v;
	const struct operand *o = &p->s->value[v].buf;
	const struct place *x = &p->place[v];
	bool plain = o->layout.n == 0 && operand_elems(o) == shape_count(&o->dims);
	if (p->keep || p->device || !is_of_tasks(o->dtype) || !plain || x->parent >= 0 || x->elems > operand_elems(o) ||
	    outputs != output || p->s->value[v].constant || (output && (p->whole || p->g->value[v].is_input)))
		return false;
	for (int i = 0; i < p->s->nvalues; i++)
		if (i != v && p->place[i].root == v)
			return false;
	for (int i = 0; i < p->nsteps; i++)
		for (int k = 0, u; (u = touched(p, i, k)) != STEP_END; k++)
			if (u == v && p->step[i].step->kind != STEP_TASK)
				return false;
	return true;
}

static void use(struct plan *p, struct lifetime *l, int *n, int v, int at)
{
	if (v < 0 || p->s->value[v].constant || p->place[v].given)
		return;
	struct place *x = &p->place[p->place[v].root];
	if (x->lifetime < 0) {
		x->lifetime = (*n)++;
		l[x->lifetime] = (struct lifetime){(int64_t)value_bytes(p, p->place[v].root), at, at, 0};
	}
	l[x->lifetime].to = at > l[x->lifetime].to ? at : l[x->lifetime].to;
}

/* The value's memory is for nothing else. Inputs and outputs of a plan on a device are such values: the caller
 * may write the next inputs there (plan_in_place) while it still needs the outputs. */
static void occupy(const struct plan *p, struct lifetime *l, int v)
{
	int i = p->place[p->place[v].root].lifetime;
	if (i >= 0)
		l[i].from = -1, l[i].to = p->nsteps;
}

/* Uses in order: inputs before all steps, outputs after. */
static int find_lifetimes(struct plan *p, struct lifetime *l)
{
	int n = 0;
	for (int i = 0; i < p->g->ninputs; i++)
		use(p, l, &n, p->g->input[i], -1);
	for (int i = 0; i < p->nsteps; i++)
		for (int k = 0, v; (v = touched(p, i, k)) != STEP_END; k++)
			use(p, l, &n, v, i);
	for (int i = 0; i < p->g->noutputs; i++)
		use(p, l, &n, p->g->output[i], p->nsteps);
	for (int v = 0; v < p->s->nvalues; v++)
		if (p->place[v].lifetime >= 0 && stays(p, v))
			occupy(p, l, v);
	for (int i = 0; i < p->g->ninputs && p->device; i++)
		occupy(p, l, p->g->input[i]);
	for (int i = 0; i < p->g->noutputs && p->device; i++)
		occupy(p, l, p->g->output[i]);
	return n;
}

void plan_set_halo(const struct plan *p, int v, int64_t begin, int64_t end, int64_t extent)
{
	const struct place *x = &p->place[v];
	int64_t first = extent ? begin * x->nhalo / extent : 0, last = extent ? end * x->nhalo / extent : 0;
	halo_set(x->halo + first, (int)(last - first), p->s->value[v].buf.dtype, p->s->value[v].buf.fill,
		 x->p);
}

/* Returns whether a value has elements that kernels read though nothing may have written them: padding lanes,
 * or more elements than its layout has. Kernels multiply these by zero, so they must be finite. */
static bool reads_padding(const struct plan *p, int v)
{
	int64_t halo = 1;
	const struct operand *o = &p->s->value[v].buf;
	for (int d = 0; d < o->dims.rank; d++)
		halo *= o->dims.d[d] + o->layout.lo[d] + o->layout.hi[d];
	return p->place[v].elems > operand_elems(o) || operand_elems(o) > halo;
}

/* Marks the lifetimes that may not share memory with bytes, which may be no finite floats: floats with
 * padding. all: marks all that are not bytes. Returns whether there are bytes. */
static bool mark_floats(const struct plan *p, bool all, bool *mark)
{
	bool bytes = false;
	for (int v = 0; v < p->s->nvalues; v++) {
		int l = p->place[p->place[v].root].lifetime;
		bool byte = dtype_is_byte(p->s->value[v].buf.dtype);
		if (l < 0)
			continue;
		bytes |= byte;
		mark[l] |= !byte && (all || reads_padding(p, v));
	}
	return bytes;
}

/* Places those of n lifetimes whose mark is `which`, from byte `begin` on. Returns how many bytes they take.
 */
static int64_t place_marked(struct lifetime *l, int n, const bool *mark, bool which, int64_t begin,
			    struct lifetime *some)
{
	int k = 0;
	for (int i = 0; i < n; i++)
		if (mark[i] == which)
			some[k++] = l[i];
	int64_t bytes = lifetimes_place(some, k);
	k = 0;
	for (int i = 0; i < n && bytes >= 0; i++)
		if (mark[i] == which)
			l[i].at = begin + some[k++].at;
	return bytes < 0 ? bytes : round64(bytes);
}

/* Places all lifetimes, and those of bytes apart from floats with padding: the unmarked share no memory with
 * the marked. Of the two ways to mark, the one that takes less memory is used. */
static int place_lifetimes(struct plan *p, struct lifetime *l, int n)
{
	int64_t least = -1;
	bool more = true;
	for (int all = 1; all >= 0 && more; all--) {
		bool *mark = arena_try(&p->making, (size_t)n + 1, sizeof *mark);
		struct lifetime *at = arena_try(&p->making, 2 * (size_t)n + 1, sizeof *at);
		if (!mark || !at)
			return E_NOMEM;
		if (n)
			memcpy(at, l, sizeof *at * (size_t)n);
		more = mark_floats(p, all, mark);
		int64_t floats = place_marked(at, n, mark, true, 0, at + n),
			rest = floats < 0 ? floats : place_marked(at, n, mark, false, floats, at + n);
		if (rest < 0)
			return (int)rest;
		if (n && (least < 0 || floats + rest < least))
			memcpy(l, at, sizeof *at * (size_t)n);
		least = least < 0 || floats + rest < least ? floats + rest : least;
	}
	p->memory_bytes = (size_t)least;
	p->live_bytes = lifetimes_least(l, n);
	return E_OK;
}

static int place_values(struct plan *p)
{
	struct lifetime *l = arena_try(&p->a, (size_t)p->s->nvalues + 1, sizeof *l);
	if (!l)
		return E_NOMEM;
	int n = find_lifetimes(p, l), rc = place_lifetimes(p, l, n);
	if (rc < 0)
		return rc;
	if ((rc = pages_open(&p->memory, p->memory_bytes, PAGES_PLAIN)) < 0)
		return fail_in(rc, "tensors");
	for (int v = 0; v < p->s->nvalues && rc >= 0; v++) {
		struct place *x = &p->place[v];
		int li = p->place[x->root].lifetime;
		if (li < 0)
			continue;
		x->p = (char *)p->memory.p + l[li].at +
		       x->offset * (int64_t)dtype_bytes(p->s->value[x->root].buf.dtype);
		rc = x->nhalo = halo_find(&p->s->value[v].buf, &p->a, &x->halo);
		for (int j = 0; j < n && x->nhalo; j++)
			x->refill |=
			    j != li && l[j].at < l[li].at + l[li].bytes && l[li].at < l[j].at + l[j].bytes;
		plan_set_halo(p, v, 0, 1, 1);
	}
	return rc;
}

/* How constant operand i of a step is packed; NULL: it lies as held_as says. */
static const struct packing *packing_of(const struct pstep *ps, int i)
{
	for (int b = 0; ps->code && b < ps->nbufs; b++)
		if (ps->found->m.buf[b].operand == i && ps->found->m.buf[b].packed)
			return &ps->found->m.buf[b].packing;
	return NULL;
}

/* Operand i as the kernel that reads it wants it in memory. */
static const struct operand *held_as(const struct pstep *ps, int i)
{
	for (int k = 0; k < ps->ncore; k++)
		if (ps->core_of[k] == i)
			return &ps->core[k];
	for (int k = 0; k < ps->nrest; k++)
		if (ps->rest_of[k] == i)
			return &ps->rest[k];
	return ps->host ? &ps->packed[i] : &ps->step->task->operand[i];
}

static int64_t weight_elems(const struct pstep *ps, int i)
{
	const struct packing *pack = packing_of(ps, i);
	const struct operand *o = held_as(ps, i);
	int64_t n = pack ? pack_elems(pack) : operand_elems(o);
	for (int b = 0; ps->code && b < ps->nbufs; b++)
		if (ps->found->m.buf[b].operand == i && ps->found->m.buf[b].elems > n)
			n = ps->found->m.buf[b].elems;
	return n;
}

static int64_t weight_bytes(const struct pstep *ps, int i)
{
	const struct packing *pack = packing_of(ps, i);
	enum dtype t = held_as(ps, i)->dtype;
	return weight_elems(ps, i) * (int64_t)dtype_bytes(pack ? pack_type(pack, t) : t);
}

/* Logical dims may have been merged: the data is the same, plain. */
static void pack_weight(const struct plan *p, const struct pstep *ps, int i, void *to)
{
	const struct packing *pack = packing_of(ps, i);
	const void *from = p->g->value[p->s->value[ps->step->value[i]].of].t.data;
	const struct operand *o = held_as(ps, i);
	if (pack)
		pack_run_type(pack, o->dtype, from, to);
	else
		operand_pack(o, from, to);
}

/* Constant operand i of a step lies at `to`. buf[i] of a host task is operand i's address. */
static void bind_weight(struct pstep *ps, int i, char *to)
{
	for (int b = 0; b < ps->nbufs; b++)
		if (ps->code ? ps->found->m.buf[b].operand == i : b == i)
			ps->buf[b] = to;
	for (int k = 0; k < ps->nrest; k++)
		if (ps->rest_of[k] == i)
			ps->tail_buf[k] = to;
}

/* A packed constant: operand `i` of a step lies at `at`, or, if another plan lends it, there. */
struct copy {
	const struct pstep *ps;
	int i;
	int64_t at;
	char *lent;
};

/* Returns whether the copy also suits operand i of another step. */
static bool same_copy(const struct copy *c, const struct pstep *ps, int i)
{
	if (!c->ps || weight_elems(c->ps, c->i) != weight_elems(ps, i))
		return false;
	const struct packing *a = packing_of(c->ps, c->i), *b = packing_of(ps, i);
	const struct operand *x = held_as(c->ps, c->i), *y = held_as(ps, i);
	if (x->dtype != y->dtype)
		return false;
	if (a || b)
		return a && b && pack_same(a, b);
	return shape_equal(&x->dims, &y->dims) && layout_equal(&x->layout, &y->layout) && x->fill == y->fill;
}

/* Returns constant `of` as operand i of a step wants it, if the plan `from` has it so; NULL: it has not. */
static char *find_lent(const struct plan *from, int of, const struct pstep *ps, int i)
{
	for (const struct lent *l = from ? from->lent : NULL; l; l = l->next) {
		const struct packing *pack = packing_of(ps, i);
		const struct operand *o = held_as(ps, i);
		if (l->of != of || l->elems != weight_elems(ps, i) || l->is_packed != (pack != NULL) ||
		    l->form.dtype != o->dtype)
			continue;
		if (pack ? pack_same(&l->pack, pack)
			 : shape_equal(&l->form.dims, &o->dims) &&
			       layout_equal(&l->form.layout, &o->layout) && l->form.fill == o->fill)
			return l->at;
	}
	return NULL;
}

/* Notes a copy for plans that are built beside this one. Without memory for it they pack their own. */
static void lend(struct plan *p, int of, const struct pstep *ps, int i, char *at)
{
	const struct packing *pack = packing_of(ps, i);
	struct lent *l = arena_try(&p->a, 1, sizeof *l);
	if (!l)
		return;
	*l = (struct lent){.next = p->lent,
			   .of = of,
			   .elems = weight_elems(ps, i),
			   .is_packed = pack != NULL,
			   .form = *held_as(ps, i),
			   .at = at};
	if (pack)
		l->pack = *pack;
	p->lent = l;
}

/* Places constants of nodes that run in C, from `at` on, with the weights if they are to be written out.
 * Returns where they end. */
static int64_t node_weights(struct plan *p, struct pstep *ps, char *weights, int64_t at)
{
	for (int i = 0; p->image && ps->step->kind == STEP_HOST && i < ps->ctx.nin; i++) {
		struct tensor *t = &ps->ctx.in[i];
		if (ps->step->host_in[i] < 0 || !p->s->value[ps->step->host_in[i]].constant)
			continue;
		size_t bytes = (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype);
		if (weights) {
			if (bytes)
				memcpy(weights + at, t->data, bytes);
			t->data = weights + at;
		}
		at += round64((int64_t)bytes);
	}
	return at;
}

/* Gives every constant operand of a kernel its packed copy. The copy of the last kernel that read the same
 * constant is shared if it suits: the steps of a recurrent cell keep one in cache. So is one of the plan
 * beside. Returns the total bytes of the others. Weights are packed until the thread's limit ends. weights
 * NULL: only counts. last[]: per value of the graph. */
static int64_t each_weight(struct plan *p, char *weights, struct copy *last)
{
	int64_t total = 0;
	memset(last, 0, sizeof *last * (size_t)p->g->nvalues);
	for (int s = 0; s < p->nsteps && !(weights && until_over()); s++) {
		struct pstep *ps = &p->step[s];
		total = node_weights(p, ps, weights, total);
		for (int i = 0; ps->step->kind == STEP_TASK && i < ps->step->task->noperands; i++) {
			if (ps->step->task->operand[i].role != ROLE_CONST)
				continue;
			int of = p->s->value[ps->step->value[i]].of;
			struct copy *c = &last[of];
			bool fresh = !same_copy(c, ps, i);
			if (fresh) {
				int64_t bytes = round64(weight_bytes(ps, i));
				*c = (struct copy){ps, i, total, find_lent(p->beside, of, ps, i)};
				total += c->lent ? 0 : bytes;
				p->lent_bytes += c->lent && !weights ? (size_t)bytes : 0;
			}
			if (!weights)
				continue;
			char *at = c->lent ? c->lent : weights + c->at;
			if (fresh && !c->lent)
				pack_weight(p, ps, i, at);
			if (fresh && p->lends)
				lend(p, of, ps, i, at);
			bind_weight(ps, i, at);
			if (p->take && !p->textures)
				plan_take_packed(p, of);
		}
	}
	return total;
}

static int place_weights(struct plan *p)
{
	struct copy *last = arena_try(&p->making, (size_t)p->g->nvalues + 1, sizeof *last);
	if (!last)
		return E_NOMEM;
	p->weight_bytes = (size_t)each_weight(p, NULL, last);
	int rc = pages_open(&p->weights, p->weight_bytes, PAGES_PLAIN);
	if (rc < 0)
		return fail_in(rc, "weights");
	if (p->take && !p->textures && (rc = plan_take_begin(p)) < 0)
		return rc;
	each_weight(p, p->weights.p, last);
	return until_check();
}

/* Returns the bytes of a host task's temporaries; sets their addresses in its buf from `at` on, unless `at`
 * is NULL. */
static int64_t bind_temporaries(struct pstep *ps, char *at)
{
	int64_t own = 0;
	for (int i = 0; ps->host && i < ps->step->task->noperands; i++) {
		if (ps->step->task->operand[i].role != ROLE_TMP)
			continue;
		if (at)
			ps->buf[i] = at + own;
		own += round64(operand_elems(&ps->packed[i]) * (int64_t)dtype_bytes(ps->packed[i].dtype));
	}
	return own;
}

static int add_given(struct plan *p, void **at, int tensor, bool output)
{
	if (p->ngiven % 16 == 0) {
		struct given *more = arena_try(&p->a, (size_t)p->ngiven + 16, sizeof *more);
		if (!more)
			return E_NOMEM;
		for (int k = 0; k < p->ngiven; k++)
			more[k] = p->given[k];
		p->given = more;
	}
	p->given[p->ngiven++] = (struct given){at, tensor, output};
	return E_OK;
}

/* Sets *at to value v's address. */
static int bind(struct plan *p, int v, void **at)
{
	int rc = E_OK;
	*at = p->place[v].p;
	for (int i = 0; i < p->g->ninputs && p->place[v].given && rc >= 0; i++)
		if (p->g->input[i] == v)
			rc = add_given(p, at, i, false);
	for (int i = 0; i < p->g->noutputs && p->place[v].given && rc >= 0; i++)
		if (p->g->output[i] == v)
			rc = add_given(p, at, i, true);
	return rc;
}

static int bind_task(struct plan *p, struct pstep *ps)
{
	int rc = E_OK;
	const struct task *t = ps->step->task;
	for (int i = 0; i < t->noperands; i++)
		if (t->operand[i].role == ROLE_OUT && p->place[ps->step->value[i]].refill)
			ps->refill[ps->nrefill++] = ps->step->value[i];
	for (int b = 0; b < ps->nbufs && rc >= 0; b++) {
		int i = ps->code ? ps->found->m.buf[b].operand : b;
		if (i >= 0 && t->operand[i].role != ROLE_CONST && t->operand[i].role != ROLE_TMP)
			rc = bind(p, ps->step->value[i], &ps->buf[b]);
	}
	for (int k = 0; k < ps->nrest && rc >= 0; k++)
		if (ps->rest[k].role != ROLE_CONST)
			rc = bind(p, ps->step->value[ps->rest_of[k]], &ps->tail_buf[k]);
	return rc;
}

static void bind_node(const struct plan *p, struct pstep *ps)
{
	const struct step *st = ps->step;
	const struct node *n = &p->g->node[st->node];
	for (int i = 0; i < ps->ctx.nin; i++)
		if (st->host_in[i] >= 0 && !p->s->value[st->host_in[i]].constant)
			ps->ctx.in[i].data = p->place[st->host_in[i]].p;
	for (int i = 0; i < ps->ctx.nout; i++)
		if (n->out[i] >= 0)
			ps->ctx.out[i].data = p->place[n->out[i]].p;
}

/* Sets the addresses of all other operands; temporaries of the portable path and the threads' scratch lie
 * behind the tensors. */
static int bind_buffers(struct plan *p)
{
	int64_t tmp = 0, thread = round64((int64_t)host_scratch_bytes());
	for (int s = 0; s < p->nsteps; s++) {
		struct pstep *ps = &p->step[s];
		int64_t own = bind_temporaries(ps, NULL);
		if (ps->code && ps->found->m.scratch_bytes > thread)
			thread = round64(ps->found->m.scratch_bytes);
		tmp = own > tmp ? own : tmp;
	}
	int n = p->pool ? pool_threads(p->pool) : 1;
	p->thread_bytes = (size_t)thread;
	p->scratch_bytes = (size_t)(tmp + n * thread);
	int rc = pages_open(&p->threads, p->scratch_bytes, PAGES_PLAIN);
	if (rc < 0)
		return fail_in(rc, "scratch");
	for (int s = 0; s < p->nsteps && rc >= 0; s++) {
		struct pstep *ps = &p->step[s];
		bind_temporaries(ps, (char *)p->threads.p + n * thread);
		if (ps->step->kind == STEP_TASK)
			rc = bind_task(p, ps);
		else if (ps->step->kind == STEP_HOST)
			bind_node(p, ps);
	}
	return rc;
}

int plan_place(struct plan *p)
{
	int rc = find_roots(p);
	if (rc < 0)
		return rc;
	size_values(p);
	for (int i = 0; i < p->g->ninputs; i++)
		p->place[p->g->input[i]].given = is_given(p, p->g->input[i], false);
	for (int i = 0; i < p->g->noutputs; i++)
		p->place[p->g->output[i]].given |= is_given(p, p->g->output[i], true);
	if ((rc = place_values(p)) < 0 || (rc = place_weights(p)) < 0)
		return rc;
	rc = bind_buffers(p);
	return rc < 0 ? rc : plan_copies(p);
}
