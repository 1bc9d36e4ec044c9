/* SPDX-License-Identifier: Apache-2.0 */
/* A built plan as bytes without addresses, and back. Numbers of this machine are written as they lie in
 * memory: nobody else reads them. */
#include "agent/halo.h"
#include "agent/plan_parts.h"

#include <stdlib.h>
#include <string.h>

enum region { NOWHERE, IN_MEMORY, IN_WEIGHTS, GIVEN };

enum { MOST = 1 << 20 }; /* of anything that is counted */

static void put(struct buf *b, const void *p, size_t n)
{
	buf_add(b, p, n);
}

static void put_text(struct buf *b, const char *s)
{
	buf_u32(b, s ? (uint32_t)strlen(s) : 0);
	buf_puts(b, s ? s : "");
}

/* Only what compiled kernels do, and what they leave in memory, can be said. */
static bool describable(const struct plan *p)
{
	for (int i = 0; i < p->nsteps; i++) {
		const struct pstep *ps = &p->step[i];
		if (ps->step->kind == STEP_HOST || ps->tail || ps->host ||
		    (ps->step->kind == STEP_TASK && !ps->code))
			return false;
	}
	for (int i = 0; i < p->g->noutputs; i++)
		if (p->g->value[p->g->output[i]].t.data || !p->place[p->g->output[i]].p)
			return false;
	return !p->keep;
}

static int64_t offset_in(const struct pages *g, const void *at)
{
	const char *begin = g->p, *p = at;
	return begin && p >= begin && p <= begin + g->bytes ? p - begin : -1;
}

static void put_place(const struct plan *p, struct buf *b, void *const *at)
{
	enum region region = NOWHERE;
	int64_t offset = 0;
	if (offset_in(&p->memory, *at) >= 0 && *at) {
		region = IN_MEMORY;
		offset = offset_in(&p->memory, *at);
	} else if (offset_in(&p->weights, *at) >= 0 && *at) {
		region = IN_WEIGHTS;
		offset = offset_in(&p->weights, *at);
	}
	for (int i = 0; i < p->ngiven; i++)
		if (p->given[i].at == at) {
			region = GIVEN;
			offset = p->given[i].input;
		}
	buf_u32(b, region);
	buf_u64(b, (uint64_t)offset);
}

static void put_step(const struct plan *p, struct buf *b, const struct pstep *ps)
{
	const struct plan_kernel *k = &p->kernel[ps->kernel];
	const struct manifest *m = &ps->found->m;
	put_text(b, k->name);
	put_text(b, k->label);
	buf_u32(b, (uint32_t)k->origin);
	put(b, &k->flops, sizeof k->flops);
	put(b, &k->bytes, sizeof k->bytes);
	put(b, &k->roofline_ns, sizeof k->roofline_ns);
	buf_u32(b, ps->alone);
	buf_u32(b, (uint32_t)ps->nrefill);
	for (int i = 0; i < ps->nrefill; i++)
		buf_u32(b, (uint32_t)ps->refill[i]);
	buf_u32(b, (uint32_t)ps->found->object.n);
	put(b, ps->found->object.p, ps->found->object.n);
	buf_u32(b, (uint32_t)ps->nentries);
	for (int e = 0; e < ps->nentries; e++) {
		put(b, m->entry[e], sizeof m->entry[e]);
		buf_u64(b, (uint64_t)ps->entry[e].extent);
	}
	put(b, ps->param, sizeof ps->param);
	buf_u32(b, (uint32_t)ps->nbufs);
	for (int i = 0; i < ps->nbufs; i++)
		put_place(p, b, &ps->buf[i]);
}

static void put_tensor(const struct plan *p, struct buf *b, int v, const struct window *w)
{
	const struct value *x = &p->g->value[v];
	put_text(b, x->name);
	buf_u32(b, (uint32_t)v);
	buf_u32(b, (uint32_t)x->t.dtype);
	buf_u32(b, (uint32_t)x->t.shape.rank);
	for (int d = 0; d < x->t.shape.rank; d++)
		buf_u64(b, (uint64_t)x->t.shape.d[d]);
	put(b, w, sizeof *w);
}

/* Values that have a place of their own to be known: those with halos, inputs, outputs. */
static bool known(const struct plan *p, int v)
{
	bool here = p->place[v].p && p->place[v].nhalo;
	for (int i = 0; i < p->g->ninputs; i++)
		here |= p->g->input[i] == v && p->place[v].p;
	for (int i = 0; i < p->g->noutputs; i++)
		here |= p->g->output[i] == v;
	return here;
}

static void put_values(const struct plan *p, struct buf *b)
{
	uint32_t n = 0;
	for (int v = 0; v < p->s->nvalues; v++)
		n += known(p, v);
	buf_u32(b, (uint32_t)p->s->nvalues);
	buf_u32(b, n);
	for (int v = 0; v < p->s->nvalues; v++) {
		const struct place *x = &p->place[v];
		if (!known(p, v))
			continue;
		buf_u32(b, (uint32_t)v);
		buf_u64(b, (uint64_t)offset_in(&p->memory, x->p));
		buf_u32(b, x->refill);
		put(b, &p->s->value[v].buf.fill, sizeof(float));
		buf_u32(b, (uint32_t)x->nhalo);
		put(b, x->halo, sizeof *x->halo * (size_t)x->nhalo);
	}
}

void plan_describe(const struct plan *p, struct buf *b)
{
	if (!describable(p))
		return;
	buf_u64(b, p->memory_bytes);
	buf_u64(b, (uint64_t)p->live_bytes);
	buf_u64(b, p->weight_bytes);
	buf_u64(b, p->thread_bytes);
	buf_u32(b, p->alone);
	put_values(p, b);
	buf_u32(b, (uint32_t)p->g->ninputs);
	for (int i = 0; i < p->g->ninputs; i++)
		put_tensor(p, b, p->g->input[i], &p->copy_in[i]);
	buf_u32(b, (uint32_t)p->g->noutputs);
	for (int i = 0; i < p->g->noutputs; i++)
		put_tensor(p, b, p->g->output[i], &p->copy_out[i]);
	uint32_t n = 0;
	for (int i = 0; i < p->nsteps; i++)
		n += p->step[i].step->kind == STEP_TASK;
	buf_u32(b, n);
	for (int i = 0; i < p->nsteps; i++)
		if (p->step[i].step->kind == STEP_TASK)
			put_step(p, b, &p->step[i]);
}

/* Reading back. */
struct reader {
	struct cur c;
	struct plan *p;
	struct graph *g;
	struct step_value *value;
	struct step *step;
};

static void get(struct reader *r, void *to, size_t n)
{
	const void *from = cur_bytes(&r->c, n);
	if (from)
		memcpy(to, from, n);
	else
		memset(to, 0, n);
}

/* A number below `end`; 0 and bad beyond. */
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

static void *room(struct reader *r, size_t n, size_t bytes)
{
	void *p = r->c.bad ? NULL : arena_try(&r->p->a, n + 1, bytes);
	r->c.bad |= !p;
	return p;
}

static void get_place(struct reader *r, void **at)
{
	struct plan *p = r->p;
	enum region region = (enum region)get_below(r, GIVEN + 1);
	uint64_t offset = cur_u64(&r->c);
	const struct pages *g = region == IN_MEMORY ? &p->memory : &p->weights;
	*at = NULL;
	if (region == NOWHERE)
		return;
	r->c.bad |= offset > (region == GIVEN ? (uint64_t)p->g->ninputs - 1 : g->bytes) || !p->g->ninputs;
	if (r->c.bad)
		return;
	if (region != GIVEN) {
		*at = (char *)g->p + offset;
		return;
	}
	if (p->ngiven % 16 == 0) {
		struct given *more = room(r, (size_t)p->ngiven + 16, sizeof *more);
		if (!more)
			return;
		if (p->ngiven)
			memcpy(more, p->given, sizeof *more * (size_t)p->ngiven);
		p->given = more;
	}
	p->given[p->ngiven++] = (struct given){at, (int)offset};
}

static int get_code(struct reader *r, struct pstep *ps)
{
	uint32_t n = get_below(r, UINT32_C(16) << 20);
	const void *object = cur_bytes(&r->c, n);
	if (!object)
		return E_CORRUPT;
	int rc = r->p->dev ? r->p->dev->load(object, n, &ps->code) : fail(E_UNSUPPORTED, "no CPU device");
	if (rc < 0) {
		ps->code = NULL;
		return rc;
	}
	ps->nentries = (int)get_below(r, LOOPS_MAX_ENTRIES + 1);
	for (int e = 0; e < ps->nentries; e++) {
		char name[17] = "";
		get(r, name, 16);
		ps->entry[e].extent = (int64_t)get_bytes(r);
		rc = ps->entry[e].entry = r->p->dev->entry(ps->code, name);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static int get_step(struct reader *r, int i)
{
	struct plan *p = r->p;
	struct pstep *ps = &p->step[i];
	struct plan_kernel *k = &p->kernel[i];
	ps->step = &r->step[i];
	r->step[i].kind = STEP_TASK;
	ps->kernel = k->step = i;
	k->name = r->step[i].name = get_text(r);
	k->label = get_text(r);
	ps->origin = k->origin = (enum kernel_origin)get_below(r, FROM_HOST + 1);
	get(r, &k->flops, sizeof k->flops);
	get(r, &k->bytes, sizeof k->bytes);
	get(r, &k->roofline_ns, sizeof k->roofline_ns);
	ps->alone = cur_u32(&r->c) != 0;
	ps->nrefill = (int)get_below(r, MAX_OPERANDS + 1);
	for (int j = 0; j < ps->nrefill; j++)
		ps->refill[j] = (int)get_below(r, (uint64_t)p->s->nvalues);
	int rc = get_code(r, ps);
	if (rc < 0)
		return rc;
	get(r, ps->param, sizeof ps->param);
	ps->nbufs = (int)get_below(r, CODE_MAX_BUFS + 1);
	for (int j = 0; j < ps->nbufs; j++)
		get_place(r, &ps->buf[j]);
	return r->c.bad ? E_CORRUPT : E_OK;
}

static void get_values(struct reader *r)
{
	struct plan *p = r->p;
	struct steps *s = room(r, 1, sizeof *s);
	uint32_t n = get_below(r, MOST), here = get_below(r, (uint64_t)n + 1);
	p->place = room(r, n, sizeof *p->place);
	r->value = room(r, n, sizeof *r->value);
	r->g->value = room(r, n, sizeof *r->g->value);
	if (r->c.bad)
		return;
	*s = (struct steps){.nvalues = (int)n, .value = r->value};
	r->g->nvalues = (int)n;
	p->s = s;
	for (uint32_t i = 0; i < here && !r->c.bad; i++) {
		uint32_t v = get_below(r, n);
		uint64_t at = cur_u64(&r->c);
		struct place *x = &p->place[v];
		r->c.bad |= at > p->memory.bytes;
		x->refill = cur_u32(&r->c) != 0;
		get(r, &r->value[v].buf.fill, sizeof(float));
		x->nhalo = (int)get_below(r, MOST);
		x->halo = room(r, (size_t)x->nhalo, sizeof *x->halo);
		if (r->c.bad)
			return;
		x->p = (char *)p->memory.p + at;
		get(r, x->halo, sizeof *x->halo * (size_t)x->nhalo);
		for (int j = 0; j < x->nhalo; j++) {
			const struct segment *h = &x->halo[j];
			int64_t end = (int64_t)((p->memory.bytes - at) / sizeof(float));
			r->c.bad |= h->at < 0 || h->n < 0 || h->n > end || h->at > end - h->n;
		}
		if (!r->c.bad)
			plan_set_halo(p, (int)v, 0, 1, 1);
	}
}

static void get_tensors(struct reader *r, int *n, int **index, struct operand **o, struct window **w)
{
	*n = (int)get_below(r, 4096);
	*index = room(r, (size_t)*n, sizeof **index);
	*o = room(r, (size_t)*n, sizeof **o);
	*w = room(r, (size_t)*n, sizeof **w);
	for (int i = 0; i < *n && !r->c.bad; i++) {
		const char *name = get_text(r);
		int v = (*index)[i] = (int)get_below(r, (uint64_t)r->g->nvalues);
		struct value *x = &r->g->value[v];
		x->name = name;
		x->producer = -1;
		x->t.dtype = (enum dtype)get_below(r, DTYPES);
		x->t.shape.rank = (int)get_below(r, MAX_RANK + 1);
		for (int d = 0; d < x->t.shape.rank; d++)
			x->t.shape.d[d] = (int64_t)get_bytes(r);
		r->c.bad |= shape_check(&x->t.shape, INT64_C(1) << 40) < 0;
		(*o)[i].dtype = x->t.dtype;
		(*o)[i].dims = x->t.shape;
		get(r, &(*w)[i], sizeof **w);
		const struct window *one = &(*w)[i];
		r->c.bad |= one->nloops < 0 || one->nloops > 2 * MAX_RANK || one->nodd < 0 || one->nodd > 2 ||
			    one->shared >= one->nloops;
	}
}

static int restore(struct reader *r)
{
	struct plan *p = r->p;
	r->g = room(r, 1, sizeof *r->g);
	p->memory_bytes = get_bytes(r);
	p->live_bytes = (int64_t)get_bytes(r);
	p->weight_bytes = get_bytes(r);
	p->thread_bytes = get_bytes(r);
	p->alone = cur_u32(&r->c) != 0;
	p->scratch_bytes = (size_t)(p->pool ? pool_threads(p->pool) : 1) * p->thread_bytes;
	p->g = r->g;
	int rc = r->c.bad ? E_CORRUPT : pages_open(&p->memory, p->memory_bytes, PAGES_PLAIN);
	if (rc >= 0)
		rc = pages_open(&p->weights, p->weight_bytes, PAGES_PLAIN);
	if (rc >= 0)
		rc = pages_open(&p->threads, p->scratch_bytes, PAGES_PLAIN);
	if (rc < 0)
		return rc;
	get_values(r);
	get_tensors(r, &r->g->ninputs, &r->g->input, &p->in, &p->copy_in);
	get_tensors(r, &r->g->noutputs, &r->g->output, &p->out, &p->copy_out);
	uint32_t n = get_below(r, MOST);
	p->step = room(r, n, sizeof *p->step);
	p->kernel = room(r, n, sizeof *p->kernel);
	r->step = room(r, n, sizeof *r->step);
	for (uint32_t i = 0; i < n && rc >= 0 && !r->c.bad; i++) {
		p->nsteps = p->nkernels = (int)i + 1;
		rc = get_step(r, (int)i);
	}
	return rc < 0 ? rc : r->c.bad || r->c.at != r->c.n ? E_CORRUPT : E_OK;
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
