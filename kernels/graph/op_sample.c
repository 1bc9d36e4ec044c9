/* SPDX-License-Identifier: Apache-2.0 */
/* GridSample: reads an image, or a volume, at places that another tensor gives. Names and formulas are those
 * of the ONNX operator text. */
#include "kernels/graph/shapes.h"

#include <math.h>
#include <string.h>

static const struct op_row rows[] = {
    {"GridSample", 16, 19, 2, 2, 1, 1, 0, "align_corners mode padding_mode"},
    {"GridSample", 20, 0, 2, 2, 1, 1, 1, "align_corners mode padding_mode"},
    {""},
};

enum { LINEAR, NEAREST, CUBIC };
enum { ZEROS, BORDER, REFLECTION };
enum { DIMS = 3, TAPS = 4 };

#define FAR 1e9

struct sampling {
	int mode, padding, dims;
	bool align;
	int64_t extent[DIMS], step[DIMS]; /* of the image's spatial axes */
};

static int read_sampling(const struct opctx *c, struct sampling *s)
{
	const struct shape *x = &c->in[0].shape;
	*s = (struct sampling){.dims = x->rank - 2, .align = node_int(c->node, "align_corners", 0) != 0};
	s->mode =
	    attr_choice(c, "mode", c->code ? "linear nearest cubic" : "bilinear nearest bicubic", LINEAR);
	s->padding = attr_choice(c, "padding_mode", "zeros border reflection", ZEROS);
	if (s->mode < 0 || s->padding < 0)
		return E_UNSUPPORTED;
	for (int d = 0; d < s->dims; d++) {
		s->extent[d] = x->d[2 + d];
		s->step[d] = shape_span(x, 3 + d, x->rank);
	}
	return E_OK;
}

static int infer(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape, *g = &c->in[1].shape;
	struct sampling s;
	int rc = in_need(c, 0, DTYPE_BIT(DT_F32));
	if (rc < 0 || (rc = in_need(c, 1, DTYPE_BIT(DT_F32))) < 0 ||
	    (rc = in_need_rank(c, 0, 4, c->code ? 2 + DIMS : 4)) < 0 || (rc = read_sampling(c, &s)) < 0)
		return rc;
	if (g->rank != x->rank || g->d[g->rank - 1] != s.dims || g->d[0] != x->d[0])
		return fail(E_CORRUPT, "the grid does not fit the image");
	if (s.mode == CUBIC && s.dims != 2)
		return fail(E_UNSUPPORTED, "mode cubic is of images only");
	struct shape out = {x->rank, {x->d[0], x->d[1]}};
	for (int d = 0; d < s.dims; d++) {
		out.d[2 + d] = g->d[1 + d];
		if (!s.extent[d])
			return fail(E_CORRUPT, "the image is empty");
	}
	return out_set(c, 0, DT_F32, &out);
}

/* Mirrors a place at the borders lo and hi as often as it lies outside. */
static double mirror(double at, double lo, double hi)
{
	double span = hi - lo, from = span > 0 ? fmod(fabs(at - lo), 2 * span) : 0;
	return lo + (from > span ? 2 * span - from : from);
}

/* The taps of one axis: elements, -1 for those outside, and their weights; returns their number. */
static int taps(const struct sampling *s, int d, double grid, int64_t at[TAPS], double weight[TAPS])
{
	const double a = -0.75, n = (double)s->extent[d], lo = s->align ? 0 : -0.5,
		     hi = s->align ? n - 1 : n - 0.5;
	double x = s->align ? (grid + 1) / 2 * (n - 1) : ((grid + 1) * n - 1) / 2;
	x = !(x > -FAR) ? -FAR : x > FAR ? FAR : x; /* a NaN is outside */
	x = s->mode == NEAREST ? rint(x) : x;
	if (s->padding == BORDER && s->mode != CUBIC) /* whose taps alone are moved */
		x = x < 0 ? 0 : x > n - 1 ? n - 1 : x;
	if (s->padding == REFLECTION)
		x = mirror(x, lo, hi);
	int count = s->mode == NEAREST ? 1 : s->mode == LINEAR ? 2 : 4;
	double first = s->mode == NEAREST ? rint(x) : floor(x) - (s->mode == CUBIC), t = x - floor(x);
	weight[0] = 1;
	if (s->mode == LINEAR)
		weight[0] = 1 - t, weight[1] = t;
	for (int k = 0; k < count; k++) {
		double far = fabs(x - (first + k)), place = first + k;
		if (s->mode == CUBIC)
			weight[k] = far <= 1 ? ((a + 2) * far - (a + 3)) * far * far + 1
					     : ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;
		if (s->padding == BORDER)
			place = place < 0 ? 0 : place > n - 1 ? n - 1 : place;
		if (s->padding == REFLECTION)
			place = trunc(mirror(place, lo, hi));
		at[k] = place < 0 || place > n - 1 ? -1 : (int64_t)place;
	}
	return count;
}

/* The weighted elements that one place of the output adds up. */
struct sample {
	int n;
	int64_t at[TAPS * TAPS];
	double weight[TAPS * TAPS];
};

static void sample(const struct sampling *s, const float *grid, struct sample *out)
{
	out->n = 1;
	out->at[0] = 0;
	out->weight[0] = 1;
	for (int d = 0; d < s->dims; d++) { /* the grid has the last axis first */
		struct sample before = *out;
		int64_t at[TAPS];
		double weight[TAPS];
		int count = taps(s, d, grid[s->dims - 1 - d], at, weight);
		out->n = 0;
		for (int i = 0; i < before.n; i++)
			for (int k = 0; k < count; k++) {
				if (at[k] < 0)
					continue;
				out->at[out->n] = before.at[i] + at[k] * s->step[d];
				out->weight[out->n++] = before.weight[i] * weight[k];
			}
	}
}

static int eval(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	struct sampling s;
	int rc = read_sampling(c, &s);
	if (rc < 0)
		return rc;
	int64_t image = shape_span(x, 2, x->rank), places = shape_span(y, 2, y->rank), channels = x->d[1];
	for (int64_t i = 0; i < x->d[0] * places; i++) {
		const float *from = (const float *)c->in[0].data + i / places * channels * image;
		float *to = (float *)c->out[0].data + i / places * channels * places + i % places;
		struct sample p;
		sample(&s, (const float *)c->in[1].data + i * s.dims, &p);
		for (int64_t k = 0; k < channels; k++) {
			double sum = 0;
			for (int j = 0; j < p.n; j++)
				sum += p.weight[j] * (double)from[k * image + p.at[j]];
			to[k * places] = (float)sum;
		}
	}
	return E_OK;
}

const struct op op_sample = {.rows = rows, .infer = infer, .eval = eval};
