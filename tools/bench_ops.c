/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-ops: everything that is not a convolution, at default schedules, on one core. Each case is a
 * model of one node, or of one between 1x1 convolutions, which make its neighbours blocked by channels; only
 * what is not a convolution counts, conversions of layout too. The figure is the tenth percentile of --runs
 * runs (60).
 *
 * The roofline is the larger of two times. Arithmetic: the vector operations that the operator's definition
 * takes (kernels/draft.h), two a cycle. Memory: plain loops that read the inputs once and write the outputs
 * once (of a Slice or a Gather what it takes), timed beside the case on as many bytes, over each other where
 * the kernel may write over its input. Not bytes over the bandwidth of reading: a written line is read and
 * goes back, so that a copy within L2 reaches half of that. "bound": which one, and what holds these bytes.
 *
 * bench_ops [--runs N] [--case TEXT] [--fallback] [--verbose]: cases whose name has TEXT; without a compiler;
 * every kernel of each. */
#include "kernels/draft.h"
#include "kernels/eval.h"
#include "kernels/space.h"
#include "tools/ready.h"
#include "tools/stats.h"
#include "tools/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Inputs: "1x64x40x40" one from outside, "b:..." a bool one; "w:64x64" normal constants, "i:0,2,1" integers,
 * "f:0.5,1" floats, "-" absent. Attributes: "axis=1 pads=0,0 axes=2, alpha=0.5 mode=linear". */
struct op_case {
	const char *name, *type, *attrs;
	const char *in[2]; /* working set in L2, in L3; NULL: none */
	bool blocked;      /* between convolutions */
	int nout;          /* 0: 1 */
};

#define S "1x64x40x40"
#define L "1x64x112x112"
#define SEQ "1x196x512"
#define LSEQ "4x784x512"

static const struct op_case cases[] = {
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
};

enum { NCASES = sizeof cases / sizeof *cases, MAX_IN = 8, MAX_ATTR = 6, MAX_RUNS = 10000 };

struct bench {
	struct host host;
	struct kernel_source source;
	struct table table;
	int runs;
	bool verbose;
	float *from, *to; /* of the plain loops */
};

enum { STREAM_MAX = 64 << 20, STREAM_RUNS = 64 };
#define CONV "conv" /* every one's name */
#define NODE "node"

/* ---- a case's graph ---- */

struct maker {
	struct graph *g;
	const struct op_case *c;
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

/* Normal values; absolute ones for variances. */
static int weights(struct maker *m, const char *text, bool positive)
{
	struct shape s = shape_of(text);
	int v = new_value(m, "w"), rc = tensor_alloc(&m->g->arena, DT_F32, &s, &m->g->value[v].t);
	float *p = m->g->value[v].t.data;
	for (int64_t i = 0; rc >= 0 && i < shape_count(&s); i++)
		p[i] = (float)(positive ? fabs(rng_normal(&m->rng)) + .5 : rng_normal(&m->rng) * .1);
	return rc < 0 ? rc : v;
}

/* "1,2,3" as i64 or f32; "256@512": that many indices below that. */
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
	if (t == DT_F32 && !rc && s.d[0] == 1) /* Clip's bounds */
		m->g->value[v].t.shape.rank = 0;
	return rc < 0 ? rc : v;
}

static struct shape *shape_at(struct maker *m, int v)
{
	return &m->g->value[v].t.shape;
}

/* Each output channel from each input channel: neighbours in blocked layouts. */
static int conv(struct maker *m, int x, int64_t channels)
{
	char dims[64];
	snprintf(dims, sizeof dims, "%lldx%lldx1x1", (long long)channels, (long long)channels);
	int in[2] = {x, weights(m, dims, false)}, out = new_value(m, "conv");
	if (in[1] < 0 || out < 0)
		return E_NOMEM;
	int rc = graph_add_node(m->g, "Conv", CONV, 18, 2, in, 1, &out, 0, NULL);
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

/* The outputs, each behind a convolution where blocked: the shape of what the node makes is inferred first.
 */
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

/* Returns the node. */
static int build(struct maker *m, const char *inputs)
{
	const struct op_case *c = m->c;
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
	/* Axes as attributes, and Split without a number of outputs, ended later than opset 13. */
	bool older =
	    !strncmp(c->type, "ReduceM", 7) || !strcmp(c->type, "ReduceL2") || !strcmp(c->type, "Split");
	int opset = older ? 13 : 21;
	int node = graph_add_node(m->g, c->type, NODE, opset, n, in, nout, out, m->nattr, m->attr);
	rc = node < 0 ? node : outputs(m, node);
	return rc < 0 ? rc : node;
}

/* ---- figures ---- */

static double tensor_bytes(const struct graph *g, int v)
{
	const struct tensor *t = &g->value[v].t;
	return (double)shape_count(&t->shape) * (double)dtype_bytes(t->dtype);
}

/* What the node must move: inputs and outputs once. */
struct moved {
	double in, out;
};

static struct moved node_bytes(const struct graph *g, const struct op_case *c, const struct node *n)
{
	struct moved m = {0};
	bool takes = !strcmp(c->type, "Slice") || !strcmp(c->type, "Gather");
	for (int i = 0; i < n->nout; i++)
		m.out += n->out[i] >= 0 ? tensor_bytes(g, n->out[i]) : 0;
	for (int i = 0; i < n->nin; i++)
		m.in += n->in[i] >= 0 ? tensor_bytes(g, n->in[i]) : 0;
	if (takes && m.in > m.out)
		m.in = m.out;
	return m;
}

static const char *level(const struct target *t, double bytes)
{
	return bytes <= (double)t->l1_bytes   ? "L1"
	       : bytes <= (double)t->l2_bytes ? "L2"
	       : bytes <= (double)t->l3_bytes ? "L3"
					      : "memory";
}

static size_t stream_size(double bytes)
{
	return bytes > STREAM_MAX ? STREAM_MAX : ((size_t)bytes + 4095) / 4096 * 4096;
}

/* Of loops that move as much; the part of a page counts as a part. `over`: the output lies on the input. */
static double stream_ns(const struct bench *b, struct moved m, bool over)
{
	double ns[STREAM_RUNS];
	size_t in = stream_size(m.in), out = stream_size(m.out);
	int rc = E_OK;
	for (int i = 0; i < STREAM_RUNS && rc >= 0; i++) {
		int64_t start = clock_now(&clock_real);
		rc = target_stream(&b->host.target, over ? b->from : b->to, out, b->from, in);
		ns[i] = (double)(clock_now(&clock_real) - start);
	}
	return rc < 0 ? 0 : stats_quantile(ns, STREAM_RUNS, .1) * (m.in + m.out) / (double)(in + out);
}

static bool counts(const struct graph *g, const struct step *s)
{
	return s->anchor < 0 || strcmp(node_type(&g->node[s->anchor]), "Conv") != 0;
}

/* A kernel with its default schedule. */
static void say_kernel(const struct bench *b, const struct plan_kernel *k, const struct step *s)
{
	struct arena a = {0};
	struct space *space;
	char cand[CAND_MAX] = "";
	if (s->kind == STEP_TASK && space_make(&a, s->task, &b->host.target, NULL, &space) >= 0)
		space_default(space, cand);
	fprintf(stderr, "  %9.1f us %-8s %s (%s)  %s\n", (double)k->ns / 1e3, ready_origin(k->origin),
		k->label, k->name, cand);
	arena_free(&a);
}

struct figures {
	double ns, arithmetic_ns;
	bool over; /* one kernel, which may write over its input */
	int kernels;
	enum kernel_origin worst;
};

static double arithmetic_ns(const struct target *t, const struct task *task)
{
	return draft_arithmetic(task, t->lanes) / 2 / draft_ghz(t);
}

static bool writes_over(const struct task *t)
{
	int out = t->stage[t->nstages - 1].out.operand;
	for (int i = 0; i < t->noperands; i++)
		if (t->operand[i].role == ROLE_IN && task_overwrites(t, i) &&
		    operand_elems(&t->operand[i]) == operand_elems(&t->operand[out]))
			return true;
	return false;
}

/* The sum over what is not a convolution, of each run. */
static int measure(struct bench *b, const struct graph *g, const struct steps *s, struct plan *p,
		   const struct tensor *in, struct tensor *out, struct figures *f)
{
	static double ns[MAX_RUNS];
	const struct plan_kernel *k;
	int n = plan_kernels(p, &k), rc = E_OK;
	for (int i = 0; i < b->runs + 3 && rc >= 0; i++) {
		rc = plan_run_timed(p, in, out, &clock_real);
		double *sum = &ns[i < 3 ? 0 : i - 3];
		*sum = 0;
		for (int j = 0; j < n; j++)
			*sum += counts(g, &s->step[k[j].step]) ? (double)k[j].ns : 0;
	}
	for (int j = 0; j < n && rc >= 0; j++) {
		const struct step *step = &s->step[k[j].step];
		if (!counts(g, step))
			continue;
		f->kernels++;
		f->worst = k[j].origin > f->worst ? k[j].origin : f->worst;
		if (step->kind == STEP_TASK)
			f->arithmetic_ns += arithmetic_ns(&b->host.target, step->task);
		f->over = f->kernels == 1 && step->kind == STEP_TASK && writes_over(step->task);
		if (b->verbose)
			say_kernel(b, &k[j], step);
	}
	f->ns = stats_quantile(ns, b->runs, .1);
	return rc;
}

static void row(struct bench *b, const struct op_case *c, const char *in, struct moved m,
		const struct figures *f)
{
	double bytes = m.in + m.out, memory = stream_ns(b, m, f->over);
	bool arithmetic = f->arithmetic_ns > memory;
	char shapes[64];
	snprintf(shapes, sizeof shapes, "%.*s%s", (int)strcspn(in, "-:"), in, c->blocked ? " blocked" : "");
	table_cell(&b->table, "%s", c->name);
	table_cell(&b->table, "%s", shapes);
	table_cell(&b->table, "%.1f", f->ns / 1e3);
	table_cell(&b->table, "%.0f", bytes / 1024);
	table_cell(&b->table, "%.1f", f->ns > 0 ? bytes / f->ns : 0);
	table_cell(&b->table, f->ns > memory / 20 ? "%.0f %%" : "in place",
		   100 * fmax(memory, f->arithmetic_ns) / f->ns);
	table_cell(&b->table, "%s",
		   arithmetic ? "arithmetic" : level(&b->host.target, f->over ? m.in : bytes));
	table_cell(&b->table, "%d", f->kernels);
	table_cell(&b->table, "%s", f->worst > FROM_DEFAULT ? ready_origin(f->worst) : "");
}

static int run_graph(struct bench *b, const struct op_case *c, struct graph *g, int node, const char *shapes)
{
	struct arena a = {0};
	struct steps *s;
	struct plan *p = NULL;
	struct tensor *in, *out;
	struct figures f = {0};
	struct choices alone = {0}; /* no kernel that does a convolution too */
	struct moved bytes = node_bytes(g, c, &g->node[node]);
	int rc = graph_optimize(g);
	choices_set(&alone, &a, CHOICE_FUSE, CONV, 1);
	choices_set(&alone, &a, CHOICE_FUSE, NODE, 1);
	choices_set(&alone, &a, CHOICE_JOIN, CONV, 0);
	if (rc >= 0)
		rc = graph_steps(g, &b->host.target, &alone, &a, &s);
	if (rc >= 0)
		rc = plan_build(g, s, &b->host.target, b->source.find ? &b->source : NULL, b->host.pool, &p);
	if (rc >= 0)
		rc = model_inputs(g, 1, &a, &in);
	if (rc >= 0)
		rc = model_outputs(g, &a, &out);
	if (rc >= 0)
		rc = measure(b, g, s, p, in, out, &f);
	if (rc >= 0)
		row(b, c, shapes, bytes, &f);
	plan_free(p);
	arena_free(&a);
	return rc;
}

static int run_case(struct bench *b, const struct op_case *c, const char *in)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	g->name = c->name;
	struct maker m = {.g = g, .c = c};
	rng_seed(&m.rng, 1);
	int rc = build(&m, in);
	if (rc >= 0)
		rc = run_graph(b, c, g, rc, in);
	graph_free(g);
	return fail_in(rc, "%s %s", c->name, in);
}

/* In huge pages where there are some; half a page apart, so that no load waits for a store 4 KB before it. */
static int stream_buffers(struct bench *b)
{
	size_t bytes = 2 * STREAM_MAX + 2048;
	b->from = aligned_alloc(2 << 20, (bytes + (2 << 20) - 1) >> 21 << 21);
	if (!b->from)
		return fail(E_NOMEM, "no memory for plain loops");
	(void)madvise(b->from, bytes, MADV_HUGEPAGE);
	memset(b->from, 0, bytes);
	b->to = b->from + (STREAM_MAX + 2048) / sizeof *b->to;
	return E_OK;
}

static int run_cases(struct bench *b, const char *only)
{
	static const char *const head[] = {"operator",    "shape", "us",      "KiB", "GB/s",
					   "of roofline", "bound", "kernels", ""};
	b->table.align = "llrrrrlrl";
	for (int i = 0; i < 9; i++)
		table_cell(&b->table, "%s", head[i]);
	int rc = stream_buffers(b);
	for (int i = 0; i < NCASES && rc >= 0; i++)
		for (int k = 0; k < 2 && rc >= 0; k++)
			if (cases[i].in[k] && (!only || strstr(cases[i].name, only)))
				rc = run_case(b, &cases[i], cases[i].in[k]);
	if (rc >= 0)
		table_print(&b->table, false);
	free(b->from);
	return rc;
}

static int run_ops(const struct args *a)
{
	struct bench b = {.runs = (int)arg_int(a, "runs", 60), .verbose = arg_flag(a, "verbose")};
	char dir[4096];
	if (b.runs < 1 || b.runs > MAX_RUNS)
		return fail(E_USAGE, "--runs %d: 1 to %d", b.runs, MAX_RUNS);
	int rc = model_cache_dir(a, dir, sizeof dir);
	if (rc >= 0)
		rc = host_open(a, dir, true, &b.host);
	bool fallback = arg_flag(a, "fallback");
	if (rc >= 0 && !fallback)
		rc = defaults_open(NULL, &b.host, &b.source);
	if (rc < 0)
		return rc;
	rc = run_cases(&b, arg_str(a, "case", NULL));
	if (!fallback)
		defaults_close(&b.source);
	host_close(&b.host);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"runs", OPT_INT, "N", "runs of each case (60)"},
    {"case", OPT_STR, "TEXT", "only cases whose name has it"},
    {"fallback", OPT_FLAG, NULL, "built-in kernels"},
    {"verbose", OPT_FLAG, NULL, "say every kernel"},
    OPT_THREADS,
    OPT_EXACT,
    OPT_CACHE,
    {NULL},
};

static const struct cmd ops = {
    .usage = "[--runs N] [--case TEXT] [--fallback] [--verbose] [--threads N]",
    .summary = "how near everything that is not a convolution comes to its roofline",
    .details = "",
    .max_pos = 0,
    .opts = opts,
    .run = run_ops,
    .name = "ops",
};

int main(int argc, char **argv)
{
	return cmd_main(&ops, argc, argv);
}
