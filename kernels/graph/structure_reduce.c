/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over axes, and chains of them with a map: softmax and normalisations. */
#include "kernels/graph/structure.h"

#include <stdio.h>
#include <string.h>

/* Axes of input i0: kept dims are spatial and come first, `red` dims are reductions; of[d] is the axis of dim
 * d. */
static void split_axes(struct stage *s, const struct shape *x, const bool *red, int *of)
{
	for (int kind = 0; kind < 2; kind++) {
		for (int d = 0; d < x->rank; d++) {
			char name[8] = {'d', (char)('0' + d)};
			if (red[d] == (kind == 1))
				of[d] =
				    structure_axis(s, name, kind ? AXIS_REDUCTION : AXIS_SPATIAL, x->d[d]);
		}
	}
}

static void read_whole(struct stage *s, int operand, const struct shape *x, const int *of)
{
	struct read *r = structure_read(s, operand);
	for (int d = 0; d < x->rank; d++)
		r->dim[d].coef[of[d]] = 1;
}

/* Index of a tensor that lacks the reduced dims, or keeps them with extent 1. */
static void index_kept(struct read *r, int operand, const struct shape *x, const bool *red, const int *of,
		       bool keep)
{
	memset(r, 0, sizeof *r);
	r->operand = operand;
	int at = 0;
	for (int d = 0; d < MAX_RANK; d++)
		r->dim[d].table = -1;
	for (int d = 0; d < x->rank; d++) {
		if (!red[d])
			r->dim[at].coef[of[d]] = 1;
		at += keep || !red[d];
	}
}

static int mark(bool *red, int64_t axis, int rank)
{
	axis += axis < 0 ? rank : 0;
	if (axis < 0 || axis >= rank)
		return fail(E_UNSUPPORTED, "axis %lld of rank %d", (long long)axis, rank);
	red[axis] = true;
	return E_OK;
}

/* Reads attribute `axes` (before opset 13 or 18) or input 1. None: all dims, or with noop_with_empty_axes no
 * dim. */
static int reduced_axes(const struct opctx *c, bool *red, int rank)
{
	const struct attr *a = node_attr(c->node, "axes");
	bool input = c->nin > 1 && c->in[1].dtype != DT_NONE;
	int64_t n = input ? shape_count(&c->in[1].shape) : a ? a->n : 0;
	int rc = E_OK;
	if (input && !c->in[1].data)
		return fail(E_UNSUPPORTED, "computed axes");
	if (!n && node_int(c->node, "noop_with_empty_axes", 0))
		return fail(E_UNSUPPORTED, "reduction over no axes");
	for (int64_t i = 0; i < n && rc >= 0; i++)
		rc = mark(red, input ? tensor_get_i64(&c->in[1], i) : a->ints[i], rank);
	for (int d = 0; d < rank; d++)
		red[d] |= !n;
	return rc;
}

int structure_reduce(const struct opctx *c, struct task *t)
{
	static const struct {
		char type[18], body[10];
		uint8_t comb; /* enum combiner */
		char post[9];
	} rows[] = {{"GlobalAveragePool", "r0", COMB_SUM, "mean"},
		    {"GlobalMaxPool", "r0", COMB_MAX, ""},
		    {"ReduceMean", "r0", COMB_SUM, "mean"},
		    {"ReduceSum", "r0", COMB_SUM, ""},
		    {"ReduceMax", "r0", COMB_MAX, ""},
		    {"ReduceMin", "r0", COMB_MIN, ""},
		    {"ReduceProd", "r0", COMB_PROD, ""},
		    {"ReduceSumSquare", "r0 square", COMB_SUM, ""},
		    {"ReduceL1", "r0 abs", COMB_SUM, ""},
		    {"ReduceL2", "r0 square", COMB_SUM, "acc sqrt"},
		    {"ReduceLogSum", "r0", COMB_SUM, "acc log"}};
	const struct shape *x = &c->in[0].shape;
	bool red[MAX_RANK] = {false}, global = !strncmp(node_type(c->node), "Global", 6);
	int of[MAX_RANK], ix, iy, rc = E_OK;
	for (int d = 0; global && d < x->rank; d++)
		red[d] = d >= 2;
	if (!global)
		rc = reduced_axes(c, red, x->rank);
	if (rc < 0 || (rc = structure_operand(t, c, 'i', 0, &ix)) < 0 ||
	    (rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return rc;
	if (!c->out[0].shape.rank)
		return fail(E_UNSUPPORTED, "no structured form for scalars");
	struct stage *s = structure_stage(t);
	split_axes(s, x, red, of);
	read_whole(s, ix, x, of);
	int64_t count = 1;
	for (int d = 0; d < x->rank; d++)
		count *= red[d] ? x->d[d] : 1;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (strcmp(rows[i].type, node_type(c->node)))
			continue;
		prog_text(&s->body, c->node, rows[i].body);
		s->comb = rows[i].comb;
		bool mean = !strcmp(rows[i].post, "mean");
		prog_text(&s->post, c->node, mean ? "acc" : rows[i].post);
		if (mean) {
			prog_imm(&s->post, (float)(1.0 / (double)count));
			prog_add(&s->post, P_MUL);
		}
	}
	index_kept(&s->out, iy, x, red, of, global || node_int(c->node, "keepdims", 1));
	return E_OK;
}

/* The shape of a value with one element per kept point: the kept dims, at least one. */
static void kept_shape(const struct shape *x, const bool *red, struct shape *out)
{
	memset(out, 0, sizeof *out);
	for (int d = 0; d < x->rank; d++)
		out->d[out->rank++] = red[d] ? 1 : x->d[d];
}

struct chain {
	const struct opctx *c;
	struct task *t;
	const struct shape *x;
	bool red[MAX_RANK];
	struct shape kept;
	int ix;
};

/* Adds a stage that reduces: body over r0 = x and r1.. = the given temporaries. */
static void reduce_stage(struct chain *h, const int *tmps, int n, const char *body, enum combiner comb,
			 const char *post, int out)
{
	struct stage *s = structure_stage(h->t);
	int of[MAX_RANK];
	split_axes(s, h->x, h->red, of);
	read_whole(s, h->ix, h->x, of);
	for (int i = 0; i < n; i++)
		index_kept(structure_read(s, tmps[i]), tmps[i], h->x, h->red, of, true);
	prog_text(&s->body, h->c->node, body);
	s->comb = comb;
	prog_text(&s->post, h->c->node, post);
	index_kept(&s->out, out, h->x, h->red, of, true);
}

/* Adds the last stage: a map over x and the temporaries. */
static struct stage *map_stage(struct chain *h, const int *tmps, int n, const char *body)
{
	struct stage *s = structure_stage(h->t);
	structure_axes(s, h->x);
	structure_broadcast(h->t, s, h->ix, h->x->rank);
	for (int i = 0; i < n; i++) {
		struct read *r = structure_read(s, tmps[i]);
		for (int d = 0; d < h->x->rank; d++)
			r->dim[d].coef[d] = !h->red[d];
	}
	prog_text(&s->body, h->c->node, body);
	return s;
}

static int chain_begin(struct chain *h, const struct opctx *c, struct task *t, int first, int last)
{
	memset(h, 0, sizeof *h);
	h->c = c;
	h->t = t;
	h->x = &c->in[0].shape;
	for (int d = first; d < last; d++)
		h->red[d] = true;
	kept_shape(h->x, h->red, &h->kept);
	return h->x->rank ? structure_operand(t, c, 'i', 0, &h->ix)
			  : fail(E_UNSUPPORTED, "no structured form for scalars");
}

static int chain_end(struct chain *h, struct stage *s)
{
	int iy, rc = structure_operand(h->t, h->c, 'o', 0, &iy);
	if (rc >= 0)
		structure_out(h->t, s, iy);
	return rc;
}

enum { SMALL_SOFTMAX = 4 };

/* Softmax over a few elements, as a map: 1 / sum_j e^(x_j - x_i), where e^0 is not computed. An overflow
 * correctly gives 0. Lanes then lie along other dims. */
static int softmax_map(struct chain *h, int axis)
{
	int64_t n = h->x->d[axis];
	struct stage *s = map_stage(h, NULL, 0, "1");
	for (int64_t j = 1; j < n; j++) {
		struct read *r = structure_broadcast(h->t, s, h->ix, h->x->rank);
		r->dim[axis].off = j;
		r->dim[axis].mod = n;
		prog_read(&s->body, (int)j);
		prog_text(&s->body, h->c->node,
			  "-3.40282347e38 r0 max sub exp add"); /* avoids -inf - -inf; NaN stays */
	}
	prog_text(&s->body, h->c->node, "recip");
	for (int twice = 0; twice < 2; twice++) /* + max - max: NaN if all are -inf or one is inf */
		for (int64_t j = 0; j < n; j++) {
			prog_read(&s->body, (int)j);
			if (j)
				prog_text(&s->body, h->c->node, "max");
		}
	prog_text(&s->body, h->c->node, "sub add");
	return chain_end(h, s);
}

/* e^(x - max) is stored for both the sum and the division. */
static int softmax_chain(struct chain *h, bool log)
{
	struct task *t = h->t;
	int top = structure_tmp(t, "t0", &h->kept), e = structure_tmp(t, "t1", h->x),
	    sum = structure_tmp(t, "t2", &h->kept), x = h->ix;
	reduce_stage(h, NULL, 0, "r0", COMB_MAX, "", top);
	structure_out(t, map_stage(h, &top, 1, "r0 r1 sub exp"), e);
	h->ix = e;
	reduce_stage(h, NULL, 0, "r0", COMB_SUM, log ? "acc log" : "acc recip", sum);
	h->ix = log ? x : e;
	struct stage *s =
	    log ? map_stage(h, (int[]){top, sum}, 2, "r0 r1 sub r2 sub") : map_stage(h, &sum, 1, "r0 r1 mul");
	h->ix = x;
	return chain_end(h, s);
}

/* Before opset 13 all dims from `axis` (default 1) on count as one. */
int structure_softmax(const struct opctx *c, struct task *t)
{
	bool old = c->opset < 13;
	int rank = c->in[0].shape.rank;
	int64_t axis = node_int(c->node, "axis", old ? 1 : -1);
	struct chain h;
	axis += axis < 0 ? rank : 0;
	if (axis < 0 || axis >= rank)
		return fail(E_UNSUPPORTED, "softmax over axis %lld", (long long)axis);
	int last = old ? rank : (int)axis + 1, rc = chain_begin(&h, c, t, (int)axis, last);
	if (rc < 0)
		return rc;
	bool log = !strcmp(node_type(c->node), "LogSoftmax");
	if (!log && last == axis + 1 && h.x->d[axis] <= SMALL_SOFTMAX)
		return softmax_map(&h, (int)axis);
	return softmax_chain(&h, log);
}

/* (x - mean) / sqrt(var + eps) * scale + bias; over the dims from `axis` (layer) or all after the channel
 * (instance). */
int structure_normalize(const struct opctx *c, struct task *t)
{
	bool layer = !strcmp(node_type(c->node), "LayerNormalization");
	int rank = c->in[0].shape.rank, rc;
	int64_t axis = layer ? node_int(c->node, "axis", -1) : 2, count = 1;
	struct chain h;
	axis += axis < 0 ? rank : 0;
	if (axis < 0 || axis >= rank || c->nin < 2)
		return fail(E_UNSUPPORTED, "normalisation from axis %lld", (long long)axis);
	if ((rc = chain_begin(&h, c, t, (int)axis, rank)) < 0)
		return rc;
	for (int d = (int)axis; d < rank; d++)
		count *= h.x->d[d];
	int tmp[2] = {structure_tmp(t, "t0", &h.kept), structure_tmp(t, "t1", &h.kept)};
	reduce_stage(&h, NULL, 0, "r0", COMB_SUM, "acc", tmp[0]);
	prog_imm(&t->stage[0].post, (float)(1.0 / (double)count));
	prog_add(&t->stage[0].post, P_MUL);
	reduce_stage(&h, tmp, 1, "r0 r1 sub square", COMB_SUM, "acc", tmp[1]);
	prog_imm(&t->stage[1].post, (float)(1.0 / (double)count));
	prog_text(&t->stage[1].post, c->node, "mul {epsilon=1e-5} add sqrt recip");
	struct stage *s = map_stage(&h, tmp, 2, "r0 r1 sub r2 mul");
	for (int k = 1; k < 3; k++) {
		int operand;
		if (k >= c->nin || c->in[k].dtype == DT_NONE)
			continue;
		if ((rc = structure_operand(t, c, 'i', k, &operand)) < 0)
			return rc;
		if (layer)
			structure_broadcast(t, s, operand, rank);
		else
			structure_read(s, operand)->dim[0].coef[1] = 1;
		prog_read(&s->body, s->nreads - 1);
		prog_add(&s->body, k == 1 ? P_MUL : P_ADD);
	}
	return chain_end(&h, s);
}

/* x * (bias + alpha / size * sum of squares of the neighbouring channels) ^ -beta; the usual betas are
 * computed with square roots. */
int structure_lrn(const struct opctx *c, struct task *t)
{
	const struct shape *x = &c->in[0].shape;
	int64_t size = node_int(c->node, "size", 1);
	float alpha = node_float(c->node, "alpha", 1e-4f), beta = node_float(c->node, "beta", 0.75f);
	float bias = node_float(c->node, "bias", 1);
	int ix, iy, rc = structure_operand(t, c, 'i', 0, &ix);
	if (rc >= 0 && (x->rank < 2 || x->rank >= MAX_AXES || size < 1 || size > x->d[1] * 2))
		rc = fail(E_UNSUPPORTED, "LRN of rank %d, size %lld", x->rank, (long long)size);
	if (rc < 0 || (rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return rc;
	struct stage *s = structure_stage(t);
	structure_axes(s, x);
	int j = structure_axis(s, "j", AXIS_REDUCTION, size);
	struct read *r = structure_broadcast(t, s, ix, x->rank);
	r->dim[1].coef[1] = r->dim[1].coef[j] = 1;
	r->dim[1].off = -((size - 1) / 2);
	structure_broadcast(t, s, ix, x->rank);
	prog_text(&s->body, c->node, "r0 square");
	s->comb = COMB_SUM;
	char base[64], post[200];
	double a = (double)(alpha / (float)size), b = (double)bias;
	snprintf(base, sizeof base, "acc %.9g mul %.9g add", a, b);
	if (beta == 0.75f)
		snprintf(post, sizeof post, "r1 %s sqrt %s sqrt sqrt mul div", base, base);
	else
		snprintf(post, sizeof post,
			 beta == 0.5f ? "r1 %s sqrt div"
			 : beta == 1  ? "r1 %s div"
				      : "r1 %s {beta=0.75} neg pow mul",
			 base);
	prog_text(&s->post, c->node, post);
	structure_out(t, s, iy);
	return E_OK;
}
