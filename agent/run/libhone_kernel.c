/* SPDX-License-Identifier: Apache-2.0 */
/* One kernel as a network of one node and its activation. */
#include "agent/run/libhone.h"
#include "kernels/graph/eval.h"

#include <stdlib.h>
#include <string.h>

enum { OPSET = 17 };

static const int64_t most = INT64_C(1) << 24;          /* of one dimension */
static const int64_t most_elements = INT64_C(1) << 31; /* of a tensor: what import takes */

struct bounded {
	const char *name;
	int64_t least, v;
};

static int check_all(const struct bounded *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (b[i].v < b[i].least || b[i].v > most)
			return fail(E_USAGE, "hone_kernel_want: %s is %lld; it must be %lld to %lld",
				    b[i].name, (long long)b[i].v, (long long)b[i].least, (long long)most);
	return E_OK;
}

#define N_OF(x) (sizeof(x) / sizeof *(x))

static int check_tensor(const char *name, int rank, const int64_t *d)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		if ((n *= d[i]) > most_elements)
			return fail(E_USAGE, "hone_kernel_want: %s has more than %lld elements", name,
				    (long long)most_elements);
	return E_OK;
}

static int check_gemm(const struct hone_kernel_want *w)
{
	const struct bounded b[] = {{"m", 1, w->m}, {"n", 1, w->n}, {"k", 1, w->k}};
	int rc = check_all(b, N_OF(b));
	if (rc >= 0)
		rc = check_tensor("a", 2, (const int64_t[]){w->m, w->k});
	if (rc >= 0)
		rc = check_tensor("b", 2, (const int64_t[]){w->k, w->n});
	return rc < 0 ? rc : check_tensor("c", 2, (const int64_t[]){w->m, w->n});
}

static int64_t or_one(int64_t v)
{
	return v ? v : 1;
}

/* < 1: the kernel does not fit. */
static int64_t outputs_along(int64_t size, int64_t pads, int64_t kernel, int64_t dilation, int64_t stride)
{
	int64_t rest = size + pads - (kernel - 1) * or_one(dilation) - 1;
	return rest < 0 ? 0 : rest / or_one(stride) + 1;
}

static int check_conv_sizes(const struct hone_kernel_want *w)
{
	int64_t p = outputs_along(w->height, w->pad_top + w->pad_bottom, w->kernel_h, w->dilation_h,
				  w->stride_h),
		q = outputs_along(w->width, w->pad_left + w->pad_right, w->kernel_w, w->dilation_w,
				  w->stride_w);
	if (!p || !q)
		return fail(E_USAGE,
			    "hone_kernel_want: the kernel, dilated, is %s than the input with its pads",
			    p ? "wider" : "higher");
	int rc = check_tensor("x", 4, (const int64_t[]){w->batch, w->channels, w->height, w->width});
	if (rc >= 0)
		rc = check_tensor(
		    "w", 4,
		    (const int64_t[]){w->filters, w->channels / or_one(w->groups), w->kernel_h, w->kernel_w});
	return rc < 0 ? rc : check_tensor("y", 4, (const int64_t[]){w->batch, w->filters, p, q});
}

static int check_conv(const struct hone_kernel_want *w)
{
	const struct bounded b[] = {{"batch", 1, w->batch},           {"channels", 1, w->channels},
				    {"height", 1, w->height},         {"width", 1, w->width},
				    {"filters", 1, w->filters},       {"kernel_h", 1, w->kernel_h},
				    {"kernel_w", 1, w->kernel_w},     {"stride_h", 0, w->stride_h},
				    {"stride_w", 0, w->stride_w},     {"dilation_h", 0, w->dilation_h},
				    {"dilation_w", 0, w->dilation_w}, {"groups", 0, w->groups},
				    {"pad_top", 0, w->pad_top},       {"pad_left", 0, w->pad_left},
				    {"pad_bottom", 0, w->pad_bottom}, {"pad_right", 0, w->pad_right}};
	int rc = check_all(b, N_OF(b));
	int64_t groups = or_one(w->groups);
	if (rc >= 0 && (w->channels % groups || w->filters % groups))
		return fail(E_USAGE,
			    "hone_kernel_want: %lld groups do not divide the channels and the filters",
			    (long long)groups);
	return rc < 0 ? rc : check_conv_sizes(w);
}

int want_check(const struct hone_kernel_want *w)
{
	if (w->activation < HONE_NONE || w->activation > HONE_RELU6)
		return fail(E_USAGE, "hone_kernel_want: unknown activation %d", w->activation);
	if (w->op == HONE_GEMM)
		return check_gemm(w);
	if (w->op == HONE_CONV2D)
		return check_conv(w);
	return fail(E_USAGE, "hone_kernel_want: unknown op %d; use HONE_GEMM or HONE_CONV2D", w->op);
}

static struct shape weight_shape(const struct hone_kernel_want *w)
{
	if (w->op == HONE_GEMM)
		return (struct shape){2, {w->k, w->n}};
	return (struct shape){4, {w->filters, w->channels / or_one(w->groups), w->kernel_h, w->kernel_w}};
}

static int64_t outputs_of(const struct hone_kernel_want *w)
{
	return w->op == HONE_GEMM ? w->n : w->filters;
}

static const float *copy_floats(const float *from, int64_t n, struct arena *a)
{
	float *to = from ? arena_try(a, (size_t)n, sizeof *to) : NULL;
	return to ? memcpy(to, from, sizeof *to * (size_t)n) : NULL;
}

const struct hone_kernel_want *want_copy(const struct hone_kernel_want *w, struct arena *a)
{
	struct shape s = weight_shape(w);
	struct hone_kernel_want *c = arena_memdup(a, w, sizeof *w);
	c->weights = copy_floats(w->weights, shape_count(&s), a);
	c->bias = copy_floats(w->bias, outputs_of(w), a);
	return !w->weights == !c->weights && !w->bias == !c->bias ? c : NULL;
}

struct maker {
	struct graph *g;
	const struct hone_kernel_want *w;
	int rc;
};

static int value(struct maker *k, const char *name, const struct shape *s)
{
	int v = graph_add_value(k->g, name);
	k->g->value[v].producer = -1;
	if (s)
		k->g->value[v].t = (struct tensor){.dtype = DT_F32, .shape = *s};
	return v;
}

/* An input, or with data a constant. */
static int operand(struct maker *k, const char *name, struct shape s, const float *data)
{
	int v = value(k, name, &s);
	struct tensor *t = &k->g->value[v].t;
	if (!data) {
		k->g->value[v].is_input = true;
		k->g->input[k->g->ninputs++] = v;
		return v;
	}
	int rc = tensor_alloc(&k->g->arena, DT_F32, &s, t);
	if (rc >= 0)
		memcpy(t->data, data, sizeof *data * (size_t)shape_count(&s));
	k->rc = k->rc < 0 ? k->rc : rc;
	return v;
}

static int node(struct maker *k, const char *type, int nin, const int *in, int nattr, const struct attr *attr)
{
	int out = value(k, arena_printf(&k->g->arena, "%s.out", type), NULL);
	int rc = k->rc < 0 ? k->rc : graph_add_node(k->g, type, type, OPSET, nin, in, 1, &out, nattr, attr);
	k->rc = rc;
	return out;
}

static struct attr ints(const char *name, int n, const int64_t *v)
{
	return (struct attr){.name = name, .kind = ATTR_INTS, .n = n, .ints = v};
}

static int add_conv(struct maker *k)
{
	const struct hone_kernel_want *w = k->w;
	const int64_t strides[] = {or_one(w->stride_h), or_one(w->stride_w)},
		      dilations[] = {or_one(w->dilation_h), or_one(w->dilation_w)},
		      pads[] = {w->pad_top, w->pad_left, w->pad_bottom, w->pad_right},
		      kernel[] = {w->kernel_h, w->kernel_w};
	const struct attr attr[] = {ints("strides", 2, strides),
				    ints("dilations", 2, dilations),
				    ints("pads", 4, pads),
				    ints("kernel_shape", 2, kernel),
				    {.name = "group", .kind = ATTR_INT, .n = 1, .i = or_one(w->groups)}};
	int in[3];
	in[0] = operand(k, "x", (struct shape){4, {w->batch, w->channels, w->height, w->width}}, NULL);
	in[1] = operand(k, "w", weight_shape(w), w->weights);
	if (w->bias)
		in[2] = operand(k, "bias", (struct shape){1, {w->filters}}, w->bias);
	return node(k, "Conv", 2 + !!w->bias, in, (int)N_OF(attr), attr);
}

static int add_gemm(struct maker *k)
{
	const struct hone_kernel_want *w = k->w;
	int in[3];
	in[0] = operand(k, "a", (struct shape){2, {w->m, w->k}}, NULL);
	in[1] = operand(k, "b", weight_shape(w), w->weights);
	if (w->bias)
		in[2] = operand(k, "bias", (struct shape){1, {w->n}}, w->bias);
	return node(k, "Gemm", 2 + !!w->bias, in, 0, NULL);
}

static int add_activation(struct maker *k, int v)
{
	static const float zero = 0, six = 6;
	if (k->w->activation == HONE_RELU)
		return node(k, "Relu", 1, &v, 0, NULL);
	if (k->w->activation != HONE_RELU6)
		return v;
	int in[3] = {v};
	in[1] = operand(k, "low", (struct shape){0}, &zero);
	in[2] = operand(k, "high", (struct shape){0}, &six);
	return node(k, "Clip", 3, in, 0, NULL);
}

int want_graph(const struct hone_kernel_want *w, struct graph **out)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	g->name = "kernel";
	g->input = ARENA_ARRAY(&g->arena, int, 2);
	g->output = ARENA_ARRAY(&g->arena, int, 1);
	struct maker k = {.g = g, .w = w};
	int y = add_activation(&k, w->op == HONE_GEMM ? add_gemm(&k) : add_conv(&k));
	g->value[y].name = w->op == HONE_GEMM ? "c" : "y";
	g->value[y].is_output = true;
	g->output[g->noutputs++] = y;
	int rc = k.rc < 0 ? k.rc : graph_infer(g);
	if (rc < 0) {
		graph_free(g);
		return fail_in(rc, "kernel");
	}
	*out = g;
	return E_OK;
}

int hone_kernel_find(struct hone_handle *h, const struct hone_kernel_want *want, struct hone_model **out)
{
	struct hone_kernel_want w;
	if (!h || !want || !out)
		return fail(E_USAGE, "hone_kernel_find: the handle, the want or out is NULL");
	*out = NULL;
	int rc = hone_copy_in(&w, want, sizeof w, offsetof(struct hone_kernel_want, op));
	if (rc >= 0)
		rc = want_check(&w);
	struct hone_model *m = rc < 0 ? NULL : model_new(h);
	if (rc >= 0 && !m)
		rc = fail(E_NOMEM, "no memory for a kernel");
	if (rc < 0)
		return rc;
	if ((m->from.want = want_copy(&w, &m->a)))
		return model_finish(m, out);
	hone_model_close(m);
	return fail(E_NOMEM, "no memory for the weights of a kernel");
}

int hone_kernel_write(const struct hone_kernel_want *want, const char *path)
{
	struct hone_kernel_want w;
	struct graph *g;
	if (!want || !path)
		return fail(E_USAGE, "hone_kernel_write: the want or the path is NULL");
	int rc = hone_copy_in(&w, want, sizeof w, offsetof(struct hone_kernel_want, op));
	if (rc >= 0)
		rc = want_check(&w);
	if (rc >= 0)
		rc = want_graph(&w, &g);
	if (rc < 0)
		return rc;
	rc = export_file(g, path);
	graph_free(g);
	return rc;
}
