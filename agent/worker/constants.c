/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/constants.h"
#include "kernels/task/pack.h"
#include "kernels/task/task_stage.h"
#include "platform/base/rng.h"

#include <stdlib.h>
#include <string.h>

struct packed {
	struct packed *next;
	struct constant *of;
	struct key key; /* of packing and size */
	int users;
	struct pages g;
};

bool constant_alike(const struct operand *a, const struct operand *b)
{
	return a->dtype == b->dtype && shape_equal(&a->dims, &b->dims) &&
	       layout_equal(&a->layout, &b->layout) && a->fill == b->fill;
}

void values_fill(struct rng *r, enum dtype type, void *p, int64_t n)
{
	static const uint8_t ends[] = {0, 255, 127, 128};
	enum { MANY = 2048, ENDS = 64 };
	if (!dtype_is_byte(type))
		rng_fill(r, p, (size_t)n);
	for (int64_t i = 0; i < n && dtype_is_byte(type); i++) {
		uint32_t v = rng_below(r, MANY);
		((uint8_t *)p)[i] = v < MANY - ENDS ? (uint8_t)v : ends[v % 4];
	}
}

/* Values depend on the form alone, so they are the same in every worker. Floats are such that kernels which
 * store them as f16 or bf16 give the same results as others. */
static void fill(const struct constant *c, void *plain, int64_t n)
{
	struct rng r;
	struct key k = hash_bytes(c->as.dims.d, sizeof *c->as.dims.d * (size_t)c->as.dims.rank);
	rng_seed(&r, k.lo + (uint64_t)c->nth);
	values_fill(&r, c->as.dtype, plain, n);
	for (int64_t i = 0; i < n && c->as.dtype == DT_F32; i++)
		((float *)plain)[i] = pack_exact(((float *)plain)[i]) * (float)c->scale;
}

static int make(struct constant *c, const struct operand *o)
{
	int64_t n = shape_count(&o->dims), elems = operand_elems(o);
	int rc = pages_open(&c->data, (size_t)elems * dtype_bytes(o->dtype), PAGES_GUARDED);
	if (rc < 0)
		return rc;
	bool same = n == elems && !o->layout.n; /* the order is the same */
	c->plain = same ? c->data.p : malloc(((size_t)n + 1) * dtype_bytes(o->dtype));
	if (!c->plain)
		return fail(E_NOMEM, "no memory for the values of %s", o->name);
	fill(c, c->plain, n);
	if (!same)
		operand_pack(o, c->plain, c->data.p);
	return E_OK;
}

int constant_open(struct constant **all, const struct operand *o, int nth, double scale,
		  struct constant **out)
{
	for (struct constant *c = *all; c; c = c->next)
		if (c->nth == nth && c->scale == scale && constant_alike(&c->as, o)) {
			c->users++;
			*out = c;
			return E_OK;
		}
	struct constant *c = calloc(1, sizeof *c);
	if (!c)
		return fail(E_NOMEM, "no memory for the values of %s", o->name);
	*c = (struct constant){.next = *all, .as = *o, .nth = nth, .scale = scale, .users = 1};
	*all = c;
	int rc = make(c, o);
	if (rc < 0) {
		constant_close(all, c);
		return rc;
	}
	*out = c;
	return E_OK;
}

void constant_close(struct constant **all, struct constant *c)
{
	struct constant **at = all;
	if (--c->users > 0)
		return;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	while (c->packed) {
		c->packed->users = 1;
		constant_unpack(c->packed);
	}
	if (c->plain != c->data.p)
		free(c->plain);
	pages_close(&c->data);
	free(c);
}

static struct key packing_key(const struct code_buf *b)
{
	struct buf text = {0};
	buf_printf(&text, "%lld ", (long long)b->elems);
	pack_text(&b->packing, &text);
	struct key k = hash_text(buf_str(&text));
	buf_free(&text);
	return k;
}

int constant_pack(struct constant *c, const struct code_buf *b, struct packed **out)
{
	struct key k = packing_key(b); /* of textures and buffers */
	if (b->texture && c->as.dtype != DT_F32)
		return fail(E_CORRUPT, "the texture %s is not of an f32 operand", b->name);
	for (struct packed *p = c->packed; p; p = p->next)
		if (key_equal(p->key, k)) {
			p->users++;
			*out = p;
			return E_OK;
		}
	int rc = pack_check(&b->packing);
	if (rc < 0)
		return rc;
	if (shape_count(&b->packing.src) != shape_count(&c->as.dims) || pack_elems(&b->packing) > b->elems ||
	    ((b->packing.f16 || b->packing.bf16) && c->as.dtype != DT_F32))
		return fail(E_CORRUPT, "the packing of %s does not fit its operand", b->name);
	struct packed *p = calloc(1, sizeof *p);
	if (!p)
		return fail(E_NOMEM, "no memory for a packed constant");
	if ((rc = pages_open(&p->g, (size_t)b->elems * dtype_bytes(pack_type(&b->packing, c->as.dtype)),
			     PAGES_GUARDED)) < 0) {
		free(p);
		return rc;
	}
	pack_run_type(&b->packing, c->as.dtype, c->plain, p->g.p);
	p->key = k;
	p->of = c;
	p->users = 1;
	p->next = c->packed;
	*out = c->packed = p;
	return E_OK;
}

void constant_unpack(struct packed *p)
{
	struct packed **at = &p->of->packed;
	if (--p->users > 0)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	pages_close(&p->g);
	free(p);
}

void *packed_data(const struct packed *p)
{
	return p->g.p;
}

size_t packed_bytes(const struct packed *p)
{
	return p->g.bytes;
}
