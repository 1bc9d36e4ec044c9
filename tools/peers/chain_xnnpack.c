/* SPDX-License-Identifier: Apache-2.0 */
/* XNNPACK: NHWC operators, weights packed when they are made. Products with a batch run one after another. */
#include "chain.h"

#include <math.h>
#include <pthreadpool.h>
#include <stdlib.h>
#include <xnnpack.h>

static pthreadpool_t pool;

const char *chain_version(void)
{
	return "Debian";
}

void chain_open(int threads)
{
	if (xnn_initialize(NULL) != xnn_status_success)
		die("xnn_initialize", 0);
	if (threads > 1)
		pool = pthreadpool_create((size_t)threads);
}

struct node {
	xnn_operator_t op;
	int times;
};

static bool conv(const struct chain_layer *l, const struct buffers *b, struct node *n)
{
	size_t g = (size_t)l->groups, c = (size_t)l->c, k = (size_t)l->k;
	float *w = random_floats((long)k * l->r * l->s * (l->c / l->groups)), *bias = random_floats(l->k);
	return xnn_create_convolution2d_nhwc_f32(
		   (uint32_t)l->top, (uint32_t)l->right, (uint32_t)l->bottom, (uint32_t)l->left,
		   (uint32_t)l->r, (uint32_t)l->s, (uint32_t)l->stride_h, (uint32_t)l->stride_w,
		   (uint32_t)l->dil_h, (uint32_t)l->dil_w, (uint32_t)g, c / g, k / g, c, k, w, bias,
		   -INFINITY, INFINITY, 0, &n->op) == xnn_status_success &&
	       xnn_setup_convolution2d_nhwc_f32(n->op, (size_t)l->n, (size_t)l->h, (size_t)l->w, b->in,
						b->out, pool) == xnn_status_success;
}

static bool product(const struct chain_layer *l, const struct buffers *b, struct node *n)
{
	size_t k = (size_t)l->mk, out = (size_t)l->mn;
	float *w = random_floats((long)l->mk * l->mn);
	n->times = l->batch;
	return xnn_create_fully_connected_nc_f32(k, out, k, out, w, NULL, -INFINITY, INFINITY, 0, &n->op) ==
		   xnn_status_success &&
	       xnn_setup_fully_connected_nc_f32(n->op, (size_t)l->mm, b->in, b->out, pool) ==
		   xnn_status_success;
}

void *chain_make(const struct chain_layer *l, const struct buffers *b)
{
	struct node *n = calloc(1, sizeof *n);
	if (!n)
		die("no memory for a layer", 0);
	n->times = 1;
	return (l->conv ? conv : product)(l, b, n) ? n : NULL;
}

void chain_run(void *layer)
{
	struct node *n = layer;
	for (int i = 0; i < n->times; i++)
		if (xnn_run_operator(n->op, pool) != xnn_status_success)
			die("xnn_run_operator", i);
}
