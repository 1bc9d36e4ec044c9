/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators with broadcasting. */
#include "kernels/graph/structure.h"

#include <math.h>
#include <string.h>

/* Operators and their bodies. r0, r1: the inputs; an input with one known element becomes an immediate. */
static const char maps[] =
    "Relu: r0 0 max\0"
    "LeakyRelu: 0 r0 le r0 r0 {alpha=0.01} mul select\0"
    "PRelu: 0 r0 le r0 r0 r1 mul select\0"
    "ThresholdedRelu: {alpha=1} r0 lt r0 0 select\0"
    "Elu: 0 r0 le r0 r0 exp 1 sub {alpha=1} mul select\0"
    "Selu: 0 r0 le r0 r0 exp 1 sub {alpha=1.67326319} mul select {gamma=1.05070102} mul\0"
    "Celu: r0 0 max r0 {alpha=1} div exp 1 sub {alpha=1} mul 0 min add\0"
    "HardSigmoid: r0 {alpha=0.2} mul {beta=0.5} add 0 max 1 min\0"
    "HardSwish: r0 r0 3 add 0 max 6 min 0.166666672 mul mul\0"
    "Softplus: r0 0 max r0 abs neg exp 1 add log add\0"
    "Softsign: r0 r0 abs 1 add div\0"
    "Mish: r0 r0 0 max r0 abs neg exp 1 add log add tanh mul\0"
    "Swish: r0 r0 {alpha=1} mul sigmoid mul\0"
    "Sigmoid: r0 sigmoid\0"
    "Tanh: r0 tanh\0"
    "Exp: r0 exp\0"
    "Log: r0 log\0"
    "Sqrt: r0 sqrt\0"
    "Abs: r0 abs\0"
    "Neg: r0 neg\0"
    "Floor: r0 floor\0"
    "Ceil: r0 ceil\0"
    "Round: r0 rint\0"
    "Reciprocal: r0 recip\0"
    "Erf: r0 erf\0"
    "Sign: r0 sign\0";

/* The body of an operator; NULL: it has none. */
static const char *body_of(const char *type)
{
	size_t n = strlen(type);
	for (const char *p = maps; *p; p += strlen(p) + 1)
		if (!strncmp(p, type, n) && p[n] == ':')
			return p + n + 2;
	return NULL;
}

static const char leaky[] = "r0 {alpha=0.01} mul r0 max"; /* 0 < alpha <= 1 */
static const char gelu_tanh[] =
    "r0 0.5 mul r0 r0 square r0 mul 0.0447149985 mul add 0.797884583 mul tanh 1 add mul";

/* A stage over the output's dims; each input is pushed as a read, or as an immediate if it has one known
 * element. */
struct map {
	struct task *t;
	struct stage *s;
	const struct opctx *c;
	int out;
};

static int map_begin(struct map *m, const struct opctx *c, struct task *t)
{
	*m = (struct map){.t = t, .c = c};
	if (c->out[0].shape.rank < 1)
		return fail(E_UNSUPPORTED, "no structured form for scalars");
	m->s = structure_stage(t);
	structure_axes(m->s, &c->out[0].shape);
	return E_OK;
}

static int map_input(struct map *m, int k)
{
	const struct tensor *x = &m->c->in[k];
	int operand;
	if (x->data && shape_count(&x->shape) == 1) {
		prog_imm(&m->s->body, (float)tensor_get(x, 0));
		return E_OK;
	}
	int rc = structure_operand(m->t, m->c, 'i', k, &operand);
	if (rc < 0)
		return rc;
	structure_broadcast(m->t, m->s, operand, m->c->out[0].shape.rank);
	prog_read(&m->s->body, m->s->nreads - 1);
	return E_OK;
}

static int map_end(struct map *m)
{
	int rc = structure_operand(m->t, m->c, 'o', 0, &m->out);
	if (rc >= 0)
		structure_out(m->t, m->s, m->out);
	return rc;
}

int structure_map(const struct opctx *c, struct task *t)
{
	const char *type = node_type(c->node), *body = body_of(type);
	int operand, rc;
	struct map m;
	if (!strcmp(type, "Gelu"))
		body = strcmp(node_str(c->node, "approximate", "none"), "tanh") ? "r0 gelu" : gelu_tanh;
	if (!strcmp(type, "Swish") && node_float(c->node, "alpha", 1) == 1)
		body = "r0 silu";
	float alpha = node_float(c->node, "alpha", .01f);
	if (!strcmp(type, "LeakyRelu") && alpha > 0 && alpha <= 1)
		body = leaky;
	if (!body)
		return fail(E_UNSUPPORTED, "%s has no structured form", type);
	if ((rc = map_begin(&m, c, t)) < 0)
		return rc;
	for (int k = 0; k < (strstr(body, "r1") ? 2 : 1); k++) {
		if ((rc = structure_operand(t, c, 'i', k, &operand)) < 0)
			return rc;
		structure_broadcast(t, m.s, operand, c->out[0].shape.rank);
	}
	prog_text(&m.s->body, c->node, body);
	return map_end(&m);
}

/* Sums of s32 as f32, rounded to nearest even. The product with 1 makes a float of a whole value (task.h): else
 * what follows would be summed and multiplied in s32, which is too narrow for it. */
int structure_cast(const struct opctx *c, struct task *t)
{
	struct map m;
	if (c->in[0].dtype != DT_I32 || c->out[0].dtype != DT_F32 || c->in[0].data)
		return fail(E_UNSUPPORTED, "Cast of these types");
	int rc = map_begin(&m, c, t);
	if (rc >= 0)
		rc = map_input(&m, 0);
	if (rc < 0)
		return rc;
	prog_imm(&m.s->body, 1);
	prog_add(&m.s->body, P_MUL);
	return map_end(&m);
}

/* Bounds are attributes before opset 11, optional inputs later; in both cases they must be constants. */
int structure_clip(const struct opctx *c, struct task *t)
{
	static const struct {
		const char *attr;
		enum prog_op op;
	} bounds[] = {{"min", P_MAX}, {"max", P_MIN}};
	struct map m;
	int rc = map_begin(&m, c, t);
	if (rc < 0 || (rc = map_input(&m, 0)) < 0)
		return rc;
	for (int k = 0; k < 2; k++) {
		const struct attr *a = node_attr(c->node, bounds[k].attr);
		bool input = c->nin > k + 1 && c->in[k + 1].dtype != DT_NONE;
		if (!a && !input)
			continue;
		if (input && !c->in[k + 1].data)
			return fail(E_UNSUPPORTED, "Clip by a computed bound");
		prog_imm(&m.s->body, input ? (float)tensor_get(&c->in[k + 1], 0) : a->f);
		prog_add(&m.s->body, bounds[k].op);
	}
	return map_end(&m);
}

int structure_chain(const struct opctx *c, struct task *t)
{
	static const struct {
		char type[4];
		uint8_t op; /* enum prog_op */
	} ops[] = {{"Add", P_ADD}, {"Sum", P_ADD}, {"Sub", P_SUB}, {"Mul", P_MUL},
		   {"Div", P_DIV}, {"Min", P_MIN}, {"Max", P_MAX}};
	struct map m;
	int rc = map_begin(&m, c, t);
	for (int k = 0; k < c->nin && rc >= 0; k++) {
		rc = map_input(&m, k);
		for (size_t i = 0; k > 0 && i < sizeof ops / sizeof *ops; i++)
			if (!strcmp(ops[i].type, node_type(c->node)))
				prog_add(&m.s->body, ops[i].op);
	}
	return rc < 0 ? rc : map_end(&m);
}

int structure_power(const struct opctx *c, struct task *t)
{
	struct map m;
	int rc = map_begin(&m, c, t);
	if (rc < 0 || (rc = map_input(&m, 0)) < 0)
		return rc;
	bool known = c->in[1].data && shape_count(&c->in[1].shape) == 1;
	double e = known ? tensor_get(&c->in[1], 0) : 0;
	if (known && (e == 2 || e == 0.5 || e == -1)) {
		prog_add(&m.s->body, e == 2 ? P_SQUARE : e == 0.5 ? P_SQRT : P_RECIP);
		return map_end(&m);
	}
	if ((rc = map_input(&m, 1)) < 0)
		return rc;
	prog_add(&m.s->body, P_POW);
	return map_end(&m);
}

/* x * m0[c] + m1[c], folded in double. */
int structure_norm_map(const struct opctx *c, struct task *t)
{
	struct shape channels = {1, {c->in[0].shape.rank > 1 ? c->in[0].shape.d[1] : 0}};
	struct map m;
	int rc, operand[2];
	if (c->in[0].shape.rank < 2 || c->nin < 5)
		return fail(E_UNSUPPORTED, "BatchNormalization of rank %d", c->in[0].shape.rank);
	for (int k = 1; k < 5; k++)
		if (!c->in[k].data || c->in[k].dtype != DT_F32 ||
		    shape_count(&c->in[k].shape) != channels.d[0])
			return fail(E_UNSUPPORTED, "BatchNormalization with computed statistics");
	for (int k = 0; k < 2; k++)
		if ((rc = tensor_alloc(c->arena, DT_F32, &channels, &c->made[k])) < 0)
			return rc;
	double eps = (double)node_float(c->node, "epsilon", 1e-5f);
	for (int64_t i = 0; i < channels.d[0]; i++) {
		double scale = tensor_get(&c->in[1], i) / sqrt(tensor_get(&c->in[4], i) + eps);
		tensor_set(&c->made[0], i, scale);
		tensor_set(&c->made[1], i, tensor_get(&c->in[2], i) - tensor_get(&c->in[3], i) * scale);
	}
	if ((rc = map_begin(&m, c, t)) < 0 || (rc = map_input(&m, 0)) < 0)
		return rc;
	for (int k = 0; k < 2; k++) {
		if ((rc = structure_operand(t, c, 'm', k, &operand[k])) < 0)
			return rc;
		structure_read(m.s, operand[k])->dim[0].coef[1] = 1;
		prog_read(&m.s->body, m.s->nreads - 1);
		prog_add(&m.s->body, k ? P_ADD : P_MUL);
	}
	return map_end(&m);
}
