/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: an anchor with a structured form, extended by the elementwise nodes that follow it as long as only
 * one value leaves the group. Each value inside is a postfix program over the anchor's accumulator and the
 * reads of the last stage; when a node joins, the reads in its own program are replaced. */
#include "kernels/graph/prog_fold.h"
#include "kernels/group/group_parts.h"
#include "kernels/graph/structure.h"
#include "kernels/task/task_stage.h"
#include "platform/base/sanitized.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { MAX_GROWTH = 24 }; /* nodes in a group */

struct finder {
	struct graph *g;
	const struct choices *choices;
	struct arena *a;
	int *users_at, *users; /* nodes that read value v: users[users_at[v] .. users_at[v + 1]) */
	int *owner;            /* per node: group number; -1: none */
	bool *kept;            /* per value: bytes that a group reads in place of what they dequantise to */
	struct groups *out;
	struct arena scratch;
};

/* State of a group while it grows. */
struct growth {
	struct group *group;
	struct stage *s; /* last stage */
	int n, node[MAX_GROWTH], value[MAX_GROWTH];
	struct prog prog[MAX_GROWTH]; /* program of value[i] */
};

/* Whether the node is dead or all its outputs are known constants. */
static bool idle(const struct graph *g, const struct node *n)
{
	bool work = false;
	for (int i = 0; i < n->nout; i++)
		work |= n->out[i] >= 0 && !g->value[n->out[i]].t.data;
	return n->dead || !work;
}

static int make_users(struct finder *f)
{
	const struct graph *g = f->g;
	f->users_at = arena_try(f->a, (size_t)g->nvalues + 2, sizeof(int));
	f->owner = arena_try(f->a, (size_t)g->nnodes + 1, sizeof(int));
	f->kept = arena_try(f->a, (size_t)g->nvalues + 1, sizeof *f->kept);
	if (!f->users_at || !f->owner || !f->kept)
		return E_NOMEM;
	for (int pass = 0; pass < 2; pass++) {
		for (int n = g->nnodes - 1; n >= 0; n--)
			for (int i = 0; i < g->node[n].nin && !idle(g, &g->node[n]); i++) {
				int v = g->node[n].in[i];
				if (v >= 0 && pass == 0)
					f->users_at[v + 1]++;
				else if (v >= 0)
					f->users[--f->users_at[v + 1]] = n;
			}
		if (pass == 1)
			break;
		for (int v = 0; v < g->nvalues; v++)
			f->users_at[v + 1] += f->users_at[v];
		f->users = arena_try(f->a, (size_t)f->users_at[g->nvalues] + 1, sizeof(int));
		if (!f->users)
			return E_NOMEM;
	}
	/* pass 1 moved each end to its value's begin: the users of v now begin at users_at[v + 1] */
	memmove(f->users_at, f->users_at + 1, sizeof(int) * (size_t)g->nvalues);
	f->users_at[g->nvalues] = 0;
	for (int n = 0; n < g->nnodes; n++)
		for (int i = 0; i < g->node[n].nin && !idle(g, &g->node[n]); i++)
			f->users_at[g->nvalues] += g->node[n].in[i] >= 0;
	for (int n = 0; n < g->nnodes; n++)
		f->owner[n] = -1;
	return E_OK;
}

/* The constant that an earlier division of the graph made for the same node; -1: none. */
static int find_made(const struct graph *g, const char *name, const struct tensor *want)
{
	for (int v = g->nvalues - 1; v >= 0; v--) {
		const struct tensor *t = &g->value[v].t;
		if (!strcmp(g->value[v].name, name) && t->data && t->dtype == want->dtype &&
		    shape_equal(&t->shape, &want->shape) &&
		    !memcmp(t->data, want->data, (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype)))
			return v;
	}
	return -1;
}

/* Builds the node's structured form; constants that it makes become values of the graph. */
static int build(struct finder *f, int n, struct task *t, int *value)
{
	struct graph *g = f->g;
	const struct node *node = &g->node[n];
	struct tensor *made = ARENA_ARRAY(&f->scratch, struct tensor, OP_MADE);
	struct opctx c = {
	    .node = node, .code = node->op->rows[node->row].code, .opset = node->opset, .made = made};
	c.arena = &f->scratch;
	c.nin = node->nin;
	c.nout = node->nout;
	c.in = ARENA_ARRAY(&f->scratch, struct tensor, node->nin + 1);
	c.out = ARENA_ARRAY(&f->scratch, struct tensor, node->nout + 1);
	for (int i = 0; i < c.nin; i++)
		if (node->in[i] >= 0)
			c.in[i] = g->value[node->in[i]].t;
	for (int i = 0; i < c.nout; i++)
		if (node->out[i] >= 0)
			c.out[i] = g->value[node->out[i]].t;
	bool may = !structure_is_bytes(&c) || (choices_get(f->choices, CHOICE_BYTES, CHOICE_ALL, 0) &&
					       choices_get(f->choices, CHOICE_BYTES, node->name, 1));
	int rc = node->op->task && may ? node->op->task(&c, t) : E_UNSUPPORTED;
	int added[OP_MADE];
	for (int k = 0; k < OP_MADE && rc >= 0; k++) {
		char name[32];
		added[k] = -1;
		if (!made[k].data)
			continue;
		snprintf(name, sizeof name, "made_%d_%d", n, k);
		if ((added[k] = find_made(g, name, &made[k])) >= 0)
			continue;
		if ((added[k] = graph_add_value(g, name)) < 0)
			return added[k];
		struct tensor *to = &g->value[added[k]].t;
		if ((rc = tensor_alloc(&g->arena, made[k].dtype, &made[k].shape, to)) >= 0)
			memcpy(to->data, made[k].data,
			       (size_t)shape_count(&to->shape) * dtype_bytes(to->dtype));
	}
	for (int i = 0; i < t->noperands && rc >= 0; i++) {
		const char *name = t->operand[i].name;
		int k = name[1] - '0';
		value[i] = t->operand[i].role == ROLE_TMP ? -1
			   : *name == 'i'                 ? node->in[k]
			   : *name == 'o'                 ? node->out[k]
							  : added[k];
	}
	return rc;
}

/* The growth's entry of a value, or -1. */
static int inside(const struct growth *w, int value)
{
	for (int i = 0; i < w->n; i++)
		if (w->value[i] == value)
			return i;
	return -1;
}

static bool in_nodes(const struct growth *w, int node)
{
	for (int i = 0; i < w->n; i++)
		if (w->node[i] == node)
			return true;
	return false;
}

/* Number of values that are used outside of the group; 2 also if the last value is not among them. */
static int leaving(const struct finder *f, const struct growth *w)
{
	int n = 0;
	bool out = false;
	for (int i = 0; i < w->n; i++) {
		out = f->g->value[w->value[i]].is_output || f->kept[w->value[i]];
		for (int u = f->users_at[w->value[i]]; u < f->users_at[w->value[i] + 1]; u++)
			out |= !in_nodes(w, f->users[u]);
		n += out;
	}
	return out ? n : 2;
}

/* The first node after `after` that reads a value of the group and may join. */
static int next_user(const struct finder *f, const struct growth *w, int after)
{
	int best = -1;
	for (int i = 0; i < w->n; i++) {
		for (int u = f->users_at[w->value[i]]; u < f->users_at[w->value[i] + 1]; u++) {
			int n = f->users[u];
			const struct node *node = &f->g->node[n];
			if (n <= after || f->owner[n] >= 0 || in_nodes(w, n) || !structure_is_map(node) ||
			    !node->op->task || node->nout < 1 || node->out[0] < 0)
				continue;
			if (shape_equal(&f->g->value[node->out[0]].t.shape,
					&f->g->value[w->value[0]].t.shape) &&
			    (best < 0 || n < best))
				best = n;
		}
	}
	return best;
}

/* The read of the last stage that equals `from` of the joining map; it is added if necessary. -1: no room. */
static int join_read(struct growth *w, const struct task *m, const struct read *from, int value)
{
	struct task *t = w->group->task;
	struct read r = {.operand = -1};
	for (int i = 0; i < t->noperands; i++)
		if (w->group->value[i] == value && t->operand[i].role != ROLE_OUT)
			r.operand = i;
	if (r.operand < 0) {
		if (t->noperands == MAX_OPERANDS || from->dim[0].table >= 0)
			return -1;
		r.operand = t->noperands++;
		t->operand[r.operand] = m->operand[from->operand];
		snprintf(t->operand[r.operand].name, sizeof t->operand[0].name, "e%c", 'a' + r.operand);
		w->group->value[r.operand] = value;
	}
	const struct read *out = &w->s->out;
	for (int d = 0; d < MAX_RANK; d++) { /* axis d of the map is dim d of the output */
		struct index *x = &r.dim[d];
		*x = (struct index){
		    .off = from->dim[d].off, .div = from->dim[d].div, .mod = from->dim[d].mod, .table = -1};
		for (int e = 0; e < m->operand[m->stage[0].out.operand].dims.rank; e++) {
			int64_t c = from->dim[d].coef[e];
			for (int a = 0; a < w->s->naxes && c; a++)
				x->coef[a] += c * out->dim[e].coef[a];
			x->off += c * out->dim[e].off;
		}
	}
	for (int i = 0; i < w->s->nreads; i++)
		if (!memcmp(&w->s->read[i], &r, sizeof r))
			return i;
	if (w->s->nreads == MAX_READS)
		return -1;
	w->s->read[w->s->nreads] = r;
	return w->s->nreads++;
}

static bool append(struct prog *to, const struct prog *from)
{
	if (to->n + from->n > MAX_PROG)
		return false;
	memcpy(&to->at[to->n], from->at, sizeof *from->at * (size_t)from->n);
	to->n += from->n;
	return true;
}

/* Whether the read accesses exactly the element that is computed: required for values inside of the group. */
static bool identity(const struct task *m, const struct read *r)
{
	for (int d = 0; d < m->operand[r->operand].dims.rank; d++) {
		const struct index *x = &r->dim[d];
		for (int a = 0; a < MAX_AXES; a++)
			if (x->coef[a] != (a == d))
				return false;
		if (x->off || x->div > 1 || x->mod > 1 || x->table >= 0)
			return false;
	}
	return true;
}

static bool dequantises(const struct graph *g, int node)
{
	return !strcmp(node_type(&g->node[node]), "DequantizeLinear");
}

/* The dequantisation of a value that a group reads: it reads the bytes itself. NULL: v is something else, or
 * the bytes stay inside of another group. */
static const struct task *dequantised(struct finder *f, int v, int *bytes)
{
	int n = f->g->value[v].producer, value[MAX_OPERANDS];
	if (n < 0 || !dequantises(f->g, n) || f->owner[n] >= 0)
		return NULL;
	struct task *d = ARENA_NEW(&f->scratch, struct task);
	if (build(f, n, d, value) < 0)
		return NULL;
	*bytes = value[d->stage[0].read[0].operand];
	return d;
}

/* Bytes are limited when they are stored; inside of a group the program does it. */
static bool limit(struct prog *p, enum dtype t)
{
	prog_imm(p, t == DT_I8 ? -128 : 0);
	prog_add(p, P_MAX);
	prog_imm(p, t == DT_I8 ? 127 : 255);
	prog_add(p, P_MIN);
	return p->n <= MAX_PROG;
}

/* The program that takes the place of read i of the joining map m, whose operands have the values value[]. */
static bool join_operand(struct finder *f, struct growth *w, struct task *m, const int *value, int i,
			 struct prog *out)
{
	const struct read *from = &m->stage[0].read[i];
	int v = value[from->operand], in = inside(w, v), bytes = -1;
	if (in >= 0) {
		enum dtype t = f->g->value[v].t.dtype;
		*out = w->prog[in];
		return identity(m, from) && (!dtype_is_byte(t) || limit(out, t));
	}
	const struct task *d = dequantised(f, v, &bytes);
	*out = (struct prog){.n = 1};
	out->at[0].op = P_READ;
	if (d) {
		*out = d->stage[0].body;
		m->operand[from->operand].dtype = f->g->value[bytes].t.dtype;
	}
	int r = join_read(w, m, from, d ? bytes : v);
	for (int k = 0; k < out->n && r >= 0; k++)
		if (out->at[k].op == P_READ)
			out->at[k].arg = (uint8_t)r;
	return r >= 0;
}

static bool join(struct finder *f, struct growth *w, int node)
{
	struct task *m = ARENA_NEW(&f->scratch, struct task);
	struct prog *read = ARENA_ARRAY(&f->scratch, struct prog, MAX_READS), *p = &w->prog[w->n];
	int value[MAX_OPERANDS];
	if (build(f, node, m, value) < 0 || m->nstages != 1 || m->stage[0].comb != COMB_NONE)
		return false;
	const struct stage *ms = &m->stage[0];
	for (int i = 0; i < ms->nreads; i++)
		if (!join_operand(f, w, m, value, i, &read[i]))
			return false;
	p->n = 0;
	for (int i = 0; i < ms->body.n; i++) {
		struct prog one = {.n = 1};
		one.at[0] = ms->body.at[i];
		if (!append(p, one.at[0].op == P_READ ? &read[one.at[0].arg] : &one))
			return false;
	}
	prog_fold(p);
	w->node[w->n] = node;
	w->value[w->n++] = f->g->node[node].out[0];
	return true;
}

/* Notes the bytes that the group reads. */
static void keep_bytes(struct finder *f, const struct group *group)
{
	for (int i = 0; i < group->task->noperands; i++)
		if (group->value[i] >= 0 && group->task->operand[i].role == ROLE_IN)
			f->kept[group->value[i]] = true;
}

/* Puts the program of the last value into the task. */
static void commit(const struct graph *g, struct growth *w)
{
	bool reduces = w->s->comb != COMB_NONE;
	*(reduces ? &w->s->post : &w->s->body) = w->prog[w->n - 1];
	if (!reduces)
		w->s->post.n = 0;
	w->group->out = w->value[w->n - 1];
	for (int i = 0; i < w->group->task->noperands; i++) {
		struct operand *o = &w->group->task->operand[i];
		if (o->role != ROLE_OUT)
			continue;
		o->dtype = g->value[w->group->out].t.dtype;
		w->group->value[i] = w->group->out;
	}
}

/* Whether a value that the group rounds to bytes ends as f32. Such a task would not be exact (task.h), and a
 * sum that lies in the middle between two bytes could become either. */
static bool leaves_rounded(const struct finder *f, const struct growth *w)
{
	bool bytes = false;
	for (int i = 0; i + 1 < w->n; i++)
		bytes |= dtype_is_byte(f->g->value[w->value[i]].t.dtype);
	return bytes && f->g->value[w->value[w->n - 1]].t.dtype == DT_F32;
}

static void grow(struct finder *f, struct group *group)
{
	struct growth *w = ARENA_NEW(&f->scratch, struct growth);
	struct task *work = task_dup(&f->scratch, group->task), *good = group->task;
	struct group trial = *group;
	trial.task = work;
	*w = (struct growth){.group = &trial, .s = &work->stage[work->nstages - 1], .n = 1};
	w->node[0] = group->anchor;
	w->value[0] = group->out;
	w->prog[0] = w->s->comb == COMB_NONE ? w->s->body : w->s->post;
	if (!w->prog[0].n) {
		w->prog[0].n = 1;
		w->prog[0].at[0].op = P_ACC;
	}
	int kept = 1, last = group->anchor;
	int most = choices_get(f->choices, CHOICE_JOIN, f->g->node[group->anchor].name, MAX_GROWTH);
	for (int n; w->n < MAX_GROWTH && w->n <= most && (n = next_user(f, w, last)) >= 0;) {
		if (f->g->value[w->value[w->n - 1]].is_output || !join(f, w, n))
			break;
		last = n;
		if (leaving(f, w) != 1 || leaves_rounded(f, w))
			continue;
		commit(f->g, w);
		if (task_check(work) < 0)
			break;
		task_copy(good, work);
		*group = trial;
		group->task = good;
		keep_bytes(f, group);
		group->at = n;
		kept = w->n;
	}
	group->joined = kept - 1;
	for (int i = 0; i < kept; i++)
		f->owner[w->node[i]] = f->out->n;
}

/* Whether the transpose moves only dims of extent 1. */
static bool moves_units(const struct shape *x, const struct node *n)
{
	const struct attr *perm = node_attr(n, "perm");
	int64_t last = -1;
	for (int d = 0; d < x->rank; d++) {
		int64_t e = perm ? perm->ints[d] : x->rank - 1 - d;
		if (x->d[e] != 1 && e < last)
			return false;
		last = x->d[e] != 1 ? e : last;
	}
	return true;
}

static bool is_alias(const struct graph *g, const struct node *n)
{
	static const char *const types[] = {"Reshape",   "Flatten",  "Squeeze",
					    "Unsqueeze", "Identity", "Dropout"};
	if (n->nout < 1 || n->out[0] < 0 || (n->nout > 1 && n->out[1] >= 0) || n->in[0] < 0)
		return false;
	const struct tensor *x = &g->value[n->in[0]].t, *y = &g->value[n->out[0]].t;
	if (x->dtype != y->dtype || x->data || shape_count(&x->shape) != shape_count(&y->shape))
		return false;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(node_type(n), types[i]))
			return true;
	return !strcmp(node_type(n), "Transpose") && moves_units(&x->shape, n);
}

/* Marks the values that groups read. */
static void mark_read(const struct graph *g, const struct groups *gr, bool *read)
{
	for (int i = 0; i < gr->n; i++) {
		const struct group *p = &gr->group[i];
		const struct node *n = &g->node[p->anchor];
		for (int k = 0; p->kind == STEP_TASK && k < p->task->noperands; k++)
			if (p->value[k] >= 0 && p->task->operand[k].role != ROLE_OUT)
				read[p->value[k]] = true;
		for (int k = 0; p->kind != STEP_TASK && k < n->nin; k++)
			if (n->in[k] >= 0)
				read[n->in[k]] = true;
	}
}

/* Drops dequantisations that nobody reads, because all readers joined groups that read the bytes. */
static int drop_unread(struct finder *f)
{
	const struct graph *g = f->g;
	struct groups *gr = f->out;
	bool *read = arena_try(&f->scratch, (size_t)g->nvalues + 1, sizeof *read);
	int kept = 0;
	if (!read)
		return E_NOMEM;
	mark_read(g, gr, read);
	for (int i = 0; i < gr->n; i++) {
		const struct group *p = &gr->group[i];
		bool bytes = p->kind == STEP_TASK && !p->joined && dequantises(g, p->anchor);
		if (!bytes || read[p->out] || g->value[p->out].is_output)
			gr->group[kept++] = *p;
	}
	gr->n = kept;
	return E_OK;
}

/* Puts the dequantisation `d` in place of the reads of an operand; false: no room. */
static bool dequantise_reads(const struct stage *s, int operand, const struct prog *d, struct prog *p)
{
	struct prog made = {0};
	for (int i = 0; i < p->n; i++) {
		struct prog one = {.n = 1};
		one.at[0] = p->at[i];
		if (one.at[0].op == P_READ && s->read[one.at[0].arg].operand == operand) {
			one = *d;
			for (int k = 0; k < one.n; k++)
				if (one.at[k].op == P_READ)
					one.at[k].arg = p->at[i].arg;
		}
		if (!append(&made, &one))
			return false;
	}
	*p = made;
	return true;
}

/* Lets a map, or a reduction of one operand, read bytes where it reads what they dequantise to. */
static void read_bytes(struct finder *f, struct group *group)
{
	struct task *t = group->task;
	struct stage *s = &t->stage[0];
	int64_t lo[MAX_RANK], hi[MAX_RANK];
	if (t->nstages != 1 || (s->comb != COMB_NONE && s->nreads != 1))
		return;
	for (int i = 0; i < t->noperands; i++) {
		int bytes, v = group->value[i];
		bool reads = t->operand[i].role == ROLE_IN && operand_overhang(t, i, lo, hi) == NEED_ANY;
		const struct task *d = reads ? dequantised(f, v, &bytes) : NULL;
		struct prog body = s->body, post = s->post;
		if (!d || !dequantise_reads(s, i, &d->stage[0].body, &body) ||
		    !dequantise_reads(s, i, &d->stage[0].body, &post))
			continue;
		s->body = body;
		s->post = post;
		t->operand[i].dtype = f->g->value[bytes].t.dtype;
		t->operand[i].fill = 0; /* nothing is read outside */
		group->value[i] = bytes;
		f->kept[bytes] = true;
	}
}

static void begin_group(struct finder *f, int n)
{
	struct group *group = &f->out->group[f->out->n];
	struct task *t = ARENA_NEW(&f->scratch, struct task);
	*group = (struct group){.kind = STEP_HOST, .anchor = n, .at = n, .out = -1};
	f->owner[n] = f->out->n;
	if (is_alias(f->g, &f->g->node[n])) {
		group->kind = STEP_ALIAS;
	} else if (build(f, n, t, group->value) >= 0) {
		group->kind = STEP_TASK;
		group->task = task_dup(f->a, t);
		group->out = f->g->node[n].out[0];
		read_bytes(f, group);
		grow(f, group);
	}
	f->out->n++;
	arena_reset(&f->scratch);
}

/* Insertion sort by position: the groups are nearly sorted. */
static void sort_groups(struct groups *gr)
{
	for (int i = 1; i < gr->n; i++) {
		struct group x = gr->group[i];
		int j = i;
		for (; j > 0 && gr->group[j - 1].at > x.at; j--)
			gr->group[j] = gr->group[j - 1];
		gr->group[j] = x;
	}
}

/* Dequantisations come last: a group that reads or makes their bytes takes them in. */
int groups_find(struct graph *g, const struct choices *c, struct arena *a, struct groups *out)
{
	struct finder f = {.g = g, .choices = c, .a = a, .out = out};
	int rc = make_users(&f);
	out->n = 0;
	out->group = arena_try(a, (size_t)g->nnodes + 1, sizeof *out->group);
	if (!out->group)
		rc = E_NOMEM;
	for (int last = 0; last < 2 && rc >= 0; last++)
		for (int n = 0; n < g->nnodes; n++)
			if (!idle(g, &g->node[n]) && f.owner[n] < 0 && dequantises(g, n) == last)
				begin_group(&f, n);
	if (rc >= 0)
		rc = drop_unread(&f);
	arena_free(&f.scratch);
	if (rc >= 0)
		sort_groups(out);
	return rc;
}

static bool is_one_of(const struct node *n, const char *const *types)
{
	while (*types && strcmp(*types, node_type(n)) != 0)
		types++;
	return *types;
}

bool group_convolves(const struct graph *g, const struct group *p)
{
	static const char *const types[] = {"Conv", "ConvTranspose", "QLinearConv", "ConvInteger", NULL};
	return is_one_of(&g->node[p->anchor], types);
}

bool group_multiplies(const struct graph *g, const struct group *p)
{
	static const char *const types[] = {"MatMul", "Gemm", "QLinearMatMul", "MatMulInteger", NULL};
	return is_one_of(&g->node[p->anchor], types);
}

bool value_type(const struct tensor *x)
{
	return x->dtype == DT_F32 || dtype_is_byte(x->dtype);
}

bool step_any_layout(const struct graph *g, int node)
{
	const struct node *n = &g->node[node];
	if (strcmp(node_type(n), "Concat") && strcmp(node_type(n), "Split"))
		return false;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] >= 0 && !value_type(&g->value[n->out[i]].t))
			return false;
	return true;
}

/* Tasks are large and many steps have equal ones: keeps one copy of each in the arena. */
static int share_tasks(struct steps *s, struct arena *a)
{
	int n = 0, rc = E_OK;
	struct arena scratch = {0};
	struct key *key = arena_try(&scratch, (size_t)s->nsteps + 1, sizeof *key);
	struct task **task = arena_try(&scratch, (size_t)s->nsteps + 1, sizeof *task);
	if (!key || !task)
		rc = E_NOMEM;
	for (int i = 0; i < s->nsteps && rc >= 0; i++) {
		if (s->step[i].kind != STEP_TASK)
			continue;
		int j = 0;
		key[n] = task_key(s->step[i].task);
		while (!key_equal(key[j], key[n]))
			j++;
		if (j == n)
			task[n++] = task_dup(a, s->step[i].task);
		s->step[i].task = task[j];
	}
	arena_free(&scratch);
	return rc;
}

int graph_steps(struct graph *g, const struct target *t, const struct choices *c, struct arena *a,
		struct steps **out)
{
	struct arena work = {0};
	struct groups groups = {.work = &work};
	int rc = groups_find(g, c, &work, &groups);
	if (rc >= 0)
		rc = groups_view(g, &work, &groups);
	if (rc >= 0)
		rc = groups_fuse(g, t, c, &work, &groups);
	*out = ARENA_NEW(a, struct steps);
	if (rc >= 0)
		rc = groups_lay_out(g, &groups, t, c, a, *out);
	if (rc >= 0)
		rc = share_tasks(*out, a);
	arena_free(&work);
	if (rc >= 0)
		rc = steps_order(g, *out);
	assert(!SANITIZED_ADDRESS || rc < 0 || steps_check(g, *out) >= 0);
	return rc;
}

int steps_tasks(const struct steps *s, struct arena *a, struct step_task **out)
{
	int n = 0;
	*out = arena_try(a, (size_t)s->nsteps + 1, sizeof **out);
	if (!*out)
		return E_NOMEM;
	for (int i = 0; i < s->nsteps; i++) {
		if (s->step[i].kind != STEP_TASK || s->step[i].fused_by >= 0)
			continue;
		struct buf text = {0};
		task_text(s->step[i].task, &text);
		struct key key = hash_text(buf_str(&text));
		int j = 0;
		while (j < n && !key_equal((*out)[j].key, key))
			j++;
		if (j == n)
			(*out)[n++] =
			    (struct step_task){s->step[i].task, arena_strdup(a, buf_str(&text)), key, 0};
		(*out)[j].uses++;
		buf_free(&text);
	}
	return n;
}
