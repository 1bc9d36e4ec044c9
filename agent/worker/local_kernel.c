/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/local.h"
#include "platform/machine/evict.h"
#include "platform/run/foreign.h"

#include <stdlib.h>
#include <string.h>

static void set_buf(struct local_built *b, int i, void *p)
{
	for (int t = 0; t < b->threads; t++)
		b->bufs[t * BUFS + i] = p;
}

/* Sets the memory of buffer i and its size in bytes. A size other than the operand's own means that the
 * manifest is of another task. */
static int place_buf(struct local_built *b, int i, void **p, size_t *bytes)
{
	const struct code_buf *c = &b->m.buf[i];
	struct exercise *x = b->x;
	if (c->operand < 0 || c->operand >= x->task.noperands || !x->data[c->operand].p)
		return fail(E_CORRUPT, "buffer %s does not belong to an operand", c->name);
	if (c->packed) {
		if (!x->constant[c->operand])
			return fail(E_CORRUPT, "buffer %s is packed, but no constant", c->name);
		int rc = constant_pack(x->constant[c->operand], c, &b->packed[i]);
		if (rc < 0)
			return rc;
		*p = packed_data(b->packed[i]);
		*bytes = packed_bytes(b->packed[i]);
		return E_OK;
	}
	int64_t elems = x->elems[c->operand] + x->past[c->operand];
	if (c->elems != elems)
		return fail(E_CORRUPT, "buffer %s is declared with %lld elements, the operand has %lld",
			    c->name, (long long)c->elems, (long long)elems);
	*p = x->bufs[c->operand];
	*bytes = x->data[c->operand].bytes;
	return E_OK;
}

static int place_bufs(struct local_built *b)
{
	for (int i = 0; i < b->m.nbufs; i++) {
		void *p = NULL;
		size_t bytes = 0;
		if (b->m.buf[i].role == BUF_SCRATCH)
			continue;
		int rc = place_buf(b, i, &p, &bytes);
		if (rc < 0)
			return rc;
		set_buf(b, i, p);
		b->bytes[i] = bytes;
		if (b->m.buf[i].role == BUF_CONST)
			b->const_bytes[i] = bytes;
	}
	return E_OK;
}

/* Makes the last buffer of each thread. It is poisoned: a kernel must write what it reads there. */
static int place_scratch(struct local_built *b)
{
	for (int t = 0; t < b->threads; t++) {
		int rc = pages_open(&b->scratch[t], (size_t)b->m.scratch_bytes, PAGES_GUARDED);
		if (rc < 0)
			return rc;
		memset(b->scratch[t].p, 0xff, b->scratch[t].bytes);
		bool last = b->m.nbufs && b->m.buf[b->m.nbufs - 1].role == BUF_SCRATCH;
		b->bufs[t * BUFS + b->m.nbufs - last] = b->scratch[t].p;
	}
	return E_OK;
}

static int find_entries(struct local_built *b, const struct dev *dev)
{
	for (int i = 0; i < b->m.nentries; i++) {
		int64_t extent = code_extent(&b->m, i, b->m.param);
		if (extent < 0)
			return (int)extent;
		b->extent[i] = extent;
		b->entry[i] = dev->entry(b->object->code, b->m.entry[i]);
		if (b->entry[i] < 0)
			return b->entry[i];
	}
	return E_OK;
}

int built_open(const struct local *l, struct exercise *x, struct local_object *o, const struct manifest *m,
	       struct local_built **out)
{
	struct local_built *b = calloc(1, sizeof *b);
	int threads = l->base.threads;
	if (!b)
		return fail(E_NOMEM, "no memory for a kernel");
	*b = (struct local_built){.x = x, .object = o, .m = *m, .threads = threads};
	x->users++;
	o->users++;
	b->scratch = calloc((size_t)threads, sizeof *b->scratch);
	b->bufs = calloc((size_t)threads * BUFS, sizeof *b->bufs);
	int rc = b->scratch && b->bufs ? place_bufs(b) : fail(E_NOMEM, "no memory for a kernel");
	if (rc >= 0 && !l->unit)
		rc = place_scratch(b);
	if (rc >= 0)
		rc = find_entries(b, l->dev);
	if (rc >= 0 && l->unit)
		rc = own_open(b, l->dev->own, l->unit);
	if (rc < 0) {
		built_close(b);
		return rc;
	}
	*out = b;
	return E_OK;
}

void built_close(struct local_built *b)
{
	own_close(b);
	for (int i = 0; i < CODE_MAX_BUFS; i++)
		if (b->packed[i])
			constant_unpack(b->packed[i]);
	for (int t = 0; b->scratch && t < b->threads; t++)
		pages_close(&b->scratch[t]);
	free(b->scratch);
	free(b->bufs);
	b->x->users--;
	b->object->users--;
	free(b);
}

bool built_chill(const struct local_built *b)
{
	bool done = !foreign_is(b->object->bytes, b->object->n);
	for (int i = 0; i < b->m.nbufs; i++)
		if (b->const_bytes[i])
			done = evict_range(b->bufs[i], b->const_bytes[i]) && done;
	return done;
}

struct touch {
	const float *p;
	int64_t elems;
};

enum { LINE_ELEMS = 16 };

static void touch_lines(void *ctx, int thread, int64_t begin, int64_t end)
{
	const struct touch *t = ctx;
	volatile float sink = 0;
	(void)thread;
	for (int64_t k = begin * LINE_ELEMS; k < end * LINE_ELEMS && k < t->elems; k += LINE_ELEMS)
		sink = t->p[k];
	(void)sink;
}

/* Reads each cache line once, so that inputs are as near as if their producers had just written them: each
 * thread's share in its own core's cache. */
void built_touch_inputs(const struct local_built *b, struct pool *pool)
{
	for (int i = 0; i < b->m.nbufs; i++) {
		int operand = b->m.buf[i].operand;
		if (b->m.buf[i].role != BUF_IN || operand < 0)
			continue;
		struct touch t = {b->x->bufs[operand], (int64_t)(b->x->data[operand].bytes / sizeof(float))};
		int64_t lines = (t.elems + LINE_ELEMS - 1) / LINE_ELEMS;
		if (pool)
			pool_run(pool, touch_lines, &t, lines);
		else
			touch_lines(&t, 0, 0, lines);
	}
}

struct part {
	const struct local_built *b;
	const struct dev *dev;
	int entry;
};

static void run_part(void *ctx, int thread, int64_t begin, int64_t end)
{
	const struct part *p = ctx;
	const struct local_built *b = p->b;
	p->dev->run(b->object->code, b->entry[p->entry], b->bufs + thread * BUFS, b->m.param, begin, end);
}

void built_run(const struct local_built *b, const struct dev *dev, struct pool *pool)
{
	for (int i = 0; i < b->m.nentries; i++) {
		struct part p = {b, dev, i};
		if (pool)
			pool_run(pool, run_part, &p, b->extent[i]);
		else
			run_part(&p, 0, 0, b->extent[i]);
	}
}

enum { LEAST_PARTS = 8, PLACES = 4 };

double built_run_part(const struct local_built *b, const struct dev *dev)
{
	double all = 0, ran = 0;
	for (int i = 0; i < b->m.nentries; i++)
		if (b->extent[i] < LEAST_PARTS) {
			built_run(b, dev, NULL);
			return 1;
		}
	for (int i = 0; i < b->m.nentries; i++) {
		struct part p = {b, dev, i};
		int64_t n = b->extent[i], each = (n / 4 + PLACES - 1) / PLACES;
		for (int k = 0; k < PLACES; k++) {
			int64_t at = n * k / PLACES;
			run_part(&p, 0, at, at + each);
		}
		all += (double)n;
		ran += (double)(each * PLACES);
	}
	return all / ran;
}
