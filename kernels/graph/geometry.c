/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/geometry.h"
#include "kernels/graph/shapes.h"

enum { PAD_NOTSET, PAD_SAME_UPPER, PAD_SAME_LOWER, PAD_VALID };
#define MAX_SIDE                                                                                             \
	((int64_t)1 << 30) /* largest kernel, stride, dilation or padding: products stay far from overflow */

static int auto_pad(const struct opctx *c)
{
	return attr_choice(c, "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID", PAD_NOTSET);
}

/* An attribute with one value per spatial axis, right-aligned into out[3]; `fallback` if absent. */
static int side_attr(const struct opctx *c, const char *name, int rank, int64_t lo, int64_t fallback,
		     int64_t *out)
{
	int rc = attr_list(c, name, rank, fallback, out + 3 - rank);
	if (rc < 0)
		return rc;
	for (int i = 3 - rank; i < 3; i++)
		if (out[i] < lo || out[i] > MAX_SIDE)
			return fail(E_CORRUPT, "%s %lld is out of range", name, (long long)out[i]);
	return E_OK;
}

static int pads_attr(const struct opctx *c, struct filter_window *w)
{
	int64_t pads[6];
	int rank = w->rank, rc = attr_list(c, "pads", 2 * rank, 0, pads);
	if (rc < 0)
		return rc;
	for (int i = 0; i < 2 * rank; i++)
		if (pads[i] < 0 || pads[i] > MAX_SIDE)
			return fail(E_CORRUPT, "pads %lld is out of range", (long long)pads[i]);
	for (int i = 0; i < rank; i++) {
		w->begin[3 - rank + i] = pads[i];
		w->end[3 - rank + i] = pads[rank + i];
	}
	return E_OK;
}

static int common(const struct opctx *c, const struct shape *x, struct filter_window *w)
{
	*w = (struct filter_window){.rank = x->rank - 2,
			     .in = {1, 1, 1},
			     .out = {1, 1, 1},
			     .kernel = {1, 1, 1},
			     .stride = {1, 1, 1},
			     .dilation = {1, 1, 1}};
	if (w->rank < 1 || w->rank > 3)
		return fail(E_UNSUPPORTED, "rank %d is not in 3..5", x->rank);
	for (int i = 0; i < w->rank; i++)
		w->in[3 - w->rank + i] = x->d[2 + i];
	int rc = side_attr(c, "strides", w->rank, 1, 1, w->stride);
	if (rc < 0 || (rc = side_attr(c, "dilations", w->rank, 1, 1, w->dilation)) < 0)
		return rc;
	return pads_attr(c, w);
}

/* Splits `total` padding of axis i; the odd element goes to the end, or with `front` to the front. */
static void split_pads(struct filter_window *w, int i, int64_t total, bool front)
{
	if (total < 0)
		total = 0;
	w->begin[i] = front ? total - total / 2 : total / 2;
	w->end[i] = total - w->begin[i];
}

/* Computes `out` of every axis, and with SAME also the pads. */
static int slide(struct filter_window *w, int pad, bool ceil_mode)
{
	for (int i = 3 - w->rank; i < 3; i++) {
		int64_t reach = window_reach(w, i), stride = w->stride[i];
		if (pad == PAD_SAME_UPPER || pad == PAD_SAME_LOWER) {
			w->out[i] = (w->in[i] + stride - 1) / stride;
			split_pads(w, i, (w->out[i] - 1) * stride + reach - w->in[i], pad == PAD_SAME_LOWER);
			continue;
		}
		if (pad == PAD_VALID)
			w->begin[i] = w->end[i] = 0;
		int64_t room = w->in[i] + w->begin[i] + w->end[i] - reach;
		if (room < 0)
			return fail(E_CORRUPT,
				    "kernel of extent %lld is larger than the padded input of %lld",
				    (long long)reach, (long long)(room + reach));
		w->out[i] = (ceil_mode ? room + stride - 1 : room) / stride + 1;
		/* A window that would start in the padding behind the input is dropped. */
		if (ceil_mode && (w->out[i] - 1) * stride >= w->in[i] + w->begin[i])
			w->out[i]--;
	}
	return E_OK;
}

int64_t conv_group(const struct opctx *c)
{
	return node_int(c->node, "group", 1);
}

/* Takes the kernel sizes from the weights; the attribute, if present, must agree. */
static int weight_kernel(const struct opctx *c, const struct shape *weights, struct filter_window *w)
{
	int64_t said[3] = {1, 1, 1};
	if (weights->rank != w->rank + 2)
		return fail(E_CORRUPT, "rank %d of the weights is not the input's %d", weights->rank,
			    w->rank + 2);
	int rc = side_attr(c, "kernel_shape", w->rank, 1, 1, said);
	if (rc < 0)
		return rc;
	for (int i = 0; i < w->rank; i++) {
		int64_t k = weights->d[2 + i];
		if (k < 1 || k > MAX_SIDE)
			return fail(E_CORRUPT, "kernel side %lld of the weights is out of range",
				    (long long)k);
		if (node_attr(c->node, "kernel_shape") && said[3 - w->rank + i] != k)
			return fail(E_CORRUPT, "kernel_shape %lld is not the weights' %lld",
				    (long long)said[3 - w->rank + i], (long long)k);
		w->kernel[3 - w->rank + i] = k;
	}
	return E_OK;
}

static int check_group(const struct opctx *c, int64_t channels, int64_t filters, int64_t per_group)
{
	int64_t group = node_int(c->node, "group", 1);
	if (group < 1 || group > channels || channels % group || filters % group)
		return fail(E_CORRUPT, "group %lld does not divide %lld channels and %lld filters",
			    (long long)group, (long long)channels, (long long)filters);
	if (per_group != channels / group)
		return fail(E_CORRUPT, "weights are for %lld channels a group, the input has %lld",
			    (long long)per_group, (long long)(channels / group));
	return E_OK;
}

int conv_window(const struct opctx *c, const struct shape *x, const struct shape *weights, struct filter_window *w)
{
	int pad = auto_pad(c), rc = common(c, x, w);
	if (pad < 0 || rc < 0)
		return pad < 0 ? pad : rc;
	if ((rc = weight_kernel(c, weights, w)) < 0)
		return rc;
	if ((rc = check_group(c, x->d[1], weights->d[0], weights->d[1])) < 0)
		return rc;
	return slide(w, pad, false);
}

/* Computes output extents and cropping from output_shape, output_padding and auto_pad. */
static int unslide(const struct opctx *c, struct filter_window *w, int pad)
{
	int64_t extra[3] = {0, 0, 0}, want[3];
	int rc = side_attr(c, "output_padding", w->rank, 0, 0, extra);
	if (rc < 0 || (rc = side_attr(c, "output_shape", w->rank, 0, 0, want)) < 0)
		return rc;
	bool asked = node_attr(c->node, "output_shape") != NULL,
	     same = pad == PAD_SAME_UPPER || pad == PAD_SAME_LOWER;
	for (int i = 3 - w->rank; i < 3; i++) {
		int64_t full = (w->in[i] - 1) * w->stride[i] + window_reach(w, i) + extra[i];
		if (extra[i] && extra[i] >= w->stride[i] && extra[i] >= w->dilation[i])
			return fail(E_CORRUPT, "output_padding %lld is not smaller than the stride",
				    (long long)extra[i]);
		if (asked || same) {
			w->out[i] = asked ? want[i] : w->in[i] * w->stride[i];
			split_pads(w, i, full - w->out[i], pad != PAD_SAME_UPPER);
		} else {
			if (pad == PAD_VALID)
				w->begin[i] = w->end[i] = 0;
			w->out[i] = full - w->begin[i] - w->end[i];
		}
		if (w->out[i] < 1)
			return fail(E_CORRUPT, "output extent %lld is not positive", (long long)w->out[i]);
	}
	return E_OK;
}

int deconv_window(const struct opctx *c, const struct shape *x, const struct shape *weights, struct filter_window *w)
{
	int pad = auto_pad(c), rc = common(c, x, w);
	if (pad < 0 || rc < 0)
		return pad < 0 ? pad : rc;
	if ((rc = weight_kernel(c, weights, w)) < 0)
		return rc;
	int64_t group = node_int(c->node, "group", 1);
	if (group < 1 || group > x->d[1] || x->d[1] % group)
		return fail(E_CORRUPT, "group %lld does not divide %lld channels", (long long)group,
			    (long long)x->d[1]);
	if (weights->d[0] != x->d[1])
		return fail(E_CORRUPT, "weights are for %lld channels, the input has %lld",
			    (long long)weights->d[0], (long long)x->d[1]);
	for (int i = 0; i < 3; i++)
		if (w->in[i] < 1)
			return fail(E_CORRUPT, "input is empty");
	return unslide(c, w, pad);
}

int pool_window(const struct opctx *c, const struct shape *x, struct filter_window *w)
{
	int pad = auto_pad(c), rc = common(c, x, w);
	if (pad < 0 || rc < 0)
		return pad < 0 ? pad : rc;
	if (!node_attr(c->node, "kernel_shape"))
		return fail(E_CORRUPT, "attribute kernel_shape is missing");
	if ((rc = side_attr(c, "kernel_shape", w->rank, 1, 1, w->kernel)) < 0)
		return rc;
	rc = slide(w, pad, node_int(c->node, "ceil_mode", 0) != 0);
	if (rc < 0)
		return rc;
	for (int i = 0; i < 3; i++)
		if (w->begin[i] >= window_reach(w, i) ||
		    (w->end[i] >= window_reach(w, i) && pad == PAD_NOTSET))
			return fail(E_CORRUPT, "padding %lld is not smaller than the kernel",
				    (long long)(w->begin[i] > w->end[i] ? w->begin[i] : w->end[i]));
	return E_OK;
}

void window_shape(const struct filter_window *w, int64_t n, int64_t c, struct shape *out)
{
	*out = (struct shape){.rank = 2 + w->rank, .d = {n, c}};
	for (int i = 0; i < w->rank; i++)
		out->d[2 + i] = w->out[3 - w->rank + i];
}
