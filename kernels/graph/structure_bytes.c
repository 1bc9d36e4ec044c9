/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/structure_bytes.h"
#include "kernels/task/task_stage.h"

#include <stdio.h>
#include <string.h>

int32_t structure_zero(const struct opctx *c, int k, int64_t i)
{
	if (k >= c->nin || c->in[k].dtype == DT_NONE)
		return 0;
	return (int32_t)tensor_get_i64(&c->in[k], shape_count(&c->in[k].shape) > 1 ? i : 0);
}

/* Whether the zero points are absent, or constant and one or n. */
static bool zeros_known(const struct opctx *c, int k, int64_t n)
{
	if (k >= c->nin || c->in[k].dtype == DT_NONE)
		return true;
	int64_t count = shape_count(&c->in[k].shape);
	return c->in[k].data && (count == 1 || count == n);
}

int structure_weights(const struct opctx *c, int w, int zero, int64_t n, int64_t next, int made,
		      const struct tensor **out)
{
	const struct tensor *from = &c->in[w];
	int64_t count = shape_count(&from->shape);
	bool same = from->dtype == DT_I8;
	*out = from;
	if (!from->data || !dtype_is_byte(from->dtype) || !zeros_known(c, zero, n) || n < 1 || next < 1)
		return fail(E_UNSUPPORTED, "weights or their zero points are computed");
	for (int64_t i = 0; i < n; i++)
		same &= !structure_zero(c, zero, i);
	if (same)
		return E_OK;
	struct tensor *to = &c->made[made];
	int rc = tensor_alloc(c->arena, DT_I8, &from->shape, to);
	for (int64_t i = 0; i < count && rc >= 0; i++) {
		const void *p = from->data;
		int32_t v = from->dtype == DT_I8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
		v -= structure_zero(c, zero, i / next % n);
		if (v < INT8_MIN || v > INT8_MAX)
			return fail(E_UNSUPPORTED, "a weight less its zero point is %d, which is no s8", v);
		((int8_t *)to->data)[i] = (int8_t)v;
	}
	*out = to;
	return rc;
}

int structure_byte_product(const struct opctx *c, structure_fn *fn, int x, int32_t fill, int w, int made,
			   const struct tensor *weights, struct task *t)
{
	bool own = weights == &c->made[made];
	struct tensor in[2] = {c->in[x], *weights};
	struct opctx two = *c;
	two.in = in;
	two.nin = 2;
	int rc = fn(&two, t);
	for (int i = 0; i < t->noperands && rc >= 0; i++) {
		struct operand *o = &t->operand[i];
		if (!strcmp(o->name, "i1")) {
			snprintf(o->name, sizeof o->name, "%c%d", own ? 'm' : 'i', own ? made : w);
		} else if (!strcmp(o->name, "i0")) {
			snprintf(o->name, sizeof o->name, "i%d", x);
			o->fill = (float)fill;
		}
	}
	return rc;
}
