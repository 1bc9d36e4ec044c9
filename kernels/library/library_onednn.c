/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN, version 2: convolutions of plain and of blocked images, and products. It compiles its kernels when
 * a piece is made. Its header is not needed to build hone: what is used of it is declared here. */
#include "kernels/library/library.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of dnnl_types.h, version 2. Descriptors are filled in by the library; the room for them is generous. */
enum {
	CPU = 1,
	F32 = 3,
	INFERENCE = 96,
	DIRECT = 1, /* Winograd is hone's to choose, by level */
	TAG_ANY = 1,
	TAG_4C = 75,
	TAG_8C = 93,
	TAG_16C = 69,
	TAG_NCHW = 5,
	TAG_NHWC = 20,
	IN_ORDER = 1,
	CLIP = 0xff,
	RELU = 0x1f,
	ADD = 0x1fff0,
	QUERY_WEIGHTS = 131,
	QUERY_IMPLEMENTATION = 8,
	ARG_FROM = 1,
	ARG_SRC = 1,
	ARG_TO = 17,
	ARG_DST = 17,
	ARG_WEIGHTS = 33,
	ARG_BIAS = 41,
	ARG_POST_OP = 16384,
	ARG_SRC_1 = 2,
	MOST_DIMS = 12,
};

typedef int64_t dims_t[MOST_DIMS];

struct md {
	_Alignas(16) char bytes[2048];
};

struct op_desc {
	_Alignas(16) char bytes[16384];
};

struct arg {
	int arg;
	void *memory;
};

static struct {
	const struct {
		int major, minor, patch;
	} * (*version)(void);
	int (*engine_create)(void **e, int kind, size_t index);
	int (*stream_create)(void **s, void *e, unsigned flags);
	int (*stream_wait)(void *s);
	int (*stream_destroy)(void *s);
	int (*md_strides)(struct md *m, int n, const dims_t d, int type, const dims_t strides);
	int (*md_tag)(struct md *m, int n, const dims_t d, int type, int tag);
	size_t (*md_bytes)(const struct md *m);
	int (*conv)(struct op_desc *o, int prop, int alg, const struct md *src, const struct md *w,
		    const struct md *bias, const struct md *dst, const dims_t strides, const dims_t dilates,
		    const dims_t before, const dims_t behind);
	int (*matmul)(struct op_desc *o, const struct md *src, const struct md *w, const struct md *bias,
		      const struct md *dst);
	int (*attr_create)(void **a);
	int (*attr_post_ops)(void *a, void *ops);
	int (*attr_destroy)(void *a);
	int (*ops_create)(void **o);
	int (*ops_eltwise)(void *o, float scale, int alg, float alpha, float beta);
	int (*ops_binary)(void *o, int alg, const struct md *src);
	int (*ops_destroy)(void *o);
	int (*pd_create)(void **pd, const struct op_desc *o, void *attr, void *engine, void *hint);
	const struct md *(*pd_md)(void *pd, int what, int index);
	int (*pd_query)(void *pd, int what, int index, void *out);
	int (*pd_destroy)(void *pd);
	int (*reorder)(void **pd, const struct md *from, void *e, const struct md *to, void *e2, void *attr);
	int (*create)(void **p, void *pd);
	int (*execute)(void *p, void *stream, int n, const struct arg *a);
	int (*destroy)(void *p);
	int (*memory_create)(void **m, const struct md *d, void *engine, void *at);
	int (*memory_at)(void *m, void *at);
	int (*memory_destroy)(void *m);
	void (*omp_threads)(int n);
	int (*omp_threads_now)(void);
} f;

static void *engine;

/* What the library is told of a piece. */
struct shape_of {
	int ndims;
	struct md src, dst, bias, add, weights; /* weights: as hone has them */
	struct md any;                          /* as the library wants them */
	dims_t stride, dilation, before, behind;
	int64_t x_back; /* x begins so many floats before the piece's: with its halo */
	int64_t floats; /* of a y without gaps, from which it is copied; 0: it has none */
};

struct made {
	struct hone_piece p;
	void *stream, *primitive;
	void *src, *dst, *w, *bias, *add; /* memories */
	float *packed;                    /* weights in the library's layout */
	float *dense;                     /* y without gaps; NULL: y has none */
	int64_t x_back;
};

/* A stride that a dim of one element may have. */
static void set_strides(dims_t to, const int64_t *from, const dims_t d, int n)
{
	int64_t least = 1;
	for (int i = n - 1; i >= 0; i--) {
		to[i] = d[i] > 1 ? from[i] : least;
		least = d[i] > 1 && from[i] * d[i] > least ? from[i] * d[i] : least;
	}
}

/* An image that lies without gaps in one of the layouts that oneDNN has kernels for: in others it computes by
 * slow loops. */
static bool view_image(const struct hone_view *v, int64_t n, int64_t c, int64_t h, int64_t w, struct md *out)
{
	const dims_t d = {n, c, h, w};
	const bool plain = v->block == 1, last = v->block == c && c != 8 && c != 16 && c != 4;
	const int tag = plain            ? TAG_NCHW
			: last           ? TAG_NHWC
			: v->block == 4  ? TAG_4C
			: v->block == 8  ? TAG_8C
			: v->block == 16 ? TAG_16C
					 : 0;
	const int64_t pixel = plain ? 1 : v->block, image = h * w * pixel,
		      blocks = (c + v->block - 1) / v->block;
	bool dense = (w < 2 || v->stride[3] == pixel) && (h < 2 || v->stride[2] == w * pixel) &&
		     (blocks < 2 || v->stride[1] == image) && (n < 2 || v->stride[0] == blocks * image);
	return tag && dense && c % v->block == 0 && f.md_tag(out, 4, d, F32, tag) == 0;
}

/* The same image without gaps. */
static struct hone_view dense_view(const struct hone_view *v, int64_t c, int64_t h, int64_t w)
{
	const int64_t image = h * w * v->block, blocks = (c + v->block - 1) / v->block;
	return (struct hone_view){{blocks * image, image, w * v->block, v->block}, v->block};
}

/* oneDNN 2.6 computes wrong sums where an addend has another layout than y: then it is added afterwards, as
 * to a y with gaps. */
static bool adds_itself(const struct hone_piece *p)
{
	struct md none;
	return p->has_add && !memcmp(&p->add, &p->y, sizeof p->y) &&
	       (p->kind == HONE_PRODUCT ||
		view_image(&p->y, p->batch, p->groups * p->out, p->out_h, p->out_w, &none));
}

static bool describe_conv(const struct hone_piece *p, struct shape_of *s)
{
	const int64_t channels = p->groups * p->out;
	const dims_t grouped = {p->groups, p->out, p->in, p->kernel_h, p->kernel_w},
		     single = {p->out, p->in, p->kernel_h, p->kernel_w}, bias = {channels};
	const int64_t *w = p->groups > 1 ? grouped : single;
	const int n = p->groups > 1 ? 5 : 4;
	dims_t packed;
	packed[n - 1] = 1;
	for (int i = n - 2; i >= 0; i--)
		packed[i] = packed[i + 1] * w[i + 1];
	const int64_t stride[2] = {p->stride_h, p->stride_w}, dilation[2] = {p->dilation_h, p->dilation_w},
		      pad[2] = {p->pad_h, p->pad_w}, in[2] = {p->in_h, p->in_w},
		      out[2] = {p->out_h, p->out_w}, kernel[2] = {p->kernel_h, p->kernel_w};
	for (int i = 0; i < 2; i++) {
		s->stride[i] = stride[i];
		s->dilation[i] = dilation[i] - 1;
		s->before[i] = pad[i];
		s->behind[i] = (out[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 - in[i] - pad[i];
	}
	static const int64_t one[1] = {1};
	int64_t in_h = p->in_h, in_w = p->in_w;
	if (!view_image(&p->x, p->batch, p->groups * p->in, in_h, in_w, &s->src)) {
		in_h += p->halo_top + p->halo_bottom;
		in_w += p->halo_left + p->halo_right;
		s->before[0] -= p->halo_top;
		s->before[1] -= p->halo_left;
		s->behind[0] -= p->halo_bottom;
		s->behind[1] -= p->halo_right;
		s->x_back = p->halo_top * p->x.stride[2] + p->halo_left * p->x.stride[3];
	}
	const struct hone_view tight = dense_view(&p->y, channels, p->out_h, p->out_w);
	const bool gaps = !view_image(&p->y, p->batch, channels, p->out_h, p->out_w, &s->dst);
	if (gaps)
		s->floats = tight.stride[0] * p->batch;
	/* a halo in memory that is larger than the padding would be read as a part of the image */
	return s->before[0] >= 0 && s->before[1] >= 0 &&
	       view_image(&p->x, p->batch, p->groups * p->in, in_h, in_w, &s->src) &&
	       (!gaps || view_image(&tight, p->batch, channels, p->out_h, p->out_w, &s->dst)) &&
	       (!adds_itself(p) || view_image(&p->add, p->batch, channels, p->out_h, p->out_w, &s->add)) &&
	       f.md_strides(&s->weights, n, w, F32, packed) == 0 &&
	       f.md_tag(&s->any, n, w, F32, TAG_ANY) == 0 && f.md_strides(&s->bias, 1, bias, F32, one) == 0;
}

static bool view_matrix(const struct hone_view *v, int64_t rows, int64_t columns, struct md *out)
{
	const dims_t d = {rows, columns};
	dims_t strides;
	set_strides(strides, v->stride, d, 2);
	return f.md_strides(out, 2, d, F32, strides) == 0;
}

static bool describe_product(const struct hone_piece *p, struct shape_of *s)
{
	const dims_t w = {p->depth, p->columns}, bias = {1, p->columns}, step = {p->columns, 1};
	return p->has_bias < 2 && view_matrix(&p->x, p->rows, p->depth, &s->src) &&
	       view_matrix(&p->y, p->rows, p->columns, &s->dst) &&
	       view_matrix(&p->w, p->depth, p->columns, &s->weights) &&
	       (!p->has_add || view_matrix(&p->add, p->rows, p->columns, &s->add)) &&
	       f.md_tag(&s->any, 2, w, F32, TAG_ANY) == 0 && f.md_strides(&s->bias, 2, bias, F32, step) == 0;
}

static bool add_post_ops(const struct hone_piece *p, const struct shape_of *s, void *attr)
{
	void *ops;
	if (p->has_add && !adds_itself(p))
		return true;
	if (f.ops_create(&ops) != 0)
		return false;
	bool good = !p->has_add || f.ops_binary(ops, ADD, &s->add) == 0;
	if (good && p->least == 0 && isinf(p->greatest))
		good = f.ops_eltwise(ops, 1, RELU, 0, 0) == 0;
	else if (good && (!isinf(p->least) || !isinf(p->greatest)))
		good =
		    f.ops_eltwise(ops, 1, CLIP, fmaxf(p->least, -FLT_MAX), fminf(p->greatest, FLT_MAX)) == 0;
	good = good && f.attr_post_ops(attr, ops) == 0;
	f.ops_destroy(ops);
	return good;
}

static void *plan_of(const struct hone_piece *p, struct shape_of *s)
{
	struct op_desc op;
	void *attr = NULL, *pd = NULL;
	const struct md *w = p->constant ? &s->any : &s->weights, *bias = p->has_bias ? &s->bias : NULL;
	if (f.attr_create(&attr) != 0)
		return NULL;
	bool good = add_post_ops(p, s, attr) &&
		    (p->kind == HONE_CONVOLUTION ? f.conv(&op, INFERENCE, DIRECT, &s->src, w, bias, &s->dst,
							  s->stride, s->dilation, s->before, s->behind)
						 : f.matmul(&op, &s->src, w, bias, &s->dst)) == 0;
	const char *how = NULL;
	if (good && f.pd_create(&pd, &op, attr, engine, NULL) != 0)
		pd = NULL;
	/* loops for any layout, a thousand times slower than kernels */
	if (pd && (f.pd_query(pd, QUERY_IMPLEMENTATION, 0, &how) != 0 || !how || strstr(how, "ref"))) {
		f.pd_destroy(pd);
		pd = NULL;
	}
	f.attr_destroy(attr);
	return pd;
}

static void *describe(const struct hone_piece *p, struct shape_of *s)
{
	memset(s, 0, sizeof *s);
	bool good = p->kind == HONE_CONVOLUTION ? describe_conv(p, s) : describe_product(p, s);
	return good ? plan_of(p, s) : NULL;
}

static int supports(const struct hone_piece *p)
{
	struct shape_of *s = malloc(sizeof *s);
	void *pd = s ? describe(p, s) : NULL;
	if (pd)
		f.pd_destroy(pd);
	free(s);
	return pd != NULL;
}

static void free_piece(void *made)
{
	struct made *m = made;
	void *const memory[] = {m->src, m->dst, m->w, m->bias, m->add};
	for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
		if (memory[i])
			f.memory_destroy(memory[i]);
	if (m->primitive)
		f.destroy(m->primitive);
	if (m->stream)
		f.stream_destroy(m->stream);
	free(m->packed);
	free(m->dense);
	free(m);
}

/* The thread's number of OpenMP threads, which another part of the process may have set. */
static int one_thread(void)
{
	int before = f.omp_threads ? f.omp_threads_now() : 1;
	if (before != 1)
		f.omp_threads(1);
	return before;
}

static void threads_again(int before)
{
	if (before != 1)
		f.omp_threads(before);
}

static bool pack(struct made *m, const struct shape_of *s, const struct md *to, const float *w)
{
	void *pd = NULL, *reorder = NULL, *from = NULL;
	size_t bytes = f.md_bytes(to);
	m->packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
	bool good = m->packed && f.memory_create(&m->w, to, engine, m->packed) == 0 &&
		    f.memory_create(&from, &s->weights, engine, (void *)(uintptr_t)w) == 0 &&
		    f.reorder(&pd, &s->weights, engine, to, engine, NULL) == 0 && f.create(&reorder, pd) == 0;
	const struct arg args[] = {{ARG_FROM, from}, {ARG_TO, m->w}};
	good = good && f.execute(reorder, m->stream, 2, args) == 0 && f.stream_wait(m->stream) == 0;
	if (reorder)
		f.destroy(reorder);
	if (pd)
		f.pd_destroy(pd);
	if (from)
		f.memory_destroy(from);
	return good;
}

static bool make_memories(struct made *m, const struct shape_of *s, void *pd, const struct hone_buffers *b)
{
	const struct hone_piece *p = &m->p;
	bool good = f.memory_create(&m->src, &s->src, engine, NULL) == 0 &&
		    f.memory_create(&m->dst, &s->dst, engine, NULL) == 0 &&
		    (!p->has_bias || f.memory_create(&m->bias, &s->bias, engine, NULL) == 0) &&
		    (!adds_itself(p) || f.memory_create(&m->add, &s->add, engine, NULL) == 0);
	if (good && p->constant)
		return pack(m, s, f.pd_md(pd, QUERY_WEIGHTS, 0), b->w);
	return good && f.memory_create(&m->w, &s->weights, engine, NULL) == 0;
}

static int make(const struct hone_piece *p, const struct hone_buffers *b, void **made)
{
	struct shape_of *s = malloc(sizeof *s);
	struct made *m = calloc(1, sizeof *m);
	int before = one_thread();
	void *pd = s && m ? describe(p, s) : NULL;
	bool good = pd != NULL;
	if (good) {
		m->p = *p;
		m->x_back = s->x_back;
		m->dense = s->floats ? aligned_alloc(64, ((size_t)s->floats * 4 + 63) / 64 * 64) : NULL;
		good = (m->dense || !s->floats) && f.stream_create(&m->stream, engine, IN_ORDER) == 0 &&
		       f.create(&m->primitive, pd) == 0 && make_memories(m, s, pd, b);
		f.pd_destroy(pd);
	}
	threads_again(before);
	if (!good && m)
		free_piece(m);
	free(s);
	*made = good ? m : NULL;
	return good ? 0 : 1;
}

static bool place(void *memory, const void *at)
{
	return !memory || f.memory_at(memory, (void *)(uintptr_t)at) == 0;
}

/* Copies the rows of a y without gaps to where they belong. */
static void spread(const struct made *m, const struct hone_buffers *b)
{
	const struct hone_piece *p = &m->p;
	const struct hone_view from = dense_view(&p->y, p->groups * p->out, p->out_h, p->out_w);
	const int64_t blocks = from.stride[0] / from.stride[1];
	for (int64_t n = 0; n < p->batch; n++)
		for (int64_t k = 0; k < blocks; k++)
			for (int64_t h = 0; h < p->out_h; h++)
				memcpy(b->y + n * p->y.stride[0] + k * p->y.stride[1] + h * p->y.stride[2],
				       m->dense + n * from.stride[0] + k * from.stride[1] +
					   h * from.stride[2],
				       (size_t)from.stride[2] * sizeof(float));
}

static int run(void *made, const struct hone_buffers *b)
{
	struct made *m = made;
	int before = one_thread(), n = 0;
	struct arg args[5] = {{ARG_SRC, m->src}, {ARG_DST, m->dst}, {ARG_WEIGHTS, m->w}};
	n = 3;
	if (m->bias)
		args[n++] = (struct arg){ARG_BIAS, m->bias};
	if (m->add)
		args[n++] = (struct arg){ARG_POST_OP | ARG_SRC_1, m->add};
	bool good = place(m->src, b->x - m->x_back) && place(m->dst, m->dense ? m->dense : b->y) &&
		    place(m->bias, b->bias) && place(m->add, b->add) && (m->packed || place(m->w, b->w)) &&
		    f.execute(m->primitive, m->stream, n, args) == 0 && f.stream_wait(m->stream) == 0;
	threads_again(before);
	if (good && m->dense)
		spread(m, b);
	if (good && m->p.has_add && !m->add)
		library_finish(&m->p, b, false, true);
	return good ? 0 : 1;
}

struct symbol {
	void *at; /* of a pointer to a function */
	const char *name;
	bool optional;
};

static int open_dnnl(void *handle, struct hone_backend *out)
{
	static char text[24];
	const struct symbol symbols[] = {
	    {&f.version, "dnnl_version"},
	    {&f.engine_create, "dnnl_engine_create"},
	    {&f.stream_create, "dnnl_stream_create"},
	    {&f.stream_wait, "dnnl_stream_wait"},
	    {&f.stream_destroy, "dnnl_stream_destroy"},
	    {&f.md_strides, "dnnl_memory_desc_init_by_strides"},
	    {&f.md_tag, "dnnl_memory_desc_init_by_tag"},
	    {&f.md_bytes, "dnnl_memory_desc_get_size"},
	    {&f.conv, "dnnl_dilated_convolution_forward_desc_init"},
	    {&f.matmul, "dnnl_matmul_desc_init"},
	    {&f.attr_create, "dnnl_primitive_attr_create"},
	    {&f.attr_post_ops, "dnnl_primitive_attr_set_post_ops"},
	    {&f.attr_destroy, "dnnl_primitive_attr_destroy"},
	    {&f.ops_create, "dnnl_post_ops_create"},
	    {&f.ops_eltwise, "dnnl_post_ops_append_eltwise"},
	    {&f.ops_binary, "dnnl_post_ops_append_binary"},
	    {&f.ops_destroy, "dnnl_post_ops_destroy"},
	    {&f.pd_create, "dnnl_primitive_desc_create"},
	    {&f.pd_md, "dnnl_primitive_desc_query_md"},
	    {&f.pd_query, "dnnl_primitive_desc_query"},
	    {&f.pd_destroy, "dnnl_primitive_desc_destroy"},
	    {&f.reorder, "dnnl_reorder_primitive_desc_create"},
	    {&f.create, "dnnl_primitive_create"},
	    {&f.execute, "dnnl_primitive_execute"},
	    {&f.destroy, "dnnl_primitive_destroy"},
	    {&f.memory_create, "dnnl_memory_create"},
	    {&f.memory_at, "dnnl_memory_set_data_handle"},
	    {&f.memory_destroy, "dnnl_memory_destroy"},
	    {&f.omp_threads, "omp_set_num_threads", true},
	    {&f.omp_threads_now, "omp_get_max_threads", true},
	};
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *at = dlsym(handle, symbols[i].name);
		if (!at && !symbols[i].optional)
			return fail(E_UNSUPPORTED, "it has no %s: hone knows version 2 of oneDNN",
				    symbols[i].name);
		memcpy(symbols[i].at, &at, sizeof at);
	}
	if (f.version()->major != 2)
		return fail(E_UNSUPPORTED, "it is version %d of oneDNN; hone knows version 2",
			    f.version()->major);
	if (!engine && f.engine_create(&engine, CPU, 0) != 0)
		return fail(E_UNSUPPORTED, "oneDNN makes no engine for the processor");
	if (!f.omp_threads_now)
		f.omp_threads = NULL;
	snprintf(text, sizeof text, "%d.%d.%d", f.version()->major, f.version()->minor, f.version()->patch);
	*out = (struct hone_backend){HONE_BACKEND_ABI, sizeof *out, "onednn", text,
				     supports,         make,        run,      free_piece};
	return E_OK;
}

static const char *const files[] = {"libdnnl.so.2", NULL};

const struct library library_onednn = {"onednn", files, open_dnnl};
