/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling of rank 1 to 3. MaxPool's second output has indices into the whole input, row- or column-major
 * within an image. */
#include "kernels/graph/dense8.h"
#include "kernels/graph/geometry.h"
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <math.h>
#include <string.h>

enum { POOL_MAX, POOL_AVERAGE, POOL_LP, POOL_GLOBAL_MAX, POOL_GLOBAL_AVERAGE, POOL_GLOBAL_LP };

static const struct op_row rows[] = {
    {"AveragePool", 7, 0, 1, 1, 1, 1, POOL_AVERAGE,
     "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"GlobalAveragePool", 1, 0, 1, 1, 1, 1, POOL_GLOBAL_AVERAGE},
    {"GlobalLpPool", 2, 0, 1, 1, 1, 1, POOL_GLOBAL_LP, "p"},
    {"GlobalMaxPool", 1, 0, 1, 1, 1, 1, POOL_GLOBAL_MAX},
    {"LpPool", 2, 0, 1, 1, 1, 1, POOL_LP, "auto_pad ceil_mode dilations kernel_shape p pads strides"},
    {"MaxPool", 1, 0, 1, 1, 1, 2, POOL_MAX,
     "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {""},
};

/* A global pool is a window over the whole image. */
static int geometry(const struct opctx *c, struct filter_window *w)
{
	const struct shape *x = &c->in[0].shape;
	if (c->code < POOL_GLOBAL_MAX)
		return pool_window(c, x, w);
	*w = (struct filter_window){.rank = x->rank > 2 ? x->rank - 2 : 0};
	for (int i = 0; i < 3; i++)
		w->in[i] = w->out[i] = w->kernel[i] = w->stride[i] = w->dilation[i] = 1;
	w->kernel[2] = w->in[2] = shape_span(x, 2, x->rank);
	return E_OK;
}

static int infer(struct opctx *c)
{
	struct filter_window w;
	struct shape out;
	bool max = c->code == POOL_MAX || c->code == POOL_GLOBAL_MAX;
	int rc = in_need(c, 0, DTYPES_FLOAT | (max ? DTYPE_BIT(DT_I8) | DTYPE_BIT(DT_U8) : 0));
	if (rc < 0 || (rc = in_need_rank(c, 0, 2, c->code < POOL_GLOBAL_MAX ? 5 : MAX_RANK)) < 0)
		return rc;
	if ((c->code == POOL_LP || c->code == POOL_GLOBAL_LP) && node_int(c->node, "p", 2) < 1)
		return fail(E_CORRUPT, "p %lld is not positive", (long long)node_int(c->node, "p", 2));
	if ((rc = geometry(c, &w)) < 0)
		return rc;
	const struct shape *x = &c->in[0].shape;
	if (c->code < POOL_GLOBAL_MAX) {
		window_shape(&w, x->d[0], x->d[1], &out);
	} else {
		out = *x;
		for (int i = 2; i < x->rank; i++)
			out.d[i] = 1;
	}
	if (c->code == POOL_MAX && (rc = out_set(c, 1, DT_I64, &out)) < 0)
		return rc;
	return out_set(c, 0, c->in[0].dtype, &out);
}

/* Taps that are d apart within a span; most windows have no dilation, and a division costs more than a tap.
 */
static int64_t taps_in(int64_t span, int64_t d)
{
	return d == 1 ? span : (span + d - 1) / d;
}

/* Taps [from, to) of axis i whose positions, starting at `start`, are inside [lo, hi). */
static void clip_taps(const struct filter_window *w, int i, int64_t start, int64_t lo, int64_t hi,
		      int64_t *from, int64_t *to)
{
	int64_t d = w->dilation[i];
	*from = start < lo ? taps_in(lo - start, d) : 0;
	*to = start < hi ? taps_in(hi - start, d) : 0;
	if (*to > w->kernel[i])
		*to = w->kernel[i];
	if (*from > *to)
		*from = *to;
}

/* One output pixel: the position of its window on each axis. */
struct place {
	int64_t start[3], from[3], to[3];
	int64_t padded; /* taps inside the padded input */
};

static void place(const struct filter_window *w, const int64_t *o, struct place *p)
{
	p->padded = 1;
	for (int i = 0; i < 3; i++) {
		int64_t a, b;
		p->start[i] = o[i] * w->stride[i] - w->begin[i];
		clip_taps(w, i, p->start[i], 0, w->in[i], &p->from[i], &p->to[i]);
		clip_taps(w, i, p->start[i], -w->begin[i], w->in[i] + w->end[i], &a, &b);
		p->padded *= b - a;
	}
}

struct pool {
	int code;
	double p;
	bool include_pad, columns; /* count_include_pad; storage_order = 1 */
	struct filter_window w;
};

static double combine(const struct pool *q, double acc, double v)
{
	if (q->code == POOL_AVERAGE || q->code == POOL_GLOBAL_AVERAGE)
		return acc + v;
	return acc + pow(fabs(v), q->p);
}

static double finish(const struct pool *q, double acc, const struct place *p, int64_t taps)
{
	if (q->code == POOL_AVERAGE)
		return acc / (double)(q->include_pad ? p->padded : taps);
	if (q->code == POOL_GLOBAL_AVERAGE)
		return acc / (double)taps;
	return q->code == POOL_LP || q->code == POOL_GLOBAL_LP ? pow(acc, 1 / q->p) : acc;
}

/* Computes the window at p of image x[in]; *arg: position of the maximum in the image. */
static double pool_one(const struct pool *q, const double *x, const struct place *p, int64_t *arg)
{
	const struct filter_window *w = &q->w;
	bool max = q->code == POOL_MAX || q->code == POOL_GLOBAL_MAX;
	double acc = max ? -INFINITY : 0;
	int64_t taps = 0;
	*arg = -1;
	for (int64_t d = p->from[0]; d < p->to[0]; d++)
		for (int64_t h = p->from[1]; h < p->to[1]; h++)
			for (int64_t i = p->from[2]; i < p->to[2]; i++, taps++) {
				int64_t pd = p->start[0] + d * w->dilation[0],
					ph = p->start[1] + h * w->dilation[1];
				int64_t pw = p->start[2] + i * w->dilation[2];
				double v = x[(pd * w->in[1] + ph) * w->in[2] + pw];
				if (!max) {
					acc = combine(q, acc, v);
				} else if (*arg < 0 || v > acc) {
					acc = v;
					*arg = q->columns ? (pw * w->in[1] + ph) * w->in[0] + pd
							  : (pd * w->in[1] + ph) * w->in[2] + pw;
				}
			}
	return finish(q, acc, p, taps);
}

static void pool_image(const struct pool *q, const double *x, int64_t base, double *y, int64_t *arg)
{
	const struct filter_window *w = &q->w;
	int64_t at = 0;
	for (int64_t d = 0; d < w->out[0]; d++)
		for (int64_t h = 0; h < w->out[1]; h++)
			for (int64_t i = 0; i < w->out[2]; i++, at++) {
				struct place p;
				place(w, (int64_t[]){d, h, i}, &p);
				y[at] = pool_one(q, x, &p, &arg[at]);
				arg[at] += base;
			}
}

/* One image of bytes. `line` holds the maxima of the rows of a window, with the lowest byte as padding. */
static void max_bytes(const struct filter_window *w, const uint8_t *x, uint8_t flip, uint8_t *line,
		      uint8_t *y)
{
	enum dense8_isa isa = dense8_isa();
	int64_t padded = w->in[2] + w->begin[2] + w->end[2] + window_reach(w, 2);
	for (int64_t o = 0; o < w->out[0] * w->out[1]; o++, y += w->out[2]) {
		struct place p;
		place(w, (int64_t[]){o / w->out[1], o % w->out[1], 0}, &p);
		memset(line, 0, (size_t)padded);
		memset(y, 0, (size_t)w->out[2]);
		for (int64_t d = p.from[0]; d < p.to[0]; d++)
			for (int64_t h = p.from[1]; h < p.to[1]; h++) {
				int64_t row = (p.start[0] + d * w->dilation[0]) * w->in[1] + p.start[1] +
					      h * w->dilation[1];
				dense8_max(isa, w->in[2], x + row * w->in[2], 1, flip, line + w->begin[2]);
			}
		for (int64_t i = 0; i < w->kernel[2]; i++)
			dense8_max(isa, w->out[2], line + i * w->dilation[2], w->stride[2], 0, y);
		for (int64_t i = 0; i < w->out[2] && flip; i++)
			y[i] ^= flip;
	}
}

/* The maximum of bytes, without positions. With s8, 128 more is compared. */
static int eval_bytes(struct opctx *c, const struct filter_window *w)
{
	int64_t in = span3(w->in), out = span3(w->out), images = shape_span(&c->in[0].shape, 0, 2);
	/* in ceil mode the last window reaches less than a stride past the padding */
	int64_t room = w->in[2] + w->begin[2] + w->end[2] + window_reach(w, 2) + w->stride[2];
	uint8_t *line = arena_try(c->arena, (size_t)room, 1);
	if (!line)
		return E_NOMEM;
	for (int64_t i = 0; i < images && out > 0; i++)
		max_bytes(w, (const uint8_t *)c->in[0].data + i * in, c->in[0].dtype == DT_I8 ? 0x80 : 0,
			  line, (uint8_t *)c->out[0].data + i * out);
	return E_OK;
}

static int eval(struct opctx *c)
{
	struct pool q = {.code = c->code,
			 .p = (double)node_int(c->node, "p", 2),
			 .include_pad = node_int(c->node, "count_include_pad", 0) != 0,
			 .columns = node_int(c->node, "storage_order", 0) != 0};
	int rc = geometry(c, &q.w);
	if (rc < 0)
		return rc;
	if (dtype_in(c->in[0].dtype, DTYPE_BIT(DT_I8) | DTYPE_BIT(DT_U8)) && !out_wanted(c, 1))
		return eval_bytes(c, &q.w);
	int64_t in = span3(q.w.in), out = span3(q.w.out), images = shape_span(&c->in[0].shape, 0, 2);
	double *x = arena_try(c->arena, (size_t)in + 1, sizeof *x),
	       *y = arena_try(c->arena, (size_t)out, sizeof *y);
	int64_t *arg = arena_try(c->arena, (size_t)out, sizeof *arg);
	if (!x || !y || !arg)
		return E_NOMEM;
	for (int64_t i = 0; i < images; i++) {
		load_f64(&c->in[0], i * in, 1, in, x);
		pool_image(&q, x, i * in, y, arg);
		store_f64(&c->out[0], i * out, out, y);
		if (out_wanted(c, 1))
			store_i64(&c->out[1], i * out, out, arg);
	}
	return E_OK;
}

const struct op op_pool = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
