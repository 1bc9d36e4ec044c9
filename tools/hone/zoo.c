/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/zoo.h"
#include "platform/base/near.h"
#include "kernels/graph/eval.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct zoo_net zoo_nets[] = {
    {"mobilenet_v2", "MobileNetV2, 3x224x224, 300 M multiplications", zoo_mobilenet_v2},
    {"mobilenet_v1", "MobileNetV1, 3x224x224, BatchNormalization as nodes", zoo_mobilenet_v1},
    {"resnet18", "ResNet-18, 3x224x224, BatchNormalization as nodes", zoo_resnet18},
    {"resnet50", "ResNet-50, 3x224x224", zoo_resnet50},
    {"squeezenet1_1", "SqueezeNet 1.1, 3x224x224", zoo_squeezenet1_1},
    {"efficientnet_lite0", "EfficientNet-lite0, 3x224x224, asymmetric padding", zoo_efficientnet_lite0},
    {"vit_tiny", "ViT-tiny, patches of 16, 3x224x224", zoo_vit_tiny},
    {"steering", "a steering network as PilotNet, 3x66x200", zoo_steering},
    {NULL},
};

static int zoo_unknown(const char *name)
{
	char names[512] = "";
	struct near near;
	near_begin(&near, name);
	for (const struct zoo_net *n = zoo_nets; n->name; n++) {
		snprintf(names + strlen(names), sizeof names - strlen(names), " %s", n->name);
		near_add(&near, n->name);
	}
	if (near.best)
		return fail(E_USAGE, "unknown network '%s'; did you mean '%s'?", name, near.best);
	return fail(E_USAGE, "unknown network '%s'; the zoo has%s", name, names);
}

/* Makes a graph that lies in its own arena. */
static struct graph *new_graph(const char *name)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->name = arena_strdup(&a, name);
	g->arena = a;
	return g;
}

int zoo_find(const char *name, const struct zoo_net **out)
{
	const struct zoo_net *net = zoo_nets;
	while (net->name && strcmp(net->name, name))
		net++;
	*out = net;
	return net->name ? 0 : zoo_unknown(name);
}

int zoo_make(const char *name, uint64_t seed, struct graph **out)
{
	const struct zoo_net *net;
	int rc = zoo_find(name, &net);
	if (rc < 0)
		return rc;
	struct zoo z = {.g = new_graph(net->name), .opset = 17};
	rng_seed(&z.rng, seed);
	net->build(&z);
	if (z.rc >= 0)
		z.rc = graph_infer(z.g);
	if (z.rc < 0) {
		graph_free(z.g);
		return fail_in(z.rc, "zoo %s", name);
	}
	*out = z.g;
	return 0;
}

static int *one_index(struct graph *g, int v)
{
	return arena_memdup(&g->arena, &v, sizeof v);
}

struct fmap zoo_input(struct zoo *z, const char *name, int64_t c, int64_t h, int64_t w)
{
	int v = graph_add_value(z->g, name);
	struct value *x = &z->g->value[v];
	x->is_input = true;
	x->producer = -1;
	x->t = (struct tensor){.dtype = DT_F32, .shape = {4, {1, c, h, w}}};
	z->g->input = one_index(z->g, v);
	z->g->ninputs = 1;
	return (struct fmap){v, c, h, w, false};
}

void zoo_output(struct zoo *z, int value, const char *name)
{
	z->g->value[value].name = arena_strdup(&z->g->arena, name);
	z->g->value[value].is_output = true;
	z->g->output = one_index(z->g, value);
	z->g->noutputs = 1;
}

int zoo_node(struct zoo *z, const char *type, int nin, const int *in, int nattr, const struct attr *attr)
{
	char name[64], out_name[80];
	snprintf(name, sizeof name, "%s_%d", type, z->nnames++);
	snprintf(out_name, sizeof out_name, "%s.out", name);
	int out = graph_add_value(z->g, out_name);
	int rc = graph_add_node(z->g, type, name, z->opset, nin, in, 1, &out, nattr, attr);
	if (z->rc >= 0 && rc < 0)
		z->rc = rc;
	return out;
}

int zoo_unary(struct zoo *z, const char *type, int a)
{
	return zoo_node(z, type, 1, &a, 0, NULL);
}

int zoo_binary(struct zoo *z, const char *type, int a, int b)
{
	return zoo_node(z, type, 2, (int[]){a, b}, 0, NULL);
}

static int constant(struct zoo *z, const char *name, enum dtype t, const struct shape *s)
{
	char full[96];
	snprintf(full, sizeof full, "%s_%d", name, z->nnames++);
	int v = graph_add_value(z->g, full);
	z->g->value[v].producer = -1;
	int rc = tensor_alloc(&z->g->arena, t, s, &z->g->value[v].t);
	if (z->rc >= 0 && rc < 0)
		z->rc = rc;
	return v;
}

int zoo_normal(struct zoo *z, const char *name, const struct shape *s, double mean, double deviation)
{
	int v = constant(z, name, DT_F32, s);
	float *p = z->g->value[v].t.data;
	for (int64_t i = 0; p && i < shape_count(s); i++)
		p[i] = (float)(mean + deviation * rng_normal(&z->rng));
	return v;
}

/* Uniform positive values, for variances and scales. */
static int uniform(struct zoo *z, const char *name, int64_t n, double lo, double hi)
{
	int v = constant(z, name, DT_F32, &(struct shape){1, {n}});
	float *p = z->g->value[v].t.data;
	for (int64_t i = 0; p && i < n; i++)
		p[i] = (float)(lo + (hi - lo) * rng_unit(&z->rng));
	return v;
}

int zoo_ints(struct zoo *z, const char *name, int n, const int64_t *values)
{
	int v = constant(z, name, DT_I64, &(struct shape){1, {n}});
	if (z->g->value[v].t.data)
		memcpy(z->g->value[v].t.data, values, (size_t)n * sizeof *values);
	return v;
}

int zoo_scalar(struct zoo *z, const char *name, float x)
{
	int v = constant(z, name, DT_F32, &(struct shape){0});
	if (z->g->value[v].t.data)
		memcpy(z->g->value[v].t.data, &x, sizeof x);
	return v;
}

struct attr zoo_attr_int(const char *name, int64_t v)
{
	return (struct attr){.name = name, .kind = ATTR_INT, .i = v};
}

struct attr zoo_attr_float(const char *name, float v)
{
	return (struct attr){.name = name, .kind = ATTR_FLOAT, .f = v};
}

struct attr zoo_attr_ints(const char *name, int n, const int64_t *v)
{
	return (struct attr){.name = name, .kind = ATTR_INTS, .n = n, .ints = v};
}

struct fmap zoo_act(struct zoo *z, struct fmap x, enum act act)
{
	switch (act) {
	case ACT_NONE:
		return x;
	case ACT_RELU:
		x.value = zoo_unary(z, "Relu", x.value);
		break;
	case ACT_RELU6:
		x.value =
		    zoo_node(z, "Clip", 3,
			     (int[]){x.value, zoo_scalar(z, "zero", 0), zoo_scalar(z, "six", 6)}, 0, NULL);
		break;
	case ACT_ELU:
		x.value = zoo_unary(z, "Elu", x.value);
		break;
	}
	x.rectified = true;
	return x;
}

static int batch_norm(struct zoo *z, int x, int64_t k)
{
	struct shape s = {1, {k}};
	int in[5] = {x, uniform(z, "scale", k, 0.7, 1.3), zoo_normal(z, "shift", &s, 0, 0.1),
		     zoo_normal(z, "mean", &s, 0, 0.1), uniform(z, "var", k, 0.6, 1.4)};
	struct attr eps = zoo_attr_float("epsilon", 1e-5f);
	return zoo_node(z, "BatchNormalization", 5, in, 1, &eps);
}

/* Padding before and after for TensorFlow's SAME. Returns the size of the output. */
static int64_t same_pads(int64_t in, int64_t r, int64_t stride, int64_t *begin, int64_t *end)
{
	int64_t out = (in + stride - 1) / stride, all = (out - 1) * stride + r - in;
	all = all > 0 ? all : 0;
	*begin = all / 2;
	*end = all - all / 2;
	return out;
}

struct fmap zoo_conv(struct zoo *z, struct fmap x, struct zoo_conv c)
{
	int64_t groups = c.groups ? c.groups : 1, per = x.c / groups;
	int64_t pads[4] = {c.pad, c.pad, c.pad, c.pad};
	int64_t h = (x.h + 2 * c.pad - c.r) / c.stride + 1, w = (x.w + 2 * c.pad - c.r) / c.stride + 1;
	if (c.same) {
		h = same_pads(x.h, c.r, c.stride, &pads[0], &pads[2]);
		w = same_pads(x.w, c.r, c.stride, &pads[1], &pads[3]);
	}
	double fan_in = (double)(per * c.r * c.r), gain = c.gain > 0 ? c.gain : 1;
	double deviation = gain * sqrt((x.rectified ? 2.0 : 1.0) / fan_in);
	int in[3] = {x.value, zoo_normal(z, "weight", &(struct shape){4, {c.k, per, c.r, c.r}}, 0, deviation),
		     -1};
	if (!c.norm)
		in[2] = zoo_normal(z, "bias", &(struct shape){1, {c.k}}, 0, 0.1);
	struct attr attr[] = {
	    zoo_attr_ints("kernel_shape", 2, (int64_t[]){c.r, c.r}),
	    zoo_attr_ints("strides", 2, (int64_t[]){c.stride, c.stride}),
	    zoo_attr_ints("pads", 4, pads),
	    zoo_attr_int("group", groups),
	};
	int v = zoo_node(z, "Conv", c.norm ? 2 : 3, in, 4, attr);
	if (c.norm)
		v = batch_norm(z, v, c.k);
	return zoo_act(z, (struct fmap){v, c.k, h, w, false}, c.act);
}

struct fmap zoo_add(struct zoo *z, struct fmap a, struct fmap b)
{
	return (struct fmap){zoo_binary(z, "Add", a.value, b.value), a.c, a.h, a.w, false};
}

struct fmap zoo_concat(struct zoo *z, struct fmap a, struct fmap b)
{
	struct attr axis = zoo_attr_int("axis", 1);
	int v = zoo_node(z, "Concat", 2, (int[]){a.value, b.value}, 1, &axis);
	return (struct fmap){v, a.c + b.c, a.h, a.w, a.rectified && b.rectified};
}

struct fmap zoo_max_pool(struct zoo *z, struct fmap x, int64_t r, int64_t stride, int64_t pad, bool ceil)
{
	struct attr attr[] = {
	    zoo_attr_ints("kernel_shape", 2, (int64_t[]){r, r}),
	    zoo_attr_ints("strides", 2, (int64_t[]){stride, stride}),
	    zoo_attr_ints("pads", 4, (int64_t[]){pad, pad, pad, pad}),
	    zoo_attr_int("ceil_mode", ceil),
	};
	int64_t more = ceil ? stride - 1 : 0;
	x.value = zoo_node(z, "MaxPool", 1, &x.value, 4, attr);
	x.h = (x.h + 2 * pad - r + more) / stride + 1;
	x.w = (x.w + 2 * pad - r + more) / stride + 1;
	return x;
}

struct fmap zoo_mean(struct zoo *z, struct fmap x)
{
	int v = zoo_unary(z, "GlobalAveragePool", x.value);
	struct attr axis = zoo_attr_int("axis", 1);
	return (struct fmap){zoo_node(z, "Flatten", 1, &v, 1, &axis), x.c, 1, 1, false};
}

int zoo_dense(struct zoo *z, int x, int64_t from, int64_t to, double gain)
{
	int in[3] = {
	    x, zoo_normal(z, "weight", &(struct shape){2, {to, from}}, 0, gain * sqrt(1.0 / (double)from)),
	    zoo_normal(z, "bias", &(struct shape){1, {to}}, 0, 0.1)};
	struct attr t = zoo_attr_int("transB", 1);
	return zoo_node(z, "Gemm", 3, in, 1, &t);
}
