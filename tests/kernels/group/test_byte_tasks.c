/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised networks as integer tasks: the tasks of random small networks, each computed by its reference,
 * give the bits of the operators one after the other. */
#include "kernels/graph/eval.h"
#include "kernels/graph/optimize.h"
#include "kernels/group/group.h"
#include "platform/base/rng.h"
#include "tests/lib/onnx_make.h"

#include <math.h>

enum { F32 = 1, U8 = 2, I8 = 3, I32 = 6, NODES = 80 };

/* A network being made. */
struct net {
	struct onnx_maker k;
	struct rng rng;
	int n, type; /* names so far; type of activations */
	char name[NODES][32];
};

static const char *fresh(struct net *m, const char *stem)
{
	snprintf(m->name[m->n], sizeof *m->name, "%s%d", stem, m->n);
	return m->name[m->n++];
}

static const char *text_of(struct net *m, const char *a, const char *b, const char *c)
{
	return arena_printf(&m->k.a, "%s %s %s", a, b, c);
}

static const char *scalar(struct net *m, float v)
{
	const char *name = fresh(m, "s");
	mk_init(&m->k, name, F32, "", &v, sizeof v);
	return name;
}

static const char *zero_point(struct net *m, int type)
{
	uint8_t v = (uint8_t)(type == I8 ? rng_below(&m->rng, 31) - 15 : rng_below(&m->rng, 256));
	const char *name = fresh(m, "z");
	mk_init(&m->k, name, type, "", &v, 1);
	return name;
}

/* v as bytes and back. */
static const char *with_params(struct net *m, const char *v, const char *s, const char *z)
{
	const char *q = fresh(m, "q"), *d = fresh(m, "d");
	mk_node(&m->k, "QuantizeLinear", text_of(m, v, s, z), q)->name = mk_text(q);
	mk_node(&m->k, "DequantizeLinear", text_of(m, q, s, z), d)->name = mk_text(d);
	return d;
}

static const char *through_bytes(struct net *m, const char *v, float scale)
{
	const char *s = scalar(m, scale);
	return with_params(m, v, s, zero_point(m, m->type));
}

/* Dequantised random weights or bias. */
static const char *constant(struct net *m, int type, const char *dims, int64_t elems, int n, float scale)
{
	const char *w = fresh(m, "w"), *s = fresh(m, "ws"), *z = fresh(m, "wz"), *d = fresh(m, "wd");
	void *data = ARENA_ARRAY(&m->k.a, int32_t, elems), *zero = ARENA_ARRAY(&m->k.a, int32_t, n);
	float *scales = ARENA_ARRAY(&m->k.a, float, n);
	for (int64_t i = 0; i < elems; i++)
		if (type == I32)
			((int32_t *)data)[i] = (int32_t)rng_below(&m->rng, 4001) - 2000;
		else
			((int8_t *)data)[i] = (int8_t)(rng_below(&m->rng, 256) - 128);
	for (int i = 0; i < n; i++)
		scales[i] = scale * (float)(1 + i % 3);
	size_t bytes = type == I32 ? sizeof(int32_t) : 1;
	mk_init(&m->k, w, type, dims, data, (size_t)elems * bytes);
	mk_init(&m->k, s, F32, arena_printf(&m->k.a, "%d", n), scales, (size_t)n * sizeof *scales);
	mk_init(&m->k, z, type, arena_printf(&m->k.a, "%d", n), zero, (size_t)n * bytes);
	mk_attr_int(&m->k, mk_node(&m->k, "DequantizeLinear", text_of(m, w, s, z), d), "axis", 0);
	return d;
}

struct conv {
	int64_t c, k, r, stride, group;
};

static const char *convolve(struct net *m, const char *x, const struct conv *v)
{
	int64_t per = v->c / v->group, pad = v->r / 2, pads[] = {pad, pad, pad, pad},
		strides[] = {v->stride, v->stride};
	const char *dims = arena_printf(&m->k.a, "%d %d %d %d", (int)v->k, (int)per, (int)v->r, (int)v->r);
	const char *w = constant(m, I8, dims, v->k * per * v->r * v->r, (int)v->k, 1 / 256.0f),
		   *y = fresh(m, "y");
	const char *b = constant(m, I32, arena_printf(&m->k.a, "%d", (int)v->k), v->k, 1, 1 / 4096.0f);
	Onnx__NodeProto *n = mk_node(&m->k, "Conv", text_of(m, x, w, b), y);
	n->name = mk_text(y);
	mk_attr_ints(&m->k, n, "pads", 4, pads);
	mk_attr_ints(&m->k, n, "strides", 2, strides);
	mk_attr_int(&m->k, n, "group", v->group);
	return y;
}

static const char *apply(struct net *m, const char *type, const char *x, const char *other)
{
	const char *y = fresh(m, "y");
	mk_node(&m->k, type, text_of(m, x, other, ""), y)->name = mk_text(y);
	return y;
}

static const char *pool(struct net *m, const char *x)
{
	const char *y = fresh(m, "y");
	Onnx__NodeProto *n = mk_node(&m->k, "MaxPool", x, y);
	n->name = mk_text(y);
	mk_attr_ints(&m->k, n, "kernel_shape", 2, (int64_t[]){3, 3});
	mk_attr_ints(&m->k, n, "pads", 4, (int64_t[]){1, 1, 1, 1});
	mk_attr_ints(&m->k, n, "strides", 2, (int64_t[]){2, 2});
	return y;
}

/* A block of a residual network between two quantisations: 3x3, depthwise and 1x1 convolutions, a sum of two
 * quantised values, and pooling of bytes. */
static struct blob make_net(struct net *m, uint64_t seed)
{
	*m = (struct net){.type = seed % 2 ? I8 : U8};
	rng_seed(&m->rng, seed);
	mk_start(&m->k, 13, NODES);
	int64_t c = 1 + rng_below(&m->rng, 40), k = 1 + rng_below(&m->rng, 40), h = 4 + rng_below(&m->rng, 6);
	mk_input(&m->k, "x", F32, arena_printf(&m->k.a, "1 %d %d %d", (int)c, (int)h, (int)h + 1));
	const char *x = through_bytes(m, "x", 1 / 100.0f);
	const char *a =
	    through_bytes(m, apply(m, "Relu", convolve(m, x, &(struct conv){c, k, 3, 1, 1}), "-"), .1f);
	const char *b = through_bytes(m, convolve(m, a, &(struct conv){k, k, 3, 1, k}), .05f);
	const char *s = through_bytes(m, convolve(m, b, &(struct conv){k, k, 1, 1, 1}), .1f);
	if (seed % 3) /* else bytes that only the sum reads */
		s = apply(m, "Relu", apply(m, "Add", s, a), "-");
	else
		s = apply(m, "Add", s, through_bytes(m, convolve(m, a, &(struct conv){k, k, 1, 1, 1}), .1f));
	const char *scale = scalar(m, .1f), *zero = zero_point(m, m->type);
	s = with_params(m, pool(m, with_params(m, s, scale, zero)), scale, zero);
	s = through_bytes(m, convolve(m, s, &(struct conv){k, c, 1, 2, 1}), .2f);
	mk_node(&m->k, "Relu", s, "out")->name = mk_text("out");
	mk_output(&m->k, "out");
	return mk_bytes(&m->k);
}

/* ---- running steps ---- */

/* A network in steps; plain tensors of its graph's values. */
struct runner {
	struct graph *g;
	struct steps *s;
	struct tensor *plain;
	struct arena a;
	int bytes; /* tasks of nodes that read or write bytes */
};

static void *give_memory(struct runner *r, int v)
{
	const struct operand *o = &r->s->value[v].buf;
	size_t bytes = (size_t)operand_elems(o) * dtype_bytes(o->dtype);
	void *p = arena_alloc(&r->a, bytes + 64);
	memset(p, 0x5a, bytes);
	return p;
}

static void run_task(struct runner *r, const struct step *st)
{
	void *buf[MAX_OPERANDS] = {0};
	const struct task *t = st->task;
	bool bytes = false;
	for (int i = 0; i < t->noperands; i++) {
		int v = st->value[i];
		bytes |= t->operand[i].dtype == DT_U8 || t->operand[i].dtype == DT_I8;
		if (v < 0)
			continue;
		buf[i] = give_memory(r, v);
		if (t->operand[i].role != ROLE_OUT)
			operand_pack(&r->s->value[v].buf, r->plain[r->s->value[v].of].data, buf[i]);
	}
	CHECK_OK(task_reference(t, buf, &r->a));
	for (int i = 0; i < t->noperands; i++)
		if (t->operand[i].role == ROLE_OUT)
			operand_unpack(&r->s->value[st->value[i]].buf, buf[i],
				       r->plain[r->s->value[st->value[i]].of].data);
	r->bytes += bytes && st->anchor >= 0;
}

static void run_steps(struct runner *r, const float *x)
{
	const struct graph *g = r->g;
	r->plain = ARENA_ARRAY(&r->a, struct tensor, g->nvalues + 1);
	for (int v = 0; v < g->nvalues; v++) {
		const struct tensor *t = &g->value[v].t;
		if (t->data)
			r->plain[v] = *t;
		else
			CHECK_OK(tensor_alloc(&r->a, t->dtype, &t->shape, &r->plain[v]));
	}
	const struct tensor *in = &r->plain[g->input[0]];
	memcpy(in->data, x, (size_t)shape_count(&in->shape) * sizeof *x);
	for (int i = 0; i < r->s->nsteps; i++) {
		const struct step *st = &r->s->step[i];
		if (st->fused)
			continue;
		if (st->kind == STEP_TASK)
			run_task(r, st);
		else if (st->kind == STEP_HOST)
			CHECK_OK(eval_node(g, st->node, r->plain, &r->a));
		else
			r->plain[r->s->value[st->value[1]].of].data =
			    r->plain[r->s->value[st->value[0]].of].data;
	}
}

static void check_net(uint64_t seed, int lanes)
{
	struct net m;
	struct blob b = make_net(&m, seed);
	struct graph *plain;
	const struct import_opts none = {0};
	const struct target t = {.lanes = lanes};
	struct choices c = {0};
	struct runner r = {0};
	struct rng rng;
	REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &plain));
	REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &r.g));
	REQUIRE_OK(graph_optimize(plain));
	REQUIRE_OK(graph_optimize(r.g));
	choices_set(&c, &r.a, CHOICE_BYTES, CHOICE_ALL, 1);
	REQUIRE_OK(graph_steps(r.g, &t, &c, &r.a, &r.s));
	REQUIRE_OK(steps_check(r.g, r.s));
	struct tensor *want = ARENA_ARRAY(&r.a, struct tensor, plain->nvalues + 1),
		      in = plain->value[plain->input[0]].t;
	REQUIRE_OK(tensor_alloc(&r.a, DT_F32, &plain->value[plain->input[0]].t.shape, &in));
	rng_seed(&rng, seed);
	for (int64_t i = 0; i < shape_count(&in.shape); i++)
		tensor_set(&in, i, (double)rng_below(&rng, 2001) / 1000 - 1);
	REQUIRE_OK(eval_graph(plain, &in, want, &r.a));
	run_steps(&r, in.data);
	const struct tensor *x = &want[plain->output[0]], *y = &r.plain[r.g->output[0]];
	CHECK(shape_equal(&x->shape, &y->shape));
	CHECK(!memcmp(x->data, y->data, (size_t)shape_count(&x->shape) * sizeof(float)));
	CHECK(r.bytes == (seed % 3 ? 7 : 8)); /* the sum is part of a convolution, as are Relu and
					       * dequantisations */
	graph_free(plain);
	graph_free(r.g);
	arena_free(&r.a);
	arena_free(&m.k.a);
}

TEST(tasks_give_the_operators_bits)
{
	for (uint64_t seed = 1; seed <= 40; seed++)
		check_net(seed, 4 << seed / 3 % 3);
}

TEST_MAIN
