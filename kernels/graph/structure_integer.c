/* SPDX-License-Identifier: Apache-2.0 */
/* ConvInteger and MatMulInteger with constant weights: s32 sums of products of bytes. What the zero point Z
 * of the input takes from a sum is Z times the sum of the weights. If Z is constant, this is a constant bias,
 * and padding holds Z. If Z is computed, as DynamicQuantizeLinear does, the task multiplies it with T, the
 * sums of the weights: post acc T Z mul add; then there must be no padding (kernels/graph/pass_dynamic.c
 * moves it). */
#include "kernels/graph/geometry.h"
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure_bytes.h"
#include "kernels/task/task_stage.h"

#include <string.h>

enum { X, W, X_ZERO, W_ZERO, SUMS, FACTORS };

/* The made constants. */
enum { MADE_SUMS, MADE_WEIGHTS };

static bool zero_is_known(const struct opctx *c)
{
	return !in_there(c, X_ZERO) || c->in[X_ZERO].data;
}

static bool supported(const struct opctx *c)
{
	return dtype_is_byte(c->in[X].dtype) && dtype_is_byte(c->in[W].dtype) && c->out[0].dtype == DT_I32 &&
	       shape_count(&c->in[W].shape) > 0 && (!in_there(c, FACTORS) || c->in[FACTORS].data) &&
	       (!in_there(c, X_ZERO) || shape_count(&c->in[X_ZERO].shape) == 1);
}

/* The largest factor of input 4; 0: the node has none. */
static int64_t most_factor(const struct opctx *c)
{
	int64_t most = 0, n = in_there(c, FACTORS) ? shape_count(&c->in[FACTORS].shape) : 0;
	for (int64_t i = 0; i < n; i++) {
		int64_t v = tensor_get_i64(&c->in[FACTORS], i);
		most = v < 0 ? (-v > most ? -v : most) : v > most ? v : most;
	}
	return most;
}

/* Makes one number for each sum of `depth` weights that are `step` apart: what the zero point adds to it, or,
 * if that is computed, its factor. E_UNSUPPORTED: sums could leave s32. */
static int make_sums(const struct opctx *c, const struct tensor *w, const struct shape *dims, int64_t depth,
		     int64_t step)
{
	struct tensor *to = &c->made[MADE_SUMS];
	const int8_t *weight = w->data;
	bool known = zero_is_known(c);
	int64_t zero = known ? structure_zero(c, X_ZERO, 0) : 1, factor = known ? 1 : 255,
		more = most_factor(c) * 255;
	int rc = tensor_alloc(c->arena, DT_I32, dims, to);
	for (int64_t i = 0; rc >= 0 && i < shape_count(dims); i++) {
		int64_t sum = 0, most = 0, first = i / step * depth * step + i % step;
		for (int64_t k = 0; k < depth; k++) {
			int64_t v = weight[first + k * step];
			sum -= zero * v;
			most += 255 * (v < 0 ? -v : v);
		}
		most += more * depth;
		if (most + factor * (sum < 0 ? -sum : sum) > INT32_MAX)
			return fail(E_UNSUPPORTED, "sums may leave 32 bits");
		((int32_t *)to->data)[i] = (int32_t)sum;
	}
	return rc;
}

/* Adds the zero point's share to the sums; the operand of `by` is not set, its index is that of MADE_SUMS. */
static int add_share(const struct opctx *c, struct task *t, const struct read *by)
{
	struct stage *s = &t->stage[0];
	int sums, zero, rc;
	if (zero_is_known(c) && !structure_zero(c, X_ZERO, 0))
		return E_OK;
	if ((rc = structure_operand(t, c, 'm', MADE_SUMS, &sums)) < 0)
		return rc;
	memcpy(structure_read(s, sums)->dim, by->dim, sizeof by->dim);
	prog_add(&s->post, P_ACC);
	prog_read(&s->post, s->nreads - 1);
	if (!zero_is_known(c)) {
		if ((rc = structure_operand(t, c, 'i', X_ZERO, &zero)) < 0)
			return rc;
		structure_read(s, zero);
		prog_read(&s->post, s->nreads - 1);
		prog_add(&s->post, P_MUL);
	}
	prog_add(&s->post, P_ADD);
	return E_OK;
}

/* Adds the product of inputs 4 and 5, if the node has them (kernels/graph/op_quant.h). Input 4 is read as the
 * output is written, but along dim d by `group`, input 5 by the index of that dim. */
static int add_sums(const struct opctx *c, struct task *t, int d, const struct index *group)
{
	struct stage *s = &t->stage[0];
	int sums, factors, rc;
	if (!in_there(c, SUMS))
		return E_OK;
	if ((rc = structure_operand(t, c, 'i', SUMS, &sums)) < 0 ||
	    (rc = structure_operand(t, c, 'i', FACTORS, &factors)) < 0)
		return rc;
	struct read *r = structure_read(s, sums);
	memcpy(r->dim, s->out.dim, sizeof r->dim);
	r->dim[d] = *group;
	structure_read(s, factors)->dim[0] = s->out.dim[d];
	if (!s->post.n)
		prog_add(&s->post, P_ACC);
	prog_read(&s->post, s->nreads - 2);
	prog_read(&s->post, s->nreads - 1);
	prog_add(&s->post, P_MUL);
	prog_add(&s->post, P_ADD);
	return E_OK;
}

static bool is_padded(const struct filter_window *w)
{
	bool any = false;
	for (int i = 0; i < 3; i++)
		any |= w->begin[i] || w->end[i];
	return any;
}

int structure_integer_conv(const struct opctx *c, struct task *t)
{
	struct filter_window window;
	const struct tensor *w;
	const struct shape *k = &c->in[W].shape;
	int rc;
	if (k->rank < 3 || !supported(c))
		return fail(E_UNSUPPORTED, "parameters of ConvInteger");
	if ((rc = conv_window(c, &c->in[X].shape, k, &window)) < 0)
		return rc;
	if (!zero_is_known(c) && is_padded(&window))
		return fail(E_UNSUPPORTED, "padding with a computed zero point");
	int64_t depth = shape_count(k) / k->d[0];
	int32_t fill = zero_is_known(c) ? structure_zero(c, X_ZERO, 0) : 0;
	const struct shape filters = {1, {k->d[0]}};
	if ((rc = structure_weights(c, W, W_ZERO, k->d[0], depth, MADE_WEIGHTS, &w)) < 0 ||
	    (rc = make_sums(c, w, &filters, depth, 1)) < 0 ||
	    (rc = structure_byte_product(c, structure_conv, X, fill, W, MADE_WEIGHTS, w, t)) < 0)
		return rc;
	struct read by = t->stage[0].out;
	by.dim[0] = by.dim[1];
	for (int d = 1; d < MAX_RANK; d++)
		by.dim[d] = (struct index){.table = -1};
	if ((rc = add_share(c, t, &by)) < 0)
		return rc;
	/* a group's number: filter axes within a group count one by one, the axis of groups by `per` */
	struct index group = t->stage[0].out.dim[1];
	int64_t per = k->d[0] / conv_group(c);
	for (int a = 0; a < MAX_AXES; a++)
		group.coef[a] /= per;
	return add_sums(c, t, 1, &group);
}

int structure_integer_matmul(const struct opctx *c, struct task *t)
{
	const struct tensor *w;
	const struct shape *k = &c->in[W].shape;
	int rc;
	if (k->rank < 2 || !supported(c))
		return fail(E_UNSUPPORTED, "parameters of MatMulInteger");
	int64_t columns = k->d[k->rank - 1], depth = k->d[k->rank - 2];
	struct shape sums = *k;
	sums.d[--sums.rank - 1] = columns;
	if ((rc = structure_weights(c, W, W_ZERO, columns, 1, MADE_WEIGHTS, &w)) < 0 ||
	    (rc = make_sums(c, w, &sums, depth, columns)) < 0 ||
	    (rc = structure_byte_product(c, structure_matmul, X, 0, W, MADE_WEIGHTS, w, t)) < 0)
		return rc;
	struct read by = t->stage[0].read[1];
	by.dim[k->rank - 2] = by.dim[k->rank - 1];
	by.dim[k->rank - 1] = (struct index){.table = -1};
	if ((rc = add_share(c, t, &by)) < 0)
		return rc;
	return add_sums(c, t, c->out[0].shape.rank - 1, &(struct index){.table = -1});
}
