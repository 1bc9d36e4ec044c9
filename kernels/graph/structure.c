/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/structure.h"
#include "kernels/task/task_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct form {
	char type[22];
	structure_fn *fn;
	bool bytes; /* also of tensors of u8 or i8 */
	bool map;   /* element by element */
	bool words; /* also of tensors of i32 */
} forms[] = {
    {"Conv", structure_conv},
    {"ConvTranspose", structure_deconv},
    {"MaxPool", structure_pool, true},
    {"AveragePool", structure_pool},
    {"MatMul", structure_matmul},
    {"Gemm", structure_gemm},
    {"Clip", structure_clip, .map = true},
    {"Add", structure_chain, .map = true},
    {"Mul", structure_chain, .map = true},
    {"Min", structure_chain, .map = true},
    {"Max", structure_chain, .map = true},
    {"Sum", structure_chain, .map = true},
    {"Sub", structure_chain, .map = true},
    {"Div", structure_chain, .map = true},
    {"Pow", structure_power, .map = true},
    {"BatchNormalization", structure_norm_map, .map = true},
    {"GlobalAveragePool", structure_reduce},
    {"GlobalMaxPool", structure_reduce},
    {"ReduceMean", structure_reduce},
    {"ReduceSum", structure_reduce},
    {"ReduceMax", structure_reduce},
    {"ReduceMin", structure_reduce},
    {"ReduceProd", structure_reduce},
    {"ReduceSumSquare", structure_reduce},
    {"ReduceL1", structure_reduce},
    {"ReduceL2", structure_reduce},
    {"ReduceLogSum", structure_reduce},
    {"Softmax", structure_softmax},
    {"LogSoftmax", structure_softmax},
    {"LRN", structure_lrn},
    {"LayerNormalization", structure_normalize},
    {"InstanceNormalization", structure_normalize},
    {"GroupNormalization", structure_group},
    {"Transpose", structure_move, true},
    {"Slice", structure_move, true},
    {"Expand", structure_move},
    {"Tile", structure_move},
    {"Gather", structure_move},
    {"Resize", structure_resize, true},
    {"Upsample", structure_resize, true},
    {"Pad", structure_pad},
    {"DepthToSpace", structure_depth, true},
    {"SpaceToDepth", structure_depth, true},
    {"QLinearConv", structure_quant_conv, true},
    {"QLinearMatMul", structure_quant_matmul, true},
    {"ConvInteger", structure_integer_conv, .bytes = true, .words = true},
    {"MatMulInteger", structure_integer_matmul, .bytes = true, .words = true},
    {"Cast", structure_cast, .bytes = true, .map = true, .words = true},
    {"QLinearAdd", structure_quant_add, .bytes = true, .map = true},
    {"QuantizeLinear", structure_quantise, .bytes = true, .map = true},
    {"DequantizeLinear", structure_dequantise, .bytes = true, .map = true},
};

/* Operators that are not in this table go to structure_map, which has its own. */
static const struct form *form_of(const struct node *n)
{
	static const struct form other = {"", structure_map, .map = true};
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (!strcmp(forms[i].type, node_type(n)))
			return &forms[i];
	return &other;
}

bool structure_is_map(const struct node *n)
{
	return form_of(n)->map;
}

bool structure_is_bytes(const struct opctx *c)
{
	enum dtype x = c->nin > 0 ? c->in[0].dtype : DT_NONE, y = c->nout > 0 ? c->out[0].dtype : DT_NONE;
	bool words = x == DT_I32 || y == DT_I32;
	return dtype_is_byte(x) || dtype_is_byte(y) || (words && form_of(c->node)->words);
}

/* Whether there may be a task with tensors of these types. */
static bool types_fit(const struct opctx *c, bool bytes)
{
	if (c->nout < 1 || c->nin < 1)
		return false;
	if (structure_is_bytes(c))
		return bytes;
	return c->out[0].dtype == DT_F32 && c->in[0].dtype == DT_F32;
}

int structure_task(const struct opctx *c, struct task *out)
{
	const struct form *form = form_of(c->node);
	memset(out, 0, sizeof *out);
	for (int i = 1; i < c->nout; i++)
		if (c->out[i].dtype != DT_NONE)
			return fail(E_UNSUPPORTED, "no structured form with %d outputs", c->nout);
	if (!types_fit(c, form->bytes))
		return fail(E_UNSUPPORTED, "no structured form for this dtype");
	int rc = form->fn(c, out);
	if (rc < 0)
		return rc;
	return task_check(out) < 0 ? fail_in(E_UNSUPPORTED, "structured form") : E_OK;
}

int structure_operand(struct task *t, const struct opctx *c, char kind, int k, int *index)
{
	const struct tensor *x = kind == 'i' ? &c->in[k] : kind == 'o' ? &c->out[k] : &c->made[k];
	struct operand *o = &t->operand[t->noperands];
	if (t->noperands == MAX_OPERANDS || k > 9)
		return fail(E_UNSUPPORTED, "more than %d operands, or more than 10 of one kind",
			    MAX_OPERANDS);
	bool byte = dtype_is_byte(x->dtype) && structure_is_bytes(c);
	bool word = x->dtype == DT_I32 && (kind == 'm' || form_of(c->node)->words);
	if (x->dtype != DT_F32 && !word && !byte)
		return fail(E_UNSUPPORTED, "no structured form for dtype %s", dtype_name(x->dtype));
	for (int d = 0; d < x->shape.rank; d++)
		if (x->shape.d[d] < 1)
			return fail(E_UNSUPPORTED, "empty tensor");
	memset(o, 0, sizeof *o);
	o->name[0] = kind;
	o->name[1] = (char)('0' + k);
	o->role = kind == 'o' ? ROLE_OUT : x->data ? ROLE_CONST : ROLE_IN;
	o->dtype = x->dtype;
	o->dims = x->shape;
	for (int d = o->dims.rank; d < MAX_RANK; d++)
		o->dims.d[d] = 0;
	*index = t->noperands++;
	return E_OK;
}

int structure_tmp(struct task *t, const char *name, const struct shape *dims)
{
	struct operand *o = &t->operand[t->noperands];
	memset(o, 0, sizeof *o);
	snprintf(o->name, sizeof o->name, "%s", name);
	o->role = ROLE_TMP;
	o->dtype = DT_F32;
	o->dims = *dims;
	return t->noperands++;
}

struct stage *structure_stage(struct task *t)
{
	return &t->stage[t->nstages++];
}

int structure_axis(struct stage *s, const char *name, enum axis_kind kind, int64_t extent)
{
	struct axis *a = &s->axis[s->naxes];
	snprintf(a->name, sizeof a->name, "%s", name);
	a->kind = kind;
	a->extent = extent;
	return s->naxes++;
}

static void read_init(struct read *r, int operand)
{
	memset(r, 0, sizeof *r);
	r->operand = operand;
	for (int d = 0; d < MAX_RANK; d++)
		r->dim[d].table = -1;
}

struct read *structure_read(struct stage *s, int operand)
{
	struct read *r = &s->read[s->nreads++];
	read_init(r, operand);
	return r;
}

void structure_axes(struct stage *s, const struct shape *dims)
{
	for (int d = 0; d < dims->rank; d++) {
		char name[8] = {'d', (char)('0' + d)};
		structure_axis(s, name, AXIS_SPATIAL, dims->d[d]);
	}
}

struct read *structure_broadcast(struct task *t, struct stage *s, int operand, int rank)
{
	struct read *r = structure_read(s, operand);
	const struct shape *dims = &t->operand[operand].dims;
	for (int d = 0; d < dims->rank; d++) {
		int a = rank - dims->rank + d;
		if (a >= 0 && (dims->d[d] > 1 || s->axis[a].extent == 1))
			r->dim[d].coef[a] = 1;
	}
	return r;
}

void structure_out(struct task *t, struct stage *s, int operand)
{
	read_init(&s->out, operand);
	for (int d = 0; d < t->operand[operand].dims.rank; d++)
		s->out.dim[d].coef[d] = 1;
}

static void push(struct prog *p, enum prog_op op, int arg, float imm)
{
	if (p->n < MAX_PROG) {
		p->at[p->n].op = (uint8_t)op;
		p->at[p->n].arg = (uint8_t)arg;
		p->at[p->n].imm = imm;
	}
	p->n++; /* beyond MAX_PROG task_check refuses the program */
}

void prog_add(struct prog *p, enum prog_op op)
{
	push(p, op, 0, 0);
}

void prog_imm(struct prog *p, float v)
{
	push(p, P_IMM, 0, v);
}

void prog_read(struct prog *p, int read)
{
	push(p, P_READ, read, 0);
}

static void token(struct prog *p, const struct node *n, const char *w)
{
	if (*w == 'r' && w[1] >= '0' && w[1] <= '9') {
		prog_read(p, atoi(w + 1));
		return;
	}
	if (*w == '{') {
		char name[24];
		float fallback = 0;
		sscanf(w, "{%23[^=]=%f}", name, &fallback);
		prog_imm(p, node_float(n, name, fallback));
		return;
	}
	for (int op = P_ACC; op < P_OPS; op++) {
		if (!strcmp(prog_op_name((enum prog_op)op), w)) {
			prog_add(p, (enum prog_op)op);
			return;
		}
	}
	prog_imm(p, strtof(w, NULL));
}

void prog_text(struct prog *p, const struct node *n, const char *text)
{
	char words[256], *save = NULL;
	snprintf(words, sizeof words, "%s", text);
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
		token(p, n, w);
}
