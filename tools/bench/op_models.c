/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/op_models.h"

#include "kernels/graph/eval.h"
#include "platform/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IN = 8, MAX_ATTR = 6 };

#define S "1x64x40x40"
#define L "1x64x112x112"
#define SEQ "1x196x512"
#define LSEQ "4x784x512"

const struct op_model op_models[] = {
    {"MaxPool 2x2/2", "MaxPool", "kernel_shape=2,2 strides=2,2", {S, L}},
    {"MaxPool 2x2/2", "MaxPool", "kernel_shape=2,2 strides=2,2", {S, L}, true},
    {"MaxPool 3x3/2", "MaxPool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", {S, L}},
    {"MaxPool 3x3/2", "MaxPool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", {S, L}, true},
    {"MaxPool 3x3/1", "MaxPool", "kernel_shape=3,3 pads=1,1,1,1", {S, L}},
    {"MaxPool 3x3/1", "MaxPool", "kernel_shape=3,3 pads=1,1,1,1", {S, L}, true},
    {"MaxPool 5x5/1", "MaxPool", "kernel_shape=5,5 pads=2,2,2,2", {"1x128x13x13", S}, true},
    {"AveragePool 2x2/2", "AveragePool", "kernel_shape=2,2 strides=2,2", {S, L}},
    {"AveragePool 2x2/2", "AveragePool", "kernel_shape=2,2 strides=2,2", {S, L}, true},
    {"AveragePool 3x3/2", "AveragePool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", {S, L}},
    {"AveragePool 3x3/1", "AveragePool", "kernel_shape=3,3 pads=1,1,1,1", {S, L}, true},
    {"GlobalAveragePool", "GlobalAveragePool", "", {"1x1280x7x7", L}},
    {"GlobalAveragePool", "GlobalAveragePool", "", {"1x1280x7x7", L}, true},
    {"GlobalMaxPool", "GlobalMaxPool", "", {"1x1280x7x7", L}},
    {"Resize nearest 2x",
     "Resize",
     "mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor",
     {"1x64x20x20 - f:1,1,2,2", "1x64x56x56 - f:1,1,2,2"}},
    {"Resize nearest 2x",
     "Resize",
     "mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor",
     {"1x64x20x20 - f:1,1,2,2", "1x64x56x56 - f:1,1,2,2"},
     true},
    {"Resize linear 2x", "Resize", "mode=linear", {"1x64x20x20 - f:1,1,2,2", "1x64x56x56 - f:1,1,2,2"}},
    {"Resize linear 2x", "Resize", "mode=linear", {"1x64x20x20 - f:1,1,2,2", "1x64x56x56 - f:1,1,2,2"}, true},
    {"Resize linear 2x", "Resize", "mode=linear", {"1x3x112x112 - f:1,1,2,2", "1x3x400x400 - f:1,1,2,2"}},
    {"Softmax inner", "Softmax", "axis=-1", {"3x197x197", "12x256x256"}},
    {"Softmax inner of 2", "Softmax", "axis=-1", {"1x4420x2", "1x100000x2"}},
    {"Softmax channels", "Softmax", "axis=1", {S, L}},
    {"LogSoftmax inner", "LogSoftmax", "axis=-1", {"3x197x197", "12x256x256"}},
    {"LayerNorm", "LayerNormalization", "axis=-1", {"1x196x192 w:192 w:192", "4x784x512 w:512 w:512"}},
    {"BatchNorm", "BatchNormalization", "", {S " w:64 w:64 w:64 p:64", L " w:64 w:64 w:64 p:64"}},
    {"InstanceNorm", "InstanceNormalization", "", {S " w:64 w:64", L " w:64 w:64"}},
    {"GroupNorm", "GroupNormalization", "num_groups=8", {S " w:64 w:64", L " w:64 w:64"}},
    {"LRN", "LRN", "size=5", {S, L}},
    {"Add", "Add", "", {"1x64x32x32 1x64x32x32", L " " L}},
    {"Add of channels", "Add", "", {S " 1x64x1x1", L " 1x64x1x1"}},
    {"Relu", "Relu", "", {S, L}},
    {"Clip", "Clip", "", {S " f:0 f:6", L " f:0 f:6"}},
    {"HardSwish", "HardSwish", "", {S, L}},
    {"Sigmoid", "Sigmoid", "", {S, L}},
    {"Tanh", "Tanh", "", {S, L}},
    {"Exp", "Exp", "", {S, L}},
    {"Erf", "Erf", "", {S, L}},
    {"Gelu", "Gelu", "", {S, L}},
    {"Sqrt", "Sqrt", "", {S, L}},
    {"Where", "Where", "", {"b:1x64x32x32 1x64x32x32 1x64x32x32", "b:" L " " L " " L}},
    {"Greater", "Greater", "", {"1x64x32x32 1x64x32x32", L " " L}},
    {"Equal", "Equal", "", {"1x64x32x32 1x64x32x32", L " " L}},
    {"Cast to i64", "Cast", "to=7", {"1x64x32x32", L}},
    {"Cast to u8", "Cast", "to=2", {"1x64x32x32", L}},
    {"ReduceSum inner", "ReduceSum", "keepdims=1", {SEQ " i:2", LSEQ " i:2"}},
    {"ReduceSum outer", "ReduceSum", "keepdims=1", {SEQ " i:1", LSEQ " i:1"}},
    {"ReduceSum all", "ReduceSum", "keepdims=1", {SEQ, LSEQ}},
    {"ReduceMean inner", "ReduceMean", "axes=2,", {SEQ, LSEQ}},
    {"ReduceMean channels", "ReduceMean", "axes=1,", {S, L}},
    {"ReduceMax inner", "ReduceMax", "axes=2,", {SEQ, LSEQ}},
    {"ReduceMax outer", "ReduceMax", "axes=1,", {SEQ, LSEQ}},
    {"ReduceMax all", "ReduceMax", "", {SEQ, LSEQ}},
    {"ReduceL2 inner", "ReduceL2", "axes=2,", {SEQ, LSEQ}},
    {"ArgMax inner", "ArgMax", "axis=2", {SEQ, LSEQ}},
    {"ArgMax channels", "ArgMax", "axis=1", {S, L}},
    {"TopK 10 of 512", "TopK", "axis=2", {SEQ " i:10", LSEQ " i:10"}, false, 2},
    {"CumSum inner", "CumSum", "", {SEQ " i:2", LSEQ " i:2"}},
    {"Transpose 2-D", "Transpose", "perm=1,0", {"384x256", "1024x784"}},
    {"Transpose 2-D odd", "Transpose", "perm=1,0", {"197x201", "1003x801"}},
    {"Transpose NCHW-NHWC", "Transpose", "perm=0,2,3,1", {S, L}},
    {"Transpose NCHW-NHWC", "Transpose", "perm=0,2,3,1", {S, L}, true},
    {"Transpose NHWC-NCHW", "Transpose", "perm=0,3,1,2", {"1x40x40x64", "1x112x112x64"}},
    {"Transpose last two of 4", "Transpose", "perm=0,1,3,2", {"1x3x197x64", "4x12x256x64"}},
    {"Transpose middle two", "Transpose", "perm=0,2,1,3", {"1x197x3x64", "4x256x12x64"}},
    {"Transpose all of 4", "Transpose", "perm=3,2,1,0", {"8x16x20x24", "16x24x40x48"}},
    {"Transpose channels of 2", "Transpose", "perm=0,2,1,3,4", {"1x2x32x40x40", "1x2x32x112x112"}},
    {"Concat channels", "Concat", "axis=1", {"1x32x40x40 1x32x40x40", "1x64x80x80 1x64x80x80"}},
    {"Concat channels", "Concat", "axis=1", {"1x32x40x40 1x32x40x40", "1x64x80x80 1x64x80x80"}, true},
    {"Concat odd channels", "Concat", "axis=1", {"1x24x40x40 1x40x40x40", "1x72x80x80 1x56x80x80"}, true},
    {"Concat inner", "Concat", "axis=2", {"1x3549x4 1x3549x1 1x3549x80", "1x35490x4 1x35490x1 1x35490x80"}},
    {"Concat middle", "Concat", "axis=1", {"1x1x192 1x196x192", "8x1x192 8x783x192"}},
    {"Split channels", "Split", "axis=1", {S, "1x64x112x112"}, false, 2},
    {"Split channels", "Split", "axis=1", {S, "1x64x112x112"}, true, 2},
    {"Split inner", "Split", "axis=2", {"1x197x576", "4x784x768"}, false, 3},
    {"Slice by 2", "Slice", "", {S " i:0,0 i:99,99 i:2,3 i:2,2", L " i:0,0 i:999,999 i:2,3 i:2,2"}},
    {"Slice of rows", "Slice", "", {S " i:4 i:36 i:2", L " i:8 i:104 i:2"}},
    {"Slice inner", "Slice", "", {S " i:3 i:38 i:3", L " i:5 i:108 i:3"}},
    {"Pad", "Pad", "", {S " i:0,0,1,1,0,0,1,1", L " i:0,0,1,1,0,0,1,1"}},
    {"Pad reflect", "Pad", "mode=reflect", {S " i:0,0,1,1,0,0,1,1", L " i:0,0,1,1,0,0,1,1"}},
    {"Gather rows", "Gather", "axis=0", {"512x256 n:256@512", "8192x256 n:4096@8192"}},
    {"Gather inner", "Gather", "axis=1", {"256x512 n:256@512", "4096x512 n:256@512"}},
    {"Expand", "Expand", "", {"1x64x1x1 i:1,64,40,40", "1x64x1x1 i:1,64,112,112"}},
    {"Tile", "Tile", "", {"1x32x40x40 i:1,2,1,1", "1x32x112x112 i:1,2,1,1"}},
    {"DepthToSpace 2", "DepthToSpace", "blocksize=2", {S, L}},
    {"DepthToSpace 2", "DepthToSpace", "blocksize=2", {S, L}, true},
    {"DepthToSpace 2 CRD", "DepthToSpace", "blocksize=2 mode=CRD", {S, L}},
    {"SpaceToDepth 2", "SpaceToDepth", "blocksize=2", {S, L}},
    {"SpaceToDepth 2", "SpaceToDepth", "blocksize=2", {S, L}, true},
    {"LSTM 64", "LSTM", "hidden_size=64", {"16x1x64 w:1x256x64 w:1x256x64 w:1x512", NULL}, false, 3},
    {"GRU 64", "GRU", "hidden_size=64", {"16x1x64 w:1x192x64 w:1x192x64 w:1x384", NULL}, false, 2},
    {NULL},
};

struct maker {
	struct graph *g;
	const struct op_model *c;
	struct rng rng;
	int input[MAX_IN], ninputs;
	int64_t ints[MAX_ATTR][16];
	struct attr attr[MAX_ATTR];
	int nattr;
};

static int new_value(struct maker *m, const char *name)
{
	char full[48];
	snprintf(full, sizeof full, "%s_%d", name, m->g->nvalues);
	int v = graph_add_value(m->g, full);
	if (v >= 0)
		m->g->value[v].producer = -1;
	return v;
}

static struct shape shape_of(const char *text)
{
	struct shape s = {0};
	for (char *end; *text && s.rank < MAX_RANK; text = *end ? end + 1 : end)
		s.d[s.rank++] = strtoll(text, &end, 10);
	return s;
}

static int from_outside(struct maker *m, const char *text, enum dtype t)
{
	int v = new_value(m, "x");
	m->g->value[v].is_input = true;
	m->g->value[v].t = (struct tensor){.dtype = t, .shape = shape_of(text)};
	m->input[m->ninputs++] = v;
	return v;
}

/* Constant of normal values; absolute ones for variances. */
static int weights(struct maker *m, const char *text, bool positive)
{
	struct shape s = shape_of(text);
	int v = new_value(m, "w"), rc = tensor_alloc(&m->g->arena, DT_F32, &s, &m->g->value[v].t);
	float *p = m->g->value[v].t.data;
	for (int64_t i = 0; rc >= 0 && i < shape_count(&s); i++)
		p[i] = (float)(positive ? fabs(rng_normal(&m->rng)) + .5 : rng_normal(&m->rng) * .1);
	return rc < 0 ? rc : v;
}

/* Constant "1,2,3" as i64 or f32; drawn "256@512": 256 random indices below 512. */
static int numbers(struct maker *m, const char *text, enum dtype t, bool drawn)
{
	struct shape s = {1, {1}};
	for (const char *c = text; *c && !drawn; c++)
		s.d[0] += *c == ',';
	char *end = NULL;
	int64_t below = 0;
	if (drawn) {
		s.d[0] = strtoll(text, &end, 10);
		below = strtoll(end + 1, NULL, 10);
	}
	int v = new_value(m, "k"), rc = tensor_alloc(&m->g->arena, t, &s, &m->g->value[v].t);
	for (int64_t i = 0; rc >= 0 && i < s.d[0]; i++) {
		double x = drawn ? rng_below(&m->rng, (uint32_t)below) : strtod(text, &end);
		tensor_set(&m->g->value[v].t, i, x);
		text = drawn || !*end ? text : end + 1;
	}
	if (t == DT_F32 && !rc && s.d[0] == 1) /* bounds of Clip are scalars */
		m->g->value[v].t.shape.rank = 0;
	return rc < 0 ? rc : v;
}

static struct shape *shape_at(struct maker *m, int v)
{
	return &m->g->value[v].t.shape;
}

/* A 1x1 convolution from all to all channels, so that its neighbours get blocked layouts. */
static int conv(struct maker *m, int x, int64_t channels)
{
	char dims[64];
	snprintf(dims, sizeof dims, "%lldx%lldx1x1", (long long)channels, (long long)channels);
	int in[2] = {x, weights(m, dims, false)}, out = new_value(m, "conv");
	if (in[1] < 0 || out < 0)
		return E_NOMEM;
	int rc = graph_add_node(m->g, "Conv", OP_MODEL_CONV, 18, 2, in, 1, &out, 0, NULL);
	m->g->value[out].t.shape = *shape_at(m, x);
	return rc < 0 ? rc : out;
}

static int input(struct maker *m, const char *text)
{
	switch (text[1] == ':' ? *text : 'x') {
	case 'b':
		return from_outside(m, text + 2, DT_BOOL);
	case 'w':
	case 'p':
		return weights(m, text + 2, *text == 'p');
	case 'i':
	case 'n':
		return numbers(m, text + 2, DT_I64, *text == 'n');
	case 'f':
		return numbers(m, text + 2, DT_F32, false);
	}
	int v = from_outside(m, text, DT_F32);
	return m->c->blocked ? conv(m, v, shape_at(m, v)->d[1]) : v;
}

static void attribute(struct maker *m, char *text)
{
	char *value = strchr(text, '=') + 1, *end;
	struct attr *a = &m->attr[m->nattr];
	value[-1] = 0;
	*a = (struct attr){.name = text, .kind = ATTR_STRING, .s = value};
	int64_t one = strtoll(value, &end, 10);
	if (!*end) {
		a->kind = ATTR_INT;
		a->i = one;
	} else if (strchr(value, ',')) {
		a->kind = ATTR_INTS;
		a->ints = m->ints[m->nattr];
		for (char *c = value; *c; c = *end ? end + 1 : end)
			m->ints[m->nattr][a->n++] = strtoll(c, &end, 10);
	}
	m->nattr++;
}

static int *indexes(struct graph *g, const int *v, int n)
{
	return arena_memdup(&g->arena, v, sizeof *v * (size_t)n);
}

/* Makes the outputs; if blocked, each goes through a convolution, which needs the node's inferred shape. */
static int outputs(struct maker *m, int node)
{
	struct graph *g = m->g;
	int out[4], n = g->node[node].nout, rc = graph_infer(g);
	for (int i = 0; i < n && rc >= 0; i++) {
		out[i] = g->node[node].out[i];
		if (m->c->blocked && shape_at(m, out[i])->rank == 4 && strcmp(m->c->type, "Transpose"))
			rc = out[i] = conv(m, out[i], shape_at(m, out[i])->d[1]);
		if (rc >= 0)
			g->value[out[i]].is_output = true;
	}
	if (rc >= 0) {
		g->output = indexes(g, out, n);
		g->noutputs = n;
		g->input = indexes(g, m->input, m->ninputs);
		g->ninputs = m->ninputs;
		rc = graph_infer(g);
	}
	return rc;
}

static int build(struct maker *m, const char *inputs)
{
	const struct op_model *c = m->c;
	char in_text[256], attr_text[256], *save = NULL;
	int in[MAX_IN], n = 0, out[4], nout = c->nout ? c->nout : 1, rc = E_OK;
	snprintf(in_text, sizeof in_text, "%s", inputs);
	snprintf(attr_text, sizeof attr_text, "%s", c->attrs);
	for (char *w = strtok_r(attr_text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		attribute(m, w);
	for (char *w = strtok_r(in_text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		bool absent = !strcmp(w, "-");
		rc = absent ? E_OK : input(m, w);
		if (rc < 0)
			return rc;
		in[n++] = absent ? -1 : rc;
	}
	for (int i = 0; i < nout; i++)
		out[i] = new_value(m, "y");
	/* Axes as attributes, and Split without a number of outputs, exist only up to opset 13. */
	bool older =
	    !strncmp(c->type, "ReduceM", 7) || !strcmp(c->type, "ReduceL2") || !strcmp(c->type, "Split");
	int opset = older ? 13 : 21;
	int node = graph_add_node(m->g, c->type, OP_MODEL_NODE, opset, n, in, nout, out, m->nattr, m->attr);
	rc = node < 0 ? node : outputs(m, node);
	return rc < 0 ? rc : node;
}

int op_model_make(struct graph *g, const struct op_model *c, const char *inputs)
{
	struct maker m = {.g = g, .c = c};
	rng_seed(&m.rng, 1);
	return build(&m, inputs);
}
