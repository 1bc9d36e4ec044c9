/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised operators. A product follows the contract of kernels/graph/dense8.h. The input's zero point is
 * folded into the bias, which is right at borders, too: padding holds the zero point. All parameters must be
 * constants, one for all rows; the weights less their zero points must be s8. */
#include "kernels/graph/dense8.h"
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure_bytes.h"
#include "kernels/task/task_stage.h"

#include <math.h>

enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };

/* The made constants. */
enum { MADE_BIAS, MADE_FACTOR, MADE_WEIGHTS };

static bool is_scalar(const struct opctx *c, int k)
{
	return in_there(c, k) && c->in[k].data && shape_count(&c->in[k].shape) == 1;
}

static bool vector_or_one(const struct opctx *c, int k, int64_t n)
{
	int64_t count = shape_count(&c->in[k].shape);
	return c->in[k].data && (count == 1 || count == n);
}

static void limits_of(const struct opctx *c, enum dtype t, int64_t *low, int64_t *high)
{
	int64_t least = t == DT_I8 ? -128 : 0, most = t == DT_I8 ? 127 : 255;
	*low = node_int(c->node, "low", least);
	*high = node_int(c->node, "high", most);
	*low = *low > least ? *low : least;
	*high = *high < most ? *high : most;
}

/* n: filters or columns. */
static bool supported(const struct opctx *c, int64_t n)
{
	if (!dtype_is_byte(c->in[X].dtype) || !dtype_is_byte(c->in[W].dtype) ||
	    !dtype_is_byte(c->out[0].dtype) || !c->in[W].data || !is_scalar(c, X_SCALE) ||
	    !is_scalar(c, Y_SCALE) || !in_there(c, W_SCALE) || c->in[X_SCALE].dtype != DT_F32 ||
	    c->in[W_SCALE].dtype != DT_F32 || c->in[Y_SCALE].dtype != DT_F32)
		return false;
	if ((in_there(c, X_ZERO) && !is_scalar(c, X_ZERO)) || (in_there(c, Y_ZERO) && !is_scalar(c, Y_ZERO)))
		return false;
	return vector_or_one(c, W_SCALE, n) && (!in_there(c, BIAS) || c->in[BIAS].data);
}

/* Bias and factor of each of n filters or columns; filter i has `depth` weights, from element i * next on,
 * `step` apart. E_UNSUPPORTED: sums could leave s32, or a factor is no number. */
static int make_vectors(const struct opctx *c, const struct tensor *w, int64_t n, int64_t depth, int64_t next,
			int64_t step)
{
	const struct shape dims = {1, {n}};
	const int8_t *weight = w->data;
	int64_t zero = structure_zero(c, X_ZERO, 0);
	int rc = tensor_alloc(c->arena, DT_I32, &dims, &c->made[MADE_BIAS]);
	if (rc >= 0)
		rc = tensor_alloc(c->arena, DT_F32, &dims, &c->made[MADE_FACTOR]);
	for (int64_t i = 0; rc >= 0 && i < n; i++) {
		int64_t sum = 0, most = 0;
		for (int64_t k = 0; k < depth; k++) {
			int64_t v = weight[i * next + k * step];
			sum += v;
			most += 255 * (v < 0 ? -v : v);
		}
		int64_t given = in_there(c, BIAS) ? tensor_get_i64(&c->in[BIAS], i) : 0;
		int64_t bias = given - zero * sum;
		float factor = dense8_factor(
		    (float)tensor_get(&c->in[X_SCALE], 0),
		    (float)tensor_get(&c->in[W_SCALE], shape_count(&c->in[W_SCALE].shape) > 1 ? i : 0),
		    (float)tensor_get(&c->in[Y_SCALE], 0));
		if (most + (bias < 0 ? -bias : bias) > INT32_MAX || !(isnormal(factor) || factor == 0))
			return fail(E_UNSUPPORTED, "sums may leave 32 bits, or a scale is no number");
		((int32_t *)c->made[MADE_BIAS].data)[i] = (int32_t)bias;
		((float *)c->made[MADE_FACTOR].data)[i] = factor;
	}
	return rc;
}

/* Limits closer than those of the type. */
static void limit(const struct opctx *c, struct prog *p)
{
	int64_t low, high;
	limits_of(c, c->out[0].dtype, &low, &high);
	if (low > (c->out[0].dtype == DT_I8 ? -128 : 0)) {
		prog_imm(p, (float)low);
		prog_add(p, P_MAX);
	}
	if (high < (c->out[0].dtype == DT_I8 ? 127 : 255)) {
		prog_imm(p, (float)high);
		prog_add(p, P_MIN);
	}
}

/* Adds reads of bias and factor, indexed as `by`, and the program that makes bytes of a sum. */
static int requantise(const struct opctx *c, struct task *t, const struct index *by)
{
	struct stage *s = &t->stage[0];
	int bias, factor, rc;
	if ((rc = structure_operand(t, c, 'm', MADE_BIAS, &bias)) < 0 ||
	    (rc = structure_operand(t, c, 'm', MADE_FACTOR, &factor)) < 0)
		return rc;
	structure_read(s, bias)->dim[0] = *by;
	structure_read(s, factor)->dim[0] = *by;
	prog_add(&s->post, P_ACC);
	prog_read(&s->post, s->nreads - 2);
	prog_add(&s->post, P_ADD);
	prog_read(&s->post, s->nreads - 1);
	prog_add(&s->post, P_MUL);
	prog_add(&s->post, P_RINT);
	prog_imm(&s->post, (float)structure_zero(c, Y_ZERO, 0));
	prog_add(&s->post, P_ADD);
	limit(c, &s->post);
	return E_OK;
}

int structure_quant_conv(const struct opctx *c, struct task *t)
{
	const struct tensor *w;
	const struct shape *k = &c->in[W].shape;
	if (k->rank < 3 || shape_count(k) < 1 || !supported(c, k->d[0]))
		return fail(E_UNSUPPORTED, "parameters of QLinearConv");
	int64_t depth = shape_count(k) / k->d[0];
	int32_t fill = structure_zero(c, X_ZERO, 0);
	int rc = structure_weights(c, W, W_ZERO, k->d[0], depth, MADE_WEIGHTS, &w);
	if (rc < 0 || (rc = make_vectors(c, w, k->d[0], depth, depth, 1)) < 0 ||
	    (rc = structure_byte_product(c, structure_conv, X, fill, W, MADE_WEIGHTS, w, t)) < 0)
		return rc;
	const struct index filter = t->stage[0].out.dim[1];
	return requantise(c, t, &filter);
}

int structure_quant_matmul(const struct opctx *c, struct task *t)
{
	const struct tensor *w;
	const struct shape *k = &c->in[W].shape;
	if (k->rank != 2 || shape_count(k) < 1 || !supported(c, k->d[1]))
		return fail(E_UNSUPPORTED, "parameters of QLinearMatMul");
	int32_t fill = structure_zero(c, X_ZERO, 0);
	int rc = structure_weights(c, W, W_ZERO, k->d[1], 1, MADE_WEIGHTS, &w);
	if (rc < 0 || (rc = make_vectors(c, w, k->d[1], k->d[0], 1, k->d[1])) < 0 ||
	    (rc = structure_byte_product(c, structure_matmul, X, fill, W, MADE_WEIGHTS, w, t)) < 0)
		return rc;
	const struct index column = t->stage[0].out.dim[c->out[0].shape.rank - 1];
	return requantise(c, t, &column);
}

/* Adds a parameter to the body: a number, or a read of input k that has one element. */
static int parameter(const struct opctx *c, struct task *t, int k)
{
	struct stage *s = &t->stage[0];
	int operand, rc;
	if (!in_there(c, k) || c->in[k].data) {
		prog_imm(&s->body, in_there(c, k) ? (float)tensor_get(&c->in[k], 0) : 0);
		return E_OK;
	}
	if ((rc = structure_operand(t, c, 'i', k, &operand)) < 0)
		return rc;
	structure_broadcast(t, s, operand, c->out[0].shape.rank);
	prog_read(&s->body, s->nreads - 1);
	return E_OK;
}

/* Scale and zero point are numbers, or, for QuantizeLinear, computed. */
static bool one_each(const struct opctx *c, bool to_bytes)
{
	if (!in_there(c, 1) || c->in[1].dtype != DT_F32 || shape_count(&c->in[1].shape) != 1 ||
	    (in_there(c, 2) && shape_count(&c->in[2].shape) != 1))
		return false;
	bool known = c->in[1].data && (!in_there(c, 2) || c->in[2].data);
	return known ? isnormal((float)tensor_get(&c->in[1], 0)) : to_bytes;
}

/* Reads the input, with zeros around it as attribute pads says (kernels/graph/op_quant.h). */
static void read_padded(const struct opctx *c, struct task *t, int x)
{
	struct stage *s = &t->stage[0];
	const struct attr *pads = node_attr(c->node, "pads");
	struct read *r = structure_broadcast(t, s, x, c->out[0].shape.rank);
	for (int d = 0; pads && d < c->in[0].shape.rank; d++) {
		r->dim[d].coef[d] = 1;
		r->dim[d].off = -pads->ints[d];
	}
}

/* A map of one input with one scale and one zero point. */
static int linear(const struct opctx *c, struct task *t, bool to_bytes)
{
	int x, y, rc;
	bool types = to_bytes ? c->in[0].dtype == DT_F32 && dtype_is_byte(c->out[0].dtype)
			      : dtype_is_byte(c->in[0].dtype) && c->out[0].dtype == DT_F32;
	if (!types || !one_each(c, to_bytes) || c->out[0].shape.rank < 1)
		return fail(E_UNSUPPORTED, "parameters of %s", node_type(c->node));
	struct stage *s = structure_stage(t);
	structure_axes(s, &c->out[0].shape);
	if ((rc = structure_operand(t, c, 'i', 0, &x)) < 0)
		return rc;
	read_padded(c, t, x);
	prog_read(&s->body, 0);
	if (!to_bytes) {
		prog_imm(&s->body, (float)structure_zero(c, 2, 0));
		prog_add(&s->body, P_SUB);
	}
	if ((rc = parameter(c, t, 1)) < 0)
		return rc;
	prog_add(&s->body, to_bytes ? P_DIV : P_MUL);
	if (to_bytes) {
		prog_add(&s->body, P_RINT);
		if ((rc = parameter(c, t, 2)) < 0)
			return rc;
		prog_add(&s->body, P_ADD);
	}
	if ((rc = structure_operand(t, c, 'o', 0, &y)) < 0)
		return rc;
	structure_out(t, s, y);
	return E_OK;
}

/* DequantizeLinear of both terms, Add and QuantizeLinear, one after the other. */
int structure_quant_add(const struct opctx *c, struct task *t)
{
	int term, y, rc;
	struct stage *s = structure_stage(t);
	float scale = is_scalar(c, 6) ? (float)tensor_get(&c->in[6], 0) : NAN;
	if (!isnormal(scale) || !is_scalar(c, 7) || c->out[0].shape.rank < 1)
		return fail(E_UNSUPPORTED, "parameters of QLinearAdd");
	structure_axes(s, &c->out[0].shape);
	for (int i = 0; i < 2; i++) {
		if (!is_scalar(c, 3 * i + 1) || !is_scalar(c, 3 * i + 2))
			return fail(E_UNSUPPORTED, "parameters of QLinearAdd");
		if ((rc = structure_operand(t, c, 'i', 3 * i, &term)) < 0)
			return rc;
		structure_broadcast(t, s, term, c->out[0].shape.rank);
		prog_read(&s->body, i);
		prog_imm(&s->body, (float)structure_zero(c, 3 * i + 2, 0));
		prog_add(&s->body, P_SUB);
		prog_imm(&s->body, (float)tensor_get(&c->in[3 * i + 1], 0));
		prog_add(&s->body, P_MUL);
	}
	prog_add(&s->body, P_ADD);
	prog_imm(&s->body, scale);
	prog_add(&s->body, P_DIV);
	prog_add(&s->body, P_RINT);
	prog_imm(&s->body, (float)structure_zero(c, 7, 0));
	prog_add(&s->body, P_ADD);
	limit(c, &s->body);
	if ((rc = structure_operand(t, c, 'o', 0, &y)) < 0)
		return rc;
	structure_out(t, s, y);
	return E_OK;
}

int structure_quantise(const struct opctx *c, struct task *t)
{
	return linear(c, t, true);
}

int structure_dequantise(const struct opctx *c, struct task *t)
{
	return linear(c, t, false);
}
