/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/picture.h"
#include <math.h>
#include <string.h>
#include <strings.h>

bool picture_is(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

int picture_alloc(struct arena *a, uint64_t w, uint64_t h, struct picture *out)
{
	if (w < 1 || h < 1)
		return fail(E_CORRUPT, "the picture has no pixels");
	if (w > PICTURE_MOST_SIDE || h > PICTURE_MOST_SIDE || w * h > PICTURE_MOST_PIXELS)
		return fail(
		    E_UNSUPPORTED,
		    "the picture is %llux%llu; at most %d pixels per side and %d in all: make it smaller",
		    (unsigned long long)w, (unsigned long long)h, PICTURE_MOST_SIDE, PICTURE_MOST_PIXELS);
	*out = (struct picture){.w = (int)w, .h = (int)h, .rgb = arena_try(a, (size_t)(w * h), 3)};
	return out->rgb ? E_OK : E_NOMEM;
}

int picture_decode(struct arena *a, const struct blob *file, struct picture *out)
{
	if (file->n >= 8 && !memcmp(file->p, "\x89PNG\r\n\x1a\n", 8))
		return picture_png(a, file, out);
	if (file->n >= 8 && !memcmp(file->p, "\xff\xd8\xff", 3))
		return picture_jpeg(a, file, out);
	return fail(E_CORRUPT, "neither a PNG nor a JPEG, by its first bytes");
}

int picture_read(struct arena *a, const char *path, struct picture *out)
{
	struct arena scratch = {0};
	struct blob file;
	int rc = file_read(&scratch, path, PICTURE_MOST_FILE, &file);
	if (rc >= 0)
		rc = fail_in(picture_decode(a, &file, out), "%s", path);
	arena_free(&scratch);
	return rc;
}

/* What one input takes from a picture: its size, and the distance of its channels, columns and rows in
 * elements. */
struct frame {
	int64_t w, h, c;
	int64_t per_c, per_x, per_y;
};

static bool is_channels(int64_t n)
{
	return n == 1 || n == 3;
}

static const char *const layout_names[] = {[LAYOUT_NCHW] = "nchw", [LAYOUT_NHWC] = "nhwc"};

/* Whether its shape has the channels where that layout has them. */
static bool fits_layout(const struct tensor *t, enum picture_layout layout)
{
	const struct shape *s = &t->shape;
	bool batch = s->rank == 4 && s->d[0] == 1;
	return (s->rank == 3 || batch) && is_channels(s->d[layout == LAYOUT_NCHW ? batch : s->rank - 1]);
}

/* layout: that of --layout. */
static int no_frame(const struct tensor *t, enum picture_layout layout)
{
	enum picture_layout other = layout == LAYOUT_NCHW ? LAYOUT_NHWC : LAYOUT_NCHW;
	char shape[160];
	shape_text(&t->shape, shape);
	if (layout != LAYOUT_BY_SHAPE && !fits_layout(t, layout) && fits_layout(t, other))
		return fail(
		    E_USAGE,
		    "--layout %s does not fit an input of shape %s, whose channels are those of %s: give "
		    "--layout %s, or leave it out",
		    layout_names[layout], shape, layout_names[other], layout_names[other]);
	return fail(E_USAGE,
		    "an input of shape %s does not hold one picture; it needs Nx3xHxW, NxHxWx3, 3xHxW, HxWx3 "
		    "(or 1 for 3) or HxW with N = 1 (for other sizes of a model with symbolic ones: --shape)",
		    shape);
}

static int find_frame(const struct tensor *t, enum picture_layout layout, struct frame *f)
{
	const int64_t *d = t->shape.d;
	int rank = t->shape.rank;
	const enum picture_layout given = layout;
	if (rank == 4 && d[0] == 1) {
		d++;
		rank--;
	}
	if (rank == 2) {
		*f = (struct frame){.w = d[1], .h = d[0], .c = 1};
	} else if (rank != 3) {
		return no_frame(t, layout);
	} else if (layout == LAYOUT_NCHW || (layout == LAYOUT_BY_SHAPE && is_channels(d[0]))) {
		*f = (struct frame){.w = d[2], .h = d[1], .c = d[0]};
		layout = LAYOUT_NCHW;
	} else {
		*f = (struct frame){.w = d[1], .h = d[0], .c = d[2]};
		layout = LAYOUT_NHWC;
	}
	bool vector = rank == 2 && (f->w == 1 || f->h == 1);
	if (vector || !is_channels(f->c) || f->w < 1 || f->h < 1 || f->w > PICTURE_MOST_SIDE ||
	    f->h > PICTURE_MOST_SIDE)
		return no_frame(t, given);
	bool last = layout == LAYOUT_NHWC; /* with one channel both are the same */
	f->per_c = last ? 1 : f->w * f->h;
	f->per_x = last ? f->c : 1;
	f->per_y = f->w * f->per_x;
	return E_OK;
}

/* How the tensor's pixels are made. */
struct mapping {
	double mean[3], scale[3];
	int from[3]; /* channel of the tensor: channel of the picture */
	bool gray, whole;
};

static int make_mapping(const struct picture_opts *o, const struct frame *f, enum dtype type,
			struct mapping *m)
{
	*m = (struct mapping){.gray = f->c == 1,
			      .whole = type != DT_F32 && type != DT_F64 && type != DT_F16 && type != DT_BF16};
	if (o->channels != CHANNELS_BY_SHAPE && (o->channels == CHANNELS_GRAY) != m->gray)
		return fail(E_USAGE, "--channels does not fit an input of %lld channel%s", (long long)f->c,
			    m->gray ? "" : "s");
	if (m->gray && (o->nmean > 1 || o->nscale > 1))
		return fail(E_USAGE, "a gray input has one channel: give --mean and --scale one value");
	for (int c = 0; c < 3; c++) {
		m->from[c] = o->channels == CHANNELS_BGR ? 2 - c : c;
		m->mean[c] = o->nmean ? o->mean[o->nmean == 3 ? c : 0] : 0;
		m->scale[c] = o->nscale ? o->scale[o->nscale == 3 ? c : 0] : 1;
	}
	return E_OK;
}

/* Where a line of the tensor lies in the picture: between pixels low and high, `part` of the way. */
struct between {
	int low, high;
	double part;
};

/* The tensor's n columns (or rows) out of the middle of `to`, which are `from` in the picture. */
static struct between *make_between(struct arena *a, int from, int to, int n)
{
	struct between *b = ARENA_ARRAY(a, struct between, n);
	for (int i = 0; i < n; i++) {
		double at = ((to - n) / 2 + i + 0.5) * from / to - 0.5;
		at = fmin(fmax(at, 0), from - 1);
		b[i].low = (int)at;
		b[i].high = b[i].low + 1 < from ? b[i].low + 1 : b[i].low;
		b[i].part = at - b[i].low;
	}
	return b;
}

static void put_pixel(const struct picture *p, struct between x, struct between y, const struct frame *f,
		      const struct mapping *m, int64_t at, struct tensor *t)
{
	const uint8_t *top = p->rgb + (size_t)y.low * (size_t)p->w * 3,
		      *bottom = p->rgb + (size_t)y.high * (size_t)p->w * 3;
	double v[3];
	for (int c = 0; c < 3; c++) {
		double a = top[x.low * 3 + c] + x.part * (top[x.high * 3 + c] - top[x.low * 3 + c]);
		double b = bottom[x.low * 3 + c] + x.part * (bottom[x.high * 3 + c] - bottom[x.low * 3 + c]);
		v[c] = a + y.part * (b - a);
	}
	if (m->gray)
		v[0] = 0.299 * v[0] + 0.587 * v[1] + 0.114 * v[2];
	for (int64_t c = 0; c < f->c; c++) {
		int k = m->from[c];
		double value =
		    ((m->gray ? v[0] : v[k]) - m->mean[m->gray ? 0 : k]) * m->scale[m->gray ? 0 : k];
		tensor_set(t, at + c * f->per_c, m->whole ? rint(value) : value);
	}
}

static struct picture_fit fit(const struct picture *p, const struct picture_opts *o, const struct frame *f)
{
	struct picture_fit r = {.in_w = (int)f->w, .in_h = (int)f->h};
	r.w = o->w > 0 ? o->w : o->w < 0 ? p->w : r.in_w;
	r.h = o->h > 0 ? o->h : o->h < 0 ? p->h : r.in_h;
	return r;
}

int picture_fit(const struct picture *p, const struct picture_opts *o, const struct tensor *t,
		struct picture_fit *out)
{
	struct frame f = {0};
	int rc = find_frame(t, o->layout, &f);
	if (rc >= 0)
		*out = fit(p, o, &f);
	return rc;
}

int picture_put(const struct picture *p, const struct picture_opts *o, struct tensor *t)
{
	struct frame f = {0};
	struct mapping m;
	int rc = find_frame(t, o->layout, &f);
	if (rc >= 0)
		rc = make_mapping(o, &f, t->dtype, &m);
	if (rc < 0)
		return rc;
	const struct picture_fit to = fit(p, o, &f);
	const int w = to.w, h = to.h;
	if (w < f.w || h < f.h)
		return fail(E_USAGE,
			    "the input is %lldx%lld (width x height), more than the %dx%d of the picture%s",
			    (long long)f.w, (long long)f.h, w, h,
			    o->w > 0 ? " after --resize" : "; leave out --resize none");
	struct arena a = {0};
	struct between *x = make_between(&a, p->w, w, (int)f.w), *y = make_between(&a, p->h, h, (int)f.h);
	for (int64_t i = 0; i < f.h; i++)
		for (int64_t k = 0; k < f.w; k++)
			put_pixel(p, x[k], y[i], &f, &m, i * f.per_y + k * f.per_x, t);
	arena_free(&a);
	return E_OK;
}
