/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN: every layout is its own choice, and reordering is done ahead (of weights) or not at all (of
 * activations). */
#include "chain.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
	dnnl_primitive_t p;
	dnnl_exec_arg_t arg[4];
	int nargs;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void check(dnnl_status_t s, const char *what)
{
	if (s != dnnl_success)
		die(what, s);
}

const char *chain_version(void)
{
	static char text[32];
	const dnnl_version_t *v = dnnl_version();
	snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
	return text;
}

void chain_open(int threads)
{
	(void)threads; /* OMP_NUM_THREADS */
	check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
	check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream");
}

static dnnl_memory_desc_t any(int rank, const dnnl_dim_t *d)
{
	dnnl_memory_desc_t m;
	check(dnnl_memory_desc_init_by_tag(&m, rank, d, dnnl_f32, dnnl_format_tag_any), "descriptor");
	return m;
}

/* Memory of the layout that the primitive chose; data NULL: its own, random. */
static void bind(struct node *n, dnnl_primitive_desc_t pd, dnnl_query_t what, int at, int arg, float *data)
{
	const dnnl_memory_desc_t *m = dnnl_primitive_desc_query_md(pd, what, at);
	if (!data)
		data = random_floats((long)(dnnl_memory_desc_get_size(m) / sizeof *data));
	n->arg[n->nargs].arg = arg;
	check(dnnl_memory_create(&n->arg[n->nargs++].memory, m, engine, data), "memory");
}

static struct node *finish(const_dnnl_op_desc_t d, const struct buffers *b, bool bias)
{
	dnnl_primitive_desc_t pd;
	struct node *n = calloc(1, sizeof *n);
	if (!n || dnnl_primitive_desc_create(&pd, d, NULL, engine, NULL) != dnnl_success) {
		free(n);
		return NULL;
	}
	bind(n, pd, dnnl_query_src_md, 0, DNNL_ARG_SRC, b->in);
	bind(n, pd, dnnl_query_weights_md, 0, DNNL_ARG_WEIGHTS, NULL);
	if (bias)
		bind(n, pd, dnnl_query_weights_md, 1, DNNL_ARG_BIAS, NULL);
	bind(n, pd, dnnl_query_dst_md, 0, DNNL_ARG_DST, b->out);
	check(dnnl_primitive_create(&n->p, pd), "primitive");
	dnnl_primitive_desc_destroy(pd);
	return n;
}

static struct node *conv(const struct chain_layer *l, const struct buffers *b)
{
	int g = l->groups;
	dnnl_dim_t x[] = {l->n, l->c, l->h, l->w}, y[] = {l->n, l->k, l->oh, l->ow}, bias[] = {l->k};
	dnnl_dim_t w[] = {g, l->k / g, l->c / g, l->r, l->s};
	dnnl_dim_t stride[] = {l->stride_h, l->stride_w}, dil[] = {l->dil_h - 1, l->dil_w - 1};
	dnnl_dim_t low[] = {l->top, l->left}, high[] = {l->bottom, l->right};
	dnnl_memory_desc_t mx = any(4, x), my = any(4, y), mb = any(1, bias),
			   mw = g > 1 ? any(5, w) : any(4, w + 1);
	dnnl_convolution_desc_t d;
	check(dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference, dnnl_convolution_auto,
							 &mx, &mw, &mb, &my, stride, dil, low, high),
	      "convolution");
	return finish(&d, b, true);
}

static struct node *product(const struct chain_layer *l, const struct buffers *b)
{
	dnnl_dim_t x[] = {l->batch, l->mm, l->mk}, w[] = {l->batch, l->mk, l->mn},
		   y[] = {l->batch, l->mm, l->mn};
	int one = l->batch == 1, rank = one ? 2 : 3;
	dnnl_memory_desc_t mx = any(rank, x + one), mw = any(rank, w + one), my = any(rank, y + one);
	dnnl_matmul_desc_t d;
	check(dnnl_matmul_desc_init(&d, &mx, &mw, NULL, &my), "matmul");
	return finish(&d, b, false);
}

void *chain_make(const struct chain_layer *l, const struct buffers *b)
{
	return l->conv ? conv(l, b) : product(l, b);
}

void chain_run(void *layer)
{
	struct node *n = layer;
	check(dnnl_primitive_execute(n->p, stream, n->nargs, n->arg), "execute");
	check(dnnl_stream_wait(stream), "wait");
}
