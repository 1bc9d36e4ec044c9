/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a built plan as bytes without addresses; plan_restore.c reads them. Numbers are written as they lie
 * in this machine's memory: other machines do not read them. */
#include "agent/run/halo.h"
#include "agent/run/plan_parts.h"

#include <string.h>

static void put(struct buf *b, const void *p, size_t n)
{
	buf_add(b, p, n);
}

static void put_text(struct buf *b, const char *s)
{
	buf_u32(b, s ? (uint32_t)strlen(s) : 0);
	buf_puts(b, s ? s : "");
}

/* An empty buffer may lie at a region's end, which may be where another region begins. */
static int64_t offset_in(const void *begin, size_t bytes, const void *at, bool end)
{
	const char *from = begin, *p = at;
	return from && p >= from && p < from + bytes + end ? p - from : -1;
}

static enum image_region find_region(const struct plan *p, const void *at, int64_t *offset)
{
	size_t own = (size_t)(p->pool ? pool_threads(p->pool) : 1) * p->thread_bytes;
	const struct {
		const char *p;
		size_t n;
	} region[] = {
	    [IN_MEMORY] = {p->memory.p, p->memory.bytes},
	    [IN_WEIGHTS] = {p->weights.p, p->weights.bytes},
	    [IN_TEMPORARY] = {(char *)p->threads.p + own, p->scratch_bytes - own},
	};
	for (int end = 0; end <= 1 && at; end++)
		for (int i = IN_MEMORY; i <= IN_TEMPORARY; i++)
			if ((*offset = offset_in(region[i].p, region[i].n, at, end)) >= 0)
				return (enum image_region)i;
	*offset = 0;
	return NOWHERE;
}

enum image_region plan_region(const struct plan *p, void *const *at, int64_t *offset)
{
	for (int i = 0; i < p->ngiven; i++)
		if (p->given[i].at == at) {
			*offset = p->given[i].tensor;
			return p->given[i].output ? TAKEN : GIVEN;
		}
	return find_region(p, *at, offset);
}

static void put_place(const struct plan *p, struct buf *b, void *const *at)
{
	int64_t offset;
	buf_u32(b, plan_region(p, at, &offset));
	buf_u64(b, (uint64_t)offset);
}

static void put_shape(struct buf *b, const struct tensor *t)
{
	buf_u32(b, (uint32_t)t->dtype);
	buf_u32(b, (uint32_t)t->shape.rank);
	for (int d = 0; d < t->shape.rank; d++)
		buf_u64(b, (uint64_t)t->shape.d[d]);
}

/* Writes the elements, if there are any. */
static void put_data(struct buf *b, const struct tensor *t)
{
	buf_u32(b, t->data != NULL);
	if (t->data)
		put(b, t->data, (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype));
}

/* Writes a portable step as its task's text, from which it is made again. */
static void put_portable(const struct plan *p, struct buf *b, const struct task *t, void *const *at)
{
	struct buf text = {0};
	task_text(t, &text);
	put_text(b, buf_str(&text));
	for (int i = 0; i < t->noperands; i++)
		put_place(p, b, &at[i]);
	b->failed |= text.failed;
	buf_free(&text);
}

static void put_code(const struct plan *p, struct buf *b, const struct pstep *ps)
{
	const struct manifest *m = &ps->found->m;
	buf_u32(b, (uint32_t)ps->object);
	buf_u32(b, (uint32_t)ps->nentries);
	for (int e = 0; e < ps->nentries; e++) {
		put(b, m->entry[e], sizeof m->entry[e]);
		buf_u64(b, (uint64_t)ps->entry[e].extent);
	}
	put(b, ps->param, sizeof ps->param);
	buf_u32(b, (uint32_t)ps->nbufs);
	for (int i = 0; i < ps->nbufs; i++)
		put_place(p, b, &ps->buf[i]);
	buf_u32(b, ps->tail != NULL);
	if (ps->tail)
		put_portable(p, b, ps->tail_task, ps->tail_buf);
}

static void put_attr(struct buf *b, const struct attr *x)
{
	put_text(b, x->name);
	buf_u32(b, (uint32_t)x->kind);
	buf_u32(b, (uint32_t)x->n);
	buf_u64(b, (uint64_t)x->i);
	put(b, &x->f, sizeof x->f);
	put_text(b, x->s);
	if (x->kind == ATTR_TENSOR) {
		put_shape(b, &x->t);
		put_data(b, &x->t);
	}
	for (int i = 0; x->kind == ATTR_INTS && i < x->n; i++)
		buf_u64(b, (uint64_t)x->ints[i]);
	for (int i = 0; x->kind == ATTR_FLOATS && i < x->n; i++)
		put(b, &x->floats[i], sizeof *x->floats);
	for (int i = 0; x->kind == ATTR_STRINGS && i < x->n; i++)
		put_text(b, x->strings[i]);
}

static void put_node(const struct plan *p, struct buf *b, const struct pstep *ps)
{
	const struct node *n = &p->g->node[ps->step->node];
	put_text(b, node_type(n));
	buf_u32(b, (uint32_t)n->opset);
	buf_u32(b, (uint32_t)n->nattr);
	for (int i = 0; i < n->nattr; i++)
		put_attr(b, &n->attr[i]);
	buf_u32(b, (uint32_t)n->nin);
	buf_u32(b, (uint32_t)n->nout);
	for (int i = 0; i < n->nin + n->nout; i++) {
		const struct tensor *t = i < n->nin ? &ps->ctx.in[i] : &ps->ctx.out[i - n->nin];
		put_shape(b, t);
		put_place(p, b, &t->data);
	}
	for (int i = 0; i < n->nout; i++)
		buf_u32(b, (uint32_t)(n->out[i] + 1));
	buf_u32(b, (uint32_t)ps->nparts);
	for (int i = 0; i < ps->nparts; i++) {
		put(b, &ps->part[i].w, sizeof ps->part[i].w);
		buf_u64(b, (uint64_t)ps->part[i].bytes);
		buf_u32(b, ps->part[i].there);
	}
}

static void put_step(const struct plan *p, struct buf *b, const struct pstep *ps)
{
	const struct plan_kernel *k = &p->kernel[ps->kernel];
	enum image_step kind = ps->step->kind == STEP_HOST ? IMAGE_NODE
			       : ps->host                  ? IMAGE_PORTABLE
							   : IMAGE_CODE;
	buf_u32(b, kind);
	put_text(b, k->name);
	put_text(b, k->label);
	buf_u32(b, (uint32_t)k->origin);
	buf_u32(b, k->at_default);
	put(b, &k->flops, sizeof k->flops);
	put(b, &k->bytes, sizeof k->bytes);
	put(b, &k->roofline_ns, sizeof k->roofline_ns);
	buf_u32(b, ps->alone);
	buf_u32(b, (uint32_t)ps->nrefill);
	for (int i = 0; i < ps->nrefill; i++)
		buf_u32(b, (uint32_t)ps->refill[i]);
	if (kind == IMAGE_NODE)
		put_node(p, b, ps);
	else if (kind == IMAGE_PORTABLE)
		put_portable(p, b, ps->step->task, ps->buf);
	else
		put_code(p, b, ps);
}

static void put_tensor(const struct plan *p, struct buf *b, int v, const struct window *w)
{
	const struct value *x = &p->g->value[v];
	put_text(b, x->name);
	buf_u32(b, (uint32_t)v);
	put_shape(b, &x->t);
	put_data(b, &x->t);
	put(b, w, sizeof *w);
}

/* Returns whether the image must name the value's place: values with halos, inputs, outputs. */
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
		buf_u64(b, x->p ? (uint64_t)(x->p - (char *)p->memory.p) : UINT64_MAX);
		buf_u32(b, x->refill);
		buf_u32(b, (uint32_t)p->s->value[v].buf.dtype);
		put(b, &p->s->value[v].buf.fill, sizeof(float));
		buf_u32(b, (uint32_t)x->nhalo);
		put(b, x->halo, sizeof *x->halo * (size_t)x->nhalo);
	}
}

static bool same_object(const struct pstep *x, const struct pstep *y)
{
	const struct blob *a = &x->found->object, *b = &y->found->object;
	return a->n == b->n && !memcmp(a->p, b->p, a->n);
}

/* Writes each kernel's machine code once, however many steps run it. */
static void put_objects(struct plan *p, struct buf *b)
{
	int n = 0;
	struct buf all = {0};
	for (int i = 0; i < p->nsteps; i++) {
		struct pstep *ps = &p->step[i];
		int j = 0;
		if (!ps->code)
			continue;
		while (j < i && (!p->step[j].code || !same_object(&p->step[j], ps)))
			j++;
		ps->object = j < i ? p->step[j].object : n++;
		if (j < i)
			continue;
		buf_u32(&all, (uint32_t)ps->found->object.n);
		put(&all, ps->found->object.p, ps->found->object.n);
	}
	buf_u32(b, (uint32_t)n);
	buf_add(b, all.p, all.n);
	b->failed |= all.failed;
	buf_free(&all);
}

void plan_describe(struct plan *p, struct buf *b)
{
	size_t own = (size_t)(p->pool ? pool_threads(p->pool) : 1) * p->thread_bytes;
	buf_u64(b, p->memory_bytes);
	buf_u64(b, (uint64_t)p->live_bytes);
	buf_u64(b, p->weight_bytes);
	buf_u64(b, p->thread_bytes);
	buf_u64(b, p->scratch_bytes - own);
	buf_u32(b, p->alone);
	buf_u32(b, (uint32_t)tile_lanes());
	put_values(p, b);
	buf_u32(b, (uint32_t)p->g->ninputs);
	for (int i = 0; i < p->g->ninputs; i++)
		put_tensor(p, b, p->g->input[i], &p->copy_in[i]);
	buf_u32(b, (uint32_t)p->g->noutputs);
	for (int i = 0; i < p->g->noutputs; i++)
		put_tensor(p, b, p->g->output[i], &p->copy_out[i]);
	uint32_t n = 0;
	for (int i = 0; i < p->nsteps; i++)
		n += p->step[i].step->kind != STEP_ALIAS;
	put_objects(p, b);
	buf_u32(b, n);
	for (int i = 0; i < p->nsteps; i++)
		if (p->step[i].step->kind != STEP_ALIAS)
			put_step(p, b, &p->step[i]);
}
