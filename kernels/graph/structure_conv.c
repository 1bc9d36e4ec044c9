/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution, pooling and matrix products. */
#include "kernels/graph/structure.h"

#include <float.h>
#include <string.h>

enum { MAX_SPATIAL = 3 };

struct window {
	int n; /* spatial dims */
	int64_t kernel[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL], pad[MAX_SPATIAL],
	    end[MAX_SPATIAL];
};

static int64_t attr_at(const struct node *n, const char *name, int i, int64_t fallback)
{
	const struct attr *a = node_attr(n, name);
	return a && a->kind == ATTR_INTS && i < a->n ? a->ints[i] : fallback;
}

/* Reads the padding at the beginning; the padding at the end follows from the output's size. */
static int window_read(struct window *w, const struct opctx *c, const int64_t *kernel)
{
	const char *mode = node_str(c->node, "auto_pad", "NOTSET");
	w->n = c->in[0].shape.rank - 2;
	if (w->n < 1 || w->n > MAX_SPATIAL || c->out[0].shape.rank != w->n + 2)
		return fail(E_UNSUPPORTED, "window over %d dims", w->n);
	for (int d = 0; d < w->n; d++) {
		int64_t in = c->in[0].shape.d[d + 2], out = c->out[0].shape.d[d + 2];
		w->kernel[d] = kernel ? kernel[d] : attr_at(c->node, "kernel_shape", d, 1);
		w->stride[d] = attr_at(c->node, "strides", d, 1);
		w->dilation[d] = attr_at(c->node, "dilations", d, 1);
		w->pad[d] = strcmp(mode, "NOTSET") ? 0 : attr_at(c->node, "pads", d, 0);
		w->end[d] = strcmp(mode, "NOTSET") ? 0 : attr_at(c->node, "pads", w->n + d, 0);
		int64_t total = (out - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 - in;
		if (!strncmp(mode, "SAME", 4) && total > 0) {
			w->pad[d] = strcmp(mode, "SAME_LOWER") ? total / 2 : total - total / 2;
			w->end[d] = total - w->pad[d];
		}
		if (w->kernel[d] < 1 || w->stride[d] < 1 || w->dilation[d] < 1 || w->pad[d] < 0)
			return fail(E_UNSUPPORTED, "window of dim %d", d);
	}
	return E_OK;
}

static const char *const pixel_names[MAX_SPATIAL + 1][MAX_SPATIAL] = {
    {0}, {"x"}, {"y", "x"}, {"z", "y", "x"}};
static const char *const tap_names[MAX_SPATIAL + 1][MAX_SPATIAL] = {{0}, {"s"}, {"r", "s"}, {"q", "r", "s"}};

/* dim 2 + d of the input: stride * pixel + dilation * tap - pad. */
static void window_index(struct read *r, const struct window *w, int first_pixel, int first_tap)
{
	for (int d = 0; d < w->n; d++) {
		struct index *x = &r->dim[2 + d];
		x->coef[first_pixel + d] = w->stride[d];
		x->coef[first_tap + d] = w->dilation[d];
		x->off = -w->pad[d];
	}
}

/* Axes n [g] k pixels | [c] taps. Depthwise (one input and one output channel per group): the channel axis is
 * k. */
int structure_conv(const struct opctx *c, struct task *t)
{
	int64_t group = node_int(c->node, "group", 1);
	const struct shape *x = &c->in[0].shape, *k = &c->in[1].shape, *y = &c->out[0].shape;
	struct window w;
	int ix, iw, ib = -1, iy, rc = window_read(&w, c, k->d + 2);
	if (rc < 0 || (rc = structure_operand(t, c, 'i', 0, &ix)) < 0 ||
	    (rc = structure_operand(t, c, 'i', 1, &iw)) < 0)
		return rc;
	if (k->rank != x->rank || group < 1 || k->d[0] % group || x->d[1] != k->d[1] * group)
		return fail(E_UNSUPPORTED, "Conv with weights of another rank or group");
	if (c->nin > 2 && c->in[2].dtype != DT_NONE && (rc = structure_operand(t, c, 'i', 2, &ib)) < 0)
		return rc;
	if ((rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return rc;
	int64_t per = k->d[0] / group;
	bool depthwise = group > 1 && per == 1 && k->d[1] == 1, grouped = group > 1 && !depthwise;
	struct stage *s = structure_stage(t);
	int an = structure_axis(s, "n", AXIS_SPATIAL, y->d[0]);
	int ag = grouped ? structure_axis(s, "g", AXIS_SPATIAL, group) : -1;
	int ak = structure_axis(s, "k", AXIS_SPATIAL, grouped ? per : k->d[0]);
	int ap = s->naxes;
	for (int d = 0; d < w.n; d++)
		structure_axis(s, pixel_names[w.n][d], AXIS_SPATIAL, y->d[2 + d]);
	int ac = depthwise ? -1 : structure_axis(s, "c", AXIS_REDUCTION, k->d[1]);
	int at = s->naxes;
	for (int d = 0; d < w.n; d++)
		structure_axis(s, tap_names[w.n][d], AXIS_REDUCTION, w.kernel[d]);
	struct read *rx = structure_read(s, ix), *rw = structure_read(s, iw);
	rx->dim[0].coef[an] = 1;
	rx->dim[1].coef[depthwise ? ak : ac] = 1;
	rw->dim[0].coef[ak] = 1;
	if (grouped) {
		rx->dim[1].coef[ag] = k->d[1];
		rw->dim[0].coef[ag] = per;
	}
	if (!depthwise)
		rw->dim[1].coef[ac] = 1;
	window_index(rx, &w, ap, at);
	for (int d = 0; d < w.n; d++)
		rw->dim[2 + d].coef[at + d] = 1;
	prog_text(&s->body, c->node, "r0 r1 mul");
	s->comb = COMB_SUM;
	if (ib >= 0) {
		structure_read(s, ib)->dim[0] = rw->dim[0];
		prog_text(&s->post, c->node, "acc r2 add");
	}
	structure_out(t, s, iy);
	memset(s->out.dim, 0, sizeof s->out.dim);
	for (int d = 0; d < MAX_RANK; d++)
		s->out.dim[d].table = -1;
	s->out.dim[0].coef[an] = 1;
	s->out.dim[1] = rw->dim[0];
	for (int d = 0; d < w.n; d++)
		s->out.dim[2 + d].coef[ap + d] = 1;
	return E_OK;
}

/* Number of taps of output pixel i that lie inside [lo, hi). */
static int64_t taps_inside(const struct window *w, int d, int64_t i, int64_t lo, int64_t hi)
{
	int64_t n = 0;
	for (int64_t r = 0; r < w->kernel[d]; r++) {
		int64_t at = i * w->stride[d] + r * w->dilation[d] - w->pad[d];
		n += at >= lo && at < hi;
	}
	return n;
}

/* Writes 1 / (number of counted taps), per output pixel, to made[0]: [1,1,pixels]. *same: that value if all
 * are equal, else 0. */
static int reciprocals(const struct opctx *c, const struct window *w, float *same)
{
	bool counted = node_int(c->node, "count_include_pad", 0) != 0;
	struct shape dims = c->out[0].shape;
	dims.d[0] = dims.d[1] = 1;
	int rc = tensor_alloc(c->arena, DT_F32, &dims, &c->made[0]);
	if (rc < 0)
		return rc;
	int64_t at[MAX_RANK] = {0}, n = shape_count(&dims);
	float *out = c->made[0].data;
	*same = 0;
	for (int64_t i = 0; i < n; i++) {
		int64_t taps = 1;
		for (int d = 0; d < w->n; d++) {
			int64_t in = c->in[0].shape.d[2 + d];
			taps *= taps_inside(w, d, at[2 + d], counted ? -w->pad[d] : 0,
					    counted ? in + w->end[d] : in);
		}
		out[i] = taps ? (float)(1.0 / (double)taps) : 0;
		*same = i == 0 || *same == out[i] ? out[i] : -1;
		for (int d = dims.rank - 1; d >= 2 && ++at[d] == dims.d[d]; d--)
			at[d] = 0;
	}
	return E_OK;
}

int structure_pool(const struct opctx *c, struct task *t)
{
	bool mean = !strcmp(node_type(c->node), "AveragePool");
	float least = c->in[0].dtype == DT_U8 ? 0 : c->in[0].dtype == DT_I8 ? -128 : -FLT_MAX;
	const struct shape *y = &c->out[0].shape;
	struct window w;
	int ix, ic, iy, rc = window_read(&w, c, NULL);
	float same = 0;
	if (rc < 0 || (rc = structure_operand(t, c, 'i', 0, &ix)) < 0)
		return rc;
	struct stage *s = structure_stage(t);
	structure_axis(s, "n", AXIS_SPATIAL, y->d[0]);
	structure_axis(s, "k", AXIS_SPATIAL, y->d[1]);
	for (int d = 0; d < w.n; d++)
		structure_axis(s, pixel_names[w.n][d], AXIS_SPATIAL, y->d[2 + d]);
	int at = s->naxes;
	for (int d = 0; d < w.n; d++)
		structure_axis(s, tap_names[w.n][d], AXIS_REDUCTION, w.kernel[d]);
	struct read *r = structure_read(s, ix);
	r->dim[0].coef[0] = r->dim[1].coef[1] = 1;
	window_index(r, &w, 2, at);
	prog_text(&s->body, c->node, "r0");
	s->comb = mean ? COMB_SUM : COMB_MAX;
	t->operand[ix].fill = mean ? 0 : least;
	if (mean) {
		if ((rc = reciprocals(c, &w, &same)) < 0)
			return rc;
		prog_add(&s->post, P_ACC);
		if (same > 0) {
			prog_imm(&s->post, same);
		} else {
			if ((rc = structure_operand(t, c, 'm', 0, &ic)) < 0)
				return rc;
			r = structure_read(s, ic);
			for (int d = 0; d < w.n; d++)
				r->dim[2 + d].coef[2 + d] = 1;
			prog_read(&s->post, 1);
		}
		prog_add(&s->post, P_MUL);
	}
	if ((rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return rc;
	structure_out(t, s, iy);
	return E_OK;
}

/* Batch axes d0.., then m n | k; batches broadcast. */
int structure_matmul(const struct opctx *c, struct task *t)
{
	const struct shape *a = &c->in[0].shape, *b = &c->in[1].shape, *y = &c->out[0].shape;
	int ia, ib, iy, rc;
	if (a->rank < 2 || b->rank < 2 || y->rank < 2)
		return fail(E_UNSUPPORTED, "MatMul of a vector");
	if ((rc = structure_operand(t, c, 'i', 0, &ia)) < 0 ||
	    (rc = structure_operand(t, c, 'i', 1, &ib)) < 0 ||
	    (rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return rc;
	struct stage *s = structure_stage(t);
	int batch = y->rank - 2;
	structure_axes(s, &(struct shape){batch, {y->d[0], y->d[1], y->d[2], y->d[3], y->d[4], y->d[5]}});
	int am = structure_axis(s, "m", AXIS_SPATIAL, y->d[batch]);
	int an = structure_axis(s, "n", AXIS_SPATIAL, y->d[batch + 1]);
	int ak = structure_axis(s, "k", AXIS_REDUCTION, a->d[a->rank - 1]);
	for (int k = 0; k < 2; k++) {
		const struct shape *x = k ? b : a;
		struct read *r = structure_read(s, k ? ib : ia);
		for (int d = 0; d < x->rank - 2; d++) {
			int axis = batch - (x->rank - 2) + d;
			if (x->d[d] > 1 || y->d[axis] == 1)
				r->dim[d].coef[axis] = 1;
		}
		r->dim[x->rank - 2].coef[k ? ak : am] = 1;
		r->dim[x->rank - 1].coef[k ? an : ak] = 1;
	}
	prog_text(&s->body, c->node, "r0 r1 mul");
	s->comb = COMB_SUM;
	structure_out(t, s, iy);
	return E_OK;
}

int structure_gemm(const struct opctx *c, struct task *t)
{
	int ta = node_int(c->node, "transA", 0) != 0, tb = node_int(c->node, "transB", 0) != 0, ia, ib, ic,
	    iy, rc;
	float alpha = node_float(c->node, "alpha", 1), beta = node_float(c->node, "beta", 1);
	if ((rc = structure_operand(t, c, 'i', 0, &ia)) < 0 ||
	    (rc = structure_operand(t, c, 'i', 1, &ib)) < 0)
		return rc;
	struct stage *s = structure_stage(t);
	structure_axis(s, "m", AXIS_SPATIAL, c->out[0].shape.d[0]);
	structure_axis(s, "n", AXIS_SPATIAL, c->out[0].shape.d[1]);
	structure_axis(s, "k", AXIS_REDUCTION, c->in[0].shape.d[ta ? 0 : 1]);
	struct read *a = structure_read(s, ia), *b = structure_read(s, ib);
	a->dim[ta].coef[0] = a->dim[!ta].coef[2] = 1;
	b->dim[tb].coef[2] = b->dim[!tb].coef[1] = 1;
	prog_text(&s->body, c->node, "r0 r1 mul");
	s->comb = COMB_SUM;
	if (alpha != 1)
		prog_text(&s->post, c->node, "acc {alpha=1} mul");
	if (c->nin > 2 && c->in[2].dtype != DT_NONE && beta != 0) {
		if ((rc = structure_operand(t, c, 'i', 2, &ic)) < 0)
			return rc;
		structure_broadcast(t, s, ic, 2);
		prog_text(&s->post, c->node, alpha != 1 ? "r2" : "acc r2");
		prog_text(&s->post, c->node, beta != 1 ? "{beta=1} mul add" : "add");
	}
	if ((rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return rc;
	structure_out(t, s, iy);
	return E_OK;
}
