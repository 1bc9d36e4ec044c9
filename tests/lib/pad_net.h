/* SPDX-License-Identifier: Apache-2.0 */
/* Random small networks around Pad: constants of any value, edges and reflections, before and behind windows,
 * convolutions, and nodes that move elements. Values that pads write have a second reader now and then. */
#ifndef TESTS_PAD_NET_H
#define TESTS_PAD_NET_H

#include "kernels/graph/eval.h"
#include "tests/lib/test.h"
#include "tools/hone/zoo.h"

#include <math.h>

enum { PAD_ELEMS = 3000, PAD_NODES = 8 };

struct pad_net {
	struct zoo z;
	enum dtype type;
	int now;   /* the last value */
	bool wild; /* a constant is infinite: what sums would give no answer to compare */
};

static inline int pad_below(struct pad_net *n, int most)
{
	return (int)rng_below(&n->z.rng, (uint32_t)most);
}

static inline const struct shape *pad_shape(struct pad_net *n)
{
	return &n->z.g->value[n->now].t.shape;
}

/* Adds a node that reads the last value first. */
static inline void pad_node(struct pad_net *n, const char *type, int nin, int *in, int nattr,
			    const struct attr *attr)
{
	in[0] = n->now;
	n->now = zoo_node(&n->z, type, nin, in, nattr, attr);
	CHECK_OK(graph_infer(n->z.g));
}

static inline int pad_constant(struct pad_net *n, double v)
{
	struct tensor t;
	CHECK_OK(tensor_alloc(&n->z.g->arena, n->type, &(struct shape){0}, &t));
	tensor_set(&t, 0, v);
	return graph_add_constant(n->z.g, "fill", n->type, &t.shape, t.data);
}

static inline void pad_pad(struct pad_net *n)
{
	static const double floats[] = {0.25, -1.5, 7, -40, 0, -INFINITY}, bytes[] = {3, 100, 7, 1, 0, 9};
	static const char *const modes[] = {"constant", "constant", "constant", "edge", "reflect"};
	const struct shape *x = pad_shape(n);
	int64_t pads[2 * MAX_RANK] = {0};
	int mode = pad_below(n, 5), all = pad_below(n, 4) == 0, value = pad_below(n, n->wild ? 6 : 5);
	for (int d = all ? 0 : 2; d < 4; d++)
		for (int end = 0; end < 2; end++) {
			int64_t most = mode == 4 && x->d[d] <= 3 ? x->d[d] : 3;
			pads[4 * end + d] = pad_below(n, (int)most);
			pads[4 * end + d] -= mode < 3 && x->d[d] > 3 && pad_below(n, 6) == 0;
		}
	struct attr a = {.name = "mode", .kind = ATTR_STRING, .s = modes[mode]};
	int in[3] = {0, zoo_ints(&n->z, "pads", 8, pads), -1};
	if (mode < 3)
		in[2] = pad_constant(n, n->type == DT_F32 ? floats[value] : bytes[value]);
	pad_node(n, "Pad", mode < 3 ? 3 : 2, in, 1, &a);
}

static inline void pad_conv(struct pad_net *n)
{
	const struct shape x = *pad_shape(n);
	if (n->type != DT_F32 || n->wild || x.d[2] < 3 || x.d[3] < 3) {
		pad_pad(n);
		return;
	}
	static const int64_t channels[] = {3, 8, 16};
	bool each = pad_below(n, 4) == 0;
	int64_t r = 1 + 2 * pad_below(n, 2), k = each ? x.d[1] : channels[pad_below(n, 3)],
		p = pad_below(n, 2), stride = 1 + (pad_below(n, 3) == 0);
	p = r == 1 ? 0 : p;
	int w = zoo_normal(&n->z, "w", &(struct shape){4, {k, each ? 1 : x.d[1], r, r}}, 0, .3);
	struct attr a[] = {zoo_attr_ints("kernel_shape", 2, (int64_t[]){r, r}),
			   zoo_attr_ints("pads", 4, (int64_t[]){p, p, p, p}),
			   zoo_attr_ints("strides", 2, (int64_t[]){stride, stride}),
			   zoo_attr_int("group", each ? x.d[1] : 1)};
	pad_node(n, "Conv", 2, (int[]){0, w}, 4, a);
}

static inline void pad_pool(struct pad_net *n)
{
	const struct shape *x = pad_shape(n);
	int64_t r = 2 + pad_below(n, 2), p = pad_below(n, 2), stride = 1 + pad_below(n, 2);
	if (x->d[2] < r || x->d[3] < r) {
		pad_pad(n);
		return;
	}
	struct attr a[] = {zoo_attr_ints("kernel_shape", 2, (int64_t[]){r, r}),
			   zoo_attr_ints("pads", 4, (int64_t[]){p, p, p, p}),
			   zoo_attr_ints("strides", 2, (int64_t[]){stride, stride})};
	bool mean = n->type == DT_F32 && !n->wild && pad_below(n, 3) == 0;
	pad_node(n, mean ? "AveragePool" : "MaxPool", 1, (int[]){0}, 3, a);
}

static inline void pad_transpose(struct pad_net *n)
{
	static const int64_t perms[][4] = {
	    {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 1, 3, 2}, {0, 2, 1, 3}, {3, 2, 1, 0}};
	struct attr a = zoo_attr_ints("perm", 4, perms[pad_below(n, 5)]);
	pad_node(n, "Transpose", 1, (int[]){0}, 1, &a);
}

static inline void pad_slice(struct pad_net *n)
{
	const struct shape *x = pad_shape(n);
	int64_t axis = pad_below(n, 4), from = x->d[axis] > 2 ? pad_below(n, 2) : 0,
		step = 1 + (pad_below(n, 4) == 0);
	int in[5] = {0, zoo_ints(&n->z, "from", 1, &from),
		     zoo_ints(&n->z, "to", 1, (int64_t[]){x->d[axis] - (x->d[axis] > 3)}),
		     zoo_ints(&n->z, "axes", 1, &axis), zoo_ints(&n->z, "steps", 1, &step)};
	pad_node(n, "Slice", 5, in, 0, NULL);
}

static inline void pad_reshape(struct pad_net *n)
{
	const struct shape x = *pad_shape(n);
	const int64_t dims[][4] = {{x.d[0], x.d[1] * x.d[2], 1, x.d[3]},
				   {x.d[0], x.d[1], 1, x.d[2] * x.d[3]},
				   {x.d[0] * x.d[1], 1, x.d[2], x.d[3]},
				   {1, x.d[0], x.d[1], x.d[2] * x.d[3]}};
	pad_node(n, "Reshape", 2, (int[]){0, zoo_ints(&n->z, "shape", 4, dims[pad_below(n, 4)])}, 0, NULL);
}

static inline void pad_gather(struct pad_net *n)
{
	const struct shape *x = pad_shape(n);
	int64_t axis = pad_below(n, 4), at[3];
	for (int i = 0; i < 3; i++)
		at[i] = pad_below(n, (int)x->d[axis]);
	struct attr a = zoo_attr_int("axis", axis);
	pad_node(n, "Gather", 2, (int[]){0, zoo_ints(&n->z, "at", 3, at)}, 1, &a);
}

static inline void pad_map(struct pad_net *n)
{
	static const char *const maps[] = {"Relu", "Sigmoid", "Neg"};
	if (n->type != DT_F32)
		pad_pad(n);
	else
		pad_node(n, maps[pad_below(n, 3)], 1, (int[]){0}, 0, NULL);
}

static inline void pad_matmul(struct pad_net *n)
{
	const struct shape x = *pad_shape(n);
	if (n->type != DT_F32 || n->wild) {
		pad_transpose(n);
		return;
	}
	if (pad_below(n, 2)) {
		int w = zoo_normal(&n->z, "w", &(struct shape){2, {x.d[3], 5}}, 0, .3);
		pad_node(n, "MatMul", 2, (int[]){0, w}, 0, NULL);
	} else {
		int before = n->now;
		struct attr a = zoo_attr_ints("perm", 4, (int64_t[]){0, 1, 3, 2});
		pad_node(n, "Transpose", 1, (int[]){0}, 1, &a);
		n->now = zoo_binary(&n->z, "MatMul", before, n->now);
		CHECK_OK(graph_infer(n->z.g));
	}
}

static inline void pad_softmax(struct pad_net *n)
{
	struct attr a = zoo_attr_int("axis", 1 + pad_below(n, 3));
	if (n->type != DT_F32 || n->wild)
		pad_slice(n);
	else
		pad_node(n, "Softmax", 1, (int[]){0}, 1, &a);
}

/* Cuts a value in two and joins the halves the other way round. */
static inline void pad_split(struct pad_net *n)
{
	int64_t axis = pad_below(n, 4);
	int in = n->now, half[2];
	if (pad_shape(n)->d[axis] % 2) {
		pad_gather(n);
		return;
	}
	struct attr a = zoo_attr_int("axis", axis);
	for (int i = 0; i < 2; i++)
		half[i] = graph_add_value(n->z.g, i ? "right" : "left");
	CHECK_OK(graph_add_node(n->z.g, "Split", "halves", n->z.opset, 1, &in, 2, half, 1, &a));
	CHECK_OK(graph_infer(n->z.g));
	n->now = half[1];
	(pad_below(n, 2) ? pad_pad : pad_map)(n);
	const struct shape *x = &n->z.g->value[half[0]].t.shape, *y = pad_shape(n);
	int64_t join = -1;
	for (int d = 0, off = 0; d < 4; d++)
		if (x->d[d] != y->d[d] && !off++)
			join = d;
		else if (x->d[d] != y->d[d])
			join = 4;
	if (join > 3)
		return;
	a = zoo_attr_int("axis", join < 0 ? axis : join);
	n->now = zoo_node(&n->z, "Concat", 2, (int[]){n->now, half[0]}, 1, &a);
	CHECK_OK(graph_infer(n->z.g));
}

/* Reads a value twice: once padded by equal sizes, with other constants, and joined, or summed with itself
 * shifted. */
static inline void pad_twice(struct pad_net *n)
{
	static const double values[] = {0.5, -2, 0, 3};
	int before = n->now, made[2];
	const int64_t at[2][8] = {{0, 0, 1, 1, 0, 0, 1, 1}, {0, 0, 2, 0, 0, 0, 0, 2}};
	for (int i = 0; i < 2; i++) {
		n->now = before;
		double v = values[pad_below(n, 4)];
		v = n->type == DT_F32 ? v : fabs(ceil(v));
		int in[3] = {0, zoo_ints(&n->z, "pads", 8, at[pad_below(n, 2)]), pad_constant(n, v)};
		pad_node(n, "Pad", 3, in, 0, NULL);
		if (pad_below(n, 3) == 0)
			pad_map(n);
		if (pad_below(n, 3) == 0) {
			struct attr a = zoo_attr_ints("perm", 4, (int64_t[]){0, 1, 3, 2});
			pad_node(n, "Transpose", 1, (int[]){0}, 1, &a);
		}
		made[i] = n->now;
	}
	const struct shape *x = &n->z.g->value[made[0]].t.shape, *y = &n->z.g->value[made[1]].t.shape;
	if (!shape_equal(x, y))
		return;
	struct attr a = zoo_attr_int("axis", pad_below(n, 4));
	if (n->type == DT_F32 && pad_below(n, 2))
		n->now = zoo_binary(&n->z, "Sub", made[0], made[1]);
	else
		n->now = zoo_node(&n->z, "Concat", 2, made, 1, &a);
	CHECK_OK(graph_infer(n->z.g));
}

/* Makes the network of a seed, which is not optimised. Its one input has values of both signs. */
static inline struct graph *pad_net(uint64_t seed, enum dtype type, struct tensor *input)
{
	static void (*const nodes[])(struct pad_net *) = {
	    pad_pad,     pad_pad,     pad_pad,       pad_pad,       pad_conv,      pad_conv,
	    pad_pool,    pad_pool,    pad_transpose, pad_transpose, pad_transpose, pad_slice,
	    pad_slice,   pad_reshape, pad_reshape,   pad_gather,    pad_map,       pad_matmul,
	    pad_softmax, pad_split,   pad_split,     pad_twice,     pad_twice};
	static const int64_t channels[] = {1, 3, 8, 16};
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	g->name = "pads";
	struct pad_net n = {.z = {.g = g, .opset = seed % 2 ? 12 : 17}, .type = type, .wild = seed % 5 == 0};
	rng_seed(&n.z.rng, seed);
	int64_t h = 4 + pad_below(&n, 6), w = 4 + pad_below(&n, 6);
	n.now = zoo_input(&n.z, "x", channels[pad_below(&n, 4)], h, w).value;
	g->value[n.now].t.dtype = type;
	CHECK_OK(graph_infer(g));
	CHECK_OK(tensor_alloc(&g->arena, type, &g->value[n.now].t.shape, input));
	for (int64_t i = 0; i < shape_count(&input->shape); i++)
		tensor_set(input, i, type == DT_F32 ? 2 * rng_unit(&n.z.rng) - 1 : pad_below(&n, 120));
	int count = 2 + pad_below(&n, PAD_NODES - 1);
	for (int i = 0; i < count; i++)
		if (shape_count(pad_shape(&n)) < PAD_ELEMS)
			nodes[pad_below(&n, sizeof nodes / sizeof *nodes)](&n);
	if (g->value[n.now].is_input)
		pad_pad(&n);
	zoo_output(&n.z, n.now, "y");
	CHECK_OK(n.z.rc);
	CHECK_OK(graph_infer(g));
	return g;
}

/* Makes the answer of the network before any pass. */
static inline void pad_answer(uint64_t seed, enum dtype type, struct arena *a, struct tensor *want)
{
	struct tensor in, *t;
	struct arena work = {0};
	struct graph *g = pad_net(seed, type, &in);
	t = ARENA_ARRAY(&work, struct tensor, g->nvalues + 1);
	CHECK_OK(eval_graph(g, &in, t, &work));
	const struct tensor *y = &t[g->output[0]];
	CHECK_OK(tensor_alloc(a, y->dtype, &y->shape, want));
	memcpy(want->data, y->data, (size_t)shape_count(&y->shape) * dtype_bytes(y->dtype));
	arena_free(&work);
	graph_free(g);
}

/* Whether the answer is that of the reference: bytes to the bit, floats nearly. */
static inline bool pad_near(const struct tensor *got, const struct tensor *want)
{
	double most = 1;
	for (int64_t i = 0; i < shape_count(&want->shape); i++)
		if (isfinite(tensor_get(want, i)) && fabs(tensor_get(want, i)) < 1e20)
			most = fmax(most, fabs(tensor_get(want, i)));
	for (int64_t i = 0; i < shape_count(&want->shape); i++) {
		double x = tensor_get(got, i), y = tensor_get(want, i);
		bool far = !(fabs(x - y) <= (want->dtype == DT_F32 ? 1e-4 * fmax(most, fabs(y)) : 0));
		if (x != y && far && !(isnan(x) && isnan(y)))
			return false;
	}
	return true;
}

#endif
