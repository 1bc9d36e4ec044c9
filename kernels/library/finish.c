/* SPDX-License-Identifier: Apache-2.0 */
/* Adds bias and addend to the sums that a library has made, and limits them. Computes whole pieces in
 * portable code, too, where a library has failed. */
#include "kernels/library/library.h"

static int64_t channel_at(const struct hone_view *v, int64_t k)
{
	return k / v->block * v->stride[1] + k % v->block;
}

static float limit(const struct hone_piece *p, float v)
{
	v = v > p->least ? v : p->least;
	return v < p->greatest ? v : p->greatest;
}

/* n elements that lie `step` floats apart, and those of `add`, `add_step` apart. */
static void finish_row(const struct hone_piece *p, float *y, int64_t n, int64_t step, float bias,
		       const float *add, int64_t add_step)
{
	for (int64_t i = 0; i < n; i++)
		y[i * step] = limit(p, y[i * step] + bias + (add ? add[i * add_step] : 0));
}

static void finish_image(const struct hone_piece *p, const struct hone_buffers *b, bool bias, bool add)
{
	for (int64_t n = 0; n < p->batch; n++)
		for (int64_t k = 0; k < p->groups * p->out; k++)
			for (int64_t h = 0; h < p->out_h; h++) {
				int64_t y = n * p->y.stride[0] + channel_at(&p->y, k) + h * p->y.stride[2];
				const float *more = add ? b->add + n * p->add.stride[0] +
							      channel_at(&p->add, k) + h * p->add.stride[2]
							: NULL;
				finish_row(p, b->y + y, p->out_w, p->y.stride[3], bias ? b->bias[k] : 0, more,
					   p->add.stride[3]);
			}
}

void library_finish(const struct hone_piece *p, const struct hone_buffers *b, bool bias, bool add)
{
	bias = bias && p->has_bias;
	add = add && p->has_add;
	if (!bias && !add && p->least == -__builtin_inff() && p->greatest == __builtin_inff())
		return;
	if (p->kind == HONE_CONVOLUTION) {
		finish_image(p, b, bias, add);
		return;
	}
	for (int64_t i = 0; i < p->rows; i++) {
		float *y = b->y + i * p->y.stride[0];
		const float *more = add ? b->add + i * p->add.stride[0] : NULL;
		for (int64_t j = 0; j < p->columns; j++) {
			float v = y[j * p->y.stride[1]];
			v += !bias ? 0 : b->bias[p->has_bias == 1 ? j : i];
			v += more ? more[j * p->add.stride[1]] : 0;
			y[j * p->y.stride[1]] = limit(p, v);
		}
	}
}

/* Sums of neighbours are made side by side, so that a row of the weights is read once for all of them. */
enum { SIDE = 64 };

static int64_t most(int64_t left)
{
	return left < SIDE ? left : SIDE;
}

/* Adds products to the sums of columns ox to ox + n of row oy, of channel k. */
static void sum_image(const struct hone_piece *p, const struct hone_buffers *b, int64_t image, int64_t k,
		      int64_t oy, int64_t ox, int64_t n, double *sum)
{
	for (int64_t c = 0; c < p->in; c++)
		for (int64_t r = 0; r < p->kernel_h; r++) {
			int64_t y = oy * p->stride_h + r * p->dilation_h - p->pad_h;
			if (y < 0 || y >= p->in_h)
				continue;
			const float *x = b->x + image * p->x.stride[0] +
					 channel_at(&p->x, k / p->out * p->in + c) + y * p->x.stride[2];
			const float *w = b->w + ((k * p->in + c) * p->kernel_h + r) * p->kernel_w;
			for (int64_t s = 0; s < p->kernel_w; s++)
				for (int64_t i = 0; i < n; i++) {
					int64_t at = (ox + i) * p->stride_w + s * p->dilation_w - p->pad_w;
					if (at >= 0 && at < p->in_w)
						sum[i] += (double)w[s] * (double)x[at * p->x.stride[3]];
				}
		}
}

/* One row of a channel. */
static void compute_row(const struct hone_piece *p, const struct hone_buffers *b, int64_t image, int64_t k,
			int64_t oy)
{
	float *y = b->y + image * p->y.stride[0] + channel_at(&p->y, k) + oy * p->y.stride[2];
	const float *add =
	    p->has_add ? b->add + image * p->add.stride[0] + channel_at(&p->add, k) + oy * p->add.stride[2]
		       : NULL;
	for (int64_t ox = 0, n; ox < p->out_w; ox += n) {
		double sum[SIDE] = {0};
		n = most(p->out_w - ox);
		sum_image(p, b, image, k, oy, ox, n, sum);
		for (int64_t i = 0; i < n; i++) {
			sum[i] += p->has_bias ? (double)b->bias[k] : 0;
			sum[i] += add ? (double)add[(ox + i) * p->add.stride[3]] : 0;
			y[(ox + i) * p->y.stride[3]] = limit(p, (float)sum[i]);
		}
	}
}

/* Columns j to j + n of row i. */
static void compute_columns(const struct hone_piece *p, const struct hone_buffers *b, int64_t i, int64_t j,
			    int64_t n)
{
	double sum[SIDE] = {0};
	for (int64_t k = 0; k < p->depth; k++) {
		const double x = (double)b->x[i * p->x.stride[0] + k * p->x.stride[1]];
		const float *w = b->w + k * p->w.stride[0] + j * p->w.stride[1];
		for (int64_t e = 0; e < n; e++)
			sum[e] += x * (double)w[e * p->w.stride[1]];
	}
	for (int64_t e = 0; e < n; e++) {
		sum[e] += p->has_bias ? (double)b->bias[p->has_bias == 1 ? j + e : i] : 0;
		sum[e] += p->has_add ? (double)b->add[i * p->add.stride[0] + (j + e) * p->add.stride[1]] : 0;
		b->y[i * p->y.stride[0] + (j + e) * p->y.stride[1]] = limit(p, (float)sum[e]);
	}
}

void library_portable(const struct hone_piece *p, const struct hone_buffers *b)
{
	if (p->kind == HONE_CONVOLUTION) {
		for (int64_t n = 0; n < p->batch; n++)
			for (int64_t k = 0; k < p->groups * p->out; k++)
				for (int64_t oy = 0; oy < p->out_h; oy++)
					compute_row(p, b, n, k, oy);
		return;
	}
	for (int64_t i = 0; i < p->rows; i++)
		for (int64_t j = 0; j < p->columns; j += SIDE)
			compute_columns(p, b, i, j, most(p->columns - j));
}
