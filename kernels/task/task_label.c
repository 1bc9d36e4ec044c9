/* SPDX-License-Identifier: Apache-2.0 */
/* Labels for people, derived from structure: "conv 3x3/2 64->128 28x28 add relu". */
#include "kernels/task/task_stage.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Appends at `used`, truncates at n; returns the new end. */
static size_t __attribute__((format(printf, 4, 5)))
put(char *out, size_t n, size_t used, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int more = used < n ? vsnprintf(out + used, n - used, fmt, ap) : 0;
	va_end(ap);
	return used + (size_t)(more > 0 ? more : 0);
}

static const char *const comb_names[] = {"map", "sum", "max", "min", "prod"};

static bool prog_has(const struct prog *p, enum prog_op op)
{
	for (int i = 0; i < p->n; i++)
		if (p->at[i].op == op)
			return true;
	return false;
}

/* Spatial extents of the output joined by x, from dim `from` on. */
static void put_dims(char *out, size_t n, const struct operand *o, int from)
{
	size_t used = 0;
	out[0] = 0;
	for (int d = from; d < o->dims.rank && used < n; d++)
		used = put(out, n, used, d > from ? "x%lld" : "%lld", (long long)o->dims.d[d]);
}

/* The window of read r, made of reduction axes that share a dim with a spatial axis: "3x3/2"; "" if there is
 * none. */
static void put_window(char *out, size_t n, const struct task *t, const struct stage *s, const struct read *r)
{
	size_t used = 0;
	int64_t stride = 1;
	out[0] = 0;
	for (int d = 0; d < t->operand[r->operand].dims.rank && used < n; d++) {
		int spatial = -1, reduction = -1;
		for (int a = 0; a < s->naxes; a++)
			if (r->dim[d].coef[a])
				*(s->axis[a].kind == AXIS_SPATIAL ? &spatial : &reduction) = a;
		if (spatial < 0 || reduction < 0)
			continue;
		stride = r->dim[d].coef[spatial];
		used = put(out, n, used, used ? "x%lld" : "%lld", (long long)s->axis[reduction].extent);
	}
	if (stride != 1 && used && used < n)
		put(out, n, used, "/%lld", (long long)stride);
}

/* Names of the most telling operators of the epilogue. */
static void put_post(char *out, size_t n, const struct prog *p)
{
	static const struct {
		enum prog_op op;
		const char *word;
	} words[] = {{P_SIGMOID, " sigmoid"}, {P_TANH, " tanh"}, {P_ERF, " erf"},   {P_SILU, " silu"},
		     {P_GELU, " gelu"},       {P_EXP, " exp"},   {P_SQRT, " sqrt"}, {P_SELECT, " select"},
		     {P_MAX, " relu"},        {P_MUL, " mul"}};
	size_t used = 0;
	out[0] = 0;
	for (size_t i = 0; i < sizeof words / sizeof *words && used < n; i++)
		if (prog_has(p, words[i].op))
			used = put(out, n, used, "%s", words[i].word);
}

static bool is_product(const struct stage *s)
{
	return s->comb == COMB_SUM && s->nreads >= 2 && prog_has(&s->body, P_MUL);
}

static bool is_depthwise(const struct task *t, const struct stage *s)
{
	const struct shape *w = &t->operand[s->read[1].operand].dims;
	return w->d[1] == 1 && w->d[0] > 1;
}

/* Skips a copy of the input at the start of a chain, which the label need not mention. */
static int first_stage(const struct task *t)
{
	const struct stage *s = &t->stage[0];
	return t->nstages > 1 && s->comb == COMB_NONE && s->body.n == 1 && s->nreads == 1 &&
	       t->operand[s->read[0].operand].role == ROLE_IN && is_product(&t->stage[1]);
}

/* Labels stages that each make an image by reduction: "conv 1x1 + dwconv 3x3/2 + conv 1x1 24->32 28x28". */
static bool label_block(const struct task *t, int first, char out[96])
{
	const struct stage *last = &t->stage[t->nstages - 1];
	char window[24], dims[32];
	size_t used = 0;
	for (int i = first; i < t->nstages; i++) {
		const struct stage *s = &t->stage[i];
		bool conv = is_product(s);
		if (s->comb == COMB_NONE || !s->nreads || t->operand[s->out.operand].dims.rank != 4 ||
		    t->operand[s->read[0].operand].dims.rank != 4)
			return false;
		put_window(window, sizeof window, t, s, &s->read[0]);
		used = put(out, 96, used, "%s%s %s", i > first ? " + " : "",
			   !conv                ? comb_names[s->comb]
			   : is_depthwise(t, s) ? "dwconv"
						: "conv",
			   window[0] ? window : "1x1");
	}
	put_dims(dims, sizeof dims, &t->operand[last->out.operand], 2);
	put(out, 96, used, " %lld->%lld %s", (long long)t->operand[t->stage[first].read[0].operand].dims.d[1],
	    (long long)t->operand[last->out.operand].dims.d[1], dims);
	return true;
}

static void label_product(const struct task *t, const struct stage *s, char out[96])
{
	const struct operand *w = &t->operand[s->read[1].operand], *y = &t->operand[s->out.operand];
	char window[24], dims[32], post[32];
	int64_t red = 1;
	put_window(window, sizeof window, t, s, &s->read[0]);
	put_post(post, sizeof post, &s->post);
	for (int a = 0; a < s->naxes; a++)
		red *= s->axis[a].kind == AXIS_REDUCTION ? s->axis[a].extent : 1;
	if (y->dims.rank < 3 || w->dims.rank != y->dims.rank) {
		put_dims(dims, sizeof dims, y, 0);
		put(out, 96, 0, "matmul %s k%lld%s", dims, (long long)red, post);
		return;
	}
	put_dims(dims, sizeof dims, y, 2);
	put(out, 96, 0, "%s %s %lld->%lld %s%s", is_depthwise(t, s) ? "dwconv" : "conv",
	    window[0] ? window : "1x1", (long long)t->operand[s->read[0].operand].dims.d[1],
	    (long long)y->dims.d[1], dims, post);
}

/* "attention", "softmax" or "norm" of rows, "3 matmuls" for a chain of products with vectors; else "3
 * stages". */
static void label_chain(const struct task *t, const char *dims, char out[96])
{
	int products = 0, tops = 0, exps = 0, roots = 0;
	for (int k = 0; k < t->nstages; k++) {
		const struct stage *s = &t->stage[k];
		products += is_product(s);
		tops += s->comb == COMB_MAX;
		exps += prog_has(&s->body, P_EXP);
		roots += prog_has(&s->post, P_SQRT);
	}
	if (tops == 1 && exps && products != 1)
		put(out, 96, 0, "%s %s", products ? "attention" : "softmax", dims);
	else if (roots == 1 && !products && t->nstages == 3)
		put(out, 96, 0, "norm %s", dims);
	else if (products > 1 && task_vectors(t))
		put(out, 96, 0, "%d matmuls %s", products, dims);
	else
		put(out, 96, 0, "%d stages %s", t->nstages, dims);
}

/* "u8" or "i8", whichever the task reads or writes first; "": neither. */
static const char *byte_type(const struct task *t)
{
	for (int i = 0; i < t->noperands; i++)
		if (dtype_is_byte(t->operand[i].dtype))
			return dtype_name(t->operand[i].dtype);
	return "";
}

static void label(const struct task *t, char out[96])
{
	int first = first_stage(t);
	const struct stage *s = &t->stage[first];
	char window[24] = "", dims[48], post[32];
	put_dims(dims, sizeof dims, &t->operand[t->stage[t->nstages - 1].out.operand], 0);
	if (t->nstages > first + 1) {
		if (!label_block(t, first, out))
			label_chain(t, dims, out);
	} else if (stage_resamples(t, s)) {
		put(out, 96, 0, "resize %s", dims);
	} else if (is_product(s)) {
		label_product(t, s, out);
	} else {
		bool copy = s->comb == COMB_NONE && s->body.n == 1;
		if (s->nreads)
			put_window(window, sizeof window, t, s, &s->read[0]);
		put_post(post, sizeof post, s->comb == COMB_NONE ? &s->body : &s->post);
		put(out, 96, 0, "%s%s%s %s%s", copy ? "copy" : comb_names[s->comb], window[0] ? " " : "",
		    window, dims, post);
	}
}

void task_label(const struct task *t, char out[96])
{
	const char *type = byte_type(t);
	label(t, out);
	if (*type)
		put(out, 96, strlen(out), " %s", type);
}
