/* SPDX-License-Identifier: Apache-2.0 */
/* The tiny vision transformer (Dosovitskiy et al. 2021), in the operators that PyTorch's exporter writes. */
#include "tools/hone/zoo.h"
#include <math.h>

enum { DIM = 192, HEADS = 3, HEAD = DIM / HEADS, TOKENS = 197, DEPTH = 12, MLP = 4 * DIM };

static int layer_norm(struct zoo *z, int x)
{
	struct shape s = {1, {DIM}};
	int in[3] = {x, zoo_normal(z, "scale", &s, 1, 0.1), zoo_normal(z, "shift", &s, 0, 0.1)};
	struct attr attr[] = {zoo_attr_int("axis", -1), zoo_attr_float("epsilon", 1e-6f)};
	return zoo_node(z, "LayerNormalization", 3, in, 2, attr);
}

static int linear(struct zoo *z, int x, int64_t from, int64_t to, double gain)
{
	int w = zoo_normal(z, "weight", &(struct shape){2, {from, to}}, 0, gain * sqrt(1.0 / (double)from));
	int b = zoo_normal(z, "bias", &(struct shape){1, {to}}, 0, 0.1);
	return zoo_binary(z, "Add", zoo_binary(z, "MatMul", x, w), b);
}

static int reshape(struct zoo *z, int x, int n, const int64_t *dims)
{
	return zoo_binary(z, "Reshape", x, zoo_ints(z, "shape", n, dims));
}

static int transpose(struct zoo *z, int x, int n, const int64_t *perm)
{
	struct attr p = zoo_attr_ints("perm", n, perm);
	return zoo_node(z, "Transpose", 1, &x, 1, &p);
}

/* Takes element `index` of axis `axis`, which is removed. */
static int pick(struct zoo *z, int x, int64_t axis, int64_t index)
{
	int i = zoo_ints(z, "index", 1, &index);
	z->g->value[i].t.shape.rank = 0;
	struct attr a = zoo_attr_int("axis", axis);
	return zoo_node(z, "Gather", 2, (int[]){x, i}, 1, &a);
}

static int attention(struct zoo *z, int x)
{
	int qkv = reshape(z, linear(z, x, DIM, 3 * DIM, 1), 5, (int64_t[]){1, TOKENS, 3, HEADS, HEAD});
	qkv = transpose(z, qkv, 5, (int64_t[]){2, 0, 3, 1, 4});
	int q = pick(z, qkv, 0, 0), k = pick(z, qkv, 0, 1), v = pick(z, qkv, 0, 2);
	int score = zoo_binary(z, "MatMul", q, transpose(z, k, 4, (int64_t[]){0, 1, 3, 2}));
	score = zoo_binary(z, "Mul", score, zoo_scalar(z, "scale", 1 / sqrtf(HEAD)));
	struct attr axis = zoo_attr_int("axis", -1);
	int p = zoo_node(z, "Softmax", 1, &score, 1, &axis);
	int mixed = transpose(z, zoo_binary(z, "MatMul", p, v), 4, (int64_t[]){0, 2, 1, 3});
	return linear(z, reshape(z, mixed, 3, (int64_t[]){1, TOKENS, DIM}), DIM, DIM, 1);
}

static int gelu(struct zoo *z, int x)
{
	int e = zoo_unary(z, "Erf", zoo_binary(z, "Div", x, zoo_scalar(z, "sqrt2", sqrtf(2))));
	int y = zoo_binary(z, "Mul", x, zoo_binary(z, "Add", e, zoo_scalar(z, "one", 1)));
	return zoo_binary(z, "Mul", y, zoo_scalar(z, "half", 0.5f));
}

void zoo_vit_tiny(struct zoo *z)
{
	struct fmap image = zoo_input(z, "image", 3, 224, 224);
	struct fmap patches = zoo_conv(z, image, (struct zoo_conv){DIM, 16, 16, 0});
	int x = reshape(z, patches.value, 3, (int64_t[]){1, DIM, TOKENS - 1});
	x = transpose(z, x, 3, (int64_t[]){0, 2, 1});
	struct attr axis = zoo_attr_int("axis", 1);
	int class = zoo_normal(z, "class", &(struct shape){3, {1, 1, DIM}}, 0, 1);
	x = zoo_node(z, "Concat", 2, (int[]){class, x}, 1, &axis);
	x = zoo_binary(z, "Add", x, zoo_normal(z, "position", &(struct shape){3, {1, TOKENS, DIM}}, 0, 0.5));
	for (int i = 0; i < DEPTH; i++) {
		x = zoo_binary(z, "Add", x, attention(z, layer_norm(z, x)));
		int hidden = gelu(z, linear(z, layer_norm(z, x), DIM, MLP, 1));
		x = zoo_binary(z, "Add", x, linear(z, hidden, MLP, DIM, 1.4));
	}
	x = pick(z, layer_norm(z, x), 1, 0);
	zoo_output(z, zoo_dense(z, x, DIM, 1000, 1), "logits");
}
