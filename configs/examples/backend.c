/* SPDX-License-Identifier: Apache-2.0 */
/* A back end of your own: its kernels compete with hone's, layer by layer.
 *
 *     cc -O3 -march=native -shared -fPIC configs/examples/backend.c -o backend.so -lm
 *     hone tune model.onnx --library $PWD/backend.so
 *     hone explain model.onnx --placement
 *
 * This one multiplies matrices whose right side is constant and lies in rows. Where it is slower than hone's
 * own kernel, hone does not use it. */
#include <hone_backend.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct product {
	struct hone_piece p;
};

static int supports(const struct hone_piece *p)
{
	return p->kind == HONE_PRODUCT && p->constant && p->has_bias < 2 && p->x.stride[1] == 1 &&
	       p->w.stride[1] == 1 && p->y.stride[1] == 1 && (!p->has_add || p->add.stride[1] == 1);
}

static int make(const struct hone_piece *p, const struct hone_buffers *b, void **made)
{
	struct product *m = malloc(sizeof *m);
	(void)b; /* here weights could be packed: b->w stays where it is, too */
	if (!m)
		return 1;
	m->p = *p;
	*made = m;
	return 0;
}

static int run(void *made, const struct hone_buffers *b)
{
	const struct hone_piece *p = &((struct product *)made)->p;
	for (int64_t i = 0; i < p->rows; i++) {
		float *y = b->y + i * p->y.stride[0];
		const float *add = b->add ? b->add + i * p->add.stride[0] : NULL;
		for (int64_t j = 0; j < p->columns; j++)
			y[j] = (p->has_bias ? b->bias[j] : 0) + (add ? add[j] : 0);
		for (int64_t k = 0; k < p->depth; k++) {
			float x = b->x[i * p->x.stride[0] + k];
			const float *w = b->w + k * p->w.stride[0];
			for (int64_t j = 0; j < p->columns; j++)
				y[j] += x * w[j];
		}
		for (int64_t j = 0; j < p->columns; j++)
			y[j] = fminf(fmaxf(y[j], p->least), p->greatest);
	}
	return 0;
}

const struct hone_backend hone_backend = {
    HONE_BACKEND_ABI, sizeof(struct hone_backend), "example", "1.0", supports, make, run, free};
