/* SPDX-License-Identifier: Apache-2.0 */
/* A channel is copied into a padded plane whose lines l, l + s and so on lie behind one another, for a stride
 * s along the plane's columns. So the taps of output q of a plane, with the few outputs behind each line that
 * do not count, are read at q times the stride along the lines. */
#include "kernels/graph/depthwise8.h"
#include "kernels/graph/shapes.h"

#include <string.h>

struct plane {
	const struct depthwise8 *d;
	int64_t pitch, lines; /* bytes of a line; lines of each of the stride's phases */
	int64_t row, n;       /* outputs from a line to the next, and of the whole plane */
	int64_t *line;        /* [padded height] where a line begins */
	uint8_t *in, *out;
	struct dense8_taps taps;
	int32_t *four;
	int64_t *at;
};

bool depthwise8_fits(const struct filter_window *w)
{
	bool flat = w->in[0] == 1 && w->kernel[0] == 1 && w->out[0] == 1 && !w->begin[0] && !w->end[0];
	bool lines = w->stride[2] <= 2 && (w->dilation[2] == 1 || w->kernel[2] == 1);
	return flat && lines && w->out[1] > 0 && w->out[2] > 0;
}

static int64_t line_at(const struct plane *p, int64_t line)
{
	int64_t stride = p->d->w.stride[1];
	return (line % stride * p->lines + line / stride) * p->pitch;
}

/* Sets the addresses of lines and taps, which all filters share. */
static void place_taps(struct plane *p, int64_t height)
{
	for (int64_t i = 0; i < height; i++)
		p->line[i] = line_at(p, i);
	const struct filter_window *w = &p->d->w;
	for (int64_t h = 0; h < w->kernel[1]; h++)
		for (int64_t x = 0; x < w->kernel[2]; x += 4)
			p->at[p->taps.n++] = line_at(p, h * w->dilation[1]) + x;
}

static int plane_open(struct plane *p, const struct depthwise8 *d, struct arena *a)
{
	const struct filter_window *w = &d->w;
	int64_t width = w->in[2] + w->begin[2] + w->end[2], height = w->in[1] + w->begin[1] + w->end[1];
	int64_t fours = w->kernel[1] * ((w->kernel[2] + 3) / 4), step = w->stride[2];
	*p = (struct plane){.d = d, .pitch = (width + step - 1) / step * step};
	p->lines = (height + w->stride[1] - 1) / w->stride[1];
	p->row = p->pitch / step;
	p->n = (w->out[1] - 1) * p->row + w->out[2];
	struct shape s = {.rank = 2, .d = {p->lines * w->stride[1], p->pitch}};
	int rc = shape_check(&s, MAX_ELEMS);
	if (rc < 0)
		return fail_in(rc, "padded input");
	int64_t bytes = shape_count(&s) + DENSE8_PAST + 2 * DENSE8_WIDTH;
	p->in = arena_try(a, (size_t)bytes, 1);
	p->out = arena_try(a, (size_t)p->n + DENSE8_WIDTH, 1);
	p->four = arena_try(a, (size_t)fours, sizeof *p->four);
	p->at = arena_try(a, (size_t)fours, sizeof *p->at);
	p->line = arena_try(a, (size_t)height, sizeof *p->line);
	if (!p->line || !p->in || !p->out || !p->four || !p->at)
		return E_NOMEM;
	memset(p->in, d->zero, (size_t)bytes); /* what a channel does not overwrite is padding */
	p->taps = (struct dense8_taps){0, (int)step, d->flip, p->four, p->at};
	place_taps(p, height);
	return E_OK;
}

static void load_channel(struct plane *p, const uint8_t *x)
{
	const struct filter_window *w = &p->d->w;
	for (int64_t h = 0; h < w->in[1]; h++, x += w->in[2])
		dense8_copy(p->in + p->line[h + w->begin[1]] + w->begin[2], x, w->in[2]);
}

static void load_filter(struct plane *p, const int8_t *weights)
{
	const struct filter_window *w = &p->d->w;
	int32_t *four = p->four;
	for (int64_t h = 0; h < w->kernel[1]; h++)
		for (int64_t x = 0; x < w->kernel[2]; x += 4) {
			uint32_t all = 0;
			for (int64_t j = 0; j < 4 && x + j < w->kernel[2]; j++)
				all |= (uint32_t)(uint8_t)weights[h * w->kernel[2] + x + j] << 8 * j;
			*four++ = (int32_t)all;
		}
}

static void store_plane(const struct plane *p, uint8_t *y)
{
	const struct filter_window *w = &p->d->w;
	for (int64_t h = 0; h < w->out[1]; h++)
		dense8_copy(y + h * w->out[2], p->out + h * p->row, w->out[2]);
}

static void run_filter(struct plane *p, int64_t filter, uint8_t *y)
{
	const struct depthwise8 *d = p->d;
	const struct dense8_ends e = {d->bytes, d->add + filter, d->factor + filter, p->out, 0, DENSE8_WIDTH};
	load_filter(p, d->weights + filter * d->w.kernel[1] * d->w.kernel[2]);
	dense8_depthwise(dense8_isa(), &p->taps, p->in, &e, p->n);
	store_plane(p, y);
}

int depthwise8(const struct depthwise8 *d, struct arena *a)
{
	struct plane p;
	int64_t in = d->w.in[1] * d->w.in[2], out = d->w.out[1] * d->w.out[2];
	int rc = plane_open(&p, d, a);
	for (int64_t i = 0; rc >= 0 && i < d->images * d->channels; i++) {
		load_channel(&p, d->x + i * in);
		for (int64_t f = 0; f < d->each; f++)
			run_filter(&p, i % d->channels * d->each + f, d->y + (i * d->each + f) * out);
	}
	return rc;
}
