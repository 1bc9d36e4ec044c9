/* SPDX-License-Identifier: Apache-2.0 */
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
