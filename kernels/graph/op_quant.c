/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised operators. Products are s32 sums of bytes (kernels/graph/dense8.h): a convolution's filters, or
 * the rows of a matrix, are multiplied with panels of columns, and zero points and bias are added to the sums
 * of each row. Rounding to bytes is the formula of dense8.h. */
#include "kernels/graph/dense8.h"
#include "kernels/graph/depthwise8.h"
#include "kernels/graph/geometry.h"
#include "kernels/graph/matmul.h"
#include "kernels/graph/op_quant.h"
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <math.h>
#include <string.h>

enum { Q_QUANTIZE, Q_DEQUANTIZE, Q_DYNAMIC, Q_CONV_INT, Q_MATMUL_INT, Q_CONV, Q_MATMUL };

#define WINDOW "auto_pad dilations group kernel_shape pads strides"
static const struct op_row rows[] = {
    {"ConvInteger", 10, 0, 2, 4, 1, 1, Q_CONV_INT, WINDOW},
    {"DequantizeLinear", 10, 0, 2, 3, 1, 1, Q_DEQUANTIZE, "axis block_size output_dtype"},
    {"DynamicQuantizeLinear", 11, 0, 1, 1, 0, 3, Q_DYNAMIC, ""},
    {"MatMulInteger", 10, 0, 2, 4, 1, 1, Q_MATMUL_INT, ""},
    {"QLinearConv", 10, QUANT_OPSET - 1, 8, 9, 1, 1, Q_CONV, WINDOW},
    {"QLinearConv", QUANT_OPSET, 0, 8, 9, 1, 1, Q_CONV, WINDOW " low high"},
    {"QLinearMatMul", 10, QUANT_OPSET - 1, 8, 8, 1, 1, Q_MATMUL, ""},
    {"QLinearMatMul", QUANT_OPSET, 0, 8, 9, 1, 1, Q_MATMUL, "low high"},
    {"QuantizeLinear", 10, 0, 2, 3, 1, 1, Q_QUANTIZE, "axis block_size output_dtype precision saturate"},
    {0},
};

#define DTYPES_8 (DTYPE_BIT(DT_I8) | DTYPE_BIT(DT_U8))
#define DTYPES_16 (DTYPES_8 | DTYPE_BIT(DT_I16) | DTYPE_BIT(DT_U16))

/* ---- QuantizeLinear, DequantizeLinear ---- */

/* Parameters (scale, zero point) of element i of x[outer][n][inner]: one for all, one per n, or one per block
 * of n. */
struct params {
	int64_t n, inner, block; /* block 0: one for all */
	int64_t blocks;          /* per line of n */
};

static int params_plan(const struct opctx *c, struct params *p)
{
	const struct shape *x = &c->in[0].shape, *s = &c->in[1].shape;
	int64_t block = node_int(c->node, "block_size", 0);
	*p = (struct params){1, 1, 0, 1};
	if (s->rank == 0 || (s->rank == 1 && s->d[0] == 1 && !block))
		return E_OK;
	int axis, rc = attr_axis(c, "axis", 1, x->rank, &axis);
	if (rc < 0)
		return rc;
	p->n = x->d[axis];
	p->inner = shape_span(x, axis + 1, x->rank);
	p->block = block > 0 ? block : 1;
	if (block < 0 || p->block > MAX_ELEMS)
		return fail(E_CORRUPT, "block_size %lld is out of range", (long long)block);
	p->blocks = (p->n + p->block - 1) / p->block;
	if (!block)
		return s->rank == 1 && s->d[0] == p->n
			   ? E_OK
			   : fail(E_CORRUPT, "scale is not a vector of %lld", (long long)p->n);
	struct shape want = *x;
	want.d[axis] = p->blocks;
	return shape_equal(s, &want) ? E_OK
				     : fail(E_CORRUPT, "scale does not fit blocks of %lld", (long long)block);
}

static int64_t params_at(const struct params *p, const struct opctx *c, int64_t i)
{
	if (!p->block)
		return 0;
	int64_t k = i / p->inner % p->n;
	if (c->in[1].shape.rank == 1 && !node_int(c->node, "block_size", 0))
		return k;
	return (i / p->inner / p->n * p->blocks + k / p->block) * p->inner + i % p->inner;
}

/* Checks that the zero point, if present, has the scale's shape. */
static int check_zero(const struct opctx *c, int zero, int scale)
{
	if (!in_there(c, zero))
		return E_OK;
	if (shape_count(&c->in[zero].shape) != shape_count(&c->in[scale].shape))
		return fail(E_CORRUPT, "zero point and scale differ in shape");
	return E_OK;
}

static int infer_quantize(struct opctx *c)
{
	struct params p;
	enum dtype to = DT_U8;
	int rc;
	if ((rc = in_need(c, 0, DTYPES_FLOAT | DTYPE_BIT(DT_I32))) < 0 ||
	    (rc = in_need(c, 1, DTYPES_FLOAT)) < 0)
		return rc;
	if (in_there(c, 2) && (rc = in_need(c, 2, DTYPES_16)) < 0)
		return rc;
	if (node_int(c->node, "output_dtype", 0) &&
	    (rc = dtype_of_onnx(node_int(c->node, "output_dtype", 0), &to)) < 0)
		return rc;
	to = in_there(c, 2) ? c->in[2].dtype : to;
	if (!dtype_in(to, DTYPES_16))
		return fail(E_UNSUPPORTED, "output of type %s is not supported", dtype_name(to));
	if ((rc = check_zero(c, 2, 1)) < 0 || (rc = params_plan(c, &p)) < 0)
		return rc;
	return out_set(c, 0, to, &c->in[0].shape);
}

static int infer_dequantize(struct opctx *c)
{
	struct params p;
	int rc;
	if ((rc = in_need(c, 0, DTYPES_16 | DTYPE_BIT(DT_I32))) < 0 || (rc = in_need(c, 1, DTYPES_FLOAT)) < 0)
		return rc;
	enum dtype to = c->in[1].dtype;
	if (in_there(c, 2) && (rc = in_need(c, 2, DTYPE_BIT(c->in[0].dtype))) < 0)
		return rc;
	if (node_int(c->node, "output_dtype", 0) &&
	    (rc = dtype_of_onnx(node_int(c->node, "output_dtype", 0), &to)) < 0)
		return rc;
	if (!dtype_in(to, DTYPES_FLOAT))
		return fail(E_UNSUPPORTED, "output of type %s is not supported", dtype_name(to));
	if ((rc = check_zero(c, 2, 1)) < 0 || (rc = params_plan(c, &p)) < 0)
		return rc;
	return out_set(c, 0, to, &c->in[0].shape);
}

static struct dense8_bytes limits_of(enum dtype t, int32_t zero)
{
	return (struct dense8_bytes){t == DT_I8 ? -128 : 0, t == DT_I8 ? 127 : 255, zero, t == DT_I8};
}

/* Whether lines of elements with the same parameters, f32 to bytes or back, are long enough for the fast
 * loops. */
static bool has_lines(const struct opctx *c, const struct params *p)
{
	const struct tensor *byte = c->code == Q_QUANTIZE ? &c->out[0] : &c->in[0];
	const struct tensor *real = c->code == Q_QUANTIZE ? &c->in[0] : &c->out[0];
	bool lines = !p->block || (p->inner >= 8 && !node_int(c->node, "block_size", 0));
	return lines && real->dtype == DT_F32 && c->in[1].dtype == DT_F32 && dtype_in(byte->dtype, DTYPES_8);
}

static void eval_lines(struct opctx *c, const struct params *p)
{
	enum dense8_isa isa = dense8_isa();
	int64_t count = shape_count(&c->in[0].shape), n = p->block ? p->inner : count;
	for (int64_t at = 0; at < count; at += n) {
		int64_t k = params_at(p, c, at);
		float scale = ((const float *)c->in[1].data)[k];
		int32_t zero = in_there(c, 2) ? (int32_t)tensor_get_i64(&c->in[2], k) : 0;
		if (c->code == Q_QUANTIZE)
			dense8_quantise(isa, n, (const float *)c->in[0].data + at, scale,
					limits_of(c->out[0].dtype, zero), (uint8_t *)c->out[0].data + at);
		else
			dense8_dequantise(isa, n, (const uint8_t *)c->in[0].data + at,
					  c->in[0].dtype == DT_I8, scale, zero, (float *)c->out[0].data + at);
	}
}

static int eval_linear(struct opctx *c)
{
	struct params p;
	int rc = params_plan(c, &p);
	int64_t count = shape_count(&c->in[0].shape);
	if (rc >= 0 && has_lines(c, &p)) {
		eval_lines(c, &p);
		return E_OK;
	}
	for (int64_t i = 0; rc >= 0 && i < count; i++) {
		int64_t k = params_at(&p, c, i);
		double scale = tensor_get(&c->in[1], k), zero = in_there(c, 2) ? tensor_get(&c->in[2], k) : 0;
		double v = tensor_get(&c->in[0], i);
		/* the quotient is rounded to float first, because the operator is defined on floats */
		v = c->code == Q_QUANTIZE ? rint((float)(v / scale)) + zero : (v - zero) * scale;
		if (c->code == Q_QUANTIZE && isnan(v))
			v = -INFINITY; /* ONNX Runtime: the lowest integer */
		store_f64(&c->out[0], i, 1, &v);
	}
	return rc;
}

/* ---- DynamicQuantizeLinear ---- */

static int infer_dynamic(struct opctx *c)
{
	struct shape one = {0};
	int rc = in_need(c, 0, DTYPE_BIT(DT_F32));
	if (rc < 0 || (rc = out_set(c, 1, DT_F32, &one)) < 0 || (rc = out_set(c, 2, DT_U8, &one)) < 0)
		return rc;
	return out_set(c, 0, DT_U8, &c->in[0].shape);
}

static int eval_dynamic(struct opctx *c)
{
	const float *x = c->in[0].data;
	int64_t count = shape_count(&c->in[0].shape);
	float lo = 0, hi = 0;
	for (int64_t i = 0; i < count; i++) {
		lo = x[i] < lo ? x[i] : lo;
		hi = x[i] > hi ? x[i] : hi;
	}
	float scale = (hi - lo) / 255;
	double zero = scale > 0 ? rint(fmin(255, fmax(0, -lo / scale))) : 0, s = scale;
	for (int64_t i = 0; i < count && out_wanted(c, 0); i++) {
		double v = scale > 0 ? rint(x[i] / scale) + zero : 0;
		store_f64(&c->out[0], i, 1, &v);
	}
	if (out_wanted(c, 1))
		store_f64(&c->out[1], 0, 1, &s);
	if (out_wanted(c, 2))
		store_f64(&c->out[2], 0, 1, &zero);
	return E_OK;
}

/* ---- products ---- */

/* Input numbers of the four product operators; -1: none. */
struct places {
	int x, w, x_scale, x_zero, w_scale, w_zero, y_scale, y_zero, bias;
};

static struct places places_of(const struct opctx *c)
{
	if (c->code == Q_CONV_INT || c->code == Q_MATMUL_INT)
		return (struct places){0, 1, -1, 2, -1, 3, -1, -1, -1};
	return (struct places){0, 3, 1, 2, 4, 5, 6, 7, 8};
}

/* Element k of a parameter, or its only element; `fallback` if absent. */
static double param(const struct opctx *c, int in, int64_t k, double fallback)
{
	if (in < 0 || !in_there(c, in))
		return fallback;
	return tensor_get(&c->in[in], shape_count(&c->in[in].shape) > 1 ? k : 0);
}

/* Checks that input `in` is absent, has one element, or has n. */
static int check_param(const struct opctx *c, int in, unsigned dtypes, int64_t n)
{
	if (in < 0 || !in_there(c, in))
		return E_OK;
	int rc = in_need(c, in, dtypes);
	int64_t count = shape_count(&c->in[in].shape);
	if (rc >= 0 && count != 1 && count != n)
		return fail(E_CORRUPT, "input %d has %lld elements, not %lld", in, (long long)count,
			    (long long)n);
	return rc;
}

static int check_product(const struct opctx *c, const struct places *p, int64_t x_n, int64_t w_n)
{
	int rc;
	if ((rc = check_param(c, p->x_scale, DTYPES_FLOAT, x_n)) < 0 ||
	    (rc = check_param(c, p->w_scale, DTYPES_FLOAT, w_n)) < 0 ||
	    (rc = check_param(c, p->x_zero, DTYPE_BIT(c->in[p->x].dtype), x_n)) < 0 ||
	    (rc = check_param(c, p->w_zero, DTYPE_BIT(c->in[p->w].dtype), w_n)) < 0 ||
	    (rc = check_param(c, p->y_scale, DTYPES_FLOAT, 1)) < 0 ||
	    (rc = check_param(c, p->y_zero, DTYPES_8, 1)) < 0)
		return rc;
	if (p->bias >= 0 && in_there(c, p->bias)) {
		if ((rc = in_need(c, p->bias, DTYPE_BIT(DT_I32))) < 0)
			return rc;
		if (shape_count(&c->in[p->bias].shape) != w_n)
			return fail(E_CORRUPT, "bias is not a vector of %lld", (long long)w_n);
	}
	return E_OK;
}

static int infer_product(struct opctx *c)
{
	struct places p = places_of(c);
	struct shape out;
	bool conv = c->code == Q_CONV_INT || c->code == Q_CONV;
	int64_t x_n = 1, w_n;
	int rc;
	if ((rc = in_need(c, p.x, DTYPES_8)) < 0 || (rc = in_need(c, p.w, DTYPES_8)) < 0)
		return rc;
	for (int i = 1; i < 8 && p.y_scale >= 0; i++)
		if ((rc = in_need(c, i, DTYPES_ANY)) < 0)
			return rc;
	const struct shape *x = &c->in[p.x].shape, *w = &c->in[p.w].shape;
	if (conv) {
		struct filter_window win;
		if ((rc = conv_window(c, x, w, &win)) < 0)
			return rc;
		window_shape(&win, x->d[0], w->d[0], &out);
		w_n = w->d[0];
	} else {
		struct matmul m;
		if ((rc = matmul_plan(x, w, &m)) < 0)
			return rc;
		out = m.out;
		x_n = m.m;
		w_n = m.n;
	}
	if ((rc = check_product(c, &p, x_n, w_n)) < 0)
		return rc;
	return out_set(c, 0, p.y_zero >= 0 ? c->in[p.y_zero].dtype : DT_I32, &out);
}

enum { W = DENSE8_WIDTH, ROWS = 32 /* whose sums, 8 KiB, stay in the L1 */ };

/* A product of s8 rows with u8 columns in work. Where an operand has the other signedness, 128 is added to it
 * or taken from it, and to its zero point. */
struct product {
	enum dense8_isa isa;
	const struct opctx *c;
	const struct places *p;
	int64_t depth;
	const int8_t *ones; /* [depth]; NULL: zero points of rows are all 0 */
	int64_t *offset;    /* [depth]: where the rows of a panel begin */
	void *panel, *scratch;
	uint8_t flip;     /* of the columns' bytes */
	size_t out_bytes; /* of an element */
	bool scaled;      /* to bytes; else the sums are the output */
	bool row_params;  /* rows have parameters x (matrices); else w (filters) */
	bool shifted;     /* a zero point of the columns is not 0 */
	struct dense8_bytes to;
	struct dense8_columns col; /* of the panel */
	float col_scale[W], y_scale;
	uint32_t sum[ROWS * W];
	uint8_t lines[ROWS * W];            /* finished rows of bytes */
	uint8_t line[W * sizeof(uint32_t)]; /* a finished row: bytes or sums */
};

static int row_scale(const struct product *d)
{
	return d->row_params ? d->p->x_scale : d->p->w_scale;
}

static int row_zero(const struct product *d)
{
	return d->row_params ? d->p->x_zero : d->p->w_zero;
}

/* Whether input `in`, zero points, is there and has one that is not 0. */
static bool any_zero_point(const struct product *d, int in)
{
	int64_t n = in >= 0 && in_there(d->c, in) ? shape_count(&d->c->in[in].shape) : 0;
	for (int64_t i = 0; i < n; i++)
		if (tensor_get_i64(&d->c->in[in], i))
			return true;
	return false;
}

/* The output's limits: those of its type, or closer ones of the attributes. */
static struct dense8_bytes output_bytes(const struct opctx *c, const struct places *p)
{
	struct dense8_bytes b = limits_of(c->out[0].dtype, (int32_t)param(c, p->y_zero, 0, 0));
	int64_t low = node_int(c->node, "low", b.low), high = node_int(c->node, "high", b.high);
	b.low = low > b.low && low <= b.high ? (int32_t)low : b.low;
	b.high = high < b.high && high >= b.low ? (int32_t)high : b.high;
	return b;
}

static int product_open(struct product *d, struct opctx *c, const struct places *p, int64_t depth,
			bool row_params)
{
	*d = (struct product){.isa = dense8_isa(), .c = c, .p = p, .depth = depth, .row_params = row_params};
	const struct tensor *columns = &c->in[row_params ? p->w : p->x];
	d->flip = columns->dtype == DT_I8 ? 0x80 : 0;
	d->scaled = p->y_scale >= 0;
	d->out_bytes = d->scaled ? 1 : sizeof(int32_t);
	if (d->scaled)
		d->to = output_bytes(c, p);
	d->y_scale = (float)param(c, p->y_scale, 0, 1);
	d->offset = arena_try(c->arena, (size_t)depth + 1, sizeof *d->offset);
	d->panel = arena_try(c->arena, dense8_panel_bytes(depth) + W, 1);
	d->scratch = arena_try(c->arena, dense8_scratch_bytes(depth) + W, 1);
	if (!d->offset || !d->panel || !d->scratch)
		return E_NOMEM;
	d->shifted = d->flip || any_zero_point(d, row_params ? p->w_zero : p->x_zero);
	bool rows_are_u8 = c->in[row_params ? p->x : p->w].dtype == DT_U8;
	if (!rows_are_u8 && !any_zero_point(d, row_zero(d)))
		return E_OK;
	int8_t *ones = arena_try(c->arena, (size_t)depth + 1, 1);
	if (!ones)
		return E_NOMEM;
	memset(ones, 1, (size_t)depth);
	d->ones = ones;
	return E_OK;
}

/* The s8 rows of an operand that has them row by row: itself, or a copy less 128. */
static const int8_t *signed_rows(struct opctx *c, const struct tensor *t, int64_t *sub)
{
	int64_t n = shape_count(&t->shape);
	*sub = t->dtype == DT_U8 ? 128 : 0;
	if (!*sub)
		return t->data;
	uint8_t *copy = arena_try(c->arena, (size_t)n + 1, 1);
	for (int64_t i = 0; copy && i < n; i++)
		copy[i] = ((const uint8_t *)t->data)[i] ^ 0x80;
	return (const int8_t *)copy;
}

/* Sets the parameters of a panel's columns: number k, k + step and so on. */
static void columns_load(struct product *d, int width, int64_t k, int64_t step)
{
	const struct opctx *c = d->c;
	int scale = d->row_params ? d->p->w_scale : d->p->x_scale;
	int zero = d->row_params ? d->p->w_zero : d->p->x_zero;
	for (int x = 0; x < W; x++) {
		int64_t at = k + (x < width ? x : 0) * step;
		d->col_scale[x] = (float)param(c, scale, at, 1);
		d->col.zero[x] = (uint32_t)((int32_t)param(c, zero, at, 0) + d->flip);
		d->col.add[x] = d->row_params ? (uint32_t)(int32_t)param(c, d->p->bias, at, 0) : 0;
	}
}

/* Packs the `width` columns at b + offset[]. */
static void panel_load(struct product *d, const uint8_t *b, int width)
{
	dense8_pack(d->isa, d->depth, b, d->offset, width, d->flip, d->panel);
	if (d->ones)
		dense8_rows(d->isa, d->depth, 1, d->ones, d->panel, width, d->scratch, d->col.total);
}

/* Parameters of a row. */
struct row_params {
	float scale;
	uint32_t zero, add; /* zero point; bias */
	uint32_t factor;    /* of the columns' zero points: depth * zero point - sum of the row */
};

static void row_load(const struct product *d, const int8_t *a, int64_t k, int64_t sub, struct row_params *r)
{
	const struct opctx *c = d->c;
	r->scale = (float)param(c, row_scale(d), k, 1);
	r->zero = (uint32_t)((int32_t)param(c, row_zero(d), k, 0) - (int32_t)sub);
	r->add = d->row_params ? 0 : (uint32_t)(int32_t)param(c, d->p->bias, k, 0);
	r->factor = d->shifted ? (uint32_t)d->depth * r->zero - (uint32_t)dense8_total(d->isa, a, d->depth) : 0;
}

/* Finishes a row of sums: W bytes or sums at `out`, of which those behind `width` become anything. */
static void row_finish(struct product *d, const struct row_params *r, int width, uint32_t *sum, void *out)
{
	float factor[W];
	dense8_correct(d->isa, &d->col, r->add, r->factor, r->zero, sum);
	if (!d->scaled) {
		memcpy(out, sum, W * sizeof *sum);
		return;
	}
	factor[0] = dense8_factor(r->scale, d->col_scale[0], d->y_scale);
	for (int x = 1; x < W; x++)
		factor[x] = d->row_params ? dense8_factor(r->scale, d->col_scale[x], d->y_scale) : factor[0];
	dense8_requantise(d->isa, (width + 15) / 16 * 16, sum, factor, d->to, out);
}

/* ---- convolution ---- */

/* One group of one image, padded with the zero point. Along an axis with stride s, positions that differ by s
 * lie side by side, in s phases: so all output pixels of a plane, with the few behind each line that do not
 * count, read a run of bytes for each tap. */
struct bytes_image {
	struct filter_window w;
	int64_t channels, pitch[3]; /* extents of a phase */
	int64_t phase, channel;     /* bytes */
	uint8_t *room;
	const uint8_t *data; /* room, or the input itself */
	bool whole;          /* no padding: every byte is written by a load */
};

static int64_t image_at(const struct bytes_image *m, const int64_t *pos)
{
	int64_t phase = 0, at = 0;
	for (int i = 0; i < 3; i++) {
		phase = phase * m->w.stride[i] + pos[i] % m->w.stride[i];
		at = at * m->pitch[i] + pos[i] / m->w.stride[i];
	}
	return phase * m->phase + at;
}

static int image_open(struct bytes_image *m, const struct filter_window *w, int64_t channels, struct arena *a)
{
	*m = (struct bytes_image){.w = *w, .channels = channels, .whole = true};
	struct shape s = {.rank = 5, .d = {channels}};
	m->phase = 1;
	s.d[4] = 1;
	for (int i = 0; i < 3; i++) {
		int64_t padded = w->in[i] + w->begin[i] + w->end[i];
		m->pitch[i] = (padded + w->stride[i] - 1) / w->stride[i];
		m->phase *= m->pitch[i];
		m->whole &= padded == w->in[i] && padded % w->stride[i] == 0;
		s.d[1 + i] = m->pitch[i] * w->stride[i];
	}
	int rc = shape_check(&s, MAX_ELEMS);
	if (rc < 0)
		return fail_in(rc, "padded input");
	m->channel = m->phase * span3(w->stride);
	m->room = arena_try(a, (size_t)shape_count(&s) + W, 1);
	m->data = m->room;
	return m->room ? E_OK : E_NOMEM;
}

/* A line of the input, into the phases of its axis. */
static void load_line(const struct bytes_image *m, const uint8_t *x, uint8_t *to, int64_t first)
{
	int64_t n = m->w.in[2], step = m->w.stride[2];
	for (int64_t phase = 0; phase < step; phase++) {
		/* the first element of this phase */
		int64_t i = (phase - first % step + step) % step;
		uint8_t *at = to + phase * m->phase + (first + i) / step;
		if (step == 1)
			memcpy(at, x, (size_t)n);
		else if (i < n)
			dense8_every((n - i + step - 1) / step, x + i, step, at);
	}
}

static void image_load(struct bytes_image *m, const uint8_t *x, uint8_t zero)
{
	const struct filter_window *w = &m->w;
	if (m->whole && span3(w->stride) == 1) {
		m->data = x;
		return;
	}
	if (!m->whole)
		memset(m->room, zero, (size_t)(m->channels * m->channel));
	for (int64_t c = 0; c < m->channels; c++)
		for (int64_t d = 0; d < w->in[0]; d++)
			for (int64_t h = 0; h < w->in[1]; h++, x += w->in[2]) {
				int64_t pos[3] = {d + w->begin[0], h + w->begin[1], 0};
				load_line(m, x, m->room + c * m->channel + image_at(m, pos), w->begin[2]);
			}
}

static void image_offsets(const struct bytes_image *m, int64_t *offset)
{
	const struct filter_window *w = &m->w;
	for (int64_t c = 0; c < m->channels; c++)
		for (int64_t d = 0; d < w->kernel[0]; d++)
			for (int64_t h = 0; h < w->kernel[1]; h++)
				for (int64_t x = 0; x < w->kernel[2]; x++) {
					int64_t pos[3] = {d * w->dilation[0], h * w->dilation[1],
							  x * w->dilation[2]};
					*offset++ = c * m->channel + image_at(m, pos);
				}
}

/* Runs of a panel's columns that are pixels of the output. */
struct pixel_runs {
	int n;
	struct {
		int from, count;
		int64_t to; /* element of the plane */
	} run[W];
};

/* The columns are [q, q + width) of a plane's lines, which are `pitch` apart and have `cols` pixels. */
static void find_runs(int64_t q, int width, int64_t pitch, int64_t cols, struct pixel_runs *p)
{
	int64_t row = q / pitch, col = q % pitch;
	p->n = pitch == cols;
	p->run[0].from = 0;
	p->run[0].count = width;
	p->run[0].to = q;
	if (pitch == cols)
		return;
	for (int x = 0; x < width; row++, col = 0) {
		int64_t left = width - x, n = pitch - col < left ? pitch - col : left;
		int64_t good = cols - col < n ? cols - col : n;
		if (good > 0) {
			p->run[p->n].from = x;
			p->run[p->n].count = (int)good;
			p->run[p->n++].to = row * cols + col;
		}
		x += (int)n;
	}
}

static void copy_pixels(const uint8_t *line, size_t bytes, const struct pixel_runs *p, char *plane)
{
	for (int i = 0; i < p->n; i++)
		dense8_copy((uint8_t *)plane + (size_t)p->run[i].to * bytes,
			    line + (size_t)p->run[i].from * bytes, p->run[i].count * (int64_t)bytes);
}

struct filters {
	const int8_t *w; /* [n][taps] */
	const struct row_params *row;
	int64_t n;
	/* What turns sums into bytes, with the zero point of x; NULL: rows are finished one by one. */
	const uint32_t *add;
	const float *factor;
};

/* Rows first to first + count of a panel, as bytes. */
static void finish_together(struct product *d, const struct filters *f, int64_t first, int count, int width,
			    const struct pixel_runs *runs, char *out, int64_t plane)
{
	bool direct = runs->n == 1 && !runs->run[0].from; /* it needs no copy */
	const struct dense8_ends e = {d->to,
				      f->add + first,
				      f->factor + first,
				      direct ? (uint8_t *)out + first * plane + runs->run[0].to : d->lines,
				      direct ? plane : W,
				      direct ? runs->run[0].count : width};
	dense8_rows_to_bytes(d->isa, d->depth, count, f->w + first * d->depth, d->panel, width, d->scratch,
			     d->sum, &e);
	for (int i = 0; i < count && !direct; i++)
		copy_pixels(d->lines + i * W, 1, runs, out + (first + i) * plane);
}

static void finish_one_by_one(struct product *d, const struct filters *f, int64_t first, int count, int width,
			      const struct pixel_runs *runs, char *out, int64_t plane)
{
	dense8_rows(d->isa, d->depth, count, f->w + first * d->depth, d->panel, width, d->scratch, d->sum);
	for (int i = 0; i < count; i++) {
		row_finish(d, &f->row[first + i], width, d->sum + i * W, d->line);
		copy_pixels(d->line, d->out_bytes, runs, out + (first + i) * plane);
	}
}

/* The pixels of one plane of output: lines of the image from `at` on. */
static void conv_plane(struct product *d, const struct bytes_image *m, int64_t at, const struct filters *f,
		       char *out)
{
	const struct filter_window *w = &m->w;
	int64_t pitch = m->pitch[2], pixels = (w->out[1] - 1) * pitch + w->out[2];
	int64_t plane = span3(w->out) * (int64_t)d->out_bytes;
	for (int64_t q = 0; q < pixels; q += W) {
		int width = pixels - q < W ? (int)(pixels - q) : W;
		struct pixel_runs runs;
		find_runs(q, width, pitch, w->out[2], &runs);
		panel_load(d, m->data + at + q, width);
		for (int64_t r = 0; r < f->n; r += ROWS) {
			int count = f->n - r < ROWS ? (int)(f->n - r) : ROWS;
			if (f->add)
				finish_together(d, f, r, count, width, &runs, out, plane);
			else
				finish_one_by_one(d, f, r, count, width, &runs, out, plane);
		}
	}
}

/* What turns the sums of all filters into bytes, if x has one zero point and the filters have none. */
static int load_ends(struct product *d, int64_t n, struct filters *f, struct arena *a)
{
	uint32_t *add = arena_try(a, (size_t)n + 1, sizeof *add);
	float *factor = arena_try(a, (size_t)n + 1, sizeof *factor);
	if (!add || !factor)
		return E_NOMEM;
	for (int64_t i = 0; i < n; i++) {
		add[i] = f->row[i].add + f->row[i].factor * d->col.zero[0];
		factor[i] = dense8_factor(f->row[i].scale, d->col_scale[0], d->y_scale);
	}
	f->add = add;
	f->factor = factor;
	return E_OK;
}

static int conv_depthwise(struct opctx *c, const struct places *p, const struct product *d,
			  const struct filter_window *w, const struct filters *f)
{
	const struct shape *x = &c->in[p->x].shape;
	const struct depthwise8 by_channel = {
	    .w = *w,
	    .images = x->d[0],
	    .channels = x->d[1],
	    .each = f->n / x->d[1],
	    .x = c->in[p->x].data,
	    .zero = (uint8_t)(int)param(c, p->x_zero, 0, 0),
	    .flip = d->flip,
	    .weights = f->w,
	    .add = f->add,
	    .factor = f->factor,
	    .bytes = d->to,
	    .y = c->out[0].data,
	};
	return depthwise8(&by_channel, c->arena);
}

static int eval_conv(struct opctx *c, const struct places *p)
{
	const struct shape *x = &c->in[p->x].shape, *s = &c->in[p->w].shape;
	struct filter_window w;
	struct bytes_image m;
	int rc = conv_window(c, x, s, &w);
	int64_t group = conv_group(c), sub, taps = shape_span(s, 1, s->rank), filters = s->d[0];
	if (rc < 0)
		return rc;
	struct product *d = arena_try(c->arena, 1, sizeof *d);
	struct row_params *row = arena_try(c->arena, (size_t)filters + 1, sizeof *row);
	const int8_t *weights = signed_rows(c, &c->in[p->w], &sub);
	if (!d || !row || !weights)
		return E_NOMEM;
	if ((rc = image_open(&m, &w, s->d[1], c->arena)) < 0 || (rc = product_open(d, c, p, taps, false)) < 0)
		return rc;
	image_offsets(&m, d->offset);
	columns_load(d, W, 0, 0);
	for (int64_t f = 0; f < filters; f++)
		row_load(d, weights + f * taps, f, sub, &row[f]);
	struct filters all = {weights, row, filters, NULL, NULL};
	if (d->scaled && !d->ones && (rc = load_ends(d, filters, &all, c->arena)) < 0)
		return rc;
	if (all.add && s->d[1] == 1 && depthwise8_fits(&w))
		return conv_depthwise(c, p, d, &w, &all);
	int64_t part = filters / group, in = s->d[1] * span3(w.in), out = span3(w.out);
	for (int64_t i = 0; i < x->d[0] * group && out > 0; i++) {
		int64_t f = i % group * part;
		struct filters some = {weights + f * taps, row + f, part, all.add ? all.add + f : NULL,
				       all.add ? all.factor + f : NULL};
		char *to = (char *)c->out[0].data + i * part * out * (int64_t)d->out_bytes;
		image_load(&m, (const uint8_t *)c->in[p->x].data + i * in,
			   (uint8_t)(int)param(c, p->x_zero, 0, 0));
		for (int64_t z = 0; z < w.out[0]; z++)
			conv_plane(d, &m, z * m.pitch[1] * m.pitch[2], &some,
				   to + z * w.out[1] * w.out[2] * (int64_t)d->out_bytes);
	}
	return E_OK;
}

/* ---- matrix product ---- */

static void matmul_bytes(struct product *d, const struct matmul *m, const int8_t *a, int64_t sub,
			 const uint8_t *b, struct row_params *row, char *out)
{
	for (int64_t r = 0; r < m->m; r++)
		row_load(d, a + r * m->k, r, sub, &row[r]);
	for (int64_t x = 0; x < m->n; x += W) {
		int width = m->n - x < W ? (int)(m->n - x) : W;
		columns_load(d, width, x, 1);
		panel_load(d, b + x, width);
		for (int64_t r = 0; r < m->m; r += ROWS) {
			int count = m->m - r < ROWS ? (int)(m->m - r) : ROWS;
			dense8_rows(d->isa, d->depth, count, a + r * m->k, d->panel, width, d->scratch,
				    d->sum);
			for (int i = 0; i < count; i++) {
				row_finish(d, &row[r + i], width, d->sum + i * W, d->line);
				memcpy(out + ((r + i) * m->n + x) * (int64_t)d->out_bytes, d->line,
				       (size_t)width * d->out_bytes);
			}
		}
	}
}

static int eval_matmul(struct opctx *c, const struct places *p)
{
	struct matmul m;
	struct walk w;
	int64_t sub;
	int rc = matmul_plan(&c->in[p->x].shape, &c->in[p->w].shape, &m);
	if (rc < 0)
		return rc;
	struct product *d = arena_try(c->arena, 1, sizeof *d);
	struct row_params *row = arena_try(c->arena, (size_t)m.m + 1, sizeof *row);
	const int8_t *a = signed_rows(c, &c->in[p->x], &sub);
	if (!d || !row || !a)
		return E_NOMEM;
	if ((rc = product_open(d, c, p, m.k, true)) < 0)
		return rc;
	for (int64_t t = 0; t < m.k; t++)
		d->offset[t] = t * m.n;
	walk_open(&w, c->arena, m.batch.rank, m.batch.d, 3);
	walk_like(&w, 0, &m.batch);
	walk_like(&w, 1, &m.a);
	walk_like(&w, 2, &m.b);
	for (walk_start(&w); !w.done; walk_next(&w))
		for (int64_t i = 0; i < w.n; i++)
			matmul_bytes(
			    d, &m, a + (w.at[1] + i * w.run[1]) * m.m * m.k, sub,
			    (const uint8_t *)c->in[p->w].data + (w.at[2] + i * w.run[2]) * m.k * m.n, row,
			    (char *)c->out[0].data + (w.at[0] + i) * m.m * m.n * (int64_t)d->out_bytes);
	return E_OK;
}

/* ---- */

static int infer(struct opctx *c)
{
	static int (*const by_code[])(struct opctx *) = {
	    [Q_QUANTIZE] = infer_quantize, [Q_DEQUANTIZE] = infer_dequantize, [Q_DYNAMIC] = infer_dynamic};
	return c->code <= Q_DYNAMIC ? by_code[c->code](c) : infer_product(c);
}

static int eval(struct opctx *c)
{
	struct places p = places_of(c);
	if (c->code == Q_DYNAMIC)
		return eval_dynamic(c);
	if (c->code <= Q_DEQUANTIZE)
		return eval_linear(c);
	return c->code == Q_CONV_INT || c->code == Q_CONV ? eval_conv(c, &p) : eval_matmul(c, &p);
}

const struct op op_quant = {
    .name = "quant", .rows = rows, .infer = infer, .eval = eval, .task = structure_task};
