/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/product8.h"
#include "kernels/graph/depthwise8.h"
#include "kernels/graph/geometry.h"
#include "kernels/graph/matmul.h"
#include "kernels/task/walk.h"

#include <string.h>

/* The numbers of a parameter: one for all, or one each. */
struct numbers {
	const struct tensor *t; /* NULL: absent */
	bool each;
	double fallback;
};

static struct numbers numbers_of(const struct opctx *c, int in, double fallback)
{
	bool there = in >= 0 && in_there(c, in);
	return (struct numbers){there ? &c->in[in] : NULL, there && shape_count(&c->in[in].shape) > 1,
				fallback};
}

static inline double number_at(const struct numbers *n, int64_t k)
{
	k = n->each ? k : 0;
	if (!n->t)
		return n->fallback;
	if (n->t->dtype == DT_F32)
		return ((const float *)n->t->data)[k];
	return n->t->dtype == DT_I32 ? ((const int32_t *)n->t->data)[k] : tensor_get(n->t, k);
}

/* The only element of a parameter, or its first. */
static double param(const struct opctx *c, int in, double fallback)
{
	struct numbers n = numbers_of(c, in, fallback);
	return number_at(&n, 0);
}

enum { W = DENSE8_WIDTH, ROWS = 32 /* whose sums, 8 KiB, stay in the L1 */ };

/* A product of s8 rows with u8 columns in work. Where an operand has the other signedness, 128 is added to it
 * or taken from it, and to its zero point. */
struct product {
	enum dense8_isa isa;
	const struct opctx *c;
	const struct product8_places *p;
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
	struct numbers row_scale, row_zero, col_scales, col_zeros, bias;
	struct dense8_columns col; /* of the panel */
	float col_scale[W], y_scale;
	uint32_t sum[ROWS * W];
	uint8_t lines[ROWS * W];            /* finished rows of bytes */
	uint8_t line[W * sizeof(uint32_t)]; /* a finished row: bytes or sums */
};

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

struct dense8_bytes product8_bytes(const struct opctx *c, int32_t zero)
{
	struct dense8_bytes b = product8_limits(c->out[0].dtype, zero);
	int64_t low = node_int(c->node, "low", b.low), high = node_int(c->node, "high", b.high);
	b.low = low > b.low && low <= b.high ? (int32_t)low : b.low;
	b.high = high < b.high && high >= b.low ? (int32_t)high : b.high;
	return b;
}

static int product_open(struct product *d, struct opctx *c, const struct product8_places *p, int64_t depth,
			bool row_params)
{
	*d = (struct product){.isa = dense8_isa(), .c = c, .p = p, .depth = depth, .row_params = row_params};
	const struct tensor *columns = &c->in[row_params ? p->w : p->x];
	d->flip = columns->dtype == DT_I8 ? 0x80 : 0;
	d->scaled = p->y_scale >= 0;
	d->out_bytes = d->scaled ? 1 : sizeof(int32_t);
	if (d->scaled)
		d->to = product8_bytes(c, (int32_t)param(c, p->y_zero, 0));
	d->y_scale = (float)param(c, p->y_scale, 1);
	d->row_scale = numbers_of(c, row_params ? p->x_scale : p->w_scale, 1);
	d->row_zero = numbers_of(c, row_zero(d), 0);
	d->col_scales = numbers_of(c, row_params ? p->w_scale : p->x_scale, 1);
	d->col_zeros = numbers_of(c, row_params ? p->w_zero : p->x_zero, 0);
	d->bias = numbers_of(c, p->bias, 0);
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
	for (int x = 0; x < W; x++) {
		int64_t at = k + (x < width ? x : 0) * step;
		d->col_scale[x] = (float)number_at(&d->col_scales, at);
		d->col.zero[x] = (uint32_t)((int32_t)number_at(&d->col_zeros, at) + d->flip);
		d->col.add[x] = d->row_params ? (uint32_t)(int32_t)number_at(&d->bias, at) : 0;
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
	r->scale = (float)number_at(&d->row_scale, k);
	r->zero = (uint32_t)((int32_t)number_at(&d->row_zero, k) - (int32_t)sub);
	r->add = d->row_params ? 0 : (uint32_t)(int32_t)number_at(&d->bias, k);
	r->factor =
	    d->shifted ? (uint32_t)d->depth * r->zero - (uint32_t)dense8_total(d->isa, a, d->depth) : 0;
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
	int64_t *line;              /* [in[0] * in[1]] where a line of the input begins in its first phase */
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
	m->line = arena_try(a, (size_t)(w->in[0] * w->in[1]) + 1, sizeof *m->line);
	for (int64_t i = 0; m->line && i < w->in[0] * w->in[1]; i++) {
		int64_t pos[3] = {i / w->in[1] + w->begin[0], i % w->in[1] + w->begin[1], 0};
		m->line[i] = image_at(m, pos);
	}
	return m->room && m->line ? E_OK : E_NOMEM;
}

/* A line of the input, into the phases of its axis. */
static void load_line(const struct bytes_image *m, const uint8_t *x, uint8_t *to, int64_t first)
{
	int64_t n = m->w.in[2], step = m->w.stride[2];
	if (step == 1) {
		dense8_copy(to + first, x, n);
		return;
	}
	for (int64_t phase = 0; phase < step; phase++) {
		/* the first element of this phase */
		int64_t i = (phase - first % step + step) % step;
		uint8_t *at = to + phase * m->phase + (first + i) / step;
		if (i < n)
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
		for (int64_t i = 0; i < w->in[0] * w->in[1]; i++, x += w->in[2])
			load_line(m, x, m->room + c * m->channel + m->line[i], w->begin[2]);
}

static void image_offsets(const struct bytes_image *m, int64_t *offset)
{
	const struct filter_window *w = &m->w;
	int64_t n = 0;
	for (int64_t d = 0; d < w->kernel[0]; d++)
		for (int64_t h = 0; h < w->kernel[1]; h++)
			for (int64_t x = 0; x < w->kernel[2]; x++)
				offset[n++] = image_at(m, (int64_t[]){d * w->dilation[0], h * w->dilation[1],
								      x * w->dilation[2]});
	for (int64_t i = n; i < n * m->channels; i++)
		offset[i] = offset[i - n] + m->channel;
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
	/* Addend and factor that turn each filter's sums into bytes; the zero point of x is part of the
	 * addend. NULL: rows are finished one by one. */
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

static int conv_depthwise(struct opctx *c, const struct product8_places *p, const struct product *d,
			  const struct filter_window *w, const struct filters *f)
{
	const struct shape *x = &c->in[p->x].shape;
	const struct depthwise8 by_channel = {
	    .w = *w,
	    .images = x->d[0],
	    .channels = x->d[1],
	    .each = f->n / x->d[1],
	    .x = c->in[p->x].data,
	    .zero = (uint8_t)(int)param(c, p->x_zero, 0),
	    .flip = d->flip,
	    .weights = f->w,
	    .add = f->add,
	    .factor = f->factor,
	    .bytes = d->to,
	    .y = c->out[0].data,
	};
	return depthwise8(&by_channel, c->arena);
}

int product8_conv(struct opctx *c, const struct product8_places *p)
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
			   (uint8_t)(int)param(c, p->x_zero, 0));
		for (int64_t z = 0; z < w.out[0]; z++)
			conv_plane(d, &m, z * m.pitch[1] * m.pitch[2], &some,
				   to + z * w.out[1] * w.out[2] * (int64_t)d->out_bytes);
	}
	return E_OK;
}

/* ---- matrix product ---- */

/* The sums of one row of x, and with a zero point of x those of the columns. False: do it by panels. */
struct one_row {
	uint32_t *sum, *total;
};

static int one_row_open(struct one_row *o, int64_t n, struct arena *a)
{
	o->sum = arena_try(a, (size_t)n + W, sizeof *o->sum);
	o->total = arena_try(a, (size_t)n + W, sizeof *o->total);
	return o->sum && o->total ? E_OK : E_NOMEM;
}

static bool one_row_load(struct product *d, const struct matmul *m, const int8_t *a, const uint8_t *b,
			 const struct one_row *o)
{
	return m->m == 1 && o->sum && dense8_row(d->isa, m->k, m->n, a, b, d->flip, o->sum) &&
	       (!d->ones || dense8_row(d->isa, m->k, m->n, d->ones, b, d->flip, o->total));
}

static void one_row_bytes(struct product *d, const struct matmul *m, const struct row_params *row,
			  const struct one_row *o, char *out)
{
	for (int64_t x = 0; x < m->n; x += W) {
		int width = m->n - x < W ? (int)(m->n - x) : W;
		columns_load(d, width, x, 1);
		if (d->ones)
			memcpy(d->col.total, o->total + x, sizeof d->col.total);
		row_finish(d, row, width, o->sum + x, d->line);
		memcpy(out + x * (int64_t)d->out_bytes, d->line, (size_t)width * d->out_bytes);
	}
}

static void matmul_bytes(struct product *d, const struct matmul *m, const int8_t *a, int64_t sub,
			 const uint8_t *b, struct row_params *row, const struct one_row *o, char *out)
{
	for (int64_t r = 0; r < m->m; r++)
		row_load(d, a + r * m->k, r, sub, &row[r]);
	if (one_row_load(d, m, a, b, o)) {
		one_row_bytes(d, m, row, o, out);
		return;
	}
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

int product8_matmul(struct opctx *c, const struct product8_places *p)
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
	struct one_row one = {NULL, NULL};
	if (m.m == 1 && (rc = one_row_open(&one, m.n, c->arena)) < 0)
		return rc;
	walk_open(&w, c->arena, m.batch.rank, m.batch.d, 3);
	walk_like(&w, 0, &m.batch);
	walk_like(&w, 1, &m.a);
	walk_like(&w, 2, &m.b);
	for (walk_start(&w); !w.done; walk_next(&w))
		for (int64_t i = 0; i < w.n; i++)
			matmul_bytes(
			    d, &m, a + (w.at[1] + i * w.run[1]) * m.m * m.k, sub,
			    (const uint8_t *)c->in[p->w].data + (w.at[2] + i * w.run[2]) * m.k * m.n, row,
			    &one, (char *)c->out[0].data + (w.at[0] + i) * m.m * m.n * (int64_t)d->out_bytes);
	return E_OK;
}
