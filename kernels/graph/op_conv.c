/* SPDX-License-Identifier: Apache-2.0 */
/* Conv and ConvTranspose of rank 1 to 3. x [n][c][spatial], weights [k][c/group][kernel] (transposed:
 * [c][k/group]). */
#include "kernels/graph/dense.h"
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <string.h>

enum { C_CONV, C_DECONV };

static const struct op_row rows[] = {
    {"Conv", 1, 0, 2, 3, 1, 1, C_CONV, "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", 1, 0, 2, 3, 1, 1, C_DECONV,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {""},
};

static int geometry(const struct opctx *c, struct filter_window *w)
{
	const struct shape *x = &c->in[0].shape, *f = &c->in[1].shape;
	return c->code == C_CONV ? conv_window(c, x, f, w) : deconv_window(c, x, f, w);
}

static int64_t filters_of(const struct opctx *c)
{
	const struct shape *f = &c->in[1].shape;
	return c->code == C_CONV ? f->d[0] : f->d[1] * conv_group(c);
}

static int infer(struct opctx *c)
{
	struct filter_window w;
	struct shape out;
	int rc;
	for (int i = 0; i < 3; i++) {
		if (i == 2 && !in_there(c, i))
			continue;
		if ((rc = in_need(c, i, DTYPES_FLOAT)) < 0)
			return rc;
		if (c->in[i].dtype != c->in[0].dtype)
			return fail(E_CORRUPT, "types %s and %s differ", dtype_name(c->in[0].dtype),
				    dtype_name(c->in[i].dtype));
	}
	if ((rc = geometry(c, &w)) < 0)
		return rc;
	int64_t filters = filters_of(c);
	if (in_there(c, 2) && (c->in[2].shape.rank != 1 || c->in[2].shape.d[0] != filters))
		return fail(E_CORRUPT, "bias is not a vector of %lld", (long long)filters);
	window_shape(&w, c->in[0].shape.d[0], filters, &out);
	return out_set(c, 0, c->in[0].dtype, &out);
}

static double bias_of(const struct opctx *c, int64_t filter)
{
	return in_there(c, 2) ? tensor_get(&c->in[2], filter) : 0;
}

static int eval_conv(struct opctx *c, const struct filter_window *w)
{
	const struct shape *x = &c->in[0].shape;
	int64_t group = conv_group(c), channels = x->d[1] / group, filters = c->in[1].shape.d[0];
	int64_t in = span3(w->in), out = span3(w->out);
	struct conv v;
	int rc = conv_open(&v, w, channels, c->arena);
	if (rc < 0)
		return rc;
	double *plane = arena_try(c->arena, (size_t)(CONV_FILTERS * out), sizeof *plane);
	double *filter = arena_try(c->arena, (size_t)(CONV_FILTERS * v.taps), sizeof *filter);
	if (!plane || !filter)
		return E_NOMEM;
	int64_t part = filters / group;
	for (int64_t i = 0; i < x->d[0] * group; i++) {
		conv_load(&v, &c->in[0], i * channels * in, 0);
		for (int64_t k = 0; k < part; k += CONV_FILTERS) {
			int nf = part - k < CONV_FILTERS ? (int)(part - k) : CONV_FILTERS;
			int64_t f = i % group * part + k;
			for (int n = 0; n < nf; n++) {
				double bias = bias_of(c, f + n);
				for (int64_t j = 0; j < out; j++)
					plane[n * out + j] = bias;
			}
			load_f64(&c->in[1], f * v.taps, 1, nf * v.taps, filter);
			conv_apply(&v, nf, filter, plane);
			store_f64(&c->out[0], (i / group * filters + f) * out, nf * out, plane);
		}
	}
	return E_OK;
}

/* The full result of one output channel, before cropping. */
struct full {
	int64_t d[3]; /* extents; at least begin + out */
	double *sum;
};

/* Adds one input channel x[in] under one filter[kernel]. */
static void scatter(const struct filter_window *w, const double *x, const double *filter, struct full *f)
{
	for (int64_t t = 0; t < span3(w->kernel); t++) {
		int64_t kd = t / (w->kernel[1] * w->kernel[2]), kh = t / w->kernel[2] % w->kernel[1];
		int64_t at = t % w->kernel[2] * w->dilation[2];
		for (int64_t r = 0; r < w->in[0] * w->in[1]; r++) {
			int64_t d = r / w->in[1] * w->stride[0] + kd * w->dilation[0];
			int64_t h = r % w->in[1] * w->stride[1] + kh * w->dilation[1];
			double *to = f->sum + (d * f->d[1] + h) * f->d[2] + at;
			for (int64_t i = 0; i < w->in[2]; i++)
				to[i * w->stride[2]] += filter[t] * x[r * w->in[2] + i];
		}
	}
}

static void crop(const struct filter_window *w, const struct full *f, double bias, double *row, struct tensor *y,
		 int64_t at)
{
	for (int64_t d = 0; d < w->out[0]; d++)
		for (int64_t h = 0; h < w->out[1]; h++, at += w->out[2]) {
			const double *from =
			    f->sum + ((d + w->begin[0]) * f->d[1] + h + w->begin[1]) * f->d[2];
			for (int64_t i = 0; i < w->out[2]; i++)
				row[i] = from[i + w->begin[2]] + bias;
			store_f64(y, at, w->out[2], row);
		}
}

static int full_open(struct full *f, const struct filter_window *w, struct arena *a)
{
	struct shape s = {.rank = 3};
	for (int i = 0; i < 3; i++) {
		int64_t all = (w->in[i] - 1) * w->stride[i] + window_reach(w, i),
			need = w->begin[i] + w->out[i];
		s.d[i] = f->d[i] = all > need ? all : need;
	}
	int rc = shape_check(&s, MAX_ELEMS);
	if (rc < 0)
		return fail_in(rc, "result before cropping");
	f->sum = arena_try(a, (size_t)shape_count(&s), sizeof *f->sum);
	return f->sum ? E_OK : E_NOMEM;
}

static int eval_deconv(struct opctx *c, const struct filter_window *w)
{
	const struct shape *s = &c->in[0].shape;
	int64_t group = conv_group(c), channels = s->d[1] / group, filters = c->in[1].shape.d[1];
	int64_t in = span3(w->in), taps = span3(w->kernel), out = span3(w->out);
	struct full f = {0};
	int rc = full_open(&f, w, c->arena);
	if (rc < 0)
		return rc;
	double *x = arena_try(c->arena, (size_t)in, sizeof *x),
	       *filter = arena_try(c->arena, (size_t)taps, sizeof *x);
	double *row = arena_try(c->arena, (size_t)w->out[2], sizeof *row);
	if (!x || !filter || !row)
		return E_NOMEM;
	for (int64_t i = 0; i < s->d[0] * group * filters; i++) {
		int64_t image = i / (group * filters), k = i % (group * filters), g = k / filters;
		memset(f.sum, 0, sizeof *f.sum * (size_t)span3(f.d));
		for (int64_t ch = g * channels; ch < (g + 1) * channels; ch++) {
			load_f64(&c->in[0], (image * s->d[1] + ch) * in, 1, in, x);
			load_f64(&c->in[1], (ch * filters + k % filters) * taps, 1, taps, filter);
			scatter(w, x, filter, &f);
		}
		crop(w, &f, bias_of(c, k), row, &c->out[0], i * out);
	}
	return E_OK;
}

static int eval(struct opctx *c)
{
	struct filter_window w;
	int rc = geometry(c, &w);
	if (rc < 0)
		return rc;
	return c->code == C_CONV ? eval_conv(c, &w) : eval_deconv(c, &w);
}

const struct op op_conv = {
    .rows = rows, .infer = infer, .eval = eval, .task = structure_task};
