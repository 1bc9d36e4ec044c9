/* SPDX-License-Identifier: Apache-2.0 */
/* Models with nodes that others replace, such as If and Loop: infers each node as soon as its inputs have
 * types, and replaces each of those as soon as what it depends on is known. Time and memory are linear in the
 * nodes that result.
 * Subgraphs are parsed level by level, and only those that run, so the depth of a file costs no stack. */
#include "kernels/onnx/import_parts.h"
#include "platform/base/until.h"
#include <stdio.h>
#include <string.h>

enum { HINT_VISITS = 64, MAX_LINES = 64 };

/* A node of the graph, or a flow. */
struct flow_item {
	struct import_flow *flow; /* NULL: node */
	int node;
	int missing; /* inputs without a type */
};

struct flow_wait {
	int item, next; /* next: index + 1, 0: none */
};

struct import_flows {
	struct import_flow **flow;
	struct flow_item *item;
	struct flow_wait *wait;
	int *head;  /* per value: its first wait's index + 1 */
	int *ready; /* items, in the order in which they became ready */
	int nflows, nitems, nwaits, nheads, nready, done;
	int cap_flows, cap_items, cap_waits, cap_heads, cap_ready;
	int seen_nodes, seen_flows; /* that are items already */
	int open;                   /* flows that are not replaced */
	struct infer infer;
};

static int reserve(struct arena *a, void *array, int n, int *cap, size_t elem_bytes)
{
	if (n <= *cap)
		return E_OK;
	if (n >= INT32_MAX / 4)
		return fail(E_NOMEM, "a graph of more than %d nodes or values", n);
	int want = n < 32 ? 64 : n * 2;
	void *old, *p = arena_try(a, (size_t)want, elem_bytes);
	if (!p)
		return E_NOMEM;
	memcpy(&old, array, sizeof old);
	if (*cap)
		memcpy(p, old, (size_t)*cap * elem_bytes);
	memcpy(array, &p, sizeof p);
	*cap = want;
	return E_OK;
}

const struct flow_kind *import_flow_kind(const Onnx__NodeProto *p)
{
	static const struct flow_kind *const kinds[] = {&flow_if,        &flow_loop,   &flow_scan,
							&flow_attention, &flow_rotary, &flow_normalise,
							&flow_dft,       &flow_stft};
	bool ours = !p->domain || !*p->domain || !strcmp(p->domain, "ai.onnx");
	for (size_t i = 0; ours && p->op_type && i < sizeof kinds / sizeof kinds[0]; i++)
		if (!strcmp(kinds[i]->type, p->op_type))
			return kinds[i];
	return NULL;
}

int import_flow_add(struct importer *im, const struct import_flow *f)
{
	struct import_flows *fs = im->flows;
	if (!fs)
		fs = im->flows = arena_try(&im->scratch, 1, sizeof *fs);
	if (!fs || reserve(&im->scratch, &fs->flow, fs->nflows + 1, &fs->cap_flows, sizeof(void *)) < 0)
		return E_NOMEM;
	struct import_flow *own = arena_try(&im->scratch, 1, sizeof *own);
	size_t n = strlen(f->name) + 1;
	char *name = arena_try(&im->scratch, n, 1);
	if (!own || !name)
		return E_NOMEM;
	*own = *f;
	own->scope = im->scope;
	own->name = memcpy(name, f->name, n);
	fs->flow[fs->nflows++] = own;
	fs->open++;
	return E_OK;
}

/* ---- nodes that wait for values ---- */

static int push(struct importer *im, int item)
{
	struct import_flows *fs = im->flows;
	int rc = reserve(&im->scratch, &fs->ready, fs->nready + 1, &fs->cap_ready, sizeof(int));
	if (rc >= 0)
		fs->ready[fs->nready++] = item;
	return rc;
}

static int wait_for(struct importer *im, int item, int v)
{
	struct import_flows *fs = im->flows;
	if (v < 0 || im->g->value[v].t.dtype != DT_NONE)
		return E_OK;
	int rc = reserve(&im->scratch, &fs->head, im->g->nvalues, &fs->cap_heads, sizeof(int));
	if (rc >= 0)
		rc = reserve(&im->scratch, &fs->wait, fs->nwaits + 1, &fs->cap_waits, sizeof *fs->wait);
	if (rc < 0)
		return rc;
	fs->wait[fs->nwaits] = (struct flow_wait){item, fs->head[v]};
	fs->head[v] = ++fs->nwaits;
	fs->item[item].missing++;
	return E_OK;
}

static int add_item(struct importer *im, struct flow_item item, int nin, const int *in)
{
	struct import_flows *fs = im->flows;
	int rc = reserve(&im->scratch, &fs->item, fs->nitems + 1, &fs->cap_items, sizeof *fs->item), i;
	if (rc < 0)
		return rc;
	fs->item[i = fs->nitems++] = item;
	for (int k = 0; rc >= 0 && k < nin; k++)
		rc = wait_for(im, i, in[k]);
	return rc >= 0 && !fs->item[i].missing ? push(im, i) : rc;
}

/* Makes items of nodes and flows that are new in the graph. */
static int add_items(struct importer *im)
{
	struct import_flows *fs = im->flows;
	int rc = E_OK;
	for (; rc >= 0 && fs->seen_nodes < im->g->nnodes; fs->seen_nodes++) {
		const struct node *n = &im->g->node[fs->seen_nodes];
		rc = add_item(im, (struct flow_item){NULL, fs->seen_nodes, 0}, n->nin, n->in);
	}
	for (; rc >= 0 && fs->seen_flows < fs->nflows; fs->seen_flows++) {
		struct import_flow *f = fs->flow[fs->seen_flows];
		rc = add_item(im, (struct flow_item){f, -1, 0}, f->nin, f->in);
	}
	return rc;
}

/* Counts down the items that wait for v, if it has a type now. */
static int value_known(struct importer *im, int v)
{
	struct import_flows *fs = im->flows;
	if (v < 0 || v >= fs->cap_heads || im->g->value[v].t.dtype == DT_NONE)
		return E_OK;
	int rc = E_OK;
	for (int w = fs->head[v]; rc >= 0 && w; w = fs->wait[w - 1].next)
		if (--fs->item[fs->wait[w - 1].item].missing == 0)
			rc = push(im, fs->wait[w - 1].item);
	fs->head[v] = 0;
	return rc;
}

static int values_known(struct importer *im, int n, const int *v)
{
	int rc = E_OK;
	for (int i = 0; rc >= 0 && i < n; i++)
		rc = value_known(im, v[i]);
	return rc;
}

/* ---- the order of work ---- */

static int check_kind(const struct importer *im, const struct import_flow *f)
{
	if (im->opset < f->kind->since)
		return fail(E_UNSUPPORTED,
			    "the operator is not supported at this opset; convert the model to opset %d or "
			    "later",
			    f->kind->since);
	for (size_t i = 0; i < f->p->n_attribute; i++) {
		const char *name = f->p->attribute[i]->name ? f->p->attribute[i]->name : "";
		if (!import_word_in(f->kind->attrs, name))
			return fail(E_UNSUPPORTED,
				    "attribute '%.100s' is not supported; export the model without it", name);
	}
	return E_OK;
}

static int add_line(struct importer *im, const struct import_flow *f, int rc)
{
	struct infer *s = &im->flows->infer;
	if (rc == E_NOMEM || rc == E_TIMEOUT || rc == E_STOPPED)
		return fail_in(rc, "node '%s' (%s)", f->name, f->kind->type);
	s->worst = s->worst == E_UNSUPPORTED ? s->worst : rc;
	if (s->count++ < MAX_LINES)
		buf_printf(&im->lines, "%snode '%s' (%s, opset %d): %s", im->lines.n ? "\n" : "", f->name,
			   f->kind->type, im->opset, err_text());
	return E_OK;
}

static int step_flow(struct importer *im, int item)
{
	struct import_flows *fs = im->flows;
	struct import_flow *f = fs->item[item].flow;
	int wait = -1, rc = check_kind(im, f);
	if (rc >= 0)
		rc = f->kind->step(im, f, &wait);
	im->scope = &im->root;
	if (rc < 0)
		return add_line(im, f, rc);
	bool waits = rc == FLOW_WAITS;
	rc = add_items(im);
	if (rc >= 0 && !waits) {
		fs->open--;
		return values_known(im, f->nout, f->out);
	}
	if (rc < 0 || im->nlines || fs->infer.count) /* one iteration that cannot be used is enough */
		return rc;
	rc = wait_for(im, item, wait);
	return rc >= 0 && !fs->item[item].missing ? push(im, item) : rc;
}

static int step_node(struct importer *im, int node)
{
	int rc = graph_infer_node(im->g, node, &im->flows->infer);
	const struct node *n = &im->g->node[node];
	return rc > 0 ? values_known(im, n->nout, n->out) : rc;
}

int import_flow_run(struct importer *im, int *worst)
{
	struct import_flows *fs = im->flows;
	if (!fs)
		return 0;
	fs->infer.lines = &im->lines;
	fs->infer.worst = *worst;
	int rc = add_items(im);
	while (rc >= 0 && fs->done < fs->nready) {
		int item = fs->ready[fs->done++];
		rc = until_check();
		if (rc >= 0)
			rc = fs->item[item].flow ? step_flow(im, item) : step_node(im, fs->item[item].node);
	}
	*worst = fs->infer.worst;
	if (rc >= 0 && fs->open && !fs->infer.count && !im->nlines) {
		rc = graph_sort(im->g); /* names a cycle of ordinary nodes */
		return rc < 0 ? rc
			      : fail(E_CORRUPT, "node '%s' depends on its own output: the graph has a cycle",
				     fs->flow[0]->name);
	}
	return rc < 0 ? rc : fs->infer.count;
}

void import_flow_free(struct importer *im)
{
	if (im->flows)
		arena_free(&im->flows->infer.scratch);
}

/* ---- parts of flows ---- */

const Onnx__AttributeProto *flow_attr(const struct import_flow *f, const char *name)
{
	for (size_t i = 0; i < f->p->n_attribute; i++)
		if (f->p->attribute[i]->name && !strcmp(f->p->attribute[i]->name, name))
			return f->p->attribute[i];
	return NULL;
}

static struct import_body **place(struct importer *im, struct import_body *around, size_t i)
{
	if (!around->sub)
		around->sub = arena_try(&im->scratch, 2 * around->p->n_node, sizeof *around->sub);
	return around->sub ? &around->sub[i] : NULL;
}

int flow_body(struct importer *im, struct import_flow *f, const char *name, int k, struct import_body **out)
{
	struct import_body **at = place(im, f->around, 2 * f->index + (size_t)k);
	const Onnx__AttributeProto *p = flow_attr(f, name);
	if (!at)
		return E_NOMEM;
	*out = *at;
	if (*out)
		return E_OK;
	if (!p || !p->has_g)
		return fail(E_CORRUPT, "attribute %s is missing or no graph", name);
	struct import_body *b = *out = arena_try(&im->scratch, 1, sizeof *b);
	if (!b)
		return E_NOMEM;
	Onnx__GraphProto *g;
	int rc = pb_unpack(&im->g->arena, &onnx__graph_proto__descriptor, p->g.data, p->g.len, &g);
	if (rc < 0)
		return fail_in(rc, "attribute %s", name);
	b->p = g;
	*at = b;
	return E_OK;
}

struct import_scope *flow_scope(struct importer *im, struct import_scope *outer, int deeper)
{
	struct import_scope *s = arena_try(&im->scratch, 1, sizeof *s);
	if (s)
		*s = (struct import_scope){.names = {.a = &im->scratch},
					   .bound = {.a = &im->scratch},
					   .outer = outer,
					   .depth = outer->depth + deeper,
					   .id = ++im->last_id,
					   .repeated = outer->repeated,
					   .constants_known = true};
	return s;
}

int flow_constants(struct importer *im, const struct import_body *b, struct import_scope *s)
{
	if (s->depth > IMPORT_MAX_DEPTH)
		return fail(E_UNSUPPORTED, "subgraphs are nested more than %d deep", IMPORT_MAX_DEPTH);
	im->scope = s;
	int rc = import_constants(im, b->p);
	return rc >= 0 ? import_declare_constants(im, b->p) : rc;
}

int flow_count(struct importer *im, const struct import_scope *s, int64_t n)
{
	im->unrolled += s->repeated ? n : 0;
	return im->unrolled <= IMPORT_MAX_UNROLLED
		   ? E_OK
		   : fail(E_UNSUPPORTED, "unrolling takes more than the limit of %d nodes",
			  IMPORT_MAX_UNROLLED);
}

int flow_copy(struct importer *im, struct import_body *b, struct import_scope *s, int64_t more)
{
	int rc = flow_count(im, s, (int64_t)b->p->n_node + 1 + more);
	im->scope = s;
	if (rc >= 0)
		rc = import_declare(im, b->p);
	return rc >= 0 ? import_nodes(im, b) : rc;
}

int flow_output(struct importer *im, const struct import_body *b, struct import_scope *s, size_t k)
{
	const char *name = b->p->output[k]->name ? b->p->output[k]->name : "";
	int *v = names_find(&s->names, name);
	if (!v && s->outer && s->outer->depth == s->depth)
		v = names_find(&s->outer->names, name);
	if (v)
		return *v;
	im->scope = s;
	if (import_find(im, name) >= 0)
		return fail(E_CORRUPT,
			    "output '%.200s' of the subgraph is a value of a graph around it: an Identity is "
			    "missing between them",
			    name);
	return fail(E_CORRUPT, "output '%.200s' of the subgraph is made by no node", name);
}

int flow_node(struct importer *im, const char *type, const char *name, int nin, const int *in, int out,
	      int nattr, const struct attr *attr)
{
	char unique[256];
	snprintf(unique, sizeof unique, "%.200s.%d", name, ++im->last_id);
	return graph_add_node(im->g, type, unique, im->opset, nin, in, 1, &out, nattr, attr);
}

static int constant(struct importer *im, const char *name, enum dtype t, int n, const void *data)
{
	struct shape s = {.rank = n > 0, .d = {n}};
	char unique[256];
	snprintf(unique, sizeof unique, "%.200s.%d", name, ++im->last_id);
	int v = graph_add_value(im->g, unique);
	int rc = v < 0 ? v : tensor_alloc(&im->g->arena, t, &s, &im->g->value[v].t);
	if (rc < 0)
		return rc;
	memcpy(im->g->value[v].t.data, data, (size_t)shape_count(&s) * dtype_bytes(t));
	return v;
}

int flow_ints(struct importer *im, const char *name, int n, const int64_t *data)
{
	return constant(im, name, DT_I64, n, data);
}

int flow_bool(struct importer *im, const char *name, bool data)
{
	uint8_t b = data;
	return constant(im, name, DT_BOOL, 0, &b);
}

/* An integer or bool input of rank 0 that value v depends on, if a short search finds one; else NULL. */
static const char *find_switch(const struct graph *g, int v)
{
	int stack[HINT_VISITS], n = 0, visits = 0;
	stack[n++] = v;
	while (n && visits++ < HINT_VISITS) {
		const struct value *x = &g->value[stack[--n]];
		if (x->is_input && x->t.shape.rank == 0 && x->t.dtype != DT_F32 && x->t.dtype != DT_F64)
			return x->name;
		const struct node *p = x->producer >= 0 ? &g->node[x->producer] : NULL;
		for (int i = 0; p && i < p->nin && n < HINT_VISITS; i++)
			if (p->in[i] >= 0 && !g->value[p->in[i]].t.data)
				stack[n++] = p->in[i];
	}
	return NULL;
}

int flow_scalar(struct importer *im, int v, enum dtype t, const char *what, int64_t *out)
{
	const struct value *x = &im->g->value[v];
	if (x->t.dtype != t || shape_count(&x->t.shape) != 1)
		return fail(E_CORRUPT, "its %s '%.200s' is no %s of one element", what, x->name,
			    dtype_name(t));
	if (x->t.data) {
		*out = tensor_get_i64(&x->t, 0);
		return E_OK;
	}
	const char *input = find_switch(im->g, v);
	return fail(
	    E_UNSUPPORTED,
	    "its %s '%.200s' depends on data; supported is what follows from constants and shapes%s%s%s%s%s",
	    what, x->name, input ? ": give the scalar input '" : "", input ? input : "",
	    input ? "' a value, as in " : "", input ? import_shape_option(im) : "",
	    input ? "NAME=VALUE" : "");
}
