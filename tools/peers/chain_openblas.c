/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS: matrix products, and convolutions without groups as the product over their unfolded input.
 * Unfolding is not timed, so a convolution costs at least this. */
#include "chain.h"

#include <cblas.h>
#include <stdlib.h>

struct node {
	struct chain_layer l;
	int m, n, k, times;
	float *w, *x, *y;
};

const char *chain_version(void)
{
	return openblas_get_config();
}

void chain_open(int threads)
{
	openblas_set_num_threads(threads);
}

void *chain_make(const struct chain_layer *l, const struct buffers *b)
{
	if (l->conv && l->groups > 1)
		return NULL;
	struct node *n = calloc(1, sizeof *n);
	if (!n)
		die("no memory for a layer", 0);
	*n = l->conv
		 ? (struct node){.m = l->k, .n = l->n * l->oh * l->ow, .k = l->c * l->r * l->s, .times = 1}
		 : (struct node){.m = l->mm, .n = l->mn, .k = l->mk, .times = l->batch};
	/* A convolution's weights are the left operand, a product's the right one. */
	n->w = random_floats(l->conv ? (long)n->m * n->k : (long)n->k * n->n);
	n->x = l->conv && l->r * l->s > 1 ? random_floats((long)n->k * n->n) : b->in;
	n->y = b->out;
	n->l = *l;
	return n;
}

void chain_run(void *layer)
{
	struct node *n = layer;
	const float *a = n->l.conv ? n->w : n->x, *b = n->l.conv ? n->x : n->w;
	for (int i = 0; i < n->times; i++)
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n->m, n->n, n->k, 1, a, n->k, b, n->n,
			    0, n->y, n->n);
}
