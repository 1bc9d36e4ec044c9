/* SPDX-License-Identifier: Apache-2.0 */
/* The zoo: standard networks as graphs with seeded random weights, for demos, benchmarks and tests. The same
 * (name, seed) gives the same bytes on every machine.
 *
 * Weights are normal with a deviation that preserves the second moment of the activations through the layers
 * (He et al. 2015: sqrt(2 / fan in) behind a rectifier, sqrt(1 / fan in) elsewhere), so that outputs are
 * finite and depend on every layer. To add a network: write a builder in a zoo_*.c and add its row in zoo.c.
 *
 * A `zoo` is a network being built. Its error is sticky (z->rc): builders do not check, zoo_make checks
 * once. */
#ifndef TOOLS_ZOO_H
#define TOOLS_ZOO_H

#include "kernels/graph/graph.h"
#include "platform/base/rng.h"

struct zoo {
	struct graph *g;
	struct rng rng;
	int rc; /* first failure; values made after it are meaningless */
	int opset;
	int nnames; /* counter for names of nodes */
};

/* A feature map [1][c][h][w]: its value in the graph, and its properties. */
struct fmap {
	int value;
	int64_t c, h, w;
	bool rectified; /* about half of it is zero */
};

enum act { ACT_NONE, ACT_RELU, ACT_RELU6, ACT_ELU };

/* A convolution: k filters of r x r, with bias or, if `norm`, followed by a BatchNormalization node. */
struct zoo_conv {
	int64_t k, r, stride, pad, groups; /* groups 0: one */
	bool same; /* pad as TensorFlow's SAME does (an odd one at the end); `pad` is not used */
	bool norm;
	enum act act;
	float gain; /* factor of the weights; 0: 1 */
};

struct zoo_net {
	const char *name, *summary;
	void (*build)(struct zoo *z);
};

extern const struct zoo_net zoo_nets[]; /* ends with name NULL */
/* E_USAGE: the message suggests a name, or lists them. */
int zoo_find(const char *name, const struct zoo_net **out) MUST_CHECK;
/* As zoo_find. Shapes are inferred. */
int zoo_make(const char *name, uint64_t seed, struct graph **out) MUST_CHECK;

/* Building blocks. */
struct fmap zoo_input(struct zoo *z, const char *name, int64_t c, int64_t h, int64_t w);
void zoo_output(struct zoo *z, int value, const char *name);
/* Adds a node with one output: nin input values (-1: absent) and attributes. Returns the output's value. */
int zoo_node(struct zoo *z, const char *type, int nin, const int *in, int nattr, const struct attr *attr);
int zoo_unary(struct zoo *z, const char *type, int a);
int zoo_binary(struct zoo *z, const char *type, int a, int b);
int zoo_normal(struct zoo *z, const char *name, const struct shape *s, double mean,
	       double deviation);                                       /* f32 */
int zoo_ints(struct zoo *z, const char *name, int n, const int64_t *v); /* i64, rank 1 */
int zoo_scalar(struct zoo *z, const char *name, float v);
struct fmap zoo_conv(struct zoo *z, struct fmap x, struct zoo_conv c);
struct fmap zoo_act(struct zoo *z, struct fmap x, enum act act);
struct fmap zoo_add(struct zoo *z, struct fmap a, struct fmap b);
struct fmap zoo_concat(struct zoo *z, struct fmap a, struct fmap b); /* over channels */
struct fmap zoo_max_pool(struct zoo *z, struct fmap x, int64_t r, int64_t stride, int64_t pad, bool ceil);
/* Mean over the image, flattened to [1][c]; returned as a map of c x 1 x 1. */
struct fmap zoo_mean(struct zoo *z, struct fmap x);
/* Gemm with bias on a flat value of `from` elements; returns the output's value. */
int zoo_dense(struct zoo *z, int x, int64_t from, int64_t to, double gain);
struct attr zoo_attr_int(const char *name, int64_t v);
struct attr zoo_attr_float(const char *name, float v);
struct attr zoo_attr_ints(const char *name, int n,
			  const int64_t *v); /* v must outlive the call that uses it */

/* The networks. */
void zoo_resnet18(struct zoo *z);
void zoo_resnet50(struct zoo *z);
void zoo_mobilenet_v1(struct zoo *z);
void zoo_mobilenet_v2(struct zoo *z);
void zoo_squeezenet1_1(struct zoo *z);
void zoo_efficientnet_lite0(struct zoo *z);
void zoo_vit_tiny(struct zoo *z);
void zoo_steering(struct zoo *z);

#endif
