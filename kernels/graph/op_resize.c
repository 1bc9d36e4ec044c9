/* SPDX-License-Identifier: Apache-2.0 */
/* Resize (opset 10 to now) and Upsample: nearest, linear, cubic, separable over axes. Names and formulas are
 * those of the ONNX operator text; with antialias, linear and cubic kernels are widened by 1/scale. */
#include "kernels/graph/resample.h"
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <math.h>
#include <string.h>

enum { Z_UPSAMPLE7, Z_UPSAMPLE9, Z_RESIZE10, Z_RESIZE };

#define RESIZE11                                                                                             \
	"coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value mode nearest_mode"
static const struct op_row rows[] = {
    {"Resize", 10, 10, 2, 2, 1, 1, Z_RESIZE10, "mode"},
    {"Resize", 11, 17, 1, 4, 1, 1, Z_RESIZE, RESIZE11},
    {"Resize", 18, 0, 1, 4, 1, 1, Z_RESIZE, RESIZE11 " antialias axes keep_aspect_ratio_policy"},
    {"Upsample", 7, 8, 1, 1, 1, 1, Z_UPSAMPLE7, "mode scales"},
    {"Upsample", 9, 10, 2, 2, 1, 1, Z_UPSAMPLE9, "mode"},
    {""},
};

enum { NEAREST, LINEAR, CUBIC };
enum { HALF_PIXEL, HALF_PIXEL_SYMMETRIC, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, TF_HALF_PIXEL, CROP };
enum { ROUND_FLOOR, ROUND_CEIL, FLOOR, CEIL };
enum { STRETCH, NOT_LARGER, NOT_SMALLER };

struct settings {
	int mode, coordinates, rounding, policy;
	bool antialias, exclude_outside;
	double a; /* parameter of the cubic kernel */
	int64_t out[MAX_RANK];
	double scale[MAX_RANK], roi[2][MAX_RANK];
	unsigned axes; /* set of axes that are resized */
};

static int read_modes(const struct opctx *c, struct settings *s)
{
	s->mode = attr_choice(c, "mode", "nearest linear cubic", NEAREST);
	s->coordinates =
	    attr_choice(c, "coordinate_transformation_mode",
			"half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric "
			"tf_half_pixel_for_nn tf_crop_and_resize",
			HALF_PIXEL);
	s->rounding =
	    attr_choice(c, "nearest_mode", "round_prefer_floor round_prefer_ceil floor ceil", ROUND_FLOOR);
	s->policy = attr_choice(c, "keep_aspect_ratio_policy", "stretch not_larger not_smaller", STRETCH);
	if (s->mode < 0 || s->coordinates < 0 || s->rounding < 0 || s->policy < 0)
		return E_UNSUPPORTED;
	if (c->code != Z_RESIZE) {
		s->coordinates = ASYMMETRIC;
		s->rounding = FLOOR;
	}
	s->antialias = node_int(c->node, "antialias", 0) != 0 && s->mode != NEAREST;
	s->exclude_outside = node_int(c->node, "exclude_outside", 0) != 0;
	s->a = node_float(c->node, "cubic_coeff_a", -0.75f);
	return E_OK;
}

/* Reads the floats of a constant input (or of Upsample's old attribute); returns their number. */
static int float_list(const struct opctx *c, int i, double *out, int max)
{
	const struct attr *a = c->code == Z_UPSAMPLE7 ? node_attr(c->node, "scales") : NULL;
	if (a) {
		if (a->kind != ATTR_FLOATS || a->n > max)
			return fail(E_CORRUPT, "attribute scales is not a list of at most %d floats", max);
		for (int k = 0; k < a->n; k++)
			out[k] = a->floats[k];
		return a->n;
	}
	int rc = in_need(c, i, DTYPES_FLOAT);
	if (rc < 0)
		return rc;
	const struct tensor *t = &c->in[i];
	int64_t n = shape_count(&t->shape);
	if (t->shape.rank > 1 || n > max)
		return fail(E_CORRUPT, "input %d is not a list of at most %d", i, max);
	if (n && !t->data)
		return fail(E_UNSUPPORTED, "input %d needs a constant: shapes are static", i);
	for (int k = 0; k < n; k++)
		out[k] = tensor_get(t, k);
	return (int)n;
}

static bool filled(const struct opctx *c, int i)
{
	return in_there(c, i) && shape_count(&c->in[i].shape) > 0;
}

static int set_scale(struct settings *s, int axis, int64_t extent, double scale)
{
	if (!(scale > 0) || scale > (double)MAX_ELEMS)
		return fail(E_CORRUPT, "scale %g of axis %d is out of range", scale, axis);
	s->scale[axis] = scale;
	double out = floor((double)extent * scale);
	if (!(out >= 1) || out > (double)MAX_ELEMS)
		return fail(E_CORRUPT, "scale %g of axis %d gives an extent of %g", scale, axis, out);
	s->out[axis] = (int64_t)out;
	return E_OK;
}

/* Sets extents from sizes; the policy may use one scale for all. */
static int set_sizes(struct settings *s, const struct shape *x, const int *axis, const int64_t *size, int n)
{
	double scale = 0;
	for (int i = 0; i < n; i++) {
		int k = axis[i];
		if (size[i] < 1 || size[i] > MAX_ELEMS)
			return fail(E_CORRUPT, "size %lld of axis %d is out of range", (long long)size[i], k);
		s->out[k] = size[i];
		s->scale[k] = (double)size[i] / (double)x->d[k];
		bool better = s->policy == NOT_LARGER ? s->scale[k] < scale : s->scale[k] > scale;
		scale = i == 0 || better ? s->scale[k] : scale;
	}
	for (int i = 0; i < n && s->policy != STRETCH; i++) {
		double out = floor(scale * (double)x->d[axis[i]] + 0.5);
		if (!(out >= 1) || out > (double)MAX_ELEMS)
			return fail(E_CORRUPT, "extent %g of axis %d is out of range", out, axis[i]);
		s->out[axis[i]] = (int64_t)out;
		s->scale[axis[i]] = scale;
	}
	return E_OK;
}

static int read_roi(const struct opctx *c, struct settings *s, const int *axis, int n)
{
	double roi[2 * MAX_RANK];
	if (s->coordinates != CROP)
		return E_OK;
	int got = float_list(c, 1, roi, 2 * MAX_RANK);
	if (got < 0)
		return got;
	if (got != 2 * n)
		return fail(E_CORRUPT, "roi has %d entries, not %d", got, 2 * n);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < 2; k++) {
			s->roi[k][axis[i]] = roi[k * n + i];
			if (!(fabs(roi[k * n + i]) < 0x1p30))
				return fail(E_CORRUPT, "roi entry %g is out of range", roi[k * n + i]);
		}
	return E_OK;
}

/* Reads the axes that scales, sizes and roi refer to; returns their number. */
static int read_axes(const struct opctx *c, struct settings *s, int *axis)
{
	int64_t list[MAX_RANK];
	bool there;
	int rank = c->in[0].shape.rank, n = attr_some(c, "axes", list, MAX_RANK, &there);
	if (n < 0)
		return n;
	for (int i = 0; i < rank && !there; i++)
		list[i] = i;
	n = there ? n : rank;
	int rc = axes_mask(list, n, rank, &s->axes);
	for (int i = 0; i < n; i++)
		axis[i] = (int)(list[i] < 0 ? list[i] + rank : list[i]);
	return rc < 0 ? rc : n;
}

static int read_settings(const struct opctx *c, struct settings *s)
{
	const struct shape *x = &c->in[0].shape;
	int axis[MAX_RANK], scales = c->code == Z_RESIZE ? 2 : 1;
	int64_t size[MAX_RANK];
	double scale[MAX_RANK];
	*s = (struct settings){0};
	int rc = read_modes(c, s), n = rc < 0 ? rc : read_axes(c, s, axis);
	if (n < 0 || (rc = read_roi(c, s, axis, n)) < 0)
		return n < 0 ? n : rc;
	for (int i = 0; i < x->rank; i++) {
		s->out[i] = x->d[i];
		s->scale[i] = 1;
		if ((s->axes >> i & 1) && x->d[i] < 1)
			return fail(E_CORRUPT, "axis %d is empty", i);
	}
	bool by_size = c->code == Z_RESIZE && filled(c, 3);
	if (by_size && filled(c, 2))
		return fail(E_CORRUPT, "both scales and sizes are given");
	int got = by_size ? in_list(c, 3, size, MAX_RANK) : float_list(c, scales, scale, MAX_RANK);
	if (got < 0)
		return got;
	if (got != n)
		return fail(E_CORRUPT, "%d scales or sizes for %d axes", got, n);
	if (by_size)
		return set_sizes(s, x, axis, size, n);
	for (int i = 0; i < n && rc >= 0; i++)
		rc = set_scale(s, axis[i], x->d[axis[i]], scale[i]);
	return rc;
}

/* The position on the input's axis that output position o maps to. `width`: the output's extent before
 * rounding. */
static double source(const struct settings *s, int axis, int64_t extent, int64_t o)
{
	double in = (double)extent, scale = s->scale[axis], width = in * scale, x = (double)o;
	double start = s->roi[0][axis], end = s->roi[1][axis];
	switch (s->coordinates) {
	case HALF_PIXEL_SYMMETRIC:
		return in / 2 * (1 - (double)s->out[axis] / width) + (x + 0.5) / scale - 0.5;
	case PYTORCH_HALF_PIXEL:
		return s->out[axis] > 1 ? (x + 0.5) / scale - 0.5 : 0;
	case ALIGN_CORNERS:
		return s->out[axis] > 1 ? x * (in - 1) / (width - 1) : 0;
	case ASYMMETRIC:
		return x / scale;
	case TF_HALF_PIXEL:
		return (x + 0.5) / scale;
	case CROP:
		return s->out[axis] > 1 ? start * (in - 1) + x * (end - start) * (in - 1) / (width - 1)
					: 0.5 * (start + end) * (in - 1);
	default:
		return (x + 0.5) / scale - 0.5;
	}
}

static int64_t nearest(int rounding, double x)
{
	switch (rounding) {
	case FLOOR:
		return (int64_t)floor(x);
	case CEIL:
		return (int64_t)ceil(x);
	case ROUND_CEIL:
		return (int64_t)floor(x + 0.5);
	default:
		return (int64_t)ceil(x - 0.5);
	}
}

static double kernel(const struct settings *s, double d)
{
	double a = s->a;
	d = fabs(d);
	if (s->mode == LINEAR)
		return d < 1 ? 1 - d : 0;
	if (d <= 1)
		return ((a + 2) * d - (a + 3)) * d * d + 1;
	return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Fills the taps of output position o at x: `squeeze` < 1 widens the kernel. */
static void weigh(const struct settings *s, struct resample_axis *t, int64_t o, double x, double squeeze)
{
	int64_t *index = t->index + o * t->taps, first = (int64_t)floor(x) - t->taps / 2 + 1;
	double *weight = t->weight + o * t->taps, sum = 0;
	for (int64_t k = 0; k < t->taps; k++) {
		int64_t i = first + k;
		bool out = i < 0 || i >= t->in;
		weight[k] = out && s->exclude_outside ? 0 : kernel(s, ((double)i - x) * squeeze);
		index[k] = i < 0 ? 0 : i >= t->in ? t->in - 1 : i;
		sum += weight[k];
	}
	for (int64_t k = 0; k < t->taps && sum != 0; k++)
		weight[k] /= sum;
}

static int plan_axis(const struct opctx *c, const struct settings *s, int axis, struct resample_axis *t)
{
	double reach = s->mode == CUBIC ? 2 : 1,
	       squeeze = s->antialias && s->scale[axis] < 1 ? s->scale[axis] : 1;
	t->taps = s->mode == NEAREST ? 1 : 2 * (int64_t)ceil(reach / squeeze);
	struct shape size = {2, {t->out, t->taps}};
	int rc = shape_check(&size, MAX_ELEMS);
	if (rc < 0)
		return rc;
	t->index = arena_try(c->arena, (size_t)(t->out * t->taps), sizeof *t->index);
	t->weight = arena_try(c->arena, (size_t)(t->out * t->taps), sizeof *t->weight);
	t->outside = arena_try(c->arena, (size_t)t->out, sizeof *t->outside);
	if (!t->index || !t->weight || !t->outside)
		return E_NOMEM;
	for (int64_t o = 0; o < t->out; o++) {
		double x = source(s, axis, t->in, o);
		t->outside[o] = s->coordinates == CROP && (x < 0 || x > (double)(t->in - 1));
		/* positions beyond the edges by more than a kernel all read the edge; this keeps hostile
		 * numbers small */
		double margin = (double)t->taps + 1, last = (double)(t->in - 1);
		x = x > -margin ? (x < last + margin ? x : last + margin) : -margin;
		if (s->mode != NEAREST) {
			weigh(s, t, o, x, squeeze);
			continue;
		}
		int64_t i = nearest(s->rounding, x);
		t->index[o] = i < 0 ? 0 : i >= t->in ? t->in - 1 : i;
		t->weight[o] = 1;
	}
	return E_OK;
}

int resample_plan(const struct opctx *c, struct resample *r)
{
	struct settings s;
	int rc = read_settings(c, &s);
	*r = (struct resample){.rank = c->in[0].shape.rank,
			       .fill = node_float(c->node, "extrapolation_value", 0)};
	for (int i = 0; i < r->rank && rc >= 0; i++) {
		struct resample_axis *t = &r->axis[i];
		*t = (struct resample_axis){.in = c->in[0].shape.d[i], .out = s.out[i]};
		t->same = !(s.axes >> i & 1) || (t->in == t->out && s.scale[i] == 1 &&
						 s.coordinates != CROP && s.coordinates != TF_HALF_PIXEL);
		if (!t->same)
			rc = plan_axis(c, &s, i, t);
	}
	return rc;
}

static int infer(struct opctx *c)
{
	struct settings s;
	int rc = in_need(c, 0, DTYPES_NUMBER);
	if (rc < 0 || (rc = read_settings(c, &s)) < 0)
		return rc;
	struct shape out = {.rank = c->in[0].shape.rank};
	memcpy(out.d, s.out, sizeof s.out);
	return out_set(c, 0, c->in[0].dtype, &out);
}

/* y[outer][out][inner] from x[outer][in][inner]. */
static void apply(const struct resample_axis *t, int64_t outer, int64_t inner, const double *x, double *y)
{
	for (int64_t i = 0; i < outer * t->out; i++) {
		int64_t o = i % t->out;
		double *to = y + i * inner;
		memset(to, 0, sizeof *to * (size_t)inner);
		for (int64_t k = 0; k < t->taps; k++) {
			const double *from = x + (i / t->out * t->in + t->index[o * t->taps + k]) * inner;
			double weight = t->weight[o * t->taps + k];
			for (int64_t j = 0; j < inner && weight != 0; j++)
				to[j] += weight * from[j];
		}
	}
}

static void fill_outside(const struct resample *r, int axis, int64_t outer, int64_t inner, double *y)
{
	const struct resample_axis *t = &r->axis[axis];
	for (int64_t i = 0; i < outer * t->out; i++)
		for (int64_t j = 0; j < inner && t->outside[i % t->out]; j++)
			y[i * inner + j] = r->fill;
}

/* Whether every output element is one of the input's. */
static bool picks_elements(const struct resample *r)
{
	for (int i = 0; i < r->rank; i++) {
		const struct resample_axis *t = &r->axis[i];
		for (int64_t o = 0; o < t->out && !t->same; o++)
			if (t->taps != 1 || t->outside[o] || t->weight[o] != 1)
				return false;
	}
	return r->rank > 0;
}

/* Copies bytes from where the tables say. */
static int pick_bytes(struct opctx *c, const struct resample *r)
{
	int64_t steps[MAX_RANK], at[MAX_RANK] = {0}, *from[MAX_RANK];
	const uint8_t *x = c->in[0].data;
	uint8_t *y = c->out[0].data;
	int last = r->rank - 1;
	int64_t lines = shape_span(&c->out[0].shape, 0, last), n = c->out[0].shape.d[last];
	shape_steps(&c->in[0].shape, steps);
	for (int i = 0; i < r->rank; i++) {
		const struct resample_axis *t = &r->axis[i];
		from[i] = arena_try(c->arena, (size_t)c->out[0].shape.d[i] + 1, sizeof *from[i]);
		if (!from[i])
			return E_NOMEM;
		for (int64_t o = 0; o < c->out[0].shape.d[i]; o++)
			from[i][o] = (t->same ? o : t->index[o]) * steps[i];
	}
	for (int64_t l = 0; l < lines; l++, y += n) {
		const uint8_t *line = x;
		for (int i = 0; i < last; i++)
			line += from[i][at[i]];
		for (int64_t o = 0; o < n; o++)
			y[o] = line[from[last][o]];
		for (int i = last - 1; i >= 0 && ++at[i] == c->out[0].shape.d[i]; i--)
			at[i] = 0;
	}
	return E_OK;
}

static int eval(struct opctx *c)
{
	struct resample r;
	struct shape s = c->in[0].shape;
	int rc = resample_plan(c, &r);
	if (rc < 0)
		return rc;
	if (dtype_in(c->in[0].dtype, DTYPE_BIT(DT_I8) | DTYPE_BIT(DT_U8)) && picks_elements(&r))
		return pick_bytes(c, &r);
	double *x = arena_try(c->arena, (size_t)shape_count(&s) + 1, sizeof *x);
	if (!x)
		return E_NOMEM;
	load_f64(&c->in[0], 0, 1, shape_count(&s), x);
	for (int i = 0; i < r.rank; i++) {
		if (r.axis[i].same)
			continue;
		s.d[i] = r.axis[i].out;
		if ((rc = shape_check(&s, MAX_ELEMS)) < 0)
			return rc;
		double *y = arena_try(c->arena, (size_t)shape_count(&s) + 1, sizeof *y);
		if (!y)
			return E_NOMEM;
		apply(&r.axis[i], shape_span(&s, 0, i), shape_span(&s, i + 1, s.rank), x, y);
		x = y;
	}
	for (int i = 0; i < r.rank; i++)
		if (!r.axis[i].same)
			fill_outside(&r, i, shape_span(&s, 0, i), shape_span(&s, i + 1, s.rank), x);
	store_f64(&c->out[0], 0, shape_count(&s), x);
	return E_OK;
}

const struct op op_resize = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
