/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum. Products of two operands become MatMul (kernels/graph/pass_einsum.c); this serves all others. */
#include "kernels/graph/einsum.h"
#include "kernels/graph/shapes.h"
#include "platform/base/until.h"

#include <string.h>

static const struct op_row rows[] = {
    {"Einsum", 12, 0, 1, EINSUM_OPERANDS, 1, 1, 0, "equation"},
    {""},
};

#define MOST_PRODUCTS 0x1p36

/* A symbol is a letter, or ELLIPSIS + its distance from the last axis that the ellipsis stands for. */
enum { ELLIPSIS = 128, SYMBOLS = ELLIPSIS + MAX_RANK };

struct reading {
	struct einsum *e;
	signed char of[SYMBOLS]; /* the label of a symbol; -1: none yet */
	int times[SYMBOLS];      /* how often the operands have it */
	int covered;             /* the most axes that an ellipsis stands for */
};

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Reads the symbols up to `end`, without spaces; returns their number. rank -1: of an output, whose ellipsis
 * stands for as many axes as the operands' largest. */
static int symbols(const struct reading *r, const char *p, const char *end, int rank, int out[MAX_RANK])
{
	int n = 0, letters = 0, dots = -1;
	for (const char *q = p; q < end; q++)
		letters += is_letter(*q);
	int covers = rank < 0 ? r->covered : rank - letters;
	for (; p < end; p++) {
		bool more = *p == '.';
		if (*p == ' ')
			continue;
		if (more && (dots >= 0 || end - p < 3 || strncmp(p, "...", 3) != 0))
			return fail(E_CORRUPT, "equation: neither letter nor ellipsis");
		if (!more && !is_letter(*p))
			return fail(E_CORRUPT, "equation: neither letter nor ellipsis");
		if (n + (more ? covers : 1) > MAX_RANK)
			return fail(E_UNSUPPORTED, "equation: more than %d axes", MAX_RANK);
		for (int k = covers; more && k > 0; k--)
			out[n++] = ELLIPSIS + k - 1;
		if (more)
			dots = n, p += 2;
		else
			out[n++] = *p;
	}
	if (rank >= 0 && n != rank)
		return fail(E_CORRUPT, "equation: %d axes for an operand of rank %d", n, rank);
	return n;
}

static int label_of(struct reading *r, int symbol)
{
	if (r->of[symbol] < 0) {
		if (r->e->labels == EINSUM_LABELS)
			return fail(E_UNSUPPORTED, "equation: more than %d labels", EINSUM_LABELS);
		r->of[symbol] = (signed char)r->e->labels;
		r->e->size[r->e->labels++] = 1;
	}
	return r->of[symbol];
}

static int read_output(struct reading *r, const char *arrow)
{
	int symbol[SYMBOLS], n = 0;
	if (arrow) {
		n = symbols(r, arrow + 2, arrow + strlen(arrow), -1, symbol);
	} else {
		for (int k = r->covered; k > 0; k--)
			symbol[n++] = ELLIPSIS + k - 1;
		for (int s = 0; s < ELLIPSIS; s++)
			if (r->times[s] == 1)
				symbol[n++] = s;
	}
	if (n > MAX_RANK)
		return fail(E_UNSUPPORTED, "equation: more than %d axes", MAX_RANK);
	for (int i = 0; i < n; i++) {
		if (!r->times[symbol[i]] || r->of[symbol[i]] >= 0)
			return fail(E_CORRUPT,
				    "equation: a label of the output that no operand has, or twice");
		if (label_of(r, symbol[i]) < 0)
			return E_UNSUPPORTED;
	}
	r->e->out = n < 0 ? 0 : n;
	return n < 0 ? n : E_OK;
}

static int add_axes(struct reading *r, int k, const struct shape *s, const int *symbol)
{
	int64_t step = 1;
	for (int i = 0; i < s->rank; i++) {
		int l = label_of(r, symbol[i]);
		if (l < 0)
			return l;
		r->e->in[k].label[i] = (signed char)l;
	}
	for (int i = s->rank - 1; i >= 0; i--) {
		int l = r->e->in[k].label[i];
		int64_t *size = &r->e->size[l];
		if (s->d[i] != 1 && *size != 1 && s->d[i] != *size)
			return fail(E_CORRUPT, "equation: extents %lld and %lld of one label",
				    (long long)*size, (long long)s->d[i]);
		*size = s->d[i] == 1 ? *size : s->d[i];
		r->e->in[k].axes[l]++;
		r->e->in[k].step[l] += s->d[i] == 1 ? 0 : step;
		step *= s->d[i];
	}
	return E_OK;
}

int einsum_read(const char *equation, int n, const struct tensor *in, struct einsum *e)
{
	int symbol[EINSUM_OPERANDS][MAX_RANK], rc = E_OK;
	struct reading r = {.e = e};
	const char *arrow = strstr(equation, "->"), *p = equation, *end = arrow ? arrow : p + strlen(p);
	memset(r.of, -1, sizeof r.of);
	*e = (struct einsum){.labels = 0};
	if (n < 1 || n > EINSUM_OPERANDS)
		return fail(E_UNSUPPORTED, "%d operands; at most %d are possible", n, EINSUM_OPERANDS);
	for (int k = 0; k < n; k++) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
		if (!comma != (k == n - 1))
			return fail(E_CORRUPT, "equation: not of %d operand%s", n, plural_s(n));
		if ((rc = symbols(&r, p, stop, in[k].shape.rank, symbol[k])) < 0)
			return rc;
		int covered = 0;
		for (int i = 0; i < in[k].shape.rank; i++) {
			r.times[symbol[k][i]]++;
			covered += symbol[k][i] >= ELLIPSIS;
		}
		r.covered = covered > r.covered ? covered : r.covered;
		p = stop + 1;
	}
	rc = read_output(&r, arrow);
	for (int k = 0; k < n && rc >= 0; k++)
		rc = add_axes(&r, k, &in[k].shape, symbol[k]);
	e->products = 1;
	for (int l = 0; l < e->labels; l++)
		e->products *= (double)e->size[l];
	return rc;
}

static int infer(struct opctx *c)
{
	struct einsum e;
	struct shape out = {0};
	int rc = E_OK;
	for (int i = 0; i < c->nin && rc >= 0; i++)
		rc = in_need(c, i, DTYPE_BIT(DT_F32) | DTYPE_BIT(DT_F64));
	for (int i = 1; i < c->nin && rc >= 0; i++)
		rc = in_need(c, i, DTYPE_BIT(c->in[0].dtype));
	if (rc >= 0)
		rc = einsum_read(node_str(c->node, "equation", ""), c->nin, c->in, &e);
	if (rc < 0)
		return rc;
	if (e.products > MOST_PRODUCTS)
		return fail(E_UNSUPPORTED, "%g products are too many", e.products);
	out.rank = e.out;
	memcpy(out.d, e.size, sizeof out.d);
	return out_set(c, 0, c->in[0].dtype, &out);
}

struct sums {
	struct opctx *c;
	struct einsum e;
	int64_t next, products, check_at; /* the output's element; the number of products so far */
	bool over;
};

/* Adds up the products over the labels from `label` on, where operand k is at element at[k]. Those of the
 * output come first: each combination of these is an element. */
static double sum(struct sums *s, int label, const int64_t *at)
{
	double all = 0;
	int64_t here[EINSUM_OPERANDS];
	if (label == s->e.labels) {
		all = 1;
		s->over = until_over_at(s->products++, &s->check_at);
		for (int k = 0; k < s->c->nin; k++)
			all *= tensor_get(&s->c->in[k], at[k]);
	}
	for (int64_t i = 0; label < s->e.labels && i < s->e.size[label] && !s->over; i++) {
		for (int k = 0; k < s->c->nin; k++)
			here[k] = at[k] + i * s->e.in[k].step[label];
		all += sum(s, label + 1, here);
	}
	if (label == s->e.out)
		tensor_set(&s->c->out[0], s->next++, all);
	return all;
}

static int eval(struct opctx *c)
{
	const int64_t start[EINSUM_OPERANDS] = {0};
	struct sums s = {.c = c};
	int rc = einsum_read(node_str(c->node, "equation", ""), c->nin, c->in, &s.e);
	if (rc >= 0 && shape_count(&c->out[0].shape))
		sum(&s, 0, start);
	return rc >= 0 && s.over ? until_check() : rc;
}

const struct op op_einsum = {.rows = rows, .infer = infer, .eval = eval};
