/* SPDX-License-Identifier: Apache-2.0 */
/* Restores a plan from what plan_image.c wrote. Every count, offset and index is checked against its limit,
 * and so is the range that portable tasks and windows touch; machine code is trusted, and so is the range
 * that it touches. */
#include "agent/run/halo.h"
#include "agent/run/plan_parts.h"
#include "kernels/task/task_stage.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 }; /* limit of every count */

struct reader {
	struct cur c;
	struct plan *p;
	struct graph *g;
	struct steps *s;
	struct step_value *value;
	struct step *step;
	size_t temporary_bytes;
	int lanes; /* that the portable steps packed constants for */
};

static void get(struct reader *r, void *to, size_t n)
{
	const void *from = cur_bytes(&r->c, n);
	if (from)
		memcpy(to, from, n);
	else
		memset(to, 0, n);
}

/* Reads a number below `end`; else marks the reader bad and returns 0. */
static uint32_t get_below(struct reader *r, uint64_t end)
{
	uint32_t v = cur_u32(&r->c);
	r->c.bad |= v >= end;
	return r->c.bad ? 0 : v;
}

static uint64_t get_bytes(struct reader *r)
{
	uint64_t v = cur_u64(&r->c);
	r->c.bad |= v > SIZE_MAX / 8;
	return r->c.bad ? 0 : v;
}

static const char *get_text(struct reader *r)
{
	uint32_t n = get_below(r, MOST);
	const char *p = cur_bytes(&r->c, n);
	return p ? arena_strndup(&r->p->a, p, n) : "";
}

/* Allocates n elements; refuses more elements than there are bytes left, as each takes at least one byte. */
static void *room(struct reader *r, size_t n, size_t bytes)
{
	r->c.bad |= n > r->c.n - r->c.at + 1;
	void *p = r->c.bad ? NULL : arena_try(&r->p->a, n + 1, bytes);
	r->c.bad |= !p;
	return p;
}

static void add_given(struct reader *r, void **at, int tensor, bool output)
{
	struct plan *p = r->p;
	if (p->ngiven % 16 == 0) {
		struct given *more = arena_try(&p->a, (size_t)p->ngiven + 16, sizeof *more);
		r->c.bad |= !more;
		if (!more)
			return;
		if (p->ngiven)
			memcpy(more, p->given, sizeof *more * (size_t)p->ngiven);
		p->given = more;
	}
	p->given[p->ngiven++] = (struct given){at, tensor, output};
}

enum need { MAY_MISS, READ, WRITTEN };

/* Returns the bytes of a caller's input or output. */
static uint64_t given_bytes(const struct plan *p, enum image_region region, uint64_t i)
{
	const struct operand *o = region == GIVEN ? p->in : p->out;
	return i < (uint64_t)(region == GIVEN ? p->g->ninputs : p->g->noutputs)
		   ? (uint64_t)shape_count(&o[i].dims) * dtype_bytes(o[i].dtype)
		   : 0;
}

static bool is_callers(enum image_region region)
{
	return region == GIVEN || region == TAKEN;
}

/* Reads a place of `bytes`, in elements of `unit` bytes. Weights and inputs may not be written. */
static void get_place(struct reader *r, uint64_t bytes, size_t unit, enum need need, void **at)
{
	struct plan *p = r->p;
	size_t own = p->scratch_bytes - r->temporary_bytes;
	enum image_region region = (enum image_region)get_below(r, IMAGE_REGIONS);
	uint64_t offset = cur_u64(&r->c), begin = is_callers(region) ? 0 : offset;
	const struct {
		char *p;
		uint64_t n;
	} in[IMAGE_REGIONS] = {
	    [IN_MEMORY] = {p->memory.p, p->memory.bytes},
	    [IN_WEIGHTS] = {p->weights.p, p->weights.bytes},
	    [IN_TEMPORARY] = {(char *)p->threads.p + own, r->temporary_bytes},
	    [GIVEN] = {NULL, given_bytes(p, GIVEN, offset)},
	    [TAKEN] = {NULL, given_bytes(p, TAKEN, offset)},
	};
	*at = NULL;
	if (region == NOWHERE) {
		r->c.bad |= bytes && need != MAY_MISS;
		return;
	}
	r->c.bad |= bytes > in[region].n || begin > in[region].n - bytes || begin % unit ||
		    (region == GIVEN && offset >= (uint64_t)p->g->ninputs) ||
		    (region == TAKEN && offset >= (uint64_t)p->g->noutputs) ||
		    (need == WRITTEN && (region == GIVEN || region == IN_WEIGHTS));
	if (r->c.bad)
		return;
	if (is_callers(region))
		add_given(r, at, (int)offset, region == TAKEN);
	else
		*at = in[region].p + offset;
}

/* Returns the elements of `unit` bytes from a place of get_place to the end of its region. */
static int64_t elems_from(const struct reader *r, void *const *at, int64_t unit)
{
	const struct plan *p = r->p;
	int64_t offset;
	enum image_region region = plan_region(p, at, &offset);
	uint64_t n = region == IN_MEMORY      ? p->memory.bytes
		     : region == IN_WEIGHTS   ? p->weights.bytes
		     : region == IN_TEMPORARY ? r->temporary_bytes
		     : is_callers(region)     ? given_bytes(p, region, (uint64_t)offset)
					      : 0;
	return (int64_t)(n - (is_callers(region) || region == NOWHERE ? 0 : (uint64_t)offset)) / unit;
}

static void get_shape(struct reader *r, struct tensor *t)
{
	t->dtype = (enum dtype)get_below(r, DTYPES);
	t->shape.rank = (int)get_below(r, MAX_RANK + 1);
	for (int d = 0; d < t->shape.rank; d++)
		t->shape.d[d] = (int64_t)get_bytes(r);
	r->c.bad |= shape_check(&t->shape, INT64_C(1) << 40) < 0;
	if (r->c.bad)
		t->shape.rank = 0;
}

static uint64_t tensor_bytes(const struct tensor *t)
{
	return (uint64_t)shape_count(&t->shape) * dtype_bytes(t->dtype);
}

static void get_data(struct reader *r, struct tensor *t)
{
	if (!get_below(r, 2))
		return;
	uint64_t n = tensor_bytes(t);
	const void *from = n < SIZE_MAX ? cur_bytes(&r->c, (size_t)n) : NULL;
	t->data = from ? arena_try(&r->p->a, (size_t)n + 1, 1) : NULL;
	r->c.bad |= !t->data;
	if (t->data && n)
		memcpy(t->data, from, (size_t)n);
}

/* Reads a task in portable C and where its operands lie, MAX_OPERANDS at most. */
static int get_portable(struct reader *r, struct host_task **host, void **at)
{
	struct task *t = room(r, 1, sizeof *t);
	struct operand *packed = room(r, MAX_OPERANDS, sizeof *packed);
	const char *text = get_text(r);
	if (r->c.bad || task_parse(text, t) < 0 || t->nsyms || r->p->thread_bytes < host_scratch_bytes())
		return E_CORRUPT;
	int rc = host_make(t, HOST_RUNS, r->lanes, NULL, &r->p->a, packed, host);
	for (int i = 0; i < t->noperands && rc >= 0; i++) {
		bool written = packed[i].role == ROLE_OUT || packed[i].role == ROLE_TMP;
		get_place(r, (uint64_t)operand_elems(&packed[i]) * dtype_bytes(packed[i].dtype),
			  dtype_bytes(packed[i].dtype), written ? WRITTEN : READ, &at[i]);
	}
	return rc < 0 ? rc : r->c.bad ? E_CORRUPT : E_OK;
}

/* Reads all machine code. */
static int get_objects(struct reader *r)
{
	struct plan *p = r->p;
	int n = (int)get_below(r, MOST);
	struct blob *obj = room(r, (size_t)n, sizeof *obj);
	p->codes = room(r, (size_t)n, sizeof *p->codes);
	for (int i = 0; i < n && !r->c.bad; i++) {
		obj[i].n = get_below(r, UINT32_C(16) << 20);
		obj[i].p = cur_bytes(&r->c, obj[i].n);
	}
	if (r->c.bad || !n)
		return r->c.bad ? E_CORRUPT : E_OK;
	int rc = p->dev ? p->dev->load_all(obj, n, p->codes) : fail(E_UNSUPPORTED, "no CPU device");
	p->ncodes = rc < 0 ? 0 : n;
	return rc;
}

static int get_code(struct reader *r, struct pstep *ps)
{
	uint32_t object = get_below(r, (uint64_t)r->p->ncodes);
	if (r->c.bad)
		return E_CORRUPT;
	ps->code = r->p->codes[object];
	ps->nentries = (int)get_below(r, LOOPS_MAX_ENTRIES + 1);
	for (int e = 0; e < ps->nentries; e++) {
		char name[17] = "";
		get(r, name, 16);
		ps->entry[e].extent = (int64_t)get_bytes(r);
		int rc = ps->entry[e].entry = r->p->dev->entry(ps->code, name);
		if (rc < 0)
			return rc;
	}
	get(r, ps->param, sizeof ps->param);
	ps->nbufs = (int)get_below(r, CODE_MAX_BUFS + 1);
	for (int j = 0; j < ps->nbufs; j++)
		get_place(r, 0, 1, MAY_MISS, &ps->buf[j]);
	return get_below(r, 2) ? get_portable(r, &ps->tail, ps->tail_buf) : E_OK;
}

static void get_numbers(struct reader *r, struct attr *x)
{
	int64_t *ints = x->kind == ATTR_INTS ? room(r, (size_t)x->n, sizeof *ints) : NULL;
	float *floats = x->kind == ATTR_FLOATS ? room(r, (size_t)x->n, sizeof *floats) : NULL;
	const char **strings = x->kind == ATTR_STRINGS ? room(r, (size_t)x->n, sizeof *strings) : NULL;
	for (int i = 0; ints && i < x->n; i++)
		ints[i] = (int64_t)cur_u64(&r->c);
	for (int i = 0; floats && i < x->n; i++)
		get(r, &floats[i], sizeof *floats);
	for (int i = 0; strings && i < x->n; i++)
		strings[i] = get_text(r);
	x->ints = ints;
	x->floats = floats;
	x->strings = strings;
}

static void get_attr(struct reader *r, struct attr *x)
{
	x->name = get_text(r);
	x->kind = (enum attr_kind)get_below(r, ATTR_STRINGS + 1);
	x->n = (int)get_below(r, MOST);
	x->i = (int64_t)cur_u64(&r->c);
	get(r, &x->f, sizeof x->f);
	x->s = get_text(r);
	if (x->kind == ATTR_TENSOR) {
		get_shape(r, &x->t);
		get_data(r, &x->t);
	} else {
		get_numbers(r, x);
	}
}

static void get_parts(struct reader *r, struct pstep *ps, int most)
{
	ps->nparts = (int)get_below(r, (uint64_t)most + 1);
	ps->part = ps->nparts ? room(r, (size_t)ps->nparts, sizeof *ps->part) : NULL;
	for (int i = 0; ps->part && i < ps->nparts; i++) {
		get(r, &ps->part[i].w, sizeof ps->part[i].w);
		ps->part[i].bytes = (int64_t)get_bytes(r);
		ps->part[i].there = cur_u32(&r->c) != 0;
	}
}

/* Returns whether a window can copy a tensor: an empty one has no region. */
static bool is_copied(const struct tensor *t, const struct window *w)
{
	return w->unit > 0 && dtype_bytes(t->dtype) == (size_t)w->unit && tensor_bytes(t);
}

/* Returns the elements of `unit` bytes between two tensors; a caller's tensor has no address yet. */
static int64_t away(const char *from, const char *to, int64_t unit)
{
	return from && to ? (to - from) / unit : WINDOW_APART;
}

/* Checks the copies of a Concat or a Split. */
static void check_parts(struct reader *r, const struct pstep *ps, bool join)
{
	const struct opctx *c = &ps->ctx;
	if (r->c.bad || !ps->nparts)
		return;
	void *const *whole = join ? &c->out[0].data : &c->in[0].data;
	for (int i = 0; i < ps->nparts && !r->c.bad; i++) {
		const struct part *x = &ps->part[i];
		void *const *part = join ? &c->in[i].data : &c->out[i].data;
		if (x->bytes && !x->there)
			r->c.bad |=
			    !is_copied(join ? &c->in[i] : &c->out[i], &x->w) ||
			    !is_copied(join ? &c->out[0] : &c->in[0], &x->w) ||
			    !window_fits(&x->w, elems_from(r, part, x->w.unit),
					 elems_from(r, whole, x->w.unit), away(*part, *whole, x->w.unit));
	}
}

/* Reads the operator, its attributes and the numbers of inputs and outputs. */
static int get_operator(struct reader *r, struct node *n)
{
	const char *type = get_text(r);
	n->opset = (int)get_below(r, MOST);
	n->op = r->c.bad ? NULL : op_find(type, n->opset, &n->row);
	if (!n->op)
		return E_CORRUPT;
	n->nattr = (int)get_below(r, MOST);
	n->attr = room(r, (size_t)n->nattr, sizeof *n->attr);
	for (int i = 0; i < n->nattr && !r->c.bad; i++)
		get_attr(r, &n->attr[i]);
	const struct op_row *row = &n->op->rows[n->row];
	n->nin = (int)get_below(r, MOST);
	n->nout = (int)get_below(r, MOST);
	r->c.bad |= n->nin < row->min_in || (row->max_in >= 0 && n->nin > row->max_in) ||
		    n->nout < row->min_out || (row->max_out >= 0 && n->nout > row->max_out);
	return r->c.bad ? E_CORRUPT : E_OK;
}

static int get_node(struct reader *r, struct pstep *ps, int i)
{
	struct node *n = &r->g->node[i];
	struct opctx *c = &ps->ctx;
	int rc = get_operator(r, n);
	if (rc < 0)
		return rc;
	*c = (struct opctx){.node = n,
			    .code = n->op->rows[n->row].code,
			    .opset = n->opset,
			    .arena = &r->p->scratch,
			    .nin = n->nin,
			    .nout = n->nout};
	n->name = ps->step->name;
	c->in = room(r, (size_t)n->nin, sizeof *c->in);
	c->out = room(r, (size_t)n->nout, sizeof *c->out);
	n->in = room(r, (size_t)n->nin, sizeof *n->in);
	n->out = room(r, (size_t)n->nout, sizeof *n->out);
	for (int k = 0; k < n->nin + n->nout && !r->c.bad; k++) {
		struct tensor *t = k < n->nin ? &c->in[k] : &c->out[k - n->nin];
		get_shape(r, t);
		int given = r->p->ngiven;
		get_place(r, tensor_bytes(t), dtype_bytes(t->dtype) ? dtype_bytes(t->dtype) : 1,
			  k < n->nin ? READ : WRITTEN, &t->data);
		r->c.bad |= r->p->ngiven != given; /* plan_check must know where its operands lie */
		if (k < n->nin)
			n->in[k] = -1; /* eval does not read it */
	}
	for (int k = 0; k < n->nout && !r->c.bad; k++)
		n->out[k] = (int)get_below(r, (uint64_t)r->s->nvalues + 1) - 1;
	bool join = !strcmp(node_type(n), "Concat"), split = !strcmp(node_type(n), "Split");
	get_parts(r, ps, join ? n->nin : split ? n->nout : 0);
	check_parts(r, ps, join);
	return r->c.bad ? E_CORRUPT : E_OK;
}

static int get_step(struct reader *r, int i)
{
	struct plan *p = r->p;
	struct pstep *ps = &p->step[i];
	struct plan_kernel *k = &p->kernel[i];
	enum image_step kind = (enum image_step)get_below(r, IMAGE_STEPS);
	struct step *s = &r->step[i];
	ps->step = s;
	s->kind = kind == IMAGE_NODE ? STEP_HOST : STEP_TASK;
	ps->kernel = k->step = s->node = i;
	k->name = s->name = get_text(r);
	k->label = get_text(r);
	ps->origin = k->origin = (enum kernel_origin)get_below(r, FROM_HOST + 1);
	k->at_default = get_below(r, 2) && k->origin == FROM_CACHE;
	get(r, &k->flops, sizeof k->flops);
	get(r, &k->bytes, sizeof k->bytes);
	get(r, &k->roofline_ns, sizeof k->roofline_ns);
	k->alone = ps->alone = cur_u32(&r->c) != 0;
	ps->nrefill = (int)get_below(r, MAX_OPERANDS + 1);
	for (int j = 0; j < ps->nrefill; j++)
		ps->refill[j] = (int)get_below(r, (uint64_t)p->s->nvalues);
	int rc = r->c.bad                 ? E_CORRUPT
		 : kind == IMAGE_NODE     ? get_node(r, ps, i)
		 : kind == IMAGE_PORTABLE ? get_portable(r, &ps->host, ps->buf)
					  : get_code(r, ps);
	return rc < 0 ? rc : r->c.bad ? E_CORRUPT : E_OK;
}

static void get_value(struct reader *r, uint32_t v)
{
	struct plan *p = r->p;
	struct place *x = &p->place[v];
	uint64_t at = cur_u64(&r->c);
	x->refill = cur_u32(&r->c) != 0;
	enum dtype type = (enum dtype)get_below(r, DTYPES);
	size_t unit = dtype_bytes(type) ? dtype_bytes(type) : 1;
	r->value[v].buf.dtype = type;
	get(r, &r->value[v].buf.fill, sizeof(float));
	x->nhalo = (int)get_below(r, MOST);
	x->halo = room(r, (size_t)x->nhalo, sizeof *x->halo);
	r->c.bad |= x->nhalo && type != DT_F32 && !dtype_is_byte(type);
	r->c.bad |= at != UINT64_MAX ? at > p->memory.bytes || (x->nhalo && at % unit) : x->nhalo > 0;
	if (r->c.bad || at == UINT64_MAX)
		return;
	x->p = (char *)p->memory.p + at;
	get(r, x->halo, sizeof *x->halo * (size_t)x->nhalo);
	int64_t end = (int64_t)((p->memory.bytes - at) / unit);
	for (int j = 0; j < x->nhalo; j++) {
		const struct segment *h = &x->halo[j];
		r->c.bad |= h->at < 0 || h->n < 0 || h->n > end || h->at > end - h->n;
	}
	if (!r->c.bad && !x->refill)
		plan_set_halo(p, (int)v, 0, 1, 1);
}

static void get_values(struct reader *r)
{
	struct plan *p = r->p;
	uint32_t n = get_below(r, MOST), here = get_below(r, (uint64_t)n + 1);
	p->place = arena_try(&p->a, (size_t)n + 1, sizeof *p->place);
	r->value = arena_try(&p->a, (size_t)n + 1, sizeof *r->value);
	r->g->value = arena_try(&p->a, (size_t)n + 1, sizeof *r->g->value);
	r->c.bad |= !p->place || !r->value || !r->g->value;
	r->s->nvalues = r->g->nvalues = r->c.bad ? 0 : (int)n;
	r->s->value = r->value;
	for (uint32_t i = 0; i < here && !r->c.bad; i++)
		get_value(r, get_below(r, n));
}

/* Checks the copy of the caller's i-th tensor to or from the place of its value. */
static void check_copy(struct reader *r, const struct value *x, int v, const struct window *w, bool output)
{
	const struct place *at = &r->p->place[v];
	uint64_t left = at->p ? r->p->memory.bytes - (uint64_t)(at->p - (char *)r->p->memory.p) : 0;
	if (!at->p || (output && x->t.data))
		return;
	size_t unit = dtype_bytes(x->t.dtype);
	r->c.bad |= !unit || (size_t)w->unit != unit || (uintptr_t)at->p % unit ||
		    !window_fits(w, shape_count(&x->t.shape), (int64_t)(left / unit), WINDOW_APART);
}

static void get_tensors(struct reader *r, int *n, int **index, struct operand **o, struct window **w,
			bool output)
{
	*n = (int)get_below(r, 4096);
	*index = room(r, (size_t)*n, sizeof **index);
	*o = room(r, (size_t)*n, sizeof **o);
	*w = room(r, (size_t)*n, sizeof **w);
	for (int i = 0; i < *n && !r->c.bad; i++) {
		const char *name = get_text(r);
		int v = (*index)[i] = (int)get_below(r, (uint64_t)r->g->nvalues);
		if (r->c.bad)
			break;
		struct value *x = &r->g->value[v];
		const struct tensor before = x->t;
		get_shape(r, &x->t);
		get_data(r, &x->t);
		r->c.bad |=
		    x->name && (before.dtype != x->t.dtype || !shape_equal(&before.shape, &x->t.shape));
		x->name = name;
		x->producer = -1;
		(*o)[i].dtype = x->t.dtype;
		(*o)[i].dims = x->t.shape;
		get(r, &(*w)[i], sizeof **w);
		check_copy(r, x, v, &(*w)[i], output);
	}
}

static int open_memory(struct reader *r)
{
	struct plan *p = r->p;
	p->memory_bytes = get_bytes(r);
	p->live_bytes = (int64_t)get_bytes(r);
	p->weight_bytes = get_bytes(r);
	p->thread_bytes = get_bytes(r);
	r->temporary_bytes = get_bytes(r);
	p->alone = cur_u32(&r->c) != 0;
	r->lanes = (int)get_below(r, TILE_LANES + 1);
	r->c.bad |= r->lanes < TILE_LEAST || r->lanes > tile_lanes() || (r->lanes & (r->lanes - 1));
	uint64_t threads = (uint64_t)(p->pool ? pool_threads(p->pool) : 1);
	r->c.bad |= p->thread_bytes > (SIZE_MAX / 2 - r->temporary_bytes) / threads;
	if (r->c.bad)
		return E_CORRUPT;
	p->scratch_bytes = (size_t)(threads * p->thread_bytes + r->temporary_bytes);
	int rc = pages_open(&p->memory, p->memory_bytes, PAGES_PLAIN);
	if (rc >= 0)
		rc = pages_open(&p->weights, p->weight_bytes, PAGES_PLAIN);
	if (rc >= 0)
		rc = pages_open(&p->threads, p->scratch_bytes, PAGES_PLAIN);
	return rc;
}

/* Whether every output is a constant, copied at the end, or used by a kernel where the caller has it. */
static bool outputs_made(const struct plan *p)
{
	for (int i = 0; i < p->g->noutputs; i++) {
		int v = p->g->output[i];
		bool made = p->g->value[v].t.data || p->place[v].p;
		for (int k = 0; k < p->ngiven; k++)
			made |= p->given[k].output && p->given[k].tensor == i;
		if (!made)
			return false;
	}
	return true;
}

static int restore(struct reader *r)
{
	struct plan *p = r->p;
	int rc = open_memory(r);
	p->g = r->g = room(r, 1, sizeof *r->g);
	p->s = r->s = room(r, 1, sizeof *r->s);
	if (rc < 0 || r->c.bad)
		return rc < 0 ? rc : E_CORRUPT;
	get_values(r);
	get_tensors(r, &r->g->ninputs, &r->g->input, &p->in, &p->copy_in, false);
	get_tensors(r, &r->g->noutputs, &r->g->output, &p->out, &p->copy_out, true);
	rc = get_objects(r);
	uint32_t n = get_below(r, MOST);
	p->step = room(r, n, sizeof *p->step);
	p->kernel = room(r, n, sizeof *p->kernel);
	r->s->step = r->step = room(r, n, sizeof *r->step);
	r->g->node = room(r, n, sizeof *r->g->node);
	for (uint32_t i = 0; i < n && rc >= 0 && !r->c.bad; i++) {
		p->nsteps = p->nkernels = r->s->nsteps = r->g->nnodes = (int)i + 1;
		rc = get_step(r, (int)i);
	}
	if (rc < 0)
		return rc;
	return r->c.bad || r->c.at != r->c.n || !outputs_made(p) ? E_CORRUPT : E_OK;
}

int plan_restore(const void *meta, size_t n, struct pool *pool, struct plan **out)
{
	struct plan *p = calloc(1, sizeof *p);
	if (!p)
		return fail(E_NOMEM, "no memory for a plan");
	struct reader r = {.c = {.p = meta, .n = n}, .p = p};
	p->pool = pool;
	p->dev = dev_find("cpu");
	int rc = restore(&r);
	if (rc < 0) {
		plan_free(p);
		return rc == E_CORRUPT ? fail(rc, "the description of a plan is damaged") : rc;
	}
	*out = p;
	return E_OK;
}
